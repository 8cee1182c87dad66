"""The archive of the SQLite engine: the data in the database file, as parts, lines and verdicts.

`FileArchive` is what commands use, in a process of their own beside the server. What reads has a connection and a
thread of its own, and one snapshot until its end, during which SQLite cannot reset its log. What writes runs in short
transactions of the caller's `write`.
"""

import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tally.engine.archive import AnyLine, CrawlRow, Part, Row, SumRow, Taken, Verdict
from tally.engine.values import Goal
from tally.maintenance import deletion
from tally.maintenance.deletion_worker import Write
from tally.maintenance.rollup_builder import RollupBuilder
from tally.storage.connections import on_thread
from tally.storage.database import connect_reader

T = TypeVar("T")
GoalsOf = Callable[[int], Sequence[Goal]]
"""Returns the saved goals of a website."""


class FileArchive:
    """The archive of a database file. `write` runs a step in a transaction."""

    cleans_itself = True

    def __init__(self, path: Path, write: Write, goals_of: GoalsOf) -> None:
        self._path, self._write, self._goals_of = path, write, goals_of

    async def parts(self, website: int) -> list[Part]:
        """As `Archive`."""
        return [part async for part in self._read(lambda connection: iter(_parts(connection, website)))]

    async def rows(self, website: int, days: range | None = None) -> AsyncIterator[Sequence[SumRow | CrawlRow | Row]]:
        """As `Archive`."""
        from tally.transfer.exporter import exported  # here: a server that starts does not need it

        async for batch in self._read(lambda connection: exported(connection, website, days)):
            yield batch

    async def take(self, website: int, number: int, lines: Sequence[AnyLine]) -> Taken:
        """As `Archive`. The import has a row."""
        from tally.transfer.import_writer import take

        taken: Taken = await self._write(take, website, number, lines)
        return taken

    async def undo(self, website: int, number: int) -> bool:
        """As `Archive`. The row of the import says that it is to be undone."""
        from tally.transfer import undo

        has_more: bool = await self._write(undo.step, website, number)
        return has_more

    async def forget(self, website: int) -> bool:
        """As `Archive`."""
        has_more: bool = await self._write(deletion.delete_rows, website)
        return has_more

    async def verify(self, website: int) -> AsyncIterator[Verdict]:
        """As `Archive`."""
        from tally.maintenance.verify import verdicts

        goals = self._goals_of(website)
        async for verdict in self._read(lambda connection: verdicts(connection, website, goals)):
            yield verdict

    async def repair(self, website: int, wrong: Sequence[Verdict]) -> None:
        """As `Archive`. The running server computes it again."""
        from tally.maintenance.repair import invalidate

        for verdict in wrong:
            await self._write(invalidate, website, verdict)

    async def _read(self, query: Callable[[sqlite3.Connection], Iterator[T]]) -> AsyncGenerator[T, None]:
        """Yield what a query yields on a connection of its own."""
        thread = await on_thread(connect_reader(self._path))
        items: Iterator[T] = iter(())
        try:
            items = await thread.run(query)
            while (item := await thread.run(lambda _: next(items, None))) is not None:
                yield item
        finally:
            # A generator ends its snapshot on the thread of the connection.
            await thread.run(lambda _: getattr(items, "close", int)())
            await thread.close()


class SqliteArchive(FileArchive):
    """The archive of a running server, which can also have days expire. `builder` returns its rollup builder."""

    def __init__(self, path: Path, builder: Callable[[], RollupBuilder], goals_of: GoalsOf) -> None:
        super().__init__(path, lambda step, *what: builder().write(step, *what), goals_of)
        self._builder = builder

    async def expire(self, website: int, day: int) -> bool:
        """As `Archive`. A day expires once it is final."""
        return await self._builder().expire(website, day)


def _parts(connection: sqlite3.Connection, website: int) -> list[Part]:
    """Return the days that have events. The version of a day of traffic grows with each event once it is over; before,
    the newest id does. Measurements have no version: they are added, or deleted, or the columns of their day are."""
    measured = " union all ".join(
        f"select ts / 86400000, count(*) || ' ' || max(id) from {table} where website = ?1 and ts >= 0 group by 1"
        for table in ("web_vitals", "experiment_event")
    )
    rows = connection.execute(
        "/* archive.parts */ select block as day, version || ' ' || coalesce(("
        " select max(id) from event where website = ?1 and ts >= block * 86400000 and ts < (block + 1) * 86400000"
        " and state < 2), '') from rollup_state"
        " where website = ?1 and kind = 0 and level = 0 and block >= 0 and state < 3"
        f" union all {measured} union all"
        " select day, 'columns ' || checksum from packed_day where website = ?1 and source > 0",
        (website,),
    )
    versions: dict[int, list[str]] = {}
    for day, version in rows:
        versions.setdefault(day, []).append(version)
    return [Part(day, tuple(versions[day])) for day in sorted(versions)]
