"""A log that says the same thing once a minute, and then how often.

A disk that fails makes every request and every chore say so; written down each time, that would fill the disk as well,
and hide what else happens. `Repeats` lets a line through once, leaves its repetitions out for a minute, and tells their
number with the next one. Lines are compared as they read; they hold nothing of what was sent, so there are few.
"""

import logging
import time
from collections.abc import Callable

# our choice: often enough to see in a log that something goes on.
PAUSE_S = 60.0
# our choice: more different lines in a minute than the code has places that log.
MOST_LINES = 200


class Repeats(logging.Filter):
    """Leaves out what was said less than a minute ago. `now_s` is a clock that never goes back; `of` gives
    what is compared of a line."""

    def __init__(
        self,
        now_s: Callable[[], float] = time.monotonic,
        of: Callable[[logging.LogRecord], str] = logging.LogRecord.getMessage,
    ) -> None:
        super().__init__()
        self._now_s, self._of = now_s, of
        # By line: until when it is left out, and how often it was.
        self._said: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is to be written."""
        line, now_s = self._of(record), self._now_s()
        until_s, times = self._said.get(line, (now_s, 0))
        if now_s < until_s:
            self._said[line] = until_s, times + 1
            return False
        if times:
            record.msg, record.args = "%s (and %d times more since)", (record.getMessage(), times)
        if len(self._said) >= MOST_LINES:
            self._said.clear()
        self._said[line] = now_s + PAUSE_S, 0
        return True
