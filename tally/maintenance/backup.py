"""Copies of the database as files: made beside a running server, counted, swept, and put back.

A copy is one snapshot, taken page by page on a connection that only reads, so nobody who writes waits for it; what it
does hold up while it lasts is the emptying of SQLite's log. It goes in small steps, each on the disk before the next
and followed by a rest as long as it took: a commit's fsync never stands behind more than one of them. When it is whole
it is checked (`integrity_check`, every page and index), and only then gets its name, which nobody has had. Until then
it is called `NAME.unfinished` and locked: whoever finds one without a lock may take it away.

Dated copies stand in a folder, `analytics-20261122T030000Z.db`. Of them the newest N stay. What is counted and deleted
has such a name, is a regular file, and holds a copy of this very database (its key salt says so); nothing else in the
folder is touched.
"""

import contextlib
import fcntl
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tally.accounts import queries as accounts
from tally.storage.database import BadDatabase, known_version, open_unchanged

# our choice: 4 MB, some 40 ms of a slow disk.
_PAGES_A_STEP = 1_024
# our choice, what SQLite's log may grow to: on the database's own disk as much is left to it.
LEFT_BYTES = 64 * 1_048_576
_STEPS_BETWEEN_LOOKS = 100_000
_UNFINISHED = ".unfinished"
_STAMP = "%Y%m%dT%H%M%SZ"
# https://sqlite.org/fileformat2.html, bytes 18 and 19: 2 is a database with a log beside it, 1 one without.
_FORMAT_OFFSET, _WITHOUT_LOG = 18, b"\1\1"

IsOver = Callable[[], bool]


class BackupError(Exception):
    """A copy cannot be made or put back; the message says why and what to do."""


class Stopped(Exception):
    """Nobody wants the copy any more."""


def never() -> bool:
    """It is wanted to the end."""
    return False


# --- making one


def make_backup(source: Path, target: Path, is_over: IsOver = never, copied: Callable[[], None] = lambda: None) -> int:
    """Makes a checked copy of the database at `source`; its size in bytes. `copied` is called before the check.

    Raises BackupError, BadDatabase, OSError, sqlite3.Error; Stopped once `is_over`.
    """
    if os.path.lexists(target):
        raise BackupError(f"{target} exists already: name another file, a backup never overwrites.")
    if not target.resolve().parent.is_dir():
        raise BackupError(f"The folder {target.resolve().parent} does not exist: create it first.")
    refuse_without_room(source, target.resolve().parent)
    with _unfinished(target) as (path, file):
        with closing(open_unchanged(source)) as reader:
            copy_database(reader, path, file, is_over)
        copied()
        check(path, path, "the database is too, or the disk is", is_over)
        os.fsync(file)
        size = os.fstat(file).st_size
        _name(path, target)
    return size


def refuse_without_room(source: Path, folder: Path) -> None:
    """Raises BackupError where a copy would fill the disk, and stop a server that writes to the same one."""
    needed, free = source.stat().st_size, shutil.disk_usage(folder).free
    if source.stat().st_dev == folder.stat().st_dev:
        needed += LEFT_BYTES
    if free < needed:
        raise BackupError(f"A copy needs room for {needed:,} bytes in {folder}; {free:,} are left: make some first.")


@contextlib.contextmanager
def _unfinished(target: Path) -> Iterator[tuple[Path, int]]:
    """A locked, empty file beside the target, and its descriptor; gone afterwards."""
    path = target.with_name(target.name + _UNFINISHED)
    file = _locked(path, os.O_CREAT)
    if file is None:
        raise BackupError(f"{path} is being written: another backup to the same name is under way.")
    try:
        os.ftruncate(file, 0)
        yield path, file
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def _locked(path: Path, flags: int = 0) -> int | None:
    """The descriptor of a file that is locked now; None where somebody else has it, or it is not there."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between opening and locking somebody may have swept it away.
            if os.fstat(file).st_nlink:
                return file
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            # A file system without locks: what is new can be written, what is there is left alone.
            if flags:
                return file
            os.close(file)
            return None
        os.close(file)


def copy_database(reader: sqlite3.Connection, path: Path, file: int, is_over: IsOver) -> None:
    """Copies the reader's database, in one snapshot, to an empty file and its descriptor. Raises BackupError."""
    begun_s = time.monotonic()

    def rest(status: int, remaining: int, whole: int) -> None:
        nonlocal begun_s
        if is_over():
            raise Stopped
        os.fdatasync(file)
        time.sleep(time.monotonic() - begun_s)
        begun_s = time.monotonic()

    # Ours alone, so SQLite need not lock it: on a network's disk its locks and ours would exclude each other.
    uri = f"{path.resolve().as_uri()}?mode=rw&vfs=unix-none"
    # A copy that breaks off is thrown away: no journal, and fsync is done here.
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as copy:
        copy.execute("pragma journal_mode = off").fetchall()
        copy.execute("pragma synchronous = off")
        # One snapshot: else each commit of the server would have the copy begin anew.
        reader.execute("begin")
        try:
            reader.execute("/* backup.snapshot */ select 1 from meta limit 1").fetchall()
            reader.backup(copy, pages=_PAGES_A_STEP, progress=rest)
        except (OSError, sqlite3.OperationalError) as failure:
            raise _room_failure(failure, path) from None
        finally:
            reader.execute("rollback")
    os.pwrite(file, _WITHOUT_LOG, _FORMAT_OFFSET)


def _room_failure(failure: OSError | sqlite3.OperationalError, path: Path) -> Exception:
    """The same in words, where the place of the copy is at fault."""
    name = getattr(failure, "sqlite_errorname", "")
    if isinstance(failure, OSError) or name.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE")):
        return BackupError(f"The copy cannot be written in {path.resolve().parent}: look whether its disk is full.")
    return failure


def check(path: Path, called: Path, hint: str, is_over: IsOver = never) -> int:
    """Looks at every page and index of a file that nobody writes to; its version. Raises BackupError, BadDatabase."""
    try:
        with closing(open_frozen(path)) as connection:
            connection.set_progress_handler(is_over, _STEPS_BETWEEN_LOOKS)
            version = known_version(connection, called, hint)
            verdict = connection.execute("pragma integrity_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as failure:
        if is_over():
            raise Stopped from None
        raise unreadable(failure, called, hint) from None
    if verdict != "ok":
        raise BackupError(f"{called} is damaged ({verdict}): {hint}.")
    return version


def unreadable(failure: sqlite3.DatabaseError, called: Path, hint: str) -> BackupError:
    """What SQLite says of a copy."""
    name = getattr(failure, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return BackupError(f"{called} is no SQLite database: {hint}.")
    if name.startswith("SQLITE_CORRUPT"):
        return BackupError(f"{called} is damaged: {hint}.")
    return BackupError(f"{called} cannot be read ({name or failure}): look at its permissions and its disk.")


def open_frozen(path: Path) -> sqlite3.Connection:
    """A connection to a file that nobody writes to: it takes no lock and leaves nothing beside it."""
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def _name(path: Path, target: Path) -> None:
    """Gives a finished file its name, unless somebody has it by now."""
    try:
        # Unlike renaming, it fails where the name is taken.
        os.link(path, target)
    except FileExistsError:
        raise BackupError(f"{target} exists already: name another file, a backup never overwrites.") from None
    except OSError:
        # A file system without links.
        os.rename(path, target)
    sync_folder(target)


def sync_folder(path: Path) -> None:
    """Has the names in the path's folder on the disk."""
    folder = os.open(path.resolve().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# --- a folder of dated ones


def stamp(now_ms: int) -> str:
    """A moment as it stands in names."""
    return datetime.fromtimestamp(now_ms // 1000, UTC).strftime(_STAMP)


def backups(folder: Path, source: Path) -> list[tuple[int, Path]]:
    """This database's dated backups in a folder, oldest first, each with its time in ms."""
    with closing(open_unchanged(source)) as connection:
        salt = accounts.key_salt(connection)
    found = [(_time_ms(match[1]), path) for path, match in _named(folder, source) if _salt(path) == salt]
    return sorted(one for one in found if one[0])


class Made(NamedTuple):
    """A new dated backup: where, its size in bytes, which older ones went for it, and which leftovers."""

    path: Path
    size: int
    gone: list[Path]
    swept: list[Path]


def make_dated(
    source: Path,
    folder: Path,
    keep: int,
    now_ms: int,
    is_over: IsOver = never,
    copied: Callable[[], None] = lambda: None,
) -> Made:
    """Makes a dated backup, keeps the newest `keep` of this database's, sweeps. Raises as make_backup does."""
    swept = sweep(folder, source)
    while os.path.lexists(target := folder / f"{source.stem}-{stamp(now_ms)}{source.suffix}"):
        now_ms += 1000
    size = make_backup(source, target, is_over, copied)
    return Made(target, size, _rotate(folder, source, keep, target), swept)


def _named(folder: Path, source: Path, ending: str = "") -> Iterator[tuple[Path, "re.Match[str]"]]:
    name = re.compile(re.escape(source.stem) + r"-(\d{8}T\d{6}Z)" + re.escape(source.suffix + ending))
    for path in sorted(folder.iterdir()):
        match = name.fullmatch(path.name)
        if match and path.is_file() and not path.is_symlink():
            yield path, match


def _time_ms(stamp: str) -> int:
    """The time of a name; 0 where it is none."""
    try:
        return int(datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        return 0


def _salt(path: Path) -> bytes:
    try:
        with closing(open_frozen(path)) as connection:
            known_version(connection, path)
            return accounts.key_salt(connection)
    except (sqlite3.Error, BadDatabase, TypeError, ValueError):
        return b""


def _rotate(folder: Path, source: Path, keep: int, made: Path) -> list[Path]:
    # Never the one just made, whatever the clock said when the others were.
    old = [path for _, path in backups(folder, source) if path != made]
    gone = old[: max(0, len(old) - (keep - 1))]
    for path in gone:
        path.unlink()
    return gone


def sweep(folder: Path, source: Path) -> list[Path]:
    """Takes away what killed backups of this name have left in a folder; those deleted."""
    gone = []
    for path, _ in _named(folder, source, _UNFINISHED):
        file = _locked(path)
        if file is not None:
            path.unlink()
            os.close(file)
            gone.append(path)
    return gone
