"""Watch the system clock: log jumps, and record in the database what the next start needs.

tally/clock.py decides which time is used. This class makes it check once a second, logs the result at most once a
minute, and writes the record every ten minutes, after a jump, and at shutdown. Where the file cannot be written, the
record is tried again later.

Which forwarded headers arrived (tally/events/sender.py) is recorded with it, for `doctor`.
"""

import sqlite3
from collections.abc import Callable
from typing import Any

from tally.clock import CONFIRMED_AFTER_MS, MAX_STEP_MS, MAX_TRUSTED_STOP_MS, Clock
from tally.errors import log
from tally.storage import meta
from tally.storage.connections import Thread
from tally.storage.database import transaction
from tally.timestamps import HOUR_MS, in_words

# A killed server loses at most this much of its record, far less than a gap that is accepted at once.
NOTE_NS = 600_000_000_000
_MINUTE_NS = 60_000_000_000
HELD = f"{CONFIRMED_AFTER_MS // HOUR_MS} hours"


class ClockWatch:
    """Used by the event loop alone. `proxies` returns what is recorded about forwarded headers."""

    def __init__(self, clock: Clock, writer: Thread) -> None:
        self._clock, self._writer = clock, writer
        self.proxies: Callable[[], Any] = lambda: None
        self._noted_ns = clock.monotonic_ns() - NOTE_NS
        self._warned_ns = clock.monotonic_ns() - _MINUTE_NS
        self._noted_proxies: Any = None
        self._is_away = False

    async def begin(self) -> None:
        """Continue from the record in the file. Raises sqlite3.Error."""
        noted = await self._writer.run(meta.clock_state)
        if noted is None:
            return
        self._clock.resume(noted)
        self._is_away = abs(self._clock.ahead_ms) > MAX_STEP_MS
        if self._is_away:
            log.warning(
                "the system's clock is %s before the last note in the database: if it is wrong, set it right",
                in_words(self._clock.ahead_ms),
            )
        elif self._clock.unconfirmed_ms > MAX_TRUSTED_STOP_MS:
            log.info(
                "the last note in the database is %s old: nothing is deleted by the new time until it has held for %s",
                in_words(self._clock.unconfirmed_ms),
                HELD,
            )

    def check(self, now_ms: int) -> None:
        """Check the clock; call every second."""
        clock, before_ms = self._clock, self._clock.ahead_ms
        has_jumped = clock.check()
        is_away = abs(clock.ahead_ms) > MAX_STEP_MS
        if has_jumped:
            self._noted_ns -= NOTE_NS
            now_ns = clock.monotonic_ns()
            if is_away and now_ns - self._warned_ns >= _MINUTE_NS:
                self._warned_ns = now_ns
                log.warning(
                    "the system's clock was set %s by %s: events are dated by it, and nothing is deleted by it until it"
                    " has held for %s; if it is wrong, set it right",
                    "forward" if clock.ahead_ms > 0 else "back",
                    in_words(clock.ahead_ms),
                    HELD,
                )
        if self._is_away and not is_away:
            is_back = abs(before_ms) <= MAX_STEP_MS
            log.info("the system's clock is %s", "back" if is_back else f"accepted after {HELD} without a change")
        self._is_away = is_away

    async def note_if_due(self) -> None:
        """Write the record when it is due; call every second."""
        proxies = self.proxies()
        if self._clock.monotonic_ns() - self._noted_ns >= NOTE_NS or proxies != self._noted_proxies:
            self._noted_ns, self._noted_proxies = self._clock.monotonic_ns(), proxies
            await self.note()

    async def note(self) -> None:
        """Write the record for the next start, if the file can be written."""
        noted, proxies = self._clock.state(), self.proxies()

        def write(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                meta.write(connection, meta.CLOCK, list(noted))
                meta.write(connection, meta.PROXIES, proxies)

        try:
            await self._writer.run(write)
        except sqlite3.Error:
            # The store reports the failure, and when it is over.
            self._noted_ns -= NOTE_NS - _MINUTE_NS
