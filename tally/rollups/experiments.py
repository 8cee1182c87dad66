"""Experiments by UTC day: who was assigned what, who converted, and how many that makes.

A visitor's first assignment to an experiment on a day wins: the first by timestamp and id, whenever it arrived, so that
the counts are a function of the stored events (`experiment_assignment`). A conversion counts once a visitor, goal and
day (`experiment_conversion`), for the variant the visitor was assigned to, whichever of the two came first.
`experiment_total` has the counts, which a visitor's number, another one every UTC day, makes add up over days; they
stay where raw rows go.

`assign` and `convert` are called in the transaction that stores the events; they change counts by what is new alone, so
that every copy of an event may come again. `counted` is the same from raw rows, to verify them.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tally.events.validation import AB_ASSIGN, AB_CONVERT
from tally.timestamps import DAY_MS

Key = tuple[int, int, int, int]
"""website, UTC day, experiment, visitor."""
Counts = dict[tuple[int, int, int, int], int]
"""(experiment, variant, 1 of conversions and 0 of assignments, goal) -> visitors."""


class Assignment(NamedTuple):
    """An ab_assign: its place among the day's events, which decides, and the label of its variant."""

    ts_ms: int
    id: int
    variant: int


def assign(connection: sqlite3.Connection, assigned: Mapping[Key, Assignment]) -> None:
    """Store assignments where the key has none yet or a later one; of a later one the counts move along."""
    for key, new in assigned.items():
        old = assignment_of(connection, key)
        if old is not None and old <= new:
            continue
        connection.execute(
            "/* experiments.assign */ insert or replace into experiment_assignment values (?, ?, ?, ?, ?, ?, ?)",
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
    """Stores conversions, each a key and a goal, that are not there yet; to be called after `assign`."""
    for key, goal in converted:
        new = connection.execute(
            "/* experiments.convert */ insert or ignore into experiment_conversion values (?, ?, ?, ?, ?)", (*key, goal)
        ).rowcount
        variant = variant_of(connection, key) if new else 0
        if variant:
            _count(connection, key, variant, [(1, goal)])


def variant_of(connection: sqlite3.Connection, key: Key) -> int:
    """The variant that was assigned; 0 where none was."""
    found = assignment_of(connection, key)
    return found.variant if found else 0


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
        "/* experiments.count */ insert into experiment_total values (?, ?, ?, ?, ?, ?, 1) on conflict do update"
        " set visitors = visitors + 1",
        [(website, day, experiment, variant, *kind) for kind in kinds],
    )


def _discount(connection: sqlite3.Connection, key: Key, variant: int, kinds: Iterable[tuple[int, int]]) -> None:
    website, day, experiment, _ = key
    of_key = "website = ? and day = ? and experiment = ? and variant = ? and converted = ? and goal = ?"
    rows = [(website, day, experiment, variant, *kind) for kind in kinds]
    # A count of 1 goes; what is left then is above it.
    connection.executemany(f"/* experiments.last */ delete from experiment_total where {of_key} and visitors = 1", rows)
    connection.executemany(
        f"/* experiments.discount */ update experiment_total set visitors = visitors - 1 where {of_key}", rows
    )


# --- verifying


def stored_day(connection: sqlite3.Connection, website: int, day: int) -> Counts:
    """The counts of a day as stored."""
    rows = connection.execute(
        "/* experiments.of_day */ select experiment, variant, converted, goal, visitors from experiment_total"
        " where website = ? and day = ?",
        (website, day),
    )
    return {(experiment, variant, converted, goal): visitors for experiment, variant, converted, goal, visitors in rows}


def count_day(connection: sqlite3.Connection, website: int, day: int) -> Counts:
    """The same from raw rows."""
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
    """Counts a day anew from its raw rows."""
    connection.execute(
        "/* experiments.wrong */ delete from experiment_total where website = ? and day = ?", (website, day)
    )
    connection.executemany(
        "/* experiments.right */ insert into experiment_total values (?, ?, ?, ?, ?, ?, ?)",
        [(website, day, *place, visitors) for place, visitors in count_day(connection, website, day).items()],
    )
