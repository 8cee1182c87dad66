"""The values of each field over whole UTC days: what is kept of them, what of it is right, and the steps that build it.

A rollup is exact or not used. `rollup_state` says which is which: every day with traffic has a row there from its first
event on, in the same transaction. Its states:
- STALE: neither totals nor values of the day are right; a question reads raw rows until it is built anew.
- OPEN: events may still arrive (72 hours past its end). Totals are kept by every commit (tally/rollups/totals.py).
  Values are folded in a little later, up to the moment `rolled_up_to_ms`: every event before it is in, none from it on.
  A late event, from before that moment, is folded in within its own transaction. tally/storage/visitor_values.py tells
  which values a visitor has already.
- FINAL: all of it is in rollup, the values of visitors are deleted.
- KEPT: final, and its raw rows are gone by the owner's wish: the rollup is the data now, never dropped.
Above the days lie blocks of 4, 8, 16 ... 256 of them, built from those below once all their days are final; a day that
becomes stale takes the blocks above it along. `version` begins at 1 and grows with every change of what was complete,
so that sums over complete days may be remembered as long as the sum of their versions is the same.

Everything here runs inside a transaction of the caller, or reads a snapshot of his; nothing takes long: a step folds
FOLD_EVENTS or deletes or writes ROWS_A_STEP rows. The background work that calls them is in
tally/maintenance/rollup_builder.py.
"""

import sqlite3
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tally.events.dimensions import FIELDS
from tally.events.validation import AHEAD_MS, OLDEST_MS
from tally.storage import visitor_values
from tally.storage.visitor_values import NAMES, NO_COLUMN
from tally.timestamps import DAY_MS

STALE, OPEN, FINAL, KEPT = range(4)
# Blocks of 2 days would be a quarter of all rows and save little: 4 days at the most at either end of a range.
LEVELS = (0, 2, 3, 4, 5, 6, 7, 8)
# Of table visit_page (tally/rollups/visit_pages.py).
PAGE_LEVELS = (0, 3, 6)
ALL = len(FIELDS)
"""The number of the field that is event_name; its value 0, which no name has, is all of the traffic."""
# our choice: 15 to 25 ms on two cores.
FOLD_EVENTS = 500
ROWS_A_STEP = 2_000
# our choice: trackers send what they have gathered every second or so; what comes later than this is folded one by one.
FOLD_AFTER_MS = 10_000
# The seed's oldest timestamp, and a margin for a clock that is set a little.
FINAL_AFTER_MS = OLDEST_MS + 2 * AHEAD_MS

_LABELLED = (*FIELDS, NAMES)

LAST_VALUE = 1 << 62
"""Above the number of every label."""

# A field's number, column, and which events have it: most have no name, and those are no value of ALL.
_COLUMNS = (*((n, column, "") for n, column in enumerate((*FIELDS, NO_COLUMN))), (ALL, NAMES, f" and {NAMES} > 0"))


class Day(NamedTuple):
    """A day's row in `rollup_state`."""

    state: int
    folded_ms: int
    version: int


def name_of(field: int) -> str:
    """A field's name."""
    return (*FIELDS, "all traffic and event_name")[field]


def number_of(field: str) -> int:
    """The number of one of the 14 fields or event_name."""
    return ALL if field == NAMES else FIELDS.index(field)


def is_final(day: int, now_ms: int) -> bool:
    """Whether no event of that UTC day can arrive any more."""
    return (day + 1) * DAY_MS + FINAL_AFTER_MS <= now_ms


def state(connection: sqlite3.Connection, website: int, day: int) -> Day | None:
    """What is right of a day; None where it has no traffic."""
    row = connection.execute(
        "/* fields.state */ select state, rolled_up_to_ms, version from rollup_state where website = ?"
        " and level = 0 and block = ?",
        (website, day),
    ).fetchone()
    return Day(*row) if row else None


def open_day(connection: sqlite3.Connection, website: int, day: int) -> None:
    """Takes up a day with its first event."""
    connection.execute(
        "/* fields.open */ insert into rollup_state values (?, 0, ?, ?, ?, 1)", (website, day, OPEN, day * DAY_MS)
    )
    _unbuild(connection, website, day)


def mark_stale(connection: sqlite3.Connection, website: int, days: Iterable[int]) -> None:
    """To be called in the transaction that changes rows of these days in another way than the writer's commits do."""
    for day in days:
        connection.execute(
            "/* fields.stale */ insert into rollup_state values (?, 0, ?, ?, ?, 1) on conflict do update"
            " set state = excluded.state, rolled_up_to_ms = excluded.rolled_up_to_ms, version = version + 1"
            " where state < 3",
            (website, day, STALE, day * DAY_MS),
        )
        _unbuild(connection, website, day)


def _unbuild(connection: sqlite3.Connection, website: int, day: int) -> None:
    connection.executemany(
        "/* fields.unbuild */ delete from rollup_state where website = ? and level = ? and block = ?",
        [(website, level, day >> level) for level in LEVELS[1:]],
    )
    # What is kept of a day whose events are gone stays.
    connection.executemany(
        "/* fields.unbuild_pages */ delete from visit_page where website = ? and level = ? and block = ? and value = 0"
        " and not exists (select 1 from rollup_state where website = ? and level = 0 and block = ? and state = 3)",
        [(website, level, day >> level, website, day) for level in PAGE_LEVELS],
    )


def unfinished(connection: sqlite3.Connection, website: int, state: int, limit: int = -1) -> list[tuple[int, Day]]:
    """Return the days that are STALE or OPEN, oldest first, at most `limit` of them (-1: all)."""
    rows = connection.execute(
        "/* fields.unfinished */ select block, state, rolled_up_to_ms, version from rollup_state"
        " where website = ? and level = 0 and state = ? and state < 2 order by block limit ?",
        (website, state, limit),
    )
    return [(day, Day(*rest)) for day, *rest in rows]


# --- an open day


def fold_end(connection: sqlite3.Connection, website: int, day: int, folded_ms: int, now_ms: int) -> int:
    """Return the moment up to which the next fold goes; `folded_ms` where there is nothing to fold.

    A day without further events is not moved on with the clock: each move is a commit. Only its end is.
    """
    end = min((day + 1) * DAY_MS, now_ms - FOLD_AFTER_MS)
    span = "from event where website = ? and ts >= ? and ts < ? order by ts limit 1"
    if end < (day + 1) * DAY_MS:
        first = connection.execute(f"/* fields.fold_begin */ select ts {span}", (website, folded_ms, end)).fetchone()
        if first is None:
            return folded_ms
    row = connection.execute(
        f"/* fields.fold_end */ select ts {span} offset ?", (website, folded_ms, end, FOLD_EVENTS)
    ).fetchone()
    return max(end if row is None else max(row[0], folded_ms + 1), folded_ms)


def fold(connection: sqlite3.Connection, website: int, day: int, folded_ms: int, end_ms: int) -> None:
    """Folds the events in [folded_ms, end_ms) of an open day in: 30 to 45 µs an event."""
    _empty_fresh(connection)
    connection.execute(
        f"/* fields.gather */ insert into temp.fresh select visitor, type, {', '.join(_LABELLED)} from event"
        " where website = ? and ts >= ? and ts < ?",
        (website, folded_ms, end_ms),
    )
    _fold_fresh(connection, website, day)
    connection.execute(
        "/* fields.folded */ update rollup_state set rolled_up_to_ms = ? where website = ? and level = 0 and block = ?",
        (end_ms, website, day),
    )


def fold_late(connection: sqlite3.Connection, website: int, day: int, events: Sequence[tuple[object, ...]]) -> None:
    """Folds events (visitor, type, the fields, event_name) in that came after their moment was folded."""
    _empty_fresh(connection)
    marks = ", ".join("?" * (2 + len(_LABELLED)))
    connection.executemany(f"/* fields.late */ insert into temp.fresh values ({marks})", events)
    _fold_fresh(connection, website, day)
    connection.execute(
        "/* fields.changed */ update rollup_state set version = version + 1 where website = ? and level = 0"
        " and block = ?",
        (website, day),
    )


def _empty_fresh(connection: sqlite3.Connection) -> None:
    columns = ", ".join(f"{column} integer not null" for column in ("visitor", "type", *_LABELLED))
    connection.execute(f"/* fields.fresh */ create temp table if not exists fresh ({columns})")
    connection.execute("/* fields.empty */ delete from temp.fresh")


def _fold_fresh(connection: sqlite3.Connection, website: int, day: int) -> None:
    for field, column, only in _COLUMNS:
        connection.execute(
            "/* fields.fold */ insert into rollup"
            f" select ?1, ?3, 0, ?2, value, sum({visitor_values.is_new(column)}), sum(pageviews), sum(events)"
            f" from (select {column} as value, visitor, sum(type <= 1) as pageviews, sum(type >= 2) as events"
            f" from temp.fresh where true{only} group by 1, visitor) as news where true group by value"
            " on conflict do update set visitors = visitors + excluded.visitors, pageviews = pageviews +"
            " excluded.pageviews,"
            " events = events + excluded.events",
            (website, day, field),
        )
    visitor_values.add_visitors(connection, website, day)
    for field, column in enumerate(_LABELLED):
        visitor_values.add_values(connection, website, day, field, column)


def finish_day(connection: sqlite3.Connection, website: int, day: int) -> None:
    """An open day that is folded to its end, and whose visitors' values are deleted, is final."""
    connection.execute(
        "/* fields.finish */ update rollup_state set state = ? where website = ? and level = 0 and block = ?",
        (FINAL, website, day),
    )


# --- taking away, in steps: how many rows a step took


def drop_visitors(connection: sqlite3.Connection, website: int, day: int) -> int:
    """Delete up to ROWS_A_STEP rows of which visitors of a day have which values."""
    return visitor_values.drop(connection, website, day, ROWS_A_STEP)


def drop_values(connection: sqlite3.Connection, website: int, level: int, block: int) -> int:
    """Deletes up to ROWS_A_STEP values of a block."""
    gone = 0
    for field in range(ALL + 1):
        old = connection.execute(
            "/* fields.old_values */ select website, field, level, block, value from rollup"
            " where website = ? and field = ? and level = ? and block = ? limit ?",
            (website, field, level, block, ROWS_A_STEP - gone),
        ).fetchall()
        connection.executemany(
            "/* fields.drop_values */ delete from rollup"
            " where website = ? and field = ? and level = ? and block = ? and value = ?",
            old,
        )
        gone += len(old)
    return gone


# --- a day from its raw rows


def counted(
    connection: sqlite3.Connection, website: int, day: int, field: int, end_ms: int | None = None
) -> list[tuple[int, int, int, int]]:
    """A field's values over a UTC day, or its part up to `end_ms`, from raw rows: (value, visitors, views, events).

    About 0.8 µs an event.
    """
    rows: list[tuple[int, int, int, int]] = []
    for column, only in ((column, only) for number, column, only in _COLUMNS if number == field):
        rows += connection.execute(
            f"/* fields.count */ select {column}, count(distinct visitor), sum(type <= 1), sum(type >= 2) from event"
            f" where website = ? and ts >= ? and ts < ?{only} group by 1",
            (website, day * DAY_MS, (day + 1) * DAY_MS if end_ms is None else end_ms),
        )
    return rows


def add_values(connection: sqlite3.Connection, place: tuple[int, int, int, int], rows: Sequence[Sequence[int]]) -> None:
    """Writes rows of `counted` for a place (website, field, level, block)."""
    connection.executemany(
        "/* fields.add */ insert into rollup values (?, ?, ?, ?, ?, ?, ?, ?)", [(*place, *row) for row in rows]
    )


def set_day(connection: sqlite3.Connection, website: int, day: int, version: int, new: int) -> bool:
    """Calls a stale day open (nothing folded) or final, if nobody has marked it stale again meanwhile."""
    folded_ms = (day + 1) * DAY_MS if new == FINAL else day * DAY_MS
    return bool(
        connection.execute(
            "/* fields.set_day */ update rollup_state set state = ?, rolled_up_to_ms = ?"
            " where website = ? and level = 0 and block = ? and state = 0 and version = ?",
            (new, folded_ms, website, day, version),
        ).rowcount
    )


# --- blocks of days


def next_block(connection: sqlite3.Connection, website: int, now_ms: int) -> tuple[int, int] | None:
    """The lowest, oldest block (level, number) that can be built from blocks below it and is not."""
    ready = (now_ms - FINAL_AFTER_MS) // DAY_MS  # days before this one are final
    for below, level in pairwise(LEVELS):
        row = connection.execute(
            "/* fields.next_block */ select part.block >> :step from rollup_state as part where website = :website"
            " and level = :below and block < :ready >> :below and state >= 2"
            " and (part.block >> :step) + 1 <= :ready >> :level"
            " and not exists (select 1 from rollup_state as own where own.website = :website and own.level = :level"
            " and own.block = part.block >> :step)"
            " and not exists (select 1 from rollup_state as days where days.website = :website and days.level = 0"
            " and days.state < 2 and days.block >= (part.block >> :step) << :level"
            " and days.block < ((part.block >> :step) + 1) << :level) order by block limit 1",
            {"website": website, "below": below, "level": level, "step": level - below, "ready": ready},
        ).fetchone()
        if row:
            return level, int(row[0])
    return None


def merge(connection: sqlite3.Connection, website: int, field: int, level: int, block: int, after: int) -> int:
    """Adds the blocks below up, for some values above `after`; the last of them, LAST_VALUE at the end."""
    below = LEVELS[LEVELS.index(level) - 1]
    parts = range(block << (level - below), (block + 1) << (level - below))
    end = min(_merge_end(connection, (website, field, below, part), after, ROWS_A_STEP // len(parts)) for part in parts)
    connection.execute(
        "/* fields.merge */ insert into rollup"
        " select website, field, ?, ?, value, sum(visitors), sum(pageviews), sum(events) from rollup"
        f" where website = ? and field = ? and level = ? and block in ({', '.join(map(str, parts))})"
        " and value > ? and value <= ? group by value",
        (level, block, website, field, below, after, end),
    )
    return end


def _merge_end(connection: sqlite3.Connection, place: tuple[int, int, int, int], after: int, rows: int) -> int:
    """Up to which value so many rows of a block (website, field, level, block) go."""
    row = connection.execute(
        "/* fields.merge_end */ select value from rollup where website = ? and field = ? and level = ? and block = ?"
        " and value > ? order by value limit 1 offset ?",
        (*place, after, rows),
    ).fetchone()
    return LAST_VALUE if row is None else int(row[0])


def set_block(connection: sqlite3.Connection, website: int, level: int, block: int) -> bool:
    """Calls a block built, unless one of its days has become stale meanwhile."""
    first, end = block << level, (block + 1) << level
    lowest, version = connection.execute(
        "/* fields.days_of */ select min(state), total(version) from rollup_state"
        " where website = ? and level = 0 and block >= ? and block < ?",
        (website, first, end),
    ).fetchone()
    if lowest is None or lowest < FINAL:
        return False
    connection.execute(
        "/* fields.set_block */ insert into rollup_state values (?, ?, ?, ?, 0, ?)",
        (website, level, block, FINAL, int(version)),
    )
    return True


# --- what a question may use


class Blocks(NamedTuple):
    """The rows of `rollup_state` for a stretch of days: the days, and the numbers of blocks built above them."""

    days: dict[int, Day]
    built: set[tuple[int, int]]


def blocks(connection: sqlite3.Connection, website: int, first: int, end: int) -> Blocks:
    """What is right of the days in [first, end)."""
    days: dict[int, Day] = {}
    built: set[tuple[int, int]] = set()
    for level in LEVELS:
        rows = connection.execute(
            "/* fields.blocks */ select block, state, rolled_up_to_ms, version from rollup_state"
            " where website = ? and level = ? and block >= ? and block <= ?",
            (website, level, first >> level, (end - 1) >> level),
        )
        if level:
            built.update((level, row[0]) for row in rows)
        else:
            days = {row[0]: Day(*row[1:]) for row in rows}
    return Blocks(days, built)


def tiles(levels: Sequence[int], built: Container[tuple[int, int]], first: int, end: int) -> Iterator[tuple[int, int]]:
    """The fewest of the blocks (level, number) that are built, and single days, that tile the days in [first, end)."""
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


def cover(known: Blocks, first: int, end: int) -> list[tuple[int, int]]:
    """The tiles of the days in [first, end), days without traffic left out. All days in it must be complete."""
    return [tile for tile in tiles(LEVELS, known.built, first, end) if tile[0] or tile[1] in known.days]
