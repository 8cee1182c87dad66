"""Deletes the events of older days from the file, once ClickHouse has them for certain.

The oldest final day that the file has is read from both, event by event, up to that day, once ClickHouse has it settled
and keeps nothing else of it. Where both are equal, the day goes the way of days that expire
(tally/maintenance/retention.py): values are counted, the state and the first day that the file has itself change in one
transaction, then the rows are deleted. After a crash the next call continues. Where they differ the file keeps its
events, and so do all later days. Days that were put back (tally/cluster/load.py) stay for a day.
"""

import sqlite3
from collections.abc import Callable

from tally.accounts.websites import day_offsets_ms
from tally.clickhouse import listing
from tally.clock import Clock
from tally.cluster.archive import digest_of, exported
from tally.cluster.servers import Servers
from tally.cluster.shipper import Shipper
from tally.cluster.worker import FAILURES, PeriodicWorker
from tally.maintenance import retention
from tally.maintenance.rollup_builder import RollupBuilder
from tally.sqlite.archive import FileArchive
from tally.storage import cluster_tables
from tally.storage.cluster_tables import Copy, Unloaded, copy_of
from tally.storage.node_database import NodeDatabase
from tally.timestamps import DAY_MS


class Differs(Exception):
    """The file and ClickHouse do not have the same events of a day."""


class Unloader(PeriodicWorker):
    """Unloads days of a server's file. Used by the event loop alone. `builder` returns the file's rollup builder."""

    name, problem = "unloading", "a day was not unloaded to ClickHouse"
    failures = (*FAILURES, Differs)

    def __init__(
        self,
        servers: Servers,
        shipper: Shipper,
        database: NodeDatabase,
        archive: FileArchive,
        builder: Callable[[], RollupBuilder],
        clock: Clock,
        keep_days: int,
    ) -> None:
        self._servers, self._shipper, self._database, self._archive = servers, shipper, database, archive
        self._builder, self._clock, self._keep_days = builder, clock, keep_days
        # By copy: the day before which no rows are left.
        self._deleted: dict[int, int] = {}
        super().__init__()

    async def work(self) -> bool:
        """Unload a day of each website that has one; return whether there was any.

        Raises Refused, NoAnswer, ApiError, Differs, sqlite3.Error.
        """
        now_ms, unloaded, failed = self._clock.wall_ms(), False, list[Exception]()
        for website, offset_ms, copy in await self._database.read(_complete):
            if now_ms - copy.held_ms >= DAY_MS:
                try:
                    unloaded |= await self._unload(website, offset_ms, copy)
                except self.failures as failure:
                    # Days of other websites do not wait for it.
                    failed.append(failure)
        # Once no website has another day.
        if failed and not unloaded:
            raise failed[0]
        return unloaded

    async def _unload(self, website: int, offset_ms: int, copy: Copy) -> bool:
        if copy.unloaded and (copy.held_ms or self._deleted.get(copy.copy) != copy.own_day):
            await self._builder().delete_unloaded(website, copy.own_day, copy.held_ms)
            self._deleted[copy.copy] = copy.own_day
        if copy.held_ms:
            await self._database.write(lambda connection: cluster_tables.end_load(connection, copy))
            return True
        end = retention.first_kept(self._keep_days, self._clock.deletion_time_ms() + offset_ms)
        oldest = await self._database.read(lambda connection: retention.next_day(connection, website, end))
        if oldest is None or self._shipper.problem:
            return False
        days = await self._equal_days(website, copy, offset_ms, oldest[0])
        if days is not None:
            await self._builder().unload(website, oldest[1], days)
        return days is not None

    async def _equal_days(self, website: int, copy: Copy, offset_ms: int, day: int) -> Unloaded | None:
        """Return the days up to one, which ClickHouse has as the file has them; None where it keeps more of them yet.

        Raises Differs.
        """
        client = self._servers.client
        await self._servers.sync(copy.copy)
        days = range(max(copy.from_day, copy.own_day), day + 1)
        if await client.rows(listing.unsettled(copy.copy, days), {}):
            return None
        stored = await digest_of(self._archive.rows(website, days))
        if stored != await digest_of(exported(client, copy.copy, offset_ms, days)):
            raise Differs(f"day {day} of website {website} differs in ClickHouse: the database keeps its events")
        return Unloaded(copy.copy, days.start, days.stop, *stored)


def _complete(connection: sqlite3.Connection) -> list[tuple[int, int, Copy]]:
    """Return (website, what its time has more than UTC, copy) of the complete copies of websites that do not change."""
    copies = ((website, ms, copy_of(connection, website)) for website, ms in day_offsets_ms(connection).items())
    return [
        (website, offset_ms, copy)
        for website, offset_ms, copy in copies
        if copy is not None and copy.is_complete and not cluster_tables.is_changing(connection, website)
    ]
