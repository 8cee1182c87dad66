"""Insert many rows with few statements.

A statement for many rows costs less than many statements and releases the interpreter's lock once. sqlite3 caches
prepared statements by their text, so that row counts are split into a few sizes, each with a constant text.

Statements name their columns: a migration that adds a column with `alter table` puts it at the end of the table.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

from tally.events.dimensions import ACQUISITION, EVENT_FIELDS, FIELDS
from tally.events.event_types import MEASURES

T = TypeVar("T")
COLUMNS: dict[str, tuple[str, ...]] = {
    "event": ("website", "ts", "id", "type", "visitor", "visit", *EVENT_FIELDS, "event_name", "event_data"),
    "web_vitals": ("website", "ts", "id", *FIELDS, *MEASURES),
    "experiment_event": (
        *("website", "ts", "id", "type", "visitor", *FIELDS),
        *("experiment", "variant", "goal", "value"),
    ),
    "visit": (
        *("website", "day", "visitor", "visit", "start_ms", "duration_ms", "pageviews", "events"),
        *("entry_page", "exit_page", "entry_after_ms", "exit_before_ms", *ACQUISITION, "acquired_after_ms"),
    ),
    "event_id": ("website", "minute_ms", "digest", "arrived_ms", "row_ts", "row_id"),
    "import_id": ("website", "ts", "digest", "import"),
}
COLUMNS["import_visit"] = (*COLUMNS["visit"], "import")
"""The columns of each table that `insert` writes, in the order of the values of its rows."""
# Up to 40 rows need one or two statements.
_SIZES = (64, 48, 32, 24, 20, 16, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1)


def parts(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    """Yield the rows in parts of at most 64."""
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


@cache
def marks(columns: int, rows: int) -> str:
    """Return the placeholders of rows: `(?, ?), (?, ?)`."""
    return ", ".join(["(" + ", ".join("?" * columns) + ")"] * rows)


def insert(
    connection: sqlite3.Connection, name: str, table: str, rows: Sequence[tuple[Any, ...]], verb: str = "insert"
) -> None:
    """Insert rows with values in the order of COLUMNS. `name` opens the statement: `a` gives `/* a.event */`."""
    for part in parts(rows):
        connection.execute(_statement(name, table, len(part), verb), list(chain.from_iterable(part)))


# The same text object each time: sqlite3 finds a prepared statement by the hash of its text, which is computed once.
@cache
def _statement(name: str, table: str, rows: int, verb: str) -> str:
    columns = COLUMNS[table]
    return f"/* {name}.{table} */ {verb} into {table} ({', '.join(columns)}) values {marks(len(columns), rows)}"
