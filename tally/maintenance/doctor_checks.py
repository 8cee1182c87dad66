"""The checks of `doctor` outside of the database's content.

They cover versions, time zone data, country data, the running server, permissions, disk space, SQLite's log and
backups. Each check takes a `Case` and yields findings. Information that this user may not read, such as which processes
have the file open, is left out rather than guessed. No check changes anything.
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

from tally.events.geoip import CountryDataError, Places
from tally.events.lists import DATACENTERS, BadListError, files, read_ranges
from tally.maintenance.backup import backups
from tally.resources import tally_version
from tally.settings import Settings
from tally.storage.database import MAX_WAL_BYTES, BadDatabase, log_of
from tally.storage.disk_space import disk_space
from tally.timeranges import zone, zone_names
from tally.timestamps import DAY_MS, HOUR_MS, SECOND_MS

# SQLite's log takes 64 MB; the rest leaves days to react at 10,000 events a day.
MIN_FREE_BYTES = 256 * 1_048_576
# Country data is published monthly; a few percent of it change in half a year.
OLD_COUNTRIES_DAYS, OUTDATED_COUNTRIES_DAYS = 180, 400
# Governments announce changes of time zones some months ahead.
OUTDATED_ZONES_YEARS = 2
# One night may be missed.
OLD_BACKUP_MS = 2 * DAY_MS
# sqlite.org/wal.html: before this version, two processes that checkpoint at the same time could damage a file.
_FIXED_SQLITE = (3, 51, 3)
_MIN_SQLITE = (3, 37, 0)  # strict tables


class Finding(NamedTuple):
    """The result of a check: `mark` is fine, note or fault; `words` is the state of `topic`, `todo` the fix."""

    mark: str
    topic: str
    words: str
    todo: str = ""


def fine(topic: str, words: str) -> Finding:
    """Return a finding without a problem."""
    return Finding("fine", topic, words)


def note(topic: str, words: str, todo: str = "") -> Finding:
    """Return a finding that may be intended."""
    return Finding("note", topic, words, todo)


def fault(topic: str, words: str, todo: str = "") -> Finding:
    """Return a finding that is a problem."""
    return Finding("fault", topic, words, todo)


@dataclass
class Case:
    """What is checked: the settings, the database's resolved path, and the time.

    `pid` is the process of the running server: None where none runs, 0 where it is unknown. Where this user may not
    read the lock file (`is_lock_hidden`), it is unknown whether a server runs, and `pid` is None.
    """

    settings: Settings
    path: Path
    now_ms: int
    is_quick: bool = False
    identity: Path | None = None
    pid: int | None = field(init=False, default=None)
    is_lock_hidden: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        try:
            self.pid = _server_of(self.path)
        except PermissionError:
            self.is_lock_hidden = True

    @property
    def log(self) -> Path:
        """Return the path of SQLite's write-ahead log."""
        return log_of(self.path)


def _server_of(path: Path) -> int | None:
    """Return the process of the running server, as Case.pid. Raises PermissionError."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        return _lock_holder(os.fstat(lock).st_ino)
    finally:
        os.close(lock)


def _lock_holder(inode: int) -> int:
    """Return the process that has locked a file, from the kernel's list; 0 where it is not listed."""
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return 0
    pids = [int(line[4]) for line in lines if line[1] == "FLOCK" and line[5].endswith(f":{inode}")]
    return max(pids, default=0)


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def sized(size: int) -> str:
    """Return a size as text, with two or three significant digits."""
    for unit, length in (("GB", 1e9), ("MB", 1e6)):
        if size >= length:
            return f"{size / length:,.{0 if size >= 100 * length else 1}f} {unit}"
    return f"{size / 1e3:,.0f} kB"


# --- the program and its data


def program(case: Case) -> Iterator[Finding]:
    """Check the versions of Python and SQLite."""
    words = f"Tally {tally_version()}, Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < _MIN_SQLITE:
        yield fault("program", f"{words}: too old", "use a Python with SQLite 3.37 or later")
    elif sqlite3.sqlite_version_info < _FIXED_SQLITE:
        fixed = ".".join(map(str, _FIXED_SQLITE))
        yield fine(
            "program",
            f"{words} (older than {fixed}: no other program may write to the database while the server runs)",
        )
    else:
        yield fine("program", words)


def agent_engine(case: Case) -> Iterator[Finding]:
    """Check whether the compiled parser of User-Agents is installed."""
    from tally.events.user_agent import is_compiled  # importing its tables takes 50 ms

    if is_compiled():
        yield fine("agents", "User-Agents are parsed by the compiled ua-parser-rs")
    else:
        yield note(
            "agents",
            "User-Agents are parsed in Python, which is slower: ua-parser-rs is not installed",
            "pip install ua-parser-rs, if it has a wheel for this platform; the results are the same",
        )


def zone_data(case: Case) -> Iterator[Finding]:
    """Check that the package tzdata is readable and recent."""
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
        yield fault("zones", f"{len(broken)} zones of tzdata cannot be read, such as {broken[0]}", install)
    elif datetime.fromtimestamp(case.now_ms / SECOND_MS, UTC).year - year >= OUTDATED_ZONES_YEARS:
        yield fault("zones", f"{len(names)} from tzdata {version}: outdated, countries have changed zones", install)
    else:
        yield fine("zones", f"{len(names)} from tzdata {version}")


def country_data(case: Case) -> Iterator[Finding]:
    """Check that the country database is readable and recent."""
    path = case.settings.geoip_db
    name = "bundled" if path is None else str(path)
    try:
        places = Places(path)
    except CountryDataError as bad:
        yield fault("countries", str(bad), "the server does not start with it")
        return
    built = places.built
    places.close()
    days = (datetime.fromtimestamp(case.now_ms / SECOND_MS, UTC).date() - built).days
    update = "install a newer Tally, or set a newer MMDB file with --geoip-db"
    words = f"{name}, built on {built}, {days} days ago"
    if days < -1:
        yield fault("countries", f"{name}, built on {built}, after today", "set the system clock")
    elif days > OUTDATED_COUNTRIES_DAYS:
        yield fault("countries", f"{words}: outdated, many addresses have moved", update)
    elif days > OLD_COUNTRIES_DAYS:
        yield note("countries", words, update)
    else:
        yield fine("countries", words)


def lists(case: Case) -> Iterator[Finding]:
    """Check that the lists of crawlers, referrer spam and data centers are readable and recent."""
    ranges = case.settings.datacenter_ranges
    try:
        found = [*files(case.settings.lists_dir), *([read_ranges(ranges)[0]] if ranges else ())]
    except BadListError as bad:
        yield fault("lists", str(bad), "the server does not start with it")
        return
    today = datetime.fromtimestamp(case.now_ms / SECOND_MS, UTC).date()
    for one in found:
        words = f"{one.path.name} of {one.made}, {one.age_days(today):,} days old"
        if not one.is_old(today):
            yield fine("lists", words)
        elif one.name == DATACENTERS:
            yield note("lists", words, "write the file of --datacenter-ranges again")
        else:
            yield note("lists", words, "install a newer Tally, or put a newer file into the directory of --lists-dir")


# --- the server and its file


def server(case: Case) -> Iterator[Finding]:
    """Report the server that runs on this database."""
    if case.is_lock_hidden:
        words = f"unknown: the user {_user_name(os.geteuid())} cannot read {case.path.name}.lock"
        yield note("server", words, "run `doctor` as the user of the server")
    elif case.pid is None:
        start = "start it with `analytics-server`" if case.path.exists() else ""
        yield note("server", "none runs on this database", start)
    else:
        yield fine("server", f"runs as process {case.pid}" if case.pid else "runs")


def permissions(case: Case) -> Iterator[Finding]:
    """Check the owner and mode of the database, of the files beside it and of its directory."""
    path = case.path
    if not path.is_file():
        return
    found = list(_modes(case))
    owner = path.stat().st_uid
    for beside in (case.log, path.with_name(path.name + "-shm"), path.with_name(path.name + ".lock")):
        if beside.exists() and beside.stat().st_uid != owner:
            owners = f"belongs to {_user_name(beside.stat().st_uid)}, the database to {_user_name(owner)}"
            todo = f"chown {_user_name(owner)} {beside}, and run commands as {_user_name(owner)}"
            found.append(fault("permissions", f"{beside.name} {owners}", todo))
    runs_as = _user_of(case.pid)
    if runs_as not in (None, 0, owner):
        user = _user_name(runs_as or 0)
        words = f"the database belongs to {_user_name(owner)}, the server runs as {user}"
        todo = f"stop the server, run `chown {user} {path}*`, start it again"
        found.append(fault("permissions", words, todo))
    words = f"only {_user_name(owner)} can read the database; its directory is writable"
    yield from found or [fine("permissions", words)]


def _modes(case: Case) -> Iterator[Finding]:
    path, directory = case.path, case.path.parent
    for file in (path, case.log):
        if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077:
            words = f"other users can read or write {file.name}, which contains hashes of passwords and keys"
            yield fault("permissions", words, f"chmod 600 {file}")
    mode = directory.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        yield fault("permissions", f"all users can replace files in {directory}", f"chmod o-w {directory}")
    user = _user_name(os.geteuid())
    if not os.access(path, os.R_OK | os.W_OK):
        owner = _user_name(path.stat().st_uid)
        words = f"{user} cannot write {path.name}, which belongs to {owner}"
        yield fault("permissions", words, f"run this command and the server as {owner}")
    elif not os.access(directory, os.W_OK | os.X_OK):
        words = f"{user} cannot write the directory {directory}, where SQLite creates its log"
        yield fault("permissions", words, f"chown {user} {directory}, or run this command and the server as its owner")


def _user_of(pid: int | None) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid if pid else None
    except OSError:
        return None


def disk(case: Case) -> Iterator[Finding]:
    """Check the space for the database and for temporary files."""
    directory = case.path.parent
    if not directory.is_dir():
        yield fault("disk", f"the directory {directory} does not exist", "create it, or name another file with --db")
        return
    free = shutil.disk_usage(directory).free
    inodes = os.statvfs(directory)
    size = case.path.stat().st_size if case.path.is_file() else 0
    todo = "free space, or move the database to a larger disk; `retention` and then `compact` make it smaller"
    found = []
    space = disk_space(case.path, case.settings.min_free_disk * 1_000_000)
    words = f"{sized(free)} are free in {directory}"
    if space.is_low:
        in_log = f", {sized(space.log_bytes)} of it needed for the database's log" if space.log_bytes else ""
        words = f"{words}{in_log}, less than --min-free-disk ({sized(space.min_bytes)}): events are refused (503)"
        found.append(fault("disk", words, f"{todo}; or lower --min-free-disk"))
    elif free < MIN_FREE_BYTES:
        found.append(fault("disk", f"{words}: when it is full, events are refused (503)", todo))
    elif free < size:
        found.append(note("disk", f"{words}, less than a backup in the same place takes", todo))
    if inodes.f_files and not inodes.f_favail:
        words = f"no more files can be created in {directory}: the disk has no free inodes"
        found.append(fault("disk", words, "delete some files"))
    limit = _file_size_limit(case.pid)
    if limit is not None and limit < size + MIN_FREE_BYTES:
        words = f"the server's limit on the size of a file is {sized(limit)}, the database has {sized(size)}"
        found.append(fault("disk", words, "raise it: `ulimit -f unlimited`, or LimitFSIZE= in the service's unit"))
    temporary = Path(tempfile.gettempdir())
    if shutil.disk_usage(temporary).free < 64 * 1_048_576:
        words = f"{sized(shutil.disk_usage(temporary).free)} are free in {temporary}, where large queries are sorted"
        found.append(fault("disk", words, "free space there, or set TMPDIR to another directory"))
    yield from found or [fine("disk", f"{sized(free)} are free in {directory}")]


def _file_size_limit(pid: int | None) -> int | None:
    """Return the file size limit of the server, or of this process where none runs; None for no limit."""
    try:
        limit = resource.prlimit(pid or os.getpid(), resource.RLIMIT_FSIZE)[0]
    except OSError:  # another user's process
        return None
    return None if limit == resource.RLIM_INFINITY else limit


def log_size(case: Case) -> Iterator[Finding]:
    """Check the size of SQLite's write-ahead log, which is reset at a moment without readers."""
    size = case.log.stat().st_size if case.log.exists() else 0
    if size <= MAX_WAL_BYTES * 5 // 4:
        yield fine("log", f"{sized(size)} beside the database")
        return
    words = f"{case.log.name} has {sized(size)}: it is reset when no process reads the database"
    others = [pid for pid in _processes_with(case.path) if pid not in (case.pid, os.getpid())]
    if others:
        named = ", ".join(f"{_command(pid)} (process {pid})" for pid in others)
        yield fault("log", f"{words}, and {named} has it open", "stop that, unless it is a backup that ends soon")
    elif case.is_lock_hidden:
        yield note("log", words)
    elif case.pid is None:
        yield note("log", words, "start the server: it resets the log within seconds")
    else:
        todo = "check again in a minute; if it stays, close other programs that have the file open, restart the server"
        yield fault("log", words, todo)


def _processes_with(path: Path) -> list[int]:
    """Return the processes that have a file open, of those that this user may inspect."""
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
        return "a program"


def backups_made(case: Case) -> Iterator[Finding]:
    """Check the nightly backups, where --backup-dir is set."""
    directory = case.settings.backup_dir
    if directory is None and case.settings.backup_to:
        return  # tally/maintenance/doctor_offsite.py
    if directory is None:
        todo = "set --backup-to URL (another machine) or --backup-dir DIRECTORY, for the server and for doctor"
        yield note("backups", "neither --backup-to nor --backup-dir is set", todo)
        return
    if not directory.is_dir():
        words = f"the directory {directory} does not exist"
        yield fault("backups", words, "create it, or name another with --backup-dir")
        return
    try:
        made = backups(directory, case.path)
    except BadDatabase:  # the check of the database reports it
        return
    if not made:
        todo = f"make one now: `analytics-server backup --keep 7 {directory}`"
        yield fault("backups", f"there is none in {directory}", todo)
        return
    hours = (case.now_ms - made[-1][0]) // HOUR_MS
    words = f"{len(made)} in {directory}, the newest {hours} hours old"
    if case.now_ms - made[-1][0] > OLD_BACKUP_MS:
        todo = "check that the server runs with --backup-dir; its log has the reason of a failed backup"
        yield fault("backups", words, todo)
    elif directory.stat().st_dev == case.path.parent.stat().st_dev:
        yield note("backups", words, "they are on the same disk as the database: copy them elsewhere too")
    else:
        yield fine("backups", words)
