"""Identical questions under way share one answer (single flight).

The key says what an answer depends on: the question as understood and the website's change counter at the moment at
which the request began (tally/api/endpoints.py takes the ETag). An event that was acknowledged before a request began
has moved the counter, so that request never joins a question whose snapshot may be older than the event.

The work is a task of its own, given up when all of the clients that wait for it have disconnected.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")
IsGone = Callable[[], bool]


class _Flight(Generic[T]):
    """A piece of work and the clients that wait for it."""

    def __init__(self, is_gone: IsGone) -> None:
        self.clients = [is_gone]
        self.task: asyncio.Task[T]

    def is_gone(self) -> bool:
        """Whether nobody waits any more; called from any thread. Once true it stays so, unless a client joins."""
        return all(is_gone() for is_gone in tuple(self.clients))


class SingleFlight(Generic[T]):
    """Work under way, by key. `joined`: how many requests took the answer of another."""

    def __init__(self) -> None:
        self._flights: dict[str, _Flight[T]] = {}
        self.joined = 0

    async def do(self, key: str, is_gone: IsGone, work: Callable[[IsGone], Coroutine[Any, Any, T]]) -> T:
        """Return what `work` returns, done once for all who ask for the key meanwhile; raises what it raises.

        `work` is given a function that tells whether all of these clients have disconnected.
        """
        flight = self._flights.get(key)
        # One whose clients have all gone may have been interrupted already.
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
            # Looked at here, so that asyncio does not report it where no request waits any more.
            flight.task.exception()
