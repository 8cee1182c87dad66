"""Rejected events are counted exactly by website, quarter of an hour and reason, with samples without personal data.

See tally/ingest/rejected_events.py: an event is counted each time it is sent, if its website is known. A server that is
killed loses the counts of about the last second, one that is stopped loses none. Unknown website ids are not stored.
"""

import asyncio
import itertools
import random
import re
import uuid
from collections import Counter
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.events.client import PageOrigin
from tally.events.sender import Client, Sender
from tally.events.validation import RULES, TYPES
from tally.ingest import rejected_events
from tally.ingest.rejected_events import (
    KEPT_DAYS,
    MAX_CANDIDATES,
    MAX_PENDING,
    MAX_STEP_SAMPLES,
    QUARTER_MS,
    REASONS,
    SAMPLES_KEPT,
    SAMPLES_KEPT_DAYS,
)
from tally.maintenance import deletion
from tally.storage.database import connect_writer, open_database
from tests.support.app import GOOGLEBOT, NOON_MS, ROOT, App, MakeApp, ManualClock
from tests.support.cases import cases
from tests.support.page_client import LINK, logged_in
from tests.support.process import Serve, Server, until
from tests.support.read_api import DAY_MS, HOUR_MS, MINUTE_MS, Site, SyncApp

SAME, FOREIGN = {"Origin": "https://example.com"}, {"Origin": "https://other.example:8443"}
VIEW: dict[str, Any] = {"type": "pageview", "url": "https://example.com/a"}


def bad(**more: Any) -> dict[str, Any]:
    return VIEW | more


async def counted(app: App, website: str) -> dict[str, int]:
    """Write pending counts and return the stored counts of a website by code."""
    await app.node.tick()
    rows = app.sql(
        "select reason, sum(events) from rejected_event join website on website.number = rejected_event.website"
        " where website.id = ? group by reason",
        website,
    )
    return {REASONS[reason][0]: events for reason, events in rows}


async def sampled(app: App, website: str) -> list[tuple[Any, ...]]:
    """Return a website's stored samples, oldest first: code, type, field, detail."""
    await app.node.tick()
    rows = app.sql(
        "select reason, type, field, detail from rejected_sample join website on website.number = website"
        " where website.id = ? order by reason, rejected_sample.id",
        website,
    )
    return [(REASONS[reason][0], None if type_ is None else TYPES[type_], *rest) for reason, type_, *rest in rows]


def pending(app: App) -> int:
    """Return the number of events that are counted but not yet written."""
    return sum(app.node.rejected_events._counts.values())


# --- which events are counted


OLD = NOON_MS - 72 * HOUR_MS - 1
AHEAD = NOON_MS + 5 * MINUTE_MS + 1
BATCH = {"events": [VIEW, bad(url=None), VIEW, bad(type="x"), bad(url="/a"), bad(url="/b")]}
CASES = (
    ("a crawler", VIEW, SAME, GOOGLEBOT, 202, {"crawler": 1}, ("crawler", "pageview", "", "Googlebot")),
    ("an unknown crawler", VIEW, SAME, "my-own-bot/1.0", 202, {"crawler": 1}, ("crawler", "pageview", "", "")),
    ("an origin", VIEW, FOREIGN, "", 403, {"origin_not_allowed": 1},
     ("origin_not_allowed", "pageview", "", "other.example")),
    ("an origin without a host", VIEW, {"Origin": "null"}, "", 403, {"origin_not_allowed": 1},
     ("origin_not_allowed", "pageview", "", "")),
    ("an origin that is an address", VIEW, {"Origin": "http://192.0.2.7:3000"}, "", 403, {"origin_not_allowed": 1},
     ("origin_not_allowed", "pageview", "", "ip-address")),
    ("an origin that is a long address", VIEW, {"Referer": "http://[2001:db8::7]/a?b"}, "", 403,
     {"origin_not_allowed": 1}, ("origin_not_allowed", "pageview", "", "ip-address")),
    ("an origin, and other errors", {"events": [5, bad(url=None), VIEW]}, FOREIGN, "", 403,
     {"origin_not_allowed": 3}, ("origin_not_allowed", None, "", "other.example")),
    ("no type", {"url": "https://example.com/"}, {}, "", 400, {"invalid_type": 1}, ("invalid_type", None, "type", "")),
    ("no object", {"events": [5]}, {}, "", 400, {"invalid_type": 1}, ("invalid_type", None, "type", "")),
    ("no url", bad(url=""), {}, "", 400, {"missing_field": 1}, ("missing_field", "pageview", "url", "")),
    ("a bad url", bad(url="/a"), {}, "", 400, {"invalid_url": 1}, ("invalid_url", "pageview", "url", "")),
    ("a bad field", bad(session_id="short"), {}, "", 400, {"invalid_field": 1},
     ("invalid_field", "pageview", "session_id", "")),
    ("a bad descriptive field", bad(device="toaster"), {}, "", 202, {"without_device": 1},
     ("without_device", "pageview", "device", "")),
    ("a long campaign", bad(url="https://example.com/?utm_source=" + "x" * 101), {}, "", 202, {"value_cut": 1},
     ("value_cut", "pageview", "utm_source", "")),
    ("a rejected event with a bad descriptive field", bad(url=None, device="toaster"), {}, "", 400,
     {"missing_field": 1}, ("missing_field", "pageview", "url", "")),
    ("data that is not flat", {"type": "event", "event_name": "a", "event_data": {"a": []}}, {}, "", 400,
     {"invalid_event_data": 1}, ("invalid_event_data", "event", "event_data", "")),
    ("too much data", {"type": "event", "event_name": "a", "event_data": {"a": "x" * 4096}}, {}, "", 400,
     {"event_data_too_large": 1}, ("event_data_too_large", "event", "event_data", "")),
    ("too late", bad(timestamp=OLD), {}, "", 400, {"timestamp_too_old": 1},
     ("timestamp_too_old", "pageview", "timestamp", "")),
    ("ahead", bad(timestamp=AHEAD), {}, "", 400, {"timestamp_in_future": 1},
     ("timestamp_in_future", "pageview", "timestamp", "")),
    ("no assignment", {"type": "ab_convert", "experiment": "e"}, {}, "", 400, {"no_assignment": 1},
     ("no_assignment", "ab_convert", "variant", "")),
    ("some of a batch", BATCH, {}, "", 202, {"missing_field": 1, "invalid_type": 1, "invalid_url": 2},
     ("invalid_type", None, "type", "")),
)  # fmt: skip


@pytest.mark.parametrize(
    ("body", "headers", "ua", "status", "counts", "sample"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
async def test_reasons(
    app: App, body: Any, headers: dict[str, str], ua: str, status: int, counts: dict[str, int], sample: Any
) -> None:
    website, other = await app.website(), await app.website("other.example")
    options = {"ua": ua} if ua else {}
    answer = await app.collect({"website_id": website} | body, headers=headers, **options)
    assert answer.status == status, answer.text
    assert await counted(app, website) == counts
    assert sample in await sampled(app, website)
    assert await counted(app, other) == {}
    assert app.node.rejected_events.events == Counter(counts)


# In the order of their numbers, which are stored in databases: append new ones.
CODES = (
    *("crawler", "origin_not_allowed", "rate_limited", "monthly_limit_reached", "timestamp_too_old"),
    *("timestamp_in_future", "invalid_type", "missing_field", "invalid_field", "invalid_url", "invalid_event_data"),
    *("event_data_too_large", "no_assignment", "overloaded", "storage_unavailable"),
    *("excluded_address", "excluded_country", "excluded_page", "excluded_hostname"),
    *("without_referrer", "without_query", "without_language", "without_device", "without_browser", "without_os"),
    *("without_os_version", "without_platform", "without_app_version", "value_cut", "without_event_data"),
    *("without_title", "referrer_spam", "datacenter"),
)


def test_reasons_equal_the_codes_of_collect() -> None:
    """All codes of rejected events, and of refused requests whose website is known."""
    assert [code for code, _ in REASONS] == [*CODES]
    reasons = {"crawler", "excluded", "origin", "rate", "quota", "too_late", "invalid", "unavailable", "incomplete"}
    assert {reason for _, reason in REASONS} == reasons


def test_every_code_of_an_event_has_a_reason() -> None:
    """A code without a row in REASONS is counted nowhere. Two codes have no website to be counted for."""
    sources = [*(ROOT / "tally/ingest").glob("*.py"), ROOT / "tally/events/validation.py"]
    raised = {
        code for path in sources for code in re.findall(r'\b(?:Fault|Rejection)\(\s*"(\w+)"', path.read_text("utf-8"))
    }
    assert len(raised) > 10
    assert raised - {"invalid_website_id", "unknown_website"} <= set(CODES)


async def test_accepted_events_are_not_counted(app: App) -> None:
    """Duplicates are accepted too, so they are not counted."""
    website = await app.website()
    for _ in range(3):
        answer = await app.collect({"website_id": website, "events": [VIEW, bad(event_id="1")]}, headers=SAME)
        assert answer.json["accepted"] == 2
    assert (await counted(app, website), pending(app), app.node.rejected_events.events) == ({}, 0, {})


async def test_rates(make_app: MakeApp) -> None:
    """Each event of a rate-limited request is counted for its website, and again when the request is repeated."""
    app = await make_app(website_per_minute=1)
    website, other = await app.website(), await app.website("other.example")
    events = [bad(website_id=website)] * 2 + [bad(website_id=other), bad(website_id=f"{uuid.uuid4()}"), 5]
    assert (await app.collect(bad(website_id=website))).status == 202
    for _ in range(2):
        assert (await app.collect({"events": events})).status == 429
    assert await counted(app, website) == {"rate_limited": 4}
    assert await counted(app, other) == {"rate_limited": 2}


async def test_quotas(make_app: MakeApp) -> None:
    """Events over the monthly limit are counted, also when concurrent requests reach it."""
    app = await make_app(free_events=3)
    website = await app.website(plan="free")
    both = {"website_id": website, "events": [VIEW, VIEW]}
    answers = await asyncio.gather(*(app.collect(both, ip=f"203.0.113.{n}") for n in range(5)))
    taken = sum(answer.json.get("accepted", 0) for answer in answers)
    assert taken == 3
    assert await counted(app, website) == {"monthly_limit_reached": 7}
    assert {row[:2] for row in await sampled(app, website)} == {("monthly_limit_reached", "pageview")}


async def test_storage_failures(app: App) -> None:
    """Events answered with 503 are counted, and the counts are written once the disk accepts writes again."""
    website = await app.website()
    pages = app.sql("pragma page_count")[0][0]
    await app.database.writer.run(lambda run: run.execute(f"pragma max_page_count = {pages}").fetchall())
    big = {"website_id": website, "events": [bad(url=f"https://example.com/{n}/{'x' * 800}") for n in range(50)]}
    assert (await app.collect(big)).status == 503
    assert pending(app) == 50
    # A tick during which nothing can be written.
    await app.database.recovery.heal()
    await app.node.tick()
    await app.collect(bad(website_id=website, url="/a"))
    assert pending(app) == 51
    await app.database.writer.run(lambda run: run.execute("pragma max_page_count = 1073741823").fetchall())
    await app.database.recovery.heal()
    assert await counted(app, website) == {"storage_unavailable": 50, "invalid_url": 1}
    assert pending(app) == 0


async def test_a_failure_to_write_counts(app: App) -> None:
    """/healthz reports it, no count is lost and none is written twice."""
    website = await app.website()
    await app.node.tick()
    pages = app.sql("pragma page_count")[0][0]
    await app.database.writer.run(lambda run: run.execute(f"pragma max_page_count = {pages}").fetchall())
    # Rows of many quarters of an hour, more than fit into the database.
    for minutes in range(0, 15 * 1_500, 15):
        app.node.rejected_events.note(
            (app.registry.website(website), 0), "invalid_url", "url", sender(), NOON_MS + minutes * MINUTE_MS
        )
    with pytest.raises(Exception, match="storage_unavailable"):
        await app.node.tick()
    assert (await app.get("/healthz")).status == 503
    assert pending(app) + sum((await stored(app)).values()) == 1_500
    await app.database.writer.run(lambda run: run.execute("pragma max_page_count = 1073741823").fetchall())
    await app.database.recovery.heal()
    assert await counted(app, website) == {"invalid_url": 1_500}
    assert (await app.get("/healthz")).status == 200


async def stored(app: App) -> dict[int, int]:
    return dict(app.sql("select reason, sum(events) from rejected_event group by reason"))


def sender() -> Any:
    """Return any sender."""
    return Sender(Client(ip_address("203.0.113.7"), b"", "", None), None, "", "")


async def test_requests_without_a_website(make_app: MakeApp) -> None:
    """They are counted by code for the whole server, in no website's rows."""
    app = await make_app(client_per_minute=8)
    website, unknown = await app.website(), f"{uuid.uuid4()}"
    assert (await app.collect(b"{")).status == 400
    assert (await app.collect({"events": []})).status == 400
    assert (await app.collect({"events": [VIEW] * 51, "website_id": website})).status == 400
    assert (await app.collect(b" " * 65_537)).status == 413
    assert (await app.collect(VIEW, headers={"Content-Encoding": "br"})).status == 415
    assert (await app.collect(bad(website_id=unknown))).status == 404
    assert (await app.collect(VIEW)).status == 400
    assert (await app.collect(bad(website_id="x"))).status == 400
    for _ in range(8):
        assert (await app.collect(bad(website_id=website))).status == 202
    assert (await app.collect(bad(website_id=website))).status == 429
    assert await counted(app, website) == {}
    once = ("invalid_json", "invalid_body", "too_many_events", "body_too_large", "unsupported_encoding")
    expected = dict.fromkeys((*once, "unknown_website", "rate_limited"), 1) | {"no_valid_event": 2}
    assert app.node.rejected_events.requests == expected
    metrics = (await app.get("/metrics")).text
    assert 'tally_collect_refused_total{code="unknown_website"} 1.0' in metrics
    assert 'tally_collect_refused_total{code="no_valid_event"} 2.0' in metrics


async def test_rejected_pixel_requests(app: App) -> None:
    website = await app.website()
    for referer in ("https://other.example/a", "https://example.com/a"):
        answer = await app.get(f"/pixel.gif?website_id={website}", headers={"Referer": referer, "User-Agent": "a"})
        assert answer.status == 200
    assert await counted(app, website) == {"origin_not_allowed": 1}
    assert app.node.rejected_events.requests == {"origin_not_allowed": 1}


async def test_metrics(app: App) -> None:
    website = await app.website()
    await app.collect(bad(website_id=website, url="x"))
    metrics = (await app.get("/metrics")).text
    assert 'tally_website_events_rejected_total{code="invalid_url"} 1.0' in metrics
    assert "tally_website_events_uncounted_total 0.0" in metrics


# --- floods


async def test_unknown_ids_and_many_hosts(make_app: MakeApp) -> None:
    """Unknown website ids are not stored; of many hosts only a bounded number of samples is kept."""
    app = await make_app(client_per_minute=10**6, website_per_minute=10**6)
    website, other = await app.website(), await app.website("quiet.example")
    for _ in range(20):
        body = {"events": [bad(website_id=f"{uuid.uuid4()}") for _ in range(50)]}
        assert (await app.collect(body)).status == 404
    assert (pending(app), app.node.rejected_events._samples) == (0, {})
    for n in range(300):
        answer = await app.collect(bad(website_id=website), headers={"Origin": f"https://{n}.flood.example"})
        assert answer.status == 403
        if n == 150:
            await app.node.tick()
    # A flood does not evict samples of another reason or website.
    await app.collect(bad(website_id=website, url="x"))
    await app.collect(bad(website_id=other, url="x"))
    assert await counted(app, website) == {"origin_not_allowed": 300, "invalid_url": 1}
    kept = Counter(code for code, *_ in await sampled(app, website))
    assert kept == {"origin_not_allowed": SAMPLES_KEPT, "invalid_url": 1}
    assert await sampled(app, other) == [("invalid_url", "pageview", "url", "")]
    assert len(app.sql("select * from rejected_event")) == 3


async def test_pending_counts_are_bounded(app: App) -> None:
    """While nothing can be written, further rows are only counted in a total."""
    website = app.registry.website(await app.website())
    rejected = app.node.rejected_events
    for quarter in range(MAX_PENDING + 5):
        rejected.note((website, 0), "invalid_url", "url", sender(), NOON_MS + quarter * QUARTER_MS)
    rejected.note((website, 0), "invalid_url", "url", sender(), NOON_MS)
    assert (len(rejected._counts), rejected.uncounted, rejected._counts[1, NOON_MS // QUARTER_MS, 9]) == (
        MAX_PENDING,
        5,
        2,
    )
    assert rejected.events["invalid_url"] == MAX_PENDING + 6


async def test_samples_are_distinct(app: App, clock: ManualClock) -> None:
    """The ten newest distinct samples are kept; a repeated one gets its newest time and is evicted last."""
    website = await app.website()

    async def refuse(name: str) -> None:
        clock.advance(1.7)
        answer = await app.collect(bad(website_id=website), headers={"Origin": f"https://{name}.example"})
        assert answer.status == 403

    async def kept() -> list[str]:
        return [detail.removesuffix(".example") for *_, detail in await sampled(app, website)]

    for n in range(4):
        await refuse(f"{n}")
    await refuse("1")
    assert await kept() == ["0", "2", "3", "1"]
    await refuse("0")
    assert await kept() == ["2", "3", "1", "0"]
    for n in range(10, 10 + SAMPLES_KEPT - 2):
        await refuse(f"{n}")
        await app.node.tick()
    assert await kept() == ["1", "0", *(f"{n}" for n in range(10, 18))]
    [(newest,)] = app.sql("select max(arrived_ms) from rejected_sample")
    assert newest == clock.wall_ms() // 1000 * 1000
    # At most this many are considered per tick; the next tick starts over.
    for n in range(MAX_CANDIDATES + 5):
        app.node.rejected_events.note((app.registry.website(website), 0), "crawler", "", sender(), NOON_MS + n)
    assert app.node.rejected_events._looks.total() == MAX_CANDIDATES
    await app.node.tick()
    assert app.node.rejected_events._looks.total() == 0


async def test_samples_of_a_tick_are_bounded(app: App) -> None:
    """Over all websites; further events are only counted."""
    numbers = range(1, MAX_STEP_SAMPLES // SAMPLES_KEPT + 20)
    rejected = app.node.rejected_events
    one = app.registry.website(await app.website())
    for number, n in itertools.product(numbers, range(SAMPLES_KEPT + 1)):
        refused = sender()._replace(page=PageOrigin("", f"{n}.example"))
        rejected.note((one._replace(number=number), 0), "origin_not_allowed", "", refused, NOON_MS)
    assert sum(map(len, rejected._samples.values())) == MAX_STEP_SAMPLES
    assert pending(app) == len(numbers) * (SAMPLES_KEPT + 1)
    await app.node.tick()
    # Only one of these websites is registered.
    assert app.sql("select sum(events), count(*) from rejected_event") == [(SAMPLES_KEPT + 1, 1)]
    assert app.sql("select count(*) from rejected_sample") == [(SAMPLES_KEPT,)]


# --- written


async def test_a_shutdown_loses_nothing(app: App) -> None:
    website = await app.website()
    for n in range(7):
        await app.collect(bad(website_id=website, url="x"), ip=f"203.0.113.{n}")
    assert pending(app) == 7
    await app.close()
    assert app.sql("select sum(events) from rejected_event") == [(7,)]
    await app.open()
    await app.collect(bad(website_id=website, url="x"))
    assert await counted(app, website) == {"invalid_url": 8}
    assert len(await sampled(app, website)) == 1


async def test_a_cancelled_tick_counts_nothing_twice(app: App) -> None:
    """A shutdown during a write: the write completes and is not repeated."""
    website = await app.website()
    await app.node.tick()
    await app.collect(bad(website_id=website, url="x"))
    connection = connect_writer(app.db)
    connection.execute("begin immediate")
    ticking = asyncio.ensure_future(app.node.rejected_events.write(app.database.writer))
    while pending(app):
        await asyncio.sleep(0)
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    assert ticking.cancelled()
    connection.execute("rollback")
    connection.close()
    await app.close()
    assert app.sql("select sum(events) from rejected_event") == [(1,)]
    await app.open()


def test_a_running_server(serve: Serve, tmp_path: Path) -> None:
    """Counts are written within about a second, survive SIGKILL, and are complete after SIGTERM."""
    db = tmp_path / "analytics.db"
    connection = open_database(db, create=True)
    owner = create_account(connection, "owner@example.com", "business", None, 0)
    website = add_website(connection, owner, "example.com", "", (), 0)
    key = create_api_key(connection, owner, "", 0)
    connection.close()

    def rejected(server: Server) -> Any:
        bearer = {"Authorization": f"Bearer {key}"}
        return server.request("GET", f"/api/v1/websites/{website}/rejected", headers=bearer).json["data"]

    def send(server: Server, times: int) -> None:
        for n in range(times):
            body: Any = bad(website_id=website, url="x")
            headers = {"X-Forwarded-For": f"203.0.113.{n}", "Content-Type": "text/plain"}
            assert server.request("POST", "/api/collect", body, headers | (FOREIGN if n % 2 else {})).status in (
                400,
                403,
            )

    server = serve(db=db)
    send(server, 20)
    until(lambda: rejected(server)["events"] == 20)
    server.kill()
    server = serve(db=db)
    assert rejected(server)["events"] == 20
    send(server, 11)
    assert server.terminate() == 0
    server = serve(db=db)
    data = rejected(server)
    assert [(row["code"], row["events"]) for row in data["reasons"]] == [
        ("invalid_url", 16),
        ("origin_not_allowed", 15),
    ]
    assert {sample["host"] for sample in data["samples"]} == {None, "other.example"}


# --- read


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    return sync_app.site()


def reject(site: Site, *, at: int = NOON_MS, times: int = 1, code: str = "invalid_url") -> None:
    """Send events that are rejected at the time `at`, and write the counts."""
    body = {"website_id": site.id, "events": [bad(url="x", timestamp=at)] * times}
    headers = FOREIGN if code == "origin_not_allowed" else {}
    site.sync_app.clock.set_wall(at)
    answer = site.sync_app.run(site.sync_app.app.collect(body, headers=headers))
    assert answer.status in (400, 403)
    site.sync_app.run(site.sync_app.app.node.tick())


def test_a_response(site: Site) -> None:
    reject(site, at=NOON_MS - DAY_MS, times=3)
    reject(site, at=NOON_MS - 500, code="origin_not_allowed")
    reject(site, at=NOON_MS, times=2)
    assert site.json("rejected?from=2026-11-17&tz=Europe/Berlin") == {
        "data": {
            "events": 6,
            "reasons": [
                {"reason": "invalid", "code": "invalid_url", "events": 5},
                {"reason": "origin", "code": "origin_not_allowed", "events": 1},
            ],
            "days": [
                {"time": "2026-11-17T00:00:00.000+01:00", "events": 3, "codes": {"invalid_url": 3}},
                {
                    "time": "2026-11-18T00:00:00.000+01:00",
                    "events": 3,
                    "codes": {"origin_not_allowed": 1, "invalid_url": 2},
                },
            ],
            "samples": [
                sample("2026-11-18T13:00:00.000+01:00"),
                sample("2026-11-18T12:59:59.000+01:00", reason="origin", code="origin_not_allowed", field=None,
                       host="other.example"),
            ],
            "warnings": [],
            "folded": [],
        },
        "meta": {
            "website_id": site.id,
            "from": "2026-11-17T00:00:00.000+01:00",
            "to": "2026-11-19T00:00:00.000+01:00",
            "tz": "Europe/Berlin",
            "day_offset_minutes": 0,
        },
    }  # fmt: skip


def sample(time: str, **more: Any) -> dict[str, Any]:
    own = {"time": time, "reason": "invalid", "code": "invalid_url", "type": "pageview", "field": "url"}
    return own | {"host": None, "crawler": None} | more


def test_no_rejected_events(site: Site) -> None:
    answer = site.json("rejected")
    assert answer["data"]["events"] == 0
    assert (answer["data"]["reasons"], answer["data"]["samples"]) == ([], [])
    assert answer["meta"]["from"] == "2026-11-12T00:00:00.000+00:00"
    assert [day["events"] for day in answer["data"]["days"]] == [0] * 7


def test_csv(site: Site) -> None:
    reject(site, at=NOON_MS - DAY_MS, times=3)
    reject(site, at=NOON_MS, code="origin_not_allowed")
    for question, headers in (("rejected?format=csv", {}), ("rejected", {"Accept": "text/csv"})):
        answer = site.get(question, headers)
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert answer.text.split("\r\n") == [
            "time,reason,code,events",
            "2026-11-17T00:00:00.000+00:00,invalid,invalid_url,3",
            "2026-11-18T00:00:00.000+00:00,origin,origin_not_allowed,1",
            "",
        ]


ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia")


@pytest.mark.parametrize("zone", ZONES)
def test_days_are_exact_in_every_zone(site: Site, zone: str) -> None:
    """Compared with a plain count by local date, over changes of offset: October 2026 to April 2027."""
    sync_app, rng = site.sync_app, random.Random(zone)
    website = sync_app.app.registry.website(site.id)
    begin = 1_790_812_800_000  # 2026-10-01T00:00Z
    instants = [begin + rng.randrange(200 * DAY_MS) for _ in range(3_000)]
    instants += [begin + day * DAY_MS + edge for day in range(200) for edge in (0, -1, 899_999, 900_000)]
    expected: Counter[str] = Counter()
    for ms in instants:
        sync_app.app.node.rejected_events.note((website, 0), "invalid_url", "url", sender(), ms)
        expected[datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)).date().isoformat()] += 1
    sync_app.clock.set_wall(begin + 210 * DAY_MS)
    sync_app.run(sync_app.app.node.tick())
    days = site.data(f"rejected?from=2026-09-29&to=2027-04-25&tz={zone}")["days"]
    found = {day["time"][:10]: day["events"] for day in days if day["events"]}
    assert found == expected
    assert len(days) == 209
    # A shorter range returns the same days.
    part = site.data(f"rejected?from=2026-11-01&to=2026-11-30&tz={zone}")["days"]
    assert part == [day for day in days if day["time"].startswith("2026-11")]


@cases(
    ("question", "first", "last"),
    [
        ("", "2026-11-12", "2026-11-18"),
        ("?from=2026-11-18", "2026-11-18", "2026-11-18"),
        ("?to=2026-11-10", "2026-11-04", "2026-11-10"),
        ("?from=2026-11-01&to=2026-11-01", "2026-11-01", "2026-11-01"),
        ("?to=2026-11-20", "2026-11-14", "2026-11-20"),
        # There it is already the 19th.
        ("?tz=Pacific/Kiritimati", "2026-11-13", "2026-11-19"),
    ],
)
def test_which_days(site: Site, question: str, first: str, last: str) -> None:
    days = site.data(f"rejected{question}")["days"]
    assert (days[0]["time"][:10], days[-1]["time"][:10]) == (first, last)


@cases(
    ("question", "field"),
    [
        ("?from=2026-11-18T00:00:00Z", "from"),
        ("?to=2026-11-18T10:00", "to"),
        ("?from=2026-11-19", "from"),
        ("?from=2026-11-02&to=2026-11-01", "from"),
        ("?from=1970-01-01&to=2026-11-01", "from"),
        ("?from=yesterday", "from"),
        ("?tz=Berlin", "tz"),
        ("?limit=5", "limit"),
        ("?filter_os=Linux", "filter_os"),
        ("?interval=day", "interval"),
        ("?format=xml", "format"),
        ("?from=2026-11-01&from=2026-11-02", "from"),
    ],
)
def test_invalid_parameters(site: Site, question: str, field: str) -> None:
    assert site.invalid_field(f"rejected{question}") == field


def test_the_etag_changes_with_rejected_events(site: Site) -> None:
    tag = site.get("rejected").headers["ETag"]
    assert site.get("rejected", {"If-None-Match": tag}).status == 304
    site.send(VIEW)
    assert site.get("rejected", {"If-None-Match": tag}).status == 304
    reject(site)
    assert site.get("rejected", {"If-None-Match": tag}).status == 200


async def test_access(app: App) -> None:
    """The owner has access by key and by session; a share link has not."""
    browser, key = await logged_in(app), await app.key()
    website = await app.website()
    await app.collect(bad(website_id=website, url="x"))
    await app.node.tick()
    link = (await browser("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]["path"]
    by_key = await app.get(f"/api/v1/websites/{website}/rejected", key)
    by_login = await browser("GET", f"/api/account/websites/{website}/rejected")
    assert by_key.json == by_login.json
    assert by_key.json["data"]["events"] == 1
    by_link = await app.get(f"/api{link}/rejected")
    assert (by_link.status, by_link.json["error"]["code"]) == (404, "not_found")


# --- deletion


async def test_retention(app: App, clock: ManualClock) -> None:
    website = app.registry.website(await app.website())
    rejected = app.node.rejected_events
    days = (KEPT_DAYS + 1, KEPT_DAYS, KEPT_DAYS - 1, SAMPLES_KEPT_DAYS + 1, SAMPLES_KEPT_DAYS - 1, 0)
    for number, day in enumerate(days):
        rejected.note((website, 0), REASONS[number][0], "", sender(), NOON_MS - day * DAY_MS)
    await app.node.tick()
    kept = [(NOON_MS // QUARTER_MS) - day * 96 for day in days]
    assert app.sql("select quarter from rejected_event order by quarter") == [(quarter,) for quarter in kept[1:]]
    assert app.sql("select reason from rejected_sample order by reason") == [(4,), (5,)]
    # After a step that deleted nothing the next one is an hour later.
    await app.node.tick()
    await app.admin(lambda run: run.execute("insert into rejected_event values (1, 5, 0, 1)"))
    await app.node.tick()
    assert app.sql("select count(*) from rejected_event where quarter = 5") == [(1,)]
    clock.advance(3_600)
    await app.node.tick()
    assert app.sql("select count(*) from rejected_event where quarter = 5") == [(0,)]


async def test_a_clock_jump_deletes_nothing(app: App, clock: ManualClock) -> None:
    """Deletions accept a clock that jumped years ahead only after a while (tally/clock.py)."""
    website = app.registry.website(await app.website())
    app.node.rejected_events.note((website, 0), "crawler", "", sender(), NOON_MS)
    await app.node.tick()
    clock.set_wall(NOON_MS + (KEPT_DAYS + 9) * DAY_MS)
    for _ in range(3):
        clock.advance(3_600)
        await app.node.tick()
    assert app.sql("select sum(events) from rejected_event") == [(1,)]
    assert app.sql("select count(*) from rejected_sample") == [(1,)]


async def test_many_old_rows_are_deleted_in_steps(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    await app.website()
    many = "with recursive n (i) as (select 0 union all select i + 1 from n where i < 4999)"
    await app.admin(lambda run: run.execute(f"insert into rejected_event {many} select 1, i, 0, 1 from n"))
    steps: list[set[int]] = []
    whole = rejected_events.delete_expired
    monkeypatch.setattr(rejected_events, "delete_expired", lambda run, ms: steps.append(whole(run, ms)) or steps[-1])
    for seconds in range(1, 12):
        await app.node.tick()
        # One step per tick, so that other background work is not delayed.
        assert len(steps) == seconds
    assert app.sql("select count(*) from rejected_event") == [(0,)]
    assert steps == [{1}] * 10 + [set()]


async def test_a_deleted_website(app: App) -> None:
    """Its counts and samples are deleted with it, and later events are not counted."""
    browser = await logged_in(app)
    website, other = await app.website(), await app.website("example.org")
    for id_ in (website, other):
        await app.collect(bad(website_id=id_, url="x"))
    await app.node.tick()
    await app.collect(bad(website_id=website, url="x"))
    answer = await browser("DELETE", f"/api/account/websites/{website}", {"domain": "example.com"})
    assert answer.status == 202
    await app.node.tick()
    assert pending(app) == 0
    assert app.sql("select website, sum(events) from rejected_event group by website") == [(1, 1), (2, 1)]
    await app.background_work.deletion_worker.work()
    assert app.sql("select website, sum(events) from rejected_event group by website") == [(2, 1)]
    assert app.sql("select website, count(*) from rejected_sample group by website") == [(2, 1)]
    assert {"rejected_event", "rejected_sample"} <= {table for table, _ in deletion.TABLES}


def test_samples_store_only_known_field_names() -> None:
    """A field name from a request is stored only if it is in the tables of rules."""
    assert rejected_events._sample(0, "invalid_field", "canary", sender()).field == ""
    assert {field for rules in RULES.values() for field in rules} <= rejected_events._FIELDS
    assert all(field.replace("_", "").isalpha() and field.islower() for field in rejected_events._FIELDS)
