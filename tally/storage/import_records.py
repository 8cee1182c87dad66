"""Imports of files: the tables `import` and `import_range`.

An import has a row from its first transaction on. The row has what the list of imports shows, and while the import is
not complete its progress, with which the same file continues. It stays when the import is undone
(tally/maintenance/undo.py).

An event has no reference to the import that stored it. Each transaction of an import takes its ids in one piece, and
`import_range` has these pieces, joined where one follows the other: an import beside no other writer has one row.
All functions run within a transaction, or on a snapshot, of the caller.
"""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

RUNNING, INTERRUPTED, COMPLETE, UNDOING, UNDONE = "running", "interrupted", "complete", "undoing", "undone"
FOLLOWING = "following"
# A transaction takes 50 ms, reading a chunk of lines a second.
_SILENT_AFTER_MS = 30_000
# A log may have no line for hours.
_ENDED_AFTER_MS = 24 * 3_600_000


class Counts(NamedTuple):
    """The number of stored events, duplicate and rejected lines, stored sums, counted requests of crawlers, and lines
    that the format skips, by reason."""

    events: int
    duplicates: int
    rejected: int
    sums: int
    crawls: int
    skipped: Mapping[str, int]


class ImportRecord(NamedTuple):
    """An import. `first_day` and `last_day` are days of what it stored, else None; `position` is in bytes."""

    website: int
    number: int
    format: str
    digest: str
    file: str
    state: str
    begun_ms: int
    changed_ms: int
    events: int
    duplicates: int
    rejected: int
    sums: int
    crawls: int
    skipped: Mapping[str, int]
    first_day: int | None
    last_day: int | None
    position: int
    size: int

    def state_at(self, now_ms: int) -> str:
        """Return the state: `interrupted` where a running import, or one that follows a log, has not written for long,
        as after a kill."""
        silent_after_ms = {RUNNING: _SILENT_AFTER_MS, FOLLOWING: _ENDED_AFTER_MS}.get(self.state)
        is_silent = silent_after_ms is not None and abs(now_ms - self.changed_ms) > silent_after_ms
        return INTERRUPTED if is_silent else self.state


_COLUMNS = ", ".join(ImportRecord._fields)
_WIDER = "first_day = coalesce(min(first_day, ?), first_day, ?), last_day = coalesce(max(last_day, ?), last_day, ?)"


def records(connection: sqlite3.Connection, website: int) -> list[ImportRecord]:
    """Return the imports of a website, newest first."""
    rows = connection.execute(
        f"/* import_records.all */ select {_COLUMNS} from import where website = ? order by number desc", (website,)
    )
    return [_record(row) for row in rows]


def record(connection: sqlite3.Connection, website: int, number: int) -> ImportRecord | None:
    """Return an import of a website; None where there is none of that number."""
    row = connection.execute(
        f"/* import_records.one */ select {_COLUMNS} from import where website = ? and number = ?", (website, number)
    ).fetchone()
    return _record(row) if row else None


def _record(row: tuple[object, ...]) -> ImportRecord:
    record = ImportRecord(*row)  # type: ignore[arg-type]
    return record._replace(skipped=orjson.loads(str(record.skipped)))


# --- writing


def unfinished(connection: sqlite3.Connection, website: int, format: str, digest: str) -> tuple[int, str] | None:
    """Return the number and the progress of the import of a file that is not complete."""
    row = connection.execute(
        "/* import_records.unfinished */ select number, progress from import"
        " where website = ? and format = ? and digest = ? and state in ('running', 'interrupted', 'following')"
        " and progress is not null",
        (website, format, digest),
    ).fetchone()
    return (int(row[0]), str(row[1])) if row else None


def begin(connection: sqlite3.Connection, website: int, format: str, digest: str, file: str, now_ms: int) -> int:
    """Insert an import; return its number."""
    ((number,),) = connection.execute(
        "/* import_records.begin */ insert into import (website, number, format, digest, file, state, begun_ms,"
        " changed_ms, events, duplicates, rejected, sums, crawls, skipped, position, size)"
        " values (?1, (select coalesce(max(number), 0) + 1 from import where website = ?1),"
        " ?2, ?3, ?4, 'running', ?5, ?5, 0, 0, 0, 0, 0, '{}', 0, 0) returning number",
        (website, format, digest, file, now_ms),
    ).fetchall()
    return int(number)


def save(
    connection: sqlite3.Connection,
    website: int,
    number: int,
    counts: Counts,
    days: tuple[int, int] | None,
    place: tuple[int, int],
    progress: str | None,
    state: str = RUNNING,
) -> None:
    """Store how far a running import is. `days`: first and last of what is new; `place`: bytes read, and of how
    many."""
    first_day, last_day = days or (None, None)
    connection.execute(
        "/* import_records.save */ update import set state = ?, changed_ms = ?, events = ?, duplicates = ?,"
        f" rejected = ?, sums = ?, crawls = ?, skipped = ?, {_WIDER}, position = ?, size = ?, progress = ?"
        " where website = ? and number = ?",
        (
            *(state, time.time_ns() // 1_000_000, *counts[:5], orjson.dumps(dict(counts.skipped)).decode()),
            *(first_day, first_day, last_day, last_day, *place, progress, website, number),
        ),
    )


def count(
    connection: sqlite3.Connection, website: int, number: int, added: Sequence[int], days: tuple[int, int] | None
) -> None:
    """Add stored events, sums and requests of crawlers to an import. `days`: the first and last of them."""
    first_day, last_day = days or (None, None)
    connection.execute(
        "/* import_records.count */ update import set events = events + ?, sums = sums + ?, crawls = crawls + ?,"
        f" {_WIDER}"
        " where website = ? and number = ?",
        (*added, first_day, first_day, last_day, last_day, website, number),
    )


def end(connection: sqlite3.Connection, website: int, number: int, state: str) -> None:
    """Store that an import is interrupted or complete; one may be interrupted after its last line."""
    connection.execute(
        "/* import_records.end */ update import set state = ?1, progress = iif(?1 = 'complete', null, progress),"
        " position = iif(?1 = 'complete', size, position) where website = ?2 and number = ?3"
        " and state in ('running', 'interrupted', 'following')",
        (state, website, number),
    )


def last_ids(connection: sqlite3.Connection, website: int, number: int) -> range:
    """Return the last piece of ids of a website, where it is of an import."""
    row = connection.execute(
        "/* import_records.last_ids */ select first_id, end_id, import from import_range where website = ?"
        " order by first_id desc limit 1",
        (website,),
    ).fetchone()
    return range(row[0], row[1]) if row and row[2] == number else range(0)


def add_ids(connection: sqlite3.Connection, website: int, number: int, before: range, ids: range) -> range:
    """Record the ids of new events of an import; return the piece with them. `before`: the piece before."""
    if not ids:
        return before
    if before and before.stop == ids.start:
        connection.execute(
            "/* import_records.longer */ update import_range set end_id = ? where website = ? and first_id = ?",
            (ids.stop, website, before.start),
        )
        return range(before.start, ids.stop)
    connection.execute(
        "/* import_records.ids */ insert into import_range (website, first_id, end_id, import) values (?, ?, ?, ?)",
        (website, ids.start, ids.stop, number),
    )
    return ids


def forget(connection: sqlite3.Connection, website: int, number: int) -> None:
    """Delete what is stored of an import but for its events, which then count as collected ones."""
    for table, column in (("import", "number"), ("import_range", "import"), ("import_id", "import")):
        connection.execute(
            f"/* import_records.forget */ delete from {table} where website = ? and {column} = ?", (website, number)
        )


def undoing(connection: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return (website, number) of the imports that are being undone."""
    return connection.execute(
        "/* import_records.undoing */ select website, number from import where state = 'undoing'"
        " order by website, number"
    ).fetchall()


def with_old_keys(connection: sqlite3.Connection, now_ms: int) -> list[tuple[int, int]]:
    """Return (website, number) of the imports of logs that nothing follows any more, which have the key of a day."""
    return connection.execute(
        "/* import_records.with_old_keys */ select website, number from import"
        " where state in ('following', 'interrupted') and changed_ms < ? and progress ->> '$.head' != ''"
        " and progress ->> '$.secret' != '' order by website, number",
        (now_ms - _ENDED_AFTER_MS,),
    ).fetchall()


def delete_key(connection: sqlite3.Connection, website: int, number: int) -> None:
    """Delete the key of an import's day. Where its log is followed again, what is new is a new import."""
    connection.execute(
        "/* import_records.delete_key */ update import set progress = json_set(progress, '$.secret', '')"
        " where website = ? and number = ?",
        (website, number),
    )


# --- which import an event belongs to

IMPORT_OF = (
    "(select iif(end_id > {id}, import, null) from import_range where website = {website} and first_id <= {id}"
    " order by first_id desc limit 1)"
)
"""SQL for the number of the import that stored the event of an id; null where none did."""


def has_events(connection: sqlite3.Connection, website: int, day: int, besides: int) -> bool:
    """Return whether another import may have stored events of a day."""
    return (
        connection.execute(
            "/* import_records.other */ select 1 from import where website = ? and number != ?"
            " and ? between first_day and last_day and state != 'undone' limit 1",
            (website, besides, day),
        ).fetchone()
        is not None
    )
