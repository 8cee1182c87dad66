"""Reports about what visitors do: funnels and the values in event_data.

The engine returns counts, and says where those of event_data are not exact (`exact`). Shares are in percent and times
in seconds, both with one decimal, rounded half away from zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tally.api import params
from tally.api.context import Answer, Question, ReadApi
from tally.api.params import Filters, Ranged, Sent
from tally.events.validation import MOST_EVENT_DATA_BYTES
from tally.reports.engine import FILTERS, MAX_STEPS, MIN_STEPS
from tally.reports.event_data import PERCENTILES, Numbers
from tally.rounding import ratio

FUNNEL_COLUMNS = ("field", "value", "visits", "visitors", "of_first", "of_previous", "mean_seconds")
EVENT_DATA_COLUMNS = ("property", "value", "events", "visitors")
_STEP_FIELDS = ("pathname", "event_name")
_STEP_FORMS = "pathname:/pricing (a view of that page) or event_name:signup (a custom event of that name)"
_MAX_STEP_CHARACTERS = 8_192
# Event names have at most 200 characters (docs/reference/collect-api.md).
_MAX_NAME_CHARACTERS = 200

Step = tuple[str, str]
"""Field and text."""


def _steps(sent: Sent) -> tuple[Step, ...]:
    given = sent.query.getall("step", [])
    if not MIN_STEPS <= len(given) <= MAX_STEPS:
        message = f"step must be sent {MIN_STEPS} to {MAX_STEPS} times, once for each step (got {len(given)})."
        raise params.invalid("step", message)
    return tuple(map(_step, given))


def _step(given: str) -> Step:
    field, _, value = given.partition(":")
    if field not in _STEP_FIELDS or not value or len(value) > _MAX_STEP_CHARACTERS:
        message = f"step must be {_STEP_FORMS}, at most {_MAX_STEP_CHARACTERS} characters (got {params.shown(given)})."
        raise params.invalid("step", message)
    return field, value


@dataclass(frozen=True, slots=True)
class FunnelParameters(Ranged):
    """Of a funnel."""

    steps: tuple[Step, ...] = params.parameter(_steps, "step", is_repeated=True)


@dataclass(frozen=True, slots=True)
class EventDataParameters(Ranged):
    """Of the values in event_data: of one event name, and of one property or all."""

    filters: Filters = params.filter_by([field for field in FILTERS if field != "event_name"])
    limit: int = params.limit(10)
    event_name: str = params.text("event_name", "the name of a custom event", 1, _MAX_NAME_CHARACTERS)
    property: str | None = params.optional_text("property", MOST_EVENT_DATA_BYTES)


async def funnel(api: ReadApi, asked: Question[FunnelParameters]) -> Answer:
    """Return how many visits take some steps one after another, and the mean time between steps."""
    steps = asked.parameters.steps
    found = await api.reports.funnel(asked.scope, steps, asked.requester)
    rows: list[Sequence[Any]] = []
    for n, ((field, value), of) in enumerate(zip(steps, found, strict=True)):
        of_previous = ratio(of.visits, found[n - 1].visits, 100) if n else None
        seconds = ratio(of.ms, of.visits, Fraction(1, 1000)) if n else None
        of_first = ratio(of.visits, found[0].visits, 100)
        rows.append((field, value, of.visits, of.visitors, of_first, of_previous, seconds))
    return Answer(asked.meta(), rows)


async def event_data(api: ReadApi, asked: Question[EventDataParameters]) -> Answer:
    """Return the properties in event_data of a name's events, with their values and numbers."""
    name, only, limit = asked.parameters.event_name, asked.parameters.property, asked.parameters.limit
    found = await api.reports.event_data(asked.scope, name, only, limit, asked.requester)
    meta = asked.meta() | {
        "event_name": name,
        "property": only,
        "limit": limit,
        "events": found.events,
        "visitors": found.visitors,
        "properties": found.properties,
        "exact": found.exact,
    }
    data = [
        {
            "property": of.name,
            "events": of.events,
            "distinct": of.distinct,
            "values": [dict(zip(("value", "events", "visitors"), value, strict=True)) for value in of.values],
            "numbers": None if of.numbers is None else _numbers(of.numbers),
            "exact": of.exact,
        }
        for of in found.first
    ]
    rows = ((of.name, _csv_value(value[0]), *value[1:]) for of in found.first for value in of.values)
    return Answer(meta, rows, data)


def _numbers(of: Numbers) -> dict[str, Any]:
    percentiles = {f"p{percent}": value for percent, value in zip(PERCENTILES, of.percentiles, strict=True)}
    return {"samples": of.samples, "sum": of.sum, "mean": of.mean, "min": of.min, **percentiles, "max": of.max}


def _csv_value(value: Any) -> Any:
    # As JSON writes it; Python would write True.
    return str(value).lower() if isinstance(value, bool) else value
