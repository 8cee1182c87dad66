"""SIGKILL and SIGTERM of a real server at random times while many clients send events.

Events are fsynced before the 202 response, duplicates are recognised after a crash, and SIGTERM stops the server within
10 seconds. For clients this means: every acknowledged event is stored exactly once, every request is stored completely
or not at all, and an event that is sent again with its event_id counts once.

tests/support/ledgers.py records what was sent and counts what is stored. TALLY_KILLS sets the number of kills.
"""

import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.app import ROOT
from tests.support.ledgers import (
    KILLS_PER_FILE,
    Ledger,
    assert_empty,
    check_killed_database,
    differences_from_raw_rows,
    found,
    new_file,
    parts,
    rng_of,
    send_again,
    sending,
)
from tests.support.process import UNLIMITED, Serve, clean_environment, need_strace, until


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


def kill_during_start(db: Path, after_s: float) -> None:
    """Start a server, and kill it after so many seconds, when it may be recovering the log of the previous one."""
    words = [sys.executable, str(ROOT / "analytics_server.py"), "serve", "--port", "0", "--db", str(db)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
    time.sleep(after_s)
    process.kill()
    process.wait(timeout=60)


@parts
def test_sigkill_at_random_moments_under_load(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """Six clients and a dozen kills, some during a start. Every acknowledged event is stored once, and every request
    completely or not at all. Requests without a response are sent again. Figures equal those of the raw rows."""
    rng = rng_of(part, "kills under load")
    key, (website,) = new_file(db)
    ledger = Ledger(website, f"part{part}")
    start_s, interrupted = 0.5, 0
    for kill in range(KILLS_PER_FILE):
        begun = time.monotonic()
        server = serve(*UNLIMITED)
        start_s = time.monotonic() - begun
        assert_empty(differences_from_raw_rows(server, key, website, db, rng))
        with sending(server, ledger) as clients:
            time.sleep(rng.choice((0.02, 0.2, 1.0)) * rng.random())
            assert server.kill() == -signal.SIGKILL
        interrupted += any(client.failure for client in clients)
        if rng.random() < 0.3:
            kill_during_start(db, start_s * rng.random())
        check_killed_database(db, tmp_path / "dead", ledger, tables=kill % 5 == 4)
    server = serve(*UNLIMITED)
    send_again(server, ledger)
    assert_empty(differences_from_raw_rows(server, key, website, db))
    assert server.terminate() == 0
    check_killed_database(db, tmp_path / "dead", ledger, tables=True)
    assert len(ledger.in_state("acknowledged")) > KILLS_PER_FILE
    assert interrupted > KILLS_PER_FILE // 2, "most kills interrupted a client"
    assert not [request for request in ledger.in_state("unsure") if request.has_ids], (
        "each request without a response was sent again"
    )


# The system calls with which SQLite writes, fsyncs and truncates the database and its log.
CALLS = ("pwrite64", "fdatasync", "ftruncate")


@parts
def test_sigkill_at_single_writes(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """The same checks after kills at a single write or fsync, within a commit or a checkpoint."""
    need_strace()
    rng = rng_of(part, "kills at single writes")
    key, (website,) = new_file(db)
    ledger = Ledger(website, f"writes{part}")
    for kill in range(5):
        call = rng.choice(CALLS[:2])
        upon = [word for suffix in ("", "-wal") for word in ("-P", f"{db}{suffix}")]
        inject = f"inject={call}:signal=SIGKILL:when={rng.randrange(40, 240)}"
        strace = ["strace", "-f", "-qq", "-o", str(tmp_path / "trace"), *upon, "-e", f"trace={call}", "-e", inject]
        server = serve(*UNLIMITED, prefix=strace)
        with sending(server, ledger) as clients:
            until(lambda clients=clients: all(client.failure for client in clients), 60)
        assert server.kill() in (-signal.SIGKILL, 128 + signal.SIGKILL), (
            "strace exits with the signal of the traced process"
        )
        check_killed_database(db, tmp_path / "dead", ledger, tables=kill == 4)
    server = serve(*UNLIMITED)
    send_again(server, ledger)
    assert_empty(differences_from_raw_rows(server, key, website, db))
    check_killed_database(db, tmp_path / "dead", ledger)


# --- SIGTERM


@parts
def test_sigterm_under_load(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """The exit status is 0 within 10 seconds. A request has its complete response, or its connection was closed and
    none of its events is stored, so that it can be sent again even without an event_id."""
    rng = rng_of(part, "ends under load")
    key, (website,) = new_file(db)
    ledger = Ledger(website, f"ends{part}")
    for _ in range(3):
        server = serve(*UNLIMITED)
        with sending(server, ledger, clients=12) as clients:
            until(lambda clients=clients: all(client.answered for client in clients))
            time.sleep(0.3 * rng.random())
            begun = time.monotonic()
            assert server.terminate() == 0
            took_s = time.monotonic() - begun
        assert took_s < 10, "docs/cli.md: exits with status 0 within 10 seconds"
        cut_off = [client.failure for client in clients if not isinstance(client.failure, ConnectionError | None)]
        assert cut_off == [], "no response is incomplete"
        check_killed_database(db, tmp_path / "dead", ledger)
        assert stored(db) & ledger.markers("unsure") == set(), "no request without a response is stored"
    server = serve(*UNLIMITED)
    assert_empty(differences_from_raw_rows(server, key, website, db))
    assert server.terminate() == 0
    assert "ERROR" not in server.stderr()


def test_sigterm_twice(serve: Serve, db: Path, tmp_path: Path) -> None:
    """A second signal ends the process at once, even while a request is incomplete. Every acknowledged event is
    stored."""
    _, (website,) = new_file(db)
    ledger = Ledger(website, "twice")
    server = serve(*UNLIMITED)
    at = urlsplit(server.url)
    with sending(server, ledger) as clients, socket.create_connection((at.hostname, at.port), timeout=60) as stuck:
        until(lambda: all(client.answered for client in clients))
        stuck.sendall(b"POST /api/collect HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
        assert server.request("GET", "/healthz").status == 200
        server.process.send_signal(signal.SIGTERM)
        until(lambda: refuses(at.hostname or "", at.port or 0))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=60) == -signal.SIGTERM
    server.kill()  # closes its pipe
    check_killed_database(db, tmp_path / "dead", ledger)


def refuses(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionError:
        return True
    return False


def stored(db: Path) -> set[str]:
    """Return the markers of all events in the database."""
    with closing(sqlite3.connect(db)) as connection:
        return set(found(connection, 1))
