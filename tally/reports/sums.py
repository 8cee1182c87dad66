"""Sums of figures by label, as arrays.

`counts` are an array of integers of 64 bits: a row of labels, a row for each figure, and a column for each label. A
list may have a million labels, since clients choose the values: 8 bytes a number are less than a tenth of what numbers
in a dictionary take. Parts of a query are added up as they are read, whole days, parts of days and blocks of days;
the caller makes sure that no part is added twice.

numpy is imported with the first sum.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from tally.reports.cache import ResultCache

if TYPE_CHECKING:
    from tally.columns.format import Array

# 2 MB.
MAX_HELD = 60_000
_ROWS_AT_ONCE = 10_000


class Sums:
    """Sums of `columns` figures by label. Iterates over (label, figures), by label, repeatedly."""

    def __init__(self, columns: int) -> None:
        import numpy as np

        self.columns = columns
        self._counts = np.zeros((1 + columns, 0), np.int64)
        self._added: list[Array] = []
        self._held = 0

    def add(self, counts: "Array") -> None:
        """Add counts, whose labels may be in any order and repeat."""
        if counts.shape[1]:
            self._added.append(counts)
            self._held += counts.shape[1]
            if self._held > max(MAX_HELD, self._counts.shape[1]):
                self._sum()

    def add_rows(self, rows: Iterable[Sequence[int]]) -> None:
        """Add rows (label, figures)."""
        rows = iter(rows)
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            self.add(counts_of(some, self.columns))

    def add_cached(self, cache: ResultCache, key: tuple[Any, ...] | None, count: Callable[["Sums"], None]) -> None:
        """Add the cached sums of a key; if there are none, those that `count` adds, and cache them. None: no cache."""
        import numpy as np

        known = None if key is None else cache.get(key)
        if known is not None:
            self.add(np.frombuffer(known, np.int64).reshape(1 + self.columns, -1))
            return
        sums = Sums(self.columns)
        count(sums)
        if key is not None and sums.counts.nbytes <= cache.most_bytes:
            cache.put(key, array("q", sums.counts.tobytes()))
        self.add(sums.counts)

    @property
    def counts(self) -> "Array":
        """Return the counts, by label. They must not be changed."""
        if self._added:
            self._sum()
        return self._counts

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        yield from rows_of(self.counts)

    def of(self, labels: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """Return the figures of those of some labels that have any."""
        import numpy as np

        counts = self.counts
        return {label: tuple(row) for label, *row in rows_of(counts[:, np.isin(counts[0], list(labels))])}

    def number_of_values(self) -> int:
        """Return the number of labels without the unset one."""
        import numpy as np

        return int(np.count_nonzero(self.counts[0]))

    def _sum(self) -> None:
        import numpy as np

        from tally.columns.format import differs

        added = self._added[0] if len(self._added) == 1 else np.concatenate(self._added, axis=1)
        self._added, self._held = [], 0
        if self.columns == 1 and np.all(added[1] == 1):
            # Sorting takes a seventh of the time of searching for each of the labels.
            ordered = np.sort(added[0])
            (begins,) = np.nonzero(differs(ordered))
            added = np.array([ordered.take(begins), np.diff(begins, append=len(ordered))])
        labels, places = self._counts[0], np.searchsorted(self._counts[0], added[0])
        if not len(labels) or not np.array_equal(labels[np.minimum(places, len(labels) - 1)], added[0]):
            # np.union1d would take three times as long.
            all_labels = np.sort(np.concatenate([labels, added[0]]))
            all_labels = all_labels[differs(all_labels)]
            counts = np.zeros((1 + self.columns, len(all_labels)), np.int64)
            counts[0] = all_labels
            counts[1:, np.searchsorted(all_labels, labels)] = self._counts[1:]
            self._counts, places = counts, np.searchsorted(all_labels, added[0])
        for row, more in zip(self._counts[1:], added[1:], strict=True):
            np.add.at(row, places, more)


def counts_of(rows: Iterable[Sequence[int]], columns: int) -> "Array":
    """Return rows (label, figures) as counts."""
    import numpy as np

    return np.array([*rows], np.int64).reshape(-1, 1 + columns).T


def rows_of(counts: "Array") -> Iterator[tuple[int, ...]]:
    """Yield (label, figures) of counts."""
    for start in range(0, counts.shape[1], _ROWS_AT_ONCE):
        yield from zip(*counts[:, start : start + _ROWS_AT_ONCE].tolist(), strict=True)
