"""Goals and segments over HTTP: their report, what `goal` adds to other reports, and their filters.

The rules are in docs/reference/definitions.md (Goals) and docs/reference/read-api.md. Random histories are compared in
tests/model.
"""

import sqlite3
from typing import Any

import pytest

from tally.api.goals import decimal
from tally.rollups.goal_days import millionths
from tests.support.app import NOON_MS, App
from tests.support.cases import cases
from tests.support.page_client import LINK, PageClient, logged_in

SIGNUP = {"name": "Signup", "type": "event", "match": ["filter_event_name=signup"], "value": "price", "currency": "EUR"}
PRICING = {"name": "Pricing", "type": "page", "match": ["filter_pathname^=/pricing"]}
DOCS = {"name": "Docs", "filters": ["filter_pathname^=/docs"]}
HOUR_MS = 3_600_000


class Shop:
    """A website with two goals and a segment, and visits of it."""

    def __init__(self, app: App, browser: PageClient, website: str, key: str) -> None:
        self.app, self.browser, self.website, self.key = app, browser, website, key
        self.ids: dict[str, str] = {}

    async def save(self, path: str, content: dict[str, Any]) -> None:
        answer = await self.browser("POST", f"/api/account/websites/{self.website}/{path}", content)
        assert answer.status == 201, answer.text
        self.ids[content["name"]] = answer.json["data"]["id"]

    async def send(self, who: str, path: str, name: str = "", hours_ago: int = 1, **data: Any) -> None:
        event: dict[str, Any] = {"type": "event", "event_name": name} if name else {"type": "pageview"}
        event |= {"event_data": data} if data else {}
        event |= {
            "url": f"https://example.com{path}",
            "session_id": f"session of {who}",
            "timestamp": NOON_MS - hours_ago * HOUR_MS,
        }
        answer = await self.app.collect(event | {"website_id": self.website})
        assert answer.status == 202, answer.text

    async def ask(self, question: str, status: int = 200) -> Any:
        answer = await self.app.get(f"/api/v1/websites/{self.website}/{question}", self.key)
        assert answer.status == status, answer.text
        return answer.json


@pytest.fixture
async def shop(app: App) -> Shop:
    """Three visitors: one signs up twice, one opens the prices, one does neither."""
    browser = await logged_in(app)
    shop = Shop(app, browser, await app.website(), await app.key())
    for goal in (SIGNUP, PRICING):
        await shop.save("goals", goal)
    await shop.save("segments", DOCS)
    await shop.send("ann", "/")
    await shop.send("ann", "/docs/a", "signup", price=29.9)
    await shop.send("ann", "/docs/b", "signup", price="0.10")
    await shop.send("bob", "/pricing/team")
    await shop.send("bob", "/docs/a", "signup", plan="free")
    await shop.send("cat", "/docs/a")
    return shop


async def test_the_report_of_all_goals(shop: Shop) -> None:
    answer = await shop.ask("goals/report")
    names = ("conversions", "visitors", "conversion_rate", "value", "currency", "without_value")
    assert {row["name"]: tuple(row[name] for name in names) for row in answer["data"]} == {
        "Signup": (3, 2, 66.7, "30.00", "EUR", 1),
        "Pricing": (1, 1, 33.3, None, None, None),
    }
    assert answer["meta"]["visitors"] == 3
    filtered = await shop.ask("goals/report?filter_pathname=/docs/a")
    assert [(row["conversions"], row["conversion_rate"], row["value"]) for row in filtered["data"]] == [
        (2, 66.7, "29.90"),
        (0, 0.0, None),
    ]
    nothing = await shop.ask("goals/report?filter_pathname=/nowhere")
    assert [row["conversion_rate"] for row in nothing["data"]] == [None, None]


async def test_a_goal_adds_its_figures_to_key_figures_series_and_lists(shop: Shop) -> None:
    goal = shop.ids["Signup"]
    stats = await shop.ask(f"stats?goal={goal}&compare=previous")
    assert added(stats["data"]) == (3, 2, 66.7, "30.00")
    assert added(stats["data"]["previous"]) == (0, 0, None, "0.00")
    assert stats["meta"]["goal"] == {"id": goal, "name": "Signup", "currency": "EUR"}

    series = await shop.ask(f"timeseries?goal={goal}&interval=hour")
    assert [added(row) for row in series["data"] if row["conversions"]] == [(3, 2, 66.7, "30.00")]
    assert {added(row) for row in series["data"] if not row["conversions"]} == {(0, 0, None, "0.00")}

    top = await shop.ask(f"top/pathname?goal={goal}")
    assert {row["value"]: added(row) for row in top["data"]} == {
        "/docs/a": (2, 2, 66.7, "29.90"),
        "/docs/b": (1, 1, 100.0, "0.10"),
        "/": (0, 0, 0.0, "0.00"),
        "/pricing/team": (0, 0, 0.0, "0.00"),
    }
    unset = await shop.ask(f"top/utm_source?goal={goal}")
    assert (unset["data"], added(unset["meta"]["unset"])) == ([], (3, 2, 66.7, "30.00"))
    pages = await shop.ask(f"top/pathname?goal={shop.ids['Pricing']}&limit=1000")
    assert added(next(row for row in pages["data"] if row["value"] == "/pricing/team")) == (1, 1, 100.0, None)


async def test_lists_are_ordered_by_conversions_or_their_rate(shop: Shop) -> None:
    """By number, then rate, then as other lists: before a list is cut, in one order or several lists at once."""
    await shop.send("dan", "/docs/b", "signup")
    await shop.send("eva", "/docs/b")
    await shop.send("eva", "/docs/c", "signup")
    goal = f"goal={shop.ids['Signup']}"

    async def values(more: str) -> list[tuple[str, int, float]]:
        answer = await shop.ask(f"top/pathname?{goal}&{more}")
        lists = await shop.ask(f"top?fields=country,pathname&{goal}&{more}")
        assert lists["data"][1]["data"] == answer["data"]
        return [(row["value"], row["conversions"], row["conversion_rate"]) for row in answer["data"]]

    # Two conversions each, of two of three visitors; of equal ones the value decides.
    by_number = [
        ("/docs/a", 2, 66.7),
        ("/docs/b", 2, 66.7),
        ("/docs/c", 1, 100.0),
        ("/", 0, 0.0),
        ("/pricing/team", 0, 0.0),
    ]
    assert await values("sort=conversions") == by_number
    assert await values("sort=conversions&limit=2&offset=1") == by_number[1:3]
    assert [row[0] for row in await values("sort=conversion_rate&limit=2")] == ["/docs/c", "/docs/a"]
    assert [row[0] for row in await values("sort=conversions&order=asc&limit=3")] == ["/", "/pricing/team", "/docs/c"]
    # Of as many conversions, those of fewer visitors come first.
    await shop.send("fay", "/docs/a")
    assert [row[0] for row in await values("sort=conversions&metrics=bounce_rate")][:2] == ["/docs/b", "/docs/a"]
    # Conversions are counted, not who converted.
    for _ in range(3):
        await shop.send("gus", "/docs/d", "signup")
    assert [row[:2] for row in await values("sort=conversions&limit=1")] == [("/docs/d", 3)]
    compared = await shop.ask(f"top/pathname?{goal}&sort=conversions&compare=previous&limit=1")
    assert [(row["value"], row["previous"]["conversions"]) for row in compared["data"]] == [("/docs/d", 0)]
    assert compared["meta"]["sort"] == "conversions"


async def test_an_order_by_conversions_needs_a_goal(shop: Shop) -> None:
    for path in ("top/pathname?", "top?fields=pathname&"):
        for order in ("conversions", "conversion_rate"):
            error = (await shop.ask(f"{path}sort={order}", 400))["error"]
            assert error["field"] == "sort"
            assert error["message"].startswith(f"sort={order} needs goal")


def added(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("conversions", "converted_visitors", "conversion_rate", "conversion_value"))


async def test_figures_of_final_days_are_stored_and_stay_equal(shop: Shop) -> None:
    """The server's rollup builder counts the goals that are saved; answers are then read from its rows."""
    day = "from=2026-11-17&to=2026-11-18"
    goal = f"goal={shop.ids['Signup']}&{day}"
    questions = (
        *(f"goals/report?{day}", f"stats?{goal}", f"timeseries?{goal}", f"top/pathname?{goal}"),
        f"top/pathname?{goal}&sort=conversions&limit=2",
    )
    before = [await shop.ask(question) for question in questions]
    assert before[0]["data"][0]["conversions"] == 3
    shop.app.clock.advance(5 * 24 * 3_600)
    assert shop.app.sql("select count(*) from goal_day") == [(0,)]
    await shop.app.background_work.builder.work()
    assert shop.app.sql("select count(distinct saved_goal) from goal_day") == [(2,)]
    await shop.app.restart()
    assert [await shop.ask(question) for question in questions] == before

    def change(connection: sqlite3.Connection) -> None:
        connection.execute("update goal_day set conversions = conversions + 1")

    await shop.app.admin(change)
    await shop.app.restart()
    assert (await shop.ask(questions[0]))["data"][0]["conversions"] == 4


async def test_csv_has_the_columns_of_a_goal(shop: Shop) -> None:
    for question in (
        f"top/pathname?goal={shop.ids['Signup']}&",
        f"timeseries?goal={shop.ids['Signup']}&",
        "goals/report?",
    ):
        answer = await shop.app.get(f"/api/v1/websites/{shop.website}/{question}format=csv", shop.key)
        head = answer.text.splitlines()[0].split(",")
        assert {"conversions", "conversion_rate"} <= set(head)
        assert len(head) == len(set(head))


async def test_segments_and_goals_are_filters(shop: Shop) -> None:
    docs, signup = shop.ids["Docs"], shop.ids["Signup"]
    answer = await shop.ask(f"stats?segment={docs}")
    assert (answer["data"]["pageviews"], answer["data"]["events"]) == (1, 3)
    assert (answer["meta"]["segment"], answer["meta"]["filters"]) == (docs, {})
    both = await shop.ask(f"stats?segment={docs}&filter_pathname=/docs/b")
    assert (both["data"]["pageviews"], both["data"]["events"]) == (0, 1)
    converted = await shop.ask(f"stats?filter_goal={signup}&filter_country=")
    assert (converted["data"]["pageviews"], converted["data"]["events"], converted["data"]["visitors"]) == (0, 3, 2)
    assert converted["meta"]["filters"]["goal"] == [signup]
    assert len((await shop.ask(f"events?filter_goal={signup}"))["data"]) == 3


async def test_an_answer_follows_a_changed_definition(shop: Shop) -> None:
    """The definition is part of the ETag; a goal applies to all history."""
    question = f"/api/v1/websites/{shop.website}/stats?goal={shop.ids['Signup']}&segment={shop.ids['Docs']}"
    first = await shop.app.get(question, shop.key)
    path = f"/api/account/websites/{shop.website}"
    await shop.browser("PATCH", f"{path}/goals/{shop.ids['Signup']}", {"match": ["filter_event_name=nothing"]})
    second = await shop.app.get(question, shop.key, headers={"If-None-Match": first.headers["ETag"]})
    assert (first.json["data"]["conversions"], second.status, second.json["data"]["conversions"]) == (3, 200, 0)
    await shop.browser("PATCH", f"{path}/segments/{shop.ids['Docs']}", {"filters": ["filter_pathname=/docs/b"]})
    third = await shop.app.get(question, shop.key, headers={"If-None-Match": second.headers["ETag"]})
    assert (third.status, third.json["data"]["events"]) == (200, 1)


async def test_ids_that_are_not_of_the_website_are_refused(shop: Shop) -> None:
    for name, id in (
        ("goal", shop.ids["Docs"]),
        ("segment", shop.ids["Signup"]),
        ("filter_goal", "0123456789abcdef"),
        ("segment", ""),
    ):
        error = (await shop.ask(f"stats?{name}={id}", 400))["error"]
        assert (error["code"], error["field"]) == ("invalid_parameter", name)
    for path in ("realtime", "heatmap-pages"):
        assert (await shop.ask(f"{path}?filter_goal={shop.ids['Signup']}", 400))["error"]["field"] == "filter_goal"
    await shop.save("segments", {"name": "Names", "filters": ["filter_event_name=signup"]})
    assert (await shop.ask(f"vitals?segment={shop.ids['Names']}", 400))["error"]["field"] == "segment"


async def test_share_links_have_neither_goals_nor_segments(shop: Shop) -> None:
    link = await shop.browser("POST", f"/api/account/websites/{shop.website}/share-links", LINK)
    token = link.json["data"]["path"].removeprefix("/share/")
    for name, of in (("goal", "Signup"), ("filter_goal", "Signup"), ("segment", "Docs")):
        answer = await PageClient(shop.app)("GET", f"/api/share/{token}/stats?{name}={shop.ids[of]}")
        assert (answer.status, answer.json["error"]["field"]) == (400, name)


@cases(
    ("value", "expected"),
    [
        (1, 1_000_000),
        (29.9, 29_900_000),
        (-0.5, -500_000),
        (0.1 + 0.2, 300_000),
        ("29.90", 29_900_000),
        ("+1", 1_000_000),
        ("1e3", None),
        ("29,90", None),
        ("", None),
        (None, None),
        (10**9, None),
        (1e300, None),
        ("999999999.9999996", 1_000_000_000_000_000),
        (0.0000005, 1),
        ("123456789.00000049999999999999", 123_456_789_000_000),
        ("-123456789.0000005", -123_456_789_000_001),
        ("999999999.9999994" + "9" * 40, 999_999_999_999_999),
        ("999999999." + "9" * 40, 1_000_000_000_000_000),
        ("1.500000000000000000000000", 1_500_000),
        ("0000000000012.5", 12_500_000),
        ("0" * 2_000 + "1." + "0" * 2_000 + "1", 1_000_000),
        ("1" * 4_000, None),
        ("1.", None),
        (".5", None),
        (" 1", None),
        ("１", None),
    ],
)
def test_values_in_millionths(value: object, expected: int | None) -> None:
    assert millionths(value) == expected


@cases(
    ("sum_", "text"),
    [(0, "0.00"), (29_900_000, "29.90"), (1, "0.000001"), (-1_500_000, "-1.50"), (10**21, f"{10**15}.00")],
)
def test_sums_as_text(sum_: int, text: str) -> None:
    assert decimal(sum_) == text


async def test_sums_are_exact_where_floats_are_not(shop: Shop) -> None:
    for _ in range(10):
        await shop.send("dan", "/", "signup", price=0.1)
    await shop.send("dan", "/", "signup", price=9007199254.740993)
    row = (await shop.ask("goals/report"))["data"][0]
    assert (row["value"], row["without_value"]) == ("31.00", 2)


async def test_goals_are_steps_of_funnels(shop: Shop) -> None:
    await shop.send("dan", "/pricing", hours_ago=3)
    await shop.send("dan", "/docs", hours_ago=3)
    await shop.send("dan", "/docs", "signup", hours_ago=3)
    steps = [f"goal:{shop.ids['Pricing']}", "pathname:/docs", f"goal:{shop.ids['Signup']}"]
    rows = (await shop.ask(f"funnel?{'&'.join(f'step={step}' for step in steps)}"))["data"]
    assert [f"{row['field']}:{row['value']}" for row in rows] == steps
    assert [(row["visits"], row["visitors"]) for row in rows] == [(2, 2), (1, 1), (1, 1)]
    filtered = await shop.ask(f"funnel?step={steps[0]}&step={steps[2]}&filter_entry_page=/pricing")
    assert [row["visits"] for row in filtered["data"]] == [1, 1]
    for unknown in ("goal:", "goal:0000000000000000", "goal:x"):
        error = (await shop.ask(f"funnel?step={steps[0]}&step={unknown}", 400))["error"]
        assert (error["code"], error["field"]) == ("invalid_parameter", "step")
    assert (await shop.ask(f"journeys?start={steps[0]}", 400))["error"]["field"] == "start"
    saved = {"name": "Buyers", "steps": steps}
    assert (await shop.browser("POST", f"/api/account/websites/{shop.website}/funnels", saved)).status == 201


async def test_a_goal_by_a_field_of_visits_is_a_step(shop: Shop) -> None:
    await shop.save("goals", {"name": "Direct", "type": "page", "match": ["filter_channel=Direct"]})
    await shop.save("goals", {"name": "Mail", "type": "page", "match": ["filter_channel=Email"]})
    for name, visits in (("Direct", [3, 2]), ("Mail", [0, 0])):
        steps = f"step=goal:{shop.ids[name]}&step=event_name:signup"
        assert [row["visits"] for row in (await shop.ask(f"funnel?{steps}"))["data"]] == visits


@pytest.mark.parametrize("report", ["stats", "timeseries?interval=hour", "top/pathname", "top/channel"])
async def test_previous_figures_of_a_goal(shop: Shop, report: str) -> None:
    """With compare, previous figures carry those of the goal: they are the figures of that range."""
    now, before = "2026-11-18T10:00Z", "2026-11-18T08:00Z"
    await shop.send("dan", "/docs/a", "signup", hours_ago=3, price=5)
    goal = f"goal={shop.ids['Signup']}&to=2026-11-18T12:00Z"
    sign = "&" if "?" in report else "?"
    found = await shop.ask(f"{report}{sign}{goal}&from={now}&compare=custom&compare_from={before}&compare_to={now}")
    older = await shop.ask(f"{report}{sign}goal={shop.ids['Signup']}&from={before}&to={now}")
    if report == "stats":
        assert found["data"]["previous"] == older["data"]
        assert found["data"]["previous"]["conversion_value"] == "5.00"
    elif report.startswith("timeseries"):
        assert [row["previous"] for row in found["data"]] == older["data"]
    else:
        known = {row.pop("value"): row for row in older["data"]}
        assert {row["value"]: row["previous"] for row in found["data"] if row["value"] in known} == known
        assert found["meta"]["unset"]["previous"] == older["meta"]["unset"]
        assert sum(row["previous"]["conversions"] for row in found["data"]) == 1


async def test_the_report_is_no_goal(shop: Shop) -> None:
    for method in ("DELETE", "PATCH"):
        answer = await shop.browser(method, f"/api/account/websites/{shop.website}/goals/report", {"name": "x"})
        assert (answer.status, answer.json["error"]["code"]) == (405, "method_not_allowed")


async def test_goals_are_counted_after_the_background_work_was_restarted(shop: Shop) -> None:
    """As recovery from a fault of the database does: days that were counted stay counted."""
    shop.app.clock.advance(4 * 24 * HOUR_MS / 1000)
    work = shop.app.background_work
    await work.builder.work()
    counted = shop.app.sql("select website, kind, block from rollup_state where kind > 1 order by 2")
    assert len(counted) == 2
    await work.stop()
    work.start()
    await work.builder.work()
    assert shop.app.sql("select website, kind, block from rollup_state where kind > 1 order by 2") == counted
