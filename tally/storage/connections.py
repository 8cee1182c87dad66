"""Database connections, each with a thread of its own: the only room that knows aiosqlite.

A call is one function run on the connection's thread (`Thread.run`), not a call a statement: a hop costs 140 µs, a
statement 3. Nothing but plain rows may come out of it: a cursor left over would pin the log as long as it lives.

`Readers` are a few connections that cannot write. A question waits for a free one, has one snapshot for all it asks,
and is given up when it takes too long or nobody waits for it any more. Share links have a connection of their own, so
that a question of an account never waits for one of a link, and a shorter deadline; within each class, accounts and
links take turns (tally/storage/fair_queue.py). All can be held at once, for the moment in which the log is emptied.

A connection can be closed and opened anew on its thread; between the two every step fails as a file does that cannot be
opened.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import aiosqlite

from tally.errors import OVERLOADED, ApiError
from tally.latency_histogram import Histogram
from tally.storage.database import connect_reader, interrupted_when, snapshot
from tally.storage.fair_queue import FairQueue, QueueFull
from tally.storage.health import refusal

T = TypeVar("T")
Question = Callable[[sqlite3.Connection], T]

# our choice: on two cores a third reader only takes turns with the others.
READERS = 2
# One for all share links together: one more would let strangers have more of two cores than the owners have.
LINK_READERS = 1
# Half of the default deadline. A dashboard's questions take milliseconds; what takes longer than this keeps other links
# waiting.
LINK_SECONDS = 5.0
# A shared dashboard asks about ten questions at once; identical ones wait once (tally/api/single_flight.py).
MAX_WAITING_OF_LINK = 64
# Connections bound what an account can have waiting, and its bucket does.
_UNBOUNDED = 1 << 30
_WAITS_NS = tuple(ms * 1_000_000 for ms in (1, 5, 25, 100, 500, 2_500, 10_000))


class Shut(sqlite3.OperationalError):
    """There is no connection just now."""

    sqlite_errorname = "SHUT"


class Thread(aiosqlite.Connection):
    """aiosqlite's connection with its thread; `run` is its own way of doing a step there (pinned in pyproject.toml)."""

    # When the step under way began, 0 where there is none.
    busy_since_ns = 0
    # How long all steps took, and those of `start` among them.
    worked_ns = started_ns = 0
    _is_shut = False
    _connect_again: Callable[[], sqlite3.Connection]

    async def run(self, step: Question[T]) -> T:
        """What `step` gives, done on the connection's thread."""
        result: T = await self._execute(self._do, step)  # type: ignore[no-untyped-call]
        return result

    def _do(self, step: Question[T]) -> T:
        if self._is_shut:
            raise Shut("no connection")
        self.busy_since_ns = time.monotonic_ns()
        try:
            # Not before: it may have become another one while the step waited.
            return step(self._conn)
        finally:
            self.worked_ns += time.monotonic_ns() - self.busy_since_ns
            self.busy_since_ns = 0

    async def shut(self) -> None:
        """Closes the connection, after all steps before."""

        def close() -> None:
            self._is_shut = True
            self._conn.close()

        await self._execute(close)  # type: ignore[no-untyped-call]

    async def open_again(self) -> None:
        """Opens another connection where there is none. Raises sqlite3.Error."""

        def connect() -> None:
            if self._is_shut:
                self._connection = self._connect_again()
                self._is_shut = False

        await self._execute(connect)  # type: ignore[no-untyped-call]

    def begin_snapshot(self) -> None:
        """Begins to read what is committed now; called from another thread while this one's has nothing to do."""
        self._conn.execute("begin")
        self._conn.execute("/* connections.snapshot */ select 1 from meta limit 1").fetchall()

    def start(self, step: Question[T], tell: Callable[[T | Exception], None]) -> None:
        """Has `step` done on the connection's thread; then `tell`, on the loop, what it gives or how it fails."""
        loop = asyncio.get_running_loop()

        def do() -> None:
            before_ns = self.worked_ns
            try:
                result: T | Exception = self._do(step)
            except Exception as failure:
                result = failure
            self.started_ns += self.worked_ns - before_ns
            loop.call_soon_threadsafe(tell, result)

        # aiosqlite's queue takes steps without a future as well: so ends its own `__del__`.
        self._tx.put_nowait((None, do))


async def on_thread(
    connection: sqlite3.Connection, connect_again: Callable[[], sqlite3.Connection] | None = None
) -> Thread:
    """An open connection with a thread of its own; open already, since aiosqlite leaves its thread where that fails."""
    thread = Thread(lambda: connection, 64)
    if connect_again is not None:
        thread._connect_again = connect_again
    await thread
    return thread


class Claim(NamedTuple):
    """Who a question is for: an account by its number (0: the server itself), or the share link of a website."""

    is_link: bool
    number: int


SERVER = Claim(False, 0)


class ReaderClass:
    """The connections of one class of questions, and what /metrics says of it."""

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
            thread = await self._free(claim)
        self.waits.add(time.monotonic_ns() - begun_ns)
        return thread

    async def hold(self) -> Thread:
        """The same without a deadline, for what needs all of them; it takes its turn as a claim does."""
        return await self._free(None)

    async def _free(self, key: Claim | None) -> Thread:
        waiting = self.queue.request(key)
        try:
            return await waiting
        except BaseException:
            self.queue.withdraw(key, waiting)
            raise


class Readers:
    """A few read-only connections to one file. `failed` is told what SQLite refused."""

    def __init__(
        self, threads: list[Thread], link_threads: list[Thread], query_s: float, failed: Callable[[Exception], None]
    ) -> None:
        self.threads = [*threads, *link_threads]
        self.accounts = ReaderClass(threads, query_s, _UNBOUNDED)
        self.links = ReaderClass(link_threads, min(query_s, LINK_SECONDS), MAX_WAITING_OF_LINK)
        self._failed = failed
        self._closing = False
        # Two that hold would wait for each other's connections for good.
        self._holding = asyncio.Lock()

    async def ask(self, question: Question[T], is_gone: Callable[[], bool], claim: Claim) -> T:
        """Runs a question in one snapshot, until `is_gone` says that nobody waits for it. Raises ApiError 503."""
        of = self.links if claim.is_link else self.accounts
        try:
            reader = await of.thread(claim)
        except (TimeoutError, QueueFull):
            of.refused += 1
            raise ApiError(OVERLOADED, "Too many questions wait: ask it again later.", retry_after_s=10) from None
        answer = asyncio.ensure_future(reader.run(lambda run: self._in_snapshot(run, question, is_gone, of.query_s)))
        # The connection is free when the statement ends, not when the client has gone away.
        answer.add_done_callback(lambda _: of.queue.release(reader))
        try:
            return await asyncio.shield(answer)
        except sqlite3.Error as failure:
            self._failed(failure)
            raise refusal(failure, "reading") from None

    def stop(self) -> None:
        """Gives up the questions under way: the process ends."""
        self._closing = True

    def _in_snapshot(
        self, connection: sqlite3.Connection, question: Question[T], is_gone: Callable[[], bool], query_s: float
    ) -> T:
        end = time.monotonic() + query_s

        def is_over() -> bool:
            return self._closing or is_gone() or time.monotonic() > end

        with snapshot(connection), interrupted_when(connection, is_over):
            return question(connection)

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """While it lasts nobody reads. Begins when the questions under way are answered."""
        classes, held = (self.accounts, self.links), list[tuple[ReaderClass, Thread]]()
        async with self._holding:
            try:
                for of in classes:
                    for _ in range(of.size):
                        held.append((of, await of.hold()))
                yield
            finally:
                for of, thread in held:
                    of.queue.release(thread)


async def open_readers(
    path: Path, query_s: float, failed: Callable[[Exception], None], closing: contextlib.AsyncExitStack
) -> Readers:
    """Readers of a file, closed with the stack."""
    threads: list[Thread] = []
    for _ in range(READERS + LINK_READERS):
        threads.append(await on_thread(connect_reader(path), lambda: connect_reader(path)))
        closing.push_async_callback(threads[-1].close)
    return Readers(threads[:READERS], threads[READERS:], query_s, failed)
