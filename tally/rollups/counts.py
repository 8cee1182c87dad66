"""Figures by label, added up row by row: the dictionaries in which rollups and lists count.

`Counts` maps the number of a label to its figures; `merge` adds rows to it.
The order of the figures is that of the statement that read them.
"""

from collections.abc import Iterable, Sequence

Counts = dict[int, list[int]]
"""label -> figures, those that rank it first."""


def merge(counts: Counts, rows: Iterable[Sequence[int]]) -> None:
    """Adds rows (label, figures)."""
    for value, *figures in rows:
        row = counts.get(value)
        if row is None:
            counts[value] = figures
        else:
            for place, number in enumerate(figures):
                row[place] += number
