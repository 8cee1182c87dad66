"""Filters: conditions on the fields of an event, written as in CSS attribute selectors.

`=` is exactly one of the values, `!=` none of them; `*=` contains, `^=` begins with and `$=` ends with any of them.
Letters are compared with their case, and nothing in a value is a wildcard. An unset field is the empty text.

A field is a dimension, event_name, type, or `prop.<name>`: a property of event_data.
"""

from dataclasses import dataclass
from typing import Literal

Operator = Literal["=", "!=", "*=", "^=", "$="]
OPERATORS: tuple[Operator, ...] = ("=", "!=", "*=", "^=", "$=")
PROPERTY_PREFIX = "prop."
"""Begins the field of a property."""


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
