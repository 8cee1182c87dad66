"""The lock that keeps a second server off a database: an flock on the file `<database>.lock`.

It is a file of its own because closing any descriptor of the database itself would release SQLite's locks on it. The
kernel releases the lock when the process ends, however it ends.
"""

import contextlib
import fcntl
import os
import stat
import time
from pathlib import Path

from tally.storage.database import BadDatabase


class InUse(BadDatabase):
    """Another process has locked the database."""


def lock_file(path: Path, wait_s: float = 0.0) -> int:
    """Lock a database for this process and return the lock's file descriptor. Raises InUse where it is locked for
    longer than `wait_s`, BadDatabase where it cannot be locked."""
    name, end = f"{path.resolve()}.lock", time.monotonic() + wait_s
    while True:
        try:
            lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as failure:
            raise _unusable(name, failure) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(lock, name):
                set_owner(lock, path)
                return lock
            # A start that failed has deleted the file after it was opened: no other process would find this lock.
            os.close(lock)
        except BlockingIOError:
            os.close(lock)
            if time.monotonic() >= end:
                raise InUse(
                    f"{path.resolve()} is in use by a running server, or by a command such as restore: stop the server,"
                    " wait until the command has ended, or name another file with --db."
                ) from None
            time.sleep(0.01)
        except OSError as failure:
            os.close(lock)
            raise _unusable(name, failure) from None


def set_owner(file: int, db: Path) -> None:
    """Give an open file or directory that this user has made the owner of a database, or of its directory: root may act
    for a server that runs as another user, who must not get a file of root's by a link."""
    owner, lock = (db if db.exists() else db.resolve().parent).stat(), os.fstat(file)
    # A directory has no second name; its links are its subdirectories.
    is_own = lock.st_uid == os.geteuid() and (lock.st_nlink == 1 or stat.S_ISDIR(lock.st_mode))
    if (owner.st_uid, owner.st_gid) != (lock.st_uid, lock.st_gid) and is_own:
        with contextlib.suppress(OSError):
            os.fchown(file, owner.st_uid, owner.st_gid)


def _unusable(name: str, failure: OSError) -> BadDatabase:
    return BadDatabase(
        f"{name} cannot be used ({failure.strerror}): give this user write permission on it and on its directory, or"
        " name another file with --db."
    )


def _is_named(lock: int, name: str) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), os.stat(name))
    except OSError:
        return False
