"""--min-free-disk: with less free space, events are refused, everything else works, and the owner is warned.

The tests run the real server on a small file system.
"""

import contextlib
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tally.accounts import passwords
from tally.accounts.accounts import create_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.storage.database import open_database
from tally.storage.disk_space import min_free_bytes
from tests.support.app import CHROME
from tests.support.process import Serve, Server, until

MB = 1_000_000
EMAIL, PASSWORD = "owner@example.com", "quiet lamp over the harbour"


class Browser:
    """Sends requests as the pages do, with the cookie of the last sign-in."""

    def __init__(self, server: Server) -> None:
        self._server, self._cookie = server, ""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        own = {"Sec-Fetch-Site": "same-origin", "Cookie": self._cookie, "Content-Type": "application/json"}
        answer = self._server.request(method, path, body, own)
        self._cookie = answer.headers.get("Set-Cookie", self._cookie).partition(";")[0]
        return answer


def make_database(db: Path) -> tuple[str, str, str]:
    """Create a database with two websites and an API key; return both ids and the key."""
    with closing(open_database(db, create=True)) as connection:
        owner = create_account(connection, EMAIL, "business", passwords.hashed(PASSWORD), 0)
        websites = [add_website(connection, owner, name, name, (), 0) for name in ("example.com", "example.org")]
        return websites[0], websites[1], create_api_key(connection, owner, "", 0)


def fill(place: Path, left: int) -> None:
    """Fill the file system until so many bytes are left."""
    disk = os.statvfs(place)
    # A server that writes meanwhile takes some of it.
    with contextlib.suppress(OSError), (place / "others").open("ab", buffering=0) as file:
        file.write(b"\0" * max(0, disk.f_bavail * disk.f_frsize - left))


def test_low_disk_refuses_events_alone(disk: Path, serve: Serve, command: Any) -> None:
    db = disk / "analytics.db"
    website, other, key = make_database(db)
    server = serve(db=db)
    event = {"type": "pageview", "url": "https://example.com/", "website_id": website}

    def sent() -> int:
        return server.request("POST", "/api/collect", event, {"User-Agent": CHROME}).status

    assert sent() == 202
    fill(disk, MB)
    until(lambda: server.request("GET", "/healthz").status == 503)
    answer = server.request("POST", "/api/collect", event)
    assert (answer.status, answer.json["error"]["code"]) == (503, "storage_unavailable")
    assert int(answer.headers["Retry-After"]) >= 1
    # The owner is warned.
    assert "--min-free-disk" in server.request("GET", "/healthz").json["error"]["message"]
    assert "less than --min-free-disk (2 MB): events are refused" in server.stderr()
    assert 'tally_storage_state{state="low"} 1.0' in server.request("GET", "/metrics").text
    done = command("doctor", "--quick", "--db", str(db))
    assert "less than --min-free-disk" in done.stdout
    # Reports, sign-in and deletion keep working.
    stats = server.request("GET", f"/api/v1/websites/{website}/stats", None, {"Authorization": f"Bearer {key}"})
    assert (stats.status, stats.json["data"]["pageviews"]) == (200, 1)
    browser = Browser(server)
    assert browser.ask("POST", "/api/account/login", {"email": EMAIL, "password": PASSWORD}).status == 200
    assert browser.ask("GET", "/api/account").json["data"]["disk_is_low"] is True
    assert browser.ask("DELETE", f"/api/account/websites/{other}", {"domain": "example.org"}).status == 202
    # Refused events are counted as rejected events.
    path = f"/api/account/websites/{website}/rejected"
    until(lambda: [row["code"] for row in browser.ask("GET", path).json["data"]["reasons"]] == ["storage_unavailable"])
    # When there is space again, the server accepts events without a restart.
    (disk / "others").unlink()
    until(lambda: sent() == 202)
    assert server.request("GET", "/healthz").status == 200
    assert server.terminate() == 0


def test_a_server_that_starts_on_a_low_disk_refuses_from_the_first_event(disk: Path, serve: Serve) -> None:
    fill(disk, MB)
    website, _, _ = make_database(disk / "analytics.db")
    server = serve(db=disk / "analytics.db")
    event = {"type": "pageview", "url": "https://example.com/", "website_id": website}
    assert server.request("POST", "/api/collect", event).status == 503
    server.terminate()
    server = serve("--min-free-disk", "0", db=disk / "analytics.db")
    assert server.request("POST", "/api/collect", event).status == 202


@pytest.mark.parametrize(
    ("setting", "disk_bytes", "expected"),
    [(1_000 * MB, 100_000 * MB, 1_000 * MB), (1_000 * MB, 10_000 * MB, 500 * MB), (0, 10_000 * MB, 0)],
)
def test_how_much_is_to_stay_free(setting: int, disk_bytes: int, expected: int) -> None:
    """The minimum is the setting, or 5 percent of the file system if that is less."""
    assert min_free_bytes(setting, disk_bytes) == expected
