"""Notices of a real server: killed between claim and commit, and over HTTPS with and without a known authority."""

import sqlite3
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from tally.accounts.accounts import find_account
from tally.accounts.api_keys import Grant, create_api_key
from tally.notices import outbox
from tally.notices.outbox import New
from tally.timestamps import DAY_MS
from tests.support.app import OWNER
from tests.support.mailbox import FROM, mailbox
from tests.support.process import Command, Serve, Server
from tests.support.receiver import says

NETWORKS = ("--notify-networks", "127.0.0.0/8")


class Hook(ThreadingHTTPServer):
    """A receiver with a thread for each request; while `gate` is closed it does not answer."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ids: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.ids.append(self.headers["webhook-id"])
        self.server.gate.wait()
        try:
            self.send_response(204)
            self.end_headers()
        except OSError:
            pass  # the server was killed meanwhile

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    receiver = Hook()
    yield receiver
    receiver.gate.set()
    receiver.shutdown()
    receiver.server_close()


def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.02)


def key_of(command: Command, db: Path) -> str:
    command("account", "create", OWNER, "--password-stdin", stdin="correct horse battery\n")
    with closing(sqlite3.connect(db)) as connection, connection:
        return create_api_key(connection, find_account(connection, OWNER), "", 0, Grant(("manage",)))


def manage(server: Server, key: str, method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    answer = server.request(method, f"/api/v1{path}", body, headers)
    assert answer.status < 300, answer.text
    return answer.json["data"]


def states(db: Path) -> list[str]:
    with closing(sqlite3.connect(db)) as connection:
        return [state for (state,) in connection.execute("select state from notice order by number")]


def test_a_kill_between_claim_and_commit_loses_and_doubles_nothing(
    command: Command, serve: Serve, hook: Hook, tmp_path: Path
) -> None:
    """What the receiver gets twice has the same id, and what was sent before is not sent again."""
    db = tmp_path / "analytics.db"
    key = key_of(command, db)
    server = serve(*NETWORKS, db=db)
    body = {"kind": "webhook", "name": "Ops", "url": f"http://127.0.0.1:{hook.server_port}/"}
    manage(server, key, "POST", "/channels", body)
    assert server.terminate() == 0
    now_ms = time.time_ns() // 1_000_000
    with closing(sqlite3.connect(db)) as connection, connection:
        for number in range(3):
            new = New(1, "server.problem", f"{number}", says("Title", "Text"), now_ms + DAY_MS)
            assert outbox.add(connection, new, now_ms) == 1
    server = serve(*NETWORKS, db=db)
    until(lambda: states(db).count("sent") == 1 and bool(hook.gate.clear() or True))
    until(lambda: len(hook.ids) >= 2 and "sending" in states(db))
    server.kill()
    sent = states(db).count("sent")
    hook.gate.set()
    server = serve(*NETWORKS, db=db)
    until(lambda: states(db) == ["sent"] * 3)
    assert server.terminate() == 0
    assert len(set(hook.ids)) == 3
    # The one that was under way, once more, and no other.
    assert len(hook.ids) == 4, (hook.ids, sent)
    assert "Traceback" not in server.stderr()


def test_a_kill_between_data_and_commit_sends_mail_again_with_its_id(
    command: Command, serve: Serve, tmp_path: Path
) -> None:
    """The mail server has accepted a mail, and its answer does not arrive: it gets a copy that it can recognise."""
    db = tmp_path / "analytics.db"
    key = key_of(command, db)
    with mailbox() as box:
        options = ("--smtp-url", f"smtp://127.0.0.1:{box.port}?tls=none", "--mail-from", FROM)
        server = serve(*options, db=db)
        manage(server, key, "POST", "/channels", {"kind": "email", "name": "Mail", "address": OWNER})
        assert server.terminate() == 0
        now_ms = time.time_ns() // 1_000_000
        with closing(sqlite3.connect(db)) as connection, connection:
            new = New(1, "server.problem", "x", says("Title", "Text"), now_ms + DAY_MS)
            assert outbox.add(connection, new, now_ms) == 1
        box.gate.clear()
        server = serve(*options, db=db)
        until(lambda: len(box.mails) == 1)
        assert states(db) == ["sending"]
        server.kill()
        box.gate.set()
        server = serve(*options, db=db)
        until(lambda: states(db) == ["sent"])
        assert server.terminate() == 0
        first, second = box.mails
        assert first["Message-ID"] == second["Message-ID"]
        done = command("mail", "test", "someone@elsewhere.example", *options)
        assert "has accepted" in done.stderr
        assert "example.com" in done.stderr
        assert box.recipients == [OWNER, OWNER, "someone@elsewhere.example"]
        found = command("doctor", "--quick", "--db", str(db), *options, "--base-url", "https://stats.example.com")
        assert "can be reached" in found.stdout
    done = command("mail", "test", "someone@elsewhere.example", *options)
    assert (done.returncode, "the connection to the mail server failed" in done.stderr) == (1, True)
    assert command("mail", "test", "someone@elsewhere.example").returncode == 1


def test_https_with_a_known_and_an_unknown_authority(command: Command, serve: Serve, tmp_path: Path) -> None:
    """A server reads the authorities of the system when it first sends; SSL_CERT_FILE names another file of them."""
    authority, file = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    receiver = Hook(context)
    db = tmp_path / "analytics.db"
    key = key_of(command, db)
    for env, error in (({"SSL_CERT_FILE": str(file)}, None), ({}, "the certificate of the host is not valid")):
        server = serve(*NETWORKS, db=db, env=env)
        body = {"kind": "webhook", "name": "Ops", "url": f"https://localhost:{receiver.server_port}/"}
        made = manage(server, key, "POST", "/channels", body)
        assert manage(server, key, "POST", f"/channels/{made['id']}/test")["error"] == error
        assert server.terminate() == 0
    # The command sends as the server does.
    for env, text in (({"SSL_CERT_FILE": str(file)}, "sent (HTTP 204)"), ({}, "certificate")):
        done = command("notify", "test", made["id"], *NETWORKS, env=env)
        assert text in done.stderr
        assert done.returncode == (0 if env else 1)
    assert "address is not public" in command("notify", "test", made["id"]).stderr
    listed = command("notify", "list")
    assert (listed.returncode, listed.stdout) == (0, "")
    receiver.shutdown()
    receiver.server_close()
