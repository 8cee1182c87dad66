"""The reports of a cluster: `Reports` by statements of ClickHouse.

What has been accepted is first confirmed (`Confirmed.last_id`), so that a report counts every event that was
answered before it; all its statements read up to that id. Times become those of the website here, and those of answers
UTC again.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Protocol

from tally.clickhouse import behaviour, listing, measured, traffic
from tally.clickhouse.client import Client, Parameters
from tally.clickhouse.rows import scalar_of
from tally.clickhouse.settle import settled_days
from tally.clickhouse.traffic import Question
from tally.clickhouse.visits import SettledDay
from tally.clickhouse.visits import Traffic as Events
from tally.engine.values import (
    LEAVE_ORDERS,
    REALTIME_MS,
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
    ImportedDays,
    JourneyStep,
    Leaves,
    Link,
    Page,
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
    TopRow,
    Traffic,
    VisitPages,
    VitalsRow,
)
from tally.engine.website_time import WebsiteTime
from tally.events.dimensions import EVENT_FIELDS
from tally.events.json_scalars import key_of
from tally.events.validation import METRICS
from tally.reports import experiments
from tally.reports.event_data import of_values
from tally.reports.heatmaps import MAX_CELLS
from tally.rollups.heatmap_grid import shares
from tally.timestamps import DAY_MS

Rows = list[list[Any]]
# Above every timestamp and id: the list of events begins with the newest.
_FIRST = 1 << 62
# The end of the days that the tables can have.
_LAST_MS = DAY_MS << 16
MAX_PAGES = 100
"""Of the pages with visitors in the last minutes."""
_NO_CONVERSIONS = [0, 0, [[], []]]


class Confirmed(Protocol):
    """What the server knows of the events that ClickHouse has."""

    def version(self, website: int) -> Hashable:
        """Return a value that differs after every change of what can be read of a website's events."""

    def offset_ms(self, website: int) -> int:
        """Return what the time of a website has more than UTC."""

    def has_sums(self, website: int) -> bool:
        """Return whether a website has imported sums."""

    async def refresh(self) -> None:
        """Have versions count the events that another process has written."""

    async def last_id(self) -> int:
        """Wait until ClickHouse has all events that were accepted before the call; return their last id."""

    async def imported_days(self, scope: Scope, fields: Sequence[str], requester: Requester) -> ImportedDays | None:
        """Return the days of imported sums in a scope, and which of them count, from the server's database."""

    async def page_titles(self, website: int, pages: Sequence[str], requester: Requester) -> dict[str, str]:
        """Return the titles of pages, from the same database."""

    async def heatmap_texts(
        self, website: int, pathname: str, widths: Sequence[str], requester: Requester
    ) -> Sequence[tuple[int, int, str]]:
        """Return (column, row, text) of the cells of a page whose element's text is known, from the same database."""


class _Read:
    """The statements of one report."""

    def __init__(
        self,
        client: Client,
        last_id: int,
        settled: Sequence[SettledDay],
        sum_days: Sequence[int],
        time: WebsiteTime,
        requester: Requester,
    ) -> None:
        self._client, self._settled, self._sum_days, self._requester = client, settled, sum_days, requester
        self.last_id, self.time = last_id, time

    def events(self, scope: Scope) -> Events:
        """Return the traffic of a scope, which is in UTC."""
        return Events(self.time.scope(scope), self.last_id, self._settled, self._sum_days)

    async def rows(self, statement: Callable[[Parameters], str]) -> Rows:
        """Return the rows of a statement, which a function makes."""
        parameters = Parameters()
        asked = statement(parameters), parameters.values
        return await self._client.rows(*asked, self._requester.is_gone, self._requester.claim)


class ClickHouseReports:
    """The reports of a server whose events ClickHouse keeps. Used by the event loop alone."""

    def __init__(self, client: Client, confirmed: Confirmed) -> None:
        self._client, self._confirmed = client, confirmed

    async def _begin(self, website: int, requester: Requester) -> _Read:
        time = WebsiteTime(self._confirmed.offset_ms(website))
        last_id = await self._confirmed.last_id()
        settled = await settled_days(self._client, website, last_id)
        sum_days: list[int] = []
        if self._confirmed.has_sums(website):
            rows = await self._client.rows(listing.sum_days(website, last_id), {}, requester.is_gone, requester.claim)
            sum_days = [day for (day,) in rows]
        return _Read(self._client, last_id, settled, sum_days, time, requester)

    def version(self, website: int) -> Hashable:
        """Return the website's version."""
        return self._confirmed.version(website)

    async def refresh(self, requester: Requester) -> None:
        """Refresh where another process has written events."""
        await self._confirmed.refresh()

    # --- traffic

    async def stats(self, scopes: Sequence[Scope], requester: Requester) -> list[Stats]:
        """Return the key figures of each scope."""
        read = await self._begin(scopes[0].website, requester)
        return [await self._stats(read, scope) for scope in scopes]

    async def _stats(self, read: _Read, scope: Scope) -> Stats:
        return (await self._figures(read, scope, []))[0]

    async def _figures(self, read: _Read, scope: Scope, goals: Sequence[Goal]) -> tuple[Stats, list[Conversions]]:
        question = Question(read.events(scope), goals=goals)
        rows = await read.rows(lambda parameters: traffic.figures(question, parameters))
        _, *figures = rows[0] if rows else ("", *[0] * len(Stats._fields), *_NO_CONVERSIONS * len(goals))
        end = len(Stats._fields)
        converted = [traffic.conversions(goal, figures[end + 3 * n :][:3]) for n, goal in enumerate(goals)]
        return Stats(*figures[:end]), converted

    async def goal_stats(
        self, scopes: Sequence[Scope], goal: Goal, requester: Requester
    ) -> list[tuple[Stats, Conversions]]:
        """Return the key figures of each scope with the conversions of a goal."""
        read = await self._begin(scopes[0].website, requester)
        found = [await self._figures(read, scope, [goal]) for scope in scopes]
        return [(figures, converted[0]) for figures, converted in found]

    async def goals(self, scope: Scope, wanted: Sequence[Goal], requester: Requester) -> GoalFigures:
        """Return the visitors of a scope, and the conversions of each goal."""
        read = await self._begin(scope.website, requester)
        figures, converted = await self._figures(read, scope, wanted)
        return GoalFigures(figures.visitors, converted)

    async def timeseries(self, scope: Scope, buckets: Sequence[Span], requester: Requester) -> list[Sequence[int]]:
        """Return (visitors, visits, pageviews, events) of each bucket."""
        read = await self._begin(scope.website, requester)
        return [row for row, _ in await self._series(read, scope, buckets, None)]

    async def goal_timeseries(
        self, scope: Scope, goal: Goal, buckets: Sequence[Span], requester: Requester
    ) -> list[tuple[Sequence[int], Conversions]]:
        """Return the row of each bucket with the conversions of a goal."""
        return await self._series(await self._begin(scope.website, requester), scope, buckets, goal)

    async def _series(
        self, read: _Read, scope: Scope, buckets: Sequence[Span], goal: Goal | None
    ) -> list[tuple[Sequence[int], Conversions]]:
        events, begins = read.events(scope), [begin for begin, _ in read.time.spans(buckets)]
        # The first bucket may begin before the range.
        rows = await read.rows(lambda parameters: traffic.series(events, begins, goal, parameters))
        found = {row[0]: row[1:] for row in rows}
        series: list[tuple[Sequence[int], Conversions]] = []
        for begin in begins:
            row = found.get(begin, [0, 0, 0, 0, *_NO_CONVERSIONS])
            series.append((row[:4], Conversions() if goal is None else traffic.conversions(goal, row[4:])))
        return series

    async def overview(
        self, scope: Scope, compare: Scope, buckets: Sequence[Span], requester: Requester
    ) -> tuple[Stats, Stats, list[Sequence[int]]]:
        """Return the key figures of two scopes and the time series of the first."""
        read = await self._begin(scope.website, requester)
        now, before = await self._stats(read, scope), await self._stats(read, compare)
        return now, before, [row for row, _ in await self._series(read, scope, buckets, None)]

    async def top(self, scope: Scope, queries: Sequence[TopQuery], requester: Requester) -> list[Top]:
        """Return some values of a field for each query."""
        read = await self._begin(scope.website, requester)
        return [await self._top(read, scope, query) for query in queries]

    async def _top(self, read: _Read, scope: Scope, query: TopQuery) -> Top:
        events, own = read.events(scope), query
        if query.order in LEAVE_ORDERS and not has_leaves(events):
            own = query._replace(order="")
        rows = await read.rows(lambda parameters: traffic.top(events, own, parameters))
        total = rows[0][-1] if rows else 0
        shown = {row[0]: row[1:-1] for row in rows}
        unset = {"": shown.pop("", [])}
        shown = unset | dict([*shown.items()][query.offset :][: query.limit])
        before = None if query.compare is None else await self._values(read, query.compare, query, [*shown])
        first, *others = (_top_row(value, row, before, query.goal) for value, row in shown.items())
        listed = [first, *others]
        if query.has_leaves:
            left = await self._leaves(read, scope, query.field, [*shown])
            old = None if query.compare is None else await self._leaves(read, query.compare, query.field, [*shown])
            listed = [
                row._replace(leaves=left and left(row.value), previous_leaves=old and old(row.value)) for row in listed
            ]
        return Top(listed[0], listed[1:], total)

    async def _leaves(
        self, read: _Read, scope: Scope, field: str, values: Sequence[str]
    ) -> Callable[[str], Leaves] | None:
        """Return what was measured when pages with some values were left, None where the scope has none."""
        events = read.events(scope)
        if not has_leaves(events):
            return None
        rows = await read.rows(lambda parameters: measured.leaves(events, field, parameters, values))
        found = {row[0]: Leaves(*row[1:]) for row in rows}
        return lambda value: found.get(value, Leaves())

    async def _values(self, read: _Read, scope: Scope, query: TopQuery, values: Sequence[str]) -> dict[str, list[Any]]:
        """Return the figures of some values in another scope."""
        goals = [] if query.goal is None else [query.goal]
        question = Question(read.events(scope), query.field, goals, query.has_visits)
        rows = await read.rows(lambda parameters: traffic.figures(question, parameters, values))
        return {row[0]: row[1:] for row in rows}

    async def visit_pages(
        self, scope: Scope, field: str, limit: int, requester: Requester, compare: Scope | None = None
    ) -> VisitPages:
        """Return the first entry or exit pages."""
        read = await self._begin(scope.website, requester)
        rows = await read.rows(lambda parameters: traffic.visit_pages(read.events(scope), field, limit, parameters))
        unset = rows.pop(0)[1] if rows and not rows[0][0] else 0
        pages = [Page(*row) for row in rows[:limit]]
        if compare is None:
            return VisitPages(unset, pages)
        names = [page.value for page in pages]
        found = await read.rows(
            lambda parameters: traffic.visit_pages(read.events(compare), field, limit, parameters, names)
        )
        before = {row[0]: Page(*row) for row in found}
        return VisitPages(unset, pages, [before.get(name, Page(name, 0, 0, 0, 0)) for name in names])

    async def page_titles(self, website: int, pages: Sequence[str], requester: Requester) -> dict[str, str]:
        """Return the titles of pages."""
        return await self._confirmed.page_titles(website, pages, requester)

    async def traffic(self, websites: Sequence[int], requester: Requester) -> dict[int, Traffic]:
        """Return the number of events of each website."""
        await self._confirmed.last_id()
        rows = await self._client.rows(listing.number_of_events(websites), {}, requester.is_gone, requester.claim)
        counted = dict(map(tuple, rows))
        return {website: Traffic(counted.get(website, 0), True) for website in websites}

    async def first_event_ms(self, website: int, requester: Requester) -> int | None:
        """Return the time of the first traffic event."""
        read = await self._begin(website, requester)
        every_day = read.events(Scope(website, 0, _LAST_MS))
        ((first_ms, events),) = await read.rows(lambda _: listing.first_event(every_day))
        return read.time.utc(first_ms) if events else None

    async def imported_days(self, scope: Scope, fields: Sequence[str], requester: Requester) -> ImportedDays | None:
        """Return the days of imported sums in a scope, and which of them count."""
        return await self._confirmed.imported_days(scope, fields, requester)

    async def events(
        self, scope: Scope, after: Place | None, limit: int, only_traffic: bool, requester: Requester
    ) -> EventPage:
        """Return a page of events."""
        read = await self._begin(scope.website, requester)
        offset_ms = read.time.offset_ms
        place = Place(_FIRST, _FIRST, read.last_id) if after is None else after._replace(ts=after.ts + offset_ms)
        events = read.events(scope)
        rows = await read.rows(lambda parameters: listing.events(events, place, limit, only_traffic, parameters))
        return EventPage([listing.stored_event(row, offset_ms) for row in rows], place.last_id)

    async def realtime(self, website: int, now_ms: int, requester: Requester) -> Realtime:
        """Return the visitors of the last 300 seconds."""
        read = await self._begin(website, requester)
        events = read.events(Scope(website, now_ms - REALTIME_MS, now_ms + 1))
        rows = await read.rows(lambda _: listing.realtime(events, now_ms + read.time.offset_ms))
        pages = [(page, visitors) for page, visitors, has_none in rows if not has_none]
        return Realtime(sum(row[1] for row in rows), pages[:MAX_PAGES])

    # --- behaviour

    async def funnel(self, scope: Scope, steps: Sequence[FunnelStep], requester: Requester) -> list[Reached]:
        """Return the visits and visitors that reached each step."""
        read = await self._begin(scope.website, requester)
        (row,) = await read.rows(lambda parameters: behaviour.funnel(read.events(scope), steps, parameters))
        return [Reached(*row[3 * n : 3 * n + 3]) for n in range(len(steps))]

    async def journeys(
        self, scope: Scope, start: tuple[str, str], direction: Direction, steps: int, limit: int, requester: Requester
    ) -> list[Link]:
        """Return the links between steps."""
        read = await self._begin(scope.website, requester)
        events, shown = read.events(scope), list[list[tuple[str, str]]]([[] for _ in range(steps)])
        for n, field, text in await read.rows(
            lambda parameters: behaviour.journey_steps(events, start, direction, steps, limit, parameters)
        ):
            shown[n - 1].append((field, text))
        rows = await read.rows(lambda parameters: behaviour.journey_links(events, start, direction, shown, parameters))
        links = [Link(n, JourneyStep(*begin), JourneyStep(*end), visits) for n, begin, end, visits in rows]
        return sorted(links, key=lambda link: (link.step, -link.visits, link.begin, link.end))

    async def event_data(
        self, scope: Scope, event_name: str, only: str | None, limit: int, requester: Requester
    ) -> Data:
        """Return what event_data holds."""
        read = await self._begin(scope.website, requester)
        events = visitors = 0
        values: dict[str, list[tuple[Any, int, int]]] = {}
        for name, value, *counts in await read.rows(
            lambda parameters: behaviour.event_data(read.events(scope), event_name, only, parameters)
        ):
            if value:
                values.setdefault(name, []).append((key_of(scalar_of(value)), *counts))
            else:
                events, visitors = counts
        return of_values(events, visitors, values, limit)

    # --- measurements

    async def vitals(self, scope: Scope, requester: Requester) -> dict[str, Summary]:
        """Return the summary of each web vital."""
        read = await self._begin(scope.website, requester)
        found = await self._summaries(read, scope, "''", METRICS)
        return {metric: found("", metric) for metric in METRICS}

    async def vitals_by_value(
        self, scope: Scope, field: str, metric: str, limit: int, requester: Requester
    ) -> list[VitalsRow]:
        """Return the first values of pathname or device."""
        read = await self._begin(scope.website, requester)
        events = read.events(scope)
        rows = await read.rows(lambda parameters: measured.poorest(events, field, metric, limit, parameters))
        found = await self._summaries(read, scope, f"toString({field})", [metric], [value for value, _ in rows])
        return [VitalsRow(value, number, found(value, metric)) for value, number in rows]

    async def vitals_by_day(self, scope: Scope, metric: str, requester: Requester) -> list[tuple[int, Summary]]:
        """Return the summary of each day of the website."""
        read = await self._begin(scope.website, requester)
        own = read.time.scope(scope)
        found = await self._summaries(read, scope, "day", [metric])
        days = range(own.from_ms // DAY_MS, -(-own.to_ms // DAY_MS))
        return [(read.time.utc(max(own.from_ms, day * DAY_MS)), found(day, metric)) for day in days]

    async def _summaries(
        self, read: _Read, scope: Scope, by: str, metrics: Sequence[str], values: Sequence[str] | None = None
    ) -> Callable[[Any, str], Summary]:
        import numpy as np

        events = read.events(scope)
        counts: dict[tuple[Any, str], list[tuple[int, int]]] = {}
        for group, metric, *pair in await read.rows(
            lambda parameters: measured.vitals(events, by, metrics, parameters, values)
        ):
            counts.setdefault((group, metric), []).append(tuple(pair))
        from tally.reports.ordered_values import counted

        def summary(group: Any, metric: str) -> Summary:
            pairs = np.array(counts.get((group, metric), []), np.int64).reshape(-1, 2).T
            return counted(pairs[0], pairs[1], metric)

        return summary

    async def experiments(self, scope: Scope, requester: Requester) -> tuple[list[Experiment], int]:
        """Return the experiments and how many are omitted."""
        read = await self._begin(scope.website, requester)
        trials = measured.Trials(read.events(scope))
        rows = await read.rows(lambda parameters: trials.counts(experiments.MAX_ROWS + 1, parameters))
        if len(rows) > experiments.MAX_ROWS:
            return await self._largest(read, trials)
        return experiments.of_rows([_count(*row) for row in rows])

    async def _largest(self, read: _Read, trials: measured.Trials) -> tuple[list[Experiment], int]:
        """Return the same where there are too many counts: as many experiments as fit, as SQLite's report does."""
        ranked = await read.rows(lambda parameters: trials.experiments(experiments.MAX_EXPERIMENTS, parameters))
        names: list[str] = [name for name, _ in ranked]
        kept: list[list[tuple[str, str]]] = [[], []]
        totals: dict[str, list[int]] = {name: [0, 0] for name in names}
        for goals, limit in enumerate((experiments.MAX_VARIANTS, experiments.MAX_GOALS)):
            most = partial(trials.most_of_each, names, limit, goals=bool(goals))
            for name, member, total in await read.rows(most):
                kept[goals].append((name, member))
                totals[name][goals] = total
        sizes: dict[str, int] = dict(map(tuple, await read.rows(trials._replace(kept=kept).sizes)))
        chosen = {*experiments.fitting(names, sizes)}
        own = trials._replace(kept=[[pair for pair in some if pair[0] in chosen] for some in kept])
        counts = [_count(*row) for row in await read.rows(partial(own.counts, None))]
        found = experiments.of_largest(counts, {name: totals[name] for name in chosen})
        return found, ranked[0][1] - len(chosen)

    async def heatmap(
        self, website: int, pathname: str, days: range, widths: Sequence[str], requester: Requester
    ) -> Heatmap:
        """Return the heatmap of a page."""
        read = await self._begin(website, requester)
        page = website, pathname, days, [WIDTHS.index(width) for width in widths]
        rows = await read.rows(lambda parameters: measured.clicks(*page, MAX_CELLS, parameters))
        reached = {int(row): int(points) for row, points in await read.rows(lambda own: measured.depths(*page, own))}
        cells, clicks = rows[0][3:] if rows else (0, 0)
        grid = sorted(((x, y, points) for x, y, points, *_ in rows), key=itemgetter(1, 0))
        texts = await self._confirmed.heatmap_texts(website, pathname, widths, requester)
        return Heatmap(grid, cells, clicks, sum(reached.values()), shares(reached), texts)

    async def heatmap_pages(
        self, website: int, days: range, widths: Sequence[str], limit: int, requester: Requester
    ) -> HeatmapPages:
        """Return the first pages that have heatmap data."""
        read = await self._begin(website, requester)
        classes = [WIDTHS.index(width) for width in widths]
        rows = await read.rows(lambda _: measured.heatmap_pages(website, days, classes, limit))
        unset = tuple(rows.pop(0)[1:]) if rows and not rows[0][0] else (0, 0)
        return HeatmapPages([(page, samples, clicks) for page, samples, clicks in rows[:limit]], unset)


def _count(day: int, name: str, variant: str, converted: int, goal: str, visitors: int) -> experiments.Row:
    return day, name, variant, converted, goal, visitors


def has_leaves(events: Events) -> bool:
    """Return whether the filters of a scope are on fields that a leave has."""
    return {one.field for one in events.scope.filters}.issubset(EVENT_FIELDS)


def _top_row(value: str, row: list[Any], before: dict[str, list[Any]] | None, goal: Goal | None) -> TopRow:
    previous = None if before is None else before.get(value, [])
    found: list[Any] = []
    for figures in (row, previous):
        if figures is None:
            found += [None, None]
            continue
        end = len(Stats._fields)
        converted = figures[end:] or _NO_CONVERSIONS
        found += [Stats(*figures[:end]), None if goal is None else traffic.conversions(goal, converted)]
    return TopRow(value, *found)
