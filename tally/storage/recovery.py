"""What is done about a database that is not well (tally/storage/health.py): each second, one step towards its being
well again.

- Failing: a small write says whether it is over.
- Unsure: first a write must go through; it also lies over what the failed one may have left in the log. Then every
  connection is closed and opened anew, so that nothing is believed that only memory holds, and the file is looked at.
- Damaged: the whole file is checked, now and then. Only where that finds nothing, the connections are opened anew.
- The log is gone: what it holds is still open here, and is copied into the database at once: nothing that was answered
  202 is lost. Then all connections are opened anew, with a new log.
- The database is gone: the same copying, so that the file is whole wherever it was moved to, and so that whatever was
  put in its place does not meet a log that is not its own. Put back, it is taken up again.

Nothing works in the background meanwhile. And where nothing is wrong and nobody sends anything, a small write now and
then says whether a disk has become full or read-only: so that somebody hears of it before an event does.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tally.storage.connections import Readers, Thread
from tally.storage.health import DAMAGED, FAILING, TRY_BYTES, Health, look_for_damage, try_to_write
from tally.storage.wal import truncate_wal

# our choice: a file in which damage was found is not read through again and again.
CHECK_AGAIN_S = 300.0
MOST_CHECK_S = 600.0
# our choice: nothing is taken while it lasts; 50 to 200 MB of a file.
SHORT_CHECK_S = 1.0
# our choice: a few pages a minute, and a fault is known within one; a disk that is nearly full is watched closer.
IDLE_S = 60.0
TIGHT_S = 5.0
IDLE_BYTES = 1_000


class Work(Protocol):
    """The work in the background."""

    def start(self) -> None:
        """Begins it where it is not under way."""

    async def stop(self) -> None:
        """Ends it where it is."""


class Recovery:
    """Takes the steps. `threads` are all connections there are: writer, looker, readers; `work` is the work in the
    background, `opened_anew` is told when the connections are others, `commits` gives how many there have been."""

    def __init__(
        self,
        path: Path,
        health: Health,
        threads: tuple[Thread, Thread, Readers],
        work: Work,
        opened_anew: Callable[[], None],
        commits: Callable[[], int],
    ) -> None:
        self._path, self._health = path, health
        self._writer, self._looker, self._readers = threads
        self._work, self._opened_anew, self._commits = work, opened_anew, commits
        self._is_at_it = self._is_shut = False
        self._commits_before, self._quiet_since_s = 0, time.monotonic()

    async def heal(self) -> None:
        """Takes the step that can be taken now, if it is not under way; health says what came of it."""
        if self._is_at_it or self._health.is_stuck:
            return
        self._is_at_it = True
        try:
            await self._step()
        except sqlite3.Error as failure:
            self._health.failed(failure)
        finally:
            self._is_at_it = False

    async def _step(self) -> None:
        health = self._health
        if not health.takes_events:
            await self._work.stop()
        if health.missing:
            await self._save()
        elif self._is_shut:
            await self._open_all()
        elif health.fault:
            await self._mend()
        else:
            self._work.start()
            await self._try_where_it_is_quiet()

    async def _mend(self) -> None:
        health = self._health
        if time.monotonic() < health.not_before_s:
            return
        fault = health.fault
        if fault == DAMAGED:
            look = await asyncio.to_thread(look_for_damage, self._path, MOST_CHECK_S)
            if look.is_damaged or not look.is_whole:
                health.not_before_s = time.monotonic() + CHECK_AGAIN_S
                return
        await self._writer.run(try_to_write)
        try:
            is_damaged = fault != FAILING and await self._looks_damaged()
        except sqlite3.Error:
            health.postpone()
            raise
        if is_damaged:
            health.fault = DAMAGED
        elif health.fault == fault and not self._is_shut:
            health.cured()

    async def _looks_damaged(self) -> bool:
        """Opens every connection anew and looks at the file for a short while."""
        await self._open_anew()
        return not self._is_shut and (await asyncio.to_thread(look_for_damage, self._path, SHORT_CHECK_S)).is_damaged

    async def _save(self) -> None:
        """Copies the log into the database. Where only the log is gone, everything is then opened with a new one."""
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
            for thread in (self._looker, *self._readers.threads, self._writer):
                await thread.shut()
            self._is_shut = True

    async def _open_all(self) -> None:
        files = self._health.files
        # With another process still at the old log, a new one would stand beside an index that is not its own.
        if files.missing() == "database" or (not files.has_own_log() and files.has_own_index()):
            return
        async with self._readers.held():
            for thread in (self._writer, *self._readers.threads, self._looker):
                await thread.open_again()
        self._is_shut = False
        files.adopt_log()
        self._health.missing = ""
        self._opened_anew()

    async def _try_where_it_is_quiet(self) -> None:
        now_s, commits, is_tight = time.monotonic(), self._commits(), self._health.is_tight
        if commits != self._commits_before:
            self._commits_before, self._quiet_since_s = commits, now_s
        if now_s - self._quiet_since_s < (TIGHT_S if is_tight else IDLE_S):
            return
        self._quiet_since_s = now_s
        size_bytes = TRY_BYTES if is_tight else IDLE_BYTES
        await self._writer.run(lambda connection: try_to_write(connection, size_bytes))
