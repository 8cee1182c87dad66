"""The open database of a running server: one writer, read-only readers, the file's health and its recovery.

One connection writes, on one thread; all commits and checkpoints of this process are its own. Another process, such as
the command line, may write too: what is kept in memory of the file is read again then (tally/storage/registry.py).

The health of the file is observed by tally/storage/health.py and restored by tally/storage/recovery.py. Anything in
this process that keeps a connection open for longer than one transaction has to be registered there.

SQLite can restart its write-ahead log only at a moment without readers. Where reports leave no such moment and the log
has grown, the readers are held for one.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from tally.clock import Clock
from tally.engine.values import SERVER, Claim
from tally.errors import ApiError, is_lock
from tally.storage.connections import Readers, Thread, on_thread, open_readers
from tally.storage.database import (
    SERVER_BUSY_S,
    BeforeMigration,
    connect_writer,
    damaged,
    explained,
    open_database,
    transaction,
)
from tally.storage.health import Health, refusal
from tally.storage.recovery import Recovery
from tally.storage.wal import truncate_wal

T = TypeVar("T")
SQLITE_VERSION = sqlite3.sqlite_version
EMPTY_LOG_NS = 10_000_000_000
# The process must end within 10 seconds of SIGTERM (docs/cli.md).
CLOSE_S = 2.0
# Background work pauses where commits take more than this share of the time that other steps leave them. At full speed
# the share is 0.4 and more, at 1,000 single events a second 0.2. It is measured over at least BUSY_OVER_NS: a shorter
# span would show a few commits as many.
BUSY_SHARE = 0.3
BUSY_OVER_NS = 100_000_000


class WorkTime(NamedTuple):
    """How long the writer's thread has worked up to `at_ns`: in total, and for commits alone."""

    at_ns: int
    all_ns: int
    commits_ns: int


class NodeDatabase:
    """The open database of a running server. Used by the event loop alone."""

    def __init__(self, health: Health, writer: Thread, readers: Readers, clock: Clock) -> None:
        self.path, self.health, self.writer, self.readers = health.path, health, writer, readers
        self.recovery = Recovery(health.path, health, writer, readers)
        # Deleted data is in the log (tally/maintenance/deletion_worker.py).
        self.wants_empty_log = False
        self._empty_again_ns = 0
        self._clock = clock
        self.is_closing = False
        # The writer's work time at the last check of `is_busy`, and its result.
        self._work = WorkTime(0, 0, 0)
        self._is_busy = False

    def want_empty_log(self) -> None:
        """Have SQLite's log emptied with the next task of `empty_log`."""
        self.wants_empty_log = True

    def is_busy(self) -> bool:
        """Return whether commits kept the writer busy since the last call; within BUSY_OVER_NS, the last result."""
        now, before = WorkTime(time.monotonic_ns(), self.writer.worked_ns, self.writer.started_ns), self._work
        if now.at_ns - before.at_ns >= BUSY_OVER_NS:
            commits_ns = now.commits_ns - before.commits_ns
            others_ns = now.all_ns - before.all_ns - commits_ns
            # A step counts at its end and may have begun long before.
            self._is_busy = commits_ns > BUSY_SHARE * max(0, now.at_ns - before.at_ns - others_ns)
            self._work = now
        return self._is_busy

    @property
    def log_bytes(self) -> int:
        """The size of SQLite's write-ahead log."""
        return _size(self.health.files.log)

    @property
    def file_bytes(self) -> int:
        """The size of the database file."""
        return _size(self.path)

    async def check_file(self) -> None:
        """`check_health`, as a task of every second, with the reserve of the disk."""
        self.check_health()
        if await asyncio.to_thread(self.health.keep_reserve):
            # Now it may succeed.
            self.wants_empty_log, self._empty_again_ns = True, 0

    def check_writable(self) -> bool:
        """Check the file; return whether everything but events may be written."""
        self.check_health()
        return self.health.is_writable

    def check_health(self) -> str:
        """Check the file; return its state, a word of tally/storage/health.py."""
        self.health.check(self.writer.busy_since_ns)
        return self.health.state

    async def read(
        self,
        query: Callable[[sqlite3.Connection], T],
        is_gone: Callable[[], bool] = lambda: False,
        claim: Claim = SERVER,
    ) -> T:
        """Run a function on a read-only connection, in one snapshot, until `is_gone`. Raises ApiError 503."""
        return await self.readers.run(query, is_gone, claim)

    async def write(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function in one transaction of the writer and return its result. Raises sqlite3.Error."""

        def run(connection: sqlite3.Connection) -> T:
            with transaction(connection):
                return step(connection)

        return await self.writer.run(run)

    async def empty_log(self) -> None:
        """Empty SQLite's log where it has grown, or where deleted data is in it. Waits for the queries under way."""
        now_ns = self._clock.monotonic_ns()
        is_wanted = self.log_bytes > self.health.space.emptied_from or self.wants_empty_log
        if is_wanted and self.health.takes_events and now_ns >= self._empty_again_ns:
            # If it fails, for example because another process reads, the readers are not held again at once.
            self._empty_again_ns = now_ns + EMPTY_LOG_NS
            async with self.readers.held():
                if await self.writer.run(truncate_wal):
                    self.wants_empty_log, self._empty_again_ns = False, now_ns

    @contextlib.contextmanager
    def reporting(self, doing: str) -> Iterator[None]:
        """Record a failure of the file within the block and raise ApiError 503 in its place."""
        try:
            yield
        except sqlite3.Error as failure:
            self.health.failed(failure)
            raise refusal(failure, doing) from None

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise BadDatabase where what the block reads at the start cannot be used."""
        try:
            yield
        except (ApiError, sqlite3.Error, TypeError, ValueError) as failure:
            is_disk_or_lock = isinstance(failure, sqlite3.OperationalError)
            raise explained(failure if is_disk_or_lock else damaged(str(failure)), self.path) from None

    def stop(self) -> None:
        """Refuse reports and changes from now on."""
        self.is_closing = True
        self.readers.stop()

    async def close(self) -> None:
        """Leave no log behind where the file was deleted; it would be found beside another one in its place."""
        if self.check_health() == "missing":
            with contextlib.suppress(ApiError, sqlite3.Error, TimeoutError):
                # Readers end soon.
                async with self.readers.held(), asyncio.timeout(CLOSE_S):
                    while not await self.writer.run(truncate_wal):
                        await asyncio.sleep(0.02)
        self.health.close()


@contextlib.asynccontextmanager
async def opened_database(
    path: Path, clock: Clock, query_s: float, min_free_bytes: int, before_migration: BeforeMigration
) -> AsyncIterator[NodeDatabase]:
    """Yield the database at `path`, which is created where there is none, or migrated; close its connections.

    Raises BadDatabase, and what `before_migration` raises.
    """
    async with contextlib.AsyncExitStack() as closing:
        writer = await on_thread(_open(path, before_migration), lambda: connect_writer(path, SERVER_BUSY_S))
        closing.push_async_callback(writer.close)
        health = Health(path, min_free_bytes)
        readers = await open_readers(path, query_s, health.failed_to_read, closing)
        yield NodeDatabase(health, writer, readers, clock)


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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
