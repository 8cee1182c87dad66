"""Insert many rows with few statements.

A statement for many rows costs less than many statements and releases the interpreter's lock once. sqlite3 caches
prepared statements by their text, so that row counts are split into a few sizes, each with a constant text.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

T = TypeVar("T")
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
    """Insert rows, all of one length, into a table. `name` opens the statement: `ingest` gives `/* ingest.event */`."""
    for part in parts(rows):
        connection.execute(_statement(name, table, len(part[0]), len(part), verb), list(chain.from_iterable(part)))


# The same text object each time: sqlite3 finds a prepared statement by the hash of its text, which is computed once.
@cache
def _statement(name: str, table: str, columns: int, rows: int, verb: str) -> str:
    return f"/* {name}.{table} */ {verb} into {table} values {marks(columns, rows)}"
