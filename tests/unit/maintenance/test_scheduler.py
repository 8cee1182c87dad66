"""tally/maintenance/scheduler.py: every kind of background work and every website gets its turn, and an idle server
writes nothing.

Real processes: one under strace whose writes are counted, and some whose fsync is slow (tests/support/slow_disk.c,
preloaded).
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.websites import delete_website
from tally.clock import Clock
from tally.events.dimensions import FIELDS
from tally.ingest import rejected_events
from tally.maintenance import deletion
from tally.maintenance.background_work import PAUSE_S
from tally.maintenance.deletion_worker import LATE_MS
from tally.maintenance.scheduler import FAILED_PAUSE_S, TURN_S, Scheduler, Turn
from tally.storage.database import transaction
from tests.support.aged_database import import_lines, past_events, sql, writing_connection
from tests.support.app import ROOT, ManualClock
from tests.support.process import NO_RATE_LIMITS, Serve, Server, need_strace, until
from tests.support.rollup_database import DAY_MS, HOUR_MS, RollupHarness, make_file
from tests.support.selection import first_of

# --- turns


class Endless:
    """Sources of turns, some of which always have more to do; a step takes an eighth of a turn."""

    def __init__(self, *turns: tuple[str, int, bool]) -> None:
        self.now_s, self.steps = 0.0, list[tuple[str, int]]()
        self._turns = turns
        self.broken = set[str]()

    async def turns(self) -> list[Turn]:
        return [Turn(kind, website, self._step(kind, website, has_more)) for kind, website, has_more in self._turns]

    def _step(self, kind: str, website: int, has_more: bool) -> Callable[[], Awaitable[bool]]:
        async def step() -> bool:
            self.now_s += TURN_S / 8
            self.steps.append((kind, website))
            if kind in self.broken:
                raise ValueError("a row that cannot be read")
            return has_more

        return step


async def test_endless_work_does_not_block_other_work() -> None:
    """Other websites, kinds and sources get their turns."""
    source = Endless(("build days", 1, True), ("build days", 2, False), ("retention", 1, True), ("retention", 2, False))
    later = Endless(("deletion", 3, False))
    scheduler = Scheduler((source, later), now_s=lambda: source.now_s)
    for rounds in range(1, 4):
        assert await scheduler.round()
        counts = {place: source.steps.count(place) for place in source.steps}
        assert counts == {("build days", 1): 8 * rounds, ("build days", 2): rounds} | {
            ("retention", 1): 8 * rounds,
            ("retention", 2): rounds,
        }
        assert later.steps == [("deletion", 3)] * rounds


async def test_a_failed_turn_does_not_block_others() -> None:
    """A failed turn is skipped for a while and then retried."""
    source = Endless(("vitals", 1, False), ("retention", 1, False))
    failures = list[Exception]()
    scheduler = Scheduler((source,), failures.append, lambda: source.now_s)
    source.broken = {"vitals"}
    for _ in range(3):
        assert not await scheduler.round()
    assert (len(failures), source.steps.count(("retention", 1)), source.steps.count(("vitals", 1))) == (1, 3, 1)
    source.now_s += FAILED_PAUSE_S
    source.broken = set()
    await scheduler.round()
    assert (len(failures), source.steps.count(("vitals", 1))) == (1, 2)


# --- the builder


@pytest.fixture
def harness(tmp_path: Path) -> Any:
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db", ManualClock())
    yield harness
    harness.close()


def view(harness: RollupHarness, before_ms: int) -> tuple[int, int, str, tuple[str, ...]]:
    return harness.now_ms - before_ms, 0, "session-1", ("/a", *[""] * len(FIELDS))


def test_finished_work_is_not_repeated(harness: RollupHarness) -> None:
    """Nothing is committed for a website without events, except at the end of its open days."""

    def version() -> int:
        """A connection that records commits."""
        return int(harness.reader.execute("pragma data_version").fetchone()[0])

    harness.send(view(harness, 60_000), view(harness, HOUR_MS))
    harness.build()
    before = version()
    for _ in range(10):
        harness.advance(60_000)
        harness.build()
    assert version() == before
    harness.advance(DAY_MS)
    harness.build()
    ended = version()
    assert ended != before
    harness.advance(HOUR_MS)
    harness.build()
    assert version() == ended


FULL, BARE, KEPT = "rows", "columns", "values"
"""What is left of a day's events."""


@pytest.mark.parametrize(("before", "after"), [(FULL, BARE), (BARE, KEPT), (FULL, KEPT)])
def test_used_texts_are_found_while_rows_move(tmp_path: Path, before: str, after: str) -> None:
    """tally/maintenance/deletion.py: events become columns and these values between two steps of the reading; every
    text of theirs stays.
    """
    template = tmp_path / "template.db"
    make_file(template, 1)
    harness = RollupHarness(template, ManualClock())
    fields = tuple(f"text-{n}" for n in range(len(FIELDS) + 1))
    harness.import_events((harness.now_ms - 20 * DAY_MS, 2, "session-1", fields))
    # What a website has used is listed there as well.
    harness.writer.execute("delete from field_value")
    move(harness, before)
    used = {row[0] for row in harness.reader.execute("select id from label where text like 'text-%'")}
    # The channel follows from the others.
    assert len(used) == len(FIELDS)
    reading, steps = deletion.LabelScan(harness.reader, lambda: False), 0
    while reading.step(harness.reader):
        steps += 1
    harness.close()
    assert steps > 100
    for moment in range(first_of(9), steps, 9):
        shutil.copy(template, tmp_path / "analytics.db")
        harness = RollupHarness(tmp_path / "analytics.db", ManualClock())
        reading = deletion.LabelScan(harness.reader, lambda: False)
        for _ in range(moment):
            assert reading.step(harness.reader)
        move(harness, after)
        while reading.step(harness.reader):
            pass
        assert used.isdisjoint(reading.unused(harness.reader))
        harness.close()


def move(harness: RollupHarness, what: str) -> None:
    """Leave of past events what is said."""
    number = harness.websites[0].number
    if what != FULL:
        harness.build()
    if what == KEPT:
        with transaction(harness.writer):
            harness.writer.execute("update website set keep_days = 5 where number = ?", (number,))
        harness.build()
    left = (("event", FULL), ("day_column", BARE), ("rollup_block where level = 0", KEPT))
    tables = {table for table, _ in left if harness.reader.execute(f"select 1 from {table}").fetchone()}
    assert tables == {table for table, name in left if name == what}


# --- rejected events


async def test_many_rejected_events_do_not_block_periodic_tasks(harness: RollupHarness) -> None:
    """Events counted during the write are written in the next second."""
    noted, calls = rejected_events.RejectedEvents(harness.clock), list[int]()

    class Flooded:
        async def run(self, step: Callable[[Any], Any]) -> Any:
            calls.append(1)
            assert len(calls) < 50, "it writes as long as events are rejected"
            noted._counts[1, len(calls), 0] = 1
            return step(harness.writer)

    noted._counts[1, 0, 0] = 1
    await noted.write(Flooded())  # type: ignore[arg-type]
    assert len(calls) == 2  # the counts, and a query for old ones


# --- a real server


def send_view(server: Server, website: str, before_ms: int = 0) -> None:
    event = {"type": "pageview", "website_id": website, "url": "https://example.com/"}
    sent = event | {"timestamp": Clock().wall_ms() - before_ms}
    assert server.request("POST", "/api/collect", sent).status == 202


@pytest.mark.slow
def test_an_idle_server_writes_nothing(serve: Serve, tmp_path: Path) -> None:
    """After an event there is no write and no fsync."""
    need_strace()
    db, trace = tmp_path / "analytics.db", tmp_path / "trace"
    make_file(db)
    ((website,),) = sql(db, "select id from website where number = 1")
    server = serve()
    words = ["strace", "-f", "-q", "-o", str(trace), "-e", "trace=fsync,fdatasync,pwrite64", "-p", str(server.pid)]
    tracer = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        until(lambda: f"TracerPid:\t{tracer.pid}\n" in Path(f"/proc/{server.pid}/status").read_text())
        send_view(server, website)
        until(lambda: sql(db, "select 1 from event"))
        # Two rounds of the background work. A day that ends meanwhile is one more commit, so it may take longer.
        until(lambda: is_quiet(trace, 2 * PAUSE_S + 0.5), 40)
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(timeout=60)
    assert server.terminate() == 0


def is_quiet(trace: Path, seconds: float) -> bool:
    """Return whether the server writes to no file for this long."""
    before, end = trace.stat().st_size, time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.2)
        if trace.stat().st_size != before:
            return False
    return before > 0


@pytest.fixture(scope="module")
def slow_disk(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of the preloaded library; skip without a compiler, or fail if TALLY_MUST_COMPILE is set."""
    if shutil.which("gcc") is None:
        assert not os.environ.get("TALLY_MUST_COMPILE"), "install gcc: apt-get install gcc libc6-dev"
        pytest.skip("NOT TESTED: background work on a slow disk (apt-get install gcc libc6-dev)")
    library = tmp_path_factory.mktemp("slow") / "slow_disk.so"
    source = ROOT / "tests" / "support" / "slow_disk.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return str(library)


BUSY, OLD, RECENT, DELETED = range(1, 5)
"""Websites: one that gets events, one with a past to be deleted, one with a recent past, and a deleted one."""


def everything_to_do(path: Path) -> str:
    """Return a database with work of every kind, and the id of the website that gets events."""
    make_file(path, 4)
    now_ms = Clock().wall_ms()
    today = now_ms // DAY_MS
    # 32 days and more: its block of days is over for good.
    lines = [line for line in past_events(today, [40]) if line["type"] in ("pageview", "vitals")]
    for number, taken in ((OLD, lines), (RECENT, past_events(today, [2], now_ms)[:40]), (DELETED, lines[:40])):
        assert import_lines(path, number, taken, now_ms) == (len(taken), 0, 0)
    connection = writing_connection(path)
    with transaction(connection):
        connection.execute("update website set keep_days = 10 where number = ?", (OLD,))
        connection.execute("insert into heatmap_point values (?, ?, 1, 2, 0, 3, 4, 5)", (OLD, today - 20))
        ((website,),) = connection.execute("select id from website where number = ?", (BUSY,)).fetchall()
        delete_website(connection, DELETED, now_ms - 2 * LATE_MS)
    connection.close()
    return str(website)


DONE = (
    (
        "stale days are built",
        "select not exists (select 1 from rollup_state where kind = 0 and level = 0 and state = 0)",
    ),
    (
        "days that have ended are marked",
        f"select not exists (select 1 from rollup_state where website = {RECENT} and kind = 0 and is_over = 0)",
    ),
    (
        "blocks of days are built",
        f"select exists (select 1 from rollup_state where website = {OLD} and kind = 0 and level = 5 and state = 2)",
    ),
    ("pages are counted", f"select exists (select 1 from rollup_block where website = {OLD} and field = 105)"),
    ("values of expired days stay", f"select exists (select 1 from rollup_block where website = {OLD} and level = 0)"),
    ("old vitals are kept", f"select exists (select 1 from web_vitals_histogram where website = {OLD})"),
    ("points are packed", "select not exists (select 1 from heatmap_point) and exists (select 1 from heatmap_block)"),
    ("old events go", f"select not exists (select 1 from event where website = {OLD})"),
    ("a deleted website is erased", "select is_complete from deleted_website"),
    ("its rows are gone", f"select not exists (select 1 from event where website = {DELETED})"),
)


@pytest.mark.parametrize(("sync_ms", "pause_s"), [(3, 0.0), (30, 0.25)])
@pytest.mark.slow
def test_all_work_finishes_while_events_arrive(
    serve: Serve, tmp_path: Path, slow_disk: str, sync_ms: int, pause_s: float
) -> None:
    """Events are sent one after another, so that the writer is always busy."""
    db = tmp_path / "analytics.db"
    website = everything_to_do(db)
    server = serve(*NO_RATE_LIMITS, env={"LD_PRELOAD": slow_disk, "SLOW_SYNC_MS": str(sync_ms)})
    with events_arriving(server, website, pause_s) as sent:
        until(lambda: all(sql(db, statement) == [(1,)] for _, statement in DONE), 100)
        before = len(sent)
        until(lambda: len(sent) > before)
    assert set(sent) == {202}
    assert server.terminate() == 0
    assert "level=error" not in server.stderr()


@contextmanager
def events_arriving(server: Server, website: str, pause_s: float) -> Iterator[list[int]]:
    """Send old events one after another until stopped; return the statuses."""
    statuses, is_over = list[int](), threading.Event()

    def send() -> None:
        event = {"type": "pageview", "website_id": website, "url": "https://example.com/"}
        while not is_over.is_set():
            late = event | {"timestamp": Clock().wall_ms() - 20_000}
            statuses.append(server.request("POST", "/api/collect", late).status)
            is_over.wait(pause_s)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield statuses
    finally:
        is_over.set()
        thread.join()
