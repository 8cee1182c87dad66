"""Web vitals over any range: percentiles and ratings, of all events, by pathname, by device or by day.

All figures are exact, but for percentiles over days whose events have expired (tally/rollups/vitals_histogram.py):
these are computed from all values (tally/reports/vital_values.py). Pages are ordered by the number of poor values, then
by events: a slow page with many visitors comes before a slower one with few.
"""

import sqlite3

from tally.engine.values import Scope, Summary
from tally.engine.values import VitalsRow as Row
from tally.events.validation import METRICS
from tally.reports.cache import ResultCache
from tally.reports.ranking import first
from tally.timestamps import DAY_MS


def overall(connection: sqlite3.Connection, scope: Scope, cache: ResultCache) -> dict[str, Summary]:
    """Return the summary of each metric."""
    # numpy is imported with the first query that needs it.
    from tally.reports.vital_values import ALL, VitalValues

    values = VitalValues(connection, scope, ALL.by, cache)
    return {metric: values.summaries(metric, ALL)[0] for metric in METRICS}


def by_value(
    connection: sqlite3.Connection, scope: Scope, field: str, metric: str, limit: int, cache: ResultCache
) -> list[Row]:
    """Return the first `limit` values of a field: most poor values first, then most events, then by text.

    The unset value is not in the list.
    """
    from tally.reports.vital_values import Groups, VitalValues

    values = VitalValues(connection, scope, field, cache)
    chosen = first(connection, values.ranks(field, metric).counts, limit, ranks=2).rows
    labels = sorted(row.value for row in chosen)
    summaries = dict(zip(labels, values.summaries(metric, Groups(field, labels)), strict=True)) if labels else {}
    return [Row(text, events, summaries[value]) for value, text, (_, events) in chosen]


def by_day(connection: sqlite3.Connection, scope: Scope, metric: str, cache: ResultCache) -> list[tuple[int, Summary]]:
    """Return the beginning of each day in ms, clipped to the range, and the summary of the metric."""
    from tally.reports.vital_values import DAY, Groups, VitalValues

    days = range(scope.from_ms // DAY_MS, -(-scope.to_ms // DAY_MS))
    summaries = VitalValues(connection, scope, DAY, cache).summaries(metric, Groups(DAY, days))
    return [(max(scope.from_ms, day * DAY_MS), summary) for day, summary in zip(days, summaries, strict=True)]
