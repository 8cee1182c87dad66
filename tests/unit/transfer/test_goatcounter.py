"""tally/transfer/goatcounter.py: an export is imported by the command; the figures are those of its rows."""

import bz2
import csv
import gzip
import io
from collections.abc import Sequence
from typing import Any

import pytest

from tally.transfer.goatcounter import COLUMNS
from tally.transfer.records import Skip
from tests.support.cases import cases
from tests.support.imports import Imports


def row(path: str = "/", **more: str) -> dict[str, str]:
    """Return a row, with other columns by their names with _ for a space."""
    usual = {"Event": "0", "Browser": "Chrome 131", "System": "Windows 10", "Session": "1f-2a", "Bot": "0"}
    usual |= {"Screen size": "1920,0,1", "Location": "DE", "FirstVisit": "1", "Date": "2024-11-18T09:00:00Z"}
    return dict.fromkeys(COLUMNS, "") | usual | {"2Path": path} | {k.replace("_", " "): v for k, v in more.items()}


def export(rows: Sequence[dict[str, str]], end: str = "\n") -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


ROWS = [
    row("/?utm_campaign=a&x=1", Title='One "two"\nthree', Referrer="www.reddit.com/r/x", Referrer_scheme="h"),
    row("/pricing", Date="2024-11-18T09:10:00Z"),
    row("signup", Event="true", Date="2024-11-18T09:11:00Z"),
    row("/", Session="3-4", System="iOS 17.5", Browser="Safari 17.5", Screen_size="390,0,1", Location="US-TX"),
    row("/docs", Session="3-4", Date="2024-11-19T00:05:00Z", System="iOS 17.5", Browser="Safari 17.5"),
    row("/", Session="5-6", Referrer="Google", Referrer_scheme="g", System="macOS 10.15"),
    row("/", Session="7-8", Referrer="letter", Referrer_scheme="c"),
    row("/", Session="9-a", Bot="7"),
]


def test_figures_are_those_of_the_rows(imports: Imports) -> None:
    for content in (export(ROWS), gzip.compress(export(ROWS, "\r\n").encode())):
        assert imports.take("goatcounter", content) in ("7", "0")
    assert "skipped: 1 requests of crawlers" in imports.errors
    assert "imported 0 events, skipped 7 duplicates" in imports.errors
    assert imports.totals() == {"pageviews": 6, "visitors": 5, "visits": 5, "events": 1}
    assert imports.by_day() == {"2024-11-18": 5, "2024-11-19": 1}
    assert imports.list("pathname") == {"/": 4, "/pricing": 1, "/docs": 1}
    assert imports.list("country") == {"DE": 5, "US": 1}
    assert imports.list("region") == {"US-TX": 1}
    assert imports.list("browser") == {"Chrome": 4, "Safari": 2}
    assert imports.list("os") == {"Windows": 3, "iOS": 2, "macOS": 1}
    assert imports.list("device") == {"desktop": 4, "mobile": 1, "tablet": 1}
    assert imports.list("referrer") == {"reddit.com": 2, "google.com": 1}
    assert imports.list("utm_source") == {"letter": 1}
    assert imports.list("utm_campaign") == {"a": 2}
    assert imports.list("channel", "visitors") == {
        "Organic social": 1,
        "Organic search": 1,
        "Referral": 1,
        "Direct": 2,
    }


@cases(
    ("given", "expected"),
    [
        (
            row(
                Browser="",
                System="",
                UserAgent="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            ),
            {"browser": "Firefox", "browser_version": "140", "os": "Linux", "device": "desktop"},
        ),
        (row(Browser="", System="", UserAgent="Googlebot/2.1"), Skip("requests of crawlers")),
        (row(System="Windows 7"), {"os": "Windows", "os_version": "7"}),
        (row(System="Windows 10"), {"os": "Windows", "os_version": ""}),
        (row(Browser="Samsung Internet 28"), {"browser": "Samsung Internet", "browser_version": "28"}),
        (row(System="macOS " + "1" * 5_000), {"os": "macOS", "os_version": ""}),
        (row(Location="xx"), {"country": ""}),
        (row(Screen_size="wide"), {"device": "desktop"}),
        (row("x" * 300, Event="1"), {"event_name": "x" * 200}),
        (row(Referrer="a letter", Referrer_scheme="o"), {"pathname": "/"}),
        (row(Date="yesterday"), "invalid_field"),
        (row(Date="2016-12-31T23:59:60Z"), {"timestamp": 1483228799000}),
        (row(Referrer="Email", Referrer_scheme="g"), {"utm_source": "Email"}),
        (row(Referrer="RSS", Referrer_scheme="g"), {"utm_source": "RSS"}),
        (row(Referrer="www.reddit.com", Referrer_scheme="g"), {"referrer": "reddit.com"}),
        (row(Referrer="Slack Chat", Referrer_scheme="g"), {"referrer": "slack.com"}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_rows(imports: Imports, given: dict[str, str], expected: Any) -> None:
    (found,) = imports.items("goatcounter", export([given]))
    if isinstance(expected, dict):
        assert {name: found[name] for name in expected} == expected
    else:
        assert expected in (found, getattr(found, "code", None))


HEAD = export([])
GOOD = export([row()])[len(HEAD) :]
BROKEN: dict[str, tuple[str | bytes, int, str]] = {
    "no header": (GOOD, 1, "is no CSV export of GoatCounter (version 2)"),
    "a header that is not closed": ('"' + HEAD + GOOD, 1, "is no CSV export of GoatCounter (version 2)"),
    "version 1": (HEAD.replace("2Path", "1Path"), 1, "is version 1 of GoatCounter's export"),
    "nothing": ("", 1, "has no header"),
    "a short row": (HEAD + "/,a\n" + GOOD, 0, "line 2: invalid_csv: The row has 2 fields; the header has 14."),
    "an unclosed quote": (HEAD + '/,"a\n' + GOOD, 0, "line 2: invalid_csv: A quoted field is not closed"),
    "words after a quote": (HEAD + '"a" b,\n' + GOOD, 0, "line 2: invalid_csv: A quoted field is not closed"),
    "another encoding": (HEAD.encode() + b"\xff\n" + GOOD.encode(), 0, "line 2: invalid_text"),
    "a huge line": (HEAD + "x" * 2_000_000 + "\n" + GOOD, 0, "line 2: line_too_long"),
    "NUL": (HEAD.encode() + b"a\0\n" + GOOD.encode(), 0, "line 2: invalid_csv"),
    "a database": (b"SQLite format 3\0\x10\0\x01", 1, "is not UTF-8 text"),
    "UTF-16": ((HEAD + GOOD).encode("utf-16"), 1, "is UTF-16 text: save it as UTF-8"),
    "UTF-16 without a mark": ((HEAD + GOOD).encode("utf-16-le"), 1, "is UTF-16 text: save it as UTF-8"),
    "UTF-16, big-endian": ((HEAD + GOOD).encode("utf-16-be"), 1, "is UTF-16 text: save it as UTF-8"),
    "another compression": (bz2.compress((HEAD + GOOD * 900).encode()), 1, "is not UTF-8 text"),
}


@cases(("content", "status", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_files(imports: Imports, content: str | bytes, status: int, message: str) -> None:
    """The rows after a broken one are imported, or are known from the case before."""
    imports.take("goatcounter", content, status=status)
    assert message in imports.errors
    if not status:
        assert "rejected 1 of 3 lines" in imports.errors
        assert imports.totals()["pageviews"] == 1


def test_a_dry_run_counts_as_the_import_does(imports: Imports) -> None:
    """Equal rows are one event. Fields may be longer than csv reads by default."""
    content = export([row("/"), row("/a"), row("/"), row("/b", Title='"' + "x" * 200_000), row("/", Date="never")])
    assert imports.take("goatcounter", content, "--dry-run") == "2024-11-18\t3"
    assert "imported before: 0; copies in the file: 1; invalid lines: 1 of 6" in imports.errors
    assert imports.take("goatcounter", content) == "3"
    assert "skipped 1 duplicate, rejected 1 of 6 lines" in imports.errors


def test_referrers_that_are_none_are_counted(imports: Imports) -> None:
    referrers = ("about:blank", "https://a..b/", "www.reddit.com/r/x")
    content = export([row(Session=text, Referrer=text, Referrer_scheme="h") for text in referrers])
    for options in (["--dry-run"], []):
        imports.take("goatcounter", content, *options)
        assert "warnings: 2 without_referrer" in imports.errors
    assert imports.list("referrer") == {"reddit.com": 1}
    assert imports.totals()["pageviews"] == 3


@pytest.mark.slow
def test_many_unclosed_quotes_take_linear_time(imports: Imports) -> None:
    """Each line is looked at twice at most: with a search from every quote, this file would take hours."""
    content = HEAD + '"a\n"b" c\n' * 200_000
    assert imports.take("goatcounter", content, status=1) == ""
    assert "rejected 400,000 of 400,001 lines" in imports.errors
