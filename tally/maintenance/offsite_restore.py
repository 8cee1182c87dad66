"""Get a backup from a destination, with the events of the increments after it, as a checked database file.

The backup is downloaded into a directory of the caller, decrypted, checked (every page and index), and upgraded if an
older release made it. The increments that continue it are downloaded one by one; their events are imported into it
(tally/transfer/increments.py). Nothing else is changed; tally/maintenance/restore.py puts the file in place.

A destination is not trusted: names follow a pattern, and what is downloaded has to be a database of Tally whose id is
the one of the name. A backup of other origin, encrypted for the same public key, is not recognised.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from tally.maintenance.backup import BackupError, check, check_schema, read_error
from tally.maintenance.offsite_backup import identify
from tally.offsite import age, names
from tally.offsite.destination import Destination
from tally.rounding import counted
from tally.storage.database import open_database
from tally.transfer.files import BadFile
from tally.transfer.increments import Collection, Restored

_HINT = "choose another backup"
# Of increments, which are compressed: their lines, and the rows that these become.
_GROWTH = 20
Report = Callable[[str], None]


class Fetched(NamedTuple):
    """A database file from a destination: the backup, the increments after it and their compressed size, and what they
    added. `gaps` are ranges of ids (after, to] of which an increment is missing."""

    path: Path
    backup: names.Backup
    increments: list[names.Increment]
    restored: Restored
    gaps: list[tuple[int, int]]


def split_name(url: str) -> tuple[str, str]:
    """Return the URL of a destination and the name of a backup, if the URL ends with one, else ""."""
    parts = urlsplit(url)
    directory, _, name = parts.path.rpartition("/")
    if not names.catalog([(name, 0)]).backups:
        return url, ""
    return urlunsplit(parts._replace(path=directory)), name


def choose(stored: names.Catalog, name: str, where: str) -> names.Backup:
    """Return the newest backup, or that of a name. Raises BackupError."""
    found = [backup for backup in stored.backups if name in ("", backup.name)]
    if not found:
        what = f"no backup {name}" if name else "no backup of Tally"
        raise BackupError(f"There is {what} at {where}: check the URL.")
    databases = sorted({backup.database for backup in found})
    if len(databases) > 1:
        newest = [max(backup for backup in found if backup.database == one).name for one in databases]
        raise BackupError(
            f"There are backups of {len(databases)} databases at {where}: add /NAME to the URL, such as"
            f" {' or '.join(newest)}."
        )
    return found[-1]


def fetch(
    destination: Destination,
    where: str,
    name: str,
    identity: Path | None,
    directory: Path,
    now_ms: int,
    report: Report,
) -> Fetched:
    """Return the newest backup, or that of a name, with its increments, as a file in an empty directory.

    Raises BackupError, BadDatabase, DestinationError, OSError, sqlite3.Error.
    """
    # However many increments there are, nothing else may have their events.
    stored = names.catalog(destination.files(limit=None))
    backup = choose(stored, name, where)
    increments = [
        one for one in stored.of(backup.database).increments if one.series == backup.series and one.to > backup.position
    ]
    _require_space(backup, increments, directory)
    for earlier, count in _of_other_series(stored.of(backup.database), backup.series):
        report(
            f"{earlier} and {counted(count, 'increment')} after it are of the database before it was replaced:"
            " to restore them instead, add /NAME of that backup to the URL"
        )
    path = directory / "backup.db"
    report(f"downloading {backup.name}, {backup.size:,} bytes")
    _download(destination, backup, identity, path)
    _check(path, backup)
    collection = Collection(directory)
    for increment in increments:
        file = directory / "increment"
        _download(destination, increment, identity, file)
        try:
            collection.add(file)
        except BadFile as bad:
            raise BackupError(f"{increment.name}: {bad}") from None
        file.unlink()
    last_id = max((one.to for one in increments), default=0)
    with closing(open_database(path, create=False, before_migration=lambda version: None)) as connection:
        try:
            restored = collection.restore(connection, last_id, now_ms, report)
        except BadFile as bad:
            raise BackupError(str(bad)) from None
    check(path, Path(backup.name), _HINT)
    check_schema(path, Path(backup.name), _HINT)
    return Fetched(path, backup, increments, restored, list(_gaps(backup, increments)))


def _require_space(backup: names.Backup, increments: list[names.Increment], directory: Path) -> None:
    needed, free = 2 * backup.size + _GROWTH * sum(one.size for one in increments), shutil.disk_usage(directory).free
    if free < needed:
        raise BackupError(f"{directory.parent} needs {needed:,} bytes, and {free:,} are free: free space first.")


def _download(
    destination: Destination, stored: names.Backup | names.Increment, identity: Path | None, target: Path
) -> None:
    name = stored.name
    is_encrypted = name.endswith(age.SUFFIX)
    first = target.with_name(target.name + age.SUFFIX) if is_encrypted else target
    with _new(first) as file:
        for block in destination.get(name, stored.size):
            file.write(block)
    if is_encrypted:
        with first.open("rb") as source, _new(target) as file:
            age.decrypt(source, file, identity, name)
        first.unlink()


def _new(path: Path) -> BinaryIO:
    path.touch(mode=0o600, exist_ok=False)
    return path.open("wb")


def _check(path: Path, backup: names.Backup) -> None:
    try:
        check(path, Path(backup.name), _HINT)
    except sqlite3.DatabaseError as failure:
        raise read_error(failure, Path(backup.name), _HINT) from None
    if identify(path) != backup.database:
        raise BackupError(f"{backup.name} is the backup of another database than its name says: {_HINT}.")


def _of_other_series(stored: names.Catalog, series: str) -> Iterator[tuple[str, int]]:
    """Yield the newest backup of each other series that has increments after it, and how many."""
    newest = {backup.series: backup for backup in stored.backups if backup.series != series}
    for backup in newest.values():
        count = sum(one.series == backup.series and one.to > backup.position for one in stored.increments)
        if count:
            yield backup.name, count


def _gaps(backup: names.Backup, increments: list[names.Increment]) -> Iterator[tuple[int, int]]:
    # A backup made by the command has the position of the increments there were, maybe none.
    reached = backup.position
    for increment in increments:
        if increment.after > reached > 0:
            yield reached, increment.after
        reached = max(reached, increment.to)
