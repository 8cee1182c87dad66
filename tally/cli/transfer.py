"""The commands that move events: export and import.

Both work beside a running server. An export reads one snapshot. An import writes in short transactions that each leave
the file right: interrupt one, and the same command goes on there. Days with new events are built anew while the server
runs; until then their figures come from raw events.
"""

import argparse
import sys

from tally.accounts.websites import find_website
from tally.cli.console import Failure, Progress, add_command, database, now_ms, say
from tally.settings import Settings
from tally.storage.database import connect_reader, open_database
from tally.transfer.exporter import count_events, export_events
from tally.transfer.files import STANDARD, BadFile, open_source, open_target
from tally.transfer.importer import import_events


def add_commands(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds these commands to the parser."""
    out = add_command(words, "export", _export, "write a website's events into a file, one JSON object a line")
    out.add_argument("website", metavar="WEBSITE", help="the website of this id or domain")
    out.add_argument("file", metavar="FILE", help="where to; must not exist yet; packed if it ends in .gz; - is stdout")
    into = add_command(
        words, "import", _import, "take events from a file that has one JSON object a line, maybe packed"
    )
    into.add_argument("file", metavar="FILE", help="where from; - is standard input")
    into.add_argument("--website", metavar="ID", required=True, help="the website of this id or domain")
    into.add_argument("--strict", action="store_true", help="take nothing if any line is bad")


def _export(given: argparse.Namespace, settings: Settings) -> None:
    say(f"database: {settings.db.resolve()}")
    # Looks at the file as every command does: a path that holds no database is told apart from one that is damaged.
    open_database(settings.db, create=False).close()
    reader = connect_reader(settings.db)
    try:
        website = find_website(reader, given.website)
        progress = Progress("events", count_events(reader, website.number) if sys.stderr.isatty() else 0)
        with open_target(given.file) as out:
            events = export_events(reader, website.number, out, progress.show)
        progress.end()
    except BadFile as bad:
        raise Failure(str(bad)) from None
    finally:
        reader.close()
    say(f"exported {events:,} events; heatmap points are counts and were left out")


def _import(given: argparse.Namespace, settings: Settings) -> None:
    try:
        with (
            database(settings, write=False) as connection,
            open_source(given.file, again=given.strict and given.file == STANDARD) as source,
        ):
            progress = Progress("bytes", source.size)

            def told(words: str) -> None:
                progress.end()
                say(words)

            website = find_website(connection, given.website).number
            summary = import_events(
                connection,
                website,
                source,
                now_ms=now_ms(),
                strict=given.strict,
                told=told,
                progress=progress.show,
            )
            progress.end()
    except BadFile as bad:
        raise Failure(str(bad)) from None
    say(
        f"imported {summary.accepted:,} events, skipped {summary.duplicates:,} duplicates,"
        f" rejected {summary.bad:,} of {sum(summary):,} lines"
    )
    if summary.bad == sum(summary) > 0:
        raise Failure("No line could be imported: correct the lines, or name a file of one JSON object a line.")
    print(summary.accepted)
