"""The clocks of the process: the only module that reads the system's time.

Two clocks, never mixed: `wall_ms` dates events (it jumps when the system's time is set), `monotonic_ns` measures
durations and refills token buckets (it never goes back). A Clock is passed to everything that needs the time, so that
tests can set it.

Deletions cannot be undone, so they do not trust the wall clock alone. Two more times are derived from the two clocks:
- `monotonic_wall_ms` continues by the monotonic clock from the wall time at the start, whatever is done to the wall
  clock. After the wall clock has stood elsewhere for CONFIRMED_AFTER_MS of running, within MAX_STEP_MS, it continues
  from there. It stamps what is compared later: logins, event_ids.
- `deletion_time_ms` is the earlier of the wall clock and `monotonic_wall_ms`; what has expired by it may be deleted.
  After a start it is also late by the time that the server seems to have been off (`unconfirmed_ms`), until the clock
  is confirmed: a server that was off for days and a clock that is days ahead cannot be distinguished from inside.

`check`, called once a second, detects jumps. `state` is what the database file stores of this, `resume` restores it.
"""

import time
from typing import NamedTuple

from tally.timestamps import HOUR_MS

# Long enough for the owner to notice wrong dates, short enough that expired data is deleted within a day.
CONFIRMED_AFTER_MS = 24 * HOUR_MS
# As far as a client's clock may be ahead (docs/reference/collect-api.md); smaller jumps are ignored.
MAX_STEP_MS = 5 * 60_000
# An update and a restart take less: the clock is trusted at once after a stop of at most this length.
MAX_TRUSTED_STOP_MS = HOUR_MS


class ClockState(NamedTuple):
    """The state of a clock as stored in the database file, in milliseconds; the next start resumes from it."""

    monotonic_wall_ms: int
    ahead_ms: int
    unconfirmed_ms: int
    confirmed_ms: int


class Clock:
    """The system's clocks. Belongs to the event loop; other threads may only read the time."""

    def __init__(self) -> None:
        # Wall clock minus monotonic clock: as trusted, as last measured, and since when it has stood there.
        self._offset_ms = self._measured_ms = self.wall_ms() - self._monotonic_ms()
        self._measured_since_ms = self._monotonic_ms()
        self._is_confirmed = True
        self.unconfirmed_ms = 0

    def wall_ms(self) -> int:
        """Return the wall time in milliseconds since 1970-01-01T00:00Z."""
        return time.time_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        """Return nanoseconds since a moment that is fixed while the process runs."""
        return time.monotonic_ns()

    def _monotonic_ms(self) -> int:
        return self.monotonic_ns() // 1_000_000

    def monotonic_wall_ms(self) -> int:
        """Return the time as the wall clock showed it before it jumped."""
        return self._monotonic_ms() + self._offset_ms

    def deletion_time_ms(self) -> int:
        """Return the time by which data may be deleted: never later than any other."""
        return min(self.wall_ms(), self.monotonic_wall_ms() - self.unconfirmed_ms)

    @property
    def ahead_ms(self) -> int:
        """Wall clock minus `monotonic_wall_ms`; negative after the wall clock was set back."""
        return self.wall_ms() - self.monotonic_wall_ms()

    def large_skew_ms(self, wall_ms: int, monotonic_ns: int) -> int:
        """Return `ahead_ms` at a moment if it exceeds MAX_STEP_MS, else 0. Costs 0.1 µs; called for every request."""
        ahead_ms = wall_ms - monotonic_ns // 1_000_000 - self._offset_ms
        return ahead_ms if ahead_ms > MAX_STEP_MS or ahead_ms < -MAX_STEP_MS else 0

    def check(self) -> bool:
        """Measure the wall clock and return whether it has jumped. To be called about once a second."""
        monotonic_ms = self._monotonic_ms()
        measured_ms = self.wall_ms() - monotonic_ms
        has_jumped = abs(measured_ms - self._measured_ms) > MAX_STEP_MS
        if has_jumped:
            self._measured_ms, self._measured_since_ms, self._is_confirmed = measured_ms, monotonic_ms, False
        elif monotonic_ms - self._measured_since_ms >= CONFIRMED_AFTER_MS:
            # Measured anew from here, so that many small steps cannot add up within a day.
            self._measured_ms, self._measured_since_ms, self._is_confirmed = measured_ms, monotonic_ms, True
            self.unconfirmed_ms = 0
        if self._is_confirmed:
            self._offset_ms = measured_ms
        return has_jumped

    def state(self) -> ClockState:
        """Return what the next start needs."""
        confirmed_ms = self._monotonic_ms() - self._measured_since_ms
        return ClockState(self.monotonic_wall_ms(), self.ahead_ms, self.unconfirmed_ms, confirmed_ms)

    def resume(self, stored: ClockState) -> None:
        """Restore the state of the previous process. To be called once, at the start."""
        monotonic_ms, off_ms = self._monotonic_ms(), self.wall_ms() - stored.monotonic_wall_ms
        was_unconfirmed = stored.unconfirmed_ms > 0 or abs(stored.ahead_ms) > MAX_STEP_MS
        if off_ms < -MAX_STEP_MS:
            # Time does not go back: earlier stamps must not appear to lie in the future.
            self._offset_ms, self._is_confirmed = stored.monotonic_wall_ms - monotonic_ms, False
            self.unconfirmed_ms = stored.unconfirmed_ms
        elif was_unconfirmed or off_ms > MAX_TRUSTED_STOP_MS:
            self.unconfirmed_ms = stored.unconfirmed_ms + max(0, off_ms)
        # A machine that is switched off every night confirms its clock over several days.
        if was_unconfirmed and abs(off_ms - stored.ahead_ms) <= CONFIRMED_AFTER_MS:
            self._measured_since_ms = monotonic_ms - min(stored.confirmed_ms, CONFIRMED_AFTER_MS)
