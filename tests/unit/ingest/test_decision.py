"""tally/sqlite/decision.py: what is decided without the rows of events, and the feed of what a commit has stored."""

import itertools
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tally.engine.ingest import DUPLICATE, MONTH_FULL, NO_ASSIGNMENT, PreparedEvent, WriteRequest
from tally.events.dimensions import FIELDS
from tally.events.sessions import Sessions
from tally.ingest.collector import COLLECTOR
from tally.sqlite.decision import Decider
from tally.storage.database import transaction
from tally.storage.value_limits import Limits
from tests.support.app import App, ManualClock

SOURCE = FIELDS.index("utm_source")


def view(website: str, path: str = "/", **more: Any) -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": f"https://example.com{path}", **more}


async def prepared(app: App, *events: dict[str, Any]) -> list[PreparedEvent]:
    """Return valid events as the collector passes them to an engine; nothing is stored."""
    ingest, requests = app.application[COLLECTOR].ingest, list[WriteRequest]()

    class Recording:
        is_full = False

        def append(self, request: WriteRequest, on_written: Any) -> None:
            requests.append(request)
            on_written([None] * len(request.events))

    app.application[COLLECTOR].ingest = Recording()
    assert (await app.collect({"events": events})).status == 202
    app.application[COLLECTOR].ingest = ingest
    return list(itertools.chain.from_iterable(request.events for request in requests))


async def test_decisions_without_rows(app: App, tmp_path: Path, clock: ManualClock) -> None:
    """Another engine can have the decisions of SQLite alone: they hold from one group to the next."""
    website = await app.website(plan="free")
    events = await prepared(
        app,
        view(website, "/a", event_id="event-1"),
        view(website, "/b", event_id="event-1"),
        view(website, "/b", event_id="event-2"),
        view(website, "/c"),
        view(website, "/d"),
        {"type": "ab_convert", "website_id": website, "experiment": "price", "goal": "buy", "session_id": "session-1"},
    )
    decider = Decider(Sessions(100), {"free": 4}.get, clock, Limits(values=2))
    connection = sqlite3.connect(app.db, isolation_level=None)

    def decided(rows: Sequence[PreparedEvent]) -> tuple[list[Any], list[str]]:
        with transaction(connection):
            decision = decider.decide(connection, [WriteRequest(rows, clock.wall_ms())])
            decision.store(connection, ())
        decider.keep(decision)
        return decision.outcomes[0], [row.dimensions[0] for row in decision.kept]

    decider.start(connection)
    first, second = events[:2], events[2:]
    assert decided(first) == ([None, None], ["/a", "/b"])
    # The same event again, a new one, one beyond the paths of the day, one beyond the month, and one for which no
    # assignment is stored, which is beyond the month first.
    assert decided([events[0], *second]) == ([DUPLICATE, None, None, MONTH_FULL, MONTH_FULL], ["/b", "(other)"])
    decider.limit_of = {"free": 5}.get
    assert decided(second[-1:]) == ([NO_ASSIGNMENT], [])
    assert connection.execute("select events from account_usage").fetchall() == [(4,)]
    assert connection.execute("select count(*) from event").fetchall() == [(0,)]
    connection.close()


async def test_the_feed_has_what_a_commit_has_stored(app: App) -> None:
    """It is called once a commit, after it and before the response, with the stored events alone, as they were sent."""
    website = await app.website()
    calls: list[tuple[int, list[tuple[str, str, str]]]] = []

    def note(events: Sequence[PreparedEvent]) -> None:
        stored = app.sql("select count(*) from event")[0][0]
        calls.append((stored, [(row.dimensions[0], row.event.event_id, row.dimensions[SOURCE]) for row in events]))

    app.running.on_committed.append(note)
    sent = [view(website, "/a", event_id="event-1"), view(website, "/b"), {"type": "none"}]
    assert (await app.collect({"events": sent})).json["accepted"] == 2
    assert calls == [(2, [("/a", "event-1", ""), ("/b", "", "")])]
    # The copy is not in the feed; the source is the event's own, which its visit may not have.
    source = view(website, "/c?utm_source=news")
    assert (await app.collect({"events": [sent[0], source]})).json["accepted"] == 2
    assert calls[1:] == [(3, [("/c", "", "news")])]
