"""Puts days that ClickHouse alone has back into a file, so that their events can be changed: `cluster load`, beside the
running server, and `cluster leave` in a copy of the file.

The last unloaded days come first, under the same numbers. Their state, the first day that the file has itself and what
is counted of them change in one transaction, once they are there and equal to what the file had: until then they are
unloaded, and after an end at any point the next call begins with them again. The server counts them again.
"""

import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from tally.cluster.archive import digest_of, fill
from tally.cluster.servers import Servers
from tally.cluster.shipper import CannotFollow, last_shipped
from tally.maintenance import retention
from tally.rollups.rollup_state import KEPT, STALE, invalidate_block
from tally.storage import cluster_tables
from tally.storage.cluster_tables import Copy, copy_of
from tally.storage.database import Connection, transaction
from tally.transfer.exporter import exported


async def load(
    connection: Connection,
    servers: Servers,
    website: int,
    report: Callable[[int], None],
    before: int = 0,
    rest: float = 0.5,
) -> int:
    """Put all unloaded days of a website back; return the number of their events. `report` is called with the number
    so far, those `before` included. rest: as of `fill`, for a server that runs.

    Raises CannotFollow, ApiError, Refused, NoAnswer, sqlite3.Error.
    """
    events = 0
    while (copy := copy_of(connection, website)) is not None and copy.unloaded:
        if await last_shipped(servers.client, cluster_tables.series(connection)) is None:
            raise CannotFollow("ClickHouse has not the tables of this file")
        await servers.sync(copy.copy)
        while _deleted_some(connection, website, copy):
            pass
        with transaction(connection):
            cluster_tables.begin_load(connection, copy, time.time_ns() // 1_000_000)
        stored = cluster_tables.last_unloaded(connection, copy.copy)
        days = range(max(stored.first, copy.from_day), stored.end)
        events += await fill(
            connection, servers, website, copy.copy, days, report, before + events, counts=False, rest=rest
        )
        is_whole = days.start == stored.first
        if is_whole and await digest_of(_rows(connection, website, days)) != (stored.events, stored.digest):
            raise CannotFollow(f"ClickHouse has other events of day {stored.end - 1} of website {website} than it had")
        with transaction(connection):
            now = copy_of(connection, website)
            if now is not None and now._replace(from_day=copy.from_day, held_ms=copy.held_ms) == copy:
                _count_again(connection, website, days)
                cluster_tables.load(connection, stored)
    return events


async def _rows(connection: Connection, website: int, days: range) -> AsyncIterator[Sequence[Any]]:
    """Yield what the file has of some days."""
    for batch in exported(connection, website, days):
        yield batch


def _count_again(connection: sqlite3.Connection, website: int, days: range) -> None:
    """Have days with their rows counted from these."""
    connection.execute(
        "/* load.vitals */ delete from web_vitals_histogram where website = ? and day >= ? and day < ?",
        (website, days.start, days.stop),
    )
    rows = connection.execute(
        "/* load.stale */ update rollup_state set state = ?, is_over = 0, version = version + 1"
        " where website = ? and kind = 0 and level = 0 and block >= ? and block < ? and state = ? returning block",
        (STALE, website, days.start, days.stop, KEPT),
    ).fetchall()
    for (day,) in rows:
        invalidate_block(connection, website, day)


def _deleted_some(connection: sqlite3.Connection, website: int, copy: Copy) -> bool:
    """Delete some rows that an interrupted unloading or loading has left; return whether there were any."""
    with transaction(connection):
        return retention.delete_unloaded(connection, website, copy.own_day, copy.held_ms)
