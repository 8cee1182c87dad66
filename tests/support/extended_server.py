"""A server whose tables have rows that the code has not: event types, or a dimension. Prints its answers as JSON.

    python -m tests.support.extended_server types|dimension DIRECTORY

A program of its own, because all modules read the tables when they are imported.
"""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

from tally import resources
from tally.events import event_types, fields
from tally.events.event_types import EventType

WHAT, DIRECTORY = sys.argv[1], Path(sys.argv[2])
asset = resources.asset


def schema_with(column: str) -> str:
    """schema.sql with a dimension after the last one, as a migration would leave it."""
    schema = asset("schema.sql").read_text("utf-8")
    schema = re.sub(r"(\n  os_version +integer not null,)", rf"\1\n  {column} integer not null,", schema)
    return schema.replace("field between 0 and 14", "field between 0 and 15").replace(
        "field between 0 and 18", "field between 0 and 19"
    )


if WHAT == "types":
    event_types.EVENT_TYPES += (
        EventType(8, "purchase", ("referrer", "event_name", "event_data"), ("event_name",), is_traffic=True),
        EventType(9, "story_view", ("referrer",), ("url",), is_traffic=True, is_pageview=True),
        EventType(10, "note", ()),
    )
else:
    fields.DIMENSIONS += (
        fields.Dimension("section", value=lambda event, context: event.url.path.split("/")[1] if event.url else ""),
    )
    changed = DIRECTORY / "schema.sql"
    changed.write_text(schema_with("section"), "utf-8")
    resources.asset = lambda name: changed if name == "schema.sql" else asset(name)

# The tables are complete: everything else reads them now.
from tally.settings import Settings  # noqa: E402
from tally.storage.database import open_database  # noqa: E402
from tally.transfer.exporter import export_events  # noqa: E402
from tally.transfer.files import open_source  # noqa: E402
from tally.transfer.importer import import_events  # noqa: E402
from tests.support.app import App, ManualClock  # noqa: E402

PAGE = "https://example.com/news/first"
DAYS = "from=2026-11-18&to=2026-11-18"
EVENTS = {
    "types": [
        {"type": "purchase", "event_name": "book", "event_data": {"price": 12}, "url": PAGE},
        {"type": "story_view", "url": PAGE},
        {"type": "note", "url": PAGE},
        {"type": "purchase", "url": PAGE},
    ],
    "dimension": [{"type": "pageview", "url": PAGE}, {"type": "pageview", "url": "https://example.com/shop/x"}],
}
PATHS = {
    "types": ["stats?", "events?", "events?filter_type=purchase&", "top/pathname?", "event-names?"],
    "dimension": ["top/section?", "stats?filter_section=news&", "events?", "top/section?format=csv&"],
}


async def answers(app: App, website: str) -> dict[str, Any]:
    """The reports of PATHS about a website, from raw events and again from rollups."""
    key, found = await app.key(), {}
    for path in PATHS[WHAT]:
        answer = await app.get(f"/api/v1/websites/{website}/{path}{DAYS}", key)
        assert answer.status == 200, answer.text
        found[path.rstrip("?&")] = answer.json or answer.text
    return found


async def run() -> dict[str, Any]:
    """Collect, read, export, import into another website, read again."""
    app = App(Settings(db=DIRECTORY / "analytics.db"), ManualClock())
    await app.open()
    first, second = await app.website("example.com"), await app.website("example.net")
    collected = await app.collect({"website_id": first, "events": EVENTS[WHAT]})
    before = await answers(app, first)
    connection = open_database(app.db, create=False)
    lines = DIRECTORY / "events.ndjson"
    with lines.open("wb") as out:
        export_events(connection, 1, out)
    with open_source(str(lines)) as source:
        imported = import_events(connection, 2, source, now_ms=app.clock.wall_ms())
    connection.close()
    await app.store.refresh()
    app.clock.advance(3 * 86_400)  # the day is over: its totals are built once and for all
    while await app.store.builder.work():
        pass
    after = await answers(app, second)
    built = await answers(app, first)
    await app.close()
    exported = [json.loads(line) for line in lines.read_text().splitlines()]
    return {
        "collected": collected.json,
        "before": before,
        "exported": exported,
        "imported": imported,
        "after": after,
        "built": built,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run())))
