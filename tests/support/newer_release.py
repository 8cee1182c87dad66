"""The command `analytics-server` of a release with one more migration than this one.

    python -m tests.support.newer_release COMMAND ...

A program of its own, because modules read the list of migrations when they are imported.
"""

import sqlite3
import sys

from tally.storage import migrations


def add_table(connection: sqlite3.Connection) -> None:
    """Add a table with more rows than fit into one page."""
    connection.execute("create table added (n integer primary key, text text)")
    connection.executemany("insert into added values (?, ?)", ((n, "x" * 500) for n in range(20)))


migrations.MIGRATIONS += (add_table,)
# The list is complete: everything else reads it now.
from analytics_server import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
