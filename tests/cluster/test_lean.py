"""A file that keeps only recent days, whose other days are in ClickHouse alone."""

import asyncio
import io
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from tally.cluster import archive, join, joiner, leave, load, settler, setup
from tally.cluster.compare import _plain, _questions
from tally.cluster.engine import FollowEngine, KeepEngine
from tally.cluster.servers import Servers
from tally.cluster.shipper import CannotFollow
from tally.cluster.unloader import Differs, Unloader
from tally.engine.values import BeyondRetention, Requester, Scope
from tally.errors import ApiError
from tally.events.filters import Filter
from tally.events.path_rules import PathRule
from tally.maintenance import retention
from tally.maintenance.backup import BackupError
from tally.maintenance.verify import LOST_UNLOADED
from tally.reports.deletion_preview import preview_now
from tally.settings import Settings
from tally.sqlite.archive import FileArchive
from tally.sqlite.engine import SqliteEngine
from tally.storage.cluster_tables import Unloaded, UnloadedDays, change, copy_of, end_all
from tally.storage.database import BadDatabase, Connection, open_database, snapshot, transaction
from tally.timestamps import iso
from tally.transfer import event_deletion, undo
from tally.transfer.exporter import json_lines, write_export
from tally.transfer.files import BadFile
from tests.cluster.engine import needs_clickhouse, new_key_file
from tests.cluster.test_follow import ClickHouse, clickhouse
from tests.support.aged_database import DAY_MS, TODAY, built_database, import_lines, old_rows, past_events, sql
from tests.support.app import ROOT, App, ManualClock, wait_until
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
    return [(name, _plain(await ask(reports, scope))) for scope in SCOPES for name, ask in _questions(scope)]


def without_last_id(answers: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return answers without the id up to which a list of events goes."""
    return [(name, answer[0] if name == "events" else answer) for name, answer in answers]


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


def ended(*_: Any, **__: Any) -> Any:
    raise OSError("it ends")


def changed_in_all_ways(db: Path, connection: Connection) -> None:
    """Import events and sums, partly known ones, undo an import, delete events and rewrite paths of unloaded days."""
    new = [
        {"type": kind, "timestamp": (FIRST + day) * DAY_MS + 7_000, "pathname": "/new", "visitor": f"{day}", "id": day}
        for day in (1, 3, 6)
        for kind in ("pageview", "pageview")
    ]
    sums = [{"type": "imported_sum", "day": f"{iso((FIRST - 3) * DAY_MS)[:10]}", "field": "total", "visitors": 4}]
    assert import_lines(db, WEBSITE, new) == (3, 3, 0)
    assert import_lines(db, WEBSITE, [*new, *sums]) == (0, 6, 0)
    # Of those lines that were imported before, which have an id in every second case, the ids are known.
    again = past_events(back=range(15, 12, -1))
    assert import_lines(db, WEBSITE, again)[1] >= len(again) // 2
    with transaction(connection):
        undo.begin(connection, WEBSITE, 2, WHOLE[1])
    while changed(connection, undo.step, WEBSITE, 2):
        pass
    for filters, rule in (((Filter("pathname", "=", ("/3",)),), None), ((), PathRule("/1", "/one"))):
        with snapshot(connection):
            found = preview_now(connection, WEBSITE, WHOLE, filters, rule)
        assert found.events > 5
        number = changed(connection, event_deletion.begin, WEBSITE, found.plan, found.events, WHOLE[1])
        while changed(connection, event_deletion.step, WEBSITE, number, WHOLE[1]):
            pass


def changed(connection: Connection, step: Any, *what: Any) -> Any:
    with transaction(connection):
        return step(connection, *what)


class Lean:
    """The server of a file whose older days are unloaded, step by step."""

    def __init__(self, db: Path, clickhouse: ClickHouse, patch: pytest.MonkeyPatch) -> None:
        key = new_key_file(db.parent)
        words: Any = {"clickhouse": (clickhouse.url,), "cluster_mode": "keep", "cluster_key": key}
        self.db, self.clickhouse, self.patch, self.settings = db, clickhouse, patch, Settings(db=db, **words)
        self.servers = Servers(self.settings.clickhouse, self.settings.cluster_name)
        self.app = App(self.settings, ManualClock(), lambda node: KeepEngine(node))
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
        return int(sql(self.db, "select own_day from cluster_copy where state = 'joined'")[0][0])

    async def work(self, left: Path) -> None:
        with closing(open_database(self.db, create=False)) as connection:
            await setup.init(connection, self.settings, again=False)
            await join.join(connection, self.settings, self.servers, WEBSITE, lambda sent: None)
            # All websites of the server have a copy.
            connection.execute("delete from website where number = 1")
            await self.app.open()
            try:
                await self.steps(connection, left)
            finally:
                await self.app.close()
                await self.servers.close()
        for engine in (SqliteEngine, FollowEngine):
            app = App(self.settings, ManualClock(), engine)
            with pytest.raises(BadDatabase, match="--cluster-mode keep"):
                await app.open()
            await app.client.session.close()

    async def steps(self, connection: Connection, left: Path) -> None:
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
        # Two of them are sums of totals.
        assert own.reports.by_clickhouse == by_clickhouse + len(before) - 2
        self.refuses(connection)
        await self.leave(left, before, exported)
        await self.is_without_clickhouse(before)
        await self.load(connection, before, exported)
        await self.change(connection, left)
        await self.expire(connection)

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
        with pytest.raises(Differs):
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
        async with self.with_another_measurement(FIRST + 5):
            wrong = [one.first_day async for one in own.verify(WEBSITE) if one.fault == LOST_UNLOADED]
        assert wrong == [FIRST + 5]

    @asynccontextmanager
    async def with_another_measurement(self, day: int) -> AsyncIterator[None]:
        """Have ClickHouse have another value of a day within the context."""
        place = f"where day = {day} and type = 4"
        for sign in ("+ 1", "- 1"):
            await self.servers.client.execute(
                f"alter table measure update lcp = lcp {sign} {place} settings mutations_sync = 2"
            )
            if sign == "+ 1":
                yield

    def refuses(self, connection: sqlite3.Connection) -> None:
        """What would end the copy is refused, and so is a server without it."""
        for refused in (lambda: change(connection, WEBSITE, "import"), lambda: end_all(connection, "without cluster")):
            with pytest.raises(UnloadedDays), transaction(connection):
                refused()
        with pytest.raises(UnloadedDays):
            join.begin(connection, self.settings, WEBSITE)
        with pytest.raises(UnloadedDays):
            preview_now(connection, WEBSITE, WHOLE, ())
        with pytest.raises(BadFile, match="cluster load"):
            import_lines(self.db, WEBSITE, [{"type": "pageview", "timestamp": WHOLE[0], "pathname": "/"}])
        with pytest.raises(undo.CannotUndo, match="cluster load"), transaction(connection):
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
        for scope in SCOPES:
            for name, ask in _questions(scope):
                if name == "heatmap pages" or (scope is SCOPES[0] and name in ("stats", "timeseries")):
                    assert scope is not SCOPES[0] or _plain(await ask(own, scope)) == known[name]
                    continue
                with pytest.raises(ApiError) as refused:
                    await ask(own, scope)
                code, retry_s = refused.value.kind.code, refused.value.headers["Retry-After"]
                assert (code, retry_s) == ("storage_unavailable", "10")
        self.clickhouse.start()

    async def load(self, connection: Connection, before: Any, exported: bytes) -> None:
        """The days are put back while the server runs, after an attempt that has ended, and stay there."""
        with self.patch.context() as patch:
            patch.setattr(archive, "_ROWS", 7)
            with pytest.raises(OSError, match="it ends"):
                await load.load(connection, self.servers, WEBSITE, ended)
        assert await answers(self.app.running.reports) == before
        async with self.with_another_measurement(TODAY - KEEP - 1):
            with pytest.raises(CannotFollow, match="than it had"):
                await load.load(connection, self.servers, WEBSITE, lambda events: None)
        assert re.search("[1-9][0-9]* events put back", await self.run("cluster", "load", "2.example.com"))
        assert not copy_of(connection, WEBSITE).unloaded
        await self.app.running.work.builder.work()
        assert not await self.unloader().work()
        assert await answers(self.app.running.sqlite_reports) == before
        own = FileArchive(self.db, never, lambda website: ())
        assert await written(own.rows(WEBSITE)) == exported
        assert "0 are wrong" in await self.run("verify")

    async def change(self, connection: Connection, left: Path) -> None:
        """The same changes of this file and of one without a cluster: reports are SQLite's until there is another copy,
        which ClickHouse answers from equally; and the days leave the file again."""
        own, twin = self.app.running, App(Settings(db=left), ManualClock(), SqliteEngine)
        (next_id,) = connection.execute("select value from meta where name = 'next_id'").fetchone()
        sql(left, "update meta set value = ? where name = 'next_id'", next_id)
        for db in (left, self.db):
            with closing(open_database(db, create=False)) as file:
                changed_in_all_ways(db, file)
        assert copy_of(connection, WEBSITE).changes > 3
        await twin.open()
        for app in (twin, self.app):
            await app.running.work.builder.work()
        after, exported = await answers(twin.running.reports), await written(twin.running.archive.rows(WEBSITE))
        by_clickhouse = own.reports.by_clickhouse
        assert await answers(own.reports) == after
        assert own.reports.by_clickhouse == by_clickhouse
        await twin.close()
        # No day leaves that was compared before the change.
        connection.execute("update cluster_copy set held_ms = 0")
        day, version = retention.next_day(connection, WEBSITE, TODAY - KEEP)
        with transaction(connection):
            number = copy_of(connection, WEBSITE).copy
            retention.unload(connection, WEBSITE, version, Unloaded(number, day, day + 1, 0, b""))
        assert not copy_of(connection, WEBSITE).unloaded
        # What is collected meanwhile is confirmed as well.
        ((id,),) = sql(self.db, "select id from website where number = ?", WEBSITE)
        sent = await self.app.collect({"website_id": id, "type": "pageview", "url": "https://2.example.com/meanwhile"})
        assert sent.status == 202
        assert self.clickhouse.rows("select count() from event where pathname = '/meanwhile'") == [[1]]
        # A copy that is made meanwhile lacks what changes before it is complete.
        copy, reader = join.begin(connection, self.settings, WEBSITE)
        reader.close()
        join._check(connection, WEBSITE, copy)
        with transaction(connection):
            change(connection, WEBSITE, "import")
        with pytest.raises(join.Ended):
            join._check(connection, WEBSITE, copy)
        # A day later.
        connection.execute("update cluster_copy set held_ms = 0")
        self.patch.setattr(joiner, "QUIET_S", 0)
        # Steps that are left need all events.
        connection.execute("update deletion set state = 'running' where number = 1")
        assert not [await own.joiner.work(), await own.joiner.work()][1]
        connection.execute("update deletion set state = 'done' where number = 1")
        assert not await own.joiner.work()
        assert await own.joiner.work()
        assert not await own.joiner.work()
        await worked(own.settler)
        await worked(self.unloader())
        assert self.first_day() == TODAY - KEEP
        lines = (await self.export()).splitlines(keepends=True)
        assert b"".join(lines[:-1]) == exported
        assert b"/meanwhile" in lines[-1]
        assert without_last_id(await answers(own.reports)) == without_last_id(after)
        assert own.reports.by_clickhouse == by_clickhouse + len(after) - 2
        await self.verify()

    async def expire(self, connection: sqlite3.Connection) -> None:
        """Real retention deletes in ClickHouse too."""
        keep_days = KEEP + 3
        with transaction(connection):
            retention.set_keep_days(connection, WEBSITE, keep_days)
        await wait_until(lambda: copy_of(connection, WEBSITE).from_day == TODAY - keep_days)
        expired = f"select count() from settled where day < {TODAY - keep_days}"
        await wait_until(lambda: self.clickhouse.rows(expired) == [[0]])
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
