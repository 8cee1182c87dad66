"""A goal that is chosen on the dashboard: figures, chart, sparklines, map and lists show its conversions."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import OpenPage, exported, exported_text
from tests.browser.history import SampleServer

NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def owner(site: SampleServer, open_page: OpenPage) -> Any:
    return site.log_in(open_page(timezone_id="UTC", viewport=WIDE))


@pytest.fixture
def goal(site: SampleServer, owner: Any) -> str:
    """Save a goal for a test; return its id."""
    path = f"{site.url}/api/account/websites/{site.website}/goals"
    content = {"name": "Signup", "type": "event", "match": ["filter_event_name^=signup"], "value": None}
    answer = owner.request.post(path, data=content | {"currency": None}, headers=SAME_ORIGIN)
    assert answer.status == 201, answer.text()
    return str(answer.json()["data"]["id"])


def conversions(site: SampleServer, field: str, goal: str, more: str = "") -> list[tuple[str, int]]:
    """Return the values of a list with their conversions, in the order of the API."""
    rows = site.ask(f"top/{field}?period=30d&goal={goal}&sort=conversions{more}")["data"]
    assert [row["conversions"] for row in rows] == sorted((row["conversions"] for row in rows), reverse=True)
    return [(row["value"], row["conversions"]) for row in rows]


def shown(page: Any, card: str) -> list[tuple[str, int]]:
    """Return the keys and counts of a card's rows that have a value."""
    rows = page.locator(f".card-{card} .bar").evaluate_all(
        "(rows) => rows.map((row) => [row.dataset.key, parseInt(row.querySelector('.bar-count').innerText)])"
    )
    return [(key.partition("=")[2], count) for key, count in rows if not key.endswith("=")]


def test_where_signups_came_from_takes_two_clicks(site: SampleServer, owner: Any, goal: str) -> None:
    page = owner
    page.goto(f"{site.url}/websites/{site.website}?period=12mo")
    page.get_by_role("button", name="30 d: the last 30 days").click()
    page.locator(".goal").click()
    expect(page).to_have_url(re.compile(f"period=30d.*goal={goal}"))
    total = site.ask(f"stats?period=30d&goal={goal}")["data"]
    figure = page.locator(".figures .figure").first
    expect(figure).to_have_attribute("data-value", str(total["conversions"]))
    expect(figure).to_contain_text("Conversions")
    expect(figure).to_have_attribute("aria-pressed", "true")
    expect(figure.locator("polyline").first).to_be_attached()
    expect(page.locator("[data-figure=conversion_rate]")).to_contain_text("%")
    expect(page.locator(".legend-item").first).to_contain_text("Conversions, ")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    for card, field in (("sources", "channel"), ("browsers", "browser"), ("places", "country"), ("pages", "pathname")):
        expect(page.locator(f".card-{card} .columns span").last).to_have_text("Conversions")
        assert shown(page, card) == conversions(site, field, goal)[: len(shown(page, card))], card
        assert sum(count for _, count in shown(page, card))
    # A bar is as long as its conversions are of the most.
    counts = [count for _, count in shown(page, "pages")]
    bars = page.locator(".card-pages .bar").evaluate_all(
        "(all) => all.map((one) => one.style.getPropertyValue('--bar'))"
    )
    assert [round(float(one), 6) for one in bars] == [round(count / counts[0], 6) for count in counts]
    # Names of events have no conversions.
    expect(page.locator(".card-names")).to_be_hidden()
    assert violations(page) == []


def test_a_goal_is_chosen_and_left_with_the_keyboard(site: SampleServer, owner: Any, goal: str) -> None:
    page = owner
    page.goto(f"{site.url}/websites/{site.website}?period=30d&filter_country=DE")
    page.locator(".goal").focus()
    page.keyboard.press("Enter")
    chip = page.locator(".chip", has_text="Conversions of Signup")
    expect(chip).to_be_visible()
    expect(page.locator(".goal")).to_be_focused()
    expect(page.locator(".legend-item").first).to_contain_text("Conversions, ")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert shown(page, "sources") == conversions(site, "channel", goal, "&filter_country=DE")
    # The address keeps it, and the figure on the chart.
    page.locator("[data-figure=visitors]").press("Enter")
    expect(page).to_have_url(re.compile("figure=visitors"))
    page.reload()
    expect(chip).to_be_visible()
    expect(page.locator("[data-figure=visitors]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".legend-item").first).to_contain_text("Visitors, ")
    # Escape leaves the goal, then the filter.
    page.keyboard.press("Escape")
    expect(chip).to_have_count(0)
    expect(page).not_to_have_url(re.compile("goal=|figure="))
    expect(page.locator(".figures .figure").first).to_contain_text("Visitors")
    expect(page.locator(".card-sources .columns span").last).to_have_text("Visitors")
    expect(page).to_have_url(re.compile("filter_country=DE"))
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("filter_country"))
    # So does the chip.
    page.go_back()
    page.locator(".goal").press("Enter")
    chip.get_by_role("button").press("Enter")
    expect(chip).to_have_count(0)
    expect(page.locator(".goal")).to_have_attribute("aria-pressed", "false")
    expect(page).to_have_url(re.compile("filter_country=DE"))
    # Removing everything removes it too.
    page.locator(".goal").press("Enter")
    page.get_by_role("button", name="Remove all").click()
    expect(page).not_to_have_url(re.compile("goal=|filter_"))


def test_a_chart_that_arrives_before_its_figures(site: SampleServer, owner: Any, goal: str) -> None:
    page = owner
    page.goto(f"{site.url}/websites/{site.website}?period=30d")
    held: list[Any] = []
    page.route(re.compile(r"/stats\?.*goal="), lambda route: held.append(route))
    page.locator(".goal").click()
    expect(page.locator(".legend-item").first).to_contain_text("Conversions, ")
    held[0].continue_()
    expect(page.locator(".figures .figure polyline").first).to_be_attached()
    expect(page.locator(".figures .figure").first).to_contain_text("Conversions")


def test_all_values_and_the_map_are_of_conversions(site: SampleServer, owner: Any, goal: str) -> None:
    page = owner
    page.goto(f"{site.url}/websites/{site.website}?period=30d&goal={goal}&all=pathname")
    dialog = page.get_by_role("dialog")
    rows = dialog.locator("tbody tr")
    expected = conversions(site, "pathname", goal, "&limit=1000")
    expect(rows).to_have_count(len(expected))
    heads = dialog.locator("thead th").all_inner_texts()
    assert heads[1:5] == ["Conversions", "Conversion rate here", "Value", "Visitors"]
    assert [int(row.locator("td").first.inner_text()) for row in rows.all()] == [count for _, count in expected]
    page.keyboard.press("Escape")
    page.locator(".map").scroll_into_view_if_needed()
    # The darkest of five shades, by the square root.
    counts = [count for _, count in conversions(site, "country", goal)]
    darkest = [count for count in counts if 4 * (count / counts[0]) ** 0.5 >= 3.5]
    expect(page.locator(".map .land-5")).to_have_count(len(darkest))
    assert any("top/channel" in one and "sort=conversions" in one for one in exported(page))
    page.keyboard.press("Escape")
    head = exported_text(page, "CSV of Channels").splitlines()[0]
    assert head.startswith("value,visitors,pageviews,events,conversions")


def test_a_goal_that_is_deleted_can_be_left(site: SampleServer, owner: Any) -> None:
    page = owner
    page.goto(f"{site.url}/websites/{site.website}?period=7d&goal=0123456789abcdef")
    chip = page.locator(".chip", has_text="a goal that does not exist")
    expect(chip).to_be_visible()
    expect(page.locator(".notice").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".figures .figure").first).to_contain_text("Visitors")
    expect(page.locator(".notice")).to_have_count(0)
    page.problems.discard("status of 400")


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        ("en-US", "Conversions of Signup"),
        ("de-DE", "Conversions von Signup"),
        ("fr-FR", "Conversions de Signup"),
        ("es-ES", "Conversiones de Signup"),
    ],
)
def test_the_page_of_a_goal_on_every_screen(
    locale: str, words: str, site: SampleServer, goal: str, open_page: OpenPage
) -> None:
    page = site.log_in(open_page(locale=locale, timezone_id="UTC", viewport=WIDE))
    for viewport in (WIDE, NARROW):
        page.set_viewport_size(viewport)
        page.goto(f"{site.url}/websites/{site.website}?period=30d&goal={goal}")
        expect(page.locator(".chip", has_text=words)).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert violations_in_each_scheme(page) == []
