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
    parameters, scope = request.parameters, request.scope
    if parameters.by == "day" and scope.to_ms - scope.from_ms > _MAX_DAYS * DAY_MS:
        raise params.invalid("by", f"by=day takes a range of at most {_MAX_DAYS:,} days.")
    if parameters.by and parameters.compare:
        raise params.invalid("compare", "compare takes all metrics: it cannot be sent with by.")
    summaries: list[tuple[tuple[Any, ...], Summary]]
    of_ranges, before = dict[str, Any](), None
    if parameters.by == "day":
        days = await api.reports.vitals_by_day(scope, parameters.metric, request.requester)
        columns, summaries = VITALS_DAY_COLUMNS, [((iso(begin_ms),), summary) for begin_ms, summary in days]
    elif parameters.by:
        values = await api.reports.vitals_by_value(
            scope, parameters.by, parameters.metric, parameters.limit, request.requester
        )
        columns, summaries = VITALS_VALUE_COLUMNS, [((row.value, row.events), row.summary) for row in values]
    else:
        of_ranges, (metrics, before) = await comparison.compared(api, request, (), partial(_both_vitals, api, request))
        columns = VITALS_COLUMNS
        summaries = [((name, "" if name == "cls" else "ms"), summary) for name, summary in metrics.items()]
    meta = (
        request.meta()
        | of_ranges
        | {
            "by": parameters.by or None,
            "metric": parameters.metric if parameters.by else None,
            "limit": parameters.limit if parameters.by in ("pathname", "device") else None,
            "relative_error": max((summary.relative_error for _, summary in summaries), default=0),
            "thresholds": {name: {"good": good, "poor": poor} for name, (good, poor) in THRESHOLDS.items()},
        }
    )
    rows = [(*names, *_summary(summary)) for names, summary in summaries]
    older = None if before is None else [(*names, *_summary(before[names[0]])) for names, _ in summaries]
    return comparison.beside(meta, columns, ("metric", "unit"), rows, older)


async def _both_vitals(
    api: ReadApi, request: ReportRequest[VitalsParameters], scope: Scope, other: Scope | None
) -> tuple[dict[str, Summary], dict[str, Summary] | None]:
    summaries = await api.reports.vitals(scope, request.requester)
    return summaries, other and await api.reports.vitals(other, request.requester)


def _summary(summary: Summary) -> tuple[Any, ...]:
    """Return the columns _SUMMARY; shares in percent."""
    shares = (ratio(rated, summary.samples, 100) for rated in (summary.good, summary.middling, summary.poor))
    return summary.samples, *summary.percentiles, *shares


# --- experiments


@dataclass(frozen=True, slots=True)
class ExperimentsParameters(Ranged):
    """Of experiments; filters are about the assignment."""

    filters: Filters = params.filter_by(FIELDS, properties=False)
    saved: tuple[SavedFilters, ...] = params.saved_filters(FIELDS, properties=False)


async def experiments(api: ReadApi, request: ReportRequest[ExperimentsParameters]) -> Answer:
    """Return the conversions of each experiment's variants, and what can be concluded from them."""
    listed, omitted = await api.reports.experiments(request.scope, request.requester)
    meta = request.meta() | {
        "visitor": "one day of the website",
        "confidence": 0.95,
        "split_is_off_below": significance.SPLIT_IS_OFF_BELOW,
        "least_of_a_kind": significance.MIN_OF_A_KIND,
        "omitted": {
            "experiments": omitted,
            "variants": sum(experiment.omitted[0] for experiment in listed),
            "goals": sum(experiment.omitted[1] for experiment in listed),
        },
    }
    return Answer(meta, _arms(listed), [_experiment(experiment) for experiment in listed])


def _experiment(experiment: Experiment) -> dict[str, Any]:
    is_off = experiment.split_p_value is not None and experiment.split_p_value < significance.SPLIT_IS_OFF_BELOW
    return {
        "experiment": experiment.name,
        "baseline": next(iter(experiment.visitors)),
        "variants": [{"variant": variant, "visitors": visitors} for variant, visitors in experiment.visitors.items()],
        "split": {"p_value": experiment.split_p_value, "is_off": is_off},
        "goals": [
            {
                "goal": goal.goal or None,
                "variants": [{"variant": arm.variant, "visitors": arm.visitors, **_arm(arm)} for arm in goal.arms],
            }
            for goal in experiment.goals
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


def _arms(listed: Iterable[Experiment]) -> Iterable[tuple[Any, ...]]:
    """Return a row of EXPERIMENT_COLUMNS for each variant of each goal."""
    for experiment in listed:
        for goal in experiment.goals:
            for arm in goal.arms:
                yield experiment.name, goal.goal or None, arm.variant, arm.visitors, *_arm(arm).values()


# --- heatmaps


@dataclass(frozen=True, slots=True)
class HeatmapPagesParameters:
    """Of the list of pages with heatmap data. Points are stored with their page and viewport width alone."""

    range: Range = params.time_range()
    filters: Filters = params.filter_by_width()
    limit: int = params.limit(10)


def _pathname(sent: Sent) -> str:
    pathname = sent.value("pathname")
    if pathname is None:
        raise params.invalid("pathname", "pathname is required: the path of the page, such as / or /pricing.")
    pathname = normal_path(pathname)
    if len(pathname) > MAX_PATH_CHARACTERS:
        message = f"pathname must have at most {MAX_PATH_CHARACTERS} characters (got {len(pathname)})."
        raise params.invalid("pathname", message)
    return pathname


@dataclass(frozen=True, slots=True)
class HeatmapParameters:
    """Of the heatmap of a page; "" is the page of events without one."""

    range: Range = params.time_range()
    filters: Filters = params.filter_by_width()
    pathname: str = params.parameter(_pathname, "pathname")


async def heatmap(api: ReadApi, request: ReportRequest[HeatmapParameters]) -> Answer:
    """Return where a page was clicked and how far down it was seen."""
    parameters, days = request.parameters, _days(request)
    widths, number = _widths(parameters.filters), request.website.number
    report = await api.reports.heatmap(number, parameters.pathname, days, widths, request.requester)
    data = {
        "grid": report.grid,
        "bins_x": BINS_X,
        "bin_height": BIN_HEIGHT_PX,
        "samples": report.samples,
        "clicks": report.clicks,
        "scroll": report.scroll,
        "texts": report.texts,
    }
    meta = _day_meta(request) | {"pathname": parameters.pathname, "cells": report.cells}
    return Answer(meta, report.grid, data)


async def heatmap_pages(api: ReadApi, request: ReportRequest[HeatmapPagesParameters]) -> Answer:
    """Return the pages with the most heatmap data."""
    parameters, days = request.parameters, _days(request)
    widths, number = _widths(parameters.filters), request.website.number
    pages = await api.reports.heatmap_pages(number, days, widths, parameters.limit, request.requester)
    unset = dict(zip(HEATMAP_PAGE_COLUMNS[1:], pages.unset, strict=True))
    return Answer(_day_meta(request) | {"limit": parameters.limit, "unset": unset}, pages.rows)


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
    return tuple(value for filter_ in filters for value in filter_.values) or WIDTHS
