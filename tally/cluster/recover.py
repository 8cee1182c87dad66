"""`cluster recover`: a new database file from ClickHouse and the key file alone, on a machine that has nothing else.

First a new series begins, so that a server that still runs on another file ships nothing more. Then what that server
has shipped in part, and so never acknowledged, is deleted; an event of it that is sent again is new. The file is made
under another name and has its own only when it is complete: ended at any point, the command can be run again.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tally.accounts.audit import Entry, by_command, record
from tally.clickhouse import schema
from tally.clickhouse.client import Client, Parameters
from tally.cluster import archive, control
from tally.cluster.servers import Servers
from tally.cluster.setup import begin_series
from tally.cluster.shipper import CannotFollow
from tally.engine.archive import FIGURES
from tally.events.validation import OLDEST_MS
from tally.maintenance.backup import sync_directory
from tally.maintenance.restore import give_and_sync
from tally.rollups import imported_sums
from tally.settings import Settings
from tally.storage import cluster_tables
from tally.storage.bulk_insert import insert
from tally.storage.database import open_database, statements, transaction
from tally.storage.file_lock import lock_file
from tally.storage.labels import Labels

RECOVERING = ".recovering"
"""The ending of the file until it is complete."""
# Above every id that the lost file may have reserved and used.
_FREE_IDS = 10_000
_ROWS = 100_000
Joined = Mapping[int, tuple[int, int]]
"""Copy and first day that is kept, by website."""
Lacking = list[tuple[str, str]]
"""The domain of each website whose copy does not have all, and what it lacks."""


async def recover(
    settings: Settings, key: Path, now_ms: int, report: Callable[[int], None]
) -> tuple[control.Copy, Lacking]:
    """Make the file of the settings; return the control copy that it was made from, and what ClickHouse lacked.
    `report`: called with the number of events so far.

    Raises CannotFollow, BadSetting, BadDatabase, Refused, NoAnswer, ApiError, OSError, sqlite3.Error.
    """
    recipients = control.recipients_of(key)
    _require_new(settings.db)
    lock = lock_file(settings.db)
    query_s = max(settings.query_seconds, archive.PAGE_S)
    servers = Servers(settings.clickhouse, settings.cluster_name, query_s, settings.cluster_ack_seconds)
    try:
        # Another one may have ended before the lock was free.
        _require_new(settings.db)
        unfinished = settings.db.with_name(settings.db.name + RECOVERING)
        _delete(unfinished)
        await servers.reach()
        made = await _write(unfinished, servers, key, recipients, now_ms, report, settings.cluster_ack_seconds)
        give_and_sync(unfinished, settings.db)
        os.rename(unfinished, settings.db)
        sync_directory(settings.db.parent)
    finally:
        # At once: a server on standby begins.
        os.close(lock)
        await servers.close()
    return made


def _require_new(path: Path) -> None:
    if os.path.lexists(path):
        raise CannotFollow(f"{path} exists already: name a new file with --db, or move it away")


async def _write(
    file: Path,
    servers: Servers,
    key: Path,
    recipients: list[str],
    now_ms: int,
    report: Callable[[int], None],
    ack_s: float,
) -> tuple[control.Copy, Lacking]:
    client = servers.client
    # Before anything is changed.
    await control.newest(client, key)
    series = await begin_series(client)
    # A server that has read the older series a moment ago may still store a batch, and answers within this time.
    await asyncio.sleep(ack_s)
    await client.sync(*schema.TABLES)
    copy = await control.newest(client, key)
    last = await _last_batch(client)
    await client.insert("shipped", [{"series": series, "number": last}], f"{series}/{last}/shipped")
    with closing(open_database(file, create=True)) as connection:
        with transaction(connection):
            _begin(connection, copy, series, last)
            lacking, joined = await _joined(connection, client)
        await _store_events(connection, servers, joined, report)
        await _store_event_ids(connection, client, joined, now_ms - OLDEST_MS)
        with transaction(connection):
            _continue_ids(connection, await _last_id(client))
            record(connection, by_command(None), Entry("database_restored", target="ClickHouse"), now_ms)
        await control.write(client, series, control.tables_of(connection), recipients, now_ms)
        with transaction(connection):
            # What the file has is what they have. Last: where this ends before, it says again what is lacking.
            connection.execute(
                "/* recover.complete */ update cluster_copy set changes = 0,"
                " state = iif(state = 'joined', state, 'ended')"
            )
    return copy, lacking


def _delete(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).unlink()


async def _last_batch(client: Client) -> int:
    """Return the last batch that is complete; delete what there is of later ones."""
    ((last,),) = await client.rows("select max(number) from shipped", {})
    for table in (name for name, (columns, _, _) in schema.TABLES.items() if "batch UInt64" in columns):
        ((later,),) = await client.rows(f"select count() from {table} where batch > {last}", {})
        if later:
            await client.execute(schema.delete_where(table, f"batch > {last}", waits_for=1))
    return int(last)


def _begin(connection: sqlite3.Connection, copy: control.Copy, series: str, last: int) -> None:
    """Store the control copy, and what belongs to a new series."""
    for statement in statements(cluster_tables.SCRIPT):
        connection.execute(statement)
    control.store(connection, copy)
    connection.execute(
        "/* recover.series */ insert into cluster_state (series, shipped, claimed, claimed_ms) values (?1, ?2, ?2, 0)",
        (series, last),
    )
    connection.execute(
        "/* recover.imports */ update import set state = 'interrupted', progress = null"
        " where state in ('running', 'interrupted', 'following')"
    )
    connection.execute(
        "/* recover.deletions */ update deletion set state = 'stopped', ended_ms = begun_ms, days = '[]',"
        " progress = null where state = 'running'"
    )


async def _joined(connection: sqlite3.Connection, client: Client) -> tuple[Lacking, Joined]:
    """Return what copies lack, and the copies of websites: also those that have begun since the control copy."""
    ((last,),) = connection.execute("/* recover.last_copy */ select coalesce(max(copy), 0) from cluster_copy")
    connection.executemany(
        "/* recover.begun */ insert or ignore into cluster_copy (copy, website, state, from_day, day_offset_minutes)"
        " select ?1, number, 'joined', 0, ?3 from website where number = ?2",
        await client.rows(f"select website, number, day_offset_minutes from copy where website > {last}", {}),
    )
    lacking = connection.execute(
        "/* recover.lacking */ select domain, reason from website join cluster_copy on number = cluster_copy.website"
        " where state = 'joined' and changes order by domain"
    ).fetchall()
    return lacking, {
        website: (number, first_day)
        for website, number, first_day in connection.execute(
            "/* recover.joined */ select website, copy, from_day from cluster_copy join website"
            " on number = cluster_copy.website and website.day_offset_minutes = cluster_copy.day_offset_minutes"
            " where state = 'joined' order by website"
        )
    }


async def _store_events(
    connection: sqlite3.Connection, servers: Servers, joined: Joined, report: Callable[[int], None]
) -> None:
    events, client = 0, servers.client
    for website, (copy, first_day) in joined.items():
        days = range(first_day, archive.ALL_DAYS.stop)
        events += await archive.fill(connection, servers, website, copy, days, report, events)
        await _store_points(connection, client, website, copy)
        await _store_sums(connection, client, website, copy)


async def _store_points(connection: sqlite3.Connection, client: Client, website: int, copy: int) -> None:
    labels = Labels()
    for (day,) in await client.rows(f"select distinct day from heat where website = {copy}", {}):
        rows = await client.rows(
            "select toString(pathname), width, kind, y, x, sum(points) from heat"
            f" where website = {copy} and day = {day} group by pathname, width, kind, y, x",
            {},
        )
        with transaction(connection):
            number = labels.numbers_of(connection, {page for page, *_ in rows})
            connection.executemany(
                "/* recover.heat */ insert into heatmap_point"
                " (website, day, pathname, viewport, kind, bin_y, bin_x, points) values (?, ?, ?, ?, ?, ?, ?, ?)",
                [(website, day, number[page], *cell) for page, *cell in rows],
            )


async def _store_sums(connection: sqlite3.Connection, client: Client, website: int, copy: int) -> None:
    """Store imported sums, after the events: they count on days without any."""
    labels = Labels()
    for (number,) in await client.rows(f"select distinct import from day_sum where website = {copy}", {}):
        rows = await client.rows(
            f"select field, day, toString(value), known, {', '.join(FIGURES)} from day_sum"
            f" where website = {copy} and import = {number} order by day, field, value",
            {},
        )
        with transaction(connection):
            label = labels.numbers_of(connection, {row[2] for row in rows})
            sums = [
                imported_sums.Sum(field, day, label[value], known, figures)
                for field, day, value, known, *figures in rows
            ]
            imported_sums.add(connection, website, number, sums)


async def _store_event_ids(connection: sqlite3.Connection, client: Client, joined: Joined, oldest_ms: int) -> None:
    place, parameters = "(0, 0, '')", Parameters()
    while rows := await client.rows(
        "select website_number, minute_ms, digest, max(arrived_ms), argMax(row_ts, arrived_ms),"
        f" argMax(row_id, arrived_ms) from event_id where (website_number, minute_ms, digest) > {place}"
        f" and arrived_ms >= {oldest_ms} group by website_number, minute_ms, digest"
        f" order by website_number, minute_ms, digest limit {_ROWS}",
        parameters.values,
    ):
        parameters = Parameters()
        place = f"({rows[-1][0]}, {rows[-1][1]}, {parameters.text(rows[-1][2])})"
        with transaction(connection):
            insert(connection, "recover", "event_id", [_event_id(row) for row in rows if row[0] in joined], "insert")


def _event_id(row: list[Any]) -> tuple[Any, ...]:
    website, minute_ms, digest, arrived_ms, row_ts, row_id = row
    return website, minute_ms, bytes.fromhex(digest), arrived_ms, row_ts if row_id else None, row_id or None


async def _last_id(client: Client) -> int:
    ids = [(await client.rows(f"select max(id) from {table}", {}))[0][0] for table in ("event", "settled", "measure")]
    return int(max(ids))


def _continue_ids(connection: sqlite3.Connection, last_id: int) -> None:
    connection.execute(
        "/* recover.ids */ update meta set value = ? where name = 'next_id'", (max(last_id, 0) + _FREE_IDS,)
    )
