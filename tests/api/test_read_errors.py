"""Authentication, rate limits and errors of the read API; and the routes that need no key.

The rules are in docs/reference/read-api.md (Authentication, Responses) and docs/reference/errors.md.
"""

import gc
import re
import uuid
from typing import Any

import pytest

from clients.generate import read
from tally.accounts.accounts import set_plan
from tally.accounts.api_keys import revoke_api_key
from tally.errors import ApiError
from tally.http.request_paths import MANAGED_PATHS, MCP_PATH, OAUTH_PATHS
from tally.web.routes import ROUTES
from tests.support.app import NOON_MS, OWNER, Answer, App, MakeApp
from tests.support.cases import cases
from tests.support.read_api import DAY, ENDPOINTS, Site, SyncApp, raw, request, view

READ = ("websites", *ENDPOINTS)
RATE = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    return sync_app.site()


def path_of(endpoint: str, website: str) -> str:
    return "/api/v1/websites" + ("" if endpoint == "websites" else f"/{website}/{endpoint}")


def assert_error(answer: Answer, status: int, code: str) -> None:
    """Assert that the response is an error with exactly the documented keys."""
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"].split(";")[0] == "application/json"
    assert answer.json.keys() == {"ok", "error"}
    assert answer.json["ok"] is False
    assert answer.json["error"].keys() - {"field"} == {"code", "message"}
    assert answer.json["error"]["code"] == code
    assert answer.json["error"]["message"].endswith(".")


@pytest.mark.parametrize(
    "path",
    ["/api/v1/websites", "/api/v1/nothing", "/nothing", "/api/share/none", "/api/v1/websites/{site}/stats?from=x"],
)
async def test_an_error_is_freed_with_its_request(app: App, path: str) -> None:
    """No cycle of references keeps it with the request until the next collection of garbage."""
    website, key = await app.website("example.com"), await app.key()

    def errors() -> int:
        return sum(isinstance(one, ApiError) for one in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = errors()
        for _ in range(5):
            answer = await app.get(path.replace("{site}", website), key if "{site}" in path else None)
            assert answer.status >= 400
        assert errors() - before <= 1
    finally:
        gc.enable()


# --- 401


MISSING = {
    "missing": [],
    "empty": ["Authorization:"],
    "no-key": ["Authorization: Bearer"],
    "no-key-but-a-space": ["Authorization: Bearer "],
    "no-scheme": ["Authorization: {key}"],
    "other-scheme": ["Authorization: Basic {key}"],
    "token": ["Authorization: Token {key}"],
    "no-space": ["Authorization: Bearer{key}"],
    "colon": ["Authorization: Bearer:{key}"],
    "two-headers": ["Authorization: Bearer {key}", "Authorization: Bearer {key}"],
    "two-schemes": ["Authorization: Basic x", "Authorization: Bearer {key}"],
    "other-header": ["X-API-Key: {key}"],
    "cookie": ["Cookie: key={key}"],
}
INVALID = {
    "two-keys": ["Authorization: Bearer {key} {key}"],
    "comma": ["Authorization: Bearer {key},"],
    "quoted": ['Authorization: Bearer "{key}"'],
    "key-in-upper-case": ["Authorization: Bearer {KEY}"],
    "longer": ["Authorization: Bearer {key}x"],
    "wrong": ["Authorization: Bearer tly_wrong"],
    "not-utf-8": ["Authorization: Bearer \xff\xfe"],
    "injection": ["Authorization: Bearer ' or 1=1 --"],
    "long": ["Authorization: Bearer " + "x" * 8000],
}


@cases(
    ("code", "lines"),
    [
        *(pytest.param("missing_api_key", lines, id=name) for name, lines in MISSING.items()),
        *(pytest.param("invalid_api_key", lines, id=name) for name, lines in INVALID.items()),
    ],
)
@cases("endpoint", READ)
def test_without_a_valid_key(site: Site, endpoint: str, code: str, lines: list[str]) -> None:
    """Missing and invalid keys have different codes; only the latter is an error of the challenge (RFC 6750, 3.1)."""
    more = [line.format(key=site.key, KEY=site.key.upper()).encode("latin-1") for line in lines]
    target = path_of(endpoint, site.id) + f"?key={site.key}&access_token={site.key}&api_key={site.key}"
    answer = site.sync_app.raw(request(target.encode(), more=more))
    assert_error(answer, 401, code)
    challenge = 'Bearer realm="Tally"' + (', error="invalid_token"' if code == "invalid_api_key" else "")
    assert answer.headers["WWW-Authenticate"] == challenge
    assert not set(RATE) & set(answer.headers)
    assert site.key not in answer.text


@pytest.mark.parametrize("line", ["bearer {key}", "BEARER {key}", "Bearer   {key}", "  Bearer {key}  "])
def test_the_scheme_is_case_insensitive(site: Site, line: str) -> None:
    """RFC 9110, 11.1; one or more spaces follow the scheme."""
    more = [b"Authorization: " + line.format(key=site.key).encode()]
    assert site.sync_app.raw(request(site.path("stats").encode(), more=more)).status == 200


def test_a_revoked_key_is_invalid(sync_app: SyncApp) -> None:
    """The running server rejects a revoked key; other keys of the account stay valid."""
    account = f"{uuid.uuid4()}@example.com"
    site, other = sync_app.site(account=account), sync_app.run(sync_app.app.key(account))
    assert site.get("stats").status == 200
    sync_app.run(sync_app.app.admin(lambda connection: revoke_api_key(connection, site.key)))
    assert_error(site.get("stats"), 401, "invalid_api_key")
    assert sync_app.get(site.path("stats"), other).status == 200


# --- 403


def test_a_plan_without_keys(sync_app: SyncApp) -> None:
    """Keys of an account on the free plan get 403 and work again after an upgrade."""
    account = f"{uuid.uuid4()}@example.com"
    site = sync_app.site(account=account)

    def change_plan(plan: str) -> None:
        sync_app.run(sync_app.app.admin(lambda connection: set_plan(connection, account, plan)))

    for endpoint in READ:
        for plan, status in (("free", 403), ("pro", 200), ("free", 403), ("business", 200)):
            change_plan(plan)
            answer = sync_app.get(path_of(endpoint, site.id), site.key)
            assert answer.status == status
            assert set(RATE) <= set(answer.headers)
            if status == 403:
                assert_error(answer, 403, "plan_has_no_keys")
    change_plan("free")
    assert sync_app.get(path_of("stats", "no-such-website"), site.key).status == 403
    assert sync_app.get(path_of("stats", site.id) + "?limit=x", site.key).status == 403


# --- 404

INVALID_IDS = (
    *("00000000-0000-0000-0000-000000000000", "x", "1", "*", "'", "%00", "%27%20or%201=1%20--", "null", "%ED%A0%80"),
    *("{id}x", "x{id}", "{plain}", "urn:uuid:{id}", "{id}%20", "%20{id}", "{id}%2F", "%2e%2e"),
    "a" * 3000,
)  # fmt: skip


@pytest.fixture
def sites(sync_app: SyncApp) -> tuple[Site, Site]:
    """Two websites of different accounts; the second has an event."""
    site, other = sync_app.site(), sync_app.site(account=f"{uuid.uuid4()}@example.com")
    other.send(view("10:00:00"))
    return site, other


@cases("endpoint", ENDPOINTS)
def test_anothers_website_is_unknown(sync_app: SyncApp, sites: tuple[Site, Site], endpoint: str) -> None:
    """An unknown website and one of another account get the same 404 `unknown_website`."""
    site, other = sites
    invalid = [form.format(id=site.id, plain=site.id.replace("-", "")) for form in INVALID_IDS]
    responses = set()
    requests = [(other.id, question) for question in ("", "?limit=x&nonsense=1", f"?from={DAY}&to=2020-01-01")]
    for id_, question in (*requests, *((id_, "") for id_ in (other.id.upper(), *invalid))):
        answer = sync_app.get(path_of(endpoint, id_) + question, site.key)
        assert_error(answer, 404, "unknown_website")
        assert set(RATE) <= set(answer.headers)
        kept = {name: value for name, value in answer.headers.items() if name not in ("Date", *RATE)}
        responses.add((answer.body, tuple(sorted(kept.items()))))
    assert len(responses) == 1
    assert sync_app.get(path_of(endpoint, other.id), other.key).status == 200


@pytest.mark.parametrize(
    ("question", "status", "code"),
    [("%7B{id}%7D/stats", 404, "unknown_website"), ("{id}/top/%7Bos%7D", 400, "invalid_parameter")],
)
def test_braces_are_not_parameters(site: Site, question: str, status: int, code: str) -> None:
    """`{id}` and `{os}` in a path are values, not the router's parameters."""
    assert_error(site.sync_app.get("/api/v1/websites/" + question.replace("{id}", site.id), site.key), status, code)


def test_the_order_of_checks(sync_app: SyncApp) -> None:
    """Key, then plan, then website, then parameters."""
    site = sync_app.site()
    everything_wrong = path_of("top/nothing", "x") + "?limit=x"
    assert sync_app.get(everything_wrong).status == 401
    assert sync_app.get(everything_wrong, site.key).status == 404
    assert sync_app.get(site.path("top/nothing?limit=x"), site.key).status == 400


# --- 429


async def opened(make_app: MakeApp, **settings: Any) -> tuple[App, str, str]:
    """Return an application, the path of a website's stats and a key."""
    app = await make_app(**settings)
    return app, f"/api/v1/websites/{await app.website()}/stats", await app.key()


def rate(answer: Answer) -> tuple[int, ...]:
    """Return limit, remaining and reset."""
    return tuple(int(answer.headers[name]) for name in RATE)


async def test_600_requests_per_minute_and_key(make_app: MakeApp) -> None:
    """The headers count down, and the bucket refills evenly."""
    app, path, key = await opened(make_app)
    for n in range(600):
        answer = await app.get("/api/v1/websites", key)
        assert answer.status == 200
        assert rate(answer) == (600, 599 - n, -(-(n + 1) // 10))
    refused = await app.get(path, key)
    assert_error(refused, 429, "rate_limited")
    assert rate(refused) == (600, 0, 60)
    assert refused.headers["Retry-After"] == "1"
    app.clock.advance(1)
    assert [(await app.get(path, key)).status for _ in range(11)] == [200] * 10 + [429]
    app.clock.advance(60)
    assert rate(await app.get(path, key)) == (600, 599, 1)


@pytest.mark.parametrize(("per_minute", "wait"), [(1, 60), (2, 30), (3, 20), (7, 9), (60, 1), (120, 1)])
async def test_retry_after_is_long_enough(make_app: MakeApp, per_minute: int, wait: int) -> None:
    """A request sent after `Retry-After` seconds is accepted."""
    app, path, key = await opened(make_app, key_per_minute=per_minute)
    for _ in range(per_minute):
        assert (await app.get(path, key)).status == 200
    for _ in range(3):
        # rejected requests use no token
        refused = await app.get(path, key)
        assert (refused.status, refused.headers["Retry-After"]) == (429, str(wait))
    app.clock.advance(wait)
    assert (await app.get(path, key)).status == 200


async def test_each_key_has_a_bucket(make_app: MakeApp) -> None:
    """The limit is per key, not per account, address or website."""
    app, path, key = await opened(make_app, key_per_minute=2)
    other = await app.key()
    assert [(await app.get(path, key)).status for _ in range(3)] == [200, 200, 429]
    assert [(await app.get(path, other)).status for _ in range(3)] == [200, 200, 429]


async def test_which_responses_use_a_token(make_app: MakeApp) -> None:
    """200, 304, 400, 403 and 404 use a token, 401 and preflights none."""
    app, path, key = await opened(make_app)
    tag = (await app.get(path, key)).headers["ETag"]
    unknown = f"/api/v1/websites/{uuid.uuid4()}/stats"
    remaining = 599
    for address, headers, method, status in (
        (path, {"If-None-Match": tag}, "GET", 304),
        (path, {}, "HEAD", 200),
        (f"{path}?x=1", {}, "GET", 400),
        (unknown, {}, "GET", 404),
        ("/api/v1/websites", {}, "GET", 200),
    ):
        assert (await app.get(path)).status == 401
        assert (await app.get(path, method="OPTIONS")).status == 204
        answer = await app.get(address, key, headers=headers, method=method)
        remaining -= 1
        assert (answer.status, rate(answer)[:2]) == (status, (600, remaining))


async def test_the_rate_limit_is_checked_first(make_app: MakeApp) -> None:
    """Before plan, website and parameters, but after the key."""
    app, path, key = await opened(make_app, key_per_minute=1)
    assert (await app.get(path, key)).status == 200
    for address in (path, f"{path}?x=1", "/api/v1/websites/x/stats", "/api/v1/websites"):
        assert_error(await app.get(address, key), 429, "rate_limited")
    await app.admin(lambda connection: set_plan(connection, OWNER, "free"))
    assert_error(await app.get(path, key), 429, "rate_limited")
    assert (await app.get(path, "wrong")).status == 401


# --- CORS, HEAD, methods


@cases("endpoint", READ)
def test_a_preflight_is_answered(site: Site, endpoint: str) -> None:
    """Every origin is allowed; the preflight needs no key and allows Authorization."""
    headers = {
        "Origin": "https://dashboard.example.net",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization",
    }
    answer = site.sync_app.get(path_of(endpoint, site.id), None, headers, "OPTIONS")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "authorization" in answer.headers["Access-Control-Allow-Headers"].lower()
    assert "GET" in answer.headers["Access-Control-Allow-Methods"]
    assert "Access-Control-Allow-Credentials" not in answer.headers


EXPOSED = {"retry-after", "etag", "link", *(name.lower() for name in RATE)}


@cases("endpoint", READ)
def test_every_response_allows_cors(site: Site, endpoint: str) -> None:
    """Retry-After, ETag, Link and RateLimit-* are exposed, on errors too."""
    path = path_of(endpoint, site.id)
    for answer, status in (
        (site.sync_app.get(path, site.key, {"Origin": "https://a.example"}), 200),
        (site.sync_app.get(path, site.key, {"If-None-Match": "*"}), 304),
        (site.sync_app.get(path), 401),
        (site.sync_app.get(f"{path}?x=1", site.key), 400),
        (site.sync_app.get(path_of("stats", "x"), site.key), 404),
        (site.sync_app.get(f"{path}/nothing/here", site.key), 404),
        (site.sync_app.get(path, site.key, None, "DELETE"), 405),
    ):
        assert answer.status == status
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        exposed = answer.headers["Access-Control-Expose-Headers"].lower().split(",")
        assert {name.strip() for name in exposed} >= EXPOSED


@pytest.mark.parametrize("endpoint", [*READ, "events?format=csv", "top/os?format=csv"])
def test_head_is_get_without_a_body(site: Site, endpoint: str) -> None:
    """HEAD has the headers of GET, including length and tag."""
    site.send(view("10:00:00"))
    path = path_of(endpoint, site.id)
    got, head = site.sync_app.get(path, site.key), site.sync_app.get(path, site.key, None, "HEAD")
    assert (head.status, head.body) == (200, b"")
    for name in ("Content-Type", "Content-Length", "ETag", "Vary", "RateLimit-Limit"):
        assert head.headers[name] == got.headers[name]
    assert int(head.headers["Content-Length"]) == len(got.body)


@pytest.mark.parametrize(
    ("question", "key", "status"), [("stats", "", 401), ("stats?x=1", "own", 400), ("x", "own", 404)]
)
def test_an_error_for_head_has_no_body(site: Site, question: str, key: str, status: int) -> None:
    """Status as for GET, without a body."""
    answer = site.sync_app.get(site.path(question), site.key if key else None, None, "HEAD")
    assert (answer.status, answer.body) == (status, b"")


# all routes; `filled` replaces their parameters
PATHS = sorted({route.path for route in ROUTES})


def filled(path: str, site: Site) -> str:
    values = {
        "id": site.id,
        "field": "os",
        "path": "app.css",
        "part": "vitals",
        "script": "script.js",
        "stem": "script",
    }
    return re.sub(r"{(\w+)}", lambda place: values.get(place[1], "x"), path)


@pytest.mark.slow
@cases("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
@cases("path", PATHS)
def test_every_method_on_every_route(site: Site, path: str, method: str) -> None:
    """A 405 has the same JSON format, and an Allow header with exactly the accepted methods."""
    target = filled(path, site)
    answer = site.sync_app.raw(request(target.encode(), site.key, method.encode()))
    if answer.status != 405:
        # These requests have no session; the responses of the pages' API are tested elsewhere.
        allowed = (401, 403, 404) if path.startswith(("/api/account", "/api/share")) else ()
        # Requests of other tests had a remote Origin, as behind a proxy without X-Forwarded-For.
        allowed = (403,) if path == "/metrics" else allowed
        # It takes the id of a website, not an API key.
        allowed = (401,) if path == "/api/v0/count" else allowed
        # The key may read alone.
        allowed = (403,) if path.startswith("/api/v1/websites") else allowed
        allowed = (403,) if path.startswith(MANAGED_PATHS) else allowed
        # The body must be JSON, or a form.
        allowed = (415,) if path in (MCP_PATH, *OAUTH_PATHS) else allowed
        # Without a provider, and without a channel of that token.
        allowed = (404,) if path.startswith(("/sign-in/", "/feeds/", "/confirm/", "/unsubscribe/")) else allowed
        assert answer.status in (200, 204, 400, *allowed)
        return
    allowed = {name.strip() for name in answer.headers["Allow"].split(",")}
    assert method not in allowed
    for name in allowed:
        assert site.sync_app.raw(request(target.encode(), site.key, name.encode())).status != 405
    if method != "HEAD":
        assert_error(answer, 405, "method_not_allowed")


@cases(
    "target",
    [
        *("/api", "/api/v1", "/api/v2/websites", "/api/v1/websites/", "/api/v1/website", "/API/V1/websites"),
        *("/api/v1/websites/{id}/", "/api/v1/websites/{id}/top/"),
        *("/api/v1/websites/{id}/stats/", "/api/v1/websites/{id}/Stats", "/api/v1/websites/{id}/top/os/x", "/x.ico"),
        *("/api/v1/websites//stats", "//api/v1/websites", "/api/v1/../../etc/passwd", "/api/v1/%2e%2e/healthz", "/%00"),
        *("/api/v1/openapi.json", "/api/v1/openapi.yaml/", "/healthz/", "/metrics/x", "/static/openapi.yaml"),
        *("/assets", "/assets/"),
        *("/api/v1/websites%2F{id}%2Fstats", "/%F0%9F%98%80", "/%ED%A0%80", "/%FF"),
    ],
)  # fmt: skip
@cases("method", ["GET", "POST", "OPTIONS"])
def test_unknown_paths(site: Site, target: str, method: str) -> None:
    """404 with a JSON error and without the Python version."""
    answer = site.sync_app.raw(request(target.replace("{id}", site.id).encode(), site.key, method.encode()))
    assert_error(answer, 404, "not_found")
    assert "Python" not in answer.headers["Server"]


@cases(
    ("method", "target", "statuses"),
    [
        (b"OPTIONS", b"*", {404}),
        (b"GET", b"*", {400, 404}),
        (b"CONNECT", b"example.com:443", {400, 404, 405}),
        (b"GET", b"http://elsewhere.example/api/v1/websites", {200}),
        (b"GET", b"", {400}),
        (b"get", b"/api/v1/websites", {400, 405}),
        (b"FOO", b"/api/v1/websites", {400, 405}),
        (b"GE\xc3\x84T", b"/api/v1/websites", {400}),
        (b"PRI", b"*", {400}),
        (b"GET", b"/api/v1/websites\xff", {400, 404}),
        (b"GET", b"/" + b"x" * 4_096, {414}),
        (b"GET", b"/" + b"x" * 4_095, {404}),
        (b"GET", b"/" + b"x" * 90_000, {400, 414}),
    ],
)
def test_malformed_requests_cause_no_500(site: Site, method: bytes, target: bytes, statuses: set[int]) -> None:
    """Malformed requests get a 4xx and the server continues."""
    assert site.sync_app.raw(request(target, site.key, method)).status in statuses
    assert site.get("stats").status == 200


@cases(
    "line",
    [
        pytest.param(b"Range: bytes=99999999-", id="range-beyond-the-end"),
        pytest.param(b"Range: nonsense", id="invalid-range"),
        pytest.param(b'If-Match: "other"', id="if-match"),
        pytest.param(b"If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT", id="if-unmodified-since"),
        pytest.param(b"Expect: something", id="expect"),
        pytest.param(b"Expect: \xff", id="expect-other-than-utf-8"),
    ],
)
@cases("path", ["/api/v1/openapi.yaml", "/healthz", "/api/v1/websites", "/nowhere"])
def test_rejected_conditions_get_a_json_error(site: Site, path: str, line: bytes) -> None:
    """A condition is either ignored or rejected with a JSON error."""
    answer = site.sync_app.raw(request(path.encode(), site.key, more=[line]))
    if answer.status >= 400:
        assert answer.status < 500
        assert_error(answer, answer.status, answer.json["error"]["code"] if answer.json else "")
    else:
        assert answer.status == 200


# --- /healthz, /metrics, /api/v1/openapi.yaml


def test_healthz_needs_no_key(sync_app: SyncApp) -> None:
    """/healthz is public, also behind a proxy."""
    answer = sync_app.get("/healthz", headers={"X-Forwarded-For": "203.0.113.9"})
    assert (answer.status, answer.json) == (200, {"ok": True, "queue": 0})
    head = sync_app.get("/healthz", method="HEAD")
    assert (head.status, head.body) == (200, b"")


def test_openapi_needs_no_key(sync_app: SyncApp) -> None:
    """/api/v1/openapi.yaml is public and has all public paths."""
    answer = sync_app.get("/api/v1/openapi.yaml", headers={"X-Forwarded-For": "203.0.113.9"})
    assert answer.status == 200
    assert "yaml" in answer.headers["Content-Type"]
    paths = read(answer.body)["paths"]
    public = {path for path in PATHS if path.startswith(("/api/v1/websites", "/api/collect", "/api/v1/collect"))}
    assert public <= set(paths)
    head = sync_app.get("/api/v1/openapi.yaml", method="HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(answer.body)))


def counters(answer: Answer) -> dict[str, float]:
    """Return the samples of a Prometheus text by name."""
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


async def test_metrics_count_events(app: App) -> None:
    """/metrics counts events, commits and identities, and has no session ids."""
    website = await app.website()
    before = counters(await app.get("/metrics"))
    await app.collect({"website_id": website, "events": [view("10:00:00"), view("10:00:00", who="bob"), {"type": "x"}]})
    after = counters(await app.get("/metrics"))
    assert after["tally_events_accepted_total"] - before["tally_events_accepted_total"] == 2
    assert after['tally_events_rejected_total{code="invalid_type"}'] == 1
    assert after["tally_commit_seconds_count"] - before["tally_commit_seconds_count"] == 1
    assert after["tally_identities"] == 2
    assert after["tally_identities_evicted_total"] == 0
    answer = await app.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "session-of" not in answer.text


FAR = {"X-Forwarded-For": "203.0.113.9"}
TOKEN = "a-token-of-the-settings"


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        pytest.param("", {}, 200, id="loopback"),
        pytest.param("", {"Host": "localhost:8000"}, 200, id="localhost"),
        pytest.param("", {"Host": "[::1]:8000"}, 200, id="an-address"),
        pytest.param("", {"Host": "rebound.example:8000"}, 403, id="another-host-name"),
        pytest.param("", {"Host": "localhost.example"}, 403, id="a-host-name-with-localhost-as-prefix"),
        pytest.param(
            "", {"X-Forwarded-For": "::1"}, 403, id="forwarded"
        ),  # behind a local proxy every client seems local
        pytest.param("", {"X-Forwarded-For": "unknown"}, 403, id="forwarded-for-unknown"),
        pytest.param("", {"Via": "1.1 proxy"}, 403, id="via-without-forwarded-for"),
        pytest.param("", FAR, 403, id="remote"),
        pytest.param("", {"X-Forwarded-For": "127.0.0.1, 203.0.113.9"}, 403, id="remote-with-forged-address"),
        pytest.param("", {"X-Forwarded-For": "192.168.1.5"}, 403, id="private-is-not-loopback"),
        pytest.param("", FAR | {"Authorization": "Bearer "}, 403, id="empty-token"),
        pytest.param("", FAR | {"Authorization": "Bearer"}, 403, id="scheme-alone"),
        pytest.param(TOKEN, FAR | {"Authorization": f"Bearer {TOKEN}"}, 200, id="token"),
        pytest.param(TOKEN, FAR | {"Authorization": f"Bearer {TOKEN}x"}, 403, id="longer-token"),
        pytest.param(TOKEN, FAR | {"Authorization": f"Bearer {TOKEN[:-1]}"}, 403, id="shorter-token"),
        pytest.param(TOKEN, FAR | {"Authorization": TOKEN}, 403, id="token-without-scheme"),
        pytest.param(TOKEN, FAR | {"Authorization": "Bearer \u00e9"}, 403, id="not-ascii"),
        pytest.param(TOKEN, FAR, 403, id="token-not-sent"),
        pytest.param(TOKEN, {}, 403, id="loopback-needs-the-token-too"),
        pytest.param("", {}, 200, id="loopback-without-a-token-in-the-settings"),
    ],
)
async def test_access_to_metrics(make_app: MakeApp, token: str, headers: dict[str, str], status: int) -> None:
    """/metrics requires the token from the settings; without one the client must be on loopback."""
    app = await make_app(metrics_token=token)
    answer = await app.get("/metrics", headers=headers)
    assert answer.status == status
    if status == 403:
        assert_error(answer, 403, "forbidden")


PROXY_HEADERS = (
    "Via: 1.1 x",
    "Forwarded: proto=https",
    "X-Real-IP: 203.0.113.9",
    "X-Request-Id: 1",
    "CF-Ray: 1",
    "CDN-Loop: x",
)
DIRECT = (
    "Host: 127.0.0.1",
    "Host: 127.8.8.8:80",
    "Host: [::1]:8000",
    "Host: [::ffff:127.0.0.1]",
    "Host: localhost:8000",
    "Host: LOCALHOST\r\nX-Prometheus-Scrape-Timeout-Seconds: 10",
)
FORWARDED = (
    *(f"Host: localhost\r\n{header}" for header in PROXY_HEADERS),
    *(
        f"Host: {name}"
        for name in ("stats.example.com", "localhost.example.com", "192.0.2.7", "[2001:db8::1]", "", "x:y:z")
    ),
)


async def test_metrics_reject_requests_from_a_proxy(app: App) -> None:
    """Behind a local proxy every client seems local."""
    answer = await raw(app, b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert_error(answer, 403, "forbidden")
    for lines, status in (*((lines, 200) for lines in DIRECT), *((lines, 403) for lines in FORWARDED)):
        if status == 403:
            # A request that shows a hidden proxy has all later ones refused until the restart.
            await app.restart()
        answer = await raw(app, f"GET /metrics HTTP/1.1\r\nConnection: close\r\n{lines}\r\n\r\n".encode())
        assert answer.status == status, lines


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://example.com"}, 403),
        ({"Referer": "https://stats.example.com/login", "Sec-Fetch-Site": "same-origin"}, 403),
        ({"Host": "stats.example.com"}, 403),
        ({"Host": "192.0.2.7:8000"}, 403),
        ({"Host": "x" * 400}, 403),
        ({"Host": "0.0.0.0:8000"}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "http://[::1]:3000", "Host": "[::1]:8000"}, 200),
        ({"Origin": "null"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "https://example.com", "Host": "stats.example.com", **FAR}, 200),
    ],
)
async def test_metrics_and_a_proxy_that_adds_no_header(app: App, headers: dict[str, str], status: int) -> None:
    """A remote browser's request that comes from loopback reveals a proxy: then local requests are refused.

    A proxy that sets X-Forwarded-For, and local browsers, change nothing.
    """
    assert (await app.get("/metrics")).status == 200
    await app.get("/login", headers=headers)
    answer = await app.get("/metrics")
    assert answer.status == status
    if status == 403:
        assert_error(answer, 403, "forbidden")
        assert "--metrics-token" in answer.json["error"]["message"]


async def test_api_key_and_metrics_token_are_distinct(make_app: MakeApp) -> None:
    """An API key gives no access to /metrics, and the metrics token none to the API."""
    app = await make_app(metrics_token=TOKEN)
    key = await app.key()
    assert (await app.get("/metrics", key, headers=FAR)).status == 403
    assert (await app.get("/api/v1/websites", TOKEN)).status == 401


async def test_binary_headers_cause_no_500(app: App) -> None:
    """Invalid UTF-8 in headers is accepted or rejected without a 500."""
    website, key = await app.website(), await app.key()
    target = f"/api/v1/websites/{website}/events".encode()
    for name in (b"Accept", b"If-None-Match", b"User-Agent", b"X-Forwarded-For", b"Origin", b"Cookie"):
        answer = await raw(app, request(target, key, more=[name + b": \xff\xfe\x80 \xed\xa0\x80"]))
        assert answer.status == 200
        answer = await raw(app, request(b"/metrics", more=[name + b": \xff\xfe"]))
        assert answer.status in (200, 403)
    answer = await raw(app, request(b"/metrics", more=[b"Authorization: Bearer \xff", b"X-Forwarded-For: 203.0.113.9"]))
    assert answer.status == 403
