"""A real Chromium for the tests of the pages: one for a module, and a context for each page of a test.

Contexts are used again by later tests of the module, without cookies and stored values but with the HTTP cache: a page
of the dashboard loads with half of the CPU time.

Playwright's own event loop runs in this thread while it is open, so it is opened for a module of tests and closed after
it: the asynchronous tests of other modules need the thread for theirs.

An error on a page's console, an exception, or a violation of its content security policy fails the test, unless the
test discards it from `page.problems`.
"""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect, sync_playwright

# The default of headless Chromium contains HeadlessChrome, which is rejected as a crawler.
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"
ZONE = "Europe/Berlin"
SIZES = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 390, "height": 844}}
# Far longer than any condition takes.
TIMEOUT_MS = 60_000
expect.set_options(timeout=TIMEOUT_MS)

OpenPage = Callable[..., Any]


class Problems(list[str]):
    """Console errors, exceptions and policy violations of a page."""

    def __init__(self) -> None:
        super().__init__()
        self._ignored: tuple[str, ...] = ()

    def watch(self, page: Any) -> None:
        page.on("console", lambda message: message.type == "error" and self.add(message.text))
        page.on("pageerror", lambda error: self.add(f"{error}"))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (breach) =>"
            " console.error('policy', breach.violatedDirective, breach.blockedURI))"
        )

    def add(self, problem: str) -> None:
        """Add a problem, unless it is ignored."""
        if not any(word in problem for word in self._ignored):
            self.append(problem)

    def ignore(self, *words: str) -> None:
        """Discard the problems that contain one of these words, also those that the browser reports later."""
        self._ignored += words
        self.discard(*words)

    def discard(self, *words: str) -> None:
        """Remove the problems that contain one of these words: those that the test causes."""
        self[:] = [problem for problem in self if not any(word in problem for word in words)]


def query_of(page: Any) -> dict[str, str]:
    """Return the parameters of the page's address."""
    return dict(page.evaluate("[...new URL(location.href).searchParams]"))


def range_query(days: int = 7, more: str = "", zone: str = ZONE) -> str:
    """Return the parameters of the read API for the last days, today included."""
    today = datetime.now(ZoneInfo(zone)).date()
    return f"from={today - timedelta(days=days - 1)}&to={today}&tz={zone}{more}"


def fail_and_recover(page: Any, address: str, requests: re.Pattern[str], words: str) -> None:
    """Open a page while one of its requests gets 503; check its notice, and that Try again recovers."""
    body = {"ok": False, "error": {"code": "query_timeout", "message": "The query took too long."}}
    page.route(requests, lambda route: route.fulfill(status=503, json=body))
    page.goto(address)
    notice = page.locator(".notice", has_text=words)
    expect(notice).to_contain_text("The query took too long.")
    page.unroute(requests)
    notice.get_by_role("button", name="Try again").click()
    expect(notice).to_have_count(0)
    page.problems.discard("status of 503")


def exported(page: Any) -> list[str]:
    """Return the addresses of the CSV files of the menu Export, which stays open."""
    page.get_by_role("button", name="Export").click()
    # The dialog appears when its module has been loaded.
    page.get_by_role("dialog", name="Export as CSV").wait_for()
    return [one.evaluate("(link) => link.href") for one in page.locator("a.csv").all()]


def exported_text(page: Any, name: str) -> str:
    """Return the text of a CSV file of the menu Export, without its byte order mark."""
    exported(page)
    with page.expect_download() as download:
        page.get_by_role("link", name=name, exact=True).click()
    page.keyboard.press("Escape")
    return str(download.value.path().read_text("utf-8-sig"))


def show_as_printed(page: Any) -> None:
    """Show the page as it is printed on a sheet of Letter: charts keep the width that they were drawn for."""
    page.evaluate("window.uPlot = null")
    page.set_viewport_size({"width": 816, "height": 1056})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") == 816
    for control in (".card-foot", ".tab-menu:not(.chosen)"):
        assert not any(one.is_visible() for one in page.locator(control).all()), control


def is_printed_in_colour(locator: Any) -> bool:
    """Return whether the element's background is printed."""
    return bool(locator.evaluate("(element) => getComputedStyle(element).printColorAdjust") == "exact")


def chromium_path(*programs: str) -> str:
    """Return the path of Chromium, or of the first of some other programs that is installed.

    Without any skip the test; with TALLY_MUST_BROWSE, as in .ci/run, fail it.
    """
    names = (*programs, "/usr/bin/chromium", "chromium")
    found = os.environ.get("TALLY_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        assert not os.environ.get("TALLY_MUST_BROWSE"), "install Chromium: apt-get install chromium"
        pytest.skip("NOT TESTED: the pages and the tracker, which need Chromium (apt-get install chromium)")
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a headless Chromium, without the parts of a desktop browser where that build is installed.

    Pages take 0.6 of the processor time there (31 s against 50 s for 37 tests). The tracker is tested in the full one.
    """
    path = chromium_path("chromium-headless-shell")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        browser.idle = defaultdict(list)
        yield browser
        browser.close()


# Options of a context that can be set on a page.
OF_PAGE = ("color_scheme", "reduced_motion")


@contextmanager
def pages_with_refusals(browser: Any) -> Iterator[OpenPage]:
    """Yield `pages_of` by size and scheme, in English, for tests that expect responses of 4xx, which Chromium logs."""

    def open_page(size: str = "wide", scheme: str = "light", locale: str = "en-GB") -> Any:
        page = opens(viewport=SIZES[size], color_scheme=scheme, locale=locale)
        page.problems.ignore("Failed to load resource: the server responded with a status of 4")
        return page

    with pages_of(browser) as opens:
        yield open_page


@contextmanager
def pages_of(browser: Any) -> Iterator[OpenPage]:
    """Yield a function that opens pages, each in its own context; fail at the end if one has problems.

    `fresh`: a new context that no other test uses, for tests that change it (its clock, its listeners) or need an
    empty cache.
    """
    opened: list[tuple[Any, Any]] = []

    def open_page(url: str = "", fresh: bool = False, **options: Any) -> Any:
        usual = {
            "user_agent": AGENT,
            "locale": "en-US",
            "timezone_id": ZONE,
            "viewport": SIZES["wide"],
            "color_scheme": "light",
            "reduced_motion": "no-preference",
        }
        usual |= options
        media, viewport = {name: usual.pop(name) for name in OF_PAGE}, usual.pop("viewport")
        idle = [] if fresh else browser.idle[tuple(sorted(usual.items()))]
        context = idle.pop() if idle else browser.new_context(**usual)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        page.set_viewport_size(viewport)
        page.emulate_media(**media)
        page.problems = Problems()
        page.problems.watch(page)
        opened.append((page, None if fresh else idle))
        if url:
            page.goto(url)
        return page

    yield open_page
    for page, idle in opened:
        if idle is None:
            page.context.close()
        else:
            reset(page)
            idle.append(page.context)
    problems = [problem for page, _ in opened for problem in page.problems]
    assert problems == [], problems


def reset(page: Any) -> None:
    """Close a page and remove what its context stores."""
    context, at = page.context, urlsplit(page.url)
    if at.netloc:
        origin = {"origin": f"{at.scheme}://{at.netloc}", "storageTypes": "local_storage"}
        context.new_cdp_session(page).send("Storage.clearDataForOrigin", origin)
    for one in context.pages:
        one.close()
    context.clear_cookies()
    context.clear_permissions()
