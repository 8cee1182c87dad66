"""A field that only describes an event never costs it, whichever way the event comes.

docs/reference/collect-api.md, "Descriptive fields". The rules of each field: tests/unit/events/test_validation.py.
"""

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.app import App, MakeApp
from tests.support.read_api import HOUR_MS

PAGE = {"Origin": "https://example.com"}
REFERRERS = (
    *("about:blank", "com.example.app", "chrome-extension://abcdefgh/popup.html", "partner.example", "https://a..b/"),
    "https://example.org:99999/",
)
LONG = "a" * 9_000
# Each with its query or fragment, and the path that is stored.
URLS = {
    f"https://example.com/play?code={LONG}": "/play",
    f"https://example.com/play#{LONG}": "/play",
    f"https://example.com/cb?utm_source=mail&state={LONG}": "/cb",
}


def umami(**payload: Any) -> dict[str, Any]:
    """Return the body of Umami's format; the website is added by `senders`."""
    return {"type": "event", "payload": payload}


async def senders(app: App, website: str) -> dict[str, Any]:
    """Return functions that send a page view, with a url and a referrer, in each format."""

    async def collect(url: str, referrer: str) -> Any:
        return await app.collect(
            {"type": "pageview", "website_id": website, "url": url, "referrer": referrer}, headers=PAGE
        )

    async def batch(url: str, referrer: str) -> Any:
        item = {"type": "pageview", "url": url, "referrer": referrer}
        return await app.collect({"website_id": website, "events": [item]}, headers=PAGE)

    async def slow(url: str, referrer: str) -> Any:
        body = {"type": "pageview", "website_id": website, "url": url, "referrer": referrer}
        return await app.collect(body, headers=PAGE | {"Content-Encoding": "identity"})

    async def send(url: str, referrer: str) -> Any:
        return await app.collect(umami(website=website, url=url, referrer=referrer), headers=PAGE, path="/api/send")

    async def send_batch(url: str, referrer: str) -> Any:
        body = [umami(website=website, url=url, referrer=referrer)]
        return await app.collect(json.dumps(body), headers=PAGE, path="/api/batch")

    async def plausible(url: str, referrer: str) -> Any:
        body = {"name": "pageview", "domain": "example.com", "url": url, "referrer": referrer}
        return await app.collect(body, headers=PAGE, path="/api/event")

    async def count(url: str, referrer: str) -> Any:
        path = url.removeprefix("https://example.com").partition("?")[0].partition("#")[0]
        query = url.partition("#")[0].partition("?")[2]
        sent = f"/count?p={quote(path)}&r={quote(referrer, safe='')}&q={quote(query, safe='')}"
        return await app.get(sent, headers=PAGE)

    return {f.__name__: f for f in (collect, batch, slow, send, send_batch, plausible, count)}


@pytest.mark.parametrize("name", ["collect", "batch", "slow", "send", "send_batch", "plausible", "count"])
async def test_no_page_view_is_lost(make_app: MakeApp, name: str) -> None:
    """Not for its referrer, its query or its fragment, in Tally's format and those of other systems."""
    app = await make_app()
    website, key = await app.website(), await app.key()
    send = (await senders(app, website))[name]
    for referrer in REFERRERS:
        assert (await send("https://example.com/", referrer)).status in (200, 202), referrer
    for url in URLS:
        assert (await send(url, "https://search.example/")).status in (200, 202), url[:60]
    events = (await app.get(f"/api/v1/websites/{website}/events", key)).json["data"]
    assert sorted(event["pathname"] for event in events) == sorted(["/"] * len(REFERRERS) + list(URLS.values()))
    # The acquisition of the one visit is that of its first event with any.
    assert {event["referrer"] for event in events} == {"search.example"}
    await app.node.tick()
    rejected = (await app.get(f"/api/v1/websites/{website}/rejected", key)).json["data"]
    assert rejected["events"] == 0
    assert {"code": "without_referrer", "events": len(REFERRERS)} in rejected["warnings"]


async def test_the_response_names_what_is_omitted(app: App) -> None:
    """By index, code and field, beside the errors of the batch; a copy has the same warnings and counts once."""
    website, key = await app.website(), await app.key()
    body = {
        "website_id": website,
        "context": {"language": "nonsense!", "platform": 5},
        "events": [
            {"type": "pageview", "url": "/no-url"},
            {
                "type": "pageview",
                "url": "https://example.com/a",
                "referrer": "about:blank",
                "event_id": "1",
                "language": "fr",
            },
            {"type": "screen_view", "name": "home", "platform": "ios", "app_version": "1" * 101, "event_id": "2"},
        ],
    }
    answers = [await app.collect(body) for _ in range(2)]
    for answer in answers:
        assert (answer.status, answer.json["accepted"], answer.json["rejected"]) == (202, 2, 1)
        assert [(error["index"], error["code"]) for error in answer.json["errors"]] == [(0, "invalid_url")]
        assert answer.json["warnings"] == [
            {"index": 1, "code": "without_referrer", "field": "referrer"},
            {"index": 1, "code": "without_platform", "field": "platform"},
            {"index": 2, "code": "value_cut", "field": "app_version"},
            {"index": 2, "code": "without_language", "field": "language"},
        ]
    await app.node.tick()
    rejected = (await app.get(f"/api/v1/websites/{website}/rejected", key)).json["data"]
    assert [(reason["code"], reason["events"]) for reason in rejected["reasons"]] == [("invalid_url", 2)]
    assert rejected["warnings"] == [
        {"code": code, "events": 1}
        for code in ("value_cut", "without_language", "without_platform", "without_referrer")
    ]


async def test_the_pixel_counts_pages_with_long_queries(app: App) -> None:
    """The page is in the Referer header, which may have 16 KB."""
    website, key = await app.website(), await app.key()
    for url in URLS:
        answer = await app.get(f"/pixel.gif?website_id={website}", headers={"Referer": url.partition("#")[0]})
        assert answer.status == 200
    events = (await app.get(f"/api/v1/websites/{website}/events", key)).json["data"]
    assert sorted(event["pathname"] for event in events) == sorted(URLS.values())


CUT = '"cut \\ud83d"'
CUT_DATA = '{"title":"Hello \\ud83d"}'
CUT_BODIES = {
    "/api/collect": f"""{{"website_id":"WEBSITE","events":[{{"type":"pageview","url":"https://example.com/"}},
        {{"type":"event","event_name":{CUT},"event_data":{CUT_DATA}}}]}}""",
    "/api/send": f'{{"type":"event","payload":{{"website":"WEBSITE","url":"/","name":{CUT},"data":{CUT_DATA}}}}}',
    "/api/batch": f'[{{"type":"event","payload":{{"website":"WEBSITE","url":"/","name":{CUT},"data":{CUT_DATA}}}}}]',
    "/api/event": f'{{"domain":"WEBSITE","u":"https://example.com/","n":{CUT},"p":{CUT_DATA}}}',
}


@pytest.mark.parametrize("path", CUT_BODIES)
async def test_half_an_emoji_costs_no_event(app: App, path: str) -> None:
    """Neither its own nor the others of the request, in every format of JSON."""
    website, key = await app.website(), await app.key()
    answer = await app.collect(CUT_BODIES[path].replace("WEBSITE", website), headers=PAGE, path=path)
    assert answer.status in (200, 202), answer.text
    events = (await app.get(f"/api/v1/websites/{website}/events", key)).json["data"]
    assert (events[0]["event_name"], events[0]["event_data"]) == ("cut \ufffd", {"title": "Hello \ufffd"})
    assert len(events) == (2 if path == "/api/collect" else 1)


async def test_an_age_does_not_depend_on_the_clock_of_the_client(app: App) -> None:
    """age_ms is the time before the arrival, whatever the timestamp says; a copy with another age is a copy."""
    website, key = await app.website(), await app.key()
    times = {0: "2026-11-18T12:00:00.000+00:00", HOUR_MS: "2026-11-18T11:00:00.000+00:00"}
    times[71 * HOUR_MS] = "2026-11-15T13:00:00.000+00:00"
    for age in times:
        event = {
            "type": "pageview",
            "url": f"https://example.com/{age}",
            "event_id": f"id {age}",
            "website_id": website,
        }
        for more in ({"age_ms": age, "timestamp": 0}, {"age_ms": age + 1}):
            assert (await app.collect(event | more | {"website_id": website})).json["accepted"] == 1
    path = f"/api/v1/websites/{website}/events?from=2026-11-15&to=2026-11-18"
    events = (await app.get(path, key)).json["data"]
    assert {event["pathname"]: event["timestamp"] for event in events} == {f"/{age}": at for age, at in times.items()}
    assert len(events) == len(times)
