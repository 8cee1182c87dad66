"""Figures of lists (`metrics`, `sort`, `order`) and of all websites in one request (`stats`).

The rules are in docs/reference/read-api.md, Top lists and Websites. Random histories are compared in tests/model.
"""

from typing import Any

import pytest

from tally.api import overview
from tests.support.app import NOON_MS, App
from tests.support.page_client import logged_in
from tests.support.read_api import DAY, HOUR_MS, Site, SyncApp, custom, view

ALL_DAY = f"from={DAY}&to={DAY}"
FIGURES = ("visitors", "visits", "pageviews", "events", "bounce_rate", "views_per_visit", "visit_duration")


@pytest.fixture(scope="module")
def site(sync_app: SyncApp) -> Site:
    """Ann visits twice, bob and eve once; /a has most pageviews, /b most visits, /c no bounce rate of its own."""
    site = sync_app.site()
    site.send(
        *(view(f"10:0{n}", "/a") for n in range(5)),
        view("10:06", "/b"),
        view("12:00", "/b"),
        view("10:00", "/b?utm_source=mail", "bob"),
        view("10:00", "/b", "eve"),
        custom("10:03", who="eve", url="https://example.com/c"),
    )
    return site


@pytest.mark.parametrize("field", ["pathname", "channel", "entry_page", "utm_source", "browser"])
@pytest.mark.parametrize("more", ["", "&filter_pathname!=/c", "&filter_event_name="])
def test_each_figure_is_that_of_the_filter(site: Site, field: str, more: str) -> None:
    answer = site.json(f"top/{field}?{ALL_DAY}&metrics={','.join(FIGURES)}{more}")
    rows = [*answer["data"], {"value": ""} | answer["meta"]["unset"]]
    assert len(rows) > 1
    for row in rows:
        expected = site.data(f"stats?{ALL_DAY}&filter_{field}={row['value']}{more}")
        assert list(row) == ["value", *FIGURES]
        assert {name: row[name] for name in FIGURES} == expected, row["value"]


@pytest.mark.parametrize(
    ("query", "values"),
    [
        pytest.param("", ["/b", "/a", "/c"], id="visitors"),
        pytest.param("&sort=pageviews", ["/a", "/b", "/c"], id="pageviews"),
        pytest.param("&sort=visits", ["/b", "/a", "/c"], id="visits"),
        pytest.param("&sort=events", ["/c", "/b", "/a"], id="ties-by-visitors"),
        pytest.param("&sort=bounce_rate", ["/b", "/a", "/c"], id="ratio"),
        pytest.param("&sort=visit_duration&order=asc", ["/b", "/c", "/a"], id="ascending"),
        pytest.param("&order=asc", ["/a", "/c", "/b"], id="ascending-visitors"),
        pytest.param("&sort=pageviews&limit=1&offset=1", ["/b"], id="page"),
        pytest.param("&sort=visits&from=2026-11-17T10:05Z", ["/b"], id="visits-that-began-before"),
    ],
)
def test_sorted(site: Site, query: str, values: list[str]) -> None:
    day = f"to={DAY}" if "from=" in query else ALL_DAY
    answer = site.json(f"top/pathname?{day}{query}")
    assert [row["value"] for row in answer["data"]][: len(values)] == values
    assert set(answer["meta"]).issuperset(("sort", "order")) is bool(query)


def test_a_figure_that_is_not_defined_comes_last(site: Site) -> None:
    """No visit begins after 10:03, so the visits of /c have no bounce rate."""
    query = "top/pathname?from=2026-11-17T10:01Z&to=2026-11-17T11:00Z&metrics=bounce_rate&sort=bounce_rate"
    for order in ("asc", "desc"):
        assert {row["bounce_rate"] for row in site.data(f"{query}&order={order}")} == {None}
    assert site.get(f"{query}&format=csv").text.splitlines()[0] == "value,bounce_rate"


def test_previous_figures_are_the_same_figures(site: Site) -> None:
    answer = site.json(f"top/pathname?{ALL_DAY}&metrics=visits,events&compare=previous")
    assert {tuple(row) for row in answer["data"]} == {("value", "visits", "events", "previous")}
    assert {tuple(row["previous"].items()) for row in answer["data"]} == {(("visits", 0), ("events", 0))}
    csv = site.get(f"top/pathname?{ALL_DAY}&metrics=visits,events&compare=previous&format=csv").text
    assert csv.splitlines()[0] == "value,visits,events,previous_visits,previous_events"


@pytest.mark.parametrize("query", ["metrics=", "metrics=visits,visits", "metrics=hits", "sort=value", "order=up"])
def test_unknown_figures_are_rejected(site: Site, query: str) -> None:
    assert site.invalid_field(f"top/pathname?{query}") == query.partition("=")[0]


@pytest.mark.parametrize(
    "query",
    ["", "&filter_pathname!=/c", "&limit=1&offset=1", "&sort=visits&order=asc&metrics=visits", "&compare=previous"],
)
def test_lists_of_several_fields_are_those_of_each(site: Site, query: str) -> None:
    fields = ("country", "pathname", "entry_page", "utm_source", "browser")
    together = site.json(f"top?{ALL_DAY}&fields={','.join(fields)}{query}")
    assert [one["field"] for one in together["data"]] == list(fields)
    for one in together["data"]:
        alone = site.json(f"top/{one['field']}?{ALL_DAY}{query}")
        assert one["data"] == alone["data"]
        of_list = {name: alone["meta"][name] for name in ("field", "total", "unset")}
        assert {name: one[name] for name in of_list} == of_list
        assert together["meta"] == {name: value for name, value in alone["meta"].items() if name not in of_list}


@pytest.mark.parametrize(
    "fields", ["", "&fields=", "&fields=os,os", "&fields=os,event_data", "&fields=os&fields=browser"]
)
def test_lists_of_unknown_fields_are_rejected(site: Site, fields: str) -> None:
    assert site.invalid_field(f"top?{ALL_DAY}{fields}") == "fields"


# --- the overview


async def overview_of(app: App, key: str, period: str = "7d") -> list[Any]:
    answer = await app.get(f"/api/v1/websites?stats={period}", key)
    assert answer.status == 200, answer.text
    assert answer.json["meta"] == {"stats": period}
    return [row["stats"] for row in answer.json["data"]]


@pytest.mark.parametrize("period", overview.OVERVIEW_PERIODS)
async def test_the_overview_equals_the_reports(app: App, period: str) -> None:
    """Figures, previous figures, series and active visitors of each website in its own time zone."""
    browser = await logged_in(app)
    websites, key = [await app.website("example.com"), await app.website("example.org")], await app.key()
    zone = {"time_zone": "Asia/Kathmandu", "week_start": "sunday"}
    assert (await browser("PATCH", f"/api/account/websites/{websites[0]}", zone)).status == 200
    for website, hours in ((websites[0], (0, 20, 47)), (websites[1], (0.01, 30))):
        for ago in hours:
            sent = view(int(NOON_MS - ago * HOUR_MS), "/", f"someone {ago}")
            url = f"https://{'example.com' if website == websites[0] else 'example.org'}/"
            assert (await app.collect(sent | {"website_id": website, "url": url})).status == 202
    found = await overview_of(app, key, period)
    for website, own in zip(websites, found, strict=True):
        path = f"/api/v1/websites/{website}"
        stats = (await app.get(f"{path}/stats?period={period}&compare=previous", key)).json
        for name in ("visitors", "visits", "pageviews"):
            assert own[name] == stats["data"][name]
            assert own["previous"][name] == stats["data"]["previous"][name]
            assert own["change"][name] == stats["data"]["change"][name]
        assert (own["from"], own["to"]) == (stats["meta"]["from"], stats["meta"]["to"])
        interval = {"today": "hour", "yesterday": "hour", "6mo": "month", "12mo": "month", "year": "month"}
        series = await app.get(f"{path}/timeseries?period={period}&interval={interval.get(period, 'day')}", key)
        assert own["series"] == [
            {name: row[name] for name in ("time", "visitors", "pageviews")} for row in series.json["data"]
        ]
        realtime = await app.get(f"{path}/realtime", key)
        assert own["active_visitors"] == realtime.json["data"]["active_visitors"] == 1
    by_session = (await browser("GET", f"/api/account/websites?stats={period}")).json
    assert [row["stats"] for row in by_session["data"]] == found
    assert by_session["meta"] == {"stats": period}


async def test_the_overview_of_the_pages_has_a_zone_for_websites_without_one(app: App) -> None:
    """The pages show such a website in the account's zone or the browser's, and the overview counts the same days."""
    browser = await logged_in(app)
    websites, key = [await app.website("example.com"), await app.website("example.org")], await app.key()
    own = {"time_zone": "Asia/Kathmandu"}
    assert (await browser("PATCH", f"/api/account/websites/{websites[0]}", own)).status == 200
    for website, tz in zip(websites, ("Asia/Kathmandu", "Pacific/Auckland"), strict=True):
        for ago in (0, 20):
            domain = "example.com" if website == websites[0] else "example.org"
            sent = view(int(NOON_MS - ago * HOUR_MS), "/", f"someone {ago}")
            assert (await app.collect(sent | {"website_id": website, "url": f"https://{domain}/"})).status == 202
        answer = (await browser("GET", "/api/account/websites?stats=today&tz=Pacific/Auckland")).json
        of = next(row["stats"] for row in answer["data"] if row["id"] == website)
        stats = (await app.get(f"/api/v1/websites/{website}/stats?period=today&tz={tz}", key)).json
        assert (of["from"], of["visitors"]) == (stats["meta"]["from"], stats["data"]["visitors"])
    for query in ("tz=", "tz=Berlin", "tz=UTC&tz=UTC"):
        refused = await browser("GET", f"/api/account/websites?stats=today&{query}")
        assert (refused.status, refused.json["error"]["field"]) == (400, "tz")


async def test_the_overview_follows_events_and_time(app: App) -> None:
    """An acknowledged event is in the next answer, and visitors leave with time."""
    websites, key = [await app.website("example.com"), await app.website("example.org")], await app.key()
    assert [of["visitors"] for of in await overview_of(app, key)] == [0, 0]
    sent = {"type": "pageview", "url": "https://example.com/", "website_id": websites[0]}
    assert (await app.collect(sent)).status == 202
    assert [(of["visitors"], of["active_visitors"]) for of in await overview_of(app, key)] == [(1, 1), (0, 0)]
    app.clock.advance(301)
    assert [(of["visitors"], of["active_visitors"]) for of in await overview_of(app, key)] == [(1, 0), (0, 0)]


async def test_the_overview_has_an_etag(app: App) -> None:
    await app.website()
    key = await app.key()
    first = await app.get("/api/v1/websites?stats=7d", key)
    again = await app.get("/api/v1/websites?stats=7d", key, headers={"If-None-Match": first.headers["ETag"]})
    other = await app.get("/api/v1/websites", key, headers={"If-None-Match": first.headers["ETag"]})
    assert [first.status, again.status, other.status] == [200, 304, 200]
    assert "stats" not in other.json["data"][0]


@pytest.mark.parametrize("query", ["stats=all", "stats=8d", "stats=", "stat=7d"])
async def test_other_periods_are_rejected(app: App, query: str) -> None:
    browser = await logged_in(app)
    for answer in (
        await app.get(f"/api/v1/websites?{query}", await app.key()),
        await browser("GET", f"/api/account/websites?{query}"),
    ):
        assert answer.status == 400
        assert (answer.json["error"]["code"], answer.json["error"]["field"]) == (
            "invalid_parameter",
            query[:5].strip("="),
        )
