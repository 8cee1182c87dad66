"""tally/storage/health.py: the check of a file ends in time. tests/robustness/test_failing_disk.py has the faults."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tally.storage.database import BadDatabase, open_database
from tally.storage.health import CheckResult, begin_check, check_for_damage
from tests.support.process import until


def test_a_check_ends_in_time_and_finds_no_damage_then(tmp_path: Path) -> None:
    """SQLite checks all 25,000 pages in one instruction. A file of 10 GB takes minutes."""
    path = tmp_path / "analytics.db"
    with closing(open_database(path, create=True)) as connection:
        connection.execute("create table large (content blob)")
        connection.execute("insert into large values (zeroblob(100000000))")
    # On a busy machine the check may be over before the thread that interrupts it runs.
    until(lambda: check_for_damage(path, 0.0) == CheckResult(is_damaged=False, is_complete=False))
    assert check_for_damage(path, 600.0) == CheckResult(is_damaged=False, is_complete=True)
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("select rootpage from sqlite_schema where name = 'label'").fetchone()
        (size,) = connection.execute("pragma page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    assert check_for_damage(path, 600.0).is_damaged


def test_a_check_that_begins_before_its_result_is_asked_for(tmp_path: Path) -> None:
    path, text = tmp_path / "analytics.db", tmp_path / "text.db"
    begin_check(path)()
    assert not path.exists()
    open_database(path, create=True).close()
    begin_check(path)()
    with path.open("r+b") as file:
        file.seek(2 * 4_096)
        file.write(b"\xff" * 4_096)
    with pytest.raises(BadDatabase, match="is damaged"):
        begin_check(path)()
    text.write_text("not a database" * 1_000)
    with pytest.raises(BadDatabase, match="is not a SQLite database"):
        begin_check(text)()
