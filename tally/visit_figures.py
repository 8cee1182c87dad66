"""Entry and exit pages: how many visits begin, or end, with each page, and what became of them.

A visit counts as it does in the key figures: it belongs to the range it begins in and, where there are filters, needs
an event in E; its views and its length are those of its whole life, and so are its first and its last view.

Two ways to find a day's pages, of which the cheaper is chosen: a look for each visit, or one walk over all views. Looks
pass over what others do meanwhile; only where visits hold custom events before the first or behind the last view is
that much, which the length of such visits bounds. Sums over complete days are remembered, as in tally/toplists.py.
"""

import sqlite3
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tally import visiting
from tally.ground import Ground, Span, ground_of, parts_of
from tally.queries import Scope
from tally.ranking import Counts, first, merge
from tally.remembered import Remembered, packed, unpacked
from tally.sessions import DAY_MS

# our choice: with so many visits of views and custom events at once, a walk over all views (0.5 µs each) is cheaper.
_CROWD = 20


class Page(NamedTuple):
    """A page that visits begin or end with, or none: ''."""

    value: str
    visits: int
    bounces: int
    views: int
    ms: int


def pages(
    connection: sqlite3.Connection, scope: Scope, side: str, limit: int, remembered: Remembered
) -> tuple[int, list[Page]]:
    """How many visits have no view, and the first `limit` pages of the others by visits and text."""
    ground = ground_of(connection, scope)
    parts = parts_of(ground)
    whole, rest = _complete(ground, parts.rolled)
    counts: Counts = {}
    if whole:
        merge(counts, _remembered(ground, side, whole, remembered, filtered=False))
    final = [span for span in parts.raw if ground.final(span)]
    if final:
        merge(counts, _remembered(ground, side, final, remembered, filtered=True))
    for span in rest:
        merge(counts, _raw(ground, side, span, filtered=False))
    for span in parts.raw:
        if span not in final:
            merge(counts, _raw(ground, side, span, filtered=True))
    unset = counts.pop(0, [0])[0]
    return unset, [Page(text, *figures) for text, figures in first(connection, counts, limit, ranks=1)]


def _complete(ground: Ground, stretches: Iterable[Span]) -> tuple[list[Span], list[Span]]:
    """The days of some stretches that are whole and cannot change but with their version, and the rest."""
    whole: list[Span] = []
    rest: list[Span] = []
    for stretch in stretches:
        for day, known in ground.known.days.items():
            span = (max(stretch[0], day * DAY_MS), min(stretch[1], (day + 1) * DAY_MS))
            if span[0] < span[1]:
                is_whole = span[1] - span[0] == DAY_MS == known.folded_ms - day * DAY_MS
                (whole if is_whole else rest).append(span)
    return whole, rest


def _remembered(
    ground: Ground, side: str, spans: Sequence[Span], remembered: Remembered, filtered: bool
) -> Iterable[tuple[int, ...]]:
    """The sums over whole days; remembered under each of them with its version."""
    versions = array("q")
    for begin_ms, _ in spans:
        versions.extend((begin_ms, ground.known.days[begin_ms // DAY_MS].version))
    key = ("pages", ground.website, side, ground.scope.filters if filtered else (), versions.tobytes())

    def count() -> "array[int]":
        counts: Counts = {}
        for span in spans:
            merge(counts, _raw(ground, side, span, filtered))
        return packed([(value, *figures) for value, figures in counts.items()])

    return unpacked(remembered.find(key, count), 5)


def _raw(ground: Ground, side: str, span: Span, filtered: bool) -> Iterable[Sequence[int]]:
    """The pages of a day, or of a part of one, from its visits and events."""
    return counted(ground.connection, ground.raw(span, filtered), side)


def counted(connection: sqlite3.Connection, scope: Scope, side: str) -> Iterable[Sequence[int]]:
    """(label, visits, bounces, views, ms) of the pages of a part of one UTC day; 0 is no view."""
    mixed_ms = connection.execute(*visiting.mixed_ms(scope)).fetchone()[0]
    if mixed_ms <= _CROWD * (scope.to_ms - scope.from_ms):
        return connection.execute(*visiting.pages(scope, side)).fetchall()
    end_ms = -(-scope.to_ms // DAY_MS) * DAY_MS
    page_of: dict[tuple[int, int], int] = {}
    for visitor, visit, page in connection.execute(*visiting.views(scope.website, scope.from_ms, end_ms, side)):
        page_of.setdefault((visitor, visit), page)
    counts: Counts = {}
    rows = connection.execute(*visiting.visits(scope))
    merge(counts, ((page_of.get((visitor, visit), 0), 1, *rest) for visitor, visit, *rest in rows))
    return [(value, *figures) for value, figures in counts.items()]
