"""Chromium, Firefox, and a real server to look at with them.

`chromium` is one browser for all the tests of a file, `visit` opens pages in profiles of their own, `stage` is a
website with its pages beside a running server. Playwright's synchronous interface keeps an event loop running in this
thread while it is there, so no test of a file that uses these can be a coroutine.

`tab` is a tab of any browser for the tests that are `everywhere`; browser/webdriver.py has the others than Chromium.

Where there is no Chromium the tests are skipped, which is said loudly; with TALLY_MUST_BROWSE=1, as in .ci/run, they
fail. TALLY_CHROMIUM names the browser where it is not /usr/bin/chromium.
"""

import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tally.accounts.accounts import AccountError, create_account, find_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.storage.database import open_database
from tests.browser import browsers, webdriver
from tests.browser.browsers import OpenPage, chromium_path, pages_of
from tests.browser.customer_site import Pages, Sent, Wire
from tests.browser.history import SampleServer, sample_server
from tests.browser.journeys import send_journeys
from tests.support.app import CHROME, OWNER, Answer
from tests.support.process import Server, until

ARGUMENTS = [
    "--no-sandbox",
    "--host-resolver-rules=MAP *.test 127.0.0.1",
    # Playwright's own way does not reach what is sent while a page is left; HeadlessChrome is a crawler.
    f"--user-agent={CHROME}",
    # A page of the tests is not to wait for what a machine without a network never answers.
    "--disable-component-update",
    "--disable-background-networking",
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=ARGUMENTS, ignore_default_args=["--disable-back-forward-cache"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium as it is, for what is only looked at."""
    with browsers.chromium() as one:
        yield one


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """Opens pages in contexts of their own; none of them may complain."""
    with pages_of(browser) as opens:
        yield opens


Visit = Callable[..., Page]


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """Opens a page in a fresh profile, or in that of `context`; no script of a page may fail."""
    contexts: list[BrowserContext] = []
    failures: list[str] = []

    def open_page(url: str = "", context: BrowserContext | None = None, **options: Any) -> Page:
        if context is None:
            context = chromium.new_context(**{"user_agent": CHROME, "locale": "en-GB"} | options)
            contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        if url:
            page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert failures == []


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One real server for all tests that do not end it."""
    folder = tmp_path_factory.mktemp("server")
    open_database(folder / "analytics.db", create=True).close()
    server = Server(folder / "analytics.db", ("--key-per-minute", "100000"), {}, folder / "stderr.log", [])
    yield server
    server.terminate()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    """A server of its own for a file, with the sample history; a file may define another one."""
    with sample_server(tmp_path_factory.mktemp("site")) as one:
        yield one


@pytest.fixture(scope="module")
def journeys(site: SampleServer) -> None:
    """Has `site` open its second website, to which journeys were sent."""
    send_journeys(site, site.second)
    site.website = site.second


@pytest.fixture(scope="package")
def pages() -> Iterator[Pages]:
    pages = Pages()
    yield pages
    pages.close()


def write(db: Path, do: Callable[[sqlite3.Connection], Any]) -> Any:
    """Writes as the command line does, beside a running server."""
    connection = open_database(db, create=False)
    try:
        connection.execute("begin immediate")
        result = do(connection)
        connection.execute("commit")
        return result
    finally:
        connection.close()


class Stage:
    """A website with its pages, and the real server behind a wire."""

    # In the rate limits of a shared server each test is a client of its own.
    _numbers = itertools.count(1)

    def __init__(self, server: Server, pages: Pages, domain: str = "example.test") -> None:
        self.server, self.pages, self.domain = server, pages, domain
        pages.texts.clear()
        self.wire = Wire(lambda: self.server.url)
        self.wire.address = f"203.0.113.{next(self._numbers) % 250 + 1}"
        self.origin = f"http://{domain}:{pages.port}"
        self.stats = f"http://stats.test:{self.wire.port}"
        self.website, self.key = write(server.db, self._add)
        until(lambda: self._asked("stats").status == 200)

    def _add(self, connection: sqlite3.Connection) -> tuple[str, str]:
        now_ms = int(time.time() * 1000)
        try:
            owner = find_account(connection, OWNER)
        except AccountError:
            owner = create_account(connection, OWNER, "business", None, now_ms)
        website = add_website(connection, owner, self.domain, self.domain, (), now_ms)
        return website, create_api_key(connection, owner, "", now_ms)

    def close(self) -> None:
        self.wire.held.set()
        self.wire.close()

    def script(self, attributes: str = "", src: str = "/tracker.js", website: str = "") -> str:
        """The snippet."""
        own = f'data-website-id="{website or self.website}"'
        return f'<script defer src="{self.stats}{src}" {own} {attributes}></script>'

    def put(
        self,
        path: str = "/",
        body: str = "",
        attributes: str = "",
        headers: dict[str, str] | None = None,
        head: str = "",
        tracker: str | None = None,
    ) -> str:
        """Puts a page with the tracker at a path of the website; its URL."""
        script = self.script(attributes) if tracker is None else tracker
        inside = f"<meta name=viewport content=width=device-width><title>{path}</title>{head}{script}"
        text = f"<!doctype html><html lang=en><head>{inside}</head><body>{body}</body></html>"
        self.pages.put(path, text, headers)
        return self.origin + path

    def ask(self, question: str) -> Any:
        """The read API's data."""
        answer = self._asked(question)
        assert answer.status == 200, answer.body
        return answer.json["data"]

    def _asked(self, question: str) -> Answer:
        headers = {"Authorization": f"Bearer {self.key}"}
        return self.server.request("GET", f"/api/v1/websites/{self.website}/{question}", headers=headers)

    def events(self) -> list[dict[str, Any]]:
        """All events but heatmap points, in the order of their time."""
        return list(reversed(self.ask("events?limit=1000")))

    def names(self) -> list[str]:
        """Views by their path, events by their name, others by their type, in the order of their time."""
        return [
            event["pathname"] if event["type"] == "pageview" else event["event_name"] or event["type"]
            for event in self.events()
        ]

    def counted(self, *names: str) -> None:
        """Waits until just these are counted, in any order."""
        until(lambda: sorted(self.names()) == sorted(names) or self._too_many(len(names)))
        assert sorted(self.names()) == sorted(names)

    def _too_many(self, number: int) -> bool:
        assert len(self.names()) <= number, self.names()
        return False

    def posted(self, number: int) -> list[Sent]:
        """Waits until so many collect requests have gone out and been answered; all of them."""
        until(lambda: len(self.wire.posts) >= number)
        return self.wire.posts


@pytest.fixture
def stage(running: Server, pages: Pages, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A website, of the domain that a test is given as this fixture's parameter."""
    stage = Stage(running, pages, getattr(request, "param", "example.test"))
    yield stage
    stage.close()
    # Promised: "no preflight ever (asserted in the browser test)".
    assert {sent.method for sent in stage.wire.sent} <= {"GET", "POST"}


class Tab(Protocol):
    """A tab of any browser."""

    def goto(self, url: str) -> Any:
        """Open a page."""

    def evaluate(self, text: str, argument: Any = None) -> Any:
        """Return what an expression, or the function that it is, gives."""


@pytest.fixture(scope="package")
def drivers() -> Iterator[Callable[[str], webdriver.Driver]]:
    """Gives a browser by its name, started once."""
    started: dict[str, webdriver.Driver] = {}
    with ExitStack() as stack:

        def start(name: str) -> webdriver.Driver:
            if name not in started:
                started[name] = stack.enter_context({"firefox": webdriver.firefox, "webkit": webdriver.webkit}[name]())
            return started[name]

        yield start


@pytest.fixture
def tab(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Tab]:
    """A tab of the browser that is this fixture's parameter."""
    if request.param == "chromium":
        yield request.getfixturevalue("visit")()
        return
    driver = request.getfixturevalue("drivers")(request.param)
    if request.param == "webkit":
        # GLib resolves names under localhost itself, and no other that is not in the DNS.
        stage.stats = stage.stats.replace("stats.test", "stats.localhost")
    yield driver
    stage.wire.held.set()
    driver.goto(stage.put("/clean", tracker=""))
    driver.evaluate("localStorage.clear()")


_BY_REQUEST = [("webkit", "shop.localhost")] if os.environ.get("TALLY_WEBKIT") else []
# Names under localhost are secure without TLS, and only there are locks.
everywhere = pytest.mark.parametrize(
    ("tab", "stage"),
    [("chromium", "example.test"), ("firefox", "shop.localhost"), *_BY_REQUEST],
    indirect=True,
)
