"""/api/account/websites/{id}/deletions and /rewrites: delete events that match filters, or rewrite their paths by a
rule, after a preview.

A preview counts what would be deleted or rewritten and gets an id; the deletion or rewriting names it and repeats the
number of events. The newest preview of a website counts, in memory alone: after a restart another one is needed. The
events are counted once more at the beginning, and changed in the background (tally/transfer/event_deletion.py). Both
are in one list, under /deletions.
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
from tally.events import path_rules
from tally.events.filters import Filter
from tally.events.path_rules import PathRule
from tally.events.website import Website
from tally.http.responses import json_response
from tally.reports.deletion_preview import DeletionPreview, preview_now
from tally.storage import deletion_records
from tally.storage.cluster_tables import UnloadedDays
from tally.storage.deletion_records import DELETE, REWRITE, STOPPED, DeletionRecord
from tally.timeranges import Range
from tally.timestamps import iso

# The oldest are forgotten.
_MAX_PREVIEWS = 1_000
_MAX_BACKUPS = 100


class _Wanted(NamedTuple):
    """What a preview is of. `written`: the filters as they were sent; `rule`: of a rewriting."""

    range: Range
    written: list[str]
    filters: tuple[Filter, ...]
    rule: PathRule | None = None

    @property
    def detail(self) -> dict[str, Any]:
        """The range, and filters or the rule, for the audit log."""
        detail: dict[str, Any] = {"from": iso(self.range.from_ms), "to": iso(self.range.to_ms)}
        return detail | ({"filters": self.written} if self.rule is None else rule_detail(self.rule))


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

    def find(self, website: int, id: str, kind: str) -> _Wanted | None:
        """Return what a website's newest preview is of; None where it has another id, or is of another kind."""
        newest = self._newest.get(website)
        if newest is None or newest[0] != id or (newest[1].rule is None) != (kind == DELETE):
            return None
        return newest[1]


PREVIEWS = web.AppKey("previews", Previews)


async def deletions(request: web.Request) -> web.Response:
    """GET .../deletions: the deletions and rewritings of a website, newest first."""
    website = await request.app[AUTH].website(request, await request.app[AUTH].session(request), "configure")
    return await _answer(request, website)


async def preview_deletion(request: web.Request) -> web.Response:
    """POST .../deletions/preview: count what would be deleted."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("from", "to", "tz", "filters", "types"))
    website = await auth.website(request, session, "configure")
    written, filters = _filters(sent)
    wanted = _Wanted(_range(sent, website, auth.clock.wall_ms()), written, filters)
    found = await _counted(request, website, wanted)
    shown = {
        "visits_changed": found.visits_changed,
        "visits_gone": found.visits_gone,
        "imported_sums_days": found.imported_sums_days,
        "samples": found.samples,
    }
    return _previewed(request, website, wanted, found, shown)


async def preview_rewriting(request: web.Request) -> web.Response:
    """POST .../rewrites/preview: count the events whose path would be rewritten."""
    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("from", "to", "tz", "pattern", "replacement"))
    website = await auth.website(request, session, "configure")
    try:
        rule = path_rules.checked(text(sent, "pattern"), text(sent, "replacement"))
    except ValueError as bad:
        raise invalid(str(bad).partition(" ")[0], str(bad)) from None
    wanted = _Wanted(_range(sent, website, auth.clock.wall_ms()), [], (), rule)
    found = await _counted(request, website, wanted)
    shown = {
        "paths": found.paths,
        "samples": [{"old": old, "new": new} for old, new in found.renamed],
    }
    return _previewed(request, website, wanted, found, shown)


def _previewed(
    request: web.Request, website: Website, wanted: _Wanted, found: DeletionPreview, more: dict[str, Any]
) -> web.Response:
    previews = request.app[PREVIEWS]
    shown = {
        "id": previews.add(website.number, wanted),
        **wanted.detail,
        "events": found.events,
        "days": found.days,
        **more,
        "not_covered": found.not_covered,
        "backups": _backups(previews.backup_dir),
    }
    return json_response({"data": shown})


async def begin(request: web.Request) -> web.Response:
    """POST .../deletions: begin the deletion of a preview whose number of events still holds."""
    return await _begin(request, DELETE)


async def begin_rewriting(request: web.Request) -> web.Response:
    """POST .../rewrites: begin the rewriting of a preview whose number of events still holds."""
    return await _begin(request, REWRITE)


async def _begin(request: web.Request, kind: str) -> web.Response:
    from tally.transfer import event_deletion  # here: a server that starts does not need it

    auth = request.app[AUTH]
    session, sent = await auth.session_and_body(request, ("preview", "events"))
    website = await auth.website(request, session, "configure")
    events = sent.get("events")
    if type(events) is not int or events < 0:
        raise invalid("events", "events must be the number of events of the preview.")
    wanted = request.app[PREVIEWS].find(website.number, text(sent, "preview"), kind)
    if wanted is None:
        raise ApiError(errors.PREVIEW_OUTDATED, "There is a newer preview, or the server was restarted: preview again.")
    found = await _counted(request, website, wanted)
    if found.events != events:
        message = f"The preview is outdated: {found.events:,} events match now, not {events:,}."
        raise ApiError(errors.PREVIEW_OUTDATED, message, more={"events": found.events})
    entry = begun_entry(kind, website.id, website.domain, wanted.detail | {"events": found.events})
    values = (website.number, found.plan, found.events, auth.clock.wall_ms())
    try:
        number = await auth.change(
            session, website.account, lambda number: [entry] if number else [], event_deletion.begin, *values
        )
    except WebsiteDeleted:
        raise ApiError(errors.UNKNOWN_WEBSITE) from None
    except UnloadedDays as failure:
        raise ApiError(errors.EVENTS_IN_CLICKHOUSE, str(failure)) from None
    if number is None:
        raise ApiError(errors.DELETION_RUNNING)
    return await _answer(request, website, 202)


async def stop(request: web.Request) -> web.Response:
    """DELETE .../deletions/{number}: stop a deletion or a rewriting; what is changed stays changed."""
    auth = request.app[AUTH]
    session = await auth.session(request)
    website = await auth.website(request, session, "configure")
    number = request.match_info["number"]
    is_number = number.isascii() and number.isdecimal() and len(number) <= 9
    read = partial(deletion_records.record, website=website.number, number=int(number) if is_number else 0)
    record = await auth.node.database.read(read)
    if record is None:
        raise ApiError(errors.UNKNOWN_DELETION)
    detail = {"deletion": record.number}
    if record.kind == DELETE:
        entry = if_done(Entry("deletion_stopped", website.id, website.domain, detail))
    else:
        entry = if_done(Entry("rewriting_stopped", website.id, website.domain, detail))
    now_ms = auth.clock.wall_ms()
    step = deletion_records.end
    await auth.change(session, website.account, entry, step, website.number, record.number, STOPPED, now_ms)
    return await _answer(request, website)


def begun_entry(kind: str, id: str, domain: str, detail: dict[str, Any]) -> Entry:
    """Return the line of the audit log of a deletion or a rewriting that begins."""
    if kind == DELETE:
        return Entry("events_deleted", id, domain, detail)
    return Entry("paths_rewritten", id, domain, detail)


def rule_detail(rule: PathRule) -> dict[str, str]:
    """Return a rule for the API and the audit log."""
    return {"pattern": rule.pattern, "replacement": rule.replacement}


def _range(sent: dict[str, Any], website: Website, now_ms: int) -> Range:
    """Return the range of a preview. Raises ApiError 400."""
    query: MultiDict[str] = MultiDict()
    for name in ("from", "to"):
        query.add(name, text(sent, name))
    if sent.get("tz") is not None:
        query.add("tz", text(sent, "tz"))
    try:
        return params.range_of(params.Sent(query, {}, now_ms, time_zone=website.time_zone or "UTC"))
    except ApiError as bad:
        # A field of the body here, and a parameter of the query there.
        raise invalid(bad.field, bad.message) from None


def _filters(sent: dict[str, Any]) -> tuple[list[str], tuple[Filter, ...]]:
    """Return the filters of a preview, as they were sent and parsed. Raises ApiError 400."""
    written = written_filters({"filters": sent.get("filters", [])}, "filters", least=0)
    types = sent.get("types")
    if types is not None:
        if not isinstance(types, list) or not types or not all(isinstance(one, str) for one in types):
            raise invalid("types", "types must be a list of types of events.")
        written = [*written, *(f"filter_type={one}" for one in types)]
    try:
        return written, params.parse_filters(written)
    except ApiError as bad:
        raise invalid("types" if types and "type" in bad.field else bad.field, bad.message) from None


async def _counted(request: web.Request, website: Website, wanted: _Wanted) -> DeletionPreview:
    """Count what would be deleted or rewritten: once at a time for a website. Raises ApiError 409, 503."""
    auth, previews, number = request.app[AUTH], request.app[PREVIEWS], website.number
    if not auth.node.engine.archive.cleans_itself:
        raise ApiError(errors.NOT_FOUND, "The events of this server are not in its own database.")
    if number in previews.counting:
        raise ApiError(errors.DELETION_RUNNING, "Another preview of the website is being counted: wait for it.")
    previews.counting.add(number)
    try:
        span = wanted.range.from_ms, wanted.range.to_ms
        read = partial(preview_now, website=number, span=span, filters=wanted.filters, rule=wanted.rule)
        return await auth.node.database.read(read, claim=Claim(False, website.account))
    except UnloadedDays as failure:
        raise ApiError(errors.EVENTS_IN_CLICKHOUSE, str(failure)) from None
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
    """Return a deletion or a rewriting as the API shows it."""
    rule = record.plan.rule
    return {
        "number": record.number,
        "kind": record.kind,
        "state": record.state,
        "begun_at": iso(record.begun_ms),
        "ended_at": None if record.ended_ms is None else iso(record.ended_ms),
        "from": iso(record.plan.from_ms - offset_ms),
        "to": iso(record.plan.to_ms - offset_ms),
        "filters": [f"filter_{of.name}={value}" for of in record.plan.filters for value in of.values],
        "rule": None if rule is None else rule_detail(rule),
        "events": record.events,
        "changed": record.changed,
    }
