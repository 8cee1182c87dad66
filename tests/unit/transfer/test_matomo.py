"""tally/transfer/matomo.py: visits are imported by the command; the figures are those of their actions."""

import json
from typing import Any

import pytest

from tally.transfer.records import Skip
from tests.support.cases import cases
from tests.support.imports import Imports

NINE = 1731920400  # 2024-11-18T09:00:00Z


def action(path: str | None, at_s: int = 0, type: str = "action", **more: Any) -> dict[str, Any]:
    url = None if path is None else f"https://example.com{path}"
    return {"type": type, "url": url, "timestamp": NINE + at_s, "pageTitle": 'A {page} "of" many]'} | more


def visit(id: int, *actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    usual = {"idSite": "1", "idVisit": str(id), "visitorId": "ann", "referrerType": "direct", "referrerUrl": ""}
    usual |= {"browserName": "Chrome", "browserVersion": "131.0", "operatingSystemName": "Windows"}
    usual |= {"operatingSystemVersion": "10", "deviceType": "Desktop", "languageCode": "de-de", "countryCode": "de"}
    usual |= {"regionCode": "BE", "city": "Berlin", "serverTimestamp": NINE}
    return usual | {"actionDetails": list(actions)} | more


PHONE = {"visitorId": "bob", "browserName": "Mobile Safari", "browserVersion": "17.5", "operatingSystemName": "iOS"}
PHONE |= {"operatingSystemVersion": "17.5", "deviceType": "Smartphone", "countryCode": "us", "regionCode": "TX"}
VISITS = [
    visit(
        1,
        action("/"),
        action("/pricing", 600),
        action("/pricing", 610, "event", eventCategory="Form", eventAction="Sign up", eventName="top", eventValue=2),
        action("/a.pdf?token=1", 620, "download"),
        action("/search", 630, "search", siteSearchKeyword="price"),
        action(None, 640, "goal", goalName="Signed up"),
        referrerType="website",
        referrerUrl="https://news.ycombinator.com/item?id=1",
    ),
    visit(2, action("/?utm_source=letter&utm_medium=email"), action("/docs", 54_000), **PHONE),
    visit(3, action("/"), visitorId="eve", referrerType="campaign", referrerName="Autumn", referrerKeyword="shoes"),
]


@pytest.mark.parametrize("written", ["array", "pages", "indented", "lines"])
def test_figures_are_those_of_the_actions(imports: Imports, written: str) -> None:
    content = {
        "array": json.dumps(VISITS),
        "pages": json.dumps(VISITS[:2]) + "\n" + json.dumps(VISITS[2:]) + "\n",
        "indented": json.dumps(VISITS, indent=2),
        "lines": "\n".join(map(json.dumps, VISITS)),
    }[written]
    assert imports.take("matomo", content) == "8"
    assert "skipped: 1 goal conversions, orders and other actions" in imports.errors
    # A visit that went on has more actions, in other pages of the answer.
    more = visit(3, action("/"), action("/new", 60), visitorId="eve")
    assert imports.take("matomo", json.dumps([more, *VISITS[::-1]])) == "1"
    assert imports.totals() == {"pageviews": 6, "visitors": 4, "visits": 4, "events": 3}
    assert imports.by_day() == {"2024-11-18": 5, "2024-11-19": 1}
    assert imports.list("pathname") == {"/": 3, "/pricing": 1, "/docs": 1, "/new": 1}
    assert imports.list("browser") == {"Chrome": 4, "Safari": 2}
    assert imports.list("device") == {"desktop": 4, "mobile": 2}
    assert imports.list("region") == {"DE-BE": 4, "US-TX": 2}
    assert imports.list("referrer") == {"news.ycombinator.com": 2}
    assert imports.list("utm_campaign") == {"Autumn": 2}
    assert imports.list("utm_source") == {"letter": 1}
    events = imports.site.data("events?from=2024-01-01&to=2024-12-31")
    assert {event["event_name"]: event["event_data"] for event in events if event["type"] == "event"} == {
        "Sign up": {"category": "Form", "name": "top", "value": 2},
        "download": {"url": "https://example.com/a.pdf"},
        "search": {"keyword": "price"},
    }


@cases(
    ("given", "expected"),
    [
        (visit(1, action("/"), operatingSystemName="GNU/Linux"), {"os": "Linux"}),
        (visit(1, action("/"), operatingSystemName="Mac", operatingSystemVersion="10.15"), {"os_version": ""}),
        (visit(1, action("/"), operatingSystemName="Mac", operatingSystemVersion="1" * 5_000), {"os_version": ""}),
        (visit(1, action("/"), visitorId=None), {"visitor": "1"}),
        (visit(1, action("/", url="example.com/x")), {"pathname": "/x", "hostname": "example.com"}),
        (visit(1, action("/", timestamp="soon")), "invalid_action"),
        (visit(1, action(None)), "invalid_action"),
        (visit(1, action("/", url="https://exa mple/")), "invalid_action"),
        (visit(1, action("/", type=["action"])), Skip("goal conversions, orders and other actions")),
        (visit(1, action("/", type="ecommerceOrder")), Skip("goal conversions, orders and other actions")),
        (visit(1, 7), "invalid_action"),  # type: ignore[arg-type]
        (visit(1, actionDetails=None), "invalid_visit"),
        (visit(1, visitorId="x" * 201), "invalid_visit"),
        (visit(1, idVisit="x" * 201), "invalid_visit"),
        ({"result": "error", "message": "You can't access this resource"}, "invalid_visit"),
    ],
    ids=lambda value: str(value)[-60:],
)
def test_visits(imports: Imports, given: dict[str, Any], expected: Any) -> None:
    (found,) = imports.items("matomo", json.dumps([given]))
    if isinstance(expected, dict):
        assert {name: found[name] for name in expected} == expected
    else:
        assert expected in (found, getattr(found, "code", None))


GOOD = json.dumps(VISITS[2])
BROKEN: dict[str, tuple[str, int, str]] = {
    "HTML": ("<html>", 1, "is not JSON with an object per event or visit: byte 0 begins b'<html>'"),
    "cut": (f"[{GOOD},{GOOD[:-20]}", 1, "is not closed, is longer than 1 MiB or has more than 8 levels"),
    "too deep": ('{"a":' * 100_000, 1, "is not closed, is longer than 1 MiB or has more than 8 levels"),
    "a huge visit": ('{"a":"' + "x" * 3_000_000 + '"}', 1, "is longer than 1 MiB"),
    "a huge gap": (f"[{GOOD}{' ' * 3_000_000},{GOOD}]", 1, "byte"),
    "no JSON inside": (f"[{{'a': 1}},{GOOD}]", 0, "line 1: invalid_json"),
    "an unclosed text": ('{"a":"' + '\\"' * 700_000, 1, "is not closed"),
}


@cases(("content", "status", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_files(imports: Imports, content: str, status: int, message: str) -> None:
    imports.take("matomo", content, status=status)
    assert message in imports.errors
    assert "Traceback" not in imports.errors


def test_a_visit_with_several_bad_actions_is_one_rejected_line(imports: Imports) -> None:
    bad = visit(1, action("/"), *[action(None)] * 5)
    content = "\n".join(map(json.dumps, (bad, visit(2, action("/a")), visit(3, action(None)))))
    imports.take("matomo", content, "--dry-run")
    assert "invalid lines: 2 of 3" in imports.errors
    assert imports.take("matomo", content) == "2"
    assert imports.errors.count("invalid_action") == 2
    assert "rejected 2 of 3 lines" in imports.errors
