"""tally/ingest/fast_path.py: which requests take the fast path, and that responses are the same as those of aiohttp."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from tally.ingest.fast_path import MAX_FIELDS, MAX_HEAD_BYTES, MAX_LINES, HeaderCache, read_plain
from tests.support.app import CHROME, App, MakeApp
from tests.support.cases import cases

BODY = b'{"type": "pageview"}'
HEAD = b"POST /api/collect HTTP/1.1\r\nHost: x\r\nUser-Agent: a b\r\nContent-Length: 20\r\n\r\n"


def test_a_plain_request() -> None:
    fields = {"host": "x", "user-agent": "a b", "content-length": "20"}
    assert read_plain(HEAD + BODY, HeaderCache()) == (fields, BODY)


VALUES = (
    *("", "~", "a", " a", "a ", "a\tb", "\ta", "10.0.0.1, ::1"),
    *("a\x00", "a\x0b", "a\x1c", "a\x7f", "\x85", "a\xa0", "\xe4"),
)


@cases("value", VALUES, ids=ascii)
def test_uncached_header_lines_follow_the_same_grammar(value: str) -> None:
    """Lines such as X-Forwarded-For bypass the cache and are parsed like all others."""
    for gap in (": ", ":", ":  "):
        usual, quick = (
            (HEAD.replace(b"User-Agent: a b", f"{name}{gap}{value}".encode("latin-1")) + BODY)
            for name in ("X-Forwarded-By", "X-Forwarded-For")
        )
        expected, got = read_plain(usual, HeaderCache()), read_plain(quick, HeaderCache())
        assert (got is None) == (expected is None)
        if expected is not None and got is not None:
            assert got[0]["x-forwarded-for"] == expected[0]["x-forwarded-by"]


@cases(
    ("old", "new"),
    [
        (b" HTTP/1.1", b" HTTP/1.1"),
        (b"/api/collect", b"/api/v1/collect"),
        (b"Host: x", b"host: x"),
        (b"a b", b"a\tb"),
        (b"a b", b"\xff\xc3\xa4"),
        (b"Host: x", b"Host: x\r\nConnection: Keep-Alive"),
        (b"Host: x", b"Host:x"),
    ],
    ids=str,
)
def test_plain(old: bytes, new: bytes) -> None:
    assert read_plain((HEAD + BODY).replace(old, new, 1), HeaderCache()) is not None


@cases(
    ("old", "new"),
    [
        (b"POST", b"GET"),
        (b"POST", b"post"),
        (b"/api/collect", b"/api/collect?a=b"),
        (b"/api/collect", b"/api/collect/"),
        (b"/api/collect", b"/api/v2/collect"),
        (b"/api/collect", b"http://x/api/collect"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"\r\n", b"\n"),
        (b"Host: x\r\n", b""),
        (b"Host: x", b"Host : x"),
        (b"Host: x", b" Host: x"),
        (b"Host: x", b"Host: x\r\n folded"),
        (b"Host: x", b"Host: x\r\nhost: x"),
        (b"Host: x", b"Host: x\r\nContent-Length: 20"),
        (b"Host: x", b"Host: x\r\nConnection: close"),
        (b"Host: x", b"Host: x\r\nConnection: keep-alive, Upgrade"),
        (b"Host: x", b"Host: x\r\nTransfer-Encoding: chunked"),
        (b"Host: x", b"Host: x\r\nContent-Encoding: identity"),
        (b"Host: x", b"Host: x\r\nExpect: 100-continue"),
        (b"Host: x", b"Host: x\r\nUpgrade: h2c"),
        (b"Host: x", b"Host: x\r\nProxy-Connection: close"),
        (b"Host: x", b"Host: x" + b"".join(b"\r\nX-%d: y" % n for n in range(MAX_FIELDS))),
        (b"Host: x", b"Host: x\r\nno colon"),
        (b"Host: x", b"Host: x\r\n: no name"),
        (b"a b", b"a\0b"),
        (b"a b", b"a\rb"),
        (b"a b", b"a\nb"),
        (b"a b", b""),
        (b"a b", b" a"),
        (b"a b", b"a "),
        (b"a b", b"a" * MAX_HEAD_BYTES),
        (b"Content-Length: 20\r\n", b""),
        (b": 20", b": 19"),
        (b": 20", b": 21"),
        (b": 20", b": +20"),
        (b": 20", b": 2_0"),
        (b": 20", b": 20, 20"),
        (b": 20", b": 0000000000000000000020"),
        (b": 20", b": \xc2\xb2\xc2\xb0"),
        (BODY, BODY[:-1]),
        (BODY, BODY + HEAD + BODY),
        (BODY, b""),
    ],
    ids=str,
)
def test_not_plain(old: bytes, new: bytes) -> None:
    sent = HEAD + BODY
    assert old in sent
    assert read_plain(sent.replace(old, new, 1), HeaderCache()) is None


def test_repeated_header_lines_are_parsed_alike() -> None:
    lines = HeaderCache()
    first = read_plain(HEAD + BODY, lines)
    assert lines[b"User-Agent: a b"] == ("user-agent", "a b")
    assert read_plain(HEAD + BODY, lines) == first
    assert read_plain(HEAD.replace(b"a b", b"a c") + BODY, lines) != first
    assert read_plain(HEAD.replace(b"a b", b" a b") + BODY, lines) is None


def test_personal_header_lines_are_not_cached() -> None:
    lines = HeaderCache()
    headers = b"\r\nX-Forwarded-For: 203.0.113.7\r\nReferer: https://a.example/?q=1\r\nCookie: a=b\r\nAuthorization: c"
    assert read_plain(HEAD.replace(b"Host: x", b"Host: x" + headers) + BODY, lines) is not None
    assert sorted(lines) == [b"Content-Length: 20", b"Host: x", b"User-Agent: a b"]


def test_cached_lines_are_bounded() -> None:
    lines = HeaderCache()
    for number in range(3 * MAX_LINES):
        assert read_plain(HEAD.replace(b"a b", b"a %d" % number) + BODY, lines) is not None
        assert len(lines) <= MAX_LINES
    assert read_plain(HEAD.replace(b"a b", b"long" * 100) + BODY, lines) is not None
    assert not any(b"long" in line for line in lines)


def test_too_large_bodies_are_not_plain() -> None:
    for length, is_plain in ((65_536, True), (65_537, False)):
        sent = HEAD.replace(b": 20", b": %d" % length) + b" " * length
        assert (read_plain(sent, HeaderCache()) is not None) is is_plain


class Client:
    """A connection to an application, and the number of requests that aiohttp has handled on all connections."""

    def __init__(self, app: App, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.reader, self.writer = streams
        self._app = app

    @property
    def aiohttp_requests(self) -> int:
        return int(self._app.client.server.runner.server.server.requests_count)

    @property
    def connections(self) -> tuple[int, int]:
        """Return how many connections aiohttp handles, and how many the fast path handles."""
        every = self._app.client.server.runner.server.connections.all
        fast = sum(way.is_fast for way in every)
        return len(every) - fast, fast

    async def answer(self) -> tuple[str, list[str], bytes]:
        """Return the status line, the sorted headers without Date, and the body."""
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.startswith("Content-Length"))
        assert sum(line.startswith("Date: ") for line in lines) == 1
        headers = sorted(line for line in lines if not line.startswith("Date: "))
        return first, headers, await self.reader.readexactly(length)


Connect = Callable[[], Awaitable[Client]]


@pytest.fixture
async def connect(app: App) -> AsyncIterator[Connect]:
    """Return a function that opens connections; they are closed at the end of the test."""
    clients: list[Client] = []

    async def connection() -> Client:
        clients.append(Client(app, await asyncio.open_connection("127.0.0.1", app.client.port)))
        return clients[-1]

    yield connection
    for client in clients:
        client.writer.close()
        with contextlib.suppress(ConnectionError):
            await client.writer.wait_closed()


def post(body: Any, *headers: str) -> bytes:
    sent = json.dumps(body).encode()
    lines = ["POST /api/collect HTTP/1.1", "Host: localhost", f"Content-Length: {len(sent)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + sent


def view(website: str, path: str = "/", **more: Any) -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": f"https://example.com{path}", **more}


@contextlib.contextmanager
def write_lock(app: App) -> Iterator[None]:
    """Prevent commits while the context lasts."""
    connection = sqlite3.connect(app.db, isolation_level=None)
    connection.execute("begin immediate")
    yield
    connection.rollback()
    connection.close()


async def test_both_paths_return_the_same_response(app: App, connect: Connect) -> None:
    website = await app.website()
    warned = view(website) | {"referrer": "about:blank"}
    for body in (view(website), {"website_id": website, "events": [view(website, f"/{n}") for n in range(49)]}, warned):
        fast, slow = await connect(), await connect()
        before = fast.aiohttp_requests
        hints = ('Sec-CH-UA: "Not)A;Brand";v="8", "Brave";v="142"', "Sec-CH-UA-Mobile: ?0")
        request = post(body, "Origin: https://www.example.com", f"User-Agent: {CHROME}", *hints)
        fast.writer.write(request)
        answer = await fast.answer()
        assert fast.aiohttp_requests == before, "the request is plain"
        slow.writer.write(request.replace(b"Host: localhost\r\n", b"Host: localhost\r\nContent-Encoding: identity\r\n"))
        assert await slow.answer() == answer
        assert slow.aiohttp_requests == before + 1
        assert (b'"warnings":[{"index":0,"code":"without_referrer"' in answer[-1]) == (body is warned), answer
    (first, second) = app.sql(
        "select count(*), count(distinct visitor), count(distinct browser), max(platform) from event where id % 2 = 0"
        " union all select count(*), count(distinct visitor), count(distinct browser), max(platform) from event"
    )
    assert first[1:] == second[1:] == (1, 1, 0)
    assert second[0] == 102


async def test_a_refused_request_hands_the_connection_to_aiohttp(app: App, connect: Connect) -> None:
    website = await app.website()
    client = await connect()
    requests = [post(view(website)), post({"type": "pageview", "website_id": website}), post(view(website))]
    statuses, connections = [], []
    for request in requests:
        client.writer.write(request)
        statuses.append((await client.answer())[0].split()[1])
        connections.append(client.aiohttp_requests)
    assert statuses == ["202", "400", "202"]
    assert [way - connections[0] for way in connections] == [0, 1, 2]


async def test_pipelined_requests_are_answered_in_order(app: App, connect: Connect) -> None:
    """The first request is complete; the others arrive while its commit waits."""
    website = await app.website()
    client = await connect()
    with write_lock(app):
        client.writer.write(post(view(website, "/0")))
        while app.running.ingest.queue < 1:
            await app.get("/healthz")
        client.writer.write(post(b"no object".decode()) + post(view(website, "/1"))[:30])
        await app.get("/healthz")
        client.writer.write(post(view(website, "/1"))[30:])
        await app.get("/healthz")
    assert [(await client.answer())[0].split()[1] for _ in range(3)] == ["202", "400", "202"]
    assert app.sql("select count(*) from event") == [(2,)]


async def test_tokens_of_refused_requests_are_returned(app: App, connect: Connect) -> None:
    """A refused request takes no token; an accepted one takes one of each bucket, on both paths."""
    website = await app.website()
    client = await connect()
    collector = app.client.server.runner.server.collector
    key, now_ns = bytes((127, 0, 0, 1)), app.clock.monotonic_ns()
    client.writer.write(post(view(website)))
    assert (await client.answer())[0].split()[1] == "202"
    assert collector.clients.remaining(key, now_ns) == collector.clients.per_minute - 1
    app.database.health.fault = "damaged"
    client.writer.write(post(view(website)))
    assert (await client.answer())[0].split()[1] == "503"
    assert collector.clients.remaining(key, now_ns) == collector.clients.per_minute - 1


async def test_events_refused_by_the_writer_are_counted(make_app: MakeApp) -> None:
    """The response comes from the fast path if the month fills up, or the disk fails, after the checks."""
    app = await make_app(free_events=1)
    website = await app.website(plan="free")
    clients = [Client(app, await asyncio.open_connection("127.0.0.1", app.client.port)) for _ in range(4)]
    connections = clients[0].aiohttp_requests

    async def all_at_once() -> list[str]:
        with write_lock(app):
            for client in clients:
                client.writer.write(post(view(website)))
            # Not by HTTP, which would increase the number of aiohttp requests.
            while app.running.ingest.queue < len(clients):
                await asyncio.sleep(0)
        return sorted([(await client.answer())[0].split()[1] for client in clients])

    assert await all_at_once() == ["202", "429", "429", "429"]
    await app.admin(lambda run: run.execute("update account set plan = 'business'"))
    await app.database.writer.run(lambda run: run.execute("pragma query_only = on").fetchall())
    assert await all_at_once() == ["503"] * 4
    assert clients[0].aiohttp_requests == connections
    refusals = {"monthly_limit_reached": 3, "storage_unavailable": 4}
    assert (app.node.rejected_events.events, app.node.rejected_events.requests) == (refusals, refusals)
    await app.database.writer.run(lambda run: run.execute("pragma query_only = off").fetchall())
    await app.database.recovery.heal()
    await app.node.tick()
    assert app.sql("select sum(events) from rejected_event") == [(7,)]
    for client in clients:
        client.writer.close()
        await client.writer.wait_closed()


async def test_events_are_stored_after_the_client_disconnects(app: App, connect: Connect) -> None:
    website = await app.website()
    client = await connect()
    with write_lock(app):
        client.writer.write(post(view(website)))
        while app.running.ingest.queue < 1:
            await app.get("/healthz")
        client.writer.transport.abort()
        await app.get("/healthz")
    while app.running.ingest.queue:
        await app.get("/healthz")
    assert app.sql("select count(*) from event") == [(1,)]


async def test_aiohttp_sets_no_timer_on_fast_path_connections(app: App, connect: Connect) -> None:
    """aiohttp has not seen these requests, so its keep-alive timer would close the connection during one of them."""
    website = await app.website()
    client = await connect()
    before, _ = client.connections
    for n in range(3):
        client.writer.write(post(view(website, f"/{n}")))
        assert (await client.answer())[0].split()[1] == "202"
        assert client.connections == (before, 1)
    client.writer.write(post({"type": "pageview", "website_id": website}))
    assert (await client.answer())[0].split()[1] == "400"
    assert client.connections == (before + 1, 0)


async def test_connections_end_with_the_server(app: App, connect: Connect) -> None:
    website = await app.website()
    clients = [await connect(), await connect()]
    for client, more in zip(clients, ((), ("Proxy-Connection: close",)), strict=True):
        client.writer.write(post(view(website), *more))
        assert (await client.answer())[0].split()[1] == "202"
    await app.close()
    assert [await client.reader.read() for client in clients] == [b"", b""]
