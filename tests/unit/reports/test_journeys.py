"""tally/reports/journeys.py: reloads, ends of visits, many journeys. Random histories are in tests/model."""

import pytest

from tally.engine.values import END, OTHER_STEPS, Direction, Scope
from tally.engine.values import JourneyStep as Place
from tally.reports import journeys, open_days
from tests.support.histories import texts
from tests.support.rollup_database import DAY_MS, MINUTE_MS, RollupHarness


def page(path: str) -> Place:
    return Place("pathname", path)


def send(harness: RollupHarness, who: str, *paths: str) -> Scope:
    """Send pageviews of a visit, a minute apart, on the day before today; return that day."""
    begin_ms = (harness.now_ms // DAY_MS - 1) * DAY_MS
    harness.send(*((begin_ms + n * MINUTE_MS, 0, who, texts(path, "mobile", "")) for n, path in enumerate(paths)))
    return harness.scope(begin_ms, begin_ms + DAY_MS)


def ask(
    harness: RollupHarness, scope: Scope, direction: Direction = "next", steps: int = 2, limit: int = 5
) -> list[tuple[int, Place, Place, int]]:
    start = ("pathname", "/a")
    return [
        tuple(link)
        for link in harness.query(
            lambda run: journeys.journeys(run, scope, start, direction, steps, limit, harness.cache)
        )
    ]


def test_a_reload_is_one_step_and_a_visit_ends(harness: RollupHarness) -> None:
    day = send(harness, "session-1", "/", "/a", "/a", "/b", "/b")
    assert ask(harness, day) == [(1, page("/a"), page("/b"), 1), (2, page("/b"), END, 1)]
    assert ask(harness, day, "previous") == [(1, page("/a"), page("/"), 1), (2, page("/"), END, 1)]


def test_a_journey_begins_at_the_first_occurrence(harness: RollupHarness) -> None:
    day = send(harness, "session-1", "/a", "/b", "/a", "/c")
    assert ask(harness, day, steps=3)[-1] == (3, page("/a"), page("/c"), 1)
    assert ask(harness, day, "previous") == [(1, page("/a"), END, 1)]


def test_values_over_the_limit_are_combined(harness: RollupHarness) -> None:
    for who, path in (("1", "/b"), ("2", "/b"), ("3", "/b"), ("4", "/c"), ("5", "/d")):
        day = send(harness, who, "/a", path)
    send(harness, "6", "/elsewhere", "/b")
    assert ask(harness, day, steps=1, limit=1) == [(1, page("/a"), page("/b"), 3), (1, page("/a"), OTHER_STEPS, 2)]


@pytest.mark.parametrize("most", [1, 3, 250_000])
def test_many_journeys_are_counted_a_part_at_a_time(
    harness: RollupHarness, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(open_days, "MAX_EVENTS", most)
    monkeypatch.setattr(journeys, "MAX_KEPT_BYTES", most)
    for n in range(12):
        day = send(harness, str(n), "/a", f"/{n % 5}")
    visits = [link[3] for link in ask(harness, day, steps=1)]
    assert visits == [3, 3, 2, 2, 2]
    harness.cache.most_bytes = 0
    assert [link[3] for link in ask(harness, day, steps=1)] == visits
