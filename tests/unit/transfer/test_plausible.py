"""tally/transfer/plausible.py: rows of events_v2 are imported by the command; the figures are those of the rows."""

import csv
import io
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tally.transfer.records import Skip
from tests.support.cases import cases
from tests.support.imports import Imports

COLUMNS = (
    *("timestamp", "name", "site_id", "user_id", "session_id", "hostname", "pathname", "referrer", "referrer_source"),
    *("country_code", "screen_size", "operating_system", "browser", "utm_medium", "utm_source", "utm_campaign"),
    *("meta.key", "meta.value", "browser_version", "operating_system_version", "subdivision1_code", "utm_content"),
    *("utm_term", "revenue_source_amount", "revenue_source_currency"),
)


def row(path: str = "/", **more: str) -> dict[str, str]:
    """Return a row, with `meta_key` for `meta.key`."""
    usual = {"timestamp": "2024-11-18 09:00:00", "name": "pageview", "user_id": "1", "session_id": "11"}
    usual |= {"hostname": "example.com", "pathname": path, "country_code": "DE", "screen_size": "Desktop"}
    usual |= {"operating_system": "Windows", "operating_system_version": "10", "browser": "Microsoft Edge"}
    usual |= {"browser_version": "131.0", "subdivision1_code": "DE-BE", "meta.key": "[]", "meta.value": "[]"}
    return dict.fromkeys(COLUMNS, "") | usual | {name.replace("meta_", "meta."): text for name, text in more.items()}


def as_csv(rows: Sequence[dict[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_tsv(rows: Sequence[dict[str, str]]) -> str:
    """Return the rows as ClickHouse writes TabSeparatedWithNames: arrays have their own escapes."""
    escapes = str.maketrans({"\t": r"\t", "\n": r"\n", "\\": r"\\", "\0": r"\0", "'": r"\'"})
    lines = [COLUMNS]
    for given in rows:
        lines.append(tuple(text if text.startswith("[") else text.translate(escapes) for text in given.values()))
    return "".join("\t".join(line) + "\n" for line in lines)


PHONE = {"user_id": "2", "session_id": "22", "screen_size": "Mobile", "operating_system": "iOS", "browser": "Safari"}
PHONE |= {
    "operating_system_version": "17.5",
    "browser_version": "17.5",
    "country_code": "\0\0",
    "subdivision1_code": "",
}
ROWS = [
    row("/", referrer="news.ycombinator.com/item", referrer_source="Hacker News"),
    row("/pricing", timestamp="2024-11-18 09:10:00"),
    row("/pricing", name="Sign\tup", meta_key=r"['plan','it\'s']", meta_value=r"['pro','a\\b']"),
    row("/", **PHONE, utm_source="letter", utm_medium="email", referrer_source="letter"),
    row("/docs", **PHONE, timestamp="2024-11-19 00:00:00"),
    row("/", user_id="3", referrer_source="partner"),
    row("/", name="engagement"),
]


@pytest.mark.parametrize("written", [as_csv, as_tsv])
def test_figures_are_those_of_the_rows(imports: Imports, written: Callable[[Sequence[dict[str, str]]], str]) -> None:
    assert imports.take("plausible", written(ROWS)) == "6"
    assert "skipped: 1 engagement events" in imports.errors
    # The other form has the same events.
    assert imports.take("plausible", as_tsv(ROWS)) == "0"
    assert imports.totals() == {"pageviews": 5, "visitors": 4, "visits": 4, "events": 1}
    assert imports.by_day() == {"2024-11-18": 4, "2024-11-19": 1}
    assert imports.list("pathname") == {"/": 3, "/pricing": 1, "/docs": 1}
    assert imports.list("country") == {"DE": 3}
    assert imports.list("browser") == {"Edge": 3, "Safari": 2}
    assert imports.list("device") == {"desktop": 3, "mobile": 2}
    assert imports.list("referrer") == {"news.ycombinator.com": 2}
    assert imports.list("utm_source") == {"letter": 1, "partner": 1}
    event = imports.site.data("events?from=2024-01-01&to=2024-12-31&filter_event_name=Sign%09up")[0]
    assert event["event_data"] == {"plan": "pro", "it's": r"a\b"}
    orders = [row(name="Order", revenue_source_amount=amount) for amount in ("1.5", "2", "2")]
    assert imports.take("plausible", written(orders)) == "2"


def test_rows_that_differ_in_currency_are_two_events(imports: Imports) -> None:
    orders = [row(name="Order", revenue_source_amount="10", revenue_source_currency=one) for one in ("EUR", "USD")]
    assert imports.take("plausible", as_csv(orders)) == "2"
    assert imports.take("plausible", as_tsv(orders)) == "0"
    # Rows without revenue have NULs for the currency, or no such columns.
    no_revenue = [row(revenue_source_currency="\0\0\0"), row()]
    assert imports.take("plausible", as_csv(no_revenue)) == "1"


@cases(
    ("given", "expected"),
    [
        (row(operating_system="Mac", operating_system_version="10.15"), {"os": "macOS", "os_version": ""}),
        (row(operating_system="GNU/Linux"), {"os": "Linux"}),
        (row(**PHONE), {"os": "iOS", "os_version": "17.5", "browser_version": "17", "country": ""}),
        (row(screen_size="Laptop"), {"device": "desktop"}),
        (row(referrer="Direct / None"), {"referrer": ""}),
        (row(timestamp="now"), "invalid_field"),
        (
            row(
                name="a",
                meta_key="['x']",
                meta_value="['y']",
                revenue_source_amount="9.99",
                revenue_source_currency="EUR",
            ),
            {"event_data": {"x": "y", "value": 9.99, "currency": "EUR"}},
        ),
        (
            row(name="a", revenue_source_amount="-7", revenue_source_currency="\0\0\0"),
            {"event_data": {"value": -7.0}},
        ),
        (row(name="a", revenue_source_amount=r"\N", meta_key="['x']", meta_value="['y']"), {"event_data": {"x": "y"}}),
        (row(name="a", meta_key="['x']"), "invalid_event_data"),
        (row(name="pageleave"), Skip("engagement events")),
    ],
    ids=lambda value: str(value)[-60:],
)
def test_rows(imports: Imports, given: dict[str, str], expected: Any) -> None:
    (found,) = imports.items("plausible", as_csv([given]))
    if isinstance(expected, dict):
        assert {name: found[name] for name in expected} == expected
    else:
        assert expected in (found, getattr(found, "code", None))


def test_an_array_that_is_not_closed_takes_linear_time(imports: Imports) -> None:
    """A search for the end from every quote took 6 s for 20,000 of them."""

    def seconds(quotes: int) -> float:
        given = as_csv([row(name="a", meta_key=r"\'" * quotes, meta_value="['y']")])
        begun = time.process_time()
        imports.items("plausible", given)
        return time.process_time() - begun

    assert seconds(20_000) < 200 * seconds(100)


def test_sums_by_day_are_refused(imports: Imports) -> None:
    """A file of the ZIP export."""
    assert imports.take("plausible", '"date","visitors"\n"2024-11-18",3\n', status=1) == ""
    assert "has no column timestamp, name, user_id, pathname in its first line" in imports.errors
