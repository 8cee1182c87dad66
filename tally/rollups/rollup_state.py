"""Which days and blocks of rollups are complete: the table `rollup_state`.

Every day with traffic has a row from its first event on, written in the transaction of that event. Its states:
- STALE: the totals are not complete. Reports count by column, or read imported sums, until the day is rebuilt.
- OPEN: events may still arrive, up to 72 hours past the end of the day. Every commit updates the totals
  (tally/rollups/totals.py). Once the day has ended, `is_over` is set, and the commit of each event that arrives from
  then on increases the version.
- FINAL: all events are included.
- KEPT: final, and retention has deleted the events. Totals and values, counted before, are the only data, and are
  never rebuilt.
- IMPORTED: the day has no events and is built from imported sums (tally/rollups/imported_sums.py). Its first event,
  and a change of the sums, make it stale.

Above the days are blocks of 32 days (tally/rollups/value_blocks.py), counted once all their days are final.
The row of a block is inserted as OPEN when its building begins (`begin`), in the transaction that found its days to be
complete, and becomes FINAL at its end (`finish`). A day that becomes stale deletes the row of the block above it
(`invalidate_block`): one that was being built stays incomplete, as it does where the program was killed.

That is the state of one kind, TRAFFIC. Others have rows of the same table: days on which the conversions of a saved
goal are counted; their kind is the number of the goal (tally/rollups/goal_days.py).

`version` starts at 1 and increases with every change of a day's complete data, so that a cached sum over days is valid
as long as the sum of their versions is the same. The row of a goal's day has the version that was counted.

All functions run within a transaction, or on a snapshot, of the caller.
"""

import sqlite3
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from tally.columns import deleted_rows
from tally.columns.statements import TRAFFIC
from tally.events.validation import AHEAD_MS, OLDEST_MS
from tally.timestamps import DAY_MS

STALE, OPEN, FINAL, KEPT, IMPORTED = range(5)
BLOCK_LEVEL = 5
"""A block has 2^BLOCK_LEVEL days."""
LEVELS = (0, BLOCK_LEVEL)
# The largest accepted age of an event, and a margin for corrections of the clock.
FINAL_AFTER_MS = OLDEST_MS + 2 * AHEAD_MS
# A step of background work that deletes or writes this many rows takes 15 to 25 ms.
ROWS_PER_STEP = 2_000


class Day(NamedTuple):
    """The state of a day."""

    state: int
    is_over: int
    version: int


def has_ended(known: Day) -> bool:
    """Return whether a day whose events are kept is over, so that its version grows with each event."""
    return known.state == FINAL or (known.state == OPEN and known.is_over == 1)


def is_final(day: int, now_ms: int) -> bool:
    """Return whether no event of this day can arrive any more."""
    return (day + 1) * DAY_MS + FINAL_AFTER_MS <= now_ms


def first_not_final(now_ms: int) -> int:
    """Return the first day that is not final."""
    return (now_ms - FINAL_AFTER_MS) // DAY_MS


def day_state(connection: sqlite3.Connection, website: int, day: int) -> Day | None:
    """Return the state of a day; None where it has no traffic."""
    row = connection.execute(
        "/* rollup_state.day */ select state, is_over, version from rollup_state where website = ?"
        " and kind = 0 and level = 0 and block = ?",
        (website, day),
    ).fetchone()
    return Day(*row) if row else None


def open_day(connection: sqlite3.Connection, website: int, day: int) -> None:
    """Insert the row of a day, in the transaction of its first event."""
    connection.execute(
        "/* rollup_state.open */ insert into rollup_state"
        " (website, kind, level, block, state, is_over, version) values (?, 0, 0, ?, ?, 0, 1)",
        (website, day, OPEN),
    )
    invalidate_block(connection, website, day)


def mark_stale(connection: sqlite3.Connection, website: int, days: Iterable[int]) -> None:
    """Mark days as stale, in a transaction that changes their raw rows in another way than the writer's commits.

    They are counted again from their rows, which are put back where only columns are left.
    """
    days = [*days]
    deleted_rows.reopen(connection, website, days, (TRAFFIC,))
    for day in days:
        connection.execute(
            "/* rollup_state.stale */ insert into rollup_state"
            " (website, kind, level, block, state, is_over, version) values (?, 0, 0, ?, ?, 0, 1)"
            " on conflict do update set state = excluded.state, is_over = 0, version = version + 1 where state != 3",
            (website, day, STALE),
        )
        invalidate_block(connection, website, day)


def unfinished(connection: sqlite3.Connection, website: int, state: int, limit: int = -1) -> list[tuple[int, Day]]:
    """Return the days that are STALE or OPEN, oldest first, at most `limit` of them (-1: all)."""
    rows = connection.execute(
        "/* rollup_state.unfinished */ select block, state, is_over, version from rollup_state"
        " where website = ? and kind = 0 and level = 0 and state = ? and state < 2 order by block limit ?",
        (website, state, limit),
    )
    return [(day, Day(*rest)) for day, *rest in rows]


def end_days(connection: sqlite3.Connection, website: int, today: int) -> bool:
    """Mark the open days before `today` as over; return whether there were any."""
    return bool(
        connection.execute(
            "/* rollup_state.end_days */ update rollup_state set is_over = 1"
            " where website = ? and kind = 0 and level = 0 and block < ? and state = 1 and state < 2 and is_over = 0",
            (website, today),
        ).rowcount
    )


def change_day(connection: sqlite3.Connection, website: int, day: int) -> None:
    """Increase the version of a day that is over, in the transaction of an event that arrived late."""
    connection.execute(
        "/* rollup_state.change_day */ update rollup_state set version = version + 1"
        " where website = ? and kind = 0 and level = 0 and block = ?",
        (website, day),
    )


def finish_day(connection: sqlite3.Connection, website: int, day: int, version: int) -> bool:
    """Make an open day that is over final; return False if it has changed since `version`."""
    return bool(
        connection.execute(
            "/* rollup_state.finish_day */ update rollup_state set state = ?"
            " where website = ? and kind = 0 and level = 0 and block = ? and state = 1 and version = ?",
            (FINAL, website, day, version),
        ).rowcount
    )


def finish_rebuild(connection: sqlite3.Connection, website: int, day: int, version: int, state: int) -> bool:
    """Give a stale day its state; return False if it was marked stale again since `version`."""
    return bool(
        connection.execute(
            "/* rollup_state.finish_rebuild */ update rollup_state set state = ?, is_over = ?"
            " where website = ? and kind = 0 and level = 0 and block = ? and state = 0 and version = ?",
            (state, state != OPEN, website, day, version),
        ).rowcount
    )


# --- blocks of days


def next_block(connection: sqlite3.Connection, website: int, now_ms: int) -> int | None:
    """Return the number of the oldest block that is missing and whose days are all final."""
    row = connection.execute(
        "/* rollup_state.next_block */ select day.block >> :level from rollup_state as day"
        " where website = :website and kind = 0 and level = 0 and block < :ready and state >= 2"
        " and (day.block >> :level) + 1 <= :ready >> :level"
        " and not exists (select 1 from rollup_state as own where own.website = :website and own.kind = 0"
        " and own.level = :level and own.block = day.block >> :level and own.state = 2)"
        " and not exists (select 1 from rollup_state as days where days.website = :website and days.kind = 0"
        " and days.level = 0 and days.state < 2 and days.block >= (day.block >> :level) << :level"
        " and days.block < ((day.block >> :level) + 1) << :level) order by block limit 1",
        {"website": website, "level": BLOCK_LEVEL, "ready": first_not_final(now_ms)},
    ).fetchone()
    return None if row is None else int(row[0])


def begin(connection: sqlite3.Connection, website: int, kind: int, level: int, block: int, version: int = 0) -> None:
    """Mark a block, or a day of a goal, as being built."""
    connection.execute(
        "/* rollup_state.begin */ insert or replace into rollup_state"
        " (website, kind, level, block, state, is_over, version) values (?, ?, ?, ?, ?, 0, ?)",
        (website, kind, level, block, OPEN, version),
    )


def finish(connection: sqlite3.Connection, website: int, kind: int, level: int, block: int) -> bool:
    """Mark what was begun as complete; return False if it was invalidated since."""
    return bool(
        connection.execute(
            "/* rollup_state.finish */ update rollup_state set state = ?"
            " where website = ? and kind = ? and level = ? and block = ? and state = 1",
            (FINAL, website, kind, level, block),
        ).rowcount
    )


def invalidate_block(connection: sqlite3.Connection, website: int, day: int) -> None:
    """Mark the block that has a day as incomplete, also while it is being built."""
    connection.execute(
        "/* rollup_state.invalidate */ delete from rollup_state"
        " where website = ? and kind = 0 and level = ? and block = ?",
        (website, BLOCK_LEVEL, day >> BLOCK_LEVEL),
    )


# --- reading


class Blocks(NamedTuple):
    """The state of a range of days: the days with traffic, and the (level, number) of the blocks built above them."""

    days: dict[int, Day]
    built: set[tuple[int, int]]


def blocks(connection: sqlite3.Connection, website: int, first: int, end: int) -> Blocks:
    """Return the state of the days in [first, end)."""
    rows = connection.execute(
        "/* rollup_state.days */ select block, state, is_over, version from rollup_state"
        " where website = ? and kind = 0 and level = 0 and block >= ? and block < ?",
        (website, first, end),
    )
    days = {row[0]: Day(*row[1:]) for row in rows}
    return Blocks(days, built(connection, website, first, end))


def built(connection: sqlite3.Connection, website: int, first: int, end: int) -> set[tuple[int, int]]:
    """Return the (level, number) of the complete blocks that have days in [first, end)."""
    rows = connection.execute(
        "/* rollup_state.built */ select level, block from rollup_state"
        " where website = ? and kind = 0 and level = ? and block >= ? and block <= ? and state = 2",
        (website, BLOCK_LEVEL, first >> BLOCK_LEVEL, (end - 1) >> BLOCK_LEVEL),
    )
    return set(rows)


def tiles(levels: Sequence[int], built: Container[tuple[int, int]], first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the fewest built blocks (level, number) and single days (level 0) that tile the days in [first, end)."""
    day = first
    while day < end:
        level = next(
            (
                level
                for level in levels[:0:-1]
                if not day & ((1 << level) - 1) and day + (1 << level) <= end and (level, day >> level) in built
            ),
            0,
        )
        yield level, day >> level
        day += 1 << level


def tiles_of(known: Blocks, from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
    """Yield the fewest built blocks (level, number) and single days (level 0) of a range, without days that have no
    traffic."""
    first, end = -(-from_ms // DAY_MS), to_ms // DAY_MS
    if from_ms // DAY_MS < first and first - 1 in known.days:
        yield 0, first - 1
    yield from (tile for tile in tiles(LEVELS, known.built, first, end) if tile[0] or tile[1] in known.days)
    if first <= end < -(-to_ms // DAY_MS) and end in known.days:
        yield 0, end
