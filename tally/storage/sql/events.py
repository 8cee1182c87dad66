"""The only SQL for reading events. Pure: functions that return (sql, parameters), run by read_api in one snapshot.

Conditions of filters are made in tally/storage/sql/filters.py; values are always parameters. E in the comments is the
set of traffic events of a website in [from_ms, to_ms) that match all the filters.

Every statement opens with its own name, so that a slow one names its author, and reads a range of a clustered primary
key (website, time); tests/unit/storage/test_query_plans.py checks the plan of each.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import orjson

from tally.engine.values import LABELLED, Place, Scope
from tally.events.dimensions import EVENT_FIELDS, EVENT_NAME, FIELDS, PAGES, VISIT_FIELDS
from tally.events.validation import METRICS, PAGEVIEWS, TRAFFIC, VITALS
from tally.storage.event_data import STORED
from tally.storage.sql.filters import Query, conditions
from tally.storage.visitor_values import is_new
from tally.timestamps import DAY_MS, QUARTER_MS

_FEW_LABELS = 64
# Days as rows of `wanted`. Materialized: SQLite would parse the list again for each row of an outer loop.
_DAYS = "with wanted as materialized (select value as day from json_each(?))"
_OF_EVENT = (*EVENT_FIELDS, "event_name")


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
IS_BOUNCE = "(pageviews = 1 and events = 0)"
"""The same for the bounces among rows of table visit."""
VIEWS = f"coalesce(sum({IS_PAGEVIEW}), 0)"
CUSTOM = f"coalesce(sum({IS_EVENT}), 0)"


def filters_of(scope: Scope, fixed: dict[str, str]) -> Query:
    """Return ` and ...` for each filter. `fixed` has an expression for each column that the table lacks."""
    return conditions(scope.website, scope.filters, fixed)


def traffic_filters(scope: Scope) -> Query:
    """Return ` and ...` for each filter of a scope, over table event."""
    sql, parameters = conditions(scope.website, scope.of_events, {})
    of_visits, values = conditions(scope.website, scope.of_visits, {})
    if of_visits:
        sql += (
            " and (visitor, visit) in (select visitor, visit from visit"
            f" where website = ? and day >= ? and day <= ?{of_visits})"
        )
        parameters += [scope.website, scope.from_ms // DAY_MS, (scope.to_ms - 1) // DAY_MS, *values]
    return sql, parameters


def _traffic(scope: Scope, select: str) -> Query:
    """Return `select` over the matching events E."""
    sql, parameters = traffic_filters(scope)
    return (
        f"select {select} from event where website = ? and ts >= ? and ts < ?{sql}",
        [scope.website, scope.from_ms, scope.to_ms, *parameters],
    )


def met_visits(scope: Scope, select: str, selected: Sequence[int] = (), column: str = "") -> Query:
    """Return `select` over the visits, as own, that have an event in E, with `seen` pageviews and `done` events of it.

    `selected`: the parameters of `select`. The scope lies in one UTC day. A visit is found by its key: 0.7 µs.
    `column`: of table event; each visit is met once for each of its values in E, as `value`.
    """
    value, by = (f"{column} as value, ", "value, ") if column else ("", "")
    inner, parameters = _traffic(
        scope._replace(filters=scope.of_events), f"{value}visitor, visit, {VIEWS} as seen, {CUSTOM} as done"
    )
    sql, values = conditions(scope.website, scope.of_visits, {})
    return (
        f"with met as materialized ({inner} group by {by}visitor, visit) select {select} from met"
        f" cross join visit as own using (visitor, visit) where website = ? and day = ?{sql}",
        [*parameters, *selected, scope.website, scope.day, *values],
    )


def begun_visits(scope: Scope, select: str, column: str = "") -> Query:
    """Return `select` over the visits, as own, that begin in a scope and have an event in E.

    `column`: as of met_visits.
    """
    if scope.of_events or column:
        sql, parameters = met_visits(scope, select, column=column)
    else:
        # The event with which such a visit begins is in E.
        filters, values = conditions(scope.website, scope.of_visits, {})
        sql = f"select {select} from visit as own where website = ? and day = ?{filters}"
        parameters = [scope.website, scope.day, *values]
    if scope.is_day:
        return sql, parameters
    return f"{sql} and start_ms >= ? and start_ms < ?", [*parameters, scope.from_ms, scope.to_ms]


def stats(scope: Scope) -> Query:
    """One row of E, within a UTC day: visitors, pageviews, events; of the visits that start in the range and have an
    event in E: their number, bounces, pageviews and duration in ms."""
    if scope.is_day and not scope.of_events:
        sql, parameters = begun_visits(
            scope,
            "count(distinct visitor), coalesce(sum(pageviews), 0), coalesce(sum(events), 0), count(*),"
            f" coalesce(sum({IS_BOUNCE}), 0), coalesce(sum(pageviews), 0), coalesce(sum(duration_ms), 0)",
        )
        return f"/* events.stats_of_day */ {sql}", parameters
    begun = "start_ms >= ? and start_ms < ?"
    sql, parameters = met_visits(
        scope, f"visitor, seen, done, pageviews, duration_ms, {begun} as begun, {IS_BOUNCE} as bounced", scope[1:3]
    )
    return (
        "/* events.stats */ select count(distinct visitor), coalesce(sum(seen), 0), coalesce(sum(done), 0),"
        " coalesce(sum(begun), 0), coalesce(sum(begun and bounced), 0), coalesce(sum(iif(begun, pageviews, 0)), 0),"
        f" coalesce(sum(iif(begun, duration_ms, 0)), 0) from ({sql})",
        parameters,
    )


def visitors(scope: Scope) -> Query:
    """One number: the visitors of E."""
    sql, parameters = _traffic(scope, "count(distinct visitor)")
    return f"/* events.visitors */ {sql}", parameters


def series(scope: Scope, edges: Sequence[tuple[int, int]]) -> Query:
    """Rows to be added up (bucket number, visitors, visits, pageviews, events), for buckets that tile the range.

    Visits: those that begin in the bucket and have an event in the whole range's E. Of each, the bucket is the last one
    that begins before it does: starts and buckets are sorted together, because a join would compare all with all.
    """
    filters, values = traffic_filters(scope)
    begun, parameters = begun_visits(scope._replace(filters=scope.of_events), "visitor, visit, start_ms")
    return (
        "/* events.series */ with bucket (n, lo, hi) as materialized"
        " (select key, json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(?)),"
        f" counted as materialized (select n, visitor, visit, {VIEWS} as pageviews, {CUSTOM} as customs"
        f" from bucket cross join event where website = ? and ts >= lo and ts < hi{filters}"
        " group by n, visitor, visit),"
        f" begun as (select start_ms from ({begun}) where (visitor, visit) in (select visitor, visit from counted))"
        " select n, count(distinct visitor), 0, sum(pageviews), sum(customs) from counted group by n union all"
        " select place, 0, sum(is_visit), 0, 0 from (select is_visit, max(n) over (order by ms, is_visit) as place"
        " from (select lo as ms, 0 as is_visit, n from bucket union all select start_ms, 1, null from begun))"
        " where is_visit group by place",
        [orjson.dumps(edges).decode(), scope.website, *values, *parameters],
    )


def counts(scope: Scope, field: str) -> Query:
    """A row (label of the value, visitors, pageviews, events) for each value of a field in E."""
    if field in VISIT_FIELDS:
        return _visit_counts(scope, field)
    if field not in _OF_EVENT:
        raise KeyError(field)
    inner, parameters = _traffic(scope, f"{field}, count(distinct visitor), {VIEWS}, {CUSTOM}")
    return f"/* events.counts */ {inner}{_only(field)} group by {field}", parameters


def _visit_counts(scope: Scope, field: str) -> Query:
    if scope.is_day and not scope.of_events:
        sql, parameters = begun_visits(scope, f"{field}, count(distinct visitor), sum(pageviews), sum(events)")
    else:
        sql, parameters = met_visits(scope, f"{field}, count(distinct visitor), sum(seen), sum(done)")
    return f"/* events.visit_counts */ {sql} group by {field}", parameters


def visit_figures(scope: Scope, field: str) -> Query:
    """A row (label of the value, visits, bounces, their pageviews, their ms) for each value of a field: of the visits
    that begin in a scope, within a UTC day, and have an event with the value in E."""
    if field not in LABELLED:
        raise KeyError(field)
    is_of_visit = field in VISIT_FIELDS
    value = field if is_of_visit else "value"
    select = f"{value}, count(*), sum({IS_BOUNCE}), sum(pageviews), sum(duration_ms)"
    sql, parameters = begun_visits(scope, select, "" if is_of_visit else field)
    return f"/* events.visit_figures */ {sql} group by 1", parameters


def _only(field: str) -> str:
    # Rows without a name are not in the list: pageviews, and custom events that have none.
    return " and event_name > 0" if field == "event_name" else ""


def of_visit(column: str) -> str:
    """Return SQL for a column of the visit of an event."""
    return (
        f"(select own.{column} from visit as own where own.website = event.website and own.day = event.ts / {DAY_MS}"
        " and own.visitor = event.visitor and own.visit = event.visit)"
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


def came_first(website: int, from_ms: int, to_ms: int) -> Query:
    """One number: visitors whose first event of the UTC day lies in [from_ms, to_ms), a part of it."""
    sql, parameters = _visitors_without("start_ms < ?", website, from_ms, to_ms)
    return f"/* events.came_first */ {sql}", [*parameters, from_ms]


def came_last(website: int, from_ms: int, to_ms: int) -> Query:
    """One number: visitors whose last event of the UTC day lies in [from_ms, to_ms), a part of it."""
    sql, parameters = _visitors_without("start_ms + duration_ms >= ?", website, from_ms, to_ms)
    return f"/* events.came_last */ {sql}", [*parameters, to_ms]


def _visitors_without(condition: str, website: int, from_ms: int, to_ms: int) -> Query:
    """Return the visitors with an event in a part of a day and no visit of that day that meets `condition`."""
    return (
        "select count(*) from (select distinct visitor from event where website = ? and ts >= ?"
        " and ts < ?) as here where not exists (select 1 from visit as own where own.website = ? and own.day = ?"
        f" and own.visitor = here.visitor and {condition})",
        [website, from_ms, to_ms, website, from_ms // DAY_MS],
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


def sums(website: int, field: int, days: Iterable[int]) -> Query:
    """A row (label, visitors, pageviews, events) for each value of a field on some days, in the order of labels."""
    return (
        "/* events.sums */ select value, sum(visitors), sum(pageviews), sum(events) from rollup"
        " where website = ? and field = ? and day in (select value from json_each(?)) group by value order by value",
        [website, field, orjson.dumps(list(days)).decode()],
    )


def not_folded(website: int, field: int, day: int, from_ms: int, to_ms: int) -> Query:
    """A row (label, visitors new to it, pageviews, events) for each value in a part of a day that is not in rollup."""
    column = "event_name" if field == EVENT_NAME else FIELDS[field]
    return (
        f"/* events.not_folded */ select value, sum({is_new(column)}), sum(pageviews), sum(events)"
        f" from (select {column} as value, visitor, sum({IS_PAGEVIEW}) as pageviews, sum({IS_EVENT}) as events"
        f" from event where website = ?1 and ts >= ?4 and ts < ?5{_only(column)} group by 1, 2) as news group by value",
        [website, day, field, from_ms, to_ms],
    )


def is_among(column: str, labels: Sequence[int]) -> str:
    """A condition on a label, whose parameter is the labels as JSON.

    A few labels are looked up one by one on each day; more are found in a scan of the day's values.
    """
    return f"{'' if len(labels) <= _FEW_LABELS else '+'}{column} in (select value from json_each(?))"


def matching(website: int, field: int, days: Iterable[int], texts: Sequence[str]) -> Query:
    """A row (day, traffic events in rollup with one of the values) for each of some days that has any."""
    marks = ", ".join("?" * len(texts))
    return (
        f"/* events.matching */ {_DAYS} select rollup.day, sum(pageviews + events) from label cross join wanted"
        " cross join rollup on website = ? and field = ? and rollup.day = wanted.day"
        f" and rollup.value = label.id where text in ({marks}) group by rollup.day",
        [orjson.dumps(list(days)).decode(), website, field, *texts],
    )


def matching_labels(website: int, field: int, days: Iterable[int], labels: Sequence[int]) -> Query:
    """The same for values given as labels."""
    return (
        f"/* events.matching_labels */ {_DAYS} select rollup.day, sum(pageviews + events) from wanted"
        " cross join rollup on website = ? and field = ? and rollup.day = wanted.day"
        f" and {is_among('rollup.value', labels)} group by rollup.day",
        [orjson.dumps(list(days)).decode(), website, field, orjson.dumps(list(labels)).decode()],
    )


def values_of_day(website: int, field: int, day: int) -> Query:
    """The labels of a field's values on a day that is in rollup."""
    return (
        "/* events.values_of_day */ select value from rollup where website = ? and field = ? and day = ?",
        [website, field, day],
    )


def folded(website: int, days: Iterable[int]) -> Query:
    """A row (day, traffic events in rollup) for each of some days that has any."""
    return (
        f"/* events.folded */ {_DAYS} select rollup.day, pageviews + events from wanted cross join rollup"
        " on website = ? and field = ? and rollup.day = wanted.day and value = 0",
        [orjson.dumps(list(days)).decode(), website, EVENT_NAME],
    )


def last_kept(website: int) -> Query:
    """One number: the last day whose raw events have expired."""
    return (
        "/* events.last_kept */ select block from rollup_state"
        " where website = ? and kind = 0 and level = 0 and block >= 0 and state = 3 order by block desc limit 1",
        [website],
    )


def first_event(website: int) -> Query:
    """One number: the time of the first traffic event, or of its quarter hour where days have no rows; no row if there
    is none.

    A day whose only events came from an import that was undone is final (2), without totals.
    """
    of_day = "website = day.website and {0} between {1} * day.block and {1} * day.block + {1} - 1 order by {0} limit 1"
    total = f"select quarter from total_15m where {of_day.format('quarter', DAY_MS // QUARTER_MS)}"
    return (
        f"/* events.first_event */ select coalesce((select ts from event where {of_day.format('ts', DAY_MS)}),"
        f" ({total}) * {QUARTER_MS}, block * {DAY_MS})"
        " from rollup_state as day where website = ? and kind = 0 and level = 0"
        f" and block >= 0 and (state not in (2, 3) or exists ({total})) order by block limit 1",
        [website],
    )


def traffic(scope: Scope) -> Query:
    """One number: the events of E."""
    sql, parameters = _traffic(scope, "count(*)")
    return f"/* events.traffic */ {sql}", parameters


_COLUMNS = ("visitor", "visit", "event_name", "event_data", "experiment", "variant", "goal", "value", *METRICS)
NO_TRAFFIC = dict.fromkeys(("event_name", *PAGES), "0") | {"event_data": "null"}
"""What stands for the fields that tables of measurements lack."""
# For each table of events: what stands for the columns that it lacks.
_SOURCES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "event",
        dict.fromkeys(("experiment", "variant", "goal", "value", *METRICS), "null")
        | {"event_data": STORED}
        | {field: of_visit(field) for field in VISIT_FIELDS},
    ),
    (
        "web_vitals",
        dict.fromkeys(_COLUMNS[:8], "null") | {"type": str(VITALS)} | NO_TRAFFIC,
    ),
    ("experiment_event", dict.fromkeys(("visit", "event_data", *METRICS), "null") | NO_TRAFFIC),
)


def events(scope: Scope, place: Place, limit: int, *, only_traffic: bool = False) -> Query:
    """Up to `limit` rows before `place`, newest first, of the three tables that hold events, or of traffic alone.

    Columns: id, type, ts, the dimensions as text, event_name as text, event_data, visitor, visit, experiment, variant,
    goal as text, value, the 5 metrics.
    """
    parts: list[str] = []
    parameters: list[Any] = []
    for table, fixed in _SOURCES[:1] if only_traffic else _SOURCES:
        filters, values = filters_of(scope, fixed)
        columns = ", ".join(fixed.get(column, column) + f" as {column}" for column in (*FIELDS, "type", *_COLUMNS))
        parts.append(
            f"select * from (select id, ts, {columns} from {table}"
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
