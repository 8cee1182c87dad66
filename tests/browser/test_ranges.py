"""Periods, intervals and comparisons on the dashboard, and the time zone and weeks of a website's settings."""

import re
from datetime import date, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.browser.browsers import OpenPage, query_of
from tests.browser.history import SampleServer
from tests.support.process import until


def loaded(page: Any) -> Any:
    expect(page.locator(".figure").first).to_be_visible()
    expect(page.locator(".legend-item").first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def opened(site: SampleServer, open_page: OpenPage, query: str, **options: Any) -> Any:
    page = site.log_in(open_page(timezone_id="UTC", **options))
    page.goto(f"{site.url}/websites/{site.website}?{query}")
    return loaded(page)


def shown_series(page: Any) -> list[tuple[int, int | None]]:
    """Return the visitors of each row of the table behind the chart, now and before."""
    if page.locator(".series-table[open]").count() == 0:
        page.get_by_text("Table of this chart").click()
    # The rows are made after the table was opened.
    expect(page.locator(".series-table tbody tr").first).to_be_visible()
    # In one call: a day has 1,440 rows.
    cells = "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.innerText))"
    rows = page.locator(".series-table tbody tr").evaluate_all(cells)
    whole = [[cell.replace(",", "") for cell in row] for row in rows]
    return [(int(row[0]), int(row[5]) if len(row) > 5 and row[5] != "–" else None) for row in whole]


def series(site: SampleServer, query: str) -> list[tuple[int, int | None]]:
    rows = site.ask(f"timeseries?{query}")["data"]
    return [(row["visitors"], row["previous"]["visitors"] if row.get("previous") else None) for row in rows]


@pytest.mark.parametrize("period", ["yesterday", "28d", "month", "year", "6mo", "12mo", "all"])
def test_every_period_shows_the_days_of_the_api(site: SampleServer, open_page: OpenPage, period: str) -> None:
    page = opened(site, open_page, f"period={period}")
    expect(page.locator("[data-figure=visitors]")).to_have_attribute(
        "data-value", str(site.ask(f"stats?period={period}")["data"]["visitors"])
    )
    assert query_of(page)["period"] == period


def test_a_period_is_chosen_in_the_dialog(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page, "period=7d", viewport={"width": 390, "height": 844})
    page.get_by_role("button", name="More", exact=True).click()
    dialog = page.get_by_role("dialog", name="Choose a range")
    expect(dialog.get_by_role("button", name="The last 7 days")).to_have_attribute("aria-pressed", "true")
    expect(dialog).to_contain_text("Days in the time zone UTC.")
    assert violations(page) == []
    dialog.get_by_role("button", name="This month").click()
    expect(page.locator(".dash-range .segment[aria-pressed=true]")).to_have_text("Month")
    # One month back and to this one again.
    page.get_by_role("button", name="Previous range").click()
    page.wait_for_url("**from=*")
    last = date.today().replace(day=1) - timedelta(days=1)
    assert (query_of(page)["from"], query_of(page)["to"]) == (f"{last.replace(day=1)}", f"{last}")
    page.get_by_role("button", name="Next range").click()
    page.wait_for_url("**period=month**")
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_minutes_of_a_day(site: SampleServer, open_page: OpenPage) -> None:
    day = f"from={date.today() - timedelta(days=1)}&to={date.today() - timedelta(days=1)}"
    page = opened(site, open_page, day)
    page.get_by_label("Interval").select_option("minute")
    page.wait_for_url("**interval=minute**")
    loaded(page)
    assert shown_series(page) == series(site, f"{day}&interval=minute&compare=previous")
    page.get_by_role("button", name="7 d").click()
    expect(page.get_by_label("Interval").locator("[value=minute]")).to_be_disabled()


# The pixels of the chart that are drawn on a line just above its x axis.
FOOT = """() => {
  const over = document.querySelector(".u-over"), canvas = document.querySelector(".chart canvas");
  const y = (over.offsetTop + over.offsetHeight - 4) * devicePixelRatio;
  const line = canvas.getContext("2d").getImageData(0, y, canvas.width, 1).data;
  return line.filter((_, i) => i % 4 === 3 && line[i]).length / devicePixelRatio;
}"""


def test_one_day_is_drawn_as_bars(site: SampleServer, open_page: OpenPage) -> None:
    """With a single bucket, which is no line, too."""
    day = f"from={date.today() - timedelta(days=1)}&to={date.today() - timedelta(days=1)}&compare=off"
    page = opened(site, open_page, f"{day}&interval=day")
    wide = page.evaluate(FOOT)
    assert 40 < wide < 60
    page.get_by_label("Interval").select_option("hour")
    page.wait_for_url("**interval=hour**")
    loaded(page)
    hours = sum(row["visitors"] > 0 for row in site.ask(f"timeseries?{day[:-12]}&interval=hour&tz=UTC")["data"])
    assert hours
    slot = page.locator(".u-over").bounding_box()["width"] / 24
    until(lambda: 0.6 * slot * hours < page.evaluate(FOOT) < 0.8 * slot * hours)


@pytest.mark.parametrize("interval", ["week", "month"])
def test_weeks_and_months(site: SampleServer, open_page: OpenPage, interval: str) -> None:
    last = date.today() - timedelta(days=1)
    days = f"from={last - timedelta(days=59)}&to={last}"
    page = opened(site, open_page, days)
    page.get_by_label("Interval").select_option(interval)
    page.wait_for_url(f"**interval={interval}**")
    loaded(page)
    assert shown_series(page) == series(site, f"{days}&interval={interval}&compare=previous")
    # The first bucket has the days of the range alone.
    first = page.locator(".series-table tbody th").first.inner_text()
    assert str((last - timedelta(days=59)).day) in re.findall(r"\d+", first) or interval == "month"
    assert violations(page) == []


def test_comparisons(site: SampleServer, open_page: OpenPage) -> None:
    last = date.today() - timedelta(days=1)
    days = f"from={last - timedelta(days=9)}&to={last}"
    page = opened(site, open_page, days)
    choice = page.get_by_label("Comparison")
    assert shown_series(page) == series(site, f"{days}&compare=previous")

    choice.select_option(label="Previous period, same weekdays")
    page.wait_for_url("**match_weekday=true**")
    loaded(page)
    before = site.ask(f"stats?{days}&compare=previous&match_weekday=true")
    assert shown_series(page) == series(site, f"{days}&compare=previous&match_weekday=true")
    assert before["meta"]["previous_from"][:10] == f"{last - timedelta(days=23)}"
    page.locator("[data-figure=visitors]").hover()
    expect(page.locator(".hint")).to_contain_text(f"{before['data']['previous']['visitors']:,} in ")

    choice.select_option(label="Year before")
    page.wait_for_url("**compare=year**")
    loaded(page)
    # The tooltip has both dates, with their years.
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    first = last - timedelta(days=9)
    expect(page.locator(".chart-tip-when")).to_contain_text(str(first.year))
    expect(page.locator(".chart-tip")).to_contain_text(str(first.year - 1))

    choice.select_option(label="No comparison")
    page.wait_for_url("**compare=off**")
    loaded(page)
    expect(page.locator(".legend .before")).to_have_count(0)
    assert shown_series(page) == series(site, days)
    expect(page.locator(".figure-change", has_text="%")).to_have_count(0)

    choice.select_option(label="Custom range…")
    dialog = page.get_by_role("dialog", name="Compare with")
    other = last - timedelta(days=40)
    dialog.get_by_label("First day").fill(f"{other}")
    dialog.get_by_label("Last day").fill(f"{other + timedelta(days=4)}")
    dialog.get_by_role("button", name="Compare").click()
    page.wait_for_url("**compare=custom**")
    loaded(page)
    custom = f"compare=custom&compare_from={other}&compare_to={other + timedelta(days=4)}"
    assert shown_series(page) == series(site, f"{days}&{custom}")
    assert violations(page) == []
    # It stays on other pages of the website.
    page.get_by_role("link", name="Events", exact=True).click()
    page.wait_for_url("**/events?**")
    assert query_of(page)["compare_from"] == f"{other}"


def test_time_zone_and_weeks_of_the_settings(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page, "period=30d")
    page.goto(f"{site.url}/websites/{site.website}#settings")
    page.get_by_label("Time zone").select_option("Asia/Tokyo")
    page.get_by_label("Weeks begin on").select_option(label="Sunday")
    page.get_by_label("Currency").fill("e1r")
    save = page.get_by_role("button", name="Save time and currency")
    save.click()
    expect(page.get_by_text("currency must be a code of ISO 4217")).to_be_visible()
    page.problems.discard("status of 400")
    page.get_by_label("Currency").fill("eur")
    save.click()
    expect(page.get_by_text("Time zone, weeks and currency saved.")).to_be_visible()
    expect(page.get_by_label("Currency")).to_have_value("EUR")
    assert violations(page) == []
    # A new goal begins with that currency.
    page.get_by_role("button", name="Add goal").click()
    expect(page.get_by_role("dialog").get_by_label("Currency")).to_have_value("EUR")

    page.goto(f"{site.url}/websites/{site.website}?period=30d&interval=week")
    loaded(page)
    assert query_of(page)["tz"] == "Asia/Tokyo"
    # The header has no time zone to choose: it is in the title of the days.
    expect(page.get_by_label("Time zone")).to_have_count(0)
    expect(page.locator(".when-days")).to_have_attribute("title", "Days in the time zone Asia/Tokyo")
    answer = site.ask("timeseries?period=30d&interval=week")
    assert (answer["meta"]["tz"], answer["meta"]["week_start"]) == ("Asia/Tokyo", "sunday")
    assert [now for now, _ in shown_series(page)] == [row["visitors"] for row in answer["data"]]
    link = page.request.post(
        f"{site.url}/api/account/websites/{site.website}/share", data={}, headers={"Sec-Fetch-Site": "same-origin"}
    ).json()["data"]["share"]
    page.goto(f"{site.url}{link}")
    loaded(page)
    assert query_of(page)["tz"] == "Asia/Tokyo"
