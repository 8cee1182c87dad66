"""tally/engine/ingest.py: the collector and the fast path with an engine other than SQLite."""

import asyncio
from typing import Any

import pytest

from tally.engine.ingest import DUPLICATE, MONTH_FULL, Ingest, OnWritten, Outcomes, WriteRequest
from tally.errors import STORAGE_UNAVAILABLE, ApiError
from tally.ingest import collector, fast_path
from tally.ingest.collector import COLLECTOR
from tests.support.app import App

HEADERS_OF_PATH = {"fast path": {}, "aiohttp": {"Cache-Control": "no-store", "Content-Encoding": "identity"}}


class RecordingEngine:
    """An engine that records appended requests and returns one outcome for each event, or a failure."""

    def __init__(self, outcome: Any) -> None:
        self.outcome, self.is_full = outcome, False
        self.requests: list[WriteRequest] = []

    def append(self, request: WriteRequest, on_written: OnWritten) -> None:
        self.requests.append(request)
        outcomes: Outcomes = [self.outcome] * len(request.events)
        failed = isinstance(self.outcome, Exception)
        asyncio.get_running_loop().call_soon(on_written, self.outcome if failed else outcomes)


@pytest.mark.parametrize("path", HEADERS_OF_PATH)
@pytest.mark.parametrize(
    ("outcome", "status", "accepted"),
    [
        (None, 202, 1),
        (DUPLICATE, 202, 1),
        (MONTH_FULL, 400, 0),
        (ApiError(STORAGE_UNAVAILABLE), 503, 0),
        (ValueError("a bug"), 500, 0),
    ],
    ids=["stored", "duplicate", "rejected", "unavailable", "failed"],
)
async def test_another_engine(app: App, outcome: Any, status: int, accepted: int, path: str) -> None:
    """The response and the counters follow from the outcome; nothing is stored in SQLite."""
    website = await app.website()
    engine, the_collector = RecordingEngine(outcome), app.application[COLLECTOR]
    is_ingest: Ingest = engine
    the_collector.ingest = is_ingest
    view = {"type": "pageview", "website_id": website, "url": "https://example.com/a"}
    answer = await app.collect(view, headers=HEADERS_OF_PATH[path])
    assert (answer.status, the_collector.accepted) == (status, accepted)
    assert app.sql("select count(*) from event") == [(0,)]
    (request,) = engine.requests
    (event,) = request.events
    assert (event.website.id, event.event.url, event.dimensions[0]) == (website, ("example.com", "/a", "", ""), "/a")
    left = the_collector.clients.remaining(request.client_key, app.clock.monotonic_ns())
    assert left == the_collector.clients.per_minute - (accepted or 0), "events that are not stored take no token"


async def test_a_full_engine(app: App) -> None:
    website, engine = await app.website(), RecordingEngine(None)
    engine.is_full, app.application[COLLECTOR].ingest = True, engine
    answer = await app.collect({"type": "pageview", "website_id": website, "url": "https://example.com/"})
    assert (answer.status, answer.json["error"]["code"], engine.requests) == (503, "overloaded", [])


@pytest.mark.parametrize("module", [collector, fast_path], ids=["collector", "fast_path"])
def test_nothing_above_the_engine_uses_sqlite(module: Any) -> None:
    assert not hasattr(module, "sqlite3")
