"""tally/reports/open_days.py compared with loops over the events, while these arrive.

Events of today and of yesterday are drawn at random: in order and late, so that visits grow, join and get another
acquisition. They are sent to the real writer, packed, imported and deleted between the queries of a reader that keeps
days in memory.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tally.events.dimensions import FIELDS
from tally.events.filters import Filter
from tally.reports import open_days, stats
from tally.reports.cache import ResultCache
from tally.reports.coverage import Coverage, coverage_of
from tally.rollups.rollup_state import mark_stale
from tally.storage.database import snapshot, transaction
from tally.storage.meta import row_changes
from tally.timestamps import DAY_MS, HOUR_MS, MINUTE_MS
from tests.support.app import ManualClock
from tests.support.column_figures import COMPARISONS, VARIES, Span, filters_of
from tests.support.rollup_database import Reference, RollupHarness, make_file, stored_facts
from tests.support.selection import examples

pytestmark = pytest.mark.random_examples

DAY = 20_772
NOW_MS = DAY * DAY_MS + 9 * HOUR_MS


@pytest.fixture(params=range(examples(8, default=3)))
def draw(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> random.Random:
    monkeypatch.setattr(open_days, "MOST_NEW", 12)
    return random.Random(request.param)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RollupHarness]:
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db", ManualClock(NOW_MS))
    yield harness
    harness.close()


def event(draw: random.Random, ts: int) -> tuple[int, int, str, tuple[str, ...]]:
    """Return an event of one of some visitors, most of whose fields are equal."""
    texts = dict.fromkeys((*FIELDS, "event_name"), "x")
    texts |= {field: draw.choice(("", "x", "y", "z")) for field in (*VARIES, "utm_source", "referrer")}
    type_ = draw.randint(0, 3)
    name = texts["event_name"] if type_ > 1 else ""
    return ts, type_, f"{draw.randint(0, 9)}", (*(texts[field] for field in FIELDS), name)


def change(harness: RollupHarness, draw: random.Random) -> str:
    """Send, pack, import or delete some events; return what was done."""
    what = draw.choices(("in time", "late", "built", "imported", "deleted", "nothing"), (6, 4, 3, 1, 1, 2))[0]
    if what == "in time":
        harness.advance(draw.choice((1_000, MINUTE_MS, 20 * MINUTE_MS)))
        harness.send(*(event(draw, harness.now_ms - draw.randint(0, 5_000)) for _ in range(draw.randint(1, 6))))
    elif what == "late":
        ages = (draw.choice((MINUTE_MS, HOUR_MS, 10 * HOUR_MS)) * draw.randint(0, 3) for _ in range(draw.randint(1, 4)))
        harness.send(*(event(draw, harness.now_ms - age) for age in ages))
    elif what == "built":
        harness.build()
    elif what == "imported":
        harness.import_events(*(event(draw, NOW_MS - n * MINUTE_MS) for n in range(draw.randint(1, 3))))
        harness.build()
    elif what == "deleted":
        delete_one(harness, draw)
        harness.build()
    return what


def delete_one(harness: RollupHarness, draw: random.Random) -> None:
    """Delete what was imported of a visitor, and mark the day as stale, as an import that is undone does."""
    website = harness.websites[0].number
    with transaction(harness.writer):
        rows = harness.writer.execute("select visitor, ts from event where id < 0").fetchall()
        if not rows:
            return
        visitor, ts = draw.choice(rows)
        day = ts // DAY_MS
        mark_stale(harness.writer, website, [day])
        harness.writer.execute("delete from event where visitor = ?", (visitor,))
        harness.writer.execute("delete from visit where visitor = ?", (visitor,))


def random_query(harness: RollupHarness, draw: random.Random, cache: ResultCache) -> tuple[Coverage, list[Span]]:
    """Return some spans of yesterday and today with filters."""
    now_ms = harness.now_ms
    spans = [((DAY - 1) * DAY_MS, DAY * DAY_MS), (DAY * DAY_MS, now_ms + 1)]
    if draw.random() < 0.3:
        spans = [(DAY * DAY_MS + draw.randint(0, 8) * HOUR_MS + 1, now_ms - draw.randint(0, 30) * MINUTE_MS)]
    scope = harness.scope(spans[0][0], spans[-1][1], filters_of(draw))
    coverage = coverage_of(harness.reader, scope, cache)
    return coverage, [span for span in spans if span[0] // DAY_MS in coverage.known.days]


def test_figures_are_those_of_the_events(harness: RollupHarness, draw: random.Random) -> None:
    cache, done = ResultCache(), Counter[str]()
    harness.send(*(event(draw, NOW_MS - draw.randint(0, 20) * HOUR_MS) for _ in range(20)))
    for _ in range(examples(40, default=25)):
        done[change(harness, draw)] += 1
        reference = Reference(stored_facts(harness.reader, harness.websites[0].number))
        with snapshot(harness.reader):
            coverage, spans = random_query(harness, draw, cache)
            columns = coverage.columns(spans, filtered=True)
            draw.choice(COMPARISONS)(reference, coverage, spans, columns, draw)
            kept = cache.kept_days.get((coverage.website, DAY, row_changes(harness.reader)))
            done["with new events"] += kept is not None and kept.new is not None
            again = harness.scope((DAY - 1) * DAY_MS, harness.now_ms + 1, (Filter("browser", "!=", ("y",)),))
            assert stats.stats(harness.reader, again, cache) == stats.stats(harness.reader, again, ResultCache())
    assert min(done["in time"], done["late"], done["with new events"]) > 0
