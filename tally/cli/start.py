"""The command `serve`: its options, and the start of a server process.

A start is mostly imports, so this module has few; the database file is checked beside them. What the server does not
need to listen, the country database among it, is loaded when it listens (`load_rest` in tally/web/application.py).
"""

import argparse
import contextlib
import gc
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

from tally.cli.console import add_setting
from tally.http import logging
from tally.maintenance import startup
from tally.settings import SETTINGS, Settings

if TYPE_CHECKING:
    from tally.web.runner import Application

# Parameters of glibc's mallopt (<malloc.h>): one heap for all threads (7 MB less with 100,000 visitors in memory), and
# large blocks, such as the 19 MiB of a password hash, are returned to the system when freed (20 MB less after the
# second login). Smaller ones, such as columns, are used again: where those of 128 KiB were returned too, a dashboard
# with a new filter over a year took 1.2 to 1.6 times as long.
_MALLOC = (
    ("MALLOC_ARENA_MAX", -8, 1),
    ("MALLOC_MMAP_THRESHOLD_", -3, 4 * 1_048_576),
    ("MALLOC_TRIM_THRESHOLD_", -1, 8 * 1_048_576),
)


@contextlib.contextmanager
def _no_certificates() -> Iterator[None]:
    """Let imports find no CA certificates: that of aiohttp's client, which is not used, loads them twice (50 ms)."""
    configured = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = os.devnull
    try:
        yield
    finally:
        del os.environ["SSL_CERT_FILE"]
        if configured is not None:
            os.environ["SSL_CERT_FILE"] = configured


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser: every setting."""
    parser.usage = "analytics-server serve [OPTION ...]"
    parser.description = (
        "Start the server, which runs until Ctrl-C or SIGTERM. Each option can also be set by the environment variable"
        " that is named with it."
    )
    parser.set_defaults(command=lambda arguments, settings: run_server(settings))
    for setting in SETTINGS:
        add_setting(parser, setting.name)


def run_server(settings: Settings, *contexts: Callable[["Application"], AsyncIterator[None]]) -> None:
    """Run a server until a signal arrives, within further cleanup contexts. Raises BadSetting, BadDatabase, Failure."""
    logging.print_notice(settings.log_format, f"database: {settings.db.resolve()}")
    if settings.standby == "yes" and not settings.db.exists():
        from tally.cli.standby import wait  # here: no other server needs it

        if not wait(settings):
            return
    # Before the first thread, which would have a heap of its own.
    _tune_malloc()
    # Few objects become garbage during a start, and each collection traverses all of them (a tenth of the time).
    gc.disable()
    try:
        with startup.begun(settings) as start:
            with _no_certificates():
                from tally.cli.serve import run  # here: 0.25 s
            run(settings, start, contexts)
    finally:
        gc.enable()


def _tune_malloc() -> None:
    """Make the C library keep less freed memory, unless an environment variable sets the parameter."""
    # Other C libraries do not have mallopt or the parameter.
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import ctypes

        library = ctypes.CDLL(None)
        for variable, parameter, value in _MALLOC:
            if variable not in os.environ:
                library.mallopt(parameter, value)
