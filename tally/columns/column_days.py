"""Stored days: the events of past days by column (tally/columns/format.py), for reports with filters.

A day is packed once it is over, in one transaction, beside its rows (tally/columns/write.py); the
rows of a final day are deleted afterwards (tally/columns/deleted_rows.py). Table
packed_day has the version of the day (tally/rollups/rollup_state.py) that was packed: an import or a late event
increases the day's version, so that reports read its rows until it is packed again. A day that cannot be packed has 0
events there.

Nothing here needs numpy, which takes 16 MB of memory: it is imported when the first day is packed or read.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tally.columns.statements import LAYOUT, TRAFFIC, checksum, delete, write
from tally.columns.statements import stored as stored_columns


class ColumnsOfDay(NamedTuple):
    """The columns of a day, and how many visits and events they are of.

    data_length: the characters of the different texts of event_data; None where it is not packed.
    """

    visits: int
    events: int
    columns: dict[str, bytes]
    data_length: int | None


MAX_EVENTS = 200_000
"""Rows of larger days are kept: deleting takes 0.6 µs an event, during which a collect request waits for the writer."""
NO_COLUMNS = ColumnsOfDay(0, 0, {}, None)
DELETED, PRESENT, NEEDED = range(3)
"""The rows of a stored day: deleted, still there, or not to be deleted, because the columns do not hold all of them."""
# The index of unfinished days needs both terms on the state.
_IS_OVER = "state < 2 and state = 1 and is_over"


def next_day(connection: sqlite3.Connection, website: int) -> tuple[int, int] | None:
    """Return the newest final day that is not packed, or without event_data since before it was final; and its
    version."""
    is_complete = f"and (own.raw_rows != {PRESENT} or own.data_length is not null)"
    return _next(connection, website, "state = 2", is_complete, is_changed=True)


def next_open_day(connection: sqlite3.Connection, website: int, *, is_changed: bool) -> tuple[int, int] | None:
    """Return the newest day that is over but not final and not packed, or that `is_changed` since; and its version."""
    return _next(connection, website, _IS_OVER, "", is_changed=is_changed)


def _next(
    connection: sqlite3.Connection, website: int, state: str, is_complete: str, *, is_changed: bool
) -> tuple[int, int] | None:
    row = connection.execute(
        "/* column_days.next */ select block, version from rollup_state as day"
        " where website = ? and kind = 0 and level = 0"
        f" and block >= 0 and {state} and not exists (select 1 from packed_day as own where own.website = day.website"
        " and own.source = 0 and own.day = day.block and (own.version = day.version or not ?) and own.layout = ?"
        f" {is_complete})"
        " order by block desc limit 1",
        (website, is_changed, LAYOUT),
    ).fetchone()
    return None if row is None else (int(row[0]), int(row[1]))


def store(
    connection: sqlite3.Connection, website: int, day: int, version: int, packed: ColumnsOfDay, *, is_final: bool
) -> None:
    """Write the columns of a day, unless it has changed since this version. is_final: it was when it was packed."""
    is_same = connection.execute(
        "/* column_days.is_same */ select 1 from rollup_state"
        f" where website = ? and kind = 0 and level = 0 and block = ? and version = ? and (state = 2 or {_IS_OVER})"
        " and not exists (select 1 from packed_day as own where own.website = rollup_state.website"
        " and own.source = 0 and own.day = block and own.raw_rows = 0)",
        (website, day, version),
    ).fetchone()
    if is_same:
        # Also the columns of an earlier version of a day that cannot be packed any more.
        delete(connection, website, TRAFFIC, day)
        visits, events, columns, data_length = packed
        write(connection, website, TRAFFIC, day, columns)
        rows = NEEDED if is_final and data_length is None else PRESENT
        connection.execute(
            "/* column_days.store */ insert or replace into packed_day"
            " (website, source, day, version, layout, visits, events, raw_rows, checksum, data_length)"
            " values (?, 0, ?, ?, ?, ?, ?, ?, ?, ?)",
            (website, day, version, LAYOUT, visits, events, rows, checksum(columns), data_length),
        )


def sizes(
    connection: sqlite3.Connection, website: int, versions: Mapping[int, int], *, with_data: bool = False
) -> dict[int, tuple[int, int, int]]:
    """Return the number of visits, of events, and of characters of event_data that are to be read, of those of some
    days, given with their versions, that are packed; `with_data`: with event_data, which is to be read."""
    if not versions:
        return {}
    rows = connection.execute(
        "/* column_days.sizes */ select day, version, visits, events, iif(?, data_length, 0) as length from packed_day"
        " where website = ? and source = 0 and day >= ? and day <= ? and layout = ? and events > 0"
        " and length is not null",
        (with_data, website, min(versions), max(versions), LAYOUT),
    )
    return {
        day: (visits, events, length) for day, version, visits, events, length in rows if versions.get(day) == version
    }


def stored(connection: sqlite3.Connection, website: int) -> list[int]:
    """Return the days that have been packed, whether or not they have changed since."""
    rows = connection.execute(
        "/* column_days.stored */ select day from packed_day where website = ? and source = 0", (website,)
    )
    return [day for (day,) in rows]


def stored_checksum(connection: sqlite3.Connection, website: int, source: int, day: int) -> int | None:
    """Return the checksum of the columns of a day, None where it has none."""
    row = connection.execute(
        "/* column_days.checksum */ select checksum from packed_day where website = ? and source = ? and day = ?",
        (website, source, day),
    ).fetchone()
    return None if row is None else int(row[0])


def damaged(connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """Yield the website and the day of columns that are not those that were packed. Reads all columns."""
    rows = connection.execute(
        "/* column_days.checksums */ select website, source, day, checksum from packed_day order by website, day"
    ).fetchall()
    for website, source, day, expected in rows:
        if checksum(stored_columns(connection, website, source, day)) != expected:
            yield website, day


def oldest_before(connection: sqlite3.Connection, website: int, end: int) -> tuple[int, int] | None:
    """Return the source and the day of the oldest columns before a day, those of traffic first."""
    row: tuple[int, int] | None = connection.execute(
        "/* column_days.oldest */ select source, day from packed_day where website = ? and day < ?"
        " order by source, day limit 1",
        (website, end),
    ).fetchone()
    return row


def remove(connection: sqlite3.Connection, website: int, source: int, day: int) -> None:
    """Delete the columns of a day, and that it is packed."""
    delete(connection, website, source, day)
    connection.execute(
        "/* column_days.remove */ delete from packed_day where website = ? and source = ? and day = ?",
        (website, source, day),
    )


def invalidate(connection: sqlite3.Connection, website: int, day: int) -> None:
    """Have a day packed again, if it has rows."""
    connection.execute(
        "/* column_days.invalidate */ delete from packed_day where website = ? and source = 0 and day = ?"
        " and raw_rows > 0",
        (website, day),
    )
