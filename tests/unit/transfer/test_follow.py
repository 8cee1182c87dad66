"""tally/transfer/follow.py: a log that is written and rotated while it is imported counts each line once."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tally.storage.database import open_database
from tally.transfer import follow
from tally.transfer.follow import Follower
from tally.transfer.importer import Bounds
from tests.support.app import NOON_MS, unpacked_countries
from tests.support.imports import Imports
from tests.support.process import until
from tests.unit.transfer.test_access_log import GPTBOT, combined

DAY_S = 86_400


class Log:
    """A log, and followers of it that are begun again. `sent` is what was written, by page."""

    def __init__(self, imports: Imports, directory: Path) -> None:
        self.imports, self.path = imports, directory / "access.log"
        self.sent: Counter[str] = Counter()
        self.reports: list[str] = []
        self.now_ms = NOON_MS
        self.path.touch()
        self.follower = self.made()

    def restart(self) -> None:
        self.follower._close()
        self.follower = self.made()

    def times(self) -> list[int]:
        """Return the seconds after the beginning at which the stored events happened."""
        return [row[0] for row in self.imports.sql(f"select (ts - {NOON_MS}) / 1000 from event order by ts")]

    def made(self) -> Follower:
        @contextlib.contextmanager
        def connect() -> Iterator[sqlite3.Connection]:
            with contextlib.closing(open_database(self.imports.db, create=False)) as connection:
                yield connection

        return Follower(
            self.path,
            1,
            connect,
            geoip_db=unpacked_countries(),
            bounds=Bounds(),
            now_ms=lambda: self.now_ms,
            report=self.reports.append,
        )

    def write(self, *pages: str, at_s: int = 0, agent: str | None = None, end: str = "\n") -> None:
        when = datetime.fromtimestamp(NOON_MS // 1_000 + at_s, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        more = {} if agent is None else {"agent": agent}
        with self.path.open("a") as file:
            file.write("".join(combined(page, time=when, **more) + end for page in pages))
        if end:
            self.sent.update(pages)

    def follow(self) -> None:
        while self.follower.step():
            pass

    def stored(self) -> Counter[str]:
        rows = self.imports.sql(
            "select text, count(*) from event join label on label.id = pathname where type = 0 group by text"
        )
        return Counter(dict(rows))


@pytest.fixture
def log(imports: Imports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    monkeypatch.setattr(follow, "_GRACE_S", 0)
    made = Log(imports, tmp_path)
    yield made
    made.follower._close()


def test_lines_are_judged_by_the_time_at_which_they_are_read(log: Log) -> None:
    """They are not in the future of the import, which began before."""
    log.write("/a")
    log.follow()
    for minutes in (10, 20):
        log.now_ms = NOON_MS + minutes * 60_000
        log.write("/b", at_s=minutes * 60)
        log.follow()
        log.restart()
    assert log.reports == []
    assert log.times() == [0, 600, 1200]


def test_lines_are_imported_as_they_are_written(log: Log) -> None:
    log.write("/a", "/b")
    log.follow()
    assert log.stored() == log.sent
    assert not log.follower.step()
    # A line that is not written to its end waits.
    log.write("/c", end="")
    log.follow()
    assert log.stored() == log.sent
    with log.path.open("a") as file:
        file.write("\n")
    log.sent["/c"] += 1
    log.write("/crawled", agent=GPTBOT)
    log.restart()
    log.follow()
    assert log.stored() + Counter({"/crawled": 1}) == log.sent
    assert log.imports.sql("select number, state, events, crawls from import") == [(1, "following", 3, 1)]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("way", ["rename", "twice", "copytruncate"])
def test_a_rotated_log_is_read_to_its_end(log: Log, way: str, is_restarted: bool) -> None:
    log.write("/a")
    log.follow()
    log.write("/b", at_s=1)
    old = log.path.with_name("access.log.1")
    for turn in range(2 if way == "twice" else 1):
        if way == "copytruncate":
            shutil.copyfile(log.path, old)
            os.truncate(log.path, 0)
        else:
            if old.exists():
                old.rename(old.with_name("access.log.2"))
            log.path.rename(old)
            log.path.touch()
            os.utime(old, ns=(time.time_ns() + (turn - 2) * 10**9,) * 2)
        log.write(f"/after/{turn}", at_s=2 + turn)
    if is_restarted:
        log.restart()
    log.follow()
    log.write("/d", at_s=9)
    log.follow()
    assert log.stored() == log.sent
    assert log.reports == []


def test_a_compressed_log_is_named_and_can_be_imported(log: Log) -> None:
    log.write("/a", "/b")
    log.follow()
    log.write("/c", at_s=1)
    log.path.rename(log.path.with_name("access.log.1"))
    rest = log.path.with_name("access.log.1").read_text()
    log.path.with_name("access.log.1").unlink()
    log.write("/d", at_s=2)
    log.restart()
    log.follow()
    (words,) = log.reports
    assert "import that file without --follow" in words
    assert log.stored() == Counter({"/a": 1, "/b": 1, "/d": 1})
    assert log.imports.take("access-log", rest) == "1"
    assert log.stored() == log.sent


def test_each_day_is_an_import_and_its_key_is_deleted(log: Log) -> None:
    log.write("/a", at_s=-2 * DAY_S)
    log.write("/b", at_s=-DAY_S)
    log.write("/c", at_s=-DAY_S - 60)
    log.write("/d", at_s=0)
    # Of no day that has begun: a clock that was wrong begins no import.
    log.write("/e", at_s=60)
    log.follow()
    assert log.stored() == log.sent
    rows = log.imports.sql("select state, events, progress is null from import order by number")
    assert rows == [("complete", 1, 1), ("complete", 2, 1), ("following", 2, 0)]
    log.imports.command("--undo", "2")
    assert log.stored() == Counter({"/a": 1, "/d": 1, "/e": 1})
    assert "is following" in log.imports.command("--undo", "3", status=1)


def test_the_key_of_a_log_that_nothing_follows_is_deleted(log: Log) -> None:
    """A day after the last line, also if no follower ends its import; what is written later counts once."""

    def work_after(hours: int) -> str:
        app = log.imports.sync_app.app
        changed_ms = app.clock.deletion_time_ms() - hours * 3_600_000
        log.imports.sync_app.run(
            app.admin(lambda file: file.execute("update import set changed_ms = ?", (changed_ms,)))
        )
        for turn in log.imports.sync_app.run(app.background_work.removal.turns()):
            log.imports.sync_app.run(turn.step())
        ((key,),) = log.imports.sql("select progress ->> '$.secret' from import")
        return str(key)

    log.write("/a", "/b")
    log.follow()
    log.follower._close()
    assert len(work_after(23)) == 64
    assert work_after(25) == ""
    assert work_after(26) == ""
    log.restart()
    log.write("/c", at_s=60)
    log.follow()
    assert log.stored() == log.sent


def test_a_piece_of_many_parts_is_exact_after_a_kill(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows between two parts of a piece: the piece ends where it did."""
    from tally.transfer import importer

    log.write(*[f"/{n}" for n in range(300)])
    parts = 0
    taken = importer._Import._take_part

    def killed(self: importer._Import, chunk: importer.Chunk) -> bool:
        nonlocal parts
        self._part_lines = 50
        parts += 1
        if parts == 4:
            raise MemoryError
        return taken(self, chunk)

    monkeypatch.setattr(importer._Import, "_take_part", killed)
    with pytest.raises(MemoryError):
        log.follow()
    assert log.stored().total() == 150
    log.write("/early", at_s=-DAY_S)
    log.write("/late", at_s=5)
    log.restart()
    log.follow()
    assert log.stored() == log.sent
    assert log.imports.sql("select sum(duplicates), sum(events) from import") == [(0, 302)]


@pytest.mark.slow
def test_a_followed_log_survives_kills_and_ends_on_sigterm(log: Log) -> None:
    """The real command, killed at any moment while a server rotates the log."""
    command = [sys.executable, "-m", "analytics_server", "import", str(log.path), "--from", "access-log", "--follow"]
    command += ["--website", log.imports.site.id, "--db", str(log.imports.db)]
    for turn in range(6):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        before = log.stored().total()
        for n in range(40):
            log.write(f"/{turn}/{n}")
            # What was rotated before the first start is imported without --follow.
            if n == 20 and turn:
                log.path.rename(log.path.with_name(f"access.log.{turn}"))
                log.path.touch()
        if turn < 5:
            until(lambda before=before: log.stored().total() > before)
            time.sleep(turn * 0.01)
            process.kill()
        else:
            until(lambda: log.stored() == log.sent)
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
        assert process.returncode == (-signal.SIGKILL if turn < 5 else 0), errors
    assert b"stopped: the same command continues" in errors
    assert log.imports.sql("select state, events, duplicates from import") == [("interrupted", 240, 0)]
