"""The servers of a cluster: one of them is used until it fails, then the next one.

A server is used once it has everything that the others have stored, also what another process has sent to one of them
(`cluster join`). With one server there is nothing to wait for.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tally.clickhouse import schema
from tally.clickhouse.client import Client, NoAnswer, Refused, quorum
from tally.clickhouse.schema import OF_WEBSITES, TABLES
from tally.errors import STORAGE_UNAVAILABLE, ApiError, log
from tally.settings import Settings

_SEVERAL = "the tables are those of several servers: name all of them, one --clickhouse URL each"
_SINGLE = "the tables are those of one server: see `From one server to three` in docs/runbook.md"


class WrongServers(ApiError):
    """One server is named for tables of several, on which it would store alone, or the other way round."""

    def __init__(self, message: str) -> None:
        super().__init__(STORAGE_UNAVAILABLE, message, retry_after_s=10)


class Servers:
    """Clients of the servers of a cluster. Used by the event loop alone; `close` ends their connections."""

    def __init__(self, urls: Sequence[str], database: str, query_s: float = 30.0, ack_s: float = 5.0) -> None:
        self.urls = urls
        self.clients = [Client(url, database, query_s, quorum(len(urls), ack_s)) for url in urls]
        self._used = 0
        # Copies that the server in use has completely; 0: what was shipped before it was used.
        self._has: set[int] = set()

    @property
    def client(self) -> Client:
        """The client of the server in use."""
        return self.clients[self._used]

    async def close(self) -> None:
        """Close the connections."""
        for client in self.clients:
            await client.close()

    def use_next(self) -> None:
        """Use the next server, after a failure."""
        self._used = (self._used + 1) % len(self.clients)
        self._has = set()

    async def sync(self, copy: int = 0) -> None:
        """Wait until the server in use has what the others have of a copy, without one which batches and series.

        Raises Refused, NoAnswer.
        """
        if copy not in self._has:
            # Another server may be chosen meanwhile, with another set.
            has = self._has
            await self.client.sync(*(TABLES if copy else ("shipped", "series")))
            has.update((0, copy))

    async def reach(self) -> None:
        """Use the first server that has what the others have of all tables. Raises Refused, NoAnswer, WrongServers."""
        for others in reversed(range(len(self.clients))):
            try:
                await check_kind(self.client)
                await self.client.sync(*TABLES)
                return
            except (Refused, NoAnswer):
                if not others:
                    raise
                self.use_next()

    async def delete(self, copy: int, before_day: int | None = None) -> None:
        """Delete the rows of a copy, or those before a day. Raises Refused, NoAnswer."""
        for table in OF_WEBSITES:
            await self.client.execute(schema.delete_of(table, copy, before_day))

    async def delete_event_ids(self, website: int) -> None:
        """Delete the event_ids of a deleted website, which no copy has. Raises Refused, NoAnswer."""
        await self.client.execute(schema.delete_where("event_id", f"website_number = {website}", waits_for=2))


async def check_kind(client: Client) -> None:
    """Raise WrongServers where one server is named for the tables of several, or the other way round, and NoAnswer."""
    try:
        rows = await client.rows(schema.IS_REPLICATED, {}, claim=None)
    except ApiError as failure:
        raise NoAnswer(failure.message) from None
    if rows and bool(rows[0][0]) != client.is_replicated:
        raise WrongServers(_SINGLE if client.is_replicated else _SEVERAL)


@asynccontextmanager
async def opened(settings: Settings, min_query_s: float = 0, *, has_tables: bool = True) -> AsyncIterator[Servers]:
    """Yield the servers of the settings to a command, which uses one that has everything. Raises ApiError, also
    WrongServers.

    min_query_s: which its queries may take in any case. has_tables: whether all servers should have all tables.
    """
    query_s = max(settings.query_seconds, min_query_s)
    servers = Servers(settings.clickhouse, settings.cluster_name, query_s, settings.cluster_ack_seconds)
    try:
        try:
            if has_tables:
                await servers.reach()
        except (Refused, NoAnswer) as failure:
            log.error("no server of ClickHouse has everything: %s", failure)
            raise ApiError(STORAGE_UNAVAILABLE, f"ClickHouse: {failure}", retry_after_s=10) from None
        yield servers
    finally:
        await servers.close()
