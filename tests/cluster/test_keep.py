"""`--cluster-mode keep` with its real parts, as in test_follow.py.

What is answered 202 is in ClickHouse at that moment, whatever ends when, and nothing is there twice.
"""

import asyncio
import contextlib
import http.client
import json
import random
import sqlite3
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from tally.accounts.accounts import all_accounts
from tally.accounts.api_keys import Grant, create_api_key
from tally.clickhouse.client import Client
from tally.cluster.setup import begin_series
from tally.storage.database import open_database
from tests.cluster.engine import needs_clickhouse, new_key_file
from tests.cluster.test_follow import NOW_MS, ClickHouse, Gate, Site, clickhouse, db, metric, site
from tests.support.process import UNLIMITED, Serve, Server, until

pytestmark = needs_clickhouse
__all__ = ["clickhouse", "db", "site"]
ACK_S = 2


def options(clickhouse: ClickHouse | Gate) -> tuple[str, ...]:
    words = ("--cluster-mode", "keep", "--cluster-ack-seconds", str(ACK_S), "--clickhouse", clickhouse.url)
    return (*UNLIMITED, *words, "--cluster-key", str(key_file()))


@cache
def key_file() -> Path:
    return new_key_file(Path(tempfile.mkdtemp(prefix="tally-key-")))


def kept(site: Site, serve: Serve, clickhouse: ClickHouse | Gate) -> Server:
    """Return a server whose website is joined, which accepts events."""
    site.cluster("init")
    site.cluster("join")
    return accepting(serve(*options(clickhouse)))


def accepting(server: Server) -> Server:
    until(lambda: server.request("GET", "/healthz").status == 200, 60)
    return server


def event_of(site: Site, number: int) -> dict[str, Any]:
    return {
        "website_id": site.id,
        "type": "pageview",
        "url": f"https://example.com/{number}",
        "event_id": f"event-{number}",
        "session_id": f"session-of-{number % 7}",
        "timestamp": NOW_MS - 60_000 * (number % 4_000),
    }


# How each kind of request is sent, with the events or a page, and what answers it where it is accepted.
def by_fast_path(site: Site, server: Server, number: int) -> int:
    return status(server, "POST", "/api/collect", json.dumps({"events": [event_of(site, number)]}))


def by_collect(site: Site, server: Server, number: int) -> int:
    return status(server, "POST", "/api/collect", json.dumps(event_of(site, number)), Expect="")


def by_key(site: Site, server: Server, number: int) -> int:
    event = event_of(site, number)
    del event["website_id"]
    body = json.dumps({"events": [event]})
    words = {"Authorization": f"Bearer {key_of(site.db)}", "Content-Type": "application/json"}
    return status(server, "POST", f"/api/v1/websites/{site.id}/events", body, **words)


@cache
def key_of(db: Path) -> str:
    with closing(open_database(db, create=False)) as connection:
        return create_api_key(connection, next(iter(all_accounts(connection).values())), "", 0, Grant(("import",)))


def by_plausible(site: Site, server: Server, number: int) -> int:
    body = json.dumps({"name": "pageview", "url": f"https://example.com/{number}", "domain": "example.com"})
    return status(server, "POST", "/api/event", body)


PATHS = (by_fast_path, by_collect, by_key, by_plausible)


def status(server: Server, method: str, path: str, body: str, **headers: str) -> int:
    """Return the status of a response, 0 where the connection is closed without one."""
    try:
        return server.request(method, path, body, headers).status
    except (http.client.HTTPException, ConnectionError):
        return 0


def test_events_are_answered_once_clickhouse_has_them_and_refused_while_it_is_away(
    site: Site, serve: Serve, clickhouse: ClickHouse
) -> None:
    server = kept(site, serve, clickhouse)
    for number, send in enumerate(PATHS * 3):
        assert send(site, server, number) in (200, 202), send.__name__
        (pages,) = clickhouse.rows(f"select count() from event where toString(pathname) = '/{number}'")
        assert pages == [1], send.__name__
    before = site.pages()
    # A copy is answered as well.
    assert by_fast_path(site, server, 0) == 202
    clickhouse.kill()
    begun_s = time.monotonic()
    found: dict[str, int] = {}
    clients = [
        threading.Thread(target=lambda send=send, n=n: found.update({send.__name__: send(site, server, n)}))
        for n, send in enumerate(PATHS, 100)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert found == dict.fromkeys((send.__name__ for send in PATHS), 0)
    assert ACK_S * 0.9 < time.monotonic() - begun_s < ACK_S + 5
    assert metric(server, "tally_cluster_unanswered_total") == 4
    # They are stored, and will be shipped; from now on nothing is stored.
    assert len(site.pages()) == len(before) + 4
    health = server.request("GET", "/healthz")
    assert health.status == 503
    assert b"ClickHouse does not keep events" in health.body
    for n, send in enumerate(PATHS, 200):
        assert send(site, server, n) == 503, send.__name__
    answer = server.request("POST", "/api/collect", {"events": [event_of(site, 200)]})
    assert json.loads(answer.body)["error"]["code"] == "storage_unavailable"
    assert int(answer.headers["Retry-After"]) > 0
    assert len(site.pages()) == len(before) + 4
    # So it is after a restart.
    assert server.terminate() == 0
    server = serve(*options(clickhouse))
    assert by_fast_path(site, server, 200) == 503
    clickhouse.start()
    accepting(server)
    for n, send in enumerate(PATHS, 200):
        assert send(site, server, n) in (200, 202), send.__name__
    assert site.shipped_pages() == site.pages()
    assert len(site.pages()) == len(before) + 8
    assert metric(server, "tally_cluster_unconfirmed_events") == 0
    assert server.terminate() == 0


def test_a_batch_whose_insert_has_no_answer_is_not_confirmed_by_reading_it(
    site: Site, serve: Serve, clickhouse: ClickHouse
) -> None:
    """One server of several may have it alone, and lose it."""
    gate = Gate(clickhouse)
    server = kept(site, serve, gate)

    def refuse() -> None:
        refused.append(site.waiting())
        gate.choose("shipped", "before", refuse)

    refused: list[int] = []
    gate.choose("shipped", "after", refuse)
    assert by_fast_path(site, server, 1) == 0
    assert clickhouse.rows("select max(number) from shipped") == [[1]]
    until(lambda: len(refused) > 3)
    assert all(refused)
    assert by_fast_path(site, server, 2) == 503
    gate.at = ("", "")
    accepting(server)
    assert not site.waiting()
    assert clickhouse.rows("select number from shipped order by number") == [[0], [1]]
    assert by_fast_path(site, server, 2) == 202
    assert server.terminate() == 0
    gate.shutdown()
    gate.server_close()


def test_the_older_of_two_servers_stores_nothing_more(
    site: Site, serve: Serve, clickhouse: ClickHouse, tmp_path: Path
) -> None:
    server = kept(site, serve, clickhouse)
    assert by_fast_path(site, server, 0) == 202
    copy = tmp_path / "copy.db"
    site.run("backup", str(copy))
    series = asyncio.run(begun(clickhouse))
    # Before the server has noticed on its own.
    assert by_fast_path(site, server, 1) in (0, 503)
    assert by_fast_path(site, server, 2) == 503
    assert b"a newer series" in server.request("GET", "/healthz").body
    with closing(sqlite3.connect(copy)) as file:
        file.execute("update cluster_state set series = ?, shipped = 0, claimed = 0", (series,))
        file.commit()
    newer = accepting(serve(*options(clickhouse), "--db", str(copy)))
    assert by_fast_path(site, newer, 3) == 202
    assert by_fast_path(site, server, 4) == 503
    assert server.terminate() == 0
    server = serve(*options(clickhouse))
    until(lambda: "a newer series" in server.stderr())
    assert by_fast_path(site, server, 5) == 503
    assert by_fast_path(site, newer, 6) == 202
    assert site.shipped_pages() == ["/0", "/3", "/6"]


async def begun(clickhouse: ClickHouse) -> str:
    client = Client(clickhouse.url, "tally")
    try:
        return await begin_series(client)
    finally:
        await client.close()


def test_ends_at_every_step_lose_and_double_nothing(site: Site, serve: Serve, clickhouse: ClickHouse) -> None:
    gate = Gate(clickhouse)
    server = kept(site, serve, gate)
    for number, (victim, table, moment) in enumerate(STEPS):
        gate.choose(table, moment, server.process.kill if victim == "server" else clickhouse.kill)
        vitals = event_of(site, number) | {"type": "vitals", "vitals": {"lcp": number}, "event_id": f"vitals-{number}"}
        body = json.dumps({"events": [event_of(site, number), vitals]})
        with ThreadPoolExecutor() as clients:
            answer = clients.submit(status, server, "POST", "/api/collect", body)
            assert gate.is_done.wait(60), (victim, table, moment)
            if victim == "server":
                assert answer.result() == 0
                server.kill()
                server = serve(*options(gate))
            else:
                clickhouse.start()
                assert answer.result() in (0, 202)
        accepting(server)
        assert site.shipped_pages() == site.pages(), (victim, table, moment)
        # A client that had no answer sends it again.
        assert status(server, "POST", "/api/collect", body) == 202
    assert len(site.shipped_pages()) == len(STEPS)
    assert clickhouse.rows("select count() from measure") == [[len(STEPS)]]
    gate.shutdown()
    gate.server_close()


# After the commit, between the inserts of two tables, and before the answer; of ClickHouse in an insert.
STEPS = (
    ("server", "event", "before"),
    ("server", "measure", "before"),
    ("server", "event", "after"),
    ("server", "shipped", "before"),
    ("server", "shipped", "after"),
    ("clickhouse", "event", "after"),
    ("clickhouse", "shipped", "before"),
)


def test_kills_at_random_moments_lose_and_double_nothing(site: Site, serve: Serve, clickhouse: ClickHouse) -> None:
    server = kept(site, serve, clickhouse)
    rng, answered, missed = random.Random(7), set[str](), list[str]()
    for turn in range(6):
        stop = threading.Event()

        def send(first: int, server: Server = server, stop: threading.Event = stop) -> None:
            for number in range(first, first + 10_000):
                if stop.is_set():
                    return
                if by_fast_path(site, server, number) != 202:
                    continue
                answered.add(f"/{number}")
                # It may be killed after the answer.
                with contextlib.suppress(OSError, http.client.HTTPException):
                    if clickhouse.rows(f"select count() from event where pathname = '/{number}'") != [[1]]:
                        missed.append(f"/{number}")

        clients = [threading.Thread(target=send, args=(100_000 * turn + 10_000 * n,)) for n in range(3)]
        for client in clients:
            client.start()
        enough = len(answered) + rng.randrange(5, 25)
        until(lambda enough=enough: len(answered) >= enough, 60)
        time.sleep(rng.uniform(0, 0.2))
        if rng.random() < 0.5:
            server.kill()
        else:
            clickhouse.kill()
        stop.set()
        for client in clients:
            client.join()
        if server.process.poll() is None:
            clickhouse.start()
        else:
            server = serve(*options(clickhouse))
        accepting(server)
    shipped = site.shipped_pages()
    assert (missed, answered - set(shipped), [page for page in shipped if shipped.count(page) > 1]) == ([], set(), [])
    assert shipped == site.pages()


def test_an_import_and_a_website_without_a_copy_stop_no_collecting(
    site: Site, serve: Serve, clickhouse: ClickHouse, tmp_path: Path
) -> None:
    server = kept(site, serve, clickhouse)
    assert by_fast_path(site, server, 0) == 202
    lines = tmp_path / "more.ndjson"
    lines.write_text('{"type": "pageview", "timestamp": "2026-01-01T10:00:00Z", "pathname": "/old", "visit_id": "v"}\n')
    site.run("import", str(lines), "--website", site.id)
    assert by_fast_path(site, server, 1) == 202
    assert "SQLite answers: import" in site.cluster("status")
    assert site.shipped_pages() == ["/0", "/1"]
    # So it is while the copy of a website that had events before is made: it may never be complete.
    with closing(sqlite3.connect(site.db)) as file:
        file.execute("update cluster_copy set state = 'joining'")
        file.commit()
    assert by_fast_path(site, server, 2) == 202
    assert clickhouse.rows("select count() from event where pathname = '/2'") == [[2]]
    assert "earlier events" in site.cluster("status")
    assert server.terminate() == 0
    server = accepting(serve(*options(clickhouse)))
    assert by_fast_path(site, server, 3) == 202
    # What a running server does once nothing has changed for a while.
    site.cluster("join")
    assert by_fast_path(site, server, 4) == 202
    # Of old days the file may have columns alone.
    assert site.shipped_pages() == sorted({*site.pages(), "/old"})
    until(lambda: clickhouse.rows("select uniqExact(website) from event") == [[1]])
