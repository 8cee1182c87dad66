"""tally/reports/funnels.py compared with walking through lists of events, over random histories."""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.columns import column_days
from tally.engine.values import BeyondRetention, FunnelStep, Scope
from tally.events.filters import Filter
from tally.reports import funnels, open_days
from tally.rollups.rollup_state import KEPT
from tests.support import histories
from tests.support.histories import NAMES, PATHS, History, texts
from tests.support.rollup_database import DAY_MS, GAP_MS, MINUTE_MS, RollupHarness
from tests.support.selection import examples

STEPS = [("pathname", path) for path in (*PATHS, "/never")] + [("event_name", name) for name in (*NAMES, "never")]


def ask(harness: RollupHarness, scope: Scope, steps: list[tuple[str, str]]) -> list[tuple[int, int, int]]:
    return [
        tuple(of)
        for of in harness.query(
            lambda run: funnels.funnel(run, scope, [FunnelStep(*one) for one in steps], harness.cache)
        )
    ]


@pytest.mark.slow
@pytest.mark.random_examples
@settings(max_examples=examples(25, default=4), deadline=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False), most=st.sampled_from((2, 3, 250_000)))
def test_funnels_equal_plain_lists(rng: random.Random, most: int) -> None:
    """With late and imported events, packed or not; whole days twice, since they are cached; in one part and in
    several."""
    usual = open_days.MAX_EVENTS
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), rng)
        try:
            open_days.MAX_EVENTS = most
            for _ in range(6):
                for _ in range(rng.randrange(1, 8)):
                    history.play()
                known = histories.facts(history.harness)
                for scope in history.scopes(4):
                    steps = [rng.choice(STEPS[:3] + STEPS[4:6] + STEPS) for _ in range(rng.randrange(2, 9))]
                    expected = histories.funnel(known, scope, steps)
                    assert ask(history.harness, scope, steps) == expected, (scope, steps)
                    assert ask(history.harness, scope, steps) == expected, "cached"
        finally:
            open_days.MAX_EVENTS = usual
            history.harness.close()


def view(ts: int, who: str, path: str = "/") -> tuple[int, int, str, tuple[str, ...]]:
    return ts, 0, who, texts(path, "mobile", "")


def day_of(harness: RollupHarness, filters: tuple[Filter, ...] = ()) -> Scope:
    """The day before today."""
    begin_ms = (harness.now_ms // DAY_MS - 1) * DAY_MS
    return harness.scope(begin_ms, begin_ms + DAY_MS, filters)


TWICE = [("pathname", "/"), ("pathname", "/")]
ONWARDS = [("pathname", "/"), ("pathname", "/a")]


def test_an_event_counts_for_one_step(harness: RollupHarness) -> None:
    ten_ms = day_of(harness).from_ms + 600 * MINUTE_MS
    harness.send(view(ten_ms, "session-1"))
    assert ask(harness, day_of(harness), TWICE) == [(1, 1, 0), (0, 0, 0)]
    harness.send(view(ten_ms, "session-1"))
    assert ask(harness, day_of(harness), TWICE) == [(1, 1, 0), (1, 1, 0)], "events are ordered by (timestamp, id)"
    harness.send(view(ten_ms + GAP_MS, "session-1"))
    assert ask(harness, day_of(harness), [*TWICE, TWICE[0], TWICE[0]])[2:] == [(1, 1, GAP_MS), (0, 0, 0)]


def test_types_of_events_in_steps(harness: RollupHarness) -> None:
    ten_ms = day_of(harness).from_ms + 600 * MINUTE_MS
    harness.send((ten_ms, 2, "session-1", texts("/", "mobile", "/")))
    assert ask(harness, day_of(harness), TWICE)[0] == (0, 0, 0)
    assert ask(harness, day_of(harness), [("event_name", "/"), ("event_name", "/")])[0] == (1, 1, 0)


def test_steps_after_the_range_count(harness: RollupHarness) -> None:
    """A visit belongs to the range in which it begins, with all its events; a filter applies to events in the range."""
    begin_ms = day_of(harness).from_ms + 600 * MINUTE_MS
    harness.send(view(begin_ms, "session-1"), view(begin_ms + 20 * MINUTE_MS, "session-1", "/a"))
    first = harness.scope(begin_ms, begin_ms + 1)
    assert ask(harness, first, ONWARDS) == [(1, 1, 0), (1, 1, 20 * MINUTE_MS)]
    assert ask(harness, harness.scope(begin_ms + 1, begin_ms + DAY_MS), ONWARDS) == [(0, 0, 0), (0, 0, 0)]
    assert ask(harness, harness.scope(begin_ms, begin_ms + 1, (Filter("pathname", "=", ("/a",)),)), ONWARDS)[0] == (
        0,
        0,
        0,
    )
    assert ask(harness, day_of(harness, (Filter("pathname", "=", ("/a",)),)), ONWARDS)[1] == (1, 1, 20 * MINUTE_MS)


def test_unknown_texts(harness: RollupHarness) -> None:
    harness.send(view(day_of(harness).from_ms, "session-1"))
    assert ask(harness, day_of(harness), [("pathname", "/never"), ("pathname", "/")]) == [(0, 0, 0), (0, 0, 0)]
    assert ask(harness, day_of(harness), [("pathname", "/"), ("pathname", "/never"), ("pathname", "/")])[0] == (1, 1, 0)


@pytest.mark.parametrize("is_stored", [True, False], ids=["by column", "by row"])
def test_finished_days_are_cached(harness: RollupHarness, monkeypatch: pytest.MonkeyPatch, is_stored: bool) -> None:
    """A repeated query reads none of their events; a late event invalidates the day."""
    if not is_stored:
        monkeypatch.setattr(column_days, "sizes", lambda *_, **__: {})
    scope = day_of(harness)
    harness.send(view(scope.from_ms + 600 * MINUTE_MS, "session-1"), view(scope.from_ms, "session-2", "/a"))
    harness.build()
    assert ask(harness, scope, ONWARDS) == [(1, 1, 0), (0, 0, 0)]
    statements: list[str] = []
    harness.reader.set_trace_callback(statements.append)
    assert ask(harness, scope, ONWARDS) == [(1, 1, 0), (0, 0, 0)]
    assert not [statement for statement in statements if "from event" in statement]
    harness.send(view(scope.from_ms + 601 * MINUTE_MS, "session-1", "/a"))
    assert ask(harness, scope, ONWARDS) == [(1, 1, 0), (1, 1, MINUTE_MS)]
    assert [statement for statement in statements if "from event" in statement]


def test_days_beyond_retention(harness: RollupHarness) -> None:
    """Rejected, cached or not, also if no step has a label."""
    scope = day_of(harness)
    harness.send(view(scope.from_ms, "session-1"))
    harness.build()
    ask(harness, scope, ONWARDS)
    harness.writer.execute("update rollup_state set state = ? where level = 0", (KEPT,))
    for steps in (ONWARDS, [("pathname", "/never")] * 2):
        with pytest.raises(BeyondRetention) as gone:
            ask(harness, scope, steps)
        assert gone.value.from_ms == scope.to_ms
