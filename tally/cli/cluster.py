"""The commands of a cluster: have ClickHouse follow the database, and compare both.

All work beside the running server, which is the only one to ship commits: `join` sends what is older than those, one
process at a time. What is particular of ClickHouse is in tally/cluster.
"""

import argparse
import asyncio
import os
import re
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tally.accounts.websites import all_websites, find_website, has_data
from tally.cli.console import (
    Failure,
    Progress,
    add_command,
    add_group,
    add_setting,
    add_website_argument,
    argument,
    database,
    now_ms,
    say,
    show_row,
)
from tally.cli.transfer import require_space
from tally.clickhouse.client import NoAnswer, Refused
from tally.cluster import archive, compare, join, leave, load, recover, setup
from tally.cluster.servers import WrongServers, opened
from tally.cluster.shipper import CannotFollow, last_shipped
from tally.cluster.worker import reason_of
from tally.errors import ApiError
from tally.events.urls import readable_host
from tally.events.website import Website
from tally.maintenance.backup import BackupError
from tally.rounding import counted
from tally.settings import Settings
from tally.storage import cluster_tables
from tally.storage.database import Connection
from tally.storage.disk_space import TOO_LITTLE_SPACE
from tally.storage.file_lock import InUse
from tally.storage.wal import keep_log_short
from tally.timestamps import DAY_MS, iso
from tally.transfer.files import BadFile

T = TypeVar("T")
_WHERE = ("clickhouse", "cluster_name")


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the commands of the group."""
    words = add_group(parser)
    add_command(words, "check", _check, "check that ClickHouse can follow this database")
    init = add_command(words, "init", _init, "create the tables in ClickHouse and the outbox in the database")
    init.add_argument(
        "--again", action="store_true", help="delete what ClickHouse has of this or another file, and begin anew"
    )
    joined = add_command(
        words, "join", _join, "copy to ClickHouse what the database has already, while the server runs"
    )
    joined.add_argument("--again", action="store_true", help="also copy websites whose copy is complete")
    compared = add_command(words, "compare", _compare, "put the same questions to both and print the first difference")
    compared.add_argument(
        "--days", metavar="N", type=argument(_days), help="the last N days (default: 1, 7, 30 and 365)"
    )
    loaded = add_command(
        words, "load", _load, "put events that ClickHouse alone has back into the database, to change them"
    )
    add_setting(loaded, "min_free_disk")
    for command in (joined, compared, loaded):
        add_website_argument(command, nargs="?", help="id or domain (default: all websites)")
    add_command(words, "status", _status, "show what ClickHouse has, and which websites it answers")
    left = add_command(words, "leave", _leave, "write one database file with everything, which needs no ClickHouse")
    left.add_argument("file", metavar="FILE", help="file to write, which must not exist")
    add_setting(left, "min_free_disk")
    recovered = add_command(
        words, "recover", _recover, "make a new database from ClickHouse, after the loss of a machine"
    )
    for name in ("cluster_key", "cluster_ack_seconds"):
        add_setting(recovered, name)
    for command in words.choices.values():
        for name in _WHERE:
            add_setting(command, name)


def _days(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) < 1:
        raise ValueError(f"must be a whole number of at least 1 (got {text!r})")
    return int(text)


def _run(given: argparse.Namespace, settings: Settings, work: Coroutine[Any, Any, T]) -> T:
    """Run what asks ClickHouse."""
    if not settings.clickhouse:
        work.close()
        given.parser.error("name a server: --clickhouse URL")
    try:
        return asyncio.run(work)
    except (CannotFollow, Refused, cluster_tables.UnloadedDays) as failure:
        raise Failure(f"{failure}.") from None
    except WrongServers as failure:
        raise Failure(f"{failure.message}.") from None
    except (NoAnswer, ApiError) as failure:
        raise Failure(f"ClickHouse does not answer ({reason_of(failure)}): is it running at --clickhouse?") from None


def _check(given: argparse.Namespace, settings: Settings) -> None:
    for line in _run(given, settings, setup.check(settings)):
        say(line)


def _init(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, create=True, write=False) as connection:
        _run(given, settings, setup.init(connection, settings, again=given.again))
    say("the tables are there: start the server with --cluster-mode follow and --clickhouse, then run `cluster join`")


def _join(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection, _locked(settings):
        _need_outbox(connection)
        left = _run(given, settings, _join_all(connection, settings, _chosen(connection, given), again=given.again))
    if left:
        raise Failure(f"{counted(left, 'website')} have no copy: see above; SQLite answers their reports.")


@contextmanager
def _locked(settings: Settings) -> Iterator[None]:
    """Hold the lock of commands that copy websites. Raises Failure where another one has it, BadDatabase."""
    try:
        lock = join.lock(settings)
    except InUse:
        raise Failure(
            "The server or another command copies websites, or puts days back: see `cluster status`."
        ) from None
    try:
        yield
    finally:
        os.close(lock)


async def _join_all(connection: Connection, settings: Settings, websites: Iterable[Website], *, again: bool) -> int:
    """Copy websites, and return how many have no copy."""
    left = 0
    async with opened(settings) as servers:
        if await last_shipped(servers.client, cluster_tables.series(connection)) is None:
            raise CannotFollow("ClickHouse has not the tables of this file: run `analytics-server cluster init`")
        for website in websites:
            domain = readable_host(website.domain)
            copy = cluster_tables.copy_of(connection, website.number)
            if copy is not None and copy.is_complete and not again:
                say(f"{domain}: the copy is complete")
                continue
            progress = Progress(f"{domain}: rows", 0, in_lines=True)
            try:
                sent = await join.join(connection, settings, servers, website.number, progress.show)
                say(f"{domain}: {counted(sent, 'row')} sent, ClickHouse answers")
            except join.Ended:
                left += 1
                say(f"{domain}: its events were changed meanwhile, such as by an import: run the command again")
            finally:
                progress.end()
    return left


def _compare(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        _need_outbox(connection)
        websites = _chosen(connection, given)
    _run(given, settings, _compare_all(settings, websites, given.days))


async def _compare_all(settings: Settings, websites: Iterable[Website], days: int | None) -> None:
    async with compare.comparison(settings) as both:
        for website in websites:
            domain, equal = readable_host(website.domain), 0
            try:
                async for difference in both.differences(website, days):
                    if difference is not None:
                        say(f"{domain}: {difference.question}")
                        pairs = enumerate(zip(difference.sqlite, difference.clickhouse, strict=False))
                        begin = max(next((n for n, pair in pairs if pair[0] != pair[1]), 0) - 500, 0)
                        say(f"  SQLite:     {difference.sqlite[begin:][:2_000]}")
                        say(f"  ClickHouse: {difference.clickhouse[begin:][:2_000]}")
                        raise Failure("Both differ: see above.")
                    equal += 1
            except CannotFollow as reason:
                say(f"{domain}: {reason}")
            else:
                say(f"{domain}: {counted(equal, 'answer')} equal")


def _leave(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        _need_outbox(connection)
    progress = Progress("events", 0, in_lines=True)

    def show(events: int) -> None:
        progress.show(events)
        require_space(given.file, settings)

    try:
        added = _run(given, settings, leave.leave(settings, Path(given.file), show))
    except (BackupError, BadFile, OSError) as failure:
        raise Failure(str(failure)) from None
    finally:
        progress.end()
    say(f"{given.file} has everything, {counted(added, 'event')} of it from ClickHouse alone")


def _load(given: argparse.Namespace, settings: Settings) -> None:
    progress = Progress("events", 0, in_lines=True)
    try:
        loaded = _run(given, settings, _load_all(given, settings, progress))
    finally:
        progress.end()
    if not loaded:
        say("the database has all events already")
        return
    say(f"{counted(loaded, 'event')} put back: import, undo or delete within a day, then they leave the database again")


async def _load_all(given: argparse.Namespace, settings: Settings, progress: Progress) -> int:
    loaded = 0
    with database(settings, write=False) as connection, _locked(settings):
        _need_outbox(connection)

        def show(events: int) -> None:
            progress.show(events)
            space, _ = keep_log_short(connection, settings.min_free_disk * 1_000_000, say)
            if not space.allows_import():
                raise Failure(TOO_LITTLE_SPACE)

        async with opened(settings, archive.PAGE_S) as servers:
            for website in _chosen(connection, given):
                loaded += await load.load(connection, servers, website.number, show, loaded)
    return loaded


def _status(given: argparse.Namespace, settings: Settings) -> None:
    with database(settings, write=False) as connection:
        _need_outbox(connection)
        series, shipped, claimed, waiting, size = connection.execute(
            "/* cluster.state */ select series, shipped, claimed, count(distinct number),"
            " coalesce(sum(length(body)), 0) from cluster_state left join cluster_outbox"
        ).fetchone()
        show_row("series", series)
        show_row("shipped", f"batch {shipped}{f', being sent: {claimed}' if claimed > shipped else ''}")
        show_row("waiting", f"{counted(waiting, 'commit')}, {size:,} bytes")
        for website in all_websites(connection):
            show_row(readable_host(website.domain), _state_of(connection, website))
    if settings.clickhouse:
        servers = _run(given, settings, setup.states(settings, series))
        for name, last, problem in servers:
            show_row(name, problem or f"has batch {last}")
        if all(problem for *_, problem in servers):
            raise Failure("No server of ClickHouse is usable: see above, and docs/runbook.md.")


def _state_of(connection: Connection, website: Website) -> str:
    """Return which engine answers a website's reports, and why."""
    row = connection.execute(
        "/* cluster.copy */ select state, reason from cluster_copy where website = ? order by copy desc limit 1",
        (website.number,),
    ).fetchone()
    if row is None:
        return "SQLite answers: not joined" if has_data(connection, website.number) else "SQLite answers: no events yet"
    copy = cluster_tables.copy_of(connection, website.number)
    if copy is not None and copy.unloaded:
        return f"ClickHouse answers, and alone has events from before {iso(copy.own_day * DAY_MS)[:10]}"
    if copy is not None and copy.is_complete:
        return "ClickHouse answers"
    state, reason = row
    if state == "joining":
        return "SQLite answers: being joined, or interrupted"
    return f"SQLite answers: {reason}; a server that runs joins it again"


def _recover(given: argparse.Namespace, settings: Settings) -> None:
    key = settings.cluster_key or given.parser.error("name the key file: --cluster-key FILE")
    say(f"database: {settings.db.resolve()}")
    progress = Progress("events", 0, in_lines=True)
    try:
        copy, lacking = _run(given, settings, recover.recover(settings, key, now_ms(), progress.show))
    except OSError as failure:
        raise Failure(str(failure)) from None
    finally:
        progress.end()
    for domain, what in lacking:
        say(f"{readable_host(domain)}: ClickHouse did not have all yet ({what}): look whether to repeat it")
    say(f"recovered, with accounts and websites as of {iso(copy.at_ms)}: start the server with --cluster-mode keep")


def _chosen(connection: Connection, given: argparse.Namespace) -> list[Website]:
    return [find_website(connection, given.website)] if given.website else list(all_websites(connection))


def _need_outbox(connection: Connection) -> None:
    if not cluster_tables.exist(connection):
        raise Failure("This database has no outbox: run `analytics-server cluster init` first.")
