"""A disk that an import, background work or other programs fill: events are collected on, and every way out works.

The tests run the real server, and its process for imports, on a small file system.
"""

import gzip
import os
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tally.accounts.accounts import find_account
from tally.accounts.api_keys import Grant, create_api_key
from tally.notices import outbox
from tally.notices.outbox import New
from tally.storage.database import MAX_WAL_BYTES
from tally.storage.disk_space import FULL_LOG_BYTES
from tally.storage.wal import size_bytes
from tally.timestamps import DAY_MS
from tests.robustness.test_min_free_disk import EMAIL, PASSWORD, Browser, fill, make_database
from tests.robustness.test_notices import Hook, manage, states
from tests.support.app import CHROME, ROOT
from tests.support.process import Command, Serve, Server, clean_environment, until
from tests.support.receiver import says

MB = 1_000_000
MINIMUM = 40 * 1_048_576 // 20
TOO_LITTLE = "too little free space"


def lines(count: int) -> bytes:
    """Return a file whose rows take more than ten times its size."""
    rng = random.Random(1)
    found = [
        f'{{"id":{n},"type":"pageview","timestamp":{1_704_067_200_000 + n % 280 * 86_400_000 + n % 86_000 * 1_000},'
        f'"visitor":"{rng.randrange(60_000)}","pathname":"/p{rng.randrange(3_000)}"}}\n'
        for n in range(count)
    ]
    return gzip.compress("".join(found).encode(), 6)


class Installation:
    """A server with two websites, of which the first gets an import."""

    def __init__(self, place: Path, serve: Serve) -> None:
        self.place, self.db = place, place / "analytics.db"
        self.website, self.other, self.key = make_database(self.db)
        self.server: Server = serve(db=self.db)
        self.browser = Browser(self.server)
        assert self.browser.ask("POST", "/api/account/login", {"email": EMAIL, "password": PASSWORD}).status == 200
        self.path = f"/api/account/websites/{self.website}/imports"
        self.longest_log = 0

    def collect(self) -> int:
        event = {"type": "pageview", "url": "https://example.org/", "website_id": self.other}
        return self.server.request("POST", "/api/collect", event, {"User-Agent": CHROME}).status

    def free(self) -> int:
        disk = os.statvfs(self.place)
        return disk.f_bavail * disk.f_frsize

    def state(self) -> Any:
        log = Path(f"{self.db}-wal")
        self.longest_log = max(self.longest_log, log.stat().st_size if log.exists() else 0)
        return self.browser.ask("GET", self.path).json["data"]

    def has(self, *states: str) -> bool:
        upload = self.state()["upload"]
        return (upload["state"] if upload else "none") in states

    def upload(self, content: bytes) -> None:
        sent = {"name": "a.gz", "format": "tally", "size": len(content)}
        assert self.browser.ask("POST", f"{self.path}/upload", sent).status == 201
        for offset in range(0, len(content), MB):
            piece = content[offset : offset + MB]
            assert self.browser.ask("PATCH", f"{self.path}/upload?offset={offset}", piece).status == 200
        until(lambda: self.has("checked"), 120)

    def run(self) -> None:
        """Import until the import is over or has stopped."""
        assert self.browser.ask("POST", self.path, {}).status == 202
        until(lambda: self.has("interrupted", "none"), 300)


@pytest.fixture
def stopped(disk: Path, serve: Serve) -> Installation:
    """An import that has stopped because another program has taken most of the disk."""
    one = Installation(disk, serve)
    one.upload(lines(40_000))
    fill(disk, 8 * MB)
    one.run()
    return one


def test_an_import_stops_before_events_are_refused(stopped: Installation) -> None:
    data = stopped.state()
    assert (data["upload"]["state"], data["imports"][0]["state"]) == ("interrupted", "interrupted")
    assert TOO_LITTLE in data["upload"]["error"]
    assert 0 < data["imports"][0]["events"] < 40_000
    assert stopped.free() > MINIMUM
    # Background work builds the days of the import meanwhile.
    for _ in range(20):
        assert stopped.collect() == 202
        time.sleep(0.25)
    assert stopped.free() > MINIMUM
    # The log is emptied while the import writes: it had what was left of the disk.
    assert stopped.longest_log < 4 * MB
    # With space, the import continues where it stopped.
    (stopped.place / "others").unlink()
    stopped.run()
    (found,) = stopped.state()["imports"]
    assert (found["state"], found["events"], found["duplicates"]) == ("complete", 40_000, 0)


def test_the_command_stops_too(disk: Path, serve: Serve, command: Command, tmp_path: Path) -> None:
    one = Installation(disk, serve)
    file = tmp_path / "a.gz"
    file.write_bytes(lines(40_000))
    fill(disk, 8 * MB)
    words = ("import", str(file), "--website", one.website, "--db", str(one.db))
    done = command(*words)
    assert (done.returncode, TOO_LITTLE in done.stderr) == (1, True)
    assert one.state()["imports"][0]["state"] == "interrupted"
    assert one.collect() == 202
    # Without a server the command empties the log itself.
    one.server.terminate()
    done = command(*words)
    assert (done.returncode, TOO_LITTLE in done.stderr) == (1, True)
    assert one.free() > MINIMUM


@pytest.mark.in_turn
@pytest.mark.parametrize("way", ["remove the upload", "undo", "delete the website", "retention"])
def test_ways_out_of_a_full_disk(stopped: Installation, way: str, command: Command) -> None:
    """Another program takes the rest of the disk. What frees space works, and then events are accepted."""
    one = stopped
    if way == "remove the upload":
        # It is small: the rest is what another program gives back.
        (one.place / "given back").write_bytes(b"\0" * 2 * MB)
    fill(one.place, 0)
    until(lambda: one.collect() == 503)
    until(lambda: not Path(f"{one.db}.reserve").exists())
    # What was imported last may be in the log alone.
    size = size_bytes(one.db)
    if way == "remove the upload":
        assert one.browser.ask("DELETE", f"{one.path}/upload", {}).status == 200
        assert one.state()["upload"] is None
        (one.place / "given back").unlink()
    elif way == "undo":
        assert one.browser.ask("POST", f"{one.path}/1/undo", {}).status == 202
        until(lambda: one.state()["imports"][0]["state"] == "undone", 300)
    elif way == "delete the website":
        gone = one.browser.ask("DELETE", f"/api/account/websites/{one.website}", {"domain": "example.com"})
        assert gone.status == 202
        until(lambda: not list(Path(f"{one.db}.uploads").iterdir()))
    else:
        done = command("retention", one.website, "30", "--yes", "--db", str(one.db))
        assert done.returncode == 0, done.stderr
    until(lambda: one.collect() == 202, 300)
    # Free pages are given back while the disk has too little space for events; other ways free enough without them.
    if way == "undo":
        until(lambda: size_bytes(one.db) < size, 300)
    assert one.server.terminate() == 0


def test_the_reserve_is_taken_again(disk: Path, serve: Serve) -> None:
    one = Installation(disk, serve)
    reserve = Path(f"{one.db}.reserve")
    until(lambda: reserve.exists() and reserve.stat().st_blocks * 512 >= MINIMUM - 4_096)
    fill(disk, 0)
    until(lambda: "its reserve is given up" in one.server.stderr())
    assert not reserve.exists()
    (disk / "others").unlink()
    until(reserve.exists)
    assert one.server.terminate() == 0
    assert not reserve.exists()


@pytest.mark.in_turn
@pytest.mark.slow
def test_the_log_stays_within_its_bound_on_a_large_disk(tmp_path: Path, serve: Serve) -> None:
    """Another program reads meanwhile, as a backup does, so that nothing can empty the log: the import waits for it."""
    one = Installation(tmp_path, serve)
    file, errors, log = tmp_path / "a.gz", tmp_path / "errors", Path(f"{one.db}-wal")
    file.write_bytes(lines(120_000))
    words = [sys.executable, str(ROOT / "analytics_server.py"), "import", str(file), "--website", one.website]
    with errors.open("wb") as out, closing(sqlite3.connect(one.db, isolation_level=None)) as reader:
        reader.execute("begin")
        assert reader.execute("select * from website").fetchall()
        sizes = []
        process = subprocess.Popen([*words, "--db", str(one.db)], env=clean_environment(), stderr=out)
        try:
            while process.poll() is None:
                sizes.append(log.stat().st_size)
                if reader.in_transaction and "waiting: " in errors.read_text():
                    assert one.collect() == 202
                    reader.execute("rollback")
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, errors.read_text()
    assert FULL_LOG_BYTES < max(sizes) <= MAX_WAL_BYTES
    assert one.state()["imports"][0]["events"] == 120_000


def content(db: Path) -> list[str]:
    """Return the schema and all rows of a database."""
    with closing(sqlite3.connect(db)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return list(connection.iterdump())


@pytest.mark.parametrize("left", [0, MB // 4])
def test_compact_on_a_full_disk_says_so_and_loses_nothing(disk: Path, command: Command, left: int) -> None:
    """Pages move in SQLite's log, which needs space. The disk is full from the start, or after some steps."""
    db = disk / "analytics.db"
    make_database(db)
    many = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 2000)"
    for statement in (
        f"{many} insert into meta (name, value) select 'free ' || i, zeroblob(4000) from n",
        f"{many} insert into meta (name, value) select 'kept ' || i, zeroblob(500) from n",
        "delete from meta where name like 'free %'",
    ):
        with closing(sqlite3.connect(db)) as connection, connection:
            connection.execute(statement)
    before, size = content(db), db.stat().st_size
    fill(disk, left)
    done = command("compact", "--db", str(db))
    assert (done.returncode, "its disk is full or fails" in done.stderr, "free space" in done.stderr) == (1, True, True)
    (disk / "others").unlink()
    assert content(db) == before
    done = command("compact", "--db", str(db))
    assert (done.returncode, db.stat().st_size < size / 2) == (0, True), done.stderr
    assert content(db) == before


def test_notices_on_a_full_disk_are_neither_lost_nor_doubled(disk: Path, serve: Serve) -> None:
    """A message is under way while the disk fills: its end is recorded, and the rest is sent, once there is space."""
    db, hook, options = disk / "analytics.db", Hook(), ("--notify-networks", "127.0.0.0/8")
    make_database(db)
    with closing(sqlite3.connect(db)) as connection, connection:
        key = create_api_key(connection, find_account(connection, EMAIL), "", 0, Grant(("manage",)))
    server = serve(*options, db=db)
    channel = {"kind": "webhook", "name": "Ops", "url": f"http://127.0.0.1:{hook.server_port}/"}
    manage(server, key, "POST", "/channels", channel)
    assert server.terminate() == 0
    now_ms = time.time_ns() // 1_000_000
    with closing(sqlite3.connect(db)) as connection, connection:
        for number in range(3):
            assert outbox.add(connection, New(1, "test", f"{number}", says("A", "B"), now_ms + DAY_MS), now_ms) == 1
    hook.gate.clear()
    server = serve(*options, db=db)
    until(lambda: len(hook.ids) == 1)
    fill(disk, 0)
    until(lambda: server.request("GET", "/healthz").status == 503)
    hook.gate.set()
    # A change answers either way, and is either made or not.
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    answer = server.request("POST", "/api/v1/channels", {"kind": "feed", "name": "Reader"}, headers)
    assert answer.status in (201, 503), answer.text
    (disk / "others").unlink()
    until(lambda: states(db) == ["sent"] * 3)
    listed = [one["name"] for one in manage(server, key, "GET", "/channels")]
    assert listed == ["Ops", "Reader"][: 1 + (answer.status == 201)]
    assert server.terminate() == 0
    assert len(hook.ids) == len(set(hook.ids)) == 3
    assert "Traceback" not in server.stderr()
    hook.shutdown()
    hook.server_close()
