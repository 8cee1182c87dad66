"""Histograms of web vitals: the table `web_vitals_histogram`.

A row is a histogram (tally/rollups/vitals_histogram.py) over a span of UTC time, of all events, of one device or of one
pathname (`breakdown`). Spans (`level`) are days (0), blocks of 8 and 64 days (3, 6), and quarter days (PART), these not
by pathname, where most would have a single event. Histograms do not depend on visitors, so every commit adds to the
day of each event, however late it is, and no day becomes stale.

Blocks are built once their days are final; tally/rollups/rollup_state.py has which of them are complete. An event that
is added to one of its days invalidates a block, which is then built again.

The parts of a range that are less than a quarter day (by pathname: a day) are counted from raw rows.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import orjson

from tally.events.validation import METRICS
from tally.rollups import rollup_state, unpacked_days
from tally.rollups.rollup_state import tiles
from tally.rollups.vitals_histogram import EVENTS, SLOTS, Cells, added, is_poor, packed, packed_with, slots_of, unpacked
from tally.storage.bulk_insert import COLUMNS, marks
from tally.storage.sql import events as sql
from tally.storage.sql.day_columns import WEB_VITALS
from tally.timestamps import DAY_MS

ALL, DEVICE, PATHNAME = range(3)
PART = -1
# Quarter days cost 3 bytes an event, hours would cost 13; reading the raw rows at the ends of a range takes 8 ms.
PARTS_A_DAY = 4
PART_MS = DAY_MS // PARTS_A_DAY
LEVELS = (0, 3, 6)
BREAKDOWNS = {"device": DEVICE, "pathname": PATHNAME}
"""The fields that have histograms of their own."""

# The columns of web_vitals_histogram that `_columns` returns.
_COUNTED = ", ".join(("events", *(f"poor_{metric}" for metric in METRICS)))
_PATHNAME_AT, _DEVICE_AT = map(COLUMNS["web_vitals"].index, ("pathname", "device"))
# Events come for 72 hours past the end of their day (tally/rollups/rollup_state.py `is_final`).
_UNSETTLED_DAYS = 4
# 10 to 20 ms.
_VALUES_A_STEP = 200

Tiles = list[tuple[int, int]]
"""Blocks (level, number)."""
Place = tuple[int, int, int, int, int]
"""website, breakdown, level, block, value."""


# --- adding


def add(connection: sqlite3.Connection, rows: Iterable[Sequence[Any]]) -> None:
    """Add rows of table web_vitals, in the transaction that stores them. Takes 0.1 ms plus 30 µs an event."""
    gathered = cells_by_place(rows)
    histograms = []
    for place, cells in gathered.items():
        known = connection.execute(
            f"/* web_vitals.of */ select {_COUNTED}, cells from web_vitals_histogram"
            " where website = ? and breakdown = ? and level = ? and block = ? and value = ?",
            place,
        ).fetchone()
        columns, blob = _columns(cells), b""
        if known:
            columns, blob = tuple(map(sum, zip(columns, known, strict=False))), packed_with(known[-1], cells)
        histograms.append((*place, *columns, blob or packed(cells)))
    _put_rows(connection, histograms)
    _invalidate(connection, gathered)


def remove(connection: sqlite3.Connection, rows: Iterable[Sequence[Any]]) -> None:
    """Remove rows of table web_vitals from the histograms, in the transaction that deletes them."""
    gathered = cells_by_place(rows)
    for place, cells in gathered.items():
        known = connection.execute(
            "/* web_vitals.cells */ select cells from web_vitals_histogram"
            " where website = ? and breakdown = ? and level = ? and block = ? and value = ?",
            place,
        ).fetchone()
        left = Counter(dict(unpacked(known[0]))) - Counter(cells) if known else Counter()
        if left:
            _put(connection, {place: left})
            continue
        website, breakdown, level, day, value = place
        # A block that is built again writes the values that its days have.
        places = [place, *((website, breakdown, above, day >> above, value) for above in LEVELS[1:] if level == 0)]
        connection.executemany(
            "/* web_vitals.remove */ delete from web_vitals_histogram"
            " where website = ? and breakdown = ? and level = ? and block = ? and value = ?",
            places,
        )
    for website in {place[0] for place in gathered}:
        _count_repair(connection, website)
    _invalidate(connection, gathered)


def _invalidate(connection: sqlite3.Connection, changed: Iterable[Place]) -> None:
    """Invalidate the blocks above the days of changed histograms."""
    for website, breakdown, level, day, _ in changed:
        if (breakdown, level) == (ALL, 0):
            rollup_state.invalidate_above(connection, website, WEB_VITALS, LEVELS, day)


def cells_by_place(rows: Iterable[Sequence[Any]]) -> dict[Place, Cells]:
    """Return the cells that rows of table web_vitals add to each place."""
    gathered: dict[Place, list[int]] = {}
    for row in rows:
        if not any(value is not None for value in row[-len(METRICS) :]):
            # An event without metrics is in no histogram.
            continue
        website, ts_ms = row[:2]
        day, part, slots = ts_ms // DAY_MS, ts_ms // PART_MS, slots_of(row[-len(METRICS) :])
        for breakdown, level, block, value in (
            (ALL, PART, part, 0),
            (ALL, 0, day, 0),
            (DEVICE, PART, part, row[_DEVICE_AT]),
            (DEVICE, 0, day, row[_DEVICE_AT]),
            (PATHNAME, 0, day, row[_PATHNAME_AT]),
        ):
            gathered.setdefault((website, breakdown, level, block, value), []).extend(slots)
    return {place: Counter(slots) for place, slots in gathered.items()}


def _put(connection: sqlite3.Connection, histograms: dict[Place, Cells]) -> None:
    _put_rows(connection, [(*place, *_columns(cells), packed(cells)) for place, cells in histograms.items()])


def _put_rows(connection: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    connection.executemany(
        "/* web_vitals.put */ insert or replace into web_vitals_histogram"
        f" (website, breakdown, level, block, value, {_COUNTED}, cells) values {marks(5 + 1 + len(METRICS) + 1, 1)}",
        rows,
    )


def _columns(cells: Cells) -> tuple[int, ...]:
    """Return the number of events, and the number of values of each metric that are rated poor."""
    counts = [0] * len(METRICS)
    for slot, count in cells.items():
        if is_poor(slot):
            counts[slot // SLOTS] += count
    return cells.get(EVENTS, 0), *counts


# --- building blocks, in steps, each within a transaction of the caller


def next_block(connection: sqlite3.Connection, website: int, now_ms: int) -> tuple[int, int] | None:
    """Return the lowest, oldest block (level, number) that is missing and whose days are final."""
    ready = rollup_state.first_not_final(now_ms)
    for level in LEVELS[1:]:
        row = connection.execute(
            "/* web_vitals.next_block */ select block >> :level from web_vitals_histogram as part"
            " where website = :website and breakdown = 0 and level = 0 and block < :ready >> :level << :level"
            " and not exists (select 1 from rollup_state as own where own.website = :website and own.kind = 1"
            " and own.level = :level and own.block = part.block >> :level and own.state = 2) order by block limit 1",
            {"website": website, "level": level, "ready": ready},
        ).fetchone()
        if row:
            return level, int(row[0])
    return None


def merge(
    connection: sqlite3.Connection, website: int, breakdown: int, level: int, block: int, after: int
) -> int | None:
    """Sum the blocks below a block for some values above `after`; return the last of them, None at the end.

    For the breakdowns except ALL.
    """
    below = LEVELS[LEVELS.index(level) - 1]
    parts = list(range(block << (level - below), (block + 1) << (level - below)))
    marks = ", ".join("?" * len(parts))
    values = connection.execute(
        "/* web_vitals.values */ select distinct value from web_vitals_histogram where website = ?"
        " and breakdown = ? and level = ?"
        f" and block in ({marks}) and value > ? order by value limit ?",
        (website, breakdown, below, *parts, after, _VALUES_A_STEP),
    ).fetchall()
    if not values:
        return None
    last = values[-1][0]
    sums: dict[Place, Cells] = {}
    for value, cells in connection.execute(
        "/* web_vitals.below */ select value, cells from web_vitals_histogram where website = ?"
        " and breakdown = ? and level = ?"
        f" and block in ({marks}) and value > ? and value <= ?",
        (website, breakdown, below, *parts, after, last),
    ):
        added(sums.setdefault((website, breakdown, level, block, value), {}), unpacked(cells))
    _put(connection, sums)
    return int(last)


def finish_block(connection: sqlite3.Connection, website: int, level: int, block: int) -> None:
    """Complete a block whose other breakdowns are written, unless one of its days has changed since it was begun."""
    if rollup_state.finish(connection, website, WEB_VITALS, level, block):
        cells: Cells = {}
        for _, _, more in histograms(connection, website, ALL, _days_of(level, block)):
            added(cells, unpacked(more))
        _put(connection, {(website, ALL, level, block, 0): cells})


def _days_of(level: int, block: int) -> list[tuple[int, int]]:
    return [(0, day) for day in range(block << level, (block + 1) << level)]


# --- reading


class Cover(NamedTuple):
    """What a range is read from: blocks (level, number) that tile its middle, and margins [from, to) in ms."""

    tiles: list[tuple[int, int]]
    margins: list[tuple[int, int]]


def cover(connection: sqlite3.Connection, website: int, from_ms: int, to_ms: int, in_parts: bool) -> Cover:
    """Return the fewest blocks for a range. `in_parts`: use quarter days for the parts of days at its ends."""
    step = PART_MS if in_parts else DAY_MS
    first, end = -(-from_ms // step), to_ms // step
    if first >= end:
        return Cover([], [(from_ms, to_ms)])
    margins = [(low, high) for low, high in ((from_ms, first * step), (end * step, to_ms)) if low < high]
    parts: Iterable[int] = ()
    if in_parts:
        first_day, end_day = -(-first // PARTS_A_DAY), end // PARTS_A_DAY
        if first_day >= end_day:
            return Cover([(PART, part) for part in range(first, end)], margins)
        parts = chain(range(first, first_day * PARTS_A_DAY), range(end_day * PARTS_A_DAY, end))
        first, end = first_day, end_day
    built = rollup_state.built(connection, website, WEB_VITALS, LEVELS[1:], first, end)
    blocks = tiles(LEVELS, built, first, end)
    return Cover([*((PART, part) for part in parts), *blocks], margins)


def settled(connection: sqlite3.Connection, website: int, tiles: Iterable[tuple[int, int]]) -> tuple[Tiles, Tiles]:
    """Divide blocks into those that rarely change and those that may change with every commit."""
    (newest,) = connection.execute(
        "/* web_vitals.newest */ select max(block) from web_vitals_histogram where website = ?"
        " and breakdown = 0 and level = 0",
        (website,),
    ).fetchone()
    parts: tuple[Tiles, Tiles] = [], []
    for level, block in tiles:
        parts[level <= 0 and newest is not None and block > newest - _UNSETTLED_DAYS].append((level, block))
    return parts


def versions(connection: sqlite3.Connection, website: int, tiles: Tiles) -> list[tuple[int, int, int]]:
    """Return the version of the histograms of these blocks, for cache keys: (level, block, number) for each block.

    The number of events of a block only increases; the number of repairs covers changes by a repair.
    """
    events: dict[tuple[int, int], int] = {}
    for level, blocks in sql.by_level(tiles):
        for block, count in connection.execute(
            "/* web_vitals.versions */ select block, events from web_vitals_histogram where website = ?"
            " and breakdown = 0 and level = ?"
            " and block in (select value from json_each(?)) and value = 0",
            (website, level, blocks),
        ):
            events[level, block] = count
    row = connection.execute("/* web_vitals.repairs */ select value from meta where name = ?", (_repairs(website),))
    (repairs,) = row.fetchone() or (0,)
    return [(0, -1, repairs), *((*tile, events.get(tile, 0)) for tile in tiles)]


def _repairs(website: int) -> str:
    return f"repairs:{website}"


def histograms(
    connection: sqlite3.Connection,
    website: int,
    breakdown: int,
    tiles: Iterable[tuple[int, int]],
    values: Sequence[int] | None = None,
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (block, value, packed histogram) of the rows of blocks (level, number), of some values or of all."""
    some = "" if values is None else " and value in (select value from json_each(?))"
    for level, blocks in sql.by_level(tiles):
        yield from connection.execute(
            "/* web_vitals.found */ select block, value, cells from web_vitals_histogram"
            f" where website = ? and breakdown = ? and level = ? and block in (select value from json_each(?)){some}",
            (website, breakdown, level, blocks, *([] if values is None else [orjson.dumps(list(values)).decode()])),
        )


def ranks(
    connection: sqlite3.Connection, website: int, breakdown: int, tiles: Iterable[tuple[int, int]], metric: str
) -> Iterator[tuple[int, int, int]]:
    """Yield (value, poor values of a metric, events) of each value in some blocks, once for each level."""
    for level, blocks in sql.by_level(tiles):
        yield from connection.execute(
            f"/* web_vitals.ranks */ select value, sum(poor_{METRICS[METRICS.index(metric)]}), sum(events)"
            " from web_vitals_histogram where website = ? and breakdown = ? and level = ?"
            " and block in (select value from json_each(?))"
            " group by value",
            (website, breakdown, level, blocks),
        )


# --- verification

Stored = dict[Place, tuple[tuple[int, ...], Cells]]
"""Histograms by place, each with its columns `events` and `poor_...` and its cells."""


def stored_day(connection: sqlite3.Connection, website: int, day: int) -> Stored:
    """Return the stored histograms of a day and of its quarters."""
    found: Stored = {}
    for breakdown in (ALL, DEVICE, PATHNAME):
        for level, first, end in ((PART, day * PARTS_A_DAY, (day + 1) * PARTS_A_DAY), (0, day, day + 1)):
            rows = connection.execute(
                "/* web_vitals.of_day */ select block, value, * from web_vitals_histogram"
                " where website = ? and breakdown = ? and level = ? and block >= ? and block < ?",
                (website, breakdown, level, first, end),
            )
            for block, value, *row in rows:
                found[website, breakdown, level, block, value] = tuple(row[5:-1]), dict(unpacked(row[-1]))
    return found


def count_day(connection: sqlite3.Connection, website: int, day: int) -> Stored:
    """Return the histograms of a day and of its quarters, counted from raw rows."""
    rows = connection.execute(
        f"/* web_vitals.raw */ select {', '.join(COLUMNS['web_vitals'])} from web_vitals"
        " where website = ? and ts >= ? and ts < ?",
        (website, day * DAY_MS, (day + 1) * DAY_MS),
    )
    return {place: (_columns(cells), cells) for place, cells in cells_by_place(rows).items()}


def is_sum(connection: sqlite3.Connection, website: int, level: int, block: int) -> bool:
    """Return whether a block is the sum of its days, or not built."""
    days = block << level, (block + 1) << level
    if not rollup_state.built(connection, website, WEB_VITALS, [level], *days):
        return True
    for breakdown in (ALL, DEVICE, PATHNAME):
        sums: dict[int, Cells] = {}
        for _, value, cells in histograms(connection, website, breakdown, _days_of(level, block)):
            added(sums.setdefault(value, {}), unpacked(cells))
        stored = histograms(connection, website, breakdown, [(level, block)])
        if sums != {value: dict(unpacked(cells)) for _, value, cells in stored}:
            return False
    return True


def _count_repair(connection: sqlite3.Connection, website: int) -> None:
    """Change the versions of all histograms of a website, because numbers of events may become smaller."""
    connection.execute(
        "/* web_vitals.repaired */ insert into meta (name, value) values (?, 1)"
        " on conflict do update set value = value + 1",
        (_repairs(website),),
    )


def repair(connection: sqlite3.Connection, website: int, level: int, block: int) -> None:
    """Count a day again from raw rows; a block of days is marked as incomplete, so that it is rebuilt."""
    _count_repair(connection, website)
    if level:
        rollup_state.invalidate(connection, website, WEB_VITALS, [(level, block)])
        return
    unpacked_days.reopen(connection, website, [block], (WEB_VITALS,))
    right = count_day(connection, website, block)
    connection.executemany(
        "/* web_vitals.wrong */ delete from web_vitals_histogram"
        " where website = ? and breakdown = ? and level = ? and block = ? and value = ?",
        stored_day(connection, website, block).keys() - right.keys(),
    )
    _put(connection, {place: cells for place, (_, cells) in right.items()})
    rollup_state.invalidate_above(connection, website, WEB_VITALS, LEVELS, block)
