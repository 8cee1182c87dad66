"""Delete the events of a website that match filters, and recompute what was counted of them, in steps.

`begin` stores what is deleted. Each `step` is a transaction of the caller, bounded in rows, and stores its place in the
deletion's row: the next call continues there, also after a crash. After the last step the figures are those of a
database that never had the events, but for the acquisition of visits that lose the event that decided it
(tally/transfer/visit_rebuild.py). Only days that have such events are read (`Plan.days`):

1. Traffic. The rows of a day that has only columns are put back. All matching events of a visitor's day are deleted in
   one transaction, because filters on fields of visits are decided by the visits as they were. The day becomes stale,
   so that it is rebuilt in the background with what follows from it: totals, columns, blocks and goals.
2. Web vitals and leaves.
3. Experiment events, and the assignments and counts of their visitors.
4. Heatmap points and texts of pages on whole days, where the filters are by page alone.
5. Imported sums of whole days, where there are no filters.

Events are given back to the month's usage, but for imported ones, which were not counted. Between the first and the
last step, figures are between the old and the new ones. Events that arrive meanwhile stay.
"""

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from tally.accounts.changes import check_exists
from tally.accounts.usage import month_of
from tally.accounts.websites import day_offset_ms, secure_delete
from tally.columns import deleted_rows
from tally.columns.statements import EXPERIMENTS, TABLES, TRAFFIC, WEB_VITALS
from tally.events.sessions import Sessions
from tally.rollups import experiments, heatmaps, imported_sums, rollup_state
from tally.storage import cluster_tables, deletion_records, heatmap_texts
from tally.storage.deletion_records import DONE, RUNNING, DeletionRecord, Plan, matching
from tally.storage.import_records import IMPORT_OF
from tally.storage.sql.filters import conditions
from tally.timestamps import DAY_MS
from tally.transfer.visit_rebuild import delete_events

# A step takes 5 to 30 ms, during which a collect request waits for the writer.
_ROWS = 1_000
# A visitor's events are among those of all others during its visits: a thousand visitors may take seconds.
_STEP_S = 0.03
# Reading the experiment events of a day for each step.
_FEW_ROWS = 250
_START = (0, -1, -1)

Place = tuple[int, int, int]
"""Position among the days of a phase, ts and id of the last row that is done."""


class Step(NamedTuple):
    """What a step does within its transaction. `sessions`: the visitors in memory of a running server."""

    connection: sqlite3.Connection
    record: DeletionRecord
    sessions: Sessions | None
    now_ms: int

    @property
    def website(self) -> int:
        """Return the number of the website."""
        return self.record.website


Phase = Callable[[Step, Place], tuple[Place | None, int]]
"""Deletes some rows after a place; returns the next place, None at the end, and the number of deleted events."""


def begin(connection: sqlite3.Connection, website: int, plan: Plan, events: int, now_ms: int) -> int | None:
    """Insert a deletion, which runs; return its number, None where another one of the website runs.

    Raises WebsiteDeleted.
    """
    check_exists(connection, website)
    if deletion_records.is_running(connection, website):
        return None
    return deletion_records.begin(connection, website, plan, events, now_ms)


def step(
    connection: sqlite3.Connection, website: int, number: int, now_ms: int, sessions: Sessions | None = None
) -> bool:
    """Do the next step; return whether there is more to do. `sessions`: the visitors in memory of a running server."""
    record = deletion_records.record(connection, website, number)
    if record is None or record.state != RUNNING or record.progress is None:
        return False
    phase, *place = orjson.loads(record.progress)
    cluster_tables.end(connection, website, "deleted events")
    with secure_delete(connection):
        following, deleted = _PHASES[phase](Step(connection, record, sessions, now_ms), (place[0], place[1], place[2]))
    if following is None:
        phase, following = phase + 1, _START
    deletion_records.save(connection, website, number, (phase, *following), deleted)
    if phase < len(_PHASES):
        return True
    deletion_records.end(connection, website, number, DONE, now_ms)
    return False


def _day_at(step: Step, source: int, place: Place) -> int | None:
    """Return the day of a place; None where all days are done."""
    days = step.record.plan.days[source]
    return days[place[0]] if place[0] < len(days) else None


class _Rows(NamedTuple):
    """The matching rows among the next ones of a day, and the place after these."""

    rows: list[tuple[Any, ...]]
    following: Place


def _next_rows(step: Step, source: int, place: Place, day: int, columns: str, limit: int) -> _Rows:
    """Return (ts, id, columns) of the rows of a day that are deleted, among the next ones."""
    matches, values = matching(step.website, step.record.plan, TABLES[source])
    rows = step.connection.execute(
        f"/* event_deletion.rows */ select {matches}, ts, id, {columns} from {TABLES[source]}"
        " where website = ? and ts >= ? and ts < ? and (ts, id) > (?, ?) order by ts, id limit ?",
        (*values, step.website, max(day * DAY_MS, place[1]), (day + 1) * DAY_MS, *place[1:], limit),
    ).fetchall()
    following = (place[0], *rows[-1][1:3]) if len(rows) == limit else (place[0] + 1, -1, -1)
    return _Rows([tuple(rest) for is_matching, *rest in rows if is_matching], following)


def _traffic(step: Step, place: Place) -> tuple[Place | None, int]:
    day = _day_at(step, TRAFFIC, place)
    if day is None:
        return None, 0
    connection, website = step.connection, step.website
    if deleted_rows.reopen(connection, website, [day], (TRAFFIC,)):
        # Putting the rows back takes as long as a step.
        return place, 0
    rows, following = _next_rows(step, TRAFFIC, place, day, "visitor", _ROWS)
    expression = matching(website, step.record.plan, TABLES[TRAFFIC])
    deleted: list[tuple[int, int, int | None, int]] = []
    amended = {}
    end_s = time.monotonic() + _STEP_S
    for visitor in dict.fromkeys(row[2] for row in rows):
        if len(deleted) >= _ROWS or (deleted and time.monotonic() > end_s):
            # The rows of the visitors that are left are read again.
            following = place
            break
        rebuilt = delete_events(connection, website, day, visitor, expression)
        deleted += rebuilt.deleted
        amended[visitor] = rebuilt.visits, rebuilt.mask
    if deleted:
        rollup_state.mark_stale(connection, website, [day])
        connection.executemany(
            "/* event_deletion.titles */ delete from page_title where website = ? and pathname = ? and ts = ?",
            [(website, page, ts) for ts, _, _, page in deleted],
        )
        _give_back(step, [ts for ts, _, owner, _ in deleted if owner is None])
    website_ms = step.now_ms + day_offset_ms(connection, website)
    if step.sessions is not None and not rollup_state.is_final(day, website_ms):
        step.sessions.amend(day, amended)
    return following, len(deleted)


def _vitals(step: Step, place: Place) -> tuple[Place | None, int]:
    following, rows = _measurements(step, WEB_VITALS, place, "null", _ROWS)
    return following, len(rows)


def _experiments(step: Step, place: Place) -> tuple[Place | None, int]:
    following, rows = _measurements(step, EXPERIMENTS, place, "experiment, visitor", _FEW_ROWS)
    keys = {(step.website, ts // DAY_MS, experiment, visitor) for ts, _, _, experiment, visitor in rows if experiment}
    experiments.recount(step.connection, keys)
    return following, len(rows)


def _measurements(
    step: Step, source: int, place: Place, columns: str, limit: int
) -> tuple[Place | None, list[tuple[Any, ...]]]:
    """Delete the next matching rows of measurements; return the next place, and (ts, id, import, columns) of them."""
    day = _day_at(step, source, place)
    if day is None:
        return None, []
    connection, website, table = step.connection, step.website, TABLES[source]
    if deleted_rows.reopen(connection, website, [day], (source,)):
        return place, []
    owner = IMPORT_OF.format(id=f"{table}.id", website=f"{table}.website")
    rows, following = _next_rows(step, source, place, day, f"{owner}, {columns}", limit)
    connection.executemany(
        f"/* event_deletion.delete */ delete from {table} where website = ? and ts = ? and id = ?",
        [(website, *row[:2]) for row in rows],
    )
    _give_back(step, [row[0] for row in rows if row[2] is None])
    return following, rows


def _give_back(step: Step, times: Iterable[int]) -> None:
    """Subtract events from the usage of their months. They arrived at most three days after their time."""
    offset_ms = day_offset_ms(step.connection, step.website)
    months: Mapping[int, int] = Counter(month_of(ts - offset_ms) for ts in times)
    for month, events in months.items():
        row = step.connection.execute(
            "/* event_deletion.usage */ select events from website_usage where website = ? and month = ?",
            (step.website, month),
        ).fetchone()
        given = min(events, row[0] if row else 0)
        if given:
            step.connection.execute(
                "/* event_deletion.website_usage */ update website_usage set events = events - ?"
                " where website = ? and month = ?",
                (given, step.website, month),
            )
            step.connection.execute(
                "/* event_deletion.account_usage */ update account_usage set events = max(0, events - ?)"
                " where account = (select account from website where number = ?) and month = ?",
                (given, step.website, month),
            )


def _heatmaps(step: Step, place: Place) -> tuple[Place | None, int]:
    plan = step.record.plan
    if not plan.deletes_heatmaps:
        return None, 0
    first, end = plan.whole_days
    pages = heatmaps.pages_after(step.connection, step.website, place[1], _FEW_ROWS)
    by_page = [of for of in plan.filters if of.field == "pathname"]
    filters, values = conditions(step.website, by_page, {"pathname": "page.value"})
    wanted = step.connection.execute(
        f"/* event_deletion.pages */ select page.value from json_each(?) as page where 1{filters}",
        (orjson.dumps(pages).decode(), *values),
    ).fetchall()
    for (page,) in wanted:
        if heatmaps.delete_days(step.connection, step.website, page, first, end):
            return (0, page - 1, -1), 0
        heatmap_texts.delete_days(step.connection, step.website, page, first, end)
    return ((0, pages[-1], -1) if len(pages) == _FEW_ROWS else None), 0


def _sums(step: Step, place: Place) -> tuple[Place | None, int]:
    plan = step.record.plan
    if not plan.deletes_sums:
        return None, 0
    return imported_sums.delete_days(step.connection, step.website, *plan.whole_days, place), 0


_PHASES: Sequence[Phase] = (_traffic, _vitals, _experiments, _heatmaps, _sums)
