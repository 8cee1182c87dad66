"""POST /api/v1/websites/{id}/events: many events by a key with the scope `import`."""

import json
from typing import Any

import pytest

from tally.accounts.api_keys import Grant, revoke_api_key
from tally.accounts.websites import set_exclusions
from tally.api.bulk_collect import MAX_BODY_BYTES, MAX_EVENTS
from tally.timestamps import HOUR_MS, iso
from tests.support.app import NOON_MS, Answer, App, MakeApp
from tests.support.cases import cases

PAGE = {"type": "pageview", "url": "https://example.com/a"}


class Site:
    """A website, and a key that may send its events."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def fill(self, plan: str = "business") -> None:
        self.id = await self.app.website(plan=plan)
        self.key = await self.app.key(plan=plan, grant=Grant(("import", "read")))

    async def send(self, *events: Any, key: str | None = None, website: str = "", **more: Any) -> Answer:
        """Send events."""
        return await self.send_body(json.dumps({"events": events} | more).encode(), key or self.key, website)

    async def send_body(self, body: bytes, key: str, website: str = "", **headers: str) -> Answer:
        sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"} | headers
        return await self.app.collect(body, headers=sent, path=f"/api/v1/websites/{website or self.id}/events")

    async def stats(self) -> Any:
        answer = await self.app.get(f"/api/v1/websites/{self.id}/stats?period=7d", self.key)
        assert answer.status == 200, answer.text
        return answer.json["data"]

    async def listed(self) -> list[Any]:
        return list((await self.app.get(f"/api/v1/websites/{self.id}/events?period=7d", self.key)).json["data"])


@pytest.fixture
async def site(make_app: MakeApp) -> Site:
    site = Site(await make_app())
    await site.fill()
    return site


def page(session: str, **more: Any) -> dict[str, Any]:
    """Return a pageview of a visitor."""
    return PAGE | {"session_id": session * 8} | more


async def test_events_of_several_visitors_and_hours(site: Site) -> None:
    answer = await site.send(
        page("a", timestamp=iso(NOON_MS - 70 * HOUR_MS)),
        page("a", timestamp=NOON_MS - 2 * HOUR_MS),
        page("a", age_ms=2 * HOUR_MS - 5),
        page("b", age_ms=60_000, browser="Firefox"),
        {"type": "event", "event_name": "order", "session_id": "b" * 8},
        context={"platform": "server"},
    )
    assert (answer.status, answer.json) == (202, {"ok": True, "accepted": 5, "rejected": 0})
    stats = await site.stats()
    assert (stats["visitors"], stats["visits"], stats["pageviews"], stats["events"]) == (3, 3, 4, 1)
    listed = await site.listed()
    assert {one["platform"] for one in listed} == {"server"}
    # Nothing of the sender's request is a visitor's.
    assert {(one["country"], one["browser"], one["language"]) for one in listed} == {
        (None, None, None),
        (None, "Firefox", None),
    }


async def test_as_many_events_as_a_request_may_have(site: Site) -> None:
    events = [page("v", session_id=f"visitor-{number % 50}", event_id=f"id-{number}") for number in range(MAX_EVENTS)]
    for _ in range(2):
        assert (await site.send(*events)).json == {"ok": True, "accepted": MAX_EVENTS, "rejected": 0}
    stats = await site.stats()
    assert (stats["visitors"], stats["pageviews"]) == (50, MAX_EVENTS), "a request that is sent again counts once"
    refused = await site.send(*events, PAGE)
    assert (refused.status, refused.json["error"]["code"]) == (400, "too_many_events")


async def test_a_session_id_is_the_same_visitor_at_collect(site: Site) -> None:
    await site.send(page("a"))
    await site.app.collect(page("a") | {"website_id": site.id})
    assert (await site.stats())["visitors"] == 1


async def test_rejected_events_do_not_affect_the_others(site: Site) -> None:
    answer = await site.send(
        PAGE,
        page("a"),
        page("a", ip="203.0.113.9"),
        page("a", user_agent="Mozilla/5.0"),
        page("a", website_id="00000000-0000-4000-8000-000000000000"),
        page("a", website_id=site.id),
        page("a", timestamp=NOON_MS - 73 * HOUR_MS),
        page("a", url="no URL"),
        "no event",
        {"type": "vitals", "url": "https://example.com/", "vitals": {"lcp": 1200}},
    )
    assert answer.status == 202
    assert (answer.json["accepted"], answer.json["rejected"]) == (3, 7)
    assert [(one["index"], one["code"], one.get("field")) for one in answer.json["errors"]] == [
        (0, "missing_field", "session_id"),
        (2, "invalid_field", "ip"),
        (3, "invalid_field", "user_agent"),
        (4, "unknown_website", "website_id"),
        (6, "timestamp_too_old", "timestamp"),
        (7, "invalid_url", "url"),
        (8, "invalid_type", "type"),
    ]
    # Not even that an address was sent is kept.
    assert "203.0.113.9" not in str(site.app.sql("select * from rejected_sample"))


async def test_no_valid_event_stores_nothing(site: Site) -> None:
    answer = await site.send(PAGE)
    assert (answer.status, answer.json["error"]["code"]) == (400, "no_valid_event")
    assert answer.json["errors"][0]["field"] == "session_id"
    assert (await site.stats())["pageviews"] == 0


@cases(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"[]", 400, "invalid_body"),
        (b"{}", 400, "invalid_field"),
        (b'{"events": []}', 400, "invalid_field"),
        (b'{"events": {}}', 400, "invalid_field"),
        (b'{"events": [1], "context": 1}', 400, "invalid_field"),
        (b'{"events": [1], "website_id": "x"}', 400, "invalid_field"),
        (b'{"events": [1]}', 400, "no_valid_event"),
        (b'{"events": [{"type": "pageview", "\\ud800": 1}]}', 400, "no_valid_event"),
        (b" " * (MAX_BODY_BYTES + 1), 413, "body_too_large"),
    ],
    ids=["empty", "list", "none", "no_event", "object", "context", "field", "number", "surrogate", "large"],
)
async def test_bad_bodies(site: Site, body: bytes, status: int, code: str) -> None:
    answer = await site.send_body(body, site.key)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)


async def test_other_bodies_are_refused(site: Site) -> None:
    assert (await site.send_body(b"{}", site.key, **{"Content-Type": "text/plain"})).status == 415
    assert (await site.send_body(b"{}", site.key, **{"Content-Encoding": "gzip"})).status == 415


async def test_another_website_is_unknown(site: Site) -> None:
    """Of another account, and one that the key is not for."""
    other = await site.app.website("other.example", account="other@example.com")
    second = await site.app.website("second.example")
    limited = await site.app.key(grant=Grant(("import",), (site.id,)))
    assert (await site.send(page("a"), website=other)).status == 404
    assert (await site.send(page("a"), website=second, key=limited)).status == 404
    assert (await site.send(page("a"), website=second)).status == 202
    assert site.app.sql("select count(*) from event")[0][0] == 1
    for named in (other, "00000000-0000-4000-8000-000000000000"):
        answer = await site.send(page("a", website_id=named))
        assert (answer.status, answer.json["errors"][0]["code"]) == (400, "unknown_website")


async def test_a_revoked_key_stores_nothing(site: Site) -> None:
    await site.app.admin(lambda connection: revoke_api_key(connection, site.key))
    assert (await site.send(page("a"))).status == 401


async def test_a_key_has_limits_of_its_own(make_app: MakeApp) -> None:
    site = Site(await make_app(client_per_minute=9_999, website_per_minute=2))
    await site.fill()
    second = await site.app.key(grant=Grant(("import",)))
    assert [(await site.send(page("a"))).status for _ in range(3)] == [202, 202, 429]
    # Neither another key at the same address nor collect is limited by it.
    assert (await site.send(page("a"), key=second)).status == 202
    assert (await site.app.collect(page("a") | {"website_id": site.id}, ip="127.0.0.1")).status == 202


async def test_the_month_of_the_account_is_used(make_app: MakeApp) -> None:
    site = Site(await make_app(pro_events=3))
    await site.fill("pro")
    assert (await site.send(page("a"), page("a", event_id="1"))).json["accepted"] == 2
    answer = await site.send(page("a", event_id="1"), page("b"), page("c"))
    assert (answer.json["accepted"], answer.json["errors"][0]["code"]) == (2, "monthly_limit_reached")
    full = await site.send(page("d"))
    assert (full.status, full.json["error"]["code"]) == (429, "monthly_limit_reached")
    assert site.app.sql("select events from account_usage") == [(3,)]


async def test_an_excluded_address_does_not_exclude_what_its_server_sends(site: Site) -> None:
    lists = {"addresses": {"127.0.0.0/8": "", "203.0.113.7": ""}}
    await site.app.admin(lambda connection: set_exclusions(connection, 1, lists, {}))
    assert (await site.send(page("a"))).json["accepted"] == 1
