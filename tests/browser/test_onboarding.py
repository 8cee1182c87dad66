"""The page that waits for a website's first event, beside a real page of another origin that carries the tracker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.browser.browsers import OpenPage
from tests.browser.customer_site import Pages
from tests.browser.owner import add_website, ask, command, set_up
from tests.support.process import Server, until


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Server, Pages]]:
    server = Server(tmp_path / "analytics.db", (), {}, tmp_path / "stderr.log", [])
    pages = Pages()
    yield server, pages
    pages.close()
    server.kill()


@pytest.mark.by_default
def test_a_refused_origin_is_named_and_allowed_in_place(place: tuple[Server, Pages], open_page: OpenPage) -> None:
    server, pages = place
    owner, visitor = open_page(), open_page()
    set_up(owner, server)
    website = add_website(owner, server)
    snippet = f'<script defer src="{server.url}/tracker.js" data-website-id="{website["id"]}"></script>'
    pages.put("/", f"<!doctype html><html lang=en><head><title>Shop</title>{snippet}</head></html>")
    origin = f"http://localhost:{pages.port}"

    owner.goto(f"{server.url}/websites/{website['id']}")
    expect(owner.get_by_text("Waiting for the first event")).to_be_visible()
    sent = "**/api/collect"
    for _ in range(2):
        with visitor.expect_response(sent) as refused:
            visitor.goto(f"{origin}/")
        assert refused.value.status == 403
    expect(owner.get_by_text(f"2 events from {origin} were refused:")).to_be_visible()
    expect(owner.get_by_text("Allow only your own origins")).to_be_visible()
    assert violations(owner) == []
    owner.get_by_role("button", name="Allow this origin").click()
    expect(owner.get_by_text(f"{origin} is now allowed")).to_be_visible()
    with visitor.expect_response(sent) as taken:
        visitor.goto(f"{origin}/")
    assert taken.value.status == 202
    # The first event: the dashboard takes the place of the snippet.
    expect(owner.locator(".figure").first).to_be_visible()
    # The visitor's page is not Tally's: its two refusals, and its missing icon.
    visitor.problems.discard("status of 40")


def test_after_an_import_no_page_shows_that_there_are_no_events(
    place: tuple[Server, Pages], open_page: OpenPage, tmp_path: Path
) -> None:
    """Pages that were open before the import show its events, though they are older than the newest days."""
    server, _ = place
    page = open_page()
    set_up(page, server)
    website = add_website(page, server)
    own = f"{server.url}/websites/{website['id']}"
    page.goto(f"{own}/events")
    words = page.get_by_text("No events have been received from this website yet")
    expect(words).to_be_visible()
    file = tmp_path / "in.ndjson"
    line = '{"type": "pageview", "timestamp": "2026-01-%02dT12:00:00Z", "pathname": "/"}\n'
    file.write_text("".join(line % (1 + n % 28) for n in range(85)))

    page.goto(own)
    expect(page.get_by_text("Waiting for the first event")).to_be_visible()
    command(server, "import", str(file), "--website", website["id"])
    expect(page.locator(".figure").first).to_be_visible()
    page.goto(f"{own}/events")
    expect(page.get_by_text("No events in this range")).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(words).to_have_count(0)
    page.goto(f"{own}#settings")
    delete: Any = page.get_by_role("button", name="Delete website and its 85 events")
    expect(delete).to_be_visible()
    # More arrive while the page is open: the dialog names the number at that time.
    file.write_text("".join(line % (1 + n % 28) for n in range(10)).replace('"/"', '"/more"'))
    command(server, "import", str(file), "--website", website["id"])
    # The server reads what other processes wrote about once a second.
    path = f"/api/account/websites/{website['id']}"
    until(lambda: ask(page, server, "GET", path)[1]["data"]["events"] == 95)
    delete.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete website and its 95 events")).to_be_visible()
