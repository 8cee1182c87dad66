"""SQL of the list of events, and of the days that have some.

Measurements are in the list as well. They have no visit, and neither a name nor event_data: a filter on one of these
compares the empty text.
"""

from collections.abc import Sequence
from typing import Any

from tally.clickhouse.client import Parameters
from tally.clickhouse.measured import latest
from tally.clickhouse.visits import Traffic, condition
from tally.engine.values import Place, StoredEvent
from tally.events.dimensions import FIELDS
from tally.events.validation import LEAVE, MEASURES, TYPE_NAMES
from tally.rollups.web_vitals import from_stored

_MEASURED = ("experiment", "variant", "goal")


def events(parameters: Parameters, traffic: Traffic, place: Place, limit: int, only_traffic: bool) -> str:
    """Return SQL of up to `limit` events before a place, newest first, as `stored_event` takes them."""
    before = f"(ts, id) < ({place.ts}, {place.id}) and id <= {place.last_id}"
    return _listed(parameters, traffic, before, limit, "desc", only_traffic)


def following(traffic: Traffic, ts: int, id: int, limit: int) -> str:
    """Return SQL of up to `limit` events after (ts, id), oldest first."""
    after = f"(ts, id) > ({ts}, {id}) and id <= {traffic.last_id}"
    return _listed(Parameters(), traffic, after, limit, "asc", only_traffic=False)


def _listed(parameters: Parameters, traffic: Traffic, place: str, limit: int, way: str, only_traffic: bool) -> str:
    """Return SQL of events at a place, sorted; whether the visit of an event has its source from it comes last."""
    first = ["id", "type", "ts", *(f"toString({field})" for field in FIELDS)]
    nothing = ["''"] * len(_MEASURED) + ["toNullable(0.0)"] + ["toNullable(toInt64(0))"] * len(MEASURES)
    of_visit = ["visitor", "toInt64(v_number) - 1"]
    columns = [*first, "toString(event_name)", "event_data", *of_visit, *nothing, "v_sends"]
    source = traffic.source([*FIELDS, "event_name", "event_data", "v_number", "v_sends"])
    parts = [_part(columns, f"{source} where {traffic.matches(parameters)} and {place}", limit, way)]
    named = [f"toString({name})" for name in _MEASURED]
    measured = [*first, "''", "''", "visitor", "toInt64(-1)", *named, "value", *MEASURES, "1"]
    for kind in () if only_traffic else (f"type != {LEAVE}", f"type = {LEAVE}{latest(LEAVE)}"):
        matches = condition(traffic.scope.filters, parameters, of_measures=True)
        rows = f"(select * from {traffic.place('measure')} and {kind})"
        parts.append(_part(measured, f"{rows} where {traffic.in_range} and {matches} and {place}", limit, way))
    return f"select * from ({' union all '.join(parts)}) order by r2 {way}, r0 {way} limit {limit}"


def _part(columns: Sequence[str], rows: str, limit: int, way: str) -> str:
    # Equal expressions without a name of their own would be one column.
    shown = ", ".join(f"{column} as r{n}" for n, column in enumerate(columns))
    return f"(select {shown} from {rows} order by r2 {way}, r0 {way} limit {limit})"


def days(website: int, days: range) -> str:
    """Return SQL of those of some days that have events, oldest first."""
    place = f"website = {website} and day >= {max(days.start, 0)} and day < {days.stop}"
    parts = (f"select day from {table} where {place}" for table in ("event", "settled_day", "measure"))
    return f"select distinct day from ({' union all '.join(parts)}) order by day"


def unsettled(website: int, days: range) -> str:
    """Return SQL of a row where some days have events that are not settled, or are kept until no report reads them."""
    return (
        f"select 1 from event where website = {website} and day >= {max(days.start, 0)} and day < {days.stop} limit 1"
    )


def stored_event(row: list[Any], offset_ms: int) -> StoredEvent:
    """Return an event from a row of `events`, whose times have so much more than UTC."""
    id, type_, ts, *rest = row
    end = len(FIELDS)
    name, data, visitor, visit, experiment, variant, goal, value = rest[end : end + 8]
    is_traffic = visit != -1
    return StoredEvent(
        id,
        TYPE_NAMES[type_],
        ts - offset_ms,
        tuple(rest[:end]),
        name,
        data or None,
        f"{visitor:x}-{visit}" if is_traffic else None,
        {} if is_traffic else from_stored(rest[end + 8 : -1]),
        experiment,
        variant,
        goal,
        None if is_traffic else value,
    )


def sum_days(website: int, last_id: int) -> str:
    """Return SQL of the days that have imported sums and, up to an id, no events."""
    return (
        f"select distinct day from day_sum where website = {website} and day not in (select day from event"
        f" where website = {website} and id <= {last_id} union all select day from settled_day"
        f" where website = {website} and settled_day.events > 0) order by day"
    )
