"""What time it is: the only room that asks the system.

Two clocks, never mixed: `wall_ms` dates events (it may jump when the system's time is set), `monotonic_ns` measures
waiting and refills token buckets (it never goes back). Whoever needs the time is handed a Clock, so that a test can
hand over one it sets itself.

What is deleted is gone for good, so deletions do not believe the wall at once. Two more times are made of the two:
- `steady_ms` goes on by the monotonic clock from where the wall stood at the start, whatever is done to the wall. When
  the wall has stood elsewhere for HELD_MS of running, within STEP_MS, it goes on from there. It stamps what is compared
  with later: logins, event_ids.
- `sure_ms` is the earlier of wall and steady; what is older by it may be deleted. After a start it also stays behind by
  how long the server seems to have been off (`owed_ms`), until the clock has held: a server that was off for days and a
  clock that is days ahead look the same from inside.

`look`, once a second, notices jumps. `note` is what the file is to remember of all this, `go_on` takes it up again.
"""

import time
from typing import NamedTuple

from tally.timestamps import HOUR_MS

# our choice: a day is long enough for somebody to see wrong dates, and short enough to keep what would have gone.
HELD_MS = 24 * HOUR_MS
# our choice, as far ahead as a client's clock may be; a jump within it is as good as none.
STEP_MS = 5 * 60_000
# our choice: an update and a restart take less; so long a stop is believed at once.
STOP_MS = HOUR_MS


class Note(NamedTuple):
    """What a clock knew when the file was told last; a start goes on from it. All in milliseconds."""

    steady_ms: int
    lead_ms: int
    owed_ms: int
    held_ms: int


class Clock:
    """The system's clocks. Used by the event loop; other threads may only ask for the time."""

    def __init__(self) -> None:
        # How far the wall is ahead of the monotonic clock: as believed, and where it stands since when.
        self._offset_ms = self._stands_ms = self.wall_ms() - self._run_ms()
        self._since_ms = self._run_ms()
        self._is_held = True
        self.owed_ms = 0

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00Z."""
        return time.time_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        """Nanoseconds since some moment that does not change while the process lives."""
        return time.monotonic_ns()

    def _run_ms(self) -> int:
        return self.monotonic_ns() // 1_000_000

    def steady_ms(self) -> int:
        """The time as the wall had it before it jumped."""
        return self._run_ms() + self._offset_ms

    def sure_ms(self) -> int:
        """The time that deletions may believe: never later than any other."""
        return min(self.wall_ms(), self.steady_ms() - self.owed_ms)

    @property
    def lead_ms(self) -> int:
        """How far the wall is ahead of what is steady; below 0 where it was set back."""
        return self.wall_ms() - self.steady_ms()

    def doubt_ms(self, wall_ms: int, monotonic_ns: int) -> int:
        """The lead at a moment where it is more than a small one, else 0; 0.1 µs, for every request."""
        lead_ms = wall_ms - monotonic_ns // 1_000_000 - self._offset_ms
        return lead_ms if lead_ms > STEP_MS or lead_ms < -STEP_MS else 0

    def look(self) -> bool:
        """Notices what was done to the wall; to be called about once a second. Whether it jumped meanwhile."""
        run_ms = self._run_ms()
        stands_ms = self.wall_ms() - run_ms
        has_jumped = abs(stands_ms - self._stands_ms) > STEP_MS
        if has_jumped:
            self._stands_ms, self._since_ms, self._is_held = stands_ms, run_ms, False
        elif run_ms - self._since_ms >= HELD_MS:
            # Measured anew from here: many small steps are not to walk away with the time within a day.
            self._stands_ms, self._since_ms, self._is_held = stands_ms, run_ms, True
            self.owed_ms = 0
        if self._is_held:
            self._offset_ms = stands_ms
        return has_jumped

    def note(self) -> Note:
        """What the next start is to know."""
        return Note(self.steady_ms(), self.lead_ms, self.owed_ms, self._run_ms() - self._since_ms)

    def go_on(self, noted: Note) -> None:
        """Takes up what the file remembers of the process before this one; to be called once, at the start."""
        run_ms, off_ms = self._run_ms(), self.wall_ms() - noted.steady_ms
        was_unsure = noted.owed_ms > 0 or abs(noted.lead_ms) > STEP_MS
        if off_ms < -STEP_MS:
            # Time does not go back: what was stamped before is not to look as if it were of tomorrow.
            self._offset_ms, self._is_held = noted.steady_ms - run_ms, False
            self.owed_ms = noted.owed_ms
        elif was_unsure or off_ms > STOP_MS:
            self.owed_ms = noted.owed_ms + max(0, off_ms)
        # A machine that is switched off every night confirms its clock over some days.
        if was_unsure and abs(off_ms - noted.lead_ms) <= HELD_MS:
            self._since_ms = run_ms - min(noted.held_ms, HELD_MS)
