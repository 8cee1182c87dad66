"""/api/account/websites: an account's websites, their settings, and reading by session.

A website of another account is answered as one that does not exist. Input is checked by the same functions as on the
command line. A change takes effect at once: for collect, for every report, in this answer.

A deleted website disappears with its answer from lists, reports and collect. Its rows are deleted in the background
(tally/maintenance/deletion.py).

The reports are those of the read API (tally/api/reports.py); `by_session` authorises them here. Share links are in
tally/api/sharing.py.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts import changes
from tally.accounts.accounts import AccountError, AccountFull, check_name
from tally.accounts.audit import Entry, if_done
from tally.accounts.changes import WebsiteDeleted
from tally.accounts.roles import may
from tally.accounts.share_links import ShareLink
from tally.accounts.websites import DomainTaken, WebsiteSettings, check_currency, delete_website
from tally.api import params
from tally.api.auth import AUTH, CALLING_KEY, Auth, Session, invalid, text
from tally.api.context import READ_API, View
from tally.api.endpoints import Handler
from tally.api.overview import PageOverviewParameters, overview
from tally.api.params import Sent
from tally.engine.values import SERVER, Claim, Requester
from tally.errors import ApiError
from tally.events import path_rules
from tally.events.path_rules import MAX_RULES, PathRule
from tally.events.urls import BadHost, DomainNote, exact_origin, readable_host, registrable_domain
from tally.events.website import Website
from tally.http.responses import json_response
from tally.timeranges import WEEK_STARTS, zone_names
from tally.timestamps import iso

# An app has a handful of web views.
MAX_ORIGINS = 50
# A host has at most 253 characters; a pasted URL has more.
_MAX_INPUT_CHARACTERS = 2_000
SHARE_PATH = "/share/"
_SETTINGS = WebsiteSettings._fields


async def websites(request: web.Request) -> web.Response:
    """GET /api/account/websites, oldest first; with `stats`, figures of each.

    `tz` is the time zone of websites that have none of their own, as on the pages of each.
    """
    auth, api = request.app[AUTH], request.app[READ_API]
    session = await auth.session(request)
    person = session.person.number
    params.refuse_other_than_utf8(request.raw_path)
    sent = params.read(PageOverviewParameters, Sent(request.query, request.match_info, auth.clock.wall_ms()))
    if all(one.is_due for one in auth.memberships(person, session.via)):
        raise ApiError(errors.SECOND_FACTOR_DUE)
    all_websites = auth.registry.cache.websites_for(auth.memberships(person, session.via))
    shown = await _shown(request, session, all_websites)
    for row, of in zip(shown, all_websites, strict=True):
        row["account"] = of.account
    if sent.period:
        auth.count(auth.people, person)
        requester = Requester(Claim(False, person), lambda: request.transport is None)
        figures = await overview(api, all_websites, sent.period, requester, sent.tz)
        for row, stats in zip(shown, figures, strict=True):
            row["stats"] = stats
    return json_response({"data": shown} | ({"meta": {"stats": sent.period}} if sent.period else {}))


async def website(request: web.Request) -> web.Response:
    """GET /api/account/websites/{id}: the website, and the newest origins whose events were refused."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    # So that an import that has just ended counts.
    await auth.registry.read_changes()
    found = await request.app[AUTH].website(request, session, "read")
    (shown,) = await _shown(request, session, [found])
    refused = auth.node.rejected_events.origins.newest(found.number, auth.clock.wall_ms())
    shown["refused_origins"] = [
        {"origin": one.origin, "events": one.events, "last_at": iso(one.last_ms)} for one in refused
    ]
    return json_response({"data": shown})


async def _shown(request: web.Request, session: Session, websites: list[Website]) -> list[dict[str, Any]]:
    requester = Requester(Claim(False, websites[0].account) if websites else SERVER)
    traffic = await request.app[READ_API].reports.traffic([website.number for website in websites], requester)
    auth = request.app[AUTH]
    # A link stays valid after a person who has it has left the account: it is shown to those who may revoke it.
    may_share = [one for one in websites if may(auth.membership(session, one.account), "define", one.number)]
    links = links_shown(auth, may_share)
    return [
        {
            "id": website.id,
            "name": website.name,
            "domain": website.domain,
            "created_at": iso(website.created_ms),
            "origins": sorted(website.origins),
            "time_zone": website.time_zone,
            "day_offset_minutes": website.day_offset_minutes,
            "week_start": website.week_start,
            "currency": website.currency,
            "path_rules": _rules_shown(website.path_rules),
            "share_links": links.get(website.id, []),
            "events": traffic[website.number].events,
            "events_exact": traffic[website.number].is_exact,
        }
        for website in websites
    ]


def links_shown(auth: Auth, websites: list[Website]) -> dict[str, list[dict[str, Any]]]:
    """Return the share links of websites by their ids, as the owner sees them: without passwords."""
    shown: dict[str, list[dict[str, Any]]] = {website.id: [] for website in websites}
    for link in auth.registry.cache.shares.values():
        if link.website in shown:
            shown[link.website].append(_link_shown(link))
    return shown


def _link_shown(link: ShareLink) -> dict[str, Any]:
    options = link.options
    return {
        "id": link.id,
        "name": link.name,
        "path": SHARE_PATH + link.token,
        "created_at": iso(link.created_ms),
        "has_password": bool(options.password_hash),
        "origins": list(options.origins),
        "filters": list(options.filters),
        "hide_events": options.hides_events,
        "badges": options.shows_badges,
    }


async def add(request: web.Request) -> web.Response:
    """POST /api/account/websites: add a website; `meta.notes` lists how the given domain was changed, by code.

    A domain that the account has already is refused with 409, unless `again` is true.
    """
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("domain", "name", "origins", "again", "time_zone"))
    owner, again = auth.account(request, session, "configure"), _again(sent)
    domain, notes = await _domain(sent)
    name = name_of(sent) if sent.get("name") else readable_host(domain)
    origins, now_ms = exact_origins(sent) if "origins" in sent else [], auth.clock.wall_ms()
    time_zone = _time_zone(sent.get("time_zone"))
    try:
        id = await auth.change(
            session,
            owner.number,
            lambda id: [Entry("website_added", id, domain)],
            changes.add_website,
            owner,
            domain,
            name,
            origins,
            now_ms,
            again=again,
            time_zone=time_zone,
        )
    except DomainTaken as taken:
        raise _exists(request, domain, taken) from None
    except AccountFull as full:
        raise ApiError(errors.TOO_MANY_WEBSITES, str(full)) from None
    return await _one(request, session, id, notes, 201)


def _again(sent: dict[str, Any]) -> bool:
    again = sent.get("again", False)
    if not isinstance(again, bool):
        raise invalid("again", "again must be true or false.")
    return again


def _exists(request: web.Request, domain: str, taken: DomainTaken) -> ApiError:
    key = request.get(CALLING_KEY)
    if key is not None and not key.grant.covers(taken.id):
        # A key does not learn of other websites than its own.
        return ApiError(errors.WEBSITE_EXISTS, field="domain")
    message = f"{domain} is already one of your websites ({taken.id}). Send again: true to use it a second time."
    return ApiError(errors.WEBSITE_EXISTS, message, field="domain", more={"website_id": taken.id})


async def change(request: web.Request) -> web.Response:
    """PATCH /api/account/websites/{id}: set name, domain, the whole list of allowed origins, or settings.

    A new domain that another website of the account has is refused with 409, unless `again` is true.
    """
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("name", "domain", "origins", "again", *_SETTINGS))
    again = _again(sent)
    website = await request.app[AUTH].website(request, session, "configure")
    domain, notes = await _domain(sent) if "domain" in sent else (website.domain, [])
    # A website that is named by its domain is named by the new one.
    name = name_of(sent) if "name" in sent else "" if website.name == website.domain else website.name
    origins = exact_origins(sent) if "origins" in sent else sorted(website.origins)
    settings, now_ms = _settings(sent, website), auth.clock.wall_ms()
    try:
        entry = _changed(website, name or domain, domain, origins, settings)
        await auth.change(
            session,
            website.account,
            lambda _: [entry] if entry.detail else [],
            changes.change_website,
            website,
            name or domain,
            domain,
            origins,
            settings,
            now_ms,
            again=again,
        )
    except DomainTaken as taken:
        raise _exists(request, domain, taken) from None
    except WebsiteDeleted:
        raise ApiError(errors.UNKNOWN_WEBSITE) from None
    auth.node.rejected_events.origins.delete(website.number, frozenset(origins))
    return await _one(request, session, website.id, notes)


def _changed(website: Website, name: str, domain: str, origins: list[str], settings: WebsiteSettings) -> Entry:
    """Return the entry of the audit log of a change: the former and the new value of each field that differs."""
    new = {"name": name, "domain": domain, "origins": sorted(set(origins)), **settings._asdict()}
    new["path_rules"] = _rules_shown(settings.path_rules)
    old: dict[str, Any] = {field: getattr(website, field) for field in new}
    old |= {"origins": sorted(website.origins), "path_rules": _rules_shown(website.path_rules)}
    detail = {field: [old[field], value] for field, value in new.items() if old[field] != value}
    return Entry("website_changed", website.id, website.domain, detail)


async def delete(request: web.Request) -> web.Response:
    """DELETE /api/account/websites/{id}: delete a website; `domain` confirms it."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("domain",))
    website = await request.app[AUTH].website(request, session, "configure")
    if text(sent, "domain").strip().lower() != website.domain:
        raise invalid("domain", f"Type {website.domain} to delete it.")
    now_ms = auth.clock.wall_ms()
    entry = Entry("website_deleted", website.id, website.domain)
    if not await auth.change(session, website.account, if_done(entry), delete_website, website.number, now_ms):
        raise ApiError(errors.UNKNOWN_WEBSITE)
    return json_response({"data": {"id": website.id}}, 202)


async def _one(
    request: web.Request, session: Session, id: str, notes: list[DomainNote], status: int = 200
) -> web.Response:
    website = request.app[AUTH].registry.website(id)
    if website is None:
        raise ApiError(errors.UNKNOWN_WEBSITE)
    shown = await _shown(request, session, [website])
    named = [{"code": note.code, "message": note.message, "values": note.values} for note in notes]
    return json_response({"data": shown[0], "meta": {"notes": named}}, status)


async def _domain(sent: dict[str, Any]) -> tuple[str, list[DomainNote]]:
    typed = text(sent, "domain")
    if len(typed) > _MAX_INPUT_CHARACTERS:
        raise invalid("domain", f"domain must have at most {_MAX_INPUT_CHARACTERS} characters (got {len(typed)}).")
    try:
        # On a thread: reading the list of public suffixes takes 30 ms each time.
        return await asyncio.to_thread(registrable_domain, typed)
    except BadHost as bad:
        raise invalid("domain", str(bad)) from None


def name_of(sent: dict[str, Any]) -> str:
    """Return the name of a body. Raises ApiError 400."""
    try:
        return check_name(text(sent, "name").strip())
    except AccountError as bad:
        raise invalid("name", str(bad)) from None


def exact_origins(sent: dict[str, Any]) -> list[str]:
    """Return the origins of a body, as browsers write them. Raises ApiError 400."""
    given = sent["origins"]
    if not isinstance(given, list) or len(given) > MAX_ORIGINS or not all(_is_short(one) for one in given):
        raise invalid("origins", f"origins must be a list of at most {MAX_ORIGINS} short strings.")
    try:
        return [exact_origin(one.strip()) for one in given]
    except BadHost as bad:
        raise invalid("origins", str(bad)) from None


def _settings(sent: dict[str, Any], website: Website) -> WebsiteSettings:
    """Return a website's settings with what was sent. Raises ApiError 400."""
    time_zone, week_start, currency = (sent.get(name, getattr(website, name)) for name in _SETTINGS[:3])
    rules = _path_rules(sent["path_rules"]) if "path_rules" in sent else website.path_rules
    time_zone = _time_zone(time_zone)
    if week_start not in WEEK_STARTS:
        raise invalid("week_start", f"week_start must be {' or '.join(WEEK_STARTS)}.")
    try:
        return WebsiteSettings(time_zone, week_start, None if currency is None else check_currency(currency), rules)
    except (AccountError, TypeError):
        raise invalid(
            "currency", "currency must be a code of ISO 4217 in capital letters, such as EUR, or null."
        ) from None


def _path_rules(given: Any) -> tuple[PathRule, ...]:
    """Return the rules of a body. Raises ApiError 400."""
    if not isinstance(given, list) or len(given) > MAX_RULES:
        raise invalid("path_rules", f"path_rules must be a list of at most {MAX_RULES} rules.")
    rules = []
    for rule in given:
        if not isinstance(rule, dict) or rule.keys() != {"pattern", "replacement"}:
            raise invalid("path_rules", "path_rules: each must have pattern and replacement.")
        if not all(isinstance(part, str) for part in rule.values()):
            raise invalid("path_rules", "path_rules: pattern and replacement must be texts.")
        try:
            rules.append(path_rules.checked(rule["pattern"], rule["replacement"]))
        except ValueError as bad:
            raise invalid("path_rules", f"path_rules: {bad}") from None
    return tuple(rules)


def _rules_shown(rules: Iterable[PathRule]) -> list[dict[str, str]]:
    return [{"pattern": rule.pattern, "replacement": rule.replacement} for rule in rules]


def _time_zone(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or value not in zone_names()):
        raise invalid("time_zone", "time_zone must be the exact name of an IANA time zone, or null.")
    return value


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_INPUT_CHARACTERS


# --- authorising reports


def with_export_line(handler: Handler) -> Handler:
    """Return a handler that writes a line of the audit log before a person gets single events as CSV."""

    async def handle(request: web.Request) -> web.Response:
        response = await handler(request)
        if response.status == 200 and response.content_type == "text/csv":
            auth = request.app[AUTH]
            session = await auth.session(request)
            website = await auth.website(request, session, "read")
            entry = Entry("events_exported", website.id, website.domain, {"format": "csv"})
            await auth.change(session, website.account, entry, changes.no_change)
        return response

    return handle


async def by_session(request: web.Request) -> View:
    """Authorise a request by its session. Raises ApiError 401, 403, 404, 429."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    auth.count(auth.people, session.person.number)
    return View(await auth.website(request, session, "read"), "Cookie")
