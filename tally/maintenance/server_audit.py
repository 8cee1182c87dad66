"""Lines of the audit log about what no person does: other settings or a newer schema at a start, keys that expire.

What a start is compared with is in table `meta`: the schema version, and of each setting a keyed hash of its value, so
that no line and no row has a secret of the settings. A line names the settings that differ.
"""

import contextlib
import sqlite3
from dataclasses import fields
from hashlib import blake2b

from tally.accounts.api_keys import all_api_keys, key_salt
from tally.accounts.audit import Entry, by_server, record
from tally.settings import Settings
from tally.storage import meta
from tally.storage.database import VERSION, transaction


def record_start(connection: sqlite3.Connection, settings: Settings, now_ms: int) -> None:
    """Write lines about what differs from the last start of a server on this database.

    Where the file cannot be written, the start goes on; the next one finds the same difference.
    """
    with contextlib.suppress(sqlite3.Error), transaction(connection):
        _record_start(connection, settings, now_ms)


def _record_start(connection: sqlite3.Connection, settings: Settings, now_ms: int) -> None:
    salt = key_salt(connection)
    values = {
        one.name: blake2b(repr(getattr(settings, one.name)).encode(), digest_size=8, key=salt).hexdigest()
        for one in fields(settings)
    }
    before, now = meta.read(connection, meta.START), {"schema": VERSION, "settings": values}
    if before == now:
        return
    meta.write(connection, meta.START, now)
    if not isinstance(before, dict):
        return
    if before["schema"] != VERSION:
        entry = Entry("database_upgraded", detail={"schema": [before["schema"], VERSION]})
        record(connection, by_server(), entry, now_ms)
    changed = sorted(name for name, value in values.items() if before["settings"].get(name) != value)
    if changed:
        record(connection, by_server(), Entry("settings_changed", detail={"settings": changed}), now_ms)


def record_expired_keys(connection: sqlite3.Connection, now_ms: int) -> None:
    """Write a line for each key that has expired since the last call, in a transaction of the caller."""
    until_ms = meta.read(connection, meta.KEYS_EXPIRED)
    expired = [
        key
        for key in all_api_keys(connection).values()
        if key.grant.expires_ms is not None and (until_ms or 0) < key.grant.expires_ms <= now_ms
    ]
    for key in expired:
        record(connection, by_server(key.account), Entry("key_expired", target=key.label), now_ms)
    if expired:
        meta.write(connection, meta.KEYS_EXPIRED, max(key.grant.expires_ms or 0 for key in expired))


def record_failed_backup(connection: sqlite3.Connection, title: str, now_ms: int) -> None:
    """Write a line about a backup that failed, in a transaction of the caller."""
    record(connection, by_server(), Entry("backup_failed", target=title), now_ms)
