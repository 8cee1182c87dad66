"""The command `serve`: its options, and the start of a server process.

A start is mostly imports, so this module has few; the database file is checked beside them. What the server does not
need to listen, the country database among it, is loaded when it listens (`load_rest` in tally/web/application.py).
"""

import argparse
import contextlib
import gc
import os
from collections.abc import Iterator

from tally.cli.console import add_setting
from tally.http import logging
from tally.settings import SETTINGS, Settings
from tally.storage.health import begin_check


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
    parser.set_defaults(command=lambda given, settings: run_server(settings))
    for setting in SETTINGS:
        add_setting(parser, setting.name)


def run_server(settings: Settings) -> None:
    """Run a server until a signal arrives. Raises BadSetting, BadDatabase, Failure."""
    logging.print_notice(settings.log_format, f"database: {settings.db.resolve()}")
    check = begin_check(settings.db)
    # Few objects become garbage during a start, and each collection traverses all of them (a tenth of the time).
    gc.disable()
    try:
        with _no_certificates():
            from tally.cli.serve import run  # here: 0.25 s
        run(settings, check)
    finally:
        gc.enable()
