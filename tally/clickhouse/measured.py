"""SQL of what browsers measured: web vitals, what was measured when pages were left, experiments and heatmaps.

Percentiles, shares and p-values are computed in Python, by the code of the SQLite engine, from how often each value
occurs. Measurements have dimensions of their own and belong to no visit.
"""

from collections.abc import Sequence

from tally.clickhouse.client import Parameters
from tally.clickhouse.visits import Traffic, condition, of_days
from tally.engine.values import Leaves
from tally.events.validation import AB_ASSIGN, AB_CONVERT, LEAVE, METRICS, VITALS
from tally.reports.experiments import MAX_EXPERIMENTS, MAX_GOALS, MAX_VARIANTS
from tally.rollups.heatmap_grid import CLICK, SCROLL
from tally.rollups.web_vitals import REACHED, limits_of

_ASSIGNED = "if(converted, 0, visitors)"
_IS_MEASURED = f"({' or '.join(f'isNotNull({metric})' for metric in METRICS)})"


def matching(parameters: Parameters, traffic: Traffic, type_: int) -> str:
    """Return `from ... where` of the measurements of a type that match the scope."""
    source = f"(select * from {traffic.place('measure')} and type = {type_}{latest(type_)})"
    return (
        f"from {source} where {traffic.in_range} and {condition(traffic.scope.filters, parameters, of_measures=True)}"
    )


def latest(type_: int) -> str:
    """Return what chooses the row of a leave with its greatest values; nothing for other types."""
    return " order by time_on_page desc, scroll_depth desc limit 1 by id" if type_ == LEAVE else ""


def leaves(parameters: Parameters, traffic: Traffic, field: str, values: Sequence[str] | None = None) -> str:
    """Return SQL of (val, the fields of Leaves) by a field; of some values, or of all."""
    some = "" if values is None else f" and has({parameters.texts(values)}, {field})"
    names = Leaves._fields
    return (
        f"select toString({field}) as val, count() as {names[0]}, arraySort(groupArray(assumeNotNull(time_on_page)))"
        f"[intDiv({names[0]} + 1, 2)] as {names[1]}, countIf(assumeNotNull(scroll_depth) > {REACHED}) as {names[2]}"
        f" {matching(parameters, traffic, LEAVE)}{some} group by val"
    )


def vitals(
    parameters: Parameters, traffic: Traffic, by: str, metrics: Sequence[str], values: Sequence[str] | None
) -> str:
    """Return SQL of (group, metric, value, number), by value. by: SQL of the group; values: some groups, or all."""
    some = "" if values is None else f" and has({parameters.texts(values)}, toString({by}))"
    pairs = ", ".join(f"('{metric}', {metric})" for metric in metrics)
    return (
        f"select own, pair.1 as metric, assumeNotNull(pair.2) as value, count() from (select {by} as own,"
        f" arrayJoin([{pairs}]) as pair {matching(parameters, traffic, VITALS)}{some})"
        " where isNotNull(pair.2) group by own, metric, value order by value"
    )


def poorest(parameters: Parameters, traffic: Traffic, field: str, metric: str, limit: int) -> str:
    """Return SQL of (value of a field, events): the first ones by poor values of a metric, events and text."""
    return (
        f"select toString({field}) as val, count() as events {matching(parameters, traffic, VITALS)}"
        f" and {_IS_MEASURED} and {field} != '' group by val"
        f" order by countIf(ifNull({metric} > {limits_of(metric)[1]}, 0)) desc, events desc, val limit {limit}"
    )


def trials(parameters: Parameters, traffic: Traffic, limit: int) -> str:
    """Return SQL of the first rows (day, experiment, variant, 1 of conversions, goal, visitors) of all experiments."""
    return f"{_trials(parameters, traffic)} order by all limit {limit}"


def largest_experiments(parameters: Parameters, traffic: Traffic) -> str:
    """Return SQL of (experiment, number of variants, of goals, of experiments): the first ones by visitors and name."""
    return (
        f"select name, uniqExact(arm), uniqExactIf(reached, converted), count() over ()"
        f" from ({_trials(parameters, traffic)}) group by name order by sum({_ASSIGNED}) desc, name"
        f" limit {MAX_EXPERIMENTS}"
    )


def trials_of(parameters: Parameters, traffic: Traffic, experiments: Sequence[str]) -> str:
    """Return SQL of the rows of some experiments, of the variants and goals with the most visitors of each."""
    rows = f"select * from ({_trials(parameters, traffic)}) where has({parameters.texts(experiments)}, name)"
    arms = (
        f"select name, arm from ({rows}) group by name, arm"
        f" order by sum({_ASSIGNED}) desc, arm limit {MAX_VARIANTS} by name"
    )
    goals = (
        f"select name, reached from ({rows}) where converted group by name, reached"
        f" order by sum(visitors) desc, reached limit {MAX_GOALS} by name"
    )
    return (
        f"select * from ({rows}) where (name, arm) in ({arms})"
        f" and (not converted or (name, reached) in ({goals})) order by all"
    )


def numbers_of_trials(parameters: Parameters, traffic: Traffic, experiments: Sequence[str]) -> str:
    """Return SQL of (experiment, number of rows of `trials_of`)."""
    return f"select name, count() from ({trials_of(parameters, traffic, experiments)}) group by name"


def _trials(parameters: Parameters, traffic: Traffic) -> str:
    """Return SQL of the rows of all experiments.

    A visitor's variant is that of the first assignment of the day; filters apply to the assignment.
    """
    is_assigned = f"type = {AB_ASSIGN} and variant != ''"
    matches = condition(traffic.scope.filters, parameters, of_measures=True)
    return (
        "select day, name, arm, what.1 as converted, what.2 as reached, count() as visitors"
        " from (select day, name, arm,"
        " arrayJoin(arrayPushFront(arrayMap(x -> (toUInt8(1), x), goals), (toUInt8(0), ''))) as what"
        " from (select day, toString(experiment) as name, visitor,"
        f" argMinIf(toString(variant), (ts, id), {is_assigned}) as arm,"
        f" groupUniqArrayIf(toString(goal), type = {AB_CONVERT} and {traffic.in_range}) as goals"
        f" from {traffic.place('measure')} and type in ({AB_ASSIGN}, {AB_CONVERT}) and experiment != ''"
        f" group by day, name, visitor having countIf({is_assigned} and {traffic.in_range} and {matches}) > 0))"
        " group by day, name, arm, converted, reached"
    )


def _heat(website: int, days: range, widths: Sequence[int]) -> str:
    return f"from heat where {of_days(website, days)} and has({sorted(widths)}, width)"


def clicks(parameters: Parameters, website: int, pathname: str, days: range, widths: Sequence[int], limit: int) -> str:
    """Return SQL of (column, row, clicks, cells, clicks of all cells), most clicks first."""
    return (
        f"select x, y, sum(points) as clicks, count() over (), sum(clicks) over () {_heat(website, days, widths)}"
        f" and pathname = {parameters.text(pathname)} and kind = {CLICK} group by x, y order by clicks desc, y, x"
        f" limit {limit}"
    )


def depths(parameters: Parameters, website: int, pathname: str, days: range, widths: Sequence[int]) -> str:
    """Return SQL of (row, pageviews that were scrolled to it)."""
    return (
        f"select y, sum(points) {_heat(website, days, widths)} and pathname = {parameters.text(pathname)}"
        f" and kind = {SCROLL} group by y"
    )


def heatmap_pages(website: int, days: range, widths: Sequence[int], limit: int) -> str:
    """Return SQL of (page, samples, clicks): those without a page, if there are any, and the first pages."""
    return (
        f"select toString(pathname) as val, sumIf(points, kind = {SCROLL}) as samples,"
        f" sumIf(points, kind = {CLICK}) as clicks {_heat(website, days, widths)} group by val"
        f" order by val = '' desc, samples + clicks desc, val limit {limit + 1}"
    )
