"""The outbox with real receivers: what each kind receives, once; retries, pauses and limits; hostile receivers."""

import asyncio
import base64
import json
import socket
import sqlite3
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError
from standardwebhooks import webhooks as library

from tally.notices import delivery, outbox, requests
from tally.notices.channels import Quiet
from tally.notices.delivery import Delivery
from tally.notices.outbox import New, quiet_until_ms
from tally.notices.requests import Request
from tally.timestamps import DAY_MS, HOUR_MS, iso
from tests.support.app import NOON_MS, App, MakeApp
from tests.support.cases import cases
from tests.support.page_client import PageClient, logged_in
from tests.support.receiver import LOOPBACK, Receiver, receiving, says, sender_of, settle

CHANNELS = "/api/account/channels"
HOSTILE = "<!channel> @everyone & <https://evil.example|click>"


class Owner:
    """An application whose owner has channels to a receiver."""

    def __init__(self, app: App, browser: PageClient, receiver: Receiver) -> None:
        self.app, self.browser, self.receiver = app, browser, receiver

    async def channel(self, kind: str = "webhook", **more: Any) -> dict[str, Any]:
        body = {"kind": kind, "name": kind} | ({} if kind == "feed" else {"url": self.receiver.url}) | more
        answer = await self.browser("POST", CHANNELS, body)
        assert answer.status == 201, answer.text
        made: dict[str, Any] = answer.json["data"]
        return made

    async def raise_notice(self, fact: str, **more: Any) -> int:
        content = says(f"Title {fact}", f"Text {fact}", "/account", {"n": 1})
        now_ms = self.app.clock.monotonic_wall_ms()
        return await sender_of(self.app).add(New(1, "server.problem", fact, content, now_ms + DAY_MS, **more))

    def states(self) -> list[str]:
        return [state for (state,) in self.app.sql("select state from notice order by number")]

    async def paused(self, id: str) -> bool:
        rows = (await self.browser("GET", CHANNELS)).json["data"]
        return next(one["paused_at"] is not None for one in rows if one["id"] == id)


@pytest.fixture
async def owner(make_app: MakeApp) -> AsyncIterator[Owner]:
    app = await make_app(notify_networks=LOOPBACK, base_url="https://stats.example.com/t")
    async with receiving() as receiver:
        browser = await logged_in(app)
        yield Owner(app, browser, receiver)


async def test_a_webhook_is_signed_by_the_key_and_by_both_after_a_rotation(owner: Owner) -> None:
    made = await owner.channel()
    await owner.raise_notice("a")
    await settle(owner.app)
    (received,) = owner.receiver.received
    # The library compares the timestamp with the system's clock, which is not that of the test.
    webhook = Webhook(made["secret"])
    signed = received.headers["webhook-id"], received.headers["webhook-timestamp"]
    assert signed[1] == str(NOON_MS // 1000)
    body = json.loads(received.body)
    assert body["type"] == "server.problem"
    assert body["timestamp"] == iso(NOON_MS)
    assert body["data"]["url"] == "https://stats.example.com/t/account"
    assert (body["data"]["title"], body["data"]["details"]) == ("Title a", {"n": 1})
    assert _is_signed(webhook, received)
    new = (await owner.browser("POST", f"{CHANNELS}/{made['id']}/secret")).json["data"]["secret"]
    await owner.raise_notice("b")
    await settle(owner.app)
    assert _is_signed(webhook, owner.receiver.received[1])
    assert _is_signed(Webhook(new), owner.receiver.received[1])
    assert not _is_signed(Webhook(base64.b64encode(b"another key of 32 bytes, nothing").decode()), received)
    owner.app.clock.advance(24 * 3600)
    await owner.raise_notice("c")
    await settle(owner.app)
    assert not _is_signed(webhook, owner.receiver.received[2])
    assert _is_signed(Webhook(new), owner.receiver.received[2])


def _is_signed(webhook: Webhook, received: Any, body: bytes | None = None) -> bool:
    """Return whether the reference library of Standard Webhooks accepts a request, at its own time."""

    class AtThatTime(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(int(received.headers["webhook-timestamp"]), UTC)

    before = library.datetime
    library.datetime = AtThatTime
    try:
        webhook.verify(body or received.body, received.headers)
    except WebhookVerificationError:
        return False
    finally:
        library.datetime = before
    return True


async def test_what_people_read_is_no_markup_and_no_mention(owner: Owner) -> None:
    for kind, more in (("ntfy", {"topic": "tally", "token": "tk_1"}), ("slack", {}), ("discord", {}), ("apprise", {})):
        await owner.channel(kind, **more)
    content = says(HOSTILE, HOSTILE, "/account")
    await sender_of(owner.app).add(New(1, "goal.reached", "x", content, NOON_MS + DAY_MS, is_urgent=True))
    await settle(owner.app)
    bodies = {len(json.loads(one.body)): (one, json.loads(one.body)) for one in owner.receiver.received}
    by_key = {next(iter(body)): (one, body) for one, body in bodies.values()}
    by_key |= {next(iter(json.loads(one.body))): (one, json.loads(one.body)) for one in owner.receiver.received}
    ntfy, body = by_key["topic"]
    assert ntfy.headers["authorization"] == "Bearer tk_1"
    assert body == {
        "topic": "tally",
        "title": HOSTILE,
        "message": HOSTILE,
        "priority": 5,
        "tags": ["warning"],
        "click": "https://stats.example.com/t/account",
    }
    slack = by_key["text"][1]
    for text in (slack["text"], slack["blocks"][0]["text"]["text"]):
        assert "<!" not in text
        assert "@e" not in text
        assert text.count("<") == 1  # our own link
        assert "&lt;!channel&gt;" in text
    discord = by_key["embeds"][1]
    assert discord["allowed_mentions"] == {"parse": []}
    assert discord["embeds"][0]["title"] == HOSTILE
    apprise = by_key["title"][1]
    assert (apprise["type"], apprise["format"]) == ("warning", "text")


async def test_a_fact_is_sent_once(owner: Owner) -> None:
    await owner.channel()
    assert [await owner.raise_notice("same") for _ in range(3)] == [1, 0, 0]
    await settle(owner.app)
    await owner.raise_notice("same")
    await settle(owner.app)
    assert len(owner.receiver.received) == 1


async def test_without_channels_nothing_is_stored_and_nothing_runs(owner: Owner) -> None:
    assert await owner.raise_notice("a") == 0
    await owner.app.restart()
    await settle(owner.app)
    sender: Any = sender_of(owner.app)
    sender.each_second(0)
    assert (sender._looking, sender._next_ms, sender._delivery) == (None, None, None)


async def test_what_was_being_sent_at_a_crash_is_sent_again_with_the_same_id(owner: Owner) -> None:
    await owner.channel()
    await owner.raise_notice("a")
    arrived = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await asyncio.sleep(3600)
        return web.Response()

    owner.receiver.answer = hang
    sender_of(owner.app).each_second(0)
    await arrived.wait()
    assert owner.states() == ["sending"]
    await owner.app.restart()
    owner.receiver.answer = None
    await settle(owner.app)
    assert owner.states() == ["sent"]
    assert len({one.headers["webhook-id"] for one in owner.receiver.received}) == 1


# --- retries


async def test_retries_and_their_times(owner: Owner) -> None:
    await owner.channel()
    owner.receiver.status = 503
    await owner.raise_notice("a")
    for attempt, wait_s in enumerate((5, 300, 1_800, 7_200, 18_000, 36_000), start=1):
        await settle(owner.app)
        assert len(owner.receiver.received) == attempt
        owner.app.clock.advance(wait_s * 0.89)
        await settle(owner.app)
        assert len(owner.receiver.received) == attempt
        owner.app.clock.advance(wait_s * 0.22)
    await settle(owner.app)
    assert len(owner.receiver.received) == 7
    assert owner.states() == ["failed"]
    counts = sender_of(owner.app).counts
    assert (counts["retried"], counts["failed"], counts["sent"]) == (6, 1, 0)


async def test_retry_after_is_honoured_up_to_six_hours_for_all_that_waits(owner: Owner) -> None:
    await owner.channel()
    owner.receiver.status, owner.receiver.headers = 429, {"Retry-After": "3600"}
    await owner.raise_notice("a")
    await settle(owner.app)
    await owner.raise_notice("b")
    owner.app.clock.advance(1)
    await settle(owner.app)
    first = len(owner.receiver.received)
    owner.receiver.headers = {"Retry-After": "999999999"}
    owner.app.clock.advance(3590)
    await settle(owner.app)
    assert len(owner.receiver.received) == first
    owner.app.clock.advance(20)
    await settle(owner.app)
    after = len(owner.receiver.received)
    assert after > first
    owner.receiver.status = 200
    owner.app.clock.advance(6 * 3600 - 5)
    await settle(owner.app)
    assert len(owner.receiver.received) == after
    owner.app.clock.advance(10)
    await settle(owner.app)
    assert owner.states() == ["sent", "sent"]


@cases(
    ("text", "wait_ms"),
    [("5", 5_000), ("", 0), ("-1", 0), ("1e9", 0), ("soon", 0), ("²", 0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0)],
)
def test_the_header_retry_after(text: str, wait_ms: int) -> None:
    assert delivery._asked_wait_ms(text) == wait_ms


async def test_gone_pauses_and_another_channel_says_so(owner: Owner) -> None:
    made = await owner.channel()
    owner.receiver.status = 410
    await owner.raise_notice("a")
    await settle(owner.app)
    assert owner.states() == ["failed"]
    assert await owner.paused(made["id"])
    async with receiving() as other:
        await owner.channel("discord", url=other.url)
        await owner.raise_notice("b")
        await settle(owner.app)
        assert len(owner.receiver.received) == 1
        await owner.browser("PATCH", f"{CHANNELS}/{made['id']}", {"paused": False})
        await settle(owner.app)
        assert [json.loads(one.body)["embeds"][0]["title"] for one in other.received] == [
            "Title b",
            "Channel paused: webhook",
        ]
    assert await owner.paused(made["id"])


async def test_five_failed_notices_pause_a_channel_until_it_is_resumed(owner: Owner) -> None:
    made = await owner.channel()
    owner.receiver.status = 400
    for number in range(5):
        await owner.raise_notice(f"{number}")
    for _ in range(44):
        await settle(owner.app)
        assert not await owner.paused(made["id"]) or owner.states() == ["failed"] * 5
        owner.app.clock.advance(1_800)
    assert await owner.paused(made["id"])
    before = len(owner.receiver.received)
    await owner.raise_notice("later")
    await settle(owner.app)
    assert len(owner.receiver.received) == before
    owner.receiver.status = 200
    await owner.browser("PATCH", f"{CHANNELS}/{made['id']}", {"paused": False})
    await settle(owner.app)
    assert owner.states()[-1] == "sent"
    assert not await owner.paused(made["id"])


async def test_a_notice_that_is_too_old_expires(owner: Owner) -> None:
    made = await owner.channel()
    await owner.browser("PATCH", f"{CHANNELS}/{made['id']}", {"paused": True})
    await owner.raise_notice("a")
    owner.app.clock.advance(25 * 3600)
    await owner.browser("PATCH", f"{CHANNELS}/{made['id']}", {"paused": False})
    await settle(owner.app)
    assert owner.states() == ["expired"]
    assert sender_of(owner.app).counts["expired"] == 1
    assert owner.receiver.received == []


async def test_notices_are_kept_for_90_days(owner: Owner) -> None:
    await owner.channel("feed")
    await owner.raise_notice("old")
    owner.app.clock.advance(89 * 24 * 3600)
    await owner.raise_notice("new")
    await settle(owner.app)
    assert len(owner.states()) == 2
    owner.app.clock.advance(2 * 24 * 3600)
    await settle(owner.app)
    assert len(owner.states()) == 1


# --- limits


async def test_at_most_20_messages_an_hour_and_the_rest_as_one(owner: Owner) -> None:
    await owner.channel()
    for number in range(45):
        await owner.raise_notice(f"{number}")
    await settle(owner.app)
    assert len(owner.receiver.received) == 20
    last = json.loads(owner.receiver.received[-1].body)
    assert last["type"] == "notices"
    assert [one["data"]["title"] for one in last["data"]["notices"]] == [f"Title {n}" for n in range(19, 29)]
    assert last["data"]["more"] == 16
    assert owner.states() == ["sent"] * 45
    await owner.raise_notice("45")
    await owner.raise_notice("46")
    await settle(owner.app)
    assert len(owner.receiver.received) == 20
    owner.app.clock.advance(3601)
    await settle(owner.app)
    assert owner.states() == ["sent"] * 47


async def test_a_message_of_several_says_how_many_more(owner: Owner) -> None:
    await owner.channel("discord", quiet={"from": "00:00", "to": "00:01", "time_zone": "UTC"})
    for number in range(14):
        await owner.raise_notice(f"{number}")
    await settle(owner.app)
    (received,) = owner.receiver.received
    (embed,) = json.loads(received.body)["embeds"]
    assert embed["title"] == "14 notices"
    assert embed["description"].split("\n")[9:] == ["- Title 9", "and 4 more"]


async def test_the_notices_of_a_message_stay_the_same_while_it_is_repeated(owner: Owner) -> None:
    await owner.channel(quiet={"from": "00:00", "to": "00:01", "time_zone": "UTC"})
    owner.receiver.status = 500
    await owner.raise_notice("a")
    await owner.raise_notice("b")
    await settle(owner.app)
    await owner.raise_notice("c")
    owner.receiver.status = 200
    owner.app.clock.advance(6)
    await settle(owner.app)
    first, second, third = owner.receiver.received
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"] != third.headers["webhook-id"]
    assert json.loads(third.body)["data"]["title"] == "Title c"


async def test_a_body_stays_small(owner: Owner) -> None:
    await owner.channel(quiet={"from": "00:00", "to": "00:01", "time_zone": "UTC"})
    for number in range(10):
        content = says("ü" * 5_000, "ü" * 50_000, "/account")
        await sender_of(owner.app).add(New(1, "test", f"{number}", content, NOON_MS + DAY_MS))
    await settle(owner.app)
    (received,) = owner.receiver.received
    assert len(received.body) <= requests.MAX_BODY_BYTES
    data = json.loads(received.body)["data"]
    assert len(data["notices"]) + data["more"] == 10


async def test_quiet_hours_hold_normal_notices_and_let_urgent_ones_pass(owner: Owner) -> None:
    # It is 12:00 in UTC, 13:00 in Berlin.
    await owner.channel(quiet={"from": "12:30", "to": "14:00", "time_zone": "Europe/Berlin"})
    await owner.raise_notice("a")
    await owner.raise_notice("b")
    await owner.raise_notice("now", is_urgent=True)
    await settle(owner.app)
    assert [json.loads(one.body)["data"]["title"] for one in owner.receiver.received] == ["Title now"]
    owner.app.clock.advance(3_590)
    await settle(owner.app)
    assert len(owner.receiver.received) == 1
    owner.app.clock.advance(11)
    await settle(owner.app)
    assert [one["data"]["title"] for one in json.loads(owner.receiver.received[1].body)["data"]["notices"]] == [
        "Title a",
        "Title b",
    ]


@cases(
    ("begin", "end", "zone", "now", "until"),
    [
        (1320, 420, "UTC", "2026-11-18T21:59:00Z", None),
        (1320, 420, "UTC", "2026-11-18T22:00:00Z", "2026-11-19T07:00:00Z"),
        (1320, 420, "UTC", "2026-11-19T06:59:00Z", "2026-11-19T07:00:00Z"),
        (1320, 420, "UTC", "2026-11-19T07:00:00Z", None),
        (60, 180, "UTC", "2026-11-19T01:00:00Z", "2026-11-19T03:00:00Z"),
        (1320, 420, "America/New_York", "2026-11-19T03:00:00Z", "2026-11-19T12:00:00Z"),
        # 02:30 does not exist on this day, and exists twice on the other.
        (1320, 150, "Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T01:30:00Z"),
        (1320, 150, "Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T00:30:00Z"),
        (1320, 150, "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-25T01:30:00Z"),
    ],
)
def test_the_end_of_quiet_hours(begin: int, end: int, zone: str, now: str, until: str | None) -> None:
    found = quiet_until_ms(Quiet(begin, end, zone), _ms(now))
    assert found == (None if until is None else _ms(until))


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


# --- the database, the clock


async def test_while_the_database_is_locked_nothing_is_claimed(owner: Owner) -> None:
    await owner.channel()
    await owner.raise_notice("a")
    await owner.app.database.writer.run(lambda connection: connection.execute("pragma busy_timeout = 50"))
    other = sqlite3.connect(owner.app.db, isolation_level=None)
    other.execute("begin immediate")
    sender: Any = sender_of(owner.app)
    for _ in range(3):
        sender.each_second(0)
        while sender._looking is not None or sender._sending:
            await asyncio.sleep(0.01)
    assert owner.receiver.received == []
    assert owner.states() == ["waiting"]
    other.execute("rollback")
    other.close()
    while not owner.app.database.health.is_writable:
        await asyncio.sleep(0.05)
    owner.app.clock.advance(1)
    await settle(owner.app)
    assert owner.states() == ["sent"]
    assert len(owner.receiver.received) == 1


async def test_what_was_sent_while_the_database_was_locked_is_not_sent_again(owner: Owner) -> None:
    await owner.channel()
    await owner.raise_notice("a")
    await owner.app.database.writer.run(lambda connection: connection.execute("pragma busy_timeout = 50"))
    other = sqlite3.connect(owner.app.db, isolation_level=None, check_same_thread=False)

    async def lock(request: web.Request) -> web.StreamResponse:
        other.execute("begin immediate")
        return web.Response()

    owner.receiver.answer = lock
    sender: Any = sender_of(owner.app)
    sender.each_second(0)
    while owner.app.database.health.is_writable:
        await asyncio.sleep(0.01)
    assert owner.states() == ["sending"]
    other.execute("rollback")
    other.close()
    await settle(owner.app)
    assert owner.states() == ["sent"]
    assert len(owner.receiver.received) == 1


async def test_a_clock_that_jumps_neither_repeats_nor_holds_notices(owner: Owner) -> None:
    await owner.channel()
    owner.receiver.status = 500
    await owner.raise_notice("a")
    await settle(owner.app)
    owner.app.clock.set_wall(NOON_MS - 400 * DAY_MS)
    owner.app.clock.check()
    owner.receiver.status = 200
    await settle(owner.app)
    assert len(owner.receiver.received) == 1
    owner.app.clock.advance(6)
    await settle(owner.app)
    assert owner.states() == ["sent"]
    # What was stored while the clock was years ahead is not waited for.
    await owner.raise_notice("b")
    await owner.app.admin(
        lambda connection: connection.execute(
            "update notice set due_ms = due_ms + ?, state = 'waiting'", (2_000 * DAY_MS,)
        )
    )
    sender_of(owner.app).wake()
    await settle(owner.app)
    assert owner.states() == ["sent", "sent"]


# --- hostile receivers


async def test_slow_receivers_delay_no_other_channel(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "TIMEOUT_S", 2.0)
    gate = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65_536)
        finally:
            gate.set()

    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3600)
        return web.Response()

    async with receiving() as slow, receiving() as flood:
        slow.answer, flood.answer = silent, endless
        for _ in range(3):
            await owner.channel(url=slow.url)
        await owner.channel(url=flood.url)
        for number in range(3):
            await owner.channel("discord", name=f"{number}")
        await owner.raise_notice("a")
        await settle(owner.app)
        assert len(owner.receiver.received) == 3
        await gate.wait()
    states = owner.app.sql("select channel.kind, state, notice.last_error from notice join channel on id = channel")
    assert sorted(states)[:3] == [("discord", "sent", None)] * 3
    errors = [error for kind, _, error in states if kind == "webhook"]
    assert errors.count("the receiver did not answer in time") == 3
    # Of an endless answer the status counts.
    assert errors.count(None) == 1


async def test_a_redirect_is_not_followed(owner: Owner) -> None:
    await owner.channel()
    async with receiving() as inside:
        owner.receiver.status, owner.receiver.headers = 307, {"Location": inside.url}
        await owner.raise_notice("a")
        await settle(owner.app)
        assert inside.received == []
    (error,) = owner.app.sql("select last_error from notice")
    assert error == ("HTTP 307: redirects are not followed",)


async def test_answers_that_are_no_http(owner: Owner) -> None:
    for answer in (b"", b"\r\n\r\n", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000):

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes = answer) -> None:
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        sending = Delivery(sender_of(owner.app).networks)
        outcome = await sending.send(Request(url, {}, b"{}"))
        assert outcome.error in ("the receiver did not answer as HTTP requires", "the connection failed")
        server.close()


INSIDE = (
    *("127.0.0.1", "127.1", "0x7f.1", "2130706433", "017700000001", "localhost", "0.0.0.0", "0"),
    *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]"),
)


@cases("host", INSIDE)
@cases("scheme", ["http", "https"])
async def test_no_connection_reaches_this_machine(host: str, scheme: str) -> None:
    """Without the setting, whatever a channel's URL has become since it was checked."""
    async with receiving() as receiver:
        port = urlsplit(receiver.url).port
        sending = Delivery(())
        outcome = await sending.send(Request(f"{scheme}://{host}:{port}/", {}, b"{}"))
        assert "--notify-networks" in outcome.error or outcome.error == "the URL is not valid", outcome
        assert receiver.received == []


async def test_a_name_that_changes_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address that is connected to is the one that is checked, whatever the name said before."""
    real, answers = socket.getaddrinfo, ["8.8.8.8", "127.0.0.1"]

    def changing(host: Any, *more: Any, **options: Any) -> Any:
        return real(answers.pop(0) if host == "rebind.example" and len(answers) > 1 else "127.0.0.1", *more, **options)

    async with receiving() as receiver:
        monkeypatch.setattr(socket, "getaddrinfo", changing)
        assert changing("rebind.example", 80)[0][4][0] == "8.8.8.8"
        sending = Delivery(())
        outcome = await sending.send(Request(f"https://rebind.example:{urlsplit(receiver.url).port}/", {}, b"{}"))
        assert "--notify-networks" in outcome.error
        assert receiver.received == []


async def test_look_ups_that_hang_hold_nothing_up(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither other channels, nor the end of the server: their threads are not waited for."""
    monkeypatch.setattr(delivery, "TIMEOUT_S", 2.0)
    real, gate = socket.getaddrinfo, threading.Event()

    def hanging(host: Any, *more: Any, **options: Any) -> Any:
        if host == "hangs.example":
            gate.wait()
        return real("127.0.0.1", *more, **options)

    await owner.channel(url="https://hangs.example/")
    await owner.channel("discord")
    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    await owner.raise_notice("a")
    await settle(owner.app)
    assert len(owner.receiver.received) == 1
    (thread,) = [one for one in threading.enumerate() if one.name == "notice name"]
    assert thread.daemon
    gate.set()
    thread.join()
    sending = Delivery(())
    monkeypatch.setattr(delivery, "_MAX_LOOK_UPS", 0)
    assert (await sending.send(Request("https://a.example/", {}, b""))).error == "the host name was not found"


async def test_no_proxy_no_cookie_no_credentials(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        owner.receiver.headers = {"Set-Cookie": "a=b"}
        await owner.channel()
        for fact in "ab":
            await owner.raise_notice(fact)
        await settle(owner.app)
        assert proxy.received == []
    for one in owner.receiver.received:
        assert "cookie" not in one.headers
        assert "authorization" not in one.headers
    assert len(owner.receiver.received) == 2


def test_the_waits_are_shorter_than_what_a_stored_time_may_say() -> None:
    assert max(*outbox.RETRIES_MS, outbox.MAX_ASKED_WAIT_MS, 24 * HOUR_MS) * 1.01 < outbox._MAX_WAIT_MS
