"""What one account uses up costs no other one: channels, invitations, assistants and what waits to be sent."""

import asyncio

import pytest
from aiohttp import web

from tally.accounts.people import MAX_INVITATIONS
from tally.notices.channels import MAX_CHANNELS
from tally.notices.outbox import New
from tally.notices.sender import MAX_AT_ONCE, MAX_OF_ACCOUNT
from tally.timestamps import DAY_MS
from tests.support.app import App, MakeApp
from tests.support.page_client import PageClient, logged_in
from tests.support.receiver import LOOPBACK, receiving, says, sender_of, settle

CHANNELS, INVITATIONS = "/api/account/channels", "/api/account/invitations"


@pytest.fixture
async def both(app: App) -> tuple[PageClient, PageClient]:
    """Return the owners of two accounts."""
    return await logged_in(app), await logged_in(app, "other@example.com", ip="198.51.100.2")


async def test_the_channels_of_an_account(both: tuple[PageClient, PageClient]) -> None:
    first, second = both
    for at in range(MAX_CHANNELS):
        assert (await first("POST", CHANNELS, {"kind": "feed", "name": f"{at}"})).status == 201
    assert (await first("POST", CHANNELS, {"kind": "feed", "name": "more"})).status == 409
    assert (await second("POST", CHANNELS, {"kind": "feed", "name": "own"})).status == 201
    assert [one["name"] for one in (await second("GET", CHANNELS)).json["data"]] == ["own"]


async def test_the_invitations_of_an_account(both: tuple[PageClient, PageClient]) -> None:
    first, second = both
    for at in range(MAX_INVITATIONS):
        answer = await first("POST", INVITATIONS, {"email": f"{at}@example.com", "role": "viewer"})
        assert answer.status == 201, answer.text
    more = {"email": "more@example.com", "role": "viewer"}
    assert (await first("POST", INVITATIONS, more)).status == 409
    assert (await second("POST", INVITATIONS, more)).status == 201


async def test_the_tests_of_channels_of_an_account(both: tuple[PageClient, PageClient]) -> None:
    ids = [(await one("POST", CHANNELS, {"kind": "feed", "name": "f"})).json["data"]["id"] for one in both]
    statuses = [(await both[0]("POST", f"{CHANNELS}/{ids[0]}/test")).status for _ in range(20)]
    assert (statuses[0], statuses[-1]) == (200, 429)
    assert (await both[1]("POST", f"{CHANNELS}/{ids[1]}/test")).status == 200


async def test_slow_receivers_of_an_account_delay_no_notice_of_another(make_app: MakeApp) -> None:
    """However many channels it has, an account sends MAX_OF_ACCOUNT messages at once."""
    app = await make_app(notify_networks=LOOPBACK)
    first, second = await logged_in(app), await logged_in(app, "other@example.com", ip="198.51.100.2")
    gate = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        if request.path == "/first":
            await gate.wait()
        return web.Response()

    async with receiving() as receiver:
        receiver.answer = slow
        for owner, path, number in ((first, "first", MAX_AT_ONCE), (second, "second", 1)):
            for at in range(number):
                body = {"kind": "discord", "name": f"{at}", "url": f"{receiver.url}/{path}"}
                assert (await owner("POST", CHANNELS, body)).status == 201
        sender = sender_of(app)
        for account in (1, 2):
            await sender.add(New(account, "test", "a", says("a", "b"), app.clock.wall_ms() + DAY_MS))
        while "/second" not in [one.path for one in receiver.received]:
            sender.each_second(0)
            await asyncio.sleep(0.01)
        assert [one.path for one in receiver.received].count("/first") == MAX_OF_ACCOUNT
        gate.set()
        await settle(app)
    assert app.sql("select state, count(*) from notice group by 1") == [("sent", MAX_AT_ONCE + 1)]
