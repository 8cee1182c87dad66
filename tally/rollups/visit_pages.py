"""Entry and exit pages of visits: counted from visits, and stored for blocks of final days.

A block has 8 or 64 whole UTC days (levels 3 and 6). Single days (level 0) are stored only before their events expire,
because any other day is counted within 10 ms. A block is complete once it has its row of value 0, the visits without a
pageview: it is written last, and only if no day has changed since the block was counted. A day that becomes stale
deletes that row (tally/rollups/rollup_state.py), and the block is rebuilt once the day is final again.

Clients can send a million different pages. So a block is counted in parts by label: each part reads the same visits and
holds only its own pages in memory.
"""

import sqlite3
from collections.abc import Iterable, Sequence

import orjson

from tally.events.dimensions import FIELDS
from tally.rollups import field_values, imported_sums, rollup_state, unpacked_days
from tally.rollups.counts import Counts, merge
from tally.rollups.rollup_state import FINAL_AFTER_MS, IMPORTED, KEPT, PAGE_LEVELS
from tally.storage.sql import events as sql
from tally.storage.sql import visits as visit_statements
from tally.storage.sql.events import Scope
from tally.storage.sql.visits import SIDES
from tally.timestamps import DAY_MS

# 20 MB of memory.
MAX_PAGES = 60_000
_OF_VISITS = ("bounces", "pageviews", "duration_ms", "visitors", "events")
_COLUMNS = {
    "entry": ("entries", *(f"entry_{name}" for name in _OF_VISITS)),
    "exit": ("exits", *(f"exit_{name}" for name in _OF_VISITS)),
}
_COUNTS = ", ".join((*_COLUMNS["entry"], *_COLUMNS["exit"]))
ALL_COLUMNS = f"website, level, block, value, {_COUNTS}"
"""The columns of visit_page, for an insert."""
_SIDE = (0,) * len(_COLUMNS["entry"])
_NONE = [*_SIDE, *_SIDE]
ZEROS = ", 0" * len(_NONE)
"""The counts of a day without visits, for an insert."""

Part = tuple[int, int]
"""(remainder, divisor): the labels that have this remainder."""
WHOLE: Part = (0, 1)


def count_pages(connection: sqlite3.Connection, scope: Scope, side: str, part: Part = WHOLE) -> Iterable[Sequence[int]]:
    """Count the pages of a part of one UTC day: (label, visits, bounces, pageviews, ms, visitors, events).

    Label 0 is no pageview.
    """
    return connection.execute(*visit_statements.pages(scope, side, part))


def count_day(
    connection: sqlite3.Connection, website: int, day: int, state: int, side: str, part: Part = WHOLE
) -> Iterable[Sequence[int]]:
    """Count the pages of a part of a whole day in a state, which is not KEPT, as `count_pages`."""
    if state == IMPORTED:
        return imported_sums.pages(connection, website, day, side, part)
    return count_pages(connection, Scope(website, day * DAY_MS, (day + 1) * DAY_MS), side, part)


# --- building, in steps, each within a transaction of the caller


def next_block(connection: sqlite3.Connection, website: int, now_ms: int) -> tuple[int, int] | None:
    """Return the lowest, oldest block (level, number) that is missing and whose days are all final."""
    ready = (now_ms - FINAL_AFTER_MS) // DAY_MS  # days before this one are final
    row = connection.execute(
        "/* visit_pages.next_eight */ select own.block >> 3 from rollup_state as own where website = :website"
        " and level = 0"
        " and block < :ready >> 3 << 3 and state >= 2 and not exists (select 1 from visit_page as page"
        " where page.website = :website and page.level = 3 and page.block = own.block >> 3 and value = 0)"
        " and not exists (select 1 from rollup_state as day where day.website = :website and day.level = 0"
        " and day.block >= own.block >> 3 << 3 and day.block < ((own.block >> 3) + 1) << 3"
        " and (state < 2 or state = 3 and not exists (select 1 from visit_page as page"
        " where page.website = :website and page.level = 0 and page.block = day.block and value = 0)))"
        " order by block limit 1",
        {"website": website, "ready": ready},
    ).fetchone()
    if row:
        return 3, int(row[0])
    row = connection.execute(
        "/* visit_pages.next_sixty_four */ select own.block >> 6 from rollup_state as own"
        " where website = :website and level = 0 and block < :ready >> 6 << 6"
        " and not exists (select 1 from visit_page as page where page.website = :website and page.level = 6"
        " and page.block = own.block >> 6 and value = 0)"
        " and not exists (select 1 from rollup_state as day where day.website = :website and day.level = 0"
        " and day.block >= own.block >> 6 << 6 and day.block < ((own.block >> 6) + 1) << 6"
        " and not exists (select 1 from visit_page as page"
        " where page.website = :website and page.level = 3 and page.block = day.block >> 3 and value = 0))"
        " order by block limit 1",
        {"website": website, "ready": ready},
    ).fetchone()
    return (6, int(row[0])) if row else None


def version(connection: sqlite3.Connection, website: int, level: int, block: int) -> int | None:
    """Return the sum of the versions of a block's days; None where not all of them are final."""
    lowest, total = connection.execute(
        "/* visit_pages.version */ select min(state), total(version) from rollup_state"
        " where website = ? and level = 0 and block >= ? and block < ?",
        (website, block << level, (block + 1) << level),
    ).fetchone()
    return None if lowest is None or lowest < 2 else int(total)


def parts_of(connection: sqlite3.Connection, website: int, level: int, block: int) -> list[Part]:
    """Return the parts in which a block is counted. It has at most as many pages as its days have pathnames."""
    parts = 1 + field_values.most_values(connection, website, FIELDS.index("pathname"), level, block) // MAX_PAGES
    return [(part, parts) for part in range(parts)]


def count_block(connection: sqlite3.Connection, website: int, level: int, block: int, part: Part = WHOLE) -> Counts:
    """Count a part of a block, from the blocks below or from its days: label -> the counts of ALL_COLUMNS.

    The first part always has label 0. `connection` must be in a read transaction.
    """
    counts: Counts = {} if part[0] else {0: [*_NONE]}
    if level == PAGE_LEVELS[-1]:
        merge(counts, _stored(connection, website, 3, range(block << 3, (block + 1) << 3), part))
        return counts
    days = connection.execute(
        "/* visit_pages.days */ select block, state from rollup_state where website = ? and level = 0 and block >= ?"
        " and block < ?",
        (website, block << level, (block + 1) << level),
    ).fetchall()
    merge(counts, _stored(connection, website, 0, [day for day, state in days if state == KEPT], part))
    for day, state in days:
        if state == KEPT:
            continue
        unpacked_days.show(connection, website, [day])
        entries, exits = (count_day(connection, website, day, state, side, part) for side in SIDES)
        merge(counts, ((value, *figures, *_SIDE) for value, *figures in entries))
        merge(counts, ((value, *_SIDE, *figures) for value, *figures in exits))
    return counts


def stored(connection: sqlite3.Connection, website: int, level: int, block: int, part: Part = WHOLE) -> Counts:
    """Return the stored counts of a part of a block."""
    return {value: figures for value, *figures in _stored(connection, website, level, [block], part)}


def is_correct(connection: sqlite3.Connection, website: int, level: int, block: int) -> bool:
    """Return whether the stored counts of a block are correct."""
    place = website, level, block
    return all(
        stored(connection, *place, part) == count_block(connection, *place, part)
        for part in parts_of(connection, *place)
    )


def _stored(
    connection: sqlite3.Connection, website: int, level: int, blocks: Iterable[int], part: Part
) -> Iterable[Sequence[int]]:
    return connection.execute(
        f"/* visit_pages.stored */ select value, {_COUNTS} from visit_page"
        " where website = ? and level = ? and block in (select value from json_each(?)) and visit_page.value % ? = ?",
        (website, level, orjson.dumps(list(blocks)).decode(), part[1], part[0]),
    )


def drop(connection: sqlite3.Connection, website: int, level: int, block: int) -> int:
    """Delete up to ROWS_PER_STEP rows of a block; return their number."""
    old = connection.execute(
        "/* visit_pages.old */ select website, level, block, value from visit_page"
        " where website = ? and level = ? and block = ? limit ?",
        (website, level, block, rollup_state.ROWS_PER_STEP),
    ).fetchall()
    connection.executemany(
        "/* visit_pages.drop */ delete from visit_page where website = ? and level = ? and block = ? and value = ?", old
    )
    return len(old)


def add(connection: sqlite3.Connection, place: tuple[int, int, int], rows: Sequence[tuple[int, Sequence[int]]]) -> None:
    """Write some rows (label, counts) of a block (website, level, number)."""
    marks = ", ".join("?" * (4 + len(_NONE)))
    connection.executemany(
        f"/* visit_pages.add */ insert into visit_page ({ALL_COLUMNS}) values ({marks})",
        [(*place, value, *figures) for value, figures in rows],
    )


def finish_block(
    connection: sqlite3.Connection, place: tuple[int, int, int], before: int | None, without_view: Sequence[int]
) -> bool:
    """Complete a block whose other rows are written; return False where a day has changed since version `before`."""
    is_right = before is not None and version(connection, *place) == before
    if is_right:
        add(connection, place, [(0, without_view)])
    return is_right


def invalidate(connection: sqlite3.Connection, website: int, level: int, block: int) -> None:
    """Mark a block as incomplete, so that it is rebuilt."""
    connection.execute(
        "/* visit_pages.invalidate */ delete from visit_page where website = ? and level = ? and block = ?"
        " and value = 0",
        (website, level, block),
    )


# --- reading


def built(connection: sqlite3.Connection, website: int, days: Sequence[int]) -> set[tuple[int, int]]:
    """Return the complete blocks and days (level, number) that contain any of these days."""
    found: set[tuple[int, int]] = set()
    for level in PAGE_LEVELS:
        rows = connection.execute(
            "/* visit_pages.built */ select level, block from json_each(?) as wanted cross join visit_page"
            " where website = ? and level = ? and block = wanted.value and visit_page.value = 0",
            (orjson.dumps(sorted({day >> level for day in days})).decode(), website, level),
        )
        found.update(rows)
    return found


def sums(
    connection: sqlite3.Connection, website: int, side: str, tiles: Iterable[tuple[int, int]]
) -> Iterable[Sequence[int]]:
    """Yield (label, visits, bounces, pageviews, ms, visitors, events) of the pages in blocks, once for each level."""
    first, *rest = _COLUMNS[SIDES[SIDES.index(side)]]
    for level, blocks in sql.by_level(tiles):
        yield from connection.execute(
            f"/* visit_pages.sums */ select value, sum({first}), {', '.join(f'sum({name})' for name in rest)}"
            " from visit_page where website = ? and level = ? and block in (select value from json_each(?))"
            f" and {first} group by value",
            (website, level, blocks),
        )
