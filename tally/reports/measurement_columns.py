"""Events of web vitals and experiments by column, with filters: of stored days, and of rows.

Stored days (tally/columns/measurement_days.py) are read as they are stored. Rows of web vitals, of days that are not
packed and beside the columns of those that are, are read into the same columns (`RowColumns`). Rows of experiments are
counted by the statements of tally/storage/sql/measurements.py; figures of both are added up.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from tally.columns import statements
from tally.columns.format import Array, Column, Days, encoded, ids_of
from tally.columns.measurements import UNSET
from tally.columns.read import (
    MAX_EVENTS,
    Columns,
    Day,
    JoinedColumns,
    in_batches,
    is_one_of,
    is_wanted,
    numbers_in,
    values_of,
)
from tally.columns.statements import WEB_VITALS
from tally.columns.write import numbers
from tally.engine.values import Place, Scope
from tally.events.dimensions import FIELDS
from tally.events.validation import AB_ASSIGN, AB_CONVERT, LEAVE, VITALS
from tally.reports.cache import ResultCache
from tally.reports.sums import rows_of
from tally.storage.database import check_interrupt
from tally.storage.sql.events import NO_TRAFFIC
from tally.storage.sql.filters import Condition, matching_texts
from tally.timestamps import DAY_MS

# Columns that measurements lack, with the value that they have instead.
_FIXED = {name: 0 for name, value in NO_TRAFFIC.items() if value == "0"}


class MeasurementColumns(JoinedColumns):
    """The columns of the web vitals or the experiment events of some stored days."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        website: int,
        source: int,
        days: Sequence[Day],
        columns: Columns | None = None,
    ) -> None:
        super().__init__(connection, website, days, columns)
        self.source = source

    def _contents(self, name: str) -> list[bytes]:
        known = statements.read(self._connection, self._website, self.source, name, [day.day for day in self.days])
        return [known.get(day.day) or self._unset(name, day.events) for day in self.days]

    @staticmethod
    def _unset(name: str, events: int) -> bytes:
        """Return a column of a day without any value."""
        return encoded(np.full(events, int(UNSET.get(name, 0))), False, name not in UNSET)

    @cached_property
    def events(self) -> int:
        """The number of events."""
        return sum(day.events for day in self.days)

    @cached_property
    def day_of_event(self) -> Array:
        """The position of each event's day among `days`."""
        return np.repeat(np.arange(len(self.days)), [day.events for day in self.days])

    @cached_property
    def times(self) -> Array:
        """The timestamp of each event."""
        steps = self.numbers("ts_step").astype(np.int64)
        begins = np.cumsum([0, *(day.events for day in self.days[:-1])])
        # From the end of one day to the first event of the next: all steps since the first day add up.
        midnights = np.array([day.day * DAY_MS for day in self.days])
        sums = np.cumsum(steps)
        offsets = midnights - (sums.take(begins) - steps.take(begins))
        times: Array = sums + offsets.take(self.day_of_event)
        return times

    def meeting(self, conditions: Iterable[Condition]) -> Array:
        """Return the places of the events that are in their parts of days and meet some conditions."""
        is_matching = np.ones(self.events, bool)
        if self.is_partial:
            from_ms, to_ms = np.array([(day.from_ms, day.to_ms) for day in self.days]).T
            is_matching = (self.times >= from_ms.take(self.day_of_event)) & (self.times < to_ms.take(self.day_of_event))
        for condition in conditions:
            if condition.of is not None:
                # No measurement has event_data.
                is_matching &= bool(numbers_in(self._connection, matching_texts(condition.of, "[null]")))
            elif condition.column == "type" and self.source == WEB_VITALS:
                types = np.where(self.numbers("time_on_page") >= 0, LEAVE, VITALS)
                is_matching &= is_one_of(types, list(condition.labels)) != condition.is_not
            elif condition.column in _FIXED:
                is_matching &= (_FIXED[condition.column] in condition.labels) != condition.is_not
            else:
                is_matching &= is_wanted(self.wanted(condition), self.column(condition.column).codes)
        return np.flatnonzero(is_matching)


class RowColumns(MeasurementColumns):
    """The same of the rows of some days. Between these no other day has rows."""

    def _read(self, name: str) -> Days:
        begin_ms, end_ms = self.days[0].day * DAY_MS, (self.days[-1].day + 1) * DAY_MS
        # In parts, as texts take several times the space of an array.
        step_ms = (end_ms - begin_ms) // (1 + self.events // MAX_EVENTS) + 1
        parts = [
            numbers(
                self._connection,
                statements.measurement_column(self._website, self.source, ms, min(ms + step_ms, end_ms), name),
            )
            for ms in range(begin_ms, end_ms, step_ms)
        ]
        if name not in FIELDS:
            return Days.of([Column(np.concatenate(parts), None, False)])
        values, codes = np.unique(np.concatenate(parts), return_inverse=True)
        return Days.of([Column(codes, values, False)])

    @property
    def times(self) -> Array:
        """The timestamp of each event."""
        return self.numbers("ts")


class MeasurementFigures:
    """Some stored days of a website, or parts of days, in a scope. days: (day, events) in order; conditions: the
    scope's filters."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        scope: Scope,
        source: int,
        days: Iterable[tuple[int, int]],
        conditions: Sequence[Condition],
        cache: ResultCache,
    ) -> None:
        self._connection, self._website, self._source, self._cache = connection, scope.website, source, cache
        self._days = [
            Day(day, 0, events, max(day * DAY_MS, scope.from_ms), min((day + 1) * DAY_MS, scope.to_ms))
            for day, events in days
        ]
        self._conditions = conditions

    def _batches(self) -> Iterator[tuple[MeasurementColumns, Array]]:
        """Yield the columns of some days, and the places of the events that match."""
        for days in in_batches(self._days):
            check_interrupt()
            with self._cache.turn():
                columns = MeasurementColumns(self._connection, self._website, self._source, days)
                yield columns, columns.meeting(self._conditions)

    # --- experiments

    def trials(self) -> Iterator[tuple[int, ...]]:
        """Yield the rows of sql.trials_of: of a batch of days, 100 bytes of memory an event. The days have no rows
        beside their columns."""
        for columns, which in self._batches():
            experiment, variant, goal, visitor, kind = map(
                columns.column, ("experiment", "variant", "goal", "visitor", "type")
            )
            is_kind = {type_: is_wanted(values_of(kind) == type_, kind.codes) for type_ in (AB_ASSIGN, AB_CONVERT)}
            # Of a visitor and an experiment; the codes of a day are its own.
            keys = _pair(visitor.codes, experiment)
            is_named = (values_of(experiment) > 0).take(experiment.codes) & (values_of(variant) > 0).take(variant.codes)
            assigned = np.flatnonzero(is_kind[AB_ASSIGN] & is_named)
            known, first = np.unique(keys.take(assigned), return_index=True)
            # Those with an assignment that matches, with the row of the first one of the day, by ts and id.
            members = np.unique(keys.take(np.intersect1d(assigned, which, assume_unique=True)))
            rows = assigned.take(first).take(np.searchsorted(known, members))
            arms = _pair(experiment.codes.take(rows), variant, variant.codes.take(rows))
            done = columns.meeting([])
            done = done.compress(is_kind[AB_CONVERT].take(done))
            places = np.searchsorted(members, keys.take(done))
            is_member = np.append(members, -1).take(places) == keys.take(done)
            reached = np.unique(_pair(places, goal, goal.codes.take(done)).compress(is_member))
            member, goal_codes = np.divmod(reached, len(values_of(goal)))
            for converted, of_rows, groups, goals in (
                (0, rows, arms, np.zeros(len(rows), np.int64)),
                (1, rows.take(member), _pair(arms.take(member), goal, goal_codes), values_of(goal).take(goal_codes)),
            ):
                _, indices, visitors = np.unique(groups, return_index=True, return_counts=True)
                first_rows = of_rows.take(indices)
                days = np.array([day.day for day in columns.days]).take(columns.day_of_event.take(first_rows))
                names = (values_of(column).take(column.codes.take(first_rows)) for column in (experiment, variant))
                yield from rows_of(
                    np.array([days, *names, np.full(len(first_rows), converted), goals.take(indices), visitors])
                )

    # --- the list of events

    def newest(self, limit: int, before: Place) -> Array:
        """Return the places of the newest matching events before a place in the list of events, up to a limit.

        For one day: places are those among its rows.
        """
        ((columns, which),) = self._batches()
        if not len(which):
            return which
        times = columns.times.take(which)
        ids = ids_of(columns.times, columns.numbers("first_id"), columns.numbers("id_step")).take(which)
        is_before = (times < before.ts) | ((times == before.ts) & (ids < before.id))
        newest: Array = which.compress(is_before & (ids <= before.last_id))[-limit:] if limit else which[:0]
        return newest


def _pair(numbers: Array, column: Column, codes: Array | None = None) -> Array:
    """Return a number for each pair of a number and a code of a column."""
    return numbers.astype(np.int64) * len(values_of(column)) + (column.codes if codes is None else codes)
