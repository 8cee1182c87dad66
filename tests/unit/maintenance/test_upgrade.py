"""Upgrades of the database: the copy made before, `upgrade`, starts, refusals, and the way back (docs/upgrading.md).

The newer release is a process with one more migration (tests/support/newer_release.py); the commands of this release
run in this process.
"""

import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from analytics_server import main
from tally.accounts.accounts import create_account
from tally.maintenance.backup import make_backup, make_dated
from tally.maintenance.upgrade import copy_first
from tally.resources import tally_version
from tally.settings import Settings
from tally.storage.database import VERSION, open_database
from tally.storage.file_lock import lock_file
from tally.timestamps import SECOND_MS
from tests.support.app import NOON_MS, ROOT
from tests.support.process import clean_environment
from tests.unit.cli.test_commands import Done, refused, succeeded
from tests.unit.maintenance.test_backup import KILLER, content, killed_everywhere, names

Run = Callable[..., Done]
COPY = re.compile(rf"analytics-schema-{VERSION}-\d{{8}}T\d{{6}}Z\.db")
NEWER = (sys.executable, "-m", "tests.support.newer_release")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database of this release with an account."""
    path = tmp_path / "data" / "analytics.db"
    path.parent.mkdir()
    with closing(open_database(path, create=True)) as connection:
        create_account(connection, "owner@example.com", "business", None, 0)
    return path


@pytest.fixture
def newer(db: Path) -> Run:
    """Run a command of the newer release."""

    def run(*words: object) -> Done:
        command = [*NEWER, *map(str, words), "--db", str(db)]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=clean_environment())

    return run


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("pragma user_version").fetchone()[0])


def copies(folder: Path) -> list[Path]:
    return [folder / name for name in names(folder) if "-schema-" in name]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_check_changes_nothing(run: Run, newer: Run, db: Path, tmp_path: Path) -> None:
    before = files(db.parent)
    done = run("upgrade", "--check")
    assert succeeded(done).splitlines() == [
        f"program     {tally_version()}, schema version {VERSION}",
        f"database    schema version {VERSION}",
        "migrations  none",
    ]
    done = newer("upgrade", "--check")
    assert done.returncode == 3, done.stderr
    assert "upgrades the database" in done.stderr
    assert done.stdout.splitlines()[0] == f"program     {tally_version()}, schema version {VERSION + 1}"
    assert done.stdout.splitlines()[1:3] == [f"database    schema version {VERSION}", "migrations  add_table"]
    copy = re.fullmatch(r"copy        in (.*): ([\d,]+) bytes, ([\d,]+) are free", done.stdout.splitlines()[3])
    assert copy is not None, done.stdout
    assert (Path(copy[1]), copy[2]) == (db.parent, f"{db.stat().st_size:,}")
    done = newer("upgrade", "--check", "--upgrade-backup", "no")
    assert (done.returncode, done.stdout.splitlines()[3]) == (3, "copy        none (--upgrade-backup no)")
    done = newer("upgrade", "--check", "--backup-dir", tmp_path / "nowhere")
    assert done.returncode == 1
    assert "a start would be refused" in done.stderr
    assert "nowhere cannot be used: No such file or directory" in done.stderr
    assert files(db.parent) == before


@pytest.mark.slow
def test_an_upgrade_and_the_way_back(run: Run, newer: Run, db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(db)
    refused(newer("account", "list"), 1, "schema version", "older release", f"analytics-server upgrade --db {db}`")
    assert content(db) == before
    found = newer("doctor", "--quick")
    assert re.search(
        rf"note +database .*upgrades it to version {VERSION + 1}; it makes a copy in {db.parent}\n", found.stdout
    )
    done = newer("upgrade")
    (copy,) = copies(db.parent)
    assert COPY.fullmatch(copy.name)
    assert f"kept as {copy} ({copy.stat().st_size:,} bytes, checked)\n" in done.stderr
    assert succeeded(done) == ""
    assert (content(copy), copy.stat().st_mode & 0o777) == (before, 0o600)
    assert version(db) == VERSION + 1
    assert "there is nothing to upgrade" in newer("upgrade").stderr
    assert copies(db.parent) == [copy]

    held = db.read_bytes()
    command = f"analytics-server restore {copy} --db {db}"
    for words in (
        *(["serve", "--port", "0"], ["upgrade"], ["upgrade", "--check"], ["backup", db.parent / "b.db"], ["verify"]),
        *(["export", "example.com", db.parent / "e"], ["query", "select 1"], ["account", "list"], ["compact"]),
    ):
        refused(
            run(*words),
            1,
            f"has schema version {VERSION + 1} of a newer release, and this is Tally {tally_version()}",
            f"versions up to {VERSION}: install the newer release again",
            f"`{command}`",
        )
    found = run("doctor")
    assert found.returncode == 1
    assert f"`{command}`" in found.stdout
    assert (db.read_bytes(), copies(db.parent)) == (held, [copy])

    assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert content(db) == before
    succeeded(run("account", "list"))


def test_a_newer_file_without_a_copy(run: Run, newer: Run, db: Path, tmp_path: Path) -> None:
    """A copy of another database is not named; one in --backup-dir is."""
    other = tmp_path / "other" / db.name
    other.parent.mkdir()
    open_database(other, create=True).close()
    make_backup(other, db.parent / "analytics-schema-1-20261122T030000Z.db")
    (tmp_path / "backups").mkdir()
    succeeded(newer("upgrade", "--backup-dir", tmp_path / "backups"))
    refused(run("account", "list"), 1, "restore a backup made before that upgrade: `analytics-server restore BACKUP")
    (copy,) = copies(tmp_path / "backups")
    found = run("doctor", "--backup-dir", tmp_path / "backups")
    assert f"`analytics-server restore {copy} --db {db}`" in found.stdout
    refused(run("restore", db), 1, "is the database itself")
    make_newer = tmp_path / "newer.db"
    shutil.copy(db, make_newer)
    refused(run("restore", make_newer), 1, f"{make_newer} has schema version", "or choose an older backup")


def test_a_start_upgrades(db: Path) -> None:
    before = content(db)
    command = [*NEWER, "serve", "--port", "0", "--db", str(db)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, env=clean_environment()) as server:
        assert server.stdout is not None
        listening = server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        _, message = server.communicate()
    assert (server.returncode, listening[:13]) == (0, "listening on "), message
    (copy,) = copies(db.parent)
    assert content(copy) == before
    assert message.count(f"kept as {copy} (") == 1
    assert version(db) == VERSION + 1


def test_an_upgrade_without_room_for_the_copy(newer: Run, db: Path) -> None:
    """The database is a sparse file as large as the free space."""
    size = db.stat().st_size
    os.truncate(db, shutil.disk_usage(db.parent).free)
    for words, message in (
        (("upgrade", "--check"), "a start would be refused"),
        (("upgrade",), "The database was not upgraded"),
        (("serve", "--port", "0"), "The database was not upgraded"),
    ):
        done = newer(*words)
        assert done.returncode == 1
        assert [word for word in (message, "A copy needs", "free space first") if word not in done.stderr] == []
    assert "--backup-dir, or set --upgrade-backup no" in done.stderr
    os.truncate(db, size)
    assert (version(db), copies(db.parent)) == (VERSION, [])
    done = newer("upgrade", "--upgrade-backup", "no")
    assert succeeded(done) == ""
    assert f"from schema version {VERSION} to {VERSION + 1}, without a copy (--upgrade-backup no)\n" in done.stderr
    assert (version(db), copies(db.parent)) == (VERSION + 1, [])


def test_an_upgrade_beside_a_running_server(newer: Run, db: Path) -> None:
    lock = lock_file(db)
    try:
        refused(newer("upgrade"), 1, "is in use by a running server")
        assert newer("upgrade", "--check").returncode == 3
    finally:
        os.close(lock)
    assert (version(db), copies(db.parent)) == (VERSION, [])


def test_which_copies_are_kept(db: Path) -> None:
    """The newest of each version, of two versions; nightly backups and other files have their own rules."""
    folder = db.parent
    settings, times_ms = Settings(db=db), count(NOON_MS, SECOND_MS)
    stray = [folder / name for name in ("analytics-schema-1.db", "analytics-schema-x-20200101T000000Z.db")]
    for path in (*stray, folder / "analytics-20200101T000000Z.db"):
        make_backup(db, path)

    def copied(from_version: int) -> list[int]:
        messages: list[str] = []
        copy_first(settings, messages.append, next(times_ms), from_version)
        assert len(messages) == 1
        return [int(path.name.split("-")[2]) for path in copies(folder) if path not in stray]

    leftover = folder / "analytics-schema-1-20260101T000000Z.db.unfinished"
    leftover.touch()
    assert copied(1) == [1]
    assert not leftover.exists()
    assert copied(1) == [1], "the newest copy of a version"
    assert copied(2) == [1, 2]
    assert copied(3) == [2, 3], "of two versions"
    leftover.touch()
    for n in range(2):
        make_dated(db, folder, 1, NOON_MS + n)
    assert [path.name.split("-")[2] for path in copies(folder) if path not in stray] == ["2", "3"]
    assert not leftover.exists()
    assert all(path.exists() for path in stray)
    assert copied(4) == [3, 4]
    assert [name for name in names(folder) if name.startswith("analytics-2")] == ["analytics-20261118T120001Z.db"]


@pytest.mark.in_turn
@pytest.mark.slow
def test_an_upgrade_killed_at_any_line(db: Path) -> None:
    """The file is of one version or the other; what has the name of a copy is complete; the next run completes it."""
    before, versions, unfinished = content(db), [], 0
    killer = KILLER.replace("import analytics_server", "import tests.support.newer_release, analytics_server")
    modules = "tally/maintenance/backup.py tally/maintenance/upgrade.py"
    for here in killed_everywhere(modules, db.parent, "upgrade", "--db", f"HERE/{db.name}", killer=killer):
        path = here / db.name
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        versions.append(version(path))
        finals = [one for one in copies(here) if one.suffix == ".db"]
        assert all(content(one) == before for one in finals)
        if versions[-1] == VERSION:
            assert content(path) == before
        else:
            assert len(finals) == 1
        if len(finals) < len(copies(here)):
            unfinished, interrupted = unfinished + 1, here
    assert sorted(set(versions)) == [VERSION, VERSION + 1]
    assert versions == sorted(versions)
    assert unfinished > 10
    again = [*NEWER, "upgrade", "--db", str(interrupted / db.name)]
    assert subprocess.run(again, cwd=ROOT, env=clean_environment()).returncode == 0
    assert version(interrupted / db.name) == VERSION + 1
    assert [content(copy) for copy in copies(interrupted)] == [before], "and no unfinished one"
