"""The SQLite engine, followed by ClickHouse: it stores everything as without a cluster, ships every commit, and has
reports answered by ClickHouse where it is up to date.

Nothing that is collected depends on ClickHouse: where it is away, events are stored and reports are answered as without
it. `KeepEngine` answers 202 only once ClickHouse has the events, refuses them where it is away, and has older days in
ClickHouse alone.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tally.cluster.cleaner import Cleaner
from tally.cluster.confirmed_commit import ConfirmedCommit
from tally.cluster.control import Control
from tally.cluster.joiner import Joiner
from tally.cluster.outbox import Outbox
from tally.cluster.reports import FollowReports
from tally.cluster.servers import Servers
from tally.cluster.settler import Settler
from tally.cluster.shipper import Shipper
from tally.cluster.unloader import Unloader
from tally.cluster.worker import Worker
from tally.engine.engine import Health
from tally.engine.values import Goal
from tally.errors import log
from tally.ingest.node import Node
from tally.sqlite.engine import SqliteEngine, needs_clickhouse
from tally.sqlite.group_commit import GroupCommit
from tally.storage import cluster_tables
from tally.storage.database import BadDatabase

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class FollowEngine(SqliteEngine):
    """The engine of `--cluster-mode follow`."""

    is_strict = False

    def __init__(self, node: Node, goals_of: Callable[[int], Sequence[Goal]] = lambda website: ()) -> None:
        settings, database = node.settings, node.database
        self.servers = Servers(
            settings.clickhouse, settings.cluster_name, settings.query_seconds, settings.cluster_ack_seconds
        )
        self.outbox = Outbox(is_strict=self.is_strict)
        self.shipper = Shipper(self.servers, self.outbox, database, node.clock)
        self.settler = Settler(self.servers, self.shipper, database, node.clock)
        self.joiner = Joiner(self.shipper, database, settings, node.clock)
        self.cleaner = Cleaner(self.servers, self.shipper, database, node.clock)
        # In the order in which they begin.
        self.workers: list[Worker] = [self.shipper, self.settler, self.joiner, self.cleaner]
        super().__init__(node, goals_of)
        self.event_writer.outbox = self.outbox
        self.sqlite_reports = self.reports
        self.reports = FollowReports(  # type: ignore[assignment]
            self.sqlite_reports, database, self.changes, self.shipper, self.servers
        )

    async def open(self) -> None:
        """Open the SQLite engine and begin to ship. Raises BadDatabase."""
        if not await self._node.database.writer.run(cluster_tables.exist):
            raise BadDatabase(f"{self._node.database.path} has no outbox: run `analytics-server cluster init` first")
        if not self.is_strict:
            try:
                await self._node.database.writer.run(cluster_tables.require_all)
            except cluster_tables.UnloadedDays:
                raise needs_clickhouse(self._node.database.path) from None
        await self._node.database.writer.run(self.outbox.start)
        await super().open()
        if self.is_strict and len(self.servers.urls) == 1:
            log.warning("--cluster-mode keep names one server of ClickHouse: events that it alone has are lost with it")
        for worker in self.workers:
            worker.start()

    async def close(self) -> None:
        """Close the SQLite engine; what is not shipped is shipped after the next start."""
        for worker in reversed(self.workers):
            await worker.stop()
        await super().close()
        await self.servers.close()

    def health(self) -> Health:
        """Return the health of the SQLite engine, with how many commits ClickHouse does not have yet."""
        return super().health()._replace(lag=self.shipper.lag)

    def metrics(self) -> "Iterable[Metric]":
        """Yield the families of the SQLite engine and of the cluster."""
        from tally.cluster.metrics import families  # here: imported after the server listens

        yield from super().metrics()
        yield from families(self.shipper, self.outbox, self.reports, self.workers)  # type: ignore[arg-type]


class KeepEngine(FollowEngine):
    """The engine of `--cluster-mode keep`."""

    is_strict = True

    def __init__(self, node: Node, goals_of: Callable[[int], Sequence[Goal]] = lambda website: ()) -> None:
        super().__init__(node, goals_of)
        database = node.database
        self.unloader = Unloader(
            self.servers,
            self.shipper,
            database,
            self.archive,
            lambda: self.work.builder,
            node.clock,
            node.settings.cluster_keep_days,
        )
        self.control = node.registry.elsewhere = Control(
            self.servers, database, node.clock, node.settings, lambda: bool(self.shipper.problem)
        )
        self.workers += [self.control, self.unloader]
        # The newest control copy must not name a copy that is deleted: another machine would have that.
        self.cleaner.prepare = self.control.copy

    def _commit(self, *parts: Any) -> GroupCommit:
        self.confirmed = ConfirmedCommit(self.outbox, self.shipper, self._node.settings.cluster_ack_seconds, *parts)
        return self.confirmed

    async def close(self) -> None:
        """Close the engine; requests whose events are not confirmed yet have no answer."""
        await super().close()
        self.confirmed.close()

    def health(self) -> Health:
        """Return the health of the engine that follows, with why events are refused."""
        return super().health()._replace(problem=self.confirmed.refusal)

    def metrics(self) -> "Iterable[Metric]":
        """Yield the families of the engine that follows and of confirmation."""
        from tally.cluster.metrics import confirmation  # here: imported after the server listens

        yield from super().metrics()
        yield from confirmation(self.confirmed, self.control)
