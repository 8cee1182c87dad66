"""What page views measured when they were left, by a field: time on page, and how far they were scrolled.

The median of the seconds and the share of the views that reached 75 percent are exact: how often each value occurs adds
up over days (`VitalValues.counts`), in a few hundred pairs of a label and a value for each label. Days whose events
have expired have rounded seconds, as web vitals have.

A leave is stored with the dimensions of its page view, but it belongs to no visit. Where a filter is about the visit,
such as its channel, or about events, there are no figures.
"""

import sqlite3
from typing import TYPE_CHECKING

from tally.engine.values import BeyondRetention, Leaves, Scope
from tally.events.dimensions import EVENT_FIELDS
from tally.reports.cache import ResultCache
from tally.reports.sums import Sums
from tally.rollups.web_vitals import REACHED

if TYPE_CHECKING:
    from tally.columns.format import Array
    from tally.reports.vital_values import VitalValues


def by_label(connection: sqlite3.Connection, scope: Scope, field: str, cache: ResultCache) -> Sums | None:
    """Return the figures of Leaves by label, None where the scope has none."""
    if not {filter_.field for filter_ in scope.filters}.issubset(EVENT_FIELDS):
        return None
    from tally.reports.vital_values import VitalValues

    try:
        values = VitalValues(connection, scope, field, cache)
    except BeyondRetention:
        return None
    import numpy as np

    figures = Sums(len(Leaves._fields))
    labels, samples, medians = _medians(values, field)
    if len(labels):
        _, depths, counts, begins = _by_label(values, field, "scroll_depth")
        figures.add(np.array([labels, samples, medians, np.add.reduceat(counts * (depths > REACHED), begins)]))
    return figures


def _medians(values: "VitalValues", field: str) -> "tuple[Array, Array, Array]":
    """Return the labels, the number of their views, and the median of these in ms, by nearest rank."""
    import numpy as np

    labels, times, counts, begins = _by_label(values, field, "time_on_page")
    if not len(labels):
        return labels, labels, labels
    samples, ends = np.add.reduceat(counts, begins), np.cumsum(counts)
    places = np.searchsorted(ends, ends.take(begins) - counts.take(begins) + (samples + 1) // 2)
    return labels.take(begins), samples, times.take(places)


def _by_label(values: "VitalValues", field: str, metric: str) -> "tuple[Array, Array, Array, Array]":
    """Return the label, the value and the number of each pair, and where the pairs of each label begin."""
    import numpy as np

    from tally.reports.vital_values import VALUE_BITS

    keys, counts = values.counts(field, metric).counts
    labels = keys >> VALUE_BITS
    return labels, keys & (1 << VALUE_BITS) - 1, counts, np.flatnonzero(np.diff(labels, prepend=-1))
