"""`cluster compare`: the same questions to both engines, about the websites that ClickHouse answers.

The server may run meanwhile. Before each question ClickHouse has to have what is committed; answers that differ are
asked for again, since an event may have been stored between them.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from tally.clickhouse.reports import ClickHouseReports, Snapshot
from tally.clock import Clock
from tally.cluster.servers import Servers, opened
from tally.cluster.shipper import CannotFollow
from tally.engine.reports import EventReports
from tally.engine.values import WIDTHS, FunnelStep, Goal, Requester, Scope, TopQuery
from tally.events.dimensions import FIELDS, PAGES
from tally.events.filters import Filter
from tally.events.sessions import Sessions
from tally.events.website import Website
from tally.settings import Settings
from tally.sqlite.changes import Changes
from tally.sqlite.realtime import Realtime
from tally.sqlite.reports import SqliteReports
from tally.sqlite.writer import EventWriter
from tally.storage.cluster_tables import Copy, copy_of
from tally.storage.meta import ids_end
from tally.storage.node_database import NodeDatabase, opened_database
from tally.storage.registry import Registry
from tally.timestamps import DAY_MS

_LIMIT = 50
_TRIES, _WAIT_S = 3, 30
_MINUTE_MS = 60_000
_RANGES = (1, 7, 30, 365)
_SERVER = Requester()
_VIEWS, _EVENTS = ((Filter("type", "=", (kind,)),) for kind in ("pageview", "event"))
Ask = Callable[[EventReports, Scope], Awaitable[Any]]


class Difference(NamedTuple):
    """A question that both engines answer differently, three times."""

    question: str
    sqlite: str
    clickhouse: str


def _questions(scope: Scope) -> Iterator[tuple[str, Ask]]:
    """Yield questions about the range of a scope, which are put with the scope of each engine."""
    buckets = [(begin, min(begin + DAY_MS, scope.to_ms)) for begin in range(scope.from_ms, scope.to_ms, DAY_MS)]
    days = range(scope.from_ms // DAY_MS + 1, scope.to_ms // DAY_MS)
    yield "stats", lambda engine, own: engine.stats([own], _SERVER)
    yield "timeseries", lambda engine, own: engine.timeseries(own, buckets, _SERVER)
    for field in FIELDS:
        yield f"top {field}", partial(_top, field)
    for page in PAGES:
        yield page, partial(_pages, page)
    steps = [FunnelStep("pathname", "/"), FunnelStep("", "", _VIEWS)]
    yield "funnel", lambda engine, own: engine.funnel(own, steps, _SERVER)
    yield "goals", lambda engine, own: engine.goals(own, [Goal(_VIEWS), Goal(_EVENTS)], _SERVER)
    yield "journeys", lambda engine, own: engine.journeys(own, ("pathname", "/"), "next", 3, 5, _SERVER)
    yield "vitals", lambda engine, own: engine.vitals(own, _SERVER)
    yield "vitals of pages", lambda engine, own: engine.vitals_by_value(own, "pathname", "lcp", _LIMIT, _SERVER)
    yield "experiments", lambda engine, own: engine.experiments(own, _SERVER)
    yield "events", lambda engine, own: engine.events(own, None, _LIMIT, False, _SERVER)
    yield "heatmap pages", lambda engine, own: engine.heatmap_pages(own.website, days, WIDTHS, _LIMIT, _SERVER)


def _top(field: str, engine: EventReports, scope: Scope) -> Awaitable[Any]:
    return engine.top(scope, [TopQuery(field, _LIMIT, has_visits=True)], _SERVER)


def _pages(field: str, engine: EventReports, scope: Scope) -> Awaitable[Any]:
    return engine.visit_pages(scope, field, _LIMIT, _SERVER)


class Comparison:
    """Both engines of a file, beside the server that runs on it."""

    def __init__(self, database: NodeDatabase, servers: Servers, clock: Clock) -> None:
        writer = EventWriter(Sessions(1), lambda plan: None, clock)
        self._changes = Changes(database, Registry(database, clock, lambda plan: None), writer)
        self._sqlite = SqliteReports(database, self._changes, Realtime())
        self._database, self._servers, self._now_ms = database, servers, clock.wall_ms()

    async def differences(self, website: Website, days: int | None) -> AsyncIterator[Difference | None]:
        """Yield None for each question about the last days that both answer equally, else the difference.

        Raises CannotFollow where ClickHouse has no complete copy of the website.
        """
        copy = await self._database.read(lambda connection: copy_of(connection, website.number))
        if copy is None or not copy.is_complete:
            raise CannotFollow("it has no complete copy: run `analytics-server cluster join`")
        end_ms = self._now_ms // _MINUTE_MS * _MINUTE_MS
        # Both have the events of these days.
        kept_ms = max(copy.from_day, copy.own_day) * DAY_MS - website.day_offset_ms
        for length in _RANGES if days is None else (days,):
            begin_ms = max(end_ms - length * DAY_MS, kept_ms)
            filters = ((), (Filter("pathname", "^=", ("/",)),), (Filter("channel", "!=", ("Direct",)),))
            for chosen in filters if begin_ms < end_ms else ():
                # Days of imported sums count as well.
                scope = Scope(website.number, begin_ms, end_ms, chosen, (begin_ms, end_ms))
                filtered = "".join(f", {one.field}{one.operator}" for one in chosen)
                for name, ask in _questions(scope):
                    yield await self._ask(f"{name}, {length} days{filtered}", ask, scope, website, copy)

    async def _ask(self, name: str, ask: Ask, scope: Scope, website: Website, copy: Copy) -> Difference | None:
        found = Difference(name, "", "")
        for n in range(_TRIES):
            # Between both answers an event may be stored.
            await asyncio.sleep(n)
            # Both list events up to it.
            self._changes.last_id = last_id = await self._caught_up()
            snapshot = Snapshot(last_id, website.day_offset_ms, bool(copy.has_sums))
            clickhouse = await ask(ClickHouseReports(self._servers.client, snapshot), scope._replace(website=copy.copy))
            sqlite = await ask(self._sqlite, scope)
            if _plain(sqlite) == _plain(clickhouse):
                return None
            found = Difference(name, repr(sqlite), repr(clickhouse))
        return found

    async def _caught_up(self) -> int:
        """Wait until ClickHouse has what is committed now; return the last id. Raises CannotFollow."""
        last, _, last_id = await self._database.read(_state)
        for _ in range(_WAIT_S * 10):
            if (await self._database.read(_state))[1] >= last:
                return last_id
            await asyncio.sleep(0.1)
        raise CannotFollow("ClickHouse is behind, and no running server ships to it: see `cluster status`")


def _plain(answer: Any) -> Any:
    """Return an answer with tuples in place of lists."""
    if isinstance(answer, dict):
        return {name: _plain(value) for name, value in answer.items()}
    return tuple(map(_plain, answer)) if isinstance(answer, list | tuple) else answer


def _state(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return the last batch, the last one that is shipped, and the last id that any process may have used."""
    last, shipped = connection.execute(
        "/* compare.state */ select max(shipped, coalesce(max(number), 0)), shipped"
        " from cluster_state left join cluster_outbox"
    ).fetchone()
    return int(last), int(shipped), ids_end(connection) - 1


@contextlib.asynccontextmanager
async def comparison(settings: Settings) -> AsyncIterator[Comparison]:
    """Yield the comparison of a file. Raises BadDatabase."""
    clock = Clock()
    async with (
        opened(settings) as servers,
        opened_database(settings.db, clock, settings.query_seconds, 0, lambda *_: None) as database,
    ):
        try:
            yield Comparison(database, servers, clock)
        finally:
            database.stop()
