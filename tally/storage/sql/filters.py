"""SQL of filters (tally/events/filters.py): one condition for each, joined by `and`.

FILTERS has every name a filter may use: a name that is not in it never reaches SQL, and values are always parameters.

A filter by a field with labels becomes a comparison of label numbers, never of texts row by row. `=` and `!=` look
their texts up in the index of table label. The other operators compare the texts of the values that the website has
used in the field (table field_value), once for each statement. A report that reads days one by one compares them once
for all days instead: `labels_of`, whose result a `LabelFilter` holds.

A property of event_data is compared with the value in each event's JSON.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from tally.engine.values import LABELLED
from tally.events.dimensions import PAGES, field_number
from tally.events.filters import Filter, numbers_in, type_numbers
from tally.storage.event_data import STORED
from tally.storage.value_limits import OTHER

Query = tuple[str, list[Any]]


# The values that a website has used in a field, with `(other)`, which is stored in place of values beyond the limits.
_USED = (
    "(select value from field_value where website = ? and field = ? and value > 0"
    " union select id from label where text = ?) cross join label on label.id = value"
)


@dataclass(frozen=True, slots=True)
class LabelFilter(Filter):
    """A filter whose labels are known: the field has one of them, or none of them where `is_not`."""

    labels: Sequence[int]
    is_not: bool


class Condition(NamedTuple):
    """A filter by numbers: a column has one of some values, or none of them where `is_not`.

    of: the filter itself where it is on a property of event_data, whose values are no numbers.
    """

    column: str
    labels: Sequence[int]
    is_not: bool
    of: Filter | None = None


def conditions(website: int, filters: Sequence[Filter], fixed: dict[str, str]) -> Query:
    """Return ` and ...` for each filter. `fixed` has an expression for each column that the table lacks."""
    sql = ""
    parameters: list[Any] = []
    for filter_ in filters:
        condition, values = _condition(website, filter_, fixed)
        sql += f" and {condition}"
        parameters += values
    return sql, parameters


def _condition(website: int, filter_: Filter, fixed: dict[str, str]) -> Query:
    column = fixed.get(filter_.field, filter_.field)
    if isinstance(filter_, LabelFilter):
        labels = orjson.dumps(list(filter_.labels)).decode()
        return f"{column} {'not ' * filter_.is_not}in (select value from json_each(?))", [labels]
    if filter_.property_name is not None:
        return _property_condition(filter_, filter_.property_name, fixed.get("event_data", STORED))
    if filter_.field == "type":
        numbers = type_numbers(filter_)
        return f"{column} in ({_marks(numbers)})", numbers
    if filter_.field not in LABELLED:
        raise KeyError(filter_.field)
    if filter_.is_exact:
        is_not = "not " * (filter_.operator == "!=")
        return f"{column} {is_not}in (select id from label where text in ({_marks(filter_.values)}))", [*filter_.values]
    condition, values = _text_condition(filter_, "text")
    return f"{column} in (select id from {_USED} where {condition})", [
        website,
        _values_of(filter_.field),
        OTHER,
        *values,
    ]


def labels_with(texts: Sequence[str]) -> Query:
    """The labels of some texts, those that are stored: (label)."""
    return f"/* filters.labels_with */ select id from label where text in ({_marks(texts)})", [*texts]


def _values_of(field: str) -> int:
    """Return the number of the field under which table field_value has the values of a field."""
    return field_number("pathname" if field in PAGES else field)


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _text_condition(filter_: Filter, text: str) -> Query:
    """Return the condition of a filter on an SQL expression of a text.

    Parts of texts are compared as bytes: SQL functions of characters end at a NUL, and LIKE ignores case and knows
    wildcards.
    """
    if filter_.is_exact:
        return f"{text} {'not ' * (filter_.operator == '!=')}in ({_marks(filter_.values)})", [*filter_.values]
    sql: list[str] = []
    parameters: list[Any] = []
    for part in (value.encode() for value in filter_.values):
        if filter_.operator == "*=":
            sql.append(f"instr(cast({text} as blob), ?)")
        else:
            span = f"1, {len(part)}" if filter_.operator == "^=" else f"{-len(part)}"
            sql.append(f"substr(cast({text} as blob), {span}) = ?")
        parameters.append(part)
    return f"({' or '.join(sql)})", parameters


def labels_of(website: int, filter_: Filter) -> Query:
    """One row of two JSON arrays of labels: the values of a field that match a filter, and those that do not.

    Without the unset value, which is no value that a website has used.
    """
    condition, values = _text_condition(filter_, "text")
    return (
        f"/* filters.labels_of */ with known as materialized (select id, {condition} as matches from {_USED})"
        " select (select json_group_array(id) from known where matches),"
        " (select json_group_array(id) from known where not matches)",
        [*values, website, _values_of(filter_.field), OTHER],
    )


# --- properties of event_data


def matching_texts(filter_: Filter, texts: str) -> Query:
    """One JSON array: the positions in a JSON array of the texts of event_data, or null, that match a filter on one."""
    condition, values = _property_condition(filter_, filter_.property_name or "", "given.value")
    return (
        f"/* filters.matching_texts */ select json_group_array(given.key) from json_each(?) as given where {condition}",
        [texts, *values],
    )


def _property_condition(filter_: Filter, name: str, data: str) -> Query:
    """Return the condition on a property: texts as they are; numbers, booleans and null by the value that is written.

    An event without the property has the empty text. Most events have no event_data: these are decided first.
    """
    if filter_.operator == "!=":
        condition, parameters = _property_condition(Filter(filter_.field, "=", filter_.values), name, data)
        return f"not {condition}", parameters
    matches, values = _value_condition(filter_)
    present = f"exists (select 1 from json_each({data}) where key = ? and {matches})"
    if not filter_.accepts(""):
        return f"({data} is not null and {present})", [name, *values]
    absent = f"not exists (select 1 from json_each({data}) where key = ?)"
    return f"({data} is null or {absent} or {present})", [name, name, *values]


def _value_condition(filter_: Filter) -> Query:
    """Return the condition on a row of json_each."""
    if not filter_.is_exact:
        condition, values = _text_condition(filter_, "atom")
        return f"(type = 'text' and {condition})", values
    sql = [f"type = 'text' and atom in ({_marks(filter_.values)})"]
    parameters: list[Any] = [*filter_.values]
    numbers = numbers_in(filter_.values)
    if numbers:
        sql.append(f"type in ('integer', 'real') and atom in ({_marks(numbers)})")
        parameters += numbers
    named = [value for value in filter_.values if value in ("true", "false", "null")]
    if named:
        sql.append(f"type in ({_marks(named)})")
        parameters += named
    return f"({' or '.join(f'({part})' for part in sql)})", parameters
