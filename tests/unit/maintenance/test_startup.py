"""tally/maintenance/startup.py: SQLite's locks during a start. tests/unit/cli/test_commands.py has starts that fail."""

import os
import re
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tally.maintenance.startup import begun
from tally.settings import Settings
from tally.storage import health
from tally.storage.database import connect_reader, open_database
from tally.storage.health import CheckResult

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
        assert start.check().is_complete
        assert not has_lock(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name], "a start that fails leaves nothing"
