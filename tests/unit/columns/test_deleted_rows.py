"""Rows of stored days (tally/columns/deleted_rows.py): deleted without loss, shown to what reads rows, and put back.

Each figure and list is read before and after the rows are deleted.
"""

import contextlib
import io
import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tally.columns import column_days, deleted_rows, statements
from tally.engine.values import Place, Scope
from tally.events.dimensions import ALL_TRAFFIC, FIELDS
from tally.events.filters import Filter
from tally.maintenance import deletion, repair, retention, verify
from tally.reports import event_list
from tally.rollups import imported_sums, rollup_state
from tally.storage import event_data
from tally.storage.bulk_insert import COLUMNS
from tally.storage.database import open_database, snapshot, transaction
from tally.storage.labels import Labels
from tally.timestamps import DAY_MS, HOUR_MS
from tally.transfer import undo
from tally.transfer.chunks import Sizes
from tally.transfer.exporter import Part, count_events, part_lines
from tally.transfer.files import open_source
from tally.transfer.importer import Preview, Summary, import_events, preview_events
from tally.transfer.query import VIEWS, open_query
from tests.support.app import ManualClock
from tests.support.exports import export_events
from tests.support.rollup_database import RollupHarness, make_file, table_errors, with_all_rows
from tests.unit.reports.test_day_columns import DATA, DAY, DAYS, drawn

TABLES = ("event", "visit", "event_data_part")
LAST = 1 << 62
# A text that is stored in parts, with characters of several bytes.
LONG = json.dumps({"s": "ü€" * 500, "n": 1}, ensure_ascii=False)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RollupHarness]:
    """Return a database with packed final days that have their rows, and a day that still goes on."""
    make_file(tmp_path / "analytics.db")
    draw = random.Random(1)
    harness = RollupHarness(tmp_path / "analytics.db", ManualClock((DAY + DAYS) * DAY_MS + HOUR_MS))
    harness.import_events(*drawn(draw))
    harness.send(
        *((ts, type_, visitor, texts) for ts, type_, visitor, texts in drawn(draw) if ts < DAY * DAY_MS + HOUR_MS)
    )
    # As the server gives them out.
    harness.writer.execute("update event set id = id + 5000")
    harness.writer.execute("update meta set value = 10000 where name = 'next_id'")
    harness.restart()
    for (id_,) in harness.writer.execute("select id from event").fetchall():
        stored, parts = event_data.split(draw.choice((*DATA, LONG)), id_)
        harness.writer.execute("update event set event_data = ? where id = ?", (stored, id_))
        event_data.add(harness.writer, parts)
    harness.writer.execute("update visit set acquired_after_ms = duration_ms where visit = 0")
    harness.advance(60 * DAY_MS)
    harness.send(((DAY + DAYS + 60) * DAY_MS, 0, "today", ("x",) * (len(FIELDS) + 1)))
    harness.build()
    with transaction(harness.writer):
        deleted_rows.reopen(harness.writer, 1, range(DAY, DAY + DAYS))
    # A new builder searches for such days again.
    harness.restart()
    yield harness
    harness.close()


def rows(connection: sqlite3.Connection) -> list[list[Any]]:
    """Return the rows of each of TABLES, in the order of their keys."""
    orders = ("website, ts, id", "website, day, visitor, visit", "number")
    return [
        connection.execute(f"select * from {table} order by {order}").fetchall()
        for table, order in zip(TABLES, orders, strict=True)
    ]


def test_rows_come_back_as_they_were(harness: RollupHarness) -> None:
    before = rows(harness.reader)
    assert before[2]
    assert harness.build()
    days = list(range(DAY, DAY + DAYS))
    assert deleted_rows.without_rows(harness.reader, 1, 0, LAST) == days
    assert [len(part) for part in rows(harness.reader)] == [1, 1, 0]
    with snapshot(harness.reader):
        deleted_rows.show(harness.reader, 1, [*days, *days, days[-1] + 1])
        assert rows(harness.reader) == before
        deleted_rows.hide(harness.reader)
        assert [len(part) for part in rows(harness.reader)] == [1, 1, 0]
    assert harness.reader.execute("select count(*) from temp.sqlite_schema").fetchone() == (0,)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        harness.reader.execute("create temp table x (a)")
    versions = harness.days()
    with transaction(harness.writer):
        assert deleted_rows.reopen(harness.writer, 1, days)
        assert not deleted_rows.reopen(harness.writer, 1, days)
    assert rows(harness.reader) == before
    assert harness.days() == versions
    # Without a transaction nothing would take the views away.
    harness.restart()
    harness.build()
    with pytest.raises(ValueError, match="read transaction"):
        deleted_rows.show(harness.reader, 1, days)


def test_a_day_whose_columns_differ_keeps_its_rows(harness: RollupHarness) -> None:
    """Each value of a row is compared, and each part of a long text."""
    one_event = f"id = (select max(id) from event where ts / {DAY_MS} = {DAY} and event_data != '')"
    one_visit = f"day = {DAY} and visitor = (select max(visitor) from visit where day = {DAY}) and visit = 0"
    changes = [
        *(f"update event set {name} = {name} + 1 where {one_event}" for name in COLUMNS["event"][1:-1]),
        *(f"update visit set {name} = {name} + 1 where {one_visit}" for name in COLUMNS["visit"][2:]),
        f"update event set event_data = null where {one_event}",
        f"update event set event_data = '{{}} ' where {one_event}",
        f"delete from event where {one_event}",
        f"delete from visit where {one_visit}",
        "update event_data_part set text = 'x'",
        "delete from event_data_part",
    ]
    with snapshot(harness.reader):
        assert deleted_rows.compared_version(harness.reader, 1, DAY) == harness.days()[DAY].version
    harness.writer.execute("pragma ignore_check_constraints = on")
    for change in changes:
        with snapshot(harness.writer):
            assert harness.writer.execute(change).rowcount > 0, change
            assert deleted_rows.compared_version(harness.writer, 1, DAY) is None, change
    with transaction(harness.writer):
        assert not deleted_rows.delete_rows(harness.writer, 1, DAY, None)
    before = rows(harness.reader)[0]
    harness.build()
    assert deleted_rows.without_rows(harness.reader, 1, 0, LAST) == list(range(DAY + 1, DAY + DAYS))
    of_day = [row for row in before if row[1] // DAY_MS == DAY]
    assert [row for row in rows(harness.reader)[0] if row[1] // DAY_MS == DAY] == of_day


def test_only_rows_that_were_compared_are_deleted(harness: RollupHarness) -> None:
    """Not where the day has changed since, is not final, has too many events or an import of it is being undone."""
    version = harness.days()[DAY].version
    before = rows(harness.reader)
    for change in (
        "update rollup_state set version = version + 1 where level = 0",
        "update rollup_state set state = 1 where level = 0",
        "update packed_day set layout = 1",
        "update packed_day set version = version - 1",
        f"update packed_day set events = {column_days.MAX_EVENTS + 1}",
        "insert into import values (1, 1, 'x', '', 'x', 'undoing', 0, 0, 0, 0, 0, 0, 0, '{}', null, null, 0, 0, null)",
    ):
        with snapshot(harness.writer):
            harness.writer.execute(change)
            assert deleted_rows.next_day(harness.writer, 1) is None
            assert not deleted_rows.delete_rows(harness.writer, 1, DAY, version)
    with snapshot(harness.writer):
        harness.writer.execute("delete from visit where visit > 0")
        assert not deleted_rows.delete_rows(harness.writer, 1, DAY, version)
        assert deleted_rows.next_day(harness.writer, 1) != DAY
    assert rows(harness.reader) == before
    with transaction(harness.writer):
        assert deleted_rows.delete_rows(harness.writer, 1, DAY, version)


def pages(harness: RollupHarness, scope: Scope, only_traffic: bool) -> list[list[Any]]:
    place, found = Place(LAST, LAST, LAST), []
    while True:
        with snapshot(harness.reader):
            found.append(event_list.page(harness.reader, scope, place, 7, harness.cache, only_traffic=only_traffic))
        if len(found[-1]) < 7:
            return found
        place = place._replace(ts=found[-1][-1][2], id=found[-1][-1][0])


FILTERS: tuple[tuple[Filter, ...], ...] = (
    (),
    (Filter("browser", "=", ("x",)),),
    (Filter("entry_page", "!=", ("y",)), Filter("referrer", "^=", ("x", "z"))),
    (Filter("prop.n", "=", ("1",)),),
    (Filter("type", "=", ("event", "pageview")), Filter("event_name", "=", ("x",))),
    (Filter("city", "=", ("no such",)),),
)


def test_lists_exports_and_queries_are_those_of_the_rows(harness: RollupHarness) -> None:
    end_ms = (DAY + DAYS + 61) * DAY_MS
    spans = ((0, end_ms), (DAY * DAY_MS + 7 * HOUR_MS, (DAY + 2) * DAY_MS + 9 * HOUR_MS))

    def found() -> list[Any]:
        lists = [
            pages(harness, harness.scope(*span, filters), only)
            for span in spans
            for filters in FILTERS
            for only in (False, True)
        ]
        out = io.BytesIO()
        assert export_events(harness.reader, 1, out) == count_events(harness.reader, 1)
        views = []
        for view in VIEWS:
            for query in (
                f"select * from {view} order by 1, 2, 3, 4, 5, 6, 7, 8",
                f"select day, count(*) from {view} group by 1",
            ):
                with open_query(harness.path, query, 60) as result:
                    views.append([result.columns, *result])
        plan = retention.plan(harness.reader, 1, 1, end_ms)
        with snapshot(harness.reader):
            ranges = [((DAY + 1) * DAY_MS + HOUR_MS, (DAY + 2) * DAY_MS + HOUR_MS), ((DAY + 3) * DAY_MS, end_ms)]
            parts = [b"".join(part_lines(harness.reader, 1, Part(after, ids[-2], ranges))) for after in ids[::3]]
        return [lists, out.getvalue().splitlines(), views, plan, [part.splitlines() for part in parts]]

    ids = sorted(row[2] for row in rows(harness.reader)[0])
    before = found()
    assert all(before[4][:2])
    assert harness.build()
    assert rows(harness.reader)[2] == []
    assert found() == before
    assert [one for one in verify.verdicts(harness.reader, 1) if one.fault] == []
    assert table_errors(harness.reader, 1) == []


def test_what_changes_a_day_puts_its_rows_back(harness: RollupHarness) -> None:
    """A stale mark, and an event of a day that is final, as after the clock was set back."""
    before = rows(harness.reader)
    harness.build()

    def send() -> None:
        harness.send(((DAY + 1) * DAY_MS + HOUR_MS, 0, "late", ("z",) * (len(FIELDS) + 1)))

    def mark() -> None:
        with transaction(harness.writer):
            rollup_state.mark_stale(harness.writer, 1, [DAY + 1])

    changes: tuple[Callable[[], None], ...] = (mark, send)
    for change in changes:
        assert deleted_rows.without_rows(harness.reader, 1, 0, LAST) == list(range(DAY, DAY + DAYS))
        change()
        assert deleted_rows.without_rows(harness.reader, 1, 0, LAST) == [DAY, *range(DAY + 2, DAY + DAYS)]
        of_day = [row for row in before[0] if row[1] // DAY_MS == DAY + 1]
        stored = [row for row in rows(harness.reader)[0] if row[1] // DAY_MS == DAY + 1]
        assert [row for row in stored if row in of_day] == of_day
        assert len(stored) == len(of_day) + (change is send)
        harness.build()
        assert table_errors(harness.reader, 1) == []


def test_a_day_of_an_earlier_layout_is_packed_again(harness: RollupHarness) -> None:
    """Until then its rows are made from the columns that it has."""
    before = rows(harness.reader)
    harness.build()
    scope = harness.scope(DAY * DAY_MS + HOUR_MS, (DAY + DAYS) * DAY_MS, (Filter("browser", "=", ("x",)),))
    expected, listed = harness.stats(scope), pages(harness, scope, True)
    harness.writer.execute("update packed_day set layout = 1")
    harness.restart()
    assert harness.stats(scope) == expected
    assert pages(harness, scope, True) == listed
    harness.build()
    assert harness.writer.execute("select distinct layout, raw_rows from packed_day").fetchall() == [
        (column_days.LAYOUT, 0)
    ]
    with transaction(harness.writer):
        deleted_rows.reopen(harness.writer, 1, range(DAY, DAY + DAYS))
    assert rows(harness.reader) == before


def test_labels_of_rows_that_were_put_back_are_kept(harness: RollupHarness) -> None:
    """The search has read the tables of rows before they were put back."""
    harness.build()
    labels = Labels()
    version = deletion.watch_labels(harness.writer, labels)
    candidates = [2]
    with transaction(harness.writer):
        assert deleted_rows.reopen(harness.writer, 1, [DAY])
        assert not deletion.delete_labels(harness.writer, labels, version, candidates)
    assert candidates == [2]


def test_damaged_columns_are_found(harness: RollupHarness) -> None:
    harness.build()
    assert [one for one in verify.verdicts(harness.reader, 1) if one.fault] == []
    place, visitor = f"where day = {DAY + 1} and field =", statements.COLUMNS["visitor"]
    for damage in (
        f"update day_column set content = (select content from day_column {place} {visitor}) {place} 1",
        f"update day_column set content = x'00' {place} {visitor}",
        f"delete from day_column {place} {visitor}",
    ):
        harness.writer.execute(damage)
        wrong = [one for one in verify.verdicts(harness.reader, 1) if one.fault]
        assert {(one.block, one.fault) for one in wrong} == {(DAY + 1, verify.LOST_TRAFFIC)}
        # Nothing is left that they could be packed from, and its rollups are right.
        for verdict in wrong:
            with transaction(harness.writer):
                repair.invalidate(harness.writer, 1, verdict)
        assert deleted_rows.without_rows(harness.reader, 1, DAY + 1, DAY + 1)
        assert harness.days()[DAY + 1].state == rollup_state.FINAL
        with pytest.raises(sqlite3.DatabaseError, match="damaged"), transaction(harness.writer):
            deleted_rows.reopen(harness.writer, 1, [DAY + 1])


def test_expired_days_are_deleted(harness: RollupHarness) -> None:
    """Their columns, and nothing else is left to delete; rollups stay."""
    harness.build()
    scope = harness.scope(DAY * DAY_MS, (DAY + DAYS) * DAY_MS)
    before = harness.stats(scope)
    retention.set_keep_days(harness.writer, 1, 10)
    harness.restart()
    harness.build()
    assert {day.state for number, day in harness.days().items() if number < DAY + DAYS} == {rollup_state.KEPT}
    for table in ("packed_day", "day_column"):
        assert harness.writer.execute(f"select count(*) from {table}").fetchone() == (0,)
    assert harness.stats(scope) == before


def test_an_import_reads_the_visits_of_rows_that_it_puts_back(harness: RollupHarness) -> None:
    """The background deletes the rows after the import has found them, and before it reads their visits."""
    path = harness.path.with_name("lines.ndjson")
    first_ms = DAY * DAY_MS + 5 * HOUR_MS
    deleted: list[bool] = []

    def imported(*times: int) -> None:
        common = {"type": "pageview", "pathname": "/", "visitor": "a"}
        path.write_text("".join(json.dumps(common | {"id": ts, "timestamp": ts}) + "\n" for ts in times))
        with open_source(str(path)) as source:
            import_events(harness.writer, 1, source, now_ms=harness.now_ms, sizes=Sizes(chunk_lines=1))

    def delete(statement: str) -> None:
        if deleted or not statement.startswith("/* visit_merge.any */") or f"day = {DAY} " not in statement:
            return
        with snapshot(harness.reader):
            version = deleted_rows.compared_version(harness.reader, 1, DAY)
        with contextlib.closing(open_database(harness.path, create=False)) as background, transaction(background):
            deleted.append(deleted_rows.delete_rows(background, 1, DAY, version))

    imported(first_ms)
    harness.restart()
    harness.build()
    with transaction(harness.writer):
        assert deleted_rows.reopen(harness.writer, 1, [DAY])
    harness.writer.set_trace_callback(delete)
    # With its first part an import reads visits in any case.
    imported(harness.now_ms, first_ms + HOUR_MS // 4)
    harness.writer.set_trace_callback(None)
    assert deleted == [True]
    (visitor,) = harness.reader.execute("select visitor from event where ts = ? and id > 5000", (first_ms,)).fetchone()
    assert harness.reader.execute(
        "select pageviews, duration_ms from visit where day = ? and visitor = ?", (DAY, visitor)
    ).fetchall() == [(2, HOUR_MS // 4)]
    harness.restart()
    harness.build()
    assert table_errors(harness.reader, 1) == []


@pytest.mark.slow
def test_imports_into_days_without_rows_and_their_undo(harness: RollupHarness) -> None:
    """Exported lines are known, new ones join the visits of the first import, and an undo leaves what was before."""
    common = {"type": "pageview", "pathname": "/", "visitor": "a"}
    path = harness.path.with_name("lines.ndjson")

    def imported(*lines: dict[str, Any]) -> tuple[Preview, Summary]:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with open_source(str(path)) as source:
            preview = preview_events(harness.writer, 1, source, now_ms=harness.now_ms)
        with open_source(str(path)) as source:
            summary = import_events(harness.writer, 1, source, now_ms=harness.now_ms, sizes=Sizes(part_lines=2))
        harness.restart()
        assert harness.build()
        assert deleted_rows.without_rows(harness.reader, 1, 0, LAST) == list(range(DAY, DAY + DAYS))
        assert [one for one in verify.verdicts(harness.reader, 1) if one.fault] == []
        return preview, summary

    def all_rows() -> list[list[Any]]:
        with with_all_rows(harness.reader, 1):
            return rows(harness.reader)

    assert harness.build()
    before = all_rows()
    out = io.BytesIO()
    export_events(harness.reader, 1, out)
    exported = [json.loads(line) for line in out.getvalue().splitlines()]
    preview, summary = imported(*exported)
    # Some drawn events are not what a client may send.
    assert (preview.known, summary.accepted) == (summary.duplicates, 0)
    assert summary.duplicates == len(exported) - preview.bad > DAYS
    times = [(DAY + day) * DAY_MS + 5 * HOUR_MS for day in range(DAYS)]
    imported(*(common | {"timestamp": ts, "id": 1} for ts in times))
    once = all_rows()
    assert len(once[1]) == len(before[1]) + DAYS
    imported(*(common | {"timestamp": ts + 1_000, "id": 2} for ts in times))
    assert len(all_rows()[0]) == len(before[0]) + 2 * DAYS
    assert len(all_rows()[1]) == len(before[1]) + DAYS
    for number, expected in ((3, once), (2, before)):
        with transaction(harness.writer):
            undo.begin(harness.writer, 1, number, harness.now_ms)
        is_left = True
        while is_left:
            with transaction(harness.writer):
                is_left = undo.step(harness.writer, 1, number)
            # Rows that were put back stay until the end.
            harness.restart()
            harness.build()
        harness.restart()
        harness.build()
        assert all_rows() == expected
        assert table_errors(harness.reader, 1) == []
        assert deleted_rows.without_rows(harness.reader, 1, 0, LAST) == list(range(DAY, DAY + DAYS))


def test_sums_of_another_system_do_not_replace_columns(harness: RollupHarness) -> None:
    """They count on days without events; a day whose rows are deleted has some."""
    harness.build()
    before = harness.days()
    with transaction(harness.writer):
        imported_sums.add(harness.writer, 1, 1, [imported_sums.Sum(ALL_TRAFFIC, DAY, 0, 63, (9, 9, 9, 9, 9, 9))])
    assert harness.days() == before
    assert deleted_rows.without_rows(harness.reader, 1, DAY, DAY) == [DAY]
    assert table_errors(harness.reader, 1) == []
