"""Replace the database with a backup, while no server runs.

A checked copy of the backup is made beside the database and migrated there. Whatever can fail has failed by then, with
nothing changed. The copy then replaces the database in one rename, so a complete database is at the path at all times.
The previous database is kept beside it as `analytics.db.replaced-20261122T030000Z`; only its owner deletes it. Files
that were uploaded to it and not imported are deleted: they belong to its websites.

SQLite finds the write-ahead log by the database's path, so the previous database's log must not stay there: SQLite
would write it into the restored one. It is checkpointed into the previous database first; where that one is damaged,
missing or empty, or cannot be written, its log is renamed along with it. So is a journal, which a transaction without a
log has. If a restore is killed then, the next start renames both back.
"""

import contextlib
import glob
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from tally.accounts.audit import Entry, by_command, record
from tally.maintenance.backup import (
    BackupError,
    check,
    check_schema,
    copy_database,
    never,
    open_immutable,
    read_error,
    require_free_space,
    stamp,
    sync_directory,
)
from tally.resources import UPLOAD_ENDINGS, uploads_directory
from tally.storage import meta
from tally.storage.database import REPLACED, RESTORING, VERSION, known_version, open_database, transaction, with_schema
from tally.storage.file_lock import set_owner
from tally.timestamps import SECOND_MS

# The endings of a log and of a journal.
_LOGS = ("-wal", "-journal")
_HINT = "choose another backup"


def restore(file: Path, db: Path, now_ms: int, name: str = "") -> list[Path]:
    """Replace the database at `db` with a checked copy of `file`; return the paths of the previous one, if any, and of
    its log and journal, where these could not be written into it. `name`: that of the backup, if it is not the file's.

    The caller holds the server's lock. Raises BackupError, OSError, sqlite3.Error.
    """
    db = db.resolve()
    check_paths(file, db)
    copy = _copy_path(db)
    delete_leftovers(db)
    require_free_space(file, db.parent)
    try:
        try:
            _copy_backup(file, copy)
        except sqlite3.DatabaseError as failure:
            raise read_error(failure, file, _HINT) from None
        if check(copy, file, _HINT) < VERSION:
            # The backup itself stays as it is.
            open_database(copy, create=False, before_migration=lambda version: None).close()
            check(copy, file, _HINT)
        check_schema(copy, file, _HINT)
        _prepare(copy, name or file.name, now_ms)
        give_and_sync(copy, db)
        kept = _replace(copy, db, now_ms)
        _delete_uploads(db)
        return kept
    finally:
        delete_leftovers(db)


def _copy_path(db: Path) -> Path:
    return db.with_name(db.name + RESTORING)


def check_paths(file: Path, db: Path) -> None:
    """Raise BackupError where the paths alone show that `file` cannot be restored to `db`."""
    if not file.is_file():
        raise BackupError(f"{file} is not a file: name a backup that `backup` has made.")
    if db.is_dir():
        raise BackupError(f"{db} is a directory: name the database file with --db.")
    if db.exists() and os.path.samefile(file, db):
        raise BackupError(f"{file} is the database itself: name a backup of it.")
    if not db.resolve().parent.is_dir():
        raise BackupError(f"The directory {db.resolve().parent} does not exist: create it, or name another with --db.")


def _copy_backup(file: Path, copy: Path) -> None:
    descriptor = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with closing(_open_backup(file)) as reader:
            known_version(reader, file, _HINT)
            copy_database(reader, copy, descriptor, never, is_paced=False)
    finally:
        os.close(descriptor)


def _prepare(copy: Path, name: str, now_ms: int) -> None:
    """Have the next backup to another machine begin a new series, since ids of events will be assigned again; write the
    line of the audit log."""
    with closing(with_schema(sqlite3.connect(copy, isolation_level=None))) as connection, transaction(connection):
        if meta.read(connection, meta.BACKUP_SERIES) is not None:
            meta.delete(connection, meta.BACKUP_SERIES)
        record(connection, by_command(None), Entry("database_restored", target=name), now_ms)


def _open_backup(file: Path) -> sqlite3.Connection:
    """Return a reader of a backup, with the write-ahead log that a copy made by hand may have beside it."""
    if not file.with_name(file.name + "-wal").exists():
        return open_immutable(file)
    return with_schema(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None))


def _replace(copy: Path, db: Path, now_ms: int) -> list[Path]:
    kept = _free_name(db, now_ms)
    if db.exists():
        # SQLite would delete the log of an empty database.
        if db.stat().st_size or not any(_has_content(db, ending) for ending in _LOGS):
            _checkpoint(db)
        _keep(db, kept)
    for ending in _LOGS:
        if _has_content(db, ending):
            # At its old name SQLite would write it into the restored database.
            os.rename(_beside(db, ending), _beside(kept, ending))
        _beside(db, ending).unlink(missing_ok=True)
    _beside(db, "-shm").unlink(missing_ok=True)
    sync_directory(db)
    os.replace(copy, db)
    sync_directory(db)
    return [path for path in (kept, *(_beside(kept, ending) for ending in _LOGS)) if path.exists()]


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _has_content(path: Path, ending: str) -> bool:
    log = _beside(path, ending)
    return log.exists() and log.stat().st_size > 0


def _checkpoint(db: Path) -> None:
    """Write a database's log into it, unless it is too damaged. Raises BackupError where another process uses it."""
    try:
        with closing(sqlite3.connect(db, timeout=1, isolation_level=None)) as connection:
            # Set before the first read; then SQLite reports any other process that has the file open.
            connection.execute("pragma locking_mode = exclusive").fetchall()
            connection.execute("begin exclusive")
            connection.execute("rollback")
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    except sqlite3.DatabaseError as failure:
        name = getattr(failure, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise BackupError(f"{db} is in use by another program: stop it, or wait until it is done.") from None
    except UnicodeDecodeError:
        pass  # too damaged: the message of SQLite's error has bytes of the file


def _delete_uploads(db: Path) -> None:
    # Not the directory: it may be a link to a larger disk, and to a directory that has other files too.
    with contextlib.suppress(OSError):
        for path in uploads_directory(db).iterdir():
            if path.suffix in UPLOAD_ENDINGS and not path.is_dir():
                path.unlink()


def _free_name(db: Path, now_ms: int) -> Path:
    while True:
        kept = _beside(db, f"{REPLACED}{stamp(now_ms)}")
        if not any(os.path.lexists(_beside(kept, ending)) for ending in ("", *_LOGS)):
            return kept
        now_ms += SECOND_MS


def _keep(db: Path, kept: Path) -> None:
    try:
        os.link(db, kept)
    except OSError:
        # A file system without links: for a moment the path does not exist. `check_path` refuses what a kill leaves.
        os.rename(db, kept)


def give_and_sync(copy: Path, db: Path) -> None:
    """Give a complete copy the owner of the database, or of its directory, and have it on the disk."""
    file = os.open(copy, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        set_owner(file, db)
        os.fsync(file)
    finally:
        os.close(file)


def delete_leftovers(db: Path) -> None:
    """Delete the files of a restore that was killed. The caller holds the server's lock."""
    db = db.resolve()
    copy = _copy_path(db)
    _delete_second_name(db)
    for ending in ("", "-wal", "-shm", "-journal"):
        _beside(copy, ending).unlink(missing_ok=True)


def _delete_second_name(db: Path) -> None:
    """Delete the name under which a killed restore meant to keep a database that it did not replace. Rename its log
    back, unless the database was changed since: the log would overwrite that."""
    if db.is_file() and db.stat().st_nlink > 1:
        for name in db.parent.glob(f"{glob.escape(db.name)}{REPLACED}*"):
            if os.path.samefile(name, db):
                for ending in _LOGS:
                    log = _beside(name, ending)
                    is_last = log.exists() and db.stat().st_mtime_ns <= log.stat().st_ctime_ns
                    if is_last and not _has_content(db, ending):
                        os.rename(log, _beside(db, ending))
                name.unlink()
