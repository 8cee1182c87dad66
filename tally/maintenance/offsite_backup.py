"""Backups at a destination on another machine (tally/offsite): made, encrypted, uploaded, verified, and pruned.

A checked copy of the database is made in a directory beside it, as by `backup`, encrypted where recipients are given,
and uploaded. The destination compares what it has stored with the file before the file gets its name. Only then are
older files deleted: all but the newest N backups of this database, the increments that the new backup holds, and those
of another series without a backup.

Ids of events are positions in the database only as long as it is not restored: afterwards they are assigned again. So
names have a series, a random number that is stored in the database. `restore` removes it, and the next backup begins
another one. A database that was replaced by an older copy in another way is recognised by ids that are lower than those
at the destination.
"""

import contextlib
import os
import re
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from tally.accounts.api_keys import key_salt
from tally.clock import Clock
from tally.maintenance.backup import (
    BackupError,
    IsCancelled,
    lock_directory,
    make_backup,
    never,
    open_immutable,
    require_free_space,
    superseded,
)
from tally.maintenance.scheduled_backup import Made, Nightly, lower_priority
from tally.offsite import age, names
from tally.offsite.destination import Destination, DestinationError, open_destination
from tally.settings import BadSetting, Settings
from tally.storage import meta
from tally.storage.database import COMMAND_BUSY_S, BadDatabase, connect_writer, open_unchanged, transaction
from tally.storage.file_lock import set_owner

_DIRECTORY = ".offsite"
# Of this module and of offsite_restore.py: a database with its log or its unfinished copy, an increment, its lines.
_WORK_FILE = re.compile(
    r"backup\.db(?:\.unfinished|\.age|-wal|-shm|-journal)?|increment(?:\.age)?|\d+\.ndjson", re.ASCII
)
# A network that failed is often back soon; a wrong password is not.
_FIRST_PAUSE_NS, _MAX_PAUSE_NS = 60_000_000_000, 3_600_000_000_000


class Offsite(NamedTuple):
    """Where backups of a database go, for whom they are encrypted, and how many are kept."""

    db: Path
    url: str
    credentials: Path | None
    recipients: tuple[str, ...]
    keep: int

    def connect(self) -> Destination:
        """Return the destination; nothing is sent yet. Raises DestinationError."""
        return open_destination(self.url, self.credentials, os.environ)

    @contextlib.contextmanager
    def packed(self, source: BinaryIO) -> Iterator[BinaryIO]:
        """Yield a file as it is uploaded: the same one, or an encrypted copy that has no name."""
        if not self.recipients:
            yield source
            return
        with tempfile.TemporaryFile(dir=self.db.resolve().parent) as target:
            source.seek(0)
            age.encrypt(source, cast(BinaryIO, target), self.recipients)
            yield cast(BinaryIO, target)


def offsite_of(settings: Settings) -> Offsite:
    """Return the destination of the settings; --backup-to is set."""
    return Offsite(
        settings.db,
        settings.backup_to,
        settings.backup_credentials,
        settings.backup_encrypt_to,
        settings.backup_keep,
    )


def check_settings(settings: Settings) -> None:
    """Raise BadSetting for libraries, credentials or keys that are missing. Nothing is sent."""
    try:
        age.check_recipients(settings.backup_encrypt_to)
        offsite_of(settings).connect().close()
    except DestinationError as failure:
        raise BadSetting(str(failure)) from None


# --- the database


def database_id(salt: bytes) -> str:
    """Return the id of a database in names: a digest of its salt, which does not reveal it."""
    return blake2b(salt, digest_size=4, person=b"backup").hexdigest()


def series_of(db: Path, stored: names.Catalog, last_id: int | None) -> str:
    """Return the series of a database, which is begun where there is none.

    last_id: an id up to which the database has all events. If the destination has later ones, the database was replaced
    by an older copy, and another series is begun.
    """
    with closing(open_unchanged(db)) as reader:
        found = meta.read(reader, meta.BACKUP_SERIES)
    if isinstance(found, str) and (last_id is None or stored.last_id(found) <= last_id):
        return found
    with closing(connect_writer(db, COMMAND_BUSY_S)) as writer, transaction(writer):
        now = meta.read(writer, meta.BACKUP_SERIES)
        # Unless another thread has just begun one.
        series = now if isinstance(now, str) and now != found else secrets.token_hex(4)
        meta.write(writer, meta.BACKUP_SERIES, series)
    return series


def identify(path: Path) -> str:
    """Return the id of the database of a file that no process writes. Raises BackupError."""
    try:
        with closing(open_immutable(path)) as connection:
            return database_id(key_salt(connection))
    except (sqlite3.Error, TypeError, ValueError):
        raise BackupError(f"{path} has no key salt: it is no database of Tally.") from None


# --- making one


@contextlib.contextmanager
def work_directory(db: Path) -> Iterator[Path]:
    """Yield a directory beside a database, for this process alone, without leftovers; delete it at the end. Raises
    BackupError."""
    path = db.resolve().with_name(db.name + _DIRECTORY)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    lock = lock_directory(path)
    if lock is None:
        raise BackupError(f"{path} is in use: another backup to a destination, or a restore, is running.")
    try:
        _empty(lock)
        if not os.listdir(lock):
            set_owner(lock, db)
        yield path
    finally:
        with contextlib.suppress(OSError):
            _empty(lock)
            path.rmdir()
        os.close(lock)


def _empty(directory: int) -> None:
    """Delete the files of backups and restores in an open directory, and no others."""
    for name in os.listdir(directory):
        if _WORK_FILE.fullmatch(name):
            os.unlink(name, dir_fd=directory)


def make_offsite(
    offsite: Offsite,
    destination: Destination,
    last_id: int | None,
    now_ms: int,
    is_cancelled: IsCancelled = never,
    copied: Callable[[], None] = lambda: None,
) -> tuple[Made, str, int]:
    """Upload a checked backup and delete what it replaces; return it with its series and position.

    last_id: an id up to which the database has all events; without it, the last one at the destination is used. Raises
    BackupError, BadDatabase, DestinationError, OSError, sqlite3.Error, Cancelled.
    """
    with work_directory(offsite.db) as directory:
        with closing(open_unchanged(offsite.db)) as reader:
            database = database_id(key_salt(reader))
        stored = names.catalog(destination.files()).of(database)
        series = series_of(offsite.db, stored, last_id)
        position = stored.last_id(series) if last_id is None else last_id
        copy = directory / "backup.db"
        make_backup(offsite.db, copy, is_cancelled, copied)
        if offsite.recipients:
            require_free_space(copy, directory)
        with copy.open("rb") as file, offsite.packed(file) as packed:
            if packed is not file:
                # An upload may take hours.
                os.truncate(copy, 0)
            name = names.backup_name(database, now_ms, series, position, is_encrypted=bool(offsite.recipients))
            destination.put(name, packed)
            size = packed.seek(0, os.SEEK_END)
    stored = names.catalog(destination.files()).of(database)
    older = [(backup.time_ms, backup.name) for backup in stored.backups if backup.name != name]
    deleted = superseded(older, offsite.keep, now_ms)
    leftovers = [unfinished for unfinished in stored.unfinished if ".db" in unfinished]
    kept = {backup.series for backup in stored.backups if backup.name not in deleted}
    held = [
        one.name
        for one in stored.increments
        if (one.to <= position if one.series == series else one.series not in kept)
    ]
    for replaced in (*deleted, *leftovers, *held):
        destination.delete(replaced)
    return Made(name, size, len(deleted), len(leftovers)), series, position


# --- each night


class OffsiteBackup(Nightly):
    """Makes a backup at a destination each night, and one at once where increments need a backup to begin with.

    `last_id` returns an id up to which all events are committed; `began` is called with the series and the position of
    each backup; `is_needed` returns whether increments wait for one.
    """

    title = "nightly backup to another machine"
    known = (BackupError, BadDatabase, DestinationError)

    def __init__(self, offsite: Offsite, hour: int, clock: Clock, last_id: Callable[[], int]) -> None:
        super().__init__(offsite.db, hour, clock)
        self._offsite, self._last_id, self._position = offsite, last_id, 0
        self.began: Callable[[str, int], None] = lambda series, position: None
        self.is_needed: Callable[[], bool] = lambda: False

    def pause_ns(self, failures: int) -> int:
        """Return a pause that doubles with each failure, up to an hour."""
        return min(_FIRST_PAUSE_NS << min(failures - 1, 10), _MAX_PAUSE_NS)

    def start_if_due(self, now_ms: int) -> None:
        """Start a backup if one is due. Called every second."""
        self._position = self._last_id()
        if self.is_needed():
            self.last_ms = 0
        super().start_if_due(now_ms)

    def newest_ms(self, now_ms: int) -> int:
        """Return the time of the newest backup at the destination; 0 where increments need one now."""
        if self.is_needed():
            return 0
        with closing(open_unchanged(self._db)) as reader:
            database = database_id(key_salt(reader))
        with closing(self._offsite.connect()) as destination:
            stored = names.catalog(destination.files()).of(database)
        return max((backup.time_ms for backup in stored.backups if backup.time_ms <= now_ms), default=0)

    def make(self, now_ms: int) -> Made:
        """Upload a backup."""
        with closing(self._offsite.connect()) as destination:
            made, series, position = make_offsite(
                self._offsite, destination, self._position, now_ms, self._is_cancelled.is_set, lower_priority
            )
        self.began(series, position)
        return made
