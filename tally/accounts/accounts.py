"""Accounts, which own websites, and people, who sign in: address, password hash and time zone.

An account is created with its first person, who owns it. Memberships and roles are in tally/accounts/people.py.

Plain SQL on a sqlite3 connection. The command line uses these functions in its own process. The server uses them too
and caches what they return (tally/storage/account_cache.py). A function that writes leaves the transaction to the
caller. Passwords are stored as argon2id hashes (tally/accounts/passwords.py) and never logged.
"""

import re
import sqlite3
from collections.abc import Iterable
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
    """What owns websites and API keys. Its name is at first the address of the person it was created for."""

    number: int
    name: str
    plan: str
    requires_second_factor: bool = False


class Person(NamedTuple):
    """A person who signs in, as the server caches it. `last_seen_day`: UTC days since 1970."""

    number: int
    email: str
    time_zone: str | None
    last_seen_day: int | None
    has_password: bool
    # Digest of the stored password hash, which changes with every change of the password; b"" without a password.
    password_version: bytes
    # Unused recovery codes of the second factor; None without a second factor.
    recovery_codes: int | None
    passkeys: int = 0

    @property
    def has_factor(self) -> bool:
        """Return whether the person has a second factor, or a passkey, which counts as two."""
        return self.recovery_codes is not None or self.passkeys > 0


def all_accounts(connection: sqlite3.Connection) -> dict[int, Account]:
    """Return every account by its number, oldest first."""
    rows = connection.execute(
        "/* accounts.all */ select number, name, plan, requires_second_factor from account order by number"
    )
    return {number: Account(number, name, plan, bool(required)) for number, name, plan, required in rows}


def all_people(connection: sqlite3.Connection) -> dict[int, Person]:
    """Return every person by number, oldest first."""
    rows = connection.execute(
        "/* accounts.all_people */ select number, email, time_zone, last_seen_day, password_hash,"
        " case when totp_secret is not null then (select count(*) from recovery_code where person = number) end,"
        " (select count(*) from passkey where person = number) from person order by number"
    )
    return {
        number: Person(number, email, zone, day, stored is not None, _password_version(stored), codes, passkeys)
        for number, email, zone, day, stored, codes, passkeys in rows
    }


def _password_version(stored: str | None) -> bytes:
    return b"" if stored is None else blake2b(stored.encode(), digest_size=16).digest()


def find_account(connection: sqlite3.Connection, name: str | None) -> Account:
    """Return the account of that name, or the only account if `name` is None. Raises AccountError."""
    accounts = list(all_accounts(connection).values())
    if name is None:
        if len(accounts) == 1:
            return accounts[0]
        if not accounts:
            raise AccountError(
                "There is no account yet: create one with `account create EMAIL` or `website add DOMAIN`."
            )
        raise AccountError(f"There are {len(accounts)} accounts: choose one with --account EMAIL.")
    for account in accounts:
        if account.name.lower() == name.lower():
            return account
    raise AccountError(f"There is no account {name}: create it with `account create {name}`.")


def with_address(persons: Iterable[Person], email: str) -> Person | None:
    """Return the person with an address, in whichever case; None where there is none."""
    return next((person for person in persons if person.email.lower() == email.lower()), None)


def find_person(connection: sqlite3.Connection, email: str) -> Person:
    """Return the person with an address. Raises AccountError."""
    person = with_address(all_people(connection).values(), email)
    if person is None:
        raise AccountError(f"There is no person {email}: see `account list`.")
    return person


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
    """Create an account and the person who owns it. Raises AccountError if the address is malformed or taken."""
    check_email(email)
    try:
        row = connection.execute(
            "/* accounts.create */ insert into account (name, plan, created_ms) values (?, ?, ?) returning number",
            (email, plan, now_ms),
        ).fetchone()
        person = create_person(connection, email, password_hash, now_ms)
    except sqlite3.IntegrityError:
        raise AccountError(f"There is already an account or a person {email}.") from None
    connection.execute(
        "/* accounts.first_owner */ insert into membership (account, person, role, created_ms)"
        " values (?, ?, 'owner', ?)",
        (row[0], person, now_ms),
    )
    return Account(row[0], email, plan)


def create_person(connection: sqlite3.Connection, email: str, password_hash: str | None, now_ms: int) -> int:
    """Create a person and return the number. Raises sqlite3.IntegrityError if the address is taken."""
    row = connection.execute(
        "/* accounts.create_person */ insert into person (email, password_hash, created_ms) values (?, ?, ?)"
        " returning number",
        (email, password_hash, now_ms),
    ).fetchone()
    return int(row[0])


def set_plan(connection: sqlite3.Connection, name: str, plan: str) -> None:
    """Change the plan of an account. Raises AccountError."""
    number = find_account(connection, name).number
    connection.execute("/* accounts.set_plan */ update account set plan = ? where number = ?", (plan, number))


def credentials_of(connection: sqlite3.Connection, email: str) -> tuple[int, str | None]:
    """Return the number of the person with an address and the hash of the password; 0 and None without person."""
    try:
        number = find_person(connection, email).number
    except AccountError:
        return 0, None
    return number, password_hash_of(connection, number)


def password_hash_of(connection: sqlite3.Connection, number: int) -> str | None:
    """Return the hash of a person's password; None without one."""
    statement = "/* accounts.password_hash_of */ select password_hash from person where number = ?"
    row = connection.execute(statement, (number,)).fetchone()
    return None if row is None else row[0]


def set_password_hash(
    connection: sqlite3.Connection, number: int, password_hash: str, instead_of: str | None = None
) -> None:
    """Change the password of a person; with `instead_of` only if that is still the stored hash."""
    connection.execute(
        "/* accounts.set_password_hash */ update person set password_hash = ? where number = ?"
        " and coalesce(password_hash = ?, 1)",
        (password_hash, number, instead_of),
    )


def set_email(connection: sqlite3.Connection, number: int, email: str) -> None:
    """Change the address of a person, and the name of the account that has the earlier one as its name."""
    connection.execute(
        "/* accounts.rename */ update account set name = ?"
        " where name = (select email from person where number = ?) collate nocase",
        (email, number),
    )
    connection.execute("/* accounts.set_email */ update person set email = ? where number = ?", (email, number))


def set_requires_second_factor(connection: sqlite3.Connection, number: int, is_required: bool) -> None:
    """Set whether an account is closed to its members who have no second factor."""
    connection.execute(
        "/* accounts.require_factor */ update account set requires_second_factor = ? where number = ?",
        (is_required, number),
    )


def set_time_zone(connection: sqlite3.Connection, number: int, name: str | None) -> None:
    """Change the time zone in which reports are shown to a person; None means the browser's time zone."""
    connection.execute("/* accounts.set_time_zone */ update person set time_zone = ? where number = ?", (name, number))
