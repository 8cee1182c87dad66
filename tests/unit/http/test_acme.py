"""Certificates that the server gets itself: a real process and a real authority, and when requests are sent to it."""

import http.client
import http.server
import json
import signal
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tally.http.certificate_renewal import MAX_ASKED_WAIT_MS, MAX_WAIT_MS, Renewal, State, read_state, store_of
from tally.http.plain_port import MAX_HEAD_BYTES, PlainPort
from tally.http.responses import MINIMAL_HEADERS
from tally.http.sockets import open_sockets
from tally.http.tls import Tls
from tally.settings import BadSetting, Settings, settings_from
from tests.support.app import ManualClock
from tests.support.certificate_authority import ELSEWHERE, CertificateAuthority, certificate_authority, need_pebble
from tests.support.process import Command, Serve, Server, until
from tests.unit.http.test_tls import CA, DAY, NOW, Files

DOMAINS = ("tally.example", "www.tally.example")
MINUTE_MS, DAY_MS = 60_000, 86_400_000


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[CertificateAuthority]:
    need_pebble()
    with certificate_authority(tmp_path / "authority") as made:
        yield made


def options(authority: CertificateAuthority, *domains: str) -> list[str]:
    """Return the options of a server that gets its certificate from the authority."""
    named = [word for domain in domains or DOMAINS for word in ("--acme", domain)]
    of_port = "--acme-http-port", str(authority.http_port)
    return ["--host", "127.0.0.1", "--acme-directory", authority.url, *of_port, *named]


def start(serve: Serve, authority: CertificateAuthority, *domains: str) -> Server:
    return serve(*options(authority, *domains), env=authority.environment)


def https(server: Server, trusted: ssl.SSLContext, name: str = DOMAINS[0]) -> ssl.SSLSocket:
    """Open a connection to the server under a name of its certificate."""
    opened = socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), 60)
    return trusted.wrap_socket(opened, server_hostname=name)


def get(connection: ssl.SSLSocket, path: str = "/healthz") -> http.client.HTTPResponse:
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer


def plain(authority: CertificateAuthority, path: str, **headers: str) -> tuple[int, str, str]:
    """Send a request to the port of validations; return status, Location and body."""
    with closing(http.client.HTTPConnection("127.0.0.1", authority.http_port, timeout=60)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Location", ""), answer.read().decode()


def change(server: Server, authority: CertificateAuthority, **changed: Any) -> None:
    """Change what the server has stored about the authority, and let it read that."""
    path = store(server.db, authority) / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    server.process.send_signal(signal.SIGHUP)


def store(db: Path, authority: CertificateAuthority) -> Path:
    return store_of(Settings(db=db, acme_directory=authority.url))


def test_a_certificate_from_the_first_start_to_restarts(
    serve: Serve, command: Command, authority: CertificateAuthority
) -> None:
    authority.start()
    server = start(serve, authority)
    until(lambda: "a certificate was issued" in server.stderr())
    assert "there is no certificate for tally.example, www.tally.example yet" in server.stderr()
    assert f"set up Tally: https://tally.example:{urlsplit(server.url).port}/setup#" in server.stderr()
    trusted = authority.client_context()
    with https(server, trusted, DOMAINS[1]) as connection:
        first = connection.getpeercert(binary_form=True)
        assert get(connection).status == 200
    files = sorted(store(server.db, authority).parent.rglob("*"))
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in (files[0].parent, *files)} == {
        "analytics.db.acme": "0o700",
        files[0].name: "0o700",
        **dict.fromkeys(("account.pem", "certificate.pem", "state.json"), "0o600"),
    }
    for path, headers, answer in (
        ("/a?b=%20c", {"Host": "www.tally.example:80"}, (308, "https://www.tally.example/a?b=%20c", "")),
        ("//evil.example/", {"Host": "evil.example"}, (308, "https://tally.example//evil.example/", "")),
        ("/.well-known/acme-challenge/unknown", {}, (404, "", "No such challenge.\n")),
    ):
        assert plain(authority, path, **headers) == answer

    # Renewed while a connection is open, which stays open.
    opened = https(server, trusted)
    assert get(opened).read()
    change(server, authority, renew_ms=1, next_ms=0)
    until(lambda: server.stderr().count("a certificate was issued") == 2)
    with https(server, trusted) as connection:
        assert connection.getpeercert(binary_form=True) != first
        second = connection.getpeercert(binary_form=True)
        metrics = get(connection, "/metrics").read().decode()
        ends_s = ssl.cert_time_to_seconds(str(connection.getpeercert()["notAfter"]))
    assert f"tally_certificate_expiry_timestamp_seconds {ends_s / 1e9}e+09" in metrics
    assert "tally_certificate_renewals_failed_total 0.0" in metrics
    assert get(opened).status == 200
    opened.close()
    assert authority.logged("Issued certificate serial") == 2
    done = command("doctor", "--quick", "--acme", DOMAINS[0], "--acme-directory", authority.url)
    assert "ok     certificate  tally.example: valid until" in done.stdout, done.stdout
    # The next start requests the renewal time, and nothing else.
    change(server, authority, ask_ms=0)
    until(lambda: authority.logged("/renewalInfo/") == 3)
    path = store(server.db, authority) / "state.json"
    until(lambda: json.loads(path.read_text())["ask_ms"] > 1)
    assert server.terminate() == 0

    # Without the authority the stored certificate is used at once; a renewal that is due fails and is repeated later.
    authority.stop()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"renew_ms": 1, "next_ms": 0}))
    server = start(serve, authority)
    with https(server, trusted) as connection:
        assert connection.getpeercert(binary_form=True) == second
    until(lambda: "level=error" in server.stderr())
    assert "no certificate was issued for tally.example, www.tally.example: " in server.stderr()
    assert f"{authority.url} cannot be reached" in server.stderr()
    assert server.terminate() == 0

    # A restart sends no request to the authority, as the time of the next attempt has not come.
    authority.start()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ask_ms": 0}))
    server = start(serve, authority)
    until(lambda: "no renewal time from the certificate authority" in server.stderr())
    assert authority.logged("Issued certificate serial") == 2


def test_a_domain_that_names_another_server(serve: Serve, command: Command, authority: CertificateAuthority) -> None:
    """The failure is in the log and in `doctor`. HTTPS has no response, and the page over plain HTTP has the reason."""
    authority.start()
    authority.point("elsewhere.example", ELSEWHERE)
    server = start(serve, authority, "elsewhere.example")
    until(lambda: "level=error" in server.stderr())
    assert "validation failed: elsewhere.example: " in server.stderr()
    assert "Let A and AAAA records of the domain name this server, and port 80 reach it" in server.stderr()
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), 60) as refused:
        assert refused.recv(10) == b""
    assert plain(authority, "/")[0] == 503
    done = command("doctor", "--quick", "--acme", "elsewhere.example", "--acme-directory", authority.url)
    assert (
        "FAULT  certificate  elsewhere.example: no certificate was issued yet; attempts that failed: 1" in done.stdout
    )
    assert done.returncode == 1
    # The domain names this server now, and its owner does not wait.
    authority.point("elsewhere.example", "127.0.0.1")
    (store(server.db, authority) / "state.json").unlink()
    server.process.send_signal(signal.SIGHUP)
    until(lambda: "a certificate was issued" in server.stderr(), 120)
    with https(server, authority.client_context(), "elsewhere.example") as connection:
        assert get(connection).status == 200


# In this process, where no authority answers


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{closed.getsockname()[1]}/dir"
    return Settings(db=tmp_path / "analytics.db", acme=("b.example", "a.example"), acme_directory=url)


def attempt(renewal: Renewal) -> bool:
    """Return whether an attempt was due; wait for its end."""
    renewal._thread = None
    renewal.start_if_due()
    if renewal._thread is None:
        return False
    renewal._thread.join()
    return True


def test_restarts_do_not_repeat_a_failed_attempt(settings: Settings) -> None:
    clock = ManualClock()
    waits_ms = []
    for failures in range(1, 10):
        assert attempt(Renewal(settings, clock))
        state = read_state(store_of(settings))
        assert (state.failures, state.tried_ms) == (failures, clock.wall_ms())
        assert "cannot be reached" in state.error
        waits_ms.append(state.next_ms - clock.wall_ms())
        for rest_ms in (state.next_ms - clock.wall_ms(), 1):
            clock.advance((state.next_ms - rest_ms - clock.wall_ms()) / 1000)
            assert not attempt(Renewal(settings, clock))
        clock.advance(0.001)
    for wait_ms, minutes in zip(waits_ms, (5, 10, 20, 40, 80, 160, 320, 360, 360), strict=True):
        assert minutes * MINUTE_MS <= wait_ms <= minutes * MINUTE_MS * 1.25
    # Let's Encrypt allows 5 failed validations in an hour.
    assert sum(waits_ms[:4]) > 60 * MINUTE_MS
    # Other domains do not wait for these, and the same ones in another order do.
    attempt(Renewal(settings, clock))
    assert not attempt(Renewal(Settings(**vars_of(settings) | {"acme": ("a.example", "b.example")}), clock))
    assert attempt(Renewal(Settings(**vars_of(settings) | {"acme": ("c.example",)}), clock))
    # A time from a clock that was wrong does not count.
    clock.advance(-2 * MAX_ASKED_WAIT_MS / 1000)
    assert attempt(Renewal(Settings(**vars_of(settings) | {"acme": ("c.example",)}), clock))


def test_an_attempt_that_the_end_of_the_process_interrupts_counts(settings: Settings) -> None:
    """The authority accepts a connection and does not answer."""
    clock = ManualClock()
    with socket.create_server(("127.0.0.1", urlsplit(settings.acme_directory).port or 0)) as silent:
        first = Renewal(settings, clock)
        first.start_if_due()
        connection = silent.accept()[0]
        assert read_state(store_of(settings)).error == "the server ended during the attempt"
        assert not attempt(Renewal(settings, clock))
        connection.close()
    assert first._thread is not None
    first._thread.join()
    assert "cannot be reached" in read_state(store_of(settings)).error


class Busy(http.server.BaseHTTPRequestHandler):
    """An authority that responds with a Retry-After of a day."""

    def do_GET(self) -> None:
        url = f"https://{self.headers['Host']}/"
        body = json.dumps(dict.fromkeys(("newNonce", "newAccount", "newOrder"), url)).encode()
        self.respond(200, "application/json", body)

    def do_HEAD(self) -> None:
        self.respond(200, "application/json", b"", "Replay-Nonce: abcd")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        error = {"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many certificates \x1b[31m\n already"}
        self.respond(429, "application/problem+json", json.dumps(error).encode(), "Retry-After: 86400")

    def respond(self, status: int, content_type: str, body: bytes, *headers: str) -> None:
        self.send_response(status)
        for line in (f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers):
            self.send_header(*line.split(": "))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_retry_after_of_the_authority(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path / "cert", tmp_path / "key")
    files.issue("127.0.0.1")
    CA.cert_pem.write_to_path(str(tmp_path / "bundle"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "bundle"))
    at = "127.0.0.1", urlsplit(settings.acme_directory).port or 0
    with http.server.ThreadingHTTPServer(at, Busy) as busy:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.cert, files.key)
        busy.socket = context.wrap_socket(busy.socket, server_side=True)
        threading.Thread(target=busy.serve_forever, daemon=True).start()
        clock = ManualClock()
        assert attempt(Renewal(settings, clock))
        busy.shutdown()
    state = read_state(store_of(settings))
    assert state.error == "the certificate authority refused: too many certificates  [31m  already"
    assert DAY_MS - MINUTE_MS <= state.next_ms - clock.wall_ms() <= DAY_MS


def vars_of(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in ("db", "acme", "acme_directory")}


def test_no_request_is_sent_where_nothing_can_be_stored(settings: Settings) -> None:
    store_of(settings).parent.write_text("a file in place of the directory")
    renewal = Renewal(settings, ManualClock())
    assert attempt(renewal)
    assert "File exists" in renewal._state.error
    assert not attempt(renewal)


def test_when_a_certificate_is_renewed(settings: Settings) -> None:
    """At two thirds of its lifetime, at the stored time, or where a domain is missing; never without need."""
    clock = ManualClock(round(NOW.timestamp() * 1000))
    path = store_of(settings) / "certificate.pem"
    path.parent.mkdir(parents=True)

    def is_renewed(*names: str, days: int, state: State | None = None) -> bool:
        Files(path, path.with_name("key")).issue(*names, not_before=NOW - 4 * DAY, not_after=NOW + (days - 4) * DAY)
        path.write_bytes(path.read_bytes() + path.with_name("key").read_bytes())
        if state is not None:
            (path.parent / "state.json").write_text(json.dumps(vars(state)))
        else:
            (path.parent / "state.json").unlink(missing_ok=True)
        renewal = Renewal(settings, clock)
        attempt(renewal)
        return renewal._state.failures > 0

    domains = sorted(settings.acme)
    for days, due in ((90, False), (7, False), (6, True), (5, True)):
        assert is_renewed(*domains, days=days) == due, days
    assert not is_renewed("more.example", *domains, days=90)
    assert is_renewed("a.example", days=90)
    later = State(domains, renew_ms=clock.wall_ms() + 1, ask_ms=clock.wall_ms() + MAX_WAIT_MS)
    assert not is_renewed(*domains, days=5, state=later)
    assert is_renewed(*domains, days=90, state=State(domains, renew_ms=clock.wall_ms()))
    assert not is_renewed("a.example", days=90, state=State(domains, next_ms=clock.wall_ms() + 1))
    for unreadable in ("", "[]", '{"other": 1}', '{"next_ms": "1"}', "\0"):
        (path.parent / "state.json").write_text(unreadable)
        assert read_state(path.parent) == State()


def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings_from({"acme": ["A.example,b.example.", "a.example"]}, {})
    assert (found.acme, found.port, found.host[0]) == (("a.example", "b.example"), 443, "0.0.0.0")
    found = settings_from({"acme": ["a.example"], "port": ["8443"]}, {"ANALYTICS_HOST": "127.0.0.1"})
    assert (found.port, found.host) == (8443, ("127.0.0.1",))
    assert settings_from({}, {"ANALYTICS_ACME": ""}).port == 8000
    for bad in ("localhost", "*.example.com", "192.0.2.1", "https://a.example", "ä.example", "a..example"):
        with pytest.raises(BadSetting, match=r"--acme must be domains such as stats\.example\.com"):
            settings_from({"acme": [bad]}, {})
    for name, bad in (("acme_directory", "http://a.example/"), ("acme_email", "a")):
        with pytest.raises(BadSetting, match=f"--{name.replace('_', '-')} must be"):
            settings_from({name: [bad]}, {})
    clock, files = ManualClock(), {"tls_cert": Path("a"), "tls_key": Path("b")}
    for settings, message in (
        (Settings(acme=DOMAINS, **files), "--acme gets a certificate itself: remove --tls-cert and --tls-key"),
        (Settings(acme=DOMAINS, port=80), "--acme-http-port must differ from --port"),
    ):
        with pytest.raises(BadSetting, match=message):
            Renewal(settings, clock)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.delitem(__import__("sys").modules, "acme", raising=False)
    with pytest.raises(BadSetting, match=r"--acme needs the extra of that name: pip install"):
        Renewal(Settings(acme=DOMAINS, port=443), clock)


def test_of_several_sockets_those_on_the_port_of_validations_are_plain(tmp_path: Path) -> None:
    """As systemd passes them, in any order."""
    unix = f"unix:{tmp_path / 's'}"
    opened, other = open_sockets(("127.0.0.1", unix), 0, {}, "https"), open_sockets(("127.0.0.1",), 0, {}, "https")
    first = opened.addresses[0]
    opened.add(other.all[0])
    port = other.all[0].getsockname()[1]
    taken = opened.take(port)
    try:
        assert (taken.all, taken.addresses) == (other.all, [f"http://127.0.0.1:{port}"])
        assert opened.addresses == [first, unix]
        assert len(opened.all) == 2
        assert opened.take(port).all == []
    finally:
        opened.close()
        taken.close()
    assert not (tmp_path / "s").exists()


PLAIN = {
    b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n": (308, "https://a.example/"),
    b"POST /api/collect HTTP/1.1\r\nHost: A.EXAMPLE:80\r\n\r\n": (308, "https://a.example/api/collect"),
    b"GET /?q=a%0d%0aX:%20y HTTP/1.0\r\n\r\n": (308, "https://b.example/?q=a%0d%0aX:%20y"),
    b"GET /.well-known/acme-challenge/token HTTP/1.1\r\n\r\n": (200, ""),
    b"GET /.well-known/acme-challenge/ HTTP/1.1\r\n\r\n": (404, ""),
    b"GET http://a.example/ HTTP/1.1\r\n\r\n": (400, ""),
    b"GET /a b HTTP/1.1\r\n\r\n": (400, ""),
    b"GET /\x00 HTTP/1.1\r\n\r\n": (400, ""),
    b"\x16\x03\x01\r\n\r\n": (400, ""),
    b"A" * (MAX_HEAD_BYTES + 1): (400, ""),
}


@pytest.mark.parametrize("head", PLAIN, ids=lambda head: repr(head[:50]))
def test_plain_requests(head: bytes, settings: Settings, tmp_path: Path) -> None:
    tls = Tls(tmp_path / "none", tmp_path / "none", is_awaited=True)
    port = PlainPort(settings.acme, "", tls, {"token": "token.thumbprint"})
    status, location = PLAIN[head]
    before = 503 if status == 308 else status
    assert port.answer(head).startswith(f"HTTP/1.1 {before} ".encode())
    files = Files(tmp_path / "cert", tmp_path / "key")
    files.issue(*settings.acme)
    port.tls = Tls(files.cert, files.key)
    answer = port.answer(head)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert answer.endswith(b"\r\n\r\ntoken.thumbprint") == (status == 200)
    assert (f"\r\nLocation: {location}\r\n".encode() in answer) == bool(location)
    assert answer.count(b"\r\n\r\n") == 1
    # SECURITY.md, Measures: every response has them.
    assert all(f"\r\n{name}: {value}\r\n".encode() in answer for name, value in MINIMAL_HEADERS.items())
    port.base_url = "https://a.example:8443/stats"
    if location:
        assert b"\r\nLocation: https://a.example:8443/" in port.answer(head)
