"""The servers of a cluster: one of them is used until it fails, then the next one.

A server that takes over is used for reports once it has everything that the others have stored.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tally.clickhouse.client import Client, NoAnswer, Refused
from tally.clickhouse.schema import TABLES

T = TypeVar("T")
# Mutations are complete on all servers when they are answered.
_SYNC = "mutations_sync = 2"


class Servers:
    """Clients of the servers of a cluster. Used by the event loop alone; `close` ends their connections."""

    def __init__(self, urls: Sequence[str], database: str, query_s: float = 30.0) -> None:
        self.urls = urls
        self._clients = [Client(url, database, query_s) for url in urls]
        self._used = 0

    @property
    def client(self) -> Client:
        """The client of the server in use."""
        return self._clients[self._used]

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            await client.close()

    async def use_next(self) -> None:
        """Use the next server, after a failure, once it has what the others have. Raises Refused, NoAnswer."""
        self._used = (self._used + 1) % len(self._clients)
        for table in TABLES if len(self._clients) > 1 else ():
            await self.client.execute(f"system sync replica {table}")

    async def on_any(self, do: Callable[[Client], Awaitable[T]]) -> T:
        """Return the result of the server in use, or of the first other that has one. Raises Refused, NoAnswer."""
        for _ in self._clients[1:]:
            try:
                return await do(self.client)
            except (Refused, NoAnswer):
                with contextlib.suppress(Refused, NoAnswer):
                    await self.use_next()
        return await do(self.client)

    async def delete(self, copy: int, before_day: int | None = None) -> None:
        """Delete the rows of a copy, or those before a day. Raises Refused, NoAnswer."""
        days = "" if before_day is None else f" and day < {before_day}"
        for table in (name for name in TABLES if name != "shipped"):
            condition = f"website = {copy}{days}"
            await self.on_any(
                lambda client, table=table, condition=condition: client.execute(  # type: ignore[misc]
                    f"alter table {table} delete where {condition} settings {_SYNC}"
                )
            )
