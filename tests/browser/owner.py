"""Requests and commands of the owner of a real server, for tests of login, setup and account pages."""

import re
import subprocess
import sys
from typing import Any

from playwright.sync_api import Page

from tests.support.app import ROOT
from tests.support.process import Server, clean_environment, until

EMAIL, PASSWORD = "owner@example.com", "quiet lamp over the harbour"


def setup_link(server: Server) -> str:
    """Return the setup link that the server printed."""
    link = re.search(r"^set up Tally: (\S+)$", server.stderr(), re.MULTILINE)
    assert link is not None, server.stderr()
    return link[1]


def set_up(page: Page, server: Server) -> None:
    """Set the first password and log the page's context in, by HTTP."""
    sent = {"token": setup_link(server).partition("#")[2], "email": EMAIL, "password": PASSWORD}
    answer = ask(page, server, "POST", "/api/account/setup", sent)
    assert answer[0] == 201, answer


def log_in(page: Page, server: Server) -> None:
    """Log the page's context in, by HTTP."""
    answer = ask(page, server, "POST", "/api/account/login", {"email": EMAIL, "password": PASSWORD})
    assert answer[0] == 200, answer


def ask(page: Page, server: Server, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Send a request with the cookies of the page's context, as pages do; return its status and JSON."""
    response = page.context.request.fetch(
        server.url + path, method=method, data=body, headers={"Sec-Fetch-Site": "same-origin"}
    )
    return response.status, (response.json() if response.status != 204 else {})


def add_website(page: Page, server: Server, domain: str = "example.com", **more: object) -> Any:
    """Add a website to the account that is logged in; return it."""
    status, answer = ask(page, server, "POST", "/api/account/websites", {"domain": domain, **more})
    assert status == 201, answer
    return answer["data"]


def send_view(server: Server, website: str, path: str = "/pricing", domain: str = "example.com") -> None:
    """Send a pageview as the tracker does."""
    event = {"type": "pageview", "website_id": website, "url": f"https://{domain}{path}"}
    origin = {"Origin": f"https://{domain}", "Content-Type": "text/plain"}
    answer = server.request("POST", "/api/collect", event, origin)
    assert answer.status == 202, answer.text


def command(server: Server, *words: str, stdin: str = "") -> str:
    """Run the real command beside the running server; return its output."""
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
    """Change the account's plan by the command, and wait until the server uses it."""
    command(server, "account", "plan", EMAIL, plan)
    until(lambda: ask(page, server, "GET", "/api/account")[1]["data"]["plan"] == plan)
