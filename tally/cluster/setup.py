"""`cluster check` and `cluster init`: whether the servers can follow a database, and the tables on both sides.

A database of ClickHouse belongs to one file: to the series that `init` has written into both. `init` may be interrupted
and repeated.
"""

import secrets
import socket
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tally.clickhouse import schema
from tally.clickhouse.client import Client, NoAnswer, Refused, quorum
from tally.clickhouse.schema import TABLES, create_table
from tally.cluster.servers import opened
from tally.cluster.shipper import OTHER_SERIES, CannotFollow, last_shipped
from tally.errors import ApiError
from tally.settings import Settings
from tally.storage import cluster_tables
from tally.storage.database import Connection, statements, transaction

_KEPT_ELSEWHERE = (
    "these tables may be all that there is of another file's events: `analytics-server cluster recover` reads them; to"
    " delete them, drop the database in ClickHouse"
)
_TRIES = "tally_check"


async def check(settings: Settings) -> list[str]:
    """Return lines about each server. Raises CannotFollow for the first that cannot follow."""
    lines, urls = [], settings.clickhouse
    for url in urls:
        async with _checked(url, settings) as client:
            await client.execute(schema.drop(_TRIES))
            await client.execute(create_table("shipped", is_replicated=len(urls) > 1, name=_TRIES))
    # All have the table: an insert may need several.
    for number, url in enumerate(urls):
        async with _checked(url, settings) as client:
            for _ in range(2):
                await client.insert(_TRIES, [{"series": "", "number": number}], f"once/{number}")
    for url in urls:
        async with _checked(url, settings) as client:
            await client.sync(_TRIES)
            ((version, stored),) = await client.rows(f"select version(), count() from {_TRIES}", {})
        if stored > len(urls):
            raise CannotFollow(f"{_shown(url)}: a repeated insert with the same token was stored twice")
        if stored < len(urls):
            raise CannotFollow(f"{_shown(url)}: it lacks what the other servers store: see their macros and Keeper")
        lines.append(f"{_shown(url)}: ClickHouse {version}, tables, inserts and their repetition work")
    for url in urls:
        async with _checked(url, settings) as client:
            await client.execute(schema.drop(_TRIES))
    return lines


def _shown(url: str) -> str:
    """Return the address of a server without its password."""
    return url.rpartition("@")[2].removeprefix("http://").removeprefix("https://").rstrip("/")


@asynccontextmanager
async def _checked(url: str, settings: Settings) -> AsyncIterator[Client]:
    """Yield a client of a server, whose database is created. Raises CannotFollow where a statement fails."""
    try:
        await create_database(url, settings)
        async with _client(url, settings.cluster_name, settings) as client:
            yield client
    except (ApiError, NoAnswer):
        raise CannotFollow(f"{_shown(url)} does not answer") from None
    except Refused as failure:
        raise CannotFollow(f"{_shown(url)}: {failure}") from None


async def create_database(url: str, settings: Settings) -> None:
    """Create the database of a server where it is missing. Raises Refused, NoAnswer."""
    async with _client(url, "default", settings) as client:
        await client.execute(schema.create_database(settings.cluster_name))


async def init(connection: Connection, settings: Settings, *, again: bool) -> None:
    """Create the tables on both sides. again: delete those of ClickHouse first, and begin a new series.

    Raises CannotFollow, Refused, NoAnswer, ApiError.
    """
    for url in settings.clickhouse:
        await create_database(url, settings)
    if again:
        async with _client(settings.clickhouse[0], settings.cluster_name, settings) as client:
            await _refuse_to_delete(connection, client)
    with transaction(connection):
        series = _series(connection, again=again)
    for url in settings.clickhouse:
        async with _client(url, settings.cluster_name, settings) as client:
            if again:
                for table in TABLES:
                    await client.execute(schema.drop(table))
            present = {name for (name,) in await client.rows("show tables", {})}
            for table in TABLES:
                if table not in present:
                    await client.execute(create_table(table, is_replicated=len(settings.clickhouse) > 1))
            # Those of tables that an earlier version has made.
            for table, column in schema.missing(await client.rows(schema.COLUMNS, {})):
                await client.execute(schema.add_column(table, column))
    async with _client(settings.clickhouse[0], settings.cluster_name, settings) as client:
        newest = await _newest_series(client)
        if newest not in ("", series):
            raise CannotFollow(OTHER_SERIES)
        await begin_series(client, socket.gethostname(), series, is_begun=bool(newest))


async def _refuse_to_delete(connection: Connection, client: Client) -> None:
    """Raise CannotFollow where the tables may be all that there is of another file's events."""
    present = {name for (name,) in await client.rows("show tables", {})}
    if {"series", "control"} <= present:
        await client.sync("control")
        series = cluster_tables.series(connection) if cluster_tables.exist(connection) else None
        if await client.rows("select 1 from control limit 1", {}) and series != await _newest_series(client):
            raise CannotFollow(_KEPT_ELSEWHERE)


async def _newest_series(client: Client) -> str:
    """Return the newest series of a database, "" where there is none."""
    # The server may be new.
    await client.sync("series")
    rows = await client.rows("select series from series order by number desc, series desc limit 1", {})
    return str(rows[0][0]) if rows else ""


async def begin_series(client: Client, node: str, series: str = "", *, is_begun: bool = False) -> str:
    """Begin a series, a new one where none is named, and return it: servers of older ones ship nothing more.

    Raises Refused, NoAnswer, ApiError; it may then be called again, for yet another one. is_begun: only complete it.
    """
    series = series or secrets.token_hex(8)
    if not is_begun:
        ((number,),) = await client.rows("select max(number) + 1 from series", {})
        await client.insert("series", [{"series": series, "number": number, "node": node}], f"{series}/begin")
    await client.insert("shipped", [{"series": series, "number": 0}], f"{series}/0/shipped")
    return series


async def last_batch(settings: Settings, series: str) -> int | None:
    """Return the last batch of a series that ClickHouse has, as `last_shipped` does."""
    async with opened(settings) as servers:
        return await last_shipped(servers.client, series)


@asynccontextmanager
async def _client(url: str, database: str, settings: Settings) -> AsyncIterator[Client]:
    """Yield a client of a server for one of its databases."""
    inserts = quorum(len(settings.clickhouse), settings.cluster_ack_seconds)
    client = Client(url, database, settings.query_seconds, inserts)
    try:
        yield client
    finally:
        await client.close()


def _series(connection: Connection, *, again: bool) -> str:
    """Return the series of the file, whose tables are created where they are missing."""
    if not cluster_tables.exist(connection):
        for statement in statements(cluster_tables.SCRIPT):
            connection.execute(statement)
    elif again:
        cluster_tables.end_all(connection, "begun again")
        # What ClickHouse has is deleted with its tables.
        for table in cluster_tables.TABLES:
            connection.execute(f"/* setup.again */ delete from {table}")
    begun = connection.execute("/* setup.series */ select series from cluster_state").fetchone()
    if begun is not None:
        return str(begun[0])
    series = secrets.token_hex(8)
    connection.execute(
        "/* setup.begin */ insert into cluster_state (series, shipped, claimed, claimed_ms) values (?, 0, 0, 0)",
        (series,),
    )
    return series


def copies(connection: sqlite3.Connection, website: int) -> Sequence[tuple[str, str]]:
    """Return (state, reason) of the copies of a website that ClickHouse may have, the newest first."""
    return connection.execute(
        "/* setup.copies */ select state, reason from cluster_copy where website = ? order by copy desc", (website,)
    ).fetchall()
