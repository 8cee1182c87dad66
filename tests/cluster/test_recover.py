"""`cluster recover` with its real parts: a server in keep, ClickHouse's engine, and a machine that is lost.

Nothing is left of the machine: its file is deleted, and another one is made from ClickHouse and the key file alone.
"""

import asyncio
import base64
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import closing
from http.client import HTTPException
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tally.accounts.accounts import find_person, set_password_hash
from tally.accounts.passwords import hashed
from tally.clickhouse.client import Client
from tally.cluster import control
from tally.resources import asset
from tally.settings import BadSetting
from tally.storage import cluster_tables
from tally.storage.database import open_database, statements
from tests.cluster.engine import needs_clickhouse, new_key_file
from tests.cluster.test_follow import RANGE, UNFILTERED, ClickHouse, Gate, Site, clickhouse, until
from tests.support.app import ROOT, Answer
from tests.support.ledgers import OWNER
from tests.support.process import UNLIMITED, Serve, Server, clean_environment

__all__ = ["clickhouse"]
T = TypeVar("T")
PASSWORD = "a passphrase of several words"
BOUGHT = {"name": "Bought", "type": "event", "match": ["filter_event_name=buy"], "value": "price", "currency": "EUR"}
REPORTS = (
    RANGE,
    UNFILTERED,
    "timeseries?from=2020-01-01&interval=day",
    *(f"top?from=2020-01-01&fields={field}" for field in ("pathname,referrer,country", "browser,channel,hostname")),
    "entry-pages?from=2020-01-01",
    "events?from=2020-01-01&limit=50",
    "event-data?from=2020-01-01&event_name=buy",
    "vitals?from=2020-01-01",
    "experiments?from=2020-01-01",
    "heatmap-pages?from=2020-01-01",
    "goals/report?from=2020-01-01",
)


def test_every_table_is_copied_or_not_for_a_reason() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for script in (asset("schema.sql").read_text("utf-8"), cluster_tables.SCRIPT):
            for statement in statements(script):
                connection.execute(statement)
        tables = {name for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")}
    assert control.COPIED.keys() | control.NOT_COPIED.keys() == tables
    assert not control.COPIED.keys() & control.NOT_COPIED.keys()
    assert all(control.NOT_COPIED.values())


def test_a_key_file_is_of_age_and_private(tmp_path: Path) -> None:
    file = new_key_file(tmp_path)
    (public,) = control.recipients_of(file)
    for text, problem in ((public, ""), ("none", "has no key of age"), ("", "has no key of age")):
        file.write_text(text)
        if not problem:
            assert control.recipients_of(file) == [public]
            continue
        with pytest.raises(BadSetting, match=problem):
            control.recipients_of(file)
    file.chmod(0o640)
    with pytest.raises(BadSetting, match="can be read by other users"):
        control.recipients_of(file)
    for missing, problem in ((tmp_path / "missing", "cannot be read"), (None, "name the key file")):
        with pytest.raises(BadSetting, match=problem):
            control.recipients_of(missing)


class Kept(Site):
    """A website of a server in keep, with the password of its owner. `db`: the file of the machine in use."""

    def __init__(self, db: Path, clickhouse: ClickHouse, key_file: Path) -> None:
        super().__init__(db, clickhouse)
        self.clickhouse, self.key_file, self.url = clickhouse, key_file, clickhouse.url
        with closing(open_database(db, create=False)) as connection:
            set_password_hash(connection, find_person(connection, OWNER).number, hashed(PASSWORD))
        self.cookie = ""

    @property
    def options(self) -> tuple[str, ...]:
        where = ("--clickhouse", self.url, "--cluster-key", str(self.key_file))
        return (*UNLIMITED, "--cluster-mode", "keep", *where)

    def page(self, server: Server, method: str, path: str, body: Any = None) -> Answer:
        headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json", "Cookie": self.cookie}
        return server.request(method, f"/api/account{path}", body, headers)

    def log_in(self, server: Server) -> None:
        answer = self.page(server, "POST", "/login", {"email": OWNER, "password": PASSWORD})
        assert answer.status == 200, answer.body
        found = SimpleCookie(answer.headers["Set-Cookie"])
        self.cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in found.items())

    def change(self, server: Server, path: str, body: Any) -> Any:
        answer = self.page(server, "POST", path, body)
        assert answer.status in (200, 201), answer.body
        return answer.json["data"]

    def figures(self, server: Server) -> dict[str, Any]:
        return {report: self.get(server, report)["data"] for report in REPORTS}

    def recover(self, *more: str, fails: bool = False, key_file: Path | None = None) -> str:
        words = ("--cluster-ack-seconds", "1", "--cluster-key", str(key_file or self.key_file))
        return self.cluster("recover", *words, *more, fails=fails)

    def is_copied(self, text: str) -> bool:
        """Return whether the newest control copy has a text."""

        return text in str(self.copied())

    def copied(self) -> Mapping[str, Any]:
        """Return the tables of the newest control copy."""
        return self.ask(lambda client: control.newest(client, self.key_file)).tables

    def ask(self, question: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Return what ClickHouse answers to the server's client."""

        async def ask() -> T:
            client = Client(self.clickhouse.url, "tally")
            try:
                return await question(client)
            finally:
                await client.close()

        return asyncio.run(ask())


@pytest.fixture
def kept(tmp_path: Path, clickhouse: ClickHouse) -> Kept:
    site = Kept(tmp_path / "analytics.db", clickhouse, new_key_file(tmp_path))
    site.cluster("init")
    return site


def send_all_kinds(site: Kept, server: Server) -> None:
    """Send events of every type, some of them late, and leaves."""
    site.send(server, *range(40))
    more: tuple[dict[str, Any], ...] = (
        {"type": "event", "event_name": "buy", "event_data": {"price": 9.5, "plan": "pro"}},
        {"type": "vitals", "vitals": {"lcp": 1_200, "cls": 0.1}},
        {"type": "ab_assign", "experiment": "button", "variant": "green"},
        {"type": "ab_convert", "experiment": "button", "variant": "green", "goal": "buy", "value": 3},
        {"type": "heatmap", "viewport_width": 1_000, "points": [{"x": 0.5, "y": 100, "kind": "click"}]},
    )
    for n, event in enumerate(more):
        site.send(server, *range(100 + 10 * n, 104 + 10 * n), **event)
    site.send(server, 1, type="leave", time_on_page=20, scroll_depth=50)


@needs_clickhouse
def test_a_lost_machine_is_replaced(kept: Kept, serve: Serve, tmp_path: Path, clickhouse: ClickHouse) -> None:
    import_some(kept, serve, tmp_path)
    gate = Gate(clickhouse)
    kept.url = gate.url
    server = accepting(serve(*kept.options))
    kept.log_in(server)
    other = kept.change(server, "/websites", {"domain": "other.example", "name": "Other"})["id"]
    kept.change(server, f"/websites/{kept.id}/goals", BOUGHT)
    kept.change(server, "/invitations", {"email": "new@example.com", "role": "viewer"})
    value = kept.change(server, "/keys", {"name": "second"})["value"]
    send_all_kinds(kept, server)
    kept.send(server, 500, website_id=other)
    figures = kept.figures(server)
    assert figures[UNFILTERED]["pageviews"] == 40 + 5 + 50
    # What ClickHouse lacks of a change is named.
    line = tmp_path / "line.ndjson"
    line.write_text('{"type": "pageview", "timestamp": "2026-01-01T10:00:00Z", "pathname": "/old", "visit_id": "v"}')
    kept.run("import", str(line), "--website", other)
    until(lambda: changed_copies(kept))
    secrets = stored_secrets(kept.db) | {value, PASSWORD}
    # Shipped in part and never acknowledged.
    gate.choose("shipped", "before", server.process.kill)
    with pytest.raises((OSError, HTTPException)):
        kept.send(server, 899, 900)
    server.kill()

    no_secret_is_legible(clickhouse, secrets)
    standby, lost = second_machine(kept, serve, tmp_path), kept.db
    kept.db = standby.db
    check_refusals(kept, tmp_path, clickhouse)
    for table, moment in (("series", "after"), ("shipped", "before"), ("control", "before"), ("control", "after")):
        kill_recover(kept, gate, table, moment)
        assert not kept.db.exists()
    said = kept.recover()
    assert "recovered" in said
    assert "other.example: ClickHouse did not have all yet (import)" in said
    assert "exists already" in kept.recover(fails=True)
    assert standby.process.stdout is not None
    standby.url = until(standby.process.stdout.readline).decode().removeprefix("listening on ").strip()
    assert kept.figures(accepting(standby)) == figures
    kept.log_in(standby)
    kept.key = value
    counted = standby.request("GET", f"/api/v1/websites/{other}/{RANGE}", None, {"Authorization": f"Bearer {value}"})
    assert counted.json["data"]["pageviews"] == 1
    assert kept.get(standby, RANGE)["data"] == figures[RANGE]
    # An event from before the loss is known, one that was not acknowledged is stored, once.
    for _ in range(2):
        kept.send(standby, *range(45), 899, 900)
    kept.send(standby, 1, type="leave", time_on_page=40, scroll_depth=50)
    assert kept.get(standby, "stats?from=2020-01-02")["data"]["pageviews"] == 95 + 5 + 2
    assert "equal" in kept.cluster("compare", "--days", "400")
    check_fence(kept, serve, lost)
    gate.shutdown()
    gate.server_close()


def changed_copies(site: Kept) -> int:
    """Return how many copies lack a change, by the newest control copy."""
    names, rows = site.copied()["cluster_copy"]
    copies = [dict(zip(names, row, strict=True)) for row in rows]
    return sum(copy["state"] == "joined" and copy["changes"] > 0 for copy in copies)


def accepting(server: Server) -> Server:
    until(lambda: server.request("GET", "/healthz").status == 200, 60)
    return server


def import_some(site: Kept, serve: Serve, folder: Path) -> None:
    """Import events and sums of past days, and have ClickHouse follow until it has them."""
    lines: list[dict[str, Any]] = [
        {"type": "pageview", "timestamp": f"2026-01-0{n}T10:00:00Z", "pathname": "/old", "visit_id": "v"}
        for n in range(1, 6)
    ]
    for field in ("total", "pathname", "entry_page"):
        lines.append({"type": "imported_sum", "day": "2025-12-10", "field": field, "visitors": 7, "pageviews": 50})
    file = folder / "lines.ndjson"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    site.run("import", str(file), "--website", site.id)
    where = ("--clickhouse", site.clickhouse.url, "--cluster-key", str(site.key_file))
    server = serve(*UNLIMITED, "--cluster-mode", "follow", *where)
    site.cluster("join")
    assert server.terminate() == 0


def second_machine(site: Kept, serve: Serve, folder: Path) -> Server:
    """Return a server on standby."""
    (folder / "second").mkdir()
    standby = serve(*site.options, "--standby", "yes", db=folder / "second" / "analytics.db")
    for path in ("/healthz", "/", "/api/v1/websites", "/tracker.js"):
        answer = standby.request("GET", path)
        assert (answer.status, answer.json["error"]["code"]) == (503, "storage_unavailable")
        assert "standby" in answer.json["error"]["message"]
    assert standby.request("POST", "/api/collect", {"events": []}).status == 503
    assert [*standby.db.parent.iterdir()] == []
    return standby


def check_refusals(site: Kept, folder: Path, clickhouse: ClickHouse) -> None:
    wrong = new_key_file(folder, "wrong.txt")
    assert "encrypted for other keys" in site.recover(fails=True, key_file=wrong)
    wrong.chmod(0o644)
    assert "can be read by other users" in site.recover(fails=True, key_file=wrong)
    site.ask(lambda client: client.insert("control", [{"number": 1000, "schema": 77}], "other schema"))
    assert "schema version 77" in site.recover(fails=True)
    site.ask(
        lambda client: client.execute("alter table control delete where number = 1000 settings mutations_sync = 2")
    )
    assert not site.db.exists()
    assert clickhouse.rows("select count() from series") == [[1]]
    # A new file deletes nothing of the lost one.
    new = Kept(folder / "new.db", clickhouse, site.key_file)
    assert "`analytics-server cluster recover` reads them" in new.cluster("init", "--again", fails=True)
    assert "belongs to another file" in new.cluster("init", fails=True)


def kill_recover(site: Kept, gate: Gate, table: str, moment: str) -> None:
    words = ["cluster", "recover", "--clickhouse", gate.url, "--cluster-key", str(site.key_file), "--db", str(site.db)]
    words += ["--cluster-ack-seconds", "1"]
    with subprocess.Popen(
        [sys.executable, str(ROOT / "analytics_server.py"), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
    ) as command:
        gate.choose(table, moment, command.kill)
        assert gate.is_done.wait(60), (table, moment)


def check_fence(site: Kept, serve: Serve, lost: Path) -> None:
    """The lost machine comes back: its server takes neither events nor changes."""
    server = serve(*site.options, db=lost)
    until(lambda: "newer series" in server.stderr())
    answer = server.request(
        "POST", "/api/collect", {"website_id": site.id, "type": "pageview", "url": "https://example.com/late"}
    )
    assert answer.status == 503, answer.body
    site.log_in(server)
    assert site.page(server, "POST", "/websites", {"domain": "late.example", "name": ""}).status == 503


@needs_clickhouse
def test_a_change_is_answered_once_clickhouse_has_it(kept: Kept, serve: Serve, clickhouse: ClickHouse) -> None:
    assert "key file" in kept.run("serve", "--cluster-mode", "keep", "--clickhouse", clickhouse.url, fails=True).stderr
    gate = Gate(clickhouse)
    kept.url = gate.url
    server = accepting(serve(*kept.options))
    kept.log_in(server)
    kept.change(server, "/websites", {"domain": "first.example", "name": ""})
    assert kept.is_copied("first.example")
    # By a command, which the server notices.
    kept.run("website", "add", "second.example")
    until(lambda: kept.is_copied("second.example"))
    # Lost on its way: the change is made, and the next copy has it.
    gate.choose("control", "before", lambda: None)
    answer = kept.page(server, "POST", "/websites", {"domain": "third.example", "name": ""})
    assert (answer.status, answer.json["error"]["message"]) == (503, control.NOT_COPIED_YET)
    until(lambda: kept.is_copied("third.example"))
    until(lambda: kept.page(server, "POST", "/websites", {"domain": "next.example", "name": ""}).status == 201)
    clickhouse.kill()
    until(lambda: "nothing is shipped" in server.stderr())
    answer = kept.page(server, "POST", "/websites", {"domain": "fourth.example", "name": ""})
    assert (answer.status, answer.json["error"]["message"]) == (503, control.AWAY)
    kept.log_in(server)
    clickhouse.start()
    until(lambda: kept.page(server, "POST", "/websites", {"domain": "fifth.example", "name": ""}).status == 201)
    assert kept.is_copied("fifth.example")
    assert not kept.is_copied("fourth.example")
    gate.shutdown()
    gate.server_close()


def stored_secrets(db: Path) -> set[str]:
    """Return what must not be legible anywhere else: hashes, salts and addresses of a file."""
    with closing(sqlite3.connect(db)) as file:
        found = {value for (value,) in file.execute("select value from meta where name = 'key_salt'")}
        found |= {digest.hex() for (digest,) in file.execute("select digest from api_key")}
        for email, password_hash in file.execute("select email, password_hash from person"):
            found |= {email, password_hash}
    return found | {"new@example.com"}


def no_secret_is_legible(clickhouse: ClickHouse, secrets: set[str]) -> None:
    tables = [name for (name,) in clickhouse.rows("show tables")]
    assert "control" in tables
    for (body,) in clickhouse.rows("select body from control"):
        assert base64.b64decode(body).startswith(b"age-encryption.org/v1\n")
    text = "".join(clickhouse.execute(f"select * from {table}").decode() for table in tables)
    assert len(text) > 10_000
    for secret in secrets:
        for form in (secret, secret.encode().hex()):
            assert form not in text, form
