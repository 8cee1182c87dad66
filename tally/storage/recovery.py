"""Recovery of a database that has a fault (tally/storage/health.py): one step per second until it is usable again.

- Failing: a small test write; the fault is over once it succeeds.
- Unsure: a test write, which also overwrites what the failed write may have left in the log. Then every connection is
  reopened, so that nothing is trusted that is only in memory, and the file is checked for a short time.
- Damaged: the whole file is checked from time to time. If no damage is found, the connections are reopened.
- Log missing: the open connections still have it. It is copied into the database at once, so that no event that was
  answered 202 is lost; then all connections are reopened with a new log.
- Database missing: the same copy, so that the moved file is complete and a file put in its place does not meet a
  foreign log. If the file is moved back, it is used again.

Background work stops meanwhile. Without a fault and without events, a small test write from time to time detects a disk
that has become full or read-only before an event does.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tally.storage.connections import Readers, Thread
from tally.storage.health import DAMAGED, TRIED, TRY_BYTES, Health, check_for_damage, try_to_write
from tally.storage.wal import truncate_wal

# A damaged file is not read continuously.
CHECK_AGAIN_S = 300.0
MAX_CHECK_S = 600.0
# No events are accepted during this check; it reads 50 to 200 MB.
SHORT_CHECK_S = 1.0
# A few pages per minute, and a fault is detected within one minute; within seconds on a nearly full disk.
IDLE_S = 60.0
TIGHT_S = 5.0
IDLE_BYTES = 1_000


class Work(Protocol):
    """The background work."""

    def start(self) -> None:
        """Start it unless it is running."""

    async def stop(self) -> None:
        """Stop it if it is running."""


class Recovery:
    """Takes the steps. `opened_anew` is called after the connections were reopened."""

    def __init__(self, path: Path, health: Health, writer: Thread, readers: Readers) -> None:
        self._path, self._health = path, health
        self._writer, self._readers = writer, readers
        self._background: list[tuple[Thread, Work]] = []
        self.opened_anew: Callable[[], None] = lambda: None
        self._is_running = self._is_shut = False
        self._commits_ns, self._idle_since_s = 0, time.monotonic()

    def register(self, reader: Thread, work: Work) -> None:
        """Stop and start background work as well, and reopen the connection with which it reads."""
        self._background.append((reader, work))

    async def heal(self) -> None:
        """Take the next step unless one is in progress; the result shows in health."""
        if self._is_running or self._health.is_stuck:
            return
        self._is_running = True
        try:
            await self._step()
        except sqlite3.Error as failure:
            self._health.failed(failure)
        finally:
            self._is_running = False

    async def _step(self) -> None:
        health = self._health
        if not health.takes_events:
            for _, work in self._background:
                await work.stop()
        if health.missing:
            await self._save()
        elif self._is_shut:
            await self._open_all()
        elif health.fault:
            await self._fix()
        else:
            for _, work in self._background:
                work.start()
            await self._test_when_idle()

    async def _fix(self) -> None:
        health = self._health
        if time.monotonic() < health.not_before_s:
            return
        fault = health.fault
        if fault == DAMAGED:
            result = await asyncio.to_thread(check_for_damage, self._path, MAX_CHECK_S)
            if result.is_damaged or not result.is_complete:
                health.not_before_s = time.monotonic() + CHECK_AGAIN_S
                return
        await self._writer.run(try_to_write)
        try:
            is_damaged = fault not in TRIED and await self._looks_damaged()
        except sqlite3.Error:
            health.postpone()
            raise
        if is_damaged:
            health.fault = DAMAGED
        elif health.fault == fault and not self._is_shut:
            health.cured()

    async def _looks_damaged(self) -> bool:
        """Reopen every connection, check the file for a short time, and return whether it is damaged."""
        await self._open_anew()
        return not self._is_shut and (await asyncio.to_thread(check_for_damage, self._path, SHORT_CHECK_S)).is_damaged

    async def _save(self) -> None:
        """Copy the log into the database. If only the log is missing, reopen everything with a new one."""
        files = self._health.files
        is_saved = files.has_own_log() and files.log.stat().st_size == 0
        if not is_saved and not self._is_shut:
            async with self._readers.held():
                is_saved = await self._writer.run(truncate_wal)
        if self._health.missing == "log" and (is_saved or self._is_shut):
            await self._open_anew()

    async def _open_anew(self) -> None:
        if not self._is_shut:
            await self._shut_all()
        await self._open_all()

    async def _shut_all(self) -> None:
        async with self._readers.held():
            for thread in (*self._background_readers, *self._readers.threads, self._writer):
                await thread.shut()
            self._is_shut = True

    async def _open_all(self) -> None:
        files = self._health.files
        # While another process uses the old log, a new log would not match the index file.
        if files.missing() == "database" or (not files.has_own_log() and files.has_own_index()):
            return
        async with self._readers.held():
            for thread in (self._writer, *self._readers.threads, *self._background_readers):
                await thread.open_again()
        self._is_shut = False
        files.adopt_log()
        self._health.missing = ""
        self.opened_anew()

    @property
    def _background_readers(self) -> list[Thread]:
        return [reader for reader, _ in self._background]

    async def _test_when_idle(self) -> None:
        now_s, commits_ns, is_tight = time.monotonic(), self._writer.started_ns, self._health.is_tight
        if commits_ns != self._commits_ns:
            self._commits_ns, self._idle_since_s = commits_ns, now_s
        if now_s - self._idle_since_s < (TIGHT_S if is_tight else IDLE_S):
            return
        self._idle_since_s = now_s
        size_bytes = TRY_BYTES if is_tight else IDLE_BYTES
        await self._writer.run(lambda connection: try_to_write(connection, size_bytes))
