"""Web vitals (tally/reports/web_vitals.py, vital_values.py, ordered_values.py) against plain lists of the values sent.

The expected result takes the values in the range that match the filters, sorts them and counts. All figures are equal;
percentiles over days whose events have expired (tally/rollups/vitals_histogram.py) may differ by RELATIVE_ERROR.
"""

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tally.columns import read
from tally.columns.statements import WEB_VITALS
from tally.engine.archive import Verdict
from tally.engine.values import THRESHOLDS, VITALS_PERCENTILES, BeyondRetention, Scope, Summary
from tally.events.dimensions import FIELDS
from tally.events.filters import Filter
from tally.events.validation import MAX_OF_METRIC, MEASURES, METRICS
from tally.maintenance import deletion, retention
from tally.maintenance.verify import LOST_HISTOGRAMS, verdicts
from tally.reports import measurement_columns, page_leaves, vital_values, web_vitals
from tally.reports.cache import ResultCache
from tally.reports.ordered_values import ordered, summary
from tally.rollups import vitals_histogram
from tally.rollups import web_vitals as values_of_vitals
from tally.rollups.web_vitals import RELATIVE_ERROR, UNITS, limits_of
from tally.storage.bulk_insert import insert
from tally.storage.database import snapshot, transaction
from tally.timestamps import DAY_MS
from tests.support.app import new_database
from tests.support.rollup_database import pack_measurements

FIRST_DAY = 20_480
DAYS = 40
BEGIN_MS, END_MS = FIRST_DAY * DAY_MS, (FIRST_DAY + DAYS) * DAY_MS
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


# --- values


@st.composite
def metrics(draw: st.DrawFn) -> tuple[int, int]:
    """Draw a metric and a stored value of it."""
    metric = draw(st.sampled_from(range(len(METRICS))))
    last = int(MAX_OF_METRIC[METRICS[metric]] * UNITS[METRICS[metric]])
    near = st.sampled_from([0, 999, 1_000, 1_001, *limits_of(METRICS[metric]), last])
    number = draw(st.one_of(st.integers(0, last), near, st.integers(0, 100_000)))
    return metric, min(last, max(0, number + draw(st.sampled_from((0, -1, 1)))))


@given(metrics())
def test_a_rounded_value(of: tuple[int, int]) -> None:
    """From 1 ms (0.001 of cls) on it is within RELATIVE_ERROR; its rating is the same."""
    metric, value = of
    (found,) = vitals_histogram.rounded(metric, np.array([value])).tolist()
    assert abs(found - value) <= RELATIVE_ERROR * value if value >= 1_000 else found == 0
    assert [found <= limit for limit in limits_of(METRICS[metric])] == [
        value <= limit for limit in limits_of(METRICS[metric])
    ]


@pytest.mark.parametrize(
    ("name", "good", "poor"),
    [("lcp", 2_500, 4_000), ("inp", 200, 500), ("fcp", 1_800, 3_000), ("ttfb", 800, 1_800), ("cls", 0.1, 0.25)],
)
def test_ratings_follow_the_published_thresholds(name: str, good: float, poor: float) -> None:
    """https://web.dev/articles/vitals: good up to and including the first, poor above the second."""
    sent = np.array([0, good, good + 0.001, poor, poor + 0.001, poor + 0.002, poor + 0.003]) * UNITS[name]
    none = np.empty(0, np.int64)
    values = np.rint(sent).astype(np.int64)
    for parts in ((values, none), (none, values)):
        found = summary(ordered(*parts, name, 1), parts[1], name, 0)
        assert found is not None
        assert (found.good, found.middling, found.poor) == (2, 2, 3)


def exact(values: Sequence[int]) -> tuple[float | None, ...]:
    """Return the percentiles of stored values of lcp by the definition."""
    ranked = sorted(values)
    return tuple(
        ranked[math.ceil(percent * len(ranked) / 100) - 1] / 1_000 if ranked else None for percent in VITALS_PERCENTILES
    )


few = st.lists(st.integers(0, 12) | st.integers(0, 3_600_000_000), max_size=40)


@example([*range(0, 100, 2)], [], [*range(60)], 2)
@given(few, few, few, st.integers(1, 9))
def test_percentiles_of_kept_values_and_others(kept: list[int], known: list[int], more: list[int], margin: int) -> None:
    """Are those of all values, also after others have arrived: up to `margin` of them always, or none are returned."""
    arrays = [np.sort(np.array(part, np.int64)) for part in (kept, known, known + more)]
    own = ordered(arrays[0], arrays[1], "lcp", margin)
    assert all(len(window.values) <= 2 * margin + 1 for window in own.windows)
    for others, values in ((arrays[1], known), (arrays[2], known + more)):
        found = summary(own, others, "lcp", 0)
        assert found is not None or len(values) - len(known) >= margin
        if found is not None:
            assert (found.samples, found.percentiles) == (len(kept + values), exact(kept + values))


@given(st.sampled_from(METRICS), st.floats(0, 100))
def test_precision_of_stored_values(name: str, value: float) -> None:
    """Values are stored to a millionth of a second, and of cls."""
    sent = values_of_vitals.stored([value if metric == name else None for metric in MEASURES])
    found = values_of_vitals.from_stored(sent)
    assert found.keys() == {name}
    assert abs(found[name] - value) <= (0.5e-6 if name == "cls" else 0.5e-3) * 1.000_001


# --- a database


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
                    if rng.random() < share
                }
                if share < 1
                else {
                    "time_on_page": float(rng.choice((0, 10, 1_800, rng.randrange(1_801)))),
                    "scroll_depth": float(rng.choice((0, 70, 75, 100))),
                },
            )
            for n, share in enumerate(rng.choices((0.8, 0, 1), (15, 1, 4), k=count))
        ]

    def row(self, one: Sent) -> tuple[Any, ...]:
        labels = dict.fromkeys(FIELDS, 0)
        labels |= {name: self.number[getattr(one, name)] for name in ("pathname", "device", "country")}
        return (*one[:3], *labels.values(), *values_of_vitals.stored([one.values.get(metric) for metric in MEASURES]))

    def add(self, more: list[Sent]) -> None:
        with transaction(self.connection):
            insert(self.connection, "test", "web_vitals", [self.row(one) for one in more])
        self.sent += more

    def pack(self, days: Sequence[int] = range(FIRST_DAY, FIRST_DAY + DAYS), website: int = 1) -> None:
        with_rows = "select distinct ts / 86400000 from web_vitals where website = ?"
        found = {day for (day,) in self.connection.execute(with_rows, (website,))}
        pack_measurements(self.connection, WEB_VITALS, sorted(found.intersection(days)), website)

    def expire(self, end: int, website: int = 1) -> bool:
        """Do a step of retention; return whether there may be more."""
        with transaction(self.connection):
            return retention.expire(self.connection, website, end)


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


def assert_summary(found: Summary, sent: list[Sent], metric: str, error: float = 0.0) -> None:
    """Compare a summary with these events."""
    values = sorted(one.values[metric] for one in sent if metric in one.values)
    good, tolerable = THRESHOLDS[metric]
    assert (found.samples, found.relative_error) == (len(values), error)
    assert found.good == sum(value <= good for value in values)
    assert found.poor == sum(value > tolerable for value in values)
    assert found.good + found.middling + found.poor == len(values)
    for percent, percentile in zip(VITALS_PERCENTILES, found.percentiles, strict=True):
        if not values:
            assert percentile is None
            continue
        right = values[math.ceil(percent * len(values) / 100) - 1]
        assert percentile is not None
        assert percentile == right or abs(percentile - right) <= error * right


def assert_leaves(database: VitalsDatabase, scope: Scope, field: str, sent: list[Sent], error: float) -> None:
    """Compare the figures of pages that were left with these events."""
    left = page_leaves.by_label(database.connection, scope, field, database.cache)
    assert left is not None
    values: dict[int, list[tuple[float, float]]] = {}
    for one in sent:
        if "time_on_page" in one.values:
            label = database.number[getattr(one, field)]
            values.setdefault(label, []).append((one.values["time_on_page"], one.values["scroll_depth"]))
    assert {label: (samples, reached) for label, samples, _, reached in left} == {
        label: (len(own), sum(depth >= 75 for _, depth in own)) for label, own in values.items()
    }
    for label, _, median_ms, _ in left:
        times = sorted(seconds for seconds, _ in values[label])
        right = times[math.ceil(len(times) / 2) - 1]
        assert median_ms == 1_000 * right or abs(median_ms - 1_000 * right) <= error * 1_000 * right


def scopes(rng: random.Random, count: int = 60) -> Iterator[Scope]:
    """Yield ranges of whole days and of milliseconds, with filters."""
    filters: list[tuple[Filter, ...]] = [
        (),
        (),
        (Filter("device", "=", ("mobile",)),),
        (Filter("pathname", "=", ("/0", "/3", "/unknown")),),
        (Filter("pathname", "!=", ("/0", "")),),
        (Filter("country", "=", ("DE", "")),),
        (Filter("device", "=", ("mobile", "")), Filter("pathname", "=", ("/0", "/1"))),
    ]
    yield Scope(1, BEGIN_MS, END_MS)
    for n in range(count):
        from_ms, to_ms = sorted(rng.randrange(BEGIN_MS, END_MS) for _ in range(2))
        if n % 3 == 0:
            from_ms, to_ms = from_ms // DAY_MS * DAY_MS, to_ms // DAY_MS * DAY_MS + DAY_MS
        elif n % 3 == 1:
            to_ms = min(from_ms + rng.randrange(1, 2 * DAY_MS), END_MS)
        yield Scope(1, from_ms, to_ms, rng.choice(filters))


def compare(database: VitalsDatabase, some: Sequence[Scope] = (), error: float = 0.0) -> None:
    for scope in some or scopes(database.rng):
        with snapshot(database.connection):
            compare_scope(database, scope, error)


def compare_scope(database: VitalsDatabase, scope: Scope, error: float) -> None:
    run, inside = database.connection, matching(database.sent, scope)
    found = web_vitals.overall(run, scope, database.cache)
    for metric in METRICS:
        assert_summary(found[metric], inside, metric, error)
    metric = database.rng.choice(METRICS)
    days = web_vitals.by_day(run, scope, metric, database.cache)
    first, end = scope.from_ms // DAY_MS, -(-scope.to_ms // DAY_MS)
    assert [begin for begin, _ in days] == [max(scope.from_ms, day * DAY_MS) for day in range(first, end)]
    for begin, of_day in days:
        assert_summary(of_day, [one for one in inside if one.ts_ms // DAY_MS == begin // DAY_MS], metric, error)
    for field in ("pathname", "device"):
        if error and any(of.field != field for of in scope.filters):
            continue
        limit = database.rng.choice((1, 3, 100))
        rows = web_vitals.by_value(run, scope, field, metric, limit, database.cache)
        assert_leaves(database, scope, field, inside, error)
        measured = [one for one in inside if not one.values.keys().isdisjoint(METRICS) and getattr(one, field)]
        own = {
            value: matching(measured, scope, **{field: value}) for value in {getattr(one, field) for one in measured}
        }
        poor = {
            value: sum(one.values.get(metric, 0) > THRESHOLDS[metric][1] for one in events)
            for value, events in own.items()
        }
        order = sorted(own, key=lambda value: (-poor[value], -len(own[value]), value))
        assert [row.value for row in rows] == order[:limit]
        for row in rows:
            assert row.events == len(own[row.value])
            assert_summary(row.summary, own[row.value], metric, error)


@pytest.mark.in_turn
@pytest.mark.slow
@pytest.mark.parametrize("margin", [vital_values._MARGIN, 3])
@pytest.mark.parametrize("most", [read.MAX_EVENTS, 1])
def test_figures_equal_plain_lists(
    database: VitalsDatabase, most: int, margin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of days with rows, with columns, and with both. most: events of a batch; margin: of values that are cached."""
    monkeypatch.setattr(read, "MAX_EVENTS", most)
    monkeypatch.setattr(measurement_columns, "MAX_EVENTS", most)
    monkeypatch.setattr(vital_values, "_MARGIN", margin)
    compare(database, [Scope(1, BEGIN_MS, END_MS)])
    for website in (2, 1, 1):
        database.add(database.random_events(700, website=website))
        database.pack(database.rng.sample(range(FIRST_DAY, FIRST_DAY + DAYS), DAYS // 2), website)
        compare(database, [*scopes(database.rng, 30)])
    ((kept,),) = database.connection.execute("select count(*) from web_vitals where website = 1")
    ((packed,),) = database.connection.execute("select sum(events) from packed_day where website = 1")
    assert packed + kept == 1_400
    assert min(packed, kept) > 100
    database.pack()
    compare(database, [*scopes(database.rng, 30)])


def test_late_events_change_cached_figures(database: VitalsDatabase) -> None:
    """Whichever day they are of, and whether or not it is packed."""
    database.add(database.random_events(900))
    database.pack(range(FIRST_DAY, FIRST_DAY + DAYS - 4))
    same = [Scope(1, BEGIN_MS, END_MS), Scope(1, BEGIN_MS + 1, END_MS, (Filter("country", "=", ("DE",)),))]
    for day in (FIRST_DAY, FIRST_DAY + 30, FIRST_DAY + DAYS - 3, FIRST_DAY + DAYS - 1):
        compare(database, same)
        database.add(database.random_events(3, day, day + 1))
        compare(database, same)
        database.pack([day])
        compare(database, same)
    # As many rows as before, but others.
    day = FIRST_DAY + DAYS - 2
    gone = next(one for one in database.sent if one.ts_ms // DAY_MS == day and len(one.values) == 5)
    database.connection.execute("delete from web_vitals where id = ?", (gone.id,))
    (new,) = database.random_events(1, day, day + 1)
    database.sent.remove(gone)
    database.add([new._replace(id=10_000)])
    compare(database, same)


def test_columns_are_read_once(database: VitalsDatabase) -> None:
    """Also after an event has arrived; rows are read again on its day alone."""
    database.add(database.random_events(900))
    database.pack(range(FIRST_DAY, FIRST_DAY + DAYS - 3))
    scope, statements = Scope(1, BEGIN_MS, END_MS), list[str]()
    database.connection.set_trace_callback(statements.append)
    found = []
    for new in (0, 0, 1):
        database.add(database.random_events(new, FIRST_DAY + DAYS - 1, FIRST_DAY + DAYS))
        statements.clear()
        with snapshot(database.connection):
            web_vitals.overall(database.connection, scope, database.cache)
            web_vitals.by_value(database.connection, scope, "pathname", "lcp", 10, database.cache)
            web_vitals.by_day(database.connection, scope, "lcp", database.cache)
        found.append([sum(name in text for text in statements) for name in ("statements.read", "measurement_column")])
    # Five metrics and the pages: of stored days, of the rows of two days at once, and of the last one by itself.
    assert found[0][0] >= 6
    assert found[1:] == [[0, 0], [0, 6]]


# --- days whose events have expired


@pytest.mark.slow
def test_figures_stay_when_events_expire(database: VitalsDatabase) -> None:
    """After each step of retention: those of whole days, within RELATIVE_ERROR, without filters or with one that
    histograms have."""
    database.add(database.random_events(1_500))
    database.add(database.random_events(200, website=2))
    database.pack(range(FIRST_DAY + 3, FIRST_DAY + 20))
    database.add(database.random_events(100, FIRST_DAY + 5, FIRST_DAY + 9))
    gone, steps = FIRST_DAY + 17, 0
    kept = Scope(1, gone * DAY_MS, END_MS, (Filter("country", "=", ("DE",)),))
    whole = [
        Scope(1, BEGIN_MS, to_ms, filters)
        for to_ms in (END_MS, gone * DAY_MS)
        for filters in ((), (Filter("device", "=", ("mobile", "")),), (Filter("pathname", "!=", ("/0", "/unknown")),))
    ]
    before = database.connection.execute("select count(*) from web_vitals where website = 2").fetchone()
    while database.expire(gone):
        steps += 1
        compare(database, whole[steps % 6 :][:1], RELATIVE_ERROR)
    assert steps >= 15
    assert not database.connection.execute(
        "select 1 from web_vitals where website = 1 and ts < ?", (gone * DAY_MS,)
    ).fetchone()
    assert not database.connection.execute("select 1 from packed_day where day < ?", (gone,)).fetchone()
    assert database.connection.execute("select count(*) from web_vitals where website = 2").fetchone() == before
    compare(database, whole, RELATIVE_ERROR)
    compare(database, [kept])
    refused = (
        whole[0]._replace(from_ms=BEGIN_MS + 1),
        whole[0]._replace(to_ms=BEGIN_MS + 1),
        whole[0]._replace(filters=kept.filters),
        whole[0]._replace(filters=whole[1].filters + whole[2].filters),
    )
    for scope in refused:
        with pytest.raises(BeyondRetention) as raised:
            web_vitals.overall(database.connection, scope, database.cache)
        assert raised.value.from_ms == gone * DAY_MS
    with pytest.raises(BeyondRetention):
        web_vitals.by_value(database.connection, whole[1], "pathname", "lcp", 10, database.cache)
    assert not [verdict for verdict in verdicts(database.connection, 1) if verdict.fault == LOST_HISTOGRAMS]


def test_labels_of_expired_events_are_in_use(database: VitalsDatabase) -> None:
    database.add(database.random_events(100, FIRST_DAY, FIRST_DAY + 2))
    while database.expire(FIRST_DAY + 10):
        pass
    # A website's own row would need an account.
    database.connection.execute("insert into deleted_website values (1, 0, 0)")
    scan = deletion.LabelScan(database.connection, lambda: False)
    while scan.step(database.connection):
        pass
    unused = {text for text, label in database.number.items() if label in scan.unused(database.connection)}
    used = {text for one in database.sent if one.values for text in (one.pathname, one.device)}
    assert unused == {*PATHS, *DEVICES, *COUNTRIES} - used


def test_events_of_a_damaged_day_expire(database: VitalsDatabase) -> None:
    """Its columns cannot be read: nothing is left of them, and the other days expire."""
    database.add(database.random_events(100, FIRST_DAY, FIRST_DAY + 2))
    database.pack()
    database.connection.execute("update day_column set content = x'00' where day = ? and field > 300", (FIRST_DAY,))
    while database.expire(FIRST_DAY + 10):
        pass
    assert vitals_histogram.days(database.connection, 1, 0, 1 << 32) == [
        (FIRST_DAY + 1, sum(bool(one.values) for one in database.sent if one.ts_ms >= BEGIN_MS + DAY_MS))
    ]
    assert not database.connection.execute("select 1 from packed_day").fetchone()


@pytest.mark.parametrize(
    "damage",
    [
        "update web_vitals_histogram set events = events + 1 where field = 0 and day = ?",
        "update web_vitals_histogram set count = x'00' where field = 0 and day = ?",
        "update web_vitals_histogram set value = substr(value, 1, length(value) - 1) where day = ?",
        "update web_vitals_histogram as own set metric = (select metric from web_vitals_histogram where day < own.day)"
        " where day = ?",
        "delete from web_vitals_histogram where field = 0 and day = ?",
    ],
)
def test_damaged_histograms_are_named(database: VitalsDatabase, damage: str) -> None:
    database.add(database.random_events(300, FIRST_DAY, FIRST_DAY + 5))
    while database.expire(FIRST_DAY + 10):
        pass
    assert [verdict for verdict in verdicts(database.connection, 1) if verdict.fault] == []
    assert database.connection.execute(damage, (FIRST_DAY + 3,)).rowcount > 0
    wrong = [verdict for verdict in verdicts(database.connection, 1) if verdict.fault]
    assert wrong == [Verdict(0, FIRST_DAY + 3, LOST_HISTOGRAMS)]
