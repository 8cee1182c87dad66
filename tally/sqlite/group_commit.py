"""Group commit: the queue of write requests, and the groups in which the one writer commits them.

The writer takes what is queued, up to MAX_GROUP_EVENTS, writes it in one transaction, commits with fsync, and then
every request of the group is answered; while it commits, the next group gathers. No request is answered before the
commit. There is no task between event loop and writer thread: one call hands a group over, one call brings the result
back.

Event loop and writer share one interpreter, and switching between them costs more than the work itself. So a group that
follows another is handed over only after several turns of the loop without a new request: clients that were just
answered have mostly sent the next one by then. 32 clients that wait for their responses come in groups of 30 rather
than 23, and are up to a tenth faster. A single request is written at once.

If a group fails because of the file or the disk, all its requests are answered 503 and nothing is stored; so are those
that wait while the file cannot be written (tally/storage/health.py). Before and after each group, before the response,
the writer's thread checks that the database file is still in its place; requests that were written to a deleted file
are answered 503. If a group fails for any other reason, its requests are written one by one, so that only the one that
causes it fails.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable

from tally.clock import Clock
from tally.engine.ingest import OnWritten, WriteRequest
from tally.errors import OVERLOADED, STORAGE_UNAVAILABLE, ApiError, log, where_it_failed
from tally.latency_histogram import Histogram
from tally.sqlite.writer import EventWriter, WriteResult
from tally.storage.connections import Thread
from tally.storage.health import RETRY_S, Health, lies_in_the_file, refusal

# 2,000 events take 50 to 90 ms, twice that with event_ids.
MAX_GROUP_EVENTS = 2_000
# Turns of the loop without a new request: of 1, 4, 8, 16 and 30 turns, 8 were fastest or as fast. A turn takes 3 µs
# where the loop has nothing else to do. A group of so many events, or after so long, is written in any case.
QUIET_TURNS = 8
ENOUGH_EVENTS = 64
MAX_GATHER_NS = 2_000_000
# About a second of writing.
MAX_QUEUED_EVENTS = 20_000
# Typical values lie in the middle of the buckets.
_TOOK_NS = tuple(round(ms * 1e6) for ms in (1, 2.5, 5, 10, 25, 50, 100, 500, 2_500))
_SIZES = (1, 5, 20, 100, 500, 2_000)


class Counters:
    """Counters of the writer, for the metrics."""

    def __init__(self) -> None:
        self.failed_commits = 0
        # Nanoseconds and events of each group.
        self.took, self.sizes = Histogram(_TOOK_NS), Histogram(_SIZES)


class GroupCommit:
    """The SQLite engine behind `Ingest`. `published` is called with each group that was committed."""

    def __init__(
        self,
        writer: Thread,
        event_writer: EventWriter,
        clock: Clock,
        health: Health,
        published: Callable[[list[WriteRequest], WriteResult], None],
    ) -> None:
        self.counters = Counters()
        # Events that wait for a commit.
        self.queue = 0
        self._writer, self._event_writer, self._clock = writer, event_writer, clock
        self._health, self._published = health, published
        self._waiting: deque[tuple[WriteRequest, OnWritten]] = deque()
        # How many of the waiting requests are written each in a transaction of its own.
        self._alone = 0
        self._is_stopped = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def is_full(self) -> bool:
        """Whether so many events wait that no request is accepted."""
        return self.queue >= MAX_QUEUED_EVENTS

    def append(self, request: WriteRequest, on_written: OnWritten) -> None:
        """As `Ingest`."""
        if self._is_stopped:
            raise ApiError(OVERLOADED, retry_after_s=1)
        self._health.refuse_events()
        if self.is_full:
            raise ApiError(OVERLOADED, retry_after_s=1)
        self._waiting.append((request, on_written))
        self.queue += request.size
        if self._is_idle.is_set():
            self._is_idle.clear()
            # After all else that the loop has to do now: requests that arrive together are committed together.
            asyncio.get_running_loop().call_soon(self._write_group)

    def stop(self) -> None:
        """Accept no more requests; those that wait are written."""
        self._is_stopped = True

    async def empty(self) -> None:
        """Return once no request waits."""
        await self._is_idle.wait()

    def _gather(self, looks: int, left: int, before: int, end_ns: int) -> None:
        """Hand a group over after `looks` turns without a new request, or at `end_ns`. `left`: turns that are left;
        `before`: requests that waited at the last turn."""
        waiting = len(self._waiting)
        left = looks if waiting > before else left - 1
        if left > 0 and self.queue < ENOUGH_EVENTS and self._clock.monotonic_ns() < end_ns:
            asyncio.get_running_loop().call_soon(self._gather, looks, left, waiting, end_ns)
        else:
            self._write_group()

    def _write_group(self) -> None:
        if not self._waiting:
            self._is_idle.set()
            return
        group = [self._waiting.popleft()]
        events = group[0][0].size
        is_alone = self._alone > 0
        self._alone -= is_alone
        while self._waiting and events < MAX_GROUP_EVENTS and not is_alone:
            group.append(self._waiting.popleft())
            events += group[-1][0].size
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
            self._published(requests, result)
            for (_, on_result), outcome in zip(group, result.outcomes, strict=True):
                on_result(outcome)
            looks = min(len(group) - 1, QUIET_TURNS)
            loop.call_soon(self._gather, looks, looks, 0, now_ns + MAX_GATHER_NS)

        self._writer.start(lambda connection: self._write(connection, requests), written)

    def _write(self, connection: sqlite3.Connection, requests: list[WriteRequest]) -> WriteResult:
        """On the writer's thread. The second check is for events that are answered 202, the first for refused ones."""
        files = self._health.files
        files.check_database()
        written = self._event_writer.write(connection, requests)
        files.check_database()
        files.check_log()
        return written

    def _refuse(self, group: list[tuple[WriteRequest, OnWritten]], events: int) -> None:
        """Refuse requests that were queued before the file stopped accepting events."""
        self.queue -= events
        for _, on_result in group:
            on_result(ApiError(STORAGE_UNAVAILABLE, retry_after_s=RETRY_S))
        asyncio.get_running_loop().call_soon(self._write_group)

    def _failed(self, group: list[tuple[WriteRequest, OnWritten]], failure: Exception, was_alone: bool) -> None:
        in_the_file = lies_in_the_file(failure)
        self.counters.failed_commits += not was_alone
        if in_the_file:
            self._health.failed(failure)
        if len(group) > 1 and not in_the_file:
            self._waiting.extendleft(reversed(group))
            self.queue += sum(request.size for request, _ in group)
            self._alone += len(group)
        else:
            if not in_the_file and not isinstance(failure, ApiError):
                log.error("a request cannot be written: %s", where_it_failed(failure))
            refused = refusal(failure, "a commit")
            for _, on_result in group:
                on_result(refused)
        self._write_group()
