"""Read-only SQL over a database file, with texts in place of the numbers of labels.

A query sees two temporary views, v_event and v_visit, besides the tables of schema.sql. docs/sql.md describes them.
They are SQL over the tables, so SQLite reads only the columns that a query names, and a range of one website by the key
of the table.

Nothing can be written, whatever the SQL says: the file is opened read-only, and an authorizer allows to select, to read
columns and to call functions, but for load_extension. Values are limited to MAX_VALUE_BYTES, so that a function such as
zeroblob cannot fill the memory.
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tally.events.dimensions import ACQUISITION, FIELDS
from tally.events.event_types import EVENT_TYPES
from tally.storage.database import connect_reader, interrupted_when
from tally.storage.event_data import STORED
from tally.storage.sql.events import of_visit

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
    for name, columns in VIEWS.items():
        table = name.removeprefix("v_")
        selected = ", ".join(f"{sql} as {column}" for column, sql in columns.items())
        rows = f"website join {table} on {table}.website = website.number"
        connection.execute(f"create temp view {name} as select {selected} from {rows}")
    connection.execute("pragma query_only = on")


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
                f"the query took longer than {max_seconds:g} s: name a website and a range of ts_ms, or raise --seconds"
            ) from None
        if code == sqlite3.SQLITE_AUTH:
            raise BadQuery(f"only a SELECT statement that reads is possible ({failure})") from None
        if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_READONLY):
            raise BadQuery(str(failure)) from None
        raise
