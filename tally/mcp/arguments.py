"""Arguments of tools: their JSON Schema, and what they are as parameters of the read API.

The enums are the tables by which the read API checks its parameters. Here nothing is checked but the form: the read
API refuses a value that is not allowed, and its message tells the model what is.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from multidict import MultiDict

from tally.api import params
from tally.api.overview import OVERVIEW_PERIODS
from tally.engine.values import MAX_JOURNEY_STEPS, MAX_STEPS, MIN_STEPS
from tally.events.crawlers import PURPOSES
from tally.events.dimensions import FIELDS, PAGES
from tally.events.filters import OPERATORS
from tally.events.validation import METRICS
from tally.reports.figures import KEY_FIGURES
from tally.timeranges import INTERVALS, PERIODS

# Alternatives of one filter, which a URL bounds by its length.
MAX_VALUES = 100
_TEXT = {"type": "string"}
_FILTER = {
    "field": _TEXT,
    "operator": {"enum": OPERATORS},
    "values": {"type": "array", "items": _TEXT},
}
SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "website": _TEXT,
    "period": {"enum": PERIODS},
    "from": _TEXT,
    "to": _TEXT,
    "tz": _TEXT,
    "compare": {"enum": ("previous", "year")},
    "filters": {
        "type": "array",
        "items": {"type": "object", "properties": _FILTER, "required": ("field", "values")},
    },
    "goal": _TEXT,
    "interval": {"enum": INTERVALS},
    "field": {"enum": (*FIELDS, *PAGES)},
    "metrics": {"type": "array", "items": {"enum": KEY_FIGURES}},
    "sort": {"enum": KEY_FIGURES},
    "order": {"enum": ("desc", "asc")},
    "offset": {"type": "integer", "maximum": params.MAX_OFFSET},
    "step": {
        "type": "array",
        "items": _TEXT,
        "minItems": MIN_STEPS,
        "maxItems": MAX_STEPS,
        "description": "pathname:/pricing, event_name:signup or goal:ID",
    },
    "start": {"type": "string", "description": "pathname:/pricing or event_name:signup"},
    "direction": {"enum": ("next", "previous")},
    "steps": {"type": "integer", "maximum": MAX_JOURNEY_STEPS},
    "event_name": _TEXT,
    "property": _TEXT,
    "purpose": {"enum": PURPOSES},
    "crawler": _TEXT,
    "by": {"enum": ("pathname", "device", "day")},
    "metric": {"enum": METRICS},
    "cursor": _TEXT,
    "stats": {"enum": OVERVIEW_PERIODS, "description": "Period of figures to add"},
}


def nearest(text: str, known: Sequence[str]) -> str:
    """Return what a text may have meant, as the end of a sentence; "" where nothing is near."""
    near = difflib.get_close_matches(text[:100], known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def query_of(arguments: Mapping[str, Any]) -> MultiDict[str]:
    """Return arguments as the parameters of a query. Raises ApiError 400 for another form than that of their schema."""
    query: MultiDict[str] = MultiDict()
    for name, value in arguments.items():
        values = [] if value is None else value if isinstance(value, list) else [value]
        if name == "filters":
            for sent in values:
                _add_filter(query, sent)
        elif value is not None:
            texts = [_text(name, member) for member in values]
            # The read API takes the figures of rows in one parameter, and steps of a funnel in one each.
            query.extend((name, text) for text in ([",".join(texts)] if name == "metrics" else texts))
    return query


def _text(name: str, value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 20.0 is an integer in JSON Schema
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise params.invalid(name, f"{name} must be a text, a number or a list of texts.")
    return str(value)


def _add_filter(query: MultiDict[str], sent: Any) -> None:
    if not isinstance(sent, dict) or not sent.keys() <= _FILTER.keys():
        raise params.invalid("filters", "filters must be a list of objects with field, operator and values.")
    field, operator, values = sent.get("field"), sent.get("operator", OPERATORS[0]), sent.get("values")
    if not isinstance(field, str) or field[-1:] in ("", *"!*^$="):
        raise params.invalid("filters", "field of a filter must be the name of a field.")
    if operator not in OPERATORS:
        raise params.invalid("filters", f"operator of a filter must be one of {', '.join(OPERATORS)}.")
    if not isinstance(values, list) or not 0 < len(values) <= MAX_VALUES:
        raise params.invalid("filters", f"values of a filter must be a list of 1 to {MAX_VALUES} texts.")
    name = f"filter_{field}{operator[:-1]}"
    if name in query:
        raise params.invalid("filters", f"{field} {operator} must be in filters once, with all its values.")
    query.extend((name, _text("values", value)) for value in values)
