"""What lists have in common: figures by label, added up piece by piece, and the first few of them by rank.

Texts decide among what ranks alike, so labels become texts before the list is cut: for those alone that may be in it.
Figures come from whole days, parts of days and blocks of them; whoever adds them up sees to it that no piece is twice.

A list may have a million labels: somebody may make them up. In a dictionary each would take 300 bytes, so `Sums` puts
by what it holds whenever that is much, as arrays of numbers; in several of them by label, of which each is added up by
itself: in the end, and whenever they have grown to twice what that came to.
"""

import sqlite3
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from heapq import nlargest, nsmallest
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple

from tally.reports.cache import ResultCache, packed, unpacked
from tally.rollups.counts import Counts, merge
from tally.storage.sql import events as sql

# our choice: 8 MB of the longest ones.
_TEXTS_AT_ONCE = 1_000
# our choice: 20 MB.
MAX_HELD = 60_000
_ROWS_AT_ONCE = 10_000
# our choice: of a million labels each has half of MAX_HELD.
_PARTS = 32


class Ranked(NamedTuple):
    """A row of a list; `value` is the label of its text."""

    value: int
    text: str
    figures: tuple[int, ...]


class Ranking(NamedTuple):
    """The first rows of a list, and the figures of what is unset."""

    unset: tuple[int, ...]
    rows: list[Ranked]


class Sums:
    """Figures by label, `columns` of them each. Walks over (label, figures), in no order, as often as one likes."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._held: Counts = {}
        self._put_by: list[array[int]] = []
        self._most_numbers = 4 * MAX_HELD * (1 + columns)

    @property
    def are_many(self) -> bool:
        """Whether there are too many to be held at once."""
        return bool(self._put_by)

    def add(self, rows: Iterable[Sequence[int]]) -> None:
        """Adds rows (label, figures)."""
        rows = iter(rows)
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            merge(self._held, some)
            if len(self._held) > MAX_HELD:
                self._put_all_by()

    def add_cached(self, cache: ResultCache, key: tuple[Any, ...], count: Callable[["Sums"], None]) -> None:
        """Adds the sums of that key; where they are not cache, what `count` adds is from now on."""
        known = cache.get(key)
        if known is not None:
            self.add(unpacked(known, 1 + self.columns))
            return
        own = Sums(self.columns)
        count(own)
        # One more than there is room for, which is refused.
        cache.put(key, packed(islice(own, cache.most_bytes // (8 * (1 + self.columns)) + 1)))
        if self._held or self._put_by:
            self.add(own)
        else:
            self._held, self._put_by, self._most_numbers = own._held, own._put_by, own._most_numbers

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        if self._put_by:
            self._put_all_by()
        for part in self._put_by:
            yield from _rows(self._added_up(part))
        yield from _rows(self._held)

    def _put_all_by(self) -> None:
        self._put_by = self._put_by or [array("q") for _ in range(_PARTS)]
        for row in _rows(self._held):
            self._put_by[row[0] % _PARTS].extend(row)
        self._held.clear()
        if sum(map(len, self._put_by)) > self._most_numbers:
            for place, part in enumerate(self._put_by):
                self._put_by[place] = packed(_rows(self._added_up(part)))
            self._most_numbers = max(self._most_numbers, 2 * sum(map(len, self._put_by)))

    def _added_up(self, part: "array[int]") -> Counts:
        counts: Counts = {}
        merge(counts, unpacked(part, 1 + self.columns))
        return counts


def _rows(counts: Counts) -> Iterator[tuple[int, ...]]:
    return ((value, *figures) for value, figures in counts.items())


def first(
    connection: sqlite3.Connection, sums: Sums, limit: int, ranks: int, among: Container[int] | None = None
) -> Ranking:
    """The first `limit` by their first `ranks` figures, all descending, then by text; of some labels, or of all."""
    end = 1 + ranks
    # Of few, the same list is walked over twice.
    all_of_them = sums if sums.are_many else list(sums)
    best = nlargest(limit, (row[1:end] for row in all_of_them if row[0] and (among is None or row[0] in among)))
    last, room = (best[-1], best.count(best[-1])) if best else ((), 0)
    unset = (0,) * sums.columns
    chosen: list[tuple[int, ...]] = []
    # Of those that tie with the last one texts decide, looked at some at a time: there may be a million.
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
                tied, some = nsmallest(room, chain(tied, _named(connection, some)), key=itemgetter(1)), []
    tied = nsmallest(room, chain(tied, _named(connection, some)), key=itemgetter(1))
    rows = sorted([*_named(connection, chosen), *tied], key=itemgetter(1))
    # Sorting keeps the order of what is equal.
    return Ranking(unset, sorted(rows, key=lambda row: row.figures[:ranks], reverse=True))


def _named(connection: sqlite3.Connection, rows: Sequence[tuple[int, ...]]) -> list[Ranked]:
    texts = dict(connection.execute(*sql.texts([row[0] for row in rows])).fetchall())
    return [Ranked(value, texts[value], tuple(figures)) for value, *figures in rows]
