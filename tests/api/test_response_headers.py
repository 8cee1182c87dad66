"""The headers of every route's responses, from a table that is compared with the router.

A route missing from the table fails a test; so does a response whose headers differ from its row: a success, a refusal,
a response without a body, an internal error, and a response sent before a route is found. Values are written out here
and not taken from the code.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.api.test_authorization import BY_ROUTE, NOT_BY_DEFAULT
from tests.support.app import Answer, App, MakeApp
from tests.support.endpoints import ENDPOINTS, SAVED
from tests.support.page_client import LINK, PageClient, logged_in

PERMISSIONS = (
    "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), fullscreen=(), geolocation=(),"
    " gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(),"
    " screen-wake-lock=(), usb=(), xr-spatial-tracking=()"
)
NO_CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'"
BASE = {
    "Server": "Tally",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": NO_CONTENT_POLICY,
    "Referrer-Policy": "no-referrer",
}
ALWAYS = BASE | {"Permissions-Policy": PERMISSIONS}
SAME_ORIGIN = {"Cross-Origin-Resource-Policy": "same-origin"}
ANY_ORIGIN = {"Access-Control-Allow-Origin": "*"}

COLLECT = BASE | ANY_ORIGIN | {"Access-Control-Expose-Headers": "Retry-After"}
COUNT = COLLECT | {"Cross-Origin-Resource-Policy": "cross-origin"}
RATE_HEADERS = "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset"
READ = ALWAYS | ANY_ORIGIN | {"Access-Control-Expose-Headers": f"Retry-After, ETag, Link, {RATE_HEADERS}"}
ACCOUNT = ALWAYS | SAME_ORIGIN
SHELL = (
    ALWAYS
    | SAME_ORIGIN
    | {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; font-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
)
# For the owner only.
FRAMING = SHELL | {
    "Content-Security-Policy": SHELL["Content-Security-Policy"]
    + "; frame-src https://example.com http://example.com https://*.example.com http://*.example.com"
}
FILE = ALWAYS | SAME_ORIGIN | {"Content-Security-Policy": f"{NO_CONTENT_POLICY}; sandbox"}
# An image for pages of any site.
BADGE = ALWAYS | {
    "Content-Security-Policy": f"{NO_CONTENT_POLICY}; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
TRACKER = ALWAYS | ANY_ORIGIN | {"Cross-Origin-Resource-Policy": "cross-origin"}

REPORTS = "|".join(endpoint.path for endpoint in ENDPOINTS)
# Patterns of route paths in the router's notation.
TABLE: dict[str, Mapping[str, str]] = {
    r"/(js/send|api/((v1/)?collect|event|send|batch|v0/count))": COLLECT,
    r"/count(/{website})?": COUNT,
    # Where a key reads; MANAGED has the other requests.
    r"/api/v1/websites(/.+)?": READ,
    rf"/api/account/websites/{{id}}/({REPORTS}|({'|'.join(SAVED)})/{{definition}})": ACCOUNT,
    rf"/api/share/{{token}}/({REPORTS})": ACCOUNT,
    r"/api/account(/(state|setup|login(/link)?|logout(-everywhere)?|password|changelog))?": ACCOUNT,
    r"/api/account/(audit|authorization|summary|leave|invitation(/oidc)?|oidc|share-links)": ACCOUNT,
    r"/api/account/second-factor(/(begin|confirm|codes))?": ACCOUNT,
    r"/api/account/(assistants|keys|people)(/{number})?|/api/account/invitations(/{invitation})?": ACCOUNT,
    r"/api/(account|v1)/(channels(/{channel}(/(test|secret))?)?|notices(/{number}/send)?)": ACCOUNT,
    r"/api/(account|v1)/reports(/{report}(/preview)?)?": ACCOUNT,
    r"/api/account/passkeys(/(begin|finish|{passkey}))?|/api/account/login/passkey/(begin|finish)": ACCOUNT,
    r"/api/account/websites(/{id}(/(exclusions|share-links(/{link})?))?)?": ACCOUNT,
    r"/api/account/websites/{id}/alerts(/{alert}(/snooze)?)?": ACCOUNT,
    r"/api/account/websites/{id}/imports(/(upload|{number}/undo))?": ACCOUNT,
    r"/api/account/websites/{id}/deletions(/(preview|{number}))?": ACCOUNT,
    r"/api/account/websites/{id}/rewrites(/preview)?": ACCOUNT,
    r"/api/share/{token}/(badge|counter)\.svg": BADGE,
    r"/api/share/{token}(/password)?": ACCOUNT,
    r"/mcp|/oauth/(register|token)": ACCOUNT,
    r"/\.well-known/oauth-.+": ALWAYS,
    r"/(login|setup|invitation|oauth/authorize|second-factor|account|account/{section}|share/{token})?": SHELL,
    r"/websites/{id}(/(live|events|funnels|journeys|vitals|experiments|crawlers|rejected))?": SHELL,
    r"/websites/{id}/settings(/{section})?": SHELL,
    r"/websites/{id}/heatmaps": FRAMING,
    r"/assets/{path}": FILE,
    r"/(tracker|script|count|js/site)(/{part})?\.js|/js/{script}|/js/{stem}/{part}\.js": TRACKER,
    r"/pixel\.gif": TRACKER,
    r"/(confirm|unsubscribe)/{token}": ALWAYS,
    r"/api/v1/openapi\.yaml|/feeds/{token}\.xml|/healthz|/metrics|/sign-in/oidc(/(callback|logout))?": ALWAYS,
}
# By an API key that changes something, which no page of another origin may read.
MANAGED = {route for route, row in BY_ROUTE.items() if row.statuses == NOT_BY_DEFAULT}
# Headers that describe the response itself; all others must be in the table.
CONTENT_HEADERS = frozenset(
    (
        *("content-type", "content-length", "content-encoding", "transfer-encoding", "date", "connection", "allow"),
        *("x-goatcounter", "etag", "cache-control", "vary", "link", "set-cookie", "www-authenticate"),
        *("retry-after", "x-robots-tag", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"),
    )
)
PREFLIGHT = frozenset(("Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age"))
CUSTOM_PATHS = {"script_path": "/js/site.js", "collect_path": "/js/send"}


def row_of(path: str, method: str = "") -> Mapping[str, str]:
    """Return the row of a route's path; of a method where that makes a difference."""
    if f"{method.replace('HEAD', 'GET')} {path}" in MANAGED:
        return ACCOUNT
    rows = [row for pattern, row in TABLE.items() if re.fullmatch(pattern.replace("{", r"\{"), path)]
    assert len(rows) == 1, f"{path} is in {len(rows)} rows of TABLE, not in one: add it to the row of a similar path"
    return rows[0]


def routes_of(app: App) -> list[tuple[str, str]]:
    """Return the method and path of every route, with `{name}` for parameters, from aiohttp's router."""
    return [(route.method, route.resource.canonical) for route in app.application.router.routes() if route.resource]


def policy_headers(answer: Answer) -> dict[str, str]:
    """Return a response's headers without those that describe the response itself."""
    return {name: value for name, value in answer.headers.items() if name.lower() not in CONTENT_HEADERS}


def without_preflight(answer: Answer) -> dict[str, str]:
    """Return `policy_headers` without those only a preflight has."""
    return {name: value for name, value in policy_headers(answer).items() if name not in PREFLIGHT}


class OwnerSession(NamedTuple):
    """An application with custom script and collect paths, the owner's session and key, and the path parameters."""

    app: App
    owner: PageClient
    names: Mapping[str, str]
    key: str

    async def ask(self, method: str, path: str, **headers: str | None) -> Answer:
        """Send a request with the owner's cookies and API key."""
        own: dict[str, str | None] = {name.replace("_", "-"): value for name, value in headers.items()}
        own.setdefault("Authorization", f"Bearer {self.key}")
        row = BY_ROUTE.get(f"{method} {path}")
        body = row and row.body
        if isinstance(body, dict) and "website_id" not in body and row_of(path) is COLLECT:
            body = body | {"website_id": self.names["id"]}
            own |= {"Sec-Fetch-Site": None}
        return await self.owner(method, path.format(**self.names), body, headers=own)


@pytest.fixture
async def owner_session(make_app: MakeApp) -> OwnerSession:
    app = await make_app(**CUSTOM_PATHS, client_per_minute=10_000, website_per_minute=10_000, key_per_minute=10_000)
    owner = await logged_in(app)
    website, key = await app.website(), await app.key()
    link = (await owner("POST", f"/api/account/websites/{website}/share-links", LINK | {"badges": True})).json["data"]
    token = link["path"].removeprefix("/share/")
    names = {"id": website, "number": "1", "token": token, "field": "os", "section": "keys", "path": "icon.svg"}
    names |= {
        "part": "heatmap",
        "link": link["id"],
        "invitation": "2" * 16,
        "passkey": "AA",
        "alert": "5" * 16,
        "channel": "3" * 16,
        "report": "4" * 16,
        "definition": "1" * 16,
        "website": website,
        "script": "script.js",
        "stem": "script",
    }
    return OwnerSession(app, owner, names, key)


async def test_every_route_is_in_the_table(owner_session: OwnerSession) -> None:
    routes = routes_of(owner_session.app)
    assert len(routes) > 90
    assert {path for _, path in routes} >= set(CUSTOM_PATHS.values())
    for _, path in routes:
        row_of(path)


def test_no_policy_allows_inline_code() -> None:
    for row in (*TABLE.values(), ALWAYS):
        assert "unsafe" not in row["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in row["Content-Security-Policy"]


async def test_every_method_of_every_route(owner_session: OwnerSession) -> None:
    """Requests that end the session or delete the website are sent last; HEAD and OPTIONS are included."""
    last = ("DELETE", "logout", "password")
    routes = sorted(routes_of(owner_session.app), key=lambda route: any(word in " ".join(route) for word in last))
    seen = set()
    for method, path in routes:
        answer = await owner_session.ask(method, path)
        seen.add(answer.status)
        assert policy_headers(answer).keys() & PREFLIGHT == (PREFLIGHT if method == "OPTIONS" else set())
        assert without_preflight(answer) == row_of(path, method), (method, path)
    assert {200, 202, 204} <= seen
    assert not [status for status in seen if status >= 500]


async def test_refusals(owner_session: OwnerSession) -> None:
    """A method that is not allowed, a client without login, a page of another origin, and unknown ids."""
    anonymous = PageClient(owner_session.app)
    for method, path in routes_of(owner_session.app):
        there = dict.fromkeys(owner_session.names, "x" * 24)
        cross_site: dict[str, str | None] = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        for answer in (
            await owner_session.owner("TRACE", path.format(**owner_session.names)),
            await owner_session.owner(method, path.format(**there)) if row_of(path) is FRAMING else None,
            await anonymous(method, path.format(**there)),
            await anonymous(method, path.format(**owner_session.names), b"[", headers=cross_site),
        ):
            expected = None if answer is None else expected_headers(answer, path, method)
            assert answer is None or without_preflight(answer) == expected, (method, path)


def expected_headers(answer: Answer, path: str, method: str) -> Mapping[str, str]:
    """Return the row; a refusal before the tracker's handler has no embedding headers, and only the owner may frame."""
    row = row_of(path, "" if answer.status == 405 else method)
    if row is TRACKER and answer.status != 200:
        return ALWAYS
    if row is BADGE and answer.status != 200:
        return ACCOUNT
    row = SHELL if row is FRAMING else row
    return ALWAYS if row in (SHELL, FILE) and answer.status == 405 else row


async def test_not_modified(owner_session: OwnerSession) -> None:
    for path in ("/", "/assets/{path}", "/tracker.js", "/api/v1/websites/{id}/stats"):
        tag = (await owner_session.ask("GET", path)).headers["ETag"]
        again = await owner_session.ask("GET", path, **{"If_None_Match": tag})
        assert again.status == 304
        assert policy_headers(again) == row_of(path)


async def test_internal_errors(owner_session: OwnerSession) -> None:
    """503 for a damaged database; 500 for a bug."""
    requests = [("GET", "/healthz", ALWAYS), ("POST", "/api/collect", COLLECT), ("GET", "/api/account/keys", ACCOUNT)]
    owner_session.app.database.health.fault = "damaged"
    answers = [await owner_session.ask(method, path) for method, path, _ in requests]
    assert [answer.status for answer in answers] == [503, 503, 200]
    owner_session.app.database.health.fault = ""
    registry, owner_session.app.registry.cache = owner_session.app.registry.cache, None
    failed = [await owner_session.ask(method, path) for method, path, _ in requests[1:]]
    owner_session.app.registry.cache = registry
    assert [answer.status for answer in failed] == [500, 500]
    for answer, row in zip([*answers, *failed], [*requests, *requests[1:]], strict=True):
        assert policy_headers(answer) == row[2]


NO_ROUTE = ("/nothing", "/api", "/api/v2/x", "/api/v1/nothing", "/%2e%2e/etc", "/assets", "/assets/", "/tracker/x.js")


@pytest.mark.parametrize("path", NO_ROUTE)
async def test_unknown_paths(app: App, path: str) -> None:
    answer = await PageClient(app)("GET", path)
    assert answer.status == 404
    assert policy_headers(answer) == ALWAYS


INVALID_HTTP = {
    "not-http": b"GARBAGE<script>\r\n\r\n",
    "no-host": b"GET /<script> HTTP/1.1\r\n\r\n",
    "bad-name": b"GET / HTTP/1.1\r\nHost: x\r\n<script>: x\r\n\r\n",
    "nul": b"GET / HTTP/1.1\r\nHost: x\r\nX: <script>\0\r\n\r\n",
    "long-line": b"GET /" + b"<script>" * 5_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "long-header": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"<script>" * 5_000 + b"\r\n\r\n",
    "many-headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: <script>\r\n" * 200 + b"\r\n",
    "bad-url": b"GET http://[<script> HTTP/1.1\r\nHost: x\r\n\r\n",
    "two-lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "bad-chunk": b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n<script>\r\n",
    "http-2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": bytes.fromhex("16030100a5010000a10303") + bytes(200),
}


@pytest.mark.parametrize("sent", INVALID_HTTP.values(), ids=INVALID_HTTP.keys())
async def test_invalid_http_gets_a_json_error(app: App, sent: bytes) -> None:
    """The error contains nothing of the request and no name or version of the software."""
    answer = await raw(app, sent)
    assert answer.status == 400
    assert policy_headers(answer) == ALWAYS
    assert answer.json["error"]["code"] == "bad_request"
    assert re.search("script|aiohttp|[Pp]ython", answer.text + str(answer.headers)) is None


async def raw(app: App, sent: bytes) -> Answer:
    """Return the first response on a new connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", app.client.port)
    try:
        writer.write(sent)
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers: dict[str, Any] = dict(line.split(": ", 1) for line in lines)
        body = await reader.readexactly(int(headers["Content-Length"]))
        return Answer(int(status.split()[1]), headers, body)
    finally:
        writer.close()
