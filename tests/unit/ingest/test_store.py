"""tally/ingest/store.py: group commit, what is answered when, what a failure leaves behind."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tally.errors import ApiError
from tally.ingest.engine import WriteRequest
from tally.storage.connections import READERS
from tests.support.app import App, MakeApp


def view(website: str, path: str = "/", **more: Any) -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": f"https://example.com{path}", **more}


@contextmanager
def write_lock(app: App) -> Iterator[sqlite3.Connection]:
    """Somebody else's open transaction: nothing can be committed while it lasts."""
    connection = sqlite3.connect(app.db, isolation_level=None)
    connection.execute("begin immediate")
    try:
        yield connection
    finally:
        connection.rollback()
        connection.close()


async def written(app: App, request: WriteRequest) -> Any:
    """The outcomes of a request that is appended to the engine."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    app.store.ingest.append(request, future.set_result)
    return await future


async def test_commits_reach_the_disk(app: App) -> None:
    """Committed with fsync (`synchronous=FULL`), which SQLite numbers 2."""
    for pragma, value in (("synchronous", 2), ("journal_mode", "wal"), ("foreign_keys", 1), ("temp_store", 2)):
        assert await app.store._writer.run(lambda c, p=pragma: c.execute(f"pragma {p}").fetchone()) == (value,)


async def test_readers_cannot_write(app: App) -> None:
    for _ in range(3):
        with pytest.raises(ApiError) as refusal:
            await app.store.read(lambda connection: connection.execute("delete from label"))
        assert refusal.value.kind.code == "storage_unavailable"


async def test_no_answer_comes_before_the_commit(app: App) -> None:
    """The answer is sent after the transaction that holds the events has been committed."""
    website = await app.website()
    with write_lock(app):
        sent = asyncio.create_task(app.collect(view(website)))
        # The server lives and answers others meanwhile; this event's answer must not be among them.
        for _ in range(50):
            assert (await app.get("/healthz")).status == 200
        assert not sent.done()
        assert app.sql("select count(*) from event") == [(0,)]
    assert (await sent).status == 202
    assert app.sql("select count(*) from event") == [(1,)]


async def test_concurrent_requests_share_a_commit(app: App) -> None:
    """Concurrent requests share one commit: what gathers during one commit is the next."""
    website = await app.website()
    before = app.store.counters.took.count
    with write_lock(app):
        sent = [asyncio.create_task(app.collect(view(website, f"/{n}"), ip=f"203.0.113.{n}")) for n in range(40)]
        while app.store.queue < 40:
            assert (await app.get("/healthz")).status == 200
    assert [(await one).status for one in sent] == [202] * 40
    # At least one waited for the lock with whatever had come by then, the rest went together.
    assert app.store.counters.took.count - before <= 3
    assert app.sql("select count(*) from event") == [(40,)]


async def test_who_was_just_answered_is_waited_for(app: App) -> None:
    """Clients that send when they are answered stay together, although the next requests come one after the other."""

    async def client(number: int) -> None:
        for _ in range(10):
            await written(app, WriteRequest([], 0))
            for _ in range(number % 12):
                await asyncio.sleep(0)

    before = app.store.counters.took.count
    await asyncio.gather(*map(client, range(24)))
    assert app.store.counters.took.count - before == 10


@pytest.mark.parametrize(("seconds_a_turn", "expected"), [(0, 64), (0.001, 3)], ids=["many events", "for long"])
async def test_enough_is_not_waited_with(
    app: App, monkeypatch: pytest.MonkeyPatch, seconds_a_turn: float, expected: int
) -> None:
    """A group that has gathered enough, or for long enough, begins while others still come."""
    store, website, requests, groups, told = (
        app.store,
        await app.website(),
        list[WriteRequest](),
        list[int](),
        list[object](),
    )
    append, write = store.ingest.append, store.event_writer.write
    monkeypatch.setattr(store.ingest, "append", lambda request, done: (requests.append(request), append(request, done)))
    assert (await app.collect(view(website))).status == 202
    monkeypatch.setattr(store.event_writer, "write", lambda c, group: (groups.append(len(group)), write(c, group))[1])
    await asyncio.gather(*(written(app, requests[0]) for _ in range(9)))
    sent = 0
    while not told and sent < 2_000:
        append(requests[0], told.append)
        sent += 1
        await asyncio.sleep(0)
        app.clock.advance(seconds_a_turn)
    while len(told) < sent:
        await asyncio.sleep(0)
    assert groups[:2] == [9, expected]
    assert app.sql("select count(*) from event") == [(1 + 9 + sent,)]


@pytest.fixture
def poison(app: App) -> Iterator[None]:
    """Makes the file refuse pages called /poison, as a bug of ours would."""
    connection = sqlite3.connect(app.db)
    connection.executescript(
        "create trigger poison before insert on event"
        " when new.pathname = (select id from label where text = '/poison')"
        " begin select raise(abort, 'poison'); end"
    )
    connection.close()
    return


async def test_one_poisoned_job_takes_no_other_with_it(app: App, poison: None) -> None:
    website = await app.website()
    with write_lock(app):
        paths = ["/a", "/poison", "/b", "/c"]
        sent = [asyncio.create_task(app.collect(view(website, path), ip="203.0.113.9")) for path in paths]
        while app.store.queue < 4:
            await app.get("/healthz")
    answers = {path: await one for path, one in zip(paths, sent, strict=True)}
    assert {path: answer.status for path, answer in answers.items()} == {
        "/a": 202,
        "/poison": 500,
        "/b": 202,
        "/c": 202,
    }
    assert answers["/poison"].json["error"]["code"] == "internal_error"
    assert "poison" not in answers["/poison"].text
    assert app.sql("select count(*), count(distinct visitor) from event") == [(3, 1)]
    assert app.sql("select pageviews from visit") == [(3,)]


async def test_a_failed_job_leaves_nothing_behind(app: App, poison: None) -> None:
    """Neither in the file nor in memory: the visit, the labels and the event_id are as if it had never come."""
    website, key = await app.website(), await app.key()
    batch = {
        "website_id": website,
        "events": [
            view(website, "/first", event_id="once", session_id="session-1"),
            view(website, "/new-label", session_id="session-1"),
            view(website, "/poison", session_id="session-1"),
        ],
    }
    assert (await app.collect(batch)).status == 500
    assert app.sql("select count(*) from event, visit, event_id") == [(0,)]
    app.clock.advance(60)
    batch["events"].pop()
    assert (await app.collect(batch)).json == {"ok": True, "accepted": 2, "rejected": 0}
    data = (await app.get(f"/api/v1/websites/{website}/stats", key)).json["data"]
    assert (data["visitors"], data["visits"], data["pageviews"], data["visit_duration"]) == (1, 1, 2, 0)
    top = (await app.get(f"/api/v1/websites/{website}/top/pathname", key)).json["data"]
    assert sorted(row["value"] for row in top) == ["/first", "/new-label"]


async def test_a_question_that_takes_too_long_is_given_up(make_app: MakeApp) -> None:
    """503 `query_timeout` with Retry-After; the connection goes on to serve others."""
    app = await make_app(query_seconds=1)
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n"
    for _ in range(3):
        with pytest.raises(ApiError) as refusal:
            await app.store.read(lambda connection: connection.execute(endless).fetchall())
        assert refusal.value.kind.code == "query_timeout"
        assert refusal.value.headers == {"Retry-After": "30"}
        assert await app.store.read(lambda connection: connection.execute("select 7").fetchall()) == [(7,)]


async def test_what_waits_is_bounded(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 `overloaded` with Retry-After; what waited before it is stored."""
    monkeypatch.setattr("tally.ingest.group_commit.MAX_QUEUED_EVENTS", 30)
    website = await app.website()
    batch = {"website_id": website, "events": [view(website)] * 10}
    with write_lock(app):
        sent = [asyncio.create_task(app.collect(batch, ip="203.0.113.1")) for _ in range(3)]
        while app.store.queue < 30:
            await app.get("/healthz")
        refused = await app.collect(batch, ip="203.0.113.2")
        assert (refused.status, refused.json["error"]["code"]) == (503, "overloaded")
        assert int(refused.headers["Retry-After"]) >= 1
    assert [(await one).json["accepted"] for one in sent] == [10, 10, 10]
    assert app.sql("select count(*) from event") == [(30,)]


async def test_a_full_disk_is_503_and_heals(app: App) -> None:
    """SQLITE_FULL, here by max_page_count: nothing half stored, reads go on, and it recovers by itself."""
    website, key = await app.website(), await app.key()
    assert (await app.collect(view(website))).status == 202
    pages = app.sql("pragma page_count")[0][0]
    await app.store._writer.run(lambda c: c.execute(f"pragma max_page_count = {pages}").fetchall())
    big = {"website_id": website, "events": [view(website, f"/{n}/{'x' * 800}") for n in range(50)]}
    refused = await app.collect(big)
    assert (refused.status, refused.json["error"]["code"]) == (503, "storage_unavailable")
    assert int(refused.headers["Retry-After"]) >= 1
    assert (await app.get("/healthz")).status == 503
    stats = await app.get(f"/api/v1/websites/{website}/stats", key)
    assert (stats.status, stats.json["data"]["pageviews"]) == (200, 1)
    await app.store._writer.run(lambda c: c.execute("pragma max_page_count = 1073741823").fetchall())
    # By itself: whoever routes by health sends nothing until it is well again.
    await app.store.recovery.heal()
    assert (await app.get("/healthz")).status == 200
    assert (await app.collect(big)).json["accepted"] == 50
    assert app.sql("select count(*) from event") == [(51,)]


async def test_ids_grow_over_restarts(app: App) -> None:
    website = await app.website()
    for path in ("/a", "/b"):
        await app.collect(view(website, path))
    await app.restart()
    await app.collect(view(website, "/c"))
    rows = app.sql("select text from event join label on label.id = pathname order by event.id")
    assert [path for (path,) in rows] == ["/a", "/b", "/c"]


async def test_close_writes_what_waits(app: App) -> None:
    website = await app.website()
    with write_lock(app):
        sent = [asyncio.create_task(app.collect(view(website, f"/{n}"), ip=f"203.0.113.{n}")) for n in range(5)]
        while app.store.queue < 5:
            await app.get("/healthz")
        closing = asyncio.create_task(app.client.server.close())
        await asyncio.sleep(0)
    await closing
    assert [(await one).status for one in sent] == [202] * 5
    assert app.sql("select count(*) from event") == [(5,)]


async def test_a_question_waits_no_longer_than_it_may_take(make_app: MakeApp) -> None:
    """503 `overloaded` with Retry-After, not a line without end; who is being answered is answered."""
    app = await make_app(query_seconds=1)
    go_on = threading.Event()
    busy = [asyncio.create_task(app.store.read(lambda _: go_on.wait(60))) for _ in range(READERS)]
    await asyncio.sleep(0)  # lets them begin
    with pytest.raises(ApiError) as refusal:
        await app.store.read(lambda connection: connection.execute("select 7").fetchall())
    assert (refusal.value.kind.code, refusal.value.headers) == ("overloaded", {"Retry-After": "10"})
    go_on.set()
    assert [await one for one in busy] == [True] * len(busy)
    assert await app.store.read(lambda connection: connection.execute("select 7").fetchall()) == [(7,)]


async def test_the_work_in_the_background_waits_for_commits_and_for_nothing_else(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked between two of its steps, however short: its own step is no reason to wait, a line of commits is."""
    # The answer is of the span since it was asked last, which is to be ours alone.
    monkeypatch.setattr(app.store.builder, "_is_busy", lambda: False)
    store, begun = app.store, app.store._writer.started_ns
    await asyncio.sleep(0.02)
    store.is_busy()
    await store._writer.run(lambda _: time.sleep(0.2))
    await asyncio.sleep(0.1)
    assert (store.is_busy(), store._writer.started_ns) == (False, begun)
    website = await app.website()
    for _ in range(20):
        assert (await app.collect(view(website))).status == 202
    assert begun < store._writer.started_ns < store._writer.worked_ns
    store.is_busy()
    told = asyncio.get_running_loop().create_future()
    # A fifth of the span, and all that the step before it leaves.
    await store._writer.run(lambda _: time.sleep(0.8))
    store._writer.start(lambda _: time.sleep(0.2), told.set_result)
    await told
    assert store.is_busy()
    # Asked again at once it says what it said.
    assert store.is_busy()
    await asyncio.sleep(0.1)
    assert not store.is_busy()


async def test_a_log_that_has_grown_is_emptied(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite starts its log over only where nobody reads: the chores make such a moment."""
    website = await app.website()
    for n in range(20):
        assert (await app.collect(view(website, f"/{n}"))).status == 202
    grown = app.store.log_bytes
    await app.store.tick()
    assert app.store.log_bytes == grown > 0
    monkeypatch.setattr("tally.ingest.store.MAX_WAL_BYTES", 0)
    await app.store.tick()
    assert app.store.log_bytes == 0
    assert (await app.collect(view(website, "/20"))).status == 202
    await app.store.tick()
    assert app.store.log_bytes == 0, "as soon as it has grown again"
    count = "select count(*) from event"
    assert await app.store.read(lambda connection: connection.execute(count).fetchall()) == [(21,)]


async def test_a_month_that_fills_up_while_others_have_room(make_app: MakeApp) -> None:
    """429 where every account concerned has its month full; else 7, the errors of each event."""
    app = await make_app(free_events=1)
    full, roomy = await app.website(plan="free"), await app.website(account="other@example.com")
    mixed = {"events": [view(full), {"type": "pageview", "website_id": roomy}]}
    with write_lock(app):
        # Each finds the month open; the first to be written fills it.
        sent = [asyncio.create_task(app.collect(body, ip="203.0.113.5")) for body in (view(full), mixed, view(full))]
        while app.store.queue < 3:
            await app.get("/healthz")
    first, second, third = [await one for one in sent]
    assert first.status == 202
    assert (second.status, second.json["error"]["code"]) == (400, "no_valid_event")
    assert [fault["code"] for fault in second.json["errors"]] == ["monthly_limit_reached", "missing_field"]
    assert (third.status, third.json["error"]["code"]) == (429, "monthly_limit_reached")
    assert int(third.headers["Retry-After"]) > 0


async def test_an_end_while_somebody_else_holds_the_file(app: App) -> None:
    """What was only to be noted (a key's last use) must not keep the process from ending."""
    key = await app.key()
    assert (await app.get("/api/v1/websites", key)).status == 200
    with write_lock(app):
        await app.client.server.close()
    assert app.sql("select last_used_ms from api_key") == [(None,)]


async def test_a_file_that_is_gone_takes_no_events(app: App) -> None:
    """What is written to a deleted file is lost at the end: 202 would be a lie. Put back, it goes on."""
    website, key = await app.website(), await app.key()
    assert (await app.collect(view(website))).status == 202
    aside = app.db.with_name("aside.db")
    app.db.rename(aside)
    refused = await app.collect(view(website))
    assert (refused.status, refused.json["error"]["code"]) == (503, "storage_unavailable")
    assert int(refused.headers["Retry-After"]) >= 1
    assert (await app.get("/healthz")).status == 503
    aside.rename(app.db)
    assert (await app.get("/healthz")).status == 200
    assert (await app.collect(view(website))).status == 202
    stats = await app.get(f"/api/v1/websites/{website}/stats", key)
    assert stats.json["data"]["pageviews"] == 2


async def test_somebody_elses_reading_does_not_hold_up_the_chores(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup pins the log for as long as it takes: it is emptied another time, and nobody waits for that."""
    monkeypatch.setattr("tally.ingest.store.MAX_WAL_BYTES", 0)
    website = await app.website()
    assert (await app.collect(view(website))).status == 202
    reader = sqlite3.connect(app.db, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from event").fetchall()
    assert (await app.collect(view(website))).status == 202
    await app.store.tick()
    assert app.store.log_bytes > 0
    assert await app.store._writer.run(lambda c: c.execute("pragma busy_timeout").fetchone()) == (2_000,)
    reader.close()
    await app.store.tick()
    assert app.store.log_bytes > 0, "not again at once"
    app.clock.advance(10)
    await app.store.tick()
    assert app.store.log_bytes == 0


async def test_a_log_that_cannot_be_emptied_is_not_tried_all_the_time(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is tried nobody reads."""
    tried = []

    def fail(connection: sqlite3.Connection) -> bool:
        tried.append(connection)
        raise sqlite3.OperationalError("disk I/O error")

    website = await app.website()
    assert (await app.collect(view(website))).status == 202
    monkeypatch.setattr("tally.ingest.store.MAX_WAL_BYTES", 0)
    monkeypatch.setattr("tally.ingest.store.truncate_wal", fail)
    for _ in range(20):
        with suppress(sqlite3.Error):
            await app.store.tick()
        app.clock.advance(1)
    assert len(tried) == 2


async def test_a_page_of_long_texts_is_shorter(app: App) -> None:
    """What one answer may hold is bounded; the cursor goes on where it ends, and nothing is left out."""
    website, key = await app.website(), await app.key()
    for n in range(60):
        events = [view(website, f"/{n}/{k}/{'x' * 8_000}") for k in range(7)]
        assert (await app.collect({"events": events}, ip=f"203.0.113.{n}")).json["accepted"] == 7
    ids: list[int] = []
    pages, cursor = 0, {}
    while cursor is not None:
        answer = await app.get(f"/api/v1/websites/{website}/events", key, {"limit": "1000"} | cursor)
        assert len(answer.body) < 2_500_000
        ids += [row["id"] for row in answer.json["data"]]
        pages += 1
        cursor = {"cursor": answer.json["meta"]["next_cursor"]} if answer.json["meta"]["next_cursor"] else None
    assert pages > 1
    assert len(ids) == len(set(ids)) == 420
    assert ids == sorted(ids, reverse=True)
