"""The commands `export` and `import`.

Both work while the server runs. An export reads one snapshot. An import writes in short transactions; if it is
interrupted, the same command continues where it stopped. The server rebuilds the rollups of days with new events; until
then reports of these days read raw events.
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
    """Add the commands to the parser."""
    out = add_command(words, "export", _export, "write the events of a website as JSON lines")
    out.add_argument("website", metavar="WEBSITE", help="id or domain of the website")
    out.add_argument("file", metavar="FILE", help="the new file; compressed if it ends in .gz; - is standard output")
    into = add_command(words, "import", _import, "import events from JSON lines, optionally gzip-compressed")
    into.add_argument("file", metavar="FILE", help="the file to read; - is standard input")
    into.add_argument("--website", metavar="ID", required=True, help="id or domain of the website")
    into.add_argument("--strict", action="store_true", help="import nothing if any line is invalid")


def _export(given: argparse.Namespace, settings: Settings) -> None:
    say(f"database: {settings.db.resolve()}")
    # Tells a path without a database apart from a damaged one.
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
    say(f"exported {events:,} events; heatmap points are not exported")


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
        raise Failure("No line could be imported: fix the lines, or name a file with one JSON object per line.")
    print(summary.accepted)
