"""The card "What changed" on the dashboard in a real Chromium."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage, fail_and_recover, query_of
from tests.browser.history import SampleServer
from tests.support.page_client import LINK

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
# Both are within the 72 hours of accepted timestamps.
BEFORE, NOW = TODAY - timedelta(days=2), TODAY - timedelta(days=1)
WORDS = {
    "en-GB": "Paid search: 90 to 41, most of it from ",
    "de-DE": "Bezahlte Suche: von 90 auf 41, größtenteils durch ",
    "fr-FR": "de 90 à 41, surtout en raison de ",
    "es-ES": "de 90 a 41, sobre todo por ",
}


@pytest.fixture(scope="module")
def changed(site: SampleServer) -> str:
    """Send two days of visitors to a website; return the address of its dashboard for the second of them."""
    ads = "https://second.example/?utm_medium=cpc&utm_source=google"
    for day, german, french, others in ((BEFORE, 60, 30, 80), (NOW, 10, 31, 82)):
        at = int(day.timestamp() * 1000) + 72_000_000
        visitors = [("de-DE", "desktop", ads)] * german + [("fr-FR", "desktop", ads)] * french
        visitors += [("de-DE", "mobile", "https://second.example/")] * others
        events = [
            {"type": "pageview", "timestamp": at, "session_id": f"session-{day:%d}-{n}", "url": url}
            | {"language": language, "device": device}
            for n, (language, device, url) in enumerate(visitors)
        ]
        for start in range(0, len(events), 50):
            site.send(site.second, *events[start : start + 50])
    return f"{site.url}/websites/{site.second}?from={NOW:%Y-%m-%d}&to={NOW:%Y-%m-%d}&tz=UTC"


def card(page: Any) -> Any:
    return page.locator(".changes-card")


def test_it_is_busy_until_it_is_drawn(site: SampleServer, changed: str, open_page: OpenPage) -> None:
    """It moves what is below it, also while the module that draws it is on its way."""
    page = site.log_in(open_page())
    held: list[Any] = []
    page.route("**/changes_card.js", lambda route: held.append(route))
    page.goto(changed)
    expect(page.locator(".figure")).to_have_count(7)
    expect(page.locator("[aria-busy=true]")).to_have_count(1)
    expect(card(page)).to_have_attribute("aria-busy", "true")
    held[0].continue_()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    expect(card(page).locator("li")).to_have_count(2)


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_sentences_with_links_that_filter(
    site: SampleServer, changed: str, open_page: OpenPage, size: tuple[int, int]
) -> None:
    """By keyboard: a value is one filter, what explains it another one beside."""
    page = site.log_in(open_page(viewport=dict(zip(("width", "height"), size, strict=True))))
    page.goto(changed)
    rows = card(page).locator("li")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("Paid search: 90 to 41, most of it from German")
    expect(rows.first).to_contain_text("54.4%")
    expect(rows.nth(1)).to_contain_text("Desktop: 90 to 41")
    expect(card(page)).to_contain_text(f"{NOW:%b} {NOW.day}")
    assert not violations_in_each_scheme(page)
    rows.first.locator("a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".chips")).to_contain_text("Paid search")
    assert query_of(page)["filter_channel"] == "Paid search"
    page.go_back()
    rows.first.locator("a").nth(1).click()
    expect(page.locator(".chips")).to_contain_text("German")
    query = query_of(page)
    assert (query["filter_channel"], query["filter_language"]) == ("Paid search", "de-DE")


@pytest.mark.parametrize("locale", WORDS)
def test_sentences_in_each_language(site: SampleServer, changed: str, open_page: OpenPage, locale: str) -> None:
    page = site.log_in(open_page(locale=locale))
    page.goto(changed)
    expect(card(page).locator("li").first).to_contain_text(WORDS[locale])


def test_nothing_moved_too_few_and_nothing_compared(site: SampleServer, changed: str, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{changed}&compare=custom&compare_from={NOW:%Y-%m-%d}&compare_to={NOW:%Y-%m-%d}")
    expect(card(page)).to_contain_text("Nothing moved by more than chance explains")
    page.goto(f"{changed}&compare=custom&compare_from=2020-01-01&compare_to=2020-01-01")
    expect(card(page)).to_contain_text("There is nothing to compare")
    page.goto(f"{changed}&compare=off")
    expect(page.locator(".figure")).to_have_count(7)
    expect(page.locator(".card-pages .bar").first).to_be_visible()
    expect(card(page)).to_be_hidden()
    loaded = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    assert not [url for url in loaded if "changes" in url]


def test_a_shared_page_has_the_card(site: SampleServer, changed: str, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    answer = page.request.post(
        f"{site.url}/api/account/websites/{site.second}/share-links",
        data=LINK,
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    visitor = open_page()
    visitor.goto(f"{site.url}{answer.json()['data']['path']}?{changed.partition('?')[2]}")
    row = card(visitor).locator("li").first
    expect(row).to_contain_text("Paid search: 90 to 41")
    row.locator("a").first.click()
    expect(visitor.locator(".chips")).to_contain_text("Paid search")


def test_a_failure_is_said(site: SampleServer, changed: str, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    fail_and_recover(page, changed, re.compile(r"/changes\?"), "What changed cannot be shown.")
    expect(card(page).locator("li").first).to_contain_text("Paid search")


def test_goals_lists_funnels_and_journeys_are_compared(site: SampleServer, changed: str, open_page: OpenPage) -> None:
    """With both figures and ranges in a tooltip; on a page, the goals say what they count, and lead to its visits."""
    page = site.log_in(open_page())
    page.request.post(
        f"{site.url}/api/account/websites/{site.second}/goals",
        data={"name": "Home", "type": "page", "match": ["filter_pathname=/"]},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    page.goto(changed)
    expect(card(page).locator("li")).to_have_count(2)
    goal = page.locator(".goal")
    expect(goal.locator(".figure-change.bad")).to_contain_text("27.6%")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    goal.hover()
    expect(page.locator(".hint")).to_contain_text("170 conversions")
    expect(page.locator(".goals-about")).to_have_count(0)
    page.get_by_role("tab", name="Entry").click()
    expect(page.locator(".card-pages .bar").first).to_contain_text("27.6%")
    page.goto(f"{changed}&filter_pathname=/")
    expect(page.locator(".goals-about")).to_contain_text("Conversions on this page.")
    assert not violations_in_each_scheme(page)
    page.get_by_role("button", name="Visits that began here").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".goals-about")).to_have_count(0)
    assert query_of(page)["filter_entry_page"] == "/"
    address = changed.replace("?", "/funnels?") + "&step=pathname:/&step=pathname:/x"
    page.goto(address)
    expect(page.locator(".step-figures").first).to_contain_text("27.6%")
    page.locator(".step-figures").first.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    expect(page.locator(".hint")).to_contain_text("170 visits")
    page.goto(changed.replace("?", "/journeys?") + "&start=pathname:/")
    expect(page.locator(".journey-card .sum")).to_contain_text("27.6%")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert not violations_in_each_scheme(page)
