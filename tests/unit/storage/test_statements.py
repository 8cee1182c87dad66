"""tally/storage/sql/events.py on rows put in by hand: each statement alone, and the wall around all of them.

The rules are in docs/reference/definitions.md, Figures of a range. How the figures read over HTTP is in
test_read_api.py, how the statements find their rows in test_query_plans.py.
"""

import inspect
import sqlite3
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from tally.storage.database import open_database
from tally.storage.sql import events as sql
from tally.storage.sql import measurements as measurements_statements
from tally.storage.sql.events import FILTERS, Place, Query, Scope
from tests.support.cases import cases
from tests.support.read_api import FIELDS as SEED_FIELDS

W = 7  # the website that is asked about; 8 is another
FIRST = 1 << 62
TEXTS = ("", "/a", "/b", "ios", "signup", "button", "red", "buy", "\uffff", "\U0001f600")  # label 0, 1, 2 ...
DIMENSIONS = dict.fromkeys(SEED_FIELDS, 0)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """A database as the product makes it, with labels."""
    connection = open_database(tmp_path_factory.mktemp("queries") / "analytics.db", create=True)
    connection.executemany("insert into label (id, text) values (?, ?)", list(enumerate(TEXTS))[1:])
    yield connection
    connection.close()


@pytest.fixture
def database(empty: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A copy in memory, for one test."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    empty.backup(connection)
    yield connection
    connection.close()


def put(connection: sqlite3.Connection, table: str, **columns: Any) -> None:
    marks = ", ".join("?" * len(columns))
    connection.execute(f"insert into {table} ({', '.join(columns)}) values ({marks})", list(columns.values()))


def traffic(
    connection: sqlite3.Connection, ts: int, id_: int, type_: int = 0, visitor: int = 1, visit: int = 0, **columns: Any
) -> None:
    common = {"website": W, "ts": ts, "id": id_, "type": type_, "visitor": visitor, "visit": visit, "event_name": 0}
    put(connection, "event", **(common | DIMENSIONS | columns))


def a_visit(connection: sqlite3.Connection, begin_ms: int, visitor: int, visit: int = 0, **columns: Any) -> None:
    common = {
        "website": W,
        "start_ms": begin_ms,
        "visitor": visitor,
        "visit": visit,
        "duration_ms": 0,
        "pageviews": 1,
        "events": 0,
    }
    put(connection, "visit", **(common | columns))


def run(connection: sqlite3.Connection, query: Query) -> list[tuple[Any, ...]]:
    return connection.execute(*query).fetchall()


@pytest.fixture
def filled(database: sqlite3.Connection) -> sqlite3.Connection:
    """Visitor 1 has two visits, 2 has one; the website beside has the same again."""
    for website in (W, W + 1):
        traffic(database, 1_000, 1, website=website, pathname=1, platform=3)
        traffic(database, 2_000, 2, website=website, pathname=2)
        traffic(database, 2_000, 3, 2, website=website, pathname=2, event_name=4)
        traffic(database, 9_000, 4, website=website, visit=1, pathname=1)
        traffic(database, 3_000, 5, 1, 2, website=website, pathname=1, platform=3)
        traffic(database, 3_000, 6, 3, 2, website=website, event_name=4)
        a_visit(database, 1_000, 1, website=website, duration_ms=1_000, pageviews=2, events=1)
        a_visit(database, 9_000, 1, 1, website=website)
        a_visit(database, 3_000, 2, website=website, events=1)
    return database


IOS = (("platform", ("ios",)),)


@pytest.mark.parametrize(
    ("scope", "expected_traffic", "expected_visits"),
    [
        pytest.param(Scope(W, 0, 10_000), (2, 4, 2), (3, 1, 4, 1_000), id="all"),
        pytest.param(Scope(W, 1_000, 1_001), (1, 1, 0), (1, 0, 2, 1_000), id="half-open"),
        pytest.param(Scope(W, 1_001, 9_000), (2, 2, 2), (1, 0, 1, 0), id="begun-before"),
        pytest.param(Scope(W, 10_000, 20_000), (0, 0, 0), (0, 0, 0, 0), id="nothing"),
        pytest.param(Scope(W + 2, 0, 10_000), (0, 0, 0), (0, 0, 0, 0), id="no-website"),
        pytest.param(Scope(W, 0, 10_000, IOS), (2, 2, 0), (2, 0, 3, 1_000), id="filter"),
        pytest.param(Scope(W, 0, 10_000, (("platform", ("",)),)), (2, 2, 2), (3, 1, 4, 1_000), id="unset"),
        pytest.param(Scope(W, 0, 10_000, (("pathname", ("/a", "/b")),)), (2, 4, 1), (3, 1, 4, 1_000), id="any"),
        pytest.param(Scope(W, 0, 10_000, (*IOS, ("event_name", ("signup",)))), (0, 0, 0), (0, 0, 0, 0), id="all-must"),
        pytest.param(Scope(W, 0, 10_000, (("type", ("event", "app_event")),)), (2, 0, 2), (2, 0, 3, 1_000), id="type"),
        pytest.param(Scope(W, 0, 10_000, (("type", ("",)),)), (0, 0, 0), (0, 0, 0, 0), id="no-type"),
        pytest.param(Scope(W, 0, 10_000, (("os", ("nowhere",)),)), (0, 0, 0), (0, 0, 0, 0), id="unknown-text"),
    ],
)
def test_stats(
    filled: sqlite3.Connection, scope: Scope, expected_traffic: tuple[int, ...], expected_visits: tuple[int, ...]
) -> None:
    """visitors, pageviews, events of E; visits that begin in the range and have an event in E."""
    assert run(filled, sql.stats(scope)) == [(*expected_traffic, *expected_visits)]
    assert run(filled, sql.visitors(scope)) == [expected_traffic[:1]]


def added_up(rows: list[tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Bucket -> visitors, visits, pageviews, events."""
    sums: dict[int, tuple[int, ...]] = {}
    for bucket, *figures in rows:
        sums[bucket] = tuple(map(sum, zip(figures, sums.get(bucket, (0, 0, 0, 0)), strict=True)))
    return sums


def test_series(filled: sqlite3.Connection) -> None:
    """A visit counts in the bucket in which it begins, with E of the whole range."""
    edges = [(0, 2_000), (2_000, 3_000), (3_000, 4_000), (4_000, 9_000), (9_000, 9_001)]
    scope = Scope(W, 0, 9_001)
    found = added_up(run(filled, sql.series(scope, edges)))
    assert found == {0: (1, 1, 1, 0), 1: (1, 0, 1, 1), 2: (1, 1, 1, 1), 4: (1, 1, 1, 0)}
    named = scope._replace(filters=(("event_name", ("signup",)),))
    found = added_up(run(filled, sql.series(named, edges)))
    assert found == {0: (0, 1, 0, 0), 1: (1, 0, 0, 1), 2: (1, 1, 0, 1)}


def test_in_order(filled: sqlite3.Connection) -> None:
    """Four lists of one length, oldest first; at one moment by id."""
    assert run(filled, sql.in_order(W, "pathname", 1_000, 3_000)) == [
        ("[0,1000,1000]", "[1,1,1]", "[0,0,1]", "[1,2,2]")
    ]
    assert run(filled, sql.in_order(W, "", 2_000, 3_000)) == [("[0,0]", "[1,1]", "[0,1]", "[0,0]")]
    assert run(filled, sql.in_order(W, "pathname", 20_000, 30_000)) == [("[]",) * 4]


def test_counts(filled: sqlite3.Connection) -> None:
    """A row for each value in E; the row of unset is label 0's. In no order: tally/reports/stats.py sorts."""
    pathname = sql.counts(Scope(W, 0, 10_000), "pathname")
    assert sorted(run(filled, pathname)) == [(0, 1, 0, 1), (1, 2, 3, 0), (2, 1, 1, 1)]
    assert run(filled, sql.counts(Scope(W, 0, 10_000, IOS), "pathname")) == [(1, 2, 2, 0)]
    assert run(filled, sql.counts(Scope(W, 20_000, 30_000), "pathname")) == []


def test_texts(database: sqlite3.Connection) -> None:
    """Those that were asked for, each once."""
    assert sorted(run(database, sql.texts([9, 0, 1, 1, 77]))) == [(0, ""), (1, "/a"), (9, "\U0001f600")]
    assert run(database, sql.texts([])) == []


def test_traffic(filled: sqlite3.Connection) -> None:
    """The events of E."""
    assert run(filled, sql.traffic(Scope(W, 0, 10_000))) == [(6,)]
    assert run(filled, sql.traffic(Scope(W, 1_000, 2_000))) == [(1,)]
    assert run(filled, sql.traffic(Scope(W, 0, 10_000, IOS))) == [(2,)]
    assert run(filled, sql.traffic(Scope(W + 2, 0, 10_000))) == [(0,)]


# --- totals of quarters


def quarter(connection: sqlite3.Connection, number: int, *figures: int, website: int = W) -> None:
    """A row of total_15m: pageviews, events, first_seen, last_seen, hour_visitors, visits, bounces, visit_pageviews,
    visit_duration_ms."""
    connection.execute(f"insert into total_15m values ({', '.join('?' * 11)})", (website, number, *figures))


@pytest.fixture
def quarters(database: sqlite3.Connection) -> sqlite3.Connection:
    """Powers of ten, so that each figure tells which rows are in it; the website beside has the same again."""
    for website in (W, W + 1):
        for place, number in enumerate((93, 94, 95, 96, 97, 192)):
            ten = 10**place
            figures = (ten, 2 * ten, 3 * ten, 4 * ten, 5 * ten, 6 * ten, 7 * ten, 8 * ten, 9 * ten)
            quarter(database, number, *figures, website=website)
    return database


@pytest.mark.parametrize(
    ("first", "end", "midnight", "expected"),
    [
        pytest.param(93, 193, 96, (333_444, 111_111, 222_222, 666_666, 777_777, 888_888, 999_999), id="all"),
        pytest.param(96, 98, 96, (33_000, 11_000, 22_000, 66_000, 77_000, 88_000, 99_000), id="from midnight on"),
        pytest.param(94, 96, 96, (440, 110, 220, 660, 770, 880, 990), id="to midnight: who came last"),
        pytest.param(93, 96, 93, (333, 111, 222, 666, 777, 888, 999), id="who came first"),
        pytest.param(98, 192, 96, (0,) * 7, id="nothing"),
    ],
)
def test_totals(quarters: sqlite3.Connection, first: int, end: int, midnight: int, expected: tuple[int, ...]) -> None:
    """tally/storage/sql/events.py: "the sum of last_seen before the quarter `midnight`, of first_seen from it on"."""
    assert run(quarters, sql.totals(W, first, end, midnight)) == [expected]


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [
        pytest.param(0, 192, [(0, 333, 666, 111, 222), (1, 33_000, 66_000, 11_000, 22_000)], id="UTC"),
        pytest.param(192, 288, [(0, 3 * 10**5, 6 * 10**5, 10**5, 2 * 10**5)], id="another day"),
        # Half of the local day lies before midnight UTC: there who came last, behind it who came first.
        pytest.param(48, 144, [(0, 33_444, 66_666, 11_111, 22_222)], id="12 hours off"),
        # One quarter of it lies before.
        pytest.param(95, 191, [(0, 33_400, 66_600, 11_100, 22_200)], id="a quarter off"),
        pytest.param(98, 194, [(0, 3 * 10**5, 6 * 10**5, 10**5, 2 * 10**5)], id="the next midnight"),
    ],
)
def test_days(quarters: sqlite3.Connection, first: int, end: int, expected: list[tuple[int, ...]]) -> None:
    """Each local day is the end of one UTC day and the beginning of another."""
    assert run(quarters, sql.days(W, first, end)) == expected


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [
        pytest.param(92, 100, [(0, 0, 666, 111, 222), (1, 5_000, 66_000, 11_000, 22_000)], id="on the hour"),
        # From 23:15 on: who is there from the quarter 93 on, and who came first behind midnight.
        pytest.param(93, 97, [(0, 3_005, 6_666, 1_111, 2_222)], id="one quarter behind midnight"),
        pytest.param(94, 98, [(0, 33_050, 66_660, 11_110, 22_220)], id="two quarters behind midnight"),
        pytest.param(96, 100, [(0, 5_000, 66_000, 11_000, 22_000)], id="from midnight on"),
    ],
)
def test_hours(quarters: sqlite3.Connection, first: int, end: int, expected: list[tuple[int, ...]]) -> None:
    """tally/storage/sql/events.py: "an hour that crosses midnight UTC: those before it, and those whose first ... lies
    behind".
    """
    assert run(quarters, sql.hours(W, first, end)) == expected


DAY_MS = 86_400_000


def test_who_came_first_and_last(database: sqlite3.Connection) -> None:
    """By the begins and ends of visits, within one UTC day."""
    visits = ((1, 100, 0), (1, 500, 50), (2, 500, 100), (3, 300, 250), (4, 550, 0), (5, DAY_MS + 1, 0))
    for visitor, begin, ms in visits:
        a_visit(database, begin, visitor, begin % 47, duration_ms=ms)
        a_visit(database, begin, visitor, begin % 47, duration_ms=ms, website=W + 1)

    def number(query: Query) -> int:
        return int(run(database, query)[0][0])

    assert number(sql.came_first(W, 0, 500, 600)) == 2  # 2 and 4; 1 was there before
    assert number(sql.came_first(W, 0, 500, 550)) == 1
    assert number(sql.came_first(W, 0, 600, 700)) == 0
    assert number(sql.came_first(W, DAY_MS, DAY_MS, DAY_MS + 2)) == 1
    assert number(sql.came_last(W, DAY_MS, 500, 551)) == 3  # 1 and 3 at 550, 4
    assert number(sql.came_last(W, DAY_MS, 100, 101)) == 0  # 1 comes again
    assert number(sql.came_last(W, DAY_MS, 540, 600)) == 3
    assert number(sql.came_last(W, DAY_MS, 600, 601)) == 1
    assert number(sql.came_last(W, 2 * DAY_MS, DAY_MS, DAY_MS + 2)) == 1


def test_visitors_of_a_stretch(filled: sqlite3.Connection) -> None:
    """Distinct, up to so many; and how many of some are there."""
    assert sorted(run(filled, sql.visitors_between(W, 0, 10_000, 9))) == [(1,), (2,)]
    assert len(run(filled, sql.visitors_between(W, 0, 10_000, 1))) == 1
    assert run(filled, sql.visitors_between(W, 2_001, 9_000, 9)) == [(2,)]
    assert run(filled, sql.how_many_of(W, 0, 3_000, [1, 2, 3])) == [(1,)]
    assert run(filled, sql.how_many_of(W, 0, 3_001, [1, 2, 3])) == [(2,)]
    assert run(filled, sql.how_many_of(W, 0, 3_001, [])) == [(0,)]


# --- values of days


@pytest.fixture
def rolled(database: sqlite3.Connection) -> sqlite3.Connection:
    """Days 10 and 11, folded, and 12, with nothing folded; a block of the first two."""
    everything = sql.ALL
    for website in (W, W + 1):
        for day in (10, 11, 12):
            database.execute("insert into rollup_state values (?, 0, ?, 1, 0, 1)", (website, day))
        database.execute("insert into rollup_state values (?, 1, 5, 2, 0, 1)", (website,))
        for field, level, block, value, *figures in (
            *((0, 0, 10, 1, 2, 3, 1), (0, 0, 10, 2, 1, 1, 1), (0, 0, 11, 1, 5, 7, 0), (0, 1, 5, 1, 7, 10, 1)),
            *((1, 0, 10, 1, 99, 99, 99), (everything, 0, 10, 0, 2, 4, 2), (everything, 0, 11, 0, 5, 7, 0)),
        ):
            row = (website, field, level, block, value, *figures)
            database.execute("insert into rollup values (?, ?, ?, ?, ?, ?, ?, ?)", row)
    return database


@pytest.mark.parametrize(
    ("tiles", "expected"),
    [
        ([(0, 10)], [(1, 2, 3, 1), (2, 1, 1, 1)]),
        ([(0, 10), (0, 11)], [(1, 7, 10, 1), (2, 1, 1, 1)]),
        ([(1, 5)], [(1, 7, 10, 1)]),
        ([(0, 12)], []),
    ],
)
def test_sums(rolled: sqlite3.Connection, tiles: list[tuple[int, int]], expected: list[tuple[int, ...]]) -> None:
    """Blocks of any level, added up by value."""
    assert sorted(run(rolled, sql.sums(W, 0, tiles))) == expected


def test_folded_and_matching(rolled: sqlite3.Connection) -> None:
    """How many events are folded on each day, and how many of them have one of some values."""
    assert run(rolled, sql.folded(W, 10, 13)) == [(10, 6), (11, 7)]
    assert run(rolled, sql.folded(W, 11, 12)) == [(11, 7)]
    assert sorted(run(rolled, sql.matching(W, 0, 10, 13, ["/a"]))) == [(10, 4), (11, 7)]
    assert sorted(run(rolled, sql.matching(W, 0, 10, 13, ["/a", "/b", "/a", "nowhere"]))) == [(10, 6), (11, 7)]
    assert run(rolled, sql.matching(W, 0, 10, 11, ["/b"])) == [(10, 2)]
    assert run(rolled, sql.matching(W, 0, 12, 13, ["/a"])) == []


def test_last_kept(rolled: sqlite3.Connection) -> None:
    """The last day whose rows are gone; none where all are there."""
    assert run(rolled, sql.last_kept(W)) == []
    rolled.execute("update rollup_state set state = 3 where website = ? and level = 0 and block < 12", (W,))
    rolled.execute("update rollup_state set state = 3 where website = ? and level = 0", (W + 1,))
    assert run(rolled, sql.last_kept(W)) == [(11,)]


def test_not_folded(filled: sqlite3.Connection) -> None:
    """Visitors whom a value has already are not new to it; the others are."""
    for visitor, pathname in ((1, 1), (2, 9)):
        put(
            filled,
            "open_day_visitor",
            website=W,
            day=0,
            visitor=visitor,
            **DIMENSIONS | {"pathname": pathname},
            event_name=0,
        )
    filled.execute("insert into open_day_visitor_value values (?, 0, 2, 0, 2), (?, 0, 1, 1, 2)", (W, W))
    found = sorted(run(filled, sql.not_folded(W, 0, 0, 2_000, 10_000)))
    assert found == [(0, 1, 0, 1), (1, 1, 2, 0), (2, 1, 1, 1)]
    filled.execute("delete from open_day_visitor")
    assert sorted(run(filled, sql.not_folded(W, 0, 0, 2_000, 10_000)))[1] == (1, 2, 2, 0)


def listed(connection: sqlite3.Connection, scope: Scope, place: Place, limit: int = 100) -> list[int]:
    return [row[0] for row in run(connection, sql.events(scope, place, limit))]


@pytest.fixture
def measured(filled: sqlite3.Connection) -> sqlite3.Connection:
    """With a row of vitals and two of A/B between."""
    put(filled, "web_vitals", website=W, ts=2_000, id=7, **DIMENSIONS | {"pathname": 1}, lcp=1_500)
    common = {"website": W, "visitor": 1, **DIMENSIONS, "experiment": 5, "variant": 6}
    put(filled, "experiment_event", ts=2_000, id=8, type=6, goal=0, **common)
    put(filled, "experiment_event", ts=2_001, id=9, type=7, goal=7, value=-1.0, **common)
    return filled


START = Place(FIRST, FIRST, 100)


def asked(field: str, *values: str) -> Scope:
    return Scope(W, 0, 10_000, ((field, values),))


@pytest.mark.parametrize(
    ("scope", "place", "limit", "ids"),
    [
        pytest.param(Scope(W, 0, 10_000), START, 100, [4, 6, 5, 9, 8, 7, 3, 2, 1], id="all"),
        pytest.param(Scope(W, 0, 10_000), START, 4, [4, 6, 5, 9], id="limit"),
        pytest.param(Scope(W, 0, 10_000), Place(2_000, 8, 100), 100, [7, 3, 2, 1], id="within-a-tie"),
        pytest.param(Scope(W, 0, 10_000), Place(2_000, 2, 100), 100, [1], id="end-of-a-tie"),
        pytest.param(Scope(W, 0, 10_000), Place(FIRST, FIRST, 5), 100, [4, 5, 3, 2, 1], id="nothing-later-than-5"),
        pytest.param(Scope(W, 2_000, 2_001), START, 100, [8, 7, 3, 2], id="range"),
        pytest.param(Scope(W, 2_000, 2_001), Place(9_000, 0, 100), 100, [8, 7, 3, 2], id="place-after-the-range"),
        pytest.param(Scope(W, 0, 10_000), Place(0, 0, 100), 100, [], id="end"),
        pytest.param(asked("pathname", "/a"), START, 100, [4, 5, 7, 1], id="filter"),
        pytest.param(asked("type", "vitals", "ab_convert"), START, 100, [9, 7], id="types"),
        pytest.param(asked("event_name", "signup"), START, 100, [6, 3], id="name"),
        pytest.param(asked("event_name", ""), START, 100, [4, 5, 9, 8, 7, 2, 1], id="no-name"),
    ],
)
def test_events(measured: sqlite3.Connection, scope: Scope, place: Place, limit: int, ids: list[int]) -> None:
    """Newest first (timestamp, then id), every type but heatmap; a page begins where the last one ended."""
    assert listed(measured, scope, place, limit) == ids


def test_columns_of_events(measured: sqlite3.Connection) -> None:
    """The columns of /events, null where not theirs; labels come as their texts."""
    rows = {row[0]: row[1:] for row in run(measured, sql.events(Scope(W, 0, 10_000), Place(FIRST, FIRST, 9), 100))}
    unset = ("",) * 13
    nothing = (None,) * 5
    assert rows[3] == (2, 2_000, "/b", *unset, "signup", None, 1, 0, None, None, None, None, *nothing)
    assert rows[7] == (4, 2_000, "/a", *unset, "", None, None, None, None, None, None, None, 1_500, *nothing[1:])
    assert rows[9] == (7, 2_001, "", *unset, "", None, 1, None, "button", "red", "buy", -1.0, *nothing)


def test_latest(database: sqlite3.Connection) -> None:
    """Traffic of a stretch, newest first, by time and then by id; of all visitors or of some."""
    traffic(database, 100, 9, pathname=1)  # on the edge, out
    traffic(database, 101, 1, visitor=2, pathname=1)
    traffic(database, 500, -2, visitor=3, pathname=1)
    traffic(database, 500, 3, visitor=3, pathname=2)
    traffic(database, 600, 6, 2, visitor=4, visit=5, pathname=3)
    traffic(database, 601, 7, visitor=5, pathname=1)  # later than asked for
    rows = [(4, 5, 0, 3, 600), (3, 0, 1, 2, 500), (3, 0, 1, 1, 500), (2, 0, 1, 1, 101)]
    assert run(database, sql.latest(W, 100, 600)) == rows
    assert run(database, sql.latest(W, 100, 600, [3, 2, 1])) == rows[1:]
    assert run(database, sql.latest(W, 100, 600, [])) == []
    assert run(database, sql.latest(2, 100, 600)) == []


def test_newest(database: sqlite3.Connection) -> None:
    """What is later than now, if anything is."""
    traffic(database, 100, 9)
    traffic(database, 101, 1)
    found = [run(database, sql.newest(W, after_ms)) for after_ms in (99, 100, 101)]
    assert found == [[(101,)], [(101,)], [(None,)]]


# --- the wall

HOSTILE = ("' or 1=1 --", "'; drop table event; --", "1) union select 1 --", '"', "\0", "\ud800x"[1:], "%", "?")
SCOPED: dict[str, Callable[[Scope], Query]] = {
    "stats": sql.stats,
    "visitors": sql.visitors,
    "series": lambda scope: sql.series(scope, [(0, 1)]),
    "counts": lambda scope: sql.counts(scope, "os"),
    "traffic": sql.traffic,
    "events": lambda scope: sql.events(scope, Place(FIRST, FIRST, 1), 10),
}
# Of measurements; tally/storage/sql/measurements.py has the same wall.
MEASURED: dict[str, Callable[[Scope], Query]] = {
    "vitals": measurements_statements.vitals,
    "vitals_of": lambda scope: measurements_statements.vitals_of(scope, "os", "lcp", [1]),
    "vital_ranks": lambda scope: measurements_statements.vital_ranks(scope, "os", "lcp", 1.0),
    "trials_of": measurements_statements.trials_of,
}
OTHERS: dict[str, Query] = {
    "latest": sql.latest(W, 0, 1, [1]),
    "newest": sql.newest(W, 0),
    "texts": sql.texts([1]),
    "first_texts": sql.first_texts([1], 1),
    "in_order": sql.in_order(W, "os", 0, 1),
    "totals": sql.totals(W, 0, 1, 1),
    "days": sql.days(W, 0, 1),
    "hours": sql.hours(W, 0, 1),
    "came_first": sql.came_first(W, 0, 0, 1),
    "came_last": sql.came_last(W, 0, 0, 1),
    "visitors_between": sql.visitors_between(W, 0, 1, 1),
    "how_many_of": sql.how_many_of(W, 0, 1, [1]),
    "sums": sql.sums(W, 0, [(0, 1)]),
    "not_folded": sql.not_folded(W, 0, 0, 0, 1),
    "matching": sql.matching(W, 0, 0, 1, HOSTILE),
    "folded": sql.folded(W, 0, 1),
    "last_kept": sql.last_kept(W),
}


def public_functions(room: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(room).items()
        if inspect.isfunction(value) and value.__module__ == room.__name__ and not name.startswith("_")
    }


def test_every_query_is_looked_at_here() -> None:
    """A new query is to be put behind the wall too."""
    # A part of them, and what takes numbers alone.
    helpers = {"filters_of", "by_level"}
    assert {*SCOPED, *OTHERS, *helpers} == public_functions(sql)
    assert {*MEASURED, "labels", "trials"} == public_functions(measurements_statements)


def test_filters_are_the_fields_and_two_more() -> None:
    """Any of the 14 fields of :field, and `event_name`, `type`."""
    assert (*SEED_FIELDS, "event_name", "type") == FILTERS


@cases("query", [*SCOPED.values(), *MEASURED.values()], ids=[*SCOPED, *MEASURED])
@cases("field", ["visitor", "ts", "website", "id", "OS", "", "os ", "os = 1 or os", "event_data", *HOSTILE])
def test_a_name_that_is_no_filter_never_reaches_sql(query: Callable[[Scope], Query], field: str) -> None:
    """Rule: "a name not in it never reaches SQL"."""
    with pytest.raises(KeyError):
        query(Scope(W, 0, 1, ((field, ("x",)),)))


@cases("field", ["type", "visitor", "OS", "", "os, visitor", *HOSTILE])
def test_a_name_that_is_no_field_has_no_list(field: str) -> None:
    """The 14 dimensions; event_name has an endpoint of its own."""
    with pytest.raises(KeyError):
        sql.counts(Scope(W, 0, 1), field)
    if field:  # without one it is about all traffic
        with pytest.raises(KeyError):
            sql.in_order(W, field, 0, 1)


@cases("query", [*SCOPED.values(), *MEASURED.values()], ids=[*SCOPED, *MEASURED])
@cases("filter_", FILTERS)
def test_values_are_parameters_always(
    filled: sqlite3.Connection, query: Callable[[Scope], Query], filter_: str
) -> None:
    """Rule: "Values are parameters, always": the text of a statement depends on how many there are alone."""
    hostile, plain = (query(Scope(W, 0, 10_000, ((filter_, values),))) for values in (HOSTILE, ("x",) * len(HOSTILE)))
    assert hostile[0] == plain[0]
    run(filled, hostile)
    assert filled.execute("select count(*) from event").fetchone() == (12,)


def test_the_filter_of_rollups_takes_parameters(filled: sqlite3.Connection) -> None:
    """Rule: "Values are parameters, always": `matching` takes what a client sent, too."""
    hostile, plain = (sql.matching(W, 0, 0, 1, values) for values in (HOSTILE, ("x",) * len(HOSTILE)))
    assert hostile[0] == plain[0]
    assert run(filled, hostile) == []


@cases("name", [*SCOPED, *OTHERS])
def test_a_statement_opens_with_its_name(name: str) -> None:
    """App style: "opened by `/* events.stats */` so that a slow query names its author"."""
    statement = SCOPED[name](Scope(W, 0, 1))[0] if name in SCOPED else OTHERS[name][0]
    assert statement.startswith(f"/* events.{name} */ ")
