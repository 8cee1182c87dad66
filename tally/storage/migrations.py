"""Schema changes between released versions of the database file.

MIGRATIONS[n - 1] changes a file of version n to version n + 1. open_database (tally/storage/database.py) runs the
missing ones in order, each in one transaction together with its version number. If the process is killed, the next
start continues with the first one that is missing.

A change of schema.sql after a release appends a function here:

    def add_campaign_id(connection: sqlite3.Connection) -> None:
        connection.execute("/* migrations.add_campaign_id */ alter table event add column campaign_id integer")

A released migration is never changed. It contains its statements in full, because schema.sql changes later; it does not
commit; and it is quick, because the server accepts requests only afterwards. `analytics-server upgrade --check` shows
the names of the functions. There is no way back but the copy that is made before the first one
(tally/maintenance/upgrade.py). Tests: tests/unit/storage/test_database.py.
"""

import sqlite3
from collections.abc import Callable

Migration = Callable[[sqlite3.Connection], None]

# Empty until the first release.
MIGRATIONS: tuple[Migration, ...] = ()
