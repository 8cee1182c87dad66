"""The measured database: one website with millions of events over the last 365 days, and an API key.

Rows are written into the tables directly, in the order of time, one day in memory at once: HTTP would take an hour in
place of two minutes, and accepts no events older than 72 hours. They are equal to those of the server, and every day is
stale in `rollup_state`: the server builds the rest when it runs (`wait_until_built` waits for that).

The directory keeps the database and a marker file; the next run reuses it if marker, schema version and age match.
Measurements use a copy of it (`copied`), so that they do not change it.
"""

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from report import progress
from servers import Tally
from traffic import DAY_MS, DOMAIN, EVENTS_PER_VISITOR, Traffic, relative_traffic, texts

from tally.accounts.accounts import FIRST_ACCOUNT, create_account, find_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website, all_websites
from tally.columns import column_days, deleted_rows, measurement_days
from tally.columns.statements import EXPERIMENTS, WEB_VITALS
from tally.events.dimensions import ACQUISITION, EVENT_FIELDS, field_number
from tally.maintenance.compact import compact
from tally.rollups import rollup_state
from tally.sqlite.event_ids import minute_of
from tally.storage import database
from tally.storage.bulk_insert import COLUMNS, marks

SEED = 7
DAYS = 365
MARKER = "bench.json"
# Changed with the way rows are drawn, so that older files are not reused.
SHAPE = 7
# An older file has too few events of the last 7 days.
MAX_AGE_MS = 36 * 3_600_000
# The limit for late events, for which event_ids are kept.
EVENT_ID_MS = 72 * 3_600_000
_POLL_S = 0.5
# A step takes about a second, more on a busy machine.
MAX_IDLE_S = 300.0


class DataSet(NamedTuple):
    """A built database. `rows_s`, `rollups_s`: the seconds of writing rows and building rollups; `first_start_s`: those
    of the server's start without any rollup."""

    db: Path
    website: str
    key: str
    events: int
    end_ms: int
    rows_s: float
    rollups_s: float = 0.0
    first_start_s: float = 0.0

    @property
    def rows_db(self) -> Path:
        """Return the file as it was before the server used it: with the rows of every day, which plain SQL reads."""
        return self.db.with_name("rows.db")


def prepared(folder: Path, events: int) -> DataSet:
    """Return the data set of so many events in a directory, from an earlier run or built now, with rollups."""
    folder.mkdir(parents=True, exist_ok=True)
    marks = _marker_of(events)
    data_set = stored(folder, marks)
    if data_set is None:
        data_set = _build(folder, events)
        write_marker(folder, marks, data_set)
    if not data_set.rollups_s:
        data_set = roll_up(data_set)
        write_marker(folder, marks, data_set)
    return data_set


def copied(data_set: DataSet, folder: Path) -> DataSet:
    """Return a copy that may be changed."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / data_set.db.name
    delete_database(copy)
    for path in data_set.db.parent.glob(data_set.db.name + "*"):
        if not path.name.endswith((".lock", "-shm")):
            shutil.copyfile(path, folder / path.name)
    return data_set._replace(db=copy)


def delete_database(db: Path) -> None:
    """Delete a database with its log and lock files."""
    for path in list(db.parent.glob(db.name + "*")):
        path.unlink()


def _marker_of(events: int) -> dict[str, object]:
    drawn = {"asked": events, "seed": SEED, "days": DAYS, "shape": SHAPE}
    return drawn | {"schema": database.VERSION, "levels": list(rollup_state.LEVELS)}


def write_marker(folder: Path, marks: dict[str, object], data_set: DataSet) -> None:
    """Write the marker file."""
    content = {"marks": marks, "data": data_set._asdict() | {"db": data_set.db.name}}
    unfinished = folder / (MARKER + ".unfinished")
    unfinished.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(unfinished, folder / MARKER)


def stored(folder: Path, marks: dict[str, object]) -> DataSet | None:
    """Return the data set of a directory, None if its marker file differs or it is too old."""
    marker = folder / MARKER
    if not marker.exists():
        return None
    content = json.loads(marker.read_text())
    data_set = DataSet(**content["data"] | {"db": folder / content["data"]["db"]})
    if content["marks"] != marks or not data_set.db.exists():
        progress(f"{data_set.db} has other parameters or another version: rebuilding it")
        return None
    if time.time() * 1000 - data_set.end_ms > MAX_AGE_MS:
        progress(f"{data_set.db} is older than {MAX_AGE_MS // 3_600_000} hours: rebuilding it")
        return None
    progress(f"{data_set.db} is reused: {data_set.events:,} events")
    return data_set


def _build(folder: Path, events: int) -> DataSet:
    (folder / MARKER).unlink(missing_ok=True)
    db = folder / "analytics.db"
    delete_database(db)
    end_ms = time.time_ns() // 1_000_000
    progress(f"building {db}: {events:,} events over {DAYS} days")
    begun = time.perf_counter()
    with closing(database.open_database(db, create=True)) as connection:
        with database.transaction(connection):
            owner = create_account(connection, FIRST_ACCOUNT, "business", None, end_ms)
            key = create_api_key(connection, owner, "bench", end_ms)
        website, written = fill_website(connection, events, end_ms)
    taken_s = time.perf_counter() - begun
    progress(f"{written:,} events in {taken_s:.0f} s, {written / taken_s:,.0f} a second")
    data_set = DataSet(db, website, key, written, end_ms, taken_s)
    shutil.copyfile(db, data_set.rows_db)
    return data_set


def fill_website(connection: sqlite3.Connection, events: int, end_ms: int, days: int = DAYS) -> tuple[str, int]:
    """Add a website with about so many events in the days up to `end_ms`; return its id and their number."""
    connection.execute("pragma synchronous = off")
    connection.execute("pragma cache_size = -64000")
    owner = find_account(connection, None)
    with database.transaction(connection):
        id = add_website(connection, owner, DOMAIN, DOMAIN, (), end_ms)
        connection.executemany(
            "/* dataset.label */ insert or ignore into label (text) values (?)", [(text,) for text in texts(SEED)]
        )
    label = dict(connection.execute("/* dataset.labels */ select text, id from label"))
    number = next(website.number for website in all_websites(connection) if website.id == id)
    written = sum(_write_days(connection, number, Traffic(SEED, label), events, end_ms, days))
    _fill_values(connection, number)
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    connection.execute("pragma synchronous = full")
    return id, written


def _write_days(
    connection: sqlite3.Connection, website: int, traffic: Traffic, events: int, end_ms: int, days: int
) -> Iterator[int]:
    """Write each day in a transaction of its own; yield its number of events."""
    begin_ms = end_ms - days * DAY_MS
    first, last = begin_ms // DAY_MS, (end_ms - 1) // DAY_MS
    for day in range(first, last + 1):
        visitors = round(events / days / EVENTS_PER_VISITOR * relative_traffic(day))
        drawn = traffic.day(day, visitors, begin_ms, end_ms)
        if drawn.events:
            with database.transaction(connection):
                _write_day(connection, website, day, drawn.events, drawn.visits, end_ms)
        if (day - first) % 60 == 0:
            progress(f"day {day - first} of {days}")
        yield len(drawn.events)


def _fill_values(connection: sqlite3.Connection, website: int) -> None:
    """Write the values of each field, which filters by substrings search."""
    with database.transaction(connection):
        for table, fields in (("event", (*EVENT_FIELDS, "event_name")), ("visit", ACQUISITION)):
            for field in fields:
                connection.execute(
                    "/* dataset.field_value */ insert into field_value"
                    f" select distinct website, ?, {field} from {table} where website = ? and {field} > 0",
                    (field_number(field), website),
                )


def _write_day(
    connection: sqlite3.Connection,
    website: int,
    day: int,
    events: list[tuple[object, ...]],
    visits: Sequence[tuple[int, ...]],
    end_ms: int,
) -> None:
    next_id = connection.execute("/* dataset.next_id */ select value from meta where name = 'next_id'").fetchone()[0]
    connection.executemany(
        f"/* dataset.event */ insert into event values {marks(len(COLUMNS['event']), 1)}",
        ((website, event[0], id, *event[1:]) for id, event in enumerate(events, next_id)),
    )
    connection.executemany(
        f"/* dataset.visit */ insert into visit values ({', '.join('?' * len(COLUMNS['visit']))})",
        ((website, day, *visit) for visit in visits),
    )
    # Stale: the server builds the rollups in the background.
    connection.execute(
        "/* dataset.stale */ insert into rollup_state (website, kind, level, block, state, is_over, version)"
        " values (?, 0, 0, ?, 0, 0, 1)",
        (website, day),
    )
    # As if every event had an event_id.
    connection.executemany(
        "/* dataset.event_id */ insert into event_id (website, minute_ms, digest, arrived_ms)"
        " values (?, ?, randomblob(16), ?)",
        ((website, minute_of(ms), ms) for ms, *_ in events if ms >= end_ms - EVENT_ID_MS),  # type: ignore[arg-type,operator]
    )
    connection.execute("/* dataset.ids */ update meta set value = ? where name = 'next_id'", (next_id + len(events),))


def roll_up(data_set: DataSet) -> DataSet:
    """Start the server until it has built the totals and rollups of every day; return the data set with the times."""
    progress("the server builds totals and rollups")
    begun = time.perf_counter()
    with Tally(data_set.db) as server:
        wait_until_built(data_set.db)
        taken_s = time.perf_counter() - begun
    progress(f"totals and rollups took {taken_s:.0f} s")
    with closing(database.open_database(data_set.db, create=False)) as connection:
        # A server that has run since the first event has never had the rows of all days at once.
        compact(connection, lambda pages: None)
    return data_set._replace(rollups_s=taken_s, first_start_s=server.started_s)


def wait_until_built(db: Path) -> None:
    """Wait until the running server has built everything that can be built."""
    before, since = "", time.monotonic()
    with closing(database.connect_reader(db)) as connection:
        while unbuilt := _unbuilt(connection):
            now = time.monotonic()
            if unbuilt != before:
                before, since = unbuilt, now
            if now - since > MAX_IDLE_S:
                raise TimeoutError(f"the server has built nothing for {MAX_IDLE_S:.0f} s and there are still {unbuilt}")
            time.sleep(_POLL_S)


def _unbuilt(connection: sqlite3.Connection) -> str:
    """Return what is not built yet, "" if everything is."""
    now_ms = time.time_ns() // 1_000_000
    statement = "/* dataset.built */ select website, level, block, state, is_over from rollup_state where kind = 0"
    rows = connection.execute(statement).fetchall()
    days = [(website, day, state) for website, level, day, state, _ in rows if level == 0]
    stale = sum(state == 0 for _, _, state in days)
    ended = sum(
        level == 0 and state == 1 and not is_over and day < now_ms // DAY_MS for _, level, day, state, is_over in rows
    )
    blocks = {(website, level, block) for website, level, block, state, _ in rows if level and state == 2}
    missing = len(_expected(days) - blocks)
    websites = {row[0] for row in rows}
    end = rollup_state.first_not_final(now_ms)
    measured = [
        (source, found)
        for website in websites
        for source in (WEB_VITALS, EXPERIMENTS)
        if (found := measurement_days.next_day(connection, website, source, end)) is not None
    ]
    unpacked = [found for website in websites if (found := column_days.next_day(connection, website))]
    with_rows = [found for website in websites if (found := deleted_rows.next_day(connection, website))]
    parts = (
        (stale, "stale days"),
        (ended, "days that have ended"),
        (missing, "blocks of days"),
        (unpacked, "as the next days by column"),
        (with_rows, "as the next days whose rows are deleted"),
        (measured, "as the next days of measurements by column"),
    )
    return ", ".join(f"{how} {what}" for how, what in parts if how)


def _expected(days: list[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
    """Return the blocks (website, level, number) before the first unfinished day of their website."""
    expected = set()
    for website in {day[0] for day in days}:
        own = [(day, state) for of, day, state in days if of == website]
        ready = min((day for day, state in own if state < 2), default=max(own)[0] + 1)
        expected |= {
            (website, level, day >> level)
            for day, _ in own
            for level in rollup_state.LEVELS[1:]
            if (day >> level) + 1 <= ready >> level
        }
    return expected
