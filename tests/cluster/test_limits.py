"""What is bounded, and what rarely happens: ClickHouse is away for too long, has no space, or ends while a day is
settled; and a website is deleted. The server runs in this process, with ClickHouse's engine of test_follow.py.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tally.accounts.websites import delete_website
from tally.clickhouse.client import NoAnswer
from tally.clickhouse.schema import OF_WEBSITES
from tally.cluster import join, joiner, outbox, settler, setup
from tally.cluster.engine import FollowEngine, KeepEngine
from tally.engine.values import Requester, Scope
from tally.events.filters import Filter
from tally.settings import Settings
from tally.storage.database import BadDatabase, open_database
from tests.cluster.engine import needs_clickhouse, new_key_file
from tests.cluster.test_follow import ClickHouse, Gate, clickhouse
from tests.support.aged_database import DAY_MS, TODAY, import_lines
from tests.support.app import Answer, App, ManualClock, wait_until

pytestmark = needs_clickhouse
__all__ = ["clickhouse"]
# With a filter: without one it is a sum of totals, which are SQLite's.
WHOLE = Scope(1, (TODAY - 9) * DAY_MS, (TODAY + 9) * DAY_MS, (Filter("type", "=", ("pageview",)),))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joiner, "QUIET_S", 0)


@asynccontextmanager
async def running(db: Path, clickhouse: ClickHouse | Gate, mode: str, clock: ManualClock) -> AsyncIterator[App]:
    """Yield the server of a file, which is made where it is missing; its clock alone decides what is late."""
    words: Any = {"clickhouse": (clickhouse.url,), "cluster_mode": mode, "cluster_ack_seconds": 1}
    if mode == "keep":
        words["cluster_key"] = new_key_file(db.parent)
    settings = Settings(db=db, **words)
    if not db.exists():
        with closing(open_database(db, create=True)) as connection:
            await setup.init(connection, settings, again=False)
    app = App(settings, clock, lambda node: (KeepEngine if mode == "keep" else FollowEngine)(node))
    await app.open()
    try:
        await wait_until(lambda: not app.running.shipper.problem)
        yield app
    finally:
        await app.close()


async def send(app: App, website: str, number: int) -> Answer:
    """Send a page view, whose page is a number, and a measurement."""
    common = {"website_id": website, "url": f"https://example.com/{number}", "session_id": f"session-of-{number % 2}"}
    vitals = common | {"type": "vitals", "vitals": {"lcp": 1_000 + number}}
    return await app.collect({"events": [common | {"type": "pageview", "event_id": f"event-{number}"}, vitals]})


def pages(app: App) -> list[str]:
    """Return the pages that SQLite has, each as often as it is stored."""
    rows = app.sql("select text from event join label on label.id = pathname order by text")
    return [text for (text,) in rows]


def copied(app: App, clickhouse: ClickHouse) -> list[str]:
    """Return the same of ClickHouse's copy, which has as many measurements."""
    ((copy,),) = app.sql("select copy from cluster_copy where state = 'joined'")
    rows = clickhouse.rows(f"select toString(pathname) as p from event where website = {copy} order by p")
    assert clickhouse.rows(f"select count() from measure where website = {copy}") == [[len(rows)]]
    return [text for (text,) in rows]


async def joined_again(app: App, clickhouse: ClickHouse, pageviews: int) -> None:
    """The server copies the website anew, and ClickHouse answers as SQLite does."""
    await wait_until(lambda: not app.running.outbox.bytes)
    assert app.sql("select distinct state, reason from cluster_copy") == [("ended", "ClickHouse was away for too long")]
    assert not await app.running.joiner.work()
    # A command that copies websites goes first.
    lock = join.lock(app.settings)
    assert not await app.running.joiner.work()
    os.close(lock)
    # A lock that nothing can have is a failure: no other process would end it.
    place = app.settings.db.with_name(app.settings.db.name + ".join.lock")
    place.unlink()
    place.symlink_to("elsewhere")
    with pytest.raises(BadDatabase, match="cannot be used"):
        await app.running.joiner.work()
    place.unlink()
    assert await app.running.joiner.work()
    await is_answered(app, "clickhouse", pageviews)


async def is_answered(app: App, engine: str, pageviews: int, *websites: int) -> None:
    """An engine answers a report about some websites, as SQLite does."""
    reports = app.running.reports
    for website in websites or (1,):
        before, scope = reports.by_clickhouse, WHOLE._replace(website=website)
        found = await reports.stats([scope], Requester())
        assert found == await app.running.sqlite_reports.stats([scope], Requester())
        assert (found[0].pageviews, reports.by_clickhouse - before) == (pageviews, engine == "clickhouse")


def test_a_full_outbox_ends_the_copies_and_collecting_goes_on(
    tmp_path: Path, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with running(tmp_path / "analytics.db", clickhouse, "follow", ManualClock()) as app:
            website, number, own = await app.website(), 0, app.running.outbox
            assert (await send(app, website, number)).status == 202
            await wait_until(lambda: not app.running.shipper.lag)
            await is_answered(app, "clickhouse", 1)
            clickhouse.kill()
            monkeypatch.setattr(outbox, "MAX_BYTES", 3_000)
            while app.sql("select state from cluster_copy") == [("joined",)]:
                number += 1
                assert (await send(app, website, number)).status == 202
                assert own.bytes < 5_000
            size = own.bytes
            for later in range(number + 1, number + 4):
                assert (await send(app, website, later)).status == 202
            assert own.bytes == size > 3_000
            await is_answered(app, "sqlite", len(pages(app)))
            clickhouse.start()
            await joined_again(app, clickhouse, len(pages(app)))

    asyncio.run(work())


def test_a_full_outbox_refuses_events_in_keep(
    tmp_path: Path, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with running(tmp_path / "analytics.db", clickhouse, "keep", ManualClock()) as app:
            website, own = await app.website(), app.running.outbox
            assert (await send(app, website, 0)).status == 202
            clickhouse.kill()
            monkeypatch.setattr(outbox, "MAX_BYTES", 3_000)
            sent: list[asyncio.Task[Answer]] = []
            # What is stored waits for ClickHouse.
            while not any(answer.done() for answer in sent):
                last = own.last
                sent.append(asyncio.create_task(send(app, website, len(sent) + 1)))
                await wait_until(lambda last=last: own.last > last or sent[-1].done())
                assert own.bytes < 5_000
            refused = await sent.pop()
            assert refused.status == 503
            assert refused.json["error"]["code"] == "storage_unavailable"
            assert not app.running.confirmed.refusal
            assert (await send(app, website, len(sent) + 1)).status == 503
            assert len(pages(app)) == len(sent) + 1 > 3
            clickhouse.start()
            assert {(await answer).status for answer in sent} == {202}
            assert copied(app, clickhouse) == pages(app)
            assert len(pages(app)) == len(sent) + 1
            assert (await send(app, website, len(sent) + 1)).status == 202

    asyncio.run(work())


def test_a_commit_of_which_a_part_may_be_stored_is_not_sent_after_six_days(
    tmp_path: Path, clickhouse: ClickHouse
) -> None:
    """ClickHouse does not know its token any more. The way out of keep is to follow."""
    gate, clock, db = Gate(clickhouse), ManualClock(), tmp_path / "analytics.db"

    async def work() -> None:
        async with running(db, gate, "keep", clock) as app:
            website = await app.website()
            assert (await send(app, website, 0)).status == 202
            gate.choose("shipped", "before", clickhouse.kill)
            unanswered = asyncio.create_task(send(app, website, 1))
            assert await asyncio.to_thread(gate.is_done.wait, 60)
            for tokens in (tmp_path / "clickhouse").rglob("deduplication_logs"):
                shutil.rmtree(tokens)
            clock.advance(6 * 86_400 + 1)
            clickhouse.start()
            await wait_until(lambda: "more than six days" in app.running.shipper.problem)
            with pytest.raises(aiohttp.ClientError):
                await unanswered
            assert (await send(app, website, 2)).status == 503
            assert "more than six days" in (await app.get("/healthz")).text
            assert copied(app, clickhouse) == ["/0", "/1"]
        async with running(db, gate, "follow", clock) as app:
            assert (await send(app, website, 2)).status == 202
            await joined_again(app, clickhouse, 3)

    asyncio.run(work())
    gate.shutdown()
    gate.server_close()


def test_events_are_refused_while_clickhouse_has_too_many_parts_or_no_space(
    tmp_path: Path, clickhouse: ClickHouse
) -> None:
    async def work() -> None:
        async with running(tmp_path / "analytics.db", clickhouse, "keep", ManualClock()) as app:
            website, number = await app.website(), 0
            assert (await send(app, website, number)).status == 202
            # Of one table of two: the other one has stored its rows.
            for code, name in ((252, "max_parts_in_total"), (243, "min_free_disk_ratio_to_perform_insert")):
                clickhouse.execute(f"alter table event modify setting {name} = 1")
                unanswered = asyncio.create_task(send(app, website, number + 1))
                await wait_until(lambda code=code: f"code {code}" in app.running.shipper.problem)
                app.clock.advance(1)
                with pytest.raises(aiohttp.ClientError):
                    await unanswered
                assert (await send(app, website, number + 2)).status == 503
                assert f"code {code}" in (await app.get("/healthz")).text
                clickhouse.execute(f"alter table event reset setting {name}")
                await wait_until(lambda: not app.running.confirmed.refusal)
                number += 2
                assert (await send(app, website, number)).status == 202
                assert copied(app, clickhouse) == pages(app)
            assert len(pages(app)) == 5

    asyncio.run(work())


def test_an_end_while_a_day_is_settled_and_deleted_websites_leave_nothing(
    tmp_path: Path, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, clock, db = Gate(clickhouse), ManualClock(), tmp_path / "analytics.db"
    versions = "select website, groupUniqArray(version) from {} group by website order by website"

    async def work() -> None:
        async with running(db, gate, "keep", clock) as app:
            # By its time, and not by that of the server's clock, event_ids have expired.
            clickhouse.execute("alter table event_id remove ttl")
            own, websites = app.running, [await app.website("imported.example"), await app.website("new.example")]
            sums = {"type": "imported_sum", "day": "2020-01-01", "field": "total", "visitors": 4}
            assert import_lines(db, 1, [sums]) == (0, 0, 0)
            with closing(open_database(db, create=False)) as connection:
                await join.join(connection, app.settings, own.servers, 1, lambda sent: None)
            heat = {"type": "heatmap", "url": "https://example.com/", "viewport_width": 1440, "x": 0.5, "y": 30}
            for number in range(6):
                for website in websites:
                    assert (await send(app, website, number)).status == 202
                    assert (await app.collect(heat | {"website_id": website})).status == 202
            clock.advance(5 * 86_400)
            gate.choose("settled_day", "before", clickhouse.kill)
            with pytest.raises(NoAnswer):
                await own.settler.work()
            clickhouse.start()
            await wait_until(lambda: not own.shipper.problem)
            # Rows of a version that is not named are not read.
            ((copy, attempted),) = clickhouse.rows(versions.format("settled"))
            assert (attempted, clickhouse.rows("select * from settled_day")) == ([1], [])
            await is_answered(app, "clickhouse", 6, 1, 2)
            assert await own.settler.work()
            assert clickhouse.rows(versions.format("settled_day")) == [[copy, [2]]]
            await is_answered(app, "clickhouse", 6, 1, 2)
            monkeypatch.setattr(settler, "KEPT_S", 0)
            while await own.settler.work():
                pass
            assert [[copy, [2]]] == [row for row in clickhouse.rows(versions.format("settled")) if row[0] == copy]
            assert clickhouse.rows("select count() from event") == [[0]]
            await is_answered(app, "clickhouse", 6, 1, 2)
            for website in websites:
                assert (await send(app, website, 6)).status == 202
            tables = {*OF_WEBSITES, "event_id"}
            assert tables >= {"event", "settled", "settled_day", "measure", "heat", "day_sum", "copy"}
            assert not empty(tables)
            for number in (1, 2):
                await app.admin(lambda connection, number=number: delete_website(connection, number, clock.wall_ms()))
            await wait_until(lambda: empty(tables) == tables)

    def empty(tables: set[str]) -> set[str]:
        return {table for table in tables if clickhouse.rows(f"select count() from {table}") == [[0]]}

    asyncio.run(work())
    gate.shutdown()
    gate.server_close()
