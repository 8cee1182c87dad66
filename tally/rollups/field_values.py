"""Counts of each field's values over whole UTC days: the table `rollup`.

tally/rollups/rollup_state.py defines which of them are complete. Blocks: tally/rollups/value_blocks.py. This module has
the steps that build days:
- An open day: `roll_up` includes its new events a few seconds after they arrived, `roll_up_late` an event whose time
  was rolled up before. tally/storage/visitor_values.py stores which values each visitor of the day has already, so
  that a visitor counts once for a value.
- A stale day: `count_day` counts a field from raw rows.
- Dimensions of visits (ACQUISITION in tally/events/dimensions.py): a late event may change the value of a whole visit,
  so that an open day has no values of them in `rollup`. Reports count them from the day's visits; `count_day` does,
  too, when the day becomes final. The same holds for entry and exit pages, with other figures (PAGE_NUMBERS): they are
  in `rollup_block` alone (tally/rollups/value_blocks.py).

Each step runs within a transaction of the caller and is short: it rolls up ROLL_UP_EVENTS events, or deletes or writes
ROWS_PER_STEP rows. tally/maintenance/rollup_builder.py calls them in the background.
"""

import sqlite3
from collections.abc import Iterable, Sequence

from tally.engine.values import Scope
from tally.events.dimensions import (
    ACQUISITION,
    ENTRY_PAGE,
    EVENT_FIELDS,
    EVENT_NAME,
    EXIT_PAGE,
    FIELDS,
    PAGES,
    field_number,
)
from tally.rollups import imported_sums
from tally.rollups.rollup_state import ROWS_PER_STEP
from tally.storage import visitor_values
from tally.storage.sql import events as sql
from tally.storage.sql.events import IS_EVENT, IS_PAGEVIEW
from tally.storage.sql.visits import pages
from tally.storage.visitor_values import NAMES, NO_COLUMN
from tally.timestamps import DAY_MS

OF_VISITS = tuple(map(field_number, ACQUISITION))
"""The fields of table rollup that are counted from visits, of days that are final only."""
NUMBERS = (*map(field_number, EVENT_FIELDS), EVENT_NAME, *OF_VISITS)
"""The fields of table rollup. Value 0 of EVENT_NAME, which no event name has, counts all traffic."""
PAGE_NUMBERS = (ENTRY_PAGE, EXIT_PAGE)
"""Fields of the pages, 0 is none, that visits begin and end with. Their figures: visits, bounces, the pageviews and
milliseconds of the visits, visitors and events."""
FIGURES_OF = {**dict.fromkeys(NUMBERS, 3), **dict.fromkeys(PAGE_NUMBERS, 6)}
"""The fields of table rollup_block, and how many figures their values have."""
# 15 to 25 ms on two cores.
ROLL_UP_EVENTS = 500
# Trackers send gathered events every second or so. Events that arrive later than this are rolled up one by one.
ROLL_UP_AFTER_MS = 10_000

_ROLLUP_COLUMNS = "website, field, day, value, visitors, pageviews, events"
_LABELS = (*EVENT_FIELDS, NAMES)
_OF_EVENTS = (*map(field_number, EVENT_FIELDS), EVENT_NAME)
# A field's number, its column, and a condition: events without a name are no value of event_name.
_COLUMNS = (
    *((number, column, "") for number, column in zip(_OF_EVENTS, (*EVENT_FIELDS, NO_COLUMN), strict=True)),
    (EVENT_NAME, NAMES, f" and {NAMES} > 0"),
)


def field_name(field: int) -> str:
    """Return the name of a field, for messages."""
    if field in PAGE_NUMBERS:
        return PAGES[PAGE_NUMBERS.index(field)]
    return FIELDS[field] if field < len(FIELDS) else "all traffic and event_name"


# --- an open day


def roll_up_end(connection: sqlite3.Connection, website: int, day: int, from_ms: int, now_ms: int) -> int:
    """Return the time up to which the next `roll_up` goes; `from_ms` where there is nothing to roll up.

    Without further events the time does not follow the clock, because each change is a commit; it moves to the end of
    the day once that has passed.
    """
    end = min((day + 1) * DAY_MS, now_ms - ROLL_UP_AFTER_MS)
    span = "from event where website = ? and ts >= ? and ts < ? order by ts limit 1"
    if end < (day + 1) * DAY_MS:
        first = connection.execute(
            f"/* field_values.roll_up_begin */ select ts {span}", (website, from_ms, end)
        ).fetchone()
        if first is None:
            return from_ms
    row = connection.execute(
        f"/* field_values.roll_up_end */ select ts {span} offset ?", (website, from_ms, end, ROLL_UP_EVENTS)
    ).fetchone()
    return max(end if row is None else max(row[0], from_ms + 1), from_ms)


def roll_up(connection: sqlite3.Connection, website: int, day: int, from_ms: int, end_ms: int) -> None:
    """Include the events in [from_ms, end_ms) of an open day. Takes 30 to 45 µs an event."""
    _clear_new_events(connection)
    connection.execute(
        f"/* field_values.new_events */ insert into temp.fresh select visitor, type, {', '.join(_LABELS)} from event"
        " where website = ? and ts >= ? and ts < ?",
        (website, from_ms, end_ms),
    )
    _add_new_events(connection, website, day)
    connection.execute(
        "/* field_values.rolled_up */ update rollup_state set rolled_up_to_ms = ?"
        " where website = ? and kind = 0 and level = 0 and block = ?",
        (end_ms, website, day),
    )


def roll_up_late(connection: sqlite3.Connection, website: int, day: int, events: Sequence[tuple[object, ...]]) -> None:
    """Include events (visitor, type, the fields, event_name) from before the day's `rolled_up_to_ms`."""
    _clear_new_events(connection)
    marks = ", ".join("?" * (2 + len(_LABELS)))
    connection.executemany(f"/* field_values.late */ insert into temp.fresh values ({marks})", events)
    _add_new_events(connection, website, day)
    connection.execute(
        "/* field_values.changed */ update rollup_state set version = version + 1"
        " where website = ? and kind = 0 and level = 0 and block = ?",
        (website, day),
    )


def _clear_new_events(connection: sqlite3.Connection) -> None:
    columns = ", ".join(f"{column} integer not null" for column in ("visitor", "type", *_LABELS))
    connection.execute(f"/* field_values.fresh */ create temp table if not exists fresh ({columns})")
    connection.execute("/* field_values.clear */ delete from temp.fresh")


def _add_new_events(connection: sqlite3.Connection, website: int, day: int) -> None:
    for field, column, only in _COLUMNS:
        connection.execute(
            f"/* field_values.roll_up */ insert into rollup ({_ROLLUP_COLUMNS})"
            f" select ?1, ?3, ?2, value, sum({visitor_values.is_new(column)}), sum(pageviews), sum(events)"
            f" from (select {column} as value, visitor, sum({IS_PAGEVIEW}) as pageviews, sum({IS_EVENT}) as events"
            f" from temp.fresh where true{only} group by 1, visitor) as news where true group by value"
            " on conflict do update set visitors = visitors + excluded.visitors, pageviews = pageviews +"
            " excluded.pageviews,"
            " events = events + excluded.events",
            (website, day, field),
        )
    visitor_values.add_visitors(connection, website, day)
    for field, column in zip(_OF_EVENTS, _LABELS, strict=True):
        visitor_values.add_values(connection, website, day, field, column)


# --- deletion, in steps; each returns the number of deleted rows


def delete_visitors(connection: sqlite3.Connection, website: int, day: int) -> int:
    """Delete up to ROWS_PER_STEP rows of the values of a day's visitors."""
    return visitor_values.drop(connection, website, day, ROWS_PER_STEP)


def delete_values(connection: sqlite3.Connection, website: int, day: int, fields: Sequence[int] = NUMBERS) -> int:
    """Delete up to ROWS_PER_STEP values of a day."""
    deleted = 0
    for field in fields:
        old = connection.execute(
            "/* field_values.old */ select website, field, day, value from rollup"
            " where website = ? and field = ? and day = ? limit ?",
            (website, field, day, ROWS_PER_STEP - deleted),
        ).fetchall()
        connection.executemany(
            "/* field_values.delete */ delete from rollup where website = ? and field = ? and day = ? and value = ?",
            old,
        )
        deleted += len(old)
    return deleted


# --- a day from raw events


def count_day(
    connection: sqlite3.Connection, website: int, day: int, field: int, end_ms: int | None = None
) -> list[tuple[int, ...]]:
    """Count a field's values over a UTC day: (value, visitors, pageviews, events).

    A day without events is counted from imported sums.

    Fields of events: up to `end_ms`, about 0.8 µs an event. Fields of visits: over the whole day, 0.5 µs a visit.
    """
    if field in OF_VISITS:
        scope = Scope(website, day * DAY_MS, (day + 1) * DAY_MS)
        found = connection.execute(*sql.counts(scope, field_name(field))).fetchall()
        return found or imported_sums.values(connection, website, day, field)
    rows: list[tuple[int, ...]] = []
    for column, only in ((column, only) for number, column, only in _COLUMNS if number == field):
        rows += connection.execute(
            f"/* field_values.count */ select {column}, count(distinct visitor), sum({IS_PAGEVIEW}), sum({IS_EVENT})"
            f" from event where website = ? and ts >= ? and ts < ?{only} group by 1",
            (website, day * DAY_MS, (day + 1) * DAY_MS if end_ms is None else end_ms),
        )
    is_whole = end_ms in (None, (day + 1) * DAY_MS)
    return rows if rows or not is_whole else imported_sums.values(connection, website, day, field)


def count_pages(connection: sqlite3.Connection, website: int, day: int, field: int) -> Iterable[Sequence[int]]:
    """Count the entry or exit pages of a UTC day: (label, the figures of PAGE_NUMBERS), by label."""
    if imported_sums.is_used(connection, website, day):
        return imported_sums.pages(connection, website, day, field)
    return connection.execute(*pages(Scope(website, day * DAY_MS, (day + 1) * DAY_MS), field_name(field)))


def of_sums(connection: sqlite3.Connection, website: int, day: int, field: int) -> Iterable[Sequence[int]]:
    """Return what `count_day`, or `count_pages`, counts of a day without events, from imported sums."""
    from_sums = imported_sums.pages if field in PAGE_NUMBERS else imported_sums.values
    return from_sums(connection, website, day, field)


def add_values(connection: sqlite3.Connection, place: tuple[int, int, int], rows: Sequence[Sequence[int]]) -> None:
    """Write rows of `count_day` for a place (website, field, day)."""
    connection.executemany(
        f"/* field_values.add */ insert into rollup ({_ROLLUP_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?)",
        [(*place, *row) for row in rows],
    )
