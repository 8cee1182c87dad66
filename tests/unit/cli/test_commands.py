"""The command `analytics-server`: what it prints, what it answers with, what it makes, what it refuses.

docs/cli.md: values go to standard output, messages to standard error; exit status 0, 1 for a failure, 2 for wrong
usage. `command` runs it as a process of its own, which takes a third of a second; `here` calls the same `main` in this
process, for the tables of cases.
"""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from hashlib import blake2b, md5, sha1, sha256, sha512
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher

from tally.accounts.accounts import create_account
from tally.accounts.websites import add_website
from tally.cli import main as cli_main
from tally.settings import SETTINGS, option_name, variable_name
from tally.storage.database import open_database
from tests.support.app import ROOT
from tests.support.process import Command, Serve, accept_interrupts, clean_environment, until
from tests.unit.test_docs import command_words

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
PASSWORD = "correct horse battery"
HAS_UVLOOP = find_spec("uvloop") is not None
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"
Done = "subprocess.CompletedProcess[str]"


def succeeded(done: Done) -> str:
    """Return the standard output of a successful command."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(done: Done, status: int, *words: str) -> None:
    """Check that a command failed with this status, printed no value, and explained the error."""
    assert done.returncode == status, f"{done.returncode}: {done.stdout} {done.stderr}"
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert [word for word in words if word not in done.stderr] == [], done.stderr


def rows(db: Path, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(db)
    try:
        return connection.execute(query, parameters).fetchall()
    finally:
        connection.close()


def view(website: str, path: str = "/", **more: Any) -> dict[str, Any]:
    return {"type": "pageview", "website_id": website, "url": f"https://example.com{path}", **more}


def made(folder: Path) -> list[str]:
    """Return the files in a directory."""
    return sorted(path.name for path in folder.rglob("*"))


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "analytics.db"


@pytest.fixture
def website(command: Command) -> str:
    """Return the id of a first website, example.com."""
    return succeeded(command("website", "add", "example.com")).strip()


@pytest.fixture
def a_website(here: Command) -> str:
    """Return the same, created in this process."""
    return succeeded(here("website", "add", "example.com")).strip()


def account(run: Command, email: str, plan: str = "business") -> None:
    succeeded(run("account", "create", email, "--plan", plan, "--password-stdin", stdin=PASSWORD + "\n"))


# Values and words


def test_website_add_prints_its_id_alone(command: Command, db: Path) -> None:
    """The command prints the id of the website."""
    printed = succeeded(command("website", "add", "example.com"))
    assert UUID.fullmatch(printed.removesuffix("\n"))
    assert rows(db, "select id, domain, name from website") == [(printed.strip(), "example.com", "example.com")]


def test_website_list_is_tab_separated(command: Command, website: str) -> None:
    """Columns: id, domain, name."""
    second = succeeded(command("website", "add", "other.example.org", "--name", "The Ötherß one")).strip()
    listed = succeeded(command("website", "list"))
    assert listed == f"{website}\texample.com\texample.com\n{second}\tother.example.org\tThe Ötherß one\n"


def test_key_create_prints_the_key_alone_on_its_line(command: Command, website: str) -> None:
    """The key is printed once, alone on its line."""
    done = command("key", "create")
    assert re.fullmatch(r"\S{30,}\n", succeeded(done))
    assert done.stdout.strip() not in done.stderr


def test_key_list_is_tab_separated(command: Command, website: str) -> None:
    """Columns: prefix, name, created, last use, scopes, websites, expiry."""
    key = succeeded(command("key", "create", "--name", "the wall screen")).strip()
    prefix, name, created, used, *grant = succeeded(command("key", "list")).removesuffix("\n").split("\t")
    assert key.startswith(prefix)
    assert 8 <= len(prefix) <= len(key) // 2
    assert name == "the wall screen"
    assert re.fullmatch(TIME, created)
    assert used == "never"
    assert grant == ["read", "all", "never"]


def test_a_key_with_scopes_websites_and_an_expiry(command: Command, website: str) -> None:
    second = succeeded(command("website", "add", "other.example.org")).strip()
    words = ("--scope", "reports", "--scope", "import", "--website", "example.com", "--website", second)
    succeeded(command("key", "create", *words, "--website", website, "--expires", "30"))
    *_, created, _, scopes, websites, expires = succeeded(command("key", "list")).removesuffix("\n").split("\t")
    assert (scopes, websites) == ("reports,import", f"{website},{second}")
    lasts = datetime.fromisoformat(expires) - datetime.fromisoformat(created)
    assert abs(lasts - timedelta(days=30)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--scope", "write"), 2, "reports, read, import, manage"),
        (("--expires", "0"), 2, "1 to 3,650 days"),
        (("--expires", "3651"), 2, "1 to 3,650 days"),
        (("--expires", "1y"), 2, "no number of days"),
        (("--website", "nowhere.example"), 1, "nowhere.example"),
    ],
)
def test_a_key_with_invalid_options(
    command: Command, website: str, words: Sequence[str], status: int, says: str
) -> None:
    refused(command("key", "create", *words), status, says)
    assert succeeded(command("key", "list")) == ""


def test_a_key_is_not_limited_to_a_website_of_another_account(here: Command) -> None:
    for email in ("a@example.com", "b@example.com"):
        account(here, email)
    succeeded(here("website", "add", "b.example", "--account", "b@example.com"))
    refused(
        here("key", "create", "--account", "a@example.com", "--website", "b.example"), 1, "b.example", "a@example.com"
    )


def test_the_last_use_is_shown(command: Command, serve: Serve, website: str) -> None:
    key = succeeded(command("key", "create")).strip()
    server = serve()
    response = until(lambda: (a := server.request("GET", "/api/v1/websites", None, bearer(key))).status == 200 and a)
    assert [row["id"] for row in response.json["data"]] == [website]
    assert server.terminate() == 0
    used = succeeded(command("key", "list")).split("\t")[3]
    assert re.fullmatch(TIME, used)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_a_reader_of_standard_output_that_ends_early(website: str, db: Path) -> None:
    """As `| head` does: the command ends too, as by SIGPIPE, and reports no fault. Its rows fill the pipe."""
    rows = "with recursive n (x) as (select 1 union all select x + 1 from n where x < 200000) select x from n"
    words = [sys.executable, str(ROOT / "analytics_server.py"), "query", rows, "--limit", "0", "--db", str(db)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stderr:
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read().decode() == f"database: {db}\n"
    assert process.wait() == 128 + signal.SIGPIPE


def test_without_standard_output(website: str, db: Path) -> None:
    """As a service may start it (`>&-`)."""
    words = [sys.executable, str(ROOT / "analytics_server.py"), "website", "list", "--db", str(db)]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *words], capture_output=True, text=True, env=clean_environment()
    )
    assert (done.returncode, done.stderr) == (0, f"database: {db}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT TESTED: this system has no /dev/full")
def test_standard_output_that_is_full(website: str, db: Path) -> None:
    words = [sys.executable, str(ROOT / "analytics_server.py"), "website", "list", "--db", str(db)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, env=clean_environment())
    assert done.returncode == 1
    assert done.stderr.splitlines()[1] == "analytics-server: the system: No space left on device"


def test_missing_values_are_printed_as_none(here: Command, tmp_path: Path) -> None:
    account(here, "a@example.com")
    key = here("key", "create").stdout.strip()
    for words in (
        ("account", "plan", "a@example.com", "pro"),
        ("key", "revoke", key[:12]),
        ("key", "list"),
        ("website", "list"),
        ("backup", "copy.db"),
    ):
        assert succeeded(here(*words)) == ""


COMMANDS = (
    ("account", "create", "new@example.com", "--password-stdin"),
    ("account", "plan", "owner@localhost", "pro"),
    ("website", "add", "example.net"),
    ("website", "list"),
    ("key", "create"),
    ("key", "list"),
    ("key", "revoke", "tly_"),
    ("backup", "copy.db"),
)
by_command = pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))


@by_command
@pytest.mark.parametrize("named", ["default", "option", "variable"])
def test_every_command_names_its_database(words: Sequence[str], named: str, here: Command, tmp_path: Path) -> None:
    """Every command prints the absolute path of its database to standard error; the default is analytics.db in the
    working directory."""
    file = "analytics.db" if named == "default" else "other.db"
    env = {"ANALYTICS_DB": "other.db"} if named == "variable" else {}
    more = ("--db", "other.db") if named == "option" else ()
    for setup in (("website", "add", "example.com"), ("key", "create")):
        succeeded(here(*setup, *more, env=env))
    done = here(*words, *more, env=env, stdin=PASSWORD)
    succeeded(done)
    assert str(tmp_path / file) in done.stderr
    assert (tmp_path / file).exists()
    assert made(tmp_path).count("analytics.db") == (named == "default")


def test_serve_names_its_database(serve: Serve, tmp_path: Path) -> None:
    assert str(tmp_path / "analytics.db") in serve().stderr()


# Commands that create a database


@pytest.mark.parametrize(
    "words",
    [
        ("account", "plan", "a@example.com", "pro"),
        ("website", "list"),
        ("website", "add", "example.com", "--account", "a@example.com"),
        ("key", "create"),
        ("key", "list"),
        ("key", "revoke", "tly_"),
        ("backup", "copy.db"),
    ],
    ids=" ".join,
)
def test_other_commands_create_no_database(words: Sequence[str], here: Command, tmp_path: Path) -> None:
    """Only serve, demo, `account create` and the first `website add` create a database."""
    refused(here(*words), 1, str(tmp_path / "analytics.db"))
    assert made(tmp_path) == []


def test_other_commands_do_not_fill_an_empty_file(here: Command, db: Path) -> None:
    """A file of 0 bytes is not a database, and reading commands do not turn it into one."""
    db.touch()
    refused(here("website", "list"), 1, str(db))
    assert db.stat().st_size == 0


@pytest.mark.parametrize(
    "words", [("website", "add", "example.com"), ("account", "create", "a@example.com", "--password-stdin")], ids=str
)
def test_commands_that_create_a_database(words: Sequence[str], here: Command, db: Path) -> None:
    succeeded(here(*words, stdin=PASSWORD))
    assert rows(db, "select count(*) from account") == [(1,)]


def test_serve_creates_a_database(serve: Serve, db: Path) -> None:
    server = serve()
    assert db.exists()
    assert server.terminate() == 0


@pytest.mark.parametrize(
    ("words", "stdin", "status"),
    [
        (("account", "create", "a@example.com", "--password-stdin"), "short", 1),
        (("account", "create", "a@example.com", "--password-stdin"), "", 1),
        (("website", "add", "co.uk"), None, 2),
        (("website", "add", "example.com", "--allow-origin", "nonsense"), None, 2),
        (("website", "add", "example.com", "--name", "two\nlines"), None, 2),
    ],
    ids=["short password", "no password", "public suffix", "bad origin", "bad name"],
)
def test_a_refused_command_creates_no_database(
    words: Sequence[str], stdin: str | None, status: int, here: Command, tmp_path: Path
) -> None:
    refused(here(*words, stdin=stdin), status)
    assert made(tmp_path) == []


# Which account


def test_the_first_website_creates_an_account(here: Command, db: Path) -> None:
    """The first `website add` on an empty database creates an account without a password."""
    done = here("website", "add", "example.com")
    succeeded(done)
    assert "account" in done.stderr
    assert rows(db, "select plan, password_hash from account, person") == [("business", None)]


def test_the_second_website_creates_no_account(here: Command, a_website: str, db: Path) -> None:
    succeeded(here("website", "add", "example.org"))
    assert rows(db, "select count(*), count(distinct account) from account, website") == [(2, 1)]


def test_website_add_after_serve_creates_the_first_account(command: Command, serve: Serve, db: Path) -> None:
    """A database without accounts counts as empty, whichever command created it."""
    serve()
    succeeded(command("website", "add", "example.com"))
    assert rows(db, "select count(*) from account") == [(1,)]


def test_key_create_without_an_account_names_the_fix(command: Command, serve: Serve) -> None:
    serve()
    refused(command("key", "create"), 1, "account", "website add")


def test_one_account_need_not_be_named(here: Command, db: Path) -> None:
    """`--account` is optional if there is one account."""
    account(here, "a@example.com")
    succeeded(here("website", "add", "example.com"))
    succeeded(here("key", "create"))
    assert rows(db, "select email from person") == [("a@example.com",)]


@pytest.mark.parametrize("words", [("website", "add", "example.com"), ("key", "create")], ids=" ".join)
def test_of_two_accounts_one_must_be_named(words: Sequence[str], here: Command, db: Path) -> None:
    account(here, "a@example.com")
    account(here, "b@example.com")
    refused(here(*words), 1, "--account")
    succeeded(here(*words, "--account", "B@Example.com"))
    table = "website" if words[0] == "website" else "api_key"
    assert rows(db, f"select a.name from {table} t join account a on a.number = t.account") == [("b@example.com",)]


@pytest.mark.parametrize("words", [("website", "add", "x.example"), ("key", "create"), ("key", "list")], ids=" ".join)
def test_an_unknown_account_is_refused(words: Sequence[str], here: Command, a_website: str, db: Path) -> None:
    refused(here(*words, "--account", "nobody@example.com"), 1, "nobody@example.com")
    assert rows(db, "select count(*) from website") == [(1,)]
    assert rows(db, "select count(*) from api_key") == [(0,)]


def test_key_list_of_one_account(here: Command) -> None:
    for email in ("a@example.com", "b@example.com"):
        account(here, email)
        succeeded(here("key", "create", "--account", email, "--name", f"of {email}"))
    assert len(succeeded(here("key", "list")).splitlines()) == 2
    only = succeeded(here("key", "list", "--account", "b@example.com"))
    assert [line.split("\t")[1] for line in only.splitlines()] == ["of b@example.com"]


# website add


@pytest.mark.parametrize(
    ("typed", "domain", "noted"),
    [
        ("example.com", "example.com", []),
        ("EXAMPLE.com.", "example.com", []),
        ("https://shop.example.com/a?b=c#d", "shop.example.com", ["URL", "shop.example.com"]),
        ("www.example.com", "example.com", ["www."]),
        ("http://www.example.com/", "example.com", ["URL", "www."]),
        ("example.com:8443", "example.com", ["8443"]),
        ("bücher.example", "xn--bcher-kva.example", ["xn--bcher-kva.example"]),
        ("localhost", "localhost", []),
        ("http://localhost:3000", "localhost", ["localhost"]),
        ("192.0.2.7", "192.0.2.7", []),
        ("[2001:DB8::7]", "[2001:db8::7]", []),
        ("intranet", "intranet", []),
        ("my.github.io", "my.github.io", []),
    ],
)
def test_domains_are_normalized_with_a_note(
    typed: str, domain: str, noted: Sequence[str], here: Command, db: Path
) -> None:
    """A URL becomes its host without `www.`, and both changes are reported."""
    done = here("website", "add", typed)
    assert UUID.fullmatch(succeeded(done).strip())
    assert rows(db, "select domain from website") == [(domain,)]
    words = done.stderr.replace(str(db), "")
    assert [word for word in noted if word not in words] == []


def test_international_domains_are_shown_as_people_write_them(here: Command, db: Path) -> None:
    website = succeeded(here("website", "add", "B\u00fccher.example")).strip()
    assert rows(db, "select domain, name from website") == [("xn--bcher-kva.example", "b\u00fccher.example")]
    assert succeeded(here("website", "list")) == f"{website}\tb\u00fccher.example\tb\u00fccher.example\n"
    assert succeeded(here("retention")) == f"{website}\tb\u00fccher.example\tforever\n"
    for domain in ("b\u00fccher.example", "xn--bcher-kva.example"):
        done = here("website", "rename", domain, "Books")
        assert f"b\u00fccher.example ({website}) is now named Books" in done.stderr
    assert f"would delete b\u00fccher.example ({website}), Books" in here("website", "remove", website).stderr
    assert "b\u00fccher.example: 0 days" in here("verify").stderr


@pytest.mark.parametrize(
    "typed",
    ["com", "co.uk", "github.io", "https://co.uk/",  "", " ", "exa mple.com", "a@example.com", "1.2.3",
     "example..com", "http://", "ftp://example.com", "*.example.com", "a" * 64 + ".com", "example.com\\x"],
)  # fmt: skip
def test_invalid_domains_are_refused(typed: str, here: Command, tmp_path: Path) -> None:
    """Public suffixes, and texts that cannot be the host of a page, are refused."""
    refused(here("website", "add", "--", typed), 2, "DOMAIN: ")
    assert made(tmp_path) == []


def test_a_public_suffix_is_named(here: Command) -> None:
    refused(here("website", "add", "co.uk"), 2, "co.uk", "public suffix")


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\x1b[31mb", "n" * 101], ids=["tab", "newline", "escape", "101"])
def test_a_name_keeps_the_list_readable(name: str, here: Command, a_website: str) -> None:
    """A website is a tab-separated line, so its name cannot contain tabs; names have at most 100 characters."""
    refused(here("website", "add", "example.org", "--name", name), 2, "--name: ")
    refused(here("key", "create", "--name", name), 2, "--name: ")
    assert succeeded(here("website", "list")) == f"{a_website}\texample.com\texample.com\n"


# --allow-origin: "A website may list exact extra origins, such as `capacitor://localhost`"


EXTRA_ORIGINS = {
    "capacitor://localhost": "capacitor://localhost",
    "ionic://localhost": "ionic://localhost",
    "http://localhost:8100": "http://localhost:8100",
    "HTTPS://App.Example.Org": "https://app.example.org",
    "tauri://localhost": "tauri://localhost",
    "chrome-extension://abcdefghijklmnop": "chrome-extension://abcdefghijklmnop",
    "https://[2001:db8::7]:8443": "https://[2001:db8::7]:8443",
}


def test_an_allowed_origin_is_accepted(here: Command, serve: Serve) -> None:
    websites = {
        written: succeeded(here("website", "add", "example.com", "--again", "--allow-origin", written)).strip()
        for written in EXTRA_ORIGINS
    }
    server = serve()
    for written, website in websites.items():
        for origin, status in ((EXTRA_ORIGINS[written], 202), (EXTRA_ORIGINS[written] + "1", 403), ("null", 403)):
            answer = server.request("POST", "/api/collect", view(website), {"Origin": origin})
            assert (written, origin, answer.status) == (written, origin, status)


def test_extra_origins_repeat(here: Command, db: Path) -> None:
    both = ("--allow-origin", "capacitor://localhost", "--allow-origin", "http://localhost")
    succeeded(here("website", "add", "example.com", *both))
    assert rows(db, "select origin from allowed_origin order by 1") == [
        ("capacitor://localhost",),
        ("http://localhost",),
    ]


@pytest.mark.parametrize(
    "origin",
    [
        "capacitor://localhost/",
        "https://example.org/path",
        "https://example.org?q",
        "https://example.org#f",
        "https://user@example.org",
        "https://example.org:99999",
        "https://example.org:port",
        "https://*.example.org",
        "https://example .org",
        "https://",
        "://example.org",
        "*://example.org",
        "1x://example.org",
        "a b://example.org",
        "example.org",
        "null",
        "*",
        "",
    ],
)
def test_invalid_origins_are_refused(origin: str, here: Command, tmp_path: Path) -> None:
    """Origins are compared exactly; one that no browser sends (RFC 6454, 7) would never match, so it is refused."""
    refused(here("website", "add", "example.com", "--allow-origin", origin), 2, "--allow-origin: ")
    assert made(tmp_path) == []


def test_a_default_port_is_dropped_or_refused(here: Command, serve: Serve) -> None:
    """Browsers do not send the default port of a scheme."""
    done = here("website", "add", "example.com", "--allow-origin", "https://app.example.org:443")
    if done.returncode == 0:
        sent = view(done.stdout.strip())
        assert serve().request("POST", "/api/collect", sent, {"Origin": "https://app.example.org"}).status == 202
    else:
        refused(done, 2, "origin")


# Keys


def test_keys_are_not_stored(here: Command, a_website: str, tmp_path: Path) -> None:
    """Neither the key nor a plain hash of it is stored."""
    key = succeeded(here("key", "create", "--name", "canary-name")).strip().encode()
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"canary-name" in held, "the search finds what is there"
    assert key not in held
    assert key[12:] not in held, "what follows the prefix"
    for hashed in (md5, sha1, sha256, sha512, blake2b, lambda k: blake2b(k, digest_size=32)):
        digest = hashed(key).digest()
        assert digest not in held
        assert digest.hex().encode() not in held


def test_a_revoked_key_is_not_listed(here: Command, a_website: str) -> None:
    first, second = (succeeded(here("key", "create")).strip() for _ in range(2))
    done = here("key", "revoke", first[:12])
    assert succeeded(done) == ""
    assert first[:12] in done.stderr
    assert [line.split("\t")[0] for line in succeeded(here("key", "list")).splitlines()] == [second[:12]]
    refused(here("key", "revoke", first[:12]), 1, first[:12])


def test_an_ambiguous_prefix_revokes_nothing(here: Command, a_website: str) -> None:
    """An ambiguous prefix is refused with exit status 1."""
    first, second = (succeeded(here("key", "create")).strip() for _ in range(2))
    shared = first[: next(i for i, pair in enumerate(zip(first, second, strict=True)) if len(set(pair)) > 1)]
    refused(here("key", "revoke", shared), 1, shared)
    assert len(succeeded(here("key", "list")).splitlines()) == 2


def test_an_unknown_prefix_revokes_nothing(here: Command, a_website: str) -> None:
    succeeded(here("key", "create"))
    refused(here("key", "revoke", "tly_nosuchkey"), 1, "tly_nosuchkey")
    for text in ("", "nosuchkey", "tly_%"):
        refused(here("key", "revoke", text), 2, "An API key begins with tly_")
    assert len(succeeded(here("key", "list")).splitlines()) == 1


def test_the_free_plan_has_no_keys(here: Command, db: Path) -> None:
    """Exit status 1 on the free plan, with the reason."""
    account(here, "a@example.com", "free")
    refused(here("key", "create"), 1, "free")
    assert rows(db, "select count(*) from api_key") == [(0,)]
    succeeded(here("account", "plan", "a@example.com", "pro"))
    assert succeeded(here("key", "create"))


# Accounts


@pytest.mark.parametrize("plan", [None, "free", "pro", "business"])
def test_account_create(plan: str | None, here: Command, db: Path) -> None:
    """The default plan is business; the password is read from standard input with `--password-stdin` and stored as an
    argon2id hash."""
    more = ("--plan", plan) if plan else ()
    done = here("account", "create", "a@example.com", *more, "--password-stdin", stdin=PASSWORD + "\n")
    assert succeeded(done) == ""
    ((email, kept, hashed),) = rows(db, "select email, plan, password_hash from account, person")
    assert (email, kept) == ("a@example.com", plan or "business")
    assert hashed.startswith("$argon2id$")
    assert PasswordHasher().verify(hashed, PASSWORD)
    assert PASSWORD not in done.stderr


@pytest.mark.parametrize(
    ("given", "kept"),
    [("10 letters", "10 letters"), ("10 letters\r\n", "10 letters"), (" öffnen 密码 \nmore\n", " öffnen 密码 ")],
    ids=["no newline", "windows", "first line, spaces kept"],
)
def test_password_from_standard_input(given: str, kept: str, here: Command, db: Path) -> None:
    succeeded(here("account", "create", "a@example.com", "--password-stdin", stdin=given))
    assert PasswordHasher().verify(rows(db, "select password_hash from person")[0][0], kept)


@pytest.mark.parametrize(
    "given",
    ["", "\n", "9 letters", "9 letters\n", "x" * 201],
    ids=["nothing", "empty line", "9", "9 + newline", "201"],
)
def test_a_short_password_is_refused(given: str, here: Command) -> None:
    refused(here("account", "create", "a@example.com", "--password-stdin", stdin=given), 1, "10 to 200 characters")


def test_account_password_replaces_the_password(here: Command, db: Path) -> None:
    """`account password EMAIL` sets a forgotten password."""
    account(here, "a@example.com")
    done = here("account", "password", "A@example.com", "--password-stdin", stdin="another one\n")
    assert succeeded(done) == ""
    assert PasswordHasher().verify(rows(db, "select password_hash from person")[0][0], "another one")
    assert "another one" not in done.stderr
    refused(here("account", "password", "b@example.com", "--password-stdin", stdin=PASSWORD), 1, "no person")


@pytest.mark.parametrize("email", ["nobody", "a@", "@b", "a b@example.com", "a@b\n", "", "a@b@c"])
def test_invalid_addresses_are_refused(email: str, here: Command) -> None:
    refused(here("account", "create", "--password-stdin", "--", email, stdin=PASSWORD), 2, "email address")


def test_an_address_is_used_once(here: Command, db: Path) -> None:
    account(here, "a@example.com")
    again = here("account", "create", "A@EXAMPLE.com", "--password-stdin", stdin=PASSWORD)
    refused(again, 1, "A@EXAMPLE.com", "already")
    assert rows(db, "select count(*) from account") == [(1,)]


# The child has a terminal of its own and no other; the parent types only after the prompt: getpass drops earlier input.
TERMINAL = """
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
"""


def at_a_terminal(folder: Path, words: Sequence[str], typed: Sequence[str]) -> tuple[int, str]:
    """Run the command at a terminal and answer each `: ` with a line; return its status and the terminal's output."""
    program = [sys.executable, str(ROOT / "analytics_server.py"), *words]
    with subprocess.Popen(
        [sys.executable, "-c", TERMINAL, *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        env=clean_environment(),
        start_new_session=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        shown = b""
        for line in typed:
            before = len(shown)
            while b": " not in shown[before:]:
                part = os.read(child.stdout.fileno(), 1000)
                assert part, shown
                shown += part
            child.stdin.write(line.encode() + b"\n")
            child.stdin.flush()
        while part := os.read(child.stdout.fileno(), 1000):
            shown += part
        return child.wait(timeout=60), shown.decode()


def test_the_password_is_asked_for_at_a_terminal(tmp_path: Path, db: Path) -> None:
    """There are two prompts for the password, without echo."""
    status, shown = at_a_terminal(tmp_path, ("account", "create", "a@example.com"), (PASSWORD, PASSWORD))
    assert status == 0, shown
    assert PASSWORD not in shown
    assert PasswordHasher().verify(rows(db, "select password_hash from person")[0][0], PASSWORD)


def test_passwords_that_differ_are_refused(tmp_path: Path) -> None:
    status, shown = at_a_terminal(tmp_path, ("account", "create", "a@example.com"), (PASSWORD, PASSWORD + "!"))
    assert (status, "do not match" in shown) == (1, True)
    assert made(tmp_path) == []


def test_without_a_terminal_the_option_is_named(tmp_path: Path) -> None:
    """A script without `--password-stdin` gets an error that names the option, and no traceback."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "analytics_server.py"), "account", "create", "a@example.com"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=clean_environment(),
        start_new_session=True,
        timeout=60,
    )
    assert done.returncode in (1, 2)
    refused(done, done.returncode, "--password-stdin")
    assert made(tmp_path) == []


def test_account_plan(here: Command, db: Path) -> None:
    account(here, "a@example.com")
    for plan in ("free", "pro", "business"):
        done = here("account", "plan", "a@example.com", plan)
        assert succeeded(done) == ""
        assert plan in done.stderr
        assert rows(db, "select plan from account") == [(plan,)]
    refused(here("account", "plan", "b@example.com", "pro"), 1, "b@example.com")
    refused(here("account", "plan", "a@example.com", "gold"), 2, "gold", "business")


# Backup


def test_a_backup_is_a_database(command: Command, website: str, db: Path, tmp_path: Path) -> None:
    done = command("backup", "copy.db")
    assert succeeded(done) == ""
    assert str(tmp_path / "copy.db") in done.stderr
    assert rows(tmp_path / "copy.db", "pragma integrity_check") == [("ok",)]
    assert succeeded(command("website", "list", "--db", "copy.db")) == f"{website}\texample.com\texample.com\n"
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0, "it holds password hashes: for its owner alone"


@pytest.mark.slow
def test_a_backup_of_a_running_server(command: Command, serve: Serve, website: str, tmp_path: Path) -> None:
    """A backup is consistent while the server runs: whole groups, all acknowledged events, valid keys."""
    key = succeeded(command("key", "create")).strip()
    server = serve("--client-per-minute", "100000", "--website-per-minute", "100000")

    def batch(n: int) -> dict[str, Any]:
        events = [view(website, f"/batch/{n}", session_id=f"session-{n}-{i}") for i in range(20)]
        return {"website_id": website, "events": events}

    for n in range(10):
        assert server.request("POST", "/api/collect", batch(n)).status == 202
    copying = subprocess.Popen(
        [sys.executable, str(ROOT / "analytics_server.py"), "backup", "copy.db"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=clean_environment(),
    )
    n = 10
    while copying.poll() is None:
        assert server.request("POST", "/api/collect", batch(n)).status == 202
        n += 1
    output, words = copying.communicate()
    assert (copying.returncode, output) == (0, b""), words
    copy = tmp_path / "copy.db"
    assert rows(copy, "pragma integrity_check") == [("ok",)]
    counts = dict(
        rows(copy, "select text, count(*) from event e join label l on l.id = e.pathname group by 1 order by e.id")
    )
    assert set(counts.values()) == {20}, "a request's events are there together or not at all"
    assert set(counts) == {f"/batch/{i}" for i in range(len(counts))}, "in the order of the answers, without a hole"
    assert len(counts) >= 10, "what was answered before the backup began is in it"
    assert rows(copy, "select events from account_usage") == [(20 * len(counts),)]
    assert server.terminate() == 0

    from_copy = serve(db=copy)
    response = from_copy.request("GET", f"/api/v1/websites/{website}/stats", None, bearer(key))
    assert (response.status, response.json["data"]["pageviews"]) == (200, 20 * len(counts))
    assert from_copy.request("POST", "/api/collect", view(website)).status == 202


def test_a_backup_overwrites_nothing(here: Command, a_website: str, db: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused(here("backup", "notes.txt"), 1, "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    refused(here("backup", "analytics.db"), 1, "analytics.db")
    refused(here("backup", "."), 1)
    assert succeeded(here("website", "list"))


def test_a_backup_needs_its_directory(here: Command, a_website: str, tmp_path: Path) -> None:
    refused(here("backup", "nofolder/copy.db"), 1, str(tmp_path / "nofolder"))
    refused(here("backup", "/proc/copy.db"), 1, "/proc")


@pytest.mark.slow
def test_a_command_names_the_lock_of_another_program(here: Command, a_website: str, db: Path) -> None:
    """It waits for 10 seconds before."""
    with closing(sqlite3.connect(db, isolation_level=None)) as holder:
        holder.execute("begin immediate")
        refused(here("website", "add", "example.net"), 1, str(db), "is locked by another program")


def test_a_damaged_database_is_not_backed_up(here: Command, a_website: str, db: Path, tmp_path: Path) -> None:
    """A damaged copy is not kept as a backup."""
    with sqlite3.connect(db) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
        ((page,),) = connection.execute("select rootpage from sqlite_schema where name = 'event'")
        ((size,),) = connection.execute("pragma page_size")
    connection.close()
    held = bytearray(db.read_bytes())
    held[(page - 1) * size : page * size] = noise(size)
    db.write_bytes(held)
    refused(here("backup", "copy.db"), 1, "damaged")
    assert not [name for name in made(tmp_path) if name.startswith("copy")]


# Options, variables, help


def test_every_option_has_a_variable(tmp_path: Path) -> None:
    """Options are also environment variables (`ANALYTICS_PORT` for `--port`)."""
    free = free_port()
    with subprocess.Popen(
        [sys.executable, str(ROOT / "analytics_server.py")],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=clean_environment(ANALYTICS_PORT=str(free), ANALYTICS_DB="named.db"),
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        server.terminate()
        rest = server.stdout.read()
    assert (line, rest) == (f"listening on http://127.0.0.1:{free}\n".encode(), b"")
    assert server.returncode == 0
    assert (tmp_path / "named.db").exists()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_options_override_variables(command: Command, serve: Serve) -> None:
    server = serve("--website-per-minute", "2", env={"ANALYTICS_WEBSITE_PER_MINUTE": "1"})
    website = succeeded(command("website", "add", "example.com")).strip()
    until(lambda: server.request("POST", "/api/collect", view(website)).status == 202)
    assert [server.request("POST", "/api/collect", view(website)).status for _ in range(2)] == [202, 429]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_serve_help_lists_every_option(setting: Any, here: Command) -> None:
    shown = " ".join(succeeded(here("serve", "--help", env={"COLUMNS": "80"})).split())
    assert f" {option_name(setting)} " in shown
    assert variable_name(setting) in shown
    assert setting.metadata["help"] in shown


HELP = (
    (),
    ("serve",),
    ("account",),
    ("account", "create"),
    ("account", "plan"),
    ("website",),
    ("website", "add"),
    ("website", "list"),
    ("key",),
    ("key", "create"),
    ("key", "list"),
    ("key", "revoke"),
    *(
        (name,)
        for name in (
            "backup",
            "restore",
            "upgrade",
            "verify",
            "compact",
            "retention",
            "import",
            "export",
            "delete-events",
            "rewrite-paths",
            "doctor",
            "demo",
        )
    ),
)


@pytest.mark.parametrize("words", HELP, ids=lambda words: " ".join(words) or "alone")
def test_help_can_be_read(words: Sequence[str], here: Command, tmp_path: Path) -> None:
    """The help of every command fits a terminal, and printing it changes nothing."""
    for flag in ("-h", "--help"):
        done = here(*words, flag, env={"COLUMNS": "80"})
        shown = succeeded(done)
        assert done.stderr == ""
        assert shown.startswith(f"usage: {' '.join(('analytics-server', *words))}")
        assert max(map(len, shown.splitlines())) <= 80
        assert not re.search(r"\bNone\b|<class|==SUPPRESS==|%\(", shown)
        described = shown.split("\n\n")[1]
        assert len(described.split()) >= 3, "a sentence says what it does"
    assert made(tmp_path) == []


def test_help_lists_every_command(here: Command) -> None:
    """Every command under one heading, with its description; examples at the end."""
    shown = succeeded(here("--help"))
    words = cli_main._parser()._commands()
    assert sorted(cli_main.COMMANDS) == sorted(words)
    assert [name for name in words if not re.search(rf"^  {name} +\w", shown, re.MULTILINE)] == []
    examples = shown.partition("\nExamples:\n")[2].split("\n\n")[0].splitlines()
    assert {line.split()[1] for line in examples} <= set(words)
    assert len(examples) >= 3


def test_commands_do_not_load_the_web_server(tmp_path: Path) -> None:
    """Its import takes longer than they run. (One process runs them in turn, as each starts one.)"""
    code = (
        "import sys; from analytics_server import main\n"
        f"for words in {LIGHT}: assert main(words.split()) == 0, words\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'aiohttp', 'asyncio', 'ua_parser'}))\n"
        f"for words in {WITH_ARCHIVE}: assert main(words.split()) == 0, words\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'aiohttp', 'ua_parser'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=str(ROOT)),
    )
    assert [line for line in succeeded(done).splitlines() if line.startswith("[")] == ["[]", "[]"]


LIGHT = (
    *("--version", "website add example.com", "website list", "website rename example.com x", "account list"),
    *("account plan owner@localhost pro", "key create", "key list", "retention", "compact", "backup copy.db"),
)
# Those that read or change whole data wait longer for the disk than for asyncio.
WITH_ARCHIVE = (
    *("verify", "export example.com out.ndjson", "import out.ndjson --website example.com"),
    "website remove example.com --yes",
)


def test_version(command: Command) -> None:
    """That of pyproject.toml in a clone, with its commit where git has one, without metadata of an installation."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    printed = succeeded(command("--version"))
    assert re.fullmatch(rf"analytics-server {re.escape(project)}(\+git\.[0-9a-f]{{12}})? \(.*\)\n", printed)


PORTS = "--port must be between 0 and 65535"
HOST = "is neither the id nor the domain of a website"
EMAIL = "'nobody' is not an email address"
NAME = "A name must be at most 100 characters on one line"
# Words of wrong usage, and a part of the message.
WRONG_USAGE = (
    ("bogus", "there is no command 'bogus'"),
    ("--bogus", "there is no option --bogus"),
    ("help bogus", "there is no command 'bogus'"),
    ("help account bogus", "there is no command 'bogus'; commands: create, list, plan, password"),
    ("mail", "the following arguments are required: COMMAND"),
    ("mail test", "the following arguments are required: ADDRESS"),
    ("mail test nobody", "address must be an email address"),
    ("notify", "the following arguments are required: COMMAND"),
    ("notify list --state lost", "invalid choice: 'lost'"),
    ("notify test", "the following arguments are required: CHANNEL"),
    ("serve extra", "unexpected argument 'extra'"),
    ("serve --bogus", "there is no option --bogus"),
    ("serve --port", "expected one argument"),
    ("serve --port x", PORTS),
    ("--port 80.0", PORTS),
    ("audit --since yesterday", "is no time"),
    ("person list --account x", "is not an email address"),
    ("person invite a@example.com", "the following arguments are required: --role"),
    ("person invite a@example.com --role king", "invalid choice: 'king'"),
    ("person role a@example.com king", "invalid choice: 'king'"),
    ("person remove x", "is not an email address"),
    ("person password x", "is not an email address"),
    ("person link x", "is not an email address"),
    ("person second-factor a@example.com", "the following arguments are required: --off"),
    ("person passkeys a@example.com", "the following arguments are required: --off"),
    ("upgrade --dry-run", "there is no option --dry-run"),
    ("upgrade --upgrade-backup maybe", "--upgrade-backup must be one of yes, no (got 'maybe')"),
    ("demo --until x", "--until: must be a date or time such as 2026-11-21T10:00:00Z (got 'x')"),
    ("demo --until 2999-01-01", "--until: must not lie in the future"),
    ("demo --events many", "--events: must be between 1,000 and 2,000,000 (got 'many')"),
    ("demo --port x", PORTS),
    ("doctor extra", "unexpected argument 'extra'"),
    ("doctor --min-free-disk x", "--min-free-disk must be a whole number of megabytes"),
    ("account", "required: COMMAND"),
    ("account create", "required: EMAIL"),
    ("account create nobody", f"EMAIL: {EMAIL}"),
    ("account create a@example.com --plan gold", "--plan: invalid choice: 'gold'"),
    ("account list extra", "unexpected argument 'extra'"),
    ("account plan nobody pro", f"EMAIL: {EMAIL}"),
    ("account plan a@example.com gold", "PLAN: invalid choice: 'gold'"),
    ("account password nobody", f"EMAIL: {EMAIL}"),
    ("website", "required: COMMAND"),
    ("website forget example.com", "there is no command 'forget'"),
    ("website add", "required: DOMAIN"),
    ("website add a.com b.com", "unexpected argument 'b.com'"),
    ("website add co.uk", "DOMAIN: co.uk is a public suffix"),
    ("website add example.com --account nobody", f"--account: {EMAIL}"),
    ("website add example.com --allow-origin x", "--allow-origin: 'x' is not an origin"),
    (("website", "add", "example.com", "--name", "a\tb"), f"--name: {NAME}"),
    ("website list --account a@example.com", "there is no option --account"),
    ("website rename example.com", "required: NAME"),
    (("website", "rename", "example.com", ""), "NAME: a name must have at least one character"),
    ("website rename a!b x", f"WEBSITE: 'a!b' {HOST}"),
    ("website remove a!b", f"WEBSITE: 'a!b' {HOST}"),
    (("key", "create", "--name", "a\nb"), f"--name: {NAME}"),
    ("key create --account nobody", f"--account: {EMAIL}"),
    ("key list --account nobody", f"--account: {EMAIL}"),
    ("key revoke", "required: PREFIX"),
    ("key revoke abc", "PREFIX: An API key begins with tly_ (got 'abc')"),
    ("import events.ndjson", "required: --website"),
    ("import --website example.com", "name a FILE to import, or give --list or --undo NUMBER"),
    ("import f --list --website example.com", "FILE and --list exclude each other: give one of them"),
    ("import f --undo 1 --website example.com", "FILE and --undo exclude each other: give one of them"),
    ("import --list --undo 1 --website example.com", "--list and --undo exclude each other: give one of them"),
    ("import f --follow --website example.com", "--follow needs the name of a file and --from access-log"),
    ("import events.ndjson --website a!b", f"--website: 'a!b' {HOST}"),
    ("import events.ndjson --website example.com --from x", "--from: invalid choice: 'x'"),
    (("import", "", "--website", "example.com"), "FILE: must be a path"),
    ("delete-events --website example.com", "required: --from, --to"),
    ("rewrite-paths --website example.com --pattern /a", "required: --replacement"),
    ("rewrite-paths --website a!b --pattern /a --replacement /b", f"--website: 'a!b' {HOST}"),
    ("delete-events --website a!b --from 2026-11-01 --to 2026-11-02", f"--website: 'a!b' {HOST}"),
    ("export example.com x --format csv", "--format: invalid choice: 'csv'"),
    ("export a!b events.ndjson", f"WEBSITE: 'a!b' {HOST}"),
    (("export", "example.com", ""), "FILE: must be a path"),
    ("query", "required: SQL"),
    (("query", "select 1", "--limit", "x"), "--limit: must be a number of rows, 0 for all (got 'x')"),
    (("query", "select 1", "--limit", "-1"), "--limit: must be a number of rows"),
    (("query", "select 1", "--seconds", "0"), "--seconds: must be between 0.001 and 86400 (got '0')"),
    (("query", "select 1", "--seconds", "1e9"), "--seconds: must be between"),
    (("query", "select 1", "--format", "xml"), "--format: invalid choice: 'xml'"),
    ("retention a!b", f"WEBSITE: 'a!b' {HOST}"),
    ("retention example.com 4", "DAYS: must be at least 5, `forever` or `default` (got '4')"),
    ("retention example.com --yes soon", "DAYS: must be at least 5"),
    ("retention example.com 90 91", "unexpected argument '91'"),
    ("retention --keep-days 4", "--keep-days must be at least 5 days, or 0"),
    ("backup", "name a FILE, or give --backup-to URL"),
    (("backup", ""), "FILE: must be a path"),
    ("backup copy.db --keep 0", "--keep: must be a whole number of at least 1 (got '0')"),
    ("restore", "name a FILE, or give --from URL"),
    (("restore", "copy.db", "--from", "https://far.example/x"), "name a FILE, or give --from URL"),
    (("restore", "--from", "ftp://far.example/x"), "--from: must be a URL such as s3://BUCKET/PREFIX"),
    ("doctor --restore-drill", "--restore-drill needs --backup-to URL"),
    (("restore", ""), "FILE: must be a path"),
    ("verify a!b", f"WEBSITE: 'a!b' {HOST}"),
    ("verify example.com --repair b.com", "unexpected argument 'b.com'"),
    ("compact extra", "unexpected argument 'extra'"),
    ("cluster", "the following arguments are required: COMMAND"),
    ("cluster check", "name a server: --clickhouse URL"),
    ("cluster init extra", "unexpected argument 'extra'"),
    ("cluster join --bogus", "there is no option --bogus"),
    ("cluster compare --days 0", "must be a whole number of at least 1"),
    ("cluster leave", "the following arguments are required: FILE"),
    ("cluster load", "name a server: --clickhouse URL"),
    ("cluster status extra", "unexpected argument 'extra'"),
    ("cluster recover", "name the key file: --cluster-key FILE"),
)


def words_of(case: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(case.split()) if isinstance(case, str) else case


@pytest.mark.parametrize(("case", "phrase"), WRONG_USAGE, ids=lambda part: " ".join(words_of(part))[:60])
def test_wrong_usage_says_what_is_wrong(
    case: str | tuple[str, ...], phrase: str, here: Command, tmp_path: Path
) -> None:
    """Exit status 2 for wrong usage, and nothing is created."""
    refused(here(*words_of(case), stdin=PASSWORD), 2, "analytics-server", phrase)
    assert made(tmp_path) == []


def test_every_command_has_a_case_of_wrong_usage() -> None:
    commands = {words for words in command_words() if words != ("help",)}
    assert len(commands) > 15
    cases = [words_of(case) for case, _ in WRONG_USAGE]
    assert {words for words in commands if not any(case[: len(words)] == words for case in cases)} == set()


def test_arguments_may_follow_options(here: Command, a_website: str) -> None:
    """argparse alone takes no optional argument after an option."""
    succeeded(here("retention", "--db", "analytics.db", "example.com", "--yes", "90"))
    assert succeeded(here("retention")) == f"{a_website}\texample.com\t90\n"
    succeeded(here("retention", "--yes", "example.com", "forever"))
    assert succeeded(here("retention")) == f"{a_website}\texample.com\tforever\n"
    assert "example.com: 0 days" in here("verify", "--repair", "example.com").stderr


BAD_VALUES = (
    ("port", "abc"),
    ("port", "-1"),
    ("port", "65536"),
    ("port", ""),
    ("port", "８０"),
    ("port", "80.0"),
    ("db", ""),
    ("trusted-proxy", ""),
    ("trusted-proxy", "nonsense"),
    ("trusted-proxy", "10.0.0.1/8"),
    ("trusted-proxy", "10.0.0.0/8,none"),
    ("forwarded-header", ""),
    ("forwarded-header", "X Forwarded"),
    ("base-url", "stats.example.com"),
    ("base-url", "ftp://stats.example.com"),
    ("base-url", "https://stats.example.com\r\nX: y"),
    ("metrics-token", "a\r\nX: y"),
    ("free-events", "many"),
    ("free-events", "0"),
    ("free-events", "-5"),
    ("pro-events", "1e6"),
    ("client-per-minute", "0"),
    ("client-per-minute", "1.5"),
    ("website-per-minute", "0"),
    ("website-per-minute", ""),
    ("key-per-minute", "0"),
    ("key-per-minute", "ten"),
    ("max-identities", "0"),
    ("max-identities", "-1"),
    ("backup-keep", "0"),
    ("backup-hour", "24"),
    ("backup-hour", "-1"),
    ("backup-hour", "3am"),
    ("backup-to", "ftp://far.example/x"),
    ("backup-to", "https:///x"),
    ("backup-to", "https://far.example:port/x"),
    ("backup-to", "https://far.example/a b"),
    ("backup-to", "http://far.example/x"),
    ("backup-to", "s3://bucket/x?endpoint=https://far.example&acl=public"),
    ("backup-to", "sftp://far.example/x"),
    ("backup-encrypt-to", "age1short"),
    ("backup-encrypt-to", f"age1{'q' * 58}"),
    ("backup-increment-seconds", "-1"),
    ("log-format", "xml"),
    ("log-level", "loud"),
    ("clickhouse", "clickhouse:8123"),
    ("clickhouse", "http://ch:8123/?user=a"),
    ("cluster-mode", "lead"),
    ("cluster-name", "a; drop"),
)


# Should a value be taken after all, the command ends here: nothing listens on an address that is not this machine's.
NOWHERE = ("--host", "203.0.113.1")


@pytest.mark.parametrize(("option", "value"), BAD_VALUES, ids=lambda part: part or "empty")
def test_a_bad_value_is_wrong_usage(option: str, value: str, here: Command, tmp_path: Path) -> None:
    """An invalid value is named and refused, and never replaced by a default."""
    refused(here("serve", *NOWHERE, f"--{option}={value}"), 2, f"--{option}")
    variable = "ANALYTICS_" + option.replace("-", "_").upper()
    refused(here("serve", *NOWHERE, env={variable: value}), 2)
    assert made(tmp_path) == []


def test_a_password_in_a_url_is_refused_and_not_shown(here: Command) -> None:
    for words in (("serve", *NOWHERE, "--backup-to"), ("restore", "--from")):
        done = here(*words, "sftp://me:hunter2@far.example/x")
        refused(done, 2, "must not contain a password: see docs/backup.md")
        assert "hunter2" not in done.stderr


@pytest.mark.parametrize("named", ["option", "variable"])
def test_an_empty_host_is_wrong_usage(named: str, tmp_path: Path) -> None:
    """`--host` is 127.0.0.1 by default; an empty value, such as a blank variable, must not listen on all addresses."""
    words = [sys.executable, str(ROOT / "analytics_server.py"), "serve", "--port", "0"]
    env = clean_environment(**({"ANALYTICS_HOST": ""} if named == "variable" else {}))
    more = ["--host", ""] if named == "option" else []
    with subprocess.Popen([*words, *more], stdout=subprocess.PIPE, cwd=tmp_path, env=env) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        child.terminate()
    assert (line, child.returncode) == (b"", 2)


@pytest.mark.parametrize("words", [("serve", *NOWHERE), ("website", "list"), ("key", "create")], ids=" ".join)
def test_an_unknown_variable_is_wrong_usage(words: Sequence[str], here: Command, tmp_path: Path) -> None:
    """An unknown variable is refused, since a misspelt one would have no effect."""
    for name, phrase in (
        ("ANALYTICS_PROT", "ANALYTICS_PROT is not a setting (did you mean ANALYTICS_PORT?)"),
        ("ANALYTICS_DATABASE_FILE", "ANALYTICS_DATABASE_FILE is not a setting: "),
    ):
        done = here(*words, env={name: "8000"})
        refused(done, 2, phrase, "see `analytics-server serve --help`")
        assert len(done.stderr.splitlines()) == 1
    assert made(tmp_path) == []


def test_a_server_that_has_ended_leaves_no_signal_handler(here: Command) -> None:
    """Neither one of asyncio nor of uvloop; otherwise the process would ignore Ctrl-C from then on."""
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in signals]
    assert here("serve", *NOWHERE).returncode == 1
    assert [signal.getsignal(number) for number in signals] == before


def test_the_server_uses_uvloop_and_runs_without_it(
    serve: Serve, command: Command, website: str, tmp_path: Path
) -> None:
    """It is installed where it has wheels; elsewhere its import fails."""
    folder = tmp_path / "without_uvloop"
    folder.mkdir()
    (folder / "uvloop.py").write_text("raise ImportError('not available on this platform')\n")
    for env, has_uvloop in (({}, HAS_UVLOOP), ({"PYTHONPATH": str(folder)}, False)):
        server = serve(env=env)
        assert ("/uvloop/" in Path(f"/proc/{server.pid}/maps").read_text()) == has_uvloop
        assert server.request("POST", "/api/collect", view(website)).status == 202
        assert server.terminate() == 0


def test_the_largest_rate_limit(here: Command, serve: Serve, a_website: str) -> None:
    """Accepted values work, including the largest ones."""
    most = [f"--{name}-per-minute=999999999999" for name in ("client", "website", "key")]
    refusal = here("serve", *NOWHERE, *most)
    if refusal.returncode == 2:
        refused(refusal, 2, "per-minute")
        return
    key = succeeded(here("key", "create")).strip()
    server = serve(*most)
    assert server.request("POST", "/api/collect", view(a_website)).status == 202
    for _ in range(2):
        response = server.request("GET", "/api/v1/websites", None, bearer(key))
        assert response.status == 200
        assert int(response.headers["RateLimit-Reset"]) >= 0


# What a file may be instead of a database


def noise(size: int) -> bytes:
    """Return the same random bytes each time."""
    return b"".join(sha256(str(n).encode()).digest() for n in range(size // 32 + 1))[:size]


def a_text(path: Path) -> None:
    path.write_text("dear diary, this is no database\n" * 200)


def another_programs_file(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table bookmarks (url text)")
    connection.execute("insert into bookmarks values ('https://example.com/')")
    connection.commit()
    connection.close()


def another_programs_file_in_wal_mode(path: Path) -> None:
    another_programs_file(path)
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma user_version = 1")
    connection.close()


def a_newer_one(path: Path) -> None:
    a_database(path)
    connection = sqlite3.connect(path)
    connection.execute("pragma user_version = 4711")
    connection.close()


def a_damaged_one(path: Path) -> None:
    a_database(path)
    held = bytearray(path.read_bytes())
    held[4096:-4096] = noise(len(held) - 8192)
    path.write_bytes(held)


def half_of_one(path: Path) -> None:
    a_database(path)
    held = path.read_bytes()
    path.write_bytes(held[: len(held) // 2])


def a_database(path: Path) -> None:
    connection = open_database(path, create=True)
    owner = create_account(connection, "owner@localhost", "business", None, 0)
    add_website(connection, owner, "example.com", "example.com", (), 0)
    connection.execute("pragma journal_mode = delete")  # everything in the one file
    connection.close()


def a_folder(path: Path) -> None:
    path.mkdir()


OTHER_FILES = {
    "text": (a_text, "not a SQLite database"),
    "another program": (another_programs_file, "another program"),
    "another program in WAL mode": (another_programs_file_in_wal_mode, "another program"),
    "newer": (a_newer_one, "newer"),
    "damaged": (a_damaged_one, "damaged"),
    "half": (half_of_one, "damaged"),
    "directory": (a_folder, "directory"),
}
USES = (
    ("serve", "--port", "0"),
    ("website", "list"),
    ("website", "add", "example.org"),
    ("account", "create", "a@example.com", "--password-stdin"),
    ("key", "create"),
    ("backup", "copy.db"),
)


by_use = pytest.mark.parametrize("words", USES, ids=lambda words: " ".join(words[:2]))


@pytest.fixture
def use(command: Command, here: Command) -> Command:
    """Run one of USES; serve runs in a process of its own."""

    def run(*words: str, **more: Any) -> Done:
        return (command if words[0] == "serve" else here)(*words, **more)

    return run


@by_use
@pytest.mark.parametrize("kind", OTHER_FILES)
def test_files_of_other_programs_are_refused(kind: str, words: Sequence[str], use: Command, tmp_path: Path) -> None:
    """Exit status 1 with the path and the reason, and the file is not changed."""
    make, reason = OTHER_FILES[kind]
    path = tmp_path / "theirs.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    done = use(*words, "--db", "theirs.db", stdin=PASSWORD)
    refused(done, 1, str(path), reason)
    assert len(done.stderr.splitlines()) == 2, f"which file, and the reason: {done.stderr}"
    assert (path.read_bytes() if path.is_file() else b"") == before
    assert "copy.db" not in made(tmp_path)


@by_use
def test_a_missing_directory(words: Sequence[str], use: Command, tmp_path: Path) -> None:
    refused(use(*words, "--db", "nofolder/a.db", stdin=PASSWORD), 1, str(tmp_path / "nofolder"))
    assert made(tmp_path) == []


@by_use
@pytest.mark.parametrize("place", ["/proc/analytics.db", "/sys/analytics.db", "/dev/null/analytics.db"])
def test_an_unwritable_directory(words: Sequence[str], place: str, use: Command, tmp_path: Path) -> None:
    refused(use(*words, "--db", place, stdin=PASSWORD), 1, place)
    assert made(tmp_path) == []


# Where a server cannot listen


def test_a_port_in_use(command: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(command("serve", "--port", str(port)), 1, f"127.0.0.1:{port}", "in use", "--port")


@pytest.mark.parametrize(
    ("host", "status", "phrase"),
    [
        ("203.0.113.1", 1, "this machine does not have the address: correct --host"),
        ("no.such.host.invalid", 1, "no address is known for this name: correct --host"),
        ("unix:/no/such/directory/socket", 1, "its directory does not exist: create it"),
        ("not an address", 2, "--host must be an address or host name of this machine"),
    ],
)
def test_an_address_that_cannot_be_listened_on(host: str, status: int, phrase: str, command: Command) -> None:
    done = command("serve", "--port", "0", "--host", host)
    refused(done, status, host, phrase)
    assert "stop the program" not in done.stderr


def test_invalid_country_data(command: Command, tmp_path: Path) -> None:
    (tmp_path / "my.mmdb").write_text("not an MMDB file")
    refused(command("serve", "--port", "0", "--geoip-db", "my.mmdb"), 1, "my.mmdb")
    refused(command("serve", "--port", "0", "--geoip-db", "missing.mmdb"), 1, "missing.mmdb")


@pytest.mark.parametrize("listing", ["website", "key"])
def test_listing_does_not_wait_for_locks(command: Command, tmp_path: Path, listing: str) -> None:
    """Listing only reads, so it neither waits for a write lock nor delays the server."""
    website = command("website", "add", "example.com").stdout.strip()
    command("key", "create", "--name", "laptop")
    holder = sqlite3.connect(tmp_path / "analytics.db", isolation_level=None)
    holder.execute("begin immediate")
    result = command(listing, "list")
    holder.rollback()
    holder.close()
    assert result.returncode == 0, result.stderr
    assert (website if listing == "website" else "laptop") in result.stdout


# What a newcomer types


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (("websit", "list"), "there is no command 'websit' (did you mean website?)"),
        (("start",), "(did you mean serve?)"),
        (("website", "delete", "example.com"), "(did you mean remove?)"),
        (("key", "delete", "tly_"), "(did you mean revoke?)"),
        (("acount", "create", "a@example.com"), "(did you mean account?)"),
        (("help", "webste"), "(did you mean website?)"),
        (("--prot", "80"), "there is no option --prot (did you mean --port?)"),
        (("serve", "--databse=x.db"), "there is no option --databse"),
        (("website", "add", "example.com", "--nmae", "x"), "(did you mean --name?)"),
        (("zzz",), "there is no command 'zzz'; commands: serve"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_typos_get_a_suggestion(words: Sequence[str], phrase: str, here: Command, tmp_path: Path) -> None:
    done = here(*words)
    refused(done, 2, phrase, "See `analytics-server")
    assert len(done.stderr.splitlines()) <= 6, done.stderr
    assert made(tmp_path) == []


@pytest.mark.parametrize("words", [(), ("website",), ("website", "add"), ("serve",)], ids=" ".join)
def test_help_is_a_command_too(words: Sequence[str], here: Command) -> None:
    assert succeeded(here("help", *words)) == succeeded(here(*words, "--help"))


@pytest.mark.parametrize("words", [("help", "help"), ("help", "--help"), ("help", "-h")], ids=" ".join)
def test_help_of_help_is_that_of_the_program(words: Sequence[str], here: Command) -> None:
    assert succeeded(here(*words)) == succeeded(here("--help"))


def test_a_domain_is_added_once(here: Command, a_website: str, db: Path) -> None:
    refused(here("website", "add", "https://www.example.com/"), 1, a_website, "--again")
    assert rows(db, "select count(*) from website") == [(1,)]
    second = succeeded(here("website", "add", "example.com", "--again")).strip()
    assert second != a_website
    account(here, "b@example.com")
    other = here("website", "add", "example.com", "--account", "b@example.com")
    assert a_website not in other.stderr
    succeeded(other)


def test_a_website_is_renamed(here: Command, a_website: str, db: Path) -> None:
    assert succeeded(here("website", "rename", "example.com", "The shop")) == ""
    assert succeeded(here("website", "list")) == f"{a_website}\texample.com\tThe shop\n"
    for name in ("", "two\nlines", "x" * 101):
        refused(here("website", "rename", a_website, name), 2, "NAME: ")
    refused(here("website", "rename", "example.org", "x"), 1, "There is no website example.org")
    assert rows(db, "select name from website") == [("The shop",)]


def test_a_website_is_removed_only_with_yes(here: Command, a_website: str, db: Path) -> None:
    done = here("website", "remove", "example.com")
    assert succeeded(done) == ""
    assert "with 0 events beside web vitals, heatmaps and experiments. Nothing was changed. Add --yes" in done.stderr
    assert rows(db, "select count(*) from website") == [(1,)]
    succeeded(here("website", "remove", a_website, "--yes"))
    assert succeeded(here("website", "list")) == ""
    assert rows(db, "select is_complete from deleted_website") == [(0,)], "the server has its rows to delete"
    refused(here("website", "remove", a_website, "--yes"), 1, "There is no website")


def test_a_running_server_applies_both_changes(command: Command, serve: Serve, website: str) -> None:
    server = serve()
    key = succeeded(command("key", "create")).strip()
    own = {"Authorization": f"Bearer {key}"}
    succeeded(command("website", "rename", website, "Renamed"))
    until(lambda: "Renamed" in server.request("GET", "/api/v1/websites", headers=own).body.decode())
    succeeded(command("website", "remove", website, "--yes"))
    until(lambda: server.request("POST", "/api/collect", view(website)).status == 404)


def test_accounts_are_listed(here: Command, a_website: str) -> None:
    account(here, "b@example.com", "pro")
    assert succeeded(here("account", "list")) == "owner@localhost\tbusiness\t1\nb@example.com\tpro\t0\n"


# What leaves no file


@pytest.mark.parametrize(
    "words",
    [
        ("account", "list"),
        ("account", "plan", "a@example.com", "pro"),
        ("account", "password", "a@example.com", "--password-stdin"),
        ("website", "rename", "example.com", "x"),
        ("website", "remove", "example.com", "--yes"),
        ("verify",),
        ("retention",),
        ("retention", "example.com", "90", "--yes"),
        ("compact",),
        ("export", "example.com", "-"),
        ("delete-events", "--website", "example.com", "--from", "2026-11-01", "--to", "2026-11-02", "--yes"),
        ("rewrite-paths", "--website", "example.com", "--pattern", "/a", "--replacement", "/b", "--yes"),
        ("import", "-", "--website", "example.com"),
        ("backup", "--keep", "3", "."),
        ("restore", "missing.db"),
        ("doctor", "--quick"),
    ],
    ids=" ".join,
)
def test_no_command_creates_a_file(words: Sequence[str], here: Command, tmp_path: Path) -> None:
    done = here(*words, stdin=PASSWORD)
    assert done.returncode == 1, done.stderr
    assert made(tmp_path) == []


def test_a_start_that_fails_leaves_no_file(here: Command, command: Command, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused(command("serve", "--port", str(taken.getsockname()[1])), 1, "in use")
        assert made(tmp_path) == []
        succeeded(here("website", "add", "example.com"))
        refused(command("serve", "--port", str(taken.getsockname()[1])), 1, "in use")
    assert made(tmp_path) == ["analytics.db"]
    assert "example.com" in succeeded(here("website", "list"))
    refused(command("serve", "--port", "0", "--geoip-db", "missing.mmdb", "--db", "b.db"), 1, "missing.mmdb")
    assert made(tmp_path) == ["analytics.db"]


def test_a_start_is_refused_where_backups_cannot_be_written(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, reason in (("file", "is not a directory"), ("/proc", "cannot be written")):
        refused(command("serve", "--port", "0", "--backup-dir", folder), 2, "--backup-dir: ", reason)
    assert made(tmp_path) == ["file"]


def test_a_text_file_is_refused(here: Command, command: Command, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Read me\n" * 50)
    for words in (("serve", "--port", "0"), ("website", "add", "example.com"), ("doctor",), ("compact",)):
        done = (command if words[0] == "serve" else here)(*words, "--db", "README.md")
        assert done.returncode == 1
        assert "README.md is not a SQLite database" in done.stderr + done.stdout
        assert made(tmp_path) == ["README.md"]
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as theirs:
        theirs.execute("pragma application_id = 7")
        theirs.execute("create table a (b)")
    refused(command("serve", "--port", "0", "--db", "theirs.db"), 1, "is the database of another program")
    assert made(tmp_path) == ["README.md", "theirs.db"]


# One file under two names


def test_a_hard_link_is_refused(here: Command, command: Command, a_website: str, tmp_path: Path) -> None:
    """The WAL and the lock file are named after the database, so two names would have two of each."""
    (tmp_path / "second.db").hardlink_to(tmp_path / "analytics.db")
    before = (tmp_path / "analytics.db").read_bytes()
    for name in ("analytics.db", "second.db"):
        refused(command("serve", "--port", "0", "--db", name), 1, f"{name} has 2 names (hard links)", "-inum")
        for words in (("website", "add", "example.org"), ("key", "create"), ("website", "list"), ("compact",)):
            refused(here(*words, "--db", name), 1, "has 2 names (hard links)")
    assert made(tmp_path) == ["analytics.db", "second.db"]
    assert (tmp_path / "analytics.db").read_bytes() == before
    (tmp_path / "second.db").unlink()
    succeeded(here("website", "list"))


def test_a_file_that_is_mounted_alone_is_refused(
    here: Command, command: Command, a_website: str, tmp_path: Path
) -> None:
    """As with `docker run -v FILE:FILE`: each name has a log and a lock of its own."""
    other = tmp_path / "a folder" / "second.db"
    other.parent.mkdir()
    other.touch()
    mounted = subprocess.run(
        ["mount", "--bind", str(tmp_path / "analytics.db"), str(other)], capture_output=True, text=True
    )
    if mounted.returncode:
        assert not os.environ.get("TALLY_MUST_TRACE"), mounted.stderr
        pytest.skip(f"NOT TESTED: a mounted file; only root may mount one ({mounted.stderr.strip()})")
    try:
        words = "second.db is mounted alone"
        refused(command("serve", "--port", "0", "--db", str(other)), 1, words, "mount the directory")
        refused(here("website", "add", "example.org", "--db", str(other)), 1, words)
        assert made(other.parent) == ["second.db"]
    finally:
        subprocess.run(["umount", "--lazy", str(other)], check=True)
    succeeded(here("website", "list"))


def test_a_symbolic_link_is_followed(here: Command, serve: Serve, a_website: str, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to("analytics.db")
    assert a_website in succeeded(here("website", "list", "--db", "link.db"))
    assert serve(db=tmp_path / "link.db").terminate() == 0
    assert not (tmp_path / "link.db.lock").exists()


def test_a_server_starts_after_a_killed_restore(here: Command, serve: Serve, a_website: str, db: Path) -> None:
    """Killed between its two last steps, it leaves the old database under two names: the next start ends that."""
    kept = db.with_name("analytics.db.replaced-20261122T030000Z")
    kept.hardlink_to(db)
    succeeded(here("website", "list"))
    assert serve().terminate() == 0
    assert not kept.exists()
    assert db.stat().st_nlink == 1


# The end of a terminal


@pytest.mark.parametrize("at", ["_parser", "settings_from"])
def test_ctrl_c_during_the_start_prints_no_traceback(at: str, here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    accept_interrupts()
    monkeypatch.setattr(cli_main, at, lambda *given: signal.raise_signal(signal.SIGINT))
    refused(here("website", "list"), 130)


def test_ctrl_c_during_the_first_imports_prints_no_traceback() -> None:
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'tally.cli.main':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from analytics_server import main\n"
        "sys.exit(main(['--version']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=clean_environment(), cwd=ROOT
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT TESTED: this system has no /dev/full")
def test_a_server_whose_log_is_full_runs(serve: Serve) -> None:
    server = serve(prefix=["sh", "-c", 'exec "$@" 2>/dev/full', "sh"])
    assert server.request("GET", "/healthz").status == 200
    assert server.terminate() == 0


def test_a_server_under_nohup_ignores_sighup(serve: Serve) -> None:
    server = serve(prefix=["env", "--ignore-signal=HUP"])
    server.process.send_signal(signal.SIGHUP)
    assert server.request("GET", "/healthz").status == 200
    assert server.terminate() == 0


def test_a_closed_terminal_stops_a_server_cleanly(serve: Serve) -> None:
    server = serve()
    server.process.send_signal(signal.SIGHUP)
    assert server.process.wait(timeout=60) == 0


def test_website_add_with_an_id(command: Command, db: Path) -> None:
    """`--id` takes a UUID in any spelling; another website cannot have the same."""
    id = "c66653dc-e3f4-4325-a39f-da606931a543"
    assert succeeded(command("website", "add", "example.com", "--id", id.upper())).strip() == id
    again = command("website", "add", "example.org", "--id", id)
    assert (again.returncode, again.stdout) == (1, "")
    assert f"There is already a website with the id {id}" in again.stderr
    wrong = command("website", "add", "example.org", "--id", "example")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "an id is a UUID" in wrong.stderr
