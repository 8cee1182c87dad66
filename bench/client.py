"""HTTP clients: many connections that send as fast as responses arrive (`load`), and a single one (`Client`).

Both use raw sockets and do as little as possible, because they share the two cores with the server. `load` reports how
much of a core it used, which shows where the client is the limit. Responses need a Content-Length, which those of the
measured servers have.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from typing import NamedTuple, cast

from collect_requests import MakeRequest
from report import percentile
from servers import HAS_UVLOOP, Server

CONNECTIONS = 32  # of the target
# A response that takes longer is an error.
_MAX_WAIT_S = 60.0


class Load(NamedTuple):
    """The result of a load: requests per second, latencies in seconds, processor time of the server per request (which
    other load on the machine changes least), and the client's share of a core."""

    rate: float
    latencies: list[float]
    server_s: float
    client_share: float

    def at(self, share: float) -> float:
        """Return a percentile of the latencies."""
        return percentile(self.latencies, share)


class _Connection(asyncio.Protocol):
    """Sends a request, waits for its 202, and sends the next, until the time is over."""

    def __init__(self, make: MakeRequest, numbers: range, end: float, latencies: list[float]) -> None:
        self._make, self._numbers, self._end, self._latencies = make, iter(numbers), end, latencies
        self._unparsed = b""
        self._begun = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        now = time.perf_counter()
        number = next(self._numbers, None)
        if now >= self._end or number is None:
            self._transport.close()
            return
        self._begun = now
        self._transport.write(self._make(number))

    def data_received(self, data: bytes) -> None:
        if self._unparsed:
            data, self._unparsed = self._unparsed + data, b""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4 or len(data) < end + _length(data[:end]):
            self._unparsed = data
            return
        self._latencies.append(time.perf_counter() - self._begun)
        if not data.startswith(b"HTTP/1.1 202") or b'"rejected":0' not in data:
            self.done.set_exception(RuntimeError(f"not accepted: {data!r}"))
            self._transport.close()
            return
        self._send()

    def connection_lost(self, failure: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def _length(head: bytes) -> int:
    # The usual spellings: lower() of each head would take as long as the rest.
    for name in (b"Content-Length: ", b"content-length: "):
        at = head.find(name)
        if at >= 0:
            return int(head[at + 16 : head.index(b"\r\n", at)])
    raise RuntimeError(f"no Content-Length: {head!r}")


def load(
    server: Server, make: MakeRequest, seconds: float, most: int = sys.maxsize, connections: int = CONNECTIONS
) -> Load:
    """Send over so many connections for some seconds, at most `most` requests."""

    async def run() -> Load:
        loop = asyncio.get_running_loop()
        latencies: list[float] = []
        begun, used, theirs = time.perf_counter(), time.process_time(), server.cpu_s()
        numbers = [range(first, most, connections) for first in range(connections)]
        clients = [_Connection(make, own, begun + seconds, latencies) for own in numbers]
        for client in clients:
            await loop.create_connection(lambda client=client: client, "127.0.0.1", server.port)  # type: ignore[misc]
        async with asyncio.timeout(seconds + _MAX_WAIT_S):
            await asyncio.gather(*(client.done for client in clients))
        taken = time.perf_counter() - begun
        share, server_s = (time.process_time() - used) / taken, (server.cpu_s() - theirs) / len(latencies)
        return Load(len(latencies) / taken, latencies, server_s, share)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(run())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if not HAS_UVLOOP:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


class Client:
    """One keep-alive connection: sends a request and waits for the whole response."""

    def __init__(self, port: int, key: str = "") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._authorization = f"Authorization: Bearer {key}\r\n" if key else ""

    def get(self, path: str) -> tuple[int, bytes]:
        """Return status and body of a GET."""
        return self.exchange(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{self._authorization}\r\n".encode())

    def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Return status and body of the response to a request."""
        self._socket.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n") + 4) < 4:
            data += self._more()
        pieces, missing = [data[end:]], _length(data[:end]) - len(data) + end
        while missing > 0:
            pieces.append(self._more())
            missing -= len(pieces[-1])
        return int(data[9:12]), b"".join(pieces)

    def _more(self) -> bytes:
        got = self._socket.recv(262_144)
        if not got:
            raise ConnectionError("the server closed the connection")
        return got

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
