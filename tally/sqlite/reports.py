"""The analytics engine on the server's SQLite database: `Reports` by the functions of tally/reports.

Each method runs one function on a read-only connection of the database, in one snapshot: with the requester's deadline,
cancelled when the client has disconnected (tally/storage/connections.py). Sums over complete days are kept in a
`ResultCache`, and the visitors of the last minutes in memory (tally/sqlite/realtime.py), so that most queries
about the present read no file. Label numbers become texts here at the latest.
"""

import sqlite3
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from tally.accounts.websites import day_offset_ms
from tally.engine.values import (
    WIDTHS,
    BeyondRetention,
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
from tally.engine.website_time import WebsiteTime
from tally.reports import (
    event_data,
    event_list,
    experiments,
    funnels,
    goals,
    heatmaps,
    journeys,
    stats,
    top,
    visit_pages,
    web_vitals,
)
from tally.reports.cache import ResultCache
from tally.reports.coverage import check_retention
from tally.rollups import imported_sums
from tally.rollups.traffic import traffic_of
from tally.sqlite.changes import Changes
from tally.sqlite.realtime import Present, most_visited, read_snapshot
from tally.sqlite.realtime import Realtime as LiveVisitors
from tally.storage import page_titles
from tally.storage.meta import ids_end
from tally.storage.node_database import NodeDatabase
from tally.storage.sql import events as statements

T = TypeVar("T")
# Above every timestamp and id: the list of events begins with the newest.
_FIRST = 1 << 62


class SqliteReports:
    """The reports of a running server. Used by the event loop alone; its functions run on the readers' threads."""

    def __init__(self, database: NodeDatabase, changes: Changes, live: LiveVisitors) -> None:
        self._database, self._changes, self._live = database, changes, live
        self.cache = ResultCache()
        # By website: its version when its events were counted last, and their number.
        self._counted: dict[int, tuple[Hashable, Traffic]] = {}

    async def _read(self, requester: Requester, query: Callable[[sqlite3.Connection], T]) -> T:
        return await self._database.read(query, requester.is_gone, requester.claim)

    async def _report(
        self, requester: Requester, website: int, query: Callable[[sqlite3.Connection, "WebsiteTime"], T]
    ) -> T:
        """Read about a website, whose times are in its own time; that of a BeyondRetention is then in UTC."""

        def run(connection: sqlite3.Connection) -> T:
            time = WebsiteTime(day_offset_ms(connection, website))
            try:
                return query(connection, time)
            except BeyondRetention as beyond:
                raise BeyondRetention(time.utc(beyond.from_ms)) from None

        return await self._read(requester, run)

    def version(self, website: int) -> Hashable:
        """Return the website's change counter."""
        return self._changes.version_of(website)

    async def refresh(self, requester: Requester) -> None:
        """Refresh where another process has imported events."""
        await self._changes.catch_up(await self._read(requester, ids_end))

    async def traffic(self, websites: Sequence[int], requester: Requester) -> dict[int, Traffic]:
        """Return the events of each website. Only websites that have changed are counted again."""
        versions = {website: self.version(website) for website in websites}
        known = {}
        for website, version in versions.items():
            counted_at, counted = self._counted.get(website, (None, Traffic(0, False)))
            if counted_at == version and counted.is_exact:
                known[website] = counted
        others = [website for website in websites if website not in known]
        if not others:
            return known
        counted_now = await self._read(requester, lambda run: traffic_of(run, others))
        self._counted.update({website: (versions[website], counted) for website, counted in counted_now.items()})
        return known | counted_now

    # --- traffic

    async def first_event_ms(self, website: int, requester: Requester) -> int | None:
        """Return the time of the first traffic event, or of its quarter hour where days have no rows."""

        def first(run: sqlite3.Connection, time: WebsiteTime) -> int | None:
            row = run.execute(*statements.first_event(website)).fetchone()
            return None if row is None else time.utc(int(row[0]))

        return await self._report(requester, website, first)

    async def imported_days(self, scope: Scope, fields: Sequence[str], requester: Requester) -> ImportedDays | None:
        """Return the days of imported sums in a scope, and which of them count."""

        def days(run: sqlite3.Connection, time: WebsiteTime) -> ImportedDays | None:
            website_scope = time.scope(scope)
            whole_days = None if website_scope.filters else website_scope.whole_days
            return imported_sums.days(run, website_scope.website, website_scope[1:3], whole_days, fields)

        return await self._report(requester, scope.website, days)

    async def stats(self, scopes: Sequence[Scope], requester: Requester) -> list[Stats]:
        """Return the key figures of each scope."""
        return await self._report(
            requester,
            scopes[0].website,
            lambda run, time: [stats.stats(run, time.scope(scope), self.cache) for scope in scopes],
        )

    async def goal_stats(
        self, scopes: Sequence[Scope], goal: Goal, requester: Requester
    ) -> list[tuple[Stats, Conversions]]:
        """Return the key figures of each scope with the conversions of a goal."""

        def both(run: sqlite3.Connection, time: WebsiteTime) -> list[tuple[Stats, Conversions]]:
            return [
                (stats.stats(run, scope, self.cache), goals.total(run, scope, goal, self.cache))
                for scope in [time.scope(utc_scope) for utc_scope in scopes]
            ]

        return await self._report(requester, scopes[0].website, both)

    async def timeseries(self, scope: Scope, buckets: Sequence[Span], requester: Requester) -> list[Sequence[int]]:
        """Return (visitors, visits, pageviews, events) of each bucket."""
        return await self._report(
            requester,
            scope.website,
            lambda run, time: stats.series(run, time.scope(scope), time.spans(buckets), self.cache),
        )

    async def goal_timeseries(
        self, scope: Scope, goal: Goal, buckets: Sequence[Span], requester: Requester
    ) -> list[tuple[Sequence[int], Conversions]]:
        """Return the row of each bucket with the conversions of a goal."""

        def both(run: sqlite3.Connection, time: WebsiteTime) -> list[tuple[Sequence[int], Conversions]]:
            website_scope, spans = time.scope(scope), time.spans(buckets)
            rows = stats.series(run, website_scope, spans, self.cache)
            return list(zip(rows, goals.by_bucket(run, website_scope, goal, spans, self.cache), strict=True))

        return await self._report(requester, scope.website, both)

    async def overview(
        self, scope: Scope, compare: Scope, buckets: Sequence[Span], requester: Requester
    ) -> tuple[Stats, Stats, list[Sequence[int]]]:
        """Return the key figures of two scopes and the time series of the first."""

        def all_of_them(run: sqlite3.Connection, time: WebsiteTime) -> tuple[Stats, Stats, list[Sequence[int]]]:
            now, before = (stats.stats(run, time.scope(utc_scope), self.cache) for utc_scope in (scope, compare))
            series = stats.series(run, time.scope(scope), time.spans(buckets), self.cache)
            return now, before, series

        return await self._report(requester, scope.website, all_of_them)

    async def top(self, scope: Scope, queries: Sequence[TopQuery], requester: Requester) -> list[Top]:
        """Return some values of a field."""
        return await self._report(
            requester,
            scope.website,
            lambda run, time: top.top(run, time.scope(scope), time.queries(queries), self.cache),
        )

    async def goals(self, scope: Scope, wanted: Sequence[Goal], requester: Requester) -> GoalFigures:
        """Return the visitors of a scope, and the conversions of each goal."""
        return await self._report(
            requester, scope.website, lambda run, time: goals.report(run, time.scope(scope), wanted, self.cache)
        )

    async def visit_pages(
        self, scope: Scope, field: str, limit: int, requester: Requester, compare: Scope | None = None
    ) -> VisitPages:
        """Return the first entry or exit pages."""

        def pages(run: sqlite3.Connection, time: WebsiteTime) -> VisitPages:
            other = None if compare is None else time.scope(compare)
            return visit_pages.pages(run, time.scope(scope), field, limit, self.cache, other)

        return await self._report(requester, scope.website, pages)

    async def page_titles(self, website: int, pages: Sequence[str], requester: Requester) -> dict[str, str]:
        """Return the titles of pages."""
        return await self._read(requester, lambda run: page_titles.titles_of(run, website, pages))

    async def events(
        self, scope: Scope, after: Place | None, limit: int, only_traffic: bool, requester: Requester
    ) -> EventPage:
        """Return a page of events. Every id up to `last_id` is committed: later pages show no event that is newer."""

        def page(run: sqlite3.Connection, time: WebsiteTime) -> tuple[int, list[tuple[Any, ...]]]:
            website_scope = time.scope(scope)
            check_retention(run, website_scope)
            begin = start if start.ts == _FIRST else start._replace(ts=start.ts + time.offset_ms)
            rows = event_list.page(run, website_scope, begin, limit, self.cache, only_traffic=only_traffic)
            return ids_end(run), [(id, type_, time.utc(ts), *rest) for id, type_, ts, *rest in rows]

        changes, catch_ups = self._changes, self._changes.catch_ups
        start = after or Place(_FIRST, _FIRST, changes.last_id)
        given_out, rows = await self._report(requester, scope.website, page)
        if after is None and (await changes.catch_up(given_out) or changes.catch_ups != catch_ups):
            # Another process has imported events: they are shown at once.
            start = start._replace(last_id=changes.last_id)
            _, rows = await self._report(requester, scope.website, page)
        return EventPage([event_list.stored_event(row) for row in rows], start.last_id)

    async def realtime(self, website: int, now_ms: int, requester: Requester) -> Realtime:
        """Return the visitors of the last 300 seconds, from memory where they are kept there."""
        live = self._live
        present = live.present(website, now_ms) or await self._present(website, now_ms, requester)
        texts = live.texts(present)
        missing = [page for page, _ in present.pages if page not in texts]
        if missing:
            rows = await self._read(requester, lambda run: run.execute(*statements.texts(missing)).fetchall())
            live.learn(rows)
            texts.update(rows)
        return Realtime(present.active, most_visited(present, texts))

    async def _present(self, website: int, now_ms: int, requester: Requester) -> Present:
        """Return the present visitors from the file, and keep them for the next query where possible."""
        live, seen = self._live, None
        watch = live.begin(website, now_ms)
        try:
            seen = await self._read(requester, lambda run: read_snapshot(run, website, now_ms, watch is not None))
        finally:
            if watch is not None:
                live.fill(website, watch, seen)
        return seen.present

    # --- measurements and behaviour

    async def vitals(self, scope: Scope, requester: Requester) -> dict[str, Summary]:
        """Return the summary of each web vital."""
        return await self._report(
            requester, scope.website, lambda run, time: web_vitals.overall(run, time.scope(scope), self.cache)
        )

    async def vitals_by_value(
        self, scope: Scope, field: str, metric: str, limit: int, requester: Requester
    ) -> list[VitalsRow]:
        """Return the first values of pathname or device."""
        return await self._report(
            requester,
            scope.website,
            lambda run, time: web_vitals.by_value(run, time.scope(scope), field, metric, limit, self.cache),
        )

    async def vitals_by_day(self, scope: Scope, metric: str, requester: Requester) -> list[tuple[int, Summary]]:
        """Return the summary of each day of the website."""

        def by_day(run: sqlite3.Connection, time: WebsiteTime) -> list[tuple[int, Summary]]:
            days = web_vitals.by_day(run, time.scope(scope), metric, self.cache)
            return [(time.utc(ms), summary) for ms, summary in days]

        return await self._report(requester, scope.website, by_day)

    async def experiments(self, scope: Scope, requester: Requester) -> tuple[list[Experiment], int]:
        """Return the experiments and how many are omitted."""
        return await self._report(
            requester, scope.website, lambda run, time: experiments.experiments(run, time.scope(scope), self.cache)
        )

    async def heatmap(
        self, website: int, pathname: str, days: range, widths: Sequence[str], requester: Requester
    ) -> Heatmap:
        """Return the heatmap of a page."""
        classes = _classes(widths)
        return await self._read(requester, lambda run: heatmaps.heatmap(run, website, pathname, days, classes))

    async def heatmap_pages(
        self, website: int, days: range, widths: Sequence[str], limit: int, requester: Requester
    ) -> HeatmapPages:
        """Return the first pages that have heatmap data."""
        classes = _classes(widths)
        return await self._read(requester, lambda run: heatmaps.pages(run, website, days, classes, limit))

    async def funnel(self, scope: Scope, steps: Sequence[FunnelStep], requester: Requester) -> list[Reached]:
        """Return the visits and visitors that reached each step."""
        return await self._report(
            requester, scope.website, lambda run, time: funnels.funnel(run, time.scope(scope), steps, self.cache)
        )

    async def journeys(
        self, scope: Scope, start: tuple[str, str], direction: Direction, steps: int, limit: int, requester: Requester
    ) -> list[Link]:
        """Return the links between steps."""
        return await self._report(
            requester,
            scope.website,
            lambda run, time: journeys.journeys(run, time.scope(scope), start, direction, steps, limit, self.cache),
        )

    async def event_data(
        self, scope: Scope, event_name: str, only: str | None, limit: int, requester: Requester
    ) -> Data:
        """Return what event_data holds."""
        return await self._report(
            requester,
            scope.website,
            lambda run, time: event_data.data(run, time.scope(scope), event_name, only, limit, self.cache),
        )


def _classes(widths: Sequence[str]) -> list[int]:
    return sorted({WIDTHS.index(width) for width in widths})
