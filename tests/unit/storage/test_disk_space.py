"""tally/storage/disk_space.py and wal.py: who may write how much, and the log beside other connections."""

import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest

from tally.storage import wal
from tally.storage.database import connect_reader, log_bytes, open_database, transaction
from tally.storage.disk_space import (
    FULL_LOG_BYTES,
    LOW_LOG_BYTES,
    SHORT_LOG_BYTES,
    UNKNOWN_SPACE,
    DiskSpace,
    Reserve,
    disk_space,
)
from tally.storage.wal import keep_log_short, truncate_wal

MB = 1_048_576
GB = 1_024 * MB
LARGE = DiskSpace(10 * GB, GB, 0, 100 * GB)


def test_imports_stop_before_events_and_those_before_background_work() -> None:
    """docs/importing.md, Disk space."""
    found = []
    for free in (GB + 100 * MB, GB + 60 * MB, GB - MB, GB // 2 - MB):
        space = LARGE._replace(free_bytes=free)
        found.append((space.allows_import(), not space.is_low, space.allows_growth))
    assert found == [(True, True, True), (False, True, True), (False, False, True), (False, False, False)]
    # At most twice the minimum, and what follows counts.
    small = DiskSpace(5 * MB, 2 * MB, 0, 40 * MB)
    assert (small.allows_import(), small.allows_import(2 * MB)) == (True, False)
    # The log may have to be copied.
    assert not small._replace(log_bytes=2 * MB).allows_import()
    assert small._replace(log_bytes=4 * MB).is_low
    # --min-free-disk 0, and file systems that count no blocks.
    for unknown in (small._replace(free_bytes=0, min_bytes=0), UNKNOWN_SPACE):
        assert (unknown.allows_import(GB), unknown.is_low) == (True, False)


def test_the_log_is_emptied_early_where_space_is_short() -> None:
    spaces = [LARGE._replace(free_bytes=GB + left) for left in (GB, 80 * MB, MB, -MB)]
    limits = [FULL_LOG_BYTES, 20 * MB, SHORT_LOG_BYTES, SHORT_LOG_BYTES]
    assert [one.log_limit for one in spaces] == limits
    assert [one.emptied_from for one in spaces] == [*limits[:3], LOW_LOG_BYTES]
    assert UNKNOWN_SPACE.log_limit == FULL_LOG_BYTES


def test_the_reserve_is_taken_where_there_is_plenty(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "analytics.db")
    reserve.take(LARGE._replace(free_bytes=GB + 10 * MB))
    assert not reserve.give_up()
    reserve.take(LARGE)
    assert reserve.path.stat().st_size == 8 * MB
    assert reserve.path.stat().st_mode & 0o777 == 0o600
    assert reserve.give_up()
    assert not reserve.path.exists()


def grow(connection: sqlite3.Connection, bytes_: int) -> None:
    with transaction(connection):
        connection.execute("insert or replace into meta (name, value) values ('test', zeroblob(?))", (bytes_,))


def test_work_that_writes_much_waits_for_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It continues once the other connection has read what it needs."""
    monkeypatch.setattr("tally.storage.disk_space.FULL_LOG_BYTES", MB)
    monkeypatch.setattr(wal, "_REPORT_AFTER_S", 0.0)
    db = tmp_path / "analytics.db"
    said: list[str] = []
    with (
        contextlib.closing(open_database(db, create=True)) as connection,
        contextlib.closing(connect_reader(db)) as reader,
    ):
        reader.execute("begin")
        reader.execute("select * from meta").fetchall()
        grow(connection, 2 * MB)
        done = threading.Event()

        def report(words: str) -> None:
            said.append(words)
            assert not done.is_set()
            reader.execute("rollback")

        space, has_server = keep_log_short(connection, 0, report)
        done.set()
        assert (space.log_bytes, has_server, len(said)) == (0, False, 1)
        assert disk_space(db, 0).log_bytes == 0


def test_truncation_waits_for_a_short_transaction(tmp_path: Path) -> None:
    """An import holds the write lock most of the time."""
    db = tmp_path / "analytics.db"
    with (
        contextlib.closing(open_database(db, create=True)) as connection,
        contextlib.closing(open_database(db, create=False)) as other,
    ):
        grow(connection, MB)
        other.execute("begin immediate")
        timer = threading.Timer(0.02, lambda: other.execute("rollback"))
        timer.start()
        assert truncate_wal(connection)
        timer.join()
        assert log_bytes(db) == 0
