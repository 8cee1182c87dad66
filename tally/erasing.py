"""The background work that takes deleted websites out of the file (tally/deletion.py), beside that on rollups.

Its steps are done through the builder, which waits while many events arrive and rests after each as long as it took.
Rows go at once. The texts go a minute later, when nothing that was under way can name the website any more; to know
which ones nobody else uses, the other websites' rows are read, on the builder's connection for reading. Where another
process writes meanwhile, such as an import, that is tried again later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tally import deletion
from tally.clock import Clock
from tally.labels import Labels
from tally.threads import Thread

# our choice: 20,000 events at most wait for the writer, about a second's worth.
LATE_MS = 60_000
# our choice: reading ten million events takes about a minute; not again and again beside a long import.
AGAIN_MS = 600_000

Write = Callable[..., Awaitable[Any]]
"""Does a step in a transaction of its own on the writer's thread; tally/building.py."""


class Eraser:
    """Does the work there is. `wants_empty_log` until the store has emptied SQLite's log."""

    def __init__(self, write: Write, reader: Thread, labels: Labels, clock: Clock) -> None:
        self._write, self._reader, self._labels, self._clock = write, reader, labels, clock
        self._again_ms = 0
        self._is_stopped = False
        self.wants_empty_log = False

    async def work(self) -> None:
        """Does all that is to be done now."""
        todo = await self._write(deletion.todo)
        for gone in todo:
            while await self._write(deletion.erase, gone.website):
                pass
        now_ms = self._clock.wall_ms()
        over = [gone.website for gone in todo if abs(now_ms - gone.deleted_ms) >= LATE_MS]
        if not over or now_ms < self._again_ms <= now_ms + AGAIN_MS:
            return
        if not await self._sweep():
            self._again_ms = now_ms + AGAIN_MS
            return
        while await self._write(deletion.give_back):
            pass
        await self._write(deletion.finish, over)
        self.wants_empty_log = True

    async def _sweep(self) -> bool:
        """Takes the texts that nobody uses; False where another process has written meanwhile."""
        version = await self._write(deletion.watch, self._labels)
        try:
            candidates = await self._reader.run(lambda run: deletion.orphans(run, lambda: self._is_stopped))
            while candidates:
                if not await self._write(deletion.sweep, self._labels, version, candidates):
                    return False
        except asyncio.CancelledError:
            # The process ends, and the thread that reads must too.
            self._is_stopped = True
            raise
        finally:
            self._labels.unwatch()
        return True
