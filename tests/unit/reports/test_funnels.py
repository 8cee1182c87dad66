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
from tests.support.rollup_database import DAY_MS, GAP_MS, MINUTE_MS, Works, make_file

STEPS = [("pathname", path) for path in (*PATHS, "/never")] + [("event_name", name) for name in (*NAMES, "never")]


def ask(works: Works, scope: Scope, steps: list[tuple[str, str]]) -> list[tuple[int, int, int]]:
    return [tuple(of) for of in works.ask(lambda run: funnels.funnel(run, scope, steps, works.remembered))]


@settings(max_examples=25, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False), most=st.sampled_from((2, 3, 20_000)))
def test_against_plain_lists(chance: random.Random, most: int) -> None:
    """Whatever came late, was imported, built or not; whole days twice, since they are remembered; in one statement
    and in several."""
    usual = funnels.MOST_HITS
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), chance)
        try:
            funnels.MOST_HITS = most
            for _ in range(6):
                for _ in range(chance.randrange(1, 8)):
                    history.play()
                known = histories.facts(history.works)
                for scope in history.scopes(4):
                    steps = [chance.choice(STEPS[:3] + STEPS[4:6] + STEPS) for _ in range(chance.randrange(2, 9))]
                    expected = histories.funnel(known, scope, steps)
                    assert ask(history.works, scope, steps) == expected, (scope, steps)
                    assert ask(history.works, scope, steps) == expected, "remembered"
        finally:
            funnels.MOST_HITS = usual
            history.works.close()


@pytest.fixture
def works(tmp_path: Path) -> Iterator[Works]:
    make_file(tmp_path / "analytics.db")
    works = Works(tmp_path / "analytics.db")
    yield works
    works.close()


def view(ts: int, who: str, path: str = "/") -> tuple[int, int, str, tuple[str, ...]]:
    return ts, 0, who, texts(path, "mobile", "")


def day_of(works: Works, filters: tuple[tuple[str, tuple[str, ...]], ...] = ()) -> Scope:
    """The day before today."""
    begin_ms = (works.now_ms // DAY_MS - 1) * DAY_MS
    return works.scope(begin_ms, begin_ms + DAY_MS, filters)


TWICE = [("pathname", "/"), ("pathname", "/")]
ONWARDS = [("pathname", "/"), ("pathname", "/a")]


def test_no_event_serves_two_steps(works: Works) -> None:
    ten_ms = day_of(works).from_ms + 600 * MINUTE_MS
    works.send(view(ten_ms, "session-1"))
    assert ask(works, day_of(works), TWICE) == [(1, 1, 0), (0, 0, 0)]
    works.send(view(ten_ms, "session-1"))
    assert ask(works, day_of(works), TWICE) == [(1, 1, 0), (1, 1, 0)], "the order is of (timestamp, id)"
    works.send(view(ten_ms + GAP_MS, "session-1"))
    assert ask(works, day_of(works), [*TWICE, TWICE[0], TWICE[0]])[2:] == [(1, 1, GAP_MS), (0, 0, 0)]


def test_only_views_meet_a_page_and_only_custom_events_a_name(works: Works) -> None:
    ten_ms = day_of(works).from_ms + 600 * MINUTE_MS
    works.send((ten_ms, 2, "session-1", texts("/", "mobile", "/")))
    assert ask(works, day_of(works), TWICE)[0] == (0, 0, 0)
    assert ask(works, day_of(works), [("event_name", "/"), ("event_name", "/")])[0] == (1, 1, 0)


def test_visits_are_followed_behind_the_end_and_not_before_the_begin(works: Works) -> None:
    """A visit belongs to the range in which it begins, with its whole life; a filter looks at the range alone."""
    begin_ms = day_of(works).from_ms + 600 * MINUTE_MS
    works.send(view(begin_ms, "session-1"), view(begin_ms + 20 * MINUTE_MS, "session-1", "/a"))
    first = works.scope(begin_ms, begin_ms + 1)
    assert ask(works, first, ONWARDS) == [(1, 1, 0), (1, 1, 20 * MINUTE_MS)]
    assert ask(works, works.scope(begin_ms + 1, begin_ms + DAY_MS), ONWARDS) == [(0, 0, 0), (0, 0, 0)]
    assert ask(works, works.scope(begin_ms, begin_ms + 1, (("pathname", ("/a",)),)), ONWARDS)[0] == (0, 0, 0)
    assert ask(works, day_of(works, (("pathname", ("/a",)),)), ONWARDS)[1] == (1, 1, 20 * MINUTE_MS)


def test_many_visits_take_several_rounds(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of visits beyond the bound a part at a time: as many rounds as it takes, and each visit and visitor once."""
    begin_ms = day_of(works).from_ms
    works.bring(*(view(begin_ms + n * MINUTE_MS, f"{n}", "/") for n in range(400)))
    works.bring(*(view(begin_ms + n * MINUTE_MS + 1 + 600 * MINUTE_MS * k, "0") for n in range(2) for k in range(2)))
    known = histories.facts(works)
    monkeypatch.setattr(funnels, "MOST_VISITS", 60)
    rounds: list[int] = []
    works.reader.set_trace_callback(lambda statement: rounds.append("/* behaviour.hits */" in statement))
    for scope in (
        day_of(works),
        day_of(works, (("device", ("mobile",)),)),
        works.scope(begin_ms + 1, begin_ms + DAY_MS),
    ):
        assert ask(works, scope, TWICE) == histories.funnel(known, scope, TWICE)
        assert sum(rounds) > 4
        rounds.clear()


def test_steps_without_a_label_are_not_looked_for(works: Works) -> None:
    works.send(view(day_of(works).from_ms, "session-1"))
    statements: list[str] = []
    works.reader.set_trace_callback(statements.append)
    assert ask(works, day_of(works), [("pathname", "/never"), ("pathname", "/")]) == [(0, 0, 0), (0, 0, 0)]
    assert not [statement for statement in statements if "from event" in statement]
    assert ask(works, day_of(works), [("pathname", "/"), ("pathname", "/never"), ("pathname", "/")])[0] == (1, 1, 0)


def test_days_that_are_over_are_remembered(works: Works) -> None:
    """Asked again, no event of them is read; a late event makes it another day."""
    scope = day_of(works)
    works.send(view(scope.from_ms + 600 * MINUTE_MS, "session-1"), view(scope.from_ms, "session-2", "/a"))
    works.build()
    assert ask(works, scope, ONWARDS) == [(1, 1, 0), (0, 0, 0)]
    statements: list[str] = []
    works.reader.set_trace_callback(statements.append)
    assert ask(works, scope, ONWARDS) == [(1, 1, 0), (0, 0, 0)]
    assert not [statement for statement in statements if "from event" in statement]
    works.send(view(scope.from_ms + 601 * MINUTE_MS, "session-1", "/a"))
    assert ask(works, scope, ONWARDS) == [(1, 1, 0), (1, 1, MINUTE_MS)]
    assert [statement for statement in statements if "from event" in statement]


def test_where_events_are_gone(works: Works) -> None:
    """Refused, remembered or not, also where no step has a label."""
    scope = day_of(works)
    works.send(view(scope.from_ms, "session-1"))
    works.build()
    ask(works, scope, ONWARDS)
    works.writer.execute("update rollup_state set state = ? where level = 0", (KEPT,))
    for steps in (ONWARDS, [("pathname", "/never")] * 2):
        with pytest.raises(BeyondRetention) as gone:
            ask(works, scope, steps)
        assert gone.value.from_ms == scope.to_ms
