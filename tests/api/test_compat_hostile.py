"""Hostile bodies for all endpoints of other systems' formats: any answer but a 500, and a server that still works."""

import itertools
import json
import random
import tracemalloc
from typing import Any
from urllib.parse import quote

import pytest

from tally.ingest.collector import COLLECTOR
from tally.ingest.compat.formats import FORMATS
from tally.ingest.compat.requests import scalars
from tests.support.app import App
from tests.support.compat import stored, website_of
from tests.support.selection import examples

LONE, DEEP = '"\\ud800"', "[" * 2_000 + "]" * 2_000
# Values in the places of others; the texts are among those that parsers differ on.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**63, 2**64 - 1, -(2**63), 0.5, -0.0, 1e308, -1e308, "", " ", "\0", "x" * 3_000),
    *("\u202e\ufffe\U0010ffff", "%00%ff%", "https://", "https://[", "https://[::1]:99999/", "http://a b/", "data:,x"),
    *(
        "//",
        "?",
        "#",
        "..",
        "a.b.c",
        "1.2.3.4",
        "[::1]",
        ",,,,",
        "a," * 2_000,
        "." * 500,
        "-",
        "nan",
        "1e999",
        "\u0661",
    ),
    *([], [[]], {}, {"": {"": [{}]}}, [1] * 100, {"a": None}, {"amount": {}}, {"currency": []}),
    *("https://example.com/?" + "a=1&" * 1_500, "https://example.com/#" + "#?/" * 1_000, "pageview", "engagement"),
)
NAMES = {
    "/api/event": ("n u d r p props m meta h hashMode i $ revenue v sd e name url domain referrer w", None),
    "/api/send": ("type payload", "payload"),
    "/api/batch": ("type payload", "payload"),
    "/api/v0/count": ("hits no_sessions filter", "hits"),
    "/count": ("p t r e q s b ns rnd", None),
}
INNER = (
    *("website", "link", "pixel", "hostname", "url", "referrer", "title", "language", "screen", "tag", "name", "data"),
    *("id", "timestamp", "ip", "userAgent", "browser", "os", "device", "lcp", "inp", "cls", "fcp", "ttfb", "path"),
    *("event", "ref", "size", "query", "bot", "user_agent", "location", "session", "created_at"),
)
VALID: dict[str, Any] = {
    "/api/event": {"n": "Signup", "u": "https://example.com/", "d": "example.com", "p": {"a": 1}},
    "/api/send": {
        "website": "example.com",
        "url": "/",
        "name": "x",
        "data": {"a": {"b": 1}},
        "hostname": "example.com",
    },
    "/api/v0/count": {"path": "/", "ip": "192.0.2.1"},
}
VALID["/api/batch"] = VALID["/api/send"]
TEXTS = (
    "",
    "null",
    "0",
    '""',
    "[]",
    "{}",
    "[[]]",
    "[null]",
    LONE,
    "\ufeff{}",
    DEEP,
    '{"a":' * 1_500 + "1" + "}" * 1_500,
)
TEXTS += ('{"events":[],"website_id":1}', '{"events":"website_id"}', '{"website_id":"","events":[{}]}', "1e999", "NaN")


def bodies(path: str) -> list[bytes]:
    """Return every value in every place of a valid body, and random bodies, the same in each run."""
    rng = random.Random(18)
    made = [text.encode("utf-8", "surrogatepass") for text in TEXTS] + [
        b"\xef\xbb\xbf" + json.dumps(_wrapped(path, VALID.get(path, {}))).encode(),
        b"\xff\xfe",
        b"\0" * 100,
        b'{"n":"\xed\xa0\x80"}',
    ]
    outer, inner = NAMES[path]
    for name, value in itertools.product(INNER if inner else outer.split(), VALUES):
        made.append(json.dumps(_wrapped(path, VALID.get(path, {}) | {name: value})).encode())
    for name, value in itertools.product(outer.split(), VALUES):
        whole = _wrapped(path, VALID.get(path, {}))
        made.append(json.dumps((whole[0] if isinstance(whole, list) else whole) | {name: value}).encode())
    for _ in range(100):
        names = rng.sample([*INNER, *outer.split()], 6)
        made.append(json.dumps(_wrapped(path, {name: rng.choice(VALUES) for name in names})).encode())
    for _ in range(100):
        whole = bytearray(json.dumps(_wrapped(path, VALID.get(path, {}))).encode())
        whole[rng.randrange(len(whole))] = rng.randrange(256)
        made.append(bytes(whole))
    return made


def _wrapped(path: str, value: dict[str, Any]) -> Any:
    if path == "/api/v0/count":
        return {"hits": [value]}
    if path in ("/api/send", "/api/batch"):
        body = {"type": "event", "payload": value}
        return [body] if path == "/api/batch" else body
    return value


def queries() -> list[str]:
    """Return query strings for /count: every value in every place, escaped or raw."""
    texts = [value for value in VALUES if isinstance(value, str)]
    pairs = itertools.product(NAMES["/count"][0].split(), texts)
    made = [f"p=/x&{name}={quote(text, safe='')[:7_000]}" for name, text in pairs]
    return [*made, "p=%ff%fe", "p=/&q=%ff&r=%ed%a0%80", "p&p&p", "=&=", "p=/&" + "&".join(["a=b"] * 1_000)]


@pytest.mark.random_examples
async def test_no_body_gives_a_500(app: App) -> None:
    website = await website_of(app)
    assert NAMES.keys() == {form.path for form in FORMATS} - {"/count/{website}"}
    client = 0
    for path in NAMES.keys() - {"/count"}:
        statuses = set()
        # One of ten by default.
        for body in bodies(path)[:: examples(1, default=10)]:
            client += 1
            headers = {"X-Forwarded-For": f"10.{client >> 16}.{client >> 8 & 255}.{client & 255}, 203.0.113.9"}
            headers |= {"Authorization": "Bearer example.com"} if path == "/api/v0/count" else {}
            app.clock.advance(1)
            answer = await app.collect(body, path=path, headers=headers)
            statuses.add(answer.status)
            assert answer.status < 500, (path, body[:500])
        assert statuses & {200, 202}, "nothing was accepted: the bodies test less than they should"
        assert 400 in statuses
    assert await stored(app, website)


async def test_keys_that_are_repeated_by_many_values(app: App) -> None:
    """60 KB of nested data would be 90 MB with joined keys."""
    website = await website_of(app)
    inner = {"k" * 25_000: {f"{n:x}": 1 for n in range(3_000)}, "l" * 5_000: {f"{n:x}": {} for n in range(300)}}
    tracemalloc.start()
    try:
        assert scalars(inner) == inner
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    body = {"type": "event", "payload": VALID["/api/send"] | {"website": website, "data": inner}}
    assert (await app.collect(body, path="/api/send")).json["errors"][0]["code"] == "invalid_event_data"


async def test_user_agents_of_invalid_events_are_not_parsed(app: App) -> None:
    """A request without a valid event takes no token, and a new User-Agent takes longer than all other checks."""
    website = await website_of(app)
    agents = [f"Mozilla/5.0 (X11; Linux x86_64; rv:{n}.0) Gecko/20100101 Firefox/{n}.0" for n in range(50)]
    known = [{"website": website, "url": 7, "userAgent": agent} for agent in agents]
    parsed = app.application[COLLECTOR].agents._cached.cache_info
    for path, body in (
        ("/api/batch", [{"type": "event", "payload": payload} for payload in known]),
        ("/api/v0/count", {"hits": [{"path": "", "user_agent": agent} for agent in agents]}),
    ):
        before = parsed().misses
        await app.collect(body, path=path, headers={"Authorization": "Bearer example.com"})
        assert parsed().misses - before <= 1


async def test_no_query_gives_a_500(app: App) -> None:
    await website_of(app)
    statuses = set()
    for query in queries():
        app.clock.advance(1)
        answer = await app.collect(b"", path=f"/count?{query}", headers={"Origin": "https://example.com"})
        statuses.add(answer.status)
        assert answer.status < 500, query[:500]
    assert {200, 400} <= statuses


async def test_no_website_in_the_path_gives_a_500(app: App) -> None:
    await website_of(app)
    for value in VALUES:
        if isinstance(value, str) and value not in ("", "..") and "\0" not in value:
            answer = await app.collect(b"", path=f"/count/{quote(value, safe='')}?p=/x", headers={})
            assert answer.status < 500, value[:200]


async def test_a_website_is_read_once(app: App) -> None:
    """A host that is not ASCII takes 0.3 ms, and a request for an unknown website takes no token."""
    await website_of(app)
    hosts = app.application[COLLECTOR]._host_of.cache_info
    for n, host in enumerate(("\u00e9" * 40 + ".test", "\u00e9" * 40 + ".\u2010", "x" * 60_000), 1):
        read = hosts().misses
        body = [{"type": "event", "payload": {"website": host, "url": "/"}}] * (1 if n == 3 else 50)
        assert (await app.collect(body, path="/api/batch", headers={})).status < 500
        assert hosts().misses - read == (n < 3)
