"""Share links: creating, changing and revoking them, and reading a website by one.

A link shows traffic alone, without event_data. Its owner may add a password, filters that hold for every answer, hide
single events, and allow origins whose pages may show the link's page in a frame (tally/web/pages.py). `by_link` puts
all of it in the View, which the reports' endpoints apply.

A password is exchanged for a cookie of the link's own path. Its value is the time at which it expires, with a message
authentication code over this time, the link's token and the password's hash: another password or another token ends
it, and nothing is stored. Pages of other sites may frame the page, and a browser sends the cookie there where it is
https (SameSite=None with Partitioned); it authorises reading alone, and no response may be read by another origin.
"""

import secrets
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts import changes, passwords
from tally.accounts.changes import WebsiteDeleted
from tally.accounts.share_links import ShareLink, change_share_link, revoke_share_link
from tally.api import params
from tally.api.auth import AUTH, Auth, body, flag, invalid, text
from tally.api.context import READ_API, View
from tally.api.definitions import written_filters
from tally.api.websites import exact_origins, share_shown
from tally.errors import ApiError
from tally.events.filters import Filter
from tally.events.validation import TRAFFIC_TYPES
from tally.events.website import Website
from tally.http.request_paths import public_prefix
from tally.http.responses import RESPONSE_COOKIES, json_response
from tally.timestamps import HOUR_MS

_TOKEN_BYTES = 18  # 24 characters
COOKIE = "tally-share"
# A working day.
ACCESS_LASTS_MS = 12 * HOUR_MS
_OPTIONS = ("password", "origins", "filters", "hide_events", "badges")


# --- by the owner


async def share(request: web.Request) -> web.Response:
    """POST /api/account/websites/{id}/share: create a share link; an older one is revoked and its options are kept."""
    auth = request.app[AUTH]
    owner = (await auth.session(request)).owner
    website = await request.app[READ_API].website(request, owner.number)
    token, now_ms = secrets.token_urlsafe(_TOKEN_BYTES), auth.clock.wall_ms()
    try:
        await auth.registry.change(changes.share_website, website.number, token, now_ms)
    except WebsiteDeleted:
        raise ApiError(errors.UNKNOWN_WEBSITE) from None
    return _shown(auth, website, 201)


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account/websites/{id}/share: set the options that are sent."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, _OPTIONS)
    website = await request.app[READ_API].website(request, session.owner.number)
    changed: dict[str, Any] = {}
    if "origins" in sent:
        changed["origins"] = _frame_origins(sent)
    if "filters" in sent:
        changed["filters"] = _fixed_filters(sent)
    if "hide_events" in sent:
        changed["hides_events"] = flag(sent, "hide_events")
    if "badges" in sent:
        changed["shows_badges"] = flag(sent, "badges")
    if "password" in sent:
        changed["password_hash"] = await _password_hash(auth, sent)
    if not await auth.registry.change(change_share_link, website.number, changed):
        raise ApiError(errors.UNKNOWN_SHARE_LINK, "This website has no share link: create one first.")
    return _shown(auth, website)


async def unshare(request: web.Request) -> web.Response:
    """DELETE /api/account/websites/{id}/share: revoke the share link."""
    auth = request.app[AUTH]
    owner = (await auth.session(request)).owner
    website = await request.app[READ_API].website(request, owner.number)
    await auth.registry.change(revoke_share_link, website.number)
    return web.Response(status=204)


def _shown(auth: Auth, website: Website, status: int = 200) -> web.Response:
    links = auth.registry.cache.shares.values()
    return json_response({"data": share_shown(next((one for one in links if one.website == website.id), None))}, status)


def _frame_origins(sent: dict[str, Any]) -> list[str]:
    origins = exact_origins(sent)
    for one in origins:
        # The syntax of a policy has no form for IPv6 addresses.
        if not one.startswith(("https://", "http://")) or "[" in one:
            raise invalid("origins", f"{one} cannot show a frame: write https://host, without an IPv6 address.")
    return list(dict.fromkeys(origins))


def _fixed_filters(sent: dict[str, Any]) -> list[str]:
    written = written_filters(sent, "filters", least=0)
    for of in params.parse_filters(written):
        if of.field == "type" and of.is_exact and not {*of.values} <= {*TRAFFIC_TYPES}:
            raise invalid("filters", f"filters: filter_type must be one of {', '.join(TRAFFIC_TYPES)}.")
    return written


async def _password_hash(auth: Auth, sent: dict[str, Any]) -> str:
    """Return the hash of a new password; "" where it is removed."""
    if sent["password"] is None:
        return ""
    password = text(sent, "password")
    if not passwords.is_allowed(password):
        raise invalid("password", f"{passwords.RULE}.")
    return await auth.hashing(passwords.hashed, password, is_known=True)


# --- by the link


def _link(request: web.Request) -> tuple[ShareLink, Website]:
    """Return the share link in the path and its website. Raises ApiError 404, 429."""
    auth = request.app[AUTH]
    auth.count(auth.viewers, auth.client(request))
    link = auth.registry.cache.shares.get(request.match_info["token"])
    website = None if link is None else auth.registry.website(link.website)
    if link is None or website is None:
        raise ApiError(errors.UNKNOWN_SHARE_LINK)
    return link, website


async def by_link(request: web.Request) -> View:
    """Authorise a request by the share link in its path. Raises ApiError 401, 404, 429."""
    link, website = _link(request)
    if link.options.password_hash and not _has_access(request, link):
        raise ApiError(errors.SHARE_PASSWORD_REQUIRED)
    by = "Cookie" if link.options.password_hash else ""
    return View(website, by, True, fixed_filters(link.options.filters), link.options.hides_events)


def by_badge(request: web.Request) -> View:
    """Authorise a request for a badge, which takes no password. Raises ApiError 403, 404, 429."""
    link, website = _link(request)
    if not link.options.shows_badges:
        raise ApiError(errors.NOT_SHARED, "This share link has no badges: allow them in the website's settings.")
    return View(website, "", True, fixed_filters(link.options.filters), link.options.hides_events)


@lru_cache(256)
def fixed_filters(written: tuple[str, ...]) -> tuple[Filter, ...]:
    """Return the filters of a link. Raises ApiError 400, never fewer filters."""
    return params.parse_filters(written)


async def shared(request: web.Request) -> web.Response:
    """GET /api/share/{token}: the website that a share link shows, and what the link fixes and hides."""
    auth, view = request.app[AUTH], await by_link(request)
    zone = view.website.time_zone or auth.registry.cache.owners[view.website.account].time_zone
    shown = {
        "name": view.website.name,
        "domain": view.website.domain,
        "time_zone": zone,
        "demo": auth.is_demo,
        "filters": {of.name: list(of.values) for of in view.filters},
        "hides_events": view.hides_events,
    }
    return json_response({"data": shown})


async def unlock(request: web.Request) -> web.Response:
    """POST /api/share/{token}/password: check the link's password and set the cookie that opens the link."""
    auth = request.app[AUTH]
    auth.check_site(request)
    _link(request)
    password = text(await body(request, ("password",)), "password")
    # The link may have changed while the body arrived.
    link = auth.registry.cache.shares.get(request.match_info["token"])
    if link is None:
        raise ApiError(errors.UNKNOWN_SHARE_LINK)
    password_hash = link.options.password_hash
    if password_hash:
        attempt = auth.take_link_try(request, link)
        try:
            is_right = passwords.is_allowed(password) and await auth.hashing(
                passwords.is_right, password_hash, password
            )
        except BaseException:
            attempt.give_back()
            raise
        if not is_right:
            raise ApiError(errors.WRONG_SHARE_PASSWORD, field="password")
        attempt.give_back()
        _give_access(request, link)
    return web.Response(status=204)


def _has_access(request: web.Request, link: ShareLink) -> bool:
    """Return whether the request has the cookie of the link's password."""
    value = request.cookies.get(COOKIE, "")
    ends, _, _ = value.partition(".")
    auth = request.app[AUTH]
    if not (ends.isascii() and ends.isdigit() and len(ends) <= 15) or int(ends) <= auth.clock.monotonic_wall_ms():
        return False
    return secrets.compare_digest(value.encode("utf-8", "surrogateescape"), _access(auth, link, ends).encode())


def _give_access(request: web.Request, link: ShareLink) -> None:
    auth = request.app[AUTH]
    value = _access(auth, link, str(auth.clock.monotonic_wall_ms() + ACCESS_LASTS_MS))
    is_secure = auth.is_secure(request)
    site = "None; Secure; Partitioned" if is_secure and link.options.origins else "Strict" + "; Secure" * is_secure
    path = f"{public_prefix(request)}/api/share/{link.token}"
    line = f"{COOKIE}={value}; Path={path}; Max-Age={ACCESS_LASTS_MS // 1000}; HttpOnly; SameSite={site}"
    request.setdefault(RESPONSE_COOKIES, {})[COOKIE] = line


def _access(auth: Auth, link: ShareLink, ends: str) -> str:
    """Return the cookie's value for a time in milliseconds."""
    signed = "\0".join((ends, link.token, link.options.password_hash)).encode()
    mac = blake2b(signed, digest_size=32, key=auth.registry.key_salt, person=b"share access")
    return f"{ends}.{mac.hexdigest()}"
