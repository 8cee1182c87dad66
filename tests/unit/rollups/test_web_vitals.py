"""Histograms of web vitals (tally/rollups, tally/reports/web_vitals.py) against plain lists of the values sent.

The expected result takes the values in the range that match the filters, sorts them and counts. Percentiles may
differ by RELATIVE_ERROR; everything else is exact.
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
from tally.events.filters import Filter
from tally.events.validation import MAX_OF_METRIC, METRICS
from tally.maintenance.rollup_builder import _begin_block
from tally.reports import joined_columns, web_vitals
from tally.reports.cache import ResultCache
from tally.reports.coverage import BeyondRetention
from tally.rollups import packed_measurements, unpacked_days, vitals_histogram
from tally.rollups import web_vitals as web_vitals_rollup
from tally.rollups.rollup_state import KEPT
from tally.rollups.vitals_histogram import RELATIVE_ERROR, THRESHOLDS
from tally.rollups.web_vitals import LEVELS, PART_MS
from tally.storage.bulk_insert import COLUMNS, marks
from tally.storage.database import snapshot, transaction
from tally.storage.sql.day_columns import WEB_VITALS
from tally.storage.sql.events import Scope
from tally.timestamps import DAY_MS
from tests.support.app import new_database
from tests.support.rollup_database import pack_measurements

FIRST_DAY = 20_480  # the first day of a block of 64 days, and of one of 8
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
    edges = [*THRESHOLDS[name], 0, MAX_OF_METRIC[name], 1, 0.001]
    number = draw(st.one_of(st.floats(0, MAX_OF_METRIC[name]), st.sampled_from(edges), st.floats(0, 10)))
    return name, min(number, MAX_OF_METRIC[name])


def slots(name: str, value: float) -> list[int]:
    return vitals_histogram.slots_of(vitals_histogram.stored([value if metric == name else None for metric in METRICS]))


@given(metrics())
def test_percentiles_and_rating_of_one_value(metric: tuple[str, float]) -> None:
    """From 1 ms (0.001 of cls) on its percentiles are within RELATIVE_ERROR; its rating is exact."""
    name, value = metric
    value = vitals_histogram.from_stored(
        vitals_histogram.stored([value if metric == name else None for metric in METRICS])
    )[name]
    found = vitals_histogram.summary(dict.fromkeys(slots(name, value), 1), name)
    smallest = 0.001 if name == "cls" else 1
    assert found.samples == 1
    for percentile in found.percentiles:
        assert percentile is not None
        assert abs(percentile - value) <= RELATIVE_ERROR * value if value >= smallest else 0 <= percentile <= smallest
    good, tolerable = THRESHOLDS[name]
    assert (found.good, found.middling, found.poor) == (value <= good, good < value <= tolerable, value > tolerable)
    assert sum(map(vitals_histogram.is_poor, slots(name, value))) == found.poor


@pytest.mark.parametrize("name", METRICS)
def test_smallest_value_with_a_percentile(name: str) -> None:
    """Values below 1 ms, or 0.001 of cls, have percentiles of 0; from there on they are within RELATIVE_ERROR."""
    smallest, step = (0.001, 0.000_001) if name == "cls" else (1, 0.001)
    for value, is_measured in (
        (smallest - step, False),
        (smallest, True),
        (smallest + step, True),
        (0.9921875 * smallest, False),
    ):
        (percentile, *_) = vitals_histogram.summary(dict.fromkeys(slots(name, value), 1), name).percentiles
        assert percentile is not None
        assert abs(percentile - value) <= RELATIVE_ERROR * value if is_measured else percentile == 0


@pytest.mark.parametrize(
    ("name", "good", "poor"),
    [("lcp", 2_500, 4_000), ("inp", 200, 500), ("fcp", 1_800, 3_000), ("ttfb", 800, 1_800), ("cls", 0.1, 0.25)],
)
def test_ratings_follow_the_published_thresholds(name: str, good: float, poor: float) -> None:
    """https://web.dev/articles/vitals: good up to and including the first, poor above the second."""
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
def test_precision_of_stored_values(sent: list[tuple[str, float]]) -> None:
    """Values are stored to a millionth of a second, and of cls."""
    for name, value in sent:
        percentile = vitals_histogram.from_stored(
            vitals_histogram.stored([value if metric == name else None for metric in METRICS])
        )
        assert percentile.keys() == {name}
        assert abs(percentile[name] - value) <= (0.5e-6 if name == "cls" else 0.5e-3) * 1.000_001


# --- a database


class Killed(Exception):
    """The builder is stopped."""


class VitalsDatabase:
    """A database with a website's web vitals, and the list of them."""

    def __init__(self, path: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.connection = new_database(path)
        self.connection.execute("pragma synchronous = off")
        self.sent: list[Sent] = []
        texts = sorted({*PATHS, *DEVICES, *COUNTRIES} - {""})
        with transaction(self.connection):
            self.connection.executemany("insert into label (text) values (?)", [(text,) for text in texts])
        self.number = dict(self.connection.execute("select text, id from label"))
        self.now_ms = (FIRST_DAY + DAYS) * DAY_MS
        # One cache for all queries, as in a server: it must not return results that have changed.
        self.cache = ResultCache()

    def random_events(
        self, count: int, first: int = FIRST_DAY, end: int = FIRST_DAY + DAYS, website: int = 1
    ) -> list[Sent]:
        rng = self.rng
        return [
            Sent(
                website,
                rng.choice((rng.randrange(first * DAY_MS, end * DAY_MS), rng.randrange(first, end) * DAY_MS)),
                len(self.sent) + n + 1,
                PATHS[min(int(rng.expovariate(0.4)), len(PATHS) - 1)],
                rng.choice(DEVICES),
                rng.choice(COUNTRIES),
                {
                    name: rng.choice(
                        (round(rng.lognormvariate(math.log(good), 0.8), 3 if name != "cls" else 6), good, poor)
                    )
                    for name, (good, poor) in THRESHOLDS.items()
                    if rng.random() < 0.8
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
            self.connection.executemany(f"insert into web_vitals values {marks(len(COLUMNS['web_vitals']), 1)}", rows)
            web_vitals_rollup.add(self.connection, rows)
        self.sent += more

    def build(self, max_steps: int = 1 << 30, between: Callable[[], object] = lambda: None) -> None:
        """Run the background work as tally/maintenance/rollup_builder.py does, or at most so many steps of it."""
        left = [max_steps]

        def do(step: Callable[..., Any], *what: Any) -> Any:
            if not left[0]:
                raise Killed
            left[0] -= 1
            with transaction(self.connection):
                result = step(self.connection, 1, *what)
            between()
            return result

        with suppress(Killed):
            while found := do(_begin_block, WEB_VITALS, web_vitals_rollup.next_block, self.now_ms):
                for cut in (web_vitals_rollup.DEVICE, web_vitals_rollup.PATHNAME):
                    after = -1
                    while after is not None:
                        after = do(web_vitals_rollup.merge, cut, *found, after)
                do(web_vitals_rollup.finish_block, *found)

    def overall(self, scope: Scope) -> vitals_histogram.Cells:
        return web_vitals.overall(self.connection, scope, self.cache)

    def check(self) -> None:
        """Compare the histograms of days and blocks with the events."""
        days = {one.ts_ms // DAY_MS for one in self.sent if one.website == 1}
        with snapshot(self.connection):
            unpacked_days.show(self.connection, 1, days, [WEB_VITALS])
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
def database(tmp_path: Path) -> Iterator[VitalsDatabase]:
    database = VitalsDatabase(tmp_path / "analytics.db", 1)
    with closing(database.connection):
        yield database


def matching(sent: list[Sent], scope: Scope, **own: str) -> list[Sent]:
    """Return the events in a scope, with these field values."""
    return [
        one
        for one in sent
        if one.website == scope.website
        and scope.from_ms <= one.ts_ms < scope.to_ms
        and all(of.accepts(getattr(one, of.field)) for of in scope.filters)
        and all(getattr(one, field) == value for field, value in own.items())
    ]


def assert_summary(found: vitals_histogram.Summary, sent: list[Sent], metric: str) -> None:
    """Compare a summary with these events."""
    values = sorted(one.values[metric] for one in sent if metric in one.values)
    good, tolerable = THRESHOLDS[metric]
    assert found.samples == len(values)
    assert found.good == sum(value <= good for value in values)
    assert found.poor == sum(value > tolerable for value in values)
    assert found.good + found.middling + found.poor == len(values)
    for percent, percentile in zip(vitals_histogram.PERCENTILES, found.percentiles, strict=True):
        if not values:
            assert percentile is None
            continue
        right = values[math.ceil(percent / 100 * len(values)) - 1]
        assert percentile is not None
        assert abs(percentile - right) <= RELATIVE_ERROR * right or right < (0.001 if metric == "cls" else 1)


def scopes(rng: random.Random) -> Iterator[Scope]:
    """Yield ranges of whole days and of milliseconds, with filters that histograms support and that they do not."""
    filters: list[tuple[Filter, ...]] = [
        (),
        (),
        (Filter("device", "=", ("mobile",)),),
        (Filter("pathname", "=", ("/0", "/3", "/unknown")),),
        (Filter("country", "=", ("DE", "")),),
        (Filter("device", "=", ("mobile", "")), Filter("pathname", "=", ("/0", "/1"))),
    ]
    begin, end = FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS
    yield Scope(1, begin, end)
    for n in range(60):
        from_ms, to_ms = sorted(rng.randrange(begin, end) for _ in range(2))
        if n % 3 == 0:
            from_ms, to_ms = from_ms // DAY_MS * DAY_MS, to_ms // DAY_MS * DAY_MS + DAY_MS
        elif n % 3 == 1:
            to_ms = min(from_ms + rng.randrange(1, 2 * DAY_MS), end)
        yield Scope(1, from_ms, to_ms, rng.choice(filters))


def by_pathname(database: VitalsDatabase, scope: Scope) -> list[web_vitals.Row]:
    """Return all pages, by lcp."""
    return web_vitals.by_value(database.connection, scope, "pathname", "lcp", 100, database.cache)


def compare(database: VitalsDatabase) -> None:
    run = database.connection
    for scope in scopes(database.rng):
        inside = matching(database.sent, scope)
        cells = web_vitals.overall(run, scope, database.cache)
        for metric in METRICS:
            assert_summary(vitals_histogram.summary(cells, metric), inside, metric)
        metric = database.rng.choice(METRICS)
        days = web_vitals.by_day(run, scope, metric, database.cache)
        first, end = scope.from_ms // DAY_MS, -(-scope.to_ms // DAY_MS)
        assert [begin for begin, _ in days] == [max(scope.from_ms, day * DAY_MS) for day in range(first, end)]
        for begin, found in days:
            assert_summary(found, [one for one in inside if one.ts_ms // DAY_MS == begin // DAY_MS], metric)
        for field in ("pathname", "device"):
            limit = database.rng.choice((1, 3, 100))
            rows = web_vitals.by_value(run, scope, field, metric, limit, database.cache)
            own = {
                value: matching(inside, scope, **{field: value}) for value in {getattr(one, field) for one in inside}
            }
            own.pop("", None)
            poor = {
                value: sum(one.values.get(metric, 0) > THRESHOLDS[metric][1] for one in events)
                for value, events in own.items()
            }
            order = sorted(own, key=lambda value: (-poor[value], -len(own[value]), value))
            assert [row.value for row in rows] == order[:limit]
            for row in rows:
                assert row.events == len(own[row.value])
                assert_summary(row.summary, own[row.value], metric)


@pytest.mark.in_turn
@pytest.mark.slow
@pytest.mark.parametrize("most", [joined_columns.MAX_EVENTS, 1])
def test_figures_of_packed_days(database: VitalsDatabase, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of days with rows, with columns, and with both. most: events of a batch."""
    monkeypatch.setattr(joined_columns, "MAX_EVENTS", most)
    for website in (2, 1, 1):
        database.add(database.random_events(700, website=website))
        days = [one.ts_ms // DAY_MS for one in database.sent if one.website == website]
        some = set(database.rng.sample(days, len(days) // 8))
        pack_measurements(database.connection, WEB_VITALS, sorted(some), website)
        database.check()
        compare(database)
    kept = database.connection.execute("select count(*) from web_vitals where website = 1").fetchone()[0]
    packed = dict(packed_measurements.days(database.connection, 1, WEB_VITALS, 0, 1 << 32))
    assert len(packed) > 30
    assert sum(packed.values()) + kept == 1_400
    assert kept > 100
    database.build()
    database.check()
    compare(database)


@pytest.mark.slow
def test_figures_equal_plain_lists(database: VitalsDatabase) -> None:
    """Before blocks are built, after it, and after late events and those of another website."""
    database.add(database.random_events(1_500))
    compare(database)
    database.build()
    database.check()
    compare(database)
    database.add(database.random_events(100))
    database.add(database.random_events(300, website=2))
    database.check()
    compare(database)
    database.build()
    assert database.connection.execute("select count(*) from web_vitals_histogram where level > 0").fetchone()[0] > 100
    compare(database)


def test_which_blocks_are_built(database: VitalsDatabase) -> None:
    """Only blocks of 8 and of 64 days that are final are built."""
    database.add(database.random_events(400))
    database.build()
    built = "select level, block from web_vitals_histogram where breakdown = 0 and level > 0 order by 1, 2"
    # The last days are not final: late events may still arrive.
    days = range(FIRST_DAY, FIRST_DAY + DAYS - 8, 8)
    assert database.connection.execute(built).fetchall() == [(3, day >> 3) for day in days] + [(6, FIRST_DAY >> 6)]
    assert database.connection.execute("select count(*) from web_vitals_histogram where level < -1").fetchone() == (0,)
    database.now_ms += 30 * DAY_MS
    database.build()
    assert (3, FIRST_DAY + DAYS - 8 >> 3) in database.connection.execute(built).fetchall()


@pytest.mark.slow
def test_killed_between_any_two_steps(tmp_path: Path) -> None:
    """An interrupted block is restarted; nothing is counted twice."""
    for max_steps in range(0, 60, 3):
        database = VitalsDatabase(tmp_path / f"{max_steps}.db", max_steps)
        database.add(database.random_events(200))
        database.build(max_steps)
        database.check()
        database.build()
        database.check()
        database.connection.close()


@pytest.mark.parametrize("level", [3, 6])
def test_events_that_arrive_while_a_block_is_built(database: VitalsDatabase, level: int) -> None:
    """If one of its days changes, the block is restarted and is correct in the end."""
    database.add(database.random_events(300))
    left = [10]

    def between() -> None:
        begun = database.connection.execute("select 1 from rollup_state where level = ? and state = 1", (level,))
        if left[0] and begun.fetchone():
            left[0] -= 1
            database.add(database.random_events(20))

    database.build(between=between)
    assert not left[0]
    database.check()
    compare(database)


def test_days_without_raw_rows(database: VitalsDatabase) -> None:
    """Whole days are served, also by pathname; partial days raise an error with the time from which raw rows exist."""
    database.add(database.random_events(800))
    database.build()
    gone = FIRST_DAY + 30
    right = database.overall(Scope(1, FIRST_DAY * DAY_MS, (gone + 9) * DAY_MS))
    with transaction(database.connection):
        database.connection.execute("insert into rollup_state values (1, 0, 0, ?, ?, 0, 1)", (gone - 1, KEPT))
        database.connection.execute("delete from web_vitals where ts < ?", (gone * DAY_MS,))
    scope = Scope(1, FIRST_DAY * DAY_MS, (gone + 9) * DAY_MS)
    assert database.overall(scope) == right
    assert sum(row.events for row in by_pathname(database, scope)) == right[vitals_histogram.EVENTS]
    # Quarters of a day without raw rows are served from histograms.
    parts = Scope(1, (gone - 9) * DAY_MS + PART_MS, (gone - 9) * DAY_MS + 3 * PART_MS)
    found = database.overall(parts)
    assert found.get(vitals_histogram.EVENTS, 0) == len(matching(database.sent, parts)) > 0
    for cut in (scope._replace(from_ms=scope.from_ms + 1), scope._replace(filters=(Filter("country", "=", ("DE",)),))):
        with pytest.raises(BeyondRetention) as refused:
            database.overall(cut)
        assert refused.value.from_ms == gone * DAY_MS
    with pytest.raises(BeyondRetention):
        by_pathname(database, scope._replace(from_ms=scope.from_ms + 1))


@pytest.mark.slow
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
def test_damage_is_found_and_repaired(database: VitalsDatabase, damage: str) -> None:
    from tally.maintenance.verify import HISTOGRAMS, verdicts

    database.add(database.random_events(400))
    database.build()
    assert [verdict for verdict in verdicts(database.connection, 1) if verdict.fault == HISTOGRAMS] == []
    with transaction(database.connection):
        assert database.connection.execute(damage).rowcount > 0
    wrong = [verdict for verdict in verdicts(database.connection, 1) if verdict.fault == HISTOGRAMS]
    assert wrong
    with transaction(database.connection):
        for verdict in wrong:
            web_vitals_rollup.repair(database.connection, 1, verdict.level, verdict.block)
    database.build()
    database.check()
    assert [verdict for verdict in verdicts(database.connection, 1) if verdict.fault == HISTOGRAMS] == []
    compare(database)


def test_late_events_invalidate_cached_sums(database: VitalsDatabase) -> None:
    """A late event of any day invalidates the cached sums of its blocks, and no others."""
    everything = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    database.add(database.random_events(600))
    database.build()
    for day in (FIRST_DAY, FIRST_DAY + 70, FIRST_DAY + 78, FIRST_DAY + DAYS - 1):
        for _ in range(2):
            database.add(database.random_events(1, day, day + 1))
            scopes_after = [
                Scope(1, from_ms, everything.to_ms) for from_ms in (everything.from_ms, everything.from_ms + 1)
            ]
            for scope in scopes_after:
                assert sum(row.events for row in by_pathname(database, scope)) == sum(
                    one.pathname != "" for one in matching(database.sent, scope)
                )
        database.build()
    compare(database)


def test_repaired_histograms_are_not_served_from_the_cache(database: VitalsDatabase) -> None:
    everything = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    database.add(database.random_events(400))
    database.build()
    right = by_pathname(database, everything)
    for _ in range(2):
        with transaction(database.connection):
            database.connection.execute("update web_vitals_histogram set events = events + 1 where breakdown = 2")
        database.cache = ResultCache()
        assert by_pathname(database, everything) != right
        with transaction(database.connection):
            for day in range(FIRST_DAY, FIRST_DAY + DAYS):
                web_vitals_rollup.repair(database.connection, 1, 0, day)
        database.build()
        assert by_pathname(database, everything) == right


def test_unchanged_blocks_are_read_once(database: VitalsDatabase) -> None:
    everything = Scope(1, FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS)
    database.add(database.random_events(600))
    database.build()
    statements: list[str] = []
    database.connection.set_trace_callback(statements.append)
    rows = []
    for new in (0, 1):
        database.connection.set_trace_callback(None)
        database.add(database.random_events(new, FIRST_DAY + DAYS - 1, FIRST_DAY + DAYS))
        database.connection.set_trace_callback(statements.append)
        statements.clear()
        by_pathname(database, everything)
        rows.append([text for text in statements if "web_vitals.ranks" in text])
    # Three levels and the newest days at first, afterwards the newest days alone.
    assert [len(of) for of in rows] == [4, 1]


def test_steps_are_bounded(database: VitalsDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step writes at most `_VALUES_A_STEP` values."""
    monkeypatch.setattr(web_vitals_rollup, "_VALUES_A_STEP", 2)
    database.add(database.random_events(600))
    written: list[int] = []
    database.build(between=lambda: written.append(database.connection.total_changes))
    steps = [after - before for before, after in pairwise(written)]
    assert max(steps) == 2
    assert len(steps) > 100
    database.check()
    compare(database)


def test_a_rolled_back_transaction_leaves_histograms_unchanged(database: VitalsDatabase) -> None:
    database.add(database.random_events(50))
    before = database.connection.execute("select * from web_vitals_histogram").fetchall()
    rows = [database.row(one) for one in database.random_events(20)]
    database.connection.execute("begin")
    web_vitals_rollup.add(database.connection, rows)
    database.connection.execute("rollback")
    assert database.connection.execute("select * from web_vitals_histogram").fetchall() == before
