"""Listening sockets: TCP on one or more addresses, Unix sockets, and sockets that systemd passes.

`--host` is an address, a name with one or more addresses, or `unix:/path`. With `--port 0` all addresses share the
port that the first one got. An IPv6 socket accepts IPv6 only, so `0.0.0.0` and `::` can be used together.

A Unix socket is made under a temporary name, gets its mode, and is then renamed to its path: it replaces a file that a
killed server left behind, and no client can connect before the mode is set. A socket that another process listens on,
and a file that is not a socket, are never replaced. At the end the file is removed, unless another server has replaced
it.

Passed sockets (sd_listen_fds(3): LISTEN_FDS, LISTEN_PID) are used instead of --host and --port. They stay open in
systemd while the server restarts, so that connections wait instead of being refused.
"""

import contextlib
import errno
import os
import socket
import stat
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tally.settings import UNIX

# Owner and group, so that a proxy in the server's group can connect.
UNIX_MODE = 0o660
# A browser repeats an unanswered connection attempt within a second.
BACKLOG = 1024
# Unsent bytes of a response that the kernel buffers, and after how long without acknowledgement it closes a connection.
_UNSENT_BYTES = 131_072
_UNACKNOWLEDGED_S = 30
_FIRST_FD = 3
_FIXES = {
    errno.EADDRINUSE: "stop the program that uses it, or choose another with --host and --port (0 picks a free port)",
    errno.EADDRNOTAVAIL: "this machine does not have the address: correct --host (0.0.0.0 and :: are all addresses)",
    errno.EACCES: "this user may not: choose a port from 1024 on with --port, let users open lower ones (sysctl"
    " net.ipv4.ip_unprivileged_port_start=80), or choose a directory it may write for unix:",
    errno.ENOENT: "its directory does not exist: create it, or choose another with --host",
}
# Attempts to find a port that is free on all addresses.
_TRIES = 5


class CannotListen(Exception):
    """Listening on an address failed; the message has the reason and the fix."""


class _File(NamedTuple):
    path: Path
    identity: tuple[int, int]


class Sockets:
    """The sockets of a server, and the files of its Unix sockets."""

    def __init__(self, scheme: str = "http") -> None:
        self._scheme = scheme
        self.all: list[socket.socket] = []
        # http://HOST:PORT, with TLS https://HOST:PORT, or unix:PATH of each.
        self.addresses: list[str] = []
        self._files: list[_File] = []

    def add(self, listener: socket.socket, file: _File | None = None) -> None:
        """Add a socket, and its file, which is removed when the socket is closed."""
        self.all.append(listener)
        # The kernel reports a Unix socket under its temporary name.
        self.addresses.append(_shown(listener, self._scheme) if file is None else f"{UNIX}{file.path}")
        if file is not None:
            self._files.append(file)

    def take(self, port: int) -> "Sockets":
        """Move the TCP sockets on a port to others, for plain HTTP."""
        taken = Sockets()
        for listener in self.all:
            if listener.family != socket.AF_UNIX and listener.getsockname()[1] == port:
                taken.add(listener)
                self.addresses.remove(_shown(listener, self._scheme))
        self.all = [listener for listener in self.all if listener not in taken.all]
        return taken

    def close(self) -> None:
        """Close all sockets and remove their files, except those that another server has replaced."""
        for file in self._files:
            with contextlib.suppress(OSError):
                if _identity(file.path) == file.identity:
                    file.path.unlink()
        for listener in self.all:
            listener.close()
        self.all, self._files = [], []


def open_sockets(
    hosts: Sequence[str], port: int, environment: MutableMapping[str, str], scheme: str = "http"
) -> Sockets:
    """Return the passed sockets, or listen on each host. `scheme` is that of TCP sockets. Raises CannotListen."""
    passed = passed_sockets(environment, scheme)
    if passed is not None:
        return passed
    for attempt in range(_TRIES):
        opened = Sockets(scheme)
        try:
            for host in hosts:
                _open(opened, host, port)
            return opened
        except OSError as failure:
            # The port that the first address got is in use on another one.
            may_retry = port == 0 and failure.errno == errno.EADDRINUSE and opened.all and attempt < _TRIES - 1
            opened.close()
            if may_retry and not host.startswith(UNIX):
                continue
            where = host if host.startswith(UNIX) else f"{host}:{port}"
            raise CannotListen(f"Cannot listen on {where} ({_reason(failure)}): {_fix(failure)}.") from None
    raise AssertionError("unreachable")


def _open(opened: Sockets, host: str, port: int) -> None:
    if host.startswith(UNIX):
        _open_unix(opened, Path(host.removeprefix(UNIX)))
        return
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, address in dict.fromkeys((entry[0], entry[4]) for entry in entries):
        chosen = port or next(
            (listener.getsockname()[1] for listener in opened.all if listener.family != socket.AF_UNIX), 0
        )
        opened.add(_listening(family, (address[0], chosen, *address[2:])))


def _listening(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _tune(listener)
        listener.bind(address)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _tune(listener: socket.socket) -> None:
    """Set the options that accepted connections inherit."""
    listener.setblocking(False)
    if listener.family == socket.AF_UNIX:
        return
    # Only Linux has both.
    for name, value in (("TCP_NOTSENT_LOWAT", _UNSENT_BYTES), ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_S * 1000)):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _open_unix(opened: Sockets, path: Path) -> None:
    _check_unused(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        listener.bind(str(temporary))
        temporary.chmod(UNIX_MODE)
        _tune(listener)
        listener.listen(BACKLOG)
        identity = _identity(temporary)
        temporary.rename(path)
    except BaseException:
        listener.close()
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    opened.add(listener, _File(path, identity))


def _check_unused(path: Path) -> None:
    """Raise OSError unless the path is free or the socket of a server that no longer runs."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "it exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # EAGAIN, from a server whose backlog is full, means that it runs.
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
        except BlockingIOError:
            pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def passed_sockets(environment: MutableMapping[str, str], scheme: str = "http") -> Sockets | None:
    """Return the sockets that systemd passed to this process, None where it passed none. Raises CannotListen.

    The variables are removed, so that child processes do not inherit them.
    """
    variables = {name: environment.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")}
    if (
        variables["LISTEN_PID"] != str(os.getpid())
        or not variables["LISTEN_FDS"].isdecimal()
        or int(variables["LISTEN_FDS"]) == 0
    ):
        return None
    passed = Sockets(scheme)
    for number in range(_FIRST_FD, _FIRST_FD + int(variables["LISTEN_FDS"])):
        try:
            listener = socket.socket(fileno=number)
            passed.add(listener)
            if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) or listener.type != socket.SOCK_STREAM:
                raise OSError(errno.ENOTSOCK, "it is not a listening stream socket")
            listener.set_inheritable(False)
            _tune(listener)
        except OSError as failure:
            raise CannotListen(
                f"File descriptor {number} (LISTEN_FDS) cannot be listened on ({_reason(failure)}): the .socket unit"
                " needs ListenStream= and Accept=no."
            ) from None
    return passed


def _shown(listener: socket.socket, scheme: str) -> str:
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        text = name if isinstance(name, str) else os.fsdecode(name)
        return f"{UNIX}{text.replace(chr(0), '@')}"
    host, port = name[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _fix(failure: OSError) -> str:
    if isinstance(failure, socket.gaierror):
        return "no address is known for this name: correct --host"
    return _FIXES.get(failure.errno or 0, "choose another with --host and --port (0 picks a free port)")


def _reason(failure: OSError) -> str:
    return str(failure.strerror or failure)
