"""tally/properties.py against plain counting of what JSON says, over random histories; and its bounds."""

import random
import tempfile
from fractions import Fraction
from pathlib import Path

import following
from following import NAMES, History
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rolling import Works

from tally import properties
from tally.properties import Data
from tally.queries import Scope


def ask(works: Works, scope: Scope, name: str, only: str | None = None, limit: int = 10) -> Data:
    return works.ask(lambda run: properties.data(run, scope, name, only, limit, works.remembered))


def check(found: Data, known: list[following.Fact], scope: Scope, name: str, only: str | None, limit: int) -> None:
    """All of an answer, by its definition."""
    own = [fact for fact in known if following.matches(fact, scope) and fact.event_name == name]
    of = following.values(known, scope, name)
    if only is not None:
        of = {key: value for key, value in of.items() if key == only}
    assert (found.events, found.visitors) == (len(own), len({fact.visitor for fact in own}))
    assert found.properties == len(of)
    names = sorted(of, key=lambda key: (-len(of[key]), key))
    assert [one.name for one in found.first] == names[: properties.MOST_PROPERTIES]
    for one in found.first:
        rows = following.counted(of[one.name])
        assert (one.events, one.distinct) == (len(of[one.name]), len(rows))
        assert len(one.values) == min(limit, len(rows))
        for told, row in zip(one.values, rows, strict=False):
            assert following.same(told[0], row[0]), (told, row)
            assert told[1:] == row[1:]
        numbers = following.numbers(of[one.name])
        if numbers is None:
            assert one.numbers is None
            continue
        assert one.numbers is not None
        assert one.numbers.samples == numbers["samples"]
        assert (one.numbers.min, *one.numbers.percentiles, one.numbers.max) == tuple(
            numbers[name] for name in ("min", "p50", "p95", "max")
        )
        for told, exact in ((one.numbers.sum, numbers["sum"]), (one.numbers.mean, numbers["mean"])):
            if told is None:
                assert abs(exact) > Fraction(1.7e308)
            else:
                assert told == exact or told == float(exact)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    chance=st.randoms(use_true_random=False),
    most=st.sampled_from((1_000, 3_000, 8_000_000)),
    rows=st.sampled_from((2, 1_000)),
)
def test_against_plain_counting(chance: random.Random, most: int, rows: int) -> None:
    """Whatever came late, was imported, built or not; whole days twice, since they are remembered; in memory and, where
    there is room for a handful of values alone, in a file."""
    usual = properties.MOST_BYTES, properties._ROWS
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), chance)
        try:
            properties.MOST_BYTES, properties._ROWS = most, rows
            for _ in range(6):
                for _ in range(chance.randrange(1, 8)):
                    history.play()
                known = following.facts(history.works)
                for scope in history.scopes(4):
                    name, only = (
                        chance.choice((*NAMES, *NAMES, "never")),
                        chance.choice((None, None, "plan", "", "never")),
                    )
                    limit = chance.choice((1, 2, 10))
                    for _ in range(2):
                        check(ask(history.works, scope, name, only, limit), known, scope, name, only, limit)
        finally:
            properties.MOST_BYTES, properties._ROWS = usual
            history.works.close()
