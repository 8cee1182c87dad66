"""tally/events/dimensions.py: a checked event and its request -> its dimensions.

The rules are in docs/reference/collect-api.md, Dimensions.
"""

from typing import Any

import pytest

from tally.events.dimensions import CHANNEL, FIELDS, channel_of, dimensions, first_language
from tally.events.request_context import NOWHERE, Agent, Place, RequestContext
from tally.events.urls import WebUrl
from tally.events.validation import (
    AB_ASSIGN,
    APP_EVENT,
    EVENT,
    HEATMAP,
    PAGEVIEW,
    SCREEN_VIEW,
    VITALS,
    Event,
    Rejection,
    read_event,
)
from tests.model import reference
from tests.support.cases import cases

COLLECTOR = Agent("Chrome", "142", "Windows", "7", "desktop", False)
UNKNOWN_AGENT = Agent("", "", "", "", "", False)


def url(path: str = "/p", query: str = "", host: str = "example.com") -> WebUrl:
    return WebUrl(host, path, query)


def dimensions_of(
    type_: int = PAGEVIEW, agent: Agent = UNKNOWN_AGENT, country: str = "", language: str = "", **fields: Any
) -> dict[str, str]:
    """The dimensions that are set, without the channel."""
    found = dimensions(Event(type_, 0, **fields), RequestContext(agent, Place(country), language), "example.com")
    return {name: text for name, text in zip(FIELDS, found, strict=True) if text and name != "channel"}


def test_the_fields_equal_the_documented_ones() -> None:
    """The dimensions, in the order of the documentation."""
    assert FIELDS == reference.FIELDS


@cases(
    ("type_", "fields", "path"),
    [
        pytest.param(PAGEVIEW, {"url": url("/A/b%20c/")}, "/A/b%20c/", id="as-sent"),
        pytest.param(PAGEVIEW, {"url": url("/")}, "/", id="root"),
        pytest.param(PAGEVIEW, {"url": url("/p"), "name": "Home"}, "/p", id="url-before-name"),
        pytest.param(SCREEN_VIEW, {"name": "Home"}, "/Home", id="screen"),
        pytest.param(SCREEN_VIEW, {"name": "Home", "url": url("/p")}, "/Home", id="screen-name-before-url"),
        pytest.param(SCREEN_VIEW, {"name": "/Home"}, "//Home", id="screen-with-slash"),
        pytest.param(SCREEN_VIEW, {"name": " "}, "/%20", id="screen-blank"),
        pytest.param(SCREEN_VIEW, {"name": "Caf\u00e9? 100%"}, "/Caf%C3%A9%3F%20100%", id="screen-text"),
        pytest.param(SCREEN_VIEW, {"name": "../a"}, "/a", id="screen-dots"),
        *(
            pytest.param(type_, {"url": url("/p"), "name": "Home"}, "/p", id=f"{type_}-url")
            for type_ in (EVENT, APP_EVENT, VITALS, HEATMAP, AB_ASSIGN)
        ),
        *(
            pytest.param(type_, {"name": "Home"}, "/Home", id=f"{type_}-name")
            for type_ in (EVENT, APP_EVENT, VITALS, HEATMAP, AB_ASSIGN)
        ),
        pytest.param(EVENT, {}, None, id="no-page"),
    ],
)
def test_pathname(type_: int, fields: dict[str, Any], path: str | None) -> None:
    """Of screen_view `/` + name, of other types the URL's path ..., else `/` + name."""
    assert dimensions_of(type_, **fields).get("pathname") == path


@cases(
    ("fields", "version"),
    [({}, "142"), ({"browser": "Chrome"}, "142"), ({"browser": "Other"}, None), ({"os": "Other"}, "142")],
    ids=str,
)
def test_browser_version_belongs_to_its_browser(fields: dict[str, str], version: str | None) -> None:
    """browser_version: from the User-Agent; unset where the event or context names another browser."""
    assert dimensions_of(agent=COLLECTOR, **fields).get("browser_version") == version


def test_place_is_the_clients() -> None:
    """region, city: looked up for the client address."""
    found = dimensions(
        Event(PAGEVIEW, 0), RequestContext(UNKNOWN_AGENT, Place("GB", "GB-ENG", "London"), ""), "example.com"
    )
    set_ = {name: text for name, text in zip(FIELDS, found, strict=True) if text}
    assert set_ == {"country": "GB", "region": "GB-ENG", "city": "London", "channel": "Direct"}


def test_hostname_is_the_urls() -> None:
    """hostname: of `url`, of a screen_view too; a name has none."""
    assert dimensions_of(url=url(host="www.example.com"))["hostname"] == "www.example.com"
    assert dimensions_of(SCREEN_VIEW, name="Home", url=url(host="app.example.com"))["hostname"] == "app.example.com"
    assert "hostname" not in dimensions_of(SCREEN_VIEW, name="Home")


@cases(
    ("referrer", "kept"),
    [
        ("news.example.net", True),
        ("example.com", False),
        ("shop.example.com", False),
        ("a.b.example.com", False),
        ("evilexample.com", True),
        ("example.com.evil.net", True),
        ("com", True),
        ("", False),
    ],
)
def test_referrer(referrer: str, kept: bool) -> None:
    """The website's own domain and its subdomains are no referrer."""
    assert dimensions_of(url=url(), referrer=referrer).get("referrer") == (referrer if kept else None)


@cases(
    ("referrer", "query", "channel"),
    [
        pytest.param("", "", "Direct", id="none"),
        pytest.param("example.com", "", "Direct", id="own-website"),
        pytest.param("google.com", "", "Organic search", id="referrer"),
        pytest.param("google.com", "utm_source=mail&utm_medium=email", "Email", id="utm-before-referrer"),
        pytest.param("chatgpt.com", "", "AI assistants", id="assistant"),
        pytest.param("", "utm_campaign=c", "Other", id="campaign"),
        pytest.param("", "utm_content=c&utm_term=t", "Direct", id="not-content-and-term"),
    ],
)
def test_channel(referrer: str, query: str, channel: str) -> None:
    """channel: from referrer, utm_source, utm_medium and utm_campaign, as they are stored."""
    event = Event(PAGEVIEW, 0, url=url(query=query), referrer=referrer)
    found = dimensions(event, RequestContext(UNKNOWN_AGENT, NOWHERE, ""), "example.com")
    assert found[CHANNEL] == channel == channel_of(found)


@cases(
    ("query", "found"),
    [
        ("utm_source=a&utm_medium=b&utm_campaign=c", ("a", "b", "c")),
        ("utm_campaign=c+d%26e", (None, None, "c d&e")),
        ("utm_source=&utm_medium=b", (None, "b", None)),
        ("UTM_SOURCE=a&xutm_source=b&utm_sourcex=c", (None, None, None)),
        ("q=utm_source=a", (None, None, None)),
        ("", (None, None, None)),
    ],
)
def test_utm(query: str, found: tuple[str | None, ...]) -> None:
    """utm_source, utm_medium, utm_campaign: from the URL's query; the rest ... is dropped."""
    about = dimensions_of(url=url(query=query))
    assert tuple(about.get(f"utm_{name}") for name in ("source", "medium", "campaign")) == found
    assert set(about) - {"utm_source", "utm_medium", "utm_campaign"} == {"pathname", "hostname"}


@cases(
    ("fields", "agent", "expected"),
    [
        pytest.param({}, COLLECTOR, ("Chrome", "Windows", "desktop", "7"), id="header"),
        pytest.param({}, UNKNOWN_AGENT, (None, None, None, None), id="no-header"),
        pytest.param({"browser": "B", "os": "O", "device": "tv", "os_version": "1"}, COLLECTOR, ("B", "O", "tv", "1")),
        pytest.param({"browser": "B"}, COLLECTOR, ("B", "Windows", "desktop", "7"), id="event-in-part"),
        pytest.param({"os_version": "11"}, COLLECTOR, ("Chrome", "Windows", "desktop", "11"), id="own-version"),
        pytest.param({"os": "Windows"}, COLLECTOR, ("Chrome", "Windows", "desktop", "7"), id="same-system"),
        # the header's version is that of another system
        pytest.param({"os": "Haiku"}, COLLECTOR, ("Chrome", "Haiku", "desktop", None), id="other-system"),
    ],
)  # fmt: skip
def test_the_event_overrides_the_header(fields: dict[str, str], agent: Agent, expected: tuple[str | None, ...]) -> None:
    """browser, os, os_version, device: from the event or context, else from the User-Agent."""
    about = dimensions_of(EVENT, agent, **fields)
    assert tuple(about.get(name) for name in ("browser", "os", "device", "os_version")) == expected


def test_dimensions_set_by_events_only() -> None:
    """platform and app_version are fields of the event; no header has them."""
    assert dimensions_of(EVENT, COLLECTOR).keys() == {"browser", "browser_version", "os", "device", "os_version"}
    about = dimensions_of(EVENT, platform="ios", app_version="1.2")
    assert about == {"platform": "ios", "app_version": "1.2"}


def test_country_and_language_of_the_request() -> None:
    """Country from the client address; language: otherwise the first of Accept-Language."""
    assert dimensions_of(EVENT, country="DE", language="de") == {"country": "DE", "language": "de"}
    found = dimensions(Event(EVENT, 0, language="pt-BR"), RequestContext(UNKNOWN_AGENT, NOWHERE, "de"), "example.com")
    assert found[FIELDS.index("language")] == "pt-BR"


def test_the_context_fills_missing_fields() -> None:
    """The fields that `context` may fill; the value of the event takes precedence."""
    context = {
        "platform": "ios",
        "app_version": "2",
        "os_version": "18",
        "language": "de-de",
        "browser": "B",
        "os": "O",
    }
    read = read_event({"app_version": "1", "os": "P"}, APP_EVENT, context | {"device": "tv", "name": "x", "url": 1}, 0)
    assert not isinstance(read, Rejection)
    found = dimensions(read, RequestContext(COLLECTOR, NOWHERE, "fr"), "example.com")
    assert dict(zip(FIELDS, found, strict=True)) == dict.fromkeys(FIELDS, "") | {
        **{"platform": "ios", "app_version": "1", "os_version": "18", "language": "de-DE"},
        **{"browser": "B", "os": "P", "device": "tv", "channel": "Direct"},
    }


@cases(
    ("header", "language"),
    [
        ("de-at,de;q=0.9,en;q=0.8", "de-AT"),
        ("en", "en"),
        ("EN-us", "en-US"),
        ("zh-hant-tw, zh;q=0.5", "zh-Hant-TW"),
        ("sr-LATN-rs", "sr-Latn-RS"),
        (" fr ; q=0.3 , de", "fr"),
        ("fr;q=0.3", "fr"),
        ("es-419", "es-419"),
        ("de-x-2c7939a", "de"),
        ("de-AT-u-ca-2c7939a;q=0.9, en", "de-AT"),
        ("", ""),
        ("*", ""),
        ("*;q=0.5, de", ""),
        (",de", ""),
        ("d\u00e9", ""),
        ("en_US", "en-US"),
        ("x" * 9, ""),
        ("en-" + "x" * 300, ""),
        ("\udcff", ""),
        ("1", ""),
        ("en--us", ""),
    ],
)
def test_first_language(header: str, language: str) -> None:
    """Language is a BCP 47 tag; otherwise the first of Accept-Language, in its usual case; '' is unset."""
    assert first_language(header) == language
