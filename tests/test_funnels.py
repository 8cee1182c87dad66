"""tally/funnels.py against walking through plain lists of events, over random histories."""

import random
import tempfile
from pathlib import Path

import following
from following import NAMES, PATHS, History
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rolling import Works

from tally import funnels
from tally.ground import BeyondRetention  # noqa: F401
from tally.queries import Scope

STEPS = [("pathname", path) for path in (*PATHS, "/never")] + [("event_name", name) for name in (*NAMES, "never")]


def ask(works: Works, scope: Scope, steps: list[tuple[str, str]]) -> list[tuple[int, int, int]]:
    return [tuple(of) for of in works.ask(lambda run: funnels.funnel(run, scope, steps, works.remembered))]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
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
                known = following.facts(history.works)
                for scope in history.scopes(4):
                    steps = [chance.choice(STEPS[:3] + STEPS[4:6] + STEPS) for _ in range(chance.randrange(2, 9))]
                    expected = following.funnel(known, scope, steps)
                    assert ask(history.works, scope, steps) == expected, (scope, steps)
                    assert ask(history.works, scope, steps) == expected, "remembered"
        finally:
            funnels.MOST_HITS = usual
            history.works.close()
