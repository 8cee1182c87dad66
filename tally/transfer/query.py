"""Read-only SQL over a database file, with texts in place of the numbers of labels.

A query sees two temporary views, v_event and v_visit, besides the tables of schema.sql. docs/sql.md describes them.
They are SQL over the tables, so SQLite reads only the columns that a query names. Of days that have only columns
(tally/rollups/unpacked_days.py) a function returns a value of a row; it decodes the columns that a query names. SQLite
chooses these days by website and `day`.

No SQL can write: the file is opened read-only, and an authorizer allows to select, to read
columns and to call functions, but for load_extension. Values are limited to MAX_VALUE_BYTES, so that a function such as
zeroblob cannot fill the memory.
"""

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from tally.events.dimensions import ACQUISITION, FIELDS
from tally.events.event_types import EVENT_TYPES
from tally.storage.database import connect_reader, interrupted_when
from tally.storage.event_data import STORED
from tally.storage.sql.events import of_visit
from tally.timestamps import DAY_MS

MAX_VALUE_BYTES = 16_000_000
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
_REFUSED_FUNCTIONS = ("load_extension",)


class BadQuery(ValueError):
    """SQL that cannot be run, or that took too long; the message has the reason and the fix."""


def _text(label: str) -> str:
    """Return SQL for the text of a label, null where it is not set."""
    return f"nullif((select text from label where label.id = {label}), '')"


def _time(milliseconds: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%f', {milliseconds} / 1000.0, 'unixepoch') || '+00:00'"


_TYPE = " ".join(f"when {one.number} then '{one.name}'" for one in EVENT_TYPES if one.is_traffic)
_VISITOR = "printf('%x', {0}.visitor)"
# The rows of a view: those of a table by their key, and places of rows of packed days. Few columns, because SQLite
# computes all of them for each row; those of the view are computed where a query names them.
_SOURCE = (
    "(select website.domain as domain, website.number as number, {day} as day, {first} as first, {second} as second,"
    " null as place from website join {table} on {table}.website = website.number"
    " union all select website.domain, website.number, packed_day.day, null, null, place.value from website"
    " join packed_day on packed_day.website = website.number and raw_rows = 0"
    " join json_each(places(packed_day.{table}s)) as place) as source"
    " left join {table} on {table}.website = source.number and {key}"
)
_ROWS = {
    "event": _SOURCE.format(
        table="event",
        day=f"event.ts / {DAY_MS}",
        first="event.ts",
        second="event.id",
        key="event.ts = source.first and event.id = source.second",
    ),
    "visit": _SOURCE.format(
        table="visit",
        day="visit.day",
        first="visit.visitor",
        second="visit.visit",
        key="visit.day = source.day and visit.visitor = source.first and visit.visit = source.second",
    ),
}
# Columns of the views that SQLite compares while it reads the rows.
_OF_SOURCE = {
    "website.domain": "source.domain",
    "event.ts": (
        "iif(source.place is null, source.first, unpacked('event', source.number, source.day, source.place, 'ts'))"
    ),
}

VIEWS = {
    "v_event": {
        "website": "website.domain",
        "id": "event.id",
        "type": f"case event.type {_TYPE} end",
        "ts_ms": "event.ts",
        "timestamp": _time("event.ts"),
        "day": "date(event.ts / 1000, 'unixepoch')",
        "visitor": _VISITOR.format("event"),
        "visit": "printf('%x-%d', event.visitor, event.visit)",
        **{one: _text(of_visit(one) if one in ACQUISITION else f"event.{one}") for one in (*FIELDS, "event_name")},
        "event_data": STORED,
    },
    "v_visit": {
        "website": "website.domain",
        "start_ms": "visit.start_ms",
        "start": _time("visit.start_ms"),
        "day": "date(visit.start_ms / 1000, 'unixepoch')",
        "visitor": _VISITOR.format("visit"),
        "visit": "printf('%x-%d', visit.visitor, visit.visit)",
        "duration_ms": "visit.duration_ms",
        "pageviews": "visit.pageviews",
        "events": "visit.events",
        "entry_page": _text("visit.entry_page"),
        "exit_page": _text("visit.exit_page"),
        **{one: _text(f"visit.{one}") for one in ACQUISITION},
    },
}
"""The columns of each view, with their SQL."""


class Result:
    """The names of the columns of a query, and its rows, which are read while they are iterated."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.columns = [column[0] for column in cursor.description]
        self._cursor = cursor

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._cursor


@contextlib.contextmanager
def open_query(path: Path, sql: str, max_seconds: float) -> Iterator[Result]:
    """Run a query for at most `max_seconds`, the reading of its rows included. Raises BadQuery."""
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise BadQuery("the query is not UTF-8 text") from None
    connection = connect_reader(path)
    try:
        _create_views(connection)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        connection.set_authorizer(_authorize)
        end_s = time.monotonic() + max_seconds
        with (
            interrupted_when(connection, lambda: time.monotonic() > end_s),
            _explained(max_seconds),
            # Closed in any case: an open cursor would keep the connection and its lock.
            contextlib.closing(connection.execute(sql)) as cursor,
        ):
            if cursor.description is None:
                raise BadQuery("the query is empty: give a SELECT statement")
            yield Result(cursor)
    finally:
        connection.close()


def _create_views(connection: sqlite3.Connection) -> None:
    connection.execute("pragma query_only = off")
    connection.create_function("places", 1, _places, deterministic=True)
    connection.create_function("unpacked", 5, _Unpacked(connection).value, deterministic=True)
    for name, columns in VIEWS.items():
        table = name.removeprefix("v_")
        selected = ", ".join(f"{_column(table, column, sql)} as {column}" for column, sql in columns.items())
        connection.execute(f"create temp view {name} as select {selected} from {_ROWS[table]}")
    connection.execute("pragma query_only = on")


def _column(table: str, column: str, sql: str) -> str:
    """Return the SQL of a column of a view, of rows of its table and of packed days."""
    if sql in _OF_SOURCE:
        return _OF_SOURCE[sql]
    if column == "day":
        return f"date(source.day * {DAY_MS // 1000}, 'unixepoch')"
    packed = _text(f"event.{column}") if table == "event" and column in ACQUISITION else sql
    packed = "event.event_data" if sql == STORED else packed
    packed = re.sub(
        rf"\b{table}\.(\w+)", rf"unpacked('{table}', source.number, source.day, source.place, '\1')", packed
    )
    return f"iif(source.place is null, {sql}, {packed})"


def _places(rows: int) -> str:
    return orjson.dumps(list(range(rows))).decode()


class _Unpacked:
    """Values of rows of packed days, of one day in memory at once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._place: tuple[int, int] | None = None
        self._columns: dict[tuple[str, str], list[Any]] = {}

    def value(self, table: str, website: int, day: int, place: int, column: str) -> Any:
        """Return a value of a row by its place among those of its table and day."""
        if self._place != (website, day):
            # numpy is imported with the first day that is read.
            from tally.rollups.day_unpacking import UnpackedDay

            self._place, self._columns = (website, day), {}
            self._day = UnpackedDay(self._connection, website, day)
        known = self._columns.get((table, column))
        if known is None:
            known = self._columns[table, column] = self._read(table, column)
        return known[place]

    def _read(self, table: str, column: str) -> list[Any]:
        day = self._day
        if table == "visit":
            return list(day.visit(column).tolist())
        if column == "event_data":
            codes, texts = day.texts
            return [texts[code] for code in codes.tolist()]
        own = day.visit(column)[day.visit_of_event] if column in ACQUISITION else day.event(column)
        return list(own.tolist())


def _authorize(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
    is_allowed = action in _ALLOWED and not (action == sqlite3.SQLITE_FUNCTION and second in _REFUSED_FUNCTIONS)
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


@contextlib.contextmanager
def _explained(max_seconds: float) -> Iterator[None]:
    """Turn errors that the SQL caused into BadQuery; a damaged file stays a DatabaseError."""
    try:
        yield
    except (sqlite3.ProgrammingError, sqlite3.Warning) as failure:
        raise BadQuery(str(failure)) from None
    except sqlite3.DatabaseError as failure:
        code = getattr(failure, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_INTERRUPT:
            raise BadQuery(
                f"the query took longer than {max_seconds:g} s: name a website and a range of day, or raise --seconds"
            ) from None
        if code == sqlite3.SQLITE_AUTH:
            raise BadQuery(f"only a SELECT statement that reads is possible ({failure})") from None
        if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_READONLY):
            raise BadQuery(str(failure)) from None
        raise
