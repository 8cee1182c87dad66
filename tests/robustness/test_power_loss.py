"""No event that was answered 202 is lost by a power loss.

The system calls of a server are recorded while clients send requests and its log is checkpointed many times. Then they
are replayed up to each fsync and each response, with all, none or any part of the writes that no fsync has covered yet
(tests/support/power_loss.py). As a control, the same check finds losses with another `synchronous`.

TALLY_POWER_LOSS=N records N requests of each client.
"""

import http.client
import json
import os
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.storage.database import open_database
from tests.support.power_loss import ROOT, Recording, State, event_names, states
from tests.support.process import NO_RATE_LIMITS, Serve, need_strace, until

REQUESTS = int(os.environ.get("TALLY_POWER_LOSS", "36"))
CLIENTS, EVENTS = 3, 3
PAGES = 60


class Result(NamedTuple):
    """The number of distinct states and of those with losses, the other errors, and the number of checkpoints."""

    states: int
    with_losses: int
    errors: list[str]
    checkpoints: int


def post(url: str, website: str, client: int, requests: int) -> None:
    """Post requests one at a time, each with one call of send, so that the server reads it with one call."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)
    connection.connect()
    for n in range(requests):
        events = [
            {
                "type": "pageview",
                "url": f"https://example.com/event-{client}-{n}-{i}/{'x' * 400}",
                "session_id": f"session-{client}-{n % 7}",
            }
            for i in range(EVENTS)
        ]
        body = json.dumps({"website_id": website, "events": events}).encode()
        head = f"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sock.sendall(head.encode() + body)
        response = http.client.HTTPResponse(connection.sock)
        response.begin()
        assert response.status == 202
        response.read()
    connection.close()


def record(serve: Serve, db: Path, synchronous: str, requests: int) -> Recording:
    """Return the recording of a server from its first request to its end."""
    with closing(open_database(db, create=True)) as connection:
        owner = create_account(connection, "owner@example.com", "business", None, 0)
        website = add_website(connection, owner, "example.com", "example.com", (), 0)
    prefix = [sys.executable, str(ROOT / "tests" / "support" / "power_loss.py"), synchronous, str(PAGES), "--"]
    server = serve(*NO_RATE_LIMITS, db=db, prefix=prefix)
    recording = Recording(server.pid, db, db.with_name("trace"))
    try:
        until(recording.is_attached)
        clients = [
            threading.Thread(target=post, args=(server.url, website, client, requests)) for client in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert server.terminate() == 0
    finally:
        recording.stop()
    return recording


def result_of(recording: Recording, folder: Path) -> Result:
    """Open each distinct state with SQLite, which recovers its log, and compare it with the acknowledged events."""
    seen: set[int] = set()
    losses, errors = 0, []
    calls = recording.calls()
    for state in states(recording.initial, calls):
        key = hash((tuple(sorted(state.files.items())), state.acknowledged))
        if key in seen:
            continue
        seen.add(key)
        fault = error_of(state, folder)
        losses += fault == "lost"
        errors += [fault] if fault not in ("", "lost") else []
    checkpoints = sum(call.kind == "write" and before.file != "" == call.file for before, call in pairwise(calls))
    return Result(len(seen), losses, errors, checkpoints)


def error_of(state: State, folder: Path) -> str:
    """Return the error in a state: `lost` if acknowledged events are missing, "" if there is none."""
    db = folder / "state.db"
    for suffix in ("", "-wal", "-shm"):
        Path(f"{db}{suffix}").unlink(missing_ok=True)
    for suffix, content in state.files.items():
        Path(f"{db}{suffix}").write_bytes(content)
    try:
        with closing(sqlite3.connect(db)) as connection:
            if connection.execute("pragma integrity_check").fetchall() != [("ok",)]:
                return "integrity_check"
            paths = connection.execute("select text from event e join label l on l.id = e.pathname").fetchall()
            usage = connection.execute("select coalesce(sum(events), 0) from account_usage").fetchone()[0]
            views = connection.execute("select coalesce(sum(pageviews), 0) from visit").fetchone()[0]
    except sqlite3.DatabaseError as failure:
        return f"{failure}"
    stored = Counter(name for (path,) in paths for name in event_names(path.encode()))
    if any(times > 1 for times in stored.values()):
        return "twice"
    if not usage == views == len(stored):
        return "totals"
    requests = Counter(name.rsplit(b"-", 1)[0] for name in stored)
    if any(events != EVENTS for events in requests.values()):
        return "part of a request"
    return "lost" if state.acknowledged - stored.keys() else ""


@pytest.fixture
def checked(serve: Serve, tmp_path: Path) -> Callable[[str, int], Result]:
    """Return a function that records a server with that `synchronous` and returns the result."""
    need_strace()

    def checked(synchronous: str, requests: int) -> Result:
        result = result_of(record(serve, tmp_path / "analytics.db", synchronous, requests), tmp_path)
        print(f"synchronous={synchronous}: {result.states} states, {result.with_losses} with losses,")
        print(f"{len(result.errors)} with other errors, {result.checkpoints} checkpoints of the log")
        return result

    return checked


def test_power_loss_at_any_time(checked: Callable[[str, int], Result]) -> None:
    result = checked("full", REQUESTS)
    assert result.states >= 200
    assert result.checkpoints >= 5
    assert (result.with_losses, result.errors) == (0, [])


def test_synchronous_normal_loses_events(checked: Callable[[str, int], Result]) -> None:
    """No state is damaged, but acknowledged events are missing."""
    result = checked("normal", 12)
    assert result.with_losses > 10
    assert result.errors == []


def test_synchronous_off_loses_events_and_damages_the_database(checked: Callable[[str, int], Result]) -> None:
    result = checked("off", 12)
    assert result.with_losses > 10
    assert result.errors
