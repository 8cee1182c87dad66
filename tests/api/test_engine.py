"""The API runs on any engine that implements `Reports` (tally/reports/engine.py).

The same requests are answered by SQLite and by an engine that keeps a list in memory, with the same figures.
"""

import re
from pathlib import Path
from typing import Any

from tally.reports.engine import Reports
from tally.web.components import Engine
from tests.support.app import ROOT, App, MakeApp
from tests.support.cases import cases
from tests.support.memory_reports import MemoryEvent, MemoryReports
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
# Custom events without a URL have no pathname.
EVENTS = [
    MemoryEvent(
        1,
        event["timestamp"],
        event["session_id"],
        event["type"] == "pageview",
        {"pathname": event["url"].removeprefix("https://example.com")} if "url" in event else {},
    )
    for event in SENT
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
    f"top/pathname?{DAY}&filter_pathname=/blog",
    f"top/pathname?{DAY}&format=csv",
    f"top/country?{DAY}",
)


async def served(make_app: MakeApp, path: Path, engine: Engine) -> tuple[App, str, str]:
    """Return an application with SENT, a website and a key."""
    app = await make_app(engine, db=path)
    website, key = await app.website(), await app.key()
    assert (await app.collect({"website_id": website, "events": SENT})).json["accepted"] == len(SENT)
    return app, website, key


async def test_another_engine_answers_alike(make_app: MakeApp, tmp_path: Path, engine: Engine) -> None:
    expected = await served(make_app, tmp_path / "one.db", engine)
    other = await served(make_app, tmp_path / "other.db", lambda store: in_memory())
    for request in REQUESTS:
        answers = [await app.get(f"/api/v1/websites/{id}/{request}", key) for app, id, key in (expected, other)]
        bodies = [re.sub(r'"website_id":"[^"]*"', "", answer.text) for answer in answers]
        assert [answer.status for answer in answers] == [200, 200], answers[1].text
        assert bodies[1] == bodies[0], request


def in_memory(**more: Any) -> Reports:
    engine: Any = MemoryReports(EVENTS, **more)
    return engine


async def test_etags_follow_the_version_of_the_engine(make_app: MakeApp, tmp_path: Path) -> None:
    reports: Any = in_memory()
    app, website, key = await served(make_app, tmp_path / "one.db", lambda store: reports)
    path = f"/api/v1/websites/{website}/stats?{DAY}"
    first = await app.get(path, key)
    again = await app.get(path, key, headers={"If-None-Match": first.headers["ETag"]})
    reports.events.append(EVENTS[0]._replace(time_ms=ms("13:00:00"), visitor="dan"))
    changed = await app.get(path, key, headers={"If-None-Match": first.headers["ETag"]})
    assert [first.status, again.status, changed.status] == [200, 304, 200]
    assert (first.json["data"]["visitors"], changed.json["data"]["visitors"]) == (3, 4)


async def test_an_engine_says_from_when_on_it_keeps_events(make_app: MakeApp, tmp_path: Path) -> None:
    engine = in_memory(kept_from_ms=ms("00:00:00"))
    app, website, key = await served(make_app, tmp_path / "one.db", lambda store: engine)
    answer = await app.get(f"/api/v1/websites/{website}/stats?from=2026-11-16&to=2026-11-17", key)
    assert (answer.status, answer.json["error"]["code"]) == (400, "beyond_retention")
    assert "2026-11-17T00:00:00.000+00:00" in answer.json["error"]["message"]


ABOVE = [*sorted((ROOT / "tally" / "api").glob("*.py")), *sorted((ROOT / "tally" / "web").glob("*.py"))]


@cases("path", ABOVE, ids=lambda path: path.name)
def test_nothing_above_the_engine_runs_sql(path: Path) -> None:
    """No module of the API or the pages imports the database or its statements, or handles a connection."""
    text = path.read_text()
    assert not re.search(r"^\s*(from|import) (sqlite3|tally\.storage\.(sql|labels|database))", text, re.MULTILINE)
    assert not re.search(r"\.execute\(|\bconnection\b *[,:)]", text)
