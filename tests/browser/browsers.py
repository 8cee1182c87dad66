"""A real Chromium for the tests that look at the dashboard: one for a module, a context for each page.

Playwright's own event loop runs in this thread while it is open, so it is opened for a module of tests and closed after
it: the asynchronous tests of other modules need the thread for theirs.

A page is watched: an error on its console, an exception or a breach of its content security policy fails the test,
unless the test took it away from `page.problems`.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright

# Headless Chromium calls itself HeadlessChrome, which the rule for crawlers leaves out.
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"
ZONE = "Europe/Berlin"
# Only against waiting for ever: far more than anything takes.
PATIENCE_MS = 60_000

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


def fail_and_recover(page: Any, address: str, asked: re.Pattern[str], words: str) -> None:
    """Open a page while one of its requests gets 503; check its notice, and that Try again recovers."""
    body = {"ok": False, "error": {"code": "query_timeout", "message": "This question takes too long."}}
    page.route(asked, lambda route: route.fulfill(status=503, json=body))
    page.goto(address)
    notice = page.locator(".notice", has_text=words)
    expect(notice).to_contain_text("This question takes too long.")
    page.unroute(asked)
    notice.get_by_role("button", name="Try again").click()
    expect(notice).to_have_count(0)
    page.problems.forgive("status of 503")


def chromium_path() -> str:
    """Return the path of Chromium. Without it skip the test; with TALLY_MUST_BROWSE, as in .ci/run, fail it."""
    found = os.environ.get("TALLY_CHROMIUM") or shutil.which("/usr/bin/chromium") or shutil.which("chromium")
    if found is None:
        assert not os.environ.get("TALLY_MUST_BROWSE"), "install Chromium: apt-get install chromium"
        pytest.skip("NOT TESTED: the pages and the tracker are only seen through Chromium (apt-get install chromium)")
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a headless Chromium."""
    path = chromium_path()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def pages_of(browser: Any) -> Iterator[OpenPage]:
    """Yield a function that opens pages, each in its own context; fail at the end if one has problems."""
    opened: list[tuple[Any, Problems]] = []

    def open_page(url: str = "", **options: Any) -> Any:
        usual = {
            "user_agent": AGENT,
            "locale": "en-US",
            "timezone_id": ZONE,
            "viewport": {"width": 1280, "height": 900},
        }
        context = browser.new_context(**usual | options)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.problems = Problems()
        page.problems.watch(page)
        opened.append((context, page.problems))
        if url:
            page.goto(url)
        return page

    yield open_page
    for context, _ in opened:
        context.close()
    assert [problem for _, problems in opened for problem in problems] == []
