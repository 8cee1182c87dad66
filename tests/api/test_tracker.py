"""Serving the tracker script, and the pixel. What the script does in a browser is tested in tests/browser."""

import gzip
from hashlib import sha256

import pytest

from tally.http.responses import GIF
from tally.web import tracker
from tally.web.minifier import compact
from tests.support.app import CHROME, ROOT, SAFARI_IPHONE, App, MakeApp
from tests.support.process import Command
from tests.support.read_api import raw

PAGE = {"Referer": "https://example.com/pricing?utm_source=news", "Sec-Fetch-Site": "cross-site", "User-Agent": CHROME}
GZIP = {"Accept-Encoding": "gzip"}


SOURCE = compact((ROOT / "static" / "tracker.js").read_text()).encode()


def test_the_core_is_small() -> None:
    """At most 2,600 bytes gzipped, as documented, and with the part that every page loads 3,800."""
    size = len(gzip.compress(SOURCE, 9, mtime=0))
    assert size <= 2_600
    part = (ROOT / tracker.PARTS["leave"]).read_bytes()
    assert size + len(gzip.compress(part, 9, mtime=0)) <= 3_800


async def test_the_script_is_served(app: App) -> None:
    source = SOURCE
    answer = await app.get("/tracker.js", headers=GZIP)
    assert (answer.status, answer.body) == (200, source)  # the client has decompressed it
    assert answer.headers["Content-Encoding"] == "gzip"
    assert int(answer.headers["Content-Length"]) <= 2_600
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert answer.headers["Cache-Control"] == "public, max-age=86400"
    assert answer.headers["Vary"] == "Accept-Encoding"
    again = await app.get("/tracker.js", headers=GZIP | {"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    plain = await app.get("/tracker.js", headers={"Accept-Encoding": "identity"})
    assert (plain.body, "Content-Encoding" in plain.headers) == (source, False)
    assert plain.headers["ETag"] != answer.headers["ETag"]
    head = await app.get("/tracker.js", method="HEAD")
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize("query", ["?id=c66653dc-e3f4-4325-a39f-da606931a543", "?id=x&_=1700000000000", "?"])
async def test_the_scripts_query_string_is_ignored(app: App, query: str) -> None:
    """`?id=` is read by the script itself: body, ETag and caching stay the same, for its parts too."""
    for path in ("/tracker.js", "/tracker/links.js"):
        plain, with_query = await app.get(path, headers=GZIP), await app.get(path + query, headers=GZIP)
        assert (with_query.status, with_query.body) == (200, plain.body)
        for name in ("ETag", "Cache-Control", "Vary", "Access-Control-Allow-Origin", "Content-Type"):
            assert with_query.headers[name] == plain.headers[name]
        again = await app.get(path + query, headers=GZIP | {"If-None-Match": plain.headers["ETag"]})
        assert again.status == 304


@pytest.mark.parametrize("name", tracker.PARTS)
async def test_parts(app: App, name: str) -> None:
    answer = await app.get(f"/tracker/{name}.js")
    assert (answer.status, answer.body) == (200, (ROOT / tracker.PARTS[name]).read_bytes())
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("path", ["/tracker/none.js", "/tracker/..%2Ftracker.js", "/tracker/README.js", "/js/site.js"])
async def test_unknown_parts(app: App, path: str) -> None:
    answer = await app.get(path)
    assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")


def test_vendored_files_are_unchanged() -> None:
    readme = (ROOT / "static" / "vendor" / "README.md").read_text()
    assert sha256((ROOT / tracker.PARTS["web-vitals"]).read_bytes()).hexdigest() in readme
    assert (ROOT / "static/vendor/web-vitals-6.2.3/LICENSE").read_text().lstrip().startswith("Apache License")


@pytest.mark.parametrize(
    ("script", "collect", "custom_path", "default_path"),
    [
        ("/js/site.js", "/js/send", '"send"', '"js/send"'),
        ("/a/b/site.js", "/send", '"../../send"', '"send"'),
        ("/site.js", "/api/collect", '"api/collect"', '"api/collect"'),
        ("/tracker.js", "/x/y", '"x/y"', '"x/y"'),
    ],
)
async def test_custom_script_and_collect_paths(
    make_app: MakeApp, script: str, collect: str, custom_path: str, default_path: str
) -> None:
    """Each copy of the script has the collect path relative to its own."""
    app = await make_app(script_path=script, collect_path=collect)
    for path, words in ((script, custom_path), ("/tracker.js", default_path)):
        answer = await app.get(path)
        assert f"new URL({words}," in answer.body.decode()
        assert (await app.get(path.removesuffix(".js") + "/links.js")).status == 200
    website = await app.website()
    event = {"type": "pageview", "website_id": website, "url": "https://example.com/"}
    for path in {collect, "/api/collect", "/api/v1/collect"}:
        taken = await app.collect(event, path=path, headers={"Origin": "https://example.com"})
        assert (taken.status, taken.headers["Access-Control-Allow-Origin"]) == (202, "*")
        refused = await app.collect(event, path=path, headers={"Origin": "https://evil.example"})
        assert (refused.status, refused.headers["Access-Control-Expose-Headers"]) == (403, "Retry-After")
        assert (await app.collect(b"", path=path, method="OPTIONS")).status == 204


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--script-path", "site.js", "must be a path"),
        ("--script-path", "/site", "ends in .js"),
        ("--script-path", "/../site.js", "must be a path"),
        ("--script-path", "/{part}.js", "must be a path"),
        ("--script-path", "/api/site.js", "collides"),
        ("--script-path", "/assets/site.js", "collides"),
        ("--script-path", "/account.js", "collides"),
        ("--collect-path", "/healthz", "collides"),
        ("--collect-path", "/tracker.js", "collides"),
        ("--collect-path", "/a b", "must be a path"),
        ("--collect-path", "/", "must be a path"),
    ],
)
def test_invalid_custom_paths(command: Command, option: str, value: str, words: str) -> None:
    refused = command("serve", "--port", "0", option, value)
    assert (refused.returncode, words in refused.stderr) == (2, True)


async def pixel(app: App, website: str, **headers: str) -> None:
    answer = await app.get("/pixel.gif", params={"website_id": website}, headers=PAGE | headers)
    assert (answer.status, answer.body) == (200, GIF)
    assert answer.headers["Content-Type"] == "image/gif"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"


async def test_the_pixel_counts_the_page_in_its_referer(app: App) -> None:
    website, key = await app.website(), await app.key()
    await pixel(app, website)
    [event] = (await app.get(f"/api/v1/websites/{website}/events", key)).json["data"]
    assert [event[k] for k in ("type", "pathname", "hostname", "utm_source", "browser")] == [
        "pageview",
        "/pricing",
        "example.com",
        "news",
        "Chrome",
    ]


@pytest.mark.parametrize(
    ("website", "headers"),
    [
        ("", {}),
        ("nonsense", {}),
        ("00000000-0000-4000-8000-000000000000", {}),
        ("own", {"Referer": "https://evil.example/"}),
        ("own", {"Referer": "nonsense"}),
        ("own", {"Referer": ""}),
        ("own", {"Origin": "null"}),
        ("own", {"User-Agent": "Googlebot/2.1 (+http://www.google.com/bot.html)"}),
    ],
)
async def test_the_pixel_returns_an_image_for_rejected_events(app: App, website: str, headers: dict[str, str]) -> None:
    own = await app.website()
    await pixel(app, own if website == "own" else website, **headers)
    assert app.sql("select count(*) from event") == [(0,)]


async def test_the_pixel_is_rate_limited(make_app: MakeApp) -> None:
    app = await make_app(website_per_minute=2)
    website = await app.website()
    for _ in range(5):
        await pixel(app, website, **{"X-Forwarded-For": "203.0.113.9", "User-Agent": SAFARI_IPHONE})
    assert app.sql("select count(*) from event") == [(2,)]


async def test_head_of_the_pixel_counts_nothing(app: App) -> None:
    website = await app.website()
    answer = await app.get("/pixel.gif", params={"website_id": website}, headers=PAGE, method="HEAD")
    assert answer.status == 200
    assert app.sql("select count(*) from event") == [(0,)]


@pytest.mark.parametrize(
    "page", [b"https://example.com/\xff", b"https://example.com/?utm_source=\xff", b"\xed\xa0\x80"]
)
async def test_invalid_utf_8_in_headers_does_not_reach_the_writer(app: App, page: bytes) -> None:
    """An error in a group commit would fail all requests of the group."""
    website = await app.website()
    lines = (
        b"GET /pixel.gif?website_id=" + website.encode() + b" HTTP/1.1",
        *(b"Host: stats.example.com", b"Connection: close", b"User-Agent: " + CHROME.encode()),
        *(b"Origin: https://example.com", b"Referer: " + page, b"", b""),
    )
    answer = await raw(app, b"\r\n".join(lines))
    assert (answer.status, answer.body) == (200, GIF)
    assert app.running.ingest.counters.failed_commits == 0
    assert app.database.check_health() == "well"
    views = app.sql("select count(*) from event")[0][0]
    assert views == (1 if page.startswith(b"https") else 0)


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        *(("/script.js", "api/send"), ("/count.js", "count"), ("/js/script.js", "../api/event")),
        *(("/js/plausible.js", "../api/event"), ("/js/script.hash.outbound-links.js", "../api/event")),
        ("/js/pa-x7_Y.js", "../api/event"),
    ],
)
async def test_the_script_under_names_of_other_systems(app: App, path: str, endpoint: str) -> None:
    """It is followed by the tracker, whose collect path is that of the system's own script."""
    answer = await app.get(path, headers=GZIP)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert int(answer.headers["Content-Length"]) <= 3_850
    assert f'"{endpoint}"'.encode() in answer.body
    assert b"compat" not in answer.body
    part = await app.get(path.removesuffix(".js") + "/links.js")
    assert (part.status, part.body) == (200, (ROOT / tracker.PARTS["links"]).read_bytes())
    assert (await app.get(path.removesuffix(".js") + "/other.js")).status in (400, 404)


@pytest.mark.parametrize("path", ["/js/other.js", "/js/script", "/js/x/script.js", "/js/script.css"])
async def test_other_names_are_not_found(app: App, path: str) -> None:
    assert (await app.get(path)).status == 404
