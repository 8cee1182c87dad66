"""Undo an import: delete the events that it stored, and what was computed of them, in steps.

`begin` marks the import. Each `step` is a transaction of the caller, bounded in rows, and stores its place in the
import's row: the next call continues there, also after a crash, and from a command beside a running server. After the
last step the figures are those of a database that never had the import:

1. Of days that have only columns, the columns are deleted where all events are of the import. The rows of the others
   are put back, a day at a time, and stay until the last step.
2. Events, and the days with them become stale, so that they are rebuilt in the background.
3. Visits of visitors that several imports share: those of the other imports are joined again.
4. Visits without events: every visit has an event at its start.
5. Web vitals.
6. Experiment events, and assignments and counts of their visitors.
7. Keys of imported lines, so that the same file can be imported again.
8. The ids of the import.
9. Imported sums, and the days that are built from them become stale.
10. Requests of crawlers.

Between the first and the last step, figures of the days of the import are between the old and the new ones. Sums of
days whose events have expired stay: nothing is left that they could be counted from.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

from tally.accounts.websites import secure_delete
from tally.columns import column_days, deleted_rows
from tally.columns.statements import TRAFFIC
from tally.rollups import experiments, imported_sums, rollup_state
from tally.storage import cluster_tables, crawler_days, event_data, import_records, visit_rows
from tally.storage.bulk_insert import insert
from tally.storage.import_records import COMPLETE, FOLLOWING, IMPORT_OF, INTERRUPTED, UNDOING, ImportRecord
from tally.timestamps import DAY_MS
from tally.transfer.visit_merge import combined

# A step takes 5 to 25 ms, during which a collect request waits for the writer.
_ROWS = 1_000
# Reading the experiment events of a day for each step.
_FEW_ROWS = 250
Place = tuple[int, ...]
_START: Place = (-1, -1, -1)


class CannotUndo(ValueError):
    """An import cannot be undone; the message has the reason and the fix."""


class UnknownImport(CannotUndo):
    """The website has no import of that number."""


def begin(connection: sqlite3.Connection, website: int, number: int, now_ms: int) -> ImportRecord:
    """Mark an import to be undone; return it. Raises CannotUndo."""
    record = import_records.record(connection, website, number)
    if record is None:
        raise UnknownImport(f"There is no import {number} of this website: see `import --list`.")
    state = record.state_at(now_ms)
    if state not in (COMPLETE, INTERRUPTED, UNDOING):
        hint = "; stop `import --follow` first, after a kill by starting it once more" if state == FOLLOWING else ""
        raise CannotUndo(f"Import {number} is {state}: only a complete or interrupted import can be undone{hint}.")
    if state != UNDOING:
        try:
            cluster_tables.change(connection, website, "undone import")
        except cluster_tables.UnloadedDays as failure:
            raise CannotUndo(str(failure)) from None
        _save(connection, website, number, 0, _START)
    return record


def step(connection: sqlite3.Connection, website: int, number: int) -> bool:
    """Do the next step; return whether there is more to do."""
    row = connection.execute(
        "/* undo.place */ select progress from import where website = ? and number = ? and state = 'undoing'",
        (website, number),
    ).fetchone()
    if row is None:
        return False
    phase, *place = orjson.loads(row[0])
    cluster_tables.change(connection, website, "undone import")
    with secure_delete(connection):
        following = _PHASES[phase](connection, website, number, tuple(place))
    if following is None:
        phase, following = phase + 1, _START
    if phase < len(_PHASES):
        _save(connection, website, number, phase, following)
        return True
    connection.execute(
        "/* undo.end */ update import set state = 'undone', progress = null where website = ? and number = ?",
        (website, number),
    )
    # A running server that finds an id taken reads again what it keeps in memory.
    connection.execute("/* undo.changed */ update meta set value = value + 1 where name = 'next_id'")
    return False


def _save(connection: sqlite3.Connection, website: int, number: int, phase: int, place: Place) -> None:
    connection.execute(
        "/* undo.save */ update import set state = 'undoing', progress = ? where website = ? and number = ?",
        (orjson.dumps([phase, *place]).decode(), website, number),
    )


def _reopen(connection: sqlite3.Connection, website: int, number: int, place: Place) -> Place | None:
    row = connection.execute(
        "/* undo.days */ select first_day, last_day from import where website = ? and number = ?", (website, number)
    ).fetchone()
    some = [] if row[0] is None else deleted_rows.parts_without_rows(connection, website, *row)[:1]
    for day, source in some:
        own = _own_ids(connection, website, number)
        if source == TRAFFIC and deleted_rows.has_ids_in(connection, website, day, own):
            # On a full disk there is no space for rows.
            column_days.remove(connection, website, TRAFFIC, day)
            _mark_stale(connection, website, [day])
        else:
            deleted_rows.reopen(connection, website, [day])
    return (some[0][0], -1, -1) if some else None


def _own_ids(connection: sqlite3.Connection, website: int, number: int) -> list[tuple[int, int]]:
    """Return the first and the end of each piece of ids of an import, in order."""
    return connection.execute(
        "/* undo.own_ids */ select first_id, end_id from import_range where website = ? and import = ?"
        " order by first_id",
        (website, number),
    ).fetchall()


def _events(connection: sqlite3.Connection, website: int, number: int, place: Place) -> Place | None:
    rows, following = _own_rows(connection, "event", "event.visitor", website, number, place, _ROWS)
    event_data.delete(connection, [(website, *row[:2]) for row in rows])
    _delete(connection, "event", ("website", "ts", "id"), [(website, *row[:2]) for row in rows])
    _mark_stale(connection, website, (row[0] // DAY_MS for row in rows))
    return following


def _own_rows(
    connection: sqlite3.Connection, table: str, columns: str, website: int, number: int, place: Place, limit: int
) -> tuple[list[tuple[Any, ...]], Place | None]:
    """Return (ts, id, columns) of the import's rows among the next rows of a table, and the place after those."""
    rows = connection.execute(
        f"/* undo.rows */ select ts, id, {IMPORT_OF.format(id=f'{table}.id', website=f'{table}.website')}, {columns}"
        f" from {table} where website = ? and ts >= ? and (ts, id) > (?, ?)"
        " and ts < (select (last_day + 1) * 86400000 from import where website = ? and number = ?)"
        " order by ts, id limit ?",
        (website, max(place[0], _first_ms(connection, website, number)), *place[:2], website, number, limit),
    ).fetchall()
    own = [(ts, id, *rest) for ts, id, owner, *rest in rows if owner == number]
    return own, (rows[-1][0], rows[-1][1]) if len(rows) == limit else None


def _first_ms(connection: sqlite3.Connection, website: int, number: int) -> int:
    row = connection.execute(
        "/* undo.first_day */ select first_day from import where website = ? and number = ?", (website, number)
    ).fetchone()
    return 0 if row[0] is None else int(row[0]) * DAY_MS


def _delete(connection: sqlite3.Connection, table: str, key: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    of_key = " and ".join(f"{name} = ?" for name in key)
    connection.executemany(f"/* undo.delete */ delete from {table} where {of_key}", rows)


def _mark_stale(connection: sqlite3.Connection, website: int, days: Iterable[int]) -> None:
    rollup_state.mark_stale(connection, website, sorted(set(days)))


def _shared(connection: sqlite3.Connection, website: int, number: int, place: Place) -> Place | None:
    shared = connection.execute(
        "/* undo.shared */ select day, visitor, max(import = ?) from import_visit where website = ?"
        " and (day, visitor) > (?, ?) group by day, visitor order by day, visitor limit ?",
        (number, website, *place[:2], _FEW_ROWS),
    ).fetchall()
    days = set()
    for day, visitor, is_own in shared:
        if is_own:
            _join_others(connection, website, number, day, visitor)
            days.add(day)
    _mark_stale(connection, website, days)
    return shared[-1][:2] if len(shared) == _FEW_ROWS else None


def _join_others(connection: sqlite3.Connection, website: int, number: int, day: int, visitor: int) -> None:
    """Replace the visits of a shared visitor by those that the other imports have."""
    rows = connection.execute(
        f"/* undo.others */ select import, {visit_rows.READ} from import_visit"
        " where website = ? and day = ? and visitor = ? and import != ? order by import",
        (website, day, visitor, number),
    ).fetchall()
    is_last = len({row[0] for row in rows}) == 1
    connection.execute(
        "/* undo.unshare */ delete from import_visit where website = ? and day = ? and visitor = ?"
        " and (import = ? or ?)",
        (website, day, visitor, number, is_last),
    )
    connection.execute(
        "/* undo.visits */ delete from visit where website = ? and day = ? and visitor = ?", (website, day, visitor)
    )
    visits = combined([visit_rows.visit_of(row[1:]) for row in rows])
    insert(connection, "undo", "visit", [visit_rows.row_of(website, visitor, visit) for visit in visits])
    connection.executemany(
        "/* undo.renumber */ update event set visit = ? where website = ? and ts between ? and ? and visitor = ?",
        [(visit.ordinal, website, visit.begin_ms, visit.end_ms, visitor) for visit in visits],
    )


def _visits(connection: sqlite3.Connection, website: int, number: int, place: Place) -> Place | None:
    first = max(place[0], _first_ms(connection, website, number) // DAY_MS)
    rows = connection.execute(
        "/* undo.empty_visits */ select day, visitor, visit, exists (select 1 from event where event.website = ?"
        " and ts = visit.start_ms and event.visitor = visit.visitor) from visit where website = ? and day >= ?"
        " and (day, visitor, visit) > (?, ?, ?)"
        " and day <= (select last_day from import where website = ? and number = ?)"
        " order by day, visitor, visit limit ?",
        (website, website, first, *place, website, number, _ROWS),
    ).fetchall()
    empty = [row[:3] for row in rows if not row[3]]
    _delete(connection, "visit", ("website", "day", "visitor", "visit"), [(website, *row) for row in empty])
    _mark_stale(connection, website, (row[0] for row in empty))
    return rows[-1][:3] if len(rows) == _ROWS else None


def _vitals(connection: sqlite3.Connection, website: int, number: int, place: Place) -> Place | None:
    rows, following = _own_rows(connection, "web_vitals", "1", website, number, place, _ROWS)
    _delete(connection, "web_vitals", ("website", "ts", "id"), [(website, *row[:2]) for row in rows])
    return following


def _experiments(connection: sqlite3.Connection, website: int, number: int, place: Place) -> Place | None:
    rows, following = _own_rows(
        connection, "experiment_event", "experiment, visitor", website, number, place, _FEW_ROWS
    )
    _delete(connection, "experiment_event", ("website", "ts", "id"), [(website, *row[:2]) for row in rows])
    keys = {(website, ts // DAY_MS, experiment, visitor) for ts, _, experiment, visitor in rows if experiment}
    experiments.recount(connection, keys)
    return following


def _keys(connection: sqlite3.Connection, website: int, number: int, place: Place) -> Place | None:
    first_ms = max(place[0], _first_ms(connection, website, number))
    # The digest is a signed number: -1 is no beginning.
    digest = place[1] if place[0] >= 0 else -(1 << 63)
    rows = connection.execute(
        "/* undo.keys */ select ts, digest, import from import_id where website = ? and ts >= ?"
        " and (ts, digest) > (?, ?) and ts < (select (last_day + 1) * 86400000 from import where website = ?"
        " and number = ?) order by ts, digest limit ?",
        (website, first_ms, place[0], digest, website, number, _ROWS),
    ).fetchall()
    own = [(website, *row[:2]) for row in rows if row[2] == number]
    _delete(connection, "import_id", ("website", "ts", "digest"), own)
    return rows[-1][:2] if len(rows) == _ROWS else None


def _ids(connection: sqlite3.Connection, website: int, number: int, place: Place) -> Place | None:
    rows = connection.execute(
        "/* undo.ids */ select first_id, import from import_range where website = ? and first_id > ?"
        " order by first_id limit ?",
        (website, place[0], _ROWS),
    ).fetchall()
    own = [(website, row[0]) for row in rows if row[1] == number]
    _delete(connection, "import_range", ("website", "first_id"), own)
    return (rows[-1][0],) if len(rows) == _ROWS else None


def _sums(connection: sqlite3.Connection, website: int, number: int, place: Place) -> Place | None:
    return imported_sums.delete_some(connection, website, number, (place[0], place[1]))


def _crawls(connection: sqlite3.Connection, website: int, number: int, place: Place) -> Place | None:
    day = crawler_days.delete_some(connection, website, number, place[0])
    return None if day is None else (day, -1, -1)


_PHASES: tuple[Callable[[sqlite3.Connection, int, int, Place], Place | None], ...] = (
    *(_reopen, _events, _shared, _visits, _vitals, _experiments, _keys, _ids, _sums, _crawls),
)
