"""What the soak sends: a website's usual traffic, its owner's questions, and one request in twenty that is hostile.

Each `Kind` gives the bytes of its n-th request and says which answers are right; whatever else comes back is counted as
wrong. Hostile requests come on connections of their own, from addresses of their own: some are refused by their path,
method, size, form, key or origin, some are no HTTP at all, some are given up half-way.
"""

import gzip
import json
import random
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

from questions import Question, quick, unfiltered
from sending import EVENTS_A_BATCH, Words, batches, post, single
from traffic import LARGE_BROWSER, SMALL_BROWSER

COLLECT, READ, HOSTILE = "collect", "read", "hostile"
# As many visitors as are alive at once on a site with 200 events a second.
VISITORS = 5_000
# One single event in so many has an event_id.
_WITH_ID = 3
CLOSED = 0
"""The status of a connection that was closed without an answer."""


class Kind(NamedTuple):
    """Requests of one kind: so many a second; `right`: the statuses that may come back. `events`: how many events one
    brings. `gives_up`: the client goes away without waiting."""

    name: str
    group: str
    per_second: float
    make: Callable[[int], bytes]
    right: tuple[int, ...]
    events: int = 0
    gives_up: bool = False


def kinds(website: str, key: str, rate: float) -> list[Kind]:
    """All of them; `rate`: how many requests a second they are together."""
    hostile = _hostile(website, key)
    share = rate / 100
    usual = [
        Kind("single events", COLLECT, 70 * share, _singles(website), (202,), 1),
        Kind("batches", COLLECT, 4 * share, batches(website, VISITORS), (202,), EVENTS_A_BATCH),
        Kind("questions", READ, 14 * share, _questions(website, key), (200,)),
        Kind("pages", READ, 7 * share, _pages(website, key), (200, 204)),
    ]
    return usual + [
        Kind(name, HOSTILE, 5 * share / len(hostile), make, right, 0, name.startswith("given up"))
        for name, make, right in hostile
    ]


def _singles(website: str) -> Callable[[int], bytes]:
    """Single events, made as they are sent: no two are the same, and new paths come up as on a real site."""
    words, draw = Words(11, VISITORS), random.Random(11)

    def make(n: int) -> bytes:
        event = words.event()
        if n % _WITH_ID == 0:
            event["event_id"] = secrets.token_hex(8)
        if draw.random() < 0.01:
            event["url"] += f"/{n}"
        if draw.random() < 0.05:
            event = event | {"type": "vitals", "vitals": {"lcp": draw.randrange(200, 5_000)}}
            event.pop("event_name", None)
            event.pop("event_data", None)
        return single(words, website, event)

    return make


def _get(path: str, key: str = "", *lines: str) -> bytes:
    bearer = [f"Authorization: Bearer {key}"] if key else []
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *bearer, *lines, "", ""]).encode()


def _questions(website: str, key: str) -> Callable[[int], bytes]:
    """What a dashboard asks, over 7 and 30 days, filtered and not, paged, as CSV, in turn."""
    base = [*unfiltered((7, 30)), *quick(), *quick(), *quick()]
    for browser in (SMALL_BROWSER, LARGE_BROWSER):
        base += [Question("", 7, "", f"{what}filter_browser={browser}") for what in ("stats?", "top/pathname?")]
    base += [
        Question("", 7, "", path) for path in ("top/pathname?format=csv", "events?limit=50", "stats?compare=previous")
    ]
    random.Random(5).shuffle(base)
    return lambda n: _get(base[n % len(base)].url(website), key)


def _pages(website: str, key: str) -> Callable[[int], bytes]:
    """What machines and browsers ask besides."""
    made = [
        _get("/healthz"),
        _get("/metrics"),
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
    draw = random.Random(13)

    def from_anywhere(*lines: str) -> str:
        # Another address each time: what is kept of clients has to stay bounded.
        address = ".".join(str(draw.randrange(1, 255)) for _ in range(4))
        return "".join(f"{line}\r\n" for line in (f"X-Forwarded-For: {address}", *lines))

    def sends(body: object, *lines: str) -> Callable[[int], bytes]:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        return lambda n: post(from_anywhere(*lines), sent)

    unknown = page | {"website_id": "00000000-0000-4000-8000-000000000000"}
    too_many = {"website_id": website, "events": [page] * 51}
    evil = "Origin: https://evil.example"
    login = {"email": "stranger@example.com", "password": "guessed"}
    as_json = ("Content-Type: application/json", "Sec-Fetch-Site: same-origin")
    many = (f"X-Many-{n}: 1" for n in range(200))
    huge = b"POST /api/collect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n"
    two_lengths = (
        b"POST /api/collect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"
    )
    crowd = _get("/", "", *many)
    return (
        ("no such path", lambda n: _get(f"/wp-login-{n}.php"), (404,)),
        ("no such method", lambda n: _get("/api/collect").replace(b"GET", b"DELETE", 1), (405,)),
        ("too large", lambda n: post(from_anywhere(), b"x" * 100_000), (413,)),
        ("announced as huge", lambda n: huge, (413,)),
        ("no JSON", sends(b"{" * 500), (400,)),
        ("deep JSON", sends(b"[" * 30_000), (400,)),
        ("no UTF-8", sends(b'{"type": "\xff\xfe"}'), (400,)),
        ("no events", sends([]), (400,)),
        ("too many events", sends(too_many), (400,)),
        ("unknown website", sends(unknown), (404,)),
        ("random website", lambda n: sends(page | {"website_id": _uuid(draw)})(n), (404,)),
        ("another's origin", sends(page, evil), (403,)),
        ("a bomb", sends(bomb, "Content-Encoding: gzip"), (415,)),
        ("old events", sends(page | {"timestamp": 1}), (400,)),
        ("wrong key", lambda n: _get(f"/api/v1/websites/{website}/stats", secrets.token_hex(16)), (401,)),
        ("bad question", lambda n: _get(f"/api/v1/websites/{website}/stats?from=x&filter_{n}=1", key), (400,)),
        ("100 years by the hour", lambda n: _get(_by_the_hour(website), key), (400,)),
        ("guessed password", lambda n: _with_path(sends(login, *as_json)(n)), (401, 429)),
        ("walks the folders", lambda n: _get("/assets/../../analytics.db"), (404,)),
        ("many headers", lambda n: crowd, (400, 431, CLOSED)),
        ("no HTTP", lambda n: b"\x16\x03\x01" + draw.randbytes(300) + b"\r\n\r\n", (400, CLOSED)),
        ("two lengths", lambda n: two_lengths, (400, CLOSED)),
        ("given up in the head", lambda n: b"POST /api/collect HTTP/1.1\r\nHost:", (CLOSED,)),
        ("given up in the body", lambda n: post(from_anywhere(), json.dumps(page).encode())[:-20], (CLOSED,)),
        ("given up before the answer", lambda n: _get(f"/api/v1/websites/{website}/top/pathname", key), (CLOSED,)),
    )  # fmt: skip


def _uuid(draw: random.Random) -> str:
    return f"{draw.getrandbits(32):08x}-0000-4000-8000-{draw.getrandbits(48):012x}"


def _by_the_hour(website: str) -> str:
    return f"/api/v1/websites/{website}/timeseries?from=1970-01-01&to=2070-01-01&interval=hour"


def _with_path(request: bytes) -> bytes:
    return request.replace(b"POST /api/collect", b"POST /api/account/login", 1)
