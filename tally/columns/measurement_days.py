"""Measurements in columns: web vitals and experiment events of past days (tally/columns/column_days.py).

A day is packed once it is final, in one transaction that deletes its rows. Rows of the day that arrive later, such as
those of an import, lie beside the columns: all events of a day are those of both, and the next packing joins them. A
day with fewer than MIN_EVENTS rows and no columns keeps them, because columns would take more space, and so does one
with more than MAX_EVENTS.

Here is what needs no numpy; tally/columns/measurements.py makes columns of rows, and rows of columns.
"""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from tally.columns.column_days import DELETED, MAX_EVENTS, remove, stored_checksum
from tally.columns.statements import LAYOUT, TABLES, checksum, measurement_column, write
from tally.storage.deletion_records import IS_RUNNING
from tally.storage.meta import row_changes
from tally.timestamps import DAY_MS

# A column takes 40 bytes beside its content.
MIN_EVENTS = 24


class MeasurementColumns(NamedTuple):
    """The columns of a day, and what they were made of: the ids of the rows as a JSON array, in the order of their
    times, the checksum of the columns that the day had, None where it had none, and how often rows had changed."""

    events: int
    columns: dict[str, bytes]
    ids: str
    replaced: int | None
    row_changes: int


def next_day(connection: sqlite3.Connection, website: int, source: int, end: int) -> int | None:
    """Return the newest day before `end` whose rows can be packed. Takes 2 ms a day that has more than MAX_EVENTS."""
    table, day = TABLES[source], end
    while True:
        row = connection.execute(
            f"/* measurement_days.newest */ select max(ts) from {table} where website = ? and ts < ?",
            (website, day * DAY_MS),
        ).fetchone()
        if row[0] is None:
            return None
        day = int(row[0]) // DAY_MS
        (events,) = connection.execute(
            "/* measurement_days.count */ select count(*) from (select 1 from"
            f" {table} where website = ? and ts >= ? and ts < ? limit ?)",
            (website, day * DAY_MS, (day + 1) * DAY_MS, MAX_EVENTS + 1),
        ).fetchone()
        if events <= MAX_EVENTS and (
            events >= MIN_EVENTS or stored_checksum(connection, website, source, day) is not None
        ):
            return day


def days(connection: sqlite3.Connection, website: int, source: int, first: int, last: int) -> list[tuple[int, int]]:
    """Return the stored days from `first` to `last` and their events, in order."""
    return [row[:2] for row in versions(connection, website, source, first, last)]


def versions(
    connection: sqlite3.Connection, website: int, source: int, first: int, last: int
) -> list[tuple[int, int, int]]:
    """Return the same with the checksums of the columns, which change with them."""
    return connection.execute(
        "/* measurement_days.days */ select day, events, checksum from packed_day where website = ? and source = ?"
        " and day >= ? and day <= ? order by day",
        (website, source, first, last),
    ).fetchall()


def rows_of_vitals(connection: sqlite3.Connection, website: int, first: int, last: int) -> list[tuple[int, int, int]]:
    """Return the days from `first` to `last` that have rows of web vitals, how many these are, and a version.

    Both change with the rows: later ones have greater ids, and values of leaves only grow. Takes 0.4 µs a row.
    """
    days_and_rows: list[tuple[int, int, int]] = []
    day, end_ms = first, (last + 1) * DAY_MS
    while row := connection.execute(
        "/* measurement_days.next_row */ select ts / 86400000 from main.web_vitals"
        " where website = ? and ts >= ? and ts < ? order by ts limit 1",
        (website, day * DAY_MS, end_ms),
    ).fetchone():
        rows = connection.execute(
            "/* measurement_days.rows */ select count(*), max(id) + coalesce(sum(time_on_page + scroll_depth), 0)"
            " from main.web_vitals"
            " where website = ? and ts >= ? and ts < ?",
            (website, row[0] * DAY_MS, (row[0] + 1) * DAY_MS),
        ).fetchone()
        days_and_rows.append((row[0], *rows))
        day = row[0] + 1
    return days_and_rows


def with_rows(connection: sqlite3.Connection, website: int, source: int, days: Iterable[int]) -> list[int]:
    """Return those of some days that have rows."""
    statement = (
        f"/* measurement_days.with_rows */ select 1 from main.{TABLES[source]}"
        " where website = ? and ts >= ? and ts < ? limit 1"
    )
    return [
        day for day in days if connection.execute(statement, (website, day * DAY_MS, (day + 1) * DAY_MS)).fetchone()
    ]


def store(connection: sqlite3.Connection, website: int, source: int, day: int, packed: MeasurementColumns) -> bool:
    """Replace the rows of a day by columns, unless it has changed since these were made. Return whether it did."""
    (ids,) = connection.execute(*measurement_column(website, source, day * DAY_MS, (day + 1) * DAY_MS, "id")).fetchone()
    is_deleting = connection.execute(
        "/* measurement_days.is_deleting */"
        " select exists (select 1 from import where website = ?1 and state = 'undoing')"
        f" or {IS_RUNNING.format(website='?1')}",
        (website,),
    ).fetchone()[0]
    is_same = ids == packed.ids and row_changes(connection) == packed.row_changes
    if not is_same or stored_checksum(connection, website, source, day) != packed.replaced or is_deleting:
        return False
    remove(connection, website, source, day)
    write(connection, website, source, day, packed.columns)
    connection.execute(
        "/* measurement_days.store */ insert into packed_day"
        " (website, source, day, version, layout, visits, events, raw_rows, checksum)"
        " values (?, ?, ?, 0, ?, 0, ?, ?, ?)",
        (website, source, day, LAYOUT, packed.events, DELETED, checksum(packed.columns)),
    )
    connection.execute(
        f"/* measurement_days.delete */ delete from {TABLES[source]} where website = ? and ts >= ? and ts < ?",
        (website, day * DAY_MS, (day + 1) * DAY_MS),
    )
    return True
