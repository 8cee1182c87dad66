"""Puts a backup in the database's place, while no server runs.

A checked copy of the backup is made beside the database and brought up to date there; whatever may fail has failed by
then, and nothing is changed. Only then does it take the database's place, in one step, so that at every moment a whole
database stands at the path. What was there before is kept beside it, with the time in its name: `analytics.db.replaced-
20261122T030000Z`; only its owner deletes it.

SQLite's log belongs to the database that it lies beside. What the old one's still holds is folded into the old one
first; a log that cannot be, of a damaged one, goes along with it: left where it is, it would be written into the new.
"""

import contextlib
import glob
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from tally.maintenance.backup import (
    BackupError,
    check,
    copy_database,
    never,
    open_frozen,
    refuse_without_room,
    stamp,
    sync_folder,
    unreadable,
)
from tally.storage.database import VERSION, known_version, open_database

_RESTORING = ".restoring"
_ANOTHER = "name another backup"


def restore(file: Path, db: Path, now_ms: int) -> Path | None:
    """Puts a checked copy of `file` in the place of the database at `db`; where the one that was there is kept now.

    The caller holds the lock that says that no server runs. Raises BackupError, OSError, sqlite3.Error.
    """
    db = db.resolve()
    refuse_what_is_no_backup(file, db)
    copy = _copy_of(db)
    drop_leftovers(db)
    refuse_without_room(file, db.parent)
    try:
        try:
            _copy_to_restore(file, copy)
        except sqlite3.DatabaseError as failure:
            raise unreadable(failure, file, _ANOTHER) from None
        if check(copy, file, _ANOTHER) < VERSION:
            open_database(copy, create=False).close()
            check(copy, file, _ANOTHER)
        _own(copy, db)
        _sync(copy)
        return _put_in_place(copy, db, now_ms)
    finally:
        drop_leftovers(db)


def _copy_of(db: Path) -> Path:
    return db.with_name(db.name + _RESTORING)


def refuse_what_is_no_backup(file: Path, db: Path) -> None:
    """Tells apart, by a look at paths alone, what cannot be restored there. Raises BackupError."""
    if not file.is_file():
        raise BackupError(f"{file} is no file: name a backup that `backup` has made.")
    if db.is_dir():
        raise BackupError(f"{db} is a folder: name the database file with --db.")
    if db.exists() and os.path.samefile(file, db):
        raise BackupError(f"{file} is the database itself: name a backup of it.")
    if not db.resolve().parent.is_dir():
        raise BackupError(f"The folder {db.resolve().parent} does not exist: create it, or name another with --db.")


def _copy_to_restore(file: Path, copy: Path) -> None:
    descriptor = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with closing(_opened_backup(file)) as reader:
            known_version(reader, file, _ANOTHER)
            copy_database(reader, copy, descriptor, never)
    finally:
        os.close(descriptor)


def _opened_backup(file: Path) -> sqlite3.Connection:
    """A reader of a backup, together with the log that may stand beside one that was copied by hand."""
    if not file.with_name(file.name + "-wal").exists():
        return open_frozen(file)
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)


def _put_in_place(copy: Path, db: Path, now_ms: int) -> Path | None:
    log, shared = (db.with_name(db.name + ending) for ending in ("-wal", "-shm"))
    kept = None
    if db.exists():
        _fold_log_in(db)
        kept = _free_name(db, now_ms)
        _keep(db, kept)
        if log.exists():
            # Left where it is, SQLite would write it into the restored one.
            os.rename(log, kept.with_name(kept.name + "-wal"))
    log.unlink(missing_ok=True)
    shared.unlink(missing_ok=True)
    sync_folder(db)
    os.replace(copy, db)
    sync_folder(db)
    return kept


def _fold_log_in(db: Path) -> None:
    """Makes one file of a database and its log, where it is not too damaged for that; nobody else may have it open."""
    try:
        with closing(sqlite3.connect(db, timeout=1, isolation_level=None)) as connection:
            # Before anything is read: then it holds whoever else has the file open to be in the way.
            connection.execute("pragma locking_mode = exclusive").fetchall()
            connection.execute("begin exclusive")
            connection.execute("rollback")
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    except sqlite3.DatabaseError as failure:
        name = getattr(failure, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise BackupError(f"{db} is being used by another program: end it, or wait until it is done.") from None


def _free_name(db: Path, now_ms: int) -> Path:
    while os.path.lexists(kept := db.with_name(f"{db.name}.replaced-{stamp(now_ms)}")):
        now_ms += 1000
    return kept


def _keep(db: Path, kept: Path) -> None:
    try:
        os.link(db, kept)
    except OSError:
        # A file system without links: for a moment nothing stands at the path.
        os.rename(db, kept)


def _own(copy: Path, db: Path) -> None:
    """Gives the copy to whose the database is: root may restore what a server of another user is to open."""
    owner = (db if db.exists() else db.parent).stat()
    if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.chown(copy, owner.st_uid, owner.st_gid)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def drop_leftovers(db: Path) -> None:
    """Takes away what a killed restoring has left. The caller holds the server's lock."""
    db = db.resolve()
    copy = _copy_of(db)
    _drop_second_name(db)
    for ending in ("", "-wal", "-shm", "-journal"):
        copy.with_name(copy.name + ending).unlink(missing_ok=True)


def _drop_second_name(db: Path) -> None:
    """Takes the name away by which a killed restoring wanted to keep a database that it had not replaced yet."""
    if db.is_file() and db.stat().st_nlink > 1:
        for name in db.parent.glob(f"{glob.escape(db.name)}.replaced-*"):
            if os.path.samefile(name, db):
                name.unlink()
