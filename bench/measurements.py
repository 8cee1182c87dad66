"""Measurements beside the traffic: web vitals, experiments and heatmap points, written as the server writes them.

They go into a copy of the data set, day after day, through the product's own functions that keep histograms and counts;
HTTP would take hours. What is added up in the background is built by the server. Kept beside the data set, with a
marker of its own, and used again as that is.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import heated
from dataset import DAYS, SEED, DataSet, copied, known_in, mark, roll_up
from gauges import Gauges, Row, share_of, texts
from pointing import Pointing
from report import say
from traffic import DAY_MS

from tally.events.validation import AB_ASSIGN
from tally.rollups import experiments, web_vitals
from tally.storage import database

# Another one whenever the drawing changes, so that no older file passes for a new one.
_SHAPE = 2
_WEBSITE = 1


class Sizes(NamedTuple):
    """How many there are of each."""

    vitals: int = 5_000_000
    points: int = 50_000_000
    assignments: int = 200_000


def prepared(folder: Path, traffic: DataSet, sizes: Sizes) -> DataSet:
    """A copy of a data set with so many measurements, from an earlier run or built now."""
    marks = {"of": traffic.end_ms, "events": traffic.events, "shape": _SHAPE, "schema": database.VERSION}
    marks |= {"seed": SEED, **sizes._asdict()}
    known = known_in(folder, marks)
    if known is None:
        (folder / "bench.json").unlink(missing_ok=True)
        known = _build(copied(traffic, folder), sizes)
        mark(folder, marks, known)
    return known


def _build(known: DataSet, sizes: Sizes) -> DataSet:
    told = f"{sizes.vitals:,} web vitals, {sizes.assignments:,} assignments and {sizes.points:,} points"
    say(f"adding {told} to {known.db}")
    begun = time.perf_counter()
    with closing(database.open_database(known.db, create=False)) as connection:
        connection.execute("pragma synchronous = off")
        # Points are written all over a table that is clustered by page.
        connection.execute("pragma cache_size = -256000")
        with database.transaction(connection):
            connection.executemany(
                "/* measurements.label */ insert or ignore into label (text) values (?)", [(text,) for text in texts()]
            )
        label = dict(connection.execute("/* measurements.labels */ select text, id from label"))
        _write(connection, Gauges(SEED, label), sizes, known.end_ms)
        last_share = known.end_ms % DAY_MS / DAY_MS
        days = range(known.end_ms // DAY_MS - DAYS + 1, known.end_ms // DAY_MS + 1)
        heated.write(connection, _WEBSITE, Pointing(SEED, sizes.points, DAYS), days, last_share)
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        connection.execute("pragma synchronous = full")
    taken_s = time.perf_counter() - begun
    say(f"measurements took {taken_s:.0f} s")
    return roll_up(known._replace(rows_s=taken_s))


def _write(connection: sqlite3.Connection, gauges: Gauges, sizes: Sizes, end_ms: int) -> None:
    begin_ms = end_ms - DAYS * DAY_MS
    first, last = begin_ms // DAY_MS, (end_ms - 1) // DAY_MS
    for day in range(first, last + 1):
        vitals = gauges.vitals(day, share_of(sizes.vitals, day, DAYS), begin_ms, end_ms)
        assigned = list(gauges.trials(day, share_of(sizes.assignments, day, DAYS), begin_ms, end_ms))
        with database.transaction(connection):
            _write_vitals(connection, vitals)
            _write_trials(connection, day, assigned)
        if (day - first) % 60 == 0:
            say(f"day {day - first} of {DAYS}")


def _with_ids(connection: sqlite3.Connection, rows: list[Row]) -> list[Row]:
    """Rows with the website before and an id behind their time, as ids are given out."""
    (next_id,) = connection.execute(
        "/* measurements.ids */ update meta set value = value + ? where name = 'next_id' returning value - ?",
        (len(rows), len(rows)),
    ).fetchone()
    return [(_WEBSITE, row[0], id, *row[1:]) for id, row in enumerate(rows, next_id)]


def _write_vitals(connection: sqlite3.Connection, drawn: list[Row]) -> None:
    rows = _with_ids(connection, drawn)
    connection.executemany(f"/* measurements.vitals */ insert into web_vitals values ({', '.join('?' * 22)})", rows)
    web_vitals.add(connection, rows)


def _write_trials(connection: sqlite3.Connection, day: int, drawn: list[Row]) -> None:
    rows = _with_ids(connection, drawn)
    connection.executemany(f"/* measurements.ab */ insert into experiment_event values ({', '.join('?' * 23)})", rows)
    keyed = [((_WEBSITE, day, row[-4], row[4]), row) for row in rows]
    # By time and id: of a visitor's the first.
    assigned = [(key, experiments.Assignment(*row[1:3], row[-3])) for key, row in keyed if row[3] == AB_ASSIGN]
    experiments.assign(connection, dict(sorted(assigned, key=lambda one: one[1], reverse=True)))
    experiments.convert(connection, [(key, row[-2]) for key, row in keyed if row[3] != AB_ASSIGN])
