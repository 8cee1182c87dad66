"""Filters: conditions on the fields of an event, written as in CSS attribute selectors.

`=` is exactly one of the values, `!=` none of them; `*=` contains, `^=` begins with and `$=` ends with any of them.
Letters are compared with their case, and nothing in a value is a wildcard. An unset field is the empty text.

A field is a dimension, event_name, type, or `prop.<name>`: a property of event_data.

A page or host may be written in any spelling (`stored_form`): it is compared with the one that is stored.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tally.events.event_types import EVENT_TYPES
from tally.events.urls import normal_host_part, normal_path, normal_path_part

Operator = Literal["=", "!=", "*=", "^=", "$="]
OPERATORS: tuple[Operator, ...] = ("=", "!=", "*=", "^=", "$=")
PROPERTY_PREFIX = "prop."
"""Begins the field of a property."""
_PAGE_FIELDS = ("pathname", "entry_page", "exit_page")
_HOST_FIELDS = ("hostname", "referrer")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MAX_INTEGER = (1 << 63) - 1
_MAX_DIGITS = len(str(-_MAX_INTEGER))


def stored_form(field: str, text: str, *, is_part: bool = False) -> str:
    """Return a value of a field in the spelling in which pages and hosts are stored; other fields have one alone.

    is_part: whether it is compared with a part of the field.
    """
    if field in _PAGE_FIELDS:
        return normal_path_part(text) if is_part else normal_path(text)
    return normal_host_part(text) if field in _HOST_FIELDS else text


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on a field."""

    field: str
    operator: Operator
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        """The field and the operator, without the `=` at its end: what follows `filter_` in a query."""
        return self.field + self.operator[:-1]

    @property
    def property_name(self) -> str | None:
        """The name of the property of event_data; None for other fields."""
        return self.field.removeprefix(PROPERTY_PREFIX) if self.field.startswith(PROPERTY_PREFIX) else None

    @property
    def is_exact(self) -> bool:
        """Whether whole values are compared."""
        return self.operator in ("=", "!=")

    def accepts(self, text: str) -> bool:
        """Return whether a field with this text matches."""
        if self.operator == "=":
            return text in self.values
        if self.operator == "!=":
            return text not in self.values
        if self.operator == "*=":
            return any(value in text for value in self.values)
        return text.startswith(self.values) if self.operator == "^=" else text.endswith(self.values)


def type_numbers(filter_: Filter) -> list[int]:
    """Return the numbers of the event types that a filter on `type` accepts."""
    return [type_.number for type_ in EVENT_TYPES if filter_.accepts(type_.name)]


def numbers_in(values: Iterable[str]) -> list[int | float]:
    """Return the JSON numbers among the values of a filter on a property, which match numbers of that size."""
    return [_number(value) for value in values if _NUMBER.fullmatch(value)]


def _number(text: str) -> int | float:
    """Return a JSON number as SQLite reads it: whole numbers beyond 64 bits are doubles."""
    if len(text) <= _MAX_DIGITS and text.lstrip("-").isdigit() and abs(int(text)) <= _MAX_INTEGER:
        return int(text)
    return float(text)
