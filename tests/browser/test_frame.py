"""The frame of every page behind the login, in a real Chromium: website switcher, user menu, sidebar, themes."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.history import SampleServer

Opened = Callable[..., Any]
LIGHT, DARK = "rgb(245, 244, 240)", "rgb(19, 20, 18)"


@pytest.fixture
def opened(site: SampleServer, open_page: OpenPage) -> Opened:
    """Return a function that opens the dashboard of the first website."""

    def show(**options: Any) -> Any:
        page = site.log_in(open_page(**options))
        page.goto(f"{site.url}/websites/{site.website}?period=7d")
        expect(page.locator("canvas")).to_have_count(1)
        return page

    return show


def choose_theme(page: Any, name: str) -> None:
    page.locator(".user-menu summary").click()
    page.get_by_role("group", name="Theme").get_by_role("button", name=name).click()
    page.keyboard.press("Escape")


def test_a_selected_theme_overrides_the_system_and_is_stored(opened: Opened) -> None:
    page = opened(color_scheme="light")
    canvas = page.locator("canvas").evaluate("(canvas) => canvas.toDataURL()")
    choose_theme(page, "Dark")
    expect(page.locator("body")).to_have_css("background-color", DARK)
    page.wait_for_function("(light) => document.querySelector('canvas').toDataURL() !== light", arg=canvas)
    page.reload()
    expect(page.locator("canvas")).to_have_count(1)
    expect(page.locator("body")).to_have_css("background-color", DARK)
    choose_theme(page, "System")
    expect(page.locator("body")).to_have_css("background-color", LIGHT)
    assert page.evaluate("localStorage.length") == 0
    page.emulate_media(color_scheme="dark")
    expect(page.locator("body")).to_have_css("background-color", DARK)
    choose_theme(page, "Light")
    expect(page.locator("body")).to_have_css("background-color", LIGHT)


def test_the_theme_is_applied_before_the_page_is_drawn(opened: Opened) -> None:
    page = opened(color_scheme="light")
    choose_theme(page, "Dark")
    page.route("**/assets/app.js", lambda route: route.abort())
    page.reload(wait_until="commit")
    page.wait_for_function("() => document.body !== null")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator("#app *").count() == 0
    page.problems.discard("ERR_FAILED")


@pytest.mark.parametrize(
    ("path", "locale", "width", "title"),
    [
        ("/account/nope", "en-GB", 1280, "Page not found"),
        ("/account/websites", "de-DE", 390, "Seite nicht gefunden"),
        ("/nope", "fr-FR", 1280, "Page introuvable"),
        ("/websites/nope/", "es-ES", 390, "Página no encontrada"),
    ],
)
def test_an_unknown_address_shows_that_there_is_no_page(
    site: SampleServer, opened: Opened, open_page: OpenPage, path: str, locale: str, width: int, title: str
) -> None:
    """In the frame for who is signed in, and alone for others."""
    page = opened(locale=locale, viewport={"width": width, "height": 844})
    page.goto(site.url + path)
    expect(page.locator("main").get_by_role("heading", level=1)).to_have_text(title)
    expect(page).to_have_title(f"{title} · Tally")
    expect(page.locator(".sidebar .switcher")).to_have_count(1)
    assert violations_in_each_scheme(page) == []
    page.locator("main a").press("Enter")
    expect(page).to_have_url(site.url + "/")
    expect(page.locator(".website-card").first).to_be_visible()
    page.go_back()
    expect(page.locator("main").get_by_role("heading", level=1)).to_have_text(title)
    guest = open_page(locale="en-GB")
    guest.goto(site.url + path)
    expect(guest.get_by_role("heading", level=1)).to_have_text("Page not found")
    expect(guest.locator(".sidebar")).to_have_count(0)
    for one in (page, guest):
        one.problems.discard("status of 404")


def test_print_has_the_light_theme(opened: Opened) -> None:
    page = opened(color_scheme="light")
    choose_theme(page, "Dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(29, 28, 25)"


def test_websites_are_switched_by_keyboard_with_a_search(site: SampleServer, opened: Opened) -> None:
    page = opened()
    switcher = page.locator(".switcher")
    names = switcher.locator(".switcher-list a")
    switcher.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Search websites")).to_be_focused()
    expect(names).to_have_count(3)
    expect(switcher.locator("[aria-current=true]")).to_have_attribute("href", f"/websites/{site.website}")
    page.keyboard.type("nothing like this")
    expect(switcher).to_contain_text("No matches.")
    page.keyboard.press("Escape")
    expect(switcher.locator("summary")).to_be_focused()
    page.keyboard.press("Enter")
    other = names.nth(1)
    expect(other).to_be_visible()
    there = other.get_attribute("href")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(other).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_function("(there) => location.pathname === there", arg=there)
    expect(switcher.locator(".menu-items")).not_to_be_visible()


def test_the_sidebar_links_to_all_pages_of_the_website(site: SampleServer, opened: Opened) -> None:
    page = opened()
    column = page.locator(".sidebar")
    expect(column.locator("[aria-current=page]")).to_have_text("Overview")
    column.get_by_role("link", name="Settings").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Settings of")
    expect(column.locator("[aria-current=page]")).to_have_text("Settings")
    column.locator(".user-menu summary").click()
    column.get_by_role("link", name="Account").click()
    expect(page.get_by_role("heading", name="Account", exact=True)).to_be_visible()
    expect(column.locator(".switcher summary")).to_have_text("All websites")


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_axe_finds_nothing_in_the_menus(opened: Opened, width: int) -> None:
    page = opened(viewport={"width": width, "height": 900})
    if width <= 860:
        page.get_by_role("button", name="Menu").click()
    for name in (".switcher", ".user-menu"):
        page.locator(f"{name} summary").click()
        expect(page.locator(f"{name} .menu-items")).to_be_visible()
        assert violations_in_each_scheme(page, target_size=False) == []
        page.keyboard.press("Escape")
