"""The command `person`: listing, inviting, roles, removal, and links to sign in."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import Command

PASSWORD = "a password of the tests"
ANN, BOB = "ann@example.com", "bob@example.com"


def printed(here: Command, *words: str) -> str:
    done = here(*words, stdin=PASSWORD + "\n")
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(here: Command, *words: str, status: int = 1) -> str:
    done = here(*words, stdin=PASSWORD + "\n")
    assert (done.returncode, done.stdout) == (status, "")
    return done.stderr


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "analytics.db")) as connection:
        return connection.execute(query).fetchall()


def people(here: Command, *words: str) -> list[list[str]]:
    return [line.split("\t")[:4] for line in printed(here, "person", "list", *words).splitlines()]


@pytest.fixture
def owned(here: Command, tmp_path: Path) -> Command:
    """Return the command where Ann owns an account with example.com, and Bob is an admin of it."""
    printed(here, "account", "create", ANN, "--password-stdin")
    printed(here, "website", "add", "example.com")
    with closing(sqlite3.connect(tmp_path / "analytics.db")) as connection, connection:
        connection.execute("insert into person (number, email, created_ms) values (2, ?, 0)", (BOB,))
        connection.execute("insert into membership values (1, 2, 'admin', 0, 1)")
        connection.execute("update membership set created_ms = 0 where person = 1")
    return here


def test_people_are_listed(owned: Command) -> None:
    assert people(owned) == [[ANN, ANN, "owner", "all websites"], [BOB, ANN, "admin", "all websites"]]
    assert printed(owned, "person", "list").splitlines()[1].endswith("\tnever")
    assert people(owned, "--account", ANN) == people(owned)
    assert "There is no account" in refused(owned, "person", "list", "--account", BOB)


def test_roles_and_limits(owned: Command) -> None:
    printed(owned, "person", "role", BOB, "editor", "--website", "example.com")
    assert people(owned)[1] == [BOB, ANN, "editor", "1 websites"]
    printed(owned, "person", "role", BOB, "viewer")
    assert people(owned)[1] == [BOB, ANN, "viewer", "all websites"]
    assert "owners see all websites" in refused(owned, "person", "role", BOB, "owner", "--website", "example.com")
    assert "must keep an owner" in refused(owned, "person", "role", ANN, "admin")
    assert "There is no person" in refused(owned, "person", "role", "x@example.com", "admin")
    printed(owned, "person", "role", BOB, "owner")
    printed(owned, "person", "role", ANN, "viewer")
    lines = [json.loads(line) for line in printed(owned, "audit", "--json").splitlines()]
    assert next(line["detail"] for line in lines if line["action"] == "person_role_changed") == {
        "role": ["owner", "viewer"]
    }


def test_a_person_is_removed(owned: Command, tmp_path: Path) -> None:
    assert "must keep an owner" in refused(owned, "person", "remove", ANN)
    printed(owned, "person", "remove", BOB)
    assert people(owned) == [[ANN, ANN, "owner", "all websites"]]
    assert rows(tmp_path, "select email from person") == [(ANN,)]


def test_a_member_of_two_accounts_is_removed_from_the_named_one(owned: Command) -> None:
    printed(owned, "account", "create", "c@example.com", "--password-stdin")
    printed(owned, "person", "role", BOB, "viewer")
    with pytest.raises(AssertionError, match="There are 2 accounts"):
        printed(owned, "person", "invite", "new@example.com", "--role", "viewer")
    assert "is no member of" in refused(owned, "person", "remove", BOB, "--account", "c@example.com")
    printed(owned, "person", "remove", BOB, "--account", ANN)


def test_links_are_printed_alone_and_stored_as_digests(owned: Command, tmp_path: Path) -> None:
    link = printed(owned, "person", "invite", "new@example.com", "--role", "viewer", "--website", "example.com")
    assert re.fullmatch(r"http://localhost:8000/invitation#[\w-]{43}\n", link)
    words = ("person", "link", ANN, "--base-url", "https://stats.example.com")
    signing_in = printed(owned, *words)
    assert re.fullmatch(r"https://stats\.example\.com/login#[\w-]{43}\n", signing_in)
    with closing(sqlite3.connect(tmp_path / "analytics.db")) as connection:
        stored = "\n".join(connection.iterdump())
    for one in (link, signing_in):
        assert one.strip().partition("#")[2] not in stored
    assert rows(tmp_path, "select email, role, websites, created_by from invitation") == [
        ("new@example.com", "viewer", "[1]", None)
    ]
    log = [json.loads(line)["action"] for line in printed(owned, "audit", "--json").splitlines()]
    assert log[:2] == ["sign_in_link_created", "person_invited"]
    assert "There is no person" in refused(owned, "person", "link", "x@example.com")


def test_a_password_is_set(owned: Command, tmp_path: Path) -> None:
    printed(owned, "person", "password", BOB, "--password-stdin")
    assert rows(tmp_path, "select password_hash like '$argon2id$%' from person where number = 2") == [(1,)]
