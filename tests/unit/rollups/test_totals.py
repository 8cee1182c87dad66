"""tally/rollups/totals.py: the nine numbers of each quarter hour, kept by deltas and recounted from raw rows.

docs/reference/definitions.md: "Rollups and caches give the same number as the plain query over raw
events".
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.events.dimensions import FIELDS
from tally.events.sessions import Sessions
from tally.rollups import totals
from tally.rollups.totals import COLUMNS, Deltas, hours_touched
from tally.storage.database import open_database
from tests.support.app import ManualClock
from tests.support.cases import cases
from tests.support.rollup_database import DAY_MS, GAP_MS, MINUTE_MS, RollupHarness, label_of, make_file
from tests.support.selection import examples

DAY = 20_775
DAY_0_MS = DAY * DAY_MS
Event = tuple[int, int, bool]
"""Minute of DAY times 2 (so that half minutes occur), visitor, whether it is a pageview."""


def expected_rows(events: Sequence[Event]) -> dict[int, list[int]]:
    """Return the row of each quarter hour by its definition in schema.sql (total_15m)."""
    rows: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(COLUMNS))
    for half, _, is_view in events:
        rows[half // 30][0 if is_view else 1] += 1
    for visitor in {event[1] for event in events}:
        own = sorted((half, is_view) for half, session, is_view in events if session == visitor)
        rows[own[0][0] // 30][2] += 1
        rows[own[-1][0] // 30][3] += 1
        for quarter in range(96):
            rows[quarter][4] += any(quarter <= half // 30 < quarter + 4 for half, _ in own)
        visit = [own[0]]
        for event in [*own[1:], None]:
            if event is not None and (event[0] - visit[-1][0]) * MINUTE_MS // 2 <= GAP_MS:
                visit.append(event)
                continue
            views, row = sum(is_view for _, is_view in visit), rows[visit[0][0] // 30]
            ms = (visit[-1][0] - visit[0][0]) * MINUTE_MS // 2
            for place, number in enumerate((1, len(visit) == views == 1, views, ms)):
                row[5 + place] += number
            visit = [event] if event else []
    return {quarter: row for quarter, row in rows.items() if any(row)}


def by_deltas(events: Sequence[Event]) -> dict[int, list[int]]:
    """Return the sum of the deltas of events, each committed in a group of its own."""
    sessions, sums = Sessions(100), defaultdict(lambda: [0] * len(COLUMNS))
    for half, visitor, is_view in events:
        deltas, ts = Deltas(), DAY_0_MS + half * MINUTE_MS // 2
        deltas.count(7, ts, is_view, sessions.touch(b"%d" % visitor, ts, is_view))
        for website, quarter, *row in deltas.rows():
            assert website == 7
            sums[quarter - DAY * 96] = [a + b for a, b in zip(sums[quarter - DAY * 96], row, strict=True)]
    return {quarter: row for quarter, row in sums.items() if any(row)}


CASES = [
    pytest.param([(0, 1, True)], id="one at midnight"),
    pytest.param([(2_879, 1, False)], id="one in the last minute of the day"),
    pytest.param([(600, 1, True), (600, 1, True)], id="two at the same time"),
    pytest.param([(600, 1, True), (660, 1, True)], id="30 minutes: one visit"),
    pytest.param([(600, 1, True), (661, 1, True)], id="more than 30 minutes: two visits"),
    pytest.param([(600, 1, True), (720, 1, True), (660, 1, True)], id="a late event joins two visits"),
    pytest.param([(600, 1, True), (720, 1, False), (661, 1, True)], id="a late event joins the second visit"),
    pytest.param([(600, 1, True), (570, 1, True)], id="a late event becomes the first"),
    pytest.param([(600, 1, True), (30, 1, True), (1_200, 1, True), (900, 1, True)], id="first, last, between"),
    pytest.param([(600, 1, True), (600, 2, True), (630, 2, False)], id="two visitors"),
    pytest.param([(90, 1, True), (0, 1, True), (119, 1, True)], id="within the first hour"),
]


@cases("events", CASES)
def test_deltas_in_any_order(events: list[Event]) -> None:
    """The changes by each event add up to the same row in any order of arrival."""
    assert by_deltas(events) == by_deltas(events[::-1]) == expected_rows(events)


@pytest.mark.random_examples
@settings(max_examples=examples(300, default=60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(0, 2_879), st.sampled_from((0, 29, 30, 60, 61, 120, 660, 720, 2_850, 2_879))),
            st.integers(1, 3),
            st.booleans(),
        ),
        max_size=24,
    )
)
def test_deltas_of_any_day(events: list[Event]) -> None:
    assert by_deltas(events) == expected_rows(events)


@cases(
    ("mask", "touched"),
    [(0, 0), (1, 1), (0b1000, 0b1111), (0b10000, 0b11110), (1 << 95, 0b1111 << 92), (0b100001, 0b111101)],
)
def test_hours_touched(mask: int, touched: int) -> None:
    """The hour that begins at a quarter contains the events of this quarter and of the next three."""
    assert hours_touched(mask) == touched


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RollupHarness]:
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db", ManualClock(DAY_0_MS + DAY_MS - 1))
    yield harness
    harness.close()


def stored(harness: RollupHarness) -> dict[int, list[int]]:
    """Return the rows of total_15m without those that are all zero."""
    rows = harness.reader.execute(f"select quarter, {', '.join(COLUMNS)} from total_15m")
    return {quarter - DAY * 96: row for quarter, *row in rows if any(row)}


@pytest.mark.parametrize("events", CASES)
def test_stored_totals_equal_counted_totals(harness: RollupHarness, events: list[Event]) -> None:
    """Totals kept by commits and totals counted from raw rows both equal the expected numbers."""
    texts = ("/a", *("x",) * (len(FIELDS) - 1), "")
    for half, visitor, is_view in events:
        harness.send((DAY_0_MS + half * MINUTE_MS // 2, 0 if is_view else 2, f"session-{visitor}", texts))
    counted = totals.count_day(harness.reader, harness.websites[0].number, DAY)
    assert stored(harness) == {quarter - DAY * 96: row for quarter, row in counted.items()} == expected_rows(events)


def test_events_of_one_group(harness: RollupHarness) -> None:
    """Events of one transaction change each other's visits before any of them is stored."""
    events = [(600, 1, True), (720, 1, True), (660, 1, False), (0, 2, True), (2_800, 1, True), (599, 2, True)]
    texts = ("/a", *("x",) * (len(FIELDS) - 1), "")
    harness.send(
        *((DAY_0_MS + h * MINUTE_MS // 2, 0 if view else 3, f"session-{session}", texts) for h, session, view in events)
    )
    assert stored(harness) == expected_rows(events)


def test_a_failed_group_leaves_totals_unchanged(harness: RollupHarness) -> None:
    """The totals are part of the transaction: a failed one changes nothing, and later deltas are correct."""
    texts = ("/a", *("x",) * (len(FIELDS) - 1), "")
    harness.send((DAY_0_MS, 0, "session-1", texts))
    harness.writer.execute("create temp trigger fails before insert on total_15m begin select raise(abort, 'no'); end")
    with pytest.raises(Exception, match="no"):
        harness.send((DAY_0_MS + 10 * MINUTE_MS, 0, "session-1", texts))
    harness.writer.execute("drop trigger fails")
    harness.send((DAY_0_MS + 20 * MINUTE_MS, 2, "session-1", texts))
    assert stored(harness) == expected_rows([(0, 1, True), (40, 1, False)])


def test_clear_deletes_one_day_of_one_website(tmp_path: Path) -> None:
    """The rows of other days and of other websites stay."""
    connection = open_database(tmp_path / "analytics.db", create=True)
    rows = [(website, quarter, *range(1, 10)) for website in (1, 2) for quarter in (95, 96, 191, 192)]
    totals.add(connection, rows)
    totals.add(connection, rows)
    totals.clear(connection, 1, 1)
    left = connection.execute("select * from total_15m order by website, quarter").fetchall()
    doubled = tuple(2 * n for n in range(1, 10))
    assert left == [(1, 95, *doubled), (1, 192, *doubled), *((2, quarter, *doubled) for quarter in (95, 96, 191, 192))]
    assert label_of(connection, "") == 0
    connection.close()
