"""How every statement of the product finds its rows: never by reading a growing table from end to end.

Rule: "test_plans runs EXPLAIN QUERY PLAN on every query and allows no bare scan of a table that grows." The
statements are not listed here but overheard: SQLite tells each one that a run through all endpoints, writes and
commands executes. Then the sources are searched for their names (`/* module.name */`), so that one that was never run
fails.
"""

import ast
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import tally
from tally.accounts import logins
from tally.accounts.accounts import create_account, has_account, set_email, set_plan
from tally.accounts.api_keys import create_api_key, key_salt, record_key_use, revoke_api_key
from tally.accounts.usage import usage_of_month
from tally.accounts.websites import add_website, all_websites
from tally.demo import build
from tally.demo.sites import SITES
from tally.ingest import lifecycle, rejected_events
from tally.ingest.writer import forget_old
from tally.maintenance import backup, doctor_database, retention
from tally.reports import experiments, funnels
from tally.rollups import experiments as experiment_rollups
from tally.rollups import heatmaps, rollup_state, visit_pages, web_vitals
from tally.rollups.traffic import traffic_of
from tally.rollups.verify import verdicts
from tally.settings import Settings
from tally.storage import meta
from tally.storage.database import open_database
from tally.storage.health import FAILING
from tally.timestamps import iso
from tally.transfer.exporter import count_events, export_events
from tally.transfer.files import open_source, open_target
from tally.transfer.importer import import_events
from tests.support.app import NOON_MS, App, ManualClock
from tests.support.cases import cases
from tests.support.page_client import PASSWORD, logged_in
from tests.support.read_api import DAY, DAY_MS, FIELDS, custom, event, view

SOURCES = sorted(Path(tally.__file__).parent.rglob("*.py"))
NAME = re.compile(r"/\* ([a-z_]+)\.([a-z_]+) \*/")
# What is no statement about rows.
HOUSEKEEPING = re.compile(
    r"(?:begin|begin immediate|begin exclusive|commit|rollback|pragma [a-z_]+(?: *= *\S+|\(\d+\))?)", re.IGNORECASE
)
# schema.sql: the tables that grow with traffic or with time, and the keys by which their rows may be found; accounts,
# websites and API keys are the owner's few.
GROWING = {
    "event": r"PRIMARY KEY \(website=\? AND ts[<>=]",
    "visit": r"PRIMARY KEY \(website=\? AND start_ms[<>=]",
    "visit_page": r"PRIMARY KEY \(website=\? AND level=\? AND block=\?",
    "total_15m": r"PRIMARY KEY \(website=\? AND quarter[>=]",
    "rollup": r"PRIMARY KEY \(website=\? AND field=\? AND level=\? AND block[=>]\?",
    # verify looks at all days and blocks there are; everybody else at a stretch of them.
    "rollup_state": r"PRIMARY KEY \(website=\? AND level=\?|INDEX rollup_state_unfinished \(website=\?\)",
    "open_day_visitor": r"PRIMARY KEY \(website=\? AND day=\?",
    "open_day_visitor_value": r"PRIMARY KEY \(website=\? AND day=\?",
    "web_vitals": r"PRIMARY KEY \(website=\? AND (?:ts[<>=]|\(ts,id\)>)",
    "experiment_event": r"PRIMARY KEY \(website=\? AND ts[<>=]",
    "heatmap_point": r"PRIMARY KEY \(website=\? AND day[<>=]",
    "heatmap_block": r"PRIMARY KEY \(website=\? AND pathname(?:>\?|=\? AND band(?:>\?|=\? AND level=\?))",
    "heatmap_count": r"PRIMARY KEY \(website=\? AND level=\?(?: AND block[<>=]\??|\))",
    "event_id": r"PRIMARY KEY \(website=\? AND digest=\?\)|(?:COVERING )?INDEX event_id_by_arrival \(arrived_ms<\?\)",
    "import_id": r"PRIMARY KEY \(website=\? AND ts(?:[<>]|=\? AND digest=\?\))",
    "label": r"INTEGER PRIMARY KEY \(rowid=\?\)|(?:COVERING )?INDEX sqlite_autoindex_label_1 \(text=\?\)",
    "experiment_assignment": r"PRIMARY KEY \(website=\? AND day(?:<\?|=\?(?: AND experiment=\? AND visitor=\?)?)\)",
    "experiment_conversion": r"PRIMARY KEY \(website=\? AND day(?:<\?|=\? AND experiment=\? AND visitor=\?(?:"
    r" AND goal=\?)?)\)",
    "experiment_total": r"PRIMARY KEY \(website=\? AND day",
    # What has no value of its own in the question is a day's, or a block's, few rows.
    "web_vitals_histogram": r"PRIMARY KEY \(website=\? AND breakdown=\? AND level=\?(?: AND block[<>=]\??|\))",
    "rejected_event": r"PRIMARY KEY \(website=\? AND quarter(?:[<>=]|=\? AND reason=\?\))",
    "rejected_sample": r"PRIMARY KEY \(website=\?(?:\)| AND reason=\?)",
    "event_data_part": r"INTEGER PRIMARY KEY \(rowid[<>=]",
    "website_usage": r"PRIMARY KEY \(website=\?",
    "field_value": r"PRIMARY KEY \(website=\? AND field=\? AND value=\?\)",
    "new_value": r"PRIMARY KEY \(website=\? AND day(?:[<>]|=\? AND field=\?)",
    "account_usage": r"PRIMARY KEY \((?:account=\? AND month=\?|month=\?(?: AND account=\?)?)\)",
}
# What has to look at all there is: of a website that goes away, or in search of texts that nobody has any more; both in
# the background, some rows at a time or on a connection that only reads. And a website's events, counted by quarters.
WHOLE = {
    *("deletion.rows", "deletion.used", "deletion.used_values", "deletion.labels", "deletion.marks"),
    "traffic.total",
    *("deletion.last_label", "deletion.newest_label"),  # the last one: a single look, which EXPLAIN does not say
}
# What differs between one run of a statement and the next.
VALUE = re.compile(r"'(?:[^']|'')*'|\b\d+\b")
STEP = re.compile(r"(SCAN|SEARCH) (?:TABLE )?(\w+)(?: AS \w+)?(?: USING (.*))?")
ALIASED = re.compile(r"\b(?:from|join|update|into)\s+(\w+)(?:\s+(?:as\s+)?(\w+))?", re.IGNORECASE)
SHAPES = re.compile(r"\*/ (?:create|alter) ")
OWNER = "plans@example.com"


# --- the names in the sources


def statement_texts(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The beginning of every text that is handed to execute or executemany, or that names itself, with its line."""
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
    """`module.name` of every statement, and `module.table` of every call of bulk_insert.insert.

    Without tally/maintenance/startup.py's, on a file that no server has open yet; without tally/storage/database.py's,
    on the table meta alone and on SQLite's own; and without those on a file that lasts as long as the question it was
    made for.
    """
    names = set()
    for source in SOURCES:
        if source.stem in ("database", "startup"):
            continue
        tree = ast.parse(source.read_text("utf-8"))
        found = [text for text, _ in statement_texts(tree)]
        names |= {".".join(match) for text in found for match in NAME.findall(text)}
        names |= {f"{source.stem}.{table}" for table in inserted_tables(tree)}
    return names


def inserted_tables(tree: ast.Module) -> set[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    tables = [call.args[2] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "insert"]
    assert all(isinstance(table, ast.Constant) for table in tables)
    return {str(table.value) for table in tables if isinstance(table, ast.Constant)}


@cases("source", SOURCES, ids=lambda source: source.name)
def test_every_statement_opens_with_its_name(source: Path) -> None:
    """App style: SQL is "opened by `/* top.values */` so that a slow query names its author"."""
    without = {
        line: text
        for text, line in statement_texts(ast.parse(source.read_text("utf-8")))
        if not HOUSEKEEPING.fullmatch(text)
        # bulk_insert.insert is given the name of the module that calls it.
        and not text.startswith(("pragma ", f"/* {source.stem}.", "/* {}"))
        and text != "/* "
    }
    assert without == {}


# --- the run


class Overheard:
    """The statements that connections execute, by name; several where a statement comes in several shapes."""

    def __init__(self) -> None:
        self.by_name: dict[str, set[str]] = {}
        self.nameless: set[str] = set()
        self._shapes: set[str] = set()

    def listen_to(self, connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(self._hear)

    def _hear(self, statement: str) -> None:
        name = NAME.match(statement)
        shape = VALUE.sub("?", statement)
        if name and shape in self._shapes:
            return
        self._shapes.add(shape)
        if name:
            self.by_name.setdefault(".".join(name.groups()), set()).add(statement)
        elif not HOUSEKEEPING.fullmatch(statement) and not statement.startswith("--"):  # that is SQLite's own doing
            self.nameless.add(statement)


QUESTIONS = tuple(
    f"{endpoint}?from={DAY}&to={DAY}{filters}"
    for endpoint in ("stats", "stats?compare=previous", "timeseries", "timeseries?interval=hour", "events?limit=2")
    for filters in (
        "",
        "&filter_os=",
        "&filter_os=Windows&filter_os=macOS&filter_event_name=a&filter_type=event",
        "".join(f"&filter_{field}=x" for field in (*FIELDS, "event_name")) + "&filter_type=vitals",
    )
)
# Ends on no quarter, inside one day with many others behind it, or few, and whole days.
RAGGED = tuple(
    f"{endpoint}?from=2026-11-{times[0]}&to=2026-11-{times[1]}"
    for endpoint in ("stats", "timeseries", "timeseries?interval=hour", "top/os")
    for times in (
        *(("17T10:07:00Z", "18T11:03:00Z"), ("17T09:00:00Z", "17T10:31:00Z"), ("17T00:07:00Z", "17T11:08:00Z")),
        ("16", "18"),
    )
)
LISTS = (
    *(f"top/{field}?from={DAY}{filters}" for field in FIELDS for filters in ("", "&filter_pathname=/a")),
    *(
        f"{name}?{span}{filters}"
        for name in ("event-names", "entry-pages", "exit-pages")
        # Whole blocks first, since what is remembered of days is not looked up again; and so short a time that the
        # visits in it are a crowd.
        for span in (
            *("from=2026-09-01&to=2027-06-01", f"from={DAY}"),
            "from=2026-11-17T09:40:00Z&to=2026-11-17T09:40:30Z",
        )
        for filters in ("", "&filter_pathname=/a&filter_pathname=/c")
    ),
)


MEASURED = (
    "experiments",
    *(
        f"vitals?from={begin}&to={end}{by}{filters}"
        for begin, end in ((DAY, DAY), ("2026-09-01T10:07:00Z", "2026-11-18T11:03:00Z"))
        for by in ("", "&by=pathname", "&by=device", "&by=day")
        for filters in ("", "&filter_device=desktop", "&filter_country=DE")
    ),
    *(
        f"heatmap{more}&from={begin}&to={DAY}{filters}"
        for more in ("-pages?limit=5", "?pathname=", "?pathname=/nowhere")
        for begin in (DAY, "2026-09-01")
        for filters in ("", "&filter_device=tablet")
    ),
    *(f"experiments?from=2026-11-17T09:00:00Z&to=2026-11-18T11:00:00Z{more}" for more in ("", "&filter_os=")),
)


# Of days, of parts of days, and with filters; names and paths that are there.
FOLLOWED = tuple(
    f"{question}&from=2026-11-{begin}&to=2026-11-18T11:03:00Z{filters}"
    for question in ("funnel?step=pathname:/a&step=event_name:signup&step=pathname:/b", "event-data?event_name=signup")
    for begin in ("16", "17T10:07:00Z")
    for filters in ("", "&filter_os=", "&filter_os=Windows&filter_pathname=/a&filter_pathname=/&filter_type=event")
)


def mend_measurements(app: App, overheard: "Overheard", website: int, day: int) -> None:
    """Counts a day of measurements anew, and says that all histograms are still to be filled."""
    connection = open_database(app.db, create=False)
    wrong = "insert or replace into web_vitals_histogram values (?, 1, 0, ?, 9999, 1, 0, 0, 0, 0, 0, ?)"
    connection.execute(wrong, (website, day, b"00"))
    connection.execute("insert into heatmap_count values (?, 0, ?, 9999, 1, 0, 0, 0, 0, 0)", (website, day))
    overheard.listen_to(connection)
    web_vitals.repair(connection, website, 0, day)
    web_vitals.repair(connection, website, 3, day >> 3)
    visit_pages.invalidate(connection, website, 3, day >> 3)
    experiment_rollups.repair(connection, website, day)
    heatmaps.repair(connection, website, 0, day)
    heatmaps._run_progress_handler(connection)
    connection.close()


def traffic() -> list[dict[str, Any]]:
    """Events of every type, with event_ids, two visits that are joined and one that is brought forward."""
    lone = [event("app_event", NOON_MS, "ann"), view(NOON_MS, who="cat"), custom(NOON_MS, who="dan")]
    return [
        view("10:00:00", "/a", event_id="1"),
        view("10:50:00", "/b", event_id="2"),
        custom("10:25:00", event_id="3", event_data={"a": 1, "long": "x" * 600}),
        view("09:40:00", "/c"),
        event("screen_view", "10:00:00", "bob", name="Home"),
        event("vitals", "10:00:00", "bob", vitals={"lcp": 1}),
        event("heatmap", "10:00:00", "bob", points=[{"x": 0, "y": 0, "kind": "click"}], viewport_width=800),
        event("ab_assign", "10:00:00", "bob", experiment="e", variant="v"),
        event("ab_convert", "10:00:00", "bob", experiment="e"),
        *lone,
        *(view("11:00:00", f"/{n}", f"{n}", event_id=f"many-{n}") for n in range(37)),
        view("11:20:00", "/late", "late"),
    ]


async def ask(app: App, key: str, website: str, questions: tuple[str, ...], status: int = 200) -> None:
    """Puts questions; where an answer goes on, for the next page too."""
    base = f"/api/v1/websites/{website}"
    for question in questions:
        first, *rest = question.split("?")
        answer = await app.get(f"{base}/{first}?{'&'.join(rest)}", key)
        assert answer.status == status, (question, answer.text)
        if answer.json.get("meta", {}).get("next_cursor"):
            cursor = answer.json["meta"]["next_cursor"]
            assert (await app.get(f"{base}/{first}?{'&'.join(rest)}&cursor={cursor}", key)).status == 200


async def play(app: App, overheard: Overheard) -> None:
    """Every endpoint, every type of event, the chores, and the work on rollups from the first fold to retention."""
    # A plan with a limit, so that the website's usage is counted.
    key, website = await app.key(OWNER, "pro"), await app.website(account=OWNER)
    for batch in (traffic(), traffic()[:1], traffic()[4:5]):
        answer = await app.collect({"website_id": website, "events": batch})
        assert answer.json == {"ok": True, "accepted": len(batch), "rejected": 0}
    # an assignment before the first, and a conversion whose assignment is in the file alone
    await app.collect(event("ab_assign", "09:59:59", "bob", experiment="e", variant="w") | {"website_id": website})
    await app.collect(event("ab_convert", "10:00:01", "bob", experiment="e") | {"website_id": website})
    await ask(app, key, website, (*QUESTIONS, *LISTS, *RAGGED, *MEASURED, *FOLLOWED, "realtime"))
    await leave_out(app, key, website)
    assert (await app.get("/api/v1/websites", key)).status == 200
    app.store.health.fault = FAILING  # so that it is tried whether writing works again
    await app.store.recovery.heal()
    assert app.store.look() == "well"
    await app.store.tick()
    await play_rollups(app, key, website, overheard)


async def leave_out(app: App, key: str, website: str) -> None:
    """An event is not taken, that is counted and read, and older ones are forgotten."""
    await app.admin(lambda run: run.execute("insert into rejected_event values (1, 5, 0, 1)"))
    app.store.rejected_events._forgot_ns -= rejected_events._FORGET_NS  # where old ones were looked for already
    answer = await app.collect({"type": "pageview", "website_id": website, "url": "x"})
    assert answer.status == 400
    await app.store.tick()
    await ask(app, key, website, ("rejected", f"rejected?from={DAY}&to={DAY}&tz=Asia/Kolkata"))
    assert app.sql("select sum(events) from rejected_event") == [(1,)]


def port(app: App, website: int, overheard: Overheard) -> None:
    """Exports a website, and imports what was exported: into itself, elsewhere, and once more."""
    connection = open_database(app.db, create=False)
    overheard.listen_to(connection)
    target = app.db.with_name("events.ndjson")
    with open_target(str(target)) as out:
        exported = export_events(connection, website, out)
    assert count_events(connection, website) == exported > 0
    # Its visitors' visits are joined by a line that comes later.
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
    elsewhere = next(site for site in all_websites(connection) if site.number != website).number
    late = [{**lines[0], "timestamp": iso(NOON_MS + 25 * 60_000), "id": "c"}, *lines]
    # A conversion whose assignment is in the same file, and one whose assignment is stored.
    assign = {**lines[0], "type": "ab_assign", "experiment": "e", "variant": "v", "id": "d"}
    convert = {**lines[0], "type": "ab_convert", "experiment": "e"}
    for content in ([*lines, assign, {**convert, "id": "e"}], [*late, {**convert, "id": "f"}]):
        more.write_bytes(b"\n".join(map(orjson.dumps, content)))
        for strict in (False, True):
            with open_source(str(more)) as source:
                import_events(connection, elsewhere, source, now_ms=NOON_MS + DAY_MS, strict=strict)
    for number, strict in ((elsewhere, False), (elsewhere, True), (website, False)):
        with open_source(str(target)) as source:
            import_events(connection, number, source, now_ms=NOON_MS + DAY_MS, strict=strict)
    traffic_of(connection, [website, elsewhere])
    connection.close()


async def play_rollups(app: App, key: str, website: str, overheard: Overheard) -> None:
    """Days are folded, closed, built into blocks, marked stale, built anew, and let go."""
    [(number,)] = app.sql("select number from website")
    app.clock.advance(60)
    await app.store.builder.work()
    await app.collect(view("09:00:00", "/late", "eve") | {"website_id": website})
    await ask(app, key, website, (*QUESTIONS, *LISTS, *RAGGED))
    await app.website("example.org", OWNER)
    port(app, number, overheard)
    await app.store.builder.work()
    # Stale while events may still arrive: emptied, counted and folded anew.
    day = NOON_MS // DAY_MS - 1
    await app.admin(lambda connection: rollup_state.mark_stale(connection, number, (day,)))
    await app.store.builder.work()
    app.clock.advance(600 * 86_400)
    await app.store.builder.work()
    assert app.sql("select count(*) from rollup_state where level = 8 and website = ?", number) == [(1,)]
    connection = open_database(app.db, create=False)
    overheard.listen_to(connection)
    assert not [verdict for verdict in verdicts(connection, number) if verdict.fault or verdict.skipped]
    copy = app.db.with_name("copy.db")
    with copy.open("xb") as empty:
        backup.copy_database(connection, copy, empty.fileno(), lambda: False)
    connection.close()
    await ask(app, key, website, (*QUESTIONS, *LISTS, *RAGGED, *MEASURED))
    mend_measurements(app, overheard, number, day)
    await ask(app, key, website, MEASURED)
    await app.admin(lambda connection: rollup_state.mark_stale(connection, number, (day,)))
    await ask(app, key, website, (*QUESTIONS, *RAGGED))
    await app.store.builder.work()
    await app.admin(lambda connection: retention.set_keep_days(connection, number, 10))
    await app.store.builder.work()
    assert app.sql("select count(*) from event where website = ?", number) == [(0,)]
    await ask(app, key, website, (f"stats?from={DAY}&to={DAY}&filter_type=event",), 400)


_REVOKED = {"revoke_keys": True, "revoke_share_links": True}


async def play_pages(app: App) -> None:
    """What the account area does, up to a website that is taken out of the file."""
    browser = await logged_in(app, OWNER)
    app.clock.advance(2 * 86_400)  # the session is prolonged
    key = await browser("POST", "/api/account/keys", {"name": "k"})
    await browser("DELETE", f"/api/account/keys/{key.json['data']['id']}")
    await browser("PATCH", "/api/account", {"time_zone": "UTC"})
    await browser("POST", "/api/account/password", {"current": PASSWORD, "new": "another password"} | _REVOKED)
    website = (await browser("POST", "/api/account/websites", {"domain": "gone.example"})).json["data"]["id"]
    path = f"/api/account/websites/{website}"
    await browser("PATCH", path, {"name": "n", "origins": ["app://x"]})
    await browser("POST", f"{path}/share")
    await browser("DELETE", f"{path}/share")
    await browser("GET", "/api/account/websites")
    for name in ("/first", "/last"):
        answer = await app.collect(
            event("screen_view", app.clock.wall_ms(), "ann", name=name) | {"website_id": website}
        )
        assert answer.status == 202
    assert (await browser("DELETE", path, {"domain": "gone.example"})).status == 202
    app.clock.advance(60)
    await app.store.deletion_worker.work()
    assert app.sql("select is_complete from deleted_website") == [(1,)]
    await browser("POST", "/api/account/logout")


def administer(connection: sqlite3.Connection) -> None:
    """What the command line does."""
    owner = create_account(connection, "more@example.com", "pro", None, NOON_MS)
    set_plan(connection, owner.email, "business")
    set_email(connection, owner.number, "other@example.com")
    add_website(connection, owner, "example.net", "", ("capacitor://localhost",), NOON_MS)
    value = create_api_key(connection, owner, "", NOON_MS)
    record_key_use(connection, [(NOON_MS, 1)])
    revoke_api_key(connection, value)
    all_websites(connection)
    usage_of_month(connection, 202611)
    key_salt(connection)
    has_account(connection)
    logins.forget_devices(connection, [bytes(32)])
    meta.clock_state(connection)
    doctor_database.newest_ms(connection, NOON_MS)
    build._add_usage(connection, owner, Counter({202611: 1}))
    build._add_heat(connection, all_websites(connection)[0].number, SITES[0], NOON_MS, 0.01)
    forget_old(connection, NOON_MS + 4 * DAY_MS)
    number = all_websites(connection)[0].number
    rollup_state.mark_stale(connection, number, (NOON_MS // DAY_MS,))
    retention.set_keep_days(connection, number, 10)
    retention.plan(connection, number, retention.keep_days_of(connection, number, 0), NOON_MS)


@pytest.fixture
async def overheard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Overheard:
    """All statements of a run through the product, with the files they ran on left behind."""
    heard = Overheard()
    monkeypatch.setattr(funnels, "MAX_HITS", 1)
    monkeypatch.setattr(experiments, "MAX_ROWS", 0)
    monkeypatch.setattr(lifecycle, "PAUSE_S", 1e6)  # the run itself says when rollups are worked on
    app = App(Settings(db=tmp_path / "analytics.db"), ManualClock())
    await app.open()
    try:
        for thread in (app.store._writer, app.store.builder._reader, *app.store.readers.threads):
            heard.listen_to(thread._conn)
        app.store.builder._rest = 0
        await play(app, heard)
        await play_pages(app)
    finally:
        await app.close()
    connection = open_database(app.db, create=False)
    heard.listen_to(connection)
    administer(connection)
    connection.close()
    return heard


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    """The lines of a statement's plan."""
    return [row[3] for row in connection.execute(f"explain query plan {statement}")]


def poor_steps(connection: sqlite3.Connection, statement: str) -> set[str]:
    """The steps that read more of a growing table than they have to: a bare scan, or a part of the key alone."""
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
    """A database as the product makes it."""
    connection = open_database(tmp_path_factory.mktemp("plans") / "analytics.db", create=True)
    yield connection
    connection.close()


async def test_no_statement_is_forgotten(overheard: Overheard) -> None:
    """Every statement in the sources was run here, and every one that was run has a name."""
    assert overheard.nameless == set()
    assert set(overheard.by_name) == names_in_sources()


async def test_no_growing_table_is_scanned(overheard: Overheard, tmp_path: Path) -> None:
    """Rule: "no bare scan of a table that grows"; schema.sql: "every question is a range of it"."""
    connection = open_database(tmp_path / "analytics.db", create=False)
    try:
        for name in ("field_values.fresh", "import_writer.promised"):
            for statement in overheard.by_name[name]:
                connection.execute(statement)  # a table of the connection's own, which others are planned on
        poor = {
            name: set().union(*(poor_steps(connection, statement) for statement in statements))
            for name, statements in overheard.by_name.items()
            if name not in WHOLE
        }
    finally:
        connection.close()
    assert {name: steps for name, steps in poor.items() if steps} == {}


async def test_every_question_was_asked_with_and_without_filters(overheard: Overheard) -> None:
    """The run is only worth something where each read statement came in both of its shapes."""
    filtered = {
        name
        for name, statements in overheard.by_name.items()
        if len({"from label where text in" in statement for statement in statements}) == 2
    }
    assert filtered == {
        *("events.stats", "events.series", "events.counts", "events.events", "events.traffic"),
        *("measurements.vitals", "measurements.vitals_of", "measurements.vital_ranks", "measurements.counts"),
        *("visits.pages", "visits.visits", "behaviour.data", "behaviour.visits"),
    }


@cases(
    ("statement", "is_poor"),
    [
        ("select count(*) from event where visitor = 1", True),
        ("select count(*) from event as e where e.visitor = 1", True),
        ("select count(*) from event e where website = 1", True),
        ("select count(*) from event where website = 1 and ts > 5", False),
        ("select count(*) from visit where website = 1 and start_ms between 1 and 2", False),
        ("select s.digest from event_id s where website = 1", True),
        ("delete from event_id where arrived_ms < 5", False),
        ("select text from label where id + 0 = 1", True),
        ("select count(*) from account_usage", True),
        ("update event set visit = 1 where website = 1 and visitor = 2", True),
        ("select sum(pageviews) from total_15m where quarter > 5", True),
        ("select sum(pageviews) from total_15m where website = 1 and quarter > 5", False),
        ("select value from rollup where website = 1 and field = 2", True),
        ("select value from rollup where website = 1 and field = 2 and level = 0 and block = 5", False),
        ("select block from rollup_state where website = 1 and state < 2", True),
        ("select block from rollup_state where website = 1 and level = 0 and state < 2 order by block", False),
        ("delete from open_day_visitor where website = 1 and visitor = 5", True),
        ("select sum(events) from rejected_event where reason = 5", True),
        ("delete from rejected_event where website = 1 and quarter < 5", False),
        ("select * from account", False),
    ],
)
def test_poor_steps_are_found(empty: sqlite3.Connection, statement: str, is_poor: bool) -> None:
    """The test tested, on the SQLite at hand: what a bare scan and a part of a key look like."""
    assert bool(poor_steps(empty, statement)) is is_poor
