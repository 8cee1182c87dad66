"""tally/maintenance/startup.py: SQLite's locks during a start, and files that a start refuses and does not change.
tests/unit/cli/test_commands.py has other starts that fail."""

import fcntl
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tally.maintenance.startup import begun
from tally.settings import Settings
from tally.storage import health
from tally.storage.database import BadDatabase, connect_reader, open_database
from tally.storage.file_lock import lock_file
from tally.storage.health import CheckResult, check_at_start
from tests.support.process import NOBODY, Command, by_root

# A file's byte 1,073,741,826 and 509 more: SHARED (sqlite.org/lockingv3.html).
_SHARED = "1073741826 1073742335"


def has_lock(path: Path) -> bool:
    """Return whether this process has SQLite's lock of a reader on a database."""
    lock = re.compile(rf"READ {os.getpid()} \S+:{path.stat().st_ino} {_SHARED}")
    return any(lock.search(" ".join(line.split())) for line in Path("/proc/locks").read_text().splitlines())


def test_a_check_that_takes_long_keeps_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the next command that closes the database would delete the log of the server that starts."""
    path = tmp_path / "analytics.db"
    open_database(path, create=True).close()
    has_begun, may_end = threading.Event(), threading.Event()

    def check(path: Path, seconds: float) -> CheckResult:
        with closing(connect_reader(path)) as connection:
            connection.execute("begin")
            connection.execute("select count(*) from label").fetchone()
            has_begun.set()
            may_end.wait(60)
        return CheckResult(is_damaged=False, is_complete=True)

    monkeypatch.setattr(health, "check_for_damage", check)
    with begun(Settings(db=path)) as start:
        assert has_begun.wait(60)
        assert has_lock(path)
        may_end.set()
        start.check()
        assert not has_lock(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name], "a start that fails leaves nothing"


def make_killed(path: Path, change: Callable[[sqlite3.Connection], object]) -> Path:
    """Make a database as a killed server leaves it: `change` is in its log alone. Return the log."""
    working = path.with_name("working.db")
    with closing(open_database(working, create=True)) as connection:
        connection.execute("pragma wal_autocheckpoint = 0")
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        change(connection)
        for ending in ("", "-wal"):
            shutil.copy(f"{working}{ending}", f"{path}{ending}")
    for name in path.parent.glob("working.db*"):
        name.unlink()
    log = path.with_name(path.name + "-wal")
    assert log.stat().st_size
    return log


def overwrite_page_of(path: Path, table: str) -> None:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        (page,) = connection.execute("select rootpage from sqlite_schema where name = ?", (table,)).fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4_096)
        file.write(b"\xff" * 4_096)


def damage_schema(path: Path) -> None:
    """Give a table a name that is no UTF-8, as single flipped bits do."""
    content = path.read_bytes()
    assert content.count(b"goal_daygoal_day") == content.count(b"CREATE TABLE goal_day ") == 1
    path.write_bytes(
        content.replace(b"CREATE TABLE goal_day ", b"XREATE TABLE goal_day ").replace(
            b"goal_daygoal_day", b"\x8coal_daygoal_day"
        )
    )


def change_meta(connection: sqlite3.Connection) -> None:
    """Change a page that is not the first one, which has the schema."""
    connection.execute("insert into meta (name, value) values ('test', 1)")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: overwrite_page_of(path, "label"), "is damaged: restore a backup"),
        (damage_schema, "is damaged: restore a backup"),
        (lambda path: path.write_bytes(path.read_bytes()[:60] + b"\xff" * 4 + path.read_bytes()[64:]), "is damaged"),
    ],
    ids=["a damaged page", "a damaged name", "a damaged version"],
)
def test_a_refused_file_and_its_log_stay_as_they_are(
    damage: Callable[[Path], object], words: str, tmp_path: Path, command: Command
) -> None:
    """SQLite would write the log into the file and delete it. The log may be of the database that was there before."""
    path = tmp_path / "analytics.db"
    log = make_killed(path, change_meta)
    damage(path)
    before = path.read_bytes(), log.read_bytes()
    done = command("serve", "--port", "0", "--db", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert f"read together with its log {log.name}" in done.stderr
    assert (path.read_bytes(), log.read_bytes()) == before


def test_another_program_s_database_and_its_log_stay_as_they_are(tmp_path: Path, command: Command) -> None:
    path, working = tmp_path / "analytics.db", tmp_path / "theirs.db"
    with closing(sqlite3.connect(working, isolation_level=None)) as theirs:
        theirs.execute("pragma journal_mode = wal").fetchall()
        theirs.execute("create table a (b)")
        for ending in ("", "-wal"):
            shutil.copy(f"{working}{ending}", f"{path}{ending}")
    log = tmp_path / "analytics.db-wal"
    before = path.read_bytes(), log.read_bytes()
    done = command("serve", "--port", "0", "--db", str(path))
    assert done.returncode == 1
    assert "is the database of another program" in done.stderr
    assert (path.read_bytes(), log.read_bytes()) == before


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("doctor", "--quick"), ("backup", "copy.db")])
@pytest.mark.parametrize("is_newer", [False, True], ids=["another program", "a newer release"])
def test_a_refused_database_has_no_log_afterwards(
    words: tuple[str, ...], is_newer: bool, tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "analytics.db"
    if is_newer:
        open_database(path, create=True).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal").fetchall()
        connection.execute("pragma user_version = 99" if is_newer else "create table a (b)")
    before = path.read_bytes()
    done = command(*(str(tmp_path / word) if word == "copy.db" else word for word in words), "--db", str(path))
    assert done.returncode == 1
    assert ("newer release" if is_newer else "of another program") in done.stdout + done.stderr
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_a_start_undoes_no_transaction_of_another_program(tmp_path: Path) -> None:
    path, working = tmp_path / "analytics.db", tmp_path / "theirs.db"
    with closing(sqlite3.connect(working, isolation_level=None)) as theirs:
        theirs.execute("create table a (b)")
        theirs.execute("pragma cache_size = 10")
        theirs.execute("begin")
        theirs.execute("insert into a values (zeroblob(1000000))")
        for ending in ("", "-journal"):
            shutil.copy(f"{working}{ending}", f"{path}{ending}")
    journal = tmp_path / "analytics.db-journal"
    before = path.read_bytes(), journal.read_bytes()
    with pytest.raises(BadDatabase, match="is the database of another program"):
        check_at_start(path)
    assert (path.read_bytes(), journal.read_bytes()) == before


def test_a_backup_can_be_restored_over_a_damaged_schema(tmp_path: Path, command: Command) -> None:
    path, copy = tmp_path / "analytics.db", tmp_path / "copy.db"
    open_database(path, create=True).close()
    assert command("backup", str(copy), "--db", str(path)).returncode == 0
    damage_schema(path)
    for words in (("website", "list"), ("upgrade", "--check"), ("backup", str(tmp_path / "b.db"))):
        done = command(*words, "--db", str(path))
        assert (done.returncode, "is damaged" in done.stderr, "Traceback" in done.stderr) == (1, True, False), words
    assert command("restore", str(copy), "--db", str(path)).returncode == 0
    assert command("website", "list", "--db", str(path)).returncode == 0


def test_a_locked_file_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "analytics.db"
    open_database(path, create=True).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("pragma locking_mode = exclusive").fetchall()
        other.execute("begin exclusive")
        with pytest.raises(BadDatabase, match="is locked by another program"):
            check_at_start(path)
    check_at_start(path)


def test_a_missing_or_empty_file_beside_a_log_is_refused(tmp_path: Path, command: Command) -> None:
    """Such as after a copy on a full disk: SQLite would delete the log, and the events in it."""
    path = tmp_path / "analytics.db"
    log = make_killed(path, change_meta)
    before = log.read_bytes()
    for remove in (lambda: path.write_bytes(b""), path.unlink):
        remove()
        for words in (("serve", "--port", "0"), ("website", "add", "example.com")):
            done = command(*words, "--db", str(path))
            assert (done.returncode, "put the database back beside its log" in done.stderr) == (1, True)
            assert log.read_bytes() == before


def test_a_start_undoes_what_a_kill_has_left_of_a_transaction_without_a_log(tmp_path: Path) -> None:
    """As in a copy that is opened for the first time: it has no WAL mode yet."""
    path, working = tmp_path / "analytics.db", tmp_path / "working.db"
    open_database(working, create=True).close()
    with closing(sqlite3.connect(working, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = delete").fetchall()
        connection.execute("pragma cache_size = 10")
        connection.execute("begin")
        connection.execute("create table other (content)")
        connection.execute("insert into other values (zeroblob(1000000))")
        for ending in ("", "-journal"):
            shutil.copy(f"{working}{ending}", f"{path}{ending}")
    check_at_start(path)
    with closing(connect_reader(path)) as reader:
        assert reader.execute("select count(*) from sqlite_schema where name = 'other'").fetchone() == (0,)


# Ends as a user who may not write what root has made.
AS_NOBODY = f"""
import concurrent.futures.thread, os, sys
from pathlib import Path
from tally.maintenance import startup
from tally.settings import Settings
from tally.storage.database import BadDatabase
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
try:
    with startup.begun(Settings(db=Path("analytics.db"))) as start:
        start.check()
except BadDatabase as bad:
    sys.exit(str(bad))
"""


def as_nobody(directory: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", AS_NOBODY]
    paths = {"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": os.environ["PATH"]}
    return subprocess.run(words, cwd=directory, env=paths, capture_output=True, text=True, timeout=60)


@by_root
def test_a_refused_start_of_another_user_leaves_no_file(open_folder: Path) -> None:
    """A log that this user made and may not delete would keep the next start from writing."""
    path = open_folder / "analytics.db"
    open_database(path, create=True).close()
    os.chown(open_folder, NOBODY, NOBODY)
    path.chmod(0o444)
    done = as_nobody(open_folder)
    assert "is not writable: give this user write permission on the file" in done.stderr
    assert [name.name for name in open_folder.iterdir()] == [path.name]


@by_root
def test_root_leaves_the_lock_to_the_owner_of_the_database(open_folder: Path) -> None:
    path = open_folder / "analytics.db"
    open_database(path, create=True).close()
    for owned in (open_folder, path):
        os.chown(owned, NOBODY, NOBODY)
    os.close(lock_file(path))
    done = as_nobody(open_folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """As by `doctor`."""
    path = tmp_path / "analytics.db"
    with (tmp_path / "analytics.db.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        with pytest.raises(BadDatabase, match="is in use by a running server, or by a command"):
            lock_file(path)
        release = threading.Timer(0.05, lambda: fcntl.flock(other, fcntl.LOCK_UN))
        release.start()
        os.close(lock_file(path, 60))
        release.join()


@by_root
def test_root_gives_no_file_of_its_own_away_by_a_link(open_folder: Path) -> None:
    path, other = open_folder / "analytics.db", open_folder / "other"
    open_database(path, create=True).close()
    other.touch()
    for owned in (open_folder, path):
        os.chown(owned, NOBODY, NOBODY)
    lock = open_folder / "analytics.db.lock"
    lock.symlink_to(other)
    with pytest.raises(BadDatabase, match=r"analytics\.db\.lock cannot be used"):
        lock_file(path)
    lock.unlink()
    lock.hardlink_to(other)
    os.close(lock_file(path))
    assert other.stat().st_uid == 0


def test_a_lock_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "analytics.db.lock").mkdir()
    with pytest.raises(BadDatabase, match=r"analytics\.db\.lock cannot be used"):
        lock_file(tmp_path / "analytics.db")
