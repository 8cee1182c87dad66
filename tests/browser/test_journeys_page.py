"""The journeys page: the diagram, its table and its keys, against the read API."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import OpenPage, exported_text, query_of, show_as_printed
from tests.browser.history import SampleServer

pytestmark = pytest.mark.usefixtures("journeys")


def opened(site: SampleServer, open_page: OpenPage, query: str = "", **options: Any) -> Any:
    page = site.log_in(open_page(timezone_id="UTC", **options))
    page.goto(f"{site.url}/websites/{site.website}/journeys?{query}")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page


def labels(page: Any) -> list[str]:
    return [str(one.get_attribute("aria-label")) for one in page.locator(".journey-node").all()]


def test_the_diagram_and_its_table_are_those_of_the_api(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page)
    # Without a start it is the page on which most visits begin.
    expect(page.locator(".sum")).to_have_text("40 visits with /")
    answer = site.ask("journeys?period=7d&start=pathname:/")
    assert answer["meta"]["visits"] == 40
    assert page.locator(".journey-link").count() == len(answer["data"])
    assert "/pricing, page, step 1: 20 visits, 50.0%" in labels(page)
    assert "signup, event, step 2: 10 visits, 25.0%" in labels(page)
    page.get_by_text("Table of this diagram").click()
    rows = page.locator(".series-table tbody tr")
    expect(rows).to_have_count(len(answer["data"]))
    shown = [int(one.locator("td.num").first.inner_text()) for one in rows.all()]
    assert shown == [row["visits"] for row in answer["data"]]
    assert violations(page) == []
    assert len(exported_text(page, "CSV of the journeys").splitlines()) == 1 + len(answer["data"])


def test_the_diagram_is_printed_in_full_with_its_table(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page, "start=pathname:/&steps=5")
    show_as_printed(page)
    card, diagram = page.locator(".journey-card").bounding_box(), page.locator(".journey").bounding_box()
    assert diagram["x"] + diagram["width"] < card["x"] + card["width"]
    expect(page.locator(".series-table tbody tr").last).to_be_visible()
    expect(page.locator(".series-table summary")).to_be_hidden()


def test_a_website_that_never_had_events_links_to_the_snippet(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.empty}/journeys")
    link = page.locator("main").get_by_role("link", name="add the snippet to its pages")
    expect(link).to_have_attribute("href", f"/websites/{site.empty}")
    expect(page.locator("main")).not_to_contain_text("Other days may have data.")


def test_start_direction_and_steps_are_in_the_address(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page, "period=7d")
    page.get_by_role("button", name="Page /", exact=True).click()
    dialog = page.get_by_role("dialog", name="Start of the journeys")
    dialog.get_by_label("Event", exact=True).check()
    dialog.get_by_label("Exact event name").fill("signup")
    dialog.get_by_role("button", name="Show journeys").click()
    expect(page.locator(".sum")).to_have_text("10 visits with signup")
    page.get_by_label("Direction").select_option(label="What comes before")
    page.get_by_label("Steps", exact=True).select_option(label="2 steps")
    page.wait_for_url("**steps=2**")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert {name: query_of(page)[name] for name in ("start", "direction", "steps")} == {
        "start": "event_name:signup",
        "direction": "previous",
        "steps": "2",
    }
    expect(page.locator(".journey-node").first).to_have_attribute("aria-label", "signup, event, start: 10 visits, 100%")
    assert "/pricing, page, step 1: 10 visits, 100%" in labels(page)
    assert "/, page, step 2: 10 visits, 100%" in labels(page)
    page.reload()
    expect(page.locator(".journey-node")).to_have_count(3)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_diagram_by_keyboard(site: SampleServer, open_page: OpenPage, scheme: str) -> None:
    page = opened(
        site, open_page, "period=7d&start=pathname:/", viewport={"width": 700, "height": 844}, color_scheme=scheme
    )
    page.locator(".journey-node[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    on = page.locator(".journey-node:focus")
    expect(page.locator(".journey.lit .journey-link.on")).not_to_have_count(0)
    # Up to the first node of the step, and on from it.
    for _ in range(6):
        page.keyboard.press("ArrowUp")
    expect(on).to_have_attribute("aria-label", "/pricing, page, step 1: 20 visits, 50.0%")
    expect(page.locator(".hint")).to_contain_text("20 after /")
    assert violations(page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    page.keyboard.press("Enter")
    expect(page.locator(".sum")).to_have_text("20 visits with /pricing")
    assert query_of(page)["start"] == "pathname:/pricing"


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        ("en-GB", ["Step 1: after /", "Step 2: after /pricing"]),
        ("de-DE", ["Schritt 1: nach /", "Schritt 2: nach /pricing"]),
        ("fr-FR", ["Étape 1 : après /", "Étape 2 : après /pricing"]),
        ("es-ES", ["Paso 1: después de /", "Paso 2: después de /pricing"]),
    ],
)
def test_lists_stand_in_place_of_the_diagram_on_phones(
    site: SampleServer, open_page: OpenPage, locale: str, words: list[str]
) -> None:
    """With the counts of the API; a row continues from its page, by keyboard too."""
    page = opened(site, open_page, "period=7d&start=pathname:/", viewport={"width": 390, "height": 844}, locale=locale)
    expect(page.locator(".journey-scroll")).to_be_hidden()
    data = site.ask("journeys?period=7d&start=pathname:/")["data"]
    steps = page.locator(".journey-step")
    expect(steps).to_have_count(len({(row["step"], row["from_field"], row["from_value"]) for row in data}))
    for text in words:
        expect(steps.locator("h2").get_by_text(text, exact=True)).to_have_count(1)
    counts = [int(one.inner_text().split()[0]) for one in page.locator(".journey-step .bar-count").all()]
    assert sorted(counts) == sorted(row["visits"] for row in data)
    first = steps.first.locator("button.bar").first
    expect(first).to_contain_text("/pricing")
    expect(first.locator(".bar-share")).to_contain_text("50")
    assert violations_in_each_scheme(page) == []
    first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("start=pathname:/pricing"))
    expect(steps.first.locator("h2")).to_contain_text("/pricing")


def test_filters_and_nothing_to_show(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page, "period=7d&start=pathname:/&filter_browser=Firefox")
    visits = site.ask("journeys?period=7d&start=pathname:/&filter_browser=Firefox")["meta"]["visits"]
    expect(page.locator(".sum")).to_have_text(f"{visits} visits with /")
    page.goto(f"{site.url}/websites/{site.website}/journeys?period=7d&start=pathname:/nowhere")
    expect(page.get_by_text("No visit has the page /nowhere.")).to_be_visible()
    page.goto(f"{site.url}/websites/{site.website}/journeys?from=2020-01-01&to=2020-01-02")
    expect(page.get_by_text("No visits in this range")).to_be_visible()
    page.get_by_role("link", name="Journeys", exact=True).click()
    expect(page.locator(".nav-item[aria-current=page]")).to_have_text("Journeys")
