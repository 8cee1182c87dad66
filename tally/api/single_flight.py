"""Compute the answer to identical concurrent requests once (single flight).

The key holds what an answer depends on: the checked parameters and the website's version when the request began
(the ETag, tally/api/endpoints.py). An event that was acknowledged before a request began has changed the version, so
that request never joins a computation whose snapshot may be older than the event.

The computation is a task of its own, cancelled when all clients that wait for it have disconnected.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")
IsGone = Callable[[], bool]


class _Flight(Generic[T]):
    """A computation and the clients that wait for it."""

    def __init__(self, is_gone: IsGone) -> None:
        self.clients = [is_gone]
        self.task: asyncio.Task[T]

    def is_gone(self) -> bool:
        """Return whether no client waits any more; called from any thread. True is final unless a client joins."""
        return all(is_gone() for is_gone in tuple(self.clients))


class SingleFlight(Generic[T]):
    """Running computations by key. `joined`: how many requests received the answer of another."""

    def __init__(self) -> None:
        self._flights: dict[str, _Flight[T]] = {}
        self.joined = 0

    async def do(self, key: str, is_gone: IsGone, work: Callable[[IsGone], Coroutine[Any, Any, T]]) -> T:
        """Return what `work` returns, called once for all concurrent requests of a key; raises what it raises.

        `work` is called with a function that returns whether all of these clients have disconnected.
        """
        flight = self._flights.get(key)
        # A computation whose clients have all disconnected may have been interrupted already.
        if flight is None or flight.is_gone():
            flight = self._flights[key] = _Flight(is_gone)
            flight.task = asyncio.create_task(work(flight.is_gone))
            flight.task.add_done_callback(lambda _: self._landed(key, flight))
        else:
            flight.clients.append(is_gone)
            self.joined += 1
        return await asyncio.shield(flight.task)

    def _landed(self, key: str, flight: _Flight[T]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.task.cancelled():
            # Retrieved, so that asyncio does not report it where no request waits any more.
            flight.task.exception()
        # The frames of an error's traceback have the flight: it would be in a cycle with the task that keeps it.
        del flight.task
