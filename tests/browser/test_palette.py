"""The search over everything (Ctrl K): pages, websites, ranges, filters by words, segments, goals, settings."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.history import SampleServer

NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def owner(site: SampleServer, open_page: OpenPage) -> Any:
    return site.log_in(open_page(timezone_id="UTC", viewport=WIDE))


def search(page: Any, words: str) -> Any:
    """Open the search and type; return its dialog."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("combobox")).to_be_focused()
    page.keyboard.type(words)
    return dialog


def options(dialog: Any, group: str) -> Any:
    return dialog.get_by_role("group", name=group).get_by_role("option")


def test_words_are_filters_that_are_shown_before_they_are_applied(site: SampleServer, owner: Any) -> None:
    page = owner
    page.goto(f"{site.url}/websites/{site.website}?period=30d")
    expect(page.locator(".figures .figure").first).to_be_visible()
    dialog = search(page, "germany mobile google")
    first = options(dialog, "Filters").first
    expect(first.locator(".palette-filter")).to_have_text(
        ["Country is Germany", "Device is Mobile", "Referrer is google.com"]
    )
    expect(first).to_have_attribute("aria-selected", "true")
    expect(page.locator(".chip-remove")).to_have_count(0)
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page.locator(".chip-remove")).to_have_count(3)
    expect(page).to_have_url(re.compile("filter_country=DE&filter_device=mobile&filter_referrer=google.com"))
    # What is not a value is said, and two values of a field are one filter.
    dialog = search(page, "japan france nowhere")
    expect(options(dialog, "Filters").first).to_have_text("Country is Japan or France")
    expect(dialog.get_by_text("Not a value of this range: nowhere")).to_be_visible()
    # A country without visitors is no mistake.
    dialog.get_by_role("combobox").fill("iceland")
    expect(options(dialog, "Filters").first).to_have_text("Country is Iceland")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator(".chip-remove")).to_have_count(3)


def test_enter_waits_for_the_values(site: SampleServer, owner: Any) -> None:
    page = owner
    page.route("**/top?fields=*limit=300*", lambda route: (page.wait_for_timeout(300), route.continue_()))
    page.goto(f"{site.url}/websites/{site.website}?period=7d")
    expect(page.locator(".figures .figure").first).to_be_visible()
    search(page, "japan")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("filter_country=JP"))


def test_pages_websites_ranges_and_settings_are_opened_by_keyboard(site: SampleServer, owner: Any) -> None:
    page = owner
    page.goto(f"{site.url}/websites/{site.website}?period=30d&filter_country=DE")
    expect(page.locator(".figures .figure").first).to_be_visible()
    search(page, "funnels")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/funnels\?period=30d.*filter_country=DE"))
    dialog = search(page, "last 12 months")
    expect(options(dialog, "Ranges")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("period=12mo"))
    dialog = search(page, "second.exa")
    expect(options(dialog, "Websites")).to_have_count(1)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/websites/{site.second}.*period=12mo"))
    search(page, "share link")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/websites/{site.second}/settings/sharing"))
    # On pages without a website too.
    search(page, "api keys")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/account/keys$"))
    dialog = search(page, "qqqq")
    expect(dialog.get_by_text("Nothing found.")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()


def test_goals_segments_and_fields(site: SampleServer, owner: Any) -> None:
    page = owner
    base = f"{site.url}/api/account/websites/{site.website}"
    goal = {"name": "Signup", "type": "event", "match": ["filter_event_name^=signup"], "value": None, "currency": None}
    made = {
        "goals": page.request.post(f"{base}/goals", data=goal, headers=SAME_ORIGIN).json()["data"]["id"],
        "segments": page.request.post(
            f"{base}/segments", data={"name": "Readers", "filters": ["filter_pathname^=/blog"]}, headers=SAME_ORIGIN
        ).json()["data"]["id"],
    }
    page.goto(f"{site.url}/websites/{site.website}/journeys?period=30d")
    dialog = search(page, "conversions signup")
    expect(options(dialog, "Goals")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/websites/{site.website}.*period=30d.*goal={made['goals']}"))
    expect(page.locator(".figures .figure").first).to_contain_text("Conversions")
    dialog = search(page, "readers")
    expect(options(dialog, "Segments")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"segment={made['segments']}.*goal={made['goals']}"))
    search(page, "filter by operating")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Field")).to_have_value("os")
    # A dialog is not covered by another one.
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_have_count(1)
    page.keyboard.press("Escape")
    # The help names the keys.
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("CtrlK")


def test_the_search_is_loaded_at_its_first_use(site: SampleServer, owner: Any) -> None:
    page = owner
    page.goto(f"{site.url}/websites/{site.website}")
    expect(page.locator(".figures .figure").first).to_be_visible()
    loaded = "performance.getEntriesByType('resource').filter(({ name }) => /palette/.test(name)).length"
    assert page.evaluate(loaded) == 0
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()
    assert page.evaluate(loaded) > 0


@pytest.mark.parametrize(
    ("locale", "typed", "words"),
    [
        ("en-US", "germany mobile", "Country is Germany"),
        ("de-DE", "deutschland mobil", "Land ist Deutschland"),
        ("fr-FR", "allemagne mobile", "Allemagne"),
        ("es-ES", "alemania móvil", "Alemania"),
    ],
)
def test_the_search_in_every_language(
    locale: str, typed: str, words: str, site: SampleServer, open_page: OpenPage
) -> None:
    page = site.log_in(open_page(locale=locale, timezone_id="UTC", viewport=WIDE))
    for viewport in (WIDE, NARROW):
        page.set_viewport_size(viewport)
        page.goto(f"{site.url}/websites/{site.website}?period=30d")
        expect(page.locator(".figures .figure").first).to_be_visible()
        dialog = search(page, typed)
        chips = dialog.get_by_role("option").first.locator(".palette-filter")
        expect(chips).to_have_count(2)
        expect(chips.first).to_contain_text(words)
        assert violations_in_each_scheme(page) == []
