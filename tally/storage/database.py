"""The database file: made, recognised, brought up to date.

`PRAGMA application_id` says that a file is Tally's, `PRAGMA user_version` which version of schema.sql it follows. A new
file gets schema.sql, an older one the MIGRATIONS it lacks, each in one transaction together with its version number:
after a crash at any point the file has the one version or the other. A newer file is refused.

A change of schema.sql after the first release adds a function to MIGRATIONS. Once released it is never changed. It
contains its statements in full (schema.sql goes on changing) and is quick: the server listens only afterwards.

Every connection of the product is opened here, so that every one has the same settings.
"""

import contextlib
import glob
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tally.resources import asset

# From this size on the WAL is emptied and truncated: readers are held until it can start over.
MOST_LOG_BYTES = 64 * 1_048_576
APPLICATION_ID = 0x54414C59  # "TALY"

Migration = Callable[[sqlite3.Connection], None]
# The n-th brings a file of version n + 1 to n + 2: statements only, no commit. Empty until the first release.
MIGRATIONS: tuple[Migration, ...] = ()

VERSION = 1 + len(MIGRATIONS)

# our choice: a connection's own cache of pages, beside the system's: a large group fits; a reader found more no faster.
CACHE_KIB = 4_000
# our choice, 16 MB of log, four times SQLite's own: under load the same pages come again and again, and are then copied
# into the file a quarter as often. A tenth less work for an event.
CHECKPOINT_PAGES = 4_000
READER_CACHE_KIB = 2_000
# our choice: how long the command waits for somebody else's transaction, and how long the server does, where clients
# wait for it and an end must come within 10 seconds.
COMMAND_BUSY_S = 10.0
SERVER_BUSY_S = 2.0
_ANOTHER = "name another file with --db"


class BadDatabase(Exception):
    """The file cannot be used; the message says which, why, and what to do."""


def connect_writer(path: Path, busy_s: float = COMMAND_BUSY_S) -> sqlite3.Connection:
    """A connection that may write. Commits reach the disk before they return (synchronous=FULL)."""
    # Never a new file in the place of one that has just been taken away.
    uri = f"{path.resolve().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        uri, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute("pragma synchronous = full")
    connection.execute("pragma foreign_keys = on")
    connection.execute("pragma temp_store = memory")
    connection.execute(f"pragma cache_size = -{CACHE_KIB}")
    connection.execute(f"pragma journal_size_limit = {MOST_LOG_BYTES}")
    connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
    return connection


def connect_reader(path: Path, cache_kib: int = READER_CACHE_KIB) -> sqlite3.Connection:
    """A connection that cannot write."""
    uri = f"{path.resolve().as_uri()}?mode=ro"
    connection = sqlite3.connect(
        uri, uri=True, timeout=SERVER_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute("pragma query_only = on")
    # Sorting in memory would take 100 MB over 2 million rows; these files have no name and end with their question.
    connection.execute("pragma temp_store = file")
    connection.execute(f"pragma cache_size = -{cache_kib}")
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction that may write: committed if all goes well, else undone."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        # SQLite itself has undone it after some failures, such as a full disk.
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def open_database(
    path: Path, *, create: bool, migrations: Sequence[Migration] = MIGRATIONS, busy_s: float = COMMAND_BUSY_S
) -> sqlite3.Connection:
    """A writing connection to a database of this version, made or migrated where needed. Raises BadDatabase."""
    _look(path, create)
    refuse_hard_link(path)
    connection = None
    try:
        if not path.exists():
            # Password and key hashes are in it: nobody else's to read. SQLite gives its log the same mode.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = connect_writer(path, busy_s)
        if not create and _version(connection, path) == 0:
            raise BadDatabase(f"{path} is empty: start the server once, or name another file with --db.")
        _bring_up_to_date(connection, path, migrations)
    except (sqlite3.Error, OSError) as failure:
        if connection is not None:
            connection.close()
        raise explained(failure, path) from None
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


def _look(path: Path, create: bool) -> None:
    if path.is_dir():
        raise BadDatabase(f"{path} is a folder: name a file in it with --db.")
    if not path.exists() and not create:
        raise BadDatabase(f"There is no database at {path}: start the server once, or name another file with --db.")
    if not path.parent.is_dir():
        raise BadDatabase(f"The folder {path.parent} does not exist: create it, or name another file with --db.")
    if path.exists() and not os.access(path, os.W_OK):
        raise BadDatabase(
            f"{path} cannot be written: give this user write permission on the file, or name another with --db."
        )
    if not os.access(path.parent, os.W_OK):
        raise BadDatabase(f"The folder {path.parent} cannot be written: SQLite keeps its log beside the database.")


def refuse_hard_link(path: Path) -> None:
    """Raise BadDatabase for a file that has a second name (a hard link)."""
    try:
        found = path.stat()
    except OSError:
        return
    if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
        return
    # `restore` links the database it replaces for a moment; where it was killed then, the next start ends that.
    real = path.resolve()
    own = [name for name in real.parent.glob(f"{glob.escape(real.name)}.replaced-*") if _is_same(name, found)]
    if found.st_nlink - len(own) > 1:
        raise BadDatabase(
            f"{path} has {found.st_nlink - len(own)} names (hard links). SQLite finds its log and Tally its lock by the"
            " file's name, so using two names damages the database. Find them with"
            f" `find / -xdev -inum {found.st_ino}` and delete all but one; use a symbolic link instead."
        )


def _is_same(name: Path, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(name.stat(), found)
    except OSError:
        return False


def open_unchanged(path: Path) -> sqlite3.Connection:
    """A reading connection to a database of this version or an older one, as it is. Raises BadDatabase."""
    _look(path, create=False)
    try:
        connection = connect_reader(path)
        try:
            known_version(connection, path)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, OSError) as failure:
        raise explained(failure, path) from None
    return connection


def known_version(connection: sqlite3.Connection, path: Path, advice: str = _ANOTHER) -> int:
    """The version of a database that this program can use. Raises BadDatabase, with that advice."""
    version = _version(connection, path, advice)
    if version == 0:
        raise BadDatabase(f"{path} is empty: start the server once, or {advice}.")
    _refuse_newer(version, VERSION, path)
    return version


def explained(failure: Exception, path: Path) -> BadDatabase:
    """What SQLite says of a file, with what to do about it."""
    name = getattr(failure, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return BadDatabase(f"{path} is not a SQLite database: name another file with --db.")
    if name.startswith("SQLITE_CORRUPT"):
        return BadDatabase(f"{path} is damaged: put a backup in its place, or name another file with --db.")
    if isinstance(failure, OSError) or name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
        return BadDatabase(f"{path} cannot be opened for writing: check the permissions of the file and of its folder.")
    if name.startswith("SQLITE_BUSY"):
        return BadDatabase(f"{path} is locked by another program: end it, or wait until it is done.")
    return BadDatabase(f"{path} cannot be used: {failure}")


def _bring_up_to_date(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    newest = 1 + len(migrations)
    version = _version(connection, path)
    _refuse_newer(version, newest, path)
    if version == 0:
        # Both only take effect before the first table; incremental lets space be given back in small steps.
        connection.execute("pragma auto_vacuum = incremental")
    _keep_a_log(connection)
    while version < newest:
        with transaction(connection):
            # Another process may have been faster between the look and the lock.
            if _version(connection, path) == version:
                _step(connection, version, migrations)
        version = _version(connection, path)


def _refuse_newer(version: int, newest: int, path: Path) -> None:
    if version > newest:
        raise BadDatabase(
            f"{path} belongs to a newer Tally (its version is {version}, this one knows {newest}): update Tally."
        )


def _keep_a_log(connection: sqlite3.Connection) -> None:
    """Turns WAL on. SQLite does not wait here for another process that is doing the same, so this does."""
    end = time.monotonic() + COMMAND_BUSY_S
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as failure:
            if not failure.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _version(connection: sqlite3.Connection, path: Path, advice: str = _ANOTHER) -> int:
    """The file's version, 0 where it is empty. Raises BadDatabase for somebody else's database."""
    # One snapshot for the three: another process may be making the file just now.
    alone = not connection.in_transaction
    if alone:
        connection.execute("begin")
    version = int(connection.execute("pragma user_version").fetchone()[0])
    owner = connection.execute("pragma application_id").fetchone()[0]
    tables = connection.execute("/* database.tables */ select count(*) from sqlite_schema").fetchone()[0]
    if alone:
        connection.execute("rollback")
    if owner != APPLICATION_ID and (tables or version or owner):
        raise BadDatabase(f"{path} is another program's database: {advice}.")
    return version


def _step(connection: sqlite3.Connection, version: int, migrations: Sequence[Migration]) -> None:
    if version == 0:
        for statement in _statements(asset("schema.sql").read_text("utf-8")):
            connection.execute(statement)
        connection.execute("/* database.key_salt */ insert into meta values ('key_salt', ?)", (secrets.token_hex(16),))
        connection.execute("/* database.next_id */ insert into meta values ('next_id', 1)")
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        # schema.sql is always the newest shape.
        connection.execute(f"pragma user_version = {VERSION}")
    else:
        migrations[version - 1](connection)
        connection.execute(f"pragma user_version = {version + 1}")


def _statements(script: str) -> list[str]:
    """The statements of a script one by one: executescript would commit before each run."""
    statements, begun = [], ""
    for line in script.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            statements.append(begun)
            begun = ""
    return statements
