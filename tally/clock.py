"""What time it is: the only room that asks the system.

Two clocks, never mixed: `wall_ms` dates events (it may jump when the system's time is set), `monotonic_ns` measures
waiting and refills token buckets (it never goes back). Whoever needs the time is handed a Clock, so that a test can
hand over one it sets itself.
"""

import time


class Clock:
    """The system's clocks."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00Z."""
        return time.time_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        """Nanoseconds since some moment that does not change while the process lives."""
        return time.monotonic_ns()
