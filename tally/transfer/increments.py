"""Increments: files of the events that were committed since the last one, from which a restored backup is continued.

An increment is NDJSON, gzip-compressed. Before the lines of a website is one that describes it, so that a website that
is newer than the backup can be created; an event is a line of tally/transfer/line_format.py, with its id and visitor.
It has no events of imports: their files are imported again.

Restoring imports the lines of all increments, website by website, through the same code as `import`: a line whose event
the backup has is skipped. Visitors keep their numbers, so that one with events before and after the backup is one
visitor. Afterwards nothing is left of these imports: the events are as if they had been collected.
"""

import gzip
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import orjson

from tally.accounts.accounts import Account, AccountError, all_accounts, create_account, find_account
from tally.accounts.websites import add_website, all_websites, place_days
from tally.events.website import Website
from tally.storage import import_records
from tally.storage.database import Connection, snapshot, transaction
from tally.transfer.exporter import Part, part_lines
from tally.transfer.files import BadFile, Source, open_source
from tally.transfer.importer import import_events

# As of an export (tally/transfer/files.py).
_GZIP_LEVEL = 1
_HEAD = "website_id"
# What the list of imports calls it until it is complete. The name of an uploaded file is never in parentheses alone.
_FILE = "(increments)"
_LOCAL_OWNER = "owner@localhost"
# Websites whose lines are written at a time; files of others are closed meanwhile.
_MAX_OPEN = 64
_OFFSETS = range(-720, 841, 15)


class Restored(NamedTuple):
    """What increments added to a database: events, those that it had, invalid lines, and the websites created."""

    events: int
    known: int
    invalid: int
    websites: list[str]


def write_increment(
    connection: sqlite3.Connection,
    out: BinaryIO,
    after: int,
    to: int,
    ranges: Mapping[int, Sequence[tuple[int, int]]] | None,
    every: Sequence[tuple[int, int]],
) -> bool:
    """Write the events with ids in (after, to]; return whether there are any.

    ranges: the times in which they lie, by website; without it, the times `every` of all websites.
    """
    is_empty = True
    with gzip.GzipFile("", "wb", _GZIP_LEVEL, out, mtime=0) as packed, snapshot(connection):
        names = {number: account.name for number, account in all_accounts(connection).items()}
        for website in all_websites(connection):
            website_ranges = every if ranges is None else ranges.get(website.number, ())
            has_head = False
            for lines in (
                part_lines(connection, website.number, Part(after, to, website_ranges)) if website_ranges else ()
            ):
                if not has_head:
                    packed.write(_head(website, names[website.account]))
                has_head, is_empty = True, False
                packed.write(lines)
    return not is_empty


def _head(website: Website, email: str) -> bytes:
    described = {
        _HEAD: website.id,
        "domain": website.domain,
        "name": website.name,
        "origins": sorted(website.origins),
        "created_ms": website.created_ms,
        "time_zone": website.time_zone,
        "day_offset_minutes": website.day_offset_minutes,
        "account": email,
    }
    return orjson.dumps(described, option=orjson.OPT_APPEND_NEWLINE)


class Collection:
    """The lines of increments by website, in files of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # By id of the website: the content of its first line, and the file of its events.
        self._websites: dict[str, tuple[dict[str, Any], Path]] = {}

    def add(self, increment: Path) -> None:
        """Add the lines of an increment. Raises BadFile."""
        with open_source(str(increment)) as source, ExitStack() as closing:
            opened: dict[str, BinaryIO] = {}
            out: BinaryIO | None = None
            for line, _ in source.lines():
                if line is not None and line.startswith(b'{"%s":' % _HEAD.encode()):
                    head = _read_head(line, source)
                    id = head[_HEAD]
                    path = self._websites.setdefault(id, (head, self._directory / f"{len(self._websites)}.ndjson"))[1]
                    if id not in opened:
                        if len(opened) >= _MAX_OPEN:
                            closing.close()
                            opened.clear()
                        opened[id] = closing.enter_context(cast(BinaryIO, path.open("ab")))
                    out = opened[id]
                elif line and out is not None:
                    out.write(line + b"\n")
                elif line:
                    raise BadFile(f"{source.name} does not begin with a website: it is no increment.")

    def restore(self, connection: Connection, last_id: int, now_ms: int, report: Callable[[str], None]) -> Restored:
        """Import the lines into a database that no process uses. last_id: the greatest id of any line.

        Raises BadFile.
        """
        with transaction(connection):
            # New ids are above those of all lines, so that no line is taken for another row.
            connection.execute(
                "/* increments.ids */ update meta set value = max(value, ?) where name = 'next_id'", (last_id + 1,)
            )
        numbers = {website.id: website.number for website in all_websites(connection)}
        result = Restored(0, 0, 0, [])
        for id, (head, path) in self._websites.items():
            if id not in numbers:
                with transaction(connection):
                    _create(connection, head)
                result.websites.append(head["domain"])
                numbers = {website.id: website.number for website in all_websites(connection)}
            with transaction(connection):
                place_days(connection, numbers[id], head["time_zone"], head["day_offset_minutes"])
            with open_source(str(path)) as source:
                imported = import_events(
                    connection, numbers[id], source, now_ms=now_ms, file=_FILE, keeps_visitors=True, report=report
                )
            result = Restored(
                result.events + imported.accepted,
                result.known + imported.duplicates,
                result.invalid + imported.bad,
                result.websites,
            )
            _forget_import(connection, numbers[id])
        return result


def _read_head(line: bytes, source: Source) -> dict[str, Any]:
    try:
        head = orjson.loads(line)
        texts = [head[name] for name in (_HEAD, "domain", "name", "account")]
        is_valid = all(isinstance(text, str) for text in (*texts, *head["origins"])) and type(head["created_ms"]) is int
        is_valid = is_valid and isinstance(head["time_zone"], str | None) and head["day_offset_minutes"] in _OFFSETS
        if not is_valid or len(head[_HEAD]) != 36:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise BadFile(f"{source.name} has an invalid description of a website: it is no increment.") from None
    return cast(dict[str, Any], head)


def _create(connection: sqlite3.Connection, head: Mapping[str, Any]) -> None:
    """Create a website that is newer than the backup, for its account, or the oldest one where that is newer too."""
    owner = _owner(connection, head["account"])
    add_website(connection, owner, head["domain"], head["name"], head["origins"], head["created_ms"], head[_HEAD])


def _owner(connection: sqlite3.Connection, email: str) -> Account:
    try:
        return find_account(connection, email)
    except AccountError:
        accounts = all_accounts(connection)
    if not accounts:
        return create_account(connection, _LOCAL_OWNER, "business", None, 0)
    return accounts[min(accounts)]


def _forget_import(connection: Connection, website: int) -> None:
    """Delete the records of the import of increments; its events stay."""
    with transaction(connection):
        for record in import_records.records(connection, website):
            if record.file == _FILE:
                import_records.forget(connection, website, record.number)
