"""The tables in ClickHouse, and the statements that create them.

Times, days and quarter hours are in website time, as in schema.sql; a day is a number since 1970. Dimensions are texts,
"" where unset. A table is replicated on a cluster; on a single server it is not, and then the window in which a token
is known has another setting.
"""

from collections.abc import Iterable, Sequence

from tally.engine.archive import FIGURES
from tally.events.dimensions import FIELDS
from tally.events.validation import MEASURES

_TEXTS = ", ".join(f"{field} LowCardinality(String)" for field in FIELDS)
_PLACE = "website UInt32, day UInt16, ts Int64, id Int64"
_EVENT = (
    f"type UInt8, visitor Int64, {_TEXTS}, event_name LowCardinality(String), event_data String,"
    # The values as `stored_scalar` of rows.py writes them.
    " prop_keys Array(LowCardinality(String)), prop_values Array(String)"
)
_VISIT = (
    "v_start Int64, v_ms UInt32, v_views UInt32, v_events UInt32, v_number UInt32, v_sends UInt8,"
    " entry_page LowCardinality(String), exit_page LowCardinality(String)"
)
# Of a server's outbox: what a shipment that was never complete has left is deleted by it (tally/cluster/recover.py).
_BATCH = "batch UInt64"
_MEASURES = ", ".join(f"{name} Nullable(Int64)" for name in MEASURES)
# By table: columns, partition, order.
TABLES = {
    # Traffic of days that are not settled: each event with the source that it was sent with.
    "event": (f"{_PLACE}, {_EVENT}, {_BATCH}", "day", "website, day, visitor, ts, id"),
    # Traffic of settled days: with what is known of its visit, and the visit's source in place of the event's own.
    # `v_sends`: whether the source is that of the event.
    "settled": (
        f"{_PLACE}, version UInt32, {_EVENT}, {_VISIT}",
        "intDiv(day, 32)",
        "website, day, visitor, ts, id",
    ),
    # The newest version of a day counts: how many events it has, and up to which id. Later ones are in event.
    "settled_day": (
        "website UInt32, day UInt16, version UInt32, events UInt64, last_id Int64, at DateTime default now()",
        "tuple()",
        "website, day, version",
    ),
    # Web vitals, leaves and events of experiments. A leave whose values have increased has several rows.
    "measure": (
        f"{_PLACE}, type UInt8, visitor Int64, {_TEXTS}, experiment LowCardinality(String),"
        f" variant LowCardinality(String), goal LowCardinality(String), value Nullable(Float64), {_MEASURES}, {_BATCH}",
        "intDiv(day, 32)",
        "website, type, day, ts, id",
    ),
    # Points of heatmaps: without time and visitor.
    "heat": (
        "website UInt32, day UInt16, pathname LowCardinality(String), width UInt8, kind UInt8, y UInt32, x UInt8,"
        f" points UInt64, {_BATCH}",
        "intDiv(day, 32)",
        "website, pathname, day, width, kind, y, x",
    ),
    # Imported sums by value of a field, which count on days without events.
    "day_sum": (
        "website UInt32, day UInt16, field UInt8, value LowCardinality(String), import UInt32, known UInt8,"
        f" {', '.join(f'{name} UInt64' for name in FIGURES)}",
        "tuple()",
        "website, field, day, value",
    ),
    # In --cluster-mode keep: table event_id of the database file, with its numbers of websites. A newer row counts.
    "event_id": (
        "website_number UInt32, minute_ms Int64, digest String, arrived_ms Int64, row_ts Int64, row_id Int64,"
        f" {_BATCH}",
        "intDiv(arrived_ms, 86400000)",
        "website_number, minute_ms, digest",
    ),
    # In keep: copies that began with the first events of a website; of others the control copy knows in time.
    "copy": (
        f"website UInt32, day UInt16 default 65535, number UInt32, day_offset_minutes Int32, {_BATCH}",
        "tuple()",
        "website",
    ),
    # The small tables of the database file, encrypted (tally/cluster/control.py). The greatest number is the newest.
    "control": ("series String, number UInt64, at_ms Int64, schema UInt32, body String", "tuple()", "number"),
    # The batches of a server's outbox that are stored completely: the last of each shipment.
    "shipped": ("series String, number UInt64", "tuple()", "series, number"),
    # Which server ships: that of the newest series. An older one stops once it reads of a newer one.
    "series": ("series String, number UInt64, node String, begun DateTime default now()", "tuple()", "number, series"),
}
OF_WEBSITES = tuple(name for name, (columns, _, _) in TABLES.items() if columns.startswith("website "))
# Accepted events are known by their event_id for 72 hours.
_TTL = {"event_id": " ttl toDateTime(intDiv(arrived_ms, 1000)) + interval 73 hour"}
_DURABLE = {
    # An insert is on the disk before it is answered.
    "fsync_after_insert": 1,
    "fsync_part_directory": 1,
    "min_rows_to_fsync_after_merge": 1,
}
_BLOCKS = 100_000


def create_table(table: str, *, is_replicated: bool, name: str = "") -> str:
    """Return the statement that creates a table, under its name or another one."""
    if is_replicated:
        settings = _DURABLE | {
            "min_compressed_bytes_to_fsync_after_fetch": 1,
            "replicated_deduplication_window": _BLOCKS,
            "replicated_deduplication_window_seconds": 604_800,
        }
    else:
        settings = _DURABLE | {"non_replicated_deduplication_window": _BLOCKS}
    written = ", ".join(f"{name} = {value}" for name, value in settings.items())
    columns, partition, order = TABLES[table]
    place = f"'/tally/{{shard}}/{{database}}/{name or table}', '{{replica}}'"
    engine = f"ReplicatedMergeTree({place})" if is_replicated else "MergeTree"
    return (
        f"create table {name or table} ({columns}) engine = {engine}"
        f" partition by {partition} order by ({order}){_TTL.get(table, '')} settings {written}"
    )


IS_REPLICATED = (
    "select engine like 'Replicated%' from system.tables where database = currentDatabase() and name = 'series'"
)
"""The query for whether the tables are those of several servers; without a row where there are none."""
COLUMNS = "select table, name from system.columns where database = currentDatabase()"
"""The query for what `missing` compares."""


def missing(rows: Iterable[Sequence[str]]) -> list[tuple[str, str]]:
    """Return (table, column with its type) of what a database lacks. rows: of the query COLUMNS."""
    stored = {(table, name) for table, name in rows}
    expected = [(table, column) for table, (columns, _, _) in TABLES.items() for column in columns.split(", ")]
    return [(table, column) for table, column in expected if (table, column.split()[0]) not in stored]


def add_column(table: str, column: str) -> str:
    """Return the statement that adds a column, with its type, to a table."""
    return f"alter table {table} add column if not exists {column}"


def create_database(name: str) -> str:
    """Return the statement that creates a database where it is missing."""
    return f"create database if not exists {name}"


def drop(table: str) -> str:
    """Return the statement that deletes a table."""
    return f"drop table if exists {table} sync"


def sync(table: str) -> str:
    """Return the statement that waits until a replica has what the others have, but not for its merges."""
    return f"system sync replica {table} lightweight"


def delete_where(table: str, condition: str, *, waits_for: int) -> str:
    """Return the statement that deletes rows. It waits for 0 nothing, 1 the server that is asked, 2 all replicas."""
    return f"alter table {table} delete where {condition} settings mutations_sync = {waits_for}"


def delete_of(table: str, website: int, before_day: int | None) -> str:
    """Return the statement that deletes the rows of a website, of all days or those before one, on all replicas."""
    days = "" if before_day is None else f" and day < {before_day}"
    return delete_where(table, f"website = {website}{days}", waits_for=2)
