"""Rows of stored days: deleted once the columns hold all of them, shown to statements that read rows, and put back.

A final day is stored by column (tally/columns/column_days.py). Of measurements the rows are deleted at once
(tally/columns/measurement_days.py). Of traffic `compared_version` makes every value of its rows in the
tables event, event_data_part and visit from the stored columns, and compares it with the tables in one snapshot.
`delete_rows` deletes the rows in one transaction, unless the day has changed since. From then on (`raw_rows` of
packed_day is DELETED) the columns are all that is left of the day:

- Most reports count in the columns (tally/reports/day_columns.py).
- What reads rows calls `show` first: until the read transaction ends, temporary views of the names of the tables unite
  them with temporary tables that have the rows of these days, so that statements stay as they are. SQLite reads both
  by their keys. The end of the transaction takes the views and tables away.
- What changes rows calls `reopen` first, in its transaction: the rows are in their tables again. So does marking a day
  as stale, whose totals are counted from rows.
"""

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import orjson

from tally.columns import column_days
from tally.columns.column_days import DELETED, MAX_EVENTS, NEEDED, PRESENT
from tally.columns.statements import LAYOUT, TABLES, TRAFFIC
from tally.storage import event_data
from tally.storage.bulk_insert import COLUMNS
from tally.storage.database import check_interrupt
from tally.storage.deletion_records import IS_RUNNING
from tally.storage.meta import count_row_change
from tally.timestamps import DAY_MS

if TYPE_CHECKING:
    from tally.columns.format import Array

ALL = tuple(range(len(TABLES)))
"""Every source of stored days."""
_TABLES = (*TABLES, "visit", "event_data_part")
_PART = ("number", "text")


def last_id(connection: sqlite3.Connection, website: int, source: int, day: int) -> int:
    """Return the greatest id of the events of a stored day."""
    return int(_column(connection, website, source, day, "id").max())


def last_ms(connection: sqlite3.Connection, website: int, source: int, day: int) -> int:
    """Return the time of the newest event of a stored day."""
    return int(_column(connection, website, source, day, "ts").max())


def has_ids_in(connection: sqlite3.Connection, website: int, day: int, pieces: Sequence[tuple[int, int]]) -> bool:
    """Return whether the ids of all traffic of a stored day are in pieces (first, end), which are in order."""
    ids = sorted(_column(connection, website, TRAFFIC, day, "id").tolist())
    at = 0
    for id in ids:
        while at < len(pieces) and pieces[at][1] <= id:
            at += 1
        if at == len(pieces) or id < pieces[at][0]:
            return False
    return True


def _column(connection: sqlite3.Connection, website: int, source: int, day: int, name: str) -> "Array":
    """Return a column with numbers of the table that has the events of a stored day."""
    # numpy is imported with the first day that is read.
    from tally.columns.measurements import stored_rows
    from tally.columns.rows import StoredDay

    if source == TRAFFIC:
        return StoredDay(connection, website, day).event(name)
    return stored_rows(connection, website, source, day).column(name)


# --- deleting rows


# A day whose columns hold the rows as they are now.
_CAN_DELETE = (
    "from packed_day as own join rollup_state as state using (website, version)"
    " where website = ? and source = 0 and kind = 0 and level = 0"
    f" and block = day and state = 2 and raw_rows = {PRESENT} and layout = {LAYOUT} and own.events <= {MAX_EVENTS}"
    " and own.data_length is not null"
    " and not exists (select 1 from import where import.website = own.website and import.state = 'undoing')"
    f" and not {IS_RUNNING.format(website='own.website')}"
)


def next_day(connection: sqlite3.Connection, website: int) -> int | None:
    """Return the newest final day whose rows can be deleted."""
    row = connection.execute(
        f"/* deleted_rows.next */ select day {_CAN_DELETE} order by day desc limit 1", (website,)
    ).fetchone()
    return None if row is None else int(row[0])


def compared_version(connection: sqlite3.Connection, website: int, day: int) -> int | None:
    """Return the version of a day whose stored columns give exactly its rows; None where they do not.

    `connection` must be in a read transaction. Takes 5 µs an event.
    """
    # numpy is imported with the first day that is read.
    from tally.columns.rows import is_lossless

    row = connection.execute(
        "/* deleted_rows.version */ select version from packed_day where website = ? and source = 0 and day = ?",
        (website, day),
    ).fetchone()
    return int(row[0]) if row is not None and is_lossless(connection, website, day) else None


def delete_rows(connection: sqlite3.Connection, website: int, day: int, version: int | None) -> bool:
    """Delete the rows of a day whose columns hold them in this version; None: keep them. Return whether it did."""
    begin_ms, end_ms = day * DAY_MS, (day + 1) * DAY_MS
    expected = connection.execute(
        f"/* deleted_rows.can_delete */ select own.visits, own.events {_CAN_DELETE} and day = ? and own.version = ?",
        (website, day, version),
    ).fetchone()
    stored = connection.execute(
        "/* deleted_rows.count */ select (select count(*) from visit where website = ? and day = ?),"
        " (select count(*) from event where website = ? and ts >= ? and ts < ?)",
        (website, day, website, begin_ms, end_ms),
    ).fetchone()
    if version is None or (expected is not None and stored != expected):
        _set(connection, website, day, NEEDED)
    if version is None or stored != expected:
        return False
    event_data.delete(
        connection,
        connection.execute(
            "/* deleted_rows.long */ select website, ts, id from event where website = ? and ts >= ? and ts < ?"
            " and event_data = ''",
            (website, begin_ms, end_ms),
        ).fetchall(),
    )
    connection.execute(
        "/* deleted_rows.delete_events */ delete from event where website = ? and ts >= ? and ts < ?",
        (website, begin_ms, end_ms),
    )
    connection.execute(
        "/* deleted_rows.delete_visits */ delete from visit where website = ? and day = ?", (website, day)
    )
    _set(connection, website, day, DELETED)
    return True


def _set(connection: sqlite3.Connection, website: int, day: int, rows: int) -> None:
    connection.execute(
        "/* deleted_rows.set */ update packed_day set raw_rows = ? where website = ? and source = 0 and day = ?",
        (rows, website, day),
    )


# --- using rows


def without_rows(connection: sqlite3.Connection, website: int, first: int, last: int) -> list[int]:
    """Return the days from `first` to `last` of whose traffic only the columns are left."""
    return [day for day, _ in parts_without_rows(connection, website, first, last, (TRAFFIC,))]


def parts_without_rows(
    connection: sqlite3.Connection, website: int, first: int, last: int, sources: Collection[int] = ALL
) -> list[tuple[int, int]]:
    """Return (day, source) of the days from `first` to `last` of which only the columns are left, in order."""
    return connection.execute(
        "/* deleted_rows.without_rows */ select day, source from packed_day where website = ?"
        f" and source in (select value from json_each(?)) and day >= ? and day <= ? and raw_rows = {DELETED}"
        " order by day, source",
        (website, orjson.dumps([*sources]).decode(), first, last),
    ).fetchall()


def _parts_among(
    connection: sqlite3.Connection, website: int, days: Collection[int], sources: Collection[int]
) -> list[tuple[int, int]]:
    """Return the same of some days."""
    wanted = set(days)
    parts = parts_without_rows(connection, website, min(wanted), max(wanted), sources) if wanted else []
    return [part for part in parts if part[0] in wanted]


def events_without_rows(connection: sqlite3.Connection, website: int, end: int) -> int:
    """Return the number of events of days before `end` of which only the columns are left."""
    row = connection.execute(
        "/* deleted_rows.events_without_rows */ select coalesce(sum(events), 0) from packed_day"
        f" where website = ? and day < ? and raw_rows = {DELETED}",
        (website, end),
    ).fetchone()
    return int(row[0])


def reopen(connection: sqlite3.Connection, website: int, days: Collection[int], sources: Collection[int] = ALL) -> bool:
    """Put the rows of those days back that have only columns; return whether there were any. 5 µs an event.

    Call it before rows of these days are changed in the transaction, or read there.
    """
    parts = _parts_among(connection, website, days, sources)
    for day, source in parts:
        _insert(connection, "main.", website, source, day)
        if source == TRAFFIC:
            _set(connection, website, day, PRESENT)
        else:
            column_days.remove(connection, website, source, day)
    if parts:
        count_row_change(connection)
    return bool(parts)


def show(connection: sqlite3.Connection, website: int, days: Collection[int], sources: Collection[int] = ALL) -> None:
    """Let statements see the rows of those days that have only columns, until the read transaction ends."""
    for day, source in _parts_among(connection, website, days, sources):
        with _views(connection):
            known = connection.execute(
                "/* deleted_rows.is_shown */ insert or ignore into temp.unpacked_day values (?, ?, ?)",
                (website, source, day),
            )
            if known.rowcount:
                _insert(connection, "temp.unpacked_", website, source, day)


def hide(connection: sqlite3.Connection) -> None:
    """Let statements see the rows of no stored day again, to free the space of those that were shown."""
    with _views(connection):
        for table in ("day", *_TABLES):
            connection.execute(f"/* deleted_rows.hide */ delete from temp.unpacked_{table}")


def show_events(connection: sqlite3.Connection, website: int, source: int, day: int, which: "Array") -> None:
    """Let statements see some events of a day that has only columns, by their places, until the read transaction
    ends."""
    with _views(connection):
        _insert(connection, "temp.unpacked_", website, source, day, which)


@contextmanager
def _views(connection: sqlite3.Connection) -> Iterator[None]:
    """Create the temporary tables and views where they are missing, and let the block write into them."""
    with temporary(connection):
        if not connection.execute(
            "/* deleted_rows.has_views */ select 1 from temp.sqlite_schema where name = 'unpacked_day'"
        ).fetchone():
            _create(connection)
        yield


@contextmanager
def temporary(connection: sqlite3.Connection) -> Iterator[None]:
    """Let the block create temporary tables in a read transaction, whose end takes them away, and write into them."""
    if not connection.in_transaction:
        raise ValueError("rows of stored days are shown in a read transaction only: its end takes them away")
    (is_reader,) = connection.execute("pragma query_only").fetchone()
    connection.execute("pragma query_only = off")
    try:
        yield
    finally:
        if is_reader:
            connection.execute("pragma query_only = on")


def _create(connection: sqlite3.Connection) -> None:
    create = "/* deleted_rows.create */ create temp"
    connection.execute(
        f"{create} table if not exists unpacked_day (website, source, day, primary key (website, source, day))"
        " without rowid"
    )
    for table in _TABLES:
        (definition,) = connection.execute(
            "/* deleted_rows.table */ select sql from main.sqlite_schema where name = ?", (table,)
        ).fetchone()
        # With the same types: SQLite joins a statement with both parts of a view only where these agree.
        connection.execute(f"{create} table if not exists unpacked_{table} {definition[definition.index('(') :]}")
        connection.execute(
            f"{create} view {table} as select * from main.{table} union all select * from temp.unpacked_{table}"
        )


def _insert(
    connection: sqlite3.Connection, prefix: str, website: int, source: int, day: int, which: "Array | None" = None
) -> None:
    """Write the rows of a stored day, or of some of its events, into tables."""
    from tally.columns import measurements, rows

    if source == TRAFFIC:
        parts = rows.rows_of(connection, website, day, which)
    else:
        parts = measurements.rows_of(connection, website, source, day, which)
    for table, values in parts:
        check_interrupt()
        columns = COLUMNS.get(table, _PART)
        connection.executemany(
            f"/* deleted_rows.insert */ insert into {prefix}{table} ({', '.join(columns)})"
            f" values ({', '.join('?' * len(columns))})",
            values,
        )
