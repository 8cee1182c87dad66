"""The owner of a real server: what the tests of login, setup and account area do beside the page they look at."""

import re
import subprocess
import sys
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.support.app import ROOT
from tests.support.process import Server, clean_environment, until

EMAIL, PASSWORD = "owner@example.com", "quiet lamp over the harbour"


def setup_link(server: Server) -> str:
    """The link that the server has printed."""
    link = re.search(r"^set up Tally: (\S+)$", server.stderr(), re.MULTILINE)
    assert link is not None, server.stderr()
    return link[1]


def set_up(page: Page, server: Server) -> None:
    """Sets the first password and logs the page's context in, by HTTP: what the pages themselves do is tested once."""
    sent = {"token": setup_link(server).partition("#")[2], "email": EMAIL, "password": PASSWORD}
    answer = ask(page, server, "POST", "/api/account/setup", sent)
    assert answer[0] == 201, answer


def log_in(page: Page, server: Server) -> None:
    """Logs the page's context in, by HTTP."""
    answer = ask(page, server, "POST", "/api/account/login", {"email": EMAIL, "password": PASSWORD})
    assert answer[0] == 200, answer


def ask(page: Page, server: Server, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """A request with the cookies of the page's context, as its pages send it; status and JSON."""
    response = page.context.request.fetch(
        server.url + path, method=method, data=body, headers={"Sec-Fetch-Site": "same-origin"}
    )
    return response.status, (response.json() if response.status != 204 else {})


def add_website(page: Page, server: Server, domain: str = "example.com", **more: object) -> Any:
    """A website of the account that is logged in."""
    status, answer = ask(page, server, "POST", "/api/account/websites", {"domain": domain, **more})
    assert status == 201, answer
    return answer["data"]


def send_view(server: Server, website: str, path: str = "/pricing", domain: str = "example.com") -> None:
    """A page view arrives, as from that page."""
    event = {"type": "pageview", "website_id": website, "url": f"https://{domain}{path}"}
    origin = {"Origin": f"https://{domain}", "Content-Type": "text/plain"}
    answer = server.request("POST", "/api/collect", event, origin)
    assert answer.status == 202, answer.text


def command(server: Server, *words: str, stdin: str = "") -> str:
    """The real command beside the running server."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "analytics_server.py"), *words, "--db", str(server.db)],
        input=stdin,
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def set_plan(page: Page, server: Server, plan: str) -> None:
    """Moves the account to another plan by the command line, and waits until the server has noticed."""
    command(server, "account", "plan", EMAIL, plan)
    until(lambda: ask(page, server, "GET", "/api/account")[1]["data"]["plan"] == plan)


def faults(page: Page) -> list[str]:
    """What axe-core finds on the page as it is, and whether it scrolls sideways."""
    found = Axe().run(page)
    problems = [
        f"{page.url} {one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found.response["violations"]
        for node in one["nodes"]
    ]
    if page.evaluate("document.scrollingElement.scrollWidth > innerWidth"):
        problems.append(f"{page.url} scrolls sideways")
    return problems


def faults_in_each_scheme(page: Page) -> list[str]:
    """What `faults` finds in the light and in the dark color scheme; without motion colors change at once."""
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [f"{scheme}: {fault}" for fault in faults(page)]
    return found
