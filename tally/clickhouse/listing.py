"""SQL of the list of events, and of the days that have some.

Measurements are in the list as well. They have no visit, and neither a name nor event_data: a filter on one of these
compares the empty text.
"""

from collections.abc import Sequence

from tally.clickhouse.client import Parameters
from tally.clickhouse.measured import latest
from tally.clickhouse.visits import Traffic, condition, of_days
from tally.engine.values import Place
from tally.events.dimensions import FIELDS
from tally.events.validation import LEAVE, MEASURES

_MEASURED = ("experiment", "variant", "goal")


def events(parameters: Parameters, traffic: Traffic, place: Place, limit: int, only_traffic: bool) -> str:
    """Return SQL of up to `limit` events before a place, newest first."""
    before = f"(ts, id) < ({place.ts}, {place.id}) and id <= {place.last_id}"
    return _listed(parameters, traffic, before, limit, "desc", only_traffic)


def following(traffic: Traffic, ts: int, id: int, limit: int) -> str:
    """Return SQL of up to `limit` events after (ts, id), oldest first."""
    after = f"(ts, id) > ({ts}, {id}) and id <= {traffic.last_id}"
    return _listed(Parameters(), traffic, after, limit, "asc", only_traffic=False)


def _listed(parameters: Parameters, traffic: Traffic, place: str, limit: int, way: str, only_traffic: bool) -> str:
    """Return SQL of events at a place, sorted: the columns that SQLite reads of an event (tally/storage/sql/events.py
    `events`), and whether its visit has its source from it."""
    first = ["id", "type", "ts", *(f"toString({field})" for field in FIELDS)]
    nothing = ["''"] * len(_MEASURED) + ["null"] * (1 + len(MEASURES))
    named = ["toString(event_name)", "nullIf(event_data, '')", "visitor", "toInt64(v_number) - 1"]
    columns = [*first, *named, *nothing, "v_sends"]
    source = traffic.source([*FIELDS, "event_name", "event_data", "v_number", "v_sends"])
    parts = [_part(columns, f"{source} where {traffic.matches(parameters)} and {place}", limit, way)]
    named = ["''", "null", "visitor", "null", *(f"toString({name})" for name in _MEASURED)]
    measured = [*first, *named, "value", *MEASURES, "1"]
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
    parts = (f"select day from {table} where {of_days(website, days)}" for table in ("event", "settled_day", "measure"))
    return f"select distinct day from ({' union all '.join(parts)}) order by day"


def unsettled(website: int, days: range) -> str:
    """Return SQL of a row where some days have events that are not settled, or are kept until no report reads them."""
    return f"select 1 from event where {of_days(website, days)} limit 1"


def sum_days(website: int, last_id: int) -> str:
    """Return SQL of the days that have imported sums and, up to an id, no events."""
    return (
        f"select distinct day from day_sum where website = {website} and day not in (select day from event"
        f" where website = {website} and id <= {last_id} union all select day from settled_day"
        f" where website = {website} and settled_day.events > 0) order by day"
    )
