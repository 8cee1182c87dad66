"""The open database of a running server: one writer, read-only readers, and what is kept in memory of the file.

- One connection writes, on one thread; all commits and checkpoints of this process are its own. Collected events are
  queued for it (tally/ingest/group_commit.py).
- Another process, such as the command line, may write too. `PRAGMA data_version` on the writing connection shows when;
  websites, keys and usage are then read again. It is checked every second, and when a request has an unknown website or
  key.

The health of the file is observed by tally/storage/health.py and restored by tally/storage/recovery.py. Anything in
this process that keeps a connection open for longer than one transaction has to be registered there.

SQLite can restart its write-ahead log only at a moment without readers. Where reports leave no such moment and the log
has grown, the readers are held for one.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from tally.accounts.api_keys import ApiKey, key_digest, record_key_use
from tally.accounts.usage import USAGE_WARNINGS, month_of
from tally.clock import Clock
from tally.engine.ingest import WriteRequest
from tally.engine.values import SERVER, Claim
from tally.errors import STORAGE_UNAVAILABLE, ApiError, log
from tally.events.website import Website
from tally.ingest.clock_watch import ClockWatch
from tally.ingest.group_commit import GroupCommit
from tally.ingest.realtime import Realtime
from tally.ingest.rejected_events import RejectedEvents
from tally.ingest.writer import EventWriter, WriteResult
from tally.storage.account_cache import AccountCache, registry, registry_if_changed
from tally.storage.connections import Readers, Thread
from tally.storage.database import transaction
from tally.storage.health import RETRY_S, Health, refusal
from tally.storage.recovery import Recovery
from tally.storage.wal import truncate_wal
from tally.timestamps import QUARTER_MS

P = ParamSpec("P")
T = TypeVar("T")
SQLITE_VERSION = sqlite3.sqlite_version
TICK_S = 1.0
# Requests with random website ids make the writer check the file at most 50 times a second.
REFRESH_S = 0.02
# `key list` shows the last use to the minute.
NOTE_USE_NS = 60_000_000_000
EMPTY_LOG_NS = 10_000_000_000
# The process must end within 10 seconds of SIGTERM (docs/cli.md).
CLOSE_S = 2.0
# Background work pauses where commits take more than this share of the time that other steps leave them. At full speed
# the share is 0.4 and more, at 1,000 single events a second 0.2. It is measured over at least BUSY_OVER_NS: a shorter
# span would show a few commits as many.
BUSY_SHARE = 0.3
BUSY_OVER_NS = 100_000_000


class WorkTime(NamedTuple):
    """How long the writer's thread has worked up to `at_ns`: in total, and for commits alone."""

    at_ns: int
    all_ns: int
    commits_ns: int


class Store:
    """The open database of a running server. Made by tally/ingest/lifecycle.py."""

    def __init__(
        self, health: Health, writer: Thread, readers: Readers, event_writer: EventWriter, clock: Clock
    ) -> None:
        self.key_salt = b""
        self.ingest = GroupCommit(writer, event_writer, clock, health, self._publish)
        self.counters = self.ingest.counters
        self.event_writer = event_writer
        self.registry = AccountCache({}, {}, {}, {}, {}, {}, {}, {})
        # The newest committed id, where the first page of events ends. Every lower one is committed or never used.
        self.last_id = 0
        self.readers = readers
        self.live = Realtime()
        self.clock_watch = ClockWatch(clock, writer)
        self.rejected_events = RejectedEvents(clock)
        # Functions to call every second, with the wall time in milliseconds.
        self.each_second: list[Callable[[int], None]] = [self.clock_watch.check, self.live.sweep]
        # Called with each commit: the quarter hours of its events, as (website, quarter).
        self.committed: Callable[[set[tuple[int, int]]], None] | None = None
        self._writer = writer
        self.path, self.health = health.path, health
        self.recovery: Recovery
        # Deleted data is in the log (tally/maintenance/deletion_worker.py).
        self.wants_empty_log = False
        self._empty_again_ns = 0
        self._clock = clock
        self._closing = False
        self._data_version = -1
        self._refreshed_ns = 0
        self._refreshing = asyncio.Lock()
        self._catching_up = asyncio.Lock()
        # How often ids of other processes were found. Changes together with `last_id`.
        self.catch_ups = 0
        self._changes: dict[int, int] = {}
        self._changes_elsewhere = self._changes_here = 0
        self._used_keys: dict[int, int] = {}
        self._noted_ns = -NOTE_USE_NS
        # The writer's work time at the last check of `is_busy`, and its result.
        self._work = WorkTime(0, 0, 0)
        self._is_busy = False

    def note_change(self, website: int) -> None:
        """Record that the data of a website has changed."""
        self._changes[website] = self._changes.get(website, 0) + 1

    def want_empty_log(self) -> None:
        """Have SQLite's log emptied with the next task of `empty_log`."""
        self.wants_empty_log = True

    def is_busy(self) -> bool:
        """Return whether commits kept the writer busy since the last call; within BUSY_OVER_NS, the last result."""
        now, before = WorkTime(time.monotonic_ns(), self._writer.worked_ns, self._writer.started_ns), self._work
        if now.at_ns - before.at_ns >= BUSY_OVER_NS:
            commits_ns = now.commits_ns - before.commits_ns
            others_ns = now.all_ns - before.all_ns - commits_ns
            # A step counts at its end and may have begun long before.
            self._is_busy = commits_ns > BUSY_SHARE * max(0, now.at_ns - before.at_ns - others_ns)
            self._work = now
        return self._is_busy

    @property
    def queue(self) -> int:
        """Events that wait for a commit."""
        return self.ingest.queue

    def version_of(self, website: int) -> tuple[int, int]:
        """Return the website's change counter: another value after every change of its data."""
        return self._changes.get(website, 0), self._changes_elsewhere

    def website(self, id: str) -> Website | None:
        """Return the website with that id, None where there is none."""
        return self.registry.websites.get(id)

    def website_of(self, host: str) -> Website | None:
        """Return the website of a normal host, by its domain or the nearest domain above it, None if there is none."""
        domains = self.registry.domains
        while host and host not in domains:
            host = host.partition(".")[2]
        return domains.get(host)

    def key(self, value: str) -> ApiKey | None:
        """Return the API key of that value, None where there is none."""
        return self.registry.keys.get(key_digest(value, self.key_salt))

    def note_use(self, key: ApiKey, now_ms: int) -> None:
        """Record that a key was used; written once a minute."""
        self._used_keys[key.number] = now_ms

    def used(self, account: int, now_ms: int) -> int:
        """Return the events that an account has used this month."""
        return self.registry.usage.get((account, month_of(now_ms)), 0)

    def event_limit(self, plan: str) -> int | None:
        """Return the events per month of a plan, None where unlimited."""
        return self.event_writer.limit_of(plan)

    @property
    def log_bytes(self) -> int:
        """The size of SQLite's write-ahead log."""
        return _size(self.health.files.log)

    @property
    def file_bytes(self) -> int:
        """The size of the database file."""
        return _size(self.path)

    async def check_file(self) -> None:
        """`check_health`, as a task of every second, with the reserve of the disk."""
        self.check_health()
        if await asyncio.to_thread(self.health.keep_reserve):
            # Now it may succeed.
            self.wants_empty_log, self._empty_again_ns = True, 0

    def check_writable(self) -> bool:
        """Check the file; return whether everything but events may be written."""
        self.check_health()
        return self.health.is_writable

    def check_health(self) -> str:
        """Check the file; return its state, a word of tally/storage/health.py."""
        self.health.check(self._writer.busy_since_ns)
        return self.health.state

    async def read(
        self,
        query: Callable[[sqlite3.Connection], T],
        is_gone: Callable[[], bool] = lambda: False,
        claim: Claim = SERVER,
    ) -> T:
        """Run a function on a read-only connection, in one snapshot, until `is_gone`. Raises ApiError 503."""
        return await self.readers.run(query, is_gone, claim)

    async def read_changes(self) -> None:
        """`refresh`, so that all that was committed before this call is known; at most once in REFRESH_S.

        For what would be refused otherwise, such as a key that another process has just created. Raises ApiError 503.
        """
        called_ns = self._clock.monotonic_ns()
        async with self._refreshing:
            # Not where one that began after this call has ended meanwhile.
            if self._refreshed_ns <= called_ns:
                rest_s = REFRESH_S - (self._clock.monotonic_ns() - self._refreshed_ns) / 1e9
                await asyncio.sleep(max(rest_s, 0))
                await self.refresh()

    async def refresh(self) -> None:
        """Read websites, keys and usage again if another process has written. Raises ApiError 503."""
        self._refreshed_ns = self._clock.monotonic_ns()
        month, changes = month_of(self._clock.wall_ms()), self._changes_here
        try:
            version, found = await self._writer.run(
                lambda connection: registry_if_changed(connection, self._data_version, month)
            )
            if found is not None:
                await self._catch_up()
        except sqlite3.Error as failure:
            self.health.failed_to_read(failure)
            raise refusal(failure, "reading websites and keys") from None
        # A change made here meanwhile is newer than what was read; the next refresh then reads both.
        if found is not None and changes == self._changes_here:
            self._data_version, self.registry = version, found
            self._changes_elsewhere += 1
            self.live.clear()

    async def catch_up(self, ids_end: int) -> bool:
        """Refresh where another process has taken ids up to `ids_end`; whether it had. Raises ApiError 503."""
        # The writer's thread has the ids before `last_id` does.
        async with self._catching_up:
            if ids_end <= self.event_writer.ids_end:
                return False
        await self.refresh()
        return True

    async def _catch_up(self) -> None:
        async with self._catching_up:
            last_id = await self._writer.run(self.event_writer.catch_up)
            if last_id is not None:
                # A group that was committed right afterwards may already have been published.
                self.last_id = max(self.last_id, last_id)
                self.catch_ups += 1

    async def lookup(
        self, step: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a function that reads returns, called with a connection and arguments. Raises ApiError 503."""
        return await self.read(lambda connection: step(connection, *args, **kwargs))

    async def change(
        self, step: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a function that writes returns, called with a connection and arguments in one transaction.

        The change takes effect at once. Raises ApiError 503.
        """
        month = month_of(self._clock.wall_ms())

        def do(connection: sqlite3.Connection) -> tuple[T, AccountCache]:
            with transaction(connection):
                result = step(connection, *args, **kwargs)
            self.health.files.check_database()
            self.health.files.check_log()
            return result, registry(connection, month)

        if self._closing:
            raise ApiError(STORAGE_UNAVAILABLE, retry_after_s=RETRY_S)
        self.health.refuse()
        try:
            result, self.registry = await self._writer.run(do)
        except sqlite3.Error as failure:
            self.health.failed(failure)
            raise refusal(failure, "an owner's change") from None
        self._changes_here += 1
        return result

    async def tick(self) -> None:
        """Run all tasks of a second, one after another."""
        await self.chores()
        await self.empty_log()

    async def chores(self) -> None:
        """Run the tasks of every second except `empty_log`. Each is bounded in time."""
        await self.refresh()
        now_ms, now_ns = self._clock.wall_ms(), self._clock.monotonic_ns()
        for chore in self.each_second:
            chore(now_ms)
        if not self.health.takes_events:
            return
        await self._writer.run(self.event_writer.chores)
        await self._write_rejected_events()
        if self._used_keys and now_ns - self._noted_ns >= NOTE_USE_NS:
            await self._note_uses()

    async def empty_log(self) -> None:
        """Empty SQLite's log where it has grown, or where deleted data is in it. Waits for the queries under way."""
        now_ns = self._clock.monotonic_ns()
        is_wanted = self.log_bytes > self.health.space.emptied_from or self.wants_empty_log
        if is_wanted and self.health.takes_events and now_ns >= self._empty_again_ns:
            # If it fails, for example because another process reads, the readers are not held again at once.
            self._empty_again_ns = now_ns + EMPTY_LOG_NS
            async with self.readers.held():
                if await self._writer.run(truncate_wal):
                    self.wants_empty_log, self._empty_again_ns = False, now_ns

    async def _note_uses(self) -> None:
        used, self._used_keys, self._noted_ns = self._used_keys, {}, self._clock.monotonic_ns()

        def note(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                record_key_use(connection, [(ms, key) for key, ms in used.items()])

        await self._writer.run(note)

    async def _write_rejected_events(self) -> None:
        """Write the counts of rejected events; while the file cannot be written, they stay in memory."""
        if not self.health.is_writable:
            return
        try:
            await self.rejected_events.write(self._writer)
        except sqlite3.Error as failure:
            self.health.failed(failure)
            raise refusal(failure, "counting rejected events") from None

    def _publish(self, requests: list[WriteRequest], written: WriteResult) -> None:
        for number in {event.website.number for request in requests for event in request.events}:
            self._changes[number] = self._changes.get(number, 0) + 1
        self.last_id = written.last_id
        if self.committed is not None:
            self.committed(
                {(event.website.number, event.event.ts_ms // QUARTER_MS) for one in requests for event in one.events}
            )
        self.rejected_events.have_changed(written.folded)
        self._warn_of_usage(written.used)
        self.registry.usage.update(written.used)
        self.live.hand_over(written.visits)

    def _warn_of_usage(self, used: dict[tuple[int, int], int]) -> None:
        """Log that an account has used a share of its month's events, once, when a commit passes the mark."""
        for account, events in used.items():
            owner = self.registry.owners.get(account[0])
            limit = None if owner is None else self.event_limit(owner.plan)
            if limit is None:
                continue
            before = self.registry.usage.get(account, 0)
            for percent in USAGE_WARNINGS:
                if before * 100 < percent * limit <= events * 100:
                    log.warning("account %d has used %d percent of its month's %d events", account[0], percent, limit)

    def accounts_past(self, percent: int, now_ms: int) -> int:
        """Return how many accounts have used at least so many percent of their month's events."""
        limits = [(self.event_limit(owner.plan), number) for number, owner in self.registry.owners.items()]
        return sum(limit is not None and self.used(number, now_ms) * 100 >= percent * limit for limit, number in limits)

    def reset_data_version(self) -> None:
        """Discard the known data_version: it belongs to the writer's previous connection."""
        self._data_version = -1

    def stop(self) -> None:
        """Accept no more requests; those that wait are written."""
        self._closing = True
        self.ingest.stop()
        self.readers.stop()

    async def close(self) -> None:
        """Write all that waits in the queue and in memory."""
        self.stop()
        await self.ingest.empty()
        state = self.check_health()
        is_writable = self.health.is_writable
        with contextlib.suppress(ApiError, sqlite3.Error, TimeoutError):
            if self._used_keys and is_writable:
                await self._note_uses()
            if is_writable:
                await self._write_rejected_events()
            if state == "missing":
                # Otherwise the log would be found beside another database in its place. Readers end soon.
                async with self.readers.held(), asyncio.timeout(CLOSE_S):
                    while not await self._writer.run(truncate_wal):
                        await asyncio.sleep(0.02)
        self.health.close()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
