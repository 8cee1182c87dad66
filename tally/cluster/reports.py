"""The reports of a server that is followed by ClickHouse: each is answered by ClickHouse where that is certain to be
right and by SQLite otherwise, with the same figures.

ClickHouse answers about a website that has a complete copy there, about days whose events are kept, once it has every
batch that was committed before the question. Whether the copy is still the website's is read before the question and
after the answer, since an import or the expiry of events may end it meanwhile. What needs no events, or is in memory,
is always SQLite's.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from tally.accounts.websites import day_offset_ms
from tally.clickhouse.reports import ClickHouseReports, NotWritten
from tally.cluster.servers import Servers
from tally.cluster.shipper import Shipper
from tally.engine.reports import Reports
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
from tally.errors import ApiError
from tally.sqlite.changes import Changes
from tally.sqlite.reports import SqliteReports
from tally.storage.cluster_tables import Copy, copy_of
from tally.storage.fair_queue import FairQueue
from tally.storage.node_database import NodeDatabase
from tally.timestamps import DAY_MS

T = TypeVar("T")
# ClickHouse answers so many questions at once; the others wait, in turn by account.
_AT_ONCE = 8
_UNBOUNDED = 1 << 30


class CopyFacts:
    """What ClickHouse's reports need to know of a copy, for one question (`Confirmed`)."""

    def __init__(self, sqlite: SqliteReports, website: int, offset_ms: int, last_id: int) -> None:
        self._sqlite, self._website, self._offset_ms, self._last_id = sqlite, website, offset_ms, last_id

    def version(self, website: int) -> Hashable:
        """Return the version of the copy's website."""
        return self._sqlite.version(self._website)

    def offset_ms(self, website: int) -> int:
        """Return what the time of the website has more than UTC."""
        return self._offset_ms

    async def refresh(self) -> None:
        """Do nothing: SQLite's reports are refreshed."""

    async def last_id(self) -> int:
        """Return the last id that was committed before the question: ClickHouse has it."""
        return self._last_id

    async def page_titles(self, website: int, pages: Sequence[str], requester: Requester) -> dict[str, str]:
        """Return the titles of pages."""
        return await self._sqlite.page_titles(self._website, pages, requester)

    async def heatmap_texts(
        self, website: int, pathname: str, widths: Sequence[str], requester: Requester
    ) -> Sequence[tuple[int, int, str]]:
        """Return the texts of clicked elements."""
        return (await self._sqlite.heatmap(self._website, pathname, range(0), widths, requester)).texts


class FollowReports:
    """The reports of a server with ClickHouse. Used by the event loop alone."""

    def __init__(
        self, sqlite: SqliteReports, database: NodeDatabase, changes: Changes, shipper: Shipper, servers: Servers
    ) -> None:
        self.cache = sqlite.cache
        # Questions that each engine has answered.
        self.by_clickhouse = self.by_sqlite = 0
        self._sqlite, self._database, self._changes = sqlite, database, changes
        self._shipper, self._servers = shipper, servers
        self._queue = FairQueue(range(_AT_ONCE), _UNBOUNDED)

    async def _answer(
        self,
        website: int,
        begins_ms: Iterable[int],
        ask: Callable[[Reports, int], Awaitable[T]],
        requester: Requester,
    ) -> T:
        """Return the answer of ClickHouse, else that of SQLite, to a question whose ranges begin at these times.

        ask: takes the engine, and the website's number there.
        """
        copy, offset_ms = await self._copy_of(website)
        last_id = self._changes.last_id
        if (
            copy is not None
            and copy.last_id <= last_id
            and all((begin_ms + offset_ms) // DAY_MS >= copy.from_day for begin_ms in begins_ms)
            and await self._shipper.has_all()
        ):
            reports = ClickHouseReports(self._servers.client, CopyFacts(self._sqlite, website, offset_ms, last_id))
            slot = self._queue.request(requester.claim)
            try:
                await slot
                found = await ask(reports, copy.copy)
            except (ApiError, NotWritten):
                if requester.is_gone():
                    raise
            else:
                if await self._copy_of(website) == (copy, offset_ms):
                    self.by_clickhouse += 1
                    return found
            finally:
                self._queue.withdraw(requester.claim, slot)
        self.by_sqlite += 1
        return await ask(self._sqlite, website)

    async def _copy_of(self, website: int) -> tuple[Copy | None, int]:
        """Return the complete copy of a website, and what its time has more than UTC."""
        copy, offset_ms = await self._database.read(
            lambda connection: (copy_of(connection, website), day_offset_ms(connection, website))
        )
        return (copy if copy is not None and copy.state == "joined" else None), offset_ms

    async def _of(
        self, scope: Scope, ask: Callable[[Reports, Scope], Awaitable[T]], requester: Requester, *others: Scope | None
    ) -> T:
        """`_answer` to a question about a scope, which is compared with others."""
        begins = [one.from_ms for one in (scope, *others) if one is not None]
        return await self._answer(
            scope.website, begins, lambda reports, copy: ask(reports, scope._replace(website=copy)), requester
        )

    def version(self, website: int) -> Hashable:
        """Return the website's version."""
        return self._sqlite.version(website)

    async def refresh(self, requester: Requester) -> None:
        """Refresh where another process has written events."""
        await self._sqlite.refresh(requester)

    async def traffic(self, websites: Sequence[int], requester: Requester) -> dict[int, Traffic]:
        """Return the number of events of each website."""
        return await self._sqlite.traffic(websites, requester)

    async def first_event_ms(self, website: int, requester: Requester) -> int | None:
        """Return the time of the first traffic event."""
        return await self._sqlite.first_event_ms(website, requester)

    async def imported_days(self, scope: Scope, fields: Sequence[str], requester: Requester) -> ImportedDays | None:
        """Return the days of imported sums: a website that has some has no copy."""
        return await self._sqlite.imported_days(scope, fields, requester)

    async def page_titles(self, website: int, pages: Sequence[str], requester: Requester) -> dict[str, str]:
        """Return the titles of pages."""
        return await self._sqlite.page_titles(website, pages, requester)

    async def realtime(self, website: int, now_ms: int, requester: Requester) -> Realtime:
        """Return the visitors of the last 300 seconds."""
        return await self._sqlite.realtime(website, now_ms, requester)

    async def stats(self, scopes: Sequence[Scope], requester: Requester) -> list[Stats]:
        """Return the key figures of each scope."""
        return await self._answer(
            scopes[0].website,
            [one.from_ms for one in scopes],
            lambda reports, copy: reports.stats([one._replace(website=copy) for one in scopes], requester),
            requester,
        )

    async def goal_stats(
        self, scopes: Sequence[Scope], goal: Goal, requester: Requester
    ) -> list[tuple[Stats, Conversions]]:
        """Return the key figures of each scope with the conversions of a goal."""
        return await self._answer(
            scopes[0].website,
            [one.from_ms for one in scopes],
            lambda reports, copy: reports.goal_stats([one._replace(website=copy) for one in scopes], goal, requester),
            requester,
        )

    async def timeseries(self, scope: Scope, buckets: Sequence[Span], requester: Requester) -> list[Sequence[int]]:
        """Return (visitors, visits, pageviews, events) of each bucket."""
        return await self._of(scope, lambda reports, own: reports.timeseries(own, buckets, requester), requester)

    async def goal_timeseries(
        self, scope: Scope, goal: Goal, buckets: Sequence[Span], requester: Requester
    ) -> list[tuple[Sequence[int], Conversions]]:
        """Return the row of each bucket with the conversions of a goal."""
        return await self._of(
            scope, lambda reports, own: reports.goal_timeseries(own, goal, buckets, requester), requester
        )

    async def overview(
        self, scope: Scope, compare: Scope, buckets: Sequence[Span], requester: Requester
    ) -> tuple[Stats, Stats, list[Sequence[int]]]:
        """Return the key figures of two scopes and the time series of the first."""
        return await self._of(
            scope,
            lambda reports, own: reports.overview(own, compare._replace(website=own.website), buckets, requester),
            requester,
            compare,
        )

    async def top(self, scope: Scope, queries: Sequence[TopQuery], requester: Requester) -> list[Top]:
        """Return some values of a field for each query."""

        def ask(reports: Reports, own: Scope) -> Awaitable[list[Top]]:
            asked = [
                one if one.compare is None else one._replace(compare=one.compare._replace(website=own.website))
                for one in queries
            ]
            return reports.top(own, asked, requester)

        return await self._of(scope, ask, requester, *(one.compare for one in queries))

    async def goals(self, scope: Scope, goals: Sequence[Goal], requester: Requester) -> GoalFigures:
        """Return the visitors of a scope, and the conversions of each goal."""
        return await self._of(scope, lambda reports, own: reports.goals(own, goals, requester), requester)

    async def visit_pages(
        self, scope: Scope, field: str, limit: int, requester: Requester, compare: Scope | None = None
    ) -> VisitPages:
        """Return the first entry or exit pages."""

        def ask(reports: Reports, own: Scope) -> Awaitable[VisitPages]:
            before = None if compare is None else compare._replace(website=own.website)
            return reports.visit_pages(own, field, limit, requester, before)

        return await self._of(scope, ask, requester, compare)

    async def events(
        self, scope: Scope, after: Place | None, limit: int, only_traffic: bool, requester: Requester
    ) -> EventPage:
        """Return a page of events."""
        return await self._of(
            scope, lambda reports, own: reports.events(own, after, limit, only_traffic, requester), requester
        )

    async def vitals(self, scope: Scope, requester: Requester) -> dict[str, Summary]:
        """Return the summary of each web vital."""
        return await self._of(scope, lambda reports, own: reports.vitals(own, requester), requester)

    async def vitals_by_value(
        self, scope: Scope, field: str, metric: str, limit: int, requester: Requester
    ) -> list[VitalsRow]:
        """Return the first values by poor values of the metric."""
        return await self._of(
            scope, lambda reports, own: reports.vitals_by_value(own, field, metric, limit, requester), requester
        )

    async def vitals_by_day(self, scope: Scope, metric: str, requester: Requester) -> list[tuple[int, Summary]]:
        """Return (start, summary) of each day."""
        return await self._of(scope, lambda reports, own: reports.vitals_by_day(own, metric, requester), requester)

    async def experiments(self, scope: Scope, requester: Requester) -> tuple[list[Experiment], int]:
        """Return the experiments, and how many are omitted."""
        return await self._of(scope, lambda reports, own: reports.experiments(own, requester), requester)

    async def heatmap(
        self, website: int, pathname: str, days: range, widths: Sequence[str], requester: Requester
    ) -> Heatmap:
        """Return the clicks and scroll depths of a page."""
        return await self._answer(
            website,
            [] if not days else [days.start * DAY_MS],
            lambda reports, copy: reports.heatmap(copy, pathname, days, widths, requester),
            requester,
        )

    async def heatmap_pages(
        self, website: int, days: range, widths: Sequence[str], limit: int, requester: Requester
    ) -> HeatmapPages:
        """Return the first pages that have heatmap data."""
        return await self._answer(
            website,
            [] if not days else [days.start * DAY_MS],
            lambda reports, copy: reports.heatmap_pages(copy, days, widths, limit, requester),
            requester,
        )

    async def funnel(self, scope: Scope, steps: Sequence[FunnelStep], requester: Requester) -> list[Reached]:
        """Return the visits and visitors that reached each step."""
        return await self._of(scope, lambda reports, own: reports.funnel(own, steps, requester), requester)

    async def journeys(
        self, scope: Scope, start: tuple[str, str], direction: Direction, steps: int, limit: int, requester: Requester
    ) -> list[Link]:
        """Return the links between steps."""
        return await self._of(
            scope, lambda reports, own: reports.journeys(own, start, direction, steps, limit, requester), requester
        )

    async def event_data(
        self, scope: Scope, event_name: str, only: str | None, limit: int, requester: Requester
    ) -> Data:
        """Return what event_data holds of a name's events."""
        return await self._of(
            scope, lambda reports, own: reports.event_data(own, event_name, only, limit, requester), requester
        )
