"""Experiments by day: assignments, conversions and their counts.

A visitor's first assignment to an experiment on a day decides its variant: the first by timestamp and id, whenever it
arrived, so that the counts depend on the stored events only (`experiment_assignment`). A conversion counts once for a
visitor, goal and day (`experiment_conversion`), for the visitor's variant, whichever of the two came first.
`experiment_total` has the counts. They add up over days, because a visitor has another number each day, and they
stay after the raw rows have expired.

`assign` and `convert` are called in the transaction that stores the events; a repeated event changes nothing.
`count_day` counts the same from raw rows, to verify the counts.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson

from tally.columns import deleted_rows
from tally.columns.statements import EXPERIMENTS
from tally.events.validation import AB_ASSIGN, AB_CONVERT
from tally.timestamps import DAY_MS

Key = tuple[int, int, int, int]
"""website, day, experiment, visitor."""
Counts = dict[tuple[int, int, int, int], int]
"""(experiment, variant, 1 of conversions and 0 of assignments, goal) -> visitors."""
_TOTAL_COLUMNS = "website, day, experiment, variant, converted, goal, visitors"


class Assignment(NamedTuple):
    """An ab_assign event: its timestamp and id, the smallest of which decides, and the label of its variant."""

    ts_ms: int
    id: int
    variant: int


def assign(connection: sqlite3.Connection, assigned: Mapping[Key, Assignment]) -> None:
    """Store assignments whose key has none or a later one; the counts of a replaced one move to the new variant."""
    for key, new in assigned.items():
        old = assignment_of(connection, key)
        if old is not None and old <= new:
            continue
        connection.execute(
            "/* experiments.assign */ insert or replace into experiment_assignment"
            " (website, day, experiment, visitor, variant, ts, id) values (?, ?, ?, ?, ?, ?, ?)",
            (*key, new.variant, new.ts_ms, new.id),
        )
        if old is not None and old.variant == new.variant:
            continue
        goals = connection.execute(
            "/* experiments.earlier */ select goal from experiment_conversion"
            " where website = ? and day = ? and experiment = ? and visitor = ?",
            key,
        ).fetchall()
        kinds = [(0, 0), *((1, goal) for (goal,) in goals)]
        if old is not None:
            _discount(connection, key, old.variant, kinds)
        _count(connection, key, new.variant, kinds)


def convert(connection: sqlite3.Connection, converted: Iterable[tuple[Key, int]]) -> None:
    """Store the conversions (key, goal) that are new. Called after `assign`."""
    for key, goal in converted:
        new = connection.execute(
            "/* experiments.convert */ insert or ignore into experiment_conversion"
            " (website, day, experiment, visitor, goal) values (?, ?, ?, ?, ?)",
            (*key, goal),
        ).rowcount
        variant = variant_of(connection, key) if new else 0
        if variant:
            _count(connection, key, variant, [(1, goal)])


def recount(connection: sqlite3.Connection, keys: Iterable[Key]) -> None:
    """Compute assignments and conversions of some keys again from raw rows, in the transaction that deletes some."""
    of_key = "website = ? and day = ? and experiment = ? and visitor = ?"
    left: dict[Key, None] = dict.fromkeys(sorted(keys))
    for key in left:
        old = variant_of(connection, key)
        goals = connection.execute(
            f"/* experiments.unconvert */ delete from experiment_conversion where {of_key} returning goal", key
        ).fetchall()
        connection.execute(f"/* experiments.unassign */ delete from experiment_assignment where {of_key}", key)
        if old:
            _discount(connection, key, old, [(0, 0), *((1, goal) for (goal,) in goals)])
    for website, day in {key[:2] for key in left}:
        visitors = orjson.dumps([key[3] for key in left if key[:2] == (website, day)]).decode()
        rows = connection.execute(
            "/* experiments.left */ select experiment, visitor, type, ts, id, variant, goal from experiment_event"
            " where website = ? and ts >= ? and ts < ? and visitor in (select value from json_each(?)) order by ts, id",
            (website, day * DAY_MS, (day + 1) * DAY_MS, visitors),
        ).fetchall()
        for experiment, visitor, type_, ts_ms, id, variant, goal in rows:
            key = website, day, experiment, visitor
            if key not in left:
                continue
            if type_ == AB_ASSIGN and variant:
                assign(connection, {key: Assignment(ts_ms, id, variant)})
            elif type_ == AB_CONVERT:
                convert(connection, [(key, goal)])


def variant_of(connection: sqlite3.Connection, key: Key) -> int:
    """Return the label of the assigned variant; 0 where there is none."""
    assignment = assignment_of(connection, key)
    return assignment.variant if assignment else 0


def assignment_of(connection: sqlite3.Connection, key: Key) -> Assignment | None:
    """Return the assignment that is stored, None where there is none."""
    row = connection.execute(
        "/* experiments.variant */ select ts, id, variant from experiment_assignment"
        " where website = ? and day = ? and experiment = ? and visitor = ?",
        key,
    ).fetchone()
    return Assignment(*row) if row else None


def _count(connection: sqlite3.Connection, key: Key, variant: int, kinds: Iterable[tuple[int, int]]) -> None:
    website, day, experiment, _ = key
    connection.executemany(
        f"/* experiments.count */ insert into experiment_total ({_TOTAL_COLUMNS}) values (?, ?, ?, ?, ?, ?, 1)"
        " on conflict do update set visitors = visitors + 1",
        [(website, day, experiment, variant, *kind) for kind in kinds],
    )


def _discount(connection: sqlite3.Connection, key: Key, variant: int, kinds: Iterable[tuple[int, int]]) -> None:
    website, day, experiment, _ = key
    of_key = "website = ? and day = ? and experiment = ? and variant = ? and converted = ? and goal = ?"
    rows = [(website, day, experiment, variant, *kind) for kind in kinds]
    # A count of 1 is deleted; those left are greater.
    connection.executemany(f"/* experiments.last */ delete from experiment_total where {of_key} and visitors = 1", rows)
    connection.executemany(
        f"/* experiments.discount */ update experiment_total set visitors = visitors - 1 where {of_key}", rows
    )


# --- verification


def stored_day(connection: sqlite3.Connection, website: int, day: int) -> Counts:
    """Return the stored counts of a day."""
    rows = connection.execute(
        "/* experiments.of_day */ select experiment, variant, converted, goal, visitors from experiment_total"
        " where website = ? and day = ?",
        (website, day),
    )
    return {(experiment, variant, converted, goal): visitors for experiment, variant, converted, goal, visitors in rows}


def count_day(connection: sqlite3.Connection, website: int, day: int) -> Counts:
    """Return the counts of a day, counted from raw rows."""
    counts: Counts = {}
    variants = {
        (experiment, visitor): variant
        for experiment, visitor, variant in connection.execute(
            "/* experiments.assigned */ select experiment, visitor, variant from experiment_assignment"
            " where website = ? and day = ?",
            (website, day),
        )
    }
    rows = connection.execute(
        "/* experiments.raw */ select distinct experiment, visitor, type, iif(type = ?, goal, 0) from experiment_event"
        " where website = ? and ts >= ? and ts < ?",
        (AB_CONVERT, website, day * DAY_MS, (day + 1) * DAY_MS),
    )
    for experiment, visitor, type_, goal in rows:
        variant = variants.get((experiment, visitor))
        if variant is not None:
            place = experiment, variant, int(type_ != AB_ASSIGN), goal
            counts[place] = counts.get(place, 0) + 1
    return counts


def repair(connection: sqlite3.Connection, website: int, day: int) -> None:
    """Replace the counts of a day by those counted from raw rows."""
    deleted_rows.reopen(connection, website, [day], (EXPERIMENTS,))
    store_day(connection, website, day, count_day(connection, website, day))


def store_day(connection: sqlite3.Connection, website: int, day: int, counts: Counts) -> None:
    """Replace the counts of a day."""
    connection.execute(
        "/* experiments.wrong */ delete from experiment_total where website = ? and day = ?", (website, day)
    )
    connection.executemany(
        f"/* experiments.right */ insert into experiment_total ({_TOTAL_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?)",
        [(website, day, *place, visitors) for place, visitors in counts.items()],
    )
