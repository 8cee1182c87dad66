"""Reports about what visitors do: funnels, journeys and the values in event_data.

The engine returns counts; `exact` is false for those of event_data that are not exact. Shares are in percent and times
in seconds, both with one decimal, rounded half away from zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tally.api import comparison, params
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.params import Comparison, Filters, Ranged, SavedFilters, Sent
from tally.engine.values import DATA_PERCENTILES as PERCENTILES
from tally.engine.values import (
    FILTERS,
    MAX_JOURNEY_STEPS,
    MAX_STEPS,
    MIN_STEPS,
    STEP_FIELDS,
    Direction,
    FunnelStep,
    Link,
    Numbers,
    Reached,
    Scope,
)
from tally.events.dimensions import FIELDS, PAGES
from tally.events.filters import Filter, stored_form
from tally.events.validation import MAX_EVENT_DATA_BYTES
from tally.reports.significance import has_enough, pooled_p_value
from tally.rounding import ratio

FUNNEL_COLUMNS = ("field", "value", "visits", "visitors", "of_first", "of_previous", "mean_seconds")
_OF_STEP = ("field", "value")
JOURNEY_COLUMNS = ("step", "from_field", "from_value", "field", "value", "visits")
EVENT_DATA_COLUMNS = ("property", "value", "events", "visitors")
_STEP_FORMS = "pathname:/pricing (a view of that page) or event_name:signup (a custom event of that name)"
_FUNNEL_FORMS = f"{_STEP_FORMS}, or goal: and the id of a goal"
_GOAL = "goal"
_MAX_STEP_CHARACTERS = 8_192
# Event names have at most 200 characters (docs/reference/collect-api.md).
_MAX_NAME_CHARACTERS = 200

_WITHOUT_NAME = [field for field in FILTERS if field != "event_name"]

Step = tuple[str, str]
"""Field and text."""


def _steps(sent: Sent) -> tuple[FunnelStep, ...]:
    goals = {goal.id: goal.goal.filters for goal in params.saved_goals(sent)}
    steps = []
    for field, value in check_steps(sent.query.getall("step", [])):
        if field == _GOAL and value not in goals:
            message = f"goal: must be followed by the id of a goal of this website (got {params.shown(value)})."
            raise params.invalid("step", message)
        steps.append(FunnelStep(field, value, goals[value] if field == _GOAL else None))
    return tuple(steps)


def check_steps(texts: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps of a funnel, each written field:text or goal:id. Raises ApiError 400."""
    if not MIN_STEPS <= len(texts) <= MAX_STEPS:
        message = f"step must be sent {MIN_STEPS} to {MAX_STEPS} times, once for each step (got {len(texts)})."
        raise params.invalid("step", message)
    return tuple(_step(text, "step", (*STEP_FIELDS, _GOAL), _FUNNEL_FORMS) for text in texts)


def _step(text: str, name: str, fields: Sequence[str] = STEP_FIELDS, forms: str = _STEP_FORMS) -> Step:
    field, _, value = text.partition(":")
    value = stored_form(field, value)
    if field not in fields or not value or len(value) > _MAX_STEP_CHARACTERS:
        message = f"{name} must be {forms}, at most {_MAX_STEP_CHARACTERS} characters (got {params.shown(text)})."
        raise params.invalid(name, message)
    return field, value


def _start(sent: Sent) -> Step:
    start = sent.value("start")
    if start is None:
        raise params.invalid("start", f"start is required: {_STEP_FORMS}.")
    return _step(start, "start")


def _against(sent: Sent) -> Filter | None:
    """Return the filter of the visits to compare with; it takes the place of those of its field."""
    against = sent.value("against")
    if against is None:
        return None
    if sent.value("compare") is not None:
        raise params.invalid("against", "against takes the place of compare: send one of both.")
    field, colon, value = against.partition(":")
    if not colon or field not in (*FIELDS, *PAGES):
        raise params.invalid(
            "against", f"against must be <field>:<value> of a dimension (got {params.shown(against)})."
        )
    return params.parse_filters([f"filter_{field}={value}"])[0]


@dataclass(frozen=True, slots=True)
class FunnelParameters(Ranged):
    """Of a funnel."""

    steps: tuple[FunnelStep, ...] = params.parameter(_steps, "step", is_repeated=True)
    compare: Comparison | None = params.comparison()
    against: Filter | None = params.parameter(_against, "against")


@dataclass(frozen=True, slots=True)
class JourneysParameters(Ranged):
    """Of journeys: from which step, which way, how far, and how many places at each step."""

    limit: int = params.limit(5, most=20)
    start: Step = params.parameter(_start, "start")
    direction: Direction = params.choice("direction", ("next", "previous"), "next")
    steps: int = params.number("steps", 1, MAX_JOURNEY_STEPS, 3)
    compare: Comparison | None = params.comparison()


@dataclass(frozen=True, slots=True)
class EventDataParameters(Ranged):
    """Of the values in event_data: of one event name, and of one property or all."""

    filters: Filters = params.filter_by(_WITHOUT_NAME)
    saved: tuple[SavedFilters, ...] = params.saved_filters(_WITHOUT_NAME)
    limit: int = params.limit(10)
    event_name: str = params.text("event_name", "the name of a custom event", 1, _MAX_NAME_CHARACTERS)
    property: str | None = params.optional_text("property", MAX_EVENT_DATA_BYTES)


async def funnel(api: ReadApi, request: ReportRequest[FunnelParameters]) -> Answer:
    """Return how many visits take some steps one after another, and the mean time between steps."""
    steps = request.parameters.steps

    async def count(scope: Scope, other: Scope | None) -> tuple[list[Reached], list[Reached] | None]:
        if (against := request.parameters.against) is not None:
            filters = (
                *(filter_ for filter_ in scope.filters if filter_.field != against.field),
                *request.view.filters,
                against,
            )
            other = scope._replace(filters=filters)
        reached = await api.reports.funnel(scope, steps, request.requester)
        return reached, other and await api.reports.funnel(other, steps, request.requester)

    meta, (reached_now, before) = await comparison.compared(api, request, (), count)
    meta |= request.meta()
    if before is None:
        return Answer(meta, _reached(steps, reached_now))
    against = request.parameters.against
    meta |= {} if against is None else {"against": f"{against.field}:{against.values[0]}"}
    answer = comparison.beside(meta, FUNNEL_COLUMNS, _OF_STEP, _reached(steps, reached_now), _reached(steps, before))
    p_values = [_p_value(*both, reached_now[0], before[0]) for both in zip(reached_now, before, strict=True)]
    return replace(
        answer,
        data=[row | {"p_value": p_value} for row, p_value in zip(answer.data, p_values, strict=True)],
        rows=[(*row, p_value) for row, p_value in zip(answer.rows, p_values, strict=True)],
        columns=(*answer.columns, "p_value"),
    )


def _p_value(now: Reached, before: Reached, first: Reached, first_before: Reached) -> float | None:
    """Return the p-value of equal parts of the first step's visits; None where either has too few for a test."""
    counts, wholes = (now.visits, before.visits), (first.visits, first_before.visits)
    if not all(map(has_enough, counts, wholes)):
        return None
    return pooled_p_value(counts, wholes)


def _reached(steps: Sequence[FunnelStep], reached: Sequence[Reached]) -> list[Sequence[Any]]:
    """Return the rows of FUNNEL_COLUMNS."""
    rows: list[Sequence[Any]] = []
    for n, ((field, value, _), counted) in enumerate(zip(steps, reached, strict=True)):
        of_previous = ratio(counted.visits, reached[n - 1].visits, 100) if n else None
        seconds = ratio(counted.ms, counted.visits, Fraction(1, 1000)) if n else None
        of_first = ratio(counted.visits, reached[0].visits, 100)
        rows.append((field, value, counted.visits, counted.visitors, of_first, of_previous, seconds))
    return rows


async def journeys(api: ReadApi, request: ReportRequest[JourneysParameters]) -> Answer:
    """Return between which pages and events visits go, step by step, from a page or an event on, or before it."""
    parameters = request.parameters

    async def count(scope: Scope, other: Scope | None) -> tuple[list[Link], list[Link] | None]:
        links = await api.reports.journeys(
            scope, parameters.start, parameters.direction, parameters.steps, parameters.limit, request.requester
        )
        if other is None:
            return links, None
        # The sum of the first step is the same for any limit.
        return links, await api.reports.journeys(other, parameters.start, parameters.direction, 1, 1, request.requester)

    of_ranges, (links, before) = await comparison.compared(api, request, (), count)
    rows = [
        (
            link.step,
            link.begin.field or None,
            link.begin.value or None,
            link.end.field or None,
            link.end.value or None,
            link.visits,
        )
        for link in links
    ]
    meta = {
        "start": ":".join(parameters.start),
        "direction": parameters.direction,
        "steps": parameters.steps,
        "limit": parameters.limit,
        "visits": _begun(links),
    }
    more = {} if before is None else {"previous_visits": _begun(before)}
    return Answer(request.meta() | of_ranges | meta | more, rows)


def _begun(links: Sequence[Link]) -> int:
    return sum(link.visits for link in links if link.step == 1)


async def event_data(api: ReadApi, request: ReportRequest[EventDataParameters]) -> Answer:
    """Return the properties in event_data of a name's events, with their values and numbers."""
    name, only, limit = request.parameters.event_name, request.parameters.property, request.parameters.limit
    report = await api.reports.event_data(request.scope, name, only, limit, request.requester)
    meta = request.meta() | {
        "event_name": name,
        "property": only,
        "limit": limit,
        "events": report.events,
        "visitors": report.visitors,
        "properties": report.properties,
        "exact": report.exact,
    }
    data = [
        {
            "property": property_.name,
            "events": property_.events,
            "distinct": property_.distinct,
            "values": [dict(zip(("value", "events", "visitors"), value, strict=True)) for value in property_.values],
            "numbers": None if property_.numbers is None else _numbers(property_.numbers),
            "exact": property_.exact,
        }
        for property_ in report.first
    ]
    rows = (
        (property_.name, _csv_value(value[0]), *value[1:]) for property_ in report.first for value in property_.values
    )
    return Answer(meta, rows, data)


def _numbers(numbers: Numbers) -> dict[str, Any]:
    percentiles = {f"p{percent}": value for percent, value in zip(PERCENTILES, numbers.percentiles, strict=True)}
    return {
        "samples": numbers.samples,
        "sum": numbers.sum,
        "mean": numbers.mean,
        "min": numbers.min,
        **percentiles,
        "max": numbers.max,
    }


def _csv_value(value: Any) -> Any:
    # As JSON writes it; Python would write True.
    return str(value).lower() if isinstance(value, bool) else value
