"""Titles below paths, on the dashboard in a real Chromium."""

import time
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.history import IMG, SampleServer

TITLE = f"Prices {IMG} and plans for teams of any size, by month or by year, with a free trial"


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_pages_have_their_titles(site: SampleServer, open_page: OpenPage, size: tuple[int, int]) -> None:
    """In the lists of pages, in tooltips and in the table of all pages, where they are found by it; a share link has
    none."""
    now_ms = int(time.time() * 1000) - 1000
    view = {"type": "pageview", "url": "https://second.example/prices", "title": TITLE, "timestamp": now_ms}
    site.send(site.second, view | {"session_id": f"session-{size}"})
    page = site.log_in(open_page(viewport=dict(zip(("width", "height"), size, strict=True))))
    address = f"{site.url}/websites/{site.second}?period=today"
    for tab in ("Pages", "Entry", "Exit"):
        page.goto(address)
        page.get_by_role("tab", name=tab).click()
        row = page.locator(".card-pages .bar")
        expect(row.locator(".bar-title")).to_have_text(TITLE)
        expect(row.locator("bdi").first).to_contain_text("/prices")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # On phones the target of the link at the end of a row is 16 pixels wide.
    assert all("page-link" in found for found in violations_in_each_scheme(page))
    row.hover()
    expect(page.locator(".hint")).to_contain_text(TITLE)
    page.goto(f"{address}&all=pathname")
    page.locator("dialog input").fill("FREE trial")
    found: Any = page.locator(".all-table tbody tr")
    expect(found).to_have_count(1)
    expect(found).to_contain_text(TITLE)
    found.get_by_role("button").click()
    expect(page.locator(".chips")).to_contain_text("/prices")
    expect(page.locator(".chips")).not_to_contain_text("trial")
    headers = {"Sec-Fetch-Site": "same-origin"}
    links = f"{site.url}/api/account/websites/{site.second}/share-links"
    share = page.request.post(links, data={"name": "Readers"}, headers=headers)
    visitor = open_page()
    visitor.goto(f"{site.url}{share.json()['data']['path']}?period=today")
    expect(visitor.locator(".card-pages .bar")).to_contain_text("/prices")
    expect(visitor.locator(".bar-title")).to_have_count(0)
