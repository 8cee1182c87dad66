"""The background work of a running server on its database: rollups, retention and deletion.

Rounds of the scheduler (tally/maintenance/scheduler.py) over the rollup builder and what else deletes, with a pause
after a round that left nothing to do. It can be stopped at any point and started again, as recovery does
(tally/storage/recovery.py). Each start makes both anew, so that nothing they cached of the file survives a recovery.
"""

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module

from tally.clock import Clock
from tally.engine.values import Goal
from tally.errors import log, where_it_failed
from tally.events.sessions import Sessions
from tally.maintenance.deletion_worker import DeletionWorker
from tally.maintenance.event_removal import EventRemoval
from tally.maintenance.rollup_builder import RollupBuilder
from tally.maintenance.scheduler import Scheduler
from tally.storage.connections import Thread
from tally.storage.disk_space import DiskSpace
from tally.storage.labels import Labels
from tally.storage.value_limits import ValueLimits

PAUSE_S = 2.0
FAILED_PAUSE_S = 10.0


class BackgroundWork:
    """Runs `builder`, `removal` and `deletion_worker`, which exist from the first start on.

    `keep_days`, `is_busy`, `changed`, `goals_of` and `space` are those of RollupBuilder, `deleted` is that of
    DeletionWorker; `events_deleted` is called with a website after each step that deletes some of its events, `failed`
    with each failure.
    """

    builder: RollupBuilder
    deletion_worker: DeletionWorker
    removal: EventRemoval

    def __init__(
        self,
        writer: Thread,
        reader: Thread,
        labels: Labels,
        values: ValueLimits,
        sessions: Sessions,
        clock: Clock,
        *,
        keep_days: int,
        is_busy: Callable[[], bool],
        changed: Callable[[int], None],
        events_deleted: Callable[[int], None],
        goals_of: Callable[[int], Sequence[Goal]],
        deleted: Callable[[], None],
        failed: Callable[[Exception], None],
        space: Callable[[], DiskSpace],
    ) -> None:
        self._writer, self._reader, self._labels, self._clock = writer, reader, labels, clock
        self._values, self._sessions, self._events_deleted = values, sessions, events_deleted
        self._keep_days, self._is_busy, self._changed, self._goals_of = keep_days, is_busy, changed, goals_of
        self._deleted, self._failed, self._space = deleted, failed, space
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start it unless it runs."""
        if self._task is None:
            self.builder = RollupBuilder(
                self._writer,
                self._reader,
                self._clock,
                self._keep_days,
                self._is_busy,
                changed=self._changed,
                goals_of=self._goals_of,
                space=self._space,
            )
            self.deletion_worker = DeletionWorker(
                self.builder.write, self._reader, self._labels, self._clock, self._deleted, values=self._values
            )
            self.removal = EventRemoval(
                self.builder.write,
                self._clock,
                self._sessions,
                self._events_deleted,
                self._deleted,
                space=self._space,
            )
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop it at once: it can be cancelled at any point."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self.deletion_worker.close()
            self._task = None

    async def _run(self) -> None:
        # Events are deleted before days are built, so that few are built twice.
        scheduler = Scheduler((self.removal, self.builder, self.deletion_worker), self._failed)
        has_more = False
        # With numpy, which takes 0.1 s: the first question need not wait for it.
        await asyncio.to_thread(import_module, "tally.reports.open_days")
        while True:
            await asyncio.sleep(0 if has_more else PAUSE_S)
            try:
                has_more = await scheduler.round()
            except Exception as failure:
                self._failed(failure)
                log.error("background work failed: %s", where_it_failed(failure))
                await asyncio.sleep(FAILED_PAUSE_S)
