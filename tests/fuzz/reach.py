"""Records which lines of tally/ an input reaches, so that only inputs that reach new lines are added to a corpus."""

import sys
from types import FrameType
from typing import Any

from tests.fuzz.targets import TARGETS

Line = tuple[str, int, int]


def reached(name: str, data: bytes) -> set[Line]:
    """Return the pairs of consecutive lines in files of tally/, as (file, from, to)."""
    found: set[Line] = set()
    before: dict[int, int] = {}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        path = frame.f_code.co_filename
        if "/tally/" not in path:
            return None
        if event == "line":
            found.add((path, before.get(id(frame), 0), frame.f_lineno))
            before[id(frame)] = frame.f_lineno
        return trace

    sys.settrace(trace)
    try:
        TARGETS[name](data)
    finally:
        sys.settrace(None)
    return found
