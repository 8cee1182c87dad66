"""Events of clients that send only the required fields are accepted, and so are common variants of the fields.

The fields of measurements are optional (docs/reference/collect-api.md, Event types). An event without those fields is
stored, shown in /events, and counts in no statistic.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tally.storage.database import open_database
from tally.timeranges import parse_range
from tally.timestamps import event_time_ms, read_iso
from tally.transfer.files import open_source
from tally.transfer.importer import import_events
from tests.support.app import NOON_MS, App, ManualClock
from tests.support.exports import export_events
from tests.unit.ingest.test_fast_path import Client, Connect, connect, post

__all__ = ["connect"]

# field, the types it applies to, an example.
ALL = ("pageview", "event", "screen_view", "app_event", "vitals", "heatmap", "ab_assign", "ab_convert")
SEED: tuple[tuple[str, tuple[str, ...], Any], ...] = (
    ("url", ("pageview", "event"), "https://www.example.com/pricing?utm_source=news"),
    ("name", ("screen_view",), "Home"),
    ("event_name", ("event",), "signup"),
    ("event_data", ("event",), {"plan": "pro", "seats": 3, "trial": True, "coupon": None}),
    ("platform", ALL, "ios"),
    ("app_version", ALL, "2.1.0"),
    ("os_version", ALL, "17.5"),
    ("session_id", ALL, "abcdefgh"),
    ("timestamp", ALL, NOON_MS - 1_000),
)
REQUIRED = {"pageview": ("url",), "screen_view": ("name",), "event": ("event_name",)}
DAY = "from=2026-11-18&to=2026-11-18"


def minimal(kind: str) -> dict[str, Any]:
    """Return an event with the required fields only."""
    return {"type": kind, **{field: value for field, _, value in SEED if field in REQUIRED.get(kind, ())}}


def complete(kind: str) -> dict[str, Any]:
    """Return an event with all fields of its type."""
    return {"type": kind, **{field: value for field, kinds, value in SEED if kind in kinds}}


async def events(app: App, website: str) -> list[Any]:
    """Return the rows of /events, oldest first."""
    answer = await app.get(f"/api/v1/websites/{website}/events?{DAY}", await app.key())
    assert answer.status == 200, answer.text
    return list(reversed(answer.json["data"]))


async def test_minimal_and_complete_events_are_accepted(app: App) -> None:
    """Each of the 8 types with the required and with all fields, as a single event and as a batch, is in /events."""
    website = await app.website()
    for make in (minimal, complete):
        for kind in ALL:
            for sent in ({**make(kind), "website_id": website}, {"website_id": website, "events": [make(kind)]}):
                answer = await app.collect(sent)
                assert (answer.status, answer.json) == (202, {"ok": True, "accepted": 1, "rejected": 0}), sent
    context = {"platform": "ios", "app_version": "2.1.0", "os_version": "17.5"}
    batch = {"website_id": website, "context": context, "events": [minimal(kind) for kind in ALL]}
    assert (await app.collect(batch)).json == {"ok": True, "accepted": 8, "rejected": 0}
    shown = [row["type"] for row in await events(app, website)]
    assert sorted(shown) == sorted(ALL * 5)


async def test_measurements_without_their_fields_count_in_no_statistic(app: App, clock: ManualClock) -> None:
    """They count neither at once nor after their days are folded; measurements with their fields count."""
    website, key = await app.website(), await app.key()
    sound = [
        {"type": "vitals", "vitals": {"lcp": 1_000}, "url": "https://example.com/"},
        {"type": "heatmap", "viewport_width": 1_200, "points": [{"x": 0.5, "y": 5, "kind": "click"}]},
        {"type": "ab_assign", "experiment": "e", "variant": "v"},
        {"type": "ab_convert", "experiment": "e"},
    ]
    partly = [
        *({"type": kind, "url": "https://example.com/"} for kind in ALL[4:]),
        {"type": "heatmap", "viewport_width": 1_200},
        {"type": "heatmap", "points": [{"x": 0.5, "y": 5, "kind": "click"}]},
        {"type": "ab_assign", "experiment": "e"},
        {"type": "ab_assign", "variant": "v"},
        {"type": "ab_convert", "variant": "v"},
        {"type": "ab_convert", "goal": "g", "value": 3},
    ]
    questions = [
        f"{path}{'&' if '?' in path else '?'}{DAY}"
        for path in (
            *("stats", "top/pathname", "vitals", "vitals?by=pathname", "vitals?by=device&metric=lcp"),
            *("experiments", "experiments?filter_pathname=/", "heatmap?pathname=", "heatmap-pages"),
        )
    ]

    async def figures() -> list[Any]:
        answers = [await app.get(f"/api/v1/websites/{website}/{question}", key) for question in questions]
        assert {answer.status for answer in answers} == {200}
        return [answer.json["data"] for answer in answers]

    assert (await app.collect({"website_id": website, "events": sound})).json["accepted"] == len(sound)
    before = await figures()
    assert (await app.collect({"website_id": website, "events": partly})).json["accepted"] == len(partly)
    assert await figures() == before
    assert len(await events(app, website)) == len(sound) - 1 + len(partly)
    clock.advance(12 * 86_400)
    await app.background_work.builder.work()
    assert await figures() == before


async def test_incomplete_measurements_are_exported_and_imported(app: App, tmp_path: Path) -> None:
    """An import takes every line of an export."""
    website, other = await app.website(), await app.website("other.example")
    partly = [minimal(kind) for kind in ALL[4:]] + [{"type": "ab_assign", "experiment": "e"}]
    assert (await app.collect({"website_id": website, "events": partly})).json["accepted"] == len(partly)
    connection = open_database(app.db, create=False)
    file = tmp_path / "events.ndjson"
    with file.open("xb") as out:
        assert export_events(connection, 1, out) == len(partly)
    assert '"visitor":"0"' not in file.read_text()
    with open_source(str(file)) as source:
        assert import_events(connection, 1, source, now_ms=NOON_MS).duplicates == len(partly)
    file.write_text(re.sub('"id":[0-9]+,', "", file.read_text()))
    with open_source(str(file)) as source:
        summary = import_events(connection, 2, source, now_ms=NOON_MS)
    connection.close()
    assert (summary.accepted, summary.bad) == (len(partly), 0)
    await app.registry.refresh()
    brought = [row | {"id": 0} for row in await events(app, other)]
    kinds = sorted(json.dumps(row, sort_keys=True) for row in brought)
    assert kinds == sorted(json.dumps(row | {"id": 0}, sort_keys=True) for row in await events(app, website))


async def test_a_conversion_that_names_an_experiment_needs_its_assignment(app: App) -> None:
    """`no_assignment` applies to these; an assignment without a variant does not count."""
    website = await app.website()
    named = {"type": "ab_convert", "experiment": "e", "website_id": website}
    assert (await app.collect(named)).json["error"]["code"] == "no_valid_event"
    assert (await app.collect({**named, "type": "ab_assign"})).status == 202
    answer = await app.collect(named)
    assert [fault["code"] for fault in answer.json["errors"]] == ["no_assignment"]


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ({"lcp": 1_200.5, "cls": 0.1, "inp": None}, {"lcp": 1_200.5, "cls": 0.1}),
        ({"name": "LCP", "value": 1_200.5, "rating": "good", "id": "v4"}, {"lcp": 1_200.5}),
        ({"vitals": {"name": "Inp", "value": 80, "delta": 80}}, {"inp": 80}),
        ({"vitals": {"lcp": 5}, "lcp": 6, "fcp": 7}, {"lcp": 5, "fcp": 7}),
        ({"name": "FID", "value": 3}, None),
        ({"name": "LCP"}, None),
    ],
    ids=str,
)
async def test_vitals_in_other_forms(app: App, sent: dict[str, Any], shown: Any) -> None:
    """Flat, as web-vitals reports a metric, and with `vitals`, which wins; `name` is a screen's unless a metric's."""
    website = await app.website()
    assert (await app.collect({"type": "vitals", "website_id": website, **sent})).status == 202
    (row,) = await events(app, website)
    assert row["vitals"] == shown
    assert row["pathname"] == ("/" + sent["name"] if shown is None else None)


async def test_a_single_point(app: App) -> None:
    """`x` and `y` beside the other fields; `kind` is click by default."""
    website, key = await app.website(), await app.key()
    one = {"type": "heatmap", "website_id": website, "url": "https://example.com/", "viewport_width": 1_200}
    for more in ({"x": 0.5, "y": 30}, {"x": 0.5, "y": 30, "kind": "click"}, {"x": 0, "y": 2_000, "kind": "scroll"}):
        assert (await app.collect(one | more)).status == 202
    answer = await app.get(f"/api/v1/websites/{website}/heatmap?pathname=/&{DAY}", key)
    assert (answer.json["data"]["grid"], answer.json["data"]["samples"]) == ([[25, 1, 2]], 1)


@pytest.mark.parametrize(
    ("sent", "code", "field"),
    [
        ({"type": "vitals", "lcp": -1}, "invalid_field", "lcp"),
        ({"type": "vitals", "cls": "0.1"}, "invalid_field", "cls"),
        ({"type": "vitals", "name": "LCP", "value": True}, "invalid_field", "value"),
        ({"type": "vitals", "vitals": {"name": "LCP"}}, "invalid_field", "vitals"),
        ({"type": "vitals", "vitals": {}}, "invalid_field", "vitals"),
        ({"type": "heatmap", "x": 0.5}, "missing_field", "y"),
        ({"type": "heatmap", "y": 5}, "missing_field", "x"),
        ({"type": "heatmap", "x": 2, "y": 5}, "invalid_field", "x"),
        ({"type": "heatmap", "x": 1, "y": "5"}, "invalid_field", "y"),
        ({"type": "heatmap", "x": 1, "y": 5, "kind": "move"}, "invalid_field", "kind"),
        ({"type": "heatmap", "points": []}, "invalid_field", "points"),
        ({"type": "ab_assign", "experiment": 5}, "invalid_field", "experiment"),
        ({"type": "ab_convert", "value": "5"}, "invalid_field", "value"),
        ({"type": "pageview", "url": "capacitor://localhost/"}, "invalid_url", "url"),
        ({"type": "pageview", "url": "ftp://example.com/"}, "invalid_url", "url"),
        ({"type": "pageview", "url": "   "}, "invalid_url", "url"),
    ],
    ids=str,
)
async def test_invalid_fields_are_rejected(app: App, sent: Any, code: str, field: str) -> None:
    answer = await app.collect({"website_id": await app.website(), **sent})
    assert [(fault["code"], fault["field"]) for fault in answer.json["errors"]] == [(code, field)]


async def test_lenient_parsing_on_both_paths(app: App, connect: Connect) -> None:
    """A byte-order mark, white space around `url`, or a context of a single event: both paths accept them alike."""
    website = await app.website()
    event = {"type": "pageview", "website_id": website, "url": " \n https://example.com/a b\t"}
    body = b"\xef\xbb\xbf" + json.dumps(event | {"context": {"platform": "tv"}}).encode()
    request = post("").replace(b"Content-Length: 2", b"Content-Length: %d" % len(body)).removesuffix(b'""') + body
    answers = []
    for more in (b"", b"Content-Encoding: identity\r\n"):
        client: Client = await connect()
        before = client.aiohttp_requests
        client.writer.write(request.replace(b"Host: localhost\r\n", b"Host: localhost\r\n" + more))
        answers.append(await client.answer())
        assert client.aiohttp_requests == before + bool(more)
    assert answers[0] == answers[1]
    assert answers[0][0] == "HTTP/1.1 202 Accepted"
    rows = await events(app, website)
    assert [(row["pathname"], row["platform"]) for row in rows] == [("/a%20b", "tv")] * 2
    assert (await app.collect(event | {"context": "tv"})).json["error"]["code"] == "invalid_body"


async def test_pages_of_a_web_view(app: App) -> None:
    """--allow-origin capacitor://localhost: only its own URLs are pages, and it is not a referrer."""
    website = await app.website(allow_origins=("capacitor://localhost", "ionic://app:8080"))
    headers = {"Origin": "capacitor://localhost"}
    event = {"type": "pageview", "website_id": website, "referrer": "capacitor://localhost/before"}
    for url in ("capacitor://localhost/page?utm_source=app#x", "Capacitor://LOCALHOST", "ionic://app:8080/i"):
        answer = await app.collect(event | {"url": url}, headers=headers)
        assert answer.status == 202, answer.text
    rows = await events(app, website)
    assert [(row["pathname"], row["hostname"], row["utm_source"], row["referrer"]) for row in rows] == [
        ("/page", "localhost", "app", None),
        ("/", "localhost", "app", None),
        ("/i", "app", "app", None),
    ]
    for url in (
        "capacitor://evil/",
        "capacitor://localhost:1/",
        "ionic://localhost/",
        "capacitor://u@localhost/",
        "x:",
    ):
        answer = await app.collect(event | {"url": url}, headers=headers)
        assert [fault["code"] for fault in answer.json["errors"]] == ["invalid_url"], url


DATES = ("2026-11-18", "20261118", "2026-W47-3", "2026W473", "2026-W47", "2026W47")
TIMES = ("10", "10:30", "1030", "10:30:15", "103015", "10:30:15.25", "103015,123456", "10:30:15.123456789")
OFFSETS = ("", "Z", "+01", "-0130", "+05:45", "+01:00:30", "-00:00:15.5")
FORMS = [*DATES, *(f"{day}{between}{time}{offset}" for day in DATES for between in "T " for time in TIMES
                   for offset in OFFSETS)]  # fmt: skip


def test_formats_of_times() -> None:
    """Times are read as by fromisoformat, in UTC without an offset; in `from` a space may stand for the plus sign."""
    accepted = 0
    for text in FORMS:
        try:
            expected = datetime.fromisoformat(text)
        except ValueError:
            continue
        accepted += 1
        moment = expected if expected.tzinfo else expected.replace(tzinfo=UTC)
        ms = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        assert event_time_ms(text) == ms, text
        spaced = text.replace("+", " ")
        assert read_iso(spaced, space_is_plus=True) == read_iso(text, space_is_plus=True), text
        span = parse_range(text, None, "Asia/Tokyo", NOON_MS + 9 * 86_400_000)
        local_ms = ms if expected.tzinfo else ms - 9 * 3_600_000
        assert 0 <= span.from_ms - local_ms <= 1, text
        assert (span.from_ms == local_ms) or moment.microsecond % 1_000 or len(text) > 26, text
    assert accepted > 500


@pytest.mark.parametrize("path", ["stats", "timeseries", "top/pathname", "events", "realtime", "vitals"])
async def test_cache_busters_are_ignored(app: App, path: str) -> None:
    """The query parameter `_` is ignored, with any value and repeated."""
    website, key = await app.website(), await app.key()
    plain = await app.get(f"/api/v1/websites/{website}/{path}", key)
    busted = await app.get(f"/api/v1/websites/{website}/{path}?_=1&_=2", key)
    assert busted.status == plain.status == 200
    assert busted.json == plain.json
    assert (await app.get("/api/v1/websites?_=1700000000000", key)).status == 200
