"""Time on page and scroll depth: what a page view sends when its page is left.

docs/reference/collect-api.md, "Leaving a page". Sent any number of times for one page view, in any order; the greatest
values count, once.
"""

import csv
import io
import itertools
import json
import math
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.usage import month_of
from tests.support.app import NOON_MS, SAFARI_IPHONE, App
from tests.support.read_api import DAY_MS, Site, SyncApp, view

FIGURES = "metrics=pageviews,time_on_page,scroll_depth,samples"
DAYS = "from=2026-11-14&to=2026-11-18"


@pytest.fixture(scope="module")
def app_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncApp]:
    app = SyncApp(tmp_path_factory.mktemp("leaves") / "analytics.db")
    yield app
    app.close()


@pytest.fixture
def site(app_of_module: SyncApp) -> Site:
    app_of_module.clock.begin_at(NOON_MS)
    return app_of_module.site()


def leave(id: str, path: str = "/", seconds: float = 10, depth: float = 50, **fields: Any) -> dict[str, Any]:
    """Return a leave of a page view with an event_id."""
    own = {"event_id": id, "url": f"https://example.com{path}", "time_on_page": seconds, "scroll_depth": depth}
    return {"type": "leave", **own, "age_ms": 0, **fields}


def viewed(id: str, path: str = "/", at: str | int = "10:00:00", **fields: Any) -> dict[str, Any]:
    return view(at, path, event_id=id, **fields)


def pages(site: Site, more: str = "") -> dict[str, tuple[Any, ...]]:
    """Return time on page, scroll depth and samples by page."""
    answer = site.get(f"top/pathname?{DAYS}&{FIGURES}{more}")
    assert answer.status == 200, answer.text
    rows = answer.json["data"]
    return {row["value"]: (row["time_on_page"], row["scroll_depth"], row["samples"]) for row in rows}


def stored(site: Site) -> list[tuple[Any, ...]]:
    with sqlite3.connect(site.sync_app.app.db) as run:
        return run.execute(
            "select time_on_page, scroll_depth from web_vitals"
            " where website = (select number from website where id = ?) order by ts, id",
            (site.id,),
        ).fetchall()


def test_the_median_and_the_share_of_each_page(site: Site) -> None:
    for number, (seconds, depth) in enumerate([(4, 75), (60, 70), (9, 100), (30, 0)]):
        site.send(viewed(f"a{number}", "/a"), leave(f"a{number}", "/a", seconds, depth))
    site.send(viewed("b", "/b"), leave("b", "/b", 7, 20), viewed("c", "/c"))
    assert pages(site) == {"/a": (9, 50.0, 4), "/b": (7, 0.0, 1), "/c": (None, None, 0)}
    table = list(csv.reader(io.StringIO(site.get(f"top/pathname?{DAYS}&{FIGURES}&format=csv").text)))
    assert table[0] == ["value", "pageviews", "time_on_page", "scroll_depth", "samples"]
    assert table[1:] == [["/a", "4", "9", "50.0", "4"], ["/b", "1", "7", "0.0", "1"], ["/c", "1", "", "", "0"]]


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_the_greatest_values_of_a_page_view_count_once(site: Site, is_one_batch: bool) -> None:
    """In whatever order they arrive, and each value by itself."""
    sent = [leave("v", "/", *values) for values in ((40, 10), (5, 90), (40, 10), (20, 20))]
    site.send(viewed("v"))
    for batch in [sent] if is_one_batch else [[one] for one in sent]:
        site.send(*batch)
        seconds, share, samples = pages(site)["/"]
        assert (seconds, samples) == (40, 1)
    assert share == 100, "what was read before is no longer cached"
    assert stored(site) == [(40_000, 90_000)]


def test_values_are_whole(site: Site) -> None:
    site.send(viewed("v"), leave("v", "/", 12.6, 74.6))
    assert stored(site) == [(13_000, 75_000)]


@pytest.mark.parametrize("where", ["unknown", "before", "other page", "other id", "no page view"])
def test_a_leave_without_its_page_view_is_accepted_and_not_stored(site: Site, where: str) -> None:
    own = leave("v", "/other" if where == "other page" else "/")
    if where == "before":
        site.send(own, viewed("v"))
    elif where == "other page":
        site.send(viewed("v"), own)
    elif where == "other id":
        site.send(viewed("w"), own)
    elif where == "no page view":
        site.send({**viewed("v"), "type": "event", "event_name": "signup"}, own)
    else:
        site.send(own)
    assert stored(site) == []
    if where == "before":
        site.send(own)
        assert len(stored(site)) == 1, "sent again, behind its page view, it is stored"


@pytest.mark.parametrize("text", ["1795003200000.1000", "an id without a time"])
def test_leaves_of_one_view_cannot_grow_anything(site: Site, text: str) -> None:
    """Two thousand sends are one row and one event_id; also with the visits that they could have touched."""
    site.send(viewed(text))
    before = _rows(site)
    for start in range(0, 2_000, 50):
        site.send(*(leave(text, "/", number % 1_800, number % 100) for number in range(start, start + 50)))
    after = _rows(site)
    assert {table: after[table] - count for table, count in before.items() if after[table] != count} == {
        "web_vitals": 1,
        "event_id": 1,
    }
    assert stored(site) == [(1_799_000, 99_000)]
    assert site.get(f"stats?{DAYS}").json["data"]["events"] == 0


def _rows(site: Site) -> dict[str, int]:
    with sqlite3.connect(site.sync_app.app.db) as run:
        every = {name for (name,) in run.execute("select name from sqlite_master where type = 'table'")}
        # Background work packs days of other tests.
        names = every - {"packed_day", "day_column", "rollup_block", "rollup_state"}
        # It notes the clock, and where headers came from, once.
        noted = {"meta": " where name not in ('clock', 'proxies')"}
        return {name: run.execute(f"select count(*) from {name}{noted.get(name, '')}").fetchone()[0] for name in names}


def test_it_is_no_visit_and_no_event(site: Site) -> None:
    site.send(viewed("v"), leave("v", age_ms=60_000))
    figures = site.get(f"stats?{DAYS}").json["data"]
    assert {name: figures[name] for name in ("visitors", "visits", "pageviews", "events", "bounce_rate")} == {
        **dict.fromkeys(("visitors", "visits", "pageviews"), 1),
        "events": 0,
        "bounce_rate": 100,
    }
    assert figures["visit_duration"] == 0
    assert site.get(f"vitals?{DAYS}").json["data"][0]["samples"] == 0
    assert site.get(f"vitals?{DAYS}&by=pathname").json["data"] == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"event_id": None}, "event_id"),
        ({"url": None}, "url"),
        ({"time_on_page": None}, "time_on_page"),
        ({"scroll_depth": None}, "scroll_depth"),
        ({"time_on_page": 1_801}, "time_on_page"),
        ({"time_on_page": -1}, "time_on_page"),
        ({"time_on_page": "10"}, "time_on_page"),
        ({"time_on_page": True}, "time_on_page"),
        ({"scroll_depth": 100.1}, "scroll_depth"),
        ({"scroll_depth": [1]}, "scroll_depth"),
        ({"time_on_page": None, "scroll_depth": None, "vitals": {"time_on_page": 1}}, "scroll_depth"),
        ({"time_on_page": None, "scroll_depth": None, "vitals": {"lcp": 1}}, "vitals"),
        ({"age_ms": 72 * 3_600_000 + 1}, "age_ms"),
    ],
)
def test_what_breaks_a_rule_is_rejected(site: Site, fields: dict[str, Any], field: str) -> None:
    site.send(viewed("v"))
    batch = {"website_id": site.id, "events": [leave("v") | fields]}
    answer = site.sync_app.run(site.sync_app.app.collect(batch))
    assert (answer.status, [error["field"] for error in answer.json["errors"]]) == (400, [field])
    assert stored(site) == []


def test_web_vitals_take_none_of_it(site: Site) -> None:
    site.send({"type": "vitals", "url": "https://example.com/", "lcp": 1, "time_on_page": 9, "scroll_depth": 9})
    assert stored(site) == [(None, None)]
    batch = {"website_id": site.id, "events": [{"type": "vitals", "vitals": {"time_on_page": 9}}]}
    assert site.sync_app.run(site.sync_app.app.collect(batch)).status == 400


def test_filters_of_the_page_view_apply(site: Site) -> None:
    """Those about the visit have no figures: a leave belongs to no visit."""
    site.send(viewed("a", "/a"), leave("a", "/a", 10))
    site.send(viewed("b", "/a", who="bob"), leave("b", "/a", 30), ua=SAFARI_IPHONE)
    assert pages(site, "&filter_device=mobile") == {"/a": (30, 0.0, 1)}
    assert pages(site, "&filter_browser!=Safari&filter_pathname^=/a") == {"/a": (10, 0.0, 1)}
    for more in ("&filter_channel=Direct", "&filter_entry_page=/a", "&filter_type=pageview"):
        assert pages(site, more) == {"/a": (None, None, None)}


def test_ranges_and_comparison(site: Site) -> None:
    """A leave counts at its own time, which the tracker sets to that of the page view."""
    for id, day in (("a", 1), ("b", 2)):
        at = NOON_MS - day * DAY_MS
        site.send(viewed(id, at=at), leave(id, seconds=10 * day, age_ms=None, timestamp=at))
    path = f"top/pathname?from=2026-11-17&to=2026-11-17&{FIGURES}"
    (row,) = site.get(f"{path}&compare=previous").json["data"]
    assert (row["time_on_page"], row["samples"]) == (10, 1)
    assert (row["previous"]["time_on_page"], row["previous"]["samples"]) == (20, 1)


@pytest.mark.parametrize("order", ["desc", "asc"])
@pytest.mark.parametrize("sort", ["time_on_page", "scroll_depth"])
def test_lists_are_sorted_by_both(site: Site, sort: str, order: str) -> None:
    """Pages without figures come last in either order."""
    values = {"/a": [(5, 80), (7, 80), (9, 10)], "/b": [(8, 90), (8, 90)], "/c": [(1, 0)], "/none": []}
    for path, own in values.items():
        site.send(viewed(f"{path}0", path))
        for number, (seconds, depth) in enumerate(own):
            site.send(viewed(f"{path}{number}", path), leave(f"{path}{number}", path, seconds, depth))
    rows = site.get(f"top/pathname?{DAYS}&{FIGURES}&sort={sort}&order={order}").json["data"]
    assert [row["value"] for row in rows] == [*(["/b", "/a", "/c"] if order == "desc" else ["/c", "/a", "/b"]), "/none"]


@pytest.mark.parametrize("query", ["top/country?metrics=time_on_page", "top?fields=pathname,country&sort=scroll_depth"])
def test_other_fields_have_no_such_figures(site: Site, query: str) -> None:
    answer = site.get(query)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_parameter")


def test_random_histories(site: Site) -> None:
    """Doubled, late and lost leaves, of many pages and devices, in batches in any order."""
    draw = random.Random(39)
    greatest: dict[str, tuple[float, float]] = {}
    views, leaves, page_of = [], [], {}
    for number in range(300):
        id, path = f"id{number}", draw.choice(["/a", "/b", "/c"])
        page_of[id] = path
        views.append(viewed(id, path, NOON_MS - draw.randrange(2 * DAY_MS)))
        for _ in range(draw.choice([0, 1, 1, 2, 5])):
            seconds, depth = draw.choice([0, 3, 9, draw.randrange(1_801)]), draw.randrange(0, 101, 5)
            before = greatest.get(id, (0, 0))
            greatest[id] = max(before[0], seconds), max(before[1], depth)
            leaves += [leave(id, path, seconds, depth)] * draw.choice([1, 1, 2])
    site.send(*views)
    draw.shuffle(leaves)
    some = iter(leaves)
    while batch := list(itertools.islice(some, draw.randrange(1, 50))):
        site.send(*batch)
        if draw.random() < 0.3:
            pages(site)
    expected: dict[str, tuple[Any, ...]] = {}
    for path in ("/a", "/b", "/c"):
        own = [values for id, values in greatest.items() if page_of[id] == path]
        times = sorted(seconds for seconds, _ in own)
        reached = sum(depth >= 75 for _, depth in own)
        share = math.floor(1000 * reached / len(own) + 0.5) / 10
        expected[path] = (times[math.ceil(len(own) / 2) - 1], share, len(own))
    assert pages(site) == expected


async def test_it_needs_no_event_of_the_plan(app: App, tmp_path: Path) -> None:
    """A leave is neither counted nor refused where the month is full."""
    website = await app.website()
    await app.collect({"website_id": website, "events": [viewed("v")]})
    with sqlite3.connect(app.db) as run:
        used = run.execute("select month, events from account_usage").fetchall()
    assert used == [(month_of(NOON_MS), 1)]
    answer = await app.collect({"website_id": website, "events": [leave("v")]})
    assert answer.json == {"ok": True, "accepted": 1, "rejected": 0}
    with sqlite3.connect(app.db) as run:
        assert run.execute("select month, events from account_usage").fetchall() == used


async def test_no_leave_is_stored_behind_72_hours(app: App) -> None:
    """Neither a first one, whose page view is forgotten, nor a later one, whose row may be final."""
    website = await app.website()
    views = [viewed(id, at=NOON_MS) for id in ("v", "forgotten")]
    await app.collect({"website_id": website, "events": [*views, leave("v", seconds=1)]})
    app.clock.advance(71 * 3_600)
    # The copy of the page view renews its 72 hours.
    await app.collect({"website_id": website, "events": [views[0], leave("v", seconds=2)]})
    app.clock.advance(2 * 3_600)
    await app.collect({"website_id": website, "events": [leave("v", seconds=3), leave("forgotten")]})
    with sqlite3.connect(app.db) as run:
        assert run.execute("select time_on_page from web_vitals").fetchall() == [(2_000,)]


async def test_events_and_export_have_it(app: App) -> None:
    website, key = await app.website(), await app.key()
    await app.collect({"website_id": website, "events": [viewed("v"), leave("v", "/", 12, 80)]})
    path = f"/api/v1/websites/{website}/events?{DAYS}&filter_type=leave"
    (event,) = (await app.get(path, key)).json["data"]
    assert (event["type"], event["vitals"]) == ("leave", {"time_on_page": 12, "scroll_depth": 80})
    assert json.dumps(event).count('"v"') == 0, "the event_id is not stored"
