"""Imported pages have the names of collected ones (`normal_path` of tally/events/urls.py), whatever a file has."""

import json
from collections.abc import Callable, Sequence

import pytest

from tests.support.imports import Imports
from tests.unit.transfer import test_access_log as access_log
from tests.unit.transfer import test_plausible as plausible
from tests.unit.transfer import test_umami as umami

PAGE = "/%C3%BCber-uns/~a"
SPELLINGS = (PAGE, "/\u00fcber-uns/~a", "/%c3%bcber-uns/%7Ea", "/x/../\u00fcber-uns/./%7e%61")


def log(paths: Sequence[str]) -> str:
    """Return a log of nginx, which writes other bytes than those of ASCII as \\xC3."""
    escaped = [path.encode().decode("latin-1").replace("\xc3", r"\xC3").replace("\xbc", r"\xBC") for path in paths]
    lines = [access_log.combined(path, time=f"18/Nov/2024:09:00:0{n} +0000") for n, path in enumerate(escaped)]
    return "".join(f"{line}\n" for line in lines)


def tally(paths: Sequence[str]) -> str:
    """Return events of Tally's own format."""
    lines = [
        {"type": "pageview", "timestamp": f"2024-11-18T09:00:0{n}Z", "pathname": path} for n, path in enumerate(paths)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def tally_sums(paths: Sequence[str]) -> str:
    """Return sums of one day, which add up."""
    lines = [
        {"type": "imported_sum", "day": "2024-11-18", "field": "pathname", "value": path, "visitors": 1, "pageviews": 1}
        for path in paths
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def ga4_report(paths: Sequence[str]) -> str:
    """Return a report of pages by date."""
    return "Date,Page path and screen class,Views\n" + "".join(f"2024-11-18,{path},1\n" for path in paths)


def umami_rows(paths: Sequence[str]) -> str:
    """Return rows of website_event."""
    return umami.export([umami.row(str(n), path) for n, path in enumerate(paths)])


def plausible_rows(paths: Sequence[str]) -> str:
    """Return rows of events_v2."""
    return plausible.as_csv([plausible.row(path, timestamp=f"2024-11-18 09:00:0{n}") for n, path in enumerate(paths)])


def matomo(paths: Sequence[str]) -> str:
    """Return visits of one action each."""
    visits = [
        {
            "idVisit": n,
            "visitorId": "a",
            "actionDetails": [
                {"type": "action", "timestamp": 1731924000 + n, "url": f"https://example.com{path}", "pageId": n}
            ],
        }
        for n, path in enumerate(paths)
    ]
    return json.dumps(visits)


@pytest.mark.parametrize(
    ("format", "file"),
    [
        ("tally", tally),
        ("tally", tally_sums),
        ("access-log", log),
        ("umami", umami_rows),
        ("plausible", plausible_rows),
        ("matomo", matomo),
        ("ga4", ga4_report),
    ],
)
def test_every_spelling_in_a_file_is_one_page(
    imports: Imports, format: str, file: Callable[[Sequence[str]], str]
) -> None:
    imports.take(format, file(SPELLINGS))
    assert imports.list("pathname") == {PAGE: len(SPELLINGS)}
