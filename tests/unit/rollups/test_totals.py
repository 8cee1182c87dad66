"""tally/rollups/totals.py: the nine numbers of a quarter of an hour, kept by what changes and counted anew, are the
same.

docs/reference/definitions.md: "Every figure about traffic is exact. Rollups and caches give the same number as the
plain query over raw events".
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
"""Minute of DAY times 2 (so that half minutes occur), visitor, whether it is a view."""


def by_hand(events: Sequence[Event]) -> dict[int, list[int]]:
    """Each quarter's numbers by their definition in schema.sql: "whose first, whose last event of the UTC day lies in
    the quarter; and who has an event in the 60 minutes from its beginning on, cut at midnight"."""
    rows: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(COLUMNS))
    for half, _, is_view in events:
        rows[half // 30][0 if is_view else 1] += 1
    for visitor in {event[1] for event in events}:
        mine = sorted((half, is_view) for half, who, is_view in events if who == visitor)
        rows[mine[0][0] // 30][2] += 1
        rows[mine[-1][0] // 30][3] += 1
        for quarter in range(96):
            rows[quarter][4] += any(quarter <= half // 30 < quarter + 4 for half, _ in mine)
        visit = [mine[0]]
        for event in [*mine[1:], None]:
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
    """What the deltas of events add up to, one group each."""
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
    pytest.param([(2_879, 1, False)], id="one at the end of the day"),
    pytest.param([(600, 1, True), (600, 1, True)], id="the same moment twice"),
    pytest.param([(600, 1, True), (660, 1, True)], id="30 minutes join"),
    pytest.param([(600, 1, True), (661, 1, True)], id="a little more cuts"),
    pytest.param([(600, 1, True), (720, 1, True), (660, 1, True)], id="a late one joins two visits"),
    pytest.param([(600, 1, True), (720, 1, False), (661, 1, True)], id="a late one joins the second"),
    pytest.param([(600, 1, True), (570, 1, True)], id="a late one is the first"),
    pytest.param([(600, 1, True), (30, 1, True), (1_200, 1, True), (900, 1, True)], id="first, last, between"),
    pytest.param([(600, 1, True), (600, 2, True), (630, 2, False)], id="two visitors"),
    pytest.param([(90, 1, True), (0, 1, True), (119, 1, True)], id="within the first hour"),
]


@cases("events", CASES)
def test_deltas_in_any_order(events: list[Event]) -> None:
    """The rule: "exactly what one event changes, whatever the order of arrival"."""
    assert by_deltas(events) == by_deltas(events[::-1]) == by_hand(events)


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
    assert by_deltas(events) == by_hand(events)


@cases(
    ("mask", "touched"),
    [(0, 0), (1, 1), (0b1000, 0b1111), (0b10000, 0b11110), (1 << 95, 0b1111 << 92), (0b100001, 0b111101)],
)
def test_hours_touched(mask: int, touched: int) -> None:
    """An hour from a quarter on holds an event of this quarter or of the three behind it."""
    assert hours_touched(mask) == touched


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RollupHarness]:
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db", ManualClock(DAY_0_MS + DAY_MS - 1))
    yield harness
    harness.close()


def stored(harness: RollupHarness) -> dict[int, list[int]]:
    """Rows of moment, but for those that came to nothing."""
    rows = harness.reader.execute(f"select quarter, {', '.join(COLUMNS)} from total_15m")
    return {quarter - DAY * 96: row for quarter, *row in rows if any(row)}


@pytest.mark.parametrize("events", CASES)
def test_what_is_stored_is_what_is_counted(harness: RollupHarness, events: list[Event]) -> None:
    """Kept by commits, and `counted` from raw rows: both are the numbers by hand."""
    texts = ("/a", *("x",) * 13, "")
    for half, visitor, is_view in events:
        harness.send((DAY_0_MS + half * MINUTE_MS // 2, 0 if is_view else 2, f"session-{visitor}", texts))
    counted = totals.count_day(harness.reader, harness.websites[0].number, DAY)
    assert stored(harness) == {quarter - DAY * 96: row for quarter, row in counted.items()} == by_hand(events)


def test_one_group_is_as_many(harness: RollupHarness) -> None:
    """Events of one transaction change each other's visits before any is stored."""
    events = [(600, 1, True), (720, 1, True), (660, 1, False), (0, 2, True), (2_800, 1, True), (599, 2, True)]
    texts = ("/a", *("x",) * 13, "")
    harness.send(
        *((DAY_0_MS + h * MINUTE_MS // 2, 0 if view else 3, f"session-{who}", texts) for h, who, view in events)
    )
    assert stored(harness) == by_hand(events)


def test_a_group_that_fails_leaves_totals_alone(harness: RollupHarness) -> None:
    """The totals are of the transaction: without it nothing of them is kept, and later deltas are right."""
    texts = ("/a", *("x",) * 13, "")
    harness.send((DAY_0_MS, 0, "session-1", texts))
    harness.writer.execute("create temp trigger fails before insert on total_15m begin select raise(abort, 'no'); end")
    with pytest.raises(Exception, match="no"):
        harness.send((DAY_0_MS + 10 * MINUTE_MS, 0, "session-1", texts))
    harness.writer.execute("drop trigger fails")
    harness.send((DAY_0_MS + 20 * MINUTE_MS, 2, "session-1", texts))
    assert stored(harness) == by_hand([(0, 1, True), (40, 1, False)])


def test_clear_takes_one_day_of_one_website(tmp_path: Path) -> None:
    """And nothing beside it."""
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
