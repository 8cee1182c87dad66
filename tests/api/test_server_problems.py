"""Problems of the server reach the owner of the installation, once a day, also while the database cannot be written."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import feedparser
import pytest
import trustme

from tally.clock import Clock
from tally.http.tls import Tls
from tally.notices.outbox import New
from tally.notices.server_problems import ServerProblems
from tally.timestamps import DAY_MS
from tally.web.notices import is_late as is_certificate_late
from tally.web.notices import problems_of
from tests.support.app import NOON_MS, MakeApp
from tests.support.page_client import PageClient, logged_in
from tests.support.receiver import LOOPBACK, Receiver, receiving, says, sender_of, settle

CHANNELS = "/api/account/channels"


class Installation:
    """An application whose owner has a webhook and a feed."""

    def __init__(self, app: Any, owner: PageClient, receiver: Receiver) -> None:
        self.app, self.owner, self.receiver = app, owner, receiver
        self.problems = ServerProblems(
            sender_of(app), app.clock, lambda: problems_of(app.application, app.node), lambda: 1
        )

    async def check(self, seconds: float = 0) -> None:
        self.app.clock.advance(seconds)
        await self.problems.check()
        await settle(self.app)

    @property
    def received(self) -> list[str]:
        return [json.loads(one.body)["data"]["details"]["problem"] for one in self.receiver.received]


@pytest.fixture
async def installation(make_app: MakeApp, tmp_path: Path) -> AsyncIterator[Installation]:
    app = await make_app(notify_networks=LOOPBACK, backup_dir=tmp_path / "no directory")
    async with receiving() as receiver:
        owner = await logged_in(app)
        body = {"kind": "webhook", "name": "Ops", "url": receiver.url}
        assert (await owner("POST", CHANNELS, body)).status == 201
        yield Installation(app, owner, receiver)


async def test_a_failed_backup_is_reported_once_a_day(installation: Installation) -> None:
    while not installation.app.node.engine.health().has_failed_backup:
        await installation.app.node.tick()
        await asyncio.sleep(0.01)
    await installation.check()
    await installation.check(59)
    assert installation.received == []
    await installation.check(2)
    assert installation.received == ["backup_failed"]
    await installation.check(3_600)
    assert installation.received == ["backup_failed"]
    # Nor does another process repeat it.
    again = Installation(installation.app, installation.owner, installation.receiver)
    await again.check()
    await again.check(61)
    assert installation.received == ["backup_failed"]
    await installation.check(24 * 3_600)
    assert installation.received == ["backup_failed"] * 2
    body = json.loads(installation.receiver.received[0].body)
    assert (body["type"], body["data"]["priority"]) == ("server.problem", "urgent")


async def test_little_disk_space_is_reported(make_app: MakeApp) -> None:
    app = await make_app(notify_networks=LOOPBACK)
    owner = await logged_in(app)
    async with receiving() as receiver:
        await owner("POST", CHANNELS, {"kind": "discord", "name": "Ops", "url": receiver.url})
        installation = Installation(app, owner, receiver)
        health = app.database.health
        health._min_free_bytes = 1 << 60
        real = health.space_now
        health.space_now = lambda: real()._replace(min_bytes=1 << 60)
        app.database.check_health()
        assert health.state == "low"
        await installation.check()
        await installation.check(61)
        assert json.loads(receiver.received[0].body)["embeds"][0]["title"] == "Disk space is low"


async def test_a_short_fault_is_not_reported(installation: Installation) -> None:
    health = installation.app.database.health
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    for _ in range(3):
        health.failed(failure)
        await installation.check(30)
        health.cured()
        await installation.check(40)
    assert "database_fault" not in installation.received


async def test_a_fault_of_the_database_is_sent_without_it_and_stored_later(installation: Installation) -> None:
    health = installation.app.database.health
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    async with receiving() as other:
        other.status = 500
        await installation.owner("POST", CHANNELS, {"kind": "webhook", "name": "B", "url": other.url})
        await installation.owner("POST", CHANNELS, {"kind": "feed", "name": "Reader"})
        # Recovery begins not before this, and ends the fault when a check of the file finds no damage.
        health.failed(failure)
        health.not_before_s = float("inf")
        await installation.problems.check()
        installation.app.clock.advance(61)
        await installation.problems.check()
        assert "database_fault" in installation.received
        assert other.received != []
        assert installation.app.sql("select * from notice where key like '%database_fault%'") == []
        other.status = 200
        health.not_before_s = 0.0
        while not health.is_writable:
            await asyncio.sleep(0.05)
        await installation.check(6)
        rows = installation.app.sql("select channel.name, state from notice join channel on id = channel order by 1")
        rows = [row for row in rows if row[0] in ("B", "Ops", "Reader")]
        assert {("B", "sent"), ("Ops", "sent"), ("Reader", "sent")} <= set(rows)
        assert installation.received.count("database_fault") == 1
        ids = [one.headers["webhook-id"] for one in other.received if b"database_fault" in one.body]
        assert (len(ids), len(set(ids))) == (2, 1)


async def test_without_a_channel_nothing_is_reported(make_app: MakeApp) -> None:
    app = await make_app()
    installation = Installation(app, await logged_in(app), Receiver())
    app.database.health.is_low = True
    await installation.check()
    await installation.check(61)
    assert app.sql("select * from notice") == []


def test_a_certificate_that_was_not_renewed(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("stats.example.com")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(key))
    tls, now_s = Tls(cert, key), Clock().wall_ms() // 1000
    assert tls.certificate is not None
    days = 86_400
    for lifetime_s, left_s, is_late in (
        *((90 * days, 30 * days, False), (90 * days, 11 * days, False), (90 * days, 9 * days, True)),
        *((6 * days, 3 * days, False), (6 * days, days, True), (90 * days, -1, True)),
    ):
        tls.certificate = tls.certificate._replace(begins_s=now_s + left_s - lifetime_s, ends_s=now_s + left_s)
        assert is_certificate_late(tls, now_s) is is_late
    tls.certificate = None
    assert not is_certificate_late(tls, now_s)
    tls.failed = 1
    assert is_certificate_late(tls, now_s)


# --- the feed


async def test_a_feed_has_the_notices_and_ids_that_stay(make_app: MakeApp) -> None:
    app = await make_app(base_url="https://stats.example.com")
    owner = await logged_in(app)
    made = (await owner("POST", CHANNELS, {"kind": "feed", "name": "A & <B>"})).json["data"]
    hostile = "<script>alert(1)</script> & ]]> \x00\x08\ud800 é"
    for fact, text in (("a", "Text"), ("b", hostile)):
        new = New(1, "server.problem", fact, says(f"Title {fact}", text, "/account"), NOON_MS + DAY_MS)
        await sender_of(app).add(new)
        app.clock.advance(60)
    answer = await app.get(made["path"])
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    assert (answer.headers["Cache-Control"], answer.headers["X-Robots-Tag"]) == ("private", "noindex")
    feed = feedparser.parse(answer.body)
    assert (feed.bozo, feed.version, feed.feed.title) == (False, "atom10", "Tally: A & <B>")
    assert [entry.title for entry in feed.entries] == ["Title b", "Title a"]
    assert feed.entries[0].content[0].type == "text/plain"
    assert feed.entries[0].content[0].value == hostile.replace("\x00\x08\ud800", "\ufffd" * 3)
    assert feed.entries[0].link == "https://stats.example.com/account"
    # What has been read is not sent again, and ids stay.
    assert (await app.get(made["path"], headers={"If-None-Match": answer.headers["ETag"]})).status == 304
    await owner("POST", f"{CHANNELS}/{made['id']}/test")
    again = feedparser.parse((await app.get(made["path"])).body)
    assert [entry.id for entry in again.entries[1:]] == [entry.id for entry in feed.entries]
    assert again.entries[0].title == "Test from Tally"
    # Another address takes the place of the first.
    path = (await owner("POST", f"{CHANNELS}/{made['id']}/secret")).json["data"]["path"]
    assert [(await app.get(one)).status for one in (made["path"], path)] == [404, 200]


async def test_feeds_that_do_not_exist(make_app: MakeApp) -> None:
    app = await make_app(key_per_minute=20)
    owner = await logged_in(app)
    made = (await owner("POST", CHANNELS, {"kind": "webhook", "name": "x", "url": "https://example.com"})).json["data"]
    for token in ("x" * 24, made["secret"].replace("/", "%2F").replace("+", "%2B"), "None", "%00", "é"):
        assert (await app.get(f"/feeds/{token}.xml")).status == 404
    statuses = {(await app.get("/feeds/x.xml")).status for _ in range(30)}
    assert statuses == {404, 429}
