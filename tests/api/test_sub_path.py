"""A server below a base path: routes, links, cookies and cached pages (tally/base_path.py)."""

from typing import Any

import pytest

from tally import base_path
from tally.ingest.fast_path import HeaderCache, read_plain, request_lines
from tally.settings import BadSetting, settings_from
from tests.support.app import OWNER, App, MakeApp
from tests.support.cases import cases
from tests.support.page_client import OWN_PAGE, PASSWORD, PageClient, account
from tests.support.process import Serve

LOCAL = ("/", "/login", "/setup", "/account", "/tracker.js", "/assets/app.css", "/pixel.gif", "/healthz")
PREFIX = {"X-Forwarded-Prefix": "/stats"}


def test_prefixes() -> None:
    for text, prefix in {
        **{"": "", "/": "", "/stats": "/stats", "/stats/": "/stats", "/a/b.c/d~e_f-1": "/a/b.c/d~e_f-1"},
        **dict.fromkeys(("stats", "//", "//a", "/a//b", "/.", "/..", "/a/../b", "/a b", "/a\n", "/ä", "/%41"), None),
        **dict.fromkeys(('/"', "/<b>", "/a;b", "/a,b", "/a?b", "/a#b", "/a\\b", "/a//", "/" + "x" * 65), None),
        "/a" * 8: "/a" * 8,
        "/a" * 9: None,
    }.items():
        assert base_path.normal_prefix(text) == prefix, text
    with pytest.raises(BadSetting, match=r"--base-path must be a path such as /stats"):
        settings_from({"base_path": ["stats"]}, {})
    assert settings_from({}, {"ANALYTICS_BASE_PATH": "/stats/"}).base_path == "/stats"


@cases(
    ("base_url", "prefix", "public"),
    [
        ("", "/stats", ""),
        ("https://example.com", "", "https://example.com"),
        ("https://example.com", "/stats", "https://example.com/stats"),
        ("https://example.com/stats", "/stats", "https://example.com/stats"),
        ("https://example.com/a/stats", "/stats", "https://example.com/a/stats"),
        ("https://example.com/stats", "", "https://example.com/stats"),
    ],
)
def test_public_addresses(base_url: str, prefix: str, public: str) -> None:
    assert base_path.public_url(base_url, prefix) == public


async def test_other_paths_are_not_found(make_app: MakeApp) -> None:
    app = await make_app(base_path="/stats")
    website = await app.website()
    for path in LOCAL:
        assert (await app.get(path)).status == 404, path
        assert (await app.get(f"/statistics{path}")).status == 404, path
        assert (await app.get(f"/stats{path}")).status == 200, path
    event = {"type": "pageview", "website_id": website, "url": "https://example.com/"}
    assert (await app.collect(event)).status == 404
    for path in ("/stats/api/collect", "/stats/api/v1/collect"):
        answer = await app.collect(event, path=path)
        assert answer.status == 202
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
    moved = await PageClient(app)("GET", "/stats")
    assert (moved.status, moved.headers["Location"]) == (308, "/stats/")


async def shown_paths(app: App, base: str, headers: dict[str, str], prefix: str) -> dict[str, Any]:
    """Return the cookie and the paths that responses to requests with these headers contain."""
    await account(app)
    owner = PageClient(app)
    owner.headers = OWN_PAGE | headers
    login = {"email": OWNER, "password": PASSWORD}
    assert (await owner("POST", f"{base}/api/account/login", login)).status == 200
    (cookie,) = (line for line in owner.set_cookies if "device" not in line)
    assert all(f"; Path={prefix or '/'};" in line for line in owner.set_cookies)
    shown = (await owner("GET", f"{base}/api/account")).json["data"]
    shell = await owner("GET", f"{base}/login", headers={"Accept-Encoding": "identity"})
    # To who is signed in it is the shell, with the frame.
    sent = {"Accept": "text/html", "Accept-Encoding": "identity"}
    framed = await owner("GET", f"{base}/nothing", headers=sent)
    assert (framed.status, framed.text) == (404, shell.text)
    stranger = PageClient(app)
    stranger.headers = OWN_PAGE | headers
    lost = await stranger("GET", f"{base}/nothing", headers=sent)
    document = await owner("GET", f"{base}/api/v1/openapi.yaml")
    return {
        "cookie": cookie.partition("=")[0] + " " + cookie.partition("; ")[2].partition(";")[0],
        "base_url": shown["base_url"],
        "shell": shell.text,
        "lost": lost.text,
        "server": document.text.partition("\n  - url: ")[2].partition("\n")[0],
    }


@pytest.mark.parametrize(
    ("settings", "base", "headers", "prefix"),
    [
        ({"base_path": "/stats"}, "/stats", {}, "/stats"),
        ({}, "", PREFIX, "/stats"),
        ({"base_path": "/stats"}, "/stats", PREFIX, "/stats"),
        ({"base_path": "/b"}, "/b", {"X-Forwarded-Prefix": "/a/"}, "/a/b"),
        ({}, "", {}, ""),
        ({"trusted_proxy": ("192.0.2.1",)}, "", PREFIX, ""),
        ({}, "", {"X-Forwarded-Prefix": "//evil.example"}, ""),
        ({}, "", {"X-Forwarded-Prefix": '/"><script>'}, ""),
        ({}, "", {"X-Forwarded-Prefix": "/a, /b"}, ""),
    ],
)
async def test_paths_in_responses(
    make_app: MakeApp, settings: dict[str, Any], base: str, headers: dict[str, str], prefix: str
) -> None:
    app = await make_app(base_url="https://example.com", **settings)
    for proto, plain in (("https", ""), ("http", "tally")):
        seen = await shown_paths(app, base, headers | {"X-Forwarded-Proto": proto}, prefix)
        trusts = "trusted_proxy" not in settings
        name = plain or ("__Secure-tally" if prefix else "__Host-tally")
        if not trusts:
            name = "tally"
        own = prefix.replace("/", ".")
        assert seen["cookie"] == f"{name}{own} Path={prefix or '/'}"
    assert seen["base_url"] == f"https://example.com{prefix}"
    assert seen["server"] == (prefix or "/")
    for page in (seen["shell"], seen["lost"]):
        assert f'href="{prefix}/assets/app.css"' in page
        assert "script>alert" not in page
        assert "evil" not in page
    assert f'src="{prefix}/assets/app.js"' in seen["shell"]
    assert f'<meta name="base-path" content="{prefix}" />' in seen["shell"]
    assert f'<a class="button primary" href="{prefix}/">' in seen["lost"]


async def test_caches_keep_the_pages_of_each_prefix_apart(app: App) -> None:
    """The pages of two prefixes differ; the response and its 304 have Vary: X-Forwarded-Prefix."""
    for path in ("/", "/login", "/setup"):
        tags = set()
        for headers in (PREFIX, {}):
            answer = await app.get(path, headers=headers)
            again = await app.get(path, headers=headers | {"If-None-Match": answer.headers["ETag"]})
            assert (answer.status, again.status) == (200, 304)
            for one in (answer, again):
                assert one.headers["Vary"] == "Accept-Encoding, X-Forwarded-Prefix", path
            tags.add(answer.headers["ETag"])
        assert len(tags) == 2
    assert (await app.get("/assets/app.css")).headers["Vary"] == "Accept-Encoding"


async def test_the_next_page_of_a_list_is_below_the_prefix(make_app: MakeApp) -> None:
    app = await make_app()
    website, key = await app.website(), await app.key()
    for _ in range(2):
        await app.collect({"type": "pageview", "website_id": website, "url": "https://example.com/"})
    for headers, start in ((PREFIX, "</stats/api/v1/"), ({}, "</api/v1/")):
        answer = await app.get(f"/api/v1/websites/{website}/events?limit=1&format=csv", key, headers=headers)
        assert answer.headers["Link"].startswith(start)


def test_events_below_the_base_path_use_the_fast_path() -> None:
    openings = request_lines("/stats")
    rest = b" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
    for path, is_fast in ((b"/stats/api/collect", True), (b"/stats/api/v1/collect", True), (b"/api/collect", False)):
        assert (read_plain(b"POST " + path + rest, HeaderCache(), openings) is not None) is is_fast, path


def test_the_setup_link_has_the_base_path(serve: Serve) -> None:
    server = serve("--base-path", "/stats")
    assert server.url.endswith("/stats")
    assert f"set up Tally: {server.url}/setup#" in server.stderr()
    server.terminate()
    server = serve("--base-path", "/stats", "--base-url", "https://example.com")
    assert "set up Tally: https://example.com/stats/setup#" in server.stderr()
