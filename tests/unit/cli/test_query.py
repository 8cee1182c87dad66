"""The command `query`: views with texts, formats, limits, and that nothing can be written."""

import csv
import io
import json
import re
import sqlite3
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tally.transfer.query import VIEWS
from tests.support.app import ROOT
from tests.support.cases import cases
from tests.support.exports import export_events
from tests.support.process import Command, Serve, clean_environment

Done = "subprocess.CompletedProcess[str]"
EXAMPLES = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "sql.md").read_text(), re.DOTALL)
# 2026-11-20T10:00:00Z, and a minute later each.
LINES = (
    {"type": "pageview", "pathname": "/", "visitor": "a", "utm_campaign": "autumn", "utm_source": "news"},
    {"type": "pageview", "pathname": "/shop", "visitor": "a", "country": "DE", "browser": "Firefox"},
    {
        "type": "event",
        "pathname": "/shop",
        "visitor": "a",
        "event_name": "purchase",
        "event_data": {"price": 12.5, "note": "ü" * 1_500},
    },
    {"type": "pageview", "pathname": "/b", "visitor": "b", "referrer": "google.com", "platform": "\u001b[2Jx"},
    {"type": "screen_view", "pathname": "/home", "visitor": "c", "platform": "ios"},
    {"type": "ab_assign", "pathname": "/", "visitor": "c", "experiment": "button", "variant": "red"},
)


@pytest.fixture
def db(here: Command, tmp_path: Path) -> Path:
    """Return a database with LINES, and with one pageview of another website."""
    for domain, lines in (("example.com", LINES), ("other.example", LINES[:1])):
        assert here("website", "add", domain).returncode == 0
        timed = [line | {"timestamp": f"2026-11-20T10:{at:02}:00.250Z"} for at, line in enumerate(lines)]
        text = "".join(json.dumps(line) + "\n" for line in timed)
        file = tmp_path / f"{domain}.ndjson"
        file.write_text(text)
        assert here("import", str(file), "--website", domain).returncode == 0
    return tmp_path / "analytics.db"


def succeeded(done: Done) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(here: Command, sql: str, *more: str) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    return [json.loads(line) for line in succeeded(here("query", sql, "--format", "jsonl", *more)).splitlines()]


def test_v_event_has_what_an_export_has(db: Path, here: Command) -> None:
    connection = sqlite3.connect(db)
    out = io.BytesIO()
    export_events(connection, 1, out)
    connection.close()
    exported = [line for line in map(json.loads, out.getvalue().splitlines()) if line["experiment"] is None]
    found = objects(here, "select * from v_event where website = 'example.com' order by ts_ms, id")
    assert len(found) == len(exported) == 5
    for row, line in zip(found, exported, strict=True):
        event_data = row.pop("event_data")
        assert (event_data and json.loads(event_data)) == line["event_data"]
        assert row.pop("website") == "example.com"
        assert (row.pop("day"), row.pop("ts_ms") % 60_000) == ("2026-11-20", 250)
        assert row == {name: line[name] for name in row}


def test_v_visit(db: Path, here: Command) -> None:
    first, *_ = objects(here, "select * from v_visit where website = 'example.com' order by start_ms")
    assert re.fullmatch(r"[0-9a-f]+-0", first["visit"])
    assert first["visit"].startswith(first["visitor"])
    expected = {
        "website": "example.com",
        "start": "2026-11-20T10:00:00.250+00:00",
        "day": "2026-11-20",
        "duration_ms": 120_000,
        "pageviews": 2,
        "events": 1,
        "entry_page": "/",
        "exit_page": "/shop",
        "utm_campaign": "autumn",
        "utm_medium": None,
    }
    assert first | expected == first
    assert list(first) == list(VIEWS["v_visit"])


def test_the_examples_of_the_docs(db: Path, here: Command) -> None:
    assert len(EXAMPLES) == 5
    days, hours, visits, orders, steps = (objects(here, sql) for sql in EXAMPLES)
    assert days == [{"day": "2026-11-20", "pageviews": 4, "visitors": 3}]
    assert {"hour": "10", "pathname": "/shop", "pageviews": 1} in hours
    assert {row["visits"] for row in visits} == {1}
    assert [row["mean_seconds"] for row in visits if row["entry_page"] == "/"] == [120.0]
    assert orders == [{"utm_campaign": "autumn", "orders": 1, "revenue": 12.5}]
    assert steps == [{"pathname": "/", "next": "/shop", "times": 1}]


def test_the_docs_name_all_columns() -> None:
    text = (ROOT / "docs" / "sql.md").read_text()
    own = ("website", "id", "type", "ts_ms", "timestamp", "day", "visitor", "visit", "event_name", "event_data")
    of_visits = [name for name in VIEWS["v_visit"] if not name.startswith("utm_")]
    assert [name for name in (*own, *of_visits) if f"`{name}`" not in text] == []


def test_a_website_is_read_by_key(db: Path, here: Command) -> None:
    sql = "explain query plan select count(*) from v_event where website = 'example.com' and day >= '2026-11-20'"
    plan = succeeded(here("query", sql))
    assert re.search(r"SEARCH event USING PRIMARY KEY \(website=\?\)", plan), plan


def test_formats(db: Path, here: Command) -> None:
    shown = "coalesce(platform, pathname)"
    counted = f"select {shown} as pathname, count(*) as views, null as unset from v_event where type = 'pageview'"
    sql = f"{counted} group by 1 order by 1"
    table = succeeded(here("query", sql)).splitlines()
    assert table[0].split() == ["pathname", "views", "unset"]
    assert table[2:] == [f"{path:<8}  {views:>5}" for path, views in (("\\x1b[2Jx", 1), ("/", 2), ("/shop", 1))]
    text = succeeded(here("query", sql, "--format", "csv"))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows == [["pathname", "views", "unset"], ["\x1b[2Jx", "1", ""], ["/", "2", ""], ["/shop", "1", ""]]
    assert objects(here, sql)[1] == {"pathname": "/", "views": 2, "unset": None}
    assert objects(here, "select x'00ff' as bytes") == [{"bytes": "00ff"}]
    formula = succeeded(here("query", "select '=1+1' as text", "--format", "csv"))
    assert formula.splitlines() == ["text", "'=1+1"]


def test_sql_from_standard_input(db: Path, here: Command) -> None:
    done = here("query", "-", "--format", "csv", stdin="select count(*) as events\nfrom v_event;\n")
    assert succeeded(done).split() == ["events", "6"]


def test_limits(db: Path, here: Command) -> None:
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2500) select i from n"
    for options, rows in (((), 1_000), (("--limit", "7"), 7), (("--limit", "2500"), 2_500), (("--limit", "0"), 2_500)):
        for format, heading in (("table", 2), ("csv", 1), ("jsonl", 0)):
            done = here("query", numbers, "--format", format, *options)
            assert len(succeeded(done).splitlines()) == rows + heading
            assert ("more than" in done.stderr) == (rows < 2_500)
    endless = numbers.replace(" where i < 2500", "")
    for sql in (f"select count(*) from ({endless})", endless):
        done = here("query", sql, "--limit", "0", "--format", "jsonl", "--seconds", "0.05")
        assert done.returncode == 1
        assert "the query took longer than 0.05 s" in done.stderr


def test_a_query_of_long_functions_ends(here: Command, db: Path) -> None:
    """Its time is over after few instructions, long before SQLite calls a progress handler."""
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n)"
    for long in ("length(printf('%*d', 15000000, i))", "length(places(1900000 + i % 9))"):
        done = here("query", f"{numbers} select sum({long}) from n", "--seconds", "0.1")
        assert done.returncode == 1
        assert "the query took longer than 0.1 s" in done.stderr


def test_a_query_of_one_endless_function_ends(command: Command, db: Path) -> None:
    """SQLite searches 6 MB of text at each of 6 million places, without a check for interrupts."""
    endless = "select instr(hex(zeroblob(6000000)), hex(zeroblob(3000000)) || '1')"
    done = command("query", endless, "--seconds", "0.1", "--db", str(db))
    assert done.returncode == 1
    assert "could not be interrupted" in done.stderr


def test_functions_of_each_kind(here: Command, db: Path) -> None:
    computed = {
        "json_extract('{\"a\": 1}', '$.a')": 1,
        "'{\"a\": 1}' ->> 'a'": 1,
        "row_number() over ()": 1,
        "sqrt(4)": 2.0,
        "strftime('%Y', 0, 'unixepoch')": "1970",
        "group_concat(value)": "7",
        "printf('%05.1f', 1)": "001.0",
    }
    (row,) = objects(
        here, f"select {', '.join(f'{sql} as c{n}' for n, sql in enumerate(computed))} from (select 7 as value)"
    )
    assert list(row.values()) == list(computed.values())


REFUSED = {
    "insert": "insert into label (id, text) values (99, 'x')",
    "update": "update website set name = 'x'",
    "delete": "delete from event",
    "returning": "delete from event returning *",
    "with": "with x as (select 1) delete from event",
    "drop": "drop table event",
    "create": "create table x (y)",
    "temporary": "create temp table x (y)",
    "view": "drop view v_event",
    "pragma": "pragma user_version = 7",
    "pragma that reads": "pragma table_info(event)",
    "pragma function": "select * from pragma_table_info('event')",
    "writable schema": "pragma writable_schema = on",
    "attach": "attach 'made.db' as made",
    "detach": "detach main",
    "vacuum": "vacuum",
    "vacuum into": "vacuum into 'made.db'",
    "begin": "begin immediate",
    "rollback": "rollback",
    "savepoint": "savepoint x",
    "analyze": "analyze",
    "reindex": "reindex",
    "virtual table": "create virtual table temp.x using fts5(y)",
    "extension": "select load_extension('x.so')",
    "two statements": "select 1; delete from event",
    "memory": "select zeroblob(900000000)",
    "values of one row": f"select {', '.join(['zeroblob(15000000)'] * 60)}",
    "values of one row that are computed": f"select {', '.join(['upper(hex(zeroblob(7000000)))'] * 60)}",
    "places": "select length(places(1000000000))",
    "places of a text": "select places('x')",
    "places in a view's name": "with v_event as (select places(1000000000) as x) select length(x) from v_event",
    "a pointer": "select hex(fts3_tokenizer('simple'))",
    "a pattern": f"select 'x' like '{'%x' * 600}'",
    "compile options": "select sqlite_compileoption_get(0)",
    "no SQL": "hello",
    "empty": "",
    "comment": "-- nothing",
    "unknown column": "select nothing from v_event",
    "same names": "select 1 as a, 2 as a",
    "no text": "select '\udcff'",
}


@pytest.mark.slow
@cases("sql", REFUSED.values(), ids=list(REFUSED))
def test_nothing_is_written(sql: str, db: Path, here: Command, tmp_path: Path) -> None:
    """Every error has one line with its reason, and the file stays as it was."""
    files, before = sorted(tmp_path.rglob("*")), sha256(db.read_bytes()).digest()
    done = here("query", sql, "--format", "jsonl")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2, "the database, and the error"
    assert sorted(tmp_path.rglob("*")) == files
    assert sha256(db.read_bytes()).digest() == before


def test_a_missing_database_is_named(here: Command, tmp_path: Path) -> None:
    done = here("query", "select 1", "--db", str(tmp_path / "missing.db"))
    assert done.returncode == 1
    assert "missing.db" in done.stderr
    assert not (tmp_path / "missing.db").exists()


def test_beside_a_running_server(db: Path, here: Command, serve: Serve) -> None:
    """The server stores an event while a query reads, and the next query sees it."""
    server = serve()
    website = succeeded(here("website", "list")).split("\t")[0]
    event = {"type": "pageview", "website_id": website, "url": "https://example.com/now"}
    with subprocess.Popen(
        [sys.executable, str(ROOT / "analytics_server.py"), "query", "-", "--limit", "0", "--format", "jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=db.parent,
        env=clean_environment(),
    ) as reading:
        assert reading.stdin is not None
        assert reading.stdout is not None
        # More rows than the pipe holds: the query is open while its output is not read.
        reading.stdin.write("with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)")
        reading.stdin.write(" select i, (select count(*) from v_event where ts_ms > i) as events from n")
        reading.stdin.close()
        assert json.loads(reading.stdout.readline()) == {"i": 1, "events": 6}
        assert server.request("POST", "/api/collect", event).status == 202
        assert json.loads(reading.stdout.readline())["events"] == 6
        reading.terminate()
    assert objects(here, "select count(*) as events from v_event where pathname = '/now'") == [{"events": 1}]
