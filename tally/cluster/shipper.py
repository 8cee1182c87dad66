"""Ships the outbox to ClickHouse: batches in order, each stored once.

While something waits it ships once a second, and at once where a report or `--cluster-mode keep` needs it. After a
failure it sends the same rows with the same tokens to the next server, less and less often; whether the failed insert
was refused or its outcome is unknown makes no difference. Meanwhile reports are SQLite's.

With each shipment, and each second without one, the last batch that ClickHouse has is compared with the file's, and the
newest series. A file that is behind, such as a backup that was restored, or that has an older series, is not
followed: what ClickHouse has would be wrong for it. After a failure nothing new is claimed before that is known. A
claim counts as shipped once the insert of its number is answered, never because a server is read to have it.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from functools import partial

import orjson

from tally.clickhouse import schema
from tally.clickhouse.client import Client, Parameters
from tally.clock import Clock
from tally.cluster.outbox import Outbox, Shipment
from tally.cluster.servers import Servers, check_kind
from tally.cluster.worker import FAILURES, Worker, reason_of
from tally.errors import log, where_it_failed
from tally.storage import cluster_tables
from tally.storage.node_database import NodeDatabase
from tally.timestamps import DAY_MS

PAUSE_S = 1.0
# After failures; with keep, where events are refused meanwhile, a shorter one.
_LONGEST_PAUSE_S, _LONGEST_PAUSE_IN_KEEP_S = 30.0, 2.0
# How long a report waits for ClickHouse before SQLite answers it.
WAIT_S = 2.0
# ClickHouse knows a token for 7 days. Later, whether a shipment was stored in part is unknown.
_TOKEN_MS = 6 * DAY_MS
_NEW = "not connected yet"
AHEAD = "ClickHouse has batches that this file lacks: it is an older copy; see docs/cluster.md"
_INIT = "run `analytics-server cluster init`"
OTHER_SERIES = "the database of ClickHouse belongs to another file; see docs/cluster.md"
NEWER_SERIES = "another server ships to ClickHouse now, with a newer series: end this one; see docs/cluster.md"
_AWAY = (
    "ClickHouse was away for more than six days and may have a part of a commit: run `analytics-server cluster load`,"
    " then start the server with --cluster-mode follow until all websites are joined again"
)
_LAST = (
    "select count(), max(number), (select count() from series where series = {0}),"
    " (select argMax(series, (number, series)) from series) from shipped where series = {0}"
)


class CannotFollow(Exception):
    """The file and ClickHouse do not belong together; the message says why."""


class Fenced(CannotFollow):
    """A newer series than the file's has begun."""

    def __init__(self) -> None:
        super().__init__(NEWER_SERIES)


_FAILURES: tuple[type[Exception], ...] = (*FAILURES, CannotFollow)


class Shipper(Worker):
    """Ships the batches of an outbox. Used by the event loop alone."""

    def __init__(self, servers: Servers, outbox: Outbox, database: NodeDatabase, clock: Clock) -> None:
        self.shipped = 0
        self.failures = 0
        # Why nothing is shipped, "" where it works, and since when, by the monotonic clock.
        self.problem, self.failing_since_ns = _NEW, -math.inf
        # Called after each attempt.
        self.on_attempt: Callable[[], None] = lambda: None
        self._servers, self._outbox, self._database, self._clock = servers, outbox, database, clock
        self._wanted, self._changed = asyncio.Event(), asyncio.Event()
        self._series = ""
        self._is_checked = False
        super().__init__()

    @property
    def lag(self) -> int:
        """How many batches are not shipped yet."""
        return self._outbox.last - self.shipped

    def want(self) -> None:
        """Ship at once what is committed."""
        self._wanted.set()

    async def has_all(self) -> bool:
        """Return whether ClickHouse has all that was committed before the call; waits for it up to WAIT_S."""
        last = self._outbox.last
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while not self.problem and self.shipped < last:
                    self.want()
                    await self._changed.wait()
        return not self.problem and self.shipped >= last

    async def is_whole(self, client: Client) -> bool:
        """Return whether a server still has what was shipped: its tables may be emptied meanwhile. Raises ApiError."""
        shipped = self.shipped
        try:
            last = await last_shipped(client, self._series)
        except Fenced:
            return False
        return last is not None and last >= shipped

    async def _run(self) -> None:
        pause_s, failed = 0.0, 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    # A report does not shorten the pause after a failure.
                    await (asyncio.Event() if self.problem else self._wanted).wait()
            self._wanted.clear()
            try:
                is_more = await self._ship()
                self._set_problem("")
                pause_s, failed = 0.0 if is_more else PAUSE_S, 0
            except Exception as failure:
                self._failed(failure)
                longest_s = _LONGEST_PAUSE_IN_KEEP_S if self._outbox.is_strict else _LONGEST_PAUSE_S
                pause_s = min(longest_s, PAUSE_S / 4 * 2**failed)
                failed = min(failed + 1, 10)

    def _failed(self, failure: Exception) -> None:
        self.failures += 1
        self._is_checked = False
        if isinstance(failure, CannotFollow):
            self.failing_since_ns = -math.inf
        elif not self.problem:
            self.failing_since_ns = self._clock.monotonic_ns()
        if not isinstance(failure, _FAILURES):
            log.error("shipping failed: %s", where_it_failed(failure))
        self._set_problem((reason_of(failure) if isinstance(failure, _FAILURES) else "") or type(failure).__name__)
        self._servers.use_next()

    def _set_problem(self, problem: str) -> None:
        if problem and self.problem in ("", _NEW):
            log.error("nothing is shipped to ClickHouse: %s: %s", self._servers.client.name, problem)
        elif self.problem and not problem:
            log.warning("ClickHouse is followed: %d batches wait for %s", self.lag, self._servers.client.name)
        self.problem = problem
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        self.on_attempt()

    async def _ship(self) -> bool:
        """Ship some batches; return whether there may be more.

        Raises Refused, NoAnswer, ApiError, CannotFollow, sqlite3.Error.
        """
        client, now_ms, was_checked = self._servers.client, self._clock.wall_ms(), self._is_checked
        if not was_checked and not client.is_replicated:
            await check_kind(client)
        await self._servers.sync()
        following = partial(self._outbox.next, done=(self._series, self.shipped), now_ms=now_ms, may_claim=was_checked)
        if was_checked:
            # At the same time: each takes as long as a commit.
            shipment, last = await asyncio.gather(self._database.write(following), last_shipped(client, self._series))
        else:
            shipment = await self._database.write(following)
            if shipment.series != self._series:
                self._series, self.shipped = shipment.series, shipment.shipped
            if lacks := schema.missing(await client.rows(schema.COLUMNS, {}, claim=None)):
                table, column = lacks[0]
                raise CannotFollow(f"ClickHouse lacks {table}.{column}, which an older version did not make: {_INIT}")
            last = await last_shipped(client, self._series)
        await self._check(shipment, last, now_ms)
        self._is_checked = True
        if shipment.last == shipment.shipped:
            return not was_checked
        token = f"{shipment.series}/{shipment.last}/"
        if last != shipment.last:
            bodies = await asyncio.to_thread(shipment.bodies)
            await asyncio.gather(*(client.insert_lines(name, rows, token + name) for name, rows in bodies.items()))
        # Also where a server has it already: after an insert without an answer it may be the only one.
        done = orjson.dumps({"series": shipment.series, "number": shipment.last})
        await client.insert_lines("shipped", done, f"{token}shipped")
        self.shipped = shipment.last
        self._wake()
        return True

    async def _check(self, shipment: Shipment, last: int | None, now_ms: int) -> None:
        """Compare the last batch that ClickHouse has with the file's. Raises CannotFollow."""
        if last is None or shipment.series != self._series:
            raise CannotFollow(OTHER_SERIES)
        if last < shipment.shipped:
            raise CannotFollow("ClickHouse lacks batches that it had: see docs/cluster.md")
        if last not in (shipment.shipped, shipment.last):
            raise CannotFollow(AHEAD)
        self.shipped = max(self.shipped, shipment.shipped)
        if now_ms - shipment.claimed_ms > _TOKEN_MS and last < shipment.last:
            if self._outbox.is_strict:
                raise CannotFollow(_AWAY)
            await self._database.write(
                lambda connection: cluster_tables.end_all(connection, "ClickHouse was away for too long")
            )


async def last_shipped(client: Client, series: str) -> int | None:
    """Return the last batch of a series that ClickHouse has, None where it has none or another file's series.

    Raises Fenced where a newer series has begun, Refused, NoAnswer, ApiError.
    """
    parameters = Parameters()
    statement = _LAST.format(parameters.text(series))
    ((shipped, last, begun, newest),) = await client.rows(statement, parameters.values, claim=None)
    if not shipped or not begun:
        return None
    if newest != series:
        raise Fenced
    return int(last)
