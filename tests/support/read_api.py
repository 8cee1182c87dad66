"""An application for the read API tests of a module, and short forms of events and requests.

A `SyncApp` is an application with its own database file and event loop, which all tests of a module share: `site()`
returns a new website. Its rate limits are raised, and each module's fixture sets its clock back to NOON.

A report is the end of a URL, such as `stats?from=2026-11-17`. It is sent unchanged: nothing is percent-encoded here.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from multidict import CIMultiDict
from yarl import URL

from tally.ingest.node import EngineFactory
from tally.settings import Settings
from tally.web.components import sqlite_engine
from tests.support.app import CHROME, NOON_MS, OWNER, Answer, App, ManualClock

T = TypeVar("T")

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
NOON = "2026-11-18T12:00:00.000+00:00"
DAY = "2026-11-17"  # the day before NOON: within the 72 hours of accepted timestamps
NO_LIMIT = 10_000_000

ENDPOINTS = ("stats", "timeseries", "top/pathname", "events", "realtime", "event-names", "entry-pages", "exit-pages")


def ms(at: str) -> int:
    """Return the milliseconds of an ISO time with an offset, or of a time of DAY in UTC."""
    text = at if "T" in at else f"{DAY}T{at}Z"
    return (datetime.fromisoformat(text) - datetime.fromisoformat("1970-01-01T00:00:00Z")) // timedelta(milliseconds=1)


def event(type_: str, at: str | int, who: str, **fields: Any) -> dict[str, Any]:
    """Return an event of a session at a time; a time without a date is one of DAY."""
    timestamp = ms(at) if isinstance(at, str) else at
    return {"type": type_, "timestamp": timestamp, "session_id": f"session-of-{who}"} | fields


def view(at: str | int, path: str = "/", who: str = "ann", **fields: Any) -> dict[str, Any]:
    """Return a pageview of https://example.com<path>."""
    return event("pageview", at, who, url=f"https://example.com{path}", **fields)


def custom(at: str | int, name: str = "signup", who: str = "ann", **fields: Any) -> dict[str, Any]:
    """Return a custom event."""
    return event("event", at, who, event_name=name, **fields)


def filters(**values: str) -> str:
    """Return `&filter_<field>=<value>` for each value, percent-encoded."""
    return "".join(f"&filter_{field}={quote(value, safe='')}" for field, value in values.items())


class SyncApp:
    """An application that tests call without await. `key` is an API key of OWNER."""

    def __init__(self, db: Path, engine: EngineFactory = sqlite_engine) -> None:
        limits = {"client_per_minute": NO_LIMIT, "website_per_minute": NO_LIMIT, "key_per_minute": NO_LIMIT}
        self.clock = ManualClock()
        self.app = App(Settings(db=db, **limits), self.clock, engine)
        self._loop = asyncio.new_event_loop()
        self.run(self.app.open())
        self.key = self.run(self.app.key())

    def close(self) -> None:
        self.run(self.app.close())
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)

    def site(self, domain: str = "example.com", account: str = OWNER) -> "Site":
        """Create a website of an account and return it with a key of that account."""
        key = self.key if account == OWNER else self.run(self.app.key(account))
        return Site(self, self.run(self.app.website(domain, account)), key)

    def get(
        self, path: str, key: str | None = None, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> Answer:
        return self.run(self.app.get(URL(path, encoded=True), key, None, headers, method))  # type: ignore[arg-type]

    def raw(self, request: bytes) -> Answer:
        """Send bytes unchanged and return the response. They must have the header `Connection: close`."""
        return self.run(raw(self.app, request))


@dataclass(frozen=True, slots=True)
class Site:
    """A website of a SyncApp, with an API key."""

    sync_app: SyncApp
    id: str
    key: str

    def send(self, *events: dict[str, Any], ip: str = "203.0.113.7", ua: str = CHROME) -> None:
        """Send events in batches of 50, as a native app does. All must be accepted."""
        for start in range(0, len(events), 50):
            batch = events[start : start + 50]
            answer = self.sync_app.run(
                self.sync_app.app.collect({"website_id": self.id, "events": batch}, ip=ip, ua=ua)
            )
            assert answer.json == {"ok": True, "accepted": len(batch), "rejected": 0}, answer.text

    def path(self, report: str) -> str:
        """Return the path of a report's URL."""
        return f"/api/v1/websites/{self.id}/{report}"

    def get(self, report: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        return self.sync_app.get(self.path(report), self.key, headers, method)

    def json(self, report: str) -> Any:
        """Return the JSON body of a report. The status must be 200."""
        answer = self.get(report)
        assert answer.status == 200, answer.text
        return answer.json

    def data(self, report: str) -> Any:
        """Return `data` of a report."""
        return self.json(report)["data"]

    def invalid_field(self, report: str) -> str:
        """Return the field that a response names. It must be 400 with the code invalid_parameter."""
        answer = self.get(report)
        error = answer.json.get("error", {})
        assert (answer.status, error.get("code")) == (400, "invalid_parameter"), answer.text
        return str(error.get("field", ""))


@contextlib.contextmanager
def sync_app_at(db: Path, engine: EngineFactory = sqlite_engine) -> Iterator[SyncApp]:
    """Yield a SyncApp for a module's fixture."""
    sync_app = SyncApp(db, engine)
    try:
        yield sync_app
    finally:
        sync_app.close()


async def raw(app: App, request: bytes) -> Answer:
    """Send bytes unchanged over a new connection and return the response."""
    reader, writer = await asyncio.open_connection(app.client.host, app.client.port)
    try:
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = CIMultiDict(line.split(": ", 1) for line in lines)
    return Answer(int(first.split(" ")[1]), headers, body)


def request(target: bytes, key: str = "", method: bytes = b"GET", more: Sequence[bytes] = ()) -> bytes:
    """Return the bytes of a request without a body."""
    bearer = (b"Authorization: Bearer " + key.encode(),) if key else ()
    return b"\r\n".join(
        [method + b" " + target + b" HTTP/1.1", b"Host: localhost", b"Connection: close", *bearer, *more, b"", b""]
    )


__all__ = ["NOON_MS", "Site", "SyncApp", "custom", "event", "filters", "ms", "raw", "request", "sync_app_at", "view"]
