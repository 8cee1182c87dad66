"""Columns of the web vitals and experiment events of a day (tally/columns/measurement_days.py), and rows of these.

The columns are read one after another from the rows of one snapshot, and from the columns that the day has. Those that
only rows are made from are compressed where that makes them smaller, others where it makes them much smaller: reading
takes five times as long.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from tally.columns import statements as sql
from tally.columns.column_days import MAX_EVENTS, stored_checksum
from tally.columns.format import Array, decoded, decoded_texts, encoded, encoded_texts, ids_of
from tally.columns.measurement_days import MeasurementColumns
from tally.columns.rows import Rows, stored_columns, tuples
from tally.columns.statements import TABLES
from tally.columns.write import numbers
from tally.events.event_types import MEASURES
from tally.storage.bulk_insert import COLUMNS
from tally.storage.meta import row_changes
from tally.timestamps import DAY_MS

UNSET: dict[str, float] = dict.fromkeys(MEASURES, -1) | {"value": np.nan}
"""What stands for null."""
_SMALLER, _MUCH_SMALLER = 1.0, 0.7


class StoredRows:
    """The rows of a day from columns, by (ts, id): of web vitals or experiments. Dimensions that have no column, or
    are newer, are unset."""

    def __init__(self, website: int, day: int, columns: Mapping[str, bytes]) -> None:
        self._website, self._day, self._columns = website, day, columns

    def column(self, name: str) -> Array:
        """Return a column of the table. Null is -1 of the metrics, NaN of value."""
        if name == "website":
            return np.full(len(self.ts), self._website)
        if name == "ts":
            return self.ts
        if name == "id":
            return ids_of(self.ts, self._numbers("first_id"), self._numbers("id_step"))
        if name not in self._columns:
            return np.full(len(self.ts), UNSET.get(name, 0))
        if name == "value":
            codes, values = decoded_texts(self._columns[name])
            return np.array([np.nan, *values])[codes]
        return self._numbers(name)

    def stored(self, name: str) -> Array:
        """Return a column of the table with None for null."""
        column = self.column(name)
        if name not in UNSET:
            return column
        is_null = np.isnan(column) if name == "value" else column == UNSET[name]
        values: Array = column.astype(object)
        values[is_null] = None
        return values

    @cached_property
    def ts(self) -> Array:
        """The time of each row."""
        times: Array = self._day * DAY_MS + np.cumsum(self._numbers("ts_step"))
        return times

    def _numbers(self, name: str) -> Array:
        return decoded(self._columns[name]).rows


def stored_rows(connection: sqlite3.Connection, website: int, source: int, day: int) -> StoredRows:
    """Return the rows of a stored day. Raises sqlite3.DatabaseError where its columns are damaged."""
    return StoredRows(website, day, stored_columns(connection, website, source, day))


def rows_of(
    connection: sqlite3.Connection, website: int, source: int, day: int, which: Array | None = None
) -> Iterator[Rows]:
    """Yield the rows of a stored day, from its columns. `which`: only those at these places."""
    rows, table = stored_rows(connection, website, source, day), TABLES[source]
    columns = [rows.stored(name) for name in COLUMNS[table]]
    for some in tuples(columns if which is None else [column[which] for column in columns]):
        yield table, some


def pack(connection: sqlite3.Connection, website: int, source: int, day: int) -> MeasurementColumns | None:
    """Return the columns of a day, from its rows and the columns that it has; `connection` must be in a read
    transaction. None without rows, and where the columns do not give exactly these, would be of more than MAX_EVENTS,
    or are damaged. Takes 10 µs an event."""
    before = stored_checksum(connection, website, source, day)
    try:
        rows_before = None if before is None else stored_rows(connection, website, source, day)
    except sqlite3.DatabaseError as failure:
        if failure.sqlite_errorcode != sqlite3.SQLITE_CORRUPT:
            raise
        # Verification names the day; its rows stay as they are.
        return None

    span = website, source, day * DAY_MS, (day + 1) * DAY_MS
    (stored,) = connection.execute(*sql.measurement_column(*span, "id")).fetchone()
    if stored == "[]":
        # Deleted since the day was found.
        return None

    def joined(name: str) -> Array:
        if name == "value":
            added = np.array([value for (value,) in connection.execute(*sql.values(website, day))], np.float64)
        else:
            added = numbers(connection, sql.measurement_column(*span, name))
        return added if rows_before is None else np.concatenate([rows_before.column(name), added])

    ids = joined("id")
    if len(ids) > MAX_EVENTS:
        return None
    order = np.lexsort((ids, joined("ts")))
    columns: dict[str, bytes] = {}
    for name in COLUMNS[TABLES[source]][1:]:
        column = joined(name)[order]
        columns |= _encoded(name, column, day)
    packed = StoredRows(website, day, columns)
    if not all(
        np.array_equal(packed.column(name), joined(name)[order], equal_nan=name == "value")
        for name in COLUMNS[TABLES[source]][1:]
    ):
        return None
    return MeasurementColumns(len(ids), columns, stored, before, row_changes(connection))


def _encoded(name: str, column: Array, day: int) -> dict[str, bytes]:
    """Return the columns that stand for a column of the table."""
    if name == "ts":
        return {"ts_step": encoded(np.diff(column, prepend=day * DAY_MS), False, False, _SMALLER)}
    if name == "id":
        steps = np.diff(column, prepend=column[:1])
        return {"first_id": encoded(column[:1], False, False), "id_step": encoded(steps, False, False, _SMALLER)}
    if name == "value":
        known, codes = np.unique(column[~np.isnan(column)], return_inverse=True)
        of_rows = np.zeros(len(column), np.int64)
        of_rows[~np.isnan(column)] = 1 + codes
        return {name: encoded_texts(of_rows, known.tolist())} if len(known) else {}
    if (column == UNSET.get(name, 0)).all():
        return {}
    return {name: encoded(column, False, name not in MEASURES, _MUCH_SMALLER)}
