"""The protocol between the API and an analytics engine.

`Reports` has all queries of the API about events. Its methods take a `Scope` (a website, a range, filters) and a
`Requester`, and return plain values (tally/engine/values.py): no connection, row or label number passes through it.

Each call answers from one snapshot of the data. Figures are exact sums; ratios are formed by the API's modules from
them (tally/reports/figures.py). Every method raises `BeyondRetention` where it needs events that are no longer kept,
and ApiError 503 where the engine is overloaded, takes too long or cannot be reached.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

from tally.engine.values import (
    Conversions,
    Data,
    Direction,
    EventPage,
    Experiment,
    FunnelStep,
    Goal,
    GoalFigures,
    Heatmap,
    HeatmapPages,
    ImportedDays,
    Link,
    Place,
    Reached,
    Realtime,
    Requester,
    Scope,
    Span,
    Stats,
    Summary,
    Top,
    TopQuery,
    Traffic,
    VisitPages,
    VitalsRow,
)


class EventReports(Protocol):
    """The queries that a second engine with the same events answers as well."""

    async def stats(self, scopes: Sequence[Scope], requester: Requester) -> list[Stats]:
        """Return the key figures of each scope, all from one snapshot."""

    async def goal_stats(
        self, scopes: Sequence[Scope], goal: Goal, requester: Requester
    ) -> list[tuple[Stats, Conversions]]:
        """Return the key figures of each scope with the conversions of a goal, all from one snapshot."""

    async def timeseries(self, scope: Scope, buckets: Sequence[Span], requester: Requester) -> list[Sequence[int]]:
        """Return (visitors, visits, pageviews, events) of each bucket; the buckets tile the scope's range."""

    async def goal_timeseries(
        self, scope: Scope, goal: Goal, buckets: Sequence[Span], requester: Requester
    ) -> list[tuple[Sequence[int], Conversions]]:
        """Return the row of `timeseries` of each bucket with the conversions of a goal, all from one snapshot."""

    async def overview(
        self, scope: Scope, compare: Scope, buckets: Sequence[Span], requester: Requester
    ) -> tuple[Stats, Stats, list[Sequence[int]]]:
        """Return the key figures of two scopes and the time series of the first, all from one snapshot."""

    async def top(self, scope: Scope, queries: Sequence[TopQuery], requester: Requester) -> list[Top]:
        """Return some values of a field for each query, all from one snapshot."""

    async def goals(self, scope: Scope, goals: Sequence[Goal], requester: Requester) -> GoalFigures:
        """Return the visitors of a scope, and the conversions of each goal."""

    async def visit_pages(
        self, scope: Scope, field: str, limit: int, requester: Requester, compare: Scope | None = None
    ) -> VisitPages:
        """Return the first `limit` values of entry_page or exit_page by visits, text; also in the other scope."""

    async def events(
        self, scope: Scope, after: Place | None, limit: int, only_traffic: bool, requester: Requester
    ) -> EventPage:
        """Return up to `limit` events that follow a place, newest first; None is the beginning."""

    async def vitals(self, scope: Scope, requester: Requester) -> dict[str, Summary]:
        """Return the summary of each web vital, in the order of METRICS."""

    async def vitals_by_value(
        self, scope: Scope, field: str, metric: str, limit: int, requester: Requester
    ) -> list[VitalsRow]:
        """Return the first `limit` values of pathname or device by poor values of the metric, events and text."""

    async def vitals_by_day(self, scope: Scope, metric: str, requester: Requester) -> list[tuple[int, Summary]]:
        """Return (start in milliseconds, summary) of each day of the website in a scope."""

    async def experiments(self, scope: Scope, requester: Requester) -> tuple[list[Experiment], int]:
        """Return the experiments, by name, and how many are omitted."""

    async def heatmap(
        self, website: int, pathname: str, days: range, widths: Sequence[str], requester: Requester
    ) -> Heatmap:
        """Return the clicks and scroll depths of a page on some days (since 1970), of some classes of WIDTHS."""

    async def heatmap_pages(
        self, website: int, days: range, widths: Sequence[str], limit: int, requester: Requester
    ) -> HeatmapPages:
        """Return the first `limit` pages that have heatmap data, by samples and clicks together, then by text."""

    async def funnel(self, scope: Scope, steps: Sequence[FunnelStep], requester: Requester) -> list[Reached]:
        """Return the visits and visitors that reached each of some steps."""

    async def journeys(
        self, scope: Scope, start: tuple[str, str], direction: Direction, steps: int, limit: int, requester: Requester
    ) -> list[Link]:
        """Return the links between the first `limit` steps at each distance from a step (field, text)."""

    async def event_data(
        self, scope: Scope, event_name: str, only: str | None, limit: int, requester: Requester
    ) -> Data:
        """Return what event_data holds of a name's events, or one property of it."""


class Reports(EventReports, Protocol):
    """An analytics engine."""

    def version(self, website: int) -> Hashable:
        """Return a value that differs after every change of what can be read of a website's events."""

    async def refresh(self, requester: Requester) -> None:
        """Have versions count the events that another process has written meanwhile."""

    async def traffic(self, websites: Sequence[int], requester: Requester) -> dict[int, Traffic]:
        """Return the number of stored events of each website."""

    async def first_event_ms(self, website: int, requester: Requester) -> int | None:
        """Return the time of the first traffic event, or the start of its quarter hour; None where there is none."""

    async def imported_days(self, scope: Scope, fields: Sequence[str], requester: Requester) -> ImportedDays | None:
        """Return the days of imported sums in a scope, and which of them count; None where there are none."""

    async def page_titles(self, website: int, pages: Sequence[str], requester: Requester) -> dict[str, str]:
        """Return the last titles of those pages that have one."""

    async def realtime(self, website: int, now_ms: int, requester: Requester) -> Realtime:
        """Return the visitors of the last 300 seconds."""
