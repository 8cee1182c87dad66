"""The page of web vitals, in a real Chromium: its figures are the read API's, its ratings the published ones.

The measurements are sent through collect, over four UTC days. Tests wait for conditions.
"""

import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import SIZES, ZONE, OpenPage, exported_text, range_query, show_as_printed
from tests.browser.history import SampleServer, late_times_ms, sample_server
from tests.support.app import CHROME, SAFARI_IPHONE
from tests.support.process import until

PATHS = {"/": 1.0, "/pricing": 1.4, "/checkout": 3.0, **{f"/blog/{n}": 0.5 for n in range(9)}}
NAMES = ("lcp", "inp", "cls", "fcp", "ttfb")
Shown = Callable[..., Any]


def measure(site: SampleServer) -> None:
    """Send the web vitals of page loads over four UTC days, of two kinds of device."""
    draw = random.Random(7)
    times = late_times_ms()
    for agent, factor in ((CHROME, 1.0), (SAFARI_IPHONE, 1.8)):
        events = []
        for n in range(160):
            path, slow = list(PATHS.items())[min(n % 14, 11)] if n % 3 else ("/checkout", 3.0)
            timestamp = draw.choice(times)
            scale = factor * slow
            vitals = {"lcp": draw.randint(700, 3_000) * scale, "cls": draw.random() * 0.1 * scale}
            vitals |= {"fcp": draw.randint(400, 1_600) * scale} | ({"inp": draw.randint(30, 300)} if n % 3 else {})
            url = f"https://example.com{path}"
            events.append({"type": "vitals", "timestamp": timestamp, "url": url, "vitals": vitals})
        for n in range(0, len(events), 50):
            body = {"website_id": site.website, "events": events[n : n + 50]}
            answer = site.server.request("POST", "/api/collect", body, {"User-Agent": agent})
            assert answer.json["accepted"] == len(body["events"]), answer.text


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    with sample_server(tmp_path_factory.mktemp("vitals")) as one:
        measure(one)
        yield one


@pytest.fixture
def shown(site: SampleServer, open_page: OpenPage) -> Shown:
    """Return a function that opens the page and waits until it is loaded."""

    def show(query: str = "period=7d", **options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{site.website}/vitals?{query}")
        return loaded(page)

    return show


def loaded(page: Any) -> Any:
    expect(page.locator(".metric")).to_have_count(5)
    expect(page.locator("canvas")).to_have_count(1)
    expect(page.locator(".ranked")).to_have_count(2)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def test_metrics_and_the_chart_are_printed_in_full(shown: Shown) -> None:
    page = shown()
    show_as_printed(page)
    right = page.locator(".metric").last.bounding_box()
    assert right["x"] + right["width"] < 816
    assert page.locator(".metrics").evaluate("(row) => row.scrollWidth <= row.clientWidth")


def vitals_path(days: int = 7, more: str = "", zone: str = ZONE) -> str:
    """Return the path of the report about the last days."""
    return f"vitals?{range_query(days, more, zone)}"


def figures(page: Any) -> dict[str, tuple[str, str]]:
    return {
        one.get_attribute("data-metric"): (one.get_attribute("data-p75"), one.get_attribute("data-samples"))
        for one in page.locator(".metric").all()
    }


def expected_cards(site: SampleServer, query: str) -> dict[str, tuple[str, str]]:
    """Return the expected result of figures(); numbers as JavaScript writes them."""
    return {
        row["metric"]: ("null" if row["p75"] is None else f"{row['p75']:g}", f"{row['samples']}")
        for row in site.ask(query)["data"]
    }


def ranked(page: Any, field: str) -> list[tuple[str, str]]:
    rows = page.locator(f".ranked-{field} .ranked-row").all()
    return [(row.get_attribute("data-value"), row.get_attribute("data-p75")) for row in rows]


def expected_ranking(site: SampleServer, query: str) -> list[tuple[str, str]]:
    return [(row["value"], f"{row['p75']:g}") for row in site.ask(query)["data"] if row["samples"]]


# --- figures


def test_figures_are_those_of_the_read_api(site: SampleServer, shown: Shown) -> None:
    page = shown()
    expected = expected_cards(site, vitals_path())
    assert figures(page) == expected
    assert expected["ttfb"] == ("null", "0")
    assert list(figures(page)) == list(NAMES)
    assert ranked(page, "pathname") == expected_ranking(site, vitals_path(more="&by=pathname&metric=lcp"))
    assert ranked(page, "device") == expected_ranking(site, vitals_path(more="&by=device&metric=lcp"))
    expect(page.locator("[data-metric=ttfb]")).to_contain_text("Not measured")
    expect(page.locator(".dash-foot")).to_contain_text("within 2%")


def test_ratings_follow_the_published_thresholds(site: SampleServer, shown: Shown) -> None:
    page = shown()
    answer = site.ask(vitals_path())
    rows, thresholds = answer["data"], answer["meta"]["thresholds"]
    rated = set()
    for row in rows:
        if row["samples"]:
            good, poor = thresholds[row["metric"]].values()
            words = "Good" if row["p75"] <= good else "Poor" if row["p75"] > poor else "Needs improvement"
            expect(page.locator(f"[data-metric={row['metric']}] .rating")).to_have_text(re.compile(f"{words}$"))
            rated.add(words)
    assert len(rated) > 1
    expect(page.locator(".verdict")).to_contain_text("Core Web Vitals: not passed")


def test_words_of_values_and_verdicts(shown: Shown) -> None:
    """The pure functions, at each threshold."""
    page = shown()
    script = """async () => {
      const { formatMetric, rating, verdict } = await import("/assets/vitals/web_vitals.js");
      const limits = { good: 2500, poor: 4000 };
      const all = { lcp: limits, inp: { good: 200, poor: 500 }, cls: { good: 0.1, poor: 0.25 } };
      const rows = (lcp, inp, cls, samples = 100) =>
        Object.entries({ lcp, inp, cls }).map(([metric, p75]) => ({ metric, p75, samples }));
      return {
        formatted: [["lcp", 2500], ["lcp", 2507], ["inp", 248.4], ["inp", 999.6], ["cls", 0.1],
          ["cls", 0.0834], ["cls", 0], ["lcp", null]].map((of) => formatMetric(...of).replace("\\u00a0", " ")),
        rated: [0, 2500, 2500.1, 4000, 4000.1, null].map((value) => rating(value, limits)),
        verdicts: [rows(2000, 100, 0.1), rows(2000, null, 0.05), rows(3000, 600, 0.05), rows(null, null, null),
          rows(null, null, 0.1), rows(2000, 100, 0.1, 99)].map((of) => {
            const { isMet, words } = verdict(of, all);
            return [isMet, words.replaceAll("\\u00a0", " ")];
          }),
      };
    }"""
    good = "LCP, INP and CLS are each good for at least 75% of page loads."
    few = f"{good} There are few page loads; more of them may change this."
    assert page.evaluate(script) == {
        "formatted": ["2.5 s", "2.51 s", "248 ms", "1,000 ms", "0.1", "0.083", "0", "–"],
        "rated": ["good", "good", "needs_improvement", "needs_improvement", "poor", None],
        "verdicts": [
            [True, good],
            [True, "LCP and CLS are each good for at least 75% of page loads. INP was not measured."],
            [
                False,
                "LCP needs improvement: 3 s at p75, good is up to 2.5 s; "
                "INP is poor: 600 ms at p75, poor is above 500 ms.",
            ],
            [None, "No values of LCP, INP and CLS."],
            [None, "CLS is good for at least 75% of page loads. LCP and INP were not measured."],
            [True, few],
        ],
    }


def test_a_metric_is_selected(site: SampleServer, shown: Shown) -> None:
    """It is in the address; trend, pages and devices are those of the metric."""
    page = shown()
    page.locator("[data-metric=cls]").click()
    page.wait_for_url("**&metric=cls")
    loaded(page)
    expect(page.locator("[data-metric=cls]")).to_be_focused()
    expect(page.locator("#metric")).to_have_text("CLS: Cumulative Layout Shift")
    expect(page.locator(".metric-about")).to_contain_text("How to improve:")
    assert ranked(page, "pathname") == expected_ranking(site, vitals_path(more="&by=pathname&metric=cls"))
    expect(page.get_by_role("slider")).to_have_attribute("aria-label", re.compile("^CLS at p75"))
    page.reload()
    expect(loaded(page).locator("[data-metric=cls]")).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(page.locator("[data-metric=lcp]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#metric")).to_have_text("LCP: Largest Contentful Paint")


def test_the_trend_by_utc_day(site: SampleServer, shown: Shown) -> None:
    """By keyboard and in the table behind it; Enter goes to that day."""
    page = shown("period=7d&metric=fcp")
    rows = site.ask(vitals_path(more="&by=day&metric=fcp"))["data"]
    # After midnight in Berlin, the last UTC day of the range has not begun.
    today = f"{datetime.now(UTC):%F}"
    last = next(k for k, row in enumerate(rows) if row["time"].startswith(today))
    slider = page.get_by_role("slider")
    slider.focus()
    slider.press("End")
    for _ in rows[last + 1 :]:
        assert slider.get_attribute("aria-valuetext").endswith("no samples")
        slider.press("ArrowLeft")
    text = slider.get_attribute("aria-valuetext")
    samples = rows[last]["samples"]
    assert text.endswith(f"{samples} samples, so far" if samples else "no samples"), text
    slider.press("Home")
    assert slider.get_attribute("aria-valuetext").endswith("no samples")
    page.get_by_text("Table of this chart").click()
    cells = page.locator(".series-table tbody tr")
    expect(cells).to_have_count(len(rows))
    for row, shown_row in zip(rows, cells.all(), strict=True):
        assert shown_row.locator("td").first.inner_text() == f"{row['samples']:,}"
    assert sum(row["samples"] for row in rows) == 320
    for key in ("End", "ArrowLeft", "Enter"):
        slider.press(key)
    day = rows[-2]["time"][:10]
    page.wait_for_url(f"**/vitals?from={day}&to={day}&tz={ZONE}&metric=fcp")


def test_a_row_filters(site: SampleServer, shown: Shown) -> None:
    page = shown()
    page.locator(".ranked-pathname .ranked-row").first.click()
    page.wait_for_url("**&filter_pathname=/checkout")
    loaded(page)
    assert figures(page) == expected_cards(site, vitals_path(more="&filter_pathname=/checkout"))
    page.locator(".ranked-device [data-value=mobile]").click()
    page.wait_for_url("**&filter_device=mobile")
    loaded(page)
    assert figures(page) == expected_cards(site, vitals_path(more="&filter_pathname=/checkout&filter_device=mobile"))
    expect(page.locator(".chip")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.locator(".chip")).to_have_count(1)
    page.get_by_role("button", name="Remove filter: Page is /checkout").press("Delete")
    expect(page.locator(".chip")).to_have_count(0)
    loaded(page)
    assert figures(page) == expected_cards(site, vitals_path())


def test_all_pages(site: SampleServer, shown: Shown) -> None:
    page = shown()
    expect(page.locator(".ranked-pathname .ranked-row")).to_have_count(10)
    page.get_by_role("button", name="All pages").click()
    dialog = page.get_by_role("dialog", name="Pages by LCP")
    expect(dialog.locator(".ranked-row")).to_have_count(len(PATHS))
    assert violations(page) == []
    dialog.get_by_role("searchbox").fill("/pric")
    dialog.locator(".ranked-row").click()
    page.wait_for_url("**&filter_pathname=/pricing")
    assert figures(loaded(page)) == expected_cards(site, vitals_path(more="&filter_pathname=/pricing"))


def test_metrics_without_measurements(shown: Shown) -> None:
    page = shown()
    page.locator("[data-metric=ttfb]").click()
    expect(page.locator(".chart-place")).to_contain_text("No TTFB values in this range.")
    expect(page.locator(".ranked-pathname")).to_contain_text("No TTFB values in this range.")
    page.locator("[data-metric=lcp]").click()
    loaded(page)


def test_requests_are_aborted_when_the_page_is_left(site: SampleServer, open_page: OpenPage) -> None:
    page, ended = site.log_in(open_page()), []
    page.on("requestfailed", lambda request: ended.append(request.url))
    page.route(re.compile(r"/api/.*/vitals\?"), lambda route: None)
    page.goto(f"{site.url}/websites/{site.website}/vitals?period=7d")
    expect(page.locator(".vitals-answer")).to_have_attribute("aria-busy", "true")
    page.get_by_role("link", name="Overview").click()
    expect(page.locator(".figure")).to_have_count(7)
    # Playwright receives events only while a command runs.
    until(lambda: page.evaluate("1") and len([url for url in ended if "/vitals?" in url]) == 4)


def test_range_zone_and_keys(site: SampleServer, shown: Shown) -> None:
    page = shown()
    page.keyboard.press("3")
    page.wait_for_url("**period=30d&**")
    page.goto(page.url.replace(f"tz={ZONE}", "tz=UTC"))
    page.wait_for_url("**tz=UTC*")
    loaded(page)
    assert figures(page) == expected_cards(site, vitals_path(30, zone="UTC"))
    page.keyboard.press("1")
    page.wait_for_url("**period=today&**")
    loaded(page)
    assert figures(page) == expected_cards(site, vitals_path(1, zone="UTC"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("f")
    # The dialog's module is loaded at its first use.
    fields = page.get_by_role("dialog", name="Add a filter").get_by_label("Field").locator("option")
    expect(fields.filter(has_text=re.compile("^Device$"))).to_have_count(1)
    assert not {"Event name", "Type"} & set(fields.all_inner_texts())


def test_csv(site: SampleServer, shown: Shown) -> None:
    page = shown("period=7d&metric=inp")
    for name, head, rows in (
        ("CSV of all metrics", "metric,unit,samples", 5),
        ("CSV of INP by day", "time,samples", len(site.ask(vitals_path(more="&by=day&metric=inp"))["data"])),
        ("CSV of INP by page", "value,events,samples", len(PATHS)),
        ("CSV of INP by device", "value,events,samples", 2),
    ):
        lines = exported_text(page, name).splitlines()
        assert lines[0].startswith(head)
        assert len(lines) == rows + 1


# --- links to the page, and empty pages


def test_range_and_filters_are_kept_between_pages(site: SampleServer, shown: Shown) -> None:
    """Another website keeps the range alone. What belongs to the page alone is dropped."""
    page = shown("period=30d&filter_device=desktop&metric=cls")
    pages = page.get_by_role("list", name=re.compile("^Pages of Example"))
    expect(pages.locator("[aria-current=page]")).to_have_text("Performance")
    pages.get_by_role("link", name="Overview").click()
    page.wait_for_url(f"**/websites/{site.website}?period=30d&tz={ZONE}&filter_device=desktop")
    expect(page.locator(".figure")).to_have_count(7)
    pages.get_by_role("link", name="Performance").click()
    page.wait_for_url(f"**/vitals?period=30d&tz={ZONE}&filter_device=desktop")
    assert figures(loaded(page)) == expected_cards(site, vitals_path(30, "&filter_device=desktop"))
    page.locator(".switcher summary").click()
    page.get_by_role("link", name="second.example").click()
    page.wait_for_url(f"**/websites/{site.second}?period=30d&tz={ZONE}")


def test_a_range_without_measurements(site: SampleServer, shown: Shown) -> None:
    """The page shows how to enable web vitals, or how to remove the filters that exclude all."""
    page = shown()
    page.goto(f"{site.url}/websites/{site.second}/vitals")
    expect(page.get_by_role("heading", name="No web vitals in this range")).to_be_visible()
    expect(page.get_by_label("Snippet")).to_contain_text(f'data-website-id="{site.second}" data-vitals></script>')
    expect(page.locator("canvas:visible")).to_have_count(0)
    assert violations(page) == []
    page.goto(f"{site.url}/websites/{site.website}/vitals?period=7d&filter_pathname=/nowhere")
    expect(page.get_by_role("heading", name="No data matches these filters")).to_be_visible()
    page.get_by_role("button", name="Remove the filters").click()
    loaded(page)


def test_a_failed_request_shows_an_error_and_can_be_retried(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    body = {"ok": False, "error": {"code": "storage_unavailable", "message": "The database cannot be reached."}}
    pattern = re.compile(r"/api/.*/vitals\?")
    page.route(pattern, lambda route: route.fulfill(status=503, json=body))
    page.goto(f"{site.url}/websites/{site.website}/vitals?period=7d")
    alert = page.get_by_role("alert").filter(has_text="Web vitals cannot be shown.")
    expect(alert).to_contain_text("The database cannot be reached.")
    page.unroute(pattern)
    alert.get_by_role("button", name="Try again").click()
    expect(page.locator(".metric")).to_have_count(5)
    for _ in range(3):
        page.get_by_role("button", name="Try again").first.click()
    loaded(page)
    page.problems.discard("503")


def test_another_accounts_website_is_not_found(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/00000000-0000-4000-8000-000000000000/vitals")
    expect(page.get_by_role("heading", name="Website not found")).to_be_visible()


def test_an_open_page_is_refreshed(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(fresh=True))
    page.clock.install()
    page.goto(f"{site.url}/websites/{site.empty}/vitals?period=today")
    expect(page.locator(".nothing-yet")).to_be_visible()
    site.send(site.empty, {"type": "vitals", "url": "https://empty.example/", "vitals": {"lcp": 900}})
    page.clock.run_for(61_000)
    expect(page.locator("[data-metric=lcp]")).to_have_attribute("data-samples", "1")
    expect(page.locator("[data-metric=lcp]")).to_contain_text("1 sample: few")


# --- accessibility


@pytest.mark.parametrize("size", SIZES)
def test_accessible(shown: Shown, size: str) -> None:
    """axe-core finds no violations and the page does not scroll sideways, in both color schemes and both sizes."""
    page = shown(viewport=SIZES[size])
    page.get_by_text("Table of this chart").click()
    assert violations_in_each_scheme(page) == []


def test_all_controls_are_reached_by_tab(shown: Shown) -> None:
    page = shown()
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.key || document.activeElement.textContent.trim()"))
    wanted = {"period-30d", "add-filter", "metric-lcp", "metric-ttfb", "Table of this chart"}
    assert wanted | {"pathname=/checkout", "device=mobile", "export", "Keyboard shortcuts"} <= reached
