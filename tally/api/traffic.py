"""Reports about traffic: key figures, time series, top lists, event names, entry and exit pages, realtime.

Each report is a dataclass of parameters and a function that calls the engine and formats its result; the table that
makes endpoints of them is tally/api/reports.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import Any

from tally.api import comparison, params
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.goals import added, columns, goal_meta
from tally.api.imported import GOAL, INTERVAL, imported_meta
from tally.api.params import Comparison, Ranged, SavedGoal
from tally.engine.values import (
    GOAL_ORDERS,
    LEAVE_ORDERS,
    REALTIME_MS,
    Conversions,
    Leaves,
    Page,
    Scope,
    Stats,
    Top,
    TopQuery,
    TopRow,
    VisitPages,
)
from tally.events.dimensions import FIELDS, PAGES
from tally.reports.figures import KEY_FIGURES, VISIT_FIGURES, changes, rounded
from tally.rounding import ratio, round_half_away
from tally.timeranges import INTERVALS, Bucket, Interval, Range, WeekStart, buckets
from tally.timestamps import BadTime, iso

TIMESERIES_COLUMNS = ("time", "visitors", "visits", "pageviews", "events")
TOP_METRICS = ("visitors", "pageviews", "events")
"""The key figures of a row of a list unless others are requested."""
LEAVE_FIGURES = ("time_on_page", "scroll_depth", "samples")
"""Figures of pages alone, of the views that sent what they measured when they were left."""
TOP_COLUMNS = ("value", *TOP_METRICS)
EVENT_NAME_COLUMNS = ("value", "visitors", "events")
_PAGE_FIELDS = ("pathname", *PAGES)
PAGE_COLUMNS = ("value", "visits", *VISIT_FIGURES)


@dataclass(frozen=True, slots=True)
class StatsParameters(Ranged):
    """Of the key figures; `compare` adds those of another range."""

    compare: Comparison | None = params.comparison()
    goal: SavedGoal | None = params.goal()


@dataclass(frozen=True, slots=True)
class TimeseriesParameters(Ranged):
    """Of a time series."""

    interval: Interval = params.choice("interval", INTERVALS, "day")
    compare: Comparison | None = params.comparison(whole=True)
    goal: SavedGoal | None = params.goal()
    week_start: WeekStart = params.parameter(lambda sent: sent.week_start)


@dataclass(frozen=True, slots=True)
class ListParameters(Ranged):
    """Of a list."""

    limit: int = params.limit(10)


@dataclass(frozen=True, slots=True)
class ComparedListParameters(ListParameters):
    """Of a list; `compare` adds the figures of its values in another range."""

    compare: Comparison | None = params.comparison()


@dataclass(frozen=True, slots=True)
class _RankedParameters(ComparedListParameters):
    """Of lists of values, each with key figures."""

    offset: int = params.offset()
    goal: SavedGoal | None = params.goal()
    metrics: tuple[str, ...] = params.choices("metrics", (*KEY_FIGURES, *LEAVE_FIGURES), TOP_METRICS)
    sort: str = params.list_order("sort", (*KEY_FIGURES, *LEAVE_ORDERS))
    order: str = params.choice("order", ("desc", "asc"))


@dataclass(frozen=True, slots=True)
class TopParameters(_RankedParameters):
    """Of a list of a field's values."""

    field: str = params.path_part("field", (*FIELDS, *PAGES))


@dataclass(frozen=True, slots=True)
class TopListsParameters(_RankedParameters):
    """Of the lists of several fields, for the same range and filters."""

    fields: tuple[str, ...] = params.choices("fields", (*FIELDS, *PAGES))


@dataclass(frozen=True, slots=True)
class RealtimeParameters:
    """Of the present: none but the moment of the request."""

    now_ms: int = params.parameter(lambda sent: sent.now_ms)


async def stats(api: ReadApi, request: ReportRequest[StatsParameters]) -> Answer:
    """Return the seven key figures, and their change against another range if requested."""
    goal = request.parameters.goal

    async def count(scope: Scope, other: Scope | None) -> Sequence[tuple[Stats, Conversions | None]]:
        scopes = [scope, *([other] if other else [])]
        if goal is None:
            return [(counted, None) for counted in await api.reports.stats(scopes, request.requester)]
        return await api.reports.goal_stats(scopes, goal.goal, request.requester)

    meta, both = await comparison.compared(api, request, ["total"], count)
    data, *before = [dict[str, Any](rounded(figures)) for figures, _ in both]
    if before:
        data |= {"previous": before[0], "change": changes(both[0][0], both[1][0])}
    for into, (figures, converted) in zip((data, *before), both, strict=True):
        into.update({} if goal is None or converted is None else added(goal, converted, figures.visitors))
    return Answer(request.meta() | {"compare": None} | meta | goal_meta(goal), data=data)


async def timeseries(api: ReadApi, request: ReportRequest[TimeseriesParameters]) -> Answer:
    """Return figures by local minute, hour, day, week or month; with `compare`, next to those of another range."""
    parameters = request.parameters
    scope, (meta, compared) = (
        request.scope,
        comparison.other(request, parameters.compare) if parameters.compare else (dict[str, Any](), None),
    )
    if parameters.interval not in ("minute", "hour"):
        scope, compared = (
            comparison.counting_sums(request, scope),
            compared and comparison.counting_sums(request, compared),
        )
    meta |= request.meta() | {"interval": parameters.interval} | goal_meta(parameters.goal)
    if parameters.interval == "week":
        meta["week_start"] = parameters.week_start
    reason = GOAL if parameters.goal else "" if scope.whole_days else INTERVAL
    of_sums = partial(imported_meta, api, request, fields=["total"], reason=reason)
    meta |= await of_sums(scope)
    data = await _series(api, request, scope, parameters.range)
    names = columns(TIMESERIES_COLUMNS, parameters.goal)
    if compared is None:
        return Answer(meta, (tuple(row.values()) for row in data), data, names)
    meta |= await of_sums(compared, name="previous_imported")
    other = replace(parameters.range, from_ms=compared.from_ms, to_ms=compared.to_ms, days=None)
    at_fault = "compare_from" if parameters.compare and parameters.compare.kind == "custom" else "compare"
    before: list[dict[str, Any]] = await _series(api, request, compared, other, at_fault)
    # The first bucket beside the first; a longer range to compare with is cut.
    pairs = list(zip_longest(data, before[: len(data)]))
    rows = ((*row.values(), *(older or dict.fromkeys(names)).values()) for row, older in pairs)
    both = (*names, *(f"previous_{name}" for name in names))
    return Answer(meta, rows, [row | {"previous": older} for row, older in pairs], both)


async def _series(
    api: ReadApi, request: ReportRequest[TimeseriesParameters], scope: Scope, span: Range, field: str = ""
) -> list[dict[str, Any]]:
    series = buckets_of(span, request.parameters.interval, field, request.parameters.week_start)
    spans = [(bucket.from_ms, bucket.to_ms) for bucket in series]
    goal, converted = request.parameters.goal, list[Conversions]()
    counted: Sequence[Sequence[int]]
    if goal is None:
        counted = await api.reports.timeseries(scope, spans, request.requester)
    else:
        rows = await api.reports.goal_timeseries(scope, goal.goal, spans, request.requester)
        counted, converted = [row for row, _ in rows], [conversions for _, conversions in rows]
    # Names written out take a quarter of the time of a generic conversion; a year has 8,760 hours.
    data: list[dict[str, Any]] = [
        {"time": bucket.time, "visitors": visitors, "visits": visits, "pageviews": views, "events": events}
        for bucket, (visitors, visits, views, events) in zip(series, counted, strict=True)
    ]
    if goal is not None:
        for row, conversions in zip(data, converted, strict=True):
            row |= added(goal, conversions, row["visitors"])
    return data


def buckets_of(span: Range, interval: Interval, field: str = "", week_start: WeekStart = "monday") -> list[Bucket]:
    """Return the buckets of a range. Raises ApiError 400 for `field` where they are too many."""
    try:
        return buckets(span, interval, week_start=week_start)
    except BadTime as bad:
        raise params.invalid(field or bad.field, f"{bad}.") from None


async def top(api: ReadApi, request: ReportRequest[TopParameters]) -> Answer:
    """Return the values of a field with the most visitors, or in another order; with `compare`, also their figures in
    another range."""
    own, goal = request.parameters, request.parameters.goal
    meta, (found,) = await _lists(api, request, [own.field])
    meta |= {"field": own.field} | found
    data = meta.pop("data")
    names = columns(("value", *own.metrics), goal)
    if own.compare is None:
        return Answer(meta, (tuple(row.values()) for row in data), data, names)
    rows = ((*list(row.values())[:-1], *row["previous"].values()) for row in data)
    return Answer(meta, rows, data, (*names, *(f"previous_{name}" for name in names[1:])))


async def top_lists(api: ReadApi, request: ReportRequest[TopListsParameters]) -> Answer:
    """Return the lists of several fields, each with `field`, `total`, `unset` and `data` as `top` returns them."""
    fields = request.parameters.fields
    meta, found = await _lists(api, request, fields)
    return Answer(meta, data=[{"field": field} | one for field, one in zip(fields, found, strict=True)])


async def _lists(
    api: ReadApi, request: ReportRequest[Any], fields: Sequence[str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the part of meta about all lists, and of each list `total`, `unset` and `data`."""
    own, goal = request.parameters, request.parameters.goal
    named = {*own.metrics, own.sort}
    has_leaves = not named.isdisjoint(LEAVE_FIGURES)
    if has_leaves and {*fields} != {"pathname"}:
        at_fault = "sort" if own.sort in LEAVE_FIGURES else "metrics"
        raise params.invalid(at_fault, f"{at_fault}: {', '.join(LEAVE_FIGURES)} are figures of the field pathname.")

    async def count(scope: Scope, other: Scope | None) -> list[Top]:
        queries = [
            TopQuery(
                *(field, own.limit, own.offset, other, None if goal is None else goal.goal),
                has_visits=not named <= {*TOP_METRICS, *GOAL_ORDERS, *LEAVE_FIGURES, ""},
                order=own.sort or ("visitors" if own.order == "asc" else ""),
                ascending=own.order == "asc",
                has_leaves=has_leaves,
            )
            for field in fields
        ]
        return await api.reports.top(scope, queries, request.requester)

    meta, found = await comparison.compared(api, request, fields, count)
    meta |= request.meta() | {"limit": own.limit, "offset": own.offset}
    if own.sort or own.order:
        meta |= {"sort": own.sort or "visitors", "order": own.order or "desc"}
    lists, pages = list[dict[str, Any]](), list[dict[str, Any]]()
    for field, one in zip(fields, found, strict=True):
        unset = _shown(one.unset, own.metrics, goal)
        del unset["value"]
        data = [_shown(row, own.metrics, goal) for row in one.rows]
        lists.append({"total": one.total, "unset": unset, "data": data})
        if field in _PAGE_FIELDS:
            pages += data
    await _add_titles(api, request, pages)
    return meta | goal_meta(goal), lists


async def _add_titles(api: ReadApi, request: ReportRequest[Any], rows: Sequence[dict[str, Any]]) -> None:
    """Add `title` to the rows of pages that have one.

    CSV has none, and share links show none: a title may say what only the owner should see.
    """
    if rows and not request.csv and not request.view.is_shared:
        pages = sorted({row["value"] for row in rows})
        titles = await api.reports.page_titles(request.website.number, pages, request.requester)
        for row in rows:
            if row["value"] in titles:
                row["title"] = titles[row["value"]]


def _shown(row: TopRow, metrics: Sequence[str], goal: SavedGoal | None) -> dict[str, Any]:
    """Return a row of a list, with the previous figures where there are any."""
    shown: dict[str, Any] = {"value": row.value} | _metrics(row.figures, row.conversions, row.leaves, metrics, goal)
    if row.previous is not None:
        shown["previous"] = _metrics(row.previous, row.previous_conversions, row.previous_leaves, metrics, goal)
    return shown


def _metrics(
    of: Stats, converted: Conversions | None, left: Leaves | None, metrics: Sequence[str], goal: SavedGoal | None
) -> dict[str, Any]:
    # Without ratios there is nothing to round: a tenth of the time.
    known: dict[str, Any] = of._asdict() if set(metrics).issubset(Stats._fields) else {**rounded(of), **_left(left)}
    more = {} if goal is None or converted is None else added(goal, converted, of.visitors)
    return {name: known[name] for name in metrics} | more


def _left(of: Leaves | None) -> dict[str, Any]:
    """Return LEAVE_FIGURES: seconds, percent, and the number of views; None where there are none."""
    if of is None:
        return dict.fromkeys(LEAVE_FIGURES)
    seconds = round_half_away(Fraction(of.median_ms, 1000), 0) if of.samples else None
    return dict(zip(LEAVE_FIGURES, (seconds, ratio(of.reached, of.samples, 100), of.samples), strict=True))


async def event_names(api: ReadApi, request: ReportRequest[ComparedListParameters]) -> Answer:
    """Return the names of custom events with the most visitors."""
    limit = request.parameters.limit

    async def count(scope: Scope, other: Scope | None) -> list[Top]:
        return await api.reports.top(scope, [TopQuery("event_name", limit, compare=other)], request.requester)

    meta, (found,) = await comparison.compared(api, request, ["event_name"], count)
    rows = [(row.value, row.figures.visitors, row.figures.events) for row in found.rows]
    before = [(row.value, row.previous.visitors, row.previous.events) for row in found.rows if row.previous]
    meta = request.meta() | {"limit": limit} | meta
    return comparison.beside(meta, EVENT_NAME_COLUMNS, ("value",), rows, before if request.parameters.compare else None)


async def entry_pages(api: ReadApi, request: ReportRequest[ComparedListParameters]) -> Answer:
    """Return the pages with which most visits begin."""
    return await _visit_pages(api, request, "entry_page")


async def exit_pages(api: ReadApi, request: ReportRequest[ComparedListParameters]) -> Answer:
    """Return the pages with which most visits end."""
    return await _visit_pages(api, request, "exit_page")


async def _visit_pages(api: ReadApi, request: ReportRequest[ComparedListParameters], field: str) -> Answer:
    limit = request.parameters.limit

    async def count(scope: Scope, other: Scope | None) -> VisitPages:
        return await api.reports.visit_pages(scope, field, limit, request.requester, other)

    meta, found = await comparison.compared(api, request, [field], count)
    meta = request.meta() | {"limit": limit, "unset": {"visits": found.unset}} | meta
    before = None if found.previous is None else [_page(one) for one in found.previous]
    rows = [_page(one) for one in found.rows]
    answer = comparison.beside(meta, PAGE_COLUMNS, ("value",), rows, before)
    data = answer.data or [dict(zip(PAGE_COLUMNS, row, strict=True)) for row in rows]
    await _add_titles(api, request, data)
    return replace(answer, data=data)


def _page(of: Page) -> Sequence[Any]:
    figures = rounded(Stats(visits=of.visits, bounces=of.bounces, visit_views=of.views, visit_ms=of.ms))
    return of.value, of.visits, *(figures[name] for name in VISIT_FIGURES)


async def realtime(api: ReadApi, request: ReportRequest[RealtimeParameters]) -> Answer:
    """Return the visitors of the last minutes and the pages that they are on."""
    now_ms = request.parameters.now_ms
    found = await api.reports.realtime(request.website.number, now_ms, request.requester)
    data = {
        "active_visitors": found.active_visitors,
        "pages": [{"pathname": path, "visitors": visitors} for path, visitors in found.pages],
        "window_seconds": REALTIME_MS // 1000,
    }
    return Answer({"website_id": request.website.id, "time": iso(now_ms)}, data=data)
