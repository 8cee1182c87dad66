"""tally/storage/database.py: creation, recognition and migration of database files are atomic, also when killed.

The tests use real processes: several that create or migrate the same file at once, and processes killed in the middle
of a migration, or at each single write (strace counts the system calls and sends SIGKILL).
"""

import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tally.events.dimensions import EVENT_FIELDS, FIELDS, VISIT_FIELDS
from tally.maintenance.backup import open_immutable
from tally.storage.database import (
    APPLICATION_ID,
    MIGRATIONS,
    VERSION,
    BadDatabase,
    Migration,
    connect_reader,
    connect_writer,
    open_database,
    open_unchanged,
)
from tally.storage.schema_check import differences
from tests.support.app import ROOT
from tests.support.foreign_schema import FOREIGN
from tests.support.process import clean_environment, need_strace
from tests.support.selection import first_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def value(path: Path, query: str) -> Any:
    return rows(path, query)[0][0]


def make(path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    open_database(path, create=True, before_migration=lambda version: None, migrations=migrations).close()


def shape(path: Path) -> list[tuple[Any, ...]]:
    """Return the rows of sqlite_schema."""
    return rows(path, "select type, name, tbl_name, sql from sqlite_schema order by 1, 2")


# A new file


@pytest.mark.parametrize(
    ("pragma", "expected"),
    [
        ("application_id", APPLICATION_ID),
        ("user_version", VERSION),
        ("journal_mode", "wal"),
        ("auto_vacuum", 2),
        ("integrity_check", "ok"),
        ("encoding", "UTF-8"),
    ],
)
def test_a_new_file(pragma: str, expected: Any, path: Path) -> None:
    """A new file has the application id and the version; auto_vacuum 2 is incremental."""
    make(path)
    assert value(path, f"pragma {pragma}") == expected


def test_a_new_file_has_every_table_of_schema_sql(path: Path) -> None:
    make(path)
    with closing(sqlite3.connect(":memory:")) as plain:
        plain.executescript((ROOT / "schema.sql").read_text())
        expected = plain.execute("select type, name, tbl_name, sql from sqlite_schema order by 1, 2").fetchall()
    assert shape(path) == expected


@pytest.mark.parametrize(("kind", "name"), [("trigger", "undo"), ("view", "v")])
def test_a_file_with_a_trigger_or_a_view_is_refused(path: Path, kind: str, name: str) -> None:
    """By a start, by commands and by what only reads."""
    make(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(FOREIGN[f"has a {kind}"])
    for refuses in (make, open_unchanged, lambda path: open_database(path, create=False)):
        with pytest.raises(BadDatabase, match=f"has a {kind} that is not part of Tally.*'{name}'"):
            refuses(path)


@pytest.mark.parametrize("connect", [connect_reader, connect_writer, open_unchanged, open_immutable])
def test_no_connection_trusts_the_schema(path: Path, connect: Callable[[Path], sqlite3.Connection]) -> None:
    make(path)
    with closing(connect(path)) as connection:
        assert connection.execute("pragma trusted_schema").fetchone() == (0,)


def test_a_column_of_a_migration_is_where_schema_sql_has_it(path: Path) -> None:
    """SQLite adds it at the end of the table's statement; schema.sql may have it elsewhere, with a comment."""
    script = (ROOT / "schema.sql").read_text()
    column = re.search(r"\n  time_zone .*,.*", script[script.index("create table website (") :])
    assert column is not None
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script.replace(column[0], ""))
        connection.execute("alter table website add column " + column[0].partition(",")[0])
        assert differences(connection) == ""
        connection.execute("alter table website add column more text")
        assert differences(connection) == "the table website is another than that of Tally"


def test_each_file_has_a_salt_of_its_own(tmp_path: Path) -> None:
    salts = set()
    for name in ("a.db", "b.db"):
        make(tmp_path / name)
        salts.add(value(tmp_path / name, "select value from meta where name = 'key_salt'"))
    assert {len(salt) for salt in salts} == {32}
    assert len(salts) == 2


def test_opening_again_changes_nothing(path: Path) -> None:
    make(path)
    before = path.read_bytes()
    make(path)
    assert path.read_bytes() == before


def test_a_file_is_created_only_on_request(path: Path) -> None:
    with pytest.raises(BadDatabase, match=str(path)):
        open_database(path, create=False)
    assert not path.exists()


def test_commits_reach_the_disk(path: Path) -> None:
    """`synchronous=FULL` is 2 in SQLite; every connection sets it."""
    make(path)
    with closing(open_database(path, create=False)) as connection:
        assert connection.execute("pragma synchronous").fetchone() == (2,)
        assert connection.execute("pragma foreign_keys").fetchone() == (1,)


def test_a_reader_cannot_write(path: Path) -> None:
    make(path)
    with closing(connect_reader(path)) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("delete from label")


@pytest.mark.parametrize("name", ["what?.db", "a#b.db", "100%25.db", "with space.db", "naïve.db"])
def test_a_reader_finds_a_file_of_any_name(name: str, tmp_path: Path) -> None:
    """Readers open files by URI, in which some characters have a meaning."""
    make(tmp_path / name)
    with closing(connect_reader(tmp_path / name)) as reader:
        assert reader.execute("pragma user_version").fetchone() == (VERSION,)


# Migrations: each runs in one transaction that also sets the version


def add_table(connection: sqlite3.Connection) -> None:
    connection.execute("create table added (n integer)")
    connection.execute("insert into added values (1), (2), (3)")
    connection.execute("insert into label (text) values ('migrated')")


def add_column(connection: sqlite3.Connection) -> None:
    connection.execute("alter table added add column m integer")
    connection.execute("update added set m = n * n")


def fail_half_way(connection: sqlite3.Connection) -> None:
    add_table(connection)
    connection.execute("drop table heatmap_point")
    raise ValueError("half-way")


def fail_alone(connection: sqlite3.Connection) -> None:
    connection.execute("drop table heatmap_point")
    raise ValueError("half-way")


def fail_in_sql(connection: sqlite3.Connection) -> None:
    add_table(connection)
    connection.execute("insert into no_such_table values (1)")


def refuse(version: int) -> None:
    raise ValueError("no copy")


def test_a_migration_runs_with_its_version(path: Path) -> None:
    make(path)
    make(path, (*MIGRATIONS, add_table))
    assert value(path, "pragma user_version") == VERSION + 1
    assert value(path, "select count(*) from added") == 3


def test_migrations_run_once_each_and_in_order(path: Path) -> None:
    make(path)
    for _ in range(2):
        make(path, (*MIGRATIONS, add_table, add_column))
        assert value(path, "pragma user_version") == VERSION + 2
        assert rows(path, "select n, m from added order by n") == [(1, 1), (2, 4), (3, 9)]


def test_missing_migrations_run(path: Path) -> None:
    make(path)
    make(path, (*MIGRATIONS, add_table))
    make(path, (*MIGRATIONS, add_table, add_column))
    assert rows(path, "select n, m from added order by n") == [(1, 1), (2, 4), (3, 9)]


def test_a_migration_runs_in_a_transaction(path: Path) -> None:
    make(path)
    seen: list[bool] = []
    make(path, (*MIGRATIONS, lambda connection: seen.append(connection.in_transaction)))
    assert seen == [True]


@pytest.mark.parametrize(
    ("failing", "failure"), [(fail_half_way, ValueError), (fail_in_sql, BadDatabase)], ids=["in Python", "in SQL"]
)
def test_a_failed_migration_is_rolled_back(failing: Migration, failure: type[Exception], path: Path) -> None:
    make(path)
    before = shape(path), rows(path, "select * from label"), rows(path, "select * from meta")
    with pytest.raises(failure):
        make(path, (*MIGRATIONS, failing))
    assert value(path, "pragma user_version") == VERSION
    assert (shape(path), rows(path, "select * from label"), rows(path, "select * from meta")) == before
    make(path, (*MIGRATIONS, add_table))
    assert value(path, "select count(*) from added") == 3


def test_migrations_before_a_failed_one_are_kept(path: Path) -> None:
    make(path)
    with pytest.raises(ValueError, match="half-way"):
        make(path, (*MIGRATIONS, add_table, fail_alone))
    assert value(path, "pragma user_version") == VERSION + 1
    assert value(path, "select count(*) from added") == 3
    assert value(path, "select count(*) from heatmap_point") == 0


def test_a_failed_migration_closes_the_file(path: Path) -> None:
    make(path)
    with pytest.raises(ValueError, match="half-way"):
        make(path, (*MIGRATIONS, fail_half_way))
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("begin exclusive")


def test_an_older_file_is_refused_unchanged_unless_it_may_be_migrated(path: Path) -> None:
    """Commands do not migrate: a server of the older release may be running."""
    make(path)
    before = path.read_bytes()
    with pytest.raises(BadDatabase, match=r"older release.*start the server, or run `analytics-server upgrade --db /"):
        open_database(path, create=True, migrations=(*MIGRATIONS, add_table))
    with pytest.raises(ValueError, match="no copy"):
        open_database(path, create=True, migrations=(*MIGRATIONS, add_table), before_migration=refuse)
    assert path.read_bytes() == before


def test_what_precedes_migrations_is_called_once(path: Path) -> None:
    versions: list[int] = []
    for migrations in (MIGRATIONS, MIGRATIONS, (*MIGRATIONS, add_table, add_column)):
        open_database(path, create=True, migrations=migrations, before_migration=versions.append).close()
    assert versions == [VERSION], "neither for a new file nor for one that needs none"


def test_a_newer_file_is_refused_unchanged(path: Path) -> None:
    make(path, (*MIGRATIONS, add_table))
    before = path.read_bytes()
    with pytest.raises(BadDatabase, match="newer"):
        open_database(path, create=True)
    assert path.read_bytes() == before


# Killed processes

CHILD = """
import sys
from pathlib import Path
from tally.storage.database import MIGRATIONS, open_database

def slow(connection):
    connection.execute("create table added (n integer primary key, text text)")
    for begin in range(0, 30_000, 1_000):
        connection.executemany("insert into added values (?, ?)", ((n, "x" * 500) for n in range(begin, begin + 1_000)))
        print(begin, flush=True)
    connection.execute("drop table heatmap_point")
    print("all", flush=True)

connection = open_database(Path(sys.argv[1]), create=True, before_migration=print, migrations=(*MIGRATIONS, slow))
print("done", flush=True)
sys.stdin.read()
"""


def child(script: str, *arguments: str, prefix: Sequence[str] = ()) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=clean_environment(),
    )


def add_many(connection: sqlite3.Connection) -> None:
    connection.execute("create table added (n integer primary key, text text)")
    connection.executemany("insert into added values (?, ?)", ((n, "x" * 500) for n in range(30_000)))
    connection.execute("drop table heatmap_point")


@pytest.mark.parametrize("when", [b"0\n", b"9000\n", b"20000\n", b"29000\n", b"all\n", b"done\n"], ids=bytes.decode)
@pytest.mark.slow
def test_killed_in_the_middle_of_a_migration(when: bytes, path: Path) -> None:
    """A killed migration leaves the old or the new version, and the file opens. The migration writes 15 MB, more than
    SQLite caches, so that part of it is in the WAL when the process is killed."""
    make(path)
    before = shape(path)
    with child(CHILD, str(path)) as process:
        assert process.stdout is not None
        while (line := process.stdout.readline()) != when:
            assert line, process.stderr and process.stderr.read()
        process.kill()
        process.communicate()
    assert value(path, "pragma integrity_check") == "ok"
    version = value(path, "pragma user_version")
    assert version in ((VERSION + 1,) if when == b"done\n" else (VERSION, VERSION + 1))
    if version == VERSION:
        assert shape(path) == before
        make(path)
    make(path, (*MIGRATIONS, add_many))
    assert value(path, "pragma user_version") == VERSION + 1
    assert rows(path, "select count(*), sum(n), min(length(text)) from added") == [(30_000, 449_985_000, 500)]
    assert rows(path, "select name from sqlite_schema where name = 'heatmap_point'") == []


TWO_VERSIONS = CHILD.replace(
    "migrations=(*MIGRATIONS, slow)",
    "migrations=(*MIGRATIONS, lambda connection: connection.execute('create table first (n integer)'), slow)",
)


def test_killed_between_two_migrations(path: Path) -> None:
    """A process killed during the second migration leaves the first; the next start runs only the second."""

    def create_first(connection: sqlite3.Connection) -> None:
        connection.execute("create table first (n integer)")

    make(path)
    with child(TWO_VERSIONS, str(path)) as process:
        assert process.stdout is not None
        while (line := process.stdout.readline()) != b"9000\n":
            assert line, process.stderr and process.stderr.read()
        process.kill()
        process.communicate()
    names = "select name from sqlite_schema where name in ('first', 'added') order by 1"
    assert (value(path, "pragma user_version"), rows(path, names)) == (VERSION + 1, [("first",)])
    make(path, (*MIGRATIONS, create_first, add_many))
    assert (value(path, "pragma user_version"), rows(path, names)) == (VERSION + 2, [("added",), ("first",)])
    assert value(path, "select count(*) from added") == 30_000


NEW = """
import sys
from pathlib import Path
from tally.storage.database import open_database
open_database(Path(sys.argv[1]), create=True).close()
"""
MIGRATE = """
import sys
from pathlib import Path
from tally.storage.database import MIGRATIONS, open_database

def add(connection):
    connection.execute("create table added (n integer)")
    connection.execute("insert into added values (1)")

print("ready", flush=True)
sys.stdin.readline()
open_database(Path(sys.argv[1]), create=True, before_migration=print, migrations=(*MIGRATIONS, add)).close()
"""
# The system calls by which SQLite changes the file and its logs and flushes them.
CALLS = ("pwrite64", "fdatasync", "unlink")


def killed_at(n: int, call: str, script: str, path: Path) -> bool:
    """Return whether the n-th such call on the file or its logs killed the script before its end."""
    need_strace()
    upon = [word for suffix in ("", "-wal", "-journal") for word in ("-P", f"{path}{suffix}")]
    kill = f"inject={call}:signal=SIGKILL:when={n}"
    strace = ["strace", "-f", "-qq", "-o", f"{path}.trace", *upon, "-e", f"trace={call}", "-e", kill]
    with child(script, str(path), prefix=strace) as process:
        _, words = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), words
    return process.returncode != 0


@pytest.mark.in_turn
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.slow
def test_killed_at_any_call_while_a_file_is_made(call: str, tmp_path: Path) -> None:
    """A process is killed at each call of a kind, at each third of the many writes, until one run ends by itself."""
    stride = 3 if call == "pwrite64" else 1
    for n in count(1 + first_of(stride), stride):
        path = tmp_path / f"{n}.db"
        killed = killed_at(n, call, NEW, path)
        make(path)
        assert value(path, "pragma integrity_check") == "ok"
        assert value(path, "pragma user_version") == VERSION
        assert value(path, "pragma auto_vacuum") == 2
        assert len(rows(path, "select * from meta")) == 2
        if not killed:
            break
    assert n > stride, "no call was killed: SQLite does not create the file with these calls"


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.slow
def test_killed_at_any_call_of_a_migration(call: str, tmp_path: Path) -> None:
    """Both the changes of a migration and its version are stored, or neither is."""
    seen = set()
    for n in count(1):
        path = tmp_path / f"{n}.db"
        make(path)
        before = shape(path)
        killed = killed_at(n, call, MIGRATE, path)
        assert value(path, "pragma integrity_check") == "ok"
        version = value(path, "pragma user_version")
        seen.add(version)
        if version == VERSION:
            assert shape(path) == before
        else:
            assert (version, rows(path, "select * from added")) == (VERSION + 1, [(1,)])
        if not killed:
            break
    assert seen == ({VERSION + 1} if call == "unlink" else {VERSION, VERSION + 1})


# Several processes at once

CREATE_FILES = """
import sys
from pathlib import Path
from tally.storage.database import open_database

for line in sys.stdin:
    try:
        open_database(Path(line.strip()), create=True).close()
        print("made", flush=True)
    except Exception as failure:
        print(repr(failure), flush=True)
"""


@pytest.mark.slow
def test_processes_that_create_the_same_file_at_once(tmp_path: Path) -> None:
    """Servers and commands may create the same file at the same time; tried a hundred times."""
    processes = [child(CREATE_FILES) for _ in range(4)]
    paths = [tmp_path / f"{n}.db" for n in range(100)]
    output: dict[str, list[bytes]] = {}
    for path in paths:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(f"{path}\n".encode())
            process.stdin.flush()
        output[path.name] = [process.stdout.readline() for process in processes if process.stdout is not None]
    for process in processes:
        assert process.communicate(timeout=60) == (b"", b"")
    assert {name: lines for name, lines in output.items() if lines != [b"made\n"] * 4} == {}
    for path in paths:
        assert value(path, "pragma integrity_check") == "ok"
        assert value(path, "pragma auto_vacuum") == 2
        assert value(path, "pragma journal_mode") == "wal"
        assert value(path, "select count(*) from meta where name = 'key_salt'") == 1
        assert value(path, "select count(*) from label") == 2


def test_processes_that_migrate_at_once(path: Path) -> None:
    make(path)
    processes = [child(MIGRATE, str(path)) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    ended = [(process.communicate(b"go\n", timeout=60)[1], process.returncode) for process in processes]
    assert ended == [(b"", 0)] * 4
    assert rows(path, "select * from added") == [(1,)]


# Constraints


ACCOUNT = "account (number, name, plan, created_ms)"
PERSON = "person (number, email, password_hash, time_zone, created_ms, last_seen_day)"
EVENT_ID = "event_id (website, minute_ms, digest, arrived_ms)"
KEY = "api_key (number, account, name, prefix, digest, created_ms, last_used_ms)"
WEBSITE = "website (number, id, account, domain, name, created_ms)"


@pytest.fixture
def filled(path: Path) -> Path:
    """Return a database with an account and a website."""
    with closing(open_database(path, create=True)) as connection:
        connection.execute(f"insert into {ACCOUNT} values (1, 'a@example.com', 'pro', 0)")
        connection.execute(f"insert into {PERSON} values (1, 'a@example.com', null, null, 0, null)")
        connection.execute("insert into membership values (1, 1, 'owner', 0, 0)")
        connection.execute(f"insert into {WEBSITE} values (1, '{'1' * 36}', 1, 'example.com', 'Example', 0)")
    return path


ZEROS = ", ".join("0" * len(FIELDS))
NULLS = ", ".join(["null"] * 6)
OF_EVENT = ", ".join("0" * len(EVENT_FIELDS))
OF_VISIT = ", ".join("0" * (len(VISIT_FIELDS) + 3))
VIOLATIONS = {
    "account: unknown plan": f"insert into {ACCOUNT} values (2, 'b@example.com', 'gold', 0)",
    "account: name taken": f"insert into {ACCOUNT} values (2, 'A@Example.COM', 'pro', 0)",
    "account: no name": f"insert into {ACCOUNT} values (2, null, 'pro', 0)",
    "account: text as time": f"insert into {ACCOUNT} values (2, 'b@example.com', 'pro', 'now')",
    "person: address taken": f"insert into {PERSON} values (2, 'A@Example.COM', null, null, 0, null)",
    "membership: unknown role": "update membership set role = 'king'",
    "membership: a limited owner": "update membership set is_limited = 1",
    "membership: no such person": "insert into membership values (1, 2, 'viewer', 0, 0)",
    "limit: no such member": "insert into membership_website values (1, 2, 1)",
    "website: id too short": f"insert into {WEBSITE} values (2, 'abc', 1, 'example.com', 'Example', 0)",
    "website: id taken": f"insert into {WEBSITE} values (2, '{'1' * 36}', 1, 'example.com', 'Example', 0)",
    "website: no such account": f"insert into {WEBSITE} values (2, '{'2' * 36}', 99, 'example.com', 'Example', 0)",
    "website: its account is deleted": "delete from account",
    "origin: no such website": "insert into allowed_origin values (99, 'capacitor://localhost')",
    "definition: no such website": "insert into definition values (99, '0123456789abcdef', 'goal', 0, '{}')",
    "definition: unknown kind": "insert into definition values (1, '0123456789abcdef', 'wish', 0, '{}')",
    "definition: no object": "insert into definition values (1, '0123456789abcdef', 'goal', 0, '[]')",
    "key: digest too short": f"insert into {KEY} values (1, 1, '', 'tly_', x'00', 0, null)",
    "key: digest as text": f"insert into {KEY} values (1, 1, '', 'tly_', '{'0' * 32}', 0, null)",
    "key: no such account": f"insert into {KEY} values (1, 99, '', 'tly_', zeroblob(32), 0, null)",
    "key: no list of scopes": f"insert into {KEY[:-1]}, scopes) values (1, 1, '', '', zeroblob(32), 0, null, 'read')",
    "key: no list of websites": f"insert into {KEY[:-1]}, websites) values (1, 1, '', '', zeroblob(32), 0, null, '[]')",
    "event_id: digest too long": f"insert into {EVENT_ID} values (1, 0, zeroblob(17), 0)",
    "event_id: twice": f"insert into {EVENT_ID} values (1, 0, zeroblob(16), 0), (1, 0, zeroblob(16), 1)",
    "import_id: twice": "insert into import_id values (1, 0, 5, 1), (1, 0, 5, 2)",
    "label: twice": "insert into label (text) values ('')",
    "event: type below 0": f"insert into event values (1, 0, 1, -1, 0, 0, {OF_EVENT}, 0, null)",
    "event: type below": f"insert into event values (1, 0, 1, -1, 0, 0, {OF_EVENT}, 0, null)",
    "event: id twice": f"insert into event values {', '.join([f'(1, 0, 1, 0, 0, 0, {OF_EVENT}, 0, null)'] * 2)}",
    "event: too much data": f"insert into event values (1, 0, 1, 2, 0, 0, {OF_EVENT}, 0, '{'x' * 4097}')",
    "event: a text for a label": f"insert into event values (1, 0, 1, 0, 0, 0, '/path', {OF_EVENT[3:]}, 0, null)",
    "visit: ends before it begins": f"insert into visit values (1, 0, 1, 0, 0, -1, 1, 0, {OF_VISIT})",
    "visit: longer than a day": f"insert into visit values (1, 0, 1, 0, 0, 86400001, 1, 0, {OF_VISIT})",
    "web_vitals: text as value": f"insert into web_vitals values (1, 0, 1, {ZEROS}, 'fast', {NULLS})",
    "experiment_event: type below 0": f"insert into experiment_event values (1, 0, 1, -1, 0, {ZEROS}, 0, 0, 0, null)",
    "heatmap_block: band": "insert into heatmap_block values (1, 0, 201, 0, 0, x'', x'', x'')",
    "heatmap_block: level": "insert into heatmap_block values (1, 0, 0, 1, 0, x'', x'', x'')",
    "heatmap_count: level": "insert into heatmap_count values (1, 9, 0, 0, 0, 0, 0, 0, 0, 0)",
    "heatmap_point: viewport": "insert into heatmap_point values (1, 0, 0, 3, 0, 0, 0, 1)",
    "heatmap_point: kind": "insert into heatmap_point values (1, 0, 0, 0, 2, 0, 0, 1)",
    "heatmap_text: viewport": "insert into heatmap_text values (1, 0, 3, 0, 0, 'Buy', 0)",
    "heatmap_text: empty": "insert into heatmap_text values (1, 0, 0, 0, 0, '', 0)",
    "heatmap_text: text": f"insert into heatmap_text values (1, 0, 0, 0, 0, '{'x' * 81}', 0)",
    "meta: twice": "insert into meta values ('next_id', 5)",
}
VALID_ROWS = {
    "event": f"insert into event values (1, 0, 1, 3, 0, 0, {OF_EVENT}, 0, '{'x' * 4096}')",
    "event_data of two-byte letters": f"insert into event values (1, 0, 1, 3, 0, 0, {OF_EVENT}, 0, '{'é' * 2048}')",
    "visit": f"insert into visit values (1, 0, 1, 0, 0, 86400000, 1, 0, {OF_VISIT})",
    "web_vitals": f"insert into web_vitals values (1, 0, 1, {ZEROS}, 1, null, null, null, 100000000, null, null)",
    "experiment_event": f"insert into experiment_event values (1, 0, 1, 7, 0, {ZEROS}, 0, 0, 0, null)",
    "heatmap_block": "insert into heatmap_block values (1, 0, 200, 6, 0, x'', x'', x'')",
    "heatmap_count": "insert into heatmap_count values (1, 8, 0, 0, 0, 0, 0, 0, 0, 0)",
    "heatmap_point": "insert into heatmap_point values (1, 0, 0, 2, 1, 0, 0, 1)",
    "heatmap_text": f"insert into heatmap_text values (1, 0, 2, 50000, 49, '{'é' * 80}', 0)",
    "key": f"insert into {KEY} values (1, 1, '', 'tly_', zeroblob(32), 0, null)",
    "event_id": f"insert into {EVENT_ID} values (1, 0, zeroblob(16), 0)",
    "import_id": "insert into import_id values (1, 0, -9223372036854775808, 1)",
}


@pytest.mark.parametrize("statement", VIOLATIONS.values(), ids=VIOLATIONS)
def test_constraints_reject_invalid_rows(statement: str, filled: Path) -> None:
    """schema.sql: CHECKs for the limits of fields, strict types, foreign keys."""
    with closing(connect_writer(filled)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)


@pytest.mark.parametrize("statement", VALID_ROWS.values(), ids=VALID_ROWS)
def test_constraints_accept_valid_rows(statement: str, filled: Path) -> None:
    """Values at the limit are accepted, so the statements above fail because of the limit only."""
    with closing(connect_writer(filled)) as connection:
        assert connection.execute(statement).rowcount == 1
