"""The requests of the soak test: usual traffic of a website, queries of its owner, and one hostile request in twenty.

A `RequestKind` makes the bytes of its n-th request and has the expected statuses; other responses count as wrong.
Hostile requests use connections and client addresses of their own: some are invalid in path, method, size, syntax, key
or origin, some are not HTTP, some are aborted.
"""

import gzip
import json
import random
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

from collect_requests import EVENTS_PER_BATCH, EventGenerator, batches, post, single
from queries import Query, quick, unfiltered
from servers import METRICS_TOKEN
from traffic import LARGE_BROWSER, SMALL_BROWSER

COLLECT, READ, HOSTILE = "collect", "read", "hostile"
# Visitors at the same time on a website with 200 events per second.
VISITORS = 5_000
# Every third single event has an event_id.
_WITH_ID = 3
CLOSED = 0
"""The status of a connection that was closed without a response."""


class RequestKind(NamedTuple):
    """Requests of one kind. `make` returns the n-th request, `expected` has the expected statuses, `events` is the
    number of events in a request. With `disconnects` the client does not wait for the response."""

    name: str
    group: str
    per_second: float
    make: Callable[[int], bytes]
    expected: tuple[int, ...]
    events: int = 0
    disconnects: bool = False


def request_kinds(website: str, key: str, rate: float) -> list[RequestKind]:
    """Return all kinds; `rate` is the number of requests per second of all together."""
    hostile = _hostile(website, key)
    share = rate / 100
    usual = [
        RequestKind("single events", COLLECT, 70 * share, _singles(website), (202,), 1),
        RequestKind("batches", COLLECT, 4 * share, batches(website, VISITORS), (202,), EVENTS_PER_BATCH),
        RequestKind("queries", READ, 14 * share, _queries(website, key), (200,)),
        RequestKind("pages", READ, 7 * share, _pages(website, key), (200, 204)),
    ]
    return usual + [
        RequestKind(name, HOSTILE, 5 * share / len(hostile), make, expected, 0, name.startswith("aborted"))
        for name, make, expected in hostile
    ]


def _singles(website: str) -> Callable[[int], bytes]:
    """Return requests with one event, made when they are sent: all differ, and new paths appear as on a website."""
    generator, rng = EventGenerator(11, VISITORS), random.Random(11)

    def make(n: int) -> bytes:
        event = generator.event()
        if n % _WITH_ID == 0:
            event["event_id"] = secrets.token_hex(8)
        if rng.random() < 0.01:
            event["url"] += f"/{n}"
        if rng.random() < 0.05:
            event = event | {"type": "vitals", "vitals": {"lcp": rng.randrange(200, 5_000)}}
            event.pop("event_name", None)
            event.pop("event_data", None)
        return single(generator, website, event)

    return make


def _get(path: str, key: str = "", *lines: str) -> bytes:
    bearer = [f"Authorization: Bearer {key}"] if key else []
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *bearer, *lines, "", ""]).encode()


def _queries(website: str, key: str) -> Callable[[int], bytes]:
    """Return the queries of a dashboard in turn: over 7 and 30 days, with and without filters, paged, as CSV."""
    base = [*unfiltered((7, 30)), *quick(), *quick(), *quick()]
    for browser in (SMALL_BROWSER, LARGE_BROWSER):
        base += [Query("", 7, "", f"{what}filter_browser={browser}") for what in ("stats?", "top/pathname?")]
    base += [
        Query("", 7, "", path) for path in ("top/pathname?format=csv", "events?limit=50", "stats?compare=previous")
    ]
    random.Random(5).shuffle(base)
    return lambda n: _get(base[n % len(base)].url(website), key)


def _pages(website: str, key: str) -> Callable[[int], bytes]:
    """Return other requests of monitoring and browsers."""
    made = [
        _get("/healthz"),
        _get("/metrics", METRICS_TOKEN),
        _get("/"),
        _get("/login"),
        _get(f"/websites/{website}"),
        _get("/assets/app.css"),
        _get("/tracker.js"),
        _get("/api/v1/openapi.yaml"),
        _get("/api/account/state"),
        _get("/api/v1/websites", key),
        _get(f"/api/v1/websites/{website}/stats", key).replace(b"GET", b"HEAD", 1),
        b"OPTIONS /api/collect HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.1\r\n"
        b"Origin: https://example.com\r\n"
        b"Access-Control-Request-Method: POST\r\n\r\n",
    ]
    return lambda n: made[n % len(made)]


def _hostile(website: str, key: str) -> Sequence[tuple[str, Callable[[int], bytes], tuple[int, ...]]]:
    page = {"type": "pageview", "website_id": website, "url": "https://example.com/"}
    bomb = gzip.compress(bytes(10_000_000))
    rng = random.Random(13)

    def random_client(*lines: str) -> str:
        # A new address each time: state per client must stay bounded.
        address = ".".join(str(rng.randrange(1, 255)) for _ in range(4))
        return "".join(f"{line}\r\n" for line in (f"X-Forwarded-For: {address}", *lines))

    def requests(body: object, *lines: str) -> Callable[[int], bytes]:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        return lambda n: post(random_client(*lines), sent)

    unknown = page | {"website_id": "00000000-0000-4000-8000-000000000000"}
    too_many = {"website_id": website, "events": [page] * 51}
    evil = "Origin: https://evil.example"
    login = {"email": "unknown@example.com", "password": "guessed"}
    as_json = ("Content-Type: application/json", "Sec-Fetch-Site: same-origin")
    many = (f"X-Many-{n}: 1" for n in range(200))
    huge = b"POST /api/collect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n"
    two_lengths = (
        b"POST /api/collect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"
    )
    many_headers = _get("/", "", *many)
    return (
        ("unknown path", lambda n: _get(f"/wp-login-{n}.php"), (404,)),
        ("wrong method", lambda n: _get("/api/collect").replace(b"GET", b"DELETE", 1), (405,)),
        ("too large", lambda n: post(random_client(), b"x" * 100_000), (413,)),
        ("large Content-Length", lambda n: huge, (413,)),
        ("invalid JSON", requests(b"{" * 500), (400,)),
        ("deep JSON", requests(b"[" * 30_000), (400,)),
        ("invalid UTF-8", requests(b'{"type": "\xff\xfe"}'), (400,)),
        ("no events", requests([]), (400,)),
        ("too many events", requests(too_many), (400,)),
        ("unknown website", requests(unknown), (404,)),
        ("random website", lambda n: requests(page | {"website_id": _uuid(rng)})(n), (404,)),
        ("foreign origin", requests(page, evil), (403,)),
        ("gzip bomb", requests(bomb, "Content-Encoding: gzip"), (415,)),
        ("old events", requests(page | {"timestamp": 1}), (400,)),
        ("wrong key", lambda n: _get(f"/api/v1/websites/{website}/stats", secrets.token_hex(16)), (401,)),
        ("bad query", lambda n: _get(f"/api/v1/websites/{website}/stats?from=x&filter_{n}=1", key), (400,)),
        ("100 years by hour", lambda n: _get(_by_the_hour(website), key), (400,)),
        ("guessed password", lambda n: _with_path(requests(login, *as_json)(n)), (401, 429)),
        ("path traversal", lambda n: _get("/assets/../../analytics.db"), (404,)),
        ("many headers", lambda n: many_headers, (400, 431, CLOSED)),
        ("not HTTP", lambda n: b"\x16\x03\x01" + rng.randbytes(300) + b"\r\n\r\n", (400, CLOSED)),
        ("two lengths", lambda n: two_lengths, (400, CLOSED)),
        ("aborted in the head", lambda n: b"POST /api/collect HTTP/1.1\r\nHost:", (CLOSED,)),
        ("aborted in the body", lambda n: post(random_client(), json.dumps(page).encode())[:-20], (CLOSED,)),
        ("aborted before the response", lambda n: _get(f"/api/v1/websites/{website}/top/pathname", key), (CLOSED,)),
    )  # fmt: skip


def _uuid(rng: random.Random) -> str:
    return f"{rng.getrandbits(32):08x}-0000-4000-8000-{rng.getrandbits(48):012x}"


def _by_the_hour(website: str) -> str:
    return f"/api/v1/websites/{website}/timeseries?from=1970-01-01&to=2070-01-01&interval=hour"


def _with_path(request: bytes) -> bytes:
    return request.replace(b"POST /api/collect", b"POST /api/account/login", 1)
