"""What one does not wait for another: events beside password hashes, SQLite's log beside every kind of request.

tally/api/auth.py: "Passwords are compared on one thread, one at a time". tally/storage/connections.py: "Nothing but
plain rows may come out of it: a cursor left over would pin the log as long as it lives". Questions without end beside
events are in tests/robustness/test_disconnected_clients.py.
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
from tally.api.auth import MOST_WAITING
from tally.storage.database import open_database
from tally.web.routes import ROUTES
from tests.support.app import CHROME
from tests.support.page_client import OWN_PAGE, PASSWORD, PASSWORD_HASH
from tests.support.process import UNLIMITED, Serve, Server, until

OWNER = "owner@example.com"


class Place:
    """A server with an owner who has a password, a key, a website, a link to it, and a browser logged in."""

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
        made = self.page("POST", f"/api/account/websites/{self.website}/share")
        self.token = made.json["data"]["share"].removeprefix("/share/")

    def page(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Asks as one of the server's own pages does."""
        own = OWN_PAGE | ({"Cookie": self.cookie} if hasattr(self, "cookie") else {})
        own |= {"Content-Type": "application/json"} if body is not None else {}
        return self.server.request(method, path, body, own | headers)

    def view(self, n: int = 0) -> dict[str, Any]:
        return {"type": "pageview", "website_id": self.website, "url": f"https://example.com/{n}"}


@pytest.fixture
def place(serve: Serve, tmp_path: Path) -> Place:
    return Place(serve, tmp_path / "analytics.db")


class Poster(threading.Thread):
    """Posts a view after the other on one connection until it is told to stop."""

    def __init__(self, place: Place) -> None:
        super().__init__(daemon=True)
        at = urlsplit(place.server.url)
        self._connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)
        self._place, self.statuses, self.ended = place, list[int](), threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            body = json.dumps(self._place.view(len(self.statuses)))
            self._connection.request("POST", "/api/collect", body, {"User-Agent": CHROME})
            response = self._connection.getresponse()
            response.read()
            self.statuses.append(response.status)
        self._connection.close()


def guess(server: Server, n: int) -> int:
    """Tries a wrong password from an address of its own; the status."""
    headers = OWN_PAGE | {"X-Forwarded-For": f"198.51.{n // 200}.{n % 200}", "Content-Type": "application/json"}
    sent = {"email": f"{n}@example.com", "password": "wrong"}
    return server.request("POST", "/api/account/login", sent, headers).status


def test_events_are_taken_while_passwords_are_hashed(place: Place) -> None:
    """A hash takes as long as ten events. Hashed where events are taken, each would let one event of a client through,
    at most; so beside a crowd that guesses, more events than guesses are answered."""
    guesses, answers = 60, list[int]()
    crowd = [
        threading.Thread(
            target=lambda n=n: answers.extend(guess(place.server, m) for m in range(n, guesses, MOST_WAITING))
        )
        for n in range(MOST_WAITING)
    ]
    poster = Poster(place)
    poster.start()
    try:
        until(lambda: len(poster.statuses) > 3)
        before = len(poster.statuses)
        for one in crowd:
            one.start()
        for one in crowd:
            one.join(timeout=120)
        beside = len(poster.statuses) - before
    finally:
        poster.ended.set()
        poster.join(timeout=60)
    print(beside, "events beside", guesses, "guesses")
    assert answers == [401] * guesses
    assert set(poster.statuses) == {202}
    assert beside > 2 * guesses


def test_a_hash_leaves_no_memory_behind(place: Place) -> None:
    """A hash takes 19 MiB while it is computed; kept for the next one, that would be a third of the whole process."""
    assert guess(place.server, 0) == 401
    before = place.server.resident_bytes()
    assert [guess(place.server, n) for n in range(1, 6)] == [401] * 5
    assert place.server.resident_bytes() - before < 8_000_000


BODIES: dict[str, Any] = {
    "POST /api/account/login": {"email": OWNER, "password": "wrong"},
    "PATCH /api/account": {"time_zone": "UTC"},
    "POST /api/account/password": {"current": "wrong", "new": PASSWORD},
    "POST /api/account/keys": {"name": "new"},
    "POST /api/account/websites": {"domain": "new.example"},
    "PATCH /api/account/websites/{id}": {"name": "renamed"},
}
# What ends the session, the link or the website that the others need.
LAST = ("logout", "logout-everywhere", "DELETE /api/account/websites/{id}")


def test_no_request_leaves_a_snapshot_behind(place: Place) -> None:
    """Whatever was asked, by whomever, and however it was answered: SQLite's log can be emptied afterwards. A snapshot
    that is left keeps it from that for ever, and the log grows without end."""
    place.log_in()
    names = [f"{route.method} {route.path}" for route in ROUTES]
    names.sort(key=lambda name: name.endswith(LAST))
    values = {"id": place.website, "field": "os", "number": 99, "token": place.token, "section": "keys"}
    values |= {"path": "app.css", "part": "heatmap"}
    for name in names:
        method, _, path = name.partition(" ")
        asked = path.format(**values) + ("?format=csv" if name.endswith("/events") else "")
        body = BODIES.get(name, place.view() if "collect" in name else {} if method in ("POST", "PATCH") else None)
        key = {"Authorization": f"Bearer {place.key}"} if "/api/v1/" in path else {}
        for at in (asked, f"{asked}{'&' if '?' in asked else '?'}nosuch=1"):
            answer = place.page(method, at, body, **key)
            assert answer.status < 500, (name, answer.text)
            # Something is in the log that an older snapshot would not see.
            until(lambda: add_a_label(place.db))
            until(lambda: emptied(place.db))
    assert place.server.terminate() == 0


def add_a_label(db: Path) -> bool:
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("insert into label (text) select 'n' || (max(id) + 1) from label")
    return True


def emptied(db: Path) -> bool:
    """Whether the log could be emptied: nobody looks at anything older than the newest commit."""
    with closing(sqlite3.connect(db, timeout=0)) as connection:
        return bool(connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0)
