"""What the benchmark says: words on the way to standard error, one table at the end to standard output.

A row is one target with what was measured, the floor beside it and their ratio. A part that could not be measured has
a row too, which says so: a table without it would look better than the product is.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

HEAD = ("part", "what", "measured", "floor", "ratio", "target", "met")
# Measured, but nothing was promised.
NO_TARGET = ""


class Row(NamedTuple):
    """One line of the table. `met`: whether it meets its target; None where there is none or it was not measured."""

    part: str
    what: str
    measured: str
    floor: str = ""
    ratio: str = ""
    target: str = NO_TARGET
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """The row as texts."""
        verdict = {True: "yes", False: "**MISSED**", None: ""}[self.met]
        return (*self[:6], verdict)


def missing(part: str, why: str) -> Row:
    """The row of something that was not measured, in capitals, so that nobody overlooks it."""
    return Row(part, why, "**NOT MEASURED**")


def say(words: str) -> None:
    """Tells whoever waits what is being done."""
    print(f"[{time.strftime('%H:%M:%S')}] {words}", file=sys.stderr, flush=True)


def table(rows: Iterable[Row]) -> str:
    """The rows as a markdown table, columns aligned."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(HEAD))]
    rule = ["-" * width for width in widths]
    return "\n".join("| " + " | ".join(_padded(line, widths)) + " |" for line in (HEAD, rule, *lines[1:]))


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [text.ljust(width) for text, width in zip(line, widths, strict=True)]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies; the slowest of few."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def ms(seconds: float) -> str:
    """A duration as people read it, in milliseconds."""
    return f"{seconds * 1000:,.{0 if seconds >= 0.1 or seconds * 1000 % 1 == 0 else 1}f} ms"
