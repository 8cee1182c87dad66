"""A deleted website: gone at once from every answer, then from every table, then from the bytes of the file.

The rules: "gone at once from all lists and answers and from collect (404), rows deleted in the background in short
steps, survives restart ... really gone from the file". tally/maintenance/deletion.py adds: texts that another website
uses stay, numbers are never given out again, "killed at any point, the next start goes on".
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.accounts import find_account
from tally.accounts.websites import add_website
from tally.events.dimensions import FIELDS
from tally.maintenance import deletion
from tally.maintenance.deletion import TABLES
from tally.maintenance.deletion_worker import AGAIN_MS, LATE_MS, DeletionWorker
from tally.maintenance.rollup_builder import RollupBuilder
from tally.storage.connections import on_thread
from tally.storage.database import connect_reader, open_database, transaction
from tally.storage.labels import Labels
from tally.transfer import importer
from tally.transfer.files import BadFile, open_source
from tally.transfer.importer import import_events
from tests.support.aged_database import Killed, built_database, import_lines, writing_connection
from tests.support.app import NOON_MS, OWNER, App, ManualClock
from tests.support.page_client import PASSWORD, logged_in
from tests.support.process import Command, Serve, until

GO_WITH_THE_WEBSITE = {"allowed_origin", "share_link"}
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
        deletion.delete_website(connection, website, NOON_MS)
    connection.close()


class Work:
    """The background work of a process that was just started; `before` happens before each of its steps."""

    def __init__(self, path: Path, clock: ManualClock, before: Callable[[], None] = lambda: None) -> None:
        self.path, self.clock, self.before, self.labels = path, clock, before, Labels()
        self.wants_empty_log = False

    async def _work(self, times: int) -> None:
        def is_busy() -> bool:
            self.before()
            return False

        writer, reader = await on_thread(writing_connection(self.path)), await on_thread(connect_reader(self.path))
        try:
            # As SQLite is built in most places; Debian's overwrites always.
            await writer.run(lambda connection: connection.execute("pragma secure_delete = off").fetchall())
            builder = RollupBuilder(writer, reader, self.clock, 0, is_busy, rest=0)
            eraser = DeletionWorker(builder.write, reader, self.labels, self.clock)
            for _ in range(times):
                await eraser.work()
            self.wants_empty_log = eraser.wants_empty_log
            await writer.run(lambda connection: connection.execute("pragma wal_checkpoint(truncate)").fetchall())
        finally:
            await reader.close()
            await writer.close()

    def do(self, times: int = 1) -> None:
        asyncio.run(self._work(times))


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A file with two websites that have a past."""
    path = built_database(tmp_path)
    # What only the first one says, in every table that has texts.
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
                    "type": 6 if table == "experiment_event" else 0,
                    "points": 1,
                    "visitors": 1,
                    "cells": b"",
                }
                row = {name: value for name, value in row.items() if name in names} | (
                    {"event_data": '{"canary-data": 1}'} if table == "event" else {}
                )
                connection.execute(f"insert into {table} values ({', '.join('?' * len(row))})", list(row.values()))
        connection.execute("insert into rollup values (1, 3, 0, 5, 0, 1, 1, 1)")
        connection.execute("insert into event_id values (1, zeroblob(16), 0), (2, zeroblob(16), 0)")
        connection.execute("insert into import_id values (1, 0, 5), (2, 0, 5)")
        connection.execute("insert into rejected_event values (1, 5, 0, 1), (1, 6, 0, 1), (2, 5, 0, 1)")
        connection.execute("insert into new_value values (1, 5, 0, 1, 1), (2, 5, 0, 1, 1)")
        connection.execute("insert into website_usage values (1, 202611, 1), (2, 202611, 1)")
        connection.execute("insert into event_data_part values (160000, 'canary-part')")  # of the event with id 10,000
        samples = "(1, 1, 1, 0, null, 'url', 'canary-host.example'), (2, 1, 1, 0, 0, '', 'other.example')"
        connection.execute(f"insert into rejected_sample values {samples}")
        connection.execute(
            "insert into meta values ('import:1:abc', 'x'), ('import:12:abc', 'x'), ('importing:1', 'x'),"
            " ('repairs:1', 1)"
        )
        connection.execute("insert into allowed_origin values (1, 'app://canary-origin'), (2, 'app://other')")
        connection.execute("insert into share_link values (1, 'canary-token-24-letters!', 0)")
        connection.execute("update website set domain = 'canary-domain.example', name = 'canary-name' where number = 1")
    connection.close()
    return path


# --- what is deleted


def test_no_table_is_forgotten(db: Path) -> None:
    """ "over ALL tables that have a website column", each by its whole key."""
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
        name: key[1:] for name, key in keys.items() if name not in GO_WITH_THE_WEBSITE | {"deleted_website"}
    } == dict(TABLES)


def test_no_column_of_texts_is_forgotten(db: Path) -> None:
    """A text is deleted where no row has its number: every column with such numbers is looked at."""
    known = {*FIELDS, "event_name", "experiment", "variant", "goal"}
    others = dict.fromkeys(("web_vitals_histogram", "rollup", "visit_page", "field_value"), ("value",))
    connection = open_database(db, create=False)
    try:
        found = {
            table: tuple(row[1] for row in connection.execute(f"pragma table_info({table})") if row[1] in known)
            or others.get(table, ())
            for table, _ in TABLES
            # A page with packed points is in heat_count, which takes less to read; the values of an open day's visitors
            # are in its events.
            if table not in ("heatmap_block", "open_day_visitor")
        }
    finally:
        connection.close()
    assert {table: columns for table, columns in found.items() if columns} == dict(deletion._LABELS) | {
        "rollup": ("value",)
    }


def test_everything_goes_and_the_other_website_stays(db: Path) -> None:
    others, shared = all_rows(db, 2), {text for text in texts(db) if "canary" not in text}
    assert all(all_rows(db, 1).values())
    delete(db)
    work = Work(db, ManualClock(LATER_MS))
    work.do()
    assert not any(all_rows(db, 1).values())
    assert all_rows(db, 2) == others
    assert not [text for text in texts(db) if "canary" in text]
    # What both used is still there.
    used = {text for (text,) in sql(db, "select text from label where id in (select pathname from event)")}
    assert used
    assert used <= shared
    assert sql(db, "select name from meta where name like 'import%' or name like 'rep%'") == [("import:12:abc",)]
    assert sql(db, "select * from deleted_website") == [(1, NOON_MS, 1)]
    assert sql(db, "pragma integrity_check") == [("ok",)]
    assert sql(db, "pragma freelist_count") == [(0,)]
    assert work.wants_empty_log


def test_every_number_of_the_other_website_has_its_text(db: Path) -> None:
    """No row points nowhere."""
    delete(db)
    Work(db, ManualClock(LATER_MS)).do()
    for table, columns in deletion._LABELS:
        for column in columns:
            missing = f"select count(*) from {table} where {column} not in (select id from label)"
            assert sql(db, missing) == [(0,)], (table, column)
    assert sql(db, "select count(*) from rollup where field < 14 and value not in (select id from label)") == [(0,)]


def test_the_bytes_are_gone_where_sqlite_does_not_overwrite_by_itself(db: Path) -> None:
    """ "really gone from the file": nothing of it is in any page, used or free, nor in the log."""
    sql(db, "pragma wal_checkpoint(truncate)")
    assert db.read_bytes().count(b"canary") > 50
    delete(db)
    Work(db, ManualClock(LATER_MS)).do()
    for path in db.parent.glob("analytics.db*"):
        assert b"canary" not in path.read_bytes(), path.name


def test_killed_before_every_step(db: Path) -> None:
    """ "Killed at any point, the next start goes on": each step is one transaction."""
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


# --- who comes late


def test_what_arrives_late_goes_as_well(db: Path) -> None:
    """What was under way when the website was deleted is committed after its rows were."""
    delete(db)
    Work(db, ManualClock(NOON_MS + 1)).do()
    assert not any(all_rows(db, 1).values())
    assert sql(db, "select is_complete from deleted_website") == [(0,)]
    sql(db, "insert into total_15m values (1, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1)")
    Work(db, ManualClock(LATER_MS)).do()
    assert not any(all_rows(db, 1).values())
    assert sql(db, "select is_complete from deleted_website") == [(1,)]


def test_numbers_are_not_given_out_again(db: Path) -> None:
    """A number that another website had would show its rows, and what is remembered of it."""
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


def test_a_text_that_is_used_meanwhile_stays(db: Path) -> None:
    """The server goes on writing while it is looked for texts that nobody uses."""
    delete(db)
    work = Work(db, ManualClock(LATER_MS))
    seen: list[int] = []

    def use() -> None:
        if work.labels._is_watched and not seen:
            # As the writer does: a text of the deleted website is sent to another one.
            connection = writing_connection(db)
            seen.append(work.labels.numbers_of(connection, ["canary-event-country"])["canary-event-country"])
            connection.close()

    work.before = use
    work.do()
    assert seen
    assert sql(db, "select id from label where text = 'canary-event-country'") == [(seen[0],)]
    assert len([text for text in texts(db) if "canary" in text]) == 1


def test_texts_stay_while_another_process_writes_and_go_later(db: Path) -> None:
    """ "Where another process writes meanwhile, such as an import, that is tried again later": it may use any text."""
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


def test_an_import_under_way_is_told_and_writes_nothing(db: Path) -> None:
    """Another process may have begun to import into it."""
    delete(db)
    before = all_rows(db, 1)
    with pytest.raises(BadFile, match="deleted"):
        import_lines(db, 1, [{"type": "pageview", "timestamp": "2026-11-18T10:00:00Z", "pathname": "/late"}])
    assert all_rows(db, 1) == before


def test_an_import_into_another_website_looks_texts_up_again(db: Path, tmp_path: Path) -> None:
    """What it remembers of labels may have been swept between two of its transactions."""
    lines = [
        {"type": "pageview", "timestamp": f"2026-11-1{day}T10:00:00Z", "pathname": "/same", "id": day + 1}
        for day in range(8)
    ]
    (tmp_path / "lines.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    connection = writing_connection(db)
    swept: list[int] = []

    def sweep(position: int) -> None:
        # Between two parts the text is taken away, as if nobody had used it, and the server says so.
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


# --- by HTTP

PAGE = {"type": "pageview", "url": "https://example.com/a"}


async def test_gone_at_once_from_every_answer(app: App) -> None:
    """ "gone at once from all lists and answers and from collect (404)"."""
    owner = await logged_in(app)
    website, other = await app.website("example.com"), await app.website("other.example")
    key = await app.key()
    link = (await owner("POST", f"/api/account/websites/{website}/share")).json["data"]["share"]
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
    """ "{"domain": typed confirmation}"."""
    owner = await logged_in(app)
    website = await app.website("example.com")
    answer = await owner("DELETE", f"/api/account/websites/{website}", {"domain": typed})
    assert (answer.status, answer.json["error"]["field"]) == (400, "domain")
    assert (await app.collect(PAGE | {"website_id": website})).status == 202


@pytest.mark.parametrize("looks_first", [True, False])
async def test_a_look_at_the_file_in_the_same_moment_brings_nothing_back(app: App, looks_first: bool) -> None:
    """Another process has written just before: what was read of the file then is older than what is changed here."""
    for number in range(5):
        id_ = await app.website(f"{number}.example.com")
        await asyncio.to_thread(sql, app.db, "insert or replace into meta values ('elsewhere', ?)", number)
        website = app.store.website(id_)
        both = [
            app.store.refresh(),
            app.store.change(lambda run, website=website: deletion.delete_website(run, website.number, NOON_MS)),
        ]
        await asyncio.gather(*(both if looks_first else reversed(both)))
        assert app.store.website(id_) is None
        await app.store.refresh()
        assert app.store.website(id_) is None


async def test_a_server_takes_it_out_of_the_file_by_itself(app: App) -> None:
    """The whole way: sent, deleted, and after a minute not a byte of it is in the database or its log."""
    owner = await logged_in(app)
    website, other = await app.website("canary-domain.example"), await app.website("other.example")
    url = "https://canary-domain.example/canary-path?utm_source=canary-source"
    events = [
        {"type": "pageview", "url": url, "referrer": "https://canary-referrer.example/"},
        {"type": "event", "event_name": "canary-name", "event_data": {"canary-key": "canary-value"}, "url": url},
        {"type": "vitals", "vitals": {"lcp": 5}, "url": url},
        {"type": "heatmap", "viewport_width": 900, "points": [{"x": 0.5, "y": 5, "kind": "click"}], "url": url},
        {"type": "ab_assign", "experiment": "canary-experiment", "variant": "canary-variant", "session_id": "12345678"},
    ]
    sent = await app.collect({"website_id": website, "events": events})
    assert sent.json["accepted"] == len(events)
    assert (
        await app.collect({"type": "pageview", "website_id": other, "url": "https://other.example/b"})
    ).status == 202
    await app.store.builder.work()
    assert (
        await owner("DELETE", f"/api/account/websites/{website}", {"domain": "canary-domain.example"})
    ).status == 202
    app.clock.advance(LATE_MS / 1000)
    while sql(app.db, "select is_complete from deleted_website") == [(0,)]:
        await app.store.deletion_worker.work()
        app.clock.advance(AGAIN_MS / 1000)
    while app.store.deletion_worker.wants_empty_log:
        app.clock.advance(60)
        await app.store.tick()
    for path in app.db.parent.glob("analytics.db*"):
        assert b"canary" not in path.read_bytes(), path.name
    top = await owner("GET", f"/api/account/websites/{other}/top/pathname?from=2026-11-01&to=2026-11-30")
    assert [row["value"] for row in top.json["data"]] == ["/b"]


@pytest.mark.slow
def test_a_killed_server_goes_on_where_it_was(tmp_path: Path, serve: Serve, command: Command) -> None:
    """ "survives restart": the real process, killed while rows go; the next one takes the rest, and events besides."""
    path = tmp_path / "analytics.db"
    command("account", "create", OWNER, "--password-stdin", stdin=PASSWORD)
    website, other = (command("website", "add", domain).stdout.strip() for domain in ("example.com", "other.example"))
    many = 150_000
    sql(
        path,
        "insert into event with recursive n(v) as (select 1 union all select v + 1 from n where v < ?)"
        f" select 1, v, v, 0, v, 0{', 0' * 15}, null from n",
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
