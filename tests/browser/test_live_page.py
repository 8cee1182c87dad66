"""The page of what happens now, in a real Chromium: visitors of the last minutes and the events as they arrive."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import SIZES, ZONE, OpenPage, exported, fail_and_recover, query_of, range_query
from tests.browser.history import IMG, SampleServer

Shown = Callable[..., Any]
ROWS = 20


@pytest.fixture
def shown(site: SampleServer, open_page: OpenPage) -> Shown:
    """Return a function that opens the page and waits until it is loaded."""

    def show(query: str = "", website: str = "", **options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{website or site.website}/live?{query}")
        return loaded(page)

    return show


def loaded(page: Any) -> Any:
    expect(page.locator(".live-bars > span")).to_have_count(30)
    expect(page.locator(".card-events .card-body > *")).to_have_count(1)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def send_now(site: SampleServer, website: str, path: str, visitor: str, **more: Any) -> None:
    url = f"https://example.com{path}"
    site.send(website, {"type": "pageview", "url": url, "session_id": f"visitor-{visitor}", **more})


def rows(page: Any, field: str) -> list[tuple[str, str]]:
    return [
        (one.get_attribute("data-key").partition("=")[2], one.locator(".bar-count").inner_text().split()[0])
        for one in page.locator(f".card-now-{field} .bar").all()
    ]


# --- now


def test_visitors_of_the_last_minutes_and_where_they_are(site: SampleServer, shown: Shown) -> None:
    for visitor, path in (("a", "/now"), ("b", "/now"), ("c", "/then")):
        send_now(site, site.second, path, f"{visitor}-live", referrer="https://news.example/")
    page = shown(website=site.second)
    expect(page.locator(".live-count strong")).to_have_text("3")
    assert rows(page, "pathname") == [("/now", "2"), ("/then", "1")]
    assert rows(page, "referrer") == [("news.example", "3")]
    expect(page.locator(".card-now-country")).to_contain_text("Nobody in the last minutes")
    page.get_by_text("Table of this chart").click()
    table = page.locator(".series-table tbody tr")
    expect(table).to_have_count(30)
    figures = [[int(cell) for cell in row.locator("td").all_inner_texts()] for row in table.all()]
    assert [sum(column) for column in zip(*figures, strict=True)] == [3, 3, 0]


def test_filters_apply_to_all_of_it(site: SampleServer, shown: Shown) -> None:
    send_now(site, site.second, "/filtered", "d-live")
    page = shown(website=site.second)
    page.locator(".card-now-pathname .bar", has_text="/filtered").click()
    expect(page.locator(".chip")).to_contain_text("/filtered")
    loaded(page)
    expect(page.locator(".live-count strong")).to_have_text("1")
    assert rows(page, "pathname") == [("/filtered", "1")]
    expect(page.locator(".events-table tbody tr")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".chip")).to_have_count(0)
    expect(page.locator(".live-count strong")).not_to_have_text("1")


def test_events_arrive_without_a_reload_until_it_is_paused(site: SampleServer, shown: Shown) -> None:
    """The focus stays on its value. Paused, nothing changes; afterwards all that has arrived is there."""
    page = shown("period=today", website=site.second)
    send_now(site, site.second, "/first", "e-live")
    first = page.locator(".events-table tbody tr").first
    expect(first).to_contain_text("/first")
    first.get_by_role("button", name="/first").focus()
    send_now(site, site.second, "/next", "f-live")
    expect(first).to_contain_text("/next")
    expect(first).to_have_class("arrived")
    expect(page.get_by_role("button", name="/first", exact=True).locator("visible=true").last).to_be_focused()
    pause = page.get_by_role("button", name="Pause")
    pause.focus()
    page.keyboard.press("Enter")
    expect(pause).to_have_attribute("aria-pressed", "true")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    send_now(site, site.second, "/later", "g-live")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert [url for url in asked if "/api/" in url] == []
    expect(first).to_contain_text("/next")
    page.keyboard.press("Enter")
    expect(first).to_contain_text("/later")


# --- events


def test_events_page_by_page(site: SampleServer, shown: Shown) -> None:
    page = shown("period=30d")
    expect(page.locator(".events-table tbody tr")).to_have_count(ROWS)
    page.get_by_role("button", name="Older events").click()
    expect(page.locator(".events-table tbody tr")).to_have_count(2 * ROWS)
    times = [one.get_attribute("datetime") for one in page.locator(".events-table time").all()]
    assert times == [event["timestamp"] for event in site.ask(f"events?limit={2 * ROWS}&{range_query(30)}")["data"]]
    assert page.locator("img[src=x]").count() == 0
    assert IMG in page.locator("main").inner_text()
    assert page.evaluate("window.broken") is None


def test_measurements_are_shown_when_selected(site: SampleServer, shown: Shown) -> None:
    """The address of before, on the dashboard, leads here."""
    vitals = {"type": "vitals", "url": "https://example.com/measured", "vitals": {"lcp": 1800}}
    site.send(site.website, vitals)
    page = shown("period=30d")
    card = page.locator(".card-events")
    expect(card.locator("tbody tr")).to_have_count(ROWS)
    assert "/measured" not in card.inner_text()
    [link] = exported(page)
    assert "filter_type=app_event" in link
    assert page.request.get(link).headers["content-type"].startswith("text/csv")
    page.keyboard.press("Escape")
    card.get_by_role("button", name="All types").click()
    expect(card.locator("tbody tr").first).to_contain_text("/measured")
    assert query_of(page)["recent"] == "all"
    page.goto(f"{site.url}/websites/{site.website}?period=30d&recent=all")
    page.wait_for_url("**/live?**")
    expect(card.locator("tbody tr").first).to_contain_text("/measured")
    assert query_of(page) == {"period": "30d", "tz": ZONE, "recent": "all"}
    page.goto(f"{site.url}/websites/{site.website}/live?period=30d&filter_type=vitals")
    expect(card.locator("tbody tr")).to_have_count(1)
    expect(card.get_by_role("button", name="All types")).to_have_count(0)


@pytest.mark.parametrize(
    ("part", "words"),
    [("events", "The events cannot be shown."), ("realtime|top|timeseries", "Visitors now cannot be shown.")],
)
def test_a_failed_request_shows_an_error_and_can_be_retried(
    site: SampleServer, open_page: OpenPage, part: str, words: str
) -> None:
    page = site.log_in(open_page())
    address = f"{site.url}/websites/{site.website}/live"
    fail_and_recover(page, address, re.compile(rf"/api/account/websites/[^/]+/({part})(\?|$)"), words)
    loaded(page)


def test_the_error_for_expired_events_is_the_servers_message(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    words = "The raw events before 2026-11-01T00:00:00.000+00:00 have expired."
    body = {"ok": False, "error": {"code": "beyond_retention", "message": words, "field": "from"}}
    page.route(re.compile(r"/events\?"), lambda route: route.fulfill(status=400, json=body))
    page.goto(f"{site.url}/websites/{site.website}/live")
    expect(page.locator(".card-events .notice")).to_contain_text(words)
    page.problems.discard("status of 400")


def test_a_website_without_events(site: SampleServer, shown: Shown) -> None:
    page = shown(website=site.empty)
    expect(page.locator(".live-count strong")).to_have_text("0")
    expect(page.locator(".card-events")).to_contain_text("No events in this range")


# --- where it is


def test_from_the_menu_the_dashboard_and_the_search(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.website}?period=30d&filter_country=DE")
    expect(page.locator(".card-events, .card-live")).to_have_count(0)
    badge = page.locator("a.live")
    expect(badge).to_be_visible()
    badge.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/live?**")
    assert query_of(page)["filter_country"] == "DE"
    expect(page.locator("[aria-current=page]").last).to_have_text("Live")
    page.goto(f"{site.url}/websites/{site.website}")
    expect(page.locator(".figure").first).to_be_visible()
    page.keyboard.press("Control+k")
    page.locator(".palette-input").fill("live")
    page.keyboard.press("Enter")
    page.wait_for_url("**/live?**")


def test_a_share_link_shows_it_below_its_lists(site: SampleServer, open_page: OpenPage) -> None:
    owner = site.log_in(open_page())
    answer = owner.request.post(
        f"{site.url}/api/account/websites/{site.second}/share-links",
        data={"name": f"live {time.time()}", "hide_events": False},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    send_now(site, site.second, "/shared", "h-live")
    guest = open_page(site.url + answer.json()["data"]["path"])
    expect(guest.locator(".figure")).to_have_count(7)
    guest.locator("a.live").click()
    expect(guest.locator("#live")).to_be_visible()
    loaded(guest)
    expect(guest.locator(".events-table tbody tr").first).to_contain_text("/shared")
    expect(guest.get_by_role("button", name="All types")).to_have_count(0)


# --- accessibility and languages


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("locale", "words"),
    [
        ("en-GB", ["Live", "Pages now", "Pause"]),
        ("de-DE", ["Live", "Seiten jetzt", "Anhalten"]),
        ("fr-FR", ["En direct", "Pages en ce moment", "Suspendre"]),
        ("es-ES", ["En directo", "Páginas ahora", "Pausar"]),
    ],
)
def test_accessible(site: SampleServer, shown: Shown, size: str, locale: str, words: list[str]) -> None:
    """axe-core finds no violations and the page does not scroll sideways, in both color schemes and both sizes."""
    send_now(site, site.second, "/seen", f"i-{locale}", referrer="https://news.example/")
    page = shown(website=site.second, viewport=SIZES[size], locale=locale)
    for text in words:
        expect(page.get_by_role("main")).to_contain_text(text)
    page.locator(".series-table summary").click()
    assert violations_in_each_scheme(page) == []
