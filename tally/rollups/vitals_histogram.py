"""Histograms of web vitals: values to cells, cells to percentiles and ratings. Pure functions without a database.

A histogram counts values in cells whose edges grow by the factor GROWTH, so a percentile read from it is within
RELATIVE_ERROR of the exact one. Histograms over any days, pages and devices are summed by adding their cells. The
published thresholds are edges too, and a cell includes its upper edge, so the shares of good and poor are exact.

One histogram (`Cells`: slot -> count) has all five metrics and the number of events (EVENTS). A slot is the number of a
metric times SLOTS plus a cell. `packed` encodes it: the slots with count 1, the other slots, each in 16 bits, and the
counts of these in 8 bits, or in 32 where one is greater. An event with all five metrics takes 14 bytes if it shares no
cell.

Values below the first edge, 1 ms or 0.001 of cls, are reported as 0.

Stored values are integers: microseconds, and millionths of cls. Browsers report times in steps of 100 µs at the
finest; an integer of 8 digits takes 3 bytes where a float takes 8.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, repeat

from tally.engine.values import THRESHOLDS, Summary
from tally.engine.values import VITALS_PERCENTILES as PERCENTILES
from tally.events.validation import MAX_OF_METRIC, METRICS
from tally.rollups.int_arrays import as_bytes, numbers_in

# Half of this error would double the cells; 370 cells for each metric reach from a millisecond to an hour.
RELATIVE_ERROR = 0.02
GROWTH = 1.039
SLOTS = 400
EVENTS = SLOTS * len(METRICS)
"""The slot that counts events with any metric."""
UNITS = {"lcp": 1_000, "inp": 1_000, "fcp": 1_000, "ttfb": 1_000, "cls": 1_000_000}
"""Factor from the unit of the API to the stored one."""

_MAX_SMALL = 255

Cells = dict[int, int]
"""slot -> number of values."""


def stored(values: Sequence[float | None]) -> tuple[int | None, ...]:
    """Return metrics in stored units, in the order of METRICS, None where not sent. `values` is empty if none was."""
    return tuple(
        None if value is None else round(value * unit)
        for value, unit in zip(values or (None,) * len(METRICS), UNITS.values(), strict=True)
    )


def from_stored(values: Sequence[int | None]) -> dict[str, float]:
    """Return stored metrics in the units of the API: those that were sent, by name."""
    return {name: value / unit for (name, unit), value in zip(UNITS.items(), values, strict=True) if value is not None}


def _edges(metric: str) -> tuple[float, ...]:
    # Stored values are integers: the first edge is the greatest value below 1 ms, or 0.001 of cls.
    first, last = 999.0, MAX_OF_METRIC[metric] * UNITS[metric]
    edges = [first]
    while edges[-1] * GROWTH < last:
        edges.append(edges[-1] * GROWTH)
    return tuple(sorted({*edges, last, *(threshold * UNITS[metric] for threshold in THRESHOLDS[metric])}))


EDGES = tuple(_edges(metric) for metric in METRICS)
"""The upper edges of the cells of each metric, in stored units."""
assert max(map(len, EDGES)) <= SLOTS
# The last cell that is good, and the last that is not poor.
_RATED = tuple(
    tuple(edges.index(threshold * UNITS[metric]) for threshold in THRESHOLDS[metric])
    for metric, edges in zip(METRICS, EDGES, strict=True)
)


def slots_of(values: Sequence[int | None]) -> list[int]:
    """Return the slot of each metric that was sent, and EVENTS; `values` in stored units. Takes 0.25 µs a metric."""
    slots = [
        number * SLOTS + bisect_left(edges, value)
        for number, (edges, value) in enumerate(zip(EDGES, values, strict=True))
        if value is not None
    ]
    return [*slots, EVENTS]


def slot_of(metric: str, value: int) -> int:
    """Return the slot of a metric's value in stored units."""
    number = METRICS.index(metric)
    return number * SLOTS + bisect_left(EDGES[number], value)


def is_poor(slot: int) -> bool:
    """Return whether the values in a slot are rated poor."""
    metric, cell = divmod(slot, SLOTS)
    return slot != EVENTS and cell > _RATED[metric][1]


def added(cells: Cells, more: Mapping[int, int] | Iterable[tuple[int, int]]) -> None:
    """Add a histogram to `cells`."""
    if not cells:
        cells.update(more)
        return
    known = cells.get
    for slot, count in more.items() if isinstance(more, Mapping) else more:
        cells[slot] = known(slot, 0) + count


def poor_above(metric: str) -> float:
    """Return the threshold above which a stored value is poor."""
    return THRESHOLDS[metric][1] * UNITS[metric]


def packed(cells: Mapping[int, int]) -> bytes:
    """Encode a histogram."""
    ones = array("H", sorted(slot for slot, count in cells.items() if count == 1))
    slots = array("H", sorted(slot for slot, count in cells.items() if count > 1))
    counts = array("B" if max(cells.values(), default=0) <= _MAX_SMALL else "I", [cells[slot] for slot in slots])
    return _joined(ones, slots, counts)


def packed_with(blob: bytes, cells: Mapping[int, int]) -> bytes:
    """Return an encoded histogram with cells added to it. Takes 5 µs plus 0.7 µs for each cell."""
    ones, slots, counts = _split(blob)
    for slot, count in cells.items():
        at, once = bisect_left(slots, slot), bisect_left(ones, slot)
        is_often = at < len(slots) and slots[at] == slot
        if is_often:
            count += counts[at]
        elif once < len(ones) and ones[once] == slot:
            del ones[once]
            count += 1
        if count > _MAX_SMALL and counts.itemsize == 1:
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
    """Decode a histogram: (slot, count) of each cell, of one metric or all. 10 ns a cell, and 80 ns to add it up."""
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
    """Return the slots with count 1, the other slots, and the counts of these."""
    (head,) = numbers_in("H", blob[:2])
    middle, width = 2 + (head >> 1) * 2, "I" if head & 1 else "B"
    slots_end = middle + (len(blob) - middle) // (2 + (4 if head & 1 else 1)) * 2
    return numbers_in("H", blob[2:middle]), numbers_in("H", blob[middle:slots_end]), numbers_in(width, blob[slots_end:])


def summary(cells: Mapping[int, int], metric: str) -> Summary:
    """Return the summary of a metric. Percentiles are of nearest rank: p75 of 4 values is the third."""
    number = METRICS.index(metric)
    first, edges = number * SLOTS, EDGES[number]
    slots = sorted(slot for slot in cells if first <= slot < first + SLOTS)
    # The number of values up to the end of each cell.
    reached = list(accumulate(map(cells.__getitem__, slots), initial=0))
    samples = reached[-1]
    ranks = [-(-percent * samples // 100) for percent in PERCENTILES if samples]
    found = [_value(edges, slots[bisect_left(reached, rank) - 1] - first) / UNITS[metric] for rank in ranks]
    good, tolerable = (reached[bisect_right(slots, first + cell)] for cell in _RATED[number])
    percentiles = tuple(found) if samples else (None,) * len(PERCENTILES)
    return Summary(samples, percentiles, good, tolerable - good, samples - tolerable)


def _value(edges: Sequence[float], cell: int) -> float:
    """Return the value with the smallest relative error for all values of a cell."""
    if cell == 0:
        return 0.0
    low, high = edges[cell - 1], edges[cell]
    return float(f"{2 * low * high / (low + high):.4g}")
