"""Fixtures of the browser tests: browsers, servers, and websites with the tracker.

For the pages of the dashboard: `open_page` opens a page, `site` is a server with the sample history. For the tracker:
`visit` opens a page in a profile of its own, `tracked` is a website with its pages and a running server, `tab` is a tab
of any browser for the tests marked `everywhere` (tests/browser/webdriver.py has Firefox and WebKit).

Playwright's synchronous interface keeps an event loop running in this thread, so no test of a file that uses these
fixtures can be a coroutine.

Without Chromium the tests are skipped; with TALLY_MUST_BROWSE=1, as in .ci/run, they fail. TALLY_CHROMIUM names the
browser where it is not /usr/bin/chromium.
"""

import itertools
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tally.accounts.accounts import create_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.storage.database import open_database
from tests.browser import browsers, webdriver
from tests.browser.browsers import OpenPage, chromium_path, pages_of
from tests.browser.customer_site import Pages, RecordingProxy, Sent
from tests.browser.history import SampleServer, sample_server
from tests.browser.journeys import send_journeys
from tests.support.app import CHROME, Answer
from tests.support.process import Server, until

ARGUMENTS = [
    "--no-sandbox",
    "--host-resolver-rules=MAP *.test 127.0.0.1",
    # Playwright's option does not apply to requests sent while a page is left; HeadlessChrome is rejected as a crawler.
    f"--user-agent={CHROME}",
    # Without a network these requests would never end.
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
    """Yield Chromium with default options, for the pages of the dashboard."""
    with browsers.chromium() as one:
        yield one


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """Yield a function that opens a page in its own context; fail the test if a page has problems."""
    with pages_of(browser) as opens:
        yield opens


Visit = Callable[..., Page]


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """Yield a function that opens a page in a new profile, or in `context`; fail the test if a script fails."""
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
    """Yield a server that all tests share which do not stop it."""
    folder = tmp_path_factory.mktemp("server")
    open_database(folder / "analytics.db", create=True).close()
    server = Server(folder / "analytics.db", ("--key-per-minute", "100000"), {}, folder / "stderr.log", [])
    yield server
    server.terminate()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    """Yield a server with the sample history, one for each file; a file may define another one."""
    with sample_server(tmp_path_factory.mktemp("site")) as one:
        yield one


@pytest.fixture(autouse=True)
def _nothing_stays_saved(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete after each test, also a failed one, what it saved on the `site` that its file shares."""
    yield
    if "site" in request.fixturenames:
        request.getfixturevalue("site").delete_saved()


@pytest.fixture(scope="module")
def journeys(site: SampleServer) -> None:
    """Send journeys to the second website of `site`, and make it the website that tests open."""
    send_journeys(site, site.second)
    site.website = site.second


@pytest.fixture(scope="package")
def pages() -> Iterator[Pages]:
    pages = Pages()
    yield pages
    pages.close()


def write(db: Path, do: Callable[[sqlite3.Connection], Any]) -> Any:
    """Write to the database as the command line does, beside a running server."""
    connection = open_database(db, create=False)
    try:
        connection.execute("begin immediate")
        result = do(connection)
        connection.execute("commit")
        return result
    finally:
        connection.close()


class TrackedSite:
    """A website with its pages, and the real server behind a recording proxy."""

    # Each test has its own client address, for the rate limits of the shared server.
    _numbers = itertools.count(1)

    def __init__(self, server: Server, pages: Pages, domain: str = "example.test") -> None:
        self.server, self.pages, self.domain, self.leaves = server, pages, domain, False
        pages.texts.clear()
        self.proxy = RecordingProxy(lambda: self.server.url)
        self.proxy.address = f"203.0.113.{next(self._numbers) % 250 + 1}"
        self.origin = f"http://{domain}:{pages.port}"
        self.stats = f"http://stats.test:{self.proxy.port}"
        self.website, self.key = write(server.db, self._add)
        until(lambda: self._response("stats").status == 200)

    def _add(self, connection: sqlite3.Connection) -> tuple[str, str]:
        # An account for each website: an account may have 100 keys, and one process may run all tests.
        now_ms = int(time.time() * 1000)
        owner = create_account(connection, f"{uuid.uuid4()}@example.com", "business", None, now_ms)
        website = add_website(connection, owner, self.domain, self.domain, (), now_ms)
        return website, create_api_key(connection, owner, "", now_ms)

    def close(self) -> None:
        self.proxy.held.set()
        self.proxy.close()

    def script(self, attributes: str = "", src: str = "/tracker.js", website: str = "") -> str:
        """Return the snippet, without time on page unless `leaves`: a leave would be in each request."""
        own = f'data-website-id="{website or self.website}"{"" if self.leaves else " data-no-leave"}'
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
        """Put a page with the tracker at a path of the website; return its URL."""
        script = self.script(attributes) if tracker is None else tracker
        inside = f"<meta name=viewport content=width=device-width><title>{path}</title>{head}{script}"
        text = f"<!doctype html><html lang=en><head>{inside}</head><body>{body}</body></html>"
        self.pages.put(path, text, headers)
        return self.origin + path

    def ask(self, path: str) -> Any:
        """Return the data of a report of the read API."""
        answer = self._response(path)
        assert answer.status == 200, answer.body
        return answer.json["data"]

    def _response(self, path: str) -> Answer:
        headers = {"Authorization": f"Bearer {self.key}"}
        return self.server.request("GET", f"/api/v1/websites/{self.website}/{path}", headers=headers)

    def events(self) -> list[dict[str, Any]]:
        """Return all events but heatmap points, in the order of their time."""
        return list(reversed(self.ask("events?limit=1000")))

    def names(self) -> list[str]:
        """Return the path of each view, the name of each event, the type of others, in the order of their time."""
        return [
            event["pathname"] if event["type"] == "pageview" else event["event_name"] or event["type"]
            for event in self.events()
        ]

    def counted(self, *names: str) -> None:
        """Wait until exactly these are counted, in any order; what pages measure when they are left only if named."""

        def counted() -> list[str]:
            return sorted(name for name in self.names() if name != "leave" or name in names)

        def is_done() -> bool:
            assert len(counted()) <= len(names), counted()
            return counted() == sorted(names)

        until(is_done)
        assert counted() == sorted(names)

    def posted(self, number: int) -> list[Sent]:
        """Wait until the proxy has received so many collect requests; return all of them."""
        until(lambda: len(self.proxy.posts) >= number)
        return self.proxy.posts


@pytest.fixture
def tracked(running: Server, pages: Pages, request: pytest.FixtureRequest) -> Iterator[TrackedSite]:
    """Yield a website; the fixture's parameter is its domain."""
    tracked = TrackedSite(running, pages, getattr(request, "param", "example.test"))
    yield tracked
    tracked.close()
    # docs/tracker.md: no preflight.
    assert {sent.method for sent in tracked.proxy.sent} <= {"GET", "POST"}


class Tab(Protocol):
    """A tab of any browser."""

    def goto(self, url: str) -> Any:
        """Open a page."""

    def evaluate(self, text: str, argument: Any = None) -> Any:
        """Return the value of an expression, or of the function that it is."""


@pytest.fixture(scope="package")
def drivers() -> Iterator[Callable[[str], webdriver.Driver]]:
    """Yield a function that returns a browser by its name, started once."""
    started: dict[str, webdriver.Driver] = {}
    with ExitStack() as stack:

        def start(name: str) -> webdriver.Driver:
            if name not in started:
                started[name] = stack.enter_context({"firefox": webdriver.firefox, "webkit": webdriver.webkit}[name]())
            return started[name]

        yield start


@pytest.fixture
def tab(request: pytest.FixtureRequest, tracked: TrackedSite) -> Iterator[Tab]:
    """Yield a tab of the browser that is the fixture's parameter."""
    if request.param == "chromium":
        yield request.getfixturevalue("visit")()
        return
    driver = request.getfixturevalue("drivers")(request.param)
    if request.param == "webkit":
        # GLib resolves names under localhost itself, and no other that is not in the DNS.
        tracked.stats = tracked.stats.replace("stats.test", "stats.localhost")
    yield driver
    tracked.proxy.held.set()
    driver.goto(tracked.put("/clean", tracker=""))
    driver.evaluate("localStorage.clear()")


_WEBKIT = [("webkit", "shop.localhost")] if os.environ.get("TALLY_WEBKIT") else []
# Names under localhost are secure contexts without TLS, which locks need.
everywhere = pytest.mark.parametrize(
    ("tab", "tracked"),
    [("chromium", "example.test"), ("firefox", "shop.localhost"), *_WEBKIT],
    indirect=True,
)
