"""Periods, intervals and comparisons on the dashboard, and the time zone and weeks of a website's settings."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.browser.browsers import OpenPage, query_of
from tests.browser.history import SampleServer
from tests.support.page_client import LINK
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


# How much of the chart is drawn half way from the last day that is over to today.
BEFORE_TODAY = """() => {
  const over = document.querySelector(".u-over"), canvas = document.querySelector(".chart canvas");
  const buckets = Number(document.querySelector(".chart").getAttribute("aria-valuemax"));
  const x = over.offsetLeft + over.offsetWidth * (buckets - 1.5) / (buckets - 1);
  const [left, height] = [Math.round(x * devicePixelRatio), over.offsetHeight * devicePixelRatio];
  const column = canvas.getContext("2d").getImageData(left, over.offsetTop * devicePixelRatio, 1, height).data;
  return column.filter((_, i) => i % 4 === 3 && column[i]).length / height;
}"""


def afternoon() -> str:
    """Return a zone in which it is noon or later, and less than one."""
    hour = datetime.now(UTC).hour
    return f"Etc/GMT{hour - 12:+}" if hour != 12 else "UTC"


def projection(site: SampleServer, tz: str, figure: str) -> set[str]:
    """Return today's count by the usual share of the day, in two digits, now and a minute ago."""
    now = datetime.now(ZoneInfo(tz))
    days = f"from={now.date() - timedelta(days=7)}&to={now.date() - timedelta(days=1)}"
    hours = site.ask(f"timeseries?{days}&interval=hour&tz={quote(tz)}")["data"]
    count = site.ask(f"stats?period=today&tz={quote(tz)}")["data"][figure]
    assert count >= 20
    found = set()
    for at in (now, now - timedelta(minutes=1)):
        passed = dict.fromkeys(range(at.hour), 1.0) | {at.hour: at.minute / 60}
        usual = sum(row[figure] * passed.get(int(row["time"][11:13]), 0) for row in hours)
        likely = count * sum(row[figure] for row in hours) / usual
        found.add(f"about {int(float(f'{likely:.2g}')):,} by its end")
    return found


def test_today_is_drawn_apart_and_projected(site: SampleServer, open_page: OpenPage) -> None:
    """By the usual share of the day, marked; without enough counted, today is a point alone."""
    tz = afternoon()
    site.send(site.website, *({"type": "pageview", "url": f"https://example.com/{n}"} for n in range(30)))
    page = opened(site, open_page, f"period=7d&tz={quote(tz)}&compare=off&figure=pageviews")
    expect(page.locator(".legend-item")).to_have_text([re.compile("Pageviews"), "Projected"])
    page.get_by_role("slider").focus()
    page.keyboard.press("End")
    words = page.locator(".chart-tip").inner_text()
    assert "so far" in words
    assert any(one in words for one in projection(site, tz, "pageviews")), words
    assert "by its end" in page.get_by_role("slider").get_attribute("aria-valuetext")
    assert page.evaluate(BEFORE_TODAY) > 0.2
    page.get_by_text("Table of this chart").click()
    expect(page.locator(".series-table tbody th").last).to_contain_text("so far")
    assert violations(page) == []
    # All of them by one visitor.
    page.locator("[data-figure=visitors]").click()
    expect(page.locator(".legend-item")).to_have_count(1)
    until(lambda: page.evaluate(BEFORE_TODAY) < 0.1)
    # Days that are over are a line.
    page.get_by_role("button", name="Previous range").click()
    page.wait_for_url("**from=**")
    loaded(page)
    until(lambda: page.evaluate(BEFORE_TODAY) > 0.2)


def test_a_new_website_opens_with_today(site: SampleServer, open_page: OpenPage) -> None:
    """Until it has two days, on all its pages; a period of the address stays."""
    site.send(site.empty, {"type": "pageview", "url": "https://empty.example/"})
    page = site.log_in(open_page(timezone_id="UTC"))
    for part, query, period in (("", "", "today"), ("/events", "", "today"), ("", "?period=7d", "7d")):
        page.goto(f"{site.url}/websites/{site.empty}{part}{query}")
        expect(page.locator(".dash-range .segment[aria-pressed=true]")).to_have_text(
            {"today": "Today", "7d": "7 d"}[period]
        )
        assert query_of(page)["period"] == period
    page.goto(f"{site.url}/websites/{site.website}")
    page.wait_for_url("**period=7d**")


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


def compare(page: Any, words: str) -> None:
    page.locator(".when-days").click()
    dialog = page.get_by_role("dialog", name="Choose a range")
    dialog.get_by_role("group", name="Compare with").get_by_role("button", name=words, exact=True).click()


def test_comparisons(site: SampleServer, open_page: OpenPage) -> None:
    last = date.today() - timedelta(days=1)
    days = f"from={last - timedelta(days=9)}&to={last}"
    page = opened(site, open_page, days)
    assert shown_series(page) == series(site, f"{days}&compare=previous")

    compare(page, "Previous period, same weekdays")
    page.wait_for_url("**match_weekday=true**")
    loaded(page)
    before = site.ask(f"stats?{days}&compare=previous&match_weekday=true")
    assert shown_series(page) == series(site, f"{days}&compare=previous&match_weekday=true")
    assert before["meta"]["previous_from"][:10] == f"{last - timedelta(days=23)}"
    page.locator("[data-figure=visitors]").hover()
    expect(page.locator(".hint")).to_contain_text(f"{before['data']['previous']['visitors']:,} in ")

    compare(page, "Year before")
    page.wait_for_url("**compare=year**")
    loaded(page)
    # The tooltip has both dates, with their years.
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    first = last - timedelta(days=9)
    expect(page.locator(".chart-tip-when")).to_contain_text(str(first.year))
    expect(page.locator(".chart-tip")).to_contain_text(str(first.year - 1))

    compare(page, "No comparison")
    page.wait_for_url("**compare=off**")
    loaded(page)
    expect(page.locator(".legend .before")).to_have_count(0)
    assert shown_series(page) == series(site, days)
    expect(page.locator(".figure-change", has_text="%")).to_have_count(0)

    compare(page, "Custom range…")
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


@pytest.mark.parametrize("width", [390, 1280])
def test_the_range_and_its_comparison_are_one_dialog(site: SampleServer, open_page: OpenPage, width: int) -> None:
    page = site.log_in(open_page(timezone_id="UTC", viewport={"width": width, "height": 900}))
    loaded_modules: list[str] = []
    page.on("request", lambda request: loaded_modules.append(request.url))
    page.goto(f"{site.url}/websites/{site.website}?period=7d")
    loaded(page)
    assert not any("range_dialog" in url for url in loaded_modules)
    opener = page.locator(".when-days")
    expect(opener).to_contain_text("vs.")
    expect(page.locator(".dash-head select")).to_have_count(0)

    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Choose a range")
    group = dialog.get_by_role("group", name="Compare with")
    expect(group.get_by_role("button", pressed=True)).to_have_text("Previous period")
    assert violations(page) == []
    assert dialog.evaluate("one => one.scrollWidth <= one.clientWidth")
    tab_to(page, "Year before")
    page.keyboard.press("Enter")
    page.wait_for_url("**compare=year**")
    expect(dialog).to_have_count(0)
    # The focus is back on the button, which has been drawn again.
    expect(opener).to_be_focused()
    year = date.today().year
    expect(opener).to_contain_text(str(year - 1))

    page.keyboard.press("Enter")
    tab_to(page, "Custom range…")
    page.keyboard.press("Enter")
    other = page.get_by_role("dialog", name="Compare with")
    other.get_by_label("First day").fill("2026-01-05")
    other.get_by_label("Last day").fill("2026-01-04")
    page.keyboard.press("Enter")
    expect(other.get_by_role("alert")).to_have_text("The first day must not be after the last day.")
    other.get_by_label("Last day").fill("2026-01-06")
    page.keyboard.press("Enter")
    page.wait_for_url("**compare=custom&compare_from=2026-01-05&compare_to=2026-01-06**")
    opener.click()
    # The days that are compared with stand in place of "Custom range…".
    expect(group.get_by_role("button", pressed=True)).to_contain_text("2026")
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()

    page.goto(f"{site.url}/websites/{site.website}?period=all")
    loaded(page)
    expect(opener).not_to_contain_text("vs.")
    opener.click()
    expect(dialog).to_be_visible()
    expect(group).to_have_count(0)


def tab_to(page: Any, words: str) -> None:
    for _ in range(60):
        if page.evaluate("document.activeElement.textContent") == words:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {words}")


def test_time_zone_and_weeks_of_the_settings(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page, "period=30d")
    page.goto(f"{site.url}/websites/{site.website}/settings")
    page.get_by_label("Time zone").select_option("Asia/Tokyo")
    page.get_by_label("Weeks begin on").select_option(label="Sunday")
    page.get_by_label("Currency").fill("e1r")
    save = page.get_by_role("button", name="Save settings")
    save.click()
    expect(page.get_by_text("currency must be a code of ISO 4217")).to_be_visible()
    page.problems.discard("status of 400")
    page.get_by_label("Currency").fill("eur")
    save.click()
    expect(page.get_by_text("Settings saved.")).to_be_visible()
    expect(page.get_by_label("Currency")).to_have_value("EUR")
    assert violations(page) == []
    # A new goal begins with that currency.
    page.get_by_role("link", name="Goals").click()
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
        f"{site.url}/api/account/websites/{site.website}/share-links",
        data=LINK,
        headers={"Sec-Fetch-Site": "same-origin"},
    ).json()["data"]["path"]
    page.goto(f"{site.url}{link}")
    loaded(page)
    assert query_of(page)["tz"] == "Asia/Tokyo"
