"""Retention: delete raw events after a number of days and keep their figures.

A website keeps its events without limit, or for a number of days: its own (`website.keep_days`), else the setting. A
day expires in steps: its values are counted (tally/rollups/value_blocks.py); its state becomes KEPT, so that
reports use only these and its totals; then its rows are deleted, some at a time, oldest first. Only FINAL days expire.
After a crash the next step continues.

Kept are totals by quarter of an hour, values of fields and entry and exit pages by whole days, conversions of goals
and heatmap bins. Deleted are the rows of _TABLES and the columns of stored days; each transaction that deletes web
vitals adds them to histograms (tally/rollups/vitals_histogram.py).
"""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from tally.columns import column_days, deleted_rows
from tally.columns.statements import WEB_VITALS
from tally.rollups.rollup_state import FINAL, FINAL_AFTER_MS, KEPT, ROWS_PER_STEP
from tally.storage import cluster_tables, event_data
from tally.storage.bulk_insert import COLUMNS
from tally.timestamps import DAY_MS

# A day is final 72 hours and a margin past its end; until then its rows are needed.
MIN_KEEP_DAYS = -(-FINAL_AFTER_MS // DAY_MS) + 1

Table = tuple[str, str, tuple[str, ...]]
# The name of each, the column of its time or day, and its key.
_TABLES: tuple[Table, ...] = (
    ("event", "ts", ("website", "ts", "id")),
    ("visit", "day", ("website", "day", "visitor", "visit")),
    ("web_vitals", "ts", ("website", "ts", "id")),
    ("experiment_event", "ts", ("website", "ts", "id")),
    ("experiment_assignment", "day", ("website", "day", "experiment", "visitor")),
    ("experiment_conversion", "day", ("website", "day", "experiment", "visitor", "goal")),
    # Lines of these days are rejected from now on, whether they were imported before or not.
    ("import_id", "ts", ("website", "ts", "digest")),
    ("import_visit", "day", ("website", "day", "visitor", "import", "visit")),
    # A page that is viewed again gets its title again.
    ("page_title", "ts", ("website", "pathname")),
)
UNLOADED = _TABLES[:6]
"""What is deleted of days whose events another database has: lines that were imported are still known."""


class Plan(NamedTuple):
    """What would be deleted: the number of events of all types, and the time of the oldest that are kept."""

    events: int
    from_ms: int


def first_kept(keep_days: int, now_ms: int) -> int:
    """Return the first day whose events are kept: `keep_days` whole days before today."""
    return now_ms // DAY_MS - keep_days


def plan(connection: sqlite3.Connection, website: int, keep_days: int, now_ms: int) -> Plan:
    """Return what would be deleted if the website's events were kept for `keep_days`."""
    from_ms = first_kept(keep_days, now_ms) * DAY_MS
    events = 0
    for table, _, _ in _TABLES[:1] + _TABLES[2:4]:
        statement = f"/* retention.plan */ select count(*) from {table} where website = ? and ts < ?"
        events += int(connection.execute(statement, (website, from_ms)).fetchone()[0])
    events += deleted_rows.events_without_rows(connection, website, from_ms // DAY_MS)
    return Plan(events + cluster_tables.unloaded_events(connection, website, from_ms // DAY_MS), from_ms)


def set_keep_days(connection: sqlite3.Connection, website: int, keep_days: int | None) -> None:
    """Set how long a website's events are kept: 0 without limit, None as the setting."""
    connection.execute("/* retention.set */ update website set keep_days = ? where number = ?", (keep_days, website))


def keep_days_of(connection: sqlite3.Connection, website: int, default: int) -> int:
    """Return how many days a website's events are kept; 0 without limit."""
    row = connection.execute(
        "/* retention.get */ select keep_days from website where number = ?", (website,)
    ).fetchone()
    return default if row is None or row[0] is None else int(row[0])


def next_day(connection: sqlite3.Connection, website: int, end: int) -> tuple[int, int] | None:
    """Return the oldest final day before `end` that has its events, and its version; None where there is none, or an
    older day is not final."""
    row = _oldest(connection, website, end)
    return (row[0], row[2]) if row and row[1] == FINAL else None


def keep(connection: sqlite3.Connection, website: int, day: int, version: int) -> bool:
    """Keep only totals and values of a day, whose values are counted, unless it has changed since this version; return
    whether it has not."""
    changed = connection.execute(
        "/* retention.keep */ update rollup_state set state = ?"
        " where website = ? and kind = 0 and level = 0 and block = ? and state = ? and version = ?",
        (KEPT, website, day, FINAL, version),
    )
    return changed.rowcount > 0


def unload(connection: sqlite3.Connection, website: int, version: int, days: cluster_tables.Unloaded) -> None:
    """The same of the last of some days, whose events a copy has, unless that has ended or lacks a change, or days are
    put back."""
    known = cluster_tables.copy_of(connection, website)
    is_same = known is not None and known.copy == days.copy and known.is_complete and not known.held_ms
    if is_same and keep(connection, website, days.end - 1, version):
        cluster_tables.unload(connection, days)


def delete_unloaded(connection: sqlite3.Connection, website: int, end: int, held_ms: int) -> bool:
    """Delete a limited number of the rows of unloaded days, all before `end`, unless they are put back meanwhile;
    return whether there may be more. held_ms: of the copy. If it is set, the rows were put back in part, and what was
    counted of the days has stayed."""
    copy = cluster_tables.copy_of(connection, website)
    is_same = copy is not None and copy.held_ms == held_ms
    return is_same and delete_some(connection, website, end, UNLOADED, counts=not held_ms)


def expire(connection: sqlite3.Connection, website: int, end: int) -> bool:
    """Delete a limited number of the events of days before `end`; return whether there may be more."""
    row = _oldest(connection, website, end)
    loading = cluster_tables.loading_end(connection, website)
    cluster_tables.expire(connection, website, end)
    if loading and delete_some(connection, website, min(loading, end), UNLOADED, counts=False):
        return True
    if delete_some(connection, website, row[0] if row else end):
        return True
    if row is None:
        # Records from which day on events are kept, also where the last expired day had no traffic.
        connection.execute(
            "/* retention.until */ insert or ignore into rollup_state"
            " (website, kind, level, block, state, is_over, version)"
            " select ?, 0, 0, ?, ?, 1, 1 where exists (select 1 from rollup_state"
            " where website = ? and kind = 0 and level = 0 and block >= 0 and state = 3) or exists"
            " (select 1 from web_vitals_histogram where website = ? and day < ?) or exists"
            " (select 1 from experiment_total where website = ? and day < ?)",
            (website, end - 1, KEPT, website, website, end, website, end),
        )
    return False


def end_day(connection: sqlite3.Connection, website: int, default: int, deletion_time_ms: int) -> int | None:
    """Return the first day whose events are kept by `Clock.deletion_time_ms`; None where all are kept."""
    keep_days = keep_days_of(connection, website, default)
    return first_kept(max(keep_days, MIN_KEEP_DAYS), deletion_time_ms) if keep_days else None


def _oldest(connection: sqlite3.Connection, website: int, end: int) -> tuple[int, int, int] | None:
    """Return the oldest day before `end` that has its events, its state and version."""
    row: tuple[int, int, int] | None = connection.execute(
        "/* retention.next */ select block, state, version from rollup_state"
        " where website = ? and kind = 0 and level = 0 and block < ? and state < 3 order by block limit 1",
        (website, end),
    ).fetchone()
    return row


def delete_some(
    connection: sqlite3.Connection, website: int, end: int, tables: Sequence[Table] = _TABLES, *, counts: bool = True
) -> bool:
    """Delete some of the oldest rows of the days before `end`; return whether there were any. counts: whether web
    vitals are added to histograms."""
    packed = column_days.oldest_before(connection, website, end)
    if packed is not None:
        if packed[0] == WEB_VITALS and counts:
            _keep_vitals(connection, website, packed[1])
        column_days.remove(connection, website, *packed)
        return True
    for table, column, key in tables:
        old = connection.execute(
            f"/* retention.old */ select {', '.join(COLUMNS[table] if table == 'web_vitals' else key)} from {table}"
            f" where website = ? and {column} < ? order by {column} limit ?",
            (website, end if column == "day" else end * DAY_MS, ROWS_PER_STEP),
        ).fetchall()
        if old:
            if table == "event":
                event_data.delete(connection, old)
            elif table == "web_vitals" and counts:
                # numpy is imported with the first of them.
                from tally.rollups import vitals_histogram

                vitals_histogram.add_rows(connection, old)
            of_key = " and ".join(f"{name} = ?" for name in key)
            connection.executemany(
                f"/* retention.delete */ delete from {table} where {of_key}", [row[: len(key)] for row in old]
            )
            return True
    return False


def _keep_vitals(connection: sqlite3.Connection, website: int, day: int) -> None:
    """Add the events of a stored day to its histograms, unless its columns are damaged."""
    from tally.columns.measurements import stored_rows
    from tally.rollups import vitals_histogram

    try:
        columns = stored_rows(connection, website, WEB_VITALS, day)
    except sqlite3.DatabaseError as failure:
        if failure.sqlite_errorcode != sqlite3.SQLITE_CORRUPT:
            raise
        return
    vitals_histogram.add(connection, website, day, columns.column)
