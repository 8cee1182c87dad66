"""What lists have in common: figures by label, added up piece by piece, and the first few of them by rank.

Texts decide among what ranks alike, so labels become texts before the list is cut: for those alone that may be in it.
Figures come from whole days, parts of days and blocks of them; whoever adds them up sees to it that no piece is twice.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from heapq import nsmallest

from tally import queries

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


def first(connection: sqlite3.Connection, counts: Counts, limit: int, ranks: int) -> list[tuple[str, tuple[int, ...]]]:
    """The first `limit` as (text, figures) by their first `ranks` figures, all descending, then by text."""

    def rank(figures: Sequence[int]) -> tuple[int, ...]:
        return tuple(-number for number in figures[:ranks])

    chosen = counts
    if len(counts) > limit:
        last = nsmallest(limit, map(rank, counts.values()))[-1]
        # Those that tie with the last one too: texts decide among them.
        chosen = {value: figures for value, figures in counts.items() if rank(figures) <= last}
    texts = dict(connection.execute(*queries.texts(list(chosen))).fetchall())
    rows = [(texts[value], tuple(figures)) for value, figures in chosen.items()]
    return sorted(rows, key=lambda row: (*rank(row[1]), row[0]))[:limit]
