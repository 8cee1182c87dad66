"""Adds measurements to the data set: web vitals, experiments and heatmap points, as the server writes them.

They are written into a copy of the data set, day by day, with the product's own functions that update counts; HTTP
would take hours. The server builds the rest in the background. The copy has a marker file of its own and
is reused like the data set.
"""

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import heatmap_rows
from dataset import DAYS, SEED, DataSet, copied, roll_up, stored, write_marker
from heatmap_points import HeatmapPoints
from measurement_rows import MeasurementRows, Row, share_of, texts
from report import progress
from traffic import DAY_MS

from tally.events.validation import AB_ASSIGN
from tally.rollups import experiments
from tally.storage import bulk_insert, database

# Changed with the way rows are drawn, so that older files are not reused.
_SHAPE = 4
_WEBSITE = 1


class Sizes(NamedTuple):
    """The number of each."""

    vitals: int = 5_000_000
    points: int = 50_000_000
    assignments: int = 200_000


def prepared(folder: Path, traffic: DataSet, sizes: Sizes) -> DataSet:
    """Return a copy of a data set with so many measurements, from an earlier run or built now."""
    marks = {"of": traffic.end_ms, "events": traffic.events, "shape": _SHAPE, "schema": database.VERSION}
    marks |= {"seed": SEED, **sizes._asdict()}
    data_set = stored(folder, marks)
    if data_set is None:
        (folder / "bench.json").unlink(missing_ok=True)
        data_set = _build(copied(traffic, folder), sizes)
        write_marker(folder, marks, data_set)
    return data_set


def _build(data_set: DataSet, sizes: Sizes) -> DataSet:
    text = f"{sizes.vitals:,} web vitals, {sizes.assignments:,} assignments and {sizes.points:,} points"
    progress(f"adding {text} to {data_set.db}")
    begun = time.perf_counter()
    with closing(database.open_database(data_set.db, create=False)) as connection:
        connection.execute("pragma synchronous = off")
        # The table of points is clustered by page: writes are spread over the file.
        connection.execute("pragma cache_size = -256000")
        with database.transaction(connection):
            connection.executemany(
                "/* measurements.label */ insert or ignore into label (text) values (?)", [(text,) for text in texts()]
            )
        label = dict(connection.execute("/* measurements.labels */ select text, id from label"))
        _write(connection, MeasurementRows(SEED, label), sizes, data_set.end_ms)
        last_share = data_set.end_ms % DAY_MS / DAY_MS
        days = range(data_set.end_ms // DAY_MS - DAYS + 1, data_set.end_ms // DAY_MS + 1)
        heatmap_rows.write(connection, _WEBSITE, HeatmapPoints(SEED, sizes.points, DAYS), days, last_share)
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        connection.execute("pragma synchronous = full")
    shutil.copyfile(data_set.db, data_set.rows_db)
    taken_s = time.perf_counter() - begun
    progress(f"measurements took {taken_s:.0f} s")
    return roll_up(data_set._replace(rows_s=taken_s))


def _write(connection: sqlite3.Connection, rows: MeasurementRows, sizes: Sizes, end_ms: int) -> None:
    begin_ms = end_ms - DAYS * DAY_MS
    first, last = begin_ms // DAY_MS, (end_ms - 1) // DAY_MS
    for day in range(first, last + 1):
        vitals = rows.vitals(day, share_of(sizes.vitals, day, DAYS), begin_ms, end_ms)
        assigned = list(rows.experiments(day, share_of(sizes.assignments, day, DAYS), begin_ms, end_ms))
        with database.transaction(connection):
            _insert(connection, "web_vitals", vitals)
            _write_experiments(connection, day, assigned)
        if (day - first) % 60 == 0:
            progress(f"day {day - first} of {DAYS}")


def _insert(connection: sqlite3.Connection, table: str, rows: list[Row]) -> list[Row]:
    """Insert rows, and return them with the website before their time and an id after it."""
    (next_id,) = connection.execute(
        "/* measurements.ids */ update meta set value = value + ? where name = 'next_id' returning value - ?",
        (len(rows), len(rows)),
    ).fetchone()
    stored = [(_WEBSITE, row[0], id, *row[1:]) for id, row in enumerate(rows, next_id)]
    bulk_insert.insert(connection, "measurements", table, stored)
    return stored


def _write_experiments(connection: sqlite3.Connection, day: int, drawn: list[Row]) -> None:
    rows = _insert(connection, "experiment_event", drawn)
    keyed = [((_WEBSITE, day, row[-4], row[4]), row) for row in rows]
    # A visitor's first assignment, by time and id.
    assigned = [(key, experiments.Assignment(*row[1:3], row[-3])) for key, row in keyed if row[3] == AB_ASSIGN]
    experiments.assign(connection, dict(sorted(assigned, key=lambda one: one[1], reverse=True)))
    experiments.convert(connection, [(key, row[-2]) for key, row in keyed if row[3] != AB_ASSIGN])
