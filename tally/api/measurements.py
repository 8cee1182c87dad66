"""Reports about measurements: web vitals, experiments and heatmaps.

The engine returns exact figures, but for percentiles of web vitals that have expired: `meta` has their relative error.
p-values are not rounded; rates are in percent with two decimals, shares and lifts with one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tally.api import comparison, params
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.params import Comparison, Filters, Ranged, SavedFilters, Sent
from tally.engine.values import BIN_HEIGHT_PX, BINS_X, THRESHOLDS, WIDTHS, Arm, Experiment, Scope, Summary
from tally.engine.values import VITALS_PERCENTILES as PERCENTILES
from tally.events.dimensions import FIELDS
from tally.events.urls import MAX_PATH_CHARACTERS, normal_path
from tally.events.validation import METRICS
from tally.reports import significance
from tally.rounding import ratio
from tally.timeranges import Range
from tally.timestamps import DAY_MS, iso

# As many rows as a time series may have.
_MAX_DAYS = 10_000
_SUMMARY = ("samples", *(f"p{percent}" for percent in PERCENTILES), "good", "needs_improvement", "poor")
_ARM = ("conversions", "rate", "rate_low", "rate_high", "lift", "p_value", "p_value_any_time", "enough_data")
VITALS_COLUMNS = ("metric", "unit", *_SUMMARY)
VITALS_DAY_COLUMNS = ("time", *_SUMMARY)
VITALS_VALUE_COLUMNS = ("value", "events", *_SUMMARY)
EXPERIMENT_COLUMNS = ("experiment", "goal", "variant", "visitors", *_ARM)
HEATMAP_COLUMNS = ("x", "y", "count")
HEATMAP_PAGE_COLUMNS = ("value", "samples", "clicks")


# --- web vitals


@dataclass(frozen=True, slots=True)
class VitalsParameters(Ranged):
    """Of web vitals: all metrics, or one metric by page, device or day of the website."""

    filters: Filters = params.filter_by(FIELDS, properties=False)
    saved: tuple[SavedFilters, ...] = params.saved_filters(FIELDS, properties=False)
    limit: int = params.limit(10)
    by: str = params.choice("by", ("pathname", "device", "day"))
    metric: str = params.choice("metric", METRICS, METRICS[0])
    compare: Comparison | None = params.comparison()


async def vitals(api: ReadApi, request: ReportRequest[VitalsParameters]) -> Answer:
    """Return percentiles and ratings of web vitals."""
    own, scope = request.parameters, request.scope
    if own.by == "day" and scope.to_ms - scope.from_ms > _MAX_DAYS * DAY_MS:
        raise params.invalid("by", f"by=day takes a range of at most {_MAX_DAYS:,} days.")
    if own.by and own.compare:
        raise params.invalid("compare", "compare takes all metrics: it cannot be sent with by.")
    summaries: list[tuple[tuple[Any, ...], Summary]]
    of_ranges, before = dict[str, Any](), None
    if own.by == "day":
        days = await api.reports.vitals_by_day(scope, own.metric, request.requester)
        columns, summaries = VITALS_DAY_COLUMNS, [((iso(begin_ms),), of) for begin_ms, of in days]
    elif own.by:
        values = await api.reports.vitals_by_value(scope, own.by, own.metric, own.limit, request.requester)
        columns, summaries = VITALS_VALUE_COLUMNS, [((row.value, row.events), row.summary) for row in values]
    else:
        of_ranges, (metrics, before) = await comparison.compared(api, request, (), partial(_both_vitals, api, request))
        columns = VITALS_COLUMNS
        summaries = [((name, "" if name == "cls" else "ms"), of) for name, of in metrics.items()]
    meta = (
        request.meta()
        | of_ranges
        | {
            "by": own.by or None,
            "metric": own.metric if own.by else None,
            "limit": own.limit if own.by in ("pathname", "device") else None,
            "relative_error": max((of.relative_error for _, of in summaries), default=0),
            "thresholds": {name: {"good": good, "poor": poor} for name, (good, poor) in THRESHOLDS.items()},
        }
    )
    rows = [(*names, *_summary(of)) for names, of in summaries]
    older = None if before is None else [(*names, *_summary(before[names[0]])) for names, _ in summaries]
    return comparison.beside(meta, columns, ("metric", "unit"), rows, older)


async def _both_vitals(
    api: ReadApi, request: ReportRequest[VitalsParameters], scope: Scope, other: Scope | None
) -> tuple[dict[str, Summary], dict[str, Summary] | None]:
    found = await api.reports.vitals(scope, request.requester)
    return found, other and await api.reports.vitals(other, request.requester)


def _summary(of: Summary) -> tuple[Any, ...]:
    """Return the columns _SUMMARY; shares in percent."""
    shares = (ratio(rated, of.samples, 100) for rated in (of.good, of.middling, of.poor))
    return of.samples, *of.percentiles, *shares


# --- experiments


@dataclass(frozen=True, slots=True)
class ExperimentsParameters(Ranged):
    """Of experiments; filters are about the assignment."""

    filters: Filters = params.filter_by(FIELDS, properties=False)
    saved: tuple[SavedFilters, ...] = params.saved_filters(FIELDS, properties=False)


async def experiments(api: ReadApi, request: ReportRequest[ExperimentsParameters]) -> Answer:
    """Return the conversions of each experiment's variants, and what can be concluded from them."""
    found, omitted = await api.reports.experiments(request.scope, request.requester)
    meta = request.meta() | {
        "visitor": "one day of the website",
        "confidence": 0.95,
        "split_is_off_below": significance.SPLIT_IS_OFF_BELOW,
        "least_of_a_kind": significance.MIN_OF_A_KIND,
        "omitted": {
            "experiments": omitted,
            "variants": sum(one.omitted[0] for one in found),
            "goals": sum(one.omitted[1] for one in found),
        },
    }
    return Answer(meta, _arms(found), [_experiment(one) for one in found])


def _experiment(one: Experiment) -> dict[str, Any]:
    is_off = one.split_p_value is not None and one.split_p_value < significance.SPLIT_IS_OFF_BELOW
    return {
        "experiment": one.name,
        "baseline": next(iter(one.visitors)),
        "variants": [{"variant": variant, "visitors": visitors} for variant, visitors in one.visitors.items()],
        "split": {"p_value": one.split_p_value, "is_off": is_off},
        "goals": [
            {
                "goal": goal.goal or None,
                "variants": [{"variant": arm.variant, "visitors": arm.visitors, **_arm(arm)} for arm in goal.arms],
            }
            for goal in one.goals
        ],
    }


def _arm(arm: Arm) -> dict[str, Any]:
    """Return the columns _ARM; rates and lift in percent."""
    low, high = arm.interval or (None, None)
    values = (
        arm.conversions,
        None if not arm.visitors else _percent(arm.conversions / arm.visitors),
        _percent(low),
        _percent(high),
        None if arm.lift is None else round(100 * arm.lift, 1),
        arm.p_value,
        arm.p_value_any_time,
        arm.has_enough,
    )
    return dict(zip(_ARM, values, strict=True))


def _percent(rate: float | None) -> float | None:
    return None if rate is None else round(100 * rate, 2)


def _arms(found: Iterable[Experiment]) -> Iterable[tuple[Any, ...]]:
    """Return a row of EXPERIMENT_COLUMNS for each variant of each goal."""
    for one in found:
        for goal in one.goals:
            for arm in goal.arms:
                yield one.name, goal.goal or None, arm.variant, arm.visitors, *_arm(arm).values()


# --- heatmaps


@dataclass(frozen=True, slots=True)
class HeatmapPagesParameters:
    """Of the list of pages with heatmap data. Points are stored with their page and viewport width alone."""

    range: Range = params.time_range()
    filters: Filters = params.filter_by_width()
    limit: int = params.limit(10)


def _pathname(sent: Sent) -> str:
    given = sent.value("pathname")
    if given is None:
        raise params.invalid("pathname", "pathname is required: the path of the page, such as / or /pricing.")
    given = normal_path(given)
    if len(given) > MAX_PATH_CHARACTERS:
        message = f"pathname must have at most {MAX_PATH_CHARACTERS} characters (got {len(given)})."
        raise params.invalid("pathname", message)
    return given


@dataclass(frozen=True, slots=True)
class HeatmapParameters:
    """Of the heatmap of a page; "" is the page of events without one."""

    range: Range = params.time_range()
    filters: Filters = params.filter_by_width()
    pathname: str = params.parameter(_pathname, "pathname")


async def heatmap(api: ReadApi, request: ReportRequest[HeatmapParameters]) -> Answer:
    """Return where a page was clicked and how far down it was seen."""
    own, days = request.parameters, _days(request)
    widths, number = _widths(own.filters), request.website.number
    found = await api.reports.heatmap(number, own.pathname, days, widths, request.requester)
    data = {
        "grid": found.grid,
        "bins_x": BINS_X,
        "bin_height": BIN_HEIGHT_PX,
        "samples": found.samples,
        "clicks": found.clicks,
        "scroll": found.scroll,
        "texts": found.texts,
    }
    meta = _day_meta(request) | {"pathname": own.pathname, "cells": found.cells}
    return Answer(meta, found.grid, data)


async def heatmap_pages(api: ReadApi, request: ReportRequest[HeatmapPagesParameters]) -> Answer:
    """Return the pages with the most heatmap data."""
    own, days = request.parameters, _days(request)
    widths, number = _widths(own.filters), request.website.number
    found = await api.reports.heatmap_pages(number, days, widths, own.limit, request.requester)
    unset = dict(zip(HEATMAP_PAGE_COLUMNS[1:], found.unset, strict=True))
    return Answer(_day_meta(request) | {"limit": own.limit, "unset": unset}, found.rows)


def _days(request: ReportRequest[Any]) -> range:
    """Return the days of the website that a range touches: points are stored by day."""
    span, offset_ms = request.parameters.range, request.website.day_offset_ms
    return range((span.from_ms + offset_ms) // DAY_MS, -(-(span.to_ms + offset_ms) // DAY_MS))


def _day_meta(request: ReportRequest[Any]) -> dict[str, Any]:
    """Return meta with the range of whole days that is answered, and whether it is wider than the requested one."""
    span, days = request.parameters.range, _days(request)
    from_ms, to_ms = (day * DAY_MS - request.website.day_offset_ms for day in (days.start, days.stop))
    return request.meta() | {
        "from": iso(from_ms, span.tz),
        "to": iso(to_ms, span.tz),
        "widened": (from_ms, to_ms) != (span.from_ms, span.to_ms),
    }


def _widths(filters: Filters) -> tuple[str, ...]:
    """Return the requested classes of viewport widths; all where none is named."""
    return tuple(value for of in filters for value in of.values) or WIDTHS
