"""Where the server listens: several addresses, Unix sockets, sockets passed by systemd; and notifications.

Real servers and a real nginx. A restart with a passed socket refuses no connection.
"""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.http.sockets import CannotListen, open_sockets, passed_sockets
from tally.settings import SETTINGS, BadSetting, option_name, settings_from, variable_name
from tally.storage.database import open_database, transaction
from tests.support import proxies
from tests.support.app import CHROME, OWNER, ROOT
from tests.support.process import Serve, Server, clean_environment, until

# Passes a file descriptor as systemd does, with the variables that name the process.
ACTIVATE = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES="tally.socket")
os.execv(sys.argv[2], sys.argv[2:])
"""
ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(str(self.path))


def ask(path: Path, target: str = "/healthz", body: str | None = None, **headers: str) -> int:
    """Return the status of a request over a Unix socket."""
    connection = UnixConnection(path)
    try:
        connection.request("GET" if body is None else "POST", target, body, {"User-Agent": CHROME} | headers)
        return connection.getresponse().status
    finally:
        connection.close()


def more_lines(server: Server, count: int) -> list[str]:
    """Return the lines after the first on standard output."""
    assert server.process.stdout is not None
    return [server.process.stdout.readline().decode().strip() for _ in range(count)]


@pytest.fixture
def path() -> Iterator[Path]:
    """Return a path short enough for a socket; paths of pytest can be too long."""
    folder = Path(f"/tmp/tally-test-{os.getpid()}")
    folder.mkdir()
    yield folder / "tally.sock"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


# Several addresses


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("hosts", "reached"),
    [
        (("127.0.0.1", "127.0.0.2"), ("127.0.0.1", "127.0.0.2")),
        pytest.param(
            ("0.0.0.0", "::"), ("127.0.0.1", "::1"), marks=pytest.mark.skipif(not has_ipv6(), reason="NOT TESTED: IPv6")
        ),
    ],
)
def test_several_addresses_at_once(hosts: tuple[str, str], reached: tuple[str, str], serve: Serve, path: Path) -> None:
    """One line each, in order; they share the free port. The environment variable separates them by commas."""
    server = serve(env={"ANALYTICS_HOST": f"{hosts[0]},{hosts[1]},unix:{path}"})
    port = urlsplit(server.url).port
    second = f"[{hosts[1]}]" if ":" in hosts[1] else hosts[1]
    assert server.url == f"http://{hosts[0]}:{port}"
    assert more_lines(server, 2) == [f"listening on http://{second}:{port}", f"listening on unix:{path}"]
    for host in reached:
        with socket.create_connection((host, port or 0), 60) as one:
            one.sendall(ASK)
            assert one.recv(100).startswith(b"HTTP/1.1 200")
    assert ask(path) == 200


@pytest.mark.parametrize("host", ["unix:relative", "unix:", "unix:/" + "x" * 100, "127.0.0.1,,::1"])
def test_invalid_hosts(host: str) -> None:
    with pytest.raises(BadSetting, match="--host must be an address"):
        settings_from({"host": [host]}, {})


# Unix sockets


def test_a_unix_socket_is_a_trusted_proxy(serve: Serve, path: Path, tmp_path: Path) -> None:
    """Clients are identified by the forwarded header, with separate limits; the socket is removed at the end."""
    db = tmp_path / "analytics.db"
    with contextlib.closing(open_database(db, create=True)) as connection, transaction(connection):
        owner = create_account(connection, OWNER, "business", None, 1)
        website = add_website(connection, owner, "example.com", "example.com", (), 1)
    view = json.dumps({"type": "pageview", "website_id": website, "url": "https://example.com/"})
    server = serve("--host", f"unix:{path}", "--client-per-minute", "2", "--client-connections", "1", db=db)
    assert server.url == f"unix:{path}"
    assert path.stat().st_mode & 0o777 == 0o660
    clients = ("203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.8")
    statuses = [ask(path, "/api/collect", view, **{"X-Forwarded-For": client}) for client in clients]
    assert statuses == [202, 202, 429, 202]
    assert ask(path, "/metrics") == 403
    connections = [UnixConnection(path) for _ in range(5)]
    for connection in (*connections, *connections):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
    for connection in connections:
        connection.close()
    assert server.terminate() == 0
    assert list(path.parent.iterdir()) == []


def test_nginx_in_front_of_a_unix_socket(serve: Serve, path: Path, tmp_path: Path) -> None:
    serve("--host", f"unix:{path}")
    proxy = proxies.Proxy("nginx", proxies.SHARING["nginx"], f"unix:{path}", tmp_path / "nginx")
    try:
        for target, status in (("/healthz", 200), ("/metrics", 403)):
            connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
            connection.request("GET", target)
            assert connection.getresponse().status == status
            connection.close()
    finally:
        proxy.stop()


def test_a_stale_socket_is_replaced(serve: Serve, path: Path) -> None:
    serve("--host", f"unix:{path}").kill()
    assert path.is_socket()
    with pytest.raises(ConnectionRefusedError):
        ask(path)
    server = serve("--host", f"unix:{path}")
    assert ask(path) == 200
    assert server.terminate() == 0
    assert not path.exists()


def test_other_files_are_not_replaced(path: Path) -> None:
    """The socket of a running server, a regular file, a link; and a file that replaced the socket is not removed."""
    first = open_sockets([f"unix:{path}"], 0, {})
    file, link = path.with_name("file"), path.with_name("link")
    file.write_text("kept")
    link.symlink_to("file")
    for target, reason in (
        (path, "in use"),
        (file, "not a socket"),
        (link, "not a socket"),
        (file / "x", "Not a directory"),
    ):
        with pytest.raises(CannotListen, match=f"^Cannot listen on unix:{target} .*{reason}"):
            open_sockets([f"unix:{target}"], 0, {})
    assert (file.read_text(), link.is_symlink()) == ("kept", True)
    path.unlink()
    second = open_sockets([f"unix:{path}"], 0, {})
    first.close()
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(str(path))
    second.close()
    assert {left.name for left in path.parent.iterdir()} == {"file", "link"}


def test_a_socket_with_a_full_backlog_is_not_stale(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, contextlib.ExitStack() as waiting:
        busy.bind(str(path))
        busy.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                one = waiting.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(str(path))
        with pytest.raises(CannotListen, match="in use"):
            open_sockets([f"unix:{path}"], 0, {})


# Sockets passed by systemd


class Client(threading.Thread):
    """Connect repeatedly, with one request per connection."""

    def __init__(self, family: int, address: object) -> None:
        super().__init__()
        self.family, self.address = family, address
        self.answered, self.failures, self.is_ending = 0, list[str](), False

    def run(self) -> None:
        while not self.is_ending and not self.failures:
            try:
                with socket.socket(self.family) as one:
                    one.settimeout(60)
                    one.connect(self.address)  # type: ignore[arg-type]
                    one.sendall(ASK)
                    answer = one.recv(100)
            except OSError as failure:
                self.failures.append(repr(failure))
                return
            if answer.startswith(b"HTTP/1.1 200"):
                self.answered += 1
            else:
                self.failures.append(f"answered {answer!r}")


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX], ids=["tcp", "unix"])
@pytest.mark.slow
def test_a_restart_with_a_passed_socket_refuses_no_connection(family: int, serve: Serve, path: Path) -> None:
    with socket.socket(family) as passed:
        passed.bind(("127.0.0.1", 0) if family == socket.AF_INET else str(path))
        passed.listen(1024)
        address = passed.getsockname()
        url = f"unix:{path}" if family == socket.AF_UNIX else f"http://127.0.0.1:{address[1]}"
        clients = [Client(family, address) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            for _ in range(2):
                prefix = [sys.executable, "-c", ACTIVATE, str(passed.fileno())]
                server = serve("--host", "192.0.2.1", prefix=prefix, pass_fds=(passed.fileno(),))
                assert server.url == url
                before = [client.answered for client in clients]
                until(lambda: all(c.failures or c.answered > n + 20 for c, n in zip(clients, before, strict=True)))  # noqa: B023
                assert server.terminate() == 0
            server = serve(prefix=prefix, pass_fds=(passed.fileno(),))
        finally:
            for client in clients:
                client.is_ending = True
            for client in clients:
                client.join(60)
        assert [client.failures for client in clients] == [[]] * 4
        assert server.terminate() == 0
        assert path.exists() == (family == socket.AF_UNIX), "systemd owns the socket"


def test_a_passed_file_must_be_a_socket(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        words = [sys.executable, "-c", ACTIVATE, str(file.fileno()), sys.executable, str(ROOT / "analytics_server.py")]
        refused = subprocess.run(
            words, pass_fds=(file.fileno(),), cwd=tmp_path, env=clean_environment(), capture_output=True, text=True
        )
    assert refused.returncode == 1
    assert "File descriptor 3 (LISTEN_FDS) cannot be listened on" in refused.stderr


@pytest.mark.parametrize("pid", ["", "1"])
def test_variables_for_another_process(pid: str) -> None:
    environment = {"LISTEN_FDS": "1", "LISTEN_PID": pid, "LISTEN_FDNAMES": "x", "HOME": "/"}
    assert passed_sockets(environment) is None
    assert environment == {"HOME": "/"}


def test_the_units_are_for_this_server() -> None:
    """Their options exist, and Type=notify gets its notifications."""
    service = (ROOT / "deploy" / "tally.service").read_text()
    assert re.findall(r"^(?:Type|User|Requires)=(.*)$", service, re.MULTILINE) == ["tally.socket", "notify", "tally"]
    words = re.findall(r"^ExecStart=\S+/analytics-server serve (.*)$", service, re.MULTILINE)[0].split()
    assert {word for word in words if word.startswith("--")} <= {option_name(setting) for setting in SETTINGS}
    assert set(re.findall(r"ANALYTICS_\w+", service)) <= {variable_name(setting) for setting in SETTINGS}
    addresses = re.findall(r"^ListenStream=(.*)$", (ROOT / "deploy" / "tally.socket").read_text(), re.MULTILINE)
    assert addresses == ["127.0.0.1:8000", "[::1]:8000", "/run/tally.sock"]


# Notifications


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_notifications_of_systemd(kind: str, serve: Serve, path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path) if kind == "path" else f"\0{path}")
        manager.settimeout(60)
        named = str(path) if kind == "path" else f"@{path}"
        # The socket holds ten messages: on a busy machine more often ones would fill it while the server stops.
        server = serve(env={"NOTIFY_SOCKET": named, "WATCHDOG_USEC": "1000000"})
        assert manager.recv(1_000).decode() == f"READY=1\nSTATUS=listening on {server.url}"
        assert [manager.recv(1_000) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        assert server.terminate() == 0
        rest = []
        manager.setblocking(False)
        while not rest or rest[-1] != b"STOPPING=1":
            rest.append(manager.recv(1_000))
        assert set(rest) <= {b"WATCHDOG=1", b"STOPPING=1"}


def test_a_watchdog_of_another_process(serve: Serve, path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        server = serve(env={"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})
        assert server.request("GET", "/healthz").status == 200
        assert server.terminate() == 0
        manager.setblocking(False)
        assert [manager.recv(1_000).partition(b"\n")[0] for _ in range(2)] == [b"READY=1", b"STOPPING=1"]
        with pytest.raises(BlockingIOError):
            manager.recv(1_000)
