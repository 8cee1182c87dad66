"""Many rows in a few statements: parts of a few sizes, and the marks that stand for them.

A statement of many rows costs less than many of one, and lets go of the interpreter once instead of each time. sqlite3
keeps each prepared by its text, so its text must be the same each time: there are as many texts as sizes.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeVar

T = TypeVar("T")
# our choice: up to 40 rows are one statement or two.
_SIZES = (64, 48, 32, 24, 20, 16, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1)


def parts(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    """The rows in parts of at most 64."""
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


@cache
def marks(columns: int, rows: int) -> str:
    """`(?, ?), (?, ?)`: what stands for so many rows."""
    return ", ".join(["(" + ", ".join("?" * columns) + ")"] * rows)
