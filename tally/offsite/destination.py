"""A place on another machine that stores files by name: the protocol, and the checks that all kinds share.

A file is complete or absent under its name. It is uploaded under a temporary name (S3: in parts that become an object
at the end), read back, compared by size and SHA-256, and only then gets its name. Files are streamed in blocks.

What a destination returns is not trusted: a listing is bounded (but for a restore), and names that this program cannot
have given are omitted, so that no name is a path. A download ends with the first block beyond the listed size, and
whatever takes longer than `allowed_s` is given up, also where each byte arrives in time. Errors are DestinationError,
whose message has the reason and the fix, and no secret.

The URL has no password. Credentials come from TALLY_BACKUP_... variables of the environment, or from a file with lines
such as `password = ...`; a variable takes precedence.
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol
from urllib.parse import SplitResult, urlsplit

from tally.resources import install_command

BLOCK_BYTES = 1_048_576
CONNECT_S, READ_S = 30, 60
# The slowest transfer: a night of a line with 128 kbit/s is 460 MB.
MIN_BYTES_PER_S = 16_000
# The time of a listing: 500,000 files are some 155 MB.
LISTING_S = 1_800.0
UNFINISHED = ".unfinished"
# Each backup and increment is one file. Increments, up to 86,400 a day, are deleted by the next backup: this many are
# made in five days in which backups fail. A catalog of them takes some 250 MB of memory.
MAX_FILES = 500_000
_NAME = re.compile(r"tally-[a-z0-9][A-Za-z0-9.-]{0,150}")
_CREDENTIALS = ("user", "password", "key_file", "known_hosts")
_VARIABLE = "TALLY_BACKUP_"
_MAX_SHOWN = 300
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Scheme: module of this package, class, the library that it needs, the extra that installs it.
_KINDS = {
    "s3": ("s3", "S3", "obstore", "s3"),
    "sftp": ("sftp", "Sftp", "paramiko", "sftp"),
    "https": ("webdav", "WebDav", "", ""),
    "http": ("webdav", "WebDav", "", ""),
}


class DestinationError(Exception):
    """A destination cannot be used; the message has the reason and the fix."""


class StoredFile(NamedTuple):
    """A file of a destination: its name and size in bytes."""

    name: str
    size: int


class Destination(Protocol):
    """Stores files by name. Used by one thread at a time. Every method raises DestinationError."""

    def put(self, name: str, file: BinaryIO) -> None:
        """Store a complete copy of an open file, which is read from its beginning; replace one of that name."""

    def files(self, limit: int | None = MAX_FILES) -> list[StoredFile]:
        """Return the files whose names this program may have given, in the order of their names."""

    def get(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the bytes of a file of this size in blocks."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    def close(self) -> None:
        """Close the connection, if one is open."""


class Credentials(NamedTuple):
    """Credentials. S3: `user` is the id of the access key, `password` the secret one. SFTP: `key_file` in place of a
    password, and `known_hosts`, the file with the server's public key."""

    user: str = ""
    password: str = ""
    key_file: str = ""
    known_hosts: str = ""


class Connect(Protocol):
    """Makes a destination."""

    def __call__(self, url: SplitResult, credentials: Credentials) -> Destination:
        """Return a destination of a valid URL; nothing is sent. Raises DestinationError."""


def open_destination(url: str, credentials_file: Path | None, environment: Mapping[str, str]) -> Destination:
    """Return the destination of a URL; nothing is sent yet. Raises DestinationError."""
    parts = urlsplit(url)
    module, name, library, extra = _KINDS[parts.scheme]
    if library and importlib.util.find_spec(library) is None:
        raise missing_library(f"A backup to {parts.scheme}://", library, extra)
    credentials = read_credentials(credentials_file, environment)
    connect: Connect = getattr(import_module(f"tally.offsite.{module}"), name)
    return connect(parts, credentials)


def missing_library(what: str, library: str, extra: str) -> DestinationError:
    """Return the error for an extra that is not installed."""
    return DestinationError(f"{what} needs {library}, which is not installed: {install_command(extra)}.")


def read_credentials(file: Path | None, environment: Mapping[str, str]) -> Credentials:
    """Return the credentials of a file and of the environment. Raises DestinationError."""
    values = {} if file is None else _read_file(file)
    for name in _CREDENTIALS:
        if value := environment.get(_VARIABLE + name.upper()):
            values[name] = value
    return Credentials(**values)


def _read_file(file: Path) -> dict[str, str]:
    try:
        with file.open(encoding="utf-8") as opened:
            if os.fstat(opened.fileno()).st_mode & 0o077:
                raise DestinationError(f"{file} can be read by other users: chmod 600 {file}")
            lines = opened.read(65_536).splitlines()
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "not UTF-8"
        raise DestinationError(f"The file of credentials {file} cannot be read: {reason}.") from None
    values = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or name not in _CREDENTIALS:
            # The line may be a secret.
            names = ", ".join(_CREDENTIALS)
            raise DestinationError(f"{file}, line {number}: write NAME = VALUE, where NAME is one of {names}.")
        values[name] = value
    return values


def require_encrypted_connection(scheme: str, host: str, what: str) -> None:
    """Raise DestinationError where credentials would be sent in plain text to another machine."""
    if scheme != "https" and host not in _LOOPBACK:
        raise DestinationError(f"{what} must begin with https://: without TLS, anyone on the way can read it.")


def plain(failure: Exception, credentials: Credentials) -> str:
    """Return the message of a library's exception on one line, shortened, without credentials."""
    text = " ".join(str(failure).split()) or type(failure).__name__
    for secret in (credentials.password, credentials.user):
        text = text.replace(secret, "***") if secret else text
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def usable(files: Iterable[StoredFile], limit: int | None = MAX_FILES) -> list[StoredFile]:
    """Return the files whose names this program may have given, sorted. Raises DestinationError for too many."""
    kept = []
    for number, file in enumerate(files):
        if limit is not None and number >= limit:
            raise DestinationError(
                f"There are more than {limit:,} files: use a directory (S3: a prefix) for Tally alone."
            )
        if _NAME.fullmatch(file.name):
            kept.append(file)
    return sorted(kept)


def allowed_s(size: int) -> float:
    """Return how long the transfer of so many bytes may take, with what precedes and follows it."""
    return 2 * READ_S + size / MIN_BYTES_PER_S


@contextlib.contextmanager
def time_limit(what: str, seconds: float, end: Callable[[], None]) -> Iterator[None]:
    """Call `end` from another thread after so many seconds of the block; its failure is then a DestinationError."""
    is_over = threading.Event()

    def give_up() -> None:
        is_over.set()
        with contextlib.suppress(Exception):
            end()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if is_over.is_set():
            raise DestinationError(f"{what}: it took longer than {seconds:,.0f} s: check the connection.") from None
        raise
    finally:
        timer.cancel()


def exactly(what: str, blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield blocks of so many bytes in all. Raises DestinationError for fewer, and with the first block beyond."""
    got = 0
    for block in blocks:
        got += len(block)
        if got > size:
            raise DestinationError(f"{what}: it has more than {size:,} bytes: check the destination.")
        yield block
    if got < size:
        raise DestinationError(f"{what}: it ends after {got:,} of {size:,} bytes: try again.")


def require_same(name: str, file: BinaryIO, stored: Iterable[bytes]) -> None:
    """Read a file and its stored copy; raise DestinationError where size or SHA-256 differ."""
    file.seek(0)
    sent, sent_bytes = _digest(iter(lambda: file.read(BLOCK_BYTES), b""))
    got, got_bytes = _digest(stored)
    if sent != got:
        raise DestinationError(
            f"{name} differs from what was sent ({got_bytes:,} of {sent_bytes:,} bytes are stored):"
            " check the free space of the destination."
        )


def _digest(blocks: Iterable[bytes]) -> tuple[bytes, int]:
    digest, size = hashlib.sha256(), 0
    for block in blocks:
        digest.update(block)
        size += len(block)
    return digest.digest(), size


def size_of(file: BinaryIO) -> int:
    """Return the size of an open file, whose position is then its beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size
