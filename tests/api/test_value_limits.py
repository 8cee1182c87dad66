"""Limits on new values per website, field and day (tally/storage/value_limits.py); others become `(other)`."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tally.engine.ingest import WriteRequest
from tally.engine.values import Scope
from tally.events.dimensions import FIELDS
from tally.events.sessions import Sessions
from tally.sqlite.writer import EventWriter, WriteResult
from tally.storage import value_limits
from tally.storage.bulk_insert import marks
from tally.storage.database import open_database
from tally.storage.sql import measurements as measurements_statements
from tally.storage.value_limits import BOUNDED, EVENT_DATA, OTHER, Limits
from tally.transfer.files import open_source
from tally.transfer.importer import import_events
from tests.support.app import NOON_MS, App, MakeApp, ManualClock
from tests.support.page_client import logged_in

DAY_S = 86_400
FIELDS_SENT = ("utm_source", "utm_medium", "utm_campaign")


def view(path: str, **more: Any) -> dict[str, Any]:
    return {"type": "pageview", "url": f"https://example.com{path}"} | more


async def send(app: App, website: str, *events: dict[str, Any], ip: str = "203.0.113.7") -> None:
    """Send events in batches of 50, all of which must be accepted."""
    for start in range(0, len(events), 50):
        some = list(events[start : start + 50])
        answer = await app.collect({"website_id": website, "events": some}, ip=ip)
        assert (answer.status, answer.json["accepted"]) == (202, len(some)), answer.text


async def top(app: App, website: str, key: str, field: str = "pathname") -> dict[str, int]:
    """Return the sum of pageviews and events by value."""
    answer = await app.get(f"/api/v1/websites/{website}/top/{field}", key, {"limit": "1000"})
    return {row["value"]: row["pageviews"] + row["events"] for row in answer.json["data"]}


async def folded(app: App, website: str, key: str) -> list[tuple[str, int, int]]:
    answer = await app.get(f"/api/v1/websites/{website}/rejected", key)
    return [(row["field"], row["new_values"], row["events"]) for row in answer.json["data"]["folded"]]


@pytest.fixture
async def bounded(make_app: MakeApp) -> App:
    return await make_app(max_new_values=3, max_new_names=2)


async def test_values_beyond_the_limit_are_stored_as_other(bounded: App) -> None:
    website, key = await bounded.website(), await bounded.key()
    await send(bounded, website, *[view(f"/{n}") for n in range(10)], view("/1"))
    assert await top(bounded, website, key) == {"/0": 1, "/1": 2, "/2": 1, OTHER: 7}
    assert await folded(bounded, website, key) == [("pathname", 3, 7)]
    assert bounded.sql("select count(*) from label where text like '/_'") == [(3,)]


async def test_folded_values_are_filtered_by_parts_of_their_text(bounded: App) -> None:
    """Operators compare the stored text, `(other)`, although it is no value that a website has used."""
    website, key = await bounded.website(), await bounded.key()
    await send(bounded, website, *[view(f"/{n}") for n in range(5)])
    for operator, part, pageviews in (("^", "/", 3), ("*", "other", 2), ("$", ")", 2)):
        filters = {f"filter_pathname{operator}": part}
        stats = (await bounded.get(f"/api/v1/websites/{website}/stats", key, filters)).json["data"]
        assert stats["pageviews"] == pageviews, filters


async def test_known_values_are_never_folded(bounded: App, clock: ManualClock) -> None:
    """The limit is on values that appear for the first time, not on all values of a day."""
    website, key = await bounded.website(), await bounded.key()
    for day in range(4):
        await send(bounded, website, *[view(f"/{n}") for n in range(3 * day + 3)])
        clock.advance(DAY_S)
    rows = (await bounded.get(f"/api/v1/websites/{website}/top/pathname", key, {"limit": "1000"})).json["data"]
    assert sorted(row["value"] for row in rows) == sorted(f"/{n}" for n in range(12))
    assert await folded(bounded, website, key) == []


async def test_each_website_and_field_has_its_own_limit(bounded: App) -> None:
    """A value known in another field or website still counts as new."""
    first, second, key = await bounded.website(), await bounded.website("other.example"), await bounded.key()
    words = [f"word{n}" for n in range(6)]
    for field in FIELDS_SENT:
        await send(bounded, first, *[view(f"/?{field}={word}") | {"session_id": field + word} for word in words])
        await send(
            bounded, second, *[view(f"/?{field}={word}") | {"session_id": field + word} for word in reversed(words)]
        )
    for field in FIELDS_SENT:
        assert await top(bounded, first, key, field) == {"word0": 1, "word1": 1, "word2": 1, OTHER: 3}
        assert await top(bounded, second, key, field) == {"word5": 1, "word4": 1, "word3": 1, OTHER: 3}


async def test_every_field_with_labels_is_limited(bounded: App) -> None:
    website, key = await bounded.website(), await bounded.key()
    events: list[dict[str, Any]] = []
    for n in range(8):
        own = {"browser": f"b{n}", "os": f"o{n}", "platform": f"p{n}", "app_version": f"a{n}", "os_version": f"v{n}"}
        language, referrer = f"en-{n}00", f"https://r{n}.example/"
        url = f"https://s{n}.example.com/{n}?utm_source=s{n}&utm_medium=m{n}&utm_campaign=c{n}"
        events += [
            {"type": "pageview", "url": url, "referrer": referrer, "language": language} | own,
            {"type": "screen_view", "name": f"screen{n}"},
            {"type": "event", "event_name": f"e{n}", "event_data": {f"k{n}": n}},
            {"type": "app_event", "event_name": f"e{n}"},
            {"type": "vitals", "url": f"https://example.com/v{n}", "vitals": {"lcp": 100}},
            {
                "type": "heatmap",
                "url": f"https://example.com/h{n}",
                "points": [{"x": 0.5, "y": 5, "kind": "click"}],
                "viewport_width": 1000,
            },
            {"type": "ab_assign", "experiment": f"x{n}", "variant": f"y{n}", "session_id": "a visitor's"},
            {"type": "ab_convert", "experiment": f"x{n}", "variant": f"y{n}", "goal": f"g{n}"},
        ]
    await send(bounded, website, *events)
    counts = {BOUNDED[n]: count for n, count in bounded.sql("select field, count(*) from field_value group by field")}
    assert counts == {
        **dict.fromkeys(("pathname", "referrer", "language", "hostname", *FIELDS_SENT), 3),
        **dict.fromkeys(("platform", "app_version"), 3),
        # The values from the User-Agent of the other events are the first or the second one.
        **dict.fromkeys(("browser", "os"), 3),
        **{"device": 1, "browser_version": 1, "channel": 2, "os_version": counts["os_version"]},
        **dict.fromkeys(("event_name", "experiment", "variant", "goal", "property"), 2),
    }
    assert counts["os_version"] <= 3
    names = (await bounded.get(f"/api/v1/websites/{website}/event-names", key)).json["data"]
    assert {row["value"]: row["events"] for row in names} == {"e0": 2, "e1": 2, OTHER: 12}
    experiments = (await bounded.get(f"/api/v1/websites/{website}/experiments", key)).json["data"]
    assert {row["experiment"] for row in experiments} == {"x0", "x1", OTHER}
    pages = (await bounded.get(f"/api/v1/websites/{website}/heatmap-pages", key)).json["data"]
    assert OTHER in {row["value"] for row in pages}


async def test_property_names_are_folded_and_their_values_kept(bounded: App) -> None:
    website, key = await bounded.website(), await bounded.key()
    data = {"plan": "pro", "seats": 3, "a": 1, "b": 2}
    await send(bounded, website, {"type": "event", "event_name": "buy", "event_data": data})
    await send(bounded, website, {"type": "event", "event_name": "buy", "event_data": {"plan": "free"}})
    rows = (await bounded.get(f"/api/v1/websites/{website}/events", key)).json["data"]
    # Of several folded names in one event the first value is kept.
    assert [row["event_data"] for row in rows] == [{"plan": "free"}, {"plan": "pro", "seats": 3, OTHER: 1}]
    assert await folded(bounded, website, key) == [("property", 2, 1)]


async def test_the_count_of_the_day_survives_a_restart(bounded: App) -> None:
    website, key = await bounded.website(), await bounded.key()
    await send(bounded, website, view("/a"), view("/b"))
    await bounded.restart()
    await send(bounded, website, *[view(path) for path in ("/c", "/d", "/a", "/e")])
    assert await top(bounded, website, key) == {"/a": 2, "/b": 1, "/c": 1, OTHER: 2}
    assert await folded(bounded, website, key) == [("pathname", 3, 2)]


async def test_limits_are_per_day_of_arrival(bounded: App) -> None:
    """Timestamps within 72 hours do not spread over several limits."""
    website, key = await bounded.website(), await bounded.key()
    late = [view(f"/{n}", timestamp=NOON_MS - n * 8 * 3_600_000) for n in range(9)]
    await send(bounded, website, *late)
    assert (await top(bounded, website, key))[OTHER] == 6


async def test_long_values_count_more(make_app: MakeApp) -> None:
    app = await make_app(max_new_values=10)
    website, key = await app.website(), await app.key()
    await send(app, website, *[view(f"/{n}{'x' * 900}") for n in range(3)], view("/short"))
    assert await top(app, website, key) == {f"/0{'x' * 900}": 1, f"/1{'x' * 900}": 1, OTHER: 2}


async def test_imported_values_are_known_and_not_limited(bounded: App) -> None:
    website, key = await bounded.website(), await bounded.key()
    file = bounded.db.with_name("events.ndjson")
    at = "2026-11-17T10:00:00Z"
    lines = [{"type": "pageview", "timestamp": at, "pathname": f"/{n}", "visitor": "v"} for n in range(20)]
    lines.append({"type": "event", "timestamp": at, "event_name": "buy", "event_data": {"a": 1, "b": 2, "c": 3}})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def take(connection: sqlite3.Connection) -> None:
        connection.execute("commit")
        number = connection.execute("select number from website").fetchone()[0]
        with open_source(file) as source:
            import_events(connection, number, source, now_ms=NOON_MS)
        connection.execute("begin immediate")

    await bounded.admin(take)
    await send(bounded, website, *[view(f"/{n}") for n in range(20)], view("/20"))
    await send(bounded, website, {"type": "event", "event_name": "buy", "event_data": {"c": 4, "b": 5}})
    rows = await top(bounded, website, key)
    assert rows == {f"/{n}": 2 for n in range(20)} | {"/20": 1}
    assert await folded(bounded, website, key) == []


async def test_a_rolled_back_value_is_not_known(bounded: App) -> None:
    """A rollback in the database also resets the values known in memory."""
    website, key = await bounded.website(), await bounded.key()
    ingest = bounded.running.event_writer
    take, failures = ingest.take_id, [True]

    def fail_once(connection: sqlite3.Connection) -> int:
        if failures:
            failures.pop()
            raise sqlite3.OperationalError("disk I/O error")
        return int(take(connection))

    ingest.take_id = fail_once
    assert (await bounded.collect(view("/a") | {"website_id": website})).status == 503
    await send(bounded, website, *[view(path) for path in ("/a", "/b", "/c", "/d")])
    assert await top(bounded, website, key) == {"/a": 1, "/b": 1, "/c": 1, OTHER: 1}
    assert bounded.sql("select count(*) from field_value where field = 0") == [(3,)]


async def test_folded_values_are_reported(bounded: App) -> None:
    """In the response of /rejected, by key and by session, with a new ETag; and in a metric."""
    website, key = await bounded.website(), await bounded.key()
    path = f"/api/v1/websites/{website}/rejected"
    before = (await bounded.get(path, key)).headers["ETag"]
    await send(bounded, website, *[view(f"/{n}") for n in range(5)])
    answer = await bounded.get(path, key, headers={"If-None-Match": before})
    assert answer.status == 200
    row = {"day": "2026-11-18", "field": "pathname", "new_values": 3, "events": 2}
    assert answer.json["data"]["folded"] == [row]
    browser = await logged_in(bounded)
    assert (await browser("GET", f"/api/account/websites/{website}/rejected")).json["data"]["folded"] == [row]
    earlier = {"from": "2026-11-10", "to": "2026-11-16"}
    assert (await bounded.get(path, key, earlier)).json["data"]["folded"] == []
    metrics = text_string_to_metric_families((await bounded.get("/metrics")).text)
    samples = {s.labels["field"]: s.value for f in metrics if f.name == "tally_events_folded" for s in f.samples}
    assert samples.pop("pathname") == 2
    assert set(samples) == set(BOUNDED.values()) - {"pathname"}
    assert set(samples.values()) == {0}


async def test_memory_is_bounded(bounded: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a bound the values in memory are cleared; those in the database stay known."""
    website, key = await bounded.website(), await bounded.key()
    monkeypatch.setattr(value_limits, "CACHE_SIZE", 5)
    for _ in range(2):
        await send(bounded, website, *[view(f"/{n}") for n in range(3)])
        assert bounded.running.event_writer.decider.value_limits._cached == 0
    assert await top(bounded, website, key) == {"/0": 2, "/1": 2, "/2": 2}


def test_default_limits() -> None:
    """10,000 values per field, 1,000 names."""
    ingest = EventWriter(Sessions(1), lambda plan: None, ManualClock())
    assert ingest.decider.value_limits._limits == Limits(10_000, 1_000, 200_000_000) == Limits()


def test_experiment_reports_take_linear_steps(tmp_path: Path) -> None:
    """A join took 23 seconds for 9,000 experiments of one day; the number of steps must be linear."""

    def steps(many: int) -> int:
        with closing(open_database(tmp_path / f"{many}.db", create=True)) as connection:
            rows = [(1, 1_000 + n, n, 6 + n % 2, n, *[0] * len(FIELDS), n // 2, n, n, None) for n in range(2, many)]
            connection.executemany(f"insert into experiment_event values {marks(len(rows[0]), 1)}", rows)
            assigned = [(n // 2, n, n) for n in range(many)]
            connection.executemany("insert into experiment_assignment values (1, 0, ?, ?, ?, 0, 0)", assigned)
            counted = [0]
            connection.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1), 100)
            connection.execute(*measurements_statements.trials_of(Scope(1, 0, 50_000, ()))).fetchall()
            return counted[0]

    assert steps(2_000) < 3 * steps(1_000)


# ---------------------------------------------------------------- events that are not stored


def written(app: App) -> tuple[list[tuple[Any, ...]], ...]:
    """Return all rows that events with new values write."""
    tables = ("label", "field_value", "new_value", "account_usage", "event_id", "experiment_event")
    return tuple(app.sql(f"select * from {table} order by 1, 2") for table in tables)


def convert(n: int, **more: Any) -> dict[str, Any]:
    """A conversion without a variant, with a new value in every place."""
    own = {"experiment": f"x{n}", "goal": f"g{n}", "url": f"https://h{n}.example.com/{n}?utm_source=s{n}"}
    return {"type": "ab_convert", "platform": f"p{n}", "app_version": f"v{n}"} | own | more


async def test_rejected_events_write_nothing(bounded: App) -> None:
    """Conversions without an assignment write nothing and do not count towards limits."""
    website, key = await bounded.website(), await bounded.key()
    await send(bounded, website, view("/a"))
    before = written(bounded)
    ingest, changes = bounded.running.event_writer, list[int]()
    write = ingest.write

    def counted(connection: sqlite3.Connection, jobs: Sequence[WriteRequest]) -> WriteResult:
        begin, result = connection.total_changes, write(connection, jobs)
        changes.append(connection.total_changes - begin)
        return result

    ingest.write = counted
    answer = await bounded.collect({"website_id": website, "events": [convert(n) for n in range(50)]})
    assert (answer.status, {fault["code"] for fault in answer.json["errors"]}) == (400, {"no_assignment"})
    assert written(bounded) == before
    # A group commit without stored events writes nothing.
    assert changes == [0]
    mixed = [
        convert(1),
        view("/b"),
        convert(2, session_id="visitor1"),
        assign("y", session_id="visitor1"),
        convert(2),
    ]
    answer = await bounded.collect({"website_id": website, "events": mixed})
    assert [fault["index"] for fault in answer.json["errors"]] == [0, 2, 4]
    labels = {text for (text,) in bounded.sql("select text from label")}
    assert {"/b", "y"} <= labels
    assert labels.isdisjoint({"x1", "g1", "p1", "v1", "s1", "x2", "g2", "p2"})
    assert await folded(bounded, website, key) == []


async def test_conversions_without_an_assignment_are_rate_limited(make_app: MakeApp) -> None:
    """The writer has to look up the assignment, so rate limits apply to such requests."""
    app = await make_app(website_per_minute=5)
    website = await app.website()
    answers = [(await app.collect(convert(n) | {"website_id": website})).status for n in range(8)]
    assert answers == [400] * 5 + [429] * 3


async def test_events_over_the_monthly_limit_write_nothing(make_app: MakeApp) -> None:
    app = await make_app(free_events=2)
    website = await app.website(plan="free")
    answer = await app.collect({"website_id": website, "events": [view(f"/{n}") for n in range(5)]})
    assert (answer.json["accepted"], answer.json["rejected"]) == (2, 3)
    assert app.sql("select text from label where text like '/_' order by text") == [("/0",), ("/1",)]


async def test_duplicates_count_once(bounded: App) -> None:
    """A duplicate does not count towards limits or `folded`."""
    website, key = await bounded.website(), await bounded.key()
    await send(bounded, website, *[view(f"/{n}") for n in range(3)])
    event = view("/more", event_id="one")
    await send(bounded, website, event, event)
    for _ in range(3):
        await send(bounded, website, event)
    assert await top(bounded, website, key) == {"/0": 1, "/1": 1, "/2": 1, OTHER: 1}
    assert await folded(bounded, website, key) == [("pathname", 3, 1)]


def assign(experiment: str, variant: str = "y", **more: Any) -> dict[str, Any]:
    return {"type": "ab_assign", "experiment": experiment, "variant": variant} | more


async def test_conversions_find_folded_assignments(bounded: App) -> None:
    """A conversion of a folded experiment counts for `(other)`; one of a known experiment needs its own assignment."""
    website, key = await bounded.website(), await bounded.key()
    visitor = {"session_id": "a visitor's"}
    await send(bounded, website, assign("a", **visitor), assign("b"))
    together = [assign("c", **visitor), {"type": "ab_convert", "experiment": "c"} | visitor]
    await send(bounded, website, *together)
    await send(bounded, website, {"type": "ab_convert", "experiment": "d"} | visitor)
    answer = await bounded.collect({"website_id": website, "type": "ab_convert", "experiment": "b"} | visitor)
    assert answer.status == 400
    stored = (
        "select type, e.text, v.text from experiment_event join label e on e.id = experiment join label v"
        " on v.id = variant"
    )
    kinds = bounded.sql(f"{stored} order by experiment_event.id")
    assert [row[1:] for row in kinds] == [("a", "y"), ("b", "y"), *[(OTHER, "y")] * 3]
    assert await folded(bounded, website, key) == [("experiment", 2, 3)]


# ---------------------------------------------------------------- share of one client


async def test_one_client_can_use_half_of_a_limit(app: App) -> None:
    """One client gets at most half of each limit: 500 names and 5,000 values."""
    website, key = await app.website(), await app.key()
    flood = [assign(f"x{n}", f"y{n}", url=f"https://example.com/{n}") for n in range(1_010)]
    await send(app, website, *flood)
    await send(app, website, assign("late"))
    await send(app, website, assign("mine", "mine", url="https://example.com/mine"), ip="198.51.100.55")
    fields = {row[0]: row[1:] for row in await folded(app, website, key)}
    assert fields == {"experiment": (501, 511), "variant": (501, 511)}
    assert app.sql("select count(*) from label where text = 'mine'") == [(1,)]
    # A value that another client made known is available to all.
    await send(app, website, assign("mine", "mine"))
    await app.restart()
    await send(app, website, assign("mine", "mine"))
    assert app.sql("select count(*) from experiment_event join label on label.id = experiment where text = 'mine'") == [
        (3,)
    ]


async def test_a_clients_share_resets_daily(app: App, clock: ManualClock) -> None:
    website, key = await app.website(), await app.key()
    await send(app, website, *[assign(f"x{n}") for n in range(510)])
    clock.advance(DAY_S)
    await send(app, website, *[assign(f"z{n}") for n in range(90)])
    assert [row for row in await folded(app, website, key) if row[0] == "experiment"] == [("experiment", 500, 10)]


async def test_memory_for_clients_shares_is_bounded(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tally.storage.value_limits.MAX_SHARES", 7)
    website = await app.website()
    for n in range(20):
        await send(app, website, view(f"/{n}"), ip=f"198.51.100.{n}")
    used = app.running.event_writer.decider.value_limits._shares._used
    assert len(used) == 7
    assert not any(b"\xc6\x33\x64" in client for client, *_ in used)


# ---------------------------------------------------------------- event_data


def large(n: int, **more: Any) -> dict[str, Any]:
    """Return an event with 3,998 bytes of event_data: 125 of them are nearly half a megabyte."""
    return {"type": "event", "event_name": "order", "event_id": f"e{n}", "event_data": {"t": f"{n:0>3990}"}} | more


def small(n: int) -> dict[str, Any]:
    return large(n, event_data={"t": "x"})


async def warned(app: App, website: str, events: Sequence[dict[str, Any]], ip: str = "203.0.113.7") -> list[int]:
    """Send events in batches of 15, all of which are accepted; return the places of those stored without event_data."""
    found = []
    for start in range(0, len(events), 15):
        answer = await app.collect({"website_id": website, "events": events[start : start + 15]}, ip=ip)
        assert (answer.status, answer.json["rejected"]) == (202, 0), answer.text
        for warning in answer.json.get("warnings", ()):
            assert (warning["code"], warning["field"]) == ("without_event_data", "event_data")
            found.append(start + warning["index"])
    return found


async def test_events_beyond_the_limit_are_stored_without_event_data(make_app: MakeApp, clock: ManualClock) -> None:
    """One client gets half, the website the whole of a day; what is full stays full, also for short ones."""
    app = await make_app(max_event_data=1)
    website, key = await app.website(), await app.key()
    assert await warned(app, website, [large(n) for n in range(130)]) == [125, 126, 127, 128, 129]
    assert await warned(app, website, [small(200), view("/")]) == [0]
    # Others have the rest of the day, and other websites theirs.
    assert await warned(app, website, [large(n) for n in range(300, 425)], ip="198.51.100.1") == []
    assert await warned(app, website, [large(500), small(501)], ip="198.51.100.2") == [0, 1]
    assert await warned(app, await app.website("other.example"), [large(n) for n in range(3)]) == []
    stored = app.sql("select count(*), count(event_data) from event where website = 1")
    assert stored == [(130 + 2 + 125 + 2, 250)]
    await app.node.tick()
    rejected = (await app.get(f"/api/v1/websites/{website}/rejected", key)).json["data"]
    assert rejected["warnings"] == [{"code": "without_event_data", "events": 8}]
    assert (rejected["events"], rejected["folded"]) == (0, [])
    await app.restart()
    assert await warned(app, website, [small(600)], ip="198.51.100.3") == [0], "the count of the day is in the file"
    clock.advance(DAY_S)
    assert await warned(app, website, [large(700)]) == []


async def test_copies_and_lost_event_data_use_nothing(make_app: MakeApp) -> None:
    app = await make_app(max_event_data=1)
    website = await app.website()
    for _ in range(3):
        assert await warned(app, website, [large(n) for n in range(100)]) == []
    assert app.sql("select used, events from new_value where field = ?", EVENT_DATA) == [(100 * 3_998, 0)]
    await warned(app, website, [large(n) for n in range(100, 126)])
    # A name that is not stored is no new name.
    assert await warned(app, website, [large(900, event_data={"another": 1})]) == [0]
    assert app.sql("select count(*) from label where text = 'another'") == [(0,)]
    # A copy of an event that lost its event_data is a copy: content is what was sent.
    before = app.sql("select count(*) from event")
    assert await warned(app, website, [large(900, event_data={"another": 1})]) == []
    assert app.sql("select count(*) from event") == before


async def test_event_data_may_be_unlimited(make_app: MakeApp) -> None:
    app = await make_app(max_event_data=0)
    assert await warned(app, await app.website(), [large(n) for n in range(300)]) == []
    assert app.sql("select count(*) from new_value where field = ?", EVENT_DATA) == [(0,)]


async def test_a_failed_commit_uses_nothing_of_the_limit(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = await make_app(max_event_data=1)
    website = await app.website()
    monkeypatch.setattr("tally.sqlite.rows.Rows.store", lambda self: 1 / 0)
    answer = await app.collect({"website_id": website, "events": [large(0)]})
    assert answer.status == 500
    monkeypatch.undo()
    assert app.running.event_writer.decider.value_limits._data_shares._used == {}
    assert await warned(app, website, [large(n) for n in range(1, 126)]) == []
