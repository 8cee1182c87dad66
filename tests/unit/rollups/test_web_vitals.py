"""tally/rollups/vitals_histogram.py, tally/rollups/web_vitals.py and tally/reports/web_vitals.py against plain lists of
what was sent.

The plain answer to a question: take the values that lie in the range and match, sort them, and count. Percentiles may
differ from it by what is promised, everything else not at all.
"""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.events.dimensions import FIELDS
from tally.events.validation import METRICS, MOST_OF_METRIC
from tally.reports import web_vitals
from tally.reports.cache import ResultCache
from tally.reports.coverage import BeyondRetention
from tally.rollups import vitals_histogram
from tally.rollups import web_vitals as web_vitals_rollup
from tally.rollups.rollup_state import KEPT
from tally.rollups.vitals_histogram import RELATIVE_ERROR, THRESHOLDS
from tally.rollups.web_vitals import LEVELS, PART_MS
from tally.storage.database import open_database, transaction
from tally.storage.sql.events import Scope
from tally.timestamps import DAY_MS

FIRST_DAY = 20_480  # the beginning of a block of 64 days, and so of 8
DAYS = 80
PATHS = [f"/{n}" for n in range(12)]
DEVICES = ["desktop", "mobile", "tablet", ""]
COUNTRIES = ["DE", "FR", ""]


class Sent(NamedTuple):
    website: int
    ts_ms: int
    id: int
    pathname: str
    device: str
    country: str
    values: dict[str, float]


# --- values and cells


@st.composite
def metrics(draw: st.DrawFn) -> tuple[str, float]:
    name = draw(st.sampled_from(METRICS))
    edges = [*THRESHOLDS[name], 0, MOST_OF_METRIC[name], 1, 0.001]
    number = draw(st.one_of(st.floats(0, MOST_OF_METRIC[name]), st.sampled_from(edges), st.floats(0, 10)))
    return name, min(number, MOST_OF_METRIC[name])


def slots(name: str, value: float) -> list[int]:
    return vitals_histogram.slots_of(vitals_histogram.stored([value if metric == name else None for metric in METRICS]))


@given(metrics())
def test_a_value_alone(metric: tuple[str, float]) -> None:
    """Its percentiles are it, but for RELATIVE_ERROR, from 1 ms (0.001 of cls) on; its rating is exact."""
    name, value = metric
    value = vitals_histogram.from_stored(
        vitals_histogram.stored([value if metric == name else None for metric in METRICS])
    )[name]
    found = vitals_histogram.summary(dict.fromkeys(slots(name, value), 1), name)
    least = 0.001 if name == "cls" else 1
    assert found.samples == 1
    for percentile in found.percentiles:
        assert percentile is not None
        assert abs(percentile - value) <= RELATIVE_ERROR * value if value >= least else 0 <= percentile <= least
    good, tolerable = THRESHOLDS[name]
    assert (found.good, found.middling, found.poor) == (value <= good, good < value <= tolerable, value > tolerable)
    assert sum(map(vitals_histogram.is_poor, slots(name, value))) == found.poor


@pytest.mark.parametrize("name", METRICS)
def test_where_percentiles_begin(name: str) -> None:
    """Below 1 ms, or 0.001 of cls, they are told as 0, and from there on they are within RELATIVE_ERROR."""
    least, step = (0.001, 0.000_001) if name == "cls" else (1, 0.001)
    for value, is_told in ((least - step, False), (least, True), (least + step, True), (0.9921875 * least, False)):
        (percentile, *_) = vitals_histogram.summary(dict.fromkeys(slots(name, value), 1), name).percentiles
        assert percentile is not None
        assert abs(percentile - value) <= RELATIVE_ERROR * value if is_told else percentile == 0


@pytest.mark.parametrize(
    ("name", "good", "poor"),
    [("lcp", 2_500, 4_000), ("inp", 200, 500), ("fcp", 1_800, 3_000), ("ttfb", 800, 1_800), ("cls", 0.1, 0.25)],
)
def test_the_published_thresholds(name: str, good: float, poor: float) -> None:
    """https://web.dev/articles/vitals: good up to the first and with it, poor above the second."""
    cells: dict[int, int] = {}
    for value in (0, good, good + 0.001, poor, poor + 0.001, poor + 0.002, poor + 0.003):
        vitals_histogram.added(cells, [(slot, 1) for slot in slots(name, value)])
    assert vitals_histogram.summary(cells, name)[2:] == (2, 2, 3)


@given(st.dictionaries(st.integers(0, vitals_histogram.EVENTS), st.integers(1, 2**32 - 1)))
def test_cells_as_bytes(cells: dict[int, int]) -> None:
    assert dict(vitals_histogram.unpacked(vitals_histogram.packed(cells))) == cells


@given(*[st.dictionaries(st.integers(0, 9) | st.integers(0, vitals_histogram.EVENTS), st.integers(1, 300))] * 2)
def test_cells_added_to_bytes(cells: dict[int, int], more: dict[int, int]) -> None:
    sums = {slot: cells.get(slot, 0) + more.get(slot, 0) for slot in cells.keys() | more.keys()}
    assert vitals_histogram.packed_with(vitals_histogram.packed(cells), more) == vitals_histogram.packed(sums)


@given(st.lists(metrics(), max_size=60))
def test_stored_and_told(sent: list[tuple[str, float]]) -> None:
    """To a millionth: of a second, and of cls."""
    for name, value in sent:
        told = vitals_histogram.from_stored(
            vitals_histogram.stored([value if metric == name else None for metric in METRICS])
        )
        assert told.keys() == {name}
        assert abs(told[name] - value) <= (0.5e-6 if name == "cls" else 0.5e-3) * 1.000_001


# --- a file


class Killed(Exception):
    """The process is no more."""


class World:
    """A file with a website's web vitals, and a plain list of them."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.connection = open_database(path, create=True)
        self.connection.execute("pragma synchronous = off")
        self.sent: list[Sent] = []
        texts = sorted({*PATHS, *DEVICES, *COUNTRIES} - {""})
        with transaction(self.connection):
            self.connection.executemany("insert into label (text) values (?)", [(text,) for text in texts])
        self.number = dict(self.connection.execute("select text, id from label"))
        self.now_ms = (FIRST_DAY + DAYS) * DAY_MS
        # One for all questions, as in a server: what has changed must not be told from memory.
        self.remembered = ResultCache()

    def some(self, count: int, first: int = FIRST_DAY, end: int = FIRST_DAY + DAYS, website: int = 1) -> list[Sent]:
        chance = self.chance
        return [
            Sent(
                website,
                chance.choice((chance.randrange(first * DAY_MS, end * DAY_MS), chance.randrange(first, end) * DAY_MS)),
                len(self.sent) + n + 1,
                PATHS[min(int(chance.expovariate(0.4)), len(PATHS) - 1)],
                chance.choice(DEVICES),
                chance.choice(COUNTRIES),
                {
                    name: chance.choice(
                        (round(chance.lognormvariate(math.log(good), 0.8), 3 if name != "cls" else 6), good, poor)
                    )
                    for name, (good, poor) in THRESHOLDS.items()
                    if chance.random() < 0.8
                }
                or {"lcp": 1.0},
            )
            for n in range(count)
        ]

    def row(self, one: Sent) -> tuple[Any, ...]:
        labels = dict.fromkeys(FIELDS, 0)
        labels |= {name: self.number[getattr(one, name)] for name in ("pathname", "device", "country")}
        values = vitals_histogram.stored([one.values.get(metric) for metric in METRICS])
        return (*one[:3], *labels.values(), *values)

    def add(self, more: list[Sent]) -> None:
        rows = [self.row(one) for one in more]
        with transaction(self.connection):
            self.connection.executemany(f"insert into web_vitals values ({', '.join('?' * 22)})", rows)
            web_vitals_rollup.add(self.connection, rows)
        self.sent += more

    def build(self, most: int = 1 << 30, between: Callable[[], object] = lambda: None) -> None:
        """The work in the background as tally/maintenance/rollup_builder.py does it, or so many steps of it."""
        left = [most]

        def do(step: Callable[..., Any], *what: Any) -> Any:
            if not left[0]:
                raise Killed
            left[0] -= 1
            with transaction(self.connection):
                result = step(self.connection, 1, *what)
            between()
            return result

        with suppress(Killed):
            while found := do(web_vitals_rollup.next_block, self.now_ms):
                do(web_vitals_rollup.begin_block, *found)
                for cut in (web_vitals_rollup.DEVICE, web_vitals_rollup.PATHNAME):
                    after = -1
                    while after is not None:
                        after = do(web_vitals_rollup.merge, cut, *found, after)
                do(web_vitals_rollup.end_block, *found)

    def check(self) -> None:
        """A day's and block's histograms are what the raw rows say."""
        days = {one.ts_ms // DAY_MS for one in self.sent if one.website == 1}
        for day in days:
            stored, right = (
                web_vitals_rollup.stored_day(self.connection, 1, day),
                web_vitals_rollup.count_day(self.connection, 1, day),
            )
            assert stored == right
        for level in LEVELS[1:]:
            for block in {day >> level for day in days}:
                assert web_vitals_rollup.is_sum(self.connection, 1, level, block)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "analytics.db", 1)
    with closing(world.connection):
        yield world


def plain(sent: list[Sent], scope: Scope, **own: str) -> list[Sent]:
    """What lies in a scope, told by its texts."""
    return [
        one
        for one in sent
        if one.website == scope.website
        and scope.from_ms <= one.ts_ms < scope.to_ms
        and all(getattr(one, field) in values for field, values in scope.filters)
        and all(getattr(one, field) == value for field, value in own.items())
    ]


def same(found: vitals_histogram.Summary, sent: list[Sent], metric: str) -> None:
    """A summary is that of these events."""
    values = sorted(one.values[metric] for one in sent if metric in one.values)
    good, tolerable = THRESHOLDS[metric]
    assert found.samples == len(values)
    assert found.good == sum(value <= good for value in values)
    assert found.poor == sum(value > tolerable for value in values)
    assert found.good + found.middling + found.poor == len(values)
    for percent, told in zip(vitals_histogram.PERCENTILES, found.percentiles, strict=True):
        if not values:
            assert told is None
            continue
        right = values[math.ceil(percent / 100 * len(values)) - 1]
        assert told is not None
        assert abs(told - right) <= RELATIVE_ERROR * right or right < (0.001 if metric == "cls" else 1)


def scopes(chance: random.Random) -> Iterator[Scope]:
    """Ranges of whole days and of any milliseconds, and filters that histograms answer and such that they do not."""
    filters: list[tuple[tuple[str, tuple[str, ...]], ...]] = [
        (),
        (),
        (("device", ("mobile",)),),
        (("pathname", ("/0", "/3", "/unknown")),),
        (("country", ("DE", "")),),
        (("device", ("mobile", "")), ("pathname", ("/0", "/1"))),
    ]
    begin, end = FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS
    yield Scope(1, begin, end)
    for n in range(60):
        from_ms, to_ms = sorted(chance.randrange(begin, end) for _ in range(2))
        if n % 3 == 0:
            from_ms, to_ms = from_ms // DAY_MS * DAY_MS, to_ms // DAY_MS * DAY_MS + DAY_MS
        elif n % 3 == 1:
            to_ms = min(from_ms + chance.randrange(1, 2 * DAY_MS), end)
        yield Scope(1, from_ms, to_ms, chance.choice(filters))


def by_pathname(world: World, scope: Scope) -> list[web_vitals.Row]:
    """All pages, by lcp."""
    return web_vitals.by_value(world.connection, scope, "pathname", "lcp", 100, world.remembered)


def compare(world: World) -> None:
    run = world.connection
    for scope in scopes(world.chance):
        inside = plain(world.sent, scope)
        cells = web_vitals.overall(run, scope)
        for metric in METRICS:
            same(vitals_histogram.summary(cells, metric), inside, metric)
        metric = world.chance.choice(METRICS)
        days = web_vitals.by_day(run, scope, metric)
        first, end = scope.from_ms // DAY_MS, -(-scope.to_ms // DAY_MS)
        assert [begin for begin, _ in days] == [max(scope.from_ms, day * DAY_MS) for day in range(first, end)]
        for begin, found in days:
            same(found, [one for one in inside if one.ts_ms // DAY_MS == begin // DAY_MS], metric)
        for field in ("pathname", "device"):
            limit = world.chance.choice((1, 3, 100))
            rows = web_vitals.by_value(run, scope, field, metric, limit, world.remembered)
            own = {value: plain(inside, scope, **{field: value}) for value in {getattr(one, field) for one in inside}}
            own.pop("", None)
            poor = {
                value: sum(one.values.get(metric, 0) > THRESHOLDS[metric][1] for one in events)
                for value, events in own.items()
            }
            order = sorted(own, key=lambda value: (-poor[value], -len(own[value]), value))
            assert [row.value for row in rows] == order[:limit]
            for row in rows:
                assert row.events == len(own[row.value])
                same(row.summary, own[row.value], metric)


def test_against_plain_lists(world: World) -> None:
    """Before blocks are built, after, and after late events and another website's in between."""
    world.add(world.some(1_500))
    compare(world)
    world.build()
    world.check()
    compare(world)
    world.add(world.some(100))
    world.add(world.some(300, website=2))
    world.check()
    compare(world)
    world.build()
    assert world.connection.execute("select count(*) from web_vitals_histogram where level > 0").fetchone()[0] > 100
    compare(world)


def test_blocks_that_are_built(world: World) -> None:
    """Those whose days are over for good, of 8 days and of 64."""
    world.add(world.some(400))
    world.build()
    built = "select level, block from web_vitals_histogram where breakdown = 0 and level > 0 order by 1, 2"
    # The last days are not over: an event of them may still come.
    days = range(FIRST_DAY, FIRST_DAY + DAYS - 8, 8)
    assert world.connection.execute(built).fetchall() == [(3, day >> 3) for day in days] + [(6, FIRST_DAY >> 6)]
    assert world.connection.execute("select count(*) from web_vitals_histogram where level < -1").fetchone() == (0,)
    world.now_ms += 30 * DAY_MS
    world.build()
    assert (3, FIRST_DAY + DAYS - 8 >> 3) in world.connection.execute(built).fetchall()


def test_killed_between_any_two_steps(tmp_path: Path) -> None:
    """What was begun is begun anew; nothing is counted twice."""
    for most in range(0, 60, 3):
        world = World(tmp_path / f"{most}.db", most)
        world.add(world.some(200))
        world.build(most)
        world.check()
        world.build()
        world.check()
        world.connection.close()


def test_events_that_come_while_a_block_is_built(world: World) -> None:
    """One of its days has changed: the block is begun once more, and right in the end."""
    world.add(world.some(300))
    left = [10]

    def between() -> None:
        if left[0] and world.connection.execute("select 1 from web_vitals_histogram where level = -3").fetchone():
            left[0] -= 1
            world.add(world.some(20))

    world.build(between=between)
    assert not left[0]
    world.check()
    compare(world)


def test_where_raw_rows_are_gone(world: World) -> None:
    """Whole days are told, also by pathname; what is cut off them is refused, saying from when on."""
    world.add(world.some(800))
    world.build()
    gone = FIRST_DAY + 30
    right = web_vitals.overall(world.connection, Scope(1, FIRST_DAY * DAY_MS, (gone + 9) * DAY_MS))
    with transaction(world.connection):
        world.connection.execute("insert into rollup_state values (1, 0, ?, ?, 0, 1)", (gone - 1, KEPT))
        world.connection.execute("delete from web_vitals where ts < ?", (gone * DAY_MS,))
    scope = Scope(1, FIRST_DAY * DAY_MS, (gone + 9) * DAY_MS)
    assert web_vitals.overall(world.connection, scope) == right
    assert sum(row.events for row in by_pathname(world, scope)) == right[vitals_histogram.EVENTS]
    # Quarters of a day that is gone need none of its rows.
    parts = Scope(1, (gone - 9) * DAY_MS + PART_MS, (gone - 9) * DAY_MS + 3 * PART_MS)
    found = web_vitals.overall(world.connection, parts)
    assert found.get(vitals_histogram.EVENTS, 0) == len(plain(world.sent, parts)) > 0
    for cut in (scope._replace(from_ms=scope.from_ms + 1), scope._replace(filters=(("country", ("DE",)),))):
        with pytest.raises(BeyondRetention) as refused:
            web_vitals.overall(world.connection, cut)
        assert refused.value.from_ms == gone * DAY_MS
    with pytest.raises(BeyondRetention):
        by_pathname(world, scope._replace(from_ms=scope.from_ms + 1))


@pytest.mark.parametrize(
    "damage",
    [
        "update web_vitals_histogram set poor_lcp = poor_lcp + 1 where breakdown = 2 and level = 0 and value > 0",
        "update web_vitals_histogram set events = events + 1 where breakdown = 0 and level = -1",
        "delete from web_vitals_histogram where breakdown = 1 and level = 0 and value > 0",
        "insert into web_vitals_histogram select website, breakdown, level, block, 999, 1, 0, 0, 0, 0, 0, cells"
        " from web_vitals_histogram"
        " where breakdown = 0 and level = 0 limit 1",
        "update web_vitals_histogram set cells = (select cells from web_vitals_histogram where breakdown = 0"
        " and level = 6) where breakdown = 0"
        " and level = 3",
    ],
    ids=["poor", "events", "missing", "too-much", "block"],
)
def test_damage_is_seen_and_mended(world: World, damage: str) -> None:
    from tally.rollups.verify import HISTOGRAMS, verdicts

    world.add(world.some(400))
    world.build()
    assert [verdict for verdict in verdicts(world.connection, 1) if verdict.fault == HISTOGRAMS] == []
    with transaction(world.connection):
        assert world.connection.execute(damage).rowcount > 0
    wrong = [verdict for verdict in verdicts(world.connection, 1) if verdict.fault == HISTOGRAMS]
    assert wrong
    with transaction(world.connection):
        for verdict in wrong:
            web_vitals_rollup.repair(world.connection, 1, verdict.level, verdict.block)
    world.build()
    world.check()
    assert [verdict for verdict in verdicts(world.connection, 1) if verdict.fault == HISTOGRAMS] == []
    compare(world)


def test_late_events_after_a_question(world: World) -> None:
    """Sums over blocks are remembered; an event of any day of them is told all the same, and nothing is counted anew
    that has not changed."""
    everything = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    world.add(world.some(600))
    world.build()
    for day in (FIRST_DAY, FIRST_DAY + 70, FIRST_DAY + 78, FIRST_DAY + DAYS - 1):
        for _ in range(2):
            world.add(world.some(1, day, day + 1))
            asked = [Scope(1, from_ms, everything.to_ms) for from_ms in (everything.from_ms, everything.from_ms + 1)]
            for scope in asked:
                assert sum(row.events for row in by_pathname(world, scope)) == sum(
                    one.pathname != "" for one in plain(world.sent, scope)
                )
        world.build()
    compare(world)


def test_what_was_wrong_is_not_remembered(world: World) -> None:
    everything = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    world.add(world.some(400))
    world.build()
    right = by_pathname(world, everything)
    for _ in range(2):
        with transaction(world.connection):
            world.connection.execute("update web_vitals_histogram set events = events + 1 where breakdown = 2")
        world.remembered = ResultCache()
        assert by_pathname(world, everything) != right
        with transaction(world.connection):
            for day in range(FIRST_DAY, FIRST_DAY + DAYS):
                web_vitals_rollup.repair(world.connection, 1, 0, day)
        world.build()
        assert by_pathname(world, everything) == right


def test_what_is_settled_is_read_once(world: World) -> None:
    everything = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    world.add(world.some(600))
    world.build()
    heard: list[str] = []
    world.connection.set_trace_callback(heard.append)
    rows = []
    for new in (0, 1):
        world.connection.set_trace_callback(None)
        world.add(world.some(new, FIRST_DAY + DAYS - 1, FIRST_DAY + DAYS))
        world.connection.set_trace_callback(heard.append)
        heard.clear()
        by_pathname(world, everything)
        rows.append([text for text in heard if "web_vitals.ranks" in text])
    # Three levels at first, afterwards the newest days alone.
    assert [len(of) for of in rows] == [4, 1]


def test_steps_are_short(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step writes at most so many values."""
    monkeypatch.setattr(web_vitals_rollup, "_VALUES_A_STEP", 3)
    world.add(world.some(600))
    written: list[int] = []
    world.build(between=lambda: written.append(world.connection.total_changes))
    steps = [after - before for before, after in pairwise(written)]
    assert max(steps) == 3
    assert len(steps) > 100
    world.check()
    compare(world)


def test_what_is_undone_leaves_nothing(world: World) -> None:
    world.add(world.some(50))
    before = world.connection.execute("select * from web_vitals_histogram").fetchall()
    rows = [world.row(one) for one in world.some(20)]
    world.connection.execute("begin")
    web_vitals_rollup.add(world.connection, rows)
    world.connection.execute("rollback")
    assert world.connection.execute("select * from web_vitals_histogram").fetchall() == before
