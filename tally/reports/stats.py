"""Key figures and time series, from quarter-hour totals where these are complete, otherwise from raw rows.

Totals: a stretch is widened to whole quarter hours, and the two margins are subtracted again, from raw rows: a few at
most, and hardly any if the range ends now. Visitors before the first midnight UTC are those whose last event lies at or
after the beginning; visitors after the last midnight, those whose first event lies before the end. Inside one day they
are the visitors from the beginning on minus those who only came after the end (tally/rollups/totals.py explains why
these add up); if fewer events lie in the range than after it, they are counted directly.

Series: runs of whole hours, or of whole days, take one statement; partial buckets and days of 23 or 25 hours are read
one by one.
"""

import sqlite3
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
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
    from tally.reports.packed_days import PackedDays

_QUARTERS = DAY_MS // QUARTER_MS
# Up to so many visitors after a range are checked; beyond that those in the range are counted.
_FEW = 2_000


def stats(connection: sqlite3.Connection, scope: Scope, cache: ResultCache) -> Stats:
    """Return the key figures of E."""
    coverage = coverage_of(connection, scope, cache)
    plan = plan_of(coverage)
    found = [_rolled_stats(coverage, span, cache) for span in plan.rolled]
    packed_days, raw = coverage.packed(plan.raw, filtered=True)
    found += [_packed_stats(columns, cache) for columns in packed_days]
    found += [Stats(*_raw_stats(coverage, span, cache)) for span in raw]
    found += [of for _, of in _of_sums(coverage, plan)]
    return Stats(*(sum(column) for column in zip(Stats(), *found, strict=True)))


def _of_sums(coverage: Coverage, plan: Plan) -> Iterator[tuple[int, Stats]]:
    """Yield (quarter hour, key figures) of days read from imported sums."""
    for day in plan.sums:
        for quarter, row in totals.of_sums(coverage.connection, coverage.website, day).items():
            of = dict(zip(totals.COLUMNS, row, strict=True))
            visits = of["visits"], of["bounces"], of["visit_pageviews"], of["visit_duration_ms"]
            yield quarter, Stats(of["first_seen"], of["pageviews"], of["events"], *visits)


def _packed_stats(columns: "PackedDays", cache: ResultCache) -> Stats:
    return Stats(*cache.find(columns.key("stats"), lambda: array("q", columns.stats())))


def _raw_stats(coverage: Coverage, span: Span, cache: ResultCache) -> Sequence[int]:
    """Return the key figures of a day, or a part of one, from raw rows; complete days are cached."""
    scope, day = coverage.raw(span, filtered=True), coverage.complete(span)
    key = ("stats", coverage.website, span[0], day and day.version, coverage.scope.filters)

    def count() -> "array[int]":
        return packed(coverage.rows(sql.stats(scope)))

    return cache.find(key, count) if day else count()


# --- quarter-hour totals


def _rolled_stats(coverage: Coverage, span: Span, cache: ResultCache) -> Stats:
    from_ms, to_ms = span
    first, end = from_ms // QUARTER_MS, -(-to_ms // QUARTER_MS)
    midnight_ms = -(-from_ms // DAY_MS) * DAY_MS
    found = _totals(coverage, first, end, midnight_ms // QUARTER_MS, cache)
    for margin in ((first * QUARTER_MS, from_ms), (to_ms, end * QUARTER_MS)):
        if margin[0] < margin[1]:
            columns = coverage.edge(margin)
            _, *off = columns.stats() if columns else coverage.rows(sql.stats(coverage.raw(margin)))[0]
            found = Stats(found.visitors, *(a - b for a, b in zip(found[1:], off, strict=True)))
    if to_ms < midnight_ms:
        return found._replace(visitors=_within_a_day(coverage, span))
    early = _visitors_before(coverage, from_ms)
    return found._replace(visitors=found.visitors - early - _visitors_after(coverage, to_ms))


def _totals(coverage: Coverage, first: int, end: int, midnight: int, cache: ResultCache) -> Stats:
    """Return the sums of the quarters in [first, end), with the visitors of sql.totals; final whole days are cached."""
    middle = max(midnight, min(end, coverage.final_from(midnight // _QUARTERS) * _QUARTERS) // _QUARTERS * _QUARTERS)

    def total(first: int, end: int) -> "array[int]":
        return packed(coverage.rows(sql.totals(coverage.website, first, end, midnight)))

    found = [total(first, min(midnight, end)), total(middle, end)]
    if middle > midnight:
        version = coverage.version_of(midnight // _QUARTERS, middle // _QUARTERS)
        key = ("totals", coverage.website, midnight, middle, version)
        found.append(cache.find(key, lambda: total(midnight, middle)))
    return Stats(*map(sum, zip(*found, strict=True)))


def _visitors_before(coverage: Coverage, from_ms: int) -> int:
    """Return the visitors whose last event of the day lies in the quarter hour of `from_ms`, before it."""
    first_ms = from_ms // QUARTER_MS * QUARTER_MS
    if first_ms == from_ms:
        return 0
    if columns := coverage.edge((first_ms, from_ms)):
        return columns.came("last")
    coverage.raw((first_ms, from_ms))
    return coverage.number(sql.came_last(coverage.website, first_ms, from_ms))


def _visitors_after(coverage: Coverage, to_ms: int) -> int:
    """Return the visitors whose first event of the day lies in the quarter hour of `to_ms`, at or after it."""
    end_ms = -(-to_ms // QUARTER_MS) * QUARTER_MS
    if end_ms == to_ms:
        return 0
    if columns := coverage.edge((to_ms, end_ms)):
        return columns.came("first")
    coverage.raw((to_ms, end_ms))
    return coverage.number(sql.came_first(coverage.website, to_ms, end_ms))


def _within_a_day(coverage: Coverage, span: Span) -> int:
    """Return the visitors of a span inside one UTC day."""
    from_ms, to_ms = span
    midnight_ms = -(-from_ms // DAY_MS) * DAY_MS
    if to_ms - from_ms == HOUR_MS and from_ms % QUARTER_MS == 0:
        first = from_ms // QUARTER_MS
        return sum(visitors for _, visitors, *_ in coverage.rows(sql.hours(coverage.website, first, first + 4)))
    if columns := coverage.edge(span):
        return columns.stats()[0]
    scope = coverage.raw(span)
    is_little = _events_at_most(coverage, from_ms, to_ms) <= _events_at_most(coverage, to_ms, midnight_ms)
    few = [] if is_little else coverage.rows(sql.visitors_between(coverage.website, to_ms, midnight_ms, _FEW))
    if is_little or len(few) == _FEW:
        return coverage.number(sql.visitors(scope))
    later = [row[0] for row in few]
    first, end = from_ms // QUARTER_MS, midnight_ms // QUARTER_MS
    early = _visitors_before(coverage, from_ms)
    from_then_on = coverage.number(sql.totals(coverage.website, first, end, end)) - early
    both = coverage.number(sql.how_many_of(coverage.website, from_ms, to_ms, later)) if later else 0
    return from_then_on - (len(later) - both)


def _events_at_most(coverage: Coverage, from_ms: int, to_ms: int) -> int:
    """Return the events of the quarter hours that a span touches, an upper bound of its own."""
    first, end = from_ms // QUARTER_MS, -(-to_ms // QUARTER_MS)
    _, views, customs, *_ = coverage.rows(sql.totals(coverage.website, first, end, end))[0]
    return int(views) + int(customs)


# --- series


def series(
    connection: sqlite3.Connection, scope: Scope, edges: Sequence[Span], cache: ResultCache
) -> list[Sequence[int]]:
    """Return visitors, visits, pageviews and events of each bucket. The buckets tile the scope's range."""
    coverage = coverage_of(connection, scope, cache)
    plan = plan_of(coverage)
    found: list[Sequence[int]] = [(0, 0, 0, 0)] * len(edges)
    raw = plan.raw
    if max(end - begin for begin, end in edges) < QUARTER_MS:
        # Shorter than what totals are of: each bucket would read raw rows.
        raw = [*raw, *days_of(coverage, plan.rolled)]
    else:
        for span in plan.rolled:
            _add_rolled(coverage, edges, span, found, cache)
    packed_days, raw = coverage.packed(raw, filtered=True)
    for columns in packed_days:
        for n, *figures in _packed_series(columns, edges, cache):
            _add(found, n, figures)
    for span in raw:
        parts = clipped(edges, span)
        for n, *figures in _raw_series(coverage, span, [bucket for _, bucket in parts], cache):
            _add(found, parts[n][0], figures)
    for quarter, of in _of_sums(coverage, plan):
        n = bisect_right(edges, quarter * QUARTER_MS, key=itemgetter(0)) - 1
        _add(found, n, (of.visitors, of.visits, of.pageviews, of.events))
    return found


def _packed_series(columns: "PackedDays", edges: Sequence[Span], cache: ResultCache) -> Iterator[tuple[int, ...]]:
    # Clipped, so that the key does not change where the first or the last bucket moves with the time.
    parts = clipped(edges, columns.span)
    cut = [bucket for _, bucket in parts]
    for n, *figures in unpacked(
        cache.find(columns.key("series", *cut), lambda: packed(rows_of(columns.series(cut)))), 5
    ):
        yield parts[n][0], *figures


def _raw_series(coverage: Coverage, span: Span, cut: Sequence[Span], cache: ResultCache) -> Iterable[tuple[int, ...]]:
    """Return the rows of sql.series of a day divided into buckets; complete days are cached."""
    scope, day = coverage.raw(span, filtered=True), coverage.complete(span)
    key = ("series", coverage.website, day and day.version, coverage.scope.filters, *cut)

    def count() -> "array[int]":
        if len(cut) == 1:
            visitors, views, events, visits, *_ = coverage.rows(sql.stats(scope))[0]
            return packed([(0, visitors, visits, views, events)])
        return packed(coverage.rows(sql.series(scope, cut)))

    return unpacked(cache.find(key, count) if day else count(), 5)


def _add(found: list[Sequence[int]], n: int, more: Sequence[int]) -> None:
    found[n] = [a + b for a, b in zip(found[n], more, strict=True)]


def clipped(edges: Sequence[Span], span: Span) -> list[tuple[int, Span]]:
    """Return the buckets that overlap a span, clipped to it, with their numbers."""
    first = bisect_right(edges, span[0], key=itemgetter(0)) - 1
    end = bisect_left(edges, span[1], key=itemgetter(0))
    return [(n, (max(edges[n][0], span[0]), min(edges[n][1], span[1]))) for n in range(first, end)]


def _add_rolled(
    coverage: Coverage, edges: Sequence[Span], stretch: Span, found: list[Sequence[int]], cache: ResultCache
) -> None:
    # A day of imported sums may begin before the range.
    n = max(0, bisect_right(edges, stretch[0], key=itemgetter(0)) - 1)
    while n < len(edges) and edges[n][0] < stretch[1]:
        end = _run_end(edges, stretch, n)
        if end > n:
            found[n:end] = _run_figures(coverage, edges[n], edges[end - 1][1], cache)
        else:
            end = n + 1
            of = _rolled_stats(coverage, (max(edges[n][0], stretch[0]), min(edges[n][1], stretch[1])), cache)
            _add(found, n, (of.visitors, of.visits, of.pageviews, of.events))
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
