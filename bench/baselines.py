"""Baselines: the time of plain SQL over raw rows for the same figures, and the rate of a bare executemany.

Both run without HTTP, JSON and other threads. Plain SQL is the straightforward solution: one statement for visitors and
pageviews, one for visits, over the rows of all days, of which the server deletes those of past days. The bare
executemany writes prepared rows into the same table, in transactions of the same size, each with fsync, without visits,
labels and totals.
"""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from dataset import DataSet, delete_database
from traffic import DAY_MS, Traffic, texts

from tally.storage import database
from tally.storage.bulk_insert import COLUMNS, marks

# Longer statements are interrupted.
MAX_S = 60.0
_FIGURES = "count(distinct visitor), sum(type <= 1), sum(type >= 2)"
_RANGE = "from event where website = :website and ts >= :begin and ts < :end"
_VISITS = (
    "from visit where website = :website and day >= :begin / 86400000 and day <= :end / 86400000"
    " and start_ms >= :begin and start_ms < :end"
)


def _statements(kind: str, field: str) -> tuple[str, ...]:
    """Return the statements for a kind of query (bench/queries.py), filtered by a field if one is named."""
    matching = f" and {field} = (select id from label where text = :value)" if field else ""
    own = f"{_VISITS} and (visitor, visit) in (select visitor, visit {_RANGE}{matching})" if field else _VISITS
    if kind == "stats":
        return (
            f"/* baselines.stats */ select {_FIGURES} {_RANGE}{matching}",
            f"/* baselines.visits */ select count(*), sum(pageviews = 1 and events = 0), sum(pageviews),"
            f" sum(duration_ms) {own}",
        )
    if kind.startswith("timeseries"):
        length = DAY_MS if kind.endswith("day") else 3_600_000
        return (
            f"/* baselines.series */ select ts / {length}, {_FIGURES} {_RANGE}{matching} group by 1",
            f"/* baselines.visits_series */ select start_ms / {length}, count(*) {own} group by 1",
        )
    return (f"/* baselines.top */ select pathname, {_FIGURES} {_RANGE}{matching} group by 1 order by 2 desc limit 10",)


def plain_sql_s(data_set: DataSet, kind: str, days: int, field: str = "", value: str = "") -> float | None:
    """Return the seconds of plain SQL, the better of two runs if it is short; None beyond MAX_S."""
    return timed(data_set.rows_db, _statements(kind, field), days, value=value)


def timed(db: Path, statements: Sequence[str], days: int, **more: str) -> float | None:
    """Return the seconds of statements about the last days of the first website, run one after another.

    The better of two runs if it is short; None beyond MAX_S.
    """
    end = time.time_ns() // 1_000_000
    bounds = {"website": 1, "begin": end - days * DAY_MS, "end": end, **more}
    times: list[float] = []
    with closing(database.connect_reader(db)) as connection:
        while not times or (len(times) < 2 and times[0] < 5):
            begun = time.perf_counter()
            connection.set_progress_handler(partial(_is_over, begun + MAX_S), 1_000_000)
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


def share(data_set: DataSet, field: str, value: str) -> float:
    """Return the share of the events that have a value."""
    statement = (
        f"/* baselines.share */ select total({field} = (select id from label where text = ?)) / count(*) from event"
    )
    with closing(database.connect_reader(data_set.rows_db)) as connection:
        return float(connection.execute(statement, (value,)).fetchone()[0])


class BulkInsert:
    """A bare executemany into an empty table of the same shape, in a directory."""

    def __init__(self, folder: Path) -> None:
        self.db = folder / "bare.db"
        delete_database(self.db)
        database.open_database(self.db, create=True).close()
        numbers = {text: n for n, text in enumerate(texts(1), 1)}
        self._rows = [(1, *event) for event in Traffic(1, numbers).day(20_000, 12_000, 0, 1 << 60).events]
        self._next_id = 1

    def rate(self, seconds: float, rows_per_commit: int) -> float:
        """Return the durable rows per second, with so many rows per transaction."""
        statement = f"/* baselines.insert */ insert into event values {marks(len(COLUMNS['event']), 1)}"
        written = 0
        with closing(database.connect_writer(self.db)) as connection:
            begun = time.perf_counter()
            while time.perf_counter() - begun < seconds:
                # New rows each time, as a server has them.
                at = self._next_id % (len(self._rows) - rows_per_commit)
                ids = range(self._next_id, self._next_id + rows_per_commit)
                some = zip(ids, self._rows[at : at + rows_per_commit], strict=True)
                with database.transaction(connection):
                    connection.executemany(statement, [(1, row[1] + id, id, *row[2:]) for id, row in some])
                self._next_id += rows_per_commit
                written += rows_per_commit
            return written / (time.perf_counter() - begun)
