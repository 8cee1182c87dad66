"""Every route of the server, asked by everybody there is: who may have what, in one table.

A route that is not in the table fails a test, and so does one that answers anybody better or worse than the table says.
Who asks: nobody in particular; somebody with the owner's API key; somebody with another account's key; a browser in
which another account is logged in; the owner's browser; somebody who has a shared link. Each sends what he has and
nothing else. Somebody whose key was revoked, or whose session has ended, is nobody again.

Routes are those of aiohttp's own router, in a server with the owner's choice of paths: HEAD may what GET may, OPTIONS
asks for nothing, and no other method is there.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from analytics_server import build_app
from tally.accounts.api_keys import revoke_api_key
from tally.api.auth import AUTH
from tally.api.reports import REPORTS
from tally.settings import Settings
from tally.web.routes import ROUTES
from tests.support.app import Answer, App, MakeApp
from tests.support.page_client import PASSWORD, PageClient, logged_in

OTHER = "other@example.com"
WHO = ("nobody", "key", "other_key", "other", "owner", "guest")


class Row(NamedTuple):
    """A route and the status that each of WHO is answered; `body` and `query` are what the owner could send."""

    route: str
    statuses: tuple[int, ...]
    body: Any = None
    query: str = ""


OPEN = (200,) * 6
READING = (401, 200, 404, 401, 401, 401)
OWNERS = (401, 401, 401, 200, 200, 401)
OWN_WEBSITE = (401, 401, 401, 404, 200, 401)
PAGE = {"type": "pageview", "url": "https://example.com/a"}
LOGIN = {"email": OTHER, "password": "not the password"}

# The only reports that a share link shows, written out: a row of REPORTS alone must not open another one.
SHOWN_BY_LINKS = {
    *("stats", "timeseries", "top", "event-names", "entry-pages", "exit-pages", "events", "realtime"),
}
# What reports with required parameters are asked.
QUERIES = {
    "funnel": "?step=pathname:/&step=pathname:/a",
    "event-data": "?event_name=signup",
    "heatmap": "?pathname=/",
}


def report_rows() -> Iterator[Row]:
    """Return the rows of all reports: each answers a key and a session, and some a share link."""
    for report in REPORTS:
        query = QUERIES.get(report.name, "")
        yield Row(f"GET /api/v1/websites/{{id}}/{report.path}", READING, query=query)
        yield Row(f"GET /api/account/websites/{{id}}/{report.path}", OWN_WEBSITE, query=query)
        if report.name in SHOWN_BY_LINKS:
            yield Row(f"GET /api/share/{{token}}/{report.path}", (404, 404, 404, 404, 404, 200), query=query)


TABLE = (
    *report_rows(),
    Row("POST /api/collect", (202,) * 6, PAGE),
    Row("POST /api/v1/collect", (202,) * 6, PAGE),
    Row("GET /api/v1/websites", (401, 200, 200, 401, 401, 401)),
    Row("GET /api/account/state", OPEN),
    Row("GET /api/account/setup", (404,) * 6),
    Row("POST /api/account/setup", (404,) * 6, {"token": "used", "email": "a@b.c", "password": PASSWORD}),
    Row("POST /api/account/login", (401,) * 6, LOGIN),
    Row("POST /api/account/logout", (401, 401, 401, 204, 204, 401)),
    Row("POST /api/account/logout-everywhere", (401, 401, 401, 204, 204, 401)),
    Row("GET /api/account", OWNERS),
    Row("PATCH /api/account", OWNERS, {"time_zone": "UTC"}),
    Row("POST /api/account/password", (401, 401, 401, 403, 403, 401), {"current": "wrong", "new": PASSWORD}),
    Row("GET /api/account/keys", OWNERS),
    Row("POST /api/account/keys", (401, 401, 401, 201, 201, 401), {"name": "new"}),
    Row("DELETE /api/account/keys/{number}", (401, 401, 401, 404, 204, 401)),
    Row("GET /api/account/websites", OWNERS),
    Row("POST /api/account/websites", (401, 401, 401, 201, 201, 401), {"domain": "new.example"}),
    Row("GET /api/account/websites/{id}", OWN_WEBSITE),
    Row("PATCH /api/account/websites/{id}", OWN_WEBSITE, {"name": "renamed"}),
    Row("DELETE /api/account/websites/{id}", (401, 401, 401, 404, 202, 401), {"domain": "example.com"}),
    Row("POST /api/account/websites/{id}/share", (401, 401, 401, 404, 201, 401)),
    Row("DELETE /api/account/websites/{id}/share", (401, 401, 401, 404, 204, 401)),
    # The path is the authorisation: everybody else names a link that was never made.
    Row("GET /api/share/{token}", (404, 404, 404, 404, 404, 200)),
    Row("GET /", OPEN),
    Row("GET /login", OPEN),
    Row("GET /setup", OPEN),
    Row("GET /websites/{id}", OPEN),
    Row("GET /websites/{id}/events", OPEN),
    Row("GET /websites/{id}/funnels", OPEN),
    Row("GET /websites/{id}/vitals", OPEN),
    Row("GET /websites/{id}/heatmaps", OPEN),
    Row("GET /websites/{id}/experiments", OPEN),
    Row("GET /websites/{id}/rejected", OPEN),
    Row("GET /account", OPEN),
    Row("GET /account/{section}", OPEN),
    Row("GET /share/{token}", OPEN),
    Row("GET /assets/{path}", OPEN),
    Row("GET /api/v1/openapi.yaml", OPEN),
    Row("GET /healthz", OPEN),
    # A proxy on this machine passes all of these on; the metrics token has tests of its own.
    Row("GET /metrics", (403,) * 6),
    # Of the tracker's, everybody's.
    Row("GET /tracker.js", OPEN),
    Row("GET /tracker/{part}.js", OPEN),
    Row("GET /pixel.gif", OPEN),
)
BY_ROUTE = {row.route: row for row in TABLE}
NAMES = [f"{route.method} {route.path}" for route in ROUTES]
CHOSEN = {"script_path": "/js/site.js", "collect_path": "/js/send"}
# What the owner chose is the same as the usual path.
USUAL = {"/js/site.js": "/tracker.js", "/js/site/{part}.js": "/tracker/{part}.js", "/js/send": "/api/collect"}
ROUTER = [
    (route.method, route.resource.canonical)
    for route in build_app(Settings(**CHOSEN)).router.routes()
    if route.resource is not None
]


def row_of(method: str, path: str) -> Row:
    """The row of a method and a path of the router's."""
    return BY_ROUTE[f"{method} {USUAL.get(path, path)}"]


def test_every_route_is_in_the_table() -> None:
    assert [name for name in NAMES if name not in BY_ROUTE] == []
    assert len(BY_ROUTE) == len(TABLE)
    paths = {path for _, path in ROUTER}
    assert paths >= set(USUAL)
    for method, path in ROUTER:
        if method not in ("HEAD", "OPTIONS"):
            row_of(method, path)
    # Nothing takes any method, and HEAD is where GET is.
    assert {method for method, _ in ROUTER} == {"GET", "HEAD", "OPTIONS", "POST", "PATCH", "DELETE"}
    assert {path for method, path in ROUTER if method == "HEAD"} == {path for m, path in ROUTER if m == "GET"}


class Place:
    """Two accounts, the website of the first, its key and its link."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def fill(self) -> None:
        app = self.app
        self.owner, self.other = await logged_in(app), await logged_in(app, OTHER, ip="198.51.100.2")
        self.website = await app.website()
        self.key, self.other_key = await app.key(), await app.key(OTHER)
        self.number = (await self.owner("GET", "/api/account/keys")).json["data"][0]["id"]
        link = await self.owner("POST", f"/api/account/websites/{self.website}/share")
        self.token = link.json["data"]["share"].removeprefix("/share/")
        await app.collect(PAGE | {"website_id": self.website})

    async def end(self) -> None:
        """The owner's key is revoked and his session ends; what he had is kept."""
        self.cookie = self.owner.cookies["tally"]
        await self.app.admin(lambda connection: revoke_api_key(connection, self.key))
        assert (await self.owner("POST", "/api/account/logout")).status == 204

    async def ask(self, who: str, name: str, body: Any = None) -> Any:
        method, _, path = name.partition(" ")
        token = self.token if who == "guest" else "x" * 24
        values = {"id": self.website, "number": self.number, "token": token, "field": "os", "section": "keys"}
        values |= {"path": "app.css", "part": "heatmap"}
        browser = {"owner": self.owner, "other": self.other}.get(who, PageClient(self.app))
        keys = {"key": self.key, "other_key": self.other_key}
        headers: dict[str, str | None] = {"Authorization": f"Bearer {keys[who]}"} if who in keys else {}
        if path.startswith(("/api/collect", "/api/v1/collect", "/js/send")):
            # An app's: a page would have to be of the website's domain.
            headers |= {"Sec-Fetch-Site": None}
            body = body | {"website_id": self.website}
        asked = BY_ROUTE.get(f"GET {USUAL.get(path, path)}", BY_ROUTE["GET /"]).query
        return await browser(method, path.format(**values) + asked, body, headers=headers)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("name", NAMES)
async def test_who_may_have_what(app: App, name: str, who: str) -> None:
    place = Place(app)
    await place.fill()
    row = BY_ROUTE[name]
    answer = await place.ask(who, name, row.body)
    assert answer.status == row.statuses[WHO.index(who)], answer.text
    if name.startswith("GET /api/") and answer.status == 401:
        assert place.website not in answer.text


@pytest.fixture
async def chosen(make_app: MakeApp) -> Place:
    """A place where the owner chose paths, and where nobody asks too often."""
    place = Place(await make_app(**CHOSEN, client_per_minute=9_999, website_per_minute=9_999, key_per_minute=9_999))
    await place.fill()
    return place


async def test_head_may_what_get_may(chosen: Place) -> None:
    heads = [path for method, path in ROUTER if method == "HEAD"]
    assert len(heads) > 30
    for path in heads:
        for who, status in zip(WHO, row_of("GET", path).statuses, strict=True):
            answer = await chosen.ask(who, f"HEAD {path}")
            assert (answer.status, answer.body) == (status, b""), (who, path)


async def test_options_asks_for_nothing(chosen: Place) -> None:
    """A preflight is answered alike to everybody, where pages of other origins may come, and is refused elsewhere."""
    for path in sorted({path for _, path in ROUTER}):
        is_open = ("OPTIONS", path) in ROUTER
        assert is_open is (path == "/js/send" or path.startswith(("/api/collect", "/api/v1/collect", "/api/v1/web")))
        answers: list[Answer] = [await chosen.ask(who, f"OPTIONS {path}", {}) for who in WHO]
        assert {(answer.status, answer.body) for answer in answers} == {
            (204, b"") if is_open else (405, answers[0].body)
        }, path


async def test_no_other_method_is_there(chosen: Place) -> None:
    for path in sorted({path for _, path in ROUTER}):
        taken = {method for method, other in ROUTER if other == path}
        for method in sorted({"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - taken):
            answer = await chosen.ask("owner", f"{method} {path}", {})
            assert answer.status == 405, (method, path)
            assert set(answer.headers["Allow"].split(",")) == taken, (method, path)


async def test_who_had_a_key_or_a_session_is_nobody_again(chosen: Place) -> None:
    await chosen.end()
    for method, path in ROUTER:
        if method in ("OPTIONS", "HEAD"):
            continue
        row = row_of(method, path)
        revoked = await chosen.ask("key", f"{method} {path}", row.body)
        chosen.owner.cookies["tally"] = chosen.cookie
        ended = await chosen.ask("owner", f"{method} {path}", row.body)
        assert [revoked.status, ended.status] == [row.statuses[0]] * 2, (method, path)


@pytest.mark.parametrize("name", [name for name in NAMES if "/api/v1/websites" in name])
async def test_no_cookie_and_no_link_opens_the_read_api(app: App, name: str) -> None:
    """A cookie must never authorise what pages of other origins may read: there is only the Authorization header."""
    place = Place(app)
    await place.fill()
    value = place.owner.cookies["tally"]
    method, _, path = name.partition(" ")
    path = path.format(id=place.website, field="os")
    attempts: list[dict[str, str | None]] = [
        {"Cookie": f"tally={value}; __Host-tally={value}"},
        {"Authorization": f"Bearer {value}"},
        {"Authorization": f"Bearer {place.token}"},
        {"Authorization": f"Basic {value}"},
    ]
    for headers in attempts:
        answer = await PageClient(app)(method, path, headers=headers)
        assert answer.status == 401
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("name", [name for name in NAMES if " /api/account" in name or " /api/share" in name])
async def test_no_other_origin_may_read_the_pages_own_answers(app: App, name: str) -> None:
    """ "No CORS headers on any of these", whatever Origin asks, preflights included; nothing is kept by caches."""
    place = Place(app)
    await place.fill()
    method, _, path = name.partition(" ")
    values = {"id": place.website, "number": place.number, "token": place.token, "field": "os"}
    for verb in (method, "OPTIONS"):
        headers: dict[str, str | None] = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        headers |= {"Access-Control-Request-Method": method} if verb == "OPTIONS" else {}
        answer = await place.owner(verb, path.format(**values), BY_ROUTE[name].body, headers=headers)
        assert not [header for header in answer.headers if header.lower().startswith("access-control")]
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] in ("no-store", "private, no-cache")
        assert answer.status == 405 if verb == "OPTIONS" else answer.status in (200, 400, 403, 404)


ANOTHERS: tuple[Callable[[Place], str], ...] = (
    lambda place: place.website,
    lambda place: place.website.upper(),
    lambda place: "00000000-0000-4000-8000-000000000000",
)


@pytest.mark.parametrize("name", [name for name in NAMES if "/api/account/websites/{id}" in name])
async def test_anothers_website_is_as_unknown_as_none(app: App, name: str) -> None:
    """Two accounts that must not see each other: not even that the other's website exists."""
    place = Place(app)
    await place.fill()
    method, _, path = name.partition(" ")
    answers = [
        await place.other(method, path.format(id=id_of(place), field="os"), BY_ROUTE[name].body) for id_of in ANOTHERS
    ]
    assert {(answer.status, answer.body) for answer in answers} == {(404, answers[0].body)}
    assert (await place.owner("GET", f"/api/account/websites/{place.website}/stats")).status == 200


async def test_an_answer_never_sends_a_browser_elsewhere(app: App) -> None:
    """Open redirects: there are none, since nothing is ever redirected."""
    place = Place(app)
    await place.fill()
    for path in (
        "/login?next=https://evil.example",
        "/login?next=//evil.example",
        "/%2Fevil.example/login",
        "/setup?next=x",
    ):
        for who in (PageClient(app), place.owner):
            answer = await who("GET", path)
            assert answer.status in (200, 404)
            assert "Location" not in answer.headers
            assert "evil" not in answer.text
    assert app.application[AUTH].needs_setup is False
