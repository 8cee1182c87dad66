"""A directory of an SSH server: `sftp://USER@HOST:PORT/PATH`, or `/~/PATH` below the login directory. Needs paramiko.

The server's public key has to be in the file `known_hosts`: a connection to an unknown host, or to one with another
key, is refused. The client authenticates by a private key or a password; no agent and no other keys are tried.

A file is uploaded under a temporary name, read back, and renamed. The connection is kept until an error.
"""

import contextlib
import errno
import logging
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import SplitResult, unquote

import paramiko

from tally.offsite.destination import (
    BLOCK_BYTES,
    CONNECT_S,
    LISTING_S,
    MAX_FILES,
    READ_S,
    UNFINISHED,
    Credentials,
    DestinationError,
    StoredFile,
    allowed_s,
    exactly,
    plain,
    require_same,
    size_of,
    time_limit,
    usable,
)

_PORT = 22
_HOME = "/~/"
# Requests of 32 KB that are under way while a file is read: 4 MB, enough for a connection of 100 Mbit/s and 300 ms.
_REQUESTS = 128


class Sftp:
    """Files of one directory, which is created if it does not exist."""

    def __init__(self, url: SplitResult, credentials: Credentials) -> None:
        self._host, self._port = url.hostname or "", url.port or _PORT
        self._credentials = credentials._replace(user=unquote(url.username or "") or credentials.user)
        if not self._credentials.user:
            raise DestinationError("--backup-to: name the user, as in sftp://USER@HOST/PATH.")
        path = unquote(url.path).rstrip("/")
        self._path = path.removeprefix(_HOME) if path.startswith(_HOME) else path or "."
        self._known_hosts = Path(credentials.known_hosts or "~/.ssh/known_hosts").expanduser()
        # It logs each connection.
        logging.getLogger("paramiko").setLevel(logging.WARNING)
        self._client: paramiko.SSHClient | None = None
        self._sftp: paramiko.SFTPClient | None = None

    def put(self, name: str, file: BinaryIO) -> None:
        """Store a complete copy of an open file."""
        temporary = f"{self._path}/{name}{UNFINISHED}"
        size = size_of(file)
        with self._errors(f"{name} cannot be uploaded", allowed_s(2 * size)) as sftp:
            with sftp.open(temporary, "wb") as target:
                target.set_pipelined(True)
                while block := file.read(BLOCK_BYTES):
                    target.write(block)
            require_same(name, file, self._read(sftp, name + UNFINISHED, size))
            try:
                sftp.posix_rename(temporary, f"{self._path}/{name}")
            except OSError:
                # A server without that extension of OpenSSH; a plain rename does not replace a file.
                self._remove(sftp, name)
                sftp.rename(temporary, f"{self._path}/{name}")

    def files(self, limit: int | None = MAX_FILES) -> list[StoredFile]:
        """Return the files whose names this program may have given."""
        with self._errors("the directory cannot be listed", LISTING_S) as sftp:
            files = (
                StoredFile(entry.filename, entry.st_size or 0)
                for entry in sftp.listdir_iter(self._path)
                if stat.S_ISREG(entry.st_mode or stat.S_IFREG)
            )
            return usable(files, limit)

    def get(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the bytes of a file of this size in blocks."""
        what = f"{name} cannot be downloaded"
        with self._errors(what, allowed_s(size)) as sftp:
            yield from exactly(f"sftp://{self._host}: {what}", self._read(sftp, name, size), size)

    def _read(self, sftp: paramiko.SFTPClient, name: str, size: int) -> Iterator[bytes]:
        with sftp.open(f"{self._path}/{name}", "rb") as source:
            # Not the size that the server names now: paramiko keeps a request for each part of it in memory.
            source.prefetch(size, _REQUESTS)
            while block := source.read(BLOCK_BYTES):
                yield block

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with self._errors(f"{name} cannot be deleted") as sftp:
            self._remove(sftp, name)

    def _remove(self, sftp: paramiko.SFTPClient, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            sftp.remove(f"{self._path}/{name}")

    def close(self) -> None:
        """Close the connection, if one is open."""
        client, self._client, self._sftp = self._client, None, None
        if client is not None:
            client.close()

    @contextlib.contextmanager
    def _errors(self, what: str, seconds: float = allowed_s(0)) -> Iterator[paramiko.SFTPClient]:
        try:
            if self._sftp is None:
                self._sftp = self._connect()
            with time_limit(f"sftp://{self._host}: {what}", seconds, self._sftp.close):
                yield self._sftp
        except DestinationError:
            self.close()
            raise
        except (paramiko.SSHException, OSError, EOFError) as failure:
            self.close()
            reason = plain(failure, self._credentials)
            raise DestinationError(f"sftp://{self._host}: {what}: {reason}.") from None

    def _connect(self) -> paramiko.SFTPClient:
        if not self._known_hosts.is_file():
            raise DestinationError(f"There is no file {self._known_hosts} with {self._fix()}")
        client = self._client = paramiko.SSHClient()
        client.load_host_keys(str(self._known_hosts))
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        credentials = self._credentials
        try:
            client.connect(
                self._host,
                self._port,
                credentials.user,
                credentials.password or None,
                key_filename=credentials.key_file or None,
                timeout=CONNECT_S,
                banner_timeout=CONNECT_S,
                auth_timeout=CONNECT_S,
                allow_agent=False,
                look_for_keys=False,
            )
        except paramiko.BadHostKeyException:
            raise DestinationError(
                f"The server {self._host} has another key than {self._known_hosts} has for it: it may be another"
                " machine. If its key was changed on purpose, replace the line in that file."
            ) from None
        except paramiko.AuthenticationException:
            raise DestinationError(
                f"sftp://{self._host} refuses the user {credentials.user}: check password or key_file of the"
                " credentials."
            ) from None
        except paramiko.SSHException as failure:
            if "not found in known_hosts" in str(failure):
                raise DestinationError(f"{self._known_hosts} lacks {self._fix()}") from None
            raise
        sftp = client.open_sftp()
        channel = sftp.get_channel()
        if channel is not None:
            channel.settimeout(READ_S)
        self._make_directory(sftp)
        return sftp

    def _fix(self) -> str:
        port = "" if self._port == _PORT else f"-p {self._port} "
        return (
            f"the public key of {self._host}: add it (`ssh-keyscan {port}{self._host} >> {self._known_hosts}`), compare"
            " its fingerprint with the one that the provider publishes, and name the file as known_hosts in the"
            " credentials."
        )

    def _make_directory(self, sftp: paramiko.SFTPClient) -> None:
        try:
            sftp.stat(self._path)
        except OSError as failure:
            if failure.errno != errno.ENOENT:
                raise
            sftp.mkdir(self._path, 0o700)
