"""`cluster leave`: writes one database file with everything, also what ClickHouse alone has, beside the running server.

The file is a copy of the server's (tally/maintenance/backup.py), to which the days that this lacks are added from
ClickHouse (tally/cluster/load.py). Only then the file gets its name; what an interrupted command has left is replaced
by the next one.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tally.accounts.websites import all_websites
from tally.cluster.archive import PAGE_S
from tally.cluster.load import load
from tally.cluster.servers import opened
from tally.maintenance.backup import check, copy_database, give_name, never, require_new, unfinished
from tally.settings import Settings
from tally.storage.cluster_tables import TABLES
from tally.storage.database import Connection, open_database, open_unchanged, transaction


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
    async with opened(settings, PAGE_S) as servers:
        for website in all_websites(connection):
            added += await load(connection, servers, website.number, report, added, rest=0.0)
    return added
