"""--standby: a server without data that waits for a database file, such as `cluster recover` makes it.

Until then it answers every request 503, as the plain port beside HTTPS does (tally/http/plain_port.py): a connection
has one request, of which only the end of its head matters, within the bounds of all connections. Then it listens anew,
as a server that starts.
"""

import asyncio
import os
import signal

from tally.cli.service_manager import Supervisor
from tally.errors import STORAGE_UNAVAILABLE, ApiError
from tally.events.client import parse_proxies
from tally.http.connections import Connections
from tally.http.listener import Listener, usable_connections
from tally.http.plain_port import PlainConnection
from tally.http.responses import COLLECT_HEADERS, error_response, serialize
from tally.http.sockets import open_sockets
from tally.http.tls import tls_of
from tally.settings import BadSetting, Settings

PAUSE_S = 2.0
_MESSAGE = "This server is on standby: it has no data."


def wait(settings: Settings) -> bool:
    """Answer until there is a database file; return False where a signal ends the process first. Raises BadSetting,
    CannotListen."""
    if settings.acme or "LISTEN_FDS" in os.environ:
        raise BadSetting("--standby needs a port of its own: use it without --acme and without a .socket unit")
    return asyncio.run(_wait(settings))


async def _wait(settings: Settings) -> bool:
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    limit = usable_connections(settings.max_connections)
    trusted = parse_proxies(settings.trusted_proxy)
    connections = Connections(limit, settings.client_connections, settings.idle_seconds, trusted)
    refusal = ApiError(STORAGE_UNAVAILABLE, _MESSAGE, retry_after_s=int(PAUSE_S))
    answer = serialize(error_response(refusal), {**COLLECT_HEADERS, "Connection": "close"})
    tls = tls_of(settings)
    sockets = open_sockets(settings.host, settings.port, {}, "http" if tls is None else "https")
    for address in sockets.addresses:
        print(f"listening on {address}", flush=True)
    # Of a copy: the server that follows needs the variables.
    supervisor = Supervisor(dict(os.environ))
    supervisor.ready(sockets.addresses)
    listener = Listener(sockets, lambda: PlainConnection(connections, lambda head: answer), connections, tls)
    try:
        while not ending.is_set() and not settings.db.exists():
            try:
                async with asyncio.timeout(PAUSE_S):
                    await ending.wait()
            except TimeoutError:
                pass
    finally:
        listener.close()
        supervisor.close()
    return not ending.is_set()
