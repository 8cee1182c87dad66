"""Settling: what is known of the visits of a day is computed once, when hardly any event of it can arrive any more.

A version of a day is written to `settled`, counted, and then named in `settled_day`, which is what reports read. So
nothing is lost, and nothing counts twice, where it ends at any point: rows of a version that is not named are never
read. Events that arrive later are in `event`; the day is then cut again for each report, until it is settled again.
"""

from collections.abc import Sequence

from tally.clickhouse import schema
from tally.clickhouse.client import Client
from tally.clickhouse.visits import PROPERTIES, VISIT_COLUMNS, Traffic, TrafficDay
from tally.engine.values import Scope
from tally.events.dimensions import FIELDS, PAGES
from tally.timestamps import DAY_MS

_COLUMNS = (*FIELDS, *PAGES, "event_name", "event_data", *PROPERTIES, *VISIT_COLUMNS)


class NotSettled(Exception):
    """A version of a day does not have as many events as the day."""


async def traffic_days(client: Client, website: int, last_id: int, day: int | None = None) -> list[TrafficDay]:
    """Return the days of a website that have events, up to an id; of all days, or one."""
    place = f"website = {website}" + ("" if day is None else f" and day = {day}")
    rows = await client.rows(
        "select day, version, last_id, newest > last_id as is_late, if(is_late, settled + arrived, 0) from (select day,"
        " max(settled_day.version) as version, argMax(settled_day.last_id, settled_day.version) as last_id,"
        f" argMax(settled_day.events, settled_day.version) as settled from settled_day where {place} group by day)"
        f" as own full join (select day, max(id) as newest, count() as arrived from event where {place}"
        f" and id <= {last_id} group by day) as latest using day",
        {},
    )
    return [TrafficDay(day, version, last, bool(late), events) for day, version, last, late, events in rows]


async def settle(client: Client, website: int, day: int, last_id: int) -> int:
    """Settle a day of a website, with the events up to an id; return their number. Raises Refused, NoAnswer."""
    # A server that is new, or was away, lacks events that the others have.
    await client.sync("event", "settled", "settled_day")
    days = await traffic_days(client, website, last_id, day)
    place = f"website = {website} and day = {day}"
    # Rows of an attempt that was never named, or is still being written, have a version of their own.
    (attempted,) = (await client.rows(f"select max(version) from settled where {place}", {}))[0]
    version = 1 + max([attempted, *(one.version for one in days)])
    day_scope = Scope(website, day * DAY_MS, (day + 1) * DAY_MS)
    source = Traffic(day_scope, last_id, days).source(_COLUMNS)
    names, stored = ", ".join(_COLUMNS), f"{place} and version = {version}"
    await client.execute(
        f"insert into settled (website, version, day, visitor, ts, id, type, {names})"
        f" select {website}, {version}, day, visitor, ts, id, type, {names} from {source}"
    )
    ((events, settled),) = await client.rows(
        f"select (select count() from {source}), (select count() from settled where {stored})", {}
    )
    if events != settled:
        raise NotSettled(f"day {day} of website {website}: {settled} of {events} events")
    row = {"website": website, "day": day, "version": version, "events": events, "last_id": last_id}
    await client.insert("settled_day", [row], f"settled_day/{website}/{day}/{version}")
    return int(events)


async def next_days(client: Client, copies: Sequence[tuple[int, int]], before_day: int) -> list[tuple[int, int, int]]:
    """Return (website, day, last id) of the first day of each website that has events which are not settled.

    copies: (website, first day that is kept). Raises ApiError.
    """
    rows = await client.rows(
        "select website, min(day) as first, argMin(newest, day)"
        f" from (select website, day, max(id) as newest from event where {_kept(copies)}"
        f" and day < {max(before_day, 0)} group by website, day) as arrived left join ({_NEWEST}) as own"
        " using (website, day) where version = 0 or newest > last_id group by website order by website",
        {},
    )
    return [(website, day, last_id) for website, day, last_id in rows]


async def delete_unread(client: Client, copies: Sequence[tuple[int, int]], seconds: int) -> bool:
    """Delete what is not read any more of days that were settled so many seconds ago: their rows in event, and older
    versions. Return whether there was any. Raises Refused, NoAnswer, ApiError.
    """
    rows = await client.rows(
        "select website, day, last_id, version from (select website, day, min(id) as oldest from event"
        f" where {_kept(copies)} group by website, day) as arrived inner join ({_NEWEST}) as own using (website, day)"
        f" where oldest <= last_id and at <= now() - {seconds} order by day limit {_DELETED_AT_ONCE}",
        {},
    )
    days = [f"website = {website} and day = {day}" for website, day, *_ in rows]
    older = [f"{day} and version < {row[3]}" for day, row in zip(days, rows, strict=True) if row[3] > 1]
    arrived = [f"{day} and id <= {row[2]}" for day, row in zip(days, rows, strict=True)]
    # The rows of event last: where this ends before, it begins again.
    for table, unread in (("settled", older), ("settled_day", older), ("event", arrived)):
        if unread:
            await client.execute(schema.delete_where(table, " or ".join(unread), waits_for=2))
    return bool(rows)


# Of each day: its newest version.
_NEWEST = (
    "select website, day, max(settled_day.version) as version,"
    " argMax(settled_day.last_id, settled_day.version) as last_id, max(settled_day.at) as at"
    " from settled_day group by website, day"
)
# Days. Each deletion reads a table once.
_DELETED_AT_ONCE = 200


def _kept(copies: Sequence[tuple[int, int]]) -> str:
    """Return SQL that holds for the days of some websites that are kept."""
    websites, first_days = [copy for copy, _ in copies], [day for _, day in copies]
    return f"has({websites}, website) and day >= transform(website, {websites}, {first_days}, 65535)" if copies else "0"
