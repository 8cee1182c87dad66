"""The state of the database file: what was last observed, and whether it may accept events.

It is `well`, or the first of these that applies:
- `missing`: the file, or its log, was deleted or replaced. What is written now would be lost.
- `damaged`: SQLite found a malformed page. No events are accepted until a check of the whole file finds no damage: they
  could be lost with the file, and clients retry events that were not answered 202.
- `stuck`: the writer has been in one step for a long time, such as an fsync that does not return.
- `unsure`: an fsync or similar call failed, so that the content of the disk is unknown. No events are accepted until a
  write succeeded, every connection was reopened, and a check of the file found no damage.
- `failing`: a write failed, as on a full or read-only disk, and nothing of it was kept. Events are still tried, since
  the first that succeeds ends the fault; a small test write every second detects it too.
- `locked`: the same, because another program held the write lock for longer than the server waits.

The disk may also be `low`: less space is left than --min-free-disk. Then only events are refused; queries, deletion,
sign-in and background work continue, since they need little space or free some (tally/storage/disk_space.py).

This module observes; tally/storage/recovery.py acts. It is called from the event loop, except for `Files`, which the
writer's thread checks before and after each group: 5 µs for both.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tally.errors import QUERY_TIMEOUT, STORAGE_UNAVAILABLE, ApiError, is_lock, log, sqlite_cause
from tally.storage.database import (
    check_path,
    check_version,
    connect_reader,
    connect_writer,
    damaged,
    explained,
    interrupted_after,
    log_of,
    refuse_other,
    transaction,
)
from tally.storage.disk_space import UNKNOWN_SPACE, DiskSpace, Reserve, disk_space

# Longer than the writer waits for a lock of another process, shorter than users wait for a response.
STUCK_S = 5.0
# At the start: about 30 MB of a file.
START_CHECK_S = 0.2
# Less free space counts as nearly full: a request may have 64 KB, a group of them more.
TIGHT_BYTES = 1_048_576
RETRY_S = 5
# Disk space is freed by a person: clients retry less often than after a short fault.
LOW_RETRY_S = 60
# More than a request may have: a single page may still fit on a full disk.
TRY_BYTES = 262_144

LOCKED, FAILING, UNSURE, DAMAGED, LOW = "locked", "failing", "unsure", "damaged", "low"
TRIED = ("", LOCKED, FAILING)
"""Faults with which events are still tried: nothing of what failed has reached the file."""
_RANK = {"": 0, LOCKED: 1, FAILING: 2, UNSURE: 3, DAMAGED: 4}
# After these errors nothing has reached the file; after other I/O errors that is unknown.
_KEPT_NOTHING = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_NOMEM")

WORDS = {
    "missing": "The database or its log was deleted or replaced: move it back, or restart the server.",
    DAMAGED: "The database is damaged: stop the server and restore a backup.",
    "stuck": "The disk does not respond: check it. The server continues when the disk responds.",
    UNSURE: "The disk failed to store data: check it. The server continues when a write succeeds.",
    LOW: "The disk has less free space than --min-free-disk: events are refused. Free space, or lower the setting.",
    FAILING: "The database cannot be written: free space on its disk. The server continues when a write succeeds.",
    LOCKED: "Another program holds the write lock of the database: end it, or wait. The server continues when it ends.",
}
"""The problem and its fix by state, for /healthz."""


class FileGone(sqlite3.OperationalError):
    """The database or its log was deleted or replaced; what was written would be lost."""

    sqlite_errorname = "FILE_GONE"


def lies_in_the_file(failure: Exception) -> bool:
    """Return whether the file, the disk or a lock of another process is the cause, not a statement."""
    return isinstance(failure, sqlite3.OperationalError) or type(failure) is sqlite3.DatabaseError


def refusal(failure: Exception, doing: str) -> Exception:
    """Return the error for the client: 503 if the file is the cause, else the exception itself (a 500)."""
    if not isinstance(failure, sqlite3.Error) or not lies_in_the_file(failure):
        return failure
    name = _name(failure)
    if name == "SQLITE_INTERRUPT":
        return ApiError(QUERY_TIMEOUT, retry_after_s=30)
    log.error("%s failed: %s", doing, sqlite_cause(failure) or name)
    return ApiError(STORAGE_UNAVAILABLE, WORDS[LOCKED] if is_lock(failure) else "", retry_after_s=RETRY_S)


def fault_of(failure: Exception) -> str:
    """Return LOCKED, FAILING, UNSURE or DAMAGED; "" if the exception does not concern the file."""
    name = _name(failure)
    if not lies_in_the_file(failure) or name == "SQLITE_INTERRUPT" or isinstance(failure, FileGone):
        return ""
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return DAMAGED
    if name.startswith("SQLITE_IOERR") and name not in _KEPT_NOTHING:
        return UNSURE
    return LOCKED if is_lock(failure) else FAILING


def _name(failure: Exception) -> str:
    return str(getattr(failure, "sqlite_errorname", type(failure).__name__))


class Files:
    """The identities of the database, its log and the log's index at the time they were opened."""

    def __init__(self, path: Path) -> None:
        self.log = log_of(path)
        # os.stat of a str takes a third less time than of a Path.
        self._path, self._log, self._index = str(path.absolute()), str(self.log), f"{path.resolve()}-shm"
        self._file = _identity(self._path)
        self.adopt_log()

    def adopt_log(self) -> None:
        """Take the present log and index as those that are open."""
        self._own_log, self._own_index = _identity(self._log), _identity(self._index)

    def missing(self) -> str:
        """Return what was deleted or replaced since: "database", "log" or ""."""
        if _identity(self._path) != self._file:
            return "database"
        log_now, index_now = _identity(self._log), _identity(self._index)
        # SQLite creates them when it first needs them.
        self._own_log, self._own_index = self._own_log or log_now, self._own_index or index_now
        return "" if (log_now, index_now) == (self._own_log, self._own_index) else "log"

    def check_database(self) -> None:
        """Raise FileGone if the database was deleted or replaced."""
        if _identity(self._path) != self._file:
            raise FileGone("the database was deleted or replaced")

    def check_log(self) -> None:
        """Raise FileGone if the log was deleted or replaced."""
        if _identity(self._log) != self._own_log is not None:
            raise FileGone("the log was deleted or replaced")

    def has_own_log(self) -> bool:
        """Return whether the log file is the one that is open."""
        return _identity(self._log) == self._own_log

    def has_own_index(self) -> bool:
        """Return whether the index file is the one that is open. The last connection that closes removes both files."""
        return _identity(self._index) == self._own_index is not None


class Health:
    """The last observations."""

    def __init__(self, path: Path, min_free_bytes: int = 0) -> None:
        self.files = Files(path)
        self._min_free_bytes = min_free_bytes
        # Less space is left than --min-free-disk.
        self.is_low = False
        self._reserve = Reserve(path)
        self.missing = self.fault = ""
        self.is_stuck = False
        self.space = UNKNOWN_SPACE
        self.is_tight = False
        self.path = path
        self.not_before_s = 0.0
        self._cures = 0
        self._now_s = time.monotonic
        self._check_disk()

    @property
    def state(self) -> str:
        """Return the state in one word."""
        if self.missing:
            return "missing"
        if self.fault == DAMAGED:
            return DAMAGED
        return "stuck" if self.is_stuck else self.fault or (LOW if self.is_low else "well")

    @property
    def is_writable(self) -> bool:
        """Return whether anything but events may be written."""
        return self.state in ("well", LOW)

    @property
    def takes_events(self) -> bool:
        """Return whether events may be tried."""
        return not self.missing and not self.is_stuck and self.fault in TRIED

    def refuse(self) -> None:
        """Raise ApiError 503 if no event may be tried."""
        if not self.takes_events:
            raise ApiError(STORAGE_UNAVAILABLE, retry_after_s=RETRY_S)

    def refuse_events(self) -> None:
        """Raise ApiError 503 if no event may be stored, which includes a lack of disk space."""
        self.refuse()
        if self.is_low:
            raise ApiError(STORAGE_UNAVAILABLE, WORDS[LOW], retry_after_s=LOW_RETRY_S)

    def failed(self, failure: Exception) -> None:
        """Record the failure of a step."""
        fault = fault_of(failure)
        if isinstance(failure, FileGone):
            self._check_files()
        if _RANK[fault] <= _RANK[self.fault]:
            return
        if not self.fault:
            self.postpone()
        self.fault = fault
        log.error("the database is %s: %s", fault, sqlite_cause(failure) or type(failure).__name__)

    def postpone(self) -> None:
        """Delay the next attempt: none at first, then doubling up to a minute while attempts fail or do not last."""
        self.not_before_s = self._now_s() + (min(2**self._cures, 60) if self._cures else 0)
        self._cures += 1

    def failed_to_read(self, failure: Exception) -> None:
        """Record the failure of a query: only damage affects writing."""
        if fault_of(failure) == DAMAGED:
            self.failed(failure)

    def held(self) -> None:
        """Record a commit of events."""
        self._cures = 0
        if self.fault in TRIED:
            self.cured()

    def cured(self) -> None:
        """Record that the fault is over."""
        if self.fault:
            log.warning("the database is no longer %s", self.fault)
        self.fault = ""

    def check(self, busy_since_ns: int) -> None:
        """Check the files, the disk, and the duration of the writer's step (0: none is running)."""
        self._check_files()
        is_stuck = bool(busy_since_ns) and time.monotonic_ns() - busy_since_ns > STUCK_S * 1e9
        if is_stuck and not self.is_stuck:
            log.error("the disk of the database has not responded for %d seconds", STUCK_S)
        self.is_stuck = is_stuck
        self._check_disk()

    def _check_files(self) -> None:
        missing = self.files.missing()
        if missing and not self.missing:
            log.error("%s: the %s was deleted or replaced while the server runs", self.path, missing)
        self.missing = missing

    def space_now(self) -> DiskSpace:
        """Return the space of the disk, as it is now. Takes 20 µs."""
        try:
            return disk_space(self.path, self._min_free_bytes)
        except OSError:
            return UNKNOWN_SPACE

    def _check_disk(self) -> None:
        self.space = self.space_now()
        self._compare()
        self.is_tight = 0 <= self.space.free_bytes < TIGHT_BYTES or self.space.is_read_only

    def _compare(self) -> None:
        is_low, space = self.space.is_low, self.space
        if is_low and not self.is_low:
            log.error(
                "the disk has %d MB of free space, less than --min-free-disk (%d MB): events are refused",
                max(0, space.left_bytes) // 1_000_000,
                space.min_bytes // 1_000_000,
            )
        elif self.is_low and not is_low:
            log.warning("the disk has enough free space again: events are accepted")
        self.is_low = is_low

    def keep_reserve(self) -> bool:
        """Take the reserve where there is space, and give it up where the disk is full; return whether it did that."""
        is_full = 0 <= self.space.free_bytes < TIGHT_BYTES
        if is_full and self._reserve.give_up():
            log.error("the disk is full: its reserve is given up, so that space can be freed")
            return True
        if not is_full and not self.fault:
            self._reserve.take(self.space)
        return False

    def close(self) -> None:
        """Give the reserve up: the server ends."""
        self._reserve.give_up()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def try_to_write(connection: sqlite3.Connection, size_bytes: int = TRY_BYTES) -> None:
    """Commit a value of that size and delete it again. Raises sqlite3.Error."""
    with transaction(connection):
        connection.execute(
            "/* health.try */ insert or replace into meta (name, value) values ('try', zeroblob(cast(? as integer)))",
            (size_bytes,),
        )
    with transaction(connection):
        connection.execute("/* health.tried */ delete from meta where name = 'try'")


class CheckResult(NamedTuple):
    """The result of a check: whether it found damage, and whether it was complete."""

    is_damaged: bool
    is_complete: bool


def begin_check(path: Path) -> Callable[[], None]:
    """Begin `check_at_start` in a thread; return a function that waits for its end, or raises its error.

    It takes no time from a start on two processors, which imports modules meanwhile (tally/cli/start.py).
    """
    from concurrent.futures import ThreadPoolExecutor  # here: commands do not need it

    executor = ThreadPoolExecutor(1)
    check = executor.submit(check_at_start, path)
    executor.shutdown(wait=False)
    return check.result


def check_at_start(path: Path) -> None:
    """Raise BadDatabase for a file that a server cannot use: damaged, locked, of a newer release, of another program.

    Changes neither the file nor its log, which may be of another file that was here before. After a kill SQLite reads
    the whole log first; START_CHECK_S does not bound that.
    """
    if not path.exists() or not path.stat().st_size:
        # Again: its log may have been renamed back after a restore that was killed.
        check_path(path, create=True)
        return  # it will be created
    try:
        refuse_other(path)
        try:
            reader = connect_reader(path)
        except sqlite3.OperationalError as failure:
            if failure.sqlite_errorname != "SQLITE_READONLY_ROLLBACK":
                raise
            # Killed while the file was created or WAL mode turned on: only a writer undoes that.
            connect_writer(path).close()
            reader = connect_reader(path)
        # Open meanwhile: SQLite would read the log again for another connection.
        with closing(reader):
            check_version(reader, path)
            if check_for_damage(path, START_CHECK_S).is_damaged:
                raise damaged("found by quick_check")
    except (sqlite3.Error, OSError) as failure:
        raise explained(failure, path) from None


def check_for_damage(path: Path, seconds: float) -> CheckResult:
    """Run SQLite's quick_check for at most `seconds` on a new connection. Raises sqlite3.Error if the file is
    unreadable.

    SQLite checks the pages of all tables in one instruction. Not every release calls the progress handler meanwhile, so
    another thread interrupts the check.
    """
    connection = connect_reader(path)
    try:
        with interrupted_after(connection, seconds):
            ((answer,),) = connection.execute("pragma quick_check(1)").fetchall()
    except sqlite3.DatabaseError as failure:
        if _name(failure) != "SQLITE_INTERRUPT" and fault_of(failure) != DAMAGED:
            raise
        return CheckResult(fault_of(failure) == DAMAGED, False)
    finally:
        connection.close()
    return CheckResult(answer != "ok", True)
