"""Two funnels side by side, and the saved funnel that was used last, in a real Chromium."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage, query_of
from tests.browser.history import SampleServer

DAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
STEPS = "&step=pathname:/&step=pathname:/buy"


@pytest.fixture(scope="module")
def address(site: SampleServer) -> str:
    """Send visits of three devices, of which different parts buy; return the address of the funnels of their day."""
    at = int(DAY.timestamp() * 1000) + 36_000_000
    events: list[dict[str, Any]] = []
    for device, visits, bought in (("desktop", 60, 40), ("mobile", 50, 12), ("tablet", 12, 3)):
        for n in range(visits):
            own = {"type": "pageview", "session_id": f"session-{device}-{n}", "device": device}
            events.append(own | {"timestamp": at, "url": "https://empty.example/"})
            if n < bought:
                events.append(own | {"timestamp": at + 60_000, "url": "https://empty.example/buy"})
    for start in range(0, len(events), 50):
        site.send(site.empty, *events[start : start + 50])
    return f"{site.url}/websites/{site.empty}/funnels?from={DAY:%Y-%m-%d}&to={DAY:%Y-%m-%d}&tz=UTC"


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_two_values_side_by_side_with_a_verdict(
    site: SampleServer, address: str, open_page: OpenPage, size: tuple[int, int]
) -> None:
    """The address keeps both; other values are chosen by keyboard."""
    page = site.log_in(open_page(viewport=dict(zip(("width", "height"), size, strict=True))))
    page.goto(address + STEPS)
    page.get_by_label("Side by side").select_option(label="Devices")
    row = page.locator(".side-table tbody tr").last
    expect(row).to_contain_text("66.7%")
    expect(row).to_contain_text("24.0%")
    expect(row).to_contain_text("probably real")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert not violations_in_each_scheme(page)
    other = page.locator(".side-table thead select").last
    other.focus()
    page.keyboard.press("ArrowDown")
    expect(row).to_contain_text("too few visits")
    expect(row).to_contain_text("25.0%")
    query = query_of(page)
    assert (query["side"], query["side_a"], query["side_b"]) == ("device", "desktop", "tablet")
    page.reload()
    expect(row).to_contain_text("too few visits")
    page.get_by_label("Side by side").first.select_option(label="Periods")
    expect(row).to_contain_text("45.1%")
    expect(row).to_contain_text("too few visits")
    page.get_by_label("Side by side").first.select_option(label="Countries")
    expect(page.locator(".side-place")).to_contain_text("There are no two of them in this range.")


def test_the_saved_funnel_that_was_used_last_is_opened(site: SampleServer, address: str, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    headers = {"Sec-Fetch-Site": "same-origin"}
    path = f"{site.url}/api/account/websites/{site.empty}/funnels"
    for name, steps in (("Buy", ["pathname:/", "pathname:/buy"]), ("Back", ["pathname:/buy", "pathname:/"])):
        assert page.request.post(path, data={"name": name, "steps": steps}, headers=headers).status == 201
    page.goto(address)
    expect(page.get_by_text("Build a funnel")).to_be_visible()
    page.get_by_role("button", name="Back", exact=True).click()
    expect(page.locator(".step")).to_have_count(2)
    page.goto(address)
    expect(page.locator(".step bdi").first).to_have_text("/buy")
    # Steps that are removed stay so.
    for _ in range(2):
        page.get_by_role("button", name="Remove this step").first.click()
    expect(page.get_by_text("Build a funnel")).to_be_visible()
