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
from tally.accounts.accounts import AccountFull
from tally.accounts.audit import Entry, if_done
from tally.accounts.changes import WebsiteDeleted
from tally.accounts.share_links import ShareLink, change_share_link, revoke_share_link, revoke_share_links
from tally.api import params
from tally.api.auth import AUTH, Auth, Session, body, flag, invalid, text
from tally.api.context import View
from tally.api.definitions import written_filters
from tally.api.websites import exact_origins, links_shown, name_of
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


async def links(request: web.Request) -> web.Response:
    """GET .../share-links: the share links of a website with their options."""
    auth = request.app[AUTH]
    website = await auth.website(request, await auth.session(request), "read")
    return json_response({"data": links_shown(auth, [website])[website.id]})


async def share(request: web.Request) -> web.Response:
    """POST .../share-links: create a share link, with the name and the options that are sent, in one transaction."""
    auth, (session, website, sent) = request.app[AUTH], await _own(request, ("name", *_OPTIONS))
    changed, id, now_ms = await _changed(auth, {"name": None} | sent), secrets.token_hex(8), auth.clock.wall_ms()
    entry, values = Entry("share_link_created", website.id, changed["name"]), (id, _new_token(), changed, now_ms)
    try:
        await auth.change(session, website.account, entry, changes.add_share_link, website.number, *values)
    except WebsiteDeleted:
        raise ApiError(errors.UNKNOWN_WEBSITE) from None
    except AccountFull as full:
        raise ApiError(errors.TOO_MANY_SHARE_LINKS, str(full)) from None
    return _shown(auth, website, id, 201)


async def change(request: web.Request) -> web.Response:
    """PATCH .../share-links/{link}: set what is sent; `new_address` replaces the token and keeps the rest."""
    auth, (session, website, sent) = request.app[AUTH], await _own(request, ("name", "new_address", *_OPTIONS))
    changed, id = await _changed(auth, sent), request.match_info["link"]
    if "new_address" in sent and flag(sent, "new_address"):
        changed["token"] = _new_token()
    entry = if_done(Entry("share_link_changed", website.id, _name(auth, website, id), {"options": sorted(sent)}))
    if not await auth.change(session, website.account, entry, change_share_link, website.number, id, changed):
        raise ApiError(errors.UNKNOWN_SHARE_LINK, "The website has no share link with this id.")
    return _shown(auth, website, id)


async def unshare(request: web.Request) -> web.Response:
    """DELETE .../share-links/{link}: revoke a share link."""
    auth, (session, website, _) = request.app[AUTH], await _own(request)
    id = request.match_info["link"]
    entry = if_done(Entry("share_link_revoked", website.id, _name(auth, website, id)))
    if not await auth.change(session, website.account, entry, revoke_share_link, website.number, id):
        raise ApiError(errors.UNKNOWN_SHARE_LINK, "The website has no share link with this id.")
    return web.Response(status=204)


async def unshare_all(request: web.Request) -> web.Response:
    """DELETE /api/account/share-links: revoke the share links of all websites of the account."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    number = auth.account(request, session, "configure").number
    await auth.change(session, number, Entry("share_links_revoked"), revoke_share_links, number)
    return web.Response(status=204)


async def _own(request: web.Request, fields: tuple[str, ...] | None = None) -> tuple[Session, Website, dict[str, Any]]:
    """Return the session, the website in the path, and the body where it may have fields. Raises ApiError."""
    auth = request.app[AUTH]
    sent: dict[str, Any] = {}
    if fields is None:
        session = await auth.session(request)
    else:
        session, sent = await auth.session_and_body(request, fields)
    return session, await auth.website(request, session, "define"), sent


def _name(auth: Auth, website: Website, id: str) -> str:
    """Return the name of a website's share link; "" where it has none with this id."""
    links = auth.registry.cache.shares.values()
    return next((link.name for link in links if link.website == website.id and link.id == id), "")


def _new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


async def _changed(auth: Auth, sent: dict[str, Any]) -> dict[str, Any]:
    """Return the name and the options of a share link that were sent, by their columns. Raises ApiError 400, 503."""
    changed: dict[str, Any] = {}
    if "name" in sent:
        changed["name"] = name_of(sent)
        if not changed["name"]:
            raise invalid("name", "name must not be empty.")
    if "origins" in sent:
        changed["origins"] = _frame_origins(sent)
    if "filters" in sent:
        changed["filters"] = _fixed_filters(sent)
    if "hide_events" in sent:
        # Null is the default.
        changed["hides_events"] = sent["hide_events"] is None or flag(sent, "hide_events")
    if "badges" in sent:
        changed["shows_badges"] = flag(sent, "badges")
    if "password" in sent:
        changed["password_hash"] = await _password_hash(auth, sent)
    return changed


def _shown(auth: Auth, website: Website, id: str, status: int = 200) -> web.Response:
    """Return a share link of a website. Raises ApiError 404 where it has just been revoked."""
    for link in links_shown(auth, [website])[website.id]:
        if link["id"] == id:
            return json_response({"data": link}, status)
    raise ApiError(errors.UNKNOWN_SHARE_LINK)


def _frame_origins(sent: dict[str, Any]) -> list[str]:
    origins = exact_origins(sent)
    for origin in origins:
        # The syntax of a policy has no form for IPv6 addresses.
        if not origin.startswith(("https://", "http://")) or "[" in origin:
            raise invalid("origins", f"{origin} cannot show a frame: write https://host, without an IPv6 address.")
    return list(dict.fromkeys(origins))


def _fixed_filters(sent: dict[str, Any]) -> list[str]:
    written = written_filters(sent, "filters", least=0)
    for filter_ in params.parse_filters(written):
        if filter_.field == "type" and filter_.is_exact and not {*filter_.values} <= {*TRAFFIC_TYPES}:
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
    zone = view.website.time_zone or auth.registry.cache.time_zone_of(view.website.account)
    shown = {
        "name": view.website.name,
        "domain": view.website.domain,
        "time_zone": zone,
        "day_offset_minutes": view.website.day_offset_minutes,
        "demo": auth.is_demo,
        "filters": {filter_.name: list(filter_.values) for filter_ in view.filters},
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
