"""Killed amid work: rollups, retention, a deletion, an import, a backup, each beside events that come in.

What each promises, where it is built: totals and rollups, "killed at any
point, the file says what is right"; what is let go or deleted, "killed at any point, the next start goes on"; an
import, "the same command goes on where this one was interrupted"; a backup is whole or not there.

A kill comes when another connection sees that the work has gone on by a random amount, so it is amid the work on any
machine. tests/support/ledgers.py keeps the ledger of the events that come in meanwhile. TALLY_KILLS=1000 makes a long
run.
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

from tally.clock import Clock
from tally.maintenance import deletion, retention
from tally.maintenance.deletion import TABLES
from tally.storage.database import connect_reader, open_database, transaction
from tally.storage.sql.events import Scope
from tests.support.app import ROOT
from tests.support.ledgers import (
    Ledger,
    broken,
    chance_of,
    check_dead,
    facts,
    found,
    iso,
    new_file,
    nothing,
    parts,
    send_again,
    sending,
    unlike_raw_rows,
)
from tests.support.process import UNLIMITED, Serve, Server, clean_environment, until
from tests.support.rollup_database import DAY_MS, Plain, fill, wrong_tables


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


def started(db: Path, *words: str) -> "subprocess.Popen[str]":
    """A command that runs beside the test."""
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


# --- work in the background


def comes(server: Server, holds: Callable[[], Any]) -> None:
    """Waits until it holds; tells what the server said where it never does."""
    try:
        until(lambda: holds() or server.process.poll() is not None, 180)
    finally:
        print(f"exit {server.process.poll()}; it said:", server.stderr())
    assert server.process.poll() is None, server.stderr()


def amid(server: Server, progress: Callable[[], int], most: int, draw: random.Random, begin: Callable[[], Any]) -> None:
    """Has some work begun, and kills the server when it has gone on by up to `most`."""
    before, enough = progress(), draw.randrange(1, most)
    begin()
    comes(server, lambda: abs(progress() - before) >= enough)
    server.kill()


class Past:
    """Old days of two websites beside one that gets events. What their answers were, they are: while rollups are
    built, after single events have gone, and while the other website is being deleted."""

    def __init__(self, db: Path) -> None:
        self.db = db
        self.key, self.ids = new_file(db, 3)
        today = Clock().wall_ms() // DAY_MS
        self.days = range(today // 8 * 8 - 24, today // 8 * 8 - 14)
        for website in (2, 3):
            fill(db, website, self.days, 700)
        self.reader = connect_reader(db)
        self.questions = [f"{what}from={iso(self.days[0] * DAY_MS)}&to={iso((self.days[-1] + 1) * DAY_MS)}" for what in
                          ("stats?", "timeseries?interval=day&", "top/os?", "top/pathname?limit=30&")]  # fmt: skip
        self.want = {website: self._counted(website) for website in (2, 3)}

    def _counted(self, website: int) -> list[Any]:
        """The answers by plain counting of raw rows, which are there still."""
        plain = Plain(facts(self.reader, website))
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

    def is_answered(self, server: Server, *websites: int) -> None:
        """Asks about these websites."""
        for website in websites:
            got = []
            for question, want in zip(self.questions, self.want[website], strict=True):
                path = f"/api/v1/websites/{self.ids[website - 1]}/{question}"
                answer = server.request("GET", path, headers={"Authorization": f"Bearer {self.key}"})
                assert answer.status == 200, answer.text
                data = answer.json["data"]
                got.append({name: data[name] for name in want} if isinstance(data, dict) else data)
                for row in data if "timeseries" in question else ():
                    del row["time"]
            assert got == self.want[website]

    def count(self, *tables: str, website: int) -> int:
        """Rows of a website."""
        parts = " + ".join(f"(select count(*) from {table} where website = {website})" for table in tables)
        return int(self.reader.execute(f"select {parts}").fetchone()[0])

    def built(self) -> int:
        return sum(self.count("rollup", "total_15m", "rollup_state", website=website) for website in (2, 3))

    def is_built(self) -> bool:
        """No day is stale, and of each website both blocks of 8 days are there."""
        stale = self.reader.execute("select count(*) from rollup_state where state = 0 and website > 1").fetchone()[0]
        blocks = self.reader.execute("select count(*) from rollup_state where level = 3 and website > 1").fetchone()[0]
        return not stale and blocks == 4

    def begin(self, step: Callable[..., Any], *what: Any) -> None:
        """Does what a command or a page does."""
        with closing(open_database(self.db, create=False)) as connection, transaction(connection):
            step(connection, *what)


@parts
def test_amid_rollups_retention_and_a_deletion(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """One after the other, two kills in each, while events come in for another website."""
    draw = chance_of(part, "kills amid the work in the background")
    past = Past(db)
    ledger = Ledger(past.ids[0], f"amid{part}")

    def kill_twice(progress: Callable[[], int], most: int, begin: Callable[[], None], websites: Sequence[int]) -> None:
        for again in range(2):
            server = serve(*UNLIMITED)
            past.is_answered(server, *websites)
            with sending(server, ledger, clients=2, rest_s=0.1):
                amid(server, progress, most, draw, begin if not again else lambda: None)
            check_dead(db, tmp_path / "dead", ledger)
            for website in (1, *websites):
                nothing(wrong_tables(past.reader, website))

    def raw(website: int) -> int:
        return past.count("event", "visit", website=website)

    kill_twice(past.built, 6_000, lambda: None, (2, 3))
    server = serve(*UNLIMITED)
    comes(server, past.is_built)
    past.is_answered(server, 2, 3)
    server.kill()

    events = raw(2)
    kill_twice(lambda: raw(2), events // 2 - 10, lambda: past.begin(retention.set_keep_days, 2, 12), (2, 3))
    server = serve(*UNLIMITED)
    comes(server, lambda: raw(2) == 0)
    past.is_answered(server, 2, 3)
    server.kill()

    tables = [table for table, _ in TABLES]
    rows = past.count(*tables, website=3)
    delete = (deletion.delete_website, 3, Clock().wall_ms())
    kill_twice(lambda: past.count(*tables, website=3), rows // 2 - 10, lambda: past.begin(*delete), (2,))
    server = serve(*UNLIMITED)
    gone = server.request(
        "GET", f"/api/v1/websites/{past.ids[2]}/stats", headers={"Authorization": f"Bearer {past.key}"}
    )
    assert gone.status == 404
    comes(server, lambda: past.count(*tables, website=3) == 0)
    past.is_answered(server, 2)
    send_again(server, ledger)
    nothing(unlike_raw_rows(server, past.key, past.ids[0], db))
    assert server.terminate() == 0
    check_dead(db, tmp_path / "dead", ledger)
    assert "ERROR" not in server.stderr()
    past.reader.close()


# --- an import

LINES = 40_000


def write_lines(path: Path, now_ms: int) -> None:
    """Lines of 800 visitors over 60 days and today, in no order; every second one has an id. Each has its own path."""
    chance = random.Random(7)
    with path.open("w") as file:
        for n in range(LINES):
            line = {"type": "pageview", "timestamp": now_ms - chance.randrange(60 * DAY_MS), "pathname": f"/line-{n}"}
            line |= {"visitor": f"{chance.randrange(800)}", "os": chance.choice(("Linux", "iOS"))}
            file.write(json.dumps(line | ({"id": f"line {n}"} if n % 2 else {})) + "\n")


@parts
def test_amid_an_import(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """The import is killed, or the server beside it, or both; the same command goes on. Every line is there once, with
    an id or without, and so is every event that came in meanwhile for the same website."""
    draw = chance_of(part, "kills amid an import")
    key, (website,) = new_file(db)
    ledger = Ledger(website, f"import{part}")
    write_lines(tmp_path / "lines.ndjson", Clock().wall_ms())
    words = ("import", "lines.ndjson", "--website", "example.com")
    reader = connect_reader(db)

    def taken() -> int:
        """The lines that have been taken, as the file says it; none once it is over."""
        row = reader.execute("select value from meta where name like 'import:%'").fetchone()
        progress = json.loads(row[0]) if row else {"lines": 0, "done": 0}
        return int(progress["lines"] + progress["done"])

    server = serve(*UNLIMITED)
    process: subprocess.Popen[str] | None = None
    kills, is_over = 0, False
    while not is_over:
        whom = draw.choice(("the import", "the import", "the server", "both"))
        before, enough = taken(), draw.randrange(1, 9_000)
        with sending(server, ledger, clients=2, rest_s=0.1):
            process = process or started(db, *words)
            until(lambda: taken() - before >= enough or process.poll() is not None, 180)  # noqa: B023
            is_over = process.poll() is not None
            if not is_over and whom != "the server":
                killed(process)
            if not is_over and whom != "the import":
                server.kill()
        if not is_over and whom == "both":
            check_dead(db, tmp_path / "dead", ledger)
        if not is_over and whom != "the import":
            server = serve(*UNLIMITED)
        if not is_over and whom != "the server":
            process = None
        kills += not is_over
    assert process is not None
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert kills
    print("kills:", kills)
    send_again(server, ledger)
    nothing(unlike_raw_rows(server, key, website, db))
    assert server.terminate() == 0
    check_dead(db, tmp_path / "dead", ledger)
    kept = found(reader, 1)
    assert [n for n in range(LINES) if kept[f"line-{n}"] != 1] == []
    nothing(wrong_tables(reader, 1))
    reader.close()


# --- a backup


def not_whole(copy: Path, website: int, ledger: Ledger, before: set[str]) -> list[str]:
    """What a backup lacks of what was acknowledged before it began, or has by half."""
    with closing(sqlite3.connect(copy)) as connection:
        kept = found(connection, website)
        wrong = [f"{marker} is not in the backup" for marker in before - kept.keys()]
        for request in list(ledger.requests):
            if len({kept[marker] for marker in request.markers}) > 1:
                wrong.append(f"half a request: {[(marker, kept[marker]) for marker in request.markers]}")
        return wrong + broken(connection, website)


@parts
def test_amid_a_backup(part: int, serve: Serve, db: Path, tmp_path: Path) -> None:
    """The backup is killed, or the server beside it. Under the name that was asked for there is nothing, or a whole
    copy with all that was acknowledged before the command was given; the database is none the worse."""
    draw = chance_of(part, "kills amid a backup")
    _, (website,) = new_file(db)
    with closing(sqlite3.connect(db)) as connection:
        # 60 MB, so that copying takes a while.
        for n in range(60):
            connection.execute("insert into meta values (?, zeroblob(1000000))", (f"weight {n}",))
        connection.commit()
    ledger = Ledger(website, f"backup{part}")
    folder = tmp_path / "backups"
    folder.mkdir()
    server = serve(*UNLIMITED)

    def asked(name: str) -> tuple["subprocess.Popen[str]", float, set[str]]:
        """A backup that has begun to write, when it began, and what had been acknowledged before."""
        there = set(folder.iterdir())
        before = ledger.markers("acknowledged")
        process = started(db, "backup", str(folder / name))
        while not set(folder.iterdir()) - there:
            assert process.poll() is None, process.communicate()
        return process, time.monotonic(), before

    whole = []
    with sending(server, ledger, clients=3, rest_s=0.005) as clients:
        until(lambda: all(client.answered for client in clients))
        process, begun, before = asked("first.db")
        until((folder / "first.db").exists, 120)
        takes_s = time.monotonic() - begun
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
        nothing(not_whole(folder / "first.db", 1, ledger, before))
        for kill in range(6):
            process, _, before = asked(f"{kill}.db")
            time.sleep(takes_s * draw.random())
            killed(process)
            if (folder / f"{kill}.db").exists():
                whole.append(kill)
                nothing(not_whole(folder / f"{kill}.db", 1, ledger, before))
    print("whole although killed:", whole)
    for kill in range(2):
        with sending(server, ledger, clients=3):
            process, _, before = asked(f"server{kill}.db")
            time.sleep(takes_s * draw.random())
            server.kill()
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
        nothing(not_whole(folder / f"server{kill}.db", 1, ledger, before))
        check_dead(db, tmp_path / "dead", ledger)
        server = serve(*UNLIMITED)
    assert server.terminate() == 0
    check_dead(db, tmp_path / "dead", ledger)
