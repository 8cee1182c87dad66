"""tally/sqlite/group_commit.py: group commit, when requests are answered, and the state after failures."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest

from tally.accounts.accounts import find_account
from tally.accounts.websites import add_website
from tally.engine.ingest import WriteRequest
from tally.errors import ApiError
from tally.storage.connections import READERS
from tally.storage.database import open_database, transaction
from tests.support.app import OWNER, App, MakeApp


def view(website: str, path: str = "/", **more: Any) -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": f"https://example.com{path}", **more}


@contextmanager
def write_lock(app: App) -> Iterator[sqlite3.Connection]:
    """Hold a write transaction of another connection, so that nothing can be committed."""
    connection = sqlite3.connect(app.db, isolation_level=None)
    connection.execute("begin immediate")
    try:
        yield connection
    finally:
        connection.rollback()
        connection.close()


async def written(app: App, request: WriteRequest) -> Any:
    """Append a request to the engine and return its outcomes."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    app.running.ingest.append(request, future.set_result)
    return await future


async def test_commits_reach_the_disk(app: App) -> None:
    """`synchronous=FULL` is 2 in SQLite."""
    for pragma, value in (("synchronous", 2), ("journal_mode", "wal"), ("foreign_keys", 1), ("temp_store", 2)):
        assert await app.database.writer.run(lambda c, p=pragma: c.execute(f"pragma {p}").fetchone()) == (value,)


async def test_readers_cannot_write(app: App) -> None:
    for _ in range(3):
        with pytest.raises(ApiError) as refusal:
            await app.database.read(lambda connection: connection.execute("delete from label"))
        assert refusal.value.kind.code == "storage_unavailable"


async def test_no_response_before_the_commit(app: App) -> None:
    """The response is sent after the commit of the transaction that stores the events."""
    website = await app.website()
    with write_lock(app):
        sent = asyncio.create_task(app.collect(view(website)))
        # The server answers other requests meanwhile, but not this one.
        for _ in range(50):
            assert (await app.get("/healthz")).status == 200
        assert not sent.done()
        assert app.sql("select count(*) from event") == [(0,)]
    assert (await sent).status == 202
    assert app.sql("select count(*) from event") == [(1,)]


async def test_what_another_process_has_committed_is_known(app: App) -> None:
    """A website that a command adds takes events at once, also right after the server has read the file."""
    await app.website()
    for n in range(3):
        await app.registry.refresh()
        with closing(open_database(app.db, create=False)) as connection, transaction(connection):
            website = add_website(connection, find_account(connection, OWNER), f"{n}.example.org", "", (), 0)
        sent = [app.collect(view(website), ip=f"203.0.113.{k}") for k in range(3)]
        assert [(await one).status for one in asyncio.as_completed(sent)] == [202] * 3


async def test_concurrent_requests_share_a_commit(app: App) -> None:
    """Requests that arrive during a commit share the next one."""
    website = await app.website()
    before = app.running.ingest.counters.took.count
    with write_lock(app):
        sent = [asyncio.create_task(app.collect(view(website, f"/{n}"), ip=f"203.0.113.{n}")) for n in range(40)]
        while app.running.ingest.queue < 40:
            assert (await app.get("/healthz")).status == 200
    assert [(await one).status for one in sent] == [202] * 40
    # At least one request waited for the lock, with those that had arrived by then; the rest shared a commit.
    assert app.running.ingest.counters.took.count - before <= 3
    assert app.sql("select count(*) from event") == [(40,)]


async def test_a_group_waits_for_clients_just_answered(app: App) -> None:
    """Clients that send again when they are answered share commits, although their requests arrive one by one."""

    async def client(number: int) -> None:
        for _ in range(10):
            await written(app, WriteRequest([], 0))
            for _ in range(number % 12):
                await asyncio.sleep(0)

    before = app.running.ingest.counters.took.count
    await asyncio.gather(*map(client, range(24)))
    assert app.running.ingest.counters.took.count - before == 10


@pytest.mark.parametrize(("seconds_a_turn", "expected"), [(0, 64), (0.001, 3)], ids=["many events", "for long"])
async def test_a_group_waits_no_longer_than_its_limits(
    app: App, monkeypatch: pytest.MonkeyPatch, seconds_a_turn: float, expected: int
) -> None:
    """A group that is large or old enough is committed while others still arrive."""
    engine, website, requests, groups, outcomes = (
        app.running,
        await app.website(),
        list[WriteRequest](),
        list[int](),
        list[object](),
    )
    append, write = engine.ingest.append, engine.event_writer.write
    monkeypatch.setattr(
        engine.ingest, "append", lambda request, done: (requests.append(request), append(request, done))
    )
    assert (await app.collect(view(website))).status == 202
    monkeypatch.setattr(engine.event_writer, "write", lambda c, group: (groups.append(len(group)), write(c, group))[1])
    await asyncio.gather(*(written(app, requests[0]) for _ in range(9)))
    sent = 0
    while not outcomes and sent < 2_000:
        append(requests[0], outcomes.append)
        sent += 1
        await asyncio.sleep(0)
        app.clock.advance(seconds_a_turn)
    while len(outcomes) < sent:
        await asyncio.sleep(0)
    assert groups[:2] == [9, expected]
    assert app.sql("select count(*) from event") == [(1 + 9 + sent,)]


def refuse_rows(app: App, table: str, condition: str = "true") -> None:
    """Make the database refuse new rows of a table, as a bug would."""
    connection = sqlite3.connect(app.db)
    connection.execute(
        f"create trigger poison before insert on {table} when {condition} begin select raise(abort, 'poison'); end"
    )
    connection.close()


def refuse_poison(app: App) -> None:
    """Make the database refuse the page /poison. Commands refuse a database with a trigger: add websites before."""
    refuse_rows(app, "event", "new.pathname = (select id from label where text = '/poison')")


async def test_a_failing_request_does_not_fail_others(app: App) -> None:
    website = await app.website()
    refuse_poison(app)
    with write_lock(app):
        paths = ["/a", "/poison", "/b", "/c"]
        sent = [asyncio.create_task(app.collect(view(website, path), ip="203.0.113.9")) for path in paths]
        while app.running.ingest.queue < 4:
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


async def test_a_failing_request_is_rolled_back(app: App) -> None:
    """Neither the database nor memory changes: the visit, the labels and the event_id are not stored."""
    website, key = await app.website(), await app.key()
    refuse_poison(app)
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


async def test_a_request_is_one_transaction(app: App) -> None:
    """What is written last fails: nothing of the request is stored."""
    website = await app.website()
    refuse_rows(app, "page_title")
    assert (await app.collect(view(website, event_id="once", title="Home"))).status == 500
    for table in ("event", "visit", "total_15m", "event_id", "account_usage"):
        assert app.sql(f"select count(*) from {table}") == [(0,)]


async def test_a_long_query_is_cancelled(make_app: MakeApp) -> None:
    """503 `query_timeout` with Retry-After; the connection serves other queries afterwards."""
    app = await make_app(query_seconds=1)
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n"
    for _ in range(3):
        with pytest.raises(ApiError) as refusal:
            await app.database.read(lambda connection: connection.execute(endless).fetchall())
        assert refusal.value.kind.code == "query_timeout"
        assert refusal.value.headers == {"Retry-After": "30"}
        assert await app.database.read(lambda connection: connection.execute("select 7").fetchall()) == [(7,)]


async def test_the_queue_is_bounded(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 `overloaded` with Retry-After; requests queued before are stored."""
    monkeypatch.setattr("tally.sqlite.group_commit.MAX_QUEUED_EVENTS", 30)
    website = await app.website()
    batch = {"website_id": website, "events": [view(website)] * 10}
    with write_lock(app):
        sent = [asyncio.create_task(app.collect(batch, ip="203.0.113.1")) for _ in range(3)]
        while app.running.ingest.queue < 30:
            await app.get("/healthz")
        refused = await app.collect(batch, ip="203.0.113.2")
        assert (refused.status, refused.json["error"]["code"]) == (503, "overloaded")
        assert int(refused.headers["Retry-After"]) >= 1
    assert [(await one).json["accepted"] for one in sent] == [10, 10, 10]
    assert app.sql("select count(*) from event") == [(30,)]


async def test_a_full_disk_is_503_and_recovers(app: App) -> None:
    """SQLITE_FULL, caused by max_page_count: nothing is partly stored, reads continue, and writing recovers."""
    website, key = await app.website(), await app.key()
    assert (await app.collect(view(website))).status == 202
    pages = app.sql("pragma page_count")[0][0]
    await app.database.writer.run(lambda c: c.execute(f"pragma max_page_count = {pages}").fetchall())
    big = {"website_id": website, "events": [view(website, f"/{n}/{'x' * 800}") for n in range(50)]}
    refused = await app.collect(big)
    assert (refused.status, refused.json["error"]["code"]) == (503, "storage_unavailable")
    assert int(refused.headers["Retry-After"]) >= 1
    assert (await app.get("/healthz")).status == 503
    stats = await app.get(f"/api/v1/websites/{website}/stats", key)
    assert (stats.status, stats.json["data"]["pageviews"]) == (200, 1)
    await app.database.writer.run(lambda c: c.execute("pragma max_page_count = 1073741823").fetchall())
    # Recovery needs no request, since a load balancer sends none while /healthz fails.
    await app.database.recovery.heal()
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


async def test_close_writes_queued_requests(app: App) -> None:
    website = await app.website()
    with write_lock(app):
        sent = [asyncio.create_task(app.collect(view(website, f"/{n}"), ip=f"203.0.113.{n}")) for n in range(5)]
        while app.running.ingest.queue < 5:
            await app.get("/healthz")
        closing = asyncio.create_task(app.client.server.close())
        await asyncio.sleep(0)
    await closing
    assert [(await one).status for one in sent] == [202] * 5
    assert app.sql("select count(*) from event") == [(5,)]


async def test_a_query_waits_no_longer_than_its_timeout(make_app: MakeApp) -> None:
    """503 `overloaded` with Retry-After for a query that waits too long; running queries are answered."""
    app = await make_app(query_seconds=1)
    go_on = threading.Event()
    busy = [asyncio.create_task(app.database.read(lambda _: go_on.wait(60))) for _ in range(READERS)]
    await asyncio.sleep(0)  # lets the queries begin
    with pytest.raises(ApiError) as refusal:
        await app.database.read(lambda connection: connection.execute("select 7").fetchall())
    assert (refusal.value.kind.code, refusal.value.headers) == ("overloaded", {"Retry-After": "10"})
    go_on.set()
    assert [await one for one in busy] == [True] * len(busy)
    assert await app.database.read(lambda connection: connection.execute("select 7").fetchall()) == [(7,)]


async def test_background_work_waits_for_commits_only(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Background work waits if commits kept the writer busy, not if its own step did."""
    # is_busy is about the time since its last call, so only this test may call it.
    monkeypatch.setattr(app.background_work.builder, "_is_busy", lambda: False)
    database, begun = app.database, app.database.writer.started_ns
    await asyncio.sleep(0.02)
    database.is_busy()
    await database.writer.run(lambda _: time.sleep(0.2))
    await asyncio.sleep(0.1)
    assert (database.is_busy(), database.writer.started_ns) == (False, begun)
    website = await app.website()
    for _ in range(20):
        assert (await app.collect(view(website))).status == 202
    assert begun < database.writer.started_ns < database.writer.worked_ns
    database.is_busy()
    outcomes = asyncio.get_running_loop().create_future()
    # A fifth of the time since the last call, and all that the step before leaves.
    await database.writer.run(lambda _: time.sleep(0.8))
    database.writer.start(lambda _: time.sleep(0.2), outcomes.set_result)
    await outcomes
    assert database.is_busy()
    # A second call at once returns the same.
    assert database.is_busy()
    await asyncio.sleep(0.1)
    assert not database.is_busy()


async def test_a_large_wal_is_truncated(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite restarts the WAL only while there are no readers; the periodic tasks ensure that."""
    website = await app.website()
    for n in range(20):
        assert (await app.collect(view(website, f"/{n}"))).status == 202
    grown = app.database.log_bytes
    await app.node.tick()
    assert app.database.log_bytes == grown > 0
    monkeypatch.setattr("tally.storage.disk_space.FULL_LOG_BYTES", 0)
    await app.node.tick()
    assert app.database.log_bytes == 0
    assert (await app.collect(view(website, "/20"))).status == 202
    await app.node.tick()
    assert app.database.log_bytes == 0, "truncated as soon as it has grown again"
    count = "select count(*) from event"
    assert await app.database.read(lambda connection: connection.execute(count).fetchall()) == [(21,)]


async def test_a_month_that_fills_up_for_one_account(make_app: MakeApp) -> None:
    """429 if the month of every account concerned is full, otherwise 400 with the errors of each event."""
    app = await make_app(free_events=1)
    full, open_website = await app.website(plan="free"), await app.website(account="other@example.com")
    mixed = {"events": [view(full), {"type": "pageview", "website_id": open_website}]}
    with write_lock(app):
        # Each request finds the month open; the first one written fills it.
        sent = [asyncio.create_task(app.collect(body, ip="203.0.113.5")) for body in (view(full), mixed, view(full))]
        while app.running.ingest.queue < 3:
            await app.get("/healthz")
    first, second, third = [await one for one in sent]
    assert first.status == 202
    assert (second.status, second.json["error"]["code"]) == (400, "no_valid_event")
    assert [fault["code"] for fault in second.json["errors"]] == ["monthly_limit_reached", "missing_field"]
    assert (third.status, third.json["error"]["code"]) == (429, "monthly_limit_reached")
    assert int(third.headers["Retry-After"]) > 0


async def test_shutdown_while_another_process_holds_the_lock(app: App) -> None:
    """Optional writes (a key's last use) must not delay the shutdown."""
    key = await app.key()
    assert (await app.get("/api/v1/websites", key)).status == 200
    with write_lock(app):
        await app.client.server.close()
    assert app.sql("select last_used_ms from api_key") == [(None,)]


async def test_a_deleted_database_file_refuses_events(app: App) -> None:
    """Events written to a deleted file would be lost, so they are refused with 503 until the file is back."""
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


async def test_other_readers_do_not_delay_periodic_tasks(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup prevents the truncation of the WAL; it is tried again later, and nothing waits for it."""
    monkeypatch.setattr("tally.storage.disk_space.FULL_LOG_BYTES", 0)
    website = await app.website()
    assert (await app.collect(view(website))).status == 202
    reader = sqlite3.connect(app.db, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from event").fetchall()
    assert (await app.collect(view(website))).status == 202
    await app.node.tick()
    assert app.database.log_bytes > 0
    assert await app.database.writer.run(lambda c: c.execute("pragma busy_timeout").fetchone()) == (2_000,)
    reader.close()
    await app.node.tick()
    assert app.database.log_bytes > 0, "not retried at once"
    app.clock.advance(10)
    await app.node.tick()
    assert app.database.log_bytes == 0


async def test_truncation_of_the_wal_is_not_retried_at_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries are blocked while it is tried."""
    tried = []

    def fail(connection: sqlite3.Connection) -> bool:
        tried.append(connection)
        raise sqlite3.OperationalError("disk I/O error")

    website = await app.website()
    assert (await app.collect(view(website))).status == 202
    monkeypatch.setattr("tally.storage.disk_space.FULL_LOG_BYTES", 0)
    monkeypatch.setattr("tally.storage.node_database.truncate_wal", fail)
    for _ in range(20):
        with suppress(sqlite3.Error):
            await app.node.tick()
        app.clock.advance(1)
    assert len(tried) == 2


async def test_pages_of_long_texts_are_shorter(app: App) -> None:
    """The size of a response is bounded; the cursor continues where it ends, and no event is missing."""
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
