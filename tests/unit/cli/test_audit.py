"""The command `audit`: its columns, its choice of lines, and lines that the other commands write."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import Command

PASSWORD = "a password of the tests"


def printed(here: Command, *words: str) -> str:
    done = here(*words, stdin=PASSWORD + "\n")
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(here: Command, *words: str) -> list[dict[str, Any]]:
    """Return the lines of the log, newest first."""
    return [json.loads(line) for line in printed(here, "audit", "--json", *words).splitlines()]


def test_each_command_that_changes_something_writes_a_line(here: Command) -> None:
    website = printed(here, "website", "add", "example.com").strip()
    printed(here, "account", "create", "a@example.com", "--password-stdin")
    key = printed(here, "key", "create", "--account", "a@example.com", "--name", "wall").strip()
    printed(here, "key", "revoke", key)
    printed(here, "account", "plan", "a@example.com", "pro")
    printed(here, "account", "password", "a@example.com", "--password-stdin")
    printed(here, "website", "rename", website, "Shop")
    printed(here, "website", "remove", website)
    printed(here, "website", "remove", website, "--yes")
    printed(here, "website", "list")
    found = [(line["account"], line["action"], line["target"]) for line in lines(here)][::-1]
    assert found == [
        ("owner@localhost", "website_added", "example.com"),
        ("a@example.com", "account_created", "a@example.com"),
        ("a@example.com", "key_created", "wall"),
        ("a@example.com", "key_revoked", f"{key[:12]} wall"),
        ("a@example.com", "plan_changed", "pro"),
        ("a@example.com", "password_changed", "a@example.com"),
        ("owner@localhost", "website_changed", "example.com"),
        ("owner@localhost", "website_deleted", "example.com"),
    ]
    assert {(line["actor"], line["via"]) for line in lines(here)} == {("command line", "cli")}
    assert lines(here)[1]["detail"] == {"name": ["example.com", "Shop"]}
    assert PASSWORD not in json.dumps(lines(here))
    assert key not in json.dumps(lines(here))


def test_imports_and_retention_write_a_line(here: Command, tmp_path: Path) -> None:
    """A preview, and showing what would be deleted, write none; of a file only the name is stored."""
    website = printed(here, "website", "add", "example.com").strip()
    event = {"id": "1", "type": "pageview", "timestamp": "2026-01-02T03:04:05Z"}
    event |= {"hostname": "example.com", "pathname": "/"}
    file = tmp_path / "events.ndjson"
    file.write_text(json.dumps(event) + "\n")
    printed(here, "import", "--website", website, "--dry-run", str(file))
    printed(here, "import", "--website", website, str(file))
    printed(here, "import", "--website", website, "--undo", "1")
    printed(here, "export", website, str(tmp_path / "copy.ndjson"))
    printed(here, "backup", str(tmp_path / "backup.db"))
    printed(here, "restore", str(tmp_path / "backup.db"))
    printed(here, "retention", website, "30")
    printed(here, "retention", website, "30", "--yes")
    found = [(line["action"], line["target"], line["detail"]) for line in lines(here)][::-1]
    assert found[1:] == [
        ("import_started", "example.com", {"format": "tally", "file": "events.ndjson"}),
        ("import_undone", "example.com", {"import": 1}),
        ("events_exported", "example.com", {"format": "jsonl"}),
        ("database_restored", "backup.db", {}),
        ("retention_changed", "example.com", {"days": [0, 30]}),
    ]
    assert {(line["actor"], line["via"]) for line in lines(here)} == {("command line", "cli")}


def test_lines_are_tab_separated_and_escaped(here: Command) -> None:
    website = printed(here, "website", "add", "example.com").strip()
    at, *rest = printed(here, "audit").removesuffix("\n").split("\t")
    assert at.endswith("+00:00")
    assert rest == ["owner@localhost", "command line", "website_added", website, "example.com"]


def test_lines_of_one_account_and_since_a_time(here: Command) -> None:
    printed(here, "website", "add", "example.com")
    printed(here, "account", "create", "a@example.com", "--password-stdin")
    assert [line["action"] for line in lines(here, "--account", "a@example.com")] == ["account_created"]
    assert len(lines(here, "--since", "2020-01-01")) == 2
    assert lines(here, "--since", "2100-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--since", "yesterday"), 2, "is no time"),
        (("--account", "nobody"), 2, "is not an email address"),
        (("--account", "nobody@example.com"), 1, "There is no account nobody@example.com"),
    ],
    ids=str,
)
def test_invalid_choices(here: Command, words: tuple[str, ...], status: int, message: str) -> None:
    printed(here, "website", "add", "example.com")
    done = here("audit", *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
