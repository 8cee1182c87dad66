"""What every answer tells browsers, route by route, from one table that the router itself is compared with.

A route that is not in the table fails a test; so does an answer that says more, less or something else than its row:
a page that is found, a refusal, an answer without a body, a failure of ours, and what is answered before there is a
route. Words are spelled out here and not taken from the code.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.api.test_authorization import BY_ROUTE
from tests.support.app import Answer, App, MakeApp
from tests.support.page_client import PageClient, logged_in

OFF = (
    "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), fullscreen=(), geolocation=(),"
    " gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(),"
    " publickey-credentials-get=(), screen-wake-lock=(), usb=(), xr-spatial-tracking=()"
)
NOTHING = "default-src 'none'; frame-ancestors 'none'"
HARMLESS = {
    "Server": "Tally",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": NOTHING,
    "Referrer-Policy": "no-referrer",
}
ALWAYS = HARMLESS | {"Permissions-Policy": OFF}
OURS = {"Cross-Origin-Resource-Policy": "same-origin"}
ANYBODYS = {"Access-Control-Allow-Origin": "*"}

COLLECT = HARMLESS | ANYBODYS | {"Access-Control-Expose-Headers": "Retry-After"}
RATES = "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset"
READ = ALWAYS | ANYBODYS | {"Access-Control-Expose-Headers": f"Retry-After, ETag, Link, {RATES}"}
ACCOUNT = ALWAYS | OURS
SHELL = (
    ALWAYS
    | OURS
    | {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; font-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
)
# To its owner alone.
FRAMING = SHELL | {
    "Content-Security-Policy": SHELL["Content-Security-Policy"]
    + "; frame-src https://example.com http://example.com https://*.example.com http://*.example.com"
}
FILE = ALWAYS | OURS | {"Content-Security-Policy": f"{NOTHING}; sandbox"}
TRACKER = ALWAYS | ANYBODYS | {"Cross-Origin-Resource-Policy": "cross-origin"}

# Patterns of paths as the router shows them.
TABLE: dict[str, Mapping[str, str]] = {
    r"/(js/send|api/(v1/)?collect)": COLLECT,
    r"/api/v1/websites(/{id}/(stats|timeseries|top/{field}|events|realtime|vitals|experiments|rejected))?": READ,
    r"/api/v1/websites/{id}/(heatmap(-pages)?|event-names|entry-pages|exit-pages)": READ,
    r"/api/v1/websites/{id}/(funnel|event-data)": READ,
    r"/api/account(/(state|setup|login|logout|logout-everywhere|password))?": ACCOUNT,
    r"/api/account/keys(/{number})?": ACCOUNT,
    r"/api/account/websites(/{id}(/(share|stats|timeseries|top/{field}|events|realtime))?)?": ACCOUNT,
    r"/api/account/websites/{id}/(vitals|experiments|rejected|heatmap(-pages)?|funnel|event-data)": ACCOUNT,
    r"/api/(account/websites/{id}|share/{token})/(event-names|entry-pages|exit-pages)": ACCOUNT,
    r"/api/share/{token}(/(stats|timeseries|top/{field}|events|realtime))?": ACCOUNT,
    r"/(login|setup|account|account/{section}|share/{token})?": SHELL,
    r"/websites/{id}(/(events|funnels|vitals|experiments|rejected))?": SHELL,
    r"/websites/{id}/heatmaps": FRAMING,
    r"/assets/{path}": FILE,
    r"/(tracker|js/site)(/{part})?\.js": TRACKER,
    r"/pixel\.gif": TRACKER,
    r"/api/v1/openapi\.yaml|/healthz|/metrics": ALWAYS,
}
# What an answer says of itself and not of what a browser may do; anything else is in the table.
OF_THE_ANSWER = frozenset(
    (
        *("content-type", "content-length", "content-encoding", "transfer-encoding", "date", "connection", "allow"),
        *("etag", "cache-control", "vary", "link", "set-cookie", "www-authenticate"),
        *("retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"),
    )
)
PREFLIGHT = frozenset(("Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age"))
CHOSEN = {"script_path": "/js/site.js", "collect_path": "/js/send"}


def row_of(path: str) -> Mapping[str, str]:
    """The row of a path of the router's."""
    rows = [row for pattern, row in TABLE.items() if re.fullmatch(pattern.replace("{", r"\{"), path)]
    assert len(rows) == 1, f"{path} stands in {len(rows)} rows of the table of headers, not in one"
    return rows[0]


def routes_of(app: App) -> list[tuple[str, str]]:
    """Every method and path that the running server knows, as `{name}` has them, from aiohttp's own router."""
    return [(route.method, route.resource.canonical) for route in app.application.router.routes() if route.resource]


def told(answer: Answer) -> dict[str, str]:
    """What an answer tells browsers."""
    return {name: value for name, value in answer.headers.items() if name.lower() not in OF_THE_ANSWER}


def but_for_preflight(answer: Answer) -> dict[str, str]:
    """The same without what a preflight alone is told."""
    return {name: value for name, value in told(answer).items() if name not in PREFLIGHT}


class Visit(NamedTuple):
    """An application with the owner's choice of paths, his browser, and what is behind the names in paths."""

    app: App
    owner: PageClient
    names: Mapping[str, str]
    key: str

    async def ask(self, method: str, path: str, **headers: str | None) -> Answer:
        """By the owner, in his browser and with his key."""
        own: dict[str, str | None] = {name.replace("_", "-"): value for name, value in headers.items()}
        own.setdefault("Authorization", f"Bearer {self.key}")
        row = BY_ROUTE.get(f"{method} {path}")
        body = row and row.body
        if "website_id" not in (body or {"website_id": 0}) and row_of(path) is COLLECT:
            body = body | {"website_id": self.names["id"]}
            own |= {"Sec-Fetch-Site": None}
        return await self.owner(method, path.format(**self.names), body, headers=own)


@pytest.fixture
async def visit(make_app: MakeApp) -> Visit:
    app = await make_app(**CHOSEN, client_per_minute=10_000, website_per_minute=10_000, key_per_minute=10_000)
    owner = await logged_in(app)
    website, key = await app.website(), await app.key()
    link = await owner("POST", f"/api/account/websites/{website}/share")
    token = link.json["data"]["share"].removeprefix("/share/")
    names = {"id": website, "number": "1", "token": token, "field": "os", "section": "keys", "path": "icon.svg"}
    return Visit(app, owner, names | {"part": "heatmap"}, key)


async def test_every_route_is_in_the_table(visit: Visit) -> None:
    routes = routes_of(visit.app)
    assert len(routes) > 90
    assert {path for _, path in routes} >= set(CHOSEN.values())
    for _, path in routes:
        row_of(path)


def test_nothing_inline_anywhere() -> None:
    for row in (*TABLE.values(), ALWAYS):
        assert "unsafe" not in row["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in row["Content-Security-Policy"]


async def test_every_method_of_every_route(visit: Visit) -> None:
    """Asked by the owner, in the order that leaves his session and his website to the end; HEAD and OPTIONS too."""
    last = ("DELETE", "logout", "password")
    routes = sorted(routes_of(visit.app), key=lambda route: any(word in " ".join(route) for word in last))
    seen = set()
    for method, path in routes:
        answer = await visit.ask(method, path)
        seen.add(answer.status)
        assert told(answer).keys() & PREFLIGHT == (PREFLIGHT if method == "OPTIONS" else set())
        assert but_for_preflight(answer) == row_of(path), (method, path)
    assert {200, 202, 204} <= seen
    assert not [status for status in seen if status >= 500]


async def test_refusals(visit: Visit) -> None:
    """A method that a route does not take; nobody in particular; another origin's page; what cannot be found."""
    stranger = PageClient(visit.app)
    for method, path in routes_of(visit.app):
        other = next(m for m in ("PUT", "TRACE") if m != method)
        there = dict.fromkeys(visit.names, "x" * 24)
        evil: dict[str, str | None] = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        for answer in (
            await visit.owner(other, path.format(**visit.names)),
            await visit.owner(method, path.format(**there)) if row_of(path) is FRAMING else None,
            await stranger(method, path.format(**there)),
            await stranger(method, path.format(**visit.names), b"[", headers=evil),
        ):
            assert answer is None or but_for_preflight(answer) == _met(answer, path), (method, path)


def _met(answer: Answer, path: str) -> Mapping[str, str]:
    """The row; but what refuses before a tracker's handler says nothing of who may embed it, and strangers may frame
    nothing."""
    row = row_of(path)
    if row is TRACKER and answer.status != 200:
        return ALWAYS
    row = SHELL if row is FRAMING else row
    return ALWAYS if row in (SHELL, FILE) and answer.status == 405 else row


async def test_not_modified(visit: Visit) -> None:
    for path in ("/", "/assets/{path}", "/tracker.js", "/api/v1/websites/{id}/stats"):
        tag = (await visit.ask("GET", path)).headers["ETag"]
        again = await visit.ask("GET", path, **{"If_None_Match": tag})
        assert again.status == 304
        assert told(again) == row_of(path)


async def test_failures_of_ours(visit: Visit) -> None:
    """503 of a damaged file; 500 of a bug."""
    asked = [("GET", "/healthz", ALWAYS), ("POST", "/api/collect", COLLECT), ("GET", "/api/account/keys", ACCOUNT)]
    visit.app.store.health.fault = "damaged"
    answers = [await visit.ask(method, path) for method, path, _ in asked]
    assert [answer.status for answer in answers] == [503, 503, 200]
    visit.app.store.health.fault = ""
    registry, visit.app.store.registry = visit.app.store.registry, None
    failed = [await visit.ask(method, path) for method, path, _ in asked[1:]]
    visit.app.store.registry = registry
    assert [answer.status for answer in failed] == [500, 500]
    for answer, row in zip([*answers, *failed], [*asked, *asked[1:]], strict=True):
        assert told(answer) == row[2]


NOWHERE = ("/nothing", "/api", "/api/v2/x", "/api/v1/nothing", "/%2e%2e/etc", "/assets", "/assets/", "/tracker/x.js")


@pytest.mark.parametrize("path", NOWHERE)
async def test_where_there_is_nothing(app: App, path: str) -> None:
    answer = await PageClient(app)("GET", path)
    assert answer.status == 404
    assert told(answer) == ALWAYS


NO_HTTP = {
    "no-http": b"GARBAGE<script>\r\n\r\n",
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


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP.keys())
async def test_what_is_no_http_is_told_so_in_our_words(app: App, sent: bytes) -> None:
    """The one shape of errors; nothing of what was sent, no name and no version of what runs here."""
    answer = await raw(app, sent)
    assert answer.status == 400
    assert told(answer) == ALWAYS
    assert answer.json["error"]["code"] == "bad_request"
    assert re.search("script|aiohttp|[Pp]ython", answer.text + str(answer.headers)) is None


async def raw(app: App, sent: bytes) -> Answer:
    """What a connection is answered first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", app.client.port)
    try:
        writer.write(sent)
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers: dict[str, Any] = dict(line.split(": ", 1) for line in lines)
        body = await reader.readexactly(int(headers["Content-Length"]))
        return Answer(int(status.split()[1]), headers, body)
    finally:
        writer.close()
