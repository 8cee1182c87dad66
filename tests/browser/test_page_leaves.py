"""Time on page and scroll depth in the table of all pages, in a real Chromium."""

import os
import time

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.history import SampleServer

HEADS = {
    "en": ["Time on page", "Reached 75%"],
    "de": ["Zeit auf der Seite", "75 % erreicht"],
    "fr": ["Temps sur la page", "75 % atteints"],
    "es": ["Tiempo en la página", "75 % alcanzado"],
}


def send_leaves(site: SampleServer) -> None:
    """Send views of three pages; of one nothing was measured."""
    now_ms = int(time.time() * 1000) - 60_000
    for path, seconds, depth in (("/long", 190, 100), ("/long", 190, 50), ("/short", 8, 80), ("/unknown", None, None)):
        id = f"{now_ms}-{path}-{depth}"
        view = {"type": "pageview", "url": f"https://second.example{path}", "event_id": id, "timestamp": now_ms}
        own = {"time_on_page": seconds, "scroll_depth": depth}
        leave = view | own | {"type": "leave"}
        site.send(site.second, view | {"session_id": f"session-of-{depth}"}, *([leave] if seconds else []))


@pytest.mark.parametrize("language", HEADS)
@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_pages_have_their_time_and_depth(
    site: SampleServer, open_page: OpenPage, size: tuple[int, int], language: str
) -> None:
    """Sortable, with what they mean and how many views sent them."""
    send_leaves(site)
    page = site.log_in(open_page(viewport=dict(zip(("width", "height"), size, strict=True)), locale=language))
    page.goto(f"{site.url}/websites/{site.second}?period=today&all=pathname&sort=-time_on_page")
    heads = page.locator(".all-table thead th")
    for head in HEADS[language]:
        expect(heads.filter(has_text=head)).to_have_count(1)
    rows = page.locator(".all-table tbody tr")
    expect(rows.nth(0)).to_contain_text("/long")
    expect(rows.nth(1)).to_contain_text("/short")
    place = heads.all_inner_texts().index(next(text for text in heads.all_inner_texts() if HEADS[language][1] in text))
    expect(rows.filter(has_text="/short").locator("td").nth(place - 1)).to_contain_text("100")
    expect(rows.filter(has_text="/unknown").locator("td").nth(place - 1)).to_have_text("–")
    heads.nth(place).get_by_role("button").click()
    expect(rows.nth(0)).to_contain_text("/short")
    assert heads.nth(place).get_by_role("button").get_attribute("title")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if folder := os.environ.get("SHOTS"):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=f"{folder}/{language}-{size[0]}-{scheme}.png")
    assert violations_in_each_scheme(page) == []
