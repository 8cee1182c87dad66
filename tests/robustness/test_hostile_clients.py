"""Attacks on a real server, during which other clients get correct responses at about the same speed.

The median duration of their requests and the server's memory are compared with those before the attack, so that the
result does not depend on the speed of the machine.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.storage.database import open_database
from tests.support.page_client import OWN_PAGE, PASSWORD, PASSWORD_HASH
from tests.support.process import NO_RATE_LIMITS, Serve, Server, until

# Attack and server use the same cores: the median may be this many times the one before, plus so many seconds.
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


class NormalClient:
    """Sends pageviews and health checks, each on a connection of its own, and measures their duration."""

    def __init__(self, server: Server, website: str) -> None:
        self.server, self._website, self._sent = server, website, 0
        # The first request loads modules and is not measured.
        self.measure()
        self._before_s = statistics.median(self.measure() for _ in range(30))
        self._during_s: list[float] = []
        self.rss = server.resident_bytes()
        self.files = files(server)

    def measure(self) -> float:
        """Send one pageview and one health check; return their duration in seconds."""
        begun = time.monotonic()
        path, self._sent = f"/normal/{self._sent}", self._sent + 1
        answer = self.server.request("POST", "/api/collect", view(self._website, path))
        assert (answer.status, answer.json) == (202, {"ok": True, "accepted": 1, "rejected": 0})
        assert self.server.request("GET", "/healthz").status == 200
        return time.monotonic() - begun

    def send(self, times: int = 3) -> None:
        """Send requests during an attack."""
        self._during_s += [self.measure() for _ in range(times)]

    def check_served(self) -> None:
        """Check that each pageview was stored once, and that requests were not much slower than before."""
        rows = "select count(*), count(distinct pathname) from event e join label l on l.id = e.pathname"
        with closing(sqlite3.connect(self.server.db)) as connection:
            found = connection.execute(f"{rows} where text like '/normal/%'").fetchone()
        assert found == (self._sent, self._sent)
        assert statistics.median(self._during_s) < SLOWER * self._before_s + JUST_ANSWERED_S

    def wait_for_closed_connections(self) -> None:
        """Wait until the server has as many open files as before."""
        until(lambda: files(self.server) <= self.files + 2, 60)


def view(website: str, path: str = "/") -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": f"https://example.com{path}"}


def files(server: Server) -> int:
    """Return the number of open file descriptors of the server."""
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
def connections(
    server: Server, count: int, sends: bytes | Callable[[], bytes] = b"", **how: Any
) -> Iterator[list[socket.socket]]:
    """Open so many connections, send bytes on each, and yield them; close them at the end."""
    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            clients.append(stack.enter_context(connect(server, **how)))
            with suppress(ConnectionError):  # the server has refused the connection
                clients[-1].sendall(sends if isinstance(sends, bytes) else sends())
        yield clients


def read_all(client: socket.socket) -> bytes:
    """Return everything that the server sends until it closes the connection."""
    received = bytearray()
    try:
        while piece := client.recv(65_536):
            received += piece
    except ConnectionResetError:
        pass
    return bytes(received)


def status(client: socket.socket) -> int:
    """Return the status of the first response, 0 without one."""
    first = client.makefile("rb").readline()
    return int(first.split()[1]) if first else 0


def is_closed(client: socket.socket) -> bool:
    """Return whether the server has closed the connection, without reading from it."""
    client.setblocking(False)
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        client.settimeout(60)


def up_to(wanted: int) -> int:
    """Return `wanted`, or the number of connections that the limit on open files allows; print if that is less."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted + 500:
        soft = wanted + 500 if hard == resource.RLIM_INFINITY else min(hard, wanted + 500)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft < wanted + 500:
        print(f"\nNOT TESTED: {wanted} connections; the limit on open files is {soft}", file=sys.__stderr__)
    return min(wanted, soft - 500)


def test_10_000_idle_connections(serve: Serve, website: str) -> None:
    server = serve(*NO_RATE_LIMITS, "--max-connections", "12000")
    normal, count = NormalClient(server, website), up_to(10_000)
    with connections(server, count // 2) as first:
        normal.send()
        with connections(server, count - count // 2) as second:
            normal.send()
            until(lambda: files(server) >= count + 10)
            assert server.resident_bytes() < normal.rss + 50 * MB
            # A connection that was idle still gets a response.
            for client in (first[0], second[-1]):
                assert answered(client)
            normal.send()
    normal.wait_for_closed_connections()
    normal.check_served()
    assert server.terminate() == 0


def test_2_000_half_open(serve: Serve, website: str) -> None:
    """Connections with incomplete headers or bodies or unread responses are closed; other clients are served."""
    server = serve(*NO_RATE_LIMITS)
    normal = NormalClient(server, website)
    with (
        connections(server, 1_000, HALF_HEAD) as heads,
        connections(server, 900, HALF_BODY) as bodies,
        # Fewer: their unread bytes together are within the server's bound, above which it closes some at once.
        connections(server, 100, BIG * 4, buffer_bytes=4_096),
    ):
        normal.send()
        assert files(server) > normal.files + 1_900
        begun = time.monotonic()
        while files(server) > normal.files + 2:
            normal.send()
            for client in heads[::100]:
                if not is_closed(client):
                    # Another byte does not extend the deadline.
                    client.send(b"x")
            assert server.resident_bytes() < normal.rss + 100 * MB
            assert time.monotonic() < begun + 60, "connections are still open"
            time.sleep(0.1)
        assert {read_all(client) for client in heads if is_closed(client)} == {b""}
        answers = [read_all(client) for client in bodies]
        assert all(answer.startswith(b"HTTP/1.1 400 ") and b"invalid_json" in answer for answer in answers)
    normal.check_served()


def test_incomplete_bodies(serve: Serve, website: str) -> None:
    """An incomplete body can use 64 KB. Beyond 1,000 of them the oldest get 503; complete requests are served."""
    server = serve(*NO_RATE_LIMITS)
    normal = NormalClient(server, website)
    with connections(server, 1_000, HALF_BODY) as first:
        normal.send()
        with connections(server, 100, HALF_BODY) as second:
            answers = [read_all(client) for client in first[:90]]
            assert all(answer.startswith(b"HTTP/1.1 503 ") and b'"overloaded"' in answer for answer in answers)
            assert all(b"\r\nRetry-After: 1\r\n" in answer for answer in answers)
            normal.send()
            assert not any(is_closed(client) for client in (*first[-100:], *second))
    normal.wait_for_closed_connections()
    normal.check_served()


def test_responses_that_are_not_read(serve: Serve, website: str) -> None:
    """All unread responses share one limit of memory; beyond it, connections with unread responses are closed."""
    server = serve(*NO_RATE_LIMITS)
    normal = NormalClient(server, website)
    with connections(server, 1_500, BIG * 4, buffer_bytes=4_096):
        normal.send()
        until(lambda: files(server) < normal.files + 1_400)
        # About 50 MB on an idle machine; on a busy one up to 258 MB until the connections are closed.
        until(lambda: server.resident_bytes() < normal.rss + 200 * MB)
        normal.send()
    normal.wait_for_closed_connections()
    normal.check_served()


def answered(client: socket.socket) -> bool:
    """Send a health check, and return whether its response is 200."""
    client.sendall(HEALTH)
    return one_answer(client.makefile("rb", 0)) == 200


def test_the_longest_idle_connections_are_closed_at_the_limit(serve: Serve, website: str) -> None:
    """Connections without any request are closed before those with one, and of each kind the oldest first."""
    server = serve(*NO_RATE_LIMITS, "--max-connections", "40")
    normal = NormalClient(server, website)
    with connections(server, 5) as active, connections(server, 20) as silent, ExitStack() as stack:
        for client in active:
            assert answered(client)
        normal.send()
        later = stack.enter_context(connections(server, 10))
        normal.send()
        newest = stack.enter_context(connections(server, 20))
        for client in newest:
            assert answered(client)
        normal.send()
        assert 14 < sum(is_closed(client) for client in silent) < 20
        assert not any(is_closed(client) for client in (*active, *later, *newest))
    normal.wait_for_closed_connections()
    normal.check_served()


def test_new_connections_are_refused_when_all_are_busy(serve: Serve) -> None:
    server = serve("--max-connections", "20")
    waits = b"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    with connections(server, 20, waits) as busy:
        assert {client.recv(100) for client in busy} == {b"HTTP/1.1 100 Continue\r\n\r\n"}
        with connect(server) as client:
            answer = read_all(client)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in head + b"\r\n"
        assert b"\r\nAccess-Control-Allow-Origin: *\r\n" in head + b"\r\n"
        assert json.loads(body)["error"]["code"] == "overloaded"
        assert not any(is_closed(client) for client in busy)
    until(lambda: server.request("GET", "/healthz").status == 200)


def test_no_response_is_lost_at_the_limit(serve: Serve, website: str, db: Path) -> None:
    """Exactly the requests answered 202 are stored: 24 concurrent clients with a limit of 8 connections."""
    server = serve(*NO_RATE_LIMITS, "--max-connections", "8")
    body = json.dumps(view(website)).encode()
    post = b"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    found = Counter[int]()

    def client() -> None:
        for _ in range(40):
            with connect(server) as connection, suppress(ConnectionError):
                connection.sendall(post)
                found[status(connection)] += 1

    threads = [threading.Thread(target=client) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) <= {202, 503, 0}, "0: closed before the request was read"
    assert found[202] > 8
    with closing(sqlite3.connect(db)) as connection:
        assert connection.execute("select count(*) from event").fetchone() == (found[202],)


@pytest.mark.parametrize("trusted", [False, True])
def test_connections_of_one_client(serve: Serve, trusted: bool) -> None:
    """An address that is not a trusted proxy has its own limit, which does not affect other addresses."""
    server = serve("--client-connections", "10", *(() if trusted else ("--trusted-proxy", "none")))
    with connections(server, 10, source="127.0.0.2") as others, connections(server, 10) as first:
        for client in (*others, *first):
            assert answered(client)
            time.sleep(0.002)  # the clock of the event loop has a resolution of a millisecond
        time.sleep(0.3)  # longer than JUST_ANSWERED_S of tally/http/connections.py
        with connect(server) as another:
            assert answered(another)
        assert is_closed(first[0]) is not trusted
        assert not any(is_closed(client) for client in (*others, *first[1:]))


def test_256_file_descriptors(serve: Serve, website: str) -> None:
    """Some descriptors stay free for the database and for the next client."""
    server = serve(*NO_RATE_LIMITS, prefix=["prlimit", "--nofile=256:256"])
    normal = NormalClient(server, website)
    with connections(server, 100), connections(server, 500, HALF_HEAD):
        normal.send(20)
        with connections(server, 300):
            normal.send(20)
        assert files(server) < 256
    normal.wait_for_closed_connections()
    normal.check_served()
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
    """A client that reads gets all responses in order. The server stops reading from a client that does not."""
    server = serve(*NO_RATE_LIMITS)
    normal = NormalClient(server, website)
    body = json.dumps(view(website, "/pipelined")).encode()
    post = b"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with connect(server) as client, connect(server) as not_reading:
        sender = threading.Thread(target=client.sendall, args=((HEALTH * 9 + post) * 1_000,), daemon=True)
        sender.start()
        not_reading.setblocking(False)
        with suppress(BlockingIOError):
            while not_reading.send(HEALTH * 1_000):
                pass
        answers = client.makefile("rb")
        for _ in range(1_000):
            statuses = [one_answer(answers) for _ in range(10)]
            assert statuses == [200] * 9 + [202]
        normal.send(10)
        assert server.resident_bytes() < normal.rss + 30 * MB
        sender.join()
    normal.wait_for_closed_connections()
    normal.check_served()


def one_answer(stream: Any) -> int:
    """Read one response; return its status. Raises IndexError where the connection is closed."""
    first, length = stream.readline(), 0
    while (line := stream.readline()).strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    stream.read(length)
    return int(first.split()[1])


def test_bombs(serve: Serve, website: str) -> None:
    """200 concurrent compressed bodies; chunked bodies that are endless, of tiny chunks, or with a long extension."""
    server = serve(*NO_RATE_LIMITS)
    normal = NormalClient(server, website)
    start = b"POST /api/collect HTTP/1.1\r\nHost: x\r\n"
    packed = gzip.compress(bytes(60 * MB), 9)[:65_536]
    zipped = start + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(packed), packed)
    chunked = start + b"Transfer-Encoding: chunked\r\n\r\n"
    endless = chunked + (b"4000\r\n" + b"x" * 0x4000 + b"\r\n") * 8
    tiny = chunked + b"1\r\nx\r\n" * 70_000
    extended = chunked + b"1;" + b"x" * 200_000 + b"\r\nx\r\n0\r\n\r\n"
    for sends, expected in ((zipped, {415}), (endless, {413}), (tiny, {413}), (extended, {400})):
        with connections(server, 200 if sends is zipped else 50, sends) as clients:
            normal.send()
            assert {status(client) for client in clients} <= expected
            assert server.resident_bytes() < normal.rss + 60 * MB
    normal.wait_for_closed_connections()
    normal.check_served()


def test_long_heads(serve: Serve, website: str) -> None:
    """The limits of docs/reference/limits.md; the memory for endless headers is limited."""
    server = serve(*NO_RATE_LIMITS)
    normal = NormalClient(server, website)
    cases = {
        "a target of 32,768 bytes": (b"GET /healthz?" + b"x" * 32_759 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        "a longer target": (b"GET /healthz?" + b"x" * 32_760 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400),
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
    long_head = HALF_HEAD[:-8] + b"".join(b"X-%d: %b\r\n" % (n, b"y" * 16_000) for n in range(40))
    with connections(server, 300, long_head):
        normal.send()
        assert server.resident_bytes() < normal.rss + 150 * MB
        normal.send()
    normal.wait_for_closed_connections()
    normal.check_served()


def test_unknown_websites(serve: Serve, website: str) -> None:
    """A flood of unknown ids from new addresses uses less than 30 MB, and other clients are served."""
    server = serve(*NO_RATE_LIMITS)
    normal = NormalClient(server, website)
    at, rng, found = urlsplit(server.url), random.Random(1), Counter[int]()
    with ExitStack() as stack:
        # At the same time: each waits until the server has read the websites again, which it does once in 20 ms.
        clients = [
            stack.enter_context(closing(http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)))
            for _ in range(20)
        ]
        for n in range(0, 2_000, len(clients)):
            for client in clients:
                address = f"198.51.{rng.randrange(256)}.{rng.randrange(256)}"
                body = json.dumps(view(str(uuid.UUID(int=rng.getrandbits(128)))))
                client.request("POST", "/api/collect", body, {"X-Forwarded-For": address})
            for client in clients:
                answer = client.getresponse()
                answer.read()
                found[answer.status] += 1
            if n % 400 == 0:
                normal.send()
    assert found == {404: 2_000}
    assert server.resident_bytes() < normal.rss + 30 * MB
    normal.check_served()


def test_forged_forwarded_addresses(serve: Serve, website: str) -> None:
    """Without a trusted proxy, requests with different X-Forwarded-For share one limit of 600 per minute."""
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


def garbage(rng: random.Random) -> bytes:
    """Return random bytes, or a request with random mistakes."""
    request = bytearray(b'POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"')
    match rng.randrange(4):
        case 0:
            return rng.randbytes(rng.randrange(1, 400))
        case 1:
            for _ in range(rng.randrange(1, 5)):
                request[rng.randrange(len(request))] = rng.randrange(256)
        case 2:
            del request[rng.randrange(len(request)) :]
        case 3:
            request[rng.randrange(len(request)) :] = rng.randbytes(rng.randrange(1, 40))
    return bytes(request)


def test_the_owner_signs_in_during_a_flood_from_one_ipv6_network(serve: Serve, db: Path) -> None:
    """64 clients guess without a pause, each time from another /64 of one /48; the owner's browser is a new one."""
    with closing(open_database(db, create=True)) as connection:
        create_account(connection, "owner@example.com", "business", PASSWORD_HASH, 0)
    server = serve()
    numbers, statuses, is_over = iter(range(65_536)), Counter[int](), threading.Event()

    def log_in(email: str, password: str, address: str) -> int:
        sent = OWN_PAGE | {"Content-Type": "application/json", "X-Forwarded-For": address}
        return server.request("POST", "/api/account/login", {"email": email, "password": password}, sent).status

    def guess() -> None:
        while not is_over.is_set():
            number = next(numbers)
            email = "owner@example.com" if number % 2 else f"{number}@example.com"
            statuses[log_in(email, "not the password", f"2001:db8:1:{number:x}::1")] += 1

    with ThreadPoolExecutor(64) as clients:
        try:
            guessing = [clients.submit(guess) for _ in range(64)]
            until(lambda: sum(statuses.values()) >= 300)
            assert log_in("owner@example.com", PASSWORD, "203.0.113.7") == 200
        finally:
            is_over.set()
        for one in guessing:
            one.result()
    assert set(statuses) <= {401, 429, 503}
    assert statuses[429] > statuses[401]


def test_garbage_10_000_times(serve: Serve, website: str) -> None:
    """No response is 5xx, and less than 2,000 bytes are logged."""
    server = serve(*NO_RATE_LIMITS)
    normal, rng = NormalClient(server, website), random.Random(2)
    found = Counter[bytes]()
    logged = len(server.stderr())
    for _ in range(20):
        with connections(server, 500, lambda: garbage(rng)) as clients:
            normal.send()
            for client in clients:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_WR)
                found[read_all(client)[9:12]] += 1
    assert not [code for code in found if code[:1] == b"5"], found
    assert found[b"400"] > 5_000, found
    assert len(server.stderr()) - logged < 2_000
    assert server.resident_bytes() < normal.rss + 30 * MB
    normal.wait_for_closed_connections()
    normal.check_served()
