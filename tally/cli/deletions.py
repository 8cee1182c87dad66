"""The command `delete-events`: delete events that match filters, after a preview.

A running server has visitors in memory that must change with the events, so it carries the deletion out; the command
waits for it. Without a server the command does the steps itself.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from multidict import MultiDict

from tally.accounts.audit import Entry, by_command, record
from tally.accounts.websites import find_website
from tally.api import params
from tally.cli.console import Failure, Progress, add_setting, add_website_argument, database, now_ms, say, set_function
from tally.errors import ApiError
from tally.reports.deletion_preview import DeletionPreview, preview_now
from tally.rounding import counted
from tally.settings import Settings
from tally.storage import deletion_records
from tally.storage.database import BadDatabase, Connection, snapshot, transaction
from tally.storage.deletion_records import DONE, RUNNING
from tally.storage.file_lock import lock_file
from tally.storage.wal import keep_log_short
from tally.timestamps import iso
from tally.transfer import event_deletion

_LOOK_S = 1.0


def add_delete_events(parser: argparse.ArgumentParser) -> None:
    """Add the options of `delete-events`."""
    set_function(parser, _delete_events)
    add_website_argument(parser, "--website", required=True, help="id or domain of the website")
    parser.add_argument(
        "--from", dest="first", metavar="DAY", required=True, help="first day or time of the website, 2026-11-01"
    )
    parser.add_argument("--to", dest="last", metavar="DAY", required=True, help="last day, which is included, or time")
    parser.add_argument(
        "--filter",
        dest="filters",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="filter of the read API, such as pathname=/internal or 'country!=DE'; several hold together",
    )
    parser.add_argument("--yes", action="store_true", help="delete without a question")
    add_setting(parser, "min_free_disk")


def _delete_events(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        site = find_website(connection, given.website)
        website, zone = site.number, site.time_zone or "UTC"
        written = [f"filter_{one.removeprefix('filter_')}" for one in given.filters]
        try:
            filters = params.parse_filters(written)
            query = MultiDict({"from": given.first, "to": given.last})
            span = params.range_of(params.Sent(query, {}, now_ms(), time_zone=zone))
        except ApiError as bad:
            raise Failure(bad.message.replace("filter_", ""), 2) from None
        with snapshot(connection):
            found = preview_now(connection, website, (span.from_ms, span.to_ms), filters)
        _show(found)
        if not found.events and not (found.imported_sums_days and found.plan.deletes_sums):
            say("nothing to delete")
            return
        if not given.yes and not _agrees(found.events):
            way = "type the number of events, or give --yes" if sys.stdin.isatty() else "give --yes"
            raise Failure(f"Nothing was deleted: {way}.")
        detail = {"from": iso(span.from_ms), "to": iso(span.to_ms), "filters": written, "events": found.events}
        with transaction(connection):
            number = event_deletion.begin(connection, website, found.plan, found.events, now_ms())
            if number is not None:
                entry = Entry("events_deleted", site.id, site.domain, detail)
                record(connection, by_command(site.account), entry, now_ms())
        if number is None:
            raise Failure("Events of the website are being deleted: wait until that has ended.")
        with _own_lock(settings) as is_alone:
            _run(connection, website, number, settings, found.events, is_alone=is_alone)


def _show(found: DeletionPreview) -> None:
    say(
        f"matching: {counted(found.events, 'event')} on {counted(found.days, 'day')};"
        f" {counted(found.visits_gone, 'visit')} deleted, {counted(found.visits_changed, 'visit')} changed"
    )
    for field, values in found.samples.items() if found.events else ():
        say(f"{field}: {', '.join(value or '(unset)' for value in values)}")
    if found.not_covered:
        say(f"not covered: {', '.join(found.not_covered)} (see docs/deleting-events.md)")


def _agrees(events: int) -> bool:
    if not sys.stdin.isatty():
        return False
    return input(f"Type {events} to delete: ").strip().replace(",", "") == str(events)


@contextmanager
def _own_lock(settings: Settings) -> Iterator[bool]:
    """Hold the lock of a server within the block; yield whether no server has it."""
    try:
        lock = lock_file(settings.db)
    except BadDatabase:
        yield False
        return
    try:
        yield True
    finally:
        os.close(lock)


def _run(connection: Connection, website: int, number: int, settings: Settings, events: int, *, is_alone: bool) -> None:
    """Do all steps, or wait for a server that does them."""
    progress = Progress("events", events)
    while True:
        begun = time.perf_counter()
        if is_alone:
            with transaction(connection):
                event_deletion.step(connection, website, number, now_ms())
            keep_log_short(connection, settings.min_free_disk * 1_000_000, say)
        found = deletion_records.record(connection, website, number)
        if found is None or found.state != RUNNING:
            break
        progress.show(found.deleted)
        time.sleep(time.perf_counter() - begun if is_alone else _LOOK_S)
    progress.end()
    if found is None or found.state != DONE:
        raise Failure("The deletion was stopped.")
    say(f"deleted {counted(found.deleted, 'event')}")
