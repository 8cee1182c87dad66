"""The sockets that are listened on, and the moment in which somebody comes in.

Connections are taken from the system by us, a few each time the loop comes round, so that the bounds of
tally/http/connections.py are looked at before there is anything to close: a flood never takes the last file descriptor,
which the database may need. Who is refused at the bound is told so in the one shape of errors, if he reads it.

The bound is set below the limit on open files, whose soft value is raised to the hard one first. If the descriptors run
out nevertheless, one who waits goes; where nobody does, the system's own queue holds newcomers for a second.

The sockets themselves are opened by tally/http/sockets.py.
"""

import asyncio
import contextlib
import errno
import resource
import socket
from collections.abc import Callable

from tally.errors import OVERLOADED, ApiError, log
from tally.http.connections import Connections
from tally.http.middleware import COLLECT_HEADERS, error_answer, raw
from tally.http.sockets import Sockets

# our choice: the database's connections, questions, a backup and the runtime take less than 40.
RESERVED_FILES = 64
# our choice: what may come in before the loop looks at anybody else.
AT_ONCE = 32
_PAUSE_S = 1.0
_WARN_S = 60.0
_OUT_OF_FILES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


def room_for(most: int) -> int:
    """How many connections there may be: what is asked for, or what the limit on open files leaves room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return most
    room = max(1, soft - min(RESERVED_FILES, soft // 2))
    log.warning(
        "the limit on open files, %d, leaves room for %d connections instead of %d: raise it (LimitNOFILE, ulimit -n)",
        soft,
        room,
        most,
    )
    return room


class Listener:
    """Takes in whoever comes to some sockets."""

    def __init__(
        self, sockets: Sockets, protocol_factory: Callable[[], asyncio.BaseProtocol], connections: Connections
    ) -> None:
        self._sockets, self._protocol_factory, self._connections = sockets, protocol_factory, connections
        self._loop = asyncio.get_running_loop()
        self._coming: set[asyncio.Task[None]] = set()
        self._warned_s = -_WARN_S
        refusal = ApiError(OVERLOADED, "Too many connections are open: try again in a moment.", retry_after_s=1)
        self._refusal = raw(error_answer(refusal), {**COLLECT_HEADERS, "Connection": "close"})
        for one in sockets.all:
            self._loop.add_reader(one, self._take_in, one)

    def close(self) -> None:
        """Accept no more connections."""
        for one in self._sockets.all:
            self._loop.remove_reader(one)
        self._sockets.close()

    def _take_in(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                one, address = listening.accept()
            except OSError as failure:
                if failure.errno in _OUT_OF_FILES:
                    self._pause(listening)
                # Otherwise nobody is there any more, or one who came has gone already.
                return
            one.setblocking(False)
            # The address of a Unix socket's peer is a text, usually empty.
            if self._connections.has_room(address[0] if isinstance(address, tuple) else None):
                self._connections.coming += 1
                task = self._loop.create_task(self._connect(one))
                self._coming.add(task)
                task.add_done_callback(self._coming.discard)
            else:
                self._refuse(one)

    async def _connect(self, one: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol_factory, one)
        except OSError:
            self._connections.coming -= 1
            one.close()

    def _refuse(self, one: socket.socket) -> None:
        # What has been sent is read: closing on it would lose the answer on its way.
        with contextlib.suppress(OSError):
            one.recv(65_536)
        with contextlib.suppress(OSError):
            one.send(self._refusal)
            one.shutdown(socket.SHUT_WR)
        one.close()

    def _pause(self, listening: socket.socket) -> None:
        """No descriptor is left: this would come back at once, for as long as somebody waits outside."""
        now_s = self._loop.time()
        if now_s - self._warned_s >= _WARN_S:
            self._warned_s = now_s
            log.warning("no file descriptor is left for a connection: raise the limit (LimitNOFILE, ulimit -n)")
        self._connections.make_room()
        self._loop.remove_reader(listening)
        self._loop.call_later(_PAUSE_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets.all:
            self._loop.add_reader(listening, self._take_in, listening)
