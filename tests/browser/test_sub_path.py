"""Everything below a path, behind real proxies: one that keeps the prefix and one that removes it.

The pages are driven from the setup to logging out; nothing may be requested from the proxy outside of /stats.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Request, expect

from tests.browser.browsers import OpenPage, exported
from tests.browser.customer_site import Pages
from tests.browser.owner import EMAIL, PASSWORD, ask, setup_link
from tests.support.process import Server
from tests.support.proxies import Proxy, nginx

KEPT = nginx(
    """location /stats {
      proxy_pass http://UPSTREAM;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Prefix "";
    }"""
)
REMOVED = """{
  admin off
  auto_https off
}
http://:PORT {
  bind 127.0.0.1
  handle_path /stats/* {
    reverse_proxy UPSTREAM {
      header_up X-Forwarded-Prefix /stats
    }
  }
}
"""


@pytest.fixture(scope="module", params=["nginx, prefix kept", "caddy, prefix removed"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Proxy]]:
    folder = tmp_path_factory.mktemp("sub_path")
    name, _, style = request.param.partition(", prefix ")
    options = ("--base-path", "/stats") if style == "kept" else ()
    server = Server(folder / "analytics.db", options, {}, folder / "stderr.log", [])
    host = server.url.removeprefix("http://").partition("/")[0]
    try:
        proxy = Proxy(name, KEPT if style == "kept" else REMOVED, host, folder / "proxy")
    except BaseException:
        server.kill()
        raise
    yield server, proxy
    proxy.stop()
    server.kill()


def test_everything_is_below_the_prefix(place: tuple[Server, Proxy], open_page: OpenPage) -> None:
    server, proxy = place
    origin, start = f"http://127.0.0.1:{proxy.port}", f"http://127.0.0.1:{proxy.port}/stats"
    page = open_page(fresh=True)
    requested: list[str] = []

    def note(request: Request) -> None:
        if request.url.startswith("http"):
            requested.append(request.url)

    page.context.on("request", note)
    token = setup_link(server).partition("#")[2]
    page.goto(f"{start}/setup#{token}")
    page.get_by_label("Email", exact=True).fill(EMAIL)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password", exact=True).press("Enter")
    page.get_by_label("Domain", exact=True).fill("localhost")
    page.get_by_label("Domain", exact=True).press("Enter")
    expect(page.get_by_text("Waiting for the first event")).to_be_visible()
    snippet = page.get_by_label("Snippet").inner_text()
    assert f'src="{start}/tracker.js"' in snippet

    # The website's own page, on a server of its own: script and events go below the prefix too.
    pages = Pages()
    try:
        pages.put("/shop", f"<!doctype html><html lang=en><head><title>Shop</title>{snippet}</head></html>")
        visitor = open_page()
        with visitor.expect_response("**/collect") as taken:
            visitor.goto(f"http://localhost:{pages.port}/shop")
        assert (taken.value.url, taken.value.status) == (f"{start}/api/collect", 202)
        visitor.problems.discard("status of 404")
    finally:
        pages.close()
    expect(page.get_by_text("Events are arriving")).to_be_visible()

    page.get_by_role("link", name="Go to dashboard").click()
    expect(page.locator(".figure").first).to_be_visible()
    expect(page.locator("canvas")).to_have_count(1)
    page.reload()
    expect(page.locator("[data-figure=visitors]")).to_have_attribute("data-value", "1")
    own = page.url.partition("?")[0]
    assert own.startswith(f"{start}/websites/")
    for name in ("Events", "Funnels", "Performance", "Heatmaps", "Experiments", "Overview"):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("link", name=name, exact=True)).to_have_attribute("aria-current", "page")
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert page.url.startswith(own)
    assert all(one.startswith(f"{start}/api/") for one in exported(page))
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Share", exact=True).click()
    page.get_by_role("button", name="Create link").click()
    page.get_by_label("Name", exact=True).fill("Readers")
    page.get_by_role("button", name="Create link").click()
    link = page.get_by_label("Address of Readers", exact=True).input_value()
    assert link.startswith(f"{start}/share/")
    reader = open_page(fresh=True)
    reader.context.on("request", note)
    reader.goto(link)
    expect(reader.locator("[data-figure=visitors]")).to_have_attribute("data-value", "1")

    cookies = page.context.cookies()
    kept = {(one["name"], one["path"]) for one in cookies}
    assert kept == {("tally.stats", "/stats"), ("tally-device.stats", "/stats")}
    page.goto(f"{start}/account")
    page.locator(".user-menu summary").click()
    page.locator(".user-menu").get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.url.partition("?")[0] == f"{start}/login"
    assert [one["name"] for one in page.context.cookies()] == ["tally-device.stats"]
    page.goto(f"{own}/settings/sharing")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("Email", exact=True).fill(EMAIL)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password", exact=True).press("Enter")
    expect(page.get_by_label("Address of Readers", exact=True)).to_have_value(link.partition("?")[0])

    missing: Any = page.goto(f"{start}/nothing")
    assert missing.status == 404
    page.get_by_role("link", name="Go to websites").click()
    expect(page.get_by_role("heading", name="Websites", exact=True)).to_be_visible()
    page.problems.discard("status of 401", "status of 404")
    assert [url for url in requested if not url.startswith(f"{start}/") and url.startswith(origin)] == []
    assert len(requested) > 50
    status, state = ask(page, server, "GET", "/api/account/state")
    assert (status, state["data"]["needs_setup"]) == (200, False)
