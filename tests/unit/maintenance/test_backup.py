"""Backups, dated and nightly ones, and restore: a copy is complete or absent, and no other file is touched.

The rules are in docs/backup.md. tests/unit/cli/test_commands.py tests the content of a running server's backup. Kills
are real: for each line of the module under test one process gets SIGKILL at that line.
"""

import fcntl
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from analytics_server import main
from tally.accounts.accounts import create_account
from tally.maintenance import restore
from tally.maintenance.backup import BackupError, Cancelled, delete_leftovers, make_backup, make_dated
from tally.maintenance.scheduled_backup import RETRY_NS, ScheduledBackup
from tally.maintenance.startup import begun
from tally.settings import Settings
from tally.storage.database import BadDatabase, open_database
from tally.storage.file_lock import lock_file
from tally.timestamps import DAY_MS, SECOND_MS
from tests.support.aged_database import built_database, sql
from tests.support.app import NOON_MS, ROOT, ManualClock
from tests.support.foreign_schema import FOREIGN
from tests.support.process import Serve, clean_environment, until
from tests.unit.cli.test_commands import OTHER_FILES, Done, noise, refused, succeeded

Run = Callable[..., Done]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database with data of several months, without a log."""
    return built_database(tmp_path / "data")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups"


def content(path: Path) -> list[str]:
    """Return the content of a database as SQL, without the lines of the audit log about restores."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return [line for line in connection.iterdump() if "'database_restored'" not in line]


def content_with_log(path: Path) -> list[str]:
    """Return the content of a database and its log as SQL, without changing either."""
    with tempfile.TemporaryDirectory() as elsewhere:
        for file in path.parent.glob(f"{path.name}*"):
            if file.name in (path.name, f"{path.name}-wal"):
                shutil.copy(file, elsewhere)
        return content(Path(elsewhere) / path.name)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def grown(db: Path, pages: int) -> Path:
    """Add pages to the database file."""
    with closing(sqlite3.connect(db, isolation_level=None)) as connection:
        connection.execute("create table more (page)")
        connection.execute(
            "with recursive n (i) as (select 1 union all select i + 1 from n where i < ?)"
            " insert into more select zeroblob(4000) from n",
            (pages,),
        )
        connection.execute("pragma wal_checkpoint(truncate)")
    return db


def swap_indexes(path: Path) -> None:
    """Make indexes disagree with their table. Each page by itself is valid, so only integrity_check finds it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("create table two (a, b)")
        connection.execute("create index one on two (a)")
        connection.execute("create index other on two (b)")
        connection.execute("insert into two values (1, 2), (3, 4)")
        connection.execute("pragma wal_checkpoint(truncate)")
        roots = dict(connection.execute("select name, rootpage from sqlite_schema where tbl_name = 'two'"))
        connection.execute("pragma writable_schema = on")
        for name, root in (("one", roots["other"]), ("other", roots["one"])):
            connection.execute("update sqlite_schema set rootpage = ? where name = ?", (root, name))


# One backup


@pytest.mark.slow
def test_a_backup_is_one_complete_file(run: Run, db: Path, folder: Path) -> None:
    target = folder / "copy.db"
    assert succeeded(run("backup", target)) == ""
    assert content(target) == content(db)
    assert names(folder) == ["copy.db"]
    held = target.read_bytes()
    assert held[18:20] == b"\1\1", "not in WAL mode: reading it creates no other files"
    assert target.stat().st_mode & 0o777 == 0o600
    assert target.stat().st_nlink == 1


@pytest.mark.slow
def test_a_backup_is_checked_completely(run: Run, db: Path, folder: Path) -> None:
    swap_indexes(db)
    assert sql(db, "pragma quick_check") == [("ok",)], "quick_check does not find it"
    refused(run("backup", folder / "copy.db"), 1, "damaged")
    refused(run("backup", "--keep", 2, folder), 1, "damaged")
    assert names(folder) == []


def test_commits_do_not_restart_a_backup(db: Path, folder: Path) -> None:
    """It copies one snapshot: a commit after each step does not increase the number of steps."""
    steps = 0
    with closing(sqlite3.connect(grown(db, 9_000), isolation_level=None)) as other:
        before = content(db)

        def commit() -> bool:
            nonlocal steps
            steps += 1
            if steps < 20:
                other.execute("insert into more values (zeroblob(4000))")
            return steps > 100

        size = make_backup(db, folder / "copy.db", commit)
    assert size > 36_000_000
    assert content(folder / "copy.db") == before


def test_a_cancelled_backup_leaves_no_file(db: Path, folder: Path) -> None:
    with pytest.raises(Cancelled):
        make_backup(db, folder / "copy.db", lambda: True)
    assert names(folder) == []


def test_a_target_created_during_the_backup(db: Path, folder: Path) -> None:
    def take() -> bool:
        (folder / "copy.db").write_text("mine")
        return False

    with pytest.raises(BackupError, match="A backup never overwrites"):
        make_backup(db, folder / "copy.db", take)
    assert (folder / "copy.db").read_text() == "mine"
    assert names(folder) == ["copy.db"]


def test_a_full_disk(db: Path, folder: Path, tmp_path: Path) -> None:
    """Simulated by a limit on file sizes: an error message, no file left, nothing changed."""
    grown(db, 500)
    shutil.copy(db, tmp_path / "good.db")
    before = db.read_bytes()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    for words in (("backup", str(folder / "copy.db")), ("restore", str(tmp_path / "good.db"))):
        done = subprocess.run(
            [sys.executable, str(ROOT / "analytics_server.py"), *words, "--db", str(db)],
            capture_output=True,
            text=True,
            env=clean_environment(),
            preexec_fn=limit,
        )
        refused(done, 1, "cannot be written", "full")
    assert names(folder) == []
    assert db.read_bytes() == before
    assert not [name for name in names(db.parent) if "restoring" in name or "replaced" in name]


def test_free_space_is_required(run: Run, db: Path, folder: Path, tmp_path: Path) -> None:
    """A full disk would stop the server. The sources are sparse files as large as the free space."""
    shutil.copy(db, tmp_path / "good.db")
    free = shutil.disk_usage(tmp_path).free
    log = db.with_name(f"{db.name}-wal")
    log.touch()
    for path, words in (
        (db, ("backup", folder / "copy.db")),
        (log, ("backup", folder / "copy.db")),
        (tmp_path / "good.db", ("restore", tmp_path / "good.db")),
    ):
        size = path.stat().st_size
        os.truncate(path, free)
        refused(run(*words), 1, "A copy needs", "free space first")
        os.truncate(path, size)
    assert names(folder) == []
    assert not [name for name in names(db.parent) if "restoring" in name or "replaced" in name]


# Dated backups


def test_the_newest_are_kept(run: Run, db: Path, folder: Path) -> None:
    for n in range(5):
        made = make_dated(db, folder, 3, NOON_MS + n * SECOND_MS)
        assert len(made.rotated) == (n >= 3)
    assert names(folder) == [f"analytics-20261118T12000{n}Z.db" for n in (2, 3, 4)]
    printed = succeeded(run("backup", "--keep", 1, folder))
    assert names(folder) == [Path(printed.strip()).name], "the command prints the path and keeps N files"
    assert content(folder / names(folder)[0]) == content(db)


def test_the_new_backup_is_kept_among_later_dates(db: Path, folder: Path) -> None:
    """Older backups have later dates where the clock was ahead."""
    for n in (9, 8, 1):
        made = make_dated(db, folder, 2, NOON_MS + n * SECOND_MS)
        assert made.path.exists()
    assert names(folder) == ["analytics-20261118T120001Z.db", "analytics-20261118T120009Z.db"]


def test_backups_dated_in_the_future_are_replaced_first(db: Path, folder: Path) -> None:
    """They do not count among the newest: their data is older."""
    for days in (4000, 4001, 1, 2, 3):
        make_dated(db, folder, 3, NOON_MS + days * DAY_MS)
    assert names(folder) == [f"analytics-202611{day}T120000Z.db" for day in (19, 20, 21)]


def test_other_files_are_not_deleted(db: Path, folder: Path, tmp_path: Path) -> None:
    """Only copies of this database with the name of a dated backup are."""
    other = tmp_path / "other" / "analytics.db"
    other.parent.mkdir()
    open_database(other, create=True).close()
    theirs = {}
    make_backup(other, folder / "analytics-20200101T000000Z.db")
    make_backup(db, folder / "analytics-20200101T000000Z.db.kept")
    make_backup(db, folder / "my-analytics-20200101T000000Z.db")
    make_backup(db, folder / "analytics-before-the-move.db")
    make_backup(db, folder / "analytics-20209999T000000Z.db")
    (folder / "analytics-20200101T000001Z.db").write_text("a text file")
    (folder / "analytics-20200101T000002Z.db").write_bytes(noise(20_000))
    (folder / "analytics-20200101T000003Z.db").mkdir()
    make_backup(db, tmp_path / "far.db")
    (folder / "analytics-20200101T000004Z.db").symlink_to(tmp_path / "far.db")
    (folder / "analytics-20200101T000005Z.db.unfinished").symlink_to(tmp_path / "far.db")
    (folder / "notes.unfinished").write_text("mine")
    theirs = set(names(folder))
    for n in range(3):
        make_dated(db, folder, 1, NOON_MS + n * SECOND_MS)
    assert set(names(folder)) - theirs == {"analytics-20261118T120002Z.db"}
    assert theirs < set(names(folder))
    assert (tmp_path / "far.db").exists()


def test_invalid_arguments(run: Run, folder: Path, db: Path) -> None:
    refused(run("backup", folder), 1, "is a directory", "--keep N")
    refused(run("backup", "--keep", 3, db), 1, "is not a directory")
    refused(run("backup", "--keep", 3, folder / "nowhere"), 1, "nowhere is not a directory")
    for number in ("0", "-1", "many", "1.5", ""):
        with pytest.raises(SystemExit) as usage:
            run("backup", f"--keep={number}", folder)
        assert usage.value.code == 2
    assert names(folder) == []


# Leftovers of killed backups


KILLER = """
import os, shutil, signal, sys
sys.path[:0] = [sys.argv[1]]
import analytics_server, tally.cli.database

_, _, places, template, *words = sys.argv
for n in range(1, 10_000):
    here = f"{template}{n}"
    shutil.copytree(template, here)
    child = os.fork()
    if not child:
        left = n
        def trace(frame, event, argument):
            global left
            if frame.f_code.co_filename.endswith(tuple(places.split())):
                left -= event == "line"
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
                return trace
        sys.settrace(trace)
        status = analytics_server.main([word.replace("HERE", here) for word in words])
        os._exit(status)
    _, status = os.waitpid(child, 0)
    if status != signal.SIGKILL:
        print(n, os.waitstatus_to_exitcode(status))
        break
"""


def killed_everywhere(modules: str, template: Path, *words: str, killer: str = KILLER) -> Iterator[Path]:
    """Yield copies of a directory; in the n-th a command was killed (SIGKILL) at the n-th line of `modules`.

    In the last copy it ran to its end. HERE in the command's words is the directory.
    """
    program = [sys.executable, "-c", killer, str(ROOT), modules, str(template), *words]
    done = subprocess.run(program, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 0, done.stderr
    last, status = map(int, done.stdout.splitlines()[-1].split())
    assert status == 0, done.stderr
    assert last > 30, "the command runs dozens of lines of the module"
    for n in range(1, last + 1):
        yield template.with_name(f"{template.name}{n}")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A small database, so that its content is read quickly."""
    path = tmp_path / "small" / "analytics.db"
    path.parent.mkdir()
    with closing(open_database(path, create=True)) as connection:
        create_account(connection, "owner@example.com", "business", None, 0)
    return path


@pytest.mark.slow
def test_a_backup_killed_at_any_line(small: Path, tmp_path: Path) -> None:
    """Only a complete copy gets the final name; the next backup deletes the rest."""
    db, before, template = small, content(small), tmp_path / "killed"
    template.mkdir()
    unfinished = complete = 0
    for here in killed_everywhere(
        "tally/maintenance/backup.py", template, "backup", "--keep", "9", "HERE", "--db", str(db)
    ):
        leftovers = [name for name in names(here) if name.endswith(".unfinished")]
        finals = [name for name in names(here) if name not in leftovers]
        assert all(content(here / name) == before for name in finals)
        assert delete_leftovers(here, db) == [here / name for name in leftovers]
        assert names(here) == finals
        unfinished, complete = unfinished + bool(leftovers), complete + bool(finals)
    assert unfinished > 10
    assert complete > 1


def test_a_running_backup_is_no_leftover(run: Run, db: Path, folder: Path) -> None:
    unfinished = folder / "analytics-20261118T120000Z.db.unfinished"
    with unfinished.open("wb") as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        succeeded(run("backup", "--keep", 1, folder))
        assert unfinished.exists()
        with pytest.raises(BackupError, match="another backup to this name is running"):
            make_backup(db, unfinished.with_suffix(""))
        assert unfinished.exists()
    succeeded(run("backup", "--keep", 2, folder))
    assert not unfinished.exists()


# Nightly backups


@pytest.fixture
def nightly(db: Path, folder: Path, clock: ManualClock) -> Iterator[ScheduledBackup]:
    """A nightly backup at 03:00; the time is noon."""
    nightly = ScheduledBackup(db, folder, 2, 3, clock)
    yield nightly
    nightly.close()


def night(nightly: ScheduledBackup, clock: ManualClock, seconds: float = 0) -> tuple[int, int]:
    """Let time pass, start a backup if due, wait for it; return how many were made and how many failed."""
    clock.advance(seconds)
    nightly.start_if_due(clock.wall_ms())
    if nightly._thread is not None:
        nightly._thread.join()
    return nightly.made, nightly.failed


def test_one_a_day(nightly: ScheduledBackup, clock: ManualClock, folder: Path, db: Path) -> None:
    assert night(nightly, clock) == (1, 0), "a missed backup is made at once"
    assert nightly.last_ms == clock.wall_ms()
    assert nightly.bytes == (folder / names(folder)[0]).stat().st_size
    assert night(nightly, clock, 12 * 3600) == (1, 0)
    assert night(nightly, clock, 3 * 3600 - 1) == (1, 0)
    assert night(nightly, clock, 1) == (2, 0), "at three"
    assert night(nightly, clock, 86_399) == (2, 0)
    assert night(nightly, clock, 1) == (3, 0)
    assert names(folder) == ["analytics-20261119T030000Z.db", "analytics-20261120T030000Z.db"]

    again = ScheduledBackup(db, folder, 2, 3, clock)
    assert night(again, clock, 600) == (0, 0), "a restart does not repeat it"
    assert again.last_ms == clock.wall_ms() - 600_000


def test_backups_dated_in_the_future_are_ignored(
    nightly: ScheduledBackup, clock: ManualClock, folder: Path, db: Path
) -> None:
    """A clock that was ahead for a moment must not stop the backups for years."""
    make_dated(db, folder, 9, NOON_MS + 4000 * DAY_MS)
    assert night(nightly, clock) == (1, 0)
    assert night(nightly, clock, 86_400) == (2, 0)
    assert len(names(folder)) == 2


def test_a_failure_is_logged_and_retried(
    nightly: ScheduledBackup, clock: ManualClock, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.rmdir()
    assert night(nightly, clock) == (0, 1)
    assert "nightly backup failed" in caplog.text
    assert str(caplog.records[-1].fields["error"]).startswith(f"{folder} is not a directory: create it")
    assert night(nightly, clock, RETRY_NS / 1e9 - 1) == (0, 1), "not every second"
    folder.mkdir()
    assert night(nightly, clock, 1) == (1, 1)


def metrics(server: Any) -> dict[str, float]:
    lines = server.request("GET", "/metrics").text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def test_a_nightly_backup_of_a_running_server(serve: Serve, db: Path, folder: Path) -> None:
    server = serve("--backup-dir", str(folder), "--backup-keep", "1", db=db)
    website = sql(db, "select id from website")[0][0]

    def is_made() -> bool:
        event = {"type": "pageview", "website_id": website, "url": "https://1.example.com/"}
        assert server.request("POST", "/api/collect", event).status == 202
        return metrics(server)["tally_backups_total"] == 1

    until(is_made, 60)
    (name,) = names(folder)
    with closing(sqlite3.connect(f"{(folder / name).as_uri()}?mode=ro", uri=True)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    values = metrics(server)
    assert values["tally_backups_failed_total"] == 0
    assert values["tally_backup_bytes"] == (folder / name).stat().st_size
    assert 0 <= values["tally_backup_age_seconds"] < 600
    made = datetime.strptime(name, "analytics-%Y%m%dT%H%M%SZ.db").replace(tzinfo=UTC).timestamp()
    assert abs(values["tally_backup_last_timestamp_seconds"] - made) < 1
    assert server.terminate() == 0
    assert "nightly backup completed" in server.stderr()


def test_a_server_stopped_during_a_backup(serve: Serve, db: Path, folder: Path) -> None:
    """It does not wait for the copy; the next start makes a complete one and deletes the leftover."""
    grown(db, 20_000)
    server = serve("--backup-dir", str(folder), db=db)
    until(lambda: names(folder), 60)
    assert server.terminate() == 0
    assert all(content(folder / name) == content(db) for name in names(folder) if not name.endswith(".unfinished"))
    server = serve("--backup-dir", str(folder), db=db)
    until(lambda: [name for name in names(folder) if not name.endswith(".unfinished")], 60)
    assert server.terminate() == 0
    (name,) = names(folder)
    assert sql(folder / name, "select count(*) from more") == [(20_000,)]


# Restore


@pytest.fixture
def copy(db: Path, tmp_path: Path) -> Path:
    """A backup of the database, which has changed since; its log is not empty."""
    return gone_on(db, tmp_path / "copy.db")


def gone_on(db: Path, copy: Path) -> Path:
    make_backup(db, copy)
    keeper = sqlite3.connect(db, isolation_level=None)
    keeper.execute("insert into meta values ('since', 'the backup')")
    log = db.with_name(f"{db.name}-wal")
    held = db.read_bytes(), log.read_bytes()
    keeper.close()
    # The state after a server was killed.
    db.write_bytes(held[0])
    log.write_bytes(held[1])
    assert log.stat().st_size
    return copy


def kept_beside(db: Path) -> list[Path]:
    return sorted(db.parent.glob("analytics.db.replaced-*"))


def test_restore_and_restore_back(run: Run, db: Path, copy: Path) -> None:
    before, backup = content_with_log(db), content(copy)
    assert before != backup
    done = run("restore", copy)
    assert succeeded(done) == ""
    assert content(db) == backup
    (kept,) = kept_beside(db)
    assert str(kept) in done.stderr
    assert content(kept) == before, "the previous database, with the content of its log"
    assert db.stat().st_mode & 0o777 == 0o600
    assert content(copy) == backup
    assert succeeded(run("website", "list")).count("\n") == 2
    assert succeeded(run("restore", kept)) == ""
    assert content(db) == before


def test_restore_deletes_uploads_of_the_previous_database(run: Run, db: Path, copy: Path) -> None:
    """A file that was uploaded and not imported belongs to a website of the previous database."""
    uploads = db.with_name(f"{db.name}.uploads")
    uploads.mkdir()
    for ending in ("json", "part"):
        (uploads / f"c66653dc-e3f4-4325-a39f-da606931a543.{ending}").touch()
    # The directory may be a link to one that has other files.
    (uploads / "notes.txt").touch()
    refused(run("restore", db.with_name("missing.db")), 1, "not a file")
    assert len(names(uploads)) == 3
    succeeded(run("restore", copy))
    assert names(uploads) == ["notes.txt"]


def test_restore_without_a_database(db: Path, copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As on a new server."""
    new = tmp_path / "new" / "stats.db"
    assert main(["restore", str(copy), "--db", str(new)]) == 1
    assert f"{new.parent} does not exist: create it" in capsys.readouterr().err
    new.parent.mkdir()
    assert main(["restore", str(copy), "--db", str(new)]) == 0
    assert content(new) == content(copy)
    assert sorted(set(names(new.parent))) == ["stats.db", "stats.db.lock"]


def test_restore_is_refused_while_a_server_runs(serve: Serve, run: Run, db: Path, copy: Path) -> None:
    server = serve(db=db)

    def kept() -> list[str]:
        """Return the content, without what the server itself notes, such as the time."""
        return [line for line in content(db) if not line.startswith('INSERT INTO "meta"')]

    before = kept()
    refused(run("restore", copy), 1, f"{db} is in use by a running server, or by a command such as restore: stop")
    assert kept() == before
    assert server.request("GET", "/healthz").status == 200
    assert server.terminate() == 0
    succeeded(run("restore", copy))
    assert serve(db=db).request("GET", "/healthz").status == 200


def test_restore_is_refused_while_another_program_has_the_file_open(run: Run, db: Path, copy: Path) -> None:
    """Such as an import, which would write to the replaced file."""
    with closing(sqlite3.connect(db)) as other:
        other.execute("select * from meta").fetchall()
        before = content(db)
        refused(run("restore", copy), 1, f"{db} is in use by another program: stop it")
        assert content(db) == before
        assert kept_beside(db) == []


@pytest.mark.parametrize("kind", [*OTHER_FILES, "empty", "index", "missing", "itself"])
def test_a_file_that_is_not_a_backup_is_refused(kind: str, run: Run, db: Path, copy: Path, tmp_path: Path) -> None:
    """The error names the file, and nothing is changed."""
    file, reason = tmp_path / "theirs.db", {"missing": "is not a file", "itself": "the database itself"}.get(kind, "")
    if kind in OTHER_FILES:
        make, reason = OTHER_FILES[kind]
        make(file)
    elif kind == "empty":
        file.touch()
        reason = "is empty"
    elif kind == "index":
        shutil.copy(copy, file)
        swap_indexes(file)
        reason = "is damaged"
    elif kind == "itself":
        file = db
    before = {path.name: path.read_bytes() for path in db.parent.iterdir()}
    refused(run("restore", file), 1, str(file), "not a file" if kind == "directory" else reason)
    after = {path.name: path.read_bytes() for path in db.parent.iterdir()}
    assert after.pop("analytics.db.lock", b"") == b""
    assert after == before


@pytest.mark.parametrize(("words", "statement"), FOREIGN.items(), ids=FOREIGN)
def test_a_backup_with_another_schema_is_refused(
    words: str, statement: str, run: Run, db: Path, copy: Path, tmp_path: Path
) -> None:
    """A trigger, for example, could undo changes of passwords. The error says what differs, and nothing is changed."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute(statement)
    before = content_with_log(db)
    refused(run("restore", copy), 1, str(copy), words)
    assert content_with_log(db) == before
    assert kept_beside(db) == []


def test_a_backup_with_statistics_is_restored(run: Run, copy: Path) -> None:
    """An administrator may have run `analyze`."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("analyze")
    assert succeeded(run("restore", copy)) == ""


def test_restore_of_a_copy_with_its_log(run: Run, db: Path, copy: Path, tmp_path: Path) -> None:
    for ending in ("", "-wal"):
        shutil.copy(f"{db}{ending}", tmp_path / f"by-hand.db{ending}")
    db.unlink()
    succeeded(run("restore", tmp_path / "by-hand.db"))
    assert sql(db, "select value from meta where name = 'since'") == [("the backup",)]


def test_a_damaged_database_is_kept_with_its_log(run: Run, db: Path, copy: Path) -> None:
    """The log of the previous database is not lost, and not applied to the restored one."""
    held = noise(40_000)
    db.write_bytes(held)
    log = db.with_name("analytics.db-wal").read_bytes()
    succeeded(run("restore", copy))
    assert content(db) == content(copy)
    kept, kept_log = kept_beside(db)
    assert (kept.read_bytes(), kept_log.read_bytes()) == (held, log)
    assert kept_log.name == f"{kept.name}-wal"


@pytest.mark.parametrize("is_empty", [False, True], ids=["missing", "empty"])
def test_the_log_of_a_missing_or_empty_database_is_kept(is_empty: bool, run: Run, db: Path, copy: Path) -> None:
    """It has events that were answered 202, and may be needed beside a database that was moved away."""
    log = db.with_name("analytics.db-wal").read_bytes()
    db.unlink()
    if is_empty:
        db.touch()
    done = run("restore", copy)
    succeeded(done)
    assert content(db) == content(copy)
    *kept, kept_log = kept_beside(db)
    assert [path.read_bytes() for path in kept] == [b""] * is_empty
    assert kept_log.name.endswith("-wal")
    assert kept_log.read_bytes() == log
    assert f"is kept as {kept_log}\n" in done.stderr


def test_an_old_journal_is_not_applied_to_the_restored_database(run: Run, db: Path, copy: Path, tmp_path: Path) -> None:
    """A kill leaves one in a transaction before WAL mode is on, as in a copy that is opened for the first time."""
    other = Path(shutil.copy(copy, tmp_path / "other.db"))
    journal = db.with_name("analytics.db-journal")
    with closing(sqlite3.connect(other, isolation_level=None)) as connection:
        connection.execute("pragma cache_size = 10")
        connection.execute("begin")
        connection.execute("create table more (page)")
        connection.execute("insert into more values (zeroblob(1000000))")
        shutil.copy(f"{other}-journal", journal)
    held = journal.read_bytes()
    for path in (db, db.with_name("analytics.db-wal")):
        path.unlink()
    succeeded(run("restore", copy))
    assert content(db) == content(copy)
    (kept,) = kept_beside(db)
    assert (kept.name.endswith("-journal"), kept.read_bytes()) == (True, held)
    assert not journal.exists()


# A restore that is killed just before it puts the restored file in place.
KILLED = """
import os, signal, sys
sys.path[:0] = [sys.argv[1]]
import analytics_server

def without_links(path, name):
    raise PermissionError

if sys.argv[2] == "no links":
    os.link = without_links
os.replace = lambda path, name: os.kill(os.getpid(), signal.SIGKILL)
analytics_server.main(sys.argv[3:])
"""


def killed_restore(db: Path, copy: Path, links: str = "links") -> None:
    program = [sys.executable, "-c", KILLED, str(ROOT), links, "restore", str(copy), "--db", str(db)]
    done = subprocess.run(program, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_killed_restore_leaves_the_log_to_its_database(db: Path, copy: Path) -> None:
    """One that could not be written into it, here because the database is damaged."""
    db.write_bytes(noise(40_000))
    log = db.with_name("analytics.db-wal")
    before = db.read_bytes(), log.read_bytes()
    killed_restore(db, copy)
    assert not log.exists()
    # As a program that only reads leaves it.
    log.touch()
    restore.delete_leftovers(db)
    assert (db.read_bytes(), log.read_bytes()) == before
    assert kept_beside(db) == []


def test_a_log_is_not_put_beside_a_database_that_has_changed_since(db: Path, copy: Path) -> None:
    """Such as by a command after a restore that was killed: the log has older pages."""
    db.write_bytes(noise(40_000))
    log = db.with_name("analytics.db-wal")
    held = log.read_bytes()
    killed_restore(db, copy)
    db.write_bytes(noise(40_000))
    restore.delete_leftovers(db)
    assert not log.exists()
    (kept_log,) = kept_beside(db)
    assert kept_log.read_bytes() == held


def test_a_start_after_a_killed_restore_keeps_the_log_of_an_empty_database(db: Path, copy: Path) -> None:
    log = db.with_name("analytics.db-wal")
    held = log.read_bytes()
    os.truncate(db, 0)
    killed_restore(db, copy)
    with pytest.raises(BadDatabase, match="is missing or empty, but its log"), begun(Settings(db=db)) as start:
        start.check()
    assert log.read_bytes() == held


def test_a_database_without_a_name_is_not_replaced_by_a_new_one(run: Run, db: Path, copy: Path) -> None:
    """Where there are no hard links, a killed restore leaves the previous database under its other name alone."""
    before = content_with_log(db)
    killed_restore(db, copy, "no links")
    (kept,) = kept_beside(db)
    with pytest.raises(BadDatabase, match=f"rename {kept} to {db}, and"), begun(Settings(db=db)):
        pass
    refused(run("website", "add", "example.com"), 1, f"rename {kept} to {db}, and")
    assert not db.exists()
    succeeded(run("restore", copy))
    assert content(db) == content(copy)
    assert content(kept) == before


def test_the_restored_file_has_the_owner_of_the_database(run: Run, db: Path, copy: Path) -> None:
    """Root may restore for a server that runs as another user."""
    if os.geteuid() == 0:
        os.chown(db, 4711, 4712)
    owner = db.stat().st_uid, db.stat().st_gid
    succeeded(run("restore", copy))
    assert (db.stat().st_uid, db.stat().st_gid) == owner


def test_a_symbolic_link_to_the_database_stays_a_link(db: Path, copy: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(db)
    assert main(["restore", str(copy), "--db", str(link)]) == 0
    assert link.is_symlink()
    assert content(db) == content(copy)


@pytest.mark.slow
def test_a_restore_killed_at_any_line(small: Path, tmp_path: Path) -> None:
    """At all times the path holds one of the two databases, complete; the next restore deletes the leftovers."""
    db, copy = small, gone_on(small, tmp_path / "copy.db")
    before, backup = content_with_log(db), content(copy)
    seen = set()
    words = ("restore", str(copy), "--db", f"HERE/{db.name}")
    for here in killed_everywhere("tally/maintenance/restore.py", db.parent, *words):
        for kept in kept_beside(here / db.name):
            assert content_with_log(kept) == before
        now = content_with_log(here / db.name)
        assert now in (before, backup)
        seen.add(now == before)
        os.close(lock_file(here / db.name))
        restore.delete_leftovers(here / db.name)
        assert not list(here.glob("*restoring*"))
    assert seen == {False, True}
