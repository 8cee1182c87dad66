"""Opening and closing of the store, and its periodic tasks.

Opening refuses a file that cannot be used, or that a short check finds damaged, before the server listens. Each
periodic task is an asyncio task of its own, so that one that waits for the writer does not delay the others: checking
the file, the tasks of the store, truncating the log, recovery and the clock's record. The background work on rollups
and deleted websites (tally/maintenance/background_work.py) is made by the caller; recovery stops and starts it.
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
from tally.storage.connections import Thread, on_thread, open_readers
from tally.storage.database import (
    SERVER_BUSY_S,
    BadDatabase,
    BeforeMigration,
    connect_reader,
    connect_writer,
    open_database,
)
from tally.storage.health import CheckResult, Health
from tally.storage.recovery import Recovery, Work

# Counting a day reads its rows once, so a large cache would hold nothing that is read again.
BUILDER_CACHE_KIB = 1_000

Chore = tuple[str, Callable[[], Awaitable[object]], Callable[[Exception], None]]
"""A task of every second: its name in the log, the function, and what its failures are reported to."""


MakeWork = Callable[[Store, Thread, Thread], Work]
"""Makes the background work of a store, which uses the writer and a connection for reading."""


@contextlib.asynccontextmanager
async def opened(
    path: Path,
    event_writer: EventWriter,
    clock: Clock,
    query_s: float,
    min_free_bytes: int,
    make_work: MakeWork,
    before_migration: BeforeMigration,
    check: Callable[[], CheckResult],
) -> AsyncIterator[Store]:
    """Yield the store of the database at `path`, which is created where there is none, or migrated.

    `check` returns the result of a check for damage. Raises BadDatabase, and what `before_migration` raises.
    """
    async with contextlib.AsyncExitStack() as closing:
        writer = await on_thread(
            open_database(path, create=True, before_migration=before_migration, busy_s=SERVER_BUSY_S),
            lambda: connect_writer(path, SERVER_BUSY_S),
        )
        closing.push_async_callback(writer.close)
        health = Health(path, min_free_bytes)
        readers = await open_readers(path, query_s, health.failed_to_read, closing)
        store = Store(health, writer, readers, event_writer, clock)
        await _load(store, writer, event_writer, check)
        reader = await on_thread(
            connect_reader(path, BUILDER_CACHE_KIB), lambda: connect_reader(path, BUILDER_CACHE_KIB)
        )
        closing.push_async_callback(reader.close)

        work = make_work(store, writer, reader)
        store.recovery = Recovery(
            path, health, (writer, reader, readers), work, store.reset_data_version, lambda: store.counters.took.count
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
            if store.check_writable():
                await store.clock_watch.note()
            await store.close()


async def _load(store: Store, writer: Thread, event_writer: EventWriter, check: Callable[[], CheckResult]) -> None:
    """Check the database and read what the store keeps in memory. Raises BadDatabase."""
    path = store.path
    try:
        if check().is_damaged:
            raise BadDatabase("found by the check")
        store.key_salt = await writer.run(key_salt)
        await store.clock_watch.begin()
        store.last_id = await writer.run(event_writer.start)
        await store.refresh()
    except (ApiError, BadDatabase, sqlite3.Error, TypeError, ValueError):
        raise BadDatabase(f"{path} is damaged: put a backup in its place, or name another file with --db.") from None


def _chores(store: Store) -> Sequence[Chore]:
    return (
        ("checking the file", store.check_file, _ignored),
        ("tasks of the store", store.chores, store.health.failed),
        ("emptying the log", store.empty_log, store.health.failed),
        ("recovery", store.recovery.heal, _ignored),
        ("recording the clock", store.clock_watch.note_if_due, _ignored),
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
