"""Long event_data is stored in parts (tally/storage/event_data.py), read whole, and bounded in disk space."""

import http.client
import json
import random
import sqlite3
import string
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.maintenance import deletion, retention
from tally.storage import event_data
from tally.storage.database import open_database
from tally.storage.event_data import INLINE_BYTES
from tests.support.app import App
from tests.support.cases import cases
from tests.support.process import NO_RATE_LIMITS, Serve, Server

# Around the bounds of parts, and the maximum.
SIZES = [0, 60, 119, 120, 121, *range(470, 484), 958, 959, 960, 961, 962, 1_440, 1_441, 2_000, 4_000, 4_086]


@cases("character", ["x", "\u00e9", "\u20ac", "\U0001f600", 'x"\\'])
@cases("size", SIZES)
def test_parts_add_up(character: str, size: int) -> None:
    text = orjson.dumps({"a": character * (size // len(character.encode()))}).decode()
    first, parts = event_data.split(text, 3)
    assert (first or "") + "".join(part[-1] for part in parts) == text
    assert [number for number, _ in parts] == [*range(48, 48 + len(parts))]
    assert len(parts) <= 16
    assert all(len(one.encode()) <= INLINE_BYTES for one in (first or "", *(part[-1] for part in parts)))


async def test_long_event_data_is_read_whole(app: App) -> None:
    website, key = await app.website(), await app.key()
    sent = {f"e{size}": {"a": "\u00e9" * (size // 2), "n": size} for size in SIZES if size < 4_000}
    for name, data in sent.items():
        body = {"type": "event", "website_id": website, "event_name": name, "event_data": data}
        assert (await app.collect(body)).status == 202
    path = f"/api/v1/websites/{website}"
    rows = (await app.get(f"{path}/events", key, {"limit": "1000"})).json["data"]
    assert {row["event_name"]: row["event_data"] for row in rows} == sent
    for name, data in list(sent.items())[-6:]:
        found = (await app.get(f"{path}/event-data", key, {"event_name": name})).json["data"]
        values = {one["property"]: one["values"][0]["value"] for one in found}
        assert values == data
    assert app.sql("select count(*) from event_data_part")[0][0] > len(sent) // 3


@pytest.mark.parametrize("by", ["retention", "deletion of the website"])
async def test_parts_are_deleted_with_their_event(by: str, app: App) -> None:
    website = await app.website()
    body = {"type": "event", "website_id": website, "event_name": "e", "event_data": {"a": "x" * 3_000}}
    for _ in range(3):
        await app.collect(body)
    assert app.sql("select count(*) from event_data_part") == [(21,)]

    def delete(connection: Any) -> None:
        while (
            retention.delete_some(connection, 1, 1 << 30) if by == "retention" else deletion.delete_rows(connection, 1)
        ):
            pass

    await app.admin(delete)
    assert app.sql("select (select count(*) from event), (select count(*) from event_data_part)") == [(0, 0)]


# --- disk space used by a hostile client

ALPHABET = string.ascii_letters + string.digits + "-_"
Make = Callable[[random.Random, int], list[dict[str, Any]]]


def text(draw: random.Random, size: int) -> str:
    return "".join(draw.choices(ALPHABET, k=size))


def labels(draw: random.Random, now_ms: int) -> list[dict[str, Any]]:
    """Return new values in every field, of the maximum length."""
    names = ("platform", "app_version", "os_version", "browser", "os")
    return [
        {
            "type": "pageview",
            "url": f"https://{text(draw, 50)}.example.com/{text(draw, 90)}?utm_source={text(draw, 90)}"
            f"&utm_medium={text(draw, 90)}&utm_campaign={text(draw, 90)}",
            "referrer": f"https://{text(draw, 50)}.com/",
            **{name: text(draw, 90) for name in names},
        }
        for _ in range(50)
    ]


def paths(draw: random.Random, now_ms: int) -> list[dict[str, Any]]:
    return [{"type": "pageview", "url": "https://example.com/" + text(draw, 8_100)} for _ in range(7)]


def data(draw: random.Random, now_ms: int) -> list[dict[str, Any]]:
    """Return event_data slightly too long for its row's page, at times within 72 hours."""
    return [
        {
            "type": "event",
            "event_name": "e",
            "event_data": {"a": text(draw, 1_180)},
            "timestamp": now_ms - draw.randrange(71 * 3_600_000),
        }
        for _ in range(50)
    ]


def points(draw: random.Random, now_ms: int) -> list[dict[str, Any]]:
    return [
        {
            "type": "heatmap",
            "url": "https://example.com/" + text(draw, 4),
            "viewport_width": 1_000,
            "points": [
                {"x": round(draw.random(), 2), "y": draw.randrange(1_000_000), "kind": "click"} for _ in range(33)
            ],
        }
        for _ in range(38)
    ]


def experiments(draw: random.Random, now_ms: int) -> list[dict[str, Any]]:
    names = ("experiment", "variant", "goal")
    return [
        {"type": "ab_convert", "url": "https://example.com/" + text(draw, 700)}
        | {name: text(draw, 90) for name in names}
        for _ in range(50)
    ]


def send(server: Server, website: str, make: Make, requests: int) -> int:
    """Send requests over one connection and return the size of their bodies."""
    at, draw, sent = urlsplit(server.url), random.Random(7), 0
    with closing(http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=60)) as connection:
        for _ in range(requests):
            events = make(draw, int(time.time() * 1000))
            body = json.dumps({"website_id": website, "events": events}, separators=(",", ":")).encode()
            assert len(body) <= 65_536
            connection.request("POST", "/api/collect", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert (response.status, json.loads(response.read())["accepted"]) == (202, len(events))
            sent += len(body)
    return sent


def database_bytes(db: Path) -> int:
    """Return the size of the database with its WAL."""
    with closing(sqlite3.connect(db)) as connection:
        return 4_096 * int(connection.execute("pragma page_count").fetchone()[0])


@pytest.mark.slow
def test_disk_space_is_bounded_by_the_bytes_sent(tmp_path: Path, serve: Serve) -> None:
    """An hour within the limits is 7,200 requests per website; this is a 240th of it and of the limits on new values.

    Before: 2.0 for labels, 2.1 for paths, 4.0 for event_data, 0.7 for points and 2.0 for A/B.
    """
    db = tmp_path / "analytics.db"
    with closing(open_database(db, create=True)) as connection:
        owner = create_account(connection, "owner@example.com", "business", None, 0)
        add = partial(add_website, connection, owner, "example.com", "example.com", (), 0)
        websites = {make: add() for make in (labels, paths, data, points, experiments)}
    server = serve(*NO_RATE_LIMITS, "--max-new-values", "41", "--max-new-names", "4", db=db)
    shares = {}
    for make, website in websites.items():
        before = database_bytes(db)
        sent = send(server, website, make, 30)
        shares[make.__name__] = (database_bytes(db) - before) / sent
    # Rows that are not folded yet, with the overhead of rows and partly filled pages.
    assert shares.pop("data") < 1.2
    assert {name: share for name, share in shares.items() if share > 1} == {}
