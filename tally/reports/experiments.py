"""Experiments over any range: visitors by variant, conversions by goal, and the statistics of their difference.

A visitor is counted once per day: as assigned if one of the day's assignments lies in the range, to the variant of
the day's first assignment; as converted to a goal if, being assigned, a conversion lies in the range. Filters apply to
the assignment; the conversion may happen on any page.

Whole days without filters are read from counts (tally/rollups/experiments.py), partial days and filtered ones from the
columns of stored days (tally/columns/measurement_days.py) and from rows. All are read day by day, since the
sequential p-value has a look at the end of each day.

Clients choose the names, so their number is bounded: the experiments, variants and goals with the most visitors are
returned, and the number of the others. Beyond MAX_ROWS counts these are chosen in SQL, before any count is read.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from tally.columns import deleted_rows, measurement_days
from tally.columns.statements import EXPERIMENTS
from tally.engine.values import Arm, Experiment, Scope
from tally.engine.values import ExperimentGoal as Goal
from tally.reports import significance
from tally.reports.cache import ResultCache
from tally.reports.coverage import check_retention, conditions_in
from tally.storage.sql import events as sql_events
from tally.storage.sql import measurements as sql
from tally.storage.sql.filters import Query
from tally.storage.sql.measurements import Trials
from tally.timestamps import DAY_MS

# Usual names of the variant that changes nothing; without one of them it is the first by name.
BASELINES = ("control", "original", "baseline", "off")

# More than are compared in practice; computing all of them takes 3 seconds.
MAX_EXPERIMENTS, MAX_VARIANTS, MAX_GOALS = 100, 20, 20
# 40 experiments of 3 variants and 3 goals on each day of a year; 40 MB.
MAX_ROWS = 200_000

Row = tuple[int, str, str, int, str, int]
"""day, experiment, variant, 1 of conversions and 0 of assignments, goal, visitors."""
_Count = tuple[int, int, int, int, int, int]
"""The same with labels in place of texts."""
T = TypeVar("T")


class _Totals(NamedTuple):
    """How many variants and goals an experiment has."""

    variants: int
    goals: int


def experiments(connection: sqlite3.Connection, scope: Scope, cache: ResultCache) -> tuple[list[Experiment], int]:
    """Return the experiments of a scope by name, and how many are not returned. Raises BeyondRetention."""
    days = _days(connection, scope)
    trials = Trials(_parts(connection, scope, days, cache))
    # Counting rows first takes a tenth of reading as many.
    if connection.execute(*sql.number_of_trials(scope.website, days, MAX_ROWS + 1)).fetchone()[0] > MAX_ROWS:
        return _largest(connection, trials)
    counts = connection.execute(*trials.counts(MAX_ROWS + 1)).fetchall()
    if len(counts) > MAX_ROWS:
        return _largest(connection, trials)
    return of_rows(_named(connection, counts))


def of_rows(rows: Iterable[Row]) -> tuple[list[Experiment], int]:
    """Return the experiments of the counts of each day, in order, and how many are not returned."""
    of_name = _by_name(rows)
    visitors = {
        name: sum(row[5] for row in rows_of_experiment if not row[3]) for name, rows_of_experiment in of_name.items()
    }
    names = _most(visitors, MAX_EXPERIMENTS)
    return [_experiment(name, of_name[name]) for name in sorted(names)], len(of_name) - len(names)


def _largest(connection: sqlite3.Connection, trials: Trials) -> tuple[list[Experiment], int]:
    """Return the same where there are too many counts to read: as many experiments as fit into MAX_ROWS."""
    ranked = connection.execute(*trials.experiments(MAX_EXPERIMENTS)).fetchall()
    labels = [label for label, _ in ranked]
    kept: list[tuple[int, int, int]] = []
    totals: dict[int, list[int]] = {label: [0, 0] for label in labels}
    for converted, limit in enumerate((MAX_VARIANTS, MAX_GOALS)):
        for label, member, total in connection.execute(*trials.most_of_each(labels, bool(converted), limit)):
            kept.append((label, converted, member))
            totals[label][converted] = total
    sizes = dict(connection.execute(*trials._replace(kept=kept).sizes()).fetchall())
    chosen = fitting(labels, sizes)
    largest = [row for row in kept if row[0] in set(chosen)]
    counts = connection.execute(*trials._replace(kept=largest).counts(-1)).fetchall()
    texts = dict(connection.execute(*sql_events.texts(chosen)))
    results = of_largest(_named(connection, counts), {texts[label]: totals[label] for label in chosen})
    return results, ranked[0][1] - len(chosen)


def fitting(experiments: Sequence[T], sizes: Mapping[T, int]) -> Sequence[T]:
    """Return the first experiments whose counts together are no more than MAX_ROWS."""
    up_to = accumulate(sizes.get(experiment, 0) for experiment in experiments)
    # The first one is returned in any case: at most MAX_VARIANTS * (MAX_GOALS + 1) rows for each day.
    counted = zip(experiments, up_to, strict=True)
    return [experiment for experiment, rows in counted if rows <= MAX_ROWS] or experiments[:1]


def of_largest(rows: Iterable[Row], totals: Mapping[str, Sequence[int]]) -> list[Experiment]:
    """Return some experiments, of which there are the counts of some variants and goals, by their numbers of both."""
    of_name = _by_name(rows)
    return [_experiment(name, of_name.get(name, []), _Totals(*totals[name])) for name in sorted(totals)]


def _most(visitors: Mapping[str, int], most: int) -> list[str]:
    """Return names by visitors, descending, and text."""
    return sorted(visitors, key=lambda name: (-visitors[name], name))[:most]


def _by_name(rows: Iterable[Row]) -> dict[str, list[Row]]:
    of_name: dict[str, list[Row]] = {}
    for row in rows:
        of_name.setdefault(row[1], []).append(row)
    return of_name


def rows(connection: sqlite3.Connection, scope: Scope, cache: ResultCache) -> list[Row]:
    """Return the counts of each day of a scope, in order. Raises BeyondRetention."""
    trials = Trials(_parts(connection, scope, _days(connection, scope), cache))
    return _named(connection, connection.execute(*trials.counts(-1)).fetchall())


def _whole_days(scope: Scope) -> tuple[int, int]:
    return -(-scope.from_ms // DAY_MS), scope.to_ms // DAY_MS


def _days(connection: sqlite3.Connection, scope: Scope) -> list[int]:
    """Return the whole days of a scope that have counts; none where there are filters."""
    if scope.filters:
        return []
    rows = connection.execute(*sql.trial_days(scope.website, *_whole_days(scope)))
    return [day for (day,) in rows if day is not None]


def _parts(connection: sqlite3.Connection, scope: Scope, days: Sequence[int], cache: ResultCache) -> list[Query]:
    first, end = _whole_days(scope)
    if scope.filters or first >= end:
        spans, parts = [(scope.from_ms, scope.to_ms)], []
    else:
        spans = [(scope.from_ms, first * DAY_MS), (end * DAY_MS, scope.to_ms)]
        parts = [sql.trials(scope.website, days)]
    for from_ms, to_ms in spans:
        if from_ms < to_ms:
            part = scope._replace(from_ms=from_ms, to_ms=to_ms)
            check_retention(connection, part)
            parts += [*_packed(connection, part, cache), sql.trials_of(part)]
    return parts


def _packed(connection: sqlite3.Connection, scope: Scope, cache: ResultCache) -> Iterator[Query]:
    """Yield the counts of the stored days of a scope, if there are any.

    On days that have rows beside their columns the first assignment may be among either: the statements that read rows
    see all rows of these.
    """
    first, last = scope.from_ms // DAY_MS, (scope.to_ms - 1) // DAY_MS
    packed = measurement_days.days(connection, scope.website, EXPERIMENTS, first, last)
    mixed = measurement_days.with_rows(connection, scope.website, EXPERIMENTS, [day for day, _ in packed])
    deleted_rows.show(connection, scope.website, mixed, (EXPERIMENTS,))
    whole = [(day, events) for day, events in packed if day not in mixed]
    if whole:
        # numpy is imported with the first query that needs it.
        from tally.reports.measurement_columns import MeasurementFigures

        conditions = conditions_in(connection, scope)
        packed_trials = MeasurementFigures(connection, scope, EXPERIMENTS, whole, conditions, cache).trials()
        # In a table, which SQLite keeps in a file where there are many: clients choose the names.
        with deleted_rows.temporary(connection):
            connection.execute(sql.CREATE_GIVEN)
            connection.execute("/* experiments.forget */ delete from temp.given_trial where part = ?", (scope.from_ms,))
            connection.executemany(
                "/* experiments.give */ insert into temp.given_trial values (?, ?, ?, ?, ?, ?, ?)",
                ((scope.from_ms, *row) for row in packed_trials),
            )
        yield sql.given_trials(scope.from_ms)


def _named(connection: sqlite3.Connection, counts: Sequence[_Count]) -> list[Row]:
    """Return counts in order, with texts in place of labels."""
    labels = {label for row in counts for label in (row[1], row[2], row[4])}
    texts = dict(connection.execute(*sql_events.texts(list(labels))))
    return sorted((row[0], texts[row[1]], texts[row[2]], row[3], texts[row[4]], row[5]) for row in counts)


def _experiment(name: str, rows: Sequence[Row], totals: _Totals | None = None) -> Experiment:
    assigned: dict[str, int] = {}
    converted: dict[str, int] = {}
    for _, _, variant, is_converted, goal, visitors in rows:
        if is_converted:
            converted[goal] = converted.get(goal, 0) + visitors
        assigned[variant] = assigned.get(variant, 0) + (0 if is_converted else visitors)
    totals = totals or _Totals(len(assigned), len(converted))
    order = sorted(_most(assigned, MAX_VARIANTS), key=lambda variant: (_place(variant), variant))
    goals = sorted(_most(converted, MAX_GOALS))
    kept = [row for row in rows if row[2] in order and (not row[3] or row[4] in goals)]
    return Experiment(
        name,
        {variant: assigned[variant] for variant in order},
        significance.split_p_value([assigned[variant] for variant in order]),
        [Goal(goal, _arms(order, [row for row in kept if not row[3] or row[4] == goal])) for goal in goals],
        (totals.variants - len(order), totals.goals - len(goals)),
    )


def _place(variant: str) -> int:
    return BASELINES.index(variant.lower()) if variant.lower() in BASELINES else len(BASELINES)


def _arms(variants: Sequence[str], rows: Sequence[Row]) -> list[Arm]:
    """Return the results of variants, the baseline first, for the goal whose conversions are among `found`."""
    looks = _looks(variants, rows)
    trials, successes = looks[-1]
    planned: list[float | None] = [None]
    any_time: list[float | None] = [None]
    for n in range(1, len(variants)):
        pairs = [((done[0], done[n]), (seen[0], seen[n])) for seen, done in looks]
        planned.append(significance.pooled_p_value(*pairs[-1]))
        any_time.append(significance.sequential_p_value(pairs))
    base = successes[0] / trials[0] if trials[0] else 0.0
    arms = []
    results = zip(variants, successes, trials, _corrected(planned), _corrected(any_time), strict=True)
    for n, (variant, done, seen, p_value, always) in enumerate(results):
        lift = done / seen / base - 1 if n and base and seen else None
        enough = significance.has_enough(done, seen)
        arms.append(Arm(variant, seen, done, significance.wilson(done, seen), lift, p_value, always, enough))
    return arms


def _looks(variants: Sequence[str], rows: Iterable[Row]) -> list[tuple[list[int], list[int]]]:
    """Return cumulated visitors and conversions of each variant, at the end of each day that has any."""
    looks: dict[int, tuple[list[int], list[int]]] = {}
    totals = [0] * len(variants), [0] * len(variants)
    for day, _, variant, is_converted, _, visitors in rows:
        totals[is_converted][variants.index(variant)] += visitors
        looks[day] = list(totals[0]), list(totals[1])
    return list(looks.values())


def _corrected(p_values: Sequence[float | None]) -> list[float | None]:
    known = iter(significance.holm([p_value for p_value in p_values if p_value is not None]))
    return [None if p_value is None else next(known) for p_value in p_values]
