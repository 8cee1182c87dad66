"""Web vitals as histograms: values -> cells -> percentiles and ratings. Pure: no database, no clock, no website.

A histogram counts values in cells whose edges grow by GROWTH, so that a percentile read off it lies within
RELATIVE_ERROR of the true one; histograms add up by adding cells, over any days, pages and devices. The published
thresholds are edges too, a cell ends at one and holds what equals it: shares of good and poor are exact.

All five metrics of an event go into one histogram (`Cells`: slot -> count), and the event itself (EVENTS); a slot is a
metric's number times SLOTS plus its cell. On disk it is bytes (`packed`):
slots that were met once, slots that were met more often, each in 16 bits, and the counts of these, in 8 bits, or in 32
where one is greater: an event with all five metrics costs 14 bytes before it meets another one in its cells.

Values below the first edge, 1 ms or 0.001 of cls, are told as 0.

In the file and in here values are whole numbers (`stored`): microseconds, and millionths of cls. Browsers tell times to
100 µs at the finest; a number of 8 digits takes 3 bytes where a float takes 8.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, repeat
from typing import NamedTuple

from tally.events.validation import METRICS, MOST_OF_METRIC
from tally.rollups.int_arrays import as_bytes, numbers_in

# our choice: half of what is promised would double the cells; 370 of them a metric reach from a millisecond to an hour.
RELATIVE_ERROR = 0.02
GROWTH = 1.039
SLOTS = 400
EVENTS = SLOTS * len(METRICS)
"""The slot in which events are counted, whatever metrics they have."""
# Of what is told, in what is stored.
_UNITS = {"lcp": 1_000, "inp": 1_000, "fcp": 1_000, "ttfb": 1_000, "cls": 1_000_000}
# Thresholds as published at https://web.dev/articles/vitals: good up to the first, poor above the second.
THRESHOLDS: dict[str, tuple[float, float]] = {
    "lcp": (2_500, 4_000),
    "inp": (200, 500),
    "fcp": (1_800, 3_000),
    "ttfb": (800, 1_800),
    "cls": (0.1, 0.25),
}
PERCENTILES = (50, 75, 95)

_MOST_SMALL = 255

Cells = dict[int, int]
"""slot -> how many values."""


def stored(values: Sequence[float | None]) -> tuple[int | None, ...]:
    """Metrics as they are stored; in the order of METRICS, None where not sent. `values` may be empty: none was."""
    return tuple(
        None if value is None else round(value * unit)
        for value, unit in zip(values or (None,) * len(METRICS), _UNITS.values(), strict=True)
    )


def from_stored(values: Sequence[int | None]) -> dict[str, float]:
    """Metrics as they are told, out of what is stored: those that were sent, by name."""
    return {name: value / unit for (name, unit), value in zip(_UNITS.items(), values, strict=True) if value is not None}


class Summary(NamedTuple):
    """What is told of a metric: its values, PERCENTILES of them (None where there are none), and how many are rated
    good, in need of improvement, poor."""

    samples: int
    percentiles: tuple[float | None, ...]
    good: int
    middling: int
    poor: int


def _edges(metric: str) -> tuple[float, ...]:
    # What is stored is whole: the first edge ends what is below 1 ms, or 0.001 of cls.
    first, last = 999.0, MOST_OF_METRIC[metric] * _UNITS[metric]
    edges = [first]
    while edges[-1] * GROWTH < last:
        edges.append(edges[-1] * GROWTH)
    return tuple(sorted({*edges, last, *(threshold * _UNITS[metric] for threshold in THRESHOLDS[metric])}))


_EDGES = tuple(_edges(metric) for metric in METRICS)
assert max(map(len, _EDGES)) <= SLOTS
# The last cell that is good, and the last that is not poor.
_RATED = tuple(
    tuple(edges.index(threshold * _UNITS[metric]) for threshold in THRESHOLDS[metric])
    for metric, edges in zip(METRICS, _EDGES, strict=True)
)


def slots_of(values: Sequence[int | None]) -> list[int]:
    """The slot of each metric that was sent, and EVENTS; `values` as stored. 0.25 µs a metric."""
    slots = [
        number * SLOTS + bisect_left(edges, value)
        for number, (edges, value) in enumerate(zip(_EDGES, values, strict=True))
        if value is not None
    ]
    return [*slots, EVENTS]


def slot_of(metric: str, value: int) -> int:
    """The slot of a metric's value, as stored."""
    number = METRICS.index(metric)
    return number * SLOTS + bisect_left(_EDGES[number], value)


def is_poor(slot: int) -> bool:
    """Whether the values in a slot are rated poor."""
    metric, cell = divmod(slot, SLOTS)
    return slot != EVENTS and cell > _RATED[metric][1]


def added(cells: Cells, more: Mapping[int, int] | Iterable[tuple[int, int]]) -> None:
    """Adds a histogram to `cells`."""
    if not cells:
        cells.update(more)
        return
    known = cells.get
    for slot, count in more.items() if isinstance(more, Mapping) else more:
        cells[slot] = known(slot, 0) + count


def poor_above(metric: str) -> float:
    """What is stored of a poor value is greater than this."""
    return THRESHOLDS[metric][1] * _UNITS[metric]


def packed(cells: Mapping[int, int]) -> bytes:
    """A histogram as bytes."""
    ones = array("H", sorted(slot for slot, count in cells.items() if count == 1))
    slots = array("H", sorted(slot for slot, count in cells.items() if count > 1))
    counts = array("B" if max(cells.values(), default=0) <= _MOST_SMALL else "I", [cells[slot] for slot in slots])
    return _joined(ones, slots, counts)


def packed_with(blob: bytes, cells: Mapping[int, int]) -> bytes:
    """What `packed` gives of a packed histogram with some more cells: 5 µs, and 0.7 µs for each of these."""
    ones, slots, counts = _split(blob)
    for slot, count in cells.items():
        at, once = bisect_left(slots, slot), bisect_left(ones, slot)
        is_often = at < len(slots) and slots[at] == slot
        if is_often:
            count += counts[at]
        elif once < len(ones) and ones[once] == slot:
            del ones[once]
            count += 1
        if count > _MOST_SMALL and counts.itemsize == 1:
            counts = array("I", counts)
        if is_often:
            counts[at] = count
        elif count == 1:
            ones.insert(once, slot)
        else:
            slots.insert(at, slot)
            counts.insert(at, count)
    return _joined(ones, slots, counts)


def unpacked(blob: bytes, metric: str = "") -> Iterable[tuple[int, int]]:
    """(slot, count) of each cell of what `packed` gave, of one metric or of all. 10 ns a cell, and adding it up 80."""
    ones, slots, counts = _split(blob)
    if metric:
        # Both are sorted.
        first = METRICS.index(metric) * SLOTS
        own = slice(bisect_left(slots, first), bisect_left(slots, first + SLOTS))
        ones = ones[bisect_left(ones, first) : bisect_left(ones, first + SLOTS)]
        slots, counts = slots[own], counts[own]
    return chain(zip(ones, repeat(1)), zip(slots, counts, strict=True))


def _joined(ones: "array[int]", slots: "array[int]", counts: "array[int]") -> bytes:
    head = array("H", [len(ones) << 1 | (counts.itemsize > 1)])
    return b"".join(map(as_bytes, (head, ones, slots, counts)))


def _split(blob: bytes) -> tuple["array[int]", "array[int]", "array[int]"]:
    """Slots that were met once; those that were met more often, and the counts of these."""
    (head,) = numbers_in("H", blob[:2])
    middle, width = 2 + (head >> 1) * 2, "I" if head & 1 else "B"
    slots_end = middle + (len(blob) - middle) // (2 + (4 if head & 1 else 1)) * 2
    return numbers_in("H", blob[2:middle]), numbers_in("H", blob[middle:slots_end]), numbers_in(width, blob[slots_end:])


def summary(cells: Mapping[int, int], metric: str) -> Summary:
    """What a histogram says of a metric. A percentile is the value of nearest rank: p75 of 4 values is the third."""
    number = METRICS.index(metric)
    first, edges = number * SLOTS, _EDGES[number]
    slots = sorted(slot for slot in cells if first <= slot < first + SLOTS)
    # How many values there are up to the end of each cell.
    reached = list(accumulate(map(cells.__getitem__, slots), initial=0))
    samples = reached[-1]
    ranks = [-(-percent * samples // 100) for percent in PERCENTILES if samples]
    found = [_value(edges, slots[bisect_left(reached, rank) - 1] - first) / _UNITS[metric] for rank in ranks]
    good, tolerable = (reached[bisect_right(slots, first + cell)] for cell in _RATED[number])
    percentiles = tuple(found) if samples else (None,) * len(PERCENTILES)
    return Summary(samples, percentiles, good, tolerable - good, samples - tolerable)


def _value(edges: Sequence[float], cell: int) -> float:
    """A value as near as can be to all that a cell may hold."""
    if cell == 0:
        return 0.0
    low, high = edges[cell - 1], edges[cell]
    return float(f"{2 * low * high / (low + high):.4g}")
