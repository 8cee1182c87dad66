"""What `event_data` holds: each property's values with their events and visitors, and statistics of its numbers.

Values are JSON's own: the text "1", the number 1 and true are three values, 1 and 1.0 are one. Everything is exact
while the values of a query fit into MAX_BYTES. Sums are always exact: they are kept as whole multiples of the
smallest double, so the order of additions makes no difference.

Days are counted by column (tally/reports/day_columns.py); a visitor number belongs to one day, so that visitors of
days add up. Counts of whole days are cached under the days' versions.

Clients choose the values, so their number is bounded. Beyond MAX_BYTES the properties with the most distinct values
lose the values with the fewest events. Such a property is not `exact`: its events, samples, sum, mean, min and max are;
the number of distinct values and the counts of a value are lower bounds, and percentiles are unknown. A value with a
share of events above 1/1,000 is practically never lost. Once no property has more than MIN_VALUES values, properties
with the fewest events are dropped. One that occurs again is counted from then on. Which these are is not stored, so
no property is `exact` then: each may lack events, in its sum, mean, min and max too, and percentiles are unknown.
"""

import marshal
import sqlite3
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from tally.engine.values import DATA_PERCENTILES as PERCENTILES
from tally.engine.values import Data, Numbers, Property, Scope
from tally.events.json_scalars import nearest, read, written
from tally.reports.cache import ResultCache
from tally.reports.coverage import coverage_of
from tally.reports.funnels import columns_of
from tally.storage.sql import behaviour as sql

if TYPE_CHECKING:
    from tally.reports.day_columns import DayColumns, Value

MAX_PROPERTIES = 50
# About 48,000 values of 36 characters; counting them takes 0.2 s.
MAX_BYTES = 16_000_000
# What is kept of cached days that lost values: about 8,000 values of 36 characters, 450 KB in the cache.
_MAX_CACHED_BYTES = 2_500_000
# All days of a range together: a quarter of the cache.
_MAX_DAYS_BYTES = 1_500_000
# Fewer values of a property are not dropped while there are properties with more.
MIN_VALUES = 10
# Measured with CPython 3.11: a dict entry, a list of integers; an object with a dict.
_VALUE_BYTES, _PROPERTY_BYTES = 250, 500

# The smallest double is 2^-1074.
_UNIT_BITS = 1_074


# --- counting


@dataclass(slots=True)
class _Property:
    """Counts of one property: `values` maps a value to [events, visitors].

    The other fields describe dropped values: their events, of the numbers among them the events, the sum (in units of
    2^-1074), the least and the greatest; and how many distinct values there are at least.
    """

    values: dict[Any, list[int]] = field(default_factory=dict)
    events: int = 0
    samples: int = 0
    sum: int = 0
    min: float | None = None
    max: float | None = None
    distinct: int = 0

    @property
    def is_exact(self) -> bool:
        """Return whether no value was dropped."""
        return not self.events

    def all_events(self) -> int:
        """Return how many events have the property."""
        return self.events + sum(counts[0] for counts in self.values.values())

    def keep(self, most: int) -> int:
        """Drop values until `most` are left, the rarest first; returns their bytes.

        Among equally frequent values the ones counted first are kept: sorting takes as long as counting.
        """
        self.distinct = max(self.distinct, len(self.values))
        least, size = 1, 0
        while sum(counts[0] > least for counts in self.values.values()) > most:
            least *= 2
        kept = {value: counts for value, counts in self.values.items() if counts[0] > least}
        numbers: list[tuple[float, int]] = []
        for value, counts in self.values.items():
            if counts[0] > least:
                continue
            if len(kept) < most:
                kept[value] = counts
                continue
            self.events += counts[0]
            size += _VALUE_BYTES + sys.getsizeof(value)
            if type(value) is float or type(value) is int:
                numbers.append((value, counts[0]))
        if numbers:
            self.samples += sum(events for _, events in numbers)
            self.sum += _sum(numbers)
            self._widen(min(numbers)[0], max(numbers)[0])
        self.values = kept
        return size

    def merge(self, other: "_Property") -> None:
        """Add what was dropped from another one."""
        self.distinct = max(self.distinct, other.distinct)
        self.events += other.events
        self.samples += other.samples
        self.sum += other.sum
        self._widen(other.min, other.max)

    def _widen(self, least: float | None, greatest: float | None) -> None:
        bounds = [value for value in (self.min, self.max, least, greatest) if value is not None]
        self.min, self.max = min(bounds, default=None), max(bounds, default=None)


class _Counter:
    """Counts of the events of some days."""

    def __init__(self) -> None:
        self.events = self.visitors = self.bytes = 0
        self.has_all_properties = True
        self.of: dict[str, _Property] = {}

    def add(self, events: int, visitors: int, values: "Mapping[str, Sequence[Value]]") -> None:
        """Add the counts of days of which nothing was added."""
        self.events += events
        self.visitors += visitors
        for name, counted in values.items():
            counted_property = self.of.get(name) or self._new_property(name)
            for value, *counts in counted:
                self._add_value(counted_property, value, counts)
                if self.bytes > MAX_BYTES:
                    self.shrink(MAX_BYTES // 2)
                    counted_property = self.of.get(name) or self._new_property(name)

    def _add_value(self, counted_property: _Property, value: Any, counts: list[int]) -> None:
        stored = counted_property.values.get(value)
        if stored is None:
            counted_property.values[value] = counts
            self.bytes += _VALUE_BYTES + sys.getsizeof(value)
        else:
            stored[0] += counts[0]
            stored[1] += counts[1]

    def _new_property(self, name: str) -> _Property:
        self.bytes += _PROPERTY_BYTES + sys.getsizeof(name)
        known = self.of[name] = _Property()
        return known

    def shrink(self, max_bytes: int) -> None:
        """Drop the rarest values of the largest properties, then the rarest properties."""
        most = max((len(known.values) for known in self.of.values()), default=0)
        while self.bytes > max_bytes and self.of:
            if most > MIN_VALUES:
                most = max(most // 2, MIN_VALUES)
                for known in self.of.values():
                    if len(known.values) > most:
                        self.bytes -= known.keep(most)
            else:
                self.has_all_properties = False
                for name in nsmallest(-(-len(self.of) // 2), self.of, key=lambda name: self.of[name].all_events()):
                    self.bytes -= self.of.pop(name).keep(0) + _PROPERTY_BYTES + sys.getsizeof(name)

    @property
    def is_exact(self) -> bool:
        """Return whether nothing was dropped."""
        return self.has_all_properties and all(known.is_exact for known in self.of.values())

    def packed(self) -> "array[int]":
        """Return all counts as bytes."""
        rows = [
            (
                name,
                known.values,
                (known.events, known.samples, known.sum, known.min, known.max, known.distinct),
            )
            for name, known in self.of.items()
        ]
        return array("B", marshal.dumps((self.events, self.visitors, self.has_all_properties, rows)))

    def merge(self, packed: "array[int]") -> None:
        """Add what `packed` of another one returned."""
        events, visitors, has_all_properties, rows = marshal.loads(packed)
        self.events += events
        self.visitors += visitors
        self.has_all_properties &= has_all_properties
        for name, values, dropped in rows:
            counted_property = self.of.get(name) or self._new_property(name)
            counted_property.merge(_Property({}, *dropped))
            for value, counts in values.items():
                self._add_value(counted_property, value, counts)
            if self.bytes > MAX_BYTES:
                self.shrink(MAX_BYTES // 2)


def _sum(numbers: Iterable[tuple[float, int]]) -> int:
    """Return the sum of (number, factor) in units of 2^-1074."""
    # By denominator: adding integers of 1,100 bits for each number takes twice as long.
    sums: dict[int, int] = {}
    for number, factor in numbers:
        numerator, denominator = number.as_integer_ratio()
        sums[denominator] = sums.get(denominator, 0) + factor * numerator
    return sum(part << _UNIT_BITS + 1 - denominator.bit_length() for denominator, part in sums.items())


# --- results


def data(
    connection: sqlite3.Connection,
    scope: Scope,
    event_name: str,
    only: str | None,
    limit: int,
    cache: ResultCache,
) -> Data:
    """Return the properties of a name's events, or only one of them. Raises BeyondRetention."""
    coverage = coverage_of(connection, scope, cache)
    days = columns_of(coverage, with_data=True)
    label = coverage.rows(sql.label(event_name))
    if not label:
        return Data(0, 0, 0, [], True)
    total = _Counter()
    for columns in days:
        # By text, not label: a deleted label may be used for another text.
        total.merge(_counted(columns, event_name, label[0][0], only, cache))
    return _data(total, limit)


def of_values(events: int, visitors: int, values: "Mapping[str, Sequence[Value]]", limit: int) -> Data:
    """Return the properties of some events and their visitors, of which all values by property are known."""
    total = _Counter()
    total.add(events, visitors, values)
    return _data(total, limit)


def _data(total: _Counter, limit: int) -> Data:
    order = sorted((-known.all_events(), name) for name, known in total.of.items())
    first = [_property(name, total.of[name], limit, total.has_all_properties) for _, name in order[:MAX_PROPERTIES]]
    return Data(total.events, total.visitors, len(total.of), first, total.is_exact)


def _counted(columns: "DayColumns", event_name: str, label: int, only: str | None, cache: ResultCache) -> "array[int]":
    key = columns.key("data", event_name, only)
    packed = cache.get(key) if key else None
    if packed is None:
        counter = _Counter()
        for counted in columns.event_data(label, only):
            counter.add(*counted)
        if not counter.is_exact:
            counter.shrink(_MAX_CACHED_BYTES)
        packed = counter.packed()
        if key and len(packed) <= _MAX_DAYS_BYTES:
            cache.put(key, packed)
    return packed


def _property(name: str, known: _Property, limit: int, is_exact: bool) -> Property:
    rows = (
        (-counts[0], -counts[1], value if isinstance(value, bytes) else written(value))
        for value, counts in known.values.items()
    )
    values = [(read(value), -events, -visitors) for events, visitors, value in nsmallest(limit, rows)]
    distinct = max(known.distinct, len(known.values))
    is_exact = is_exact and known.is_exact
    return Property(name, known.all_events(), distinct, values, _numbers(known, is_exact), is_exact)


def _numbers(known: _Property, is_exact: bool) -> Numbers | None:
    counted = sorted(
        (value, counts[0]) for value, counts in known.values.items() if type(value) is float or type(value) is int
    )
    samples = known.samples + sum(events for _, events in counted)
    bounds = [value for value in (known.min, known.max) if value is not None] + [value for value, _ in counted]
    if not bounds:
        return None
    exact = Fraction(known.sum + _sum(counted), 1 << _UNIT_BITS)
    percentiles = [_rank(counted, -(-samples * percent // 100)) if is_exact else None for percent in PERCENTILES]
    least, greatest = _as_json(min(bounds)), _as_json(max(bounds))
    return Numbers(samples, nearest(exact), nearest(exact / samples), least, tuple(percentiles), greatest)


def _rank(counted: Iterable[tuple[float, int]], rank: int) -> float:
    """Return the number of a rank, from numbers in ascending order with their events."""
    before = 0
    for value, events in counted:
        before += events
        if before >= rank:
            return _as_json(value)
    raise ValueError(rank)


def _as_json(number: float) -> float:
    """Return a number as JSON has it: 1 for 1.0."""
    value: float = read(written(number))
    return value
