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
    wanted = [saved.goal for saved in goals]

    async def count(scope: Scope, other: Scope | None) -> tuple[GoalFigures, GoalFigures | None]:
        figures = await api.reports.goals(scope, wanted, request.requester)
        return figures, other and await api.reports.goals(other, wanted, request.requester)

    meta, (now, before) = await comparison.compared(api, request, (), count)
    meta |= request.meta() | {"visitors": now.visitors}
    if before is not None:
        meta["previous_visitors"] = before.visitors
    return comparison.beside(meta, GOAL_COLUMNS, _OF_GOAL, _rows(goals, now), before and _rows(goals, before))


def _rows(goals: Sequence[SavedGoal], figures: GoalFigures) -> list[Sequence[Any]]:
    return [
        (
            *(saved.id, saved.name, saved.type, counted.events, counted.visitors),
            ratio(counted.visitors, figures.visitors, 100),
            *(_value(saved, counted), saved.currency, None if saved.goal.value is None else counted.without_value),
        )
        for saved, counted in zip(goals, figures.goals, strict=True)
    ]


def added(goal: SavedGoal, counted: Conversions, visitors: int) -> dict[str, Any]:
    """Return what a goal adds to a row with some visitors."""
    rate = ratio(counted.visitors, visitors, 100)
    return dict(zip(ADDED_COLUMNS, (counted.events, counted.visitors, rate, _value(goal, counted)), strict=True))


def goal_meta(goal: SavedGoal | None) -> dict[str, Any]:
    """Return the part of meta about the goal of a request."""
    return {} if goal is None else {"goal": {"id": goal.id, "name": goal.name, "currency": goal.currency}}


def _value(goal: SavedGoal, counted: Conversions) -> str | None:
    return None if goal.goal.value is None else decimal(counted.value)


def decimal(millionths: int) -> str:
    """Return a sum as a decimal number, with two to six decimals: 29.90, 0.000001."""
    whole, rest = divmod(abs(millionths), MILLIONTHS)
    text = f"{rest:06}"
    return f"{'-' * (millionths < 0)}{whole}.{text[:2]}{text[2:].rstrip('0')}"


def columns(names: Sequence[str], goal: SavedGoal | None) -> Sequence[str]:
    """Return the columns of a list with those that a goal adds."""
    return names if goal is None else (*names, *ADDED_COLUMNS)
