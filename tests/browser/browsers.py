"""A real Chromium for the tests that look at the dashboard: one for a module, and a context for each page of a test.

Contexts are used again by later tests of the module, without cookies and stored values but with the HTTP cache: a page
of the dashboard loads with half of the CPU time.

Playwright's own event loop runs in this thread while it is open, so it is opened for a module of tests and closed after
it: the asynchronous tests of other modules need the thread for theirs.

A page is watched: an error on its console, an exception or a breach of its content security policy fails the test,
unless the test took it away from `page.problems`.
"""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

# Headless Chromium calls itself HeadlessChrome, which the rule for crawlers leaves out.
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"
ZONE = "Europe/Berlin"
# Only against waiting for ever: far more than anything takes.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)

OpenPage = Callable[..., Any]


class Problems(list[str]):
    """Console errors, exceptions and policy violations of a page."""

    def watch(self, page: Any) -> None:
        page.on("console", lambda message: message.type == "error" and self.append(message.text))
        page.on("pageerror", lambda error: self.append(f"{error}"))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (breach) =>"
            " console.error('policy', breach.violatedDirective, breach.blockedURI))"
        )

    def forgive(self, *words: str) -> None:
        """Remove the problems that the test provoked."""
        self[:] = [problem for problem in self if not any(word in problem for word in words)]


def fail_and_recover(page: Any, address: str, requests: re.Pattern[str], words: str) -> None:
    """Open a page while one of its requests gets 503; check its notice, and that Try again recovers."""
    body = {"ok": False, "error": {"code": "query_timeout", "message": "This question takes too long."}}
    page.route(requests, lambda route: route.fulfill(status=503, json=body))
    page.goto(address)
    notice = page.locator(".notice", has_text=words)
    expect(notice).to_contain_text("This question takes too long.")
    page.unroute(requests)
    notice.get_by_role("button", name="Try again").click()
    expect(notice).to_have_count(0)
    page.problems.forgive("status of 503")


def chromium_path(*programs: str) -> str:
    """Return the path of Chromium, or of the first of some other programs that is installed.

    Without any skip the test; with TALLY_MUST_BROWSE, as in .ci/run, fail it.
    """
    names = (*programs, "/usr/bin/chromium", "chromium")
    found = os.environ.get("TALLY_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        assert not os.environ.get("TALLY_MUST_BROWSE"), "install Chromium: apt-get install chromium"
        pytest.skip("NOT TESTED: the pages and the tracker are only seen through Chromium (apt-get install chromium)")
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


# Options of a context that a page can have of its own.
OF_PAGE = ("color_scheme", "reduced_motion")


@contextmanager
def pages_of(browser: Any) -> Iterator[OpenPage]:
    """Yield a function that opens pages, each in its own context; fail at the end if one has problems.

    `fresh`: a new context, which no other test uses: for one that a test changes (its clock, its listeners) and for
    what is about an empty cache.
    """
    opened: list[tuple[Any, Any]] = []

    def open_page(url: str = "", fresh: bool = False, **options: Any) -> Any:
        usual = {
            "user_agent": AGENT,
            "locale": "en-US",
            "timezone_id": ZONE,
            "viewport": {"width": 1280, "height": 900},
            "color_scheme": "light",
            "reduced_motion": "no-preference",
        }
        usual |= options
        media, viewport = {name: usual.pop(name) for name in OF_PAGE}, usual.pop("viewport")
        idle = [] if fresh else browser.idle[tuple(sorted(usual.items()))]
        context = idle.pop() if idle else browser.new_context(**usual)
        context.set_default_timeout(PATIENCE_MS)
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
            empty(page)
            idle.append(page.context)
    problems = [problem for page, _ in opened for problem in page.problems]
    assert problems == [], problems


def empty(page: Any) -> None:
    """Close a page and remove what its context stores."""
    context, at = page.context, urlsplit(page.url)
    if at.netloc:
        origin = {"origin": f"{at.scheme}://{at.netloc}", "storageTypes": "local_storage"}
        context.new_cdp_session(page).send("Storage.clearDataForOrigin", origin)
    for one in context.pages:
        one.close()
    context.clear_cookies()
    context.clear_permissions()
