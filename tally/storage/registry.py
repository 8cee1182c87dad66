"""What the server keeps in memory of accounts, websites, keys and usage, and the changes that owners make of them.

A change made here takes effect at once. Another process, such as the command line, may write too: `PRAGMA data_version`
on the writing connection shows when, and everything is then read again. It is checked every second, and when a request
has an unknown website or key.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from tally.accounts.api_keys import ApiKey, key_digest, key_salt, record_key_use
from tally.accounts.usage import USAGE_WARNINGS, month_of
from tally.clock import Clock
from tally.errors import STORAGE_UNAVAILABLE, ApiError, log
from tally.events.website import Website
from tally.storage.account_cache import AccountCache, registry, registry_if_changed
from tally.storage.database import transaction
from tally.storage.health import RETRY_S, refusal
from tally.storage.node_database import NodeDatabase

P = ParamSpec("P")
T = TypeVar("T")
# Requests with random website ids make the writer check the file at most 50 times a second.
REFRESH_S = 0.02
# `key list` shows the last use to the minute.
NOTE_USE_NS = 60_000_000_000


class Elsewhere(Protocol):
    """What keeps a copy of accounts, websites and what belongs to them on other machines (tally/cluster/control.py)."""

    def state(self, connection: sqlite3.Connection) -> bytes:
        """Return a digest of what is copied."""

    def check(self) -> None:
        """Raise ApiError where a change cannot be copied now. Called on the writer's thread, as `state`."""

    async def copy(self) -> None:
        """Copy what is committed. Raises ApiError."""


class Registry:
    """Accounts, websites and keys. `event_limit` returns the events per month of a plan, None where unlimited."""

    def __init__(self, database: NodeDatabase, clock: Clock, event_limit: Callable[[str], int | None]) -> None:
        self.cache = AccountCache({}, {}, {}, {}, {}, {}, {}, {}, {}, {})
        self.key_salt = b""
        self.event_limit = event_limit
        # Called after another process has written, before its accounts are known here.
        self.others_wrote: Callable[[], Awaitable[None]] | None = None
        self.elsewhere: Elsewhere | None = None
        # How often what another process has written was read.
        self.changes_elsewhere = 0
        self._database, self._clock = database, clock
        self._changes_here, self._data_version = 0, -1
        self._refreshed_ns = 0
        self._refreshing = asyncio.Lock()
        self._used_keys: dict[int, int] = {}
        self._noted_ns = -NOTE_USE_NS
        database.recovery.opened_anew = self._forget_data_version

    async def open(self) -> None:
        """Read everything. Raises ApiError, sqlite3.Error, TypeError, ValueError."""
        self.key_salt = await self._database.writer.run(key_salt)
        await self.refresh()

    def website(self, id: str) -> Website | None:
        """Return the website with that id, None where there is none."""
        return self.cache.websites.get(id)

    def website_of(self, host: str) -> Website | None:
        """Return the website of a normal host, by its domain or the nearest domain above it, None if there is none."""
        domains = self.cache.domains
        while host and host not in domains:
            host = host.partition(".")[2]
        return domains.get(host)

    def key(self, value: str) -> ApiKey | None:
        """Return the API key of that value, None where there is none."""
        return self.cache.keys.get(key_digest(value, self.key_salt))

    def note_use(self, key: ApiKey, now_ms: int) -> None:
        """Record that a key was used; written once a minute."""
        self._used_keys[key.number] = now_ms

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
            version, cache = await self._database.writer.run(
                lambda connection: registry_if_changed(connection, self._data_version, month)
            )
            if cache is not None and self.others_wrote is not None:
                await self.others_wrote()
        except sqlite3.Error as failure:
            self._database.health.failed_to_read(failure)
            raise refusal(failure, "reading websites and keys") from None
        # A change made here meanwhile is newer than what was read; the next refresh then reads both.
        if cache is not None and changes == self._changes_here:
            self._data_version, self.cache = version, cache
            self.changes_elsewhere += 1

    async def lookup(
        self, step: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a function that reads returns, called with a connection and arguments. Raises ApiError 503."""
        return await self._database.read(lambda connection: step(connection, *args, **kwargs))

    async def change(
        self, step: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a function that writes returns, called with a connection and arguments in one transaction.

        The change takes effect at once. Raises ApiError 503; where the change could not be copied elsewhere in time, it
        has taken effect nevertheless.
        """
        database, month = self._database, month_of(self._clock.wall_ms())
        elsewhere = self.elsewhere

        def do(connection: sqlite3.Connection) -> tuple[T, AccountCache, bool]:
            with transaction(connection):
                before = elsewhere.state(connection) if elsewhere else b""
                result = step(connection, *args, **kwargs)
                is_to_copy = elsewhere is not None and elsewhere.state(connection) != before
                if elsewhere is not None and is_to_copy:
                    elsewhere.check()
            database.health.files.check_database()
            database.health.files.check_log()
            return result, registry(connection, month), is_to_copy

        if database.is_closing:
            raise ApiError(STORAGE_UNAVAILABLE, retry_after_s=RETRY_S)
        database.health.refuse()
        with database.reporting("an owner's change"):
            result, self.cache, is_to_copy = await database.writer.run(do)
        self._changes_here += 1
        if elsewhere is not None and is_to_copy:
            await elsewhere.copy()
        return result

    async def write_key_uses(self, is_last: bool = False) -> None:
        """Write when keys were used last, once a minute or where `is_last`. Raises sqlite3.Error."""
        now_ns = self._clock.monotonic_ns()
        if self._used_keys and (is_last or now_ns - self._noted_ns >= NOTE_USE_NS):
            used, self._used_keys, self._noted_ns = self._used_keys, {}, now_ns
            await self._database.write(partial(record_key_use, used=[(ms, key) for key, ms in used.items()]))

    def used(self, account: int, now_ms: int) -> int:
        """Return the events that an account has used this month."""
        return self.cache.usage.get((account, month_of(now_ms)), 0)

    def count_usage(self, used: Mapping[tuple[int, int], int]) -> None:
        """Take over the events that each (account, month) has used after a commit.

        Logs that an account has used a share of its month's events, once, when a commit passes the mark.
        """
        for account, events in used.items():
            owner = self.cache.accounts.get(account[0])
            limit = None if owner is None else self.event_limit(owner.plan)
            if limit is None:
                continue
            before = self.cache.usage.get(account, 0)
            for percent in USAGE_WARNINGS:
                if before * 100 < percent * limit <= events * 100:
                    log.warning("account %d has used %d percent of its month's %d events", account[0], percent, limit)
        self.cache.usage.update(used)

    def accounts_past(self, percent: int, now_ms: int) -> int:
        """Return how many accounts have used at least so many percent of their month's events."""
        limits = [(self.event_limit(account.plan), number) for number, account in self.cache.accounts.items()]
        return sum(limit is not None and self.used(number, now_ms) * 100 >= percent * limit for limit, number in limits)

    def _forget_data_version(self) -> None:
        """Discard the known data_version: it belongs to the writer's previous connection."""
        self._data_version = -1
