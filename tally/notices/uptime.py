"""When the server has not run, so that hours with few events are not taken for hours with few visitors.

While there is an alert, the server writes the time once a minute. A gap between two of these times counts as a time
without the server, whatever the reason: it was off or asleep, the database could not be written, or the system's clock
was in doubt (tally/clock.py). Without alerts nothing is written, and what was written is deleted.
"""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tally.clock import MAX_STEP_MS
from tally.storage import meta
from tally.timestamps import DAY_MS, MINUTE_MS

BEAT_MS = MINUTE_MS
# A write may wait for others.
_LATE_MS = 30_000
KEPT_MS = 70 * DAY_MS
_MAX_GAPS = 1_000
Gap = tuple[int, int]


class Uptime(NamedTuple):
    """The last time that was written, None where there is none, and the gaps, oldest first."""

    until_ms: int | None
    gaps: Sequence[Gap]

    def down_ms(self, from_ms: int, to_ms: int) -> int:
        """Return for how long the server did not run between two times."""
        return sum(max(0, min(end, to_ms) - max(begin, from_ms)) for begin, end in self.gaps)


def read(connection: sqlite3.Connection) -> Uptime:
    """Return what is stored."""
    match meta.read(connection, meta.HEARTBEAT):
        case [int(until_ms), list(gaps)]:
            return Uptime(until_ms, [(begin, end) for begin, end in gaps])
    return Uptime(None, [])


def beat(connection: sqlite3.Connection, now_ms: int) -> Uptime:
    """Store that the server runs, with the gap since the last time; return what is stored."""
    until_ms, gaps = read(connection)
    # A time further ahead is from a clock that was wrong.
    if until_ms is not None and until_ms <= now_ms + MAX_STEP_MS:
        if now_ms - until_ms > BEAT_MS + _LATE_MS:
            gaps = [*gaps, (until_ms, now_ms)]
        until_ms = max(until_ms, now_ms)
    else:
        until_ms = now_ms
    gaps = [(begin, end) for begin, end in gaps if now_ms - KEPT_MS < end <= until_ms][-_MAX_GAPS:]
    meta.write(connection, meta.HEARTBEAT, [until_ms, gaps])
    return Uptime(until_ms, gaps)


def forget(connection: sqlite3.Connection) -> None:
    """Delete what is stored."""
    meta.delete(connection, meta.HEARTBEAT)
