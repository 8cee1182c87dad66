"""TLS of the server: certificates that are refused, HTTPS of a real process, renewal, and bounds on handshakes."""

import asyncio
import datetime
import http.client
import json
import signal
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
import trustme

from tally.api.auth import AUTH
from tally.http.connections import CONNECTIONS, Connections
from tally.http.sockets import open_sockets
from tally.http.tls import Tls, tls_of
from tally.ingest.fast_path import FastConnection
from tally.settings import BadSetting, Settings
from tests.support.app import CHROME, App
from tests.support.process import Command, Serve, Server, until
from tests.unit.http.test_listener import ask

CA = trustme.CA()
DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.now(datetime.UTC)
VIEW = {"type": "pageview", "url": "https://example.com/"}


class Files(NamedTuple):
    cert: Path
    key: Path

    def issue(self, *names: str, **dates: datetime.datetime) -> bytes:
        """Write a new certificate with its chain, and its key; return the certificate in DER format."""
        issued = CA.issue_cert(*names, **dates)
        self.cert.write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
        self.key.write_bytes(issued.private_key_pem.bytes())
        return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())

    @property
    def options(self) -> tuple[str, ...]:
        return "--tls-cert", str(self.cert), "--tls-key", str(self.key)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    found = Files(tmp_path / "cert.pem", tmp_path / "key.pem")
    found.issue("localhost", "127.0.0.1")
    return found


def client_context() -> ssl.SSLContext:
    """Return the context of a client that trusts CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    CA.configure_trust(context)
    return context


# Certificates that are refused

BROKEN: dict[str, tuple[Callable[[Files], object], str]] = {
    "a missing certificate": (lambda files: files.cert.unlink(), "--tls-cert: CERT cannot be read (No such file"),
    "a missing key": (lambda files: files.key.unlink(), "--tls-key: KEY cannot be read (No such file or directory)"),
    "a key that is a directory": (
        lambda files: (files.key.unlink(), files.key.mkdir()),
        "--tls-key: KEY cannot be read (Is a directory)",
    ),
    "a certificate that is none": (
        lambda files: files.cert.write_text("certificate"),
        "--tls-cert: CERT has no certificate in PEM format: name the file with the certificate and its chain",
    ),
    "a damaged certificate": (
        lambda files: files.cert.write_bytes(files.cert.read_bytes().replace(b"M", b"N", 5)),
        "--tls-cert: CERT with KEY cannot be used (",
    ),
    "a certificate in the place of the key": (
        lambda files: files.key.write_bytes(files.cert.read_bytes()),
        "--tls-key: KEY has no private key in PEM format",
    ),
    "a key of another certificate": (
        lambda files: Files(files.cert.with_name("other"), files.key).issue("localhost"),
        "--tls-key: KEY is not the key of the certificate in CERT",
    ),
    "an encrypted key": (
        lambda files: files.key.write_bytes(encrypted(files.key.read_bytes())),
        "--tls-key: KEY is encrypted: remove its passphrase",
    ),
    "an expired certificate": (
        lambda files: files.issue("localhost", not_before=NOW - 2 * DAY, not_after=NOW - DAY),
        "--tls-cert: CERT would be refused by clients (certificate has expired): renew it",
    ),
    "a certificate of tomorrow": (
        lambda files: files.issue("localhost", not_before=NOW + DAY, not_after=NOW + 2 * DAY),
        "--tls-cert: CERT would be refused by clients (certificate is not yet valid): correct the clock",
    ),
}


def encrypted(key: bytes) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"passphrase"),
    )


@pytest.mark.parametrize("name", BROKEN)
def test_refused_certificates(name: str, files: Files) -> None:
    tls_of(Settings(tls_cert=files.cert, tls_key=files.key))
    breaks, message = BROKEN[name]
    breaks(files)
    with pytest.raises(BadSetting) as bad:
        tls_of(Settings(tls_cert=files.cert, tls_key=files.key))
    assert message.replace("CERT", str(files.cert)).replace("KEY", str(files.key)) in str(bad.value)


def test_one_of_the_two_settings_is_refused(files: Files) -> None:
    assert tls_of(Settings()) is None
    with pytest.raises(BadSetting, match="--tls-cert needs --tls-key: set both for HTTPS, or none"):
        tls_of(Settings(tls_cert=files.cert))
    with pytest.raises(BadSetting, match="--tls-key needs --tls-cert"):
        tls_of(Settings(tls_key=files.key))


# A real process


def connect(server: Server, context: ssl.SSLContext | None = None) -> http.client.HTTPSConnection:
    at = urlsplit(server.url)
    return http.client.HTTPSConnection("localhost", at.port, context=context or client_context(), timeout=60)


def certificate(server: Server) -> bytes:
    """Return the certificate of a new connection."""
    connection = connect(server)
    connection.connect()
    try:
        return connection.sock.getpeercert(binary_form=True)
    finally:
        connection.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_https_of_a_process(serve: Serve, files: Files, command: Command, tmp_path: Path) -> None:
    """HTTPS on TCP, plain HTTP on the Unix socket, and a certificate that is renewed while connections are open."""
    website = command("website", "add", "example.com").stdout.strip()
    unix = Path(f"{tmp_path.parent}/s")
    first = files.issue("tally.example", "localhost")
    server = serve(*files.options, "--host", "127.0.0.1", "--host", f"unix:{unix}", "--max-connections", "8")
    port = urlsplit(server.url).port
    assert server.url == f"https://127.0.0.1:{port}"
    assert f"set up Tally: https://tally.example:{port}/setup#" in server.stderr()
    assert ask(unix) == 200

    opened = connect(server)
    body, headers = json.dumps(VIEW | {"website_id": website}), {"User-Agent": CHROME}
    for path in ("/api/collect", "/healthz"):
        opened.request("POST" if path == "/api/collect" else "GET", path, body, headers)
        answer = opened.getresponse()
        assert (answer.status, answer.read()[:11]) == (202 if path == "/api/collect" else 200, b'{"ok":true,')
        assert "Strict-Transport-Security" not in answer.headers
    opened.request("GET", "/healthz")
    opened.getresponse().read()

    old = client_context()
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with closing(connect(server, old)) as refused, pytest.raises(ssl.SSLError):
        refused.connect()
    with socket.create_connection(("127.0.0.1", port or 0), 60) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert plain.recv(100) == b"", "nothing is answered in plain HTTP"

    assert certificate(server) == first
    second = files.issue("tally.example", "localhost")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "the certificate was read: valid until" in server.stderr())
    assert certificate(server) == second != first
    files.key.write_text("broken")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "level=error" in server.stderr())
    assert "the one of before stays in use: --tls-key: " in server.stderr()
    assert certificate(server) == second
    # The connection of before has stayed open.
    before = opened.sock
    opened.request("GET", "/healthz")
    assert opened.getresponse().read()[:11] == b'{"ok":true,'
    assert opened.sock is before
    opened.close()

    # Handshakes that do not end give way to clients that send requests.
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", port or 0), 60))
        assert certificate(server) == second
    assert server.terminate() == 0
    assert not [line for line in server.stderr().splitlines() if "Traceback" in line or "SSL" in line]


def test_a_process_with_a_broken_certificate_does_not_start(command: Command, files: Files, tmp_path: Path) -> None:
    files.key.unlink()
    done = command("serve", "--port", "0", *files.options)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--tls-key: {files.key} cannot be read" in done.stderr
    assert not (tmp_path / "analytics.db").exists()


# In this process


@pytest.fixture
async def port(app: App, files: Files, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the port of HTTPS of the application; its deadlines are checked often."""
    monkeypatch.setattr("tally.http.connections.SWEEP_S", 0.02)
    sockets = open_sockets(("127.0.0.1",), 0, {}, "https")
    app.client.server.runner.listen(sockets, Tls(files.cert, files.key))
    return int(sockets.all[0].getsockname()[1])


def connections(app: App) -> Connections:
    return app.application[CONNECTIONS]


async def condition(holds: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


async def exchange(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter], method: str, path: str, body: str = "", *lines: str
) -> str:
    """Send a request; return its response up to the end of its head."""
    sent = (f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *lines, "", body)
    client[1].write("\r\n".join(sent).encode())
    async with asyncio.timeout(60):
        head = (await client[0].readuntil(b"\r\n\r\n")).decode()
        await client[0].readexactly(int(head.lower().partition("content-length: ")[2].partition("\r")[0]))
    return head


async def test_events_take_the_fast_path_and_cookies_are_secure(app: App, port: int) -> None:
    website = await app.website()
    client = await asyncio.open_connection("127.0.0.1", port, ssl=client_context())
    body = json.dumps(VIEW | {"website_id": website})
    for _ in range(2):
        head = await exchange(client, "POST", "/api/collect", body, f"User-Agent: {CHROME}")
        assert head.startswith("HTTP/1.1 202")
    (one,) = connections(app).all
    assert isinstance(one, FastConnection)
    assert one.is_fast
    # The origin has to be https too; behind a proxy, the proxy's header decides.
    token = {"token": app.client.server.app[AUTH].setup_token, "email": "a@example.com", "password": "long enough 1"}
    page = ("Content-Type: application/json", "Origin: https://localhost")
    head = await exchange(client, "POST", "/api/account/setup", json.dumps(token), *page)
    assert "Set-Cookie: __Host-tally=" in head, head
    assert "; Secure" in head
    client[1].close()


async def test_a_handshake_that_does_not_end_times_out(app: App, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts from its start, and is closed at the deadline of a slow head."""
    monkeypatch.setattr("tally.http.connections.HEAD_S", 0.3)
    silent = await asyncio.open_connection("127.0.0.1", port)
    slow = await asyncio.open_connection("127.0.0.1", port)
    slow[1].write(b"\x16\x03\x01\x02\x00\x01")  # the begin of a ClientHello
    await condition(lambda: connections(app).open == 2)
    async with asyncio.timeout(60):
        assert [await client[0].read() for client in (silent, slow)] == [b"", b""]
    assert (connections(app).late, connections(app).open) == (2, 0)
    for client in (silent, slow):
        client[1].close()


async def test_handshakes_are_closed_at_the_limit(app: App, port: int) -> None:
    """Those that began first, for a client that sends a request."""
    connections(app).limit = 3
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
    await condition(lambda: connections(app).open == 3)
    client = await asyncio.open_connection("127.0.0.1", port, ssl=client_context())
    assert (await exchange(client, "GET", "/healthz")).startswith("HTTP/1.1 200")
    async with asyncio.timeout(60):
        assert await silent[0][0].read() == b""
    assert (connections(app).evicted, connections(app).open) == (1, 3)
    for one in (*silent, client):
        one[1].close()
    await condition(lambda: connections(app).open == 0)


async def test_clients_that_leave_during_the_handshake_are_not_counted(app: App, port: int) -> None:
    for sent in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        await condition(lambda: connections(app).open == 1)
        writer.close()
        await condition(lambda: connections(app).open == 0)
