"""POST /api/collect: requests, the order of checks, origins, duplicates, durability.

Fields are in test_collect_fields.py; rate limits, months and body sizes in test_collect_limits.py. The rules are in
docs/reference/collect-api.md.
"""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from tally.storage.database import open_database
from tests.support.app import CHROME, GOOGLEBOT, NOON_MS, SAFARI_IPHONE, Answer, App, MakeApp

UNKNOWN = "00000000-0000-4000-8000-000000000000"
PATHS = ("/api/collect", "/api/v1/collect")
HOUR_S = 3_600


def view(website: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a valid pageview."""
    website_field = {} if website is None else {"website_id": website}
    return {"type": "pageview", "url": "https://example.com/", **website_field, **more}


def batch(website: str | None, events: list[Any], **more: Any) -> dict[str, Any]:
    website_field = {} if website is None else {"website_id": website}
    return {**website_field, "events": events, **more}


def refusal(answer: Answer) -> tuple[int, str]:
    """Return status and code of an error response, after checking its shape."""
    assert answer.json["ok"] is False, answer.text
    assert set(answer.json) <= {"ok", "error", "errors"}
    assert {"code", "message"} <= set(answer.json["error"]) <= {"code", "message", "field"}
    assert answer.json["error"]["message"].endswith(".")
    assert answer.headers["Content-Type"].startswith("application/json")
    return answer.status, answer.json["error"]["code"]


def outcome(answer: Answer) -> tuple[int, str]:
    """Return the result of `refusal`, or (202, "") for a success."""
    return (202, "") if answer.status == 202 else refusal(answer)


def faults(answer: Answer) -> list[tuple[int, str]]:
    """Return index and code of each rejected event."""
    for error in answer.json.get("errors", []):
        assert set(error) in ({"index", "code", "message"}, {"index", "code", "message", "field"})
        assert error["message"].endswith(".")
    return [(error["index"], error["code"]) for error in answer.json.get("errors", [])]


def stored(app: App) -> int:
    """Return the number of stored traffic events."""
    return int(app.sql("select count(*) from event")[0][0])


async def figures(app: App, website: str, key: str, **params: str) -> dict[str, Any]:
    answer = await app.get(f"/api/v1/websites/{website}/stats", key, params)
    assert answer.status == 200, answer.text
    data: dict[str, Any] = answer.json["data"]
    return data


# ---------------------------------------------------------------- the endpoint


@pytest.mark.parametrize("path", PATHS)
async def test_a_pageview(app: App, path: str) -> None:
    """POST /api/collect, alias /api/v1/collect: 202 with ok, accepted, rejected."""
    website = await app.website()
    answer = await app.collect(view(website), path=path)
    assert answer.status == 202
    assert answer.json == {"ok": True, "accepted": 1, "rejected": 0}
    assert answer.headers["Content-Type"].startswith("application/json")
    assert stored(app) == 1
    for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD"):
        refused = await app.collect(b"", path=path, method=method)
        assert refused.status == 405
        assert {"POST", "OPTIONS"} <= {m.strip() for m in refused.headers["Allow"].split(",")}
        assert refused.headers["Access-Control-Allow-Origin"] == "*"
        if method != "HEAD":
            assert refusal(refused)[0] == 405
    assert refusal(await app.collect(view(website), path=path + "s")) == (404, "not_found")


async def test_content_types(app: App) -> None:
    """The body is read as JSON whatever the Content-Type; browsers send text/plain."""
    website = await app.website()
    types = [
        "application/json",
        "application/json; charset=utf-8",
        "text/plain",
        "text/plain;charset=UTF-8",
        "TEXT/PLAIN",
        "text/plain; charset=utf-16",
        "text/plain; charset=nope",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "application/octet-stream",
        "image/png",
        "nonsense",
        "",
    ]
    body = view(website, name="caf\u00e9 \U0001f600")
    answers = {kind: (await app.collect(body, headers={"Content-Type": kind})).status for kind in types}
    assert answers == dict.fromkeys(types, 202)
    async with app.client.post(
        PATHS[0],
        data=b'{"type": "app_event", "website_id": "%s"}' % website.encode(),
        skip_auto_headers=["Content-Type"],
    ) as response:
        assert response.status == 202


async def test_batches(app: App) -> None:
    """Batch form: website_id, optional context, events. The website_id of an event takes precedence."""
    website, other_website = await app.website(), await app.website("example.org")
    key = await app.key()
    bodies = [
        batch(website, [view(), view()]),
        batch(None, [view(website), view(other_website)]),
        batch(other_website, [view(website), view(), view(None, website_id=None)]),
        batch(UNKNOWN, [view(website), view(other_website.upper())]),
        batch("nonsense", [view(website)]),
        batch(5, [view(other_website)]),
        batch(website, [view()] * 50),
        batch(website, [view()], context=None),
        batch(website, [view()], context={}, unheard_of=[1]),
        {**view(UNKNOWN), "events": [view(website)]},
    ]
    for body in bodies:
        answer = await app.collect(body)
        assert answer.json == {"ok": True, "accepted": len(body["events"]), "rejected": 0}
    counts = [(await figures(app, website, key))["pageviews"] for website in (website, other_website)]
    assert counts == [2 + 1 + 1 + 1 + 1 + 50 + 1 + 1 + 1, 1 + 2 + 1 + 1]


BAD_BODIES: dict[str, tuple[bytes | str, str]] = {
    "empty": (b"", "invalid_json"),
    "blank": (b" ", "invalid_json"),
    "cut": (b'{"type": "pageview"', "invalid_json"),
    "form": (b"type=pageview", "invalid_json"),
    "nan": (b'{"value": NaN}', "invalid_json"),
    "surrogate": (b'{"name": "\xed\xa0\x80"}', "invalid_json"),
    "bad-utf-8": (b'{"name": "\xff"}', "invalid_json"),
    "utf-16": ('{"type": "app_event"}'.encode("utf-16"), "invalid_json"),
    "bom": (b"\xef\xbb\xbf", "invalid_json"),
    "deep": (b"[" * 32_000 + b"]" * 32_000, "invalid_json"),
    "number": (b"5", "invalid_body"),
    "null": (b"null", "invalid_body"),
    "text": (b'"x"', "invalid_body"),
    "array": (b"[]", "invalid_body"),
    "events-empty": (b'{"events": []}', "invalid_body"),
    "events-null": (b'{"events": null}', "invalid_body"),
    "events-object": (b'{"events": {}}', "invalid_body"),
    "context-array": (b'{"events": [{}], "context": []}', "invalid_body"),
    "context-text": (b'{"events": [{}], "context": "x"}', "invalid_body"),
}


async def test_bad_bodies(app: App) -> None:
    """Check 3: 400 invalid_json or invalid_body; nothing is stored, and the next request is accepted."""
    website = await app.website()
    answers = {name: refusal(await app.collect(body)) for name, (body, _) in BAD_BODIES.items()}
    assert answers == {name: (400, code) for name, (_, code) in BAD_BODIES.items()}
    assert stored(app) == 0
    assert (await app.collect(view(website))).status == 202


async def test_at_most_50_events(app: App) -> None:
    """50 events per request; more: 400 too_many_events. Nothing is stored."""
    website = await app.website()
    assert refusal(await app.collect(batch(website, [view()] * 51))) == (400, "too_many_events")
    assert stored(app) == 0
    assert (await app.collect(batch(website, [view()] * 50))).json["accepted"] == 50


# ---------------------------------------------------------------- checks 4 and 7: websites and rejected events


async def test_unknown_websites(app: App) -> None:
    """Check 4: 404 if a well-formed website_id was sent and none is known. A missing or malformed one is an error of
    its event."""
    website = await app.website()
    without_hyphens = website.replace("-", "")
    bodies: dict[str, tuple[Any, tuple[int, str]]] = {
        "unknown": (view(UNKNOWN), (404, "unknown_website")),
        "unknown-upper": (view("ABCDEF00-0000-4000-8000-000000000000"), (404, "unknown_website")),
        "all-unknown": (batch(UNKNOWN, [view(), view()]), (404, "unknown_website")),
        "unknown-and-malformed": (batch(None, [view(UNKNOWN), view("x")]), (404, "unknown_website")),
        "unknown-and-missing": (batch(None, [view(UNKNOWN), view()]), (404, "unknown_website")),
        "unknown-for-no-object": (batch(UNKNOWN, [5, view("x")]), (404, "unknown_website")),
        "missing": (view(), (400, "no_valid_event")),
        "null": (view(None, website_id=None), (400, "no_valid_event")),
        "empty": (view(""), (400, "no_valid_event")),
        "malformed": (view("x"), (400, "no_valid_event")),
        "number": (view(None, website_id=5), (400, "no_valid_event")),
        "bare": (view(without_hyphens), (400, "no_valid_event")),
        "braces": (view(f"{{{website}}}"), (400, "no_valid_event")),
        "urn": (view(f"urn:uuid:{website}"), (400, "no_valid_event")),
        "blank": (view(f"{website} "), (400, "no_valid_event")),
        "newline": (view(f"{website}\n"), (400, "no_valid_event")),
        "nul": (view(f"{website}\0"), (400, "no_valid_event")),
        "unused-unknown": (batch(UNKNOWN, [view("x")]), (400, "no_valid_event")),
        "empty-object": ({}, (400, "no_valid_event")),
        "upper-case": (view(website.upper()), (202, "")),
    }
    answers = {name: outcome(await app.collect(body)) for name, (body, _) in bodies.items()}
    assert answers == {name: expected for name, (_, expected) in bodies.items()}


async def test_rejected_events(app: App) -> None:
    """Invalid events are rejected with a code each and listed in `errors`; the others of the batch are accepted."""
    website = await app.website()
    items: list[tuple[Any, str]] = [
        (view(), ""),
        (5, "invalid_type"),
        (None, "invalid_type"),
        ("x", "invalid_type"),
        ([], "invalid_type"),
        ({}, "invalid_type"),
        ({"type": "click"}, "invalid_type"),
        (view("x"), "invalid_website_id"),
        (view(""), "missing_field"),
        (view(UNKNOWN), "unknown_website"),
        ({"type": "pageview"}, "missing_field"),
        (view(url="x"), "invalid_url"),
        (view(session_id="short"), "invalid_field"),
        ({"type": "event", "event_name": "x", "event_data": []}, "invalid_event_data"),
        ({"type": "event", "event_name": "x", "event_data": {"a": "x" * 4_096}}, "event_data_too_large"),
        (view(timestamp=0), "timestamp_too_old"),
        (view(timestamp=app.clock.wall_ms() + 300_001), "timestamp_in_future"),
        ({"type": "ab_convert", "experiment": "x"}, "no_assignment"),
        (view(), ""),
    ]
    answer = await app.collect(batch(website, [item for item, _ in items]))
    assert answer.status == 202
    assert faults(answer) == [(n, code) for n, (_, code) in enumerate(items) if code]
    assert (answer.json["ok"], answer.json["accepted"], answer.json["rejected"]) == (True, 2, len(items) - 2)
    assert stored(app) == 2
    field_of_event = {error["index"]: error.get("field") for error in answer.json["errors"]}
    assert {n: field_of_event[n] for n in (6, 7, 8, 10, 11, 12, 13, 14, 15, 16)} == {
        6: "type",
        7: "website_id",
        8: "website_id",
        10: "url",
        11: "url",
        12: "session_id",
        13: "event_data",
        14: "event_data",
        15: "timestamp",
        16: "timestamp",
    }


async def test_no_valid_event(app: App) -> None:
    """Check 7: no valid event: 400 no_valid_event, with the `errors`; the index of a single event is 0."""
    website = await app.website()
    single = await app.collect({"type": "pageview", "website_id": website})
    assert refusal(single) == (400, "no_valid_event")
    assert faults(single) == [(0, "missing_field")]
    assert single.json["errors"][0]["field"] == "url"
    many = await app.collect(batch(website, [5] * 50))
    assert refusal(many) == (400, "no_valid_event")
    assert faults(many) == [(n, "invalid_type") for n in range(50)]
    assert stored(app) == 0


async def test_the_first_fault_of_an_event(app: App) -> None:
    """Each event has one error: of the type, the website_id, missing fields, values of fields, then the timestamp."""
    website = await app.website("example.org")
    other = await app.website()
    items = [
        {"type": "x", "website_id": "x"},
        {"type": "pageview", "website_id": "x", "platform": 5},
        {"type": "pageview", "website_id": UNKNOWN},
        {"type": "pageview", "website_id": website, "platform": 5},
        {"type": "pageview", "website_id": other, "platform": 5},
        {"type": "pageview", "website_id": other, "url": "x", "timestamp": 0},
    ]
    answer = await app.collect({"events": [*items, view(other)]}, headers={"Origin": "https://example.com"})
    assert faults(answer) == [
        (0, "invalid_type"),
        (1, "invalid_website_id"),
        (2, "unknown_website"),
        (3, "origin_not_allowed"),
        (4, "missing_field"),
        (5, "invalid_url"),
    ]


# ---------------------------------------------------------------- check 5: origins

SAME = "https://example.com"
ORIGINS: dict[str, tuple[dict[str, str], bool]] = {
    "app": ({}, True),
    "domain": ({"Origin": SAME}, True),
    "http": ({"Origin": "http://example.com"}, True),
    "port": ({"Origin": "https://example.com:8443"}, True),
    "subdomain": ({"Origin": "https://a.b.example.com"}, True),
    "www": ({"Origin": "https://www.example.com"}, True),
    "upper-case": ({"Origin": "https://EXAMPLE.com"}, True),
    "other": ({"Origin": "https://example.org"}, False),
    "suffix": ({"Origin": "https://evilexample.com"}, False),
    "prefix": ({"Origin": "https://example.com.evil.org"}, False),
    "userinfo": ({"Origin": "https://example.com@evil.org"}, False),
    "parent": ({"Origin": "https://com"}, False),
    "null": ({"Origin": "null"}, False),
    "null-with-referer": ({"Origin": "null", "Referer": SAME + "/"}, False),
    "empty": ({"Origin": ""}, False),
    "nonsense": ({"Origin": "example.com"}, False),
    "extra": ({"Origin": "capacitor://localhost"}, True),
    "extra-http": ({"Origin": "http://localhost:3000"}, True),
    "extra-other-port": ({"Origin": "http://localhost:3001"}, False),
    "extra-other-scheme": ({"Origin": "https://localhost:3000"}, False),
    "extra-as-referer": ({"Referer": "http://localhost:3000/page"}, True),
    "extra-subdomain": ({"Origin": "capacitor://a.localhost"}, False),
    "origin-decides": ({"Origin": "https://example.org", "Referer": SAME + "/"}, False),
    "origin-decides-for": ({"Origin": SAME, "Referer": "https://example.org/"}, True),
    "referer": ({"Referer": "https://www.example.com/page?q=1"}, True),
    "referer-other": ({"Referer": "https://example.org/example.com"}, False),
    "referer-nonsense": ({"Referer": "about:blank"}, False),
    "fetch-site-alone": ({"Sec-Fetch-Site": "same-origin"}, False),
    "fetch-site-none": ({"Sec-Fetch-Site": "none"}, False),
    "fetch-site-with-origin": ({"Sec-Fetch-Site": "cross-site", "Origin": SAME}, True),
    "fetch-site-with-referer": ({"Sec-Fetch-Site": "same-site", "Referer": SAME + "/"}, True),
    "fetch-mode-is-none-of-the-three": ({"Sec-Fetch-Mode": "cors"}, True),
}


async def test_origins(app: App) -> None:
    """A web request has an Origin, a Referer or a Sec-Fetch-Site. The Origin, or else the Referer, must be the
    registered domain, a subdomain of it, or an allowed origin; otherwise 403."""
    website = await app.website(allow_origins=("capacitor://localhost", "http://localhost:3000"))
    answers = {name: outcome(await app.collect(view(website), headers=sent)) for name, (sent, _) in ORIGINS.items()}
    assert answers == {name: (202, "") if ok else (403, "origin_not_allowed") for name, (_, ok) in ORIGINS.items()}
    assert stored(app) == sum(ok for _, ok in ORIGINS.values())


async def test_origins_of_a_batch(app: App) -> None:
    """Check 5: 403 if all known websites of the batch refuse the origin; otherwise events of those that refuse it are
    rejected. The website of one event does not permit another."""
    website, other_website = await app.website(), await app.website("example.org")
    mixed = await app.collect(
        batch(other_website, [view(website), view(other_website), view(website), view(None)]), headers={"Origin": SAME}
    )
    assert (mixed.status, mixed.json["accepted"]) == (202, 2)
    assert faults(mixed) == [(1, "origin_not_allowed"), (3, "origin_not_allowed")]
    refused = {
        "one": batch(other_website, [view()]),
        "with-unknown": batch(None, [view(other_website), view(UNKNOWN)]),
        "with-malformed": batch(None, [view(other_website), view("x")]),
        "with-no-object": batch(other_website, [5, view()]),
    }
    answers = {name: refusal(await app.collect(body, headers={"Origin": SAME})) for name, body in refused.items()}
    assert answers == dict.fromkeys(refused, (403, "origin_not_allowed"))
    none_left = await app.collect(batch(None, [view(other_website), view(website, url="x")]), headers={"Origin": SAME})
    assert refusal(none_left) == (400, "no_valid_event")
    assert faults(none_left) == [(0, "origin_not_allowed"), (1, "invalid_url")]
    # Without a known website no origin is refused.
    assert refusal(await app.collect(view("x"), headers={"Origin": SAME})) == (400, "no_valid_event")
    assert stored(app) == 2


# ---------------------------------------------------------------- CORS


async def test_every_response_has_cors_headers(make_app: MakeApp) -> None:
    """Every response, errors included, has Access-Control-Allow-Origin: * and exposes Retry-After."""
    app = await make_app(client_per_minute=4, website_per_minute=3, free_events=2)
    website, full = await app.website(), await app.website(account="free@example.com", plan="free")
    web = {"Origin": SAME}
    gzip = web | {"Content-Encoding": "gzip"}
    sent: list[tuple[Awaitable[Answer], int]] = [
        (app.collect(view(website), headers=web), 202),
        (app.collect(b"{", headers=web), 400),
        (app.collect(b"[]", headers=web), 400),
        (app.collect(batch(website, [5]), headers=web), 400),
        (app.collect(view(website), headers={"Origin": "https://example.org"}), 403),
        (app.collect(view(UNKNOWN), headers=web), 404),
        (app.collect(b"", method="PUT", headers=web), 405),
        (app.collect(b" " * 65_537, headers=web), 413),
        (app.collect(b"x", headers=gzip), 415),
        (app.collect(b"", method="OPTIONS", headers=web), 204),
        (app.collect(view(website), headers=web), 202),
        (app.collect(view(website), headers=web), 202),
        (app.collect(view(website), headers=web), 429),
        (app.collect(batch(full, [view()] * 2), headers=web, ip="203.0.113.8"), 202),
        (app.collect(view(full), headers=web, ip="203.0.113.8"), 429),
    ]
    for answering, status in sent:
        answer = await answering
        assert answer.status == status, answer.text
        assert answer.headers.getall("Access-Control-Allow-Origin") == ["*"]  # type: ignore[attr-defined]
        exposed = {name.strip().lower() for name in answer.headers["Access-Control-Expose-Headers"].split(",")}
        assert "retry-after" in exposed
        assert "Access-Control-Allow-Credentials" not in answer.headers
        assert ("Retry-After" in answer.headers) == (status == 429)


@pytest.mark.parametrize("path", PATHS)
async def test_preflight(make_app: MakeApp, path: str) -> None:
    """OPTIONS answers a preflight and takes no token."""
    app = await make_app(client_per_minute=1)
    website = await app.website()
    preflight_headers = {
        "Origin": "https://example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    for round_ in range(2):
        for _ in range(5):
            answer = await app.collect(b"", method="OPTIONS", headers=preflight_headers, path=path)
            assert answer.status in (200, 204)
            assert "POST" in answer.headers["Access-Control-Allow-Methods"]
            assert "content-type" in answer.headers["Access-Control-Allow-Headers"].lower()
        # Preflights take no token: after five of them the only token is left, and five more are answered without one.
        assert (await app.collect(view(website), path=path)).status == (429 if round_ else 202)


# What error and trace agents add to every request of a page; the last three are answered with the default.
ASKED_HEADERS = {
    **{
        asked: asked
        for asked in (
            "baggage,content-type,sentry-trace",
            "content-type, traceparent, tracestate, x-datadog-trace-id",
            "x-requested-with",
            ",".join(f"x-{n}" for n in range(64)),
        )
    },
    ",".join(f"x-{n}" for n in range(65)): "Content-Type",
    "a" * 65: "Content-Type",
    "x y": "Content-Type",
}


@pytest.mark.parametrize("path", [*PATHS, "/api/send", "/api/batch", "/api/event", "/count", "/api/v0/count"])
async def test_preflights_allow_the_headers_that_they_ask_for(app: App, path: str) -> None:
    """No request of a page is lost for headers that other scripts add."""
    for asked, allowed in ASKED_HEADERS.items():
        headers = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
        headers["Access-Control-Request-Headers"] = asked
        answer = await app.collect(b"", method="OPTIONS", headers=headers, path=path)
        assert (answer.status, answer.headers["Access-Control-Allow-Headers"]) == (204, allowed)
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in answer.headers


# ---------------------------------------------------------------- the order of checks

BIG = b'{"type": "pageview"' + b" " * 65_536


async def test_the_rate_limit_is_checked_first(make_app: MakeApp) -> None:
    """Check 1 comes before all others: a client over its rate limit gets 429 for any body."""
    app = await make_app(client_per_minute=1)
    website = await app.website()
    assert (await app.collect(view(website))).status == 202
    bad: list[tuple[Any, dict[str, str]]] = [
        (BIG, {}),
        (b"x", {"Content-Encoding": "gzip"}),
        (b"{", {}),
        (b"[]", {}),
        (batch(website, [view()] * 51), {}),
        (view(UNKNOWN), {}),
        (view(website), {"Origin": "https://example.org"}),
        (batch(website, [5]), {}),
        (view(website), {}),
    ]
    for body, headers in bad:
        answer = await app.collect(body, headers=headers)
        assert refusal(answer) == (429, "rate_limited")
        assert answer.headers["Retry-After"] == "60"


async def test_the_order_of_checks(make_app: MakeApp) -> None:
    """Each request here fails two checks; the first of them is answered."""
    app = await make_app(website_per_minute=2, free_events=2)
    website, full = await app.website(), await app.website(account="free@example.com", plan="free")
    assert (await app.collect(batch(full, [view(), view()]))).status == 202
    for _ in range(2):
        assert (await app.collect(view(website))).status == 202
    foreign, gzip = {"Origin": "https://example.org"}, {"Content-Encoding": "gzip"}
    tests: dict[str, tuple[Any, dict[str, str], tuple[int, str]]] = {
        "too-large-and-encoded": (BIG, gzip, (413, "body_too_large")),
        "too-large-and-no-json": (BIG, {}, (413, "body_too_large")),
        "encoded-and-no-json": (b"{", gzip, (415, "unsupported_encoding")),
        "encoded-and-unknown": (view(UNKNOWN), gzip, (415, "unsupported_encoding")),
        "context-and-too-many": (batch(website, [view()] * 51, context=5), {}, (400, "invalid_body")),
        "too-many-and-unknown": (batch(UNKNOWN, [view()] * 51), {}, (400, "too_many_events")),
        "too-many-and-foreign": (batch(website, [view()] * 51), foreign, (400, "too_many_events")),
        "context-and-unknown": (batch(UNKNOWN, [view()], context=5), {}, (400, "invalid_body")),
        "unknown-and-foreign": (view(UNKNOWN), foreign, (404, "unknown_website")),
        "unknown-and-invalid": (batch(UNKNOWN, [5]), {}, (404, "unknown_website")),
        "foreign-and-limited": (view(website), foreign, (403, "origin_not_allowed")),
        "foreign-and-month": (view(full), foreign, (403, "origin_not_allowed")),
        "foreign-and-invalid": (batch(website, [5]), foreign, (403, "origin_not_allowed")),
        "limited-and-month": (batch(None, [view(website), view(full)]), {}, (429, "rate_limited")),
        "limited-and-invalid": (batch(website, [5]), {}, (429, "rate_limited")),
        "month-and-invalid": (batch(full, [5]), {}, (429, "monthly_limit_reached")),
    }
    answers = {name: refusal(await app.collect(body, headers=headers)) for name, (body, headers, _) in tests.items()}
    assert answers == {name: expected for name, (_, _, expected) in tests.items()}


async def test_rate_before_month(make_app: MakeApp) -> None:
    """Check 6: rate limits come before the month."""
    app = await make_app(website_per_minute=1, free_events=1)
    website = await app.website(plan="free")
    assert (await app.collect(view(website))).status == 202
    assert refusal(await app.collect(view(website))) == (429, "rate_limited")
    assert refusal(await app.collect(view(website), ip="203.0.113.8")) == (429, "monthly_limit_reached")


# ---------------------------------------------------------------- crawlers


async def test_crawlers(app: App) -> None:
    """Web requests of crawlers are answered 202 and their events rejected with the code crawler. HTTP libraries without
    a web request are not crawlers."""
    website, key = await app.website(), await app.key()
    web = {"Origin": SAME}
    crawling = await app.collect(batch(website, [view(), view(url="x"), 5]), ua=GOOGLEBOT, headers=web)
    assert crawling.status == 202
    assert (crawling.json["ok"], crawling.json["accepted"], crawling.json["rejected"]) == (True, 0, 3)
    assert faults(crawling) == [(0, "crawler"), (1, "invalid_url"), (2, "invalid_type")]
    by_fetch = await app.collect(view(website), ua=GOOGLEBOT, headers={"Referer": SAME + "/"})
    assert faults(by_fetch) == [(0, "crawler")]
    foreign = await app.collect(view(website), ua=GOOGLEBOT, headers={"Origin": "https://example.org"})
    assert refusal(foreign) == (403, "origin_not_allowed")
    assert stored(app) == 0
    assert app.sql("select coalesce(sum(events), 0) from account_usage") == [(0,)]
    for ua in ("curl/8.5.0", "python-requests/2.32.3", "okhttp/4.12.0", "Go-http-client/2.0", GOOGLEBOT, ""):
        assert (await app.collect(view(website), ua=ua)).json["accepted"] == 1, ua
    for ua in (CHROME, SAFARI_IPHONE):
        assert (await app.collect(view(website), ua=ua, headers=web)).json["accepted"] == 1
    assert (await figures(app, website, key))["pageviews"] == 8


# ---------------------------------------------------------------- event_id


async def test_duplicates(app: App) -> None:
    """A duplicate has the same website, event_id and content; it counts as accepted and is not stored again."""
    website, other_website, key = await app.website(), await app.website("example.org"), await app.key()
    inside = await app.collect(batch(website, [view(event_id="a"), view(event_id="a"), view(event_id="b"), view()]))
    assert inside.json == {"ok": True, "accepted": 4, "rejected": 0}
    assert stored(app) == 3
    again = await app.collect(view(website, event_id="a"), ip="198.51.100.1", ua=SAFARI_IPHONE)
    assert again.json == {"ok": True, "accepted": 1, "rejected": 0}
    assert stored(app) == 3
    assert (await app.collect(view(other_website, event_id="a"))).json["accepted"] == 1
    assert (await app.collect(view(website, event_id="A"))).json["accepted"] == 1
    assert stored(app) == 5
    data = await figures(app, website, key)
    assert (data["visitors"], data["pageviews"], data["events"]) == (1, 4, 0)


@pytest.mark.parametrize("kind", ["vitals", "heatmap", "ab_assign", "ab_convert"])
async def test_duplicates_of_measurements(app: App, kind: str) -> None:
    """event_id applies to all types."""
    website = await app.website()
    fields: dict[str, dict[str, Any]] = {
        "vitals": {"vitals": {"lcp": 1}},
        "heatmap": {"points": [{"x": 0, "y": 0, "kind": "click"}], "viewport_width": 100},
        "ab_assign": {"experiment": "e", "variant": "v"},
        "ab_convert": {"experiment": "e", "variant": "v"},
    }
    body = {"type": kind, "website_id": website, "event_id": "a", **fields[kind]}
    for _ in range(3):
        assert (await app.collect(body)).json["accepted"] == 1
    points = app.sql("select coalesce(sum(points), 0) from heatmap_point")[0][0]
    rows = app.sql("select (select count(*) from web_vitals) + (select count(*) from experiment_event)")[0][0]
    assert points + rows == 1


async def test_duplicates_sent_at_once(app: App) -> None:
    """Duplicates sent at once are stored once."""
    website = await app.website()
    answers = await asyncio.gather(*(app.collect(view(website, event_id="a")) for _ in range(20)))
    assert [answer.json for answer in answers] == [{"ok": True, "accepted": 1, "rejected": 0}] * 20
    assert stored(app) == 1
    assert app.sql("select events from account_usage") == [(1,)]


async def test_duplicates_after_a_restart(app: App) -> None:
    """Duplicates are recognised after a restart."""
    website = await app.website()
    await app.collect(view(website, event_id="a"))
    await app.restart()
    assert (await app.collect(view(website, event_id="a"))).json["accepted"] == 1
    assert stored(app) == 1


ORDER = {
    "type": "event",
    "url": "https://example.com/thanks?order=1001",
    "event_name": "order",
    "event_data": {"number": 1001, "total": 49.9},
    "event_id": "order-1001",
}
OTHER_CONTENTS: dict[str, dict[str, Any]] = {
    "type": {"type": "app_event"},
    "page": {"url": "https://example.com/"},
    "query": {"url": "https://example.com/thanks?order=1002"},
    "host": {"url": "https://shop.example.com/thanks?order=1001"},
    "no url": {"url": None},
    "name": {"name": "thanks"},
    "event_name": {"event_name": "Order"},
    "event_data": {"event_data": {"number": 1001, "total": 0}},
    "a property less": {"event_data": {"number": 1001}},
    "no event_data": {"event_data": None},
}


@pytest.mark.parametrize("other", OTHER_CONTENTS.values(), ids=OTHER_CONTENTS)
async def test_events_with_the_same_event_id_and_other_content(app: App, other: dict[str, Any]) -> None:
    """An event with the same event_id and other content is stored, also within one batch, in either order."""
    website = await app.website()
    guessed = await app.collect(ORDER | other | {"website_id": website}, ip="198.51.100.66", ua=SAFARI_IPHONE)
    assert guessed.json["accepted"] == 1
    assert (await app.collect(batch(website, [ORDER]))).json["accepted"] == 1
    assert stored(app) == 2
    for copies in ([ORDER, ORDER | other], [ORDER | other, ORDER]):
        assert (await app.collect(batch(website, copies))).json["accepted"] == 2
    assert stored(app) == 2
    fresh = {"event_id": "order-1002"}
    assert (await app.collect(batch(website, [ORDER | other | fresh, ORDER | fresh] * 2))).json["accepted"] == 4
    assert stored(app) == 4


async def test_the_same_content_written_in_another_way(app: App) -> None:
    """docs/reference/collect-api.md: host, path and query of a URL, and the values of event_data."""
    website = await app.website()
    first = {"type": "event", "event_name": "Order", "event_id": "a", "event_data": {"a": 3, "b": 1}}
    for url, data in (
        ("https://example.com/x?y=1", '{"a": 3, "b": 1}'),
        ("http://example.com/x?y=1", '{"a": 3.0, "b": 1}'),
        ("https://example.com:8443/x?y=1", '{"b": 1e0, "a": 3}'),
        ("https://EXAMPLE.com/x?y=1#part", '{"a": 30e-1, "b": 1.0}'),
    ):
        sent = first | {"website_id": website, "url": url, "event_data": "DATA"}
        answer = await app.collect(json.dumps(sent).replace('"DATA"', data))
        assert answer.json["accepted"] == 1, answer.text
    assert stored(app) == 1
    sent = first | {"website_id": website, "url": "https://example.com/x?y=1", "event_data": {"a": "3", "b": 1}}
    assert (await app.collect(sent)).json["accepted"] == 1
    assert stored(app) == 2


OTHER_MEASUREMENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "vitals": ({"vitals": {"lcp": 1}}, {"vitals": {"lcp": 60_000}}),
    "a metric more": ({"type": "vitals", "vitals": {"lcp": 1}}, {"vitals": {"lcp": 1, "cls": 0}}),
    "heatmap": (
        {"points": [{"x": 0, "y": 0, "kind": "click"}], "viewport_width": 100},
        {"points": [{"x": 0, "y": 1, "kind": "click"}]},
    ),
    "ab_assign": ({"experiment": "e", "variant": "v"}, {"variant": "w"}),
    "ab_convert": ({"experiment": "e", "variant": "v", "goal": "g", "value": 5}, {"value": -5}),
    "another goal": ({"type": "ab_convert", "experiment": "e", "variant": "v", "goal": "g"}, {"goal": "h"}),
}


@pytest.mark.parametrize("name", OTHER_MEASUREMENTS)
async def test_measurements_with_the_same_event_id_and_other_content(app: App, name: str) -> None:
    """The fields of a measurement are part of its content."""
    website, (website_field, other) = await app.website(), OTHER_MEASUREMENTS[name]
    event = {"type": name, "event_id": "a"} | website_field
    for body in (event | other, event, event, event | other):
        assert (await app.collect(body | {"website_id": website})).json["accepted"] == 1
    assert app.sql("select events from account_usage") == [(2,)]


async def test_a_resent_queue_counts_once(app: App) -> None:
    """Time, sender and client details are not part of the content: a queue resent after an update, from another
    network, in another batch and with its keys in another order contains the same events."""
    website = await app.website()
    assert (await app.collect(ORDER | {"website_id": website})).json["accepted"] == 1
    app.clock.advance(60)
    again = ORDER | {
        "timestamp": app.clock.wall_ms() - 60_000,
        "event_data": {"total": 49.9, "number": 1001},
        "session_id": "another-session",
        "referrer": "https://www.example.org/",
        "url": "HTTPS://EXAMPLE.com:443/thanks?order=1001#top",
    }
    body = {"website_id": website, "events": [again], "context": {"app_version": "2.0", "platform": "web"}}
    assert (await app.collect(body, ip="198.51.100.1", ua=SAFARI_IPHONE)).json["accepted"] == 1
    assert stored(app) == 1


@pytest.mark.parametrize(
    ("sent", "again"),
    [
        (
            '"type": "app_event", "event_data": {"a": 1, "b": 2.0}',
            '"type": "app_event", "event_data": {"b": 2, "a": 1.0}',
        ),
        (
            '"type": "app_event", "event_data": {"a": 1000000000000000000, "b": -0.0}',
            '"type": "app_event", "event_data": {"a": 1e18, "b": 0}',
        ),
        (
            '"type": "heatmap", "viewport_width": 800, "points": [{"x": 1, "y": 0, "kind": "click"}]',
            '"type": "heatmap", "viewport_width": 800.0, "points": [{"x": 1.0, "y": -0.0, "kind": "click"}]',
        ),
    ],
    ids=["whole", "beyond 2**53", "heatmap"],
)
async def test_notations_of_a_number_are_equal(app: App, sent: str, again: str) -> None:
    """JSON has one type of numbers: 1.0 and 1 are equal."""
    website = await app.website()
    for fields in (sent, again, sent):
        body = f'{{"website_id": "{website}", "event_id": "one", {fields}}}'
        assert (await app.collect(body.encode())).json["accepted"] == 1
    assert app.sql("select events from account_usage") == [(1,)]


@pytest.mark.parametrize(("passed_ms", "events"), [(72 * HOUR_S * 1_000, 1), (72 * HOUR_S * 1_000 + 1, 2)])
@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
async def test_duplicates_after_72_hours(app: App, passed_ms: int, events: int, restart: bool) -> None:
    """Duplicates are recognised for exactly 72 hours after the arrival of the last one."""
    website = await app.website()
    # The time of arrival counts, not the timestamp.
    await app.collect(view(website, event_id="a", timestamp=app.clock.wall_ms() - 70 * HOUR_S * 1_000))
    # Each duplicate renews the 72 hours, also in a batch with others.
    for copies in (1, 3):
        app.clock.advance(71 * HOUR_S)
        await app.collect(batch(website, [view(event_id="a")] * copies))
        await app.node.tick()
    assert stored(app) == 1
    app.clock.advance(passed_ms / 1_000)
    if restart:
        await app.restart()
    await app.node.tick()
    assert (await app.collect(view(website, event_id="a"))).json["accepted"] == 1
    assert stored(app) == events
    await app.collect(view(website, event_id="a"))
    assert stored(app) == events


async def test_duplicates_write_little(app: App) -> None:
    """Duplicates increase neither tables nor usage; each duplicate of a group updates one row."""
    website = await app.website()
    await app.collect(batch(website, [view(event_id="a")] * 50))
    assert app.sql("select count(*) from event_id") == [(1,)]
    app.clock.advance(10)
    await app.collect(batch(website, [view(event_id="a")] * 50))
    assert app.sql("select arrived_ms from event_id") == [(app.clock.wall_ms(),)]
    assert app.sql("select (select count(*) from event), events from account_usage") == [(1, 1)]


async def test_the_event_id_of_a_rejected_event_is_free(make_app: MakeApp) -> None:
    """The event_id of a rejected event is not stored."""
    app = await make_app(free_events=2)
    website = await app.website()
    assert faults(await app.collect(view(website, event_id="a", url="x"))) == [(0, "invalid_url")]
    convert = {"type": "ab_convert", "website_id": website, "experiment": "e", "event_id": "b"}
    assert faults(await app.collect(convert)) == [(0, "no_assignment")]
    crawled = await app.collect(view(website, event_id="c"), ua=GOOGLEBOT, headers={"Origin": SAME})
    assert faults(crawled) == [(0, "crawler")]
    for event_id in "abc":
        assert (await app.collect(view(website, event_id=event_id))).json["accepted"] == 1
    assert stored(app) == 3
    free = await app.website(account="free@example.com", plan="free")
    over_limit = await app.collect(batch(free, [view(event_id=event_id) for event_id in "xyz"]))
    assert faults(over_limit) == [(2, "monthly_limit_reached")]
    app.clock.advance(13 * 24 * HOUR_S)  # December
    await app.collect(view(free, event_id="z"))
    assert stored(app) == 3 + 2 + 1


async def test_a_duplicate_extends_no_visit(app: App) -> None:
    """A duplicate extends no visit and uses no quota."""
    website, key = await app.website(), await app.key()
    await app.collect(view(website, event_id="a"))
    app.clock.advance(20 * 60)
    await app.collect(view(website, event_id="a"))
    assert (await figures(app, website, key))["visit_duration"] == 0
    app.clock.advance(20 * 60)
    await app.collect(view(website, event_id="b"))
    data = await figures(app, website, key)
    assert (data["visitors"], data["visits"], data["pageviews"]) == (1, 2, 2)
    assert app.sql("select events from account_usage") == [(2,)]


# Ids, and the minute that is stored of them at NOON_MS.
MINUTES = {
    f"{NOON_MS}": NOON_MS,
    f"{NOON_MS}-5f2c": NOON_MS,
    f"{NOON_MS + 59_999}3012,41": NOON_MS,
    f"{NOON_MS + 60_000}x": 0,
    f"{NOON_MS - 1}x": 0,
    "9999999999999x": 0,
    f"0{NOON_MS}"[:13]: 0,
    f"{NOON_MS}"[:12]: 0,
    f"-{NOON_MS}": 0,
    f"x{NOON_MS}": 0,
    "١٧٩٥٠٠٣٢٠٠٠٠٠": 0,
    "order-1001": 0,
}


async def test_the_time_at_the_beginning_of_an_event_id(app: App) -> None:
    """Its minute is stored where it is that of the arrival; copies count once with every id."""
    website = await app.website()
    sent = [view(event_id=event_id) for event_id in MINUTES]
    for part in (sent[:3], sent, sent[3:] + sent[:3]):
        assert (await app.collect(batch(website, part))).json["accepted"] == len(part)
    assert stored(app) == len(sent)
    assert app.sql("select minute_ms from event_id") == [(minute,) for minute in sorted(MINUTES.values())]


@pytest.mark.parametrize("late_first", [False, True])
async def test_copies_that_arrive_later_than_their_event(app: App, late_first: bool) -> None:
    """A copy is one, and renews the 72 hours, whether its time is that of its arrival or not."""
    website = await app.website()
    copy = view(event_id=f"{NOON_MS + (60_000 if late_first else 0)}-5f2c")
    for passed_s in (0, 60, 71 * HOUR_S, 71 * HOUR_S):
        app.clock.advance(passed_s)
        assert (await app.collect(batch(website, [copy]))).json["accepted"] == 1
    assert stored(app) == 1
    app.clock.advance(72 * HOUR_S + 1)
    await app.node.tick()
    assert app.sql("select * from event_id") == []
    assert (await app.collect(batch(website, [copy]))).json["accepted"] == 1
    assert stored(app) == 2


async def test_event_ids_are_stored_as_digests(app: App) -> None:
    """event_id is stored as a digest."""
    website = await app.website()
    await app.collect(view(website, event_id="canary-event-id"))
    await app.close()
    assert all(b"canary-event-id" not in path.read_bytes() for path in app.db.parent.iterdir() if path.is_file())
    await app.open()


# ---------------------------------------------------------------- durability


async def send_other_requests(app: App, requests: int = 30) -> None:
    """Send other requests, so that the server can continue."""
    for _ in range(requests):
        assert (await app.get("/healthz")).status == 200


async def wait_until_queued(app: App, events: int) -> None:
    """Wait until so many events are queued for a commit."""
    while app.running.ingest.queue < events:
        await send_other_requests(app, 1)


class WriteLock:
    """Hold the write lock of the database by another connection."""

    def __init__(self, db: Path) -> None:
        self._connection = sqlite3.connect(db, isolation_level=None)

    def __enter__(self) -> None:
        self._connection.execute("begin immediate")

    def __exit__(self, *_: object) -> None:
        self._connection.rollback()
        self._connection.close()


async def test_202_follows_the_commit(app: App) -> None:
    """The response is sent after the commit of the transaction that stores the events."""
    website, key = await app.website(), await app.key()
    with WriteLock(app.db):
        sending = [asyncio.create_task(app.collect(view(website), ip=f"203.0.113.{n}")) for n in range(5)]
        await wait_until_queued(app, 5)
        await send_other_requests(app)
        assert not any(task.done() for task in sending)
        assert stored(app) == 0
        assert (await figures(app, website, key))["pageviews"] == 0
    assert [(await task).json for task in sending] == [{"ok": True, "accepted": 1, "rejected": 0}] * 5
    assert stored(app) == 5
    assert (await figures(app, website, key))["visitors"] == 5


async def test_full_sync(app: App) -> None:
    """Commits are fsynced (synchronous=FULL)."""
    connection = open_database(app.db, create=False)
    assert connection.execute("pragma synchronous").fetchone() == (2,)
    assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_a_client_that_disconnects(app: App) -> None:
    """Queued events are stored although the client has disconnected."""
    website, key = await app.website(), await app.key()
    with WriteLock(app.db):
        sending = asyncio.create_task(app.collect(view(website)))
        await wait_until_queued(app, 1)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await send_other_requests(app)
    assert (await app.collect(view(website))).status == 202
    assert stored(app) == 2
    assert (await figures(app, website, key))["visitors"] == 1


async def test_a_failing_request_does_not_fail_others(app: App) -> None:
    """A 500 shows no internals, and other requests of the same commit are stored."""
    good, bad, key = await app.website(), await app.website("example.org"), await app.key()
    number = app.sql("select number from website where id = ?", bad)[0][0]
    await app.admin(
        lambda c: c.execute(
            f"create trigger poison before insert on event when new.website = {number}"
            " begin select raise(abort, 'poisoned canary'); end"
        )
    )
    with WriteLock(app.db):
        first = asyncio.create_task(app.collect(view(good)))
        await wait_until_queued(app, 1)
        page = view(url="https://example.com/new", session_id="session-1")
        group = [asyncio.create_task(app.collect(dict(page, website_id=w))) for w in (bad, good, bad, good)]
        await wait_until_queued(app, 5)
    answers = [await task for task in (first, *group)]
    assert [answer.status for answer in answers] == [202, 500, 202, 500, 202]
    assert refusal(answers[1]) == (500, "internal_error")
    assert answers[1].headers["Access-Control-Allow-Origin"] == "*"
    assert "canary" not in answers[1].text
    with contextlib.closing(sqlite3.connect(app.db)) as connection:  # commands refuse a database with a trigger
        connection.execute("drop trigger poison")
    assert (await app.collect(dict(page, website_id=bad))).status == 202
    # Nothing of the failed request is left: no pageview counted twice, no label without a text.
    assert stored(app) == 4
    assert sorted(app.sql("select website, pageviews from visit")) == [(number - 1, 1), (number - 1, 2), (number, 1)]
    data = await figures(app, good, key)
    assert (data["visitors"], data["visits"], data["pageviews"]) == (2, 2, 3)
    for website, paths in ((good, ["/new", "/new", "/"]), (bad, ["/new"])):
        rows = (await app.get(f"/api/v1/websites/{website}/events", key)).json["data"]
        assert [row["pathname"] for row in rows] == paths


async def test_an_event_is_in_every_later_response(app: App) -> None:
    """A stored event is in every response to a later request, also within the same millisecond."""
    website, key = await app.website(), await app.key()
    base = f"/api/v1/websites/{website}"
    for n in range(1, 6):
        assert (await app.collect(view(website, session_id=f"session-{n}"))).status == 202
        stats, series, top, events, realtime = await asyncio.gather(
            app.get(f"{base}/stats", key),
            app.get(f"{base}/timeseries", key),
            app.get(f"{base}/top/pathname", key),
            app.get(f"{base}/events", key),
            app.get(f"{base}/realtime", key),
        )
        assert stats.json["data"]["pageviews"] == n
        assert sum(row["pageviews"] for row in series.json["data"]) == n
        assert [row["pageviews"] for row in top.json["data"]] == [n]
        assert len(events.json["data"]) == n
        assert realtime.json["data"]["active_visitors"] == n


async def test_events_are_stored_after_a_restart(app: App) -> None:
    """Events answered 202 are stored after a restart; ids keep growing."""
    website, key = await app.website(), await app.key()
    await app.collect(batch(website, [view(name=f"{n}") for n in range(3)]))
    before = (await app.get(f"/api/v1/websites/{website}/events", key)).json["data"]
    await app.restart()
    await app.collect(view(website))
    after = (await app.get(f"/api/v1/websites/{website}/events", key)).json["data"]
    assert after[1:] == before
    assert after[0]["id"] > before[0]["id"] > before[1]["id"] > before[2]["id"]


async def test_a_website_created_by_another_process(app: App) -> None:
    """A website created by another process is found without a restart."""
    await app.website()
    connection = sqlite3.connect(app.db)
    number, account = connection.execute("select max(number) + 1, max(account) from website").fetchone()
    new_id = "12345678-1234-4234-8234-123456789abc"
    connection.execute(
        "insert into website (number, id, account, domain, name, created_ms) values (?, ?, ?, 'example.net', 'n', 0)",
        (number, new_id, account),
    )
    connection.commit()
    connection.close()
    app.clock.advance(2)
    assert (await app.collect(view(new_id))).status == 202


# ---------------------------------------------------------------- privacy


async def test_personal_data_is_never_stored(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """Identities, salts, addresses, User-Agents and session_ids are in memory only; the rest of a URL's query and its
    fragment are never stored."""
    website = await app.website()
    secret = {
        "session_id": "canary-session-id",
        "url": "https://canaryuser:canarypassword@example.com/p?utm_source=kept&q=canary-query#canary-fragment",
        "referrer": "https://example.org/canary-referrer-path?canary-referrer-query",
        "unheard_of": "canary-unknown",
    }
    for ip in ("203.0.113.77", "2001:db8:7777:8888::9999"):
        headers = {"Referer": SAME + "/canary-referer", "Cookie": "c=canary-cookie"}
        sent = await app.collect(view(website, **secret), ip=ip, ua=CHROME + " canary-user-agent", headers=headers)
        assert sent.status == 202
        plain = await app.collect(view(website), ip=ip, ua=CHROME + " canary-user-agent")
        assert plain.status == 202
        await app.collect(b'{"canary-broken', ip=ip)
        await app.collect(view(website, session_id="canary-" + "x" * 64), ip=ip)
    files = [path for path in app.db.parent.iterdir() if path.is_file()]
    written = b"".join(path.read_bytes() for path in files) + caplog.text.encode()
    await app.close()
    written += b"".join(path.read_bytes() for path in app.db.parent.iterdir() if path.is_file())
    await app.open()
    assert b"kept" in written
    for canary in (b"canary", b"203.0.113.77", b"2001:db8:7777", bytes([203, 0, 113, 77]), b"\x77\x77\x88\x88"):
        assert canary not in written
        assert canary.hex().encode() not in written


async def test_paging_is_stable_during_imports(app: App) -> None:
    """The cursor is stable while events arrive and another process assigns ids."""
    website, key = await app.website(), await app.key()
    await app.collect(batch(website, [view(name=f"{n}") for n in range(3)]))
    await app.admin(lambda connection: connection.execute("update meta set value = value + 500 where name = 'next_id'"))
    page = (await app.get(f"/api/v1/websites/{website}/events?limit=1", key)).json
    await app.collect(view(website, timestamp=NOON_MS - 3_600_000))
    cursor = page["meta"]["next_cursor"]
    rest = (await app.get(f"/api/v1/websites/{website}/events?cursor={cursor}", key)).json["data"]
    assert len(page["data"]) + len(rest) == 3
    assert len((await app.get(f"/api/v1/websites/{website}/events", key)).json["data"]) == 4
