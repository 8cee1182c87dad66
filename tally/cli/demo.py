"""The command `demo`: a database with half a year of invented traffic, to look at every page at once.

The file is made under `<name>.unfinished` and gets its name when it is whole, so an interrupted run leaves no database.
Events go through `import` (tally/transfer/importer.py), so that everything derived from them is what an import makes;
heatmap points and rejected events, which no import takes, are added by the functions that the server uses.

The file is marked: a row `demo` in `meta`, which the account API passes on so that the pages show a banner, and names
of websites that begin with "Demo: ". A file that holds anything else is refused. The account's password is random and
new on each run: a known one would open a demo that is served to a network.
"""

import argparse
import contextlib
import io
import os
import re
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

import orjson

from tally.accounts import passwords
from tally.accounts.accounts import Account, AccountError, create_account, find_account, set_password_hash
from tally.accounts.usage import month_of
from tally.accounts.websites import add_website, all_websites
from tally.cli.console import Failure, Progress, add_setting, now_ms, say
from tally.cli.demo_sites import SITES, Site
from tally.cli.demo_traffic import DAYS, USUAL_EVENTS, heat_points, lines, rejected, span
from tally.ingest import rejected_events as left_out
from tally.ingest.rejected_events import NUMBER_OF, Pending, Sample
from tally.rollups.heatmap_grid import bin_of, width_of
from tally.settings import Settings
from tally.storage import meta as notes
from tally.storage.database import BadDatabase, open_database, open_unchanged, transaction
from tally.storage.file_lock import lock_file
from tally.storage.labels import Labels
from tally.timestamps import DAY_MS, BadTime, event_time_ms, iso
from tally.transfer.files import Source
from tally.transfer.importer import import_events

EMAIL = "demo@localhost"
DEFAULT_FILE = Path("demo.db")
# Below, funnels and experiments are too small to show anything; above, making it takes more than two minutes.
_EVENTS = (1_000, 2_000_000)
# Examples of rejected events: code, type (tally/events/validation.py TYPES), field, detail.
_SAMPLES: tuple[tuple[str, int | None, str, str], ...] = (
    ("crawler", 0, "", "Googlebot"),
    ("crawler", 0, "", "bingbot"),
    ("crawler", 0, "", "GPTBot"),
    ("crawler", 0, "", "AhrefsBot"),
    ("origin_not_allowed", 0, "", "staging.example"),
    ("timestamp_too_old", 2, "timestamp", ""),
    ("invalid_field", 2, "event_name", ""),
)


def add_commands(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Adds the command to the parser; what it does afterwards, to serve, is in tally/cli/main.py."""
    help = "make a database of invented traffic and serve it, to look at every page"
    demo = words.add_parser("demo", help=help, description=help[0].upper() + help[1:] + ".")
    demo.add_argument("--db", action="append", metavar="FILE", help=f"the demo's own file (default: {DEFAULT_FILE})")
    demo.add_argument("--no-serve", action="store_true", help="make the file only")
    demo.add_argument(
        "--until",
        metavar="DATE",
        help="the last moment of the traffic, a date or a time in UTC (default: now); the same gives the same figures",
    )
    demo.add_argument("--events", metavar="N", type=_events, help=f"about how many events (default: {USUAL_EVENTS:,})")
    for name in ("host", "port", "base_url"):
        add_setting(demo, name)
    return demo


def _events(text: str) -> int:
    least, most = _EVENTS
    if not re.fullmatch(r"[0-9]{1,8}", text) or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"takes a number from {least:,} to {most:,} (got {text})")
    return int(text)


def settings_of(given: argparse.Namespace, settings: Settings) -> Settings:
    """Return the settings for the demo: a file of its own, whatever ANALYTICS_DB names, kept for good, no backups."""
    path = settings.db if given.db else DEFAULT_FILE
    return replace(settings, db=path, backup_dir=None, keep_days=0)


def prepare(given: argparse.Namespace, settings: Settings) -> None:
    """Makes the demo's file, or takes the one that is there; prints how to log in. Raises Failure, BadDatabase."""
    path = settings.db
    until_ms = _until(given.until)
    if given.no_serve:
        say(f"database: {path.resolve()}")  # serve prints it otherwise
    password = secrets.token_urlsafe(9)
    if path.exists():
        if given.until or given.events:
            raise Failure(f"{path} exists: --until and --events need a new file. Delete it, or name another with --db.")
        _take(path, password)
    else:
        begun = time.monotonic()
        events = make(path, until_ms, given.events or USUAL_EVENTS, password)
        first, last = span(until_ms)
        took = f"{time.monotonic() - begun:.1f} s"
        say(f"demo: {len(SITES)} websites, {events:,} events from {first} to {last}, made in {took}")
    say(f"log in with: {EMAIL}  password: {password}")


def _until(given: str | None) -> int:
    now = now_ms()
    if given is None:
        return now
    try:
        ms = event_time_ms(given)
    except BadTime:
        raise Failure(f"--until takes a date or a time such as 2026-11-21T10:00:00Z (got {given}).") from None
    if len(given) == 10:
        # As `to` in the read API: a date includes its day.
        ms = min(ms + DAY_MS - 1, max(ms, now))
    if not DAYS * DAY_MS <= ms <= now:
        raise Failure(f"--until must not lie in the future (got {given}).")
    return ms


def _take(path: Path, password: str) -> None:
    """Gives the account of a demo that is there another password."""
    with contextlib.closing(open_unchanged(path)) as reader:
        until = notes.demo_until(reader)
    if until is None:
        raise Failure(f"{path} holds other data, not a demo: name a file that does not exist with --db.")
    os.close(lock_file(path))  # a running server holds it: refused before the password changes
    with contextlib.closing(open_database(path, create=False)) as connection, transaction(connection):
        try:
            number = find_account(connection, EMAIL).number
        except AccountError:
            raise Failure(f"{path} has no account {EMAIL} any more: delete it for a new demo.") from None
        set_password_hash(connection, number, passwords.hashed(password))
    say(f"demo: made before, up to {until[:16].replace('T', ' ')} UTC; delete the file for one up to now")


def make(path: Path, until_ms: int, events: int, password: str) -> int:
    """Makes a demo's file; how many events it has. Raises BadDatabase, sqlite3.Error, OSError."""
    unfinished = path.with_name(path.name + ".unfinished")
    _drop(unfinished)
    try:
        with contextlib.closing(open_database(unfinished, create=True)) as connection:
            # Until it has its name a crash loses nothing that anyone was promised.
            connection.execute("pragma synchronous = off")
            stored = _fill(connection, until_ms, events, password)
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        if path.exists():
            raise BadDatabase(f"{path} was made meanwhile by another program: name another file with --db.")
        os.rename(unfinished, path)
        return stored
    finally:
        _drop(unfinished)


def _drop(path: Path) -> None:
    for ending in ("", "-wal", "-shm", ".lock"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _fill(connection: sqlite3.Connection, until_ms: int, events: int, password: str) -> int:
    scale, began_ms = events / USUAL_EVENTS, until_ms - DAYS * DAY_MS
    progress = Progress("events", events)
    with transaction(connection):
        owner = create_account(connection, EMAIL, "business", passwords.hashed(password), began_ms)
    stored = 0
    for site in SITES:
        with transaction(connection):
            id = add_website(connection, owner, site.domain, site.name, (), began_ms)
        number = next(website.number for website in all_websites(connection) if website.id == id)
        feed = _Feed(site, until_ms, scale)
        source = Source(cast(BinaryIO, io.BufferedReader(feed, 262_144)), site.name, "", 0)
        done = stored

        def show(_: int, feed: "_Feed" = feed, done: int = done) -> None:
            progress.show(done + feed.count)

        summary = import_events(connection, number, source, now_ms=until_ms, strict=False, told=say, progress=show)
        stored += summary.accepted
        with transaction(connection):
            _add_usage(connection, owner, feed.months)
            _add_heat(connection, number, site, until_ms, scale)
            _add_rejected(connection, number, site, until_ms, scale)
    with transaction(connection):
        notes.write(connection, notes.DEMO, iso(until_ms))
    progress.end()
    return stored


class _Feed(io.RawIOBase):
    """The lines of a website as a file that is made while it is read."""

    def __init__(self, site: Site, until_ms: int, scale: float) -> None:
        self.count = 0
        self.months: Counter[int] = Counter()
        self._lines, self._rest = self._written(site, until_ms, scale), b""

    def _written(self, site: Site, until_ms: int, scale: float) -> Iterator[bytes]:
        for line in lines(site, until_ms, scale):
            self.count += 1
            self.months[month_of(line["timestamp"])] += 1
            yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fills the buffer; 0 at the end."""
        parts, size = [self._rest], len(self._rest)
        while size < len(buffer) and (line := next(self._lines, None)) is not None:
            parts.append(line)
            size += len(line)
        whole = b"".join(parts)
        some, self._rest = whole[: len(buffer)], whole[len(buffer) :]
        buffer[: len(some)] = some
        return len(some)


def _add_usage(connection: sqlite3.Connection, owner: Account, months: Counter[int]) -> None:
    """An import counts towards no plan; the demo's events are to show on the page of usage."""
    connection.executemany(
        "/* demo.usage */ insert into account_usage values (?, ?, ?)"
        " on conflict do update set events = events + excluded.events",
        [(owner.number, month, events) for month, events in months.items()],
    )


def _add_heat(connection: sqlite3.Connection, website: int, site: Site, until_ms: int, scale: float) -> None:
    cells: Counter[tuple[int, str, int, int, int, int]] = Counter()
    for day, path, viewport, kind, x, y in heat_points(site, until_ms, scale):
        cells[day, path, width_of(viewport), kind, *bin_of(x, y, kind)] += 1
    numbers = Labels().numbers_of(connection, {cell[1] for cell in cells})
    connection.executemany(
        "/* demo.heat */ insert into heatmap_point values (?, ?, ?, ?, ?, ?, ?, ?)",
        [(website, cell[0], numbers[cell[1]], *cell[2:], points) for cell, points in cells.items()],
    )


def _add_rejected(connection: sqlite3.Connection, website: int, site: Site, until_ms: int, scale: float) -> None:
    found = rejected(site, until_ms, scale)
    counts = {(website, quarter, NUMBER_OF[code]): events for (quarter, code), events in found.items()}
    samples: dict[tuple[int, int], dict[Sample, int]] = {}
    for place, (code, type_, field, detail) in enumerate(_SAMPLES):
        last = max((quarter for quarter, other in found if other == code), default=None)
        if last is not None:
            ms = (last - place) * 900_000 // 1_000 * 1_000
            samples.setdefault((website, NUMBER_OF[code]), {})[Sample(type_, field, detail)] = ms
    left_out.add(connection, Pending(counts, samples))
