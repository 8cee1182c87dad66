"""The file that is measured: one website with millions of events over the last 365 days, and a key to ask about it.

Rows go straight into the tables, in the order of time, a day's worth in memory at once: HTTP would take an hour for
what takes two minutes, and takes no events older than 72 hours. They are such rows as the server writes itself, and
every day is registered in `rollup_state` as stale, to be built: the server builds the rest when it is started
(`settled` waits for that).

A folder keeps what was built, with a marker that says what it is; the next run uses it again where the marker, the
schema's version and the age fit, and builds it anew where they do not. It is never measured itself, but a copy of it
(`copied`), so that what one run sends is not there in the next one.
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

from report import say
from servers import Tally
from traffic import DAY_MS, DOMAIN, EVENTS_A_VISITOR, Traffic, quieter, texts

from tally.accounts.accounts import FIRST_ACCOUNT, create_account, find_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website, all_websites
from tally.rollups import rollup_state, visit_pages, web_vitals
from tally.storage import database

SEED = 7
DAYS = 365
MARKER = "bench.json"
# Another one whenever the drawing changes, so that no older file passes for a new one.
SHAPE = 1
# In an older file too little of the last 7 days is left.
MOST_AGE_MS = 36 * 3_600_000
# The limit for late events, for which event_ids are kept.
EVENT_ID_MS = 72 * 3_600_000
_POLL_S = 0.5
# A step takes a second or so; this is for a machine that is busy otherwise.
MOST_IDLE_S = 300.0
# What is rolled up later than this is a backlog (ROLL_UP_AFTER_MS in tally/rollups/field_values.py is 10 s, plus its
# pause and its step).
BEHIND_MS = 60_000


class DataSet(NamedTuple):
    """A built file. `rows_s`, `rollups_s`: how long its rows and then its rollups took; `first_start_s`: the server's
    start while every rollup was still to be built."""

    db: Path
    website: str
    key: str
    events: int
    end_ms: int
    rows_s: float
    rollups_s: float = 0.0
    first_start_s: float = 0.0


def prepared(folder: Path, events: int) -> DataSet:
    """The data set of so many events in a folder, from an earlier run or built now, rollups included."""
    folder.mkdir(parents=True, exist_ok=True)
    marks = _marks(events)
    known = known_in(folder, marks)
    if known is None:
        known = _build(folder, events)
        mark(folder, marks, known)
    if not known.rollups_s:
        known = roll_up(known)
        mark(folder, marks, known)
    return known


def copied(known: DataSet, folder: Path) -> DataSet:
    """A copy to be worked on."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / known.db.name
    drop(copy)
    for path in known.db.parent.glob(known.db.name + "*"):
        if not path.name.endswith((".lock", "-shm")):
            shutil.copyfile(path, folder / path.name)
    return known._replace(db=copy)


def drop(db: Path) -> None:
    """Deletes a database with all that lies beside it."""
    for path in list(db.parent.glob(db.name + "*")):
        path.unlink()


def _marks(events: int) -> dict[str, object]:
    drawn = {"asked": events, "seed": SEED, "days": DAYS, "shape": SHAPE}
    return drawn | {"schema": database.VERSION, "levels": list(rollup_state.LEVELS)}


def mark(folder: Path, marks: dict[str, object], known: DataSet) -> None:
    """Writes down what a folder holds."""
    content = {"marks": marks, "data": known._asdict() | {"db": known.db.name}}
    unfinished = folder / (MARKER + ".unfinished")
    unfinished.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(unfinished, folder / MARKER)


def known_in(folder: Path, marks: dict[str, object]) -> DataSet | None:
    """What a folder holds, if it is what these marks say and not too old."""
    marker = folder / MARKER
    if not marker.exists():
        return None
    content = json.loads(marker.read_text())
    known = DataSet(**content["data"] | {"db": folder / content["data"]["db"]})
    if content["marks"] != marks or not known.db.exists():
        say(f"{known.db} is of another kind or version: building it anew")
        return None
    if time.time() * 1000 - known.end_ms > MOST_AGE_MS:
        say(f"{known.db} is older than {MOST_AGE_MS // 3_600_000} hours: building it anew")
        return None
    say(f"{known.db} is used again: {known.events:,} events")
    return known


def _build(folder: Path, events: int) -> DataSet:
    (folder / MARKER).unlink(missing_ok=True)
    db = folder / "analytics.db"
    drop(db)
    end_ms = time.time_ns() // 1_000_000
    say(f"building {db}: {events:,} events over {DAYS} days")
    begun = time.perf_counter()
    with closing(database.open_database(db, create=True)) as connection:
        with database.transaction(connection):
            owner = create_account(connection, FIRST_ACCOUNT, "business", None, end_ms)
            key = create_api_key(connection, owner, "bench", end_ms)
        website, written = fill_website(connection, events, end_ms)
    taken_s = time.perf_counter() - begun
    say(f"{written:,} events in {taken_s:.0f} s, {written / taken_s:,.0f} a second")
    return DataSet(db, website, key, written, end_ms, taken_s)


def fill_website(connection: sqlite3.Connection, events: int, end_ms: int) -> tuple[str, int]:
    """A new website with about so many events up to `end_ms`: its id, and how many there are."""
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
    written = sum(_write_days(connection, number, Traffic(SEED, label), events, end_ms))
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    connection.execute("pragma synchronous = full")
    return id, written


def _write_days(
    connection: sqlite3.Connection, website: int, traffic: Traffic, events: int, end_ms: int
) -> Iterator[int]:
    """Writes day after day, each in a transaction of its own; gives how many events each has."""
    begin_ms = end_ms - DAYS * DAY_MS
    first, last = begin_ms // DAY_MS, (end_ms - 1) // DAY_MS
    for day in range(first, last + 1):
        visitors = round(events / DAYS / EVENTS_A_VISITOR * quieter(day))
        drawn = traffic.day(day, visitors, begin_ms, end_ms)
        if drawn.events:
            with database.transaction(connection):
                _write_day(connection, website, day, drawn.events, drawn.visits, end_ms)
        if (day - first) % 60 == 0:
            say(f"day {day - first} of {DAYS}")
        yield len(drawn.events)


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
        f"/* dataset.event */ insert into event values ({', '.join('?' * 22)})",
        ((website, event[0], id, *event[1:]) for id, event in enumerate(events, next_id)),
    )
    connection.executemany(
        "/* dataset.visit */ insert into visit values (?, ?, ?, ?, ?, ?, ?)", ((website, *visit) for visit in visits)
    )
    # Stale, nothing folded: the server builds them in the background.
    connection.execute(
        "/* dataset.stale */ insert into rollup_state values (?, 0, ?, 0, ?, 0)", (website, day, day * DAY_MS)
    )
    # As if every event had brought an event_id.
    connection.executemany(
        "/* dataset.event_id */ insert into event_id values (?, randomblob(16), ?)",
        ((website, event[0]) for event in events if event[0] >= end_ms - EVENT_ID_MS),  # type: ignore[operator]
    )
    connection.execute("/* dataset.ids */ update meta set value = ? where name = 'next_id'", (next_id + len(events),))


def roll_up(known: DataSet) -> DataSet:
    """Has the server build totals and rollups of every day, and all that it adds up in the background."""
    say("the server builds totals and rollups")
    begun = time.perf_counter()
    with Tally(known.db) as server:
        settled(known.db)
        taken_s = time.perf_counter() - begun
    say(f"totals and rollups took {taken_s:.0f} s")
    return known._replace(rollups_s=taken_s, first_start_s=server.started_s)


def settled(db: Path) -> None:
    """Waits until the running server has built all that can be built: every day, every block above, every fold."""
    before, since = "", time.monotonic()
    with closing(database.connect_reader(db)) as connection:
        while open_work := _open_work(connection):
            now = time.monotonic()
            if open_work != before:
                before, since = open_work, now
            if now - since > MOST_IDLE_S:
                raise TimeoutError(
                    f"the server has built nothing for {MOST_IDLE_S:.0f} s and there are still {open_work}"
                )
            time.sleep(_POLL_S)


def _open_work(connection: sqlite3.Connection) -> str:
    """What is still to be built, '' where nothing is."""
    now_ms = time.time_ns() // 1_000_000
    statement = "/* dataset.built */ select website, level, block, state, rolled_up_to_ms from rollup_state"
    rows = connection.execute(statement).fetchall()
    days = [(website, day, state, folded) for website, level, day, state, folded in rows if level == 0]
    stale = sum(state == 0 for _, _, state, _ in days)
    behind = sum(state == 1 and folded < min((day + 1) * DAY_MS, now_ms - BEHIND_MS) for _, day, state, folded in days)
    blocks = {(website, level, block) for website, level, block, _, _ in rows if level}
    missing = len(_expected(days) - blocks)
    websites = {row[0] for row in rows}
    histograms = [found for website in websites if (found := web_vitals.next_block(connection, website, now_ms))]
    pages = [found for website in websites if (found := visit_pages.next_block(connection, website, now_ms))]
    parts = (
        (stale, "stale days"),
        (behind, "days to fold"),
        (missing, "blocks of days"),
        (histograms, "as the next blocks of histograms"),
        (pages, "as the next blocks of entry and exit pages"),
    )
    return ", ".join(f"{how} {what}" for how, what in parts if how)


def _expected(days: list[tuple[int, int, int, int]]) -> set[tuple[int, int, int]]:
    """The blocks (website, level, number) that lie wholly before the first unfinished day of their website."""
    expected = set()
    for website in {day[0] for day in days}:
        own = [(day, state) for of, day, state, _ in days if of == website]
        ready = min((day for day, state in own if state < 2), default=max(own)[0] + 1)
        expected |= {
            (website, level, day >> level)
            for day, _ in own
            for level in rollup_state.LEVELS[1:]
            if (day >> level) + 1 <= ready >> level
        }
    return expected
