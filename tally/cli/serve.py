"""The server process: lock, socket, signals, orderly shutdown.

Start: lock the database (a second server on the same file fails at once), open everything, listen, print one line per
address. Stop, on SIGTERM, SIGINT or SIGHUP: accept no new connections, finish and commit the requests in progress, exit
with status 0 within 10 seconds. A second signal kills the process.

Messages, such as the setup link, go to standard error; the lines `listening on` go to standard output.
"""

import asyncio
import contextlib
import gc
import os
import re
import signal
import sys

from tally.api.auth import AUTH
from tally.base_path import public_url
from tally.cli.service_manager import Supervisor
from tally.http import logging
from tally.http.connections import CONNECTIONS
from tally.http.listener import usable_connections
from tally.http.sockets import CannotListen, open_sockets
from tally.maintenance import startup
from tally.maintenance.restore import delete_leftovers
from tally.settings import UNIX, Settings
from tally.storage.database import BadDatabase
from tally.storage.file_lock import lock_file
from tally.web.runner import RUNNER_OPTIONS, Application, Runner

# A hundredth of the default: while a query runs on one thread, an event passes through two others. With 0.05, 0.2, 1
# and 5 ms single events reached 0.54, 0.52, 0.50 and 0.49 of a bare handler's rate (30 rounds of each in turn);
# concurrent queries and batches were not slower with the first.
SWITCH_S = 0.00005

# Parameters of glibc's mallopt (<malloc.h>): one heap for all threads (7 MB less with 100,000 visitors in memory), and
# large blocks, such as the 19 MiB of a password hash, are returned to the system when freed (20 MB less after the
# second login).
_MALLOC = (
    ("MALLOC_ARENA_MAX", -8, 1),
    ("MALLOC_MMAP_THRESHOLD_", -3, 131_072),
    ("MALLOC_TRIM_THRESHOLD_", -1, 8 * 1_048_576),
)


class BadAddress(Exception):
    """The server cannot listen on an address; the message names the reason and the fix."""


async def serve(app: Application, settings: Settings) -> None:
    """Serve until a signal arrives. Raises BadDatabase or BadAddress before it listens."""
    logging.configure(settings.log_format, settings.log_level)
    asyncio.get_running_loop().set_exception_handler(logging.log_loop_failure)
    sys.setswitchinterval(SWITCH_S)
    _tune_malloc()
    _leave_no_core()
    startup.check(settings)
    attempt, is_listening = startup.Attempt(settings.db), False
    lock = _lock(settings)
    runner, supervisor = Runner(app, **RUNNER_OPTIONS), Supervisor(os.environ)
    try:
        delete_leftovers(settings.db)
        await runner.setup()
        # These objects live until the end: exclude them from garbage collection.
        gc.collect()
        gc.freeze()
        ending = _signals()
        supervisor.ready(_listen(runner, settings))
        is_listening = True
        await ending.wait()
    finally:
        supervisor.stopping()
        await runner.cleanup()
        supervisor.close()
        if not is_listening:
            attempt.undo()
        os.close(lock)


def _tune_malloc() -> None:
    """Make the C library keep less freed memory, unless an environment variable sets the parameter."""
    # Other C libraries do not have mallopt or the parameter.
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import ctypes

        library = ctypes.CDLL(None)
        for variable, parameter, value in _MALLOC:
            if variable not in os.environ:
                library.mallopt(parameter, value)


def _leave_no_core() -> None:
    """Disable core files: they would contain addresses and session ids."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _lock(settings: Settings) -> int:
    try:
        return lock_file(settings.db)
    except OSError as failure:
        where = settings.db.resolve().parent
        raise BadDatabase(
            f"The directory {where} cannot be used ({failure.strerror}): name another file with --db."
        ) from None


def _signals() -> asyncio.Event:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        ending.set()
        loop.remove_signal_handler(number)

    numbers = [signal.SIGTERM, signal.SIGINT]
    # Closing the terminal stops the server in an orderly way; under `nohup` the signal stays ignored.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, end, number)
    return ending


def _listen(runner: Runner, settings: Settings) -> list[str]:
    """Listen, print the addresses and return them."""
    connections = runner.app[CONNECTIONS]
    connections.limit = usable_connections(connections.limit)
    try:
        sockets = open_sockets(settings.host, settings.port, os.environ)
    except CannotListen as failure:
        raise BadAddress(str(failure)) from None
    runner.listen(sockets)
    addresses = sockets.addresses
    gate = runner.app[AUTH]
    if gate.needs_setup:
        # After the #, so that it appears in no proxy log and no Referer.
        start = public_url(settings.base_url, settings.base_path) or _reached(addresses) + settings.base_path
        link = f"{start}/setup#{gate.setup_token}"
        logging.print_notice(settings.log_format, f"set up Tally: {link}")
    for address in addresses:
        # A Unix socket has a file path, to which the base path does not apply.
        path = "" if address.startswith(UNIX) else settings.base_path
        print(f"listening on {address}{path}", flush=True)
    return addresses


def _reached(addresses: list[str]) -> str:
    """Return the URL by which a browser on this machine reaches the first TCP address."""
    for address in addresses:
        if not address.startswith(UNIX):
            return re.sub(r"^http://(?:0\.0\.0\.0|\[::\]):", "http://127.0.0.1:", address)
    # Only the proxy reaches a Unix socket.
    return "http://localhost"
