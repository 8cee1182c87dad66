"""What the tests of the read side share: one application for a whole module, events in short, questions word for word.

A `Library` is an application on a file of its own, with an event loop of its own, so that a table of hundreds of
questions costs one start. Tests share it and stay apart by websites: `site()` gives a fresh one. Its rate limits are
out of the way, and its clock is set back to NOON by each module's fixture.

A question is written as it stands in a URL, `stats?from=2026-11-17`, and goes out exactly so: nothing is quoted here.
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

from tally.settings import Settings
from tests.support.app import CHROME, NOON_MS, OWNER, Answer, App, ManualClock

T = TypeVar("T")

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
NOON = "2026-11-18T12:00:00.000+00:00"
DAY = "2026-11-17"  # the day before NOON: all of it can still be sent
NO_LIMIT = 10_000_000

# The 14 dimensions, in the order of the documentation.
FIELDS = (
    *("pathname", "referrer", "country", "browser", "os", "device", "language", "hostname"),
    *("utm_source", "utm_medium", "utm_campaign", "platform", "app_version", "os_version"),
)
ENDPOINTS = ("stats", "timeseries", "top/pathname", "events", "realtime", "event-names", "entry-pages", "exit-pages")


def ms(at: str) -> int:
    """Milliseconds of an ISO time with an offset, or of a time of DAY in UTC."""
    text = at if "T" in at else f"{DAY}T{at}Z"
    return (datetime.fromisoformat(text) - datetime.fromisoformat("1970-01-01T00:00:00Z")) // timedelta(milliseconds=1)


def event(type_: str, at: str | int, who: str, **fields: Any) -> dict[str, Any]:
    """An event of somebody at a time (of DAY, where it names no date)."""
    timestamp = ms(at) if isinstance(at, str) else at
    return {"type": type_, "timestamp": timestamp, "session_id": f"session-of-{who}"} | fields


def view(at: str | int, path: str = "/", who: str = "ann", **fields: Any) -> dict[str, Any]:
    """A pageview of https://example.com<path>."""
    return event("pageview", at, who, url=f"https://example.com{path}", **fields)


def custom(at: str | int, name: str = "signup", who: str = "ann", **fields: Any) -> dict[str, Any]:
    """A custom event."""
    return event("event", at, who, event_name=name, **fields)


def filters(**values: str) -> str:
    """`&filter_<field>=<value>` for each, quoted."""
    return "".join(f"&filter_{field}={quote(value, safe='')}" for field, value in values.items())


class Library:
    """An application asked without await."""

    def __init__(self, db: Path) -> None:
        limits = {"client_per_minute": NO_LIMIT, "website_per_minute": NO_LIMIT, "key_per_minute": NO_LIMIT}
        self.clock = ManualClock()
        self.app = App(Settings(db=db, **limits), self.clock)
        self._loop = asyncio.new_event_loop()
        self.run(self.app.open())
        self.key = self.run(self.app.key())

    def close(self) -> None:
        self.run(self.app.close())
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)

    def site(self, domain: str = "example.com", account: str = OWNER) -> "Site":
        """A new website; its key is the account's."""
        key = self.key if account == OWNER else self.run(self.app.key(account))
        return Site(self, self.run(self.app.website(domain, account)), key)

    def get(
        self, path: str, key: str | None = None, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> Answer:
        return self.run(self.app.get(URL(path, encoded=True), key, None, headers, method))  # type: ignore[arg-type]

    def raw(self, request: bytes) -> Answer:
        """Sends bytes as they are and reads the one answer; they must ask for the connection to be closed."""
        return self.run(raw(self.app, request))


@dataclass(frozen=True, slots=True)
class Site:
    """A website of a library."""

    library: Library
    id: str
    key: str

    def send(self, *events: dict[str, Any], ip: str = "203.0.113.7", ua: str = CHROME) -> None:
        """Sends events as an app does; all are taken."""
        for start in range(0, len(events), 50):
            batch = events[start : start + 50]
            answer = self.library.run(self.library.app.collect({"website_id": self.id, "events": batch}, ip=ip, ua=ua))
            assert answer.json == {"ok": True, "accepted": len(batch), "rejected": 0}

    def path(self, question: str) -> str:
        return f"/api/v1/websites/{self.id}/{question}"

    def ask(self, question: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        return self.library.get(self.path(question), self.key, headers, method)

    def answer(self, question: str) -> Any:
        """The JSON of an answer 200."""
        answer = self.ask(question)
        assert answer.status == 200, answer.text
        return answer.json

    def data(self, question: str) -> Any:
        return self.answer(question)["data"]

    def refused(self, question: str) -> str:
        """The field that an answer 400 blames."""
        answer = self.ask(question)
        error = answer.json.get("error", {})
        assert (answer.status, error.get("code")) == (400, "invalid_parameter"), answer.text
        return str(error.get("field", ""))


@contextlib.contextmanager
def library_at(db: Path) -> Iterator[Library]:
    """A library for a module's fixture."""
    library = Library(db)
    try:
        yield library
    finally:
        library.close()


async def raw(app: App, request: bytes) -> Answer:
    """Sends bytes as they are over a connection of their own and reads the one answer to its end."""
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
    """A request without body, in bytes."""
    bearer = (b"Authorization: Bearer " + key.encode(),) if key else ()
    return b"\r\n".join(
        [method + b" " + target + b" HTTP/1.1", b"Host: localhost", b"Connection: close", *bearer, *more, b"", b""]
    )


__all__ = ["NOON_MS", "Library", "Site", "custom", "event", "filters", "library_at", "ms", "raw", "request", "view"]
