"""SQL of the figures of traffic: key figures, time series, lists of values, entry and exit pages, conversions.

The events of E are counted by day, and by value of a field where a list is asked for; all else are sums over days. So
a visitor is a number in the set of a day: pairs with the day, and groups of visits, take two to five times as long. A
conversion is an event of E that matches the filters of a goal; how often each of its values occurs is returned, and
these are added up as decimal numbers in Python, as the SQLite engine does.
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
_VISIT = ("v_start", "v_views", "v_events", "v_ms")
# The visits of events of a day, each once, and the columns of Stats over them.
_VISITS = f"groupUniqArrayIf((visitor, {', '.join(_VISIT)}), {{}}) as v"
_OF_VISITS = (
    "sum(length(v)) as visits, sum(arrayCount(x -> x.3 = 1 and x.4 = 0, v)) as bounces,"
    " sum(arraySum(x -> x.3, v)) as visit_views, toInt64(sum(arraySum(x -> x.5, v))) as visit_ms"
)
_EVENTS = f"uniqExact(visitor) as people, countIf({IS_VIEW}) as viewed, countIf(not {IS_VIEW}) as acted"
_NO_VISITS = "0 as visits, 0 as bounces, 0 as visit_views, toInt64(0) as visit_ms"
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
    """Return the columns of each goal of a day, and those over days."""
    of_day = over_days = ""
    for n, goal in enumerate(goals):
        matches = condition(goal.filters, parameters)
        of_day += f", countIf({matches}) as c{n}, uniqExactIf(visitor, {matches}) as p{n}"
        over_days += f", sum(c{n}) as conversions{n}, sum(p{n}) as converted{n}"
        if goal.value is None:
            over_days += f", {_NO_AMOUNTS} as amounts{n}"
        else:
            value = property_value(goal.value, parameters)
            of_day += f", sumMapIf([{value}], [toUInt64(1)], {matches}) as a{n}"
            over_days += f", sumMap(a{n}.1, a{n}.2) as amounts{n}"
    return of_day, over_days


def _daily(
    parameters: Parameters,
    traffic: Traffic,
    by: str,
    more: str,
    columns: Sequence[str],
    goals: Sequence[Goal] = (),
    also: str = "",
) -> str:
    """Return a subquery of `val`, an expression on events, day and more columns of the events of E, by value and day.

    columns: those that the expressions are on; also: one more condition on events.
    """
    source = traffic.source(columns, goals)
    return (
        f"(select {by} as val, day, {more} from {source} where {traffic.matches(parameters)}{also} group by val, day)"
    )


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
    by = f"toString({field})" if field else "''"
    columns = [field] * bool(field) + [*_VISIT] * has_visits
    of_day, over_days = _goal_columns(parameters, goals)
    more = _EVENTS + (f", {_VISITS.format(traffic.begins)}" if has_visits else "") + of_day
    some, some_sums = "", ""
    if values is not None:
        chosen = parameters.texts(values)
        some, some_sums = f" and has({chosen}, {by})", f" and has({chosen}, toString(value))"
    counted = (
        "select val, sum(people) as visitors, sum(viewed) as pageviews, sum(acted) as events,"
        f" {_OF_VISITS if has_visits else _NO_VISITS}{over_days}"
        f" from {_daily(parameters, traffic, by, more, columns, goals, some)} group by val"
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
    of_day, over_days = _goal_columns(parameters, goals)
    none = _NO_CONVERSIONS * len(goals)
    daily = _daily(parameters, traffic, bucket.format("ts"), _EVENTS + of_day, (), goals)
    events = (
        "select val as b, sum(people) as visitors, 0 as visits, sum(viewed) as pageviews, sum(acted) as events"
        f"{over_days} from {daily} group by val"
    )
    # A visit counts in the bucket in which it begins, also where no event of it in that bucket matches.
    more, begins_there = "uniqExact((visitor, v_start)) as begun", f" and {traffic.begins}"
    daily = _daily(parameters, traffic, bucket.format("v_start"), more, ["v_start"], also=begins_there)
    visits = f"select val, 0, sum(begun), 0, 0{none} from {daily} group by val"
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
    sums = traffic.sums(field, "toString(value), visits, bounces, if(visits > 0, pageviews, 0), toInt64(duration_ms)")
    daily = _daily(parameters, traffic, f"toString({field})", _VISITS.format(traffic.begins), [field, *_VISIT])
    return (
        "select val, sum(number) as visits, sum(alone), sum(views), sum(ms) from (select val, visits as number, bounces"
        f" as alone, visit_views as views, visit_ms as ms from (select val, {_OF_VISITS} from {daily} group by val)"
        f" where number > 0{sums}){some} group by val order by val = '' desc, visits desc, val"
        f" limit {limit + 1 if values is None else len(values)}"
    )
