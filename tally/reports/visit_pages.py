"""Entry and exit pages: how many visits begin, or end, with each page, with their bounces, views and durations.

A visit is counted as in the key figures: it belongs to the range it begins in and, with filters, needs an event in E;
its views, its duration and its first and last view are those of its whole life.
"""

import sqlite3
from collections.abc import Sequence
from functools import partial

from tally.engine.values import Page, Scope, VisitPages
from tally.events.dimensions import field_number
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, Plan, coverage_of, days_of, plan_of
from tally.reports.ranking import first
from tally.reports.sums import Sums
from tally.reports.value_sums import add_columns, counts, rolled
from tally.rollups import imported_sums
from tally.timestamps import DAY_MS


def pages(
    connection: sqlite3.Connection,
    scope: Scope,
    field: str,
    limit: int,
    cache: ResultCache,
    compare: Scope | None = None,
) -> VisitPages:
    """Return how many visits have no view, and the first `limit` pages of the others by visits and text.

    field: "entry_page" or "exit_page"; compare: a scope in which the same pages are counted as well.
    """
    unset, rows = first(connection, _sums(connection, scope, field, cache).counts, limit, ranks=1)
    visit_pages = VisitPages(unset[0], [Page(text, *figures[:4]) for _, text, figures in rows])
    if compare is None:
        return visit_pages
    before = _sums(connection, compare, field, cache).of([row.value for row in rows])
    return visit_pages._replace(previous=[Page(text, *before.get(label, (0,) * 4)[:4]) for label, text, _ in rows])


def _sums(connection: sqlite3.Connection, scope: Scope, field: str, cache: ResultCache) -> Sums:
    coverage = coverage_of(connection, scope, cache)
    plan = plan_of(coverage)
    sums = rolled(coverage, plan, field, of_visits=True)
    count = partial(counts, field=field, of_visits=True)
    add_columns(sums, coverage, plan.raw, ("pages", field), count, filtered=True)
    _subtract_views_without_visits(sums, coverage, plan, field, cache)
    return sums


def _subtract_views_without_visits(sums: Sums, coverage: Coverage, plan: Plan, field: str, cache: ResultCache) -> None:
    """Subtract the pageviews that imported sums have of pages without visits: they would count as those of visits."""
    number = field_number(field)

    def subtract(sums: Sums, days: Sequence[int]) -> None:
        rows = imported_sums.views_without_visits(coverage.connection, coverage.website, days, number)
        sums.add_rows((label, 0, 0, -views, 0, 0, 0) for label, views in rows)

    spans = [span for span in days_of(coverage, plan.rolled) if coverage.is_imported(span)]
    if spans:
        key = ("views without visits", coverage.website, number, coverage.versions(spans))
        sums.add_cached(cache, key, partial(subtract, days=[span[0] // DAY_MS for span in spans]))
    if plan.sums:
        subtract(sums, plan.sums)
