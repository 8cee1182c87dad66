"""SQL of stored days: the columns of a day, from its rows and in table day_column.

The rows of traffic on a stored day are sorted by (visitor, visit, ts, id), so that the events of a visit, and the
visits of a visitor, lie together. A column has a number for each event or, where all events of each visit agree, as in
nearly all dimensions, one for each visit: a third of the numbers.

Web vitals and experiments have columns of their own, sorted by (ts, id). Of these a field without any value has no
column.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import orjson

from tally.events.dimensions import EVENT_FIELDS, EVENT_NAME, EXPERIMENT, FIELDS, GOAL, VARIANT, VISIT_FIELDS
from tally.events.validation import LEAVE, MEASURES, VITALS
from tally.events.validation import TRAFFIC as TRAFFIC_TYPES
from tally.storage import bulk_insert
from tally.storage.event_data import STORED
from tally.storage.sql.filters import Query
from tally.timestamps import DAY_MS, QUARTER_MS

TRAFFIC, WEB_VITALS, EXPERIMENTS = range(3)
"""What is packed (`source` in the database)."""
TABLES = ("event", "web_vitals", "experiment_event")
"""The table that has the events of each."""
NUMBERS = ("offset_ms", "start_ms", "duration_ms", "pageviews", "events", "is_first")
"""Columns without labels. offset_ms: of an event from the start of its visit; start_ms: of a visit from the start of
the day; is_first: 1 for the first visit of each visitor. All but the first have a number for each visit."""
OF_ROWS = ("visit", "entry_after_ms", "exit_before_ms", "acquired_after_ms", "visitor", "first_id", "id_step")
"""Columns that only rows are made from (tally/columns/deleted_rows.py). visitor: for each visitor its
number without the time at its beginning, which is mostly the start_ms of its first visit (`begins_of_visitors` in
tally/columns/format.py); first_id: of the events by (ts, place in the columns) the first one's id; id_step: for
each of these, its id minus that of the one before (`ids_of`)."""
COLUMNS = {
    **{name: number for number, name in enumerate(FIELDS)},
    "event_name": EVENT_NAME,
    "entry_page": 110,
    "exit_page": 111,
    "type": 112,
    "event_data": 113,
    **{name: 120 + place for place, name in enumerate((*NUMBERS, *OF_ROWS))},
    **{"experiment": EXPERIMENT, "variant": VARIANT, "goal": GOAL},
    **{name: 140 + place for place, name in enumerate(("ts_step", "value", *MEASURES))},
}
"""The number of each column in the database; those of dimensions and event_name are as in rollup_block. To those of web
vitals and experiments, `_OF_SOURCE` times the source is added; ts_step: of each of these, its ts minus that of the one
before, or the start of the day."""
_OF_SOURCE = 200


def number_of(source: int, name: str) -> int:
    """Return the number of a column in the database."""
    return _OF_SOURCE * source + COLUMNS[name]


# Increased with each change of how columns are computed or encoded (tally/columns/format.py).
_ENCODING = 4
_QUARTERS = DAY_MS // QUARTER_MS
# Rows of event_data that are read as one text.
_ROWS = 1_000
LAYOUT = crc32(repr((_ENCODING, sorted(COLUMNS.items()))).encode())
"""Stored with each stored day: traffic of another layout, such as one without a new dimension, is packed again. Of
measurements a dimension without a column is unset."""
OF_VISITS = frozenset((*VISIT_FIELDS, *NUMBERS[1:]))
"""The columns that always have a number for each visit."""
OF_EVENTS = (*EVENT_FIELDS, "event_name", "type")
"""The columns with labels that may differ between the events of a visit."""
_EVENT_COLUMNS = frozenset(bulk_insert.COLUMNS["event"][:-1])
_MEASUREMENTS = {source: frozenset(bulk_insert.COLUMNS[TABLES[source]]) for source in (WEB_VITALS, EXPERIMENTS)}
_NAMES = {number: name for name, number in COLUMNS.items()}
_FIELDS = [
    f"field in ({', '.join(str(number_of(source, name)) for name in COLUMNS)})" for source, _ in enumerate(TABLES)
]


class Share(NamedTuple):
    """The visitors whose number modulo `parts` is `number`."""

    number: int
    parts: int

    @property
    def condition(self) -> str:
        """Return ` and ...`, over tables with a column visitor."""
        return f" and visitor % {self.parts:d} = {self.number:d}" if self.parts > 1 else ""


EVERY_VISITOR = Share(0, 1)


def source_of(type_: int) -> int:
    """Return what is packed with the events of a type."""
    return TRAFFIC if type_ in TRAFFIC_TYPES else WEB_VITALS if type_ in (VITALS, LEAVE) else EXPERIMENTS


def number_of_events(website: int, day: int, most: int) -> Query:
    """One number: the traffic events of a day, counted up to `most`."""
    return (
        "/* statements.number_of_events */ select count(*) from"
        " (select 1 from event where website = ? and ts >= ? and ts < ? limit ?)",
        [website, day * DAY_MS, (day + 1) * DAY_MS, most],
    )


def size(website: int, day: int, *, with_data: bool) -> Query:
    """One row: the traffic events of a day, and with_data the characters of their event_data, otherwise 0."""
    length = f"coalesce(sum(length({STORED})), 0)" if with_data else "0"
    return (
        f"/* statements.size */ select count(*), {length} from event where website = ? and ts >= ? and ts < ?",
        [website, day * DAY_MS, (day + 1) * DAY_MS],
    )


def quarters(website: int, day: int) -> Query:
    """Rows (quarter hour of a day, its traffic events), of those that have any."""
    first = day * _QUARTERS
    return (
        "/* statements.quarters */ select quarter - ?1, pageviews + events from total_15m"
        " where website = ?2 and quarter >= ?1 and quarter < ?3 and pageviews + events",
        [first, website, first + _QUARTERS],
    )


def event_column(
    website: int, day: int, column: str, share: Share = EVERY_VISITOR, last_id: int = (1 << 63) - 1
) -> Query:
    """One JSON array: a column with numbers of the traffic events of a day up to an id, by (ts, id)."""
    if column not in _EVENT_COLUMNS:
        raise KeyError(column)
    return (
        f"/* statements.event_column */ select json_group_array({column}) from (select {column} from event"
        f" where website = ? and ts >= ? and ts < ? and id <= ?{share.condition} order by ts, id)",
        [website, day * DAY_MS, (day + 1) * DAY_MS, last_id],
    )


def events_after(website: int, day: int, columns: Sequence[str], last_id: int, from_ms: int) -> Query:
    """One row of JSON arrays: columns of the traffic events of a day behind an id, from a time on, by (ts, id)."""
    if not _EVENT_COLUMNS.issuperset(columns):
        raise KeyError(columns)
    arrays = ", ".join(f"json_group_array({column})" for column in columns)
    return (
        f"/* statements.events_after */ select {arrays} from (select {', '.join(columns)} from event"
        " where website = ? and ts >= ? and ts < ? and id > ? order by ts, id)",
        [website, max(day * DAY_MS, from_ms), (day + 1) * DAY_MS, last_id],
    )


def visit_column(website: int, day: int, column: str, share: Share = EVERY_VISITOR) -> Query:
    """One JSON array: a column of the visits of a day, by (visitor, visit)."""
    if column not in bulk_insert.COLUMNS["visit"]:
        raise KeyError(column)
    return (
        f"/* statements.visit_column */ select json_group_array({column}) from (select {column} from visit"
        f" where website = ? and day = ?{share.condition} order by visitor, visit)",
        [website, day],
    )


def last_id(website: int, day: int) -> Query:
    """One number: the greatest id of the traffic events of a day."""
    return (
        "/* statements.last_id */ select max(id) from event where website = ? and ts >= ? and ts < ?",
        [website, day * DAY_MS, (day + 1) * DAY_MS],
    )


def visits_of(website: int, day: int, columns: Sequence[str], visitors: str) -> Query:
    """One row of JSON arrays: columns of the visits of some visitors on a day, by visitor and start.

    visitors: a JSON array.
    """
    if not set(columns) <= set(bulk_insert.COLUMNS["visit"]):
        raise KeyError(columns)
    arrays = ", ".join(f"json_group_array({column})" for column in columns)
    return (
        f"/* statements.visits_of */ select {arrays} from (select {', '.join(columns)}"
        " from json_each(?) as wanted cross join visit on website = ? and day = ? and visitor = wanted.value"
        " order by visitor, start_ms)",
        [visitors, website, day],
    )


def event_data(website: int, day: int, share: Share = EVERY_VISITOR) -> Query:
    """Rows of two JSON arrays, of up to _ROWS traffic events of a day by (ts, id): ids, and texts of event_data."""
    return (
        "/* statements.event_data */ select json_group_array(id), json_group_array(data) from (select id,"
        f" {STORED} as data, (row_number() over (order by ts, id) - 1) / {_ROWS} as part from event"
        f" where website = ? and ts >= ? and ts < ? and event_data is not null{share.condition})"
        " group by part order by part",
        [website, day * DAY_MS, (day + 1) * DAY_MS],
    )


def measurement_column(website: int, source: int, from_ms: int, to_ms: int, column: str) -> Query:
    """One JSON array: a column of the rows of web vitals or experiments in [from, to) by (ts, id); -1 for null."""
    if column not in _MEASUREMENTS[source]:
        raise KeyError(column)
    return (
        f"/* statements.measurement_column */ select json_group_array(coalesce({column}, -1)) from (select {column}"
        f" from main.{TABLES[source]} where website = ? and ts >= ? and ts < ? order by ts, id)",
        [website, from_ms, to_ms],
    )


def values(website: int, day: int) -> Query:
    """The value of each experiment event of a day by (ts, id): JSON does not have all digits of a number."""
    return (
        "/* statements.values */ select value from experiment_event where website = ? and ts >= ? and ts < ?"
        " order by ts, id",
        [website, day * DAY_MS, (day + 1) * DAY_MS],
    )


def labels_of(website: int, source: int, name: str) -> Query:
    """The column of each stored day."""
    return (
        "/* statements.labels_of */ select content from day_column where website = ? and field = ?",
        [website, number_of(source, name)],
    )


def write(connection: sqlite3.Connection, website: int, source: int, day: int, columns: dict[str, bytes]) -> None:
    """Write the columns of a day that has none."""
    connection.executemany(
        "/* statements.write */ insert into day_column (website, field, day, content) values (?, ?, ?, ?)",
        # By size: fewer pages of the file remain partly empty.
        [
            (website, number_of(source, name), day, columns[name])
            for name in sorted(columns, key=lambda name: len(columns[name]))
        ],
    )


def read(connection: sqlite3.Connection, website: int, source: int, name: str, days: Iterable[int]) -> dict[int, bytes]:
    """Return the content of a column on those of some days that have it, in the order of days."""
    # A range would read the days between two parts of days, too.
    rows = connection.execute(
        "/* statements.read */ select day, content from day_column where website = ? and field = ?"
        " and day in (select value from json_each(?)) order by day",
        (website, number_of(source, name), orjson.dumps(sorted(days)).decode()),
    )
    return dict(rows.fetchall())


def checksum(columns: Mapping[str, bytes]) -> int:
    """Return a checksum of the columns of a day."""
    crc = 0
    for name in sorted(columns):
        crc = crc32(columns[name], crc32(name.encode(), crc))
    return crc


def delete(connection: sqlite3.Connection, website: int, source: int, day: int) -> None:
    """Delete the columns of a day."""
    connection.execute(
        f"/* statements.delete */ delete from day_column where website = ? and day = ? and {_FIELDS[source]}",
        (website, day),
    )


def stored(connection: sqlite3.Connection, website: int, source: int, day: int) -> dict[str, bytes]:
    """Return the columns of a day."""
    rows = connection.execute(
        "/* statements.stored */ select field, content from day_column where website = ? and day = ?"
        f" and {_FIELDS[source]}",
        (website, day),
    )
    return {_NAMES[field - _OF_SOURCE * source]: content for field, content in rows}
