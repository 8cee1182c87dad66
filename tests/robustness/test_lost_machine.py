"""Backups on real servers for storage, by the commands and by a real server, and what is left of a lost machine.

Rules that do not depend on the kind of destination are in tests/unit/maintenance/test_offsite.py.
"""

import json
import signal
import socket
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tally.offsite.destination import open_destination
from tally.timestamps import iso
from tests.support.ledgers import (
    Ledger,
    assert_empty,
    differences_from_raw_rows,
    found,
    new_file,
    send_again,
    sending,
    visit_errors,
)
from tests.support.offsite import KINDS, USER, StorageServer, restart
from tests.support.process import UNLIMITED, Command, Serve, Server, until
from tests.support.rollup_database import table_errors
from tests.unit.cli.test_commands import refused, succeeded


@pytest.mark.in_turn
def test_backup_restore_and_drill(
    storage: StorageServer, command: Command, identity: tuple[Path, str], tmp_path: Path
) -> None:
    """By the commands, encrypted; the program age reads what was uploaded."""
    file, recipient = identity
    website = command("website", "add", "example.com", "--time-zone", "Asia/Kolkata").stdout.strip()
    # In the last hour of a day of UTC, which is a later day of the website.
    newest_ms = (int(time.time()) // 86_400 - 1) * 86_400_000 - 600_000
    line = {"type": "pageview", "timestamp": newest_ms, "pathname": "/", "visitor": "1"}
    (tmp_path / "lines.ndjson").write_text(json.dumps(line))
    succeeded(command("import", "lines.ndjson", "--website", "example.com"))
    env = dict(storage.environment)
    there = ("--backup-to", storage.url)
    made = [
        succeeded(command("backup", *there, "--backup-encrypt-to", recipient, "--keep", "2", env=env)).strip()
        for _ in range(3)
        if not until_next_second()
    ]
    assert storage.names() == made[1:], "the newest 2"
    with closing(open_destination(storage.url, None, storage.environment)) as destination:
        stored = destination.files()[-1]
        assert stored.name == made[-1]
        (tmp_path / "copy.age").write_bytes(b"".join(destination.get(*stored)))
    subprocess.run(["age", "-d", "-i", file, "-o", tmp_path / "copy.db", tmp_path / "copy.age"], check=True)
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("select id from website").fetchall() == [(website,)]
    drill = command("doctor", "--quick", "--restore-drill", *there, "--identity", str(file), env=env)
    assert "2 backups and 0 increments, the newest backup 0 minutes old" in drill.stdout
    assert f"{made[-1]} is 0 minutes old, complete and undamaged" in drill.stdout
    assert f"it holds 1 website, 1 event, the newest of {iso(newest_ms)}" in drill.stdout
    blind = command("doctor", "--quick", "--restore-drill", *there, env=env)
    refused_line = next(line for line in blind.stdout.splitlines() if "cannot be restored" in line)
    assert refused_line.startswith("FAULT")
    assert "add --identity FILE" in refused_line
    assert blind.returncode == 1

    db = tmp_path / "analytics.db"
    refused(command("restore", "--from", storage.url, env=env), 1, "add --identity FILE")
    assert db.exists()
    db.unlink()
    done = command("restore", "--from", storage.url, "--identity", str(file), env=env)
    succeeded(done)
    assert f"restored from {made[-1]}, checked" in done.stderr
    assert website in command("website", "list").stdout
    exported = json.loads(command("export", "example.com", "-").stdout)
    assert exported["timestamp"] == iso(newest_ms)
    split = urlsplit(storage.url)
    older = split._replace(path=f"{split.path}/{made[1]}").geturl()
    done = command("restore", "--from", older, "--identity", str(file), env=env)
    assert f"restored from {made[1]}, checked" in done.stderr
    assert sorted(path.name for path in tmp_path.glob("analytics.db*") if "replaced" not in path.name) == [
        "analytics.db",
        "analytics.db.lock",
    ]
    secrets = [value for name, value in env.items() if name.endswith("PASSWORD")]
    assert not [secret for secret in secrets if secret in drill.stdout + drill.stderr + done.stderr]


def until_next_second() -> None:
    """Wait until a new backup has another time in its name."""
    begun = int(time.time())
    until(lambda: int(time.time()) > begun)


# --- a lost machine


@pytest.mark.parametrize("kind", KINDS)
def test_a_destination_that_does_not_answer_delays_nothing(
    kind: str, serve: Serve, command: Command, tmp_path: Path
) -> None:
    """A port that accepts connections and sends nothing: events are accepted, and the server ends in time."""
    hosts = tmp_path / "known_hosts"
    hosts.touch()
    website = command("website", "add", "example.com").stdout.strip()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = {
            "s3": f"s3://b?endpoint=http://127.0.0.1:{port}",
            "sftp": f"sftp://u@127.0.0.1:{port}/x",
            "webdav": f"http://127.0.0.1:{port}/x",
        }[kind]
        env = {"TALLY_BACKUP_USER": USER, "TALLY_BACKUP_PASSWORD": "p", "TALLY_BACKUP_KNOWN_HOSTS": str(hosts)}
        server = serve("--backup-to", url, "--backup-increment-seconds", "1", env=env)
        connection, _ = silent.accept()
        with connection:
            event = {"type": "pageview", "website_id": website, "url": "https://example.com/"}
            assert server.request("POST", "/api/collect", event).status == 202
            begun = time.monotonic()
            assert server.terminate() == 0
            assert time.monotonic() - begun < 10, "docs/cli.md"


def figures(server: Server) -> dict[str, float]:
    lines = server.request("GET", "/metrics").text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


@pytest.mark.in_turn
def test_a_lost_machine_loses_seconds(
    storage: StorageServer, serve: Serve, command: Command, tmp_path: Path, identity: tuple[Path, str]
) -> None:
    """A server under load is killed and its database deleted. From the destination every event that was acknowledged
    some seconds before is there once, and figures equal those of the raw rows. Before that, the destination is away for
    a while (but for S3, whose server keeps files in memory), and the server is killed and started again once."""
    file, recipient = identity
    db = tmp_path / "analytics.db"
    key, (website,) = new_file(db)
    ledger = Ledger(website, "lost")
    env = dict(storage.environment)
    there = ("--backup-to", storage.url)
    options = (*UNLIMITED, *there, "--backup-increment-seconds", "1", "--backup-encrypt-to", recipient)
    server = serve(*options, env=env)
    with sending(server, ledger, clients=2, rest_s=0.01):
        until(lambda: figures(server)["tally_increments_total"] >= 2, 120)
        if storage.files is not None:
            storage.stop()
            until(lambda: figures(server)["tally_increments_failed_total"] >= 2, 120)
            restart(storage)
            until(lambda: figures(server)["tally_increments_behind_seconds"] < 5, 240)
        assert server.kill() == -signal.SIGKILL
    server = serve(*options, env=env)
    send_again(server, ledger)
    with sending(server, ledger, clients=2, rest_s=0.01):
        count = len(ledger.in_state("acknowledged"))
        until(lambda: len(ledger.in_state("acknowledged")) > count + 100, 120)
        safe = ledger.in_state("acknowledged")
        sent = figures(server)["tally_increments_total"]
        # Two increments later the first of them has everything that was acknowledged before.
        until(lambda: figures(server)["tally_increments_total"] >= sent + 2, 150)
        assert server.kill() == -signal.SIGKILL
    for path in tmp_path.glob("analytics.db*"):
        path.unlink()

    succeeded(command("restore", "--from", storage.url, "--identity", str(file), env=env))
    with closing(sqlite3.connect(db)) as connection:
        kept = found(connection, 1)
        assert [marker for marker, times in kept.items() if times > 1] == []
        lost = {marker for request in safe for marker in request.markers if not is_heatmap(request.body)} - kept.keys()
        assert lost == set()
        assert kept.keys() <= ledger.markers("acknowledged", "unsure", "sent")
        assert_empty(visit_errors(connection, 1))
    server = serve(*options, env=env)
    assert_empty(differences_from_raw_rows(server, key, website, db))
    until(lambda: figures(server)["tally_offsite_backups_total"] == 1, 120)
    assert server.terminate() == 0
    with closing(sqlite3.connect(db)) as connection:
        assert_empty(table_errors(connection, 1))
    assert not [value for name, value in env.items() if name.endswith("PASSWORD") and value in server.stderr()]


def is_heatmap(body: bytes) -> bool:
    """Return whether a request has heatmap points, which are counts and wait for the next backup."""
    return b'"heatmap"' in body
