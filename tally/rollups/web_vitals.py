"""Stored web vitals, and what is measured when a page is left: units, limits of ratings. Pure, without a database.

Stored values are integers: microseconds, and millionths of cls; milliseconds on a page, and thousandths of a percent of
its depth. Browsers report times in steps of 100 µs at the finest; an integer of 8 digits takes 3 bytes where a float
takes 8.
"""

from collections.abc import Sequence

from tally.engine.values import THRESHOLDS
from tally.events.validation import MEASURES

UNITS = dict.fromkeys(MEASURES, 1_000) | {"cls": 1_000_000}
"""Factor from the unit of the API to the stored one."""
REACHED = 74_999
"""A stored depth above this has reached 75 percent of the page."""
_LIMITS = {"time_on_page": (10_000, 60_000), "scroll_depth": (REACHED, REACHED)}
RELATIVE_ERROR = 0.02
"""Of percentiles over days whose events have expired (tally/rollups/vitals_histogram.py)."""


def stored(values: Sequence[float | None]) -> tuple[int | None, ...]:
    """Return metrics in stored units, in the order of MEASURES, None where not sent. `values` is empty if none was."""
    return tuple(
        None if value is None else round(value * unit)
        for value, unit in zip(values or (None,) * len(MEASURES), UNITS.values(), strict=True)
    )


def from_stored(values: Sequence[int | None]) -> dict[str, float]:
    """Return stored metrics in the units of the API: those that were sent, by name."""
    return {name: value / unit for (name, unit), value in zip(UNITS.items(), values, strict=True) if value is not None}


def limits_of(metric: str) -> tuple[int, int]:
    """Return the greatest stored value that is good, and the greatest that is not poor. Shares of both stay exact."""
    if metric in _LIMITS:
        return _LIMITS[metric]
    good, tolerable = (round(threshold * UNITS[metric]) for threshold in THRESHOLDS[metric])
    return good, tolerable
