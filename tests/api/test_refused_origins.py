"""What the setup page shows of a website: its number of events, and the origins whose events were refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.engine.values import Traffic
from tally.ingest import refused_origins
from tally.ingest.refused_origins import MAX_ORIGINS, MAX_WEBSITES, RefusedOrigins
from tally.rollups import traffic
from tally.rollups.traffic import traffic_of
from tally.storage.database import open_database, transaction
from tally.transfer.files import open_source
from tally.transfer.importer import import_events
from tests.support.app import NOON_MS, OWNER, App
from tests.support.cases import cases
from tests.support.page_client import logged_in

CLIENT = b"\x7f\0\0\1"
VIEW = {"type": "pageview", "url": "http://localhost:9000/"}


async def refuse(app: App, website: str, origin: str, times: int = 1) -> None:
    for _ in range(times):
        answer = await app.collect(VIEW | {"website_id": website}, headers={"Origin": origin})
        assert answer.status == 403


async def test_a_refused_origin_is_shown_until_it_is_allowed(app: App) -> None:
    owner, website, other = await logged_in(app), await app.website(), await app.website("example.org")
    await refuse(app, website, "http://localhost:9000", 2)
    await refuse(app, website, "HTTPS://Partner.example:443")
    path = f"/api/account/websites/{website}"
    shown = (await owner("GET", path)).json["data"]
    at = "2026-11-18T12:00:00.000+00:00"
    assert shown["refused_origins"] == [
        {"origin": "https://partner.example", "events": 1, "last_at": at},
        {"origin": "http://localhost:9000", "events": 2, "last_at": at},
    ]
    assert (await owner("GET", f"/api/account/websites/{other}")).json["data"]["refused_origins"] == []
    assert (await owner("PATCH", path, {"origins": ["http://localhost:9000"]})).status == 200
    shown = (await owner("GET", path)).json["data"]
    assert [one["origin"] for one in shown["refused_origins"]] == ["https://partner.example"]
    accepted = await app.collect(VIEW | {"website_id": website}, headers={"Origin": "http://localhost:9000"})
    assert accepted.status == 202
    app.clock.advance(601)
    assert (await owner("GET", path)).json["data"]["refused_origins"] == []
    other_user = await logged_in(app, "other_user@example.com")
    assert (await other_user("GET", path)).status == 404


@cases(
    "sent",
    [
        *("", "null", "x", "http://", "http://a b", "http://a\r\nb", "javascript:alert(1)", "http://a/<script>"),
        *("http://" + "a" * 300, "http://203.0.113.7", "http://8.8.8.8:80", "http://[2606:4700::1]:8000"),
    ],
)
def test_malformed_origins_and_public_addresses_are_not_kept(sent: str) -> None:
    origins = RefusedOrigins()
    origins.record(1, sent, CLIENT, NOON_MS)
    assert origins.newest(1, NOON_MS) == []


@pytest.mark.parametrize("sent", ["http://127.0.0.1:3000", "http://192.168.1.7", "http://[::1]:8000", "app://local"])
def test_private_addresses_and_app_origins_are_kept(sent: str) -> None:
    origins = RefusedOrigins()
    origins.record(1, sent, CLIENT, NOON_MS)
    assert [one.origin for one in origins.newest(1, NOON_MS)] == [sent]


def test_memory_is_bounded() -> None:
    origins = RefusedOrigins()
    for n in range(20):
        origins.record(1, f"http://{n}.example", CLIENT, NOON_MS)
    assert [one.origin for one in origins.newest(1, NOON_MS)] == [f"http://{n}.example" for n in range(19, 14, -1)]
    assert MAX_ORIGINS == 5
    for website in range(2, MAX_WEBSITES + 2):
        origins.record(website, "http://a.example", CLIENT, NOON_MS)
    assert origins.newest(1, NOON_MS) == []
    assert len(origins.newest(2, NOON_MS)) == 1
    # An origin that is refused again is not evicted.
    origins.record(2, "http://a.example", CLIENT, NOON_MS)
    origins.record(10_000, "http://a.example", CLIENT, NOON_MS)
    assert origins.newest(2, NOON_MS)[0].events == 2
    assert origins.newest(2, NOON_MS + refused_origins.KEEP_MS) == []


@pytest.mark.parametrize("flood", ["http://{}.example", "http://localhost:{}"])
def test_one_client_does_not_displace_the_origins_of_others(flood: str) -> None:
    """Five origins sent by one client must not replace those of other clients."""
    origins = RefusedOrigins()
    origins.record(1, "http://localhost:9000", CLIENT, NOON_MS)
    origins.record(1, "https://partner.example", b"partner!", NOON_MS)
    for n in range(20):
        origins.record(1, flood.format(n + 1), b"other", NOON_MS)
    assert {one.origin for one in origins.newest(1, NOON_MS)} > {"http://localhost:9000", "https://partner.example"}


@pytest.mark.parametrize("own", ["http://localhost:9000", "http://192.168.1.7:3000", "capacitor://localhost"])
def test_many_clients_do_not_displace_a_local_origin(own: str) -> None:
    origins = RefusedOrigins()
    origins.record(1, own, CLIENT, NOON_MS)
    for n in range(20):
        origins.record(1, f"http://{n}.example", bytes([n]), NOON_MS)
    found = [one.origin for one in origins.newest(1, NOON_MS)]
    assert found == [*(f"http://{n}.example" for n in range(19, 15, -1)), own]


# --- counts


def imported(folder: Path, events: int) -> Any:
    connection = open_database(folder / "analytics.db", create=True)
    with transaction(connection):
        owner = create_account(connection, OWNER, "business", None, 0)
        add_website(connection, owner, "example.com", "example.com", (), 0)
    file = folder / "in.ndjson"
    line = {"type": "pageview", "pathname": "/"}
    # On ten days, whose totals are not built yet.
    times = (NOON_MS - n % 10 * 86_400_000 - n for n in range(events))
    file.write_text("".join(json.dumps(line | {"timestamp": time}) + "\n" for time in times))
    with open_source(str(file)) as source:
        assert import_events(connection, 1, source, now_ms=NOON_MS).accepted == events
    return connection


def test_imported_events_are_counted_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the totals are built in the background, which takes minutes for a long history."""
    connection = imported(tmp_path, 85)
    assert traffic_of(connection, [1]) == {1: Traffic(85, True)}
    # Existing totals of a stale day are not added to the count of its rows.
    with transaction(connection):
        quarter = NOON_MS // 900_000
        connection.execute("insert or replace into total_15m values (1, ?, 7, 0, 0, 0, 0, 0, 0, 0, 0)", (quarter,))
    assert traffic_of(connection, [1]) == {1: Traffic(85, True)}
    monkeypatch.setattr(traffic, "MAX_COUNTED", 50)
    events, is_exact = traffic_of(connection, [1])[1]
    assert not is_exact
    assert events <= 85
    connection.close()
