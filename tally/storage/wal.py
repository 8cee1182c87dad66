"""Truncation of SQLite's write-ahead log (WAL).

SQLite copies the log into the database by itself, but starts the file over only when no reader uses it. Under constant
reads it would grow without bound, so the server truncates it while it holds its readers
(tally/storage/node_database.py), and commands that write much do so if no server is running. Where a server runs, they
wait for it (`keep_log_short`): what they write meanwhile would keep it from truncating.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from tally.storage.database import BadDatabase, log_bytes
from tally.storage.disk_space import DiskSpace, disk_space
from tally.storage.file_lock import lock_file

# A transaction of an import takes 50 ms. Another connection may be a backup, which reads for minutes.
_BUSY_MS = 100
_AGAIN_S = 0.05
# The server truncates the log every second, or every 10 seconds where that fails.
_REPORT_AFTER_S = 15.0


def truncate_wal(connection: sqlite3.Connection) -> bool:
    """Copy the log into the database and truncate it; return False if another connection is using it."""
    busy_ms = connection.execute("pragma busy_timeout").fetchone()[0]
    connection.execute(f"pragma busy_timeout = {_BUSY_MS}").fetchall()
    try:
        return bool(connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0)
    finally:
        connection.execute(f"pragma busy_timeout = {busy_ms}").fetchall()


def keep_log_short(
    connection: sqlite3.Connection, min_free_bytes: int = 0, report: Callable[[str], None] = lambda words: None
) -> tuple[DiskSpace, bool]:
    """Return the space of the disk, and whether a server runs, once the log is below its limit.

    Call it between two transactions that write much. Without a server the log is truncated here. Does not wait where
    the log cannot be emptied for lack of space. `report` is called where another program's reading is waited for.
    """
    path = Path(connection.execute("pragma database_list").fetchone()[2])
    begun_s, is_reported = time.monotonic(), False
    while True:
        limit = disk_space(path, min_free_bytes).log_limit
        has_server = not truncate_wal_without_server(connection, limit)
        space = disk_space(path, min_free_bytes)
        waits_long = time.monotonic() - begun_s > _REPORT_AFTER_S
        if space.log_bytes <= limit or (waits_long and not space.allows_import()):
            return space, has_server
        if waits_long and not is_reported:
            report("waiting: SQLite's log is full, and another program reads the database or holds its lock")
            is_reported = True
        time.sleep(_AGAIN_S)


def truncate_wal_without_server(connection: sqlite3.Connection, limit_bytes: int = 0) -> bool:
    """Truncate the log if it is larger and no server is running; return whether there was no server.

    With a server running, two processes would truncate the same log.
    """
    path = Path(connection.execute("pragma database_list").fetchone()[2])
    try:
        lock = lock_file(path)
    except BadDatabase:
        return False
    try:
        if log_bytes(path) > limit_bytes:
            truncate_wal(connection)
    finally:
        os.close(lock)
    return True


def size_bytes(path: Path) -> int:
    """Return the size of a database together with its log, 0 where there is none. A copy is at most so large."""
    return path.stat().st_size + log_bytes(path) if path.exists() else 0
