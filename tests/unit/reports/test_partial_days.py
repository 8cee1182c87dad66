"""tally/reports/partial_days.py against counting by sets: any part of a day, to the millisecond.

docs/reference/definitions.md: "Every figure about traffic is exact. Rollups and caches give the same number as the
plain query over raw events". How a question comes to it, and what makes a list another one, is in test_rollups.py and
test_stats.py.
"""

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.reports import partial_days
from tally.reports.cache import ResultCache
from tally.reports.partial_days import Row
from tally.storage.database import open_database
from tests.support.cases import cases
from tests.support.read_api import FIELDS
from tests.support.selection import examples

W, DAY = 7, 20_000
DAY_MS = 86_400_000
Fact = tuple[int, int, int, int]
"""Milliseconds of the day, type, visitor, label."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path_factory.mktemp("cuts") / "analytics.db", create=True)
    yield connection
    connection.close()


def store(connection: sqlite3.Connection, facts: Sequence[Fact], field: str) -> None:
    connection.execute("delete from event")
    for id_, (ms, type_, visitor, label) in enumerate(facts, 1):
        columns = dict.fromkeys(FIELDS, 0) | {field: label}
        fixed = {"website": W, "ts": DAY * DAY_MS + ms, "id": id_, "type": type_, "visitor": visitor, "visit": 0}
        put = fixed | columns | {"event_name": 0}
        marks = ", ".join("?" * len(put))
        connection.execute(f"insert into event ({', '.join(put)}) values ({marks})", list(put.values()))


def plain(facts: Sequence[Fact]) -> list[Row]:
    """Return the figures of each label, counted one by one."""
    by_label: dict[int, list[Fact]] = {}
    for fact in facts:
        by_label.setdefault(fact[3], []).append(fact)
    found = []
    for label, own in by_label.items():
        views = sum(type_ <= 1 for _, type_, _, _ in own)
        found.append((label, len({visitor for _, _, visitor, _ in own}), views, len(own) - views))
    return sorted(found)


MOMENTS = st.sampled_from([0, 1, 2, 899_999, 900_000, 43_200_000, DAY_MS - 2, DAY_MS - 1]) | st.integers(0, DAY_MS - 1)
FACTS = st.lists(st.tuples(MOMENTS, st.integers(0, 3), st.integers(1, 4) | st.just(1 << 61), st.integers(0, 5)))


@settings(max_examples=examples(150, default=50), deadline=None, suppress_health_check=list(HealthCheck))
@given(facts=FACTS, cut_ms=MOMENTS, field=st.sampled_from(FIELDS))
def test_any_part_of_a_day(database: sqlite3.Connection, facts: list[Fact], cut_ms: int, field: str) -> None:
    """Half-open ranges: what happened at the very moment belongs to the part that begins there."""
    store(database, facts, field)
    remembered = ResultCache()
    # Listed, and remembered; then what the other part leaves.
    for events in (partial_days._EVENTS_A_VALUE, partial_days._EVENTS_A_VALUE, 0):
        with patch.object(partial_days, "_EVENTS_A_VALUE", events):
            day = partial_days.Day(database, remembered, W, field, DAY, 1)
            assert sorted(day.until(DAY * DAY_MS + cut_ms)) == plain([fact for fact in facts if fact[0] < cut_ms])
            assert sorted(day.since(DAY * DAY_MS + cut_ms)) == plain([fact for fact in facts if fact[0] >= cut_ms])


@settings(max_examples=examples(80, default=30), deadline=None, suppress_health_check=list(HealthCheck))
@given(facts=FACTS, cut_ms=MOMENTS, length_ms=st.sampled_from([0, 1, 900_000, DAY_MS]))
def test_who_came_for_the_last_time(
    database: sqlite3.Connection, facts: list[Fact], cut_ms: int, length_ms: int
) -> None:
    """Of all traffic, whatever its values: visitors whose last event of the day lies in a stretch."""
    store(database, facts, "os")
    lasts = {visitor: max(ms for ms, _, other, _ in facts if other == visitor) for _, _, visitor, _ in facts}
    found = partial_days.Day(database, ResultCache(), W, "", DAY, 1).ended(
        DAY * DAY_MS + cut_ms, DAY * DAY_MS + cut_ms + length_ms
    )
    assert found == sum(cut_ms <= last < cut_ms + length_ms for last in lasts.values())


@cases("values", [1, 31, 32, 33, 8_191, 8_192, 8_193], ids=str)
def test_however_many_values_there_are(database: sqlite3.Connection, values: int) -> None:
    """Codes take one, two or eight bytes, as many as their number asks for."""
    facts = [(n, n % 4, 1 + n % 3, n % values) for n in range(values + 5)]
    store(database, facts, "pathname")
    day = partial_days.Day(database, ResultCache(), W, "pathname", DAY, 1)
    for cut_ms in (0, 3, values, values + 5):
        assert sorted(day.since(DAY * DAY_MS + cut_ms)) == plain(facts[cut_ms:])
        assert sorted(day.until(DAY * DAY_MS + cut_ms)) == plain(facts[:cut_ms])


def test_another_version_is_another_list(database: sqlite3.Connection) -> None:
    """tally/rollups/rollup_state.py: "version" grows "with every change of what was complete"."""
    remembered = ResultCache()
    store(database, [(5, 0, 1, 1)], "os")
    assert partial_days.Day(database, remembered, W, "os", DAY, 1).since(DAY * DAY_MS) == [(1, 1, 1, 0)]
    store(database, [(5, 0, 1, 1), (6, 2, 2, 1)], "os")
    assert partial_days.Day(database, remembered, W, "os", DAY, 1).since(DAY * DAY_MS) == [(1, 1, 1, 0)]
    assert partial_days.Day(database, remembered, W, "os", DAY, 2).since(DAY * DAY_MS) == [(1, 2, 1, 1)]


def test_half_of_a_list_forgotten_is_listed_anew(database: sqlite3.Connection) -> None:
    """What is remembered may go at any time, one array without the others."""
    store(database, [(5, 0, 1, 1), (7, 3, 1, 2)], "os")
    for lost in range(3):  # times, codes, values
        remembered = ResultCache()
        partial_days.Day(database, remembered, W, "os", DAY, 1).since(DAY * DAY_MS)
        del remembered._arrays[list(remembered._arrays)[lost]]
        assert sorted(partial_days.Day(database, remembered, W, "os", DAY, 1).since(DAY * DAY_MS + 6)) == [(2, 1, 0, 1)]


def test_a_day_is_kept_small(database: sqlite3.Connection, tmp_path: Path) -> None:
    """A thousand events of a field with few values: 4 bytes of time, 1 of code each, and 32 a value."""
    store(database, [(n, 0, n, n % 20) for n in range(1, 1_001)], "browser")
    remembered = ResultCache()
    partial_days.Day(database, remembered, W, "browser", DAY, 1).since(DAY * DAY_MS)
    times, codes, values = (kept.itemsize * len(kept) for kept, _ in remembered._arrays.values())
    assert (times, codes, values) == (array("I").itemsize * 1_000, 1_000, 32 * 20)
