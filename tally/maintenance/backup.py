"""Online backups: copy the database while the server runs, check the copy, and rotate dated copies.

A backup is one snapshot, copied page by page over a read-only connection. It never blocks writers; while it lasts,
SQLite cannot reset the write-ahead log. It is copied in small steps: each is synced to disk before the next and
followed by a pause as long as the step, so a commit's fsync waits for at most one step. A complete copy is checked
(`integrity_check`: every page and index) and only then gets its final name, which must be free. Until then its name
is `NAME.unfinished`, and it is locked; an unlocked one is a leftover and may be deleted.

Dated backups are in one directory, as `analytics-20261122T030000Z.db`, and the newest N are kept. Copies made before an
upgrade are `analytics-schema-1-20261122T030000Z.db`, from the file's schema version, and have a rule of their own
(tally/maintenance/upgrade.py). A file is counted and deleted only if it has such a name, is a regular file, and is a
copy of this database (it has the same key salt). No other file in the directory is touched.
"""

import contextlib
import fcntl
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from tally.accounts.api_keys import key_salt
from tally.storage.database import BadDatabase, known_version, open_unchanged, with_schema
from tally.storage.schema_check import differences
from tally.storage.wal import size_bytes
from tally.timestamps import SECOND_MS

# 4 MB, about 40 ms of a slow disk.
_PAGES_PER_STEP = 1_024
# The size to which the write-ahead log may grow; a backup on the database's own disk leaves this much free.
RESERVED_BYTES = 64 * 1_048_576
# How often SQLite checks whether the backup was cancelled, in instructions of its virtual machine.
_PROGRESS_INSTRUCTIONS = 100_000
_UNFINISHED = ".unfinished"
_STAMP = "%Y%m%dT%H%M%SZ"
_SCHEMA = r"-schema-(?P<version>\d{1,9})"
# https://sqlite.org/fileformat2.html, bytes 18 and 19: 2 is a database in WAL mode, 1 one with a rollback journal.
_FORMAT_OFFSET, _JOURNAL_FORMAT = 18, b"\1\1"

IsCancelled = Callable[[], bool]
File = TypeVar("File", Path, str)


class BackupError(Exception):
    """A backup or restore failed; the message has the reason and the fix."""


class Cancelled(Exception):
    """The backup was cancelled."""


def never() -> bool:
    """Return False: the backup is not cancelled."""
    return False


# --- one backup


def make_backup(
    source: Path,
    target: Path,
    is_cancelled: IsCancelled = never,
    copied: Callable[[], None] = lambda: None,
    *,
    is_paced: bool = True,
) -> int:
    """Make a checked copy of the database at `source`; return its size in bytes. `copied` is called before the check.

    `is_paced` leaves half of the disk's time to a server. Raises BackupError, BadDatabase, OSError, sqlite3.Error;
    Cancelled once `is_cancelled` returns true.
    """
    require_new(source, target)
    with unfinished(target) as (path, file):
        with closing(open_unchanged(source)) as reader:
            copy_database(reader, path, file, is_cancelled, is_paced=is_paced)
        copied()
        check(path, path, "the database or the disk is damaged", is_cancelled)
        os.fsync(file)
        size = os.fstat(file).st_size
        give_name(path, target)
    return size


def require_new(source: Path, target: Path) -> None:
    """Raise BackupError where a file exists already, its directory does not, or a copy of the source does not fit."""
    if os.path.lexists(target):
        raise BackupError(f"{target} exists already: choose another name. A backup never overwrites a file.")
    if not target.resolve().parent.is_dir():
        raise BackupError(f"The directory {target.resolve().parent} does not exist: create it first.")
    require_free_space(source, target.resolve().parent)


def require_free_space(source: Path, directory: Path) -> None:
    """Raise BackupError where a copy would fill the disk, which would stop a server that writes to the same disk."""
    needed, free = size_bytes(source), shutil.disk_usage(directory).free
    if source.stat().st_dev == directory.stat().st_dev:
        needed += RESERVED_BYTES
    if free < needed:
        raise BackupError(f"A copy needs {needed:,} bytes in {directory}, and {free:,} are free: free space first.")


@contextlib.contextmanager
def unfinished(target: Path) -> Iterator[tuple[Path, int]]:
    """Yield a locked, empty file beside the target and its descriptor; delete the file at the end."""
    path = target.with_name(target.name + _UNFINISHED)
    file = _lock(path, os.O_CREAT)
    if file is None:
        raise BackupError(f"{path} is in use: another backup to this name is running.")
    try:
        os.ftruncate(file, 0)
        yield path, file
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def _lock(path: Path, flags: int = 0) -> int | None:
    """Return the descriptor of a file, locked; None where another process has locked it, it does not exist, or, with
    no `flags`, it is another user's."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
        except FileNotFoundError:
            return None
        except PermissionError:
            if flags:
                raise
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have deleted the file before it was locked.
            if os.fstat(file).st_nlink:
                return file
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            # A file system without locks: a new file can be written, an existing one is left alone.
            if flags:
                return file
            os.close(file)
            return None
        os.close(file)


def lock_directory(path: Path) -> int | None:
    """Return the descriptor of a directory, locked; None where another process has locked it. Raises BackupError where
    it is a symbolic link, or another file."""
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except NotADirectoryError:
        raise BackupError(f"{path} is a symbolic link, or no directory: delete it.") from None
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(directory)
        return None
    return directory


def copy_database(
    reader: sqlite3.Connection, path: Path, file: int, is_cancelled: IsCancelled, *, is_paced: bool
) -> None:
    """Copy the reader's database, in one snapshot, to an empty file with this descriptor. Raises BackupError."""
    begun_s = time.monotonic()

    def sync_and_pause(status: int, remaining: int, whole: int) -> None:
        nonlocal begun_s
        if is_cancelled():
            raise Cancelled
        os.fdatasync(file)
        if is_paced:
            time.sleep(time.monotonic() - begun_s)
        begun_s = time.monotonic()

    # vfs=unix-none: this process holds a lock on the file, and on network file systems SQLite's own would conflict.
    uri = f"{path.resolve().as_uri()}?mode=rw&vfs=unix-none"
    # An incomplete copy is deleted, so it needs no journal; sync_and_pause does the fsync.
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as copy:
        copy.execute("pragma journal_mode = off").fetchall()
        copy.execute("pragma synchronous = off")
        # One snapshot: otherwise the copy would start again after each commit of the server.
        reader.execute("begin")
        try:
            reader.execute("/* backup.snapshot */ select 1 from meta limit 1").fetchall()
            reader.backup(copy, pages=_PAGES_PER_STEP, progress=sync_and_pause)
        except (OSError, sqlite3.OperationalError) as failure:
            raise _write_error(failure, path) from None
        finally:
            reader.execute("rollback")
    os.pwrite(file, _JOURNAL_FORMAT, _FORMAT_OFFSET)


def _write_error(failure: OSError | sqlite3.OperationalError, path: Path) -> Exception:
    """Return a BackupError where the copy could not be written, else the failure itself."""
    name = getattr(failure, "sqlite_errorname", "")
    if isinstance(failure, OSError) or name.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE")):
        return BackupError(f"The copy cannot be written in {path.resolve().parent}: check whether its disk is full.")
    return failure


def check(path: Path, shown: Path, hint: str, is_cancelled: IsCancelled = never) -> int:
    """Read every page and index of a file that no process writes; return its schema version.

    Errors show the path `shown` and end with `hint`. Raises BackupError, BadDatabase, Cancelled.
    """
    try:
        with closing(open_immutable(path)) as connection:
            connection.set_progress_handler(is_cancelled, _PROGRESS_INSTRUCTIONS)
            connection.execute("pragma cell_size_check = on")
            version = known_version(connection, shown, hint)
            result = connection.execute("pragma integrity_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as failure:
        if is_cancelled():
            raise Cancelled from None
        raise read_error(failure, shown, hint) from None
    if result != "ok":
        raise BackupError(f"{shown} is damaged ({result}): {hint}.")
    return version


def check_schema(path: Path, shown: Path, hint: str) -> None:
    """Raise BackupError where the schema of a database of this version is another than that of Tally."""
    with closing(open_immutable(path)) as connection:
        difference = differences(connection)
    if difference:
        raise BackupError(f"{shown}: {difference}: {hint}, or change that in a copy of the file.")


def read_error(failure: sqlite3.DatabaseError, shown: Path, hint: str) -> BackupError:
    """Return the BackupError for a copy that SQLite cannot read."""
    name = getattr(failure, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return BackupError(f"{shown} is not a SQLite database: {hint}.")
    if name.startswith("SQLITE_CORRUPT"):
        return BackupError(f"{shown} is damaged: {hint}.")
    return BackupError(f"{shown} cannot be read ({name or failure}): check its permissions and its disk.")


def open_immutable(path: Path) -> sqlite3.Connection:
    """Return a connection to a file that no process writes: it takes no lock and creates no other file."""
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    return with_schema(sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False))


def give_name(path: Path, target: Path) -> None:
    """Give a complete file its final name. Raises BackupError where that exists by now."""
    try:
        # Unlike rename, link fails where the name exists.
        os.link(path, target)
    except FileExistsError:
        raise BackupError(f"{target} exists already: choose another name. A backup never overwrites a file.") from None
    except OSError:
        # A file system without links.
        os.rename(path, target)
    sync_directory(target)


def sync_directory(path: Path) -> None:
    """Sync the directory of a path, so that names created or deleted there survive a power loss."""
    directory = os.open(path.resolve().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


# --- dated backups


def stamp(now_ms: int) -> str:
    """Return a time as it is written in file names."""
    return datetime.fromtimestamp(now_ms // SECOND_MS, UTC).strftime(_STAMP)


def backups(directory: Path, source: Path) -> list[tuple[int, Path]]:
    """Return this database's dated backups in a directory as (time in ms, path), oldest first."""
    with closing(open_unchanged(source)) as connection:
        salt = key_salt(connection)
    found = [(_time_ms(match["time"]), path) for path, match in _named(directory, source) if _salt(path) == salt]
    return sorted(one for one in found if one[0])


def upgrade_copy_name(source: Path, version: int, now_ms: int) -> str:
    """Return the file name of a copy made before an upgrade from a schema version."""
    return f"{source.stem}-schema-{version}-{stamp(now_ms)}{source.suffix}"


def upgrade_copies(directory: Path, source: Path) -> list[tuple[int, Path]]:
    """Return this database's copies made before upgrades as (schema version, path), the newest first.

    Copies that this release cannot read are not among them; the database itself may be of a newer one.
    """
    try:
        with closing(open_immutable(source)) as connection:
            salt = key_salt(connection)
    except (sqlite3.Error, TypeError, ValueError):
        return []
    found = [
        (_time_ms(match["time"]), int(match["version"]), path)
        for path, match in _named(directory, source, _SCHEMA)
        if _salt(path) == salt
    ]
    return [(version, path) for _, version, path in sorted(found, reverse=True)]


class DatedBackup(NamedTuple):
    """A new dated backup: its path and size in bytes, the older ones deleted for it, and the leftovers deleted."""

    path: Path
    size: int
    rotated: list[Path]
    leftovers: list[Path]


def make_dated(
    source: Path,
    directory: Path,
    keep: int,
    now_ms: int,
    is_cancelled: IsCancelled = never,
    copied: Callable[[], None] = lambda: None,
) -> DatedBackup:
    """Make a dated backup, delete leftovers, keep the newest `keep` of this database. Raises as make_backup does."""
    leftovers = delete_leftovers(directory, source)
    while os.path.lexists(target := directory / f"{source.stem}-{stamp(now_ms)}{source.suffix}"):
        now_ms += SECOND_MS
    size = make_backup(source, target, is_cancelled, copied)
    rotated = superseded([one for one in backups(directory, source) if one[1] != target], keep, now_ms)
    for path in rotated:
        path.unlink()
    return DatedBackup(target, size, rotated, leftovers)


def superseded(older: Iterable[tuple[int, File]], keep: int, now_ms: int) -> list[File]:
    """Return which backups, given as (time in ms, file), are deleted so that `keep` remain with one made at `now_ms`.

    The oldest are, but first those with later times, from when the clock was wrong.
    """
    found = sorted(older, key=lambda one: (one[0] <= now_ms, one[0]))
    return [file for _, file in found[: max(0, len(found) - (keep - 1))]]


def _named(directory: Path, source: Path, kind: str = "", ending: str = "") -> Iterator[tuple[Path, "re.Match[str]"]]:
    time = r"-(?P<time>\d{8}T\d{6}Z)"
    name = re.compile(re.escape(source.stem) + kind + time + re.escape(source.suffix + ending))
    for path in sorted(directory.iterdir()):
        match = name.fullmatch(path.name)
        if match and path.is_file() and not path.is_symlink():
            yield path, match


def _time_ms(stamp: str) -> int:
    """Return the time in a file name; 0 where it is not valid."""
    try:
        return int(datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).timestamp()) * SECOND_MS
    except ValueError:
        return 0


def _salt(path: Path) -> bytes:
    try:
        with closing(open_immutable(path)) as connection:
            known_version(connection, path)
            return key_salt(connection)
    except (sqlite3.Error, BadDatabase, TypeError, ValueError):
        return b""


def delete_leftovers(directory: Path, source: Path) -> list[Path]:
    """Delete the unfinished files of killed backups in a directory; return their paths."""
    deleted = []
    for path, _ in _named(directory, source, f"(?:{_SCHEMA})?", _UNFINISHED):
        file = _lock(path)
        if file is not None:
            path.unlink()
            os.close(file)
            deleted.append(path)
    return deleted
