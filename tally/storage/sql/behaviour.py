"""SQL for funnels, journeys and event_data.

As in tally/storage/sql/events.py, whose Scope and filters these are: pure functions that return (sql, parameters),
every name from a table, every value a parameter. Many rows come as few texts: row by row, the interpreter's lock would
change hands at each of them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tally.engine.values import STEP_FIELDS, Scope
from tally.events.filters import Filter
from tally.storage.event_data import STORED
from tally.storage.sql.events import IS_EVENT, IS_PAGEVIEW, begun_visits, traffic_filters
from tally.storage.sql.filters import Query
from tally.timestamps import DAY_MS

if TYPE_CHECKING:
    from tally.storage.day_columns import Array

Numbers = TypeVar("Numbers", int, "Array")
"""One, or an array of them."""
Step = tuple[str, tuple[Any, ...]]
"""An SQL condition on an event, 0 or 1, and its parameters."""
_MET = {"pathname": f"({IS_PAGEVIEW} and pathname = ?)", "event_name": f"({IS_EVENT} and event_name = ?)"}

# Of a hit's code: a bit for each of the steps and one that is never set, then the number of the visit.
MASK_BITS, VISIT_BITS = 9, 6


class Share(NamedTuple):
    """The visitors whose number modulo `of` is `n`."""

    n: int = 0
    of: int = 1


class Stretch(NamedTuple):
    """Events of a website with (ts, id) behind `after`, before `end_ms`; of some of the visitors."""

    website: int
    after: tuple[int, int]
    end_ms: int
    share: Share = Share()


def labelled_step(field: str, label: int) -> Step:
    """Return the step of the events that have a label in a field of STEP_FIELDS."""
    return _MET[field], (label,)


def filtered_step(website: int, day: int, filters: tuple[Filter, ...]) -> Step:
    """Return the step of the events of a UTC day that match filters."""
    sql, parameters = traffic_filters(Scope(website, day * DAY_MS, (day + 1) * DAY_MS, filters))
    return f"({sql.removeprefix(' and ')})", tuple(parameters)


def label(text: str) -> Query:
    """The label of a text, if it is stored."""
    return "/* behaviour.label */ select id from label where text = ?", [text]


def _hits(stretch: Stretch, steps: Sequence[Step], select: str) -> Query:
    """`select` of the events that meet any of some steps, in order, with their `mask`: a bit for each step."""
    mask = " + ".join(f"{condition} * {1 << n}" for n, (condition, _) in enumerate(steps))
    some = " or ".join(condition for condition, _ in dict.fromkeys(steps))
    return (
        f"select {select}, {mask} as mask from event where website = ? and ts >= ? and (ts, id) > (?, ?) and ts < ?"
        f" and visitor % ? = ? and ({some}) order by ts, id limit ?",
        [
            *(value for _, values in steps for value in values),
            *(stretch.website, stretch.after[0], *stretch.after, stretch.end_ms, stretch.share.of, stretch.share.n),
            *(value for _, values in dict.fromkeys(steps) for value in values),
        ],
    )


def hits(stretch: Stretch, steps: Sequence[Step], begin_ms: int, most: int) -> Query:
    """One row of two JSON arrays, of up to `most` events in order: visitors, and codes: milliseconds from `begin_ms`,
    VISIT_BITS of the visit's number, MASK_BITS of the steps that the event meets."""
    sql, parameters = _hits(stretch, steps, "visitor, visit, ts")
    return (
        "/* behaviour.hits */ select json_group_array(visitor),"
        f" json_group_array((((ts - ?) << {VISIT_BITS}) + visit << {MASK_BITS}) + mask) from ({sql})",
        [begin_ms, *parameters, most],
    )


def last_hit(stretch: Stretch, steps: Sequence[Step], most: int) -> Query:
    """(ts, id) of the last event of `hits` where it gives `most`."""
    sql, parameters = _hits(stretch, steps, "ts, id")
    return f"/* behaviour.last_hit */ select ts, id from ({sql}) limit 1 offset ?", [*parameters, most, most - 1]


def visits(scope: Scope, share: Share, most: int) -> Query:
    """One row of two JSON arrays, visitors and numbers, of up to `most` visits that begin in a scope, a UTC day or a
    part of one; where there are filters, of those that have an event in E."""
    sql, parameters = begun_visits(scope, "visitor, visit")
    return (
        "/* behaviour.visits */ select json_group_array(visitor), json_group_array(visit)"
        f" from ({sql} and visitor % ? = ? limit ?)",
        [*parameters, share.of, share.n, most],
    )


def step_code(field: str, label: Numbers) -> Numbers:
    """Return the number that stands for a step in `steps`."""
    return 2 * label + STEP_FIELDS.index(field)


def label_of(code: Numbers) -> Numbers:
    """Return the label of a step's text."""
    return code >> 1


def field_of(code: int) -> str:
    """Return the field of a step."""
    return STEP_FIELDS[code & 1]


def steps(scope: Scope, chosen: int) -> Query:
    """Rows (visitor, visit, step_code) of the steps of visits that have the step `chosen`, each visit's in order.

    The visits are those that begin in the scope's time, a UTC day or a part of one; where there are filters, those that
    have an event in E.
    """
    day = scope.day * DAY_MS, (scope.day + 1) * DAY_MS
    met = f"select visitor, visit from event where website = ? and ts >= ? and ts < ? and {_MET[field_of(chosen)]}"
    some = f" and (visitor, visit) in ({met})"
    parameters = [scope.website, *day, scope.website, *day, label_of(chosen)]
    if scope.filters or not scope.is_day:
        begun, values = begun_visits(scope, "visitor, visit")
        some += f" and (visitor, visit) in ({begun})"
        parameters += values
    return (
        f"/* behaviour.steps */ select visitor, visit, iif({IS_PAGEVIEW}, 2 * pathname, 2 * event_name + 1)"
        f" from event where website = ? and ts >= ? and ts < ? and iif({IS_PAGEVIEW}, pathname, event_name) > 0{some}"
        " order by visitor, visit, ts, id",
        parameters,
    )


def data(scope: Scope, event_name: int, rows: int) -> Query:
    """Rows of up to so many events of a name in E, ordered by visitor: event_data as elements of a JSON array without
    its brackets, `{}` where there is none; and a JSON array of their visitors."""
    filters, values = traffic_filters(scope)
    return (
        "/* behaviour.data */ select group_concat(data), json_group_array(visitor)"
        f" from (select visitor, coalesce({STORED}, '{{}}') as data,"
        " (row_number() over (order by visitor) - 1) / ? as place from event"
        f" where website = ? and ts >= ? and ts < ? and {IS_EVENT} and event_name = ?{filters}) group by place",
        [rows, scope.website, scope.from_ms, scope.to_ms, event_name, *values],
    )
