"""The time zone of a website on the pages: proposed where it is added, and where the website's days begin."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.browser.browsers import OpenPage
from tests.browser.owner import EMAIL, PASSWORD, add_website, ask, send_view, set_up, setup_link
from tests.support.page_client import LINK
from tests.support.process import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "analytics.db", (), {}, tmp_path / "stderr.log", [])
    yield server
    server.kill()


def only_website(page: Any, server: Server) -> tuple[str | None, int]:
    """Return the time zone and the day offset of the account's website."""
    (website,) = ask(page, server, "GET", "/api/account/websites")[1]["data"]
    return website["time_zone"], website["day_offset_minutes"]


def save_zone(page: Any, zone: str) -> None:
    page.get_by_label("Time zone").select_option(zone)
    page.get_by_role("button", name="Save settings").click()
    expect(page.get_by_text("Settings saved.").last).to_be_visible()


def test_the_setup_proposes_the_zone_of_the_browser(server: Server, open_page: OpenPage) -> None:
    """Under its current name: Chromium calls this one Asia/Calcutta."""
    page = open_page(timezone_id="Asia/Kolkata")
    page.goto(setup_link(server))
    page.get_by_label("Email").fill(EMAIL)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    zone = page.get_by_label("Time zone")
    expect(zone).to_have_value("Asia/Kolkata")
    expect(zone.locator("option", has_text="Asia/Kolkata")).to_have_count(1)
    expect(page.get_by_text("Preset: that of this browser.")).to_be_visible()
    assert violations(page) == []
    page.get_by_label("Domain").fill("example.com")
    page.get_by_role("button", name="Add website").click()
    expect(page.get_by_role("heading", name="Add the snippet")).to_be_visible()
    assert only_website(page, server) == ("Asia/Kolkata", 330)


def test_another_zone_is_chosen_where_a_website_is_added(server: Server, open_page: OpenPage) -> None:
    page = open_page(timezone_id="Europe/Berlin")
    set_up(page, server)
    page.goto(f"{server.url}/#add")
    dialog = page.get_by_role("dialog", name="Add website")
    expect(dialog.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    dialog.get_by_label("Time zone").select_option("America/Los_Angeles")
    dialog.get_by_label("Domain").fill("example.com")
    dialog.get_by_role("button", name="Add website").click()
    expect(page.get_by_text("Waiting for the first event")).to_be_visible()
    assert only_website(page, server) == ("America/Los_Angeles", -480)


def test_days_of_performance_and_heatmaps_are_the_websites(server: Server, open_page: OpenPage) -> None:
    """A day in Kolkata is one day there, and parts of two UTC days."""
    page = open_page(timezone_id="UTC", viewport={"width": 1280, "height": 900})
    set_up(page, server)
    website = add_website(page, server, time_zone="Asia/Kolkata")
    day = datetime.now(UTC).date() - timedelta(days=1)
    here = {"website_id": website["id"], "url": "https://example.com/", "timestamp": f"{day}T00:30:00Z"}
    points = [{"x": 0.5, "y": 320, "kind": "click"}]
    vitals, heatmap = {"type": "vitals", "lcp": 1200}, {"type": "heatmap", "viewport_width": 1200, "points": points}
    for event in (vitals, heatmap):
        answer = server.request("POST", "/api/collect", here | event, {"Origin": "https://example.com"})
        assert answer.status == 202, answer.text
    words, range_of_day = f"{day:%a}, {day:%b} {day.day}", f"from={day}&to={day}"
    page.goto(f"{server.url}/websites/{website['id']}/vitals?{range_of_day}&metric=lcp")
    page.get_by_text("Table of this chart").click()
    expect(page.locator(".series-table tbody th")).to_have_text(words)
    page.goto(f"{server.url}/websites/{website['id']}/heatmaps?{range_of_day}")
    expect(page.locator(".sheet-head")).to_contain_text(f", {words}, {day.year}, whole days.")


def test_days_follow_the_zone_until_there_are_events(server: Server, open_page: OpenPage) -> None:
    """Afterwards the zone is that of reports alone, and the page and the footnote name where days begin."""
    page = open_page(timezone_id="UTC")
    set_up(page, server)
    website = add_website(page, server, time_zone="Asia/Kolkata")
    settings, dashboard = f"{server.url}/websites/{website['id']}/settings", f"{server.url}/websites/{website['id']}"
    page.goto(settings)
    expect(page.get_by_text("begin at midnight UTC+5:30. While the website has no data,")).to_be_visible()
    save_zone(page, "Europe/Berlin")
    begin = "Days of visitors and visits begin at midnight UTC+1"
    expect(page.get_by_text(f"{begin}; in summer time at 1:00 AM. While")).to_be_visible()
    assert only_website(page, server) == ("Europe/Berlin", 60)
    send_view(server, website["id"])

    page.goto(dashboard)
    expect(page.get_by_text("Unique visitors are counted per day of the website's time zone.")).to_be_visible()
    page.goto(settings)
    expect(page.get_by_text(f"{begin}; in summer time at 1:00 AM. This cannot be changed")).to_be_visible()
    # What the zone is changed to has its own clock.
    page.get_by_label("Time zone").select_option("Asia/Kolkata")
    expect(page.get_by_text(f"{begin}, in this time zone at 4:30 AM. This cannot be changed")).to_be_visible()
    save_zone(page, "America/Los_Angeles")
    there = f"{begin}, in this time zone at 3:00 PM; in summer time at 4:00 PM. This cannot be changed"
    expect(page.get_by_text(there)).to_be_visible()
    assert violations(page) == []
    assert only_website(page, server) == ("America/Los_Angeles", 60)

    page.goto(dashboard)
    expect(page.get_by_text("Unique visitors are counted per day (UTC+1).")).to_be_visible()
    _, answer = ask(page, server, "POST", f"/api/account/websites/{website['id']}/share-links", LINK)
    shared = open_page(timezone_id="UTC")
    shared.goto(server.url + answer["data"]["path"])
    expect(shared.get_by_text("Unique visitors are counted per day (UTC+1).")).to_be_visible()
