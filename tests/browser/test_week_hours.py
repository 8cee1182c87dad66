"""The card with the hours of the week on the dashboard in a real Chromium."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage, fail_and_recover
from tests.browser.history import SampleServer

ZONE = "Asia/Kolkata"
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
FROM, TO = TODAY - timedelta(days=20), TODAY - timedelta(days=1)
TITLES = {
    "en-GB": "Hours of the week",
    "de-DE": "Stunden der Woche",
    "fr-FR": "Heures de la semaine",
    "es-ES": "Horas de la semana",
}


def address(site: SampleServer, more: str = "") -> str:
    return f"{site.url}/websites/{site.website}?from={FROM:%Y-%m-%d}&to={TO:%Y-%m-%d}&tz={ZONE}{more}"


def card(page: Any) -> Any:
    return page.locator(".card-week")


def opened(page: Any, url: str) -> Any:
    """Return the card after scrolling down to it."""
    page.goto(url)
    expect(page.locator(".card-pages .bar").first).to_be_visible()
    card(page).scroll_into_view_if_needed()
    expect(card(page).locator(".week-cell")).to_have_count(7 * 24)
    return card(page)


def means_of(site: SampleServer, **filters: str) -> list[list[float]]:
    """Return the visitors of each hour and weekday, from Monday on, counted from single events."""
    zone = ZoneInfo(ZONE)
    first, last = (datetime(day.year, day.month, day.day, tzinfo=zone) for day in (FROM, TO + timedelta(days=1)))
    visitors: set[tuple[datetime, str]] = set()
    more = "".join(f"&filter_{field}={value}" for field, value in filters.items())
    cursor = ""
    while cursor is not None:
        page = site.ask(
            f"events?from={FROM:%Y-%m-%d}&to={TO:%Y-%m-%d}&tz={ZONE}&limit=1000{more}"
            + (f"&cursor={cursor}" if cursor else "")
        )
        for event in page["data"]:
            at = datetime.fromisoformat(event["timestamp"]).astimezone(zone)
            visitors.add((at.replace(minute=0, second=0, microsecond=0), event["visit"]))
        cursor = page["meta"]["next_cursor"]
    days = [0] * 7
    day = first
    while day < last:
        days[day.weekday()] += 1
        day += timedelta(days=1)
    counted = [[0] * 7 for _ in range(24)]
    for at, _ in visitors:
        counted[at.hour][at.weekday()] += 1
    return [[counted[hour][weekday] / days[weekday] for weekday in range(7)] for hour in range(24)]


@pytest.mark.parametrize("filters", [{}, {"country": "DE"}])
def test_each_cell_is_what_single_events_say(site: SampleServer, open_page: OpenPage, filters: dict[str, str]) -> None:
    """The visits of the sample are minutes long and each visitor has one, so that visitors are visits."""
    page = site.log_in(open_page())
    opened(page, address(site, "".join(f"&filter_{field}={value}" for field, value in filters.items())))
    card(page).locator("summary").focus()
    page.keyboard.press("Enter")
    rows = card(page).locator("tbody tr")
    expect(rows).to_have_count(24)
    shown = [[float(text) for text in row.locator("td").all_inner_texts()] for row in rows.all()]
    expected = means_of(site, **filters)
    assert sum(map(sum, expected)) > 3
    for mine, raw in zip(shown, expected, strict=True):
        assert mine == [pytest.approx(value, abs=0.05001) for value in raw]
    expect(card(page).locator("th[scope=col]").nth(1)).to_have_text("Mon")


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_it_loads_when_it_is_near(site: SampleServer, open_page: OpenPage, size: tuple[int, int]) -> None:
    page = site.log_in(open_page(viewport=dict(zip(("width", "height"), size, strict=True))))
    page.goto(address(site))
    expect(page.locator(".card-pages .bar").first).to_be_visible()
    loaded = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    assert not [url for url in loaded if "interval=hour" in url]
    opened(page, address(site))
    darkest = card(page).locator(".land-5").first
    darkest.hover()
    expect(page.locator(".hint")).to_contain_text(re.compile(r"visitors on average, \d+ on \d days"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not violations_in_each_scheme(page)


@pytest.mark.parametrize("locale", TITLES)
def test_in_each_language(site: SampleServer, open_page: OpenPage, locale: str) -> None:
    page = site.log_in(open_page(locale=locale))
    opened(page, address(site))
    expect(card(page).locator("h2")).to_have_text(TITLES[locale])


def test_days_a_goal_and_a_shared_page(site: SampleServer, open_page: OpenPage) -> None:
    """Less than a week has no such card; a range of years its last 52 weeks; a goal its conversions."""
    page = site.log_in(open_page())
    headers = {"Sec-Fetch-Site": "same-origin"}
    own = f"{site.url}/api/account/websites/{site.website}"
    goal = {"name": "Pricing", "type": "page", "match": ["filter_pathname=/pricing"]}
    saved = page.request.post(f"{own}/goals", data=goal, headers=headers).json()["data"]
    page.goto(f"{site.url}/websites/{site.website}?period=today")
    expect(page.locator(".card-pages")).to_be_visible()
    expect(card(page)).to_be_hidden()
    expect(opened(page, address(site, f"&goal={saved['id']}"))).to_contain_text("Conversions of each hour")
    first = TODAY - timedelta(days=1500)
    url = f"{site.url}/websites/{site.website}?from={first:%Y-%m-%d}&to={TO:%Y-%m-%d}&tz=UTC&compare=off"
    with page.expect_response(re.compile("interval=hour")) as answered:
        opened(page, url)
    assert len(answered.value.json()["data"]) == 52 * 7 * 24
    link = page.request.post(f"{own}/share-links", data={"name": "Readers"}, headers=headers).json()["data"]["path"]
    visitor = open_page()
    expect(opened(visitor, f"{site.url}{link}?period=30d")).to_contain_text("Visitors of each hour")


def test_a_failure_is_said(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(viewport={"width": 1280, "height": 4000}))
    fail_and_recover(page, address(site), re.compile(r"interval=hour"), "The hours of the week cannot be shown.")
    expect(card(page).locator(".week-cell")).to_have_count(7 * 24)
