"""The commands `delete-events` and `rewrite-paths`: delete events that match filters, or rewrite their paths by a rule,
after a preview.

A running server has visitors in memory that must change with the events, so it carries the change out; the command
waits for it. Without a server the command does the steps itself.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from multidict import MultiDict

from tally.accounts.audit import by_command, record
from tally.accounts.websites import find_website
from tally.api import params
from tally.api.deletions import begun_entry, rule_detail
from tally.cli.console import Failure, Progress, add_setting, add_website_argument, database, now_ms, say, set_function
from tally.errors import ApiError
from tally.events import path_rules
from tally.events.filters import Filter
from tally.events.path_rules import PathRule
from tally.reports.deletion_preview import DeletionPreview, preview_now
from tally.rounding import counted
from tally.settings import Settings
from tally.storage import deletion_records
from tally.storage.cluster_tables import UnloadedDays
from tally.storage.database import BadDatabase, Connection, snapshot, transaction
from tally.storage.deletion_records import DELETE, DONE, REWRITE, RUNNING
from tally.storage.file_lock import lock_file
from tally.storage.wal import keep_log_short
from tally.timestamps import iso
from tally.transfer import event_deletion

_LOOK_S = 1.0


class _Words(NamedTuple):
    verb: str
    done: str


_WORDS = {DELETE: _Words("delete", "deleted"), REWRITE: _Words("rewrite", "rewritten")}


def add_delete_events(parser: argparse.ArgumentParser) -> None:
    """Add the options of `delete-events`."""
    set_function(parser, _delete_events)
    _add_range(parser, is_required=True)
    parser.add_argument(
        "--filter",
        dest="filters",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="filter of the read API, such as pathname=/internal or 'country!=DE'; several hold together",
    )
    _add_rest(parser, "delete")


def add_rewrite_paths(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rewrite-paths`."""
    set_function(parser, _rewrite_paths)
    _add_range(parser, is_required=False)
    parser.add_argument(
        "--pattern", required=True, help="paths such as '/item/*', or segments of paths such as '*@*.*'"
    )
    parser.add_argument("--replacement", required=True, help="path such as '/item/*', or segment such as '*'")
    _add_rest(parser, "rewrite")


def _add_range(parser: argparse.ArgumentParser, *, is_required: bool) -> None:
    add_website_argument(parser, "--website", required=True, help="id or domain of the website")
    default = "" if is_required else "; default: all days"
    parser.add_argument(
        "--from",
        dest="first",
        metavar="DAY",
        required=is_required,
        help=f"first day or time of the website, 2026-11-01{default}",
    )
    parser.add_argument(
        "--to", dest="last", metavar="DAY", required=is_required, help="last day, which is included, or time"
    )


def _add_rest(parser: argparse.ArgumentParser, verb: str) -> None:
    parser.add_argument("--yes", action="store_true", help=f"{verb} without a question")
    add_setting(parser, "min_free_disk")


def _delete_events(given: argparse.Namespace, settings: Settings) -> None:
    written = [f"filter_{one.removeprefix('filter_')}" for one in given.filters]
    try:
        filters = params.parse_filters(written)
    except ApiError as bad:
        raise Failure(bad.message.replace("filter_", ""), 2) from None
    _change(given, settings, filters, None, {"filters": written})


def _rewrite_paths(given: argparse.Namespace, settings: Settings) -> None:
    try:
        rule = path_rules.checked(given.pattern, given.replacement)
    except ValueError as bad:
        raise Failure(f"--{bad}", 2) from None
    _change(given, settings, (), rule, rule_detail(rule))


def _change(
    given: argparse.Namespace,
    settings: Settings,
    filters: tuple[Filter, ...],
    rule: PathRule | None,
    detail: dict[str, Any],
) -> None:
    """Preview, ask, and delete the events that match filters, or rewrite paths by a rule."""
    with database(settings, write=False) as connection:
        site = find_website(connection, given.website)
        website, zone = site.number, site.time_zone or "UTC"
        try:
            is_all = given.first is None and given.last is None
            query = MultiDict({"period": "all"} if is_all else {"from": given.first or "", "to": given.last or ""})
            span = params.range_of(params.Sent(query, {}, now_ms(), time_zone=zone, first_ms=0))
        except ApiError as bad:
            raise Failure(bad.message, 2) from None
        try:
            with snapshot(connection):
                found = preview_now(connection, website, (span.from_ms, span.to_ms), filters, rule)
        except UnloadedDays as failure:
            raise Failure(str(failure)) from None
        _show(found)
        words = _WORDS[found.plan.kind]
        if not (found.events or found.paths or (found.imported_sums_days and found.plan.deletes_sums)):
            say(f"nothing to {words.verb}")
            return
        if not given.yes and not _agrees(found.events, words.verb):
            way = "type the number of events, or give --yes" if sys.stdin.isatty() else "give --yes"
            raise Failure(f"Nothing was {words.done}: {way}.")
        detail = {"from": iso(span.from_ms), "to": iso(span.to_ms), **detail, "events": found.events}
        with transaction(connection):
            number = event_deletion.begin(connection, website, found.plan, found.events, now_ms())
            if number is not None:
                entry = begun_entry(found.plan.kind, site.id, site.domain, detail)
                record(connection, by_command(site.account), entry, now_ms())
        if number is None:
            raise Failure("Events of the website are being deleted or rewritten: wait until that has ended.")
        with _own_lock(settings) as is_alone:
            _run(connection, website, number, settings, found.events, is_alone=is_alone)


def _show(found: DeletionPreview) -> None:
    if found.plan.rule is None:
        more = f"{counted(found.visits_gone, 'visit')} deleted, {counted(found.visits_changed, 'visit')} changed"
    else:
        more = f"{counted(found.paths, 'path')} rewritten"
    say(f"matching: {counted(found.events, 'event')} on {counted(found.days, 'day')}; {more}")
    for old, new in found.renamed:
        say(f"{old} -> {new}")
    for field, values in found.samples.items() if found.events else ():
        say(f"{field}: {', '.join(value or '(unset)' for value in values)}")
    if found.not_covered:
        say(f"not covered: {', '.join(found.not_covered)} (see docs/deleting-events.md)")


def _agrees(events: int, verb: str) -> bool:
    if not sys.stdin.isatty():
        return False
    return input(f"Type {events} to {verb}: ").strip().replace(",", "") == str(events)


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
        progress.show(found.changed)
        time.sleep(time.perf_counter() - begun if is_alone else _LOOK_S)
    progress.end()
    if found is None or found.state != DONE:
        raise Failure("It was stopped.")
    say(f"{_WORDS[found.kind].done} {counted(found.changed, 'event')}")
