"""Counts by label: the dictionary in which blocks of entry and exit pages are summed.

`Counts` maps a label to its counts, in the order of the columns of the statement that reads them; `merge` adds rows to
it. A dictionary of lists is the fastest structure for this in Python.
"""

from collections.abc import Iterable, Sequence

Counts = dict[int, list[int]]
"""label -> counts; those that rank the label come first."""


def merge(counts: Counts, rows: Iterable[Sequence[int]]) -> None:
    """Add rows (label, counts ...)."""
    for value, *figures in rows:
        row = counts.get(value)
        if row is None:
            counts[value] = figures
        else:
            for place, number in enumerate(figures):
                row[place] += number
