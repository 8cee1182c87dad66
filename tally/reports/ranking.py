"""Sums of figures by label, and the first rows of a list by rank.

Ties are decided by text, so labels are resolved before a list is cut, but only those that may be in it. Sums are added
from whole days, partial days and blocks of days; the caller makes sure that no part is added twice.

A list may have a million labels, since clients choose the values. In a dictionary each takes 300 bytes, so `Sums` moves
its contents to arrays of numbers when it grows: several arrays, partitioned by label. A partition is summed by itself,
at the end and whenever the arrays have doubled.
"""

import sqlite3
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from heapq import nlargest, nsmallest
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from tally.reports.cache import ResultCache, packed, unpacked
from tally.reports.coverage import Coverage, Span
from tally.rollups.counts import Counts, merge
from tally.storage.sql import events as sql
from tally.storage.sql.events import Scope

if TYPE_CHECKING:
    from tally.reports.packed_days import PackedDays

T = TypeVar("T")

# 8 MB if all of them have the maximum length.
_TEXTS_AT_ONCE = 1_000
# 20 MB.
MAX_HELD = 60_000
_ROWS_AT_ONCE = 10_000
# Of a million labels each partition has half of MAX_HELD.
_PARTS = 32


class Ranked(NamedTuple):
    """A row of a list; `value` is the label of its text."""

    value: int
    text: str
    figures: tuple[int, ...]


class Ranking(NamedTuple):
    """The first rows of a list, and the figures of the unset value."""

    unset: tuple[int, ...]
    rows: list[Ranked]


class Labelled(Protocol):
    """What `first` ranks: rows (label, figures), iterated twice."""

    columns: int

    @property
    def is_large(self) -> bool:
        """Return whether there are too many labels for a list in memory."""

    def __iter__(self) -> Iterator[tuple[int, ...]]: ...


class Sums:
    """Sums of `columns` figures by label. Iterates over (label, figures) in no order, repeatedly."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._in_memory: Counts = {}
        self._arrays: list[array[int]] = []
        self._max_numbers = 4 * MAX_HELD * (1 + columns)

    @property
    def is_large(self) -> bool:
        """Return whether there are too many labels for a list in memory."""
        return bool(self._arrays)

    def add(self, rows: Iterable[Sequence[int]]) -> None:
        """Add rows (label, figures)."""
        rows = iter(rows)
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            merge(self._in_memory, some)
            if len(self._in_memory) > MAX_HELD:
                self._move_to_arrays()

    def add_cached(self, cache: ResultCache, key: tuple[Any, ...] | None, count: Callable[["Sums"], None]) -> None:
        """Add the cached sums of a key; if there are none, those that `count` adds, and cache them. None: no cache."""
        if key is None:
            count(self)
            return
        known = cache.get(key)
        if known is not None:
            self.add(unpacked(known, 1 + self.columns))
            return
        own = Sums(self.columns)
        count(own)
        # At most one row more than fits into the cache, which then does not store it.
        cache.put(key, packed(islice(own, cache.most_bytes // (8 * (1 + self.columns)) + 1)))
        if self._in_memory or self._arrays:
            self.add(own)
        else:
            self._in_memory, self._arrays, self._max_numbers = own._in_memory, own._arrays, own._max_numbers

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        if self._arrays:
            self._move_to_arrays()
        for part in self._arrays:
            yield from _rows(self._summed(part))
        yield from _rows(self._in_memory)

    def of(self, labels: Iterable[int]) -> dict[int, Sequence[int]]:
        """Return the figures of those of some labels that have any."""
        wanted = set(labels)
        if not self._arrays:
            return {label: self._in_memory[label] for label in wanted if label in self._in_memory}
        return {label: figures for label, *figures in self if label in wanted}

    def number_of_values(self) -> int:
        """Return the number of labels without the unset one."""
        return sum(1 for row in self if row[0]) if self._arrays else len(self._in_memory) - (0 in self._in_memory)

    def _move_to_arrays(self) -> None:
        self._arrays = self._arrays or [array("q") for _ in range(_PARTS)]
        for row in _rows(self._in_memory):
            self._arrays[row[0] % _PARTS].extend(row)
        self._in_memory.clear()
        if sum(map(len, self._arrays)) > self._max_numbers:
            for place, part in enumerate(self._arrays):
                self._arrays[place] = packed(_rows(self._summed(part)))
            self._max_numbers = max(self._max_numbers, 2 * sum(map(len, self._arrays)))

    def _summed(self, part: "array[int]") -> Counts:
        counts: Counts = {}
        merge(counts, unpacked(part, 1 + self.columns))
        return counts


def _rows(counts: Counts) -> Iterator[tuple[int, ...]]:
    return ((value, *figures) for value, figures in counts.items())


def add_days(
    sums: Sums,
    coverage: Coverage,
    spans: Sequence[Span],
    cache: ResultCache,
    what: tuple[Any, ...],
    by_row: Callable[[Scope], Iterable[Sequence[int]]],
    by_column: "Callable[[PackedDays], Iterable[Sequence[int]]]",
    *,
    filtered: bool,
    with_data: bool = False,
) -> None:
    """Add figures of days, or parts of days: of packed ones by column, of others by row. Complete days are cached.

    what: what is counted, for the keys of cached sums. with_data: whether event_data is read.
    """
    packed_days, rest = coverage.packed(spans, filtered=filtered, with_data=with_data)
    for columns in packed_days:
        sums.add_cached(cache, columns.key(*what), partial(_add, (columns,), by_column))
    final = [span for span in rest if coverage.final(span)]
    # A day that is not final changes with each event: it is cached by itself.
    for days in (*([final] if final else []), *([span] for span in rest if not coverage.final(span))):
        filters = coverage.scope.filters * filtered
        is_complete = all(coverage.complete(span) for span in days)
        key = (*what, coverage.website, filters, coverage.versions(days)) if is_complete else None
        sums.add_cached(cache, key, partial(_add, (coverage.raw(span, filtered) for span in days), by_row))


def _add(parts: Iterable[T], rows: Callable[[T], Iterable[Sequence[int]]], sums: Sums) -> None:
    for part in parts:
        sums.add(rows(part))


def first(
    connection: sqlite3.Connection, sums: Labelled, limit: int, ranks: int, among: Container[int] | None = None
) -> Ranking:
    """Return the first `limit` rows by their first `ranks` figures, all descending, then by text.

    `among` restricts the rows to some labels.
    """
    end = 1 + ranks
    # A short list is made once and read twice.
    all_of_them = sums if sums.is_large else list(sums)
    best = nlargest(limit, (row[1:end] for row in all_of_them if row[0] and (among is None or row[0] in among)))
    last, left = (best[-1], best.count(best[-1])) if best else ((), 0)
    unset = (0,) * sums.columns
    chosen: list[tuple[int, ...]] = []
    # Ties with the last row are decided by text, in batches: there may be a million of them.
    tied: list[Ranked] = []
    some: list[tuple[int, ...]] = []
    for row in all_of_them:
        rank = row[1:end]
        if not row[0]:
            unset = row[1:]
        elif rank < last or (among is not None and row[0] not in among):
            continue
        elif rank > last:
            chosen.append(row)
        else:
            some.append(row)
            if len(some) == _TEXTS_AT_ONCE:
                tied, some = nsmallest(left, chain(tied, _first_named(connection, some, left)), key=itemgetter(1)), []
    tied = nsmallest(left, chain(tied, _first_named(connection, some, left)), key=itemgetter(1))
    rows = sorted([*_named(connection, chosen), *tied], key=itemgetter(1))
    # The sort is stable: rows of equal rank stay ordered by text.
    return Ranking(unset, sorted(rows, key=lambda row: row.figures[:ranks], reverse=True))


def _named(connection: sqlite3.Connection, rows: Sequence[tuple[int, ...]]) -> list[Ranked]:
    texts = dict(connection.execute(*sql.texts([row[0] for row in rows])).fetchall())
    return [Ranked(value, texts[value], tuple(figures)) for value, *figures in rows]


def _first_named(connection: sqlite3.Connection, rows: Sequence[tuple[int, ...]], limit: int) -> list[Ranked]:
    """Return the first rows by text. SQLite sorts: a row of Python for each of a million ties takes 3 µs."""
    figures = {row[0]: row[1:] for row in rows}
    found = connection.execute(*sql.first_texts(list(figures), limit)).fetchall()
    return [Ranked(value, text, figures[value]) for value, text in found]
