"""The server process: lock, socket, signals, orderly shutdown. tally/cli/start.py has the command `serve`.

Start: lock the database (a second server on the same file fails at once; tally/maintenance/startup.py), open
everything, listen, print one line per address. Stop, on SIGTERM, SIGINT or SIGHUP: accept no new connections, finish
and commit the requests in progress, exit with status 0 within 10 seconds. A second signal kills the process. With TLS,
SIGHUP reads the certificate again, and with --lists-dir the lists. With --acme the server gets its certificate itself
while it listens (tally/http/certificate_renewal.py).

Messages, such as the setup link, go to standard error; the lines `listening on` go to standard output.
"""

import asyncio
import contextlib
import gc
import importlib
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from logging import getLogger
from typing import Any

from tally.api.auth import AUTH
from tally.base_path import public_url
from tally.cli.console import Failure
from tally.cli.service_manager import Supervisor
from tally.clock import Clock
from tally.events.lists import BadListError, Lists
from tally.events.request_context import CountryDataError
from tally.http import logging
from tally.http.connections import CONNECTIONS, Connection, Connections
from tally.http.listener import usable_connections
from tally.http.sockets import CannotListen, open_sockets
from tally.http.tls import Tls, tls_of
from tally.maintenance import startup
from tally.settings import UNIX, BadSetting, Settings
from tally.web.application import build_app, load_rest
from tally.web.components import DAMAGE_CHECK
from tally.web.runner import RUNNER_OPTIONS, Application, Runner
from tally.web.status import LISTS, TLS

# A hundredth of the default: while a query runs on one thread, an event passes through two others. With 0.05, 0.2, 1
# and 5 ms single events reached 0.54, 0.52, 0.50 and 0.49 of a bare handler's rate (30 rounds of each in turn);
# concurrent queries and batches were not slower with the first.
SWITCH_S = 0.00005

_LOG = getLogger("tally.lists")
# Each of them stops the server in an orderly way: SIGHUP is sent when the terminal is closed. (With TLS or --lists-dir
# it does not.)
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(settings: Settings, start: startup.Start, contexts: Sequence[Any] = ()) -> None:
    """Run a server until a signal arrives, within further cleanup contexts. Raises BadSetting, BadDatabase, Failure."""
    try:
        app = build_app(settings)
        app.cleanup_ctx.extend(contexts)
    except ValueError as bad:
        raise BadSetting(str(bad)) from None
    try:
        with asyncio.Runner(loop_factory=_fast_loop()) as runner:
            runner.run(_serve(app, settings, start))
    except (CannotListen, CountryDataError) as failure:
        raise Failure(str(failure)) from None


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the event loop of uvloop if it is installed, as on all platforms for which it has wheels."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_event_loop


async def serve(app: Application, settings: Settings) -> None:
    """Serve until a signal arrives. Raises BadDatabase, CountryDataError or CannotListen before it listens, and
    CountryDataError where the bundled database of places cannot be opened afterwards."""
    with startup.begun(settings) as start:
        await _serve(app, settings, start)


async def _serve(app: Application, settings: Settings, start: startup.Start) -> None:
    app[DAMAGE_CHECK] = start.check
    logging.configure(settings.log_format, settings.log_level)
    asyncio.get_running_loop().set_exception_handler(logging.log_loop_failure)
    sys.setswitchinterval(SWITCH_S)
    _leave_no_core()
    tls, renewal, renewing = tls_of(settings), None, None
    runner, supervisor = Runner(app, **RUNNER_OPTIONS), Supervisor(os.environ)
    try:
        if settings.acme:
            from tally.http.certificate_renewal import Renewal  # here: only --acme needs it

            renewal = Renewal(settings, Clock())
            tls = renewal.tls
        app[TLS] = tls
        await runner.setup()
        again: list[Callable[[], object]] = [renewal.reload] if renewal else [tls.renew] if tls else []
        if settings.lists_dir or settings.datacenter_ranges:
            again.append(_Rereading(app[LISTS]).start)
        ending = _signals(again)
        supervisor.ready(_listen(runner, settings, tls, renewal.port.connect if renewal else None))
        start.is_listening = True
        renewing = asyncio.create_task(renewal.run()) if renewal else None
        await asyncio.gather(asyncio.get_running_loop().run_in_executor(None, _load_rest, app), ending.wait())
    finally:
        if renewing is not None:
            renewing.cancel()
        supervisor.stopping()
        await runner.cleanup()
        supervisor.close()
        # uvloop leaves them to the process, which then would not react to Ctrl-C.
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)


def _load_rest(app: Application) -> None:
    try:
        load_rest(app)
    finally:
        # These objects live until the end: exclude them from garbage collection, which is disabled until now.
        gc.collect()
        gc.freeze()
        gc.enable()


def _leave_no_core() -> None:
    """Disable core files: they would contain addresses and session ids."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class _Rereading:
    """Reads the lists of crawlers, referrer spam and data centers again."""

    def __init__(self, lists: Lists) -> None:
        self._lists, self._lock, self._tasks = lists, asyncio.Lock(), set[asyncio.Task[None]]()

    def start(self) -> None:
        """Read them, and use them unless one is bad."""
        task = asyncio.create_task(self._reread())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reread(self) -> None:
        # In a thread: 150,000 networks take 0.8 s. One after the other: the newest files are used in the end.
        async with self._lock:
            try:
                self._lists.use(await asyncio.to_thread(self._lists.read))
            except BadListError as bad:
                _LOG.error("lists not read again: %s", bad)
            else:
                names = ", ".join(f"{one.path.name} of {one.made}" for one in self._lists.files)
                _LOG.info("lists read again: %s", names)


def _signals(again: Sequence[Callable[[], object]]) -> asyncio.Event:
    """Return what is set by a signal that ends the server. SIGHUP calls `again` where there is any."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        ending.set()
        loop.remove_signal_handler(number)

    for number in _SIGNALS:
        if number == signal.SIGHUP and again:
            loop.add_signal_handler(number, lambda: [call() for call in again])
        # Under `nohup` the signal stays ignored.
        elif number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    return ending


def _listen(
    runner: Runner, settings: Settings, tls: Tls | None, plain: Callable[[Connections], Connection] | None
) -> list[str]:
    """Listen, print the addresses and return them. `plain` makes the connections of the port beside HTTPS."""
    connections = runner.app[CONNECTIONS]
    connections.limit = usable_connections(connections.limit)
    sockets = open_sockets(settings.host, settings.port, os.environ, "http" if tls is None else "https")
    if plain is not None:
        others = sockets.take(settings.acme_http_port)
        if not others.all:
            hosts = [host for host in settings.host if not host.startswith(UNIX)]
            try:
                others = open_sockets(hosts, settings.acme_http_port, {})
            except CannotListen:
                sockets.close()
                raise
        runner.listen_plain(others, plain)
    runner.listen(sockets, tls)
    addresses = sockets.addresses
    gate = runner.app[AUTH]
    if gate.needs_setup:
        # After the #, so that it appears in no proxy log and no Referer.
        names = settings.acme or (tls.certificate.names if tls and tls.certificate else ())
        start = public_url(settings.base_url, settings.base_path) or _reached(addresses, names) + settings.base_path
        link = f"{start}/setup#{gate.setup_token}"
        logging.print_notice(settings.log_format, f"set up Tally: {link}")
    for address in addresses:
        # A Unix socket has a file path, to which the base path does not apply.
        path = "" if address.startswith(UNIX) else settings.base_path
        print(f"listening on {address}{path}", flush=True)
    return addresses


def _reached(addresses: list[str], names: Sequence[str]) -> str:
    """Return the URL by which a browser on this machine, or with a host name of the certificate, reaches the server."""
    name = next((name for name in names if "*" not in name), None)
    for address in addresses:
        if not address.startswith(UNIX):
            if name:
                return re.sub(r"//.*:", f"//{name}:", address).removesuffix(":443")
            return re.sub(r"//(?:0\.0\.0\.0|\[::\]):", "//127.0.0.1:", address)
    # Only the proxy reaches a Unix socket.
    return "http://localhost"
