"""The analytics engine on the server's SQLite database: `Reports` by the functions of tally/reports.

Each method runs one function on a read-only connection of the database, in one snapshot: with the requester's deadline,
cancelled when the client has disconnected (tally/storage/connections.py). Sums over complete days are kept in a
`ResultCache`, and the visitors of the last minutes in memory (tally/sqlite/realtime.py), so that most queries
about the present read no file. Label numbers become texts here at the latest.
"""

import sqlite3
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from tally.engine.values import (
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
    Link,
    Page,
    Place,
    Reached,
    Realtime,
    Requester,
    Scope,
    Span,
    Stats,
    StoredEvent,
    Summary,
    Top,
    TopQuery,
    Traffic,
    VitalsRow,
)
from tally.events.dimensions import FIELDS
from tally.events.validation import TYPE_NAMES
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
from tally.rollups.web_vitals import from_stored
from tally.sqlite.changes import Changes
from tally.sqlite.realtime import Present, most_visited, read_snapshot
from tally.sqlite.realtime import Realtime as LiveVisitors
from tally.sqlite.writer import ids_end
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
        found = await self._read(requester, lambda run: traffic_of(run, others))
        self._counted.update({website: (versions[website], counted) for website, counted in found.items()})
        return known | found

    # --- traffic

    async def first_event_ms(self, website: int, requester: Requester) -> int | None:
        """Return the time of the first traffic event, or of its quarter hour where days have no rows."""

        def first(connection: sqlite3.Connection) -> int | None:
            row = connection.execute(*statements.first_event(website)).fetchone()
            return None if row is None else int(row[0])

        return await self._read(requester, first)

    async def imported_days(self, scope: Scope, fields: Sequence[str], requester: Requester) -> ImportedDays | None:
        """Return the days of imported sums in a scope, and which of them count."""
        whole_days = None if scope.filters else scope.whole_days
        return await self._read(
            requester, lambda run: imported_sums.days(run, scope.website, scope[1:3], whole_days, fields)
        )

    async def stats(self, scopes: Sequence[Scope], requester: Requester) -> list[Stats]:
        """Return the key figures of each scope."""
        return await self._read(requester, lambda run: [stats.stats(run, scope, self.cache) for scope in scopes])

    async def goal_stats(
        self, scopes: Sequence[Scope], goal: Goal, requester: Requester
    ) -> list[tuple[Stats, Conversions]]:
        """Return the key figures of each scope with the conversions of a goal."""

        def both(run: sqlite3.Connection) -> list[tuple[Stats, Conversions]]:
            return [
                (stats.stats(run, scope, self.cache), goals.total(run, scope, goal, self.cache)) for scope in scopes
            ]

        return await self._read(requester, both)

    async def timeseries(self, scope: Scope, buckets: Sequence[Span], requester: Requester) -> list[Sequence[int]]:
        """Return (visitors, visits, pageviews, events) of each bucket."""
        return await self._read(requester, lambda run: stats.series(run, scope, buckets, self.cache))

    async def goal_timeseries(
        self, scope: Scope, goal: Goal, buckets: Sequence[Span], requester: Requester
    ) -> list[tuple[Sequence[int], Conversions]]:
        """Return the row of each bucket with the conversions of a goal."""

        def both(run: sqlite3.Connection) -> list[tuple[Sequence[int], Conversions]]:
            rows = stats.series(run, scope, buckets, self.cache)
            return list(zip(rows, goals.by_bucket(run, scope, goal, buckets, self.cache), strict=True))

        return await self._read(requester, both)

    async def overview(
        self, scope: Scope, compare: Scope, buckets: Sequence[Span], requester: Requester
    ) -> tuple[Stats, Stats, list[Sequence[int]]]:
        """Return the key figures of two scopes and the time series of the first."""

        def all_of_them(run: sqlite3.Connection) -> tuple[Stats, Stats, list[Sequence[int]]]:
            now, before = (stats.stats(run, one, self.cache) for one in (scope, compare))
            return now, before, stats.series(run, scope, buckets, self.cache)

        return await self._read(requester, all_of_them)

    async def top(self, scope: Scope, queries: Sequence[TopQuery], requester: Requester) -> list[Top]:
        """Return some values of a field."""
        return await self._read(requester, lambda run: top.top(run, scope, queries, self.cache))

    async def goals(self, scope: Scope, wanted: Sequence[Goal], requester: Requester) -> GoalFigures:
        """Return the visitors of a scope, and the conversions of each goal."""
        return await self._read(requester, lambda run: goals.report(run, scope, wanted, self.cache))

    async def event_names(self, scope: Scope, limit: int, requester: Requester) -> list[tuple[str, int, int]]:
        """Return the first names of custom events."""
        return await self._read(requester, lambda run: top.names(run, scope, limit, self.cache))

    async def visit_pages(self, scope: Scope, field: str, limit: int, requester: Requester) -> tuple[int, list[Page]]:
        """Return the first entry or exit pages."""
        return await self._read(requester, lambda run: visit_pages.pages(run, scope, field, limit, self.cache))

    async def events(
        self, scope: Scope, after: Place | None, limit: int, only_traffic: bool, requester: Requester
    ) -> EventPage:
        """Return a page of events. Every id up to `last_id` is committed: later pages show no event that is newer."""

        def page(connection: sqlite3.Connection, start: Place) -> tuple[int, list[tuple[Any, ...]]]:
            check_retention(connection, scope)
            return ids_end(connection), event_list.page(
                connection, scope, start, limit, self.cache, only_traffic=only_traffic
            )

        changes, catch_ups = self._changes, self._changes.catch_ups
        start = after or Place(_FIRST, _FIRST, changes.last_id)
        given_out, rows = await self._read(requester, lambda run: page(run, start))
        if after is None and (await changes.catch_up(given_out) or changes.catch_ups != catch_ups):
            # Another process has imported events: they are shown at once.
            start = start._replace(last_id=changes.last_id)
            _, rows = await self._read(requester, lambda run: page(run, start))
        return EventPage([_stored_event(row) for row in rows], start.last_id)

    async def realtime(self, website: int, now_ms: int, requester: Requester) -> Realtime:
        """Return the visitors of the last 300 seconds, from memory where they are kept there."""
        live = self._live
        present = live.present(website, now_ms) or await self._present(website, now_ms, requester)
        texts = live.texts(present)
        missing = [page for page, _ in present.pages if page not in texts]
        if missing:
            found = await self._read(requester, lambda run: run.execute(*statements.texts(missing)).fetchall())
            live.learn(found)
            texts.update(found)
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
        return await self._read(requester, lambda run: web_vitals.overall(run, scope, self.cache))

    async def vitals_by_value(
        self, scope: Scope, field: str, metric: str, limit: int, requester: Requester
    ) -> list[VitalsRow]:
        """Return the first values of pathname or device."""
        return await self._read(
            requester, lambda run: web_vitals.by_value(run, scope, field, metric, limit, self.cache)
        )

    async def vitals_by_day(self, scope: Scope, metric: str, requester: Requester) -> list[tuple[int, Summary]]:
        """Return the summary of each UTC day."""
        return await self._read(requester, lambda run: web_vitals.by_day(run, scope, metric, self.cache))

    async def experiments(self, scope: Scope, requester: Requester) -> tuple[list[Experiment], int]:
        """Return the experiments and how many are omitted."""
        return await self._read(requester, lambda run: experiments.experiments(run, scope, self.cache))

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
        return await self._read(requester, lambda run: funnels.funnel(run, scope, steps, self.cache))

    async def journeys(
        self, scope: Scope, start: tuple[str, str], direction: Direction, steps: int, limit: int, requester: Requester
    ) -> list[Link]:
        """Return the links between steps."""
        return await self._read(
            requester, lambda run: journeys.journeys(run, scope, start, direction, steps, limit, self.cache)
        )

    async def event_data(
        self, scope: Scope, event_name: str, only: str | None, limit: int, requester: Requester
    ) -> Data:
        """Return what event_data holds."""
        return await self._read(requester, lambda run: event_data.data(run, scope, event_name, only, limit, self.cache))


def _classes(widths: Sequence[str]) -> list[int]:
    return sorted({WIDTHS.index(width) for width in widths})


def _stored_event(row: tuple[Any, ...]) -> StoredEvent:
    """An event from a row of tally/storage/sql/events.py `events`."""
    id, type_, ts, *rest = row
    end = len(FIELDS)
    name, data, visitor, visit, experiment, variant, goal, value, *metrics = rest[end:]
    return StoredEvent(
        id,
        TYPE_NAMES[type_],
        ts,
        tuple(text or "" for text in rest[:end]),
        name or "",
        data,
        None if visit is None else f"{visitor:x}-{visit}",
        from_stored(metrics),
        experiment or "",
        variant or "",
        goal or "",
        value,
    )
