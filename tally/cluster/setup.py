"""`cluster check` and `cluster init`: whether the servers can follow a database, and the tables on both sides.

A database of ClickHouse belongs to one file: to the series that `init` has written into both. `init` may be interrupted
and repeated.
"""

import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tally.clickhouse import schema
from tally.clickhouse.client import Client, NoAnswer, Refused
from tally.clickhouse.schema import TABLES, create_table
from tally.cluster.servers import WrongServers, check_kind, opened
from tally.cluster.shipper import OTHER_SERIES, CannotFollow, last_shipped
from tally.cluster.worker import reason_of
from tally.errors import ApiError
from tally.settings import Settings
from tally.storage import cluster_tables
from tally.storage.database import Connection, statements, transaction

_KEPT_ELSEWHERE = (
    "these tables may be all that there is of another file's events: `analytics-server cluster recover` reads them; to"
    " delete them, drop the database in ClickHouse"
)
_TRIES = "tally_check"
# Rows expire by the clocks of ClickHouse.
_MAX_APART_S = 60


async def check(settings: Settings) -> list[str]:
    """Return lines about each server. Raises CannotFollow for the first that cannot follow."""
    lines = []
    async with opened(settings, has_tables=False) as servers:
        named = [(client.name, client) for client in servers.clients]
        for name, client in named:
            with _checking(name):
                await client.execute(schema.create_database(settings.cluster_name), "default")
                await check_kind(client)
                await client.execute(schema.drop(_TRIES))
                await client.execute(create_table("shipped", is_replicated=len(named) > 1, name=_TRIES))
        # All have the table: an insert may need several.
        for number, (name, client) in enumerate(named):
            with _checking(name):
                for _ in range(2):
                    await client.insert(_TRIES, [{"series": "", "number": number}], f"once/{number}")
        for name, client in named:
            with _checking(name):
                await client.sync(_TRIES)
                columns = "version(), count(), toUnixTimestamp(now())"
                ((version, stored, now_s),) = await client.rows(f"select {columns} from {_TRIES}", {})
            apart_s = now_s - time.time()
            if abs(apart_s) > _MAX_APART_S:
                raise CannotFollow(f"{name}: its clock and this machine's are {round(apart_s)} seconds apart")
            if stored > len(named):
                raise CannotFollow(f"{name}: a repeated insert with the same token was stored twice")
            if stored < len(named):
                raise CannotFollow(f"{name}: it lacks what the other servers store: see their macros and Keeper")
            with _checking(name):
                # A user may lack the right without which nothing expires.
                await client.execute(schema.delete_where(_TRIES, f"number >= {len(named)}", waits_for=0))
            lines.append(f"{name}: ClickHouse {version}, tables, inserts and their repetition work")
        for name, client in named:
            with _checking(name):
                await client.execute(schema.drop(_TRIES))
    return lines


@contextmanager
def _checking(server: str) -> Iterator[None]:
    """Name the server of which a statement fails. Raises CannotFollow."""
    try:
        yield
    except (ApiError, NoAnswer) as failure:
        raise CannotFollow(f"{server}: {_problem_of(failure)}") from None
    except Refused as failure:
        raise CannotFollow(f"{server}: {failure}") from None


def _problem_of(failure: Exception) -> str:
    return failure.message if isinstance(failure, WrongServers) else f"does not answer ({reason_of(failure)})"


async def init(connection: Connection, settings: Settings, *, again: bool) -> None:
    """Create the tables on both sides. again: delete those of ClickHouse first, and begin a new series.

    Raises CannotFollow, Refused, NoAnswer, ApiError.
    """
    async with opened(settings, has_tables=False) as servers:
        for client in servers.clients:
            await client.execute(schema.create_database(settings.cluster_name), "default")
            # Tables of one server may be replaced by those of several.
            if not (again and client.is_replicated):
                await check_kind(client)
        if again:
            await _refuse_to_delete(connection, servers.client)
        with transaction(connection):
            series = _series(connection, again=again)
        for client in servers.clients:
            if again:
                for table in TABLES:
                    await client.execute(schema.drop(table))
            present = {name for (name,) in await client.rows("show tables", {})}
            for table in TABLES:
                if table not in present:
                    await client.execute(create_table(table, is_replicated=len(servers.clients) > 1))
            # Those of tables that an earlier version has made.
            for table, column in schema.missing(await client.rows(schema.COLUMNS, {})):
                await client.execute(schema.add_column(table, column))
        # The server may be new.
        await servers.client.sync("series")
        newest = await _newest_series(servers.client)
        if newest not in ("", series):
            raise CannotFollow(OTHER_SERIES)
        await begin_series(servers.client, series, is_begun=bool(newest))


async def _refuse_to_delete(connection: Connection, client: Client) -> None:
    """Raise CannotFollow where the tables may be all that there is of another file's events."""
    present = {name for (name,) in await client.rows("show tables", {})}
    if {"series", "control"} <= present:
        # Tables of one server are replaced by those of several.
        if await client.rows(schema.IS_REPLICATED, {}) == [[1]]:
            await client.sync("control", "series")
        series = cluster_tables.series(connection) if cluster_tables.exist(connection) else None
        if await client.rows("select 1 from control limit 1", {}) and series != await _newest_series(client):
            raise CannotFollow(_KEPT_ELSEWHERE)


async def _newest_series(client: Client) -> str:
    """Return the newest series of a database, "" where there is none."""
    rows = await client.rows("select series from series order by number desc, series desc limit 1", {})
    return str(rows[0][0]) if rows else ""


async def begin_series(client: Client, series: str = "", *, is_begun: bool = False) -> str:
    """Begin a series, a new one where none is named, and return it: servers of older ones ship nothing more.

    Raises Refused, NoAnswer, ApiError; it may then be called again, for yet another one. is_begun: only complete it.
    """
    series = series or secrets.token_hex(8)
    if not is_begun:
        ((number,),) = await client.rows("select max(number) + 1 from series", {})
        row = {"series": series, "number": number, "node": socket.gethostname()}
        await client.insert("series", [row], f"{series}/begin")
    await client.insert("shipped", [{"series": series, "number": 0}], f"{series}/0/shipped")
    return series


async def states(settings: Settings, series: str) -> list[tuple[str, int, str]]:
    """Return the name of each server, the last batch of a series that it has, and why it has none, "" where it does."""
    async with opened(settings, has_tables=False) as servers:
        return [(client.name, *await _state(client, series)) for client in servers.clients]


async def _state(client: Client, series: str) -> tuple[int, str]:
    try:
        await check_kind(client)
        last = await last_shipped(client, series)
    except (NoAnswer, ApiError) as failure:
        return 0, _problem_of(failure)
    except CannotFollow as failure:
        return 0, str(failure)
    return (0, "has the tables of another file, or none") if last is None else (last, "")


def _series(connection: Connection, *, again: bool) -> str:
    """Return the series of the file, whose tables are created where they are missing."""
    if not cluster_tables.exist(connection):
        for statement in statements(cluster_tables.SCRIPT):
            connection.execute(statement)
    elif again:
        cluster_tables.end_all(connection, "begun again")
        # What ClickHouse has is deleted with its tables. A server that runs has to know that websites had a copy.
        connection.execute("/* setup.copies */ update cluster_copy set deleted_ms = ?", (cluster_tables.DELETED_MS,))
        for table in ("cluster_day", "cluster_outbox", "cluster_state"):
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
