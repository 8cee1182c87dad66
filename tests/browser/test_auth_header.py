"""The pages where a proxy signs people in: the browser's requests carry the header that the proxy would set."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.accessibility import violations
from tests.browser.browsers import OpenPage, pages_with_refusals
from tests.browser.history import run
from tests.support.process import Serve, Server

OWNER, ANN = "owner@example.com", "ann@example.com"
OPTIONS = ("--auth-header", "Remote-Email", "--auth-header-from", "127.0.0.1")


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a page behind a proxy that names an address; "" is none."""

    def open_page(email: str = OWNER, **options: str) -> Any:
        page = opens(**options)
        page.set_extra_http_headers({"Remote-Email": email} if email else {})
        return page

    with pages_with_refusals(browser) as opens:
        yield open_page


@pytest.fixture
def start(serve: Serve, tmp_path: Any) -> Any:
    """Return a function that starts a server with an account and a website."""

    def start(*options: str) -> Server:
        db = tmp_path / "analytics.db"
        run(db, "account", "create", OWNER, "--password-stdin", stdin="correct horse battery\n")
        run(db, "website", "add", "example.com")
        return serve(*OPTIONS, *options, db=db)

    return start


def test_nobody_is_asked_for_a_password(start: Any, open_page: OpenPage) -> None:
    """Logging out is offered where the proxy has an address for it."""
    server = start()
    page = open_page()
    page.goto(server.url)
    expect(page.get_by_text("example.com").first).to_be_visible()
    page.goto(f"{server.url}/account")
    expect(page.get_by_text("Your proxy signs you in.")).to_be_visible()
    expect(page.get_by_role("button", name="Log out everywhere")).to_be_visible()
    expect(page.get_by_role("button", name="Log out", exact=True)).to_have_count(0)


def test_logging_out_leads_to_the_proxy(start: Any, serve: Serve, open_page: OpenPage) -> None:
    server = start("--auth-logout-url", "http://127.0.0.1:9/logout", "--password-login", "no")
    page = open_page()
    page.goto(f"{server.url}/account")
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    expect(page.get_by_label("Current password")).to_have_count(0)
    with page.expect_request("http://127.0.0.1:9/logout"), contextlib.suppress(Exception):
        page.get_by_role("button", name="Log out", exact=True).click()
    page.problems.ignore("ERR_UNSAFE_PORT")
    page.problems.ignore("ERR_CONNECTION_REFUSED")


def test_who_has_no_access_learns_what_to_do(start: Any, open_page: OpenPage) -> None:
    """The page goes on once the address is invited and the button is pressed."""
    server = start()
    for locale, size, scheme, words in (
        ("de-DE", "narrow", "light", "hat keinen Zugang zu diesem Server"),
        ("fr-FR", "wide", "dark", "n’a pas accès à ce serveur"),
        ("es-ES", "narrow", "dark", "no tiene acceso a este servidor"),
        ("en-GB", "wide", "light", "has no access to this server"),
    ):
        page = open_page(ANN, size=size, scheme=scheme, locale=locale)
        page.goto(f"{server.url}/account")
        expect(page.get_by_role("alert")).to_contain_text(f"{ANN} {words}")
        expect(page.locator("input")).to_have_count(0)
        assert violations(page) == []
    run(server.db, "person", "invite", ANN, "--role", "viewer")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/account")


def test_a_page_without_the_proxy(start: Any, open_page: OpenPage) -> None:
    """No form is drawn that no password could satisfy; a header without an address says so."""
    server = start("--password-login", "no")
    page = open_page("")
    page.goto(server.url)
    expect(page.get_by_text("through its proxy, not with a password")).to_be_visible()
    expect(page.locator("input")).to_have_count(0)
    assert violations(page) == []
    page = open_page("nobody")
    page.goto(server.url)
    expect(page.get_by_role("alert")).to_contain_text("did not send one email address")
