"""Pages and hosts that are not ASCII, in a real Chromium: readable everywhere, and found by what is shown."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage, exported_text, query_of
from tests.browser.history import SampleServer, sample_server

ARABIC, PERSIAN = "/\u0633\u0644\u0627\u0645/\u062e\u0628\u0631", "/\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
HEBREW, CHINESE, EMOJI = "/he/\u05e9\u05dc\u05d5\u05dd", "/\u4e2d\u6587/\u65b0\u95fb", "/\U0001f600/caf\u00e9"
PAGES = (ARABIC, PERSIAN, HEBREW, CHINESE, EMOJI)
OVERRIDE = "/\u202egpj"
HOSTS = {"b\u00fccher.example": "xn--bcher-kva.example", "xn--80ak6aa92e.com": "xn--80ak6aa92e.com"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    """The sample server, whose empty website has two visits of all PAGES, and points of one."""
    with sample_server(tmp_path_factory.mktemp("readable")) as one:
        for number, host in enumerate(HOSTS):
            visitor = {"session_id": f"visitor-{number}"}
            pages = [*PAGES, OVERRIDE] if number else PAGES
            views = [{"type": "pageview", "url": f"https://example.com{path}", **visitor} for path in pages]
            views[0]["referrer"] = f"https://{host}/"
            one.send(one.empty, *views)
        url = f"https://example.com{ARABIC}"
        point = {"type": "heatmap", "url": url, "viewport_width": 1280, "x": 0.5, "y": 20}
        vitals = {"type": "vitals", "url": url, "lcp": 9_000}
        one.send(one.empty, point, vitals)
        yield one


def opened(site: SampleServer, open_page: OpenPage, at: str = "?period=today", **options: Any) -> Any:
    page = site.log_in(open_page(timezone_id="UTC", **options))
    page.goto(f"{site.url}/websites/{site.empty}{at}")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def escaped(path: str) -> str:
    return quote(path, safe="/")


def test_lists_show_pages_and_hosts_readable(site: SampleServer, open_page: OpenPage) -> None:
    """In lists, their titles, visitors now and events; what is not safe to read stays as it is stored."""
    page = opened(site, open_page, "?period=today&tab_sources=referrer")
    bars = page.locator(".card-pages .bar")
    for path in PAGES:
        expect(bars.and_(page.locator(f'[title="{path}"]')).locator(".bar-label")).to_have_text(path)
    expect(bars.and_(page.locator(f'[title="{escaped(OVERRIDE)}"]'))).to_have_count(1)
    for host in HOSTS:
        expect(page.locator(".card-sources .bar").and_(page.locator(f'[title="{host}"]'))).to_have_count(1)
    assert "%D8" not in page.locator("main").inner_text()
    page.goto(f"{site.url}/websites/{site.empty}/live?period=today")
    expect(page.locator(".what-cell").filter(has_text=CHINESE).first).to_be_visible()
    expect(page.locator(".card-now-pathname .bar").first).to_be_visible()
    assert "%D8" not in page.locator("main").inner_text()
    assert violations_in_each_scheme(page) == []


@pytest.mark.parametrize("path", PAGES)
def test_a_typed_page_finds_the_stored_one(site: SampleServer, open_page: OpenPage, path: str) -> None:
    """Chosen from the suggestions, typed as a whole, and typed in part."""
    page = opened(site, open_page, "?period=today&filter_browser=")
    for sign, typed, stored in (("", path, escaped(path)), ("*", path[2:5], path[2:5])):
        page.goto(f"{site.url}/websites/{site.empty}?period=today")
        page.get_by_role("button", name="Filter", exact=True).click()
        dialog = page.get_by_role("dialog", name="Add a filter")
        dialog.get_by_label("Field").select_option("pathname")
        dialog.get_by_label("Operator").select_option(sign)
        expect(dialog.locator(".suggestions .bar").first).to_be_visible()
        dialog.get_by_label("Value", exact=True).fill(typed)
        dialog.get_by_role("button", name="Add filter").click()
        expect(page.locator("dialog")).to_have_count(0)
        assert query_of(page)[f"filter_pathname{sign}"] == stored
        expect(page.locator(".chips .chip .chip-text > bdi")).to_have_text(typed)
        expect(page.locator("[data-figure=pageviews]")).to_have_attribute("data-value", "2")


def test_funnels_and_journeys(site: SampleServer, open_page: OpenPage) -> None:
    """Steps from the address in any spelling, and from the dialog."""
    steps = f"step=pathname:{quote(ARABIC)}&step=pathname:{quote(escaped(CHINESE).lower())}"
    page = opened(site, open_page, f"/funnels?period=today&{steps}")
    expect(page.locator(".funnel .step-name > bdi").filter(has_text=ARABIC)).to_have_count(1)
    expect(page.locator(".funnel .step-name > bdi").filter(has_text=CHINESE)).to_have_count(1)
    page.goto(f"{site.url}/websites/{site.empty}/journeys?period=today&start=pathname:{quote(ARABIC)}")
    node = page.get_by_role("button", name=PERSIAN)
    expect(node).to_have_count(1)
    node.click()
    expect(page.locator(".journey-start > bdi")).to_have_text(PERSIAN)
    assert query_of(page)["start"] == f"pathname:{escaped(PERSIAN)}"
    assert "%D8" not in page.locator("main").inner_text()


def test_heatmaps_and_web_vitals(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page, "/heatmaps?period=today")
    expect(page.locator("#sheet-title")).to_have_text(ARABIC)
    expect(page.locator(".bar .bar-label").first).to_have_text(ARABIC)
    page.goto(f"{site.url}/websites/{site.empty}/vitals?period=today")
    expect(page.locator(".ranked-name").first).to_have_text(ARABIC)


def test_exclusions_are_edited_readable(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page, "/settings/exclusions")
    for list, typed in (
        ("Excluded pages", "/\u00fcber\n/\u0633\u0644\u0627\u0645/*"),
        ("Hosts to count", "*.b\u00fccher.example"),
    ):
        entries = page.get_by_role("region", name=list).locator("tbody th")
        page.get_by_role("button", name=f"Add to {list}").click()
        page.get_by_role("dialog").get_by_label(list).fill(typed)
        page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
        expect(entries).to_have_text(typed.split("\n"))
        page.reload()
        expect(entries).to_have_text(typed.split("\n"))
    for entry in ("/\u00fcber", "/\u0633\u0644\u0627\u0645/*", "*.b\u00fccher.example"):
        page.get_by_role("button", name=f"Remove {entry}").click()
        expect(page.get_by_role("button", name=f"Remove {entry}")).to_have_count(0)


def test_files_have_pages_as_stored(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page)
    text = exported_text(page, "CSV of Pages")
    assert escaped(ARABIC) in text
    assert ARABIC not in unquote(text.replace(escaped(ARABIC), ""))


def test_parts_of_a_page_keep_their_order(site: SampleServer, open_page: OpenPage) -> None:
    """Two adjacent Arabic segments: the first one stands left of the second, the slash before both."""
    page = opened(site, open_page)
    parts = page.locator(f'.card-pages [title="{ARABIC}"] .bar-label bdi bdi bdi')
    expect(parts).to_have_count(2)
    places = parts.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().left)")
    assert places[0] < places[1]
