"""All open connections, their deadlines and their bounds.

Deadlines, checked once a second: the head of a request must be complete HEAD_S after its first byte; an idle connection
stays open for the time of the settings; of a response, the client must read something within STALLED_S and everything
within RESPONSE_S. (The deadline of a body is in tally/http/body.py.) A connection past a deadline is closed without a
response.

Bounds: the number of connections in all and of one client address. A client address is a network for IPv6; connections
from a trusted proxy have no such bound, because they carry the requests of many clients. At a bound the connections
that have been idle longest are closed, first those that have never sent a request; where every connection is active or
was answered just now, the new one is refused. Memory is bounded in all for incomplete heads, pipelined requests, and
responses that are not read.

A connection counts from the moment it is accepted: with TLS, its handshake must be complete within HEAD_S, and it is
closed at a bound like one that has never sent a request.

A connection is active from the moment a request's head is complete until its response is handed to the kernel; for
aiohttp's requests the outermost middleware, `track_requests`, marks it. An active connection has no deadline, because
writer and readers bound their own time, and is never closed because of the limit.

Only asyncio's public interfaces are used. Addresses are in memory only, as in the rate limits.
"""

import asyncio
import contextlib
import math
import socket
from collections.abc import Callable, Collection
from functools import lru_cache
from heapq import nsmallest
from typing import cast

from aiohttp import web

from tally.events.client import Network, bucket_key, client_address, is_proxy
from tally.http.middleware import Handler

# A browser sends its head in one packet. 10 s also lets a packet be lost and repeated several times.
HEAD_S = 10.0
# A phone that loses its network in a tunnel may return within it. tally/http/sockets.py bounds the kernel's buffers.
STALLED_S = 15.0
# The longest response, 2 MB, at 140 kbit/s.
RESPONSE_S = 120.0
# The heads of 15,000 browsers. aiohttp's own bound is 128 fields of 16 KB for each connection.
MAX_HEADS_BYTES = 32 * 1_048_576
# Measured: the memory that aiohttp uses for a pipelined request, of which it reads up to 32.
PIPELINED_BYTES, MAX_PIPELINED = 1_500, 32
# 16 of the longest responses.
MAX_UNREAD_BYTES = 32 * 1_048_576
# Bytes of each connection that are not counted as unread. asyncio's default is 64 KB.
HIGH_WATER_BYTES = 16_384
SWEEP_S = 1.0
# A response that was written this recently may not have reached the kernel.
JUST_ANSWERED_S = 0.2
# The first request of a new connection arrives within it unless the network is slow. Shutdown waits this long.
NEW_S = 0.5
# At a bound this fraction of it is closed at once, so that the search for the oldest is rare.
_EVICTED_SHARE = 64


class _Accepted:
    """Stands for the transport of a connection that has none yet; closing it ends its setup as if the client left."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted
        self.is_closed = False

    def abort(self) -> None:
        self.is_closed = True
        # An OSError: the client has left.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    close = abort


class Connection(asyncio.Protocol):
    """The state of one connection. A subclass handles its bytes (tally/ingest/fast_path.py)."""

    def __init__(self, connections: "Connections") -> None:
        self._connections = connections
        self.client: bytes | None = None
        # Until there is a transport.
        self.accepted: _Accepted | None = None
        self.is_active = self.has_requested = False
        # Times of the event loop's clock.
        self.deadline_s = self.idle_since_s = math.inf
        # Bytes of heads that are not handled yet; bytes of responses that are not read, 0 below HIGH_WATER_BYTES.
        self.head_bytes = self.unread_bytes = 0
        # Number of complete heads among them. Bytes of a body can look like one until the next sweep.
        self.pipelined = 0
        self.unread_since_s = self.stalled_since_s = math.inf

    def begin(self, accepted: socket.socket, peer: object, *, has_handshake: bool) -> None:
        """Register an accepted connection, whose transport follows at once, or after the handshake within HEAD_S."""
        self.accepted = _Accepted(accepted)
        self._register(self.accepted, peer)
        self.deadline_s = self.idle_since_s + HEAD_S
        # Otherwise new connections would close each other before any of them could send.
        self.is_active = not has_handshake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with requests; register a connection that `begin` has not."""
        if self.accepted is not None and self.accepted.is_closed:
            # What the client has sent already could still be read, but no response could be sent.
            cast(asyncio.Transport, transport).abort()
            return
        self.accepted = None
        self._register(transport, transport.get_extra_info("peername"))
        self.transport.set_write_buffer_limits(HIGH_WATER_BYTES)

    def _register(self, transport: object, peer: object) -> None:
        # uvloop's transports are not subclasses of asyncio.Transport.
        self.transport, self._loop = cast(asyncio.Transport, transport), asyncio.get_running_loop()
        # The address of a Unix socket's peer is a text, usually empty.
        self.peer: str | None = peer[0] if isinstance(peer, tuple) else None
        self._connections.add(self, self._loop)
        self.end_request()

    def connection_lost(self, failure: Exception | None) -> None:
        """Remove the closed connection."""
        self._connections.remove(self)

    def eviction_key(self) -> tuple[bool, bool, float]:
        """Return the sort key: the smallest is closed first."""
        return self.has_requested, self.unread_bytes > 0, self.idle_since_s

    def end_request(self) -> None:
        """Mark the connection as idle."""
        self.is_active = False
        self.idle_since_s = self._loop.time()
        self.deadline_s = self.idle_since_s + self._connections.idle_s

    def begin_request(self) -> None:
        """Mark the connection as active: the head of a request is complete."""
        self.is_active = self.has_requested = True
        self.deadline_s = math.inf
        self.pipelined -= 1
        if self.pipelined <= 0:
            self.release_heads()

    def release_heads(self) -> None:
        """Count no bytes of heads: all that arrived has been handled."""
        self.pipelined = 0
        self._connections.heads_bytes -= self.head_bytes
        self.head_bytes = 0

    def count_heads(self, data: bytes) -> None:
        """Count received bytes that are or may be heads, with the memory that aiohttp needs to parse them."""
        if self.is_active:
            return
        if not self.head_bytes:
            self.deadline_s = self._loop.time() + HEAD_S
        heads = data.count(b"\r\n\r\n")
        self.pipelined += heads
        size = len(data) + PIPELINED_BYTES * min(max(heads - 1, 0), MAX_PIPELINED)
        self.head_bytes += size
        self._connections.heads_bytes += size
        if self._connections.heads_bytes > MAX_HEADS_BYTES:
            self._connections.close_longest_head()

    def pause_writing(self) -> None:
        """Start counting unread bytes: the client reads slower than the server writes."""
        self.unread_since_s = self.stalled_since_s = self._loop.time()
        self._connections.count_unread(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop counting unread bytes."""
        self._connections.release_unread(self)
        if not self.is_active:
            self.end_request()

    def abort(self) -> None:
        """Close the connection at once, with whatever is unsent."""
        self._connections.remove(self)
        self.transport.abort()


class Connections:
    """All connections, their counts and their bounds. Used by the event loop's thread only."""

    def __init__(self, limit: int, client_limit: int, idle_s: float, trusted: tuple[Network, ...]) -> None:
        self.limit, self.client_limit, self.idle_s = limit, client_limit, idle_s
        self.all: set[Connection] = set()
        # For the metrics: refused at a bound; closed at the limit; closed past a deadline or for too much memory.
        self.refused = self.evicted = self.late = 0
        self.heads_bytes = self.unread_bytes = 0
        # The timeouts of bodies that are incomplete, oldest first (tally/http/body.py).
        self.bodies: dict[asyncio.Timeout, None] = {}
        self._by_client: dict[bytes, set[Connection]] = {}
        # Connections with unread bytes, in the order in which they stopped reading.
        self._unread: dict[Connection, None] = {}
        self._is_sweep_scheduled = False
        # None for a trusted proxy and for a Unix socket (peer None): their clients share one address.
        self._client_of: Callable[[str | None], bytes | None] = lru_cache(1_024)(
            lambda peer: (
                None if peer is None or is_proxy(peer, trusted) else bucket_key(client_address(peer, (), trusted))
            )
        )

    @property
    def open(self) -> int:
        """Return the number of open connections."""
        return len(self.all)

    def has_new(self) -> bool:
        """Return whether a connection was accepted within NEW_S whose first request may still arrive."""
        after_s = asyncio.get_running_loop().time() - NEW_S
        return any(not connection.has_requested and connection.idle_since_s > after_s for connection in self.all)

    def admit(self, peer: str | None) -> bool:
        """Return whether a connection from this address may be accepted; at a bound, close idle ones for it."""
        client = self._client_of(peer)
        same_client = self._by_client.get(client, ()) if client is not None else ()
        if (len(same_client) >= self.client_limit and not self._evict(same_client, self.client_limit)) or (
            len(self.all) >= self.limit and not self.make_room()
        ):
            self.refused += 1
            return False
        return True

    def make_room(self) -> bool:
        """Close the connections that have been idle longest; return whether there were any."""
        return self._evict(self.all, self.limit)

    def _evict(self, among: Collection[Connection], limit: int) -> bool:
        latest_s = asyncio.get_running_loop().time() - JUST_ANSWERED_S
        idle = [
            connection
            for connection in among
            if not connection.is_active and not (connection.has_requested and connection.idle_since_s > latest_s)
        ]
        oldest = nsmallest(1 + limit // _EVICTED_SHARE, idle, key=Connection.eviction_key)
        for connection in oldest:
            connection.abort()
        self.evicted += len(oldest)
        return bool(oldest)

    def add(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        """Count a new connection; a second call does nothing."""
        self.all.add(connection)
        connection.client = self._client_of(connection.peer) if connection.peer else None
        if connection.client is not None:
            self._by_client.setdefault(connection.client, set()).add(connection)
        if not self._is_sweep_scheduled:
            self._is_sweep_scheduled = True
            loop.call_later(SWEEP_S, self._sweep, loop)

    def remove(self, connection: Connection) -> None:
        """Stop counting a connection; a second call does nothing."""
        self.all.discard(connection)
        connection.release_heads()
        self.release_unread(connection)
        if connection.client is not None:
            same_client = self._by_client.get(connection.client, set())
            same_client.discard(connection)
            if not same_client:
                self._by_client.pop(connection.client, None)

    def count_unread(self, connection: Connection, size: int) -> None:
        """Count a connection's unread bytes; above the bound close those that stopped reading first."""
        self.unread_bytes += size - connection.unread_bytes
        connection.unread_bytes = size
        self._unread[connection] = None
        while self.unread_bytes > MAX_UNREAD_BYTES and len(self._unread) > 1:
            self.late += 1
            next(iter(self._unread)).abort()

    def release_unread(self, connection: Connection) -> None:
        """Count no unread bytes of a connection."""
        self._unread.pop(connection, None)
        self.unread_bytes -= connection.unread_bytes
        connection.unread_bytes = 0

    def close_longest_head(self) -> None:
        """Close the connection with the most bytes of heads."""
        self.late += 1
        max(self.all, key=lambda connection: connection.head_bytes).abort()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connections past a deadline. Takes 0.5 ms for 10,000 connections."""
        now_s = loop.time()
        late = [connection for connection in self.all if connection.deadline_s <= now_s and not connection.unread_bytes]
        for connection in list(self._unread):
            if connection not in self._unread:
                continue
            size = connection.transport.get_write_buffer_size()
            if size < connection.unread_bytes:
                connection.stalled_since_s = now_s
            self.count_unread(connection, size)
            if now_s - connection.stalled_since_s >= STALLED_S or now_s - connection.unread_since_s >= RESPONSE_S:
                late.append(connection)
        for connection in late:
            connection.abort()
        for connection in self.all:
            if (
                connection.pipelined
                and not connection.is_active
                and not connection.unread_bytes
                and connection.idle_since_s < now_s - SWEEP_S
            ):
                connection.release_heads()
        self.late += len(late)
        self._is_sweep_scheduled = bool(self.all)
        if self._is_sweep_scheduled:
            loop.call_later(SWEEP_S, self._sweep, loop)


CONNECTIONS = web.AppKey("connections", Connections)


@web.middleware
async def track_requests(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Mark the connection as active until the response has been written."""
    protocol = request.transport.get_protocol() if request.transport is not None else None
    if not isinstance(protocol, Connection):
        return await handler(request)
    protocol.begin_request()
    try:
        return await handler(request)
    finally:
        protocol.end_request()
