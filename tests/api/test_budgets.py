"""Limits per client and hour, shares of a plan, warnings of owners, and usage returned by deletions."""

import asyncio
import logging
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tally.accounts.accounts import set_plan
from tally.accounts.websites import delete_website
from tally.ingest.budgets import Budgets
from tally.settings import BadSetting, settings_from
from tests.support.app import OWNER, App, MakeApp, ManualClock
from tests.support.cases import cases
from tests.support.page_client import logged_in

A, B = "203.0.113.7", "198.51.100.9"
HOUR_S = 3_600


def batch(website: str, events: int) -> dict[str, Any]:
    return {"website_id": website, "events": [{"type": "pageview", "url": "https://example.com/"}] * events}


def batch_for_two(website: str, other: str) -> dict[str, Any]:
    events = [{"type": "pageview", "url": "https://example.com/", "website_id": id} for id in (website, other)]
    return {"events": events}


async def accepted(app: App, website: str, events: int, ip: str = A) -> int:
    """Send a batch and return how many events were accepted."""
    answer = await app.collect(batch(website, events), ip=ip)
    return int(answer.json["accepted"]) if answer.status == 202 else 0


async def used(app: App) -> int:
    await app.registry.refresh()
    return int(app.registry.used(1, app.clock.wall_ms()))


# --- an hour


async def test_a_client_has_a_budget_of_events_an_hour(make_app: MakeApp, clock: ManualClock) -> None:
    app = await make_app(client_events_per_hour=100)
    website = await app.website()
    assert [await accepted(app, website, events) for events in (50, 49)] == [50, 49]
    answer = await app.collect(batch(website, 2))
    assert (answer.status, answer.json["error"]["code"]) == (429, "rate_limited")
    assert await accepted(app, website, 1) == 1
    # Other clients have budgets of their own.
    assert await accepted(app, website, 50, ip=B) == 50
    wait_s = int((await app.collect(batch(website, 50))).headers["Retry-After"])
    assert wait_s == HOUR_S // 2
    clock.advance(wait_s - 1)
    assert (await app.collect(batch(website, 50))).status == 429
    clock.advance(1)
    assert await accepted(app, website, 50) == 50


async def test_events_that_are_not_stored_cost_no_budget(make_app: MakeApp) -> None:
    app = await make_app(client_events_per_hour=50)
    website = await app.website()
    wrong = {"website_id": website, "events": [{"type": "pageview"}] * 50}
    assert (await app.collect(wrong)).status == 400
    app.database.health.fault = "unsure"
    assert (await app.collect(batch(website, 50))).status == 503
    app.database.health.fault = ""
    assert await accepted(app, website, 50) == 50


def test_returned_events_can_be_sent_again() -> None:
    """When the writer refuses a whole request, the collector returns its events to the hourly budget."""
    budgets = Budgets(events_per_hour=100)
    budgets.take(b"client", 100, 0)
    assert budgets.wait_s(b"client", 1, 0) > 0
    budgets.give_back(b"client", 100, 0)
    assert budgets.wait_s(b"client", 100, 0) == 0


async def test_without_a_budget_all_events_are_accepted(app: App) -> None:
    website = await app.website()
    assert sum([await accepted(app, website, 50) for _ in range(100)]) == 5_000


@cases(
    ("option", "value", "expected_error"),
    [
        ("--client-events-per-hour", "49", "at least 50"),
        ("--client-events-per-hour", "-1", "at least 50"),
        ("--client-month-share", "101", "between 1 and 100"),
        ("--client-month-share", "half", "between 1 and 100"),
        ("--min-free-disk", "1GB", "megabytes"),
        ("--max-new-values", "0", "at least 1"),
    ],
)
def test_invalid_settings(option: str, value: str, expected_error: str) -> None:
    with pytest.raises(BadSetting, match=f"^{option} .*{expected_error}"):
        settings_from({option[2:].replace("-", "_"): [value]}, {})


# --- a month's share


async def test_a_client_gets_its_share_of_a_limited_month(make_app: MakeApp, clock: ManualClock) -> None:
    app = await make_app(free_events=100, client_month_share=30)
    website = await app.website(plan="free")
    assert await accepted(app, website, 30) == 30
    answer = await app.collect(batch(website, 1))
    assert (answer.status, answer.json["error"]["code"]) == (429, "monthly_limit_reached")
    assert int(answer.headers["Retry-After"]) > 86_400
    # Other clients are not affected, and the client has a new share next month.
    assert await accepted(app, website, 20, ip=B) == 20
    clock.advance(20 * 86_400)
    assert await accepted(app, website, 10) == 10


async def test_a_batch_for_several_accounts_is_accepted_in_part(make_app: MakeApp) -> None:
    app = await make_app(free_events=100, client_month_share=10)
    website, other = await app.website(plan="free"), await app.website("example.org", "other@example.com", "free")
    assert await accepted(app, website, 10) == 10
    answer = await app.collect(batch_for_two(website, other))
    assert (answer.status, answer.json["accepted"]) == (202, 1)
    assert [error["code"] for error in answer.json["errors"]] == ["monthly_limit_reached"]


@pytest.mark.parametrize("invalid", [0, 1], ids=["all valid", "one invalid"])
async def test_concurrent_requests_do_not_exceed_the_share(make_app: MakeApp, invalid: int) -> None:
    """docs/reference/limits.md: a client may exceed its share by one request."""
    app = await make_app(free_events=1_000, client_month_share=10)
    website = await app.website(plan="free")
    body = batch(website, 30)
    body["events"] = body["events"] + [{"type": "pageview"}] * invalid
    answers = await asyncio.gather(*(app.collect(body) for _ in range(40)))
    assert sorted(answer.status for answer in answers) == [202] * 4 + [429] * 36
    assert await used(app) == 120


async def test_events_that_are_not_stored_cost_no_share(make_app: MakeApp) -> None:
    """Duplicates, events rejected by the writer, and requests refused by storage."""
    app = await make_app(free_events=1_000, client_month_share=10)
    website = await app.website(plan="free")
    copies = {"website_id": website, "events": [{"type": "app_event", "event_id": f"e{n}"} for n in range(40)]}
    for _ in range(5):
        assert (await app.collect(copies)).json["accepted"] == 40
    converted = {"website_id": website, "events": [{"type": "ab_convert", "experiment": "x"}] * 50}
    for _ in range(3):
        assert (await app.collect(converted)).status == 400
    for fault in ("unsure", ""):
        app.database.health.fault = fault
        assert (await app.collect(batch(website, 50))).status == (503 if fault else 202)
    # 90 of 100 are used; half of this request are duplicates.
    half = {"website_id": website, "events": [*copies["events"][:9], *batch(website, 9)["events"]]}
    assert (await app.collect(half)).json["accepted"] == 18
    assert await accepted(app, website, 1) == 1
    assert await accepted(app, website, 1) == 0
    assert await used(app) == 100


def test_usage_returned_late_does_not_change_another_month() -> None:
    """Usage of last month that is returned late does not change that of this month."""
    budgets = Budgets(month_share=10)
    budgets.take_share(b"a", 1, 50, 202_611)
    budgets.take_share(b"a", 1, 50, 202_612)
    budgets.give_back_share(b"a", 1, 50, 202_611)
    assert budgets.has_used_share(b"a", 1, 500, 202_612)
    budgets.give_back_share(b"a", 1, 50, 202_612)
    budgets.give_back_share(b"a", 1, 50, 202_612)
    assert not budgets._used


async def test_an_unlimited_plan_has_no_shares(make_app: MakeApp) -> None:
    app = await make_app(client_month_share=1)
    website = await app.website()
    assert [await accepted(app, website, 50) for _ in range(4)] == [50] * 4


def test_shares_are_bounded_and_contain_no_address() -> None:
    """Many new clients evict those with the least usage, not one with much."""
    budgets = Budgets(month_share=10, max_clients=100)
    budgets.take_share(b"hostile!", 1, 50, 202_611)
    for n in range(1_000):
        budgets.take_share(n.to_bytes(8), 1, 1, 202_611)
        assert len(budgets._used) <= 101
    assert budgets.has_used_share(b"hostile!", 1, 500, 202_611)
    assert not budgets.has_used_share(b"hostile!", 1, 501, 202_611)
    assert b"hostile!" not in budgets._used


# --- warnings


async def test_the_owner_is_warned_at_80_and_100_percent(make_app: MakeApp, caplog: pytest.LogCaptureFixture) -> None:
    app = await make_app(free_events=100)
    browser = await logged_in(app)
    website = await app.website(plan="free")
    await app.admin(lambda connection: set_plan(connection, OWNER, "free"))

    async def warnings() -> tuple[int | None, list[str], dict[str, float]]:
        data = (await browser("GET", "/api/account")).json["data"]
        families = text_string_to_metric_families((await app.get("/metrics")).text)
        family = next(family for family in families if family.name == "tally_accounts_month_used")
        lines = [record.getMessage() for record in caplog.records if "of its month" in record.getMessage()]
        return data["usage_warning"], lines, {s.labels["percent"]: s.value for s in family.samples}

    with caplog.at_level(logging.WARNING, "tally"):
        await accepted(app, website, 50)
        await accepted(app, website, 29)
        assert await warnings() == (None, [], {"80": 0, "100": 0})
        await accepted(app, website, 1)
        first = ["account 1 has used 80 percent of its month's 100 events"]
        assert await warnings() == (80, first, {"80": 1, "100": 0})
        await accepted(app, website, 19)
        await app.restart()
        await accepted(app, website, 1)
        both = [*first, "account 1 has used 100 percent of its month's 100 events"]
    assert caplog.messages.count(first[0]) == caplog.messages.count(both[1]) == 1
    assert app.registry.accounts_past(100, app.clock.wall_ms()) == 1


# --- returned usage


async def test_deleting_a_website_returns_its_usage_of_the_month(make_app: MakeApp, clock: ManualClock) -> None:
    app = await make_app(free_events=100)
    first, second = await app.website(plan="free"), await app.website("example.org", plan="free")
    await accepted(app, first, 50)
    await accepted(app, second, 40)
    assert (await used(app), await accepted(app, second, 20)) == (90, 10)
    assert (await app.collect(batch(second, 1))).status == 429
    number = app.registry.website(first).number
    await app.admin(lambda connection: delete_website(connection, number, clock.wall_ms()))
    assert await used(app) == 50
    assert await accepted(app, second, 50) == 50


async def test_usage_of_earlier_months_is_not_returned(make_app: MakeApp, clock: ManualClock) -> None:
    app = await make_app(free_events=100)
    first, second = await app.website(plan="free"), await app.website("example.org", plan="free")
    await accepted(app, first, 50)
    clock.advance(20 * 86_400)
    await accepted(app, first, 5)
    await accepted(app, second, 10)
    number = app.registry.website(first).number
    await app.admin(lambda connection: delete_website(connection, number, clock.wall_ms()))
    assert await used(app) == 10


async def test_duplicates_and_rejected_events_use_no_quota(make_app: MakeApp, clock: ManualClock) -> None:
    app = await make_app(free_events=100)
    website = await app.website(plan="free")
    event = {"type": "pageview", "url": "https://example.com/", "event_id": "one", "website_id": website}
    for _ in range(3):
        await app.collect(event)
    await app.collect({"type": "ab_convert", "experiment": "x", "website_id": website})
    assert await used(app) == 1
    assert app.sql("select events from website_usage") == [(1,)]
