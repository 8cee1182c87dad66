"""The overview of all websites, in a real Chromium: figures of one API request, sorted and searched."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import ZONE, OpenPage, fail_and_recover
from tests.browser.history import SampleServer, sample_server
from tests.browser.owner import ask, send_view

Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    """Yield a server with a website with history, one with a single current visitor, and one without events."""
    with sample_server(tmp_path_factory.mktemp("overview")) as one:
        send_view(one.server, one.second, domain="second.example")
        yield one


@pytest.fixture
def opened(site: SampleServer, open_page: OpenPage) -> Opened:
    def show(query: str = "", **options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/{query}")
        expect(page.locator(".website-card")).to_have_count(3)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        return page

    return show


def figures_of(page: Any, site: SampleServer, period: str) -> dict[str, Any]:
    listed = ask(page, site.server, "GET", f"/api/account/websites?stats={period}&tz={ZONE}")[1]["data"]
    return {one["id"]: one["stats"] for one in listed}


def shown(page: Any) -> list[str]:
    return [one.get_attribute("data-id") for one in page.locator(".website-card").all()]


def test_cards_and_totals_are_those_of_the_api_in_one_request(site: SampleServer, opened: Opened) -> None:
    page = opened()
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.reload()
    expect(page.locator(".website-card")).to_have_count(3)
    expect(page.locator(".overview-sums")).to_be_visible()
    (overview,) = [url for url in urls if "stats=" in url]
    # The zone in which the page of a website without one of its own counts days.
    assert parse_qs(urlsplit(overview).query)["tz"] == [ZONE]
    assert not [url for url in urls if "timeseries" in url or "realtime" in url]
    figures = figures_of(page, site, "7d")
    for website, of in figures.items():
        card = page.locator(f".website-card[data-id='{website}']")
        if website == site.empty:
            expect(card).to_contain_text("No events yet.")
            continue
        expect(card.locator("dd").first).to_contain_text(f"{of['visitors']:,}")
        expect(card.locator("dd").nth(1)).to_contain_text(f"{of['pageviews']:,}")
        expect(card.locator(".website-now")).to_contain_text(f"{of['active_visitors']} now")
        # Today is not over.
        points = [row["visitors"] for row in of["series"][:-1]]
        label = card.locator("svg.website-line").get_attribute("aria-label")
        assert label == f"Visitors over time: {', '.join(map(str, points))}"
    visitors = sum(of["visitors"] for of in figures.values())
    expect(page.locator(".overview-sums dd").first).to_contain_text(f"{visitors:,}")


def test_period_and_order_are_in_the_address(site: SampleServer, opened: Opened) -> None:
    page = opened()
    page.get_by_role("button", name="30 d").click()
    page.wait_for_function("() => location.search === '?stats=30d'")
    month = figures_of(page, site, "30d")[site.website]["visitors"]
    expect(page.locator(f"[data-id='{site.website}'] dd").first).to_contain_text(f"{month:,}")
    assert shown(page) == [site.website, site.second, site.empty]
    # Its dashboard opens with the same period.
    link = page.locator(f"[data-id='{site.website}'] a.stretched")
    expect(link).to_have_attribute("href", f"/websites/{site.website}?period=30d")
    page.get_by_label("Sort by").select_option("Online now")
    page.wait_for_function("() => location.search === '?stats=30d&sort=now'")
    expect(page.locator(".website-card").first).to_have_attribute("data-id", site.second)
    page.go_back()
    expect(page.locator(".website-card").first).to_have_attribute("data-id", site.website)
    page.goto(f"{site.url}/?sort=name")
    expect(page.locator(".website-card").first).to_have_attribute("data-id", site.empty)


def test_the_period_is_kept(site: SampleServer, opened: Opened) -> None:
    """In this browser, and in the address, so that a copied link shows the same and steps back keep their meaning."""
    page = opened()
    pressed = page.locator(".segment[aria-pressed=true]")
    expect(pressed).to_have_text("7 d")
    page.get_by_role("button", name="30 d").press("Enter")
    expect(pressed).to_have_text("30 d")
    page.go_back()
    expect(pressed).to_have_text("7 d")
    page.goto(f"{site.url}/websites/{site.website}/settings")
    page.get_by_role("link", name="Tally").first.press("Enter")
    expect(page).to_have_url(f"{site.url}/?stats=30d")
    expect(pressed).to_have_text("30 d")
    page.get_by_role("button", name="7 d", exact=True).press("Enter")
    expect(page).to_have_url(f"{site.url}/?stats=7d")
    expect(pressed).to_have_text("7 d")
    page.goto(f"{site.url}/?stats=12mo")
    expect(page.locator(".website-card a.stretched").first).to_have_attribute("href", re.compile("period=12mo$"))


def test_websites_are_searched(site: SampleServer, opened: Opened) -> None:
    page = opened()
    search = page.get_by_role("main").get_by_label("Search websites")
    search.fill("SECOND")
    expect(page.locator(".website-card")).to_have_count(1)
    assert shown(page) == [site.second]
    search.fill("nothing like this")
    expect(page.get_by_role("main")).to_contain_text("No matches.")


def test_a_failed_request_shows_an_error_and_can_be_retried(site: SampleServer, opened: Opened) -> None:
    page = opened()
    fail_and_recover(page, site.url, re.compile(r"stats="), "The figures of the websites cannot be shown.")
    expect(page.locator(".website-card")).to_have_count(3)


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_axe_finds_nothing(opened: Opened, width: int) -> None:
    assert violations_in_each_scheme(opened(viewport={"width": width, "height": 900}), target_size=False) == []
