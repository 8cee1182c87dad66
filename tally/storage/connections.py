"""Database connections, each with its own thread: the only module that imports aiosqlite.

A call runs one function on the connection's thread (`Thread.run`), not one statement: a thread switch costs 140 µs, a
statement 3 µs. The function returns plain rows only: an open cursor would keep SQLite from reusing the log.

`Readers` are a few read-only connections. A query waits for a free one, reads one snapshot, and is cancelled when it
exceeds its deadline or the client disconnects. Share links have a connection of their own and a shorter deadline, so
that account queries never wait for them; within each class, accounts and links take turns
(tally/storage/fair_queue.py). All readers can be held at once while the log is truncated.

A connection can be closed and reopened on its thread; in between, every call fails like a file that cannot be opened.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import aiosqlite

from tally.engine.values import Claim
from tally.errors import OVERLOADED, ApiError
from tally.latency_histogram import Histogram
from tally.storage.database import connect_reader, interrupted_when, snapshot
from tally.storage.fair_queue import FairQueue, QueueFull
from tally.storage.health import refusal

T = TypeVar("T")
Query = Callable[[sqlite3.Connection], T]

# On two cores a third reader only takes turns with the others.
READERS = 2
# One for all share links: with two, visitors of links could use more of two cores than the owners.
LINK_READERS = 1
# Half of the default deadline. A dashboard's queries take milliseconds; longer ones delay other links.
LINK_SECONDS = 5.0
# A shared dashboard sends about ten queries at once; identical ones wait once (tally/api/single_flight.py).
MAX_WAITING_OF_LINK = 64
# Waiting queries of an account are bounded by its connections and its rate limit.
_UNBOUNDED = 1 << 30
_WAITS_NS = tuple(ms * 1_000_000 for ms in (1, 5, 25, 100, 500, 2_500, 10_000))


class Shut(sqlite3.OperationalError):
    """The connection is closed for recovery."""

    sqlite_errorname = "SHUT"


class Thread(aiosqlite.Connection):
    """An aiosqlite connection with its thread. Uses aiosqlite's private methods, so pyproject.toml pins its version."""

    # Start of the running step, 0 if there is none.
    busy_since_ns = 0
    # Total duration of all steps, and of those passed to `start`.
    worked_ns = started_ns = 0
    _is_shut = False
    _connect_again: Callable[[], sqlite3.Connection]

    async def run(self, step: Query[T]) -> T:
        """Run `step` on the connection's thread and return its result."""
        result: T = await self._execute(self._do, step)  # type: ignore[no-untyped-call]
        return result

    def _do(self, step: Query[T]) -> T:
        if self._is_shut:
            raise Shut("no connection")
        self.busy_since_ns = time.monotonic_ns()
        try:
            # Read only now: the connection may have been reopened while the step waited.
            return step(self._conn)
        finally:
            self.worked_ns += time.monotonic_ns() - self.busy_since_ns
            self.busy_since_ns = 0

    async def shut(self) -> None:
        """Close the connection after the steps that wait already."""

        def close() -> None:
            self._is_shut = True
            self._conn.close()

        await self._execute(close)  # type: ignore[no-untyped-call]

    async def open_again(self) -> None:
        """Reopen the connection if it is closed. Raises sqlite3.Error."""

        def connect() -> None:
            if self._is_shut:
                self._connection = self._connect_again()
                self._is_shut = False

        await self._execute(connect)  # type: ignore[no-untyped-call]

    def begin_snapshot(self) -> None:
        """Start reading what is committed now. Called from another thread while this one is idle."""
        self._conn.execute("begin")
        self._conn.execute("/* connections.snapshot */ select 1 from meta limit 1").fetchall()

    def start(self, step: Query[T], on_result: Callable[[T | Exception], None]) -> None:
        """Run `step` on the connection's thread, then `on_result` with its result or exception on the event loop."""
        loop = asyncio.get_running_loop()

        def do() -> None:
            before_ns = self.worked_ns
            try:
                result: T | Exception = self._do(step)
            except Exception as failure:
                result = failure
            self.started_ns += self.worked_ns - before_ns
            loop.call_soon_threadsafe(on_result, result)

        # aiosqlite's queue accepts steps without a future, as its own `__del__` uses.
        self._tx.put_nowait((None, do))


async def on_thread(
    connection: sqlite3.Connection, connect_again: Callable[[], sqlite3.Connection] | None = None
) -> Thread:
    """Return an open connection with its own thread. aiosqlite would leak its thread if opening failed there."""
    thread = Thread(lambda: connection, 64)
    if connect_again is not None:
        thread._connect_again = connect_again
    await thread
    return thread


class ReaderClass:
    """The connections of one class of queries, with its metrics."""

    def __init__(self, threads: list[Thread], query_s: float, max_waiting: int) -> None:
        self.query_s = query_s
        self.queue = FairQueue(threads, max_waiting)
        self.size = len(threads)
        self.refused = 0
        self.waits = Histogram(_WAITS_NS)

    async def thread(self, claim: Claim) -> Thread:
        """Return a connection's thread once one is free; the caller releases it. Raises TimeoutError, QueueFull."""
        begun_ns = time.monotonic_ns()
        async with asyncio.timeout(self.query_s):
            thread = await self.queue.acquire(claim)
        self.waits.add(time.monotonic_ns() - begun_ns)
        return thread

    async def hold(self) -> Thread:
        """Return a thread without a deadline, to hold all of them; takes its turn like a claim."""
        return await self.queue.acquire(None)


class Readers:
    """Read-only connections to one file. `failed` is called with errors of SQLite."""

    def __init__(
        self, threads: list[Thread], link_threads: list[Thread], query_s: float, failed: Callable[[Exception], None]
    ) -> None:
        self.threads = [*threads, *link_threads]
        self.accounts = ReaderClass(threads, query_s, _UNBOUNDED)
        self.links = ReaderClass(link_threads, min(query_s, LINK_SECONDS), MAX_WAITING_OF_LINK)
        self._failed = failed
        self._closing = False
        # Two holders would wait for each other's connections forever.
        self._holding = asyncio.Lock()

    async def run(self, query: Query[T], is_gone: Callable[[], bool], claim: Claim) -> T:
        """Run a query in one snapshot; cancel it once `is_gone` returns True. Raises ApiError 503."""
        reader_class = self.links if claim.is_link else self.accounts
        try:
            reader = await reader_class.thread(claim)
        except (TimeoutError, QueueFull):
            reader_class.refused += 1
            raise ApiError(OVERLOADED, "Too many queries are waiting: retry later.", retry_after_s=10) from None
        answer = asyncio.ensure_future(
            reader.run(lambda run: self._in_snapshot(run, query, is_gone, reader_class.query_s))
        )
        # The connection is released when the statement ends, not when the client disconnects.
        answer.add_done_callback(lambda _: reader_class.queue.release(reader))
        try:
            return await asyncio.shield(answer)
        except sqlite3.Error as failure:
            self._failed(failure)
            raise refusal(failure, "reading") from None
        finally:
            # An error has this frame in its traceback: it would be in a cycle with the task that keeps it.
            del answer

    def stop(self) -> None:
        """Cancel the running queries: the process stops."""
        self._closing = True

    def _in_snapshot(
        self, connection: sqlite3.Connection, query: Query[T], is_gone: Callable[[], bool], query_s: float
    ) -> T:
        end = time.monotonic() + query_s

        def is_over() -> bool:
            return self._closing or is_gone() or time.monotonic() > end

        with snapshot(connection), interrupted_when(connection, is_over):
            return query(connection)

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold all readers: wait for the running queries, then keep new ones waiting until the block ends."""
        classes, held = (self.accounts, self.links), list[tuple[ReaderClass, Thread]]()
        async with self._holding:
            try:
                for reader_class in classes:
                    for _ in range(reader_class.size):
                        held.append((reader_class, await reader_class.hold()))
                yield
            finally:
                for reader_class, thread in held:
                    reader_class.queue.release(thread)


async def open_readers(
    path: Path, query_s: float, failed: Callable[[Exception], None], closing: contextlib.AsyncExitStack
) -> Readers:
    """Return the readers of a file, closed with the stack."""
    threads: list[Thread] = []
    for _ in range(READERS + LINK_READERS):
        threads.append(await on_thread(connect_reader(path), lambda: connect_reader(path)))
        closing.push_async_callback(threads[-1].close)
    return Readers(threads[:READERS], threads[READERS:], query_s, failed)
