"""The commands on the whole database file: backup, restore, verify, compact, retention.

All but restore work while the server runs, in short transactions. An interrupted command leaves a consistent file and
can be run again. What is marked to be rebuilt is rebuilt by a running server within seconds, or by the next start.
"""

import argparse
import os
import re
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tally.accounts.audit import Entry, by_command, record
from tally.accounts.websites import all_websites, find_website
from tally.cli.console import (
    Failure,
    Progress,
    add_setting,
    add_website_argument,
    argument,
    database,
    now_ms,
    say,
    set_function,
    show_row,
)
from tally.engine.archive import Verdict
from tally.events.urls import readable_host
from tally.events.website import Website
from tally.maintenance import backup as backup_module
from tally.maintenance import restore as restore_module
from tally.maintenance import retention
from tally.maintenance.compact import compact, free_pages
from tally.maintenance.verify import LOST
from tally.rounding import counted
from tally.settings import Settings, backup_url, path_of
from tally.storage.database import Connection, open_unchanged, transaction
from tally.storage.file_lock import lock_file
from tally.storage.wal import size_bytes, truncate_wal_without_server
from tally.timestamps import DAY_MS, iso

_MAX_SHOWN = 20


def add_backup(parser: argparse.ArgumentParser) -> None:
    """Add the options of `backup`."""
    set_function(parser, _backup)
    _add_file(parser, "the new file; with --keep, an existing directory; without it, the place of --backup-to", "?")
    parser.add_argument(
        "--keep",
        metavar="N",
        type=argument(_how_many),
        help="make a dated backup in the directory FILE, and delete all but the newest N of this database",
    )
    for name in ("backup_to", "backup_credentials", "backup_encrypt_to"):
        add_setting(parser, name)


def add_restore(parser: argparse.ArgumentParser) -> None:
    """Add the options of `restore`."""
    set_function(parser, _restore)
    _add_file(parser, "the backup; it is copied, and the previous database is kept", "?")
    parser.add_argument(
        "--from",
        dest="url",
        metavar="URL",
        type=argument(backup_url),
        help="get the newest backup, and the events after it, from a place that --backup-to has named; with /NAME at"
        " its end, that backup",
    )
    parser.add_argument(
        "--identity", metavar="FILE", type=argument(path_of), help="private key of age, for an encrypted backup"
    )
    add_setting(parser, "backup_credentials")


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the options of `verify`."""
    set_function(parser, _verify)
    parser.description = (
        "Compute rollups, the sums from which reports are answered, again from raw events, and compare."
    )
    add_website_argument(parser, nargs="?", help="id or domain (default: all websites)")
    parser.add_argument("--repair", action="store_true", help="have wrong rollups rebuilt by the server")


def add_compact(parser: argparse.ArgumentParser) -> None:
    """Add the options of `compact`."""
    set_function(parser, _compact)


def add_retention(parser: argparse.ArgumentParser) -> None:
    """Add the options of `retention`."""
    set_function(parser, _retention)
    parser.description = (
        "Show or set how long raw events are kept. Without arguments it lists all websites; with WEBSITE and DAYS it"
        " shows what the change would delete, and with --yes it makes the change."
    )
    add_website_argument(parser, nargs="?", help="id or domain (default: list all websites)")
    parser.add_argument(
        "days",
        metavar="DAYS",
        nargs="?",
        type=argument(_check_days),
        help=f"how long: {retention.MIN_KEEP_DAYS} days or more, `forever`, or `default` (that of the server)",
    )
    parser.add_argument("--yes", action="store_true", help="apply it; without this option, only show the effect")
    add_setting(parser, "keep_days")


def _add_file(parser: argparse.ArgumentParser, help: str, nargs: str | None = None) -> None:
    parser.add_argument("file", metavar="FILE", type=argument(path_of), help=help, nargs=nargs)


# --- backup and restore


def _how_many(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < 1:
        raise ValueError(f"must be a whole number of at least 1 (got {text!r})")
    return int(text)


def _backup(arguments: argparse.Namespace, settings: Settings) -> None:
    if arguments.file is None and not settings.backup_to:
        arguments.parser.error("name a FILE, or give --backup-to URL")
    say(f"database: {settings.db.resolve()}")
    # Distinguishes a path without a database from a damaged one.
    open_unchanged(settings.db).close()
    if arguments.file is None:
        _backup_offsite(settings if arguments.keep is None else replace(settings, backup_keep=arguments.keep))
        return
    if arguments.keep is not None:
        _backup_into(arguments.file, arguments.keep, settings.db)
        return
    if arguments.file.is_dir():
        raise Failure(f"{arguments.file} is a directory: name a file in it, or add --keep N for dated backups.")
    size = backup_module.make_backup(settings.db, arguments.file)
    say(f"backup: {arguments.file.resolve()}, {size:,} bytes, checked")


def _backup_into(directory: Path, keep: int, db: Path) -> None:
    if not directory.is_dir():
        raise Failure(f"{directory.resolve()} is not a directory: create it first; dated backups are kept in it.")
    made = backup_module.make_dated(db, directory, keep, now_ms())
    for path in made.leftovers:
        say(f"deleted an incomplete backup: {path.name}")
    for path in made.rotated:
        say(f"deleted the oldest backup: {path.name}")
    say(f"backup: {made.size:,} bytes, checked")
    print(made.path.resolve())


def _backup_offsite(settings: Settings) -> None:
    # here: most installations do not need it, as below
    from tally.maintenance.offsite_backup import make_offsite, offsite_of
    from tally.offsite.destination import DestinationError

    offsite = offsite_of(settings)
    try:
        with closing(offsite.connect()) as destination:
            made, _, _ = make_offsite(offsite, destination, None, now_ms())
    except DestinationError as failure:
        raise Failure(str(failure)) from None
    say(f"backup: {made.size:,} bytes, checked, uploaded and compared; deleted {made.deleted} older ones")
    print(made.name)


def _restore(arguments: argparse.Namespace, settings: Settings) -> None:
    if (arguments.file is None) == (arguments.url is None):
        arguments.parser.error("name a FILE, or give --from URL")
    say(f"database: {settings.db.resolve()}")
    if arguments.url is None:
        restore_module.check_paths(arguments.file, settings.db)
    lock = lock_file(settings.db)
    try:
        if arguments.url is None:
            kept, source = restore_module.restore(arguments.file, settings.db, now_ms()), str(arguments.file.resolve())
        else:
            kept, source = _restore_offsite(arguments, settings)
    finally:
        os.close(lock)
    say(f"restored from {source}, checked")
    for path in kept:
        if path.name.endswith(("-wal", "-journal")):
            say(f"the log of the previous database could not be written into it and is kept as {path}")
        else:
            say(f"the previous database is kept as {path}: delete it when it is no longer needed")


def _restore_offsite(arguments: argparse.Namespace, settings: Settings) -> tuple[list[Path], str]:
    """Restore from another machine; return the paths of the previous database, and the name of the backup."""
    from tally.maintenance.offsite_backup import work_directory
    from tally.maintenance.offsite_restore import fetch, split_name
    from tally.offsite.destination import DestinationError, open_destination

    url, name = split_name(arguments.url)
    try:
        with (
            closing(open_destination(url, settings.backup_credentials, os.environ)) as destination,
            work_directory(settings.db) as directory,
        ):
            fetched = fetch(destination, url, name, arguments.identity, directory, now_ms(), say)
            restored, increments = fetched.restored, len(fetched.increments)
            say(f"imported {restored.events:,} events of {increments:,} increments after the backup")
            for domain in restored.websites:
                say(f"created the website {readable_host(domain)}, which is newer than the backup: check its settings")
            if restored.invalid:
                say(f"{restored.invalid:,} lines of increments are invalid and were skipped, see above")
                say("find the cause, such as the clock, before you start a server: its next backup deletes increments")
            for after, to in fetched.gaps:
                say(f"an increment is missing: events with ids from {after + 1} to {to} may be lost")
            kept = restore_module.restore(fetched.path, settings.db, now_ms(), fetched.backup.name)
            return kept, fetched.backup.name
    except DestinationError as failure:
        raise Failure(str(failure)) from None


# --- verify


class Wrong(NamedTuple):
    """How many days and blocks of days are wrong; of these, the days that only a backup has."""

    blocks: int
    lost: int


def _verify(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        chosen = [find_website(connection, arguments.website)] if arguments.website else all_websites(connection)
        wrong = lost = 0
        for website in chosen:
            result = _verify_one(connection, settings, website, arguments.repair)
            wrong, lost = wrong + result.blocks, lost + result.lost
    if lost:
        raise Failure(f"{counted(lost, 'day')} can only be restored from a backup: see above.")
    if wrong and not arguments.repair:
        raise Failure(f"{_blocks_are(wrong)} wrong: rebuild with `verify --repair`.")


def _verify_one(connection: Connection, settings: Settings, website: Website, repair: bool) -> Wrong:
    """Verify a website and print the result."""
    from tally.cli.archives import archive_of, done, iterated

    archive = archive_of(settings, connection, website.number)
    wrong: list[Verdict] = []
    skipped: Counter[str] = Counter()
    right = 0
    domain = readable_host(website.domain)
    progress = Progress(f"{domain}:", 0)
    for verdict in iterated(archive.verify(website.number)):
        progress.show(right)
        if verdict.fault:
            wrong.append(verdict)
        elif verdict.skipped:
            skipped[verdict.skipped] += 1
        else:
            right += 1
    progress.end()
    say(f"{domain}: {_blocks_are(right)} right, {len(wrong):,} {'is' if len(wrong) == 1 else 'are'} wrong")
    for reason, days in skipped.items():
        say(f"  skipped {counted(days, 'day')}: {reason}")
    for verdict in wrong[:_MAX_SHOWN]:
        length, first = counted(1 << verdict.level, "day"), iso(verdict.first_day * DAY_MS)[:10]
        say(f"  wrong: {verdict.fault} of {length} from {first} on")
    lost = [verdict for verdict in wrong if verdict.fault in LOST]
    if lost:
        say(f"  {counted(len(lost), 'day')}: restore a backup made before the damage; nothing else has these events")
    if repair and len(wrong) > len(lost):
        done(archive.repair(website.number, wrong))
        say("  marked to be rebuilt by the running server")
    return Wrong(len(wrong), len(lost))


def _blocks_are(number: int) -> str:
    return "1 day or block of days is" if number == 1 else f"{number:,} days and blocks of days are"


# --- compact


def _compact(arguments: argparse.Namespace, settings: Settings) -> None:
    before = size_bytes(settings.db)
    with database(settings, write=False) as connection:
        pages = free_pages(connection)
        progress = Progress("pages", pages)
        compact(connection, progress.show)
        progress.end()
        is_truncated = truncate_wal_without_server(connection)
    after = size_bytes(settings.db)
    say(f"{before:,} bytes before, {after:,} now: {max(0, before - after):,} given back")
    if not is_truncated and pages:
        say("a server is running: the file shrinks when the server next truncates its log")


# --- retention


def _retention(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        if arguments.website is None:
            for website in all_websites(connection):
                days = retention.keep_days_of(connection, website.number, settings.keep_days)
                show_row(website.id, readable_host(website.domain), days or "forever")
            return
        website = find_website(connection, arguments.website)
        now = retention.keep_days_of(connection, website.number, settings.keep_days)
        text = arguments.days
        wanted = now if text is None else _days(text, settings)
        website_ms = now_ms() + website.day_offset_ms
        would_go = retention.plan(connection, website.number, wanted, website_ms) if wanted else retention.Plan(0, 0)
        changed = text is not None and arguments.yes
        if changed:
            with transaction(connection):
                retention.set_keep_days(connection, website.number, None if text == "default" else wanted)
                entry = Entry("retention_changed", website.id, website.domain, {"days": [now, wanted]})
                record(connection, by_command(website.account), entry, now_ms())
    kept = _how_long(wanted if changed else now)
    say(f"{readable_host(website.domain)}: raw events are {'now ' if changed else ''}kept {kept}")
    happens = changed or text is None
    if would_go.events:
        verb = "are deleted while the server runs" if happens else "would be deleted"
        say(f"with {wanted} days, {would_go.events:,} events from before {iso(would_go.from_ms)[:10]} {verb}")
        say("unfiltered reports of the website's whole days stay; make a backup first to keep the rest")
    else:
        say(f"kept {_how_long(wanted)}, nothing {'is' if happens else 'would be'} deleted today")
    if not happens:
        say("nothing was changed: add --yes to apply it")


def _how_long(days: int) -> str:
    return f"{days} days" if days else "forever"


def _check_days(text: str) -> str:
    if text not in ("forever", "default") and (
        not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < retention.MIN_KEEP_DAYS
    ):
        raise ValueError(f"must be at least {retention.MIN_KEEP_DAYS}, `forever` or `default` (got {text!r})")
    return text


def _days(text: str, settings: Settings) -> int:
    named = {"forever": 0, "default": settings.keep_days}
    return named[text] if text in named else int(text)
