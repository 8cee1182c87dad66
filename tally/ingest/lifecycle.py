"""Opening and closing of the store, and its periodic tasks.

Opening refuses a file that cannot be used, or that a short check finds damaged, before the server listens. The check
ends before the file is opened for writing: a file that is refused stays as it is.

Each periodic task is an asyncio task of its own, so that one that waits for the writer does not delay the others:
checking the file, the tasks of the store, truncating the log, recovery and the clock's record. The background work on
rollups and deleted websites (tally/maintenance/background_work.py) is made by the caller; recovery stops and starts it.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from tally.accounts.api_keys import key_salt
from tally.clock import Clock
from tally.errors import ApiError, is_lock, log, where_it_failed
from tally.ingest.store import TICK_S, Store
from tally.ingest.writer import EventWriter
from tally.storage.connections import Thread, on_thread, open_readers
from tally.storage.database import (
    SERVER_BUSY_S,
    BeforeMigration,
    connect_reader,
    connect_writer,
    damaged,
    explained,
    open_database,
    transaction,
)
from tally.storage.health import Health
from tally.storage.recovery import Recovery, Work

# Counting a day reads its rows once, so a large cache would hold nothing that is read again.
BUILDER_CACHE_KIB = 1_000

# While an import fills it.
EMPTY_LOG_S = 0.2

Chore = tuple[str, Callable[[], Awaitable[object]], Callable[[Exception], None], float]
"""A periodic task: its name in the log, the function, what its failures are reported to, and the pause after it."""


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
    check: Callable[[], None],
) -> AsyncIterator[Store]:
    """Yield the store of the database at `path`, which is created where there is none, or migrated.

    `check` raises BadDatabase for a file that cannot be used. Raises that, and what `before_migration` raises.
    """
    async with contextlib.AsyncExitStack() as closing:
        check()
        writer = await on_thread(_open(path, before_migration), lambda: connect_writer(path, SERVER_BUSY_S))
        closing.push_async_callback(writer.close)
        health = Health(path, min_free_bytes)
        readers = await open_readers(path, query_s, health.failed_to_read, closing)
        store = Store(health, writer, readers, event_writer, clock)
        await _load(store, writer, event_writer)
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


def _open(path: Path, before_migration: BeforeMigration) -> sqlite3.Connection:
    """Return a connection that can write. Raises BadDatabase, and what `before_migration` raises."""
    connection = open_database(path, create=True, before_migration=before_migration, busy_s=SERVER_BUSY_S)
    try:
        # Fails where the log or its index cannot be written.
        with transaction(connection):
            pass
    except sqlite3.Error as failure:
        # Another program that writes now may end soon.
        if not is_lock(failure):
            connection.close()
            raise explained(failure, path) from None
    return connection


async def _load(store: Store, writer: Thread, event_writer: EventWriter) -> None:
    """Read what the store keeps in memory. Raises BadDatabase."""
    try:
        store.key_salt = await writer.run(key_salt)
        await store.clock_watch.begin()
        store.last_id = await writer.run(event_writer.start)
        await store.refresh()
    except (ApiError, sqlite3.Error, TypeError, ValueError) as failure:
        is_disk_or_lock = isinstance(failure, sqlite3.OperationalError)
        raise explained(failure if is_disk_or_lock else damaged(str(failure)), store.path) from None


def _chores(store: Store) -> Sequence[Chore]:
    return (
        ("checking the file", store.check_file, _ignored, TICK_S),
        ("tasks of the store", store.chores, store.health.failed, TICK_S),
        ("emptying the log", store.empty_log, store.health.failed, EMPTY_LOG_S),
        ("recovery", store.recovery.heal, _ignored, TICK_S),
        ("recording the clock", store.clock_watch.note_if_due, _ignored, TICK_S),
    )


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
