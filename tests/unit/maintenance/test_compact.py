"""compact: returns the space of deleted rows to the disk, changes nothing else, and does not block other processes.

docs/cli.md: it works in small steps, beside a running server. A collect request is answered 202 all the while: the
server's writer gives up a commit that has to wait for two seconds.
"""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics_server import main
from tests.support.aged_database import RAW_TABLES, built_database, rows, run_in_process, sql
from tests.support.app import ROOT
from tests.support.process import Command, Serve, Server, clean_environment, until

TABLES = (
    *RAW_TABLES,
    "rollup_block",
    "total_15m",
    "rollup_state",
    "heatmap_point",
    "heatmap_block",
    "heatmap_count",
)
# Some thousand pages, so that several steps are needed.
JUNK = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 5000) insert into label (text) select"
JUNK += " printf('%d', i) || hex(zeroblob(1800)) from n"
NO_JUNK = "delete from label where length(text) > 3000"


def size(path: Path) -> int:
    """Return the size of the database and its WAL."""
    return sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())


def add_and_delete(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma synchronous = off")
    connection.execute(JUNK)
    connection.execute(NO_JUNK)
    connection.close()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Return a database of which four fifths are free pages."""
    path = built_database(tmp_path)
    whole = size(path)
    add_and_delete(path)
    assert size(path) > 10 * whole
    return path


def free_pages(path: Path) -> int:
    return int(sql(path, "pragma freelist_count")[0][0])


@pytest.mark.slow
def test_space_is_returned_and_nothing_else_changes(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, content = size(db), [rows(db, *TABLES, website=number) for number in (1, 2)]
    labels = sql(db, "select * from label order by id")
    status, out, err = run_in_process(main, capsys, "compact", "--db", str(db))
    assert (status, out) == (0, "")
    assert f"{before:,} bytes before, {size(db):,} now: {before - size(db):,} given back" in err
    assert size(db) < before / 10
    assert free_pages(db) == 0
    assert sql(db, "pragma integrity_check") == [("ok",)]
    assert [rows(db, *TABLES, website=number) for number in (1, 2)] == content
    assert sql(db, "select * from label order by id") == labels
    assert sql(db, "pragma auto_vacuum") == [(2,)], "it can be done again"


@pytest.mark.slow
def test_a_second_run_changes_nothing(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_in_process(main, capsys, "compact", "--db", str(db))[0] == 0
    content, compacted = rows(db, *TABLES), size(db)
    status, out, err = run_in_process(main, capsys, "compact", "--db", str(db))
    assert (status, out) == (0, "")
    assert "0 given back" in err
    assert size(db) == compacted
    assert rows(db, *TABLES) == content


def test_a_killed_run_can_be_repeated(db: Path, command: Command, tmp_path: Path) -> None:
    content, before = rows(db, *TABLES), free_pages(db)
    words = [sys.executable, str(ROOT / "analytics_server.py"), "compact"]
    process = subprocess.Popen(words, cwd=tmp_path, env=clean_environment(), stderr=subprocess.PIPE)
    try:
        until(lambda: free_pages(db) < before)
    finally:
        process.kill()
        process.communicate()
    assert sql(db, "pragma integrity_check") == [("ok",)]
    assert rows(db, *TABLES) == content
    assert command("compact").returncode == 0
    assert (free_pages(db), rows(db, *TABLES)) == (0, content)


class Sender:
    """Sends events one after the other until it is stopped."""

    def __init__(self, server: Server, website: str) -> None:
        self.statuses: list[int] = []
        self._server, self._website = server, website
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        body = {"type": "pageview", "website_id": self._website, "url": "https://1.example.com/sent"}
        while not self._over.is_set():
            self.statuses.append(self._server.request("POST", "/api/collect", body).status)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def sender(db: Path, serve: Serve) -> Iterator[Sender]:
    server = serve("--website-per-minute", "1000000", "--client-per-minute", "1000000")
    sender = Sender(server, sql(db, "select id from website where number = 1")[0][0])
    try:
        until(lambda: sender.statuses)
        yield sender
    finally:
        sender.end()


def sent(db: Path) -> int:
    return int(sql(db, "select count(*) from event join label on label.id = pathname where text = '/sent'")[0][0])


@pytest.mark.slow
def test_while_a_server_runs(db: Path, command: Command, sender: Sender) -> None:
    before, first = size(db), len(sender.statuses)
    done = command("compact")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    # The file becomes smaller when the server next truncates its log, which it does as events arrive.
    until(lambda: len(sender.statuses) > first + 20 and size(db) < before)
    sender.end()
    assert set(sender.statuses) == {202}
    assert sent(db) == len(sender.statuses)
    assert free_pages(db) < 100
    assert sql(db, "pragma integrity_check") == [("ok",)]


def test_while_a_reader_holds_a_snapshot(db: Path, command: Command, sender: Sender) -> None:
    """An export, a backup or a long query holds an old snapshot, so the WAL cannot be truncated; events must not wait
    for that."""
    reader = sqlite3.connect(db, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from event").fetchall()
    try:
        first = len(sender.statuses)
        until(lambda: len(sender.statuses) > first + 5)
        done = command("compact")
        assert done.returncode == 0, done.stderr
        first = len(sender.statuses)
        until(lambda: len(sender.statuses) > first + 5)
    finally:
        reader.close()
        sender.end()
    assert set(sender.statuses) == {202}
    assert command("compact").returncode == 0
    assert free_pages(db) < 100


@pytest.mark.parametrize("word", ["verify", "compact", "retention"])
def test_a_path_without_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    """Each error names the file and the problem: it is not a database."""
    (tmp_path / "notes.txt").write_text("no database " * 1000)
    for name, words in (("none.db", "no database at"), ("notes.txt", "not a SQLite database"), (".", "is a directory")):
        status, out, err = run_in_process(main, capsys, word, "--db", str(tmp_path / name))
        assert (status, out) == (1, "")
        assert str((tmp_path / name).resolve()) in err
        assert words in err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
