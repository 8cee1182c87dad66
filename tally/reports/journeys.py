"""Journeys: what visits do right after, or right before, a page or an event, step by step.

A visit is a sequence of steps: its pageviews with a path and its events with a name, by (timestamp, id); a step that
repeats the one before it, such as a reload, is one step with it. A journey begins at the first step of the visit that
is the chosen one, and follows up to MAX_STEPS steps from there on, or back from there. Counted are the visits that
begin in the range and, with filters, have an event in E; like funnels, over their whole lives.

A visit lies within a UTC day, so days are counted one by one, as rows (visits, step 1, step 2, ...) of equal journeys,
which are cached for days that are rolled up; packed days are counted together, by column. The rows are read twice: to
find the values with the most visits at each step, and to count the links between them. All others count as one, so the
answer is small, and memory is bounded: equal journeys are collected up to MAX_JOURNEYS at a time, and values of a step
in `Sums`.
"""

import sqlite3
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tally.reports.cache import ResultCache, packed, unpacked
from tally.reports.coverage import Coverage, Span, coverage_of
from tally.reports.funnels import divided
from tally.reports.ranking import first
from tally.reports.sums import Sums
from tally.storage.sql import behaviour as sql
from tally.storage.sql.events import Scope

if TYPE_CHECKING:
    from tally.reports.packed_days import PackedDays

MAX_STEPS = 5
# About 10 MB.
MAX_JOURNEYS = 50_000
_ROWS_AT_ONCE = 10_000
Direction = Literal["next", "previous"]
# In place of a step: the visit has none there; and a value that is not among the first.
_END, _OTHER = 0, -1


class Place(NamedTuple):
    """A step of a journey. Without a field: the end of the visit (""), or all other steps (OTHER_STEPS)."""

    field: str
    value: str


OTHER_STEPS = Place("", "(other)")
END = Place("", "")


class Link(NamedTuple):
    """Visits that go from one place to the next; `step` is the number of the second one, from 1 on."""

    step: int
    begin: Place
    end: Place
    visits: int


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
    coverage = coverage_of(connection, scope, cache)
    days = divided(coverage, with_data=False)
    label = coverage.rows(sql.label(start[1]))
    if not label:
        return []
    chosen = sql.step_code(start[0], label[0][0])
    sums = [Sums(1) for _ in range(steps)]
    rows = _rows(coverage, days, start, chosen, direction, steps, cache)
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        for place, own in enumerate(sums, 1):
            own.add_rows((row[place], row[0]) for row in some if row[place] != _END)
    names = [_first(connection, of, limit) for of in sums]
    links: Counter[tuple[int, int, int]] = Counter()
    for visits, *codes in _rows(coverage, days, start, chosen, direction, steps, cache):
        before = chosen
        for place, code in enumerate(codes):
            after = code if code == _END or code in names[place] else _OTHER
            links[place, before, after] += visits
            if code == _END:
                break
            before = after
    known = {chosen: Place(*start), _END: END, _OTHER: OTHER_STEPS}
    for of in names:
        known |= of
    found = [Link(place + 1, known[before], known[after], visits) for (place, before, after), visits in links.items()]
    return sorted(found, key=lambda of: (of.step, -of.visits, of.begin, of.end))


def _first(connection: sqlite3.Connection, sums: Sums, limit: int) -> dict[int, Place]:
    """Return the first steps by visits and text, by their codes."""
    found: dict[int, Place] = {}
    ranked: list[tuple[int, Place, int]] = []
    for field in sql.STEP_FIELDS:
        own = Sums(1)
        own.add_rows((sql.label_of(code), visits) for code, visits in sums if sql.field_of(code) == field)
        for row in first(connection, own.counts, limit, ranks=1).rows:
            ranked.append((row.figures[0], Place(field, row.text), sql.step_code(field, row.value)))
    for _, place, code in sorted(ranked, key=lambda one: (-one[0], one[1]))[:limit]:
        found[code] = place
    return found


def _rows(
    coverage: Coverage,
    divided_days: "tuple[list[PackedDays], list[tuple[Span, Scope]]]",
    start: tuple[str, str],
    chosen: int,
    direction: Direction,
    steps: int,
    cache: ResultCache,
) -> Iterator[tuple[int, ...]]:
    """Yield rows (visits, code of step 1, ...) that add up to all journeys; _END where a visit has no step."""
    question = (start, direction, steps)
    packed_days, spans = divided_days
    for columns in packed_days:
        rows = partial(columns.journeys, chosen, direction == "next", steps)
        yield from _cached(columns.key("journeys", *question), rows, steps, cache)
    for span, scope in spans:
        day = coverage.complete(span)
        key = ("journeys", coverage.website, span[0], day.version, coverage.scope.filters, *question) if day else None
        yield from _cached(key, partial(_counted, coverage, scope, chosen, direction, steps), steps, cache)


def _cached(
    key: tuple[Any, ...] | None,
    count: Callable[[], Iterable[list[tuple[int, ...]]]],
    steps: int,
    cache: ResultCache,
) -> Iterator[tuple[int, ...]]:
    """Yield the rows that `count` yields in lists; they are cached under a key unless they are many."""
    known = cache.get(key) if key else None
    if known is not None:
        yield from unpacked(known, 1 + steps)
        return
    kept: array[int] | None = array("q") if key else None
    for rows in count():
        numbers = packed(rows)
        if kept is not None and len(kept) * kept.itemsize < cache.most_bytes:
            kept.extend(numbers)
        else:
            kept = None
        yield from unpacked(numbers, 1 + steps)
    if key and kept is not None:
        cache.put(key, kept)


def _counted(
    coverage: Coverage, scope: Scope, chosen: int, direction: Direction, steps: int
) -> Iterator[list[tuple[int, ...]]]:
    """Yield lists of rows of a day, or of the visits that begin in a part of it."""
    found: Counter[tuple[int, ...]] = Counter()
    rows = coverage.connection.execute(*sql.steps(scope, chosen))
    for journey in _journeys(rows, chosen, direction, steps):
        found[journey] += 1
        if len(found) >= MAX_JOURNEYS:
            yield [(visits, *codes) for codes, visits in found.items()]
            found.clear()
    yield [(visits, *codes) for codes, visits in found.items()]


def _journeys(
    rows: Iterable[tuple[int, int, int]], chosen: int, direction: Direction, steps: int
) -> Iterator[tuple[int, ...]]:
    """Yield the journey of each visit of rows (visitor, visit, code), which are in order."""
    visit: tuple[int, int] | None = None
    before: list[int] = []
    after: list[int] | None = None
    for *own, code in rows:
        if tuple(own) != visit:
            if visit is not None:
                yield _journey(before, after or [], direction, steps)
            visit, before, after, last = (own[0], own[1]), [], None, _END
        if code == last:
            continue
        last = code
        if after is not None:
            if len(after) < steps:
                after.append(code)
        elif code == chosen:
            after = []
        else:
            before.append(code)
            # Only the last ones are needed.
            del before[:-steps]
    if visit is not None:
        yield _journey(before, after or [], direction, steps)


def _journey(before: list[int], after: list[int], direction: Direction, steps: int) -> tuple[int, ...]:
    own = after if direction == "next" else before[::-1]
    return (*own, *[_END] * (steps - len(own)))
