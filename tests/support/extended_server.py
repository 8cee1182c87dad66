"""Runs a server with more event types or one more dimension in its tables, and prints its responses as JSON.

    python -m tests.support.extended_server types|today|dimension DIRECTORY

A program of its own, because all modules read the tables when they are imported. `today` adds nothing and leaves a file
with events, which `dimension` changes with the migration that CONTRIBUTING.md shows.
"""

import asyncio
import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

from tally.events import event_types, fields
from tally.events.event_types import EventType
from tally.storage import migrations

WHAT, DIRECTORY = sys.argv[1], Path(sys.argv[2])
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


if WHAT == "types":
    event_types.EVENT_TYPES += (
        EventType(9, "purchase", ("referrer", "event_name", "event_data"), ("event_name",), is_traffic=True),
        EventType(10, "story_view", ("referrer",), ("url",), is_traffic=True, is_pageview=True),
        EventType(11, "note", ()),
    )
elif WHAT == "dimension":
    fields.DIMENSIONS += (
        fields.Dimension("section", value=lambda event, context: event.url.path.split("/")[1] if event.url else ""),
    )
    (example,) = re.findall(r"^```python\n(def add_section.*?)^```", CONTRIBUTING.read_text("utf-8"), re.M | re.S)
    found: dict[str, Any] = {"sqlite3": sqlite3}
    exec(example, found)
    migrations.MIGRATIONS += (found["add_section"],)

# The tables are complete: everything else reads them now.
from tally.maintenance.verify import verdicts  # noqa: E402
from tally.settings import Settings  # noqa: E402
from tally.storage.database import open_database  # noqa: E402
from tally.transfer.files import open_source  # noqa: E402
from tally.transfer.importer import import_events  # noqa: E402
from tests.support.app import NOON_MS, App, ManualClock  # noqa: E402
from tests.support.exports import export_events  # noqa: E402

PAGE = "https://example.com/news/first"
DAYS = "from=2026-11-18&to=2026-11-22"
LATER_S = 4 * 86_400
VIEWS = [{"type": "pageview", "url": PAGE}, {"type": "pageview", "url": "https://example.com/shop/x"}]
MEASURED = [
    {"type": "vitals", "url": PAGE, "vitals": {"lcp": 100}},
    {"type": "ab_assign", "experiment": "color", "variant": "red", "session_id": "a visitor"},
]
EVENTS = {
    "types": [
        {"type": "purchase", "event_name": "book", "event_data": {"price": 12}, "url": PAGE},
        {"type": "story_view", "url": PAGE},
        {"type": "note", "url": PAGE},
        {"type": "purchase", "url": PAGE},
    ],
    "today": [*VIEWS, {"type": "event", "event_name": "signup", "url": PAGE}, *MEASURED],
    "dimension": [*VIEWS, *MEASURED],
}
PATHS = {
    "types": ["stats?", "events?", "events?filter_type=purchase&", "top/pathname?", "event-names?"],
    "today": [],
    "dimension": [
        *("top/section?", "top/section?format=csv&", "stats?filter_section=news&", "stats?filter_section=&", "stats?"),
        *("events?", "event-names?", "vitals?filter_section=news&", "vitals?", "experiments?"),
    ],
}


async def answers(app: App, website: str) -> dict[str, Any]:
    """Return the reports of PATHS about a website by path."""
    key, found = await app.key(), {}
    for path in PATHS[WHAT]:
        answer = await app.get(f"/api/v1/websites/{website}/{path}{DAYS}", key)
        assert answer.status == 200, answer.text
        found[path.rstrip("?&")] = answer.json or answer.text
    return found


async def build(app: App) -> None:
    """Do all pending background work."""
    while await app.background_work.builder.work():
        pass


async def leave_events() -> dict[str, Any]:
    """Collect events on a day that is final now, and on a day that is still open."""
    app = App(Settings(db=DIRECTORY / "analytics.db"), ManualClock())
    await app.open()
    website = await app.website("example.com")
    for seconds in (LATER_S, 60):
        sent = await app.collect({"website_id": website, "events": EVENTS[WHAT]})
        assert sent.json["accepted"] == len(EVENTS[WHAT]), sent.text
        app.clock.advance(seconds)
        await build(app)
    await app.close()
    return {"packed": app.sql("select day from packed_day where source = 0"), "website": website}


async def run() -> dict[str, Any]:
    """Collect, read, export, import into another website, read again."""
    is_migrated = (DIRECTORY / "analytics.db").exists()
    clock = ManualClock(NOON_MS + LATER_S * 1_000 + 120_000) if is_migrated else ManualClock()
    app = App(Settings(db=DIRECTORY / "analytics.db"), clock)
    await app.open()
    first = app.sql("select id from website")[0][0] if is_migrated else await app.website("example.com")
    second = await app.website("example.net")
    old = await answers(app, first) if is_migrated else {}
    collected = await app.collect({"website_id": first, "events": EVENTS[WHAT]})
    before = await answers(app, first)
    connection = open_database(app.db, create=False)
    lines = DIRECTORY / "events.ndjson"
    with lines.open("wb") as out:
        export_events(connection, 1, out)
    with open_source(str(lines)) as source:
        imported = import_events(connection, 2, source, now_ms=app.clock.wall_ms())
    connection.close()
    await app.registry.refresh()
    app.clock.advance(LATER_S)  # the day is final: its totals do not change any more
    await build(app)
    after = await answers(app, second)
    built = await answers(app, first)
    await app.close()
    connection = open_database(app.db, create=False)
    faults = [verdict for website in (1, 2) for verdict in verdicts(connection, website) if verdict.fault]
    connection.close()
    exported = [json.loads(line) for line in lines.read_text().splitlines()]
    return {
        "collected": collected.json,
        "old": old,
        "before": before,
        "exported": exported,
        "imported": imported,
        "after": after,
        "built": built,
        "faults": faults,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(leave_events() if WHAT == "today" else run())))
