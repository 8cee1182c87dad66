"""The lock that keeps a second server off a database: an flock on the file `<database>.lock`.

It is a file of its own because closing any descriptor of the database itself would release SQLite's locks on it. The
kernel releases the lock when the process ends, however it ends.
"""

import fcntl
import os
from pathlib import Path

from tally.storage.database import BadDatabase


def lock_file(path: Path) -> int:
    """Lock a database for this process and return the lock's file descriptor. Raises BadDatabase if it is locked."""
    lock = os.open(f"{path.resolve()}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise BadDatabase(
            f"{path.resolve()} is in use by a running server: stop the server, or name another file with --db."
        ) from None
    if not _is_named(lock, f"{path.resolve()}.lock"):
        # A start that failed has deleted the file after it was opened: no other process would find this lock.
        os.close(lock)
        return lock_file(path)
    return lock


def _is_named(lock: int, name: str) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), os.stat(name))
    except OSError:
        return False
