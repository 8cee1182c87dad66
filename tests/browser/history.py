"""A server with seventy days of events on three websites, made once for a module of tests from one database.

The events are the same in every run, but for the day on which they end. Some values would run as HTML if a page wrote
them as such.
"""

import atexit
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.aged_database import build
from tests.support.app import CHROME, ROOT
from tests.support.process import Server, clean_environment

EMAIL, PASSWORD = "ann@example.com", "correct horse battery"
IMG = "<img src=x onerror=window.broken=1>"
PATHS = ["/", "/pricing", "/docs/", "/docs/install", "/about", *(f"/blog/{n:02}" for n in range(30)), f"/{IMG}"]
REFERRERS = [None, None, "google.com", "news.ycombinator.com", "duckduckgo.com"]
COUNTRIES = ["US", "US", "DE", "DE", "FR", "JP", "SG", None]
AGENTS = [("Chrome", "Windows", "desktop"), ("Safari", "iOS", "mobile"), ("Firefox", "Linux", "desktop")]
DAYS, VISITORS_A_DAY = 70, 9
DAY_S = 86_400
KEY = ("--name", "tests", "--scope", "read", "--scope", "manage")


def late_times_ms() -> list[int]:
    """Return a second ago, and noons and midnights of the last 72 hours: as late as events may be."""
    now_ms = int(time.time() * 1000)
    midnight_ms = now_ms // (DAY_S * 1000) * DAY_S * 1000
    halves = [midnight_ms - k * DAY_S * 500 + 1 for k in range(1, 6)]
    # From noon on the last of them is more than 72 hours ago.
    return [now_ms - 1000, *(max(half, now_ms - 72 * 3_600_000 + 60_000) for half in halves)]


class SampleServer:
    """A running server with its websites and a key."""

    def __init__(self, server: Server, key: str, website: str, empty: str, second: str) -> None:
        self.server, self.key, self.website, self.empty, self.second = server, key, website, empty, second
        self.url = server.url

    def delete_saved(self) -> None:
        """Delete all goals, funnels, segments, annotations and share links, through the server, which caches them."""
        with closing(sqlite3.connect(self.server.db)) as connection:
            saved = connection.execute(
                "select website.id, kind || 's', definition.id from definition join website on website = number"
                " union all select website.id, 'share-links', share_link.id"
                " from share_link join website on website = number"
            ).fetchall()
        for website, kind, id in saved:
            path = f"/api/v1/websites/{website}/{kind}/{id}"
            answer = self.server.request("DELETE", path, headers={"Authorization": f"Bearer {self.key}"})
            assert answer.status == 204, answer.text

    def ask(self, question: str) -> Any:
        """Return the JSON of a read API request about the website."""
        request = urllib.request.Request(
            f"{self.url}/api/v1/websites/{self.website}/{question}", headers={"Authorization": f"Bearer {self.key}"}
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def send(self, website: str, *events: dict[str, Any]) -> None:
        """Send events as an app does."""
        answer = self.server.request("POST", "/api/collect", {"website_id": website, "events": list(events)})
        assert answer.json["accepted"] == len(events), answer.text

    def log_in(self, page: Any) -> Any:
        """Log the page's browser context in."""
        answer = page.request.post(
            f"{self.url}/api/account/login",
            data={"email": EMAIL, "password": PASSWORD},
            headers={"Sec-Fetch-Site": "same-origin"},
        )
        assert answer.ok, answer.text()
        return page


def run(db: Path, *arguments: str, stdin: str | None = None) -> str:
    """Run the real command and return its output."""
    words = [sys.executable, str(ROOT / "analytics_server.py"), *arguments, "--db", str(db)]
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, env=clean_environment(), check=True)
    return done.stdout.strip()


class Sample(NamedTuple):
    """A database with sample events; the key and the ids of its websites."""

    db: Path
    key: str
    website: str
    empty: str
    second: str


@cache
def sample() -> Sample:
    """Make the database of which every sample server has a copy; it is removed when this process ends."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    db = folder / "analytics.db"
    run(db, "account", "create", EMAIL, "--password-stdin", stdin=PASSWORD)
    website = run(db, "website", "add", "example.com", "--name", f"Example {IMG}")
    empty = run(db, "website", "add", "empty.example")
    second = run(db, "website", "add", "second.example")
    key = run(db, "key", "create", *KEY)
    file = folder / "history.ndjson"
    file.write_text("".join(json.dumps(event) + "\n" for event in history(time.time())))
    run(db, "import", str(file), "--website", website)
    # Otherwise each server of a copy does this work: 3 s of processor time. On a thread, as this one may have a loop.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(build, db, int(time.time() * 1000)).result()
    return Sample(db, key, website, empty, second)


@contextmanager
def sample_server(folder: Path, *options: str) -> Iterator[SampleServer]:
    """Yield a server with sample events, in a directory, started with options."""
    made = sample()
    db = Path(shutil.copy(made.db, folder))
    # All tests of a module come from one session within some minutes.
    server = Server(db, ("--key-per-minute", "100000", *options), {}, folder / "stderr.log", [])
    try:
        yield SampleServer(server, made.key, made.website, made.empty, made.second)
    finally:
        server.kill()


def history(now_s: float) -> Iterator[dict[str, Any]]:
    """Yield the events of seventy days up to now."""
    draw = random.Random(5)
    today = int(now_s // DAY_S)
    for day in range(today - DAYS, today + 1):
        for n in range(VISITORS_A_DAY + day % 5):
            yield from _visit(draw, day, f"{day} {n}", now_s)


def _visit(draw: random.Random, day: int, visitor: str, now_s: float) -> Iterator[dict[str, Any]]:
    browser, system, device = draw.choice(AGENTS)
    country, at_s = draw.choice(COUNTRIES), day * DAY_S + draw.random() * 80_000
    shared = {"visitor": visitor, "browser": browser, "os": system, "device": device, "hostname": "example.com"}
    shared |= {"country": country, "language": "de-DE" if country == "DE" else "en-US"}
    first = {"referrer": draw.choice(REFERRERS), "utm_source": draw.choice([None, IMG, "news"])}
    for n in range(draw.choice((1, 1, 2, 3, 5))):
        at_s += draw.random() * 100
        if at_s >= now_s:
            return
        timestamp = int(at_s * 1000)
        path = draw.choice(PATHS) if draw.random() < 0.6 else draw.choice(PATHS[:5])
        yield {"type": "pageview", "timestamp": timestamp, "pathname": path} | shared | (first if n == 0 else {})
        if draw.random() < 0.15 and at_s + 1 < now_s:
            data = {"plan": IMG}
            event = {"type": "event", "timestamp": timestamp + 900, "pathname": path, "event_name": f"signup {IMG}"}
            yield event | {"event_data": data} | shared


__all__ = ["CHROME", "EMAIL", "IMG", "PASSWORD", "SampleServer", "history", "sample_server"]
