"""The only SQL for reading events. Pure: functions that return (sql, parameters), run by read_api in one snapshot.

FILTERS maps every name a question may use to its column: it is the wall against SQL injection, a name that is not in it
never reaches SQL, and values are parameters, always. E in the comments is CONTRACT's: the traffic events of a website
in [from_ms, to_ms) that match all the filters.

Every statement opens with its own name, so that a slow one names its author, and reads a range of a clustered primary
key (website, time); tests/unit/storage/test_query_plans.py looks at the plan of each.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from tally.events.dimensions import FIELDS
from tally.events.validation import METRICS, PAGEVIEWS, TRAFFIC, TYPE_NUMBERS, VITALS
from tally.storage.event_data import STORED
from tally.storage.visitor_values import is_new
from tally.timestamps import DAY_MS

Query = tuple[str, list[Any]]

ALL = len(FIELDS)
"""The field number of event_name in table rollup; its value 0 counts all traffic."""
_LABELLED = (*FIELDS, "event_name")
FILTERS = (*_LABELLED, "type")
"""The fields that filter_<field> accepts: the 14 dimensions, event_name and type."""


def _type_condition(numbers: Collection[int], among: Collection[int]) -> str:
    """Return SQL that holds for rows whose type is one of `numbers`, in a table that has the types `among`."""
    others = set(among).difference(numbers)
    # One comparison where the numbers permit it.
    if not others or max(numbers) < min(others):
        return f"type <= {max(numbers)}"
    if min(numbers) > max(others):
        return f"type >= {min(numbers)}"
    return f"type in ({', '.join(map(str, sorted(numbers)))})"


IS_PAGEVIEW, IS_EVENT = _type_condition(PAGEVIEWS, TRAFFIC), _type_condition(TRAFFIC - PAGEVIEWS, TRAFFIC)
"""SQL expressions that count the pageviews, and the events, among rows of table event."""
VIEWS = f"coalesce(sum({IS_PAGEVIEW}), 0)"
CUSTOM = f"coalesce(sum({IS_EVENT}), 0)"


class Scope(NamedTuple):
    """The events of a query: website, range and filters (field -> accepted values; '' is unset)."""

    website: int
    from_ms: int
    to_ms: int
    filters: tuple[tuple[str, tuple[str, ...]], ...] = ()


def filters_of(scope: Scope, fixed: dict[str, str]) -> Query:
    """Return ` and ...` for each filter. `fixed` has an expression for each column that the table lacks."""
    sql = ""
    parameters: list[Any] = []
    for field, values in scope.filters:
        column = fixed.get(field, field)
        marks = ", ".join("?" * len(values))
        if field == "type":
            sql += f" and {column} in ({marks})"
            parameters += [TYPE_NUMBERS.get(value, -1) for value in values]
        elif field in _LABELLED:
            sql += f" and {column} in (select id from label where text in ({marks}))"
            parameters += values
        else:
            raise KeyError(field)
    return sql, parameters


def _traffic(scope: Scope, select: str) -> Query:
    """Return `select` over the matching events E."""
    sql, parameters = filters_of(scope, {})
    return (
        f"select {select} from event where website = ? and ts >= ? and ts < ?{sql}",
        [scope.website, scope.from_ms, scope.to_ms, *parameters],
    )


def stats(scope: Scope) -> Query:
    """One row of E: visitors, pageviews, events; of the visits that start in the range and have an event in E:
    their number, bounces, pageviews and duration in ms.

    One scan of the events serves both: two scans took 1.3 to 1.5 times as long.
    """
    inner, parameters = _traffic(scope, f"visitor, visit, {VIEWS} as pageviews, {CUSTOM} as customs")
    return (
        f"/* events.stats */ with met as materialized ({inner} group by visitor, visit)"
        " select (select count(distinct visitor) from met), (select coalesce(sum(pageviews), 0) from met),"
        " (select coalesce(sum(customs), 0) from met), count(*), coalesce(sum(pageviews = 1 and events = 0), 0),"
        " coalesce(sum(pageviews), 0), coalesce(sum(duration_ms), 0) from visit where website = ?"
        " and start_ms >= ? and start_ms < ?"
        " and (visitor, visit) in (select visitor, visit from met)",
        [*parameters, scope.website, scope.from_ms, scope.to_ms],
    )


def visitors(scope: Scope) -> Query:
    """One number: the visitors of E."""
    sql, parameters = _traffic(scope, "count(distinct visitor)")
    return f"/* events.visitors */ {sql}", parameters


def series(scope: Scope, edges: Sequence[tuple[int, int]]) -> Query:
    """Rows to be added up (bucket number, visitors, visits, pageviews, events), for buckets that tile the range.

    Visits: those that begin in the bucket and have an event in the whole range's E.
    """
    filters, values = filters_of(scope, {})
    return (
        "/* events.series */ with bucket (n, lo, hi) as materialized"
        " (select key, json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(?)),"
        f" met as materialized (select n, visitor, visit, {VIEWS} as pageviews, {CUSTOM} as customs"
        f" from bucket cross join event where website = ? and ts >= lo and ts < hi{filters} group by n, visitor, visit)"
        " select n, count(distinct visitor), 0, sum(pageviews), sum(customs) from met group by n union all"
        " select n, 0, count(*), 0, 0 from bucket cross join visit where website = ? and start_ms >= lo"
        " and start_ms < hi and (visitor, visit) in (select visitor, visit from met) group by n",
        [orjson.dumps(edges).decode(), scope.website, *values, scope.website],
    )


def counts(scope: Scope, field: str) -> Query:
    """A row (label of the value, visitors, pageviews, events) for each value of a field in E."""
    if field not in _LABELLED:
        raise KeyError(field)
    inner, parameters = _traffic(scope, f"{field}, count(distinct visitor), {VIEWS}, {CUSTOM}")
    return f"/* events.counts */ {inner}{_only(field)} group by {field}", parameters


def _only(field: str) -> str:
    # What has no name is no custom event, or one that nobody lists.
    return " and event_name > 0" if field == "event_name" else ""


def in_order(website: int, field: str, from_ms: int, to_ms: int) -> Query:
    """One row of four JSON arrays over the traffic of a time, oldest first: milliseconds from its beginning, visitors,
    1 for events and app events, labels of the field's values (all 0 if `field` is '')."""
    if field and field not in _LABELLED:
        raise KeyError(field)
    return (
        "/* events.in_order */ select json_group_array(ts - ?), json_group_array(visitor), json_group_array(custom),"
        f" json_group_array(value) from (select ts, visitor, {IS_EVENT} as custom, {field or 0} as value from event"
        " where website = ? and ts >= ? and ts < ? order by ts, id)",
        [from_ms, website, from_ms, to_ms],
    )


def texts(labels: Sequence[int]) -> Query:
    """The text of each label: (label, text)."""
    return (
        "/* events.texts */ select id, text from label where id in (select value from json_each(?))",
        [orjson.dumps(list(labels)).decode()],
    )


def first_texts(labels: Sequence[int], limit: int) -> Query:
    """The labels with the first texts, in their order: (label, text)."""
    return (
        "/* events.first_texts */ select id, text from label where id in (select value from json_each(?))"
        " order by text limit ?",
        [orjson.dumps(list(labels)).decode(), limit],
    )


# --- totals of whole quarters (tally/rollups/totals.py)


def totals(website: int, first: int, end: int, midnight: int) -> Query:
    """One row over the quarters in [first, end): visitors, pageviews, events, visits, bounces,
    pageviews and ms of the visits.

    Visitors: the sum of last_seen before the quarter `midnight`, of first_seen from it on.
    """
    return (
        "/* events.totals */ select coalesce(sum(iif(quarter < ?, last_seen, first_seen)), 0),"
        " coalesce(sum(pageviews), 0),"
        " coalesce(sum(events), 0), coalesce(sum(visits), 0), coalesce(sum(bounces), 0),"
        " coalesce(sum(visit_pageviews), 0),"
        " coalesce(sum(visit_duration_ms), 0) from total_15m where website = ? and quarter >= ? and quarter < ?",
        [midnight, website, first, end],
    )


def days(website: int, first: int, end: int) -> Query:
    """A row (n, visitors, visits, pageviews, events) for each local day of 96 quarters from `first` on to `end`."""
    return (
        "/* events.days */ select (quarter - ?) / 96, sum(iif((quarter - ?) % 96 < ?, last_seen, first_seen)),"
        " sum(visits),"
        " sum(pageviews), sum(events) from total_15m where website = ? and quarter >= ? and quarter < ? group by 1",
        # So many quarters lie before the midnight UTC that is in it.
        [first, first, -first % 96, website, first, end],
    )


def hours(website: int, first: int, end: int) -> Query:
    """A row (n, visitors, visits, pageviews, events) for each stretch of 4 quarters from `first` on to `end`.

    Visitors of an hour that crosses midnight UTC: those before it, and those whose first event lies behind it.
    """
    return (
        "/* events.hours */ select (quarter - ?) / 4, sum(iif((quarter - ?) % 4 = 0, hour_visitors,"
        " iif(quarter % 96 < (quarter - ?) % 4, first_seen, 0))), sum(visits), sum(pageviews), sum(events)"
        " from total_15m"
        " where website = ? and quarter >= ? and quarter < ? group by 1",
        [first, first, first, website, first, end],
    )


def came_first(website: int, midnight_ms: int, from_ms: int, to_ms: int) -> Query:
    """One number: visitors of the day from `midnight_ms` on whose first event lies in [from_ms, to_ms)."""
    return (
        "/* events.came_first */ with late as materialized (select distinct visitor from visit"
        " where website = ? and start_ms >= ? and start_ms < ?)"
        " select (select count(*) from late) - count(distinct visitor) from visit"
        " where website = ? and start_ms >= ? and start_ms < ? and visitor in (select visitor from late)",
        [website, from_ms, to_ms, website, midnight_ms, from_ms],
    )


def came_last(website: int, midnight_ms: int, from_ms: int, to_ms: int) -> Query:
    """One number: visitors of the day up to the midnight `midnight_ms` whose last event lies in [from_ms, to_ms)."""
    begin_ms = midnight_ms - DAY_MS
    return (
        "/* events.came_last */ with early as materialized (select distinct visitor from visit where website = ?"
        " and start_ms >= ? and start_ms < ? and start_ms + duration_ms >= ? and start_ms + duration_ms < ?)"
        " select (select count(*) from early) - count(distinct visitor) from visit"
        " where website = ? and start_ms >= ? and start_ms < ? and start_ms + duration_ms >= ?"
        " and visitor in (select visitor from early)",
        [website, begin_ms, to_ms, from_ms, to_ms, website, begin_ms, midnight_ms, to_ms],
    )


def visitors_between(website: int, from_ms: int, to_ms: int, most: int) -> Query:
    """Up to `most` visitors with an event in [from_ms, to_ms)."""
    return (
        "/* events.visitors_between */ select distinct visitor from event"
        " where website = ? and ts >= ? and ts < ? limit ?",
        [website, from_ms, to_ms, most],
    )


def how_many_of(website: int, from_ms: int, to_ms: int, visitors: Sequence[int]) -> Query:
    """One number: those of `visitors` with an event in [from_ms, to_ms)."""
    return (
        "/* events.how_many_of */ select count(distinct visitor) from event where website = ? and ts >= ? and ts < ?"
        " and visitor in (select value from json_each(?))",
        [website, from_ms, to_ms, orjson.dumps(list(visitors)).decode()],
    )


# --- values over whole days (tally/rollups/rollup_state.py)


def sums(website: int, field: int, tiles: Sequence[tuple[int, int]]) -> Query:
    """A row (label, visitors, pageviews, events) for each value of a field in blocks (level, number)."""
    block = "select * from rollup where website = ? and field = ? and level = ? and block = ?"
    return (
        "/* events.sums */ select value, sum(visitors), sum(pageviews), sum(events)"
        f" from ({' union all '.join([block] * len(tiles))}) group by value",
        [number for tile in tiles for number in (website, field, *tile)],
    )


def not_folded(website: int, field: int, day: int, from_ms: int, to_ms: int) -> Query:
    """A row (label, visitors new to it, pageviews, events) for each value in a part of a day that is not in rollup."""
    column = _LABELLED[field]
    return (
        f"/* events.not_folded */ select value, sum({is_new(column)}), sum(pageviews), sum(events)"
        f" from (select {column} as value, visitor, sum({IS_PAGEVIEW}) as pageviews, sum({IS_EVENT}) as events"
        f" from event where website = ?1 and ts >= ?4 and ts < ?5{_only(column)} group by 1, 2) as news group by value",
        [website, day, field, from_ms, to_ms],
    )


def matching(website: int, field: int, first: int, end: int, values: Sequence[str]) -> Query:
    """A row (day, traffic events in rollup with one of the values) for each day in [first, end) that has any."""
    marks = ", ".join("?" * len(values))
    return (
        "/* events.matching */ select rollup_state.block, sum(pageviews + events)"
        " from label cross join rollup_state cross join rollup"
        f" using (website, level, block) where text in ({marks}) and website = ? and level = 0"
        " and rollup_state.block >= ?"
        " and rollup_state.block < ? and field = ? and value = label.id group by rollup_state.block",
        [*values, website, first, end, field],
    )


def folded(website: int, first: int, end: int) -> Query:
    """A row (day, traffic events in rollup) for each day in [first, end)."""
    return (
        "/* events.folded */ select rollup_state.block, pageviews + events from rollup_state cross join rollup"
        " using (website, level, block) where website = ? and level = 0 and rollup_state.block >= ?"
        " and rollup_state.block < ?"
        " and field = ? and value = 0",
        [website, first, end, ALL],
    )


def last_kept(website: int) -> Query:
    """One number: the last day whose raw events have expired."""
    return (
        "/* events.last_kept */ select block from rollup_state where website = ? and level = 0 and block >= 0"
        " and state = 3"
        " order by block desc limit 1",
        [website],
    )


def traffic(scope: Scope) -> Query:
    """One number: the events of E."""
    sql, parameters = _traffic(scope, "count(*)")
    return f"/* events.traffic */ {sql}", parameters


class Place(NamedTuple):
    """The end of a page of events: the next page starts before (ts, id), with ids up to `last_id`."""

    ts: int
    id: int
    last_id: int


_DIMENSIONS = ", ".join(FIELDS)
_COLUMNS = ("visitor", "visit", "event_name", "event_data", "experiment", "variant", "goal", "value", *METRICS)
_SOURCES: tuple[tuple[str, dict[str, str]], ...] = (
    ("event", dict.fromkeys(("experiment", "variant", "goal", "value", *METRICS), "null") | {"event_data": STORED}),
    ("web_vitals", dict.fromkeys(_COLUMNS[:8], "null") | {"type": str(VITALS), "event_name": "0"}),
    ("experiment_event", {"event_name": "0", **dict.fromkeys(("visit", "event_data", *METRICS), "null")}),
)


def events(scope: Scope, place: Place, limit: int, *, only_traffic: bool = False) -> Query:
    """Up to `limit` rows before `place`, newest first, of the three tables that hold events, or of traffic alone.

    Columns: id, type, ts, the 14 fields as text, event_name as text, event_data, visitor, visit, experiment, variant,
    goal as text, value, the 5 metrics.
    """
    parts: list[str] = []
    parameters: list[Any] = []
    for table, fixed in _SOURCES[:1] if only_traffic else _SOURCES:
        filters, values = filters_of(scope, fixed)
        columns = ", ".join(fixed.get(column, column) + f" as {column}" for column in ("type", *_COLUMNS))
        parts.append(
            f"select * from (select id, ts, {_DIMENSIONS}, {columns} from {table}"
            " where website = ? and ts >= ? and ts < ?"
            f" and (ts, id) < (?, ?) and id <= ?{filters} order by ts desc, id desc limit ?)"
        )
        parameters += [scope.website, scope.from_ms, min(scope.to_ms, place.ts + 1), *place, *values, limit]
    texts = ", ".join(f"(select text from label where label.id = found.{field})" for field in FIELDS)
    named = ("event_name", "experiment", "variant", "goal")
    rest = ", ".join(
        f"(select text from label where label.id = found.{column})" if column in named else column
        for column in ("event_name", "event_data", "visitor", "visit", *_COLUMNS[4:])
    )
    return (
        f"/* events.events */ with found as materialized (select * from ({' union all '.join(parts)})"
        " order by ts desc, id desc limit ?)"
        f" select id, type, ts, {texts}, {rest} from found order by ts desc, id desc",
        [*parameters, limit],
    )


def latest(website: int, after_ms: int, until_ms: int, visitors: Sequence[int] | None = None) -> Query:
    """The traffic events in (after_ms, until_ms], newest first: (visitor, visit, is it a view, label of pathname, ts).

    Of some visitors, or of all.
    """
    some = "" if visitors is None else " and visitor in (select value from json_each(?))"
    return (
        f"/* events.latest */ select visitor, visit, {IS_PAGEVIEW}, pathname, ts from event"
        f" where website = ? and ts > ? and ts <= ?{some} order by ts desc, id desc",
        [website, after_ms, until_ms, *([] if visitors is None else [orjson.dumps(visitors).decode()])],
    )


def newest(website: int, after_ms: int) -> Query:
    """The time of the newest traffic event after a time; null if there is none."""
    return "/* events.newest */ select max(ts) from event where website = ? and ts > ?", [website, after_ms]


def by_level(tiles: Iterable[tuple[int, int]]) -> list[tuple[int, str]]:
    """Blocks (level, number) as a level and a list for json_each, once for each level."""
    numbers: dict[int, list[int]] = {}
    for level, block in tiles:
        numbers.setdefault(level, []).append(block)
    return [(level, orjson.dumps(blocks).decode()) for level, blocks in numbers.items()]
