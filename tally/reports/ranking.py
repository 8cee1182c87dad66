"""The first rows of a list by rank, of the sums of its days.

Ties are decided by text, so labels are resolved before a list is cut, but only those that may be in it. The sums are
arrays (tally/reports/sums.py), in which the last row of the list is found without sorting the others.
"""

import sqlite3
from collections.abc import Sequence
from heapq import nsmallest
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from tally.reports.sums import rows_of
from tally.storage.sql import events as sql

if TYPE_CHECKING:
    from tally.columns.format import Array

# 8 MB if all of them have the maximum length.
_TEXTS_AT_ONCE = 1_000


class Ranked(NamedTuple):
    """A row of a list; `value` is the label of its text."""

    value: int
    text: str
    figures: tuple[int, ...]


class Ranking(NamedTuple):
    """The first rows of a list, and the figures of the unset value."""

    unset: tuple[int, ...]
    rows: list[Ranked]


def first(connection: sqlite3.Connection, counts: "Array", limit: int, ranks: int) -> Ranking:
    """Return the first `limit` rows by their first `ranks` figures, all descending, then by text."""
    import numpy as np

    unset = counts[1:, counts[0] == 0].sum(axis=1)
    rows = counts[:, counts[0] != 0]
    if 0 < limit < rows.shape[1]:
        # Most rows are behind the last one by their first figure.
        rows = rows[:, rows[1] >= np.partition(rows[1], -limit)[-limit]]
    by_rank = np.lexsort(rows[ranks:0:-1])[::-1]
    is_tied = np.zeros(rows.shape[1], bool)
    if len(by_rank) > limit:
        last = rows[1 : 1 + ranks, by_rank[limit - 1 : limit]]
        is_tied = (rows[1 : 1 + ranks] == last).all(axis=0)
    chosen = [place for place in by_rank[:limit].tolist() if not is_tied[place]]
    # Ties with the last row are decided by text, in batches: there may be a million of them.
    tied: list[Ranked] = []
    places = np.flatnonzero(is_tied)
    left = limit - len(chosen)
    for start in range(0, len(places), _TEXTS_AT_ONCE):
        some = list(rows_of(rows[:, places[start : start + _TEXTS_AT_ONCE]]))
        tied = nsmallest(left, chain(tied, _first_named(connection, some, left)), key=itemgetter(1))
    named = sorted([*_named(connection, list(rows_of(rows[:, chosen]))), *tied], key=itemgetter(1))
    # The sort is stable: rows of equal rank stay ordered by text.
    return Ranking(tuple(unset.tolist()), sorted(named, key=lambda row: row.figures[:ranks], reverse=True))


def _named(connection: sqlite3.Connection, rows: Sequence[tuple[int, ...]]) -> list[Ranked]:
    texts = dict(connection.execute(*sql.texts([row[0] for row in rows])).fetchall())
    return [Ranked(value, texts[value], tuple(figures)) for value, *figures in rows]


def _first_named(connection: sqlite3.Connection, rows: Sequence[tuple[int, ...]], limit: int) -> list[Ranked]:
    """Return the first rows by text. SQLite sorts: a row of Python for each of a million ties takes 3 µs."""
    figures = {row[0]: row[1:] for row in rows}
    named = connection.execute(*sql.first_texts(list(figures), limit)).fetchall()
    return [Ranked(value, text, figures[value]) for value, text in named]
