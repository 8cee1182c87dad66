"""Database connections, each with a thread of its own: the only room that knows aiosqlite.

A call is one function run on the connection's thread (`Thread.run`), not a call a statement: a hop costs 140 µs, a
statement 3. Nothing but plain rows may come out of it: a cursor left over would pin the log as long as it lives.

`Readers` are a few connections that cannot write. A question waits for a free one, has one snapshot for all it asks,
and is given up when it takes too long or nobody waits for it any more. All can be held at once, for the moment in which
the log is emptied.

A connection can be closed and opened anew on its thread; between the two every step fails as a file does that cannot be
opened.
"""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import aiosqlite

from tally.errors import OVERLOADED, ApiError
from tally.health import refusal
from tally.schema import BadDatabase, connect_reader

T = TypeVar("T")
Question = Callable[[sqlite3.Connection], T]

# our choice: on two cores a third reader only takes turns with the others.
READERS = 2
# our choice: a look every few milliseconds costs nothing that could be measured.
_STEPS_BETWEEN_LOOKS = 100_000


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
        self._conn.execute("/* threads.snapshot */ select 1 from meta limit 1").fetchall()

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


class Readers:
    """A few read-only connections to one file. `failed` is told what SQLite refused."""

    def __init__(self, threads: list[Thread], query_s: float, failed: Callable[[Exception], None]) -> None:
        self.threads = threads
        self._failed = failed
        self._query_s = query_s
        self._closing = False
        self._idle: asyncio.LifoQueue[Thread] = asyncio.LifoQueue()
        for thread in threads:
            self._idle.put_nowait(thread)

    async def ask(self, question: Question[T], is_gone: Callable[[], bool]) -> T:
        """Runs a question in one snapshot, until `is_gone` says that nobody waits for it. Raises ApiError 503."""
        try:
            async with asyncio.timeout(self._query_s):
                reader = await self._idle.get()
        except TimeoutError:
            raise ApiError(OVERLOADED, "Too many questions wait: ask it again later.", retry_after_s=10) from None
        answer = asyncio.ensure_future(reader.run(lambda run: self._in_snapshot(run, question, is_gone)))
        # The connection is free when the statement ends, not when the client has gone away.
        answer.add_done_callback(lambda _: self._idle.put_nowait(reader))
        try:
            return await asyncio.shield(answer)
        except sqlite3.Error as failure:
            self._failed(failure)
            raise refusal(failure, "reading") from None

    def stop(self) -> None:
        """Gives up the questions under way: the process ends."""
        self._closing = True

    def _in_snapshot(self, connection: sqlite3.Connection, question: Question[T], is_gone: Callable[[], bool]) -> T:
        # Looked at inside the statement: an interrupt from outside could hit the statement after the one it was for.
        end = time.monotonic() + self._query_s

        def is_over() -> bool:
            return self._closing or is_gone() or time.monotonic() > end

        connection.set_progress_handler(is_over, _STEPS_BETWEEN_LOOKS)
        connection.execute("begin")
        try:
            return question(connection)
        finally:
            connection.set_progress_handler(None, 0)
            connection.execute("rollback")

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """While it lasts nobody reads. Begins when the questions under way are answered."""
        held = [await self._idle.get() for _ in self.threads]
        try:
            yield
        finally:
            for thread in held:
                self._idle.put_nowait(thread)


async def open_readers(
    path: Path, query_s: float, failed: Callable[[Exception], None], closing: contextlib.AsyncExitStack
) -> Readers:
    """Readers of a file, closed with the stack."""
    threads = []
    for _ in range(READERS):
        threads.append(await on_thread(connect_reader(path), lambda: connect_reader(path)))
        closing.push_async_callback(threads[-1].close)
    return Readers(threads, query_s, failed)


def lock_file(path: Path) -> int:
    """Takes the lock that says a server holds this database; its file descriptor. Raises BadDatabase.

    A file of its own: closing any descriptor of the database itself would drop SQLite's locks on it.
    """
    lock = os.open(f"{path.resolve()}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise BadDatabase(
            f"{path.resolve()} is held by a running server: stop that one, or name another file with --db."
        ) from None
    return lock
