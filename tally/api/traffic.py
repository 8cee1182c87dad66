"""Reports about traffic: key figures, time series, top lists, event names, entry and exit pages, realtime.

Each report is a dataclass of parameters and a function that calls the engine and formats its result; the table that
makes endpoints of them is tally/api/reports.py.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

from tally.api import params
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.goals import added, columns, goal_meta
from tally.api.imported import GOAL, INTERVAL, imported_meta, with_sums
from tally.api.params import Comparison, Ranged, SavedGoal
from tally.engine.values import REALTIME_MS, BeyondRetention, Conversions, Page, Scope, Stats, Top, TopQuery, TopRow
from tally.events.dimensions import FIELDS, PAGES
from tally.reports.figures import KEY_FIGURES, VISIT_FIGURES, changes, rounded
from tally.timeranges import INTERVALS, Bucket, Interval, Range, WeekStart, buckets
from tally.timestamps import BadTime, iso

T = TypeVar("T")

TIMESERIES_COLUMNS = ("time", "visitors", "visits", "pageviews", "events")
TOP_METRICS = ("visitors", "pageviews", "events")
"""The key figures of a row of a list unless others are requested."""
TOP_COLUMNS = ("value", *TOP_METRICS)
EVENT_NAME_COLUMNS = ("value", "visitors", "events")
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
class _RankedParameters(ListParameters):
    """Of lists of values, each with key figures."""

    offset: int = params.offset()
    compare: Comparison | None = params.comparison()
    goal: SavedGoal | None = params.goal()
    metrics: tuple[str, ...] = params.choices("metrics", KEY_FIGURES, TOP_METRICS)
    sort: str = params.choice("sort", KEY_FIGURES)
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


def _other(request: ReportRequest[Any], compare: Comparison) -> tuple[dict[str, Any], Scope]:
    """Return the part of meta about the range to compare with, and its scope."""
    tz = request.parameters.range.tz
    meta: dict[str, Any] = {
        "compare": compare.kind,
        "previous_from": iso(compare.from_ms, tz),
        "previous_to": iso(compare.to_ms, tz),
    }
    if compare.match_weekday:
        meta["match_weekday"] = True
    return meta, request.scope._replace(from_ms=compare.from_ms, to_ms=compare.to_ms)


def _with_sums(request: ReportRequest[Any], scope: Scope) -> Scope:
    """Return a scope in which imported sums count, unless the conversions of a goal are requested."""
    if request.parameters.goal is not None:
        return scope
    return with_sums(request.website, scope, request.parameters.range.tz)


async def _compared(
    api: ReadApi,
    request: ReportRequest[Any],
    fields: Sequence[str],
    compute: Callable[[Scope, Scope | None], Awaitable[T]],
) -> tuple[dict[str, Any], T]:
    """Return the part of meta about the ranges, and what `compute` returns for the scope and the one to compare with.

    fields: what is counted, for the part about imported sums. A part of a range may need events that are no longer
    kept, where the whole does not. Then the whole is compared.
    """
    compare, own = request.parameters.compare, _with_sums(request, request.scope)
    of_sums = partial(imported_meta, api, request, fields=fields, reason=GOAL if request.parameters.goal else "")
    of_imports = await of_sums(own)
    if compare is None:
        return of_imports, await compute(own, None)
    meta, scope = _other(request, compare)
    scope = _with_sums(request, scope)
    try:
        found = await compute(own, scope)
    except BeyondRetention:
        if compare.to_ms == compare.whole_to_ms:
            raise
        meta, scope = _other(request, compare._replace(to_ms=compare.whole_to_ms))
        scope = _with_sums(request, scope)
        found = await compute(own, scope)
    return of_imports | meta | await of_sums(scope, name="previous_imported"), found


async def stats(api: ReadApi, request: ReportRequest[StatsParameters]) -> Answer:
    """Return the seven key figures, and their change against another range if requested."""
    goal = request.parameters.goal

    async def count(own: Scope, other: Scope | None) -> Sequence[tuple[Stats, Conversions | None]]:
        scopes = [own, *([other] if other else [])]
        if goal is None:
            return [(of, None) for of in await api.reports.stats(scopes, request.requester)]
        return await api.reports.goal_stats(scopes, goal.goal, request.requester)

    meta, found = await _compared(api, request, ["total"], count)
    data, *before = [dict[str, Any](rounded(of)) for of, _ in found]
    if before:
        data |= {"previous": before[0], "change": changes(found[0][0], found[1][0])}
    for into, (of, own) in zip((data, *before), found, strict=True):
        into.update({} if goal is None or own is None else added(goal, own, of.visitors))
    return Answer(request.meta() | {"compare": None} | meta | goal_meta(goal), data=data)


async def timeseries(api: ReadApi, request: ReportRequest[TimeseriesParameters]) -> Answer:
    """Return figures by local minute, hour, day, week or month; with `compare`, next to those of another range."""
    own = request.parameters
    scope, (meta, compared) = request.scope, _other(request, own.compare) if own.compare else (dict[str, Any](), None)
    if own.interval not in ("minute", "hour"):
        scope, compared = _with_sums(request, scope), compared and _with_sums(request, compared)
    meta |= request.meta() | {"interval": own.interval} | goal_meta(own.goal)
    if own.interval == "week":
        meta["week_start"] = own.week_start
    reason = GOAL if own.goal else "" if scope.whole_days else INTERVAL
    of_sums = partial(imported_meta, api, request, fields=["total"], reason=reason)
    meta |= await of_sums(scope)
    data = await _series(api, request, scope, own.range)
    names = columns(TIMESERIES_COLUMNS, own.goal)
    if compared is None:
        return Answer(meta, (tuple(row.values()) for row in data), data, names)
    meta |= await of_sums(compared, name="previous_imported")
    other = replace(own.range, from_ms=compared.from_ms, to_ms=compared.to_ms, days=None)
    at_fault = "compare_from" if own.compare and own.compare.kind == "custom" else "compare"
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
        found = await api.reports.goal_timeseries(scope, goal.goal, spans, request.requester)
        counted, converted = [row for row, _ in found], [own for _, own in found]
    # Names written out take a quarter of the time of a generic conversion; a year has 8,760 hours.
    data: list[dict[str, Any]] = [
        {"time": bucket.time, "visitors": visitors, "visits": visits, "pageviews": views, "events": events}
        for bucket, (visitors, visits, views, events) in zip(series, counted, strict=True)
    ]
    if goal is not None:
        for row, own in zip(data, converted, strict=True):
            row |= added(goal, own, row["visitors"])
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

    async def count(scope: Scope, other: Scope | None) -> list[Top]:
        queries = [
            TopQuery(
                *(field, own.limit, own.offset, other, None if goal is None else goal.goal),
                has_visits=not {*own.metrics, own.sort} <= {*TOP_METRICS, ""},
                order=own.sort or ("visitors" if own.order == "asc" else ""),
                ascending=own.order == "asc",
            )
            for field in fields
        ]
        return await api.reports.top(scope, queries, request.requester)

    meta, found = await _compared(api, request, fields, count)
    meta |= request.meta() | {"limit": own.limit, "offset": own.offset}
    if own.sort or own.order:
        meta |= {"sort": own.sort or "visitors", "order": own.order or "desc"}
    lists = []
    for one in found:
        unset = _shown(one.unset, own.metrics, goal)
        del unset["value"]
        data = [_shown(row, own.metrics, goal) for row in one.rows]
        lists.append({"total": one.total, "unset": unset, "data": data})
    return meta | goal_meta(goal), lists


def _shown(row: TopRow, metrics: Sequence[str], goal: SavedGoal | None) -> dict[str, Any]:
    """Return a row of a list, with the previous figures where there are any."""
    shown: dict[str, Any] = {"value": row.value} | _metrics(row.figures, row.conversions, metrics, goal)
    if row.previous is not None:
        shown["previous"] = _metrics(row.previous, row.previous_conversions, metrics, goal)
    return shown


def _metrics(
    of: Stats, converted: Conversions | None, metrics: Sequence[str], goal: SavedGoal | None
) -> dict[str, Any]:
    # Without ratios there is nothing to round: a tenth of the time.
    known = of._asdict() if set(metrics).issubset(Stats._fields) else rounded(of)
    more = {} if goal is None or converted is None else added(goal, converted, of.visitors)
    return {name: known[name] for name in metrics} | more


async def event_names(api: ReadApi, request: ReportRequest[ListParameters]) -> Answer:
    """Return the names of custom events with the most visitors."""
    limit = request.parameters.limit
    scope = with_sums(request.website, request.scope, request.parameters.range.tz)
    rows = await api.reports.event_names(scope, limit, request.requester)
    meta = request.meta() | {"limit": limit} | await imported_meta(api, request, scope, ["event_name"])
    return Answer(meta, rows)


async def entry_pages(api: ReadApi, request: ReportRequest[ListParameters]) -> Answer:
    """Return the pages with which most visits begin."""
    return await _visit_pages(api, request, "entry_page")


async def exit_pages(api: ReadApi, request: ReportRequest[ListParameters]) -> Answer:
    """Return the pages with which most visits end."""
    return await _visit_pages(api, request, "exit_page")


async def _visit_pages(api: ReadApi, request: ReportRequest[ListParameters], field: str) -> Answer:
    limit = request.parameters.limit
    scope = with_sums(request.website, request.scope, request.parameters.range.tz)
    unset, found = await api.reports.visit_pages(scope, field, limit, request.requester)
    meta = request.meta() | {"limit": limit, "unset": {"visits": unset}}
    meta |= await imported_meta(api, request, scope, [field])
    return Answer(meta, [_page(one) for one in found])


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
