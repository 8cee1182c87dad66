"""Funnels: how many visits complete some steps in order, with anything in between, and how long that takes.

The events of a visit are processed in the order of (timestamp, id); each advances the visit by at most one step. So the
first event that matches the next step counts, and no event matches two steps. The visits are those that begin in the
range (with filters: that have an event in E), over their whole lives, also after the end of the range. Neither visits
nor visitors cross midnight UTC, so the figures of days add up.

Packed days are counted by column (tally/reports/packed_days.py). For each other day the events that match any step are
read (0.05 µs for each event of the day, and 0.7 for each matching one) and processed here. Figures of whole days are
cached under the day's version (tally/reports/cache.py). A day with many visits is processed in several rounds, each for
a part of the visitors, so that memory stays bounded.
"""

import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import orjson

from tally.engine.values import FunnelStep, Reached, Scope, Span
from tally.events.validation import PAGEVIEWS, TRAFFIC
from tally.reports.cache import ResultCache, packed, unpacked
from tally.reports.coverage import Coverage, conditions_of, coverage_of, days_of, has_data, plan_of, resolved
from tally.storage.sql import behaviour as sql
from tally.storage.sql.behaviour import MASK_BITS, VISIT_BITS, Share, Step, Stretch
from tally.storage.sql.filters import Condition
from tally.timestamps import DAY_MS

if TYPE_CHECKING:
    from tally.reports.packed_days import PackedDays

# 15 MB per report.
MAX_VISITS = 50_000
MAX_HITS = 20_000
_TIMES_MORE = 4
# Imported events have ids below 0.
_MIN_ID = -(1 << 63)
_STEP_BITS = 4
_STEP = (1 << _STEP_BITS) - 1


def funnel(
    connection: sqlite3.Connection, scope: Scope, steps: Sequence[FunnelStep], cache: ResultCache
) -> list[Reached]:
    """Return what reached each of some steps. Raises BeyondRetention."""
    coverage = coverage_of(connection, scope, cache)
    labels: dict[str, int] = {}
    for end, step in enumerate(steps):
        if step.filters is None and step.text not in labels:
            found = coverage.rows(sql.label(step.text))
            if not found:
                # No event has the text.
                known = steps[:end]
                break
            labels[step.text] = found[0][0]
    else:
        known = steps
    totals = [(0, 0, 0)] * len(steps)
    conditions = [_conditions(coverage, step, labels) for step in known]
    packed_days, days = divided(coverage, with_data=any(map(has_data, conditions)))
    counted: list[Iterable[tuple[int, ...]]] = [
        _of_columns(columns, known, conditions, cache) for columns in packed_days
    ]
    counted += [_of_day(coverage, span, own, known, labels, cache) for span, own in days]
    for figures in counted:
        for n, more in enumerate(figures):
            totals[n] = totals[n][0] + more[0], totals[n][1] + more[1], totals[n][2] + more[2]
    return [Reached(*of) for of in totals]


def divided(coverage: Coverage, *, with_data: bool) -> "tuple[list[PackedDays], list[tuple[Span, Scope]]]":
    """Return the packed days of the range, and the other days, or parts of them, with their scopes.

    Without filters where all events match. `with_data`: whether event_data is read.
    """
    plan = plan_of(coverage)
    packed_days, days = list["PackedDays"](), list[tuple[Span, Scope]]()
    for spans, filtered in ((plan.raw, True), (list(days_of(coverage, plan.rolled)), False)):
        some, left = coverage.packed(spans, filtered=filtered, with_data=with_data)
        packed_days += some
        days += [(span, coverage.raw(span, filtered)) for span in left]
    return packed_days, days


def _conditions(coverage: Coverage, step: FunnelStep, labels: Mapping[str, int]) -> list[Condition]:
    """Return a step as conditions on columns."""
    if step.filters is not None:
        filters = [resolved(coverage.connection, coverage.website, of) for of in step.filters]
        return conditions_of(coverage.connection, filters)
    types = PAGEVIEWS if step.field == "pathname" else TRAFFIC - PAGEVIEWS
    # First the one that fewer events meet.
    return [Condition(step.field, [labels[step.text]], False), Condition("type", sorted(types), False)]


def _of_columns(
    columns: "PackedDays",
    wanted: Sequence[FunnelStep],
    steps: Sequence[Sequence[Condition]],
    cache: ResultCache,
) -> Iterator[tuple[int, ...]]:
    """Return (visits, visitors, milliseconds) of each step on packed days."""

    def count() -> "array[int]":
        return packed(columns.funnel(steps))

    # By text, not label: a deleted label may be used for another text.
    return unpacked(cache.find(columns.key("funnel", *wanted), count), 3)


def _of_day(
    coverage: Coverage,
    span: Span,
    scope: Scope,
    wanted: Sequence[FunnelStep],
    labels: Mapping[str, int],
    cache: ResultCache,
) -> Iterator[tuple[int, ...]]:
    """Return (visits, visitors, milliseconds) of each step."""
    day = coverage.complete(span)
    # By text, not label: a deleted label may be used for another text.
    filters = coverage.scope.filters if scope.filters else ()
    key = ("funnel", coverage.website, span[0], day and day.version, filters, *wanted)
    steps = [
        sql.labelled_step(one.field, labels[one.text])
        if one.filters is None
        else sql.filtered_step(coverage.website, span[0] // DAY_MS, one.filters)
        for one in wanted
    ]

    def count() -> "array[int]":
        return packed(_counted(coverage, scope, steps))

    if not steps:
        return iter(())
    return unpacked(cache.find(key, count) if day else count(), 3)


class _TooManyVisits(Exception):
    """There are more than MAX_VISITS visits: more rounds are needed."""


def _counted(coverage: Coverage, scope: Scope, steps: Sequence[Step]) -> list[list[int]]:
    rounds = 1
    while True:
        counts = [[0, 0, 0] for _ in steps]
        try:
            for n in range(rounds):
                _count(coverage, scope, steps, Share(n, rounds), counts)
        except _TooManyVisits:
            rounds *= _TIMES_MORE
        else:
            return counts


def _count(coverage: Coverage, scope: Scope, steps: Sequence[Step], share: Share, counts: list[list[int]]) -> None:
    """Add visits, visitors and milliseconds of some visitors on a day, or a part of one, to `counts`."""
    places, spent = _progress(coverage, scope, steps, share)
    furthest: dict[int, int] = {}
    reached: Counter[int] = Counter()
    for visit, place in places.items():
        step = place & _STEP
        reached[step] += 1
        visitor = visit >> VISIT_BITS
        if step > furthest.get(visitor, 0):
            furthest[visitor] = step
    people = Counter(furthest.values())
    for n, row in enumerate(counts, 1):
        row[0] += sum(count for step, count in reached.items() if step >= n)
        row[1] += sum(count for step, count in people.items() if step >= n)
        row[2] += spent[n - 1] if n > 1 else 0


def _progress(
    coverage: Coverage, scope: Scope, steps: Sequence[Step], share: Share
) -> tuple[dict[int, int], list[int]]:
    """Return the progress of each visit, and the milliseconds spent before each step.

    Progress packs the time of the last step (milliseconds of the day) and the number of steps. The time before the
    first step has no meaning.
    """
    begin_ms = scope.from_ms // DAY_MS * DAY_MS
    places: dict[int, int] = {}
    some = bool(scope.filters) or not scope.is_day
    if some:
        places = dict.fromkeys(_visits_in_scope(coverage, scope, share), 0)
    unseen = None if some else 0
    spent = [0] * (len(steps) + 1)
    for visitors, codes in _hits(
        coverage, Stretch(scope.website, (scope.from_ms, _MIN_ID), begin_ms + DAY_MS, share), steps
    ):
        for visitor, code in zip(visitors, codes, strict=True):
            visit = visitor << VISIT_BITS | code >> MASK_BITS & (1 << VISIT_BITS) - 1
            place = places.get(visit, unseen)
            if place is not None and code >> (place & _STEP) & 1:
                ms = code >> MASK_BITS + VISIT_BITS
                spent[place & _STEP] += ms - (place >> _STEP_BITS)
                places[visit] = (ms << _STEP_BITS | place & _STEP) + 1
        if len(places) > MAX_VISITS:
            raise _TooManyVisits
    return places, spent


def _visits_in_scope(coverage: Coverage, scope: Scope, share: Share) -> list[int]:
    visitors, numbers = coverage.rows(sql.visits(scope, share, MAX_VISITS + 1))[0]
    wanted = [
        visitor << VISIT_BITS | n for visitor, n in zip(orjson.loads(visitors), orjson.loads(numbers), strict=True)
    ]
    if len(wanted) > MAX_VISITS:
        raise _TooManyVisits
    return wanted


def _hits(coverage: Coverage, stretch: Stretch, steps: Sequence[Step]) -> Iterator[tuple[list[int], list[int]]]:
    begin_ms = stretch.after[0] // DAY_MS * DAY_MS
    while True:
        visitors, codes = map(orjson.loads, coverage.rows(sql.hits(stretch, steps, begin_ms, MAX_HITS))[0])
        yield visitors, codes
        if len(codes) < MAX_HITS:
            return
        (after,) = coverage.rows(sql.last_hit(stretch, steps, MAX_HITS))
        stretch = stretch._replace(after=after)
