"""Funnels: how many visits complete some steps in order, with anything in between, and how long that takes.

The events of a visit are processed in the order of (timestamp, id); each advances the visit by at most one step. So the
first event that matches the next step counts, and no event matches two steps. The visits are those that begin in the
range (with filters: that have an event in E), over their whole lives, also after the end of the range. Neither visits
nor visitors cross midnight, so the figures of days add up; those of whole days are cached under their versions
(tally/reports/cache.py). They are counted by column (tally/reports/day_columns.py).
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tally.engine.values import FunnelStep, Reached, Scope
from tally.events.validation import PAGEVIEWS, TRAFFIC
from tally.reports.cache import ResultCache, packed, unpacked
from tally.reports.coverage import Coverage, conditions_of, coverage_of, days_of, has_data, plan_of, resolved
from tally.storage.sql import behaviour as sql
from tally.storage.sql.filters import Condition

if TYPE_CHECKING:
    from tally.reports.day_columns import DayColumns


def funnel(
    connection: sqlite3.Connection, scope: Scope, steps: Sequence[FunnelStep], cache: ResultCache
) -> list[Reached]:
    """Return what reached each of some steps. Raises BeyondRetention."""
    coverage = coverage_of(connection, scope, cache)
    labels: dict[str, int] = {}
    for end, step in enumerate(steps):
        if step.filters is None and step.text not in labels:
            label_rows = coverage.rows(sql.label(step.text))
            if not label_rows:
                # No event has the text.
                known = steps[:end]
                break
            labels[step.text] = label_rows[0][0]
    else:
        known = steps
    totals = [(0, 0, 0)] * len(steps)
    conditions = [_conditions(coverage, step, labels) for step in known]
    for columns in columns_of(coverage, with_data=any(map(has_data, conditions))):
        for n, more in enumerate(_reached(columns, known, conditions, cache)):
            totals[n] = totals[n][0] + more[0], totals[n][1] + more[1], totals[n][2] + more[2]
    return [Reached(*total) for total in totals]


def columns_of(coverage: Coverage, *, with_data: bool) -> "list[DayColumns]":
    """Return the columns of the range. Without filters where all events match. `with_data`: whether event_data is
    read."""
    plan = plan_of(coverage)
    return [
        columns
        for spans, filtered in ((plan.raw, True), (list(days_of(coverage, plan.rolled)), False))
        for columns in coverage.columns(spans, filtered=filtered, with_data=with_data)
    ]


def _conditions(coverage: Coverage, step: FunnelStep, labels: Mapping[str, int]) -> list[Condition]:
    """Return a step as conditions on columns."""
    if step.filters is not None:
        filters = [resolved(coverage.connection, coverage.website, filter_) for filter_ in step.filters]
        return conditions_of(coverage.connection, filters)
    types = PAGEVIEWS if step.field == "pathname" else TRAFFIC - PAGEVIEWS
    # First the one that fewer events meet.
    return [Condition(step.field, [labels[step.text]], False), Condition("type", sorted(types), False)]


def _reached(
    columns: "DayColumns", wanted: Sequence[FunnelStep], steps: Sequence[Sequence[Condition]], cache: ResultCache
) -> Iterator[tuple[int, ...]]:
    """Return (visits, visitors, milliseconds) of each step."""
    # By text, not label: a deleted label may be used for another text.
    return unpacked(cache.find(columns.key("funnel", *wanted), lambda: packed(columns.funnel(steps))), 3)
