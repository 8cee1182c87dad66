"""Compare figures counted in columns (tally/reports/packed_days.py) with what statements count in the rows.

Texts of fields are "x", "y" and "z"; those of the fields in VARIES may differ between the events of a visit.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

from tally.engine.values import Scope
from tally.events.dimensions import FIELDS, PAGES
from tally.events.filters import Filter, Operator
from tally.reports import funnels, journeys
from tally.reports.coverage import Coverage
from tally.reports.packed_days import PackedDays
from tally.reports.sums import rows_of as by_label
from tally.rollups import goal_days
from tally.storage.day_columns import Array
from tally.storage.sql import behaviour
from tally.storage.sql import events as sql
from tally.storage.sql.filters import Condition
from tally.storage.sql.visits import pages
from tally.timestamps import DAY_MS, HOUR_MS

LISTED = (*FIELDS, *PAGES, "event_name")
VARIES = ("pathname", "browser", "city", "event_name")
PROPERTIES = ("prop.n", "prop.s", "prop.t")
Row = tuple[int, ...]
Span = tuple[int, int]
Comparison = Callable[[Coverage, Sequence[Span], Sequence[PackedDays], random.Random], None]


def filters_of(draw: random.Random) -> tuple[Filter, ...]:
    """Return up to three filters on any fields."""
    operators: tuple[Operator, ...] = ("=", "!=", "*=", "^=", "$=")
    found = []
    for _ in range(draw.randint(0, 3)):
        field = draw.choice((*LISTED, *VARIES, "type", *PROPERTIES))
        operator = draw.choice(operators)
        texts = ("1", "2.5", "x", "true", "null", "") if field in PROPERTIES else ("x", "y", "z", "", "unknown")
        values = ("pageview", "app_event") if field == "type" else draw.sample(texts, 2)
        known = [value for value in values if value or operator in ("=", "!=")]
        found.append(Filter(field, operator if field != "type" else "=", tuple(known)))
    return tuple(found)


def added(rows: Iterable[Sequence[int]]) -> dict[int, Row]:
    """Return the sums of rows (label, figures); rows of zeros are omitted."""
    found: dict[int, Row] = {}
    for label, *figures in rows:
        found[label] = tuple(a + b for a, b in zip(found.get(label, (0,) * len(figures)), figures, strict=True))
    return {label: figures for label, figures in found.items() if any(figures)}


def all_of(packed: Sequence[PackedDays], count: Callable[[PackedDays], Array]) -> dict[int, Row]:
    """Return the sums of the counts of some packed days."""
    return added(row for columns in packed for row in by_label(count(columns)))


def with_values(rows: dict[int, Row]) -> dict[int, Row]:
    """Return rows of conversions with the sum of values in place of its two parts."""
    return {key: (*row[:2], row[2] * goal_days.PART + row[3], row[4]) for key, row in rows.items()}


def rows_of(coverage: Coverage, spans: Sequence[Span], query: Callable[[Scope], tuple[str, list[object]]]) -> list[Row]:
    """Return the rows that a statement gives for each span."""
    return [row for span in spans for row in coverage.rows(query(coverage.raw(span, filtered=True)))]


def compare_sums(coverage: Coverage, spans: Sequence[Span], packed: Sequence[PackedDays], draw: random.Random) -> None:
    """Compare key figures and figures by value."""
    counted = rows_of(coverage, spans, sql.stats)
    found = zip(*(columns.stats() for columns in packed), strict=True)
    assert list(map(sum, found)) == [sum(column) for column in zip(*counted, strict=True)]
    together = zip(*(columns.counts(LISTED) for columns in packed), strict=True)
    for field, rows in zip(LISTED, together, strict=True):
        counted = rows_of(coverage, spans, lambda scope, field=field: sql.counts(scope, field))
        assert added(row for counts in rows for row in by_label(counts)) == added(counted), field
        counted = rows_of(coverage, spans, lambda scope, field=field: sql.visit_figures(scope, field))
        assert all_of(packed, partial(PackedDays.visit_figures, field=field)) == added(counted), field
    for field in PAGES:
        counted = rows_of(coverage, spans, lambda scope, field=field: pages(scope, field))
        assert all_of(packed, partial(PackedDays.pages, field=field)) == added(counted)


def compare_series(
    coverage: Coverage, spans: Sequence[Span], packed: Sequence[PackedDays], draw: random.Random
) -> None:
    """Compare series, and conversions by bucket."""
    length = draw.choice((HOUR_MS, 5 * HOUR_MS, DAY_MS, 2 * DAY_MS))
    edges = [(ms, ms + length) for ms in range(spans[0][0] // DAY_MS * DAY_MS, spans[-1][1], length)]
    found = (
        all_of(packed, partial(PackedDays.series, edges=edges)),
        all_of(packed, partial(PackedDays.conversions, field="", edges=edges, value_name=None)),
    )
    series, conversions = list[Row](), list[Row]()
    for span in spans:
        scope = coverage.raw(span, filtered=True)
        clipped = [
            (n, (max(begin, span[0]), min(end, span[1])))
            for n, (begin, end) in enumerate(edges)
            if begin < span[1] and end > span[0]
        ]
        cut = [edge for _, edge in clipped]
        series += [(clipped[n][0], *row) for n, *row in coverage.rows(sql.series(scope, cut))]
        rows = goal_days.counted(coverage.connection, scope, None, "", cut)
        conversions += [(clipped[n][0], *row) for n, *row in rows]
    assert found == (added(series), added(conversions))


def compare_values(
    coverage: Coverage, spans: Sequence[Span], packed: Sequence[PackedDays], draw: random.Random
) -> None:
    """Compare sums of a property of event_data."""
    valued = [
        tuple(row)
        for span in spans
        for row in goal_days.counted(coverage.connection, coverage.raw(span, filtered=True), "n", "os")
    ]
    found = all_of(packed, partial(PackedDays.conversions, field="os", edges=(), value_name="n"))
    assert with_values(found) == with_values(added(valued))


def compare_order(coverage: Coverage, spans: Sequence[Span], packed: Sequence[PackedDays], draw: random.Random) -> None:
    """Compare funnels and journeys."""
    label = {text: id_ for id_, text in coverage.rows(("select id, text from label", []))}
    steps = [(draw.choice(behaviour.STEP_FIELDS), label[draw.choice("xyz")]) for _ in range(3)]
    types = {"pathname": [0, 1], "event_name": [2, 3]}
    conditions = [[Condition("type", types[field], False), Condition(field, [own], False)] for field, own in steps]
    found = zip(*(columns.funnel(conditions) for columns in packed), strict=True)
    totals = [[0, 0, 0] for _ in steps]
    journeys_of = {direction: Counter[Row]() for direction in ("next", "previous")}
    chosen = behaviour.step_code(*steps[0])
    for span in spans:
        scope = coverage.raw(span, filtered=True)
        counted = funnels._counted(coverage, scope, [behaviour.labelled_step(*step) for step in steps])
        totals = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(totals, counted, strict=True)]
        for direction, journey in journeys_of.items():
            for rows in journeys._counted(coverage, scope, chosen, direction, 3):  # type: ignore[arg-type]
                for visits, *codes in rows.T.tolist():
                    journey[tuple(codes)] += visits
    assert [[sum(column) for column in zip(*rows, strict=True)] for rows in found] == totals
    for direction, journey in journeys_of.items():
        by_column = Counter[Row]()
        for rows in chain.from_iterable(columns.journeys(chosen, direction == "next", 3) for columns in packed):
            for visits, *codes in rows.T.tolist():
                by_column[tuple(codes)] += visits
        assert by_column == journey


COMPARISONS: tuple[Comparison, ...] = (compare_sums, compare_series, compare_order)
