"""Settling: what is known of the visits of a day is computed once, when hardly any event of it can arrive any more.

A version of a day is written to `settled`, counted, and then named in `settled_day`, which is what reports read. So
nothing is lost, and nothing counts twice, where it ends at any point: rows of a version that is not named are never
read. Events that arrive later are in `event`; the day is then cut again for each report, until it is settled again.
"""

from tally.clickhouse.client import Client
from tally.clickhouse.visits import PROPERTIES, VISIT_COLUMNS, SettledDay, Traffic
from tally.engine.values import Scope
from tally.events.dimensions import FIELDS, PAGES
from tally.timestamps import DAY_MS

_COLUMNS = (*FIELDS, *PAGES, "event_name", "event_data", *PROPERTIES, *VISIT_COLUMNS)


class NotSettled(Exception):
    """A version of a day does not have as many events as the day."""


async def settled_days(client: Client, website: int, last_id: int) -> list[SettledDay]:
    """Return the settled days of a website, up to an id."""
    rows = await client.rows(
        "select day, version, last_id, newest > last_id from (select day, max(settled_day.version) as version,"
        " argMax(settled_day.last_id, settled_day.version) as last_id from settled_day"
        f" where website = {website} group by day) as own left join (select day, max(id) as newest from event"
        f" where website = {website} and id <= {last_id} group by day) as arrived using day",
        {},
    )
    return [SettledDay(day, version, last, bool(late)) for day, version, last, late in rows]


async def settle(client: Client, website: int, day: int, last_id: int) -> int:
    """Settle a day of a website, with the events up to an id; return their number. Raises Refused, NoAnswer."""
    known = await settled_days(client, website, last_id)
    version = 1 + max((one.version for one in known if one.day == day), default=0)
    day_scope = Scope(website, day * DAY_MS, (day + 1) * DAY_MS)
    source = Traffic(day_scope, last_id, known).source(_COLUMNS)
    named, own = ", ".join(_COLUMNS), f"website = {website} and day = {day} and version = {version}"
    (left,) = (await client.rows(f"select count() from settled where {own}", {}))[0]
    if left:
        # Of an attempt that ended before it was named.
        await client.execute(f"alter table settled delete where {own} settings mutations_sync = 2")
    await client.execute(
        f"insert into settled (website, version, day, visitor, ts, id, type, {named})"
        f" select {website}, {version}, day, visitor, ts, id, type, {named} from {source}"
    )
    ((events, stored),) = await client.rows(
        f"select (select count() from {source}), (select count() from settled where {own})", {}
    )
    if events != stored:
        raise NotSettled(f"day {day} of website {website}: {stored} of {events} events")
    row = {"website": website, "day": day, "version": version, "events": events, "last_id": last_id}
    await client.insert("settled_day", [row], f"settled_day/{website}/{day}/{version}")
    if version > 1:
        await client.execute(
            f"alter table settled delete where website = {website} and day = {day} and version < {version}"
        )
    return int(events)
