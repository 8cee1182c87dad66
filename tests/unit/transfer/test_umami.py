"""tally/transfer/umami.py: rows of website_event are imported by the command; the figures are those of the rows."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from tally.transfer.records import Skip
from tests.support.cases import cases
from tests.support.imports import Imports
from tests.support.sums_files import archive

# As psql and Umami Cloud name them.
COLUMNS = (
    *("website_id", "session_id", "visit_id", "event_id", "hostname", "browser", "os", "device", "screen", "language"),
    *("country", "region", "city", "url_path", "url_query", "utm_source", "utm_medium", "utm_campaign", "utm_content"),
    *("utm_term", "referrer_path", "referrer_query", "referrer_domain", "page_title", "event_type", "event_name"),
    *("tag", "lcp", "inp", "cls", "fcp", "ttfb", "created_at", "event_data"),
)


def row(event_id: str, path: str = "/", **more: str) -> dict[str, str]:
    usual = {"session_id": "ann", "hostname": "example.com", "browser": "chrome", "os": "Windows 10"}
    usual |= {"device": "laptop", "language": "en-US", "country": "DE", "region": "DE-BE", "city": "Berlin"}
    usual |= {"event_type": "1", "created_at": "2024-11-18 09:00:00.123+00", "event_id": event_id, "url_path": path}
    return dict.fromkeys(COLUMNS, "") | usual | more


def export(rows: Sequence[dict[str, str]], columns: Sequence[str] = COLUMNS) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


PHONE = {"session_id": "bob", "browser": "crios", "os": "iOS", "device": "mobile", "country": "US", "region": "TX"}
ROWS = [
    row("1", "/#top", referrer_domain="news.ycombinator.com", page_title='A "b",\nc'),
    row("2", "/pricing", created_at="2024-11-18 10:10:00.5+01"),
    row("3", "/pricing", event_type="2", event_name="signup", event_data='{"plan": "pro", "seats": 3}'),
    row("4", url_query="utm_source=letter&utm_medium=email", **PHONE),
    row("5", "/docs", created_at="2024-11-19 00:00:00+00", **PHONE),
    row("6", event_type="3"),
    row("7", event_type="5", lcp="1200.5", cls="0.1"),
    row("8", event_type="5"),
]


def test_figures_are_those_of_the_rows(imports: Imports) -> None:
    assert imports.take("umami", export(ROWS)) == "6"
    assert "skipped: 1 clicks on links and pixels, 1 performance events without values" in imports.errors
    # In another order and with other columns, the events are known by their ids.
    assert imports.take("umami", export(ROWS[::-1], [*COLUMNS[::-1]])) == "0"
    assert imports.totals() == {"pageviews": 4, "visitors": 3, "visits": 3, "events": 1}
    assert imports.by_day() == {"2024-11-18": 3, "2024-11-19": 1}
    assert imports.list("pathname") == {"/": 2, "/pricing": 1, "/docs": 1}
    assert imports.list("browser") == {"Chrome": 4}
    assert imports.list("os") == {"Windows": 2, "iOS": 2}
    assert imports.list("device") == {"desktop": 2, "mobile": 2}
    assert imports.list("language") == {"en-US": 4}
    assert imports.list("region") == {"DE-BE": 2, "US-TX": 2}
    assert imports.list("referrer") == {"news.ycombinator.com": 2}
    assert imports.list("channel") == {"Organic social": 2, "Email": 1, "Direct": 1}
    assert imports.sql("select count(*) from web_vitals") == [(1,)]
    event = imports.site.data("events?from=2024-01-01&to=2024-12-31&filter_event_name=signup")[0]
    assert event["event_data"] == {"plan": "pro", "seats": 3}
    assert event["timestamp"] == "2024-11-18T09:00:00.123+00:00"


@cases(
    ("given", "expected"),
    [
        (row("1", created_at="2024-11-18 09:00:00"), {"timestamp": 1731920400000}),
        (row("1", created_at="2024-11-18 09:00:00.123456+00"), {"timestamp": 1731920400123}),
        (row("1", created_at="2024-11-18T09:00:00.5Z"), {"timestamp": 1731920400500}),
        (row("1", os="Windows XP"), {"os": "Windows"}),
        (row("1", os="Mac OS", browser="safari"), {"os": "macOS", "browser": "Safari"}),
        (row("1", os="Mac OS " + "1" * 5_000), {"os": "macOS", "os_version": ""}),
        (row("1", os="Android OS", browser="samsung"), {"os": "Android", "browser": "Samsung Internet"}),
        (row("1", browser="edge-chromium"), {"browser": "Edge"}),
        (row("1", browser=r"\N", country=r"\N"), {"browser": "", "country": ""}),
        (row("1", utm_source="x" * 150), {"utm_source": "x" * 100}),
        (row("1", created_at="2024-11-18 09:61:00"), "invalid_field"),
        (row("1", event_type="9"), "invalid_type"),
        (row("1", event_type="2", event_name="a", event_data="{"), "invalid_event_data"),
        (row("1", event_type="5", lcp="fast"), "invalid_field"),
        (row("1", event_type="4"), Skip("clicks on links and pixels")),
    ],
    ids=lambda value: str(value)[-60:],
)
def test_rows(imports: Imports, given: dict[str, str], expected: Any) -> None:
    (found,) = imports.items("umami", export([given]))
    if isinstance(expected, dict):
        assert {name: found[name] for name in expected} == expected
    else:
        assert expected in (found, getattr(found, "code", None))


def test_a_file_without_the_columns_is_refused(imports: Imports) -> None:
    assert imports.take("umami", "path,count\n/,3\n", status=1) == ""
    assert "has no column event_id, session_id, created_at, url_path, event_type in its first line" in imports.errors


def test_umamis_own_export_is_refused_with_what_to_do(imports: Imports) -> None:
    names = ("events", "pages", "referrers", "browsers", "os", "devices", "countries")
    own = archive({f"{name}.csv": "x,y\n/,3\n" for name in names})
    cloud = archive({"data/website_event.csv": export(ROWS[:2]), "data/session.csv": "a\n"})
    for content in (own, "x,y\n/,3\n", archive({"pages.csv": "x,y\n/,3\n"})):
        assert imports.take("umami", content, status=1) == ""
        assert "is Umami's own export, which has sums without dates and cannot be imported" in imports.errors
    assert imports.take("umami", cloud, status=1) == ""
    assert "is a data export of Umami Cloud: unpack it and name its website_event.csv" in imports.errors
    assert imports.take("umami", archive({"website_event.csv": export(ROWS[:2])})) == "2"


def test_a_column_that_occurs_twice_is_refused(imports: Imports) -> None:
    """`select *` of both tables has the time of the session too, which must not become that of its events."""
    assert imports.take("umami", export(ROWS[:1], [*COLUMNS, "created_at"]), status=1) == ""
    assert "has column created_at more than once" in imports.errors


def test_rows_of_the_table_alone(imports: Imports) -> None:
    """Without the columns of table session."""
    columns = ("event_id", "session_id", "created_at", "url_path", "event_type")
    assert imports.take("umami", export(ROWS[:2], columns)) == "2"
    assert imports.list("hostname") == {"example.com": 2}


def test_a_file_without_rows_is_empty(imports: Imports) -> None:
    assert imports.take("umami", export([])) == "0"
    assert "is empty: nothing was imported" in imports.errors
    assert imports.take("umami", export([]), "--strict", status=1) == ""
