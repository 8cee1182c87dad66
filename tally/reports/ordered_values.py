"""Exact percentiles of values, most of which rarely change. Pure functions.

A percentile is the value of nearest rank: of n values in ascending order number ceil(percent * n / 100), from 1. For a
report, values are of complete days and others (`more`), such as those of today. Of the values of complete days
`ordered` keeps how many there are, how many have each rating, and for each percentile those around it: `summary`
returns the exact figures of all values from these and `more`, also after up to `margin` others have arrived.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tally.columns.format import Array
from tally.engine.values import VITALS_PERCENTILES as PERCENTILES
from tally.engine.values import Summary
from tally.rollups.web_vitals import UNITS, limits_of


class Window(NamedTuple):
    """Some of the values in ascending order, and how many are before them."""

    first: int
    values: Array


class Ordered(NamedTuple):
    """What is kept of the values of complete days: how many there are, are good, and are not poor."""

    samples: int
    good: int
    tolerable: int
    windows: tuple[Window, ...]
    """For each of PERCENTILES."""

    @property
    def nbytes(self) -> int:
        """Return about how much memory it takes."""
        return 500 + sum(window.values.nbytes for window in self.windows)


def ordered(values: Array, more: Array, metric: str, margin: int) -> Ordered:
    """Return what is kept of values, together with which `more` are counted; both in ascending order."""
    samples = len(values)

    def up_to(place: int) -> int:
        """Return how many of all values come before this one, or are equal, at least."""
        return place + 1 + int(np.searchsorted(more, values[place], "right"))

    windows = []
    for percent in PERCENTILES:
        place = bisect_left(range(samples), _rank(percent, samples + len(more)), key=up_to)
        first = max(0, min(place, samples - 1) - margin)
        windows.append(Window(first, values[first : place + margin + 1].copy()))
    good, tolerable = np.searchsorted(values, limits_of(metric), "right").tolist()
    return Ordered(samples, good, tolerable, tuple(windows))


def summary(known: Ordered, more: Array, metric: str, relative_error: float) -> Summary | None:
    """Return the figures of the kept values and `more`, in ascending order; None where too few are kept for these."""
    samples = known.samples + len(more)
    percentiles = []
    for percent, window in zip(PERCENTILES, known.windows, strict=True):
        value = _value(_rank(percent, samples), window, known.samples, more) if samples else None
        if samples and value is None:
            return None
        percentiles.append(None if value is None else value / UNITS[metric])
    good, tolerable = np.searchsorted(more, limits_of(metric), "right").tolist()
    good, tolerable = known.good + good, known.tolerable + tolerable
    return Summary(samples, tuple(percentiles), good, tolerable - good, samples - tolerable, relative_error)


def counted(values: Array, counts: Array, metric: str) -> Summary:
    """Return the figures of values, in ascending order, that occur so often."""
    ends = np.cumsum(counts)
    samples = int(counts.sum())
    places = [int(np.searchsorted(ends, _rank(percent, samples))) for percent in PERCENTILES]
    percentiles = [int(values[place]) / UNITS[metric] if samples else None for place in places]
    good, tolerable = (int(counts[:end].sum()) for end in np.searchsorted(values, limits_of(metric), "right"))
    return Summary(samples, tuple(percentiles), good, tolerable - good, samples - tolerable, 0.0)


def _rank(percent: int, samples: int) -> int:
    return -(-percent * samples // 100)


def _value(rank: int, window: Window, samples: int, more: Array) -> int | None:
    """Return the value of a rank, None where it may be one that is not in the window."""
    first, values = window
    # Of those outside of the window only the number is known, and on which side they are.
    begin = int(np.searchsorted(more, values[0])) if first else 0
    end = len(more) if first + len(values) == samples else int(np.searchsorted(more, values[-1], "right"))
    near = np.sort(np.concatenate([values, more[begin:end]]))
    place = rank - 1 - first - begin
    return int(near[place]) if 0 <= place < len(near) else None


def by_group(keys: Array, groups: int) -> Sequence[Array]:
    """Return the values of each group, in ascending order, from numbers `group << 32 | value`, which it changes."""
    keys.sort()
    if groups == 1:
        return [keys]
    places = np.searchsorted(keys, np.arange(1, groups) << 32)
    keys &= 0xFFFF_FFFF
    return np.split(keys, places)
