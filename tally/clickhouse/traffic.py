"""SQL of the figures of traffic: key figures, time series, lists of values, entry and exit pages, conversions.

The events of E are first counted by visit, and by value of a field where a list is asked for; all else are sums over
visits. A conversion is an event of E that matches the filters of a goal; how often each of its values occurs is
returned, and these are added up as decimal numbers in Python, as the SQLite engine does.
"""

from collections.abc import Sequence
from typing import Any

from tally.clickhouse.client import Parameters
from tally.clickhouse.measured import leaves
from tally.clickhouse.rows import scalar_of
from tally.clickhouse.visits import IS_VIEW, Traffic, condition, property_value
from tally.engine.values import GOAL_ORDERS, LEAVE_ORDERS, Conversions, Goal, Stats, TopQuery
from tally.reports.figures import OF_VISITS
from tally.rollups.goal_days import millionths
from tally.rollups.imported_sums import OF_DAY_MS
from tally.timestamps import DAY_MS

_FIGURES = ", ".join(Stats._fields)
_VISIT = ("v_start", "v_ms", "v_views", "v_events")
_IS_BOUNCE = "counts and views = 1 and others = 0"
# Of the rows of imported sums.
_TIME_OF_SUMS = f"toInt64(day) * {DAY_MS} + {OF_DAY_MS}"
_NO_AMOUNTS = "([''], [toUInt64(0)])"
_NO_CONVERSIONS = f", 0, 0, {_NO_AMOUNTS}"
# Of a goal by its number, over rows that have these columns.
_ADDED_UP = (
    ", sum(conversions{0}) as conversions{0}, sum(converted{0}) as converted{0},"
    " sumMap(amounts{0}.1, amounts{0}.2) as amounts{0}"
)
# Bits of a ratio behind the point in each of two numbers, as tally/reports/top.py ranks it.
_RATIO_BITS = 31


def _goal_columns(parameters: Parameters, goals: Sequence[Goal]) -> tuple[str, str]:
    """Return the columns of each goal of a visit, and those over visits."""
    of_visit = over_visits = ""
    for n, goal in enumerate(goals):
        matches = condition(goal.filters, parameters)
        of_visit += f", countIf({matches}) as c{n}"
        over_visits += f", sum(c{n}) as conversions{n}, uniqExactIf((day, visitor), c{n} > 0) as converted{n}"
        if goal.value is None:
            over_visits += f", {_NO_AMOUNTS} as amounts{n}"
        else:
            value = property_value(goal.value, parameters)
            of_visit += f", sumMapIf([{value}], [toUInt64(1)], {matches}) as a{n}"
            over_visits += f", sumMap(a{n}.1, a{n}.2) as amounts{n}"
    return of_visit, over_visits


def conversions(goal: Goal, columns: Sequence[Any]) -> Conversions:
    """Return the conversions of a goal from its three columns of `figures`, without these none."""
    events, visitors, (values, counts) = columns or (0, 0, ((), ()))
    if goal.value is None:
        return Conversions(events, visitors)
    total = without = 0
    for value, count in zip(values, counts, strict=True):
        amount = None if value == "" else millionths(scalar_of(value))
        if amount is None:
            without += count
        else:
            total += amount * count
    return Conversions(events, visitors, total, without)


def figures(
    parameters: Parameters,
    traffic: Traffic,
    field: str,
    goals: Sequence[Goal],
    has_visits: bool = True,
    values: Sequence[str] | None = None,
) -> str:
    """Return SQL of rows (val, the fields of Stats, three columns of each goal) by a field, "" for one row; of some
    values, or of all. Those of visits are 0 unless `has_visits`."""
    by = field or "''"
    columns = [field] * bool(field) + [*_VISIT] * has_visits
    of_visit, over_visits = _goal_columns(parameters, goals)
    visit = "0 as counts, 0 as views, 0 as others, 0 as ms"
    if has_visits:
        visit = f"{traffic.begins} as counts, any(v_views) as views, any(v_events) as others, any(v_ms) as ms"
    some, some_sums = "", ""
    if values is not None:
        chosen = parameters.texts(values)
        some, some_sums = f" and has({chosen}, toString({by}))", f" and has({chosen}, toString(value))"
    counted = (
        f"select val, uniqExact((day, visitor)) as visitors, sum(viewed) as pageviews, sum(acted) as events,"
        f" countIf(counts) as visits, countIf({_IS_BOUNCE}) as bounces, sumIf(views, counts) as visit_views,"
        f" toInt64(sumIf(ms, counts)) as visit_ms{over_visits} from (select toString({by}) as val, day, visitor,"
        f" countIf({IS_VIEW}) as viewed, countIf(not {IS_VIEW}) as acted, {visit}{of_visit}"
        f" from {traffic.source(columns, goals)} where {traffic.matches(parameters)}{some}"
        f" group by val, day, visitor{', v_start' * has_visits}) group by val"
    )
    # What a value has without visits are no figures of visits; what all traffic has are.
    visits = [f"if({'1' if not field else 'visits > 0'}, {name}, 0)" for name in ("bounces", "toInt64(duration_ms)")]
    visits = ["visits", visits[0], "if(visits > 0, pageviews, 0)", visits[1]] if has_visits else ["0"] * 4
    none = _NO_CONVERSIONS * len(goals)
    sums = traffic.sums(field, f"toString(value), visitors, pageviews, events, {', '.join(visits)}{none}")
    if not sums:
        return counted
    added = "".join(f", sum({name}) as {name}" for name in Stats._fields)
    added += "".join(map(_ADDED_UP.format, range(len(goals))))
    return f"select val{added} from ({counted}{sums}{some_sums}) group by val"


def series(parameters: Parameters, traffic: Traffic, begins: Sequence[int], goals: Sequence[Goal]) -> str:
    """Return SQL of rows (begin of a bucket, visitors, visits, pageviews, events, three columns of the goal).

    begins: of the buckets, in order. goals: no more than one.
    """
    bucket = f"roundDown({{}}, [{', '.join(f'toInt64({begin})' for begin in begins)}])"
    of_visit, over_visits = _goal_columns(parameters, goals)
    none = _NO_CONVERSIONS * len(goals)
    events = (
        f"select b, uniqExact((day, visitor)) as visitors, 0 as visits, sum(viewed) as pageviews,"
        f" sum(acted) as events{over_visits} from (select {bucket.format('ts')} as b, day, visitor,"
        f" countIf({IS_VIEW}) as viewed, countIf(not {IS_VIEW}) as acted{of_visit}"
        f" from {traffic.source((), goals)} where {traffic.matches(parameters)} group by b, day, visitor) group by b"
    )
    # A visit counts in the bucket in which it begins, also where no event of it in that bucket matches.
    visits = (
        f"select {bucket.format('v_start')} as b, 0, uniqExact((day, visitor, v_start)), 0, 0{none}"
        f" from {traffic.source(['v_start'])} where {traffic.matches(parameters)} and {traffic.begins} group by b"
    )
    of_sums = f"{bucket.format(_TIME_OF_SUMS)}, visitors, visits, pageviews, events{none}"
    return (
        f"select b, sum(visitors), sum(visits), sum(pageviews), sum(events){_ADDED_UP.format(0) * len(goals)}"
        f" from ({events} union all {visits}{traffic.sums('', of_sums)}) group by b"
    )


# --- lists


def top(parameters: Parameters, traffic: Traffic, query: TopQuery) -> str:
    """Return SQL of the unset row, if there is one, and of the rows before the end of the page, with their number."""
    goals = [] if query.goal is None else [query.goal]
    source = f"({figures(parameters, traffic, query.field, goals, query.has_visits)})"
    if query.order in LEAVE_ORDERS:
        source += f" as listed left join ({leaves(parameters, traffic, query.field)}) as leaves using val"
    shown = f"val, {_FIGURES}{', conversions0, converted0, amounts0' * len(goals)}"
    return (
        f"select {shown}, countIf(val != '') over () as total from {source}"
        f" order by val = '' desc, {_ranks(query)}visitors desc, pageviews desc, events desc, val"
        f" limit {query.offset + query.limit + 1}"
    )


def _ranks(query: TopQuery) -> str:
    """Return the terms of `order by` for the figure by which a list is sorted."""
    if not query.order:
        return ""
    way = "asc" if query.ascending else "desc"
    if query.order in GOAL_ORDERS:
        number, rate = "conversions0 {0}, ", _ratio("converted0", "visitors", "{0}")
        first, second = (rate, number) if query.order == "conversion_rate" else (number, rate)
        return first.format(way) + second.format("desc")
    if query.order == "time_on_page":
        return _ratio("median_ms", "least(samples, 1)", way)
    if query.order == "scroll_depth":
        return _ratio("reached", "samples", way)
    part = OF_VISITS.get(query.order)
    return f"{query.order} {way}, " if part is None else _ratio(part, "visits", way)


def _ratio(part: str, whole: str, way: str) -> str:
    """Return the terms that sort by a ratio, exactly for wholes below 2^31; what has none comes last."""
    terms = [f"{whole} = 0"]
    for _ in range(3):
        terms.append(f"intDiv({part}, greatest({whole}, 1)) {way}")
        part = f"bitShiftLeft(toUInt64(({part}) % greatest({whole}, 1)), {_RATIO_BITS})"
    return "".join(f"{term}, " for term in terms)


def visit_pages(
    parameters: Parameters, traffic: Traffic, field: str, limit: int, values: Sequence[str] | None = None
) -> str:
    """Return SQL of (page, visits, bounces, views, ms): the visits without a page, if there are any, and the first
    pages; or of some pages."""
    some = "" if values is None else f" where has({parameters.texts(values)}, val)"
    sums = traffic.sums(field, "toString(value), visits, bounces, if(visits > 0, pageviews, 0), duration_ms")
    return (
        "select val, sum(number) as visits, sum(bounces), sum(views), sum(ms) from ("
        f"select toString(any({field})) as val, toUInt64(1) as number, toUInt64(any(v_views) = 1 and any(v_events) = 0)"
        " as bounces, toUInt64(any(v_views)) as views, toUInt64(any(v_ms)) as ms"
        f" from {traffic.source([field, *_VISIT])} where {traffic.matches(parameters)} and {traffic.begins}"
        f" group by day, visitor, v_start{sums}){some} group by val order by val = '' desc, visits desc, val"
        f" limit {limit + 1 if values is None else len(values)}"
    )
