"""An analytics engine without SQL: it keeps events in a list, and computes key figures and top lists from it.

It implements the lifecycle, `Ingest` and `Archive` (tally/engine/), and the methods of `Reports` that
tests/api/test_engine.py calls. A test may give the list.
"""

import asyncio
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from tally.engine.engine import Health
from tally.engine.ingest import DUPLICATE, OnWritten, PreparedEvent, WriteRequest
from tally.engine.values import BeyondRetention, Requester, Scope, Stats, Top, TopQuery, TopRow
from tally.events.dimensions import FIELDS
from tally.events.validation import PAGEVIEWS
from tally.timestamps import DAY_MS

VISIT_GAP_MS = 30 * 60_000


class MemoryEvent(NamedTuple):
    """A pageview or a custom event. `fields` has the text of each dimension that is set."""

    website: int
    time_ms: int
    visitor: str
    is_pageview: bool
    fields: dict[str, str]


class MemoryReports:
    """Computes reports from `events`. Events before `kept_from_ms` count as deleted by retention."""

    def __init__(self, events: Iterable[MemoryEvent], kept_from_ms: int = 0) -> None:
        self.events, self.kept_from_ms = list(events), kept_from_ms

    def version(self, website: int) -> Hashable:
        return len([event for event in self.events if event.website == website])

    async def refresh(self, requester: Requester) -> bool:
        return False

    async def stats(self, scopes: Sequence[Scope], requester: Requester) -> list[Stats]:
        return [self._stats(scope) for scope in scopes]

    async def top(self, scope: Scope, queries: Sequence[TopQuery], requester: Requester) -> list[Top]:
        return [self._top(scope, query) for query in queries]

    async def page_titles(self, website: int, pages: Sequence[str], requester: Requester) -> dict[str, str]:
        return {}

    def _top(self, scope: Scope, query: TopQuery) -> Top:
        unset, rows = self._values(scope, query.field)
        ranked = sorted(rows.items(), key=lambda row: (*(-figure for figure in row[1]), row[0]))
        shown = [("", unset), *ranked[query.offset : query.offset + query.limit]]
        found = [TopRow(value, Stats(*figures)) for value, figures in shown]
        if query.compare is not None:
            before_unset, before = self._values(query.compare, query.field)
            before[""] = before_unset
            found = [row._replace(previous=Stats(*before.get(row.value, ()))) for row in found]
        return Top(found[0], found[1:], len(rows))

    def _values(self, scope: Scope, field: str) -> tuple[tuple[int, int, int], dict[str, tuple[int, int, int]]]:
        by_value: dict[str, list[MemoryEvent]] = {}
        for event in self._matching(scope):
            by_value.setdefault(event.fields.get(field, ""), []).append(event)
        unset = counts(by_value.pop("", []))
        return unset, {value: counts(events) for value, events in by_value.items()}

    def _matching(self, scope: Scope) -> list[MemoryEvent]:
        if scope.from_ms < self.kept_from_ms:
            raise BeyondRetention(self.kept_from_ms)
        return [
            event
            for event in self.events
            if event.website == scope.website
            and scope.from_ms <= event.time_ms < scope.to_ms
            and all(of.accepts(event.fields.get(of.field, "")) for of in scope.filters)
        ]

    def _stats(self, scope: Scope) -> Stats:
        matching = self._matching(scope)
        visits_in_range = [
            visit for visit in self._visits(scope.website) if scope.from_ms <= visit[0].time_ms < scope.to_ms
        ]
        visits = [visit for visit in visits_in_range if any(event in matching for event in visit)]
        visitors, pageviews, events = counts(matching)
        return Stats(
            visitors=visitors,
            pageviews=pageviews,
            events=events,
            visits=len(visits),
            bounces=sum(len(visit) == 1 and visit[0].is_pageview for visit in visits),
            visit_views=sum(event.is_pageview for visit in visits for event in visit),
            visit_ms=sum(visit[-1].time_ms - visit[0].time_ms for visit in visits),
        )

    def _visits(self, website: int) -> list[list[MemoryEvent]]:
        latest: dict[str, list[MemoryEvent]] = {}
        visits = []
        for event in sorted(self.events, key=lambda event: event.time_ms):
            if event.website != website:
                continue
            visit = latest.get(event.visitor)
            if visit is None or event.time_ms - visit[-1].time_ms > VISIT_GAP_MS:
                visit = latest[event.visitor] = []
                visits.append(visit)
            visit.append(event)
        return visits


def counts(events: Sequence[MemoryEvent]) -> tuple[int, int, int]:
    """Return the visitors, pageviews and custom events among some events."""
    pageviews = sum(event.is_pageview for event in events)
    return len({event.visitor for event in events}), pageviews, len(events) - pageviews


class MemoryIngest:
    """Append events to a list; report a repeated event_id as a duplicate."""

    is_full = False

    def __init__(self, stored: list[MemoryEvent]) -> None:
        self.stored, self.ids = stored, set[tuple[int, str]]()

    def append(self, request: WriteRequest, on_written: OnWritten) -> None:
        outcomes = [self._store(row) for row in request.events]
        asyncio.get_running_loop().call_soon(on_written, outcomes)

    def _store(self, row: PreparedEvent) -> Literal[False] | None:
        website, event = row.website.number, row.event
        if event.event_id and (website, event.event_id) in self.ids:
            return DUPLICATE
        self.ids.add((website, event.event_id))
        texts = {name: text for name, text in zip(FIELDS, row.dimensions, strict=True) if text}
        self.stored.append(MemoryEvent(website, event.ts_ms, row.identity.hex(), event.type in PAGEVIEWS, texts))
        return None


class MemoryEngine:
    """The engine. `calls` has what was called of its lifecycle and of its archive, in order.

    It deletes one event a call, so that it is called again, and fails the first time.
    """

    cleans_itself = False

    def __init__(self, events: Iterable[MemoryEvent] = (), kept_from_ms: int = 0) -> None:
        self.reports: Any = MemoryReports(events, kept_from_ms)
        self.ingest = MemoryIngest(self.reports.events)
        self.archive = self
        self.calls: list[Any] = []
        self.problem = ""
        self._has_failed = False

    async def open(self) -> None:
        self.calls.append("open")

    async def close(self) -> None:
        self.calls.append("close")

    async def each_second(self, now_ms: int) -> None:
        self.calls.append("each_second")

    def health(self) -> Health:
        return Health(self.problem, 3)

    def metrics(self) -> Iterable[Any]:
        from tally.http.metric_families import gauge

        return [gauge("memory_events", "Events in memory.", len(self.reports.events))]

    async def forget(self, website: int) -> bool:
        self.calls.append(("forget", website))
        if not self._has_failed:
            self._has_failed = True
            raise OSError("away")
        return self._delete(event for event in self.reports.events if event.website == website)

    async def undo(self, website: int, number: int) -> bool:
        self.calls.append(("undo", website, number))
        return self.calls.count(("undo", website, number)) < 3

    async def expire(self, website: int, day: int) -> bool:
        self.calls.append(("expire", website, day))
        events = self.reports.events
        return self._delete(event for event in events if event.website == website and event.time_ms < day * DAY_MS)

    def _delete(self, events: Iterable[MemoryEvent]) -> bool:
        found = next(iter(events), None)
        if found is not None:
            self.reports.events.remove(found)
        return found is not None
