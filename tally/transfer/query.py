"""Read-only SQL over a database file, with texts in place of the numbers of labels.

A query sees temporary views, VIEWS, besides the tables of schema.sql. docs/sql.md describes them.
They are SQL over the tables, so SQLite reads only the columns that a query names. Of days that have only columns
(tally/columns/deleted_rows.py) a function returns a value of a row; it decodes the columns that a query names. SQLite
chooses these days by website and `day`.

No SQL can write: the file is opened read-only, and an authorizer allows to select, to read columns and to call the
functions of FUNCTIONS. Values are limited to MAX_VALUE_BYTES and SQLite's memory to MAX_MEMORY_BYTES. A thread
interrupts the query at its end: a progress handler is called after so many instructions, each of which can be a
function that takes long.
"""

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from tally.columns.statements import TABLES, TRAFFIC
from tally.events.dimensions import ACQUISITION, FIELDS
from tally.events.event_types import EVENT_TYPES
from tally.rollups.web_vitals import UNITS
from tally.storage.database import connect_reader, interrupted_after, interrupted_when
from tally.storage.event_data import STORED
from tally.storage.sql.events import of_visit
from tally.timestamps import DAY_MS

MAX_VALUE_BYTES = 16_000_000
# Of all connections of the process, which runs one query. Sorted rows are in files.
MAX_MEMORY_BYTES = 512 * 1_048_576
# LIKE and GLOB compare each place of a text with a pattern.
_MAX_PATTERN_BYTES = 1_000
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
_FUNCTION_NAMES = """
abs char coalesce concat concat_ws format glob hex ifnull iif instr length like likelihood likely lower ltrim max min
nullif octet_length printf quote random replace round rtrim sign substr substring trim typeof unhex unicode unlikely
upper zeroblob
current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch
avg count group_concat string_agg sum total
cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number
acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power
radians sin sinh sqrt tan tanh trunc
-> ->> json json_array json_array_length json_error_position json_extract json_group_array json_group_object json_insert
json_object json_patch json_quote json_remove json_replace json_set json_type json_valid
places unpacked
"""
FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
"""The functions that a query may call: those that compute a value, and the two of the views."""


class BadQuery(ValueError):
    """SQL that cannot be run, or that took too long; the message has the reason and the fix."""


def _text(label: str) -> str:
    """Return SQL for the text of a label, null where it is not set."""
    return f"nullif((select text from label where label.id = {label}), '')"


def _time(milliseconds: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%f', {milliseconds} / 1000.0, 'unixepoch') || '+00:00'"


_TYPE = " ".join(f"when {one.number} then '{one.name}'" for one in EVENT_TYPES)
# The rows of a view: those of a table by their key, and places of rows of stored days. Few columns, because SQLite
# computes all of them for each row; those of the view are computed where a query names them.
_SOURCE = (
    "(select website.domain as domain, website.number as number, website.day_offset_minutes * 60000 as shift,"
    " {day} as day, {first} as first, {second} as second,"
    " null as place from website join {table} on {table}.website = website.number"
    " union all select website.domain, website.number, website.day_offset_minutes * 60000, packed_day.day, null, null,"
    " place.value from website"
    " join packed_day on packed_day.website = website.number and source = {source} and raw_rows = 0"
    " join json_each(places(packed_day.{count})) as place) as source"
    " left join {table} on {table}.website = source.number and {key}"
)
_ROWS = {
    table: _SOURCE.format(
        table=table,
        source=source,
        count="events",
        day=f"{table}.ts / {DAY_MS}",
        first=f"{table}.ts",
        second=f"{table}.id",
        key=f"{table}.ts = source.first and {table}.id = source.second",
    )
    for source, table in enumerate(TABLES)
} | {
    "visit": _SOURCE.format(
        table="visit",
        source=TRAFFIC,
        count="visits",
        day="visit.day",
        first="visit.visitor",
        second="visit.visit",
        key="visit.day = source.day and visit.visitor = source.first and visit.visit = source.second",
    ),
}
# Columns of the views that SQLite compares while it reads the rows.
_OF_SOURCE = {
    "website.domain": "source.domain",
} | {
    f"{table}.ts": (
        f"iif(source.place is null, source.first, unpacked('{table}', source.number, source.day, source.place, 'ts'))"
        " - source.shift"
    )
    for table in TABLES
}


def _of_events(table: str, labels: Sequence[str], *more: str) -> dict[str, str]:
    """Return the columns that the views of all tables of events have, with those of `more` in their places."""
    known = {
        "website": "website.domain",
        "id": f"{table}.id",
        "type": f"case {table}.type {_TYPE} end",
        "ts_ms": f"{table}.ts",
        "timestamp": _time(f"({table}.ts - source.shift)"),
        "day": f"date({table}.ts / 1000, 'unixepoch')",
        "visitor": f"nullif(printf('%x', {table}.visitor), '0')",
        "visit": f"printf('%x-%d', {table}.visitor, {table}.visit)",
    }
    of_all = {name: sql for name, sql in known.items() if name not in ("type", "visitor", "visit") or name in more}
    return of_all | {name: _text(f"{table}.{name}") for name in labels}


VIEWS = {
    "v_event": {
        **_of_events("event", (*FIELDS, "event_name"), "type", "visitor", "visit"),
        **{name: _text(of_visit(name)) for name in ACQUISITION},
        "event_data": STORED,
    },
    "v_visit": {
        "website": "website.domain",
        "start_ms": "visit.start_ms - source.shift",
        "start": _time("(visit.start_ms - source.shift)"),
        "day": "date(visit.start_ms / 1000, 'unixepoch')",
        "visitor": "printf('%x', visit.visitor)",
        "visit": "printf('%x-%d', visit.visitor, visit.visit)",
        "duration_ms": "visit.duration_ms",
        "pageviews": "visit.pageviews",
        "events": "visit.events",
        "entry_page": _text("visit.entry_page"),
        "exit_page": _text("visit.exit_page"),
        **{one: _text(f"visit.{one}") for one in ACQUISITION},
    },
    "v_web_vitals": {
        **_of_events("web_vitals", FIELDS),
        **{name: f"web_vitals.{name} / {unit}.0" for name, unit in UNITS.items()},
    },
    "v_experiment_event": {
        **_of_events("experiment_event", (*FIELDS, "experiment", "variant", "goal"), "type", "visitor"),
        "value": "experiment_event.value",
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
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _MAX_PATTERN_BYTES)
        connection.execute(f"pragma hard_heap_limit = {MAX_MEMORY_BYTES}")
        connection.set_authorizer(_authorize)
        end_s = time.monotonic() + max_seconds
        with (
            interrupted_when(connection, lambda: time.monotonic() > end_s),
            interrupted_after(connection, max_seconds),
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
    """Return the SQL of a column of a view, of rows of its table and of stored days."""
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
    # More would be a longer text than a value may have.
    if not isinstance(rows, int) or rows > MAX_VALUE_BYTES // 8:
        raise ValueError
    return orjson.dumps(list(range(rows))).decode()


class _Day:
    """Values of rows of a stored day."""

    def __init__(self, connection: sqlite3.Connection, website: int, source: int, day: int) -> None:
        # numpy is imported with the first day that is read.
        from tally.columns.measurements import stored_rows
        from tally.columns.rows import StoredDay

        self.place = website, day
        self.columns: dict[tuple[str, str], list[Any]] = {}
        self._traffic = StoredDay(connection, website, day) if source == TRAFFIC else None
        self._measurements = None if source == TRAFFIC else stored_rows(connection, website, source, day)

    def column(self, table: str, name: str) -> list[Any]:
        """Return a column of a table."""
        known = self.columns.get((table, name))
        if known is None:
            known = self.columns[table, name] = self._read(table, name)
        return known

    def _read(self, table: str, name: str) -> list[Any]:
        if self._measurements is not None:
            return list(self._measurements.stored(name).tolist())
        day = self._traffic
        assert day is not None
        if table == "visit":
            return list(day.visit(name).tolist())
        if name == "event_data":
            codes, texts = day.texts
            return [texts[code] for code in codes.tolist()]
        column = day.visit(name)[day.visit_of_event] if name in ACQUISITION else day.event(name)
        return list(column.tolist())


class _Unpacked:
    """Values of rows of stored days, of one day of each source in memory at once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._days: dict[int, _Day] = {}

    def value(self, table: str, website: int, day: int, place: int, column: str) -> Any:
        """Return a value of a row by its place among those of its table and day."""
        source = TRAFFIC if table == "visit" else TABLES.index(table)
        known = self._days.get(source)
        if known is None or known.place != (website, day):
            known = self._days[source] = _Day(self._connection, website, source, day)
        return known.column(table, column)[place]


def _authorize(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
    is_function = action == sqlite3.SQLITE_FUNCTION
    is_allowed = (second or "").lower() in FUNCTIONS if is_function else action in _ALLOWED
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


@contextlib.contextmanager
def _explained(max_seconds: float) -> Iterator[None]:
    """Turn errors that the SQL caused into BadQuery; a damaged file stays a DatabaseError."""
    try:
        yield
    except MemoryError:
        raise BadQuery(
            f"the query needs more than {MAX_MEMORY_BYTES:,} bytes of memory: read fewer or shorter values"
        ) from None
    except (sqlite3.ProgrammingError, sqlite3.Warning) as failure:
        raise BadQuery(str(failure)) from None
    except sqlite3.DatabaseError as failure:
        code = getattr(failure, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_INTERRUPT:
            raise BadQuery(
                f"the query took longer than {max_seconds:g} s: name a website and a range of day, or raise --seconds"
            ) from None
        if code == sqlite3.SQLITE_AUTH:
            words = "only a SELECT statement that reads, with the functions of docs/sql.md, is possible"
            raise BadQuery(f"{words} ({failure})") from None
        if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_READONLY):
            raise BadQuery(str(failure)) from None
        raise
