"""A disk that fails: full, read-only, faulty at one call or for good; a database that is damaged, deleted, replaced.

What was answered 202 is in the file exactly once and what was answered 503 is not, reads go on where they can, and when
the fault is over the server goes on by itself.

Faults at single calls are planted into the running server by strace, call by call until one request no longer reaches
that many: at each write and fsync once, and from each on for good. TALLY_FAULTS=N tries N of them whatever happens.
"""

import asyncio
import http.client
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.ingest.engine import WriteRequest
from tally.ingest.writer import WriteResult
from tally.storage.database import open_database
from tally.storage.health import DAMAGED, FAILING, UNSURE, fault_of
from tests.support.app import ROOT, Answer, App
from tests.support.process import UNLIMITED, Serve, Server, clean_environment, need_strace, until

# What happens on a disk that is full: nothing is to be refused before.
OPTIONS = (*UNLIMITED, "--min-free-disk", "0")
FAULTS = int(os.environ.get("TALLY_FAULTS", "0"))


def rows(db: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


class Ledger:
    """Sends page views with paths of their own, and remembers what became of each."""

    def __init__(self, db: Path, serve: Serve) -> None:
        with closing(open_database(db, create=True)) as connection:
            owner = create_account(connection, "owner@example.com", "business", None, 0)
            self.website = add_website(connection, owner, "example.com", "example.com", (), 0)
            self.key = create_api_key(connection, owner, "", 0)
        self.kept: list[str] = []
        self.refused: list[str] = []
        self.unsure: set[str] = set()
        self._lock = threading.Lock()
        self._number = 0
        # A server that is just ending says so in words of its own.
        self.is_ending = False
        self.server: Server = serve(*OPTIONS, db=db)
        assert self.goes_on()

    def send(self, events: int = 1, of_bytes: int = 0) -> Answer:
        """One request; 202 or a proper 503, and nothing else."""
        with self._lock:
            first, self._number = self._number, self._number + events
        paths = [f"/{n}/{'x' * of_bytes}" for n in range(first, first + events)]
        sent = [{"type": "pageview", "url": f"https://example.com{path}"} for path in paths]
        # Until it is answered it may be there or not.
        self.unsure.update(paths)
        answer = self.server.request("POST", "/api/collect", {"website_id": self.website, "events": sent})
        self.unsure.difference_update(paths)
        if answer.status == 202:
            assert answer.json == {"ok": True, "accepted": events, "rejected": 0}
        else:
            codes = {"storage_unavailable", "overloaded"} if self.is_ending else {"storage_unavailable"}
            assert answer.status == 503
            assert answer.json["error"]["code"] in codes
            assert int(answer.headers["Retry-After"]) >= 1
        (self.kept if answer.status == 202 else self.refused).extend(paths)
        return answer

    def goes_on(self) -> bool:
        """Whether an event is taken."""
        return self.send().status == 202

    def reads(self) -> None:
        """Asks for the figures, which must be those of what was kept."""
        path = f"/api/v1/websites/{self.website}/stats"
        answer = self.server.request("GET", path, None, {"Authorization": f"Bearer {self.key}"})
        assert (answer.status, answer.json.get("data", {}).get("pageviews")) == (200, len(self.kept))

    def end(self) -> int:
        """Ends the server in good order, while others may still send; its exit status."""
        self.is_ending = True
        return self.server.terminate()

    def is_well(self) -> bool:
        return self.server.request("GET", "/healthz").status == 200

    def recovers(self) -> None:
        """By itself: events are taken and those who ask hear that it is well."""
        until(self.is_well)
        assert self.goes_on()
        self.reads()

    def compare(self, db: Path | None = None) -> None:
        """What was kept is in the file exactly once, what was refused is not, and the file is whole."""
        db = db or self.server.db
        assert rows(db, "pragma integrity_check") == [("ok",)]
        found = Counter(path for (path,) in rows(db, "select text from event e join label l on l.id = e.pathname"))
        assert found == Counter(self.kept)
        assert rows(db, "select sum(events) from account_usage") == [(len(self.kept),)]
        assert rows(db, "select sum(pageviews) from visit") == [(len(self.kept),)]


@pytest.fixture
def ledger(serve: Serve, db: Path) -> Ledger:
    return Ledger(db, serve)


# Faults at single calls


class Faults:
    """strace on the running server: lets calls fail until it is ended; `hits` counts those that did, once it is."""

    def __init__(self, server: Server, trace: Path, call: str, error: str, when: str, only: Path | None = None) -> None:
        self._trace = trace
        words = ["strace", "-f", "-q", "-o", str(trace), "-e", f"trace={call}", "-e", f"inject={call}:{error}:{when}"]
        words += ["-P", str(only)] if only else []
        self._strace = subprocess.Popen([*words, "-p", str(server.pid)], stderr=subprocess.PIPE)
        until(lambda: self._strace.poll() is not None or self._is_attached(server))
        assert self._strace.poll() is None, self._strace.stderr and self._strace.stderr.read()

    def _is_attached(self, server: Server) -> bool:
        tasks = Path(f"/proc/{server.pid}/task").iterdir()
        return all(f"TracerPid:\t{self._strace.pid}\n" in (task / "status").read_text() for task in tasks)

    def end(self) -> None:
        self._strace.send_signal(signal.SIGINT)
        self._strace.wait(timeout=60)
        assert self._strace.stderr is not None
        self._strace.stderr.close()

    @property
    def hits(self) -> int:
        return self._trace.read_text().count("(INJECTED)")


@contextmanager
def failing(ledger: Ledger, call: str, error: str, when: str, only: Path | None = None) -> Iterator[Faults]:
    faults = Faults(ledger.server, ledger.server.db.with_name("trace"), call, error, when, only)
    try:
        yield faults
    finally:
        faults.end()


# On a loaded machine each takes half a second, with an fsync one or two.
ONCE = [("pwrite64", "error=ENOSPC"), ("pwrite64", "error=EIO"), ("fdatasync", "error=EIO")]


@pytest.mark.parametrize(("call", "error"), ONCE, ids=lambda value: value.removeprefix("error="))
def test_a_fault_at_any_call(call: str, error: str, ledger: Ledger) -> None:
    """The n-th write or fsync fails, once: the request that it belongs to is refused or kept, whole; the next is taken
    as soon as the server is sure of its file again."""
    need_strace()
    refused = 0
    # Writes come in pairs, a page and its head.
    for n in range(1, FAULTS + 1 if FAULTS else 1_000, 1 if FAULTS else 2 if call == "pwrite64" else 1):
        with failing(ledger, call, error, f"when={n}") as faults:
            before = len(ledger.refused)
            # A request makes about twenty writes and one fsync.
            for _ in range(1 + n // (8 if call == "pwrite64" else 1) if FAULTS else 1):
                ledger.send(3)
            refused += len(ledger.refused) - before
            ledger.reads()
        ledger.recovers()
        if not faults.hits and not FAULTS:
            break
    assert refused >= 3, "some fault must have met a commit"
    ledger.server.kill()
    ledger.compare()


@pytest.mark.parametrize(
    ("call", "error"),
    [("pwrite64", "error=ENOSPC"), ("pwrite64", "error=EROFS"), ("fdatasync", "error=EIO")],
    ids=lambda value: value.removeprefix("error="),
)
def test_a_fault_for_good(call: str, error: str, ledger: Ledger) -> None:
    """From the n-th call on all fail: everything is refused, reads go on, and it is over when the fault is."""
    need_strace()
    for n in range(1, max(FAULTS, 2) + 1):
        with failing(ledger, call, error, f"when={n}+") as faults:
            until(lambda: ledger.send(2).status == 503)
            until(lambda: not ledger.is_well())
            for _ in range(3):
                assert ledger.send(2).status == 503
                ledger.reads()
        ledger.recovers()
        assert faults.hits
    ledger.server.kill()
    ledger.compare()
    log = ledger.server.stderr()
    assert len(log) < 1_500 + 500 * FAULTS, "a failing disk does not flood the log"
    assert "Traceback" not in log


@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
def test_a_log_that_cannot_be_copied_into_the_file(call: str, ledger: Ledger) -> None:
    """The database itself fails, its log does not: what is committed is safe in the log, which goes on to grow, and is
    copied later. Nobody is refused for it."""
    need_strace()
    log = Path(f"{ledger.server.db}-wal")
    with failing(ledger, call, "error=EIO", "when=1+", only=ledger.server.db) as faults:
        until(lambda: ledger.send(50, of_bytes=900).status != 202 or log.stat().st_size > 18_000_000, seconds=120)
        assert not ledger.refused
        ledger.reads()
    ledger.recovers()
    assert faults.hits
    ledger.server.kill()
    ledger.compare()


def test_a_part_of_the_disk_that_cannot_be_read(ledger: Ledger, serve: Serve) -> None:
    """What needs it is 503, on either side; that is no damage, and over when it can be read again."""
    need_strace()
    assert ledger.server.terminate() == 0
    ledger.server = serve(*OPTIONS)
    path = f"/api/v1/websites/{ledger.website}/events"
    with failing(ledger, "pread64", "error=EIO", "when=1+", only=ledger.server.db) as faults:
        until(lambda: ledger.send(2).status == 503)
        until(lambda: not ledger.is_well())
        asked = ledger.server.request("GET", path, None, {"Authorization": f"Bearer {ledger.key}"})
        assert (asked.status, asked.json["error"]["code"]) == (503, "storage_unavailable")
    assert faults.hits
    ledger.recovers()
    ledger.server.kill()
    ledger.compare()


def test_somebody_elses_lock(ledger: Ledger) -> None:
    """Another program that writes for longer than the server waits: 503 until it is done."""
    with closing(sqlite3.connect(ledger.server.db, isolation_level=None)) as other:
        other.execute("begin exclusive")
        assert ledger.send(3).status == 503
        ledger.reads()
        assert not ledger.is_well()
    ledger.recovers()
    ledger.server.kill()
    ledger.compare()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_start_where_nothing_may_be_written(what: str, tmp_path: Path, serve: Serve) -> None:
    """Exit 1 before it listens, with path and reason, for a user who is bound by permissions, as root is not."""
    (tmp_path / "place").mkdir()
    db = tmp_path / "place" / "analytics.db"
    Ledger(db, serve).server.terminate()
    bound = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"] if os.geteuid() == 0 else []
    (db if what == "file" else db.parent).chmod(0o500)
    words = [*bound, sys.executable, str(ROOT / "analytics_server.py"), "serve", "--port", "0", "--db", str(db)]
    done = subprocess.run(words, capture_output=True, text=True, env=clean_environment(), timeout=60, cwd=tmp_path)
    db.parent.chmod(0o700)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(db if what == "file" else db.parent) in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("room", [1, 24, 1_000, 4_119, 4_120, 9_000])
def test_a_write_that_is_cut_short(room: int, ledger: Ledger) -> None:
    """So many bytes more and no further: a write that is done in part, as at the end of a disk."""
    process = ledger.server.pid
    before = resource.prlimit(process, resource.RLIMIT_FSIZE)
    # The log begins anew, so that its size is where the next write begins.
    size = Path(f"{ledger.server.db}-wal").stat().st_size
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size + room, before[1]))
    assert ledger.send(3, of_bytes=2_000).status == 503
    ledger.reads()
    assert not ledger.is_well()
    resource.prlimit(process, resource.RLIMIT_FSIZE, before)
    ledger.recovers()
    ledger.server.kill()
    ledger.compare()


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode:
        assert not os.environ.get("TALLY_MUST_TRACE"), mounted.stderr
        pytest.skip(f"NOT TESTED: a disk that is really full; only root may mount one ({mounted.stderr.strip()})")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_fills_up(small_disk: Path, serve: Serve) -> None:
    """Under load: each answer is a 202 whose events are there or a 503; it goes on when there is room again."""
    ledger = Ledger(small_disk / "analytics.db", serve)
    is_over = threading.Event()

    def post() -> None:
        while not is_over.is_set():
            ledger.send(20, of_bytes=200)

    clients = [threading.Thread(target=post, daemon=True) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        until(lambda: len(ledger.refused) > 200, seconds=120)
        path = f"/api/v1/websites/{ledger.website}/stats"
        for _ in range(5):
            asked = ledger.server.request("GET", path, None, {"Authorization": f"Bearer {ledger.key}"})
            assert asked.status == 200
        assert not ledger.is_well()
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        until(ledger.is_well)
        kept = len(ledger.kept)
        until(lambda: len(ledger.kept) > kept + 200)
    finally:
        is_over.set()
        for client in clients:
            client.join(timeout=60)
    ledger.recovers()
    ledger.server.kill()
    ledger.compare()


# A file that is deleted or replaced


@pytest.fixture
def posting(ledger: Ledger) -> Iterator[Ledger]:
    """Somebody posts as long as the test lasts."""
    is_over = threading.Event()

    def post() -> None:
        with suppress(OSError, http.client.HTTPException):  # the server's end is part of some tests
            while not is_over.is_set():
                ledger.send()

    clients = [threading.Thread(target=post, daemon=True) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        until(lambda: len(ledger.kept) > 50)
        yield ledger
    finally:
        is_over.set()
        for client in clients:
            client.join(timeout=60)


def nothing_is_taken(ledger: Ledger) -> int:
    """From now on; how many were, those included that were answered before and heard now."""
    for _ in range(2):
        refused, kept = len(ledger.refused), len(ledger.kept)
        until(lambda refused=refused: len(ledger.refused) > refused + 20)
    assert len(ledger.kept) == kept
    return kept


def nothing_lost(ledger: Ledger, db: Path) -> None:
    """What was kept is there once. What was refused in the moment itself may be, once."""
    assert rows(db, "pragma integrity_check") == [("ok",)]
    found = Counter(path for (path,) in rows(db, "select text from event e join label l on l.id = e.pathname"))
    assert set(ledger.kept) - found.keys() == set()
    assert found.keys() - set(ledger.kept) - set(ledger.refused) - ledger.unsure == set()
    assert set(found.values()) == {1}


@pytest.mark.parametrize("ends", [("-wal",), ("-shm",), ("-wal", "-shm")], ids=" ".join)
def test_a_log_that_is_deleted(ends: tuple[str, ...], posting: Ledger) -> None:
    """Under load: nothing that was answered 202 is lost, although it stood in that log alone."""
    db = posting.server.db
    for end in ends:
        Path(f"{db}{end}").unlink()
    until(lambda: posting.refused)
    kept = len(posting.kept)
    until(lambda: len(posting.kept) > kept + 50)
    until(posting.is_well)
    assert Path(f"{db}-wal").stat().st_size > 0
    posting.server.kill()
    nothing_lost(posting, db)


def test_a_database_that_is_moved_away(posting: Ledger) -> None:
    """Nothing is taken, reads go on, and what was taken is in the file, wherever it is; put back, it goes on."""
    db = posting.server.db
    for times in (1, 2):
        aside = db.rename(db.with_name("aside.db"))
        until(lambda: not posting.is_well())
        kept = nothing_is_taken(posting)
        path = f"/api/v1/websites/{posting.website}/stats"
        asked = posting.server.request("GET", path, None, {"Authorization": f"Bearer {posting.key}"})
        assert asked.status == 200
        views = asked.json["data"]["pageviews"]
        assert kept <= views <= kept + 3 * times, "those that each of the three sent in the moment itself may be in it"
        until(lambda: Path(f"{db}-wal").stat().st_size == 0)
        copy = shutil.copy(aside, db.with_name("copy.db"))
        nothing_lost(posting, Path(copy))
        assert not db.exists(), "no other is made in its place"
        aside.rename(db)
        until(posting.is_well)
        until(lambda kept=kept: len(posting.kept) > kept + 20)
    posting.server.kill()
    nothing_lost(posting, db)


@pytest.mark.parametrize("with_log", [False, True], ids=["alone", "with a log"])
def test_a_database_that_is_replaced(with_log: bool, posting: Ledger, serve: Serve, tmp_path: Path) -> None:
    """By another one: it is left as it is, with the log that it brought; the next start takes it up."""
    db = posting.server.db
    (tmp_path / "other").mkdir()
    other = Ledger(tmp_path / "other" / "other.db", serve)
    if with_log:
        other.server.kill()
    else:
        other.server.terminate()
    aside = db.rename(db.with_name("aside.db"))
    for end in ("", "-wal", "-shm") if with_log else ("",):
        Path(f"{other.server.db}{end}").replace(f"{db}{end}")
    until(lambda: not posting.is_well())
    nothing_is_taken(posting)
    assert posting.end() == 0
    log = Path(f"{db}-wal")
    assert (log.exists() and log.stat().st_size > 0) == with_log, "none of ours is left to be taken for the new one's"
    other.server = serve(*OPTIONS, db=db)
    other.recovers()
    other.server.terminate()
    other.compare()
    if not with_log:
        # What was in the log when it was overwritten is gone with it.
        nothing_lost(posting, aside)


# A damaged file


def rootpage(db: Path, table: str) -> tuple[int, int]:
    """Where a table begins in the file, and how long a page is."""
    ((page,),) = rows(db, f"select rootpage from sqlite_schema where name = '{table}'")
    ((size,),) = rows(db, "pragma page_size")
    return (page - 1) * size, size


@contextmanager
def noise(db: Path, table: str) -> Iterator[None]:
    """Lays noise over a table's first page, in the file that is in use; takes it away again."""
    at, size = rootpage(db, table)
    file = os.open(db, os.O_RDWR)
    before = os.pread(file, size, at)
    os.pwrite(file, random.Random(1).randbytes(size), at)
    try:
        yield
    finally:
        os.pwrite(file, before, at)
        os.close(file)


@pytest.fixture
def damaged(serve: Serve, db: Path) -> Iterator[Ledger]:
    """A server whose events lie under a page of noise, which it finds out when it gets there."""
    ledger = Ledger(db, serve)
    for _ in range(20):
        ledger.send(50)
    assert ledger.server.terminate() == 0
    ledger.server = serve(*OPTIONS)
    with noise(db, "event"):
        yield ledger


def test_reading_a_damaged_page(damaged: Ledger) -> None:
    """What cannot be read is 503 `storage_unavailable` with Retry-After: neither a wrong figure nor a 500."""
    for question in ("stats", "events", "top/pathname", "timeseries", "realtime"):
        path = f"/api/v1/websites/{damaged.website}/{question}"
        answer = damaged.server.request("GET", path, None, {"Authorization": f"Bearer {damaged.key}"})
        assert (question, answer.status, answer.json["error"]["code"]) == (question, 503, "storage_unavailable")
        assert int(answer.headers["Retry-After"]) >= 1
    assert damaged.server.request("GET", "/api/v1/openapi.yaml").status == 200


def test_writing_to_a_damaged_page(damaged: Ledger) -> None:
    """Likewise, nothing is added to such a file, whoever asks is told what to do, and the end is in good order."""
    assert damaged.send().status == 503
    answer = damaged.server.request("GET", "/healthz")
    assert (answer.status, answer.json["error"]["code"]) == (503, "storage_unavailable")
    assert "backup" in answer.json["error"]["message"]
    assert damaged.send().status == 503
    assert damaged.server.terminate() == 0


@pytest.mark.parametrize("table", ["event", "label", "meta", "website", "visit"])
def test_a_start_on_a_damaged_file(table: str, ledger: Ledger) -> None:
    """Exit 1, saying which file and what to do; not a byte of it is changed."""
    for _ in range(5):
        ledger.send(50)
    assert ledger.server.terminate() == 0
    db = ledger.server.db
    with noise(db, table):
        before = db.read_bytes()
        words = [sys.executable, str(ROOT / "analytics_server.py"), "serve", "--port", "0", "--db", str(db)]
        done = subprocess.run(words, capture_output=True, text=True, env=clean_environment(), timeout=60)
        assert (done.returncode, done.stdout) == (1, "")
        assert str(db) in done.stderr.splitlines()[-1]
        assert "backup" in done.stderr
        assert "Traceback" not in done.stderr
        assert db.read_bytes() == before


# In the process itself, where the moment can be chosen


def view(website: str, path: str = "/") -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": f"https://example.com{path}"}


async def test_a_small_write_heals_no_damage(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other pages can be written all the while: damage is over only when a check of the whole file finds none."""
    website = await app.website()
    await app.collect(view(website))
    await app.restart()
    with noise(app.db, "event"):
        assert (await app.collect(view(website))).status == 503
        for _ in range(3):
            app.store.health.not_before_s = 0
            await app.store.recovery.heal()
            assert app.store.look() == DAMAGED
        assert (await app.get("/healthz")).status == 503
        assert (await app.collect(view(website))).status == 503
    app.store.health.not_before_s = 0
    await app.store.recovery.heal()
    assert (await app.get("/healthz")).status == 200
    assert (await app.collect(view(website))).status == 202
    assert app.sql("select count(*) from event") == [(2,)]


async def test_nothing_is_added_to_a_damaged_file(app: App) -> None:
    """Not even what would find room beside the damage: it may be lost with the rest."""
    website = await app.website()
    app.store.health.fault, app.store.health.not_before_s = DAMAGED, float("inf")
    assert (await app.collect(view(website))).status == 503
    with pytest.raises(Exception, match="storage_unavailable"):
        await app.store.change(lambda connection: None)
    assert app.sql("select count(*) from event") == [(0,)]


async def test_a_full_disk_is_noticed_while_nobody_sends(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = app.sql("pragma page_count")[0][0]
    await app.store.recovery.heal()
    assert (await app.get("/healthz")).status == 200
    await app.store._writer.run(lambda c: c.execute(f"pragma max_page_count = {pages}").fetchall())
    app.store.health.is_tight = True
    monkeypatch.setattr("tally.storage.recovery.TIGHT_S", 0)
    await app.store.recovery.heal()
    answer = await app.get("/healthz")
    assert (answer.status, answer.json["error"]["code"]) == (503, "storage_unavailable")
    assert "free space" in answer.json["error"]["message"]
    await app.store._writer.run(lambda c: c.execute("pragma max_page_count = 1073741823").fetchall())
    await app.store.recovery.heal()
    assert (await app.get("/healthz")).status == 200


async def test_a_disk_that_does_not_answer(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes then is told to come back, instead of standing in a line that does not move."""
    website = await app.website()
    monkeypatch.setattr("tally.storage.health.STUCK_S", 0)
    go_on = threading.Event()
    stuck = asyncio.ensure_future(app.store._writer.run(lambda _: go_on.wait(60)))
    for _ in range(1_000):
        if app.store.look() != "well":
            break
        await asyncio.sleep(0.001)
    assert (await app.get("/healthz")).status == 503
    assert (await app.collect(view(website))).status == 503
    assert app.store.look() == "stuck"
    go_on.set()
    await stuck
    assert (await app.get("/healthz")).status == 200
    assert (await app.collect(view(website))).status == 202


@pytest.mark.parametrize("end", ["", "-wal"], ids=["database", "log"])
async def test_a_file_that_goes_while_it_is_written(end: str, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted between a group's first statement and its commit: that is no 202."""
    website = await app.website()
    assert (await app.collect(view(website))).status == 202
    write = app.store.event_writer.write

    def write_and_delete(connection: sqlite3.Connection, jobs: list[WriteRequest]) -> WriteResult:
        written: WriteResult = write(connection, jobs)
        Path(f"{app.db}{end}").unlink()
        return written

    monkeypatch.setattr(app.store.event_writer, "write", write_and_delete)
    refused = await app.collect(view(website))
    assert (refused.status, refused.json["error"]["code"]) == (503, "storage_unavailable")
    assert app.store.look() == "gone"


async def test_an_owners_change_is_no_change_in_a_deleted_file(app: App) -> None:
    app.db.rename(app.db.with_name("aside.db"))
    with pytest.raises(Exception, match="storage_unavailable"):
        await app.store.change(lambda connection: None)


async def test_after_a_failed_fsync_every_connection_is_another_one(app: App) -> None:
    """Nothing is believed that only memory holds; then events are taken again."""
    website = await app.website()
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    threads = [app.store._writer, app.store.builder._reader, *app.store.readers.threads]
    before = [thread._conn for thread in threads]
    app.store.health.failed(failure)
    assert app.store.look() == UNSURE
    assert (await app.collect(view(website))).status == 503
    await app.store.recovery.heal()
    assert app.store.look() == "well"
    assert not {id(one) for one in before} & {id(thread._conn) for thread in threads}
    assert (await app.collect(view(website))).status == 202
    other = await app.website("example.org")
    assert (await app.collect(view(other) | {"url": "https://example.org/"})).status == 202


async def test_a_cure_that_does_not_last_is_tried_less_often(app: App) -> None:
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorname = "SQLITE_FULL"
    waits = []
    for _ in range(8):
        app.store.health.failed(failure)
        waits.append(round(app.store.health.not_before_s - app.store.health._now_s()))
        app.store.health.not_before_s = 0
        await app.store.recovery.heal()
        assert app.store.look() == "well"
    assert waits == [0, 2, 4, 8, 16, 32, 60, 60]
    assert (await app.collect(view(await app.website()))).status == 202
    app.store.health.failed(failure)
    assert round(app.store.health.not_before_s - app.store.health._now_s()) == 0


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("SQLITE_FULL", FAILING),
        ("SQLITE_BUSY", FAILING),
        ("SQLITE_READONLY_DBMOVED", FAILING),
        ("SQLITE_CANTOPEN", FAILING),
        ("SQLITE_IOERR_WRITE", FAILING),
        ("SQLITE_IOERR_FSYNC", UNSURE),
        ("SQLITE_IOERR_TRUNCATE", UNSURE),
        ("SQLITE_IOERR_SHORT_READ", UNSURE),
        ("SQLITE_CORRUPT", DAMAGED),
        ("SQLITE_CORRUPT_INDEX", DAMAGED),
        ("SQLITE_NOTADB", DAMAGED),
        ("SQLITE_INTERRUPT", ""),
    ],
)
def test_what_a_failure_says(name: str, fault: str) -> None:
    failure = sqlite3.DatabaseError() if fault == DAMAGED else sqlite3.OperationalError()
    failure.sqlite_errorname = name
    assert fault_of(failure) == fault


def test_a_bug_of_ours_says_nothing_about_the_file() -> None:
    assert fault_of(sqlite3.IntegrityError()) == fault_of(ValueError()) == ""
