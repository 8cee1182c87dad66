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
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from multidict import MultiMapping

from tally import errors
from tally.errors import ApiError
from tally.events.validation import TYPES
from tally.reports.engine import FILTERS, WIDTHS
from tally.timeranges import Range, parse_days, parse_range
from tally.timestamps import BadTime

MAX_ROWS = 1_000
# The longest value that is stored is a URL.
_MAX_CHARACTERS = 8_192
# A longer value is cut where an error repeats it.
_SHOWN_CHARACTERS = 50
_METADATA = "parameter"

P = TypeVar("P")
Filters = tuple[tuple[str, tuple[str, ...]], ...]
"""Field and the values of which any may hold."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request's parameters as they were sent. `types`: the event types that a filter may name."""

    query: MultiMapping[str]
    path: Mapping[str, str]
    now_ms: int
    types: Sequence[str] = TYPES

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
    return frozenset(name for one in parameters_of(declared) for name in one.names)


def filters_of(declared: type[Any]) -> tuple[str, ...]:
    """Return the fields that filter_<field> may name."""
    return tuple(field for one in parameters_of(declared) for field in one.filters)


def read(declared: type[P], sent: Sent, more: Sequence[str] = ()) -> P:
    """Return a request's parameters, checked. `more`: names that the caller reads itself. Raises ApiError 400."""
    _refuse_unknown(declared, sent.query, more)
    return declared(*(one.read(sent) for one in parameters_of(declared)))


def identity(parameters: Any) -> tuple[Any, ...]:
    """Return what of the parameters decides the answer, for its ETag."""
    values = (getattr(parameters, field.name) for field in dataclasses.fields(parameters) if field.compare)
    return tuple((one.from_ms, one.to_ms, one.days, one.tz.key) if isinstance(one, Range) else one for one in values)


def invalid(name: str, message: str) -> ApiError:
    """Return the error for a parameter."""
    return ApiError(errors.INVALID_PARAMETER, message, field=name)


def refuse_other_than_utf8(raw_path: str) -> None:
    """Raise ApiError 400 where the query is not UTF-8: a parser would read another question than was sent."""
    query = raw_path.partition("?")[2]
    try:
        unquote_to_bytes(query.encode("utf-8", "surrogateescape")).decode()
    except UnicodeDecodeError:
        raise invalid("query", "The query must be UTF-8.") from None


def _refuse_unknown(declared: type[Any], query: MultiMapping[str], more: Sequence[str]) -> None:
    allowed = names_of(declared).union(more)
    repeated = {name for one in parameters_of(declared) if one.is_repeated for name in one.names}
    takes_filters = bool(filters_of(declared))
    for name in query:
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
    """Declare from, to and tz as a Range of instants."""
    return parameter(lambda sent: _range(sent, parse_range), "from", "to", "tz")


def day_range() -> Any:
    """Declare from, to and tz as a Range of whole days."""
    return parameter(lambda sent: _range(sent, parse_days), "from", "to", "tz")


def _range(sent: Sent, parse: Callable[[str | None, str | None, str | None, int], Range]) -> Range:
    try:
        # The end of this millisecond: an event that was acknowledged in it is counted.
        return parse(sent.value("from"), sent.value("to"), sent.value("tz"), sent.now_ms + 1)
    except BadTime as bad:
        raise invalid(bad.field, f"{bad}.") from None


def filter_by(fields: Sequence[str] = FILTERS) -> Any:
    """Declare filter_<field> for some fields."""
    return parameter(lambda sent: _filters(sent, fields), filters=fields)


def filter_by_width() -> Any:
    """Declare filter_device for the classes of viewport widths that heatmaps have."""

    def read_widths(sent: Sent) -> Filters:
        found = _filters(sent, ("device",))
        for _, values in found:
            if set(values) - set(WIDTHS):
                raise invalid("filter_device", f"filter_device must be one of {', '.join(WIDTHS)} for heatmaps.")
        return found

    return parameter(read_widths, filters=("device",))


def _filters(sent: Sent, fields: Sequence[str]) -> Filters:
    found: dict[str, tuple[str, ...]] = {}
    for name in sent.query:
        if not name.startswith("filter_"):
            continue
        field, values = name.removeprefix("filter_"), tuple(dict.fromkeys(sent.query.getall(name)))
        if field not in fields:
            raise invalid(name[:100], f"Unknown filter: filters are {', '.join('filter_' + one for one in fields)}.")
        longest = max(map(len, values))
        if longest > _MAX_CHARACTERS:
            raise invalid(name, f"{name} must have at most {_MAX_CHARACTERS} characters (got {longest}).")
        if field == "type" and not {*values} <= {"", *sent.types}:
            raise invalid(name, f"filter_type must be one of {', '.join(sent.types)}.")
        found[field] = values
    return tuple(found.items())


def limit(default: int) -> Any:
    """Declare the maximum number of rows."""

    def read_limit(sent: Sent) -> int:
        given = sent.value("limit")
        if given is None:
            return default
        if not re.fullmatch(r"[0-9]{1,4}", given) or not 1 <= int(given) <= MAX_ROWS:
            raise invalid("limit", f"limit must be between 1 and {MAX_ROWS} (got {shown(given)}).")
        return int(given)

    return parameter(read_limit, "limit")


def choice(name: str, choices: Sequence[str], default: str = "") -> Any:
    """Declare a parameter with fixed values; the default is not one of the choices where it is ""."""
    return parameter(lambda sent: chosen(sent, name, choices, default), name)


def chosen(sent: Sent, name: str, choices: Sequence[str], default: str = "") -> str:
    """Return the value of a parameter with fixed values. Raises ApiError 400."""
    given = sent.value(name)
    if given is None:
        return default
    if given not in choices:
        raise invalid(name, f"{name} must be {' or '.join(choices)} (got {shown(given)}).")
    return given


def flag(name: str, value: str) -> Any:
    """Declare a parameter that takes one value; True where it was sent."""
    return parameter(lambda sent: bool(chosen(sent, name, (value,))), name)


def text(name: str, description: str, min_length: int, max_length: int) -> Any:
    """Declare a required text."""

    def read_text(sent: Sent) -> str:
        given = sent.value(name)
        if given is None:
            raise invalid(name, f"{name} is required: {description}.")
        return _bounded(name, given, min_length, max_length)

    return parameter(read_text, name)


def optional_text(name: str, max_length: int) -> Any:
    """Declare a text, which may be empty; None where it was not sent."""

    def read_text(sent: Sent) -> str | None:
        given = sent.value(name)
        return None if given is None else _bounded(name, given, 0, max_length)

    return parameter(read_text, name)


def _bounded(name: str, given: str, min_length: int, max_length: int) -> str:
    if not min_length <= len(given) <= max_length:
        size = f"{min_length} to {max_length}" if min_length else f"at most {max_length}"
        raise invalid(name, f"{name} must have {size} characters (got {len(given)}).")
    return given


def path_part(name: str, choices: Sequence[str]) -> Any:
    """Declare a part of the path with fixed values."""

    def read_part(sent: Sent) -> str:
        if sent.path[name] not in choices:
            raise invalid(name, f"{name} must be one of {', '.join(choices)}.")
        return sent.path[name]

    return parameter(read_part)


def wants_csv(sent: Sent, accept: str) -> bool:
    """Return whether a request asks for CSV: by `format`, else by its Accept header. Raises ApiError 400."""
    given = chosen(sent, "format", ("json", "csv"))
    if given:
        return given == "csv"
    weights = {"text/csv": 0.0, "application/json": 0.0}
    for part in accept.lower().split(","):
        kind, _, rest = (piece.strip() for piece in part.partition(";"))
        weight = re.search(r"q=([01](?:\.[0-9]{0,3})?)", rest)
        if kind in weights:
            weights[kind] = float(weight[1]) if weight else 1.0
    return weights["text/csv"] > weights["application/json"]


def shown(given: str) -> str:
    """Return a value as an error repeats it: quoted unless it is a number, printable, and cut where it is long."""
    if re.fullmatch("[0-9]{1,20}", given):
        return given
    cut = given if len(given) <= _SHOWN_CHARACTERS else given[:_SHOWN_CHARACTERS] + "..."
    return f'"{cut}"' if cut.isprintable() else ascii(cut)


# --- what endpoints about a range have in common


@dataclass(frozen=True, slots=True)
class Ranged:
    """A range and filters of any field."""

    range: Range = time_range()
    filters: Filters = filter_by()
