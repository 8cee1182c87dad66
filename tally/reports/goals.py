"""Conversions: the events of E that match a goal, the visitors who converted, and the sum of the conversions' values.

The conditions of a goal are filters, which the caller adds to those of the scope, so a conversion is an event of the
scope. Without other filters, days that are stored are read from there (tally/rollups/goal_days.py). Other days are
counted by column: counts of complete days are cached, as other filtered figures are (tally/reports/coverage.py).
"""

import sqlite3
from array import array
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tally.engine.values import Conversions, Goal, GoalFigures, Scope, Span
from tally.reports import stats
from tally.reports.cache import ResultCache, packed, unpacked
from tally.reports.coverage import Coverage, coverage_of, days_of, plan_of
from tally.reports.sums import Sums, rows_of
from tally.rollups import goal_days
from tally.rollups.goal_days import PART
from tally.rollups.rollup_state import FINAL
from tally.timestamps import DAY_MS

if TYPE_CHECKING:
    from tally.reports.day_columns import DayColumns

_COLUMNS = len(goal_days.COLUMNS)


def report(connection: sqlite3.Connection, scope: Scope, goals: Sequence[Goal], cache: ResultCache) -> GoalFigures:
    """Return the visitors of E and the conversions of each of some goals."""
    visitors = stats.stats(connection, scope, cache).visitors
    return GoalFigures(visitors, [total(connection, scope, goal, cache) for goal in goals])


def total(connection: sqlite3.Connection, scope: Scope, goal: Goal, cache: ResultCache) -> Conversions:
    """Return the conversions in E."""
    sums = _sums(connection, scope, goal, cache)
    return next((_conversions(figures) for _, *figures in sums), Conversions())


def by_label(
    connection: sqlite3.Connection, scope: Scope, goal: Goal, field: str, labels: Sequence[int], cache: ResultCache
) -> list[Conversions]:
    """Return the conversions of each of some values of a field."""
    return of_labels(_sums(connection, scope, goal, cache, field, labels), labels)


def of_all_labels(connection: sqlite3.Connection, scope: Scope, goal: Goal, field: str, cache: ResultCache) -> Sums:
    """Return the sums of the conversions of each value of a field that has any: conversions and visitors come first."""
    return _sums(connection, scope, goal, cache, field)


def of_labels(sums: Sums, labels: Sequence[int]) -> list[Conversions]:
    """Return the conversions of some labels."""
    figures = sums.of(labels)
    return [_conversions(figures[label]) if label in figures else Conversions() for label in labels]


def by_bucket(
    connection: sqlite3.Connection, scope: Scope, goal: Goal, edges: Sequence[Span], cache: ResultCache
) -> list[Conversions]:
    """Return the conversions of each bucket; the buckets tile the scope's range."""
    coverage, stored = _coverage(connection, scope, goal, cache)
    whole = {day: parts[0][0] for day in stored if len(parts := stats.clipped(edges, _span(day))) == 1}
    figures_of_buckets = [[0] * _COLUMNS for _ in edges]
    for day, *figures in _stored(coverage, goal, whole, cache, by="day"):
        _add(figures_of_buckets[whole[day]], figures)
    days = list(_days(_without(coverage, whole)))
    for columns in coverage.columns(days, filtered=True, with_data=goal.value is not None):
        for n, *figures in _series(columns, edges, goal, cache):
            _add(figures_of_buckets[n], figures)
    return [_conversions(row) for row in figures_of_buckets]


def of_day(connection: sqlite3.Connection, website: int, day: int, goal: Goal, field: str) -> list[Sequence[int]]:
    """Return the rows of goal_day of a final day."""
    sums = Sums(_COLUMNS)
    cache = ResultCache(0)
    coverage, _ = _coverage(connection, Scope(website, *_span(day)), goal, cache)
    _count(sums, coverage, [_span(day)], goal, field, cache)
    return [
        (label, *figures, *divmod(high * PART + low, PART), without) for label, *figures, high, low, without in sums
    ]


def _add(row: list[int], more: Sequence[int]) -> None:
    row[:] = (a + b for a, b in zip(row, more, strict=True))


def _conversions(figures: Sequence[int]) -> Conversions:
    events, visitors, high, low, without = figures
    return Conversions(events, visitors, high * PART + low, without)


def _coverage(
    connection: sqlite3.Connection, scope: Scope, goal: Goal, cache: ResultCache, field: str = ""
) -> tuple[Coverage, set[int]]:
    """Return the coverage of a goal's conversions in a scope, and the days of it that are stored."""
    coverage = coverage_of(connection, scope._replace(filters=(*scope.filters, *goal.filters)), cache)
    if scope.filters or not goal_days.is_counted(field):
        return coverage, set()
    first, end = -(-scope.from_ms // DAY_MS), scope.to_ms // DAY_MS
    final = {
        day: state.version for day, state in coverage.known.days.items() if first <= day < end and state.state >= FINAL
    }
    return coverage, goal_days.complete(connection, scope.website, goal, final)


def _without(coverage: Coverage, days: Container[int]) -> Coverage:
    """Return the coverage of the other days."""
    left = {day: known for day, known in coverage.known.days.items() if day not in days}
    return replace(coverage, known=coverage.known._replace(days=left))


def _span(day: int) -> Span:
    return day * DAY_MS, (day + 1) * DAY_MS


def _sums(
    connection: sqlite3.Connection,
    scope: Scope,
    goal: Goal,
    cache: ResultCache,
    field: str = "",
    labels: Sequence[int] | None = None,
) -> Sums:
    """Return the sums of the columns of goal_days, by label of a field or 0; complete for `labels`, None for all."""
    coverage, stored = _coverage(connection, scope, goal, cache, field)
    sums = Sums(_COLUMNS)
    _count(sums, coverage, list(_days(_without(coverage, stored))), goal, field, cache)
    sums.add_rows(_stored(coverage, goal, stored, cache, field, labels))
    return sums


def _stored(
    coverage: Coverage,
    goal: Goal,
    days: Collection[int],
    cache: ResultCache,
    field: str = "",
    labels: Sequence[int] | None = None,
    by: str = "value",
) -> Iterable[Sequence[int]]:
    """Return the rows of goal_days.sums of some days that are stored; they are cached."""
    if not days:
        return ()
    versions = coverage.versions(map(_span, sorted(days)))
    key = ("goal days", coverage.website, goal_days.number_of(goal), field, labels, by, versions)

    def read() -> "array[int]":
        return packed(goal_days.sums(coverage.connection, coverage.website, goal, field, days, by, labels))

    return unpacked(cache.find(key, read), 1 + _COLUMNS)


def _count(sums: Sums, coverage: Coverage, spans: Sequence[Span], goal: Goal, field: str, cache: ResultCache) -> None:
    """Add the conversions of days, or parts of days, by label of a field or 0."""
    for columns in coverage.columns(spans, filtered=True, with_data=goal.value is not None):
        key = columns.key("goal", goal.value, field)
        sums.add_cached(cache, key, partial(_add_conversions, columns, field, goal))


def _add_conversions(columns: "DayColumns", field: str, goal: Goal, sums: Sums) -> None:
    sums.add(columns.conversions(field, (), goal.value))


def _series(columns: "DayColumns", edges: Sequence[Span], goal: Goal, cache: ResultCache) -> Iterator[tuple[int, ...]]:
    parts = stats.clipped(edges, columns.span)
    cut = [bucket for _, bucket in parts]
    key = columns.key("goal series", goal.value, *cut)
    rows = cache.find(key, lambda: packed(rows_of(columns.conversions("", cut, goal.value))))
    return ((parts[n][0], *figures) for n, *figures in unpacked(rows, 1 + _COLUMNS))


def _days(coverage: Coverage) -> Iterator[Span]:
    """Yield the days of the range, or parts of them, on which an event may match."""
    plan = plan_of(coverage)
    yield from plan.raw
    yield from days_of(coverage, plan.rolled)
