"""An analytics engine without SQL: key figures and top lists of events in a list.

It implements the methods of `Reports` (tally/engine/reports.py) that tests/api/test_engine.py calls. The test
gives the list, or an engine for events appends to it.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from tally.engine.values import BeyondRetention, Requester, Scope, Stats, Top, TopQuery, TopRow

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
