"""Query plans of all statements: no statement scans a table that grows.

The statements are not listed here. A run through all endpoints, writes and commands executes them, and SQLite's trace
callback records them. The sources are searched for statement names (`/* module.name */`), so a statement that was
never executed fails a test.
"""

import ast
import asyncio
import contextlib
import io
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import tally
from tally.accounts import assistants, audit, identities, logins, passkeys, people, second_factor
from tally.accounts.accounts import (
    all_accounts,
    create_account,
    has_account,
    set_email,
    set_password_hash,
    set_plan,
    set_requires_second_factor,
)
from tally.accounts.api_keys import create_api_key, key_salt, record_key_use, revoke_api_key
from tally.accounts.usage import usage_of_month
from tally.accounts.websites import add_website, all_exclusions, all_websites, set_exclusions
from tally.columns import column_days, deleted_rows
from tally.demo import build
from tally.demo.sites import SITES
from tally.engine.ingest import Crawl
from tally.engine.values import Goal
from tally.events.dimensions import ACQUISITION, ENTRY_PAGE, EVENT_FIELDS, FIELDS
from tally.events.filters import Filter
from tally.events.path_rules import PathRule
from tally.ingest import rejected_events
from tally.maintenance import background_work, backup, deletion, doctor_database, retention
from tally.maintenance.doctor_offsite import content_of
from tally.maintenance.verify import verdicts
from tally.notices import alerts, channels, outbox, reports, uptime
from tally.notices.alerts import Alert
from tally.notices.channels import Channel
from tally.reports import deletion_preview, experiments, goals
from tally.rollups import experiments as experiment_rollups
from tally.rollups import (
    goal_days,
    heatmaps,
    imported_sums,
    rollup_state,
    totals,
    value_blocks,
)
from tally.rollups.traffic import traffic_of
from tally.settings import Settings
from tally.sqlite import archive
from tally.sqlite.event_ids import delete_expired
from tally.storage import crawler_days, deletion_records, import_records, meta, schema_check
from tally.storage.database import open_database, snapshot
from tally.storage.health import FAILING
from tally.storage.labels import Labels
from tally.storage.sql import goals as goals_sql
from tally.timestamps import iso
from tally.transfer import event_deletion, undo
from tally.transfer.chunks import Sizes
from tally.transfer.exporter import count_events, stored_lines
from tally.transfer.files import open_source, open_target
from tally.transfer.importer import import_events
from tally.transfer.increments import Collection, write_increment
from tests.support.app import NOON_MS, App, ManualClock
from tests.support.cases import cases
from tests.support.exports import export_events
from tests.support.page_client import LINK, PASSWORD, logged_in
from tests.support.read_api import DAY, DAY_MS, custom, event, view
from tests.support.receiver import says

# The statements of tally/clickhouse are of another database.
SOURCES = [path for path in sorted(Path(tally.__file__).parent.rglob("*.py")) if path.parent.name != "clickhouse"]
NAME = re.compile(r"/\* ([a-z_]+)\.([a-z_]+) \*/")
# Statements that read or write no rows of tables.
HOUSEKEEPING = re.compile(
    # The views are those of the command query, on a connection of its own (tests/unit/cli/test_query.py).
    r"(?:begin|begin immediate|begin exclusive|commit|rollback|create temp view {}"
    r"|pragma [a-z_]+(?: *= *\S+|\((?:\d+|truncate)\))?)",
    re.IGNORECASE,
)
# schema.sql: the tables that grow with traffic or with time, and the keys by which their rows may be found; accounts,
# websites and API keys are the owner's few.
GROWING = {
    "event": r"PRIMARY KEY \(website=\? AND ts[<>=]",
    "visit": r"PRIMARY KEY \(website=\? AND day[<>=]",
    "page_title": r"PRIMARY KEY \(website=\? AND pathname=\?"
    r"|(?:COVERING )?INDEX page_title_by_time \(website=\? AND ts<",
    "goal_day": r"PRIMARY KEY \(website=\? AND saved_goal(?:>\?|=\?(?: AND field=\? AND day=\?(?: AND value=\?)?)?)\)",
    "total_15m": r"PRIMARY KEY \(website=\? AND quarter[>=]",
    "rollup_block": r"(?:COVERING )?INDEX sqlite_autoindex_rollup_block_1 \(website=\? AND field=\? AND level=\?"
    r" AND block=\?|INTEGER PRIMARY KEY \(rowid=\?\)",
    "day_column": r"(?:COVERING )?INDEX sqlite_autoindex_day_column_1 \(website=\? AND field=\? AND day[<>=]",
    # verify reads all days and blocks; all other statements read a range of them.
    "rollup_state": r"PRIMARY KEY \(website=\? AND kind(?:>\?\)|=\?\)|=\? AND level=\?)"
    r"|INDEX rollup_state_unfinished \(website=\?\)|(?:COVERING )?INDEX rollup_state_imported \(website=\?",
    "web_vitals": r"PRIMARY KEY \(website=\? AND (?:ts[<>=]|\(ts,id\)>)",
    "experiment_event": r"PRIMARY KEY \(website=\? AND ts[<>=]",
    "heatmap_point": r"PRIMARY KEY \(website=\? AND day[<>=]",
    "heatmap_block": r"PRIMARY KEY \(website=\? AND pathname(?:>\?|=\? AND band(?:>\?|=\? AND level=\?))",
    "heatmap_text": r"PRIMARY KEY \(website=\? AND pathname(?:>\?|=\? AND viewport=\?)",
    "heatmap_count": r"PRIMARY KEY \(website=\? AND level=\?(?: AND block[<>=]\??|\))",
    "event_id": r"PRIMARY KEY \(website=\? AND minute_ms(?:=\? AND digest=\?|>\? AND minute_ms<\?)\)"
    r"|(?:COVERING )?INDEX event_id_without_time \(arrived_ms<\?\)",
    "import_id": r"PRIMARY KEY \(website=\? AND ts(?:[<>]|=\? AND digest=\?\))",
    "imported_field": r"PRIMARY KEY \(website=\?(?:\)| AND (?:field=\? AND day[<>=]|\(field,day\)>))|COVERING"
    r" INDEX imported_field_by_day \(website=\?(?: AND day[<>=]|\))",
    "imported_sum": r"PRIMARY KEY \(website=\? AND field=\? AND day=\?",
    "import_range": r"PRIMARY KEY \(website=\? AND first_id[<>=]",
    "import_visit": r"PRIMARY KEY \(website=\? AND (?:day[<>=]|\(day,visitor\)>)",
    "label": r"INTEGER PRIMARY KEY \(rowid=\?\)|(?:COVERING )?INDEX sqlite_autoindex_label_1 \(text=\?\)",
    "experiment_assignment": r"PRIMARY KEY \(website=\? AND day(?:<\?|=\?(?: AND experiment=\? AND visitor=\?)?)\)",
    "experiment_conversion": r"PRIMARY KEY \(website=\? AND day(?:<\?|=\? AND experiment=\? AND visitor=\?(?:"
    r" AND goal=\?)?)\)",
    "experiment_total": r"PRIMARY KEY \(website=\? AND day",
    # A table without a condition on its last columns holds few rows for each day or block.
    "web_vitals_histogram": r"(?:COVERING )?INDEX sqlite_autoindex_web_vitals_histogram_1 \(website=\?",
    "rejected_event": r"PRIMARY KEY \(website=\? AND quarter(?:[<>=]|=\? AND reason=\?\))",
    "rejected_sample": r"PRIMARY KEY \(website=\?(?:\)| AND reason=\?)",
    "event_data_part": r"INTEGER PRIMARY KEY \(rowid[<>=]",
    "website_usage": r"PRIMARY KEY \(website=\?",
    # A filter by substrings reads all values of a field, once for each query.
    "field_value": r"PRIMARY KEY \(website=\? AND field=\?",
    "new_value": r"PRIMARY KEY \(website=\? AND day(?:[<>]|=\? AND field=\?)",
    "notice": r"INTEGER PRIMARY KEY \(rowid[=<]\?|(?:COVERING )?INDEX notice_of_channel \(channel=\?"
    r"|(?:COVERING )?INDEX notice_due|(?:COVERING )?INDEX notice_of_website \(website=\?\)"
    r"|INDEX notice_of_account \(account=\?\)|(?:COVERING )?INDEX sqlite_autoindex_notice_1 \(key=\?\)",
    "account_usage": r"PRIMARY KEY \((?:account=\? AND month=\?|month=\?(?: AND account=\?)?)\)",
}
# Statements that read everything: background work on a deleted website or on unused labels, in steps or on a read-only
# connection, and the count of a website's events by quarters.
FULL_SCANS = {
    *("deletion.rows", "deletion.used", "deletion.kept_values", "deletion.labels", "deletion.marks", "deletion.values"),
    "statements.labels_of",
    # Once at the start; those that wait, of which there are few; the oldest ones up to a number.
    *("outbox.resume", "outbox.due", "outbox.delete_old"),
    "traffic.total",
    # On a restored file, before a server uses it.
    "import_records.forget",
    "websites.has_data",  # reads one row of each table
    "import_records.last_ids",  # reads one row
    # A website's ranges of ids, a few for each import, while one is undone.
    "undo.own_ids",
    *("deletion.last_label", "deletion.newest_label"),  # read one row, which EXPLAIN does not show
}
# Values, which differ between executions of a statement.
VALUE = re.compile(r"'(?:[^']|'')*'|\b\d+\b")
STEP = re.compile(r"(SCAN|SEARCH) (?:TABLE )?(\w+)(?: AS \w+)?(?: USING (.*))?")
ALIASED = re.compile(r"\b(?:from|join|update|into)\s+(\w+)(?:\s+(?:as\s+)?(\w+))?", re.IGNORECASE)
SHAPES = re.compile(r"\*/ (?:create|alter) ")
OWNER = "plans@example.com"
CLICK = {"x": 0, "y": 0, "kind": "click", "text": "Buy"}

# --- the names in the sources


def statement_texts(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the beginning of each text passed to execute or executemany, or that has a name, with its line."""
    for node in ast.walk(tree):
        texts: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            texts = node.args[:1] if node.func.attr in ("execute", "executemany", "executescript") else []
        for text in (*texts, *([node] if isinstance(node, ast.Constant | ast.JoinedStr) else [])):
            beginning = text.values[0] if isinstance(text, ast.JoinedStr) and text.values else text
            if isinstance(beginning, ast.Constant) and isinstance(beginning.value, str):
                rest = text.values[1:2] if isinstance(text, ast.JoinedStr) else []
                dynamic = "{}" if rest and isinstance(rest[0], ast.FormattedValue) else ""
                if texts or beginning.value.lstrip().startswith("/* "):
                    yield beginning.value + dynamic, text.lineno


def names_in_sources() -> set[str]:
    """Return `module.name` of every statement, and `module.table` of every call of bulk_insert.insert.

    Excluded are tally/maintenance/startup.py, which runs before the server opens the database, and
    tally/storage/database.py, which reads the table meta and SQLite's own tables only; and what needs the tables of a
    cluster, which tests/cluster runs: they are read by key, or as a whole where they are short.
    """
    names = set()
    for source in SOURCES:
        if source.stem in ("database", "startup") or "cluster" in (source.stem, source.parent.name):
            continue
        tree = ast.parse(source.read_text("utf-8"))
        found = [text for text, _ in statement_texts(tree)]
        names |= {".".join(match) for text in found for match in NAME.findall(text)}
        names |= {f"{source.stem}.{table}" for table in inserted_tables(tree)}
    return {name for name in names if not name.startswith("cluster_tables.") or name == "cluster_tables.exist"}


def inserted_tables(tree: ast.Module) -> set[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    tables = [call.args[2] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "insert"]
    assert all(isinstance(table, ast.Constant) for table in tables)
    return {str(table.value) for table in tables if isinstance(table, ast.Constant)}


@cases("source", SOURCES, ids=lambda source: source.name)
def test_every_statement_has_its_name(source: Path) -> None:
    """Every statement opens with its name (`/* top.values */`), so that a slow query can be attributed."""
    unnamed = {
        line: text
        for text, line in statement_texts(ast.parse(source.read_text("utf-8")))
        if not HOUSEKEEPING.fullmatch(text)
        # bulk_insert.insert receives the name of the calling module.
        and not text.startswith(("pragma ", f"/* {source.stem}.", "/* {}"))
        and text != "/* "
    }
    assert unnamed == {}


@cases("source", SOURCES, ids=lambda source: source.name)
def test_every_insert_names_its_columns(source: Path) -> None:
    """A migration that adds a column puts it at the end of the table."""
    text = re.sub(r'"\n *f?"', "", source.read_text("utf-8"))
    assert re.findall(r"\binsert (?:or \w+ )?into (?!temp\.)\S+ (?!\()\S+", text) == []


# --- the run


class StatementLog:
    """The statements executed on connections, by name; a statement may have several shapes."""

    def __init__(self) -> None:
        self.by_name: dict[str, set[str]] = {}
        self.nameless: set[str] = set()
        self._shapes: set[str] = set()

    def trace(self, connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(self._record)

    def _record(self, statement: str) -> None:
        name = NAME.match(statement)
        shape = VALUE.sub("?", statement)
        if name and shape in self._shapes:
            return
        self._shapes.add(shape)
        if name:
            self.by_name.setdefault(".".join(name.groups()), set()).add(statement)
        elif not HOUSEKEEPING.fullmatch(statement) and not statement.startswith("--"):  # "--": SQLite's own statements
            self.nameless.add(statement)


STATS_QUERIES = tuple(
    f"{endpoint}?from={DAY}&to={DAY}{filters}"
    for endpoint in ("stats", "stats?compare=previous", "timeseries", "timeseries?interval=hour", "events?limit=2")
    for filters in (
        "",
        "&filter_os=",
        "&filter_os=Windows&filter_os=macOS&filter_event_name=a&filter_type=event",
        "&filter_os*=o&filter_event_name!=a&filter_prop.plan=x",
        *("".join(f"&filter_{field}=x" for field in some) for some in (EVENT_FIELDS, ACQUISITION)),
        "&filter_event_name=x&filter_type=vitals",
    )
)
# Ranges that do not end on quarters: within a day that has many or few other events, and over whole days.
PARTIAL_RANGE_QUERIES = tuple(
    f"{endpoint}?from=2026-11-{times[0]}&to=2026-11-{times[1]}"
    for endpoint in ("stats", "timeseries", "timeseries?interval=hour", "top/os")
    for times in (
        *(("17T10:07:00Z", "18T11:03:00Z"), ("17T09:00:00Z", "17T10:31:00Z"), ("17T00:07:00Z", "17T11:08:00Z")),
        ("16", "18"),
    )
)
LIST_QUERIES = (
    *(f"top/{field}?from={DAY}{filters}" for field in FIELDS for filters in ("", "&filter_pathname=/a")),
    *(f"top/{field}?from={DAY}&metrics=visits" for field in ("pathname", "referrer")),
    *(f"top/{field}?from={DAY}&metrics=visits&filter_pathname=/a" for field in ("pathname", "referrer")),
    *(
        f"{name}?{span}{filters}"
        for name in ("event-names", "entry-pages", "exit-pages")
        # Whole blocks first, since cached days are not read again; then a time so short that many visits fall into it.
        for span in (
            *("from=2026-09-01&to=2027-06-01", f"from={DAY}"),
            "from=2026-11-17T09:40:00Z&to=2026-11-17T09:40:30Z",
        )
        for filters in ("", "&filter_pathname=/a&filter_pathname=/c")
    ),
)


MEASUREMENT_QUERIES = (
    "experiments",
    *(
        f"vitals?from={begin}&to={end}{by}{filters}"
        for begin, end in ((DAY, DAY), ("2026-09-01T10:07:00Z", "2026-11-18T11:03:00Z"))
        for by in ("", "&by=pathname", "&by=device", "&by=day")
        for filters in ("", "&filter_device=desktop", "&filter_device*=s", "&filter_country=DE")
    ),
    *(
        f"heatmap{more}&from={begin}&to={DAY}{filters}"
        for more in ("-pages?limit=5", "?pathname=", "?pathname=/nowhere")
        for begin in (DAY, "2026-09-01")
        for filters in ("", "&filter_device=tablet")
    ),
    *(f"experiments?from=2026-11-17T09:00:00Z&to=2026-11-18T11:00:00Z{more}" for more in ("", "&filter_os=")),
)


# Ranges of days and of parts of days, with and without filters, for names and paths that exist.
BEHAVIOUR_QUERIES = tuple(
    f"{query}&from=2026-11-{begin}&to=2026-11-18T11:03:00Z{filters}"
    for query in (
        "funnel?step=pathname:/a&step=event_name:signup&step=pathname:/b",
        "event-data?event_name=signup",
        "journeys?start=pathname:/a",
        "journeys?start=event_name:signup&direction=previous",
    )
    for begin in ("16", "17T10:07:00Z")
    for filters in ("", "&filter_os=", "&filter_os=&filter_os=Windows&filter_type=event")
)


async def run_definitions(app: App, key: str, website: str) -> None:
    """Create, change and delete goals, and request their figures: in their report and in the reports that take one."""
    browser = await logged_in(app, OWNER)
    path = f"/api/account/websites/{website}/goals"
    contents: tuple[dict[str, Any], ...] = (
        {"name": "Path", "type": "page", "match": ["filter_pathname=/a"]},
        {"name": "Value", "type": "event", "match": ["filter_event_name=signup"], "value": "a"},
    )
    for content in contents:
        created = await browser("POST", path, content)
        assert created.status == 201, created.text
        goal = created.json["data"]["id"]
        span = f"goal={goal}&from=2026-11-17T10:07:00Z&to=2026-11-18T11:03:00Z"
        reports = ("stats", "timeseries", "timeseries?interval=hour", "top/os", "top/pathname")
        queries = tuple(f"{report}?{span}{filters}" for report in reports for filters in ("", "&filter_os="))
        await send_queries(
            app, key, website, (*queries, f"goals/report?from={DAY}", f"goals/report?from={DAY}&filter_os=")
        )
        assert (await browser("PATCH", f"{path}/{goal}", {"name": "Changed"})).status == 200
        assert (await browser("DELETE", f"{path}/{goal}")).status == 204


def repair_measurements(app: App, statement_log: "StatementLog", website: int, day: int) -> None:
    """Repair a day of heatmaps and experiments, and run the repairs with the trace callback set."""
    connection = open_database(app.db, create=False)
    connection.execute("insert into heatmap_count values (?, 0, ?, 9999, 1, 0, 0, 0, 0, 0)", (website, day))
    statement_log.trace(connection)
    column_days.invalidate(connection, website, day)
    with snapshot(connection):
        deleted_rows.hide(connection)
    experiment_rollups.repair(connection, website, day)
    heatmaps.repair(connection, website, 0, day)
    count_goal(connection, website, day)
    value_blocks.days_without(connection, website, 0, [day])
    heatmaps._run_progress_handler(connection)
    connection.close()


def count_goal(connection: sqlite3.Connection, website: int, day: int) -> None:
    """Store, read and delete the conversions of a goal on a day, as rollup_builder and reports do."""
    goal = Goal((Filter("pathname", "=", ("/a",)),))
    number = goal_days.number_of(goal)
    goal_days.begin_day(connection, website, number)
    goal_days.add(connection, website, number, "", day, [(0, 1, 1, 0, 0, 0)])
    goal_days.drop(connection, website, number, day)
    with snapshot(connection):
        goal_days.stored(connection, website, day, goal)
        counted = {field: goals.of_day(connection, website, day, goal, field) for field, _ in goal_days.COUNTED}
    connection.execute(*goals_sql.values_of_texts('[null, "{}"]', "a")).fetchall()
    for field, rows in counted.items():
        goal_days.add(connection, website, number, field, day, rows)
    rollup_state.begin(connection, website, number, 0, day, 1)
    rollup_state.finish(connection, website, number, 0, day)
    goal_days.complete(connection, website, goal, {day: 1})
    list(goal_days.sums(connection, website, goal, "", [day]))
    list(goal_days.sums(connection, website, goal, "", [day], by="day"))
    for labels in ([1], range(100)):
        list(goal_days.sums(connection, website, goal, "pathname", [day], labels=labels))
    goal_days.delete_others(connection, website, {number})
    goal_days.delete_others(connection, website, ())


def traffic() -> list[dict[str, Any]]:
    """Return events of every type, with event_ids, two visits that are joined and one that begins earlier."""
    lone = [event("app_event", NOON_MS, "ann"), view(NOON_MS, who="cat"), custom(NOON_MS, who="dan")]
    return [
        view("10:00:00", "/a", event_id="1", title="A"),
        view("10:50:00", "/b", event_id="2"),
        custom("10:25:00", event_id="3", event_data={"a": 1, "long": "x" * 600}),
        view("09:40:00", "/c"),
        event("screen_view", "10:00:00", "bob", name="Home"),
        event("vitals", "10:00:00", "bob", vitals={"lcp": 1}),
        event("heatmap", "10:00:00", "bob", points=[CLICK], viewport_width=800),
        event("ab_assign", "10:00:00", "bob", experiment="e", variant="v"),
        event("ab_convert", "10:00:00", "bob", experiment="e"),
        *lone,
        *(view("11:00:00", f"/{n}", f"{n}", event_id=f"many-{n}") for n in range(37)),
        view("11:20:00", "/late", "late", title=""),
    ]


async def send_queries(app: App, key: str, website: str, queries: tuple[str, ...], status: int = 200) -> None:
    """Send queries; request the next page if there is one."""
    base = f"/api/v1/websites/{website}"
    for query in queries:
        first, *rest = query.split("?")
        answer = await app.get(f"{base}/{first}?{'&'.join(rest)}", key)
        assert answer.status == status, (query, answer.text)
        if answer.json.get("meta", {}).get("next_cursor"):
            cursor = answer.json["meta"]["next_cursor"]
            assert (await app.get(f"{base}/{first}?{'&'.join(rest)}&cursor={cursor}", key)).status == 200


async def run_product(app: App, statement_log: StatementLog) -> None:
    """Run every endpoint, all types of events, the periodic tasks, and the rollups from the first day to retention."""
    # A plan with a limit, so that the account's usage is counted.
    key, website = await app.key(OWNER, "pro"), await app.website(account=OWNER)
    page = {"type": "leave", "event_id": "1", "url": "https://example.com/a", "scroll_depth": 50}
    leaves = [[page | {"time_on_page": seconds}] for seconds in (5, 9)]
    for batch in (traffic(), traffic()[:1], traffic()[4:5], *leaves):
        answer = await app.collect({"website_id": website, "events": batch})
        assert answer.json == {"ok": True, "accepted": len(batch), "rejected": 0}
    # An assignment before the first one, and a conversion whose assignment is not in memory.
    await app.collect(event("ab_assign", "09:59:59", "bob", experiment="e", variant="w") | {"website_id": website})
    await app.collect(event("ab_convert", "10:00:01", "bob", experiment="e") | {"website_id": website})
    await send_queries(
        app,
        key,
        website,
        (
            *STATS_QUERIES,
            *LIST_QUERIES,
            *PARTIAL_RANGE_QUERIES,
            *MEASUREMENT_QUERIES,
            *BEHAVIOUR_QUERIES,
            "realtime",
            "stats?period=all",
        ),
    )
    # The columns of an open day, with the events that arrived after they were read.
    for minute in range(2):
        await app.collect(view(f"11:30:0{minute}", "/open", "open") | {"website_id": website})
        await send_queries(app, key, website, ("stats?filter_browser!=x", "top/pathname?filter_referrer=unknown"))
    await run_definitions(app, key, website)
    await reject_event(app, key, website)
    assert (await app.get("/api/v1/websites", key)).status == 200
    app.database.health.fault = FAILING  # so that recovery tests whether writing works
    await app.database.recovery.heal()
    assert app.database.check_health() == "well"
    await app.node.tick()
    await run_rollups(app, key, website, statement_log)


async def reject_event(app: App, key: str, website: str) -> None:
    """Reject an event, read the count of rejected events, and delete old counts."""
    await app.admin(lambda run: run.execute("insert into rejected_event values (1, 5, 0, 1)"))
    app.node.rejected_events._last_expiry_ns -= rejected_events._EXPIRY_INTERVAL_NS
    answer = await app.collect({"type": "pageview", "website_id": website, "url": "x"})
    assert answer.status == 400
    await app.node.tick()
    await send_queries(app, key, website, ("rejected", f"rejected?from={DAY}&to={DAY}&tz=Asia/Kolkata"))
    assert app.sql("select sum(events) from rejected_event") == [(1,)]


def export_and_import(app: App, website: int, statement_log: StatementLog) -> None:
    """Export a website and import the file: into the same website, into another one, and again."""
    connection = open_database(app.db, create=False)
    statement_log.trace(connection)
    target = app.db.with_name("events.ndjson")
    with open_target(str(target)) as out:
        exported = export_events(connection, website, out)
        with snapshot(connection):
            assert sum(map(len, stored_lines(connection, website))) == exported
        assert [*heatmaps.all_points(connection, website)]
    assert count_events(connection, website) == exported > 0
    assert list(archive._parts(connection, website))
    # A later line joins two visits of its visitor.
    lines = [
        {
            "type": "pageview",
            "timestamp": iso(NOON_MS + minute * 60_000),
            "pathname": "/",
            "visitor": "v",
            "id": f"{id_}",
        }
        for minute, id_ in ((0, "a"), (50, "b"), (-50, 7))
    ]
    more = app.db.with_name("more.ndjson")
    other_website = next(site for site in all_websites(connection) if site.number != website).number
    late_lines = [{**lines[0], "timestamp": iso(NOON_MS + 25 * 60_000), "id": "c"}, *lines]
    # A conversion whose assignment is in the same file, and one whose assignment is stored.
    assign = {**lines[0], "type": "ab_assign", "experiment": "e", "variant": "v", "id": "d"}
    convert = {**lines[0], "type": "ab_convert", "experiment": "e"}
    for content in ([*lines, assign, {**convert, "id": "e"}], [*late_lines, {**convert, "id": "f"}]):
        more.write_bytes(b"\n".join(map(orjson.dumps, content)))
        for strict in (False, True):
            with open_source(str(more)) as source:
                import_events(connection, other_website, source, now_ms=NOON_MS + DAY_MS, strict=strict)
    for number, strict in ((other_website, False), (other_website, True), (website, False)):
        with open_source(str(target)) as source:
            import_events(connection, number, source, now_ms=NOON_MS + DAY_MS, strict=strict)
    traffic_of(connection, [website, other_website])
    continue_backup(connection, app.db.with_name("increments"))
    connection.close()


def continue_backup(connection: sqlite3.Connection, directory: Path) -> None:
    """Restore an increment of all events into the same file, and read what a drill shows."""
    directory.mkdir()
    with (directory / "increment").open("wb") as file:
        assert write_increment(connection, file, 0, 1 << 40, None, [(0, 1 << 62)])
    collection = Collection(directory)
    collection.add(directory / "increment")
    restored = collection.restore(connection, 0, NOON_MS + DAY_MS, print)
    assert restored.events == 0 < restored.known
    assert content_of(connection)[1] > restored.known, "events of imports are not in it"
    meta.delete(connection, meta.BACKUP_SERIES)


async def run_rollups(app: App, key: str, website: str, statement_log: StatementLog) -> None:
    """End days, close them, build blocks, mark a day stale, build it again, and delete raw events."""
    [(number,)] = app.sql("select number from website")
    app.clock.advance(60)
    await app.background_work.builder.work()
    await app.collect(view("09:00:00", "/late", "eve") | {"website_id": website})
    await send_queries(app, key, website, (*STATS_QUERIES, *LIST_QUERIES, *PARTIAL_RANGE_QUERIES))
    await app.website("example.org", OWNER)
    export_and_import(app, number, statement_log)
    await app.background_work.builder.work()
    # A day marked stale while events may still arrive: it is cleared and counted again.
    day = NOON_MS // DAY_MS - 1
    await app.admin(lambda connection: rollup_state.mark_stale(connection, number, (day,)))
    await app.background_work.builder.work()
    app.clock.advance(600 * 86_400)
    await app.background_work.builder.work()
    assert app.sql("select count(*) from rollup_state where kind = 0 and level = 5 and website = ?", number) == [(1,)]
    connection = open_database(app.db, create=False)
    statement_log.trace(connection)
    assert not [verdict for verdict in verdicts(connection, number) if verdict.fault or verdict.skipped]
    copy = app.db.with_name("copy.db")
    with copy.open("xb") as empty:
        backup.copy_database(connection, copy, empty.fileno(), lambda: False, is_paced=False)
    connection.close()
    await send_queries(app, key, website, (*STATS_QUERIES, *LIST_QUERIES, *PARTIAL_RANGE_QUERIES, *MEASUREMENT_QUERIES))
    repair_measurements(app, statement_log, number, day)
    await send_queries(app, key, website, MEASUREMENT_QUERIES)
    await app.admin(lambda connection: rollup_state.mark_stale(connection, number, (day,)))
    await send_queries(app, key, website, (*STATS_QUERIES, *PARTIAL_RANGE_QUERIES))
    await app.background_work.builder.work()
    await app.admin(lambda connection: retention.set_keep_days(connection, number, 10))
    await app.background_work.builder.work()
    assert app.sql("select count(*) from event where website = ?", number) == [(0,)]
    await send_queries(app, key, website, (f"stats?from={DAY}&to={DAY}&filter_type=event",), 400)


async def run_account_api(app: App) -> None:
    """Use the account API, including the deletion of a website."""
    browser = await logged_in(app, OWNER)
    app.clock.advance(2 * 86_400)  # the session is renewed
    key = await browser("POST", "/api/account/keys", {"name": "k"})
    await browser("DELETE", f"/api/account/keys/{key.json['data']['id']}")
    await browser("PATCH", "/api/account", {"time_zone": "UTC"})
    await browser("POST", "/api/account/password", {"current": PASSWORD, "new": "another password"})
    await browser("DELETE", "/api/account/keys")
    await browser("DELETE", "/api/account/share-links")
    website = (await browser("POST", "/api/account/websites", {"domain": "gone.example"})).json["data"]["id"]
    path = f"/api/account/websites/{website}"
    await browser("PATCH", path, {"name": "n", "origins": ["app://x"], "time_zone": "Asia/Kolkata"})
    link = (await browser("POST", f"{path}/share-links", LINK)).json["data"]["id"]
    await browser("PATCH", f"{path}/share-links/{link}", {"badges": True})
    await browser("DELETE", f"{path}/share-links/{link}")
    await browser("GET", "/api/account/websites")
    for name in ("/first", "/last"):
        answer = await app.collect(
            event("screen_view", app.clock.wall_ms(), "ann", name=name) | {"website_id": website}
        )
        assert answer.status == 202
    assert (await browser("DELETE", path, {"domain": "gone.example"})).status == 202
    app.clock.advance(60)
    await app.background_work.deletion_worker.work()
    assert app.sql("select is_complete from deleted_website") == [(1,)]
    await browser("POST", "/api/account/logout")


def run_identities(connection: sqlite3.Connection, account: int) -> None:
    """Run the functions of identities at an OpenID provider."""
    new = people.new_invitation(account, "zoe@example.com", "viewer", None, None, NOON_MS)
    people.invite(connection, new, bytes(32))
    identity = identities.Identity("https://id.example.com", "zoe")
    arrival = identities.Arrival(identity, new.email, True, "editor", True, None, True)
    person = identities.enter(connection, arrival, None, NOON_MS)
    identities.check(connection, identity, person)
    set_password_hash(connection, person, "hash")
    assert identities.disconnect(connection, person, b"", has_passwords=True, has_passkeys=True)
    assert not identities.is_connected(connection, person, identity.issuer)


def run_people(connection: sqlite3.Connection, account: int) -> None:
    """Run the functions of memberships, invitations and links to sign in."""
    digest = bytes(range(32))
    for number, email in enumerate(("ann@example.com", "bob@example.com")):
        new = people.Invitation(f"{number:016x}", account, email, "editor", (1,), None, NOON_MS, NOON_MS + 9)
        people.invite(connection, new, digest)
        if number == 0:
            person = people.accept_invitation(connection, digest, None, None, NOON_MS)
    people.change_member(connection, account, person, "viewer", None, None)
    people.revoke_invitation(connection, account, f"{1:016x}", None)
    members = people.all_memberships(connection).values()
    owner = next(one.person for one in members if (one.account, one.role) == (account, "owner"))
    people.change_member(connection, account, person, "owner", None, None)
    people.change_member(connection, account, person, "viewer", None, owner)
    people.invite(connection, people.new_invitation(account, "eve@example.com", "viewer", None, None, NOON_MS), digest)
    assert people.join_by_address(connection, "eve@example.com", None, NOON_MS, "header") is not None
    run_identities(connection, account)
    people.create_sign_in_link(connection, person, digest, NOON_MS)
    people.use_sign_in_link(connection, digest, NOON_MS)
    secret, codes = bytes(20), [digest]
    second_factor.set_up(connection, person, secret, 0, None, codes, b"")
    code = second_factor.code_of(secret, NOON_MS // 30_000)
    second_factor.use(connection, person, second_factor.Proof(code), NOON_MS, bytes(16))
    with pytest.raises(second_factor.WrongCode):
        second_factor.use(connection, person, second_factor.Proof("aaaaa-aaaaa"), NOON_MS, bytes(16))
    second_factor.remove(connection, person)
    for id in (b"a", b"b"):
        passkeys.add(connection, passkeys.Passkey(id, person, b"", 0, "", NOON_MS, None), b"")
    passkeys.use(connection, passkeys.Assertion(b"a", person, 1), 1)
    with pytest.raises(second_factor.FactorRequired):
        second_factor.use(connection, person, second_factor.Proof(is_change=True), NOON_MS, bytes(16))
    passkeys.remove(connection, person, b"a", b"")
    passkeys.remove_all(connection, person)
    set_requires_second_factor(connection, account, False)
    owner_account = all_accounts(connection)[account]
    client = assistants.new_client("Assistant", ["https://assistant.example"]).id
    consent = assistants.Consent(account, person, client, "https://assistant.example", "", None)
    connected = assistants.connect(connection, owner_account, consent, NOON_MS)
    assistants.renew(connection, connected.refresh_token, client, NOON_MS)
    assistants.disconnect(connection, connected.prefix)
    people.remove_member(connection, account, person, None)
    people.delete_if_alone(connection, person)


def run_notices(connection: sqlite3.Connection, account: int) -> None:
    """Add a channel, send notices to it and change it."""
    row = ("0" * 16, account, "ntfy", "Phone", {"url": "https://ntfy.example.com", "topic": "t"})
    quiet = channels.Quiet(0, 1, "UTC")
    channels.add_channel(
        connection, Channel._make((*row, quiet, None, None, None, NOON_MS, None, 0, None, None, "en", None, None))
    )
    assert channels.confirm(connection, "0" * 16, NOON_MS)
    for fact in ("first", "second"):
        content = says("Title", "Text")
        assert outbox.add(connection, outbox.New(account, "test", fact, content, NOON_MS + DAY_MS), NOON_MS) == 1
    outbox.add(connection, outbox.New(account, "test", "first", content, NOON_MS + DAY_MS), NOON_MS, ["no channel"])
    outbox.resume(connection)
    assert outbox.due(connection, NOON_MS) == [("0" * 16, NOON_MS)]
    for at_ms, outcome in ((NOON_MS, outbox.Outcome("HTTP 429", 429, wait_ms=1)), (NOON_MS + 7_000, outbox.Outcome())):
        message = outbox.claim(connection, "0" * 16, at_ms).message
        assert message is not None
        outbox.finish(connection, message, outcome, at_ms)
    # In quiet hours, and after the most messages of an hour.
    outbox.add(connection, outbox.New(account, "test", "third", content, NOON_MS + 2 * DAY_MS), NOON_MS)
    assert outbox.claim(connection, "0" * 16, NOON_MS + DAY_MS // 2).message is None
    outbox.send_again(connection, account, 1, NOON_MS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "MAX_HOURLY", 0)
        outbox.add(connection, outbox.New(account, "test", "fourth", content, NOON_MS + DAY_MS), NOON_MS)
        assert outbox.claim(connection, "0" * 16, NOON_MS).message is None
    outbox.notices(connection, account)
    assert outbox.alerts_of(connection, 1, 0, NOON_MS) == []
    outbox.delete_old(connection, NOON_MS + DAY_MS)
    channels.all_channels(connection)
    channels.change_channel(connection, "0" * 16, "Phone", {}, None, None, "de")
    channels.replace_secret(connection, "0" * 16, "secret", NOON_MS)
    report = reports.Report("1" * 16, account, None, "week", 8, ("0" * 16,), True, NOON_MS, NOON_MS, None)
    reports.add_report(connection, report)
    assert reports.find_report(connection, account, report.id) == report
    assert reports.due_reports(connection, NOON_MS, 2 * NOON_MS) == [report]
    new = outbox.New(account, "summary.week", "fact", content, NOON_MS + DAY_MS)
    assert reports.finish(connection, report, NOON_MS + DAY_MS, new, NOON_MS) == 1
    assert reports.finish(connection, report, NOON_MS + DAY_MS, new, NOON_MS) == 0
    assert reports.change_report(connection, report)
    assert reports.delete_report(connection, report.id)
    reports.set_personal(connection, account, 0, None, None)
    assert reports.personal_report(connection, account, 0) is None
    assert channels.unsubscribe(connection, "0" * 16)
    outbox.claim(connection, "0" * 16, NOON_MS)
    channels.delete_channel(connection, "0" * 16)


def run_alerts(connection: sqlite3.Connection, account: int) -> None:
    """Add an alert to a website, judge and change it."""
    row = ("0" * 16, 1, "drop", {}, None, NOON_MS, "ok", NOON_MS, None, "waiting", None, None)
    alert = Alert._make(row)
    alerts.add_alert(connection, account, alert)
    assert [*alerts.all_alerts(connection).values()] == [alerts.alerts_of(connection, 1)]
    judged = alerts.Judged(alert, "judged", alerts.Step("firing", NOON_MS, NOON_MS, "fired"))
    assert alerts.record(connection, [judged], NOON_MS, NOON_MS) == 0
    for change in (alerts.change_alert(connection, alert), alerts.snooze_alert(connection, alert.id, NOON_MS)):
        assert change
    assert alerts.delete_alert(connection, alert.id)
    assert not alerts.delete_alert(connection, alert.id)
    uptime.beat(connection, NOON_MS)
    uptime.forget(connection)


def run_commands(connection: sqlite3.Connection) -> None:
    """Run the functions of the commands."""
    owner = create_account(connection, "more@example.com", "pro", None, NOON_MS)
    set_plan(connection, owner.name, "business")
    set_email(connection, owner.number, "other@example.com")
    add_website(connection, owner, "example.net", "", ("capacitor://localhost",), NOON_MS)
    set_exclusions(connection, 1, {"pages": {"/admin/*": ""}}, {"counts_referrer_spam": True})
    all_exclusions(connection)
    for _ in range(audit.MAX_SINGLY + 2):
        audit.record(connection, audit.by_server(), audit.Entry("settings_changed"), 0)
    audit.expire(connection, 1)
    run_people(connection, owner.number)
    run_notices(connection, owner.number)
    run_alerts(connection, owner.number)
    assert [line.entry.action for line in audit.lines(connection, owner.number)] == [
        "person_role_changed",
        "single_sign_on_connected",
        "person_joined",
        "person_joined",
    ]
    value = create_api_key(connection, owner, "", NOON_MS)
    record_key_use(connection, [(NOON_MS, 1)])
    revoke_api_key(connection, value)
    all_websites(connection)
    usage_of_month(connection, 202611)
    key_salt(connection)
    has_account(connection)
    logins.delete_devices(connection, [bytes(32)])
    meta.clock_state(connection)
    doctor_database.newest_ms(connection, NOON_MS)
    assert schema_check.differences(connection) == ""
    list(column_days.damaged(connection))
    build._add_usage(connection, owner, Counter({202611: 1}))
    run_crawlers(connection)
    build._add_heat(connection, all_websites(connection)[0].number, SITES[0], NOON_MS, 0.01)
    delete_expired(connection, NOON_MS + 4 * DAY_MS)
    number = all_websites(connection)[0].number
    rollup_state.mark_stale(connection, number, (NOON_MS // DAY_MS,))
    retention.set_keep_days(connection, number, 10)
    retention.plan(connection, number, retention.keep_days_of(connection, number, 0), NOON_MS)
    run_undo(connection)
    run_deletion(connection)


def run_crawlers(connection: sqlite3.Connection) -> None:
    """Count a page that a crawler requested twice, and read it."""
    day = NOON_MS // DAY_MS
    for _ in range(2):
        crawler_days.add(connection, Labels(), [Crawl(1, NOON_MS, "GPTBot", "/crawled", crawler_days.API)])
    days, before = range(day - 1, day + 2), range(day - 4, day - 1)
    crawls = crawler_days.read(connection, 1, days, before, lambda name, crawler: True, 5)
    assert [(page.crawler, page.requests) for page in crawls.pages if page.pathname == "/crawled"] == [("GPTBot", 2)]
    number = import_records.begin(connection, 1, "access-log", "", "access.log", NOON_MS)
    key: crawler_days.Key = (1, day, "GPTBot", "/imported", crawler_days.ACCESS_LOG)
    crawler_days.add_counts(connection, Labels(), Counter([key]), number)
    counts = import_records.Counts(0, 0, 0, 0, 1, {})
    import_records.save(connection, 1, number, counts, (day, day), (0, 0), None)
    place = day, "GPTBot", crawler_days.API
    assert crawler_days.others(connection, 1, number, [place]) == {place}
    assert ("/imported", 2, 1) in [row[2:] for row in crawler_days.export(connection, 1)]
    assert crawler_days.delete_some(connection, 1, number, -1) == day
    assert crawler_days.delete_some(connection, 1, number, day) is None


def run_undo(connection: sqlite3.Connection) -> None:
    """Import two files with a visitor in common, and undo the first import."""
    number = all_websites(connection)[-1].number
    path = Path(connection.execute("pragma database_list").fetchone()[2]).with_name("undone.ndjson")
    common = {"timestamp": NOON_MS, "visitor": "ann", "pathname": "/"}
    lines = [
        common | {"type": "pageview", "id": 1},
        common | {"type": "ab_assign", "experiment": "e", "variant": "v"},
        common | {"type": "ab_convert", "experiment": "e", "variant": "v"},
        common | {"type": "vitals", "vitals": {"lcp": 1}},
    ]
    for more in range(2):
        path.write_text("".join(json.dumps(line | {"timestamp": NOON_MS - more}) + "\n" for line in lines))
        with open_source(str(path)) as source:
            import_events(connection, number, source, now_ms=NOON_MS, sizes=Sizes(part_lines=2))
    last, first = import_records.records(connection, number)[:2]
    assert (first.events, last.events) == (4, 4)
    # Days that have only columns: their ids say whether they are all of one import.
    undo._own_ids(connection, number, first.number)
    undo.begin(connection, number, first.number, NOON_MS)
    assert import_records.undoing(connection) == [(number, first.number)]
    assert import_records.with_old_keys(connection, NOON_MS) == []
    import_records.delete_key(connection, number, last.number)
    while undo.step(connection, number, first.number):
        pass
    run_sums(connection, number, path)


def run_deletion(connection: sqlite3.Connection) -> None:
    """Import two files with a visitor in common, add heatmaps, and delete events by page, by entry page, and all."""
    number = all_websites(connection)[-1].number
    path = Path(connection.execute("pragma database_list").fetchone()[2]).with_name("deleted.ndjson")
    day = NOON_MS // DAY_MS
    for more in range(2):
        lines = [
            {"type": kind, "timestamp": NOON_MS - minutes * 60_000 - more, "visitor": "ann", "pathname": page}
            | ({"vitals": {"lcp": 1}} if kind == "vitals" else {})
            | ({"experiment": "e", "variant": "v"} if kind == "ab_assign" else {})
            for kind in ("pageview", "vitals", "ab_assign")
            for minutes, page in ((0, "/kept"), (20, "/deleted"), (40, "/kept"))
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with open_source(str(path)) as source:
            import_events(connection, number, source, now_ms=NOON_MS)
    page = Labels().numbers_of(connection, {"/deleted"})["/deleted"]
    heatmaps.store(connection, number, [(one, page, 0, 0, 1, 1, 3) for one in (day, day + 1)])
    block = number, page, 0, 3, day >> 3
    heatmaps.put(connection, block, heatmaps.summed(connection, block))
    connection.execute(
        "/* decision.website_usage */ insert or replace into website_usage (website, month, events)"
        " values (?, 202611, 9)",
        (number,),
    )
    span = (day - 1) * DAY_MS, (day + 2) * DAY_MS
    connection.execute(
        "/* crawler_days.add */ insert into crawler_day (website, day, crawler, pathname, source, import, requests)"
        " values (?, ?, 0, ?, 0, 0, 1)",
        (number, day, page),
    )
    for rule, *filters in (
        (PathRule("/deleted", "/rewritten"),),
        (PathRule("/rewritten", "/deleted"),),
        (None, Filter("pathname", "=", ("/deleted",))),
        (None, Filter("entry_page", "^=", ("/k",))),
        (None,),
    ):
        with snapshot(connection):
            found = deletion_preview.preview_now(connection, number, span, tuple(filters), rule)
        own = event_deletion.begin(connection, number, found.plan, found.events, NOON_MS)
        assert own is not None
        assert deletion_records.running(connection) == [(number, own)]
        while event_deletion.step(connection, number, own, NOON_MS):
            pass
        done = deletion_records.records(connection, number)[0]
        assert done.state == deletion_records.DONE
        # Imported events have used nothing.
        event_deletion._give_back(event_deletion.Step(connection, done, None, NOON_MS, None), [NOON_MS])
    assert not deletion_records.end(connection, number, 1, deletion_records.STOPPED, NOON_MS)
    labels = Labels()
    version = deletion.watch_labels(connection, labels)
    assert deletion.delete_values(connection, labels, None, version, [(number, 0, page)])
    assert deletion_records.with_texts(connection, NOON_MS) == [number]
    deletion_records.texts_deleted(connection, [number], NOON_MS)


def run_sums(connection: sqlite3.Connection, number: int, path: Path) -> None:
    """Import sums of a day without events, count, read and export them, and undo the import."""
    sums = [
        {"type": "imported_sum", "day": "2026-01-05", "field": field, "visitors": 1, "event_name": "x"}
        for field in ("total", "pathname", "entry_page")
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in sums))
    with open_source(str(path)) as source:
        import_events(connection, number, source, now_ms=NOON_MS)
    day = 20_458
    assert imported_sums.is_used(connection, number, day)
    assert totals.count_day(connection, number, day)
    assert imported_sums.values(connection, number, day, 0)
    assert list(imported_sums.pages(connection, number, day, ENTRY_PAGE))
    imported_sums.views_without_visits(connection, number, [day], ENTRY_PAGE)
    imported_sums.visit_figures(connection, number, day, "pathname")
    assert rollup_state.finish_rebuild(connection, number, day, 1, rollup_state.IMPORTED)
    span = day * DAY_MS, (day + 1) * DAY_MS
    assert imported_sums.days(connection, number, span, span, ["pathname"])
    traffic_of(connection, [number])
    with contextlib.suppress(sqlite3.OperationalError):  # within a transaction already
        export_events(connection, number, io.BytesIO())
    last = import_records.records(connection, number)[0]
    import_records.count(connection, number, last.number, (0, 0, 0), None)
    undo.begin(connection, number, last.number, NOON_MS)
    while undo.step(connection, number, last.number):
        pass


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("product") / "analytics.db"


@pytest.fixture(scope="module")
def statement_log(db: Path) -> StatementLog:
    """Return all statements of a run through the product, which takes 3 s; the database file is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "MAX_ROWS", 0)
        patch.setattr(background_work, "PAUSE_S", 1e6)  # the run itself starts the background work
        return asyncio.run(run_through(db))


async def run_through(db: Path) -> StatementLog:
    """Run the product, and return all statements."""
    log = StatementLog()
    app = App(Settings(db=db), ManualClock())
    await app.open()
    try:
        for thread in (app.database.writer, app.background_work.builder._reader, *app.database.readers.threads):
            log.trace(thread._conn)
        app.background_work.builder._rest = 0
        await run_product(app, log)
        await run_account_api(app)
    finally:
        await app.close()
    connection = open_database(app.db, create=False)
    log.trace(connection)
    run_commands(connection)
    connection.close()
    return log


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    """The lines of a statement's plan."""
    return [row[3] for row in connection.execute(f"explain query plan {statement}")]


def poor_steps(connection: sqlite3.Connection, statement: str) -> set[str]:
    """Return the plan steps that read too much of a growing table: a scan, or a search by only part of the key."""
    table_of = {alias or table: table for table, alias in ALIASED.findall(statement)}
    poor = set()
    for line in plan(connection, statement):
        step = STEP.match(line)
        table = step and (step[2] if step[2] in GROWING else table_of.get(step[2], ""))
        if step and table in GROWING and not (step[1] == "SEARCH" and re.match(GROWING[table], step[3] or "")):
            poor.add(line)
    return poor


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Return a database as the product creates it."""
    connection = open_database(tmp_path_factory.mktemp("plans") / "analytics.db", create=True)
    yield connection
    connection.close()


@pytest.mark.slow
def test_every_statement_is_executed(statement_log: StatementLog) -> None:
    """Every statement in the sources was executed, and every executed statement has a name."""
    assert statement_log.nameless == set()
    assert set(statement_log.by_name) == names_in_sources()


def test_no_growing_table_is_scanned(statement_log: StatementLog, db: Path) -> None:
    """No statement scans a table that grows; each reads a range of its primary key."""
    connection = open_database(db, create=False)
    try:
        created = "measurements.create_given"
        for name in ("import_writer.promised", "import_writer.checked", created):
            for statement in statement_log.by_name[name]:
                connection.execute(statement)  # creates a temporary table that other statements use
        for statement in statement_log.by_name["deleted_rows.create"]:
            if " view " not in statement:
                connection.execute(statement)
        poor = {
            name: set().union(*(poor_steps(connection, statement) for statement in statements))
            for name, statements in statement_log.by_name.items()
            if name not in FULL_SCANS
        }
    finally:
        connection.close()
    assert {name: steps for name, steps in poor.items() if steps} == {}


def test_read_statements_run_with_and_without_filters(statement_log: StatementLog) -> None:
    """Read statements were executed with and without filters."""
    filtered = {
        name
        for name, statements in statement_log.by_name.items()
        if len({"from label where text in" in statement for statement in statements}) == 2
    }
    assert filtered == {
        "events.events",
        "measurements.counts",
        *("deletion_preview.events", "deletion_preview.visits", "deletion_preview.values"),
        *("event_deletion.rows", "event_deletion.pages", "visit_rebuild.of_visit"),
    }


@cases(
    ("statement", "is_poor"),
    [
        ("select count(*) from event where visitor = 1", True),
        ("select count(*) from event as e where e.visitor = 1", True),
        ("select count(*) from event e where website = 1", True),
        ("select count(*) from event where website = 1 and ts > 5", False),
        ("select count(*) from visit where website = 1 and day = 1 and start_ms between 1 and 2", False),
        ("select s.digest from event_id s where website = 1", True),
        ("delete from event_id where arrived_ms < 5", True),
        ("delete from event_id where minute_ms = 0 and arrived_ms < 5", False),
        ("select text from label where id + 0 = 1", True),
        ("select count(*) from account_usage", True),
        ("update event set visit = 1 where website = 1 and visitor = 2", True),
        ("select sum(pageviews) from total_15m where quarter > 5", True),
        ("select sum(pageviews) from total_15m where website = 1 and quarter > 5", False),
        ("select content from rollup_block where website = 1 and field = 2", True),
        ("select content from rollup_block where website = 1 and level = 5 and block = 2", True),
        ("select content from rollup_block where website = 1 and field = 2 and level = 5 and block = 5", False),
        ("select block from rollup_state where website = 1 and state < 2", True),
        ("select 1 from rollup_state where website = 1 and kind = 0 and level = 0 and state < 2 order by block", False),
        ("select sum(events) from rejected_event where reason = 5", True),
        ("delete from rejected_event where website = 1 and quarter < 5", False),
        ("select * from account", False),
    ],
)
def test_poor_steps_are_found(empty: sqlite3.Connection, statement: str, is_poor: bool) -> None:
    """Verify the check itself with the installed SQLite: scans and partial keys are detected."""
    assert bool(poor_steps(empty, statement)) is is_poor
