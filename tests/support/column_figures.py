"""Compare figures counted in columns (tally/reports/day_columns.py) with loops over the events (`Reference`).

Texts of fields are "x", "y" and "z"; those of the fields in VARIES may differ between the events of a visit.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence

from tally.columns.format import Array
from tally.engine.values import Scope
from tally.events.dimensions import FIELDS, PAGES
from tally.events.filters import Filter, Operator
from tally.reports.coverage import Coverage
from tally.reports.day_columns import DayColumns
from tally.rollups import goal_days
from tally.storage.sql import behaviour
from tally.storage.sql.filters import Condition
from tally.timestamps import DAY_MS, HOUR_MS
from tests.support.rollup_database import Fact, Reference, Visit, visit_figures

LISTED = (*FIELDS, *PAGES, "event_name")
VARIES = ("pathname", "browser", "city", "event_name")
PROPERTIES = ("prop.n", "prop.s", "prop.t")
Row = tuple[int, ...]
Span = tuple[int, int]
Comparison = Callable[[Reference, Coverage, Sequence[Span], Sequence[DayColumns], random.Random], None]


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


def added(rows: Iterable[tuple[Hashable, Sequence[int]]]) -> dict[Hashable, Row]:
    """Return the sums of rows by key; rows of zeros are omitted."""
    found: dict[Hashable, Row] = {}
    for key, figures in rows:
        found[key] = tuple(a + b for a, b in zip(found.get(key, (0,) * len(figures)), figures, strict=True))
    return {key: figures for key, figures in found.items() if any(figures)}


def scopes(coverage: Coverage, spans: Sequence[Span]) -> list[Scope]:
    """Return a scope for each span."""
    return [coverage.scope._replace(from_ms=begin, to_ms=end) for begin, end in spans]


def texts_of(coverage: Coverage) -> dict[int, str]:
    """Return the text of each label."""
    return dict(coverage.rows(("select id, text from label", [])))


def by_text(coverage: Coverage, counts: Iterable[Array]) -> dict[Hashable, Row]:
    """Return the sums of some counts by text."""
    text = texts_of(coverage)
    return added((text[label], figures) for part in counts for label, *figures in part.T.tolist())


def compare_sums(
    reference: Reference,
    coverage: Coverage,
    spans: Sequence[Span],
    columns: Sequence[DayColumns],
    draw: random.Random,
) -> None:
    """Compare key figures and figures by value."""
    parts = scopes(coverage, spans)
    sums = [sum(column) for column in zip([0] * 7, *(of.stats() for of in columns), strict=True)]
    assert sums == [sum(column) for column in zip([0] * 7, *map(reference.stats, parts), strict=True)]
    together = [of.counts(LISTED) for of in columns]
    for place, field in enumerate(LISTED):
        expected = added(row for part in parts for row in reference.by_value(part, field).items())
        assert by_text(coverage, (counts[place] for counts in together)) == expected, field
        found = by_text(coverage, (of.visit_figures(field) for of in columns))
        assert found == added(row for part in parts for row in _visits_by_value(reference, part, field)), field
    for side in ("entry", "exit"):
        found = by_text(coverage, (of.pages(f"{side}_page")[:5] for of in columns))
        assert found == added(row for part in parts for row in reference.by_page(part, side).items())


def _visits_by_value(reference: Reference, scope: Scope, field: str) -> Iterable[tuple[str, Row]]:
    visits = {(visit.begin_ms, visit.facts[0].id): visit for visit in reference.visits_in(scope)}
    of_fact = {fact.id: key for key, visit in visits.items() for fact in visit.facts}
    met: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for fact in reference.facts_in(scope):
        if fact.id in of_fact:
            met[reference.value(fact, field)].add(of_fact[fact.id])
    for value, keys in met.items():
        yield value, visit_figures([visits[key] for key in keys])


def compare_series(
    reference: Reference,
    coverage: Coverage,
    spans: Sequence[Span],
    columns: Sequence[DayColumns],
    draw: random.Random,
) -> None:
    """Compare series, and conversions by bucket."""
    length = draw.choice((HOUR_MS, 5 * HOUR_MS, DAY_MS, 2 * DAY_MS))
    edges = [(ms, ms + length) for ms in range(spans[0][0] // DAY_MS * DAY_MS, spans[-1][1], length)]
    found = added((n, figures) for of in columns for n, *figures in of.series(edges).T.tolist())
    expected = (row for part in scopes(coverage, spans) for row in enumerate(reference.series(part, edges)))
    # A visitor of a bucket of several days counts on each.
    by_day = length > DAY_MS
    if not by_day:
        assert found == added(expected)
    conversions = added(
        (n, figures[:1]) for of in columns for n, *figures in of.conversions("", edges, None).T.tolist()
    )
    facts = [fact for part in scopes(coverage, spans) for fact in reference.facts_in(part)]
    assert conversions == added(((fact.ts - edges[0][0]) // length, (1,)) for fact in facts)


def compare_values(
    reference: Reference,
    coverage: Coverage,
    spans: Sequence[Span],
    columns: Sequence[DayColumns],
    draw: random.Random,
) -> None:
    """Compare conversions, and sums of a property of event_data."""
    found = by_text(coverage, (of.conversions("os", (), "n") for of in columns))
    groups: defaultdict[str, list[Fact]] = defaultdict(list)
    for part in scopes(coverage, spans):
        for fact in reference.facts_in(part):
            groups[reference.value(fact, "os")].append(fact)
    expected = {}
    for value, facts in groups.items():
        amounts = [goal_days.millionths(json.loads(fact.data or "{}").get("n")) for fact in facts]
        total = sum(amount for amount in amounts if amount is not None)
        expected[value] = (len(facts), len({fact.visitor for fact in facts}), total, amounts.count(None))
    part = goal_days.PART
    assert {key: (*row[:2], row[2] * part + row[3], row[4]) for key, row in found.items()} == expected


def compare_order(
    reference: Reference,
    coverage: Coverage,
    spans: Sequence[Span],
    columns: Sequence[DayColumns],
    draw: random.Random,
) -> None:
    """Compare funnels and journeys."""
    text = texts_of(coverage)
    label = {text: label for label, text in text.items()}
    steps = [(draw.choice(behaviour.STEP_FIELDS), draw.choice("xyz")) for _ in range(3)]
    types = {"pathname": [0, 1], "event_name": [2, 3]}
    conditions = [
        [Condition("type", types[field], False), Condition(field, [label[own]], False)] for field, own in steps
    ]
    parts = scopes(coverage, spans)
    found = added(row for of in columns for row in enumerate(of.funnel(conditions)))
    assert found == added(row for part in parts for row in enumerate(reference.funnel(part, steps)))
    visits = [visit for part in parts for visit in reference.visits_in(part)]
    for is_next in (True, False):
        by_column = Counter[tuple[tuple[str, str] | None, ...]]()
        for of in columns:
            for rows in of.journeys(behaviour.step_code(steps[0][0], label[steps[0][1]]), is_next, 3):
                for number, *codes in rows.T.tolist():
                    by_column[tuple(_step(code, text) for code in codes)] += number
        journeys = (_journey(visit, steps[0], is_next) for visit in visits)
        assert by_column == Counter(journey for journey in journeys if journey is not None)


def _step(code: int, text: dict[int, str]) -> tuple[str, str] | None:
    return (behaviour.STEP_FIELDS[code & 1], text[behaviour.label_of(code)]) if code else None


def _journey(visit: Visit, start: tuple[str, str], is_next: bool) -> tuple[tuple[str, str] | None, ...] | None:
    """Return the three steps after, or before, the first step of a visit that is `start`; None where none is."""
    steps = list[tuple[str, str]]()
    for fact in visit.facts:
        step = ("pathname", fact.texts[0]) if fact.type <= 1 else ("event_name", fact.texts[len(FIELDS)])
        if step[1] and steps[-1:] != [step]:
            steps.append(step)
    if start not in steps:
        return None
    place = steps.index(start)
    following = steps[place + 1 : place + 4] if is_next else steps[:place][::-1][:3]
    return (*following, *[None] * (3 - len(following)))


COMPARISONS: tuple[Comparison, ...] = (compare_sums, compare_series, compare_values, compare_order)
