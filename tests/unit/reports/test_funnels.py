"""tally/reports/funnels.py against walking through plain lists of events, over random histories."""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.reports import funnels
from tally.reports.coverage import BeyondRetention
from tally.rollups.rollup_state import KEPT
from tally.storage.sql.events import Scope
from tests.support import histories
from tests.support.histories import NAMES, PATHS, PHASES, History, texts
from tests.support.rollup_database import DAY_MS, GAP_MS, MINUTE_MS, RollupHarness, make_file

STEPS = [("pathname", path) for path in (*PATHS, "/never")] + [("event_name", name) for name in (*NAMES, "never")]


def ask(harness: RollupHarness, scope: Scope, steps: list[tuple[str, str]]) -> list[tuple[int, int, int]]:
    return [tuple(of) for of in harness.ask(lambda run: funnels.funnel(run, scope, steps, harness.remembered))]


@settings(max_examples=25, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False), most=st.sampled_from((2, 3, 20_000)))
def test_against_plain_lists(chance: random.Random, most: int) -> None:
    """Whatever came late, was imported, built or not; whole days twice, since they are remembered; in one statement
    and in several."""
    usual = funnels.MAX_HITS
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), chance)
        try:
            funnels.MAX_HITS = most
            for _ in range(6):
                for _ in range(chance.randrange(1, 8)):
                    history.play()
                known = histories.facts(history.harness)
                for scope in history.scopes(4):
                    steps = [chance.choice(STEPS[:3] + STEPS[4:6] + STEPS) for _ in range(chance.randrange(2, 9))]
                    expected = histories.funnel(known, scope, steps)
                    assert ask(history.harness, scope, steps) == expected, (scope, steps)
                    assert ask(history.harness, scope, steps) == expected, "remembered"
        finally:
            funnels.MAX_HITS = usual
            history.harness.close()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RollupHarness]:
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db")
    yield harness
    harness.close()


def view(ts: int, who: str, path: str = "/") -> tuple[int, int, str, tuple[str, ...]]:
    return ts, 0, who, texts(path, "mobile", "")


def day_of(harness: RollupHarness, filters: tuple[tuple[str, tuple[str, ...]], ...] = ()) -> Scope:
    """The day before today."""
    begin_ms = (harness.now_ms // DAY_MS - 1) * DAY_MS
    return harness.scope(begin_ms, begin_ms + DAY_MS, filters)


TWICE = [("pathname", "/"), ("pathname", "/")]
ONWARDS = [("pathname", "/"), ("pathname", "/a")]


def test_no_event_serves_two_steps(harness: RollupHarness) -> None:
    ten_ms = day_of(harness).from_ms + 600 * MINUTE_MS
    harness.send(view(ten_ms, "session-1"))
    assert ask(harness, day_of(harness), TWICE) == [(1, 1, 0), (0, 0, 0)]
    harness.send(view(ten_ms, "session-1"))
    assert ask(harness, day_of(harness), TWICE) == [(1, 1, 0), (1, 1, 0)], "the order is of (timestamp, id)"
    harness.send(view(ten_ms + GAP_MS, "session-1"))
    assert ask(harness, day_of(harness), [*TWICE, TWICE[0], TWICE[0]])[2:] == [(1, 1, GAP_MS), (0, 0, 0)]


def test_only_views_meet_a_page_and_only_custom_events_a_name(harness: RollupHarness) -> None:
    ten_ms = day_of(harness).from_ms + 600 * MINUTE_MS
    harness.send((ten_ms, 2, "session-1", texts("/", "mobile", "/")))
    assert ask(harness, day_of(harness), TWICE)[0] == (0, 0, 0)
    assert ask(harness, day_of(harness), [("event_name", "/"), ("event_name", "/")])[0] == (1, 1, 0)


def test_visits_are_followed_behind_the_end_and_not_before_the_begin(harness: RollupHarness) -> None:
    """A visit belongs to the range in which it begins, with its whole life; a filter looks at the range alone."""
    begin_ms = day_of(harness).from_ms + 600 * MINUTE_MS
    harness.send(view(begin_ms, "session-1"), view(begin_ms + 20 * MINUTE_MS, "session-1", "/a"))
    first = harness.scope(begin_ms, begin_ms + 1)
    assert ask(harness, first, ONWARDS) == [(1, 1, 0), (1, 1, 20 * MINUTE_MS)]
    assert ask(harness, harness.scope(begin_ms + 1, begin_ms + DAY_MS), ONWARDS) == [(0, 0, 0), (0, 0, 0)]
    assert ask(harness, harness.scope(begin_ms, begin_ms + 1, (("pathname", ("/a",)),)), ONWARDS)[0] == (0, 0, 0)
    assert ask(harness, day_of(harness, (("pathname", ("/a",)),)), ONWARDS)[1] == (1, 1, 20 * MINUTE_MS)


def test_many_visits_take_several_rounds(harness: RollupHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of visits beyond the bound a part at a time: as many rounds as it takes, and each visit and visitor once."""
    begin_ms = day_of(harness).from_ms
    harness.bring(*(view(begin_ms + n * MINUTE_MS, f"{n}", "/") for n in range(400)))
    harness.bring(*(view(begin_ms + n * MINUTE_MS + 1 + 600 * MINUTE_MS * k, "0") for n in range(2) for k in range(2)))
    known = histories.facts(harness)
    monkeypatch.setattr(funnels, "MAX_VISITS", 60)
    rounds: list[int] = []
    harness.reader.set_trace_callback(lambda statement: rounds.append("/* behaviour.hits */" in statement))
    for scope in (
        day_of(harness),
        day_of(harness, (("device", ("mobile",)),)),
        harness.scope(begin_ms + 1, begin_ms + DAY_MS),
    ):
        assert ask(harness, scope, TWICE) == histories.funnel(known, scope, TWICE)
        assert sum(rounds) > 4
        rounds.clear()


def test_steps_without_a_label_are_not_looked_for(harness: RollupHarness) -> None:
    harness.send(view(day_of(harness).from_ms, "session-1"))
    statements: list[str] = []
    harness.reader.set_trace_callback(statements.append)
    assert ask(harness, day_of(harness), [("pathname", "/never"), ("pathname", "/")]) == [(0, 0, 0), (0, 0, 0)]
    assert not [statement for statement in statements if "from event" in statement]
    assert ask(harness, day_of(harness), [("pathname", "/"), ("pathname", "/never"), ("pathname", "/")])[0] == (1, 1, 0)


def test_days_that_are_over_are_remembered(harness: RollupHarness) -> None:
    """Asked again, no event of them is read; a late event makes it another day."""
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


def test_where_events_are_gone(harness: RollupHarness) -> None:
    """Refused, remembered or not, also where no step has a label."""
    scope = day_of(harness)
    harness.send(view(scope.from_ms, "session-1"))
    harness.build()
    ask(harness, scope, ONWARDS)
    harness.writer.execute("update rollup_state set state = ? where level = 0", (KEPT,))
    for steps in (ONWARDS, [("pathname", "/never")] * 2):
        with pytest.raises(BeyondRetention) as gone:
            ask(harness, scope, steps)
        assert gone.value.from_ms == scope.to_ms
