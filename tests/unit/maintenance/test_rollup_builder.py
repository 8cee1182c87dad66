"""tally/maintenance/rollup_builder.py: kills and changes before any of its steps, and kills of a real server.

Rollups are exact, can be rebuilt while their raw events exist, are built in short steps, are marked stale in the
transaction of a late event, and are correct after a kill at any point.
"""

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tally.accounts.accounts import find_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import all_websites
from tally.clock import Clock
from tally.columns import deleted_rows, statements
from tally.events.dimensions import FIELDS
from tally.events.filters import Filter
from tally.maintenance import retention, rollup_builder
from tally.rollups import rollup_state, value_blocks
from tally.rollups.rollup_state import BLOCK_LEVEL
from tally.storage.database import open_database, transaction
from tally.storage.disk_space import UNKNOWN_SPACE, DiskSpace
from tally.timeranges import Range, buckets
from tests.support.app import ManualClock
from tests.support.process import Serve, Server, until
from tests.support.rollup_database import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    RollupHarness,
    fill,
    make_file,
    table_errors,
    unfinished_work,
)
from tests.support.selection import first_of

DAY = 20_768  # a multiple of 32, so that the first days are in one block
DAY_0_MS = DAY * DAY_MS
NOW_MS = DAY_0_MS + 40 * DAY_MS + 15 * HOUR_MS
ROWS_PER_STEP = 4


def event(day: int, minute: int, session: int = 0, value: str = "/a") -> tuple[int, int, str, tuple[str, ...]]:
    """A traffic event; every fourth minute's is a custom one."""
    texts = (value, *("x" if minute % 3 else "" for _ in FIELDS[1:]), "signup" if minute % 4 == 0 else "")
    return DAY_0_MS + day * DAY_MS + minute * MINUTE_MS, 2 if minute % 4 == 0 else 0, f"session-{session}", texts


def history() -> list[tuple[int, int, str, tuple[str, ...]]]:
    """Imported days: two neighbours, one further on, and one on which events still arrive."""
    return [
        event(day, minute, minute % 3, f"/{minute % 7}")
        for day in (0, 1, 3, 39)
        for minute in (1, 2, 14, 15, 16, 60, 75, 1_100, 1_439)
    ]


def recent() -> list[tuple[int, int, str, tuple[str, ...]]]:
    """Events of today, yesterday and the day before."""
    return [event(day, minute, minute % 4) for day in (38, 39, 40) for minute in (3, 33, 34, 64, 65, 300, 600, 840)]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with all kinds of work: stale past days, a stale open day, open days, blocks."""
    path = tmp_path_factory.mktemp("building") / "begun.db"
    make_file(path)
    harness = RollupHarness(path, ManualClock(NOW_MS))
    harness.send(*recent())
    harness.build()
    harness.import_events(*history())
    harness.send(event(39, 345, 7), event(38, 61, 2), event(40, 880, 1))
    harness.close()
    return path


Start = Callable[[], RollupHarness]


@pytest.fixture
def start(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Copies of that file at work, with the smallest limits."""
    monkeypatch.setattr(rollup_state, "ROWS_PER_STEP", ROWS_PER_STEP)
    monkeypatch.setattr(value_blocks, "CHUNKS_PER_STEP", ROWS_PER_STEP)
    monkeypatch.setattr(value_blocks, "CHUNK", 2)
    monkeypatch.setattr(value_blocks, "_MAX_HELD", 3)
    # The number of steps does not depend on how long they take.
    monkeypatch.setattr(rollup_builder, "_PACK_RATIO", 0)
    started: list[RollupHarness] = []

    def new() -> RollupHarness:
        path = tmp_path / f"{len(started)}.db"
        shutil.copyfile(begun, path)
        started.append(RollupHarness(path, ManualClock(NOW_MS)))
        return started[-1]

    yield new
    for harness in started:
        harness.close()


RANGES = (
    (DAY_0_MS - DAY_MS, NOW_MS + DAY_MS),
    (DAY_0_MS, DAY_0_MS + 4 * DAY_MS),
    (DAY_0_MS + 15 * MINUTE_MS + 1, NOW_MS - 7 * MINUTE_MS),
    (DAY_0_MS + 39 * DAY_MS + 16 * MINUTE_MS, DAY_0_MS + 39 * DAY_MS + 345 * MINUTE_MS + 1),
)


def same(harness: RollupHarness) -> None:
    """The figures of some ranges are those of plain counting."""
    reference = harness.reference()
    for from_ms, to_ms in RANGES:
        for filters in ((), (Filter("os", "=", ("x", "")),), (Filter("os", "=", ("x",)),)):
            scope = harness.scope(from_ms, to_ms, filters)
            assert harness.stats(scope) == reference.stats(scope)
            assert harness.top(scope, "pathname", 10) == reference.top(scope, "pathname", 10)
        span = Range(from_ms, to_ms, ZoneInfo("America/New_York"), None)
        edges = [(bucket.from_ms, bucket.to_ms) for bucket in buckets(span, "day")]
        scope = harness.scope(from_ms, to_ms)
        assert harness.series(scope, edges) == reference.series(scope, edges)
        # The field of a block that is written last.
        assert harness.pages(scope, "exit", 10) == reference.pages(scope, "exit", 10)


def all_right(harness: RollupHarness) -> None:
    """Assert that all rollups are built and equal newly built ones."""
    number = harness.websites[0].number
    harness.build_all()
    assert table_errors(harness.reader, number) == []
    assert unfinished_work(harness.reader, number) == []
    same(harness)


def steps_of(harness: RollupHarness) -> int:
    """Return the number of remaining steps."""
    taken: list[None] = []
    harness.before_steps = [lambda: taken.append(None)] * 100_000
    assert harness.build()
    harness.before_steps = []
    return len(taken)


def test_the_work_has_many_steps(start: Start) -> None:
    """The tests below interrupt at each of them."""
    harness = start()
    assert steps_of(harness) > 100
    assert steps_of(harness) < 30
    states = Counter(day.state for day in harness.days().values())
    assert states == {rollup_state.FINAL: 3, rollup_state.OPEN: 3}


@pytest.mark.slow
def test_killed_at_any_step(start: Start) -> None:
    """After a kill at any step the figures are correct at once, and rollups are complete in the end."""
    steps = steps_of(start())
    for stop in range(first_of(8), steps, 8):
        harness = start()
        assert not harness.build(stop)
        same(harness)
        harness.build(stop // 2 + 1)
        same(harness)
        all_right(harness)
        harness.close()


def send(harness: RollupHarness) -> None:
    harness.send(event(40, 890, 1, "/new"), event(39, 5, 1), event(39, 346, 7), event(38, 62, 2, "/1"))


def bring_to_a_final_day(harness: RollupHarness) -> None:
    harness.import_events(event(0, 500, 0, "/0"))


def bring_to_a_gap(harness: RollupHarness) -> None:
    harness.import_events(event(2, 500, 0, "/0"), event(4, 500, 0, "/0"))


def bring_to_open_days(harness: RollupHarness) -> None:
    harness.import_events(event(40, 500), event(39, 500), event(37, 500))


@pytest.mark.in_turn
@pytest.mark.parametrize("what", [send, bring_to_a_final_day, bring_to_a_gap, bring_to_open_days])
@pytest.mark.slow
def test_changed_at_any_step(start: Start, what: Callable[[RollupHarness], None]) -> None:
    """Counts are added to a day only if it has not been marked stale again meanwhile."""
    steps = steps_of(start())
    for step in range(first_of(20), steps, 20):
        harness = start()

        def happen(harness: RollupHarness = harness) -> None:
            what(harness)
            same(harness)

        harness.before_steps = [*([lambda: None] * step), happen]
        harness.build()
        assert not harness.before_steps
        same(harness)
        harness.build()
        assert not [day for day in harness.days().values() if day.state == rollup_state.STALE]
        same(harness)
        all_right(harness)
        harness.close()


def test_a_day_that_changes_once_a_block_above_it_is_begun(start: Start) -> None:
    """The block does not become complete from what the day had before."""
    harness = start()
    changed = []

    original = harness.builder.write

    async def write(step: Callable[..., Any], *what: Any, **named: Any) -> Any:
        found = await original(step, *what, **named)
        if step is rollup_builder._begin_block and found is not None and not changed:
            changed.append(found)
            bring_to_a_final_day(harness)
        return found

    harness.builder._write = write  # type: ignore[method-assign]
    harness.build()
    assert changed
    all_right(harness)
    harness.close()


# --- how much a step writes

# What one transaction may write, by step. A day has 96 quarters.
MAX_ROWS = {
    "day_offsets_ms": 0,
    "unfinished": 0,
    "end_day": 0,
    "end_days": 4,  # a row for each day that is not final
    # tally/rollups/value_blocks.py
    **dict.fromkeys(("add_chunks", "delete_chunks"), ROWS_PER_STEP),
    "_next_to_close": 0,
    "_begin_block": 1,
    "finish_day": 1,
    "finish": 1,
    "_begin_day": 97,
    "_finish_day": 97,
    "pack_end": 0,  # tally/rollups/heatmaps.py's own are weighed by test_heatmaps.py
    **dict.fromkeys(("next_day", "next_open_day"), 0),
    # tally/rollups/goal_days.py: no goal is saved here
    "delete_others": ROWS_PER_STEP,
    # Each column is deleted and written, with a row for the day.
    "store": 2 * len(statements.COLUMNS) + 1,
    # tally/columns/deleted_rows.py: a day's rows in one transaction, those of MAX_EVENTS events at most
    "delete_rows": 2 * deleted_rows.MAX_EVENTS + 1,
    "reopen": 0,
}


class Weighed(rollup_builder.RollupBuilder):
    """A builder that records how many rows each step writes."""

    most: Counter[str]

    async def _write(self, step: Any, *what: Any, **named: Any) -> Any:
        def weighed(connection: sqlite3.Connection, *what: Any, **named: Any) -> Any:
            before = connection.total_changes
            result = step(connection, *what, **named)
            self.most[step.__name__] = max(self.most[step.__name__], connection.total_changes - before)
            return result

        return await super()._write(weighed, *what, **named)


def test_writes_per_step_are_bounded(start: Start) -> None:
    """A step deletes or writes ROWS_PER_STEP rows, or a row for each quarter hour or column of a day."""
    harness = start()
    harness.builder.__class__ = Weighed
    harness.builder.most = most = Counter()  # type: ignore[attr-defined]
    harness.build()
    for _ in range(3):
        harness.advance(200 * DAY_MS)
        harness.build()
    harness.import_events(event(0, 500), event(3, 500), event(39, 700))
    harness.build()
    assert most.keys() == MAX_ROWS.keys()
    assert {name: rows for name, rows in most.items() if rows > MAX_ROWS[name]} == {}
    # It is the limits that hold them: without, these would write more.
    assert all(most[name] > ROWS_PER_STEP / 2 for name in ("add_chunks", "delete_chunks"))


@pytest.mark.slow
def test_a_large_day_is_written_in_parts(tmp_path: Path) -> None:
    """With the limits as they are: 2,500 values of a field, and of entry and exit pages."""
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db", ManualClock(NOW_MS))
    fill(tmp_path / "analytics.db", harness.websites[0].number, range(DAY, DAY + 2), 2_500)
    harness.builder.__class__ = Weighed
    harness.builder.most = most = Counter()  # type: ignore[attr-defined]
    harness.build()
    assert 2_500 // value_blocks.CHUNK <= most["add_chunks"] <= value_blocks.CHUNKS_PER_STEP
    assert table_errors(harness.reader, harness.websites[0].number) == []
    harness.close()


def test_little_space_stops_what_adds_to_the_file(start: Start) -> None:
    """All is built once there is space again, and what deletes continues without."""
    harness = start()
    little = DiskSpace(free_bytes=499_999, min_bytes=1_000_000, log_bytes=0, disk_bytes=40_000_000)
    harness.space, unbuilt = little, harness.days()
    assert harness.build()
    assert harness.days() == unbuilt
    same(harness)
    harness.space = UNKNOWN_SPACE
    all_right(harness)
    harness.space = little
    retention.set_keep_days(harness.writer, harness.websites[0].number, 20)
    assert harness.build()
    assert {day.state for day in harness.days().values()} == {rollup_state.KEPT}


# --- a real server


@pytest.mark.slow
def test_a_server_killed_while_it_builds(serve: Serve, tmp_path: Path) -> None:
    """SIGKILL five times while it builds: the figures are those of the raw rows; in the end all is built."""
    path = tmp_path / "analytics.db"
    make_file(path)
    now_ms = Clock().wall_ms()
    # Two blocks of days that are over for good.
    first = (((now_ms // DAY_MS) >> BLOCK_LEVEL) - 2 << BLOCK_LEVEL) - 6
    days = range(first, first + 12)
    reader = open_database(path, create=False)
    website = all_websites(reader)[0]
    with transaction(reader):
        owner = find_account(reader, "owner@example.com")
        key = create_api_key(reader, owner, "", now_ms)
    fill(path, website.number, days, 1_200)
    expected = {"visitors": len(days) * 1_200, "visits": len(days) * 1_200, "pageviews": len(days) * 1_200}
    rng = random.Random(11)

    def progress() -> int:
        """Changes with nearly every step: rows of what is built, and of events whose columns are stored."""
        counts = (
            "select (select count(*) from rollup_block) + (select count(*) from day_column)"
            " + (select count(*) from total_15m) + (select count(*) from rollup_state)"
            " + 28800 - (select count(*) from event) - (select count(*) from visit)"
        )
        return int(reader.execute(counts).fetchone()[0])

    def figures_are_right(server: Server) -> None:
        span = f"from={iso_day(first)}&to={iso_day(first + len(days) - 1)}"
        for question, seen in ((f"stats?{span}", expected["visitors"]), (f"top/os?{span}", expected["visitors"])):
            answer = server.request(
                "GET", f"/api/v1/websites/{website.id}/{question}", headers={"Authorization": f"Bearer {key}"}
            )
            assert answer.status == 200, answer.text
            data = answer.json["data"]
            visitors = data["visitors"] if isinstance(data, dict) else sum(row["visitors"] for row in data)
            assert visitors == seen
            if isinstance(data, dict):
                assert {name: data[name] for name in expected} == expected

    for _ in range(5):
        server = serve(db=path)
        figures_are_right(server)
        begun, enough = progress(), rng.randrange(1, 12_000)
        until(lambda begun=begun, enough=enough: progress() - begun > enough or is_built(reader, website.number))
        figures_are_right(server)
        server.kill()
        assert table_errors(reader, website.number) == []
    server = serve(db=path)
    until(lambda: is_built(reader, website.number), 60)
    figures_are_right(server)
    assert server.terminate() == 0
    assert table_errors(reader, website.number) == []
    reader.close()


def is_built(connection: sqlite3.Connection, website: int) -> bool:
    """Return whether no day is stale, both blocks of days exist and all days have columns alone."""
    stale = connection.execute(
        "select count(*) from rollup_state where website = ? and state = 0", (website,)
    ).fetchone()[0]
    blocks = connection.execute(
        "select count(*) from rollup_state where website = ? and kind = 0 and level = ? and state = 2",
        (website, BLOCK_LEVEL),
    ).fetchone()[0]
    rows = connection.execute("select count(*) from event where website = ?", (website,)).fetchone()[0]
    return not stale and not rows and blocks == 2


def iso_day(day: int) -> str:
    """Return a day as a date."""
    return next(iter(sqlite3.connect(":memory:").execute("select date(?, 'unixepoch')", (day * 86_400,))))[0]
