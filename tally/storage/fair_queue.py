"""Slots for work that only a few may do at once, handed out in turn by key.

A key is the requester of the work: an account, or a website's share link. Keys that wait get a free slot in turn (round
robin), each for the request that has waited longest, so that a key with many requests delays another key by one of
them at a time. A key may have a bounded number of requests waiting.

Used by the event loop alone.
"""

import asyncio
import contextlib
import random
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar, cast

Slot = TypeVar("Slot")


class QueueFull(Exception):
    """The key has as many requests waiting as it may."""


class FairQueue(Generic[Slot]):
    """Slots that are free, and requests that wait for one, by key."""

    def __init__(self, slots: Iterable[Slot], max_waiting: int) -> None:
        """`max_waiting`: requests of one key that may wait."""
        self._idle = list(slots)
        self._max_waiting = max_waiting
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[Slot]]] = OrderedDict()
        self.size = len(self._idle)

    @property
    def busy(self) -> int:
        """Slots that are handed out."""
        return self.size - len(self._idle)

    @property
    def waiting(self) -> int:
        """Requests that wait, of all keys."""
        return sum(map(len, self._waiting.values()))

    def request(self, key: Hashable) -> "asyncio.Future[Slot]":
        """Return a future of a slot, done at once where one is free. Raises QueueFull.

        The caller passes the slot to `release`, or the future to `withdraw` where it stops waiting.
        """
        if not self._idle and len(self._waiting.get(key, ())) >= self._max_waiting:
            raise QueueFull
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        if self._idle:
            # The one used last: its memory is in the processor's caches.
            future.set_result(self._idle.pop())
        else:
            self._waiting.setdefault(key, deque()).append(future)
        return future

    async def acquire(self, key: Hashable) -> Slot:
        """Wait for a slot and return it; the caller passes it to `release`. Raises QueueFull."""
        waiting = self.request(key)
        try:
            return await waiting
        except BaseException:
            self.withdraw(key, waiting)
            raise

    def request_or_refuse(self, key: Hashable) -> "asyncio.Future[Slot | None]":
        """Return the same future, or make one of the key's futures None where as many wait as may.

        It is a random one of those that wait and the new one: where the newest was refused, requests that arrive often
        would keep out all others.
        """
        with contextlib.suppress(QueueFull):
            return cast("asyncio.Future[Slot | None]", self.request(key))
        futures = cast("deque[asyncio.Future[Slot | None]]", self._waiting[key])
        futures.append(asyncio.get_running_loop().create_future())
        new, place = futures[-1], random.randrange(len(futures))
        refused = futures[place]
        del futures[place]
        if not refused.done():
            refused.set_result(None)
        return new

    def release(self, slot: Slot) -> None:
        """Hand the slot to the next key in turn, or keep it."""
        while self._waiting:
            key, futures = self._waiting.popitem(last=False)
            future = futures.popleft()
            if futures:
                self._waiting[key] = futures
            if not future.done():
                future.set_result(slot)
                return
        self._idle.append(slot)

    def withdraw(self, key: Hashable, future: "asyncio.Future[Any]") -> None:
        """Stop waiting; a slot that came at that very moment is released."""
        if future.done() and not future.cancelled():
            slot = future.result()
            if slot is not None:
                self.release(slot)
            return
        futures = self._waiting.get(key, deque())
        if future in futures:
            futures.remove(future)
            if not futures:
                del self._waiting[key]
