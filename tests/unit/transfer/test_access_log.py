"""tally/transfer/access_log.py: logs are imported by the command, and the figures of the API are those of the log."""

import contextlib
import gzip
import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics_server import main
from tally.events.validation import Rejection
from tally.storage.database import connect_reader, open_database
from tally.transfer import importer, log_text, values
from tally.transfer.chunks import Sizes
from tally.transfer.files import open_source
from tally.transfer.importer import import_events
from tally.transfer.records import Skip
from tests.support.app import NOON_MS, unpacked_countries
from tests.support.cases import cases
from tests.support.imports import Imports

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
)
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/17.5 Mobile/15E148 Safari/604.1"
)
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
GERMAN, AMERICAN = "193.99.144.80", "8.8.8.8"


def combined(
    uri: str = "/",
    *,
    address: str = GERMAN,
    time: str = "18/Nov/2024:09:00:00 +0000",
    method: str = "GET",
    status: int = 200,
    referrer: str = "-",
    agent: str = CHROME,
    before: str = "",
) -> str:
    return f'{before}{address} - - [{time}] "{method} {uri} HTTP/1.1" {status} 512 "{referrer}" "{agent}"'


def caddy(uri: str = "/", **more: Any) -> str:
    request = {
        "remote_ip": "10.0.0.1",
        "client_ip": GERMAN,
        "method": more.pop("method", "GET"),
        "host": more.pop("host", "example.com:443"),
        "uri": uri,
        "headers": {"User-Agent": [more.pop("agent", CHROME)], "Accept-Language": ["de-de,de;q=0.8"]},
    }
    entry = {
        "level": "info",
        "ts": 1731924000.25,
        "msg": "handled request",
        "request": request,
        "status": 200,
        "size": 9,
    }
    return json.dumps(entry | {"resp_headers": {"Content-Type": ["text/html; charset=utf-8"]}} | more)


LOG = [
    combined("/?utm_source=news&utm_medium=email", referrer="https://mail.example.org/x"),
    combined("/pricing", time="18/Nov/2024:10:10:00 +0100", referrer="https://example.com/"),
    combined("/pricing", address=AMERICAN, time="18/Nov/2024:09:20:00 +0000", agent=IPHONE),
    combined("/docs/v1.2", address=AMERICAN, time="18/Nov/2024:23:30:00 -0100", agent=IPHONE),
    combined("/style.css"),
    combined("/pricing", method="POST"),
    combined("/old", status=301),
    combined("/missing", status=404),
    combined("/", agent=GOOGLEBOT),
    combined("/", agent="curl/8.0"),
    combined("/", agent="-"),
    "not a line of a log",
]


def test_figures_are_those_of_the_log(imports: Imports) -> None:
    assert imports.take("access-log", "\n".join(LOG)) == "4"
    assert (
        "skipped: 2 redirects and errors, 1 assets, 1 requests of crawlers and programs,"
        " 1 requests of crawlers more than 400 days ago, 1 requests other than GET, 1 requests without a User-Agent"
        in imports.errors
    )
    assert "line 12: invalid_line" in imports.errors
    assert imports.totals() == {"pageviews": 4, "visitors": 3, "visits": 3, "events": 0}
    # 23:30 -0100 is the next day in UTC, so the visitor is another one.
    assert imports.by_day() == {"2024-11-18": 3, "2024-11-19": 1}
    assert imports.list("pathname") == {"/": 1, "/pricing": 2, "/docs/v1.2": 1}
    assert imports.list("country") == {"DE": 2, "US": 2}
    assert imports.list("browser") == {"Chrome": 2, "Safari": 2}
    assert imports.list("device") == {"desktop": 2, "mobile": 2}
    assert imports.list("channel") == {"Email": 2, "Direct": 2}
    assert imports.list("referrer") == {"mail.example.org": 2}
    # Again, together with a new line: only that is new.
    assert imports.take("access-log", "\n".join([*LOG, combined("/new")])) == "1"


GPTBOT = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)"


def crawl(uri: str, **more: Any) -> str:
    return combined(uri, **({"agent": GPTBOT, "time": time_of(60_000)} | more))


def time_of(before_ms: int) -> str:
    """Return a time as a log has it: so long ago."""
    return datetime.fromtimestamp((NOON_MS - before_ms) // 1_000, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")


@pytest.fixture
def recent(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> Imports:
    """Return a website for imports by a command at NOON_MS."""
    monkeypatch.setattr("tally.cli.transfer.now_ms", lambda: NOON_MS)
    return imports


CRAWLS = [
    crawl("/pricing?a=1"),
    crawl("/pricing", status=304),
    crawl("/old", status=301),
    crawl("/report.PDF", agent=GOOGLEBOT),
    crawl("https://example.com/pricing", time=time_of(3 * 86_400_000)),
    # Not counted: errors, assets, other methods and hosts, crawlers without a name.
    crawl("/missing", status=404),
    crawl("/style.css"),
    crawl("/image", before="example.org "),
    crawl("/pricing", method="HEAD"),
    crawl("/pricing", agent="Mozilla/5.0 (compatible; secretbot/1.0)"),
]


def crawls_of(imports: Imports) -> dict[tuple[str, str], int]:
    """Return the requests by crawler and page."""
    with contextlib.closing(connect_reader(imports.db)) as connection:
        rows = connection.execute(
            "select c.text, p.text, sum(requests) from crawler_day join label as c on c.id = crawler"
            " join label as p on p.id = pathname where source = 2 group by 1, 2"
        )
        return {(crawler, page): requests for crawler, page, requests in rows}


def test_listed_crawlers_are_counted_and_undone_exactly(recent: Imports) -> None:
    imports = recent
    counted = {("GPTBot", "/pricing"): 3, ("GPTBot", "/old"): 1, ("Googlebot", "/report.PDF"): 1}
    assert imports.take("access-log", "\n".join([*CRAWLS, CRAWLS[0]])) == "0"
    assert "imported 0 events and 5 requests of crawlers, skipped 1 duplicate" in imports.errors
    assert crawls_of(imports) == counted
    answer = imports.site.data("crawlers?period=30d")
    assert answer["sources"] == {"event": 0, "pixel": 0, "access_log": 5, "api": 0}

    # A second file, with all lines of the first and one more.
    more = [*CRAWLS, crawl("/pricing", status=206), crawl("/more")]
    assert imports.take("access-log", "\n".join(more)) == "0"
    assert "2 requests of crawlers, skipped 5 duplicates" in imports.errors
    assert crawls_of(imports) == counted | {("GPTBot", "/pricing"): 4, ("GPTBot", "/more"): 1}
    assert imports.command("--list").split("\n")[0].split("\t")[-1] == "2"

    imports.command("--undo", "1")
    assert crawls_of(imports) == {("GPTBot", "/pricing"): 1, ("GPTBot", "/more"): 1}
    assert imports.site.data("crawlers?period=30d")["sources"]["access_log"] == 2
    # Its keys are gone too.
    assert imports.take("access-log", "\n".join(CRAWLS)) == "0"
    assert crawls_of(imports) == counted | {("GPTBot", "/pricing"): 4, ("GPTBot", "/more"): 1}


def test_a_check_counts_crawlers(recent: Imports) -> None:
    imports = recent
    assert imports.take("access-log", "\n".join(CRAWLS), "--dry-run") == ""
    assert "counted would be 5 requests of crawlers" in imports.errors
    assert crawls_of(imports) == {}


def test_requests_of_crawlers_are_exported_and_imported(recent: Imports, tmp_path: Path) -> None:
    imports = recent
    imports.take("access-log", "\n".join(CRAWLS))
    before = crawls_of(imports)
    path = tmp_path / "export.jsonl"
    assert main(["export", imports.site.id, str(path), "--db", str(imports.db)]) == 0
    lines = path.read_text().splitlines()
    assert {(one["crawler"], one["source"]) for one in map(json.loads, lines)} == {
        ("GPTBot", "access_log"),
        ("Googlebot", "access_log"),
    }
    # Into the website that has them: nothing is new.
    assert imports.take("tally", path) == "0"
    assert f"skipped {len(lines)} duplicates" in imports.errors
    assert crawls_of(imports) == before

    imports.command("--undo", "1")
    assert crawls_of(imports) == {}
    for new in (5, 0):
        imports.take("tally", path)
        assert ("5 requests of crawlers" in imports.errors) == (new == 5)
        assert crawls_of(imports) == before


BAD_CRAWLS: list[dict[str, Any]] = [
    {"day": "2999-01-01"},
    {"crawler": "x" * 101},
    {"pathname": ""},
    {"source": "fax"},
    {"requests": 0},
]


@cases("change", BAD_CRAWLS)
def test_a_bad_line_of_crawlers_is_named(change: dict[str, Any], recent: Imports) -> None:
    imports = recent
    line = {
        "type": "crawler_day",
        "day": "2026-11-17",
        "crawler": "GPTBot",
        "pathname": "/",
        "source": "event",
        "requests": 1,
    }
    imports.take("tally", json.dumps(line | change), status=1)
    assert f"line 1: invalid_field ({next(iter(change))})" in imports.errors
    assert crawls_of(imports) == {}


def test_a_log_is_compressed_or_zipped(imports: Imports, tmp_path: Path) -> None:
    text = "\n".join(LOG).encode()
    assert imports.take("access-log", gzip.compress(text)) == "4"
    with zipfile.ZipFile(tmp_path / "log.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../var/log/access.log", text)
    assert imports.take("access-log", (tmp_path / "log.zip").read_bytes()) == "0"


LINES: dict[str, tuple[str, Any]] = {
    "common": (f'{GERMAN} - - [18/Nov/2024:09:00:00 +0000] "GET / HTTP/1.1" 200 12\n', {"browser": ""}),
    "virtual host": (combined("/a", before="example.com:443 "), {"hostname": "example.com", "pathname": "/a"}),
    "subdomain": (combined(before="shop.example.com "), {"hostname": "shop.example.com"}),
    "other host": (combined(before="example.org "), Skip("requests to other hosts")),
    "user": (combined().replace("- -", "- ann lee"), {"hostname": "example.com", "country": "DE"}),
    "more fields": (combined() + ' 0.003 "10.0.0.1"', {"pathname": "/"}),
    "not modified": (combined(status=304), {"pathname": "/"}),
    "escaped": (combined(r"/caf\xC3\xA9"), {"pathname": "/caf%C3%A9"}),
    "quote in agent": (combined(agent=CHROME + r" \"x\""), {"browser": "Chrome"}),
    "absolute": (combined("http://example.com/a?b=1"), {"pathname": "/a"}),
    "a dot in a folder": (combined("/a.b/c"), {"pathname": "/a.b/c"}),
    "a page's extension": (combined("/index.php"), {"pathname": "/index.php"}),
    "IPv6": (combined(address="2a02:2e0:3fe:1001:302::"), {"country": "DE"}),
    "a host's name": (combined(address="host.example"), {"country": ""}),
    "TLS on a plain port": (combined().replace("GET / HTTP/1.1", r"\x16\x03\x01"), Skip("requests other than GET")),
    "Caddy": (caddy("/a?utm_source=x"), {"pathname": "/a", "utm_source": "x", "language": "de-DE", "country": "DE"}),
    "Caddy's milliseconds": (caddy(), {"timestamp": 1731924000250}),
    "Caddy's text time": (caddy(ts="2024-11-18T10:00:00.25Z"), {"timestamp": 1731924000250}),
    "Caddy's other types": (caddy(resp_headers={"Content-Type": ["image/png"]}), Skip("assets")),
    "Caddy's crawlers": (caddy(agent="GPTBot/1.0"), {"type": "crawler_day", "crawler": "GPTBot"}),
    "Caddy's POST": (caddy(method="POST"), Skip("requests other than GET")),
    "Caddy's odd values": (caddy(ts=[]), "invalid_field"),
    "cut JSON": (caddy()[:40], "invalid_line"),
    "a field before the referrer": (
        combined().replace(" 512 ", " 512 0.003 "),
        {"browser": "Chrome", "referrer": ""},
    ),
    "a field before the status": (combined().replace(" 200 ", " 0.003 200 "), {"browser": "Chrome"}),
    "fields in quotes before the referrer": (
        combined(referrer="https://r.example/").replace(" 512 ", ' 512 "10.0.0.1:80" "0.003" '),
        {"browser": "Chrome", "referrer": "r.example"},
    ),
    "the referrer last": (
        combined(referrer=CHROME, agent="https://r.example/"),
        {"browser": "Chrome", "referrer": "r.example"},
    ),
    "no referrer": (combined().replace('"-" ', ""), "invalid_line"),
    "no referrer and an end": (combined().replace('"-" ', "") + "\n", {"browser": "Chrome", "referrer": ""}),
    "Googlebot after another field": (
        combined(agent=GOOGLEBOT).replace(" 512 ", " 512 0.003 "),
        {"type": "crawler_day", "crawler": "Googlebot"},
    ),
    "Googlebot after a quote that is not escaped": (
        combined(agent=GOOGLEBOT, referrer='https://r.example/?q="a" b'),
        {"type": "crawler_day", "crawler": "Googlebot"},
    ),
    "quotes that are not escaped": (
        combined(referrer='https://r.example/?q="a b" c') + "\n",
        {"browser": "Chrome", "referrer": "r.example"},
    ),
    "quotes of Apache": (combined(referrer=r"https://r.example/?q=\"a b\" c"), {"referrer": "r.example"}),
    "quotes of nginx": (combined(referrer=r"https://r.example/?q=\x22a b\x22 c"), {"referrer": "r.example"}),
    "a User-Agent without quotes": (combined().replace(f'"{CHROME}"', CHROME) + "\n", "invalid_line"),
    "other fields in quotes": (combined().replace(f'"{CHROME}"', "") + "\n", "invalid_line"),
    "Windows": (combined() + "\r\n", {"browser": "Chrome"}),
    "NULs before": ("\0" * 500 + combined(), {"browser": "Chrome"}),
    "a NUL within": (combined("/a\0b"), {"pathname": "/a\0b"}),
    "NULs alone": ("\0" * 500, "invalid_line"),
    "two addresses": (combined(before="198.51.100.7, "), {"visitor": f"198.51.100.7 {CHROME}"}),
    "a private address first": (combined(before="10.0.0.1, "), {"visitor": f"{GERMAN} {CHROME}"}),
    "a proxy's address": (
        combined(address="10.0.0.1") + f' "{GERMAN}, 10.0.0.9"',
        {"visitor": f"{GERMAN} {CHROME}", "country": "DE"},
    ),
    "a private address alone": (combined(address="10.0.0.1") + ' "-"', {"visitor": f"10.0.0.1 {CHROME}"}),
    "the host in place of a dash (OVH)": (
        combined().replace(" - - ", " shop.example.com - "),
        {"hostname": "shop.example.com", "country": "DE"},
    ),
    "another host in place of a dash": (
        combined().replace(" - - ", " example.org - "),
        Skip("requests to other hosts"),
    ),
    "the host in quotes": (combined(before='"shop.example.com" '), {"hostname": "shop.example.com"}),
    "the host after the time": (combined().replace('] "', '] shop.example.com "'), {"hostname": "shop.example.com"}),
    "a server without a name": (combined(before="_ "), {"hostname": "example.com", "country": "DE"}),
    "the end of an address": (combined(address=".99.144.80"), "invalid_line"),
    "ISO 8601": (combined(time="2024-11-18T09:00:00+00:00"), {"timestamp": 1731920400000}),
    "a leap second": (combined(time="31/Dec/2016:23:59:60 +0000"), {"timestamp": 1483228799000}),
    "no leap second": (combined(time="31/Dec/2016:22:59:60 +0000"), "invalid_field"),
    "a bad time": (combined(time="99/Foo/2024:09:00:00 +0000"), "invalid_field"),
}


@cases(("line", "expected"), LINES.values(), ids=LINES)
def test_lines(imports: Imports, line: str, expected: Any) -> None:
    found, *warnings = imports.items("access-log", line)
    assert len(warnings) == (isinstance(found, dict) and found.get("browser") == "")
    if isinstance(expected, dict):
        found["referrer"] = values.referrer(found.get("referrer", ""))
        assert {name: found[name] for name in expected} == expected
    else:
        assert expected in (found, getattr(found, "code", None))


def of_nginx(**more: Any) -> str:
    """Return a line of nginx with `log_format escape=json` and usual keys."""
    entry = {
        "time_local": "18/Nov/2024:09:00:00 +0000",
        "remote_addr": GERMAN,
        "request": "GET /a?utm_source=x HTTP/1.1",
    }
    entry |= {
        "status": "200",
        "body_bytes_sent": "512",
        "http_referrer": "https://r.example/",
        "http_user_agent": CHROME,
    }
    return json.dumps(entry | more)


def of_traefik(**more: Any) -> str:
    """Return a line of Traefik whose configuration keeps headers."""
    entry = {"ClientAddr": f"{GERMAN}:4711", "ClientHost": GERMAN, "DownstreamContentSize": 19, "DownstreamStatus": 200}
    entry |= {"RequestHost": "shop.example.com", "RequestMethod": "GET", "RequestPath": "/a?utm_source=x"}
    entry |= {"RouterName": "a@docker", "StartUTC": "2024-11-18T09:00:00.25Z", "level": "info", "msg": ""}
    entry |= {"time": "2024-11-18T09:00:01Z", "request_User-Agent": CHROME, "request_Referer": "https://r.example/"}
    return json.dumps(entry | more)


EXPECTED = {"pathname": "/a", "utm_source": "x", "referrer": "r.example", "browser": "Chrome", "country": "DE"}
JSON_LINES: dict[str, tuple[str, Any]] = {
    "nginx": (of_nginx(), EXPECTED | {"timestamp": 1731920400000, "hostname": "example.com"}),
    "nginx with other keys": (
        json.dumps(
            {"@timestamp": "2024-11-18T09:00:00+00:00", "clientip": GERMAN, "method": "GET", "uri": "/a"}
            | {
                "args": "utm_source=x",
                "status": 200,
                "referer": "https://r.example/",
                "agent": CHROME,
                "vhost": "example.com",
            }
        ),
        EXPECTED | {"timestamp": 1731920400000},
    ),
    "nginx by $msec": (of_nginx(time_local=None, msec="1731920400.250"), {"timestamp": 1731920400250}),
    "nginx without escape=json": (
        of_nginx(http_referrer="https://r.example/?q=XXaXX").replace("XX", r"\x22"),
        EXPECTED,
    ),
    "a letter without escape=json": (
        of_nginx(http_referrer="https://XX.example/").replace("XX", r"\xC3\xA9"),
        {"referrer": "xn--9ca.example"},
    ),
    "nginx behind a proxy": (
        of_nginx(remote_addr="10.0.0.1", http_x_forwarded_for=f"{GERMAN}, 10.0.0.2"),
        {"country": "DE", "visitor": f"{GERMAN} {CHROME}"},
    ),
    "nginx's crawlers": (of_nginx(http_user_agent=GOOGLEBOT), {"type": "crawler_day", "crawler": "Googlebot"}),
    "nginx's POST": (of_nginx(request="POST / HTTP/1.1"), Skip("requests other than GET")),
    "nginx's errors": (of_nginx(status="404"), Skip("redirects and errors")),
    "nginx's language": (of_nginx(http_accept_language="de-de,de;q=0.8"), {"language": "de-DE"}),
    "a log without User-Agents": (of_nginx(http_user_agent=None), {"browser": "", "country": "DE"}),
    "no method": (of_nginx(request=None, request_uri="/a"), "invalid_line"),
    "no time": (of_nginx(time_local=None), "invalid_field"),
    "Apache": (
        json.dumps(
            {
                "time": "2024-11-18T09:00:00.000Z",
                "remoteIP": GERMAN,
                "host": "example.com",
                "request": "/a",
                "method": "GET",
            }
            | {"query": "?utm_source=x", "status": "200", "userAgent": CHROME, "referer": "https://r.example/"}
        ),
        EXPECTED,
    ),
    "Elastic Common Schema": (
        json.dumps(
            {"@timestamp": "2024-11-18T09:00:00Z", "client": {"ip": GERMAN}, "user_agent": {"original": CHROME}}
            | {
                "http": {
                    "request": {"method": "GET", "referrer": "https://r.example/"},
                    "response": {"status_code": 200},
                }
            }
            | {"url": {"path": "/a", "query": "utm_source=x"}}
        ),
        EXPECTED,
    ),
    "Traefik": (of_traefik(), EXPECTED | {"hostname": "shop.example.com", "timestamp": 1731920400250}),
    "Traefik's crawlers": (
        of_traefik(**{"request_User-Agent": "GPTBot/1.0"}),
        {"type": "crawler_day", "crawler": "GPTBot"},
    ),
    "Traefik's other types": (of_traefik(**{"downstream_Content-Type": "text/css"}), Skip("assets")),
    "Traefik for others": (of_traefik(RequestHost="example.org"), Skip("requests to other hosts")),
    "no request": ('{"a": 1}', "invalid_line"),
}


@cases(("line", "expected"), JSON_LINES.values(), ids=JSON_LINES)
def test_lines_of_json(imports: Imports, line: str, expected: Any) -> None:
    found, *warnings = imports.items("access-log", line)
    assert len(warnings) == (isinstance(found, dict) and found.get("browser") == "")
    if isinstance(expected, dict):
        found["referrer"] = values.referrer(found.get("referrer", ""))
        assert {name: found[name] for name in expected} == expected
    else:
        assert expected in (found, getattr(found, "code", None))


def test_a_line_without_the_user_agent_of_the_others_is_rejected(imports: Imports) -> None:
    """Otherwise a crawler whose line is cut would count as a person. In a log without them, lines are imported."""
    cut = combined("/cut", agent=GOOGLEBOT)
    content = "\n".join([LOG[0], cut[: cut.index(' "-"')], cut[: cut.index("+http")], cut[:60] + LOG[0], LOG[1], ""])
    assert imports.take("access-log", content) == "2"
    assert "line 2: invalid_line: The line has no User-Agent, as other lines of the file have" in imports.errors
    assert "line 3: invalid_line: A quote of the line is not closed" in imports.errors
    assert "line 4: invalid_line: The line has two times" in imports.errors
    assert imports.list("browser") == {"Chrome": 2}


@pytest.mark.parametrize("write", [combined, of_nginx], ids=["text", "JSON"])
def test_a_cut_last_line_is_not_imported(imports: Imports, write: Callable[..., str]) -> None:
    """It would count again with the complete file. A complete last line without its line break is imported."""
    paths = [{"uri": f"/{n}"} if write is combined else {"request": f"GET /{n} HTTP/1.1"} for n in range(2)]
    first, last = (write(**more) for more in paths)
    for end in range(1, len(last)):
        items = imports.items("access-log", f"{first}\n{last[:end]}")
        assert [type(item) for item in items] == [dict, Rejection], last[:end]
    assert imports.take("access-log", f"{first}\n{last}") == "2"
    assert imports.take("access-log", f"{first}\n{last}\n") == "0"


UNREADABLE: dict[str, tuple[str, str]] = {
    "Caddy's other entries": ('{"level":"info","msg":"serving"}\n' * 3, "has no requests: turn on the access log"),
    "Traefik without headers": (combined(agent="-") + ' 5 "a@docker" "http://10.0.0.1" 3ms\n', "has no User-Agents"),
    "HAProxy without captures": (
        combined(referrer="", agent="") + ' 40000 123 "in" "in" "a" 0 0 0 0 0 ---- 1 1 0 0 0 0 0 "" "" \n',
        "has no User-Agents",
    ),
    "another JSON": ('{"a": 1}\n' * 3, "The JSON has no request that can be read"),
}


@cases(("content", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_log_of_which_nothing_can_be_imported_is_an_error(imports: Imports, content: str, message: str) -> None:
    assert imports.take("access-log", content, status=1) == ""
    assert message in imports.errors
    assert imports.take("access-log", content, "--dry-run", status=1) == ""
    assert message in imports.errors


PIECES = ['"', " ", "[", "]", "- ", "\\", "a", "200", "\t", '" "', '"\\""', "\N{NO-BREAK SPACE}"]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200), st.sampled_from(PIECES), st.booleans()), max_size=3))
def test_usual_lines_are_read_as_any_others(changes: list[tuple[int, str, bool]]) -> None:
    """A usual line, and lines in which some characters are inserted or replaced."""
    text = combined("/a?b=c", referrer="https://example.org/", agent="A (b) C")
    for at, piece, is_inserted in changes:
        text = text[:at] + piece + text[at + (0 if is_inserted else len(piece)) :]
    usual = log_text.usual_request(text)
    assert usual is None or log_text.any_request(text) == usual


def test_addresses_are_not_stored(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    """A visitor's number is another one in the next import, so that no address can be tried; the line stays known."""
    imports.take("access-log", combined())
    first = imports.sql("select visitor from event")
    assert imports.sql("select count(*) from meta where name like 'import%'") == [(0,)]
    imports.take("access-log", combined("/b"))
    assert len({visitor for (visitor,) in imports.sql("select visitor from event")}) == 2
    # With the same secret, it would be the same one.
    monkeypatch.setattr(importer.secrets, "token_hex", lambda size: "ab" * size)
    imports.take("access-log", combined("/c"))
    imports.take("access-log", combined("/d"))
    visitors = [visitor for (visitor,) in imports.sql("select visitor from event")]
    assert len(set(visitors)) == 3
    assert first[0][0] in visitors
    stored = imports.db.read_bytes()
    assert GERMAN.encode() not in stored
    assert b"Mozilla" not in stored


def test_a_dry_run_stores_nothing(imports: Imports) -> None:
    imports.take("access-log", LOG[0])
    before = list(imports.sql("select * from event"))
    assert imports.take("access-log", "\n".join(LOG), "--dry-run") == "2024-11-18\t3\n2024-11-19\t1"
    assert "nothing was imported: 4 events of 2 days would be, imported before: 1;" in imports.errors
    assert "invalid lines: 1 of 12" in imports.errors
    assert "2 redirects and errors" in imports.errors
    assert list(imports.sql("select * from event")) == before
    assert imports.sql("select name from meta where name like 'import%'") == []


HOSTILE: dict[str, tuple[bytes, str]] = {
    "NUL": (b"\0" * 1_000, "invalid_line"),
    "UTF-16": (combined().encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
    "a bomb": (gzip.compress(b" " * 100_000_000), "decompresses to more than 500 times its size"),
    "another encoding": (combined("/caf\xe9").encode("latin-1"), "invalid_text: The line is not UTF-8"),
    "a huge line": (b"x" * 3_000_000, "line_too_long"),
    "quotes": (b'"' * 900_000, "invalid_line"),
    "words": (b"a " * 450_000, "invalid_line"),
    "backslashes": (b'a - - [b] "' + b"\\x" * 400_000, "invalid_line"),
    "a time beyond all calendars": (caddy(ts=1e300).encode(), "invalid_field (timestamp)"),
    "nested": (b"{" * 900_000, "invalid_line"),
}


def test_lines_without_a_user_agent_are_counted(imports: Imports) -> None:
    """The common format has none, and its crawlers count as people."""
    line = combined().partition(' "-"')[0]
    content = f"{line}\n{line.replace('GET /', 'GET /a')}\n{line}"
    assert imports.take("access-log", content, "--dry-run") == "2024-11-18\t2"
    assert "warnings: 2 without_user_agent" in imports.errors
    assert "line 3: invalid_line: The last line has no line break and may be cut" in imports.errors
    assert imports.take("access-log", content) == "2"
    assert "warnings: 2 without_user_agent" in imports.errors


def test_nuls_after_a_crash_cost_no_other_line(imports: Imports) -> None:
    """At the beginning, between two lines and within one, in the first kilobyte."""
    for nuls in (b"\0", b"\0" * 100):
        found = imports.items("access-log", b"%b%b\n%b%b\n" % (nuls, LOG[0].encode(), nuls, LOG[1].encode()))
        assert [item["pathname"] for item in found] == ["/", "/pricing"]
    broken = LOG[0].encode().replace(b"GET", b"G\0T")
    assert imports.take("access-log", broken + b"\n" + LOG[1].encode() + b"\n") == "1"


def test_a_referrer_that_is_none_costs_no_pageview(imports: Imports) -> None:
    content = combined(referrer="about:blank") + "\n" + combined("/a", referrer="x" * 9_000) + "\n"
    assert imports.take("access-log", content, "--strict") == "2"
    assert "warnings: 2 without_referrer" in imports.errors


@cases(("content", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files(imports: Imports, content: bytes, message: str) -> None:
    assert imports.take("access-log", content, status=1) == ""
    assert message in imports.errors
    assert imports.totals()["pageviews"] == 0


def archive(change: Callable[[zipfile.ZipFile], None]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            change(file)

    return write


ARCHIVES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a bomb": (archive(lambda file: file.writestr("a", b" " * 100_000_000)), "more than 500 times its size"),
    "nothing": (archive(lambda file: file.writestr("a/", b"")), "a zip archive of 0 files"),
    "two files": (archive(lambda file: [file.writestr(name, b"x") for name in "ab"]), "a zip archive of 2 files"),
    "another method": (archive(lambda file: file.writestr("a", b"x", zipfile.ZIP_LZMA)), "is not deflate"),
}


@cases(("write", "message"), ARCHIVES.values(), ids=ARCHIVES)
def test_hostile_archives(imports: Imports, tmp_path: Path, write: Callable[[Path], None], message: str) -> None:
    write(tmp_path / "log.zip")
    assert imports.take("access-log", (tmp_path / "log.zip").read_bytes(), status=1) == ""
    assert message in imports.errors


def test_an_interrupted_import_keeps_its_visitors(imports: Imports) -> None:
    """The second run continues with the visitors of the first one."""
    log = [combined(f"/{n}", time=f"18/Nov/2024:09:00:{n:02} +0000") for n in range(12)]
    path = imports.file("\n".join([*log, *[combined("/x.css")] * 5]))
    stops = iter((False, False, True))

    def progress(position: int) -> None:
        if next(stops, False):
            raise KeyboardInterrupt

    def take() -> None:
        with (
            contextlib.closing(open_database(imports.db, create=False)) as connection,
            open_source(str(path)) as source,
        ):
            import_events(
                connection,
                1,
                source,
                now_ms=NOON_MS,
                format="access-log",
                geoip_db=unpacked_countries(),
                sizes=Sizes(chunk_lines=4, part_lines=2),
                report=messages.append,
                progress=progress,
            )

    messages: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        take()
    assert imports.sql("select count(*) from event") == [(6,)]
    take()
    assert messages[-1] == "skipped: 5 assets"
    imports.sync_app.run(imports.sync_app.app.registry.refresh())
    assert imports.totals() == {"pageviews": 12, "visitors": 1, "visits": 1, "events": 0}
