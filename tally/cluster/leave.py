"""`cluster leave`: writes one database file with everything, also what ClickHouse alone has, beside the running server.

The file is a copy of the server's (tally/maintenance/backup.py), to which the days that this lacks are added from
ClickHouse. They are complete where their totals are those that were kept. Only then the file gets its name; what an
interrupted command has left is replaced by the next one.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tally.accounts.websites import all_websites
from tally.cluster.archive import PAGE_S, fill
from tally.cluster.servers import opened
from tally.cluster.shipper import CannotFollow, last_shipped
from tally.maintenance import retention
from tally.maintenance.backup import check, copy_database, give_name, never, require_new, unfinished
from tally.maintenance.verify import has_right_totals
from tally.rollups.rollup_state import KEPT, STALE, invalidate_block
from tally.settings import Settings
from tally.storage import cluster_tables
from tally.storage.cluster_tables import TABLES, copy_of
from tally.storage.database import Connection, open_database, open_unchanged, snapshot, transaction

# What was counted from days before their events were deleted, and is counted from them again.
_COUNTED = ("web_vitals_histogram", "experiment_total")


async def leave(settings: Settings, target: Path, report: Callable[[int], None]) -> int:
    """Write a file with everything; return how many events were added to it. `report` is called with the number so far.

    Raises CannotFollow, BackupError, ApiError, Refused, NoAnswer, OSError, sqlite3.Error.
    """
    require_new(settings.db, target)
    with unfinished(target) as (path, file):
        for end in ("-wal", "-shm"):
            # A log that an interrupted command has left is of another copy.
            path.with_name(path.name + end).unlink(missing_ok=True)
        with closing(open_unchanged(settings.db)) as reader:
            copy_database(reader, path, file, never, is_paced=True)
        with closing(open_database(path, create=False)) as connection:
            added = await _add_days(connection, settings, report)
            with transaction(connection):
                for table in TABLES:
                    connection.execute(f"/* leave.drop */ drop table {table}")
        check(path, path, "the disk is damaged")
        give_name(path, target)
    return added


async def _add_days(connection: Connection, settings: Settings, report: Callable[[int], None]) -> int:
    added = 0
    series = cluster_tables.series(connection)
    async with opened(settings, PAGE_S) as servers:
        for website in all_websites(connection):
            copy = copy_of(connection, website.number)
            if copy is None or not copy.unloaded:
                continue
            if await last_shipped(servers.client, series) is None:
                raise CannotFollow("ClickHouse has not the tables of this file")
            await servers.sync(copy.copy)
            days = _reopen(connection, website.number, copy.unloaded)
            added += await fill(connection, servers, website.number, copy.copy, copy.unloaded, report, added)
            for day in days:
                with snapshot(connection):
                    if not has_right_totals(connection, website.number, day):
                        raise CannotFollow(f"ClickHouse has other events of day {day} of {website.domain} than it had")
    return added


def _reopen(connection: Connection, website: int, unloaded: range) -> list[int]:
    """Have unloaded days be counted again, from events that are stored next; return those with traffic."""
    while _delete_some(connection, website, unloaded.stop):
        pass
    with transaction(connection):
        for table in _COUNTED:
            connection.execute(
                f"/* leave.counted */ delete from {table} where website = ? and day >= ? and day < ?",
                (website, unloaded.start, unloaded.stop),
            )
        rows = connection.execute(
            "/* leave.reopen */ update rollup_state set state = ?, is_over = 0, version = version + 1"
            " where website = ? and kind = 0 and level = 0 and block >= ? and block < ? and state = ? returning block",
            (STALE, website, unloaded.start, unloaded.stop, KEPT),
        ).fetchall()
        for (day,) in rows:
            invalidate_block(connection, website, day)
    return sorted(day for (day,) in rows)


def _delete_some(connection: sqlite3.Connection, website: int, end: int) -> bool:
    """Delete some of the rows that are left where unloading was interrupted."""
    with transaction(connection):
        return retention.delete_some(connection, website, end, retention.UNLOADED)
