"""verify: a correct database passes; every kind of damage is found, reported and repaired.

`verify` recomputes rollups from raw events and compares; it skips days without raw events, and reports them.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pytest

from analytics_server import main
from tally.accounts.definitions import add_definition, all_definitions
from tally.api.params import goals_of
from tally.columns.format import Array
from tally.engine.archive import Verdict
from tally.events.dimensions import EVENT_NAME, field_number
from tally.maintenance import verify as verify_module
from tally.maintenance.verify import verdicts
from tally.rollups import goal_days, rollup_state, totals, value_blocks
from tally.rollups.rollup_state import BLOCK_LEVEL, FINAL, KEPT, OPEN, STALE
from tally.rollups.value_blocks import decoded, encoded
from tally.storage.database import connect_reader, transaction
from tally.timestamps import iso
from tally.transfer import undo
from tests.support.aged_database import (
    DAY_MS,
    NOON_MS,
    QUIET,
    TODAY,
    Output,
    build,
    built_database,
    keep,
    make,
    past_events,
    rollup_states,
    rows,
    run_in_process,
    sql,
    with_rows,
    writing_connection,
)
from tests.support.cases import cases
from tests.support.process import Command, Serve, until

BUILT = ("rollup_block", "total_15m", "rollup_state")
FIGURES = BUILT[:2]
# A final day in the middle, and the open one before today.
FINAL_DAY, OPEN_DAY = TODAY - 22, TODAY - 1


Verify = Callable[..., Output]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return built_database(tmp_path)


@pytest.fixture
def verify(db: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    return lambda *words: run_in_process(main, capsys, "verify", "--db", str(db), *words)


def found(path: Path, website: int = 1) -> list[Verdict]:
    """Return the faults found."""
    connection = connect_reader(path)
    try:
        return [verdict for verdict in verdicts(connection, website) if verdict.fault]
    finally:
        connection.close()


def date(day: int) -> str:
    return iso(day * DAY_MS)[:10]


@pytest.mark.slow
def test_a_correct_database_passes(db: Path, verify: Verify) -> None:
    before = rows(db, *BUILT)
    done = verify()
    assert (done.status, done.out) == (0, "")
    built_blocks = sql(db, "select count(*) from rollup_state where website = 1 and kind = 0")[0][0]
    assert f"1.example.com: {built_blocks} days and blocks of days are right, 0 are wrong" in done.err
    assert "2.example.com: " in done.err
    assert "skipped" not in done.err
    assert verify("--repair").status == 0
    assert rows(db, *BUILT) == before


@pytest.mark.slow
@pytest.mark.parametrize("how", ["id", "domain"])
def test_one_website_alone(db: Path, verify: Verify, how: str) -> None:
    sql(db, "update total_15m set pageviews = pageviews + 1 where website = 1")
    (name,) = sql(db, f"select {how} from website where number = 2")[0]
    done = verify(name)
    assert done.status == 0
    assert "1.example.com" not in done.err
    assert verify().status == 1


def test_an_unknown_website(verify: Verify) -> None:
    done = verify("nosuch.example.com")
    assert (done.status, done.out) == (1, "")
    assert "website list" in done.err


def test_a_database_without_websites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writing_connection(tmp_path / "empty.db", create=True).close()
    assert run_in_process(main, capsys, "verify", "--db", str(tmp_path / "empty.db"))[:2] == (0, "")


# --- damage


class Damage(NamedTuple):
    """A statement that damages a day, or the block of a level that contains it, made of the day's number; or a
    function that does."""

    statement: Callable[[int], str | Callable[[Path], None]]
    level: int = 0
    day: int | None = None
    """The only day that it fits; None: any final one."""

    def apply(self, path: Path, day: int) -> None:
        """Damage a database."""
        statement = self.statement(day)
        if isinstance(statement, str):
            sql(path, statement)
        else:
            statement(path)


def a_moment(day: int = FINAL_DAY) -> str:
    """Select one row of a day's totals."""
    first = day * totals.QUARTERS_PER_DAY
    chosen = f"(select max(quarter) from total_15m where website = 1 and quarter between {first} and {first + 95})"
    return f"website = 1 and quarter = {chosen}"


def a_block(day: int, field: int = 0) -> str:
    """Select the array of a field in the block of a day."""
    return f"website = 1 and field = {field} and level = {BLOCK_LEVEL} and block = {day >> BLOCK_LEVEL}"


def in_block(day: int, change: Callable[[Array], Array], field: int = 0) -> Callable[[Path], None]:
    """Return what changes the array of a field in a block: a column has a value and its 3 counts."""

    def damage(path: Path) -> None:
        place = a_block(day, field)
        ((first, content),) = sql(path, f"select first_value, content from rollup_block where {place}")
        counts = change(decoded(field, first, content))
        sql(path, f"delete from rollup_block where {place}")
        if counts.size:
            statement = "insert into rollup_block values (1, ?, ?, ?, ?, ?)"
            sql(path, statement, field, BLOCK_LEVEL, day >> BLOCK_LEVEL, int(counts[0, 0]), encoded(counts))

    return damage


def one_more(row: int) -> Callable[[Array], Array]:
    """Return what adds 1 to a number of the last value of an array."""

    def change(counts: Array) -> Array:
        counts[row, -1] += 1
        return counts

    return change


def an_empty_quarter(day: int = FINAL_DAY) -> str:
    """Select a quarter of a day without totals."""
    return (
        f"(select {day * 96} + q.key from json_each('[{', '.join(['0'] * 96)}]') as q where q.key not in"
        f" (select quarter - {day * 96} from total_15m where website = 1))"
    )


DAMAGES = {
    "total_15m: one less": Damage(
        lambda day: f"update total_15m set visit_duration_ms = visit_duration_ms - 1 where {a_moment(day)}"
    ),
    "total_15m: a missing row": Damage(lambda day: f"delete from total_15m where {a_moment(day)}"),
    "total_15m: a whole day missing": Damage(
        lambda day: f"delete from total_15m where website = 1 and quarter / 96 = {day}"
    ),
    "total_15m: an extra row": Damage(
        lambda day: f"insert into total_15m select 1, {an_empty_quarter(day)}, 1, 0, 0, 0, 0, 0, 0, 0, 0"
    ),
    "total_15m: a row on another quarter": Damage(
        lambda day: f"update total_15m set quarter = {an_empty_quarter(day)} where {a_moment(day)}"
    ),
    "total_15m: of an open day": Damage(
        lambda day: f"update total_15m set first_seen = first_seen + 1 where {a_moment(day)}", 0, OPEN_DAY
    ),
    "total_15m: of a day without traffic": Damage(
        lambda day: f"insert into total_15m values (1, {day * 96}, 1, 0, 1, 1, 1, 1, 1, 1, 0)", 0, TODAY - QUIET
    ),
    **{
        f"block: number {row} of {field}": Damage(
            lambda day, row=row, field=field: in_block(day, one_more(row), field_number(field)), BLOCK_LEVEL
        )
        for field in ("pathname", "referrer", "event_name", "exit_page")
        for row in range(1 + value_blocks.FIGURES_OF[field_number(field)])
    },
    "block: a missing value": Damage(lambda day: in_block(day, lambda counts: counts[:, 1:], 3), BLOCK_LEVEL),
    "block: all values missing": Damage(lambda day: f"delete from rollup_block where {a_block(day)}", BLOCK_LEVEL),
    "block: an extra value": Damage(
        lambda day: in_block(day, lambda counts: np.append(counts, [[99], [1], [1], [0]], axis=1), EVENT_NAME),
        BLOCK_LEVEL,
    ),
    **{
        f"block: {what}": Damage(
            lambda day, content=content: f"update rollup_block set content = {content} where {a_block(day)}",
            BLOCK_LEVEL,
        )
        for what, content in (
            ("no array", "x''"),
            ("an array of unknown widths", "x'0301000000000000'"),
            ("an incomplete array", "substr(content, 1, length(content) - 1)"),
        )
    },
    "built: a day with traffic has no row": Damage(
        lambda day: f"delete from rollup_state where website = 1 and level = 0 and block = {day}"
    ),
}
# One more or less in each column and each field.
WRONG_NUMBERS = {
    "total_15m": [
        lambda day, name=name: f"update total_15m set {name} = {name} + 1 where {a_moment(day)}"
        for name in totals.COLUMNS
    ],
}


def final_blocks(db: Path, level: int) -> Iterator[int]:
    """Yield the first day of each complete block of a level that has traffic, newest first."""
    complete = sql(
        db, "select block from rollup_state where website = 1 and kind = 0 and level = ? and state = ?", level, FINAL
    )
    return iter(sorted((block << level for (block,) in complete), reverse=True))


@pytest.mark.slow
@cases("statements", WRONG_NUMBERS.values(), ids=WRONG_NUMBERS)
def test_each_number_is_compared(tmp_path: Path, statements: Sequence[Callable[[int], str]]) -> None:
    """Each on a day of its own."""
    with TemporaryDirectory(dir=tmp_path) as directory:
        db = built_database(Path(directory))
        days = list(islice(final_blocks(db, 0), len(statements)))
        for day, statement in zip(days, statements, strict=True):
            sql(db, statement(day))
        wrong = {(one.level, one.block) for one in found(db)}
    assert {block for level, block in wrong if level == 0} == set(days)
    assert wrong <= {(level, day >> level) for level in rollup_state.LEVELS for day in days}


@pytest.mark.slow
def test_damaged_blocks_are_found_and_repaired(db: Path, verify: Verify) -> None:
    """Each by itself in one block, and then two of them."""
    right, block = rows(db, *FIGURES), FINAL_DAY >> BLOCK_LEVEL
    damages = {name: damage for name, damage in DAMAGES.items() if damage.level}
    with closing(connect_reader(db)) as reader, closing(writing_connection(db)) as writer:
        stored = writer.execute("select * from rollup_block").fetchall()
        for name, damage in damages.items():
            damage.apply(db, FINAL_DAY)
            assert rows(db, *FIGURES) != right, name
            assert verify_module._block(reader, 1, block).fault, name
            with transaction(writer):
                writer.execute("delete from rollup_block")
                writer.executemany("insert into rollup_block values (?, ?, ?, ?, ?, ?)", stored)
            assert not verify_module._block(reader, 1, block).fault
    for name in ("block: all values missing", "block: an extra value"):
        damages[name].apply(db, FINAL_DAY)
    assert [(one.level, one.block) for one in found(db)] == [(BLOCK_LEVEL, block)]
    assert verify("1.example.com", "--repair").status == 0
    assert build(db)
    assert rows(db, *FIGURES) == right


@pytest.mark.slow
def test_damaged_days_are_found_and_repaired(db: Path, verify: Verify) -> None:
    """Each on a day of its own."""
    right, days = rows(db, *FIGURES), final_blocks(db, 0)
    damaged = dict[int, str]()
    for name, damage in DAMAGES.items():
        if not damage.level:
            day = next(days) if damage.day is None else damage.day
            before = rows(db, *BUILT)
            damage.apply(db, day)
            assert rows(db, *BUILT) != before, name
            damaged[day] = name
    wrong = {(one.level, one.block) for one in found(db)}
    assert {day: name for day, name in damaged.items() if (0, day) not in wrong} == {}
    # Only blocks that contain the days are reported.
    assert wrong <= {(above, day >> above) for above in rollup_state.LEVELS for day in damaged}
    repairing = verify("1.example.com", "--repair")
    assert (repairing.status, repairing.out) == (0, "")
    assert build(db)
    assert rows(db, *FIGURES) == right


def test_damage_is_reported(db: Path, verify: Verify) -> None:
    """Of a day and of a block of days; without --repair nothing is changed."""
    for damage in (DAMAGES["total_15m: one less"], DAMAGES["block: an extra value"]):
        damage.apply(db, FINAL_DAY)
    damaged, wrong = rows(db, *BUILT), found(db)
    assert {one.level for one in wrong} >= {0, BLOCK_LEVEL}
    done = verify("1.example.com")
    assert (done.status, done.out) == (1, "")
    assert f"{len(wrong)} are wrong" in done.err
    assert done.err.count("  wrong: ") == len(wrong)
    assert date(FINAL_DAY) in done.err
    assert date(FINAL_DAY >> BLOCK_LEVEL << BLOCK_LEVEL) in done.err
    assert "verify --repair" in done.err
    assert rows(db, *BUILT) == damaged


@pytest.mark.slow
@pytest.mark.parametrize("event", ["an event more", "an event less"])
def test_unrecorded_changes_of_events_are_found(db: Path, verify: Verify, event: str) -> None:
    with_rows(db)
    some = f"website = 1 and ts / {DAY_MS} = {FINAL_DAY} limit 1"
    if event == "an event less":
        sql(db, f"delete from event where (website, ts, id) in (select website, ts, id from event where {some})")
    else:
        columns = [row[1] for row in sql(db, "pragma table_info(event)")]
        values = ", ".join("id + 1000000" if name == "id" else name for name in columns)
        sql(db, f"insert into event select {values} from event where {some}")
    assert verify().status == 1
    assert verify("--repair").status == 0
    assert build(db)
    assert verify().status == 0


def test_nulls_and_zeros_are_equal(db: Path, verify: Verify) -> None:
    """Deltas that cancel out leave a row of zeros."""
    sql(db, f"insert into total_15m select 1, {an_empty_quarter()}, 0, 0, 0, 0, 0, 0, 0, 0, 0")
    assert verify().status == 0


@pytest.mark.slow
def test_many_errors_are_counted_and_some_are_listed(db: Path, verify: Verify) -> None:
    sql(db, "update total_15m set pageviews = pageviews + 1 where website = 1")
    done = verify()
    days = len(rollup_states(db))
    assert days > 20
    assert f"{days} are wrong" in done.err
    assert done.err.count("  wrong: totals") == 20
    assert verify("--repair").status == 0
    assert build(db)
    assert verify().status == 0


GOALS = (
    {"name": "Buy", "type": "event", "match": ["filter_event_name=buy"], "value": None, "currency": None},
    {"name": "Page", "type": "page", "match": ["filter_pathname^=/1"], "value": "price", "currency": "EUR"},
)


@pytest.mark.slow
def test_conversions_of_goals_are_compared(tmp_path: Path, verify: Verify) -> None:
    # Six days: each goal is counted by each field on each day.
    db = make(tmp_path / "few_days.db", past_events(back=range(22, 16, -1)))
    connection = writing_connection(db)
    with transaction(connection):
        for content in GOALS:
            add_definition(connection, 1, "goal", content, 1)
        goals = [saved.goal for saved in goals_of(all_definitions(connection)[1])]
    connection.close()
    assert build(db, goals=goals)
    right = rows(db, "goal_day")
    assert sql(db, "select count(distinct saved_goal) from goal_day") == [(len(GOALS),)]
    assert verify("--db", str(db)).status == 0
    damages = (
        "update goal_day set value_low = value_low + 1 where rowid_of",
        "delete from goal_day where rowid_of",
        "insert into goal_day select website, saved_goal, 3, day, 9999, 1, 1, 0, 0, 0 from goal_day where rowid_of",
    )
    days = (FINAL_DAY, FINAL_DAY + 2, FINAL_DAY + 4)
    for day, damage in zip(days, damages, strict=True):
        chosen = f"website = 1 and saved_goal = {goal_days.number_of(goals[1])} and day = {day} and field = 0"
        sql(db, damage.replace("rowid_of", f"{chosen} and value = (select min(value) from goal_day where {chosen})"))
    done = verify("--db", str(db))
    assert (done.status, done.err.count("  wrong: ")) == (1, len(damages))
    for day in days:
        assert f"  wrong: conversions of goals of 1 day from {date(day)} on" in done.err
    assert verify("--db", str(db), "--repair").status == 0
    assert build(db, goals=goals)
    assert rows(db, "goal_day") == right
    # Rows of goals that are no longer saved are not read.
    sql(db, "delete from definition")
    sql(db, "update goal_day set conversions = conversions + 1")
    assert verify("--db", str(db)).status == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        "update day_column set content = (select content from day_column where {place} and field = 2)"
        " where {place} and field = 1",
        "delete from day_column where {place} and field = 0",
    ],
    ids=["another column's content", "a column is missing"],
)
def test_columns_of_days_are_compared(db: Path, verify: Verify, damage: str) -> None:
    with_rows(db)
    assert build(db)
    right = rows(db, "day_column")
    assert verify().status == 0
    sql(db, damage.format(place=f"website = 1 and day = {FINAL_DAY}"))
    assert rows(db, "day_column") != right
    done = verify()
    assert (done.status, done.err.count("  wrong: ")) == (1, 1)
    assert f"  wrong: columns of 1 day from {date(FINAL_DAY)} on" in done.err
    assert "days and blocks of days are right, 1 is wrong\n" in done.err
    assert "1 day or block of days is wrong: rebuild with `verify --repair`" in done.err
    assert verify("--repair").status == 0
    assert build(db)
    assert verify().status == 0
    assert rows(db, "day_column") == right


@pytest.mark.slow
def test_columns_without_rows_can_only_be_restored(
    db: Path, verify: Verify, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`verify` and `doctor` name the day; `verify --repair` does not say that it will be rebuilt."""
    assert build(db)
    ((day, content),) = sql(db, "select day, content from day_column where website = 1 and field = 1 limit 1")
    assert sql(db, f"select raw_rows from packed_day where website = 1 and source = 0 and day = {day}") == [(0,)]

    def store(column: bytes) -> None:
        set_to = f"update day_column set content = x'{column.hex()}'"
        sql(db, f"{set_to} where website = 1 and field = 1 and day = {day}")

    def doctor() -> str:
        geoip = str(tmp_path / "none.mmdb")
        return run_in_process(main, capsys, "doctor", "--db", str(db), "--geoip-db", geoip).out

    store(content[:-1] + bytes([content[-1] ^ 1]))
    for options in ((), ("--repair",)):
        done = verify(*options)
        assert f"  wrong: columns of events without rows of 1 day from {date(day)} on" in done.err
        assert "  1 day: restore a backup made before the damage; nothing else has these events" in done.err
        assert "marked to be rebuilt" not in done.err
        assert (done.status, done.err.count("  wrong: ")) == (1, 1)
    assert f"those of 1 day are damaged, such as {date(day)}" in doctor()
    store(content)
    assert verify().status == 0
    assert "are damaged" not in doctor()


# --- skipped days


@pytest.mark.slow
def test_stale_days_are_not_compared(db: Path, verify: Verify) -> None:
    connection = writing_connection(db)
    with transaction(connection):
        rollup_state.mark_stale(connection, 1, [FINAL_DAY, FINAL_DAY + 1])
    connection.close()
    sql(db, f"update total_15m set pageviews = pageviews + 1 where {a_moment()}")
    done = verify()
    assert done.status == 0, "no question uses a stale day"
    assert "skipped 2 days: it is rebuilt in the background" in done.err
    assert build(db)
    assert "skipped" not in verify().err


def test_kept_days_are_not_compared(db: Path, verify: Verify) -> None:
    keep(db)
    assert build(db)
    kept = [day for day, state in rollup_states(db).items() if state == KEPT]
    before = rows(db, *BUILT)
    done = verify("--repair")
    assert done.status == 0
    assert f"skipped {len(kept)} days" in done.err
    assert "expired" in done.err
    assert (
        f"{len(sql(db, 'select 1 from rollup_state where website = 1 and kind = 0')) - len(kept)} days and blocks"
        in done.err
    )
    assert rows(db, *BUILT) == before, "they are kept"


@pytest.mark.slow
def test_blocks_of_kept_days_are_repaired_from_them(db: Path, verify: Verify) -> None:
    keep(db)
    assert build(db)
    right = rows(db, *FIGURES)
    in_block(FINAL_DAY, one_more(2))(db)
    assert verify().status == 1
    assert verify("--repair").status == 0
    assert rollup_states(db)[FINAL_DAY] == KEPT
    assert build(db)
    assert verify().status == 0
    assert rows(db, *FIGURES) == right


def test_open_days_are_compared(db: Path) -> None:
    assert rollup_states(db)[TODAY] == OPEN
    sql(db, f"update total_15m set pageviews = pageviews + 1 where {a_moment(TODAY)}")
    assert [(one.level, one.block) for one in found(db)] == [(0, TODAY)]


def test_only_wrong_days_are_marked(db: Path, verify: Verify) -> None:
    sql(db, f"update total_15m set pageviews = pageviews + 1 where {a_moment()}")
    assert verify("--repair").status == 0
    assert [day for day, state in rollup_states(db).items() if state == STALE] == [FINAL_DAY]
    above = set(sql(db, "select level, block from rollup_state where website = 1 and kind = 0 and level > 0"))
    assert not above & {(level, FINAL_DAY >> level) for level in rollup_state.LEVELS[1:]}
    assert above


# --- beside a running server


@pytest.mark.slow
def test_verify_while_a_server_runs(serve: Serve, command: Command, tmp_path: Path) -> None:
    """Each day is compared in one snapshot while events arrive and are folded."""
    now_ms = time.time_ns() // 1_000_000
    today = now_ms // DAY_MS
    db = make(tmp_path / "analytics.db", past_events(today, range(12, -1, -1), now_ms), now_ms=now_ms)
    server = serve("--website-per-minute", "1000000", "--client-per-minute", "1000000")
    (id,) = sql(db, "select id from website")[0]
    statuses: list[int] = []
    over = threading.Event()

    def send() -> None:
        while not over.is_set():
            number = len(statuses)
            body = {"type": "pageview", "website_id": id, "url": f"https://1.example.com/{number % 7}"}
            late = {"timestamp": now_ms - number % 50 * 3_600_000, "session_id": f"session-{number % 30}"}
            statuses.append(server.request("POST", "/api/collect", body | late).status)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for _ in range(4):
            sent = len(statuses)
            done = command("verify")
            assert done.returncode == 0, done.stderr
            assert " 0 are wrong" in done.stderr
            until(lambda sent=sent: len(statuses) > sent + 20)
    finally:
        over.set()
        sender.join()
    assert set(statuses) == {202}
    sql(db, f"update total_15m set pageviews = pageviews + 1 where website = 1 and quarter / 96 = {today - 8}")
    assert command("verify").returncode == 1
    assert command("verify", "--repair").returncode == 0
    until(lambda: "skipped" not in (done := command("verify")).stderr and done.returncode == 0)
    assert server.terminate() == 0


def test_a_block_of_expired_days_without_events(tmp_path: Path) -> None:
    """Days whose events were taken back, and which then expired, make no block wrong."""
    day = ((TODAY >> BLOCK_LEVEL) - 1 << BLOCK_LEVEL) + 3
    line = {"type": "pageview", "timestamp": day * DAY_MS, "visitor": "a", "pathname": "/"}
    path = make(tmp_path / "analytics.db", [line])
    with closing(writing_connection(path)) as connection:
        with transaction(connection):
            undo.begin(connection, 1, 1, NOON_MS)
        is_left = True
        while is_left:
            with transaction(connection):
                is_left = undo.step(connection, 1, 1)
    assert build(path)
    keep(path)
    assert build(path)
    assert rollup_states(path)[day] == KEPT
    assert sql(path, "select state from rollup_state where level = ?", BLOCK_LEVEL) == [(FINAL,)]
    assert found(path) == []
