"""A read request -> a Question: its parameters checked, its moment fixed. Pure but for aiohttp's request.

Rules: an unknown parameter, a bad value, a single-valued parameter twice: 400 `invalid_parameter` with the field and
what was allowed. Nothing is ever replaced by a default in silence; what was understood goes back in `meta`.

ALLOWED says which parameters an endpoint takes, besides filter_<field> where FILTERED has it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from aiohttp import web
from multidict import MultiMapping
from yarl import URL

from tally import errors
from tally.errors import ApiError
from tally.events.dimensions import FIELDS
from tally.events.validation import METRICS, MOST_EVENT_DATA_BYTES, TYPES
from tally.http.request_paths import local_path, public_prefix
from tally.rollups.heatmap_grid import WIDTHS
from tally.storage.connections import SERVER, Claim
from tally.storage.sql.events import FILTERS
from tally.timeranges import Interval, Range, parse_days, parse_range
from tally.timestamps import BadTime, iso

ALLOWED: dict[str, frozenset[str]] = {
    "websites": frozenset(),
    "stats": frozenset(("from", "to", "tz", "compare")),
    "timeseries": frozenset(("from", "to", "tz", "interval", "format")),
    "top": frozenset(("from", "to", "tz", "limit", "format")),
    **dict.fromkeys(("event-names", "entry-pages", "exit-pages"), frozenset(("from", "to", "tz", "limit", "format"))),
    "events": frozenset(("from", "to", "tz", "limit", "cursor", "format")),
    "realtime": frozenset(),
    "rejected": frozenset(("from", "to", "tz", "format")),
    "vitals": frozenset(("from", "to", "tz", "by", "metric", "limit", "format")),
    "experiments": frozenset(("from", "to", "tz", "format")),
    "heatmap": frozenset(("from", "to", "tz", "pathname", "format")),
    "heatmap-pages": frozenset(("from", "to", "tz", "limit", "format")),
    "funnel": frozenset(("from", "to", "tz", "step", "format")),
    "event-data": frozenset(("from", "to", "tz", "event_name", "property", "limit", "format")),
}
FILTERED: dict[str, Sequence[str]] = {
    **dict.fromkeys(
        ("stats", "timeseries", "top", "events", "event-names", "entry-pages", "exit-pages", "funnel"), FILTERS
    ),
    **dict.fromkeys(("vitals", "experiments"), FIELDS),
    "event-data": [field for field in FILTERS if field != "event_name"],
    # Points know their page and the width that it was seen in, and nothing else.
    **dict.fromkeys(("heatmap", "heatmap-pages"), ("device",)),
}
# CONTRACT, the table of endpoints.
DEFAULT_LIMIT = {
    "events": 100,
    **dict.fromkeys(("top", "vitals", "heatmap-pages", "event-names", "entry-pages", "exit-pages", "event-data"), 10),
}
MOST_ROWS = 1_000
# our choice: as long as the longest thing stored, a URL.
_MOST_CHARACTERS = 8_192
# Everything else is given once.
_GIVEN_AGAIN = frozenset(("step",))
_FEWEST_STEPS, _MOST_STEPS = 2, 8
_STEP_FIELDS = ("pathname", "event_name")
# The seed's table Limits.
_MOST_OF_NAME = 200


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, understood. `raw` is what a cursor must find unchanged: range, zone and filters as sent.

    `is_gone` tells whether the client has gone away; to be called from any thread.
    """

    endpoint: str
    range: Range
    tz: str
    filters: tuple[tuple[str, tuple[str, ...]], ...]
    interval: Interval
    limit: int
    cursor: str
    compare: bool
    by: str
    metric: str
    pathname: str
    steps: tuple[tuple[str, str], ...]
    event_name: str
    property: str | None
    csv: bool
    now_ms: int
    raw: tuple[Any, ...]
    url: URL
    prefix: str
    is_gone: Callable[[], bool]
    claim: Claim = SERVER

    def identity(self) -> tuple[Any, ...]:
        """What of the question decides the answer, for its ETag: the moment for realtime, the range for the others."""
        moment = self.now_ms if self.endpoint == "realtime" else 0
        span = (self.range.from_ms, self.range.to_ms, self.range.days, self.tz, self.interval, moment)
        return (
            self.endpoint,
            *span,
            self.filters,
            self.limit,
            self.cursor,
            self.compare,
            self.by,
            self.metric,
            self.pathname,
            self.steps,
            self.event_name,
            self.property,
            self.csv,
        )

    def meta(self, website_id: str) -> dict[str, Any]:
        """What every answer about a range echoes."""
        return {
            "website_id": website_id,
            "from": iso(self.range.from_ms, self.range.tz),
            "to": iso(self.range.to_ms, self.range.tz),
            "tz": self.tz,
            "filters": {field: list(values) for field, values in self.filters},
        }


def question(request: web.Request, endpoint: str, now_ms: int, types: Sequence[str] = TYPES) -> Question:
    """Return a request's parameters, checked; filter_type is one of `types`. Raises ApiError 400."""
    _refuse_other_than_utf8(request.raw_path.partition("?")[2])
    query = request.query
    _refuse_unknown(query, endpoint)
    single = {name: query[name] for name in ALLOWED[endpoint] if name in query}
    filters = _filters(query, FILTERED.get(endpoint, ()), types)
    if endpoint.startswith("heatmap"):
        _refuse_other_than_widths(filters)
    try:
        # The end of this millisecond, not its beginning: what was answered 202 in it is in the answer.
        read = parse_days if endpoint == "rejected" else parse_range
        asked = read(single.get("from"), single.get("to"), single.get("tz"), now_ms + 1)
    except BadTime as bad:
        raise _bad(bad.field, str(bad)) from None
    return Question(
        endpoint=endpoint,
        range=asked,
        tz=single.get("tz", "UTC"),
        filters=filters,
        interval="hour" if _choice(single, "interval", ("day", "hour")) == "hour" else "day",
        limit=_limit(single, endpoint),
        cursor=_cursor(single),
        compare=_choice(single, "compare", ("", "previous")) == "previous",
        by=_choice(single, "by", ("", "pathname", "device", "day")),
        metric=_choice(single, "metric", METRICS),
        pathname=_pathname(single, endpoint),
        steps=_steps(query.getall("step", [])) if endpoint == "funnel" else (),
        event_name=_event_name(single) if endpoint == "event-data" else "",
        property=_property(single),
        csv="format" in ALLOWED[endpoint] and _wants_csv(single, request.headers.get("Accept", "")),
        now_ms=now_ms,
        raw=(single.get("from"), single.get("to"), single.get("tz"), sorted((f, sorted(v)) for f, v in filters)),
        url=request.rel_url.with_path(local_path(request), keep_query=True),
        prefix=public_prefix(request),
        is_gone=lambda: request.transport is None,
    )


def _bad(field: str, message: str) -> ApiError:
    return ApiError(errors.INVALID_PARAMETER, message, field=field)


def _refuse_other_than_utf8(raw: str) -> None:
    # The parser would put U+FFFD in place of what it cannot read: another question than was asked.
    try:
        unquote_to_bytes(raw.encode("utf-8", "surrogateescape")).decode()
    except UnicodeDecodeError:
        raise _bad("query", "The query is not UTF-8.") from None


def _refuse_unknown(query: MultiMapping[str], endpoint: str) -> None:
    allowed = ALLOWED[endpoint]
    for name in query:
        if name == "_":
            # What pages put behind a URL so that no cache answers.
            continue
        if name in allowed:
            if len(query.getall(name)) > 1 and name not in _GIVEN_AGAIN:
                raise _bad(name, f"{name} is given more than once: give it once.")
        elif not (endpoint in FILTERED and name.startswith("filter_")):
            takes = ", ".join(sorted(allowed)) or "no parameters"
            more = " and filter_<field>" if endpoint in FILTERED else ""
            raise _bad(name[:100] or "query", f"This endpoint takes {takes}{more}.")


def _filters(
    query: MultiMapping[str], known: Sequence[str], types: Sequence[str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, tuple[str, ...]] = {}
    for name in query:
        if not name.startswith("filter_"):
            continue
        field, values = name.removeprefix("filter_"), tuple(dict.fromkeys(query.getall(name)))
        if field not in known:
            raise _bad(name[:100], f"Filters are {', '.join('filter_' + one for one in known)}.")
        if any(len(value) > _MOST_CHARACTERS for value in values):
            raise _bad(name, f"A filter's value is at most {_MOST_CHARACTERS} characters.")
        if field == "type" and not {*values} <= {"", *types}:
            raise _bad(name, f"filter_type is one of {', '.join(types)}.")
        found[field] = values
    return tuple(found.items())


def _refuse_other_than_widths(filters: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
    if any({*values} - {*WIDTHS} for _, values in filters):
        raise _bad("filter_device", f"filter_device is one of {', '.join(WIDTHS)}: how wide the page was seen.")


def _pathname(single: dict[str, str], endpoint: str) -> str:
    """The page that a heatmap is of; required, and only there."""
    text = single.get("pathname")
    if text is None and "pathname" in ALLOWED[endpoint]:
        raise _bad("pathname", "pathname says which page's heatmap: a path such as / or /pricing.")
    if text and len(text) > _MOST_CHARACTERS:
        raise _bad("pathname", f"pathname is at most {_MOST_CHARACTERS} characters.")
    return text or ""


def _steps(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """What a funnel's steps are: a field of _STEP_FIELDS and a text each."""
    if not _FEWEST_STEPS <= len(given) <= _MOST_STEPS:
        raise _bad("step", f"step is given {_FEWEST_STEPS} to {_MOST_STEPS} times, one for each step of the funnel.")
    steps = []
    for text in given:
        field, _, value = text.partition(":")
        if field not in _STEP_FIELDS or not value or len(value) > _MOST_CHARACTERS:
            forms = "pathname:/pricing (a view of that page) or event_name:signup (a custom event of that name)"
            raise _bad("step", f"A step is {forms}, with at most {_MOST_CHARACTERS} characters.")
        steps.append((field, value))
    return tuple(steps)


def _event_name(single: dict[str, str]) -> str:
    name = single.get("event_name", "")
    if not 1 <= len(name) <= _MOST_OF_NAME:
        raise _bad("event_name", f"event_name is the name of a custom event: give it, 1 to {_MOST_OF_NAME} characters.")
    return name


def _property(single: dict[str, str]) -> str | None:
    """The name of a property, which may be empty; None is all of them."""
    name = single.get("property")
    if name is not None and len(name) > MOST_EVENT_DATA_BYTES:
        raise _bad("property", f"property is a name in event_data: it has at most {MOST_EVENT_DATA_BYTES} characters.")
    return name


def _choice(single: dict[str, str], name: str, choices: tuple[str, ...]) -> str:
    """The value of a parameter with fixed choices; the first holds where it is not sent ('': nothing does)."""
    if name not in single:
        return choices[0]
    if single[name] not in choices or not single[name]:
        raise _bad(name, f"{name} is {' or '.join(filter(None, choices))}.")
    return single[name]


def _cursor(single: dict[str, str]) -> str:
    if single.get("cursor") == "":
        raise _bad("cursor", "cursor is meta.next_cursor of the page before; leave it out for the first page.")
    return single.get("cursor", "")


def _limit(single: dict[str, str], endpoint: str) -> int:
    text = single.get("limit")
    if text is None:
        return DEFAULT_LIMIT.get(endpoint, 0)
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= MOST_ROWS:
        raise _bad("limit", f"limit is a whole number from 1 to {MOST_ROWS}.")
    return int(text)


def _wants_csv(single: dict[str, str], accept: str) -> bool:
    chosen = _choice(single, "format", ("", "json", "csv"))
    if chosen:
        return chosen == "csv"
    weights = {"text/csv": 0.0, "application/json": 0.0}
    for part in accept.lower().split(","):
        kind, _, rest = (piece.strip() for piece in part.partition(";"))
        weight = re.search(r"q=([01](?:\.[0-9]{0,3})?)", rest)
        if kind in weights:
            weights[kind] = float(weight[1]) if weight else 1.0
    return weights["text/csv"] > weights["application/json"]
