"""Delete the events of a website that match filters, or rewrite their paths by a rule, in steps, and recompute what was
counted of them.

`begin` stores what is deleted or rewritten. Each `step` is a transaction of the caller, bounded in rows, and stores its
place in the deletion's row: the next call continues there, also after a crash. After the last step the figures are
those of a database that never had the events, but for the acquisition of visits that lose the event that decided it
(tally/transfer/visit_rebuild.py), or of one that has had the new paths from the beginning. Only days that have such
events are read (`Plan.days`):

1. Traffic. The rows of a day that has only columns are put back. All matching events of a visitor's day are deleted in
   one transaction, because filters on fields of visits are decided by the visits as they were. The day becomes stale,
   so that it is rebuilt in the background with what follows from it: totals, columns, blocks and goals.
2. Web vitals and leaves.
3. Experiment events, and the assignments and counts of their visitors.
4. Heatmap points and texts of pages on whole days, where the filters are by page alone. They move to the new path.
5. Imported sums of whole days, where there are no filters; these stay where paths are rewritten.
6. Pages that crawlers requested on whole days, where paths are rewritten.

Deleted events are given back to the month's usage, but for imported ones, which were not counted. Between the first
and the last step, figures are between the old and the new ones. Events that arrive meanwhile stay.
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
from tally.storage import cluster_tables, crawler_days, deletion_records, heatmap_texts, meta, page_titles
from tally.storage.deletion_records import DONE, RUNNING, DeletionRecord, Plan, matching
from tally.storage.import_records import IMPORT_OF
from tally.storage.sql.filters import conditions
from tally.timestamps import DAY_MS
from tally.transfer.new_paths import NewPaths
from tally.transfer.visit_rebuild import change_events

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
    new_paths: NewPaths | None

    @property
    def website(self) -> int:
        """Return the number of the website."""
        return self.record.website


Phase = Callable[[Step, Place], tuple[Place | None, int]]
"""Changes some rows after a place; returns the next place, None at the end, and the number of changed events."""


def begin(connection: sqlite3.Connection, website: int, plan: Plan, events: int, now_ms: int) -> int | None:
    """Insert a deletion, which runs; return its number, None where another one of the website runs.

    Raises WebsiteDeleted, UnloadedDays.
    """
    check_exists(connection, website)
    if deletion_records.is_running(connection, website):
        return None
    cluster_tables.change(connection, website, "deleted events" if plan.rule is None else "rewritten paths")
    return deletion_records.begin(connection, website, plan, events, now_ms)


def step(
    connection: sqlite3.Connection, website: int, number: int, now_ms: int, sessions: Sessions | None = None
) -> bool:
    """Do the next step; return whether there is more to do. `sessions`: the visitors in memory of a running server."""
    record = deletion_records.record(connection, website, number)
    if record is None or record.state != RUNNING or record.progress is None:
        return False
    phase, *place = orjson.loads(record.progress)
    rule = record.plan.rule
    cluster_tables.change(connection, website, "deleted events" if rule is None else "rewritten paths")
    new_paths = None if rule is None else NewPaths(connection, website, rule)
    with secure_delete(connection):
        context = Step(connection, record, sessions, now_ms, new_paths)
        following, changed = _PHASES[phase](context, (place[0], place[1], place[2]))
    if new_paths is not None and new_paths.is_used:
        meta.count_row_change(connection)
    if following is None:
        phase, following = phase + 1, _START
    deletion_records.save(connection, website, number, (phase, *following), changed)
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
    """Return (ts, id, pathname, columns) of the rows of a day that are changed, among the next ones."""
    matches, values = matching(step.website, step.record.plan, TABLES[source])
    rows = step.connection.execute(
        f"/* event_deletion.rows */ select {matches}, ts, id, pathname, {columns} from {TABLES[source]}"
        " where website = ? and ts >= ? and ts < ? and (ts, id) > (?, ?) order by ts, id limit ?",
        (*values, step.website, max(day * DAY_MS, place[1]), (day + 1) * DAY_MS, *place[1:], limit),
    ).fetchall()
    following = (place[0], *rows[-1][1:3]) if len(rows) == limit else (place[0] + 1, -1, -1)
    covered = [tuple(rest) for is_matching, *rest in rows if is_matching]
    if step.new_paths is not None:
        pages = step.new_paths.of(row[2] for row in covered)
        covered = [row for row in covered if row[2] in pages]
    return _Rows(covered, following)


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
    changed: list[tuple[int, int, int | None, int]] = []
    amended = {}
    end_s = time.monotonic() + _STEP_S
    for visitor in dict.fromkeys(row[3] for row in rows):
        if len(changed) >= _ROWS or (changed and time.monotonic() > end_s):
            # The rows of the visitors that are left are read again.
            following = place
            break
        rebuilt = change_events(connection, website, day, visitor, expression, step.new_paths)
        changed += rebuilt.changed
        amended[visitor] = rebuilt.visits, rebuilt.mask
    if changed:
        rollup_state.mark_stale(connection, website, [day])
        titles = page_titles.take(connection, website, [(page, ts) for ts, _, _, page in changed])
        if step.new_paths is None:
            _give_back(step, [ts for ts, _, owner, _ in changed if owner is None])
        else:
            pages = step.new_paths.of(titles)
            for page, title in sorted(titles.items(), key=lambda item: item[1]):
                page_titles.store(connection, {(website, pages[page]): title})
    website_ms = step.now_ms + day_offset_ms(connection, website)
    if step.sessions is not None and not rollup_state.is_final(day, website_ms):
        step.sessions.amend(day, amended)
    return following, len(changed)


def _vitals(step: Step, place: Place) -> tuple[Place | None, int]:
    following, rows = _measurements(step, WEB_VITALS, place, "null", _ROWS)
    return following, len(rows)


def _experiments(step: Step, place: Place) -> tuple[Place | None, int]:
    following, rows = _measurements(step, EXPERIMENTS, place, "experiment, visitor", _FEW_ROWS)
    if step.new_paths is None:
        keys = {(step.website, row[0] // DAY_MS, *row[4:]) for row in rows if row[4]}
        experiments.recount(step.connection, keys)
    return following, len(rows)


def _measurements(
    step: Step, source: int, place: Place, columns: str, limit: int
) -> tuple[Place | None, list[tuple[Any, ...]]]:
    """Change the next matching rows of measurements.

    Return the next place, and (ts, id, pathname before, import, columns) of them.
    """
    day = _day_at(step, source, place)
    if day is None:
        return None, []
    connection, website, table = step.connection, step.website, TABLES[source]
    if deleted_rows.reopen(connection, website, [day], (source,)):
        return place, []
    owner = IMPORT_OF.format(id=f"{table}.id", website=f"{table}.website")
    rows, following = _next_rows(step, source, place, day, f"{owner}, {columns}", limit)
    if step.new_paths is None:
        connection.executemany(
            f"/* event_deletion.delete */ delete from {table} where website = ? and ts = ? and id = ?",
            [(website, *row[:2]) for row in rows],
        )
        _give_back(step, [row[0] for row in rows if row[3] is None])
    else:
        pages = step.new_paths.of(row[2] for row in rows)
        connection.executemany(
            f"/* event_deletion.paths */ update {table} set pathname = ? where website = ? and ts = ? and id = ?",
            [(pages[row[2]], website, *row[:2]) for row in rows],
        )
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
    if not plan.covers_heatmaps:
        return None, 0
    first, end = plan.whole_days
    pages = heatmaps.pages_after(step.connection, step.website, place[1], _FEW_ROWS)
    by_page = [of for of in plan.filters if of.field == "pathname"]
    filters, values = conditions(step.website, by_page, {"pathname": "page.value"})
    matching_pages = step.connection.execute(
        f"/* event_deletion.pages */ select page.value from json_each(?) as page where 1{filters}",
        (orjson.dumps(pages).decode(), *values),
    ).fetchall()
    wanted: dict[int, int | None] = {page: None for (page,) in matching_pages}
    if step.new_paths is not None:
        wanted = dict(sorted(step.new_paths.of(wanted).items()))
    end_s = time.monotonic() + _STEP_S
    for page, new in wanted.items():
        if heatmaps.delete_days(step.connection, step.website, page, first, end, new):
            return (0, page - 1, -1), 0
        heatmap_texts.delete_days(step.connection, step.website, page, first, end, new)
        if time.monotonic() > end_s:
            return (0, page, -1), 0
    return ((0, pages[-1], -1) if len(pages) == _FEW_ROWS else None), 0


def _sums(step: Step, place: Place) -> tuple[Place | None, int]:
    plan = step.record.plan
    if not plan.deletes_sums:
        return None, 0
    return imported_sums.delete_days(step.connection, step.website, *plan.whole_days, place), 0


def _crawlers(step: Step, place: Place) -> tuple[Place | None, int]:
    if step.new_paths is None:
        return None, 0
    first, end = step.record.plan.whole_days
    day = crawler_days.next_day(step.connection, step.website, max(first, place[1]), end)
    if day is None:
        return None, 0
    pages = step.new_paths.of(crawler_days.pages_on(step.connection, step.website, day))
    crawler_days.move(step.connection, step.website, day, pages)
    return (0, day + 1, -1), 0


_PHASES: Sequence[Phase] = (_traffic, _vitals, _experiments, _heatmaps, _sums, _crawlers)
