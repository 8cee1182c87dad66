"""Parts build, memory, disk and start: build times, memory, disk space and start-up time at this size.

Memory is the server's resident size in MB of 1,000,000 bytes; disk is the database and its log after all rollups are
built and the server has ended, by tables; start is the time from exec to the line `listening on`.
"""

import statistics
import subprocess
import sys
import time
from contextlib import closing, suppress

from client import Client, load
from collect_requests import one_event_per_visitor
from dataset import DataSet, wait_until_built
from queries import run_queries, unfiltered
from report import Row, ms, progress
from servers import ROOT, Tally

from bench import Bench
from tally.storage import database

# Targets.
MAX_MB = 150
VISITORS = 100_000
MAX_BYTES = 30
MAX_START_S = 1.0
HOUR_EVENTS = 200 * 3600
# Allocators do not return all freed memory; more than this over half an hour is growth.
MAX_GROWTH_MB = 3.0
_MAX_S = 600.0
_STARTS = 3


def build(bench: Bench) -> list[Row]:
    """Return the time of writing the data set, and of its rollups by the server in the background."""
    data_set = bench.data_set()
    rows = f"{data_set.events:,} events in {data_set.rows_s:.0f} s, {data_set.events / data_set.rows_s:,.0f} a second"
    rollups = f"{data_set.rollups_s:.0f} s, {data_set.events / data_set.rollups_s:,.0f} events a second"
    return [
        Row("build", "rows of the data set, inserted into the tables", rows),
        Row("build", "totals and rollups of all days, by the server in the background", rollups),
    ]


def memory(bench: Bench) -> list[Row]:
    """Return resident memory after queries, with 100,000 visitors in memory, and over the events of an hour."""
    with bench.copy() as data_set, Tally(data_set.db) as tally:
        wait_until_built(data_set.db)
        # What listening does not need, such as the tables of browsers, is loaded after it: 24 MB.
        tally.wait_until_idle()
        at_rest = tally.resident_mb()
        _query(tally, data_set)
        after_queries = tally.resident_mb()
        requests = one_event_per_visitor(data_set.website, VISITORS)
        _send_all(tally, requests, 1)
        visitors, with_visitors = tally.figures()["tally_identities"], tally.resident_mb()
        progress(f"{visitors:,.0f} visitors in memory, {with_visitors:.0f} MB")
        halves = []
        for _ in range(2):
            _send_all(tally, requests, round(HOUR_EVENTS / 2 / VISITORS))
            _query(tally, data_set)
            halves.append(tally.resident_mb())
    growth = halves[1] - halves[0]
    most = max(after_queries, with_visitors, *halves)
    target = f"max {MAX_MB} MB"
    text = f"{at_rest:.0f} MB at rest, {after_queries:.0f} MB after all queries"
    memory_text = f"{with_visitors:.0f} MB, {most:.0f} MB after an hour's events"
    grown = f"{halves[0]:.0f} MB after half an hour's events, {halves[1]:.0f} MB after the whole ({growth:+.1f})"
    return [
        Row("memory", f"resident, {data_set.events:,} events on disk", text, "", "", target, after_queries <= MAX_MB),
        Row("memory", f"resident, {visitors:,.0f} visitors in memory", memory_text, "", "", target, most <= MAX_MB),
        Row("memory", f"over {HOUR_EVENTS:,} events, and all queries", grown, "", "",
            f"no growth ({MAX_GROWTH_MB:.0f} MB)", growth <= MAX_GROWTH_MB),
    ]  # fmt: skip


def _query(tally: Tally, data_set: DataSet) -> None:
    # On a connection of its own: the server closes one that was idle while events were sent.
    with closing(Client(tally.port, data_set.key)) as client:
        run_queries(client, data_set.website, unfiltered(), 1)


def _send_all(tally: Tally, requests: list[bytes], times: int) -> None:
    load(tally, lambda n: requests[n % len(requests)], _MAX_S, most=len(requests) * times)


def disk(bench: Bench) -> list[Row]:
    """Return the bytes per event, everything included, by table."""
    data_set = bench.data_set()
    size = sum(path.stat().st_size for path in data_set.db.parent.glob(data_set.db.name + "*"))
    each = size / data_set.events
    text = f"{each:.1f} bytes an event: {_by_table(data_set)}"
    return [Row("disk", "database and log", text, "", "", f"max {MAX_BYTES} bytes", each <= MAX_BYTES)]


def _by_table(data_set: DataSet) -> str:
    with closing(database.connect_reader(data_set.db)) as connection:
        free = connection.execute("pragma freelist_count").fetchone()[0]
        page = connection.execute("pragma page_size").fetchone()[0]
        parts = {"free pages": free * page}
        # Not every SQLite is built with dbstat.
        with suppress(Exception):
            parts |= dict(
                connection.execute("/* resources.sizes */ select name, sum(pgsize) from dbstat group by name")
            )
    shown = sorted(((size / data_set.events, name) for name, size in parts.items()), reverse=True)
    return ", ".join(f"{name} {size:.1f}" for size, name in shown if size >= 0.05)


def start(bench: Bench) -> list[Row]:
    """Return the time from exec to listening: after an orderly stop, after a kill, and with no rollup built."""
    with bench.copy() as data_set:
        orderly, killed = [], []
        for _ in range(_STARTS):
            with Tally(data_set.db) as server:
                orderly.append(server.started_s)
            with Tally(data_set.db) as server:
                _send_all(server, one_event_per_visitor(data_set.website, VISITORS), 1)
                server.kill()
            with Tally(data_set.db) as server:
                killed.append(server.started_s)
    baseline = f"python that imports it {ms(_imports_s())}"
    target = f"max {ms(MAX_START_S)}"
    cases = [("after an orderly stop", orderly), ("after kill -9, SQLite's log full", killed)]
    if bench.data_set().first_start_s:
        cases.append(("no rollup built yet", [bench.data_set().first_start_s]))
    return [
        Row("start", f"{data_set.events:,} events, {what}", f"{ms(statistics.median(some))}, max {ms(max(some))}",
            baseline, "", target, max(some) <= MAX_START_S)
        for what, some in cases
    ]  # fmt: skip


def _imports_s() -> float:
    """Return the seconds of starting the interpreter and importing the server, the minimum of any start."""
    times = []
    for _ in range(_STARTS):
        begun = time.perf_counter()
        subprocess.run((sys.executable, "-c", "import tally.cli.serve"), cwd=ROOT, check=True)
        times.append(time.perf_counter() - begun)
    return min(times)
