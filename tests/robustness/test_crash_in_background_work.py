"""SIGKILL during rollups, retention, a deletion, an import and a backup, each while events arrive.

After a kill at any point, totals and rollups are correct, retention and deletions continue at the next start, the same
import command continues where it was interrupted, and a backup is complete or absent.

The process is killed when another connection reads that the work has progressed by a random amount, so that the work is
interrupted on a machine of any speed. tests/support/ledgers.py records the events that arrive meanwhile. TALLY_KILLS
sets the number of kills.
"""

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.websites import delete_website
from tally.clock import Clock
from tally.engine.values import Scope
from tally.maintenance import retention
from tally.maintenance.deletion import TABLES
from tally.rollups.rollup_state import BLOCK_LEVEL
from tally.storage.database import connect_reader, open_database, transaction
from tests.support.app import ROOT
from tests.support.ledgers import (
    Ledger,
    assert_empty,
    check_killed_database,
    differences_from_raw_rows,
    found,
    inconsistencies,
    iso,
    new_file,
    parts,
    rng_of,
    send_again,
    sending,
)
from tests.support.process import UNLIMITED, Serve, Server, clean_environment, until
from tests.support.rollup_database import DAY_MS, Reference, fill, stored_facts, table_errors


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


def started(db: Path, *words: str) -> "subprocess.Popen[str]":
    """Start a command in the background."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "analytics_server.py"), *words, "--db", str(db)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=clean_environment(),
        cwd=db.parent,
    )


def killed(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate(timeout=60)


# --- background work


def wait_until(server: Server, is_true: Callable[[], Any]) -> None:
    """Wait until the condition is true, and print the server's log. Fail if the server has exited."""
    try:
        until(lambda: is_true() or server.process.poll() is not None, 180)
    finally:
        print(f"exit {server.process.poll()}; standard error:", server.stderr())
    assert server.process.poll() is None, server.stderr()


def kill_during(
    server: Server, progress: Callable[[], int], most: Callable[[], int], rng: random.Random, begin: Callable[[], Any]
) -> None:
    """Begin some work, and kill the server when `progress` has changed by a random amount up to `most`."""
    before, enough = progress(), rng.randrange(most() + 1)
    begin()
    wait_until(server, lambda: abs(progress() - before) >= enough)
    server.kill()


class OldDays:
    """Old days of websites 2 and 3, while website 1 receives events. Their figures do not change while rollups are
    built, after raw events have expired, and while the other one of them is deleted."""

    def __init__(self, db: Path) -> None:
        self.db = db
        self.key, self.ids = new_file(db, 3)
        today = Clock().wall_ms() // DAY_MS
        # Two blocks of days that are over for good.
        first = ((today >> BLOCK_LEVEL) - 2 << BLOCK_LEVEL) - 5
        self.days = range(first, first + 10)
        for website in (2, 3):
            fill(db, website, self.days, 700)
        self.reader = connect_reader(db)
        self.want = {website: self._counted(website) for website in (2, 3)}

    def questions(self, website: int) -> list[str]:
        """Return the queries of all these days, which begin when the website's days begin."""
        statement = "select day_offset_minutes * 60000 from website where number = ?"
        ((offset_ms,),) = self.reader.execute(statement, (website,)).fetchall()
        span = f"from={iso(self.days[0] * DAY_MS - offset_ms)}&to={iso((self.days[-1] + 1) * DAY_MS - offset_ms)}"
        return [what + span for what in ("stats?", "timeseries?interval=day&", "top/os?", "top/pathname?limit=30&")]

    def _counted(self, website: int) -> list[Any]:
        """Return the figures counted from the raw rows, before any of them is deleted."""
        plain = Reference(stored_facts(self.reader, website))
        scope = Scope(website, self.days[0] * DAY_MS, (self.days[-1] + 1) * DAY_MS)
        names = ("visitors", "visits", "pageviews", "events")
        edges = [(day * DAY_MS, (day + 1) * DAY_MS) for day in self.days]
        tops = [plain.top(scope, field, 30)[1] for field in ("os", "pathname")]
        return [
            {name: getattr(plain.stats(scope), name) for name in names},
            [dict(zip(names, row, strict=True)) for row in plain.series(scope, edges)],
            *(
                [dict(zip(("value", "visitors", "pageviews", "events"), row, strict=True)) for row in top]
                for top in tops
            ),
        ]

    def check_figures(self, server: Server, *websites: int) -> None:
        """Check that the responses to queries of these websites have the expected figures."""
        for website in websites:
            got = []
            for question, want in zip(self.questions(website), self.want[website], strict=True):
                path = f"/api/v1/websites/{self.ids[website - 1]}/{question}"
                answer = server.request("GET", path, headers={"Authorization": f"Bearer {self.key}"})
                assert answer.status == 200, answer.text
                data = answer.json["data"]
                got.append({name: data[name] for name in want} if isinstance(data, dict) else data)
                for row in data if "timeseries" in question else ():
                    del row["time"]
            assert got == self.want[website]

    def count(self, *tables: str, website: int) -> int:
        """Return the number of rows of a website."""
        parts = " + ".join(f"(select count(*) from {table} where website = {website})" for table in tables)
        return int(self.reader.execute(f"select {parts}").fetchone()[0])

    def built(self) -> int:
        """Return a number that grows with nearly every step: rows are added, and those of packed events go."""
        return sum(
            self.count("rollup_block", "day_column", "total_15m", "rollup_state", website=website)
            - self.count("event", "visit", website=website)
            for website in (2, 3)
        )

    def is_built(self) -> bool:
        """Return whether no day is stale or has rows, and both blocks of days of each website are built."""
        stale = self.reader.execute("select count(*) from rollup_state where state = 0 and website > 1").fetchone()[0]
        blocks = self.reader.execute(
            "select count(*) from rollup_state where kind = 0 and level = ? and state = 2 and website > 1",
            (BLOCK_LEVEL,),
        ).fetchone()[0]
        return not stale and blocks == 4 and not any(self.count("event", website=website) for website in (2, 3))

    def begin(self, step: Callable[..., Any], *what: Any) -> None:
        """Change the database in a transaction of another connection, as a command does."""
        with closing(open_database(self.db, create=False)) as connection, transaction(connection):
            step(connection, *what)


@parts
def test_sigkill_during_rollups_retention_and_deletion(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """Two kills during each kind of work, while events arrive for another website."""
    rng = rng_of(part, "kills during background work")
    old = OldDays(db)
    ledger = Ledger(old.ids[0], f"work{part}")

    def kill_twice(
        progress: Callable[[], int], most: Callable[[], int], begin: Callable[[], None], websites: Sequence[int]
    ) -> None:
        for attempt in range(2):
            server = serve(*UNLIMITED)
            old.check_figures(server, *websites)
            with sending(server, ledger, clients=2, rest_s=0.1):
                kill_during(server, progress, most, rng, begin if attempt == 0 else lambda: None)
            check_killed_database(db, tmp_path / "dead", ledger)
            for website in (1, *websites):
                assert_empty(table_errors(old.reader, website))

    def raw(website: int) -> int:
        return old.count("event", "visit", "packed_day", "day_column", website=website)

    kill_twice(old.built, lambda: 8_000, lambda: None, (2, 3))
    server = serve(*UNLIMITED)
    wait_until(server, old.is_built)
    old.check_figures(server, 2, 3)
    server.kill()

    # Half of what is left: a kill comes later than its condition.
    kill_twice(lambda: raw(2), lambda: raw(2) // 2, lambda: old.begin(retention.set_keep_days, 2, 12), (2, 3))
    server = serve(*UNLIMITED)
    wait_until(server, lambda: raw(2) == 0)
    old.check_figures(server, 2, 3)
    server.kill()

    tables = [table for table, _ in TABLES]
    delete = (delete_website, 3, Clock().wall_ms())

    def left() -> int:
        return old.count(*tables, website=3)

    kill_twice(left, lambda: left() // 2, lambda: old.begin(*delete), (2,))
    server = serve(*UNLIMITED)
    deleted = server.request(
        "GET", f"/api/v1/websites/{old.ids[2]}/stats", headers={"Authorization": f"Bearer {old.key}"}
    )
    assert deleted.status == 404
    wait_until(server, lambda: old.count(*tables, website=3) == 0)
    old.check_figures(server, 2)
    send_again(server, ledger)
    assert_empty(differences_from_raw_rows(server, old.key, old.ids[0], db))
    assert server.terminate() == 0
    check_killed_database(db, tmp_path / "dead", ledger)
    assert "ERROR" not in server.stderr()
    old.reader.close()


# --- an import

LINES = 40_000


def write_lines(path: Path, now_ms: int) -> None:
    """Write lines of 800 visitors over 60 days, in random order, each with its own path; every second one has an id."""
    rng = random.Random(7)
    with path.open("w") as file:
        for n in range(LINES):
            line = {"type": "pageview", "timestamp": now_ms - rng.randrange(60 * DAY_MS), "pathname": f"/line-{n}"}
            line |= {"visitor": f"{rng.randrange(800)}", "os": rng.choice(("Linux", "iOS"))}
            file.write(json.dumps(line | ({"id": f"line {n}"} if n % 2 else {})) + "\n")


@parts
def test_sigkill_during_an_import(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """Kill the import, the server or both, and run the same command again. Every line is stored once, with or without
    an id, and so is every event that arrived meanwhile for the same website."""
    rng = rng_of(part, "kills during an import")
    key, (website,) = new_file(db)
    ledger = Ledger(website, f"import{part}")
    write_lines(tmp_path / "lines.ndjson", Clock().wall_ms())
    words = ("import", "lines.ndjson", "--website", "example.com")
    reader = connect_reader(db)

    def imported() -> int:
        """Return the number of imported lines that the database records; 0 after the import."""
        row = reader.execute("select progress from import where progress is not null").fetchone()
        progress = json.loads(row[0]) if row else {"lines": 0, "done": 0}
        return int(progress["lines"] + progress["done"])

    server = serve(*UNLIMITED)
    process: subprocess.Popen[str] | None = None
    kills, is_over = 0, False
    while not is_over:
        target = rng.choice(("the import", "the import", "the server", "both"))
        before, enough = imported(), rng.randrange(1, 16_000)
        with sending(server, ledger, clients=2, rest_s=0.1):
            process = process or started(db, *words)
            until(lambda: imported() - before >= enough or process.poll() is not None, 180)  # noqa: B023
            is_over = process.poll() is not None
            if not is_over and target != "the server":
                killed(process)
            if not is_over and target != "the import":
                server.kill()
        if not is_over and target == "both":
            check_killed_database(db, tmp_path / "dead", ledger)
        if not is_over and target != "the import":
            server = serve(*UNLIMITED)
        if not is_over and target != "the server":
            process = None
        kills += not is_over
    assert process is not None
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert kills
    print("kills:", kills)
    send_again(server, ledger)
    # Some lines are stored by column alone.
    without_rows = "select 1 from packed_day where raw_rows = 0"
    wait_until(server, lambda: reader.execute(without_rows).fetchone())
    assert_empty(differences_from_raw_rows(server, key, website, db))
    assert server.terminate() == 0
    check_killed_database(db, tmp_path / "dead", ledger)
    kept = found(reader, 1)
    assert [n for n in range(LINES) if kept[f"line-{n}"] != 1] == []
    assert_empty(table_errors(reader, 1))
    reader.close()


# --- a backup


def missing_from(copy: Path, website: int, ledger: Ledger, before: set[str]) -> list[str]:
    """Return the errors of a backup: missing events of `before`, requests stored in part, inconsistent rows."""
    with closing(sqlite3.connect(copy)) as connection:
        kept = found(connection, website)
        wrong = [f"{marker} is not in the backup" for marker in before - kept.keys()]
        for request in list(ledger.requests):
            if len({kept[marker] for marker in request.markers}) > 1:
                wrong.append(f"half a request: {[(marker, kept[marker]) for marker in request.markers]}")
        return wrong + inconsistencies(connection, website)


@parts
def test_sigkill_during_a_backup(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """Kill the backup or the server. The backup file is absent, or a complete copy with every event acknowledged before
    the command began; the database is intact."""
    rng = rng_of(part, "kills during a backup")
    _, (website,) = new_file(db)
    with closing(sqlite3.connect(db)) as connection:
        # 60 MB, so that the backup can be killed while it copies.
        for n in range(60):
            connection.execute("insert into meta values (?, zeroblob(1000000))", (f"weight {n}",))
        connection.commit()
    ledger = Ledger(website, f"backup{part}")
    folder = tmp_path / "backups"
    folder.mkdir()
    server = serve(*UNLIMITED)

    def begin_backup(name: str) -> tuple["subprocess.Popen[str]", float, set[str]]:
        """Start a backup and wait until it writes. Return its process, the time, and the events acknowledged before."""
        there = set(folder.iterdir())
        before = ledger.markers("acknowledged")
        process = started(db, "backup", str(folder / name))
        while not set(folder.iterdir()) - there:
            assert process.poll() is None, process.communicate()
        return process, time.monotonic(), before

    complete = []
    with sending(server, ledger, clients=3, rest_s=0.005) as clients:
        until(lambda: all(client.answered for client in clients))
        process, begun, before = begin_backup("first.db")
        until((folder / "first.db").exists, 120)
        takes_s = time.monotonic() - begun
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
        assert_empty(missing_from(folder / "first.db", 1, ledger, before))
        for kill in range(6):
            process, _, before = begin_backup(f"{kill}.db")
            time.sleep(takes_s * rng.random())
            killed(process)
            if (folder / f"{kill}.db").exists():
                complete.append(kill)
                assert_empty(missing_from(folder / f"{kill}.db", 1, ledger, before))
    print("complete although killed:", complete)
    for kill in range(2):
        with sending(server, ledger, clients=3):
            process, _, before = begin_backup(f"server{kill}.db")
            time.sleep(takes_s * rng.random())
            server.kill()
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
        assert_empty(missing_from(folder / f"server{kill}.db", 1, ledger, before))
        check_killed_database(db, tmp_path / "dead", ledger)
        server = serve(*UNLIMITED)
    assert server.terminate() == 0
    check_killed_database(db, tmp_path / "dead", ledger)
