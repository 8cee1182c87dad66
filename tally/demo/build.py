"""Write the demo's database: accounts and websites with what is saved for them, imported events, heatmap points and
rejected events.

The file is written as `<name>.unfinished` and renamed when it is complete, so that an interrupted run leaves no
database. Events go through the importer (tally/transfer/importer.py), so that everything derived from them is what an
import produces. Heatmap points and rejected events, which imports do not have, are added by the server's own functions.

The file is marked as a demo by a row of table meta, which the account API returns so that the pages show a banner.
"""

import contextlib
import io
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import orjson

from tally.accounts import passwords
from tally.accounts.accounts import Account, create_account
from tally.accounts.definitions import add_definition
from tally.accounts.usage import month_of
from tally.accounts.websites import add_website, all_websites
from tally.demo.sites import SITES, Site
from tally.demo.traffic import DAYS, USUAL_EVENTS, crawls, heat_points, lines, rejected
from tally.ingest import rejected_events
from tally.ingest.rejected_events import NUMBER_OF, Pending, Sample
from tally.rollups.heatmap_grid import bin_of, width_of
from tally.storage import crawler_days, meta
from tally.storage.database import BadDatabase, open_database, transaction
from tally.storage.labels import Labels
from tally.timestamps import DAY_MS, iso
from tally.transfer.files import Source
from tally.transfer.importer import import_events

EMAIL = "demo@localhost"
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


def make_demo(
    path: Path,
    until_ms: int,
    events: int,
    password: str,
    *,
    show: Callable[[int], None] = lambda done: None,
    report: Callable[[str], None] = lambda words: None,
) -> int:
    """Write a demo's database and return its number of events. Raises BadDatabase, sqlite3.Error, OSError.

    `show` is called with the number of events written so far, `report` with messages of the importer.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    _drop(unfinished)
    try:
        with contextlib.closing(open_database(unfinished, create=True)) as connection:
            # A crash before the rename loses nothing.
            connection.execute("pragma synchronous = off")
            stored = _fill(connection, until_ms, events / USUAL_EVENTS, password, show, report)
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        if path.exists():
            raise BadDatabase(f"{path} was created by another program in the meantime: name another file with --db.")
        os.rename(unfinished, path)
        return stored
    finally:
        _drop(unfinished)


def _drop(path: Path) -> None:
    for ending in ("", "-wal", "-shm", ".lock"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _fill(
    connection: sqlite3.Connection,
    until_ms: int,
    scale: float,
    password: str,
    show: Callable[[int], None],
    report: Callable[[str], None],
) -> int:
    began_ms = until_ms - DAYS * DAY_MS
    with transaction(connection):
        owner = create_account(connection, EMAIL, "business", passwords.hashed(password), began_ms)
    stored = 0
    for site in SITES:
        with transaction(connection):
            id = add_website(connection, owner, site.domain, site.name, (), began_ms, time_zone=site.time_zone)
        number = next(website.number for website in all_websites(connection) if website.id == id)
        feed = _Feed(site, until_ms, scale)
        source = Source(cast(BinaryIO, io.BufferedReader(feed, 262_144)), site.name, "", 0)
        done = stored

        def progress(_: int, feed: "_Feed" = feed, done: int = done) -> None:
            show(done + feed.count)

        summary = import_events(
            connection, number, source, now_ms=until_ms, strict=False, report=report, progress=progress
        )
        stored += summary.accepted - feed.leaves
        with transaction(connection):
            _add_saved(connection, number, site, until_ms)
            _add_usage(connection, owner, feed.months)
            _add_heat(connection, number, site, until_ms, scale)
            _add_rejected(connection, number, site, until_ms, scale)
            keys = Counter((number, *request, crawler_days.EVENT) for request in crawls(site, until_ms, scale))
            crawler_days.add_counts(connection, Labels(), keys)
    with transaction(connection):
        meta.write(connection, meta.DEMO, iso(until_ms))
    return stored


class _Feed(io.RawIOBase):
    """The lines of a website as a file that is generated while it is read."""

    def __init__(self, site: Site, until_ms: int, scale: float) -> None:
        self.count = self.leaves = 0
        self.months: Counter[int] = Counter()
        self._lines, self._rest = self._written(site, until_ms, scale), b""

    def _written(self, site: Site, until_ms: int, scale: float) -> Iterator[bytes]:
        for line in lines(site, until_ms, scale):
            if line["type"] == "leave":
                # No event of the plan.
                self.leaves += 1
            else:
                self.count += 1
                self.months[month_of(line["timestamp"])] += 1
            yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer and return the number of bytes; 0 at the end."""
        parts, size = [self._rest], len(self._rest)
        while size < len(buffer) and (line := next(self._lines, None)) is not None:
            parts.append(line)
            size += len(line)
        whole = b"".join(parts)
        some, self._rest = whole[: len(buffer)], whole[len(buffer) :]
        buffer[: len(some)] = some
        return len(some)


def _add_saved(connection: sqlite3.Connection, website: int, site: Site, until_ms: int) -> None:
    """Save the website's goals, segments, funnels and annotations."""
    goals = {
        f"goal:{goal['name']}": f"goal:{add_definition(connection, website, 'goal', dict(goal), until_ms)}"
        for goal in site.saved.goals
    }
    for segment in site.saved.segments:
        add_definition(connection, website, "segment", dict(segment), until_ms)
    for funnel in site.saved.funnels:
        steps = [goals.get(step, step) for step in funnel["steps"]]
        add_definition(connection, website, "funnel", {**funnel, "steps": steps}, until_ms)
    for begin, words, end in site.saved.annotations:
        first, last = (None if age is None else iso(until_ms - age * DAY_MS)[:10] for age in (begin, end))
        add_definition(connection, website, "annotation", {"from": first, "to": last, "text": words}, until_ms)


def _add_usage(connection: sqlite3.Connection, owner: Account, months: Counter[int]) -> None:
    """Count the events as usage, which an import does not, so that the usage page shows them."""
    connection.executemany(
        "/* build.usage */ insert into account_usage (account, month, events) values (?, ?, ?)"
        " on conflict do update set events = events + excluded.events",
        [(owner.number, month, events) for month, events in months.items()],
    )


def _add_heat(connection: sqlite3.Connection, website: int, site: Site, until_ms: int, scale: float) -> None:
    cells: Counter[tuple[int, str, int, int, int, int]] = Counter()
    for day, path, viewport, kind, x, y in heat_points(site, until_ms, scale):
        cells[day, path, width_of(viewport), kind, *bin_of(x, y, kind)] += 1
    numbers = Labels().numbers_of(connection, {cell[1] for cell in cells})
    connection.executemany(
        "/* build.heat */ insert into heatmap_point"
        " (website, day, pathname, viewport, kind, bin_y, bin_x, points) values (?, ?, ?, ?, ?, ?, ?, ?)",
        [(website, cell[0], numbers[cell[1]], *cell[2:], points) for cell, points in cells.items()],
    )


def _add_rejected(connection: sqlite3.Connection, website: int, site: Site, until_ms: int, scale: float) -> None:
    counted = rejected(site, until_ms, scale)
    counts = {(website, quarter, NUMBER_OF[code]): events for (quarter, code), events in counted.items()}
    samples: dict[tuple[int, int], dict[Sample, int]] = {}
    for place, (code, type_, field, detail) in enumerate(_SAMPLES):
        last = max((quarter for quarter, other in counted if other == code), default=None)
        if last is not None:
            ms = (last - place) * 900_000 // 1_000 * 1_000
            samples.setdefault((website, NUMBER_OF[code]), {})[Sample(type_, field, detail)] = ms
    rejected_events.add(connection, Pending(counts, samples))
