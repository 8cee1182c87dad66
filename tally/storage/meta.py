"""What the server notes in the file about itself, for its next start and for `doctor`: rows of table `meta`.

The clock (tally/clock.py says what for) and which forwarded headers came from where. A few words each, as JSON, written
every ten minutes, when something changes, and at the end. No address and nothing that came in a header is noted: of a
proxy the private network it lies in. What cannot be read, as after a newer version, counts as not noted.
"""

import sqlite3
from typing import Any

import orjson

from tally.clock import ClockState

CLOCK, PROXIES = "clock", "proxies"
DEMO = "demo"
"""Marks a demo (tally/demo/build.py); its value is the end of the invented traffic, as ISO 8601."""


def write(connection: sqlite3.Connection, name: str, value: Any) -> None:
    """Notes a value; in a transaction of the caller."""
    text = orjson.dumps(value).decode()
    connection.execute("/* meta.write */ insert or replace into meta values (?, ?)", (name, text))


def read(connection: sqlite3.Connection, name: str) -> Any:
    """What was noted; None where nothing was."""
    row = connection.execute("/* meta.read */ select value from meta where name = ?", (name,)).fetchone()
    try:
        return None if row is None else orjson.loads(row[0])
    except (ValueError, TypeError):
        return None


def demo_until(connection: sqlite3.Connection) -> str | None:
    """Return the last moment of a demo's traffic; None for a file that is no demo."""
    found = read(connection, DEMO)
    return found if isinstance(found, str) else None


def clock_state(connection: sqlite3.Connection) -> ClockState | None:
    """What the clock knew when the file was told last; None for a file that was never told."""
    found = read(connection, CLOCK)
    if not isinstance(found, list) or len(found) != len(ClockState._fields) or not all(type(n) is int for n in found):
        return None
    return ClockState(*found)
