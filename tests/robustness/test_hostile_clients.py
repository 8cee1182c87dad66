"""The real server under attack, with honest clients in between who are answered rightly and about as fast as before.

How fast the machine is decides nothing: the median of the honest requests' time is compared with that before the
attack, memory with what it was, and what ends is waited for.
"""

import gzip
import http.client
import json
import os
import random
import resource
import socket
import sqlite3
import statistics
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.storage.database import open_database
from tests.support.process import NO_RATE_LIMITS, Serve, Server, until

# An attack and the server share two cores here: the median may be this many times what it was, and a moment more.
SLOWER, JUST_ANSWERED_S = 20, 0.05
MB = 1_048_576
HALF_HEAD = b"POST /api/collect HTTP/1.1\r\nHost: x\r\nX-Slow: "
HALF_BODY = b'POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"type'
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
BIG = b"GET /api/v1/openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


@pytest.fixture
def website(db: Path) -> str:
    with closing(open_database(db, create=True)) as connection:
        owner = create_account(connection, "owner@example.com", "business", None, 0)
        return add_website(connection, owner, "example.com", "example.com", (), 0)


class Honest:
    """Sends page views, each on a connection of its own, and looks whether the server is well."""

    def __init__(self, server: Server, website: str) -> None:
        self.server, self._website, self._sent = server, website, 0
        # Of the attack's own kind of machine: first once, so that everything is loaded.
        self.ask()
        self._before_s = statistics.median(self.ask() for _ in range(30))
        self._during_s: list[float] = []
        self.rss = server.resident_bytes()
        self.files = files(server)

    def ask(self) -> float:
        """One view and one look; how long they took, in seconds."""
        begun = time.monotonic()
        path, self._sent = f"/honest/{self._sent}", self._sent + 1
        answer = self.server.request("POST", "/api/collect", view(self._website, path))
        assert (answer.status, answer.json) == (202, {"ok": True, "accepted": 1, "rejected": 0})
        assert self.server.request("GET", "/healthz").status == 200
        return time.monotonic() - begun

    def goes_on(self, times: int = 3) -> None:
        """Asks during an attack."""
        self._during_s += [self.ask() for _ in range(times)]

    def was_served(self) -> None:
        """Everything was taken once, and not much slower than before."""
        rows = "select count(*), count(distinct pathname) from event e join label l on l.id = e.pathname"
        with closing(sqlite3.connect(self.server.db)) as connection:
            found = connection.execute(f"{rows} where text like '/honest/%'").fetchone()
        assert found == (self._sent, self._sent)
        assert statistics.median(self._during_s) < SLOWER * self._before_s + JUST_ANSWERED_S

    def everybody_else_has_gone(self, seconds: float = 60) -> None:
        """The server has as many files open as before."""
        until(lambda: files(self.server) <= self.files + 2, seconds)


def view(website: str, path: str = "/") -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": f"https://example.com{path}"}


def files(server: Server) -> int:
    """How many file descriptors it holds."""
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def connect(server: Server, buffer_bytes: int = 0, source: str = "") -> socket.socket:
    client = socket.socket()
    client.settimeout(60)
    if buffer_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    try:
        if source:
            client.bind((source, 0))
        client.connect((urlsplit(server.url).hostname, urlsplit(server.url).port))
    except BaseException:
        client.close()
        raise
    return client


@contextmanager
def crowd(
    server: Server, count: int, sends: bytes | Callable[[], bytes] = b"", **how: Any
) -> Iterator[list[socket.socket]]:
    """Many connections that have each sent something."""
    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            clients.append(stack.enter_context(connect(server, **how)))
            with suppress(ConnectionError):  # refused already
                clients[-1].sendall(sends if isinstance(sends, bytes) else sends())
        yield clients


def whole(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    received = bytearray()
    try:
        while piece := client.recv(65_536):
            received += piece
    except ConnectionResetError:
        pass
    return bytes(received)


def status(client: socket.socket) -> int:
    """Of the one answer that comes, 0 where none does."""
    first = client.makefile("rb").readline()
    return int(first.split()[1]) if first else 0


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed it; nothing is lost of what it said."""
    client.setblocking(False)
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        client.settimeout(60)


def many(wanted: int) -> int:
    """As many connections as this machine lets one process hold; says so where that is fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted + 500:
        soft = wanted + 500 if hard == resource.RLIM_INFINITY else min(hard, wanted + 500)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft < wanted + 500:
        print(f"\nNOT TESTED: {wanted} connections; the limit on open files is {soft}", file=sys.__stderr__)
    return min(wanted, soft - 500)


def test_10_000_idle_connections(serve: Serve, website: str) -> None:
    server = serve(*NO_RATE_LIMITS, "--max-connections", "12000")
    honest, count = Honest(server, website), many(10_000)
    with crowd(server, count // 2) as first:
        honest.goes_on()
        with crowd(server, count - count // 2) as second:
            honest.goes_on()
            until(lambda: files(server) >= count + 10)
            assert server.resident_bytes() < honest.rss + 50 * MB
            # Whoever says something at last is answered.
            for client in (first[0], second[-1]):
                assert answered(client)
            honest.goes_on()
    honest.everybody_else_has_gone()
    honest.was_served()
    assert server.terminate() == 0


def test_2_000_half_open(serve: Serve, website: str) -> None:
    """L6: heads, bodies and readers that stop. All are closed by the server, and honest clients notice nothing."""
    server = serve(*NO_RATE_LIMITS)
    honest = Honest(server, website)
    with (
        crowd(server, 1_000, HALF_HEAD) as heads,
        crowd(server, 700, HALF_BODY) as bodies,
        crowd(server, 300, BIG * 4, buffer_bytes=4_096),
    ):
        honest.goes_on()
        assert files(server) > honest.files + 1_900
        begun = time.monotonic()
        while files(server) > honest.files + 2:
            honest.goes_on()
            for client in heads[::100]:
                if not is_closed(client):
                    # One more byte is no more time.
                    client.send(b"x")
            assert server.resident_bytes() < honest.rss + 100 * MB
            assert time.monotonic() < begun + 60, "they are still there"
            time.sleep(0.1)
        assert {whole(client) for client in heads if is_closed(client)} == {b""}
        answers = [whole(client) for client in bodies]
        assert all(answer.startswith(b"HTTP/1.1 400 ") and b"invalid_json" in answer for answer in answers)
    honest.was_served()


def test_bodies_that_never_come_whole(serve: Serve, website: str) -> None:
    """Each could fill 64 KB; beyond 1,000 the oldest is told to come again, and who is quick notices nothing."""
    server = serve(*NO_RATE_LIMITS)
    honest = Honest(server, website)
    with crowd(server, 1_000, HALF_BODY) as first:
        honest.goes_on()
        with crowd(server, 100, HALF_BODY) as second:
            answers = [whole(client) for client in first[:90]]
            assert all(answer.startswith(b"HTTP/1.1 503 ") and b'"overloaded"' in answer for answer in answers)
            assert all(b"\r\nRetry-After: 1\r\n" in answer for answer in answers)
            honest.goes_on()
            assert not any(is_closed(client) for client in (*first[-100:], *second))
    honest.everybody_else_has_gone()
    honest.was_served()


def test_a_slow_reader_of_much(serve: Serve, website: str) -> None:
    """L8: what is not read is bounded for all together: the first who do not read go."""
    server = serve(*NO_RATE_LIMITS)
    honest = Honest(server, website)
    with crowd(server, 1_500, BIG * 4, buffer_bytes=4_096):
        honest.goes_on()
        until(lambda: files(server) < honest.files + 1_400)
        # Some 50 MB where the machine has nothing else to do; where it has, 258 for a moment, until they are gone.
        until(lambda: server.resident_bytes() < honest.rss + 200 * MB)
        honest.goes_on()
    honest.everybody_else_has_gone()
    honest.was_served()


def answered(client: socket.socket) -> bool:
    """Asks for a look; whether it came."""
    client.sendall(HEALTH)
    return one_answer(client.makefile("rb", 0)) == 200


def test_at_the_bound_the_longest_idle_go(serve: Serve, website: str) -> None:
    """Those who never asked anything before those who did, and of each kind the oldest."""
    server = serve(*NO_RATE_LIMITS, "--max-connections", "40")
    honest = Honest(server, website)
    with crowd(server, 5) as askers, crowd(server, 20) as silent, ExitStack() as stack:
        for client in askers:
            assert answered(client)
        honest.goes_on()
        later = stack.enter_context(crowd(server, 10))
        honest.goes_on()
        newcomers = stack.enter_context(crowd(server, 20))
        for client in newcomers:
            assert answered(client)
        honest.goes_on()
        assert 14 < sum(is_closed(client) for client in silent) < 20
        assert not any(is_closed(client) for client in (*askers, *later, *newcomers))
    honest.everybody_else_has_gone()
    honest.was_served()


def test_at_the_bound_newcomers_are_refused_where_all_are_busy(serve: Serve) -> None:
    server = serve("--max-connections", "20")
    waits = b"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    with crowd(server, 20, waits) as busy:
        assert {client.recv(100) for client in busy} == {b"HTTP/1.1 100 Continue\r\n\r\n"}
        with connect(server) as client:
            answer = whole(client)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in head + b"\r\n"
        assert b"\r\nAccess-Control-Allow-Origin: *\r\n" in head + b"\r\n"
        assert json.loads(body)["error"]["code"] == "overloaded"
        assert not any(is_closed(client) for client in busy)
    until(lambda: server.request("GET", "/healthz").status == 200)


def test_at_the_bound_no_answer_is_lost(serve: Serve, website: str, db: Path) -> None:
    """Who is sent away has not been taken: 24 clients at once where there is room for 8."""
    server = serve(*NO_RATE_LIMITS, "--max-connections", "8")
    body = json.dumps(view(website)).encode()
    post = b"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    found = Counter[int]()

    def client() -> None:
        for _ in range(40):
            with connect(server) as one, suppress(ConnectionError):
                one.sendall(post)
                found[status(one)] += 1

    threads = [threading.Thread(target=client) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) <= {202, 503, 0}, "0: closed before it was read"
    assert found[202] > 8
    with closing(sqlite3.connect(db)) as connection:
        assert connection.execute("select count(*) from event").fetchone() == (found[202],)


@pytest.mark.parametrize("trusted", [False, True])
def test_connections_of_one_client(serve: Serve, trusted: bool) -> None:
    """An address that is no proxy's has a bound of its own, and takes nobody else's place."""
    server = serve("--client-connections", "10", *(() if trusted else ("--trusted-proxy", "none")))
    with crowd(server, 10, source="127.0.0.2") as others, crowd(server, 10) as first:
        for client in (*others, *first):
            assert answered(client)
            time.sleep(0.002)  # the loop's clock tells milliseconds
        time.sleep(0.3)  # JUST_ANSWERED_S
        with connect(server) as one_more:
            assert answered(one_more)
        assert is_closed(first[0]) is not trusted
        assert not any(is_closed(client) for client in (*others, *first[1:]))


def test_256_file_descriptors(serve: Serve, website: str) -> None:
    """L7: there is always one left for the database and for the next client."""
    server = serve(*NO_RATE_LIMITS, prefix=["prlimit", "--nofile=256:256"])
    honest = Honest(server, website)
    with crowd(server, 100), crowd(server, 500, HALF_HEAD):
        honest.goes_on(20)
        with crowd(server, 300):
            honest.goes_on(20)
        assert files(server) < 256
    honest.everybody_else_has_gone()
    honest.was_served()
    words = [line for line in server.stderr().splitlines() if "database:" not in line]
    assert [line for line in words if "set up" not in line and "192 connections instead of 10000" not in line] == []
    assert len(words) <= 2


def test_the_soft_limit_is_raised(serve: Serve) -> None:
    server = serve("--max-connections", "500", prefix=["prlimit", "--nofile=100:3000"])
    limits = Path(f"/proc/{server.pid}/limits").read_text()
    assert next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3:5] == [
        "564",
        "3000",
    ]


def test_10_000_pipelined_requests(serve: Serve, website: str) -> None:
    """L9: all answered in order, to one who reads; held back from one who does not."""
    server = serve(*NO_RATE_LIMITS)
    honest = Honest(server, website)
    body = json.dumps(view(website, "/pipelined")).encode()
    post = b"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with connect(server) as client, connect(server) as deaf:
        sender = threading.Thread(target=client.sendall, args=((HEALTH * 9 + post) * 1_000,), daemon=True)
        sender.start()
        deaf.setblocking(False)
        with suppress(BlockingIOError):
            while deaf.send(HEALTH * 1_000):
                pass
        answers = client.makefile("rb")
        for _ in range(1_000):
            statuses = [one_answer(answers) for _ in range(10)]
            assert statuses == [200] * 9 + [202]
        honest.goes_on(10)
        assert server.resident_bytes() < honest.rss + 30 * MB
        sender.join()
    honest.everybody_else_has_gone()
    honest.was_served()


def one_answer(stream: Any) -> int:
    """Reads an answer; its status."""
    first, length = stream.readline(), 0
    while (line := stream.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    stream.read(length)
    return int(first.split()[1])


def test_bombs(serve: Serve, website: str) -> None:
    """Figure 11: 200 compressed ones at once, and bodies in chunks that have no end, or nothing but extensions."""
    server = serve(*NO_RATE_LIMITS)
    honest = Honest(server, website)
    start = b"POST /api/collect HTTP/1.1\r\nHost: x\r\n"
    packed = gzip.compress(bytes(60 * MB), 9)[:65_536]
    zipped = start + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(packed), packed)
    chunked = start + b"Transfer-Encoding: chunked\r\n\r\n"
    endless = chunked + (b"4000\r\n" + b"x" * 0x4000 + b"\r\n") * 8
    tiny = chunked + b"1\r\nx\r\n" * 70_000
    extended = chunked + b"1;" + b"x" * 200_000 + b"\r\nx\r\n0\r\n\r\n"
    for sends, expected in ((zipped, {415}), (endless, {413}), (tiny, {413}), (extended, {400})):
        with crowd(server, 200 if sends is zipped else 50, sends) as clients:
            honest.goes_on()
            assert {status(client) for client in clients} <= expected
            assert server.resident_bytes() < honest.rss + 60 * MB
    honest.everybody_else_has_gone()
    honest.was_served()


def test_long_heads(serve: Serve, website: str) -> None:
    """I14: the documented limits; and heads that never end are held for nobody."""
    server = serve(*NO_RATE_LIMITS)
    honest = Honest(server, website)
    cases = {
        "a target of 32,768 bytes": (b"GET /healthz?" + b"x" * 32_759 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        "a longer one": (b"GET /healthz?" + b"x" * 32_760 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        "a field of 16,384 bytes": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 16_380 + b"\r\n\r\n", 200),
        "a longer field": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 16_385 + b"\r\n\r\n", 400),
        "128 fields": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 127 + b"\r\n", 200),
        "129 fields": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 128 + b"\r\n", 400),
    }
    found = {}
    for name, (sent, _) in cases.items():
        with connect(server) as client:
            client.sendall(sent)
            found[name] = status(client)
    assert found == {name: expected for name, (_, expected) in cases.items()}
    fat = HALF_HEAD[:-8] + b"".join(b"X-%d: %b\r\n" % (n, b"y" * 16_000) for n in range(40))
    with crowd(server, 300, fat):
        honest.goes_on()
        assert server.resident_bytes() < honest.rss + 150 * MB
        honest.goes_on()
    honest.everybody_else_has_gone()
    honest.was_served()


def test_unknown_websites(serve: Serve, website: str) -> None:
    """A flood of ids that do not exist, from ever new addresses, is kept nowhere and holds nobody up."""
    server = serve(*NO_RATE_LIMITS)
    honest = Honest(server, website)
    at, chance, found = urlsplit(server.url), random.Random(1), Counter[int]()
    with closing(http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)) as connection:
        for n in range(2_000):
            address = f"198.51.{chance.randrange(256)}.{chance.randrange(256)}"
            body = json.dumps(view(str(uuid.UUID(int=chance.getrandbits(128)))))
            connection.request("POST", "/api/collect", body, {"X-Forwarded-For": address})
            answer = connection.getresponse()
            answer.read()
            found[answer.status] += 1
            if n % 400 == 0:
                honest.goes_on()
    assert found == {404: 2_000}
    assert server.resident_bytes() < honest.rss + 30 * MB
    honest.was_served()


def test_addresses_that_are_only_claimed(serve: Serve, website: str) -> None:
    """L4: ever new X-Forwarded-For from nobody trusted: 600 pass, and what a minute refills meanwhile."""
    server = serve("--trusted-proxy", "none", "--website-per-minute", "1000000")
    at, found, begun = urlsplit(server.url), Counter[int](), time.monotonic()
    with closing(http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)) as connection:
        for n in range(800):
            headers = {"X-Forwarded-For": f"203.0.{n % 256}.{n // 256}", "User-Agent": f"agent {n}"}
            connection.request("POST", "/api/collect", json.dumps(view(website)), headers)
            answer = connection.getresponse()
            answer.read()
            found[answer.status] += 1
            assert (answer.status == 429) is (answer.headers["Retry-After"] is not None)
    assert set(found) <= {202, 429}
    assert 600 <= found[202] <= 601 + 10 * (time.monotonic() - begun)


def garbage(chance: random.Random) -> bytes:
    """Bytes: at random, or a request with something wrong in it."""
    request = bytearray(b'POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"')
    match chance.randrange(4):
        case 0:
            return chance.randbytes(chance.randrange(1, 400))
        case 1:
            for _ in range(chance.randrange(1, 5)):
                request[chance.randrange(len(request))] = chance.randrange(256)
        case 2:
            del request[chance.randrange(len(request)) :]
        case 3:
            request[chance.randrange(len(request)) :] = chance.randbytes(chance.randrange(1, 40))
    return bytes(request)


def test_garbage_10_000_times(serve: Serve, website: str) -> None:
    """Figure 8 and I15: no failure, and next to nothing in the log."""
    server = serve(*NO_RATE_LIMITS)
    honest, chance = Honest(server, website), random.Random(2)
    found = Counter[bytes]()
    said = len(server.stderr())
    for _ in range(20):
        with crowd(server, 500, lambda: garbage(chance)) as clients:
            honest.goes_on()
            for client in clients:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_WR)
                found[whole(client)[9:12]] += 1
    assert not [code for code in found if code[:1] == b"5"], found
    assert found[b"400"] > 5_000, found
    assert len(server.stderr()) - said < 2_000
    assert server.resident_bytes() < honest.rss + 30 * MB
    honest.everybody_else_has_gone()
    honest.was_served()
