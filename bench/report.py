"""The output of the benchmark: messages to standard error, and one table at the end to standard output.

A row has what was measured, the baseline, their ratio and the target. A part that could not be measured has the row
NOT MEASURED.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

HEAD = ("part", "what", "measured", "baseline", "ratio", "target", "met")
# For rows without a target.
NO_TARGET = ""


class Row(NamedTuple):
    """One row of the table. `met` is whether the target is met, None without a target or a measurement."""

    part: str
    what: str
    measured: str
    baseline: str = ""
    ratio: str = ""
    target: str = NO_TARGET
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """Return the cells as texts."""
        text = {True: "yes", False: "**MISSED**", None: ""}[self.met]
        return (*self[:6], text)


def missing(part: str, why: str) -> Row:
    """Return the row of something that was not measured."""
    return Row(part, why, "**NOT MEASURED**")


def progress(message: str) -> None:
    """Print a message and the time to standard error."""
    print(f"[{time.strftime('%H:%M:%S')}] {message}", file=sys.stderr, flush=True)


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table with aligned columns."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(HEAD))]
    rule = ["-" * width for width in widths]
    return "\n".join("| " + " | ".join(_padded(line, widths)) + " |" for line in (HEAD, rule, *lines[1:]))


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [text.ljust(width) for text, width in zip(line, widths, strict=True)]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile `share` (0 to 1) of the values; of few values the largest."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def ms(seconds: float) -> str:
    """Return a duration in milliseconds as text."""
    return f"{seconds * 1000:,.{0 if seconds >= 0.1 or seconds * 1000 % 1 == 0 else 1}f} ms"
