"""The figures about traffic: from totals and rollups where they are right, from raw rows where not, always the same.

E is CONTRACT's: the traffic events of a website in [from, to) that match all filters. A visitor's number changes at
midnight UTC, so every figure is a sum over days or parts of days. `_parts` cuts the range into stretches of ROLLED days
(unfiltered, or a day on which the filtered values cover everything) and RAW ones (filtered, or stale), which are read a
day a statement: a small set of distinct numbers stays in the cache, and the deadline gets a turn.

ROLLED, totals and series: a range is widened to whole quarters of an hour and what lies in the two margins is taken
off again, from raw rows: few at most, and hardly any where the range ends now. Visitors of the part before the first
midnight are those whose last event lies in it or later, those behind the last midnight whose first event lies before
its end; inside one day, those from its beginning on without those who only came afterwards.

ROLLED, top lists: blocks of whole days; of the open day what is folded and, beside it, what is not; raw rows for a day
that is cut. Sums of complete days are remembered (`Remembered`): they change when a day is added to them.

A question that needs raw rows which the owner has let go raises BeyondRetention.
"""

import sqlite3
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from operator import itemgetter
from typing import Any, NamedTuple

from tally import queries, rollups
from tally.enrich import FIELDS
from tally.instants import HOUR_MS
from tally.queries import Query, Scope
from tally.rollups import KEPT, STALE, Blocks
from tally.sessions import DAY_MS, QUARTER_MS

# our choice: beyond so many visitors who came after a range, counting those in it is no more work.
_FEW = 2_000
# SQLite takes at most 500 parts of a union.
_TILES_A_STATEMENT = 400
# our choice: 32 bytes each, 5 MB in all; a list of 5,000 paths over a range takes 160 KB.
MOST_REMEMBERED = 160_000

Span = tuple[int, int]
"""[from, to) in milliseconds."""
Counts = dict[int, list[int]]
"""label -> visitors, pageviews, events."""


class BeyondRetention(ValueError):
    """The question needs raw rows that are gone; `from_ms`: from when on they are there."""

    def __init__(self, from_ms: int) -> None:
        super().__init__(from_ms)
        self.from_ms = from_ms


class Stats(NamedTuple):
    """The key figures as exact sums."""

    visitors: int = 0
    pageviews: int = 0
    events: int = 0
    visits: int = 0
    bounces: int = 0
    visit_views: int = 0
    visit_ms: int = 0


class Remembered:
    """Sums of complete days by what they are sums of; for several threads, bounded, least recently used go first."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._sums: OrderedDict[tuple[Any, ...], array[int]] = OrderedDict()
        self._size = 0

    def get(self, key: tuple[Any, ...]) -> Counts | None:
        """The sums of that key, if they are remembered."""
        with self._lock:
            flat = self._sums.get(key)
            if flat is None:
                return None
            self._sums.move_to_end(key)
        numbers = iter(flat)
        return {value: [visitors, views, events] for value, visitors, views, events in zip(*[numbers] * 4, strict=True)}

    def put(self, key: tuple[Any, ...], rows: Sequence[Sequence[int]]) -> None:
        """Remembers rows (label, visitors, pageviews, events)."""
        flat = array("q", [number for row in rows for number in row])
        with self._lock:
            self._size += len(flat) // 4 - len(self._sums.pop(key, ())) // 4
            self._sums[key] = flat
            while self._size > self._most:
                self._size -= len(self._sums.popitem(last=False)[1]) // 4


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a question stands on: a snapshot, a website, and what is right of its days."""

    connection: sqlite3.Connection
    scope: Scope
    known: Blocks
    kept: list[int]
    """The days whose raw rows are gone, oldest first: they lie before all others."""

    @property
    def website(self) -> int:
        return self.scope.website

    def rows(self, query: Query) -> list[tuple[Any, ...]]:
        return self.connection.execute(*query).fetchall()

    def number(self, query: Query) -> int:
        return int(self.connection.execute(*query).fetchone()[0])

    def raw(self, span: Span, filtered: bool = False) -> Scope:
        """A scope for raw rows of a span. Raises BeyondRetention where they are gone."""
        if self.kept and span[0] < (self.kept[-1] + 1) * DAY_MS:
            raise BeyondRetention((self.kept[-1] + 1) * DAY_MS)
        return Scope(self.website, *span, self.scope.filters if filtered else ())


class _Parts(NamedTuple):
    """A range cut up: stretches in which unfiltered figures hold, and days to be read raw."""

    rolled: list[Span]
    raw: list[Span]


def stats(connection: sqlite3.Connection, scope: Scope) -> Stats:
    """The key figures of E."""
    ground = _ground(connection, scope)
    parts = _parts(ground)
    found = [_rolled_stats(ground, span) for span in parts.rolled]
    for span in parts.raw:
        raw = ground.raw(span, filtered=True)
        traffic, visits = ground.rows(queries.stats_traffic(raw)), ground.rows(queries.stats_visits(raw))
        found.append(Stats(*traffic[0], *visits[0]))
    return Stats(*(sum(column) for column in zip(Stats(), *found, strict=True)))


def refuse_gone(connection: sqlite3.Connection, scope: Scope) -> None:
    """Raises BeyondRetention where raw rows of the range are gone."""
    _ground(connection, scope).raw((scope.from_ms, scope.to_ms))


def _ground(connection: sqlite3.Connection, scope: Scope) -> _Ground:
    first, end = scope.from_ms // DAY_MS, -(-scope.to_ms // DAY_MS)
    known = rollups.blocks(connection, scope.website, first, end)
    return _Ground(connection, scope, known, [day for day, of in known.days.items() if of.state == KEPT])


def _parts(ground: _Ground) -> _Parts:
    scope, days = ground.scope, ground.known.days
    whole, none = _covered(ground) if scope.filters else (set(days), set())
    parts = _Parts([], [])
    goes_on = False
    for day, known in days.items():
        span = (max(scope.from_ms, day * DAY_MS), min(scope.to_ms, (day + 1) * DAY_MS))
        if day in none:
            goes_on = False
        elif day not in whole or known.state == STALE:
            parts.raw.append(span)
            goes_on = False
        elif goes_on:
            # Days without traffic in between make no difference.
            parts.rolled[-1] = (parts.rolled[-1][0], span[1])
        else:
            parts.rolled.append(span)
            goes_on = True
    return parts


def _covered(ground: _Ground) -> tuple[set[int], set[int]]:
    """The days on which the filters hold for everything, and those on which one of them holds for nothing."""
    days, filters = ground.known.days, ground.scope.filters
    if not days or any(field not in FIELDS for field, _ in filters):
        return set(), set()
    first, end = min(days), max(days) + 1
    folded = dict(ground.rows(queries.folded(ground.website, first, end)))
    whole, none = set(days), set()
    for field, values in filters:
        found = dict(ground.rows(queries.matching(ground.website, FIELDS.index(field), first, end, values)))
        whole &= {day for day in days if found.get(day, 0) == folded.get(day, 0)}
        none |= {day for day in days if day not in found}
    stale = {day for day, known in days.items() if known.state == STALE}
    partial = {day for day, known in days.items() if known.state != STALE and known.folded_ms < (day + 1) * DAY_MS}
    whole = {day for day in whole - stale if day not in partial or _rest_matches(ground, day, all_of_it=True)}
    none = {day for day in none - stale if day not in partial or _rest_matches(ground, day, all_of_it=False)}
    return whole, none


def _rest_matches(ground: _Ground, day: int, all_of_it: bool) -> bool:
    """Whether of the part of a day that is not folded yet all events match the filters, or none does."""
    span = (ground.known.days[day].folded_ms, (day + 1) * DAY_MS)
    matching = ground.number(queries.traffic(ground.raw(span, filtered=True)))
    return matching == (ground.number(queries.traffic(ground.raw(span))) if all_of_it else 0)


# --- totals of ROLLED stretches


def _rolled_stats(ground: _Ground, span: Span) -> Stats:
    from_ms, to_ms = span
    first, end = from_ms // QUARTER_MS, -(-to_ms // QUARTER_MS)
    midnight_ms = -(-from_ms // DAY_MS) * DAY_MS
    row = ground.connection.execute(*queries.totals(ground.website, first, end, midnight_ms // QUARTER_MS)).fetchone()
    found = Stats(*row)
    for margin in ((first * QUARTER_MS, from_ms), (to_ms, end * QUARTER_MS)):
        if margin[0] < margin[1]:
            scope = ground.raw(margin)
            traffic, visits = ground.rows(queries.stats_traffic(scope)), ground.rows(queries.stats_visits(scope))
            off = Stats(0, *traffic[0][1:], *visits[0])
            found = Stats(*(a - b for a, b in zip(found, off, strict=True)))
    if to_ms < midnight_ms:
        return found._replace(visitors=_within_a_day(ground, span))
    return found._replace(visitors=found.visitors - _too_early(ground, from_ms) - _too_late(ground, to_ms))


def _too_early(ground: _Ground, from_ms: int) -> int:
    """Visitors whose last event of the day lies in the quarter of `from_ms`, before it."""
    first_ms = from_ms // QUARTER_MS * QUARTER_MS
    if first_ms == from_ms:
        return 0
    ground.raw((first_ms, from_ms))
    midnight_ms = -(-from_ms // DAY_MS) * DAY_MS
    return ground.number(queries.came_last(ground.website, midnight_ms, first_ms, from_ms))


def _too_late(ground: _Ground, to_ms: int) -> int:
    """Visitors whose first event of the day lies in the quarter of `to_ms`, at it or behind it."""
    end_ms = -(-to_ms // QUARTER_MS) * QUARTER_MS
    if end_ms == to_ms:
        return 0
    ground.raw((to_ms, end_ms))
    return ground.number(queries.came_first(ground.website, to_ms // DAY_MS * DAY_MS, to_ms, end_ms))


def _within_a_day(ground: _Ground, span: Span) -> int:
    """Visitors of a span inside one UTC day."""
    from_ms, to_ms = span
    midnight_ms = -(-from_ms // DAY_MS) * DAY_MS
    scope = ground.raw(span)
    later = [row[0] for row in ground.rows(queries.visitors_between(ground.website, to_ms, midnight_ms, _FEW))]
    if len(later) == _FEW or to_ms - from_ms <= QUARTER_MS:
        return int(ground.rows(queries.stats_traffic(scope))[0][0])
    first, end = from_ms // QUARTER_MS, midnight_ms // QUARTER_MS
    from_then_on = ground.number(queries.totals(ground.website, first, end, end)) - _too_early(ground, from_ms)
    both = ground.number(queries.how_many_of(ground.website, from_ms, to_ms, later)) if later else 0
    return from_then_on - (len(later) - both)


# --- series


def series(connection: sqlite3.Connection, scope: Scope, edges: Sequence[Span]) -> list[tuple[int, int, int, int]]:
    """For each bucket: visitors, visits, pageviews, events. The buckets tile the scope's range."""
    ground = _ground(connection, scope)
    parts = _parts(ground)
    found = [[0, 0, 0, 0] for _ in edges]
    for span in parts.rolled:
        _add_rolled(ground, _clipped(edges, span), found)
    for span in parts.raw:
        raw, clipped = ground.raw(span, filtered=True), _clipped(edges, span)
        cut = [bucket for _, bucket in clipped]
        for n, visitors, views, events in ground.rows(queries.series_traffic(raw, cut)):
            _add(found[clipped[n][0]], (visitors, 0, views, events))
        for n, visits in ground.rows(queries.series_visits(raw, cut)):
            found[clipped[n][0]][1] += visits
    return [(row[0], row[1], row[2], row[3]) for row in found]


def _add(sums: list[int], more: Iterable[int]) -> None:
    for place, number in enumerate(more):
        sums[place] += number


def _clipped(edges: Sequence[Span], span: Span) -> list[tuple[int, Span]]:
    """The buckets that reach into a span, cut to it, with their numbers."""
    first = bisect_right(edges, span[0], key=itemgetter(0)) - 1
    end = bisect_left(edges, span[1], key=itemgetter(0))
    return [(n, (max(edges[n][0], span[0]), min(edges[n][1], span[1]))) for n in range(first, end)]


def _add_rolled(ground: _Ground, buckets: list[tuple[int, Span]], found: list[list[int]]) -> None:
    start = 0
    while start < len(buckets):
        length = buckets[start][1][1] - buckets[start][1][0]
        end = start + 1
        if length in (HOUR_MS, DAY_MS) and buckets[start][1][0] % QUARTER_MS == 0:
            while end < len(buckets) and buckets[end][1][1] - buckets[end][1][0] == length:
                end += 1
            first, last = buckets[start][1][0] // QUARTER_MS, buckets[end - 1][1][1] // QUARTER_MS
            query = (queries.hours if length == HOUR_MS else queries.days)(ground.website, first, last)
            for n, visitors, views, events, visits in ground.connection.execute(*query):
                _add(found[buckets[start + n][0]], (visitors, visits, views, events))
        else:
            of = _rolled_stats(ground, buckets[start][1])
            _add(found[buckets[start][0]], (of.visitors, of.visits, of.pageviews, of.events))
        start = end


# --- top lists


class Top(NamedTuple):
    """The figures of unset, and rows (text, visitors, pageviews, events)."""

    unset: Sequence[int]
    rows: list[tuple[str, int, int, int]]


def top(connection: sqlite3.Connection, scope: Scope, field: str, limit: int, remembered: Remembered) -> Top:
    """The first `limit` values of a field by visitors, pageviews, events (descending) and text."""
    ground = _ground(connection, scope)
    parts = _parts(ground)
    tiles: list[tuple[int, int]] = []
    versions = 0
    pieces: list[Query] = [queries.counts(ground.raw(span, filtered=True), field) for span in parts.raw]
    for stretch in parts.rolled:
        more, version, rest = _complete(ground, stretch)
        tiles += more
        versions += version
        for span in rest:
            pieces += _piece(ground, field, span)
    counts = _sums(ground, field, tiles, versions, remembered)
    for query in pieces:
        for value, *figures in ground.connection.execute(*query):
            if value in counts:
                _add(counts[value], figures)
            else:
                counts[value] = figures
    return Top(counts.pop(0, (0, 0, 0)), _first(ground, counts, limit))


def _complete(ground: _Ground, stretch: Span) -> tuple[list[tuple[int, int]], int, list[Span]]:
    """Blocks for the whole days of a stretch that are in rollup, the sum of their versions, and what is left."""
    tiles: list[tuple[int, int]] = []
    rest: list[Span] = []
    version = 0
    start, end = stretch[0] // DAY_MS, -(-stretch[1] // DAY_MS)
    for day, known in ground.known.days.items():
        span = (max(stretch[0], day * DAY_MS), min(stretch[1], (day + 1) * DAY_MS))
        if span[0] >= span[1]:
            continue
        if span[1] - span[0] == DAY_MS == known.folded_ms - day * DAY_MS:
            version += known.version
        else:
            tiles += rollups.cover(ground.known, start, day)
            start = day + 1
            rest.append(span)
    return tiles + rollups.cover(ground.known, start, end), version, rest


def _piece(ground: _Ground, field: str, span: Span) -> list[Query]:
    """The values of a day that is not complete, or of a part of one: what is folded of it and the rest, or raw rows."""
    day, number = span[0] // DAY_MS, FIELDS.index(field)
    folded_ms = ground.known.days[day].folded_ms
    if span[0] == day * DAY_MS < folded_ms <= span[1]:
        folded = queries.sums(ground.website, number, [(0, day)])
        return [folded, queries.not_folded(ground.website, number, day, folded_ms, span[1])]
    return [queries.counts(ground.raw(span), field)]


def _sums(ground: _Ground, field: str, tiles: list[tuple[int, int]], version: int, remembered: Remembered) -> Counts:
    if not tiles:
        return {}
    number = FIELDS.index(field)
    key = (ground.website, number, version, *tiles)
    counts = remembered.get(key)
    if counts is None:
        counts = {}
        for start in range(0, len(tiles), _TILES_A_STATEMENT):
            query = queries.sums(ground.website, number, tiles[start : start + _TILES_A_STATEMENT])
            for value, *figures in ground.connection.execute(*query):
                if value in counts:
                    _add(counts[value], figures)
                else:
                    counts[value] = figures
        remembered.put(key, [(value, *figures) for value, figures in counts.items()])
    return counts


def _first(ground: _Ground, counts: Counts, limit: int) -> list[tuple[str, int, int, int]]:
    chosen = counts
    if len(counts) > limit:
        last = nsmallest(limit, ((-visitors, -views, -events) for visitors, views, events in counts.values()))[-1]
        # Those that tie with the last one too: texts decide among them.
        chosen = {value: row for value, row in counts.items() if (-row[0], -row[1], -row[2]) <= last}
    texts = dict(ground.rows(queries.texts(list(chosen))))
    rows = [(texts[value], row[0], row[1], row[2]) for value, row in chosen.items()]
    return sorted(rows, key=lambda row: (-row[1], -row[2], -row[3], row[0]))[:limit]
