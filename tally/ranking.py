"""What lists have in common: figures by label, added up piece by piece, and the first few of them by rank.

Texts decide among what ranks alike, so labels become texts before the list is cut: for those alone that may be in it.
Figures come from whole days, parts of days and blocks of them; whoever adds them up sees to it that no piece is twice.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import chain
from typing import NamedTuple

from tally import queries

# our choice: 8 MB of the longest ones.
_TEXTS_AT_ONCE = 1_000

Counts = dict[int, list[int]]
"""label -> figures, those that rank it first."""


class Ranked(NamedTuple):
    """A row of a list; `value` is the label of its text."""

    value: int
    text: str
    figures: tuple[int, ...]


def merge(counts: Counts, rows: Iterable[Sequence[int]]) -> None:
    """Adds rows (label, figures)."""
    for value, *figures in rows:
        row = counts.get(value)
        if row is None:
            counts[value] = figures
        else:
            for place, number in enumerate(figures):
                row[place] += number


def first(connection: sqlite3.Connection, counts: Counts, limit: int, ranks: int) -> list[Ranked]:
    """The first `limit` by their first `ranks` figures, all descending, then by text."""

    def rank(figures: Sequence[int]) -> tuple[int, ...]:
        return tuple(-number for number in figures[:ranks])

    last = nsmallest(limit, map(rank, counts.values()))[-1] if len(counts) > limit else ()
    chosen = [value for value, figures in counts.items() if not last or rank(figures) < last]
    texts = dict(connection.execute(*queries.texts(chosen)).fetchall())
    rows = [Ranked(value, texts[value], tuple(counts[value])) for value in chosen]
    # Of those that tie with the last one texts decide, looked at some at a time: there may be a million.
    tied = [value for value, figures in counts.items() if last and rank(figures) == last]
    best: list[tuple[str, int]] = []
    for start in range(0, len(tied), _TEXTS_AT_ONCE):
        some = connection.execute(*queries.texts(tied[start : start + _TEXTS_AT_ONCE]))
        best = nsmallest(limit - len(rows), chain(best, ((text, value) for value, text in some)))
    rows += [Ranked(value, text, tuple(counts[value])) for text, value in best]
    return sorted(rows, key=lambda row: (*rank(row.figures), row.text))
