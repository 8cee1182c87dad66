"""`doctor`: every check with a real failure, its message, its fix, and the exit status.

All failures are real: a small disk, another user, a damaged page.
Most tests run the command in this process; those that need another user or limits start a process.
"""

import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from analytics_server import main
from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.clock import ClockState
from tally.maintenance.backup import make_dated
from tally.storage import meta
from tally.storage.bulk_insert import COLUMNS
from tally.storage.database import VERSION, open_database, transaction
from tally.storage.file_lock import lock_file
from tests.robustness.test_clock_changes import need_faketime
from tests.support import proxies
from tests.support.aged_database import run_in_process
from tests.support.app import ROOT, new_database
from tests.support.foreign_schema import FOREIGN
from tests.support.mmdb import mmdb
from tests.support.process import NOBODY, Serve, by_root, clean_environment, until

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TOPICS = {
    *("program", "agents", "zones", "countries", "lists", "server", "permissions", "disk"),
    *("log", "backups", "clock", "proxies", "database"),
}
is_root = os.geteuid() == 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Line(NamedTuple):
    """A finding as printed."""

    mark: str
    topic: str
    words: str
    todo: str


class Diagnosis(NamedTuple):
    status: int
    lines: list[Line]
    err: str

    def of(self, topic: str) -> list[Line]:
        return [line for line in self.lines if line.topic == topic]

    def the(self, topic: str) -> Line:
        """Return the only finding of a topic."""
        (line,) = self.of(topic)
        return line

    @property
    def faults(self) -> set[str]:
        return {line.topic for line in self.lines if line.mark == "FAULT"}


def read(status: int, out: str, err: str) -> Diagnosis:
    lines: list[Line] = []
    for text in out.splitlines():
        mark, rest = text[:6].strip(), text[6:]
        if mark:
            topic, _, words = rest.strip().partition(" ")
            lines.append(Line(mark, topic, words.strip(), ""))
        else:
            assert rest.strip().startswith("->"), text
            lines[-1] = lines[-1]._replace(todo=rest.strip()[2:].strip())
    found = Diagnosis(status, lines, err)
    # For every run: a fault has a fix and sets the exit status.
    assert {line.mark for line in lines} <= {"ok", "note", "FAULT"}
    assert status == (1 if found.faults else 0), out
    assert ("see FAULT above" in err) == bool(found.faults)
    assert "Traceback" not in err
    return found


Doctor = Callable[..., Diagnosis]


@pytest.fixture(scope="module")
def countries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return current country data, since the bundled data becomes old."""
    path = tmp_path_factory.mktemp("countries") / "fresh.mmdb"
    path.write_bytes(mmdb({"8.8.0.0/16": {"country_code": "IS"}}, made=round(time.time())))
    return path


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Return a valid database with a website."""
    path = tmp_path / "analytics.db"
    connection = new_database(path)
    with transaction(connection):
        owner = create_account(connection, "owner@example.com", "business", None, 0)
        add_website(connection, owner, "example.com", "", (), 0)
    connection.close()
    return path


@pytest.fixture
def doctor(db: Path, countries: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Return the command in this process."""
    for name in [name for name in os.environ if name.startswith("ANALYTICS_")]:
        monkeypatch.delenv(name)

    def run(*words: str, path: Path = db, geoip: Path = countries) -> Diagnosis:
        return read(*run_in_process(main, capsys, "doctor", "--db", str(path), "--geoip-db", str(geoip), *words))

    return run


RUN = "from analytics_server import main\nsys.exit(main"


def words_of(db: Path, countries: Path) -> list[str]:
    return ["doctor", "--db", str(db), "--geoip-db", str(countries)]


def elsewhere(words: list[str], prefix: str = "", *, code_in: Path = ROOT, **how: str) -> Diagnosis:
    """Run the command in another process, after Python code that restricts the process."""
    code = f"import sys; sys.path.insert(0, {str(code_in)!r})\n{prefix}\n{RUN}({words}))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=clean_environment(**how), timeout=60
    )
    return read(ended.returncode, ended.stdout, ended.stderr)


def write(db: Path, *statements: tuple[str, tuple[object, ...]]) -> None:
    connection = sqlite3.connect(db)
    for statement, values in statements:
        connection.execute(statement, values)
    connection.commit()
    connection.close()


def noted(db: Path, name: str, value: object) -> None:
    connection = open_database(db, create=False)
    with transaction(connection):
        meta.write(connection, name, value)
    connection.close()


# --- all is well


def test_a_healthy_database(doctor: Doctor, db: Path) -> None:
    """Every check prints a line; without problems there is nothing to do, and nothing is changed."""
    before = {path.name: path.read_bytes() for path in db.parent.iterdir()}
    found = doctor()
    assert found.faults == set()
    assert {line.topic for line in found.lines} == TOPICS
    assert [line for line in found.lines if line.mark == "ok" and line.todo] == []
    assert found.err == f"database: {db}\n"
    assert "sound" in found.the("database").words
    assert {path.name: path.read_bytes() for path in db.parent.iterdir()} == before


def test_doctor_while_a_server_runs(serve: Serve, doctor: Doctor, db: Path) -> None:
    server = serve(db=db)
    found = until(lambda: (now := doctor()) and now.the("clock").mark == "ok" and now)
    assert found.faults == set()
    assert found.the("server").words == f"runs as process {server.pid}"
    assert "less than a minute ago" in found.the("clock").words
    assert server.terminate() == 0
    assert "none runs" in doctor().the("server").words


@pytest.mark.parametrize(("words", "statement"), FOREIGN.items(), ids=FOREIGN)
def test_another_schema(doctor: Doctor, db: Path, words: str, statement: str) -> None:
    with closing(sqlite3.connect(db, isolation_level=None)) as connection:
        connection.execute(statement)
    for option in ((), ("--quick",)):
        found = doctor(*option)
        topic = "database" if words.startswith("has a") else "schema"
        assert topic in found.faults
        assert words in found.the(topic).words


def test_the_redirect_uri_of_single_sign_on(doctor: Doctor) -> None:
    """It is to be registered at the provider, and follows from the public address alone."""
    given = ("--quick", "--oidc-issuer", "https://id.example.com/")
    base = ("--base-url", "https://stats.example.com", "--base-path", "/stats")
    assert doctor("--quick").of("sign-in") == []
    assert doctor(*given).the("sign-in").mark == "FAULT"
    found = doctor(*given, *base, "--oidc-logout", "yes").the("sign-in")
    assert found.mark == "ok"
    assert "https://stats.example.com/stats/sign-in/oidc/callback, and" in found.words
    assert "https://stats.example.com/stats/login for" in found.words


def test_quick_skips_the_full_check(doctor: Doctor) -> None:
    assert "--quick" in doctor("--quick").the("database").words


# --- the database


def foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table t (a)")
    connection.close()


NO_DATABASE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "none": (lambda path: None, "There is no database", "start the server once"),
    "a folder": (lambda path: path.mkdir(), "is a directory", "name a file in it"),
    "empty": (lambda path: path.touch(), "is empty", "start the server once"),
    "text": (lambda path: path.write_text("text" * 999), "is not a SQLite database", "name another file"),
    "another program's": (foreign, "is the database of another program", "name another file"),
}


@pytest.mark.parametrize(("make", "words", "todo"), NO_DATABASE.values(), ids=NO_DATABASE)
def test_no_database(doctor: Doctor, tmp_path: Path, make: Callable[[Path], object], words: str, todo: str) -> None:
    path = tmp_path / "other.db"
    make(path)
    if path.is_file():
        path.chmod(0o600)
    found = doctor(path=path)
    assert (found.status, found.faults) == (1, {"database"})
    assert words in found.the("database").words
    assert todo in found.the("database").todo


def test_a_missing_directory(doctor: Doctor, tmp_path: Path) -> None:
    found = doctor(path=tmp_path / "nowhere" / "a.db")
    assert "disk" in found.faults
    assert "does not exist" in found.the("disk").words


def test_a_newer_file(doctor: Doctor, db: Path) -> None:
    write(db, (f"pragma user_version = {VERSION + 1}", ()))
    found = doctor()
    assert found.faults == {"database"}
    assert f"schema version {VERSION + 1} of a newer release" in found.the("database").words
    assert "install the newer release again, or stop the server and restore a backup" in found.the("database").todo


@pytest.mark.parametrize("words", [(), ("--quick",)], ids=["whole", "quick"])
@pytest.mark.parametrize("table", ["event", "label"])
def test_a_damaged_page(doctor: Doctor, db: Path, table: str, words: tuple[str, ...]) -> None:
    connection = sqlite3.connect(db)
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    ((page,),) = connection.execute("select rootpage from sqlite_schema where name = ?", (table,))
    ((size,),) = connection.execute("pragma page_size")
    connection.close()
    held = bytearray(db.read_bytes())
    held[(page - 1) * size : page * size] = random.Random(1).randbytes(size)
    db.write_bytes(held)
    found = doctor(*words)
    if words and table == "label":
        assert found.faults == set(), "this part is not checked"
        return
    assert found.faults == {"database"}
    line = next(line for line in found.of("database") if line.mark == "FAULT")
    assert "damaged" in line.words
    assert "restore" in line.todo


def test_wrong_figures_in_a_readable_database(doctor: Doctor, db: Path) -> None:
    """The list of free pages is shorter than recorded: all queries work, but the database is damaged."""
    connection = sqlite3.connect(db)
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    connection.close()
    held = bytearray(db.read_bytes())
    held[36:40] = (5).to_bytes(4, "big")  # sqlite.org/fileformat2.html 1.3
    db.write_bytes(held)
    found = doctor()
    assert found.faults == {"database"}
    assert "is damaged: " in found.the("database").words
    assert "5" in found.the("database").words


# --- permissions


def test_a_database_readable_by_others(doctor: Doctor, db: Path) -> None:
    db.chmod(0o644)
    found = doctor()
    assert found.faults == {"permissions"}
    assert "passwords" in found.the("permissions").words
    assert found.the("permissions").todo == f"chmod 600 {db}"
    subprocess.run(found.the("permissions").todo.split(), check=True)
    assert doctor().faults == set()


def test_a_database_replaceable_by_others(doctor: Doctor, db: Path) -> None:
    db.parent.chmod(0o777)
    found = doctor()
    assert found.faults == {"permissions"}
    subprocess.run(found.the("permissions").todo.split(), check=True)
    assert doctor().faults == set()


# Modules and version are read first: the other user may not be allowed to read the installed packages.
AS_NOBODY = f"""
import importlib, os, pkgutil
import tally, tzdata
for module in pkgutil.walk_packages(tally.__path__, "tally."):
    importlib.import_module(module.name)
import analytics_server
from tally.events.user_agent import is_compiled
from tally.resources import tally_version
from tally.storage.schema_check import expected_schema
from tally.timeranges import zone, zone_names
tally_version(), is_compiled(), expected_schema()
[zone(name) for name in zone_names()]
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
"""


@pytest.fixture
def readable_code() -> Iterator[Path]:
    """Return a copy of the code that all users can read, as the checkout may be closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("tally", "static"):
            shutil.copytree(ROOT / name, Path(folder, name))
        for name in ("analytics_server.py", "schema.sql", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        yield Path(folder)


@pytest.mark.slow
@by_root
def test_another_user_gets_the_name_of_the_owner(
    open_folder: Path, readable_code: Path, db: Path, countries: Path
) -> None:
    path, fresh = Path(shutil.copy(db, open_folder)), Path(shutil.copy(countries, open_folder))
    fresh.chmod(0o644)
    found = elsewhere(words_of(path, fresh), AS_NOBODY, code_in=readable_code)
    assert found.faults == {"permissions", "database"}
    line = found.the("permissions")
    assert "nobody cannot write analytics.db, which belongs to root" in line.words
    assert line.todo.endswith("as root")
    # The file belongs to nobody, its directory does not.
    os.chown(path, NOBODY, NOBODY)
    found = elsewhere(words_of(path, fresh), AS_NOBODY, code_in=readable_code)
    assert "cannot write the directory" in found.the("permissions").words
    os.chown(open_folder, NOBODY, NOBODY)
    assert elsewhere(words_of(path, fresh), AS_NOBODY, code_in=readable_code).faults == set()
    # The server of another user has the lock; the file is readable for all.
    os.chown(path, 0, 0)
    path.chmod(0o644)
    lock = lock_file(path)
    try:
        found = elsewhere(words_of(path, fresh), AS_NOBODY, code_in=readable_code)
    finally:
        os.close(lock)
    assert found.the("server")[::2] == ("note", "unknown: the user nobody cannot read analytics.db.lock")
    assert found.the("server").todo == "run `doctor` as the user of the server"
    # The directory cannot be read.
    os.chown(open_folder, 0, 0)
    open_folder.chmod(0o700)
    found = elsewhere(words_of(path, Path("/dev/null")), AS_NOBODY, code_in=readable_code)
    assert {"database", "permissions"} <= found.faults
    assert any("Permission denied" in line.words for line in found.lines)


@by_root
def test_a_log_of_another_user(doctor: Doctor, db: Path) -> None:
    """As left by a command that root ran beside a server of another user."""
    keeping = sqlite3.connect(db)
    keeping.execute("insert into meta values ('x', 1)")
    keeping.commit()
    os.chown(f"{db}-wal", NOBODY, NOBODY)
    found = doctor()
    assert found.faults == {"permissions"}
    assert "analytics.db-wal belongs to nobody, the database to root" in found.the("permissions").words
    assert "chown root" in found.the("permissions").todo
    keeping.close()


HOLD_LOCK = """
import fcntl, os, sys
lock = os.open(sys.argv[1] + ".lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
os.setuid(int(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""
HOLD_READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin")
connection.execute("select count(*) from meta").fetchall()
print("held", flush=True)
sys.stdin.read()
"""


class Holder:
    """Another process that holds a lock until it is stopped."""

    def __init__(self, code: str, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "held\n"
        self.pid = self._process.pid

    def __enter__(self) -> "Holder":
        return self

    def __exit__(self, *failure: object) -> None:
        self._process.communicate("", timeout=60)


@by_root
def test_a_server_of_another_user(doctor: Doctor, db: Path) -> None:
    with Holder(HOLD_LOCK, str(db), str(NOBODY)) as server:
        found = doctor()
    assert found.the("server").words == f"runs as process {server.pid}"
    assert found.faults == {"permissions"}
    assert "belongs to root, the server runs as nobody" in found.the("permissions").words


# --- the disk


def with_a_disk(words: list[str], mount: str, seen: str, **variables: str) -> Diagnosis:
    """Return the output of doctor in a mount namespace of its own."""
    apart = ["unshare", "--mount", *([] if is_root else ["--map-root-user"]), "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*apart, mount], capture_output=True).returncode:
        pytest.skip(f"NOT TESTED: {seen} seen by doctor (no right to mount one here)")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from analytics_server import main; sys.exit(main({words}))"
    ended = subprocess.run(
        [*apart, f'{mount} && exec {sys.executable} -c "$CODE"'],
        capture_output=True,
        text=True,
        env=clean_environment(CODE=code, **variables),
        timeout=60,
    )
    return read(ended.returncode, ended.stdout, ended.stderr)


def test_a_small_disk(db: Path, countries: Path, tmp_path: Path) -> None:
    """A disk of 4 MB."""
    (tmp_path / "small").mkdir()
    words = [word.replace(str(db), str(tmp_path / "small" / db.name)) for word in words_of(db, countries)]
    mount = f"mount -t tmpfs -o size=4m,mode=700 none {tmp_path}/small && cp -p {db} {tmp_path}/small/"
    found = with_a_disk(words, mount, "a full disk")
    assert found.faults == {"disk"}
    assert "MB are free" in found.the("disk").words
    assert "compact" in found.the("disk").todo


def test_a_full_temporary_directory(db: Path, countries: Path, tmp_path: Path) -> None:
    """The same for TMPDIR, in which large queries are sorted."""
    (tmp_path / "small").mkdir()
    mount = f"mount -t tmpfs -o size=1m none {tmp_path}/small"
    found = with_a_disk(words_of(db, countries), mount, "a full temporary folder", TMPDIR=f"{tmp_path}/small")
    assert found.faults == {"disk"}
    assert "sorted" in found.the("disk").words
    assert "TMPDIR" in found.the("disk").todo


def test_a_limit_on_the_size_of_files(serve: Serve, doctor: Doctor, db: Path) -> None:
    """The limit of the running server, not that of the command."""
    server = serve(db=db)
    assert doctor().faults == set()
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1_000_000, hard))
    found = doctor()
    assert found.faults == {"disk"}
    assert "limit on the size of a file is 1.0 MB" in found.the("disk").words
    assert "ulimit" in found.the("disk").todo
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert server.terminate() == 0


# --- the log


def test_a_wal_held_by_a_reader(doctor: Doctor, db: Path) -> None:
    with Holder(HOLD_READER, str(db)) as reader:
        writer = sqlite3.connect(db)
        writer.execute("pragma synchronous = off")
        writer.execute("pragma wal_autocheckpoint = 0")
        writer.execute("insert into meta values ('try', zeroblob(90000000))")
        writer.commit()
        found = doctor("--quick")
        assert found.faults == {"log"}
        assert f"(process {reader.pid}) has it open" in found.the("log").words
        assert found.the("log").todo.startswith("stop that")
    # No process holds it, and no server runs that would truncate it.
    found = doctor("--quick")
    assert found.faults == set()
    assert found.the("log").mark == "note"
    assert "start the server" in found.the("log").todo
    lock = lock_file(db)
    found = doctor("--quick")
    os.close(lock)
    assert found.faults == {"log"}
    assert "restart the server" in found.the("log").todo
    writer.close()


# --- the clock


CLOCKS: dict[str, tuple[int, ClockState, str, str, str]] = {
    "set back": (
        2 * HOUR_MS,
        ClockState(0, 0, 0, 0),
        "FAULT",
        "2 h 0 min before what the server has noted",
        "timedatectl",
    ),
    "a small step": (-60_000, ClockState(0, 0, 0, 0), "ok", "noted the time 1 min ago", ""),
    "long off": (-90 * DAY_MS, ClockState(0, 0, 0, 0), "ok", "noted the time 90 d 0 h ago", ""),
    "jumped": (0, ClockState(0, 40 * DAY_MS, 0, 3 * HOUR_MS), "FAULT", "set forward by 40 d 0 h", "so far 3 h 0 min"),
    "jumped back": (0, ClockState(0, -HOUR_MS, 0, 0), "FAULT", "set back by 1 h 0 min", "24 hours"),
    "was off, not believed yet": (0, ClockState(0, 0, 3 * DAY_MS, 0), "note", "was off for 3 d 0 h", "24 hours"),
}


@pytest.mark.parametrize(("at_ms", "note", "mark", "words", "todo"), CLOCKS.values(), ids=CLOCKS)
def test_clock_jumps_recorded_by_the_server(
    doctor: Doctor, db: Path, at_ms: int, note: ClockState, mark: str, words: str, todo: str
) -> None:
    noted(db, meta.CLOCK, list(note._replace(monotonic_wall_ms=now_ms() + at_ms)))
    lock = lock_file(db)  # as if a server ran
    try:
        line = doctor().the("clock")
    finally:
        os.close(lock)
    assert line.mark == mark
    assert words in line.words
    assert todo in line.todo


def test_a_clock_that_is_behind(serve: Serve, db: Path, countries: Path) -> None:
    """A server recorded the time, then the system clock was set back."""
    library = need_faketime()
    server = serve(db=db)
    until(lambda: sqlite3.connect(db).execute("select 1 from meta where name = 'clock'").fetchone())
    assert server.terminate() == 0
    found = elsewhere(words_of(db, countries), LD_PRELOAD=library, FAKETIME="-3h", FAKETIME_DONT_FAKE_MONOTONIC="1")
    assert found.faults == {"clock"}
    assert "before what the server has noted" in found.the("clock").words


def test_events_of_the_future(doctor: Doctor, db: Path) -> None:
    columns = ", ".join("0" * (len(COLUMNS["event"]) - 4))
    write(db, (f"insert into event values (1, ?, 1, {columns}, null)", (now_ms() + 2 * DAY_MS,)))
    found = doctor()
    assert found.faults == set()
    assert any("in the future" in line.words for line in found.of("clock"))


# --- zones and countries


def package(folder: Path, version: str, *, broken: str = "") -> Path:
    """Create a tzdata package of this version, in which the zone `broken` is invalid."""
    import tzdata

    real = Path(next(iter(tzdata.__path__)))
    own = folder / "tzdata"
    (own / "zoneinfo" / "Europe").mkdir(parents=True)
    (own / "__init__.py").write_text(f"IANA_VERSION = {version!r}\n")
    (own / "zones").write_text("UTC\nEurope/Berlin\n")
    for name in ("UTC", "Europe/Berlin"):
        shutil.copy(real / "zoneinfo" / name, own / "zoneinfo" / name)
    if broken:
        (own / "zoneinfo" / broken).write_bytes(b"TZif2 and noise")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "broken", "words"),
    [("2019a", "", "2 from tzdata 2019a"), ("2090a", "Europe/Berlin", "1 zones of tzdata"), ("", "", "cannot be read")],
    ids=["old", "damaged", "no version"],
)
def test_zone_data(db: Path, countries: Path, tmp_path: Path, version: str, broken: str, words: str) -> None:
    path = package(tmp_path / "first", version, broken=broken)
    found = elsewhere(words_of(db, countries), f"sys.path.insert(0, {str(path)!r})")
    assert found.faults == {"zones"}
    assert words in found.the("zones").words
    assert "pip install --upgrade" in found.the("zones").todo


@pytest.mark.parametrize(
    ("days", "mark", "todo"),
    [(1, "ok", ""), (200, "note", "--geoip-db"), (500, "FAULT", "--geoip-db"), (-9, "FAULT", "clock")],
)
def test_the_age_of_country_data(doctor: Doctor, tmp_path: Path, days: int, mark: str, todo: str) -> None:
    path = tmp_path / "own.mmdb"
    path.write_bytes(mmdb({"8.8.0.0/16": {"country_code": "IS"}}, made=round(time.time()) - days * 86_400))
    line = doctor(geoip=path).the("countries")
    assert line.mark == mark
    assert str(path) in line.words
    assert todo in line.todo


def test_the_list_of_data_centres(doctor: Doctor, tmp_path: Path) -> None:
    path = tmp_path / "ranges.txt"
    path.write_text("# date: 2026-10-26\n203.0.113.0/24\n")
    lines = doctor("--datacenter-ranges", str(path)).of("lists")
    assert [line.mark for line in lines] == ["ok", "ok", "note"]
    assert lines[2].words.startswith("ranges.txt of 2026-10-26, ")
    assert lines[2].todo == "write the file of --datacenter-ranges again"
    path.write_text(f"# date: {datetime.now(UTC).date()}\n203.0.113.0/24\n")
    assert doctor("--datacenter-ranges", str(path)).of("lists")[2].mark == "ok"
    path.write_text("example.com\n")
    (line,) = doctor("--datacenter-ranges", str(path)).of("lists")
    assert (line.mark, line.todo) == ("FAULT", "the server does not start with it")
    assert "ranges.txt, line 1: a network such as" in line.words


@pytest.mark.parametrize("content", [None, b"", b"noise" * 100])
def test_no_country_data(doctor: Doctor, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "own.mmdb"
    if content is not None:
        path.write_bytes(content)
    found = doctor(geoip=path)
    assert found.faults == {"countries"}
    assert "--geoip-db" in found.the("countries").words


# --- proxies

# Headers of a further request, and the finding after it.
REQUESTS: tuple[tuple[dict[str, str], str, str, str], ...] = (
    ({}, "note", "requests came from this machine without X-Forwarded-For", "a proxy must set X-Forwarded-For"),
    (
        {"CF-Connecting-IP": "203.0.113.9"},
        "FAULT",
        "CF-Connecting-IP came in requests, and X-Forwarded-For",
        "--forwarded-header CF-Connecting-IP",
    ),
    ({"X-Forwarded-For": "203.0.113.9"}, "ok", "a trusted proxy sets X-Forwarded-For", ""),
    (
        {"X-Forwarded-For": "203.0.113.9, 172.18.0.1"},
        "FAULT",
        "172.16.0.0/12, which is not trusted",
        "--trusted-proxy 172.16.0.0/12",
    ),
)


def test_recorded_proxy_headers(serve: Serve, doctor: Doctor, db: Path) -> None:
    assert "no request has been recorded" in doctor("--quick").the("proxies").words
    server = serve(db=db)
    until(lambda: "nothing has come in" in doctor("--quick").the("proxies").words)
    for headers, mark, words, todo in REQUESTS:
        assert server.request("GET", "/tracker.js", headers=headers).status == 200
        assert server.request("POST", "/api/collect", {}, headers=headers).status == 400

        def found(mark: str = mark, words: str = words) -> Line | None:
            lines = doctor("--quick").of("proxies")
            return next((line for line in lines if line.mark == mark and words in line.words), None)

        assert todo in until(found).todo
    assert "203.0.113" not in str(sqlite3.connect(db).execute("select value from meta").fetchall())
    assert server.terminate() == 0
    assert found() is not None, "the record remains after the server has stopped"


def test_nginx_with_proxy_pass_only(serve: Serve, doctor: Doctor, db: Path, tmp_path: Path) -> None:
    """Such a proxy shows no /metrics; `doctor` names the missing header, also of a proxy that hides itself better."""
    server = serve("--base-url", "https://stats.example.com", db=db)
    assert server.request("GET", "/metrics").status == 200
    hidden = "cannot be distinguished from those of this machine"
    assert (
        "X-Forwarded-For"
        in until(lambda: [line for line in doctor("--quick").of("metrics") if hidden in line.words])[0].todo
    )
    proxy = proxies.Proxy("nginx", proxies.BARE_NGINX, server.url.removeprefix("http://"), tmp_path / "nginx")
    try:
        with urlopen(f"http://127.0.0.1:{proxy.port}/healthz") as answer:
            assert answer.status == 200
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"http://127.0.0.1:{proxy.port}/metrics")
    finally:
        proxy.stop()
    found = until(lambda: [line for line in doctor("--quick").of("proxies") if line.mark == "FAULT"])
    assert "only has a proxy_pass" in found[0].words
    assert "X-Forwarded-For" in found[0].todo


def test_nginx_without_headers(serve: Serve, doctor: Doctor, db: Path, tmp_path: Path) -> None:
    """The default of nginx 1.30: `doctor` warns before the first event from another page closes /metrics."""
    server = serve(db=db)
    proxy = proxies.Proxy("nginx", proxies.HIDDEN_NGINX, server.url.removeprefix("http://"), tmp_path / "nginx")
    ((website,),) = sqlite3.connect(db).execute("select id from website").fetchall()
    event = json.dumps({"type": "pageview", "website_id": website, "url": "https://example.com/"}).encode()
    own = {"Content-Type": "application/json", "Origin": "https://example.com"}
    through = f"http://127.0.0.1:{proxy.port}"

    def status(path: str, body: bytes | None = None) -> int:
        try:
            with urlopen(Request(through + path, body, own if body else {})) as answer:
                return int(answer.status)
        except HTTPError as refused:
            with refused:
                return refused.code

    try:
        assert status("/metrics") == 200, "nothing shows the proxy yet"
        until(lambda: [line for line in doctor("--quick").of("proxies") if "/metrics is public" in line.todo])
        assert status("/api/collect", event) == 202
        assert (status("/metrics"), server.request("GET", "/metrics").status) == (403, 403)
        found = until(lambda: [line for line in doctor("--quick").of("metrics") if line.mark == "FAULT"])
        assert "--metrics-token" in found[0].todo
    finally:
        proxy.stop()


def test_metrics_behind_a_proxy_that_says_so(serve: Serve, doctor: Doctor, db: Path) -> None:
    server = serve("--base-url", "https://stats.example.com", "--metrics-token", "x" * 20, db=db)
    assert server.request("GET", "/metrics", headers={"X-Forwarded-For": "203.0.113.9"}).status == 403
    until(lambda: [line for line in doctor("--quick").of("metrics") if line.mark == "ok" and "token" in line.words])


def test_visitors_without_a_proxy(serve: Serve, doctor: Doctor, db: Path) -> None:
    server = serve("--trusted-proxy", "none", db=db)
    assert server.request("POST", "/api/collect", {}).status == 400
    until(lambda: "clients connect directly" in doctor("--quick").the("proxies").words)


def test_a_local_server_has_one_note_about_proxies(serve: Serve, doctor: Doctor, db: Path) -> None:
    server = serve(db=db)
    assert server.request("GET", "/metrics").status == 200
    until(lambda: [line for line in doctor("--quick").of("proxies") if "no proxy" in line.words])
    notes = [line for line in doctor("--quick").lines if "X-Forwarded-For" in line.words + line.todo]
    assert [(line.mark, line.topic) for line in notes] == [("note", "proxies")]


@pytest.mark.parametrize(
    "value", [None, {}, [], {"header": 1}, {"header": "X", "seen": 1, "networks": [], "others": []}]
)
def test_an_unreadable_record(doctor: Doctor, db: Path, value: object) -> None:
    noted(db, meta.PROXIES, value)
    found = doctor("--quick")
    assert found.the("proxies").mark == "note"


# --- backups


def test_backups(doctor: Doctor, db: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    assert "--backup-dir" in doctor("--quick").the("backups").todo
    given = ("--quick", "--backup-dir", str(folder))
    assert "does not exist" in doctor(*given).the("backups").words
    folder.mkdir()
    found = doctor(*given)
    assert found.faults == {"backups"}
    assert "there is none" in found.the("backups").words
    make_dated(db, folder, 7, now_ms() - 3 * DAY_MS)
    found = doctor(*given)
    assert found.faults == {"backups"}
    assert "1 in" in found.the("backups").words
    assert "72 hours old" in found.the("backups").words
    make_dated(db, folder, 7, now_ms())
    found = doctor(*given)
    assert found.faults == set()
    assert "same disk as the database" in found.the("backups").todo
