"""What was counted of complete days, remembered: the same ranges are asked for again, and what is over stays so.

Arrays of numbers, by what they are figures of. The versions of the days (tally/rollups/rollup_state.py), or their sum,
have to be a part of that (or tally/rollups/web_vitals.py `versions`): a version grows whenever its day changes, by a
late event or an import, and a sum with each new day. Used by the readers' threads at once; bounded, least recently
used go first, and what nobody asked for in an hour goes too: what the owner has had deleted is not to live on here.
Nothing here says who it was: counts, numbers of labels in the order of time, and values of event_data. Of a key only a
digest is kept: a filter may be 8 KB long.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

# our choice: 5,000 paths over a range take 160 KB, the hours of a year 280, a day of 27,000 events 30 to 170 a field.
MAX_BYTES = 6_000_000
# A digest, its place in the table, and the array around its numbers.
_ENTRY_BYTES = 400
# our choice: a dashboard that is looked at asks every few minutes.
EXPIRY_MS = 3_600_000


class ResultCache:
    """Arrays by key."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._arrays: OrderedDict[bytes, tuple[array[int], int]] = OrderedDict()
        self._size = self._now_ms = 0

    def get(self, key: tuple[Any, ...]) -> "array[int] | None":
        """The array of that key, if it is remembered. Not to be changed."""
        name = _digest(key)
        with self._lock:
            found = self._arrays.get(name)
            if found is None:
                return None
            self._arrays[name] = found[0], self._now_ms
            self._arrays.move_to_end(name)
            return found[0]

    def put(self, key: tuple[Any, ...], numbers: "array[int]") -> None:
        """Remembers an array; one that would leave no room for others is not."""
        if _weight(numbers) > self.most_bytes:
            return
        name = _digest(key)
        with self._lock:
            before = self._arrays.pop(name, None)
            self._size += _weight(numbers) - (0 if before is None else _weight(before[0]))
            self._arrays[name] = numbers, self._now_ms
            while self._size > self.most_bytes:
                self._drop_oldest()

    def find(self, key: tuple[Any, ...], count: "Callable[[], array[int]]") -> "array[int]":
        """The array of that key; where it is not cache, what `count` gives is from now on."""
        found = self.get(key)
        if found is None:
            found = count()
            self.put(key, found)
        return found

    def sweep(self, now_ms: int) -> None:
        """Tells the time, and forgets what was not asked for in EXPIRY_MS."""
        with self._lock:
            self._now_ms = now_ms
            while self._arrays and next(iter(self._arrays.values()))[1] < now_ms - EXPIRY_MS:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._size -= _weight(self._arrays.popitem(last=False)[1][0])


def _digest(key: tuple[Any, ...]) -> bytes:
    # Of texts, numbers and bytes: what differs is written differently.
    return blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _weight(numbers: "array[int]") -> int:
    return len(numbers) * numbers.itemsize + _ENTRY_BYTES


def packed(rows: Iterable[Sequence[int]]) -> "array[int]":
    """Rows of numbers, all of one length, as an array."""
    numbers = array("q")
    # Of a million values, which somebody may have made up, a list of their numbers would be 150 MB.
    for row in rows:
        numbers.extend(row)
    return numbers


def unpacked(numbers: "array[int]", columns: int) -> Iterator[tuple[int, ...]]:
    """The rows again."""
    return zip(*[iter(numbers)] * columns, strict=True)
