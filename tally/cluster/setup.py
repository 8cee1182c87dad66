"""`cluster check` and `cluster init`: whether the servers can follow a database, and the tables on both sides.

A database of ClickHouse belongs to one file: to the series that `init` has written into both. `init` may be interrupted
and repeated.
"""

import secrets
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tally.clickhouse import schema
from tally.clickhouse.client import Client, NoAnswer, Refused
from tally.clickhouse.schema import TABLES, create_table
from tally.cluster.shipper import OTHER_SERIES, CannotFollow
from tally.errors import ApiError
from tally.settings import Settings
from tally.storage import cluster_tables
from tally.storage.database import Connection, statements, transaction

_TRIES = "tally_check"


async def check(settings: Settings) -> list[str]:
    """Return lines about each server. Raises Refused or NoAnswer for the first that cannot follow."""
    lines = []
    for url in settings.clickhouse:
        shown = url.rpartition("@")[2].removeprefix("http://").removeprefix("https://").rstrip("/")
        try:
            await create_database(url, settings)
            async with _client(url, settings.cluster_name, settings) as client:
                ((version,),) = await client.rows("select version()", {})
                await client.execute(schema.drop(_TRIES))
                await client.execute(create_table("shipped", is_replicated=len(settings.clickhouse) > 1, name=_TRIES))
                for _ in range(2):
                    await client.insert(_TRIES, [{"series": "", "number": 1}], "once")
                ((stored,),) = await client.rows(f"select count() from {_TRIES}", {})
                await client.execute(schema.drop(_TRIES))
        except (ApiError, NoAnswer):
            raise CannotFollow(f"{shown} does not answer") from None
        except Refused as failure:
            raise CannotFollow(f"{shown}: {failure}") from None
        if stored != 1:
            raise CannotFollow(f"{shown}: a repeated insert with the same token was stored twice")
        lines.append(f"{shown}: ClickHouse {version}, tables, inserts and their repetition work")
    return lines


async def create_database(url: str, settings: Settings) -> None:
    """Create the database of a server where it is missing. Raises Refused, NoAnswer."""
    async with _client(url, "default", settings) as client:
        await client.execute(schema.create_database(settings.cluster_name))


async def init(connection: Connection, settings: Settings, *, again: bool) -> None:
    """Create the tables on both sides. again: delete those of ClickHouse first, and begin a new series.

    Raises CannotFollow, Refused, NoAnswer, ApiError.
    """
    series = _series(connection, again=again)
    for url in settings.clickhouse:
        await create_database(url, settings)
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
        known = {str(name) for (name,) in await client.rows("select distinct series from shipped", {})}
        if known - {series}:
            raise CannotFollow(OTHER_SERIES)
        if not known:
            await client.insert("shipped", [{"series": series, "number": 0}], f"{series}/0/shipped")


@asynccontextmanager
async def _client(url: str, database: str, settings: Settings) -> AsyncIterator[Client]:
    """Yield a client of a server for one of its databases."""
    client = Client(url, database, settings.query_seconds)
    try:
        yield client
    finally:
        await client.close()


def _series(connection: Connection, *, again: bool) -> str:
    """Return the series of the file, whose tables are created where they are missing."""
    with transaction(connection):
        if not cluster_tables.exist(connection):
            for statement in statements(cluster_tables.SCRIPT):
                connection.execute(statement)
        elif again:
            cluster_tables.end_all(connection, "begun again")
            # What ClickHouse has is deleted with its tables.
            for table in ("cluster_copy", "cluster_outbox", "cluster_state"):
                connection.execute(f"/* setup.again */ delete from {table}")
        known = connection.execute("/* setup.series */ select series from cluster_state").fetchone()
        if known is not None:
            return str(known[0])
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
