"""Figures of partial days, to the millisecond: from midnight UTC to a moment, or from a moment to the next midnight.

Counting a partial day from raw rows takes time in proportion to the size of the day, and a range that begins "7 days
ago" has one in every request. For a final day an index is kept instead: its traffic events in the order of time, each
with the number of its value and two flags: whether it is the first and whether it is the last event of its visitor with
that value on that day. A partial day is a slice of this index. Visitors from a moment on are those whose last event
with the value lies in the slice; visitors up to a moment, those whose first one does. The longer part of a day is the
whole day minus the shorter part.

Indexing a day of 27,000 events takes 25 to 40 ms; counting a slice then takes about 1 ms. Indexes are cached
(`ResultCache`) under the day's version. SQLite returns all numbers of an index as one text: row by row, the interpreter
lock would be released 27,000 times.
"""

import sqlite3
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import count
from operator import sub

import orjson

from tally.reports.cache import ResultCache, packed, unpacked
from tally.reports.coverage import Coverage
from tally.rollups.rollup_state import FINAL
from tally.storage.sql import events as sql
from tally.timestamps import DAY_MS

# Indexing so many takes 13 MB, and all fields of five such days fit into the cache; larger days are counted from raw
# rows.
MAX_EVENTS = 40_000
_CUSTOM, _LAST, _FIRST = 1, 2, 4
_BITS = 3
# Subtracting the figures of one value takes as long as counting so many events.
_EVENTS_A_VALUE = 20

Row = tuple[int, int, int, int]
"""The label of a value, its visitors, pageviews and events."""


def day_of(coverage: Coverage, cache: ResultCache, field: str, day: int) -> "Day | None":
    """Return the index of a field on a day, '' for all traffic; None if the day is not final or too large."""
    known = coverage.known.days.get(day)
    if known is None or known.state != FINAL:
        return None
    if any(events > MAX_EVENTS for _, events in coverage.rows(sql.folded(coverage.website, day, day + 1))):
        return None
    return Day(coverage.connection, cache, coverage.website, field, day, known.version)


class Day:
    """The index of one field of a final day."""

    def __init__(
        self, connection: sqlite3.Connection, cache: ResultCache, website: int, field: str, day: int, version: int
    ) -> None:
        self._connection, self._cache = connection, cache
        self._website, self._field, self._begin_ms = website, field, day * DAY_MS
        self._times_key = ("times", website, day, version)
        self._codes_key = ("codes", website, day, version, field)
        self._values_key = ("values", website, day, version, field)

    def until(self, to_ms: int) -> list[Row]:
        """Return a row for each value from the day's beginning to a moment."""
        return self._part(to_ms, _FIRST)

    def since(self, from_ms: int) -> list[Row]:
        """Return a row for each value from a moment to the day's end."""
        return self._part(from_ms, _LAST)

    def _part(self, moment_ms: int, mark: int) -> list[Row]:
        times, codes, values = self._index()
        place = bisect_left(times, moment_ms - self._begin_ms)
        before, behind = codes[:place], codes[place:]
        own, other = (before, behind) if mark == _FIRST else (behind, before)
        if len(own) <= len(other) + len(values) // 4 * _EVENTS_A_VALUE:
            found = _counted(own, mark).items()
            return [(values[4 * number], visitors, views, customs) for number, (visitors, views, customs) in found]
        counted, none = _counted(other, mark), (0, 0, 0)
        rows = []
        for number, (label, *figures) in enumerate(unpacked(values, 4)):
            visitors, views, customs = map(sub, figures, counted.get(number, none))
            if views or customs:
                rows.append((label, visitors, views, customs))
        return rows

    def ended(self, from_ms: int, to_ms: int) -> int:
        """Return how many visitors, each with a value, have their last event in [from_ms, to_ms)."""
        times, codes, _ = self._index()
        first, end = (bisect_left(times, ms - self._begin_ms) for ms in (from_ms, to_ms))
        return sum(code & _LAST for code in codes[first:end]) // _LAST

    def _index(self) -> tuple["array[int]", "array[int]", "array[int]"]:
        """Return milliseconds of the day, codes, and a row with the figures of the whole day for each value."""
        times, codes, values = map(self._cache.get, (self._times_key, self._codes_key, self._values_key))
        if times is None or codes is None or values is None:
            times, codes, values = self._build_index()
            self._cache.put(self._times_key, times)
            self._cache.put(self._codes_key, codes)
            self._cache.put(self._values_key, values)
        return times, codes, values

    def _build_index(self) -> tuple["array[int]", "array[int]", "array[int]"]:
        query = sql.in_order(self._website, self._field, self._begin_ms, self._begin_ms + DAY_MS)
        times, visitors, customs, values = map(orjson.loads, self._connection.execute(*query).fetchone())
        marks = _marks(list(zip(visitors, values, strict=True)), customs)
        numbers = {label: number for number, label in enumerate(dict.fromkeys(values))}
        found = [numbers[value] << _BITS | mark for value, mark in zip(values, marks, strict=True)]
        kind = "B" if len(numbers) << _BITS <= 1 << 8 else "H" if len(numbers) << _BITS <= 1 << 16 else "Q"
        codes = array(kind, found)
        whole = _counted(codes, _LAST)
        return array("I", times), codes, packed((label, *whole[number]) for label, number in numbers.items())


def _marks(pairs: Sequence[tuple[int, int]], customs: Sequence[int]) -> Sequence[int]:
    """Return the flags of each event: custom event, last and first event of its pair (visitor, value)."""
    marks = bytearray(customs)
    # In a dict the last event of a pair replaces the earlier ones.
    for place in dict(zip(pairs, count(), strict=False)).values():
        marks[place] |= _LAST
    for place in dict(zip(reversed(pairs), range(len(pairs) - 1, -1, -1), strict=True)).values():
        marks[place] |= _FIRST
    return marks


def _counted(codes: "array[int]", mark: int) -> dict[int, list[int]]:
    """Return figures by the number of the value; events with the flag `mark` count as visitors."""
    found: dict[int, list[int]] = {}
    for code, times in Counter(codes).items():
        row = found.get(code >> _BITS)
        if row is None:
            row = found[code >> _BITS] = [0, 0, 0]
        if code & mark:
            row[0] += times
        row[2 if code & _CUSTOM else 1] += times
    return found
