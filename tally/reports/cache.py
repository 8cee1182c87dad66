"""Cache of results of complete days: the same ranges are requested repeatedly, and past days rarely change.

Values are arrays of numbers. A key contains the versions of its days (tally/rollups/rollup_state.py) or their sum, or
what tally/rollups/web_vitals.py `versions` returns: a version grows whenever its day changes, by a late event or an
import, and a sum also grows with each new day. The readers' threads share the cache. It is bounded: the least recently
used entries are evicted first, and entries that were not read for an hour expire, so that deleted data does not stay in
memory. Entries contain counts, label numbers in the order of time, and values of event_data, but no visitors. Of a key
only a digest is kept, since a filter may be 8 KB long.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any

# 5,000 paths over a range take 160 KB, the hours of a year 280, a day of 27,000 events 30 to 170 per field.
MAX_BYTES = 6_000_000
# A digest, a dict entry and the array object.
_ENTRY_BYTES = 400
# An open dashboard requests its figures every few minutes.
EXPIRY_MS = 3_600_000


class ResultCache:
    """Bounded map from keys to arrays."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._arrays: OrderedDict[bytes, tuple[array[int], int]] = OrderedDict()
        self._size = self._now_ms = 0

    def get(self, key: tuple[Any, ...]) -> "array[int] | None":
        """Return the array of a key, None if it is not cached. The array must not be changed."""
        name = _digest(key)
        with self._lock:
            found = self._arrays.get(name)
            if found is None:
                return None
            self._arrays[name] = found[0], self._now_ms
            self._arrays.move_to_end(name)
            return found[0]

    def put(self, key: tuple[Any, ...], numbers: "array[int]") -> None:
        """Cache an array, unless it is larger than the whole cache."""
        if _weight(numbers) > self.most_bytes:
            return
        name = _digest(key)
        with self._lock:
            before = self._arrays.pop(name, None)
            self._size += _weight(numbers) - (0 if before is None else _weight(before[0]))
            self._arrays[name] = numbers, self._now_ms
            while self._size > self.most_bytes:
                self._drop_oldest()

    def find(self, key: tuple[Any, ...] | None, count: "Callable[[], array[int]]") -> "array[int]":
        """Return the array of a key; if it is not cached, compute it with `count` and cache it. None is not cached."""
        if key is None:
            return count()
        found = self.get(key)
        if found is None:
            found = count()
            self.put(key, found)
        return found

    def sweep(self, now_ms: int) -> None:
        """Set the time, and evict entries that were not read for EXPIRY_MS."""
        with self._lock:
            self._now_ms = now_ms
            while self._arrays and next(iter(self._arrays.values()))[1] < now_ms - EXPIRY_MS:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._size -= _weight(self._arrays.popitem(last=False)[1][0])


def _digest(key: tuple[Any, ...]) -> bytes:
    # Keys consist of texts, numbers and bytes, whose repr differs where they differ.
    return blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _weight(numbers: "array[int]") -> int:
    return len(numbers) * numbers.itemsize + _ENTRY_BYTES


def packed(rows: Iterable[Sequence[int]]) -> "array[int]":
    """Return rows of numbers, all of the same length, as one array."""
    # One after another: a list of the numbers of a million values, which clients can send, would take 150 MB.
    return array("q", chain.from_iterable(rows))


def unpacked(numbers: "array[int]", columns: int) -> Iterator[tuple[int, ...]]:
    """Yield the rows of such an array."""
    return zip(*[iter(numbers)] * columns, strict=True)
