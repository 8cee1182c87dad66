"""A second analytics engine: key figures and top lists over a plain list of events in memory.

It implements the part of `Reports` (tally/reports/engine.py) that tests/api/test_engine.py asks for, without SQL. Its
list is given by the test; it does not follow what is collected.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from tally.reports.engine import BeyondRetention, Requester, Scope, Stats, Top

VISIT_GAP_MS = 30 * 60_000


class MemoryEvent(NamedTuple):
    """A pageview or a custom event; `fields` are texts by dimension."""

    website: int
    time_ms: int
    visitor: str
    is_pageview: bool
    fields: dict[str, str]


class MemoryReports:
    """An engine over a list. `kept_from_ms`: events before are not kept."""

    def __init__(self, events: Iterable[MemoryEvent], kept_from_ms: int = 0) -> None:
        self.events, self.kept_from_ms = list(events), kept_from_ms

    def version(self, website: int) -> Hashable:
        return len([event for event in self.events if event.website == website])

    async def refresh(self, requester: Requester) -> bool:
        return False

    async def stats(self, scopes: Sequence[Scope], requester: Requester) -> list[Stats]:
        return [self._stats(scope) for scope in scopes]

    async def top(self, scope: Scope, field: str, limit: int, requester: Requester) -> Top:
        by_value: dict[str, list[MemoryEvent]] = {}
        for event in self._matching(scope):
            by_value.setdefault(event.fields.get(field, ""), []).append(event)
        unset = counts(by_value.pop("", []))
        rows = [(value, *counts(events)) for value, events in by_value.items()]
        return Top(unset, sorted(rows, key=lambda row: (-row[1], -row[2], -row[3], row[0]))[:limit])

    def _matching(self, scope: Scope) -> list[MemoryEvent]:
        if scope.from_ms < self.kept_from_ms:
            raise BeyondRetention(self.kept_from_ms)
        return [
            event
            for event in self.events
            if event.website == scope.website
            and scope.from_ms <= event.time_ms < scope.to_ms
            and all(event.fields.get(field, "") in values for field, values in scope.filters)
        ]

    def _stats(self, scope: Scope) -> Stats:
        matching = self._matching(scope)
        begun = [visit for visit in self._visits(scope.website) if scope.from_ms <= visit[0].time_ms < scope.to_ms]
        visits = [visit for visit in begun if any(event in matching for event in visit)]
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
