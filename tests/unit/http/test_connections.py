"""tally/http/connections.py and tally/http/body.py: deadlines, limits and counters, with values small enough to reach.

tests/robustness/test_hostile_clients.py tests the real values in a separate process.
"""

import asyncio
import contextlib
import json
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from tally.events.client import parse_proxies
from tally.http.connections import CONNECTIONS, Connections
from tally.http.middleware import ERROR_COUNTS, RESPONSE_COUNTS
from tally.http.request_paths import COLLECT_PATHS
from tally.web.status import OPENAPI
from tests.support.app import App, MakeApp

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
BIG = b"GET /api/v1/openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n"
HEAD = b"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
# Longer than any test takes, shorter than a hang.
LONG_S = 60.0

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[..., Awaitable[Client]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check deadlines often; each test shortens its own deadline."""
    monkeypatch.setattr("tally.http.connections.SWEEP_S", 0.02)
    for name in (
        "http.connections.HEAD_S",
        "http.connections.STALLED_S",
        "http.connections.RESPONSE_S",
        "http.body.BODY_S",
    ):
        monkeypatch.setattr(f"tally.{name}", LONG_S)


@pytest.fixture
def long_answers(app: App) -> None:
    """Make the document larger than the system buffers for a client that does not read, up to 150 KB here."""
    app.application._state[OPENAPI] *= 8


@pytest.fixture
async def connect(app: App, long_answers: None) -> AsyncIterator[Connect]:
    """Yield a function that opens connections with small buffers; closed at the end, when nothing is counted."""
    writers: list[asyncio.StreamWriter] = []

    async def one(*sends: bytes) -> Client:
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", app.client.port or 0))
        reader, writer = await asyncio.open_connection(sock=raw, limit=1_024)
        writers.append(writer)
        for piece in sends:
            writer.write(piece)
        return reader, writer

    yield one
    all_connections = connections(app)
    await app.client.session.close()
    for writer in writers:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    await holds(lambda: not all_connections.all)
    assert (all_connections.heads_bytes, all_connections.unread_bytes, all_connections.bodies) == (0, 0, {})
    assert (all_connections._by_client, all_connections._unread) == ({}, {})


def connections(app: App) -> Connections:
    return app.application[CONNECTIONS]


async def holds(what: Callable[[], Any]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(LONG_S / 2):
        while not what():
            await asyncio.sleep(0.005)


async def rest_of(client: Client) -> bytes:
    """Return all bytes until the server closes."""
    async with asyncio.timeout(LONG_S / 2):
        try:
            return await client[0].read()
        except ConnectionError:
            return b""


async def answer(client: Client) -> tuple[int, bytes]:
    """Return status and body."""
    async with asyncio.timeout(LONG_S / 2):
        head = (await client[0].readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head.split()[1]), await client[0].readexactly(length)


def view(website: str) -> bytes:
    body = json.dumps({"type": "pageview", "website_id": website, "url": "https://example.com/"}).encode()
    return HEAD % len(body) + body


@contextlib.contextmanager
def shut(app: App) -> Iterator[None]:
    """Prevent commits while the context lasts."""
    app.running.ingest.queue += 1_000_000
    yield
    app.running.ingest.queue -= 1_000_000


@pytest.mark.parametrize("before", [b"", HEALTH, "view"], ids=["at first", "after aiohttp's", "after a short one"])
async def test_a_slow_header_times_out(
    before: bytes | str, app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline runs from the first byte; later bytes do not extend it."""
    monkeypatch.setattr("tally.http.connections.HEAD_S", 0.2)
    client = await connect(view(await app.website()) if isinstance(before, str) else before)
    if before:
        assert (await answer(client))[0] in (200, 202)

    async def drip() -> None:
        client[1].write(b"GET / HTTP/1.1\r\nX: ")
        while True:
            client[1].write(b"x")
            await asyncio.sleep(0.01)

    dripping = asyncio.create_task(drip())
    assert await rest_of(client) == b""
    dripping.cancel()
    assert connections(app).late == 1


async def test_a_silent_connection_counts_as_idle(app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tally.http.connections.HEAD_S", 0.15)
    client = await connect()
    await asyncio.sleep(0.3)
    client[1].write(HEALTH)
    assert (await answer(client))[0] == 200


async def test_idle_connections_are_closed(make_app: MakeApp) -> None:
    """On both request paths, and never during a request."""
    app = await make_app(idle_seconds=1)
    website = await app.website()
    clients = [await asyncio.open_connection("127.0.0.1", app.client.port) for _ in range(3)]
    for (_, writer), sends in zip(clients, (b"", view(website), HEALTH), strict=True):
        writer.write(sends)
    assert [(await rest_of(client))[9:12] for client in clients] == [b"", b"202", b"200"]
    for _, writer in clients:
        writer.close()


async def test_shutdown_waits_for_the_first_request_of_a_new_connection(
    app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tally.http.connections.NEW_S", LONG_S)
    monkeypatch.setattr("tally.web.runner.GRACE_S", LONG_S)
    client = await connect()
    await holds(lambda: connections(app).open)
    runner = app.client.server.runner
    assert runner is not None
    ending = asyncio.create_task(runner.cleanup())
    await holds(lambda: not runner.sites)
    client[1].write(HEALTH)
    assert (await answer(client))[0] == 200
    await ending


async def test_a_connection_waiting_for_its_commit_is_not_idle(
    app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections(app).idle_s = 0.05
    website = await app.website()
    delayed: list[Callable[[], None]] = []
    append = app.running.ingest.append
    monkeypatch.setattr(app.running.ingest, "append", lambda *request: delayed.append(lambda: append(*request)))
    clients = [await connect(view(website)), await connect(view(website).replace(b": x", b": x\r\nTE: trailers"))]
    await holds(lambda: len(delayed) == 2)
    await asyncio.sleep(0.2)
    for append_now in delayed:
        append_now()
    assert [(await answer(client))[0] for client in clients] == [202, 202]


async def test_which_connection_is_closed_at_the_limit(
    app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent connections first, then idle ones, then readers; never one with a request or a recent response."""
    all_connections = connections(app)
    all_connections.limit = 10
    with monkeypatch.context() as patch:
        patch.setattr("tally.http.connections.JUST_ANSWERED_S", LONG_S)
        just_answered = await connect(HEALTH)
        assert (await answer(just_answered))[0] == 200
        assert not all_connections.make_room()
    monkeypatch.setattr("tally.http.connections.JUST_ANSWERED_S", 0.0)
    fetching = await connect(BIG * 30)
    await holds(lambda: all_connections.unread_bytes)
    idle, silent = await connect(HEALTH), await connect()
    assert (await answer(idle))[0] == 200
    await holds(lambda: len(all_connections.all) == 4)
    for client in (silent, just_answered, idle):
        await asyncio.sleep(0.01)
        assert all_connections.make_room()
        assert await rest_of(client) == b""
    assert (await answer(fetching))[0] == 200
    asking = await connect(HEAD % 2 + b"{")
    await holds(lambda: all_connections.bodies)
    assert all_connections.make_room()
    assert not all_connections.make_room()
    asking[1].write(b"}")
    assert (await answer(asking))[0] == 400
    assert all_connections.evicted == 4


async def test_an_unread_response_times_out(app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tally.http.connections.STALLED_S", 0.1)
    all_connections = connections(app)
    await connect(BIG * 30)
    await holds(lambda: all_connections.late == 1)


async def test_a_response_read_too_slowly_times_out(
    app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tally.http.connections.RESPONSE_S", 0.3)
    all_connections = connections(app)
    # Less than half is read each time, so the buffer is never empty.
    reader, _ = await connect(BIG * 400)
    async with asyncio.timeout(LONG_S / 2):
        while not all_connections.late:
            assert await reader.read(1_024)
            await asyncio.sleep(0.001)


@pytest.mark.slow
async def test_a_slow_reader_gets_its_responses(app: App, connect: Connect) -> None:
    reader, _ = await connect(BIG * 30)
    all_connections = connections(app)
    await holds(lambda: all_connections.unread_bytes)
    size = len((await app.get("/api/v1/openapi.yaml")).body)
    for _ in range(30):
        assert len((await answer((reader, _)))[1]) == size  # type: ignore[arg-type]
    assert (all_connections.late, all_connections.unread_bytes) == (0, 0)


async def test_unread_responses_are_bounded_in_total(
    app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client that has not read for longest is closed first; a single client can have the longest response."""
    monkeypatch.setattr("tally.http.connections.MAX_UNREAD_BYTES", 150_000)
    all_connections = connections(app)
    clients = []
    for count in range(1, 6):
        clients.append(await connect(BIG * 30))
        await holds(lambda count=count: all_connections.late + len(all_connections._unread) == count)
        assert all_connections.unread_bytes <= 150_000 or len(all_connections._unread) == 1
    assert all_connections.late >= 3
    assert (await answer(clients[-1]))[0] == 200


async def test_headers_are_bounded_in_total(app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection with the longest header is closed."""
    monkeypatch.setattr("tally.http.connections.MAX_HEADS_BYTES", 20_000)
    all_connections = connections(app)
    start = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: "
    short, long = await connect(start + b"y" * 4_000), await connect(start + b"y" * 14_000)
    await holds(lambda: all_connections.heads_bytes > 18_000)
    middle = await connect(start + b"y" * 8_000)
    assert await rest_of(long) == b""
    for client in (short, middle):
        client[1].write(b"\r\n\r\n")
        assert (await answer(client))[0] == 200
    assert (all_connections.late, all_connections.heads_bytes) == (1, 0)


async def test_pipelined_requests_are_counted(app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count with more than their bytes until they are answered."""
    all_connections = connections(app)
    # More than the kernel's send buffer (4 MB) takes, so that the requests after it have to wait.
    reader, writer = await connect(BIG * 8 + HEALTH * 20)
    await holds(lambda: all_connections.heads_bytes > 20 * 1_500)
    for _ in range(28):
        assert (await answer((reader, writer)))[0] == 200
    await holds(lambda: all_connections.heads_bytes == 0)
    monkeypatch.setattr("tally.http.connections.MAX_HEADS_BYTES", 20_000)
    assert await rest_of(await connect(BIG + HEALTH * 20)) == b""


async def test_a_body_that_looks_like_headers_is_not_counted(app: App, connect: Connect) -> None:
    body = b"\r\n\r\n" * 100
    client = await connect(HEAD % len(body) + body)
    assert (await answer(client))[0] == 400
    await holds(lambda: connections(app).heads_bytes == 0)
    client[1].write(HEALTH)
    assert (await answer(client))[0] == 200


async def test_a_missing_body_times_out(app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tally.http.body.BODY_S", 0.1)
    monkeypatch.setattr("tally.http.middleware.DRAIN_S", 0.1)
    client = await connect(HEAD % 10 + b"{")
    status, body = await answer(client)
    assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_json")
    assert await rest_of(client) == b""


async def test_the_oldest_of_many_bodies_is_refused(
    app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tally.http.body.MAX_CONCURRENT_BODIES", 2)
    monkeypatch.setattr("tally.http.middleware.DRAIN_S", 0.1)
    all_connections, website = connections(app), await app.website()
    clients = []
    for count in (1, 2):
        clients.append(await connect(HEAD % 10 + b"{"))
        await holds(lambda count=count: len(all_connections.bodies) == count)
    request = view(website)
    clients.append(await connect(request[:-1]))
    status, body = await answer(clients[0])
    assert (status, json.loads(body)["error"]["code"]) == (503, "overloaded")
    clients[2][1].write(request[-1:])
    assert (await answer(clients[2]))[0] == 202
    assert len(all_connections.bodies) == 1


async def test_overload_is_answered_before_the_body_is_read(
    app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On both request paths, with the same response."""
    monkeypatch.setattr("tally.http.middleware.DRAIN_S", 0.1)
    request = view(await app.website())
    with shut(app):
        short, long = await connect(request), await connect(HEAD % 1_000)
        answers = [await answer(client) for client in (short, long)]
    assert answers[0] == answers[1]
    for counter in (app.application[ERROR_COUNTS], app.node.rejected_events.requests):
        assert counter["overloaded"] == 2
    assert app.application[RESPONSE_COUNTS][COLLECT_PATHS[0], 5] == 1
    assert (answers[0][0], json.loads(answers[0][1])["error"]["code"]) == (503, "overloaded")
    short[1].write(request)
    assert (await answer(short))[0] == 202
    paths = [one.is_fast for one in connections(app).all if one.has_requested]  # type: ignore[attr-defined]
    assert True in paths, "the connection stayed on the fast path"


async def test_counters_of_connections(app: App, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any sequence of requests, in pieces of any size, all counters are 0 (`connect` checks this)."""
    monkeypatch.setattr("tally.http.connections.HEAD_S", 0.1)
    monkeypatch.setattr("tally.http.connections.STALLED_S", 0.1)
    monkeypatch.setattr("tally.http.connections.MAX_HEADS_BYTES", 60_000)
    monkeypatch.setattr("tally.http.connections.MAX_UNREAD_BYTES", 200_000)
    website, rng = await app.website(), random.Random(3)
    for _ in range(60):
        sent = b"".join(rng.choices([HEALTH, BIG, view(website), b"\r\n\r\n", HEAD % 20], k=rng.randrange(1, 8)))
        _, writer = await connect()
        while sent and rng.random() < 0.95:
            size = rng.randrange(1, 400)
            writer.write(sent[:size])
            sent = sent[size:]
            await asyncio.sleep(0)
        if rng.random() < 0.3:
            writer.transport.abort()
    assert (await app.get("/healthz")).status == 200


def connections_trusting(*trusted: str) -> Connections:
    return Connections(10, 2, 75.0, parse_proxies(trusted or ("none",)))


@pytest.mark.parametrize(
    ("peers", "same"),
    [
        (("203.0.113.1", "203.0.113.1"), True),
        (("203.0.113.1", "203.0.113.2"), False),
        (("2001:db8::1", "2001:db8::2"), True),
        (("2001:db8::1", "2001:db8:0:1::1"), False),
        (("203.0.113.1", "::ffff:203.0.113.1"), True),
    ],
)
def test_addresses_of_one_client(peers: tuple[str, str], same: bool) -> None:
    all_connections = connections_trusting()
    one, other = (all_connections._client_of(peer) for peer in peers)
    assert (one == other) is same
    assert connections_trusting("203.0.113.0/24", "2001:db8::/32")._client_of(peers[0]) is None
