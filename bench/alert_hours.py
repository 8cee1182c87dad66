"""Part alerts: what judging the alerts of an hour takes, of one large website and of 50 small ones.

In one process, without requests beside it: processor time of the whole hour, and how long each call holds the writer or
a reader. Each website has the alerts that count visits: spike, drop, silence and new sources. The first hour after the
start is the one with nothing in memory; the others are the same hour, judged again.
"""

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from aiohttp import web
from dataset import DataSet, fill_website, roll_up
from report import Row, ms, progress

from bench import Bench
from tally.accounts.accounts import FIRST_ACCOUNT, create_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import all_websites
from tally.api.alerts import JUDGE
from tally.api.context import READ_API
from tally.notices.alerts import Alert, Kind, add_alert
from tally.notices.channels import new_id
from tally.settings import settings_from
from tally.storage import database
from tally.web.application import build_app

WEBSITES, EVENTS_EACH = 50, 20_000
# The hours that are compared, and some more.
_DAYS = 70
_KINDS: dict[Kind, dict[str, Any]] = {
    "spike": {"factor": 3.0, "sensitive": False, "min_visits": None},
    "drop": {},
    "silence": {"hours": None},
    "new_source": {},
}


def alerts(bench: Bench) -> list[Row]:
    """Return the rows of a large website, of one with a tenth of its events, and of many small ones."""
    rows = list[Row]()
    for events in (bench.events, bench.events // 10):
        with bench.copy(events) as data_set:
            rows += asyncio.run(_measured(data_set.db, f"one website, {data_set.events:,} events", bench.repeats))
    db = _many_websites(bench.folder / "websites")
    what = f"{WEBSITES} websites, {EVENTS_EACH:,} events each in {_DAYS} days"
    return [*rows, *asyncio.run(_measured(db, what, bench.repeats))]


def _many_websites(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    db, end_ms = folder / "analytics.db", time.time_ns() // 1_000_000
    with closing(database.open_database(db, create=True)) as connection:
        with database.transaction(connection):
            owner = create_account(connection, FIRST_ACCOUNT, "business", None, end_ms)
            key = create_api_key(connection, owner, "bench", end_ms)
        for _ in range(WEBSITES):
            website, _ = fill_website(connection, EVENTS_EACH, end_ms, _DAYS)
    roll_up(DataSet(db, website, key, WEBSITES * EVENTS_EACH, end_ms, 0.0))
    return db


async def _measured(db: Path, what: str, repeats: int) -> list[Row]:
    app = build_app(settings_from({"db": [str(db)]}, {}))
    runner = web.AppRunner(app)
    await runner.setup()
    judge: Any = app[JUDGE]
    node = app[READ_API].node
    await asyncio.to_thread(_add_alerts, db)
    held: dict[str, list[float]] = {"reader": [], "writer": []}
    judge._reports = _Timed(judge._reports, held["reader"])
    judge._write = _timed(judge._write, held["writer"])
    times: list[tuple[float, float]] = []
    for _ in range(repeats + 1):
        with closing(sqlite3.connect(db)) as connection, connection:
            connection.execute("/* alert_hours.again */ update alert set judged_ms = null")
        judge._slot = -1
        judge.changed()
        await node.registry.refresh()
        begun = time.perf_counter(), time.process_time()
        await judge.judge()
        times.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
        progress(f"{what}: {times[-1][0]:.3f} s")
    await runner.cleanup()
    with closing(sqlite3.connect(db)) as connection:
        judged = connection.execute(
            "/* alert_hours.judged */ select count(*) from alert where judged_ms is not null and result = 'judged'"
        ).fetchone()[0]
    first, again = times[0], times[1:]
    shown = (
        f"{ms(first[1])}; {ms(median(cpu for _, cpu in again))} processor time,"
        f" {ms(first[0])}; {ms(median(wall for wall, _ in again))} in all;"
        f" reader at most {ms(max(held['reader']))}, writer {ms(max(held['writer']))}; {judged} alerts judged"
    )
    return [Row("alerts", f"an hour of {what}: the first; repeated", shown)]


def _add_alerts(db: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    with closing(database.open_database(db, create=False)) as connection, database.transaction(connection):
        for website in all_websites(connection):
            for kind, params in _KINDS.items():
                row = (new_id(), website.number, kind, params, None, now_ms, "ok", now_ms)
                add_alert(connection, website.account, Alert(*row, None, "waiting", None, None))


class _Timed:
    """Calls of reports, each timed."""

    def __init__(self, reports: Any, taken: list[float]) -> None:
        self._reports, self._taken = reports, taken

    def __getattr__(self, name: str) -> Any:
        return _timed(getattr(self._reports, name), self._taken)


def _timed(call: Callable[..., Awaitable[Any]], taken: list[float]) -> Callable[..., Awaitable[Any]]:
    async def timed(*values: Any) -> Any:
        begun = time.perf_counter()
        try:
            return await call(*values)
        finally:
            taken.append(time.perf_counter() - begun)

    return timed
