"""tally/storage/fair_queue.py and tally/api/single_flight.py: the order of queries, and shared results."""

import asyncio
import gc
import weakref

import pytest

from tally.api.single_flight import IsGone, SingleFlight
from tally.storage.fair_queue import FairQueue, QueueFull


async def test_keys_take_turns() -> None:
    """A key with many requests delays another one by one of them, however many wait."""
    queue = FairQueue(["slot"], 100)
    slot, order = await queue.request("a"), list[str]()

    def ask(key: str) -> None:
        queue.request(key).add_done_callback(lambda _: order.append(key))

    for key in ("a", "a", "a", "b", "c", "b"):
        ask(key)
    assert (queue.busy, queue.waiting) == (1, 6)
    for _ in range(6):
        queue.release(slot)
        await asyncio.sleep(0)
    assert order == ["a", "b", "c", "a", "b", "a"]
    queue.release(slot)
    assert (queue.busy, queue.waiting) == (0, 0)


async def test_waiting_queries_of_a_key_are_bounded() -> None:
    queue = FairQueue([1], 2)
    await queue.request("a")
    waiting = [queue.request("a") for _ in range(2)]
    with pytest.raises(QueueFull):
        queue.request("a")
    queue.request("b")
    queue.withdraw("a", waiting[0])
    queue.request("a")


async def test_a_full_queue_refuses_a_random_request() -> None:
    """Each of those that wait and the new one equally often, and as many wait as before."""
    refused = [0, 0, 0]
    for _ in range(600):
        queue = FairQueue([1], 2)
        await queue.request("a")
        waiting = [queue.request_or_refuse("a") for _ in range(3)]
        assert queue.waiting == 2
        (place,) = [place for place, future in enumerate(waiting) if future.done()]
        refused[place] += 1
        assert waiting[place].result() is None
        queue.withdraw("a", waiting[place])
        assert (queue.busy, queue.waiting) == (1, 2)
    assert min(refused) > 100


async def test_what_is_cancelled_while_it_acquires_a_slot_waits_no_more() -> None:
    queue = FairQueue([1], 10)
    assert await queue.acquire("a") == 1
    waiting = asyncio.ensure_future(queue.acquire("a"))
    await asyncio.sleep(0)
    assert queue.waiting == 1
    waiting.cancel()
    await asyncio.wait({waiting})
    assert (queue.busy, queue.waiting) == (1, 0)


async def test_a_cancelled_wait_takes_no_slot() -> None:
    queue = FairQueue([1], 10)
    slot = await queue.request("a")
    first, second, third = (queue.request("a") for _ in range(3))
    first.cancel()
    queue.release(slot)
    assert second.result() == slot
    # The slot became free at the moment at which the request was cancelled.
    queue.withdraw("a", second)
    assert third.result() == slot
    queue.release(slot)
    queue.withdraw("a", first)
    assert (queue.busy, queue.waiting) == (0, 0)


class Work:
    """Work that ends when the test releases it, and records whether a request waits."""

    def __init__(self) -> None:
        self.is_gone: list[IsGone] = []
        self.end = asyncio.Event()

    async def __call__(self, is_gone: IsGone) -> int:
        self.is_gone.append(is_gone)
        number = len(self.is_gone)
        await self.end.wait()
        if number == 3:
            raise ValueError
        return number


async def test_identical_queries_share_one_result() -> None:
    flights, work = SingleFlight[int](), Work()
    tasks = [asyncio.create_task(flights.do(key, lambda: False, work)) for key in ("x", "x", "y", "x", "z", "z")]
    await asyncio.sleep(0.01)
    assert (len(work.is_gone), flights.joined) == (3, 3)
    work.end.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert found[:4] == [1, 1, 2, 1]
    assert [type(one) for one in found[4:]] == [ValueError, ValueError]
    assert await flights.do("x", lambda: False, work) == 4
    assert not flights._flights


async def test_shared_work_continues_while_a_request_waits() -> None:
    """No request joins cancelled work."""
    flights, work, gone = SingleFlight[int](), Work(), set[str]()

    def ask(name: str) -> "asyncio.Task[int]":
        return asyncio.create_task(flights.do("x", lambda: name in gone, work))

    tasks = [ask("a"), ask("b")]
    await asyncio.sleep(0.01)
    gone.add("a")
    assert not work.is_gone[0]()
    gone.add("b")
    assert work.is_gone[0]()
    tasks.append(ask("c"))
    await asyncio.sleep(0.01)
    assert len(work.is_gone) == 2
    assert not work.is_gone[1]()
    work.end.set()
    assert await asyncio.gather(*tasks) == [1, 1, 2]
    assert not flights._flights


async def test_a_cancelled_request_does_not_cancel_others() -> None:
    flights, work = SingleFlight[int](), Work()
    first, second = (asyncio.create_task(flights.do("x", lambda: False, work)) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    work.end.set()
    assert await second == 1


async def test_an_error_of_shared_work_is_freed_with_its_request() -> None:
    """No cycle of references keeps it, with the frames in its traceback, until the next collection of garbage."""

    class Refused(Exception):
        pass

    async def work(is_gone: IsGone) -> None:
        raise Refused

    flights, gone = SingleFlight[None](), list[weakref.ref[Refused]]()
    gc.disable()
    try:
        try:
            await flights.do("a", lambda: False, work)
        except Refused as refused:
            gone.append(weakref.ref(refused))
        await asyncio.sleep(0)
        assert [ref() for ref in gone] == [None]
    finally:
        gc.enable()
