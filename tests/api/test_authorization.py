"""Who may call each route of the server: every kind of client requests every route, compared with one table.

A route that is missing in the table fails a test, and so does any other status. The clients are: one without
credentials, one with the owner's API key, one with another account's key, another account's browser, the owner's
browser, and one with a share link. A revoked key or an ended session counts as no credentials.

The routes are those of aiohttp's router with custom paths: HEAD has the same rules as GET, OPTIONS needs no
credentials, and other methods are refused.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from analytics_server import build_app
from tally.accounts.api_keys import revoke_api_key
from tally.accounts.assistants import new_client
from tally.api.auth import AUTH
from tally.api.definitions import GOALS, KINDS
from tally.settings import Settings
from tally.web.routes import ROUTES
from tests.support.app import Answer, App, MakeApp
from tests.support.cases import cases
from tests.support.endpoints import ENDPOINTS
from tests.support.page_client import LINK, PASSWORD, PageClient, logged_in

OTHER = "other@example.com"
CLIENTS = ("nobody", "key", "other_key", "other", "owner", "guest")


class Row(NamedTuple):
    """A route and the status for each of CLIENTS; `body` and `query` are valid for the owner."""

    route: str
    statuses: tuple[int, ...]
    body: Any = None
    query: str = ""


OPEN = (200,) * 6
READING = (401, 200, 404, 401, 401, 401)
OWNERS = (401, 401, 401, 200, 200, 401)
OWN_WEBSITE = (401, 401, 401, 404, 200, 401)
PAGE = {"type": "pageview", "url": "https://example.com/a"}
COLLECTING = ("/api/collect", "/api/v1/collect", "/api/event", "/api/send", "/api/batch", "/api/v0/count")
CONTENTS: dict[str, dict[str, Any]] = {
    "annotations": {"from": "2026-11-20", "text": "Launch"},
    "segments": {"name": "Germany", "filters": ["filter_country=DE"]},
    "goals": {"name": "Signup", "type": "event", "match": ["filter_event_name=signup"]},
    "funnels": {"name": "Checkout", "steps": ["pathname:/pricing", "event_name:signup"]},
}
# What a program asks for, as it sends a person's browser.
PROGRAM = {
    "response_type": "code",
    "client_id": new_client("Assistant", ["https://assistant.example/back"]).id,
    "redirect_uri": "https://assistant.example/back",
    "code_challenge": "x" * 43,
    "code_challenge_method": "S256",
}
LOGIN = {"email": OTHER, "password": "not the password"}


def report_rows() -> Iterator[Row]:
    """Yield the rows of all reports: keys and sessions may read all of them, share links some."""
    for endpoint in ENDPOINTS:
        path, query = endpoint.path, f"?{endpoint.query}"
        yield Row(f"GET /api/v1/websites/{{id}}/{path}", READING, query=query)
        yield Row(f"GET /api/account/websites/{{id}}/{path}", OWN_WEBSITE, query=query)
        if endpoint.is_shared:
            yield Row(f"GET /api/share/{{token}}/{path}", (404, 404, 404, 404, 404, 200), query=query)


def definition_rows() -> Iterator[Row]:
    """Return the rows of what changes annotations, segments, goals and funnels; `{definition}` is a goal."""
    for of in KINDS:
        path = f"/api/account/websites/{{id}}/{of.path}"
        own = (404, 404) if of is not GOALS else (200, 204)
        yield Row(f"POST {path}", (401, 401, 401, 404, 201, 401), CONTENTS[of.path])
        yield Row(f"PATCH {path}/{{definition}}", (401, 401, 401, 404, own[0], 401), {})
        yield Row(f"DELETE {path}/{{definition}}", (401, 401, 401, 404, own[1], 401))


def notice_rows() -> Iterator[Row]:
    """Yield the rows of channels and notices; `{channel}` is a feed of the owner."""
    hook = {"kind": "webhook", "name": "Ops", "url": "https://hooks.example.com/"}
    for row in (
        Row("GET /channels", OWNERS),
        Row("POST /channels", (401, 401, 401, 201, 201, 401), hook),
        Row("PATCH /channels/{channel}", (401, 401, 401, 404, 200, 401), {"name": "Reader"}),
        Row("DELETE /channels/{channel}", (401, 401, 401, 404, 204, 401)),
        Row("POST /channels/{channel}/test", (401, 401, 401, 404, 200, 401)),
        Row("POST /channels/{channel}/secret", (401, 401, 401, 404, 200, 401)),
        Row("GET /reports", OWNERS),
        # Without a channel.
        Row("POST /reports", (401, 401, 401, 400, 400, 401), {"period": "week", "channels": []}),
        Row("PATCH /reports/{report}", (401, 401, 401, 404, 200, 401), {"hour": 1}),
        Row("DELETE /reports/{report}", (401, 401, 401, 404, 204, 401)),
        Row("GET /reports/{report}/preview", (401, 401, 401, 404, 200, 401)),
        Row("GET /notices", OWNERS),
        Row("POST /notices/{number}/send", (401, 401, 401, 404, 404, 401)),
    ):
        yield row._replace(route=row.route.replace(" ", " /api/account", 1))
        # A key needs the scope manage, which a key has not by default.
        yield row._replace(route=row.route.replace(" ", " /api/v1", 1), statuses=(401, 403, 403, 401, 401, 401))


TABLE = (
    *report_rows(),
    Row("POST /api/collect", (202,) * 6, PAGE),
    Row("POST /api/v1/collect", (202,) * 6, PAGE),
    Row("POST /api/event", (202,) * 6, {"n": "pageview", "u": PAGE["url"], "d": "example.com"}),
    Row("POST /api/send", OPEN, {"type": "event", "payload": {"website": "example.com", "url": "/a"}}),
    Row("POST /api/batch", OPEN, [{"type": "event", "payload": {"website": "example.com", "url": "/a"}}]),
    # The website is that of the page or the request's host, which here has none.
    Row("GET /count", (404,) * 6, query="?p=/a"),
    Row("POST /count", (404,) * 6),
    Row("GET /count/{website}", OPEN, query="?p=/a"),
    Row("POST /count/{website}", OPEN),
    # The token is a website's id: an API key is none.
    Row("POST /api/v0/count", (401,) * 6, {"hits": [{"path": "/a"}]}),
    Row("GET /api/v1/websites", (401, 200, 200, 401, 401, 401)),
    Row("GET /api/account/state", OPEN),
    Row("GET /api/account/setup", (404,) * 6),
    Row("POST /api/account/setup", (404,) * 6, {"token": "used", "email": "a@b.c", "password": PASSWORD}),
    Row("POST /api/account/login", (401,) * 6, LOGIN),
    Row("POST /api/account/logout", (401, 401, 401, 204, 204, 401)),
    Row("POST /api/account/logout-everywhere", (401, 401, 401, 204, 204, 401)),
    Row("GET /api/account", OWNERS),
    Row("PATCH /api/account", OWNERS, {"time_zone": "UTC"}),
    Row("GET /api/account/changelog", OWNERS),
    Row("POST /api/account/password", (401, 401, 401, 403, 403, 401), {"current": "wrong", "new": PASSWORD}),
    Row("GET /api/account/second-factor", OWNERS),
    Row("POST /api/account/second-factor/begin", OWNERS, {"password": PASSWORD}),
    Row("POST /api/account/second-factor/confirm", (401, 401, 401, 409, 409, 401), {"code": "123456"}),
    Row("POST /api/account/second-factor/codes", (401, 401, 401, 409, 409, 401), {"password": PASSWORD}),
    Row("DELETE /api/account/second-factor", (401, 401, 401, 409, 409, 401), {"password": PASSWORD}),
    Row("GET /api/account/passkeys", OWNERS),
    # Without a base URL, and a passkey that nobody has.
    Row("POST /api/account/passkeys/begin", (401, 401, 401, 409, 409, 401), {"password": PASSWORD}),
    Row("POST /api/account/passkeys/finish", (401, 401, 401, 409, 409, 401), {"name": "Laptop", "credential": {}}),
    Row("DELETE /api/account/passkeys/{passkey}", (401, 401, 401, 404, 404, 401), {"password": PASSWORD}),
    Row("POST /api/account/login/passkey/begin", (409,) * 6, {}),
    Row("POST /api/account/login/passkey/finish", (409,) * 6, {"credential": {}}),
    Row("GET /api/account/keys", OWNERS),
    Row("POST /api/account/keys", (401, 401, 401, 201, 201, 401), {"name": "new"}),
    Row("DELETE /api/account/keys", (401, 401, 401, 204, 204, 401)),
    Row("DELETE /api/account/keys/{number}", (401, 401, 401, 404, 204, 401)),
    Row("GET /api/account/assistants", OWNERS),
    Row("DELETE /api/account/assistants/{number}", (401, 401, 401, 404, 404, 401)),
    Row("GET /api/account/authorization", OWNERS, query=f"?{urlencode(PROGRAM)}"),
    Row("POST /api/account/authorization", OWNERS, PROGRAM),
    *notice_rows(),
    Row("GET /feeds/{token}.xml", (404,) * 6),
    Row("GET /confirm/{token}", (404,) * 6),
    Row("POST /confirm/{token}", (404,) * 6),
    Row("GET /unsubscribe/{token}", (404,) * 6),
    Row("POST /unsubscribe/{token}", (404,) * 6),
    Row("GET /api/account/summary", OWNERS),
    Row("PATCH /api/account/summary", OWNERS, {"period": None}),
    Row("GET /api/account/audit", OWNERS),
    Row("POST /api/account/login/link", (404,) * 6, {"token": "unknown"}),
    Row("GET /api/account/people", OWNERS),
    # The other account has no such member.
    Row("PATCH /api/account/people/{number}", (401, 401, 401, 404, 200, 401), {"role": "owner"}),
    Row("DELETE /api/account/people/{number}", (401, 401, 401, 404, 409, 401)),
    Row("GET /api/account/invitations", OWNERS),
    Row("POST /api/account/invitations", (401, 401, 401, 201, 201, 401), {"email": "c@example.com", "role": "viewer"}),
    Row("DELETE /api/account/invitations/{invitation}", (401, 401, 401, 404, 204, 401)),
    # An account keeps an owner.
    Row("POST /api/account/leave", (401, 401, 401, 409, 409, 401)),
    # Without the token of an invitation.
    Row("GET /api/account/invitation", (404,) * 6),
    Row("POST /api/account/invitation", (404,) * 6, {"password": PASSWORD}),
    Row("POST /api/account/invitation/oidc", (404,) * 6, {}),
    # Without --oidc-issuer there is no single sign-on.
    *(Row(f"{method} /api/account/oidc", (404,) * 6) for method in ("GET", "POST", "DELETE")),
    *(Row(f"GET /sign-in/oidc{path}", (404,) * 6) for path in ("", "/callback", "/logout")),
    Row("GET /api/account/websites", OWNERS),
    Row("POST /api/account/websites", (401, 401, 401, 201, 201, 401), {"domain": "new.example"}),
    Row("GET /api/account/websites/{id}", OWN_WEBSITE),
    Row("PATCH /api/account/websites/{id}", OWN_WEBSITE, {"name": "renamed"}),
    Row("DELETE /api/account/websites/{id}", (401, 401, 401, 404, 202, 401), {"domain": "example.com"}),
    Row("GET /api/account/websites/{id}/imports", OWN_WEBSITE),
    # Nothing is uploaded yet at the owner's request.
    Row("POST /api/account/websites/{id}/imports", (401, 401, 401, 404, 404, 401), {}),
    Row("PATCH /api/account/websites/{id}/imports/upload", (401, 401, 401, 404, 404, 401), {}, "?offset=0"),
    Row("DELETE /api/account/websites/{id}/imports/upload", (401, 401, 401, 404, 404, 401), {}),
    Row(
        "POST /api/account/websites/{id}/imports/upload",
        (401, 401, 401, 404, 201, 401),
        {"name": "f", "format": "tally", "size": 9},
    ),
    Row("POST /api/account/websites/{id}/imports/{number}/undo", (401, 401, 401, 404, 404, 401), {}),
    Row("GET /api/account/websites/{id}/deletions", OWN_WEBSITE),
    # Without a preview before it.
    Row("POST /api/account/websites/{id}/deletions", (401, 401, 401, 404, 409, 401), {"preview": "p", "events": 0}),
    Row(
        "POST /api/account/websites/{id}/deletions/preview",
        OWN_WEBSITE,
        {"from": "2026-11-20", "to": "2026-11-21", "filters": ["filter_pathname=/none"]},
    ),
    Row("DELETE /api/account/websites/{id}/deletions/{number}", (401, 401, 401, 404, 404, 401)),
    Row("POST /api/account/websites/{id}/rewrites", (401, 401, 401, 404, 409, 401), {"preview": "p", "events": 0}),
    Row(
        "POST /api/account/websites/{id}/rewrites/preview",
        OWN_WEBSITE,
        {"from": "2026-11-20", "to": "2026-11-21", "pattern": "/none/*", "replacement": "/none/*"},
    ),
    *definition_rows(),
    Row("GET /api/account/websites/{id}/alerts", OWN_WEBSITE),
    Row("POST /api/account/websites/{id}/alerts", (401, 401, 401, 404, 201, 401), {"kind": "drop"}),
    Row("PATCH /api/account/websites/{id}/alerts/{alert}", OWN_WEBSITE, {"channels": None}),
    Row("DELETE /api/account/websites/{id}/alerts/{alert}", (401, 401, 401, 404, 204, 401)),
    Row("POST /api/account/websites/{id}/alerts/{alert}/snooze", OWN_WEBSITE, {"hours": 1}),
    Row("GET /api/account/websites/{id}/exclusions", OWN_WEBSITE),
    Row("PATCH /api/account/websites/{id}/exclusions", OWN_WEBSITE, {"countries": ["DE"]}),
    Row("POST /api/account/websites/{id}/share-links", (401, 401, 401, 404, 201, 401), {"name": "New"}),
    Row("PATCH /api/account/websites/{id}/share-links/{link}", OWN_WEBSITE, {"badges": True}),
    Row("DELETE /api/account/websites/{id}/share-links/{link}", (401, 401, 401, 404, 204, 401)),
    # The token is in the path; the other clients request a token that does not exist.
    Row("GET /api/share/{token}", (404, 404, 404, 404, 404, 200)),
    Row("DELETE /api/account/share-links", (401, 401, 401, 204, 204, 401)),
    Row("POST /api/share/{token}/password", (404, 404, 404, 404, 404, 204), {"password": PASSWORD}),
    Row("GET /api/share/{token}/badge.svg", (404, 404, 404, 404, 404, 200)),
    Row("GET /api/share/{token}/counter.svg", (404, 404, 404, 404, 404, 200)),
    # Each key reads its own account's websites.
    Row("POST /mcp", (401, 200, 200, 401, 401, 401), {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    Row("GET /.well-known/oauth-protected-resource", OPEN),
    Row("GET /.well-known/oauth-protected-resource/mcp", OPEN),
    Row("GET /.well-known/oauth-authorization-server", OPEN),
    Row("POST /oauth/register", (201,) * 6, {"redirect_uris": ["https://assistant.example/back"]}),
    # The body is no form.
    Row("POST /oauth/token", (415,) * 6, {}),
    Row("GET /oauth/authorize", OPEN),
    Row("GET /", OPEN),
    Row("GET /login", OPEN),
    Row("GET /setup", OPEN),
    Row("GET /invitation", OPEN),
    Row("GET /second-factor", OPEN),
    Row("GET /websites/{id}", OPEN),
    Row("GET /websites/{id}/events", OPEN),
    Row("GET /websites/{id}/funnels", OPEN),
    Row("GET /websites/{id}/journeys", OPEN),
    Row("GET /websites/{id}/live", OPEN),
    Row("GET /websites/{id}/vitals", OPEN),
    Row("GET /websites/{id}/heatmaps", OPEN),
    Row("GET /websites/{id}/experiments", OPEN),
    Row("GET /websites/{id}/crawlers", OPEN),
    Row("GET /websites/{id}/rejected", OPEN),
    Row("GET /websites/{id}/settings", OPEN),
    Row("GET /websites/{id}/settings/{section}", OPEN),
    Row("GET /account", OPEN),
    Row("GET /account/{section}", OPEN),
    Row("GET /share/{token}", OPEN),
    Row("GET /assets/{path}", OPEN),
    Row("GET /api/v1/openapi.yaml", OPEN),
    Row("GET /healthz", OPEN),
    # /metrics refuses requests through a proxy on the same server; its token has tests of its own.
    Row("GET /metrics", (403,) * 6),
    # The tracker is public.
    Row("GET /tracker.js", OPEN),
    Row("GET /tracker/{part}.js", OPEN),
    Row("GET /pixel.gif", OPEN),
    Row("GET /script.js", OPEN),
    Row("GET /script/{part}.js", OPEN),
    Row("GET /js/{script}", OPEN),
    Row("GET /js/{stem}/{part}.js", OPEN),
    Row("GET /count.js", OPEN),
    Row("GET /count/{part}.js", OPEN),
)
# A key needs the scopes of tests/api/test_key_scopes.py, which a key has not by default.
NOT_BY_DEFAULT = (401, 403, 403, 401, 401, 401)
MANAGED = ("alerts", "exclusions", "share-links", "imports", "deletions", "rewrites", *(of.path for of in KINDS))


def management_rows() -> Iterator[Row]:
    """Yield the rows of the management API: a part of the pages' API, with the same requests, for keys."""
    for row in TABLE:
        method, _, path = row.route.partition(" /api/account/websites")
        first = path.removeprefix("/{id}").strip("/").partition("/")[0]
        is_read = method == "GET" and first not in ("alerts", "exclusions", "imports", "deletions") and path != "/{id}"
        if row.route != f"{method} /api/account/websites{path}" or is_read or (first and first not in MANAGED):
            continue
        yield Row(f"{method} /api/v1/websites{path}", NOT_BY_DEFAULT, row.body, row.query)
    # The pages read them with the website.
    yield Row("GET /api/v1/websites/{id}/share-links", NOT_BY_DEFAULT)
    crawl = {"user_agent": "GPTBot/1.2", "url": "https://example.com/a"}
    yield Row("POST /api/v1/websites/{id}/crawls", NOT_BY_DEFAULT, {"crawls": [crawl]})
    event = {"type": "pageview", "url": "https://example.com/a", "session_id": "12345678"}
    yield Row("POST /api/v1/websites/{id}/events", NOT_BY_DEFAULT, {"events": [event]})


TABLE = (*TABLE, *management_rows())
BY_ROUTE = {row.route: row for row in TABLE}
NAMES = [f"{route.method} {route.path}" for route in ROUTES]
CUSTOM_PATHS = {"script_path": "/js/site.js", "collect_path": "/js/send"}
# Custom paths follow the rules of the default ones.
DEFAULT_PATHS = {"/js/site.js": "/tracker.js", "/js/site/{part}.js": "/tracker/{part}.js", "/js/send": "/api/collect"}
ROUTER = [
    (route.method, route.resource.canonical)
    for route in build_app(Settings(**CUSTOM_PATHS)).router.routes()
    if route.resource is not None
]


def row_of(method: str, path: str) -> Row:
    """Return the row of a method and a path of the router."""
    return BY_ROUTE[f"{method} {DEFAULT_PATHS.get(path, path)}"]


def test_every_route_is_in_the_table() -> None:
    missing = [name for name in NAMES if name not in BY_ROUTE]
    assert missing == [], "add reports to tests/support/endpoints.py, others to TABLE"
    assert len(BY_ROUTE) == len(TABLE)
    paths = {path for _, path in ROUTER}
    assert paths >= set(DEFAULT_PATHS)
    for method, path in ROUTER:
        if method not in ("HEAD", "OPTIONS"):
            row_of(method, path)
    # No route accepts all methods, and every GET has HEAD.
    assert {method for method, _ in ROUTER} == {"GET", "HEAD", "OPTIONS", "POST", "PATCH", "DELETE"}
    assert {path for method, path in ROUTER if method == "HEAD"} == {path for m, path in ROUTER if m == "GET"}


class Scenario:
    """Two accounts, with a website, a key and a share link of the first."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def fill(self) -> None:
        app = self.app
        self.owner, self.other = await logged_in(app), await logged_in(app, OTHER, ip="198.51.100.2")
        self.website = await app.website()
        self.key, self.other_key = await app.key(), await app.key(OTHER)
        self.number = (await self.owner("GET", "/api/account/keys")).json["data"][0]["id"]
        link = await self.owner("POST", f"/api/account/websites/{self.website}/share-links", LINK | {"badges": True})
        self.token, self.link = link.json["data"]["path"].removeprefix("/share/"), link.json["data"]["id"]
        goal = await self.owner("POST", f"/api/account/websites/{self.website}/goals", CONTENTS["goals"])
        self.definition = goal.json["data"]["id"]
        alert = await self.owner("POST", f"/api/account/websites/{self.website}/alerts", {"kind": "drop"})
        self.alert = alert.json["data"]["id"]
        sent = {"email": "invited@example.com", "role": "editor"}
        feed = await self.owner("POST", "/api/account/channels", {"kind": "feed", "name": "Reader"})
        self.channel = feed.json["data"]["id"]
        report = {"period": "month", "channels": [self.channel], "websites": [self.website]}
        self.report = (await self.owner("POST", "/api/account/reports", report)).json["data"]["id"]
        self.invitation = (await self.owner("POST", "/api/account/invitations", sent)).json["data"]["id"]
        await app.collect(PAGE | {"website_id": self.website})

    def of_website(self, id: str) -> dict[str, Any]:
        """Return values for the parameters of a path of a website."""
        values = {"id": id, "field": "os", "number": 1, "definition": self.definition}
        return values | {"link": self.link, "alert": self.alert}

    async def end(self) -> None:
        """Revoke the owner's key and end the owner's session; their values are kept."""
        self.cookie = self.owner.cookies["tally"]
        await self.app.admin(lambda connection: revoke_api_key(connection, self.key))
        assert (await self.owner("POST", "/api/account/logout")).status == 204

    async def request_as(self, client: str, name: str, body: Any = None, key: str = "") -> Any:
        """Return the answer to one of CLIENTS, or to a `key` of its own."""
        method, _, path = name.partition(" ")
        token = self.token if client == "guest" else "x" * 24
        values = {"id": self.website, "number": self.number, "token": token, "field": "os", "section": "keys"}
        values |= {
            "invitation": self.invitation,
            "alert": self.alert,
            "channel": self.channel,
            "report": self.report,
            "definition": self.definition,
            "website": self.website,
            "script": "script.js",
            "stem": "script.hash",
        }
        values |= {"path": "app.css", "part": "heatmap", "link": self.link, "passkey": "AA"}
        browser = {"owner": self.owner, "other": self.other}.get(client, PageClient(self.app))
        keys = {"key": key or self.key, "other_key": self.other_key}
        headers: dict[str, str | None] = {"Authorization": f"Bearer {keys[client]}"} if client in keys else {}
        if path.startswith((*COLLECTING, "/js/send", "/count")):
            # Sent as by an app, since the origin of a page would have to be allowed.
            headers |= {"Sec-Fetch-Site": None}
        if path.startswith(("/api/collect", "/api/v1/collect", "/js/send")):
            body = body | {"website_id": self.website}
        query = BY_ROUTE.get(f"GET {DEFAULT_PATHS.get(path, path)}", BY_ROUTE["GET /"]).query
        return await browser(method, path.format(**values) + query, body, headers=headers)


@pytest.fixture
async def scenario(make_app: MakeApp) -> Scenario:
    """Return a scenario with high rate limits."""
    scenario = Scenario(await make_app(client_per_minute=9_999, website_per_minute=9_999, key_per_minute=9_999))
    await scenario.fill()
    return scenario


@cases("client", CLIENTS)
@cases("name", [name for name in NAMES if name.startswith("GET ")])
async def test_permissions_of_reads(scenario: Scenario, name: str, client: str) -> None:
    await check(scenario, name, client)


CHANGES = [
    (name, client, status)
    for name in NAMES
    if not name.startswith("GET ")
    for client, status in zip(CLIENTS, BY_ROUTE[name].statuses, strict=True)
]


@cases(("name", "client"), [(name, client) for name, client, status in CHANGES if status >= 400])
async def test_refused_changes(scenario: Scenario, name: str, client: str) -> None:
    await check(scenario, name, client)


@pytest.mark.parametrize(("name", "client"), [(name, client) for name, client, status in CHANGES if status < 400])
async def test_permitted_changes(scenario: Scenario, name: str, client: str) -> None:
    await check(scenario, name, client)


async def check(scenario: Scenario, name: str, client: str) -> None:
    row = BY_ROUTE[name]
    answer = await scenario.request_as(client, name, row.body)
    assert answer.status == row.statuses[CLIENTS.index(client)], answer.text
    if name.startswith("GET /api/") and answer.status == 401:
        assert scenario.website not in answer.text


@pytest.fixture
async def scenario_with_paths(make_app: MakeApp) -> Scenario:
    """Return a scenario with custom paths and high rate limits."""
    scenario = Scenario(
        await make_app(**CUSTOM_PATHS, client_per_minute=9_999, website_per_minute=9_999, key_per_minute=9_999)
    )
    await scenario.fill()
    return scenario


async def test_head_has_the_permissions_of_get(scenario_with_paths: Scenario) -> None:
    heads = [path for method, path in ROUTER if method == "HEAD"]
    assert len(heads) > 30
    for path in heads:
        for client, status in zip(CLIENTS, row_of("GET", path).statuses, strict=True):
            answer = await scenario_with_paths.request_as(client, f"HEAD {path}")
            assert (answer.status, answer.body) == (status, b""), (client, path)


async def test_options_needs_no_credentials(scenario_with_paths: Scenario) -> None:
    """A preflight is answered the same for all clients where other origins are allowed, and refused elsewhere."""
    for path in sorted({path for _, path in ROUTER}):
        is_open = ("OPTIONS", path) in ROUTER
        open_paths = (*COLLECTING, "/js/send", "/count", "/count/{website}")
        is_read = path == "/api/v1/websites" or path in {endpoint.template for endpoint in ENDPOINTS}
        assert is_open is (path in open_paths or is_read)
        answers: list[Answer] = [
            await scenario_with_paths.request_as(client, f"OPTIONS {path}", {}) for client in CLIENTS
        ]
        assert {(answer.status, answer.body) for answer in answers} == {
            (204, b"") if is_open else (405, answers[0].body)
        }, path


async def test_other_methods_are_refused(scenario_with_paths: Scenario) -> None:
    for path in sorted({path for _, path in ROUTER}):
        # `preview` may be a number, too.
        paths = {path, path.replace("/deletions/preview", "/deletions/{number}")}
        accepted = {method for method, other in ROUTER if other in paths}
        for method in sorted({"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - accepted):
            answer = await scenario_with_paths.request_as("owner", f"{method} {path}", {})
            assert answer.status == 405, (method, path)
            assert set(answer.headers["Allow"].split(",")) == accepted, (method, path)


async def test_revoked_keys_and_ended_sessions_have_no_permissions(scenario_with_paths: Scenario) -> None:
    await scenario_with_paths.end()
    for method, path in ROUTER:
        if method in ("OPTIONS", "HEAD"):
            continue
        row = row_of(method, path)
        revoked = await scenario_with_paths.request_as("key", f"{method} {path}", row.body)
        scenario_with_paths.owner.cookies["tally"] = scenario_with_paths.cookie
        ended = await scenario_with_paths.request_as("owner", f"{method} {path}", row.body)
        assert [revoked.status, ended.status] == [row.statuses[0]] * 2, (method, path)


@cases("name", [name for name in NAMES if "/api/v1/websites" in name])
async def test_cookies_and_share_links_do_not_authorise_the_read_api(scenario: Scenario, name: str) -> None:
    """A cookie must not authorise responses that other origins may read; only the Authorization header does."""
    value = scenario.owner.cookies["tally"]
    method, _, path = name.partition(" ")
    path = path.format(**scenario.of_website(scenario.website))
    is_open = name == "GET /api/v1/websites" or name in {f"GET {endpoint.template}" for endpoint in ENDPOINTS}
    attempts: list[dict[str, str | None]] = [
        {"Cookie": f"tally={value}; __Host-tally={value}"},
        {"Authorization": f"Bearer {value}"},
        {"Authorization": f"Bearer {scenario.token}"},
        {"Authorization": f"Basic {value}"},
    ]
    for headers in attempts:
        answer = await PageClient(scenario.app)(method, path, headers=headers)
        assert answer.status == 401
        assert answer.headers.get("Access-Control-Allow-Origin") == ("*" if is_open else None)
        assert "Access-Control-Allow-Credentials" not in answer.headers


@cases("name", [name for name in NAMES if " /api/account" in name or (" /api/share" in name and ".svg" not in name)])
async def test_other_origins_cannot_read_the_account_api(scenario: Scenario, name: str) -> None:
    """No CORS headers for any Origin, including preflights, and no storage in shared caches."""
    method, _, path = name.partition(" ")
    values = {"id": scenario.website, "number": scenario.number, "token": scenario.token, "field": "os"}
    values |= {"definition": scenario.definition, "invitation": scenario.invitation, "link": scenario.link}
    values["passkey"] = "AA"
    values |= {"alert": scenario.alert, "channel": scenario.channel, "report": scenario.report}
    for verb in (method, "OPTIONS"):
        headers: dict[str, str | None] = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        headers |= {"Access-Control-Request-Method": method} if verb == "OPTIONS" else {}
        answer = await scenario.owner(verb, path.format(**values), BY_ROUTE[name].body, headers=headers)
        assert not [header for header in answer.headers if header.lower().startswith("access-control")]
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] in ("no-store", "private, no-cache")
        assert answer.status == 405 if verb == "OPTIONS" else answer.status in (200, 400, 403, 404, 409)


UNKNOWN_IDS: tuple[Callable[[Scenario], str], ...] = (
    lambda scenario: scenario.website,
    lambda scenario: scenario.website.upper(),
    lambda scenario: "00000000-0000-4000-8000-000000000000",
)


@cases("name", [name for name in NAMES if "/api/account/websites/{id}" in name])
async def test_websites_of_other_accounts_are_unknown(scenario: Scenario, name: str) -> None:
    """Another account's website is answered like one that does not exist."""
    method, _, path = name.partition(" ")
    answers = [
        await scenario.other(
            method,
            path.format(**scenario.of_website(id_of(scenario))),
            BY_ROUTE[name].body,
        )
        for id_of in UNKNOWN_IDS
    ]
    assert {(answer.status, answer.body) for answer in answers} == {(404, answers[0].body)}
    assert (await scenario.owner("GET", f"/api/account/websites/{scenario.website}/stats")).status == 200


async def test_no_response_redirects(app: App) -> None:
    """There are no open redirects, since no response redirects."""
    scenario = Scenario(app)
    await scenario.fill()
    for path in (
        "/login?next=https://evil.example",
        "/login?next=//evil.example",
        "/%2Fevil.example/login",
        "/setup?next=x",
    ):
        for client in (PageClient(app), scenario.owner):
            answer = await client("GET", path)
            assert answer.status in (200, 404)
            assert "Location" not in answer.headers
            assert "evil" not in answer.text
    assert app.application[AUTH].needs_setup is False
