"""Real servers that store backups, on 127.0.0.1: S3 (moto), SFTP (OpenSSH) and WebDAV (Apache's mod_dav).

The tests of a server that is not installed are skipped; with TALLY_MUST_STORE=1, as in .ci/run, they fail. moto is a
package of the extra `test`.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.proxies import free_port

USER, PASSWORD = "keeper", "wrong-horse-battery"
BUCKET = "kept"
KINDS = ("s3", "sftp", "webdav")
_SSHD = "/usr/sbin/sshd"
_PACKAGES = "apt-get install openssh-server apache2 age"
_DAV = """ServerRoot FOLDER
DefaultRuntimeDir FOLDER
PidFile FOLDER/pid
ErrorLog FOLDER/error.log
ServerName localhost
User www-data
Group www-data
Listen 127.0.0.1:PORT
DavLockDB FOLDER/locks
DocumentRoot FOLDER/files
Alias /dav FOLDER/files
<Directory FOLDER/files>
  Dav On
  AuthType Basic
  AuthName backups
  AuthUserFile FOLDER/users
  Require valid-user
</Directory>
"""
_DAV_MODULES = (
    *("mpm_event", "authz_core", "authz_user", "authn_core", "authn_file", "auth_basic", "alias", "dav", "dav_fs"),
)
_SSH = """Port PORT
ListenAddress 127.0.0.1
HostKey FOLDER/host_key
AuthorizedKeysFile FOLDER/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
Subsystem sftp internal-sftp
"""


@dataclass
class StorageServer:
    """A server that stores files: the URL of a directory, credentials as variables, and where the files are on disk.

    `files` is None for S3, which keeps them in memory.
    """

    kind: str
    url: str
    environment: Mapping[str, str]
    folder: Path
    port: int
    files: Path | None = None
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    def names(self) -> list[str]:
        """Return the names of all files, unfinished ones too."""
        if self.files is not None:
            return sorted(path.name for path in self.files.rglob("*") if path.is_file())
        import obstore
        from obstore.store import S3Store

        store = S3Store(BUCKET, **_of_moto(self.port))
        return sorted(one["path"].rpartition("/")[2] for some in obstore.list(store) for one in some)

    def stop(self) -> None:
        """Kill the server, and the processes of its connections (sshd)."""
        if self.process is not None:
            for pid in _descendants(self.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()


def _descendants(pid: int) -> list[int]:
    found = [int(child) for one in Path(f"/proc/{pid}/task").glob("*/children") for child in one.read_text().split()]
    return found + [pid for child in found for pid in _descendants(child)]


def missing(program: str) -> None:
    """Skip a test without the program, or fail it with TALLY_MUST_STORE."""
    if shutil.which(program) is None:
        assert not os.environ.get("TALLY_MUST_STORE"), f"install {program}: {_PACKAGES}"
        pytest.skip(f"NOT TESTED: {program} is not installed ({_PACKAGES})")


def _started(kind: str, folder: Path) -> StorageServer:
    for _ in range(3):
        server = {"s3": _s3, "sftp": _sftp, "webdav": _webdav}[kind](folder, free_port())
        if _answers(server):
            return server
        server.stop()
    raise AssertionError(f"{kind} did not start: {(folder / 'log').read_text()[-3000:]}")


@contextlib.contextmanager
def running(kind: str) -> Iterator[StorageServer]:
    """Start a server of a kind with a directory of its own, and stop it at the end.

    The directory is not below the one of pytest, which only its owner can enter: Apache runs as another user.
    """
    with tempfile.TemporaryDirectory(prefix="tally-storage-") as folder:
        server = _started(kind, Path(folder))
        try:
            yield server
        finally:
            server.stop()


def restart(server: StorageServer) -> None:
    """Start a stopped server again, on its port. S3 loses its files."""
    again = {"s3": _s3, "sftp": _sftp, "webdav": _webdav}[server.kind](server.folder, server.port)
    assert _answers(again)
    server.process = again.process


def _run(words: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)


def _answers(server: StorageServer) -> bool:
    assert server.process is not None
    deadline = time.monotonic() + 60
    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", server.port), 1).close()
        except OSError:
            time.sleep(0.05)
            continue
        if server.kind == "s3":
            with contextlib.suppress(OSError):
                request = urllib.request.Request(f"http://127.0.0.1:{server.port}/{BUCKET}", method="PUT")
                urllib.request.urlopen(request).close()
        return True
    return False


def _of_moto(port: int) -> dict[str, object]:
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "access_key_id": USER,
        "secret_access_key": PASSWORD,
        "client_options": {"allow_http": True},
    }


def _s3(folder: Path, port: int) -> StorageServer:
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    url = f"s3://{BUCKET}/tally?endpoint=http://127.0.0.1:{port}&region=us-east-1"
    environment = {"TALLY_BACKUP_USER": USER, "TALLY_BACKUP_PASSWORD": PASSWORD}
    return StorageServer("s3", url, environment, folder, port, None, _run(words, folder))


def _sftp(folder: Path, port: int) -> StorageServer:
    missing(_SSHD)
    # The directory for its separation of privileges, which the package creates at boot.
    with contextlib.suppress(OSError):
        Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host_key", "client_key"):
        if not (folder / name).exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "client_key.pub", folder / "authorized_keys")
    key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n")
    (folder / "sshd_config").write_text(_SSH.replace("PORT", str(port)).replace("FOLDER", str(folder)))
    process = _run([_SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], folder)
    user = pwd.getpwuid(os.geteuid()).pw_name
    environment = {
        "TALLY_BACKUP_KEY_FILE": str(folder / "client_key"),
        "TALLY_BACKUP_KNOWN_HOSTS": str(folder / "known_hosts"),
    }
    url = f"sftp://{user}@127.0.0.1:{port}{folder}/files"
    return StorageServer("sftp", url, environment, folder, port, folder / "files", process)


def _webdav(folder: Path, port: int) -> StorageServer:
    missing("apache2")
    (folder / "files").mkdir(exist_ok=True)
    password = subprocess.run(
        ["openssl", "passwd", "-apr1", PASSWORD], capture_output=True, text=True, check=True
    ).stdout.strip()
    (folder / "users").write_text(f"{USER}:{password}\n")
    if os.geteuid() == 0:
        # Apache as root gives its files to www-data, which has to reach the directory.
        for path in (folder, folder / "files"):
            shutil.chown(path, "www-data")
            path.chmod(0o755)
    modules = "".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n" for name in _DAV_MODULES)
    (folder / "dav.conf").write_text(modules + _DAV.replace("PORT", str(port)).replace("FOLDER", str(folder)))
    process = _run(["apache2", "-X", "-f", str(folder / "dav.conf")], folder)
    environment = {"TALLY_BACKUP_USER": USER, "TALLY_BACKUP_PASSWORD": PASSWORD}
    url = f"http://127.0.0.1:{port}/dav/tally"
    return StorageServer("webdav", url, environment, folder, port, folder / "files", process)
