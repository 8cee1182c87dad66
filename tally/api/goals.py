"""Goals in reports: their own report, and the figures that `goal` adds to key figures, time series and top lists.

A goal is a saved definition (tally/api/definitions.py): a type and filters, with which the engine counts conversions.
Rates are in percent of the visitors of the same range, bucket or row, with one decimal. A value is an exact decimal
number, written as a text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tally.api import comparison, params
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.params import Comparison, Ranged, SavedGoal
from tally.engine.values import MILLIONTHS, Conversions, GoalFigures, Scope
from tally.rounding import ratio

GOAL_COLUMNS = (
    *("id", "name", "type", "conversions", "visitors", "conversion_rate"),
    *("value", "currency", "without_value"),
)
_OF_GOAL = ("id", "name", "type", "currency")
ADDED_COLUMNS = ("conversions", "converted_visitors", "conversion_rate", "conversion_value")
"""What `goal` adds to every row."""


@dataclass(frozen=True, slots=True)
class GoalsParameters(Ranged):
    """Parameters of the report of all goals: the goals, on which its ETag depends."""

    goals: tuple[SavedGoal, ...] = params.parameter(params.saved_goals)
    compare: Comparison | None = params.comparison()


async def report(api: ReadApi, request: ReportRequest[GoalsParameters]) -> Answer:
    """Return the conversions of each goal, in the order in which they were created."""
    goals = request.parameters.goals
    wanted = [of.goal for of in goals]

    async def count(scope: Scope, other: Scope | None) -> tuple[GoalFigures, GoalFigures | None]:
        found = await api.reports.goals(scope, wanted, request.requester)
        return found, other and await api.reports.goals(other, wanted, request.requester)

    meta, (found, before) = await comparison.compared(api, request, (), count)
    meta |= request.meta() | {"visitors": found.visitors}
    if before is not None:
        meta["previous_visitors"] = before.visitors
    return comparison.beside(meta, GOAL_COLUMNS, _OF_GOAL, _rows(goals, found), before and _rows(goals, before))


def _rows(goals: Sequence[SavedGoal], found: GoalFigures) -> list[Sequence[Any]]:
    return [
        (
            *(of.id, of.name, of.type, counted.events, counted.visitors),
            ratio(counted.visitors, found.visitors, 100),
            *(_value(of, counted), of.currency, None if of.goal.value is None else counted.without_value),
        )
        for of, counted in zip(goals, found.goals, strict=True)
    ]


def added(of: SavedGoal, counted: Conversions, visitors: int) -> dict[str, Any]:
    """Return what a goal adds to a row with some visitors."""
    rate = ratio(counted.visitors, visitors, 100)
    return dict(zip(ADDED_COLUMNS, (counted.events, counted.visitors, rate, _value(of, counted)), strict=True))


def goal_meta(of: SavedGoal | None) -> dict[str, Any]:
    """Return the part of meta about the goal of a request."""
    return {} if of is None else {"goal": {"id": of.id, "name": of.name, "currency": of.currency}}


def _value(of: SavedGoal, counted: Conversions) -> str | None:
    return None if of.goal.value is None else decimal(counted.value)


def decimal(millionths: int) -> str:
    """Return a sum as a decimal number, with two to six decimals: 29.90, 0.000001."""
    whole, rest = divmod(abs(millionths), MILLIONTHS)
    text = f"{rest:06}"
    return f"{'-' * (millionths < 0)}{whole}.{text[:2]}{text[2:].rstrip('0')}"


def columns(own: Sequence[str], of: SavedGoal | None) -> Sequence[str]:
    """Return the columns of a list with those that a goal adds."""
    return own if of is None else (*own, *ADDED_COLUMNS)
