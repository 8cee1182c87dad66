"""The page of funnels, in a real Chromium: its steps are in the address, its figures are the read API's.

The visits are sent through collect (journeys.py): 40 have /, 20 of these /pricing, 10 of these sign up.
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import SIZES, OpenPage, exported_text, range_query
from tests.browser.history import IMG, SampleServer

THREE = ["pathname:/", "pathname:/pricing", "event_name:signup"]
Shown = Callable[..., Any]


pytestmark = pytest.mark.usefixtures("journeys")


@pytest.fixture
def shown(site: SampleServer, open_page: OpenPage) -> Shown:
    """Return a function that opens the page with some steps and waits until it is loaded."""

    def show(steps: list[str] = THREE, more: str = "", **options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{site.website}/funnels?{step_query(steps)}{more}")
        return loaded(page, len(steps))

    return show


def step_query(steps: list[str]) -> str:
    return "&".join(f"step={step}" for step in steps)


def loaded(page: Any, steps: int) -> Any:
    expect(page.locator(".step")).to_have_count(steps)
    expect(page.locator(".step[data-visits='']")).to_have_count(0)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def steps_of(page: Any) -> list[str]:
    """Return the steps in the address."""
    return [value for name, value in parse_qsl(urlsplit(page.url).query) if name == "step"]


def names(page: Any) -> list[str]:
    """Return the names of the steps on the page."""
    return [one.inner_text() for one in page.locator(".step-name bdi").all()]


def visits(page: Any) -> list[int]:
    return [int(one.get_attribute("data-visits")) for one in page.locator(".step").all()]


# --- figures


def test_bars_sentences_and_table_are_those_of_the_read_api(site: SampleServer, shown: Shown) -> None:
    page = shown()
    rows = site.ask(f"funnel?{range_query()}&{step_query(THREE)}")["data"]
    assert [row["visits"] for row in rows] == visits(page) == [40, 20, 10]
    expect(page.locator(".sum")).to_have_text("25.0% completed: 10 of 40 visits that reached the first step.")
    words = [one.inner_text() for one in page.locator(".step-between").all()]
    assert words == [
        "20 of 40 visits (50.0%) continued, after 30 s on average; 20 dropped off.",
        "10 of 20 visits (50.0%) continued, after 1 m 0 s on average; 10 dropped off.",
    ]
    everything = site.ask(f"stats?{range_query()}")["data"]["visits"]
    expect(page.locator(".step-figures").first).to_contain_text(f"of all {everything} visits")
    expect(page.locator(".step-figures").last).to_contain_text("25.0% of the first step")
    page.get_by_text("Table of this funnel").click()
    table = [[cell.inner_text() for cell in row.locator("td").all()] for row in page.locator("tbody tr").all()]
    assert table == [
        ["40", "0", "40", "100%", "", "", ""],
        ["20", "0", "20", "50.0%", "50.0%", "20", "30 s"],
        ["10", "0", "10", "25.0%", "50.0%", "10", "1 m 0 s"],
    ]
    width = "(bar) => ['--now', '--before'].map((name) => Number(bar.style.getPropertyValue(name)))"
    assert [bar.evaluate(width) for bar in page.locator(".step-bar").all()] == [[1, 1], [0.5, 1], [0.25, 0.5]]


def test_the_largest_drop_off_is_marked(shown: Shown) -> None:
    page = shown(["pathname:/", "pathname:/pricing", "event_name:download"])
    assert visits(page) == [40, 20, 4]
    expect(page.locator(".badge.lost")).to_have_count(1)
    expect(page.locator(".step").last).to_contain_text("Largest drop-off")


def test_small_shares_are_not_rounded_to_none_or_all(shown: Shown) -> None:
    page = shown(THREE[:2])
    words = page.evaluate(
        "async ([all, few, most]) => {"
        " const { betweenWords, summaryWords } = await import('/assets/funnels/funnel_chart.js');"
        " return [betweenWords(all, few), betweenWords(all, most), summaryWords([all, few])[0]]; }",
        [
            {"visits": visits, "of_first": share, "of_previous": share, "mean_seconds": seconds}
            for visits, share, seconds in ((200_000, 100, None), (1, 0, 61), (199_999, 100, None))
        ],
    )
    assert words == [
        "1 of 200,000 visits (<0.1%) continued, after 1 m 1 s on average; 199,999 dropped off.",
        "199,999 of 200,000 visits (>99.9%) continued; 1 dropped off.",
        "<0.1% completed:",
    ]


def test_steps_without_visits(shown: Shown) -> None:
    page = shown(["event_name:signup", "pathname:/", "pathname:/none"])
    assert visits(page) == [10, 0, 0]
    texts = page.locator(".step-between")
    expect(texts.first).to_have_text("None of 10 visits continued.")
    expect(texts.last).to_have_text("No visits reached the step before.")
    nobody = shown(["pathname:/none", "pathname:/"])
    expect(nobody.locator(".sum")).to_contain_text("No visits reached the first step")


def test_filters_and_days_apply(site: SampleServer, shown: Shown) -> None:
    page = shown(more="&filter_browser=Firefox")
    rows = site.ask(f"funnel?{range_query(more='&filter_browser=Firefox')}&{step_query(THREE)}")["data"]
    assert visits(page) == [row["visits"] for row in rows] == [10, 10, 10]
    page.keyboard.press("1")
    expect(page.locator(".dash-range .segment[aria-pressed=true]")).to_have_text("Today")
    expect(page.locator(".sum")).to_contain_text("No visits reached the first step")
    assert steps_of(page) == THREE


def test_csv(shown: Shown) -> None:
    page = shown()
    lines = exported_text(page, "CSV of the funnel").splitlines()
    assert lines[0].startswith("field,value,visits,visitors,of_first,of_previous,mean_seconds")
    assert len(lines) == 4


# --- steps in the address


def test_steps_are_added_changed_moved_and_removed_by_buttons(shown: Shown) -> None:
    page = shown(THREE[:2])
    page.get_by_role("button", name="Add step").click()
    dialog = page.get_by_role("dialog", name="Step 3")
    dialog.get_by_label("Event", exact=True).check()
    dialog.locator(".bar", has_text="signup").click()
    loaded(page, 3)
    assert steps_of(page) == THREE
    page.get_by_role("button", name="Move up: signup").click()
    expect(page.locator(".step-name bdi").nth(1)).to_have_text("signup")
    loaded(page, 3)
    assert steps_of(page) == [THREE[0], THREE[2], THREE[1]]
    assert visits(page) == [40, 10, 0]
    page.get_by_role("button", name="Remove this step: signup").click()
    loaded(page, 2)
    assert steps_of(page) == THREE[:2]
    page.locator(".step-name").first.click()
    dialog = page.get_by_role("dialog", name="Step 1")
    expect(dialog.get_by_label("Exact path")).to_have_value("/")
    expect(dialog.locator(".bar")).to_have_count(2)
    dialog.get_by_label("Exact path").fill("https://second.example/pricing?x=1")
    dialog.get_by_role("button", name="Change step").click()
    expect(page.locator(".step-name bdi").first).to_have_text("/pricing")
    assert steps_of(page) == ["pathname:/pricing", "pathname:/pricing"]
    for expected in (THREE[:2], [THREE[0], THREE[2], THREE[1]], THREE):
        page.go_back()
        expect(page.locator(".step-name bdi")).to_have_text([step.partition(":")[2] for step in expected])
        assert steps_of(page) == expected


def test_steps_are_edited_by_keyboard_and_the_focus_follows(shown: Shown) -> None:
    page = shown()
    page.locator(".step-name").last.focus()
    page.keyboard.press("Alt+ArrowUp")
    expect(page.locator(".step-name bdi").nth(1)).to_have_text("signup")
    loaded(page, 3)
    page.keyboard.press("Alt+ArrowUp")
    expect(page.locator(".step-name bdi").first).to_have_text("signup")
    loaded(page, 3)
    assert page.evaluate("document.activeElement.textContent") == "Event signup"
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Alt+ArrowDown")
    expect(page.locator(".step-name bdi").nth(1)).to_have_text("signup")
    page.keyboard.press("Delete")
    loaded(page, 2)
    assert steps_of(page) == ["pathname:/", "pathname:/pricing"]
    page.keyboard.press("a")
    expect(page.get_by_role("dialog", name="Step 3")).to_be_visible()
    page.keyboard.type("typed/by hand")
    page.keyboard.press("Enter")
    loaded(page, 3)
    assert steps_of(page)[-1] == "pathname:/typed/by hand"
    expect(page.locator(".step-figures").last).to_contain_text("0 visits")


def test_a_link_shows_the_same_funnel(shown: Shown, open_page: OpenPage, site: SampleServer) -> None:
    page = shown([*THREE, "event_name:a:b", "event_name:" + "%2Bx%26y"])
    other = site.log_in(open_page())
    other.goto(page.url)
    loaded(other, 5)
    assert names(other) == names(page) == ["/", "/pricing", "signup", "a:b", "+x&y"]
    assert visits(other) == visits(page)
    assert other.url == page.url


def test_invalid_steps_are_ignored_and_eight_is_the_maximum(
    shown: Shown, site: SampleServer, open_page: OpenPage
) -> None:
    page = site.log_in(open_page())
    wrong = ["colour:red", "pathname", "pathname:", ":x", *[f"pathname:/{n}" for n in range(9)]]
    page.goto(f"{site.url}/websites/{site.website}/funnels?{step_query(wrong)}")
    loaded(page, 8)
    assert steps_of(page) == [f"pathname:/{n}" for n in range(8)]
    expect(page.get_by_role("button", name="Add step")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("A funnel has a maximum of 8 steps.")


# --- empty pages and failures


def test_without_steps_a_funnel_is_proposed(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.website}/funnels")
    expect(page.locator(".proposal")).to_have_text("Page / then Event signup")
    assert violations(page) == []
    page.get_by_role("button", name="Show funnel").click()
    loaded(page, 2)
    assert steps_of(page) == ["pathname:/", "event_name:signup"]
    assert visits(page) == [40, 10]
    page.get_by_role("button", name="Remove this step: signup").click()
    expect(page.locator("main")).to_contain_text("Add another step to see the funnel.")
    page.go_back()
    loaded(page, 2)


def test_a_website_without_events(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.empty}/funnels")
    expect(page.get_by_role("heading", name="Build a funnel")).to_be_visible()
    page.get_by_role("button", name="Choose first step").click()
    expect(page.get_by_role("dialog")).to_contain_text("No pageviews in this range.")
    assert violations(page) == []


def test_a_failed_request_shows_an_error_and_keeps_the_steps(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    pattern = re.compile(r"/api/account/websites/[^/]+/funnel\?")
    body = {"ok": False, "error": {"code": "query_timeout", "message": "The query took too long."}}
    page.route(pattern, lambda route: route.fulfill(status=503, json=body))
    page.goto(f"{site.url}/websites/{site.website}/funnels?{step_query(THREE)}")
    notice = page.locator(".notice", has_text="The funnel cannot be shown.")
    expect(notice).to_contain_text("The query took too long.")
    assert names(page) == ["/", "/pricing", "signup"]
    assert violations(page) == []
    page.unroute(pattern)
    notice.get_by_role("button", name="Try again").click()
    loaded(page, 3)
    expect(notice).to_have_count(0)
    page.problems.discard("status of 503")


# --- accessibility


@pytest.mark.parametrize("size", SIZES)
def test_accessible(shown: Shown, size: str) -> None:
    """axe-core finds no violations and the page does not scroll sideways, in both color schemes and both sizes."""
    page = shown([*THREE, f"event_name:{IMG}"], viewport=SIZES[size])
    page.get_by_text("Table of this funnel").click()
    assert violations_in_each_scheme(page) == []
    assert page.locator("main img").count() == 0
    page.get_by_role("button", name="Add step").click()
    expect(page.locator("dialog .bar")).to_have_count(2)
    assert violations_in_each_scheme(page) == []
