"""What changed: the values of any field whose figures moved most beyond chance between two ranges.

The engine lists the first values of each field in both ranges, and tally/reports/changes.py finds those that moved. The
cost is bounded: two requests of the engine for the lists, and one for each row that is returned, for what explains it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tally.api import comparison, params
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.goals import added, columns, goal_meta
from tally.api.params import Comparison, Ranged, SavedGoal, Sent
from tally.engine.values import BeyondRetention, Conversions, Scope, Stats, TopQuery, TopRow
from tally.events.filters import Filter
from tally.reports.changes import (
    LOOKED_AT,
    MAX_P_VALUE,
    METRICS,
    Explained,
    Measure,
    Move,
    exchanged,
    explaining,
    explanation,
    moves,
    rows_of,
    without_repeated,
)

MAX_CHANGES = 20
_OF_ROW, _OF_EXPLANATION = ("field", "value"), ("explained_by_field", "explained_by_value")
# Values of each field, of each range.
_ROWS, _EXPLAINING_ROWS = 50, 10


def _columns(goal: SavedGoal | None) -> tuple[str, ...]:
    figures = columns(("visitors",), goal)
    both = (*figures, *(f"previous_{name}" for name in figures))
    return (*_OF_ROW, *both, "p_value", *_OF_EXPLANATION, *(f"explained_by_{name}" for name in both))


CHANGE_COLUMNS = _columns(None)


def _metric(sent: Sent) -> str:
    has_goal = sent.value("goal") is not None
    metric = params.chosen(sent, "metric", METRICS, METRICS[1] if has_goal else METRICS[0])
    if metric != METRICS[0] and not has_goal:
        raise params.invalid("metric", f"metric={metric} needs goal.")
    return metric


@dataclass(frozen=True, slots=True)
class ChangesParameters(Ranged):
    """Of what changed; the range before is compared unless another one is requested."""

    compare: Comparison = params.comparison(default="previous")
    goal: SavedGoal | None = params.goal()
    metric: str = params.parameter(_metric, "metric")
    limit: int = params.limit(5, most=MAX_CHANGES)


async def changes(api: ReadApi, request: ReportRequest[ChangesParameters]) -> Answer:
    """Return the values that moved most beyond chance, each with the value of another field that explains it."""
    parameters, goal = request.parameters, request.parameters.goal

    async def find(scope: Scope, other: Scope | None) -> tuple[list[Explained], int]:
        assert other is not None
        finder = _Finder(api, request, scope, other)
        moves, tested = await finder.moves()
        explained = [(move, await finder.explanation(move)) for move in moves[: parameters.limit]]
        return without_repeated(explained), tested

    meta, (explained_moves, tested) = await comparison.compared(api, request, LOOKED_AT, find)
    meta |= request.meta() | {
        "metric": parameters.metric,
        "limit": parameters.limit,
        "max_p_value": MAX_P_VALUE,
        "tested": tested,
    }
    rows = [(move, _row(move.field, move.row, goal), by and _row(*by, goal)) for move, by in explained_moves]
    data = [row | {"p_value": move.p_value, "explained_by": by} for move, row, by in rows]
    names = _columns(goal)
    csv = ((*_cells(row), move.p_value, *(_cells(by) if by else [None] * len(_cells(row)))) for move, row, by in rows)
    return Answer(meta | goal_meta(goal), csv, data, names)


class _Finder:
    """The moves between the two ranges of a request."""

    def __init__(self, api: ReadApi, request: ReportRequest[ChangesParameters], scope: Scope, other: Scope) -> None:
        self._api, self._request, self._scope, self._other = api, request, scope, other
        self._goal = request.parameters.goal
        lengths = other.to_ms - other.from_ms, scope.to_ms - scope.from_ms
        self._measure = Measure(request.parameters.metric, lengths)

    async def moves(self) -> tuple[list[Move], int]:
        """Return the rows that moved, and how many were tested."""
        # A conversion is an event itself.
        fields = await self._complete([field for field in LOOKED_AT if self._goal is None or field != "event_name"])
        now = await self._top(self._scope, self._other, fields, _ROWS)
        before = await self._top(self._other, self._scope, fields, _ROWS)
        lists = zip(fields, now, before, strict=True)
        return moves(((field, row) for field, *both in lists for row in rows_of(field, *both)), self._measure)

    async def explanation(self, move: Move) -> tuple[str, TopRow] | None:
        """Return the field and row that explain a move; None where none does, or events are missing."""
        if self._measure.is_rate:
            return None
        moved = Filter(move.field, "=", (move.row.value,))
        before, now = (scope._replace(filters=(*scope.filters, moved)) for scope in (self._other, self._scope))
        # The value with most of the change is among the first of the range that has more.
        is_less = self._measure.excess(move.row) < 0
        scopes = (before, now) if is_less else (now, before)
        fields = explaining(move.field)
        if not await self._complete(fields, scopes):
            return None
        try:
            lists = await self._top(*scopes, fields, _EXPLAINING_ROWS)
        except BeyondRetention:
            # Unfiltered figures are kept longer.
            return None
        rows = [(field, row) for field, top in zip(fields, lists, strict=True) for row in top.rows]
        return explanation(
            move.row, [(field, exchanged(row) if is_less else row) for field, row in rows], self._measure
        )

    async def _top(self, scope: Scope, other: Scope, fields: Sequence[str], limit: int) -> Any:
        goal = None if self._goal is None else self._goal.goal
        queries = [TopQuery(field, limit, compare=other, goal=goal) for field in fields]
        return await self._api.reports.top(scope, queries, self._request.requester) if queries else []

    async def _complete(self, fields: list[str], scopes: Sequence[Scope] = ()) -> list[str]:
        """Return the fields that all days of the ranges have. Sums of another system lack some, and filters all."""
        if not self._request.website.has_sums:
            return fields
        for scope in scopes or (self._scope, self._other):
            days = await self._api.reports.imported_days(scope, fields, self._request.requester)
            if days is not None:
                counted = sum(last - first + 1 for first, last in days.counted)
                fields = [field for field in fields if counted == days.days == days.by_field.get(field, 0)]
        return fields


def _row(field: str, row: TopRow, goal: SavedGoal | None) -> dict[str, Any]:
    return {
        **{"field": field, "value": row.value},
        **_figures(row.figures, row.conversions, goal),
        "previous": _figures(row.previous or Stats(), row.previous_conversions, goal),
    }


def _figures(stats: Stats, converted: Conversions | None, goal: SavedGoal | None) -> dict[str, Any]:
    more = {} if goal is None or converted is None else added(goal, converted, stats.visitors)
    return {"visitors": stats.visitors} | more


def _cells(row: dict[str, Any]) -> list[Any]:
    *values, previous = row.values()
    return [*values, *previous.values()]
