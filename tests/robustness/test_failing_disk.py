"""Disk faults: full, read-only, failing once or permanently; a database file that is damaged, deleted or replaced.

An event answered 202 is stored exactly once, an event answered 503 is not stored. Reads work where possible, and the
server recovers without a restart when the fault ends.

strace injects faults into system calls of the running server: into the n-th write or fsync, or into all from the n-th
on, for each n that one request reaches. With TALLY_FAULTS=N, n is 1 to N.
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
from tally.engine.ingest import WriteRequest
from tally.sqlite.writer import WriteResult
from tally.storage.database import open_database
from tally.storage.health import DAMAGED, FAILING, LOCKED, UNSURE, fault_of
from tests.support.app import ROOT, Answer, App
from tests.support.process import UNLIMITED, Serve, Server, clean_environment, need_strace, until

# No minimum of free space: the tests fill the disk completely.
OPTIONS = (*UNLIMITED, "--min-free-disk", "0")
FAULTS = int(os.environ.get("TALLY_FAULTS", "0"))


def rows(db: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


class Ledger:
    """Sends pageviews with unique paths, and records the outcome of each."""

    def __init__(self, db: Path, serve: Serve) -> None:
        with closing(open_database(db, create=True)) as connection:
            owner = create_account(connection, "owner@example.com", "business", None, 0)
            self.website = add_website(connection, owner, "example.com", "example.com", (), 0)
            self.key = create_api_key(connection, owner, "", 0)
        self.accepted: list[str] = []
        self.refused: list[str] = []
        self.unsure: set[str] = set()
        self._lock = threading.Lock()
        self._number = 0
        # A server that is stopping may answer `overloaded`.
        self.is_ending = False
        self.server: Server = serve(*OPTIONS, db=db)
        assert self.accepts_events()

    def send(self, events: int = 1, of_bytes: int = 0) -> Answer:
        """Send one request, whose response must be 202 or 503 with an error code and Retry-After."""
        with self._lock:
            first, self._number = self._number, self._number + events
        paths = [f"/{n}/{'x' * of_bytes}" for n in range(first, first + events)]
        sent = [{"type": "pageview", "url": f"https://example.com{path}"} for path in paths]
        # Until there is a response, the events may be stored or not.
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
        (self.accepted if answer.status == 202 else self.refused).extend(paths)
        return answer

    def accepts_events(self) -> bool:
        """Send an event, and return whether it was accepted."""
        return self.send().status == 202

    def check_reads(self) -> None:
        """Query the pageviews, which must be those accepted."""
        path = f"/api/v1/websites/{self.website}/stats"
        answer = self.server.request("GET", path, None, {"Authorization": f"Bearer {self.key}"})
        assert (answer.status, answer.json.get("data", {}).get("pageviews")) == (200, len(self.accepted))

    def stop(self) -> int:
        """Stop the server with SIGTERM, while clients may still send; return its exit status."""
        self.is_ending = True
        return self.server.terminate()

    def is_healthy(self) -> bool:
        return self.server.request("GET", "/healthz").status == 200

    def wait_for_recovery(self) -> None:
        """Wait until the server is healthy again, accepts events, and answers queries."""
        # What the server writes each second may fail last, after it was healthy.
        until(lambda: self.is_healthy() and self.accepts_events())
        self.check_reads()

    def check_database(self) -> None:
        """Check that the database is intact and holds each accepted event exactly once, and no other."""
        db = self.server.db
        assert rows(db, "pragma integrity_check") == [("ok",)]
        found = Counter(path for (path,) in rows(db, "select text from event e join label l on l.id = e.pathname"))
        assert found == Counter(self.accepted)
        assert rows(db, "select sum(events) from account_usage") == [(len(self.accepted),)]
        assert rows(db, "select sum(pageviews) from visit") == [(len(self.accepted),)]


@pytest.fixture
def ledger(serve: Serve, db: Path) -> Ledger:
    return Ledger(db, serve)


# Faults at single calls


class Faults:
    """Makes system calls of the running server fail with strace until `stop`; then `hits` is the number of these."""

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

    def stop(self) -> None:
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
        faults.stop()


# Duration of each fault on a busy machine: half a second, with an fsync one or two seconds.
ONCE = [("pwrite64", "error=ENOSPC"), ("pwrite64", "error=EIO"), ("fdatasync", "error=EIO")]


@pytest.mark.parametrize(("call", "error"), ONCE, ids=lambda value: value.removeprefix("error="))
def test_a_fault_at_a_single_call(call: str, error: str, ledger: Ledger) -> None:
    """The n-th write or fsync fails once: its request is stored completely or refused, and events are accepted again
    once the server has checked its database."""
    need_strace()
    n, refused, is_done = 1, 0, False
    while not is_done:
        with failing(ledger, call, error, f"when={n}") as faults:
            before = len(ledger.refused)
            # A request makes about twenty writes and one fsync.
            for _ in range(1 + n // (8 if call == "pwrite64" else 1) if FAULTS else 1):
                ledger.send(3)
            refused += len(ledger.refused) - before
            ledger.check_reads()
        ledger.wait_for_recovery()
        # SQLite writes each page of the log in two calls, header and content; one of each pair is tested.
        n += 1 if FAULTS or call == "fdatasync" else 2
        is_done = n > FAULTS if FAULTS else not faults.hits
        # The calls of a request are few, and what failed may have been what the server writes each second.
        if is_done and refused < 3:
            n, is_done = 1, False
    ledger.server.kill()
    ledger.check_database()


@pytest.mark.parametrize(
    ("call", "error"),
    [("pwrite64", "error=ENOSPC"), ("pwrite64", "error=EROFS"), ("fdatasync", "error=EIO")],
    ids=lambda value: value.removeprefix("error="),
)
def test_a_permanent_fault(call: str, error: str, ledger: Ledger) -> None:
    """All calls from the n-th on fail: events are refused, reads work, and the server recovers when the fault ends."""
    need_strace()
    for n in range(1, max(FAULTS, 2) + 1):
        with failing(ledger, call, error, f"when={n}+") as faults:
            until(lambda: ledger.send(2).status == 503)
            until(lambda: not ledger.is_healthy())
            for _ in range(3):
                assert ledger.send(2).status == 503
                ledger.check_reads()
        ledger.wait_for_recovery()
        assert faults.hits
    ledger.server.kill()
    ledger.check_database()
    log = ledger.server.stderr()
    assert len(log) < 1_500 + 500 * FAULTS, "the size of the log is limited while the disk fails"
    assert "Traceback" not in log


@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
def test_a_checkpoint_that_fails(call: str, ledger: Ledger) -> None:
    """Writes to the database file fail, those to its log do not: commits are durable in the log, which grows and is
    checkpointed later. No event is refused."""
    need_strace()
    log = Path(f"{ledger.server.db}-wal")
    with failing(ledger, call, "error=EIO", "when=1+", only=ledger.server.db) as faults:
        until(lambda: ledger.send(50, of_bytes=900).status != 202 or log.stat().st_size > 18_000_000, seconds=120)
        assert not ledger.refused
        ledger.check_reads()
    ledger.wait_for_recovery()
    assert faults.hits
    ledger.server.kill()
    ledger.check_database()


def test_reads_that_fail(ledger: Ledger, serve: Serve) -> None:
    """Collect requests and queries that read the database file get 503, until reads succeed again."""
    need_strace()
    assert ledger.server.terminate() == 0
    ledger.server = serve(*OPTIONS)
    path = f"/api/v1/websites/{ledger.website}/events"
    with failing(ledger, "pread64", "error=EIO", "when=1+", only=ledger.server.db) as faults:
        until(lambda: ledger.send(2).status == 503)
        until(lambda: not ledger.is_healthy())
        answer = ledger.server.request("GET", path, None, {"Authorization": f"Bearer {ledger.key}"})
        assert (answer.status, answer.json["error"]["code"]) == (503, "storage_unavailable")
    assert faults.hits
    ledger.wait_for_recovery()
    ledger.server.kill()
    ledger.check_database()


def test_a_lock_held_by_another_process(ledger: Ledger) -> None:
    """Another process holds the lock for longer than the server waits: 503 until it is released."""
    with closing(sqlite3.connect(ledger.server.db, isolation_level=None)) as other:
        other.execute("begin exclusive")
        assert ledger.send(3).status == 503
        ledger.check_reads()
        assert not ledger.is_healthy()
    ledger.wait_for_recovery()
    ledger.server.kill()
    ledger.check_database()


@pytest.mark.parametrize("read_only", ["file", "folder"])
def test_a_start_without_write_permission(read_only: str, tmp_path: Path, serve: Serve) -> None:
    """The command exits with status 1 and names the path. It runs without root's exemption from file permissions."""
    (tmp_path / "data").mkdir()
    db = tmp_path / "data" / "analytics.db"
    Ledger(db, serve).server.terminate()
    unprivileged = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"] if os.geteuid() == 0 else []
    (db if read_only == "file" else db.parent).chmod(0o500)
    words = [*unprivileged, sys.executable, str(ROOT / "analytics_server.py"), "serve", "--port", "0", "--db", str(db)]
    done = subprocess.run(words, capture_output=True, text=True, env=clean_environment(), timeout=60, cwd=tmp_path)
    db.parent.chmod(0o700)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(db if read_only == "file" else db.parent) in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_partial_writes(ledger: Ledger) -> None:
    """A limit on the file size ends a write after so many bytes, as a disk that becomes full does."""
    process = ledger.server.pid
    before = resource.prlimit(process, resource.RLIMIT_FSIZE)
    for bytes_left in (1, 24, 1_000, 4_119, 4_120, 9_000):
        # The next write is at the end of the log.
        size = Path(f"{ledger.server.db}-wal").stat().st_size
        resource.prlimit(process, resource.RLIMIT_FSIZE, (size + bytes_left, before[1]))
        assert ledger.send(3, of_bytes=2_000).status == 503, bytes_left
        ledger.check_reads()
        assert not ledger.is_healthy(), bytes_left
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)
        ledger.wait_for_recovery()
    ledger.server.kill()
    ledger.check_database()


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of 3 MB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(directory)], capture_output=True, text=True
    )
    if mounted.returncode:
        assert not os.environ.get("TALLY_MUST_TRACE"), mounted.stderr
        pytest.skip(f"NOT TESTED: a full disk; only root may mount one ({mounted.stderr.strip()})")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_a_disk_that_fills_up(small_disk: Path, serve: Serve) -> None:
    """Under load each response is 202 with its events stored, or 503; events are accepted again when space is free."""
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
            answer = ledger.server.request("GET", path, None, {"Authorization": f"Bearer {ledger.key}"})
            assert answer.status == 200
        # Between two writes that fail, a small one may succeed.
        until(lambda: not ledger.is_healthy())
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        until(ledger.is_healthy)
        accepted = len(ledger.accepted)
        until(lambda: len(ledger.accepted) > accepted + 200)
    finally:
        is_over.set()
        for client in clients:
            client.join(timeout=60)
    ledger.wait_for_recovery()
    ledger.server.kill()
    ledger.check_database()


# A file that is deleted or replaced


@pytest.fixture
def posting(ledger: Ledger) -> Iterator[Ledger]:
    """Post events until the test ends."""
    is_over = threading.Event()

    def post() -> None:
        with suppress(OSError, http.client.HTTPException):  # some tests stop the server before the clients end
            while not is_over.is_set():
                ledger.send()

    clients = [threading.Thread(target=post, daemon=True) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        until(lambda: len(ledger.accepted) > 50)
        yield ledger
    finally:
        is_over.set()
        for client in clients:
            client.join(timeout=60)


def wait_until_refused(ledger: Ledger) -> int:
    """Wait until no event is accepted any more; return the number of accepted events."""
    for _ in range(2):
        refused, accepted = len(ledger.refused), len(ledger.accepted)
        until(lambda refused=refused: len(ledger.refused) > refused + 20)
    assert len(ledger.accepted) == accepted
    return accepted


def check_nothing_lost(ledger: Ledger, db: Path) -> None:
    """Check that each accepted event is stored once. An event refused at the time of the fault may be stored, once."""
    assert rows(db, "pragma integrity_check") == [("ok",)]
    found = Counter(path for (path,) in rows(db, "select text from event e join label l on l.id = e.pathname"))
    assert set(ledger.accepted) - found.keys() == set()
    assert found.keys() - set(ledger.accepted) - set(ledger.refused) - ledger.unsure == set()
    assert set(found.values()) == {1}


@pytest.mark.parametrize("files", [("-wal",), ("-shm",), ("-wal", "-shm")], ids=" ".join)
def test_a_log_that_is_deleted(files: tuple[str, ...], posting: Ledger) -> None:
    """No event answered 202 under load is lost, even if it was only in the deleted log."""
    db = posting.server.db
    for suffix in files:
        Path(f"{db}{suffix}").unlink()
    until(lambda: posting.refused)
    accepted = len(posting.accepted)
    until(lambda: len(posting.accepted) > accepted + 50)
    until(posting.is_healthy)
    assert Path(f"{db}-wal").stat().st_size > 0
    posting.server.kill()
    check_nothing_lost(posting, db)


def test_a_database_that_is_moved_away(posting: Ledger) -> None:
    """Events are refused, reads work, and the moved file holds all accepted events; moved back, the server recovers."""
    db = posting.server.db
    for times in (1, 2):
        aside = db.rename(db.with_name("aside.db"))
        until(lambda: not posting.is_healthy())
        accepted = wait_until_refused(posting)
        path = f"/api/v1/websites/{posting.website}/stats"
        answer = posting.server.request("GET", path, None, {"Authorization": f"Bearer {posting.key}"})
        assert answer.status == 200
        views = answer.json["data"]["pageviews"]
        assert accepted <= views <= accepted + 3 * times, "each of the 3 clients may have had one request in progress"
        until(lambda: Path(f"{db}-wal").stat().st_size == 0)
        copy = shutil.copy(aside, db.with_name("copy.db"))
        check_nothing_lost(posting, Path(copy))
        assert not db.exists(), "no new database is created"
        aside.rename(db)
        until(posting.is_healthy)
        until(lambda accepted=accepted: len(posting.accepted) > accepted + 20)
    posting.server.kill()
    check_nothing_lost(posting, db)


@pytest.mark.parametrize("with_log", [False, True], ids=["without a log", "with a log"])
def test_a_database_that_is_replaced(with_log: bool, posting: Ledger, serve: Serve, tmp_path: Path) -> None:
    """The server changes neither the new file nor its log; the next start opens the new file."""
    db = posting.server.db
    (tmp_path / "other").mkdir()
    other = Ledger(tmp_path / "other" / "other.db", serve)
    if with_log:
        other.server.kill()
    else:
        other.server.terminate()
    aside = db.rename(db.with_name("aside.db"))
    for suffix in ("", "-wal", "-shm") if with_log else ("",):
        Path(f"{other.server.db}{suffix}").replace(f"{db}{suffix}")
    until(lambda: not posting.is_healthy())
    wait_until_refused(posting)
    assert posting.stop() == 0
    log = Path(f"{db}-wal")
    assert (log.exists() and log.stat().st_size > 0) == with_log, (
        "no log of the old database remains beside the new one"
    )
    other.server = serve(*OPTIONS, db=db)
    other.wait_for_recovery()
    other.server.terminate()
    other.check_database()
    if not with_log:
        # With a log: events that were only in the overwritten log are lost.
        check_nothing_lost(posting, aside)


# A damaged file


def rootpage(db: Path, table: str) -> tuple[int, int]:
    """Return the offset of a table's first page in the file, and the page size."""
    ((page,),) = rows(db, f"select rootpage from sqlite_schema where name = '{table}'")
    ((size,),) = rows(db, "pragma page_size")
    return (page - 1) * size, size


@contextmanager
def overwritten_page(db: Path, table: str) -> Iterator[None]:
    """Overwrite a table's first page with random bytes while the file is in use; restore it afterwards."""
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
    """A server whose table of events has a damaged page, which it has not read yet."""
    ledger = Ledger(db, serve)
    for _ in range(20):
        ledger.send(50)
    assert ledger.server.terminate() == 0
    ledger.server = serve(*OPTIONS)
    with overwritten_page(db, "event"):
        yield ledger


def test_reading_a_damaged_page(damaged: Ledger) -> None:
    """The response is 503 `storage_unavailable` with Retry-After, neither a wrong figure nor a 500."""
    for question in ("stats", "events", "top/pathname", "timeseries", "realtime"):
        path = f"/api/v1/websites/{damaged.website}/{question}"
        answer = damaged.server.request("GET", path, None, {"Authorization": f"Bearer {damaged.key}"})
        assert (question, answer.status, answer.json["error"]["code"]) == (question, 503, "storage_unavailable")
        assert int(answer.headers["Retry-After"]) >= 1
    assert damaged.server.request("GET", "/api/v1/openapi.yaml").status == 200


def test_writing_to_a_damaged_page(damaged: Ledger) -> None:
    """Events are refused, /healthz names the fix, and SIGTERM stops the server with status 0."""
    assert damaged.send().status == 503
    answer = damaged.server.request("GET", "/healthz")
    assert (answer.status, answer.json["error"]["code"]) == (503, "storage_unavailable")
    assert "backup" in answer.json["error"]["message"]
    assert damaged.send().status == 503
    assert damaged.server.terminate() == 0


def test_a_start_on_a_damaged_file(ledger: Ledger) -> None:
    """The command exits with status 1 and names the file and the fix. The file is not changed."""
    for _ in range(5):
        ledger.send(50)
    assert ledger.server.terminate() == 0
    db = ledger.server.db
    words = [sys.executable, str(ROOT / "analytics_server.py"), "serve", "--port", "0", "--db", str(db)]
    for table in ("event", "label", "meta", "website", "visit"):
        with overwritten_page(db, table):
            before = db.read_bytes()
            done = subprocess.run(words, capture_output=True, text=True, env=clean_environment(), timeout=60)
            assert (done.returncode, done.stdout) == (1, ""), table
            assert str(db) in done.stderr.splitlines()[-1]
            assert "backup" in done.stderr
            assert "Traceback" not in done.stderr
            assert db.read_bytes() == before


# The application in this process, where tests choose the time of a fault


def view(website: str, path: str = "/") -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": f"https://example.com{path}"}


async def test_a_small_write_does_not_clear_the_damaged_state(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes to other pages succeed, but the state changes only after a check of the whole file."""
    website = await app.website()
    await app.collect(view(website))
    await app.restart()
    with overwritten_page(app.db, "event"):
        assert (await app.collect(view(website))).status == 503
        for _ in range(3):
            app.database.health.not_before_s = 0
            await app.database.recovery.heal()
            assert app.database.check_health() == DAMAGED
        assert (await app.get("/healthz")).status == 503
        assert (await app.collect(view(website))).status == 503
    app.database.health.not_before_s = 0
    await app.database.recovery.heal()
    assert (await app.get("/healthz")).status == 200
    assert (await app.collect(view(website))).status == 202
    assert app.sql("select count(*) from event") == [(2,)]


async def test_a_damaged_database_refuses_writes(app: App) -> None:
    """Writes to undamaged pages are refused too: they could be lost with the file."""
    website = await app.website()
    app.database.health.fault, app.database.health.not_before_s = DAMAGED, float("inf")
    assert (await app.collect(view(website))).status == 503
    with pytest.raises(Exception, match="storage_unavailable"):
        await app.registry.change(lambda connection: None)
    assert app.sql("select count(*) from event") == [(0,)]


async def test_a_full_disk_is_detected_without_events(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = app.sql("pragma page_count")[0][0]
    await app.database.recovery.heal()
    assert (await app.get("/healthz")).status == 200
    await app.database.writer.run(lambda c: c.execute(f"pragma max_page_count = {pages}").fetchall())
    app.database.health.is_tight = True
    monkeypatch.setattr("tally.storage.recovery.TIGHT_S", 0)
    await app.database.recovery.heal()
    answer = await app.get("/healthz")
    assert (answer.status, answer.json["error"]["code"]) == (503, "storage_unavailable")
    assert "free space" in answer.json["error"]["message"]
    await app.database.writer.run(lambda c: c.execute("pragma max_page_count = 1073741823").fetchall())
    await app.database.recovery.heal()
    assert (await app.get("/healthz")).status == 200


async def test_a_write_that_blocks(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a write blocks, other requests get 503 instead of waiting for it."""
    website = await app.website()
    monkeypatch.setattr("tally.storage.health.STUCK_S", 0)
    released = threading.Event()
    stuck = asyncio.ensure_future(app.database.writer.run(lambda _: released.wait(60)))
    for _ in range(1_000):
        if app.database.check_health() != "well":
            break
        await asyncio.sleep(0.001)
    assert (await app.get("/healthz")).status == 503
    assert (await app.collect(view(website))).status == 503
    assert app.database.check_health() == "stuck"
    released.set()
    await stuck
    assert (await app.get("/healthz")).status == 200
    assert (await app.collect(view(website))).status == 202


@pytest.mark.parametrize("suffix", ["", "-wal"], ids=["database", "log"])
async def test_a_file_that_is_deleted_before_the_commit(suffix: str, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is deleted between a group's first statement and its commit: the response is 503."""
    website = await app.website()
    assert (await app.collect(view(website))).status == 202
    write = app.running.event_writer.write

    def write_and_delete(connection: sqlite3.Connection, jobs: list[WriteRequest]) -> WriteResult:
        written: WriteResult = write(connection, jobs)
        Path(f"{app.db}{suffix}").unlink()
        return written

    monkeypatch.setattr(app.running.event_writer, "write", write_and_delete)
    refused = await app.collect(view(website))
    assert (refused.status, refused.json["error"]["code"]) == (503, "storage_unavailable")
    assert app.database.check_health() == "missing"


async def test_an_account_change_in_a_moved_file_fails(app: App) -> None:
    app.db.rename(app.db.with_name("aside.db"))
    with pytest.raises(Exception, match="storage_unavailable"):
        await app.registry.change(lambda connection: None)


async def test_a_failed_fsync_reopens_every_connection(app: App) -> None:
    """Cached pages may differ from those on disk. After every connection was reopened, events are accepted again."""
    website = await app.website()
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    threads = [app.database.writer, app.background_work.builder._reader, *app.database.readers.threads]
    before = [thread._conn for thread in threads]
    app.database.health.failed(failure)
    assert app.database.check_health() == UNSURE
    assert (await app.collect(view(website))).status == 503
    await app.database.recovery.heal()
    assert app.database.check_health() == "well"
    assert not {id(one) for one in before} & {id(thread._conn) for thread in threads}
    assert (await app.collect(view(website))).status == 202
    other = await app.website("example.org")
    assert (await app.collect(view(other) | {"url": "https://example.org/"})).status == 202


async def test_recovery_backs_off_when_the_fault_returns(app: App) -> None:
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorname = "SQLITE_FULL"
    waits = []
    for _ in range(8):
        app.database.health.failed(failure)
        waits.append(round(app.database.health.not_before_s - app.database.health._now_s()))
        app.database.health.not_before_s = 0
        await app.database.recovery.heal()
        assert app.database.check_health() == "well"
    assert waits == [0, 2, 4, 8, 16, 32, 60, 60]
    assert (await app.collect(view(await app.website()))).status == 202
    app.database.health.failed(failure)
    assert round(app.database.health.not_before_s - app.database.health._now_s()) == 0


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("SQLITE_FULL", FAILING),
        ("SQLITE_BUSY", LOCKED),
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
def test_the_state_after_an_error(name: str, fault: str) -> None:
    failure = sqlite3.DatabaseError() if fault == DAMAGED else sqlite3.OperationalError()
    failure.sqlite_errorname = name
    assert fault_of(failure) == fault


def test_other_exceptions_do_not_change_the_state() -> None:
    assert fault_of(sqlite3.IntegrityError()) == fault_of(ValueError()) == ""
