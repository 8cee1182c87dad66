"""Key figures and series: from totals by quarter of an hour where they are right, from raw rows where not.

Totals: a stretch is widened to whole quarters of an hour, and what lies in the two margins is taken off again, from raw
rows: few at most, and hardly any where the range ends now. Visitors of the part before the first midnight UTC are those
whose last event lies in it or later, those behind the last midnight whose first event lies before its end; inside one
day, those from its beginning on without those who only came afterwards (tally/rollups/totals.py says why these add up),
or, where less lies in it than behind it, those that are found in it.

Series: rows of whole hours, or of whole days, take one statement; buckets that are cut, and days of 23 or 25 hours, are
stretches of their own.
"""

import sqlite3
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

from tally.reports import partial_days
from tally.reports.cache import ResultCache, packed, unpacked
from tally.reports.coverage import Coverage, Span, coverage_of, plan_of
from tally.storage.sql import events as sql
from tally.storage.sql.events import Scope
from tally.timestamps import DAY_MS, HOUR_MS, QUARTER_MS

# our choice: so many visitors who came after a range are looked at; beyond them, those in it are counted.
_FEW = 2_000


class Stats(NamedTuple):
    """The key figures as exact sums."""

    visitors: int = 0
    pageviews: int = 0
    events: int = 0
    visits: int = 0
    bounces: int = 0
    visit_views: int = 0
    visit_ms: int = 0


def stats(connection: sqlite3.Connection, scope: Scope, cache: ResultCache) -> Stats:
    """The key figures of E."""
    coverage = coverage_of(connection, scope)
    plan = plan_of(coverage)
    found = [_rolled_stats(coverage, span, cache) for span in plan.rolled]
    found += [Stats(*_raw_stats(coverage, span, cache)) for span in plan.raw]
    return Stats(*(sum(column) for column in zip(Stats(), *found, strict=True)))


def _raw_stats(coverage: Coverage, span: Span, cache: ResultCache) -> Sequence[int]:
    """The key figures of a day, or a part of one, from raw rows; those of whole final days are remembered."""
    scope, final = coverage.raw(span, filtered=True), coverage.final(span)
    key = ("stats", coverage.website, span[0], final and final.version, scope.filters)

    def count() -> "array[int]":
        return packed(coverage.rows(sql.stats(scope)))

    return cache.find(key, count) if final else count()


# --- totals of ROLLED stretches


def _rolled_stats(coverage: Coverage, span: Span, cache: ResultCache) -> Stats:
    from_ms, to_ms = span
    first, end = from_ms // QUARTER_MS, -(-to_ms // QUARTER_MS)
    midnight_ms = -(-from_ms // DAY_MS) * DAY_MS
    row = coverage.connection.execute(*sql.totals(coverage.website, first, end, midnight_ms // QUARTER_MS)).fetchone()
    found = Stats(*row)
    for margin in ((first * QUARTER_MS, from_ms), (to_ms, end * QUARTER_MS)):
        if margin[0] < margin[1]:
            _, *off = coverage.rows(sql.stats(coverage.raw(margin)))[0]
            found = Stats(found.visitors, *(a - b for a, b in zip(found[1:], off, strict=True)))
    if to_ms < midnight_ms:
        return found._replace(visitors=_within_a_day(coverage, span, cache))
    early = _too_early(coverage, from_ms, cache)
    return found._replace(visitors=found.visitors - early - _too_late(coverage, to_ms))


def _too_early(coverage: Coverage, from_ms: int, cache: ResultCache) -> int:
    """Visitors whose last event of the day lies in the quarter of `from_ms`, before it."""
    first_ms = from_ms // QUARTER_MS * QUARTER_MS
    if first_ms == from_ms:
        return 0
    coverage.raw((first_ms, from_ms))
    listed = partial_days.day_of(coverage, cache, "", from_ms // DAY_MS)
    if listed is not None:
        return listed.ended(first_ms, from_ms)
    midnight_ms = -(-from_ms // DAY_MS) * DAY_MS
    return coverage.number(sql.came_last(coverage.website, midnight_ms, first_ms, from_ms))


def _too_late(coverage: Coverage, to_ms: int) -> int:
    """Visitors whose first event of the day lies in the quarter of `to_ms`, at it or behind it."""
    end_ms = -(-to_ms // QUARTER_MS) * QUARTER_MS
    if end_ms == to_ms:
        return 0
    coverage.raw((to_ms, end_ms))
    return coverage.number(sql.came_first(coverage.website, to_ms // DAY_MS * DAY_MS, to_ms, end_ms))


def _within_a_day(coverage: Coverage, span: Span, cache: ResultCache) -> int:
    """Visitors of a span inside one UTC day."""
    from_ms, to_ms = span
    midnight_ms = -(-from_ms // DAY_MS) * DAY_MS
    if to_ms - from_ms == HOUR_MS and from_ms % QUARTER_MS == 0:
        first = from_ms // QUARTER_MS
        return sum(visitors for _, visitors, *_ in coverage.rows(sql.hours(coverage.website, first, first + 4)))
    scope = coverage.raw(span)
    is_little = _events_about(coverage, from_ms, to_ms) <= _events_about(coverage, to_ms, midnight_ms)
    few = [] if is_little else coverage.rows(sql.visitors_between(coverage.website, to_ms, midnight_ms, _FEW))
    if is_little or len(few) == _FEW:
        return coverage.number(sql.visitors(scope))
    later = [row[0] for row in few]
    first, end = from_ms // QUARTER_MS, midnight_ms // QUARTER_MS
    early = _too_early(coverage, from_ms, cache)
    from_then_on = coverage.number(sql.totals(coverage.website, first, end, end)) - early
    both = coverage.number(sql.how_many_of(coverage.website, from_ms, to_ms, later)) if later else 0
    return from_then_on - (len(later) - both)


def _events_about(coverage: Coverage, from_ms: int, to_ms: int) -> int:
    """Events of the quarters that a span touches: what looking at each of its own may cost."""
    first, end = from_ms // QUARTER_MS, -(-to_ms // QUARTER_MS)
    _, views, customs, *_ = coverage.rows(sql.totals(coverage.website, first, end, end))[0]
    return int(views) + int(customs)


# --- series


def series(
    connection: sqlite3.Connection, scope: Scope, edges: Sequence[Span], cache: ResultCache
) -> list[Sequence[int]]:
    """For each bucket: visitors, visits, pageviews, events. The buckets tile the scope's range."""
    coverage = coverage_of(connection, scope)
    plan = plan_of(coverage)
    found: list[Sequence[int]] = [(0, 0, 0, 0)] * len(edges)
    for span in plan.rolled:
        _add_rolled(coverage, edges, span, found, cache)
    for span in plan.raw:
        clipped = _clipped(edges, span)
        for n, *figures in _raw_series(coverage, span, [bucket for _, bucket in clipped], cache):
            _add(found, clipped[n][0], figures)
    return found


def _raw_series(coverage: Coverage, span: Span, cut: Sequence[Span], cache: ResultCache) -> Iterable[tuple[int, ...]]:
    """The rows of sql.series of a day cut into buckets; those of whole final days are remembered."""
    scope, final = coverage.raw(span, filtered=True), coverage.final(span)
    key = ("series", coverage.website, final and final.version, scope.filters, *cut)

    def count() -> "array[int]":
        return packed(coverage.rows(sql.series(scope, cut)))

    return unpacked(cache.find(key, count) if final else count(), 5)


def _add(found: list[Sequence[int]], n: int, more: Sequence[int]) -> None:
    found[n] = [a + b for a, b in zip(found[n], more, strict=True)]


def _clipped(edges: Sequence[Span], span: Span) -> list[tuple[int, Span]]:
    """The buckets that reach into a span, cut to it, with their numbers."""
    first = bisect_right(edges, span[0], key=itemgetter(0)) - 1
    end = bisect_left(edges, span[1], key=itemgetter(0))
    return [(n, (max(edges[n][0], span[0]), min(edges[n][1], span[1]))) for n in range(first, end)]


def _add_rolled(
    coverage: Coverage, edges: Sequence[Span], stretch: Span, found: list[Sequence[int]], cache: ResultCache
) -> None:
    n = bisect_right(edges, stretch[0], key=itemgetter(0)) - 1
    while n < len(edges) and edges[n][0] < stretch[1]:
        end = _like(edges, stretch, n)
        if end > n:
            found[n:end] = _row_of(coverage, edges[n], edges[end - 1][1], cache)
        else:
            end = n + 1
            of = _rolled_stats(coverage, (max(edges[n][0], stretch[0]), min(edges[n][1], stretch[1])), cache)
            _add(found, n, (of.visitors, of.visits, of.pageviews, of.events))
        n = end


def _row_of(coverage: Coverage, bucket: Span, end_ms: int, cache: ResultCache) -> list[Sequence[int]]:
    """The figures of buckets as long as `bucket`, from it on up to `end_ms`; those of final days are remembered."""
    length = (bucket[1] - bucket[0]) // QUARTER_MS
    first, end = bucket[0] // QUARTER_MS, end_ms // QUARTER_MS
    final = coverage.final_from(bucket[0] // DAY_MS)
    middle = first + max(0, min(final * DAY_MS // QUARTER_MS, end) - first) // length * length
    # Of these days alone: the sum over any others could make two different rows look the same.
    version = coverage.version_of(first * QUARTER_MS // DAY_MS, -(-middle * QUARTER_MS // DAY_MS))
    key = ("row", coverage.website, length, first, middle, version)
    known = cache.get(key)
    rows: list[Sequence[int]] = _counted(coverage, first, middle, length) if known is None else list(unpacked(known, 4))
    if rows and known is None:
        cache.put(key, packed(rows))
    return rows + _counted(coverage, middle, end, length)


def _counted(coverage: Coverage, first: int, end: int, length: int) -> list[Sequence[int]]:
    rows: list[Sequence[int]] = [(0, 0, 0, 0)] * ((end - first) // length)
    ask = sql.hours if length * QUARTER_MS == HOUR_MS else sql.days
    for place, *figures in coverage.connection.execute(*ask(coverage.website, first, end)):
        rows[place] = figures
    return rows


def _like(edges: Sequence[Span], stretch: Span, n: int) -> int:
    """The end of the row of whole hours, or of days of 24, that begins with bucket `n`; `n` if none does."""
    from_ms, to_ms = edges[n]
    length = to_ms - from_ms
    if length not in (HOUR_MS, DAY_MS) or from_ms % QUARTER_MS or from_ms < stretch[0]:
        return n
    end = bisect_right(edges, stretch[1], n, key=itemgetter(1))
    if length == HOUR_MS:
        # Where buckets are hours none is longer: if n of them last n hours, none is shorter either. Where they are days
        # and an hour is all that the range has of the first, those behind it are longer, and so are all together.
        return bisect_left(range(end), True, n, key=lambda m: edges[m][1] - from_ms != (m + 1 - n) * HOUR_MS)
    while n < end and edges[n][1] - edges[n][0] == length:
        n += 1
    return n
