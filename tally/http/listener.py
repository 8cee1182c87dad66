"""Accept connections on the listening sockets, within the bounds of tally/http/connections.py.

The bound is checked before a connection is set up, and at most ACCEPTS_PER_TURN connections are accepted in one turn of
the event loop, so a flood never takes the last file descriptor, which the database may need. A connection refused at
the bound gets a 503 in the shape of all errors, if it reads it.

The bound is set below the limit on open files, whose soft value is first raised to the hard one. If descriptors run out
nevertheless, an idle connection is closed; where none is idle, new ones wait in the kernel's queue for a second.

With TLS (tally/http/tls.py) the connections of TCP sockets begin with a handshake; Unix sockets are for a proxy on the
same machine and stay plain.

tally/http/sockets.py opens the sockets.
"""

import asyncio
import contextlib
import errno
import resource
import socket
from collections.abc import Callable
from typing import Any

from tally.errors import OVERLOADED, ApiError, log
from tally.http.connections import Connection, Connections
from tally.http.responses import COLLECT_HEADERS, error_response, serialize
from tally.http.sockets import Sockets
from tally.http.tls import Tls

# The database's connections, queries, a backup and the runtime open fewer than 40 files.
RESERVED_FILES = 64
# Small enough that accepting does not delay requests.
ACCEPTS_PER_TURN = 32
# How long a connection that the server closes waits for the client's own end of TLS (RFC 8446, 6.1).
TLS_SHUTDOWN_S = 2.0
_PAUSE_S = 1.0
_WARN_S = 60.0
_OUT_OF_FILES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


def usable_connections(limit: int) -> int:
    """Return how many connections there may be: `limit`, or what the limit on open files allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limit + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return limit
    allowed = max(1, soft - min(RESERVED_FILES, soft // 2))
    log.warning(
        "the limit on open files, %d, allows %d connections instead of %d: raise it (LimitNOFILE, ulimit -n)",
        soft,
        allowed,
        limit,
    )
    return allowed


class Listener:
    """Accepts connections on a server's sockets."""

    def __init__(
        self,
        sockets: Sockets,
        protocol_factory: Callable[[], Connection],
        connections: Connections,
        tls: Tls | None = None,
    ) -> None:
        self._sockets, self._protocol_factory, self._connections = sockets, protocol_factory, connections
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._warned_s = -_WARN_S
        refusal = ApiError(OVERLOADED, "Too many connections are open: try again in a moment.", retry_after_s=1)
        self._refusal = serialize(error_response(refusal), {**COLLECT_HEADERS, "Connection": "close"})
        for listening in sockets.all:
            self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        """Accept no more connections."""
        for listening in self._sockets.all:
            self._loop.remove_reader(listening)
        self._sockets.close()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, address = listening.accept()
            except OSError as failure:
                if failure.errno in _OUT_OF_FILES:
                    self._pause(listening)
                # Otherwise no connection waits, or the client has closed it already.
                return
            accepted.setblocking(False)
            tls = self._tls if isinstance(address, tuple) else None
            # The address of a Unix socket's peer is a text, usually empty.
            if tls is not None and tls.certificate is None:
                # No handshake is possible before the first certificate of --acme.
                accepted.close()
            elif self._connections.admit(address[0] if isinstance(address, tuple) else None):
                connection = self._protocol_factory()
                connection.begin(accepted, address, has_handshake=tls is not None)
                task = self._loop.create_task(self._connect(accepted, connection, tls))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif tls is None:
                self._refuse(accepted)
            else:
                # A response would need a handshake.
                accepted.close()

    async def _connect(self, accepted: socket.socket, connection: Connection, tls: Tls | None) -> None:
        # The deadline of the handshake is that of the connection.
        options: dict[str, Any] = {}
        if tls is not None and tls.certificate is not None:
            options = {"ssl": tls.certificate.context, "ssl_shutdown_timeout": TLS_SHUTDOWN_S}
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted, **options)
        except OSError:
            self._connections.remove(connection)
            accepted.close()

    def _refuse(self, accepted: socket.socket) -> None:
        # Closing a connection with unread bytes resets it, and the client may lose the response.
        with contextlib.suppress(OSError):
            accepted.recv(65_536)
        with contextlib.suppress(OSError):
            accepted.send(self._refusal)
            accepted.shutdown(socket.SHUT_WR)
        accepted.close()

    def _pause(self, listening: socket.socket) -> None:
        """Stop accepting for _PAUSE_S: without a descriptor, accept would fail in every turn of the event loop."""
        now_s = self._loop.time()
        if now_s - self._warned_s >= _WARN_S:
            self._warned_s = now_s
            log.warning("no file descriptor is left for a connection: raise the limit (LimitNOFILE, ulimit -n)")
        self._connections.make_room()
        self._loop.remove_reader(listening)
        self._loop.call_later(_PAUSE_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets.all:
            self._loop.add_reader(listening, self._accept, listening)
