"""Which lines of the product an input reaches, so that a corpus holds only what adds to it."""

import sys
from types import FrameType
from typing import Any

from tests.fuzz.targets import TARGETS

Line = tuple[str, int, int]


def reached(name: str, data: bytes) -> set[Line]:
    """Pairs of lines that follow one another in files of tally/, as (file, from, to)."""
    found: set[Line] = set()
    before: dict[int, int] = {}

    def look(frame: FrameType, event: str, argument: Any) -> Any:
        path = frame.f_code.co_filename
        if "/tally/" not in path:
            return None
        if event == "line":
            found.add((path, before.get(id(frame), 0), frame.f_lineno))
            before[id(frame)] = frame.f_lineno
        return look

    sys.settrace(look)
    try:
        TARGETS[name](data)
    finally:
        sys.settrace(None)
    return found
