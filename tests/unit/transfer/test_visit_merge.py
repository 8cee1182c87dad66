"""Visits of imported events (tally/transfer/visit_merge.py) do not depend on the parts in which events come."""

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.events.dimensions import ACQUISITION
from tally.events.visits import VISIT_GAP_MS, packed_acquisition
from tally.storage.database import open_database
from tally.timestamps import DAY_MS
from tally.transfer.visit_merge import News, Visits

DAY = 20_775
MIDNIGHT_MS = DAY * DAY_MS
W, VISITOR = 7, 5
# Half gaps and single milliseconds around them: events at the same time, and visits that just meet.
TIMES = st.tuples(st.integers(0, 12), st.integers(-1, 1)).map(
    lambda at: MIDNIGHT_MS + 1 + at[0] * VISIT_GAP_MS // 2 + at[1]
)
EVENTS = st.lists(st.tuples(TIMES, st.booleans(), st.booleans()), min_size=1, max_size=14)


@pytest.fixture
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path_factory.mktemp("visits") / "analytics.db", create=True)
    yield connection
    connection.close()


def expected(events: list[News]) -> list[tuple[object, ...]]:
    """Return start, duration, pageviews, events, entry page, exit page and acquisition of each visit, by loops."""
    runs: list[list[News]] = []
    # The sort is stable: of equal times the event that came first has the lower id.
    for event in sorted(events, key=lambda event: event.ts_ms):
        if runs and event.ts_ms - runs[-1][-1].ts_ms <= VISIT_GAP_MS:
            runs[-1].append(event)
        else:
            runs.append([event])
    rows: list[tuple[object, ...]] = []
    for run in runs:
        pages = [event.page for event in run if event.is_view]
        sources = [event.page for event in run if event.acquisition]
        figures = (run[0].ts_ms, run[-1].ts_ms - run[0].ts_ms, len(pages), len(run) - len(pages))
        rows.append((*figures, *([pages[0], pages[-1]] if pages else [0, 0]), sources[0] if sources else 0))
    return rows


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    drawn=st.one_of(EVENTS, EVENTS.map(sorted)),
    parts=st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=14),
)
def test_visits_do_not_depend_on_parts(
    connection: sqlite3.Connection, drawn: list[tuple[int, bool, bool]], parts: list[tuple[int, bool]]
) -> None:
    """Visits, their pages and acquisition are functions of all events, also where stored visits are read again."""
    connection.execute("delete from visit")
    # The number of an event is its pathname, and the referrer of those that carry one.
    events = [
        News(ts_ms, is_view, number, packed_acquisition([number, *[0] * (len(ACQUISITION) - 1)]) if carries else b"")
        for number, (ts_ms, is_view, carries) in enumerate(drawn, 1)
    ]
    visits, rest = Visits(W), list(events)
    for size, is_read_again in parts * len(events):
        part, rest = rest[:size], rest[size:]
        if not part:
            break
        if is_read_again:
            visits = Visits(W)
            visits.load(connection, {DAY: [VISITOR]}, 1)
        visits.add(connection, 1, {VISITOR: part})
    found = connection.execute(
        "select start_ms, duration_ms, pageviews, events, entry_page, exit_page, referrer from visit"
        " where website = ? and day = ? and visitor = ? order by start_ms",
        (W, DAY, VISITOR),
    ).fetchall()
    assert found == expected(events)
