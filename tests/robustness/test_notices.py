"""Notices of a real server: killed between claim and commit, and at any write while alerts are judged and sent; and
over HTTPS with and without a known authority."""

import io
import os
import shutil
import signal
import sqlite3
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson
import pytest
import trustme

from tally.accounts.accounts import find_account
from tally.accounts.api_keys import Grant, create_api_key
from tally.accounts.websites import add_website, all_websites
from tally.notices import outbox
from tally.notices.alerts import Alert, add_alert
from tally.notices.channels import new_id
from tally.notices.outbox import New
from tally.storage.database import open_database, transaction
from tally.timestamps import DAY_MS, HOUR_MS, iso
from tally.transfer.files import Source
from tally.transfer.importer import import_events
from tests.support.app import OWNER
from tests.support.mailbox import FROM, mailbox
from tests.support.process import Command, Serve, Server, need_strace
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
    assert (done.returncode, "the mail server refused the connection" in done.stderr) == (1, True)
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


# What fires in every hour of any day: a goal and visits from one on, and a website without events since yesterday.
ALERTS = {
    0: [("goal", {"period": "month", "min": 1}), ("spike", {"min_visits": 1, "factor": 3.0, "sensitive": False})],
    1: [("silence", {"hours": 1})],
}
FIRED = {("goal.reached", "waiting"), ("alert.fired", "waiting")}


def with_due_alerts(command: Command, serve: Serve, hook: Hook, db: Path) -> None:
    """Make a file with 16 days of hourly events, a channel, and alerts that no server has judged yet."""
    key = key_of(command, db)
    now_ms = time.time_ns() // 1_000_000
    with closing(open_database(db, create=False)) as connection:
        with transaction(connection):
            owner = find_account(connection, OWNER)
            for name in ("busy.example", "quiet.example"):
                add_website(connection, owner, name, name, (), now_ms)
        websites = sorted(one.number for one in all_websites(connection))
        for place, number in enumerate(websites):
            last_ms = now_ms - place * DAY_MS
            hours = range((now_ms - 16 * DAY_MS) // HOUR_MS * HOUR_MS, last_ms // HOUR_MS * HOUR_MS, HOUR_MS)
            import_events(connection, number, source_of(hours), now_ms=now_ms, geoip_db=None)
    server = serve(*NETWORKS, db=db)
    body = {"kind": "webhook", "name": "Ops", "url": f"http://127.0.0.1:{hook.server_port}/"}
    manage(server, key, "POST", "/channels", body)
    # Fewer writes of the background are between those of notices.
    until(lambda: not unfinished(db))
    (busy,) = [one["id"] for one in manage(server, key, "GET", "/websites") if one["domain"] == "busy.example"]
    goal = {"name": "Home", "type": "page", "match": ["filter_pathname=/"]}
    made = manage(server, key, "POST", f"/websites/{busy}/goals", goal)
    assert server.terminate() == 0
    with closing(sqlite3.connect(db)) as connection, connection:
        for place, number in enumerate(websites):
            for kind, params in ALERTS[place]:
                own = params | ({"goal": made["id"]} if kind == "goal" else {})
                new = Alert(new_id(), number, kind, own, None, now_ms, "ok", now_ms, None, "waiting", None, None)
                add_alert(connection, 1, new)


def source_of(hours: range) -> Source:
    lines = [
        orjson.dumps(
            {"id": f"{ms}", "type": "pageview", "timestamp": iso(ms), "visitor": f"{ms}", "pathname": "/"},
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for ms in hours
    ]
    return Source(cast(BinaryIO, io.BufferedReader(io.BytesIO(b"".join(lines)))), "hourly", "", 0)


def unfinished(db: Path) -> int:
    statement = (
        "select (select count(*) from rollup_state where kind = 0 and level = 0 and state < 2 and block < ?1)"
        " + (select count(*) from event where ts < ?1 * 86400000)"
    )
    with closing(sqlite3.connect(db)) as connection:
        found: int = connection.execute(statement, (time.time_ns() // 1_000_000 // DAY_MS - 4,)).fetchone()[0]
        return found


def firing(db: Path) -> list[str]:
    with closing(sqlite3.connect(db)) as connection:
        return [kind for (kind,) in connection.execute("select kind from alert where state = 'firing' order by kind")]


@pytest.mark.in_turn
@pytest.mark.parametrize(("call", "most"), [("fdatasync", 8), ("pwrite64", 5)])
def test_a_kill_at_any_write_loses_no_alert_and_tells_each_once(
    command: Command, serve: Serve, hook: Hook, tmp_path: Path, call: str, most: int
) -> None:
    """Killed at each of the last commits up to that of the last alert that was sent, and at writes from the start on.

    An alert that a receiver gets twice has the same id, and is the one that was under way.
    """
    need_strace()
    prepared = tmp_path / "analytics.db"
    with_due_alerts(command, serve, hook, prepared)
    seen = set()
    # The first run is not killed, and counts the calls of the thread that writes.
    numbers, chosen, rounds = [0], list[int](), 0
    while numbers:
        n = numbers.pop()
        hook.ids.clear()
        db = tmp_path / f"{rounds}-{n}.db"
        shutil.copy(prepared, db)
        if not killed_while_judging(serve, db, n or 65_535, call, tmp_path / "trace"):
            by_thread = Counter(line.split()[0] for line in (tmp_path / "trace").read_text().splitlines())
            calls = max(by_thread.values())
            if not n:
                spread = range(1, calls, max(1, calls // most))
                chosen = [2, *range(max(3, calls - most), calls + 1)] if call == "fdatasync" else [*spread]
                numbers = [*chosen]
        stored = tuple(states(db))
        seen.add((len(firing(db)), stored))
        server = serve(*NETWORKS, db=db)
        until(lambda db=db: states(db) == ["sent"] * 3)
        assert server.terminate() == 0
        assert firing(db) == ["goal", "silence", "spike"]
        assert len(set(hook.ids)) == 3, (n, hook.ids)
        # At most what each task of a channel was sending; the receiver may note it after the kill.
        again = [id for id, count in Counter(hook.ids).items() if count > 1]
        assert len(hook.ids) - 3 == len(again) <= min(1, stored.count("sending")), (n, hook.ids, stored)
        assert "Traceback" not in server.stderr()
        # Which call comes between a claim and what was sent differs from run to run.
        if call == "fdatasync" and not numbers and rounds < 3 and not any("sending" in one for _, one in seen):
            numbers, rounds = [*chosen], rounds + 1
    # Before and after each step: nothing judged, stored, claimed, sent.
    assert (0, ()) in seen
    assert (3, ("sent",) * 3) in seen
    assert call != "fdatasync" or any("sending" in one for _, one in seen), seen


def killed_while_judging(serve: Serve, db: Path, n: int, call: str, trace: Path) -> bool:
    """Return whether the n-th call on the file or its log killed the server before all alerts were sent."""
    upon = [word for suffix in ("", "-wal") for word in ("-P", f"{db}{suffix}")]
    kill = f"inject={call}:signal=SIGKILL:when={n}"
    strace = ["strace", "-f", "-qq", "-o", str(trace), *upon, "-e", f"trace={call}", "-e", kill]
    try:
        server = serve(*NETWORKS, db=db, prefix=strace)
    except AssertionError as failure:
        if "did not start: ''" not in str(failure):
            raise
        return True
    until(lambda: server.process.poll() is not None or states(db) == ["sent"] * 3)
    if server.process.poll() is not None:
        server.kill()
        return True
    # It may be killed meanwhile, and then has no child.
    for traced in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(traced), signal.SIGTERM)
    server.process.wait(timeout=60)
    server.kill()
    return False
