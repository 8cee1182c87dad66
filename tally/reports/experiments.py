"""Experiments over any range: who was assigned what, who converted, and what may be concluded.

A visitor is somebody's UTC day: assigned where one of that day's assignments lies in the range, to the variant of the
day's first; converted to a goal where, assigned so, a conversion lies in the range. Filters are about the assignment:
who was assigned on that page, with that device, may convert anywhere.

Whole days without filters come from counts (tally/rollups/experiments.py), what is cut off or filtered from raw rows.
Both come day by day, since the sequential p-value looks at the end of each.

Anybody may send names: of very many experiments, variants or goals those with the most visitors are told, and how many
are left out. An answer has goals times variants, and each is worked out here, where no deadline looks.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tally.reports import significance
from tally.reports.coverage import refuse_gone
from tally.storage.sql import measurements as measuring
from tally.storage.sql.events import Query, Scope
from tally.timestamps import DAY_MS

# our choice: what most name the variant that changes nothing; where none is named so, it is the first by name.
BASELINES = ("control", "original", "baseline", "off")

# our choice: more than anybody compares; all of that at once is worked out in 3 seconds.
MOST_EXPERIMENTS, MOST_VARIANTS, MOST_GOALS = 100, 20, 20
# our choice: 40 experiments of 3 variants and 3 goals on each day of a year; 40 MB.
MOST_ROWS = 200_000

Row = tuple[int, str, str, int, str, int]
"""day, experiment, variant, 1 of conversions and 0 of assignments, goal, visitors."""


class Arm(NamedTuple):
    """A variant with regard to a goal. Rates are 0 to 1. `lift`: relative to the baseline's rate; None for itself, or
    where that has none. `p_value` is for one planned look, `p_value_any_time` for looking at any time; both corrected
    for several variants."""

    variant: str
    visitors: int
    conversions: int
    interval: tuple[float, float] | None
    lift: float | None
    p_value: float | None
    p_value_any_time: float | None
    has_enough: bool


class Goal(NamedTuple):
    """What became of a goal."""

    goal: str
    arms: list[Arm]


class Experiment(NamedTuple):
    """An experiment; `split_p_value`: of an even split, `visitors` by variant, the baseline first. `left_out`: variants
    and goals that are not told."""

    name: str
    visitors: dict[str, int]
    split_p_value: float | None
    goals: list[Goal]
    left_out: tuple[int, int] = (0, 0)


class TooManyTrials(ValueError):
    """More different experiments, variants and goals than can be read in one question."""


def experiments(connection: sqlite3.Connection, scope: Scope) -> tuple[list[Experiment], int]:
    """The experiments of a scope, by name, and how many are left out. Raises BeyondRetention and TooManyTrials."""
    of_name: dict[str, list[Row]] = {}
    for row in rows(connection, scope):
        of_name.setdefault(row[1], []).append(row)
    told = _most(
        {name: sum(row[5] for row in found if not row[3]) for name, found in of_name.items()}, MOST_EXPERIMENTS
    )
    return [_experiment(name, of_name[name]) for name in sorted(told)], len(of_name) - len(told)


def _most(visitors: Mapping[str, int], most: int) -> list[str]:
    """Names by visitors, descending, and text."""
    return sorted(visitors, key=lambda name: (-visitors[name], name))[:most]


def rows(connection: sqlite3.Connection, scope: Scope) -> list[Row]:
    """The counts of each day of a scope, in order. Raises BeyondRetention and TooManyTrials."""
    first, end = -(-scope.from_ms // DAY_MS), scope.to_ms // DAY_MS
    found: list[Row] = []
    texts: dict[str, str] = {}

    def take(query: Query) -> None:
        for day, experiment, variant, is_converted, goal, visitors in connection.execute(*query):
            # One copy of each text.
            one, arm, aim = (texts.setdefault(text, text) for text in (experiment, variant, goal))
            found.append((day, one, arm, is_converted, aim, visitors))
            if len(found) > MOST_ROWS:
                raise TooManyTrials

    if scope.filters or first >= end:
        spans = [(scope.from_ms, scope.to_ms)]
    else:
        spans = [(scope.from_ms, first * DAY_MS), (end * DAY_MS, scope.to_ms)]
        take(measuring.trials(scope.website, first, end))
    for from_ms, to_ms in spans:
        if from_ms < to_ms:
            part = scope._replace(from_ms=from_ms, to_ms=to_ms)
            refuse_gone(connection, part)
            take(measuring.trials_of(part))
    return sorted(found)


def _experiment(name: str, found: Sequence[Row]) -> Experiment:
    assigned: dict[str, int] = {}
    converted: dict[str, int] = {}
    for _, _, variant, is_converted, goal, visitors in found:
        if is_converted:
            converted[goal] = converted.get(goal, 0) + visitors
        assigned[variant] = assigned.get(variant, 0) + (0 if is_converted else visitors)
    order = sorted(_most(assigned, MOST_VARIANTS), key=lambda variant: (_place(variant), variant))
    goals = sorted(_most(converted, MOST_GOALS))
    own = [row for row in found if row[2] in order and (not row[3] or row[4] in goals)]
    return Experiment(
        name,
        {variant: assigned[variant] for variant in order},
        significance.split_p_value([assigned[variant] for variant in order]),
        [Goal(goal, _arms(order, [row for row in own if not row[3] or row[4] == goal])) for goal in goals],
        (len(assigned) - len(order), len(converted) - len(goals)),
    )


def _place(variant: str) -> int:
    return BASELINES.index(variant.lower()) if variant.lower() in BASELINES else len(BASELINES)


def _arms(variants: Sequence[str], found: Sequence[Row]) -> list[Arm]:
    """The variants, the baseline first, with regard to the one goal whose conversions are among `found`."""
    looks = _looks(variants, found)
    trials, successes = looks[-1]
    planned: list[float | None] = [None]
    any_time: list[float | None] = [None]
    for n in range(1, len(variants)):
        pairs = [((done[0], done[n]), (seen[0], seen[n])) for seen, done in looks]
        planned.append(significance.pooled_p_value(*pairs[-1]))
        any_time.append(significance.sequential_p_value(pairs))
    base = successes[0] / trials[0] if trials[0] else 0.0
    arms = []
    told = zip(variants, successes, trials, _corrected(planned), _corrected(any_time), strict=True)
    for n, (variant, done, seen, p_value, always) in enumerate(told):
        lift = done / seen / base - 1 if n and base and seen else None
        enough = significance.has_enough(done, seen)
        arms.append(Arm(variant, seen, done, significance.wilson(done, seen), lift, p_value, always, enough))
    return arms


def _looks(variants: Sequence[str], found: Iterable[Row]) -> list[tuple[list[int], list[int]]]:
    """Visitors and conversions of each variant up to the end of each day that has any."""
    looks: dict[int, tuple[list[int], list[int]]] = {}
    totals = [0] * len(variants), [0] * len(variants)
    for day, _, variant, is_converted, _, visitors in found:
        totals[is_converted][variants.index(variant)] += visitors
        looks[day] = list(totals[0]), list(totals[1])
    return list(looks.values())


def _corrected(p_values: Sequence[float | None]) -> list[float | None]:
    known = iter(significance.holm([p_value for p_value in p_values if p_value is not None]))
    return [None if p_value is None else next(known) for p_value in p_values]
