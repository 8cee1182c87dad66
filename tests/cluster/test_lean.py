"""A file that keeps only recent days, whose other days are in ClickHouse alone."""

import asyncio
import io
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tally.cluster import archive, join, leave, settler, setup, unloader
from tally.cluster.compare import _plain, _questions
from tally.cluster.engine import FollowEngine, KeepEngine
from tally.cluster.servers import Servers
from tally.cluster.unloader import Unloader
from tally.engine.values import BeyondRetention, Requester, Scope
from tally.errors import ApiError
from tally.events.filters import Filter
from tally.maintenance import retention
from tally.maintenance.backup import BackupError
from tally.maintenance.verify import LOST_UNLOADED
from tally.reports.deletion_preview import preview_now
from tally.settings import Settings
from tally.sqlite.engine import SqliteEngine
from tally.storage.cluster_tables import UnloadedDays, copy_of, end, end_all
from tally.storage.database import BadDatabase, open_database, transaction
from tally.timestamps import iso
from tally.transfer import undo
from tally.transfer.exporter import json_lines, write_export
from tally.transfer.files import BadFile
from tests.cluster.engine import needs_clickhouse, new_key_file
from tests.cluster.test_follow import ClickHouse, clickhouse
from tests.support.aged_database import DAY_MS, TODAY, built_database, import_lines, old_rows, sql
from tests.support.app import ROOT, App, ManualClock
from tests.support.process import clean_environment

pytestmark = needs_clickhouse
__all__ = ["clickhouse"]
# The website that is joined has the days from 15 days ago on.
WEBSITE, FIRST, KEEP = 2, TODAY - 15, 7
WHOLE, PART = (FIRST * DAY_MS, TODAY * DAY_MS), (int((TODAY - 10.3) * DAY_MS), int((TODAY - 8.7) * DAY_MS))
FILTERS = (Filter("pathname", "^=", ("/1",)), Filter("channel", "=", ("Direct",)))
SCOPES = [Scope(WEBSITE, *WHOLE, (), WHOLE), Scope(WEBSITE, *PART, FILTERS, PART)]


async def answers(reports: Any) -> list[tuple[str, Any]]:
    """Return the answers to every question about days of which most are unloaded."""
    return [(name, _plain(await ask(reports, scope))) for scope in SCOPES for name, ask in _questions()]


async def written(exported: AsyncIterator[Sequence[Any]]) -> bytes:
    """Return an export as lines of JSON."""
    out = io.BytesIO()
    write_export(out, json_lines, [batch async for batch in exported])
    return out.getvalue()


async def worked(worker: Any) -> None:
    while await worker.work():
        pass


async def never(*_: Any) -> Any:
    raise AssertionError


def ended(*_: Any) -> Any:
    raise OSError("it ends")


class Lean:
    """The server of a file whose older days are unloaded, step by step."""

    def __init__(self, db: Path, clickhouse: ClickHouse, patch: pytest.MonkeyPatch) -> None:
        key = new_key_file(db.parent)
        words: Any = {"clickhouse": (clickhouse.url,), "cluster_mode": "keep", "cluster_key": key}
        self.db, self.clickhouse, self.patch, self.settings = db, clickhouse, patch, Settings(db=db, **words)
        self.servers = Servers(self.settings.clickhouse, self.settings.cluster_name)
        self.app = App(self.settings, ManualClock(), lambda node: KeepEngine(node))
        # In its turn where the test says so.
        patch.setattr(unloader.Unloader, "pause_s", 1 << 30)
        # Most days have several pages.
        patch.setattr(archive, "_ROWS", 60)

    def unloader(self) -> Unloader:
        running = self.app.running
        own = self.servers, running.shipper, self.app.database, running.archive
        return Unloader(*own, lambda: running.work.builder, self.app.clock, KEEP)

    async def export(self) -> bytes:
        own = archive.ClusterArchive(self.db, never, lambda website: (), self.settings)
        return await written(own.rows(WEBSITE))

    def first_day(self) -> int:
        """Return the first day that the file has itself."""
        return int(sql(self.db, "select own_day from cluster_copy")[0][0])

    async def work(self, left: Path) -> None:
        with closing(open_database(self.db, create=False)) as connection:
            await setup.init(connection, self.settings, again=False)
            await join.join(connection, self.settings, self.servers, WEBSITE, lambda sent: None)
            # All websites of the server have a copy.
            connection.execute("delete from website where number = 1")
            await self.app.open()
            own = self.app.running
            exported, before = await written(own.archive.rows(WEBSITE)), await answers(own.sqlite_reports)
            assert exported.count(b"\n") > 400
            assert await written(archive.exported(self.servers.client, 1, 0)) == exported
            # Nothing is settled yet.
            assert not await self.unloader().work()
            # What is not read any more is deleted at once.
            self.patch.setattr(settler, "KEPT_S", 0)
            await worked(own.settler)
            number, planned = await own.reports.traffic([WEBSITE], Requester()), self.plan(connection)
            await self.unload()
            assert (await own.reports.traffic([WEBSITE], Requester()), self.plan(connection)) == (number, planned)
            assert await self.export() == exported
            await self.verify()
            await self.command_reads_all(left.with_name("exported"), exported)
            by_clickhouse = own.reports.by_clickhouse
            assert await answers(own.reports) == before
            assert own.reports.by_clickhouse == by_clickhouse + len(before)
            self.refuses(connection)
            await self.leave(left, before, exported)
            await self.is_without_clickhouse(before)
            await self.expire(connection)
            await self.app.close()
        await self.servers.close()
        for engine in (SqliteEngine, FollowEngine):
            app = App(self.settings, ManualClock(), engine)
            with pytest.raises(BadDatabase, match="--cluster-mode keep"):
                await app.open()
            await app.client.session.close()

    def plan(self, connection: sqlite3.Connection) -> retention.Plan:
        """Return what would expire."""
        return retention.plan(connection, WEBSITE, KEEP, self.app.clock.wall_ms())

    async def unload(self) -> None:
        """Unload days up to one that ClickHouse has with another measurement, then the rest, in spite of an end."""
        known, place = old_rows(self.db, TODAY - KEEP, WEBSITE), f"where website = 1 and day = {FIRST + 3} and type = 4"
        execute, at_once = self.servers.client.execute, "settings mutations_sync = 2"
        await execute(f"create table kept engine = Memory as select * from measure {place}")
        await execute(f"alter table measure update lcp = lcp + 1 {place} {at_once}")
        first = self.unloader()
        await worked(first)
        assert self.first_day() == FIRST + 3
        await execute(f"alter table measure delete {place} {at_once}")
        await execute("insert into measure select * from kept")
        with self.patch.context() as patch:
            # The process ends once it is recorded that the file has a day no more.
            patch.setattr(retention, "delete_some", ended)
            with pytest.raises(OSError, match="it ends"):
                await worked(first)
        assert self.first_day() == FIRST + 4
        await worked(self.unloader())
        assert self.first_day() == TODAY - KEEP
        # Lines that were imported are still known.
        kept = dict.fromkeys(known, 0) | {"import_id": known["import_id"]}
        assert old_rows(self.db, TODAY - KEEP, WEBSITE) == kept
        assert known["day_column"] > 100

    async def run(self, *words: str, db: Path | None = None) -> str:
        """Run a command on the server's file, or another one, while the server runs; return its output."""
        command = [sys.executable, str(ROOT / "analytics_server.py"), *words, "--db", str(db or self.db)]
        env = clean_environment() | ({} if db else {"ANALYTICS_CLICKHOUSE": self.clickhouse.url})
        done = await asyncio.to_thread(subprocess.run, command, text=True, capture_output=True, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    async def command_reads_all(self, target: Path, exported: bytes) -> None:
        """Commands read all days."""
        await self.run("export", "2.example.com", str(target))
        assert target.read_bytes() == exported
        assert "0 are wrong" in await self.run("verify")
        status = await self.run("cluster", "status")
        assert f"alone has events from before {iso((TODAY - KEEP) * DAY_MS)[:10]}" in status
        assert re.search("[1-9][0-9]+ answers equal", await self.run("cluster", "compare", "--days", "9"))

    async def verify(self) -> None:
        """Every day is verified; one that ClickHouse has with another measurement is found."""
        own = archive.ClusterArchive(self.db, never, lambda website: (), self.settings)
        verdicts = [one async for one in own.verify(WEBSITE)]
        assert len(verdicts) > 12
        assert not [one for one in verdicts if one.fault or one.skipped]
        place = f"where website = 1 and day = {FIRST + 5} and type = 4"
        for change in ("+ 1", "- 1"):
            await self.servers.client.execute(
                f"alter table measure update lcp = lcp {change} {place} settings mutations_sync = 2"
            )
            wrong = [one.first_day async for one in own.verify(WEBSITE) if one.fault == LOST_UNLOADED]
            assert wrong == ([FIRST + 5] if change == "+ 1" else [])

    def refuses(self, connection: sqlite3.Connection) -> None:
        """What would end the copy is refused, and so is a server without it."""
        for change in (lambda: end(connection, WEBSITE, "import"), lambda: end_all(connection, "without cluster")):
            with pytest.raises(UnloadedDays), transaction(connection):
                change()
        with pytest.raises(UnloadedDays):
            join.begin(connection, self.settings, WEBSITE)
        with pytest.raises(UnloadedDays):
            preview_now(connection, WEBSITE, WHOLE, ())
        with pytest.raises(BadFile, match="cluster leave"):
            import_lines(self.db, WEBSITE, [{"type": "pageview", "timestamp": WHOLE[0], "pathname": "/"}])
        with pytest.raises(undo.CannotUndo, match="cluster leave"), transaction(connection):
            undo.begin(connection, WEBSITE, 1, WHOLE[1])

    async def leave(self, left: Path, before: Any, exported: bytes) -> None:
        """Write a file with everything, after an attempt that has ended, and ask the same questions to it."""
        with pytest.raises(OSError, match="it ends"):
            await leave.leave(self.settings, left, ended)
        assert not [*left.parent.glob("left*")]
        assert "events of it from ClickHouse alone" in await self.run("cluster", "leave", str(left))
        with pytest.raises(BackupError, match="exists already"):
            await leave.leave(self.settings, left, lambda events: None)
        assert not sql(left, "select 1 from sqlite_schema where name like 'cluster%'")
        app = App(Settings(db=left), ManualClock(), SqliteEngine)
        await app.open()
        assert await answers(app.running.reports) == before
        assert await written(app.running.archive.rows(WEBSITE)) == exported
        await app.running.work.builder.work()
        assert await answers(app.running.reports) == before
        await app.close()
        assert re.search("[0-9]+ days .* right, 0 are wrong\n$", await self.run("verify", db=left))
        assert "FAULT" not in await self.run("doctor", db=left)

    async def is_without_clickhouse(self, before: Any) -> None:
        """Totals answer key figures and series; nothing says that the events have expired."""
        self.clickhouse.kill()
        own, known = self.app.running.reports, dict(before[: len(before) // 2])
        for name, ask in _questions():
            if name in ("stats", "timeseries", "heatmap pages"):
                assert _plain(await ask(own, SCOPES[0])) == known[name]
            for scope in SCOPES[name in ("stats", "timeseries") :]:
                if name != "heatmap pages":
                    with pytest.raises(ApiError) as refused:
                        await ask(own, scope)
                    assert (refused.value.kind.code, refused.value.headers["Retry-After"]) == (
                        "storage_unavailable",
                        "10",
                    )
        self.clickhouse.start()

    async def expire(self, connection: sqlite3.Connection) -> None:
        """Real retention deletes in ClickHouse too."""
        keep_days = KEEP + 3
        with transaction(connection):
            retention.set_keep_days(connection, WEBSITE, keep_days)
        while copy_of(connection, WEBSITE).from_day < TODAY - keep_days:
            await asyncio.sleep(0.1)
        while self.clickhouse.rows(f"select count() from settled where day < {TODAY - keep_days}") != [[0]]:
            await asyncio.sleep(0.1)
        assert copy_of(connection, WEBSITE).unloaded == range(TODAY - keep_days, TODAY - KEEP)
        later = Scope(WEBSITE, (TODAY - keep_days) * DAY_MS, WHOLE[1], FILTERS)
        by_clickhouse = self.app.running.reports.by_clickhouse
        assert (await self.app.running.reports.stats([later], Requester()))[0].pageviews > 50
        assert self.app.running.reports.by_clickhouse == by_clickhouse + 1
        with pytest.raises(BeyondRetention) as beyond:
            await self.app.running.reports.event_data(SCOPES[0], "buy", None, 5, Requester())
        assert beyond.value.from_ms == later.from_ms


def test_days_are_unloaded_and_read_back(
    tmp_path: Path, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(Lean(built_database(tmp_path / "aged"), clickhouse, monkeypatch).work(tmp_path / "left.db"))
