"""Requests in Umami's format, POST /api/send and POST /api/batch: what is stored, and what is answered.

Requests are those of Umami's script (JSON with a preflight) and of @umami/node, which sends for a visitor.
"""

from typing import Any

from tests.api.test_rejected_events import counted
from tests.support.app import CHROME, FIREFOX, GOOGLEBOT, NOON_MS, Answer, App
from tests.support.cases import cases
from tests.support.compat import newest, stored, website_of

PAGE = {"Origin": "https://example.com"}
NIL = "00000000-0000-0000-0000-000000000000"
ACCEPTED = {"cache": "", "sessionId": NIL, "visitId": NIL}
NODE = "Mozilla/5.0 Umami/0.4.0"


def payload(website: str, **more: Any) -> dict[str, Any]:
    own = {
        "website": website,
        "hostname": "example.com",
        "screen": "1920x1080",
        "language": "en-US",
        "title": "Pricing",
        "url": "https://example.com/pricing?utm_source=news#plans",
        "referrer": "https://duckduckgo.com/",
    }
    return own | more


async def send(app: App, body: Any, headers: dict[str, str] | None = None, **how: Any) -> Answer:
    return await app.collect(body, **({"path": "/api/send"} | how), headers=PAGE if headers is None else headers)


async def accepted(app: App, kind: str = "event", headers: dict[str, str] | None = None, **more: Any) -> None:
    """Send a payload; return the response, which must be that of a stored event."""
    website = await website_of(app)
    answer = await send(app, {"type": kind, "payload": payload(website, **more)}, headers)
    assert (answer.status, answer.json) == (200, ACCEPTED)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


async def test_the_preflight(app: App) -> None:
    for path in ("/api/send", "/api/batch"):
        preflight = {"Origin": "https://example.com", "Access-Control-Request-Headers": "content-type,x-umami-cache"}
        answer = await app.get(path, headers=preflight | {"Access-Control-Request-Method": "POST"}, method="OPTIONS")
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert "POST" in answer.headers["Access-Control-Allow-Methods"]
        assert answer.headers["Access-Control-Allow-Headers"] == "content-type,x-umami-cache"
        assert answer.headers["Access-Control-Max-Age"] == "86400"


async def test_a_pageview_of_the_script(app: App) -> None:
    await accepted(app, headers=PAGE | {"x-umami-cache": ""})
    event = await newest(app, await website_of(app))
    assert (event["type"], event["pathname"], event["hostname"]) == ("pageview", "/pricing", "example.com")
    assert (event["referrer"], event["utm_source"], event["language"]) == ("duckduckgo.com", "news", "en-US")


@cases(
    ("more", "page"),
    [
        ({"url": "/a?b=1#c"}, ("example.com", "/a")),
        ({"url": "/a", "hostname": "shop.example.com"}, ("shop.example.com", "/a")),
        ({"url": "a", "hostname": None}, ("example.com", "/a")),
        ({"url": "/login?next=https://example.com/"}, ("example.com", "/login")),
        ({"url": "/proxy/https://example.com/"}, ("example.com", "/proxy/https://example.com/")),
        ({"url": "/app#https://example.com/"}, ("example.com", "/app")),
        ({"url": " HTTPS://example.com/b"}, ("example.com", "/b")),
        ({"url": ""}, ("example.com", "/")),
    ],
)
async def test_the_page(app: App, more: dict[str, Any], page: tuple[str, str]) -> None:
    await accepted(app, **more)
    event = await newest(app, await website_of(app))
    assert (event["hostname"], event["pathname"]) == page


@cases("referrer", ["/pricing", "", None, 7, "reddit"])
async def test_a_referrer_that_is_no_url_is_unset(app: App, referrer: Any) -> None:
    await accepted(app, referrer=referrer)
    assert (await newest(app, await website_of(app)))["referrer"] is None


async def test_an_event_with_nested_data(app: App) -> None:
    data = {"plan": "pro", "cart": {"items": 2, "codes": ["A", "B"]}, "paid": True, "none": None, "empty": ""}
    await accepted(app, name="buy", data=data, tag="beta")
    event = await newest(app, await website_of(app))
    assert (event["type"], event["event_name"], event["pathname"]) == ("event", "buy", "/pricing")
    kept = {"tag": "beta", "plan": "pro", "cart.items": 2, "cart.codes": '["A","B"]', "paid": True}
    assert event["event_data"] == kept


async def test_data_that_is_nested_deeply(app: App) -> None:
    """Five levels become keys; more become JSON, and values that are too deep for that are omitted."""
    deep: Any = {"end": 1}
    for _ in range(6):
        deep = {"a": deep}
    await accepted(app, name="deep", data=deep)
    assert (await newest(app, await website_of(app)))["event_data"] == {"a.a.a.a.a.a": '{"end":1}'}
    for _ in range(400):
        deep = {"a": deep}
    await accepted(app, name="deeper", data=deep | {"b": 1})
    assert (await newest(app, await website_of(app)))["event_data"] == {"b": 1}


async def test_web_vitals(app: App) -> None:
    website = await website_of(app)
    await accepted(app, kind="performance", lcp=1840.5, inp=88, cls=0.02, fcp=None, ttfb=210, duration=12)
    vitals = await app.get(f"/api/v1/websites/{website}/vitals", await app.key())
    assert {row["metric"]: row["p75"] for row in vitals.json["data"] if row["p75"] is not None}


async def test_identify_is_accepted_and_not_stored(app: App) -> None:
    await accepted(app, kind="identify", id="user-7", data={"name": "x"})
    assert await stored(app, await website_of(app)) == []


async def test_an_id_is_a_visitor(app: App) -> None:
    """As in Umami: an id replaces address and User-Agent, at any length."""
    for ip, id in (("203.0.113.7", "u1"), ("203.0.113.8", "u1"), ("203.0.113.8", "u2"), ("203.0.113.8", "u" * 200)):
        body = {"type": "event", "payload": payload(await website_of(app), id=id)}
        assert (await send(app, body, ip=ip)).status == 200
    stats = await app.get(f"/api/v1/websites/{await website_of(app)}/stats", await app.key())
    assert (stats.json["data"]["visitors"], stats.json["data"]["pageviews"]) == (3, 4)


async def test_a_server_sends_for_its_visitors(app: App) -> None:
    """`ip` and `userAgent` are the visitor; `browser`, `os` and `device` are taken as they are."""
    for ip in ("81.2.69.160", "81.2.69.161", "81.2.69.160"):
        await accepted(app, headers={"User-Agent": NODE}, ip=ip, userAgent=FIREFOX)
    website = await website_of(app)
    stats = await app.get(f"/api/v1/websites/{website}/stats", await app.key())
    assert (stats.json["data"]["visitors"], stats.json["data"]["pageviews"]) == (2, 3)
    event = await newest(app, website)
    assert (event["country"], event["browser"], event["os"], event["device"]) == ("GB", "Firefox", "Linux", "desktop")
    await accepted(app, headers={"User-Agent": NODE}, browser="Ladybird", os="Plan 9", device="laptop")
    event = await newest(app, website)
    assert (event["browser"], event["os"], event["device"]) == ("Ladybird", "Plan 9", "desktop")


async def test_client_hints_of_a_server_are_not_its_visitors(app: App) -> None:
    """A browser that sends for another visitor: the hints are the sender's, the User-Agent in `userAgent` is not."""
    hints = {"Sec-CH-UA": '"Chromium";v="142", "Brave";v="142"', "Sec-CH-UA-Mobile": "?0"}
    await accepted(app, headers=PAGE | hints, userAgent=CHROME)
    assert (await newest(app, await website_of(app)))["browser"] == "Chrome"


async def test_a_crawler_that_a_server_names(app: App) -> None:
    website = await website_of(app)
    body = {"type": "event", "payload": payload(website, userAgent=GOOGLEBOT)}
    answer = await send(app, body, {"User-Agent": NODE})
    assert (answer.status, answer.json) == (200, {"beep": "boop"})
    assert (await send(app, {"type": "event", "payload": payload(website)}, ua=GOOGLEBOT)).json == {"beep": "boop"}
    assert await counted(app, website) == {"crawler": 2}
    assert await stored(app, website) == []


@cases("seconds", [NOON_MS // 1000 - 60, str(NOON_MS // 1000 - 60), NOON_MS / 1000 - 60])
async def test_a_timestamp_in_seconds(app: App, seconds: Any) -> None:
    await accepted(app, timestamp=seconds)
    assert (await newest(app, await website_of(app)))["timestamp"].startswith("2026-11-18T11:59:00")


@cases(
    ("change", "status", "code"),
    [
        ({"website": "c66653dc-e3f4-4325-a39f-da606931a543"}, 400, "unknown_website"),
        ({"website": None, "link": "c66653dc-e3f4-4325-a39f-da606931a543"}, 400, "no_valid_event"),
        ({"website": "no id"}, 400, "no_valid_event"),
        ({"url": 7}, 400, "no_valid_event"),
        ({"name": ["a"]}, 400, "no_valid_event"),
        ({"name": "x" * 201}, 400, "no_valid_event"),
        ({"timestamp": "yesterday"}, 400, "no_valid_event"),
        ({"timestamp": 1e300}, 400, "no_valid_event"),
        ({"timestamp": True}, 400, "no_valid_event"),
        ({"timestamp": NOON_MS // 1000 - 80 * 3_600}, 400, "no_valid_event"),
    ],
)
async def test_faults_of_the_payload(app: App, change: dict[str, Any], status: int, code: str) -> None:
    answer = await send(app, {"type": "event", "payload": payload(await website_of(app)) | change})
    assert (answer.status, answer.json["error"]["code"]) == (status, code)


@cases(
    ("body", "code"),
    [
        (b"{", "invalid_json"),
        (b"[]", "invalid_body"),
        ({}, "no_valid_event"),
        ({"type": "event"}, "no_valid_event"),
        ({"type": "event", "payload": []}, "no_valid_event"),
        ({"type": "link", "payload": {"website": "example.com", "url": "/"}}, "no_valid_event"),
    ],
)
async def test_faults_of_the_body(app: App, body: Any, code: str) -> None:
    await website_of(app)
    answer = await send(app, body)
    assert (answer.status, answer.json["error"]["code"]) == (400, code)


async def test_a_page_of_another_origin(app: App) -> None:
    website = await website_of(app)
    body = {"type": "event", "payload": payload(website)}
    assert (await send(app, body, {"Origin": "https://other.example"})).status == 403
    assert await counted(app, website) == {"origin_not_allowed": 1}


async def test_a_batch(app: App) -> None:
    website = await website_of(app)
    bodies = [
        {"type": "event", "payload": payload(website)},
        {"type": "identify", "payload": payload(website, id="u1")},
        {"type": "event", "payload": payload(website, url=7)},
        {"type": "event", "payload": payload(website, name="buy", ip="81.2.69.160")},
        "x",
    ]
    answer = await send(app, bodies, {}, path="/api/batch")
    assert answer.status == 200
    counts = {name: answer.json[name] for name in ("size", "processed", "errors", "cache")}
    assert counts == {"size": 5, "processed": 3, "errors": 2, "cache": ""}
    codes = [(one["index"], one["response"]["error"]["code"]) for one in answer.json["details"]]
    assert codes == [(2, "missing_field"), (4, "invalid_type")]
    assert [(event["type"], event["country"]) for event in await stored(app, website)] == [
        ("pageview", None),
        ("event", "GB"),
    ]


async def test_limits_of_a_batch(app: App) -> None:
    website = await website_of(app)
    empty = await send(app, [], path="/api/batch")
    assert (empty.status, empty.json["size"]) == (200, 0)
    many = [{"type": "event", "payload": {"website": website, "url": "/"}}] * 51
    assert (await send(app, many, path="/api/batch")).json["error"]["code"] == "too_many_events"
    assert (await send(app, {}, path="/api/batch")).json["error"]["code"] == "invalid_body"


async def test_a_batch_without_a_valid_event(app: App) -> None:
    website = await website_of(app)
    faulty = {"type": "event", "payload": payload(website, url=7)}
    answer = await send(app, [{"type": "identify", "payload": payload(website)}, faulty], path="/api/batch")
    assert (answer.status, answer.json["processed"], answer.json["errors"]) == (200, 1, 1)
    assert answer.json["details"][0]["index"] == 1
    assert await counted(app, website) == {"missing_field": 1}
