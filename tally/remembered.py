"""What was counted of complete days, remembered: the same ranges are asked for again, and what is over stays so.

Arrays of numbers, by what they are figures of. The versions of the days (tally/rollups.py), or their sum, have to be a
part of that: a version grows whenever its day changes, by a late event or an import, and a sum with each new day.
Used by the readers' threads at once; bounded, least recently used go first. Nothing here is about anybody: counts, and
numbers of labels in the order of time.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

# our choice: 5,000 paths over a range take 160 KB, the hours of a year 280, a day of 27,000 events 30 to 60 a field.
MOST_BYTES = 6_000_000
# A key is a tuple of a few numbers; with its place in the table it weighs more than a short array.
_KEY_BYTES = 400


class Remembered:
    """Arrays by key."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._arrays: OrderedDict[tuple[Any, ...], array[int]] = OrderedDict()
        self._size = 0

    def get(self, key: tuple[Any, ...]) -> "array[int] | None":
        """The array of that key, if it is remembered. Not to be changed."""
        with self._lock:
            found = self._arrays.get(key)
            if found is not None:
                self._arrays.move_to_end(key)
            return found

    def put(self, key: tuple[Any, ...], numbers: "array[int]") -> None:
        """Remembers an array."""
        with self._lock:
            before = self._arrays.pop(key, None)
            self._size += _weight(numbers) - (0 if before is None else _weight(before))
            self._arrays[key] = numbers
            while self._size > self._most:
                self._size -= _weight(self._arrays.popitem(last=False)[1])


def _weight(numbers: "array[int]") -> int:
    return len(numbers) * numbers.itemsize + _KEY_BYTES


def packed(rows: Sequence[Sequence[int]]) -> "array[int]":
    """Rows of numbers, all of one length, as an array."""
    return array("q", [number for row in rows for number in row])


def unpacked(numbers: "array[int]", columns: int) -> Iterator[tuple[int, ...]]:
    """The rows again."""
    return zip(*[iter(numbers)] * columns, strict=True)
