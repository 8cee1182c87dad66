"""Connecting an assistant: the page that asks, what a program receives, and the list that disconnects it.

The program is a real server on another port of this machine, to which the browser takes the code.
"""

import base64
import hashlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.accessibility import violations_in_each_scheme
from tests.browser.browsers import OpenPage, pages_with_refusals
from tests.browser.owner import EMAIL, PASSWORD, add_website, set_up
from tests.support.process import Serve, Server

VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


class Program:
    """A program that waits for a code at its own address."""

    def __init__(self) -> None:
        received: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/back"):
                    received.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><html lang=en><title>Done</title><p>Done</p>")

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self.received = received
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.back = f"http://127.0.0.1:{self.server.server_port}/back"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self, server: Server, **other: str) -> str:
        """Register, and return the address of the page that asks."""
        sent = {"client_name": "Assistant", "redirect_uris": [self.back]}
        self.client = str(_posted(server.url + "/oauth/register", json.dumps(sent), "application/json")["client_id"])
        asked = {
            "response_type": "code",
            "client_id": self.client,
            "redirect_uri": self.back,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "state": "s",
        }
        return f"{server.url}/oauth/authorize?{urlencode(asked | other)}"

    def answer(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.received[-1]).query)

    def tools(self, server: Server) -> list[str]:
        """Return the domains that the assistant is shown."""
        form = {"grant_type": "authorization_code", "code": self.answer()["code"][0], "redirect_uri": self.back}
        form |= {"client_id": self.client, "code_verifier": VERIFIER}
        self.token = _posted(server.url + "/oauth/token", urlencode(form), "application/x-www-form-urlencoded")
        return self.websites(server)

    def websites(self, server: Server) -> list[str]:
        call = {"name": "list_websites", "arguments": {}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        answer = _posted(server.url + "/mcp", body, "application/json", self.token["access_token"])
        return [row["domain"] for row in answer["result"]["structuredContent"]["data"]]


def _posted(url: str, body: str, kind: str, token: str = "") -> dict[str, Any]:
    headers = {"Content-Type": kind} | ({"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers)) as answer:
        read: dict[str, Any] = json.load(answer)
    return read


@pytest.fixture
def server(serve: Serve) -> Server:
    """Return a server of its own."""
    return serve()


@pytest.fixture
def program() -> Iterator[Program]:
    """Return a program that listens."""
    made = Program()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a page in a context of its own."""
    with pages_with_refusals(browser) as opens:
        yield opens


def log_in(page: Page) -> None:
    page.get_by_label("Email").fill(EMAIL)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.keyboard.press("Enter")


def test_a_person_signs_in_connects_by_keyboard_and_disconnects(
    server: Server, open_page: OpenPage, program: Program
) -> None:
    """One website of two is chosen; afterwards the assistant is under Sign-in until it is disconnected."""
    owner = open_page()
    set_up(owner, server)
    for domain in ("one.example", "two.example"):
        add_website(owner, server, domain)
    page = open_page()
    page.goto(program.page(server))
    log_in(page)
    expect(page.get_by_role("heading", name="Connect Assistant?")).to_be_visible()
    expect(page.get_by_text("You will be taken to 127.0.0.1")).to_be_visible()
    page.get_by_label("two.example").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Connect", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page).to_have_title("Done")
    assert program.answer()["state"] == ["s"]
    assert program.tools(server) == ["two.example"]

    page.goto(server.url + "/account/sign-in")
    card = page.locator("section", has=page.get_by_role("heading", name="Connected assistants"))
    expect(card.get_by_role("rowheader", name="Assistant")).to_be_visible()
    assert violations_in_each_scheme(page) == []
    page.goto(server.url + "/account/keys")
    expect(page.get_by_text("Connected assistant · two.example")).to_be_visible()
    page.goto(server.url + "/account/sign-in")
    card.get_by_role("button", name="Disconnect Assistant").click()
    expect(card).to_have_count(0)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        program.websites(server)


def test_a_person_who_refuses_takes_the_answer_back(server: Server, open_page: OpenPage, program: Program) -> None:
    page = open_page()
    set_up(page, server)
    add_website(page, server)
    page.goto(program.page(server))
    # There is nothing to choose from.
    expect(page.get_by_role("heading", name="Connect Assistant?")).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)
    page.get_by_role("button", name="Do not connect").click()
    expect(page).to_have_title("Done")
    assert (program.answer()["error"], "code" in program.answer()) == (["access_denied"], False)
    page.goto(server.url + "/account/sign-in")
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    expect(page.get_by_role("heading", name="Connected assistants")).to_have_count(0)


def test_a_malformed_request_is_said_on_the_page(server: Server, open_page: OpenPage, program: Program) -> None:
    page = open_page()
    set_up(page, server)
    for other in ({"redirect_uri": "https://evil.example/"}, {"code_challenge_method": "plain"}, {"client_id": "x"}):
        page.goto(program.page(server, **other))
        expect(page.get_by_role("heading", name="The assistant could not be connected")).to_be_visible()
        assert violations_in_each_scheme(page) == []
    assert program.received == []


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_axe_finds_nothing(server: Server, open_page: OpenPage, program: Program, size: str, language: str) -> None:
    page = open_page(size, locale=language)
    set_up(page, server)
    for domain in ("one.example", "two.example"):
        add_website(page, server, domain)
    page.goto(program.page(server))
    expect(page.get_by_role("checkbox", name="one.example")).to_be_visible()
    assert violations_in_each_scheme(page) == []
