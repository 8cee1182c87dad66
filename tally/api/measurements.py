"""The answers about measurements: web vitals, experiments and heatmaps, as JSON or CSV.

Counts come exact out of tally/reports/web_vitals.py, tally/reports/experiments.py and tally/reports/heatmaps.py; here
they are put into words and percent. Percentiles of web vitals are off by RELATIVE_ERROR at most, which `meta` says;
p-values are told as they are, rates in percent with two decimals, shares and lifts with one.
"""

import sqlite3
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from aiohttp import web

from tally import errors
from tally.api.context import Answer, Reader, View, scope_of
from tally.api.params import Question
from tally.errors import ApiError
from tally.events.validation import METRICS
from tally.http.formats import round_half_away, table_response
from tally.http.responses import json_response
from tally.reports import experiments as trial_figures
from tally.reports import heatmaps as heat_figures
from tally.reports import significance
from tally.reports import web_vitals as vital_figures
from tally.reports.experiments import Arm, Experiment
from tally.rollups.heatmap_grid import BIN_HEIGHT_PX, BINS_X, WIDTHS
from tally.rollups.vitals_histogram import PERCENTILES, RELATIVE_ERROR, THRESHOLDS, Summary, summary
from tally.timestamps import DAY_MS, iso

_MOST_DAYS = 10_000
_SUMMARY = ("samples", *(f"p{percent}" for percent in PERCENTILES), "good", "needs_improvement", "poor")


async def _vitals(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    scope, by, metric = scope_of(view.website, asked), asked.by, asked.metric
    if by == "day" and scope.to_ms - scope.from_ms > _MOST_DAYS * DAY_MS:
        raise ApiError(errors.INVALID_PARAMETER, f"by=day takes at most {_MOST_DAYS:,} days.", field="by")

    def look(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
        if by == "day":
            days = vital_figures.by_day(connection, scope, metric)
            return [(iso(begin_ms), *_told(of)) for begin_ms, of in days]
        if by:
            rows = vital_figures.by_value(connection, scope, by, metric, asked.limit, reader.remembered)
            return [(row.value, row.events, *_told(row.summary)) for row in rows]
        cells = vital_figures.overall(connection, scope)
        return [(name, "" if name == "cls" else "ms", *_told(summary(cells, name))) for name in METRICS]

    first = {"": ("metric", "unit"), "day": ("time",)}.get(by, ("value", "events"))
    good_and_poor = ({"good": good, "poor": poor} for good, poor in THRESHOLDS.values())
    meta = asked.meta(view.website.id) | {
        "by": by or None,
        "metric": metric if by else None,
        "limit": asked.limit if by in ("pathname", "device") else None,
        "relative_error": RELATIVE_ERROR,
        "thresholds": dict(zip(THRESHOLDS, good_and_poor, strict=True)),
    }
    return table_response((*first, *_SUMMARY), await reader.find(asked, look), meta, asked.csv)


def _told(of: Summary) -> tuple[Any, ...]:
    """The columns _SUMMARY; shares in percent."""
    shares = (_percent(rated, of.samples) for rated in (of.good, of.middling, of.poor))
    return of.samples, *of.percentiles, *shares


def _percent(part: int, whole: int) -> float | int | None:
    return round_half_away(Fraction(100 * part, whole), 1) if whole else None


_ARM = ("conversions", "rate", "rate_low", "rate_high", "lift", "p_value", "p_value_any_time", "enough_data")


async def _experiments(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    found, left_out = await reader.find(
        asked, lambda connection: trial_figures.experiments(connection, scope_of(view.website, asked))
    )
    meta = asked.meta(view.website.id) | {
        "visitor": "one UTC day",
        "confidence": 0.95,
        "split_is_off_below": significance.SPLIT_IS_OFF_BELOW,
        "least_of_a_kind": significance.LEAST_OF_A_KIND,
        "left_out": {
            "experiments": left_out,
            "variants": sum(one.left_out[0] for one in found),
            "goals": sum(one.left_out[1] for one in found),
        },
    }
    if asked.csv:
        columns = ("experiment", "goal", "variant", "visitors", *_ARM)
        return table_response(columns, _flat(found), meta, as_csv=True)
    return json_response({"data": [_experiment(one) for one in found], "meta": meta})


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
    """The columns _ARM; rates and lift in percent."""
    low, high = arm.interval or (None, None)
    values = (
        arm.conversions,
        None if not arm.visitors else _rounded(arm.conversions / arm.visitors),
        _rounded(low),
        _rounded(high),
        None if arm.lift is None else round(100 * arm.lift, 1),
        arm.p_value,
        arm.p_value_any_time,
        arm.has_enough,
    )
    return dict(zip(_ARM, values, strict=True))


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(100 * rate, 2)


def _flat(found: Iterable[Experiment]) -> Iterable[tuple[Any, ...]]:
    for one in found:
        for goal in one.goals:
            for arm in goal.arms:
                yield one.name, goal.goal or None, arm.variant, arm.visitors, *_arm(arm).values()


async def _heatmap(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    days, meta = _days(view, asked)
    number, pathname, widths = view.website.number, asked.pathname, _widths(asked)
    found = await reader.find(asked, lambda run: heat_figures.heatmap(run, number, pathname, days, widths))
    if asked.csv:
        return table_response(("x", "y", "count"), found.grid, meta, as_csv=True)
    data = {
        "grid": found.grid,
        "bins_x": BINS_X,
        "bin_height": BIN_HEIGHT_PX,
        "samples": found.samples,
        "clicks": found.clicks,
        "scroll": found.scroll,
    }
    return json_response({"data": data, "meta": meta | {"pathname": pathname, "cells": found.cells}})


async def _heatmap_pages(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    days, meta = _days(view, asked)
    number, widths = view.website.number, _widths(asked)
    found = await reader.find(asked, lambda run: heat_figures.pages(run, number, days, widths, asked.limit))
    names = ("samples", "clicks")
    meta |= {"limit": asked.limit, "unset": dict(zip(names, found.unset, strict=True))}
    return table_response(("value", *names), found.rows, meta, asked.csv)


def _days(view: View, asked: Question) -> tuple[range, dict[str, Any]]:
    """The UTC days that a range touches, since points know no more of their time, and meta that says so."""
    asked_for = asked.range
    days = range(asked_for.from_ms // DAY_MS, -(-asked_for.to_ms // DAY_MS))
    from_ms, to_ms = days.start * DAY_MS, days.stop * DAY_MS
    return days, asked.meta(view.website.id) | {
        "from": iso(from_ms, asked_for.tz),
        "to": iso(to_ms, asked_for.tz),
        "widened": (from_ms, to_ms) != (asked_for.from_ms, asked_for.to_ms),
    }


def _widths(asked: Question) -> list[int]:
    """The classes of viewports that are asked about; all where none is named."""
    named = [value for _, values in asked.filters for value in values] or WIDTHS
    return sorted({WIDTHS.index(value) for value in named})


ANSWERS: dict[str, Answer] = {
    "vitals": _vitals,
    "experiments": _experiments,
    "heatmap": _heatmap,
    "heatmap-pages": _heatmap_pages,
}
