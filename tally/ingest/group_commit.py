"""The line of requests before the one writer, and the groups in which it commits them.

Group commit without a timer: the writer takes all that is queued, writes it in one transaction, commits with fsync,
then everyone is told. While it commits, the next group gathers. Nobody is told before the commit. There is no task
between loop and thread: one call hands a group over, one comes back with what became of it.

Loop and writer share one interpreter, and where both have work they take turns at it, which costs more than the work
itself. So a group that follows another is handed over once the loop has found nothing new several times in a row: who
was just answered has mostly sent the next by then, and the loop has read it before the writer begins. 32 clients that
wait for their answers come in groups of 30 rather than 23, and up to a tenth faster. A request alone waits for nobody.

If a group fails for a reason that lies in the file or the disk, everyone in it is told 503 and nothing is kept; so are
those who wait while the file takes nothing (tally/storage/health.py). Before and after each group, and before anybody
is told, the writer's thread looks whether the file is still where it was: what a deleted one took in between is told
503 too. If a group fails for any other reason, its requests are written one by one, so that only the one that causes it
fails.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable

from tally.clock import Clock
from tally.errors import OVERLOADED, STORAGE_UNAVAILABLE, ApiError, log, where_it_failed
from tally.ingest.engine import OnWritten, WriteRequest
from tally.ingest.writer import EventWriter, WriteResult
from tally.latency_histogram import Histogram
from tally.storage.connections import Thread
from tally.storage.health import RETRY_S, Health, lies_in_the_file, refusal

# our choice: what one transaction holds; 2,000 events take 50 to 90 ms, twice that with event_ids.
MOST_EVENTS_A_GROUP = 2_000
# our choice: of 1, 4, 8, 16 and 30 looks 8 were fastest or as fast. A look is a turn of the loop, 3 us where it has
# nothing else to do; so many events, or so long, are enough in any case.
MOST_LOOKS = 8
ENOUGH_EVENTS = 64
MOST_GATHER_NS = 2_000_000
# our choice: about a second's worth of writing.
MOST_EVENTS_WAITING = 20_000
# our choice: what is usual lies in the middle of them.
_TOOK_NS = tuple(round(ms * 1e6) for ms in (1, 2.5, 5, 10, 25, 50, 100, 500, 2_500))
_SIZES = (1, 5, 20, 100, 500, 2_000)


class Counters:
    """What the metrics tell of the writer."""

    def __init__(self) -> None:
        self.failed_commits = 0
        # Nanoseconds and events of each group.
        self.took, self.sizes = Histogram(_TOOK_NS), Histogram(_SIZES)


class GroupCommit:
    """The line. `held` is told of each group that was committed."""

    def __init__(
        self,
        writer: Thread,
        event_writer: EventWriter,
        clock: Clock,
        health: Health,
        held: Callable[[list[WriteRequest], WriteResult], None],
    ) -> None:
        self.counters = Counters()
        # Events that wait for a commit.
        self.queue = 0
        self._writer, self._event_writer, self._clock = writer, event_writer, clock
        self._health, self._held = health, held
        self._waiting: deque[tuple[WriteRequest, OnWritten]] = deque()
        # How many of those that wait are written each by itself.
        self._alone = 0
        self._is_stopped = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def is_full(self) -> bool:
        """Whether so much waits that nothing is queued behind it."""
        return self.queue >= MOST_EVENTS_WAITING

    def append(self, request: WriteRequest, on_written: OnWritten) -> None:
        """As engine.Ingest."""
        if self._is_stopped:
            raise ApiError(OVERLOADED, retry_after_s=1)
        self._health.refuse_events()
        if self.is_full:
            raise ApiError(OVERLOADED, retry_after_s=1)
        self._waiting.append((request, on_written))
        self.queue += len(request.events)
        if self._is_idle.is_set():
            self._is_idle.clear()
            # After whatever else the loop has at hand: what comes in together goes together.
            asyncio.get_running_loop().call_soon(self._write_group)

    def stop(self) -> None:
        """Accept no more requests; those that wait are written."""
        self._is_stopped = True

    async def empty(self) -> None:
        """Return once no request waits."""
        await self._is_idle.wait()

    def _gather(self, looks: int, left: int, before: int, end_ns: int) -> None:
        """Hands a group over after so many `looks` without anybody new, or at `end_ns`; so many are `left`, and so many
        waited `before`, at the last look."""
        found = len(self._waiting)
        left = looks if found > before else left - 1
        if left > 0 and self.queue < ENOUGH_EVENTS and self._clock.monotonic_ns() < end_ns:
            asyncio.get_running_loop().call_soon(self._gather, looks, left, found, end_ns)
        else:
            self._write_group()

    def _write_group(self) -> None:
        if not self._waiting:
            self._is_idle.set()
            return
        group = [self._waiting.popleft()]
        events = len(group[0][0].events)
        is_alone = self._alone > 0
        self._alone -= is_alone
        while self._waiting and events < MOST_EVENTS_A_GROUP and not is_alone:
            group.append(self._waiting.popleft())
            events += len(group[-1][0].events)
        if not self._health.takes_events:
            self._refuse(group, events)
            return
        requests = [request for request, _ in group]
        begun_ns = self._clock.monotonic_ns()
        loop = asyncio.get_running_loop()

        def written(result: WriteResult | Exception) -> None:
            self.queue -= events
            if isinstance(result, Exception):
                self._failed(group, result, is_alone)
                return
            now_ns = self._clock.monotonic_ns()
            self.counters.took.add(now_ns - begun_ns)
            self.counters.sizes.add(events)
            self._health.held()
            self._held(requests, result)
            for (_, tell), outcome in zip(group, result.outcomes, strict=True):
                tell(outcome)
            looks = min(len(group) - 1, MOST_LOOKS)
            loop.call_soon(self._gather, looks, looks, 0, now_ns + MOST_GATHER_NS)

        self._writer.start(lambda connection: self._write(connection, requests), written)

    def _write(self, connection: sqlite3.Connection, requests: list[WriteRequest]) -> WriteResult:
        """On the writer's thread. The second look is for what is answered 202, the first keeps the refused out."""
        files = self._health.files
        files.check_database()
        written = self._event_writer.write(connection, requests)
        files.check_database()
        files.check_log()
        return written

    def _refuse(self, group: list[tuple[WriteRequest, OnWritten]], events: int) -> None:
        """For who stood in line when the file ceased to take events."""
        self.queue -= events
        for _, tell in group:
            tell(ApiError(STORAGE_UNAVAILABLE, retry_after_s=RETRY_S))
        asyncio.get_running_loop().call_soon(self._write_group)

    def _failed(self, group: list[tuple[WriteRequest, OnWritten]], failure: Exception, was_alone: bool) -> None:
        in_the_file = lies_in_the_file(failure)
        self.counters.failed_commits += not was_alone
        if in_the_file:
            self._health.failed(failure)
        if len(group) > 1 and not in_the_file:
            self._waiting.extendleft(reversed(group))
            self.queue += sum(len(request.events) for request, _ in group)
            self._alone += len(group)
        else:
            if not in_the_file:
                log.error("a request cannot be written: %s", where_it_failed(failure))
            refused = refusal(failure, "a commit")
            for _, tell in group:
                tell(refused)
        self._write_group()
