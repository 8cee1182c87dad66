"""A file of an older version, made by its own schema and filled, becomes one of this version: the same figures, shape.

tally/migrations.py: each step "runs in one transaction together with its version number, and has to be quick ... What
takes long is left to the background, as a mark that says it is to be done."
"""

import random
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from conftest import ManualClock
from rolling import DAY_MS, HOUR_MS, MINUTE_MS, Works, file_of_version, label_of, left_over, wrong_tables

from tally import accounts, heat_days, heat_figures, rollups, vital_days, vital_figures, vitals
from tally.accounts import Owner
from tally.queries import Scope
from tally.registry import registry
from tally.schema import VERSION, open_database, transaction
from tally.timerange import Range, buckets
from tally.verification import HEATMAPS, HISTOGRAMS, TRIALS, verdicts

NOW_MS = 1_795_003_200_000
TODAY = NOW_MS // DAY_MS
DAYS = (TODAY, TODAY - 1, TODAY - 3, TODAY - 4, TODAY - 5, TODAY - 9, TODAY - 300, TODAY - 301)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of version 1 with two websites, of which one has traffic."""
    path = tmp_path / "analytics.db"
    connection = file_of_version(path, 1)
    connection.execute("begin")
    connection.execute("insert into meta values ('key_salt', '00'), ('next_id', 100001)")
    connection.execute("insert into account values (1, 'owner@example.com', 'business', null, 0)")
    for number in (1, 2):
        id_ = f"{number:08}-0000-4000-8000-000000000000"
        connection.execute("insert into website values (?, ?, 1, 'example.com', '', 0)", (number, id_))
    fill(connection)
    connection.execute("commit")
    connection.close()
    return path


def fill(connection: sqlite3.Connection) -> None:
    chance = random.Random(3)
    labels = [label_of(connection, text) for text in ("/a", "/b", "/c", "x")]
    id_ = 0
    for day in DAYS:
        for visitor in range(12):
            number = day * 1_000 + visitor
            begin_ms = day * DAY_MS + chance.randrange(12) * HOUR_MS + chance.choice((0, 1, 15 * MINUTE_MS, 899_999))
            # Two visits where the second step is longer than 30 minutes.
            times = [begin_ms + minutes * MINUTE_MS for minutes in (0, 20, 20 + chance.choice((5, 31)))]
            times = [ts for ts in times if ts <= NOW_MS]
            cut = len(times) == 3 and times[2] - times[1] > 30 * MINUTE_MS
            for place, ts in enumerate(times):
                id_ += 1
                visit = int(cut and place == 2)
                row = (1, ts, id_, place, number, visit, *(chance.choice(labels) for _ in range(14)), 0)
                connection.execute(f"insert into event values ({', '.join('?' * 21)}, null)", row)
            for visit, part in enumerate((times[:2], times[2:]) if cut else (times,)):
                views = min(len(part), 2 * (1 - visit))
                if part:
                    row = (1, part[0], number, visit, part[-1] - part[0], views, len(part) - views)
                    connection.execute("insert into visit values (?, ?, ?, ?, ?, ?, ?)", row)


@pytest.fixture
def works(old: Path) -> Iterator[Works]:
    """The file, opened by this version."""
    works = Works(old, ManualClock(NOW_MS))
    yield works
    works.close()


RANGES = (
    (0, NOW_MS + 1),
    (NOW_MS - 7 * DAY_MS - 1, NOW_MS - 12_345),
    ((TODAY - 301) * DAY_MS, (TODAY - 299) * DAY_MS),
    (TODAY * DAY_MS + 2 * HOUR_MS, TODAY * DAY_MS + 3 * HOUR_MS),
)


def same(works: Works) -> None:
    plain = works.plain()
    for from_ms, to_ms in RANGES:
        for filters in ((), (("os", ("x", "/a")),)):
            scope = works.scope(from_ms, to_ms, filters)
            assert works.stats(scope) == plain.stats(scope)
            assert works.top(scope, "referrer", 3) == plain.top(scope, "referrer", 3)
            assert works.names(scope, 3) == plain.names(scope, 3)
            for side in ("entry", "exit"):
                assert works.pages(scope, side, 3) == plain.pages(scope, side, 3)
        if from_ms:
            span = Range(from_ms, to_ms, ZoneInfo("Asia/Kolkata"), None)
            edges = [(bucket.from_ms, bucket.to_ms) for bucket in buckets(span, "hour")]
            assert works.series(works.scope(from_ms, to_ms), edges) == plain.series(works.scope(from_ms, to_ms), edges)


def test_every_day_with_traffic_is_to_be_built(works: Works) -> None:
    """The rule: "Every day with traffic begins as stale"."""
    assert works.writer.execute("pragma user_version").fetchone() == (VERSION,)
    assert {day: known.state for day, known in works.days().items()} == dict.fromkeys(DAYS, rollups.STALE)
    assert works.days(website=1) == {}


def test_figures_are_the_same_before_while_and_after_they_are_built(works: Works) -> None:
    """CONTRACT: "the same number as the plain query over raw events"."""
    works.meanwhile = [lambda: same(works)] * 40
    same(works)
    works.build()
    assert works.meanwhile == []
    same(works)
    assert {known.state for known in works.days().values()} == {rollups.OPEN, rollups.FINAL}
    works.build_all()
    same(works)
    assert wrong_tables(works.reader, 1) == []
    assert left_over(works.reader, 1) == []


def test_events_arrive_after_the_migration(works: Works) -> None:
    """Days that are still to be built take events too."""
    texts = ("/new", *("x",) * 13, "")
    works.send((NOW_MS, 0, "ann", texts), (NOW_MS - DAY_MS, 0, "ann", texts), (NOW_MS - 2 * DAY_MS, 0, "ann", texts))
    same(works)
    works.build()
    same(works)
    assert wrong_tables(works.reader, 1) == []


def shape(connection: sqlite3.Connection) -> dict[str, Any]:
    """Tables with their columns, keys and checks, and indexes, but for comments and spaces."""
    names = "select name, type, sql from sqlite_schema where name not like 'sqlite_%' order by name"
    found: dict[str, Any] = {}
    for name, type_, sql in connection.execute(names).fetchall():
        if type_ == "table":
            columns = connection.execute(f"pragma table_xinfo({name})").fetchall()
            keys = connection.execute(f"pragma foreign_key_list({name})").fetchall()
            kind = connection.execute("select wr, strict from pragma_table_list where name = ?", (name,)).fetchone()
            found[name] = (columns, keys, kind, re.sub(r"--.*|\s", "", sql))
        else:
            columns = connection.execute(f"pragma index_xinfo({name})").fetchall()
            found[name] = (columns, re.sub(r".* where ", "", sql) if " where " in sql else "")
    return found


def test_the_shape_is_that_of_a_fresh_file(works: Works, tmp_path: Path) -> None:
    """A file that was brought up to date differs from a new one by nothing."""
    fresh = open_database(tmp_path / "fresh.db", create=True)
    try:
        assert shape(works.writer) == shape(fresh)
        assert {"moment", "rollup", "built", "pair", "built_unfinished"} <= shape(fresh).keys()
        for pragma in ("user_version", "application_id", "auto_vacuum", "journal_mode"):
            statement = f"pragma {pragma}"
            assert works.writer.execute(statement).fetchone() == fresh.execute(statement).fetchone()
    finally:
        fresh.close()


@pytest.mark.parametrize(
    "statement",
    [
        "update website set keep_days = -1",
        "insert into rollup values (1, 15, 0, 0, 0, 0, 0, 0)",
        "insert into rollup values (1, 0, 9, 0, 0, 0, 0, 0)",
        "insert into built values (1, 0, 0, 4, 0, 0)",
        "insert into moment values (1, 0, 'x', 0, 0, 0, 0, 0, 0, 0, 0)",
    ],
)
def test_the_checks_of_the_new_tables_bite(works: Works, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        works.writer.execute(statement)


# --- version 2


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A file of version 2 with an account, a website with an origin, and a key."""
    path = tmp_path / "second.db"
    connection = file_of_version(path, 2)
    connection.execute("insert into meta values ('key_salt', '00'), ('next_id', 100001)")
    connection.execute("insert into account values (1, 'owner@example.com', 'business', 'hash', 5)")
    connection.execute("insert into website values (3, ?, 1, 'example.com', 'N', 7, 30)", ("0" * 36,))
    connection.execute("insert into website_origin values (3, 'app://x')")
    connection.execute("insert into api_key values (1, 1, 'k', 'tly_', zeroblob(32), 9, null)")
    connection.close()
    return path


def test_what_owners_set_up_stays(second: Path) -> None:
    connection = open_database(second, create=False)
    try:
        month = 202611
        found = registry(connection, month)
        assert found.websites["0" * 36].origins == {"app://x"}
        assert found.owners == {1: Owner(1, "owner@example.com", "business", None, True)}
        assert accounts.password_hash(connection, 1) == "hash"
        assert (len(found.keys), found.shares, found.logins) == (1, {}, {})
        assert connection.execute("select keep_days from website").fetchall() == [(30,)]
        assert connection.execute("select count(*) from gone").fetchall() == [(0,)]
    finally:
        connection.close()


def test_the_shape_of_version_2_becomes_that_of_a_fresh_file(second: Path, tmp_path: Path) -> None:
    fresh, brought = open_database(tmp_path / "fresh.db", create=True), open_database(second, create=False)
    try:
        assert shape(brought) == shape(fresh)
        assert {"login", "share", "gone"} <= shape(fresh).keys()
        assert brought.execute("pragma user_version").fetchone() == (VERSION,)
    finally:
        fresh.close()
        brought.close()


def assert_refused(path: Path, statement: str) -> None:
    """A check of the newest shape stands in a file that was brought up to it, too."""
    connection = open_database(path, create=False)
    try:
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    finally:
        connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "insert into login values (zeroblob(31), 1, 0, 0)",
        "insert into login values (zeroblob(32), 9, 0, 0)",
        "insert into share values (9, '123456789012345678901234', 0)",
        "insert into share values (3, 'short', 0)",
        "insert into gone values (1, 0, 2)",
    ],
)
def test_the_checks_of_version_3_bite(second: Path, statement: str) -> None:
    assert_refused(second, statement)


# --- version 3


@pytest.fixture
def third(tmp_path: Path) -> Path:
    """A file of version 3 with a website that somebody shares, an event of it and a website that is being deleted."""
    path = tmp_path / "third.db"
    connection = file_of_version(path, 3)
    connection.execute("insert into meta values ('key_salt', '00'), ('next_id', 100001)")
    connection.execute("insert into account values (1, 'owner@example.com', 'business', 'hash', 5, 'Europe/Berlin')")
    connection.execute("insert into website values (3, ?, 1, 'example.com', 'N', 7, 30)", ("0" * 36,))
    connection.execute("insert into share values (3, '123456789012345678901234', 0)")
    connection.execute("insert into gone values (4, 0, 0)")
    connection.execute(f"insert into event values (3, 9{', 0' * 19}, null)")
    connection.close()
    return path


def test_the_shape_of_version_3_becomes_that_of_a_fresh_file(third: Path, tmp_path: Path) -> None:
    """What was there stays, and nothing has been left out yet."""
    fresh, brought = open_database(tmp_path / "fresh.db", create=True), open_database(third, create=False)
    try:
        assert shape(brought) == shape(fresh)
        assert {"left_out", "left_out_sample"} <= shape(fresh).keys()
        assert brought.execute("pragma user_version").fetchone() == (VERSION,)
        assert registry(brought, 202611).shares == {"123456789012345678901234": "0" * 36}
        for table, rows in (("event", 1), ("gone", 1), ("left_out", 0), ("left_out_sample", 0)):
            assert brought.execute(f"select count(*) from {table}").fetchone() == (rows,)
        assert brought.execute("pragma integrity_check").fetchall() == [("ok",)]
    finally:
        fresh.close()
        brought.close()


@pytest.mark.parametrize(
    "statement",
    [
        "insert into left_out values (3, 0, 64, 1)",
        "insert into left_out values (3, 0, 0, 0)",
        "insert into left_out_sample values (3, -1, 1, 0, null, '', '')",
        "insert into left_out_sample values (3, 0, 1, 0, 8, '', '')",
        "insert into left_out_sample values (3, 0, 1, 0, null, '', printf('%.*c', 254, 'x'))",
    ],
)
def test_the_checks_of_version_4_bite(third: Path, statement: str) -> None:
    assert_refused(third, statement)


# --- to version 5: web vitals and experiments


@pytest.fixture
def measured(third: Path) -> Path:
    """The same with web vitals, as the numbers they were, and an experiment."""
    connection = sqlite3.connect(third, isolation_level=None)
    zeros = ", 0" * 14
    for n, (lcp, cls) in enumerate([("1234.5", "0.0123456"), ("3600000", "null"), ("null", "100"), ("0.00049", "0")]):
        ts_ms = (TODAY - n % 2) * DAY_MS + n
        connection.execute(f"insert into vitals values (3, {ts_ms}, {n + 1}{zeros}, {lcp}, null, 7, null, {cls})")
    for id_, (type_, visitor, variant, goal) in enumerate(
        [(6, 1, 8, 0), (7, 1, 8, 9), (7, 1, 8, 9), (6, 2, 7, 0), (7, 3, 8, 9)], start=10
    ):
        row = f"3, {TODAY * DAY_MS + id_}, {id_}, {type_}, {visitor}{zeros}, 5, {variant}, {goal}, null"
        connection.execute(f"insert into ab values ({row})")
    connection.execute(f"insert into assignment values (3, {TODAY}, 5, 1, 8), (3, {TODAY}, 5, 2, 7)")
    connection.close()
    return third


def test_web_vitals_become_whole_numbers(measured: Path) -> None:
    """Microseconds, and millionths of cls."""
    connection = open_database(measured, create=False)
    try:
        assert connection.execute("select id, lcp, inp, fcp, ttfb, cls from vitals order by id").fetchall() == [
            (1, 1_234_500, None, 7_000, None, 12_346),
            (2, 3_600_000_000, None, 7_000, None, None),
            (3, None, None, 7_000, None, 100_000_000),
            (4, 0, None, 7_000, None, 0),
        ]
        assert connection.execute("select count(*) from histogram").fetchone() == (0,)
        assert vital_days.is_pending(connection, 3)
        assert not vital_days.is_pending(connection, 1)
        # Raw rows answer until the background has added them up, with the same figures.
        scope = Scope(3, (TODAY - 1) * DAY_MS, (TODAY + 1) * DAY_MS)
        before = vital_figures.overall(connection, scope)
        with transaction(connection):
            while vital_days.catch_up(connection, 3):
                pass
        assert not vital_days.is_pending(connection, 3)
        assert vital_figures.overall(connection, scope) == before
        assert before[vitals.EVENTS] == 4
        assert [verdict for verdict in verdicts(connection, 3) if verdict.fault in (HISTOGRAMS, TRIALS)] == []
    finally:
        connection.close()


def test_heatmaps_are_read_before_they_are_packed(third: Path) -> None:
    """Version 6: "What is in `heat` is read from there until it is packed, in the background"."""
    connection = sqlite3.connect(third, isolation_level=None)
    label = label_of(connection, "/a")
    for day in (TODAY - 70, TODAY - 1, TODAY):
        connection.execute("insert into heat values (3, ?, ?, 0, 0, 700, 5, 3)", (day, label))
        connection.execute("insert into heat values (3, ?, ?, 2, 1, 9, 0, 2)", (day, label))
    connection.close()
    connection = open_database(third, create=False)
    try:
        days = range(TODAY - 80, TODAY + 1)
        for is_packed in (False, True):
            assert heat_figures.heatmap(connection, 3, "/a", days, (0, 1, 2))[0] == [(5, 700, 9)]
            assert heat_figures.pages(connection, 3, days, (0, 1, 2), 10).rows == [("/a", 6, 9)]
            assert [verdict for verdict in verdicts(connection, 3) if verdict.fault == HEATMAPS] == []
            assert connection.execute("select count(*) from heat_block").fetchone() == (4 * is_packed,)
            until = heat_days.due(connection, 3, TODAY)
            with transaction(connection):
                while until and heat_days.pack(connection, 3, until):
                    pass
        assert connection.execute("select distinct day from heat").fetchall() == [(TODAY,)]
    finally:
        connection.close()


def test_experiments_are_counted(measured: Path) -> None:
    """Once a visitor and goal, for the variant that was assigned, and not without one."""
    connection = open_database(measured, create=False)
    try:
        assert connection.execute("select * from trial order by variant, converted").fetchall() == [
            (3, TODAY, 5, 7, 0, 0, 1),
            (3, TODAY, 5, 8, 0, 0, 1),
            (3, TODAY, 5, 8, 1, 9, 1),
        ]
        assert connection.execute("select count(*) from conversion").fetchone() == (2,)
    finally:
        connection.close()
