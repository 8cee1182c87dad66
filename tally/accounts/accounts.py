"""Accounts: email address, plan, password hash and time zone of an owner.

Plain SQL on a sqlite3 connection. The command line uses these functions in its own process. The server uses them too
and caches what they return (tally/storage/account_cache.py). A function that writes leaves the transaction to the
caller. Passwords are stored as argon2id hashes (tally/accounts/passwords.py) and never logged.
"""

import re
import sqlite3
from hashlib import blake2b
from typing import NamedTuple

# docs/reference/limits.md has what each plan includes.
PLANS = ("free", "pro", "business")
PLANS_WITH_KEYS = frozenset(("pro", "business"))
# The account that the first `website add` creates has no address yet.
FIRST_ACCOUNT = "owner@localhost"
MAX_NAME_CHARACTERS = 100


class AccountError(ValueError):
    """A request about accounts, websites or API keys that cannot be fulfilled; the message names the fix."""


class AccountFull(AccountError):
    """The account has as many websites or API keys as it may have."""


class Account(NamedTuple):
    """An owner of websites and API keys."""

    number: int
    email: str
    plan: str


class Owner(NamedTuple):
    """An account as the server caches it."""

    number: int
    email: str
    plan: str
    time_zone: str | None
    has_password: bool
    # Digest of the stored password hash, which changes with every change of the password; b"" without a password.
    password_version: bytes


def all_owners(connection: sqlite3.Connection) -> dict[int, Owner]:
    """Return every account by its number, oldest first."""
    rows = connection.execute(
        "/* accounts.all_owners */ select number, email, plan, time_zone, password_hash from account order by number"
    )
    return {
        number: Owner(number, email, plan, zone, stored is not None, _password_version(stored))
        for number, email, plan, zone, stored in rows
    }


def _password_version(stored: str | None) -> bytes:
    return b"" if stored is None else blake2b(stored.encode(), digest_size=16).digest()


def find_account(connection: sqlite3.Connection, email: str | None) -> Account:
    """Return the account with an address, or the only account if `email` is None. Raises AccountError."""
    rows = connection.execute("/* accounts.find */ select number, email, plan from account order by number").fetchall()
    if email is None:
        if len(rows) == 1:
            return Account(*rows[0])
        if not rows:
            raise AccountError(
                "There is no account yet: create one with `account create EMAIL` or `website add DOMAIN`."
            )
        raise AccountError(f"There are {len(rows)} accounts: choose one with --account EMAIL.")
    for row in rows:
        if row[1].lower() == email.lower():
            return Account(*row)
    raise AccountError(f"There is no account {email}: create it with `account create {email}`.")


def has_account(connection: sqlite3.Connection) -> bool:
    """Return whether any account exists."""
    return connection.execute("/* accounts.has_account */ select 1 from account limit 1").fetchone() is not None


def check_email(email: str) -> str:
    """Return an email address. Raises AccountError if the text is none."""
    if not re.fullmatch(r"[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f]{1,255}", email):
        raise AccountError(f"{email!r} is not an email address.")
    return email


def check_name(text: str) -> str:
    """Return the name of a website, API key or definition. Raises AccountError if it cannot be shown on one line."""
    if not text.isprintable() or len(text) > MAX_NAME_CHARACTERS:
        raise AccountError(
            f"A name must be at most {MAX_NAME_CHARACTERS} characters on one line, without control characters"
            f" (got {len(text)} characters)."
        )
    return text


def create_account(
    connection: sqlite3.Connection, email: str, plan: str, password_hash: str | None, now_ms: int
) -> Account:
    """Create an account. Raises AccountError if the address is malformed or taken."""
    check_email(email)
    try:
        row = connection.execute(
            "/* accounts.create */ insert into account (email, plan, password_hash, created_ms)"
            " values (?, ?, ?, ?) returning number",
            (email, plan, password_hash, now_ms),
        ).fetchone()
    except sqlite3.IntegrityError:
        raise AccountError(f"There is already an account {email}.") from None
    return Account(row[0], email, plan)


def set_plan(connection: sqlite3.Connection, email: str, plan: str) -> None:
    """Change the plan of an account. Raises AccountError."""
    number = find_account(connection, email).number
    connection.execute("/* accounts.set_plan */ update account set plan = ? where number = ?", (plan, number))


def credentials_of(connection: sqlite3.Connection, email: str) -> tuple[int, str | None]:
    """Return the number of the account with an address and the hash of its password; 0 and None without account."""
    try:
        number = find_account(connection, email).number
    except AccountError:
        return 0, None
    return number, password_hash_of(connection, number)


def password_hash_of(connection: sqlite3.Connection, number: int) -> str | None:
    """Return the hash of an account's password; None if it has none."""
    statement = "/* accounts.password_hash_of */ select password_hash from account where number = ?"
    row = connection.execute(statement, (number,)).fetchone()
    return None if row is None else row[0]


def set_password_hash(
    connection: sqlite3.Connection, number: int, password_hash: str, instead_of: str | None = None
) -> None:
    """Change the password of an account; with `instead_of` only if that is still the stored hash."""
    connection.execute(
        "/* accounts.set_password_hash */ update account set password_hash = ? where number = ?"
        " and coalesce(password_hash = ?, 1)",
        (password_hash, number, instead_of),
    )


def set_email(connection: sqlite3.Connection, number: int, email: str) -> None:
    """Change the address of an account."""
    connection.execute("/* accounts.set_email */ update account set email = ? where number = ?", (email, number))


def set_time_zone(connection: sqlite3.Connection, number: int, name: str | None) -> None:
    """Change the time zone in which reports are shown to an account; None means the browser's time zone."""
    connection.execute("/* accounts.set_time_zone */ update account set time_zone = ? where number = ?", (name, number))
