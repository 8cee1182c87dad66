"""Background work that takes deleted websites, and texts of deleted events, out of the database file
(tally/maintenance/deletion.py).

It is a source of turns (tally/maintenance/scheduler.py): one for the rows of each deleted website, and one for the
texts that no other website uses. Its transactions go through the builder, which waits while many events arrive and
rests after each.

Rows go at once. Texts go a minute later, when no request under way can name the website any more. To find which texts
are unused, the other websites' rows are read, one column a step, on the builder's connection for reading; then unused
texts are deleted, then free pages are given back. Other background work runs between these steps:
tally/maintenance/deletion.py explains why that is safe. Where another process writes meanwhile, such as an import, it
is tried again later.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from tally.clock import Clock
from tally.maintenance import deletion
from tally.maintenance.scheduler import Scheduler, Turn
from tally.storage import deletion_records
from tally.storage.connections import Thread
from tally.storage.labels import Labels
from tally.storage.value_limits import ValueLimits

# 20,000 events at most wait for the writer, about a second's worth.
LATE_MS = 60_000
# Reading ten million events takes about a minute; not again and again beside a long import.
AGAIN_MS = 600_000

Write = Callable[..., Awaitable[Any]]
"""Runs a step in a transaction of its own on the writer's thread; tally/maintenance/rollup_builder.py."""


class DeletionWorker:
    """A source of turns. `deleted` is called when a deletion is complete: what was deleted is then still in the log.

    `forget`: called for each deleted website before the database's own rows, until it returns that nothing is left.
    `values`: those that the writer knows in memory.
    """

    def __init__(
        self,
        write: Write,
        reader: Thread,
        labels: Labels,
        clock: Clock,
        deleted: Callable[[], None],
        forget: Callable[[int], Awaitable[bool]] | None = None,
        values: ValueLimits | None = None,
    ) -> None:
        self._write, self._reader, self._labels, self._clock, self._deleted = write, reader, labels, clock, deleted
        self._values = values
        self._forget = forget
        self._again_ms = 0
        # Deleted websites without any row, as found in this round.
        self._empty: set[int] = set()
        self._sweeping: AsyncGenerator[None, None] | None = None
        self._stepping = asyncio.Lock()
        self._is_stopped = False

    async def work(self) -> None:
        """Do all that is to be done now."""
        await Scheduler([self]).work()

    async def turns(self) -> list[Turn]:
        """Return a turn for each deleted website, and one for the texts of these and of deleted events."""
        now_ms, todo = self._clock.wall_ms(), await self._write(deletion.pending)
        changed = await self._write(deletion_records.with_texts, now_ms - LATE_MS)
        self._empty.clear()
        turns = [Turn("deletion of rows", deleted.website, partial(self._erase, deleted.website)) for deleted in todo]
        texts = Turn("deletion of texts", 0, partial(self._sweep_step, todo, changed, now_ms))
        return [*turns, texts] if todo or changed else []

    async def close(self) -> None:
        """Give up what is under way; it is begun anew by another one."""
        self._is_stopped = True
        if self._sweeping is not None:
            await self._sweeping.aclose()

    async def _erase(self, website: int) -> bool:
        is_left: bool = self._forget is not None and await self._forget(website)
        is_left = is_left or await self._write(deletion.delete_rows, website)
        if not is_left:
            self._empty.add(website)
        return is_left

    async def _sweep_step(self, todo: Sequence[deletion.DeletedWebsite], changed: Sequence[int], now_ms: int) -> bool:
        """Take a step of the sweep under way, or begin one where it is due."""
        async with self._stepping:
            if self._sweeping is None:
                over = [deleted.website for deleted in todo if abs(now_ms - deleted.deleted_ms) >= LATE_MS]
                over = [website for website in over if website in self._empty]
                if not (over or changed) or now_ms < self._again_ms <= now_ms + AGAIN_MS:
                    return False
                self._sweeping = self._sweep(over, changed, now_ms)
            try:
                await anext(self._sweeping)
            except BaseException as end:
                self._sweeping = None
                if not isinstance(end, StopAsyncIteration):
                    raise
            return self._sweeping is not None

    async def _sweep(self, over: Sequence[int], changed: Sequence[int], now_ms: int) -> AsyncGenerator[None, None]:
        """Delete the texts that are used no more, in steps; then mark the websites as finished. `changed`: those of
        which events were deleted."""
        version = await self._write(deletion.watch_labels, self._labels)
        try:
            reading = await self._reader.run(lambda run: deletion.LabelScan(run, lambda: self._is_stopped, changed))
            while await self._reader.run(reading.step):
                yield
            unused = reading.unused_values
            while unused:
                yield
                if not await self._write(deletion.delete_values, self._labels, self._values, version, unused):
                    self._again_ms = now_ms + AGAIN_MS
                    return
            candidates = await self._reader.run(reading.unused)
            while candidates:
                yield
                if not await self._write(deletion.delete_labels, self._labels, version, candidates):
                    self._again_ms = now_ms + AGAIN_MS
                    return
        except asyncio.CancelledError:
            # The process ends, and the thread that reads must too.
            self._is_stopped = True
            raise
        finally:
            self._labels.unwatch()
        while await self._write(deletion.free_pages):
            yield
        await self._write(deletion.finish, over)
        await self._write(deletion_records.texts_deleted, changed, now_ms - LATE_MS)
        self._deleted()
