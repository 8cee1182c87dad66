"""Judge an hour of a website by the same hour of the week in the last 8 weeks: spikes, drops and silence.

Pure: hours come in as lists, no clock is read and nothing is stored. What counts as usual is the median of the earlier
windows, which outliers hardly move; the spread is at least that of a Poisson process and a fifth of the median, because
eight values may lie close together by chance. tests/unit/notices/test_baseline.py simulates websites with these rules;
docs/decisions/alerts-by-hour-of-the-week.md has the figures.

A window is a number of hours that ends with an hour. The windows that it is compared with end with the same hour of the
week in local time; a window with an hour that cannot be used, such as one of a downtime, is neither judged nor
compared with.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from math import log1p
from typing import NamedTuple

WEEK_HOURS = 168
WEEKS = 8
MIN_VALUES = 4
# MAD to standard deviation, of a normal distribution.
_MAD_SCALE = 1.4826
_LEAST_SPREAD = 0.2

SPIKE_FACTOR = 3.0
_SPIKE_SPREADS, _SPIKE_VISITS = 6, 20
_RECORD_FACTOR, _RECORD_HOURS = 1.25, 28 * 24

DROP_HOURS = (1, 3, 6, 24)
_DROP_VISITS, _DROP_SHARE, _DROP_SPREADS = 30, 0.3, 4

# A probability of less than 0.00001, for counts that vary by 35 percent more than a Poisson process: of no visit in an
# hour with m expected ones it is e^(-ln(1 + v^2 m) / v^2).
_SILENCE_EXPONENT = 12
_SILENCE_VARIANCE = 0.35**2
MAX_SILENCE_HOURS = 72

NEEDED_HOURS = WEEKS * WEEK_HOURS + MAX_SILENCE_HOURS
"""Before the hour that is judged, to which everything here looks back, but for one hour where clocks change."""


class Usual(NamedTuple):
    """What is usual of a window: the median and the spread of its visits."""

    median: float
    spread: float


class Verdict(NamedTuple):
    """The result for a window of `hours`: its visits and the usual ones; whether an alert begins, and whether the
    window is back within half of the way from the threshold to what is usual."""

    is_firing: bool
    is_back: bool
    hours: int
    visits: int
    usual: float


class Hours:
    """The hours of a website, oldest first. `slots`: of each, its hour of the week in local time; `usable`: whether it
    can be judged and compared with."""

    def __init__(
        self, slots: Sequence[int], visits: Sequence[int], events: Sequence[int], usable: Sequence[bool]
    ) -> None:
        self.visits, self._events, self._usable = visits, events, usable
        self._slots = slots
        self._visits_before = [0, *accumulate(visits)]
        self._unusable_before = [0, *accumulate(not one for one in usable)]
        self._of_slot: defaultdict[int, list[int]] = defaultdict(list)
        for index, slot in enumerate(slots):
            self._of_slot[slot].append(index)

    def __len__(self) -> int:
        return len(self._slots)

    def sum(self, index: int, hours: int) -> int | None:
        """Return the visits of the window that ends with an hour; None where it cannot be used."""
        begin, end = index + 1 - hours, index + 1
        if begin < 0 or self._unusable_before[end] != self._unusable_before[begin]:
            return None
        return self._visits_before[end] - self._visits_before[begin]

    def usual(self, index: int, hours: int) -> Usual | None:
        """Return what is usual of the window that ends with an hour; None for fewer than MIN_VALUES values."""
        # Clocks that changed meanwhile move an hour by one.
        oldest = index - WEEKS * WEEK_HOURS - 1
        values: list[int] = []
        for other in reversed(self._of_slot[self._slots[index]]):
            if other < oldest:
                break
            # Less than a day: the same hour, repeated where clocks go back.
            if index - other > 24 and (value := self.sum(other, hours)) is not None:
                values.append(value)
        if len(values) < MIN_VALUES:
            return None
        median = _median(sorted(values))
        deviation = _median(sorted(abs(value - median) for value in values))
        return Usual(median, max(_MAD_SCALE * deviation, median**0.5, _LEAST_SPREAD * median))

    def busiest(self, index: int, hours: int) -> int:
        """Return the most visits of one hour among those before an hour."""
        before = slice(max(0, index - hours), index)
        return max(
            (v for v, usable in zip(self.visits[before], self._usable[before], strict=True) if usable), default=0
        )

    def silent(self, index: int) -> int:
        """Return how many usable hours without any event end with an hour, at most MAX_SILENCE_HOURS."""
        hours = 0
        while hours < min(MAX_SILENCE_HOURS, index + 1) and self._is_silent(index - hours):
            hours += 1
        return hours

    def _is_silent(self, index: int) -> bool:
        return self._usable[index] and not self._events[index]

    def is_usable(self, index: int) -> bool:
        """Return whether an hour can be judged."""
        return self._usable[index]


def _median(values: Sequence[float]) -> float:
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def spike(hours: Hours, index: int, factor: float = SPIKE_FACTOR, *, is_sensitive: bool = False) -> Verdict | None:
    """Judge whether an hour has far more visits than usual, and unless `is_sensitive` than any of 28 days.

    None where it is not judged.
    """
    visits, usual = hours.sum(index, 1), hours.usual(index, 1)
    if visits is None or usual is None:
        return None
    median = usual.median
    threshold = max(factor * median, median + _SPIKE_SPREADS * usual.spread, median + _SPIKE_VISITS)
    is_firing = visits >= threshold and (is_sensitive or visits >= _RECORD_FACTOR * hours.busiest(index, _RECORD_HOURS))
    return Verdict(is_firing, visits <= (median + threshold) / 2, 1, visits, median)


def many(hours: Hours, index: int, least: int) -> Verdict | None:
    """Judge whether an hour has at least so many visits, whatever is usual. None where it is not judged."""
    visits, usual = hours.sum(index, 1), hours.usual(index, 1)
    if visits is None:
        return None
    median = 0.0 if usual is None else usual.median
    return Verdict(visits >= least, visits < least, 1, visits, median)


def drop(hours: Hours, index: int) -> Verdict | None:
    """Judge whether the shortest window with enough usual visits has far fewer. None where it is not judged."""
    for length in DROP_HOURS:
        usual = hours.usual(index, length)
        if usual is None or usual.median < _DROP_VISITS:
            continue
        visits = hours.sum(index, length)
        if visits is None:
            return None
        threshold = min(_DROP_SHARE * usual.median, usual.median - _DROP_SPREADS * usual.spread)
        return Verdict(visits <= threshold, visits >= (usual.median + threshold) / 2, length, visits, usual.median)
    return None


def silence(hours: Hours, index: int, least: int | None = None) -> Verdict | None:
    """Judge whether there was no event at all while enough visits were usual, or for `least` hours.

    None where it is not judged.
    """
    if not hours.is_usable(index) or (least is None and not can_be_silent(hours, index)):
        return None
    length = hours.silent(index)
    usual = hours.usual(index, length) if length else None
    median = 0.0 if usual is None else usual.median
    is_unlikely = length > 0 and _exponent(median, length) >= _SILENCE_EXPONENT
    is_firing = is_unlikely if least is None else length >= least
    return Verdict(is_firing, length == 0, max(length, 1), 0 if length else hours.visits[index], median)


def _exponent(expected: float, hours: int) -> float:
    """Return the negative logarithm of the probability that hours with so many expected visits together have none."""
    return hours * log1p(_SILENCE_VARIANCE * expected / hours) / _SILENCE_VARIANCE


def can_drop(hours: Hours, index: int) -> bool | None:
    """Return whether a day has enough usual visits for drops. None: there are fewer than MIN_VALUES weeks."""
    usual = hours.usual(index, DROP_HOURS[-1])
    return None if usual is None else usual.median >= _DROP_VISITS


def can_be_silent(hours: Hours, index: int) -> bool | None:
    """Return whether the longest silence has enough usual visits. None: there are fewer than MIN_VALUES weeks."""
    usual = hours.usual(index, MAX_SILENCE_HOURS)
    return None if usual is None else _exponent(usual.median, MAX_SILENCE_HOURS) >= _SILENCE_EXPONENT
