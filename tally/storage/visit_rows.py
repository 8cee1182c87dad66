"""The rows of table visit: how a Visit is written and read.

Of the times within a visit the row stores differences that are 0 in most visits, which take no space: from the visit's
start to its first pageview and to the event of its acquisition, and from its last pageview to its end.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tally.events.visits import Visit, acquisition_labels, packed_acquisition
from tally.storage.bulk_insert import COLUMNS, insert
from tally.timestamps import DAY_MS

READ = ", ".join(COLUMNS["visit"][3:])
"""The columns of which `visit_of` makes a Visit: all but website, day and visitor."""

Key = tuple[int, int, int, int]
"""Website, day, visitor, number of the visit: what identifies a row."""


class Join(NamedTuple):
    """Visits of a visitor that became one: the events of the one that ended are renumbered."""

    visit: int
    website: int
    begin_ms: int
    end_ms: int
    visitor: int
    ended: int

    @property
    def key(self) -> Key:
        """Return the key of the row that is deleted."""
        return self.website, self.begin_ms // DAY_MS, self.visitor, self.ended


def joins(website: int, visitor: int, now: Visit, before: Iterable[Visit]) -> list[Join]:
    """Return what becomes of the visits `before` that are replaced by one: nothing where it keeps its number."""
    return [
        Join(now.ordinal, website, old.begin_ms, old.end_ms, visitor, old.ordinal)
        for old in before
        if old.ordinal != now.ordinal
    ]


def row_of(website: int, visitor: int, visit: Visit) -> tuple[int, ...]:
    """Return the row of a visit."""
    ordinal, begin_ms, end_ms, views, events, entry_ms, entry_page, exit_ms, exit_page, acquired_ms, acquisition = visit
    pages = (entry_page, exit_page, entry_ms - begin_ms, end_ms - exit_ms) if views else (0, 0, 0, 0)
    return (
        *(website, begin_ms // DAY_MS, visitor, ordinal, begin_ms, end_ms - begin_ms, views, events, *pages),
        *acquisition_labels(acquisition),
        acquired_ms - begin_ms if acquisition else 0,
    )


def visit_of(row: Sequence[int]) -> Visit:
    """Return the visit of a row of READ."""
    ordinal, begin_ms, duration_ms, views, events, entry_page, exit_page, entry_ms, exit_ms, *labels, acquired_ms = row
    end_ms = begin_ms + duration_ms
    pages = (begin_ms + entry_ms, entry_page, end_ms - exit_ms, exit_page)
    return Visit(
        *(ordinal, begin_ms, end_ms, views, events, *pages, begin_ms + acquired_ms),
        packed_acquisition(labels),
    )


def store(connection: sqlite3.Connection, rows: Sequence[tuple[int, ...]], joined: Sequence[Join]) -> None:
    """Write visits as they are now, and renumber the stored events of those that ended."""
    if joined:
        connection.executemany(
            "/* visit_rows.ended */ delete from visit where website = ? and day = ? and visitor = ? and visit = ?",
            [join.key for join in joined],
        )
    insert(connection, "visit_rows", "visit", rows, "insert or replace")
    if joined:
        connection.executemany(
            "/* visit_rows.join */ update event set visit = ?"
            " where website = ? and ts between ? and ? and visitor = ? and visit = ?",
            joined,
        )
