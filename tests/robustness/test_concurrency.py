"""Password hashing does not delay events, and requests do not prevent checkpoints of SQLite's log.

Passwords are hashed one at a time on a separate thread (tally/api/auth.py). Every cursor is closed when its request
ends: an open cursor keeps a snapshot, and then the log cannot be truncated (tally/storage/connections.py). Events
during endless queries are tested in tests/robustness/test_disconnected_clients.py.
"""

import http.client
import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.api.auth import MAX_WAITING
from tally.storage.database import open_database
from tally.web.routes import ROUTES
from tests.support.app import CHROME
from tests.support.page_client import LINK, OWN_PAGE, PASSWORD, PASSWORD_HASH
from tests.support.process import UNLIMITED, Serve, Server, until

OWNER = "owner@example.com"


class RunningServer:
    """A server with an owner, a password, an API key, a website, a share link and a session."""

    def __init__(self, serve: Serve, db: Path) -> None:
        with closing(open_database(db, create=True)) as connection:
            owner = create_account(connection, OWNER, "business", PASSWORD_HASH, 0)
            self.website = add_website(connection, owner, "example.com", "", (), 0)
            self.key = create_api_key(connection, owner, "", 0)
        self.db = db
        self.server = serve(*UNLIMITED)

    def log_in(self) -> None:
        answer = self.page("POST", "/api/account/login", {"email": OWNER, "password": PASSWORD})
        assert answer.status == 200, answer.text
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        made = self.page("POST", f"/api/account/websites/{self.website}/share-links", LINK)
        self.token = made.json["data"]["path"].removeprefix("/share/")

    def page(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request as the server's own pages do."""
        own = OWN_PAGE | ({"Cookie": self.cookie} if hasattr(self, "cookie") else {})
        own |= {"Content-Type": "application/json"} if body is not None else {}
        return self.server.request(method, path, body, own | headers)

    def view(self, n: int = 0) -> dict[str, Any]:
        return {"type": "pageview", "website_id": self.website, "url": f"https://example.com/{n}"}


@pytest.fixture
def running(serve: Serve, tmp_path: Path) -> RunningServer:
    return RunningServer(serve, tmp_path / "analytics.db")


class Sender(threading.Thread):
    """Sends pageviews one at a time on one connection until `ended` is set; `statuses` has those of the responses."""

    def __init__(self, running: RunningServer) -> None:
        super().__init__(daemon=True)
        at = urlsplit(running.server.url)
        self._connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)
        self._running, self.statuses, self.ended = running, list[int](), threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            body = json.dumps(self._running.view(len(self.statuses)))
            self._connection.request("POST", "/api/collect", body, {"User-Agent": CHROME})
            response = self._connection.getresponse()
            response.read()
            self.statuses.append(response.status)
        self._connection.close()


def try_password(server: Server, n: int) -> int:
    """Try to sign in with a wrong password, from a different address for each n; return the status."""
    headers = OWN_PAGE | {"X-Forwarded-For": f"198.51.{n // 200}.{n % 200}", "Content-Type": "application/json"}
    sent = {"email": f"{n}@example.com", "password": "wrong"}
    return server.request("POST", "/api/account/login", sent, headers).status


def test_events_are_accepted_while_passwords_are_hashed(running: RunningServer) -> None:
    """A hash takes as long as ten events. If it ran on the thread of the event loop, a client that waits for responses
    could send at most one event per hash; the test requires more than two."""
    tries, answers = 60, list[int]()
    threads = [
        threading.Thread(
            target=lambda n=n: answers.extend(try_password(running.server, m) for m in range(n, tries, MAX_WAITING))
        )
        for n in range(MAX_WAITING)
    ]
    sender = Sender(running)
    sender.start()
    try:
        until(lambda: len(sender.statuses) > 3)
        before = len(sender.statuses)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        sent = len(sender.statuses) - before
    finally:
        sender.ended.set()
        sender.join(timeout=60)
    print(sent, "events during", tries, "tries")
    assert answers == [401] * tries
    assert set(sender.statuses) == {202}
    assert sent > 2 * tries


def test_the_memory_of_a_password_hash_is_freed(running: RunningServer) -> None:
    """A hash uses 19 MiB while it is computed. Kept for the next one, that would be a third of the process's memory."""
    # A list needs numpy, which the server loads after its start.
    headers = {"Authorization": f"Bearer {running.key}"}
    assert running.server.request("GET", f"/api/v1/websites/{running.website}/top/os", headers=headers).status == 200
    assert try_password(running.server, 0) == 401
    before = running.server.resident_bytes()
    assert [try_password(running.server, n) for n in range(1, 6)] == [401] * 5
    assert running.server.resident_bytes() - before < 8_000_000


BODIES: dict[str, Any] = {
    "POST /api/account/login": {"email": OWNER, "password": "wrong"},
    "PATCH /api/account": {"time_zone": "UTC"},
    "POST /api/account/password": {"current": "wrong", "new": PASSWORD},
    "POST /api/account/keys": {"name": "new"},
    "POST /api/account/websites": {"domain": "new.example"},
    "PATCH /api/account/websites/{id}": {"name": "renamed"},
}
# Sent last, because they end the session, the key or the link, or delete the website that the other requests need.
LAST = (
    *("logout", "logout-everywhere", "DELETE /api/account/keys", "DELETE /api/account/share-links"),
    "DELETE /api/account/websites/{id}",
)


def test_no_request_keeps_a_snapshot_open(running: RunningServer) -> None:
    """After a request to each route, whatever its response, SQLite's log can be truncated. A snapshot that stays open
    would prevent this, and the log would grow without a limit."""
    running.log_in()
    names = [f"{route.method} {route.path}" for route in ROUTES]
    names.sort(key=lambda name: name.endswith(LAST))
    values = {"id": running.website, "field": "os", "number": 99, "token": running.token, "section": "keys"}
    values |= {"script": "script.js", "stem": "script", "website": running.website}
    values |= {"path": "app.css", "part": "heatmap", "definition": "0" * 16, "invitation": "0" * 16}
    values |= {"alert": "0" * 16, "channel": "0" * 16, "report": "0" * 16, "link": "0" * 16, "passkey": "AA"}
    for name in names:
        method, _, path = name.partition(" ")
        url = path.format(**values) + ("?format=csv" if name.endswith("/events") else "")
        body = BODIES.get(name, running.view() if "collect" in name else {} if method in ("POST", "PATCH") else None)
        key = {"Authorization": f"Bearer {running.key}"} if "/api/v1/" in path else {}
        for at in (url, f"{url}{'&' if '?' in url else '?'}nosuch=1"):
            answer = running.page(method, at, body, **key)
            assert answer.status < 500, (name, answer.text)
            # The commit is newer than any snapshot that the request may have left open.
            until(lambda: add_a_label(running.db))
            until(lambda: wal_truncated(running.db))
    assert running.server.terminate() == 0


def add_a_label(db: Path) -> bool:
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("insert into label (text) select 'n' || (max(id) + 1) from label")
    return True


def wal_truncated(db: Path) -> bool:
    """Truncate the log, and return whether that succeeded. It fails while a connection has an older snapshot."""
    with closing(sqlite3.connect(db, timeout=0)) as connection:
        return bool(connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0)
