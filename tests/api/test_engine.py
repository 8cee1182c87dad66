"""The server runs on any engine that implements the protocols of tally/engine.

SQLite and an engine that keeps a list in memory return the same figures for the same requests.
"""

import asyncio
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tally.accounts.websites import delete_website
from tally.ingest.node import EngineFactory
from tally.storage import import_records
from tally.timestamps import DAY_MS
from tally.transfer import undo
from tests.support.app import ROOT, App, MakeApp, ManualClock
from tests.support.cases import cases
from tests.support.memory_engine import MemoryEngine
from tests.support.read_api import custom, ms, view

DAY = "from=2026-11-17&to=2026-11-17"
SENT = [
    view("09:00:00", "/", "ann"),
    view("09:10:00", "/pricing", "ann"),
    custom("09:20:00", "signup", "ann"),
    view("11:00:00", "/", "ann"),
    view("10:00:00", "/pricing", "bob"),
    view("10:00:01", "/pricing", "cem"),
    view("12:00:00", "/blog", "cem"),
]
REQUESTS = (
    f"stats?{DAY}",
    f"stats?{DAY}&compare=previous",
    f"stats?{DAY}&filter_pathname=/pricing",
    f"stats?{DAY}&filter_pathname=/pricing&filter_pathname=",
    "stats?from=2026-11-17T09:05:00Z&to=2026-11-17T10:00:00Z",
    "stats?from=2026-11-01&to=2026-11-02",
    f"top/pathname?{DAY}",
    f"top/pathname?{DAY}&limit=1",
    f"top/pathname?{DAY}&limit=1&offset=1",
    f"top/pathname?{DAY}&compare=custom&compare_from=2026-11-17T10:00:00Z&compare_to=2026-11-17T11:30:00Z",
    f"top/pathname?{DAY}&filter_pathname^=/b&filter_pathname!=/x",
    f"top/pathname?{DAY}&filter_pathname=/blog",
    f"top/pathname?{DAY}&format=csv",
    f"top/country?{DAY}",
)


async def app_with_events(make_app: MakeApp, path: Path, engine: EngineFactory) -> tuple[App, str, str]:
    """Return an application that received SENT, a website and a key."""
    app = await make_app(engine, db=path)
    website, key = await app.website(), await app.key()
    assert (await app.collect({"website_id": website, "events": SENT})).json["accepted"] == len(SENT)
    return app, website, key


async def test_engines_return_the_same_figures(make_app: MakeApp, tmp_path: Path, engine: EngineFactory) -> None:
    expected = await app_with_events(make_app, tmp_path / "one.db", engine)
    other = await app_with_events(make_app, tmp_path / "other.db", lambda node: MemoryEngine())
    for request in REQUESTS:
        answers = [await app.get(f"/api/v1/websites/{id}/{request}", key) for app, id, key in (expected, other)]
        bodies = [re.sub(r'"website_id":"[^"]*"', "", answer.text) for answer in answers]
        assert [answer.status for answer in answers] == [200, 200], answers[1].text
        assert bodies[1] == bodies[0], request


async def test_events_are_in_the_engine_alone(make_app: MakeApp, tmp_path: Path, engine: EngineFactory) -> None:
    """Events in memory give the same figures as SQLite, and no event is stored in SQLite."""
    expected = await app_with_events(make_app, tmp_path / "one.db", engine)
    app = await make_app(lambda node: MemoryEngine(), db=tmp_path / "other.db")
    website, key = await app.website(), await app.key()
    sent = {"website_id": website, "events": [event | {"event_id": f"event-{n}"} for n, event in enumerate(SENT)]}
    for _ in range(2):  # the second time they are duplicates
        assert (await app.collect(sent)).json["accepted"] == len(SENT)
    for request in (f"stats?{DAY}", f"top/pathname?{DAY}", f"top/os?{DAY}&filter_pathname=/pricing"):
        answers = [
            await one.get(f"/api/v1/websites/{id}/{request}", secret)
            for one, id, secret in (expected, (app, website, key))
        ]
        bodies = [re.sub(r'"website_id":"[^"]*"', "", answer.text) for answer in answers]
        assert [answer.status for answer in answers] == [200, 200], answers[1].text
        assert bodies[1] == bodies[0], request
    assert app.sql("select count(*) from event") == [(0,)]


async def test_etags_change_with_the_engines_version(make_app: MakeApp, tmp_path: Path) -> None:
    engine = MemoryEngine()
    app, website, key = await app_with_events(make_app, tmp_path / "one.db", lambda node: engine)
    path = f"/api/v1/websites/{website}/stats?{DAY}"
    first = await app.get(path, key)
    again = await app.get(path, key, headers={"If-None-Match": first.headers["ETag"]})
    engine.reports.events.append(engine.reports.events[0]._replace(time_ms=ms("13:00:00"), visitor="dan"))
    changed = await app.get(path, key, headers={"If-None-Match": first.headers["ETag"]})
    assert [first.status, again.status, changed.status] == [200, 304, 200]
    assert (first.json["data"]["visitors"], changed.json["data"]["visitors"]) == (3, 4)


async def test_a_range_before_the_engines_first_event_is_rejected(make_app: MakeApp, tmp_path: Path) -> None:
    engine = MemoryEngine(kept_from_ms=ms("00:00:00"))
    app, website, key = await app_with_events(make_app, tmp_path / "one.db", lambda node: engine)
    answer = await app.get(f"/api/v1/websites/{website}/stats?from=2026-11-16&to=2026-11-17", key)
    assert (answer.status, answer.json["error"]["code"]) == (400, "beyond_retention")
    assert "2026-11-17T00:00:00.000+00:00" in answer.json["error"]["message"]


API_AND_WEB = [*sorted((ROOT / "tally" / "api").glob("*.py")), *sorted((ROOT / "tally" / "web").glob("*.py"))]


@cases("path", API_AND_WEB, ids=lambda path: path.name)
def test_api_and_web_run_no_sql(path: Path) -> None:
    """No module of tally/api or tally/web imports the database or its statements, or uses a connection."""
    text = path.read_text()
    assert not re.search(r"^\s*(from|import) (sqlite3|tally\.storage\.(sql|labels|database))", text, re.MULTILINE)
    assert not re.search(r"\.execute\(|\bconnection\b *[,:)]", text)


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_true():
            await asyncio.sleep(0.01)


async def test_another_engine_has_its_own_lifecycle(make_app: MakeApp) -> None:
    """It is opened, called and closed; nothing of the SQLite engine exists."""
    engine = MemoryEngine()
    app = await make_app(lambda node: engine)
    assert engine.calls[0] == "open"
    await app.node.tick()
    assert "each_second" in engine.calls
    coroutines = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    assert not [name for name in coroutines if name.startswith("BackgroundWork")]
    assert app.database.recovery._background == []
    assert app.registry.others_wrote is None
    metrics = (await app.get("/metrics")).text
    assert "\nmemory_events 0.0\n" in metrics
    assert "tally_commits_failed" not in metrics
    assert "tally_database_bytes" in metrics
    assert (await app.get("/healthz")).json == {"ok": True, "queue": 3}
    engine.problem = "The cluster is away."
    refused = await app.get("/healthz")
    assert (refused.status, refused.json["error"]["message"]) == (503, "The cluster is away.")
    await app.close()
    assert engine.calls[-1] == "close"


async def test_imports_are_undone_in_another_engine(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called until nothing is left; then the database's own row says that the import is undone."""
    monkeypatch.setattr("tally.web.components.PAUSE_S", 0.01)
    engine = MemoryEngine()
    app = await make_app(lambda node: engine)
    number = app.registry.website(await app.website()).number

    def begin(connection: sqlite3.Connection) -> int:
        created = import_records.begin(connection, number, "tally", "", "file.ndjson", 0)
        import_records.end(connection, number, created, import_records.COMPLETE)
        undo.begin(connection, number, created, 0)
        return created

    created = await app.database.write(begin)
    await until(lambda: app.sql("select state from import") == [("undone",)])
    assert engine.calls.count(("undo", number, created)) >= 3


async def test_another_engine_deletes_websites_and_expired_events(
    make_app: MakeApp, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is called until nothing is left, also after it has failed; then the database's own rows are deleted."""
    monkeypatch.setattr("tally.web.components.PAUSE_S", 0.01)
    monkeypatch.setattr("tally.maintenance.scheduler.FAILED_PAUSE_S", 0)
    engine = MemoryEngine()
    app = await make_app(lambda node: engine, keep_days=10)
    deleted, kept = await app.website(), await app.website("example.org")
    for website in (deleted, kept):
        assert (await app.collect({"website_id": website, "events": SENT})).json["accepted"] == len(SENT)
    assert (await app.collect({"website_id": deleted, "type": "unknown"})).status == 400
    await app.node.tick()
    assert app.sql("select count(*) from rejected_event") == [(1,)]
    numbers = {website.id: website.number for website in app.registry.cache.websites.values()}

    await app.registry.change(delete_website, numbers[deleted], clock.wall_ms())
    await until(lambda: len(engine.reports.events) == len(SENT))
    await until(lambda: app.sql("select count(*) from rejected_event") == [(0,)])
    # One that failed, one for each event, and at least one that found nothing.
    assert engine.calls.count(("forget", numbers[deleted])) >= 2 + len(SENT)
    clock.advance(61)
    await until(lambda: app.sql("select is_complete from deleted_website") == [(1,)])
    assert {call[1] for call in engine.calls if call[0] == "forget"} == {numbers[deleted]}

    assert len(engine.reports.events) == len(SENT)
    clock.advance(11 * 86_400)
    await until(lambda: not engine.reports.events)
    day = clock.wall_ms() // DAY_MS - 10
    assert ("expire", numbers[kept], day) in engine.calls
