"""Deletes in ClickHouse what copies that have ended and expired days have left there.

Nothing is deleted while something waits that may belong to it. A copy that has ended is deleted at once, and again
later.
"""

import sqlite3
from collections.abc import Awaitable, Callable

from tally.clock import Clock
from tally.cluster.servers import Servers
from tally.cluster.shipper import Shipper
from tally.cluster.worker import PeriodicWorker
from tally.storage import cluster_tables
from tally.storage.node_database import NodeDatabase
from tally.timestamps import HOUR_MS

# A part of a copy that was on its way when it ended arrives within this time; it is then deleted as well.
_LATE_MS = HOUR_MS
_LOST = (
    "state != 'ended' and not exists (select 1 from website where number = cluster_copy.website"
    " and website.day_offset_minutes = cluster_copy.day_offset_minutes)"
)
Cleared = list[tuple[int, int | None]]
"""(copy, a value of its row)."""


class Cleaner(PeriodicWorker):
    """Deletes what a server's copies have left. Used by the event loop alone."""

    pause_s = 1.0
    name, problem = "deleting", "nothing is deleted in ClickHouse"

    def __init__(self, servers: Servers, shipper: Shipper, database: NodeDatabase, clock: Clock) -> None:
        self._servers, self._shipper, self._database, self._clock = servers, shipper, database, clock
        # Called before each deletion.
        self.prepare: Callable[[], Awaitable[None]] | None = None
        super().__init__()

    async def work(self) -> bool:
        """Delete everything that is to be deleted now. Raises Refused, NoAnswer, ApiError, sqlite3.Error."""
        now_ms = self._clock.wall_ms()
        if await self._database.read(_has_lost_copies):
            await self._database.write(_end_lost_copies)
        ended, expired = await self._database.read(lambda connection: _to_clear(connection, now_ms - _LATE_MS))
        # What a copy had when it ended is shipped first.
        if (ended or expired) and await self._shipper.has_all():
            if self.prepare is not None:
                await self.prepare()
            for copy, _ in ended:
                await self._servers.delete(copy)
            for website in await self._database.read(_deleted_websites):
                await self._servers.delete_event_ids(website)
            for copy, from_day in expired:
                await self._servers.delete(copy, from_day)
            await self._database.write(lambda connection: _cleared(connection, ended, expired, now_ms))
        return False


def _has_lost_copies(connection: sqlite3.Connection) -> bool:
    """Return whether there is a copy of a website that was deleted, or whose days begin at another time."""
    rows = connection.execute(f"/* cleaner.lost */ select 1 from cluster_copy where {_LOST} limit 1")
    return rows.fetchone() is not None


def _end_lost_copies(connection: sqlite3.Connection) -> None:
    connection.execute(
        f"/* cleaner.end_lost */ update cluster_copy set state = 'ended', reason = 'changed' where {_LOST}"
    )


def _deleted_websites(connection: sqlite3.Connection) -> list[int]:
    """Return the numbers of deleted websites whose copies are not forgotten yet."""
    rows = connection.execute(
        "/* cleaner.websites */ select distinct website from cluster_copy"
        " where state = 'ended' and website not in (select number from website)"
    )
    return [website for (website,) in rows]


def _to_clear(connection: sqlite3.Connection, deleted_before_ms: int) -> tuple[Cleared, Cleared]:
    """Return the copies that have ended and are to be deleted, once and again later, with the time of the first; and
    those with expired days, with the first day that is kept."""
    ended = connection.execute(
        "/* cleaner.ended */ select copy, deleted_ms from cluster_copy where state = 'ended'"
        " and (deleted_ms is null or deleted_ms < ?)",
        (deleted_before_ms,),
    ).fetchall()
    expired = connection.execute(
        "/* cleaner.expired */ select copy, from_day from cluster_copy"
        " where state = 'joined' and cleared_day < from_day"
    ).fetchall()
    return ended, expired


def _cleared(connection: sqlite3.Connection, ended: Cleared, expired: Cleared, now_ms: int) -> None:
    for copy, deleted_ms in ended:
        connection.execute(
            "/* cleaner.deleted */ update cluster_copy set deleted_ms = ? where copy = ?",
            (now_ms if deleted_ms is None else cluster_tables.DELETED_MS, copy),
        )
        if deleted_ms is not None:
            connection.execute("/* cleaner.forget_days */ delete from cluster_day where copy = ?", (copy,))
    # The last one of a website stays: without it the next event would begin a copy as that of a website without events.
    connection.execute(
        "/* cleaner.forget */ delete from cluster_copy where deleted_ms = ? and (website not in (select number from"
        " website) or exists (select 1 from cluster_copy as later where later.website = cluster_copy.website"
        " and later.copy > cluster_copy.copy))",
        (cluster_tables.DELETED_MS,),
    )
    connection.executemany(
        "/* cleaner.cleared */ update cluster_copy set cleared_day = ? where copy = ?",
        [(from_day, copy) for copy, from_day in expired],
    )
