"""The reports of ClickHouse: `EventReports` by its statements.

All statements of a question read the events up to one id, so that they count the same ones. Times become those of the
website here, and those of answers UTC again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Concatenate, NamedTuple, ParamSpec

from tally.clickhouse import behaviour, listing, measured, traffic
from tally.clickhouse.client import Client, Parameters
from tally.clickhouse.rows import scalar_of
from tally.clickhouse.settle import traffic_days
from tally.clickhouse.visits import Traffic, TrafficDay
from tally.engine.values import (
    LEAVE_ORDERS,
    WIDTHS,
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
    JourneyStep,
    Leaves,
    Link,
    Page,
    Place,
    Reached,
    Requester,
    Scope,
    Span,
    Stats,
    Summary,
    Top,
    TopQuery,
    TopRow,
    VisitPages,
    VitalsRow,
)
from tally.engine.website_time import WebsiteTime
from tally.errors import STORAGE_UNAVAILABLE, ApiError
from tally.events.dimensions import EVENT_FIELDS
from tally.events.json_scalars import key_of
from tally.events.validation import METRICS
from tally.reports import experiments
from tally.reports.event_data import of_values
from tally.reports.event_list import stored_event
from tally.reports.heatmaps import MAX_CELLS
from tally.rollups.heatmap_grid import shares
from tally.timestamps import DAY_MS

P = ParamSpec("P")
Statement = Callable[Concatenate[Parameters, P], str]
"""A function that makes a statement."""
Rows = list[list[Any]]
# Above every timestamp and id: the list of events begins with the newest.
_FIRST = 1 << 62


class Snapshot(NamedTuple):
    """What a question reads of a website: the events up to an id, all of which ClickHouse has.

    offset_ms: what the time of the website has more than UTC. has_sums: whether the website has imported sums.
    max_unsettled: of the days of a question, which has no answer where more events are not settled.
    """

    last_id: int
    offset_ms: int
    has_sums: bool
    max_unsettled: float = math.inf


class ClickHouseReports:
    """The reports of one question about a website. Used by the event loop alone."""

    def __init__(self, client: Client, snapshot: Snapshot) -> None:
        self._client, self._snapshot, self._time = client, snapshot, WebsiteTime(snapshot.offset_ms)
        # The days of the website that have events, and those of imported sums, once they are read.
        self._days: tuple[Sequence[TrafficDay], Sequence[int]] | None = None

    async def _rows(self, requester: Requester, statement: Statement[P], *values: P.args, **more: P.kwargs) -> Rows:
        """Return the rows of a statement of some values."""
        parameters = Parameters()
        text = statement(parameters, *values, **more)
        return await self._client.rows(text, parameters.values, requester.is_gone, requester.claim)

    async def _events(self, scope: Scope, requester: Requester) -> Traffic:
        """Return the traffic of a scope, which is in UTC."""
        last_id = self._snapshot.last_id
        if self._days is None:
            days, sums = await traffic_days(self._client, scope.website, last_id), Rows()
            if self._snapshot.has_sums:
                sums = await self._rows(requester, lambda _: listing.sum_days(scope.website, last_id))
            self._days = days, [day for (day,) in sums]
        traffic = Traffic(self._time.scope(scope), last_id, *self._days)
        if sum(one.unsettled for one in traffic.days_in_range) > self._snapshot.max_unsettled:
            raise ApiError(STORAGE_UNAVAILABLE, "Too many events of this website are not settled yet.")
        return traffic

    # --- traffic

    async def stats(self, scopes: Sequence[Scope], requester: Requester) -> list[Stats]:
        """Return the key figures of each scope."""
        return [(await self._figures(scope, [], requester))[0] for scope in scopes]

    async def goal_stats(
        self, scopes: Sequence[Scope], goal: Goal, requester: Requester
    ) -> list[tuple[Stats, Conversions]]:
        """Return the key figures of each scope with the conversions of a goal."""
        counted = [await self._figures(scope, [goal], requester) for scope in scopes]
        return [(figures, conversions) for figures, (conversions,) in counted]

    async def goals(self, scope: Scope, wanted: Sequence[Goal], requester: Requester) -> GoalFigures:
        """Return the visitors of a scope, and the conversions of each goal."""
        figures, converted = await self._figures(scope, wanted, requester)
        return GoalFigures(figures.visitors, converted)

    async def _figures(
        self, scope: Scope, goals: Sequence[Goal], requester: Requester
    ) -> tuple[Stats, list[Conversions]]:
        rows = await self._rows(requester, traffic.figures, await self._events(scope, requester), "", goals)
        figures, end = rows[0][1:] if rows else [], len(Stats._fields)
        converted = [traffic.conversions(goal, figures[end + 3 * n :][:3]) for n, goal in enumerate(goals)]
        return Stats(*figures[:end]), converted

    async def timeseries(self, scope: Scope, buckets: Sequence[Span], requester: Requester) -> list[Sequence[int]]:
        """Return (visitors, visits, pageviews, events) of each bucket."""
        return await self._series(scope, buckets, [], requester)

    async def goal_timeseries(
        self, scope: Scope, goal: Goal, buckets: Sequence[Span], requester: Requester
    ) -> list[tuple[Sequence[int], Conversions]]:
        """Return the row of each bucket with the conversions of a goal."""
        rows = await self._series(scope, buckets, [goal], requester)
        return [(row[:4], traffic.conversions(goal, row[4:])) for row in rows]

    async def _series(
        self, scope: Scope, buckets: Sequence[Span], goals: Sequence[Goal], requester: Requester
    ) -> list[Sequence[Any]]:
        # The first bucket may begin before the range.
        begins = [begin for begin, _ in self._time.spans(buckets)]
        rows = await self._rows(requester, traffic.series, await self._events(scope, requester), begins, goals)
        by_begin = {begin: row for begin, *row in rows}
        return [by_begin.get(begin, [0] * 4) for begin in begins]

    async def overview(
        self, scope: Scope, compare: Scope, buckets: Sequence[Span], requester: Requester
    ) -> tuple[Stats, Stats, list[Sequence[int]]]:
        """Return the key figures of two scopes and the time series of the first."""
        now, before = await self.stats([scope, compare], requester)
        return now, before, await self.timeseries(scope, buckets, requester)

    async def top(self, scope: Scope, queries: Sequence[TopQuery], requester: Requester) -> list[Top]:
        """Return some values of a field for each query."""
        return [await self._top(scope, query, requester) for query in queries]

    async def _top(self, scope: Scope, query: TopQuery, requester: Requester) -> Top:
        events = await self._events(scope, requester)
        is_unordered = query.order in LEAVE_ORDERS and not _has_leaves(events)
        rows = await self._rows(requester, traffic.top, events, query._replace(order="") if is_unordered else query)
        listed = [value for value, *_ in rows if value][query.offset :][: query.limit]
        values = ["", *listed]
        nothing: list[Any] = [None] * len(values)
        columns = [values, *_figures_of({value: row for value, *row, _ in rows}, values, query), *[nothing] * 4]
        if query.compare is not None:
            before = await self._events(query.compare, requester)
            goals = [] if query.goal is None else [query.goal]
            earlier = await self._rows(requester, traffic.figures, before, query.field, goals, query.has_visits, values)
            columns[3:5] = _figures_of({value: row for value, *row in earlier}, values, query)
        if query.has_leaves:
            columns[5] = await self._leaves(scope, query.field, values, requester) or nothing
            if query.compare is not None:
                columns[6] = await self._leaves(query.compare, query.field, values, requester) or nothing
        unset, *others = (TopRow(*row) for row in zip(*columns, strict=True))
        return Top(unset, others, rows[0][-1] if rows else 0)

    async def _leaves(self, scope: Scope, field: str, values: Sequence[str], requester: Requester) -> list[Leaves]:
        """Return what was measured when pages with each value were left, nothing where filters allow no leave."""
        events = await self._events(scope, requester)
        if not _has_leaves(events):
            return []
        rows = await self._rows(requester, measured.leaves, events, field, values)
        leaves = {value: Leaves(*row) for value, *row in rows}
        return [leaves.get(value, Leaves()) for value in values]

    async def visit_pages(
        self, scope: Scope, field: str, limit: int, requester: Requester, compare: Scope | None = None
    ) -> VisitPages:
        """Return the first entry or exit pages."""
        events = await self._events(scope, requester)
        rows = await self._rows(requester, traffic.visit_pages, events, field, limit)
        unset = rows.pop(0)[1] if rows and not rows[0][0] else 0
        pages = [Page(*row) for row in rows[:limit]]
        if compare is None:
            return VisitPages(unset, pages)
        names, before = [page.value for page in pages], await self._events(compare, requester)
        earlier = await self._rows(requester, traffic.visit_pages, before, field, limit, names)
        previous = {row[0]: Page(*row) for row in earlier}
        return VisitPages(unset, pages, [previous.get(name, Page(name, 0, 0, 0, 0)) for name in names])

    async def events(
        self, scope: Scope, after: Place | None, limit: int, only_traffic: bool, requester: Requester
    ) -> EventPage:
        """Return a page of events."""
        last_id, offset_ms, *_ = self._snapshot
        place = Place(_FIRST, _FIRST, last_id) if after is None else after._replace(ts=after.ts + offset_ms)
        events = await self._events(scope, requester)
        rows = await self._rows(requester, listing.events, events, place, limit, only_traffic)
        listed = [stored_event([id, type_, ts - offset_ms, *rest]) for id, type_, ts, *rest, _ in rows]
        return EventPage(listed, place.last_id)

    # --- behaviour

    async def funnel(self, scope: Scope, steps: Sequence[FunnelStep], requester: Requester) -> list[Reached]:
        """Return the visits and visitors that reached each step."""
        (row,) = await self._rows(requester, behaviour.funnel, await self._events(scope, requester), steps)
        return [Reached(*row[3 * n : 3 * n + 3]) for n in range(len(steps))]

    async def journeys(
        self, scope: Scope, start: tuple[str, str], direction: Direction, steps: int, limit: int, requester: Requester
    ) -> list[Link]:
        """Return the links between steps."""
        asked = await self._events(scope, requester), start, direction
        shown: list[list[tuple[str, str]]] = [[] for _ in range(steps)]
        for n, field, text in await self._rows(requester, behaviour.journey_steps, *asked, steps, limit):
            shown[n - 1].append((field, text))
        rows = await self._rows(requester, behaviour.journey_links, *asked, shown)
        links = [Link(n, JourneyStep(*begin), JourneyStep(*end), visits) for n, begin, end, visits in rows]
        return sorted(links, key=lambda link: (link.step, -link.visits, link.begin, link.end))

    async def event_data(
        self, scope: Scope, event_name: str, only: str | None, limit: int, requester: Requester
    ) -> Data:
        """Return what event_data holds."""
        events = visitors = 0
        values: dict[str, list[tuple[Any, int, int]]] = {}
        asked = await self._events(scope, requester), event_name, only
        for name, value, *counts in await self._rows(requester, behaviour.event_data, *asked):
            if value:
                values.setdefault(name, []).append((key_of(scalar_of(value)), *counts))
            else:
                events, visitors = counts
        return of_values(events, visitors, values, limit)

    # --- measurements

    async def vitals(self, scope: Scope, requester: Requester) -> dict[str, Summary]:
        """Return the summary of each web vital."""
        summary_of = await self._summaries(scope, "''", METRICS, None, requester)
        return {metric: summary_of("", metric) for metric in METRICS}

    async def vitals_by_value(
        self, scope: Scope, field: str, metric: str, limit: int, requester: Requester
    ) -> list[VitalsRow]:
        """Return the first values of pathname or device."""
        events = await self._events(scope, requester)
        rows = await self._rows(requester, measured.poorest, events, field, metric, limit)
        values = [value for value, _ in rows]
        summary_of = await self._summaries(scope, f"toString({field})", [metric], values, requester)
        return [VitalsRow(value, number, summary_of(value, metric)) for value, number in rows]

    async def vitals_by_day(self, scope: Scope, metric: str, requester: Requester) -> list[tuple[int, Summary]]:
        """Return the summary of each day of the website."""
        summary_of = await self._summaries(scope, "day", [metric], None, requester)
        _, from_ms, to_ms, *_ = self._time.scope(scope)
        days = range(from_ms // DAY_MS, -(-to_ms // DAY_MS))
        return [(self._time.utc(max(from_ms, day * DAY_MS)), summary_of(day, metric)) for day in days]

    async def _summaries(
        self, scope: Scope, by: str, metrics: Sequence[str], values: Sequence[str] | None, requester: Requester
    ) -> Callable[[Any, str], Summary]:
        """Return a function that returns the summary of a group and metric."""
        # numpy is imported with the first query that needs it.
        import numpy as np

        from tally.reports.ordered_values import counted

        counts: dict[tuple[Any, str], list[list[int]]] = {}
        events = await self._events(scope, requester)
        for group, metric, *pair in await self._rows(requester, measured.vitals, events, by, metrics, values):
            counts.setdefault((group, metric), []).append(pair)

        def summary(group: Any, metric: str) -> Summary:
            pairs = np.array(counts.get((group, metric), []), np.int64).reshape(-1, 2).T
            return counted(pairs[0], pairs[1], metric)

        return summary

    async def experiments(self, scope: Scope, requester: Requester) -> tuple[list[Experiment], int]:
        """Return the experiments and how many are omitted."""
        events = await self._events(scope, requester)
        rows = await self._rows(requester, measured.trials, events, experiments.MAX_ROWS + 1)
        if len(rows) <= experiments.MAX_ROWS:
            return experiments.of_rows(map(tuple, rows))
        # As many experiments as fit, as SQLite's report does.
        ranked = await self._rows(requester, measured.largest_experiments, events)
        totals: dict[str, list[int]] = {name: numbers for name, *numbers, _ in ranked}
        sizes = dict(map(tuple, await self._rows(requester, measured.numbers_of_trials, events, [*totals])))
        names = experiments.fitting([*totals], sizes)
        rows = await self._rows(requester, measured.trials_of, events, names)
        largest = experiments.of_largest(map(tuple, rows), {name: totals[name] for name in names})
        return largest, ranked[0][-1] - len(names)

    async def heatmap(
        self, website: int, pathname: str, days: range, widths: Sequence[str], requester: Requester
    ) -> Heatmap:
        """Return the heatmap of a page, without texts: these are in the server's database alone."""
        page = website, pathname, days, _classes(widths)
        rows = await self._rows(requester, measured.clicks, *page, MAX_CELLS)
        reached = {int(row): int(points) for row, points in await self._rows(requester, measured.depths, *page)}
        cells, clicks = rows[0][3:] if rows else (0, 0)
        grid = sorted(((x, y, points) for x, y, points, *_ in rows), key=itemgetter(1, 0))
        return Heatmap(grid, cells, clicks, sum(reached.values()), shares(reached))

    async def heatmap_pages(
        self, website: int, days: range, widths: Sequence[str], limit: int, requester: Requester
    ) -> HeatmapPages:
        """Return the first pages that have heatmap data."""
        rows = await self._rows(requester, lambda _: measured.heatmap_pages(website, days, _classes(widths), limit))
        unset = tuple(rows.pop(0)[1:]) if rows and not rows[0][0] else (0, 0)
        return HeatmapPages([(page, samples, clicks) for page, samples, clicks in rows[:limit]], unset)


def _classes(widths: Sequence[str]) -> list[int]:
    return [WIDTHS.index(width) for width in widths]


def _has_leaves(events: Traffic) -> bool:
    """Return whether the filters of a scope are on fields that a leave has."""
    return {one.field for one in events.scope.filters}.issubset(EVENT_FIELDS)


def _figures_of(rows: Mapping[str, list[Any]], values: Sequence[str], query: TopQuery) -> list[list[Any]]:
    """Return the figures of each value, and the conversions of the query's goal, None without one."""
    counted, end = [rows.get(value, []) for value in values], len(Stats._fields)
    converted = [query.goal and traffic.conversions(query.goal, row[end:]) for row in counted]
    return [[Stats(*row[:end]) for row in counted], converted]
