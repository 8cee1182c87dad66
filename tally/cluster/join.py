"""`cluster join`: sends what a website's file has already to ClickHouse, while the server runs.

The copy begins within a transaction: what was committed before it is read from a snapshot that is taken in that moment,
what is committed later goes through the outbox. So no event is missing and none is sent twice. The copy answers reports
once all is sent, in place of another one that lacks a change. Where the command ends before that, the copy is
incomplete and never read; the next `join` ends it and makes another one, from the beginning of the website. Websites
that are complete stay so.

A running server does the same with a website that has no complete copy (`Joiner`), in a process of its own: reading
all events would delay requests.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing

from tally.clickhouse.client import NoAnswer
from tally.clickhouse.rows import Row, data_columns
from tally.clickhouse.visits import NO_SOURCE
from tally.cluster.outbox import lines_of, measure_row
from tally.cluster.servers import Servers
from tally.engine.archive import FIGURES
from tally.events.dimensions import FIELDS
from tally.events.validation import MEASURES, TRAFFIC
from tally.rollups import heatmaps
from tally.rollups.rollup_state import KEPT
from tally.settings import Settings
from tally.storage import cluster_tables
from tally.storage.database import Connection, connect_reader, transaction
from tally.storage.file_lock import lock_file
from tally.transfer.exporter import stored_lines

# Of one insert. A table has a partition a day, and ClickHouse stores at most 100 of them in one insert.
_ROWS, _DAYS = 20_000, 60
_TRIES = 6


class Ended(Exception):
    """What is stored of the website was changed meanwhile."""


def lock(settings: Settings) -> int:
    """Lock what copies websites or puts days back, one process at a time, and return the lock's file descriptor.

    Raises InUse where another process has it, BadDatabase.
    """
    return lock_file(settings.db.with_name(settings.db.name + ".join"))


def begin(connection: Connection, settings: Settings, website: int) -> tuple[int, sqlite3.Connection]:
    """Begin a copy of a website, in place of an incomplete one; return it, and a connection with the snapshot."""
    reader = connect_reader(settings.db)
    try:
        with transaction(connection):
            cluster_tables.require_all(connection, website)
            # No other connection can commit until this transaction ends.
            reader.execute("begin")
            reader.execute("/* join.snapshot */ select 1 from meta limit 1").fetchone()
            copy = cluster_tables.begin(connection, website, "joining", _first_day(connection, website))
            # All days stay for further changes.
            connection.execute(
                "/* join.held */ update cluster_copy set held_ms ="
                " (select max(held_ms) from cluster_copy where website = ?) where copy = ?",
                (website, copy),
            )
    except BaseException:
        reader.close()
        raise
    return copy, reader


async def join(
    connection: Connection, settings: Settings, servers: Servers, website: int, report: Callable[[int], None]
) -> int:
    """Copy a website to ClickHouse; return the number of rows sent. `report` is called with the number so far.

    Raises Ended, Refused, NoAnswer, sqlite3.Error.
    """
    copy, reader = begin(connection, settings, website)
    series = cluster_tables.series(connection)
    sent = last_id = 0
    with closing(reader):
        for n, (table, rows) in enumerate(_inserts(reader, website, copy)):
            _check(connection, website, copy)
            await _insert(servers, table, lines_of(rows), f"{series}/join/{copy}/{n}")
            sent += len(rows)
            last_id = max(last_id, max((row.get("id", 0) for row in rows), default=0))
            report(sent)
    with transaction(connection):
        _check(connection, website, copy)
        connection.execute(
            "/* join.replaced */ update cluster_copy set state = 'ended' where website = ? and state = 'joined'",
            (website,),
        )
        # Events may have expired since the snapshot: what was sent of them is deleted once more.
        connection.execute(
            "/* join.end */ update cluster_copy set state = 'joined', last_id = ?, cleared_day = 0 where copy = ?",
            (last_id, copy),
        )
    return sent


def _check(connection: sqlite3.Connection, website: int, copy: int) -> None:
    """Raise Ended where a copy that is made lacks a change, or counts for nothing any more."""
    changes = connection.execute("/* join.changes */ select changes from cluster_copy where copy = ?", (copy,))
    if copy not in cluster_tables.live_copies(connection, website) or changes.fetchone() != (0,):
        raise Ended


async def _insert(servers: Servers, table: str, lines: bytes, token: str) -> None:
    """Store rows once, whatever happens to the first attempts. Raises Refused, NoAnswer."""
    for n in range(_TRIES):
        try:
            await servers.client.insert_lines(table, lines, token)
        except NoAnswer:
            if n == _TRIES - 1:
                raise
            await asyncio.sleep(2**n / 4)
        else:
            return


def _first_day(connection: sqlite3.Connection, website: int) -> int:
    """Return the first day whose events have not expired."""
    row = connection.execute(
        "/* join.first_day */ select max(coalesce((select max(block) + 1 from rollup_state"
        " where website = ?1 and kind = 0 and level = 0 and state = ?2), 0),"
        " coalesce((select max(day) + 1 from web_vitals_histogram where website = ?1), 0))",
        (website, KEPT),
    ).fetchone()
    return int(row[0])


def _inserts(connection: sqlite3.Connection, website: int, copy: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of a website by table, as many as one insert takes."""
    waiting: dict[str, list[Row]] = {"event": [], "measure": [], "heat": [], "day_sum": []}
    for table, row in _rows(connection, website, copy):
        rows = waiting[table]
        if len(rows) >= _ROWS or (rows and not 0 <= row["day"] - rows[0]["day"] < _DAYS):
            yield table, rows
            rows = waiting[table] = []
        rows.append(row)
    yield from ((table, rows) for table, rows in waiting.items() if rows)


def _rows(connection: sqlite3.Connection, website: int, copy: int) -> Iterator[tuple[str, Row]]:
    for lines in stored_lines(connection, website):
        for line in lines:
            texts = [text or "" for text in line.texts]
            row = measure_row(copy, line.ts, line.id, line.type, texts[: len(FIELDS)]) | {"visitor": line.visitor}
            name, experiment, variant, goal = texts[len(FIELDS) :]
            if line.type in TRAFFIC:
                if not line.carries:
                    row |= NO_SOURCE
                yield "event", row | {"event_name": name} | data_columns(line.event_data)
            else:
                named = {"experiment": experiment, "variant": variant, "goal": goal, "value": line.value}
                yield "measure", row | named | dict(zip(MEASURES, line.measures, strict=True))
    yield from (("day_sum", row) for row in sum_rows(connection, website, copy))
    pages: dict[int, str] = {0: ""}
    for day, label, width, kind, y, x, points in heatmaps.all_points(connection, website):
        if label not in pages:
            found = connection.execute("/* join.page */ select text from label where id = ?", (label,)).fetchone()
            pages[label] = found[0]
        yield (
            "heat",
            {
                **{"website": copy, "day": day, "pathname": pages[label]},
                **{"width": width, "kind": kind, "y": y, "x": x, "points": points},
            },
        )


def sum_rows(connection: sqlite3.Connection, website: int, copy: int) -> Iterator[Row]:
    """Yield the imported sums of a website as rows of a copy, by day."""
    rows = connection.execute(
        f"/* join.sums */ select day, field, coalesce(text, ''), import, figures, {', '.join(FIGURES)}"
        " from imported_sum join imported_field using (website, field, day)"
        " left join label on label.id = value and value != 0"
        " where website = ? order by day",
        (website,),
    )
    names = ("day", "field", "value", "import", "known", *FIGURES)
    for row in rows:
        yield {"website": copy} | dict(zip(names, row, strict=True))
