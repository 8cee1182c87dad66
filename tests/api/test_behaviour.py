"""Funnels and event_data by way of HTTP: what is sent comes out of the read API, as JSON and CSV; what is refused."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tally.reports import event_data
from tally.rollups.rollup_state import KEPT
from tally.storage.database import open_database
from tally.web.components import Engine
from tests.support.app import App
from tests.support.cases import cases
from tests.support.page_client import logged_in
from tests.support.read_api import DAY, DAY_MS, Site, SyncApp, custom, ms, sync_app_at, view

FUNNEL = "funnel?step=pathname:/&step=pathname:/pricing&step=event_name:signup"


@pytest.fixture(scope="module")
def sync_app(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[SyncApp]:
    with sync_app_at(tmp_path_factory.mktemp("behaviour") / "analytics.db", engine) as sync_app:
        yield sync_app


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    return sync_app.site()


def send_visits(site: Site) -> None:
    """Three come to /, two go on to /pricing, one signs up; one of them comes twice; one begins at /pricing."""
    for who in ("ann", "bob", "cat"):
        site.send(view("10:00:00", who=who))
    site.send(
        view("10:00:30", "/pricing", "ann"), view("10:02:01", "/pricing", "bob"), view("10:00:00", "/pricing", "dan")
    )
    site.send(custom("10:01:30.250", who="ann"), view("15:00:00", who="ann"))


def test_a_funnel(site: Site) -> None:
    send_visits(site)
    answer = site.answer(f"{FUNNEL}&from={DAY}&to={DAY}")
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
        "filters": {},
    }


COLUMNS = ("field", "value", "visits", "visitors", "of_first", "of_previous", "mean_seconds")


def test_a_funnel_as_csv(site: Site) -> None:
    send_visits(site)
    assert site.ask(f"{FUNNEL}&from={DAY}&to={DAY}&format=csv&filter_pathname=/pricing").text == (
        ",".join(COLUMNS) + "\r\npathname,/,2,2,100.0,,\r\npathname,/pricing,2,2,100.0,100.0,75.5\r\n"
        "event_name,signup,1,1,50.0,50.0,60.3\r\n"
    )


def test_a_funnel_of_nobody(site: Site) -> None:
    """Where there is nothing to share nothing is shared."""
    rows = site.data(FUNNEL)
    assert {tuple(row.values())[2:] for row in rows} == {(0, 0, None, None, None)}


def test_steps_are_texts_as_they_are(site: Site) -> None:
    """The first colon parts field and value; case, escapes and spaces stay; the same step may come again."""
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
    assert site.refused("funnel?" + "&".join(f"step={quote(step)}" for step in steps)) == "step"


@pytest.mark.parametrize("question", ["stats?step=pathname:/", "event-data?event_name=a&step=pathname:/"])
def test_steps_are_a_funnels_alone(site: Site, question: str) -> None:
    assert site.refused(question) == "step"


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
    answer = site.answer(f"event-data?event_name=signup&from={DAY}&to={DAY}&limit=2")
    numbers = {"samples": 3, "sum": 12.5, "mean": 12.5 / 3, "min": 2.5, "p50": 5, "p95": 5, "max": 5}
    told = [("plan", 4, 3, (("pro", 2, 1), (None, 1, 1)), None), ("seats", 3, 2, ((5, 2, 1), (2.5, 1, 1)), numbers)]
    told.append(("new", 1, 1, ((True, 1, 1),), None))
    assert answer["data"] == [
        {
            "property": name,
            "events": events,
            "distinct": distinct,
            "values": [dict(zip(("value", "events", "visitors"), value, strict=True)) for value in values],
            "numbers": of,
            "exact": True,
        }
        for name, events, distinct, values, of in told
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
    answer = site.answer(f"event-data?event_name=signup&from={DAY}&property=plan&filter_type=event")
    assert [(one["property"], len(one["values"])) for one in answer["data"]] == [("plan", 3)]
    assert (answer["meta"]["properties"], answer["meta"]["property"], answer["meta"]["limit"]) == (1, "plan", 10)
    assert site.data("event-data?event_name=never") == []
    assert site.data("event-data?event_name=signup&property=never") == []


def test_event_data_as_csv(site: Site) -> None:
    """Numbers and the words of JSON as they are; what a spreadsheet would run as a formula is made harmless."""
    for value in ("=1+1", -1, True, None, 1e22):
        site.send(custom("10:00:00", event_data={"a,b": value}))
    assert site.ask(f"event-data?event_name=signup&from={DAY}&to={DAY}&format=csv").text == (
        'property,value,events,visitors\r\n"a,b",,1,1\r\n"a,b",true,1,1\r\n"a,b",-1,1,1\r\n"a,b",1e+22,1,1\r\n'
        '"a,b",\'=1+1,1,1\r\n'
    )


def test_numbers_come_through_as_they_were_sent(site: Site) -> None:
    """JSON's own digits: no number is rounded, 1 is not true, and text is no number."""
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
    text = site.ask("event-data?event_name=n").text
    for number in digits:
        assert f'"value":{number},"events":1' in text.replace("e+308", "e308"), (number, text)


@cases(
    ("question", "field"),
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
        (f"{FUNNEL}&filter_city=Bonn", "filter_city"),
    ],
)
def test_bad_questions(site: Site, question: str, field: str) -> None:
    assert site.refused(question) == field


def test_more_values_than_fit_are_no_error(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(200):
        site.send(custom(ms("10:00:00") + n, event_data={"id": f"{n}", "other": n % 2}))
    monkeypatch.setattr(event_data, "MAX_BYTES", 40_000)
    answer = site.answer(f"event-data?event_name=signup&from={DAY}")
    found = {one["property"]: one for one in answer["data"]}
    assert (answer["meta"]["events"], answer["meta"]["exact"]) == (200, False)
    assert (found["id"]["events"], found["id"]["exact"], found["other"]["exact"]) == (200, False, True)
    assert 10 < found["id"]["distinct"] < 200


def test_an_answer_is_another_one_after_an_event(site: Site) -> None:
    """The tag is of the question and of the website as it is."""
    for question in (FUNNEL, "event-data?event_name=signup"):
        tag = site.ask(question + f"&from={DAY}").headers["ETag"]
        assert site.ask(question + f"&from={DAY}", {"If-None-Match": tag}).status == 304
        assert site.ask(question + f"&from={DAY}&filter_os=", {"If-None-Match": tag}).status == 200
        site.send(custom("10:00:00"))
        assert site.ask(question + f"&from={DAY}", {"If-None-Match": tag}).status == 200
    one = site.ask("event-data?event_name=signup").headers["ETag"]
    for other in ("event-data?event_name=other", "event-data?event_name=signup&property=a"):
        assert site.ask(other).headers["ETag"] != one
    assert site.ask(FUNNEL).headers["ETag"] != site.ask(f"{FUNNEL}&step=pathname:/a").headers["ETag"]


async def test_the_owner_asks_without_a_key_and_a_shared_link_does_not(app: App) -> None:
    owner = await logged_in(app)
    website = await app.website()
    link = await owner("POST", f"/api/account/websites/{website}/share")
    token = link.json["data"]["share"].removeprefix("/share/")
    for question in (FUNNEL, "event-data?event_name=signup"):
        assert (await owner("GET", f"/api/account/websites/{website}/{question}")).status == 200
        assert (await owner("GET", f"/api/share/{token}/{question}")).status == 404


def test_events_that_are_gone(tmp_path: Path) -> None:
    """The answer says from when on it can be asked."""
    with sync_app_at(tmp_path / "analytics.db") as sync_app:
        site = sync_app.site()
        site.send(custom("10:00:00", event_data={"a": 1}))
        connection = open_database(sync_app.app.db, create=False)
        connection.execute(
            "update rollup_state set state = ? where level = 0 and block = ?", (KEPT, ms("00:00:00") // DAY_MS)
        )
        connection.close()
        for question in (FUNNEL, "event-data?event_name=signup"):
            answer = site.ask(f"{question}&from={DAY}")
            assert (answer.status, answer.json["error"]["code"]) == (400, "beyond_retention")
            assert "2026-11-18T00:00:00.000+00:00" in answer.json["error"]["message"]
            assert site.ask(f"{question}&from=2026-11-18").status == 200
