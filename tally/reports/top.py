"""Top lists: values of a field with their figures, in the order of one of these.

The sums of all values are arrays (tally/reports/value_sums.py), of which the rows that are shown are chosen
(tally/reports/ranking.py). Conversions, and the figures of a range to compare with, are those of the same values.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tally.engine.values import GOAL_ORDERS, LEAVE_ORDERS, Leaves, Scope, Stats, Top, TopQuery, TopRow
from tally.reports import goals, page_leaves
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, Plan, coverage_of, days_of, plan_of
from tally.reports.figures import parts_of
from tally.reports.ranking import first
from tally.reports.sums import Sums
from tally.reports.value_sums import add_columns, add_unfiltered, counts, rolled
from tally.rollups import imported_sums

if TYPE_CHECKING:
    from tally.columns.format import Array
    from tally.reports.day_columns import DayColumns


# Numbers that rank a ratio, and each of them where there is none.
_RANKS = 3
_LAST = -1 << 62


def top(connection: sqlite3.Connection, scope: Scope, queries: Sequence[TopQuery], cache: ResultCache) -> list[Top]:
    """Return some values of a field for each query. What stored days have of several fields is counted together."""
    plans: dict[Scope, tuple[Coverage, Plan]] = {}

    def planned(scope: Scope) -> tuple[Coverage, Plan]:
        if scope not in plans:
            coverage = coverage_of(connection, scope, cache)
            plans[scope] = coverage, plan_of(coverage)
            _count_together(*plans[scope], [query.field for query in queries], cache)
        return plans[scope]

    return [_top(connection, scope, query, cache, planned) for query in queries]


def _top(
    connection: sqlite3.Connection,
    scope: Scope,
    query: TopQuery,
    cache: ResultCache,
    planned: Callable[[Scope], tuple[Coverage, Plan]],
) -> Top:
    sums = _figures(*planned(scope), query)
    by_conversions = query.goal if query.order in GOAL_ORDERS else None
    converted = by_conversions and goals.of_all_labels(connection, scope, by_conversions, query.field, cache)
    left = page_leaves.by_label(connection, scope, query.field, cache) if query.has_leaves else None
    counts = _ranked(sums.counts, query, converted, left)
    _, ranked = first(connection, counts, query.offset + query.limit, len(counts) - len(sums.counts) + 3)
    shown = [(0, ""), *((row.value, row.text) for row in ranked[query.offset :])]
    labels = [label for label, _ in shown]
    figures = _of(labels, sums)
    columns: list[Sequence[Any]] = [[text for _, text in shown], figures, *[[None] * len(shown)] * 5]
    if converted is not None:
        columns[2] = goals.of_labels(converted, labels)
    elif query.goal is not None:
        columns[2] = goals.by_label(connection, scope, query.goal, query.field, labels, cache)
    if query.compare is not None:
        columns[3] = _of(labels, _figures(*planned(query.compare), query))
        if query.goal is not None:
            columns[4] = goals.by_label(connection, query.compare, query.goal, query.field, labels, cache)
        if query.has_leaves:
            columns[6] = _left(labels, page_leaves.by_label(connection, query.compare, query.field, cache))
    columns[5] = _left(labels, left)
    unset, *rows = (TopRow(*row) for row in zip(*columns, strict=True))
    return Top(unset, rows, sums.number_of_values())


def _count_together(coverage: Coverage, plan: Plan, fields: Sequence[str], cache: ResultCache) -> None:
    """Cache the counts of several fields of days with filters, read once."""
    for columns in coverage.columns(plan.raw, filtered=True) if len(fields) > 1 else ():
        keys = {field: columns.key("counts", field) for field in fields}
        missing = [field for field, key in keys.items() if key is not None and cache.get(key) is None]
        for field, rows in zip(missing, columns.counts(missing), strict=True):
            Sums(3).add_cached(cache, keys[field], partial(Sums.add, counts=rows))


def _of(labels: Sequence[int], sums: Sums) -> list[Stats]:
    """Return the figures of some labels."""
    figures = sums.of(labels)
    return [Stats(*figures.get(label, ())) for label in labels]


def _left(labels: Sequence[int], left: Sums | None) -> Sequence[Leaves | None]:
    """Return the figures of leaves of some labels."""
    figures = {} if left is None else left.of(labels)
    return [None if left is None else Leaves(*figures.get(label, ())) for label in labels]


def _ranked(counts: "Array", query: TopQuery, converted: Sums | None, left: Sums | None) -> "Array":
    """Return counts with the numbers by which the query's order ranks them before the figures of each label."""
    if not query.order:
        return counts
    import numpy as np

    if query.order in LEAVE_ORDERS:
        figures = np.zeros((3, counts.shape[1]), np.int64)
        matching = np.zeros((4, 0), np.int64) if left is None else left.counts[:, np.isin(left.counts[0], counts[0])]
        figures[:, np.searchsorted(counts[0], matching[0])] = matching[1:]
        samples, medians, reached = figures
        part, whole = (reached, samples) if query.order == "scroll_depth" else (medians, np.minimum(samples, 1))
        return np.concatenate([counts[:1], _ranks(part, whole, query.ascending), counts[1:]])
    if converted is None:
        part, whole = (
            np.broadcast_to(counted, counts.shape[1:]) for counted in parts_of(Stats(*counts[1:]), query.order)
        )
        return np.concatenate([counts[:1], _ranks(part, whole, query.ascending), counts[1:]])
    # Every conversion is an event of its label, so no other label has any.
    events, visitors = np.zeros((2, counts.shape[1]), np.int64)
    matching = converted.counts[:, np.isin(converted.counts[0], counts[0])]
    places = np.searchsorted(counts[0], matching[0])
    events[places], visitors[places] = matching[1], matching[2]
    by_rate = query.order == "conversion_rate"
    number = _ranks(events, np.ones_like(events), query.ascending and not by_rate)
    rate = _ranks(visitors, counts[1], query.ascending and by_rate)
    return np.concatenate([counts[:1], *([rate, number] if by_rate else [number, rate]), counts[1:]])


def _ranks(part: "Array", whole: "Array", ascending: bool) -> "list[Array]":
    """Return _RANKS numbers by which a ratio ranks labels.

    They are its whole part, and the next 31 and again 31 bits behind the point. That is exact for wholes below 2^31,
    since ratios that differ do so by more than 2^-62. Labels without a ratio come last.
    """
    import numpy as np

    ranks, divisor = [], np.maximum(whole, 1)
    for _ in range(_RANKS):
        ranks.append(np.where(whole, part // divisor * (-1 if ascending else 1), _LAST))
        part = part % divisor << 31
    return ranks


def _figures(coverage: Coverage, plan: Plan, query: TopQuery) -> Sums:
    """Return the sums of Stats by label; of visitors, pageviews and events alone unless the query needs more."""
    counts = _sums(coverage, plan, query.field)
    if not query.has_visits:
        return counts
    import numpy as np

    both = Sums(len(Stats._fields))
    visits = _visit_sums(coverage, plan, query.field).counts
    both.add(np.pad(counts.counts, ((0, 4), (0, 0))))
    both.add(np.insert(visits, [1] * 3, 0, axis=0))
    return both


def _visit_sums(coverage: Coverage, plan: Plan, field: str) -> Sums:
    """Return visits, bounces, their pageviews and ms by label."""
    sums, what = Sums(4), ("visit figures", field)

    def count(columns: "DayColumns") -> "Array":
        return columns.visit_figures(field)

    rows = partial(imported_sums.visit_figures, field=field)
    add_unfiltered(sums, coverage, list(days_of(coverage, plan.rolled)), plan.sums, what, count, rows)
    add_columns(sums, coverage, plan.raw, what, count, filtered=True)
    return sums


def _sums(coverage: Coverage, plan: Plan, field: str) -> Sums:
    """Return visitors, pageviews and events by label."""
    sums = rolled(coverage, plan, field)
    add_columns(sums, coverage, plan.raw, ("counts", field), partial(counts, field=field), filtered=True)
    return sums
