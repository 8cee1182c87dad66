"""Paths that do not exist: an HTML page for browsers, JSON for everything else."""

from tests.support.app import App
from tests.support.page_client import logged_in

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


async def test_a_browser_gets_a_page(app: App) -> None:
    """The page is the same for every path, contains no part of the request and runs no script."""
    other = await app.get("/other", headers={"Accept": BROWSER})
    assert "<h1>Page not found</h1>" in other.text
    for path in ("/nothing", "/websites", "/<script>alert(1)</script>", "/assets/nothing.js", "/a/b/c?x=<b>", "/apis"):
        answer = await app.get(path, headers={"Accept": BROWSER})
        assert (answer.status, answer.body) == (404, other.body), path
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Vary"] == "Accept"
        assert answer.headers["Cache-Control"] == "no-store"
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "script-src" not in policy
        head = await app.get(path, headers={"Accept": BROWSER}, method="HEAD")
        assert (head.status, head.body) == (404, b"")
    for accept in ("text/html", "TEXT/HTML; q=0.5", "application/json, text/html;level=1"):
        answer = await app.get("/nothing", headers={"Accept": accept})
        assert answer.headers["Content-Type"].startswith("text/html"), accept


async def test_who_is_signed_in_gets_the_page_with_the_frame(app: App) -> None:
    """The shell, which draws it; the same for every path, with the status of a page that there is not."""
    owner = await logged_in(app)
    shell = await owner("GET", "/")
    for path in ("/nothing", "/websites/", "/a/b/c?x=<b>"):
        answer = await owner("GET", path, headers={"Accept": BROWSER})
        assert (answer.status, answer.body) == (404, shell.body), path
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Content-Security-Policy"] == shell.headers["Content-Security-Policy"]
    owner.cookies.clear()
    assert "<h1>Page not found</h1>" in (await owner("GET", "/nothing", headers={"Accept": BROWSER})).text


async def test_everything_else_gets_json(app: App) -> None:
    for path, accept, method in (
        ("/nothing", "", "GET"),
        ("/nothing", "*/*", "GET"),
        ("/nothing", "application/json", "GET"),
        ("/nothing", "text/html;q=0, */*", "GET"),
        ("/nothing", "text/html-no", "GET"),
        ("/nothing", BROWSER, "POST"),
        ("/api/nothing", BROWSER, "GET"),
        ("/api/v1/websites/x/nothing", BROWSER, "GET"),
    ):
        answer = await app.get(path, headers={"Accept": accept} if accept else {}, method=method)
        assert answer.status == 404
        assert answer.json["error"]["code"] == "not_found", (path, accept)
