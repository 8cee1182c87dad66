"""Top lists: blocks of whole days from rollups, the rolled up and the remaining part of today, raw rows for the rest.

Partial, filtered and stale days are counted from raw rows. Sums of complete days are cached (`ResultCache`) under the
versions of the days, so that a late event or an import invalidates them.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tally.reports import partial_days
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, Span, coverage_of, plan_of
from tally.reports.ranking import Sums, first
from tally.rollups import rollup_state
from tally.rollups.field_values import field_number
from tally.storage.sql import events as sql
from tally.storage.sql.events import Scope
from tally.storage.visitor_values import NAMES
from tally.timestamps import DAY_MS

# SQLite allows at most 500 terms in a compound select.
_TILES_A_STATEMENT = 400


class Top(NamedTuple):
    """Figures of the unset value, and rows (text, visitors, pageviews, events)."""

    unset: Sequence[int]
    rows: list[tuple[str, int, int, int]]


def top(connection: sqlite3.Connection, scope: Scope, field: str, limit: int, cache: ResultCache) -> Top:
    """Return the first `limit` values of a field by visitors, pageviews, events (descending) and text."""
    unset, rows = first(connection, _sums(connection, scope, field, cache), limit, ranks=3)
    return Top(unset, [(text, visitors, views, events) for _, text, (visitors, views, events) in rows])


def names(connection: sqlite3.Connection, scope: Scope, limit: int, cache: ResultCache) -> list[tuple[str, int, int]]:
    """Return the first `limit` names of custom events (text, visitors, events) by both, descending, and text."""
    # In the rollup the unset value stands for all traffic; it is not in the list.
    _, rows = first(connection, _sums(connection, scope, NAMES, cache), limit, ranks=3)
    return [(text, visitors, events) for _, text, (visitors, _, events) in rows]


def _sums(connection: sqlite3.Connection, scope: Scope, field: str, cache: ResultCache) -> Sums:
    coverage = coverage_of(connection, scope)
    plan = plan_of(coverage)
    tiles: list[tuple[int, int]] = []
    left: list[Span] = []
    versions = 0
    for stretch in plan.rolled:
        more, version, rest = _complete(coverage, stretch)
        tiles += more
        left += rest
        versions += version
    sums = Sums(3)
    # The largest part first, so that it is not held in memory twice.
    _add_tiles(sums, coverage, field, tiles, versions, cache)
    _add_filtered(sums, coverage, field, plan.raw, cache)
    for span in left:
        for rows in _piece(coverage, field, span, cache):
            sums.add(rows)
    return sums


def _complete(coverage: Coverage, stretch: Span) -> tuple[list[tuple[int, int]], int, list[Span]]:
    """Return blocks for the whole days of a stretch that are rolled up, the sum of their versions, and other days."""
    tiles: list[tuple[int, int]] = []
    rest: list[Span] = []
    version = 0
    start, end = stretch[0] // DAY_MS, -(-stretch[1] // DAY_MS)
    for day, known in coverage.known.days.items():
        span = (max(stretch[0], day * DAY_MS), min(stretch[1], (day + 1) * DAY_MS))
        if span[0] >= span[1]:
            continue
        if span[1] - span[0] == DAY_MS == known.rolled_up_to_ms - day * DAY_MS:
            version += known.version
        else:
            tiles += rollup_state.cover(coverage.known, start, day)
            start = day + 1
            rest.append(span)
    return tiles + rollup_state.cover(coverage.known, start, end), version, rest


def _piece(coverage: Coverage, field: str, span: Span, cache: ResultCache) -> list[Sequence[Sequence[int]]]:
    """Return the values of a day that is not complete, or of a part of one."""
    day, number = span[0] // DAY_MS, field_number(field)
    known = coverage.known.days[day]
    if span[0] == day * DAY_MS < known.rolled_up_to_ms <= span[1]:
        folded = sql.sums(coverage.website, number, [(0, day)])
        rest = sql.not_folded(coverage.website, number, day, known.rolled_up_to_ms, span[1])
        return [coverage.rows(folded), coverage.rows(rest)]
    scope, is_begin, is_end = coverage.raw(span), span[0] == day * DAY_MS, span[1] == (day + 1) * DAY_MS
    listed = partial_days.day_of(coverage, cache, field, day) if is_begin or is_end else None
    if listed is not None:
        return [listed.until(span[1]) if is_begin else listed.since(span[0])]
    return [coverage.rows(sql.counts(scope, field))]


def _add_filtered(sums: Sums, coverage: Coverage, field: str, spans: list[Span], cache: ResultCache) -> None:
    """Add the values of days that are read from raw rows; whole final days are cached."""
    final = [span for span in spans if coverage.final(span)]

    def count(own: Sums) -> None:
        for span in final:
            own.add(_counted(coverage, field, span))

    if final:
        key = ("filtered", coverage.website, field, coverage.scope.filters, coverage.versions(final))
        sums.add_cached(cache, key, count)
    for span in spans:
        if not coverage.final(span):
            sums.add(_counted(coverage, field, span))


def _counted(coverage: Coverage, field: str, span: Span) -> Iterable[Sequence[int]]:
    return coverage.rows(sql.counts(coverage.raw(span, filtered=True), field))


def _add_tiles(
    sums: Sums, coverage: Coverage, field: str, tiles: list[tuple[int, int]], version: int, cache: ResultCache
) -> None:
    number = field_number(field)

    def count(own: Sums) -> None:
        for start in range(0, len(tiles), _TILES_A_STATEMENT):
            query = sql.sums(coverage.website, number, tiles[start : start + _TILES_A_STATEMENT])
            own.add(coverage.connection.execute(*query))

    if tiles:
        sums.add_cached(cache, ("tiles", coverage.website, number, version, *tiles), count)
