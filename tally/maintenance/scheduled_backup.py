"""The nightly backup, made by the server on its own thread and connections.

A backup is due once a day from the hour of the settings (UTC) on, and the server checks every second: if it was not
running at that hour, the backup is made at its next start. The file names in the directory, or at the destination, show
which backups exist, so a restart does not repeat one. A backup that fails is logged, counted, and retried after a
pause.

The thread does not delay the end of the process: it cancels the backup, and the next one deletes the unfinished file.
"""

import contextlib
import os
import sys
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple

from tally.clock import Clock
from tally.errors import fields, log, where_it_failed
from tally.maintenance.backup import BackupError, Cancelled, backups, make_dated
from tally.storage.database import BadDatabase
from tally.timestamps import DAY_MS, HOUR_MS

# A disk that is full or not mounted rarely recovers sooner.
RETRY_NS = 3_600_000_000_000
# One step of a slow disk. A thread that takes longer ends with the process.
_CLOSE_S = 1.0


class Made(NamedTuple):
    """A new backup: its name and size in bytes, the number of older ones deleted for it, and of leftovers deleted."""

    name: str
    size: int
    deleted: int
    leftovers: int


class Nightly(ABC):
    """Makes a backup each night, on a thread. A subclass returns the newest one (`newest_ms`) and makes one (`make`).

    For the metrics: `last_ms` is the time of the newest backup (0: unknown), `made` and `failed` count since the start.
    """

    title = "nightly backup"
    """Its name in the log."""
    known: tuple[type[Exception], ...] = (BackupError, BadDatabase)
    """Exceptions whose messages contain nothing of the database's content, and no secret."""

    def __init__(self, db: Path, hour: int, clock: Clock) -> None:
        self._db, self._hour, self._clock = db, hour, clock
        self.last_ms = self.made = self.failed = self.bytes = self.took_ns = 0
        # Whether it has failed, for the first time in a row, since this was set to False.
        self.has_failed = False
        self._thread: threading.Thread | None = None
        self._retry_ns = self._failures = 0
        self._is_cancelled = threading.Event()

    @property
    def is_failing(self) -> bool:
        """Return whether the last attempt failed."""
        return self._failures > 0

    @abstractmethod
    def newest_ms(self, now_ms: int) -> int:
        """Return the time of the newest backup up to now, 0 where there is none. Runs on the thread."""

    @abstractmethod
    def make(self, now_ms: int) -> Made:
        """Make a backup. Runs on the thread."""

    def pause_ns(self, failures: int) -> int:
        """Return how long to wait after so many failures in a row."""
        return RETRY_NS

    def start_if_due(self, now_ms: int) -> None:
        """Start a backup if one is due. Called every second."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self.last_ms < self._due_ms(now_ms) and self._clock.monotonic_ns() >= self._retry_ns:
            self.start(now_ms)

    def start(self, now_ms: int) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._work, args=(now_ms,), name=self.title, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cancel the backup that is running, if any."""
        self._is_cancelled.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _due_ms(self, now_ms: int) -> int:
        """Return the latest time at which a backup was due."""
        return (now_ms - self._hour * HOUR_MS) // DAY_MS * DAY_MS + self._hour * HOUR_MS

    def _work(self, now_ms: int) -> None:
        begun_ns = self._clock.monotonic_ns()
        try:
            self.last_ms = self.newest_ms(now_ms)
            if self.last_ms < self._due_ms(now_ms):
                self._make(now_ms, begun_ns)
            self._failures = 0
        except Cancelled:
            pass
        except Exception as failure:
            self.failed += 1
            self._failures += 1
            self.has_failed |= self._failures == 1
            pause_ns = self.pause_ns(self._failures)
            self._retry_ns = begun_ns + pause_ns
            error = failure if isinstance(failure, self.known) else where_it_failed(failure)
            minutes = pause_ns // 60_000_000_000
            pause = {1: "a minute", 60: "an hour"}.get(minutes, f"{minutes} minutes")
            log.error("%s failed, the next attempt is in %s", self.title, pause, extra=fields(error=error))

    def _make(self, now_ms: int, begun_ns: int) -> None:
        made = self.make(now_ms)
        self.took_ns = self._clock.monotonic_ns() - begun_ns
        self.last_ms, self.made, self.bytes = now_ms, self.made + 1, made.size
        log.info(
            "%s completed",
            self.title,
            extra=fields(
                file=made.name,
                bytes=made.size,
                seconds=round(self.took_ns / 1e9, 3),
                deleted=made.deleted,
                leftovers=made.leftovers,
            ),
        )


class ScheduledBackup(Nightly):
    """Makes backups of `db` in `directory` and keeps the newest `keep`."""

    def __init__(self, db: Path, directory: Path, keep: int, hour: int, clock: Clock) -> None:
        super().__init__(db, hour, clock)
        self._directory, self._keep = directory, keep

    def newest_ms(self, now_ms: int) -> int:
        """Return the time of the newest backup in the directory."""
        if not self._directory.is_dir():
            raise BackupError(f"{self._directory.resolve()} is not a directory: create it, or mount its disk.")
        # Names in the future, from when the clock was wrong, do not show that last night's backup was made.
        return max((time for time, _ in backups(self._directory, self._db) if time <= now_ms), default=0)

    def make(self, now_ms: int) -> Made:
        """Make a dated backup in the directory."""
        is_cancelled = self._is_cancelled.is_set
        made = make_dated(self._db, self._directory, self._keep, now_ms, is_cancelled, lower_priority)
        return Made(made.path.name, made.size, len(made.rotated), len(made.leftovers))


def lower_priority() -> None:
    """Give this thread the lowest CPU priority: checking a large copy takes seconds of CPU time.

    Copying runs at normal priority, because SQLite's log grows until it is done.
    """
    # Only on Linux has a thread its own priority; elsewhere the number could be another process.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
