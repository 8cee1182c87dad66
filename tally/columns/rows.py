"""Make the rows of a stored day from its columns: the inverse of tally/columns/write.py.

Ids and visitors are stored as differences, times as offsets from the start of the visit or the day; all other columns
are labels or numbers as in the rows. The parts of long event_data are cut again (tally/storage/event_data.py).
"""

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from tally.columns import statements as sql
from tally.columns.column_days import stored_checksum
from tally.columns.format import Array, Column, begins_of_visitors, decoded, decoded_texts, ids_of
from tally.columns.write import numbers
from tally.events.dimensions import FIELDS
from tally.storage import event_data
from tally.storage.bulk_insert import COLUMNS
from tally.storage.database import damaged
from tally.timestamps import DAY_MS

# 2 MB of memory.
_ROWS_AT_ONCE = 2_000


Rows = tuple[str, list[tuple[Any, ...]]]
"""A table, and some of its rows in the order of their keys; columns as in tally/storage/bulk_insert.py."""


def stored_columns(connection: sqlite3.Connection, website: int, source: int, day: int) -> dict[str, bytes]:
    """Return the columns of a stored day.

    Raises sqlite3.DatabaseError, as of a damaged file, where they are not those that were packed.
    """
    columns = sql.stored(connection, website, source, day)
    if sql.checksum(columns) != stored_checksum(connection, website, source, day):
        raise damaged(f"the columns of day {day} of website {website} are damaged")
    return columns


class StoredDay:
    """The traffic of a stored day from its columns. Dimensions that are newer than the columns are unset."""

    def __init__(self, connection: sqlite3.Connection, website: int, day: int) -> None:
        self._website, self._day = website, day
        self._stored = stored_columns(connection, website, sql.TRAFFIC, day)

    def event(self, name: str) -> Array:
        """Return a column with numbers of table event, by (visitor, visit, ts, id)."""
        if name == "website":
            return np.full(self.events, self._website)
        if name == "ts":
            return self._ts
        if name == "id":
            return self._ids
        if name in ("visitor", "visit"):
            of_visits: Array = self.visit(name)[self.visit_of_event]
            return of_visits
        column = self._column(name)
        if column is None and name in FIELDS:
            return np.zeros(self.events, np.int64)
        values = _values(column)
        return np.repeat(values, self._counts) if column is not None and column.is_of_visits else values

    def visit(self, name: str) -> Array:
        """Return a column of table visit, by (visitor, visit)."""
        if name in ("website", "day"):
            return np.full(self.visits, self._website if name == "website" else self._day)
        column = self._column(name)
        values = np.zeros(self.visits, np.int64) if column is None and name in FIELDS else _values(column)
        if name == "visitor":
            is_first = self.visit("is_first") == 1
            visitors = values + begins_of_visitors(_values(self._column("start_ms"))[is_first])
            values = visitors[np.cumsum(is_first) - 1]
        return values + self._day * DAY_MS if name == "start_ms" else values

    @cached_property
    def texts(self) -> tuple[Array, list[str | None]]:
        """The number of the event_data of each event, and the texts; the first one is None."""
        codes, texts = decoded_texts(self._stored["event_data"])
        return codes, [None, *texts]

    @cached_property
    def order(self) -> Array:
        """The places of the events by (ts, id), the key of table event."""
        return np.lexsort((self._ids, self._ts))

    @cached_property
    def visit_of_event(self) -> Array:
        """The place of the visit of each event."""
        return np.repeat(np.arange(self.visits), self._counts)

    @cached_property
    def visits(self) -> int:
        """The number of visits."""
        return len(self._counts)

    @cached_property
    def events(self) -> int:
        """The number of events."""
        return int(self._counts.sum())

    @cached_property
    def _counts(self) -> Array:
        counts: Array = _values(self._column("pageviews")) + _values(self._column("events"))
        return counts

    @cached_property
    def _ts(self) -> Array:
        ts: Array = self.visit("start_ms")[self.visit_of_event] + _values(self._column("offset_ms"))
        return ts

    @cached_property
    def _ids(self) -> Array:
        return ids_of(self._ts, _values(self._column("first_id")), _values(self._column("id_step")))

    def _column(self, name: str) -> Column | None:
        content = self._stored.get(name)
        return None if content is None else decoded(content)


def _values(column: Column | None) -> Array:
    if column is None:
        raise ValueError("a stored day lacks a column")
    return column.rows


def rows_of(connection: sqlite3.Connection, website: int, day: int, which: Array | None = None) -> Iterator[Rows]:
    """Yield the traffic of a stored day as rows, from its columns. `which`: only these events, by place, and their
    visits."""
    stored = StoredDay(connection, website, day)
    order, visits = stored.order, np.arange(stored.visits)
    if which is not None:
        order = order[np.isin(order, which)]
        visits = np.unique(stored.visit_of_event[order])
    for some in tuples([stored.visit(name)[visits] for name in COLUMNS["visit"]]):
        yield "visit", some
    codes, texts = stored.texts
    columns = [stored.event(name)[order] for name in COLUMNS["event"][:-1]]
    for some in tuples([*columns, codes[order]]):
        split = [event_data.split(texts[row[-1]], row[2]) for row in some]
        yield "event", [(*row[:-1], text) for row, (text, _) in zip(some, split, strict=True)]
        yield "event_data_part", [part for _, parts in split for part in parts]


def tuples(columns: Sequence[Array]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of columns, some at a time."""
    for start in range(0, len(columns[0]), _ROWS_AT_ONCE):
        end = start + _ROWS_AT_ONCE
        yield list(zip(*(column[start:end].tolist() for column in columns), strict=True))


def is_lossless(connection: sqlite3.Connection, website: int, day: int) -> bool:
    """Return whether the stored columns of a day give exactly its rows, by column."""
    stored = StoredDay(connection, website, day)
    order = stored.order
    return (
        all(
            np.array_equal(stored.event(name)[order], numbers(connection, sql.event_column(website, day, name)))
            for name in COLUMNS["event"][1:-1]
        )
        and all(
            np.array_equal(stored.visit(name), numbers(connection, sql.visit_column(website, day, name)))
            for name in COLUMNS["visit"][2:]
        )
        and _are_texts_same(connection, website, day, stored)
    )


def _are_texts_same(connection: sqlite3.Connection, website: int, day: int, stored: StoredDay) -> bool:
    codes, texts = stored.texts
    ids = stored.event("id")[stored.order]
    codes = codes[stored.order]
    ids, codes = ids[codes > 0], codes[codes > 0]
    place = 0
    for some_ids, some_texts in connection.execute(*sql.event_data(website, day)):
        known = orjson.loads(some_ids)
        end = place + len(known)
        if known != ids[place:end].tolist() or orjson.loads(some_texts) != [texts[code] for code in codes[place:end]]:
            return False
        place = end
    return place == len(ids)
