"""The free space on the disk of a database: what may still be written, and a reserve for a disk that is full.

A database whose log cannot be emptied accepts nothing, and deleting rows needs space in the log too. So each kind of
work stops at a limit of its own, in this order:

1. Imports and uploads, where less than --min-free-disk and a margin is left: they must not stop collecting.
2. Events, below --min-free-disk.
3. Background work that adds to the file, below half of that. It ends with less than before, since the rows of days that
   are stored by column are deleted.
4. Nothing else has a limit: changes by owners, sign-in, and all that deletes. On a full disk the server gives up the
   reserve, a file beside the database, which is enough to empty the log; it takes the reserve again later.

What the log has may still have to be copied into the database, so it counts as used twice. Where little space is left
the log is emptied early, so that this takes less than the reserve.
"""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from tally.storage.database import MAX_WAL_BYTES, log_bytes, log_of

# A file system of less than 20 GB keeps this share of it free in place of 1 GB.
MIN_FREE_SHARE = 0.05
RESERVE_BYTES = 8 * 1_048_576
# The log is emptied, and work that writes much waits, from a size between these on: the transactions under way fit
# below MAX_WAL_BYTES.
FULL_LOG_BYTES = MAX_WAL_BYTES * 3 // 4
SHORT_LOG_BYTES = 2 * 1_048_576
# So that space that was freed counts.
LOW_LOG_BYTES = 262_144
TOO_LITTLE_SPACE = "The disk of the server has too little free space for this file (--min-free-disk): free some."
"""Why an upload is refused and an import stops."""


class DiskSpace(NamedTuple):
    """The space of a disk in bytes: free (-1: unknown), to be kept free, taken by the database's log, and in all; and
    whether the disk is mounted for reading alone."""

    free_bytes: int
    min_bytes: int
    log_bytes: int
    disk_bytes: int
    is_read_only: bool = False

    @property
    def left_bytes(self) -> int:
        """Return what is left once the log is copied into the database; less than 0 where it does not fit."""
        return self.free_bytes - self.log_bytes

    def _has(self, bytes_: int) -> bool:
        return self.free_bytes < 0 or self.left_bytes >= bytes_

    @property
    def is_low(self) -> bool:
        """Return whether events are refused."""
        return not self._has(self.min_bytes) and self.min_bytes > 0

    @property
    def allows_growth(self) -> bool:
        """Return whether background work may add to the file."""
        return self._has(self.min_bytes // 2)

    def allows_import(self, more_bytes: int = 0) -> bool:
        """Return whether an import may store more."""
        return not self.min_bytes or self._has(self.min_bytes + min(self.min_bytes, MAX_WAL_BYTES) + more_bytes)

    @property
    def log_limit(self) -> int:
        """Return the size of the log from which on work that writes much waits: a quarter of what may still be written,
        within bounds."""
        share = (self.left_bytes - self.min_bytes) // 4 if self.free_bytes >= 0 else FULL_LOG_BYTES
        return min(max(share, SHORT_LOG_BYTES), FULL_LOG_BYTES)

    @property
    def emptied_from(self) -> int:
        """Return the size from which on the server empties the log: early where events are refused meanwhile."""
        return LOW_LOG_BYTES if self.is_low else self.log_limit


UNKNOWN_SPACE = DiskSpace(-1, 0, 0, 0)


def disk_space(db: Path, setting_bytes: int) -> DiskSpace:
    """Return the space of a database's disk now; `setting_bytes` is --min-free-disk. Raises OSError. Takes 20 µs."""
    disk = os.statvfs(log_of(db).parent)
    # Some file systems count no blocks at all.
    free_bytes, disk_bytes = disk.f_bavail * disk.f_frsize if disk.f_blocks else -1, disk.f_blocks * disk.f_frsize
    min_bytes, is_read_only = min_free_bytes(setting_bytes, disk_bytes), bool(disk.f_flag & os.ST_RDONLY)
    return DiskSpace(free_bytes, min_bytes, log_bytes(db), disk_bytes, is_read_only)


def min_free_bytes(setting_bytes: int, disk_bytes: int) -> int:
    """Return the space to keep free: the setting, or a share of the file system if that is less."""
    return min(setting_bytes, int(MIN_FREE_SHARE * disk_bytes))


class Reserve:
    """The file `<database>.reserve` of a running server. It has space and no content."""

    def __init__(self, db: Path) -> None:
        self.path = db.resolve().with_name(db.resolve().name + ".reserve")

    def take(self, space: DiskSpace) -> None:
        """Take the space where the file is missing and the disk has plenty."""
        size = min(RESERVE_BYTES, int(MIN_FREE_SHARE * space.disk_bytes))
        if self.path.exists() or not 2 * size + space.min_bytes <= space.left_bytes:
            return
        # Without it the server works too, as on file systems that cannot set space aside.
        with contextlib.suppress(OSError):
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, size)
            except OSError:
                self.path.unlink()
                raise
            finally:
                os.close(file)

    def give_up(self) -> bool:
        """Give the space back; return whether there was any."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True
