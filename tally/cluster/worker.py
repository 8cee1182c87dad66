"""A task of the event loop that works beside the server until it is stopped.

What it does is a subclass's `_run`, which handles its own failures: one that leaves it would end the work unnoticed. It
is cancelled at an await, so a step that has to be whole is one request or one transaction.
"""

import asyncio
from abc import ABC, abstractmethod


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
