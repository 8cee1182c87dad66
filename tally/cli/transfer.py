"""The commands `export` and `import`.

Both work while the server runs. An export reads one snapshot. An import writes in short transactions; if it is
interrupted, the same command continues where it stopped. The server rebuilds the rollups of days with new events; until
then reports of these days read raw events.
"""

import argparse
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from tally.accounts.audit import Entry, by_command, record
from tally.accounts.websites import find_website
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
from tally.events.geoip import CountryDataError
from tally.rounding import counted
from tally.settings import Settings, path_of
from tally.storage import import_records
from tally.storage.database import Connection, open_database, transaction
from tally.storage.disk_space import disk_space
from tally.storage.wal import keep_log_short
from tally.timestamps import DAY_MS, iso
from tally.transfer import undo
from tally.transfer.exporter import count_events, json_lines, write_export
from tally.transfer.files import STANDARD, BadFile, open_source, open_target
from tally.transfer.formats import IMPORTERS
from tally.transfer.importer import Bounds, Preview, Summary, import_events, preview_events
from tally.transfer.parquet import parquet

_NO_LINE = "No line could be imported: fix the lines, or name the format of the file with --from."


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the options of `export`."""
    set_function(parser, _export)
    add_website_argument(parser)
    parser.add_argument(
        "file",
        metavar="FILE",
        type=argument(_file_name),
        help="the new file; compressed if it ends in .gz; - is standard output",
    )
    parser.add_argument(
        "--format",
        choices=("jsonl", "parquet"),
        default="jsonl",
        help="jsonl (default): JSON lines, which `import` reads; parquet: a Parquet file (needs the extra `parquet`)",
    )
    add_setting(parser, "min_free_disk")


def add_import(parser: argparse.ArgumentParser) -> None:
    """Add the options of `import`."""
    set_function(parser, _import)
    parser.add_argument(
        "file", metavar="FILE", nargs="?", type=argument(_file_name), help="the file to read; - is standard input"
    )
    add_website_argument(parser, "--website", required=True, help="id or domain of the website that gets the events")
    parser.add_argument(
        "--from",
        dest="format",
        choices=IMPORTERS,
        metavar="FORMAT",
        default="tally",
        help=f"format of the file: {', '.join(IMPORTERS)} (default: tally, as `export` writes it)",
    )
    parser.add_argument("--strict", action="store_true", help="import nothing if any line is invalid")
    parser.add_argument(
        "--dry-run",
        dest="is_preview",
        action="store_true",
        help="store nothing; print the number of events of each day, and on standard error what is skipped",
    )
    parser.add_argument("--list", dest="is_list", action="store_true", help="list the imports of the website")
    parser.add_argument(
        "--undo",
        metavar="NUMBER",
        type=argument(_import_number),
        help="delete the events that an import of the list has stored",
    )
    parser.add_argument(
        "--follow",
        dest="is_followed",
        action="store_true",
        help="keep reading an access log as it is written and rotated, until SIGTERM or Ctrl-C; started again, it"
        " continues where it stopped",
    )
    add_setting(parser, "geoip_db")
    add_setting(parser, "min_free_disk")


def _import_number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError(f"NUMBER must be the number of an import (got {text!r}): see `import --list`")
    return int(text)


def _file_name(text: str) -> str:
    return str(path_of(text))


def _export(arguments: argparse.Namespace, settings: Settings) -> None:
    from tally.cli.archives import archive_of, iterated

    say(f"database: {settings.db.resolve()}")
    # Distinguishes a path without a database from a damaged one.
    with closing(open_database(settings.db, create=False)) as connection:
        website = find_website(connection, arguments.website)
        entry = Entry("events_exported", website.id, website.domain, {"format": arguments.format})
        with transaction(connection):
            record(connection, by_command(website.account), entry, now_ms())
        exported = iterated(archive_of(settings, connection, website.number).rows(website.number))
        events = count_events(connection, website.number) if sys.stderr.isatty() else 0
    try:
        progress = Progress("events", events)
        format = parquet if arguments.format == "parquet" else json_lines
        if arguments.format == "parquet" and arguments.file.endswith(".gz"):
            raise Failure("A Parquet file is compressed by itself: choose a name without .gz")

        def show(events: int) -> None:
            progress.show(events)
            require_space(arguments.file, settings)

        with open_target(arguments.file) as out:
            events = write_export(out, format, exported, show)
        progress.end()
    except BadFile as bad:
        raise Failure(str(bad)) from None
    say(f"exported {counted(events, 'event')}; heatmap points are not exported")


def require_space(file: str, settings: Settings) -> None:
    """Raise BadFile where an export to the disk of the database would take the space that events need."""
    db = settings.db.resolve()
    if file == STANDARD or Path(file).resolve().parent.stat().st_dev != db.parent.stat().st_dev:
        return
    if not disk_space(db, settings.min_free_disk * 1_000_000).allows_import():
        raise BadFile(
            "The disk of the database has too little free space (--min-free-disk): name a file on another one."
        )


def _import(arguments: argparse.Namespace, settings: Settings) -> None:
    choices = (
        ("FILE", arguments.file is not None),
        ("--list", arguments.is_list),
        ("--undo", arguments.undo is not None),
    )
    chosen = [name for name, is_given in choices if is_given]
    if not chosen:
        arguments.parser.error("name a FILE to import, or give --list or --undo NUMBER")
    if len(chosen) > 1:
        arguments.parser.error(f"{' and '.join(chosen)} exclude each other: give one of them")
    if arguments.is_list:
        _list(arguments, settings)
    elif arguments.undo is not None:
        _undo(arguments, settings)
    elif arguments.is_followed:
        _follow(arguments, settings)
    else:
        _import_file(arguments, settings)


def _list(arguments: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        website = find_website(connection, arguments.website)
        for record in import_records.records(connection, website.number):
            days = (
                "-"
                if record.first_day is None or record.last_day is None
                else f"{_date(record.first_day)}..{_date(record.last_day)}"
            )
            skipped = sum(record.skipped.values())
            figures = (
                record.events,
                record.duplicates,
                record.rejected,
                skipped,
                days,
                record.format,
                record.file,
                record.sums,
            )
            show_row(record.number, record.state_at(now_ms()), iso(record.begun_ms), *figures, record.crawls)


def _date(day: int) -> str:
    return iso(day * DAY_MS)[:10]


def _undo(arguments: argparse.Namespace, settings: Settings) -> None:
    from tally.cli.archives import archive_of, done

    with database(settings, write=False) as connection:
        site = find_website(connection, arguments.website)
        website = site.number
        entry = Entry("import_undone", site.id, site.domain, {"import": arguments.undo})
        try:
            with transaction(connection):
                undone = undo.begin(connection, website, arguments.undo, now_ms())
                record(connection, by_command(site.account), entry, now_ms())
        except undo.CannotUndo as failure:
            raise Failure(str(failure)) from None
        archive, has_more = archive_of(settings, connection, website), True
        while has_more:
            begun = time.perf_counter()
            has_more = done(archive.undo(website, arguments.undo))
            keep_log_short(connection, settings.min_free_disk * 1_000_000, say)
            # The lock is left free as long as it was held.
            time.sleep(time.perf_counter() - begun)
    more = _and_sums(undone.sums) + _and_crawls(undone.crawls)
    say(f"import {arguments.undo} is undone: deleted {counted(undone.events, 'event')}{more}")


@contextmanager
def _connected(settings: Settings) -> Iterator[Connection]:
    with closing(open_database(settings.db, create=False)) as connection:
        # The running server does the checkpoints.
        connection.execute("pragma wal_autocheckpoint = 0")
        yield connection


def _follow(arguments: argparse.Namespace, settings: Settings) -> None:
    from tally.transfer.follow import FORMAT, Follower  # here: other imports do not need it

    if arguments.format != FORMAT or arguments.file == STANDARD or arguments.strict or arguments.is_preview:
        arguments.parser.error(f"--follow needs the name of a file and --from {FORMAT}, without --strict and --dry-run")
    # As Ctrl-C: the transaction that is open is rolled back.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # Distinguishes a wrong name from a log that is being rotated.
        with open_source(arguments.file):
            pass
        with database(settings, write=False) as connection:
            site = find_website(connection, arguments.website)
            detail = {"format": arguments.format, "file": Path(arguments.file).name}
            with transaction(connection):
                entry = Entry("import_started", site.id, site.domain, detail)
                record(connection, by_command(site.account), entry, now_ms())
        follower = Follower(
            Path(arguments.file),
            site.number,
            partial(_connected, settings),
            geoip_db=settings.geoip_db,
            bounds=Bounds(settings.min_free_disk * 1_000_000),
            now_ms=now_ms,
            report=say,
        )
        say(f"following {arguments.file}")
        follower.run()
    except (BadFile, CountryDataError) as bad:
        raise Failure(str(bad)) from None
    except KeyboardInterrupt:
        say("stopped: the same command continues")


def _import_file(arguments: argparse.Namespace, settings: Settings) -> None:
    try:
        with (
            database(settings, write=False) as connection,
            open_source(arguments.file, again=arguments.strict and arguments.file == STANDARD) as source,
        ):
            progress = Progress("bytes", source.size)

            def report(words: str) -> None:
                progress.end()
                say(words)

            site = find_website(connection, arguments.website)
            website = site.number
            if not arguments.is_preview:
                detail = {"format": arguments.format, "file": Path(arguments.file).name}
                entry = Entry("import_started", site.id, site.domain, detail)
                with transaction(connection):
                    record(connection, by_command(site.account), entry, now_ms())
            take = preview_events if arguments.is_preview else partial(import_events, strict=arguments.strict)
            result = take(
                connection,
                website,
                source,
                now_ms=now_ms(),
                format=arguments.format,
                geoip_db=settings.geoip_db,
                uses_reader_process=True,
                bounds=Bounds(settings.min_free_disk * 1_000_000),
                report=report,
                progress=progress.show,
            )
            progress.end()
    except (BadFile, CountryDataError) as bad:
        raise Failure(str(bad)) from None
    if isinstance(result, Preview):
        _show_preview(result, arguments.strict)
    else:
        _show_summary(result)


def _show_preview(preview: Preview, strict: bool) -> None:
    events = sum(preview.days.values())
    for day in sorted(preview.days):
        print(f"{_date(day)}\t{preview.days[day]}")
    say(
        f"nothing was imported: {counted(events, 'event')} of {counted(len(preview.days), 'day')} would be,"
        f" imported before: {preview.known:,}; copies in the file: {preview.copies:,};"
        f" invalid lines: {preview.bad:,} of {preview.lines:,}"
    )
    if preview.sums:
        say(
            f"sums: {sum(preview.sums.values()):,} of {len(preview.sums):,} days,"
            f" {_date(min(preview.sums))} to {_date(max(preview.sums))};"
            f" {preview.known_sums:,} are of fields and days that have sums already"
        )
    if preview.crawls:
        say(f"counted would be {counted(preview.crawls, 'request')} of crawlers")
    # The import would fail too.
    if preview.bad and not (events or preview.copies or preview.sums or preview.crawls):
        raise Failure(_NO_LINE)
    if strict and preview.bad:
        raise Failure(f"With --strict nothing would be imported: invalid lines: {preview.bad:,} of {preview.lines:,}.")
    if strict and not preview.records:
        raise Failure("With --strict an empty file is an error.")


def _show_summary(summary: Summary) -> None:
    say(
        f"imported {counted(summary.accepted, 'event')}{_and_sums(summary.sums)}{_and_crawls(summary.crawls)},"
        f" skipped {counted(summary.duplicates, 'duplicate')},"
        f" rejected {summary.bad:,} of {counted(summary.lines, 'line')}"
    )
    if summary.bad and not (summary.accepted or summary.duplicates or summary.sums or summary.crawls):
        raise Failure(_NO_LINE)
    print(summary.accepted + summary.sums)


def _and_crawls(crawls: int) -> str:
    return f" and {counted(crawls, 'request')} of crawlers" if crawls else ""


def _and_sums(sums: int) -> str:
    return f" and {counted(sums, 'sum')}" if sums else ""
