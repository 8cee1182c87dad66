"""Reclaim the space of deleted rows (the command `compact`), in small steps beside a running server.

SQLite keeps the pages of deleted rows for new ones. With auto_vacuum = incremental, which new files have
(tally/storage/database.py), pages at the end of the file can be given back to the file system a few at a time.
"""

import sqlite3
import time
from collections.abc import Callable

from tally.storage.database import BadDatabase

# 2 MB, about 10 ms: the server's commits run between two steps.
_PAGES_PER_STEP = 512
_INCREMENTAL = 2


def free_pages(connection: sqlite3.Connection) -> int:
    """Return the number of unused pages of the file."""
    return int(connection.execute("pragma freelist_count").fetchone()[0])


def compact(connection: sqlite3.Connection, progress: Callable[[int], None]) -> None:
    """Give all unused pages back. Raises BadDatabase if the file does not support it.

    Half of the time is left to other processes. `progress` is called with the number of pages given back so far.
    """
    if connection.execute("pragma auto_vacuum").fetchone()[0] != _INCREMENTAL:
        path = connection.execute("pragma database_list").fetchone()[2]
        raise BadDatabase(f"{path} cannot be compacted in steps: it was not created by this program.")
    pages = left = free_pages(connection)
    while left:
        begun_s = time.monotonic()
        # executescript runs the statement to its end; execute would free one page.
        connection.executescript(f"pragma incremental_vacuum({_PAGES_PER_STEP});")
        left = free_pages(connection)
        progress(pages - left)
        time.sleep(time.monotonic() - begun_s)
