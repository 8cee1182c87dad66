"""SQL for funnels and event_data.

As in tally/storage/sql/events.py, whose Scope and filters these are: pure functions that return (sql, parameters),
every name from a table, every value a parameter. Many rows come as few texts: row by row, the interpreter's lock would
change hands at each of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tally.storage.event_data import STORED
from tally.storage.sql.events import IS_EVENT, IS_PAGEVIEW, Query, Scope, filters_of

Step = tuple[str, int]
"""A field of STEP_FIELDS and a label."""
STEP_FIELDS = ("pathname", "event_name")
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


def label(text: str) -> Query:
    """The label of a text, if it is stored."""
    return "/* behaviour.label */ select id from label where text = ?", [text]


def _hits(stretch: Stretch, steps: Sequence[Step], select: str) -> Query:
    """`select` of the events that meet any of some steps, in order, with their `mask`: a bit for each step."""
    mask = " + ".join(f"{_MET[field]} * {1 << n}" for n, (field, _) in enumerate(steps))
    some = " or ".join(_MET[field] for field, _ in dict.fromkeys(steps))
    return (
        f"select {select}, {mask} as mask from event where website = ? and ts >= ? and (ts, id) > (?, ?) and ts < ?"
        f" and visitor % ? = ? and ({some}) order by ts, id limit ?",
        [
            *(value for _, value in steps),
            *(stretch.website, stretch.after[0], *stretch.after, stretch.end_ms, stretch.share.of, stretch.share.n),
            *(value for _, value in dict.fromkeys(steps)),
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


def visits(scope: Scope, is_day: bool, share: Share, most: int) -> Query:
    """One row of two JSON arrays, visitors and numbers, of up to `most` visits that begin in the scope's time, part of
    a UTC day, or all of it where `is_day`; where there are filters, of those that have an event in E."""
    span = [scope.website, scope.from_ms, scope.to_ms, share.of, share.n]
    filters, values = filters_of(scope, {})
    sql = f"select visitor, visit from event where website = ? and ts >= ? and ts < ? and visitor % ? = ?{filters}"
    parameters = [*span, *values]
    if is_day:
        sql += " group by visitor, visit"
    else:
        met = f" and (visitor, visit) in ({sql})" if scope.filters else ""
        sql = f"select visitor, visit from visit where website = ? and start_ms >= ? and start_ms < ?{met}"
        parameters = [*span[:3], *(parameters if met else [])]
        sql, parameters = f"{sql} and visitor % ? = ?", [*parameters, share.of, share.n]
    return (
        f"/* behaviour.visits */ select json_group_array(visitor), json_group_array(visit) from ({sql} limit ?)",
        [*parameters, most],
    )


def data(scope: Scope, event_name: int, rows: int) -> Query:
    """Rows of up to so many events of a name in E, ordered by visitor: event_data as elements of a JSON array without
    its brackets, `{}` where there is none; and a JSON array of their visitors."""
    filters, values = filters_of(scope, {})
    return (
        "/* behaviour.data */ select group_concat(data), json_group_array(visitor)"
        f" from (select visitor, coalesce({STORED}, '{{}}') as data,"
        " (row_number() over (order by visitor) - 1) / ? as place from event"
        f" where website = ? and ts >= ? and ts < ? and {IS_EVENT} and event_name = ?{filters}) group by place",
        [rows, scope.website, scope.from_ms, scope.to_ms, event_name, *values],
    )
