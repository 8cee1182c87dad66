"""The read API's figures over HTTP, each worked out by hand; shapes, filters, comparison, lists, freshness.

The rules are in docs/reference/definitions.md and docs/reference/read-api.md. What a question may say is in
test_read_parameters.py.
"""

import asyncio
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tally.clock import Clock
from tally.settings import Settings
from tally.web.components import Engine
from tests.support.app import NOON_MS, SAFARI_IPHONE, App
from tests.support.read_api import (
    DAY,
    ENDPOINTS,
    FIELDS,
    HOUR_MS,
    NOON,
    Site,
    SyncApp,
    custom,
    event,
    filters,
    ms,
    sync_app_at,
    view,
)

SEVEN = ("visitors", "visits", "pageviews", "events", "bounce_rate", "views_per_visit", "visit_duration")
ALL_DAY = f"from={DAY}&to={DAY}"


@pytest.fixture(scope="module")
def sync_app(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[SyncApp]:
    with sync_app_at(tmp_path_factory.mktemp("read") / "analytics.db", engine) as opened:
        yield opened


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    return sync_app.site()


def figures(site: Site, question: str) -> list[Any]:
    """The seven key figures, in the order of the response."""
    return [site.data(question)[name] for name in SEVEN]


# The known set. Ann comes twice, with a gap of exactly 30:00.000 in her first visit and 30:00.001 between the two.
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
    site.send(*random.Random(5).sample(KNOWN, len(KNOWN)))  # arrival plays no part
    return site


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # ann 4 views 1 event in 2 visits, bob 1 view, cat 1 and 1, dan 1 event; lives 2430.5, 0, 0, 1 and 0 seconds
        pytest.param(f"stats?{ALL_DAY}", [4, 5, 6, 3, 40.0, 1.2, 486], id="all"),
        # ann's first visit and bob's began before; ann's view at 10:40:30.5 counts all the same
        pytest.param(
            f"stats?from={DAY}T10:20:00&to={DAY}T23:00:00", [3, 3, 3, 2, 33.3, 0.67, 0], id="visits-begun-before"
        ),
        # 10:10:00.000 is not in it; whole lives: ann's first visit has 3 views over 2430.5 s, bob's is a bounce
        pytest.param(
            f"stats?from={DAY}T10:00:00&to={DAY}T10:10:00", [2, 2, 2, 0, 50.0, 2.0, 1215], id="whole-lives-half-open"
        ),
        pytest.param(
            f"stats?from={DAY}T10:10:00&to={DAY}T10:10:00.001", [1, 0, 1, 0, None, None, None], id="one-millisecond"
        ),
        # a lone custom event is a visit without views, and no bounce
        pytest.param(f"stats?from={DAY}T13:00:00&to={DAY}T13:00:01", [1, 1, 0, 1, 0.0, 0.0, 0], id="no-view-no-bounce"),
        pytest.param(f"stats?from={DAY}T14:00:00&to={DAY}T15:00:00", [0, 0, 0, 0, None, None, None], id="measurements"),
        pytest.param("stats?from=2020-01-01&to=2020-01-02", [0, 0, 0, 0, None, None, None], id="nothing"),
        # filters: E is smaller, the visits that have an event in E keep their whole lives
        pytest.param(f"stats?{ALL_DAY}&filter_pathname=/c", [1, 1, 1, 0, 0.0, 3.0, 2431], id="filter-whole-life"),
        pytest.param(f"stats?{ALL_DAY}&filter_pathname=/a", [2, 3, 3, 0, 66.7, 1.67, 810], id="filter-two-visits"),
        pytest.param(f"stats?{ALL_DAY}&filter_event_name=signup", [1, 1, 0, 1, 0.0, 3.0, 2431], id="filter-custom"),
        # ann's first visit begins in the range, its only /c lies outside: no event in E, so no visit
        pytest.param(
            f"stats?from={DAY}T10:00:00&to={DAY}T10:30:00&filter_pathname=/c",
            [0, 0, 0, 0, None, None, None],
            id="filter-matches-outside-the-range",
        ),
        # and the other way: the /c lies in the range, its visit began before it
        pytest.param(
            f"stats?from={DAY}T10:20:00&to={DAY}T11:00:00&filter_pathname=/c",
            [1, 0, 1, 0, None, None, None],
            id="filter-of-a-visit-begun-before",
        ),
        pytest.param(f"stats?{ALL_DAY}&filter_type=vitals", [0, 0, 0, 0, None, None, None], id="no-traffic-type"),
    ],
)
def test_key_figures(known: Site, question: str, expected: list[Any]) -> None:
    """visitors, pageviews, events are E's; visits begin in the range and have an event in E."""
    assert figures(known, question) == expected


def test_a_late_event_joins_two_visits(site: Site) -> None:
    """A late event may lengthen a visit, bring its beginning forward, or join two."""
    site.send(view("10:00:00", "/a"), view("10:50:00", "/b"))
    assert figures(site, f"stats?{ALL_DAY}") == [1, 2, 2, 0, 100.0, 1.0, 0]
    site.send(custom("10:25:00"))
    assert figures(site, f"stats?{ALL_DAY}") == [1, 1, 2, 1, 0.0, 2.0, 3000]
    site.send(view("09:30:00", "/c"))
    assert figures(site, f"stats?{ALL_DAY}") == [1, 1, 3, 1, 0.0, 3.0, 4800]
    assert figures(site, f"stats?from={DAY}T09:40:00&to={DAY}T12:00:00") == [1, 0, 2, 1, None, None, None]


def test_a_visit_does_not_cross_midnight_utc(site: Site) -> None:
    """One person during one UTC day; visit: it never crosses midnight UTC."""
    site.send(view("23:59:59.999", "/a"), view("2026-11-18T00:00:00.000Z", "/b"))
    assert figures(site, f"stats?from={DAY}&to=2026-11-18") == [2, 2, 2, 0, 100.0, 1.0, 0]


def visits(*lives: tuple[int, int]) -> list[dict[str, Any]]:
    """Visits of visitors of their own: (views, seconds) each, from 10:00."""
    at = ms("10:00:00")
    sent = []
    for n, (views, seconds) in enumerate(lives):
        sent += [view(at, f"/{i}", f"{n}") for i in range(views - 1)]
        sent.append(view(at + 1000 * seconds, "/end", f"{n}"))
    return sent


@pytest.mark.parametrize(
    ("sent", "name", "expected"),
    [
        # floats and banker's rounding would say 6.2, 1.12, 2 and 0
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
    """(one decimal) ... (two decimals) ... whole seconds; rounded half away from zero."""
    site.send(*sent)
    assert site.data(f"stats?{ALL_DAY}")[name] == expected


# --- shapes


def test_websites_are_listed_oldest_first(sync_app: SyncApp) -> None:
    """The websites of the key's account alone, oldest first."""
    account = f"{uuid.uuid4()}@example.com"
    sync_app.clock.set_wall(NOON_MS)
    middle = sync_app.site("b.example.com", account)
    sync_app.clock.set_wall(NOON_MS - HOUR_MS)
    oldest = sync_app.site("c.example.com", account)
    sync_app.clock.set_wall(NOON_MS)
    newest = sync_app.site("a.example.com", account)
    sync_app.site("d.example.com")
    answer = sync_app.get("/api/v1/websites", middle.key)
    assert answer.json == {
        "data": [
            {"id": site.id, "name": domain, "domain": domain, "created_at": created}
            for site, domain, created in [
                (oldest, "c.example.com", "2026-11-18T11:00:00.000+00:00"),
                (middle, "b.example.com", NOON),
                (newest, "a.example.com", NOON),
            ]
        ],
        "meta": {},
    }
    assert list(answer.json["data"][0]) == ["id", "name", "domain", "created_at"]


def test_an_account_without_websites_has_an_empty_list(sync_app: SyncApp) -> None:
    """/websites: a list, with none in it too."""
    key = sync_app.run(sync_app.app.key(f"{uuid.uuid4()}@example.com"))
    assert sync_app.get("/api/v1/websites", key).json == {"data": [], "meta": {}}


RANGE = {
    "from": "2026-11-17T00:00:00.000+01:00",
    "to": "2026-11-18T00:00:00.000+01:00",
    "tz": "Europe/Berlin",
    "filters": {"os": ["Windows", ""], "browser": ["Chrome"]},
}
ASKED = f"{ALL_DAY}&tz=Europe/Berlin&filter_os=Windows&filter_browser=Chrome&filter_os="
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
            {"field": "pathname", "limit": 10, "unset": {"visitors": 2, "pageviews": 0, "events": 2}},
            id="top",
        ),
        pytest.param("events", {"limit": 100, "next_cursor": None}, id="events"),
    ],
)
def test_meta_echoes_what_was_understood(known: Site, endpoint: str, own: dict[str, Any]) -> None:
    """Meta echoes what was understood (website_id, from, to, tz, interval, filters, limit)."""
    answer = known.answer(f"{endpoint}?{ASKED}")
    assert list(answer) == ["data", "meta"]
    assert answer["meta"] == {"website_id": known.id} | RANGE | own


@pytest.mark.parametrize("endpoint", ROW_KEYS)
def test_rows_have_their_keys_in_order(known: Site, endpoint: str) -> None:
    """The keys of a row, in this order."""
    rows = known.data(f"{endpoint}?{ALL_DAY}")
    assert rows
    assert all(list(row) == ROW_KEYS[endpoint] for row in rows)


def test_key_figures_have_their_keys_in_order(known: Site) -> None:
    """Stats `{"visitors","visits","pageviews","events",...}`, with compare also previous and change."""
    assert list(known.data(f"stats?{ALL_DAY}")) == [*SEVEN]
    compared = known.data(f"stats?{ALL_DAY}&compare=previous")
    assert list(compared) == [*SEVEN, "previous", "change"]
    assert list(compared["previous"]) == list(compared["change"]) == [*SEVEN]


def test_realtime_shape(known: Site) -> None:
    """`{"active_visitors","pages":[{"pathname","visitors"}],"window_seconds":300}`."""
    answer = known.answer("realtime")
    assert answer == {
        "data": {"active_visitors": 0, "pages": [], "window_seconds": 300},
        "meta": {"website_id": known.id, "time": NOON},
    }
    assert list(answer["data"]) == ["active_visitors", "pages", "window_seconds"]


def test_the_default_range_is_the_last_7_days_up_to_now(site: Site) -> None:
    """Default range when omitted: the last 7 days. `to` is the end of this millisecond."""
    meta = site.answer("stats")["meta"]
    assert (meta["from"], meta["to"]) == ("2026-11-11T12:00:00.001+00:00", "2026-11-18T12:00:00.001+00:00")
    assert len(site.data("timeseries")) == 8


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_upper_case_id_is_the_same_website(known: Site, endpoint: str) -> None:
    """:id | string, UUID; a UUID's letters have no case (RFC 9562)."""
    answer = known.sync_app.get(f"/api/v1/websites/{known.id.upper()}/{endpoint}", known.key)
    assert (answer.status, answer.json) == (200, known.answer(endpoint))


# --- timeseries


def test_a_series_has_a_row_a_bucket(known: Site) -> None:
    """One row a bucket, no gaps, in order; visits count where they begin."""
    rows = known.data(f"timeseries?from={DAY}T09:30:00&to={DAY}T14:30:00&interval=hour")
    assert [tuple(row.values()) for row in rows] == [
        (f"{DAY}T09:00:00.000+00:00", 0, 0, 0, 0),
        (f"{DAY}T10:00:00.000+00:00", 2, 2, 4, 1),
        (f"{DAY}T11:00:00.000+00:00", 1, 1, 1, 0),
        (f"{DAY}T12:00:00.000+00:00", 1, 1, 1, 1),
        (f"{DAY}T13:00:00.000+00:00", 1, 1, 0, 1),
        (f"{DAY}T14:00:00.000+00:00", 0, 0, 0, 0),
    ]


def test_a_filtered_series_takes_e_of_the_whole_range(site: Site) -> None:
    """In a series, E is that of the whole range; a visit counts in the bucket in which it begins."""
    site.send(view("10:50:00", "/early"), view("11:10:00", "/late"))
    rows = site.data(f"timeseries?from={DAY}T10:00:00&to={DAY}T12:00:00&interval=hour&filter_pathname=/late")
    assert [tuple(row.values())[1:] for row in rows] == [(0, 1, 0, 0), (1, 0, 1, 0)]
    assert figures(site, f"stats?from={DAY}T10:00:00&to={DAY}T12:00:00&filter_pathname=/late")[:4] == [1, 1, 1, 0]


def test_first_and_last_bucket_count_what_lies_in_the_range(site: Site) -> None:
    """First and last buckets count only what lies in the range."""
    site.send(*(view(f"10:{minute}:00", f"/{minute}", minute) for minute in ("10", "20", "30", "40")))
    rows = site.data(f"timeseries?from={DAY}T10:20:00&to={DAY}T10:40:00")
    assert rows == [{"time": f"{DAY}T00:00:00.000+00:00", "visitors": 2, "visits": 2, "pageviews": 2, "events": 0}]


# --- compare


def test_the_range_before_has_equal_length(known: Site) -> None:
    """compare=previous: the range of equal length just before."""
    answer = known.answer(f"stats?from={DAY}T11:00:00&to={DAY}T13:30:00&compare=previous")
    assert answer["meta"]["compare"] == "previous"
    assert (answer["meta"]["previous_from"], answer["meta"]["previous_to"]) == (
        f"{DAY}T08:30:00.000+00:00",
        f"{DAY}T11:00:00.000+00:00",
    )
    assert list(answer["data"]["previous"].values()) == [2, 2, 4, 1, 50.0, 2.0, 1215]
    assert [answer["data"][name] for name in SEVEN] == [3, 3, 2, 2, 33.3, 0.67, 0]
    # 3:2, 3:2, 2:4, 2:1, 33.3333:50, 0.66667:2, 0.33333:1215.25
    assert list(answer["data"]["change"].values()) == [50.0, 50.0, -50.0, 100.0, -33.3, -66.7, -100.0]


def test_dates_are_compared_with_as_many_local_days(site: Site) -> None:
    """Or as many local days before where both ends are dates, here over Berlin's day of 25 hours."""
    site.sync_app.clock.set_wall(ms("2026-10-26T12:00:00Z"))
    # 24 October's first and last local hour in Berlin, then 25 October's, which has 25
    nights = ("2026-10-23T22:30:00Z", "2026-10-24T21:30:00Z", "2026-10-24T22:30:00Z", "2026-10-25T22:30:00Z")
    site.send(*(view(at, who=f"{n}") for n, at in enumerate(nights)))
    question = "stats?from=2026-10-25&to=2026-10-25&tz=Europe/Berlin&compare=previous"
    answer = site.answer(question)
    assert {name: answer["meta"][name] for name in ("from", "to", "previous_from", "previous_to")} == {
        "from": "2026-10-25T00:00:00.000+02:00",
        "to": "2026-10-26T00:00:00.000+01:00",
        "previous_from": "2026-10-24T00:00:00.000+02:00",
        "previous_to": "2026-10-25T00:00:00.000+02:00",
    }
    assert (answer["data"]["pageviews"], answer["data"]["previous"]["pageviews"]) == (2, 2)
    # the same instants, said as times, go back 25 hours
    times = site.answer("stats?from=2026-10-25T00:00:00&to=2026-10-26T00:00:00&tz=Europe/Berlin&compare=previous")
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
    """Change is relative percent ..., one decimal; null where the previous figure is 0 or null."""
    site.send(*(view("10:00:00", f"/{n}") for n in range(before)), *(view("11:00:00", f"/{n}") for n in range(now)))
    data = site.data(f"stats?from={DAY}T11:00:00&to={DAY}T12:00:00&compare=previous")
    assert (data["previous"]["pageviews"], data["pageviews"], data["change"]["pageviews"]) == (before, now, expected)


def test_change_comes_from_unrounded_values(site: Site) -> None:
    """From unrounded values: 4/3 to 5/3 views a visit is 25 %, where 1.33 to 1.67 would be 25.6 %."""
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
    """Change is null where the previous figure is 0 or null; without a figure now there is none either."""
    site.send(view("11:00:00"))
    data = site.data(f"stats?from={DAY}T{hour}:00:00&to={DAY}T{int(hour) + 1}:00:00&compare=previous")
    assert list(data["change"].values()) == change


def test_compare_keeps_the_filters(site: Site) -> None:
    """Previous has the same keys of the same question: filters hold for both."""
    site.send(view("10:00:00", "/a"), view("10:00:00", "/b"), view("11:00:00", "/a"))
    data = site.data(f"stats?from={DAY}T11:00:00&to={DAY}T12:00:00&compare=previous&filter_pathname=/a")
    assert (data["pageviews"], data["previous"]["pageviews"]) == (1, 1)


# --- top


def test_top_orders_by_visitors_views_events_then_value(site: Site) -> None:
    """By visitors, pageviews, events descending, then value ascending by code point."""
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


def test_top_counts_a_visitor_once_a_value(known: Site) -> None:
    """Visitors are distinct visitors in E with that value; an event without URL or name has no pathname."""
    answer = known.answer(f"top/pathname?{ALL_DAY}")
    assert [tuple(row.values()) for row in answer["data"]] == [
        ("/a", 2, 3, 0),
        ("/b", 1, 1, 1),
        ("/Home", 1, 1, 0),
        ("/c", 1, 1, 0),
    ]
    # dan's ping and cat's buy
    assert answer["meta"]["unset"] == {"visitors": 2, "pageviews": 0, "events": 2}


def test_unset_counts_do_not_use_up_the_limit(site: Site) -> None:
    """Unset values left out, their figures in meta.unset, whatever the limit."""
    site.send(*(custom("10:00:00", who=f"{n}") for n in range(3)), view("10:00:00", "/a", "0"))
    answer = site.answer(f"top/pathname?{ALL_DAY}&limit=1")
    assert [row["value"] for row in answer["data"]] == ["/a"]
    assert answer["meta"]["unset"] == {"visitors": 3, "pageviews": 0, "events": 3}


def test_limit_cuts_the_list(site: Site) -> None:
    """Limit 1 to 1000, default 10."""
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
    "os": "Windows",
    "device": "desktop",
    "hostname": "www.example.com",
    "pathname": "/p",
}


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_has_a_list_and_a_filter(site: Site, field: str) -> None:
    """The 14 dimensions, as :field and as filter_<field>."""
    url = "https://www.example.com/p?utm_source=a+b&utm_medium=mail&utm_campaign=50%25%20off"
    more = {"referrer": "https://www.news.example.net/x", "language": "pt-br", "platform": "web", "app_version": "1.2"}
    site.send(event("pageview", "10:00:00", "ann", url=url, os_version="11", **more), ip="8.8.8.8")
    rows = site.data(f"top/{field}?{ALL_DAY}")
    value = {"os_version": "11", "country": "US"}.get(field) or LABELS[field]
    assert [tuple(row.values()) for row in rows] == [(value, 1, 1, 0)]
    assert site.data(f"stats?{ALL_DAY}{filters(**{field: value})}")["pageviews"] == 1
    assert site.data(f"stats?{ALL_DAY}{filters(**{field: value + 'x'})}")["pageviews"] == 0
    assert site.data(f"stats?{ALL_DAY}&filter_{field}=")["pageviews"] == 0


# --- filters


@pytest.fixture
def mixed(site: Site) -> Site:
    """Six events, told apart by their pathname."""
    site.send(
        view("10:00:00", "/1", "a", platform="ios", app_version="1"),
        view("10:00:00", "/2", "b", platform="ios", app_version="2"),
        view("10:00:00", "/3", "c", platform="android", app_version="1"),
        view("10:00:00", "/4", "d"),
        custom("10:00:00", "buy", "e", url="https://example.com/5"),
        event("app_event", "10:00:00", "f", name="6", event_name="buy", platform="ios"),
    )
    return site


@pytest.mark.parametrize(
    ("asked", "paths"),
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
    ],
)
def test_filters(mixed: Site, asked: str, paths: str) -> None:
    """Different fields: all must hold. The same field again: any may hold. Empty value: ... unset."""
    question = f"{ALL_DAY}&{asked}"
    assert sorted(row["value"] for row in mixed.data(f"top/pathname?{question}")) == [f"/{n}" for n in paths]
    assert sorted(row["pathname"] for row in mixed.data(f"events?{question}")) == [f"/{n}" for n in paths]
    stats = mixed.data(f"stats?{question}")
    assert (stats["visitors"], stats["pageviews"] + stats["events"], stats["visits"]) == (len(paths),) * 3
    (day,) = mixed.data(f"timeseries?{question}")
    assert (day["visitors"], day["pageviews"] + day["events"], day["visits"]) == (len(paths),) * 3


HOSTILE = (
    "' or '1'='1",
    "'; drop table event; --",
    '" or 1=1 --',
    "1) union select email, password_hash, 1, 1 from account --",
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
    """Every count in an answer's data."""
    rows = [data] if isinstance(data, dict) else data
    return [value for row in rows for value in row.values() if isinstance(value, int)]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_value_is_only_a_value(known: Site, value: str) -> None:
    """A filter is an Exact match: no value means more than itself, and what was understood comes back."""
    for endpoint in ("stats", "timeseries", "top/pathname", "events"):
        for field in ("pathname", "event_name"):
            answer = known.answer(f"{endpoint}?{ALL_DAY}{filters(**{field: value})}")
            assert answer["meta"]["filters"] == {field: [value]}
            assert not any(ints(answer["data"]))
    assert figures(known, f"stats?{ALL_DAY}")[0] == 4


@pytest.mark.parametrize("value", [v for v in HOSTILE if "\0" not in v and len(v) <= 100], ids=repr)
def test_a_hostile_value_that_was_stored_is_found(site: Site, value: str) -> None:
    """Exact match of what was sent, whatever it looks like."""
    site.send(view("10:00:00", "/a", platform=value), view("10:00:00", "/b", platform="web"))
    assert site.data(f"stats?{ALL_DAY}{filters(platform=value)}")["pageviews"] == 1
    (row,) = (row for row in site.data(f"top/platform?{ALL_DAY}") if row["value"] != "web")
    assert row["value"] == value


def test_ranges_and_filters_are_of_one_website(sync_app: SyncApp) -> None:
    """Another website's events are in no figure, of one account or not."""
    sync_app.clock.set_wall(NOON_MS)
    one, two = sync_app.site(), sync_app.site()
    one.send(view("10:00:00", "/one"))
    two.send(view("10:00:00", "/two"), view("2026-11-18T12:00:00Z", "/two"))
    assert figures(one, f"stats?{ALL_DAY}") == [1, 1, 1, 0, 100.0, 1.0, 0]
    assert [row["value"] for row in one.data(f"top/pathname?{ALL_DAY}")] == ["/one"]
    assert [row["pathname"] for row in one.data("events")] == ["/one"]
    assert one.data("realtime")["active_visitors"] == 0


# --- freshness


def test_what_was_answered_202_is_in_the_next_answer(site: Site) -> None:
    """An event answered 202 is in every answer begun after it, in the same millisecond too."""
    for n in range(1, 41):
        site.send(view(NOON_MS, f"/{n}", f"{n}"))
        assert site.data("stats")["pageviews"] == n
        assert site.data("events?limit=1")[0]["pathname"] == f"/{n}"
        assert sum(row["pageviews"] for row in site.data("timeseries")) == n
        assert len(site.data("top/pathname?limit=1000")) == n
        assert site.data("realtime")["active_visitors"] == n


async def test_what_was_answered_202_is_in_the_next_answer_with_many_at_once(tmp_path: Path) -> None:
    """An event answered 202 is in every answer begun after it, by the system's own clock."""
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


def test_a_phone_is_told_from_a_desk(site: Site) -> None:
    """browser, os, os_version, device: what event or context say, else from the User-Agent."""
    site.send(view("10:00:00", "/a", "ann"))
    site.send(view("10:00:00", "/a", "bob"), ua=SAFARI_IPHONE)
    rows = {row["device"]: (row["browser"], row["os"]) for row in site.data(f"events?{ALL_DAY}")}
    assert rows == {"desktop": ("Chrome", "Windows"), "mobile": ("Safari", "iOS")}
