"""Deletion of a website: at once from every response, then from every table, then from the bytes of the file.

A deleted website is at once in no response, and collecting for it gets 404. Its rows are deleted in the background in
short steps; after a kill the next start continues. Texts that another website uses stay, numbers are not reused, and
the deleted content is overwritten in the file.
"""

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tally.accounts.accounts import find_account
from tally.accounts.websites import add_website, delete_website
from tally.columns.format import labels_in
from tally.columns.statements import EXPERIMENTS, TRAFFIC, WEB_VITALS, number_of
from tally.events.dimensions import EVENT_FIELDS, FIELDS, PAGES, VISIT_FIELDS, field_number
from tally.maintenance import deletion
from tally.maintenance.deletion import TABLES
from tally.maintenance.deletion_worker import AGAIN_MS, LATE_MS, DeletionWorker
from tally.maintenance.rollup_builder import RollupBuilder
from tally.rollups.value_blocks import FIGURES_OF, add_chunks, chunks_of
from tally.storage.connections import on_thread
from tally.storage.database import connect_reader, open_database, transaction
from tally.storage.labels import Labels
from tally.transfer import importer
from tally.transfer.files import BadFile, open_source
from tally.transfer.importer import import_events
from tests.support.aged_database import DAY_MS, Killed, build, built_database, import_lines, writing_connection
from tests.support.app import NOON_MS, OWNER, App, ManualClock
from tests.support.page_client import LINK, PASSWORD, logged_in
from tests.support.process import Command, Serve, until

GO_WITH_THE_WEBSITE = {
    *("alert", "allowed_origin", "definition", "exclusion", "membership_website", "notice", "share_link")
}
LATER_MS = NOON_MS + LATE_MS


def all_rows(path: Path, website: int) -> dict[str, list[tuple[Any, ...]]]:
    connection = sqlite3.connect(path)
    tables = [*(table for table, _ in TABLES), *GO_WITH_THE_WEBSITE]
    try:
        return {
            table: connection.execute(f"select * from {table} where website = ? order by 1, 2", (website,)).fetchall()
            for table in tables
        }
    finally:
        connection.close()


def texts(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    try:
        return {text for (text,) in connection.execute("select text from label")}
    finally:
        connection.close()


def sql(path: Path, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(statement, parameters).fetchall()
    finally:
        connection.close()


def delete(path: Path, website: int = 1) -> None:
    connection = writing_connection(path)
    with transaction(connection):
        delete_website(connection, website, NOON_MS)
    connection.close()


class Work:
    """The background work of a new process; `before` is called before each of its steps."""

    def __init__(self, path: Path, clock: ManualClock, before: Callable[[], None] = lambda: None) -> None:
        self.path, self.clock, self.before, self.labels = path, clock, before, Labels()
        self.is_log_to_be_emptied = False

    async def _work(self, times: int) -> None:
        def is_busy() -> bool:
            self.before()
            return False

        writer, reader = await on_thread(writing_connection(self.path)), await on_thread(connect_reader(self.path))
        try:
            # As SQLite is built in most places; Debian's overwrites always.
            await writer.run(lambda connection: connection.execute("pragma secure_delete = off").fetchall())
            builder = RollupBuilder(writer, reader, self.clock, 0, is_busy, rest=0)
            worker = DeletionWorker(builder.write, reader, self.labels, self.clock, self._deleted)
            for _ in range(times):
                await worker.work()
            await writer.run(lambda connection: connection.execute("pragma wal_checkpoint(truncate)").fetchall())
        finally:
            await reader.close()
            await writer.close()

    def _deleted(self) -> None:
        self.is_log_to_be_emptied = True

    def do(self, times: int = 1) -> None:
        asyncio.run(self._work(times))


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Return a database with two websites that have data."""
    path = built_database(tmp_path)
    # Texts of the first website only, in every table that has texts.
    connection = writing_connection(path)
    with transaction(connection):
        for n, (table, columns) in enumerate(deletion._LABELS):
            for m, column in enumerate(columns):
                label = connection.execute(
                    "insert into label (text) values (?) returning id", (f"canary-{table}-{column}",)
                ).fetchone()[0]
                names = [row[1] for row in connection.execute(f"pragma table_info({table})")]
                row = dict.fromkeys(names, 0) | {"website": 1, column: label}
                row |= {
                    "ts": m,
                    "id": 10_000 + n * 100 + m,
                    "day": m,
                    "visitor": m,
                    "pageviews": 1,
                    "type": 6 if table == "experiment_event" else 0,
                    "points": 1,
                    "requests": 1,
                    "conversions": 1,
                    "visitors": 1,
                    "cells": b"",
                }
                row = {name: value for name, value in row.items() if name in names} | (
                    {"event_data": '{"canary-data": 1}'} if table == "event" else {}
                )
                connection.execute(f"insert into {table} values ({', '.join('?' * len(row))})", list(row.values()))
        connection.execute(
            "insert into event_id (website, minute_ms, digest, arrived_ms)"
            " values (1, 0, zeroblob(16), 0), (2, 0, zeroblob(16), 0)"
        )
        connection.execute("insert into import_id values (1, 0, 5, 1), (2, 0, 5, 1)")
        connection.execute("insert into import_range values (1, 1000000, 1000001, 1), (2, 1000001, 1000002, 1)")
        of_import = "'canary-format', 'canary-digest', 'canary-file', 'complete', 0, 0, 0, 0, 0, 0, 0, '{}'"
        of_import += ", 0, 0, 0, 0, null"
        connection.execute(f"insert into import values (1, 9, {of_import}), (2, 9, {of_import.replace('canary', 'x')})")
        connection.execute("insert into label (text) values ('canary-field_value')")
        connection.execute("insert into field_value select 1, 0, id from label where text = 'canary-field_value'")
        connection.execute(
            "insert into deletion (website, number, kind, state, begun_ms, ended_ms, events, changed, from_ms, to_ms,"
            " filters, rule, last_id, days, has_texts) values"
            " (1, 1, 'rewrite', 'done', 0, 0, 1, 1, 0, 1, '[\"canary-filter\"]', '[\"canary-rule\"]', 1, '[]', 0),"
            " (2, 1, 'delete', 'done', 0, 0, 1, 1, 0, 1, '[]', '[]', 1, '[]', 0)"
        )
        connection.execute("insert into imported_field values (1, 0, 5, 9, 1), (2, 0, 5, 9, 1)")
        connection.execute("insert into imported_sum values (2, 0, 5, 0, 1, 0, 0, 0, 0, 0)")
        connection.execute("insert into goal_day values (2, 5, 100, 0, 0, 1, 1, 0, 0, 0)")
        connection.execute("insert into rollup_state values (1, 5, 0, 0, 2, 0, 1), (2, 5, 0, 0, 2, 0, 1)")
        connection.execute("insert into web_vitals_histogram values (1, 5, 0, 1, x'', x'', x'', x'')")
        connection.execute("insert into rejected_event values (1, 5, 0, 1), (1, 6, 0, 1), (2, 5, 0, 1)")
        connection.execute("insert into heatmap_text values (1, 5, 0, 1, 1, 'canary', 1), (2, 5, 0, 1, 1, 'x', 1)")
        connection.execute("insert into new_value values (1, 5, 0, 1, 1), (2, 5, 0, 1, 1)")
        connection.execute("insert into website_usage values (1, 202611, 1), (2, 202611, 1)")
        connection.execute("insert into event_data_part values (160000, 'canary-part')")  # of the event with id 10,000
        samples = "(1, 1, 1, 0, null, 'url', 'canary-host.example'), (2, 1, 1, 0, 0, '', 'other.example')"
        connection.execute(f"insert into rejected_sample values {samples}")
        connection.execute("insert into meta values ('importing:1', 'x'), ('importing:12', 'x')")
        connection.execute("insert into allowed_origin values (1, 'app://canary-origin'), (2, 'app://other')")
        connection.execute(
            "insert into exclusion (website, kind, value) values (1, 'pages', '/canary-page'), (2, 'pages', '/other')"
        )
        connection.execute(
            "insert into definition values (1, '0123456789abcdef', 'goal', 0, '{\"name\": \"canary-goal\"}'),"
            " (2, '0123456789abcdef', 'goal', 0, '{}')"
        )
        connection.execute(
            "insert into alert (website, id, kind, params, created_ms, since_ms)"
            " values (1, '0123456789abcdef', 'goal', '{\"goal\": \"canary-goal\"}', 0, 0)"
        )
        connection.execute(
            "insert into share_link (website, id, name, token, created_ms)"
            " values (1, '0123456789abcdef', 'n', 'canary-token-24-letters!', 0)"
        )
        account = connection.execute("select account from website where number = 1").fetchone()[0]
        connection.execute(
            "insert into channel (id, account, kind, name, config, created_ms, language)"
            " values ('0123456789abcdef', ?, 'feed', 'n', '{}', 0, 'en')",
            (account,),
        )
        connection.execute(
            "insert into notice (key, account, channel, kind, priority, created_ms, due_ms, expires_ms, payload, state,"
            " website) values ('k', ?, '0123456789abcdef', 'test', 'normal', 0, 0, 0, '{\"canary-notice\": 1}', 'sent',"
            " 1)",
            (account,),
        )
        connection.execute("insert into membership_website select account, person, 1 from membership")
        connection.execute("update website set domain = 'canary-domain.example', name = 'canary-name' where number = 1")
    connection.close()
    return path


# --- what is deleted


def test_all_tables_are_cleared(db: Path) -> None:
    """All tables with a website column, each by its whole key."""
    connection = open_database(db, create=False)
    try:
        names = [name for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")]
        keys = {
            name: tuple(row[1] for row in sorted(connection.execute(f"pragma table_info({name})"), key=lambda r: r[5])
                        if row[5])
            for name in names
            if any(row[1] == "website" for row in connection.execute(f"pragma table_info({name})"))
        }  # fmt: skip
    finally:
        connection.close()
    assert {
        name: key[1:] for name, key in keys.items() if name not in GO_WITH_THE_WEBSITE | {"audit", "deleted_website"}
    } == dict(TABLES)


def test_all_columns_of_texts_are_checked(db: Path) -> None:
    """A text is deleted if no row has its number; every column with such numbers is checked."""
    known = {*FIELDS, *VISIT_FIELDS, "event_name", "experiment", "variant", "goal", "crawler"}
    tables = ("goal_day", "imported_sum")
    others = dict.fromkeys(tables, ("value",))
    connection = open_database(db, create=False)
    try:
        found = {
            table: tuple(row[1] for row in connection.execute(f"pragma table_info({table})") if row[1] in known)
            or others.get(table, ())
            for table, _ in TABLES
            # A page with packed points is in heatmap_count, which takes less to read; one with texts has points.
            if table not in ("heatmap_block", "heatmap_text")
        }
    finally:
        connection.close()
    assert {table: columns for table, columns in found.items() if columns} == dict(deletion._LABELS)
    # Entry and exit pages of a day are pathnames of it.
    of_sources = {TRAFFIC: ("event", "visit"), WEB_VITALS: ("web_vitals",), EXPERIMENTS: ("experiment_event",)}
    assert sorted(deletion._IN_COLUMNS) == sorted(
        (source, name)
        for source, tables in of_sources.items()
        for table in tables
        for name in found[table]
        if name not in PAGES
    )


def test_only_the_deleted_website_is_removed(db: Path) -> None:
    others, shared = all_rows(db, 2), {text for text in texts(db) if "canary" not in text}
    assert all(all_rows(db, 1).values())
    delete(db)
    work = Work(db, ManualClock(LATER_MS))
    work.do()
    assert not any(all_rows(db, 1).values())
    assert all_rows(db, 2) == others
    assert not [text for text in texts(db) if "canary" in text]
    # Texts that both websites used are kept.
    used = {text for (text,) in sql(db, "select text from label where id in (select pathname from event)")}
    assert used
    assert used <= shared
    assert sql(db, "select name from meta where name like 'import%'") == [("importing:12",)]
    assert sql(db, "select * from deleted_website") == [(1, NOON_MS, 1)]
    assert sql(db, "pragma integrity_check") == [("ok",)]
    assert sql(db, "pragma freelist_count") == [(0,)]
    assert work.is_log_to_be_emptied


def test_every_number_of_the_other_website_has_its_text(db: Path) -> None:
    """No row, and no column of a day, has the number of a deleted text."""
    delete(db)
    Work(db, ManualClock(LATER_MS)).do()
    for table, columns in deletion._LABELS:
        for column in columns:
            missing = f"select count(*) from {table} where {column} not in (select id from label)"
            assert sql(db, missing) == [(0,)], (table, column)
    there = {label for (label,) in sql(db, "select id from label")}
    numbers = ", ".join(str(number_of(*of)) for of in deletion._IN_COLUMNS)
    columns = sql(db, f"select content from day_column where field in ({numbers})")
    assert len(columns) > 100
    assert {label for (content,) in columns for label in labels_in(content)} <= there


@pytest.mark.parametrize("field", ["event_name", "exit_page", "utm_source"])
def test_the_text_of_a_day_whose_events_have_expired_is_kept(db: Path, field: str) -> None:
    """No row and no column may have it any more."""
    number = field_number(field)
    connection = writing_connection(db)
    with transaction(connection):
        labels = Labels().numbers_of(connection, ["canary-kept", "canary-nowhere"])
        counts = np.array([[0, labels["canary-kept"]], *[[1, 1]] * FIGURES_OF[number]])
        add_chunks(connection, 2, 0, 5, chunks_of(number, counts))
    connection.close()
    delete(db)
    Work(db, ManualClock(LATER_MS)).do()
    assert [text for text in texts(db) if "canary" in text] == ["canary-kept"]


def test_texts_of_columns_without_rows_are_kept(tmp_path: Path) -> None:
    """The events of a final day have no rows."""
    db = built_database(tmp_path)
    day = NOON_MS // DAY_MS - 20
    fields = ("pathname", "os", "browser", "hostname", "utm_source", "language")
    line = {"type": "event", "timestamp": day * DAY_MS, "visitor": "v", "event_name": "only-event_name"}
    assert import_lines(db, 2, [line | {name: f"only-{name}" for name in fields}]) == (1, 0, 0)
    assert build(db)
    connection = writing_connection(db)
    with transaction(connection):
        # What a website has used is listed there as well.
        connection.execute("delete from field_value where website = 2")
    connection.close()
    used = {f"only-{name}" for name in (*fields, "event_name")}
    assert used <= texts(db)
    assert sql(db, "select count(*) from event where website = 2 and ts / ? = ?", DAY_MS, day) == [(0,)]
    delete(db)
    Work(db, ManualClock(LATER_MS)).do()
    assert used <= texts(db)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("insert into rollup_block values (2, 106, 0, 5, 0, x'00')", id="values of a day"),
        pytest.param("update day_column set content = x'00' where website = 2 and field = 1", id="columns"),
    ],
)
def test_no_text_is_deleted_where_an_array_is_damaged(db: Path, damage: str) -> None:
    """Which texts it needs cannot be known. The deletion ends."""
    sql(db, damage)
    before = texts(db)
    delete(db)
    Work(db, ManualClock(LATER_MS)).do()
    assert texts(db) == before
    assert sql(db, "select is_complete from deleted_website") == [(1,)]


def test_deleted_bytes_are_overwritten(db: Path) -> None:
    """Its data is in no page, used or free, and not in the log."""
    sql(db, "pragma wal_checkpoint(truncate)")
    assert db.read_bytes().count(b"canary") > 50
    delete(db)
    Work(db, ManualClock(LATER_MS)).do()
    for path in db.parent.glob("analytics.db*"):
        assert b"canary" not in path.read_bytes(), path.name


@pytest.mark.slow
def test_deletion_killed_before_every_step(db: Path) -> None:
    """Each step is one transaction, and the next start continues."""
    delete(db)
    others = all_rows(db, 2)
    for steps in range(1_000):
        left = iter(range(steps % 5))

        def before(left: Any = left) -> None:
            if next(left, None) is None:
                raise Killed

        try:
            Work(db, ManualClock(LATER_MS), before if steps < 60 else lambda: None).do()
            break
        except Killed:
            assert all_rows(db, 2) == others
    assert steps > 3
    assert sql(db, "select is_complete from deleted_website") == [(1,)]
    assert not any(all_rows(db, 1).values())
    assert b"canary" not in db.read_bytes()


# --- concurrent writes


def test_a_slow_machine_deletes_as_much_in_a_step(tmp_path: Path) -> None:
    """Steps are amounts: with statements that take long, each of them deletes what it deletes otherwise."""
    with closing(open_database(tmp_path / "analytics.db", create=True)) as connection:
        labels = Labels()
        with transaction(connection):
            connection.executemany("insert into field_value values (1, 0, ?)", [(n,) for n in range(2_500)])
            connection.executemany("insert into label (text) values (?)", [(f"text {n}",) for n in range(1_000)])
            version = deletion.watch_labels(connection, labels)
            candidates = [label for (label,) in connection.execute("select id from label where text like 'text %'")]
        connection.set_trace_callback(lambda statement: time.sleep(0.02 * statement.startswith("/* deletion.rows")))
        deleted = list[int]()
        while not deleted or deleted[-1]:
            before = connection.total_changes
            with transaction(connection):
                deletion.delete_rows(connection, 1)
            deleted.append(connection.total_changes - before)
        assert deleted == [1_000, 1_000, 500, 0]
        with transaction(connection):
            assert deletion.delete_labels(connection, labels, version, candidates)
        assert len(candidates) == 750
        with transaction(connection):
            connection.execute("create table large (content blob)")
            connection.execute("insert into large values (zeroblob(800000))")
        connection.execute("drop table large")
        free = [connection.execute("pragma freelist_count").fetchone()[0]]
        while deletion.free_pages(connection):
            free.append(connection.execute("pragma freelist_count").fetchone()[0])
        assert {before - after for before, after in pairwise(free)} == {64}


def test_late_events_are_deleted(db: Path) -> None:
    """Events that were being stored during the deletion are committed after the website's rows were deleted."""
    delete(db)
    Work(db, ManualClock(NOON_MS + 1)).do()
    assert not any(all_rows(db, 1).values())
    assert sql(db, "select is_complete from deleted_website") == [(0,)]
    sql(db, "insert into total_15m values (1, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1)")
    Work(db, ManualClock(LATER_MS)).do()
    assert not any(all_rows(db, 1).values())
    assert sql(db, "select is_complete from deleted_website") == [(1,)]


def test_numbers_are_not_reused(db: Path) -> None:
    """A reused number would show the rows and cached results of the deleted website."""
    delete(db, 2)
    newest = sql(db, "select max(id) from label")
    connection = writing_connection(db)
    with transaction(connection):
        owner = find_account(connection, None)
        add_website(connection, owner, "new.example", "", (), NOON_MS)
    connection.close()
    assert [number for (number,) in sql(db, "select number from website order by number")] == [1, 3]
    delete(db, 1)
    Work(db, ManualClock(LATER_MS)).do()
    assert sql(db, "select max(id) from label") == newest


def test_a_text_used_during_the_search_is_kept(db: Path) -> None:
    """The server continues to write during the search for unused texts."""
    delete(db)
    work = Work(db, ManualClock(LATER_MS))
    seen: list[int] = []

    def use() -> None:
        if work.labels._is_watched and not seen:
            # As the writer does: a text of the deleted website is sent to another website.
            connection = writing_connection(db)
            seen.append(work.labels.numbers_of(connection, ["canary-event-country"])["canary-event-country"])
            connection.close()

    work.before = use
    work.do()
    assert seen
    assert sql(db, "select id from label where text = 'canary-event-country'") == [(seen[0],)]
    assert len([text for text in texts(db) if "canary" in text]) == 1


def test_texts_are_kept_while_another_process_writes(db: Path) -> None:
    """Another process, such as an import, may use any text: texts are then deleted later."""
    delete(db)
    clock = ManualClock(LATER_MS)
    work = Work(db, clock)
    written: list[int] = []

    def write() -> None:
        if work.labels._is_watched and not written:
            written.append(1)
            sql(db, "insert into meta values ('elsewhere', 1)")

    work.before = write
    work.do(times=3)
    assert written
    assert [text for text in texts(db) if "canary" in text]
    assert not any(all_rows(db, 1).values())
    clock.advance(AGAIN_MS / 1000)
    work.do()
    assert not [text for text in texts(db) if "canary" in text]


def test_a_running_import_fails_and_writes_nothing(db: Path) -> None:
    """Another process may have begun an import into the website."""
    delete(db)
    before = all_rows(db, 1)
    with pytest.raises(BadFile, match="deleted"):
        import_lines(db, 1, [{"type": "pageview", "timestamp": "2026-11-18T10:00:00Z", "pathname": "/late"}])
    assert all_rows(db, 1) == before


def test_an_import_into_another_website_reads_labels_again(db: Path, tmp_path: Path) -> None:
    """Its cached labels may have been deleted between two of its transactions."""
    lines = [
        {"type": "pageview", "timestamp": f"2026-11-1{day}T10:00:00Z", "pathname": "/same", "id": day + 1}
        for day in range(8)
    ]
    (tmp_path / "lines.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    connection = writing_connection(db)
    swept: list[int] = []

    def sweep(position: int) -> None:
        # Between two parts the text is deleted as an unused one, and the server marks that.
        if not swept:
            swept.append(1)
            sql(db, "delete from event where pathname = (select id from label where text = '/same')")
            sql(db, "update label set text = '/another' where text = '/same'")
            sql(db, "insert into meta values ('swept', 1)")

    try:
        with open_source(str(tmp_path / "lines.ndjson")) as source:
            sizes = importer.USUAL._replace(part_lines=2)
            import_events(connection, 2, source, now_ms=NOON_MS, sizes=sizes, progress=sweep)
    finally:
        connection.close()
    assert swept
    kept = sql(db, "select count(*) from event where pathname = (select id from label where text = '/same')")
    assert kept[0][0] > 0
    assert sql(db, "select count(*) from event where pathname = (select id from label where text = '/another')") == [
        (0,)
    ]


# --- over HTTP

PAGE = {"type": "pageview", "url": "https://example.com/a"}


async def test_a_deleted_website_disappears_at_once(app: App) -> None:
    """Lists and reports omit it at once, and collect returns 404."""
    owner = await logged_in(app)
    website, other = await app.website("example.com"), await app.website("other.example")
    key = await app.key()
    link = (await owner("POST", f"/api/account/websites/{website}/share-links", LINK)).json["data"]["path"]
    assert (await app.collect(PAGE | {"website_id": website})).status == 202
    for path in (f"/api/v1/websites/{website}/stats", f"/api/v1/websites/{website}/realtime"):
        assert (await app.get(path, key)).status == 200
    answer = await owner("DELETE", f"/api/account/websites/{website}", {"domain": " Example.COM "})
    assert answer.status == 202
    assert (await app.collect(PAGE | {"website_id": website})).json["error"]["code"] == "unknown_website"
    assert (await app.get(f"/api/v1/websites/{website}/stats", key)).status == 404
    assert (await owner("GET", f"/api/account/websites/{website}/stats")).status == 404
    assert (await app.get(f"/api{link}")).status == 404
    assert [one["id"] for one in (await app.get("/api/v1/websites", key)).json["data"]] == [other]
    assert [one["id"] for one in (await owner("GET", "/api/account/websites")).json["data"]] == [other]
    await app.restart()
    assert (await app.get(f"/api/v1/websites/{website}/stats", key)).status == 404


@pytest.mark.parametrize("typed", ["", "example.org", "sub.example.com", None, 5])
async def test_deletion_is_confirmed_by_the_domain(app: App, typed: Any) -> None:
    """The request contains the domain as confirmation."""
    owner = await logged_in(app)
    website = await app.website("example.com")
    answer = await owner("DELETE", f"/api/account/websites/{website}", {"domain": typed})
    assert (answer.status, answer.json["error"]["field"]) == (400, "domain")
    assert (await app.collect(PAGE | {"website_id": website})).status == 202


@pytest.mark.parametrize("looks_first", [True, False])
async def test_a_concurrent_read_does_not_restore_the_website(app: App, looks_first: bool) -> None:
    """Data read from the database before the change must not replace the changed data."""
    for number in range(5):
        id_ = await app.website(f"{number}.example.com")
        await asyncio.to_thread(sql, app.db, "insert or replace into meta values ('elsewhere', ?)", number)
        website = app.registry.website(id_)
        both = [
            app.registry.refresh(),
            app.registry.change(lambda run, website=website: delete_website(run, website.number, NOON_MS)),
        ]
        await asyncio.gather(*(both if looks_first else reversed(both)))
        assert app.registry.website(id_) is None
        await app.registry.refresh()
        assert app.registry.website(id_) is None


async def test_a_server_deletes_the_data_in_the_background(app: App) -> None:
    """A minute after the deletion no byte of the events is in the database or its log.

    The audit log keeps the name of the website.
    """
    owner = await logged_in(app)
    website, other = await app.website("closed.example"), await app.website("other.example")
    url = "https://closed.example/canary-path?utm_source=canary-source"
    click = {"x": 0.5, "y": 5, "kind": "click", "text": "canary-text"}
    events = [
        {"type": "pageview", "url": url, "referrer": "https://canary-referrer.example/"},
        {"type": "event", "event_name": "canary-name", "event_data": {"canary-key": "canary-value"}, "url": url},
        {"type": "vitals", "vitals": {"lcp": 5}, "url": url},
        {"type": "heatmap", "viewport_width": 900, "points": [click], "url": url},
        {"type": "ab_assign", "experiment": "canary-experiment", "variant": "canary-variant", "session_id": "12345678"},
    ]
    sent = await app.collect({"website_id": website, "events": events})
    assert sent.json["accepted"] == len(events)
    assert (
        await app.collect({"type": "pageview", "website_id": other, "url": "https://other.example/b"})
    ).status == 202
    await app.background_work.builder.work()
    assert (await owner("DELETE", f"/api/account/websites/{website}", {"domain": "closed.example"})).status == 202
    app.clock.advance(LATE_MS / 1000)
    while sql(app.db, "select is_complete from deleted_website") == [(0,)]:
        await app.background_work.deletion_worker.work()
        app.clock.advance(AGAIN_MS / 1000)
    while app.database.wants_empty_log:
        app.clock.advance(60)
        await app.node.tick()
    for path in app.db.parent.glob("analytics.db*"):
        assert b"canary" not in path.read_bytes(), path.name
    top = await owner("GET", f"/api/account/websites/{other}/top/pathname?from=2026-11-01&to=2026-11-30")
    assert [row["value"] for row in top.json["data"]] == ["/b"]


@pytest.mark.slow
def test_a_killed_server_continues_the_deletion(tmp_path: Path, serve: Serve, command: Command) -> None:
    """A process is killed during the deletion; the next one completes it and accepts events."""
    path = tmp_path / "analytics.db"
    command("account", "create", OWNER, "--password-stdin", stdin=PASSWORD)
    website, other = (command("website", "add", domain).stdout.strip() for domain in ("example.com", "other.example"))
    many = 150_000
    sql(
        path,
        "insert into event with recursive n(v) as (select 1 union all select v + 1 from n where v < ?)"
        f" select 1, v, v, 0, v, 0{', 0' * (len(EVENT_FIELDS) + 1)}, null from n",
        many,
    )

    def left() -> int:
        return int(sql(path, "select count(*) from event where website = 1")[0][0])

    first = serve(db=path)
    own = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    answer = first.request("POST", "/api/account/login", {"email": OWNER, "password": PASSWORD}, own)
    own["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
    answer = first.request("DELETE", f"/api/account/websites/{website}", {"domain": "example.com"}, own)
    assert answer.status == 202
    until(lambda: left() < many)
    first.kill()
    assert sql(path, "select is_complete from deleted_website") == [(0,)]
    second = serve(db=path)
    assert second.request("POST", "/api/collect", PAGE | {"website_id": website}).status == 404
    assert second.request("POST", "/api/collect", PAGE | {"website_id": other}).status == 202
    until(lambda: left() == 0, seconds=120)
    assert second.terminate() == 0
    assert sql(path, "pragma integrity_check") == [("ok",)]
    assert sql(path, "select count(*) from event") == [(1,)]
