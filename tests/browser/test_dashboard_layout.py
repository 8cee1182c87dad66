"""The layout of the dashboard, in a real Chromium: order and size of cards, empty lists, what is loaded on demand."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import OpenPage, query_of
from tests.browser.history import DAYS, SampleServer, run, sample_server

Dashboard = Callable[..., Any]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    """The sample website, with one measurement of web vitals."""
    with sample_server(tmp_path_factory.mktemp("layout")) as one:
        url = "https://example.com/measured"
        vitals = {"type": "vitals", "website_id": one.website, "url": url, "vitals": {"lcp": 1800}}
        origin = {"Origin": "https://example.com", "Content-Type": "text/plain"}
        answer = one.server.request("POST", "/api/collect", vitals, origin)
        assert answer.status == 202, answer.text
        yield one


@pytest.fixture
def dashboard(site: SampleServer, open_page: OpenPage) -> Dashboard:
    """Return a function that opens the website's dashboard and waits until it is loaded."""

    def show(query: str = "period=30d", **options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{site.website}?{query}")
        expect(page.locator("canvas")).to_have_count(1)
        expect(page.locator(".list-card .card-foot")).to_have_count(6)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        return page

    return show


def test_lists_without_values_are_hidden(dashboard: Dashboard) -> None:
    page = dashboard()
    tabs = page.locator(".card-places").get_by_role("tab")
    expect(tabs).to_have_text(["Countries", "Languages"])
    # One hostname and no apps. Whether there are visitors now depends on the time of day.
    expect(page.locator(".card-apps")).not_to_be_visible()
    expect(page.locator(".card-names")).to_be_visible()
    page.goto(f"{page.url}&tab_places=region&tab_apps=platform")
    expect(tabs).to_have_text(["Countries", "Regions", "Languages"])
    expect(page.locator(".card-apps")).to_be_visible()


def test_without_events_there_is_no_card_of_events(dashboard: Dashboard) -> None:
    page = dashboard("from=2001-01-01&to=2001-01-07")
    expect(page.locator(".card-names")).not_to_be_visible()


def test_lists_of_campaigns_share_a_menu(dashboard: Dashboard) -> None:
    page = dashboard()
    card = page.locator(".card-sources")
    expect(card.get_by_role("tab")).to_have_text(["Channels", "Referrers"])
    menu = card.get_by_label("Campaigns")
    menu.focus()
    menu.select_option("UTM source")
    page.wait_for_function("() => location.search.includes('tab_sources=utm_source')")
    expect(card.get_by_role("tab", selected=True)).to_have_count(0)
    expect(card.locator(".bar").first).to_have_attribute("data-key", "utm_source=news")
    expect(menu).to_be_focused()
    assert violations(page) == []
    card.get_by_role("tab", name="Referrers").click()
    expect(menu).to_have_value("")


@pytest.mark.parametrize("width", [390, 768, 1100, 1280, 1920])
def test_no_tab_is_truncated(dashboard: Dashboard, width: int) -> None:
    page = dashboard("period=30d&tab_places=region&tab_sources=utm_campaign", viewport={"width": width, "height": 900})
    # One call, since cards may be drawn again meanwhile.
    cut = "(all) => all.filter((tabs) => tabs.scrollWidth > tabs.clientWidth).map((tabs) => tabs.innerText)"
    assert page.locator(".tabs:visible").evaluate_all(cut) == []


def test_icons_are_loaded_from_this_server_only(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard("period=30d&tab_sources=referrer")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.reload()
    expect(page.locator(".card-sources .bar").first).to_be_visible()
    for key, kind in (
        ("referrer=google.com", "img.brand-mark"),
        ("referrer=news.ycombinator.com", "img.brand-mark"),
        ("country=DE", "img.flag"),
        ("browser=Firefox", "img.brand-mark"),
    ):
        mark = page.locator(f".bar[data-key='{key}'] {kind}")
        mark.scroll_into_view_if_needed()
        page.wait_for_function("(image) => image.naturalWidth > 0", arg=mark.element_handle())
    expect(page.locator(".bar[data-key='referrer='] img")).to_have_count(0)
    assert all(url.startswith(site.url) for url in requested if not url.startswith("data:"))
    # Only what is shown is loaded.
    assert sum("/circle-flags-" in url for url in requested) < 20


def test_the_map_is_loaded_when_it_comes_near_the_visible_area(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(viewport={"width": 1280, "height": 500}))
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{site.url}/websites/{site.website}?period=30d")
    expect(page.locator(".card-places .bar").first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert not [url for url in requested if "world-atlas" in url]
    place = page.locator(".map")
    before = place.bounding_box()
    card = page.locator(".card-places").bounding_box()
    place.scroll_into_view_if_needed()
    expect(place.locator("path[class^=land]").first).to_be_visible()
    page.evaluate("scrollTo(0, 0)")
    assert (place.bounding_box(), page.locator(".card-places").bounding_box()) == (before, card)
    # A list that is drawn again has its map at once.
    page.get_by_role("button", name="7 d:").click()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    expect(place.locator("path[class^=land]").first).to_be_attached()
    assert len([url for url in requested if "world-atlas" in url]) == 1


def test_a_country_shows_its_regions(site: SampleServer, dashboard: Dashboard, tmp_path: Path) -> None:
    """Chosen in the list or on the map, where a database of cities has filled them; beside its outline."""
    at_ms = int(time.time() * 1000) - (DAYS + 9) * 86_400_000
    events = [
        {"type": "pageview", "timestamp": at_ms, "visitor": f"{n}", "country": region[:2], "region": region}
        | {"pathname": "/"}
        for n, region in enumerate(["DE-BY", "DE-BY", "DE-BE", "FR-IDF"])
    ]
    file = tmp_path / "regions.ndjson"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    run(site.server.db, "import", str(file), "--website", site.website)
    day = f"{datetime.fromtimestamp(at_ms / 1000, UTC).date()}"
    page = dashboard(f"from={day}&to={day}&tz=UTC")
    card = page.locator(".card-places")
    card.locator(".bar", has_text="Germany").click()
    expect(card.get_by_role("tab", name="Regions")).to_have_attribute("aria-selected", "true")
    expect(card.locator(".bar-label")).to_have_text(["Bavaria DE-BY", "Berlin DE-BE"])
    assert query_of(page)["filter_country"] == "DE"
    card.scroll_into_view_if_needed()
    expect(card.locator(".map.one path[class]")).to_have_count(1)
    assert violations(page) == []
    box = card.locator(".map.one svg").get_attribute("viewBox")
    assert 0 < float(str(box).split()[2]) < 200
    card.get_by_role("button", name="Show all countries").press("Enter")
    expect(card.get_by_role("tab", name="Countries")).to_have_attribute("aria-selected", "true")
    assert "filter_country" not in query_of(page)
    card.locator(".map:not(.one) .land-5").click()
    expect(card.locator(".bar-label")).to_have_text(["Bavaria DE-BY", "Berlin DE-BE"])
    card.locator(".bar", has_text="Berlin").click()
    chip = page.locator(".chips").get_by_text("Region is Berlin")
    expect(chip).to_be_visible()
    page.reload()
    expect(chip).to_be_visible()


def test_the_map_is_printed_even_if_it_was_not_in_view(dashboard: Dashboard) -> None:
    page = dashboard(viewport={"width": 1280, "height": 500})
    expect(page.locator(".map path")).to_have_count(0)
    page.pdf()
    assert page.locator(".map path").count() > 100


def test_the_first_figures_are_larger(dashboard: Dashboard) -> None:
    page = dashboard()
    size = "(value) => parseFloat(getComputedStyle(value).fontSize)"
    sizes = [one.evaluate(size) for one in page.locator(".figure-value").all()]
    assert sizes == [28, 28, 28, 16, 16, 16, 16]


@pytest.mark.parametrize("width", [320, 390])
def test_figures_are_in_two_columns_on_phones(dashboard: Dashboard, width: int) -> None:
    page = dashboard(viewport={"width": width, "height": 800})
    boxes = [one.bounding_box() for one in page.locator(".figures > li").all()]
    assert len({round(box["x"]) for box in boxes}) == 2
    assert all(box["x"] + box["width"] <= width for box in boxes)
    cut = "(figure) => figure.scrollWidth > figure.clientWidth"
    assert [one.inner_text() for one in page.locator(".figure").all() if one.evaluate(cut)] == []


def test_a_card_opens_on_the_first_tab_that_has_values(site: SampleServer, dashboard: Dashboard) -> None:
    """An app's events have no hostname; a tab that was opened stays open without values."""
    site.send(
        site.website, {"type": "screen_view", "name": "only-here", "platform": "ios", "session_id": "visitor-app"}
    )
    page = dashboard("period=30d&filter_platform=ios")
    apps = page.locator(".card-apps")
    chosen = apps.locator("[role=tab][aria-selected=true]")
    expect(chosen).to_have_text("Platforms")
    expect(apps.locator(".bar")).to_have_count(1)
    assert not [name for name in query_of(page) if name.startswith("tab_")]
    apps.get_by_role("tab", name="Hostnames").press("Enter")
    page.wait_for_url("**tab_apps=hostname**")
    expect(chosen).to_have_text("Hostnames")
    expect(apps.locator(".bar")).to_contain_text("Not set")
    # With values in each, the first.
    page = dashboard("period=30d")
    for card, name in (("pages", "Pages"), ("sources", "Channels"), ("places", "Countries"), ("browsers", "Browsers")):
        expect(page.locator(f".card-{card} [role=tab][aria-selected=true]")).to_have_text(name)


def test_all_values_are_sorted_by_any_figure(dashboard: Dashboard) -> None:
    page = dashboard()
    page.locator(".card-pages").get_by_role("button", name="All pages").click()
    heads = page.locator("dialog thead th")
    expect(heads).to_have_text(
        ["Pages", "Visitors", "Pageviews", "Events", "Visits", "Bounce rate", "Visit duration", "Share", "Change"]
    )
    views = page.locator("dialog tbody tr td:nth-child(3)")

    def shown() -> list[int]:
        return [int(text.replace(",", "")) for text in views.all_inner_texts()]

    page.locator("dialog").get_by_role("button", name="Pageviews", exact=True).click()
    expect(heads.nth(2)).to_have_attribute("aria-sort", "descending")
    assert shown() == sorted(shown(), reverse=True)
    expect(heads.nth(2).get_by_role("button")).to_be_focused()
    page.keyboard.press("Enter")
    expect(heads.nth(2)).to_have_attribute("aria-sort", "ascending")
    assert shown() == sorted(shown())
    page.locator("dialog").get_by_role("button", name="Pages", exact=True).click()
    names = page.locator("dialog tbody th").all_inner_texts()
    assert names == page.evaluate("(names) => [...names].sort((a, b) => a.localeCompare(b))", names)


def test_paths_are_readable_in_the_table_of_all_values_on_phones(dashboard: Dashboard) -> None:
    page = dashboard(viewport={"width": 390, "height": 844})
    page.keyboard.press("/")
    path = page.locator("dialog tbody th", has_text="/docs/install").locator("bdi")
    expect(path).to_be_visible()
    # In one line: the figures beside it scroll sideways.
    assert path.evaluate("(of) => of.getClientRects().length") == 1


def test_a_single_visitor_is_named_in_the_singular(site: SampleServer, dashboard: Dashboard) -> None:
    site.send(site.website, {"type": "pageview", "url": "https://example.com/measured"})
    page = dashboard("period=today&filter_pathname=/measured")
    expect(page.locator(".card-pages .bar-count")).to_have_text("1 visitor")


@pytest.mark.parametrize("width", [390, 768, 1920])
def test_axe_finds_nothing_in_the_table_of_all_values(dashboard: Dashboard, width: int) -> None:
    page = dashboard("period=30d", viewport={"width": width, "height": 900})
    assert violations_in_each_scheme(page) == []
    page.keyboard.press("/")
    expect(page.locator("dialog tbody tr").first).to_be_visible()
    page.locator("dialog").get_by_role("button", name="Events", exact=True).click()
    assert violations_in_each_scheme(page) == []
