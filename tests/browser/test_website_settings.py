"""The settings of a website in a real Chromium: an index of sections, a page each, one Save for several fields."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.history import EMAIL, IMG, PASSWORD, SampleServer, sample_server

NAME = f"Example {IMG}"
SECTIONS = {
    "": "General",
    "/tracking": "Tracking",
    "/goals": "Goals",
    "/alerts": "Alerts",
    "/sharing": "Sharing",
    "/exclusions": "Exclusions",
    "/data": "Data",
    "/danger": "Danger zone",
}
WORDS = {
    "en-GB": ["General", "Danger zone", "Save settings"],
    "de-DE": ["Allgemein", "Gefahrenbereich", "Einstellungen speichern"],
    "fr-FR": ["Général", "Zone de danger", "Enregistrer les paramètres"],
    "es-ES": ["General", "Zona de peligro", "Guardar configuración"],
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    with sample_server(tmp_path_factory.mktemp("settings")) as one:
        yield one


@pytest.fixture
def settings(site: SampleServer) -> str:
    return f"{site.url}/websites/{site.website}/settings"


def test_sections_are_reached_by_keyboard(site: SampleServer, settings: str, open_page: OpenPage) -> None:
    """The index marks the section, each has an address, and the range of the dashboard is kept."""
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.website}?period=7d")
    page.get_by_role("link", name="Settings", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Settings of")
    links = page.locator(".section-tabs a")
    expect(links).to_have_text(list(SECTIONS.values()))
    for end, title in reversed(SECTIONS.items()):
        links.filter(has_text=title).focus()
        page.keyboard.press("Enter")
        expect(page.locator(".section-tabs [aria-current=page]")).to_have_text(title)
        expect(page).to_have_url(re.compile(rf"{settings}{end}\?period=7d"))
        expect(page).to_have_title(f"{title} · Settings of {NAME} · Tally")
        expect(page.locator(".sidebar [aria-current=page]")).to_have_text("Settings")
    page.go_back()
    expect(page.locator(".section-tabs [aria-current=page]")).to_have_text("Tracking")
    page.get_by_role("link", name="Dashboard").click()
    expect(page).to_have_url(re.compile(rf"/{site.website}\?period=7d"))


@pytest.mark.parametrize("width", [390, 1280])
def test_each_section_is_accessible(site: SampleServer, settings: str, open_page: OpenPage, width: int) -> None:
    page = site.log_in(open_page(viewport={"width": width, "height": 900}))
    for end in SECTIONS:
        page.goto(settings + end)
        expect(page.locator(".settings-parts .card").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert violations_in_each_scheme(page) == [], end


@pytest.mark.parametrize("locale", WORDS)
def test_in_each_language(site: SampleServer, settings: str, open_page: OpenPage, locale: str) -> None:
    for width in (390, 1280):
        page = site.log_in(open_page(locale=locale, viewport={"width": width, "height": 900}))
        page.goto(settings)
        for word in WORDS[locale]:
            expect(page.locator("#main").get_by_text(word, exact=True).first).to_be_visible()
        assert violations_in_each_scheme(page) == []


def test_the_address_of_before_leads_to_the_settings(site: SampleServer, settings: str, open_page: OpenPage) -> None:
    """Also where the login comes first; and the back button does not lead to it again."""
    page = open_page()
    page.goto(f"{site.url}/websites/{site.website}#settings")
    page.get_by_label("Email", exact=True).fill(EMAIL)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(settings)
    expect(page.get_by_role("button", name="Save settings")).to_be_visible()
    page.goto(f"{site.url}/websites/{site.website}/events")
    page.evaluate("location.hash = ''")
    page.goto(f"{site.url}/websites/{site.website}?period=7d#settings")
    page.wait_for_url(f"{settings}?period=7d")
    page.go_back()
    expect(page.get_by_role("heading", name="Events", level=1)).to_be_visible()
    page.problems.discard("status of 401")


def test_one_save_stores_all_general_settings(site: SampleServer, settings: str, open_page: OpenPage) -> None:
    """One request; a field that is refused keeps all others; the focus stays at the button."""
    page = site.log_in(open_page())
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.method == "PATCH" else None)
    page.goto(settings)
    expect(page.get_by_role("main").locator("[type=submit]")).to_have_count(1)
    page.get_by_label("Name", exact=True).fill("Another name")
    page.get_by_label("Weeks begin on").select_option(label="Sunday")
    page.get_by_label("Currency").fill("e1r")
    save = page.get_by_role("button", name="Save settings")
    save.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Currency")).to_be_focused()
    page.reload()
    expect(page.get_by_label("Name", exact=True)).to_have_value(NAME)
    page.get_by_label("Name", exact=True).fill("Another name")
    page.get_by_label("Weeks begin on").select_option(label="Sunday")
    page.get_by_label("Currency").fill("chf")
    save.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Settings saved.")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings of Another name")
    expect(save).to_be_focused()
    page.reload()
    expect(page.get_by_label("Currency")).to_have_value("CHF")
    expect(page.get_by_label("Weeks begin on")).to_have_value("sunday")
    assert len(sent) == 2
    page.problems.discard("status of 400")


def test_the_plan_of_ones_own_server_is_not_shown(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    for path in ("/account/plan", "/account", "/account/keys", "/"):
        page.goto(site.url + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.locator(".user-menu summary").click()
        expect(page.locator(".user-menu").get_by_role("link", name="Usage", exact=True)).to_be_visible()
        expect(page.locator("body")).not_to_contain_text("business")
        expect(page.get_by_text("Plan", exact=True)).to_have_count(0)
    page.goto(f"{site.url}/account/plan")
    expect(page.get_by_role("heading", name="Usage", level=1)).to_be_visible()
    expect(page.get_by_text("No limit.")).to_be_visible()
