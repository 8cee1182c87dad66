"""Ships the outbox to ClickHouse: batches in order, each stored once, at a pace of its own.

Collecting never waits for it. While something waits it ships once a second, and at once where a report needs it.
After a failure it tries again, less and less often; meanwhile reports are SQLite's.

Before each shipment the number of the last batch that ClickHouse has is compared with the
file's. A file that is behind, such as a backup that was restored or a copy that runs elsewhere, is not followed: what
ClickHouse has would be wrong for it.
"""

import asyncio
import contextlib
import sqlite3

import orjson

from tally.clickhouse import schema
from tally.clickhouse.client import Client, NoAnswer, Refused
from tally.clock import Clock
from tally.cluster.outbox import Outbox, Shipment, bodies_of
from tally.cluster.servers import Servers
from tally.cluster.worker import Worker
from tally.errors import ApiError, log, where_it_failed
from tally.storage import cluster_tables
from tally.storage.node_database import NodeDatabase
from tally.timestamps import DAY_MS, HOUR_MS

PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
# How long a report waits for ClickHouse before SQLite answers it.
WAIT_S = 2.0
# ClickHouse knows a token for 7 days. Later, whether a shipment was stored in part is unknown.
_TOKEN_MS = 6 * DAY_MS
# A part of a copy that was on its way when it ended arrives within this time; it is then deleted as well.
_LATE_MS = HOUR_MS
_NEW = "not connected yet"
AHEAD = "ClickHouse has batches that this file lacks: it is an older copy; see docs/cluster.md"
_INIT = "run `analytics-server cluster init`"
OTHER_SERIES = "the database of ClickHouse belongs to another file; see docs/cluster.md"


class CannotFollow(Exception):
    """The file and ClickHouse do not belong together; the message says why."""


class Shipper(Worker):
    """Ships the batches of an outbox. Used by the event loop alone."""

    def __init__(self, servers: Servers, outbox: Outbox, database: NodeDatabase, clock: Clock) -> None:
        self.shipped = 0
        self.failures = 0
        # Why nothing is shipped; "" where it works.
        self.problem = _NEW
        self._servers, self._outbox, self._database, self._clock = servers, outbox, database, clock
        self._wanted, self._changed = asyncio.Event(), asyncio.Event()
        self._series = ""
        super().__init__()

    @property
    def lag(self) -> int:
        """How many batches are not shipped yet."""
        return self._outbox.last - self.shipped

    async def has_all(self) -> bool:
        """Return whether ClickHouse has all that was committed before the call; waits for it up to WAIT_S."""
        last = self._outbox.last
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while not self.problem and self.shipped < last:
                    self._wanted.set()
                    await self._changed.wait()
        return not self.problem and self.shipped >= last

    async def is_whole(self, client: Client) -> bool:
        """Return whether a server still has what was shipped: its tables may be emptied meanwhile. Raises ApiError."""
        shipped = self.shipped
        last = await last_shipped(client, self._series)
        return last is not None and last >= shipped

    async def _run(self) -> None:
        pause_s = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    # A report does not shorten the pause after a failure.
                    await (asyncio.Event() if self.problem else self._wanted).wait()
            self._wanted.clear()
            try:
                is_more = await self._ship()
                self._set_problem("")
                pause_s = 0.0 if is_more else PAUSE_S
                if not is_more:
                    await self._clear()
            except (Refused, NoAnswer, ApiError, CannotFollow, sqlite3.Error) as failure:
                self.failures += 1
                self._set_problem(str(failure) or type(failure).__name__)
                pause_s = min(max(2 * pause_s, PAUSE_S), _LONGEST_PAUSE_S)
                self._servers.use_next()
            except Exception as failure:
                self.failures += 1
                log.error("shipping failed: %s", where_it_failed(failure))
                self._set_problem(type(failure).__name__)
                pause_s = _LONGEST_PAUSE_S

    def _set_problem(self, problem: str) -> None:
        if problem and self.problem in ("", _NEW):
            log.error("nothing is shipped to ClickHouse: %s", problem)
        elif self.problem and not problem:
            log.warning("ClickHouse is followed: %d batches wait", self.lag)
        self.problem = problem
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _ship(self) -> bool:
        """Ship some batches; return whether there were any. Raises Refused, NoAnswer, CannotFollow, sqlite3.Error."""
        await self._servers.sync()
        now_ms = self._clock.wall_ms()
        shipment = await self._database.write(lambda connection: self._outbox.claim(connection, now_ms))
        last = await self._check(shipment, now_ms)
        if shipment is None:
            return False
        if last < shipment.last:
            bodies = await self._database.read(lambda connection: bodies_of(connection, shipment))
            done = orjson.dumps({"series": shipment.series, "number": shipment.last})
            for name, lines in (*bodies.items(), ("shipped", done)):
                await self._servers.client.insert_lines(name, lines, f"{shipment.series}/{shipment.last}/{name}")
        await self._database.write(lambda connection: self._outbox.confirm(connection, shipment.last))
        self.shipped = shipment.last
        self._wake()
        return True

    async def _check(self, shipment: Shipment | None, now_ms: int) -> int:
        """Compare the last batches; return that of ClickHouse. Raises CannotFollow."""
        self._series, shipped, claimed = await self._database.read(
            lambda connection: connection.execute(
                "/* shipper.state */ select series, shipped, claimed from cluster_state"
            ).fetchone()
        )
        if self.problem and (lacks := schema.missing(await self._servers.client.rows(schema.COLUMNS, {}))):
            table, column = lacks[0]
            raise CannotFollow(f"ClickHouse lacks {table}.{column}, which an older version did not make: {_INIT}")
        last = await last_shipped(self._servers.client, self._series)
        if last is None:
            raise CannotFollow(OTHER_SERIES)
        if last > max(shipped, claimed):
            raise CannotFollow(AHEAD)
        if last < shipped:
            raise CannotFollow("ClickHouse lacks batches that it had: see docs/cluster.md")
        self.shipped = max(self.shipped, shipped)
        if shipment is not None and now_ms - shipment.claimed_ms > _TOKEN_MS and last < shipment.last:
            await self._database.write(
                lambda connection: cluster_tables.end_all(connection, "ClickHouse was away for too long")
            )
        return last

    async def _clear(self) -> None:
        """Delete in ClickHouse what copies that have ended and expired days have left there."""
        now_ms = self._clock.wall_ms()
        if await self._database.read(_has_lost_copies):
            await self._database.write(_end_lost_copies)
        ended, expired = await self._database.read(lambda connection: _to_clear(connection, now_ms - _LATE_MS))
        for copy, _ in ended:
            await self._servers.delete(copy)
        for copy, from_day in expired:
            await self._servers.delete(copy, from_day)
        if ended or expired:
            await self._database.write(lambda connection: _cleared(connection, ended, expired, now_ms))


async def last_shipped(client: Client, series: str) -> int | None:
    """Return the last batch of a series that ClickHouse has, None where it has none or another series.

    Raises Refused, NoAnswer, ApiError.
    """
    rows = await client.rows("select series, max(number) from shipped group by series", {})
    return int(rows[0][1]) if len(rows) == 1 and rows[0][0] == series else None


_LOST = (
    "state != 'ended' and not exists (select 1 from website where number = cluster_copy.website"
    " and website.day_offset_minutes = cluster_copy.day_offset_minutes)"
)


def _has_lost_copies(connection: sqlite3.Connection) -> bool:
    """Return whether there is a copy of a website that was deleted, or whose days begin at another time."""
    found = connection.execute(f"/* shipper.lost */ select 1 from cluster_copy where {_LOST} limit 1")
    return found.fetchone() is not None


def _end_lost_copies(connection: sqlite3.Connection) -> None:
    connection.execute(
        f"/* shipper.end_lost */ update cluster_copy set state = 'ended', reason = 'changed' where {_LOST}"
    )


Cleared = list[tuple[int, int | None]]
"""(copy, a value of its row)."""


def _to_clear(connection: sqlite3.Connection, deleted_before_ms: int) -> tuple[Cleared, Cleared]:
    """Return the copies that have ended and are to be deleted, once and again later, with the time of the first; and
    those with expired days, with the first day that is kept."""
    waits = connection.execute("/* shipper.waits */ select 1 from cluster_outbox limit 1").fetchone()
    ended = connection.execute(
        "/* shipper.ended */ select copy, deleted_ms from cluster_copy where state = 'ended'"
        " and (deleted_ms is null or deleted_ms < ?)",
        (deleted_before_ms,),
    ).fetchall()
    expired = connection.execute(
        "/* shipper.expired */ select copy, from_day from cluster_copy"
        " where state = 'joined' and cleared_day < from_day"
    ).fetchall()
    return ([], []) if waits else (ended, expired)


def _cleared(connection: sqlite3.Connection, ended: Cleared, expired: Cleared, now_ms: int) -> None:
    for copy, deleted_ms in ended:
        if deleted_ms is None:
            connection.execute(
                "/* shipper.deleted */ update cluster_copy set deleted_ms = ? where copy = ?", (now_ms, copy)
            )
        else:
            connection.execute("/* shipper.forget */ delete from cluster_copy where copy = ?", (copy,))
    connection.executemany(
        "/* shipper.cleared */ update cluster_copy set cleared_day = ? where copy = ?",
        [(from_day, copy) for copy, from_day in expired],
    )
