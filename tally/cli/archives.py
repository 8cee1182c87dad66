"""How commands use an archive (tally/engine/archive.py), whose methods are asynchronous.

Commands import this module in their functions, since importing asyncio takes longer than many commands run. Ctrl-C
ends what waits for an archive as it ends any command.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from tally.accounts.definitions import all_definitions
from tally.cli.console import Failure
from tally.engine.values import Goal
from tally.errors import ApiError
from tally.settings import Settings
from tally.sqlite.archive import FileArchive
from tally.storage import cluster_tables
from tally.storage.database import Connection, transaction

T = TypeVar("T")


def archive_of(settings: Settings, connection: Connection, website: int) -> FileArchive:
    """Return the archive of a website of the database, which writes on a connection."""

    async def write(step: Callable[..., T], *what: Any) -> T:
        with transaction(connection):
            return step(connection, *what)

    def goals_of(website: int) -> Sequence[Goal]:
        definitions = all_definitions(connection).get(website, ())
        if not any(definition.kind == "goal" for definition in definitions):
            return []
        from tally.api.params import goals_of  # here: 90 ms, which most files do not need

        return [saved.goal for saved in goals_of(definitions)]

    if settings.clickhouse and cluster_tables.exist(connection):
        from tally.cluster.archive import ClusterArchive  # here: no other file needs it

        return ClusterArchive(settings.db, write, goals_of, settings)
    try:
        cluster_tables.require_all(connection, website)
    except cluster_tables.UnloadedDays:
        raise Failure("Older events are in ClickHouse alone: set ANALYTICS_CLICKHOUSE as of the server.") from None
    return FileArchive(settings.db, write, goals_of)


def iterated(items: AsyncIterator[T]) -> Iterator[T]:
    """Yield what an archive yields, without an event loop of the caller."""

    async def following() -> T | None:
        return await anext(items, None)

    try:
        with asyncio.Runner() as runner:
            while (item := runner.run(following())) is not None:
                yield item
    except ApiError as failure:
        raise Failure(f"ClickHouse does not answer ({failure.message}): is it running?") from None


def done(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a call of an archive."""
    return asyncio.run(call)
