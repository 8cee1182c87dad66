"""The database in use: one writer with group commit, read-only connections, and what is kept in memory of both.

Its rules:
- One connection writes, on one thread; all commits and checkpoints of this process are its own. What is collected
  stands in line for it (tally/commits.py).
- Another process may write too (the command line). `PRAGMA data_version` on the writing connection tells when; then
  websites, keys and usage are read anew. It is asked every second, and when somebody names an unknown website or key.

If a group fails for a reason that lies in the file or the disk, everyone in it is told 503 and nothing is kept; a small
write every second finds out when that is over.

SQLite starts its log over only in a moment in which nobody reads. Where questions leave none and the log has grown, the
readers are held for that moment.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

from tally import accounts
from tally.accounts import Key, Website
from tally.building import PAUSE_S, Builder
from tally.clock import Clock
from tally.commits import Commits, Tell
from tally.erasing import Eraser
from tally.errors import OVERLOADED, STORAGE_UNAVAILABLE, ApiError, log, where_it_failed
from tally.ingest import Ingest, Job, Outcome, Written
from tally.left_out import LeftOut
from tally.live import Live
from tally.registry import Registry, registry, registry_if_changed
from tally.schema import SERVER_BUSY_S, BadDatabase, connect_reader, open_database, transaction
from tally.threads import Readers, Thread, lies_in_the_file, on_thread, open_readers, refusal
from tally.timekeeping import Timekeeper

T = TypeVar("T")
TICK_S = 1.0
# our choice: a stranger naming random websites makes the writer look at most ten times a second.
LOOK_AGAIN_S = 0.1
# our choice: `key list` shows the last use to the minute.
NOTE_USE_NS = 60_000_000_000
# our choice, the same as schema.py's journal_size_limit: from here on readers are held so that the log can start over.
MOST_LOG_BYTES = 64 * 1_048_576
EMPTY_LOG_NS = 10_000_000_000
# our choice: counting a day reads its rows once; a large cache would hold nothing that is read again.
BUILDER_CACHE_KIB = 1_000
FAILED_PAUSE_S = 10.0
# our choice: a writer that spends more of its time on commits than this is left alone by the work in the background.
BUSY_SHARE = 0.3


class Store:
    """The open database of a running server. Made by `opened`."""

    def __init__(self, path: Path, writer: Thread, readers: Readers, ingest: Ingest, clock: Clock) -> None:
        self.key_salt = b""
        self._commits = Commits(writer, ingest, clock, self._publish, self._failed)
        self.counters = self._commits.counters
        self.ingest = ingest
        self.registry = Registry({}, {}, {}, {}, {}, {})
        # The newest id committed: the first page of events goes no further.
        self.last_id = 0
        self.readers = readers
        self.live = Live()
        self.timekeeper = Timekeeper(clock, writer)
        self.left_out = LeftOut(clock)
        # Chores of other rooms; they are told the time.
        self.each_second: list[Callable[[int], None]] = [self.timekeeper.look, self.live.sweep]
        self._writer = writer
        self.path, self._log = path, path.with_name(path.name + "-wal")
        self._file = _file_of(path)
        self._emptied_ns = -EMPTY_LOG_NS
        self._clock = clock
        self._closing = False
        self._data_version = -1
        self._looked_ns = 0
        self._changes: dict[int, int] = {}
        self._changes_elsewhere = self._changes_here = 0
        self._used_keys: dict[int, int] = {}
        self._noted_ns = -NOTE_USE_NS
        self.is_failing = self.is_gone = False
        self.builder: Builder
        self.eraser: Eraser
        self._commit_ns_before = 0
        self._is_busy = False

    def note_change(self, website: int) -> None:
        """What may be read of a website has changed."""
        self._changes[website] = self._changes.get(website, 0) + 1

    def is_busy(self) -> bool:
        """Whether the writer had much to do in the last second."""
        return self._is_busy

    @property
    def queue(self) -> int:
        """Events that wait for a commit."""
        return self._commits.queue

    @property
    def is_full(self) -> bool:
        """Whether so many wait that no more are taken."""
        return self._commits.is_full

    def version_of(self, website: int) -> tuple[int, int]:
        """The website's change counter: another value after every change of what may be read of it."""
        return self._changes.get(website, 0), self._changes_elsewhere

    def website(self, id: str) -> Website | None:
        """The website of that id."""
        return self.registry.websites.get(id)

    def key(self, value: str) -> Key | None:
        """The API key of that value."""
        return self.registry.keys.get(accounts.key_digest(value, self.key_salt))

    def note_use(self, key: Key, now_ms: int) -> None:
        """Remembers that a key was used; written now and then."""
        self._used_keys[key.number] = now_ms

    def used(self, account: int, now_ms: int) -> int:
        """This month's accepted events of an account."""
        return self.registry.usage.get((account, accounts.month_of(now_ms)), 0)

    async def write(self, job: Job) -> Outcome:
        """Commits a job's rows, with fsync, together with whoever else waits. Raises ApiError 503."""
        future: asyncio.Future[Outcome | Exception] = asyncio.get_running_loop().create_future()
        self.put(job, lambda outcome: None if future.done() else future.set_result(outcome))
        outcome = await future
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def put(self, job: Job, tell: Tell) -> None:
        """The same for who cannot wait: `tell` is told. Raises ApiError 503 where the job is not even queued."""
        if self.is_gone:
            raise ApiError(STORAGE_UNAVAILABLE, retry_after_s=5)
        if self._closing:
            raise ApiError(OVERLOADED, retry_after_s=1)
        self._commits.put(job, tell)

    @property
    def log_bytes(self) -> int:
        """The size of SQLite's log beside the database."""
        return _size(self._log)

    @property
    def file_bytes(self) -> int:
        """The size of the database itself."""
        return _size(self.path)

    async def read(self, question: Callable[[sqlite3.Connection], T], is_gone: Callable[[], bool] = lambda: False) -> T:
        """Runs a question on a read-only connection, in one snapshot, while somebody waits. Raises ApiError 503."""
        return await self.readers.ask(question, is_gone)

    async def look_again(self) -> None:
        """Reads websites, keys and usage anew if another process has written, unless that was looked at just now."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._looked_ns >= LOOK_AGAIN_S * 1e9:
            await self.refresh()

    async def refresh(self) -> None:
        """Reads websites, keys and usage anew if another process has written."""
        self._looked_ns = self._clock.monotonic_ns()
        month, changes = accounts.month_of(self._clock.wall_ms()), self._changes_here
        try:
            version, found = await self._writer.run(
                lambda connection: registry_if_changed(connection, self._data_version, month)
            )
            last_id = None if found is None else await self._writer.run(self.ingest.catch_up)
        except sqlite3.Error as failure:
            raise refusal(failure, "reading websites and keys") from None
        # What was changed here meanwhile is newer than what was found: then the next look finds both.
        if found is not None and changes == self._changes_here:
            self._data_version, self.registry = version, found
            self._changes_elsewhere += 1
            self.live.forget()
        if last_id is not None:
            self.last_id = last_id

    async def change(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """What an owner's change gives, done in a transaction of its own; it is seen at once. Raises ApiError 503."""
        month = accounts.month_of(self._clock.wall_ms())

        def do(connection: sqlite3.Connection) -> tuple[T, Registry]:
            with transaction(connection):
                result = step(connection)
            return result, registry(connection, month)

        if self.is_gone or self._closing:
            raise ApiError(STORAGE_UNAVAILABLE, retry_after_s=5)
        try:
            result, self.registry = await self._writer.run(do)
        except sqlite3.Error as failure:
            raise refusal(failure, "an owner's change") from None
        self._changes_here += 1
        return result

    async def tick(self) -> None:
        """The chores of every second."""
        await self.refresh()
        now_ms, now_ns = self._clock.wall_ms(), self._clock.monotonic_ns()
        self._look_at_the_file()
        self._is_busy = self.counters.took.total - self._commit_ns_before > BUSY_SHARE * TICK_S * 1e9
        self._commit_ns_before = self.counters.took.total
        for chore in self.each_second:
            chore(now_ms)
        await self._writer.run(self.ingest.chores)
        if self.is_failing:
            await self._writer.run(_try_to_write)
            self.is_failing = False
        await self._write_left_out()
        if self._used_keys and now_ns - self._noted_ns >= NOTE_USE_NS:
            await self._note_uses()
        is_wanted = self.log_bytes > MOST_LOG_BYTES or self.eraser.wants_empty_log
        if is_wanted and now_ns - self._emptied_ns >= EMPTY_LOG_NS:
            self._emptied_ns = now_ns
            async with self.readers.held():
                if await self._writer.run(_empty_log):
                    self.eraser.wants_empty_log = False

    def _look_at_the_file(self) -> None:
        """A file that was deleted or replaced goes on to take events that nobody will find: then none are taken."""
        now = _file_of(self.path)
        if now != self._file and not self.is_gone:
            log.error("%s was deleted or replaced while the server runs: put it back, or start anew", self.path)
        self.is_gone = now != self._file

    async def _note_uses(self) -> None:
        used, self._used_keys, self._noted_ns = self._used_keys, {}, self._clock.monotonic_ns()

        def note(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                accounts.note_use(connection, [(ms, key) for key, ms in used.items()])

        await self._writer.run(note)

    async def _write_left_out(self) -> None:
        """What was left out goes to the file; while that takes nothing, it waits in memory."""
        if self.is_failing or self.is_gone:
            return
        try:
            await self.left_out.write(self._writer)
        except sqlite3.Error as failure:
            self.is_failing = lies_in_the_file(failure)
            raise refusal(failure, "counting what was left out") from None

    def _publish(self, jobs: list[Job], written: Written) -> None:
        self.is_failing = False
        for number in {row.website.number for job in jobs for row in job.rows}:
            self._changes[number] = self._changes.get(number, 0) + 1
        self.last_id = written.last_id
        self.registry.usage.update(written.used)
        self.live.hand_over(written.visits)

    def _failed(self, failure: Exception) -> None:
        self.is_failing = True

    def stop(self) -> None:
        """Takes no more jobs; those that wait are written."""
        self._closing = True
        self.readers.stop()

    async def close(self) -> None:
        """Ends the writer once what waits is written; notes what is still to be noted."""
        self.stop()
        await self._commits.empty()
        if self._used_keys and not self.is_failing:
            with contextlib.suppress(sqlite3.Error):
                await self._note_uses()
        with contextlib.suppress(ApiError, sqlite3.Error):
            await self._write_left_out()


@contextlib.asynccontextmanager
async def opened(path: Path, ingest: Ingest, clock: Clock, query_s: float, keep_days: int = 0) -> AsyncIterator[Store]:
    """The store over the database at `path`, made where there is none, with its writer at work."""
    async with contextlib.AsyncExitStack() as closing:
        writer = await on_thread(open_database(path, create=True, busy_s=SERVER_BUSY_S))
        closing.push_async_callback(writer.close)
        readers = await open_readers(path, query_s, closing)
        store = Store(path, writer, readers, ingest, clock)
        try:
            store.key_salt = await writer.run(accounts.key_salt)
            await store.timekeeper.begin()
            store.last_id = await writer.run(ingest.start)
            await store.refresh()
        except (ApiError, sqlite3.Error, TypeError, ValueError):
            raise BadDatabase(
                f"{path} is damaged: put a backup in its place, or name another file with --db."
            ) from None
        looker = await on_thread(connect_reader(path, BUILDER_CACHE_KIB))
        closing.push_async_callback(looker.close)
        store.builder = Builder(writer, looker, clock, keep_days, store.is_busy, changed=store.note_change)
        store.eraser = Eraser(store.builder.write, looker, ingest.labels, clock)
        works = (_tick_forever(store), _build_forever(store), store.timekeeper.work())
        chores = [asyncio.create_task(work) for work in works]
        try:
            yield store
        finally:
            for chore in chores:
                chore.cancel()
            store.stop()
            await asyncio.gather(*chores, return_exceptions=True)
            await store.close()
            await store.timekeeper.note()


async def _tick_forever(store: Store) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        try:
            await store.tick()
        except ApiError:
            pass  # it was logged where it came from
        except Exception as failure:
            log.error("chores failed: %s", where_it_failed(failure))


async def _build_forever(store: Store) -> None:
    while True:
        await asyncio.sleep(PAUSE_S)
        try:
            await store.builder.work()
            await store.eraser.work()
        except Exception as failure:
            log.error("work in the background failed: %s", where_it_failed(failure))
            await asyncio.sleep(FAILED_PAUSE_S)


def _try_to_write(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        # As much as a request may bring: a single page may still fit where nothing else does.
        connection.execute("/* store.try */ insert or replace into meta values ('try', zeroblob(262144))")
    with transaction(connection):
        connection.execute("/* store.tried */ delete from meta where name = 'try'")


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Whether it is empty now."""
    # Somebody else, such as a backup, may be reading: then another time, without waiting for it.
    busy_ms = connection.execute("pragma busy_timeout").fetchone()[0]
    connection.execute("pragma busy_timeout = 0").fetchall()
    try:
        return bool(connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0)
    finally:
        connection.execute(f"pragma busy_timeout = {busy_ms}").fetchall()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _file_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
