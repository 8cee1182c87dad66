"""Annotations, segments, goals and funnels of a website: lists of them, and creating, changing and deleting them.

Lists are reports (tally/api/reports.py), so a key, a session and, for annotations, a share link read them. A share link
has none of the other kinds: they reveal what the owner measures, and a goal's value comes from event_data, which share
links never show. Changes are accepted from the account's sessions (docs/reference/account-api.md).

A request to change one sends the fields that change; what results is checked as a whole, as a new one is.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiohttp import web

from tally import errors
from tally.accounts import definitions
from tally.accounts.accounts import AccountError, check_name
from tally.accounts.audit import Entry
from tally.accounts.changes import WebsiteDeleted
from tally.accounts.definitions import Definition, Kind, TooManyDefinitions, UnknownDefinition
from tally.api import params
from tally.api.auth import AUTH, Session, invalid, text
from tally.api.behaviour import check_steps
from tally.api.context import Answer, Compute, ReadApi, ReportRequest
from tally.errors import ApiError
from tally.events.website import Website
from tally.http.responses import json_response
from tally.timestamps import BadTime, event_time_ms, iso, read_iso

Handler = Callable[[web.Request], Awaitable[web.Response]]
Content = dict[str, Any]

MAX_TEXT_CHARACTERS = 500
MAX_FILTER_CHARACTERS = 8_192
# Of event_data: docs/reference/collect-api.md.
MAX_PROPERTY_CHARACTERS = 200
GOAL_TYPES = ("event", "page")


# --- fields


def _name(sent: Content) -> str:
    name = text(sent, "name").strip()
    if not name:
        raise invalid("name", "name must not be empty.")
    try:
        return check_name(name)
    except AccountError as bad:
        raise invalid("name", str(bad)) from None


def written_filters(sent: Content, field: str, least: int = 1) -> list[str]:
    """Return filters as they are written in a query, each name=value. Raises ApiError 400."""
    filters = sent.get(field)
    if not isinstance(filters, list) or not all(isinstance(filter_, str) for filter_ in filters):
        raise invalid(field, f"{field} must be a list of strings such as filter_country=DE.")
    if not least <= len(filters) <= params.MAX_FILTERS or sum(map(len, filters)) > MAX_FILTER_CHARACTERS:
        size = f"{least} to {params.MAX_FILTERS} filters of at most {MAX_FILTER_CHARACTERS:,} characters together"
        raise invalid(field, f"{field} must have {size} (got {len(filters)}).")
    try:
        params.parse_filters(filters)
    except ApiError as bad:
        raise invalid(field, f"{field}: {bad.message}") from None
    return filters


# --- annotations


def _annotation(sent: Content) -> Content:
    begin, begins_at = _moment(sent, "from")
    end, ends_at = (None, begins_at) if sent.get("to") is None else _moment(sent, "to")
    if end is not None and ("T" in end) is not ("T" in begin):
        raise invalid("to", "to must be a date where from is a date, and a time where from is a time.")
    if ends_at < begins_at:
        raise invalid("to", "to must not be before from.")
    written = text(sent, "text").strip()
    if not 1 <= len(written) <= MAX_TEXT_CHARACTERS or not written.isprintable():
        size = f"1 to {MAX_TEXT_CHARACTERS} characters on one line"
        raise invalid("text", f"text must have {size} (got {len(written)} characters).")
    return {"from": begin, "to": end, "text": written}


def _moment(sent: Content, name: str) -> tuple[str, int]:
    """Return a date, or a time in UTC, as it is stored, and its milliseconds. Raises ApiError 400."""
    moment = text(sent, name)
    try:
        written = read_iso(moment)
        ms = event_time_ms(moment)
    except (ValueError, BadTime):
        raise invalid(name, f"{name} must be a date such as 2026-11-21 or an ISO 8601 time with an offset.") from None
    if written.second is not None and written.offset_s is None:
        raise invalid(name, f"{name} must have an offset such as Z or +01:00, or be a date.")
    return (written.day.isoformat() if written.second is None else iso(ms)), ms


# --- segments


def _segment(sent: Content) -> Content:
    return {"name": _name(sent), "filters": written_filters(sent, "filters")}


# --- goals


def _goal(sent: Content) -> Content:
    kind = text(sent, "type")
    if kind not in GOAL_TYPES:
        raise invalid("type", f"type must be {' or '.join(GOAL_TYPES)} (got {params.shown(kind)}).")
    value, currency = sent.get("value"), sent.get("currency")
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= MAX_PROPERTY_CHARACTERS):
        size = f"1 to {MAX_PROPERTY_CHARACTERS} characters"
        raise invalid("value", f"value must be the name of a property of event_data, of {size}, or null.")
    if currency is not None and not (isinstance(currency, str) and re.fullmatch("[A-Z]{3}", currency)):
        raise invalid("currency", "currency must be an ISO 4217 code such as EUR, or null.")
    if currency is not None and value is None:
        raise invalid("currency", "currency is of a value: name the property in value, or leave currency out.")
    match = written_filters(sent, "match")
    return {"name": _name(sent), "type": kind, "match": match, "value": value, "currency": currency}


# --- funnels


def _funnel(sent: Content) -> Content:
    steps = sent.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise invalid("steps", "steps must be a list of strings such as pathname:/pricing.")
    try:
        check_steps(steps)
    except ApiError as bad:
        raise invalid("steps", bad.message) from None
    return {"name": _name(sent), "steps": steps}


# --- the four kinds


class Defined(NamedTuple):
    """A kind of definition: its path, its fields, and the function that checks them."""

    kind: Kind
    path: str
    fields: tuple[str, ...]
    check: Callable[[Content], Content]


ANNOTATIONS = Defined("annotation", "annotations", ("from", "to", "text"), _annotation)
SEGMENTS = Defined("segment", "segments", ("name", "filters"), _segment)
GOALS = Defined("goal", "goals", ("name", "type", "match", "value", "currency"), _goal)
FUNNELS = Defined("funnel", "funnels", ("name", "steps"), _funnel)
KINDS = (ANNOTATIONS, SEGMENTS, GOALS, FUNNELS)


def _shown(definition: Definition) -> Content:
    return {"id": definition.id, **definition.content}


# --- lists


@dataclass(frozen=True, slots=True)
class ListParameters:
    """Parameters of a list of definitions: the definitions, on which its ETag depends."""

    own: tuple[Definition, ...] = params.parameter(lambda sent: sent.definitions)


def listed(defined: Defined) -> Compute[ListParameters]:
    """Return the report that lists the definitions of a kind, oldest first."""

    async def answer(api: ReadApi, request: ReportRequest[ListParameters]) -> Answer:
        chosen = [definition for definition in request.parameters.own if definition.kind == defined.kind]
        return Answer({"website_id": request.website.id}, data=[_shown(definition) for definition in chosen])

    return answer


# --- changes


def creating(defined: Defined) -> Handler:
    """Return the handler of POST /api/account/websites/{id}/<path>."""

    async def create(request: web.Request) -> web.Response:
        auth = request.app[AUTH]
        session, sent = await auth.session_and_body(request, defined.fields)
        website = await request.app[AUTH].website(request, session, "define")
        content, now_ms = defined.check(sent), auth.clock.wall_ms()
        try:
            entry = _entry(f"{defined.kind}_created", website, content)
            id = await auth.change(
                session,
                website.account,
                entry,
                definitions.add_definition,
                website.number,
                defined.kind,
                content,
                now_ms,
            )
        except WebsiteDeleted:
            raise ApiError(errors.UNKNOWN_WEBSITE) from None
        except TooManyDefinitions as full:
            raise ApiError(errors.TOO_MANY_DEFINITIONS, str(full)) from None
        return json_response({"data": {"id": id, **content}}, 201)

    return create


def changing(defined: Defined) -> Handler:
    """Return the handler of PATCH /api/account/websites/{id}/<path>/{definition}."""

    async def change(request: web.Request) -> web.Response:
        auth = request.app[AUTH]
        session, sent = await auth.session_and_body(request, defined.fields)
        website, known = await _known(request, session, defined.kind)
        content = defined.check(known.content | sent)
        entry = _entry(f"{defined.kind}_changed", website, content)
        await _apply(request, session, website, entry, definitions.update_definition, defined.kind, known.id, content)
        return json_response({"data": {"id": known.id, **content}})

    return change


def deleting(defined: Defined) -> Handler:
    """Return the handler of DELETE /api/account/websites/{id}/<path>/{definition}."""

    async def delete(request: web.Request) -> web.Response:
        session = await request.app[AUTH].session(request)
        website, known = await _known(request, session, defined.kind)
        entry = _entry(f"{defined.kind}_deleted", website, known.content)
        await _apply(request, session, website, entry, definitions.delete_definition, defined.kind, known.id)
        return web.Response(status=204)

    return delete


def _entry(action: str, website: Website, content: Mapping[str, Any]) -> Entry:
    """Return the entry of the audit log: annotations have a text, the other kinds a name."""
    return Entry(action, website.id, content.get("name") or content["text"])


async def _known(request: web.Request, session: Session, kind: Kind) -> tuple[Website, Definition]:
    """Return the website and the definition in the path, which the session may change. Raises ApiError 403, 404."""
    website = await request.app[AUTH].website(request, session, "define")
    by_website: Mapping[int, tuple[Definition, ...]] = request.app[AUTH].registry.cache.definitions
    id = request.match_info["definition"]
    for definition in by_website.get(website.number, ()):
        if (definition.kind, definition.id) == (kind, id):
            return website, definition
    raise ApiError(errors.UNKNOWN_DEFINITION)


async def _apply(
    request: web.Request, session: Session, website: Website, entry: Entry, step: Callable[..., None], *arguments: Any
) -> None:
    try:
        await request.app[AUTH].change(session, website.account, entry, step, website.number, *arguments)
    except UnknownDefinition:
        raise ApiError(errors.UNKNOWN_DEFINITION) from None
