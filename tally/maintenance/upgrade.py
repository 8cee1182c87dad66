"""The copy of a database that is made before an upgrade of its schema, what an upgrade would do, and the way back.

`serve` and `upgrade` pass `copy_first` to open_database (tally/storage/database.py), which calls it before the first
migration, under the lock of the server. The copy is made as a backup is: checked, synced, and complete when it has its
name, `analytics-schema-1-20261122T030000Z.db`, where 1 is the schema version. It is in --backup-dir, or beside the
database. An upgrade for which it cannot be made is refused, unless --upgrade-backup is no.

After each new copy the newest copy of each schema version is kept, of at most two versions; others of this database are
deleted. Nightly backups have other names: neither rule deletes files of the other.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tally.maintenance.backup import (
    BackupError,
    delete_leftovers,
    make_backup,
    open_immutable,
    require_free_space,
    upgrade_copies,
    upgrade_copy_name,
)
from tally.settings import Settings
from tally.storage.database import (
    VERSION,
    DatabaseError,
    NewerDatabase,
    explained,
    known_version,
    log_of,
    open_unchanged,
)
from tally.storage.migrations import MIGRATIONS, Migration
from tally.storage.wal import size_bytes
from tally.timestamps import SECOND_MS

# The copy of this upgrade, and that of the one before.
KEPT_VERSIONS = 2
ADVICE = (
    "Correct this, or name a directory on another disk with --backup-dir, or set --upgrade-backup no to upgrade without"
    " a copy."
)


class Plan(NamedTuple):
    """What a start or `upgrade` would do: the migrations that it would run, and where it would write the copy.

    `directory` is None without a copy; `obstacle` is the reason why the copy could not be made, "" where it could.
    """

    version: int
    newest: int
    migrations: Sequence[Migration]
    directory: Path | None
    bytes: int
    free_bytes: int
    obstacle: str


def plan(settings: Settings, migrations: Sequence[Migration] = MIGRATIONS) -> Plan:
    """Return what an upgrade of the database would do; change nothing. Raises BadDatabase."""
    version, db = _version(settings.db), settings.db.resolve()
    missing = migrations[version - 1 :]
    directory = copy_directory(settings) if missing and settings.upgrade_backup == "yes" else None
    free_bytes, obstacle = 0, ""
    if directory is not None:
        try:
            free_bytes = shutil.disk_usage(directory).free
            require_free_space(db, directory)
            if not os.access(directory, os.W_OK | os.X_OK):
                obstacle = f"{directory} cannot be written by this user."
        except BackupError as failure:
            obstacle = str(failure)
        except OSError as failure:
            obstacle = f"{directory} cannot be used: {failure.strerror}."
    return Plan(version, 1 + len(migrations), missing, directory, size_bytes(db), free_bytes, obstacle)


def _version(path: Path) -> int:
    """Return the schema version of a database. Raises BadDatabase."""
    if log_of(path).exists() or not path.is_file():
        with closing(open_unchanged(path)) as connection:
            return known_version(connection, path)
    try:
        # Any other connection would create the log, which one that cannot write does not delete.
        with closing(open_immutable(path)) as connection:
            return known_version(connection, path)
    except DatabaseError as failure:
        raise explained(failure, path) from None


def copy_directory(settings: Settings) -> Path:
    """Return the directory in which copies before upgrades are made."""
    return (settings.backup_dir or settings.db.resolve().parent).resolve()


def copy_first(settings: Settings, report: Callable[[str], None], now_ms: int, version: int) -> None:
    """Make the copy before the upgrade of a database from a schema version, unless the settings exclude it.

    `report` is called with one line that names the copy. Raises BackupError, BadDatabase.
    """
    if settings.upgrade_backup == "no":
        report(f"upgrade: from schema version {version} to {VERSION}, without a copy (--upgrade-backup no)")
        return
    db, directory = settings.db.resolve(), copy_directory(settings)
    try:
        delete_leftovers(directory, db)
        copy = _free_name(directory, db, version, now_ms)
        # No server runs, and clients wait.
        size = make_backup(db, copy, is_paced=False)
        _prune(directory, db, version, copy)
    except (BackupError, OSError) as failure:
        raise BackupError(
            f"The database was not upgraded, because no copy of it could be made before. {failure} {ADVICE}"
        ) from None
    report(f"upgrade: the database of schema version {version} is kept as {copy} ({size:,} bytes, checked)")


def _free_name(directory: Path, db: Path, version: int, now_ms: int) -> Path:
    while os.path.lexists(path := directory / upgrade_copy_name(db, version, now_ms)):
        now_ms += SECOND_MS
    return path


def _prune(directory: Path, db: Path, version: int, made: Path) -> None:
    # The new one is kept even where a wrong clock dated older ones into the future.
    kept = {version}
    for other, path in upgrade_copies(directory, db):
        if path == made:
            continue
        if other in kept or len(kept) == KEPT_VERSIONS:
            path.unlink()
        kept.add(other)


def way_back(newer: NewerDatabase, settings: Settings) -> str:
    """Return the error for a database of a newer release, with the command that restores the copy made before."""
    db = settings.db.resolve()
    if newer.path.resolve() != db:
        return str(newer)
    for directory in dict.fromkeys((copy_directory(settings), db.parent)):
        for _, copy in upgrade_copies(directory, db) if directory.is_dir() else ():
            return (
                f"{newer.problem}: install the newer release again, or go back to the database as it was before that"
                f" upgrade: stop the server and run `analytics-server restore {copy} --db {db}`."
            )
    return (
        f"{newer.problem}: install the newer release again, or stop the server and restore a backup made before that"
        f" upgrade: `analytics-server restore BACKUP --db {db}`."
    )
