"""Columns of several stored days, joined: what reports count in.

The days of a query are read in batches of MAX_EVENTS events. A batch has its own numbers for the values of each field:
the codes of a day follow those of the day before, so that the same value of two days has two codes. Traffic:
tally/reports/day_columns.py; web vitals and experiments: tally/reports/measurement_columns.py.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import orjson

from tally.columns import statements
from tally.columns.format import Array, Column, Days, decoded_days
from tally.storage.sql.filters import Condition, Query
from tally.timestamps import DAY_MS

# Arrays of 1 MB, which stay in the processor's cache.
MAX_EVENTS = 131_072
# Characters of texts of event_data. A day has up to MAX_TEXTS (tally/columns/write.py).
MAX_DATA = 4_000_000


class Day(NamedTuple):
    """A stored day, or a part of one: the part is [from_ms, to_ms).

    data_length: the characters of event_data that are to be read. version: the version with which it was packed; None
    for a day in memory, whose columns change without it.
    """

    day: int
    visits: int
    events: int
    from_ms: int
    to_ms: int
    data_length: int = 0
    version: int | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether it is the whole day."""
        return self.to_ms - self.from_ms == DAY_MS


class Columns(dict[str, Column]):
    """Columns by name."""

    @property
    def nbytes(self) -> int:
        """Return the size of their arrays."""
        return sum(column.nbytes for column in list(self.values()))


class JoinedColumns:
    """The columns of some stored days, joined.

    columns: those that are known, to which it adds what it reads.
    """

    source: int

    def __init__(
        self, connection: sqlite3.Connection, website: int, days: Sequence[Day], columns: Columns | None = None
    ) -> None:
        self._connection, self._website, self.days = connection, website, days
        self._columns = Columns() if columns is None else columns
        self.is_partial = not all(day.is_whole for day in days)

    def load(self, names: Iterable[str]) -> None:
        """Read some columns."""
        new = [name for name in dict.fromkeys(names) if name not in self._columns]
        # Events of visits are needed to join columns that are of visits on some days alone.
        for name in sorted(new, key=lambda name: name not in statements.NUMBERS):
            self._columns[name] = self._joined(name, self._read(name))

    def _read(self, name: str) -> Days:
        """Return a column of each day."""
        contents = self._contents(name)
        if len(contents) != len(self.days):
            raise ValueError(f"{len(contents)} of {len(self.days)} stored days have the column {name}")
        return decoded_days(contents)

    def _contents(self, name: str) -> list[bytes]:
        days = {day.day for day in self.days}
        return list(statements.read(self._connection, self._website, self.source, name, days).values())

    def _joined(self, name: str, days: Days) -> Column:
        parts = self._parts_of(days)
        has_values = len(days.values) > 0
        # As narrow as what is stored, since most queries read few of the rows.
        kind = np.min_scalar_type(len(days.values)) if has_values else np.dtype(np.int64)
        joined = one_after_another(parts, accumulate(days.sizes, initial=0) if has_values else days.least, kind)
        return Column(joined, days.values if has_values else None, all(days.is_of_visits))

    def _parts_of(self, days: Days) -> list[Array]:
        """Return the codes of each day, all of visits or all of events."""
        return days.codes

    def column(self, name: str) -> Column:
        """Return a column with labels."""
        self.load([name])
        return self._columns[name]

    def numbers(self, name: str) -> Array:
        """Return a column without labels."""
        return self.column(name).codes

    def wanted(self, condition: Condition) -> Array:
        """Return which codes of a column with labels meet a condition."""
        matches = is_one_of(values_of(self.column(condition.column)), list(condition.labels))
        return ~matches if condition.is_not else matches


def in_batches(days: Iterable[Day]) -> Iterator[list[Day]]:
    """Yield days in parts of at most MAX_EVENTS events and MAX_DATA characters, or one day."""
    some: list[Day] = []
    events = data = 0
    for day in days:
        events, data = events + day.events, data + day.data_length
        if some and (events > MAX_EVENTS or data > MAX_DATA):
            yield some
            some, events, data = [], day.events, day.data_length
        some.append(day)
    if some:
        yield some


def numbers_in(connection: sqlite3.Connection, query: Query) -> list[int]:
    """Return the JSON array that a query selects."""
    numbers: list[int] = orjson.loads(connection.execute(*query).fetchone()[0])
    return numbers


def values_of(column: Column) -> Array:
    """Return the labels of a column that has some."""
    if column.values is None:
        raise ValueError("a column without labels")
    return column.values


def one_after_another(parts: Sequence[Array], offsets: Iterable[int], kind: "np.dtype[Any]") -> Array:
    """Return joined arrays, with an offset added to the numbers of each."""
    joined: Array = np.concatenate(parts, dtype=kind, casting="unsafe")
    row = 0
    for part, offset in zip(parts, offsets, strict=False):
        if offset:
            joined[row : row + len(part)] += kind.type(offset)
        row += len(part)
    return joined


def is_wanted(wanted: Array, codes: Array) -> Array:
    """Return whether each code is wanted. A comparison takes a tenth of the time of looking up each code."""
    (some,) = np.nonzero(wanted)
    matches: Array = codes == int(some[0]) if len(some) == 1 else wanted.take(codes)
    return matches


def is_one_of(values: Array, wanted: Sequence[int]) -> Array:
    """Return which values are among some. For a few of these np.isin takes 2 to 10 times as long."""
    ordered = np.sort(wanted)
    if len(ordered) < 2:
        return values == ordered[0] if len(ordered) else np.zeros(len(values), bool)
    matches: Array = ordered.take(ordered.searchsorted(values), mode="clip") == values
    return matches
