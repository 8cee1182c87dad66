"""SQL of what visits do in order, funnels and journeys, and of what the event_data of events holds.

Funnels and journeys count the visits that begin in the range and have an event in E, over their whole lives. Their
events are in the order of (timestamp, id).
"""

from collections.abc import Sequence

from tally.clickhouse.client import Parameters
from tally.clickhouse.visits import IS_VIEW, PROPERTIES, Traffic, columns_of, condition
from tally.engine.values import END, OTHER_STEPS, STEP_FIELDS, Direction, FunnelStep, JourneyStep

_PATHNAME, _EVENT_NAME = STEP_FIELDS


def funnel(parameters: Parameters, traffic: Traffic, steps: Sequence[FunnelStep]) -> str:
    """Return SQL of one row: visits, visitors and milliseconds since the step before, of each step."""
    columns = {"v_start", *STEP_FIELDS}
    reached = [_is_step(parameters, step) for step in steps]
    bits = [f"bitShiftLeft(toUInt16({is_step}), {n})" for n, is_step in enumerate(reached)]
    first = traffic.visitors_with(reached[0], {*STEP_FIELDS, *columns_of(steps[0].filters or ())})
    for step in steps:
        columns |= columns_of(step.filters or ())
    places, found, before = list[str](), list[str](), ""
    for n in range(len(steps)):
        after = f" and {before} > 0 and i > {before}" if before else ""
        places.append(f"arrayFirstIndex((x, i) -> bitTest(x.3, {n}){after}, v, arrayEnumerate(v)) as i{n}")
        ms = f"sumIf(v[i{n}].1 - v[{before}].1, i{n} > 0)" if before else "0"
        found.append(f"countIf(i{n} > 0), uniqExactIf((day, visitor), i{n} > 0), {ms}")
        before = f"i{n}"
    # The events that are no step are omitted: they advance no visit.
    return (
        f"select {', '.join(found)} from (select day, visitor, v, {', '.join(places)} from (select day, visitor,"
        " arraySort(groupArrayIf((ts, id, bits), bits > 0)) as v, max(matches) as counts"
        f" from (select day, visitor, v_start, ts, id, {' + '.join(bits)} as bits,"
        f" {traffic.matches(parameters)} as matches from {traffic.source(columns)} where {traffic.begins} and {first})"
        " group by day, visitor, v_start) where counts)"
    )


def _is_step(parameters: Parameters, step: FunnelStep) -> str:
    if step.filters is not None:
        return condition(step.filters, parameters)
    is_kind = IS_VIEW if step.field == _PATHNAME else f"not {IS_VIEW}"
    return f"({is_kind} and toString({step.field}) = {parameters.text(step.text)})"


def _journeys(
    parameters: Parameters, traffic: Traffic, start: tuple[str, str], direction: Direction, steps: int
) -> str:
    """Return SQL of a row for each journey: `path`, the steps (field, text) after the start, in the direction."""
    step = f"if({IS_VIEW}, ('{_PATHNAME}', toString(pathname)), ('{_EVENT_NAME}', toString(event_name)))"
    place = f"indexOf(all_steps, ({', '.join(map(parameters.text, start))}))"
    starts = traffic.visitors_with(_is_step(parameters, FunnelStep(*start)), STEP_FIELDS)
    path = f"arraySlice(all_steps, place + 1, {steps})"
    if direction == "previous":
        path = f"arraySlice(arrayReverse(arraySlice(all_steps, 1, place - 1)), 1, {steps})"
    return (
        f"select {path} as path from (select arrayCompact(arrayMap(x -> x.3, arraySort(x -> (x.1, x.2),"
        f" groupArrayIf((ts, id, step), step.2 != '')))) as all_steps, {place} as place, max(matches) as counts"
        f" from (select day, visitor, v_start, ts, id, {step} as step, {traffic.matches(parameters)} as matches"
        f" from {traffic.source(['v_start', *STEP_FIELDS])} where {traffic.begins} and {starts})"
        " group by day, visitor, v_start) where counts and place > 0"
    )


def journey_steps(
    parameters: Parameters, traffic: Traffic, start: tuple[str, str], direction: Direction, steps: int, limit: int
) -> str:
    """Return SQL of (number of a step, field, text): the first `limit` of each by visits, field and text."""
    return (
        "select n, step.1, step.2 from (select n, step, count() as visits"
        f" from (select arrayJoin(arrayZip(arrayEnumerate(path), path)) as one, one.1 as n, one.2 as step"
        f" from ({_journeys(parameters, traffic, start, direction, steps)})) group by n, step)"
        f" order by n, visits desc, step limit {limit} by n"
    )


def journey_links(
    parameters: Parameters,
    traffic: Traffic,
    start: tuple[str, str],
    direction: Direction,
    shown: Sequence[Sequence[tuple[str, str]]],
) -> str:
    """Return SQL of (number of a step, begin, end, visits) between the shown steps, which are by number."""
    steps = len(shown)
    known, first = parameters.steps(shown), f"({', '.join(map(parameters.text, start))})"
    named = f"arrayMap((x, n) -> if(has({known}[n], x), x, {_written(OTHER_STEPS)}), path, arrayEnumerate(path))"
    return (
        "select n, begin, end, count() as visits from (select arrayJoin(arrayZip(arrayEnumerate(ends),"
        f" arrayPushFront(arrayPopBack(ends), {first}), ends)) as link, link.1 as n, link.2 as begin, link.3 as end"
        f" from (select if(length(path) < {steps}, arrayPushBack({named}, {_written(END)}), {named}) as ends"
        f" from ({_journeys(parameters, traffic, start, direction, steps)}))) group by n, begin, end"
    )


def _written(step: JourneyStep) -> str:
    return f"('{step.field}', '{step.value}')"


def event_data(parameters: Parameters, traffic: Traffic, name: str, only: str | None) -> str:
    """Return SQL of (property, value, events, visitors); of the events themselves the property and value are ""."""
    pairs = "arrayMap((key, value) -> (toString(key), value), prop_keys, prop_values)"
    shown = "1" if only is None else f"(pair = ('', '') or pair.1 = {parameters.text(only)})"
    return (
        f"select pair.1 as name, pair.2 as value, count(), uniqExact((day, visitor)) from (select day, visitor,"
        f" arrayJoin(arrayPushFront({pairs}, ('', ''))) as pair from {traffic.source(['event_name', *PROPERTIES])}"
        f" where {traffic.matches(parameters)} and not {IS_VIEW} and event_name = {parameters.text(name)})"
        f" where {shown} group by name, value"
    )
