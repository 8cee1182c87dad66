"""tally/storage/sql/events.py: each statement on rows inserted by hand, and that no input becomes part of SQL.

The rules are in docs/reference/definitions.md, Figures of a range. tests/api/test_read_api.py tests the figures over
HTTP, test_query_plans.py the query plans.
"""

import inspect
import sqlite3
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from tally.columns import statements
from tally.engine.values import FILTERS, Place, Scope
from tally.events.dimensions import EVENT_FIELDS, FIELDS, VISIT_FIELDS
from tally.events.filters import OPERATORS, Filter
from tally.storage.database import open_database
from tally.storage.sql import events as sql
from tally.storage.sql import measurements as measurements_statements
from tally.storage.sql.filters import Query
from tests.support.cases import cases

W = 7  # the website of the queries; 8 is another
FIRST = 1 << 62
DAY_MS = 86_400_000
TEXTS = ("", "/a", "/b", "ios", "signup", "button", "red", "buy", "\uffff", "\U0001f600")  # label 0, 1, 2 ...
DIMENSIONS = dict.fromkeys(FIELDS, 0)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Return a database as the product creates it, with labels."""
    connection = open_database(tmp_path_factory.mktemp("queries") / "analytics.db", create=True)
    connection.executemany("insert or replace into label (id, text) values (?, ?)", list(enumerate(TEXTS))[1:])
    yield connection
    connection.close()


@pytest.fixture
def database(empty: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Return a copy in memory, for one test."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    empty.backup(connection)
    yield connection
    connection.close()


def insert(connection: sqlite3.Connection, table: str, **columns: Any) -> None:
    marks = ", ".join("?" * len(columns))
    connection.execute(f"insert into {table} ({', '.join(columns)}) values ({marks})", list(columns.values()))


def insert_event(
    connection: sqlite3.Connection, ts: int, id_: int, type_: int = 0, visitor: int = 1, visit: int = 0, **columns: Any
) -> None:
    common = {"website": W, "ts": ts, "id": id_, "type": type_, "visitor": visitor, "visit": visit, "event_name": 0}
    insert(connection, "event", **(common | dict.fromkeys(EVENT_FIELDS, 0) | columns))


def insert_visit(connection: sqlite3.Connection, begin_ms: int, visitor: int, visit: int = 0, **columns: Any) -> None:
    common = {
        "website": W,
        "day": begin_ms // DAY_MS,
        "start_ms": begin_ms,
        "visitor": visitor,
        "visit": visit,
        "duration_ms": 0,
        "pageviews": 1,
        "events": 0,
    }
    unset = dict.fromkeys((*VISIT_FIELDS, "entry_after_ms", "exit_before_ms", "acquired_after_ms"), 0)
    insert(connection, "visit", **(common | unset | columns))


def run(connection: sqlite3.Connection, query: Query) -> list[tuple[Any, ...]]:
    return connection.execute(*query).fetchall()


@pytest.fixture
def filled(database: sqlite3.Connection) -> sqlite3.Connection:
    """Insert two visits of visitor 1 and one of visitor 2, and the same for another website."""
    for website in (W, W + 1):
        insert_event(database, 1_000, 1, website=website, pathname=1, platform=3)
        insert_event(database, 2_000, 2, website=website, pathname=2)
        insert_event(database, 2_000, 3, 2, website=website, pathname=2, event_name=4)
        insert_event(database, 9_000, 4, website=website, visit=1, pathname=1)
        insert_event(database, 3_000, 5, 1, 2, website=website, pathname=1, platform=3)
        insert_event(database, 3_000, 6, 3, 2, website=website, event_name=4)
        own = {"duration_ms": 1_000, "pageviews": 2, "events": 1, "entry_page": 1, "exit_page": 2}
        insert_visit(database, 1_000, 1, website=website, **own, referrer=5)
        insert_visit(database, 9_000, 1, 1, website=website, entry_page=1, exit_page=1)
        insert_visit(database, 3_000, 2, website=website, events=1, entry_page=1, exit_page=1, utm_source=6)
    return database


IOS = (Filter("platform", "=", ("ios",)),)


def where(*filters: Filter) -> Scope:
    return Scope(W, 0, 10_000, filters)


def test_columns_of_a_day(filled: sqlite3.Connection) -> None:
    """One list, oldest first; events of the same time are ordered by id."""
    assert run(filled, statements.event_column(W, 0, "ts")) == [("[1000,2000,2000,3000,3000,9000]",)]
    assert run(filled, statements.event_column(W, 0, "pathname")) == [("[1,2,2,1,0,1]",)]
    assert run(filled, statements.visit_column(W, 0, "visitor")) == [("[1,1,2]",)]
    assert run(filled, statements.event_column(W, 1, "pathname")) == [("[]",)]
    assert [run(filled, statements.number_of_events(W, 0, most)) for most in (3, 10)] == [[(3,)], [(6,)]]


def test_texts(database: sqlite3.Connection) -> None:
    """Each requested label is returned once."""
    assert sorted(run(database, sql.texts([9, 0, 1, 1, 77]))) == [(0, ""), (1, "/a"), (9, "\U0001f600")]
    assert run(database, sql.texts([])) == []


# --- totals of quarters


def insert_quarter(connection: sqlite3.Connection, number: int, *figures: int, website: int = W) -> None:
    """Insert a row of total_15m: pageviews, events, first_seen, last_seen, hour_visitors, visits, bounces,
    visit_pageviews, visit_duration_ms."""
    connection.execute(f"insert into total_15m values ({', '.join('?' * 11)})", (website, number, *figures))


@pytest.fixture
def quarters(database: sqlite3.Connection) -> sqlite3.Connection:
    """Insert powers of ten, so that a sum shows which rows it contains, and the same for another website."""
    for website in (W, W + 1):
        for place, number in enumerate((93, 94, 95, 96, 97, 192)):
            ten = 10**place
            figures = (ten, 2 * ten, 3 * ten, 4 * ten, 5 * ten, 6 * ten, 7 * ten, 8 * ten, 9 * ten)
            insert_quarter(database, number, *figures, website=website)
    return database


@pytest.mark.parametrize(
    ("first", "end", "midnight", "expected"),
    [
        pytest.param(93, 193, 96, (333_444, 111_111, 222_222, 666_666, 777_777, 888_888, 999_999), id="all"),
        pytest.param(96, 98, 96, (33_000, 11_000, 22_000, 66_000, 77_000, 88_000, 99_000), id="from midnight on"),
        pytest.param(94, 96, 96, (440, 110, 220, 660, 770, 880, 990), id="up to midnight: last events"),
        pytest.param(93, 96, 93, (333, 111, 222, 666, 777, 888, 999), id="first events"),
        pytest.param(98, 192, 96, (0,) * 7, id="nothing"),
    ],
)
def test_totals(quarters: sqlite3.Connection, first: int, end: int, midnight: int, expected: tuple[int, ...]) -> None:
    """The sum of last_seen before the quarter `midnight`, of first_seen from it on."""
    assert run(quarters, sql.totals(W, first, end, midnight)) == [expected]


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [
        pytest.param(0, 192, [(0, 333, 666, 111, 222), (1, 33_000, 66_000, 11_000, 22_000)], id="UTC"),
        pytest.param(192, 288, [(0, 3 * 10**5, 6 * 10**5, 10**5, 2 * 10**5)], id="another day"),
        # Half of the local day lies before midnight, where last_seen is added; after it first_seen is.
        pytest.param(48, 144, [(0, 33_444, 66_666, 11_111, 22_222)], id="12 hours off"),
        # One quarter of the day lies before midnight.
        pytest.param(95, 191, [(0, 33_400, 66_600, 11_100, 22_200)], id="a quarter off"),
        pytest.param(98, 194, [(0, 3 * 10**5, 6 * 10**5, 10**5, 2 * 10**5)], id="the next midnight"),
    ],
)
def test_days(quarters: sqlite3.Connection, first: int, end: int, expected: list[tuple[int, ...]]) -> None:
    """Each local day is the end of one day and the beginning of the next."""
    assert run(quarters, sql.days(W, first, end)) == expected


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [
        pytest.param(92, 100, [(0, 0, 666, 111, 222), (1, 5_000, 66_000, 11_000, 22_000)], id="on the hour"),
        # From 23:15 on: visitors seen from quarter 93 on, and those first seen after midnight.
        pytest.param(93, 97, [(0, 3_005, 6_666, 1_111, 2_222)], id="one quarter after midnight"),
        pytest.param(94, 98, [(0, 33_050, 66_660, 11_110, 22_220)], id="two quarters after midnight"),
        pytest.param(96, 100, [(0, 5_000, 66_000, 11_000, 22_000)], id="from midnight on"),
    ],
)
def test_hours(quarters: sqlite3.Connection, first: int, end: int, expected: list[tuple[int, ...]]) -> None:
    """An hour across midnight: visitors seen before midnight, and those whose first event lies after it."""
    assert run(quarters, sql.hours(W, first, end)) == expected


# --- what is stored of a range


def test_has_events(filled: sqlite3.Connection) -> None:
    """Whether there is a traffic event in a range, whose end is exclusive."""
    spans = {(0, 1_000): 0, (0, 1_001): 1, (9_000, 9_001): 1, (9_001, DAY_MS): 0}
    assert {span: run(filled, sql.has_events(W, *span)) for span in spans} == {
        span: [(number,)] for span, number in spans.items()
    }
    assert run(filled, sql.has_events(W + 2, 0, DAY_MS)) == [(0,)]


def test_last_kept(database: sqlite3.Connection) -> None:
    """The last day whose raw rows are deleted, or no row."""
    for website in (W, W + 1):
        for day in (10, 11, 12):
            database.execute("insert into rollup_state values (?, 0, 0, ?, 2, 1, 1)", (website, day))
    assert run(database, sql.last_kept(W)) == []
    database.execute("update rollup_state set state = 3 where website = ? and block < 12", (W,))
    database.execute("update rollup_state set state = 3 where website = ?", (W + 1,))
    assert run(database, sql.last_kept(W)) == [(11,)]


def test_first_event(filled: sqlite3.Connection) -> None:
    """The time of the first event; of a day without rows that of its first quarter hour; no row without traffic."""
    assert run(filled, sql.first_event(W)) == []
    filled.execute("insert into rollup_state values (?, 0, 0, 0, 1, 0, 1), (?, 0, 0, 1, 2, 1, 1)", (W, W))
    assert run(filled, sql.first_event(W)) == [(1_000,)]
    insert_quarter(filled, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    filled.execute("delete from event where website = ?", (W,))
    filled.execute("update rollup_state set state = 2 where website = ?", (W,))
    assert run(filled, sql.first_event(W)) == [(3 * 900_000,)]
    # Without totals: the only events came from an import that was undone.
    filled.execute("delete from total_15m where website = ?", (W,))
    assert run(filled, sql.first_event(W)) == []


def listed(connection: sqlite3.Connection, scope: Scope, place: Place, limit: int = 100) -> list[int]:
    return [row[0] for row in run(connection, sql.events(scope, place, limit))]


@pytest.fixture
def measured(filled: sqlite3.Connection) -> sqlite3.Connection:
    """Insert a row of web vitals and two of experiments among the events."""
    insert(filled, "web_vitals", website=W, ts=2_000, id=7, **DIMENSIONS | {"pathname": 1}, lcp=1_500)
    common = {"website": W, "visitor": 1, **DIMENSIONS, "experiment": 5, "variant": 6}
    insert(filled, "experiment_event", ts=2_000, id=8, type=6, goal=0, **common)
    insert(filled, "experiment_event", ts=2_001, id=9, type=7, goal=7, value=-1.0, **common)
    return filled


START = Place(FIRST, FIRST, 100)


def filtered(field: str, *values: str) -> Scope:
    return Scope(W, 0, 10_000, (Filter(field, "=", values),))


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
        pytest.param(filtered("pathname", "/a"), START, 100, [4, 5, 7, 1], id="filter"),
        pytest.param(filtered("type", "vitals", "ab_convert"), START, 100, [9, 7], id="types"),
        pytest.param(filtered("type", ""), START, 100, [], id="no-type"),
        pytest.param(filtered("pathname", "/a", "/b"), START, 100, [4, 5, 7, 3, 2, 1], id="any"),
        pytest.param(filtered("os", "nowhere"), START, 100, [], id="unknown-text"),
        pytest.param(filtered("referrer", "button"), START, 100, [3, 2, 1], id="of-the-visit"),
        pytest.param(filtered("exit_page", "/a"), START, 100, [4, 6, 5], id="exit-page"),
        pytest.param(where(*IOS, Filter("event_name", "=", ("signup",))), START, 100, [], id="all-must"),
        pytest.param(filtered("event_name", "signup"), START, 100, [6, 3], id="name"),
        pytest.param(filtered("event_name", ""), START, 100, [4, 5, 9, 8, 7, 2, 1], id="no-name"),
    ],
)
def test_events(measured: sqlite3.Connection, scope: Scope, place: Place, limit: int, ids: list[int]) -> None:
    """Newest first (timestamp, then id), all types but heatmap; a page begins where the last one ended."""
    assert listed(measured, scope, place, limit) == ids


def test_columns_of_events(measured: sqlite3.Connection) -> None:
    """The columns of /events, null where they do not apply; labels are returned as texts."""
    rows = {row[0]: row[1:] for row in run(measured, sql.events(Scope(W, 0, 10_000), Place(FIRST, FIRST, 9), 100))}
    unset = ("",) * (len(FIELDS) - 1)
    nothing = (None,) * 7
    assert rows[3] == (2, 2_000, "/b", "button", *unset[1:], "signup", None, 1, 0, None, None, None, None, *nothing)
    assert rows[7] == (4, 2_000, "/a", *unset, "", None, None, None, None, None, None, None, 1_500, *nothing[1:])
    assert rows[9] == (7, 2_001, "", *unset, "", None, 1, None, "button", "red", "buy", -1.0, *nothing)


def test_latest(database: sqlite3.Connection) -> None:
    """Events of a time range, newest first, by time and then by id; of all visitors or of some."""
    insert_event(database, 100, 9, pathname=1)  # at the excluded bound
    insert_event(database, 101, 1, visitor=2, pathname=1)
    insert_event(database, 500, -2, visitor=3, pathname=1)
    insert_event(database, 500, 3, visitor=3, pathname=2)
    insert_event(database, 600, 6, 2, visitor=4, visit=5, pathname=3)
    insert_event(database, 601, 7, visitor=5, pathname=1)  # after the range
    rows = [(4, 5, 0, 3, 600), (3, 0, 1, 2, 500), (3, 0, 1, 1, 500), (2, 0, 1, 1, 101)]
    assert run(database, sql.latest(W, 100, 600)) == rows
    assert run(database, sql.latest(W, 100, 600, [3, 2, 1])) == rows[1:]
    assert run(database, sql.latest(W, 100, 600, [])) == []
    assert run(database, sql.latest(2, 100, 600)) == []


def test_newest(database: sqlite3.Connection) -> None:
    """The newest time after a given one, or null."""
    insert_event(database, 100, 9)
    insert_event(database, 101, 1)
    found = [run(database, sql.newest(W, after_ms)) for after_ms in (99, 100, 101)]
    assert found == [[(101,)], [(101,)], [(None,)]]


# --- input never becomes part of SQL

HOSTILE = ("' or 1=1 --", "'; drop table event; --", "1) union select 1 --", '"', "\0", "\ud800x"[1:], "%", "?")
SCOPED: dict[str, Callable[[Scope], Query]] = {
    "events": lambda scope: sql.events(scope, Place(FIRST, FIRST, 1), 10),
    "traffic": lambda scope: sql.events(scope, Place(FIRST, FIRST, 1), 10, only_traffic=True),
}
# Statements of measurements (tally/storage/sql/measurements.py), under the same rules.
MEASURED: dict[str, Callable[[Scope], Query]] = {
    "trials_of": measurements_statements.trials_of,
}
OTHERS: dict[str, Query] = {
    "latest": sql.latest(W, 0, 1, [1]),
    "newest": sql.newest(W, 0),
    "texts": sql.texts([1]),
    "first_texts": sql.first_texts([1], 1),
    "totals": sql.totals(W, 0, 1, 1),
    "days": sql.days(W, 0, 1),
    "hours": sql.hours(W, 0, 1),
    "has_events": sql.has_events(W, 0, 1),
    "last_kept": sql.last_kept(W),
    "first_event": sql.first_event(W),
}


def public_functions(module: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def test_every_statement_is_listed() -> None:
    """A new statement must be added to the tables above, so that the tests below include it."""
    # Helpers that return parts of a statement, and statements that take numbers only.
    helpers = {"filters_of", "of_visit", "by_level"}
    assert {"events", *OTHERS, *helpers} == public_functions(sql)
    assert {*MEASURED, "given_trials", "labels", "number_of_trials", "trial_days", "trials"} == public_functions(
        measurements_statements
    )


def test_filters_are_the_fields_event_name_and_type() -> None:
    """The filters are the fields of :field, and `event_name`, `type`."""
    assert (*FIELDS, "entry_page", "exit_page", "event_name", "type") == FILTERS


@cases("query", [*SCOPED.values(), *MEASURED.values()], ids=[*SCOPED, *MEASURED])
@cases("field", ["visitor", "ts", "website", "id", "OS", "", "os ", "os = 1 or os", "event_data", *HOSTILE])
def test_unknown_filters_never_become_sql(query: Callable[[Scope], Query], field: str) -> None:
    """An unknown name is refused before a statement is built."""
    with pytest.raises(KeyError):
        query(Scope(W, 0, 1, (Filter(field, "=", ("x",)),)))


@cases("field", ["type", "visitor", "OS", "", "os, visitor", *HOSTILE])
def test_unknown_fields_are_refused(field: str) -> None:
    """Only columns of a table are read."""
    for query in (statements.event_column, statements.visit_column):
        if field not in ("type", "visitor"):
            with pytest.raises(KeyError):
                query(W, 0, field)


@cases("query", [*SCOPED.values(), *MEASURED.values()], ids=[*SCOPED, *MEASURED])
@cases("filter_", (*FILTERS, "prop.plan", "prop.'; drop table event; --"))
def test_values_are_parameters(filled: sqlite3.Connection, query: Callable[[Scope], Query], filter_: str) -> None:
    """Values are parameters: the text of a statement depends only on their number, and on the length of parts."""
    for operator in OPERATORS:
        hostile, plain = (
            query(where(Filter(filter_, operator, values)))
            for values in (HOSTILE, tuple("x" * len(value.encode()) for value in HOSTILE))
        )
        assert hostile[0] == plain[0]
        run(filled, hostile)
    assert filled.execute("select count(*) from event").fetchone() == (12,)


@cases("name", ["events", *OTHERS])
def test_statements_open_with_their_names(name: str) -> None:
    """Every statement opens with its name (`/* events.totals */`), so that a slow query can be attributed."""
    statement = OTHERS[name][0] if name in OTHERS else SCOPED[name](Scope(W, 0, 1))[0]
    assert statement.startswith(f"/* events.{name} */ ")
