"""The pages of single sign-on, with oidc-provider in a process of its own as the provider."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.accessibility import violations
from tests.browser.browsers import OpenPage, pages_with_refusals
from tests.browser.history import run
from tests.support.openid import CLIENT, SECRET, new_key, node_provider
from tests.support.process import Serve, Server

OWNER, ANN, PASSWORD = "owner@example.com", "ann@example.com", "correct horse battery"
PEOPLE = {"owner-7": {"email": OWNER, "email_verified": True}, "ann-8": {"email": "a@b.example"}}


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a page in a context of its own, as in another browser."""
    with pages_with_refusals(browser) as opens:
        yield opens


@pytest.fixture
def server(serve: Serve, tmp_path: Path) -> Iterator[Server]:
    """Return a server with an account and a website, at which the provider is set up."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    base, db = f"http://127.0.0.1:{port}", tmp_path / "analytics.db"
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "provider").mkdir()
    run(db, "account", "create", OWNER, "--password-stdin", stdin=f"{PASSWORD}\n")
    run(db, "website", "add", "example.com")
    with node_provider(tmp_path / "provider", base, PEOPLE, new_key("one")) as provider:
        options = {
            "--port": port,
            "--base-url": base,
            "--oidc-issuer": provider.url,
            "--oidc-client-id": CLIENT,
            "--oidc-client-secret-file": str(tmp_path / "secret"),
            "--oidc-name": "Our provider",
            "--oidc-logout": "yes",
        }
        yield serve(*(word for pair in options.items() for word in pair), db=db)


def sign_in(page: Any, account: str) -> None:
    """Sign in on the provider's own pages."""
    # They load a font from elsewhere.
    page.problems.ignore("ERR_", "policy", "font", "404")
    page.locator("input[name=login]").fill(account)
    page.locator("input[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    page.get_by_role("button", name="Continue").click()


def log_in(page: Any) -> None:
    page.get_by_label("Email").fill(OWNER)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()


def test_connecting_signing_in_and_disconnecting(server: Server, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{server.url}/login?next=/account/sign-in")
    log_in(page)
    page.get_by_role("button", name="Connect").click()
    sign_in(page, "ann-8")
    expect(page.get_by_text("Single sign-on is connected.")).to_be_visible()
    assert violations(page) == []

    other = open_page(size="narrow", scheme="dark")
    other.goto(f"{server.url}/account")
    expect(other.get_by_role("link", name="Log in with Our provider")).to_be_visible()
    assert violations(other) == []
    other.get_by_role("link", name="Log in with Our provider").click()
    sign_in(other, "ann-8")
    expect(other).to_have_url(f"{server.url}/account")
    expect(other.get_by_text("Single sign-on has begun this session")).to_be_visible()
    # The provider's session ends too: it asks, and leads back to the login.
    other.get_by_role("button", name="Log out", exact=True).click()
    other.get_by_role("button", name=re.compile("Yes")).click()
    expect(other.get_by_role("link", name="Log in with Our provider")).to_be_visible()

    page.get_by_role("button", name="Disconnect").click()
    page.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
    expect(page.get_by_role("button", name="Connect", exact=True)).to_be_visible()
    other.get_by_role("link", name="Log in with Our provider").click()
    sign_in(other, "ann-8")
    expect(other.locator("p.notice.bad")).to_contain_text("You have no access to this server.")


def test_an_invitation_is_accepted(server: Server, open_page: OpenPage) -> None:
    link = run(server.db, "person", "invite", ANN, "--role", "viewer", "--base-url", server.url).split()[-1]
    page = open_page()
    page.goto(server.url + link[link.index("/invitation") :])
    button = page.get_by_role("button", name="Log in with Our provider")
    expect(button).to_be_visible()
    assert violations(page) == []
    button.click()
    sign_in(page, "ann-8")
    expect(page).to_have_url(f"{server.url}/")
    page.goto(f"{server.url}/account/sign-in")
    expect(page.get_by_text("It is your only way to log in")).to_be_visible()


def test_a_password_is_asked_for_once(server: Server, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{server.url}/account")
    page.get_by_role("link", name="Log in with Our provider").click()
    sign_in(page, "owner-7")
    expect(page.get_by_text("Enter your password once.")).to_be_visible()
    assert violations(page) == []
    log_in(page)
    expect(page).to_have_url(f"{server.url}/account")
    page.goto(f"{server.url}/account/sign-in")
    expect(page.get_by_text("Single sign-on is connected.")).to_be_visible()


def test_problems_in_each_language(server: Server, open_page: OpenPage) -> None:
    for locale, size, scheme, words in (
        ("de-DE", "narrow", "light", "Der Anbieter bestätigt Ihre E-Mail-Adresse nicht"),
        ("fr-FR", "wide", "dark", "Le fournisseur ne confirme pas votre adresse e-mail"),
        ("es-ES", "narrow", "dark", "El proveedor no confirma su dirección de correo"),
        ("en-GB", "wide", "light", "The provider does not confirm your email address"),
    ):
        page = open_page(size=size, scheme=scheme, locale=locale)
        page.goto(f"{server.url}/login?problem=unverified")
        expect(page.locator("p.notice.bad")).to_contain_text(words)
        assert violations(page) == []
    page.goto(f"{server.url}/login?problem=%3Cb%3E&next=//evil.example")
    expect(page.locator(".notice")).to_have_count(0)
    href = page.get_by_role("link", name="Log in with Our provider").get_attribute("href")
    assert href == "/sign-in/oidc?next=%2F"


def test_one_person_without_single_sign_on_sees_none_of_it(serve: Serve, open_page: OpenPage, tmp_path: Path) -> None:
    db = tmp_path / "analytics.db"
    run(db, "account", "create", OWNER, "--password-stdin", stdin=f"{PASSWORD}\n")
    server = serve(db=db)
    page = open_page()
    page.goto(f"{server.url}/login?next=/account/sign-in")
    expect(page.get_by_role("link", name=re.compile("Log in|sign-on"))).to_have_count(0)
    log_in(page)
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    expect(page.get_by_text("Single sign-on")).to_have_count(0)
