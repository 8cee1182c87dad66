"""A client that goes away interrupts its query; one that stays gets its answer, or 503 once it took too long.

The row that this checks: "A query deadline (setting, 10 s): past it the statement is interrupted and the answer is 503
`query_timeout` with Retry-After; a client that goes away interrupts its query".

How a statement is made as long as it takes: in the running server's file the table `event` is replaced by a view that
has as many rows as a test says, all the same. A filter makes a question read it; figures without one come from totals,
so they need no more than a free reader.
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

from tally.events.dimensions import FIELDS
from tally.storage.connections import READERS
from tally.timestamps import DAY_MS, iso
from tests.support.aged_database import TODAY, built_database, sql
from tests.support.app import CHROME
from tests.support.process import Command, Serve, Server, until

# Counting that many takes longer than any test waits: only an interrupt ends it.
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


class Asked:
    """A server whose events are as many as a test says, and who asks it."""

    def __init__(self, server: Server, key: str, website: str) -> None:
        self.server, self.key, self.website = server, key, website
        self.sockets: list[socket.socket] = []

    def connect(self) -> socket.socket:
        at = urlsplit(self.server.url)
        client = socket.create_connection((at.hostname, at.port), timeout=60)
        self.sockets.append(client)
        return client

    def ask(self, question: str, client: socket.socket | None = None) -> socket.socket:
        """Asks and waits for nothing."""
        client = client or self.connect()
        head = f"GET /api/v1/websites/{self.website}/{question} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {self.key}"
        client.sendall(f"{head}\r\n\r\n".encode())
        return client

    def get(self, question: str) -> int:
        """The status of an answer that is waited for."""
        path = f"/api/v1/websites/{self.website}/{question}"
        return self.server.request("GET", path, headers={"Authorization": f"Bearer {self.key}"}).status

    def is_busy(self, threads: int) -> Callable[[], bool]:
        """Whether so many threads of the server have used up much of a processor since now."""
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
    """Replaces the events by so many that are all the same."""
    # i % 1: or SQLite would see that other days have none without looking at any.
    columns = ", ".join(f"1 as {name}" for name in ("visitor", "visit", *FIELDS, "event_name"))
    many = f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {events})"
    at = FINAL_DAY * DAY_MS + 36_000_001
    connection = sqlite3.connect(db, isolation_level=None)
    connection.execute("begin immediate")
    connection.execute("alter table event rename to event_before")
    connection.execute(
        f"create view event as {many} select 1 as website, {at} + i % 1 as ts, i as id, 0 as type,"
        f" {columns}, null as event_data from n"
    )
    connection.execute("commit")
    connection.close()


@pytest.fixture
def start(serve: Serve, command: Command, tmp_path: Path) -> Iterator[Callable[..., Asked]]:
    made: list[Asked] = []

    def started(*settings: str) -> Asked:
        db = built_database(tmp_path)
        # What is open would be folded, from events that never end.
        sql(db, "delete from rollup_state where state < 2")
        key = command("key", "create").stdout.strip()
        made.append(Asked(serve(*settings), key, sql(db, "select id from website where number = 1")[0][0]))
        return made[-1]

    yield started
    for asked in made:
        asked.close()


def closed(client: socket.socket) -> None:
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def half_closed(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("go", [closed, reset, half_closed], ids=["closes", "resets", "sends no more"])
@pytest.mark.parametrize("question", LONG.values(), ids=LONG)
def test_a_client_that_goes_away_interrupts_its_question(
    start: Callable[..., Asked], tmp_path: Path, question: str, go: Callable[[socket.socket], None]
) -> None:
    """All readers are taken by those who went: without the interrupt nobody would ever be answered again."""
    asked = start("--query-seconds", "100000")
    assert asked.get(SHORT) == 200
    lengthen(tmp_path / "analytics.db", ENDLESS)
    is_busy = asked.is_busy(READERS)
    clients = [asked.ask(question) for _ in range(READERS)]
    until(is_busy)
    for client in clients:
        go(client)
    assert asked.get(SHORT) == 200
    assert asked.server.terminate() == 0
    assert "level=error" not in asked.server.stderr()


def test_one_who_waits_for_a_reader_and_goes_away_takes_none(start: Callable[..., Asked], tmp_path: Path) -> None:
    asked = start("--query-seconds", "100000")
    lengthen(tmp_path / "analytics.db", ENDLESS)
    is_busy = asked.is_busy(READERS)
    staying = [asked.ask(LONG["stats"]) for _ in range(READERS)]
    until(is_busy)
    for _ in range(5):
        closed(asked.ask(LONG["top"]))
    closed(staying[0])
    assert asked.get(SHORT) == 200
    assert asked.get(SHORT) == 200


def test_after_a_collect_on_the_same_connection(start: Callable[..., Asked], tmp_path: Path) -> None:
    """A connection begins on the short way of collect requests and is handed over: who goes then is noticed too."""
    asked = start("--query-seconds", "100000")
    clients = [asked.connect() for _ in range(READERS)]
    body = json.dumps({"type": "vitals", "website_id": asked.website, "vitals": {"lcp": 1}, "name": "/"})
    for client in clients:
        head = f"POST /api/collect HTTP/1.1\r\nHost: h\r\nUser-Agent: {CHROME}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall((head + body).encode())
        assert client.recv(65_536).startswith(b"HTTP/1.1 202 ")
    lengthen(tmp_path / "analytics.db", ENDLESS)
    is_busy = asked.is_busy(READERS)
    for client in clients:
        asked.ask(LONG["stats"], client)
    until(is_busy)
    for client in clients:
        closed(client)
    assert asked.get(SHORT) == 200


def test_a_client_that_stays_gets_its_answer(start: Callable[..., Asked], tmp_path: Path) -> None:
    """While others beside it go away."""
    asked = start("--query-seconds", "100000")
    lengthen(tmp_path / "analytics.db", SOME)
    staying = asked.ask(LONG["top"].replace("filter_type=pageview", "filter_type=pageview&filter_type=event"))
    for _ in range(5):
        closed(asked.ask(LONG["stats"]))
    answer = b""
    while b"}}" not in answer.replace(b" ", b""):
        more = staying.recv(65_536)
        assert more, answer
        answer += more
    head, _, text = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert [row["pageviews"] for row in json.loads(text)["data"]] == [SOME]


def test_a_question_that_takes_too_long(start: Callable[..., Asked], tmp_path: Path) -> None:
    asked = start("--query-seconds", "1")
    lengthen(tmp_path / "analytics.db", ENDLESS)
    bearer = {"Authorization": f"Bearer {asked.key}"}
    for question in LONG.values():
        answer = asked.server.request("GET", f"/api/v1/websites/{asked.website}/{question}", headers=bearer)
        assert (answer.status, answer.json["error"]["code"]) == (503, "query_timeout")
        assert int(answer.headers["Retry-After"]) >= 1
    assert asked.get(SHORT) == 200


def test_many_short_statements_are_given_up_as_well(start: Callable[..., Asked], tmp_path: Path) -> None:
    """A filtered question reads a day a statement: a hundred years of short days are long too."""
    asked = start("--query-seconds", "1")
    db = tmp_path / "analytics.db"
    lengthen(db, 2_000)
    days = f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {FINAL_DAY - 1})"
    sql(db, f"{days} insert or ignore into rollup_state select 1, 0, i, 2, (i + 1) * {DAY_MS}, 1 from n")
    bearer = {"Authorization": f"Bearer {asked.key}"}
    path = f"/api/v1/websites/{asked.website}/stats?from=1970-01-01&to={DATE}&filter_type=pageview"
    answer = asked.server.request("GET", path, headers=bearer)
    assert (answer.status, answer.json.get("error", {}).get("code")) == (503, "query_timeout")


def test_events_are_taken_beside_questions_without_end(start: Callable[..., Asked], tmp_path: Path) -> None:
    """All readers are taken, and stay so: who sends events does not notice, nor who asks what needs no reader."""
    asked = start("--query-seconds", "100000", "--website-per-minute", "100000")
    lengthen(tmp_path / "analytics.db", ENDLESS)
    # A view takes no update; each group has one ready for visits that are joined.
    sql(tmp_path / "analytics.db", "create trigger joined instead of update on event begin select 1; end")
    is_busy = asked.is_busy(READERS)
    waiting = [asked.ask(LONG["stats"]) for _ in range(READERS)]
    until(is_busy)
    for n in range(200):
        sent = {"type": "vitals", "website_id": asked.website, "vitals": {"lcp": n}, "name": "/beside"}
        assert asked.server.request("POST", "/api/collect", sent).status == 202
        assert asked.server.request("GET", "/healthz").status == 200
    assert select.select(waiting, [], [], 0)[0] == [], "nobody has been answered meanwhile"
    assert (
        sql(tmp_path / "analytics.db", "select count(*) from web_vitals where lcp < 200000 and website = 1")[0][0]
        >= 200
    )


def test_the_server_ends_though_somebody_waits(start: Callable[..., Asked], tmp_path: Path) -> None:
    """SIGTERM: no new connections, what was accepted is answered and committed, exit 0."""
    asked = start("--query-seconds", "100000")
    lengthen(tmp_path / "analytics.db", ENDLESS)
    is_busy = asked.is_busy(READERS)
    for _ in range(READERS + 1):
        asked.ask(LONG["stats"])
    until(is_busy)
    assert asked.server.terminate() == 0
