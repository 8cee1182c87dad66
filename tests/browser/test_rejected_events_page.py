"""The page of rejected events, in a real Chromium: its figures are the read API's, and each reason has instructions.

Tests wait for conditions. Events of today are rejected by the server; earlier counts are written into the database.
"""

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tally.ingest.rejected_events import NUMBER_OF, REASONS, WARNINGS
from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import SIZES, ZONE, OpenPage, exported_text, range_query
from tests.browser.history import SampleServer, sample_server
from tests.support.app import CHROME, GOOGLEBOT
from tests.support.page_client import LINK
from tests.support.process import until

QUARTERS_A_DAY = 96
Shown = Callable[..., Any]


def send_invalid(site: SampleServer) -> int:
    """Send events that are rejected, each for a reason of its own; return their number."""
    view = {"type": "pageview", "website_id": site.website, "url": "https://example.com/secret-path"}
    own, foreign = {"Origin": "https://example.com"}, {"Origin": "https://staging.example.net:8443"}
    wrong = [view | {"url": "/a"}, view | {"session_id": "short"}, view | {"timestamp": 5}, {"type": "none"}]
    sent: list[tuple[Any, dict[str, str]]] = [
        *[(view, own | {"User-Agent": GOOGLEBOT})] * 3,
        *[(view, foreign)] * 2,
        (view, {"Origin": "http://192.0.2.9"}),
        ({"website_id": site.website, "events": wrong}, {}),
    ]
    for body, headers in sent:
        answer = site.server.request("POST", "/api/collect", body, {"User-Agent": CHROME} | headers)
        assert answer.status in (202, 400, 403), answer.text
    return 3 + 2 + 1 + len(wrong)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    with sample_server(tmp_path_factory.mktemp("rejected")) as one:
        events = send_invalid(one)
        until(lambda: one.ask("rejected")["data"]["events"] == events)
        quarter = int(time.time() // 900)
        with closing(sqlite3.connect(one.server.db, isolation_level=None)) as connection:
            [(number,)] = connection.execute("select number from website where id = ?", (one.website,)).fetchall()
            for days in range(1, 40):
                for code, count in (("crawler", 40 + days), ("invalid_url", days % 3), ("rate_limited", days % 7)):
                    row = (number, quarter - QUARTERS_A_DAY * days, NUMBER_OF[code], count)
                    connection.execute("insert into rejected_event select ?1, ?2, ?3, ?4 where ?4", row)
        # The server detects that another process has written.
        until(lambda: one.ask(f"rejected?{range_query(30)}")["data"]["events"] > 1_000)
        yield one


@pytest.fixture
def shown(site: SampleServer, open_page: OpenPage) -> Shown:
    """Return a function that opens the page and waits until it is loaded."""

    def show(query: str = "period=30d", **options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{site.website}/rejected?{query}")
        return loaded(page)

    return show


def loaded(page: Any) -> Any:
    expect(page.locator("canvas")).to_have_count(1)
    expect(page.locator(".reasons")).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def today() -> Any:
    return datetime.now(ZoneInfo(ZONE)).date()


def figures(page: Any) -> dict[str, int]:
    return {
        one.get_attribute("data-reason"): int(one.get_attribute("data-value")) for one in page.locator(".figure").all()
    }


def bucket(page: Any) -> str:
    """Return the chart's text for the selected day."""
    return str(page.get_by_role("slider").get_attribute("aria-valuetext"))


# --- figures


def test_figures_and_rows_are_those_of_the_read_api(site: SampleServer, shown: Shown) -> None:
    page = shown()
    data = site.ask(f"rejected?{range_query(30)}")["data"]
    expected = Counter({"all": data["events"]})
    for row in data["reasons"]:
        expected[row["reason"]] += row["events"]
    assert figures(page) == expected
    rows = page.locator(".reasons tbody tr").all()
    assert [row.get_attribute("data-code") for row in rows] == [row["code"] for row in data["reasons"]]
    for row, from_api in zip(rows, data["reasons"], strict=True):
        expect(row.locator(".num strong")).to_have_text(f"{from_api['events']:,}")
    stats = site.ask(f"stats?{range_query(30)}")["data"]
    counted = f"{stats['pageviews'] + stats['events']:,} pageviews and events"
    expect(page.locator(".sum")).to_contain_text(f"{data['events']:,} rejected events; {counted} were counted")
    expect(page.locator("[role=status]:not(.frame-notices)").first).to_contain_text(
        f"{data['events']:,} rejected events"
    )


def test_each_row_has_an_explanation_and_instructions(shown: Shown) -> None:
    page = shown("period=today")
    origin = page.locator("[data-code=origin_not_allowed]")
    expect(origin).to_contain_text("Pages outside example.com that use this website's id")
    expect(origin).to_contain_text("Recently: staging.example.net")
    expect(origin).not_to_contain_text("192.0.2.9")
    expect(page.locator("[data-code=crawler]")).to_contain_text("Recently: Googlebot")
    expect(page.locator("[data-code=invalid_field]")).to_contain_text("Recently: session_id")
    expect(page.locator("main")).not_to_contain_text("secret-path")
    for row in page.locator(".reasons tbody tr").all():
        expect(row).to_contain_text("To do:")
    origin.get_by_role("link", name="Allowed origins").click()
    expect(page.get_by_role("heading", name="Allowed origins")).to_be_visible()


def test_every_code_has_its_own_explanation(site: SampleServer, shown: Shown) -> None:
    """A code without an explanation would be shown as its title."""
    page = shown()
    codes = [code for code, _ in REASONS if code not in WARNINGS]
    found = page.evaluate(
        "async (codes) => { const { explanation } = await import('/assets/rejected/reasons.js');"
        " return codes.map((code) => { const { title, means } = explanation(code, { id: 'i', domain: 'd' });"
        " return [title, means]; }); }",
        codes,
    )
    assert len({title for title, _ in found}) == len({means for _, means in found}) == len(codes)
    assert not [title for title, _ in found if title in codes]


def test_examples_have_time_and_value(shown: Shown) -> None:
    page = shown("period=today")
    examples = page.locator(".examples tbody tr")
    for words in (
        "Crawlers Googlebot pageview",
        "a page at an IP address",
        "Invalid field session_id pageview",
    ):
        expect(examples.filter(has_text=words)).to_have_count(1)
    expect(examples.filter(has_text="Unknown type type")).to_have_count(1)
    expect(examples.locator("time")).to_have_count(examples.count())


def test_a_day_on_the_chart(site: SampleServer, shown: Shown) -> None:
    """By keyboard: each day with its sum; Enter goes to that day alone."""
    page = shown()
    days = site.ask(f"rejected?{range_query(30)}")["data"]["days"]
    slider = page.get_by_role("slider")
    slider.focus()
    slider.press("Home")
    assert bucket(page).endswith(f": {days[0]['events']} events")
    slider.press("ArrowRight")
    assert bucket(page).endswith(f": {days[1]['events']} events")
    slider.press("End")
    assert bucket(page).endswith("events, so far")
    slider.press("ArrowLeft")
    slider.press("Enter")
    yesterday = today() - timedelta(days=1)
    page.wait_for_url(f"**/rejected?from={yesterday}&to={yesterday}&tz={ZONE}")
    expect(page.locator(".figure[data-reason=all]")).to_have_attribute("data-value", str(days[-2]["events"]))


def test_a_reason_selects_the_chart(site: SampleServer, shown: Shown) -> None:
    """It is in the address, so that a link and the Back button show the same."""
    page = shown()
    page.locator(".figure[data-reason=rate]").click()
    page.wait_for_url("**&reason=rate")
    expect(page.locator(".figure[data-reason=rate]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".figure[data-reason=rate]")).to_be_focused()
    expect(page.get_by_role("slider")).to_have_attribute("aria-label", re.compile("^Rate limit by day"))
    day = site.ask(f"rejected?{range_query(30)}")["data"]["days"][3]
    slider = page.get_by_role("slider")
    slider.focus()
    slider.press("Home")
    for _ in range(3):
        slider.press("ArrowRight")
    assert re.search(rf": {day['codes'].get('rate_limited', 0)} events?$", bucket(page))
    page.reload()
    expect(loaded(page).locator(".figure[data-reason=rate]")).to_have_attribute("aria-pressed", "true")
    page.go_back()
    expect(page.locator(".figure[data-reason=all]")).to_have_attribute("aria-pressed", "true")


def test_keys(shown: Shown) -> None:
    page = shown("period=7d")
    page.keyboard.press("3")
    page.wait_for_url("**period=30d&**")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".dash-range .segment[aria-pressed=true]")).to_have_text("Custom")
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**period=30d&**")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).not_to_contain_text("Add a filter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("f")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_csv(site: SampleServer, shown: Shown) -> None:
    page = shown()
    lines = exported_text(page, "CSV of rejected events by day").splitlines()
    assert lines[0] == "time,reason,code,events"
    sums = sum(int(line.rpartition(",")[2]) for line in lines[1:])
    assert sums == site.ask(f"rejected?{range_query(30)}")["data"]["events"]


def test_days_are_those_of_the_time_zone(site: SampleServer, shown: Shown) -> None:
    page = shown()
    page.goto(page.url.replace(f"tz={ZONE}", "tz=UTC"))
    page.wait_for_url("**tz=UTC*")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    now = datetime.now(ZoneInfo("UTC")).date()
    query = f"from={now - timedelta(days=29)}&to={now}&tz=UTC"
    events = site.ask(f"rejected?{query}")["data"]["events"]
    expect(page.locator(".figure[data-reason=all]")).to_have_attribute("data-value", str(events))


# --- links to the page, and empty pages


def test_links_from_the_dashboard_and_back(site: SampleServer, open_page: OpenPage) -> None:
    """Links keep the range and drop the filters."""
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.website}?period=30d&tz={ZONE}&filter_os=Linux")
    events = site.ask(f"rejected?{range_query(30)}")["data"]["events"]
    page.get_by_role("link", name=f"{events:,} rejected events").click()
    page.wait_for_url(f"**/rejected?period=30d&tz={ZONE}")
    loaded(page)
    expect(page.locator(".sidebar .nav-item[aria-current=page]")).to_have_text("Rejected events")
    page.get_by_role("link", name="Overview").click()
    page.wait_for_url(f"**/websites/{site.website}?period=30d&tz={ZONE}")
    expect(page.locator(".figure")).to_have_count(7)


def test_a_range_without_rejected_events(site: SampleServer, shown: Shown) -> None:
    """The page has a sentence and a link; the range can still be changed."""
    first, last = today() - timedelta(days=70), today() - timedelta(days=69)
    page = shown()
    page.goto(f"{site.url}/websites/{site.website}/rejected?from={first}&to={last}&tz={ZONE}")
    expect(page.get_by_role("heading", name="No rejected events")).to_be_visible()
    expect(page.locator(".empty")).to_contain_text("received in this range were counted")
    expect(page.locator("canvas")).to_have_count(0)
    assert violations(page) == []
    page.keyboard.press("3")
    loaded(page)
    page.goto(f"{site.url}/websites/{site.empty}/rejected")
    expect(page.locator(".empty")).to_contain_text("No events were received in this range")
    page.get_by_role("link", name="Go to dashboard").click()
    page.wait_for_url(f"**/websites/{site.empty}?period=*&tz={ZONE}")


def test_a_failed_request_shows_an_error_and_can_be_retried(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    body = {"ok": False, "error": {"code": "storage_unavailable", "message": "The database cannot be reached."}}
    pattern = re.compile(r"/rejected\?")
    page.route(
        pattern,
        lambda route: route.fulfill(status=503, json=body) if "/api/" in route.request.url else route.continue_(),
    )
    page.goto(f"{site.url}/websites/{site.website}/rejected?period=30d")
    expect(page.get_by_role("alert")).to_contain_text("Rejected events cannot be shown.")
    expect(page.get_by_role("alert")).to_contain_text("The database cannot be reached.")
    page.unroute(pattern)
    page.get_by_role("button", name="Try again").click()
    loaded(page)
    page.problems.discard("503")


def test_an_open_page_is_refreshed(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(fresh=True))
    page.clock.install()
    page.goto(f"{site.url}/websites/{site.second}/rejected?period=today")
    expect(page.locator(".empty")).to_be_visible()
    wrong = {"type": "pageview", "website_id": site.second, "url": "nowhere"}
    assert site.server.request("POST", "/api/collect", wrong).status == 400

    def is_there() -> bool:
        page.clock.run_for(61_000)
        return bool(page.locator("[data-code=invalid_url]").count())

    until(is_there)
    assert figures(page) == {"invalid": 1}


def test_another_accounts_website_is_not_found(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/00000000-0000-4000-8000-000000000000/rejected")
    expect(page.get_by_role("heading", name="Website not found")).to_be_visible()


def test_share_links_show_no_rejected_events(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    answer = page.request.post(
        f"{site.url}/api/account/websites/{site.website}/share-links",
        data=LINK,
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    guest, requested = open_page(), []
    guest.on("request", lambda request: requested.append(request.url))
    guest.goto(site.url + answer.json()["data"]["path"])
    expect(guest.locator(".figure")).to_have_count(7)
    expect(guest.locator("[aria-busy=true]")).to_have_count(0)
    guest.mouse.wheel(0, 20_000)
    expect(guest.locator(".card-events tbody")).to_have_count(1)
    expect(guest.get_by_text("rejected event", exact=False)).to_have_count(0)
    assert not [url for url in requested if "/api/" in url and "rejected" in url]


# --- accessibility


@pytest.mark.parametrize("size", SIZES)
def test_accessible(shown: Shown, size: str) -> None:
    """axe-core finds no violations and the page does not scroll sideways, in both color schemes and both sizes."""
    page = shown(viewport=SIZES[size])
    assert violations_in_each_scheme(page) == []
    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations_in_each_scheme(page) == []


def test_markup_in_names_is_text(shown: Shown) -> None:
    page = shown()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Rejected events Example <img src=x")
    assert page.evaluate("window.broken") is None


def test_all_controls_are_reached_by_tab(shown: Shown) -> None:
    page = shown("period=today")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.key || document.activeElement.textContent.trim()"))
    assert {
        "period-30d",
        "reason-null",
        "reason-crawler",
        "Allowed origins",
        "export",
        "Keyboard shortcuts",
        "Overview",
    } <= reached
