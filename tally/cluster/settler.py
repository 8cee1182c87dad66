"""Settles the days of copies in ClickHouse once hardly any event of them can arrive any more, one after another.

What visits a settled day has is not computed for each report again (tally/clickhouse/settle.py). A day of which events
have arrived since is settled again. What is not read any more, the rows in `event` and older versions, is deleted
later: a report that began before may still read it.
"""

import asyncio
import sqlite3

from tally.clickhouse import settle
from tally.clickhouse.client import Refused
from tally.clock import Clock
from tally.cluster.servers import Servers
from tally.cluster.shipper import Shipper
from tally.cluster.worker import FAILURES, PeriodicWorker
from tally.storage.node_database import NodeDatabase
from tally.timestamps import DAY_MS, HOUR_MS

# Longer than any report takes.
KEPT_S = 3_600
# Events are accepted for 72 hours; the time of a website is up to 12 hours behind UTC.
_OPEN_MS = 86 * HOUR_MS
_RETRY_NS = HOUR_MS * 1_000_000


class Settler(PeriodicWorker):
    """Settles the days of a server's copies. Used by the event loop alone."""

    name, problem = "settling", "a day was not settled in ClickHouse"
    failures = (*FAILURES, settle.NotSettled)

    def __init__(self, servers: Servers, shipper: Shipper, database: NodeDatabase, clock: Clock) -> None:
        self._servers, self._shipper, self._database, self._clock = servers, shipper, database, clock
        self._working = asyncio.Lock()
        # By copy: until when its days wait after one that could not be settled.
        self._waits_ns: dict[int, int] = {}
        super().__init__()

    async def work(self) -> bool:
        """Settle a day, or delete what is not read any more of one; return whether there was any.

        Raises Refused, NoAnswer, ApiError, NotSettled, sqlite3.Error.
        """
        async with self._working:
            if self._shipper.problem:
                return False
            copies = await self._database.read(_joined)
            before_day = (self._clock.wall_ms() - _OPEN_MS) // DAY_MS
            client = self._servers.client
            now_ns = self._clock.monotonic_ns()
            for copy, day, last_id in await settle.next_days(client, copies, before_day):
                if now_ns >= self._waits_ns.get(copy, 0):
                    try:
                        await settle.settle(client, copy, day, last_id)
                    except (Refused, settle.NotSettled):
                        # Those of other websites do not wait for it.
                        self._waits_ns[copy] = now_ns + _RETRY_NS
                        raise
                    return True
            return await settle.delete_unread(client, copies, KEPT_S)


def _joined(connection: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return (copy, first day that is kept) of the complete copies."""
    return connection.execute(
        "/* settler.joined */ select copy, from_day from cluster_copy where state = 'joined'"
    ).fetchall()
