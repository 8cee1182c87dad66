"""Cache of results of complete days: the same ranges are requested repeatedly, and past days rarely change.

Values are arrays of numbers. A key contains the versions of its days (tally/rollups/rollup_state.py) or their sum: a
version grows whenever its day changes, by a late event or an import, and a sum also grows with each new day. Of web
vitals it contains the checksums of their columns. The readers' threads share the cache. It is bounded: the least
recently used entries are evicted first, and entries that were not read for an hour expire, so that deleted data does
not stay in memory. Entries contain counts, label numbers in the order of time, and values of event_data, but no
visitors. Of a key only a digest is kept, since a filter may be 8 KB long.

Days are kept beside them under the same rules: of those that are not packed yet their events, with the random numbers
that visitors have in the database for a day; of stored days in which ranges begin or end the columns that were read;
of web vitals the columns of rows, and the values around percentiles.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import chain
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# 5,000 paths over a range take 160 KB, the hours of a year 280, a day of 27,000 events 30 to 170 per field.
MAX_BYTES = 6_000_000
# A day of 27,000 events takes 1 to 2 MB, with the columns of a dashboard.
MAX_BYTES_OF_DAYS = 12_000_000
# A digest, a dict entry and the array object.
_ENTRY_BYTES = 400
# An open dashboard requests its figures every few minutes.
EXPIRY_MS = 3_600_000


class Cache(Generic[T]):
    """Bounded map from keys to values."""

    def __init__(self, most_bytes: int, size_of: Callable[[T], int]) -> None:
        self.most_bytes = most_bytes
        self._size_of = size_of
        self._lock = threading.Lock()
        # The value, its size in bytes, and when it was read last.
        self._entries: OrderedDict[bytes, tuple[T, int, int]] = OrderedDict()
        self._size = 0
        self._now_ms: int | None = None

    def get(self, key: tuple[Any, ...]) -> T | None:
        """Return the value of a key, None if it is not cached. The value must not be changed."""
        name = _digest(key)
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return None
            self._entries[name] = *entry[:2], self._now_ms or 0
            self._entries.move_to_end(name)
            return entry[0]

    def put(self, key: tuple[Any, ...], value: T) -> None:
        """Cache a value, unless it is larger than the whole cache."""
        name, size = _digest(key), self._size_of(value) + _ENTRY_BYTES
        with self._lock:
            if name in self._entries:
                self._drop(name)
            if size <= self.most_bytes:
                self._size += size
                self._entries[name] = value, size, self._now_ms or 0
            while self._size > self.most_bytes:
                self._drop_oldest()

    def sweep(self, now_ms: int) -> None:
        """Set the time, and evict entries that were not read for EXPIRY_MS."""
        with self._lock:
            if self._now_ms is None:
                for name, (value, size, _) in self._entries.items():
                    self._entries[name] = value, size, now_ms
            self._now_ms = now_ms
            while self._entries and next(iter(self._entries.values()))[2] < now_ms - EXPIRY_MS:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._drop(next(iter(self._entries)))

    def _drop(self, name: bytes) -> None:
        self._size -= self._entries.pop(name)[1]


class ResultCache(Cache["array[int]"]):
    """The cached results.

    kept_days: the OpenDay of each day that is not packed yet (tally/reports/open_days.py), and the Columns of packed
    days of which queries read a part (tally/reports/day_columns.py); of web vitals see tally/reports/vital_values.py.
    """

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        super().__init__(most_bytes, lambda numbers: len(numbers) * numbers.itemsize)
        self.kept_days: Cache[Any] = Cache(MAX_BYTES_OF_DAYS, lambda day: day.nbytes)
        self._next, self._turn = threading.Lock(), threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have one thread at a time count in columns, each for a batch of days; the others in turn.

        Operations of numpy take 0.1 ms. Two threads that hand the interpreter's lock to each other that often take
        1.3 to 1.5 times as long as one after the other, and both decide the same filter.
        """
        # A thread that has had a turn waits here behind those that have not.
        with self._next:
            self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def find(self, key: tuple[Any, ...] | None, count: "Callable[[], array[int]]") -> "array[int]":
        """Return the array of a key; if it is not cached, compute it with `count` and cache it. None is not cached."""
        if key is None:
            return count()
        result = self.get(key)
        if result is None:
            result = count()
            self.put(key, result)
        return result

    def sweep(self, now_ms: int) -> None:
        """Set the time, and evict what was not read for EXPIRY_MS."""
        super().sweep(now_ms)
        self.kept_days.sweep(now_ms)


def _digest(key: tuple[Any, ...]) -> bytes:
    # Keys consist of texts, numbers and bytes, whose repr differs where they differ.
    return blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def packed(rows: Iterable[Sequence[int]]) -> "array[int]":
    """Return rows of numbers, all of the same length, as one array."""
    # One after another: a list of the numbers of a million values, which clients can send, would take 150 MB.
    return array("q", chain.from_iterable(rows))


def unpacked(numbers: "array[int]", columns: int) -> Iterator[tuple[int, ...]]:
    """Yield the rows of such an array."""
    return zip(*[iter(numbers)] * columns, strict=True)
