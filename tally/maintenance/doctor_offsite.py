"""The checks of `doctor` of backups on another machine: the newest one, and a drill that restores it.

The drill gets the newest backup and its increments into a temporary directory beside the database, checks the result
as `restore` does, and reads from it what a person can compare: the age of the backup, the schema version, the newest
event, and how many websites and events there are. It changes nothing.
"""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tally.accounts.api_keys import key_salt
from tally.accounts.websites import all_websites
from tally.maintenance import offsite_restore
from tally.maintenance.backup import BackupError, open_immutable
from tally.maintenance.doctor_checks import OLD_BACKUP_MS, Case, Finding, fault, fine
from tally.maintenance.offsite_backup import database_id, offsite_of
from tally.offsite import names
from tally.offsite.destination import Destination, DestinationError
from tally.rounding import counted
from tally.storage.database import VERSION, BadDatabase, open_unchanged
from tally.timestamps import HOUR_MS, MINUTE_MS, iso
from tally.transfer.exporter import count_events, newest_ms

_TOPIC, _DRILL = "offsite", "drill"


def offsite(case: Case) -> Iterator[Finding]:
    """Check the newest backup at --backup-to."""
    try:
        with closing(offsite_of(case.settings).connect()) as destination:
            stored = _stored(case, destination)
    except (DestinationError, BadDatabase) as failure:
        yield fault(_TOPIC, str(failure))
        return
    if not stored.backups:
        todo = "make one now: `analytics-server backup`; the log of the server has the reason of a failed one"
        yield fault(_TOPIC, "there is no backup of this database at --backup-to", todo)
        return
    age_ms = case.now_ms - stored.backups[-1].time_ms
    counts = f"{counted(len(stored.backups), 'backup')} and {counted(len(stored.increments), 'increment')}"
    words = f"{counts}, the newest backup {_age(age_ms)} old"
    if age_ms > OLD_BACKUP_MS:
        todo = "check that the server runs with --backup-to; its log has the reason of a failed backup"
        yield fault(_TOPIC, words, todo)
    else:
        yield fine(_TOPIC, words)


def restore_drill(case: Case) -> Iterator[Finding]:
    """Restore the newest backup at --backup-to into a temporary directory, and check it."""
    try:
        with (
            closing(offsite_of(case.settings).connect()) as destination,
            tempfile.TemporaryDirectory(dir=case.path.parent, prefix=f"{case.path.name}.drill-") as directory,
        ):
            database = _stored(case, destination).backups
            name = database[-1].name if database else ""
            fetched = offsite_restore.fetch(
                destination,
                case.settings.backup_to,
                name,
                case.identity,
                Path(directory),
                case.now_ms,
                lambda words: None,
            )
            yield from _examined(case, fetched)
    except (BackupError, BadDatabase, DestinationError, sqlite3.Error) as failure:
        yield fault(_DRILL, f"the newest backup cannot be restored: {failure}")


def _stored(case: Case, destination: Destination) -> names.Catalog:
    with closing(open_unchanged(case.path)) as reader:
        database = database_id(key_salt(reader))
    return names.catalog(destination.files()).of(database)


def content_of(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return the number of websites and of events, and the time of the newest event (0 without any)."""
    websites = all_websites(connection)
    newest = max((newest_ms(connection, website.number) for website in websites), default=0)
    return len(websites), sum(count_events(connection, website.number) for website in websites), newest


def _examined(case: Case, fetched: offsite_restore.Fetched) -> Iterator[Finding]:
    with closing(open_immutable(fetched.path)) as connection:
        websites, events, newest_ms = content_of(connection)
    newest = f"the newest of {iso(newest_ms)}" if events else "none"
    yield fine(
        _DRILL,
        f"{fetched.backup.name} is {_age(case.now_ms - fetched.backup.time_ms)} old, complete and undamaged,"
        f" schema version {VERSION}",
    )
    if fetched.increments:
        words = f"{len(fetched.increments)} increments add {fetched.restored.events:,} events"
        if fetched.gaps:
            todo = "make a backup now: `analytics-server backup`"
            yield fault(_DRILL, f"{words}, and {len(fetched.gaps)} increments are missing", todo)
        elif fetched.restored.invalid:
            yield fault(_DRILL, f"{words}, and {fetched.restored.invalid:,} lines of them are invalid")
        else:
            yield fine(_DRILL, words)
    yield fine(_DRILL, f"it holds {counted(websites, 'website')}, {counted(events, 'event')}, {newest}")


def _age(ms: int) -> str:
    return f"{ms // MINUTE_MS} minutes" if ms < 2 * HOUR_MS else f"{ms // HOUR_MS} hours"
