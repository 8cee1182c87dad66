"""GET /api/v1/websites/:id/realtime: active visitors and their pages.

The rules are in docs/reference/read-api.md, Realtime. Pages are ordered by visitors, then by pathname.
"""

from typing import Any

import pytest

from tests.support.app import NOON_MS
from tests.support.read_api import MINUTE_MS, NOON, Site, SyncApp, custom, event, ms, view

Pages = list[tuple[str, int]]


@pytest.fixture
def site(sync_app: SyncApp) -> Site:
    sync_app.clock.set_wall(NOON_MS)
    return sync_app.site()


def active_visitors(site: Site) -> tuple[int, Pages]:
    """Return the number of active visitors, and the pages with their visitors."""
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
        # the pageview is older than the window, but its visit continues
        pytest.param([view(ago(600), "/a"), custom(ago(5))], (1, [("/a", 1)]), id="view-before-the-window"),
        pytest.param(
            [view(ago(2400), "/a"), view(ago(1500), "/b"), custom(ago(5))], (1, [("/b", 1)]), id="latest-before-window"
        ),
        pytest.param([view(ago(1805), "/a"), custom(ago(5))], (1, [("/a", 1)]), id="30-minutes-is-one-visit"),
        # 30:00.001 after the pageview a new visit begins, which has no pageview
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
            id="vitals-heatmaps-and-experiments-do-not-count",
        ),
        pytest.param([view(NOON_MS + 5 * MINUTE_MS)], (1, [("/", 1)]), id="ahead-is-now"),
    ],
)  # fmt: skip
def test_active_visitors(site: Site, sent: list[dict[str, Any]], expected: tuple[int, Pages]) -> None:
    """A visitor is active with a traffic event in the last 300 seconds, on the page of the visit's latest pageview."""
    site.send(*sent)
    assert active_visitors(site) == expected


def test_the_window_ends_now(site: Site) -> None:
    """The window is the 300 seconds before the request."""
    site.send(view(NOON_MS))
    for later_ms, active in ((0, 1), (299_999, 1), (300_000, 1), (300_001, 0)):
        site.sync_app.clock.set_wall(NOON_MS + later_ms)
        assert active_visitors(site)[0] == active
    assert site.json("realtime")["meta"] == {
        "website_id": site.id,
        "time": NOON.replace("12:00:00.000", "12:05:00.001"),
    }


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        # a client is a new visitor after midnight UTC: it counts twice until the window has passed
        pytest.param(0, (1, [("/before", 1)]), id="midnight"),
        pytest.param(60, (2, [("/before", 1), ("/after", 1)]), id="a-minute-after"),
        pytest.param(240, (2, [("/before", 1), ("/after", 1)]), id="end-of-the-window"),
        pytest.param(240.001, (1, [("/after", 1)]), id="beyond"),
    ],
)
def test_midnight(sync_app: SyncApp, seconds: float, expected: tuple[int, Pages]) -> None:
    """A visit in progress at midnight UTC counts as two, each with its own page."""
    midnight = ms("2026-11-18T00:00:00Z")
    sync_app.clock.set_wall(midnight + round(seconds * 1000))
    site = sync_app.site()
    # the pageview before midnight is older than the window, but its visit has an event in it
    site.send(view(midnight - 20 * MINUTE_MS, "/before"), custom(midnight - MINUTE_MS))
    if seconds:
        site.send(view(midnight + MINUTE_MS // 2, "/after"))
    active, pages = active_visitors(site)
    assert (active, sorted(pages)) == (expected[0], sorted(expected[1]))


def test_at_most_100_pages(site: Site) -> None:
    """The list has at most 100 pages; all visitors are counted."""
    site.send(*(view(ago(5), f"/{n:03}", f"{n}") for n in range(120)), view(ago(5), "/119", "one more"))
    active, pages = active_visitors(site)
    assert active == 121
    assert pages == [("/119", 2), *((f"/{n:03}", 1) for n in range(99))]


def test_pages_with_equal_counts_are_ordered_by_code_point(site: Site) -> None:
    """By code point, not by a locale, in the form in which they are stored."""
    names = ["~", "z", "Z", "é", "e\u0301", "a", "_"]
    site.send(*(event("screen_view", ago(5), f"{n}", name=name) for n, name in enumerate(names)))
    assert active_visitors(site) == (
        7,
        [(f"/{name}", 1) for name in ["%C3%A9", "Z", "_", "a", "e%CC%81", "z", "~"]],
    )


def test_events_later_than_now_do_not_count(site: Site) -> None:
    """After the clock is set back, events with a later timestamp are not in the window."""
    site.send(view(NOON_MS, "/later"))
    site.sync_app.clock.set_wall(NOON_MS - MINUTE_MS)
    assert active_visitors(site) == (0, [])
    site.send(custom(NOON_MS - MINUTE_MS))
    assert active_visitors(site) == (1, [])


def test_visitors_of_other_visits_in_the_same_day(site: Site) -> None:
    """Only the page of the current visit is shown."""
    site.send(view(ago(7200), "/morning"), view(ago(600), "/now"), custom(ago(1)))
    assert active_visitors(site) == (1, [("/now", 1)])
    site.send(view(ago(7300), "/earlier"))
    assert active_visitors(site) == (1, [("/now", 1)])
