"""How it stands with the database file: what was last seen of it, and whether it may take events.

It is `well`, or the first of these that holds:
- `gone`: the file, or the log beside it, was deleted or replaced. What is written then is found by nobody.
- `damaged`: SQLite came upon a page that is none. Until a check of the whole file finds nothing, nothing is taken: what
  is added to a damaged file may be lost with it, and clients keep what they were not answered 202 for.
- `stuck`: the writer has been at one step for long, such as an fsync that does not come back.
- `unsure`: an fsync or the like failed, after which nobody knows what is on the disk. Nothing is taken until a write
  went through, every connection was opened anew, and a look at the file found no damage.
- `failing`: a write failed, as on a full or read-only disk, and nothing of it was kept. Events are still tried, since
  the first that is held is the best sign that it is over; a small write every second finds out as well.

Apart from these, the disk may be `low`: less free space than the owner wants kept (--min-free-disk). Then events alone
are refused; questions, deletion, sign-in and the background work go on, since they need little space or free some.

This room sees and says; what is done about it is in tally/storage/recovery.py. Called from the loop, but for `Files`,
which the writer's thread asks before and after each group: 5 us for both.
"""

import os
import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from tally.errors import QUERY_TIMEOUT, STORAGE_UNAVAILABLE, ApiError, log
from tally.storage.database import connect_reader, interrupted_when, transaction

# our choice: longer than the writer waits for somebody else's lock, shorter than people wait for an answer.
STUCK_S = 5.0
# our choice: from here on a disk is looked upon as nearly full; a request may bring 64 KB, a group more.
TIGHT_BYTES = 1_048_576
RETRY_S = 5
# Disk space comes back when a person frees it: clients ask less often than after a hiccup.
LOW_RETRY_S = 60
# our choice: as much as a request may bring: a single page may still fit where nothing else does.
TRY_BYTES = 262_144
_CHECK_INSTRUCTIONS = 10_000

FAILING, UNSURE, DAMAGED, LOW = "failing", "unsure", "damaged", "low"
# A file system of less than 20 GB keeps this share of it free in place of 1 GB.
MIN_FREE_SHARE = 0.05
_RANK = {"": 0, FAILING: 1, UNSURE: 2, DAMAGED: 3}
# After these nothing can have reached the file; any other failure of input or output leaves that open.
_KEPT_NOTHING = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_NOMEM")

WORDS = {
    "gone": "The database or the log beside it was deleted or replaced: put it back, or start the server anew.",
    DAMAGED: "The database is damaged: stop the server and put a backup in its place.",
    "stuck": "The disk does not answer: look at it. The server goes on by itself when it does.",
    UNSURE: "The disk failed to keep what was written: look at it. The server goes on by itself when it is well.",
    LOW: "The disk has less free space than --min-free-disk: events are refused. Free space, or lower the setting.",
    FAILING: "The database cannot be written: make room on its disk. The server goes on by itself when there is.",
}
"""What is the matter and what to do, for whoever asks /healthz."""


class FileGone(sqlite3.OperationalError):
    """What was written is in a file that nobody will find."""

    sqlite_errorname = "FILE_GONE"


def lies_in_the_file(failure: Exception) -> bool:
    """Whether the file, the disk or somebody else's lock is at fault, rather than a statement of ours."""
    return isinstance(failure, sqlite3.OperationalError) or type(failure) is sqlite3.DatabaseError


def refusal(failure: Exception, doing: str) -> Exception:
    """What a client is told of a failure: 503 where it lies in the file, the failure itself (a 500) otherwise."""
    if not isinstance(failure, sqlite3.Error) or not lies_in_the_file(failure):
        return failure
    name = _name(failure)
    if name == "SQLITE_INTERRUPT":
        return ApiError(QUERY_TIMEOUT, retry_after_s=30)
    log.error("%s failed: %s", doing, name)
    return ApiError(STORAGE_UNAVAILABLE, retry_after_s=RETRY_S)


def fault_of(failure: Exception) -> str:
    """FAILING, UNSURE or DAMAGED; empty where the failure says nothing about the file."""
    name = _name(failure)
    if not lies_in_the_file(failure) or name == "SQLITE_INTERRUPT" or isinstance(failure, FileGone):
        return ""
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return DAMAGED
    if name.startswith("SQLITE_IOERR") and name not in _KEPT_NOTHING:
        return UNSURE
    return FAILING


def _name(failure: Exception) -> str:
    return str(getattr(failure, "sqlite_errorname", type(failure).__name__))


class Files:
    """The database and what SQLite keeps beside it, its log and the log's index, as they were when they were opened."""

    def __init__(self, path: Path) -> None:
        real = path.resolve()
        self.log = real.with_name(real.name + "-wal")
        # As text: asking the system is a third cheaper so.
        self._path, self._log, self._index = str(path.absolute()), str(self.log), f"{real}-shm"
        self._file = _identity(self._path)
        self.adopt_log()

    def adopt_log(self) -> None:
        """What is there now beside the database is what was opened."""
        self._own_log, self._own_index = _identity(self._log), _identity(self._index)

    def missing(self) -> str:
        """What was deleted or replaced since: `database`, `log`, or nothing."""
        if _identity(self._path) != self._file:
            return "database"
        log_now, index_now = _identity(self._log), _identity(self._index)
        # SQLite makes them when it first needs them.
        self._own_log, self._own_index = self._own_log or log_now, self._own_index or index_now
        return "" if (log_now, index_now) == (self._own_log, self._own_index) else "log"

    def check_database(self) -> None:
        """Raises FileGone where the database was deleted or replaced."""
        if _identity(self._path) != self._file:
            raise FileGone("the database was deleted or replaced")

    def check_log(self) -> None:
        """Raises FileGone where its log was."""
        if _identity(self._log) != self._own_log is not None:
            raise FileGone("the log was deleted or replaced")

    def has_own_log(self) -> bool:
        """Whether the log at its place is the one that was opened."""
        return _identity(self._log) == self._own_log

    def has_own_index(self) -> bool:
        """Whether the index at its place is the one that was opened. SQLite removes both with the last that closes."""
        return _identity(self._index) == self._own_index is not None


class Health:
    """What was last seen."""

    def __init__(self, path: Path, min_free_bytes: int = 0) -> None:
        self.files = Files(path)
        self._min_free_bytes = min_free_bytes
        # Whether less is free than is to be kept free.
        self.is_low = False
        self.missing = self.fault = ""
        self.is_stuck = False
        # Bytes that are left on the disk; -1 where that is not known.
        self.free_bytes = -1
        self.is_tight = False
        self.path = path
        self.not_before_s = 0.0
        self._cures = 0
        self._now_s = time.monotonic
        self._look_at_the_disk()

    @property
    def state(self) -> str:
        """The one word."""
        if self.missing:
            return "gone"
        if self.fault == DAMAGED:
            return DAMAGED
        return "stuck" if self.is_stuck else self.fault or (LOW if self.is_low else "well")

    @property
    def is_writable(self) -> bool:
        """Whether everything but events may be written without a second thought."""
        return self.state in ("well", LOW)

    @property
    def takes_events(self) -> bool:
        """Whether an event may be tried."""
        return not self.missing and not self.is_stuck and self.fault in ("", FAILING)

    def refuse(self) -> None:
        """Raises ApiError 503 where no event may be tried."""
        if not self.takes_events:
            raise ApiError(STORAGE_UNAVAILABLE, retry_after_s=RETRY_S)

    def refuse_events(self) -> None:
        """Raises ApiError 503 where no event may be stored, which may be for want of disk space alone."""
        self.refuse()
        if self.is_low:
            raise ApiError(STORAGE_UNAVAILABLE, WORDS[LOW], retry_after_s=LOW_RETRY_S)

    def failed(self, failure: Exception) -> None:
        """A step at the file has failed."""
        fault = fault_of(failure)
        if isinstance(failure, FileGone):
            self._look_at_the_files()
        if _RANK[fault] <= _RANK[self.fault]:
            return
        if not self.fault:
            self.postpone()
        self.fault = fault
        log.error("the database is %s: %s", fault, _name(failure))

    def postpone(self) -> None:
        """At once the first time; where a cure did not last or came to nothing, later and later, up to a minute."""
        self.not_before_s = self._now_s() + (min(2**self._cures, 60) if self._cures else 0)
        self._cures += 1

    def failed_to_read(self, failure: Exception) -> None:
        """A question has failed: only damage says something about what can be written."""
        if fault_of(failure) == DAMAGED:
            self.failed(failure)

    def held(self) -> None:
        """Events were committed."""
        self._cures = 0
        if self.fault == FAILING:
            self.cured()

    def cured(self) -> None:
        """What was wrong is over."""
        if self.fault:
            log.warning("the database is no longer %s", self.fault)
        self.fault = ""

    def look(self, busy_since_ns: int) -> None:
        """Looks at the files, at the disk, and at how long the writer has been at its step (0: at none)."""
        self._look_at_the_files()
        is_stuck = bool(busy_since_ns) and time.monotonic_ns() - busy_since_ns > STUCK_S * 1e9
        if is_stuck and not self.is_stuck:
            log.error("the database's disk has not answered for %d seconds", STUCK_S)
        self.is_stuck = is_stuck
        self._look_at_the_disk()

    def _look_at_the_files(self) -> None:
        missing = self.files.missing()
        if missing and not self.missing:
            log.error("%s: the %s was deleted or replaced while the server runs", self.path, missing)
        self.missing = missing

    def _look_at_the_disk(self) -> None:
        try:
            disk = os.statvfs(self.path.parent)
        except OSError:
            self.free_bytes = -1
            return
        # Some file systems count no blocks at all.
        self.free_bytes = disk.f_bavail * disk.f_frsize if disk.f_blocks else -1
        self._compare(min_free_bytes(self._min_free_bytes, disk.f_blocks * disk.f_frsize))
        self.is_tight = 0 <= self.free_bytes < TIGHT_BYTES or bool(disk.f_flag & os.ST_RDONLY)

    def _compare(self, min_bytes: int) -> None:
        is_low = 0 <= self.free_bytes < min_bytes
        if is_low and not self.is_low:
            log.error(
                "the disk has %d MB of free space, less than --min-free-disk (%d MB): events are refused",
                self.free_bytes // 1_000_000,
                min_bytes // 1_000_000,
            )
        elif self.is_low and not is_low:
            log.warning("the disk has enough free space again: events are accepted")
        self.is_low = is_low


def min_free_bytes(setting_bytes: int, disk_bytes: int) -> int:
    """How much is to stay free: the setting, or a share of the file system where that is less."""
    return min(setting_bytes, int(MIN_FREE_SHARE * disk_bytes))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def try_to_write(connection: sqlite3.Connection, size_bytes: int = TRY_BYTES) -> None:
    """Commit that much, and takes it away again. Raises sqlite3.Error where that cannot be done."""
    with transaction(connection):
        connection.execute(
            "/* health.try */ insert or replace into meta values ('try', zeroblob(cast(? as integer)))", (size_bytes,)
        )
    with transaction(connection):
        connection.execute("/* health.tried */ delete from meta where name = 'try'")


class Look(NamedTuple):
    """Whether a check came upon damage, and whether it came to its end."""

    is_damaged: bool
    is_whole: bool


def look_for_damage(path: Path, seconds: float) -> Look:
    """SQLite's quick_check on a connection of its own, given up after a while. Raises sqlite3.Error where the file
    cannot be read at all."""
    end = time.monotonic() + seconds
    connection = connect_reader(path)
    try:
        with interrupted_when(connection, lambda: time.monotonic() > end, _CHECK_INSTRUCTIONS):
            ((found,),) = connection.execute("pragma quick_check(1)").fetchall()
    except sqlite3.DatabaseError as failure:
        if _name(failure) != "SQLITE_INTERRUPT" and fault_of(failure) != DAMAGED:
            raise
        return Look(fault_of(failure) == DAMAGED, False)
    finally:
        connection.close()
    return Look(found != "ok", True)
