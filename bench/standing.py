"""Parts build, memory, disk and start: what the server takes of the machine at this size.

Memory is the server's resident size in MB of 1,000,000 bytes; disk is the database and its log after all rollups are
built and the server has ended, by tables; start is the time from exec to the line `listening on`.
"""

import statistics
import time
from contextlib import closing, suppress

from client import Asker, load
from dataset import DataSet, settled
from questions import ask, unfiltered
from report import Row, ms, say
from sending import everybody
from servers import Tally, command

from bench import Bench
from tally.storage import database

# Targets of the issue.
MOST_MB = 120
VISITORS = 100_000
MOST_BYTES = 80
MOST_START_S = 1.0
HOUR_EVENTS = 200 * 3600
# Allocators give back in pages what they take in arenas; more than this over half an hour is growth.
MOST_GROWTH_MB = 3.0
_MOST_S = 600.0
_STARTS = 3


def build(bench: Bench) -> list[Row]:
    """How long the data set took, and the server its rollups in the background."""
    known = bench.known()
    rows = f"{known.events:,} events in {known.rows_s:.0f} s, {known.events / known.rows_s:,.0f} a second"
    rollups = f"{known.rollups_s:.0f} s, {known.events / known.rollups_s:,.0f} events a second"
    return [
        Row("build", "rows of the data set, straight into the tables", rows),
        Row("build", "totals and rollups of all days, by the server in the background", rollups),
    ]


def memory(bench: Bench) -> list[Row]:
    """Resident size after questions, with 100,000 visitors alive, and over an hour's worth of events."""
    with bench.copy() as known, Tally(known.db) as tally:
        settled(known.db)
        at_rest = tally.resident_mb()
        asker = Asker(tally.port, known.key)
        ask(asker, known.website, unfiltered(), 1)
        asked = tally.resident_mb()
        requests = everybody(known.website, VISITORS)
        _send_all(tally, requests, 1)
        alive, with_visitors = tally.figures()["tally_identities"], tally.resident_mb()
        say(f"{alive:,.0f} visitors alive, {with_visitors:.0f} MB")
        halves = []
        for _ in range(2):
            _send_all(tally, requests, round(HOUR_EVENTS / 2 / VISITORS))
            ask(asker, known.website, unfiltered(), 1)
            halves.append(tally.resident_mb())
        asker.close()
    growth = halves[1] - halves[0]
    most = max(asked, with_visitors, *halves)
    target = f"at most {MOST_MB} MB"
    told = f"{at_rest:.0f} MB at rest, {asked:.0f} MB after all questions"
    alive_too = f"{with_visitors:.0f} MB, {most:.0f} MB after an hour's worth"
    grown = f"{halves[0]:.0f} MB after half an hour's worth, {halves[1]:.0f} MB after the whole ({growth:+.1f})"
    return [
        Row("memory", f"resident, {known.events:,} events on disk", told, "", "", target, asked <= MOST_MB),
        Row("memory", f"resident, {alive:,.0f} visitors alive", alive_too, "", "", target, most <= MOST_MB),
        Row("memory", f"over {HOUR_EVENTS:,} events, and all questions", grown, "", "",
            f"no growth ({MOST_GROWTH_MB:.0f} MB)", growth <= MOST_GROWTH_MB),
    ]  # fmt: skip


def _send_all(tally: Tally, requests: list[bytes], times: int) -> None:
    load(tally, lambda n: requests[n % len(requests)], _MOST_S, most=len(requests) * times)


def disk(bench: Bench) -> list[Row]:
    """Bytes an event, everything included, and the tables that take them."""
    known = bench.known()
    size = sum(path.stat().st_size for path in known.db.parent.glob(known.db.name + "*"))
    each = size / known.events
    told = f"{each:.1f} bytes an event: {_by_table(known)}"
    return [Row("disk", "database and log", told, "", "", f"at most {MOST_BYTES} bytes", each <= MOST_BYTES)]


def _by_table(known: DataSet) -> str:
    with closing(database.connect_reader(known.db)) as connection:
        free = connection.execute("pragma freelist_count").fetchone()[0]
        page = connection.execute("pragma page_size").fetchone()[0]
        parts = {"free pages": free * page}
        # Not every SQLite is built with dbstat.
        with suppress(Exception):
            parts |= dict(connection.execute("/* standing.sizes */ select name, sum(pgsize) from dbstat group by name"))
    shown = sorted(((size / known.events, name) for name, size in parts.items()), reverse=True)
    return ", ".join(f"{name} {size:.1f}" for size, name in shown if size >= 0.05)


def start(bench: Bench) -> list[Row]:
    """From exec to listening: after an orderly end, after a kill, with every rollup still to be built."""
    with bench.copy() as known:
        orderly, killed = [], []
        for _ in range(_STARTS):
            with Tally(known.db) as server:
                orderly.append(server.started_s)
            with Tally(known.db) as server:
                _send_all(server, everybody(known.website, VISITORS), 1)
                server.kill()
            with Tally(known.db) as server:
                killed.append(server.started_s)
    floor = f"python that imports it {ms(_imports_s())}"
    target = f"at most {ms(MOST_START_S)}"
    cases = [("after an orderly end", orderly), ("after kill -9, SQLite's log full", killed)]
    if bench.known().first_start_s:
        cases.append(("every rollup still to be built", [bench.known().first_start_s]))
    return [
        Row("start", f"{known.events:,} events, {what}", f"{ms(statistics.median(some))}, worst {ms(max(some))}", floor,
            "", target, max(some) <= MOST_START_S)
        for what, some in cases
    ]  # fmt: skip


def _imports_s() -> float:
    """What it takes to start the interpreter and import the product, the least that any start takes."""
    times = []
    for _ in range(_STARTS):
        begun = time.perf_counter()
        command("--version")
        times.append(time.perf_counter() - begun)
    return min(times)
