"""Notices of API keys that expire: 14 days before and when they have, once each."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tally.accounts.websites import delete_website
from tally.api.channels import NOTICES
from tally.notices.key_expiry import KeyExpiry
from tally.notices.outbox import Content, New
from tests.support.app import App, MakeApp
from tests.support.page_client import PageClient, logged_in
from tests.support.receiver import LOOPBACK, Receiver, receiving, settle

CHANNELS, DAY_S = "/api/account/channels", 86_400


class Owner:
    """An owner with a channel, and what it has received."""

    def __init__(self, app: App, browser: PageClient, receiver: Receiver) -> None:
        self.app, self.browser, self.receiver = app, browser, receiver
        self.start()

    def start(self) -> None:
        """Begin anew, as another process does."""
        node = self.app.node
        self.expiry = KeyExpiry(self.app.application[NOTICES], node.clock, lambda: node.registry.cache.keys.values())

    async def key(self, days: int | None, name: str = "wall") -> None:
        answer = await self.browser("POST", "/api/account/keys", {"name": name, "expires_days": days})
        assert answer.status == 201, answer.text

    async def after(self, seconds: int) -> list[str]:
        """Return the types of all that was received, after so much more time."""
        self.app.clock.advance(seconds)
        await self.expiry.check()
        await settle(self.app)
        return [json.loads(one.body)["type"] for one in self.receiver.received]


@pytest.fixture
async def owner(make_app: MakeApp) -> AsyncIterator[Owner]:
    app = await make_app(notify_networks=LOOPBACK)
    async with receiving() as receiver:
        browser = await logged_in(app)
        body = {"kind": "webhook", "name": "Ops", "url": receiver.url}
        assert (await browser("POST", CHANNELS, body)).status == 201
        yield Owner(app, browser, receiver)


async def test_a_key_is_reported_before_and_at_its_end(owner: Owner) -> None:
    await owner.key(30)
    await owner.key(None)
    assert await owner.after(16 * DAY_S - 1) == []
    assert await owner.after(1) == ["key.expires"]
    assert await owner.after(60) == ["key.expires"]
    # Nor does the next process repeat it.
    owner.start()
    assert await owner.after(13 * DAY_S) == ["key.expires"]
    assert await owner.after(DAY_S) == ["key.expires", "key.expired"]
    owner.start()
    assert await owner.after(60) == ["key.expires", "key.expired"]
    assert await owner.after(DAY_S) == ["key.expires", "key.expired"]
    first = json.loads(owner.receiver.received[0].body)["data"]
    prefix = owner.app.sql("select prefix from api_key order by number")[0][0]
    assert first["title"] == f"API key expires on 18 Dec 2026: {prefix} wall"
    assert (first["details"]["key"], first["details"]["name"]) == (prefix, "wall")
    assert first["priority"] == "normal"


async def test_the_languages_of_channels(owner: Owner) -> None:
    (channel,) = (await owner.browser("GET", CHANNELS)).json["data"]
    await owner.browser("PATCH", f"{CHANNELS}/{channel['id']}", {"language": "de"})
    await owner.key(1)
    await owner.after(0)
    assert "läuft am" in json.loads(owner.receiver.received[0].body)["data"]["title"]


async def test_a_key_that_is_revoked_is_not_reported(owner: Owner) -> None:
    await owner.key(20)
    number = owner.app.sql("select number from api_key")[0][0]
    await owner.browser("DELETE", f"/api/account/keys/{number}")
    assert await owner.after(10 * DAY_S) == []


async def test_another_account_is_not_told(owner: Owner) -> None:
    other = await logged_in(owner.app, "other@example.com", ip="198.51.100.2")
    await other("POST", "/api/account/keys", {"name": "theirs", "expires_days": 3})
    assert await owner.after(0) == []


async def test_a_notice_about_a_website_is_deleted_with_it(owner: Owner) -> None:
    await owner.app.website()
    await owner.app.website("other.example")
    sender: Any = owner.app.application[NOTICES]
    for website in (None, 1, 2):
        new = New(1, "test", f"about {website}", lambda language: Content("a", "b"), 1 << 60, website=website)
        assert await sender.add(new) == 1
    await owner.app.admin(lambda connection: delete_website(connection, 1, owner.app.clock.wall_ms()))
    assert owner.app.sql("select website from notice order by number") == [(None,), (2,)]
    late = New(1, "test", "late", lambda language: Content("a", "b"), 1 << 60, website=1)
    assert await sender.add(late) == 0
