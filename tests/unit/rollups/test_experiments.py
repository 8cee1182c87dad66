"""Figures of experiments (tally/rollups/experiments.py, tally/reports/experiments.py) against plain lists of events."""

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tally.columns import read
from tally.columns.statements import EXPERIMENTS as EXPERIMENTS_SOURCE
from tally.engine.values import BeyondRetention, Experiment, Scope
from tally.events.dimensions import FIELDS
from tally.events.filters import Filter
from tally.events.validation import AB_ASSIGN, AB_CONVERT
from tally.maintenance.verify import EXPERIMENTS as WRONG_EXPERIMENTS
from tally.maintenance.verify import verdicts
from tally.reports import experiments, significance
from tally.reports.cache import ResultCache
from tally.rollups import experiments as experiment_rollups
from tally.rollups.rollup_state import KEPT
from tally.storage.database import snapshot, transaction
from tally.timestamps import DAY_MS
from tests.support.app import NOON_MS, App, new_database
from tests.support.rollup_database import pack_measurements

FIRST_DAY, DAYS = 20_480, 6
EXPERIMENTS = ["button", "price"]
VARIANTS = ["a", "b", "Control"]
GOALS = ["buy", "sign up", ""]
DEVICES = ["desktop", "mobile"]


class Sent(NamedTuple):
    ts_ms: int
    type: int
    visitor: int
    device: str
    experiment: str
    variant: str
    goal: str

    @property
    def day(self) -> int:
        return self.ts_ms // DAY_MS


class ExperimentDatabase:
    """A database and the list of the events stored in it, in the order of arrival."""

    def __init__(self, path: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.connection = new_database(path)
        self.connection.execute("pragma synchronous = off")
        self.sent: list[Sent] = []
        texts = sorted({*EXPERIMENTS, *VARIANTS, *GOALS, *DEVICES} - {""})
        with transaction(self.connection):
            self.connection.executemany("insert into label (text) values (?)", [(text,) for text in texts])
        self.number = dict(self.connection.execute("select text, id from label"))
        self.cache = ResultCache()

    def random_events(self, count: int) -> list[Sent]:
        rng = self.rng
        found = []
        for _ in range(count):
            visitor = rng.randrange(60)
            convert = rng.random() < 0.5
            found.append(
                Sent(
                    rng.randrange(FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS),
                    AB_CONVERT if convert else AB_ASSIGN,
                    visitor,
                    DEVICES[visitor % 2],
                    rng.choice(EXPERIMENTS),
                    rng.choice(VARIANTS),
                    rng.choice(GOALS) if convert else "",
                )
            )
        return found

    def add(self, more: list[Sent]) -> None:
        """Store events as a commit does; a visitor has another number on each day."""
        with transaction(self.connection):
            for n, one in enumerate(more, len(self.sent) + 1):
                labels = dict.fromkeys(FIELDS, 0) | {"device": self.number[one.device]}
                names = [self.number[text] for text in (one.experiment, one.variant, one.goal)]
                row = (1, one.ts_ms, n, one.type, self.visitor(one), *labels.values(), *names, None)
                self.connection.execute(f"insert into experiment_event values ({', '.join('?' * len(row))})", row)
                key = 1, one.day, names[0], self.visitor(one)
                if one.type == AB_ASSIGN:
                    experiment_rollups.assign(
                        self.connection, {key: experiment_rollups.Assignment(one.ts_ms, n, names[1])}
                    )
                else:
                    experiment_rollups.convert(self.connection, [(key, names[2])])
        self.sent += more

    def rows(self, scope: Scope) -> list[experiments.Row]:
        with snapshot(self.connection):
            return experiments.rows(self.connection, scope, self.cache)

    def experiments(self, scope: Scope) -> tuple[list[Experiment], int]:
        with snapshot(self.connection):
            return experiments.experiments(self.connection, scope, self.cache)

    def visitor(self, one: Sent) -> int:
        return one.day * 1_000 + one.visitor

    def wrong_days(self) -> list[int]:
        return [verdict.block for verdict in verdicts(self.connection, 1) if verdict.fault == WRONG_EXPERIMENTS]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[ExperimentDatabase]:
    database = ExperimentDatabase(tmp_path / "analytics.db", 5)
    with closing(database.connection):
        yield database


def expected_counts(sent: list[Sent], scope: Scope) -> dict[tuple[int, str, str, int, str], int]:
    """Return the counts by their definition: the first assignment of a day, by time then arrival, sets the variant."""
    first: dict[tuple[int, str, int], str] = {}
    for one in sorted(sent, key=lambda one: one.ts_ms):
        if one.type == AB_ASSIGN:
            first.setdefault((one.day, one.experiment, one.visitor), one.variant)
    inside = [one for one in sent if scope.from_ms <= one.ts_ms < scope.to_ms]
    own = {
        (one.day, one.experiment, one.visitor)
        for one in inside
        if one.type == AB_ASSIGN and all(of.accepts(getattr(one, of.field)) for of in scope.filters)
    }
    visitors_by_key: dict[tuple[int, str, str, int, str], set[int]] = {}
    for day, experiment, visitor in own:
        visitors_by_key.setdefault((day, experiment, first[day, experiment, visitor], 0, ""), set()).add(visitor)
    for one in inside:
        key = one.day, one.experiment, one.visitor
        if one.type == AB_CONVERT and key in own:
            visitors_by_key.setdefault((one.day, one.experiment, first[key], 1, one.goal), set()).add(one.visitor)
    return {place: len(visitors) for place, visitors in visitors_by_key.items()}


def scopes(rng: random.Random) -> Iterator[Scope]:
    begin, end = FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS
    yield Scope(1, begin, end)
    for n in range(40):
        from_ms, to_ms = sorted(rng.randrange(begin, end) for _ in range(2))
        if n % 2:
            from_ms, to_ms = from_ms // DAY_MS * DAY_MS, -(-to_ms // DAY_MS) * DAY_MS
        yield Scope(1, from_ms, to_ms, (Filter("device", "=", ("mobile",)),) if n % 3 == 0 else ())


@pytest.mark.parametrize("most", [read.MAX_EVENTS, 1])
def test_counts_equal_plain_lists(database: ExperimentDatabase, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges in days and in milliseconds, with and without filters, for assignments and conversions in any order.

    Of days with rows, with columns, and with both. most: events of a batch.
    """
    monkeypatch.setattr(read, "MAX_EVENTS", most)
    for step in range(4):
        database.add(database.random_events(400))
        days = range(FIRST_DAY, FIRST_DAY + DAYS)
        pack_measurements(database.connection, EXPERIMENTS_SOURCE, database.rng.sample(days, step + 2))
        for scope in scopes(database.rng):
            found = database.rows(scope)
            assert found == sorted(found)
            assert {row[:5]: row[5] for row in found} == expected_counts(database.sent, scope)
            assert len({row[:5] for row in found}) == len(found)
    assert database.wrong_days() == []


def test_statistics_of_experiments(database: ExperimentDatabase) -> None:
    database.add(database.random_events(1_200))
    scope = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    counts = expected_counts(database.sent, scope)
    found, omitted = database.experiments(scope)
    assert ([experiment.name for experiment in found], omitted) == (EXPERIMENTS, 0)
    for experiment in found:
        assert list(experiment.visitors) == ["Control", "a", "b"], "the baseline comes first"
        assert experiment.split_p_value == significance.split_p_value(list(experiment.visitors.values()))
        assert [goal.goal for goal in experiment.goals] == sorted(GOALS)
        for goal in experiment.goals:
            base, *others = goal.arms
            assert (base.lift, base.p_value, base.p_value_any_time) == (None, None, None)
            p_values = []
            for arm in goal.arms:
                own = {k: v for k, v in counts.items() if k[1:3] == (experiment.name, arm.variant)}
                assert arm.visitors == sum(n for k, n in own.items() if not k[3])
                assert arm.conversions == sum(n for k, n in own.items() if k[3:] == (1, goal.goal))
                assert arm.interval == significance.wilson(arm.conversions, arm.visitors)
                if arm is not base:
                    assert arm.lift == pytest.approx(
                        arm.conversions / arm.visitors / (base.conversions / base.visitors) - 1
                    )
                    p_values.append(
                        significance.pooled_p_value((base.conversions, arm.conversions), (base.visitors, arm.visitors))
                    )
            assert None not in p_values
            assert [arm.p_value for arm in others] == significance.holm([p for p in p_values if p is not None])
            assert all(arm.p_value_any_time and arm.p_value and arm.p_value_any_time >= 0 for arm in others)


def test_without_assignments_or_with_one_variant(database: ExperimentDatabase) -> None:
    scope = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    assert database.experiments(scope) == ([], 0)
    # Conversions without an assignment are not counted; a single variant is not compared.
    database.add([Sent(FIRST_DAY * DAY_MS, AB_CONVERT, 1, "mobile", "price", "a", "buy")])
    assert database.experiments(scope) == ([], 0)
    database.add([Sent(FIRST_DAY * DAY_MS, AB_ASSIGN, 2, "mobile", "price", "a", "")])
    (only,), _ = database.experiments(scope)
    assert only == Experiment("price", {"a": 1}, None, [])


def test_variants_and_goals_are_bounded(database: ExperimentDatabase) -> None:
    """Only the variants and goals with the most visitors are returned, even if clients send thousands of names."""
    database.add(database.random_events(1_200))
    scope = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    before, _ = database.experiments(scope)
    button = database.number["button"]
    invented = 3_000
    with transaction(database.connection):
        database.connection.executemany(
            "insert into label values (?, ?)", [(1_000 + n, f"\U0001f600{n}") for n in range(invented)]
        )
        # One visitor for each variant of `button`, each with its own goal, and for each experiment.
        database.connection.executemany(
            "insert into experiment_total values (1, ?, ?, ?, ?, ?, 1)",
            [
                (FIRST_DAY, *row)
                for n in range(1_000, 1_000 + invented)
                for row in ((button, n, 0, 0), (button, n, 1, n), (n, n, 0, 0))
            ],
        )
    found, omitted = database.experiments(scope)
    assert (len(found), omitted) == (experiments.MAX_EXPERIMENTS, 2 + invented - experiments.MAX_EXPERIMENTS)
    assert found[1] == before[1]
    own = found[0]
    assert own.omitted == (3 + invented - experiments.MAX_VARIANTS, 3 + invented - experiments.MAX_GOALS)
    assert list(own.visitors)[:3] == ["Control", "a", "b"]
    assert {(goal.goal, arm.variant): arm.conversions for goal in before[0].goals for arm in goal.arms}.items() <= {
        (goal.goal, arm.variant): arm.conversions for goal in own.goals for arm in goal.arms
    }.items()


@pytest.mark.parametrize("filters", [(), (Filter("device", "=", ("mobile",)),)])
def test_counts_beyond_the_row_limit(
    filters: tuple[Filter, ...], database: ExperimentDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there are more counts than are read, the largest experiments that fit are returned with the same figures."""
    database.add(database.random_events(400))
    # The range begins within a day, so counts of whole days and raw rows are read.
    scope = Scope(1, FIRST_DAY * DAY_MS + 1, (FIRST_DAY + DAYS) * DAY_MS, filters)
    every, _ = database.experiments(scope)
    sizes = Counter(row[1] for row in database.rows(scope))
    ranked = sorted(every, key=lambda one: (-sum(one.visitors.values()), one.name))
    assert len(ranked) == 2
    for most in (sum(sizes.values()), sum(sizes.values()) - 1, 1):
        monkeypatch.setattr(experiments, "MAX_ROWS", most)
        fitting = 2 if most == sum(sizes.values()) else 1
        assert database.experiments(scope) == (
            sorted(ranked[:fitting], key=lambda one: one.name),
            2 - fitting,
        )
    # Only variants and goals with the most visitors are read.
    for name in ("MAX_VARIANTS", "MAX_GOALS"):
        monkeypatch.setattr(experiments, name, 2)
    monkeypatch.setattr(experiments, "MAX_ROWS", 200_000)
    (first, *_), _ = database.experiments(scope)
    monkeypatch.setattr(experiments, "MAX_ROWS", sum(sizes.values()) - 1)
    found, omitted = database.experiments(scope)
    assert first in found
    assert omitted == 2 - len(found)


def test_days_without_raw_rows(database: ExperimentDatabase) -> None:
    """Whole days are served from counts; partial or filtered days raise BeyondRetention."""
    database.add(database.random_events(800))
    scope = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    before = database.rows(scope)
    gone = FIRST_DAY + 3
    with transaction(database.connection):
        database.connection.execute("insert into rollup_state values (1, 0, 0, ?, ?, 0, 1)", (gone - 1, KEPT))
        database.connection.execute("delete from experiment_event where ts < ?", (gone * DAY_MS,))
        database.connection.execute("delete from experiment_assignment where day < ?", (gone,))
        database.connection.execute("delete from experiment_conversion where day < ?", (gone,))
    assert database.rows(scope) == before
    assert database.wrong_days() == []
    for cut in (
        scope._replace(from_ms=scope.from_ms + 1),
        scope._replace(filters=(Filter("device", "=", ("mobile",)),)),
    ):
        with pytest.raises(BeyondRetention):
            database.rows(cut)


@pytest.mark.parametrize(
    "damage",
    [
        "update experiment_total set visitors = visitors + 1 where day = 20481",
        "delete from experiment_total where day = 20481 and converted = 1",
        "insert into experiment_total values (1, 20481, 1, 77, 0, 0, 5)",
    ],
)
def test_damage_is_found_and_repaired(database: ExperimentDatabase, damage: str) -> None:
    database.add(database.random_events(300))
    with transaction(database.connection):
        database.connection.execute(damage)
    assert database.wrong_days() == [20_481]
    with transaction(database.connection):
        experiment_rollups.repair(database.connection, 1, 20_481)
    assert database.wrong_days() == []


async def test_counts_of_collected_events(app: App) -> None:
    """The first assignment sets the variant; conversions count once per visitor and goal, and need an assignment."""
    website = await app.website()

    async def send(session: str, kind: str, **own: Any) -> None:
        event = {
            "type": kind,
            "session_id": f"session-{session}",
            "url": "https://example.com/",
            "experiment": "button",
        }
        sent = await app.collect({"website_id": website, "events": [event | own]})
        assert sent.status == 202, sent.text

    await send("1", "ab_assign", variant="a")
    await send("1", "ab_assign", variant="b")
    await send("1", "ab_convert", goal="buy")
    await send("1", "ab_convert", goal="buy")
    await send("2", "ab_convert", goal="buy", variant="b")  # its assignment arrives late
    await send("2", "ab_assign", variant="b")
    await send("3", "ab_convert", goal="buy", variant="b")  # has no assignment
    await send("4", "ab_assign", variant="b")

    def counts() -> list[tuple[str, int, int]]:
        return sorted(
            app.sql("select (select text from label where id = variant), converted, visitors from experiment_total")
        )

    assert counts() == [("a", 0, 1), ("a", 1, 1), ("b", 0, 2), ("b", 1, 1)]
    # The first assignment is the one with the lowest timestamp, even if it arrives last; it moves the conversions too.
    await send("1", "ab_assign", variant="c", timestamp=NOON_MS - 1)
    await send("1", "ab_assign", variant="d", timestamp=NOON_MS - 1)
    await send("4", "ab_assign", variant="b", timestamp=NOON_MS - 1)
    assert counts() == [("b", 0, 2), ("b", 1, 1), ("c", 0, 1), ("c", 1, 1)]
    await send("1", "ab_convert", goal="look")
    assert app.sql(
        "select text from experiment_event, label where label.id = variant order by experiment_event.id desc limit 1"
    ) == [("c",)]
    with closing(sqlite3.connect(app.db)) as connection:
        assert [verdict for verdict in verdicts(connection, 1) if verdict.fault] == []
