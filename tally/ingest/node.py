"""What is open while the server runs, whatever its engine is: the database, the registry, counts of rejected events.

Opening refuses a file that cannot be used, or that a short check finds damaged, before the server listens. The check
ends before the file is opened for writing: a file that is refused stays as it is.

Each periodic task is an asyncio task of its own, so that one that waits for the writer does not delay the others:
checking the file, the tasks of every second, truncating the log, recovery and the clock's record. What an engine does
in the background is its own (tally/engine/engine.py).
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from tally.accounts import audit
from tally.clock import Clock
from tally.engine.engine import Engine
from tally.errors import ApiError, log, where_it_failed
from tally.ingest.rejected_events import RejectedEvents
from tally.settings import Settings
from tally.storage.clock_watch import ClockWatch
from tally.storage.database import BeforeMigration
from tally.storage.node_database import NodeDatabase, opened_database
from tally.storage.registry import Registry

TICK_S = 1.0
# While an import fills it.
EMPTY_LOG_S = 0.2

Chore = tuple[str, Callable[[], Awaitable[object]], Callable[[Exception], None], float]
"""A periodic task: its name in the log, the function, what its failures are reported to, and the pause after it."""


class Node:
    """The open parts of a running server, which its engine is made with.

    `audit_line`: the number of the newest line of the audit log before the start.
    """

    engine: Engine
    audit_line: int

    def __init__(self, settings: Settings, clock: Clock, database: NodeDatabase) -> None:
        self.settings, self.clock, self.database = settings, clock, database
        limits = {"free": settings.free_events, "pro": settings.pro_events}
        self.registry = Registry(database, clock, limits.get)
        self.rejected_events = RejectedEvents(clock)
        self.clock_watch = ClockWatch(clock, database.writer)
        # Functions to call every second, with the wall time in milliseconds.
        self.each_second: list[Callable[[int], None]] = [self.clock_watch.check]
        self._tasks: list[asyncio.Task[None]] = []

    async def tick(self) -> None:
        """Run all tasks of a second, one after another."""
        await self.chores()
        await self.database.empty_log()

    async def chores(self) -> None:
        """Run the tasks of every second except emptying the log. Each is bounded in time."""
        await self.registry.refresh()
        now_ms = self.clock.wall_ms()
        for chore in self.each_second:
            chore(now_ms)
        await self.engine.each_second(now_ms)
        if self.database.health.takes_events:
            await self._write_rejected_events()
            await self.registry.write_key_uses()

    async def _write_rejected_events(self) -> None:
        """Write the counts of rejected events; while the file cannot be written, they stay in memory."""
        if self.database.health.is_writable:
            with self.database.reporting("counting rejected events"):
                await self.rejected_events.write(self.database.writer)

    def begin(self) -> None:
        """Start the periodic tasks."""
        database, watch = self.database, self.clock_watch
        chores: Sequence[Chore] = (
            ("checking the file", database.check_file, _ignored, TICK_S),
            ("tasks of every second", self.chores, database.health.failed, TICK_S),
            ("emptying the log", database.empty_log, database.health.failed, EMPTY_LOG_S),
            ("recovery", database.recovery.heal, _ignored, TICK_S),
            ("recording the clock", watch.note_if_due, _ignored, TICK_S),
        )
        for chore in chores:
            self.repeat(*chore)

    def repeat(
        self, what: str, step: Callable[[], Awaitable[object]], failed: Callable[[Exception], None], pause_s: float
    ) -> None:
        """Start a periodic task, which ends with the node."""
        self._tasks.append(asyncio.create_task(_forever(what, step, failed, pause_s)))

    async def stop(self) -> None:
        """End the periodic tasks; refuse reports and changes from now on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.database.stop()

    async def close(self) -> None:
        """Write what waits in memory."""
        is_writable = self.database.check_writable()
        with contextlib.suppress(ApiError, sqlite3.Error):
            if is_writable:
                await self.registry.write_key_uses(is_last=True)
            await self._write_rejected_events()
        await self.database.close()


EngineFactory = Callable[[Node], Engine]
"""Makes the engine of a server, whose database is open; the engine is opened afterwards."""


@contextlib.asynccontextmanager
async def opened(
    settings: Settings,
    clock: Clock,
    make_engine: EngineFactory,
    before_migration: BeforeMigration,
    check: Callable[[], None],
) -> AsyncIterator[Node]:
    """Yield the open parts of a server, with its engine, on the database of the settings.

    `check` raises BadDatabase for a file that cannot be used. Raises that, and what `before_migration` raises.
    """
    check()
    space = settings.min_free_disk * 1_000_000
    async with opened_database(settings.db, clock, settings.query_seconds, space, before_migration) as database:
        node = Node(settings, clock, database)
        with database.explaining():
            await node.clock_watch.begin()
            await node.registry.open()
            node.audit_line = await database.read(audit.newest)
        node.engine = make_engine(node)
        try:
            await node.engine.open()
            node.begin()
            yield node
        finally:
            await node.stop()
            await node.engine.close()
            if database.check_writable():
                await node.clock_watch.note()
            await node.close()


async def _forever(
    what: str, step: Callable[[], Awaitable[object]], failed: Callable[[Exception], None], pause_s: float
) -> None:
    """Run a periodic task, also after it has failed."""
    while True:
        await asyncio.sleep(pause_s)
        try:
            await step()
        except ApiError:
            pass  # logged where it was raised
        except Exception as failure:
            failed(failure)
            log.error("%s failed: %s", what, where_it_failed(failure))


def _ignored(failure: Exception) -> None:
    """For failures that are no fault of the file, or that the task has reported itself."""
