"""The values of web vitals in a scope, by group: all of them, or those of some labels of a field, or of some days.

They are read into arrays, a metric after another: of stored days from columns, of other days from rows
(tally/reports/measurement_columns.py), and where events have expired, the rounded values that are left
(tally/rollups/vitals_histogram.py). Columns are read in batches of days; of these, the values that match the filters
are kept, 4 bytes each, or 8 with the number of a group.

Stored days and expired days rarely change. What figures need of their values is cached under the checksums of their
columns (tally/reports/ordered_values.py), so that a repeated query reads only what is left: rows, whose columns are
kept in memory while no other row arrives, and the days in which the range begins and ends.
"""

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from tally.columns import measurement_days
from tally.columns.format import Array, Column
from tally.columns.read import Columns, Day, in_batches, is_one_of, values_of
from tally.columns.statements import WEB_VITALS
from tally.engine.values import BeyondRetention, Scope, Summary
from tally.events.validation import MEASURES, METRICS
from tally.reports.cache import ResultCache
from tally.reports.coverage import conditions_in
from tally.reports.measurement_columns import MeasurementColumns, RowColumns
from tally.reports.ordered_values import Ordered, by_group, ordered, summary
from tally.reports.sums import Sums
from tally.rollups import vitals_histogram
from tally.rollups.vitals_histogram import EVENTS, Histogram
from tally.rollups.web_vitals import RELATIVE_ERROR, limits_of
from tally.storage.database import check_interrupt
from tally.storage.meta import row_changes
from tally.storage.sql.events import last_kept
from tally.timestamps import DAY_MS

DAY = "day"
VALUE_BITS = 21
"""Of the greatest time_on_page, and more than those of scroll_depth."""
# Windows of 3 percentiles of 5 metrics take 120 KB.
_MARGIN = 1_000


class Groups(NamedTuple):
    """The groups of values: by a field, by DAY, or "" for one group; the labels or days, in ascending order."""

    by: str
    wanted: Sequence[int]

    @property
    def margin(self) -> int:
        """Return how many values may arrive until what is cached of a group is of no use."""
        # Events of past days are rare.
        return 1 if self.by == DAY else 1 + _MARGIN // len(self.wanted)

    def places(self, column: Column) -> Array:
        """Return the number of the group for each row of a column with labels or days, -1 for none."""
        wanted, values = np.array(self.wanted), values_of(column)
        places = wanted.searchsorted(values)
        group_places: Array = np.where(wanted.take(places, mode="clip") == values, places, -1).take(column.codes)
        return group_places

    def keys(self, column: Column, values: Array) -> Array:
        """Return what tally/reports/ordered_values.py `by_group` takes, for values of the rows of a column."""
        if not self.by:
            return values.astype(np.uint32)
        places = self.places(column)
        keys: Array = (places << 32 | values).compress(places >= 0)
        return keys


ALL = Groups("", [0])


class _Cached(list[Ordered]):
    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self)


class VitalValues:
    """The web vitals of a scope, for figures by a field, or by DAY, or of all ("").

    Raises BeyondRetention where events that it needs have expired: those of a part of a day, or to decide filters.
    """

    def __init__(self, connection: sqlite3.Connection, scope: Scope, by: str, cache: ResultCache) -> None:
        self._connection, self._scope, self._cache = connection, scope, cache
        self._website = scope.website
        self._conditions = conditions_in(connection, scope)
        first, last = scope.from_ms // DAY_MS, (scope.to_ms - 1) // DAY_MS
        self._expired = vitals_histogram.days(connection, scope.website, first, last)
        self._field = self._field_of(by)
        packed = measurement_days.versions(connection, scope.website, WEB_VITALS, first, last)
        self._checksums = {day: checksum for day, _, checksum in packed}
        rows = measurement_days.rows_of_vitals(connection, scope.website, first, last)
        self._rows = [self._part(*row) for row in rows]
        apart = {day for day in (first, last) if not self._part(day, 0, 0).is_whole}
        self._complete = [version for version in packed if version[0] not in apart]
        self._others = [self._part(*version) for version in packed if version[0] in apart]
        versions = array("q", chain.from_iterable((*self._complete, (-1,), *self._expired))).tobytes()
        self._key = "vitals", scope.website, scope.filters, versions
        # Which events match, as bits, of each batch of complete days.
        self._matching: dict[int, Array] = {}

    def _part(self, day: int, events: int, version: int) -> Day:
        begin_ms = day * DAY_MS
        from_ms, to_ms = max(begin_ms, self._scope.from_ms), min(begin_ms + DAY_MS, self._scope.to_ms)
        return Day(day, 0, events, from_ms, to_ms, version=version)

    def _field_of(self, by: str) -> str:
        """Return the field by which expired days are read."""
        scope = self._scope
        row = self._connection.execute(*last_kept(scope.website)).fetchone()
        end_ms = (1 + max([-1 if row is None else row[0], *(day for day, _ in self._expired[-1:])])) * DAY_MS
        fields = {condition.column for condition in self._conditions}.union({by} - {"", DAY}) or {
            vitals_histogram.FIELDS[0]
        }
        is_kept = len(fields) == 1 and fields.issubset(vitals_histogram.FIELDS)
        is_whole = scope.from_ms % DAY_MS == min(scope.to_ms, end_ms) % DAY_MS == 0
        if scope.from_ms < end_ms and not (is_kept and is_whole):
            raise BeyondRetention(end_ms)
        return fields.pop()

    # --- figures

    def summaries(self, metric: str, groups: Groups) -> list[Summary]:
        """Return the figures of a metric in each group."""
        more = self._values(self._changing(), metric, groups)
        key = (*self._key, groups, metric)
        known = self._cache.kept_days.get(key)
        summaries = None if known is None else self._found(known, more, metric)
        if summaries is None:
            values = self._values(self._settled(), metric, groups, self._kept(metric, groups))
            known = _Cached(
                ordered(group_values, beside, metric, groups.margin)
                for group_values, beside in zip(values, more, strict=True)
            )
            self._cache.kept_days.put(key, known)
            summaries = self._found(known, more, metric)
        if summaries is None:
            raise ValueError("values around a percentile are missing")
        return summaries

    def _found(self, known: _Cached, more: Sequence[Array], metric: str) -> list[Summary] | None:
        error = RELATIVE_ERROR if self._expired else 0.0
        summaries = [
            summary(group_values, beside, metric, error) for group_values, beside in zip(known, more, strict=True)
        ]
        return [value for value in summaries if value is not None] if None not in summaries else None

    def ranks(self, field: str, metric: str) -> Sums:
        """Return by label how many values of a metric are poor, and the events with any metric."""
        return self._sums(2, field, metric, _ranks, _kept_ranks)

    def counts(self, field: str, metric: str) -> Sums:
        """Return how often each value of a metric below 1 << VALUE_BITS occurs, by `label << VALUE_BITS | value`."""
        return self._sums(1, field, metric, _counts, _kept_counts)

    def _sums(
        self,
        numbers: int,
        field: str,
        metric: str,
        of_events: Callable[[MeasurementColumns, Array, str, str], Array],
        of_histogram: Callable[[Histogram, Array, str], Array],
    ) -> Sums:
        """Return sums of so many numbers over days with events and over those whose events have expired."""

        def add_settled(sums: Sums) -> None:
            for columns, which in self._settled():
                sums.add(of_events(columns, which, field, metric))
            for _, known, labels in self._histograms():
                sums.add(of_histogram(known, labels, metric))

        sums = Sums(numbers)
        sums.add_cached(self._cache, (*self._key, of_events.__name__, field, metric), add_settled)
        for columns, which in self._changing():
            sums.add(of_events(columns, which, field, metric))
        return sums

    # --- values

    def _values(
        self,
        batches: Iterator[tuple[MeasurementColumns, Array]],
        metric: str,
        groups: Groups,
        others: Iterable[Array] = (),
    ) -> Sequence[Array]:
        """Return the values of a metric in each group, in ascending order."""
        parts = [np.empty(0, np.int64 if groups.by else np.uint32)]
        for columns, which in batches:
            values = _taken(columns.numbers(metric), which)
            has_value = values >= 0
            values = values.compress(has_value)
            if not groups.by:
                parts.append(values.astype(np.uint32))
                continue
            if groups.by == DAY:
                column = Column(columns.day_of_event, np.array([day.day for day in columns.days]), False)
            else:
                column = columns.column(groups.by)
            codes = _taken(column.codes, which).compress(has_value)
            parts.append(groups.keys(column._replace(codes=codes), values))
        parts += others
        return by_group(np.concatenate(parts), len(groups.wanted))

    def _kept(self, metric: str, groups: Groups) -> Iterator[Array]:
        """Yield the same of the days whose events have expired."""
        for day, known, labels in self._histograms():
            of_metric = known.metrics == MEASURES.index(metric)
            values, counts = known.values.compress(of_metric), known.counts.compress(of_metric)
            groups_of = np.full_like(values, day) if groups.by == DAY else labels.compress(of_metric)
            codes = np.arange(len(values)).repeat(counts)
            yield groups.keys(Column(codes, groups_of, False), values.repeat(counts))

    def _histograms(self) -> Iterator[tuple[int, Histogram, Array]]:
        """Yield the days whose events have expired, what is left of those that match the filters, and the labels."""
        if not self._expired:
            return
        first, end = self._expired[0][0], self._expired[-1][0] + 1
        for day, known in vitals_histogram.histograms(self._connection, self._website, self._field, first, end):
            labels = values_of(known.labels).take(known.labels.codes)
            is_matching = np.ones(len(labels), bool)
            for condition in self._conditions:
                is_matching &= is_one_of(labels, list(condition.labels)) != condition.is_not
            yield (
                day,
                Histogram(known.labels, *(column.compress(is_matching) for column in known[1:])),
                labels.compress(is_matching),
            )

    def _settled(self) -> Iterator[tuple[MeasurementColumns, Array]]:
        """Yield the columns of stored days, and the places of the events that match."""
        for number, days in enumerate(in_batches(self._part(*version) for version in self._complete)):
            check_interrupt()
            with self._cache.turn():
                columns = MeasurementColumns(self._connection, self._website, WEB_VITALS, days)
                if number not in self._matching:
                    is_matching = np.zeros(columns.events, bool)
                    is_matching[columns.meeting(self._conditions)] = True
                    self._matching[number] = np.packbits(is_matching)
                yield columns, np.flatnonzero(np.unpackbits(self._matching[number], count=columns.events))

    def _changing(self) -> Iterator[tuple[MeasurementColumns, Array]]:
        """Yield the same of rows and of parts of stored days, whose columns are kept in memory."""
        changes = row_changes(self._connection)
        # The newest day by itself: others rarely get events.
        rows = [(RowColumns, days) for days in (*in_batches(self._rows[:-1]), self._rows[-1:]) if days]
        for kind, days in (*rows, *((MeasurementColumns, [day]) for day in self._others)):
            check_interrupt()
            with self._cache.turn():
                versions = [(day.day, day.events, day.version, self._checksums.get(day.day)) for day in days]
                key = "columns of vitals", self._website, kind.__name__, versions, changes
                known = self._cache.kept_days.get(key) or Columns()
                columns = kind(self._connection, self._website, WEB_VITALS, days, known)
                yield columns, columns.meeting(self._conditions)
                self._cache.kept_days.put(key, known)


def _taken(column: Array, which: Array) -> Array:
    """Return a column of the events at some places, in order; mostly of all events."""
    return column if len(which) == len(column) else column.take(which)


def _counts(columns: MeasurementColumns, which: Array, field: str, metric: str) -> Array:
    """Return (label << VALUE_BITS | value, number) of some events."""
    values = _taken(columns.numbers(metric), which).astype(np.int64)
    column = columns.column(field)
    labels = values_of(column).take(_taken(column.codes, which)).astype(np.int64)
    keys, counts = np.unique((labels << VALUE_BITS | values).compress(values >= 0), return_counts=True)
    return np.array([keys, counts])


def _kept_counts(known: Histogram, labels: Array, metric: str) -> Array:
    """Return the same of a histogram and the labels of its values."""
    of_metric = known.metrics == MEASURES.index(metric)
    return np.array([labels << VALUE_BITS | known.values, known.counts]).compress(of_metric, axis=1)


def _kept_ranks(known: Histogram, labels: Array, metric: str) -> Array:
    """Return what `_ranks` returns, of a histogram and the labels of its values."""
    poor = (known.metrics == MEASURES.index(metric)) & (known.values > limits_of(metric)[1])
    return np.array([labels, known.counts * poor, known.counts * (known.metrics == EVENTS)])


def _ranks(columns: MeasurementColumns, which: Array, field: str, metric: str) -> Array:
    """Return (label, poor values of a metric, events with any metric) of some events."""
    is_measured = np.zeros(len(which), bool)
    for name in METRICS:
        is_measured |= _taken(columns.numbers(name), which) >= 0
        if is_measured.all():
            break
    which = which.compress(is_measured)
    column = columns.column(field)
    codes, end = _taken(column.codes, which), len(values_of(column))
    is_poor = _taken(columns.numbers(metric), which) > limits_of(metric)[1]
    counts = np.bincount(codes.compress(is_poor), minlength=end), np.bincount(codes, minlength=end)
    ranks = np.array([values_of(column), *counts])
    return ranks.compress(counts[1] > 0, axis=1)
