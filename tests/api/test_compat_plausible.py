"""Requests in Plausible's format, POST /api/event: what is stored, and what is answered.

Requests are those of Plausible's scripts (short keys, text/plain, Origin) and of clients of its events API (long keys,
application/json, User-Agent and X-Forwarded-For of the visitor).
"""

import json
from typing import Any

import pytest

from tests.api.test_rejected_events import counted
from tests.support.app import CHROME, GOOGLEBOT, Answer, App
from tests.support.cases import cases
from tests.support.compat import newest, stored, website_of

PAGE = {"Origin": "https://example.com", "Content-Type": "text/plain"}
VIEW: dict[str, Any] = {"n": "pageview", "u": "https://example.com/pricing", "d": "example.com", "r": None, "v": 33}


async def send(app: App, body: Any, headers: dict[str, str] | None = None, **how: Any) -> Answer:
    return await app.collect(body, path="/api/event", headers=PAGE if headers is None else headers, **how)


def is_stored(answer: Answer) -> bool:
    assert (answer.status, answer.text) == (202, "ok")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    return "x-plausible-dropped" not in answer.headers


async def test_a_pageview_of_the_script(app: App) -> None:
    website = await app.website()
    url = "https://example.com/pricing?utm_source=news&utm_medium=mail#plans"
    assert is_stored(await send(app, VIEW | {"u": url, "r": "https://www.duckduckgo.com/?q=x"}))
    [event] = await stored(app, website)
    assert (event["type"], event["pathname"], event["hostname"]) == ("pageview", "/pricing", "example.com")
    assert (event["referrer"], event["utm_source"], event["utm_medium"]) == ("duckduckgo.com", "news", "mail")
    assert event["browser"] == "Chrome"


async def test_long_keys_of_a_client_of_the_events_api(app: App) -> None:
    """The visitor is the first address of X-Forwarded-For, with the User-Agent; both differ from the server's own."""
    website = await app.website()
    body = {
        "name": "pageview",
        "url": "https://example.com/api",
        "domain": "example.com",
        "referrer": "https://a.test/",
    }
    for visitor in ("81.2.69.160", "81.2.69.161", "81.2.69.160"):
        # The last address is what the proxy in front of Tally adds: the customer's server.
        headers = {"Content-Type": "application/json", "X-Forwarded-For": f"{visitor}, 203.0.113.9"}
        assert is_stored(await send(app, body, headers))
    stats = await app.get(f"/api/v1/websites/{website}/stats", await app.key())
    assert (stats.json["data"]["visitors"], stats.json["data"]["pageviews"]) == (2, 3)
    assert {event["country"] for event in await stored(app, website)} == {"GB"}


async def test_rates_are_those_of_the_server_that_sends(app: App) -> None:
    await app.website()
    answers = []
    for n in range(121):
        headers = {"X-Forwarded-For": f"81.2.{n}.1, 203.0.113.9"}
        answers.append(await send(app, VIEW, headers))
    assert [is_stored(answer) for answer in answers] == [True] * 120 + [False]


async def test_an_event_with_properties_and_revenue(app: App) -> None:
    website = await app.website()
    body = VIEW | {
        "n": "Purchase",
        "p": {"plan": "pro", "seats": 3, "list": [1], "none": None, "empty": "", "object": {"a": 1}},
        "$": {"amount": "1322.22", "currency": "EUR"},
    }
    assert is_stored(await send(app, body))
    as_text = {"n": "Note", "m": json.dumps({"a": "b"}), "revenue": json.dumps({"amount": 7, "currency": "USD"})}
    assert is_stored(await send(app, VIEW | as_text))
    purchase, note = await stored(app, website)
    assert (purchase["type"], purchase["event_name"], purchase["pathname"]) == ("event", "Purchase", "/pricing")
    assert purchase["event_data"] == {"plan": "pro", "seats": 3, "value": 1322.22, "currency": "EUR"}
    assert note["event_data"] == {"a": "b", "value": 7, "currency": "USD"}


async def test_thirty_properties_are_kept(app: App) -> None:
    website = await app.website()
    assert is_stored(await send(app, VIEW | {"n": "Many", "props": {f"p{n:02}": "x" for n in range(40)}}))
    [event] = await stored(app, website)
    assert sorted(event["event_data"]) == [f"p{n:02}" for n in range(30)]


async def test_several_domains(app: App) -> None:
    """Each domain once, with or without www.; what has no website is counted in x-plausible-dropped."""
    one, two = await app.website("example.com"), await app.website("example.org")
    answer = await send(app, VIEW | {"d": "www.example.com, example.org,example.com,unknown.test"}, {})
    assert (answer.status, answer.headers["x-plausible-dropped"]) == (202, "1")
    assert [len(await stored(app, website)) for website in (one, two)] == [1, 1]
    answer = await send(app, VIEW | {"d": "unknown.test,other.test"}, {})
    assert (answer.status, answer.headers["x-plausible-dropped"]) == (202, "2")


@cases(
    "body",
    [
        {"d": "blog.example.com"},
        {"d": "WWW.EXAMPLE.COM"},
        {"d": None},
        {"d": "", "u": "https://shop.example.com/pricing"},
    ],
    ids=["a subdomain", "capitals and www.", "none: the host of the URL", "an empty one"],
)
async def test_the_domain_of_a_website(app: App, body: dict[str, Any]) -> None:
    website = await website_of(app)
    before = len(await stored(app, website))
    assert is_stored(await send(app, VIEW | body))
    assert [event["pathname"] for event in await stored(app, website)][before:] == ["/pricing"]


async def test_the_nearest_domain_is_used(app: App) -> None:
    await app.website("example.com")
    blog = await app.website("blog.example.com")
    assert is_stored(await send(app, VIEW | {"d": "en.blog.example.com"}, {}))
    assert len(await stored(app, blog)) == 1


async def test_a_website_added_by_another_process_is_found_at_once(app: App) -> None:
    website = await app.website("example.com")
    app.registry.cache = app.registry.cache._replace(domains={}, websites={})
    app.registry._data_version = -1
    assert is_stored(await send(app, VIEW))
    assert len(await stored(app, website)) == 1


@cases(
    ("url", "mode", "path"),
    [
        ("https://example.com/app#team", 1, "/app/team"),
        ("https://example.com/#/about?utm_source=x", True, "/about"),
        ("https://example.com/app#!/team", 1, "/app/team"),
        ("https://example.com/app", 1, "/app"),
        ("https://example.com/app#/", 1, "/app"),
        ("https://example.com/app/?a=1#", 1, "/app/"),
        ("https://example.com/app?a=1#/?b=1", 1, "/app"),
        ("https://example.com", 1, "/"),
        ("https://example.com/app#team", 0, "/app"),
        ("https://example.com/app#team", None, "/app"),
    ],
)
async def test_hash_mode(app: App, url: str, mode: Any, path: str) -> None:
    website = await website_of(app)
    assert is_stored(await send(app, VIEW | {"u": url, "h": mode}))
    assert (await newest(app, website))["pathname"] == path


@cases(
    ("query", "source"),
    [
        ("ref=hn", "hn"),
        ("source=a&ref=b", "a"),
        ("utm_source=u&ref=b", "u"),
        ("ref=%C3%BC%26", "\u00fc&"),
        ("x=1", None),
    ],
)
async def test_sources_in_the_query(app: App, query: str, source: str | None) -> None:
    website = await website_of(app)
    # A visitor for each row: the first source of a visit is that of all its events.
    assert is_stored(await send(app, VIEW | {"u": f"https://example.com/?{query}#x"}, ip=f"203.0.113.{len(query)}"))
    assert (await newest(app, website))["utm_source"] == source


async def test_engagement_is_accepted_and_not_stored(app: App) -> None:
    website = await app.website()
    assert is_stored(await send(app, VIEW | {"n": "engagement", "sd": 80, "e": 1200}))
    assert await stored(app, website) == []
    assert (await send(app, VIEW | {"n": "engagement"})).json == {"errors": {"engagement": ["needs sd or e"]}}


async def test_a_number_as_the_name(app: App) -> None:
    website = await app.website()
    assert is_stored(await send(app, VIEW | {"n": 404}))
    assert [event["event_name"] for event in await stored(app, website)] == ["404"]


@cases("referrer", ["Hacker News", "//x", "", 7, "android-app://", "https://" + "a" * 9_000])
async def test_a_referrer_that_is_no_url_costs_the_referrer(app: App, referrer: Any) -> None:
    website = await website_of(app)
    assert is_stored(await send(app, VIEW | {"r": referrer}))
    assert (await newest(app, website))["referrer"] is None


@cases(
    ("body", "field"),
    [
        (VIEW | {"n": None}, "name"),
        (VIEW | {"n": "x" * 201}, "name"),
        (VIEW | {"n": ["a"]}, "name"),
        (VIEW | {"u": None}, "url"),
        (VIEW | {"u": 7}, "url"),
        (VIEW | {"u": "data:text/html,x"}, "url"),
        (VIEW | {"u": "/pricing"}, "url"),
        (VIEW | {"u": "https://example.com/" + "x" * 9_000}, "url"),
        (VIEW | {"n": "x", "p": {"a": "x" * 5_000}}, "props"),
        (b"{", "request"),
        (b"[]", "request"),
    ],
)
async def test_faults_of_the_body(app: App, body: Any, field: str) -> None:
    await app.website()
    answer = await send(app, body)
    assert answer.status == 400
    [(name, messages)] = answer.json["errors"].items()
    assert name == field
    assert messages[0]


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"headers": {"Origin": "https://other.example"}}, "origin_not_allowed"),
        ({"headers": {"Origin": "null"}}, "origin_not_allowed"),
        ({"ua": GOOGLEBOT}, "crawler"),
        ({"ua": GOOGLEBOT, "headers": {"X-Forwarded-For": "81.2.69.160, 203.0.113.9"}}, "crawler"),
    ],
)
async def test_what_is_dropped_is_a_rejected_event(app: App, how: dict[str, Any], code: str) -> None:
    website = await app.website()
    answer = await send(app, VIEW, **how)
    assert (answer.status, answer.text, answer.headers["x-plausible-dropped"]) == (202, "ok", "1")
    assert await counted(app, website) == {code: 1}
    assert await stored(app, website) == []


async def test_an_unknown_website_is_dropped(app: App) -> None:
    answer = await send(app, VIEW)
    assert (answer.status, answer.headers["x-plausible-dropped"]) == (202, "1")
    assert app.node.rejected_events.requests["unknown_website"] == 1


async def test_a_body_that_is_too_large(app: App) -> None:
    assert (await send(app, b" " * 65_537)).status == 413


async def test_a_batch_of_tallys_own(app: App) -> None:
    """As the tracker sends it when it is served as Plausible's script, with the domain as website_id."""
    website = await app.website()
    batch = {
        "website_id": "example.com",
        "context": {},
        "events": [{"type": "pageview", "url": "https://example.com/x"}],
    }
    answer = await send(app, batch)
    assert (answer.status, answer.json) == (202, {"ok": True, "accepted": 1, "rejected": 0})
    assert [event["pathname"] for event in await stored(app, website)] == ["/x"]
    # The tracker sends events again that are refused for their number, so its response is not a success.
    answers = [await send(app, batch) for _ in range(120)]
    assert [answer.status for answer in answers] == [202] * 119 + [429]
    assert answers[-1].headers["Retry-After"] == "1"
    # At our own endpoint a website has its id alone.
    (error,) = (await app.collect(batch, ua=CHROME)).json["errors"]
    assert (error["index"], error["code"]) == (0, "invalid_website_id")
