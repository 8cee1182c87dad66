"""Tasks of the event loop that work beside the server until they are stopped.

What a task does is a subclass's `_run`, which handles its own failures: one that leaves it would end the work
unnoticed. It is cancelled at an await, so a step that has to be whole is one request or one transaction.
"""

import asyncio
import sqlite3
from abc import ABC, abstractmethod

from tally.clickhouse.client import NoAnswer, Refused
from tally.errors import ApiError, log, where_it_failed

FAILURES: tuple[type[Exception], ...] = (Refused, NoAnswer, ApiError, sqlite3.Error)
"""What is to be expected of ClickHouse and of the file; other failures are bugs."""


def reason_of(failure: Exception) -> str:
    """Return what an expected failure says."""
    return failure.message if isinstance(failure, ApiError) else str(failure)


class Worker(ABC):
    """What has such a task."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End at once; what is under way is done again later."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @abstractmethod
    async def _run(self) -> None:
        """Work until it is cancelled."""


class PeriodicWorker(Worker):
    """Works every `pause_s` until nothing is left to do, and begins again after the next pause where that failed.

    name: of the work. problem: what the log says of an expected failure, one of `failures`.
    failed: how often it did.
    """

    pause_s = 60.0
    name = problem = ""
    failures = FAILURES
    failed = 0

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self.pause_s)
            try:
                while await self.work():
                    pass
            except Exception as failure:
                self.failed += 1
                if isinstance(failure, self.failures):
                    log.warning("%s: %s", self.problem, reason_of(failure))
                else:
                    log.error("%s failed: %s", self.name, where_it_failed(failure))

    @abstractmethod
    async def work(self) -> bool:
        """Do a step; return whether there may be another one. Raises `failures`."""
