"""Conversions of goals, stored for the final days of goals that are saved (tally/reports/goals.py counts them).

A goal is what is counted: filters, and the property of event_data that holds a value. It is stored under a number that
follows from these (`number_of`), so that a changed goal is another one; rows of goals that are no longer saved are
deleted.

A day is complete for a goal where `rollup_state` has a row of the goal with the day's version
(tally/rollups/rollup_state.py): an import increases it, and the day is counted again. Its rows in `goal_day` are counts
by value of each dimension, and of all conversions (field ALL, value 0). They stay when the day's events expire.

Values are summed as decimal numbers: each is rounded to millionths once, and sums are integers. A value counts if it is
a number, or a text such as "29.90", below MAX_VALUE; other events of the goal count in `without_value`.
"""

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from hashlib import blake2b

import orjson

from tally.columns.statements import TRAFFIC
from tally.engine.values import MILLIONTHS, Goal
from tally.events.dimensions import EVENT_NAME, FIELDS
from tally.rollups import rollup_state
from tally.rollups.rollup_state import ROWS_PER_STEP

MAX_VALUE = 10**9
"""Values are smaller, so that the sum of all events of a day fits into two numbers of 64 bits."""
PART = 10**9
"""A sum is stored as two numbers: SUM = high * PART + low."""
COLUMNS = ("conversions", "visitors", "value_high", "value_low", "without_value")
ALL = EVENT_NAME
"""In place of a field: all conversions, as value 0."""
COUNTED = (("", ALL), *((name, number) for number, name in enumerate(FIELDS)))
"""The fields of which a day is counted, and their numbers."""
# Texts of event_data are at most 4,096 bytes long: reading such a number takes up to 0.2 ms.
_DECIMAL = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
_MILLIONTH = Decimal("0.000001")
_NUMBERS = dict(COUNTED)
_FEW_LABELS = 64


def number_of(goal: Goal) -> int:
    """Return the number under which a goal is stored: 63 bits, and never another kind of rollup_state."""
    return int.from_bytes(blake2b(repr(goal).encode("utf-8", "surrogatepass"), digest_size=8).digest()) >> 1


def is_counted(field: str) -> bool:
    """Return whether days have counts by the values of a field; "" is all conversions."""
    return field in _NUMBERS


def millionths(value: object) -> int | None:
    """Return a value of event_data in millionths, rounded half up; None if it is not a number below MAX_VALUE."""
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        return None
    if not isinstance(value, int | float | str):
        return None
    try:
        # The text of a float is the shortest that means it: 29.9 is not 29.899999999999998579.
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    # Arithmetic, even abs(), would round to 28 digits first.
    if not -MAX_VALUE < number < MAX_VALUE:
        return None
    return int(number.quantize(_MILLIONTH, ROUND_HALF_UP) * MILLIONTHS)


# --- building, in steps, each within a transaction of the caller


def begin_day(connection: sqlite3.Connection, website: int, goal: int) -> int | None:
    """Begin the newest final day that is not complete for a goal; return it."""
    row = connection.execute(
        "/* goal_days.next */ select block, version from rollup_state as day where website = ? and kind = 0"
        " and level = 0 and block >= 0 and state = 2 and not exists (select 1 from rollup_state as own"
        " where own.website = day.website and own.kind = ? and own.level = 0 and own.block = day.block"
        " and own.state = 2 and own.version = day.version)"
        " order by block desc limit 1",
        (website, goal),
    ).fetchone()
    if row is None:
        return None
    rollup_state.begin(connection, website, goal, 0, *row)
    return int(row[0])


def drop(connection: sqlite3.Connection, website: int, goal: int, day: int) -> int:
    """Delete up to ROWS_PER_STEP rows of a day; return their number."""
    return sum(_delete(connection, (website, goal, number, day)) for _, number in COUNTED)


def _delete(connection: sqlite3.Connection, place: tuple[int, int, int, int]) -> int:
    old = connection.execute(
        "/* goal_days.old */ select website, saved_goal, field, day, value from goal_day"
        " where website = ? and saved_goal = ? and field = ? and day = ? limit ?",
        (*place, ROWS_PER_STEP),
    ).fetchall()
    _delete_rows(connection, old)
    return len(old)


def _delete_rows(connection: sqlite3.Connection, rows: Sequence[tuple[int, ...]]) -> None:
    connection.executemany(
        "/* goal_days.delete */ delete from goal_day"
        " where website = ? and saved_goal = ? and field = ? and day = ? and value = ?",
        rows,
    )


def add(
    connection: sqlite3.Connection, website: int, goal: int, field: str, day: int, rows: Sequence[Sequence[int]]
) -> None:
    """Write rows of `count_day`."""
    connection.executemany(
        f"/* goal_days.add */ insert into goal_day (website, saved_goal, field, day, value, {', '.join(COLUMNS)})"
        f" values ({', '.join('?' * (5 + len(COLUMNS)))})",
        [(website, goal, _NUMBERS[field], day, *row) for row in rows],
    )


def delete_others(connection: sqlite3.Connection, website: int, goals: Collection[int]) -> bool:
    """Delete some rows of goals that are not among `goals`; return whether there were any."""
    for goal in _stored(connection, website):
        if goal not in goals:
            # First: from now on no row is read, also where the goal is saved again.
            connection.execute(
                "/* goal_days.other_states */ delete from rollup_state where website = ? and kind = ?", (website, goal)
            )
            old = connection.execute(
                "/* goal_days.others */ select website, saved_goal, field, day, value from goal_day"
                " where website = ? and saved_goal = ? limit ?",
                (website, goal, ROWS_PER_STEP),
            ).fetchall()
            _delete_rows(connection, old)
            return True
    return False


def _stored(connection: sqlite3.Connection, website: int) -> Iterator[int]:
    """Yield the goals that have rows: one lookup for each, rather than a scan of all rows."""
    for table, column in (("goal_day", "saved_goal"), ("rollup_state", "kind")):
        statement = (
            f"/* goal_days.stored */ select {column} from {table} where website = ? and {column} > ? order by 1 limit 1"
        )
        goal = TRAFFIC
        while row := connection.execute(statement, (website, goal)).fetchone():
            goal = row[0]
            yield goal


# --- reading


def stored(connection: sqlite3.Connection, website: int, day: int, goal: Goal) -> dict[str, list[tuple[int, ...]]]:
    """Return the rows (value, COLUMNS) of each field of COUNTED on a complete day, by value."""
    statement = (
        f"/* goal_days.rows */ select value, {', '.join(COLUMNS)} from goal_day"
        " where website = ? and saved_goal = ? and field = ? and day = ? order by value"
    )
    return {
        field: connection.execute(statement, (website, number_of(goal), number, day)).fetchall()
        for field, number in COUNTED
    }


def complete(connection: sqlite3.Connection, website: int, goal: Goal, days: Mapping[int, int]) -> set[int]:
    """Return those of some days, by their versions, that are complete for a goal."""
    if not days:
        return set()
    rows = connection.execute(
        "/* goal_days.complete */ select block, version from rollup_state"
        " where website = ? and kind = ? and level = 0 and block >= ? and block <= ? and state = 2",
        (website, number_of(goal), min(days), max(days)),
    )
    return {day for day, version in rows if days.get(day) == version}


def sums(
    connection: sqlite3.Connection,
    website: int,
    goal: Goal,
    field: str,
    days: Iterable[int],
    by: str = "value",
    labels: Sequence[int] | None = None,
) -> Iterable[Sequence[int]]:
    """Yield (value, or day where `by` is "day"; and the sums of COLUMNS) over complete days.

    labels: the requested values; None for all.
    """
    if by not in ("value", "day"):
        raise KeyError(by)
    # A few labels are looked up one by one on each day; more are found in a scan of the day's values.
    scan = "" if labels is None or len(labels) <= _FEW_LABELS else "+"
    of_labels = "" if labels is None else f" and {scan}goal_day.value in (select value from json_each(?))"
    return connection.execute(
        f"/* goal_days.sums */ select goal_day.{by}, {', '.join(f'sum({name})' for name in COLUMNS)}"
        " from json_each(?) as wanted cross join goal_day"
        f" where website = ? and saved_goal = ? and field = ? and day = wanted.value{of_labels} group by goal_day.{by}",
        [
            *(orjson.dumps(sorted(days)).decode(), website, number_of(goal), _NUMBERS[field]),
            *([] if labels is None else [orjson.dumps(list(labels)).decode()]),
        ],
    )
