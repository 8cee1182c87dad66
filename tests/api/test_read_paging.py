"""GET /api/v1/websites/:id/events: rows, order, pages; and CSV of events, timeseries and top.

The rules are in docs/reference/read-api.md, Events.
"""

import asyncio
import base64
import csv
import io
import re
import threading
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tally.storage.connections import READERS
from tests.model.reference import FIELDS
from tests.support.app import NOON_MS, Answer, App, MakeApp
from tests.support.cases import cases
from tests.support.read_api import DAY, HOUR_MS, Site, SyncApp, custom, event, filters, view

ALL_DAY = f"from={DAY}&to={DAY}"
COLUMNS = [
    *("id", "type", "timestamp", *FIELDS, "event_name", "event_data", "visit", "vitals"),
    *("experiment", "variant", "goal", "value"),
]


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    return sync_app.site()


def paths(rows: list[dict[str, Any]]) -> list[str]:
    return [row["pathname"] for row in rows]


def pages(site: Site, question: str) -> list[list[dict[str, Any]]]:
    """Return all pages of a query, following next_cursor."""
    answer = site.json(f"events?{question}")
    found = [answer["data"]]
    while cursor := answer["meta"]["next_cursor"]:
        answer = site.json(f"events?{question}&cursor={cursor}")
        found.append(answer["data"])
    return found


# --- rows

URL = {"url": "https://example.com/p"}
BASE = dict.fromkeys(COLUMNS[3:]) | {
    "browser": "Chrome",
    "browser_version": "142",
    "os": "Windows",
    "device": "desktop",
    "channel": "Direct",
}
PAGE = {"pathname": "/p", "hostname": "example.com"}
DATA = {"a": 1, "b": "é", "c": None, "d": True, "e": 0.5}


@pytest.mark.parametrize(
    ("sent", "own"),
    [
        pytest.param(
            view("10:00:00", "/p?utm_source=a&utm_medium=b&utm_campaign=c", referrer="https://www.x.net/y"),
            PAGE | {"utm_source": "a", "utm_medium": "b", "utm_campaign": "c", "referrer": "x.net"}
            | {"channel": "Other", "visit": str},
            id="pageview",
        ),
        pytest.param(
            event("screen_view", "10:00:00", "ann", name="Home", platform="ios", app_version="1", os_version="17"),
            {"pathname": "/Home", "platform": "ios", "app_version": "1", "os_version": "17", "visit": str},
            id="screen_view",
        ),
        pytest.param(
            custom("10:00:00", "buy", event_data=DATA, **URL),
            PAGE | {"event_name": "buy", "event_data": DATA, "visit": str},
            id="event",
        ),
        pytest.param(
            custom("10:00:00", "a", event_data={}), {"event_name": "a", "event_data": {}, "visit": str}, id="no-data"
        ),
        pytest.param(
            event("app_event", "10:00:00", "ann", language="de-at"), {"language": "de-AT", "visit": str}, id="app_event"
        ),
        pytest.param(
            event("vitals", "10:00:00", "ann", vitals={"lcp": 2500, "cls": 0.1, "mine": 7}, **URL),
            PAGE | {"vitals": {"lcp": 2500, "cls": 0.1}},
            id="vitals",
        ),
        pytest.param(
            event("vitals", "10:00:00", "ann", vitals={"inp": 0, "fcp": 1.5, "ttfb": 3_600_000}),
            {"vitals": {"inp": 0, "fcp": 1.5, "ttfb": 3_600_000}},
            id="vitals-zero",
        ),
        pytest.param(
            event("ab_assign", "10:00:00", "ann", experiment="button", variant="red", **URL),
            PAGE | {"experiment": "button", "variant": "red"},
            id="ab_assign",
        ),
        pytest.param(
            event("ab_convert", "10:00:00", "ann", experiment="button", variant="red", goal="buy", value=-2.5),
            {"experiment": "button", "variant": "red", "goal": "buy", "value": -2.5},
            id="ab_convert",
        ),
        pytest.param(
            event("ab_convert", "10:00:00", "ann", experiment="button", variant="red", value=0),
            {"experiment": "button", "variant": "red", "value": 0},
            id="ab_convert-value-0",
        ),
    ],
)  # fmt: skip
def test_a_row_of_each_type(site: Site, sent: dict[str, Any], own: dict[str, Any]) -> None:
    """All types have the same columns, null where unset; only traffic events have a visit."""
    site.send(sent)
    (row,) = site.data(f"events?{ALL_DAY}")
    assert list(row) == COLUMNS
    assert isinstance(row.pop("id"), int)
    if own.get("visit") is str:
        assert isinstance(row["visit"], str)
        own = own | {"visit": row["visit"]}
    assert row == {"type": sent["type"], "timestamp": f"{DAY}T10:00:00.000+00:00"} | BASE | own


def test_heatmap_events_have_no_row(site: Site) -> None:
    """Heatmap points are binned as they arrive."""
    site.send(event("heatmap", "10:00:00", "ann", points=[{"x": 0, "y": 0, "kind": "click"}], viewport_width=800))
    assert site.data(f"events?{ALL_DAY}") == site.data(f"events?{ALL_DAY}&filter_type=heatmap") == []


@pytest.mark.parametrize("type_", ["pageview", "event", "vitals", "ab_assign"])
def test_rows_by_type(site: Site, type_: str) -> None:
    """filter_type accepts every type, also vitals and experiments."""
    every = [
        view("10:00:00"),
        custom("10:00:00"),
        event("vitals", "10:00:00", "ann", vitals={"lcp": 1}),
        event("ab_assign", "10:00:00", "ann", experiment="e", variant="v"),
    ]
    site.send(*every)
    assert [row["type"] for row in site.data(f"events?{ALL_DAY}&filter_type={type_}")] == [type_]
    both = site.data(f"events?{ALL_DAY}&filter_type={type_}&filter_type=app_event")
    assert [row["type"] for row in both] == [type_]
    # only events of type event have a name
    unnamed = sorted(row["type"] for row in site.data(f"events?{ALL_DAY}&filter_event_name="))
    assert unnamed == ["ab_assign", "pageview", "vitals"]


def test_a_visit_is_the_same_for_all_its_events(site: Site) -> None:
    """It differs by visitor, visit and day; two visits that are joined get one value."""
    site.send(
        view("10:00:00", "/1"), custom("10:20:00", **{"url": "https://example.com/2"}), view("11:00:00", "/3"),
        view("10:00:00", "/4", "bob"), view("2026-11-18T10:00:00Z", "/5"),
    )  # fmt: skip
    visit = {row["pathname"]: row["visit"] for row in site.data("events")}
    assert visit["/1"] == visit["/2"]
    assert len({visit[path] for path in ("/1", "/3", "/4", "/5")}) == 4
    site.send(custom("10:40:00"))
    joined = {row["pathname"]: row["visit"] for row in site.data("events")}
    assert joined["/1"] == joined["/2"] == joined["/3"] == joined[None]
    assert len({joined[path] for path in ("/1", "/4", "/5")}) == 3


def test_no_client_data_is_shown(site: Site) -> None:
    """Responses contain no session_id, address or User-Agent."""
    site.send(view("10:00:00", session_id="canary-session"), ip="198.51.100.77", ua="canary-agent/1")
    text = site.get(f"events?{ALL_DAY}").text + site.get(f"events?{ALL_DAY}&format=csv").text
    assert not any(word in text for word in ("canary", "198.51.100.77"))


# --- order and pages


def test_events_are_ordered_by_time_and_id(site: Site) -> None:
    """Newest first by timestamp, then id, over all types; ids grow with arrival."""
    site.send(
        view("10:00:00.001", "/2"),
        event("vitals", "10:00:00.001", "ann", vitals={"lcp": 1}, url="https://example.com/3"),
        event("ab_assign", "10:00:00.001", "ann", experiment="e", variant="v", url="https://example.com/4"),
        view("10:00:00.000", "/1"),
        view("10:00:00.002", "/6"),
    )
    site.send(view("10:00:00.001", "/5"))
    rows = site.data(f"events?{ALL_DAY}")
    assert paths(rows) == ["/6", "/5", "/4", "/3", "/2", "/1"]
    assert paths(sorted(rows, key=lambda row: int(row["id"]))) == ["/2", "/3", "/4", "/1", "/6", "/5"]


def seven_events() -> list[dict[str, Any]]:
    """Return seven events of three types; all but two have the same timestamp."""
    at = "10:00:00"
    return [
        view(at, "/0"),
        event("vitals", at, "ann", vitals={"lcp": 1}, url="https://example.com/1"),
        event("ab_assign", at, "ann", experiment="e", variant="v", url="https://example.com/2"),
        custom(at, url="https://example.com/3"),
        view(at, "/4"),
        view("10:00:01", "/5"),
        view("09:59:59", "/6"),
    ]


@pytest.mark.parametrize(
    ("limit", "sizes"), [(1, [1] * 7), (2, [2, 2, 2, 1]), (3, [3, 3, 1]), (6, [6, 1]), (7, [7]), (8, [7]), (1000, [7])]
)
def test_pages_together_equal_the_list(site: Site, limit: int, sizes: list[int]) -> None:
    """No row is repeated or missing, also with equal timestamps."""
    site.send(*seven_events())
    whole = site.data(f"events?{ALL_DAY}&limit=1000")
    cut = pages(site, f"{ALL_DAY}&limit={limit}")
    assert [len(page) for page in cut] == sizes
    assert [row for page in cut for row in page] == whole
    assert paths(whole) == ["/5", "/4", "/3", "/2", "/1", "/0", "/6"]


def test_pages_of_a_filter(site: Site) -> None:
    """Filters apply to every page."""
    site.send(*(view(f"10:00:{n:02}", f"/{n % 2}", f"{n}") for n in range(20)))
    cut = pages(site, f"{ALL_DAY}&limit=3&filter_pathname=/1")
    assert [len(page) for page in cut] == [3, 3, 3, 1]
    assert all(row["pathname"] == "/1" for page in cut for row in page)


def test_default_page_size_and_last_page(site: Site) -> None:
    """limit defaults to 100; next_cursor is null on the last page, which is not empty."""
    site.send(*(view("10:00:00", f"/{n}", f"{n}") for n in range(200)))
    assert [len(page) for page in pages(site, ALL_DAY)] == [100, 100]
    assert [len(page) for page in pages(site, f"{ALL_DAY}&limit=200")] == [200]


@pytest.mark.parametrize("question", ["limit=2", f"{ALL_DAY}&limit=2", f"from={DAY}&limit=2", "tz=Asia/Tokyo&limit=2"])
def test_pages_are_stable_while_events_arrive(site: Site, question: str) -> None:
    """A cursor includes the time of the first request, so the range stays the same."""
    site.send(*seven_events())
    first = site.json(f"events?{question}")
    expected = paths(site.data(f"events?{question.replace('limit=2', 'limit=1000')}"))
    found, cursor = paths(first["data"]), first["meta"]["next_cursor"]
    for n in range(3):
        # newer, older and equal to the last timestamp of the page; the clock advances too
        site.sync_app.clock.advance(3600)
        site.send(
            view(site.sync_app.clock.wall_ms(), f"/new{n}"), view("09:00:00", f"/old{n}"), view("10:00:00", f"/tie{n}"),
            event("vitals", "10:00:00", "bob", vitals={"lcp": 1}, url=f"https://example.com/vitals{n}"),
        )  # fmt: skip
        page = site.json(f"events?{question}&cursor={cursor}")
        assert [page["meta"][name] for name in ("from", "to")] == [first["meta"][name] for name in ("from", "to")]
        found += paths(page["data"])
        cursor = page["meta"]["next_cursor"]
    assert (found, cursor) == (expected, None)


def test_fields_of_visits_are_those_of_each_page(site: Site) -> None:
    """docs/reference/read-api.md, Events: a late event gives its visit another source between two pages."""
    for minute in range(4):
        site.send(view(f"10:0{minute}", f"/{minute}?utm_source=a"))
    filtered, all_events = (site.json(f"events?{ALL_DAY}&limit=2{of}") for of in ("&filter_utm_source=a", ""))
    assert paths(filtered["data"]) == paths(all_events["data"]) == ["/3", "/2"]
    site.send(view("09:59", "/late?utm_source=b"))

    def after(page: dict[str, Any], of: str) -> list[dict[str, Any]]:
        cursor = page["meta"]["next_cursor"]
        rows: list[dict[str, Any]] = site.json(f"events?{ALL_DAY}&limit=2{of}&cursor={cursor}")["data"]
        return rows

    assert after(filtered, "&filter_utm_source=a") == []
    rest = after(all_events, "")
    assert (paths(rest), {row["utm_source"] for row in rest}) == (["/1", "/0"], {"b"})


async def test_cursors_are_valid_after_a_restart(make_app: MakeApp) -> None:
    """Clients that read page by page can continue after an update of the server."""
    app = await make_app()
    website, key = await app.website(), await app.key()
    path = f"/api/v1/websites/{website}/events"
    await app.collect({"website_id": website, "events": seven_events()})
    whole = (await app.get(path, key)).json["data"]
    first = (await app.get(path, key, {"limit": "4"})).json
    await app.restart()
    await app.collect({"website_id": website, "events": [view("10:00:00", "/late"), view("09:59:59.5", "/late")]})
    second = (await app.get(path, key, {"limit": "4", "cursor": first["meta"]["next_cursor"]})).json
    assert first["data"] + second["data"] == whole
    assert second["meta"]["next_cursor"] is None
    assert len((await app.get(path, key)).json["data"]) == 9


async def test_pages_are_stable_when_the_first_query_waits(app: App) -> None:
    """Events arrive while the query for the first page waits for a connection."""
    website, key = await app.website(), await app.key()
    path = f"/api/v1/websites/{website}/events"
    free = threading.Event()
    holding = [asyncio.create_task(app.database.read(lambda _: free.wait(30))) for _ in range(READERS)]
    first_page = asyncio.create_task(app.get(path, key, {"limit": "1"}))
    await app.collect({"website_id": website, "events": [view("10:00:00", "/a"), view("09:00:00", "/b")]})
    free.set()
    await asyncio.gather(*holding)
    answer = (await first_page).json
    found = paths(answer["data"])
    await app.collect({"website_id": website, "events": [view("09:30:00", "/late"), view("08:00:00", "/late")]})
    while cursor := answer["meta"]["next_cursor"]:
        answer = (await app.get(path, key, {"cursor": cursor})).json
        found += paths(answer["data"])
    assert found in ([], ["/a", "/b"])


def test_the_limit_can_change_between_pages(site: Site) -> None:
    """A cursor requires the same website, from, to, tz and filters, but not the same limit."""
    site.send(*seven_events())
    cursor = site.json(f"events?{ALL_DAY}&limit=2")["meta"]["next_cursor"]
    assert paths(site.data(f"events?{ALL_DAY}&limit=3&cursor={cursor}")) == ["/3", "/2", "/1"]


def test_the_order_of_parameters_can_change(site: Site) -> None:
    """A cursor is valid for the same filters in another order."""
    site.send(*(view("10:00:00", f"/{n}") for n in range(3)))
    one = f"{ALL_DAY}&filter_os=Windows&filter_browser=Chrome&filter_os="
    other = f"filter_browser=Chrome&filter_os=&filter_os=Windows&{ALL_DAY}"
    cursor = site.json(f"events?{one}&limit=1")["meta"]["next_cursor"]
    assert paths(site.data(f"events?{other}&cursor={cursor}")) == ["/1", "/0"]


@pytest.mark.parametrize(
    "question",
    [
        "",
        f"from={DAY}",
        f"to={DAY}",
        f"from=2026-11-16&to={DAY}",
        f"from={DAY}&to=2026-11-18",
        f"{ALL_DAY}&tz=Europe/Berlin",
        f"{ALL_DAY}&filter_os=",
        f"{ALL_DAY}&filter_os=Windows",
        f"{ALL_DAY}&filter_os=Windows&filter_os=macOS",
        f"{ALL_DAY}&filter_browser=Chrome",
        f"{ALL_DAY}&filter_os=Windows&filter_browser=Chrome",
    ],
)
def test_a_cursor_of_another_query_is_rejected(site: Site, question: str) -> None:
    """400 `invalid_parameter`, field cursor."""
    site.send(*seven_events())
    requested = (ALL_DAY, f"{ALL_DAY}&filter_os=Windows&filter_browser=Firefox&filter_browser=Chrome")
    for own in requested:
        cursor = site.json(f"events?{own}&limit=1")["meta"]["next_cursor"]
        assert site.invalid_field(f"events?{question}&cursor={cursor}") == "cursor"
    other = site.sync_app.site()
    other.send(*seven_events())
    assert other.invalid_field(f"events?{requested[0]}&cursor={cursor}") == "cursor"


def test_an_invalid_cursor_is_rejected(site: Site) -> None:
    """Every change of a cursor is detected: 400 with `field`."""
    site.send(*seven_events())
    cursor = site.json(f"events?{ALL_DAY}&limit=1")["meta"]["next_cursor"]
    flipped = [cursor[:n] + ("A" if cursor[n] != "A" else "B") + cursor[n + 1 :] for n in range(len(cursor))]
    cut = [cursor[:n] for n in (1, 2, 3, 4, 20, len(cursor) - 1)]
    odd = [cursor + "A", cursor + "=", cursor + "%20", "%20" + cursor, cursor * 2, cursor.swapcase(), "x", "%00", "-1"]
    zeros = base64.urlsafe_b64encode(bytes(56)).decode()
    forged = [zeros, zeros.rstrip("="), quote(cursor[:20] + "\u00e9" + cursor[21:]), "A" * 5000, "null", "%F0%9F%98%80"]
    for bad in (*flipped, *cut, *odd, *forged):
        assert site.invalid_field(f"events?{ALL_DAY}&limit=1&cursor={bad}") == "cursor", bad
    assert len(site.data(f"events?{ALL_DAY}&limit=1&cursor={cursor}")) == 1


def test_a_cursor_needs_no_escaping(site: Site) -> None:
    """It has only characters that are unreserved in URLs."""
    site.send(*seven_events())
    for page_size in range(1, 7):
        cursor = site.json(f"events?{ALL_DAY}&limit={page_size}")["meta"]["next_cursor"]
        assert re.fullmatch(r"[A-Za-z0-9_.~-]+", cursor)


# --- CSV


def table(answer: Answer) -> list[list[str]]:
    """Return the rows of a CSV response, including the header."""
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.reader(io.StringIO(answer.body.decode("utf-8"), newline=""), strict=True))


def test_series_and_lists_as_csv(site: Site) -> None:
    """CSV has a header row and quotes values where needed."""
    site.send(view("10:00:00", "/a,b"), view("10:00:00", '/"x"', "bob"), custom("10:00:01", who="bob"))
    assert table(site.get(f"timeseries?{ALL_DAY}&format=csv")) == [
        ["time", "visitors", "visits", "pageviews", "events"],
        [f"{DAY}T00:00:00.000+00:00", "2", "2", "2", "1"],
    ]
    assert table(site.get(f"top/pathname?{ALL_DAY}&format=csv")) == [
        ["value", "visitors", "pageviews", "events"],
        ["/%22x%22", "1", "1", "0"],
        ["/a,b", "1", "1", "0"],
    ]
    assert site.get(f"top/os?{ALL_DAY}&format=csv").body == b"value,visitors,pageviews,events\r\nWindows,2,2,1\r\n"


def test_events_as_csv(site: Site) -> None:
    """Same columns as in JSON; event_data and vitals are compact JSON, unset values are empty."""
    site.send(
        custom("10:00:00", "buy", event_data={"a": 1, "b": 'x,"y"\r\nz', "c": "é"}, url="https://example.com/p"),
        event("vitals", "09:00:00", "ann", vitals={"lcp": 1.5}),
        event("ab_convert", "08:00:00", "ann", experiment="e", variant="=v", goal="+g", value=-1.5),
    )
    rows = site.data(f"events?{ALL_DAY}")
    header, *found = table(site.get(f"events?{ALL_DAY}&format=csv"))
    assert header == COLUMNS
    bought, measured, converted = (dict(zip(COLUMNS, row, strict=True)) for row in found)
    assert [bought["id"], measured["id"], converted["id"]] == [str(row["id"]) for row in rows]
    assert bought["event_data"] == '{"a":1,"b":"x,\\"y\\"\\r\\nz","c":"é"}'
    assert (bought["vitals"], bought["value"], bought["timestamp"]) == ("", "", f"{DAY}T10:00:00.000+00:00")
    assert (measured["vitals"], measured["visit"], measured["event_data"]) == ('{"lcp":1.5}', "", "")
    assert [converted[name] for name in ("experiment", "variant", "goal", "value")] == ["e", "'=v", "'+g", "-1.5"]
    assert bought["visit"] == rows[0]["visit"]


@pytest.mark.parametrize("value", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "=cmd|' /C calc'!A0", "-"])
def test_formulas_are_escaped(site: Site, value: str) -> None:
    """Cells that a spreadsheet would run as a formula get an apostrophe; JSON is unchanged."""
    site.send(view("10:00:00", "/a", platform=value), custom("10:00:01", value))
    assert table(site.get(f"top/platform?{ALL_DAY}&format=csv"))[1][0] == "'" + value
    rows = table(site.get(f"events?{ALL_DAY}&format=csv"))[1:]
    assert rows[0][COLUMNS.index("event_name")] == rows[1][COLUMNS.index("platform")] == "'" + value
    assert site.data(f"top/platform?{ALL_DAY}")[0]["value"] == value


@cases(
    ("accept", "format_", "is_csv"),
    [
        ("", "", False),
        ("*/*", "", False),
        ("application/json", "", False),
        ("text/csv", "", True),
        ("TEXT/CSV", "", True),
        ("text/csv; charset=utf-8", "", True),
        ("text/csv, */*;q=0.1", "", True),
        ("application/json;q=0.5, text/csv;q=0.9", "", True),
        ("application/json, text/csv;q=0.9", "", False),
        ("text/csv;q=0", "", False),
        ("text/html, application/xhtml+xml", "", False),
        ("text/csv", "json", False),
        ("application/json", "csv", True),
        ("", "csv", True),
    ],
)
@cases("endpoint", ["timeseries", "top/os", "events"])
def test_accept_or_format(site: Site, endpoint: str, accept: str, format_: str, is_csv: bool) -> None:
    """`Accept: text/csv` or `format=csv`; `format` takes precedence."""
    requested = f"{endpoint}?{ALL_DAY}" + (f"&format={format_}" if format_ else "")
    answer = site.get(requested, {"Accept": accept} if accept else {"Accept": "*/*"})
    assert answer.headers["Content-Type"] == ("text/csv; charset=utf-8" if is_csv else "application/json")


@pytest.mark.parametrize("endpoint", ["stats", "realtime"])
def test_endpoints_without_csv_return_json(site: Site, endpoint: str) -> None:
    """CSV is for timeseries, top and events; errors are always JSON."""
    assert site.get(endpoint, {"Accept": "text/csv"}).json["data"]
    refused = site.get("top/nothing", {"Accept": "text/csv"})
    assert (refused.status, refused.json["error"]["field"]) == (400, "field")


ESCAPED_FILTERS = (
    "",
    filters(pathname="/ä&b=c+d %2F>,;\"<'", browser="Chrome") + "&filter_browser=",
    "&filter_pathname=/%C3%A4%26b=c%2Bd%20%252F%3E,;%22%3C'&filter_browser=Chrome&filter_browser=",
    "&filter_pathname=/%c3%a4%26b%3dc%2bd+%252F%3e%2c%3b%22%3c%27&filter_device=desktop",
)


@pytest.mark.parametrize("filter_", ESCAPED_FILTERS, ids=["plain", "quoted", "half-quoted", "lower-case-quoted"])
@pytest.mark.parametrize("range_", [ALL_DAY, f"from={DAY}T02:00:00+01:00&to={DAY}T23:00:00%2B00:00", "tz=Etc/GMT%2B5"])
@pytest.mark.parametrize("by_header", [True, False], ids=["Accept", "format"])
def test_links_of_csv_pages_can_be_followed(site: Site, filter_: str, range_: str, by_header: bool) -> None:
    """CSV pages have the next page's URL in a Link header (RFC 8288), the last page has none."""
    name = "ä&b=c+d %2F>,;\"<'"
    site.send(*(event("screen_view", f"10:00:0{n}", f"{n}", name=name) for n in range(5)))
    question, accept = f"events?{range_}{filter_}", {"Accept": "text/csv" if by_header else "*/*"}
    whole = table(site.get(f"{question}&format=csv"))
    assert len(whole) == 6
    answer = site.get(f"{question}&limit=2{'' if by_header else '&format=csv'}", accept)
    found = table(answer)
    for n in range(2):
        link = re.fullmatch(r'<([!-;=?-~]+)>; rel="next"', answer.headers["Link"])
        assert link is not None
        site.sync_app.clock.advance(HOUR_MS / 1000)
        target = urlsplit(link[1])
        answer = site.sync_app.get(f"{target.path}?{target.query}", site.key, accept)
        rows = table(answer)
        assert (rows[0], len(rows)) == (COLUMNS, 3 if n == 0 else 2)
        found += rows[1:]
    assert "Link" not in answer.headers
    assert found == whole


def test_link_is_only_in_csv(site: Site) -> None:
    """JSON has meta.next_cursor, CSV the Link header."""
    site.send(*seven_events())
    assert "Link" not in site.get(f"events?{ALL_DAY}&limit=2").headers
    csv_answer = site.get(f"events?{ALL_DAY}&limit=2&format=csv")
    assert len(table(csv_answer)) == 3
    cursor = site.json(f"events?{ALL_DAY}&limit=2")["meta"]["next_cursor"]
    assert f"cursor={cursor}" in csv_answer.headers["Link"]
