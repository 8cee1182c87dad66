"""Entry and exit pages: how many visits begin, or end, with each page, with their bounces, views and durations.

A visit is counted as in the key figures: it belongs to the range it begins in and, with filters, needs an event in E;
its views, its duration and its first and last view are those of its whole life.
"""

import sqlite3
from typing import NamedTuple

from tally.events.dimensions import field_number
from tally.reports.cache import ResultCache
from tally.reports.coverage import coverage_of, plan_of
from tally.reports.day_sums import add_days, rolled
from tally.reports.ranking import first
from tally.reports.sums import read
from tally.rollups.field_values import FIGURES_OF
from tally.storage.sql import visits
from tally.storage.sql.events import Scope


class Page(NamedTuple):
    """A page that visits begin or end with; '' for visits without a view."""

    value: str
    visits: int
    bounces: int
    views: int
    ms: int


def pages(
    connection: sqlite3.Connection, scope: Scope, field: str, limit: int, cache: ResultCache
) -> tuple[int, list[Page]]:
    """Return how many visits have no view, and the first `limit` pages of the others by visits and text.

    field: "entry_page" or "exit_page".
    """
    coverage = coverage_of(connection, scope, cache)
    plan = plan_of(coverage)
    sums, rest = rolled(coverage, plan, field, cache)
    for spans, filtered in ((rest, False), (plan.raw, True)):
        add_days(
            sums,
            coverage,
            spans,
            cache,
            ("pages", field),
            by_row=lambda scope: read(connection, visits.pages(scope, field), FIGURES_OF[field_number(field)]),
            by_column=lambda columns: columns.pages(field),
            filtered=filtered,
        )
    unset, rows = first(connection, sums.counts, limit, ranks=1)
    return unset[0], [Page(text, *figures[:4]) for _, text, figures in rows]
