"""A power cut loses nothing that was answered 202 (committed with fsync).

A server's calls are recorded while clients post and its log is copied into the database again and again, then played
back up to each fsync and each answer, without what no fsync had covered, or with any part of it
(tests/support/power_loss.py).
The same with another `synchronous` proves that the check can fail. TALLY_CUTS=N records N requests of each client.
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
from tests.support.power_loss import ROOT, Recording, State, names, states
from tests.support.process import NO_RATE_LIMITS, Serve, need_strace, until

REQUESTS = int(os.environ.get("TALLY_CUTS", "36"))
CLIENTS, EVENTS = 3, 3
PAGES = 60


class Verdict(NamedTuple):
    """Of all states: how many there were, in how many something acknowledged was missing, what else was wrong; and how
    often the log was copied into the database meanwhile."""

    states: int
    with_losses: int
    wrong: list[str]
    copies: int


def post(url: str, website: str, client: int, requests: int) -> None:
    """Posts one after the other, each in one piece, so that a request is one of the server's calls."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)
    connection.connect()
    for n in range(requests):
        events = [
            {
                "type": "pageview",
                "url": f"https://example.com/cut-{client}-{n}-{i}/{'x' * 400}",
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


def recorded(serve: Serve, db: Path, synchronous: str, requests: int) -> Recording:
    """A server's life from its first request to its end."""
    with closing(open_database(db, create=True)) as connection:
        owner = create_account(connection, "owner@example.com", "business", None, 0)
        website = add_website(connection, owner, "example.com", "example.com", (), 0)
    prefix = [sys.executable, str(ROOT / "tests" / "support" / "power_loss.py"), synchronous, str(PAGES), "--"]
    server = serve(*NO_RATE_LIMITS, db=db, prefix=prefix)
    recording = Recording(server.pid, db, db.with_name("trace"))
    try:
        until(recording.is_on)
        clients = [
            threading.Thread(target=post, args=(server.url, website, client, requests)) for client in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert server.terminate() == 0
    finally:
        recording.end()
    return recording


def judged(recording: Recording, folder: Path) -> Verdict:
    """Every state is opened as after a restart, and compared with what had been acknowledged."""
    seen: set[int] = set()
    losses, wrong = 0, []
    calls = recording.calls()
    for state in states(recording.before, calls):
        key = hash((tuple(sorted(state.files.items())), state.acknowledged))
        if key in seen:
            continue
        seen.add(key)
        fault = found(state, folder)
        losses += fault == "lost"
        wrong += [fault] if fault not in ("", "lost") else []
    copies = sum(call.kind == "write" and before.file != "" == call.file for before, call in pairwise(calls))
    return Verdict(len(seen), losses, wrong, copies)


def found(state: State, folder: Path) -> str:
    """What is wrong after a power cut; `lost` for something acknowledged that is not there, empty for nothing."""
    db = folder / "after.db"
    for end in ("", "-wal", "-shm"):
        Path(f"{db}{end}").unlink(missing_ok=True)
    for end, content in state.files.items():
        Path(f"{db}{end}").write_bytes(content)
    try:
        with closing(sqlite3.connect(db)) as connection:
            if connection.execute("pragma integrity_check").fetchall() != [("ok",)]:
                return "integrity_check"
            paths = connection.execute("select text from event e join label l on l.id = e.pathname").fetchall()
            usage = connection.execute("select coalesce(sum(events), 0) from account_usage").fetchone()[0]
            views = connection.execute("select coalesce(sum(pageviews), 0) from visit").fetchone()[0]
    except sqlite3.DatabaseError as failure:
        return f"{failure}"
    there = Counter(name for (path,) in paths for name in names(path.encode()))
    if any(times > 1 for times in there.values()):
        return "twice"
    if not usage == views == len(there):
        return "totals"
    requests = Counter(name.rsplit(b"-", 1)[0] for name in there)
    if any(events != EVENTS for events in requests.values()):
        return "half a request"
    return "lost" if state.acknowledged - there.keys() else ""


@pytest.fixture
def after(serve: Serve, tmp_path: Path) -> Callable[[str, int], Verdict]:
    """The verdict on a server with that `synchronous`."""
    need_strace()

    def after(synchronous: str, requests: int) -> Verdict:
        verdict = judged(recorded(serve, tmp_path / "analytics.db", synchronous, requests), tmp_path)
        print(f"synchronous={synchronous}: {verdict.states} states, {verdict.with_losses} with losses,")
        print(f"{len(verdict.wrong)} otherwise wrong, {verdict.copies} copies of the log")
        return verdict

    return after


def test_a_power_cut_at_any_moment(after: Callable[[str, int], Verdict]) -> None:
    verdict = after("full", REQUESTS)
    assert verdict.states >= 200
    assert verdict.copies >= 5
    assert (verdict.with_losses, verdict.wrong) == (0, [])


def test_normal_would_lose_what_was_acknowledged(after: Callable[[str, int], Verdict]) -> None:
    """Nothing is damaged, but a 202 would mean little: the check sees it."""
    verdict = after("normal", 12)
    assert verdict.with_losses > 10
    assert verdict.wrong == []


def test_off_would_lose_and_damage(after: Callable[[str, int], Verdict]) -> None:
    verdict = after("off", 12)
    assert verdict.with_losses > 10
    assert verdict.wrong
