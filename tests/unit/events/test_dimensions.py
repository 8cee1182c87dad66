"""tally/events/dimensions.py: a checked event and its request -> the 14 dimensions.

The rules are in docs/reference/collect-api.md, Dimensions.
"""

from typing import Any

import pytest

from tally.events import dimensions as enrich
from tally.events.dimensions import RequestContext, dimensions, first_language
from tally.events.urls import WebUrl
from tally.events.user_agent import Agent
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
from tests.support.cases import cases
from tests.support.read_api import FIELDS as SEED_FIELDS

COLLECTOR = Agent("Chrome", "Windows", "7", "desktop", False)
NOBODY = Agent("", "", "", "", False)


def url(path: str = "/p", query: str = "", host: str = "example.com") -> WebUrl:
    return WebUrl(host, path, query)


def told(
    type_: int = PAGEVIEW, agent: Agent = NOBODY, country: str = "", language: str = "", **fields: Any
) -> dict[str, str]:
    """The dimensions that are set."""
    found = dimensions(Event(type_, 0, **fields), RequestContext(agent, country, language), "example.com")
    return {name: text for name, text in zip(enrich.FIELDS, found, strict=True) if text}


def test_the_fields_are_the_seeds() -> None:
    """The 14 dimensions, in the order of the documentation."""
    assert enrich.FIELDS == SEED_FIELDS


@cases(
    ("type_", "fields", "path"),
    [
        pytest.param(PAGEVIEW, {"url": url("/A/b%20c/")}, "/A/b%20c/", id="as-sent"),
        pytest.param(PAGEVIEW, {"url": url("/")}, "/", id="root"),
        pytest.param(PAGEVIEW, {"url": url("/p"), "name": "Home"}, "/p", id="url-before-name"),
        pytest.param(SCREEN_VIEW, {"name": "Home"}, "/Home", id="screen"),
        pytest.param(SCREEN_VIEW, {"name": "Home", "url": url("/p")}, "/Home", id="screen-name-before-url"),
        pytest.param(SCREEN_VIEW, {"name": "/Home"}, "//Home", id="screen-with-slash"),
        pytest.param(SCREEN_VIEW, {"name": " "}, "/ ", id="screen-blank"),
        *(
            pytest.param(type_, {"url": url("/p"), "name": "Home"}, "/p", id=f"{type_}-url")
            for type_ in (EVENT, APP_EVENT, VITALS, HEATMAP, AB_ASSIGN)
        ),
        *(
            pytest.param(type_, {"name": "Home"}, "/Home", id=f"{type_}-name")
            for type_ in (EVENT, APP_EVENT, VITALS, HEATMAP, AB_ASSIGN)
        ),
        pytest.param(EVENT, {}, None, id="nowhere"),
    ],
)
def test_pathname(type_: int, fields: dict[str, Any], path: str | None) -> None:
    """Of screen_view `/` + name, of other types the URL's path ..., else `/` + name."""
    assert told(type_, **fields).get("pathname") == path


def test_hostname_is_the_urls() -> None:
    """hostname: of `url`, of a screen_view too; a name has none."""
    assert told(url=url(host="www.example.com"))["hostname"] == "www.example.com"
    assert told(SCREEN_VIEW, name="Home", url=url(host="app.example.com"))["hostname"] == "app.example.com"
    assert "hostname" not in told(SCREEN_VIEW, name="Home")


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
    assert told(url=url(), referrer=referrer).get("referrer") == (referrer if kept else None)


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
    about = told(url=url(query=query))
    assert tuple(about.get(f"utm_{name}") for name in ("source", "medium", "campaign")) == found
    assert set(about) - {"utm_source", "utm_medium", "utm_campaign"} == {"pathname", "hostname"}


@cases(
    ("fields", "agent", "expected"),
    [
        pytest.param({}, COLLECTOR, ("Chrome", "Windows", "desktop", "7"), id="header"),
        pytest.param({}, NOBODY, (None, None, None, None), id="nothing-said"),
        pytest.param({"browser": "B", "os": "O", "device": "tv", "os_version": "1"}, COLLECTOR, ("B", "O", "tv", "1")),
        pytest.param({"browser": "B"}, COLLECTOR, ("B", "Windows", "desktop", "7"), id="event-in-part"),
        pytest.param({"os_version": "11"}, COLLECTOR, ("Chrome", "Windows", "desktop", "11"), id="own-version"),
        pytest.param({"os": "Windows"}, COLLECTOR, ("Chrome", "Windows", "desktop", "7"), id="same-system"),
        # a version of another system would be a lie
        pytest.param({"os": "Haiku"}, COLLECTOR, ("Chrome", "Haiku", "desktop", None), id="other-system"),
    ],
)  # fmt: skip
def test_what_the_event_says_wins(fields: dict[str, str], agent: Agent, expected: tuple[str | None, ...]) -> None:
    """browser, os, os_version, device: what event or context say, else from the User-Agent."""
    about = told(EVENT, agent, **fields)
    assert tuple(about.get(name) for name in ("browser", "os", "device", "os_version")) == expected


def test_what_only_events_say() -> None:
    """Platform and app_version are labels of the event; no header knows them."""
    assert told(EVENT, COLLECTOR).keys() == {"browser", "os", "device", "os_version"}
    about = told(EVENT, platform="ios", app_version="1.2")
    assert about == {"platform": "ios", "app_version": "1.2"}


def test_country_and_language_of_the_request() -> None:
    """Country from the client address; language: otherwise the first of Accept-Language."""
    assert told(EVENT, country="DE", language="de") == {"country": "DE", "language": "de"}
    spoken = dimensions(Event(EVENT, 0, language="pt-BR"), RequestContext(NOBODY, "", "de"), "example.com")
    assert spoken[enrich.FIELDS.index("language")] == "pt-BR"


def test_the_context_is_what_the_event_does_not_say() -> None:
    """What `context` may fill; Where event and context both speak the event wins."""
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
    found = dimensions(read, RequestContext(COLLECTOR, "", "fr"), "example.com")
    assert dict(zip(enrich.FIELDS, found, strict=True)) == dict.fromkeys(enrich.FIELDS, "") | {
        **{"platform": "ios", "app_version": "1", "os_version": "18", "language": "de-DE"},
        **{"browser": "B", "os": "P", "device": "tv"},
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
        ("", ""),
        ("*", ""),
        ("*;q=0.5, de", ""),
        (",de", ""),
        ("d\u00e9", ""),
        ("en_US", ""),
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
