"""SQL for goals: the conversions in E, which is the scope's, and the values in their event_data.

As in tally/storage/sql/events.py, whose Scope and filters these are: the conditions of a goal are filters of the scope.
Rows are grouped by nothing, by the buckets of a series, or by the label of a field.
"""

from collections.abc import Sequence

import orjson

from tally.engine.values import LABELLED, Scope
from tally.events.dimensions import VISIT_FIELDS
from tally.storage.event_data import STORED
from tally.storage.sql.events import of_visit, traffic_filters
from tally.storage.sql.filters import Query

_BUCKETS = (
    "bucket (n, lo, hi) as materialized (select key, json_extract(value, '$[0]'), json_extract(value, '$[1]')"
    " from json_each(?))"
)


def _matching(scope: Scope, edges: Sequence[tuple[int, int]]) -> Query:
    """Return `from ... where ...` of the events of E; with buckets, of those in each bucket."""
    filters, values = traffic_filters(scope)
    if edges:
        return f"from bucket cross join event where website = ? and ts >= lo and ts < hi{filters}", [
            scope.website,
            *values,
        ]
    return f"from event where website = ? and ts >= ? and ts < ?{filters}", [
        scope.website,
        scope.from_ms,
        scope.to_ms,
        *values,
    ]


def _key(field: str, edges: Sequence[tuple[int, int]]) -> str:
    if field and field not in LABELLED:
        raise KeyError(field)
    if edges:
        return "n"
    return of_visit(field) if field in VISIT_FIELDS else field or "0"


def conversions(scope: Scope, field: str = "", edges: Sequence[tuple[int, int]] = ()) -> Query:
    """A row (key, events, visitors) for each key that has any: a label of `field`, or a number of a bucket, or 0."""
    source, parameters = _matching(scope, edges)
    bucket = f"with {_BUCKETS} " if edges else ""
    return (
        f"/* goals.conversions */ {bucket}select {_key(field, edges)}, count(*), count(distinct visitor)"
        f" {source} group by 1",
        [*([orjson.dumps(edges).decode()] if edges else []), *parameters],
    )


def values(scope: Scope, name: str, field: str = "", edges: Sequence[tuple[int, int]] = ()) -> Query:
    """A row (key, value, events) for each value of a property of event_data, as `conversions`.

    The value is a number or a text; null where an event has none, or one of another type.
    """
    source, parameters = _matching(scope, edges)
    bucket = f"with {_BUCKETS} " if edges else ""
    return (
        f"/* goals.values */ {bucket}select {_key(field, edges)}, {_value(STORED)}, count(*) {source} group by 1, 2",
        [*([orjson.dumps(edges).decode()] if edges else []), name, *parameters],
    )


def values_of_texts(texts: str, name: str) -> Query:
    """A row (value) for each text of event_data of a JSON array, as `values`."""
    return f"/* goals.values_of_texts */ select {_value('given.value')} from json_each(?) as given", [name, texts]


def _value(data: str) -> str:
    return (
        "(select iif(own.type in ('integer', 'real', 'text'), own.value, null)"
        f" from json_each(coalesce({data}, '{{}}')) as own where own.key = ?)"
    )
