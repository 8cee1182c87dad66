"""Referrers on the website's own domain, its subdomains and its allowed origins are dropped."""

import json
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.events.urls import origin_hosts
from tally.storage.database import open_database, transaction
from tally.transfer.files import open_source
from tally.transfer.importer import import_events
from tally.transfer.line_format import LineReader
from tests.support.app import NOON_MS, OWNER, App

ORIGINS = ("https://www.partner.example", "http://localhost:9000", "http://[::1]:8080", "capacitor://app.local")
REFERRERS = {
    "https://www.partner.example/list": None,
    "https://partner.example/list": None,
    "http://localhost:9000/": None,
    "http://localhost:9001/": None,
    "http://[::1]:8080/": None,
    "https://shop.example.com/": None,
    "https://a.partner.example/": "a.partner.example",
    "https://partner.example.evil.example/": "partner.example.evil.example",
    "https://news.example.org/": "news.example.org",
}


async def test_pages_of_allowed_origins_are_dropped(app: App) -> None:
    website, key = await app.website(allow_origins=ORIGINS), await app.key()
    for number, (referrer, stored) in enumerate(REFERRERS.items()):
        event = {"type": "pageview", "website_id": website, "url": "https://example.com/", "referrer": referrer}
        event["session_id"] = f"session-{number}"  # each a visit of its own
        assert (await app.collect(event, headers={"Origin": "http://localhost:9000"})).status == 202
        newest = (await app.get(f"/api/v1/websites/{website}/events?limit=1", key)).json["data"][0]
        assert newest["referrer"] == stored, referrer
    # A website that does not allow the origin keeps the referrer.
    other = await app.website()
    event = {"type": "pageview", "website_id": other, "url": "https://example.com/"}
    await app.collect(event | {"referrer": "https://www.partner.example/list"})
    rows = (await app.get(f"/api/v1/websites/{other}/events", key)).json["data"]
    assert rows[0]["referrer"] == "partner.example"


@pytest.mark.parametrize(
    ("referrer", "kept"),
    [
        ("partner.example", ""),
        ("localhost", ""),
        ("example.com", ""),
        ("shop.example.com", ""),
        ("news.example.org", "news.example.org"),
    ],
)
def test_an_import_line_drops_own_referrers(referrer: str, kept: str) -> None:
    line = {"type": "pageview", "timestamp": NOON_MS, "pathname": "/", "referrer": referrer}
    reader = LineReader(b"salt" * 4, 1, NOON_MS, "example.com", frozenset(ORIGINS))
    read: Any = reader.line(1, line)
    assert read.texts[1] == kept


def test_hosts_of_origins_have_the_form_of_stored_referrers() -> None:
    assert origin_hosts(frozenset(ORIGINS)) == {"partner.example", "localhost", "[::1]", "app.local"}


def test_an_import_drops_own_referrers(tmp_path: Path) -> None:
    file = tmp_path / "in.ndjson"
    file.write_text(
        "".join(
            json.dumps({"type": "pageview", "timestamp": NOON_MS + at, "pathname": "/", "referrer": referrer}) + "\n"
            for at, referrer in enumerate(("partner.example", "example.com", "news.example.org"))
        )
    )
    connection = open_database(tmp_path / "analytics.db", create=True)
    with transaction(connection):
        owner = create_account(connection, OWNER, "business", None, 0)
        add_website(connection, owner, "example.com", "example.com", ORIGINS, 0)
    with open_source(str(file)) as source:
        assert import_events(connection, 1, source, now_ms=NOON_MS + 60_000).accepted == 3
    statement = "select text from visit join label on label.id = visit.referrer order by start_ms"
    assert [text for (text,) in connection.execute(statement)] == ["", "", "news.example.org"]
    connection.close()
