"""tally/queries.py on rows put in by hand: each statement alone, and the wall around all of them.

Quoted: CONTRACT, Words: "let E be the traffic events in the range that match all the filters", and the table of
endpoints. How the figures read over HTTP is in test_read_api.py, how the statements find their rows in test_plans.py.
"""

import inspect
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from reading import FIELDS as SEED_FIELDS

from tally import queries
from tally.queries import FILTERS, Place, Query, Scope
from tally.schema import open_database

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
    common = {"website": W, "begin_ms": begin_ms, "visitor": visitor, "visit": visit, "ms": 0, "views": 1, "events": 0}
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
        a_visit(database, 1_000, 1, website=website, ms=1_000, views=2, events=1)
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
    """CONTRACT: visitors, pageviews, events of E; visits that begin in the range and have an event in E."""
    assert run(filled, queries.stats_traffic(scope)) == [expected_traffic]
    assert run(filled, queries.stats_visits(scope)) == [expected_visits]


def test_series(filled: sqlite3.Connection) -> None:
    """CONTRACT: "a visit counts in the bucket in which it begins", with E of the whole range."""
    edges = [(0, 2_000), (2_000, 3_000), (3_000, 4_000), (4_000, 9_000), (9_000, 9_001)]
    scope = Scope(W, 0, 9_001)
    assert run(filled, queries.series_traffic(scope, edges)) == [(0, 1, 1, 0), (1, 1, 1, 1), (2, 1, 1, 1), (4, 1, 1, 0)]
    assert run(filled, queries.series_visits(scope, edges)) == [(0, 1), (2, 1), (4, 1)]
    named = scope._replace(filters=(("event_name", ("signup",)),))
    assert run(filled, queries.series_traffic(named, edges)) == [(1, 1, 0, 1), (2, 1, 0, 1)]
    assert run(filled, queries.series_visits(named, edges)) == [(0, 1), (2, 1)]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (10, [(None, 1, 0, 1), ("/a", 2, 3, 0), ("/b", 1, 1, 1)]),
        (1, [(None, 1, 0, 1), ("/a", 2, 3, 0)]),
    ],
)
def test_top(filled: sqlite3.Connection, limit: int, expected: list[tuple[Any, ...]]) -> None:
    """CONTRACT: "unset values left out, their figures in `meta.unset`": the row of unset comes first and is no row."""
    assert run(filled, queries.top(Scope(W, 0, 10_000), "pathname", limit)) == expected


def test_top_without_unset(filled: sqlite3.Connection) -> None:
    """There is no row of unset where nothing is unset, nor any row where there is nothing."""
    assert run(filled, queries.top(Scope(W, 0, 10_000, IOS), "pathname", 5)) == [("/a", 2, 2, 0)]
    assert run(filled, queries.top(Scope(W, 20_000, 30_000), "pathname", 5)) == []


def test_top_breaks_ties_by_code_point(database: sqlite3.Connection) -> None:
    """CONTRACT: "then value ascending by code point": U+FFFF comes before U+1F600."""
    for n, label in enumerate((9, 8, 2, 1)):
        traffic(database, 1_000, n, visitor=n, pathname=label)
    texts = [row[0] for row in run(database, queries.top(Scope(W, 0, 10_000), "pathname", 10))]
    assert texts == ["/a", "/b", "\uffff", "\U0001f600"]


def listed(connection: sqlite3.Connection, scope: Scope, place: Place, limit: int = 100) -> list[int]:
    return [row[0] for row in run(connection, queries.events(scope, place, limit))]


@pytest.fixture
def measured(filled: sqlite3.Connection) -> sqlite3.Connection:
    """With a row of vitals and two of A/B between."""
    put(filled, "vitals", website=W, ts=2_000, id=7, **DIMENSIONS | {"pathname": 1}, lcp=1.5)
    common = {"website": W, "visitor": 1, **DIMENSIONS, "experiment": 5, "variant": 6}
    put(filled, "ab", ts=2_000, id=8, type=6, goal=0, **common)
    put(filled, "ab", ts=2_001, id=9, type=7, goal=7, value=-1.0, **common)
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
    """CONTRACT: "newest first (timestamp, then id), every type but heatmap"; a page begins where the last one ended."""
    assert listed(measured, scope, place, limit) == ids


def test_columns_of_events(measured: sqlite3.Connection) -> None:
    """CONTRACT: the columns of /events, null where not theirs; labels come as their texts."""
    rows = {row[0]: row[1:] for row in run(measured, queries.events(Scope(W, 0, 10_000), Place(FIRST, FIRST, 9), 100))}
    unset = ("",) * 13
    nothing = (None,) * 5
    assert rows[3] == (2, 2_000, "/b", *unset, "signup", None, 1, 0, None, None, None, None, *nothing)
    assert rows[7] == (4, 2_000, "/a", *unset, "", None, None, None, None, None, None, None, 1.5, *nothing[1:])
    assert rows[9] == (7, 2_001, "", *unset, "", None, 1, None, "button", "red", "buy", -1.0, *nothing)


def test_latest(database: sqlite3.Connection) -> None:
    """CONTRACT, realtime: traffic of a stretch, newest first, by time and then by id; of all visitors or of some."""
    traffic(database, 100, 9, pathname=1)  # on the edge, out
    traffic(database, 101, 1, visitor=2, pathname=1)
    traffic(database, 500, -2, visitor=3, pathname=1)
    traffic(database, 500, 3, visitor=3, pathname=2)
    traffic(database, 600, 6, 2, visitor=4, visit=5, pathname=3)
    traffic(database, 601, 7, visitor=5, pathname=1)  # later than asked for
    rows = [(4, 5, 0, 3, 600), (3, 0, 1, 2, 500), (3, 0, 1, 1, 500), (2, 0, 1, 1, 101)]
    assert run(database, queries.latest(W, 100, 600)) == rows
    assert run(database, queries.latest(W, 100, 600, [3, 2, 1])) == rows[1:]
    assert run(database, queries.latest(W, 100, 600, [])) == []
    assert run(database, queries.latest(2, 100, 600)) == []


def test_newest(database: sqlite3.Connection) -> None:
    """CONTRACT, realtime: what is later than now, if anything is."""
    traffic(database, 100, 9)
    traffic(database, 101, 1)
    found = [run(database, queries.newest(W, after_ms)) for after_ms in (99, 100, 101)]
    assert found == [[(101,)], [(101,)], [(None,)]]


def test_next_id(database: sqlite3.Connection) -> None:
    """A new file has given out no id yet."""
    assert run(database, queries.next_id()) == [(1,)]


# --- the wall

HOSTILE = ("' or 1=1 --", "'; drop table event; --", "1) union select 1 --", '"', "\0", "\ud800x"[1:], "%", "?")
SCOPED: dict[str, Callable[[Scope], Query]] = {
    "stats_traffic": queries.stats_traffic,
    "stats_visits": queries.stats_visits,
    "series_traffic": lambda scope: queries.series_traffic(scope, [(0, 1)]),
    "series_visits": lambda scope: queries.series_visits(scope, [(0, 1)]),
    "top": lambda scope: queries.top(scope, "os", 10),
    "events": lambda scope: queries.events(scope, Place(FIRST, FIRST, 1), 10),
}
OTHERS: dict[str, Query] = {
    "latest": queries.latest(W, 0, 1, [1]),
    "newest": queries.newest(W, 0),
    "next_id": queries.next_id(),
}


def public_functions() -> set[str]:
    return {
        name
        for name, value in vars(queries).items()
        if inspect.isfunction(value) and value.__module__ == queries.__name__ and not name.startswith("_")
    }


def test_every_query_is_looked_at_here() -> None:
    """A new query is to be put behind the wall too."""
    assert {*SCOPED, *OTHERS} == public_functions()


def test_filters_are_the_fields_and_two_more() -> None:
    """CONTRACT: "any of the 14 fields of :field, and `event_name`, `type`"."""
    assert (*SEED_FIELDS, "event_name", "type") == FILTERS


@pytest.mark.parametrize("name", SCOPED)
@pytest.mark.parametrize(
    "field", ["visitor", "ts", "website", "id", "OS", "", "os ", "os = 1 or os", "event_data", *HOSTILE]
)
def test_a_name_that_is_no_filter_never_reaches_sql(name: str, field: str) -> None:
    """House rule: "a name not in it never reaches SQL"."""
    with pytest.raises(KeyError):
        SCOPED[name](Scope(W, 0, 1, ((field, ("x",)),)))


@pytest.mark.parametrize("field", ["event_name", "type", "visitor", "OS", "", "os, visitor", *HOSTILE])
def test_a_name_that_is_no_field_has_no_list(field: str) -> None:
    """Seed, the row :field: the 14 and no other."""
    with pytest.raises(KeyError):
        queries.top(Scope(W, 0, 1), field, 10)


@pytest.mark.parametrize("name", SCOPED)
@pytest.mark.parametrize("filter_", FILTERS)
def test_values_are_parameters_always(filled: sqlite3.Connection, name: str, filter_: str) -> None:
    """House rule: "Values are parameters, always": the text of a statement depends on how many there are alone."""
    hostile, plain = (
        SCOPED[name](Scope(W, 0, 10_000, ((filter_, values),))) for values in (HOSTILE, ("x",) * len(HOSTILE))
    )
    assert hostile[0] == plain[0]
    run(filled, hostile)
    assert filled.execute("select count(*) from event").fetchone() == (12,)


@pytest.mark.parametrize("name", [*SCOPED, *OTHERS])
def test_a_statement_opens_with_its_name(name: str) -> None:
    """House style: "opened by `/* queries.top */` so that a slow query names its author"."""
    statement = SCOPED[name](Scope(W, 0, 1))[0] if name in SCOPED else OTHERS[name][0]
    assert statement.startswith(f"/* queries.{name} */ ")
