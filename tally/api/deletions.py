"""/api/account/websites/{id}/deletions: delete events that match filters, after a preview.

A preview counts what would be deleted and gets an id; the deletion names it and repeats the number of events. The
newest preview of a website counts, in memory alone: after a restart another one is needed. The events are counted once
more when the deletion begins, and deleted in the background (tally/transfer/event_deletion.py).
"""

import secrets
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web
from multidict import MultiDict

from tally import errors
from tally.accounts.audit import Entry, if_done
from tally.accounts.changes import WebsiteDeleted
from tally.api import params
from tally.api.auth import AUTH, invalid, text
from tally.api.definitions import written_filters
from tally.engine.values import Claim
from tally.errors import ApiError
from tally.events.filters import Filter
from tally.events.website import Website
from tally.http.responses import json_response
from tally.reports.deletion_preview import DeletionPreview, preview_now
from tally.storage import deletion_records
from tally.storage.deletion_records import STOPPED, DeletionRecord
from tally.timeranges import Range
from tally.timestamps import iso

# The oldest are forgotten.
_MAX_PREVIEWS = 1_000
_MAX_BACKUPS = 100


class _Wanted(NamedTuple):
    """What a preview is of. `written`: the filters as they were sent."""

    range: Range
    written: list[str]
    filters: tuple[Filter, ...]


class Previews:
    """The newest preview of each website, and the websites of which one is counted now. `backup_dir`: where backups of
    the file are, which still have what is deleted."""

    def __init__(self, backup_dir: Path | None) -> None:
        self.backup_dir = backup_dir
        self.counting: set[int] = set()
        self._newest: OrderedDict[int, tuple[str, _Wanted]] = OrderedDict()

    def add(self, website: int, wanted: _Wanted) -> str:
        """Store a preview; return its id."""
        id = secrets.token_hex(8)
        self._newest[website] = id, wanted
        self._newest.move_to_end(website)
        if len(self._newest) > _MAX_PREVIEWS:
            self._newest.popitem(last=False)
        return id

    def find(self, website: int, id: str) -> _Wanted | None:
        """Return what a website's newest preview is of; None where it has another id."""
        newest = self._newest.get(website)
        return None if newest is None or newest[0] != id else newest[1]


PREVIEWS = web.AppKey("previews", Previews)


async def deletions(request: web.Request) -> web.Response:
    """GET .../deletions: the deletions of a website, newest first."""
    website = await request.app[AUTH].website(request, await request.app[AUTH].session(request), "configure")
    return await _answer(request, website)


async def preview_deletion(request: web.Request) -> web.Response:
    """POST .../deletions/preview: count what would be deleted."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("from", "to", "tz", "filters", "types"))
    website = await auth.website(request, session, "configure")
    wanted = _wanted(sent, website, auth.clock.wall_ms())
    found = await _counted(request, website, wanted)
    previews = request.app[PREVIEWS]
    shown = {
        "id": previews.add(website.number, wanted),
        "from": iso(wanted.range.from_ms),
        "to": iso(wanted.range.to_ms),
        "filters": wanted.written,
        "events": found.events,
        "visits_changed": found.visits_changed,
        "visits_gone": found.visits_gone,
        "days": found.days,
        "imported_sums_days": found.imported_sums_days,
        "samples": found.samples,
        "not_covered": found.not_covered,
        "backups": _backups(previews.backup_dir),
    }
    return json_response({"data": shown})


async def begin(request: web.Request) -> web.Response:
    """POST .../deletions: begin the deletion of a preview whose number of events still holds."""
    from tally.transfer import event_deletion  # here: a server that starts does not need it

    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("preview", "events"))
    website = await auth.website(request, session, "configure")
    events = sent.get("events")
    if type(events) is not int or events < 0:
        raise invalid("events", "events must be the number of events of the preview.")
    wanted = request.app[PREVIEWS].find(website.number, text(sent, "preview"))
    if wanted is None:
        raise ApiError(errors.PREVIEW_OUTDATED, "There is a newer preview, or the server was restarted: preview again.")
    found = await _counted(request, website, wanted)
    if found.events != events:
        message = f"The preview is outdated: {found.events:,} events match now, not {events:,}."
        raise ApiError(errors.PREVIEW_OUTDATED, message, more={"events": found.events})
    detail = {
        **{"from": iso(wanted.range.from_ms), "to": iso(wanted.range.to_ms), "filters": wanted.written},
        "events": found.events,
    }
    entry = Entry("events_deleted", website.id, website.domain, detail)
    values = (website.number, found.plan, found.events, auth.clock.wall_ms())
    try:
        number = await auth.change(
            session, website.account, lambda number: [entry] if number else [], event_deletion.begin, *values
        )
    except WebsiteDeleted:
        raise ApiError(errors.UNKNOWN_WEBSITE) from None
    if number is None:
        raise ApiError(errors.DELETION_RUNNING)
    return await _answer(request, website, 202)


async def stop(request: web.Request) -> web.Response:
    """DELETE .../deletions/{number}: stop a deletion; what is deleted stays deleted."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    website = await auth.website(request, session, "configure")
    number = request.match_info["number"]
    is_number = number.isascii() and number.isdecimal() and len(number) <= 9
    read = partial(deletion_records.record, website=website.number, number=int(number) if is_number else 0)
    record = await auth.node.database.read(read)
    if record is None:
        raise ApiError(errors.UNKNOWN_DELETION)
    entry = if_done(Entry("deletion_stopped", website.id, website.domain, {"deletion": record.number}))
    now_ms = auth.clock.wall_ms()
    step = deletion_records.end
    await auth.change(session, website.account, entry, step, website.number, record.number, STOPPED, now_ms)
    return await _answer(request, website)


def _wanted(sent: dict[str, Any], website: Website, now_ms: int) -> _Wanted:
    """Return what a preview is of. Raises ApiError 400."""
    query: MultiDict[str] = MultiDict()
    for name in ("from", "to"):
        query.add(name, text(sent, name))
    if sent.get("tz") is not None:
        query.add("tz", text(sent, "tz"))
    written = written_filters({"filters": sent.get("filters", [])}, "filters", least=0)
    types = sent.get("types")
    if types is not None:
        if not isinstance(types, list) or not types or not all(isinstance(one, str) for one in types):
            raise invalid("types", "types must be a list of types of events.")
        written = [*written, *(f"filter_type={one}" for one in types)]
    try:
        span = params.range_of(params.Sent(query, {}, now_ms, time_zone=website.time_zone or "UTC"))
        return _Wanted(span, written, params.parse_filters(written))
    except ApiError as bad:
        # A field of the body here, and a parameter of the query there.
        raise invalid("types" if types and "type" in bad.field else bad.field, bad.message) from None


async def _counted(request: web.Request, website: Website, wanted: _Wanted) -> DeletionPreview:
    """Count what would be deleted: once at a time for a website. Raises ApiError 409, 503."""
    auth, previews, number = request.app[AUTH], request.app[PREVIEWS], website.number
    if number in previews.counting:
        raise ApiError(errors.DELETION_RUNNING, "Another preview of the website is being counted: wait for it.")
    previews.counting.add(number)
    try:
        span = wanted.range.from_ms, wanted.range.to_ms
        read = partial(preview_now, website=number, span=span, filters=wanted.filters)
        return await auth.node.database.read(read, claim=Claim(False, website.account))
    finally:
        previews.counting.discard(number)


def _backups(directory: Path | None) -> list[str]:
    """Return the names of the newest backups on this machine, newest first; each has the date in its name."""
    if directory is None:
        return []
    try:
        names = [path.name for path in directory.glob("analytics-*.db")]
    except OSError:
        return []
    return sorted(names, key=lambda name: name[-19:], reverse=True)[:_MAX_BACKUPS]


async def _answer(request: web.Request, website: Website, status: int = 200) -> web.Response:
    read = partial(deletion_records.records, website=website.number)
    records = await request.app[AUTH].node.database.read(read)
    return json_response({"data": [_shown(one, website.day_offset_ms) for one in records]}, status)


def _shown(record: DeletionRecord, offset_ms: int) -> dict[str, Any]:
    """Return a deletion as the API shows it."""
    return {
        "number": record.number,
        "state": record.state,
        "begun_at": iso(record.begun_ms),
        "ended_at": None if record.ended_ms is None else iso(record.ended_ms),
        "from": iso(record.plan.from_ms - offset_ms),
        "to": iso(record.plan.to_ms - offset_ms),
        "filters": [f"filter_{of.name}={value}" for of in record.plan.filters for value in of.values],
        "events": record.events,
        "deleted": record.deleted,
    }
