"""tally/reports/day_columns.py compared with loops over the events.

Days are drawn at random, with visits whose events differ in any field, and packed by the builder. Each figure of whole
days and of parts of days, with filters of every kind, is compared.
"""

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from tally.columns import read, write
from tally.columns.column_days import sizes, store
from tally.columns.deleted_rows import reopen, without_rows
from tally.columns.statements import COLUMNS
from tally.columns.write import columns_of_day
from tally.engine.values import Data, Top, TopQuery
from tally.events.dimensions import FIELDS, PAGES
from tally.events.filters import Filter
from tally.maintenance import verify
from tally.reports import day_columns, event_data, stats
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, coverage_of
from tally.reports.day_columns import DayColumns
from tally.reports.top import top
from tally.storage.database import interrupted_when, snapshot, transaction
from tally.timestamps import DAY_MS, HOUR_MS
from tests.support.app import ManualClock
from tests.support.column_figures import (
    COMPARISONS,
    VARIES,
    Comparison,
    Span,
    filters_of,
)
from tests.support.process import until
from tests.support.rollup_database import RollupHarness, make_file
from tests.support.selection import examples

pytestmark = pytest.mark.random_examples

DAY = 20_772
DAYS = 4
DATA = (None, "{}", '{"n":1,"s":"x"}', '{"n":1.0,"t":true}', '{"n":"2.5","s":"y"}', '{"n":-3,"s":"xy","t":null}')


def drawn(draw: random.Random) -> list[tuple[int, int, str, tuple[str, ...]]]:
    """Return events of some days; on the last day only the path differs within a visit."""
    facts = []
    for day in range(DAYS):
        varies = VARIES[: 1 if day == DAYS - 1 else len(VARIES)]
        for visitor in range(draw.randint(1, 6)):
            texts = {field: draw.choice(("", "x", "y", "z")) for field in (*FIELDS, "event_name")}
            ts = (DAY + day) * DAY_MS + draw.randint(0, 20) * HOUR_MS
            for _ in range(draw.randint(1, 7)):
                texts |= {field: draw.choice(("", "x", "y", "z")) for field in varies}
                type_ = draw.randint(0, 3)
                name = texts["event_name"] if type_ > 1 else ""
                facts.append((ts, type_, f"{day}-{visitor}", (*(texts[field] for field in FIELDS), name)))
                ts += draw.choice((0, 1, 1_000, 20 * 60_000, 40 * 60_000))
    return facts


@pytest.fixture(scope="module", params=range(examples(6, default=1)))
def harness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RollupHarness]:
    folder: Path = tmp_path_factory.mktemp("packed")
    make_file(folder / "analytics.db")
    harness = RollupHarness(folder / "analytics.db", ManualClock((DAY + 60) * DAY_MS))
    draw = random.Random(request.param)
    harness.import_events(*drawn(draw))
    for (id_,) in harness.writer.execute("select id from event").fetchall():
        harness.writer.execute("update event set event_data = ? where id = ?", (draw.choice(DATA), id_))
    harness.build()
    # To compare with them.
    with transaction(harness.writer):
        assert reopen(harness.writer, harness.websites[0].number, range(DAY, DAY + DAYS))
    yield harness
    harness.close()


@pytest.fixture(params=[5, 1_000], ids=["batches of a day", "one batch"])
def batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_EVENTS", request.param)


def spans_of(draw: random.Random) -> list[Span]:
    """Return whole days or, for some, the first and the last cut."""
    days = sorted(draw.sample(range(DAY, DAY + DAYS), draw.randint(1, DAYS)))
    spans = [(day * DAY_MS, (day + 1) * DAY_MS) for day in days]
    if draw.random() < 0.5:
        spans[0] = (spans[0][0] + draw.randint(0, 20) * HOUR_MS + 1, spans[0][1])
        begin_ms, end_ms = spans[-1]
        spans[-1] = (begin_ms, max(begin_ms + 1, end_ms - draw.randint(0, 20) * HOUR_MS))
    return spans


def random_query(harness: RollupHarness, draw: random.Random) -> tuple[Coverage, list[Span], list[DayColumns]]:
    """Return some spans with filters: their coverage, and as stored days: whole ones, and parts."""
    spans = spans_of(draw)
    scope = harness.scope(spans[0][0], spans[-1][1], filters_of(draw))
    coverage = coverage_of(harness.reader, scope, ResultCache())
    packed = coverage.columns(spans, filtered=True)
    assert all(columns.is_stored for columns in packed)
    is_whole = {end_ms - begin_ms == DAY_MS for begin_ms, end_ms in spans}
    assert [columns.key() is not None for columns in packed] == sorted(is_whole, reverse=True)
    return coverage, spans, packed


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("compare", COMPARISONS)
def test_figures_are_those_of_the_events(harness: RollupHarness, compare: Comparison) -> None:
    draw, reference = random.Random(1), harness.reference()
    for _ in range(examples(20, default=10)):
        with snapshot(harness.reader):
            compare(reference, *random_query(harness, draw), draw)


@pytest.mark.usefixtures("batches")
def test_event_data_is_that_of_the_rows(harness: RollupHarness) -> None:
    def found() -> list[Data]:
        draw, results = random.Random(4), list[Data]()
        for _ in range(examples(20, default=10)):
            spans = spans_of(draw)
            scope = harness.scope(spans[0][0], spans[-1][1], filters_of(draw))
            with snapshot(harness.reader):
                for only in (None, "n"):
                    results.append(event_data.data(harness.reader, scope, draw.choice("xyz"), only, 10, ResultCache()))
        return results

    by_column, days = found(), harness.writer.execute("select * from packed_day").fetchall()
    harness.writer.execute("delete from packed_day")
    by_row = found()
    harness.writer.executemany("insert into packed_day values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", days)
    assert by_column == by_row
    assert any(of.first for of in by_row)


def test_batches_are_bounded_by_events_and_by_event_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day that exceeds a bound is a batch of its own."""
    monkeypatch.setattr(read, "MAX_EVENTS", 10)
    monkeypatch.setattr(read, "MAX_DATA", 100)
    sizes_of = [(4, 0), (6, 100), (1, 0), (9, 1), (11, 0), (1, 101), (1, 60), (1, 40), (1, 1)]
    days = [read.Day(day, 1, events, 0, DAY_MS, length) for day, (events, length) in enumerate(sizes_of)]
    found = [[day.day for day in some] for some in read.in_batches(days)]
    assert found == [[0, 1], [2, 3], [4], [5], [6, 7], [8]]


def test_event_data_of_long_texts_is_read_from_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day of one short text, one of a long one, one of different texts, and one of as many that repeat."""
    monkeypatch.setattr(write, "MAX_TEXTS", 25)
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db", ManualClock((DAY + 1) * DAY_MS - HOUR_MS))
    texts = ("",) * len(FIELDS) + ("x",)
    days = {DAY - 3: ["yyyyyy", "yz", "yx"], DAY - 2: ["yyyyyy", "yyyyyy", "yyyyyy"], DAY - 1: ["y"], DAY: [60 * "y"]}
    for day, values in days.items():
        for n, value in enumerate(values):
            harness.send((day * DAY_MS + n, 2, "a", texts), data=[f'{{"s":"{value}"}}'])
    harness.advance(60 * DAY_MS)
    harness.build()
    versions = {day: of.version for day, of in harness.days().items()}
    website = harness.websites[0].number
    assert sizes(harness.reader, website, versions) == {day: (1, len(values), 0) for day, values in days.items()}
    assert sizes(harness.reader, website, versions, with_data=True) == {
        DAY - 2: (1, 3, len('{"s":"yyyyyy"}')),
        DAY - 1: (1, 1, len('{"s":"y"}')),
    }
    # The rows of the others are needed.
    assert without_rows(harness.reader, website, DAY - 3, DAY) == [DAY - 2, DAY - 1]
    scope = harness.scope((DAY - 3) * DAY_MS, (DAY + 1) * DAY_MS, (Filter("prop.s", "*=", ("y",)),))
    assert harness.stats(scope).events == 8
    harness.close()


def test_event_data_without_copies_is_packed_once_the_day_is_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it would be stored twice; event_data that repeats, or of few events, is packed with the rest."""
    monkeypatch.setattr(write, "FEW_TEXTS", 20)
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db", ManualClock((DAY + 1) * DAY_MS - HOUR_MS))
    texts = ("",) * len(FIELDS) + ("x",)
    days = {DAY - 2: ["different", "without", "copies"], DAY - 1: ["copies", "copies", "copies"], DAY: ["few"]}
    for day, values in days.items():
        for n, value in enumerate(values):
            harness.send((day * DAY_MS + n, 2, "a", texts), data=[f'{{"s":"{value}"}}'])
    harness.advance(DAY_MS)
    harness.build()
    website, versions = harness.websites[0].number, {day: of.version for day, of in harness.days().items()}
    assert sizes(harness.reader, website, versions).keys() == days.keys()
    assert sizes(harness.reader, website, versions, with_data=True).keys() == {DAY - 1, DAY}
    assert without_rows(harness.reader, website, DAY - 2, DAY) == []
    assert [one for one in verify.verdicts(harness.reader, website) if one.fault] == []
    scope = harness.scope((DAY - 2) * DAY_MS, (DAY + 1) * DAY_MS, (Filter("prop.s", "*=", ("e",)),))
    before = harness.stats(scope)
    harness.advance(60 * DAY_MS)
    harness.build()
    assert without_rows(harness.reader, website, DAY - 2, DAY) == [*days]
    assert harness.stats(scope) == before
    harness.close()


def test_days_that_are_over_are_packed_before_they_are_final(tmp_path: Path) -> None:
    """A late event is counted by row until the day is packed again; a day that still goes on is not packed."""
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db", ManualClock((DAY + DAYS) * DAY_MS - HOUR_MS))
    harness.import_events(*drawn(random.Random(1)))
    harness.build()
    website = harness.websites[0].number
    versions = {day: of.version for day, of in harness.days().items() if day < DAY + DAYS - 1}
    assert sizes(harness.reader, website, versions).keys() == versions.keys() == set(range(DAY, DAY + DAYS - 1))
    scope = harness.scope(DAY * DAY_MS, (DAY + DAYS) * DAY_MS, (Filter("browser", "!=", ("x",)),))
    cache = ResultCache()
    for late in (False, True):
        if late:
            harness.send(((DAY + 2) * DAY_MS + HOUR_MS, 0, "late", ("z",) * (len(FIELDS) + 1)))
        for packed_again in (False, True):
            if packed_again:
                harness.build()
            reference = harness.reference()
            with snapshot(harness.reader):
                assert stats.stats(harness.reader, scope, cache) == reference.stats(scope)
    harness.close()


def test_lists_of_several_fields_are_counted_together(harness: RollupHarness) -> None:
    """They are those of each field, and the columns that they share are read once."""
    fields, reads = (*FIELDS, *PAGES), Counter[str]()
    scope = harness.scope(DAY * DAY_MS, (DAY + DAYS) * DAY_MS, (Filter("pathname", "!=", ("x",)),))

    def lists(fields: Sequence[tuple[str, ...]], name: str) -> list[Top]:
        """Return the lists, with nothing cached before."""
        cache = ResultCache()
        harness.reader.set_trace_callback(lambda sql: reads.update([name] if "/* statements.read */" in sql else []))
        with snapshot(harness.reader):
            queries = [[TopQuery(field, 10) for field in some] for some in fields]
            found = [one for some in queries for one in top(harness.reader, scope, some, cache)]
        harness.reader.set_trace_callback(None)
        return found

    assert lists([fields], "together") == lists([(field,) for field in fields], "alone")
    assert 0 < 2 * reads["together"] < reads["alone"]


@pytest.mark.usefixtures("batches")
def test_a_filter_is_decided_once_for_all_queries(harness: RollupHarness) -> None:
    scope = harness.scope(
        DAY * DAY_MS, (DAY + DAYS) * DAY_MS, (Filter("browser", "=", ("x",)), Filter("os", "!=", ("y",)))
    )
    cache, reads = ResultCache(), Counter[str]()
    asked_of = {f"field = {COLUMNS[name]} ": name for name in ("browser", "os", "country")}
    harness.reader.set_trace_callback(
        lambda sql: reads.update(
            name for text, name in asked_of.items() if "/* statements.read */" in sql and text in sql
        )
    )
    with snapshot(harness.reader):
        found = stats.stats(harness.reader, scope, cache)
        once = reads.copy()
        assert once["browser"] == once["os"] > once["country"] == 0
        top(harness.reader, scope, [TopQuery("country", 10)], cache)
        assert reads == once | {"country": once["os"]}
    harness.reader.set_trace_callback(None)
    assert found == harness.reference().stats(scope)


def test_pairs_of_more_than_32_bits() -> None:
    draw = random.Random(1)
    pairs = [(draw.randrange(2), draw.randrange(2)) for _ in range(20)]
    for factor in (1, 65_535, 65_536, 1_000_003):
        wide = [(code * factor, member * factor) for code, member in pairs]
        codes, members = day_columns._pairs(*np.array(wide).T)
        assert list(zip(codes.tolist(), members.tolist(), strict=True)) == sorted(set(wide))


def test_queries_count_in_columns_in_turn() -> None:
    """A thread that has had a turn is behind those that wait."""
    cache, turns, done = ResultCache(), list[int](), set[int]()

    def count(number: int) -> None:
        for _ in range(20):
            with cache.turn():
                turns.append(number)
                until(lambda: cache._next.locked() or 1 - number in done, 5)
        done.add(number)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(count, range(2)))
    assert turns in ([0, 1] * 20, [1, 0] * 20)


def test_queries_of_event_data_take_no_turn(harness: RollupHarness) -> None:
    """Their batches take long, and others would wait for each."""
    cache, is_held, is_counted = ResultCache(), Event(), Event()

    def hold() -> bool:
        with cache.turn():
            is_held.set()
            return is_counted.wait(60)

    with ThreadPoolExecutor(1) as threads, snapshot(harness.reader):
        holding = threads.submit(hold)
        is_held.wait()
        scope = harness.scope(DAY * DAY_MS, (DAY + DAYS) * DAY_MS)
        assert event_data.data(harness.reader, scope, "x", None, 10, cache).events > 0
        is_counted.set()
        assert holding.result()


def test_a_query_that_fails_ends_its_turn(harness: RollupHarness) -> None:
    scope, cache = harness.scope(DAY * DAY_MS, (DAY + DAYS) * DAY_MS, (Filter("browser", "=", ("x",)),)), ResultCache()
    with snapshot(harness.writer):
        harness.writer.execute("delete from day_column where field = ?", (COLUMNS["browser"],))
        with pytest.raises(ValueError, match="stored days have the column browser"):
            stats.stats(harness.writer, scope, cache)
        assert not cache._turn.locked()


def test_a_report_whose_time_is_over_is_interrupted(harness: RollupHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two batches; the statements that read columns are too short for SQLite's check of the deadline."""
    monkeypatch.setattr(read, "MAX_EVENTS", 1)
    scope = harness.scope(DAY * DAY_MS, (DAY + DAYS) * DAY_MS)
    with snapshot(harness.reader):
        coverage = coverage_of(harness.reader, scope, ResultCache())
        spans = [(day * DAY_MS, (day + 1) * DAY_MS) for day in range(DAY, DAY + DAYS)]
        [columns] = coverage.columns(spans, filtered=True)
        with interrupted_when(harness.reader, lambda: True), pytest.raises(sqlite3.OperationalError) as failure:
            columns.stats()
        assert failure.value.sqlite_errorname == "SQLITE_INTERRUPT"
        assert columns.stats()[0] > 0


def test_a_day_that_has_changed_meanwhile_is_not_stored(tmp_path: Path) -> None:
    """Such as one of a website that was deleted while it was packed: nothing of it may stay."""
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db", ManualClock((DAY + 60) * DAY_MS))
    harness.import_events(*drawn(random.Random(1)))
    harness.build()
    website, version = harness.websites[0].number, harness.days()[DAY].version
    with transaction(harness.writer):
        reopen(harness.writer, website, [DAY])
    with snapshot(harness.reader):
        packed = columns_of_day(harness.reader, website, DAY, is_final=True)
    assert packed.events
    for table in ("rollup_state", "packed_day", "day_column"):
        harness.writer.execute(f"delete from {table}")
    store(harness.writer, website, DAY, version, packed, is_final=True)
    for table in ("packed_day", "day_column"):
        assert harness.writer.execute(f"select count(*) from {table}").fetchone() == (0,)
    harness.close()
