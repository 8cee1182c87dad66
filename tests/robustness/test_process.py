"""The real process: start, signals, load, misbehaving clients, a failing disk, and the state after it has ended.

Events are fsynced before the 202 response. On SIGTERM the requests in progress are committed and answered. A second
server on the same file is refused (docs/cli.md).
"""

import gzip
import http.client
import json
import os
import random
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tally.accounts import passwords
from tally.accounts.accounts import create_account, find_account
from tally.accounts.api_keys import create_api_key
from tally.accounts.websites import add_website
from tally.storage.database import open_database
from tests.support.app import CHROME, Answer
from tests.support.process import UNLIMITED, Command, Serve, Server, need_strace, until

OWNER = "owner@example.com"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


@pytest.fixture
def website(db: Path) -> str:
    return new_website(db)


def new_website(db: Path, plan: str = "business", domain: str = "example.com") -> str:
    """Create a website whose owner has a plan, as the command does; return its id."""
    with closing(open_database(db, create=True)) as connection:
        owner = create_account(connection, f"{plan}@{domain}", plan, None, 0)
        return add_website(connection, owner, domain, domain, (), 0)


def new_key(db: Path) -> str:
    with closing(open_database(db, create=False)) as connection:
        return create_api_key(connection, find_account(connection, None), "", 0)


def view(website: str, path: str = "/", **more: Any) -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": f"https://example.com{path}", **more}


def rows(db: Path, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(query, parameters).fetchall()


def stored(db: Path) -> Counter[str]:
    """Return how often each path is stored."""
    return Counter(path for (path,) in rows(db, "select text from event e join label l on l.id = e.pathname"))


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def log_of(server: Server) -> str:
    """Return the standard error of the server without the setup link."""
    return re.sub(r"set up Tally: http://\S+/setup#\S+\n", "", server.stderr())


def exit_status(server: Server) -> int:
    """Wait for the end of a server that received a signal; return its exit status."""
    status = server.process.wait(timeout=60)
    server.terminate()  # the process has ended: this closes the pipe
    return status


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for tests that store nothing."""
    folder = tmp_path_factory.mktemp("shared")
    server = Server(folder / "analytics.db", UNLIMITED, {}, folder / "stderr.log", [])
    yield server
    assert server.terminate() == 0


# Start


def test_one_line_on_standard_output(serve: Serve) -> None:
    """Once the server listens, it prints one line to standard output: `listening on http://HOST:PORT`."""
    server = serve()
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9][0-9]{2,4}", server.url), "port 0: a free port"
    assert server.request("GET", "/healthz").status == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.process.stdout is not None
    assert server.process.stdout.read() == b""
    assert exit_status(server) == 0


def test_messages_go_to_standard_error(serve: Serve, db: Path) -> None:
    assert log_of(serve()) == f"database: {db}\n"


# ::1 is tested only if the machine has IPv6.
def hosts() -> list[str]:
    try:
        with socket.socket(socket.AF_INET6) as six:
            six.bind(("::1", 0))
    except OSError:
        return ["127.0.0.1", "localhost"]
    return ["127.0.0.1", "localhost", "::1"]


@pytest.mark.parametrize("host", hosts())
def test_it_listens_on_the_host_of_the_option(host: str, serve: Serve, website: str, db: Path) -> None:
    server = serve("--host", host)
    at = urlsplit(server.url)
    assert at.port
    if ":" in host:
        assert server.url == f"http://[{host}]:{at.port}"
    assert server.request("POST", "/api/collect", view(website)).status == 202
    assert stored(db) == {"/": 1}


def test_a_second_server_is_refused(serve: Serve, command: Command, db: Path, tmp_path: Path) -> None:
    """A second server on the same file, by any path, exits with status 1 at once and names the file."""
    server = serve()
    (tmp_path / "link.db").symlink_to(db)
    for path in (str(db), db.name, "link.db"):
        second = command("--port", "0", "--db", path)
        assert (second.returncode, second.stdout) == (1, ""), path
        reason = second.stderr.splitlines()[-1]
        assert str(db) in reason
        assert "running server" in reason
        assert server.request("GET", "/healthz").status == 200


def test_a_killed_server_leaves_no_lock(serve: Serve) -> None:
    serve().kill()
    assert serve().request("GET", "/healthz").status == 200


# Commands while the server runs: all but restore work, and their result applies within 2 seconds


def test_a_website_added_by_a_command_is_accepted(serve: Serve, command: Command) -> None:
    server = serve()
    added = command("website", "add", "example.com")
    assert added.returncode == 0, added.stderr
    until(lambda: server.request("POST", "/api/collect", view(added.stdout.strip())).status == 202)
    assert stored(server.db) == {"/": 1}


def test_keys_and_plans_changed_by_a_command_take_effect(serve: Serve, command: Command, website: str) -> None:
    """Keys of an account on the plan free get 403, and work again on a higher plan."""
    server = serve("--key-per-minute", "100000")
    key = command("key", "create").stdout.strip()

    def status() -> int:
        return server.request("GET", f"/api/v1/websites/{website}/stats", None, bearer(key)).status

    until(lambda: status() == 200)
    for plan, expected in (("free", 403), ("pro", 200), ("free", 403), ("business", 200)):
        assert command("account", "plan", "business@example.com", plan).returncode == 0
        until(lambda expected=expected: status() == expected)
    assert command("key", "revoke", key[:12]).returncode == 0
    until(lambda: status() == 401)


def test_commands_work_while_events_arrive(serve: Serve, command: Command, website: str, db: Path) -> None:
    """No event is refused, and no command fails because of a lock."""
    server = serve(*UNLIMITED)
    with posting(server, website) as clients:
        for n in range(3):
            for words in (("website", "add", f"{n}.example"), ("key", "create"), ("key", "list"), ("website", "list")):
                done = command(*words)
                assert done.returncode == 0, done.stderr
    assert {status for client in clients for status in client.statuses} == {202}
    assert stored(db) == Counter(path for client in clients for path in client.acknowledged)


# Load


class Client(threading.Thread):
    """Posts pageviews one at a time on one connection until `ended` is set or the connection fails."""

    def __init__(self, server: Server, website: str, name: str, timeout: float = 60) -> None:
        super().__init__(daemon=True)
        at = urlsplit(server.url)
        self.connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=timeout)
        self.website, self.name = website, name
        self.acknowledged: list[str] = []
        self.unsure: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.failures: list[BaseException] = []
        self.ended = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.ended.is_set():
            path = f"/{self.name}/{number}"
            number += 1
            try:
                body = json.dumps(view(self.website, path))
                self.connection.request("POST", "/api/collect", body, {"User-Agent": CHROME})
                response = self.connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as failure:
                self.unsure.append(path)
                self.failures.append(failure)
                return
            self.statuses[response.status] += 1
            if response.status == 202:
                assert json.loads(answer) == {"ok": True, "accepted": 1, "rejected": 0}
                self.acknowledged.append(path)


@contextmanager
def posting(server: Server, website: str, threads: int = 8) -> Iterator[list[Client]]:
    """Yield clients that send; stop them and wait for them at the end."""
    clients = [Client(server, website, f"{server.pid}-{n}") for n in range(threads)]
    for client in clients:
        client.start()
    try:
        until(lambda: min(len(client.acknowledged) for client in clients) >= 3)
        yield clients
    finally:
        for client in clients:
            client.ended.set()
        for client in clients:
            client.join(timeout=60)
        for client in clients:
            client.connection.close()
    assert not [client for client in clients if client.is_alive()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_under_load(number: signal.Signals, serve: Serve, website: str, db: Path) -> None:
    """SIGTERM: no new connections, accepted requests are committed and answered, exit status 0. A client without a
    response was refused or its connection was closed: no timeouts, no error responses."""
    server = serve(*UNLIMITED)
    with posting(server, website, threads=16) as clients:
        server.process.send_signal(number)
        assert exit_status(server) == 0
    assert {status for client in clients for status in client.statuses} == {202}
    assert not [failure for client in clients for failure in client.failures if isinstance(failure, TimeoutError)]
    kept = stored(db)
    assert max(kept.values()) == 1
    acknowledged = {path for client in clients for path in client.acknowledged}
    assert acknowledged - kept.keys() == set(), "every event with a 202 response is stored"
    assert set(kept) - acknowledged <= {path for client in clients for path in client.unsure}
    assert rows(db, "pragma integrity_check") == [("ok",)]
    assert log_of(server) == f"database: {db}\n"


def refuses(server: Server) -> bool:
    """Return whether connections are refused."""
    at = urlsplit(server.url)
    try:
        socket.create_connection((at.hostname, at.port), timeout=5).close()
    except ConnectionError:
        return True
    return False


def test_requests_that_wait_for_a_commit_are_answered_after_the_signal(serve: Serve, website: str, db: Path) -> None:
    """The commit cannot happen before the signal, because another process holds the lock."""
    server = serve()
    with closing(sqlite3.connect(db, isolation_level=None)) as other, connected(server) as client:
        other.execute("begin immediate")
        client.sendall(post(view(website)))
        until(lambda: server.request("GET", "/healthz").json["queue"] == 1)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: refuses(server))
        other.execute("rollback")
        assert receive(client).status == 202
    assert exit_status(server) == 0
    assert stored(db) == {"/": 1}


def test_an_incomplete_body_is_read_after_the_signal(serve: Serve, website: str, db: Path) -> None:
    """The headers of the request arrive before the signal, the end of its body after it."""
    server = serve()
    request = post(view(website))
    with connected(server) as client:
        client.sendall(request[:-10])
        assert server.request("GET", "/healthz").status == 200
        server.process.send_signal(signal.SIGTERM)
        until(lambda: refuses(server))
        client.sendall(request[-10:])
        assert receive(client).status == 202
    assert exit_status(server) == 0
    assert stored(db) == {"/": 1}


def test_idle_and_stuck_clients_do_not_delay_the_stop(serve: Serve, website: str) -> None:
    server = serve()
    with connected(server) as idle, connected(server) as silent, connected(server) as stuck:
        idle.sendall(post(view(website)))
        assert receive(idle).status == 202
        silent.sendall(b"POST /api/col")
        stuck.sendall(post(view(website))[:-10])
        assert server.request("GET", "/healthz").status == 200
        assert server.terminate() == 0


# Kills and restarts (tests/robustness/test_crash.py has kills under load)


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_event_ids_and_the_monthly_usage_survive_a_restart(end: str, serve: Serve, website: str, db: Path) -> None:
    """For 72 hours an event with the same website and event_id is accepted and not stored again, also after a crash. Of
    a batch that exceeds the monthly limit, the events up to the limit are accepted."""
    limited = new_website(db, "free", "example.org")
    batch = {"website_id": limited, "events": [view(limited)] * 6}
    answers = []
    for _ in range(3):
        server = serve("--free-events", "10")
        answer = server.request("POST", "/api/collect", view(website, event_id="once"))
        assert (answer.status, answer.json) == (202, {"ok": True, "accepted": 1, "rejected": 0})
        answers.append(server.request("POST", "/api/collect", batch, {"Origin": "https://example.org"}))
        getattr(server, end)()
    first, second, third = answers
    assert (first.status, first.json["accepted"]) == (202, 6)
    assert (second.status, second.json["accepted"], second.json["rejected"]) == (202, 4, 2)
    assert {error["code"] for error in second.json["errors"]} == {"monthly_limit_reached"}
    assert (third.status, third.json["error"]["code"]) == (429, "monthly_limit_reached")
    assert int(third.headers["Retry-After"]) >= 1
    assert rows(db, "select count(*) from event group by website order by website") == [(1,), (10,)]
    assert rows(db, "select events from account_usage order by account") == [(1,), (10,)], "a duplicate uses no quota"


def test_figures_after_a_kill(serve: Serve, website: str, db: Path) -> None:
    """An event answered 202 is included in every response to a later query, also of the next process."""
    key = new_key(db)
    server = serve()
    for n in range(5):
        sent = view(website, f"/{n}", session_id="a session of mine")
        assert server.request("POST", "/api/collect", sent).status == 202
    before = server.request("GET", f"/api/v1/websites/{website}/stats", None, bearer(key)).json["data"]
    server.kill()
    after = serve().request("GET", f"/api/v1/websites/{website}/stats", None, bearer(key)).json["data"]
    assert (after, after["visitors"], after["visits"], after["pageviews"]) == (before, 1, 1, 5)


# Durability


def test_a_202_comes_after_an_fsync(serve: Serve, website: str, tmp_path: Path) -> None:
    """The response is sent after the events were committed with fsync. strace shows the system calls in order: read the
    request, fsync the log, write the response."""
    need_strace()
    trace = tmp_path / "trace"
    calls = "trace=fdatasync,fsync,read,recvfrom,recvmsg,write,writev,sendto,sendmsg"
    server = serve(*UNLIMITED, prefix=["strace", "-f", "-y", "-s", "60", "-o", str(trace), "-e", calls])
    (traced,) = map(int, Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split())
    try:
        for n in range(5):
            begun = len(trace.read_text().splitlines())
            assert server.request("POST", "/api/collect", view(website, f"/{n}")).status == 202
            assert fsynced_before_the_response(trace.read_text().splitlines()[begun:], server.db)
    finally:
        os.kill(traced, signal.SIGTERM)  # strace ends when the server does
    assert exit_status(server) == 0


def fsynced_before_the_response(lines: Sequence[str], db: Path) -> bool:
    """Return whether an fsync of the database's log begins and succeeds between a request and its response."""
    read = next(i for i, line in enumerate(lines) if "POST /api/collect" in line)
    answered = next(i for i, line in enumerate(lines) if "HTTP/1.1 202" in line)
    between = lines[read:answered]
    syncing = [line for line in between if re.search(rf"sync\(\d+<{re.escape(str(db))}-wal>", line)]
    if not syncing:
        return False
    thread = syncing[0].split()[0]
    return any(line.startswith(thread) and re.search(r"sync.*= 0$", line) for line in between)


# A disk that fails


@contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """Limit the size of files to 1 byte, which has the effect of a full disk."""
    before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)


def test_a_full_disk(serve: Serve, website: str, db: Path) -> None:
    """503 `storage_unavailable` with Retry-After. Nothing of a refused request is stored, reads work,
    and the server recovers by itself when there is space."""
    key = new_key(db)
    server = serve(*UNLIMITED)
    assert server.request("POST", "/api/collect", view(website, "/before")).status == 202
    with full_disk(server):
        for n in range(5):
            sent = {"website_id": website, "events": [view(website, f"/full/{n}", event_id=f"e{n}")] * 2}
            answer = server.request("POST", "/api/collect", sent)
            assert (answer.status, answer.json["error"]["code"]) == (503, "storage_unavailable")
            assert int(answer.headers["Retry-After"]) >= 1
        assert server.request("GET", "/healthz").status == 503
        stats = server.request("GET", f"/api/v1/websites/{website}/stats", None, bearer(key))
        assert (stats.status, stats.json["data"]["pageviews"]) == (200, 1)
    for n in range(5):
        assert server.request("POST", "/api/collect", view(website, f"/full/{n}", event_id=f"e{n}")).status == 202
    assert server.request("GET", "/healthz").status == 200
    server.kill()
    assert rows(db, "pragma integrity_check") == [("ok",)]
    assert stored(db) == {"/before": 1} | {f"/full/{n}": 1 for n in range(5)}
    assert rows(db, "select events from account_usage") == [(6,)]


PASSWORD = "correct horse battery"
SAME_SITE = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
print("held", flush=True)
sys.stdin.read()
connection.execute("rollback")
"""


def test_another_program_holds_the_write_lock(serve: Serve, website: str, db: Path) -> None:
    """Every answer and every record of the log names the lock, and none of them the disk; then all goes on."""
    key = new_key(db)
    with closing(open_database(db, create=False)) as connection:
        create_account(connection, OWNER, "business", passwords.hashed(PASSWORD), 0)
    server = serve(*UNLIMITED)
    assert server.request("POST", "/api/collect", view(website, "/before")).status == 202
    words = [sys.executable, "-c", HOLD, str(db)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        answer = server.request("POST", "/api/collect", view(website, "/locked", event_id="e"))
        login = server.request("POST", "/api/account/login", {"email": OWNER, "password": PASSWORD}, SAME_SITE)
        health = server.request("GET", "/healthz")
        for refused in (answer, login, health):
            assert (refused.status, refused.json["error"]["code"]) == (503, "storage_unavailable"), refused.text
            assert "holds the write lock" in refused.json["error"]["message"]
            assert int(refused.headers["Retry-After"]) >= 1
        assert 'tally_storage_state{state="locked"} 1.0' in server.request("GET", "/metrics").text
        stats = server.request("GET", f"/api/v1/websites/{website}/stats", None, bearer(key))
        assert (stats.status, stats.json["data"]["pageviews"]) == (200, 1)
        holder.communicate("")
    until(lambda: server.request("GET", "/healthz").status == 200)
    assert server.request("POST", "/api/collect", view(website, "/locked", event_id="e")).status == 202
    assert server.terminate() == 0
    errors = [line for line in server.stderr().splitlines() if "level=error" in line]
    assert errors
    assert not [line for line in errors if "another program holds the write lock" not in line]
    assert stored(db) == {"/before": 1, "/locked": 1}


# Limits from options


def test_client_per_minute(serve: Serve, website: str) -> None:
    """Rate limit per client, here 3 per minute; `Retry-After` is whole seconds, at least 1."""
    server = serve("--client-per-minute", "3")
    answers = [server.request("POST", "/api/collect", view(website)) for _ in range(4)]
    assert [answer.status for answer in answers] == [202, 202, 202, 429]
    assert answers[3].json["error"]["code"] == "rate_limited"
    assert 1 <= int(answers[3].headers["Retry-After"]) <= 20
    elsewhere = {"X-Forwarded-For": "198.51.100.7"}
    assert server.request("POST", "/api/collect", view(website), elsewhere).status == 202


def test_website_per_minute(serve: Serve, website: str, db: Path) -> None:
    server = serve("--website-per-minute", "2")
    other = new_website(db, domain="example.org")
    until(lambda: server.request("POST", "/api/collect", view(other)).status == 202)
    assert [server.request("POST", "/api/collect", view(website)).status for _ in range(3)] == [202, 202, 429]


def test_key_per_minute(serve: Serve, website: str, db: Path) -> None:
    """Rate limit per key, here 2 per minute, with RateLimit-Limit, -Remaining and -Reset in every response."""
    key = new_key(db)
    server = serve("--key-per-minute", "2")
    answers = [server.request("GET", "/api/v1/websites", None, bearer(key)) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert [answer.headers["RateLimit-Limit"] for answer in answers] == ["2"] * 3
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"]
    assert 1 <= int(answers[2].headers["Retry-After"]) <= 30


def test_trusted_proxy_none(serve: Serve, website: str) -> None:
    """With `none` no proxy is trusted: a client cannot get a new bucket with an invented address."""
    server = serve("--client-per-minute", "2", "--trusted-proxy", "none")
    statuses = [
        server.request("POST", "/api/collect", view(website), {"X-Forwarded-For": f"198.51.100.{n}"}).status
        for n in range(3)
    ]
    assert statuses == [202, 202, 429]


def test_another_forwarded_header(serve: Serve, website: str) -> None:
    """--forwarded-header names the only header that is read."""
    server = serve("--client-per-minute", "1", "--forwarded-header", "X-Real-IP")
    for header, statuses in (("X-Real-IP", [202, 202, 202]), ("X-Forwarded-For", [202, 429, 429])):
        sent = [
            server.request("POST", "/api/collect", view(website), {header: f"198.51.100.{n}"}).status for n in range(3)
        ]
        assert (header, sent) == (header, statuses)


# Sockets


@contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    at = urlsplit(server.url)
    with socket.create_connection((at.hostname, at.port), timeout=60) as client:
        yield client


def post(body: Any, *headers: str, length: int | None = None, path: str = "/api/collect") -> bytes:
    """Return the bytes of a request."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(sent) if length is None else length}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + sent


def receive(client: socket.socket) -> Answer:
    """Read the next response on a connection, and no byte after it."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        assert byte, f"closed after {head!r}"
        head += byte
    first, *lines = head.decode().split("\r\n")
    headers = http.client.HTTPMessage()
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        headers[name] = value.strip()
    body = b""
    while len(body) < int(headers["Content-Length"] or 0):
        part = client.recv(int(headers["Content-Length"]) - len(body))
        assert part, "closed in the middle of a response"
        body += part
    return Answer(int(first.split()[1]), headers, body)


def test_requests_in_one_packet_are_answered_in_order(serve: Serve, website: str, db: Path) -> None:
    unknown = "00000000-0000-4000-8000-000000000000"
    many = [(post(view(website, f"/{n}")), 202) for n in range(40)]
    many[7:7] = [(post(b"{"), 400), (post(view(unknown)), 404), (b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 404)]
    server = serve()
    with connected(server) as client:
        client.sendall(b"".join(request for request, _ in many))
        assert [receive(client).status for _ in many] == [status for _, status in many]
    assert stored(db) == {f"/{n}": 1 for n in range(40)}


def test_a_body_that_arrives_slowly(serve: Serve, website: str, db: Path) -> None:
    """Other clients get responses between any two parts of a slow request."""
    server = serve(*UNLIMITED)
    request = post(view(website, "/slow"))
    with connected(server) as client:
        for at in range(0, len(request), 5):
            client.sendall(request[at : at + 5])
            assert server.request("POST", "/api/collect", view(website, "/quick")).status == 202
        assert receive(client).status == 202
    assert stored(db)["/slow"] == 1


def test_many_stuck_clients_do_not_affect_others(serve: Serve, website: str) -> None:
    server = serve(*UNLIMITED)
    request = post(view(website))
    at = urlsplit(server.url)
    stuck = [socket.create_connection((at.hostname, at.port), timeout=60) for _ in range(300)]
    for n, client in enumerate(stuck):
        client.sendall(request[: (n * 7) % len(request)])
    for _ in range(20):
        assert server.request("POST", "/api/collect", view(website)).status == 202
    for client in stuck:
        client.close()
    assert server.request("POST", "/api/collect", view(website)).status == 202


def test_clients_that_disconnect_during_a_request(serve: Serve, website: str, db: Path) -> None:
    """Nothing of such requests is stored or logged, and other clients are served."""
    server = serve(*UNLIMITED)
    request = post(view(website, "/incomplete"), "X-Canary: dont-log-me")
    for n in range(60):
        with connected(server) as client:
            client.sendall(request[: -1 - n])
            if n % 2:  # a reset instead of FIN
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert server.request("POST", "/api/collect", view(website, "/complete")).status == 202
    assert stored(db) == {"/complete": 1}
    assert server.terminate() == 0
    assert log_of(server) == f"database: {db}\n"


def test_clients_that_do_not_wait_for_the_response(serve: Serve, website: str, db: Path) -> None:
    """A complete request is stored at most once although its client has disconnected; the writer continues."""
    server = serve(*UNLIMITED)
    for n in range(100):
        with connected(server) as client:
            client.sendall(post(view(website, f"/disconnected/{n}")))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert server.request("POST", "/api/collect", view(website, "/connected")).status == 202
    assert server.terminate() == 0
    kept = stored(db)
    assert kept["/connected"] == 1
    assert set(kept.values()) == {1}
    assert log_of(server) == f"database: {db}\n"


def test_expect_100_continue(serve: Serve, website: str) -> None:
    """Some HTTP libraries wait for 100 Continue before they send a body of a kilobyte or more."""
    server = serve()
    request = post(view(website, "/" + "x" * 2_000), "Expect: 100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    with connected(server) as client:
        client.sendall(head + b"\r\n\r\n")
        assert receive(client).status == 100
        client.sendall(body)
        assert receive(client).status == 202


# Bodies that are too large are refused by Content-Length before they are read, chunked ones as they arrive. The rest is
# read and discarded, at most 1 MiB or 2 s, so that the client receives the response.


def chunked(body: bytes) -> bytes:
    head = b"POST /api/collect HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    parts = (body[at : at + 8_000] for at in range(0, len(body), 8_000))
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize("write", [post, chunked], ids=["Content-Length", "chunked"])
@pytest.mark.parametrize("size", [65_537, 100_000, 500_000, 1_000_000])
def test_a_large_body_gets_413(size: int, write: Callable[[bytes], bytes], shared: Server) -> None:
    with connected(shared) as client:
        client.sendall(write(b" " * size))
        answer = receive(client)
        assert (answer.status, answer.json["error"]["code"]) == (413, "body_too_large")
        assert answer.headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("write", [post, chunked], ids=["Content-Length", "chunked"])
def test_a_large_body_can_be_sent_completely(write: Callable[[bytes], bytes], shared: Server) -> None:
    """A client that sends everything before it reads is not disconnected meanwhile. A request on another connection
    between two parts shows that the server has handled the first one."""
    request = write(b" " * 300_000)
    with connected(shared) as client:
        for at in range(0, len(request), 40_000):
            client.sendall(request[at : at + 40_000])
            assert shared.request("GET", "/healthz").status == 200
        assert receive(client).status == 413


@pytest.mark.parametrize("write", [post, chunked], ids=["Content-Length", "chunked"])
def test_a_body_of_exactly_the_limit_is_read(write: Callable[[bytes], bytes], shared: Server) -> None:
    body = json.dumps(view("00000000-0000-4000-8000-000000000000")).encode().ljust(65_536)
    with connected(shared) as client:
        client.sendall(write(body))
        answer = receive(client)
        assert (answer.status, answer.json["error"]["code"]) == (404, "unknown_website")


def test_a_large_body_is_refused_by_its_length(shared: Server) -> None:
    """The response arrives although no byte of the body was sent."""
    with connected(shared) as client:
        client.sendall(post(b"", length=1_000_000))
        assert receive(client).status == 413


@pytest.mark.parametrize("with_length", [True, False], ids=["Content-Length", "chunked"])
def test_a_huge_body_is_not_read_to_its_end(with_length: bool, shared: Server) -> None:
    """After 1 MiB, and what the buffers of both sockets hold, the client is disconnected."""
    most = 128 * 1024 * 1024
    piece = b"x" * 65_536
    head = post(b"", length=most) if with_length else chunked(b"").removesuffix(b"0\r\n\r\n")
    sent = 0
    with connected(shared) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        try:
            client.sendall(head)
            while sent < most:
                client.sendall(piece if with_length else b"%x\r\n%b\r\n" % (len(piece), piece))
                sent += len(piece)
        except ConnectionError:
            pass
    assert sent < 32 * 1024 * 1024
    assert shared.request("GET", "/healthz").status == 200


# Compressed bodies: 415 `unsupported_encoding`, because a small body may decompress to a large one.


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"{}")),
        ("gzip", b"not gzip at all"),
        ("deflate", zlib.compress(b"{}")),
        ("br", b"\x0b\x00\x80{}\x03"),
        ("zstd", b"(\xb5/\xfd\x04\x00\x11\x00\x00{}"),
        ("GZIP", gzip.compress(b"{}")),
        ("identity, gzip", gzip.compress(b"{}")),
        ("nonsense", b"{}"),
    ],
    ids=["gzip", "broken gzip", "deflate", "brotli", "zstandard", "capitals", "list", "unknown"],
)
def test_a_compressed_body_is_refused(encoding: str, body: bytes, shared: Server) -> None:
    answer = shared.request("POST", "/api/collect", body, {"Content-Encoding": encoding})
    assert (answer.status, answer.json["error"]["code"]) == (415, "unsupported_encoding")


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_identity_is_accepted_as_no_encoding(encoding: str, shared: Server) -> None:
    answer = shared.request("POST", "/api/collect", b"{}", {"Content-Encoding": encoding})
    assert (answer.status, answer.json["error"]["code"]) == (400, "no_valid_event")


def cpu_s(server: Server) -> float:
    """Return the processor time of the server in seconds."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_a_compressed_body_is_not_decompressed(serve: Serve) -> None:
    """60 MB of zeros in 60 KB, twenty times, half of them to a path that expects no body. The server uses less
    processor time for all of them than decompressing half of them takes. Each connection is read until it is closed, so
    that its requests are handled before the time is measured."""
    bomb = gzip.compress(bytes(60_000_000))
    assert len(bomb) < 65_536
    server = serve(*UNLIMITED)
    before = cpu_s(server)
    for path, status in (("/api/collect", 415), ("/healthz", 405)):
        for _ in range(10):
            with connected(server) as client:
                client.sendall(post(bomb, "Content-Encoding: gzip", path=path))
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert receive(client).status == status
                while client.recv(65_536):
                    pass
    used = cpu_s(server) - before
    begun = time.process_time()
    for _ in range(10):
        gzip.decompress(bomb)
    assert used < time.process_time() - begun
    assert server.resident_bytes() < 150_000_000


# Garbage


def garbage() -> list[bytes]:
    """Return 200 malformed requests, each with a word that must not be logged."""
    kinds = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03CANARY",
        b"CANARY\r\n\r\n",
        b"GET /CANARY HTTP/9.9\r\n\r\n",
        b"GET /CANARY\xff\xfe HTTP/1.1\r\nHost: CANARY\r\n\r\n",
        b"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: CANARY\r\n\r\n",
        b"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\nX: CANARY\r\n\r\n",
        b"POST /api/collect HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nCANARY",
        b"POST /api/collect HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nCANARY\r\n",
        b"POST /api/collect HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nCANARYCANARY\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nCANARY CANARY\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: CANARY" + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"CANARY" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nCANARY",
        b"GET /api/v1/websites/%ED%A0%80CANARY HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer CANARY\xff\r\n\r\n",
        b"GET http://[CANARY/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: CANARY\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nCookie: CANARY\r\nExpect: CANARY\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: CANARY\r\n\r\n",
    ]
    rng = random.Random(7)
    noise = [b"CANARY" + rng.randbytes(rng.randint(1, 3_000)) + b"\r\n\r\n" for _ in range(200 - 6 * len(kinds))]
    return kinds * 6 + noise


def test_garbage_is_neither_fatal_nor_logged(serve: Serve, website: str) -> None:
    """No response is 500, the log stays small and contains no part of the requests, and events are still accepted."""
    server = serve(*UNLIMITED)
    sent = garbage()
    assert len(sent) == 200
    answers = b""
    for request in sent:
        with connected(server) as client:
            try:
                client.sendall(request)
                client.shutdown(socket.SHUT_WR)
                while part := client.recv(65_536):
                    answers += part
            except ConnectionError:
                pass
    assert b" 500 " not in answers
    assert server.request("POST", "/api/collect", view(website)).status == 202
    assert "CANARY" not in server.stderr()
    assert "Traceback" not in server.stderr()
    assert len(server.stderr()) < 2_000
    assert server.terminate() == 0
