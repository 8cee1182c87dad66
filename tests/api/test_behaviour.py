"""Funnels and event data over HTTP, as JSON and CSV, and their errors."""

from pathlib import Path
from urllib.parse import quote

import pytest

from tally.reports import event_data
from tally.rollups.rollup_state import KEPT
from tally.storage.database import open_database
from tests.support.app import App
from tests.support.cases import cases
from tests.support.page_client import LINK, logged_in
from tests.support.read_api import DAY, DAY_MS, Site, SyncApp, custom, ms, sync_app_at, view

FUNNEL = "funnel?step=pathname:/&step=pathname:/pricing&step=event_name:signup"


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    return sync_app.site()


def send_visits(site: Site) -> None:
    """Send three visits of /, of which two reach /pricing and one signs up, a second visit, and one from /pricing."""
    for visitor in ("ann", "bob", "cat"):
        site.send(view("10:00:00", who=visitor))
    site.send(
        view("10:00:30", "/pricing", "ann"), view("10:02:01", "/pricing", "bob"), view("10:00:00", "/pricing", "dan")
    )
    site.send(custom("10:01:30.250", who="ann"), view("15:00:00", who="ann"))


def test_a_funnel(site: Site) -> None:
    send_visits(site)
    answer = site.json(f"{FUNNEL}&from={DAY}&to={DAY}")
    assert answer["data"] == [
        dict(zip(COLUMNS, row, strict=True))
        for row in (
            ("pathname", "/", 4, 3, 100.0, None, None),
            ("pathname", "/pricing", 2, 2, 50.0, 50.0, 75.5),
            ("event_name", "signup", 1, 1, 25.0, 50.0, 60.3),
        )
    ]
    assert answer["meta"] == {
        "website_id": site.id,
        "from": f"{DAY}T00:00:00.000+00:00",
        "to": "2026-11-18T00:00:00.000+00:00",
        "tz": "UTC",
        "day_offset_minutes": 0,
        "filters": {},
    }


COLUMNS = ("field", "value", "visits", "visitors", "of_first", "of_previous", "mean_seconds")


def test_a_funnel_as_csv(site: Site) -> None:
    send_visits(site)
    assert site.get(f"{FUNNEL}&from={DAY}&to={DAY}&format=csv&filter_pathname=/pricing").text == (
        ",".join(COLUMNS) + "\r\npathname,/,2,2,100.0,,\r\npathname,/pricing,2,2,100.0,100.0,75.5\r\n"
        "event_name,signup,1,1,50.0,50.0,60.3\r\n"
    )


def test_a_funnel_without_visits(site: Site) -> None:
    """Shares of zero visits are null."""
    rows = site.data(FUNNEL)
    assert {tuple(row.values())[2:] for row in rows} == {(0, 0, None, None, None)}


def test_steps_are_compared_exactly(site: Site) -> None:
    """The first colon separates field and value; values are compared as they are; a step may be repeated."""
    path = "/a:b?c&d=%C3%A9 +ö"
    site.send(view("10:00:00", "/a:b"), view("10:00:01", "/a:b"), view("10:00:02", "/A:b"))
    site.send(custom("10:00:03", path), custom("10:00:04", path))
    rows = site.data(f"funnel?step=pathname:/a:b&step=pathname:/a:b&step=event_name:{quote(path)}&from={DAY}")
    assert [(row["value"], row["visits"]) for row in rows] == [("/a:b", 1), ("/a:b", 1), (path, 1)]
    assert [row["visits"] for row in site.data(f"{FUNNEL}&step=pathname:/A:b&from={DAY}")] == [0, 0, 0, 0]


@cases(
    "steps",
    [
        (),
        ("pathname:/",),
        ("pathname:/",) * 9,
        ("pathname:/", "/pricing"),
        ("pathname:/", "pathname:"),
        ("pathname:/", "event_name"),
        ("pathname:/", ""),
        ("pathname:/", "country:DE"),
        ("pathname:/", "Pathname:/"),
        ("pathname:/", " pathname:/"),
        ("pathname:/", "pathname:" + "x" * 8_193),
    ],
    ids=lambda steps: "&".join(steps)[:60] or "none",
)
def test_bad_steps(site: Site, steps: tuple[str, ...]) -> None:
    assert site.invalid_field("funnel?" + "&".join(f"step={quote(step)}" for step in steps)) == "step"


@pytest.mark.parametrize("query", ["stats?step=pathname:/", "event-data?event_name=a&step=pathname:/"])
def test_other_reports_refuse_steps(site: Site, query: str) -> None:
    assert site.invalid_field(query) == "step"


def test_event_data(site: Site) -> None:
    site.send(
        custom("10:00:00", who="ann", event_data={"plan": "pro", "seats": 5}),
        custom("10:00:01", who="ann", event_data={"plan": "pro", "seats": 5.0}),
        custom("10:00:02", who="bob", event_data={"plan": "team", "seats": 2.5, "new": True}),
        custom("10:00:03", who="bob", event_data={"plan": None}),
        custom("10:00:04", who="cat"),
        custom("10:00:05", "other", who="dan", event_data={"plan": "free"}),
        view("10:00:06", who="dan"),
    )
    answer = site.json(f"event-data?event_name=signup&from={DAY}&to={DAY}&limit=2")
    numbers = {"samples": 3, "sum": 12.5, "mean": 12.5 / 3, "min": 2.5, "p50": 5, "p95": 5, "max": 5}
    expected_rows = [
        ("plan", 4, 3, (("pro", 2, 1), (None, 1, 1)), None),
        ("seats", 3, 2, ((5, 2, 1), (2.5, 1, 1)), numbers),
    ]
    expected_rows.append(("new", 1, 1, ((True, 1, 1),), None))
    assert answer["data"] == [
        {
            "property": name,
            "events": events,
            "distinct": distinct,
            "values": [dict(zip(("value", "events", "visitors"), value, strict=True)) for value in values],
            "numbers": of,
            "exact": True,
        }
        for name, events, distinct, values, of in expected_rows
    ]
    meta = {
        "event_name": "signup",
        "property": None,
        "limit": 2,
        "events": 5,
        "visitors": 3,
        "properties": 3,
        "exact": True,
    }
    assert answer["meta"] | meta == answer["meta"]
    answer = site.json(f"event-data?event_name=signup&from={DAY}&property=plan&filter_type=event")
    assert [(one["property"], len(one["values"])) for one in answer["data"]] == [("plan", 3)]
    assert (answer["meta"]["properties"], answer["meta"]["property"], answer["meta"]["limit"]) == (1, "plan", 10)
    assert site.data("event-data?event_name=never") == []
    assert site.data("event-data?event_name=signup&property=never") == []


def test_event_data_as_csv(site: Site) -> None:
    """Numbers and JSON literals are written as they are; texts that look like formulas get an apostrophe."""
    for value in ("=1+1", -1, True, None, 1e22):
        site.send(custom("10:00:00", event_data={"a,b": value}))
    assert site.get(f"event-data?event_name=signup&from={DAY}&to={DAY}&format=csv").text == (
        'property,value,events,visitors\r\n"a,b",,1,1\r\n"a,b",true,1,1\r\n"a,b",-1,1,1\r\n"a,b",1e+22,1,1\r\n'
        '"a,b",\'=1+1,1,1\r\n'
    )


def test_numbers_are_returned_as_sent(site: Site) -> None:
    """Numbers keep their digits, 1 differs from true, and text differs from a number."""
    digits = (
        "18446744073709551615",
        "-9223372036854775808",
        "0.1",
        "5e-324",
        "1.7976931348623157e308",
        "true",
        '"1"',
        "1",
    )
    for number in digits:
        event = f'{{"type":"event","event_name":"n","website_id":"{site.id}","event_data":{{"n":{number}}}}}'
        sent = site.sync_app.run(site.sync_app.app.collect(event.encode()))
        assert sent.status == 202, sent.text
    text = site.get("event-data?event_name=n").text
    for number in digits:
        assert f'"value":{number},"events":1' in text.replace("e+308", "e308"), (number, text)


@cases(
    ("query", "field"),
    [
        ("event-data", "event_name"),
        ("event-data?event_name=", "event_name"),
        ("event-data?event_name=" + "x" * 201, "event_name"),
        ("event-data?event_name=a&event_name=b", "event_name"),
        ("event-data?event_name=a&filter_event_name=a", "filter_event_name"),
        ("event-data?event_name=a&property=b&property=c", "property"),
        ("event-data?event_name=a&property=" + "x" * 4_097, "property"),
        ("event-data?event_name=a&limit=0", "limit"),
        ("event-data?event_name=a&limit=1001", "limit"),
        ("stats?event_name=a", "event_name"),
        ("stats?property=a", "property"),
        (f"{FUNNEL}&limit=10", "limit"),
        (f"{FUNNEL}&filter_town=Bonn", "filter_town"),
    ],
)
def test_bad_parameters(site: Site, query: str, field: str) -> None:
    assert site.invalid_field(query) == field


def test_values_beyond_the_memory_limit_are_inexact(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(200):
        site.send(custom(ms("10:00:00") + n, event_data={"id": f"{n}", "other": n % 2}))
    monkeypatch.setattr(event_data, "MAX_BYTES", 40_000)
    answer = site.json(f"event-data?event_name=signup&from={DAY}")
    found = {one["property"]: one for one in answer["data"]}
    assert (answer["meta"]["events"], answer["meta"]["exact"]) == (200, False)
    assert (found["id"]["events"], found["id"]["exact"], found["other"]["exact"]) == (200, False, True)
    assert 10 < found["id"]["distinct"] < 200


def test_etags_change_after_an_event(site: Site) -> None:
    """The ETag depends on the query and on the state of the website."""
    for query in (FUNNEL, "event-data?event_name=signup"):
        tag = site.get(query + f"&from={DAY}").headers["ETag"]
        assert site.get(query + f"&from={DAY}", {"If-None-Match": tag}).status == 304
        assert site.get(query + f"&from={DAY}&filter_os=", {"If-None-Match": tag}).status == 200
        site.send(custom("10:00:00"))
        assert site.get(query + f"&from={DAY}", {"If-None-Match": tag}).status == 200
    one = site.get("event-data?event_name=signup").headers["ETag"]
    for other in ("event-data?event_name=other", "event-data?event_name=signup&property=a"):
        assert site.get(other).headers["ETag"] != one
    assert site.get(FUNNEL).headers["ETag"] != site.get(f"{FUNNEL}&step=pathname:/a").headers["ETag"]


async def test_permissions_of_sessions_and_share_links(app: App) -> None:
    owner = await logged_in(app)
    website = await app.website()
    link = await owner("POST", f"/api/account/websites/{website}/share-links", LINK)
    token = link.json["data"]["path"].removeprefix("/share/")
    for query in (FUNNEL, "event-data?event_name=signup"):
        assert (await owner("GET", f"/api/account/websites/{website}/{query}")).status == 200
        assert (await owner("GET", f"/api/share/{token}/{query}")).status == 404


def test_ranges_beyond_retention(tmp_path: Path) -> None:
    """The error message has the time from which events exist."""
    with sync_app_at(tmp_path / "analytics.db") as sync_app:
        site = sync_app.site()
        site.send(custom("10:00:00", event_data={"a": 1}))
        connection = open_database(sync_app.app.db, create=False)
        connection.execute(
            "update rollup_state set state = ? where level = 0 and block = ?", (KEPT, ms("00:00:00") // DAY_MS)
        )
        connection.close()
        for query in (FUNNEL, "event-data?event_name=signup"):
            answer = site.get(f"{query}&from={DAY}")
            assert (answer.status, answer.json["error"]["code"]) == (400, "beyond_retention")
            assert "2026-11-18T00:00:00.000+00:00" in answer.json["error"]["message"]
            assert site.get(f"{query}&from=2026-11-18").status == 200
