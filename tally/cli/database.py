"""The commands on the whole database file: backup, restore, verify, compact, retention.

All but restore work while the server runs, in short transactions. An interrupted command leaves a consistent file and
can be run again. What is marked to be rebuilt is rebuilt by a running server within seconds, or by the next start.
"""

import argparse
import os
import re
from collections import Counter
from pathlib import Path

from tally.accounts.websites import Website, all_websites, find_website
from tally.cli.console import Failure, Progress, add_command, add_setting, database, now_ms, say
from tally.maintenance import backup as backup_module
from tally.maintenance import restore as restore_module
from tally.maintenance import retention
from tally.maintenance.compact import compact, free_pages, size_bytes
from tally.rollups.repair import invalidate
from tally.rollups.verify import Verdict, verdicts
from tally.settings import BadSetting, Settings
from tally.storage.database import Connection, open_unchanged, transaction
from tally.storage.file_lock import lock_file
from tally.storage.wal import truncate_wal_without_server
from tally.timestamps import DAY_MS, iso

_MAX_SHOWN = 20


def add_commands(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    backup = add_command(words, "backup", _backup, "write a consistent copy of the database")
    backup.add_argument("file", metavar="FILE", type=Path, help="the new file; with --keep, an existing directory")
    backup.add_argument(
        "--keep",
        metavar="N",
        type=_how_many,
        help="write a dated copy into the directory FILE and keep the newest N of this database",
    )
    restore = add_command(words, "restore", _restore, "replace the database by a backup; stop the server first")
    restore.add_argument("file", metavar="FILE", type=Path, help="the backup, which is copied")
    verify = add_command(words, "verify", _verify, "recount rollups from raw events and compare")
    verify.add_argument("website", metavar="WEBSITE", nargs="?", help="id or domain (default: all websites)")
    verify.add_argument("--repair", action="store_true", help="have wrong rollups rebuilt by the server")
    add_command(words, "compact", _compact, "reclaim free space of the database file")
    kept = add_command(words, "retention", _retention, "show or set how long raw events are kept")
    kept.add_argument(
        "words",
        metavar="WEBSITE DAYS",
        nargs="*",
        help="id or domain of a website, and the retention: 5 days or more, `forever`, or `default` (--keep-days)",
    )
    kept.add_argument("--yes", action="store_true", help="apply it; without this option, only show the effect")
    add_setting(kept, "keep_days")


# --- backup and restore


def _how_many(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1 (got {text})")
    return int(text)


def _backup(given: argparse.Namespace, settings: Settings) -> None:
    say(f"database: {settings.db.resolve()}")
    # Tells a path without a database apart from a damaged one.
    open_unchanged(settings.db).close()
    if given.keep is not None:
        _backup_into(given.file, given.keep, settings.db)
        return
    if given.file.is_dir():
        raise Failure(f"{given.file} is a directory: name a file in it, or add --keep N for dated backups.")
    size = backup_module.make_backup(settings.db, given.file)
    say(f"backup: {given.file.resolve()}, {size:,} bytes, checked")


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


def _restore(given: argparse.Namespace, settings: Settings) -> None:
    say(f"database: {settings.db.resolve()}")
    restore_module.check_paths(given.file, settings.db)
    lock = lock_file(settings.db)
    try:
        kept = restore_module.restore(given.file, settings.db, now_ms())
    finally:
        os.close(lock)
    say(f"restored from {given.file.resolve()}, checked")
    if kept is not None:
        say(f"the previous database is kept as {kept}: delete it when it is no longer needed")


# --- verify


def _verify(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        chosen = [find_website(connection, given.website)] if given.website else all_websites(connection)
        wrong = 0
        for website in chosen:
            wrong += _verify_one(connection, website, given.repair)
    if wrong and not given.repair:
        raise Failure(f"{wrong} days or blocks of days are wrong: rebuild them with `verify --repair`.")


def _verify_one(connection: Connection, website: Website, repair: bool) -> int:
    """Verify a website and print the result; return how many days or blocks of days are wrong."""
    wrong: list[Verdict] = []
    skipped: Counter[str] = Counter()
    right = 0
    progress = Progress(f"{website.domain}:", 0)
    for verdict in verdicts(connection, website.number):
        progress.show(right)
        if verdict.fault:
            wrong.append(verdict)
        elif verdict.skipped:
            skipped[verdict.skipped] += 1
        else:
            right += 1
    progress.end()
    say(f"{website.domain}: {right} days and blocks of days are right, {len(wrong)} are wrong")
    for reason, days in skipped.items():
        say(f"  skipped {days} days: {reason}")
    for verdict in wrong[:_MAX_SHOWN]:
        say(f"  wrong: {verdict.fault} of {1 << verdict.level} days from {iso(verdict.first_day * DAY_MS)[:10]} on")
    if repair and wrong:
        invalidate(connection, website.number, wrong)
        say("  marked to be rebuilt by the running server")
    return len(wrong)


# --- compact


def _compact(given: argparse.Namespace, settings: Settings) -> None:
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


def _retention(given: argparse.Namespace, settings: Settings) -> None:
    if len(given.words) > 2:
        raise BadSetting("retention takes at most two arguments: retention WEBSITE DAYS")
    with database(settings, write=False) as connection:
        if not given.words:
            for website in all_websites(connection):
                days = retention.keep_days_of(connection, website.number, settings.keep_days)
                print(website.id, website.domain, days or "forever", sep="\t")
            return
        website = find_website(connection, given.words[0])
        now = retention.keep_days_of(connection, website.number, settings.keep_days)
        text = given.words[1] if given.words[1:] else None
        wanted = now if text is None else _days(text, settings)
        would_go = retention.plan(connection, website.number, wanted, now_ms()) if wanted else retention.Plan(0, 0)
        changed = text is not None and given.yes
        if changed:
            with transaction(connection):
                retention.set_keep_days(connection, website.number, None if text == "default" else wanted)
    say(f"{website.domain}: raw events are {'now ' if changed else ''}kept {_how_long(wanted if changed else now)}")
    happens = changed or text is None
    if would_go.events:
        verb = "are deleted while the server runs" if happens else "would be deleted"
        say(f"with {wanted} days, {would_go.events:,} events from before {iso(would_go.from_ms)[:10]} {verb}")
        say("unfiltered reports of whole UTC days stay; make a backup first to keep the rest")
    else:
        say(f"kept {_how_long(wanted)}, nothing {'is' if happens else 'would be'} deleted today")
    if not happens:
        say("nothing was changed: add --yes to apply it")


def _how_long(days: int) -> str:
    return f"{days} days" if days else "forever"


def _days(text: str, settings: Settings) -> int:
    if text in ("forever", "default"):
        return settings.keep_days if text == "default" else 0
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < retention.LEAST_DAYS:
        raise Failure(f"DAYS must be at least {retention.LEAST_DAYS}, `forever` or `default` (got {text}).")
    return int(text)
