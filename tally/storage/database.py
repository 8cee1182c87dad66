"""The database file: create it, recognise it, open connections to it.

`PRAGMA application_id` identifies a file of Tally, `PRAGMA user_version` its schema version. A new file gets
schema.sql. An older one gets the missing migrations (tally/storage/migrations.py) where the caller passes
`before_migration`, which makes a copy first (tally/maintenance/upgrade.py); other callers refuse it, since a server of
the older release may be using it. Each step is one transaction together with its version number, so that after a crash
at any point the file has one version or the other. A newer file is refused.

Every connection is opened here or passed to `with_schema`, so that all of them have the same settings. No file of Tally
has triggers or views, which would act within its statements: a file with one is refused. The other parts of the schema
are compared by `restore` and `doctor` (tally/storage/schema_check.py).
"""

import contextlib
import glob
import os
import re
import secrets
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path

from tally.errors import is_lock
from tally.resources import asset, tally_version
from tally.storage.migrations import MIGRATIONS, Migration

# The write-ahead log is to stay below this size: it is truncated before (tally/storage/disk_space.py).
MAX_WAL_BYTES = 64 * 1_048_576
APPLICATION_ID = 0x54414C59  # "TALY"
VERSION = 1 + len(MIGRATIONS)

# Page cache of the writer, beside that of the system. A large group of events fits; a larger cache was not faster.
CACHE_KIB = 4_000
# A write-ahead log of 16 MB, four times SQLite's default: under load the same pages are written repeatedly, and are
# copied into the file a quarter as often, which saves a tenth of the work per event.
CHECKPOINT_PAGES = 4_000
READER_CACHE_KIB = 2_000
# How long a command waits for a lock, and how long the server does: its clients wait, and it must stop within 10 s.
COMMAND_BUSY_S = 10.0
SERVER_BUSY_S = 2.0
# The endings of the file that `restore` puts in a database's place, and of the database that it keeps, before its date.
RESTORING, REPLACED = ".restoring", ".replaced-"
# How often SQLite calls a progress handler, in instructions of its virtual machine: every few milliseconds.
PROGRESS_INSTRUCTIONS = 100_000
_is_over: ContextVar[Callable[[], bool]] = ContextVar("is_over", default=lambda: False)
_OTHER_FILE = "name another file with --db"


# For callers that handle connections and errors without importing sqlite3.
Connection = sqlite3.Connection
DatabaseError = sqlite3.Error
SQLITE_VERSION = sqlite3.sqlite_version


BeforeMigration = Callable[[int], None]
"""Called with the schema version of a file before its first migration; an exception leaves the file as it is."""


class BadDatabase(Exception):
    """A database file that cannot be used; the message names the file, the reason and the fix."""


class NewerDatabase(BadDatabase):
    """A database file of a newer release."""

    def __init__(self, path: Path, version: int, newest: int) -> None:
        self.path = path
        self.problem = (
            f"{path} has schema version {version} of a newer release, and this is Tally {tally_version()}, which"
            f" supports versions up to {newest}"
        )
        super().__init__(f"{self.problem}: install the newer release again, or choose an older backup.")


def _connect(path: Path, mode: str, busy_s: float) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    return with_schema(
        sqlite3.connect(
            uri, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False, cached_statements=256
        )
    )


def with_schema(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return a new connection that has read the schema and does not trust it. Raises sqlite3.Error, and closes it,
    where it cannot be read."""
    # Views, triggers and constraints of a file from elsewhere call no function that does more than compute a value.
    connection.execute("pragma trusted_schema = off")
    try:
        connection.execute("pragma cache_size").fetchall()
    except UnicodeDecodeError:
        # The message of SQLite's error has bytes of the file.
        connection.close()
        raise damaged("malformed schema") from None
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def connect_writer(path: Path, busy_s: float = COMMAND_BUSY_S) -> sqlite3.Connection:
    """Return a read-write connection. Commits reach the disk before they return (synchronous=FULL)."""
    # mode=rw: never create a file in place of one that has just been deleted.
    connection = _connect(path, "rw", busy_s)
    connection.execute("pragma synchronous = full")
    connection.execute("pragma foreign_keys = on")
    connection.execute("pragma temp_store = memory")
    connection.execute(f"pragma cache_size = -{CACHE_KIB}")
    connection.execute(f"pragma journal_size_limit = {MAX_WAL_BYTES}")
    connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
    return connection


def connect_reader(path: Path, cache_kib: int = READER_CACHE_KIB) -> sqlite3.Connection:
    """Return a read-only connection."""
    connection = _connect(path, "ro", SERVER_BUSY_S)
    connection.execute("pragma query_only = on")
    # Sorting 2 million rows in memory would take 100 MB. Temporary files are unnamed and end with their query.
    connection.execute("pragma temp_store = file")
    connection.execute(f"pragma cache_size = -{cache_kib}")
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a write transaction: commit it, or roll it back if the block raises."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        # After some errors, such as a full disk, SQLite has rolled it back already.
        if connection.in_transaction:
            connection.execute("rollback")
        raise


@contextlib.contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a read transaction: all queries in the block see the same data."""
    connection.execute("begin")
    try:
        yield
    finally:
        connection.execute("rollback")


@contextlib.contextmanager
def interrupted_when(connection: sqlite3.Connection, is_over: Callable[[], bool]) -> Iterator[None]:
    """Interrupt statements of the block, and `check_interrupt`, once `is_over` returns True (SQLITE_INTERRUPT).

    A progress handler is called inside a statement; sqlite3_interrupt from outside could hit the statement after it.
    """
    connection.set_progress_handler(is_over, PROGRESS_INSTRUCTIONS)
    before = _is_over.set(is_over)
    try:
        yield
    finally:
        _is_over.reset(before)
        connection.set_progress_handler(None, 0)


@contextlib.contextmanager
def interrupted_after(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Interrupt what the connection runs in the block after so many seconds, from another thread (SQLITE_INTERRUPT).

    For statements of which one instruction can take long: not every one calls a progress handler meanwhile.
    """
    has_ended = threading.Event()

    def interrupt() -> None:
        if not has_ended.wait(seconds):
            # An interrupt just before the statement begins has no effect, so another one follows.
            while not has_ended.wait(0.001):
                connection.interrupt()

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def damaged(message: str) -> sqlite3.DatabaseError:
    """Return the error that SQLite raises of a damaged file, for content that cannot be decoded."""
    failure = sqlite3.DatabaseError(message)
    failure.sqlite_errorcode, failure.sqlite_errorname = sqlite3.SQLITE_CORRUPT, "SQLITE_CORRUPT"
    return failure


def check_interrupt() -> None:
    """Raise the error of an interrupted statement once the block of `interrupted_when` around it is over.

    For long work between statements. Progress handlers are called by long statements alone.
    """
    if _is_over.get()():
        failure = sqlite3.OperationalError("interrupted")
        failure.sqlite_errorcode, failure.sqlite_errorname = sqlite3.SQLITE_INTERRUPT, "SQLITE_INTERRUPT"
        raise failure


def open_database(
    path: Path,
    *,
    create: bool,
    before_migration: BeforeMigration | None = None,
    migrations: Sequence[Migration] = MIGRATIONS,
    busy_s: float = COMMAND_BUSY_S,
) -> sqlite3.Connection:
    """Return a read-write connection to a database, created if needed, migrated if `before_migration` is given.

    Raises BadDatabase, and what `before_migration` raises.
    """
    check_path(path, create=create)
    refuse_second_name(path)
    connection = None
    try:
        if not path.exists():
            # It holds hashes of passwords and keys: readable by its owner only. SQLite gives its log the same mode.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = connect_writer(path, busy_s)
        if not create and _version(connection, path) == 0:
            raise BadDatabase(f"{path} is empty: start the server once, or name another file with --db.")
        _migrate(connection, path, migrations, before_migration)
    except (sqlite3.Error, OSError) as failure:
        if connection is not None:
            connection.close()
        raise explained(failure, path) from None
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


def check_path(path: Path, *, create: bool) -> None:
    """Raise BadDatabase where the path alone shows that there is no usable database, and none can be created."""
    if path.is_dir():
        raise BadDatabase(f"{path} is a directory: name a file in it with --db.")
    if path.exists() and not path.is_file():
        raise BadDatabase(f"{path} is not a file: name another with --db.")
    if not path.exists() and (kept := _interrupted_restore(path)):
        real = path.resolve()
        raise BadDatabase(
            f"{path} is missing, and a restore was interrupted: run `restore` again, or rename {kept} to {real}, and"
            f" files of this name with -wal or -journal likewise. For a new database, delete {real}{RESTORING}."
        )
    if not path.exists() and not create:
        raise BadDatabase(f"There is no database at {path}: start the server once, or name another file with --db.")
    if not path.parent.is_dir():
        raise BadDatabase(f"The directory {path.parent} does not exist: create it, or name another file with --db.")
    if path.exists() and not os.access(path, os.W_OK):
        raise BadDatabase(
            f"{path} is not writable: give this user write permission on the file, or name another with --db."
        )
    if not os.access(path.parent, os.W_OK):
        raise BadDatabase(f"The directory {path.parent} is not writable: SQLite needs it for its log.")
    if not (path.exists() and path.stat().st_size) and log_bytes(path):
        raise BadDatabase(
            f"{path} is missing or empty, but its log {log_of(path)} is not: put the database back beside its log, or"
            " move the log away."
        )


def _interrupted_restore(path: Path) -> str:
    """Return the newest name under which an unfinished `restore` may have kept a database, "" if there is none."""
    real = path.resolve()
    if not real.with_name(real.name + RESTORING).exists():
        return ""
    kept = max(map(str, real.parent.glob(f"{glob.escape(real.name)}{REPLACED}*")), default="")
    return kept.removesuffix("-wal").removesuffix("-journal")


def log_of(path: Path) -> Path:
    """Return the path of a database's log."""
    real = path.resolve()
    return real.with_name(real.name + "-wal")


def log_bytes(path: Path) -> int:
    """Return the size of a database's log, 0 if it has none."""
    try:
        return log_of(path).stat().st_size
    except OSError:
        return 0


def refuse_second_name(path: Path) -> None:
    """Raise BadDatabase if the file has more than one name: hard links, or a mount of the file alone."""
    if _is_mounted(path):
        raise BadDatabase(
            f"{path} is mounted alone, as with `docker run -v FILE:FILE`. Its log would be in another directory than"
            " that of the file, which separates the two: mount the directory in place of the file."
        )
    try:
        status = path.stat()
    except OSError:
        return
    if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return
    # `restore` briefly links the database it replaces; if it was killed then, the next start removes the link.
    real = path.resolve()
    replaced = [name for name in real.parent.glob(f"{glob.escape(real.name)}{REPLACED}*") if _is_same(name, status)]
    names = status.st_nlink - len(replaced)
    if names > 1:
        raise BadDatabase(
            f"{path} has {names} names (hard links). The log and the lock are found by the file's"
            " name, so that using two names damages the database. Find them with"
            f" `find / -xdev -inum {status.st_ino}` and delete all but one; use a symbolic link instead."
        )


def _is_mounted(path: Path) -> bool:
    """Return whether a file is a mount point itself (Linux: proc_pid_mountinfo(5), the fifth field)."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return False
    # Octal: \040 is a space.
    points = (re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), line.split(b" ")[4]) for line in lines)
    return os.fsencode(path.resolve()) in points


def _is_same(name: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(name.stat(), status)
    except OSError:
        return False


def open_unchanged(path: Path) -> sqlite3.Connection:
    """Return a read-only connection to a database of this version or an older one, unmigrated. Raises BadDatabase."""
    check_path(path, create=False)
    try:
        refuse_other(path)
        connection = connect_reader(path)
        try:
            known_version(connection, path)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, OSError) as failure:
        raise explained(failure, path) from None
    return connection


def known_version(connection: sqlite3.Connection, path: Path, advice: str = _OTHER_FILE) -> int:
    """Return the schema version of a database. Raises BadDatabase, ending with `advice`, if it is unusable."""
    version = _version(connection, path, advice)
    if version == 0:
        raise BadDatabase(f"{path} is empty: start the server once, or {advice}.")
    _refuse_newer(version, VERSION, path)
    return version


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raise BadDatabase for the database of a newer release or of another program."""
    _refuse_newer(_version(connection, path), VERSION, path)


def refuse_other(path: Path) -> None:
    """Raise BadDatabase for the database of a newer release or of another program, unless it has a log.

    Creates and changes no file. Other connections that only read create a log, which they cannot delete; those that
    write also undo a transaction that a kill has left.
    """
    if log_of(path).exists():
        return
    # What cannot be read in this way, such as a file without its journal, another connection reads or reports.
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_connect(path, "ro&immutable=1", 0)) as connection:
        check_version(connection, path)


def explained(failure: Exception, path: Path) -> BadDatabase:
    """Return a BadDatabase that explains an error of SQLite or the system about a file."""
    name = getattr(failure, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        return BadDatabase(f"{path} is not a SQLite database: name another file with --db.")
    if name.startswith("SQLITE_CORRUPT"):
        message = (
            f"{path} is damaged: restore a backup with `analytics-server restore`, or name another file with --db."
        )
        if log_bytes(path):
            log = log_of(path).name
            message += (
                f" It was read together with its log {log}: if that is the log of another database, move it away."
            )
        return BadDatabase(message)
    if isinstance(failure, OSError) or name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
        return BadDatabase(
            f"{path} cannot be opened for writing: check the permissions of the file, of its directory, and of"
            f" {log_of(path).name} and {path.name}-shm where they exist."
        )
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return BadDatabase(f"{path} cannot be used: its disk is full or fails ({failure}): free space, or check it.")
    if is_lock(failure):
        return BadDatabase(f"{path} is locked by another program: stop it, or wait until it is done.")
    return BadDatabase(f"{path} cannot be used: {failure}")


def _migrate(
    connection: sqlite3.Connection,
    path: Path,
    migrations: Sequence[Migration],
    before_migration: BeforeMigration | None,
) -> None:
    newest = 1 + len(migrations)
    version = _version(connection, path)
    _refuse_newer(version, newest, path)
    if version == 0:
        # Takes effect only before the first table; incremental lets free space be reclaimed in small steps.
        connection.execute("pragma auto_vacuum = incremental")
    elif version < newest and before_migration is None:
        raise BadDatabase(
            f"{path} has schema version {version} of an older release, and this one needs {newest}: start the server,"
            f" or run `analytics-server upgrade --db {path}`."
        )
    _set_wal_mode(connection)
    if 0 < version < newest and before_migration is not None:
        before_migration(version)
    while version < newest:
        with transaction(connection):
            # Another process may have taken this step before the lock was granted.
            if _version(connection, path) == version:
                _step(connection, version, migrations)
        version = _version(connection, path)


def _refuse_newer(version: int, newest: int, path: Path) -> None:
    if version > newest:
        raise NewerDatabase(path, version, newest)


def _set_wal_mode(connection: sqlite3.Connection) -> None:
    """Turn WAL mode on. SQLite does not wait here for another process that does the same, so this function does."""
    end = time.monotonic() + COMMAND_BUSY_S
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as failure:
            if not failure.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _version(connection: sqlite3.Connection, path: Path, advice: str = _OTHER_FILE) -> int:
    """Return the schema version, 0 for an empty file. Raises BadDatabase for another program's database."""
    # One snapshot for the three: another process may be creating the file.
    begins = not connection.in_transaction
    if begins:
        connection.execute("begin")
    version = int(connection.execute("pragma user_version").fetchone()[0])
    owner = connection.execute("pragma application_id").fetchone()[0]
    tables = connection.execute("/* database.tables */ select count(*) from sqlite_schema").fetchone()[0]
    acting = connection.execute(
        "/* database.acting */ select type, name from sqlite_schema where type in ('trigger', 'view') limit 1"
    ).fetchone()
    if begins:
        connection.execute("rollback")
    if version < 0:
        raise damaged("a negative schema version")
    if owner != APPLICATION_ID and (tables or version or owner):
        raise BadDatabase(f"{path} is the database of another program: {advice}.")
    if acting:
        kind, name = acting
        raise BadDatabase(
            f"{path} has a {kind} that is not part of Tally and may change what it stores, {name[:100]!a}: {advice}, or"
            f" delete it in a copy (`drop {kind}`)."
        )
    return version


def _step(connection: sqlite3.Connection, version: int, migrations: Sequence[Migration]) -> None:
    if version == 0:
        for statement in statements(asset("schema.sql").read_text("utf-8")):
            connection.execute(statement)
        statement = "/* database.key_salt */ insert into meta (name, value) values ('key_salt', ?)"
        connection.execute(statement, (secrets.token_hex(16),))
        connection.execute("/* database.next_id */ insert into meta (name, value) values ('next_id', 1)")
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        # schema.sql is always the newest version.
        connection.execute(f"pragma user_version = {VERSION}")
    else:
        migrations[version - 1](connection)
        connection.execute(f"pragma user_version = {version + 1}")


def statements(script: str) -> list[str]:
    """Return the statements of a script. For a transaction: executescript would commit the transaction first."""
    statements, begun = [], ""
    for line in script.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            statements.append(begun)
            begun = ""
    return statements
