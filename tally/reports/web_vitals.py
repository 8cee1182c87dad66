"""Web vitals over any range: percentiles and ratings, of all events, by pathname, by device or by UTC day.

Without filters, and filtered by pathname or device alone, they are read from histograms (tally/rollups/web_vitals.py),
with the events themselves for the margins of the range. With any other filter the events are put into the same
histogram cells, so both ways give the same figures: those of packed days by column
(tally/rollups/packed_measurements.py), and rows.

Pages are ordered by the number of poor values, then by events: a slow page with many visitors comes before a slower one
with few. This order needs every page of every block, 0.4 µs each: 30 ms for a year of 5,000 pages. So sums over settled
blocks are cached (`ResultCache`) under the versions of the blocks; what may still change is read each time. Histograms
are decoded for the chosen pages only.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import orjson

from tally.engine.values import Scope, Summary
from tally.engine.values import VitalsRow as Row
from tally.reports.cache import ResultCache
from tally.reports.coverage import check_retention, conditions_in
from tally.reports.ranking import first
from tally.reports.sums import Sums
from tally.rollups import packed_measurements
from tally.rollups import web_vitals as rollup
from tally.rollups.vitals_histogram import Cells, added, poor_above, slot_of, slots_of, summary, unpacked
from tally.rollups.web_vitals import ALL, BREAKDOWNS, PATHNAME, Cover
from tally.storage.sql import measurements as sql
from tally.storage.sql.day_columns import WEB_VITALS
from tally.storage.sql.filters import Condition, labels_of
from tally.timestamps import DAY_MS

if TYPE_CHECKING:
    from tally.reports.packed_measurements import PackedMeasurements

Span = tuple[int, int]


def overall(connection: sqlite3.Connection, scope: Scope, cache: ResultCache) -> Cells:
    """Return one histogram of all events of a scope."""
    return _overall(connection, scope, conditions_in(connection, scope), cache)


def _overall(connection: sqlite3.Connection, scope: Scope, own: Sequence[Condition], cache: ResultCache) -> Cells:
    cells: Cells = {}
    cut, values = _cut(connection, scope)
    if cut is None:
        _add_events(connection, scope, cells, own, cache)
        return cells
    cover = rollup.cover(connection, scope.website, scope.from_ms, scope.to_ms, in_parts=cut != PATHNAME)
    for _, _, blob in rollup.histograms(connection, scope.website, cut, cover.tiles, values):
        added(cells, unpacked(blob))
    for margin in cover.margins:
        _add_events(connection, _within(scope, margin), cells, own, cache)
    return cells


def _cut(connection: sqlite3.Connection, scope: Scope) -> tuple[int | None, list[int] | None]:
    """Return which histograms match the filters of a scope, and the labels of their values; None if none do."""
    if not scope.filters:
        return ALL, None
    of = scope.filters[0]
    if len(scope.filters) > 1 or of.field not in BREAKDOWNS:
        return None, None
    if of.operator == "=":
        return BREAKDOWNS[of.field], [row[0] for row in connection.execute(*sql.labels(of.values))]
    matching, _ = connection.execute(*labels_of(scope.website, of)).fetchone()
    return BREAKDOWNS[of.field], [*orjson.loads(matching), *[0] * of.accepts("")]


def _within(scope: Scope, span: Span) -> Scope:
    return scope._replace(from_ms=span[0], to_ms=span[1])


def _packed(
    connection: sqlite3.Connection, scope: Scope, own: Sequence[Condition], cache: ResultCache
) -> "Iterator[PackedMeasurements]":
    """Yield the columns of a scope, if it has any. Raises BeyondRetention if events are deleted."""
    check_retention(connection, scope)
    first, last = scope.from_ms // DAY_MS, (scope.to_ms - 1) // DAY_MS
    days = packed_measurements.days(connection, scope.website, WEB_VITALS, first, last)
    if days:
        # numpy is imported with the first query that needs it.
        from tally.reports.packed_measurements import PackedMeasurements

        yield PackedMeasurements(connection, scope, WEB_VITALS, days, own, cache)


def _add_events(
    connection: sqlite3.Connection, scope: Scope, cells: Cells, own: Sequence[Condition], cache: ResultCache
) -> None:
    """Add events one by one: 2 µs a row, 0.3 µs in columns. Raises BeyondRetention if they are deleted."""
    for packed in _packed(connection, scope, own, cache):
        added(cells, packed.cells())
    for values in connection.execute(*sql.vitals(scope)):
        for slot in slots_of(values):
            cells[slot] = cells.get(slot, 0) + 1


# --- by pathname, by device


def by_value(
    connection: sqlite3.Connection, scope: Scope, field: str, metric: str, limit: int, cache: ResultCache
) -> list[Row]:
    """Return the first `limit` values of pathname or device: most poor values first, then most events, then by text.

    The unset value is not in the list.
    """
    cut, values = _cut(connection, scope)
    cover = Cover([], [(scope.from_ms, scope.to_ms)])
    if cut in (ALL, BREAKDOWNS[field]):
        in_parts = BREAKDOWNS[field] != PATHNAME
        cover = rollup.cover(connection, scope.website, scope.from_ms, scope.to_ms, in_parts)
    own = conditions_in(connection, scope)
    sums = _sums(connection, scope, field, metric, cover, own, cache)
    chosen = first(connection, sums.counts, limit, ranks=2, among=values if cut == BREAKDOWNS[field] else None).rows
    cells: dict[int, Cells] = {row.value: {} for row in chosen}
    labels = list(cells)
    for _, value, blob in rollup.histograms(connection, scope.website, BREAKDOWNS[field], cover.tiles, labels):
        added(cells[value], unpacked(blob, metric))
    for margin in cover.margins:
        part = _within(scope, margin)
        for packed in _packed(connection, part, own, cache):
            for value, more in packed.cells_of(field, metric, labels).items():
                added(cells[value], more)
        for value, number in connection.execute(*sql.vitals_of(part, field, metric, labels)):
            added(cells[value], ((slot_of(metric, number), 1),))
    return [Row(text, events, summary(cells[value], metric)) for value, text, (_, events) in chosen]


def _sums(
    connection: sqlite3.Connection,
    scope: Scope,
    field: str,
    metric: str,
    cover: Cover,
    own: Sequence[Condition],
    cache: ResultCache,
) -> Sums:
    """Return the number of poor values of the metric and of events, by value."""
    cut, website = BREAKDOWNS[field], scope.website
    settled, rest = rollup.settled(connection, website, cover.tiles)
    sums = Sums(2)
    sums.add_cached(
        cache,
        ("vitals", website, cut, metric, *rollup.versions(connection, website, settled)),
        lambda cached: cached.add_rows(rollup.ranks(connection, website, cut, settled, metric)),
    )
    sums.add_rows(rollup.ranks(connection, website, cut, rest, metric))
    for margin in cover.margins:
        part = _within(scope, margin)
        for packed in _packed(connection, part, own, cache):
            for counts in packed.ranks(field, metric, poor_above(metric)):
                sums.add(counts)
        sums.add_rows(connection.execute(*sql.vital_ranks(part, field, metric, poor_above(metric))))
    return sums


# --- by day


def by_day(connection: sqlite3.Connection, scope: Scope, metric: str, cache: ResultCache) -> list[tuple[int, Summary]]:
    """Return the beginning of each UTC day in ms, clipped to the range, and the summary of the metric."""
    first, end = scope.from_ms // DAY_MS, -(-scope.to_ms // DAY_MS)
    spans = [(max(scope.from_ms, day * DAY_MS), min(scope.to_ms, (day + 1) * DAY_MS)) for day in range(first, end)]
    cut, values = _cut(connection, scope)
    whole = {span[0] // DAY_MS for span in spans if span[1] - span[0] == DAY_MS} if cut is not None else set()
    cells: dict[int, Cells] = {day: {} for day in range(first, end)}
    own = conditions_in(connection, scope)
    if cut is not None:
        for day, _, blob in rollup.histograms(connection, scope.website, cut, [(0, day) for day in whole], values):
            added(cells[day], unpacked(blob, metric))
    for span in spans:
        if span[0] // DAY_MS not in whole:
            added(cells[span[0] // DAY_MS], _overall(connection, _within(scope, span), own, cache))
    return [(span[0], summary(cells[span[0] // DAY_MS], metric)) for span in spans]
