"""Group commit of `--cluster-mode keep`: a request is answered once ClickHouse has its events as well.

A request waits, after the commit of its group, until ClickHouse has every batch up to that of the commit, also where it
held only duplicates: the events that they are copies of may be on their way. What waits is answered in order.

A request that is not confirmed in time has no answer, which any status would make a lie: its events are in the outbox
and will be shipped. From then on requests are refused before their commit, until the outbox is empty; so they are while
the server has not reached ClickHouse for as long, and where ClickHouse does not belong to the file (any more).
"""

import asyncio
from collections import deque
from functools import partial
from typing import Any, NamedTuple

from tally.cluster.outbox import Outbox
from tally.cluster.shipper import Shipper
from tally.engine.ingest import OnWritten, Outcomes, WriteRequest
from tally.errors import STORAGE_UNAVAILABLE, ApiError, Unanswered, log
from tally.latency_histogram import Histogram
from tally.sqlite.group_commit import GroupCommit
from tally.storage.health import RETRY_S

# Events that wait for a commit or for ClickHouse.
MAX_EVENTS = 50_000
_TOOK_NS = tuple(round(ms * 1e6) for ms in (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000))
_LATE = "events were not confirmed in time; they are accepted again once ClickHouse has all that are stored"


class Waiting(NamedTuple):
    """A request that is committed: its batch, its events, when it is late and was committed, and its answer."""

    batch: int
    size: int
    late_ns: int
    committed_ns: int
    on_written: OnWritten
    outcomes: Outcomes


class ConfirmedCommit(GroupCommit):
    """The engine that keeps events in ClickHouse, behind `Ingest`."""

    def __init__(self, outbox: Outbox, shipper: Shipper, ack_s: float, *parts: Any) -> None:
        super().__init__(*parts)
        # Why events are refused, "" where they are accepted.
        self.refusal = "ClickHouse is not connected yet"
        # Events that wait for ClickHouse; requests without an answer; nanoseconds of the others.
        self.events = self.unanswered = 0
        self.took = Histogram(_TOOK_NS)
        self._outbox, self._shipper, self._ack_ns = outbox, shipper, round(ack_s * 1e9)
        self._unconfirmed: deque[Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None
        shipper.on_attempt = self._attempted

    @property
    def is_full(self) -> bool:
        """Whether so many events wait that no request is accepted."""
        return super().is_full or self.queue + self.events >= MAX_EVENTS

    def append(self, request: WriteRequest, on_written: OnWritten) -> None:
        """As `Ingest`."""
        if self.refusal:
            raise ApiError(STORAGE_UNAVAILABLE, retry_after_s=RETRY_S)
        late_ns = self._clock.monotonic_ns() + self._ack_ns
        super().append(request, partial(self._committed, request.size, late_ns, on_written))

    def close(self) -> None:
        """Leave the requests that wait without an answer."""
        while self._unconfirmed:
            self._leave()

    def _committed(self, size: int, late_ns: int, on_written: OnWritten, outcomes: Outcomes | Exception) -> None:
        if isinstance(outcomes, Exception):
            on_written(outcomes)
            return
        now_ns = self._clock.monotonic_ns()
        self._unconfirmed.append(Waiting(self._outbox.last, size, late_ns, now_ns, on_written, outcomes))
        self.events += size
        if self._outbox.last <= self._shipper.shipped:
            self._answer()
            return
        self._shipper.want()
        if self._timer is None:
            self._watch()

    def _attempted(self) -> None:
        """Answer what is confirmed after an attempt to ship, and decide whether events are accepted."""
        self._answer()
        shipper = self._shipper
        if shipper.problem:
            if self._clock.monotonic_ns() - shipper.failing_since_ns >= self._ack_ns:
                self._begin_refusal(shipper.problem)
        elif self.refusal and shipper.lag <= 0:
            log.warning("events are accepted: ClickHouse has all that are stored")
            self.refusal = ""

    def _answer(self) -> None:
        now_ns, shipped = self._clock.monotonic_ns(), self._shipper.shipped
        while self._unconfirmed and self._unconfirmed[0].batch <= shipped:
            waiting = self._unconfirmed.popleft()
            self.events -= waiting.size
            self.took.add(now_ns - waiting.committed_ns)
            waiting.on_written(waiting.outcomes)

    def _watch(self) -> None:
        """Leave what is late without an answer, and look again when the next request is."""
        self._timer = None
        now_ns = self._clock.monotonic_ns()
        while self._unconfirmed and self._unconfirmed[0].late_ns <= now_ns:
            self._leave()
            self._begin_refusal(self._shipper.problem or _LATE)
        if self._unconfirmed:
            wait_s = (self._unconfirmed[0].late_ns - now_ns) / 1e9
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._watch)

    def _leave(self) -> None:
        waiting = self._unconfirmed.popleft()
        self.events -= waiting.size
        self.unanswered += 1
        waiting.on_written(Unanswered(waiting.outcomes))

    def _begin_refusal(self, reason: str) -> None:
        if not self.refusal:
            log.error("events are refused: %s", reason)
        self.refusal = f"ClickHouse does not keep events: {reason}"
