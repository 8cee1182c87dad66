"""The backup of every night, made by the server itself on a thread and connections of its own.

It is due once a day, from the hour of the settings (UTC) on, and then made as soon as the server looks, which is every
second: a night that the server slept through is made up for at its next start. What was made is told by the names in
the folder, so a restart makes none twice. One that fails is logged, counted, and tried again an hour later.

The thread is no reason for the process to stay: at its end the copy is given up, and what that leaves is swept.
"""

import contextlib
import os
import sys
import threading
from pathlib import Path

from tally.clock import Clock
from tally.errors import fields, log, where_it_failed
from tally.maintenance import backup as backups
from tally.maintenance.backup import BackupError, Stopped
from tally.storage.database import BadDatabase
from tally.timestamps import DAY_MS, HOUR_MS

# our choice: a disk that is full or away is not looked at more often.
AGAIN_NS = 3_600_000_000_000
# our choice: one step of a slow disk; whoever takes longer is left behind.
_END_S = 1.0


class ScheduledBackup:
    """Makes backups of `db` into `folder` and keeps the newest `keep`. Its figures are read by the metrics: `last_ms`
    is the time of the newest (0: none is known), `made` and `failed` count since the start."""

    def __init__(self, db: Path, folder: Path, keep: int, hour: int, clock: Clock) -> None:
        self._db, self._folder, self._keep, self._hour, self._clock = db, folder, keep, hour, clock
        self.last_ms = self.made = self.failed = self.bytes = self.took_ns = 0
        self._thread: threading.Thread | None = None
        self._again_ns = 0
        self._is_over = threading.Event()

    def look(self, now_ms: int) -> None:
        """Begins one where it is due. Every second."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self.last_ms < self._due_ms(now_ms) and self._clock.monotonic_ns() >= self._again_ns:
            self._thread = threading.Thread(target=self._work, args=(now_ms,), name="backup", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Gives up the one under way."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(_END_S)

    def _due_ms(self, now_ms: int) -> int:
        """The last moment at which one was due."""
        return (now_ms - self._hour * HOUR_MS) // DAY_MS * DAY_MS + self._hour * HOUR_MS

    def _work(self, now_ms: int) -> None:
        begun_ns = self._clock.monotonic_ns()
        try:
            if not self._folder.is_dir():
                raise BackupError(f"{self._folder.resolve()} is no folder: create it, or mount its disk.")
            # A clock that was ahead once has left names of the future, which say nothing of last night.
            times = [time for time, _ in backups.backups(self._folder, self._db) if time <= now_ms]
            self.last_ms = max(times, default=0)
            if self.last_ms < self._due_ms(now_ms):
                self._make(now_ms, begun_ns)
        except Stopped:
            pass
        except Exception as failure:
            self.failed += 1
            self._again_ns = begun_ns + AGAIN_NS
            # The first two say what to do, and nothing of what is in the file.
            told = failure if isinstance(failure, BackupError | BadDatabase) else where_it_failed(failure)
            log.error("the nightly backup failed, the next try is in an hour", extra=fields(error=told))

    def _make(self, now_ms: int, begun_ns: int) -> None:
        made = backups.make_dated(self._db, self._folder, self._keep, now_ms, self._is_over.is_set, _stand_back)
        self.took_ns = self._clock.monotonic_ns() - begun_ns
        self.last_ms, self.made, self.bytes = now_ms, self.made + 1, made.size
        log.info(
            "the nightly backup is made and checked",
            extra=fields(
                file=made.path.name,
                bytes=made.size,
                seconds=round(self.took_ns / 1e9, 3),
                deleted=len(made.gone),
                swept=len(made.swept),
            ),
        )


def _stand_back() -> None:
    """Leaves the processor to every other thread of the server: the check of a large copy is seconds of computing.

    Not while the copy is made: the sooner that is done, the less SQLite's log grows.
    """
    # Elsewhere a thread has no priority of its own, and the number could be another process's.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
