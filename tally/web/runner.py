"""The aiohttp runner of the server: connections start on the fast path, and the server stops in an orderly way.

Stopping: no new connections; requests in progress get GRACE_S to finish, then aiohttp closes what is left. aiohttp's
access log and logger are disabled, because they would log data of clients (tally/http/logging.py).
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tally.http.connection_reuse import close_uncertain
from tally.http.connections import CONNECTIONS, Connection, Connections
from tally.http.listener import Listener
from tally.http.middleware import ACTIVE_REQUESTS
from tally.http.sockets import Sockets
from tally.http.tls import Tls
from tally.ingest.fast_path import ProtocolFactory

Application = web.Application

# The process must exit within 10 seconds of SIGTERM: GRACE_S for requests in progress, then up to twice
# SHUTDOWN_S in aiohttp.
GRACE_S = 3.0
SHUTDOWN_S = 2.5

_silent = logging.getLogger("tally.aiohttp")
_silent.disabled = True
RUNNER_OPTIONS: dict[str, Any] = {
    "access_log": None,
    "logger": _silent,
    # Decompressing a small body can block the event loop for seconds: compressed bodies are refused.
    "auto_decompress": False,
    # A filter may be a whole path, percent-encoded; aiohttp answers 400 to longer lines.
    "max_line_size": 32_768,
    "max_field_size": 16_384,
    "handler_cancellation": False,
    "handle_signals": False,
    # The unread rest of a refused request is drained by tally/http/middleware.py, within bounds.
    "lingering_time": 0,
    "shutdown_timeout": SHUTDOWN_S,
}


class Runner(web.AppRunner):
    """aiohttp's runner, with connections that start on the fast path and a stop that waits for requests in progress."""

    _factory: ProtocolFactory | None = None
    _listeners: tuple[Listener, ...] = ()

    def __init__(self, app: web.Application, **options: Any) -> None:
        # Idle connections are closed by tally/http/connections.py; aiohttp would start another timer for each.
        super().__init__(app, **{"keepalive_timeout": app[CONNECTIONS].idle_s} | options)

    @property
    def server(self) -> ProtocolFactory | None:  # type: ignore[override]
        """Return the factory of connection protocols."""
        server = super().server
        if self._factory is None and server is not None:
            self._factory = factory = ProtocolFactory(self.app, server)
            server.request_handler = close_uncertain(server.request_handler, lambda: factory.is_ending)
        return self._factory

    def listen(self, sockets: Sockets, tls: Tls | None = None) -> None:
        """Accept connections from now on, those of TCP sockets with TLS if there is a certificate."""
        factory = self.server
        assert factory is not None, "set up first"
        self._listeners += (Listener(sockets, factory, factory.connections, tls),)

    def listen_plain(self, sockets: Sockets, connect: Callable[[Connections], Connection]) -> None:
        """Accept connections without TLS that `connect` makes, beside those of `listen`."""
        connections = self.app[CONNECTIONS]
        self._listeners += (Listener(sockets, lambda: connect(connections), connections),)

    async def cleanup(self) -> None:
        """Accept no new connections, wait for requests in progress, and close everything."""
        for listener in self._listeners:
            listener.close()
        if self._factory is not None:
            self._factory.is_ending = True
        for site in list(self.sites):
            await site.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                while self.app[ACTIVE_REQUESTS] or self.app[CONNECTIONS].has_new():
                    await asyncio.sleep(0.02)
        if self._factory is not None:
            self._factory.close()
        await super().cleanup()
