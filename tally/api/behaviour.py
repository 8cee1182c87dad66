"""The answers about what visitors do: funnels and what is in event_data, as JSON or CSV.

Counts come exact out of tally/reports/funnels.py and tally/reports/event_data.py; here they are put into words and
percent. Shares are in percent and times in seconds, both with one decimal, rounded half away from zero.
"""

from fractions import Fraction
from typing import Any

from aiohttp import web

from tally.api.context import Answer, Reader, View, scope_of
from tally.api.params import Question
from tally.http.formats import round_half_away, table_response
from tally.http.responses import json_response
from tally.reports import event_data as properties
from tally.reports import funnels
from tally.reports.event_data import PERCENTILES, Numbers

_STEP = ("field", "value", "visits", "visitors", "of_first", "of_previous", "mean_seconds")


async def _funnel(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    scope = scope_of(view.website, asked)
    found = await reader.find(
        asked, lambda connection: funnels.funnel(connection, scope, asked.steps, reader.remembered)
    )
    rows = []
    for n, ((field, value), of) in enumerate(zip(asked.steps, found, strict=True)):
        of_previous = _share(of.visits, found[n - 1].visits, 100) if n else None
        seconds = _share(of.ms, of.visits, Fraction(1, 1000)) if n else None
        rows.append(
            (field, value, of.visits, of.visitors, _share(of.visits, found[0].visits, 100), of_previous, seconds)
        )
    return table_response(_STEP, rows, asked.meta(view.website.id), asked.csv)


def _share(part: int, whole: int, unit: Fraction | int) -> float | int | None:
    return round_half_away(unit * Fraction(part, whole), 1) if whole else None


async def _event_data(reader: Reader, view: View, asked: Question, _: str) -> web.Response:
    scope, name, only = scope_of(view.website, asked), asked.event_name, asked.property
    found = await reader.find(
        asked, lambda connection: properties.data(connection, scope, name, only, asked.limit, reader.remembered)
    )
    meta = asked.meta(view.website.id) | {
        "event_name": name,
        "property": only,
        "limit": asked.limit,
        "events": found.events,
        "visitors": found.visitors,
        "properties": found.properties,
        "exact": found.exact,
    }
    if asked.csv:
        rows = [(of.name, _in_csv(value[0]), *value[1:]) for of in found.first for value in of.values]
        return table_response(("property", "value", "events", "visitors"), rows, meta, as_csv=True)
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
    return json_response({"data": data, "meta": meta})


def _numbers(of: Numbers) -> dict[str, Any]:
    percentiles = {f"p{percent}": value for percent, value in zip(PERCENTILES, of.percentiles, strict=True)}
    return {"samples": of.samples, "sum": of.sum, "mean": of.mean, "min": of.min, **percentiles, "max": of.max}


def _in_csv(value: Any) -> Any:
    # As JSON has it: Python's own words begin with a capital.
    return str(value).lower() if isinstance(value, bool) else value


ANSWERS: dict[str, Answer] = {"funnel": _funnel, "event-data": _event_data}
