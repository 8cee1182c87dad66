"""What `doctor` looks at outside the database: program, zones, countries, server, permissions, disk, log, backups.

Each check takes a `Case` and gives what it found. Limits that are our choice stand beside their names. What this user
may not see, such as which processes have the file open, is left out rather than guessed.
"""

import fcntl
import os
import pwd
import resource
import shutil
import sqlite3
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tally.events.geoip import Countries, CountryDataError
from tally.maintenance.backup import backups
from tally.resources import tally_version
from tally.settings import Settings
from tally.storage.database import MOST_LOG_BYTES, BadDatabase
from tally.storage.health import min_free_bytes
from tally.timeranges import zone, zone_names
from tally.timestamps import DAY_MS, HOUR_MS

# our choice: beside the log's 64 MB there has to be room for what comes in until somebody looks.
LEAST_FREE_BYTES = 256 * 1_048_576
# our choice: country data is made monthly, and a few hundredths of it change in half a year.
OLD_COUNTRIES_DAYS, WORN_COUNTRIES_DAYS = 180, 400
# our choice: governments change clocks with some months' notice.
OLD_ZONES_YEARS = 2
# our choice: one night may be missed.
OLD_BACKUP_MS = 2 * DAY_MS
# sqlite.org/wal.html: before it two processes that checkpoint at once could damage a file.
_MENDED_SQLITE = (3, 51, 3)
_LEAST_SQLITE = (3, 37, 0)  # strict tables


class Finding(NamedTuple):
    """What a check found of a topic: `mark` is fine, note or fault; `todo` is what to do about it."""

    mark: str
    topic: str
    words: str
    todo: str = ""


def fine(topic: str, words: str) -> Finding:
    """Nothing has to be done."""
    return Finding("fine", topic, words)


def note(topic: str, words: str, todo: str = "") -> Finding:
    """Something to know, which may be as it should be."""
    return Finding("note", topic, words, todo)


def fault(topic: str, words: str, todo: str = "") -> Finding:
    """Something has to be done."""
    return Finding("fault", topic, words, todo)


@dataclass
class Case:
    """What is looked at: the settings, the database's resolved path, the time. `pid` is the running server's: None
    where none runs, 0 where it is not known which."""

    settings: Settings
    path: Path
    now_ms: int
    is_quick: bool = False
    pid: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.pid = _server_of(self.path)

    @property
    def log(self) -> Path:
        """SQLite's log beside the database."""
        return self.path.with_name(self.path.name + "-wal")


def _server_of(path: Path) -> int | None:
    try:
        lock = os.open(f"{path}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        return _locking(os.fstat(lock).st_ino)
    finally:
        os.close(lock)


def _locking(inode: int) -> int:
    """The process that holds a lock on a file, by the kernel's list; 0 where it does not say."""
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return 0
    pids = [int(line[4]) for line in lines if line[1] == "FLOCK" and line[5].endswith(f":{inode}")]
    return max(pids, default=0)


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def sized(size: int) -> str:
    """A size, with as much of it as matters."""
    for unit, length in (("GB", 1e9), ("MB", 1e6)):
        if size >= length:
            return f"{size / length:,.{0 if size >= 100 * length else 1}f} {unit}"
    return f"{size / 1e3:,.0f} kB"


# --- the program and its data


def program(case: Case) -> Iterator[Finding]:
    """Versions."""
    words = f"Tally {tally_version()}, Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < _LEAST_SQLITE:
        yield fault("program", f"{words}: too old", "use a Python with SQLite 3.37 or later")
    elif sqlite3.sqlite_version_info < _MENDED_SQLITE:
        mended = ".".join(map(str, _MENDED_SQLITE))
        yield fine(
            "program",
            f"{words} (older than {mended}: let no other program write to the database while the server runs)",
        )
    else:
        yield fine("program", words)


def agent_engine(case: Case) -> Iterator[Finding]:
    """Which engine reads User-Agents: there is no compiled one for every machine."""
    from tally.events.user_agent import IS_COMPILED  # its tables take 50 ms

    if IS_COMPILED:
        yield fine("agents", "User-Agents are read by the compiled engine, ua-parser-rs")
    else:
        yield note(
            "agents",
            "User-Agents are read by the engine in Python, which is slower: ua-parser-rs is not installed",
            "pip install ua-parser-rs, where it has a wheel for this machine; the results are the same",
        )


def zone_data(case: Case) -> Iterator[Finding]:
    """The package tzdata: whole, and of these years."""
    install = "pip install --upgrade --force-reinstall tzdata"
    broken = []
    try:
        names = zone_names()
        version = str(import_module("tzdata").IANA_VERSION)
        year = int(version[:4])
    except (ValueError, AttributeError, ImportError):
        yield fault("zones", "the package tzdata cannot be read", install)
        return
    for name in sorted(names):
        try:
            zone(name)
        except ValueError:
            broken.append(name)
    if broken:
        yield fault("zones", f"{len(broken)} of the package tzdata cannot be read, such as {broken[0]}", install)
    elif datetime.fromtimestamp(case.now_ms / 1000, UTC).year - year >= OLD_ZONES_YEARS:
        yield fault("zones", f"{len(names)}, of {version}: since then countries have changed their clocks", install)
    else:
        yield fine("zones", f"{len(names)}, of {version}, from the package tzdata")


def country_data(case: Case) -> Iterator[Finding]:
    """The country database: readable, and how old."""
    path = case.settings.geoip_db
    name = "bundled" if path is None else str(path)
    try:
        countries = Countries(path)
    except CountryDataError as bad:
        yield fault("countries", str(bad), "the server does not start with it")
        return
    built = countries.built
    countries.close()
    days = (datetime.fromtimestamp(case.now_ms / 1000, UTC).date() - built).days
    update = "install a newer Tally, or give a newer MMDB file with --geoip-db"
    words = f"{name}, made on {built}, {days} days ago"
    if days < -1:
        yield fault("countries", f"{name}, made on {built}, after today", "set the system's clock right")
    elif days > WORN_COUNTRIES_DAYS:
        yield fault("countries", f"{words}: many addresses have moved since", update)
    elif days > OLD_COUNTRIES_DAYS:
        yield note("countries", words, update)
    else:
        yield fine("countries", words)


# --- the server and its file


def server(case: Case) -> Iterator[Finding]:
    """Whether one runs on this database."""
    if case.pid is None:
        yield note(
            "server", "none runs on this database", "start it with `analytics-server`" if case.path.exists() else ""
        )
    else:
        yield fine("server", f"runs as process {case.pid}" if case.pid else "runs")


def permissions(case: Case) -> Iterator[Finding]:
    """Who may read and write the database, its companions and its folder."""
    path = case.path
    if not path.is_file():
        return
    found = list(_modes(case))
    owner = path.stat().st_uid
    for beside in (case.log, path.with_name(path.name + "-shm"), path.with_name(path.name + ".lock")):
        if beside.exists() and beside.stat().st_uid != owner:
            whose = f"belongs to {_user(beside.stat().st_uid)}, the database to {_user(owner)}"
            todo = f"chown {_user(owner)} {beside}, and run commands as {_user(owner)}"
            found.append(fault("permissions", f"{beside.name} {whose}", todo))
    runs_as = _uid_of(case.pid)
    if runs_as not in (None, 0, owner):
        found.append(
            fault(
                "permissions",
                f"the database belongs to {_user(owner)}, the server runs as {_user(runs_as or 0)}",
                f"stop the server, chown {_user(runs_as or 0)} {path} and what begins with its name, start it again",
            )
        )
    yield from found or [
        fine("permissions", f"{_user(owner)} alone can read the database, and its folder can be written")
    ]


def _modes(case: Case) -> Iterator[Finding]:
    path, folder = case.path, case.path.parent
    for file in (path, case.log):
        if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
            words = f"others than its owner can read or write {file.name}, which holds hashes of passwords and keys"
            yield fault("permissions", words, f"chmod 600 {file}")
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        yield fault("permissions", f"everybody can replace files in {folder}", f"chmod o-w {folder}")
    me = _user(os.geteuid())
    if not os.access(path, os.R_OK | os.W_OK):
        words = f"{me} cannot write {path.name}, which belongs to {_user(path.stat().st_uid)}"
        yield fault("permissions", words, f"run this, and the server, as {_user(path.stat().st_uid)}")
    elif not os.access(folder, os.W_OK | os.X_OK):
        words = f"{me} cannot write the folder {folder}, where SQLite keeps its log"
        yield fault("permissions", words, f"chown {me} {folder}, or run this, and the server, as its owner")


def _uid_of(pid: int | None) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid if pid else None
    except OSError:
        return None


def disk(case: Case) -> Iterator[Finding]:
    """Room for what comes in, and for temporary files."""
    folder = case.path.parent
    if not folder.is_dir():
        yield fault("disk", f"the folder {folder} does not exist", "create it, or name another file with --db")
        return
    free = shutil.disk_usage(folder).free
    inodes = os.statvfs(folder)
    size = case.path.stat().st_size if case.path.is_file() else 0
    room = "make room, or move the database to a larger disk; `retention` and then `compact` make it smaller"
    found = []
    min_free = min_free_bytes(case.settings.min_free_disk * 1_000_000, shutil.disk_usage(folder).total)
    if free < min_free:
        words = f"{sized(free)} are free in {folder}, less than --min-free-disk ({sized(min_free)}): events are refused"
        found.append(fault("disk", f"{words} (503)", f"{room}; or lower --min-free-disk"))
    elif free < LEAST_FREE_BYTES:
        words = f"{sized(free)} are free in {folder}: when it is full, events are refused (503)"
        found.append(fault("disk", words, room))
    elif free < size:
        found.append(note("disk", f"{sized(free)} are free in {folder}, less than a backup beside it takes", room))
    if inodes.f_files and not inodes.f_favail:
        found.append(
            fault("disk", f"no more files can be made in {folder}", "delete some; the disk has run out of inodes")
        )
    limit = _most_bytes(case.pid)
    if limit is not None and limit < size + LEAST_FREE_BYTES:
        words = f"the server's limit on the size of a file is {sized(limit)}, the database has {sized(size)}"
        found.append(fault("disk", words, "raise it: `ulimit -f unlimited`, or LimitFSIZE= in the service's unit"))
    place = Path(tempfile.gettempdir())
    if shutil.disk_usage(place).free < 64 * 1_048_576:
        words = f"{sized(shutil.disk_usage(place).free)} are free in {place}, where large questions are sorted"
        found.append(fault("disk", words, "make room there, or set TMPDIR to another folder"))
    yield from found or [fine("disk", f"{sized(free)} are free in {folder}")]


def _most_bytes(pid: int | None) -> int | None:
    """The limit on a file's size of the server, or of this process where none runs; None for no limit."""
    try:
        limit = resource.prlimit(pid or os.getpid(), resource.RLIMIT_FSIZE)[0]
    except OSError:  # another user's process
        return None
    return None if limit == resource.RLIM_INFINITY else limit


def log_size(case: Case) -> Iterator[Finding]:
    """SQLite's log: it starts over in a moment in which nobody reads."""
    size = case.log.stat().st_size if case.log.exists() else 0
    if size <= MOST_LOG_BYTES * 5 // 4:
        yield fine("log", f"{sized(size)} beside the database")
        return
    words = f"{case.log.name} has {sized(size)}: it starts over when nobody reads the file"
    others = [pid for pid in _who_has(case.path) if pid not in (case.pid, os.getpid())]
    if others:
        named = ", ".join(f"{_command(pid)} (process {pid})" for pid in others)
        yield fault("log", f"{words}, and {named} has it open", "end that, if it is no backup that is about to end")
    elif case.pid is None:
        yield note("log", words, "start the server: it empties the log within seconds")
    else:
        todo = (
            "look again in a minute; if it stays, restart the server, and see that no other program has the file open"
        )
        yield fault("log", words, todo)


def _who_has(path: Path) -> list[int]:
    """The processes that have a file open, of those that may be looked at."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(link) == str(path) for link in (process / "fd").iterdir()):
                found.append(int(process.name))
        except OSError:
            continue
    return sorted(found)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "something"


def backups_made(case: Case) -> Iterator[Finding]:
    """The nightly backups, where the settings name a folder for them."""
    folder = case.settings.backup_dir
    if folder is None:
        todo = "have the server make them: --backup-dir FOLDER, best on another disk (give it to doctor too)"
        yield note("backups", "no folder for nightly backups is named here", todo)
        return
    if not folder.is_dir():
        yield fault("backups", f"the folder {folder} does not exist", "create it, or name another with --backup-dir")
        return
    try:
        made = backups(folder, case.path)
    except BadDatabase:  # which is told where the database is
        return
    if not made:
        yield fault(
            "backups", f"there is none in {folder}", f"make one now: `analytics-server backup --keep 7 {folder}`"
        )
        return
    hours = (case.now_ms - made[-1][0]) // HOUR_MS
    words = f"{len(made)} in {folder}, the newest {hours} hours old"
    if case.now_ms - made[-1][0] > OLD_BACKUP_MS:
        yield fault("backups", words, "see in the server's log why none was made since; does it run with --backup-dir?")
    elif folder.stat().st_dev == case.path.parent.stat().st_dev:
        yield note("backups", words, "they are on the database's own disk: copy them elsewhere as well")
    else:
        yield fine("backups", words)
