"""The HTML shell and the static files: headers, bodies and paths that are not served (tally/web/pages.py)."""

import gzip
import json
import re
from pathlib import Path

import pytest

from tally.events.website import Website
from tally.web import pages
from tests.support.app import ROOT, Answer, App
from tests.support.cases import cases
from tests.support.page_client import PageClient, logged_in

PAGES = [
    "/",
    "/login",
    "/setup",
    "/websites/c66653dc-e3f4-4325-a39f-da606931a543",
    "/account",
    "/account/keys",
    "/share/x",
]
STATIC = ROOT / "static"
PLAIN = {"Accept-Encoding": "identity"}


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_is_the_same_shell(app: App, path: str) -> None:
    """All pages are static/app.html, byte for byte; it sets no cookie."""
    for browser in (PageClient(app), await logged_in(app)):
        answer = await browser("GET", path, headers=dict(PLAIN))
        assert (answer.status, answer.body) == (200, (STATIC / "app.html").read_bytes())
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-cache"
        assert browser.set_cookies == []


async def test_security_headers_of_pages(app: App) -> None:
    """The exact Content-Security-Policy, and the other security headers."""
    headers = (await PageClient(app)("GET", "/")).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "font-src": "'none'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    off = headers["Permissions-Policy"].split(", ")
    assert {"camera=()", "geolocation=()", "microphone=()", "usb=()"} <= set(off)
    assert all(re.fullmatch("[a-z-]+=\\(\\)", one) for one in off)
    assert not [one for one in off if "clipboard" in one]  # the copy buttons need it


def frames(answer: Answer) -> str | None:
    """Return the frame-src of a response's policy; None without one, which allows no frames."""
    found = re.search(r"; frame-src ([^;]*)$", answer.headers["Content-Security-Policy"])
    assert answer.headers["Content-Security-Policy"].startswith(f"{pages.POLICY};" if found else pages.POLICY)
    return found and found[1]


async def test_the_heatmap_page_may_frame_the_website(app: App) -> None:
    """Domain, subdomains and allowed origins may be framed, for the owner only; the file is the same."""
    owner = await logged_in(app)
    origins = ("capacitor://localhost", "http://localhost:3000", "https://[::1]:8443", "https://shop.example.net")
    website = await app.website(allow_origins=origins)
    path = f"/websites/{website}/heatmaps"
    answer = await owner("GET", path, headers=dict(PLAIN))
    own = "https://example.com http://example.com https://*.example.com http://*.example.com"
    assert frames(answer) == f"{own} http://localhost:3000 https://shop.example.net"
    assert answer.body == (STATIC / "app.html").read_bytes()
    assert answer.headers["Cache-Control"] == "private, no-cache"
    for other in (f"/websites/{website}", f"/websites/{website}/rejected", "/", "/login"):
        assert frames(await owner("GET", other)) is None
    for browser, address in (
        (PageClient(app), path),
        (await logged_in(app, "other@example.com"), path),
        (owner, "/websites/c66653dc-e3f4-4325-a39f-da606931a543/heatmaps"),
        (owner, "/websites/x/heatmaps"),
    ):
        answer = await browser("GET", address)
        assert (answer.status, frames(answer)) == (200, None)


async def test_the_etag_changes_with_the_policy(app: App) -> None:
    """A cached page is replaced when the domain changes or the session ends."""
    owner = await logged_in(app)
    website = await app.website()
    path = f"/websites/{website}/heatmaps"
    tag = {"If-None-Match": (await owner("GET", path)).headers["ETag"]}
    assert (await owner("GET", path, headers=dict(tag))).status == 304
    await owner("PATCH", f"/api/account/websites/{website}", {"domain": "example.org"})
    answer = await owner("GET", path, headers=dict(tag))
    assert answer.status == 200
    assert "https://example.org" in (frames(answer) or "")
    assert "example.com" not in (frames(answer) or "")
    assert (await PageClient(app)("GET", path, headers=tag)).status == 200


def site(domain: str, *origins: str) -> Website:
    return Website(1, "x", domain, "x", 0, 1, "business", frozenset(origins))


@pytest.mark.parametrize(
    ("website", "sources"),
    [
        (site("192.0.2.7"), "https://192.0.2.7 http://192.0.2.7"),
        (site("[2001:db8::7]"), ""),
        (site("localhost", "http://localhost:3000", "app://localhost"), "https://localhost http://localhost"),
    ],
    ids=["an address has no subdomains", "a policy cannot contain IPv6", "only http and https origins"],
)
def test_frame_sources(website: Website, sources: str) -> None:
    found = [one for one in pages.frames_of(website) if "*" not in one]
    assert " ".join(found) == (f"{sources} http://localhost:3000" if website.origins else sources)


@pytest.mark.parametrize(
    ("domain", "any_port"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("192.0.2.7", False),
        ("127.example", False),
        ("localhost.example", False),
    ],
)
def test_pages_of_this_computer_are_framed_on_any_port(domain: str, any_port: bool) -> None:
    assert [one for one in pages.frames_of(site(domain)) if one.endswith(":*")] == (
        [f"http://{domain}:*"] if any_port else []
    )


def test_the_shell_has_no_inline_code() -> None:
    """No inline script, style or event handler, and no resource of another origin."""
    shell = (STATIC / "app.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", shell)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", shell))
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", shell)


FILES = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.*") if path.is_file())
# The texts of the pages are served in parts, see test_texts_are_served_in_parts.
SERVED = [path for path in FILES if Path(path).suffix in pages._TYPES and not path.startswith("messages/")]


def as_served(path: str) -> bytes:
    """Return a file of static/; scripts and style sheets of the pages without comments and indentation."""
    body = (STATIC / path).read_bytes()
    if not path.endswith((".js", ".css")) or path.startswith("vendor/"):
        return body
    opening = b"/**" if path.endswith(".js") else b"/*"
    lines, is_block = list[bytes](), False
    for line in body.split(b"\n"):
        text = line.strip()
        while not is_block and (b"/** @" if path.endswith(".js") else opening) in text and b"*/" in text:
            before, _, rest = text.partition(opening)
            text = before + rest.partition(b"*/")[2].removeprefix(b" " if path.endswith(".js") else b"")
        starts = text.startswith(opening)
        is_comment = is_block or starts or (path.endswith(".js") and text.startswith(b"//"))
        is_block = (is_block or starts) and not text.endswith(b"*/")
        lines.append(b"" if is_comment else text)
    return b"\n".join(lines)


@cases("path", [path for path in SERVED if path.endswith(".js") and not path.startswith("vendor/")])
def test_no_text_of_a_script_is_taken_for_a_comment(path: str) -> None:
    """Scripts are served without the lines that begin as a comment, and without indentation."""
    for number, line in enumerate((STATIC / path).read_text().splitlines(), 1):
        is_comment = line.lstrip().startswith(("//", "*", "/*"))
        assert is_comment or line.count("`") % 2 == 0, f"{path}:{number} has a part of a template: write it on one line"
        before, comment, _ = line.partition("/** @")
        is_in_text = bool(comment) and not is_comment and any(before.count(quote) % 2 for quote in "\"'`")
        assert not is_in_text, f"{path}:{number} has a type in a text"


@cases("path", SERVED)
async def test_every_file_is_served(app: App, path: str) -> None:
    """With an ETag, `Cache-Control: no-cache`, the right type and a gzip copy."""
    body = as_served(path)
    answer = await PageClient(app)("GET", f"/assets/{path}", headers=dict(PLAIN))
    assert (answer.status, answer.body) == (200, body)
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert "Content-Encoding" not in answer.headers
    found = pages.Files()[path]
    assert answer.headers["Content-Type"] == found.kind
    assert not found.packed or gzip.decompress(found.packed) == body
    again = await PageClient(app)("GET", f"/assets/{path}", headers=PLAIN | {"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", answer.headers["ETag"])


@pytest.mark.parametrize("language", sorted(path.stem for path in (STATIC / "messages").glob("*.json")))
async def test_texts_are_served_in_parts(app: App, language: str) -> None:
    """A page loads the texts of its own parts only."""
    client = PageClient(app)
    for part, texts in json.loads((STATIC / "messages" / f"{language}.json").read_bytes()).items():
        answer = await client("GET", f"/assets/messages/{language}/{part}.json")
        assert (answer.status, json.loads(answer.body)) == (200, texts)
    assert (await client("GET", f"/assets/messages/{language}.json")).status == 404


@pytest.mark.parametrize(
    ("accepted", "is_gzip"),
    [
        ("gzip", True),
        ("gzip, deflate, br", True),
        ("br;q=1.0, GZIP;q=0.5", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("identity", False),
        ("x-gzip", False),
    ],
)
async def test_gzip_only_where_accepted(app: App, accepted: str, is_gzip: bool) -> None:
    request = app.client.request("GET", "/assets/app.css", headers={"Accept-Encoding": accepted}, auto_decompress=False)
    async with request as response:
        body = await response.read()
        assert (response.headers.get("Content-Encoding") == "gzip") is is_gzip
        tag = response.headers["ETag"]
    plain = as_served("app.css")
    assert (gzip.decompress(body) if is_gzip else body) == plain
    # Two representations, two tags.
    assert tag.endswith('-gzip"') is is_gzip


async def test_head_returns_the_length_without_a_body(app: App) -> None:
    for path in ("/", "/assets/app.css"):
        answer = await PageClient(app)("HEAD", path, headers=dict(PLAIN))
        full = await PageClient(app)("GET", path, headers=dict(PLAIN))
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["Content-Length"] == str(len(full.body))


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "x.css",
            "app.css/",
            "/app.css",
            "APP.CSS",
            "./app.css",
            "pages",
            "pages/",
            "openapi.yaml",
            "vendor/README.md",
        ),
        *(
            "../schema.sql",
            "..%2fschema.sql",
            "%2e%2e/schema.sql",
            "pages/../app.css",
            "..\\schema.sql",
            "app.css%00",
            ".",
        ),
        *("%2fetc%2fpasswd", "//etc/passwd", "..%252fschema.sql", "app.css;x", "\u00e4.css"),
    ],
)
async def test_other_paths_are_not_served(app: App, path: str) -> None:
    """Files are found in a table read at start; no path of a request reaches the file system."""
    async with app.client.request("GET", f"/assets/{path}") as response:
        # The client itself resolves dots, so the path may be that of an asset.
        if response.status == 200:
            assert str(response.url.path).startswith("/assets/")
            assert await response.read() == as_served("app.css")
        else:
            assert response.status == 404
            assert (await response.json())["error"]["code"] == "not_found"


async def test_a_file_added_after_the_start_is_not_served(app: App, tmp_path: Path) -> None:
    """Only files that existed when the server started are served."""
    assert "later.js" not in app.application[pages.FILES]
    answer = await PageClient(app)("GET", "/assets/later.js")
    assert answer.status == 404


async def test_method_not_allowed(app: App) -> None:
    answer = await PageClient(app)("POST", "/login", {})
    assert (answer.status, answer.json["error"]["code"]) == (405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET,HEAD"


def test_svg_files_are_sandboxed() -> None:
    """An SVG opened as a page is a document of this origin and must not run scripts."""
    policy = pages.FILE_HEADERS["Content-Security-Policy"]
    assert policy == "default-src 'none'; frame-ancestors 'none'; sandbox"
