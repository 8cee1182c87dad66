"""Query parameters of the read API: how each is declared, read and checked.

An endpoint declares its parameters as a frozen dataclass, one field each, by the functions of this module:

    @dataclass(frozen=True, slots=True)
    class TopParameters(Ranged):
        limit: int = limit(10)
        field: str = path_part("field", FIELDS)

`read` makes an instance from a request. Rules: an unknown parameter, an invalid value, and a single-valued parameter
sent twice are answered 400 `invalid_parameter`; the error names the parameter and the allowed values. No value is
replaced by a default silently: what was understood is repeated in `meta`.
"""

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from multidict import MultiDict, MultiMapping

from tally import errors
from tally.accounts.definitions import Definition, Kind
from tally.engine.values import FILTERS, GOAL_ORDERS, WIDTHS, Goal
from tally.errors import ApiError
from tally.events.filters import OPERATORS, PROPERTY_PREFIX, Filter, stored_form
from tally.events.validation import MAX_EVENT_DATA_BYTES, TYPES
from tally.timeranges import (
    PERIODS,
    Range,
    WeekStart,
    parse_days,
    parse_range,
    passed,
    period_range,
    previous,
    shifted_weeks,
    year_before,
    zone,
)
from tally.timestamps import BadTime

MAX_ROWS = 1_000
# The rows before a page are ranked with it.
MAX_OFFSET = 10_000
MAX_FILTERS = 20
# Values of one filter by parts of texts: each is compared with all values of the field.
MAX_PARTS = 100
# The longest value that is stored is a URL.
_MAX_CHARACTERS = 8_192
# A longer value is cut where an error repeats it.
_SHOWN_CHARACTERS = 50
_METADATA = "parameter"
GOAL_FILTER = "filter_goal"
RANGE_NAMES = ("from", "to", "tz", "period")

P = TypeVar("P")
Filters = tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request's parameters as they were sent.

    types: the event types that a filter may name; definitions: what the owner has saved; properties:
    whether filters may name properties of event_data.
    """

    query: MultiMapping[str]
    path: Mapping[str, str]
    now_ms: int
    types: Sequence[str] = TYPES
    definitions: tuple[Definition, ...] = ()
    properties: bool = True
    time_zone: str = "UTC"
    week_start: WeekStart = "monday"
    first_ms: int | None = None

    def value(self, name: str) -> str | None:
        """Return the value of a single-valued parameter; None where it was not sent."""
        return self.query.get(name)


class Parameter(NamedTuple):
    """How a field of a dataclass is read: the names it takes in a query, and the filters."""

    names: tuple[str, ...]
    read: Callable[[Sent], Any]
    is_repeated: bool = False
    filters: tuple[str, ...] = ()


def parameter(
    read: Callable[[Sent], Any], *names: str, is_repeated: bool = False, filters: Sequence[str] = (), key: bool = True
) -> Any:
    """Declare a field that `read` reads; `key`: whether it is part of what identifies an answer."""
    declared = Parameter(names, read, is_repeated, tuple(filters))
    return dataclasses.field(metadata={_METADATA: declared}, compare=key)


def parameters_of(declared: type[Any]) -> tuple[Parameter, ...]:
    """Return the parameters of a dataclass, in the order in which they are read."""
    return tuple(field.metadata[_METADATA] for field in dataclasses.fields(declared))


def names_of(declared: type[Any]) -> frozenset[str]:
    """Return the names of a dataclass's parameters, without filters."""
    return frozenset(name for parameter in parameters_of(declared) for name in parameter.names)


def filters_of(declared: type[Any]) -> tuple[str, ...]:
    """Return the fields that filter_<field> may name."""
    return tuple(field for parameter in parameters_of(declared) for field in parameter.filters)


def read(declared: type[P], sent: Sent, more: Sequence[str] = ()) -> P:
    """Return a request's parameters, checked. `more`: names that the caller reads itself. Raises ApiError 400."""
    _refuse_unknown(declared, sent.query, more)
    return declared(*(parameter.read(sent) for parameter in parameters_of(declared)))


def identity(parameters: Any) -> tuple[Any, ...]:
    """Return the parameters on which the response depends, for its ETag."""
    values = (getattr(parameters, field.name) for field in dataclasses.fields(parameters) if field.compare)
    return tuple(
        (value.from_ms, value.to_ms, value.days, value.tz.key) if isinstance(value, Range) else value
        for value in values
    )


def invalid(name: str, message: str) -> ApiError:
    """Return the error for a parameter."""
    return ApiError(errors.INVALID_PARAMETER, message, field=name)


def refuse_other_than_utf8(raw_path: str) -> None:
    """Raise ApiError 400 where the query is not UTF-8: a parser would read another query than was sent."""
    query = raw_path.partition("?")[2]
    try:
        unquote_to_bytes(query.encode("utf-8", "surrogateescape")).decode()
    except UnicodeDecodeError:
        raise invalid("query", "The query must be UTF-8.") from None


def _names(query: MultiMapping[str]) -> Iterable[str]:
    """Return each name once. multidict 7.0 and older repeats it for each of its values: that took quadratic time."""
    return dict.fromkeys(query)


def _refuse_unknown(declared: type[Any], query: MultiMapping[str], more: Sequence[str]) -> None:
    allowed = names_of(declared).union(more)
    repeated = {name for parameter in parameters_of(declared) if parameter.is_repeated for name in parameter.names}
    takes_filters = bool(filters_of(declared))
    for name in _names(query):
        # Pages add _=<number> to a URL to get past caches.
        if name == "_":
            continue
        if name in allowed:
            if len(query.getall(name)) > 1 and name not in repeated:
                raise invalid(name, f"{name} must be sent once (got {len(query.getall(name))} values).")
        elif not (takes_filters and name.startswith("filter_")):
            takes = ", ".join(sorted(allowed)) or "no parameters"
            also = " and filter_<field>" if takes_filters else ""
            raise invalid(name[:100] or "query", f"Unknown parameter: this endpoint takes {takes}{also}.")


# --- kinds of parameters


def time_range() -> Any:
    """Declare from, to, period and tz as a Range of instants."""
    return parameter(range_of, *RANGE_NAMES)


def range_of(sent: Sent) -> Range:
    """Return the range that a request names by from, to, period and tz. Raises ApiError 400."""
    return _range(sent, parse_range)


def day_range() -> Any:
    """Declare from, to, period and tz as a Range of whole days."""
    return parameter(lambda sent: _range(sent, parse_days), *RANGE_NAMES)


def time_zone() -> Any:
    """Declare tz as the name of a time zone; "UTC" where it was not sent."""

    def read_zone(sent: Sent) -> str:
        try:
            return zone(sent.query.get("tz", "UTC")).key
        except BadTime as bad:
            raise invalid(bad.field, f"{bad}.") from None

    return parameter(read_zone, "tz")


def _range(sent: Sent, parse: Callable[[str | None, str | None, str | None, int], Range]) -> Range:
    tz, period = sent.value("tz"), chosen(sent, "period", PERIODS)
    tz = sent.time_zone if tz is None else tz
    if period and (sent.value("from") is not None or sent.value("to") is not None):
        raise invalid("period", "period takes the place of from and to: send one of both.")
    try:
        if period:
            return period_range(period, tz, sent.now_ms, sent.first_ms)
        # The end of this millisecond: an event that was acknowledged in it is counted.
        return parse(sent.value("from"), sent.value("to"), tz, sent.now_ms + 1)
    except BadTime as bad:
        raise invalid(bad.field, f"{bad}.") from None


class Comparison(NamedTuple):
    """The range that a report compares with, and how it was requested.

    Where the requested range is not over, `to_ms` is the end of as much of the other one, and `whole_to_ms` its own.
    """

    kind: str
    match_weekday: bool
    from_ms: int
    to_ms: int
    whole_to_ms: int


def comparison(whole: bool = False, default: str = "") -> Any:
    """Declare compare, compare_from, compare_to and match_weekday as a Comparison.

    whole: with a range to its end, also where the requested one is not over. default: the value of compare where it was
    not sent; without one that is None.
    """
    names = ("compare", "compare_from", "compare_to", "match_weekday")
    return parameter(lambda sent: _comparison(sent, whole, default), *names)


def _comparison(sent: Sent, whole: bool, default: str) -> Comparison | None:
    kind = chosen(sent, "compare", ("previous", "year", "custom"), default)
    match_weekday = bool(chosen(sent, "match_weekday", ("true",)))
    ends = sent.value("compare_from"), sent.value("compare_to")
    if kind != "custom" and ends != (None, None):
        raise invalid("compare_from", "compare_from and compare_to need compare=custom.")
    if kind == "custom" and None in ends:
        raise invalid("compare_from", "compare=custom needs compare_from and compare_to.")
    if match_weekday and kind not in ("previous", "year"):
        raise invalid("match_weekday", "match_weekday needs compare=previous or compare=year.")
    if not kind:
        return None
    span = range_of(sent)
    if kind == "custom":
        try:
            with_ = parse_range(*ends, span.tz.key, sent.now_ms + 1)
        except BadTime as bad:
            raise invalid(f"compare_{bad.field}", f"{bad}.") from None
        return Comparison(kind, match_weekday, with_.from_ms, with_.to_ms, with_.to_ms)
    from_ms, whole_to_ms = _other(span, kind, match_weekday, None)
    _, to_ms = _other(span, kind, match_weekday, None if whole else passed(span, sent.now_ms))
    return Comparison(kind, match_weekday, from_ms, to_ms, whole_to_ms)


def _other(span: Range, kind: str, match_weekday: bool, until_ms: int | None) -> tuple[int, int]:
    if match_weekday:
        return shifted_weeks(span, kind == "year", until_ms)
    return previous(span, until_ms) if kind == "previous" else year_before(span, until_ms)


def filter_by(fields: Sequence[str] = FILTERS, properties: bool = True) -> Any:
    """Declare filter_<field> for some fields, and filter_prop.<name> where `properties`."""
    return parameter(lambda sent: _filters(sent, fields, properties and sent.properties), filters=fields)


def filter_by_width() -> Any:
    """Declare filter_device for the classes of viewport widths that heatmaps have."""

    def read_widths(sent: Sent) -> Filters:
        filters = _filters(sent, ("device",), properties=False)
        for filter_ in filters:
            if filter_.operator != "=" or set(filter_.values) - set(WIDTHS):
                raise invalid("filter_device", f"filter_device must be one of {', '.join(WIDTHS)} for heatmaps.")
        return filters

    return parameter(read_widths, filters=("device",))


def _filters(sent: Sent, fields: Sequence[str], properties: bool) -> Filters:
    """Return the filters of a query. The name of a parameter ends at the first `=`: `filter_country!` is `!=`."""
    filters: dict[str, Filter] = {}
    for name in _names(sent.query):
        if name.startswith("filter_") and not (name == GOAL_FILTER and "type" in fields):
            filter_ = _filter(name, tuple(dict.fromkeys(sent.query.getall(name))), sent, fields, properties)
            known = filters.get(filter_.name)
            if known is not None and known != filter_:
                raise invalid(name[:100], f"{name[:100]} must be written in one way.")
            filters[filter_.name] = filter_
    if len(filters) > MAX_FILTERS:
        raise invalid("filter", f"A request takes at most {MAX_FILTERS} filters (got {len(filters)}).")
    return tuple(filters.values())


def _filter(name: str, values: tuple[str, ...], sent: Sent, fields: Sequence[str], properties: bool) -> Filter:
    # An `=` may also be in the name, percent-encoded.
    field = name.removeprefix("filter_").removesuffix("=")
    operator = next((value for value in OPERATORS[1:] if field.endswith(value[0])), OPERATORS[0])
    filter_ = Filter(field.removesuffix(operator[:-1]), operator, values)
    if filter_.property_name is not None and properties:
        if not 0 < len(filter_.property_name.encode()) <= MAX_EVENT_DATA_BYTES:
            raise invalid(name[:100], f"{PROPERTY_PREFIX} must be followed by the name of a property.")
    elif filter_.field not in fields:
        raise _unknown_filter(name, filter_.field, fields, properties)
    values = tuple(dict.fromkeys(stored_form(filter_.field, value, is_part=not filter_.is_exact) for value in values))
    filter_ = dataclasses.replace(filter_, values=values)
    longest = max(map(len, values))
    if longest > _MAX_CHARACTERS:
        raise invalid(name[:100], f"{name[:100]} must have at most {_MAX_CHARACTERS} characters (got {longest}).")
    if not filter_.is_exact and len(values) > MAX_PARTS:
        raise invalid(name[:100], f"{name[:100]} must be sent at most {MAX_PARTS} times (got {len(values)}).")
    if not filter_.is_exact and "" in values:
        raise invalid(name, f"{name} must not be empty: {filter_.operator} compares a part of a text.")
    if filter_.field == "type" and filter_.is_exact and not {*values} <= {"", *sent.types}:
        raise invalid(name, f"filter_type must be one of {', '.join(sent.types)}.")
    return filter_


def _unknown_filter(name: str, field: str, fields: Sequence[str], properties: bool) -> ApiError:
    takes = [f"filter_{filter_name}" for filter_name in (*fields, *[f"{PROPERTY_PREFIX}<name>"] * properties)]
    near = difflib.get_close_matches(field[:100], fields, 1)
    meant = f" (did you mean filter_{near[0]}?)" if near else ""
    return invalid(name[:100], f"Unknown filter{meant}: filters are {', '.join(takes)}.")


def parse_filters(written: Sequence[str]) -> Filters:
    """Return filters that are written as in a query, each `name=value` without encoding. Raises ApiError 400."""
    query: MultiDict[str] = MultiDict()
    for text in written:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("filter_") or name == GOAL_FILTER:
            raise invalid("filters", f"A filter must be filter_<field>=<value> (got {shown(text)}).")
        query.add(name, value)
    return _filters(Sent(query, {}, 0), FILTERS, properties=True)


class SavedGoal(NamedTuple):
    """A goal that the owner has saved, with what the engine counts for it."""

    id: str
    name: str
    type: str
    currency: str | None
    goal: Goal


class SavedFilters(NamedTuple):
    """The filters of a saved definition that a request names by `parameter`: a segment's, or a goal's conditions."""

    parameter: str
    id: str
    filters: Filters


# The types that a goal counts.
_GOAL_FILTERS = {
    "event": ("filter_type=event", "filter_type=app_event"),
    "page": ("filter_type=pageview", "filter_type=screen_view"),
}


def _saved(sent: Sent, name: str, kind: Kind) -> Definition | None:
    """Return the definition that a parameter names by its id; None where it was not sent. Raises ApiError 400."""
    id = sent.value(name)
    if id is None:
        return None
    for definition in sent.definitions:
        if (definition.kind, definition.id) == (kind, id):
            return definition
    raise invalid(name, f"{name} must be the id of a {kind} of this website (got {shown(id)}).")


def _conditions(definition: Definition) -> Filters:
    """Return what an event has to match to count for a goal."""
    return (*parse_filters(_GOAL_FILTERS[definition.content["type"]]), *parse_filters(definition.content["match"]))


def _saved_goal(definition: Definition) -> SavedGoal:
    content = definition.content
    return SavedGoal(
        definition.id,
        content["name"],
        content["type"],
        content["currency"],
        Goal(_conditions(definition), content["value"]),
    )


def saved_goals(sent: Sent) -> tuple[SavedGoal, ...]:
    """Return all goals of the website, oldest first."""
    return goals_of(sent.definitions)


def goals_of(definitions: Iterable[Definition]) -> tuple[SavedGoal, ...]:
    """Return the goals among what an owner has saved, oldest first."""
    return tuple(_saved_goal(definition) for definition in definitions if definition.kind == "goal")


def goal() -> Any:
    """Declare a goal by its id; None where it was not sent."""

    def read_goal(sent: Sent) -> SavedGoal | None:
        definition = _saved(sent, "goal", "goal")
        return None if definition is None else _saved_goal(definition)

    return parameter(read_goal, "goal")


def saved_filters(fields: Sequence[str] = FILTERS, properties: bool = True) -> Any:
    """Declare `segment`, whose filters may be of some fields; and `filter_goal`, where events have a type."""

    def read_saved(sent: Sent) -> tuple[SavedFilters, ...]:
        saved = []
        segment = _saved(sent, "segment", "segment")
        if segment is not None:
            filters = parse_filters(segment.content["filters"])
            for filter_ in filters:
                if filter_.field not in fields and not (filter_.property_name is not None and properties):
                    raise invalid("segment", f"This endpoint takes no filter_{filter_.field}, which the segment has.")
            saved.append(SavedFilters("segment", segment.id, filters))
        goal = _saved(sent, GOAL_FILTER, "goal") if "type" in fields else None
        if goal is not None:
            saved.append(SavedFilters(GOAL_FILTER, goal.id, _conditions(goal)))
        return tuple(saved)

    return parameter(read_saved, "segment", *([GOAL_FILTER] if "type" in fields else []))


def limit(default: int, most: int = MAX_ROWS) -> Any:
    """Declare the maximum number of rows."""
    return number("limit", 1, most, default)


def number(name: str, least: int, most: int, default: int) -> Any:
    """Declare a whole number."""
    return parameter(lambda sent: whole_number(sent, name, least, most, default), name)


def whole_number(sent: Sent, name: str, least: int, most: int, default: int) -> int:
    """Return the value of a parameter that is a whole number. Raises ApiError 400."""
    number = sent.value(name)
    if number is None:
        return default
    if not re.fullmatch(r"[0-9]{1,4}", number) or not least <= int(number) <= most:
        raise invalid(name, f"{name} must be between {least} and {most} (got {shown(number)}).")
    return int(number)


def offset() -> Any:
    """Declare how many rows are skipped."""

    def read_offset(sent: Sent) -> int:
        number = sent.value("offset")
        if number is None:
            return 0
        if not re.fullmatch(r"[0-9]{1,5}", number) or int(number) > MAX_OFFSET:
            raise invalid("offset", f"offset must be between 0 and {MAX_OFFSET} (got {shown(number)}).")
        return int(number)

    return parameter(read_offset, "offset")


def choice(name: str, choices: Sequence[str], default: str = "") -> Any:
    """Declare a parameter with fixed values; the default is not one of the choices where it is ""."""
    return parameter(lambda sent: chosen(sent, name, choices, default), name)


def chosen(sent: Sent, name: str, choices: Sequence[str], default: str = "") -> str:
    """Return the value of a parameter with fixed values. Raises ApiError 400."""
    choice = sent.value(name)
    if choice is None:
        return default
    if choice not in choices:
        raise invalid(name, f"{name} must be {' or '.join(choices)} (got {shown(choice)}).")
    return choice


def list_order(name: str, figures: Sequence[str]) -> Any:
    """Declare the figure by which a list is ordered: one of `figures` or, with a goal, of GOAL_ORDERS."""

    def read_order(sent: Sent) -> str:
        order = chosen(sent, name, (*figures, *GOAL_ORDERS))
        if order in GOAL_ORDERS and sent.value("goal") is None:
            raise invalid(name, f"{name}={order} needs goal, the id of a goal whose conversions are counted.")
        return order

    return parameter(read_order, name)


def choices(name: str, allowed: Sequence[str], default: Sequence[str] = ()) -> Any:
    """Declare a comma-separated list of fixed values, each at most once; it is required where there is no default."""

    def read_choices(sent: Sent) -> tuple[str, ...]:
        text = sent.value(name)
        if text is None and not default:
            raise invalid(name, f"{name} is required: some of {', '.join(allowed)}, separated by commas.")
        if text is None:
            return tuple(default)
        chosen = tuple(text.split(",", len(allowed)))
        if not set(chosen) <= set(allowed) or len(set(chosen)) < len(chosen):
            takes = ", ".join(allowed)
            raise invalid(name, f"{name} must be some of {takes}, separated by commas (got {shown(text)}).")
        return chosen

    return parameter(read_choices, name)


def text(name: str, description: str, min_length: int, max_length: int) -> Any:
    """Declare a required text."""

    def read_text(sent: Sent) -> str:
        value = sent.value(name)
        if value is None:
            raise invalid(name, f"{name} is required: {description}.")
        return _bounded(name, value, min_length, max_length)

    return parameter(read_text, name)


def optional_text(name: str, max_length: int) -> Any:
    """Declare a text, which may be empty; None where it was not sent."""

    def read_text(sent: Sent) -> str | None:
        value = sent.value(name)
        return None if value is None else _bounded(name, value, 0, max_length)

    return parameter(read_text, name)


def _bounded(name: str, value: str, min_length: int, max_length: int) -> str:
    if not min_length <= len(value) <= max_length:
        size = f"{min_length} to {max_length}" if min_length else f"at most {max_length}"
        raise invalid(name, f"{name} must have {size} characters (got {len(value)}).")
    return value


def path_part(name: str, choices: Sequence[str]) -> Any:
    """Declare a part of the path with fixed values."""

    def read_part(sent: Sent) -> str:
        if sent.path[name] not in choices:
            raise invalid(name, f"{name} must be one of {', '.join(choices)}.")
        return sent.path[name]

    return parameter(read_part)


def wants_csv(sent: Sent, accept: str) -> bool:
    """Return whether a request accepts CSV: by `format`, else by its Accept header. Raises ApiError 400."""
    format = chosen(sent, "format", ("json", "csv"))
    if format:
        return format == "csv"
    weights = {"text/csv": 0.0, "application/json": 0.0}
    for part in accept.lower().split(","):
        kind, _, rest = (piece.strip() for piece in part.partition(";"))
        weight = re.search(r"q=([01](?:\.[0-9]{0,3})?)", rest)
        if kind in weights:
            weights[kind] = float(weight[1]) if weight else 1.0
    return weights["text/csv"] > weights["application/json"]


def shown(value: str) -> str:
    """Return a value as an error repeats it: quoted unless it is a number, printable, and cut where it is long."""
    if re.fullmatch("[0-9]{1,20}", value):
        return value
    cut = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "..."
    return f'"{cut}"' if cut.isprintable() else ascii(cut)


# --- what endpoints about a range have in common


@dataclass(frozen=True, slots=True)
class Ranged:
    """A range and filters of any field."""

    range: Range = time_range()
    filters: Filters = filter_by()
    saved: tuple[SavedFilters, ...] = saved_filters()
