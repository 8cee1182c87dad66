"""Top lists: blocks of whole days from rollups; of the open day what is folded and what is not; raw rows for the rest.

A day that is cut by the range, filtered or stale is counted from its raw rows. Sums of complete days are remembered
(`ResultCache`), since the same ranges are asked for again and again: a day's version is part of what they are kept
under, so a late event or an import makes them others.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tally.reports import partial_days as cuts
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, Span, ground_of, parts_of
from tally.reports.ranking import Sums, first
from tally.rollups import rollup_state
from tally.rollups.field_values import field_number
from tally.storage.sql import events as queries
from tally.storage.sql.events import Scope
from tally.storage.visitor_values import NAMES
from tally.timestamps import DAY_MS

# SQLite takes at most 500 parts of a union.
_TILES_A_STATEMENT = 400


class Top(NamedTuple):
    """The figures of unset, and rows (text, visitors, pageviews, events)."""

    unset: Sequence[int]
    rows: list[tuple[str, int, int, int]]


def top(connection: sqlite3.Connection, scope: Scope, field: str, limit: int, remembered: ResultCache) -> Top:
    """The first `limit` values of a field by visitors, pageviews, events (descending) and text."""
    unset, rows = first(connection, _sums(connection, scope, field, remembered), limit, ranks=3)
    return Top(unset, [(text, visitors, views, events) for _, text, (visitors, views, events) in rows])


def names(
    connection: sqlite3.Connection, scope: Scope, limit: int, remembered: ResultCache
) -> list[tuple[str, int, int]]:
    """The first `limit` names of custom events (text, visitors, events) by both, descending, and text."""
    # What is unset is all of the traffic in rollup, and left out.
    _, rows = first(connection, _sums(connection, scope, NAMES, remembered), limit, ranks=3)
    return [(text, visitors, events) for _, text, (visitors, _, events) in rows]


def _sums(connection: sqlite3.Connection, scope: Scope, field: str, remembered: ResultCache) -> Sums:
    ground = ground_of(connection, scope)
    parts = parts_of(ground)
    tiles: list[tuple[int, int]] = []
    left: list[Span] = []
    versions = 0
    for stretch in parts.rolled:
        more, version, rest = _complete(ground, stretch)
        tiles += more
        left += rest
        versions += version
    sums = Sums(3)
    # What is most first: it is not to be held twice.
    _add_tiles(sums, ground, field, tiles, versions, remembered)
    _add_filtered(sums, ground, field, parts.raw, remembered)
    for span in left:
        for rows in _piece(ground, field, span, remembered):
            sums.add(rows)
    return sums


def _complete(ground: Coverage, stretch: Span) -> tuple[list[tuple[int, int]], int, list[Span]]:
    """Blocks for the whole days of a stretch that are in rollup, the sum of their versions, and what is left."""
    tiles: list[tuple[int, int]] = []
    rest: list[Span] = []
    version = 0
    start, end = stretch[0] // DAY_MS, -(-stretch[1] // DAY_MS)
    for day, known in ground.known.days.items():
        span = (max(stretch[0], day * DAY_MS), min(stretch[1], (day + 1) * DAY_MS))
        if span[0] >= span[1]:
            continue
        if span[1] - span[0] == DAY_MS == known.rolled_up_to_ms - day * DAY_MS:
            version += known.version
        else:
            tiles += rollup_state.cover(ground.known, start, day)
            start = day + 1
            rest.append(span)
    return tiles + rollup_state.cover(ground.known, start, end), version, rest


def _piece(ground: Coverage, field: str, span: Span, remembered: ResultCache) -> list[Sequence[Sequence[int]]]:
    """The values of a day that is not complete, or of a part of one."""
    day, number = span[0] // DAY_MS, field_number(field)
    known = ground.known.days[day]
    if span[0] == day * DAY_MS < known.rolled_up_to_ms <= span[1]:
        folded = queries.sums(ground.website, number, [(0, day)])
        rest = queries.not_folded(ground.website, number, day, known.rolled_up_to_ms, span[1])
        return [ground.rows(folded), ground.rows(rest)]
    scope, is_begin, is_end = ground.raw(span), span[0] == day * DAY_MS, span[1] == (day + 1) * DAY_MS
    listed = cuts.day_of(ground, remembered, field, day) if is_begin or is_end else None
    if listed is not None:
        return [listed.until(span[1]) if is_begin else listed.since(span[0])]
    return [ground.rows(queries.counts(scope, field))]


def _add_filtered(sums: Sums, ground: Coverage, field: str, spans: list[Span], remembered: ResultCache) -> None:
    """The values of days that are read raw; the sums of those that are whole and final are remembered."""
    final = [span for span in spans if ground.final(span)]

    def count(own: Sums) -> None:
        for span in final:
            own.add(_counted(ground, field, span))

    if final:
        key = ("filtered", ground.website, field, ground.scope.filters, ground.versions(final))
        sums.add_remembered(remembered, key, count)
    for span in spans:
        if not ground.final(span):
            sums.add(_counted(ground, field, span))


def _counted(ground: Coverage, field: str, span: Span) -> Iterable[Sequence[int]]:
    return ground.rows(queries.counts(ground.raw(span, filtered=True), field))


def _add_tiles(
    sums: Sums, ground: Coverage, field: str, tiles: list[tuple[int, int]], version: int, remembered: ResultCache
) -> None:
    number = field_number(field)

    def count(own: Sums) -> None:
        for start in range(0, len(tiles), _TILES_A_STATEMENT):
            query = queries.sums(ground.website, number, tiles[start : start + _TILES_A_STATEMENT])
            own.add(ground.connection.execute(*query))

    if tiles:
        sums.add_remembered(remembered, ("tiles", ground.website, number, version, *tiles), count)
