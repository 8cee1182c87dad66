"""Entry and exit pages: how many visits begin, or end, with each page, with their bounces, views and durations.

A visit is counted as in the key figures: it belongs to the range it begins in and, with filters, needs an event in E;
its views, its duration and its first and last view are those of its whole life.

Complete days are read from blocks where there are any (tally/rollups/visit_pages.py), otherwise from visits; their sum
is cached, as in tally/reports/top.py. Other days are counted from columns or, before they are packed, from raw rows.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, Plan, Span, coverage_of, plan_of
from tally.reports.ranking import add_days, first
from tally.reports.sums import Sums, counts_of
from tally.rollups import visit_pages as rollup
from tally.rollups.rollup_state import PAGE_LEVELS
from tally.storage.sql.events import Scope
from tally.timestamps import DAY_MS

# Visits, bounces, their pageviews, ms, visitors and events.
_COLUMNS = 6


class Page(NamedTuple):
    """A page that visits begin or end with; '' for visits without a view."""

    value: str
    visits: int
    bounces: int
    views: int
    ms: int


def pages(
    connection: sqlite3.Connection, scope: Scope, side: str, limit: int, cache: ResultCache
) -> tuple[int, list[Page]]:
    """Return how many visits have no view, and the first `limit` pages of the others by visits and text."""
    coverage = coverage_of(connection, scope, cache)
    plan = plan_of(coverage)
    whole, rest = _complete(coverage, plan.rolled)
    sums = Sums(_COLUMNS)
    if whole:
        _add_cached(sums, coverage, side, whole, cache)
    for spans, filtered in ((rest, False), (plan.raw, True)):
        add_days(
            sums,
            coverage,
            spans,
            cache,
            ("pages", side),
            by_row=lambda scope: counts_of(rollup.count_pages(connection, scope, side), _COLUMNS),
            by_column=lambda columns: columns.pages(f"{side}_page"),
            filtered=filtered,
        )
    unset, rows = first(connection, sums.counts, limit, ranks=1)
    return unset[0], [Page(text, *figures[:4]) for _, text, figures in rows]


def counts(coverage: Coverage, plan: Plan, side: str, cache: ResultCache) -> tuple[Sums, list[Span]]:
    """Return visitors, pageviews and events of the visits of complete unfiltered days by page, and the other spans."""
    whole, rest = _complete(coverage, plan.rolled)
    pages, found = Sums(_COLUMNS), Sums(3)
    if whole:
        _add_cached(pages, coverage, side, whole, cache)
    found.add(pages.counts[[0, 5, 3, 6]])
    return found, rest


def _complete(coverage: Coverage, stretches: Iterable[Span]) -> tuple[list[Span], list[Span]]:
    """Return the complete days of some stretches, and the other days or parts of days."""
    whole: list[Span] = []
    rest: list[Span] = []
    for stretch in stretches:
        for day, known in coverage.known.days.items():
            span = (max(stretch[0], day * DAY_MS), min(stretch[1], (day + 1) * DAY_MS))
            if span[0] < span[1]:
                is_whole = span[1] - span[0] == DAY_MS == known.rolled_up_to_ms - day * DAY_MS
                (whole if is_whole else rest).append(span)
    return whole, rest


def _tiles(coverage: Coverage, spans: Sequence[Span]) -> tuple[list[tuple[int, int]], list[Span]]:
    """Return blocks whose traffic lies in the given days alone, and the days that no block covers."""
    left = {begin_ms // DAY_MS for begin_ms, _ in spans}
    # The coverage does not include days outside the range.
    first, end = -(-coverage.scope.from_ms // DAY_MS), coverage.scope.to_ms // DAY_MS
    built = rollup.built(coverage.connection, coverage.website, sorted(left))
    tiles: list[tuple[int, int]] = []
    for level in reversed(PAGE_LEVELS):
        within: dict[int, set[int]] = {}
        for day in coverage.known.days:
            within.setdefault(day >> level, set()).add(day)
        for block, days in within.items():
            fits = first <= block << level and (block + 1) << level <= end
            if fits and (level, block) in built and days <= left:
                tiles.append((level, block))
                left -= days
    return tiles, [span for span in spans if span[0] // DAY_MS in left]


def _add_cached(sums: Sums, coverage: Coverage, side: str, spans: Sequence[Span], cache: ResultCache) -> None:
    """Add the sums of whole days, cached under the days and their versions."""

    def count(own: Sums) -> None:
        tiles, left = _tiles(coverage, spans)
        own.add_rows(rollup.sums(coverage.connection, coverage.website, side, tiles))
        packed_days, left = coverage.packed(left, filtered=False)
        for columns in packed_days:
            own.add(columns.pages(f"{side}_page"))
        for span in left:
            day = coverage.raw(span).day
            state = coverage.known.days[day].state
            own.add_rows(rollup.count_day(coverage.connection, coverage.website, day, state, side))

    sums.add_cached(cache, ("all pages", coverage.website, side, coverage.versions(spans)), count)
