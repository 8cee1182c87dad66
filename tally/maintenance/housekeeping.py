"""What the server has an engine delete that keeps its data elsewhere: deleted websites, undone imports, expired events.

All are known from the server's own database: `deleted_website`, the state of imports, and for how many days a website
keeps its events. For a deleted website or an import the engine's archive is called until nothing is left, then what the
database itself has of it is deleted. Expired days are deleted once a day. A call that fails is repeated, also after a
restart.

The SQLite engine needs none of this: its events are in the database (tally/maintenance/background_work.py).
"""

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

from tally.clock import Clock
from tally.engine.archive import Archive
from tally.maintenance.deletion_worker import DeletionWorker
from tally.maintenance.event_removal import EventRemoval
from tally.maintenance.retention import MIN_KEEP_DAYS, first_kept, keep_days_of
from tally.maintenance.scheduler import Scheduler, Turn
from tally.storage.labels import Labels
from tally.storage.node_database import NodeDatabase
from tally.storage.registry import Registry


class Housekeeping:
    """Calls an archive. `keep_days`: of websites without a number of their own; 0 without limit."""

    def __init__(
        self, database: NodeDatabase, registry: Registry, archive: Archive, clock: Clock, keep_days: int
    ) -> None:
        self._database, self._registry, self._archive = database, registry, archive
        self._clock, self._keep_days = clock, keep_days
        # The database is small without events: its only writer reads it, too.
        deletion = DeletionWorker(
            self._write, database.writer, Labels(), clock, database.want_empty_log, archive.forget
        )
        removal = EventRemoval(self._write, clock, None, lambda website: None, database.want_empty_log, archive.undo)
        self._scheduler = Scheduler((removal, deletion, self), database.health.failed)
        # By website: the first day that is kept, where all before it is deleted.
        self._kept_from: dict[int, int] = {}

    async def work(self) -> None:
        """Do all that is to be done now."""
        if self._database.health.takes_events:
            while await self._scheduler.round():
                pass

    async def turns(self) -> list[Turn]:
        """Return a turn for each website with events that may have expired."""
        days = await self._write(self._first_days)
        return [
            Turn("retention", website, partial(self._expire, website, day))
            for website, day in days.items()
            if self._kept_from.get(website) != day
        ]

    def _first_days(self, connection: sqlite3.Connection) -> dict[int, int]:
        now_ms, first = self._clock.deletion_time_ms(), dict[int, int]()
        for website in self._registry.cache.websites.values():
            keep_days = keep_days_of(connection, website.number, self._keep_days)
            if keep_days:
                website_ms = now_ms + website.day_offset_ms
                first[website.number] = first_kept(max(keep_days, MIN_KEEP_DAYS), website_ms)
        return first

    async def _expire(self, website: int, day: int) -> bool:
        is_left = await self._archive.expire(website, day)
        if not is_left:
            self._kept_from[website] = day
        return is_left

    async def _write(self, step: Callable[..., Any], *what: object) -> Any:
        return await self._database.write(lambda connection: step(connection, *what))
