"""Backups and increments at a destination, and restores from there: rules that do not depend on its kind.

The destination is a directory of this machine (`Folder`). tests/robustness/test_lost_machine.py has real servers,
the real `age`, and kills.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tally.accounts.websites import WebsiteSettings, delete_website, update_settings
from tally.maintenance import increment_stream, offsite_restore
from tally.maintenance.backup import BackupError, make_backup
from tally.maintenance.increment_stream import IncrementStream
from tally.maintenance.offsite_backup import Offsite, OffsiteBackup, make_offsite, work_directory
from tally.maintenance.restore import restore
from tally.offsite import names
from tally.offsite.destination import DestinationError, StoredFile, require_same, usable
from tally.timestamps import DAY_MS
from tally.transfer.increments import Restored
from tests.support.app import NOON_MS, OWNER, ManualClock
from tests.support.foreign_schema import FOREIGN
from tests.support.process import by_root
from tests.support.read_api import Site, SyncApp, custom, ms, sync_app_at, view

HOUR_S = 3600


class Folder:
    """A destination in a directory. `is_away`: it cannot be reached."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.is_away = folder, False

    def __call__(self) -> "Folder":
        return self

    def path(self, name: str) -> Path:
        if self.is_away:
            raise DestinationError("it cannot be reached")
        return self.folder / name

    def put(self, name: str, file: BinaryIO) -> None:
        file.seek(0)
        with self.path(name).open("wb") as target:
            shutil.copyfileobj(file, target)

    def files(self, limit: int | None = 6) -> list[StoredFile]:
        return usable((StoredFile(path.name, path.stat().st_size) for path in self.path("").iterdir()), limit)

    def get(self, name: str, size: int) -> Iterator[bytes]:
        yield self.path(name).read_bytes()

    def delete(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    def close(self) -> None:
        pass

    @property
    def stored(self) -> names.Catalog:
        return names.catalog((path.name, path.stat().st_size) for path in self.folder.iterdir())


class Sender:
    """A server whose events go to a folder, with its nightly backup and increments."""

    def __init__(self, sync_app: SyncApp, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Offsite, "connect", lambda offsite: folder)
        self.sync_app, self.folder, self.clock = sync_app, folder, sync_app.clock
        self.begin()

    def begin(self) -> None:
        """Begin as a server does after its start."""
        engine = self.running = self.sync_app.app.running
        self.offsite = Offsite(self.sync_app.app.db, "", None, (), 2)
        self.backup = OffsiteBackup(self.offsite, 3, self.clock, lambda: engine.changes.last_id)
        self.stream = IncrementStream(self.offsite, 1, self.clock)
        self.backup.began, self.backup.is_needed = self.stream.begin_after, lambda: self.stream.needs_backup
        engine.on_committed[:] = [self.stream.note]

    def pass_time(self, seconds: float = 1) -> None:
        """Let time pass, do what is due, and wait for it."""
        self.clock.advance(seconds)
        for _ in range(3):
            now_ms = self.clock.wall_ms()
            self.backup.start_if_due(now_ms)
            if self.backup._thread is not None:
                self.backup._thread.join()
            self.stream.start_if_due(self.running.changes.last_id, now_ms)
            if self.stream._thread is not None:
                self.stream._thread.join()
            self.clock.advance(1)


@pytest.fixture
def sync_app(tmp_path: Path) -> Iterator[SyncApp]:
    (tmp_path / "data").mkdir()
    with sync_app_at(tmp_path / "data" / "analytics.db") as sync_app:
        yield sync_app


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "far").mkdir()
    return Folder(tmp_path / "far")


@pytest.fixture
def sender(sync_app: SyncApp, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Sender:
    return Sender(sync_app, folder, monkeypatch)


def fetched(folder: Folder, elsewhere: Path, name: str = "") -> offsite_restore.Fetched:
    """Restore into an empty directory."""
    shutil.rmtree(elsewhere, ignore_errors=True)
    elsewhere.mkdir()
    return offsite_restore.fetch(folder, "far", name, None, elsewhere, NOON_MS + 1_000_000, print)


def rows(db: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(query).fetchall()


EVENTS = (
    "select w.domain, ts, type, visitor, visit, (select text from label where id = pathname), event_data"
    " from event join website w on w.number = website order by 1, 2, 3, 6"
)
VISITS = (
    "select w.domain, day, visitor, visit, start_ms, duration_ms, pageviews, events,"
    " (select text from label where id = referrer) from visit join website w on w.number = website order by 1, 2, 3, 4"
)


def measured(who: str) -> dict[str, Any]:
    return {
        "type": "vitals",
        "url": "https://example.com/",
        "session_id": f"session-of-{who}",
        "vitals": {"lcp": 1_200, "cls": 0.1},
    }


def test_what_increments_restore(sender: Sender, folder: Folder, tmp_path: Path) -> None:
    """Every event type but heatmap points, late events, a website newer than the backup; visitors and visits as they
    were; in the database once, whether the backup has it or not."""
    sync_app = sender.sync_app
    site = sync_app.site()
    site.send(view("10:00", who="ann", referrer="https://news.example/"), view("10:01", "/b", "bob"))
    sender.pass_time()
    assert (len(folder.stored.backups), folder.stored.increments) == (1, [])
    assign = {"type": "ab_assign", "experiment": "button", "variant": "green", "session_id": "session-of-ann"}
    convert = {"type": "ab_convert", "experiment": "button", "goal": "bought", "session_id": "session-of-ann"}
    place = {"url": "https://example.com/"}
    site.send(
        view("10:02", "/late", "ann"),
        custom("10:03", "signup", "bob", event_data={"plan": "pro", "n": 1.5}),
        measured("ann"),
        assign | place,
        convert | place,
    )
    sender.pass_time()
    newer = sync_app.site("new.example")
    newer.send(view("11:00", who="carl"))
    sender.pass_time()
    assert len(folder.stored.increments) == 2
    sender.pass_time(100)
    assert len(folder.stored.increments) == 2, "nothing is sent where nothing is new"

    got = fetched(folder, tmp_path / "elsewhere")
    assert got.restored == Restored(6, 0, 0, ["new.example"])
    assert got.gaps == []
    for query in (EVENTS, VISITS, "select id, domain, name from website order by 1"):
        assert rows(got.path, query) == rows(sync_app.app.db, query)
    for table in ("web_vitals", "experiment_event", "experiment_assignment", "experiment_conversion"):
        assert rows(got.path, f"select count(*) from {table}") == rows(sync_app.app.db, f"select count(*) from {table}")
        assert rows(got.path, f"select count(*) from {table}") != [(0,)]
    for table in ("import", "import_range", "import_id"):
        assert rows(got.path, f"select count(*) from {table}") == [(0,)], "they are no import that can be undone"
    assert rows(got.path, "select email from person") == [(OWNER,)]


@pytest.mark.parametrize("words", ["the table 'more' is not part of Tally", "the table account is another"])
def test_a_backup_with_another_schema_is_not_restored(
    sender: Sender, folder: Folder, tmp_path: Path, words: str
) -> None:
    with closing(sqlite3.connect(sender.sync_app.app.db, isolation_level=None)) as connection:
        connection.execute(FOREIGN[words])
    sender.pass_time()
    (backup,) = folder.stored.backups
    with pytest.raises(BackupError) as refused:
        fetched(folder, tmp_path / "elsewhere")
    assert backup.name in str(refused.value)
    assert words in str(refused.value)


def test_events_that_the_backup_has_are_not_restored_again(sender: Sender, folder: Folder, tmp_path: Path) -> None:
    """A backup by the command has no last id: increments overlap with it."""
    site = sender.sync_app.site()
    site.send(view("10:00"))
    sender.pass_time()
    site.send(view("10:01", "/b"), measured("ann"))
    sender.pass_time()
    (before,) = folder.stored.increments
    kept = (folder.folder / before.name).read_bytes()
    made, _, position = make_offsite(sender.offsite, folder, None, sender.clock.wall_ms())
    assert position == before.to
    assert folder.stored.increments == [], "the backup holds its events"
    later = f"{before.after}-{before.to}", f"{before.after}-{before.to + 1}"
    (folder.folder / before.name.replace(*later)).write_bytes(kept)
    got = fetched(folder, tmp_path / "elsewhere", made.name)
    assert got.restored == Restored(0, 2, 0, [])
    assert rows(got.path, EVENTS) == rows(sender.sync_app.app.db, EVENTS)


@pytest.mark.slow
def test_a_destination_that_is_away(sender: Sender, folder: Folder, tmp_path: Path, caplog: Any) -> None:
    """Nothing is kept in memory; pauses grow; everything is sent afterwards, also after a restart."""
    site = sender.sync_app.site()
    site.send(view("10:00"))
    sender.pass_time()
    folder.is_away = True
    for n in range(20):
        site.send(view("10:01", f"/{n}"))
        sender.pass_time(20)
    assert 3 < sender.stream.failed < 15, "the pauses grow"
    assert sender.stream.behind_ns > 380e9
    assert "it cannot be reached" in str(caplog.records[-1].fields["error"])
    folder.is_away = False
    sender.pass_time(300)
    assert sender.stream.behind_ns < 5e9
    assert fetched(folder, tmp_path / "elsewhere").restored.events == 20

    site.send(view("10:02", "/before"))
    sender.sync_app.run(sender.sync_app.app.restart())
    sender.begin()
    site.send(view("10:03", "/after"))
    sender.pass_time()
    assert fetched(folder, tmp_path / "elsewhere").restored.events == 22


def test_memory_and_size_are_bounded(
    sender: Sender, folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(increment_stream, "MAX_QUARTERS", 3)
    monkeypatch.setattr(increment_stream, "MAX_IDS", 4)
    site = sender.sync_app.site()
    site.send(view("10:00"))
    sender.pass_time()
    for n in range(10):
        site.send(view(f"{n:02}:00", f"/{n}"))
    assert sender.stream._noted is None
    sender.pass_time()
    assert len(folder.stored.increments) >= 3
    assert fetched(folder, tmp_path / "elsewhere").restored.events == 10


def test_a_nightly_backup_replaces_increments(sender: Sender, folder: Folder, tmp_path: Path) -> None:
    site = sender.sync_app.site()
    for n in range(5):
        site.send(view(sender.clock.wall_ms(), f"/{n}"))
        sender.pass_time(24 * HOUR_S)
        site.send(view(sender.clock.wall_ms(), f"/{n}/more"))
        sender.pass_time()
        assert len(folder.stored.backups) == min(n + 1, 2), "as many as are kept"
        assert len(folder.stored.increments) == 1
    assert fetched(folder, tmp_path / "elsewhere").gaps == []
    older = folder.stored.backups[0]
    (gap,) = fetched(folder, tmp_path / "elsewhere", older.name).gaps
    assert gap == (older.position, folder.stored.increments[0].after), "its increments are deleted"


@pytest.mark.parametrize("by_command", [True, False])
def test_after_a_restore_another_series_begins(
    sender: Sender, folder: Folder, tmp_path: Path, by_command: bool
) -> None:
    """Ids are assigned again: an event with an old id is sent all the same."""
    app, site = sender.sync_app.app, sender.sync_app.site()
    site.send(view("10:00"))
    sender.pass_time()
    first = folder.stored.backups[0]
    sender.sync_app.run(app.close())
    if by_command:
        restore(fetched(folder, tmp_path / "elsewhere").path, app.db, NOON_MS)
    else:
        # A copy by hand, of a file whose ids are far behind those that were sent.
        shutil.copy(folder.folder / first.name, app.db)
        Path(f"{app.db}-wal").unlink(missing_ok=True)
        name = names.increment_name(first.database, first.series, first.position, 1 << 40, is_encrypted=False)
        (folder.folder / name).write_bytes(b"")
    sender.sync_app.run(app.open())
    sender.begin()
    site.send(view("10:05", "/after"))
    sender.pass_time()
    site.send(view("10:06", "/later"))
    sender.pass_time()
    stored = folder.stored
    assert len({backup.series for backup in stored.backups}) == 2
    assert stored.backups[-1].series != first.series
    assert {increment.series for increment in stored.increments} - {first.series} == {stored.backups[-1].series}
    got = fetched(folder, tmp_path / "elsewhere")
    assert rows(got.path, EVENTS) == rows(app.db, EVENTS)
    assert len(rows(got.path, EVENTS)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("way", ["restore", "copy", "command"])
def test_increments_of_the_database_before_remain_with_their_backup(
    sender: Sender, folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    """After a restore of another file, or a copy by hand, nothing else has their events."""
    app, site, local = sender.sync_app.app, sender.sync_app.site(), tmp_path / "local.db"
    make_backup(app.db, local)
    site.send(view("10:00"))
    sender.pass_time()
    site.send(view("10:01", "/b"), view("10:02", "/c"))
    sender.pass_time()
    (first,), (increment,) = folder.stored.backups, folder.stored.increments
    sender.sync_app.run(app.close())
    if way == "restore":
        restore(local, app.db, NOON_MS)
    else:
        Path(f"{app.db}-wal").unlink(missing_ok=True)
        shutil.copy(local, app.db)
    sender.sync_app.run(app.open())
    sender.begin()
    if way == "command":
        make_offsite(sender.offsite, folder, None, sender.clock.wall_ms())
    else:
        site.send(view("10:05", "/after"))
        sender.pass_time()
    assert increment in folder.stored.increments
    newest = fetched(folder, tmp_path / "elsewhere")
    assert newest.backup == folder.stored.backups[-1] != first
    words = f"{first.name} and 1 increment after it are of the database before it was replaced"
    assert words in capsys.readouterr().out
    assert fetched(folder, tmp_path / "elsewhere", first.name).restored.events == 2
    for _ in range(2):
        sender.pass_time(24 * HOUR_S)
    assert first.series not in {one.series for one in (*folder.stored.backups, *folder.stored.increments)}


def test_backups_dated_in_the_future_are_replaced_first(sender: Sender, folder: Folder) -> None:
    for days in (4000, 4001, 1, 2, 3):
        made = make_offsite(sender.offsite, folder, None, NOON_MS + days * DAY_MS)[0]
        assert made.name in [backup.name for backup in folder.stored.backups]
    assert [backup.time_ms for backup in folder.stored.backups] == [NOON_MS + days * DAY_MS for days in (2, 3)]


@pytest.mark.parametrize("kind", ["link", "dangling", "file"])
def test_a_work_directory_that_is_a_link_is_refused(sender: Sender, folder: Folder, tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "backup.db").write_text("mine")
    path = sender.offsite.db.with_name("analytics.db.offsite")
    if kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to(other if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(BackupError, match=r"analytics\.db\.offsite is a symbolic link, or no directory: delete it"):
        make_offsite(sender.offsite, folder, None, NOON_MS)
    assert (other / "backup.db").read_text() == "mine"
    assert folder.stored.backups == []


def test_a_work_directory_is_emptied_of_leftovers_alone(sender: Sender, folder: Folder) -> None:
    path = sender.offsite.db.with_name("analytics.db.offsite")
    path.mkdir()
    for leftover in ("backup.db", "backup.db.unfinished", "backup.db.age", "increment", "0.ndjson"):
        (path / leftover).touch()
    (path / "notes.txt").write_text("mine")
    make_offsite(sender.offsite, folder, None, NOON_MS)
    assert [one.name for one in path.iterdir()] == ["notes.txt"]
    (path / "notes.txt").unlink()
    make_offsite(sender.offsite, folder, None, NOON_MS)
    assert not path.exists()


@by_root
def test_a_work_directory_of_root_belongs_to_the_owner_of_the_database(sender: Sender) -> None:
    """Where it remains after a command of root was killed, the server can use it."""
    os.chown(sender.offsite.db, 4711, 4712)
    with work_directory(sender.offsite.db) as path:
        assert (path.stat().st_uid, path.stat().st_gid) == (4711, 4712)


def test_imports_and_deleted_websites_are_not_in_increments(sender: Sender, folder: Folder, tmp_path: Path) -> None:
    """The file of an import is imported again: its lines would be there twice."""
    from tests.support.imports import Imports

    sync_app = sender.sync_app
    imports, gone = Imports(sync_app, sync_app.site(), tmp_path), sync_app.site("gone.example")
    imports.site.send(view("10:00"))
    sender.pass_time()
    line = '{"id": "7", "type": "pageview", "timestamp": "2026-11-17T10:01:00Z", "pathname": "/imported"}\n'
    assert imports.take("tally", line) == "1"
    imports.site.send(view("10:02", "/own"))
    gone.send(view("10:02", "/gone"))
    sync_app.run(sync_app.app.admin(lambda connection: delete_website(connection, 2, NOON_MS)))
    sender.pass_time()
    got = fetched(folder, tmp_path / "elsewhere")
    assert (got.restored.events, [row[5] for row in rows(got.path, EVENTS)]) == (1, ["/", "/own"])


@pytest.mark.parametrize("is_older", [True, False], ids=["website-in-the-backup", "website-after-it"])
def test_increments_keep_when_the_days_of_a_website_begin(
    sender: Sender, folder: Folder, tmp_path: Path, is_older: bool
) -> None:
    """A visit over midnight UTC is one visit after a restore, also where the zone was set after the backup."""
    sync_app = sender.sync_app
    sync_app.site("first.example").send(view("10:00"))
    site = sync_app.site() if is_older else None
    sender.pass_time()
    site = site or sync_app.site()
    zone = WebsiteSettings("Asia/Kolkata", "monday", None)
    sync_app.run(sync_app.app.admin(lambda connection: update_settings(connection, 2, zone, NOON_MS)))
    site.send(view("2026-11-16T23:50:00Z"), view("2026-11-17T00:10:00Z"))
    sender.pass_time()
    assert folder.stored.increments
    got = fetched(folder, tmp_path / "elsewhere")
    assert rows(got.path, "select day_offset_minutes, time_zone from website order by number") == [
        (0, None),
        (330, "Asia/Kolkata"),
    ]
    times = "select start_ms, duration_ms, pageviews from visit where website = 2"
    assert rows(got.path, times) == rows(sync_app.app.db, times) == [(ms("2026-11-17T05:20:00Z"), 1_200_000, 2)]


def test_what_a_destination_returns_is_checked(sender: Sender, folder: Folder, tmp_path: Path) -> None:
    site: Site = sender.sync_app.site()
    site.send(view("10:00"))
    sender.pass_time()
    site.send(view("10:01"))
    sender.pass_time()
    (backup,), (increment,) = folder.stored.backups, folder.stored.increments
    for wrong in ("../tally-x", "tally-..", "tally-a/b", "/etc/passwd", "tally-\n", ".", "tally-" + "a" * 200):
        assert usable([StoredFile(wrong, 1)]) == [], wrong
    with pytest.raises(DestinationError, match="more than 500,000 files"):
        usable(StoredFile("other", 1) for _ in range(500_001))
    with (tmp_path / "sent").open("w+b") as file:
        file.write(bytes(2_000_000))
        with pytest.raises(DestinationError, match=r"5 of 2,000,000 bytes are stored"):
            require_same("x", file, [bytes(5)])

    path = folder.folder / increment.name
    kept = path.read_bytes()
    for content in (kept[:-10], b"no gzip", b'{"website_id":"x"}\n', b'{"type":"pageview"}\n'):
        path.write_bytes(content)
        with pytest.raises(BackupError, match=r"damaged|no increment"):
            fetched(folder, tmp_path / "elsewhere")
    path.write_bytes(kept)
    other = f"tally-00000000-{backup.name.split('-', 2)[2]}"
    shutil.copy(folder.folder / backup.name, folder.folder / other)
    with pytest.raises(BackupError, match=r"backups of 2 databases .* add /NAME"):
        fetched(folder, tmp_path / "elsewhere")
    with pytest.raises(BackupError, match="another database than its name says"):
        fetched(folder, tmp_path / "elsewhere", other)
    (folder.folder / backup.name).write_bytes((folder.folder / backup.name).read_bytes()[:-5_000])
    with pytest.raises(BackupError, match=r"damaged.*choose another backup"):
        fetched(folder, tmp_path / "elsewhere", backup.name)
    with pytest.raises(BackupError, match="There is no backup of Tally at far: check the URL"):
        offsite_restore.choose(names.catalog([]), "", "far")


def test_a_restore_has_no_limit_of_files(sender: Sender, folder: Folder, tmp_path: Path) -> None:
    site = sender.sync_app.site()
    site.send(view("10:00"))
    sender.pass_time()
    for n in range(7):
        site.send(view("10:01", f"/{n}"))
        sender.pass_time()
    with pytest.raises(DestinationError, match="more than 6 files"):
        folder.files()
    assert fetched(folder, tmp_path / "elsewhere").restored.events == 7


@pytest.mark.parametrize(
    "kind", ["s3://bucket/dir/{}?endpoint=https://s3.example", "sftp://u@h:23/~/dir/{}", "https://h/{}"]
)
def test_a_url_may_name_a_backup(kind: str) -> None:
    name = "tally-4f2a9c1b-20261122T030000Z-81c0d2aa-120345.db.age"
    assert offsite_restore.split_name(kind.format(name)) == (kind.format("").replace("/?", "?").removesuffix("/"), name)
    assert offsite_restore.split_name(kind.format("x")) == (kind.format("x"), "")


def test_failures_of_the_nightly_backup(sender: Sender, folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    clock: ManualClock = sender.clock
    folder.is_away = True
    failures = []
    for _ in range(130):
        clock.advance(60)
        sender.backup.start_if_due(clock.wall_ms())
        assert sender.backup._thread is not None
        sender.backup._thread.join()
        failures.append(sender.backup.failed)
    assert failures[-1] == 8, "after 1, 2, 4 ... 32 minutes, then each hour"
    assert "nightly backup to another machine failed, the next attempt is in an hour" in caplog.text
    folder.is_away = False
    sender.pass_time(HOUR_S)
    assert (sender.backup.made, sender.backup.bytes) == (1, folder.stored.backups[0].size)
    assert list(sender.offsite.db.parent.glob("*.offsite")) == [], "the copy is deleted"
