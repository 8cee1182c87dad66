"""/api/account/websites and /api/share: websites as their owner sets them up, read with a session or a shared link.

A website that is another account's is as unknown as one that does not exist. What is typed is judged by the same
functions as on the command line. A change is seen at once: by collect, by every reader, by this answer.

A deleted website is gone with its answer: from every list, from reading, from collect. Its rows go in the background
(tally/maintenance/deletion.py).

The answers about a website are the read API's own (tally/api/endpoints.py); here is only who may have them:
`by_session`, and `by_link` for whoever has a website's shared link, who sees no event_data.
"""

import asyncio
import secrets
import sqlite3
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts.accounts import Account, AccountError, check_name
from tally.accounts.share_links import create_share_link, revoke_share_link
from tally.accounts.websites import (
    DomainTaken,
    Website,
    add_website,
    check_domain_unused,
    update_website,
    website_exists,
)
from tally.api.auth import AUTH, Auth, invalid, text
from tally.api.context import READER, View
from tally.api.endpoints import endpoint
from tally.errors import ApiError
from tally.events.urls import BadHost, exact_origin, registrable_domain
from tally.http.responses import json_response
from tally.maintenance import deletion
from tally.rollups.traffic import Traffic, traffic_of
from tally.storage.connections import SERVER, Claim
from tally.timestamps import iso

# our choice: an app has a handful of web views.
MOST_ORIGINS = 50
# our choice: a host has 253 characters at most; somebody may paste a URL.
_MOST_TYPED = 2_000
_TOKEN_BYTES = 18  # 24 characters
_SHARE_PATH = "/share/"


async def websites(request: web.Request) -> web.Response:
    """GET /api/account/websites, oldest first."""
    gate = request.app[AUTH]
    owner = (await gate.session(request)).owner
    own = [website for website in gate.store.registry.websites.values() if website.account == owner.number]
    return json_response({"data": await _shown(gate, own)})


async def website(request: web.Request) -> web.Response:
    """GET /api/account/websites/{id}: the website, and the newest origins whose events were refused."""
    gate = request.app[AUTH]
    session = await gate.session(request)
    # An import that has just ended counts too, before the store notices by itself.
    await gate.store.look_again()
    found = await request.app[READER].website(request, session.owner.number)
    (shown,) = await _shown(gate, [found])
    refused = gate.store.rejected_events.origins.newest(found.number, gate.clock.wall_ms())
    shown["refused_origins"] = [
        {"origin": one.origin, "events": one.events, "last_at": iso(one.last_ms)} for one in refused
    ]
    return json_response({"data": shown})


async def _shown(gate: Auth, own: list[Website]) -> list[dict[str, Any]]:
    claim = Claim(False, own[0].account) if own else SERVER
    traffic = await _traffic(gate, claim, [website.number for website in own])
    links = {id: _SHARE_PATH + token for token, id in gate.store.registry.shares.items()}
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


async def _traffic(gate: Auth, claim: Claim, numbers: list[int]) -> dict[int, Traffic]:
    """Return the stored events by website; only those of websites that have changed are counted again."""
    versions = {number: gate.store.version_of(number) for number in numbers}
    known = {}
    for number in numbers:
        version, counted = gate.counted.get(number, ((-1, -1), Traffic(0, False)))
        if version == versions[number] and counted.is_exact:
            known[number] = counted
    others = [number for number in numbers if number not in known]
    if not others:
        return known
    found = await gate.store.read(lambda connection: traffic_of(connection, others), claim=claim)
    gate.counted.update({number: (versions[number], counted) for number, counted in found.items()})
    return known | found


async def add(request: web.Request) -> web.Response:
    """POST /api/account/websites; `meta.notes` says what was changed of the domain as typed.

    A domain that the account has is refused with 409, unless `again` is true.
    """
    gate = request.app[AUTH]
    session, sent = await gate.asked(request, ("domain", "name", "origins", "again"))
    owner, again = session.owner, _again(sent)
    domain, notes = await _domain(sent)
    name = _name(sent) if sent.get("name") else domain
    origins, now_ms = _origins(sent) if "origins" in sent else [], gate.clock.wall_ms()
    whose = Account(owner.number, owner.email, owner.plan)

    def write(connection: sqlite3.Connection) -> str:
        if not again:
            check_domain_unused(connection, owner.number, domain)
        return add_website(connection, whose, domain, name, origins, now_ms)

    try:
        id = await gate.store.change(write)
    except DomainTaken as taken:
        raise _exists(domain, taken) from None
    return await _one(gate, id, notes, 201)


def _again(sent: dict[str, Any]) -> bool:
    again = sent.get("again", False)
    if not isinstance(again, bool):
        raise invalid("again", "again is true or false.")
    return again


def _exists(domain: str, taken: DomainTaken) -> ApiError:
    message = f"{domain} is already one of your websites ({taken.id}). Send again: true to use it a second time."
    return ApiError(errors.WEBSITE_EXISTS, message, field="domain", more={"website_id": taken.id})


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account/websites/{id}: name, domain, the whole list of origins.

    A new domain that another website of the account has is refused with 409, unless `again` is true.
    """
    gate = request.app[AUTH]
    session, sent = await gate.asked(request, ("name", "domain", "origins", "again"))
    owner, again = session.owner, _again(sent)
    website = await request.app[READER].website(request, session.owner.number)
    domain, notes = await _domain(sent) if "domain" in sent else (website.domain, [])
    # A website that is called by its domain goes on to be.
    name = _name(sent) if "name" in sent else "" if website.name == website.domain else website.name
    origins = _origins(sent) if "origins" in sent else sorted(website.origins)

    def write(connection: sqlite3.Connection) -> None:
        _look_for(connection, website)
        if domain != website.domain and not again:
            check_domain_unused(connection, owner.number, domain)
        update_website(connection, website.number, name or domain, domain, origins)

    try:
        await gate.store.change(write)
    except DomainTaken as taken:
        raise _exists(domain, taken) from None
    gate.store.rejected_events.origins.forget(website.number, frozenset(origins))
    return await _one(gate, website.id, notes)


def _look_for(connection: sqlite3.Connection, website: Website) -> None:
    """Raises ApiError 404 where the website has been deleted since it was looked up."""
    if not website_exists(connection, website.number):
        raise ApiError(errors.UNKNOWN_WEBSITE)


async def delete(request: web.Request) -> web.Response:
    """DELETE /api/account/websites/{id}: gone with this answer; `domain` confirms it."""
    gate = request.app[AUTH]
    session, sent = await gate.asked(request, ("domain",))
    website = await request.app[READER].website(request, session.owner.number)
    if text(sent, "domain").strip().lower() != website.domain:
        raise invalid("domain", f"Type {website.domain} to delete it.")
    now_ms = gate.clock.wall_ms()
    await gate.store.change(lambda connection: deletion.delete_website(connection, website.number, now_ms))
    return json_response({"data": {"id": website.id}}, 202)


async def _one(gate: Auth, id: str, notes: list[str], status: int = 200) -> web.Response:
    website = gate.store.website(id)
    if website is None:
        raise ApiError(errors.UNKNOWN_WEBSITE)
    shown = await _shown(gate, [website])
    return json_response({"data": shown[0], "meta": {"notes": notes}}, status)


async def _domain(sent: dict[str, Any]) -> tuple[str, list[str]]:
    typed = text(sent, "domain")
    if len(typed) > _MOST_TYPED:
        raise invalid("domain", "This is too long for a domain.")
    try:
        # On a thread: the list of public suffixes is read anew each time, 30 ms.
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
        raise invalid("origins", f"origins is a list of at most {MOST_ORIGINS} short texts.")
    try:
        return [exact_origin(one.strip()) for one in given]
    except BadHost as bad:
        raise invalid("origins", str(bad)) from None


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_TYPED


# --- the shared link


async def share(request: web.Request) -> web.Response:
    """POST /api/account/websites/{id}/share: a new link; an older one opens nothing any more."""
    gate = request.app[AUTH]
    owner = (await gate.session(request)).owner
    website = await request.app[READER].website(request, owner.number)
    token, now_ms = secrets.token_urlsafe(_TOKEN_BYTES), gate.clock.wall_ms()

    def write(connection: sqlite3.Connection) -> None:
        _look_for(connection, website)
        create_share_link(connection, website.number, token, now_ms)

    await gate.store.change(write)
    return json_response({"data": {"share": _SHARE_PATH + token}}, 201)


async def unshare(request: web.Request) -> web.Response:
    """DELETE /api/account/websites/{id}/share."""
    gate = request.app[AUTH]
    owner = (await gate.session(request)).owner
    website = await request.app[READER].website(request, owner.number)
    await gate.store.change(lambda connection: revoke_share_link(connection, website.number))
    return web.Response(status=204)


async def shared(request: web.Request) -> web.Response:
    """GET /api/share/{token}: what the link shows."""
    gate, view = request.app[AUTH], await by_link(request)
    zone = gate.store.registry.owners[view.website.account].time_zone
    shown = {"name": view.website.name, "domain": view.website.domain, "time_zone": zone, "demo": gate.is_demo}
    return json_response({"data": shown})


# --- reading


async def by_session(request: web.Request) -> View:
    """What a session opens of the website in the path."""
    gate = request.app[AUTH]
    owner = (await gate.session(request)).owner
    gate.count(gate.owners, owner.number)
    return View(await request.app[READER].website(request, owner.number), "Cookie")


async def by_link(request: web.Request) -> View:
    """What a shared link opens."""
    gate = request.app[AUTH]
    gate.count(gate.viewers, gate.client(request))
    store = gate.store
    id = store.registry.shares.get(request.match_info["token"])
    website = None if id is None else store.website(id)
    if website is None:
        raise ApiError(errors.UNKNOWN_SHARE_LINK)
    return View(website, "", is_shared=True)


_NAMES = ("stats", "timeseries", "top", "events", "realtime")
stats, timeseries, top, events, realtime = (endpoint(name, by_session) for name in _NAMES)
# The owner's alone: a shared link has no twin of it.
left_out, vitals, experiments = (endpoint(name, by_session) for name in ("rejected", "vitals", "experiments"))
heatmap, heatmap_pages = (endpoint(name, by_session) for name in ("heatmap", "heatmap-pages"))
funnel, event_data = (endpoint(name, by_session) for name in ("funnel", "event-data"))
shared_stats, shared_timeseries, shared_top, shared_events, shared_realtime = (
    endpoint(name, by_link) for name in _NAMES
)
_LISTS = ("event-names", "entry-pages", "exit-pages")
event_names, entry_pages, exit_pages = (endpoint(name, by_session) for name in _LISTS)
shared_event_names, shared_entry_pages, shared_exit_pages = (endpoint(name, by_link) for name in _LISTS)
