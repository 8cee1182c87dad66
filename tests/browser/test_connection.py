"""Pages without a connection to the server: one banner, which goes away by itself when the connection is back."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import SIZES, OpenPage
from tests.browser.history import SampleServer

BANNER = ".connection"


def opened(site: SampleServer, open_page: OpenPage, **options: Any) -> Any:
    page = site.log_in(open_page(fresh=True, timezone_id="UTC", **options))
    page.goto(f"{site.url}/websites/{site.website}?period=7d")
    loaded(page)
    page.evaluate("window.isSame = true")
    return page


def loaded(page: Any) -> None:
    expect(page.locator(".figure")).to_have_count(7)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    expect(page.locator(BANNER)).to_have_count(0)


def visitors(site: SampleServer, period: str) -> str:
    return str(site.ask(f"stats?period={period}&tz=UTC")["data"]["visitors"])


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_one_banner_that_goes_away_by_itself(site: SampleServer, open_page: OpenPage, size: dict[str, int]) -> None:
    page = opened(site, open_page, viewport=size)
    page.context.set_offline(True)
    page.keyboard.press("3")
    expect(page.locator(BANNER)).to_have_text(
        "No connection to the serverThe page goes on by itself when it is back.Try again"
    )
    # Figures of another range are dimmed, and no card has an error of its own.
    expect(page.locator(".notice")).to_have_count(1)
    expect(page.locator(".figures-place")).to_have_attribute("aria-busy", "true")
    # What is dimmed has little contrast, as in each load.
    page.evaluate("for (const one of document.querySelectorAll('[aria-busy]')) one.removeAttribute('aria-busy')")
    assert violations_in_each_scheme(page) == []

    # By keyboard, too early: the banner stays, still once.
    again = page.get_by_role("button", name="Try again")
    again.focus()
    with page.expect_event("requestfailed"):
        page.keyboard.press("Enter")
    page.keyboard.press("2")
    expect(page.locator(BANNER)).to_have_count(1)
    page.keyboard.press("3")

    page.context.set_offline(False)
    loaded(page)
    expect(page.locator(".notice")).to_have_count(0)
    expect(page.locator("[data-figure=visitors]")).to_have_attribute("data-value", visitors(site, "30d"))
    expect(page.locator("#main")).to_be_focused()
    assert page.evaluate("window.isSame")
    page.problems.discard("ERR_INTERNET_DISCONNECTED")


def test_a_proxy_without_its_server_is_no_connection(site: SampleServer, open_page: OpenPage) -> None:
    page = opened(site, open_page)
    page.route("**/api/**", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    page.keyboard.press("3")
    expect(page.locator(BANNER)).to_be_visible()
    expect(page.locator(".notice")).to_have_count(1)
    page.unroute("**/api/**")
    page.get_by_role("button", name="Try again").click()
    loaded(page)
    expect(page.locator("[data-figure=visitors]")).to_have_attribute("data-value", visitors(site, "30d"))
    page.problems.discard("status of 502")


def test_a_request_that_alone_fails_is_the_error_of_its_card(site: SampleServer, open_page: OpenPage) -> None:
    """For example one that an extension of the browser blocks: the banner would come back for ever."""
    page = opened(site, open_page)
    pattern = re.compile(r"/stats\?")
    page.route(pattern, lambda route: route.abort())
    page.keyboard.press("3")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(BANNER)).to_have_count(0)
    expect(page.locator(".notice")).to_contain_text("The key figures cannot be shown.")
    page.unroute(pattern)
    page.problems.discard("ERR_FAILED")


def test_a_page_that_is_opened_without_a_connection_appears_when_it_is_back(
    site: SampleServer, open_page: OpenPage
) -> None:
    page = opened(site, open_page)
    page.get_by_role("link", name="Events", exact=True).click()
    expect(page.locator(".names .bar").first).to_be_visible()
    page.context.set_offline(True)
    page.get_by_role("link", name="Overview", exact=True).click()
    expect(page.locator(BANNER)).to_be_visible()
    page.context.set_offline(False)
    loaded(page)
    assert page.evaluate("window.isSame")
    page.problems.discard("ERR_INTERNET_DISCONNECTED")


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        ("de-DE", "Keine Verbindung zum Server"),
        ("fr-FR", "Pas de connexion au serveur"),
        ("es-ES", "Sin conexión con el servidor"),
    ],
)
def test_the_banner_is_in_the_language_of_the_page(
    site: SampleServer, open_page: OpenPage, locale: str, words: str
) -> None:
    page = opened(site, open_page, locale=locale, viewport={"width": 390, "height": 844})
    page.context.set_offline(True)
    page.keyboard.press("3")
    expect(page.locator(BANNER)).to_contain_text(words)
    assert page.locator(BANNER).evaluate("one => one.scrollWidth <= one.clientWidth")
    page.context.set_offline(False)
    loaded(page)
    page.problems.discard("ERR_INTERNET_DISCONNECTED")


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_the_banner_is_in_front_of_an_open_dialog(
    site: SampleServer, open_page: OpenPage, size: dict[str, int]
) -> None:
    """It can be used there, and stays when the dialog is closed."""
    page = opened(site, open_page, viewport=size)
    page.get_by_role("button", name="Filter", exact=True).click()
    dialog = page.get_by_role("dialog", name="Add a filter")
    expect(dialog.locator(".suggestions .bar").first).to_be_visible()
    page.context.set_offline(True)
    dialog.get_by_label("Field").select_option("country")
    banner = page.locator(BANNER)
    expect(banner).to_be_visible()
    is_in_front = """(banner) => { const { x, y, width, height } = banner.getBoundingClientRect();
      return banner.contains(document.elementFromPoint(x + width / 2, y + height / 2)); }"""
    assert banner.evaluate(is_in_front)
    again = page.get_by_role("button", name="Try again")
    again.focus()
    with page.expect_event("requestfailed"):
        page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(banner).to_be_visible()
    page.context.set_offline(False)
    loaded(page)
    page.problems.discard("ERR_INTERNET_DISCONNECTED")
