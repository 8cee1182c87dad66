"""Figures of complete days, remembered: the same ranges are asked for again and again, and what is over stays so.

Rows of four whole numbers each, by what they are figures of. The sum of the days' versions (tally/rollups.py) has to be
a part of that: it grows whenever one of them changes, by a late event or an import, and so does it with a new day.
Used by the readers' threads at once; bounded, least recently used go first.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

# our choice: 32 bytes a row, 5 MB in all; 5,000 paths over a range take 160 KB, the hours of a year 280.
MOST_ROWS = 160_000


class Remembered:
    """Rows by key."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._rows: OrderedDict[tuple[Any, ...], array[int]] = OrderedDict()
        self._size = 0

    def get(self, key: tuple[Any, ...]) -> Iterator[tuple[int, ...]] | None:
        """The rows of that key, if they are remembered."""
        with self._lock:
            flat = self._rows.get(key)
            if flat is None:
                return None
            self._rows.move_to_end(key)
        return zip(*[iter(flat)] * 4, strict=True)

    def put(self, key: tuple[Any, ...], rows: Sequence[Sequence[int]]) -> None:
        """Remembers rows."""
        flat = array("q", [number for row in rows for number in row])
        with self._lock:
            self._size += len(flat) // 4 - len(self._rows.pop(key, ())) // 4
            self._rows[key] = flat
            while self._size > self._most:
                self._size -= len(self._rows.popitem(last=False)[1]) // 4
