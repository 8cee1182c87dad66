"""Figures of the read API over HTTP, computed by hand; shapes, filters, comparison, lists, freshness.

The rules are in docs/reference/definitions.md and docs/reference/read-api.md. Parameters are tested in
test_read_parameters.py.
"""

import asyncio
import random
import uuid
from pathlib import Path
from typing import Any

import pytest

from tally.clock import Clock
from tally.events.filters import stored_form
from tally.settings import Settings
from tests.model.reference import FIELDS
from tests.support.app import NOON_MS, SAFARI_IPHONE, App
from tests.support.read_api import (
    DAY,
    ENDPOINTS,
    HOUR_MS,
    NOON,
    Site,
    SyncApp,
    custom,
    event,
    filters,
    ms,
    view,
)

KEY_FIGURES = ("visitors", "visits", "pageviews", "events", "bounce_rate", "views_per_visit", "visit_duration")
ALL_DAY = f"from={DAY}&to={DAY}"


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    return sync_app.site()


def key_figures(site: Site, question: str) -> list[Any]:
    """Return the seven key figures, in the order of the response."""
    return [site.data(question)[name] for name in KEY_FIGURES]


# Ann has two visits, with a gap of exactly 30:00.000 in the first and 30:00.001 between the two.
KNOWN = (
    view("10:00:00.000", "/a", "ann"),
    view("10:10:00.000", "/b", "ann"),
    custom("10:10:30.500", "signup", "ann", url="https://example.com/b"),
    view("10:40:30.500", "/c", "ann"),
    view("11:10:30.501", "/a", "ann"),
    view("10:05:00.000", "/a", "bob"),
    event("screen_view", "12:00:00.000", "cat", name="Home"),
    event("app_event", "12:00:01.000", "cat", event_name="buy"),
    custom("13:00:00.000", "ping", "dan"),
    event("vitals", "14:00:00.000", "eve", url="https://example.com/a", vitals={"lcp": 1200}),
    event("heatmap", "14:00:00.000", "eve", points=[{"x": 0.5, "y": 10, "kind": "click"}], viewport_width=800),
    event("ab_assign", "14:00:00.000", "eve", experiment="button", variant="red"),
    event("ab_convert", "14:00:00.000", "eve", experiment="button", variant="red", goal="buy", value=3),
)


@pytest.fixture
def known(site: Site) -> Site:
    site.send(*random.Random(5).sample(KNOWN, len(KNOWN)))  # the order of arrival does not matter
    return site


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # ann 4 views 1 event in 2 visits, bob 1 view, cat 1 and 1, dan 1 event; durations 2430.5, 0, 0, 1 and 0 seconds
        pytest.param(f"stats?{ALL_DAY}", [4, 5, 6, 3, 40.0, 1.2, 486], id="all"),
        # ann's first visit and bob's began before; ann's view at 10:40:30.5 counts all the same
        pytest.param(
            f"stats?from={DAY}T10:20:00&to={DAY}T23:00:00", [3, 3, 3, 2, 33.3, 0.67, 0], id="visits-begun-before"
        ),
        # the end is exclusive; visits count as a whole: ann's first has 3 views over 2430.5 s, bob's is a bounce
        pytest.param(
            f"stats?from={DAY}T10:00:00&to={DAY}T10:10:00", [2, 2, 2, 0, 50.0, 2.0, 1215], id="whole-visits-half-open"
        ),
        pytest.param(
            f"stats?from={DAY}T10:10:00&to={DAY}T10:10:00.001", [1, 0, 1, 0, None, None, None], id="one-millisecond"
        ),
        # a visit of one event has no pageview and is not a bounce
        pytest.param(f"stats?from={DAY}T13:00:00&to={DAY}T13:00:01", [1, 1, 0, 1, 0.0, 0.0, 0], id="no-view-no-bounce"),
        pytest.param(f"stats?from={DAY}T14:00:00&to={DAY}T15:00:00", [0, 0, 0, 0, None, None, None], id="measurements"),
        pytest.param("stats?from=2020-01-01&to=2020-01-02", [0, 0, 0, 0, None, None, None], id="nothing"),
        # a filter selects events; visits with a selected event count as a whole
        pytest.param(f"stats?{ALL_DAY}&filter_pathname=/c", [1, 1, 1, 0, 0.0, 3.0, 2431], id="filter-whole-visit"),
        pytest.param(f"stats?{ALL_DAY}&filter_pathname=/a", [2, 3, 3, 0, 66.7, 1.67, 810], id="filter-two-visits"),
        pytest.param(f"stats?{ALL_DAY}&filter_event_name=signup", [1, 1, 0, 1, 0.0, 3.0, 2431], id="filter-custom"),
        # ann's first visit begins in the range, its only /c lies outside: no selected event, so no visit
        pytest.param(
            f"stats?from={DAY}T10:00:00&to={DAY}T10:30:00&filter_pathname=/c",
            [0, 0, 0, 0, None, None, None],
            id="filter-matches-outside-the-range",
        ),
        # the /c lies in the range, its visit began before it
        pytest.param(
            f"stats?from={DAY}T10:20:00&to={DAY}T11:00:00&filter_pathname=/c",
            [1, 0, 1, 0, None, None, None],
            id="filter-of-a-visit-begun-before",
        ),
        pytest.param(f"stats?{ALL_DAY}&filter_type=vitals", [0, 0, 0, 0, None, None, None], id="no-traffic-type"),
    ],
)
def test_key_figures(known: Site, question: str, expected: list[Any]) -> None:
    """Visitors, pageviews and events count selected events; visits begin in the range and have a selected event."""
    assert key_figures(known, question) == expected


def test_a_late_event_joins_two_visits(site: Site) -> None:
    """A late event can lengthen a visit, move its start back, or join two visits."""
    site.send(view("10:00:00", "/a"), view("10:50:00", "/b"))
    assert key_figures(site, f"stats?{ALL_DAY}") == [1, 2, 2, 0, 100.0, 1.0, 0]
    site.send(custom("10:25:00"))
    assert key_figures(site, f"stats?{ALL_DAY}") == [1, 1, 2, 1, 0.0, 2.0, 3000]
    site.send(view("09:30:00", "/c"))
    assert key_figures(site, f"stats?{ALL_DAY}") == [1, 1, 3, 1, 0.0, 3.0, 4800]
    assert key_figures(site, f"stats?from={DAY}T09:40:00&to={DAY}T12:00:00") == [1, 0, 2, 1, None, None, None]


def test_a_visit_does_not_cross_midnight_utc(site: Site) -> None:
    """Two pageviews around midnight UTC are two visitors and two visits."""
    site.send(view("23:59:59.999", "/a"), view("2026-11-18T00:00:00.000Z", "/b"))
    assert key_figures(site, f"stats?from={DAY}&to=2026-11-18") == [2, 2, 2, 0, 100.0, 1.0, 0]


def visits(*lives: tuple[int, int]) -> list[dict[str, Any]]:
    """Return events of visits by different visitors from 10:00, each given as (pageviews, seconds)."""
    at = ms("10:00:00")
    sent = []
    for n, (views, seconds) in enumerate(lives):
        sent += [view(at, f"/{i}", f"{n}") for i in range(views - 1)]
        sent.append(view(at + 1000 * seconds, "/end", f"{n}"))
    return sent


@pytest.mark.parametrize(
    ("sent", "name", "expected"),
    [
        # floats and rounding half to even would give 6.2, 1.12, 2 and 0
        pytest.param(visits((1, 0), *[(2, 0)] * 15), "bounce_rate", 6.3, id="share-6.25"),
        pytest.param(visits(*[(1, 0)] * 2, (2, 0)), "bounce_rate", 66.7, id="share-66.67"),
        pytest.param(visits(*[(1, 0)] * 7, (2, 0)), "views_per_visit", 1.13, id="mean-1.125"),
        pytest.param(visits(*[(1, 0)] * 2, (2, 0)), "views_per_visit", 1.33, id="mean-1.333"),
        pytest.param(visits((2, 5), (1, 0)), "visit_duration", 3, id="seconds-2.5"),
        pytest.param(visits((2, 1), (1, 0)), "visit_duration", 1, id="seconds-0.5"),
        pytest.param(visits((2, 1), (1, 0), (1, 0)), "visit_duration", 0, id="seconds-0.33"),
    ],
)
def test_halves_are_rounded_away_from_zero(site: Site, sent: list[dict[str, Any]], name: str, expected: float) -> None:
    """bounce_rate has one decimal, views_per_visit two, visit_duration none."""
    site.send(*sent)
    assert site.data(f"stats?{ALL_DAY}")[name] == expected


# --- shapes


def test_websites_are_listed_oldest_first(sync_app: SyncApp) -> None:
    """Only the websites of the key's account, oldest first."""
    account = f"{uuid.uuid4()}@example.com"
    sync_app.clock.set_wall(NOON_MS)
    middle = sync_app.site("b.example.com", account)
    sync_app.clock.set_wall(NOON_MS - HOUR_MS)
    oldest = sync_app.site("c.example.com", account)
    sync_app.clock.set_wall(NOON_MS)
    newest = sync_app.site("a.example.com", account)
    sync_app.site("d.example.com")
    settings = {"time_zone": None, "day_offset_minutes": 0, "week_start": "monday", "currency": None}
    answer = sync_app.get("/api/v1/websites", middle.key)
    assert answer.json == {
        "data": [
            {"id": site.id, "name": domain, "domain": domain, "created_at": created} | settings
            for site, domain, created in [
                (oldest, "c.example.com", "2026-11-18T11:00:00.000+00:00"),
                (middle, "b.example.com", NOON),
                (newest, "a.example.com", NOON),
            ]
        ],
        "meta": {},
    }
    assert list(answer.json["data"][0]) == ["id", "name", "domain", "created_at", *settings]


def test_an_account_without_websites_has_an_empty_list(sync_app: SyncApp) -> None:
    """/websites returns an empty list."""
    key = sync_app.run(sync_app.app.key(f"{uuid.uuid4()}@example.com"))
    assert sync_app.get("/api/v1/websites", key).json == {"data": [], "meta": {}}


RANGE = {
    "from": "2026-11-17T00:00:00.000+01:00",
    "to": "2026-11-18T00:00:00.000+01:00",
    "tz": "Europe/Berlin",
    "day_offset_minutes": 0,
    "filters": {"os": ["Windows", ""], "browser": ["Chrome"]},
}
QUERY = f"{ALL_DAY}&tz=Europe/Berlin&filter_os=Windows&filter_browser=Chrome&filter_os="
ROW_KEYS = {
    "timeseries": ["time", "visitors", "visits", "pageviews", "events"],
    "top/pathname": ["value", "visitors", "pageviews", "events"],
    "events": [
        *("id", "type", "timestamp", *FIELDS, "event_name", "event_data", "visit", "vitals"),
        *("experiment", "variant", "goal", "value"),
    ],
}


@pytest.mark.parametrize(
    ("endpoint", "own"),
    [
        pytest.param("stats", {"compare": None}, id="stats"),
        pytest.param("timeseries", {"interval": "day"}, id="timeseries"),
        pytest.param(
            "top/pathname",
            {
                "field": "pathname",
                "limit": 10,
                "offset": 0,
                "total": 4,
                "unset": {"visitors": 2, "pageviews": 0, "events": 2},
            },
            id="top",
        ),
        pytest.param("events", {"limit": 100, "next_cursor": None}, id="events"),
    ],
)
def test_meta_echoes_the_parameters(known: Site, endpoint: str, own: dict[str, Any]) -> None:
    """Meta has the parsed website_id, from, to, tz, interval, filters and limit."""
    answer = known.json(f"{endpoint}?{QUERY}")
    assert list(answer) == ["data", "meta"]
    assert answer["meta"] == {"website_id": known.id} | RANGE | own


@pytest.mark.parametrize("endpoint", ROW_KEYS)
def test_rows_have_their_keys_in_order(known: Site, endpoint: str) -> None:
    """All rows have these keys, in this order."""
    rows = known.data(f"{endpoint}?{ALL_DAY}")
    assert rows
    assert all(list(row) == ROW_KEYS[endpoint] for row in rows)


def test_key_figures_have_their_keys_in_order(known: Site) -> None:
    """With `compare` the keys `previous` and `change` follow."""
    assert list(known.data(f"stats?{ALL_DAY}")) == [*KEY_FIGURES]
    compared = known.data(f"stats?{ALL_DAY}&compare=previous")
    assert list(compared) == [*KEY_FIGURES, "previous", "change"]
    assert list(compared["previous"]) == list(compared["change"]) == [*KEY_FIGURES]


def test_realtime_shape(known: Site) -> None:
    """`{"active_visitors","pages":[{"pathname","visitors"}],"window_seconds":300}`."""
    answer = known.json("realtime")
    assert answer == {
        "data": {"active_visitors": 0, "pages": [], "window_seconds": 300},
        "meta": {"website_id": known.id, "time": NOON},
    }
    assert list(answer["data"]) == ["active_visitors", "pages", "window_seconds"]


def test_the_default_range_is_the_last_7_days_up_to_now(site: Site) -> None:
    """`to` is the end of the current millisecond."""
    meta = site.json("stats")["meta"]
    assert (meta["from"], meta["to"]) == ("2026-11-11T12:00:00.001+00:00", "2026-11-18T12:00:00.001+00:00")
    assert len(site.data("timeseries")) == 8


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_upper_case_id_is_the_same_website(known: Site, endpoint: str) -> None:
    """UUIDs are case-insensitive (RFC 9562)."""
    answer = known.sync_app.get(f"/api/v1/websites/{known.id.upper()}/{endpoint}", known.key)
    assert (answer.status, answer.json) == (200, known.json(endpoint))


# --- timeseries


def test_a_series_has_one_row_per_bucket(known: Site) -> None:
    """In order and without gaps; visits count in the bucket in which they begin."""
    rows = known.data(f"timeseries?from={DAY}T09:30:00&to={DAY}T14:30:00&interval=hour")
    assert [tuple(row.values()) for row in rows] == [
        (f"{DAY}T09:00:00.000+00:00", 0, 0, 0, 0),
        (f"{DAY}T10:00:00.000+00:00", 2, 2, 4, 1),
        (f"{DAY}T11:00:00.000+00:00", 1, 1, 1, 0),
        (f"{DAY}T12:00:00.000+00:00", 1, 1, 1, 1),
        (f"{DAY}T13:00:00.000+00:00", 1, 1, 0, 1),
        (f"{DAY}T14:00:00.000+00:00", 0, 0, 0, 0),
    ]


def test_a_filtered_series_counts_visits_where_they_begin(site: Site) -> None:
    """A visit with a matching event anywhere in the range counts in the bucket in which it begins."""
    site.send(view("10:50:00", "/early"), view("11:10:00", "/late"))
    rows = site.data(f"timeseries?from={DAY}T10:00:00&to={DAY}T12:00:00&interval=hour&filter_pathname=/late")
    assert [tuple(row.values())[1:] for row in rows] == [(0, 1, 0, 0), (1, 0, 1, 0)]
    assert key_figures(site, f"stats?from={DAY}T10:00:00&to={DAY}T12:00:00&filter_pathname=/late")[:4] == [1, 1, 1, 0]


def test_first_and_last_bucket_are_limited_to_the_range(site: Site) -> None:
    """The first and last buckets count only events in the range."""
    site.send(*(view(f"10:{minute}:00", f"/{minute}", minute) for minute in ("10", "20", "30", "40")))
    rows = site.data(f"timeseries?from={DAY}T10:20:00&to={DAY}T10:40:00")
    assert rows == [{"time": f"{DAY}T00:00:00.000+00:00", "visitors": 2, "visits": 2, "pageviews": 2, "events": 0}]


# --- compare


def test_the_previous_range_has_equal_length(known: Site) -> None:
    """compare=previous returns the figures of the range of equal length just before."""
    answer = known.json(f"stats?from={DAY}T11:00:00&to={DAY}T13:30:00&compare=previous")
    assert answer["meta"]["compare"] == "previous"
    assert (answer["meta"]["previous_from"], answer["meta"]["previous_to"]) == (
        f"{DAY}T08:30:00.000+00:00",
        f"{DAY}T11:00:00.000+00:00",
    )
    assert list(answer["data"]["previous"].values()) == [2, 2, 4, 1, 50.0, 2.0, 1215]
    assert [answer["data"][name] for name in KEY_FIGURES] == [3, 3, 2, 2, 33.3, 0.67, 0]
    # 3:2, 3:2, 2:4, 2:1, 33.3333:50, 0.66667:2, 0.33333:1215.25
    assert list(answer["data"]["change"].values()) == [50.0, 50.0, -50.0, 100.0, -33.3, -66.7, -100.0]


def test_dates_are_compared_with_the_same_number_of_local_days(site: Site) -> None:
    """Where both ends are dates, here with Berlin's day of 25 hours."""
    site.sync_app.clock.set_wall(ms("2026-10-26T12:00:00Z"))
    # 24 October's first and last local hour in Berlin, then 25 October's, which has 25
    nights = ("2026-10-23T22:30:00Z", "2026-10-24T21:30:00Z", "2026-10-24T22:30:00Z", "2026-10-25T22:30:00Z")
    site.send(*(view(at, who=f"{n}") for n, at in enumerate(nights)))
    question = "stats?from=2026-10-25&to=2026-10-25&tz=Europe/Berlin&compare=previous"
    answer = site.json(question)
    assert {name: answer["meta"][name] for name in ("from", "to", "previous_from", "previous_to")} == {
        "from": "2026-10-25T00:00:00.000+02:00",
        "to": "2026-10-26T00:00:00.000+01:00",
        "previous_from": "2026-10-24T00:00:00.000+02:00",
        "previous_to": "2026-10-25T00:00:00.000+02:00",
    }
    assert (answer["data"]["pageviews"], answer["data"]["previous"]["pageviews"]) == (2, 2)
    # the same instants given as times go back 25 hours
    times = site.json("stats?from=2026-10-25T00:00:00&to=2026-10-26T00:00:00&tz=Europe/Berlin&compare=previous")
    assert times["meta"]["previous_from"] == "2026-10-23T23:00:00.000+02:00"
    assert times["data"]["previous"]["pageviews"] == 2


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(16, 17, 6.3, id="6.25"),
        pytest.param(16, 15, -6.3, id="minus-6.25"),
        pytest.param(3, 4, 33.3, id="33.33"),
        pytest.param(3, 2, -33.3, id="minus-33.33"),
        pytest.param(5, 5, 0.0, id="same"),
        pytest.param(4, 0, -100.0, id="gone"),
        pytest.param(0, 4, None, id="before-0"),
        pytest.param(0, 0, None, id="both-0"),
        pytest.param(1, 30, 2900.0, id="above-100"),
    ],
)
def test_change_is_relative_percent(site: Site, before: int, now: int, expected: float | None) -> None:
    """Change has one decimal; it is null where the previous figure is 0 or null."""
    site.send(*(view("10:00:00", f"/{n}") for n in range(before)), *(view("11:00:00", f"/{n}") for n in range(now)))
    data = site.data(f"stats?from={DAY}T11:00:00&to={DAY}T12:00:00&compare=previous")
    assert (data["previous"]["pageviews"], data["pageviews"], data["change"]["pageviews"]) == (before, now, expected)


def test_change_comes_from_unrounded_values(site: Site) -> None:
    """4/3 to 5/3 pageviews per visit is 25 %; from 1.33 to 1.67 it would be 25.6 %."""
    hours = (("10", (2, 1, 1)), ("11", (2, 2, 1)))
    for hour, lives in hours:
        for n, views in enumerate(lives):
            site.send(*(view(f"{hour}:00:00", f"/{i}", f"{hour}-{n}") for i in range(views)))
    data = site.data(f"stats?from={DAY}T11:00:00&to={DAY}T12:00:00&compare=previous")
    assert (data["previous"]["views_per_visit"], data["views_per_visit"]) == (1.33, 1.67)
    assert data["change"]["views_per_visit"] == 25.0


@pytest.mark.parametrize(
    ("hour", "change"),
    [
        pytest.param("11", [None] * 7, id="previous-has-no-visits"),
        pytest.param("12", [-100.0, -100.0, -100.0, None, None, None, None], id="now-has-none"),
    ],
)
def test_change_without_visits(site: Site, hour: str, change: list[Any]) -> None:
    """Change is null where the previous figure is 0 or null, or the current one is null."""
    site.send(view("11:00:00"))
    data = site.data(f"stats?from={DAY}T{hour}:00:00&to={DAY}T{int(hour) + 1}:00:00&compare=previous")
    assert list(data["change"].values()) == change


def test_compare_keeps_the_filters(site: Site) -> None:
    """Filters apply to both ranges."""
    site.send(view("10:00:00", "/a"), view("10:00:00", "/b"), view("11:00:00", "/a"))
    data = site.data(f"stats?from={DAY}T11:00:00&to={DAY}T12:00:00&compare=previous&filter_pathname=/a")
    assert (data["pageviews"], data["previous"]["pageviews"]) == (1, 1)


# --- top


def test_top_orders_by_visitors_views_events_then_value(site: Site) -> None:
    """Rows are ordered by visitors, pageviews and events descending, then by value ascending by code point."""
    high, low = "\U0001f600", "￿"  # by code point the emoji comes last, by UTF-16 units first
    for platform, people, views, customs in [
        ("few visitors, many views", 1, 9, 9),
        ("two visitors", 2, 1, 0),
        ("more views", 1, 3, 0),
        ("more events", 1, 2, 1),
        *((name, 1, 2, 0) for name in (high, low, "z", "Z", "a b", "a", "é", "e\u0301")),
    ]:
        for n in range(people):
            who = f"{platform}-{n}"[:30]
            site.send(
                *(view("10:00:00", "/", who, platform=platform) for _ in range(views)),
                *(custom("10:00:00", who=who, platform=platform) for _ in range(customs)),
            )
    values = [row["value"] for row in site.data(f"top/platform?{ALL_DAY}&limit=100")]
    assert values[:4] == ["two visitors", "few visitors, many views", "more views", "more events"]
    assert values[4:] == ["Z", "a", "a b", "e\u0301", "z", "é", low, high]


def test_top_counts_a_visitor_once_per_value(known: Site) -> None:
    """Visitors are distinct per value; an event without URL or name has no pathname."""
    answer = known.json(f"top/pathname?{ALL_DAY}")
    assert [tuple(row.values()) for row in answer["data"]] == [
        ("/a", 2, 3, 0),
        ("/b", 1, 1, 1),
        ("/Home", 1, 1, 0),
        ("/c", 1, 1, 0),
    ]
    # dan's ping and cat's buy
    assert answer["meta"]["unset"] == {"visitors": 2, "pageviews": 0, "events": 2}


def test_unset_counts_do_not_use_up_the_limit(site: Site) -> None:
    """Unset values are not rows; their figures are in meta.unset for any limit."""
    site.send(*(custom("10:00:00", who=f"{n}") for n in range(3)), view("10:00:00", "/a", "0"))
    answer = site.json(f"top/pathname?{ALL_DAY}&limit=1")
    assert [row["value"] for row in answer["data"]] == ["/a"]
    assert answer["meta"]["unset"] == {"visitors": 3, "pageviews": 0, "events": 3}


def test_limit(site: Site) -> None:
    """limit is 1 to 1000 and defaults to 10."""
    site.send(*(view("10:00:00", f"/{n:04}") for n in range(1001)))
    assert [len(site.data(f"top/pathname?{ALL_DAY}{limit}")) for limit in ("", "&limit=1", "&limit=1000")] == [
        10,
        1,
        1000,
    ]


LABELS = {
    "referrer": "news.example.net",
    "language": "pt-BR",
    "utm_source": "a b",
    "utm_medium": "mail",
    "utm_campaign": "50% off",
    "platform": "web",
    "app_version": "1.2",
    "browser": "Chrome",
    "browser_version": "142",
    "os": "Windows",
    "device": "desktop",
    "hostname": "www.example.com",
    "pathname": "/p",
    "channel": "Other",
    "os_version": "11",
    "country": "US",
    "utm_content": "header",
    "utm_term": "shoes",
}


# Region and city need a database of cities: tests/api/test_collect_fields.py has them.
@pytest.mark.parametrize("field", sorted({*FIELDS} - {"region", "city"}))
def test_every_field_has_a_list_and_a_filter(site: Site, field: str) -> None:
    """The dimensions, as :field and as filter_<field>."""
    url = "https://www.example.com/p?utm_source=a+b&utm_medium=mail&utm_campaign=50%25%20off"
    url += "&utm_content=header&utm_term=shoes"
    more = {"referrer": "https://www.news.example.net/x", "language": "pt-br", "platform": "web", "app_version": "1.2"}
    site.send(event("pageview", "10:00:00", "ann", url=url, os_version="11", **more), ip="8.8.8.8")
    rows = site.data(f"top/{field}?{ALL_DAY}")
    value = LABELS[field]
    assert [tuple(row.values()) for row in rows] == [(value, 1, 1, 0)]
    assert site.data(f"stats?{ALL_DAY}{filters(**{field: value})}")["pageviews"] == 1
    assert site.data(f"stats?{ALL_DAY}{filters(**{field: value + 'x'})}")["pageviews"] == 0
    assert site.data(f"stats?{ALL_DAY}&filter_{field}=")["pageviews"] == 0


# --- filters


DATA = {"plan": "Pro_1%", "price": 19.5, "n": 1000, "big": 2**53 + 1, "on": True, "off": None, 'a"b\\ä': "x", "s": "1"}


@pytest.fixture
def mixed(site: Site) -> Site:
    """A website with six events, each with its own pathname."""
    site.send(
        view("10:00:00", "/1", "a", platform="ios", app_version="1"),
        view("10:00:00", "/2", "b", platform="ios", app_version="2"),
        view("10:00:00", "/3", "c", platform="android", app_version="1"),
        view("10:00:00", "/4", "d"),
        custom("10:00:00", "buy", "e", url="https://example.com/5", event_data=DATA),
        event("app_event", "10:00:00", "f", name="6", event_name="buy", platform="ios"),
    )
    return site


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        pytest.param("filter_platform=ios", "126", id="one"),
        pytest.param("filter_platform=ios&filter_platform=android", "1236", id="same-field-any"),
        pytest.param("filter_platform=ios&filter_app_version=1", "1", id="different-fields-all"),
        pytest.param("filter_platform=ios&filter_app_version=1&filter_platform=android", "13", id="any-and-all"),
        pytest.param("filter_platform=", "45", id="empty-is-unset"),
        pytest.param("filter_platform=&filter_platform=android", "345", id="unset-or-a-value"),
        pytest.param("filter_platform=&filter_app_version=1", "", id="unset-and-a-value"),
        pytest.param("filter_platform=iOS", "", id="exact-case"),
        pytest.param("filter_platform=io", "", id="exact-whole"),
        pytest.param("filter_platform=ios%20", "", id="exact-blank"),
        pytest.param("filter_event_name=buy", "56", id="event_name"),
        pytest.param("filter_event_name=", "1234", id="event_name-unset"),
        pytest.param("filter_type=event", "5", id="type"),
        pytest.param("filter_type=event&filter_type=app_event", "56", id="two-types"),
        pytest.param("filter_type=", "", id="type-is-never-unset"),
        pytest.param("filter_type=screen_view", "", id="type-without-events"),
        pytest.param("filter_platform=ios&filter_platform=ios", "126", id="same-value-twice"),
        pytest.param("filter_platform!=ios", "345", id="is-not"),
        pytest.param("filter_platform!=ios&filter_platform!=android", "45", id="is-not-any"),
        pytest.param("filter_platform!=", "1236", id="is-set"),
        pytest.param("filter_platform!=&filter_platform!=ios", "3", id="is-set-and-not"),
        pytest.param("filter_platform!=nowhere", "123456", id="is-not-unknown"),
        pytest.param("filter_platform*=o", "1236", id="contains"),
        pytest.param("filter_platform*=O", "", id="contains-case"),
        pytest.param("filter_platform*=%25&filter_platform*=_&filter_platform*=*", "", id="no-wildcards"),
        pytest.param("filter_platform*=ndr&filter_platform*=io", "1236", id="contains-any"),
        pytest.param("filter_platform^=and", "3", id="begins"),
        pytest.param("filter_platform^=ndr", "", id="begins-not-within"),
        pytest.param("filter_platform$=os", "126", id="ends"),
        pytest.param("filter_platform$=io", "", id="ends-not-within"),
        pytest.param("filter_platform*=o&filter_platform!=ios", "3", id="operators-all"),
        pytest.param("filter_pathname^=/&filter_pathname!=/1&filter_pathname!=/6", "2345", id="nearly-all"),
        pytest.param("filter_event_name*=u", "56", id="event_name-contains"),
        pytest.param("filter_event_name!=buy", "1234", id="event_name-is-not"),
        pytest.param("filter_type!=pageview", "56", id="type-is-not"),
        pytest.param("filter_type^=app", "6", id="type-begins"),
        pytest.param("filter_type!=", "123456", id="type-is-always-set"),
        pytest.param("filter_prop.plan=Pro_1%25", "5", id="prop"),
        pytest.param("filter_prop.plan!=Pro_1%25", "12346", id="prop-is-not"),
        pytest.param("filter_prop.plan=", "12346", id="prop-unset"),
        pytest.param("filter_prop.plan!=", "5", id="prop-set"),
        pytest.param("filter_prop.plan=&filter_prop.plan=Pro_1%25", "123456", id="prop-unset-or-a-value"),
        pytest.param("filter_prop.plan*=o_1", "5", id="prop-contains"),
        pytest.param("filter_prop.plan^=pro", "", id="prop-case"),
        pytest.param("filter_prop.plan$=1%25", "5", id="prop-ends"),
        pytest.param("filter_prop.price=19.5", "5", id="prop-number"),
        pytest.param("filter_prop.price=1.95e1", "5", id="prop-number-by-value"),
        pytest.param("filter_prop.price=19.50001", "", id="prop-other-number"),
        pytest.param("filter_prop.price^=19", "", id="prop-parts-of-texts-only"),
        pytest.param("filter_prop.n=1000&filter_prop.n!=x", "5", id="prop-integer"),
        pytest.param("filter_prop.big=9007199254740993", "5", id="prop-exact-integer"),
        pytest.param("filter_prop.big=9007199254740992", "", id="prop-next-integer"),
        pytest.param("filter_prop.on=true", "5", id="prop-boolean"),
        pytest.param("filter_prop.on=1", "", id="prop-boolean-is-no-number"),
        pytest.param("filter_prop.off=null", "5", id="prop-null"),
        pytest.param("filter_prop.off!=", "5", id="prop-null-is-set"),
        pytest.param("filter_prop.s=1", "5", id="prop-text-of-a-number"),
        pytest.param("filter_prop.s=1.0", "", id="prop-text-is-no-number"),
        pytest.param("filter_prop.a%22b%5C%C3%A4=x", "5", id="prop-any-name"),
        pytest.param("filter_prop.Plan!=", "", id="prop-name-case"),
        pytest.param(f"filter_prop.n={'9' * 5000}&filter_prop.n=1e999", "", id="prop-endless-number"),
    ],
)
def test_filters(mixed: Site, query: str, paths: str) -> None:
    """Filters on different fields must all match; of several on one field any; an empty value matches unset."""
    question = f"{ALL_DAY}&{query}"
    assert sorted(row["value"] for row in mixed.data(f"top/pathname?{question}")) == [f"/{n}" for n in paths]
    assert sorted(row["pathname"] for row in mixed.data(f"events?{question}")) == [f"/{n}" for n in paths]
    stats = mixed.data(f"stats?{question}")
    assert (stats["visitors"], stats["pageviews"] + stats["events"], stats["visits"]) == (len(paths),) * 3
    (day,) = mixed.data(f"timeseries?{question}")
    assert (day["visitors"], day["pageviews"] + day["events"], day["visits"]) == (len(paths),) * 3


INJECTIONS = (
    "' or '1'='1",
    "'; drop table event; --",
    '" or 1=1 --',
    "1) union select email, password_hash, 1, 1 from person --",
    "\\' or 1=1 /*",
    "%' or text like '%",
    "x'; attach database '/tmp/x' as y; --",
    "?1",
    ":website",
    "\u2019 or 1=1",
    "\U0001f600",
    "e\u0301",
    "a\0b",
    "\0",
    "\ufeff",
    "<script>",
    "../../etc/passwd",
    "*",
    "_%",
    " ",
    "\r\nX-Injected: 1",
    "x" * 4000,
)


def ints(data: Any) -> list[int]:
    """Return all counts in a response's data."""
    rows = [data] if isinstance(data, dict) else data
    return [value for row in rows for value in row.values() if isinstance(value, int)]


@pytest.mark.parametrize("value", INJECTIONS, ids=range(len(INJECTIONS)))
def test_injected_filter_values_match_nothing(known: Site, value: str) -> None:
    """Filters compare exactly; meta echoes the value as it is compared: a page as it is stored."""
    for endpoint in ("stats", "timeseries", "top/pathname", "events"):
        for field in ("pathname", "event_name"):
            answer = known.json(f"{endpoint}?{ALL_DAY}{filters(**{field: value})}")
            assert answer["meta"]["filters"] == {field: [stored_form(field, value)]}
            assert not any(ints(answer["data"]))
    assert key_figures(known, f"stats?{ALL_DAY}")[0] == 4


@pytest.mark.parametrize("value", [v for v in INJECTIONS if "\0" not in v and len(v) <= 100], ids=repr)
def test_injected_values_that_were_stored_are_found(site: Site, value: str) -> None:
    """Filters match the stored value exactly as it was sent."""
    site.send(view("10:00:00", "/a", platform=value), view("10:00:00", "/b", platform="web"))
    for operator in ("", "*", "^", "$"):
        assert site.data(f"stats?{ALL_DAY}{filters(**{'platform' + operator: value})}")["pageviews"] == 1, operator
    (row,) = (row for row in site.data(f"top/platform?{ALL_DAY}") if row["value"] != "web")
    assert row["value"] == value


def test_figures_are_of_one_website(sync_app: SyncApp) -> None:
    """Events of another website are in no figure, in the same account too."""
    sync_app.clock.set_wall(NOON_MS)
    one, two = sync_app.site(), sync_app.site()
    one.send(view("10:00:00", "/one"))
    two.send(view("10:00:00", "/two"), view("2026-11-18T12:00:00Z", "/two"))
    assert key_figures(one, f"stats?{ALL_DAY}") == [1, 1, 1, 0, 100.0, 1.0, 0]
    assert [row["value"] for row in one.data(f"top/pathname?{ALL_DAY}")] == ["/one"]
    assert [row["pathname"] for row in one.data("events")] == ["/one"]
    assert one.data("realtime")["active_visitors"] == 0


# --- freshness


def test_acknowledged_events_are_in_the_next_response(site: Site) -> None:
    """An event answered with 202 is in every later response, in the same millisecond too."""
    for n in range(1, 41):
        site.send(view(NOON_MS, f"/{n}", f"{n}"))
        assert site.data("stats")["pageviews"] == n
        assert site.data("events?limit=1")[0]["pathname"] == f"/{n}"
        assert sum(row["pageviews"] for row in site.data("timeseries")) == n
        assert len(site.data("top/pathname?limit=1000")) == n
        assert site.data("realtime")["active_visitors"] == n


async def test_acknowledged_events_of_concurrent_clients(tmp_path: Path) -> None:
    """An event answered with 202 is in every later response, with the system's clock."""
    app = App(Settings(db=tmp_path / "analytics.db", website_per_minute=10_000, client_per_minute=10_000), Clock())
    await app.open()
    try:
        website, key = await app.website(), await app.key()
        base = f"/api/v1/websites/{website}"

        async def sender(who: int) -> None:
            for n in range(12):
                name = f"{who}-{n}"
                body = {"type": "event", "website_id": website, "event_name": name, "session_id": f"session-{name}"}
                assert (await app.collect(body)).status == 202
                seen = await app.get(f"{base}/events", key, {"filter_event_name": name})
                assert [row["event_name"] for row in seen.json["data"]] == [name]
                stats = await app.get(f"{base}/stats", key, {"filter_event_name": name})
                assert (stats.json["data"]["events"], stats.json["data"]["visits"]) == (1, 1)
                assert (await app.get(f"{base}/realtime", key)).json["data"]["active_visitors"] > n

        await asyncio.gather(*(sender(who) for who in range(10)))
        stats = await app.get(f"{base}/stats", key)
        assert [stats.json["data"][name] for name in ("visitors", "visits", "events")] == [120, 120, 120]
    finally:
        await app.close()


def test_desktop_and_mobile(site: Site) -> None:
    """browser, os and device are parsed from the User-Agent."""
    site.send(view("10:00:00", "/a", "ann"))
    site.send(view("10:00:00", "/a", "bob"), ua=SAFARI_IPHONE)
    rows = {row["device"]: (row["browser"], row["os"]) for row in site.data(f"events?{ALL_DAY}")}
    assert rows == {"desktop": ("Chrome", "Windows"), "mobile": ("Safari", "iOS")}
