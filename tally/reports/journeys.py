"""Journeys: what visits do right after, or right before, a page or an event, step by step.

A visit is a sequence of steps: its pageviews with a path and its events with a name, by (timestamp, id); a step that
repeats the one before it, such as a reload, is one step with it. A journey begins at the first step of the visit that
is the chosen one, and follows up to MAX_STEPS steps from there on, or back from there. Counted are the visits that
begin in the range and, with filters, have an event in E; like funnels, over their whole lives.

A visit lies within a day, so days add up; they are counted by column (tally/reports/day_columns.py). Journeys are
arrays: a row of visits, and a row of codes for each step. They are needed twice, and what follows is cached for whole
days: the visits by step and code, of which the values with the most visits at each step are shown, and then the links
between these. All others count as one, so the answer is small. Memory is bounded: journeys are those of a batch of days
at a time, and are read again if they take more than MAX_KEPT_BYTES.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tally.engine.values import END, OTHER_STEPS, STEP_FIELDS, Direction, Link, Scope
from tally.engine.values import JourneyStep as Place
from tally.reports.cache import ResultCache
from tally.reports.coverage import coverage_of
from tally.reports.funnels import columns_of
from tally.reports.ranking import first
from tally.reports.sums import Sums
from tally.storage.sql import behaviour as sql

if TYPE_CHECKING:
    from tally.columns.format import Array

MAX_KEPT_BYTES = 6_000_000
# More than a step has places.
_NUMBERS = 1 << 12
Read = Callable[[], Iterable["Array"]]
"""Reads journeys as arrays: visits, and the code of each step; _END where a visit has no step."""
_END = 0


def journeys(
    connection: sqlite3.Connection,
    scope: Scope,
    start: tuple[str, str],
    direction: Direction,
    steps: int,
    limit: int,
    cache: ResultCache,
) -> list[Link]:
    """Return the links between the first `limit` steps at each distance from `start`. Raises BeyondRetention."""
    import numpy as np

    coverage = coverage_of(connection, scope, cache)
    days = columns_of(coverage, with_data=False)
    label = coverage.rows(sql.label(start[1]))
    if not label:
        return []
    chosen = sql.step_code(start[0], label[0][0])
    parts = [
        (day.key(start, direction, steps), _kept(partial(day.journeys, chosen, direction == "next", steps)))
        for day in days
    ]
    values = Sums(1)
    for key, read in parts:
        values.add_cached(cache, key and ("journeys", *key), partial(_add_values, read, steps))
    names = [_first(connection, _of_step(values, step, steps), limit) for step in range(steps)]
    codes = [np.array(sorted(step_names), np.int64) for step_names in names]
    links = Sums(1)
    for key, read in parts:
        name = key and ("journeys of", *key, *(step_codes.tobytes() for step_codes in codes))
        links.add_cached(cache, name, partial(_add_links, read, codes))
    # The places that a step's numbers stand for; before the first step there is one.
    numbered = [[Place(*start)]]
    for step_names, step_codes in zip(names, codes, strict=True):
        numbered.append([*map(step_names.__getitem__, step_codes.tolist()), OTHER_STEPS, END])
    counted = []
    for link, visits in links:
        (step, begin), end = divmod(link // _NUMBERS, _NUMBERS), link % _NUMBERS
        counted.append(Link(step + 1, numbered[step][begin], numbered[step + 1][end], visits))
    return sorted(counted, key=lambda link: (link.step, -link.visits, link.begin, link.end))


def _add_values(read: Read, steps: int, sums: Sums) -> None:
    """Add the visits of each code at each step, as the label code * steps + step."""
    for journeys in read():
        for step in range(steps):
            pairs = journeys[[1 + step, 0]].compress(journeys[1 + step] != _END, axis=1)
            pairs[0] = pairs[0] * steps + step
            sums.add(pairs)


def _of_step(values: Sums, step: int, steps: int) -> "Array":
    counts = values.counts
    counts = counts[:, counts[0] % steps == step]
    counts[0] //= steps
    return counts


def _add_links(read: Read, codes: "Sequence[Array]", sums: Sums) -> None:
    """Add the visits of each link from a place of a step to one of the next, as a label made of the three numbers.

    codes: of the places of each step; the numbers after these stand for all other places and for the end.
    """
    import numpy as np

    for journeys in read():
        before = np.zeros(journeys.shape[1], np.int64)
        for step, known in enumerate(codes):
            step_codes = journeys[1 + step]
            is_end, places = step_codes == _END, np.searchsorted(known, step_codes)
            is_known = np.append(known, -1).take(places) == step_codes
            after = np.where(is_known, places, len(known) + is_end)
            sums.add(np.array([(step * _NUMBERS + before) * _NUMBERS + after, journeys[0]]))
            journeys, before = journeys.compress(~is_end, axis=1), after.compress(~is_end)


def _first(connection: sqlite3.Connection, values: "Array", limit: int) -> dict[int, Place]:
    """Return the first steps by visits and text, by their codes, given the visits of each code."""
    places: dict[int, Place] = {}
    ranked: list[tuple[int, Place, int]] = []
    for field in STEP_FIELDS:
        sums_of_field = values[:, sql.step_code(field, sql.label_of(values[0])) == values[0]]
        sums_of_field[0] = sql.label_of(sums_of_field[0])
        for row in first(connection, sums_of_field, limit, ranks=1).rows:
            ranked.append((row.figures[0], Place(field, row.text), sql.step_code(field, row.value)))
    for _, place, code in sorted(ranked, key=lambda entry: (-entry[0], entry[1]))[:limit]:
        places[code] = place
    return places


def _kept(read: Read) -> Read:
    """Return a function that reads journeys only once, unless they take more than MAX_KEPT_BYTES."""
    import numpy as np

    kept: list[Array] | None = None

    def again() -> Iterator["Array"]:
        nonlocal kept
        if kept is not None:
            yield from (journeys.astype(np.int64) for journeys in kept)
            return
        some: list[Array] = []
        size = 0
        for journeys in read():
            kind = np.min_scalar_type(journeys.max(initial=0))
            size += journeys.size * kind.itemsize
            if size <= MAX_KEPT_BYTES:
                some.append(journeys.astype(kind))
            else:
                some.clear()
            yield journeys
        kept = some if size <= MAX_KEPT_BYTES else None

    return again
