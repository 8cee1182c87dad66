"""Checks before a server starts, and the cleanup after a start that failed.

Checked before anything is created: the database's path is not another kind of file, the file has only one name, and
--backup-dir is writable. SQLite finds its log, and a server its lock, by the path of the database: under two names of
one file two processes would each have their own, and overwrite each other's pages.

Then the server takes the lock, and the check of the database begins in a thread, while the rest of the server is
imported (`begun`). In this order: opening and closing a file releases the locks that SQLite has on it. The check opens
the file for reading alone, and nothing else opens it before its result: a file that is refused stays as it is, and so
does a log beside it, which SQLite would write into the file and delete.

A start that fails after that (the port is in use, country data cannot be read) deletes the database and the lock file
that it created itself, so that a mistyped option leaves nothing behind.
"""

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tally.maintenance.restore import delete_leftovers
from tally.settings import BadSetting, Settings
from tally.storage.database import (
    APPLICATION_ID,
    BadDatabase,
    check_path,
    connect_writer,
    refuse_second_name,
    with_schema,
)
from tally.storage.file_lock import lock_file
from tally.storage.health import begin_check

# https://www.sqlite.org/fileformat2.html, 1.3: the magic string, and the application id at offset 68.
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_APPLICATION_ID_OFFSET = 68
# `doctor` takes the lock for a moment to see whether a server has it.
_LOCK_S = 0.5


class Start:
    """A start that has begun. `check` waits for the check of the database; set `is_listening` at its end."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.check, self.is_listening = check, False


@contextlib.contextmanager
def begun(settings: Settings) -> Iterator[Start]:
    """Check the settings, take the lock and begin the check of the database; undo what a failed start has created.

    Raises BadDatabase or BadSetting. Within the block, other code closes the connections that it opens.
    """
    attempt = Attempt(settings.db)
    with locked(settings):
        start = Start(begin_check(settings.db))
        try:
            yield start
        finally:
            if not start.is_listening:
                _close_log(settings.db, start)
                attempt.undo()


@contextlib.contextmanager
def locked(settings: Settings) -> Iterator[None]:
    """Check the settings, and hold the server's lock within the block. Raises BadDatabase or BadSetting."""
    check(settings)
    lock = lock_file(settings.db, _LOCK_S)
    try:
        delete_leftovers(settings.db)
        yield
    finally:
        os.close(lock)


def _close_log(path: Path, start: Start) -> None:
    """Delete the log that the check may have created and, reading alone, cannot delete."""
    with contextlib.suppress(BadDatabase, sqlite3.Error):
        start.check()
        connect_writer(path).close()


def check(settings: Settings) -> None:
    """Raise BadDatabase or BadSetting for a start that cannot succeed. No connection may be open in this process."""
    check_path(settings.db, create=True)
    _check_file(settings.db)
    refuse_second_name(settings.db)
    if settings.backup_dir is not None:
        _check_backup_dir(settings.backup_dir)
    if settings.backup_to:
        from tally.maintenance.offsite_backup import check_settings  # here: most servers do not need it

        check_settings(settings)
    elif settings.backup_increment_seconds or settings.backup_encrypt_to:
        raise BadSetting("--backup-increment-seconds and --backup-encrypt-to need --backup-to: set it, or unset them")


def _check_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return  # missing or not readable: the error of opening it names the reason
    if not header:
        return
    if not header.startswith(_MAGIC):
        raise BadDatabase(f"{path} is not a SQLite database: name another file with --db.")
    id_bytes = header[_APPLICATION_ID_OFFSET : _APPLICATION_ID_OFFSET + 4]
    # 0: a file whose creation was interrupted, which opening it completes.
    if int.from_bytes(id_bytes.ljust(4, b"\0"), "big") not in (0, APPLICATION_ID):
        raise BadDatabase(f"{path} is the database of another program: name another file with --db.")


def _check_backup_dir(folder: Path) -> None:
    if not folder.is_dir():
        what = "is not a directory" if folder.exists() else "does not exist"
        raise BadSetting(f"--backup-dir: {folder.resolve()} {what}: create it, or name another directory")
    try:
        # Only writing shows missing permissions, a read-only file system and a quota alike.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as failure:
        raise BadSetting(
            f"--backup-dir: {folder.resolve()} cannot be written ({failure.strerror}): give this user write permission,"
            " or name another directory"
        ) from None


class Attempt:
    """Records which files exist before a start; `undo` deletes those that the start created."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._created = [name for name in self._names() if not name.exists()]

    def _names(self) -> tuple[Path, ...]:
        return tuple(self._path.with_name(self._path.name + ending) for ending in ("", "-wal", "-shm", ".lock"))

    def undo(self) -> None:
        """Delete the files of a start that failed; the caller holds the lock and has closed its connections."""
        if self._path in self._created and self._path.exists() and not _is_unused(self._path):
            return
        if self._path.exists() and self._path not in self._created:
            self._created = [name for name in self._created if name.suffix == ".lock"]
        for name in self._created:
            with contextlib.suppress(OSError):
                name.unlink(missing_ok=True)


def _is_unused(path: Path) -> bool:
    """Return whether no command has created an account in a new database meanwhile."""
    from tally.accounts.accounts import has_account  # here: a start that succeeds does not need it yet

    try:
        uri = f"{path.as_uri()}?mode=ro"
        with contextlib.closing(with_schema(sqlite3.connect(uri, uri=True, isolation_level=None))) as connection:
            return not has_account(connection)
    except sqlite3.Error:
        # The start failed before it created the tables.
        return os.path.getsize(path) == 0
