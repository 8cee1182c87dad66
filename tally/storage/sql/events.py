"""The only SQL for reading events. Pure: functions that return (sql, parameters), run by read_api in one snapshot.

Conditions of filters are made in tally/storage/sql/filters.py; values are always parameters. E in the comments is the
set of traffic events of a website in [from_ms, to_ms) that match all the filters.

Every statement opens with its own name, so that a slow one names its author, and reads a range of a clustered primary
key (website, time); tests/unit/storage/test_query_plans.py checks the plan of each.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import orjson

from tally.engine.values import Place, Scope
from tally.events.dimensions import FIELDS, PAGES, VISIT_FIELDS
from tally.events.validation import LEAVE, MEASURES, PAGEVIEWS, TRAFFIC, VITALS
from tally.storage.event_data import STORED
from tally.storage.sql.filters import Query, conditions
from tally.timestamps import DAY_MS, QUARTER_MS


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


def filters_of(scope: Scope, fixed: dict[str, str]) -> Query:
    """Return ` and ...` for each filter. `fixed` has an expression for each column that the table lacks."""
    return conditions(scope.website, scope.filters, fixed)


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
        # So many quarters lie before the midnight that is in it.
        [first, first, -first % 96, website, first, end],
    )


def hours(website: int, first: int, end: int) -> Query:
    """A row (n, visitors, visits, pageviews, events) for each stretch of 4 quarters from `first` on to `end`.

    Visitors of an hour that crosses midnight: those before it, and those whose first event lies behind it.
    """
    return (
        "/* events.hours */ select (quarter - ?) / 4, sum(iif((quarter - ?) % 4 = 0, hour_visitors,"
        " iif(quarter % 96 < (quarter - ?) % 4, first_seen, 0))), sum(visits), sum(pageviews), sum(events)"
        " from total_15m"
        " where website = ? and quarter >= ? and quarter < ? group by 1",
        [first, first, first, website, first, end],
    )


def has_events(website: int, from_ms: int, to_ms: int) -> Query:
    """One number: 1 where there is a traffic event in [from_ms, to_ms), otherwise 0."""
    return (
        "/* events.has_events */ select exists (select 1 from event where website = ? and ts >= ? and ts < ?)",
        [website, from_ms, to_ms],
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


_COLUMNS = ("visitor", "visit", "event_name", "event_data", "experiment", "variant", "goal", "value", *MEASURES)
NO_TRAFFIC = dict.fromkeys(("event_name", *PAGES), "0") | {"event_data": "null"}
"""What stands for the fields that tables of measurements lack."""
MEASURED_TYPE = f"iif(time_on_page is null, {VITALS}, {LEAVE})"
"""The type of a row of table web_vitals: SQL."""
# For each table of events: what stands for the columns that it lacks.
_SOURCES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "event",
        dict.fromkeys(("experiment", "variant", "goal", "value", *MEASURES), "null")
        | {"event_data": STORED}
        | {field: of_visit(field) for field in VISIT_FIELDS},
    ),
    (
        "web_vitals",
        dict.fromkeys(_COLUMNS[:8], "null") | {"type": MEASURED_TYPE} | NO_TRAFFIC,
    ),
    ("experiment_event", dict.fromkeys(("visit", "event_data", *MEASURES), "null") | NO_TRAFFIC),
)


SOURCE_COLUMNS = dict(_SOURCES)
"""For each table of events: what stands for the columns of filters that it lacks."""


def events(scope: Scope, place: Place, limit: int, *, only_traffic: bool = False) -> Query:
    """Up to `limit` rows before `place`, newest first, of the three tables that hold events, or of traffic alone.

    Columns: id, type, ts, the dimensions as text, event_name as text, event_data, visitor, visit, experiment, variant,
    goal as text, value, the 7 measures.
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
