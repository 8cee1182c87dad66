"""The pages in the browser's language, and in one that is chosen in the user menu, in a real Chromium."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations
from tests.browser.browsers import OpenPage
from tests.browser.history import SampleServer

HTML = "html"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/login", ["Anmelden", "Passwort vergessen?"]),
        ("/websites/{website}?period=7d", ["Übersicht", "Besucher", "Absprungrate", "Tastenkürzel"]),
        ("/websites/{website}/settings/tracking", ["Einstellungen", "Zugelassene Ursprünge", "Ziele"]),
        ("/account/plan", ["Nutzung", "Dieser Monat"]),
    ],
)
def test_pages_follow_the_language_of_the_browser(
    path: str, words: list[str], site: SampleServer, open_page: OpenPage
) -> None:
    page = open_page(locale="de-DE")
    if path != "/login":
        site.log_in(page)
    page.goto(site.url + path.format(website=site.website))
    for text in words:
        expect(page.get_by_text(text).locator("visible=true").first).to_be_visible()
    expect(page.locator(HTML)).to_have_attribute("lang", "de")
    assert violations(page) == []


def test_the_dashboard_loads_only_the_texts_that_it_shows(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(locale="es-MX"))
    page.goto(f"{site.url}/websites/{site.website}?period=7d")
    expect(page.locator("canvas")).to_have_count(1)
    expect(page.locator(".changes-card h2")).to_be_visible()
    loaded = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    texts = {found[1] for url in loaded if (found := re.search(r"/assets/messages/(.*)\.json$", url))}
    assert texts - {"es/goals"} == {"es/shared", "es/dashboard", "es/changes"}


def test_numbers_durations_and_dates_are_written_as_in_the_language(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(locale="de-DE"))
    page.goto(f"{site.url}/websites/{site.website}?from=2026-01-05&to=2026-01-11")
    expect(page.locator(".when-days")).to_have_text(re.compile(r"Jan\. 2026$"))
    duration = page.evaluate("import('/assets/shared/formats.js').then((formats) => formats.duration(112))")
    assert duration == "1\u00a0min 52\u00a0s"


def test_other_languages_get_english_words(site: SampleServer, open_page: OpenPage) -> None:
    page = open_page(site.url + "/login", locale="ja-JP")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    expect(page.locator(HTML)).to_have_attribute("lang", "en")


def picker(page: Any, label: str) -> Any:
    page.locator(".user-menu summary").press("Enter")
    return page.get_by_label(label, exact=True)


def test_a_language_is_chosen_with_the_keyboard_and_kept(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(locale="en-US"))
    page.goto(site.url + "/account")
    select = picker(page, "Language")
    expect(select.locator("option")).to_have_text(["Browser's language", "English", "Deutsch", "Français", "Español"])
    for _ in range(20):
        page.keyboard.press("Tab")
        if select.evaluate("(select) => select === document.activeElement"):
            break
    assert violations(page) == []
    page.keyboard.press("f")
    expect(page.get_by_role("heading", name="Compte")).to_be_visible()
    expect(page.locator(HTML)).to_have_attribute("lang", "fr")
    page.goto(site.url + "/account/plan")
    expect(page.get_by_role("heading", name="Utilisation", exact=True)).to_be_visible()
    select = picker(page, "Langue")
    expect(select).to_have_value("fr")
    assert violations(page) == []
    # "" is the language of the browser.
    select.select_option("")
    expect(page.get_by_role("heading", name="Usage")).to_be_visible()
    assert page.evaluate("localStorage.getItem('tally.language')") is None
