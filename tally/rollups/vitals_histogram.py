"""What is left of web vitals whose events have expired: the table `web_vitals_histogram`.

Retention adds events to the histograms of their day in the transaction that deletes them, so an event is in one
place at any time: a row, a column, or a histogram. A row of the table has a histogram by device, or by pathname: how
often each metric had each value, rounded to RELATIVE_ERROR, with each label. EVENTS stands for a metric that all
web vitals have. The columns of a row are encoded as those of stored days (tally/columns/format.py).

Values are rounded to one of each cell, whose edges grow by _GROWTH. The published thresholds are edges too, and a cell
includes its upper edge, so the shares of good and poor are exact. Values below 1 ms, or 0.001 of cls, become 0.
"""

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from struct import error as StructError
from typing import Any, NamedTuple

import numpy as np

from tally.columns.format import Array, Column, decoded, encoded
from tally.events.dimensions import field_number
from tally.events.validation import MAX_OF_METRIC, MEASURES, METRICS, PAGE_METRICS
from tally.rollups.web_vitals import UNITS, limits_of
from tally.storage.bulk_insert import COLUMNS
from tally.storage.database import damaged
from tally.timestamps import DAY_MS

FIELDS = ("device", "pathname")
"""The fields that have histograms."""
EVENTS = len(MEASURES)
# What stands for an event of each kind: web vitals have any metric, a leave has all of its own.
_KINDS = EVENTS, MEASURES.index(PAGE_METRICS[0])
# 370 cells for each metric reach from a millisecond to an hour.
_GROWTH = 1.039
_COLUMNS = ("label", "metric", "value", "count")


def _cells(metric: str) -> tuple[Array, Array]:
    """Return the greatest value of each cell, and the value with the smallest relative error for all of the cell."""
    edges, last = [999.0], MAX_OF_METRIC[metric] * UNITS[metric]
    while edges[-1] * _GROWTH < last:
        edges.append(edges[-1] * _GROWTH)
    ends = np.unique(np.array([*map(int, edges), int(last), *limits_of(metric)]))
    least = ends[:-1] + 1
    middles = np.rint(2 * least * (ends[1:] / (least + ends[1:])))
    return ends, np.array([0, *middles], np.int64)


_CELLS = tuple(map(_cells, MEASURES))


class Histogram(NamedTuple):
    """How often (`counts`) a metric had a value on a day, with a label; metrics by number."""

    labels: Column
    metrics: Array
    values: Array
    counts: Array


def rounded(metric: int, values: Array) -> Array:
    """Return values as histograms have them."""
    ends, middles = _CELLS[metric]
    values_of_bins: Array = middles.take(np.searchsorted(ends, values))
    return values_of_bins


def add(connection: sqlite3.Connection, website: int, day: int, column: Callable[[str], Array]) -> None:
    """Add events of a day to its histograms, in the transaction that deletes them.

    `column` returns their columns, -1 for a metric that was not sent.
    """
    measured = [column(name) for name in MEASURES]
    if np.max(measured) < 0:
        return
    is_event = np.max(measured[: len(METRICS)], axis=0) >= 0
    for field in FIELDS:
        labels = column(field)
        parts = [_rows(labels[is_event], EVENTS, np.zeros(is_event.sum(), np.int64))]
        for metric, values in enumerate(measured):
            parts.append(_rows(labels[values >= 0], metric, rounded(metric, values[values >= 0])))
        for _, known in histograms(connection, website, field, day, day + 1):
            parts.append(np.array([known.labels.rows, known.metrics, known.values, known.counts]))
        *places, counts = np.concatenate(parts, axis=1)
        cells, place = np.unique(np.array(places), axis=1, return_inverse=True)
        sums = np.zeros(cells.shape[1], np.int64)
        np.add.at(sums, place, counts)
        contents = (
            encoded(codes, False, name == "label", 1.0) for name, codes in zip(_COLUMNS, (*cells, sums), strict=True)
        )
        connection.execute(
            "/* vitals_histogram.put */ insert or replace into web_vitals_histogram"
            f" (website, day, field, events, {', '.join(_COLUMNS)}) values (?, ?, ?, ?, ?, ?, ?, ?)",
            (website, day, field_number(field), int(sums[np.isin(cells[1], _KINDS)].sum()), *contents),
        )


def _rows(labels: Array, metric: int, values: Array) -> Array:
    return np.array([labels, np.full(len(labels), metric), values, np.ones(len(labels), np.int64)])


def add_rows(connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Add rows of table web_vitals of a website, in the transaction that deletes them."""
    table = np.array([[-1 if value is None else value for value in row] for row in rows])
    columns = dict(zip(COLUMNS["web_vitals"], table.T, strict=True))
    days = columns["ts"] // DAY_MS
    for day in np.unique(days).tolist():
        day_columns = {name: column[days == day] for name, column in columns.items()}
        add(connection, rows[0][0], day, day_columns.__getitem__)


# --- reading


def days(connection: sqlite3.Connection, website: int, first: int, last: int) -> list[tuple[int, int]]:
    """Return the days from `first` to `last` that have histograms, and the number of their events, which only grows."""
    return connection.execute(
        "/* vitals_histogram.days */ select day, max(events) from web_vitals_histogram where website = ?"
        " and day >= ? and day <= ? group by day order by day",
        (website, first, last),
    ).fetchall()


def histograms(
    connection: sqlite3.Connection, website: int, field: str, first: int, end: int
) -> Iterator[tuple[int, Histogram]]:
    """Yield the days in [first, end) that have a histogram by a field, and the histogram."""
    rows = connection.execute(
        f"/* vitals_histogram.found */ select day, {', '.join(_COLUMNS)} from web_vitals_histogram"
        " where website = ? and day >= ? and day < ? and field = ? order by day",
        (website, first, end, field_number(field)),
    )
    for day, *contents in rows:
        try:
            labels, *others = map(decoded, contents)
        except (zlib.error, ValueError, StructError, IndexError) as failure:
            raise damaged(f"the histogram of day {day} of website {website} is damaged: {failure}") from None
        yield day, Histogram(labels, *(column.codes for column in others))


def is_correct(connection: sqlite3.Connection, website: int, day: int) -> bool:
    """Return whether the histograms of a day can be read and have the same values."""
    (expected,) = (events for _, events in days(connection, website, day, day))
    sums = []
    try:
        for field in FIELDS:
            for _, histogram in histograms(connection, website, field, day, day + 1):
                keys, places = np.unique(histogram.metrics << 32 | histogram.values, return_inverse=True)
                counts = np.bincount(places, histogram.counts)
                sums.append(
                    (keys.tolist(), counts.tolist(), int(histogram.counts[np.isin(histogram.metrics, _KINDS)].sum()))
                )
    except (sqlite3.DatabaseError, ValueError, IndexError) as failure:
        if getattr(failure, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) != sqlite3.SQLITE_CORRUPT:
            raise
        return False
    return sums == [(*sums[0][:2], expected)] * len(FIELDS) if sums else False
