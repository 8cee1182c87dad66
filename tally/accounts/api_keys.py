"""API keys of an account.

A key is stored as a digest keyed with the database file's own random salt, so that the file does not reveal which keys
it accepts. Keys are never logged. A function that writes leaves the transaction to the caller.

What a key may do is its `Grant`: scopes, websites and expiry. It is enforced in tally/api/keys.py.
"""

import json
import re
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from tally.accounts.accounts import PLANS_WITH_KEYS, Account, AccountError, AccountFull

# Shown in lists to identify keys: `tly_` and 8 characters, 48 bits of the key's 256.
PREFIX_LENGTH = 12
KEY_START = "tly_"
# Of an account: one for each program that reads, and some.
MAX_KEYS = 100
MAX_DAYS = 3_650

Scope = Literal["reports", "read", "import", "manage"]
# What each scope of a key allows; a route requires one scope.
ALLOWED_BY: dict[str, frozenset[Scope]] = {
    "reports": frozenset(("reports",)),
    "read": frozenset(("reports", "read")),
    "import": frozenset(("import",)),
    "manage": frozenset(("reports", "read", "manage")),
}


class Grant(NamedTuple):
    """What a key may do: its scopes, the ids of its websites (None: all of the account), and when it expires."""

    scopes: tuple[str, ...] = ("read",)
    websites: tuple[str, ...] | None = None
    expires_ms: int | None = None

    def allows(self, scope: Scope) -> bool:
        """Return whether a request that requires the scope is allowed."""
        return any(scope in ALLOWED_BY.get(granted, ()) for granted in self.scopes)

    def covers(self, website: str) -> bool:
        """Return whether a website, by its id, is within the key's websites."""
        return self.websites is None or website in self.websites

    def has_expired(self, now_ms: int) -> bool:
        """Return whether the key is no longer valid."""
        return self.expires_ms is not None and self.expires_ms <= now_ms


DEFAULT_GRANT = Grant()


class ApiKey(NamedTuple):
    """An API key without its value. `created_by`: number of a person, who may have left; None is the command line.

    `client`: the id of an assistant that the person has connected (tally/accounts/assistants.py), None for a key.
    """

    number: int
    account: int
    plan: str
    name: str
    prefix: str
    created_ms: int
    last_used_ms: int | None
    created_by: int | None
    grant: Grant
    client: str | None = None

    @property
    def label(self) -> str:
        """Return what names the key in the audit log: its prefix and its name."""
        return f"{self.prefix} {self.name}".rstrip()


def all_api_keys(connection: sqlite3.Connection) -> dict[bytes, ApiKey]:
    """Return every API key by its digest."""
    rows = connection.execute(
        "/* api_keys.all */ select k.digest, k.number, k.account, a.plan, k.name, k.prefix, k.created_ms,"
        " k.last_used_ms, k.created_by, k.scopes, k.websites, k.expires_ms, k.client"
        " from api_key k join account a on a.number = k.account order by k.number"
    )
    return {row[0]: ApiKey._make((*row[1:9], _grant(*row[9:12]), row[12])) for row in rows}


def _grant(scopes: str, websites: str | None, expires_ms: int | None) -> Grant:
    return Grant(tuple(json.loads(scopes)), None if websites is None else tuple(json.loads(websites)), expires_ms)


def key_salt(connection: sqlite3.Connection) -> bytes:
    """Return the random salt of this database file."""
    return bytes.fromhex(
        connection.execute("/* api_keys.salt */ select value from meta where name = 'key_salt'").fetchone()[0]
    )


def key_digest(value: str, salt: bytes) -> bytes:
    """Return the 32 bytes that are stored in place of an API key, or of a refresh token."""
    return blake2b(value.encode("utf-8", "surrogateescape"), digest_size=32, key=salt).digest()


def create_api_key(
    connection: sqlite3.Connection,
    owner: Account,
    name: str,
    now_ms: int,
    grant: Grant = DEFAULT_GRANT,
    created_by: int | None = None,
    client: str | None = None,
) -> str:
    """Create an API key and return its value, which is not stored. `created_by`: number of a person.

    `client`: of an assistant, whose refresh token the value is.

    Raises AccountError on a plan without keys, AccountFull where the account has MAX_KEYS.
    """
    if owner.plan not in PLANS_WITH_KEYS:
        raise AccountError(
            f"{owner.name} is on the {owner.plan} plan, which has no API keys:"
            f" change it with `account plan {owner.name} pro`."
        )
    statement = "/* api_keys.count */ select count(*) from api_key where account = ?"
    if connection.execute(statement, (owner.number,)).fetchone()[0] >= MAX_KEYS:
        raise AccountFull(f"The account has {MAX_KEYS} API keys, the most that it may have: revoke one first.")
    value = KEY_START + secrets.token_urlsafe(32)
    connection.execute(
        "/* api_keys.create */ insert into api_key (account, name, prefix, digest, created_ms, scopes, websites,"
        " expires_ms, created_by, client) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(owner.number, name, value[:PREFIX_LENGTH], key_digest(value, key_salt(connection)), now_ms),
            json.dumps(grant.scopes),
            None if grant.websites is None else json.dumps(grant.websites),
            grant.expires_ms,
            created_by,
            client,
        ),
    )
    return value


def audited_grant(grant: Grant) -> dict[str, Any]:
    """Return the details of the audit log's line of a new key."""
    return {"scopes": grant.scopes, "websites": grant.websites, "expires_ms": grant.expires_ms}


def check_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Return the different scopes of a key. Raises AccountError where there is none, or one that does not exist."""
    for scope in scopes:
        if scope not in ALLOWED_BY:
            raise AccountError(f"A scope is one of {', '.join(ALLOWED_BY)} (got {scope[:20]!r}).")
    if not scopes:
        raise AccountError(f"A key has at least one scope of {', '.join(ALLOWED_BY)}.")
    return tuple(dict.fromkeys(scopes))


def check_days(days: int) -> int:
    """Return the days after which a key expires. Raises AccountError."""
    if not 1 <= days <= MAX_DAYS:
        raise AccountError(f"A key expires after 1 to {MAX_DAYS:,} days (got {days:,}).")
    return days


def check_prefix(text: str) -> str:
    """Return the beginning of an API key. Raises AccountError for a text with which no key begins."""
    if not re.fullmatch(rf"{KEY_START}[A-Za-z0-9_-]*", text):
        raise AccountError(f"An API key begins with {KEY_START} (got {text!r}): list them with `key list`.")
    return text


def revoke_api_key(connection: sqlite3.Connection, prefix: str) -> ApiKey:
    """Delete the one key that a prefix, or a whole key, identifies, and return it. Raises AccountError."""
    keys = [key for key in all_api_keys(connection).values() if _matches(key.prefix, prefix)]
    if not keys:
        raise AccountError(f"No API key starts with {prefix!r}: list them with `key list`.")
    if len(keys) > 1:
        raise AccountError(f"{len(keys)} API keys start with {prefix!r}: give a longer prefix (see `key list`).")
    delete_api_key(connection, keys[0].number)
    return keys[0]


def delete_api_key(connection: sqlite3.Connection, number: int) -> bool:
    """Delete the API key with that number; return whether there was one."""
    return connection.execute("/* api_keys.delete */ delete from api_key where number = ?", (number,)).rowcount == 1


def delete_api_keys(connection: sqlite3.Connection, account: int) -> None:
    """Delete every API key of an account."""
    connection.execute("/* api_keys.delete_all */ delete from api_key where account = ?", (account,))


def _matches(stored: str, typed: str) -> bool:
    # `given` may be a whole key, of which only the beginning is stored.
    return stored.startswith(typed) or (len(typed) > len(stored) and typed.startswith(stored))


def record_key_use(connection: sqlite3.Connection, used: Iterable[tuple[int, int]]) -> None:
    """Store when API keys were last used: pairs (milliseconds, key number)."""
    connection.executemany("/* api_keys.record_use */ update api_key set last_used_ms = ? where number = ?", used)
