"""How events are stored: fields, context, times, identity and visits, read through the API and from the database.

Validation of each field is tested in test_validation.py; these tests check what the application stores. The rules are
in docs/reference/collect-api.md.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tally.maintenance import background_work
from tests.model.reference import FIELDS
from tests.support.app import CHROME, NOON_MS, SAFARI_IPHONE, Answer, App, MakeApp
from tests.support.mmdb import mmdb

URL = "https://example.com/"
ASTRAL = "\U0001f600"
ESCAPED = "%F0%9F%98%80"
SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MIDNIGHT_MS = NOON_MS - 12 * HOUR_MS
MINIMAL: dict[str, dict[str, Any]] = {
    "pageview": {"url": URL},
    "screen_view": {"name": "Home"},
    "event": {"event_name": "signup"},
    "app_event": {},
    "vitals": {"vitals": {"lcp": 1200}},
    "heatmap": {"points": [{"x": 0.5, "y": 10, "kind": "click"}], "viewport_width": 390},
    "ab_assign": {"experiment": "button", "variant": "red"},
    "ab_convert": {"experiment": "button", "variant": "red"},
}


def event(kind: str, **more: Any) -> dict[str, Any]:
    """Return the smallest valid event of a type, with further fields."""
    return {"type": kind, **MINIMAL[kind], **more}


async def send(app: App, website: str, *events: Any, context: Any = None, **how: Any) -> Answer:
    """Send one batch."""
    body: dict[str, Any] = {"website_id": website, "events": list(events)}
    return await app.collect(body if context is None else body | {"context": context}, **how)


async def rows(app: App, website: str, key: str, **params: str) -> list[dict[str, Any]]:
    """Return the rows of /events, oldest first."""
    answer = await app.get(f"/api/v1/websites/{website}/events", key, {"limit": "1000"} | params)
    assert answer.status == 200, answer.text
    return list(reversed(answer.json["data"]))


async def stats(app: App, website: str, key: str, **params: str) -> dict[str, Any]:
    answer = await app.get(f"/api/v1/websites/{website}/stats", key, params)
    assert answer.status == 200, answer.text
    data: dict[str, Any] = answer.json["data"]
    return data


def errors(answer: Answer) -> dict[int, tuple[str, str | None]]:
    """Return the code and field of each rejected event by its index."""
    return {error["index"]: (error["code"], error.get("field")) for error in answer.json.get("errors", [])}


def warnings(answer: Answer) -> list[tuple[int, str, str]]:
    """Return the index, code and field of each warning."""
    return [(warning["index"], warning["code"], warning["field"]) for warning in answer.json.get("warnings", [])]


# ---------------------------------------------------------------- what is stored


async def test_every_type_is_stored(app: App) -> None:
    """/events: every type but heatmap; id, type, timestamp, the dimensions, and what belongs to the type."""
    website, key = await app.website(), await app.key()
    assert (await send(app, website, *(event(kind) for kind in MINIMAL))).json["accepted"] == 8
    stored = await rows(app, website, key)
    assert [row["type"] for row in stored] == [kind for kind in MINIMAL if kind != "heatmap"]
    for row in stored:
        assert list(row) == ["id", "type", "timestamp", *FIELDS, "event_name", "event_data", "visit", "vitals",
                             "experiment", "variant", "goal", "value"]  # fmt: skip
        assert row["timestamp"] == "2026-11-18T12:00:00.000+00:00"
        is_traffic = row["type"] in ("pageview", "screen_view", "event", "app_event")
        assert isinstance(row["visit"], str) == is_traffic
    assert len({row["visit"] for row in stored if row["visit"]}) == 1
    assert app.sql("select sum(points) from heatmap_point") == [(1,)]
    assert app.sql("select events from account_usage") == [(8,)]


async def test_every_field_of_an_event(app: App) -> None:
    """The fields of an event are stored as sent."""
    website, key = await app.website(), await app.key()
    sent = event(
        "event",
        url="https://Shop.Example.com:8443/A%2Fb//c/?utm_source=News+Letter&utm_medium=E%2Dmail&utm_campaign=a%26b&q=1#x",
        name="ignored where there is a url",
        referrer="https://www.News.example.org:8443/story?id=5",
        event_name="caf\u00e9 " + ASTRAL,
        event_data={"plan": "pro", "price": 9.5, "new": True, "coupon": None, ASTRAL: 1},
        platform=" web ",
        app_version="1.2.3-rc.1",
        os_version="17.5",
        language="ZH-hant-tw",
        browser="My Browser",
        os="My OS",
        device="console",
        session_id="session-1",
        event_id="1",
        timestamp=NOON_MS - HOUR_MS,
    )
    assert (await send(app, website, sent)).json["accepted"] == 1
    (row,) = await rows(app, website, key)
    assert {name: row[name] for name in row if name not in ("id", "visit", "country")} == {
        **dict.fromkeys({*FIELDS} - {"country"}),
        "type": "event",
        "timestamp": "2026-11-18T11:00:00.000+00:00",
        "pathname": "/A%2Fb//c/",
        "referrer": "news.example.org",
        "browser": "My Browser",
        "os": "My OS",
        "device": "console",
        "language": "zh-Hant-TW",
        "hostname": "shop.example.com",
        "utm_source": "News Letter",
        "utm_medium": "E-mail",
        "utm_campaign": "a&b",
        "channel": "Email",
        "platform": " web ",
        "app_version": "1.2.3-rc.1",
        "os_version": "17.5",
        "event_name": "caf\u00e9 " + ASTRAL,
        "event_data": {"plan": "pro", "price": 9.5, "new": True, "coupon": None, ASTRAL: 1},
        "vitals": None,
        "experiment": None,
        "variant": None,
        "goal": None,
        "value": None,
    }


async def test_absent_values_are_null(app: App) -> None:
    """Absent and empty values are stored as null."""
    website, key = await app.website(), await app.key()
    empty = dict.fromkeys(("url", "name", "platform", "language", "browser", "os", "device", "event_name"), "")
    null = dict.fromkeys([*empty, "session_id", "event_id", "event_data", "timestamp", "referrer", "os_version"])
    sent = [event("app_event"), event("app_event", **empty), event("app_event", **null)]
    assert (await send(app, website, *sent, ua="", ip="192.0.2.1")).json["accepted"] == 3
    for row in await rows(app, website, key):
        assert {name for name in row if row[name] is not None} == {"id", "type", "timestamp", "visit", "channel"}


# (id, event, stored fields)
STORED_FIELDS: list[tuple[str, dict[str, Any], dict[str, str | None]]] = [
    ("url", event("pageview", url="https://example.com/a/B?q=1#f"), {"pathname": "/a/B", "hostname": "example.com"}),
    ("no-path", event("pageview", url="https://example.com"), {"pathname": "/"}),
    ("no-path-query", event("pageview", url="https://example.com?a=/b"), {"pathname": "/"}),
    ("escapes", event("pageview", url="https://example.com/caf%C3%A9/%2e%2E/"), {"pathname": "/"}),
    ("unescaped", event("pageview", url=f"https://example.com/caf\u00e9{ASTRAL}"),
     {"pathname": f"/caf%C3%A9{ESCAPED}"}),
    ("a-label", event("pageview", url="https://B\u00dcCHER.example./"), {"hostname": "xn--bcher-kva.example"}),
    ("url-and-name", event("pageview", url="https://example.com/a", name="b"), {"pathname": "/a"}),
    ("screen", event("screen_view", name="Home"), {"pathname": "/Home", "hostname": None}),
    ("screen-slash", event("screen_view", name="/Home"), {"pathname": "//Home"}),
    ("screen-any", event("screen_view", name=f" {ASTRAL}? #"), {"pathname": f"/%20{ESCAPED}%3F%20%23"}),
    ("screen-500", event("screen_view", name=ASTRAL * 500), {"pathname": "/" + ESCAPED * 500}),
    ("screen-with-url", event("screen_view", name="Home", url="https://app.example.com/x?utm_source=s"),
     {"pathname": "/Home", "hostname": "app.example.com", "utm_source": "s"}),
    ("event-url", event("event", url="https://example.com/a"), {"pathname": "/a", "hostname": "example.com"}),
    ("event-name", event("event", name="Cart"), {"pathname": "/Cart", "hostname": None}),
    ("event-without-page", event("event"), {"pathname": None, "hostname": None}),
    ("app-event-name", event("app_event", name="Cart"), {"pathname": "/Cart"}),
    ("vitals-url", event("vitals", url="https://example.com/a?utm_medium=m"), {"pathname": "/a", "utm_medium": "m"}),
    ("ab-name", event("ab_assign", name="Cart"), {"pathname": "/Cart"}),
    ("convert-url", event("ab_convert", url="https://example.com/pay"), {"pathname": "/pay"}),
    ("utm", event("pageview", url="https://example.com/?utm_source=a&utm_medium=b&utm_campaign=c"),
     {"utm_source": "a", "utm_medium": "b", "utm_campaign": "c"}),
    ("utm-decoded", event("pageview", url="https://example.com/?utm_source=a%20b+c%26&utm_medium=caf%C3%A9"),
     {"utm_source": "a b c&", "utm_medium": "caf\u00e9", "utm_campaign": None}),
    ("utm-empty", event("pageview", url="https://example.com/?utm_source=&utm_medium"),
     {"utm_source": None, "utm_medium": None}),
    ("utm-in-the-fragment", event("pageview", url="https://example.com/#utm_source=a"), {"utm_source": None}),
    ("utm-prefix", event("pageview", url="https://example.com/?xutm_source=a&utm_source2=b"), {"utm_source": None}),
    ("referrer", event("pageview", referrer="https://www.Google.com/search?q=x"), {"referrer": "google.com"}),
    ("referrer-screen", event("screen_view", referrer="https://a.example.org/"), {"referrer": "a.example.org"}),
    ("referrer-event", event("event", referrer="https://a.example.org/"), {"referrer": "a.example.org"}),
    ("referrer-app", event("pageview", referrer="android-app://com.google.android.gm/"),
     {"referrer": "com.google.android.gm"}),
    ("referrer-own", event("pageview", referrer="https://example.com/before"), {"referrer": None}),
    ("referrer-own-www", event("pageview", referrer="https://www.example.com/before"), {"referrer": None}),
    ("referrer-own-subdomain", event("pageview", referrer="http://shop.example.com:8080/"), {"referrer": None}),
    ("referrer-suffix", event("pageview", referrer="https://notexample.com/"), {"referrer": "notexample.com"}),
    ("referrer-of-app-event", event("app_event", referrer="https://a.example.org/"), {"referrer": None}),
    ("referrer-of-vitals", event("vitals", referrer="https://a.example.org/"), {"referrer": None}),
    ("one-vital", event("vitals", vitals={"cls": 0.125}), {"vitals": {"cls": 0.125}}),
    ("all-vitals", event("vitals", vitals={"lcp": 1, "inp": 2.5, "fcp": 3, "ttfb": 0, "cls": 0, "fid": 9}),
     {"vitals": {"lcp": 1, "inp": 2.5, "fcp": 3, "ttfb": 0, "cls": 0}}),
    ("assign", event("ab_assign"), {"experiment": "button", "variant": "red", "goal": None, "value": None}),
    ("convert", event("ab_convert", variant="blue", goal="buy", value=-9.5),
     {"experiment": "button", "variant": "blue", "goal": "buy", "value": -9.5}),
    ("app-event-named", event("app_event", event_name="x", event_data={}), {"event_name": "x", "event_data": {}}),
]  # fmt: skip


async def test_stored_fields(app: App) -> None:
    """pathname, hostname, utm and referrer are derived from the URLs; fields of each type are stored as sent."""
    website, key = await app.website(), await app.key()
    # Each from a visitor of its own: the events of one visit have the same acquisition.
    sent = [dict(item, app_version=name, session_id=f"session of {name}") for name, item, _ in STORED_FIELDS]
    answer = await send(app, website, *sent)
    assert answer.json == {"ok": True, "accepted": len(STORED_FIELDS), "rejected": 0}
    stored = {row["app_version"]: row for row in await rows(app, website, key)}
    assert {name: {field: stored[name][field] for field in kept} for name, _, kept in STORED_FIELDS} == {
        name: kept for name, _, kept in STORED_FIELDS
    }


LONG: dict[str, dict[str, Any]] = {
    "name": event("screen_view", name=ASTRAL * 500),
    "event_name": event("event", event_name=ASTRAL * 200),
    "platform": event("pageview", platform=ASTRAL * 100),
    "app_version": event("pageview", app_version=ASTRAL * 100),
    "os_version": event("pageview", os_version=ASTRAL * 100),
    "browser": event("pageview", browser=ASTRAL * 100),
    "os": event("pageview", os=ASTRAL * 100),
    "session_id": event("pageview", session_id=ASTRAL * 64),
    "event_id": event("pageview", event_id=ASTRAL * 64),
    "experiment": event("ab_assign", experiment=ASTRAL * 100),
    "variant": event("ab_assign", variant=ASTRAL * 100),
    "goal": event("ab_convert", goal=ASTRAL * 100),
    "url": event("pageview", url=URL + "a" * (8_192 - len(URL))),
    "referrer": event("pageview", referrer=URL + "a" * (8_192 - len(URL))),
}


DESCRIPTIVE = ("referrer", "platform", "app_version", "os_version", "browser", "os", "device", "language")


async def test_length_limits(app: App) -> None:
    """Lengths are counted in Unicode code points; the longest allowed value is accepted. One character more is cut from
    a descriptive field, and rejects the event in others."""
    website, key = await app.website(), await app.key()
    for name, item in LONG.items():  # one request each and unescaped: 8,192 escapes exceed the body limit
        longer = dict(item, **{name: item[name] + item[name][-1]})
        sent = [json.dumps({"website_id": website, **body}, ensure_ascii=False) for body in (item, longer)]
        assert (await app.collect(sent[0])).status == 202, name
        answer = await app.collect(sent[1])
        if name in DESCRIPTIVE:
            assert (answer.json["accepted"], warnings(answer)) == (1, [(0, "value_cut", name)])
        else:
            assert errors(answer) == {0: ("invalid_field", name)}
    assert (await send(app, website, event("pageview", session_id=ASTRAL * 8))).status == 202
    short = await send(app, website, event("pageview", session_id=ASTRAL * 7))
    assert errors(short) == {0: ("invalid_field", "session_id")}
    longest = max((row["pathname"] or "" for row in await rows(app, website, key)), key=len)
    assert longest == "/" + "a" * (8_192 - len(URL))


WRONG_TYPE_VALUES: list[Any] = [5, 1.5, True, False, [], {}, ["a"], {"a": "b"}, 2**63, 2**64 - 1, -(2**63), 1e300]


@pytest.mark.parametrize("kind", MINIMAL)
async def test_wrong_json_types(app: App, kind: str) -> None:
    """A wrong JSON type is rejected, or omitted of a descriptive field, never a 500; a boolean is not a number."""
    website = await app.website()
    texts = ["url", "name", "platform", "app_version", "os_version", "browser", "os", "device", "language"]
    texts += ["session_id", "event_id", *(field for field, value in MINIMAL[kind].items() if isinstance(value, str))]
    for field in dict.fromkeys(texts):
        answer = await send(app, website, *(event(kind, **{field: bad}) for bad in [*WRONG_TYPE_VALUES, "a\0"]))
        indices = range(len(WRONG_TYPE_VALUES) + 1)
        if field in DESCRIPTIVE:
            assert answer.status == 202, (field, answer.text)
            assert warnings(answer) == [(index, f"without_{field}", field) for index in indices]
        else:
            assert answer.status == 400, (field, answer.text)
            assert errors(answer) == dict.fromkeys(indices, ("invalid_field", field))
    numbers = [value for value in WRONG_TYPE_VALUES if isinstance(value, float) or type(value) is int]
    bad = [value for value in WRONG_TYPE_VALUES if value not in numbers or isinstance(value, bool)]
    answer = await send(app, website, *(event(kind, timestamp=value) for value in bad))
    assert errors(answer) == dict.fromkeys(range(len(bad)), ("invalid_field", "timestamp"))
    answer = await send(app, website, *(event(kind, timestamp=value) for value in numbers))
    assert answer.status == 400
    assert set(errors(answer)) == set(range(len(numbers)))


async def test_values_from_request_headers(app: App) -> None:
    """browser, os, os_version and device come from the event or context, else from the User-Agent; language else from
    Accept-Language; country from the client address."""
    website, key = await app.website(), await app.key()
    await send(app, website, event("pageview"), ua=SAFARI_IPHONE, ip="8.8.8.8",
               headers={"Accept-Language": "pt-br,pt;q=0.9,en;q=0.8"})  # fmt: skip
    explicit = event("pageview", browser="B", os="O", device="tv", language="fr", os_version="1")
    await send(app, website, explicit, ua=SAFARI_IPHONE, ip="8.8.8.8", headers={"Accept-Language": "pt-br"})
    await send(app, website, event("pageview"), ua=CHROME, ip="2001:4860:4860::8888", headers={"Accept-Language": "*"})
    await send(app, website, event("app_event", os="Android"), ua="okhttp/4.12.0", ip="10.0.0.1")
    found = [
        [row[name] for name in ("browser", "os", "os_version", "device", "language", "country", "browser_version")]
        for row in await rows(app, website, key)
    ]
    assert found[0] == ["Safari", "iOS", "17.5", "mobile", "pt-BR", "US", "17"]
    assert found[1] == ["B", "O", "1", "tv", "fr", "US", None]
    assert found[2][:5] == ["Chrome", "Windows", None, "desktop", None]
    assert found[2][5] is not None
    assert found[2][6] == "142"
    assert found[3] == [None, "Android", None, None, None, None, None]


async def test_client_hints_name_the_browser_and_are_no_part_of_the_identity(app: App) -> None:
    """Sec-CH-UA, -Mobile and -Platform are read where they come; the visitor is the same with and without them."""
    website, key = await app.website(), await app.key()
    hints = {"Sec-CH-UA": '"Not)A;Brand";v="8", "Chromium";v="142", "Brave";v="142"', "Sec-CH-UA-Mobile": "?0"}
    await send(app, website, event("pageview"), ua=CHROME, ip="8.8.8.8", headers=hints)
    await send(app, website, event("pageview"), ua=CHROME, ip="8.8.8.8", headers=hints | {"Sec-CH-UA": '"Brave'})
    await send(app, website, event("pageview"), ua=CHROME, ip="8.8.8.8")
    found = [(row["browser"], row["browser_version"]) for row in await rows(app, website, key)]
    assert found == [("Brave", "142"), ("Chrome", "142"), ("Chrome", "142")]
    assert app.sql("select count(distinct visitor) from event") == [(1,)]


async def test_region_and_city_come_from_a_database_of_cities(make_app: MakeApp, tmp_path: Path) -> None:
    """region, city: where --geoip-db names a database that has them; otherwise unset."""
    london = {
        "country": {"iso_code": "GB"},
        "subdivisions": [{"iso_code": "ENG"}, {"iso_code": "WBK"}],
        "city": {"names": {"de": "London (de)", "en": "London"}},
    }
    path = tmp_path / "city.mmdb"
    path.write_bytes(mmdb({"81.2.69.0/24": london, "8.8.8.0/24": {"country": {"iso_code": "US"}}}))
    app = await make_app(geoip_db=path)
    website, key = await app.website(), await app.key()
    for address in ("81.2.69.142", "8.8.8.8", "192.0.2.1"):
        for sent in (
            event("pageview"),
            event("vitals", vitals={"lcp": 100}),
            event("ab_assign", experiment="x", variant="a"),
        ):
            assert (await send(app, website, sent, ip=address)).json["accepted"] == 1
    places = ("country", "region", "city")
    found = [tuple(row[name] for name in places) for row in await rows(app, website, key)]
    expected = [("GB", "GB-ENG", "London"), ("US", None, None), (None, None, None)]
    assert sorted(found, key=str) == sorted(expected * 3, key=str)
    for field, value in zip(places, expected[0], strict=True):
        top = (await app.get(f"/api/v1/websites/{website}/top/{field}?filter_{field}={value}", key)).json["data"]
        assert [(row["value"], row["pageviews"]) for row in top] == [(value, 1)]
    csv = (await app.get(f"/api/v1/websites/{website}/events?format=csv&filter_city=London", key)).text
    assert csv.count(",GB-ENG,London,") == 3


# ---------------------------------------------------------------- context


async def test_context(app: App) -> None:
    """context may fill platform, app_version, os_version, language, browser, os, device; anything else in it is
    ignored. The event's own value wins."""
    website, key = await app.website(), await app.key()
    context = {
        "platform": "ios",
        "app_version": "2.0",
        "os_version": "18.1",
        "language": "de-at",
        "browser": "In App",
        "os": "iOS",
        "device": "tablet",
        "session_id": "session-1",
        "url": "https://example.com/context",
        "name": "context",
        "event_name": "context",
        "timestamp": 0,
        "utm_source": "context",
        "website_id": "nonsense",
        "type": "event",
    }
    own = {"platform": "p", "app_version": "a", "os_version": "o", "language": "fr", "browser": "b", "os": "s"}
    answer = await send(
        app, website, event("app_event"), event("app_event", **own, device="tv"),
        event("app_event", platform=None, os=""), context=context,
    )  # fmt: skip
    assert answer.json == {"ok": True, "accepted": 3, "rejected": 0}
    filled, explicit, mixed = await rows(app, website, key)
    from_context = {name: context[name] for name in (*own, "device")} | {"language": "de-AT"}
    assert {name: filled[name] for name in from_context} == from_context
    assert {name: explicit[name] for name in from_context} == own | {"device": "tv"}
    assert {name: mixed[name] for name in from_context} == from_context
    assert filled["pathname"] is filled["event_name"] is filled["utm_source"] is None
    assert filled["timestamp"] == "2026-11-18T12:00:00.000+00:00"


@pytest.mark.parametrize(
    "bad", [5, True, [], {}, "a" * 101, "a\0"], ids=["number", "true", "array", "object", "long", "nul"]
)
async def test_bad_context(app: App, bad: Any) -> None:
    """A bad value in the context is omitted of each event that uses it, or cut."""
    website, key = await app.website(), await app.key()
    for name in ("platform", "app_version", "os_version", "language", "browser", "os", "device"):
        own = {"language": "fr", "device": "tv"}.get(name, "own")
        answer = await send(
            app, website, event("pageview"), event("pageview", **{name: own}), event("vitals"),
            event("app_event", **{name: None}), event("app_event", **{name: own}), context={name: bad},
        )  # fmt: skip
        is_cut = bad == "a" * 101 and name not in ("language", "device")
        code = "value_cut" if is_cut else f"without_{name}"
        assert (answer.status, answer.json["accepted"], answer.json["rejected"]) == (202, 5, 0)
        assert warnings(answer) == [(index, code, name) for index in (0, 2, 3)]
        newest = (await rows(app, website, key))[-5:]
        kept = newest[0][name]
        assert [row[name] for row in newest] == [kept, own, kept, kept, own]
        assert kept == ("a" * 100 if is_cut else newest[2][name])


# ---------------------------------------------------------------- timestamp


async def test_timestamps(app: App) -> None:
    """Integer milliseconds or ISO 8601; at most 72 hours old; up to 5 minutes ahead is stored as now."""
    website, key = await app.website(), await app.key()
    cases: dict[str, tuple[Any, str]] = {
        "absent": (None, "2026-11-18T12:00:00.000+00:00"),
        "integer": (NOON_MS - 1, "2026-11-18T11:59:59.999+00:00"),
        "float": (float(NOON_MS - 1), "2026-11-18T11:59:59.999+00:00"),
        "oldest": (NOON_MS - 72 * HOUR_MS, "2026-11-15T12:00:00.000+00:00"),
        "ahead": (NOON_MS + 5 * MINUTE_MS, "2026-11-18T12:00:00.000+00:00"),
        "iso": ("2026-11-18T11:00:00Z", "2026-11-18T11:00:00.000+00:00"),
        "iso-offset": ("2026-11-18T01:00:00.5-10:30", "2026-11-18T11:30:00.500+00:00"),
        "iso-naive": ("2026-11-18T11:00:00.123", "2026-11-18T11:00:00.123+00:00"),
        "iso-cut": ("2026-11-18T11:00:00.123999Z", "2026-11-18T11:00:00.123+00:00"),
        "iso-date": ("2026-11-18", "2026-11-18T00:00:00.000+00:00"),
        "iso-ahead": ("2026-11-18T12:05:00Z", "2026-11-18T12:00:00.000+00:00"),
    }
    bad: dict[str, tuple[Any, str]] = {
        "too-old": (NOON_MS - 72 * HOUR_MS - 1, "timestamp_too_old"),
        "too-far": (NOON_MS + 5 * MINUTE_MS + 1, "timestamp_in_future"),
        "iso-too-old": ("2026-11-15T11:59:59.999Z", "timestamp_too_old"),
        "iso-too-far": ("2026-11-18T12:05:00.001Z", "timestamp_in_future"),
        "half": (NOON_MS - 0.5, "invalid_field"),
        "words": ("now", "invalid_field"),
        "true": (True, "invalid_field"),
    }
    sent = [event("pageview", app_version=name, timestamp=value) for name, (value, _) in (cases | bad).items()]
    answer = await send(app, website, *sent)
    assert {n: code for n, (code, _) in errors(answer).items()} == {
        len(cases) + n: code for n, (_, code) in enumerate(bad.values())
    }
    assert {field for _, field in errors(answer).values()} == {"timestamp"}
    stored = {row["app_version"]: row["timestamp"] for row in await rows(app, website, key)}
    assert stored == {name: text for name, (_, text) in cases.items()}


# ---------------------------------------------------------------- vitals, heatmaps and experiments in the database


async def test_stored_vitals(app: App) -> None:
    """Metrics are stored apart from traffic, in microseconds; cls in millionths."""
    website = await app.website()
    await send(app, website, event("vitals", vitals={"lcp": 2_500.25, "cls": 0.1}, timestamp=NOON_MS - 5))
    assert app.sql("select ts, lcp, inp, fcp, ttfb, cls from web_vitals") == [
        (NOON_MS - 5, 2_500_250, None, None, None, 100_000)
    ]
    assert app.sql("select count(*) from event") == app.sql("select count(*) from visit") == [(0,)]


async def test_stored_heatmap_points(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points are binned as they arrive, per page, day, kind and viewport width."""
    monkeypatch.setattr(background_work, "PAUSE_S", 1e6)  # points of past days are compressed in the background
    app = await make_app()
    website = await app.website()
    corner = {"x": 1, "y": 0, "kind": "click"}
    middle = {"x": 0.5, "y": 1_000, "kind": "click"}
    depth = {"x": 0.7, "y": 1_000_000, "kind": "scroll"}
    heat = event("heatmap", url=URL + "a", points=[corner, middle, middle, depth], viewport_width=1_200)
    await send(app, website, heat, heat, dict(heat, viewport_width=390), dict(heat, timestamp=NOON_MS - DAY_MS))
    await send(app, website, heat, dict(heat, url=URL + "b"))
    found = app.sql(
        "select (select text from label where id = pathname), day - ?, kind, sum(points) from heatmap_point"
        " group by 1, 2, 3 order by 1, 2, 3",
        NOON_MS // DAY_MS,
    )
    assert found == [
        ("/a", -1, 0, 3),
        ("/a", -1, 1, 1),
        ("/a", 0, 0, 12),
        ("/a", 0, 1, 4),
        ("/b", 0, 0, 3),
        ("/b", 0, 1, 1),
    ]
    assert len(app.sql("select distinct viewport from heatmap_point")) == 2
    bins = app.sql("select bin_y, sum(points) from heatmap_point where kind = 0 group by 1 order by 1")
    assert [points for _, points in bins] == [6, 12]
    assert app.sql("select count(*) from event") == [(0,)]


async def test_conversions(app: App) -> None:
    """An ab_convert with a variant is accepted; without one the visitor must have sent an assignment that day, else
    the code is no_assignment. The first assignment counts."""
    website, key = await app.website(), await app.key()

    async def convert(**more: Any) -> dict[int, tuple[str, str | None]]:
        how = {name: more.pop(name) for name in ("ip", "ua") if name in more}
        body = {"type": "ab_convert", "website_id": website, "experiment": "button", **more}
        return errors(await app.collect(body, **how))

    refused = {0: "no_assignment"}

    def codes(found: dict[int, tuple[str, str | None]]) -> dict[int, str]:
        return {n: code for n, (code, _) in found.items()}

    assert codes(await convert(goal="1")) == refused
    assert await convert(goal="2", variant="blue") == {}
    assert codes(await convert(goal="3")) == refused  # a conversion does not assign
    await send(app, website, event("ab_assign"))
    assert await convert(goal="4") == {}
    await send(app, website, event("ab_assign", variant="green"))
    assert await convert(goal="5") == {}
    assert await convert(goal="6", variant="blue") == {}
    assert codes(await convert(goal="7", ip="203.0.113.8")) == refused
    assert codes(await convert(goal="8", ua=SAFARI_IPHONE)) == refused
    assert codes(await convert(goal="9", session_id="session-1")) == refused
    assert codes(await convert(goal="10", experiment="other")) == refused
    assert codes(await convert(goal="11", timestamp=MIDNIGHT_MS - 1)) == refused
    other = await app.website("example.org")
    foreign = {"type": "ab_convert", "website_id": other, "experiment": "button"}
    assert codes(errors(await app.collect(foreign))) == refused
    green = [event("ab_assign", variant="green"), event("ab_convert", goal="11a", variant=None)]
    assert errors(await send(app, website, *green)) == {}
    # In one batch, in its order.
    tail = [
        event("ab_convert", goal="12", variant=None),
        event("ab_assign"),
        event("ab_convert", goal="13", variant=None),
    ]
    answer = await send(app, website, *(dict(item, session_id="session-2") for item in tail))
    assert codes(errors(answer)) == refused
    converted = {row["goal"]: row["variant"] for row in await rows(app, website, key, filter_type="ab_convert")}
    assert converted == {"2": "blue", "4": "red", "5": "red", "6": "blue", "11a": "red", "13": "red"}
    # After midnight, and after a restart, the visitor is a new one.
    app.clock.advance(12 * 3_600)
    assert codes(await convert(goal="14")) == refused
    assert await convert(goal="15", timestamp=NOON_MS) == {}
    await app.restart()
    assert codes(await convert(goal="16", timestamp=NOON_MS)) == refused
    data = await stats(app, website, key)
    assert (data["visitors"], data["visits"], data["pageviews"], data["events"]) == (0, 0, 0, 0)


async def test_experiments_and_traffic_share_the_visitor(app: App) -> None:
    """An assignment is stored with the visitor number of the pageviews."""
    website = await app.website()
    await send(app, website, event("ab_assign"), event("pageview"), event("ab_convert", variant=None))
    assert len(app.sql("select visitor from event union select visitor from experiment_event")) == 1


# ---------------------------------------------------------------- identity


async def test_visitor_identity(app: App) -> None:
    """Identity is (website, day, session_id) where the event has a session_id (address and User-Agent are then
    ignored), else (website, full client address, User-Agent)."""
    website, other, key = await app.website(), await app.website("example.org"), await app.key()
    steps: list[tuple[dict[str, Any], dict[str, str], int]] = [
        ({}, {}, 1),
        ({}, {}, 1),
        ({}, {"ip": "203.0.113.8"}, 2),
        ({}, {"ua": SAFARI_IPHONE}, 3),
        ({}, {"ua": CHROME + " "}, 3),  # whitespace around a header value is stripped
        ({}, {"ua": CHROME.lower()}, 4),
        ({"session_id": "session-1"}, {}, 5),
        ({"session_id": "session-1"}, {"ip": "203.0.113.8"}, 5),
        ({"session_id": "session-1"}, {"ua": SAFARI_IPHONE}, 5),
        ({"session_id": "session-2"}, {}, 6),
        ({"session_id": "SESSION-1"}, {}, 7),
        ({}, {}, 7),
        ({}, {"ip": "2001:db8::1"}, 8),
        ({}, {"ip": "2001:db8::2"}, 9),  # the full address counts, though both share one rate limit
        ({}, {"ip": "2001:DB8:0::0001"}, 9),
        ({}, {"ip": "::ffff:203.0.113.7"}, 9),
    ]
    for fields, how, visitors in steps:
        await send(app, website, event("pageview", **fields), **how)
        data = await stats(app, website, key)
        assert data["visitors"] == visitors, (fields, how)
    assert data["pageviews"] == len(steps)
    await send(app, other, event("pageview", session_id="session-1"), event("pageview"))
    assert (await stats(app, other, key))["visitors"] == 2
    by_website = app.sql("select website, visitor from event group by 1, 2")
    assert len({visitor for _, visitor in by_website}) == len(by_website) == 11


async def test_visitors_are_counted_per_utc_day(app: App) -> None:
    """The day is that of the event's timestamp; no visit crosses midnight UTC."""
    website, key = await app.website(), await app.key()
    times = [MIDNIGHT_MS - 1, MIDNIGHT_MS, MIDNIGHT_MS - DAY_MS, MIDNIGHT_MS - DAY_MS - 1, MIDNIGHT_MS + 1]
    for fields in ({}, {"session_id": "session-1"}):
        await send(app, website, *(event("pageview", timestamp=t, **fields) for t in times))
    data = await stats(app, website, key)
    assert (data["visitors"], data["visits"], data["pageviews"]) == (6, 8, 10)
    days = app.sql("select ts / 86400000, count(distinct visitor) from event group by 1 order by 1")
    assert [visitors for _, visitors in days] == [2, 2, 2]
    assert len(app.sql("select distinct visitor from event")) == 6


async def test_day_change_while_running(app: App) -> None:
    """A visit in progress at midnight UTC counts as two."""
    website, key = await app.website(), await app.key()
    app.clock.set_wall(MIDNIGHT_MS + DAY_MS - 1)
    await send(app, website, event("pageview"))
    app.clock.advance(0.001)
    await send(app, website, event("pageview"))
    data = await stats(app, website, key)
    assert (data["visitors"], data["visits"], data["bounce_rate"]) == (2, 2, 100.0)
    # A timestamp ahead of now is stored as now, so it belongs to the current day.
    app.clock.set_wall(MIDNIGHT_MS + 2 * DAY_MS - 1)
    await send(app, website, event("pageview", timestamp=MIDNIGHT_MS + 2 * DAY_MS + 5))
    assert (await stats(app, website, key))["visitors"] == 2


async def test_a_restart_makes_a_new_visitor_once(app: App) -> None:
    """After a restart the same client counts as a new visitor, once."""
    website, key = await app.website(), await app.key()
    both = [event("pageview"), event("pageview", session_id="session-1")]
    await send(app, website, *both)
    await app.restart()
    for _ in range(3):
        await send(app, website, *both)
    data = await stats(app, website, key)
    assert (data["visitors"], data["visits"], data["pageviews"]) == (4, 4, 8)


async def test_an_eviction_makes_a_new_visitor_once(make_app: MakeApp) -> None:
    """The number of identities in memory is bounded; the least recently used is evicted."""
    app = await make_app(max_identities=2)
    website, key = await app.website(), await app.key()
    for session in (1, 2, 1, 3, 1, 2, 2):  # 3 evicts 2, then 2 evicts 3
        await send(app, website, event("pageview", session_id=f"session-{session}"))
    assert (await stats(app, website, key))["visitors"] == 4


async def test_identities_expire_without_traffic(app: App) -> None:
    """Identities expire 72 hours after the end of their day, also when no events arrive."""
    website = await app.website()
    await send(app, website, event("pageview", session_id="session-1"))
    app.clock.advance((MIDNIGHT_MS + DAY_MS + 72 * HOUR_MS - 1 - app.clock.wall_ms()) / 1000)
    await app.node.tick()
    assert (
        len(app.running.event_writer.decider.sessions) == 1
    )  # an event of the last millisecond of the day is still accepted
    app.clock.advance(0.002)
    await app.node.tick()
    assert len(app.running.event_writer.decider.sessions) == 0


# ---------------------------------------------------------------- visits

# (id, events as (ms after noon, type) in order of arrival; visits, bounces, seconds of all visits)
VISITS: list[tuple[str, list[tuple[int, str]], tuple[int, int, int]]] = [
    ("one-view", [(0, "pageview")], (1, 1, 0)),
    ("one-screen", [(0, "screen_view")], (1, 1, 0)),
    ("one-event", [(0, "event")], (1, 0, 0)),
    ("view-and-event", [(0, "pageview"), (0, "app_event")], (1, 0, 0)),
    ("two-views-at-once", [(0, "pageview"), (0, "pageview")], (1, 0, 0)),
    ("gap-of-30-minutes", [(0, "pageview"), (30 * MINUTE_MS, "pageview")], (1, 0, 1_800)),
    ("1-ms-more", [(0, "pageview"), (30 * MINUTE_MS + 1, "pageview")], (2, 2, 0)),
    ("late-30-minutes-before", [(30 * MINUTE_MS, "pageview"), (0, "event")], (1, 0, 1_800)),
    ("late-1-ms-more", [(30 * MINUTE_MS + 1, "pageview"), (0, "event")], (2, 1, 0)),
    ("late-joins-two", [(0, "pageview"), (60 * MINUTE_MS, "pageview"), (30 * MINUTE_MS, "event")], (1, 0, 3_600)),
    ("late-joins-one", [(0, "pageview"), (60 * MINUTE_MS, "pageview"), (29 * MINUTE_MS, "event")], (2, 1, 1_740)),
    ("backwards", [(n * 30 * MINUTE_MS, "event") for n in range(8, -1, -1)], (1, 0, 14_400)),
    ("vitals-do-not-join", [(0, "pageview"), (20 * MINUTE_MS, "vitals"), (40 * MINUTE_MS, "pageview")], (2, 2, 0)),
    ("heatmap-does-not-lengthen", [(0, "pageview"), (20 * MINUTE_MS, "heatmap")], (1, 1, 0)),
    ("ab-does-not-lengthen", [(0, "pageview"), (9, "ab_assign"), (20 * MINUTE_MS, "ab_convert")], (1, 1, 0)),
    ("no-traffic", [(0, "vitals"), (0, "heatmap"), (0, "ab_assign"), (0, "ab_convert")], (0, 0, 0)),
]  # fmt: skip


async def test_visits(app: App) -> None:
    """A visit is a run of events without a gap over 30 minutes (exactly 30:00.000 joins), whatever the order of
    arrival. A bounce has one pageview and no event. Vitals, heatmap and experiment events neither open nor lengthen a
    visit. Each case is sent as one batch and as one request per event."""
    key = await app.key()
    app.clock.set_wall(NOON_MS + 5 * HOUR_MS)
    for name, events, (visits, bounces, seconds) in VISITS:
        items = [event(kind, timestamp=NOON_MS + at_ms) for at_ms, kind in events]
        together, apart = await app.website(), await app.website()
        await send(app, together, *items)
        for item in items:
            await send(app, apart, item)
        for website in (together, apart):
            data = await stats(app, website, key)
            traffic = sum(kind in ("pageview", "screen_view", "event", "app_event") for _, kind in events)
            assert (data["visitors"], data["visits"]) == (int(visits > 0), visits), name
            assert data["pageviews"] + data["events"] == traffic, name
            if visits:
                assert data["bounce_rate"] == round(100 * bounces / visits, 1), name
                assert data["visit_duration"] == seconds // visits, name
            else:
                assert data["bounce_rate"] is data["views_per_visit"] is data["visit_duration"] is None
            shown = [row["visit"] for row in await rows(app, website, key) if row["visit"]]
            assert len(set(shown)) == visits, name


async def test_a_late_event_joins_two_visits(app: App) -> None:
    """All events of both are shown with one visit, and one row is stored."""
    website, key = await app.website(), await app.key()
    app.clock.set_wall(NOON_MS + 5 * HOUR_MS)
    for minutes in (0, 10, 120, 61, 70, 180, 36, 90, 150):
        await send(app, website, event("pageview", timestamp=NOON_MS + minutes * MINUTE_MS))
    stored = await rows(app, website, key)
    assert len({row["visit"] for row in stored}) == 1
    assert app.sql("select start_ms, duration_ms, pageviews, events from visit") == [(NOON_MS, 180 * MINUTE_MS, 9, 0)]
    app.clock.set_wall(NOON_MS + 6 * HOUR_MS)
    await send(app, website, event("event"))
    assert len({row["visit"] for row in await rows(app, website, key)}) == 2
    data = await stats(app, website, key)
    assert (data["visitors"], data["visits"], data["visit_duration"]) == (1, 2, 5_400)
