"""Imported sums: figures of a day by value of a field, as another system exports them, without events.

Tables `imported_field` and `imported_sum` have them as imported. A day is counted from its own events or, if it has
none, from its sums: `count_day` of tally/rollups/totals.py and tally/reports/value_sums.py read them here where the
day has no event. So they are added up over blocks of days and verified like any day; its state is IMPORTED
(tally/rollups/rollup_state.py). Until it is, after an import or its undo, the day is stale, and reports read its sums
here.

- A day of the source, in whatever time zone, is the website's day of the same date. Its totals are those of one quarter
  hour, OF_DAY_MS after midnight, which lies in the local day of that date in all zones from 10 hours behind the
  website's days to 13:45 hours ahead of them. So a report by whole local days counts it in the right one. Reports leave
  it out where a filter holds, where a range begins or ends inside the day, and by hour (`Scope.whole_days`).
- The sums of a field on a day are those of one import. Rows of another one are duplicates.

All functions run within a transaction, or on a snapshot, of the caller.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import NamedTuple

import orjson

from tally.engine.archive import FIELD_NUMBERS, FIGURES
from tally.engine.values import ImportedDays
from tally.events.dimensions import ALL_TRAFFIC
from tally.rollups import rollup_state
from tally.rollups.rollup_state import IMPORTED, KEPT, STALE
from tally.timestamps import DAY_MS, HOUR_MS

OF_DAY_MS = 10 * HOUR_MS
"""The time of a day at which its sums count."""

_COLUMNS = ", ".join(FIGURES)
# A field rarely has more than a hundred values on a day.
_FIELDS_PER_STEP = 20


class Sum(NamedTuple):
    """The figures of a value (a label) of a field on a day. `known`: bits of those that the source has."""

    field: int
    day: int
    value: int
    known: int
    figures: Sequence[int]


def others(
    connection: sqlite3.Connection, website: int, number: int, places: Iterable[tuple[int, int]]
) -> set[tuple[int, int]]:
    """Return those places (field, day) that have sums of another import than `number`."""
    return set(
        connection.execute(
            "/* imported_sums.others */ select field, day from json_each(?) as sent cross join imported_field"
            " where website = ? and field = json_extract(sent.value, '$[0]')"
            " and day = json_extract(sent.value, '$[1]') and import != ?",
            (orjson.dumps(sorted(places)).decode(), website, number),
        )
    )


def add(connection: sqlite3.Connection, website: int, number: int, sums: Sequence[Sum]) -> None:
    """Add sums of an import to those that are stored; days without events become stale."""
    known: dict[tuple[int, int], int] = {}
    for row in sums:
        known[row.field, row.day] = known.get((row.field, row.day), 0) | row.known
    connection.executemany(
        "/* imported_sums.fields */ insert into imported_field (website, field, day, import, figures)"
        " values (?, ?, ?, ?, ?) on conflict do update set figures = figures | excluded.figures",
        [(website, *place, number, bits) for place, bits in known.items()],
    )
    connection.executemany(
        f"/* imported_sums.add */ insert into imported_sum (website, field, day, value, {_COLUMNS})"
        f" values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do update set"
        f" {', '.join(f'{name} = {name} + excluded.{name}' for name in FIGURES)}",
        [(website, *row[:3], *row.figures) for row in sums],
    )
    _mark_stale(connection, website, {row.day for row in sums})


def _mark_stale(connection: sqlite3.Connection, website: int, days: Iterable[int]) -> None:
    # Days with own events do not change, nor do those whose events have expired.
    days = {*days}
    rollup_state.mark_stale(connection, website, sorted(days - _days_with_events(connection, website, days)))
    # A running server that finds an id taken reads again what it keeps in memory.
    connection.execute("/* imported_sums.changed */ update meta set value = value + 1 where name = 'next_id'")


def _days_with_events(connection: sqlite3.Connection, website: int, days: Iterable[int]) -> set[int]:
    rows = connection.execute(
        "/* imported_sums.days_with_events */ select value from json_each(?2) as of where exists"
        f" (select 1 from event where website = ?1 and ts >= of.value * {DAY_MS} and ts < (of.value + 1) * {DAY_MS})"
        " or exists (select 1 from rollup_state"
        f" where website = ?1 and kind = 0 and level = 0 and block = of.value and state = {KEPT})"
        " or exists (select 1 from packed_day where website = ?1 and source = 0 and day = of.value and raw_rows = 0)",
        (website, orjson.dumps([*days]).decode()),
    )
    return {day for (day,) in rows}


def used(connection: sqlite3.Connection, website: int, days: Iterable[int]) -> set[int]:
    """Return those of some days that are counted from their sums: they have some, and no events."""
    rows = connection.execute(
        "/* imported_sums.used */ select value from json_each(?) as of"
        " where exists (select 1 from imported_field where website = ? and day = of.value)",
        (orjson.dumps([*days]).decode(), website),
    )
    with_sums = {day for (day,) in rows}
    return with_sums - _days_with_events(connection, website, with_sums)


def is_used(connection: sqlite3.Connection, website: int, day: int) -> bool:
    """Return whether a day is counted from its sums."""
    return day in used(connection, website, [day])


def delete_some(
    connection: sqlite3.Connection, website: int, number: int, after: tuple[int, int]
) -> tuple[int, int] | None:
    """Delete some sums of an import after a place (field, day); return the last place, None at the end."""
    rows = connection.execute(
        "/* imported_sums.next */ select field, day, import from imported_field"
        " where website = ? and (field, day) > (?, ?) order by field, day limit ?",
        (website, *after, _FIELDS_PER_STEP),
    ).fetchall()
    _delete(connection, [(website, *row[:2]) for row in rows if row[2] == number])
    return rows[-1][:2] if len(rows) == _FIELDS_PER_STEP else None


def _delete(connection: sqlite3.Connection, places: Sequence[tuple[int, int, int]]) -> None:
    """Delete the sums of places (website, field, day) of one website."""
    of_place = "where website = ? and field = ? and day = ?"
    connection.executemany(f"/* imported_sums.delete */ delete from imported_sum {of_place}", places)
    connection.executemany(f"/* imported_sums.delete_field */ delete from imported_field {of_place}", places)
    if places:
        _mark_stale(connection, places[0][0], {day for _, _, day in places})


def delete_days(
    connection: sqlite3.Connection, website: int, first: int, end: int, place: tuple[int, int, int]
) -> tuple[int, int, int] | None:
    """Delete some sums of the days in [first, end) after a place (0, field, day); return the last place, None at the
    end."""
    rows = connection.execute(
        "/* imported_sums.of_days */ select field, day from imported_field"
        " where website = ? and (field, day) > (?, ?) order by field, day limit ?",
        (website, *place[1:], _FIELDS_PER_STEP),
    ).fetchall()
    _delete(connection, [(website, *row) for row in rows if first <= row[1] < end])
    return (0, *rows[-1]) if len(rows) == _FIELDS_PER_STEP else None


def count_days(connection: sqlite3.Connection, website: int, first: int, end: int) -> int:
    """Return the number of days in [first, end) that have sums."""
    row = connection.execute(
        "/* imported_sums.count_days */ select count(distinct day) from imported_field"
        " where website = ? and day >= ? and day < ?",
        (website, first, end),
    ).fetchone()
    return int(row[0])


# --- a day without events, as rollups have it


def total(connection: sqlite3.Connection, website: int, day: int) -> dict[str, int]:
    """Return the figures of all traffic of a day; {} if it has none."""
    row = connection.execute(
        f"/* imported_sums.total */ select {_COLUMNS} from imported_sum"
        " where website = ? and field = ? and day = ? and value = 0",
        (website, ALL_TRAFFIC, day),
    ).fetchone()
    return dict(zip(FIGURES, row, strict=True)) if row else {}


def values(connection: sqlite3.Connection, website: int, day: int, field: int) -> list[tuple[int, ...]]:
    """Return (value, visitors, pageviews, events) of a field of table rollup on a day."""
    rows: list[tuple[int, ...]] = connection.execute(
        "/* imported_sums.values */ select value, visitors, pageviews, events from imported_sum"
        " where website = ? and field = ? and day = ?",
        (website, field, day),
    ).fetchall()
    return rows


def pages(connection: sqlite3.Connection, website: int, day: int, field: int) -> Iterable[Sequence[int]]:
    """Yield (label, visits, bounces, pageviews, ms, visitors, events) of the entry or exit pages of a day.

    The pageviews include those of pages without visits (`views_without_visits`).
    """
    return connection.execute(
        "/* imported_sums.pages */ select value, visits, bounces, pageviews, duration_ms, visitors, events"
        " from imported_sum where website = ? and field = ? and day = ? order by value",
        (website, field, day),
    )


def views_without_visits(
    connection: sqlite3.Connection, website: int, days: Sequence[int], field: int
) -> list[tuple[int, int]]:
    """Return (label, pageviews) of the entry or exit pages that have no visits on their day, over some days."""
    return connection.execute(
        "/* imported_sums.views_without_visits */ select imported_sum.value, sum(pageviews) from json_each(?) as of"
        " cross join imported_sum where website = ? and field = ? and day = of.value and not visits group by 1",
        (orjson.dumps(days).decode(), website, field),
    ).fetchall()


def visit_figures(connection: sqlite3.Connection, website: int, day: int, field: str) -> list[tuple[int, ...]]:
    """Return (value, visits, bounces, their pageviews, their ms) of a field on a day."""
    return connection.execute(
        "/* imported_sums.visit_figures */ select value, visits, bounces, iif(visits, pageviews, 0), duration_ms"
        " from imported_sum where website = ? and field = ? and day = ? and visits",
        (website, FIELD_NUMBERS[field], day),
    ).fetchall()


# --- reading


def days(
    connection: sqlite3.Connection,
    website: int,
    span: tuple[int, int],
    whole_days: tuple[int, int] | None,
    fields: Sequence[str],
) -> ImportedDays | None:
    """Return the days of imported sums in a range, of which those in `whole_days` count; None where there are none."""
    known = connection.execute(
        "/* imported_sums.days */ select block, state from rollup_state where website = ? and kind = 0 and level = 0"
        f" and state in ({STALE}, {IMPORTED}) and block >= ? and block <= ?",
        (website, span[0] // DAY_MS, span[1] // DAY_MS),
    ).fetchall()
    unbuilt = used(connection, website, [day for day, state in known if state == STALE])
    every_day = sorted(day for day, state in known if state == IMPORTED or day in unbuilt)
    covered = [day for day in every_day if span[0] <= day * DAY_MS + OF_DAY_MS < span[1]]
    if not covered:
        return None
    first_ms, end_ms = whole_days or (0, 0)
    counted = [day for day in covered if first_ms <= day * DAY_MS + OF_DAY_MS < end_ms]
    runs: list[tuple[int, int]] = []
    for day in counted:
        if runs and runs[-1][1] == day - 1:
            runs[-1] = runs[-1][0], day
        else:
            runs.append((day, day))
    every = (1 << len(FIGURES)) - 1
    common, by_field, wanted = every, dict[str, int](), set(counted)
    for field in fields:
        rows = connection.execute(
            "/* imported_sums.known */ select day, figures from imported_field where website = ? and field = ?"
            " and day >= ? and day <= ?",
            (website, FIELD_NUMBERS[field], covered[0], covered[-1]),
        )
        of_days = [figures for day, figures in rows if day in wanted]
        by_field[field] = len(of_days)
        common &= reduce(and_, of_days, every)
    return ImportedDays(
        len(covered), runs, tuple(name for n, name in enumerate(FIGURES) if not common >> n & 1), by_field
    )
