"""GET /api/v1/websites/:id/realtime: who is here, and on which page.

The rules are in docs/reference/read-api.md, Realtime. Pages come by visitors descending, then pathname by code point.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tally.web.components import Engine
from tests.support.app import NOON_MS
from tests.support.read_api import MINUTE_MS, NOON, Site, SyncApp, custom, event, ms, sync_app_at, view

Pages = list[tuple[str, int]]


@pytest.fixture(scope="module")
def sync_app(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[SyncApp]:
    with sync_app_at(tmp_path_factory.mktemp("read") / "analytics.db", engine) as opened:
        yield opened


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    return sync_app.site()


def here(site: Site) -> tuple[int, Pages]:
    """How many are here, and the pages with their visitors."""
    data = site.data("realtime")
    return data["active_visitors"], [(page["pathname"], page["visitors"]) for page in data["pages"]]


def ago(seconds: float) -> int:
    return NOON_MS - round(seconds * 1000)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param([view(ago(0))], (1, [("/", 1)]), id="now"),
        pytest.param([view(ago(300))], (1, [("/", 1)]), id="300-seconds"),
        pytest.param([view(ago(300.001))], (0, []), id="300.001-seconds"),
        pytest.param([view(ago(10), "/a"), view(ago(5), "/b")], (1, [("/b", 1)]), id="latest-view"),
        pytest.param([view(ago(5), "/b"), view(ago(10), "/a")], (1, [("/b", 1)]), id="latest-by-time-not-arrival"),
        pytest.param([view(ago(5), "/a"), view(ago(5), "/b")], (1, [("/b", 1)]), id="same-time-later-arrival"),
        pytest.param([view(ago(10), "/a"), custom(ago(5), url="https://example.com/b")], (1, [("/a", 1)]), id="views"),
        # the view is older than the window, its visit is not over
        pytest.param([view(ago(600), "/a"), custom(ago(5))], (1, [("/a", 1)]), id="view-before-the-window"),
        pytest.param(
            [view(ago(2400), "/a"), view(ago(1500), "/b"), custom(ago(5))], (1, [("/b", 1)]), id="latest-before-window"
        ),
        pytest.param([view(ago(1805), "/a"), custom(ago(5))], (1, [("/a", 1)]), id="30-minutes-is-one-visit"),
        # 30:00.001 after the view a new visit has begun, which has no view
        pytest.param([view(ago(1805.001), "/a"), custom(ago(5))], (1, []), id="view-of-another-visit"),
        pytest.param([custom(ago(5)), custom(ago(4), who="bob")], (2, []), id="custom-events-only"),
        pytest.param([event("app_event", ago(5), "ann")], (1, []), id="app-event"),
        pytest.param([event("screen_view", ago(5), "ann", name="Home")], (1, [("/Home", 1)]), id="screen"),
        pytest.param(
            [view(ago(5), "/a"), view(ago(5), "/a", "bob"), view(ago(5), "/b", "cat"), custom(ago(5), who="dan")],
            (4, [("/a", 2), ("/b", 1)]),
            id="several",
        ),
        pytest.param(
            [
                event("vitals", ago(5), "ann", url="https://example.com/", vitals={"lcp": 1}),
                event("heatmap", ago(5), "bob", points=[{"x": 0, "y": 0, "kind": "click"}], viewport_width=800),
                event("ab_assign", ago(5), "cat", experiment="e", variant="v"),
                event("ab_convert", ago(5), "dan", experiment="e", variant="v"),
            ],
            (0, []),
            id="measurements-are-no-traffic",
        ),
        pytest.param([view(NOON_MS + 5 * MINUTE_MS)], (1, [("/", 1)]), id="ahead-is-now"),
    ],
)  # fmt: skip
def test_who_is_here(site: Site, sent: list[dict[str, Any]], expected: tuple[int, Pages]) -> None:
    """A traffic event in the last 300 seconds; the page of the visit's latest view."""
    site.send(*sent)
    assert here(site) == expected


def test_time_goes_on(site: Site) -> None:
    """The last 300 seconds from the moment of asking."""
    site.send(view(NOON_MS))
    for later_ms, active in ((0, 1), (299_999, 1), (300_000, 1), (300_001, 0)):
        site.sync_app.clock.set_wall(NOON_MS + later_ms)
        assert here(site)[0] == active
    assert site.answer("realtime")["meta"] == {
        "website_id": site.id,
        "time": NOON.replace("12:00:00.000", "12:05:00.001"),
    }


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        # a visitor changes at midnight UTC: the same person counts as two until the window has passed
        pytest.param(0, (1, [("/before", 1)]), id="midnight"),
        pytest.param(60, (2, [("/before", 1), ("/after", 1)]), id="a-minute-after"),
        pytest.param(240, (2, [("/before", 1), ("/after", 1)]), id="the-window's-edge"),
        pytest.param(240.001, (1, [("/after", 1)]), id="beyond"),
    ],
)
def test_midnight(sync_app: SyncApp, seconds: float, expected: tuple[int, Pages]) -> None:
    """A visit under way at midnight UTC counts as two; pages are those of each visit."""
    midnight = ms("2026-11-18T00:00:00Z")
    sync_app.clock.set_wall(midnight + round(seconds * 1000))
    site = sync_app.site()
    # the view of the day before is older than the window, its visit still has an event in it
    site.send(view(midnight - 20 * MINUTE_MS, "/before"), custom(midnight - MINUTE_MS))
    if seconds:
        site.send(view(midnight + MINUTE_MS // 2, "/after"))
    active, pages = here(site)
    assert (active, sorted(pages)) == (expected[0], sorted(expected[1]))


def test_at_most_100_pages(site: Site) -> None:
    """At most 100 pages; all visitors are counted."""
    site.send(*(view(ago(5), f"/{n:03}", f"{n}") for n in range(120)), view(ago(5), "/119", "one more"))
    active, pages = here(site)
    assert active == 121
    assert pages == [("/119", 2), *((f"/{n:03}", 1) for n in range(99))]


def test_pages_of_equal_count_come_by_code_point(site: Site) -> None:
    """Then value ascending by code point; pages likewise."""
    names = ["\U0001f600", "\uffff", "z", "Z", "é", "e\u0301", "a"]
    site.send(*(event("screen_view", ago(5), f"{n}", name=name) for n, name in enumerate(names)))
    assert here(site) == (7, [(f"/{name}", 1) for name in ["Z", "a", "e\u0301", "z", "é", "\uffff", "\U0001f600"]])


def test_a_clock_set_back_shows_nothing_of_the_future(site: Site) -> None:
    """In the last 300 seconds: what is stamped later than now is not."""
    site.send(view(NOON_MS, "/later"))
    site.sync_app.clock.set_wall(NOON_MS - MINUTE_MS)
    assert here(site) == (0, [])
    site.send(custom(NOON_MS - MINUTE_MS))
    assert here(site) == (1, [])


def test_visitors_of_other_visits_in_the_same_day(site: Site) -> None:
    """Each on the page of its visit's latest view: not on that of an earlier or later visit's."""
    site.send(view(ago(7200), "/morning"), view(ago(600), "/now"), custom(ago(1)))
    assert here(site) == (1, [("/now", 1)])
    site.send(view(ago(7300), "/earlier"))
    assert here(site) == (1, [("/now", 1)])
