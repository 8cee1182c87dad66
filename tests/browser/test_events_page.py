"""The page of custom events, in a real Chromium: names, the trend of the selected one, the properties of its data.

Events are sent through collect (journeys.py); figures are compared with the read API.
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import (
    SIZES,
    ZONE,
    OpenPage,
    exported,
    fail_and_recover,
    query_of,
    range_query,
    show_as_printed,
)
from tests.browser.history import IMG, SampleServer
from tests.browser.journeys import RARE, VISITS

SHOWN = 10
Shown = Callable[..., Any]


pytestmark = pytest.mark.usefixtures("journeys")


@pytest.fixture
def shown(site: SampleServer, open_page: OpenPage) -> Shown:
    """Return a function that opens the page and waits until it is loaded."""

    def show(query: str = "", **options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{site.website}/events?{query}")
        return loaded(page)

    return show


def loaded(page: Any) -> Any:
    expect(page.locator("canvas")).to_have_count(1)
    expect(page.locator(".names .bar").first).to_be_visible()
    expect(page.locator(".properties > *").first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def names(page: Any) -> list[tuple[str, int, int]]:
    """Return name, events and visitors of each row."""
    return [
        (
            one.get_attribute("data-key").partition("=")[2],
            *(int(re.sub(r"\D", "", one.locator(part).inner_text())) for part in (".bar-aside", ".bar-count")),
        )
        for one in page.locator(".names .bar").all()
    ]


def values(card: Any) -> list[tuple[Any, int, int]]:
    """Return value, events and visitors of each row of a property."""
    return [
        (
            json.loads(one.get_attribute("data-key").partition("=")[2]),
            *(int(re.sub(r"\D", "", one.locator(part).inner_text())) for part in (".bar-count", ".bar-aside")),
        )
        for one in card.locator(".bar").all()
    ]


# --- figures


def test_names_and_figures_are_those_of_the_read_api(site: SampleServer, shown: Shown) -> None:
    page = shown()
    rows = site.ask(f"event-names?limit=1000&{range_query()}")["data"]
    assert len(rows) == 2 + len(RARE)
    assert names(page) == [(row["value"], row["events"], row["visitors"]) for row in rows[:SHOWN]]
    first = page.locator(".names .bar[aria-pressed=true]")
    expect(first).to_contain_text(rows[0]["value"])
    event, total = (
        site.ask(f"stats?{range_query(more=more)}")["data"] for more in (f"&filter_event_name={rows[0]['value']}", "")
    )
    from_api = {
        "events": event["events"],
        "visitors": event["visitors"],
        "share": 100 * event["visitors"] / total["visitors"],
        "each": event["events"] / event["visitors"],
    }
    found = {
        one.get_attribute("data-figure"): float(one.get_attribute("data-value"))
        for one in page.locator(".figure").all()
    }
    assert found == pytest.approx(from_api)
    assert (event["events"], event["visitors"]) == (VISITS / 4, VISITS / 4)
    assert query_of(page) == {"period": "7d", "tz": ZONE}


def test_the_table_behind_the_chart_is_the_series_of_this_event(site: SampleServer, shown: Shown) -> None:
    page = shown("event=download")
    page.get_by_text("Table of this chart").click()
    rows = site.ask(f"timeseries?{range_query(more='&filter_event_name=download')}")["data"]
    expect(page.locator(".series-table tbody tr")).to_have_count(7)
    found = [
        [int(cell.inner_text()) for cell in row.locator("td").all()[:3]]
        for row in page.locator(".series-table tbody tr").all()
    ]
    assert found == [[row[name] for name in ("events", "visitors", "visits")] for row in rows]
    assert sum(row[0] for row in found) == VISITS / 5


def test_a_card_for_each_property(site: SampleServer, shown: Shown) -> None:
    page = shown("event=signup")
    answer = site.ask(f"event-data?event_name=signup&{range_query()}")
    cards = page.locator(".property")
    assert [one.get_attribute("data-property") for one in cards.all()] == [row["property"] for row in answer["data"]]
    for property_ in answer["data"]:
        card = page.locator(f".property[data-property={property_['property']}]")
        most = 5 if property_["numbers"] else 8
        assert values(card) == [(row["value"], row["events"], row["visitors"]) for row in property_["values"][:most]]
        expect(card.locator(".card-head")).to_contain_text(f"on all 10 events, {property_['distinct']} values")
        figures = [one.inner_text() for one in card.locator("dd").all()]
        from_api = property_["numbers"]
        if from_api:
            order = ("mean", "p50", "p95", "min", "max", "sum")
            assert [float(text) for text in figures] == [from_api[name] for name in order]
        else:
            assert figures == []
    # Text that looks like a number is distinguished from a number.
    expect(page.locator(".property[data-property=code] .bar").first).to_contain_text('"')
    expect(page.locator(".property[data-property=yearly] .bar").first).not_to_contain_text('"')


def test_all_values_of_a_property(site: SampleServer, shown: Shown) -> None:
    page = shown("event=signup")
    page.get_by_role("button", name="All 10 values").last.click()
    dialog = page.get_by_role("dialog", name="seats")
    expect(dialog.locator("tbody tr")).to_have_count(10)
    [seats] = site.ask(f"event-data?event_name=signup&property=seats&limit=1000&{range_query()}")["data"]
    found = [row.locator("th").inner_text() for row in dialog.locator("tbody tr").all()]
    assert [int(text) for text in found] == [row["value"] for row in seats["values"]]
    page.keyboard.type("36")
    expect(dialog.locator("tbody tr")).to_have_count(1)


def test_csv(shown: Shown) -> None:
    page = shown("event=signup&filter_browser=Firefox")
    links = exported(page)
    heads = set()
    for link in links:
        assert "filter_browser=Firefox" in link
        answer = page.request.get(link)
        assert answer.status == 200, link
        assert answer.body().startswith(BOM_UTF8), "Excel reads no UTF-8 without it"
        heads.add(answer.body().decode("utf-8-sig").partition("\r\n")[0])
    assert "property,value,events,visitors" in heads
    assert len(links) == 1 + 1 + 1 + 5  # names, chart, all data, each property


def test_controls_are_not_printed(shown: Shown) -> None:
    show_as_printed(shown())


def test_an_even_number_of_figures_is_in_pairs_on_phones(shown: Shown) -> None:
    page = shown("event=signup", viewport={"width": 375, "height": 812})
    boxes = [one.bounding_box() for one in page.locator(".figures > li").all()]
    assert [(round(one["x"]), round(one["width"])) for one in boxes[:2] * 2] == [
        (round(one["x"]), round(one["width"])) for one in boxes
    ]
    assert boxes[0]["y"] == boxes[1]["y"] < boxes[2]["y"] == boxes[3]["y"]


# --- state in the address


def test_the_selected_event_is_in_the_address(shown: Shown) -> None:
    page = shown()
    page.locator(".names .bar", has_text="download").click()
    expect(page.get_by_role("heading", level=2, name="download")).to_be_visible()
    loaded(page)
    assert query_of(page)["event"] == "download"
    assert page.evaluate("document.activeElement.dataset.key") == "event=download"
    page.locator(".figure[data-figure=visitors]").click()
    expect(page.locator(".figure[data-figure=visitors]")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("slider")).to_have_attribute("aria-label", re.compile("^Visitors by day"))
    assert query_of(page) == {"period": "7d", "tz": ZONE, "event": "download", "figure": "visitors"}
    other = shown(urlsplit(page.url).query)
    expect(other.get_by_role("heading", level=2, name="download")).to_be_visible()
    expect(other.locator(".figure[data-figure=visitors]")).to_have_attribute("aria-pressed", "true")
    page.go_back()
    page.go_back()
    expect(page.get_by_role("heading", level=2, name="signup")).to_be_visible()


def test_an_event_beyond_the_first_ten_is_found_and_stays_listed(shown: Shown) -> None:
    page = shown()
    page.keyboard.press("/")
    dialog = page.get_by_role("dialog", name="Events")
    expect(dialog.locator("tbody tr")).to_have_count(2 + len(RARE))
    page.keyboard.type(RARE[-1])
    expect(dialog.locator("tbody tr")).to_have_count(1)
    dialog.get_by_role("button", name=RARE[-1]).click()
    expect(page.get_by_role("heading", level=2, name=RARE[-1])).to_be_visible()
    expect(page.locator(".names .bar[aria-pressed=true]")).to_contain_text(RARE[-1])
    expect(page.locator(".names .bar")).to_have_count(SHOWN + 1)


def test_filters_are_chips_and_apply_to_the_whole_page(site: SampleServer, shown: Shown) -> None:
    page = shown("event=signup&filter_browser=Firefox&filter_event_name=download")
    expect(page.locator(".chip")).to_have_count(2)
    # The list is filtered by both; the selected event replaces the filter of names.
    rows = site.ask(f"event-names?{range_query(more='&filter_browser=Firefox&filter_event_name=download')}")["data"]
    assert [name for name, _, _ in names(page)] == [row["value"] for row in rows] == ["download"]
    stats = site.ask(f"stats?{range_query(more='&filter_browser=Firefox&filter_event_name=signup')}")["data"]
    expect(page.locator(".figure[data-figure=events]")).to_have_attribute("data-value", str(stats["events"]))
    page.get_by_role("link", name="Show on overview").click()
    page.wait_for_url(re.compile(rf"/websites/{site.website}\?.*filter_event_name=signup"))
    assert query_of(page)["filter_browser"] == "Firefox"
    assert "event" not in query_of(page)


def test_by_keyboard_alone(shown: Shown) -> None:
    page = shown()
    page.locator(".names .bar").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2, name="download")).to_be_visible()
    page.keyboard.press("3")
    expect(page.locator(".dash-range .segment[aria-pressed=true]")).to_have_text("30 d")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Search in all events")


# --- empty pages and failures


def test_a_website_without_events_shows_how_to_send_one(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.empty}/events")
    expect(page.get_by_role("heading", name="No events in this range")).to_be_visible()
    expect(page.locator("main")).to_contain_text('tally.track("signup", { plan: "pro" });')
    expect(page.locator("main")).to_contain_text('data-track="signup"')
    expect(page.get_by_role("link", name="add the snippet to its pages")).to_be_visible()
    assert violations(page) == []
    pattern = re.compile("/event-names")
    body = {"ok": False, "error": {"code": "query_timeout", "message": "The query took too long."}}
    page.route(pattern, lambda route: route.fulfill(status=503, json=body))
    page.keyboard.press("3")
    expect(page.locator(".notice", has_text="The events cannot be shown.")).to_be_visible()
    page.unroute(pattern)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="No events in this range")).to_be_visible()
    page.problems.discard("status of 503")
    page.goto(f"{site.url}/websites/{site.website}/events?filter_browser=Netscape")
    page.get_by_role("button", name="Remove the filters").click()
    loaded(page)


def test_an_event_without_data_shows_how_to_send_some(shown: Shown) -> None:
    page = shown("event=download")
    expect(page.locator(".no-data")).to_contain_text("8 events without data")
    expect(page.locator(".no-data")).to_contain_text('tally.track("download", { plan: "pro" });')
    unknown = shown(f"event={quote(IMG)}")
    expect(unknown.locator(".no-data")).to_contain_text(f"There are no “{IMG}” events in this range")
    assert unknown.locator("img").count() == 0
    assert unknown.evaluate("window.broken") is None


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("event-names", "The events cannot be shown."),
        ("timeseries", "The trend of signup cannot be shown."),
        ("stats", "The figures of signup cannot be shown."),
        ("event-data", "The data of signup cannot be shown."),
    ],
)
def test_a_failed_request_shows_an_error_and_can_be_retried(
    site: SampleServer, open_page: OpenPage, part: str, words: str
) -> None:
    page = site.log_in(open_page())
    # Without an event in the address, the list of names decides which one is shown.
    address = f"{site.url}/websites/{site.website}/events?{'' if part == 'event-names' else 'event=signup'}"
    fail_and_recover(page, address, re.compile(rf"/api/account/websites/[^/]+/{part}\?"), words)
    loaded(page)


# --- accessibility


@pytest.mark.parametrize("size", SIZES)
def test_accessible(shown: Shown, size: str) -> None:
    """axe-core finds no violations and the page does not scroll sideways, in both color schemes and both sizes."""
    page = shown("event=signup", viewport=SIZES[size])
    page.get_by_text("Table of this chart").click()
    assert violations_in_each_scheme(page) == []
    page.get_by_role("button", name="All 10 values").first.click()
    expect(page.locator("dialog tbody tr")).to_have_count(10)
    assert violations_in_each_scheme(page) == []


def test_markup_in_the_data_is_text(shown: Shown) -> None:
    page = shown("event=signup")
    expect(page.locator(".property[data-property=plan]")).to_contain_text(IMG)
    assert page.locator("img").count() == 0
    assert page.evaluate("window.broken") is None
