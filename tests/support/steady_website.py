"""A database with a website that had the same visits in every hour of ten weeks, made once and copied for each test.

The weeks begin on Monday, 2026-09-07, in UTC, and end with the hour before NOON_MS; the clocks of Europe go back within
them. Each visit is one pageview of a visitor of its own.
"""

import atexit
import functools
import io
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

from tally.accounts.accounts import create_account
from tally.accounts.passwords import hashed
from tally.accounts.websites import add_website, all_websites
from tally.storage.database import open_database, transaction
from tally.timestamps import DAY_MS, HOUR_MS, iso
from tally.transfer.files import Source
from tally.transfer.importer import import_events
from tests.support.app import CHROME, NOON_MS, OWNER, App
from tests.support.page_client import PASSWORD

BEGIN_MS = NOON_MS - 12 * HOUR_MS - 72 * DAY_MS
VISITS = 10
PAGES = ("/", "/", "/pricing", "/docs")
SOURCES = ("", "", "search.example", "news.example")


def _lines() -> Iterator[bytes]:
    for begin_ms in range(BEGIN_MS, NOON_MS, HOUR_MS):
        for number in range(VISITS):
            line: dict[str, Any] = {
                "id": f"{begin_ms}-{number}",
                "type": "pageview",
                "timestamp": iso(begin_ms + number * 60_000),
                "visitor": f"{begin_ms}-{number}",
                "pathname": PAGES[number % len(PAGES)],
            }
            yield orjson.dumps(line | {"referrer": SOURCES[number % len(SOURCES)]}, option=orjson.OPT_APPEND_NEWLINE)


@functools.cache
def _database() -> Path:
    directory = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = directory / "analytics.db"
    with closing(open_database(path, create=True)) as connection:
        connection.execute("pragma synchronous = off")
        with transaction(connection):
            owner = create_account(connection, OWNER, "business", hashed(PASSWORD), BEGIN_MS)
            add_website(connection, owner, "example.com", "Example", (), BEGIN_MS)
        (website,) = all_websites(connection)
        source = Source(cast(BinaryIO, io.BufferedReader(io.BytesIO(b"".join(_lines())))), "steady", "", 0)
        import_events(connection, website.number, source, now_ms=NOON_MS, geoip_db=None)
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    return path


def copy_database(path: Path) -> str:
    """Copy the database to a path and return the id of its website."""
    shutil.copy(_database(), path)
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("select id from website").fetchone()[0])


async def visit(app: App, website: str, at_ms: int, count: int, **fields: Any) -> None:
    """Send pageviews of so many visitors at a time."""
    event = {"type": "pageview", "timestamp": at_ms, "url": "https://example.com/", **fields}
    for number in range(count):
        sent = {"website_id": website, "events": [event | {"session_id": f"{at_ms}-{number}"}]}
        ip = f"198.51.{at_ms // HOUR_MS % 100}.{number % 250}"
        answer = await app.collect(sent, ip=ip, ua=f"{CHROME} {number}")
        assert answer.json["accepted"] == 1, answer.text
