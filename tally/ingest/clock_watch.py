"""Watches the system's clock for the store: says when it jumped, and notes in the file what the next start must know.

tally/clock.py decides what is believed; this room tells it once a second to look, logs what it found, once a minute at
the most, and writes its note every ten minutes, after a jump, and at the end. A file that takes no note, full or
damaged, costs nothing but the note: it is tried again.

Which forwarded headers came from where (tally/events/sender.py) is noted along with it, for `doctor`.
"""

import sqlite3
from collections.abc import Callable
from typing import Any

from tally.clock import CONFIRMED_AFTER_MS, MAX_STEP_MS, MAX_TRUSTED_STOP_MS, Clock
from tally.errors import log
from tally.storage import meta as notes
from tally.storage.connections import Thread
from tally.storage.database import transaction
from tally.timestamps import HOUR_MS, in_words

# our choice: a killed server loses no more than this of its note, far less than a stop that is believed at once.
NOTE_NS = 600_000_000_000
_MINUTE_NS = 60_000_000_000
HELD = f"{CONFIRMED_AFTER_MS // HOUR_MS} hours"


class ClockWatch:
    """Used by the event loop alone. `proxies` gives what is to be noted of forwarded headers."""

    def __init__(self, clock: Clock, writer: Thread) -> None:
        self._clock, self._writer = clock, writer
        self.proxies: Callable[[], Any] = lambda: None
        self._noted_ns = clock.monotonic_ns() - NOTE_NS
        self._warned_ns = clock.monotonic_ns() - _MINUTE_NS
        self._noted_proxies: Any = None
        self._is_away = False

    async def begin(self) -> None:
        """Goes on from the file's note. Raises sqlite3.Error."""
        noted = await self._writer.run(notes.clock_state)
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

    def look(self, now_ms: int) -> None:
        """To be called every second."""
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
            log.info("the system's clock is %s", "back" if is_back else f"believed: it has held for {HELD}")
        self._is_away = is_away

    async def note_if_due(self) -> None:
        """Write a note when one is due; to be called every second."""
        proxies = self.proxies()
        if self._clock.monotonic_ns() - self._noted_ns >= NOTE_NS or proxies != self._noted_proxies:
            self._noted_ns, self._noted_proxies = self._clock.monotonic_ns(), proxies
            await self.note()

    async def note(self) -> None:
        """Writes down what the next start is to know, if the file takes it."""
        noted, proxies = self._clock.state(), self.proxies()

        def write(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                notes.write(connection, notes.CLOCK, list(noted))
                notes.write(connection, notes.PROXIES, proxies)

        try:
            await self._writer.run(write)
        except sqlite3.Error:
            # The store says so, and finds out when it is over.
            self._noted_ns -= NOTE_NS - _MINUTE_NS
