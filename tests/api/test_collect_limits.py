"""Limits of POST /api/collect: rate limits, the monthly limit, body sizes, and the client address.

The arithmetic of token buckets is in tests/unit/test_rate_limit.py. The rules are in docs/reference/collect-api.md.
"""

import asyncio
import gzip
import json
import logging
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from tally.events.urls import a_labels
from tally.ingest.collector import MAX_CONVERTED
from tests.support.app import CHROME, NOON_MS, Answer, App, MakeApp

UNKNOWN = "00000000-0000-4000-8000-000000000000"
URL = "https://example.com/"
DAY_S = 86_400
# The application's clock begins at 2026-11-18T12:00:00Z: so long to the first of December.
MONTH_LEFT_S = 12 * DAY_S + DAY_S // 2
SAME, FOREIGN = {"Origin": "https://example.com"}, {"Origin": "https://example.org"}


def view(website: str | None = None, **more: Any) -> dict[str, Any]:
    own = {} if website is None else {"website_id": website}
    return {"type": "pageview", "url": URL, **own, **more}


def views(website: str, count: int) -> dict[str, Any]:
    return {"website_id": website, "events": [view()] * count}


def code(answer: Answer) -> tuple[int, str]:
    """Return the status, and the error code unless it is a success."""
    return answer.status, "" if answer.status == 202 else answer.json["error"]["code"]


OK, LIMITED, MONTH = (202, ""), (429, "rate_limited"), (429, "monthly_limit_reached")


async def codes(app: App, count: int, body: Any, **request_options: Any) -> Counter[tuple[int, str]]:
    """Send a body several times at once and count the outcomes."""
    return Counter(
        code(answer) for answer in await asyncio.gather(*(app.collect(body, **request_options) for _ in range(count)))
    )


def used(app: App) -> dict[tuple[str, int], int]:
    """Return the usage by account and month."""
    return {
        (email, month): events
        for email, month, events in app.sql(
            "select email, month, events from account_usage join membership using (account)"
            " join person on number = person where role = 'owner' and events > 0"
        )
    }


# ---------------------------------------------------------------- buckets


async def test_120_per_minute_per_client_and_website(app: App) -> None:
    """120 requests per minute, address and website, refilled evenly; a request sent after Retry-After is accepted."""
    website, other = await app.website(), await app.website("example.org")
    assert await codes(app, 150, view(website)) == {OK: 120, LIMITED: 30}
    refused = await app.collect(view(website))
    assert refused.headers["Retry-After"] == "1"
    assert await codes(app, 1, view(other)) == {OK: 1}
    assert await codes(app, 1, view(website), ip="203.0.113.8") == {OK: 1}
    app.clock.advance(0.499)
    assert await codes(app, 5, view(website)) == {LIMITED: 5}
    app.clock.advance(0.001)
    assert await codes(app, 5, view(website)) == {OK: 1, LIMITED: 4}
    app.clock.advance(10)
    assert await codes(app, 30, view(website)) == {OK: 20, LIMITED: 10}
    app.clock.advance(3_600)
    assert await codes(app, 150, view(website)) == {OK: 120, LIMITED: 30}
    assert app.sql("select count(*) from event") == [(120 + 1 + 1 + 1 + 20 + 120,)]


async def test_600_per_minute_per_client(app: App) -> None:
    """600 requests per minute and address, over all websites."""
    websites = [await app.website(f"example{n}.com") for n in range(6)]
    for website in websites[:5]:
        assert await codes(app, 120, view(website)) == {OK: 120}
    # The 601st request is for a website with all its tokens.
    refused = await app.collect(view(websites[5]))
    assert (code(refused), refused.headers["Retry-After"]) == (LIMITED, "1")
    assert code(await app.collect(view(websites[5]), ip="203.0.113.8")) == OK
    app.clock.advance(0.1)
    assert await codes(app, 5, view(websites[5])) == {OK: 1, LIMITED: 4}
    app.clock.advance(1)
    assert await codes(app, 20, view(websites[5])) == {OK: 10, LIMITED: 10}


@pytest.mark.parametrize(("rate", "wait_s"), [(1, 60), (2, 30), (7, 9), (60, 1), (90, 1)])
@pytest.mark.parametrize("which", ["client_per_minute", "website_per_minute"])
async def test_retry_after(make_app: MakeApp, which: str, rate: int, wait_s: int) -> None:
    """Retry-After is in whole seconds, at least 1; a request sent after it passes the check that refused it."""
    app = await make_app(**{which: rate})
    website = await app.website()
    assert await codes(app, rate + 3, view(website)) == {OK: rate, LIMITED: 3}
    refused = await app.collect(view(website))
    assert refused.headers["Retry-After"] == str(wait_s)
    app.clock.advance(wait_s - 0.5 if wait_s > 1 else 0)
    again = await app.collect(view(website))
    assert (code(again), again.headers["Retry-After"]) == (LIMITED, "1")
    app.clock.advance(1)
    assert code(await app.collect(view(website))) == OK


async def test_a_request_takes_one_token(make_app: MakeApp) -> None:
    """A request takes one token, whatever its number of events, duplicates, and rejected or crawler events."""
    app = await make_app(website_per_minute=6)
    website = await app.website()
    bodies: list[tuple[Any, dict[str, Any]]] = [
        (views(website, 50), {}),
        ({"events": [view(website), view(website.upper()), 5, view("x")]}, {}),
        ({"website_id": website, "events": [view(event_id="a")] * 20}, {}),
        (view(website, event_id="a"), {}),
        (view(website), {"ua": "Googlebot/2.1 (+http://www.google.com/bot.html)", "headers": SAME}),
        (view(website), {"path": "/api/v1/collect"}),
    ]
    for body, request_options in bodies:
        assert code(await app.collect(body, **request_options)) == OK
    assert await codes(app, 3, view(website)) == {LIMITED: 3}


async def test_a_refused_request_takes_no_token(make_app: MakeApp) -> None:
    """A refused request takes no token of any bucket, whichever check refused it; neither does OPTIONS.

    An accepted request with a conversion without an assignment takes one: test_value_limits.py.
    """
    app = await make_app(client_per_minute=3, website_per_minute=3, free_events=1)
    website, full = await app.website(), await app.website(account="free@example.com", plan="free")
    assert code(await app.collect(view(full), ip="203.0.113.8")) == OK
    refused: list[tuple[Any, dict[str, Any], int]] = [
        (b" " * 65_537, {}, 413),
        (b"", {"headers": {"Content-Encoding": "br"}}, 415),
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (views(website, 51), {}, 400),
        (view(UNKNOWN), {}, 404),
        (view(website), {"headers": FOREIGN}, 403),
        (view(full), {}, 429),
        ({"website_id": website, "events": [5]}, {}, 400),
        (b"", {"method": "OPTIONS"}, 204),
        (b"", {"method": "PUT"}, 405),
    ]
    for _ in range(5):
        for body, request_options, status in refused:
            answer = await app.collect(body, **request_options)
            assert answer.status == status, answer.text
    assert await codes(app, 3, view(website)) == {OK: 3}
    assert await codes(app, 3, view(website)) == {LIMITED: 3}
    app.clock.advance(20)
    assert await codes(app, 2, view(website)) == {OK: 1, LIMITED: 1}


async def test_all_buckets_are_checked_first(make_app: MakeApp) -> None:
    """All buckets of the batch are checked before any token is taken."""
    app = await make_app(website_per_minute=3)
    one, two, three = [await app.website(f"example{n}.com") for n in range(3)]
    assert await codes(app, 3, view(one)) == {OK: 3}
    mixed = {"events": [view(two), view(three), view(one)]}
    for _ in range(10):
        answer = await app.collect(mixed)
        assert (code(answer), answer.headers["Retry-After"]) == (LIMITED, "20")
    assert app.sql("select count(*) from event") == [(3,)]
    # The other websites lost no token; a batch takes one of each.
    assert code(await app.collect({"events": [view(two), view(three), view(two)]})) == OK
    assert await codes(app, 4, view(two)) == {OK: 2, LIMITED: 2}
    assert await codes(app, 4, view(three)) == {OK: 2, LIMITED: 2}
    app.clock.advance(20)
    assert code(await app.collect(mixed)) == OK
    assert code(await app.collect(mixed)) == LIMITED


async def test_retry_after_of_several_buckets(make_app: MakeApp) -> None:
    """Retry-After is the longest wait of all websites of the batch."""
    app = await make_app(client_per_minute=60, website_per_minute=2)
    one, two = await app.website(), await app.website("example.org")
    assert await codes(app, 2, view(one)) == {OK: 2}
    app.clock.advance(15)
    assert await codes(app, 2, view(two)) == {OK: 2}
    mixed = {"events": [view(one), view(two)]}
    answer = await app.collect(mixed)
    assert (code(answer), answer.headers["Retry-After"]) == (LIMITED, "30")
    app.clock.advance(15)
    answer = await app.collect(mixed)
    assert (code(answer), answer.headers["Retry-After"]) == (LIMITED, "15")
    app.clock.advance(15)
    assert code(await app.collect(mixed)) == OK


async def test_the_system_clock_does_not_matter(make_app: MakeApp) -> None:
    """Changes of the system clock neither fill a bucket nor stop its refill."""
    app = await make_app(website_per_minute=2)
    website = await app.website()
    assert await codes(app, 3, view(website)) == {OK: 2, LIMITED: 1}
    for hours in (-1, 1, 24):
        app.clock.set_wall(NOON_MS + hours * 3_600_000)
        answer = await app.collect(view(website))
        assert (code(answer), answer.headers["Retry-After"]) == (LIMITED, "30")
    app.clock.set_wall(NOON_MS - 3_600_000)
    app.clock.advance(30)
    assert await codes(app, 2, view(website)) == {OK: 1, LIMITED: 1}


# ---------------------------------------------------------------- client addresses

# (id, two addresses, whether they are one client)
CLIENTS = [
    ("same-v4", "203.0.113.7", "203.0.113.7", True),
    ("other-v4", "203.0.113.7", "203.0.113.8", False),
    ("same-64", "2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", True),
    ("other-64", "2001:db8:1:2::1", "2001:db8:1:3::1", False),
    ("mapped-v4", "203.0.113.7", "::ffff:203.0.113.7", True),
    ("mapped-v4-hex", "::ffff:cb00:7107", "203.0.113.7", True),
    ("mapped-v4-other", "::ffff:203.0.113.7", "::ffff:203.0.113.8", False),
    ("port", "203.0.113.7:1234", "203.0.113.7:4321", True),
    ("forged-left", "198.51.100.1, 203.0.113.7", "198.51.100.2, 203.0.113.7", True),
    ("behind-a-trusted-one", "203.0.113.7, 127.0.0.2", "203.0.113.7", True),
    ("garbage-left", "nonsense, 203.0.113.7", "203.0.113.7", True),
]


async def test_clients(make_app: MakeApp) -> None:
    """A client is an IPv4 address or an IPv6 /64: the first untrusted address of X-Forwarded-For from the right.
    IPv4-mapped addresses are IPv4; User-Agents do not matter."""
    app = await make_app(website_per_minute=1)
    found = {}
    for name, one, other, _ in CLIENTS:
        website = await app.website()
        assert code(await app.collect(view(website), ip=one)) == OK
        found[name] = code(await app.collect(view(website), ip=other, ua=CHROME + name))
    assert found == {name: LIMITED if same else OK for name, _, _, same in CLIENTS}


async def test_a_forwarded_header_without_trusted_proxies(make_app: MakeApp) -> None:
    """X-Forwarded-For is used only if the peer is a trusted proxy; `none` trusts no proxy."""
    app = await make_app(trusted_proxy=("none",), website_per_minute=3)
    website, key = await app.website(), await app.key()
    for n in range(3):
        assert code(await app.collect(view(website), ip=f"203.0.113.{n}")) == OK
    assert code(await app.collect(view(website), ip="203.0.113.9")) == LIMITED
    stats = await app.get(f"/api/v1/websites/{website}/stats", key)
    assert stats.json["data"]["visitors"] == 1


async def test_trusted_proxies(make_app: MakeApp) -> None:
    """--trusted-proxy replaces the default, which is loopback."""
    app = await make_app(trusted_proxy=("127.0.0.0/8", "10.0.0.0/8"), website_per_minute=1)
    website = await app.website()
    assert code(await app.collect(view(website), ip="203.0.113.7, 10.1.2.3")) == OK
    assert code(await app.collect(view(website), ip="203.0.113.8, 10.1.2.3, 10.9.9.9")) == OK
    assert code(await app.collect(view(website), ip="203.0.113.7")) == LIMITED
    replaced = await make_app(trusted_proxy=("10.0.0.0/8",), website_per_minute=1, db=app.db.with_name("b.db"))
    website = await replaced.website()
    assert code(await replaced.collect(view(website), ip="203.0.113.7")) == OK
    assert code(await replaced.collect(view(website), ip="203.0.113.8")) == LIMITED


async def test_another_header(make_app: MakeApp) -> None:
    """A setting names another header, which replaces X-Forwarded-For."""
    app = await make_app(forwarded_header="X-Real-IP", website_per_minute=1)
    website = await app.website()
    for n in range(2):
        headers = {"X-Real-IP": f"198.51.100.{n}"}
        assert code(await app.collect(view(website), ip="203.0.113.7", headers=headers)) == OK
    headers = {"X-Real-IP": "198.51.100.1"}
    assert code(await app.collect(view(website), ip="203.0.113.8", headers=headers)) == LIMITED
    assert code(await app.collect(view(website), ip="203.0.113.8")) == OK  # the socket's peer
    assert code(await app.collect(view(website), ip="203.0.113.9")) == LIMITED


async def test_an_untrusted_proxy_is_logged(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """A forwarded header from an untrusted private address is logged once a minute with the flag to set."""
    caplog.set_level(logging.WARNING)
    website = await app.website()

    def warnings_logged() -> int:
        return sum("--trusted-proxy" in record.getMessage() for record in caplog.records)

    await app.collect(view(website), ip="203.0.113.7, 198.51.100.1")
    assert warnings_logged() == 0
    for _ in range(3):
        await app.collect(view(website), ip="203.0.113.7, 10.1.2.3")
    assert warnings_logged() == 1
    app.clock.advance(59.999)
    await app.collect(view(website), ip="203.0.113.7, 10.1.2.3")
    assert warnings_logged() == 1
    app.clock.advance(0.001)
    await app.collect(view(website), ip="203.0.113.7, 172.16.0.9")
    assert warnings_logged() == 2
    assert "203.0.113.7" not in caplog.text
    assert "10.1.2.3" not in caplog.text


# ---------------------------------------------------------------- the month


async def test_the_monthly_limit(make_app: MakeApp) -> None:
    """A batch that crosses the limit is accepted up to it; then 429 with Retry-After until the end of the month."""
    app = await make_app(free_events=5)
    website = await app.website(plan="free")
    assert (await app.collect(views(website, 3))).json == {"ok": True, "accepted": 3, "rejected": 0}
    over_limit = await app.collect(
        {"website_id": website, "events": [view(), 5, view(), view(), view(url="x"), view()]}
    )
    assert (over_limit.status, over_limit.json["accepted"], over_limit.json["rejected"]) == (202, 2, 4)
    assert [(e["index"], e["code"]) for e in over_limit.json["errors"]] == [
        (1, "invalid_type"),
        (3, "monthly_limit_reached"),
        (4, "invalid_url"),
        (5, "monthly_limit_reached"),
    ]
    for body in (view(website), views(website, 50), {"website_id": website, "events": [5]}):
        answer = await app.collect(body)
        assert (code(answer), answer.headers["Retry-After"]) == (MONTH, str(MONTH_LEFT_S))
    assert app.sql("select count(*) from event") == [(5,)]
    assert used(app) == {("owner@example.com", 202611): 5}


async def test_the_month_ends_at_midnight_utc(make_app: MakeApp) -> None:
    """The limit is per calendar month in UTC; a request sent after Retry-After is accepted."""
    app = await make_app(free_events=2)
    website = await app.website(plan="free")
    assert code(await app.collect(views(website, 2))) == OK
    app.clock.advance(MONTH_LEFT_S - 1.5)
    answer = await app.collect(view(website))
    assert (code(answer), answer.headers["Retry-After"]) == (MONTH, "2")
    app.clock.advance(1.499)
    answer = await app.collect(view(website))
    assert (code(answer), answer.headers["Retry-After"]) == (MONTH, "1")
    app.clock.advance(0.001)
    # The time of arrival counts: an event of November that arrives in December counts in December.
    assert code(await app.collect(view(website, timestamp="2026-11-30T12:00:00Z"))) == OK
    assert code(await app.collect(view(website))) == OK
    answer = await app.collect(view(website))
    assert (code(answer), answer.headers["Retry-After"]) == (MONTH, str(31 * DAY_S))
    assert used(app) == {("owner@example.com", 202611): 2, ("owner@example.com", 202612): 2}


async def test_the_month_survives_a_restart(make_app: MakeApp) -> None:
    """The usage is exact after a restart."""
    app = await make_app(free_events=4)
    website = await app.website(plan="free")
    await app.collect(views(website, 3))
    await app.restart()
    assert (await app.collect(views(website, 3))).json["accepted"] == 1
    await app.restart()
    assert code(await app.collect(view(website))) == MONTH
    app.clock.advance(MONTH_LEFT_S)
    await app.restart()
    assert (await app.collect(views(website, 5))).json["accepted"] == 4


async def test_what_counts_towards_the_month(make_app: MakeApp) -> None:
    """Accepted events of all types per account; duplicates, crawlers and refused ones do not count."""
    app = await make_app(free_events=9)
    website, other = await app.website(plan="free"), await app.website("example.org")
    every = [
        view(),
        {"type": "screen_view", "name": "Home"},
        {"type": "event", "event_name": "x"},
        {"type": "app_event"},
        {"type": "vitals", "vitals": {"lcp": 1}},
        {"type": "heatmap", "points": [{"x": 0, "y": 0, "kind": "click"}] * 100, "viewport_width": 100},
        {"type": "ab_assign", "experiment": "e", "variant": "v"},
        {"type": "ab_convert", "experiment": "e"},
    ]
    assert (await app.collect({"website_id": website, "events": every})).json["accepted"] == 8
    for _ in range(3):
        await app.collect({"website_id": website, "events": [5, view(url="x"), view(timestamp=0)]})
        crawled = await app.collect(view(website), ua="Googlebot/2.1", headers=SAME)
        assert crawled.json["errors"][0]["code"] == "crawler"
    assert used(app) == {("owner@example.com", 202611): 8}
    # Another website of the same account.
    copies = await app.collect({"website_id": other, "events": [view(event_id="a")] * 3})
    assert (copies.status, copies.json["accepted"]) == (202, 3)
    assert used(app) == {("owner@example.com", 202611): 9}
    assert code(await app.collect(view(other))) == MONTH
    assert code(await app.collect(view(website))) == MONTH


async def test_duplicates_beyond_the_limit(make_app: MakeApp) -> None:
    """A duplicate uses no quota: in the batch that crosses the limit it is accepted."""
    app = await make_app(free_events=2)
    website = await app.website(plan="free")
    await app.collect(view(website, event_id="a"))
    sent = [view(event_id=event_id) for event_id in ("a", "b", "c", "a", "b", "c")]
    answer = await app.collect({"website_id": website, "events": sent})
    assert answer.json["accepted"] == 4
    assert [(e["index"], e["code"]) for e in answer.json["errors"]] == [
        (2, "monthly_limit_reached"),
        (5, "monthly_limit_reached"),
    ]


async def test_several_accounts(make_app: MakeApp) -> None:
    """429 if the month of every account concerned is full; otherwise only the events of full accounts are rejected."""
    app = await make_app(free_events=2, pro_events=3)
    free = await app.website(account="free@example.com", plan="free")
    also = await app.website("example.net", account="also@example.com", plan="free")
    pro = await app.website("example.org", account="pro@example.com", plan="pro")
    free_again = await app.website("example.info", account="free@example.com")
    assert (await app.collect(views(free, 2))).json["accepted"] == 2
    mixed = await app.collect({"events": [view(free), view(pro), view(also), view(free_again), view(pro)]})
    assert (mixed.status, mixed.json["accepted"]) == (202, 3)
    assert [(e["index"], e["code"]) for e in mixed.json["errors"]] == [
        (0, "monthly_limit_reached"),
        (3, "monthly_limit_reached"),
    ]
    assert (await app.collect(views(also, 1))).json["accepted"] == 1
    full = await app.collect({"events": [view(free), view(also)]})
    assert (code(full), full.headers["Retry-After"]) == (MONTH, str(MONTH_LEFT_S))
    assert (await app.collect({"events": [view(free), view(also), view(pro)]})).json["accepted"] == 1
    assert code(await app.collect({"events": [view(free), view(also), view(pro)]})) == MONTH
    assert used(app) == {
        ("free@example.com", 202611): 2,
        ("also@example.com", 202611): 2,
        ("pro@example.com", 202611): 3,
    }


async def test_business_is_unlimited(make_app: MakeApp) -> None:
    """business is unlimited; a changed plan applies at once."""
    app = await make_app(free_events=1, pro_events=2)
    website = await app.website()
    assert (await app.collect(views(website, 50))).json["accepted"] == 50
    for plan, outcome in (("free", MONTH), ("pro", MONTH), ("business", OK)):
        await app.admin(lambda c, plan=plan: c.execute("update account set plan = ?", (plan,)))
        assert code(await app.collect(view(website))) == outcome


async def test_the_limit_holds_under_parallel_batches(make_app: MakeApp) -> None:
    """50 concurrent batches of 50 are accepted up to exactly the limit."""
    app = await make_app(free_events=1_000)
    website = await app.website(plan="free")
    answers = await asyncio.gather(*(app.collect(views(website, 50)) for _ in range(50)))
    assert {code(answer) for answer in answers} <= {OK, MONTH}
    assert sum(answer.json.get("accepted", 0) for answer in answers) == 1_000
    assert app.sql("select count(*) from event") == [(1_000,)]
    assert used(app) == {("owner@example.com", 202611): 1_000}
    for answer in answers:
        if answer.status == 429:
            assert answer.headers["Retry-After"] == str(MONTH_LEFT_S)


async def test_a_month_full_at_the_writer_takes_no_token(make_app: MakeApp) -> None:
    """A request takes no token if only the writer finds the month full."""
    app = await make_app(free_events=1, website_per_minute=20)
    website = await app.website(plan="free")
    counts = await codes(app, 20, view(website))
    assert counts == {OK: 1, MONTH: 19}
    await app.admin(lambda c: c.execute("update account set plan = 'business'"))
    assert await codes(app, 25, view(website)) == {OK: 19, LIMITED: 6}


async def test_the_month_is_that_of_arrival(make_app: MakeApp) -> None:
    """A request counts in the month in which it arrived, even if its commit comes in the next one."""
    app = await make_app(free_events=3)
    website = await app.website(plan="free")
    app.clock.advance(MONTH_LEFT_S - 0.001)
    holder = sqlite3.connect(app.db, isolation_level=None)
    holder.execute("begin immediate")
    sending = []
    for waiting in (1, 2, 3, 4):
        if waiting == 3:
            app.clock.advance(0.001)
        sending.append(asyncio.create_task(app.collect(view(website))))
        while app.running.ingest.queue < waiting:
            assert (await app.get("/healthz")).status == 200
    holder.rollback()
    holder.close()
    assert [code(await task) for task in sending] == [OK] * 4
    assert used(app) == {("owner@example.com", 202611): 2, ("owner@example.com", 202612): 2}


# ---------------------------------------------------------------- bodies


def padded(website: str, size: int) -> bytes:
    """Return a valid body of exactly this many bytes."""
    return json.dumps(view(website)).encode().ljust(size)


async def chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 8_000):
        yield body[start : start + 8_000]


async def chunked(app: App, body: bytes, **headers: str) -> Answer:
    """Send a body without Content-Length."""
    async with app.client.post("/api/collect", data=chunks(body), headers=headers) as response:
        assert "Content-Length" not in response.request_info.headers
        return Answer(response.status, response.headers, await response.read())


async def test_body_sizes(app: App) -> None:
    """The limit is 65,536 bytes: checked by Content-Length before reading, and while a chunked body arrives."""
    website = await app.website()
    sizes = {65_535: OK, 65_536: OK, 65_537: (413, "body_too_large"), 500_000: (413, "body_too_large")}
    for size, outcome in sizes.items():
        assert code(await app.collect(padded(website, size))) == outcome
        assert code(await chunked(app, padded(website, size))) == outcome
    assert app.sql("select count(*) from event") == [(4,)]


@pytest.mark.parametrize("length", [1_048_576, 1_200_000])
async def test_a_large_body_is_discarded(app: App, length: int) -> None:
    """The rest of the body is read and discarded, so that the client receives the response."""
    website = await app.website()
    async with connection(app) as (reader, writer):
        writer.write(head(length) + b" " * length)
        assert (await answer_to(reader)).status == 413
    assert code(await app.collect(view(website))) == OK


ENCODINGS = {"": 202, "identity": 202, "Identity": 202, "gzip": 415, "deflate": 415, "br": 415, "zstd": 415}
ENCODINGS |= {"gzip, identity": 415, "nonsense": 415, "GZIP": 415}


async def test_content_encodings(app: App) -> None:
    """A Content-Encoding other than identity: 415 unsupported_encoding, whatever the body is."""
    website = await app.website()
    plain = json.dumps(view(website)).encode()
    for body in (plain, gzip.compress(plain), b"", b"\x1f\x8b"):
        found = {}
        for name in ENCODINGS:
            headers = {"Content-Encoding": name} if name else {}
            found[name] = (await app.collect(body, headers=headers)).status
        expected = {name: 400 if status == 202 and body != plain else status for name, status in ENCODINGS.items()}
        assert found == expected
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 65_536
    refused = await app.collect(bomb, headers={"Content-Encoding": "gzip"})
    assert code(refused) == (415, "unsupported_encoding")
    async with app.client.post(
        "/api/collect", data=chunks(bomb), headers={"Content-Encoding": "gzip"}, skip_auto_headers=["Content-Encoding"]
    ) as response:
        assert response.status == 415


# ---------------------------------------------------------------- raw requests


@asynccontextmanager
async def connection(app: App) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a raw connection, for requests that no client library sends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", app.client.port)
    yield reader, writer
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def head(length: int | None, *more: str) -> bytes:
    lines = ["POST /api/collect HTTP/1.1", "Host: localhost", *more]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


async def answer_to(reader: asyncio.StreamReader) -> Answer:
    """Return the next response on a connection."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.title(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    body = await reader.readexactly(int(headers.get("Content-Length", "0")))
    return Answer(int(lines[0].split()[1]), headers, body)


async def test_content_length_beyond_the_limit(app: App) -> None:
    """413 by Content-Length, even if no byte of the body arrives."""
    async with connection(app) as (reader, writer):
        writer.write(head(1_000_000_000))
        answer = await answer_to(reader)
    assert code(answer) == (413, "body_too_large")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


async def test_content_length_too_small(app: App) -> None:
    """Bytes after Content-Length are not part of the body."""
    body = json.dumps(view(await app.website())).encode()
    async with connection(app) as (reader, writer):
        writer.write(head(10) + body[:10])
        assert code(await answer_to(reader)) == (400, "invalid_json")
        writer.write(body[10:])
        writer.write_eof()
        rest = await reader.read()
    assert rest == b"" or rest.split()[1] == b"400"
    assert app.sql("select count(*) from event") == [(0,)]


async def test_content_length_too_large(app: App) -> None:
    """A request with an incomplete body is not stored, and the server continues."""
    website = await app.website()
    body = json.dumps(view(website)).encode()
    async with connection(app) as (_, writer):
        writer.write(head(len(body) + 10) + body)
        await writer.drain()
    assert code(await app.collect(view(website))) == OK
    assert app.sql("select count(*) from event") == [(1,)]


async def test_a_body_byte_by_byte(app: App) -> None:
    """A slow body is accepted on a connection that is used again."""
    body = json.dumps(view(await app.website())).encode()
    async with connection(app) as (reader, writer):
        for _ in range(2):
            writer.write(head(len(body), "Content-Type: text/plain"))
            for byte in body:
                writer.write(bytes([byte]))
                await writer.drain()
            assert (await answer_to(reader)).json == {"ok": True, "accepted": 1, "rejected": 0}


async def test_the_rest_of_a_refused_body_is_discarded(app: App) -> None:
    """The rest of a refused body is discarded, not parsed as the next request."""
    inner = json.dumps(view(await app.website())).encode()
    async with connection(app) as (reader, writer):
        writer.write(head(70_000) + (head(len(inner)) + inner).ljust(70_000))
        assert code(await answer_to(reader)) == (413, "body_too_large")
        writer.write_eof()
        assert await reader.read() == b""
    assert app.sql("select count(*) from event") == [(0,)]


async def test_a_token_is_taken_once(make_app: MakeApp) -> None:
    """Check 6 tests the client's bucket again: requests whose bodies arrive at the same time share one token."""
    app = await make_app(client_per_minute=1)
    bodies = [json.dumps(view(await app.website(f"example{n}.com"))).encode() for n in range(5)]
    async with AsyncExitStack() as stack:
        ends = [await stack.enter_async_context(connection(app)) for _ in bodies]
        for (_, writer), body in zip(ends, bodies, strict=True):
            writer.write(head(len(body)))
        for _ in range(20):  # meanwhile all of them pass check 1
            assert (await app.get("/healthz")).status == 200
        for (_, writer), body in zip(ends, bodies, strict=True):
            writer.write(body)
        answers = [await answer_to(reader) for reader, _ in ends]
    assert Counter(map(code, answers)) == {OK: 1, LIMITED: 4}
    assert {answer.headers.get("Retry-After") for answer in answers if answer.status == 429} == {"60"}


def labels(count: int, first: int) -> str:
    """Return a host of internationalised labels, each of 10 characters; no two hosts have one in common."""
    return ".".join(
        "\u00e4" + chr(0x4E00 + (first + n) // 1_000) + chr(0x4E00 + (first + n) % 1_000) * 8 for n in range(count)
    )


def with_hosts(website: str, hosts: Iterable[str]) -> dict[str, Any]:
    return {"website_id": website, "events": [view(url=f"https://{host}/") for host in hosts]}


@pytest.mark.parametrize("end", ["\u00e4\u200d", "example"], ids=["invalid-label", "invalid-timestamp"])
@pytest.mark.parametrize("path", ["/api/collect", "/api/batch"])
async def test_conversion_of_labels_is_limited(app: App, end: str, path: str) -> None:
    """Requests that are refused convert at most the labels of the limit; a client that sends none is not affected."""
    website = await app.website()
    a_labels._cached.cache_clear()
    before = a_labels.converted
    for sent in range(10):
        hosts = [f"{labels(5, 250 * sent + 5 * n)}.{end}" for n in range(50)]
        if path == "/api/collect":
            body: Any = {"website_id": website, "events": [view(url=f"https://{host}/", timestamp=1) for host in hosts]}
        else:
            body = [{"type": "event", "payload": {"website": host, "url": "/"}} for host in hosts]
        answer = await app.collect(body, path=path, headers={})
    # What is left of the minute is not known before a request is read, so the last one may convert as many again.
    assert a_labels.converted - before < 2 * MAX_CONVERTED + 20
    assert code(answer) == code(await app.collect(view(website))) == LIMITED
    assert code(await app.collect(view(website), ip="203.0.113.8")) == OK
    app.clock.advance(60)
    assert code(await app.collect(view(website))) == OK


async def test_new_labels_of_a_batch_are_converted_once(app: App) -> None:
    """50 events with hosts of their own are accepted; a repeated label does not count, an invalid one included."""
    website = await app.website()
    hosts = [f"{labels(2, 100_000 + 2 * n)}.\u0440\u0444" for n in range(50)]
    for _ in range(5):
        before = a_labels.converted
        assert code(await app.collect(with_hosts(website, hosts))) == OK
    assert a_labels.converted == before
    for _ in range(5):
        before = a_labels.converted
        assert (await app.collect(with_hosts(website, ["\u0434\u200d.com"] * 50))).status == 400
    assert a_labels.converted == before


async def test_a_batch_with_more_labels_than_the_limit_is_accepted_later(app: App) -> None:
    """What was converted of a request over the limit is cached, so the client succeeds by sending it again."""
    website, waited = await app.website(), 0
    body = with_hosts(website, [labels(8, 200_000 + 8 * n) for n in range(50)])
    while code(answer := await app.collect(body)) == LIMITED:
        app.clock.advance(int(answer.headers["Retry-After"]))
        waited += 1
        assert waited < 10
    assert (code(answer), waited) == (OK, 2)


BAD_CHUNKS = {
    "no-number": b"xyz\r\n{}\r\n0\r\n\r\n",
    "negative": b"-2\r\n{}\r\n0\r\n\r\n",
    "short": b"5\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=BAD_CHUNKS)
async def test_bad_chunks(app: App, body: bytes) -> None:
    """Malformed chunks are refused without a 500, and the server continues."""
    async with connection(app) as (reader, writer):
        writer.write(head(None, "Transfer-Encoding: chunked") + body)
        writer.write_eof()
        answer = await reader.read()
    assert answer == b"" or answer.split()[1] == b"400"
    assert code(await app.collect(view(await app.website()))) == OK
