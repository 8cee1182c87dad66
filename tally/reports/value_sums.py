"""Sums by value of a field over the days of a report: blocks of days, days by column, kept values and imported sums.

`count_days` counts a field over some days, for blocks (tally/rollups/value_blocks.py) and for days whose events
retention is about to delete.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tally.engine.values import Scope, Span
from tally.events.dimensions import FIELDS, PAGES, field_number
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, Plan, coverage_of
from tally.reports.sums import Sums
from tally.rollups import imported_sums, rollup_state
from tally.rollups.rollup_state import FINAL, IMPORTED, KEPT
from tally.timestamps import DAY_MS

if TYPE_CHECKING:
    from tally.columns.format import Array
    from tally.reports.day_columns import DayColumns


# Of the figures of visits by page: label, visitors, pageviews and events.
_COUNTS_OF_PAGES = [0, 5, 3, 6]


def counts(columns: "DayColumns", field: str, *, of_visits: bool = False) -> "Array":
    """Return visitors, pageviews and events by label of a field; of_visits: as `rolled`."""
    return columns.pages(field) if of_visits else columns.counts([field])[0]


def rolled(coverage: Coverage, plan: Plan, field: str, *, of_visits: bool = False) -> Sums:
    """Return the sums of a field over what a plan counts without filters: visitors, pageviews and events.

    of_visits: of an entry or exit page instead the figures of the visits (FIGURES_OF in tally/rollups/value_blocks.py).
    """
    blocks: list[tuple[int, int]] = []
    versions = 0
    left: list[Span] = []
    for stretch in plan.rolled:
        for tile in rollup_state.tiles_of(coverage.known, *stretch):
            level, block = tile
            span = max(stretch[0], block * DAY_MS), min(stretch[1], (block + 1) * DAY_MS)
            # Of a part of a day without events nothing is kept, which `Coverage.columns` reports.
            if level or (coverage.known.days[block].state == KEPT and span[1] - span[0] == DAY_MS):
                blocks.append(tile)
                versions += coverage.version_of(block << level, (block + 1) << level)
            else:
                left.append(span)
    kind = "pages" if of_visits else "counts"
    sums = Sums(6 if of_visits else 3)
    # The largest part first, so that it is not held in memory twice.
    if blocks:
        key = ("blocks", kind, coverage.website, field, versions, *blocks)
        sums.add_cached(coverage.cache, key, partial(_add_blocks, coverage, field, blocks, of_visits))
    count = partial(counts, field=field, of_visits=of_visits)
    rows = partial(_imported, field=field, of_visits=of_visits)
    add_unfiltered(sums, coverage, left, plan.sums, (kind, field), count, rows)
    return sums


def add_columns(
    sums: Sums,
    coverage: Coverage,
    spans: Sequence[Span],
    what: tuple[Any, ...],
    count: "Callable[[DayColumns], Array]",
    *,
    filtered: bool,
) -> None:
    """Add figures of days, or parts of days, by column. what: what is counted, for the keys of cached sums."""
    for columns in coverage.columns(spans, filtered=filtered):
        sums.add_cached(coverage.cache, columns.key(*what), partial(_add, count, columns))


def add_unfiltered(
    sums: Sums,
    coverage: Coverage,
    spans: Sequence[Span],
    days: Sequence[int],
    what: tuple[Any, ...],
    count: "Callable[[DayColumns], Array]",
    rows: Callable[[sqlite3.Connection, int, int], Iterable[Sequence[int]]],
) -> None:
    """Add figures of days, or parts of days, without filters: by column or, where these are of imported sums, and for
    `days`, rows (label, figures), given connection, website and day."""
    add_columns(sums, coverage, [span for span in spans if not coverage.is_imported(span)], what, count, filtered=False)
    days = [*(span[0] // DAY_MS for span in spans if coverage.is_imported(span)), *days]

    def add_rows(imported: Sums) -> None:
        for day in days:
            imported.add_rows(rows(coverage.connection, coverage.website, day))

    if days:
        versions = coverage.versions((day * DAY_MS, 0) for day in days)
        sums.add_cached(coverage.cache, ("imported", *what, coverage.website, versions), add_rows)


def _add(count: "Callable[[DayColumns], Array]", columns: "DayColumns", sums: Sums) -> None:
    sums.add(count(columns))


def _add_blocks(coverage: Coverage, field: str, blocks: Sequence[tuple[int, int]], of_visits: bool, sums: Sums) -> None:
    # numpy is imported with the first query that needs it.
    from tally.rollups import value_blocks

    number = field_number(field)
    for part in value_blocks.sums(coverage.connection, coverage.website, number, blocks):
        sums.add(part if of_visits or field not in PAGES else part[_COUNTS_OF_PAGES])
    days = [block for level, block in blocks if not level] if field in FIELDS else []
    if days:
        # All events of such a day have no value.
        without = value_blocks.days_without(coverage.connection, coverage.website, number, days)
        sums.add_rows((0, *coverage.totals_of(day)) for day in sorted(without))


def _imported(
    connection: sqlite3.Connection, website: int, day: int, field: str, of_visits: bool
) -> Iterable[Sequence[int]]:
    if field not in PAGES:
        return imported_sums.values(connection, website, day, field_number(field))
    rows = imported_sums.pages(connection, website, day, field_number(field))
    return rows if of_visits else ([row[place] for place in _COUNTS_OF_PAGES] for row in rows)


# --- blocks


def count_days(connection: sqlite3.Connection, website: int, first: int, end: int, field: str) -> "Array":
    """Return the sums of the values of a field over the final days in [first, end)."""
    scope = Scope(website, first * DAY_MS, end * DAY_MS)
    coverage = coverage_of(connection, scope, ResultCache(0))
    of_state = {
        state: [day for day, known in coverage.known.days.items() if known.state == state]
        for state in (FINAL, KEPT, IMPORTED)
    }
    of_visits = field in PAGES
    sums = Sums(6 if of_visits else 3)
    if of_state[KEPT]:
        _add_blocks(coverage, field, [(0, day) for day in of_state[KEPT]], of_visits, sums)
    spans = [(day * DAY_MS, (day + 1) * DAY_MS) for day in of_state[FINAL]]
    for columns in coverage.columns(spans, filtered=False):
        sums.add(counts(columns, field, of_visits=of_visits))
    for day in of_state[IMPORTED]:
        sums.add_rows(_imported(connection, website, day, field, of_visits))
    return sums.counts
