"""Key figures and time series, from quarter-hour totals where these are complete, otherwise by column.

Totals: a stretch is widened to whole quarter hours, and the two margins are subtracted again, by column: a few events
at most, and none if the range ends now. Visitors before the first midnight are those whose last event lies at or
after the beginning; visitors after the last midnight, those whose first event lies before the end
(tally/rollups/totals.py explains why these add up). A stretch inside one day is counted by column.

Series: runs of whole hours, or of whole days, take one statement; partial buckets and days of 23 or 25 hours are read
one by one.
"""

import sqlite3
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from tally.engine.values import Scope, Span, Stats
from tally.reports.cache import ResultCache, packed, unpacked
from tally.reports.coverage import Coverage, Plan, coverage_of, days_of, plan_of
from tally.reports.sums import rows_of
from tally.rollups import totals
from tally.storage.sql import events as sql
from tally.timestamps import DAY_MS, HOUR_MS, QUARTER_MS

if TYPE_CHECKING:
    from tally.reports.day_columns import DayColumns

_QUARTERS = DAY_MS // QUARTER_MS


def stats(connection: sqlite3.Connection, scope: Scope, cache: ResultCache) -> Stats:
    """Return the key figures of E."""
    coverage = coverage_of(connection, scope, cache)
    plan = plan_of(coverage)
    parts = [_rolled_stats(coverage, span, cache) for span in plan.rolled]
    parts += [_stats_by_column(columns, cache) for columns in coverage.columns(plan.raw, filtered=True)]
    parts += [imported for _, imported in _of_sums(coverage, plan)]
    return Stats(*(sum(column) for column in zip(Stats(), *parts, strict=True)))


def _of_sums(coverage: Coverage, plan: Plan) -> Iterator[tuple[int, Stats]]:
    """Yield (quarter hour, key figures) of days read from imported sums."""
    for day in plan.sums:
        for quarter, row in totals.of_sums(coverage.connection, coverage.website, day).items():
            figures = dict(zip(totals.COLUMNS, row, strict=True))
            visits = figures["visits"], figures["bounces"], figures["visit_pageviews"], figures["visit_duration_ms"]
            yield quarter, Stats(figures["first_seen"], figures["pageviews"], figures["events"], *visits)


def _stats_by_column(columns: "DayColumns", cache: ResultCache) -> Stats:
    return Stats(*cache.find(columns.key("stats"), lambda: array("q", columns.stats())))


# --- quarter-hour totals


def _rolled_stats(coverage: Coverage, span: Span, cache: ResultCache) -> Stats:
    from_ms, to_ms = span = coverage.up_to_midnight(span)
    first, end = from_ms // QUARTER_MS, -(-to_ms // QUARTER_MS)
    midnight_ms = -(-from_ms // DAY_MS) * DAY_MS
    total = _totals(coverage, first, end, midnight_ms // QUARTER_MS, cache)
    for margin in ((first * QUARTER_MS, from_ms), (to_ms, end * QUARTER_MS)):
        for columns in _margin(coverage, margin):
            total = Stats(total.visitors, *(a - b for a, b in zip(total[1:], columns.stats()[1:], strict=True)))
    if to_ms < midnight_ms:
        return total._replace(visitors=_within_a_day(coverage, span))
    early = sum(visitor.came("last") for visitor in _margin(coverage, (first * QUARTER_MS, from_ms)))
    late = sum(visitor.came("first") for visitor in _margin(coverage, (to_ms, end * QUARTER_MS)))
    return total._replace(visitors=total.visitors - early - late)


def _margin(coverage: Coverage, span: Span) -> "list[DayColumns]":
    return coverage.columns([span], filtered=False) if span[0] < span[1] else []


def _totals(coverage: Coverage, first: int, end: int, midnight: int, cache: ResultCache) -> Stats:
    """Return the sums of the quarters in [first, end), with the visitors of sql.totals; final whole days are cached."""
    middle = max(midnight, min(end, coverage.final_from(midnight // _QUARTERS) * _QUARTERS) // _QUARTERS * _QUARTERS)

    def total(first: int, end: int) -> "array[int]":
        return packed(coverage.rows(sql.totals(coverage.website, first, end, midnight)))

    parts = [total(first, min(midnight, end)), total(middle, end)]
    if middle > midnight:
        version = coverage.version_of(midnight // _QUARTERS, middle // _QUARTERS)
        key = ("totals", coverage.website, midnight, middle, version)
        parts.append(cache.find(key, lambda: total(midnight, middle)))
    return Stats(*map(sum, zip(*parts, strict=True)))


def _within_a_day(coverage: Coverage, span: Span) -> int:
    """Return the visitors of a span inside one day."""
    if span[1] - span[0] == HOUR_MS and span[0] % QUARTER_MS == 0:
        first = span[0] // QUARTER_MS
        return sum(visitors for _, visitors, *_ in coverage.rows(sql.hours(coverage.website, first, first + 4)))
    return sum(columns.stats()[0] for columns in _margin(coverage, span))


# --- series


def series(
    connection: sqlite3.Connection, scope: Scope, edges: Sequence[Span], cache: ResultCache
) -> list[Sequence[int]]:
    """Return visitors, visits, pageviews and events of each bucket. The buckets tile the scope's range."""
    coverage = coverage_of(connection, scope, cache)
    plan = plan_of(coverage)
    figures_of_buckets: list[Sequence[int]] = [(0, 0, 0, 0)] * len(edges)
    raw = plan.raw
    if max(end - begin for begin, end in edges) < QUARTER_MS:
        # Shorter than what totals are of: each bucket would read raw rows.
        raw = [*raw, *days_of(coverage, plan.rolled)]
    else:
        for span in plan.rolled:
            _add_rolled(coverage, edges, span, figures_of_buckets, cache)
    for columns in coverage.columns(raw, filtered=True):
        for n, *figures in _series_by_column(columns, edges, cache):
            _add(figures_of_buckets, n, figures)
    for quarter, imported in _of_sums(coverage, plan):
        n = bisect_right(edges, quarter * QUARTER_MS, key=itemgetter(0)) - 1
        _add(figures_of_buckets, n, (imported.visitors, imported.visits, imported.pageviews, imported.events))
    return figures_of_buckets


def _series_by_column(columns: "DayColumns", edges: Sequence[Span], cache: ResultCache) -> Iterator[tuple[int, ...]]:
    # Clipped, so that the key does not change where the first or the last bucket moves with the time.
    parts = clipped(edges, columns.span)
    cut = [bucket for _, bucket in parts]
    for n, *figures in unpacked(
        cache.find(columns.key("series", *cut), lambda: packed(rows_of(columns.series(cut)))), 5
    ):
        yield parts[n][0], *figures


def _add(buckets: list[Sequence[int]], n: int, more: Sequence[int]) -> None:
    buckets[n] = [a + b for a, b in zip(buckets[n], more, strict=True)]


def clipped(edges: Sequence[Span], span: Span) -> list[tuple[int, Span]]:
    """Return the buckets that overlap a span, clipped to it, with their numbers."""
    first = bisect_right(edges, span[0], key=itemgetter(0)) - 1
    end = bisect_left(edges, span[1], key=itemgetter(0))
    return [(n, (max(edges[n][0], span[0]), min(edges[n][1], span[1]))) for n in range(first, end)]


def _add_rolled(
    coverage: Coverage, edges: Sequence[Span], stretch: Span, buckets: list[Sequence[int]], cache: ResultCache
) -> None:
    # A day of imported sums may begin before the range.
    n = max(0, bisect_right(edges, stretch[0], key=itemgetter(0)) - 1)
    while n < len(edges) and edges[n][0] < stretch[1]:
        end = _run_end(edges, stretch, n)
        if end > n:
            buckets[n:end] = _run_figures(coverage, edges[n], edges[end - 1][1], cache)
        else:
            end = n + 1
            figures = _rolled_stats(coverage, (max(edges[n][0], stretch[0]), min(edges[n][1], stretch[1])), cache)
            _add(buckets, n, (figures.visitors, figures.visits, figures.pageviews, figures.events))
        n = end


def _run_figures(coverage: Coverage, bucket: Span, end_ms: int, cache: ResultCache) -> list[Sequence[int]]:
    """Return the figures of buckets of the length of `bucket`, from it up to `end_ms`; final days are cached."""
    length = (bucket[1] - bucket[0]) // QUARTER_MS
    first, end = bucket[0] // QUARTER_MS, end_ms // QUARTER_MS
    final = coverage.final_from(bucket[0] // DAY_MS)
    middle = first + max(0, min(final * DAY_MS // QUARTER_MS, end) - first) // length * length
    # The versions of exactly these days: a sum over other days could give two different rows the same key.
    version = coverage.version_of(first * QUARTER_MS // DAY_MS, -(-middle * QUARTER_MS // DAY_MS))
    key = ("row", coverage.website, length, first, middle, version)
    known = cache.get(key)
    rows: list[Sequence[int]] = _counted(coverage, first, middle, length) if known is None else list(unpacked(known, 4))
    if rows and known is None:
        cache.put(key, packed(rows))
    return rows + _counted(coverage, middle, end, length)


def _counted(coverage: Coverage, first: int, end: int, length: int) -> list[Sequence[int]]:
    rows: list[Sequence[int]] = [(0, 0, 0, 0)] * ((end - first) // length)
    query = sql.hours if length * QUARTER_MS == HOUR_MS else sql.days
    for place, *figures in coverage.connection.execute(*query(coverage.website, first, end)):
        rows[place] = figures
    return rows


def _run_end(edges: Sequence[Span], stretch: Span, n: int) -> int:
    """Return the end of the run of whole hours, or of 24-hour days, that begins at `n`; `n` if there is none."""
    from_ms, to_ms = edges[n]
    length = to_ms - from_ms
    if length not in (HOUR_MS, DAY_MS) or from_ms % QUARTER_MS or from_ms < stretch[0]:
        return n
    end = bisect_right(edges, stretch[1], n, key=itemgetter(1))
    if length == HOUR_MS:
        # If buckets are hours, none is longer: if n of them last n hours, none is shorter either. If they are days and
        # the range has only an hour of the first one, the following ones are longer, and so is their sum.
        return bisect_left(range(end), True, n, key=lambda m: edges[m][1] - from_ms != (m + 1 - n) * HOUR_MS)
    while n < end and edges[n][1] - edges[n][0] == length:
        n += 1
    return n
