"""Truncation of SQLite's write-ahead log (WAL).

SQLite copies the log into the database by itself, but starts the file over only when no reader uses it. Under constant
reads it would grow without bound, so the server truncates it while it holds its readers (tally/ingest/store.py), and
commands that write much do so if no server is running.
"""

import os
import sqlite3
from pathlib import Path

from tally.storage.database import BadDatabase, log_bytes
from tally.storage.file_lock import lock_file


def truncate_wal(connection: sqlite3.Connection) -> bool:
    """Copy the log into the database and truncate it; return False if another connection is using it."""
    # Do not wait: the other connection may be a backup, which reads for minutes.
    busy_ms = connection.execute("pragma busy_timeout").fetchone()[0]
    connection.execute("pragma busy_timeout = 0").fetchall()
    try:
        return bool(connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0)
    finally:
        connection.execute(f"pragma busy_timeout = {busy_ms}").fetchall()


def truncate_wal_without_server(connection: sqlite3.Connection, min_bytes: int = 0) -> bool:
    """Truncate the log if it has `min_bytes` and no server is running; return whether there was no server.

    With a server running, two processes would truncate the same log.
    """
    path = Path(connection.execute("pragma database_list").fetchone()[2])
    try:
        lock = lock_file(path)
    except BadDatabase:
        return False
    try:
        if log_bytes(path) >= min_bytes:
            truncate_wal(connection)
    finally:
        os.close(lock)
    return True


def size_bytes(path: Path) -> int:
    """Return the size of a database together with its log, 0 where there is none. A copy is at most so large."""
    return path.stat().st_size + log_bytes(path) if path.exists() else 0
