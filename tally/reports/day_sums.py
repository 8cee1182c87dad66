"""Sums by label over the days of a report: whole days from rollups, parts of days and others by column or by row.

Sums of complete days are cached (`ResultCache`) under the versions of the days, so that a late event or an import
invalidates them.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tally.engine.values import Scope, Span
from tally.events.dimensions import VISIT_FIELDS, field_number
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, Plan
from tally.reports.sums import Sums, read
from tally.rollups import field_values, rollup_state
from tally.rollups.field_values import FIGURES_OF, PAGE_NUMBERS
from tally.rollups.rollup_state import FINAL
from tally.storage.sql import events as sql
from tally.timestamps import DAY_MS

if TYPE_CHECKING:
    from tally.reports.packed_days import PackedDays
    from tally.storage.day_columns import Array

T = TypeVar("T")


def rolled(coverage: Coverage, plan: Plan, field: str, cache: ResultCache) -> tuple[Sums, list[Span]]:
    """Return the sums of a field over the days that are rolled up, or will be from imported sums, and the other spans
    that are read without filters.

    The figures are those of its rollups (FIGURES_OF in tally/rollups/field_values.py).
    """
    tiles: list[tuple[int, int]] = []
    left: list[Span] = []
    versions = 0
    for stretch in plan.rolled:
        more, version, rest = _complete(coverage, field, stretch)
        tiles += more
        left += rest
        versions += version
    sums = Sums(FIGURES_OF[field_number(field)])
    # The largest part first, so that it is not held in memory twice.
    _add_tiles(sums, coverage, field, tiles, versions, cache)
    for day in plan.sums:
        sums.add_rows(field_values.of_sums(coverage.connection, coverage.website, day, field_number(field)))
    return sums, left


def _complete(coverage: Coverage, field: str, stretch: Span) -> tuple[list[tuple[int, int]], int, list[Span]]:
    """Return blocks for the whole days of a stretch that are rolled up, the sum of their versions, and other days."""
    tiles: list[tuple[int, int]] = []
    rest: list[Span] = []
    version = 0
    start, end = stretch[0] // DAY_MS, -(-stretch[1] // DAY_MS)
    for day, known in coverage.known.days.items():
        span = (max(stretch[0], day * DAY_MS), min(stretch[1], (day + 1) * DAY_MS))
        if span[0] >= span[1]:
            continue
        if span[1] - span[0] == DAY_MS == known.rolled_up_to_ms - day * DAY_MS and (
            # Values of visits are in rollups once the day is final.
            known.state >= FINAL or field not in VISIT_FIELDS
        ):
            version += known.version
        else:
            tiles += rollup_state.cover(coverage.known, start, day)
            start = day + 1
            rest.append(span)
    return tiles + rollup_state.cover(coverage.known, start, end), version, rest


def _add_tiles(
    sums: Sums, coverage: Coverage, field: str, tiles: list[tuple[int, int]], version: int, cache: ResultCache
) -> None:
    number = field_number(field)

    def count(own: Sums) -> None:
        for counts in tile_sums(coverage.connection, coverage.website, number, tiles):
            own.add(counts)

    if tiles:
        sums.add_cached(cache, ("tiles", coverage.website, number, version, *tiles), count)


def tile_sums(
    connection: sqlite3.Connection, website: int, field: int, tiles: Sequence[tuple[int, int]]
) -> "Iterator[Array]":
    """Yield counts to be added up of days (level 0) and blocks (level, number)."""
    blocks = [tile for tile in tiles if tile[0] or field in PAGE_NUMBERS]
    days = [day for level, day in tiles if not level and field not in PAGE_NUMBERS]
    if days:
        yield read(connection, sql.sums(website, field, days), 3)
    if blocks:
        # numpy is imported with the first query that needs it.
        from tally.rollups import value_blocks

        yield from value_blocks.sums(connection, website, field, blocks)


def add_days(
    sums: Sums,
    coverage: Coverage,
    spans: Sequence[Span],
    cache: ResultCache,
    what: tuple[Any, ...],
    by_row: "Callable[[Scope], Array]",
    by_column: "Callable[[PackedDays], Array]",
    *,
    filtered: bool,
    with_data: bool = False,
) -> None:
    """Add figures of days, or parts of days: of packed ones by column, of others by row. Complete days are cached.

    what: what is counted, for the keys of cached sums. with_data: whether event_data is read.
    """
    packed_days, rest = coverage.packed(spans, filtered=filtered, with_data=with_data)
    for columns in packed_days:
        sums.add_cached(cache, columns.key(*what), partial(_add, (columns,), by_column))
    final = [span for span in rest if coverage.final(span)]
    # A day that is not final changes with each event: it is cached by itself.
    for days in (*([final] if final else []), *([span] for span in rest if not coverage.final(span))):
        filters = coverage.scope.filters * filtered
        is_complete = all(coverage.complete(span) for span in days)
        key = (*what, coverage.website, filters, coverage.versions(days)) if is_complete else None
        sums.add_cached(cache, key, partial(_add, (coverage.raw(span, filtered) for span in days), by_row))


def _add(parts: Iterable[T], counts: "Callable[[T], Array]", sums: Sums) -> None:
    for part in parts:
        sums.add(counts(part))
