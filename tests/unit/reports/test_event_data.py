"""tally/reports/event_data.py compared with plain counting of the JSON, over random histories; and its limits."""

import json
import random
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.engine.values import BeyondRetention, Data, Scope
from tally.events import json_scalars as scalars
from tally.reports import event_data
from tally.reports.cache import ResultCache
from tally.rollups.rollup_state import KEPT
from tests.support import histories
from tests.support.histories import NAMES, History, texts
from tests.support.rollup_database import DAY_MS, RollupHarness
from tests.support.selection import examples


def ask(harness: RollupHarness, scope: Scope, name: str, only: str | None = None, limit: int = 10) -> Data:
    return harness.query(lambda run: event_data.data(run, scope, name, only, limit, harness.cache))


def check(found: Data, known: list[histories.Fact], scope: Scope, name: str, only: str | None, limit: int) -> None:
    """Compare a complete result with its definition."""
    own = [fact for fact in known if histories.matches(fact, scope) and fact.event_name == name]
    of = histories.values(known, scope, name)
    if only is not None:
        of = {key: value for key, value in of.items() if key == only}
    assert (found.events, found.visitors) == (len(own), len({fact.visitor for fact in own}))
    assert found.properties == len(of)
    names = sorted(of, key=lambda key: (-len(of[key]), key))
    assert [one.name for one in found.first] == names[: event_data.MAX_PROPERTIES]
    for one in found.first:
        rows = histories.counted(of[one.name])
        assert (one.events, one.distinct) == (len(of[one.name]), len(rows))
        assert len(one.values) == min(limit, len(rows))
        for found_row, row in zip(one.values, rows, strict=False):
            assert histories.same(found_row[0], row[0]), (found_row, row)
            assert found_row[1:] == row[1:]
        numbers = histories.numbers(of[one.name])
        if numbers is None:
            assert one.numbers is None
            continue
        assert one.numbers is not None
        assert one.numbers.samples == numbers["samples"]
        assert (one.numbers.min, *one.numbers.percentiles, one.numbers.max) == tuple(
            numbers[name] for name in ("min", "p50", "p95", "max")
        )
        for figure, exact in ((one.numbers.sum, numbers["sum"]), (one.numbers.mean, numbers["mean"])):
            if figure is None:
                assert abs(exact) > Fraction(1.7e308)
            else:
                assert figure == exact or figure == float(exact)


def check_bounds(
    found: Data, known: list[histories.Fact], scope: Scope, name: str, only: str | None, has_all: bool = True
) -> None:
    """Check the guarantees of an inexact result; `has_all` is whether no property was dropped."""
    own = [fact for fact in known if histories.matches(fact, scope) and fact.event_name == name]
    of = {key: value for key, value in histories.values(known, scope, name).items() if only in (None, key)}
    assert (found.events, found.visitors) == (len(own), len({fact.visitor for fact in own}))
    assert found.properties <= len(of)
    for one in found.first:
        true = {scalars.written(value): (times, who) for value, times, who in histories.counted(of[one.name])}
        assert one.events <= len(of[one.name])
        assert one.distinct <= len(true)
        for value, times, who in one.values:
            assert (times, who) <= true[scalars.written(value)]
        if has_all:
            assert one.events == len(of[one.name])
        if one.exact:
            assert len(true) == one.distinct
        elif one.numbers is not None:
            assert one.numbers.percentiles == (None, None)


@pytest.mark.random_examples
@settings(max_examples=examples(25, default=4), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rng=st.randoms(use_true_random=False),
    most=st.sampled_from((2_000, 6_000, 8_000_000)),
)
def test_against_plain_counting(rng: random.Random, most: int) -> None:
    """With late and imported events, rolled up or not; whole days twice, since they are cached; exact, and with memory
    for only a few values."""
    usual = event_data.MAX_BYTES, event_data._MAX_CACHED_BYTES
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), rng)
        try:
            event_data.MAX_BYTES, event_data._MAX_CACHED_BYTES = most, most // 3
            for _ in range(6):
                for _ in range(rng.randrange(1, 8)):
                    history.play()
                known = histories.facts(history.harness)
                for scope in history.scopes(4):
                    name, only = (
                        rng.choice((*NAMES, *NAMES, "never")),
                        rng.choice((None, None, "plan", "", "never")),
                    )
                    limit = rng.choice((1, 2, 10))
                    for _ in range(2):
                        found = ask(history.harness, scope, name, only, limit)
                        assert found.exact or most < 8_000_000
                        if found.exact:
                            check(found, known, scope, name, only, limit)
                        else:
                            check_bounds(found, known, scope, name, only, has_all=False)
        finally:
            event_data.MAX_BYTES, event_data._MAX_CACHED_BYTES = usual
            history.harness.close()


def day_of(harness: RollupHarness) -> Scope:
    """The day before today."""
    begin_ms = (harness.now_ms // DAY_MS - 1) * DAY_MS
    return harness.scope(begin_ms, begin_ms + DAY_MS)


def send(harness: RollupHarness, *data: str | None, who: str = "session-1") -> None:
    """Send events of one visitor, a millisecond apart."""
    begin_ms = day_of(harness).from_ms + 600 * 60_000
    facts = [(begin_ms + n, 2, who, texts("/", "mobile", "signup")) for n in range(len(data))]
    harness.send(*facts, data=data)


SCALARS = (
    *(
        None,
        False,
        True,
        -1e308,
        -(2**63),
        -(2**53) - 1,
        -1.5,
        -5e-324,
        0,
        5e-324,
        0.1,
        1,
        1.5,
        2**53 - 1,
        2**53,
        2**53 + 1,
    ),
    *(
        2**63 - 1,
        2**63,
        2**64 - 2049,
        2**64 - 2048,
        2**64 - 1,
        2.0**64,
        1e308,
        "",
        "0",
        "1",
        "A",
        "a",
        "é",
        "\uffff",
        "\U0001f600",
    ),
)


def test_bytes_are_in_the_order_of_the_values() -> None:
    """Equal values have the same bytes, from which the value can be read again."""
    written = [scalars.written(value) for value in SCALARS]
    assert sorted(set(written)) == written
    assert [scalars.read(value) for value in written] == list(SCALARS)
    assert [type(scalars.read(value)) for value in written] == [type(value) for value in SCALARS]
    for one, other in ((1, 1.0), (0, -0.0), (2**60, 2.0**60), (-(2**63), -(2.0**63))):
        assert scalars.written(one) == scalars.written(other)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**64 - 1)))
def test_numbers_are_in_their_order(numbers: list[float]) -> None:
    written = sorted((scalars.written(number) for number in numbers), key=bytes)
    assert [scalars.read(value) for value in written] == sorted(numbers)


def test_sums_do_not_depend_on_the_order(harness: RollupHarness) -> None:
    """Large values cancel out exactly; a sum that is not a finite double is null."""
    send(harness, *(f'{{"a":{number}}}' for number in ("1e308", "1e308", "1", "-1e308", "-1e308")))
    send(harness, *['{"b":0.1}'] * 10, '{"c":1e308}', '{"c":1e308}', '{"d":18446744073709551615}', '{"d":1}')
    numbers = {one.name: one.numbers for one in ask(harness, day_of(harness), "signup").first}
    figures = {name: of and (of.sum, of.mean) for name, of in numbers.items()}
    assert figures == {"a": (1, 0.2), "b": (1.0, 0.1), "c": (None, 1e308), "d": (2.0**64, 2**63)}


def test_one_visitor_with_more_values_than_fit(harness: RollupHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only properties with too many values lose some; totals stay exact."""
    send(harness, *(f'{{"plan":"{"pro" if n % 3 else "team"}","id":"{n}","n":{n}.5}}' for n in range(300)))
    send(harness, '{"plan":"pro","id":"7","n":7.5}', '{"id":"7"}', who="session-2")
    known, scope = histories.facts(harness), day_of(harness)
    monkeypatch.setattr(event_data, "MAX_BYTES", 40_000)
    found = ask(harness, scope, "signup")
    assert (found.events, found.visitors, found.properties, found.exact) == (302, 2, 3, False)
    of = {one.name: one for one in found.first}
    check_bounds(found, known, scope, "signup", None)
    assert [(one.name, one.events, one.exact) for one in found.first] == [
        ("id", 302, False),
        ("n", 301, False),
        ("plan", 301, True),
    ]
    assert of["plan"].values == [("pro", 201, 2), ("team", 100, 1)]
    true = histories.numbers(histories.values(known, scope, "signup")["n"])
    numbers = of["n"].numbers
    assert true is not None
    assert numbers is not None
    assert (numbers.samples, numbers.sum, numbers.min, numbers.max) == (301, float(true["sum"]), 0.5, 299.5)
    assert numbers.percentiles == (None, None)
    assert 20 < of["id"].distinct < 300
    # A single property can use all of the memory.
    check(ask(harness, scope, "signup", "plan"), known, scope, "signup", "plan", 10)


def test_more_properties_than_fit(harness: RollupHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    send(harness, *(f'{{"plan":"pro","p{n}":1}}' for n in range(200)))
    monkeypatch.setattr(event_data, "MAX_BYTES", 40_000)
    found = ask(harness, day_of(harness), "signup")
    assert (found.events, found.visitors, found.exact) == (200, 1, False)
    assert (found.first[0].name, found.first[0].events, found.first[0].exact) == ("plan", 200, False)
    assert 10 < found.properties < 201


def test_a_property_that_was_dropped_and_occurs_again(harness: RollupHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the figures of its later events, and is not exact; asked for by its name, it is."""
    send(harness, '{"seats":1}', *(f'{{"plan":1,"p{n}":1}}' for n in range(200)))
    harness.build()
    harness.advance(DAY_MS)
    send(harness, '{"seats":7}', '{"seats":9}')
    monkeypatch.setattr(event_data, "MAX_BYTES", 40_000)
    scope = day_of(harness)._replace(from_ms=day_of(harness).from_ms - DAY_MS)
    of = {one.name: one for one in ask(harness, scope, "signup").first}
    assert (of["seats"].events, of["seats"].exact) == (2, False)
    assert of["seats"].numbers == (2, 16.0, 8.0, 7, (None, None), 9)
    (only,) = ask(harness, scope, "signup", "seats").first
    assert (only.events, only.numbers, only.exact) == (3, (3, 17.0, 17 / 3, 1, (7, 9), 9), True)


def test_large_days_are_cached(harness: RollupHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated query over more values than one cached day can hold reads no event and gives the same result."""
    scope = day_of(harness)
    send(harness, *(f'{{"id":"{n}","n":{n}.25,"plan":"pro"}}' for n in range(300)))
    harness.build()
    for max_bytes in (event_data.MAX_BYTES, 40_000):
        monkeypatch.setattr(event_data, "MAX_BYTES", max_bytes)
        monkeypatch.setattr(event_data, "_MAX_CACHED_BYTES", 8_000)
        harness.cache = ResultCache()
        first = ask(harness, scope, "signup")
        statements: list[str] = []
        harness.reader.set_trace_callback(statements.append)
        assert ask(harness, scope, "signup") == first
        harness.reader.set_trace_callback(None)
        assert not [statement for statement in statements if "from event" in statement]
        assert first.exact == (max_bytes > 40_000)


def test_finished_days_are_cached(harness: RollupHarness) -> None:
    """A repeated query reads none of their events; a late event invalidates the day."""
    scope = day_of(harness)
    send(harness, '{"plan":"pro"}', '{"plan":"pro"}')
    harness.build()
    first = ask(harness, scope, "signup")
    statements: list[str] = []
    harness.reader.set_trace_callback(statements.append)
    assert ask(harness, scope, "signup") == first
    assert not [statement for statement in statements if "from event" in statement]
    assert ask(harness, scope, "signup", "plan").first == first.first
    send(harness, '{"plan":"pro"}', who="session-2")
    (only,) = ask(harness, scope, "signup").first
    assert only.values == [("pro", 3, 2)]


def test_days_beyond_retention(harness: RollupHarness) -> None:
    """Rejected, cached or not, also if no event has the name."""
    scope = day_of(harness)
    send(harness, '{"plan":"pro"}')
    harness.build()
    ask(harness, scope, "signup")
    harness.writer.execute("update rollup_state set state = ? where level = 0", (KEPT,))
    for name in ("signup", "never"):
        with pytest.raises(BeyondRetention) as gone:
            ask(harness, scope, name)
        assert gone.value.from_ms == scope.to_ms


def test_all_of_many_properties(harness: RollupHarness) -> None:
    """The first fifty are returned in order, with the total number; a requested one is always returned."""
    send(harness, *(json.dumps({f"p{m}": 1 for m in range(n, 60)}, separators=(",", ":")) for n in range(60)))
    found = ask(harness, day_of(harness), "signup")
    assert (found.properties, [one.name for one in found.first]) == (60, [f"p{59 - n}" for n in range(50)])
    assert [one.name for one in ask(harness, day_of(harness), "signup", "p0").first] == ["p0"]
