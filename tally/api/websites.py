"""/api/account/websites and /api/share: an account's websites, their settings, and reading by session or share link.

A website of another account is answered as one that does not exist. Input is checked by the same functions as on the
command line. A change takes effect at once: for collect, for every report, in this answer.

A deleted website disappears with its answer from lists, reports and collect. Its rows are deleted in the background
(tally/maintenance/deletion.py).

The reports are those of the read API (tally/api/reports.py); `by_session` and `by_link` authorise them here. A share
link shows no event_data.
"""

import asyncio
import secrets
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts import changes
from tally.accounts.accounts import Account, AccountError, check_name
from tally.accounts.changes import WebsiteDeleted
from tally.accounts.share_links import revoke_share_link
from tally.accounts.websites import DomainTaken, Website
from tally.api.auth import AUTH, invalid, text
from tally.api.context import READ_API, View
from tally.errors import ApiError
from tally.events.urls import BadHost, exact_origin, registrable_domain
from tally.http.responses import json_response
from tally.maintenance import deletion
from tally.reports.engine import SERVER, Claim, Requester
from tally.timestamps import iso

# An app has a handful of web views.
MOST_ORIGINS = 50
# A host has at most 253 characters; a pasted URL has more.
_MAX_INPUT_CHARACTERS = 2_000
_TOKEN_BYTES = 18  # 24 characters
_SHARE_PATH = "/share/"


async def websites(request: web.Request) -> web.Response:
    """GET /api/account/websites, oldest first."""
    auth = request.app[AUTH]
    owner = (await auth.session(request)).owner
    own = [website for website in auth.store.registry.websites.values() if website.account == owner.number]
    return json_response({"data": await _shown(request, own)})


async def website(request: web.Request) -> web.Response:
    """GET /api/account/websites/{id}: the website, and the newest origins whose events were refused."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    # So that an import that has just ended counts.
    await auth.store.look_again()
    found = await request.app[READ_API].website(request, session.owner.number)
    (shown,) = await _shown(request, [found])
    refused = auth.store.rejected_events.origins.newest(found.number, auth.clock.wall_ms())
    shown["refused_origins"] = [
        {"origin": one.origin, "events": one.events, "last_at": iso(one.last_ms)} for one in refused
    ]
    return json_response({"data": shown})


async def _shown(request: web.Request, own: list[Website]) -> list[dict[str, Any]]:
    requester = Requester(Claim(False, own[0].account) if own else SERVER)
    traffic = await request.app[READ_API].reports.traffic([website.number for website in own], requester)
    links = {id: _SHARE_PATH + token for token, id in request.app[AUTH].store.registry.shares.items()}
    return [
        {
            "id": website.id,
            "name": website.name,
            "domain": website.domain,
            "created_at": iso(website.created_ms),
            "origins": sorted(website.origins),
            "share": links.get(website.id),
            "events": traffic[website.number].events,
            "events_exact": traffic[website.number].is_exact,
        }
        for website in own
    ]


async def add(request: web.Request) -> web.Response:
    """POST /api/account/websites: add a website; `meta.notes` lists how the given domain was changed.

    A domain that the account has already is refused with 409, unless `again` is true.
    """
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("domain", "name", "origins", "again"))
    owner, again = session.owner, _again(sent)
    domain, notes = await _domain(sent)
    name = _name(sent) if sent.get("name") else domain
    origins, now_ms = _origins(sent) if "origins" in sent else [], auth.clock.wall_ms()
    owned_by = Account(owner.number, owner.email, owner.plan)
    try:
        id = await auth.store.change(changes.add_website, owned_by, domain, name, origins, now_ms, again=again)
    except DomainTaken as taken:
        raise _exists(domain, taken) from None
    return await _one(request, id, notes, 201)


def _again(sent: dict[str, Any]) -> bool:
    again = sent.get("again", False)
    if not isinstance(again, bool):
        raise invalid("again", "again must be true or false.")
    return again


def _exists(domain: str, taken: DomainTaken) -> ApiError:
    message = f"{domain} is already one of your websites ({taken.id}). Send again: true to use it a second time."
    return ApiError(errors.WEBSITE_EXISTS, message, field="domain", more={"website_id": taken.id})


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account/websites/{id}: set name, domain, or the whole list of allowed origins.

    A new domain that another website of the account has is refused with 409, unless `again` is true.
    """
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("name", "domain", "origins", "again"))
    again = _again(sent)
    website = await request.app[READ_API].website(request, session.owner.number)
    domain, notes = await _domain(sent) if "domain" in sent else (website.domain, [])
    # A website that is named by its domain is named by the new one.
    name = _name(sent) if "name" in sent else "" if website.name == website.domain else website.name
    origins = _origins(sent) if "origins" in sent else sorted(website.origins)
    try:
        await auth.store.change(changes.change_website, website, name or domain, domain, origins, again=again)
    except DomainTaken as taken:
        raise _exists(domain, taken) from None
    except WebsiteDeleted:
        raise ApiError(errors.UNKNOWN_WEBSITE) from None
    auth.store.rejected_events.origins.forget(website.number, frozenset(origins))
    return await _one(request, website.id, notes)


async def delete(request: web.Request) -> web.Response:
    """DELETE /api/account/websites/{id}: delete a website; `domain` confirms it."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("domain",))
    website = await request.app[READ_API].website(request, session.owner.number)
    if text(sent, "domain").strip().lower() != website.domain:
        raise invalid("domain", f"Type {website.domain} to delete it.")
    now_ms = auth.clock.wall_ms()
    await auth.store.change(deletion.delete_website, website.number, now_ms)
    return json_response({"data": {"id": website.id}}, 202)


async def _one(request: web.Request, id: str, notes: list[str], status: int = 200) -> web.Response:
    website = request.app[AUTH].store.website(id)
    if website is None:
        raise ApiError(errors.UNKNOWN_WEBSITE)
    shown = await _shown(request, [website])
    return json_response({"data": shown[0], "meta": {"notes": notes}}, status)


async def _domain(sent: dict[str, Any]) -> tuple[str, list[str]]:
    typed = text(sent, "domain")
    if len(typed) > _MAX_INPUT_CHARACTERS:
        raise invalid("domain", f"domain must have at most {_MAX_INPUT_CHARACTERS} characters (got {len(typed)}).")
    try:
        # On a thread: reading the list of public suffixes takes 30 ms each time.
        return await asyncio.to_thread(registrable_domain, typed)
    except BadHost as bad:
        raise invalid("domain", str(bad)) from None


def _name(sent: dict[str, Any]) -> str:
    try:
        return check_name(text(sent, "name").strip(), "A name")
    except AccountError as bad:
        raise invalid("name", str(bad)) from None


def _origins(sent: dict[str, Any]) -> list[str]:
    given = sent["origins"]
    if not isinstance(given, list) or len(given) > MOST_ORIGINS or not all(_is_short(one) for one in given):
        raise invalid("origins", f"origins must be a list of at most {MOST_ORIGINS} short strings.")
    try:
        return [exact_origin(one.strip()) for one in given]
    except BadHost as bad:
        raise invalid("origins", str(bad)) from None


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_INPUT_CHARACTERS


# --- the share link


async def share(request: web.Request) -> web.Response:
    """POST /api/account/websites/{id}/share: create a share link; an older one is revoked."""
    auth = request.app[AUTH]
    owner = (await auth.session(request)).owner
    website = await request.app[READ_API].website(request, owner.number)
    token, now_ms = secrets.token_urlsafe(_TOKEN_BYTES), auth.clock.wall_ms()
    try:
        await auth.store.change(changes.share_website, website.number, token, now_ms)
    except WebsiteDeleted:
        raise ApiError(errors.UNKNOWN_WEBSITE) from None
    return json_response({"data": {"share": _SHARE_PATH + token}}, 201)


async def unshare(request: web.Request) -> web.Response:
    """DELETE /api/account/websites/{id}/share: revoke the share link."""
    auth = request.app[AUTH]
    owner = (await auth.session(request)).owner
    website = await request.app[READ_API].website(request, owner.number)
    await auth.store.change(revoke_share_link, website.number)
    return web.Response(status=204)


async def shared(request: web.Request) -> web.Response:
    """GET /api/share/{token}: the website that a share link shows."""
    auth, view = request.app[AUTH], await by_link(request)
    zone = auth.store.registry.owners[view.website.account].time_zone
    shown = {"name": view.website.name, "domain": view.website.domain, "time_zone": zone, "demo": auth.is_demo}
    return json_response({"data": shown})


# --- authorising reports


async def by_session(request: web.Request) -> View:
    """Authorise a request by its session. Raises ApiError 401, 403, 404, 429."""
    auth = request.app[AUTH]
    owner = (await auth.session(request)).owner
    auth.count(auth.owners, owner.number)
    return View(await request.app[READ_API].website(request, owner.number), "Cookie")


async def by_link(request: web.Request) -> View:
    """Authorise a request by the share link in its path. Raises ApiError 404, 429."""
    auth = request.app[AUTH]
    auth.count(auth.viewers, auth.client(request))
    store = auth.store
    id = store.registry.shares.get(request.match_info["token"])
    website = None if id is None else store.website(id)
    if website is None:
        raise ApiError(errors.UNKNOWN_SHARE_LINK)
    return View(website, "", is_shared=True)
