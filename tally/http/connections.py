"""Everybody who is connected, and how long, how many and how much of each there may be.

Deadlines, looked at once a second: a head comes within HEAD_S of its first byte, an idle connection stays for the time
of the settings, an answer is read at all within STALLED_S and to its end within ANSWER_S (a body's is in
tally/http/body.py). Whoever is late is closed without a word.

Bounds: connections in all, and of one client address, which is a whole network of IPv6 (not where the peer is a trusted
proxy: it speaks for many). Where a bound is reached the connections that have waited longest go, those first that have
never asked anything; where all ask or have just been answered, the new one is refused. The memory that strangers can
fill is bounded in all: heads that are not whole, requests sent ahead, and answers that nobody reads.

A connection is asking from the moment a request's head is whole until its answer is handed to the system; `watched`,
the outermost middleware, says so for aiohttp's requests. What the writer and the readers need for a request they bound
themselves, so no deadline runs meanwhile. While it is asking a connection is never closed to make room.

Rules: only asyncio's public interfaces; addresses are in memory alone, like those of the token buckets.
"""

import asyncio
import math
from collections.abc import Callable, Collection
from functools import lru_cache
from heapq import nsmallest
from typing import cast

from aiohttp import web

from tally.events.client import Network, bucket_key, client_address, is_proxy
from tally.http.middleware import Handler

# RELIABILITY of slow heads: 10 seconds.
HEAD_S = 10.0
# our choice: a phone in a tunnel comes back within it; the kernel's own memory is bounded by tally/http/listener.py.
STALLED_S = 15.0
# our choice: the longest answer, 2 MB, on a line of 140 kbit/s.
ANSWER_S = 120.0
# our choice: 15,000 browsers' heads. aiohttp's own bound is 128 fields of 16 KB for each connection.
MOST_HEADS_BYTES = 32 * 1_048_576
# Measured: what aiohttp takes for a request that is sent ahead, of which it reads up to 32.
AHEAD_BYTES, MOST_AHEAD = 1_500, 32
# our choice: 16 of the longest answers.
MOST_UNREAD_BYTES = 32 * 1_048_576
# our choice: what is not counted as unread, for each connection; asyncio's own is 64 KB.
HIGH_WATER_BYTES = 16_384
SWEEP_S = 1.0
# our choice: an answer that was given this moment may still be on its way to the system.
MOMENT_S = 0.2
# The first request of a connection arrives within it unless the network is slow: so long a server that ends waits.
FRESH_S = 0.5
# our choice: at a bound, that part of it goes at once, so that looking for the oldest is rare.
_SHARE = 64


class Connection(asyncio.Protocol):
    """One of them. What it does with its bytes is up to who inherits it (tally/ingest/fast_path.py)."""

    def __init__(self, everybody: "Connections") -> None:
        self._everybody = everybody
        self.client: bytes | None = None
        self.is_asking = self.has_asked = False
        # Of the loop's clock: when it is late, since when it has waited for a head.
        self.until_s = self.since_s = math.inf
        # Of heads that wait to be asked; of answers that are not read, 0 while the system takes them as they come.
        self.head_bytes = self.unread_bytes = 0
        # How many such heads are whole. A body can look like one, until the next sweep.
        self.ahead = 0
        self.unread_since_s = self.stalled_since_s = math.inf

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has come."""
        # uvloop's is one without being a subclass.
        self.transport, self._loop = cast(asyncio.Transport, transport), asyncio.get_running_loop()
        self.transport.set_write_buffer_limits(HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername")
        self.peer: str | None = peer[0] if isinstance(peer, tuple) else None
        self._everybody.add(self, self._loop)
        self.rest()

    def connection_lost(self, failure: Exception | None) -> None:
        """He has gone."""
        self._everybody.forget(self)

    def worth(self) -> tuple[bool, bool, float]:
        """By which those come first who go first."""
        return self.has_asked, self.unread_bytes > 0, self.since_s

    def rest(self) -> None:
        """Nothing is asked, or not any more."""
        self.is_asking = False
        self.since_s = self._loop.time()
        self.until_s = self.since_s + self._everybody.idle_s

    def ask(self) -> None:
        """The head of a request is whole."""
        self.is_asking = self.has_asked = True
        self.until_s = math.inf
        self.ahead -= 1
        if self.ahead <= 0:
            self.catch_up()

    def catch_up(self) -> None:
        """Nothing of what has come waits to be asked."""
        self.ahead = 0
        self._everybody.heads_bytes -= self.head_bytes
        self.head_bytes = 0

    def gather(self, data: bytes) -> None:
        """Counts a piece of heads, or of what may be some: what it says, and what it takes when it is read."""
        if self.is_asking:
            return
        if not self.head_bytes:
            self.until_s = self._loop.time() + HEAD_S
        heads = data.count(b"\r\n\r\n")
        self.ahead += heads
        size = len(data) + AHEAD_BYTES * min(max(heads - 1, 0), MOST_AHEAD)
        self.head_bytes += size
        self._everybody.heads_bytes += size
        if self._everybody.heads_bytes > MOST_HEADS_BYTES:
            self._everybody.drop_the_longest_heads()

    def pause_writing(self) -> None:
        """Somebody who does not read his answers."""
        self.unread_since_s = self.stalled_since_s = self._loop.time()
        self._everybody.hold(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """He reads on."""
        self._everybody.release(self)
        if not self.is_asking:
            self.rest()

    def give_up(self) -> None:
        """Ends it at once, whatever was still to be said."""
        self._everybody.forget(self)
        self.transport.abort()


class Connections:
    """All of them. Used by the event loop alone."""

    def __init__(self, most: int, most_of_client: int, idle_s: float, trusted: tuple[Network, ...]) -> None:
        self.most, self.most_of_client, self.idle_s = most, most_of_client, idle_s
        self.all: set[Connection] = set()
        # For the metrics: refused at a bound, closed to make room, closed for being late or too much.
        self.refused = self.evicted = self.late = 0
        self.heads_bytes = self.unread_bytes = 0
        # Accepted, and not made yet: each is counted once, here or in `all`.
        self.coming = 0
        # Of the requests whose bodies are still coming, longest first (tally/http/body.py).
        self.bodies: dict[asyncio.Timeout, None] = {}
        self._of: dict[bytes, set[Connection]] = {}
        # In the order in which they stopped reading.
        self._unread: dict[Connection, None] = {}
        self._is_swept = False
        # A Unix socket's peer, None, is a proxy: it has no bound of its own, since all who come through it share it.
        self._client_of: Callable[[str | None], bytes | None] = lru_cache(1_024)(
            lambda peer: (
                None if peer is None or is_proxy(peer, trusted) else bucket_key(client_address(peer, (), trusted))
            )
        )

    @property
    def open(self) -> int:
        """How many there are."""
        return len(self.all)

    def has_fresh(self) -> bool:
        """Return whether a connection was accepted a moment ago and its first request may still be on its way."""
        if self.coming:
            return True
        after_s = asyncio.get_running_loop().time() - FRESH_S
        return any(not one.has_asked and one.since_s > after_s for one in self.all)

    def has_room(self, peer: str | None) -> bool:
        """Whether one more may come from this address, with those already on their way in; makes room if it can."""
        client = self._client_of(peer)
        theirs = self._of.get(client, ()) if client is not None else ()
        if (len(theirs) >= self.most_of_client and not self._make_room(theirs, self.most_of_client)) or (
            len(self.all) + self.coming >= self.most and not self.make_room()
        ):
            self.refused += 1
            return False
        return True

    def make_room(self) -> bool:
        """Ends the connections that have waited longest; whether there were any."""
        return self._make_room(self.all, self.most)

    def _make_room(self, among: Collection[Connection], most: int) -> bool:
        latest_s = asyncio.get_running_loop().time() - MOMENT_S
        waiting = [one for one in among if not one.is_asking and not (one.has_asked and one.since_s > latest_s)]
        oldest = nsmallest(1 + most // _SHARE, waiting, key=Connection.worth)
        for one in oldest:
            one.give_up()
        self.evicted += len(oldest)
        return bool(oldest)

    def add(self, one: Connection, loop: asyncio.AbstractEventLoop) -> None:
        """Counts somebody who has come."""
        self.coming = max(self.coming - 1, 0)
        self.all.add(one)
        one.client = self._client_of(one.peer) if one.peer else None
        if one.client is not None:
            self._of.setdefault(one.client, set()).add(one)
        if not self._is_swept:
            self._is_swept = True
            loop.call_later(SWEEP_S, self._sweep, loop)

    def forget(self, one: Connection) -> None:
        """Counts somebody no longer; nothing happens the second time."""
        self.all.discard(one)
        one.catch_up()
        self.release(one)
        if one.client is not None:
            theirs = self._of.get(one.client, set())
            theirs.discard(one)
            if not theirs:
                self._of.pop(one.client, None)

    def hold(self, one: Connection, size: int) -> None:
        """Counts what somebody has not read; where all that is too much, those go who have not read for longest."""
        self.unread_bytes += size - one.unread_bytes
        one.unread_bytes = size
        self._unread[one] = None
        while self.unread_bytes > MOST_UNREAD_BYTES and len(self._unread) > 1:
            self.late += 1
            next(iter(self._unread)).give_up()

    def drop_the_longest_heads(self) -> None:
        """All that are not whole are too much."""
        self.late += 1
        max(self.all, key=lambda one: one.head_bytes).give_up()

    def release(self, one: Connection) -> None:
        """He has read enough, or is gone."""
        self._unread.pop(one, None)
        self.unread_bytes -= one.unread_bytes
        one.unread_bytes = 0

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closes who is late. 0.5 ms with 10,000 connections."""
        now_s = loop.time()
        late = [one for one in self.all if one.until_s <= now_s and not one.unread_bytes]
        for one in list(self._unread):
            if one not in self._unread:
                continue
            size = one.transport.get_write_buffer_size()
            if size < one.unread_bytes:
                one.stalled_since_s = now_s
            self.hold(one, size)
            if now_s - one.stalled_since_s >= STALLED_S or now_s - one.unread_since_s >= ANSWER_S:
                late.append(one)
        for one in late:
            one.give_up()
        for one in self.all:
            if one.ahead and not one.is_asking and not one.unread_bytes and one.since_s < now_s - SWEEP_S:
                one.catch_up()
        self.late += len(late)
        self._is_swept = bool(self.all)
        if self._is_swept:
            loop.call_later(SWEEP_S, self._sweep, loop)


CONNECTIONS = web.AppKey("connections", Connections)


@web.middleware
async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Says of a connection that it is asking, from here until its answer is on its way."""
    protocol = request.transport.get_protocol() if request.transport is not None else None
    if not isinstance(protocol, Connection):
        return await handler(request)
    protocol.ask()
    try:
        return await handler(request)
    finally:
        protocol.rest()
