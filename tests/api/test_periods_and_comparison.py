"""Named periods, comparison, pages of lists, and the time zone and week of a website (docs/reference/read-api.md)."""

from typing import Any

import pytest

from tests.support.app import NOON_MS, App
from tests.support.cases import cases
from tests.support.page_client import logged_in
from tests.support.read_api import Site, SyncApp, custom, event, ms, view


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    """A website; it is Wednesday, 2026-11-18, 12:00 UTC."""
    sync_app.clock.set_wall(NOON_MS)
    return sync_app.site()


@cases(
    ("query", "begin", "end"),
    [
        ("period=today", "2026-11-18", "2026-11-19"),
        ("period=7d", "2026-11-12", "2026-11-19"),
        ("period=month", "2026-11-01", "2026-11-19"),
        ("period=all", "2026-11-16", "2026-11-19"),
    ],
)
def test_a_period_takes_the_place_of_from_and_to(site: Site, query: str, begin: str, end: str) -> None:
    site.send(view("2026-11-16T23:00:00Z", "/"))
    for endpoint in ("stats", "timeseries", "top/os", "events", "funnel?step=pathname:/&step=pathname:/"):
        meta = site.json(f"{endpoint}{'&' if '?' in endpoint else '?'}{query}")["meta"]
        assert (meta["from"][:10], meta["to"][:10]) == (begin, end)


def test_all_begins_with_the_local_day_of_the_first_event(site: Site) -> None:
    """Also once the columns of its day hold all, and its rows are gone."""
    expected = {
        "America/Sao_Paulo": "2026-11-16",
        "Pacific/Honolulu": "2026-11-15",
        "America/St_Johns": "2026-11-16",
        "UTC": "2026-11-16",
        "Pacific/Kiritimati": "2026-11-16",
    }

    def begins() -> dict[str, str]:
        return {tz: site.json(f"stats?period=all&tz={tz}")["meta"]["from"][:10] for tz in expected}

    site.send(view("2026-11-16T05:28:00Z", "/"), view("2026-11-16T23:00:00Z", "/"))
    assert begins() == expected
    app = site.sync_app.app
    app.clock.advance(10 * 86_400)
    site.sync_app.run(app.background_work.builder.work())
    assert app.sql("select count(*) from event") == [(0,)]
    assert begins() == expected


def test_a_range_in_the_hour_that_occurs_twice_is_compared(site: Site) -> None:
    """The end is in the repetition of the hour, so its local time is before that of the beginning."""
    meta = site.json(
        "stats?from=2026-10-25T00:34:30Z&to=2026-10-25T01:04:30Z&tz=Atlantic/Azores&compare=year&match_weekday=true"
    )["meta"]
    assert (ms(meta["previous_from"]), ms(meta["previous_to"])) == (
        ms("2025-10-26T00:34:30Z"),
        ms("2025-10-26T01:04:30Z"),
    )


@cases(
    ("query", "field"),
    [
        ("period=7d&from=2026-11-01", "period"),
        ("period=7d&to=2026-11-01", "period"),
        ("period=week", "period"),
        ("compare=custom", "compare_from"),
        ("compare=custom&compare_from=2026-11-01", "compare_from"),
        ("compare=custom&compare_from=2026-11-02&compare_to=2026-11-01", "compare_from"),
        ("compare=custom&compare_from=x&compare_to=2026-11-01", "compare_from"),
        ("compare=year&compare_to=2026-11-01", "compare_from"),
        ("match_weekday=true", "match_weekday"),
        ("compare=year&match_weekday=yes", "match_weekday"),
        ("compare=custom&compare_from=2026-11-01&compare_to=2026-11-02&match_weekday=true", "match_weekday"),
        ("compare=last", "compare"),
    ],
)
def test_what_does_not_go_together_is_refused(site: Site, query: str, field: str) -> None:
    for endpoint in ("stats", "timeseries", "top/os"):
        assert site.invalid_field(f"{endpoint}?{query}") == field


@cases(
    ("query", "field"),
    [
        ("from=2026-11-17&to=2026-11-17&compare=custom&compare_from=2026-11-01&compare_to=2026-11-03", "compare_from"),
        ("from=2026-11-01&to=2026-11-03&compare=custom&compare_from=2026-11-17&compare_to=2026-11-17", "interval"),
        # The other day has 25 hours.
        ("from=2026-10-26&to=2026-10-26&tz=Europe/Berlin&compare=year", "compare"),
        ("from=2026-10-26&to=2026-10-26&tz=Europe/Berlin&compare=previous", "compare"),
    ],
)
def test_a_series_of_too_many_minutes_names_the_range(site: Site, query: str, field: str) -> None:
    assert site.invalid_field(f"timeseries?interval=minute&{query}") == field


@cases(
    ("query", "begin", "end"),
    [
        ("compare=previous", "2026-11-14", "2026-11-16"),
        ("compare=previous&match_weekday=true", "2026-11-09", "2026-11-11"),
        ("compare=year", "2025-11-16", "2025-11-18"),
        ("compare=year&match_weekday=true", "2025-11-17", "2025-11-19"),
        ("compare=custom&compare_from=2026-11-10&compare_to=2026-11-10", "2026-11-10", "2026-11-11"),
    ],
)
def test_the_range_to_compare_with(site: Site, query: str, begin: str, end: str) -> None:
    """The 16th and 17th are a Monday and a Tuesday."""
    for endpoint in ("stats", "timeseries", "top/os"):
        meta = site.json(f"{endpoint}?from=2026-11-16&to=2026-11-17&{query}")["meta"]
        assert (meta["previous_from"][:10], meta["previous_to"][:10]) == (begin, end)


@cases(
    ("query", "begin", "end"),
    [
        ("period=today&compare=previous", "2026-11-17T00:00", "2026-11-17T12:01"),
        ("period=7d&compare=previous", "2026-11-05T00:00", "2026-11-11T12:01"),
        ("from=2026-11-16&to=2026-11-22&compare=previous", "2026-11-09T00:00", "2026-11-11T12:01"),
        ("from=2026-11-18&to=2026-11-19T06:00&compare=previous", "2026-11-16T18:00", "2026-11-17T06:01"),
        ("period=month&compare=previous&match_weekday=true", "2026-10-11T00:00", "2026-10-28T12:01"),
        ("period=year&compare=year", "2025-01-01T00:00", "2025-11-18T12:01"),
        ("period=today&compare=year&match_weekday=true", "2025-11-19T00:00", "2025-11-19T12:01"),
        ("period=today&compare=custom&compare_from=2026-11-10&compare_to=2026-11-10", "2026-11-10", "2026-11-11T00:00"),
        ("period=yesterday&compare=previous", "2026-11-16T00:00", "2026-11-17T00:00"),
        ("from=2026-11-19&to=2026-11-20&compare=previous", "2026-11-17T00:00", "2026-11-19T00:00"),
        ("compare=previous", "2026-11-04T12:00", "2026-11-11T12:00"),
    ],
)
def test_a_range_that_is_not_over_is_compared_up_to_the_same_time(site: Site, query: str, begin: str, end: str) -> None:
    """Sums are; the rows of a series each have the whole row beside them."""
    for endpoint in ("stats", "top/os"):
        meta = site.json(f"{endpoint}?{query}")["meta"]
        assert meta["previous_from"].startswith(begin)
        assert meta["previous_to"].startswith(end)
    series = site.json(f"timeseries?{query}")["meta"]
    length_ms = ms(series["to"]) - ms(series["from"])
    if "compare=custom" not in query:
        assert ms(series["previous_to"]) - ms(series["previous_from"]) == length_ms


def test_sums_of_the_same_part_of_a_day(site: Site) -> None:
    """The change at noon is against yesterday morning, by the minute."""
    site.send(*(view(f"2026-11-17T{time}Z", "/", who) for time, who in (("11:00", "a"), ("12:00:59", "b"))))
    site.send(*(view(f"2026-11-17T{time}Z", "/", who) for time, who in (("12:01", "c"), ("20:00", "d"))))
    site.send(*(view("2026-11-18T11:00Z", "/", who) for who in "abc"))
    (row,) = site.data("top/pathname?period=today&compare=previous")
    data = site.data("stats?period=today&compare=previous")
    assert [of["previous"]["visitors"] for of in (row, data)] == [2, 2]
    assert data["change"]["visitors"] == 50.0
    (by_day,) = site.data("timeseries?period=today&compare=previous")
    assert by_day["previous"]["visitors"] == 4


def test_a_series_beside_another(site: Site) -> None:
    site.send(view("2026-11-16T10:00:00Z", "/", "a"), view("2026-11-17T10:00:00Z", "/", "a"))
    site.send(view("2026-11-17T11:00:00Z", "/", "b"))
    query = "timeseries?from=2026-11-17&to=2026-11-18&compare=custom&compare_from=2026-11-16&compare_to=2026-11-16"
    first, second = site.data(query)
    assert (first["visitors"], first["previous"]["visitors"], first["previous"]["time"][:10]) == (2, 1, "2026-11-16")
    assert second["previous"] is None
    header, *rows = site.get(query + "&format=csv").text.splitlines()
    assert header.split(",")[5:] == [f"previous_{name}" for name in header.split(",")[:5]]
    assert [row.split(",")[6] for row in rows] == ["1", ""]


def test_a_list_beside_another_and_in_pages(site: Site) -> None:
    site.send(*(view("2026-11-16T10:00:00Z", path, who) for path, who in (("/a", "x"), ("/c", "x"), ("/c", "y"))))
    site.send(*(view("2026-11-17T10:00:00Z", path, who) for path, who in (("/a", "x"), ("/a", "y"), ("/b", "x"))))
    site.send(custom("2026-11-16T10:01:00Z", "signup", "x"))
    query = "top/pathname?from=2026-11-17&to=2026-11-17&compare=previous"
    answer = site.json(query)
    assert [(row["value"], row["visitors"], row["previous"]["visitors"]) for row in answer["data"]] == [
        ("/a", 2, 1),
        ("/b", 1, 0),
    ]
    assert (answer["meta"]["total"], answer["meta"]["unset"]["previous"]["events"]) == (2, 1)
    page = site.json(query + "&offset=1&limit=1")
    assert ([row["value"] for row in page["data"]], page["meta"]["total"]) == (["/b"], 2)
    assert site.data(query + "&offset=2") == []
    assert site.invalid_field("top/pathname?offset=-1") == "offset"
    assert site.invalid_field("top/pathname?offset=10001") == "offset"


async def test_the_time_zone_and_week_of_a_website(app: App) -> None:
    """They hold where a query names none, from the answer to the change on."""
    browser = await logged_in(app)
    id = (await browser("POST", "/api/account/websites", {"domain": "example.com"})).json["data"]["id"]
    key = await app.key()
    path = f"/api/v1/websites/{id}/timeseries?from=2026-11-09&to=2026-11-15&interval=week"
    assert (await app.get(path, key)).json["meta"]["tz"] == "UTC"
    sent = {"time_zone": "Asia/Tokyo", "week_start": "sunday", "currency": "EUR"}
    changed = await browser("PATCH", f"/api/account/websites/{id}", sent)
    assert {name: changed.json["data"][name] for name in sent} == sent
    answer = (await app.get(path, key)).json
    assert (answer["meta"]["tz"], answer["meta"]["week_start"]) == ("Asia/Tokyo", "sunday")
    assert [row["time"] for row in answer["data"]] == [
        "2026-11-08T00:00:00.000+09:00",
        "2026-11-15T00:00:00.000+09:00",
    ]
    assert (await app.get(path + "&tz=UTC", key)).json["meta"]["tz"] == "UTC"
    (listed,) = (await app.get("/api/v1/websites", key)).json["data"]
    assert {name: listed[name] for name in sent} == sent
    # What is not sent stays, also the name.
    await browser("PATCH", f"/api/account/websites/{id}", {"currency": None})
    (listed,) = (await app.get("/api/v1/websites", key)).json["data"]
    assert (listed["name"], listed["time_zone"], listed["currency"]) == ("example.com", "Asia/Tokyo", None)


@cases(
    ("field", "value"),
    [
        *(("time_zone", value) for value in ("Tokyo", "", 5, ["UTC"], {})),
        *(("week_start", value) for value in ("Sunday", "", None, 1, ["sunday"])),
        *(("currency", value) for value in ("eur", "EURO", "", 5, ["EUR"], "EU€")),
    ],
)
async def test_settings_that_are_refused(app: App, field: str, value: Any) -> None:
    browser = await logged_in(app)
    id = (await browser("POST", "/api/account/websites", {"domain": "example.com", "again": True})).json["data"]["id"]
    answer = await browser("PATCH", f"/api/account/websites/{id}", {field: value})
    assert (answer.status, answer.json["error"]["field"]) == (400, field)


@pytest.fixture
def busy(site: Site) -> Site:
    """A website with a goal, and visits on the 16th and the 17th."""

    async def save() -> None:
        browser = await logged_in(site.sync_app.app)
        goal = {"name": "Signup", "type": "event", "match": ["filter_event_name=signup"], "value": "price"}
        answer = await browser("POST", f"/api/account/websites/{site.id}/goals", goal)
        assert answer.status == 201, answer.text

    site.sync_app.run(save())
    for day, visitors in (("2026-11-16", ("ann", "bob", "cat")), ("2026-11-17", ("dan", "eve"))):
        for who in visitors:
            site.send(view(f"{day}T08:00:00Z", "/", who), view(f"{day}T08:01:00Z", "/pricing", who))
        site.send(custom(f"{day}T08:02:00Z", "signup", visitors[0], event_data={"price": 5}))
        site.send(event("vitals", f"{day}T08:02:00Z", visitors[0], vitals={"lcp": 1000 * len(visitors)}))
    site.send(view("2026-11-17T09:00:00Z", "/new", "eve"), custom("2026-11-17T09:01:00Z", "signup", "eve"))
    return site


@cases(
    ("report", "names"),
    [
        ("event-names?", ("value",)),
        ("entry-pages?", ("value",)),
        ("exit-pages?", ("value",)),
        ("goals/report?", ("id", "name", "type", "currency")),
        ("funnel?step=pathname:/&step=event_name:signup&", ("field", "value")),
        ("vitals?", ("metric", "unit")),
    ],
)
@pytest.mark.parametrize("more", ["", "&filter_pathname!=/x"])
def test_rows_have_the_figures_of_the_other_range(busy: Site, report: str, names: tuple[str, ...], more: str) -> None:
    """Those which the report of that range alone has; of a value that is not in it, 0 and ratios that are null."""
    one_day = [busy.json(f"{report}from={day}&to={day}{more}") for day in ("2026-11-17", "2026-11-16")]
    both = busy.json(f"{report}from=2026-11-17&to=2026-11-17&compare=previous{more}")
    alone, before = (answer["data"] for answer in one_day)
    assert [{name: row[name] for name in alone[0]} for row in both["data"]] == alone
    older = {tuple(row[name] for name in names): row for row in before}
    for row in both["data"]:
        found = older.get(tuple(row[name] for name in names))
        expected = {name: found[name] if found else None for name in alone[0] if name not in names}
        assert {name: value or None if not found else value for name, value in row["previous"].items()} == expected
    assert any(row["previous"] != {name: row[name] for name in row["previous"]} for row in both["data"])
    assert both["meta"]["previous_from"][:10] == "2026-11-16"
    table = busy.get(f"{report}from=2026-11-17&to=2026-11-17&compare=previous{more}&format=csv").text.splitlines()
    figures = [f"previous_{name}" for name in alone[0] if name not in names]
    assert table[0].split(",")[len(alone[0]) :] == figures + ["p_value"] * report.startswith("funnel")


def test_journeys_and_goals_have_the_visits_and_visitors_of_the_other_range(busy: Site) -> None:
    query = "from=2026-11-17&to=2026-11-17&compare=previous"
    meta = busy.json(f"journeys?start=pathname:/&{query}")["meta"]
    assert (meta["visits"], meta["previous_visits"]) == (2, 3)
    meta = busy.json(f"goals/report?{query}")["meta"]
    assert (meta["visitors"], meta["previous_visitors"]) == (2, 3)
    assert busy.invalid_field(f"vitals?by=day&{query}") == "compare"


def test_funnels_of_two_values_are_compared(site: Site) -> None:
    """In place of filters of the field; the p-value is that of two proportions, where both have enough."""
    for device, visits, signups in (("desktop", 60, 40), ("mobile", 50, 12), ("tablet", 12, 3)):
        for n in range(visits):
            who = f"{device}-{n}"
            site.send(view("2026-11-17T08:00:00Z", "/", who, device=device))
            if n < signups:
                site.send(custom("2026-11-17T08:01:00Z", "signup", who, device=device))
    funnel = "funnel?from=2026-11-17&to=2026-11-17&step=pathname:/&step=event_name:signup"
    for filters in ("&filter_device=desktop", "&filter_device=desktop&filter_device!=mobile"):
        found = site.json(f"{funnel}{filters}&against=device:mobile")
        assert [(row["visits"], row["previous"]["visits"]) for row in found["data"]] == [(60, 50), (40, 12)]
        assert found["meta"]["against"] == "device:mobile"
    assert found["data"][0]["p_value"] is None
    # 40 of 60 and 12 of 50: by hand, z = 0.4267 / sqrt(0.4727 * 0.5273 * (1/60 + 1/50)) = 4.463.
    assert found["data"][1]["p_value"] == pytest.approx(8.07e-6, rel=0.01)
    few = site.data(f"{funnel}&filter_device=desktop&against=device:tablet")
    assert few[1]["previous"]["visits"] == 3
    assert few[1]["p_value"] is None
    for wrong in ("against=mobile", "against=type:event", "against=device:mobile&compare=previous", "against=prop.a:1"):
        assert site.invalid_field(f"{funnel}&{wrong}") == "against"
