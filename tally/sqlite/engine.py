"""The SQLite engine: events, their reports and the background work on them, in the server's own database file.

It adds to the open database: the queue and the writer of events, visitors in memory, rollups and the columns of past
days, deletion and retention, the nightly copies of the file, and new events sent to another machine. `open` starts what
runs in the background; with another engine none of it exists.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tally.engine.engine import Health, OnCommitted
from tally.engine.ingest import WriteRequest
from tally.engine.values import Goal
from tally.events.sessions import Sessions
from tally.ingest.node import Node
from tally.maintenance.background_work import BackgroundWork
from tally.maintenance.scheduled_backup import ScheduledBackup
from tally.maintenance.server_audit import record_failed_backup
from tally.sqlite.archive import SqliteArchive
from tally.sqlite.changes import Changes
from tally.sqlite.group_commit import GroupCommit
from tally.sqlite.realtime import Realtime
from tally.sqlite.reports import SqliteReports
from tally.sqlite.writer import EventWriter, WriteResult
from tally.storage import cluster_tables
from tally.storage.connections import on_thread
from tally.storage.database import BadDatabase, connect_reader
from tally.storage.value_limits import Limits

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tally.maintenance.increment_stream import IncrementStream
    from tally.maintenance.offsite_backup import OffsiteBackup

# Counting a day reads its rows once, so a large cache would hold nothing that is read again.
BUILDER_CACHE_KIB = 1_000


def needs_clickhouse(path: Path) -> BadDatabase:
    """Return the error of a file whose older days ClickHouse alone has."""
    return BadDatabase(
        f"older events of {path} are in ClickHouse alone: start it with --cluster-mode keep, or a whole database that"
        " `analytics-server cluster leave FILE` writes"
    )


class SqliteEngine:
    """An engine on the database of a node. `goals_of` returns the saved goals of a website by its number."""

    work: BackgroundWork

    def __init__(self, node: Node, goals_of: Callable[[int], Sequence[Goal]] = lambda website: ()) -> None:
        settings, database = node.settings, node.database
        limits = Limits(settings.max_new_values, settings.max_new_names, settings.max_event_data * 1_000_000)
        self._node, self._goals_of = node, goals_of
        self.event_writer = EventWriter(
            Sessions(settings.max_identities), node.registry.event_limit, node.clock, limits
        )
        self.changes = Changes(database, node.registry, self.event_writer)
        self.live = Realtime()
        self.reports = SqliteReports(database, self.changes, self.live)
        self.archive = SqliteArchive(database.path, lambda: self.work.builder, goals_of)
        self.ingest = self._commit(database.writer, self.event_writer, node.clock, database.health, self._publish)
        # Called with the events that each commit has stored, each with the source that it was sent with.
        self.on_committed: list[OnCommitted] = []
        self.backup: ScheduledBackup | None = None
        self.offsite: OffsiteBackup | None = None
        self.increments: IncrementStream | None = None
        self._closing = contextlib.AsyncExitStack()

    def _commit(self, *parts: Any) -> GroupCommit:
        return GroupCommit(*parts)

    async def open(self) -> None:
        """Continue after the ids in the file, and start the background work. Raises BadDatabase."""
        node, database = self._node, self._node.database
        with database.explaining():
            self.changes.last_id = await database.writer.run(self.event_writer.start)
            if self.event_writer.outbox is None:
                # What is stored from now on is in no copy.
                try:
                    await database.write(
                        lambda connection: cluster_tables.end_all(connection, "server without cluster")
                    )
                except cluster_tables.UnloadedDays:
                    raise needs_clickhouse(database.path) from None
        node.registry.others_wrote = self._others_wrote
        reader = await on_thread(
            connect_reader(database.path, BUILDER_CACHE_KIB), lambda: connect_reader(database.path, BUILDER_CACHE_KIB)
        )
        self._closing.push_async_callback(reader.close)
        self.work = BackgroundWork(
            database.writer,
            reader,
            self.event_writer.decider.labels,
            self.event_writer.decider.value_limits,
            self.event_writer.decider.sessions,
            node.clock,
            keep_days=node.settings.keep_days,
            is_busy=database.is_busy,
            changed=self.changes.note,
            events_deleted=self._events_deleted,
            goals_of=self._goals_of,
            deleted=database.want_empty_log,
            failed=database.health.failed,
            space=database.health.space_now,
        )
        database.recovery.register(reader, self.work)
        self.work.start()
        self._closing.push_async_callback(self.work.stop)
        self._open_backups()

    async def close(self) -> None:
        """Write all that waits in the queue, and end the background work."""
        for running in (self.backup, self.offsite, self.increments):
            if running is not None:
                running.close()
        self.ingest.stop()
        await self._closing.aclose()
        await self.ingest.empty()

    async def each_second(self, now_ms: int) -> None:
        """Forget visitors and figures that are not needed any more, and begin backups that are due."""
        self.live.sweep(now_ms)
        self.reports.cache.sweep(now_ms)
        for backup in (self.backup, self.offsite):
            if backup is not None:
                if backup.has_failed and self._node.database.health.takes_events:
                    backup.has_failed = False
                    await self._node.database.write(partial(record_failed_backup, title=backup.title, now_ms=now_ms))
                backup.start_if_due(now_ms)
        if self.increments is not None:
            self.increments.start_if_due(self.changes.last_id, now_ms)
        if self._node.database.health.takes_events:
            await self._node.database.writer.run(self.event_writer.chores)

    def health(self) -> Health:
        """Return how many events wait; whether the file accepts them is the state of the database."""
        backups = (self.backup, self.offsite, self.increments)
        return Health("", self.ingest.queue, any(backup is not None and backup.is_failing for backup in backups))

    def metrics(self) -> "Iterable[Metric]":
        """Yield the families of writing, visitors in memory and backups."""
        from tally.sqlite.metrics import families  # here: imported after the server listens

        clock = self._node.clock
        return families(self.ingest, self.event_writer.decider, clock, self.backup, self.offsite, self.increments)

    def _open_backups(self) -> None:
        settings, clock = self._node.settings, self._node.clock
        if settings.backup_dir is not None:
            self.backup = ScheduledBackup(
                settings.db, settings.backup_dir, settings.backup_keep, settings.backup_hour, clock
            )
        if not settings.backup_to:
            return
        # here: most servers do not need them
        from tally.maintenance.increment_stream import IncrementStream
        from tally.maintenance.offsite_backup import OffsiteBackup, offsite_of

        place = offsite_of(settings)
        self.offsite = OffsiteBackup(place, settings.backup_hour, clock, lambda: self.changes.last_id)
        if settings.backup_increment_seconds:
            self.increments = stream = IncrementStream(place, settings.backup_increment_seconds, clock)
            self.offsite.began, self.offsite.is_needed = stream.begin_after, lambda: stream.needs_backup
            self.on_committed.append(stream.note)

    def _events_deleted(self, website: int) -> None:
        self.changes.note(website)
        self.live.clear()

    async def _others_wrote(self) -> None:
        await self.changes.follow()
        self.live.clear()

    def _publish(self, requests: list[WriteRequest], written: WriteResult) -> None:
        self.changes.committed(
            {event.website.number for request in requests for event in request.events}, written.last_id
        )
        for call in self.on_committed:
            call(written.kept)
        crawled = {crawl.website for request in requests for crawl in request.crawls}
        self._node.rejected_events.have_changed(written.folded | crawled)
        self._node.registry.count_usage(written.used)
        self.live.hand_over(written.visits, written.offsets)
