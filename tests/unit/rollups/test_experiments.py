"""tally/rollups/experiments.py and tally/reports/experiments.py against plain lists of what was sent, in the order in
which it came.
"""

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tally.events.dimensions import FIELDS
from tally.events.validation import AB_ASSIGN, AB_CONVERT
from tally.reports import experiments, significance
from tally.reports.coverage import BeyondRetention
from tally.rollups import experiments as experiment_rollups
from tally.rollups.rollup_state import KEPT
from tally.rollups.verify import EXPERIMENTS as WRONG_EXPERIMENTS
from tally.rollups.verify import verdicts
from tally.storage.database import open_database, transaction
from tally.storage.sql.events import Scope
from tally.timestamps import DAY_MS
from tests.support.app import NOON_MS, App

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


class World:
    """A file, and a plain list of what it was given."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.connection = open_database(path, create=True)
        self.connection.execute("pragma synchronous = off")
        self.sent: list[Sent] = []
        texts = sorted({*EXPERIMENTS, *VARIANTS, *GOALS, *DEVICES} - {""})
        with transaction(self.connection):
            self.connection.executemany("insert into label (text) values (?)", [(text,) for text in texts])
        self.number = dict(self.connection.execute("select text, id from label"))

    def some(self, count: int) -> list[Sent]:
        chance = self.chance
        found = []
        for _ in range(count):
            visitor = chance.randrange(60)
            convert = chance.random() < 0.5
            found.append(
                Sent(
                    chance.randrange(FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS),
                    AB_CONVERT if convert else AB_ASSIGN,
                    visitor,
                    DEVICES[visitor % 2],
                    chance.choice(EXPERIMENTS),
                    chance.choice(VARIANTS),
                    chance.choice(GOALS) if convert else "",
                )
            )
        return found

    def add(self, more: list[Sent]) -> None:
        """Stores events as a commit does; a visitor's number is another one each day."""
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

    def visitor(self, one: Sent) -> int:
        return one.day * 1_000 + one.visitor

    def wrong(self) -> list[int]:
        return [verdict.block for verdict in verdicts(self.connection, 1) if verdict.fault == WRONG_EXPERIMENTS]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "analytics.db", 5)
    with closing(world.connection):
        yield world


def plain(sent: list[Sent], scope: Scope) -> dict[tuple[int, str, str, int, str], int]:
    """The counts by their definition: the day's first assignment, by time and then as it came, says the variant."""
    first: dict[tuple[int, str, int], str] = {}
    for one in sorted(sent, key=lambda one: one.ts_ms):
        if one.type == AB_ASSIGN:
            first.setdefault((one.day, one.experiment, one.visitor), one.variant)
    inside = [one for one in sent if scope.from_ms <= one.ts_ms < scope.to_ms]
    own = {
        (one.day, one.experiment, one.visitor)
        for one in inside
        if one.type == AB_ASSIGN and all(getattr(one, field) in values for field, values in scope.filters)
    }
    people: dict[tuple[int, str, str, int, str], set[int]] = {}
    for day, experiment, visitor in own:
        people.setdefault((day, experiment, first[day, experiment, visitor], 0, ""), set()).add(visitor)
    for one in inside:
        who = one.day, one.experiment, one.visitor
        if one.type == AB_CONVERT and who in own:
            people.setdefault((one.day, one.experiment, first[who], 1, one.goal), set()).add(one.visitor)
    return {place: len(visitors) for place, visitors in people.items()}


def scopes(chance: random.Random) -> Iterator[Scope]:
    begin, end = FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS
    yield Scope(1, begin, end)
    for n in range(40):
        from_ms, to_ms = sorted(chance.randrange(begin, end) for _ in range(2))
        if n % 2:
            from_ms, to_ms = from_ms // DAY_MS * DAY_MS, -(-to_ms // DAY_MS) * DAY_MS
        yield Scope(1, from_ms, to_ms, (("device", ("mobile",)),) if n % 3 == 0 else ())


def test_against_plain_lists(world: World) -> None:
    """Whatever the order in which assignments and conversions came, by days and by milliseconds, with and without
    filters."""
    for _ in range(4):
        world.add(world.some(400))
        for scope in scopes(world.chance):
            found = experiments.rows(world.connection, scope)
            assert found == sorted(found)
            assert {row[:5]: row[5] for row in found} == plain(world.sent, scope)
            assert len({row[:5] for row in found}) == len(found)
    assert world.wrong() == []


def test_what_is_concluded(world: World) -> None:
    world.add(world.some(1_200))
    scope = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    counts = plain(world.sent, scope)
    found, left_out = experiments.experiments(world.connection, scope)
    assert ([experiment.name for experiment in found], left_out) == (EXPERIMENTS, 0)
    for experiment in found:
        assert list(experiment.visitors) == ["Control", "a", "b"], "the baseline first"
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


def test_nobody_and_nothing(world: World) -> None:
    scope = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    assert experiments.experiments(world.connection, scope) == ([], 0)
    # Conversions of nobody who was assigned are in no figure; one variant alone is compared with nothing.
    world.add([Sent(FIRST_DAY * DAY_MS, AB_CONVERT, 1, "mobile", "price", "a", "buy")])
    assert experiments.experiments(world.connection, scope) == ([], 0)
    world.add([Sent(FIRST_DAY * DAY_MS, AB_ASSIGN, 2, "mobile", "price", "a", "")])
    (only,), _ = experiments.experiments(world.connection, scope)
    assert only == experiments.Experiment("price", {"a": 1}, None, [])


def test_names_that_somebody_made_up(world: World) -> None:
    """Thousands of variants and goals of one experiment would be millions of figures; those of most visitors stay."""
    world.add(world.some(1_200))
    scope = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    before, _ = experiments.experiments(world.connection, scope)
    button = world.number["button"]
    made_up = 3_000
    with transaction(world.connection):
        world.connection.executemany(
            "insert into label values (?, ?)", [(1_000 + n, f"\U0001f600{n}") for n in range(made_up)]
        )
        # One visitor each: variants of the one, with a goal of their own, and experiments.
        world.connection.executemany(
            "insert into experiment_total values (1, ?, ?, ?, ?, ?, 1)",
            [
                (FIRST_DAY, *row)
                for n in range(1_000, 1_000 + made_up)
                for row in ((button, n, 0, 0), (button, n, 1, n), (n, n, 0, 0))
            ],
        )
    found, left_out = experiments.experiments(world.connection, scope)
    assert (len(found), left_out) == (experiments.MAX_EXPERIMENTS, 2 + made_up - experiments.MAX_EXPERIMENTS)
    assert found[1] == before[1]
    own = found[0]
    assert own.left_out == (3 + made_up - experiments.MAX_VARIANTS, 3 + made_up - experiments.MAX_GOALS)
    assert list(own.visitors)[:3] == ["Control", "a", "b"]
    assert {(goal.goal, arm.variant): arm.conversions for goal in before[0].goals for arm in goal.arms}.items() <= {
        (goal.goal, arm.variant): arm.conversions for goal in own.goals for arm in goal.arms
    }.items()


@pytest.mark.parametrize("filters", [(), (("device", ("mobile",)),)])
def test_more_counts_than_are_read(
    filters: tuple[tuple[str, tuple[str, ...]], ...], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: 400. The largest experiments that fit are returned, as they are where all of them fit."""
    world.add(world.some(400))
    # From within a day on: counts of whole days and raw rows.
    scope = Scope(1, FIRST_DAY * DAY_MS + 1, (FIRST_DAY + DAYS) * DAY_MS, filters)
    every, _ = experiments.experiments(world.connection, scope)
    sizes = Counter(row[1] for row in experiments.rows(world.connection, scope))
    ranked = sorted(every, key=lambda one: (-sum(one.visitors.values()), one.name))
    assert len(ranked) == 2
    for most in (sum(sizes.values()), sum(sizes.values()) - 1, 1):
        monkeypatch.setattr(experiments, "MAX_ROWS", most)
        fitting = 2 if most == sum(sizes.values()) else 1
        assert experiments.experiments(world.connection, scope) == (
            sorted(ranked[:fitting], key=lambda one: one.name),
            2 - fitting,
        )
    # Only variants and goals with the most visitors are read.
    for name in ("MAX_VARIANTS", "MAX_GOALS"):
        monkeypatch.setattr(experiments, name, 2)
    monkeypatch.setattr(experiments, "MAX_ROWS", 200_000)
    (first, *_), _ = experiments.experiments(world.connection, scope)
    monkeypatch.setattr(experiments, "MAX_ROWS", sum(sizes.values()) - 1)
    found, left_out = experiments.experiments(world.connection, scope)
    assert first in found
    assert left_out == 2 - len(found)


def test_where_raw_rows_are_gone(world: World) -> None:
    """Whole days are told from counts; what is cut off them, or filtered, is refused."""
    world.add(world.some(800))
    scope = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    before = experiments.rows(world.connection, scope)
    gone = FIRST_DAY + 3
    with transaction(world.connection):
        world.connection.execute("insert into rollup_state values (1, 0, ?, ?, 0, 1)", (gone - 1, KEPT))
        world.connection.execute("delete from experiment_event where ts < ?", (gone * DAY_MS,))
        world.connection.execute("delete from experiment_assignment where day < ?", (gone,))
        world.connection.execute("delete from experiment_conversion where day < ?", (gone,))
    assert experiments.rows(world.connection, scope) == before
    assert world.wrong() == []
    for cut in (scope._replace(from_ms=scope.from_ms + 1), scope._replace(filters=(("device", ("mobile",)),))):
        with pytest.raises(BeyondRetention):
            experiments.rows(world.connection, cut)


@pytest.mark.parametrize(
    "damage",
    [
        "update experiment_total set visitors = visitors + 1 where day = 20481",
        "delete from experiment_total where day = 20481 and converted = 1",
        "insert into experiment_total values (1, 20481, 1, 77, 0, 0, 5)",
    ],
)
def test_damage_is_seen_and_mended(world: World, damage: str) -> None:
    world.add(world.some(300))
    with transaction(world.connection):
        world.connection.execute(damage)
    assert world.wrong() == [20_481]
    with transaction(world.connection):
        experiment_rollups.repair(world.connection, 1, 20_481)
    assert world.wrong() == []


async def test_by_way_of_collect(app: App) -> None:
    """First assignment wins; conversions count once a visitor and goal; without an assignment none is counted."""
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
    await send("2", "ab_convert", goal="buy", variant="b")  # its assignment comes late
    await send("2", "ab_assign", variant="b")
    await send("3", "ab_convert", goal="buy", variant="b")  # and here none does
    await send("4", "ab_assign", variant="b")

    def counts() -> list[tuple[str, int, int]]:
        return sorted(
            app.sql("select (select text from label where id = variant), converted, visitors from experiment_total")
        )

    assert counts() == [("a", 0, 1), ("a", 1, 1), ("b", 0, 2), ("b", 1, 1)]
    # The first is the first by timestamp, also where it arrives last; then the visitor's conversions move along.
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
