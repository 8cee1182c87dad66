"""The dashboard of a website in a real Chromium: its figures are those of the read API, its state is in the address.

Tests wait for conditions. Figures are compared with those of the API for the same days and zone.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import (
    TIMEOUT_MS,
    ZONE,
    OpenPage,
    fail_and_recover,
    is_printed_in_colour,
    query_of,
    range_query,
    show_as_printed,
)
from tests.browser.history import IMG, SampleServer
from tests.support.process import until

FIELDS = {
    "pages": ("pathname",),
    "sources": ("referrer", "utm_source", "utm_medium", "utm_campaign"),
    "places": ("country", "language"),
    "browsers": ("browser", "os", "os_version", "device"),
    "apps": ("hostname", "platform", "app_version"),
}
DAYS = {"today": 1, "7d": 7, "30d": 30}
Dashboard = Callable[..., Any]


@pytest.fixture
def dashboard(site: SampleServer, open_page: OpenPage) -> Dashboard:
    """Return a function that opens the website's dashboard and waits until it is loaded."""

    def show(query: str = "", **options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{site.website}?{query}")
        return loaded(page)

    return show


def loaded(page: Any, number: int = 7) -> Any:
    """Return the page once it shows that number of figures and all responses have arrived."""
    expect(page.locator(".figure")).to_have_count(number)
    expect(page.locator("canvas")).to_have_count(1)
    expect(page.locator(".list-card .card-foot")).to_have_count(6)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def days(range_: str) -> tuple[str, str]:
    """Return the first and the last day of a range of the picker."""
    today = datetime.now(ZoneInfo(ZONE)).date()
    return f"{today - timedelta(days=DAYS[range_] - 1)}", f"{today}"


def figures(page: Any) -> dict[str, str]:
    return {one.get_attribute("data-figure"): one.get_attribute("data-value") for one in page.locator(".figure").all()}


def rows(page: Any, card: str) -> list[tuple[str, str]]:
    found = page.locator(f".card-{card} .bar").all()
    return [
        (one.get_attribute("data-key").partition("=")[2], one.locator(".bar-count").text_content()) for one in found
    ]


def shared_link(page: Any) -> str:
    """Create a share link of the website that shows single events, and return it."""
    page.get_by_role("button", name="Share", exact=True).click()
    page.get_by_role("button", name="Create link").click()
    page.get_by_label("Name", exact=True).fill("Readers")
    page.get_by_label("Show single events").check()
    page.get_by_role("button", name="Create link").click()
    return str(page.get_by_label("Address of Readers", exact=True).last.input_value())


# --- figures and lists


def test_key_figures_have_sparklines_of_the_series(site: SampleServer, dashboard: Dashboard) -> None:
    """From the series that the chart requests; screen readers have the table."""
    page = dashboard("period=7d&compare=off")
    series = site.ask(f"timeseries?{range_query(7)}")["data"]
    lines = page.locator("[aria-hidden=true].figure-spark")
    expect(lines.locator("polyline")).to_have_count(4)
    for name in ("visitors", "visits", "pageviews", "events"):
        done = page.locator(f"[data-figure={name}] polyline").evaluate("one => [...one.points].map(({ y }) => y)")
        # Today is not over.
        over = [row[name] for row in series[:-1]]
        assert done == pytest.approx([round(15 - count / max(1, *over) * 14, 1) for count in over], abs=0.06)
    sent = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    own = [url for url in sent if "/timeseries?" in url and "filter_" not in url and "interval=hour" not in url]
    assert len(own) == 1


@pytest.mark.parametrize("range_", DAYS)
def test_figures_are_those_of_the_read_api(site: SampleServer, dashboard: Dashboard, range_: str) -> None:
    page = dashboard(f"period={range_}")
    from_api = site.ask(f"stats?{range_query(DAYS[range_])}")["data"]
    expect(page.locator("[data-figure=visitors]")).to_have_attribute("data-value", str(from_api["visitors"]))
    shown = figures(page)
    # Where there were no visits, as just after midnight, some figures are null.
    assert {name: json.loads(value) for name, value in shown.items()} == from_api
    assert page.locator("[data-figure=visitors] .figure-value").inner_text() == f"{from_api['visitors']:,}"


# A browser under LANG=C, and one on a system without a known time zone, as their pages see them.
LANGUAGES = """
for (const [name, value] of [["language", LANGUAGE], ["languages", [LANGUAGE]]])
  Object.defineProperty(Navigator.prototype, name, { get: () => value });
"""
NO_ZONE = """
const resolved = Intl.DateTimeFormat.prototype.resolvedOptions;
Intl.DateTimeFormat.prototype.resolvedOptions = function () {
  return { ...resolved.call(this), timeZone: "Etc/Unknown" };
};
"""


@pytest.mark.parametrize("language", ["C", "de_DE.UTF-8"])
def test_the_pages_open_where_language_and_zone_of_the_browser_are_invalid(
    site: SampleServer, open_page: OpenPage, language: str
) -> None:
    page = site.log_in(open_page())
    page.add_init_script(LANGUAGES.replace("LANGUAGE", json.dumps(language)) + NO_ZONE)
    page.goto(f"{site.url}/websites/{site.website}")
    loaded(page)
    assert query_of(page)["tz"] == "UTC"
    visitors = site.ask(f"stats?{range_query(zone='UTC')}")["data"]["visitors"]
    assert page.locator("[data-figure=visitors]").get_attribute("data-value") == str(visitors)
    number = page.evaluate("import('/assets/shared/formats.js').then((formats) => formats.number(12480))")
    assert number == ("12.480" if language.startswith("de") else "12,480")
    page.goto(f"{site.url}/websites/{site.website}/events")
    expect(page.locator("h1").first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def test_a_range_that_is_over_is_compared_with_the_one_before_as_the_api_does(
    site: SampleServer, dashboard: Dashboard
) -> None:
    today = datetime.now(ZoneInfo(ZONE)).date()
    first, last = today - timedelta(days=20), today - timedelta(days=13)
    page = dashboard(f"from={first}&to={last}&tz={ZONE}")
    change = site.ask(f"stats?from={first}&to={last}&tz={ZONE}&compare=previous")["data"]["change"]["visitors"]
    words = page.locator("[data-figure=visitors] .figure-change").inner_text()
    assert float(re.search(r"[\d.]+", words)[0]) == pytest.approx(abs(change), abs=0.5)  # type: ignore[index]
    assert ("↑" in words) is (change > 0)


def test_the_bounce_rate_changes_in_points(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard("period=30d")
    data = site.ask(f"stats?compare=previous&{range_query(30)}")["data"]
    points = data["bounce_rate"] - data["previous"]["bounce_rate"]
    assert round(points, 1) != round(data["change"]["bounce_rate"], 1)
    words = page.locator("[data-figure=bounce_rate] .figure-change > span:not(.visually-hidden)")
    assert "".join(words.all_text_contents()) == f"{'↑' if points > 0 else '↓'} {abs(points):.1f} points"


def test_rows_of_pages_and_hosts_have_a_link_to_them(dashboard: Dashboard) -> None:
    page = dashboard("period=30d")
    rows = page.locator(".card-pages .bars > li")
    row = rows.filter(has=page.locator(".bar-label", has_text=re.compile("^/pricing$")))
    link = row.get_by_role("link")
    expect(link).to_have_attribute("href", "https://example.com/pricing")
    expect(link).to_have_attribute("target", "_blank")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(link).to_have_attribute("aria-label", "Open /pricing in a new tab")
    # By keyboard right after its row, and seen then.
    row.get_by_role("button").focus()
    page.keyboard.press("Tab")
    expect(link).to_be_focused()
    expect(link).to_have_css("opacity", "1")
    page.locator(".card-sources").get_by_role("tab", name="Referrers").click()
    hosts = page.locator(".card-sources .bars > li")
    expect(hosts.filter(has_text="google.com").get_by_role("link")).to_have_attribute("href", "https://google.com/")
    expect(hosts.filter(has_text="Direct / None").get_by_role("link")).to_have_count(0)
    assert violations(page) == []
    page.get_by_role("button", name="All pages").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("link", name="Open /pricing in a new tab")).to_have_count(1)
    assert violations(page) == []


def test_key_figures_are_one_request(site: SampleServer, open_page: OpenPage) -> None:
    """Of a range that is not over, with as much of the one before; without it where its events have expired."""
    page = site.log_in(open_page())
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url) if "/stats?" in request.url else None)
    page.goto(f"{site.url}/websites/{site.website}?period=30d&tz={ZONE}")
    loaded(page)
    # A new website is asked for its first day.
    urls = [url for url in urls if "period=all" not in url]
    assert len(urls) == 1, urls
    assert "compare=previous" in urls[0]
    change = site.ask(f"stats?period=30d&tz={ZONE}&compare=previous")["data"]["change"]["pageviews"]
    words = page.locator("[data-figure=pageviews] .figure-change").inner_text()
    assert float(re.search(r"[\d.]+", words)[0]) == pytest.approx(abs(change), abs=0.5)  # type: ignore[index]

    expired = {"ok": False, "error": {"code": "beyond_retention", "message": "The raw events have expired."}}
    page.route(re.compile("/stats.*compare="), lambda route: route.fulfill(status=400, json=expired))
    page.reload()
    loaded(page)
    visitors = site.ask(f"stats?period=30d&tz={ZONE}")["data"]["visitors"]
    expect(page.locator("[data-figure=visitors]")).to_have_attribute("data-value", str(visitors))
    expect(page.locator("[data-figure=visitors] .figure-change")).to_have_text("\u00a0")
    page.problems.discard("status of 400")


def test_the_table_behind_the_chart_is_the_series(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard("period=7d")
    page.get_by_text("Table of this chart").click()
    from_api = site.ask(f"timeseries?{range_query(7)}")["data"]
    expect(page.locator(".series-table tbody tr")).to_have_count(7)
    shown = [
        [int(cell.inner_text()) for cell in row.locator("td").all()[:4]]
        for row in page.locator(".series-table tbody tr").all()
    ]
    assert shown == [[row[name] for name in ("visitors", "visits", "pageviews", "events")] for row in from_api]


@pytest.mark.parametrize("tab", range(max(map(len, FIELDS.values()))))
def test_lists_are_those_of_the_read_api(site: SampleServer, dashboard: Dashboard, tab: int) -> None:
    """One tab of each card at a time: the first, the second and so on, the last of cards with fewer."""
    shown = {card: fields[min(tab, len(fields) - 1)] for card, fields in FIELDS.items()}
    page = dashboard("period=30d&" + "&".join(f"tab_{card}={field}" for card, field in shown.items()))
    for card, field in shown.items():
        answer = site.ask(f"top/{field}?{range_query(30)}")
        from_api = [(row["value"], f"{row['visitors']:,} visitors") for row in answer["data"]]
        unset = answer["meta"]["unset"]["visitors"]
        if unset and len(from_api) < 10:
            from_api.append(("", f"{unset:,} visitors"))
        assert rows(page, card) == from_api, field


def shown_changes(answer: Any) -> list[tuple[str, str]]:
    """Return each value whose change is shown, with its arrow and percent."""
    both = [(row["value"], row["visitors"], row["previous"]["visitors"]) for row in answer["data"]]
    changes = [
        (value, Decimal(100 * (now - before)) / before) for value, now, before in both if before and now != before
    ]
    return [
        (value, f"{'↑' if change > 0 else '↓'} {abs(change).quantize(Decimal('0.1'), ROUND_HALF_UP)}%")
        for value, change in changes
    ]


def changes_of(page: Any, card: str) -> list[tuple[str, str]]:
    """Return each value with a change in a card, with the visible part of its text."""
    found = page.locator(f".card-{card} .bar", has=page.locator(".figure-change")).all()
    parts = [one.locator(".figure-change > span:not(.visually-hidden)").all_text_contents() for one in found]
    return [
        (one.get_attribute("data-key").partition("=")[2], "".join(texts))
        for one, texts in zip(found, parts, strict=True)
    ]


def test_rows_of_lists_have_the_change_of_their_visitors(site: SampleServer, dashboard: Dashboard) -> None:
    """Beside each count, in its tooltip, and in the table of all values, which is sorted by it with the keyboard."""
    page = dashboard("period=7d&tab_sources=referrer")
    answer = site.ask(f"top/pathname?compare=previous&{range_query(7)}")
    changes = shown_changes(answer)
    assert changes
    assert changes_of(page, "pages") == changes
    page.locator(".card-pages .bar").first.hover()
    before = f"{answer['data'][0]['previous']['visitors']:,} in "
    expect(page.locator(".hint")).to_contain_text(before)
    page.locator(".card-pages [data-key=all]").focus()
    page.keyboard.press("Enter")
    page.locator("dialog [data-key=sort-change]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog th[aria-sort]")).to_contain_text("Change")
    first = page.locator("dialog tbody tr").first.locator(".figure-change")
    expect(first).to_be_visible()
    assert violations_in_each_scheme(page) == []


def test_rows_have_no_change_where_nothing_is_compared(dashboard: Dashboard) -> None:
    page = dashboard("period=7d&compare=off")
    expect(page.locator(".bar")).not_to_have_count(0)
    expect(page.locator(".bar .figure-change")).to_have_count(0)


@pytest.mark.parametrize("tab", ["entry", "exit"])
def test_entry_and_exit_pages(site: SampleServer, dashboard: Dashboard, tab: str) -> None:
    page = dashboard(f"period=30d&tab_pages={tab}")
    answer = site.ask(f"{tab}-pages?{range_query(30)}")["data"]
    assert rows(page, "pages") == [(row["value"], f"{row['visits']:,} visits") for row in answer]
    expect(page.locator(".card-pages .columns")).to_have_text("Visits")
    all_visits = site.ask(f"stats?{range_query(30)}")["data"]["visits"]
    share = page.locator(".card-pages .bar-share").first.inner_text()
    assert float(share.rstrip("%")) == pytest.approx(100 * answer[0]["visits"] / all_visits, abs=0.051)
    page.locator(".card-pages .bar").first.hover()
    what = f"{answer[0]['visits']:,} visits {'began' if tab == 'entry' else 'ended'} here"
    rate = f"{answer[0]['bounce_rate']:.1f}".removesuffix(".0")
    expect(page.locator(".hint")).to_contain_text(f"{what} · bounce rate {rate}%")
    expect(page.locator(".hint")).to_contain_text(
        f"Click to filter by visits that {'begin' if tab == 'entry' else 'end'} on this page"
    )
    # A scroll hides it where its row moves.
    page.evaluate("dispatchEvent(new Event('scroll'))")
    expect(page.locator(".hint")).to_be_visible()
    page.evaluate("scrollBy(0, 200)")
    expect(page.locator(".hint", has_text=what)).to_have_count(0)
    page.locator(".card-pages").get_by_role("button", name=f"All {tab} pages").click()
    found = page.locator("dialog tbody tr")
    expect(found).to_have_count(len(site.ask(f"{tab}-pages?limit=1000&{range_query(30)}")["data"]))
    expect(found.first.locator("td").first).to_have_text(f"{answer[0]['visits']:,}")
    found.first.locator("button").click()
    expect(page.locator(".chip")).to_have_count(1)
    assert query_of(page)[f"filter_{tab}_page"] == answer[0]["value"]
    assert query_of(page)["tab_pages"] == tab
    # Those that saw the page, by where they began or ended.
    filtered = site.ask(f"{tab}-pages?{range_query(30)}&filter_{tab}_page={answer[0]['value']}")["data"]
    loaded(page)
    assert rows(page, "pages") == [(row["value"], f"{row['visits']:,} visits") for row in filtered]


def test_event_names_with_their_counts(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard("period=30d")
    [row] = site.ask(f"event-names?{range_query(30)}")["data"]
    bar = page.locator(".card-names .bar")
    assert rows(page, "names") == [(row["value"], f"{row['visitors']:,} visitors")]
    expect(bar.locator(".bar-aside")).to_have_text(f"{row['events']:,} events, ")
    bar.click()
    expect(page.locator(".chip")).to_have_count(1)
    assert query_of(page)["filter_event_name"] == row["value"]
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Field").select_option("event_name")
    expect(page.locator(".suggestions .bar")).to_contain_text(row["value"])


def test_all_values_of_a_list_are_in_a_dialog_with_a_search(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard("period=30d")
    everything = site.ask(f"top/pathname?limit=1000&{range_query(30)}")["data"]
    page.locator(".card-pages").get_by_role("button", name="All pages").click()
    found = page.locator("dialog tbody tr")
    expect(found).to_have_count(len(everything))
    page.keyboard.type("blog/1")
    expect(found).to_have_count(sum("blog/1" in row["value"] for row in everything))
    found.first.locator("button").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert query_of(page)["filter_pathname"].startswith("/blog/1")


def test_a_table_of_all_values_has_an_address(site: SampleServer, dashboard: Dashboard) -> None:
    """With its order; it opens again, closes by Back and Esc, and follows the range."""
    page = dashboard("period=30d")
    page.locator(".card-pages").get_by_role("button", name="All pages").click()
    dialog = page.get_by_role("dialog", name="Pages")
    dialog.get_by_role("button", name="Pageviews").click()
    page.wait_for_url("**all=pathname&sort=-pageviews")
    values = dialog.locator("tbody th").all_inner_texts()
    other = dashboard(urlsplit(page.url).query)
    expect(other.get_by_role("dialog").locator("tbody th")).to_have_text(values)
    expect(other.get_by_role("columnheader", name="Pageviews")).to_have_attribute("aria-sort", "descending")
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert "all" not in query_of(page)
    other.keyboard.press("Escape")
    expect(other.get_by_role("dialog")).to_have_count(0)
    other.wait_for_function("!location.search.includes('all=')")
    other.go_back()
    expect(other.get_by_role("dialog").locator("tbody th")).to_have_text(values)
    shared = page.context.new_page()
    shared.goto(f"{shared_link(page).partition('?')[0]}?all=country")
    expect(shared.get_by_role("dialog", name="Countries").locator("tbody tr").first).to_be_visible()


def test_rows_with_a_link_are_as_high_as_others(dashboard: Dashboard) -> None:
    page = dashboard("all=pathname", viewport={"width": 375, "height": 812})
    # As wide as the name column is, less the space of its padding.
    rows = page.get_by_role("dialog").locator("tbody tr")
    expect(rows.locator(".page-link").first).to_be_attached()
    fill_line = """(row) => { const [name] = row.getElementsByTagName("button");
      const { width } = row.querySelector("th").getBoundingClientRect();
      name.firstChild.textContent = "";
      while (name.getBoundingClientRect().height < 25) name.firstChild.textContent += "i";
      name.firstChild.textContent = name.firstChild.textContent.slice(1);
      return row.getBoundingClientRect().height; }"""
    assert rows.first.evaluate(fill_line) < 40


@pytest.mark.parametrize("width", [390, 1280])
def test_one_menu_exports_the_chart_the_cards_and_every_list(dashboard: Dashboard, width: int) -> None:
    page = dashboard("period=30d&filter_country=DE", viewport={"width": width, "height": 900})
    expect(page.locator("a[download]")).to_have_count(0)
    button = page.get_by_role("button", name="Export")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Export as CSV")
    expect(dialog).to_be_visible()
    assert violations_in_each_scheme(page) == []
    # Chart, what changed, hours, and the lists of all tabs.
    links = dialog.get_by_role("link")
    assert [one.inner_text() for one in links.all()][:3] == [
        "CSV of the chart",
        "CSV of what changed",
        "CSV of visitors by hour",
    ]
    expect(links).to_have_count(3 + 23)
    for link in [one.evaluate("(link) => link.href") for one in links.all()]:
        assert "filter_country=DE" in link
        answer = page.request.get(link)
        assert answer.status == 200, link
        assert answer.headers["content-type"].startswith("text/csv")
    with page.expect_download() as download:
        links.nth(3).focus()
        page.keyboard.press("Enter")
    head = download.value.path().read_text("utf-8-sig").splitlines()[0]
    assert head.startswith("value,visitors")
    assert "previous_visitors" in head
    page.keyboard.press("Escape")
    expect(button).to_be_focused()


def test_pages_have_sparklines(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard("period=7d")
    expect(page.locator(".card-pages .spark polyline")).to_have_count(10)
    longest = dashboard("period=12mo")
    expect(longest.locator(".card-pages .bar")).to_have_count(10)
    expect(longest.locator(".spark polyline")).to_have_count(0)


def test_a_new_visitor_appears_without_a_reload(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard()
    before = int(page.locator(".live strong").inner_text())
    site.send(site.website, {"type": "screen_view", "name": "just-now", "session_id": "visitor-new"})
    expect(page.locator(".live strong")).to_have_text(str(before + 1))
    page.locator("a.live").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Live")


# --- state in the address


def test_an_address_shows_the_same_page_to_every_user(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard()
    page.get_by_role("button", name="30 d").click()
    page.get_by_role("button", name="Pageviews", exact=False).first.click()
    page.locator(".card-sources").get_by_label("Campaigns").select_option("UTM source")
    page.locator(".card-places .bar", has_text="Germany").click()
    expect(page.locator(".chip", has_text="Germany")).to_have_count(1)
    loaded(page)
    expect(page.locator(".bar[aria-pressed=true]")).to_have_count(1)
    assert query_of(page) == {
        "period": "30d",
        "tz": ZONE,
        "figure": "pageviews",
        "filter_country": "DE",
        "tab_sources": "utm_source",
    }
    other = dashboard(page.url.partition("?")[2], timezone_id="Asia/Tokyo")
    assert figures(other) == figures(page)
    for card in FIELDS:
        assert rows(other, card) == rows(page, card)
    expect(other.locator(".legend")).to_have_text(page.locator(".legend").inner_text().replace("\n", ""))


def test_the_back_button_restores_the_state_before(dashboard: Dashboard) -> None:
    page = dashboard("period=7d")
    before = figures(page)
    page.get_by_role("button", name="30 d").click()
    expect(page.locator(".dash-range .segment[aria-pressed=true]").first).to_have_text("30 d")
    page.locator(".card-pages .bar").first.click()
    expect(page.locator(".chip")).to_have_count(1)
    page.go_back()
    expect(page.locator(".chip")).to_have_count(0)
    page.go_back()
    expect(page.locator(".dash-range .segment[aria-pressed=true]").first).to_have_text("7 d")
    loaded(page)
    assert figures(page) == before


def test_a_change_that_overtakes_the_timer_of_the_one_before_is_shown(site: SampleServer, open_page: OpenPage) -> None:
    """As on a busy machine, where a timer fires late: nothing stays dimmed."""
    page = site.log_in(open_page(fresh=True))
    page.clock.install()
    page.goto(f"{site.url}/websites/{site.website}?period=7d")
    loaded(page)
    page.clock.pause_at(datetime.now() + timedelta(seconds=5))
    page.keyboard.press("3")
    page.keyboard.press("1")
    expect(page.locator(".page-body[aria-busy=true]")).to_have_count(1)
    page.clock.set_system_time(datetime.now() + timedelta(seconds=10))
    page.keyboard.press("2")
    expect(page.locator(".dash-range .segment[aria-pressed=true]").first).to_have_text("7 d")
    loaded(page)


def test_the_time_zone_is_the_one_of_the_address(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard("period=7d&tz=Pacific/Auckland")
    today = datetime.now(ZoneInfo("Pacific/Auckland")).date()
    query = f"stats?from={today - timedelta(days=6)}&to={today}&tz=Pacific/Auckland"
    expect(page.locator("[data-figure=visitors]")).to_have_attribute(
        "data-value", str(site.ask(query)["data"]["visitors"])
    )
    expect(page.locator(".when-days")).to_have_attribute("title", "Days in the time zone Pacific/Auckland")


def test_a_range_of_custom_days(dashboard: Dashboard) -> None:
    page = dashboard("period=7d")
    page.get_by_role("button", name="More", exact=True).click()
    first, last = days("30d")
    page.get_by_label("First day").fill(first)
    page.get_by_label("Last day").fill(last)
    page.get_by_role("button", name="Show these days").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert (query_of(page)["from"], query_of(page)["to"]) == (first, last)


def test_invalid_values_in_the_address_are_ignored(dashboard: Dashboard) -> None:
    page = dashboard(
        "period=soon&tz=Mars/Base&figure=luck&interval=second&compare=all&from=2026-02-30&to=x&tab_pages=country&other=1"
    )
    assert query_of(page) == {"period": "7d", "tz": ZONE}


def test_another_website_keeps_the_range_but_no_filters(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard("period=30d&filter_country=DE")
    site.send(site.second, {"type": "screen_view", "name": "second"})
    page.locator(".switcher summary").click()
    page.get_by_role("link", name="second.example").click()
    expect(page.locator("h1").first).to_have_text("second.example")
    loaded(page)
    assert query_of(page) == {"period": "30d", "tz": ZONE}


# --- filters and keys


def test_filters_are_added_and_removed(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard("period=30d")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Field").select_option("country")
    page.get_by_label("Value").fill("germany")
    page.get_by_role("button", name="Add filter").click()
    expect(page.locator(".chip")).to_have_count(1)
    assert query_of(page)["filter_country"] == "DE"
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Field").select_option("event_name")
    page.get_by_label("Value").fill(f"signup {IMG}")
    page.keyboard.press("Enter")
    expect(page.locator(".chip")).to_have_count(2)
    loaded(page, 6)  # conversions in place of pageviews and events
    answer = site.ask(
        f"stats?{range_query(30)}&filter_country=DE&filter_event_name=signup%20%3Cimg%20src%3Dx%20onerror%3Dwindow.broken%3D1%3E"
    )
    assert figures(page)["visitors"] == str(answer["data"]["visitors"])
    page.locator(".chip-remove").first.focus()
    page.keyboard.press("Delete")
    expect(page.locator(".chip")).to_have_count(1)
    assert page.evaluate("document.activeElement.closest('.chips') !== null")
    page.keyboard.press("Escape")
    expect(page.locator(".chip")).to_have_count(0)


def test_unset_values_can_be_filtered_by(site: SampleServer, dashboard: Dashboard) -> None:
    page = dashboard("period=30d")
    page.locator(".card-sources").get_by_role("tab", name="Referrers").click()
    page.locator(".card-sources .bar", has_text="Direct / None").click()
    expect(page.locator(".chip", has_text="Direct")).to_have_count(1)
    loaded(page)
    expected = site.ask(f"stats?{range_query(30)}&filter_referrer=")["data"]
    assert figures(page)["pageviews"] == str(expected["pageviews"])


def test_keyboard_shortcuts(dashboard: Dashboard) -> None:
    page = dashboard("period=7d")
    pressed = page.locator(".dash-range .segment[aria-pressed=true]")
    for key, words in (("1", "Today"), ("3", "30 d"), ("4", "90 d"), ("5", "12 m"), ("2", "7 d")):
        page.keyboard.press(key)
        expect(pressed).to_have_text(words)
    page.keyboard.press("ArrowLeft")
    expect(pressed).to_have_text("Custom")
    page.keyboard.press("ArrowRight")
    expect(pressed).to_have_text("7 d")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_role("dialog", name="Pages").get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    # What is loaded a moment after fast changes leaves a table open that was opened meanwhile.
    for key in ("1", "2", "/"):
        page.keyboard.press(key)
    table = page.get_by_role("dialog", name="Pages").element_handle()
    expect(page.locator(".page-body[aria-busy]")).to_have_count(0)
    assert table.evaluate("table => table.isConnected")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("f")
    expect(page.get_by_role("dialog", name="Add a filter")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)


def test_a_row_filters_by_keyboard_and_keeps_the_focus(dashboard: Dashboard) -> None:
    page = dashboard("period=30d")
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.card-pages .bar')"):
            break
    key = page.evaluate("document.activeElement.dataset.key")
    page.keyboard.press("Enter")
    expect(page.locator(".chip")).to_have_count(1)
    loaded(page)
    assert page.evaluate("document.activeElement.dataset.key") == key


def test_the_chart_can_be_read_by_keyboard(dashboard: Dashboard) -> None:
    page = dashboard("period=7d")
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuenow", "1")
    assert re.search(
        r": \d+ visitors?, \d+ visits?, \d+ pageviews?, \d+ events?", slider.get_attribute("aria-valuetext")
    )
    expect(page.locator(".chart-tip")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuenow", "2")
    page.keyboard.press("Enter")
    expect(page.locator(".dash-range .segment[aria-pressed=true]")).to_have_text("Custom")
    assert query_of(page)["from"] == query_of(page)["to"]


# --- when something fails


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("stats", "The key figures cannot be shown."),
        ("timeseries", "The chart cannot be shown."),
        (r"top\?fields=pathname", "Pages cannot be shown."),
        (r"top\?fields=country", "Countries cannot be shown."),
        ("event-names", "Events cannot be shown."),
    ],
)
def test_a_failed_request_shows_an_error_and_can_be_retried(
    site: SampleServer, open_page: OpenPage, part: str, words: str
) -> None:
    page = site.log_in(open_page())
    address = f"{site.url}/websites/{site.website}"
    fail_and_recover(page, address, re.compile(f"/api/account/websites/[^/]+/{part}"), words)
    # Lists that came in the same request.
    for notice in page.locator(".notice").all()[::-1]:
        notice.get_by_role("button", name="Try again").click()
    loaded(page)


def test_lists_come_in_one_request(dashboard: Dashboard) -> None:
    """For the range and filters of the page; countries, of which the map shows all, by themselves."""
    page = dashboard("period=7d")
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.locator(".card-browsers .bar").first.click()
    page.wait_for_url("**&filter_browser=*")
    loaded(page)
    lists = sorted(query["fields"][0] for url in urls if "/top?" in url and (query := parse_qs(urlsplit(url).query)))
    assert [fields for fields in lists if "browser" in fields] == ["pathname,channel,browser,hostname"]
    assert "country" in lists
    assert not [url for url in urls if "/top/" in url]


def test_figures_are_dimmed_while_new_ones_are_requested(dashboard: Dashboard) -> None:
    page = dashboard("period=7d")
    held: list[Any] = []
    page.route(re.compile("/stats"), lambda route: held.append(route))
    before = figures(page)
    page.get_by_role("button", name="30 d").click()
    expect(page.locator(".figures-place[aria-busy=true]")).to_have_count(1)
    assert figures(page) == before
    # Playwright receives requests only while a command runs.
    until(lambda: page.evaluate("1") and held)
    for route in held:
        route.continue_()
    loaded(page)


def test_a_website_without_events_shows_the_snippet_until_the_first_event(
    site: SampleServer, open_page: OpenPage
) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.empty}")
    expect(page.locator("main")).to_contain_text(site.empty)
    site.send(site.empty, {"type": "screen_view", "name": "first"})
    expect(page.locator(".card-pages .bar")).to_have_count(1, timeout=TIMEOUT_MS)


def test_an_unknown_website(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/00000000-0000-4000-8000-000000000000")
    expect(page.locator("main")).to_contain_text("Website not found")


def test_a_refresh_shows_new_events_and_keeps_the_focus(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(fresh=True))
    page.clock.install()
    page.goto(f"{site.url}/websites/{site.website}?period=7d")
    loaded(page)
    before = int(figures(page)["pageviews"])
    page.locator(".card-browsers .bar").first.focus()
    site.send(site.website, {"type": "screen_view", "name": "later", "session_id": "visitor-later"})
    page.clock.run_for(61_000)
    expect(page.locator("[data-figure=pageviews]")).to_have_attribute("data-value", str(before + 1))
    assert page.evaluate("document.activeElement.matches('.card-browsers .bar')")


# --- data of visitors


def test_html_in_the_data_is_text(dashboard: Dashboard) -> None:
    page = dashboard("period=30d&tab_sources=utm_source")
    expect(page.locator("h1").first).to_have_text(f"Example {IMG}")
    expect(page.locator(".card-sources .bar", has_text=IMG)).to_have_count(1)
    page.locator(".card-sources .bar", has_text=IMG).click()
    expect(page.locator(".chip", has_text=IMG)).to_have_count(1)
    loaded(page)
    page.keyboard.press("/")
    expect(page.locator("dialog tbody tr").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.goto(page.url.partition("?")[0] + "?period=30d&filter_type=event")
    # Conversions take the place of pageviews and events.
    loaded(page, 6)
    assert page.locator("img[src=x]").count() == 0
    page.goto(page.url.replace("?", "/live?"))
    expect(page.locator(".event-name", has_text=IMG).first).to_be_visible()
    expect(page.locator(".event-data", has_text=IMG).first).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    assert page.evaluate("window.broken") is None


# --- the shared link


def test_a_share_link_shows_the_same_figures_until_it_is_revoked(
    site: SampleServer, dashboard: Dashboard, open_page: OpenPage
) -> None:
    page = dashboard("period=30d&filter_country=DE")
    link = shared_link(page)
    assert "/share/" in link
    assert "filter_country=DE" in link
    shared = loaded(open_page(link))
    assert figures(shared) == figures(page)
    assert rows(shared, "pages") == rows(page, "pages")
    assert rows(shared, "names") == rows(page, "names")
    shared.get_by_role("tab", name="Exit").click()
    expect(shared.locator(".card-pages .columns")).to_have_text("Visits")
    loaded(shared)
    exits = site.ask(f"exit-pages?{range_query(30)}&filter_country=DE")["data"]
    assert rows(shared, "pages") == [(row["value"], f"{row['visits']:,} visits") for row in exits]
    assert shared.locator("nav").count() == 0
    assert shared.get_by_role("button", name="Share").count() == 0
    assert "/api/account" not in shared.content()
    # Other tests have made links of the same name, which come before.
    revoke = page.get_by_role("button", name="Revoke Readers")
    count = revoke.count()
    revoke.last.click()
    page.get_by_role("dialog").last.get_by_role("button", name="Revoke", exact=True).click()
    expect(revoke).to_have_count(count - 1)
    shared.reload()
    expect(shared.locator("main")).to_contain_text("This share link is not valid.")
    shared.problems.discard("status of 404")


# --- accessibility, screens and size


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing(dashboard: Dashboard, scheme: str, width: int) -> None:
    page = dashboard("period=30d&filter_country=DE", color_scheme=scheme, viewport={"width": width, "height": 800})
    page.get_by_text("Table of this chart").click()
    for opens in (None, "?", "f", "/"):
        if opens:
            page.keyboard.press(opens)
            expect(page.locator("dialog")).to_be_visible()
            expect(page.locator("dialog [aria-busy]")).to_have_count(0)
        assert violations(page) == []
        page.keyboard.press("Escape") if opens else None
        expect(page.locator("dialog")).to_have_count(0)


def test_axe_finds_nothing_on_shared_empty_and_failed_pages(
    site: SampleServer, dashboard: Dashboard, open_page: OpenPage
) -> None:
    page = dashboard("period=7d")
    link = shared_link(page)
    assert violations_in_each_scheme(page) == []
    shared = loaded(open_page(link))
    assert violations_in_each_scheme(shared) == []
    shared.goto(shared.url.partition("?")[0] + "?from=2001-01-01&to=2001-01-07")
    expect(shared.locator(".card-pages .nothing")).to_be_visible()
    loaded(shared)
    assert violations_in_each_scheme(shared) == []
    body = {"ok": False, "error": {"code": "query_timeout", "message": "The query took too long."}}
    shared.route(re.compile("/api/share/[^/]+/"), lambda route: route.fulfill(status=503, json=body))
    shared.reload()
    expect(shared.locator(".notice")).to_have_count(9)
    assert violations_in_each_scheme(shared) == []
    shared.wait_for_load_state("networkidle")  # cards send their requests one after the other
    shared.problems.discard("status of 503")


@pytest.mark.parametrize("width", [320, 390, 700, 900, 1920])
def test_only_the_key_figures_scroll_sideways(dashboard: Dashboard, width: int) -> None:
    query = "period=30d&filter_country=DE&filter_country=FR&filter_browser=Chrome"
    page = dashboard(query, viewport={"width": width, "height": 800})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width


def test_on_phones_the_sidebar_is_a_drawer(dashboard: Dashboard) -> None:
    page = dashboard(viewport={"width": 390, "height": 800})
    column = page.locator("nav.sidebar")
    expect(column).not_to_be_visible()
    page.get_by_role("button", name="Menu").click()
    expect(column).to_be_visible()
    page.keyboard.press("Escape")
    expect(column).not_to_be_visible()
    expect(page.get_by_role("button", name="Menu")).to_be_focused()


def test_the_chart_follows_the_colour_scheme(dashboard: Dashboard) -> None:
    page = dashboard(color_scheme="light")
    light = page.locator("canvas").evaluate("(canvas) => canvas.toDataURL()")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("(light) => document.querySelector('canvas').toDataURL() !== light", arg=light)


def test_reduced_motion_has_no_transitions(dashboard: Dashboard) -> None:
    page = dashboard(reduced_motion="reduce")
    moves = "(element) => parseFloat(getComputedStyle(element).transitionDuration) > 0"
    assert page.evaluate(f"[...document.querySelectorAll('*')].filter({moves}).length") == 0


def test_print_layout(dashboard: Dashboard) -> None:
    page = dashboard("period=30d&filter_country=DE")
    page.emulate_media(media="print")
    expect(page.locator(".print-head")).to_contain_text("Country is Germany")
    for gone in (".sidebar", ".dash-head", ".card-foot", ".segments"):
        assert all(not one.is_visible() for one in page.locator(gone).all())
    show_as_printed(page)
    assert is_printed_in_colour(page.locator(".legend-line").first)
    # The chart has the width of its card.
    card, canvas = page.locator(".main-card").bounding_box(), page.locator("canvas").bounding_box()
    assert card["width"] - 40 < canvas["width"] < card["width"]


@pytest.mark.parametrize(
    ("locale", "size"), [("en-GB", (1280, 900)), *((one, (1920, 1080)) for one in ("en-GB", "de-DE", "fr-FR", "es-ES"))]
)
def test_the_first_load_is_at_most_130_kb(
    site: SampleServer, open_page: OpenPage, locale: str, size: tuple[int, int]
) -> None:
    """130,000 bytes as transferred, without headers; on the large screen with the map."""
    viewport = dict(zip(("width", "height"), size, strict=True))
    page = site.log_in(open_page(fresh=True, locale=locale, viewport=viewport))
    sizes: dict[str, int] = {}

    def record(response: Any) -> None:
        if "/api/" not in response.url:
            sizes[response.url.removeprefix(site.url)] = response.request.sizes()["responseBodySize"]

    page.on("requestfinished", lambda request: record(request.response()))
    page.goto(f"{site.url}/websites/{site.website}")
    loaded(page)
    if size == (1920, 1080):
        expect(page.locator(".map path").first).to_be_attached()
    page.wait_for_load_state("networkidle")
    assert f"/assets/messages/{locale[:2]}/dashboard.json" in sizes
    assert all(url.startswith(("/assets/", "/websites/")) for url in sizes)
    assert sum(sizes.values()) <= 130_000, sorted(sizes.items(), key=lambda one: -one[1])
