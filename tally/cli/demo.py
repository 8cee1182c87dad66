"""The command `demo`: create a database with half a year of invented traffic and serve it.

The file is written by tally/demo/build.py. A file that holds anything else is refused. The account's password is
random and new on each run: a known one would give access to a demo that is reachable from a network.
"""

import argparse
import asyncio
import contextlib
import os
import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tally.accounts import passwords
from tally.accounts.accounts import AccountError, find_account, set_password_hash
from tally.cli.console import Failure, Progress, add_setting, argument, now_ms, say
from tally.demo.build import EMAIL, make_demo
from tally.demo.sites import SITES
from tally.demo.traffic import DAYS, USUAL_EVENTS, span
from tally.settings import Settings
from tally.storage import meta
from tally.storage.database import open_database, open_unchanged, transaction
from tally.storage.file_lock import lock_file
from tally.timestamps import DAY_MS, BadTime, event_time_ms

if TYPE_CHECKING:
    from tally.web.runner import Application

DEFAULT_FILE = Path("demo.db")
# Below, funnels and experiments are too small to show anything; above, making it takes more than two minutes.
_EVENTS = (1_000, 2_000_000)


def add_demo(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser."""
    parser.set_defaults(command=_demo)
    parser.add_argument(
        "--db", action="append", metavar="FILE", help=f"the demo's database file (default: {DEFAULT_FILE})"
    )
    parser.add_argument("--no-serve", action="store_true", help="only create the file")
    parser.add_argument(
        "--until",
        metavar="DATE",
        type=argument(_until),
        help="end of the traffic, a date or time in UTC (default: now)",
    )
    parser.add_argument(
        "--events",
        metavar="N",
        type=argument(_events),
        help=f"approximate number of events (default: {USUAL_EVENTS:,})",
    )
    for name in ("host", "port", "base_url"):
        add_setting(parser, name)


def _demo(arguments: argparse.Namespace, settings: Settings) -> None:
    demo_settings = settings_of(arguments, settings)
    prepare(arguments, demo_settings)
    if not arguments.no_serve:
        # here: --no-serve needs no web server
        from tally.cli.start import run_server

        run_server(demo_settings, _live_traffic)


async def _live_traffic(app: "Application") -> AsyncIterator[None]:
    """Send visits while the server runs."""
    # here: only a server needs them
    from tally.demo.live import send_visits
    from tally.ingest.collector import COLLECTOR

    sending = asyncio.create_task(send_visits(app[COLLECTOR]))
    yield
    sending.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sending


def _events(text: str) -> int:
    least, most = _EVENTS
    if not re.fullmatch(r"[0-9]{1,8}", text) or not least <= int(text) <= most:
        raise ValueError(f"must be between {least:,} and {most:,} (got {text!r})")
    return int(text)


def settings_of(arguments: argparse.Namespace, settings: Settings) -> Settings:
    """Return the demo's settings: its own file, whatever ANALYTICS_DB names, without retention and backups."""
    path = settings.db if arguments.db else DEFAULT_FILE
    return replace(settings, db=path, backup_dir=None, keep_days=0)


def prepare(arguments: argparse.Namespace, settings: Settings) -> None:
    """Create the demo's file, or reuse an existing one, and print the login. Raises Failure, BadDatabase."""
    path = settings.db
    until_ms = arguments.until or now_ms()
    if arguments.no_serve:
        say(f"database: {path.resolve()}")  # serve prints it otherwise
    password = secrets.token_urlsafe(9)
    if path.exists():
        if arguments.until or arguments.events:
            raise Failure(f"{path} exists: --until and --events need a new file. Delete it, or name another with --db.")
        _take(path, password)
    else:
        begun = time.monotonic()
        events = arguments.events or USUAL_EVENTS
        say(f"demo: creating {path} with about {events:,} events")
        progress = Progress("events", events, in_lines=True)
        events = make_demo(path, until_ms, events, password, show=progress.show, report=say)
        progress.end()
        first, last = span(until_ms)
        took = f"{time.monotonic() - begun:.1f} s"
        say(f"demo: {len(SITES)} websites, {events:,} events from {first} to {last}, made in {took}")
    say(f"log in with: {EMAIL}  password: {password}")


def _until(text: str) -> int:
    now = now_ms()
    try:
        ms = event_time_ms(text)
    except BadTime:
        raise ValueError(f"must be a date or time such as 2026-11-21T10:00:00Z (got {text!r})") from None
    if len(text) == 10:
        # As `to` in the read API: a date includes its day.
        ms = min(ms + DAY_MS - 1, max(ms, now))
    if not DAYS * DAY_MS <= ms <= now:
        raise ValueError(f"must not lie in the future (got {text!r})")
    return ms


def _take(path: Path, password: str) -> None:
    """Set a new password for the account of an existing demo."""
    with contextlib.closing(open_unchanged(path)) as reader:
        until = meta.demo_until(reader)
    if until is None:
        raise Failure(f"{path} holds other data, not a demo: name a file that does not exist with --db.")
    os.close(lock_file(path))  # a running server holds it: fail before the password changes
    with contextlib.closing(open_database(path, create=False)) as connection, transaction(connection):
        try:
            number = find_account(connection, EMAIL).number
        except AccountError:
            raise Failure(f"{path} has no account {EMAIL} any more: delete the file to create a new demo.") from None
        set_password_hash(connection, number, passwords.hashed(password))
    say(
        f"demo: an existing file, with traffic up to {until[:16].replace('T', ' ')} UTC;"
        " delete it for traffic up to now"
    )
