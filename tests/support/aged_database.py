"""A database with forty days of events and their rollups, for the tests of retention, verify and compact.

`past_events` returns lines of an import: traffic, web vitals and experiments of a few visitors, the same in every run.
One day is without traffic, one has web vitals alone, and on one all visitors have the same browser. `built_database`
returns a file with these events and with the totals and rollups that a server has at the clock's time. It is made once
and copied.
"""

import asyncio
import atexit
import functools
import json
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.engine.values import Goal
from tally.maintenance import retention
from tally.maintenance.rollup_builder import RollupBuilder
from tally.storage.connections import on_thread
from tally.storage.database import connect_reader, open_database, transaction
from tally.transfer.files import open_source
from tally.transfer.importer import import_events
from tests.support.app import NOON_MS, OWNER, ManualClock
from tests.support.rollup_database import keep_rows

DAY_MS = 86_400_000
TODAY = NOON_MS // DAY_MS
DAYS = 40
# Counted back from today.
KEEP = 10
QUIET, VITALS_ONLY, ONE_BROWSER = 25, 24, 20
RECENT_OS = "Haiku"  # only on days within the retention period
RAW_TABLES = ("day_column", "event", "visit", "web_vitals", "experiment_event", "experiment_assignment", "import_id")
COLUMN_OF_TIME = {
    "day_column": "day",
    "event": "ts",
    "visit": "start_ms",
    "web_vitals": "ts",
    "experiment_event": "ts",
    "experiment_assignment": "day",
    "import_id": "ts",
}


def past_events(today: int = TODAY, back: Iterable[int] = range(DAYS, -1, -1), until_ms: int = NOON_MS) -> list[Any]:
    """Return lines of an import for the days so many days back, up to `until_ms`."""
    rng = random.Random(7)
    lines: list[dict[str, Any]] = []
    for days in back:
        midnight = (today - days) * DAY_MS
        for visitor in range(12):
            begin = rng.randrange(DAY_MS)
            common = {"visitor": f"{visitor}", "hostname": "example.com", "country": rng.choice(("DE", "FR", ""))}
            for _ in range(rng.randrange(1, 16) if days not in (QUIET, VITALS_ONLY) else 0):
                begin = (begin + rng.choice((0, 1_000, 60_000, 900_000, 1_800_000, 1_800_001, 9_000_000))) % DAY_MS
                kind = rng.choice(("pageview", "pageview", "pageview", "screen_view", "event", "app_event"))
                browser = "Chrome" if days == ONE_BROWSER else rng.choice(("Chrome", "Firefox", "Safari"))
                os = RECENT_OS if days < KEEP and rng.random() < 0.3 else "Linux"
                line = common | {"type": kind, "timestamp": midnight + begin, "browser": browser, "os": os}
                lines.append(line | {"pathname": f"/{rng.randrange(20)}", "event_name": "buy"})
        if days != QUIET:
            lines.append({"type": "vitals", "timestamp": midnight + 5, "pathname": "/v", "vitals": {"lcp": 1}})
        if days not in (QUIET, VITALS_ONLY):
            tested = {"timestamp": midnight + 6, "visitor": "0", "experiment": "e"}
            lines += [tested | {"type": "ab_assign", "variant": "v"}, tested | {"type": "ab_convert", "goal": "g"}]
    # Every second line has an id.
    lines = [line | ({"id": number} if number % 2 else {}) for number, line in enumerate(lines)]
    return [line for line in lines if line["timestamp"] < until_ms]


def import_lines(path: Path, website: int, lines: Sequence[Any], now_ms: int = NOON_MS) -> tuple[int, int, int]:
    """Import lines; return how many were accepted, were duplicates, and were bad."""
    source = path.with_name("lines.ndjson")
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    connection = writing_connection(path)
    try:
        with open_source(str(source)) as opened:
            summary = import_events(connection, website, opened, now_ms=now_ms)
        return summary.accepted, summary.duplicates, summary.bad
    finally:
        connection.close()


def writing_connection(path: Path, create: bool = False) -> sqlite3.Connection:
    """Return a writing connection without fsync: tests end the process, not the power."""
    connection = open_database(path, create=create)
    connection.execute("pragma synchronous = off")
    return connection


def keep(path: Path, days: int | None = KEEP, website: int = 1) -> None:
    """Set how many days a website's events are kept, as the command does."""
    connection = writing_connection(path)
    with transaction(connection):
        retention.set_keep_days(connection, website, days)
    connection.close()


class Killed(Exception):
    """Ends the work where a process would be killed."""


def build(
    path: Path, now_ms: int = NOON_MS, keep_days: int = 0, steps: int = 1 << 30, goals: Sequence[Goal] = ()
) -> bool:
    """Do the background work of a server that was just started, or `steps` steps of it; return whether it ended.

    goals: those of the first website.
    """

    async def work() -> bool:
        left = iter(range(steps))

        def is_busy() -> bool:
            # Called before each step, which is one transaction: a kill within it has the effect of a kill before it.
            if next(left, None) is None:
                raise Killed
            return False

        writer, reader = await on_thread(writing_connection(path)), await on_thread(connect_reader(path))
        try:
            builder = RollupBuilder(writer, reader, ManualClock(now_ms), keep_days, is_busy, rest=0)
            builder.goals_of = lambda website: goals if website == 1 else ()
            await builder.work()
        except Killed:
            return False
        finally:
            await reader.close()
            await writer.close()
        return True

    return asyncio.run(work())


def make(path: Path, *pasts: Sequence[Any], now_ms: int = NOON_MS) -> Path:
    """Return a database with a website for each list of lines, with its rollups built."""
    connection = writing_connection(path, create=True)
    with transaction(connection):
        owner = create_account(connection, OWNER, "business", None, 0)
        for number, _ in enumerate(pasts):
            add_website(connection, owner, f"{number + 1}.example.com", "", (), number)
    connection.close()
    for number, lines in enumerate(pasts):
        assert import_lines(path, number + 1, lines, now_ms) == (len(lines), 0, 0)
    # Heatmap points are not exported, so an import has none.
    sql(path, "insert into heatmap_point values (1, ?, 1, 2, 0, 3, 4, 5)", TODAY - DAYS)
    assert build(path, now_ms)
    return path


@functools.cache
def _template() -> Path:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make(folder / "analytics.db", past_events(), past_events(back=range(15, -1, -1)))


def built_database(folder: Path) -> Path:
    """Return a database with two websites and their past events, in a directory."""
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(_template(), folder / "analytics.db"))


def with_rows(path: Path) -> Path:
    """Put the rows of stored days back, to stay; return the path."""
    connection = writing_connection(path)
    keep_rows(connection)
    connection.close()
    return path


def sql(path: Path, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Run a statement on the file and return its rows."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(query, parameters).fetchall()
    finally:
        connection.close()


def rows(path: Path, *tables: str, website: int = 1) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of a website in some tables."""
    return {table: sorted(sql(path, f"select * from {table} where website = ?", website), key=repr) for table in tables}


def old_rows(path: Path, before: int, website: int = 1) -> dict[str, int]:
    """Return how many raw rows each table holds for the days before one."""
    return {
        table: sql(
            path,
            f"select count(*) from {table} where website = ? and {column} < ?",
            website,
            before if column == "day" else before * DAY_MS,
        )[0][0]
        for table, column in COLUMN_OF_TIME.items()
    }


def rollup_states(path: Path) -> dict[int, int]:
    """Return the state of each day of the first website that has one."""
    return dict(sql(path, "select block, state from rollup_state where website = 1 and kind = 0 and level = 0"))


class Output(NamedTuple):
    """The exit status of a command, its standard output and its standard error."""

    status: int
    out: str
    err: str


def run_in_process(run: Callable[[Sequence[str]], int], capsys: Any, *words: str) -> Output:
    """Run a command in this process."""
    capsys.readouterr()
    status = run(words)
    return Output(status, *capsys.readouterr())
