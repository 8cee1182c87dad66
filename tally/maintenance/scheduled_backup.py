"""The nightly backup, made by the server on its own thread and connections.

A backup is due once a day from the hour of the settings (UTC) on, and the server checks every second: if it was not
running at that hour, the backup is made at its next start. The file names in the directory show which backups exist, so
a restart does not repeat one. A backup that fails is logged, counted, and retried after an hour.

The thread does not delay the end of the process: it cancels the backup, and the next one deletes the unfinished file.
"""

import contextlib
import os
import sys
import threading
from pathlib import Path

from tally.clock import Clock
from tally.errors import fields, log, where_it_failed
from tally.maintenance.backup import BackupError, Cancelled, backups, make_dated
from tally.storage.database import BadDatabase
from tally.timestamps import DAY_MS, HOUR_MS

# A disk that is full or not mounted rarely recovers sooner.
RETRY_NS = 3_600_000_000_000
# One step of a slow disk. A thread that takes longer ends with the process.
_CLOSE_S = 1.0


class ScheduledBackup:
    """Makes backups of `db` in `directory` and keeps the newest `keep`.

    For the metrics: `last_ms` is the time of the newest backup (0: unknown), `made` and `failed` count since the start.
    """

    def __init__(self, db: Path, directory: Path, keep: int, hour: int, clock: Clock) -> None:
        self._db, self._directory, self._keep, self._hour, self._clock = db, directory, keep, hour, clock
        self.last_ms = self.made = self.failed = self.bytes = self.took_ns = 0
        self._thread: threading.Thread | None = None
        self._retry_ns = 0
        self._is_cancelled = threading.Event()

    def start_if_due(self, now_ms: int) -> None:
        """Start a backup if one is due. Called every second."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self.last_ms < self._due_ms(now_ms) and self._clock.monotonic_ns() >= self._retry_ns:
            self._thread = threading.Thread(target=self._work, args=(now_ms,), name="backup", daemon=True)
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
            if not self._directory.is_dir():
                raise BackupError(f"{self._directory.resolve()} is not a directory: create it, or mount its disk.")
            # Names in the future, from when the clock was wrong, do not show that last night's backup was made.
            times = [time for time, _ in backups(self._directory, self._db) if time <= now_ms]
            self.last_ms = max(times, default=0)
            if self.last_ms < self._due_ms(now_ms):
                self._make(now_ms, begun_ns)
        except Cancelled:
            pass
        except Exception as failure:
            self.failed += 1
            self._retry_ns = begun_ns + RETRY_NS
            # Messages of these two errors contain nothing of the database's content.
            error = failure if isinstance(failure, BackupError | BadDatabase) else where_it_failed(failure)
            log.error("nightly backup failed, the next attempt is in an hour", extra=fields(error=error))

    def _make(self, now_ms: int, begun_ns: int) -> None:
        is_cancelled = self._is_cancelled.is_set
        made = make_dated(self._db, self._directory, self._keep, now_ms, is_cancelled, _lower_priority)
        self.took_ns = self._clock.monotonic_ns() - begun_ns
        self.last_ms, self.made, self.bytes = now_ms, self.made + 1, made.size
        log.info(
            "nightly backup completed",
            extra=fields(
                file=made.path.name,
                bytes=made.size,
                seconds=round(self.took_ns / 1e9, 3),
                deleted=len(made.rotated),
                leftovers=len(made.leftovers),
            ),
        )


def _lower_priority() -> None:
    """Give this thread the lowest CPU priority: checking a large copy takes seconds of CPU time.

    Copying runs at normal priority, because SQLite's log grows until it is done.
    """
    # Only on Linux has a thread its own priority; elsewhere the number could be another process.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
