"""An engine whose events are stored in SQLite and in ClickHouse, and whose reports ClickHouse answers.

What each commit has stored is inserted before the next report. ClickHouse's engine runs behind front.py, with the
Python that TALLY_CHDB names, whose environment has chdb-core (CONTRIBUTING.md); without it these tests do not run.
"""

import asyncio
import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tally.clickhouse.client import Client
from tally.clickhouse.reports import ClickHouseReports, Snapshot
from tally.clickhouse.rows import Row, StoredRow, rows_of
from tally.clickhouse.schema import TABLES, create_table, delete_of
from tally.cluster.join import sum_rows
from tally.engine.ingest import WriteRequest
from tally.engine.reports import EventReports
from tally.engine.values import Scope
from tally.events.validation import HEATMAP
from tally.ingest.node import Node
from tally.sqlite.engine import SqliteEngine
from tally.sqlite.writer import WriteResult
from tally.storage.database import connect_reader

PYTHON = os.environ.get("TALLY_CHDB", "")
needs_clickhouse = pytest.mark.skipif(not PYTHON, reason="needs ClickHouse's engine: set TALLY_CHDB")
FRONT = Path(__file__).parent / "front.py"
_PLACES = (
    "select id, visitor, '' from event where id <= ?1 and id > ?1 - 10000"
    " union all select id, 0, '' from web_vitals where id <= ?1 and id > ?1 - 10000"
    " union all select experiment_event.id, visitor, text from experiment_event join label on label.id = variant"
    " where experiment_event.id <= ?1 and experiment_event.id > ?1 - 10000 order by 1 desc limit ?2"
)


@functools.cache
def front() -> str:
    """Start the front, once, and return its address."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    process = subprocess.Popen([PYTHON, str(FRONT), folder], stdout=subprocess.PIPE, text=True)

    def end() -> None:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    assert process.stdout is not None
    return f"http://127.0.0.1:{int(process.stdout.readline())}"


def new_key_file(folder: Path, name: str = "key.txt") -> Path:
    """Return a file with a private key of age, as age-keygen writes it."""
    import pyrage  # here: the test that needs it names the extra

    file = folder / name
    file.touch(0o600)
    file.write_text(f"# created: now\n{pyrage.x25519.Identity.generate()}\n")
    return file


@functools.cache
def database_of(path: Path) -> str:
    """Return the name of the database in ClickHouse of a database file."""
    return f"tally_{next(_numbers)}"


_numbers = iter(range(1_000_000))


class ClickHouseEngine(SqliteEngine):
    """SQLite decides and stores as without a cluster; reports are ClickHouse's."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._path = node.settings.db
        self.client = Client(front(), database_of(self._path))
        self._waiting: list[StoredRow] = []
        # With the number of each, which its tokens have: another engine on the same file sends others.
        self._batches: list[tuple[int, list[StoredRow]]] = []
        self._sums: dict[int, list[Row]] = {}
        self._sending = asyncio.Lock()
        self.sqlite_reports = self.reports
        self.reports = _Reports(self)  # type: ignore[assignment]

    async def open(self) -> None:
        await super().open()
        name = database_of(self._path)
        first = Client(front(), "default")
        await first.execute(f"create database if not exists {name}")
        await first.close()
        if not await self.client.rows("show tables", {}):
            for statement in (create_table(table, is_replicated=False) for table in TABLES):
                await self.client.execute(statement)

    async def close(self) -> None:
        await super().close()
        await self._send()
        await self.client.close()

    def offset_ms(self, website: int) -> int:
        websites = self._node.registry.cache.websites.values()
        return next((one.day_offset_ms for one in websites if one.number == website), 0)

    def has_sums(self, website: int) -> bool:
        websites = self._node.registry.cache.websites.values()
        return any(one.has_sums for one in websites if one.number == website)

    async def last_id(self) -> int:
        """Send what has been stored before the call, and return the id of the last event."""
        await self._send()
        return self.changes.last_id

    # --- shipping

    def _publish(self, requests: list[WriteRequest], written: WriteResult) -> None:
        super()._publish(requests, written)
        with_id = [one for one in written.kept if not (one.event.type == HEATMAP and one.event.points)]
        places: list[Any] = []
        if with_id:
            with closing(connect_reader(self._path)) as connection:
                places = connection.execute(_PLACES, (written.last_id, len(with_id))).fetchall()[::-1]
        found = iter(places)
        for one in written.kept:
            is_heat = one.event.type == HEATMAP and one.event.points
            self._waiting.append(StoredRow(one, *((0, 0, "") if is_heat else next(found))))

    async def _send(self) -> None:
        # A report waits for what another one sends, and what could not be sent is sent again.
        async with self._sending:
            if self._waiting:
                self._batches.append((next(_numbers), self._waiting))
                self._waiting = []
            while self._batches:
                number, batch = self._batches[0]
                for table, rows in rows_of(batch).items():
                    await self.client.insert(table, rows, f"{table}/{number}")
                del self._batches[0]
            for website in [one.number for one in self._node.registry.cache.websites.values() if one.has_sums]:
                await self._send_sums(website)

    async def _send_sums(self, website: int) -> None:
        """Replace the imported sums of a website where they have changed."""
        with closing(connect_reader(self._path)) as connection:
            rows = [*sum_rows(connection, website, website)]
        if rows != self._sums.get(website):
            await self.client.execute(delete_of("day_sum", website, None))
            await self.client.insert("day_sum", rows, f"day_sum/{next(_numbers)}")
            self._sums[website] = rows


class _Reports:
    """The reports of the engine: what needs events is ClickHouse's, as with tally/cluster/reports.py."""

    def __init__(self, engine: ClickHouseEngine) -> None:
        self._engine, self._sqlite = engine, engine.sqlite_reports

    def __getattr__(self, name: str) -> Any:
        return partial(self._answer, name) if hasattr(EventReports, name) else getattr(self._sqlite, name)

    async def _answer(self, name: str, about: Any, *more: Any, **named: Any) -> Any:
        engine = self._engine
        first = about[0] if isinstance(about, list) else about
        website = first.website if isinstance(first, Scope) else first
        snapshot = Snapshot(await engine.last_id(), engine.offset_ms(website), engine.has_sums(website))
        found = await getattr(ClickHouseReports(engine.client, snapshot), name)(about, *more, **named)
        if name == "heatmap":
            pathname, _, *widths = more
            found = found._replace(texts=(await self._sqlite.heatmap(about, pathname, range(0), *widths)).texts)
        return found


def clickhouse_engine(node: Node) -> ClickHouseEngine:
    """Return an engine whose reports ClickHouse answers."""
    return ClickHouseEngine(node)
