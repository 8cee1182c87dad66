"""Take the screenshots of the README: the dashboard of the demo, light and dark, and other pages, light.

    python docs/images/make.py

Needs the packages of the extra `test` and Chromium (/usr/bin/chromium, or TALLY_CHROMIUM). The demo runs in a temporary
directory on a free port of 127.0.0.1.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).resolve().parent
ROOT = IMAGES.parent.parent
# README shows them at about half the width; a higher picture would fill the first screen.
WIDTH, HEIGHT = 1200, 860
MAX_BYTES = 200_000
# Name: the end of the address, and the element that is shown.
PAGES = {
    "goals": ("?period=90d", ".goals-card"),
    "funnels": (
        "/funnels?period=90d&step=pathname:/coffee&step=event_name:add_to_cart&step=event_name:order",
        ".funnel-card",
    ),
    "journeys": ("/journeys?period=90d", ".journey-card"),
    "experiments": ("/experiments?period=90d", ".page-body"),
}


def main() -> None:
    """Start the demo, take the screenshots, stop the demo."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANALYTICS_")}
        words = [sys.executable, str(ROOT / "analytics_server.py"), "demo", "--port", "0"]
        server = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            url = server.stdout.readline().strip().removeprefix("listening on ")
            found = None
            while found is None:
                found = re.search(r"password: (\S+)", server.stderr.readline())
            chromium = os.environ.get("TALLY_CHROMIUM", "/usr/bin/chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for scheme in ("light", "dark"):
                take(browser, url, found[1], scheme)
            take_pages(browser, url, found[1])
            browser.close()
        finally:
            server.terminate()
            server.wait()


def log_in(browser: Browser, url: str, password: str, scheme: str) -> Page:
    """Return a page with the dashboard of the demo's first website in a colour scheme."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT},
        color_scheme=scheme,  # type: ignore[arg-type]
        locale="en-GB",
        timezone_id="UTC",
    )
    page = context.new_page()
    page.goto(f"{url}/login")
    page.fill("input[name=email]", "demo@localhost")
    page.fill("input[name=password]", password)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Coffee shop").click()
    page.wait_for_url("**/websites/**")
    return page


def take(browser: Browser, url: str, password: str, scheme: str) -> None:
    """Take a screenshot of the dashboard in a colour scheme."""
    page = log_in(browser, url, password, scheme)
    page.goto(f"{page.url}?period=90d")
    page.wait_for_load_state("networkidle")
    path = IMAGES / f"dashboard-{scheme}.png"
    page.screenshot(path=path)
    page.context.close()
    check_size(path)


def take_pages(browser: Browser, url: str, password: str) -> None:
    """Take screenshots of the parts of PAGES."""
    page = log_in(browser, url, password, "light")
    address = page.url.partition("?")[0]
    for name, (end, part) in PAGES.items():
        page.goto(address + end)
        page.locator(part).first.wait_for()
        page.wait_for_load_state("networkidle")
        path = IMAGES / f"{name}.png"
        box = page.locator(part).first.bounding_box()
        assert box is not None
        # A clip of the page in full: without what stays in place while it scrolls.
        page.evaluate("window.scrollTo(0, 0)")
        page.screenshot(path=path, full_page=True, clip={**box, "height": min(box["height"], 620)})
        check_size(path)
    page.context.close()


def check_size(path: Path) -> None:
    """Print the size of a picture; fail if it is too large."""
    assert path.stat().st_size < MAX_BYTES, f"{path} has {path.stat().st_size:,} bytes"
    print(path.relative_to(ROOT), f"{path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
