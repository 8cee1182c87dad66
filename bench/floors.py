"""Floors: what plain SQL over raw rows takes for the same answers, and what bare executemany writes.

Neither speaks HTTP nor JSON, and neither has another thread beside it. Plain SQL is what anybody would write first:
one statement for visitors and views, one for visits. Bare executemany writes ready-made rows into the same table, in
transactions of the same size, each with fsync, and keeps neither visits nor labels nor totals.
"""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from dataset import DataSet, drop
from traffic import DAY_MS, Traffic, texts

from tally.storage import database

# What takes longer than that is slow enough to tell.
MOST_S = 60.0
_FIGURES = "count(distinct visitor), sum(type <= 1), sum(type >= 2)"
_RANGE = "from event where website = :website and ts >= :begin and ts < :end"
_VISITS = "from visit where website = :website and start_ms >= :begin and start_ms < :end"


def _statements(kind: str, field: str) -> tuple[str, ...]:
    """Statements for a kind of question (bench/questions.py), filtered by a field where one is named."""
    matching = f" and {field} = (select id from label where text = :value)" if field else ""
    own = f"{_VISITS} and (visitor, visit) in (select visitor, visit {_RANGE}{matching})" if field else _VISITS
    if kind == "stats":
        return (
            f"/* floors.stats */ select {_FIGURES} {_RANGE}{matching}",
            f"/* floors.visits */ select count(*), sum(pageviews = 1 and events = 0), sum(pageviews), sum(duration_ms)"
            f" {own}",
        )
    if kind.startswith("timeseries"):
        length = DAY_MS if kind.endswith("day") else 3_600_000
        return (
            f"/* floors.series */ select ts / {length}, {_FIGURES} {_RANGE}{matching} group by 1",
            f"/* floors.visits_series */ select start_ms / {length}, count(*) {own} group by 1",
        )
    return (f"/* floors.top */ select pathname, {_FIGURES} {_RANGE}{matching} group by 1 order by 2 desc limit 10",)


def plain_sql_s(known: DataSet, kind: str, days: int, field: str = "", value: str = "") -> float | None:
    """How long plain SQL takes, the better of two where it is short; None past MOST_S."""
    return timed(known, _statements(kind, field), days, value=value)


def timed(known: DataSet, statements: Sequence[str], days: int, **more: str) -> float | None:
    """How long statements about the last days of the first website take, one after another, the better of two where it
    is short; None past MOST_S."""
    end = time.time_ns() // 1_000_000
    bounds = {"website": 1, "begin": end - days * DAY_MS, "end": end, **more}
    times: list[float] = []
    with closing(database.connect_reader(known.db)) as connection:
        while not times or (len(times) < 2 and times[0] < 5):
            begun = time.perf_counter()
            connection.set_progress_handler(partial(_is_over, begun + MOST_S), 1_000_000)
            try:
                for statement in statements:
                    connection.execute(statement, bounds).fetchall()
            except sqlite3.OperationalError as failure:
                if str(failure) != "interrupted":
                    raise
                return None
            times.append(time.perf_counter() - begun)
    return min(times)


def _is_over(end: float) -> bool:
    return time.perf_counter() > end


def share(known: DataSet, field: str, value: str) -> float:
    """The share of the events that have a value."""
    statement = (
        f"/* floors.share */ select total({field} = (select id from label where text = ?)) / count(*) from event"
    )
    with closing(database.connect_reader(known.db)) as connection:
        return float(connection.execute(statement, (value,)).fetchone()[0])


class Executemany:
    """Bare executemany into an empty table of the same shape, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.db = folder / "bare.db"
        drop(self.db)
        database.open_database(self.db, create=True).close()
        numbers = {text: n for n, text in enumerate(texts(1), 1)}
        self._rows = [(1, *event) for event in Traffic(1, numbers).day(20_000, 12_000, 0, 1 << 60).events]
        self._next_id = 1

    def rate(self, seconds: float, rows_a_commit: int) -> float:
        """Rows a second, durable, so many a transaction."""
        statement = f"/* floors.insert */ insert into event values ({', '.join('?' * 22)})"
        written = 0
        with closing(database.connect_writer(self.db)) as connection:
            begun = time.perf_counter()
            while time.perf_counter() - begun < seconds:
                # Made here: rows of their own each time, as a server has them too.
                at = self._next_id % (len(self._rows) - rows_a_commit)
                ids = range(self._next_id, self._next_id + rows_a_commit)
                some = zip(ids, self._rows[at : at + rows_a_commit], strict=True)
                with database.transaction(connection):
                    connection.executemany(statement, [(1, row[1] + id, id, *row[2:]) for id, row in some])
                self._next_id += rows_a_commit
                written += rows_a_commit
            return written / (time.perf_counter() - begun)
