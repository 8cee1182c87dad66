"""Conversions that are stored by day equal those that are counted from events: tally/rollups/goal_days.py."""

import random
from typing import Any

import pytest

from tally.engine.values import Goal, Scope
from tally.events.filters import Filter
from tally.reports import goals
from tally.reports.cache import ResultCache
from tally.storage.database import snapshot, transaction
from tests.support.histories import texts
from tests.support.rollup_database import DAY_MS, HOUR_MS, RollupHarness, keep_rows

FIELDS = ("pathname", "device", "channel", "entry_page")
EVENTS = Goal((Filter("type", "=", ("event", "app_event")), Filter("event_name", "=", ("signup",))))
PAGES = Goal((Filter("type", "=", ("pageview",)), Filter("pathname", "^=", ("/a",))), "price")
NONE = Goal((Filter("pathname", "=", ("/never",)),))
GOALS = (EVENTS, PAGES, NONE)
TABLES = ("goal_day", "rollup_state where kind > 1")
DAYS = 12


def import_events(harness: RollupHarness, first_ms: int, days: int, seed: int) -> None:
    """Import some events of each of some days."""
    rng = random.Random(seed)
    for day in range(days):
        facts = []
        for number in range(30):
            name = rng.choice(("", "", "signup", "other"))
            where = texts(rng.choice(("/", "/a", "/ab", "/b")), rng.choice(("mobile", "desktop")), name)
            ts = first_ms + day * DAY_MS + rng.randrange(DAY_MS)
            facts.append((ts, 2 if name else 0, f"{seed} {number % 11}", where))
        harness.import_events(*facts)


def figures(harness: RollupHarness, scope: Scope, *, cached: bool = True) -> list[Any]:
    """Every figure of the goals, with an empty cache. cached: they are those of the cache of the harness, too."""
    edges = [(ms, min(ms + DAY_MS, scope.to_ms)) for ms in range(scope.from_ms, scope.to_ms, DAY_MS)]
    # Few labels are looked up, many are selected from all.
    chosen = (range(40), range(100), (3, 5))

    def ask(run: Any, kept: ResultCache | None) -> list[Any]:
        found: list[Any] = []
        for goal in GOALS:
            cache = kept or ResultCache()
            found.append(goals.total(run, scope, goal, cache))
            found.append(goals.by_bucket(run, scope, goal, edges, cache))
            found += [goals.by_label(run, scope, goal, field, labels, cache) for field in FIELDS for labels in chosen]
        return found

    found = harness.query(lambda run: ask(run, None))
    assert not cached or found == harness.query(lambda run: ask(run, harness.cache))
    return found


def rows(harness: RollupHarness) -> list[int]:
    return [harness.reader.execute(f"select count(*) from {table}").fetchone()[0] for table in TABLES]


@pytest.mark.slow
def test_stored_figures_equal_counted_ones(harness: RollupHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of ranges within days, after an import into a day, with filters, and once events have expired."""
    first_ms = (harness.now_ms // DAY_MS - 40) * DAY_MS
    whole = harness.scope(first_ms, first_ms + DAYS * DAY_MS)
    scopes = [
        whole,
        harness.scope(first_ms - DAY_MS, harness.now_ms),
        harness.scope(first_ms + 7 * HOUR_MS, first_ms + 5 * DAY_MS + 3 * HOUR_MS),
        harness.scope(first_ms, first_ms + 9 * DAY_MS, (Filter("device", "=", ("mobile",)),)),
    ]
    import_events(harness, first_ms, DAYS, 1)
    harness.build()
    assert rows(harness) == [0, 0]
    counted = [figures(harness, scope) for scope in scopes]
    harness.builder.goals_of = lambda website: GOALS if website == whole.website else ()
    harness.build()
    assert rows(harness)[1] == DAYS * len(GOALS)
    assert [figures(harness, scope) for scope in scopes] == counted
    # Stored rows are what is read: without them, no conversion is found on days that are complete.
    harness.writer.execute("begin")
    harness.writer.execute("delete from goal_day")
    harness.writer.execute("commit")
    assert figures(harness, whole, cached=False)[0].events == 0 < counted[0][0].events
    harness.writer.execute("delete from rollup_state where kind > 1")

    import_events(harness, first_ms + 3 * DAY_MS, 2, 2)
    harness.builder.goals_of = lambda website: ()
    harness.build()
    changed = [figures(harness, scope) for scope in scopes]
    assert changed[0] != counted[0]
    harness.builder.goals_of = lambda website: GOALS if website == whole.website else ()
    harness.build()
    import_events(harness, first_ms + 3 * DAY_MS, 1, 3)
    stale = figures(harness, whole)
    with monkeypatch.context() as patch:
        # The day is final again, and its conversions are not counted yet.
        patch.setattr(goals.goal_days, "begin_day", lambda *place: None)
        harness.build()
        assert figures(harness, whole) == stale
    harness.builder._goals_built.clear()
    harness.build()
    assert figures(harness, whole) == stale != changed[0]
    assert rows(harness)[1] == DAYS * len(GOALS)

    harness.writer.execute("update website set keep_days = 5 where number = ?", (whole.website,))
    before = [goals.total(harness.reader, whole, goal, ResultCache()) for goal in GOALS]
    harness.build()
    assert harness.reader.execute("select count(*) from event").fetchone() == (0,)
    assert [goals.total(harness.reader, whole, goal, ResultCache()) for goal in GOALS] == before


def test_a_packed_day_is_counted_in_its_columns(harness: RollupHarness) -> None:
    """With the result that its rows have."""
    first_ms = (harness.now_ms // DAY_MS - 40) * DAY_MS
    website = harness.scope(first_ms, first_ms + DAY_MS).website
    import_events(harness, first_ms, 3, 1)
    harness.build()
    days = [day for (day,) in harness.reader.execute("select day from packed_day where website = ?", (website,))]
    assert len(days) == 3
    questions = [(website, day, goal, field) for day in days for field, _ in goals.goal_days.COUNTED for goal in GOALS]

    def counted() -> list[list[tuple[int, ...]]]:
        with snapshot(harness.reader):
            return [sorted(map(tuple, goals.of_day(harness.reader, *question))) for question in questions]

    by_column = counted()
    keep_rows(harness.writer)
    harness.writer.execute("delete from packed_day")
    assert by_column == counted()
    assert all(any(by_column[goal :: len(GOALS)]) for goal in range(2))


def test_goals_that_are_no_longer_saved_are_deleted(harness: RollupHarness) -> None:
    import_events(harness, (harness.now_ms // DAY_MS - 40) * DAY_MS, 3, 1)
    harness.builder.goals_of = lambda website: GOALS
    harness.build()
    assert rows(harness)[1] == 3 * len(GOALS)
    harness.builder.goals_of = lambda website: (PAGES,)
    harness.build()
    assert harness.reader.execute("select distinct website, kind from rollup_state where kind > 1").fetchall() == [
        (1, goals.goal_days.number_of(PAGES))
    ]
    # A goal that is saved again while its rows are deleted has no complete day.
    number = goals.goal_days.number_of(PAGES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(goals.goal_days, "ROWS_PER_STEP", 1)
        with transaction(harness.writer):
            assert goals.goal_days.delete_others(harness.writer, 1, ())
    days = {day: state.version for day, state in harness.days().items()}
    assert goals.goal_days.complete(harness.reader, 1, PAGES, days) == set()
    assert harness.reader.execute("select count(*) from goal_day where saved_goal = ?", (number,)).fetchone()[0] > 1
    # Also where the last goal was deleted before a restart.
    harness.restart()
    harness.build()
    assert rows(harness) == [0, 0]
