"""State of the server in table `meta`, for its next start and for `doctor`.

It has the state of the clock (tally/clock.py) and which forwarded headers came from where, a few words each as JSON,
written every ten minutes, on changes and at the end. No address and no header value is stored, only the private network
of a proxy. A value that cannot be read, as after a newer version, counts as missing.
"""

import sqlite3
from typing import Any

import orjson

from tally.clock import ClockState

CLOCK, PROXIES = "clock", "proxies"
BACKUP_SERIES = "backup_series"
"""The series of backups at a destination (tally/maintenance/offsite_backup.py)."""
START = "start"
"""Schema version and hashes of settings of the last start (tally/maintenance/server_audit.py)."""
HEARTBEAT = "heartbeat"
"""When the server last ran, and when it did not, in the last weeks (tally/notices/uptime.py)."""
KEYS_EXPIRED = "keys_expired"
"""The latest expiry of a key that has a line in the audit log, in milliseconds."""
DEMO = "demo"
"""Marks a demo (tally/demo/build.py); its value is the end of the invented traffic, as ISO 8601."""


def write(connection: sqlite3.Connection, name: str, value: Any) -> None:
    """Store a value in a transaction of the caller."""
    text = orjson.dumps(value).decode()
    connection.execute("/* meta.write */ insert or replace into meta (name, value) values (?, ?)", (name, text))


def read(connection: sqlite3.Connection, name: str) -> Any:
    """Return a stored value; None if there is none."""
    row = connection.execute("/* meta.read */ select value from meta where name = ?", (name,)).fetchone()
    try:
        return None if row is None else orjson.loads(row[0])
    except (ValueError, TypeError):
        return None


def delete(connection: sqlite3.Connection, name: str) -> None:
    """Delete a value, if it is stored."""
    connection.execute("/* meta.delete */ delete from meta where name = ?", (name,))


def demo_until(connection: sqlite3.Connection) -> str | None:
    """Return the last moment of a demo's traffic; None for a file that is no demo."""
    value = read(connection, DEMO)
    return value if isinstance(value, str) else None


def clock_state(connection: sqlite3.Connection) -> ClockState | None:
    """Return the clock's state as stored last, None if there is none."""
    values = read(connection, CLOCK)
    if (
        not isinstance(values, list)
        or len(values) != len(ClockState._fields)
        or not all(type(n) is int for n in values)
    ):
        return None
    return ClockState(*values)


def ids_end(connection: sqlite3.Connection) -> int:
    """Return the end of the ids of events that have been given out to any process."""
    row = connection.execute("/* meta.ids_end */ select value from meta where name = 'next_id'").fetchone()
    return int(row[0])


def count_row_change(connection: sqlite3.Connection) -> None:
    """Record, in the transaction, that rows of events were put back or have other values now.

    What is known of rows by their number and the greatest id does not hold any more, nor does a search for labels that
    no row has (tally/maintenance/deletion.py): it may have read the tables already.
    """
    connection.execute(
        "/* meta.count_row_change */ insert into meta (name, value) values ('reopened', 1)"
        " on conflict do update set value = value + 1"
    )


def row_changes(connection: sqlite3.Connection) -> int:
    """Return how often that was recorded."""
    row = connection.execute(
        "/* meta.row_changes */ select coalesce(max(value), 0) from meta where name = 'reopened'"
    ).fetchone()
    return int(row[0])
