"""Opening and closing of the store, its periodic tasks, and its background work.

Opening refuses a file that cannot be used, or that a short check finds damaged, before the server listens. Each
periodic task is an asyncio task of its own, so that one that waits for the writer does not delay the others: checking
the file, the tasks of the store, truncating the log, recovery, the clock's record, and the background work on rollups
and deleted websites (tally/maintenance/scheduler.py). The background work can be stopped and started again, as recovery
does (tally/storage/recovery.py).
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from tally.accounts.api_keys import key_salt
from tally.clock import Clock
from tally.errors import ApiError, log, where_it_failed
from tally.ingest.store import TICK_S, Store
from tally.ingest.writer import EventWriter
from tally.maintenance.deletion_worker import DeletionWorker
from tally.maintenance.rollup_builder import PAUSE_S, RollupBuilder
from tally.maintenance.scheduler import Scheduler
from tally.storage.connections import on_thread, open_readers
from tally.storage.database import SERVER_BUSY_S, BadDatabase, connect_reader, connect_writer, open_database
from tally.storage.health import Health, look_for_damage
from tally.storage.recovery import Recovery

# Checks about 30 MB of a file; the rest of a start takes half a second.
START_CHECK_S = 0.2
# Counting a day reads its rows once, so a large cache would hold nothing that is read again.
BUILDER_CACHE_KIB = 1_000
FAILED_PAUSE_S = 10.0

Chore = tuple[str, Callable[[], Awaitable[object]], Callable[[Exception], None]]
"""A task of every second: its name in the log, the function, and what its failures are reported to."""


class _Work:
    """The background work, which can be stopped and started again."""

    def __init__(self, store: Store, make: Callable[[], None]) -> None:
        self._store, self._make = store, make
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start it unless it runs."""
        if self._task is None:
            self._make()
            self._task = asyncio.create_task(_work_forever(self._store))

    async def stop(self) -> None:
        """Stop it at once: it can be cancelled at any point."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._store.deletion_worker.close()
            self._task = None


@contextlib.asynccontextmanager
async def opened(
    path: Path, event_writer: EventWriter, clock: Clock, query_s: float, keep_days: int = 0, min_free_bytes: int = 0
) -> AsyncIterator[Store]:
    """Yield the store of the database at `path`, which is created where there is none."""
    async with contextlib.AsyncExitStack() as closing:
        writer = await on_thread(
            open_database(path, create=True, busy_s=SERVER_BUSY_S), lambda: connect_writer(path, SERVER_BUSY_S)
        )
        closing.push_async_callback(writer.close)
        health = Health(path, min_free_bytes)
        readers = await open_readers(path, query_s, health.failed_to_read, closing)
        store = Store(health, writer, readers, event_writer, clock)
        try:
            if look_for_damage(path, START_CHECK_S).is_damaged:
                raise BadDatabase("found by the check")
            store.key_salt = await writer.run(key_salt)
            await store.clock_watch.begin()
            store.last_id = await writer.run(event_writer.start)
            await store.refresh()
        except (ApiError, BadDatabase, sqlite3.Error, TypeError, ValueError):
            raise BadDatabase(
                f"{path} is damaged: put a backup in its place, or name another file with --db."
            ) from None
        looker = await on_thread(
            connect_reader(path, BUILDER_CACHE_KIB), lambda: connect_reader(path, BUILDER_CACHE_KIB)
        )
        closing.push_async_callback(looker.close)

        def make() -> None:
            store.builder = RollupBuilder(writer, looker, clock, keep_days, store.is_busy, changed=store.note_change)
            store.deletion_worker = DeletionWorker(store.builder.write, looker, event_writer.labels, clock)

        work = _Work(store, make)
        store.recovery = Recovery(
            path, health, (writer, looker, readers), work, store.forget_what_was_read, lambda: store.counters.took.count
        )
        work.start()
        chores = [asyncio.create_task(_forever(*chore)) for chore in _chores(store)]
        try:
            yield store
        finally:
            for chore in chores:
                chore.cancel()
            store.stop()
            await work.stop()
            await asyncio.gather(*chores, return_exceptions=True)
            if store.look_writable():
                await store.clock_watch.note()
            await store.close()


def _chores(store: Store) -> Sequence[Chore]:
    return (
        ("looking at the file", store.look_at_the_file, _ignored),
        ("chores", store.chores, store.health.failed),
        ("emptying the log", store.empty_log, store.health.failed),
        ("mending", store.recovery.heal, _ignored),
        ("the clock's note", store.clock_watch.note_if_due, _ignored),
    )


async def _forever(what: str, step: Callable[[], Awaitable[object]], failed: Callable[[Exception], None]) -> None:
    """Run a task every second, also after it has failed."""
    while True:
        await asyncio.sleep(TICK_S)
        try:
            await step()
        except ApiError:
            pass  # logged where it was raised
        except Exception as failure:
            failed(failure)
            log.error("%s failed: %s", what, where_it_failed(failure))


def _ignored(failure: Exception) -> None:
    """For failures that are no fault of the file, or that the task has reported itself."""


async def _work_forever(store: Store) -> None:
    scheduler = Scheduler((store.builder, store.deletion_worker), store.health.failed)
    has_more = False
    while True:
        await asyncio.sleep(0 if has_more else PAUSE_S)
        try:
            has_more = await scheduler.round()
        except Exception as failure:
            store.health.failed(failure)
            log.error("work in the background failed: %s", where_it_failed(failure))
            await asyncio.sleep(FAILED_PAUSE_S)
