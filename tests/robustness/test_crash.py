"""The real server, killed at random moments while many send to it, and told to end while many send to it.

Events are fsynced before the 202 response, copies are recognised across crashes, and SIGTERM ends the server in 10
seconds. For a client this means: what was acknowledged is there exactly once, a request is there whole or not at all,
and what is sent again with its event_id counts once.

tests/support/ledgers.py keeps the ledger and does the counting. TALLY_KILLS=1000 makes a long run of it.
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
    KILLS_A_FILE,
    Ledger,
    chance_of,
    check_dead,
    found,
    new_file,
    nothing,
    parts,
    send_again,
    sending,
    unlike_raw_rows,
)
from tests.support.process import UNLIMITED, Serve, clean_environment, need_strace, until


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


def killed_while_it_starts(db: Path, after_s: float) -> None:
    """Starts a server and kills it so soon that it may still be recovering what its predecessor left."""
    words = [sys.executable, str(ROOT / "analytics_server.py"), "serve", "--port", "0", "--db", str(db)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
    time.sleep(after_s)
    process.kill()
    process.wait(timeout=60)


@parts
def test_killed_at_random_moments_under_load(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """Six clients, twenty kills, some of them while it starts: nothing acknowledged is lost, nothing is there twice,
    no request by half; what had no answer is sent again with its event_ids; figures are those of the raw rows."""
    draw = chance_of(part, "kills under load")
    key, (website,) = new_file(db)
    ledger = Ledger(website, f"part{part}")
    start_s, interrupted = 0.5, 0
    for kill in range(KILLS_A_FILE):
        begun = time.monotonic()
        server = serve(*UNLIMITED)
        start_s = time.monotonic() - begun
        nothing(unlike_raw_rows(server, key, website, db, draw))
        with sending(server, ledger) as clients:
            time.sleep(draw.choice((0.02, 0.2, 1.0)) * draw.random())
            assert server.kill() == -signal.SIGKILL
        interrupted += any(client.failure for client in clients)
        if draw.random() < 0.3:
            killed_while_it_starts(db, start_s * draw.random())
        check_dead(db, tmp_path / "dead", ledger, tables=kill % 5 == 4)
    server = serve(*UNLIMITED)
    send_again(server, ledger)
    nothing(unlike_raw_rows(server, key, website, db))
    assert server.terminate() == 0
    check_dead(db, tmp_path / "dead", ledger, tables=True)
    assert len(ledger.of_state("acknowledged")) > KILLS_A_FILE
    assert interrupted > KILLS_A_FILE // 2, "the kills came while somebody was sending"
    assert not [request for request in ledger.of_state("unsure") if request.has_ids], "each was sent again"


# The calls by which SQLite writes to its log and to the file, and makes both safe.
CALLS = ("pwrite64", "fdatasync", "ftruncate")


@parts
def test_killed_at_single_writes(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """The same where it hurts most: at a write, or at making it safe, in the middle of a commit or of a checkpoint."""
    need_strace()
    draw = chance_of(part, "kills at single writes")
    key, (website,) = new_file(db)
    ledger = Ledger(website, f"writes{part}")
    for kill in range(5):
        call = draw.choice(CALLS[:2])
        upon = [word for suffix in ("", "-wal") for word in ("-P", f"{db}{suffix}")]
        inject = f"inject={call}:signal=SIGKILL:when={draw.randrange(40, 240)}"
        strace = ["strace", "-f", "-qq", "-o", str(tmp_path / "trace"), *upon, "-e", f"trace={call}", "-e", inject]
        server = serve(*UNLIMITED, prefix=strace)
        with sending(server, ledger) as clients:
            until(lambda clients=clients: all(client.failure for client in clients), 60)
        assert server.kill() in (-signal.SIGKILL, 128 + signal.SIGKILL), "strace ends as what it traces did"
        check_dead(db, tmp_path / "dead", ledger, tables=kill == 4)
    server = serve(*UNLIMITED)
    send_again(server, ledger)
    nothing(unlike_raw_rows(server, key, website, db))
    check_dead(db, tmp_path / "dead", ledger)


# --- told to end


@parts
def test_told_to_end_under_load(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """Exit 0 within 10 seconds; every request has its whole answer, or its connection was closed and nothing of it was
    kept: who then sends it again, even without an event_id, does not count twice."""
    draw = chance_of(part, "ends under load")
    key, (website,) = new_file(db)
    ledger = Ledger(website, f"ends{part}")
    for _ in range(3):
        server = serve(*UNLIMITED)
        with sending(server, ledger, clients=12) as clients:
            until(lambda clients=clients: all(client.answered for client in clients))
            time.sleep(0.3 * draw.random())
            begun = time.monotonic()
            assert server.terminate() == 0
            took_s = time.monotonic() - begun
        assert took_s < 10, "docs/cli.md: it ends within 10 seconds"
        cut_off = [client.failure for client in clients if not isinstance(client.failure, ConnectionError | None)]
        assert cut_off == [], "an answer is whole, or there is none"
        check_dead(db, tmp_path / "dead", ledger)
        assert stored(db) & ledger.markers("unsure") == set(), "what has no answer was not taken"
    server = serve(*UNLIMITED)
    nothing(unlike_raw_rows(server, key, website, db))
    assert server.terminate() == 0
    assert "ERROR" not in server.stderr()


def test_told_to_end_twice(serve: Serve, db: Path, tmp_path: Path) -> None:
    """tally/cli/serve.py: "A second signal ends it the hard way, as signals do": also while one client keeps it
    waiting.
    What was acknowledged is there."""
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
    check_dead(db, tmp_path / "dead", ledger)


def refuses(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionError:
        return True
    return False


def stored(db: Path) -> set[str]:
    """The markers in the file of the one website."""
    with closing(sqlite3.connect(db)) as connection:
        return set(found(connection, 1))
