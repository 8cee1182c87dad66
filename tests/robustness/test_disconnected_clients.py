"""A query is cancelled when its client disconnects or its deadline passes; other queries are answered.

After the deadline (--query-seconds, 10 s by default) the statement is interrupted, and the response is 503
`query_timeout` with Retry-After.

To make a statement long, the table `event` in the database of the running server is replaced by a view with as many
equal rows as the test needs. Queries with a filter read the view. Figures without a filter come from totals, so they
need only a free reader.
"""

import json
import select
import socket
import sqlite3
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tally.events.dimensions import EVENT_FIELDS
from tally.storage.connections import READERS
from tally.timestamps import DAY_MS, iso
from tests.support.aged_database import TODAY, built_database, sql
from tests.support.app import CHROME
from tests.support.process import Command, Serve, Server, until

# Counting ENDLESS rows takes longer than any test waits: only an interrupt ends the statement.
FINAL_DAY = TODAY - 22
ENDLESS = 1 << 50
SOME = 300_000
DATE = iso(FINAL_DAY * DAY_MS)[:10]
LONG = {
    "stats": f"stats?from={DATE}&to={DATE}&filter_pathname=/1",
    "timeseries": f"timeseries?from={DATE}&to={DATE}&filter_type=pageview&interval=hour",
    "top": f"top/pathname?from={DATE}&to={DATE}&filter_type=pageview",
    "a ragged range": f"stats?from={DATE}T10:00:00.002&to={DATE}T11:00:00.002",
}
SHORT = f"stats?from={DATE}&to={DATE}"


class RunningServer:
    """A server with an API key and a website, and the connections of its clients."""

    def __init__(self, server: Server, key: str, website: str) -> None:
        self.server, self.key, self.website = server, key, website
        self.sockets: list[socket.socket] = []

    def connect(self) -> socket.socket:
        at = urlsplit(self.server.url)
        client = socket.create_connection((at.hostname, at.port), timeout=60)
        self.sockets.append(client)
        return client

    def send(self, query: str, client: socket.socket | None = None) -> socket.socket:
        """Send a query, and return its connection without waiting for the response."""
        client = client or self.connect()
        head = f"GET /api/v1/websites/{self.website}/{query} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {self.key}"
        client.sendall(f"{head}\r\n\r\n".encode())
        return client

    def get(self, query: str) -> int:
        """Send a query and return the status of its response."""
        path = f"/api/v1/websites/{self.website}/{query}"
        return self.server.request("GET", path, headers={"Authorization": f"Bearer {self.key}"}).status

    def is_busy(self, threads: int) -> Callable[[], bool]:
        """Return a function: whether so many threads have each used over 0.1 s of processor time since this call."""
        begun = self._ticks()
        return lambda: sum(ticks - begun.get(thread, 0) > 10 for thread, ticks in self._ticks().items()) >= threads

    def _ticks(self) -> dict[str, int]:
        found = {}
        for thread in Path(f"/proc/{self.server.pid}/task").iterdir():
            found[thread.name] = int((thread / "stat").read_text().rpartition(")")[2].split()[11])
        return found

    def close(self) -> None:
        for client in self.sockets:
            client.close()


def lengthen(db: Path, events: int) -> None:
    """Replace the table `event` by a view of so many equal events."""
    # Without `i % 1`, ts would be constant, and SQLite would exclude other days without reading a row.
    columns = ", ".join(f"1 as {name}" for name in ("visitor", "visit", *EVENT_FIELDS, "event_name"))
    many = f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {events})"
    at = FINAL_DAY * DAY_MS + 36_000_001
    connection = sqlite3.connect(db, isolation_level=None)
    connection.execute("begin immediate")
    # No day is read by column.
    connection.execute("update packed_day set events = 0, raw_rows = 2")
    connection.execute("alter table event rename to event_before")
    connection.execute(
        f"create view event as {many} select 1 as website, {at} + i % 1 as ts, i as id, 0 as type,"
        f" {columns}, null as event_data from n"
    )
    connection.execute("commit")
    connection.close()


@pytest.fixture
def start(serve: Serve, command: Command, tmp_path: Path) -> Iterator[Callable[..., RunningServer]]:
    made: list[RunningServer] = []

    def started(*settings: str) -> RunningServer:
        db = built_database(tmp_path)
        # The background work would read the view for days that are not final.
        sql(db, "delete from rollup_state where state < 2")
        key = command("key", "create").stdout.strip()
        made.append(RunningServer(serve(*settings), key, sql(db, "select id from website where number = 1")[0][0]))
        return made[-1]

    yield started
    for running in made:
        running.close()


def closed(client: socket.socket) -> None:
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def half_closed(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("disconnect", [closed, reset, half_closed], ids=["closes", "resets", "sends no more"])
@pytest.mark.parametrize("query", LONG.values(), ids=LONG)
def test_a_query_is_interrupted_when_its_client_disconnects(
    start: Callable[..., RunningServer], tmp_path: Path, query: str, disconnect: Callable[[socket.socket], None]
) -> None:
    """The queries occupy all readers; without the interrupt no later query would be answered."""
    running = start("--query-seconds", "100000")
    assert running.get(SHORT) == 200
    lengthen(tmp_path / "analytics.db", ENDLESS)
    is_busy = running.is_busy(READERS)
    clients = [running.send(query) for _ in range(READERS)]
    until(is_busy)
    for client in clients:
        disconnect(client)
    assert running.get(SHORT) == 200
    assert running.server.terminate() == 0
    assert "level=error" not in running.server.stderr()


def test_a_queued_query_is_dropped_when_its_client_disconnects(
    start: Callable[..., RunningServer], tmp_path: Path
) -> None:
    running = start("--query-seconds", "100000")
    lengthen(tmp_path / "analytics.db", ENDLESS)
    is_busy = running.is_busy(READERS)
    connected = [running.send(LONG["stats"]) for _ in range(READERS)]
    until(is_busy)
    for _ in range(5):
        closed(running.send(LONG["top"]))
    closed(connected[0])
    assert running.get(SHORT) == 200
    assert running.get(SHORT) == 200


def test_a_query_is_interrupted_after_a_collect_on_its_connection(
    start: Callable[..., RunningServer], tmp_path: Path
) -> None:
    """The connection begins on the fast path and is then passed to aiohttp."""
    running = start("--query-seconds", "100000")
    clients = [running.connect() for _ in range(READERS)]
    body = json.dumps({"type": "vitals", "website_id": running.website, "vitals": {"lcp": 1}, "name": "/"})
    for client in clients:
        head = f"POST /api/collect HTTP/1.1\r\nHost: h\r\nUser-Agent: {CHROME}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall((head + body).encode())
        assert client.recv(65_536).startswith(b"HTTP/1.1 202 ")
    lengthen(tmp_path / "analytics.db", ENDLESS)
    is_busy = running.is_busy(READERS)
    for client in clients:
        running.send(LONG["stats"], client)
    until(is_busy)
    for client in clients:
        closed(client)
    assert running.get(SHORT) == 200


def test_a_connected_client_gets_its_response(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    """A client that stays connected gets its response while other clients disconnect."""
    running = start("--query-seconds", "100000")
    lengthen(tmp_path / "analytics.db", SOME)
    connected = running.send(LONG["top"].replace("filter_type=pageview", "filter_type=pageview&filter_type=event"))
    for _ in range(5):
        closed(running.send(LONG["stats"]))
    answer = b""
    while b"}}" not in answer.replace(b" ", b""):
        more = connected.recv(65_536)
        assert more, answer
        answer += more
    head, _, text = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert [row["pageviews"] for row in json.loads(text)["data"]] == [SOME]


def test_a_query_over_its_deadline(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    running = start("--query-seconds", "1")
    lengthen(tmp_path / "analytics.db", ENDLESS)
    bearer = {"Authorization": f"Bearer {running.key}"}
    for query in LONG.values():
        answer = running.server.request("GET", f"/api/v1/websites/{running.website}/{query}", headers=bearer)
        assert (answer.status, answer.json["error"]["code"]) == (503, "query_timeout")
        assert int(answer.headers["Retry-After"]) >= 1
    assert running.get(SHORT) == 200


def test_queries_of_many_statements_are_cancelled(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    """A filtered query runs one statement per day. Those of all days since 1970 are short, and share one deadline."""
    running = start("--query-seconds", "1")
    db = tmp_path / "analytics.db"
    lengthen(db, 2_000)
    days = f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {FINAL_DAY - 1})"
    sql(db, f"{days} insert or ignore into rollup_state select 1, 0, 0, i, 2, 1, 1 from n")
    bearer = {"Authorization": f"Bearer {running.key}"}
    path = f"/api/v1/websites/{running.website}/stats?from=1970-01-01&to={DATE}&filter_type=pageview"
    answer = running.server.request("GET", path, headers=bearer)
    assert (answer.status, answer.json.get("error", {}).get("code")) == (503, "query_timeout")


def test_events_are_accepted_beside_endless_queries(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    """Endless queries occupy all readers; requests that need no reader are still answered."""
    running = start("--query-seconds", "100000", "--website-per-minute", "100000")
    lengthen(tmp_path / "analytics.db", ENDLESS)
    # Each group prepares an update of `event` for joined visits, which a view accepts only with a trigger.
    sql(tmp_path / "analytics.db", "create trigger joined instead of update on event begin select 1; end")
    is_busy = running.is_busy(READERS)
    waiting = [running.send(LONG["stats"]) for _ in range(READERS)]
    until(is_busy)
    for n in range(200):
        sent = {"type": "vitals", "website_id": running.website, "vitals": {"lcp": n}, "name": "/beside"}
        assert running.server.request("POST", "/api/collect", sent).status == 202
        assert running.server.request("GET", "/healthz").status == 200
    assert select.select(waiting, [], [], 0)[0] == [], "no query was answered meanwhile"
    assert (
        sql(tmp_path / "analytics.db", "select count(*) from web_vitals where lcp < 200000 and website = 1")[0][0]
        >= 200
    )


def test_the_server_stops_while_a_query_runs(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    """SIGTERM does not wait for queries; the exit status is 0."""
    running = start("--query-seconds", "100000")
    lengthen(tmp_path / "analytics.db", ENDLESS)
    is_busy = running.is_busy(READERS)
    for _ in range(READERS + 1):
        running.send(LONG["stats"])
    until(is_busy)
    assert running.server.terminate() == 0
