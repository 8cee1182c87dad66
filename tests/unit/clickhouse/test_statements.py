"""What clients choose is never part of a statement: texts travel as parameters, escaped as ClickHouse reads them."""

import re
from collections.abc import Callable

import pytest

from tally.clickhouse import behaviour, listing, measured, traffic
from tally.clickhouse.client import Parameters
from tally.clickhouse.rows import scalar_of, stored_scalar
from tally.clickhouse.schema import TABLES, create_table
from tally.clickhouse.traffic import conversions
from tally.clickhouse.visits import Traffic, TrafficDay, condition
from tally.engine.values import Conversions, FunnelStep, Goal, Place, Scope, TopQuery
from tally.events.dimensions import FIELDS
from tally.events.filters import OPERATORS, Filter
from tests.support.cases import cases

HOSTILE = "o'x\\') or 1=1 --"
FILTERS = tuple(Filter(field, operator, (HOSTILE,)) for field in ("pathname", "entry_page") for operator in OPERATORS)
PROPERTIES = tuple(Filter(f"prop.{HOSTILE}", operator, (HOSTILE, "1")) for operator in OPERATORS)
GOAL = Goal(PROPERTIES, HOSTILE)
DAYS = (TrafficDay(20_000, 2, 5, False), TrafficDay(20_001, 1, 7, True), TrafficDay(20_002, 0, 0, True))
EVENTS = Traffic(Scope(1, 20_000 * 86_400_000, 20_003 * 86_400_000, FILTERS + PROPERTIES), 1_000, DAYS)
SUMS = Traffic(EVENTS.scope._replace(filters=(), whole_days=EVENTS.scope[1:3]), EVENTS.last_id, DAYS, [20_000, 20_002])
STEPS = [FunnelStep("pathname", HOSTILE), FunnelStep("", "", PROPERTIES)]
START = ("pathname", HOSTILE)
QUERY = TopQuery("pathname", 5, goal=GOAL, order="conversion_rate", has_visits=True)
BUILT: list[Callable[[Parameters], str]] = [
    lambda own: traffic.figures(own, EVENTS, "referrer", [GOAL], values=[HOSTILE]),
    lambda own: traffic.figures(own, SUMS, "referrer", [], values=[HOSTILE]),
    lambda own: traffic.visit_pages(own, SUMS, "entry_page", 5, [HOSTILE]),
    lambda own: traffic.series(own, EVENTS, [0, 1], [GOAL]),
    lambda own: traffic.top(own, EVENTS, QUERY),
    lambda own: traffic.top(own, EVENTS, QUERY._replace(order="time_on_page")),
    lambda own: traffic.visit_pages(own, EVENTS, "entry_page", 5, [HOSTILE]),
    lambda own: behaviour.funnel(own, EVENTS, STEPS),
    lambda own: behaviour.journey_steps(own, EVENTS, START, "next", 2, 5),
    lambda own: behaviour.journey_links(own, EVENTS, START, "previous", [[START], []]),
    lambda own: behaviour.event_data(own, EVENTS, HOSTILE, HOSTILE),
    lambda own: measured.leaves(own, EVENTS, "pathname", [HOSTILE]),
    lambda own: measured.vitals(own, EVENTS, "''", ["lcp"], [HOSTILE]),
    lambda own: measured.poorest(own, EVENTS, "pathname", "lcp", 5),
    lambda own: measured.trials(own, EVENTS, 5),
    lambda own: measured.largest_experiments(own, EVENTS),
    lambda own: measured.trials_of(own, EVENTS, [HOSTILE]),
    lambda own: measured.numbers_of_trials(own, EVENTS, [HOSTILE]),
    lambda own: measured.clicks(own, 1, HOSTILE, range(2), [0], 5),
    lambda own: measured.depths(own, 1, HOSTILE, range(2), [0]),
    lambda own: listing.events(own, EVENTS, Place(1, 1, 1), 5, False),
]


@cases("build", BUILT)
def test_no_text_is_part_of_a_statement(build: Callable[[Parameters], str]) -> None:
    parameters = Parameters()
    statement = build(parameters)
    assert "1=1" not in statement
    assert any("1=1" in value for value in parameters.values.values())
    # Every parameter is used, and those that are used are sent.
    assert set(re.findall(r"\{(p\d+):", statement)) == set(parameters.values)


def test_texts_are_escaped() -> None:
    parameters = Parameters()
    assert parameters.text("a'b\\c\td\n\0") == "{p0:String}"
    assert parameters.texts(["a'b", "c\\"]) == "{p1:Array(String)}"
    assert parameters.steps([[("pathname", "'")], []]) == "{p2:Array(Array(Tuple(String, String)))}"
    assert parameters.values == {
        "p0": "a\\'b\\\\c\\td\\n\\0",
        "p1": "['a\\'b','c\\\\']",
        "p2": "[[('pathname','\\'')],[]]",
    }


@cases("value", ["", "s", "1", 1, 1.0, 2.5, -3, 0, -0.0, 10**18, 2**64 - 1, 1e300, True, False, None, "\0ü"])
def test_scalars(value: object) -> None:
    text = stored_scalar(value)
    read = scalar_of(text)
    assert (read, isinstance(read, bool)) == (value, isinstance(value, bool))


def test_equal_scalars_have_equal_texts() -> None:
    assert stored_scalar(1) == stored_scalar(1.0) != stored_scalar("1")
    assert len({stored_scalar(value) for value in (1, True, "1", "true", None, "null", 0, False)}) == 8


def test_a_property_that_is_absent_is_the_empty_text() -> None:
    for operator, values, accepts in (("=", ("",), True), ("=", ("x",), False), ("!=", ("x",), True)):
        sql = condition([Filter("prop.plan", operator, values)], Parameters(), of_measures=True)  # type: ignore[arg-type]
        assert sql.endswith("1" if operator == "=" and accepts else "0")
        assert ("not 0" in sql) == (operator == "!=")


def test_values_of_conversions() -> None:
    """Only numbers, and texts of decimal numbers, have a value; the sum is exact."""
    counts = {"s29.90": 2, "0.1": 3, "true": 1, "sx": 1, "": 4, "null": 1}
    found = conversions(Goal((), "price"), [12, 5, [list(counts), list(counts.values())]])
    assert found == Conversions(12, 5, 60_100_000, 7)
    assert conversions(Goal(()), [3, 2, [[], []]]) == Conversions(3, 2)
    assert conversions(Goal((), "price"), []) == Conversions()


@pytest.mark.parametrize("is_replicated", [False, True])
def test_tables(is_replicated: bool) -> None:
    created = [create_table(table, is_replicated=is_replicated) for table in TABLES]
    assert all("fsync_after_insert = 1" in one for one in created)
    assert all(("ReplicatedMergeTree" in one) == is_replicated for one in created)
    assert all(f"{field} LowCardinality(String)" in created[0] for field in FIELDS)
