"""Who is logged in: sessions of the pages, in memory and in table `login`.

A session is a random value in a cookie. The file holds a digest of it, keyed with the file's own salt, whose it is and
until when: nothing about the browser, and nothing that could be sent in the cookie's place. It lasts 30 days from the
last visit; that is moved on at most once a day, so that looking at figures does not write.

A device is a browser from which the account was opened: another random value in a cookie of its own, kept in the same
way in table `device`, for a year from the last login. It opens nothing; it only has tries of the password counted apart
from those of strangers (docs/sign-in.md). Another password and "log out everywhere" end sessions and devices.

The server keeps all of them in memory with whatever else owners set up (tally/storage/account_cache.py), and reads them
anew when another process has written: a password that is set by the command line logs every browser out. The functions
below are the SQL, for a transaction of the caller; they are given digests, never values.
"""

import secrets
import sqlite3
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from tally.timestamps import DAY_MS

# our choice, as many pages of this kind have it.
LASTS_MS = 30 * DAY_MS
# our choice: more browsers than a person has; the oldest make room.
MOST_OF_ACCOUNT = 50


# A year, as the cookie that a login sets.
DEVICE_LASTS_MS = 365 * DAY_MS


class Login(NamedTuple):
    """A browser that is logged in, or that is known."""

    account: int
    created_ms: int
    ends_ms: int

    def is_worn(self, now_ms: int) -> bool:
        """Whether its end is to be moved on."""
        return self.ends_ms - now_ms < LASTS_MS - DAY_MS


def new_value() -> str:
    """A value for a cookie: 32 random bytes."""
    return secrets.token_urlsafe(32)


def digest_of(value: str, salt: bytes) -> bytes:
    """What is kept of a session cookie's value."""
    return _digest(value, salt, b"login")


def device_digest_of(value: str, salt: bytes) -> bytes:
    """What is kept of a device cookie's value."""
    return _digest(value, salt, b"device")


def _digest(value: str, salt: bytes, person: bytes) -> bytes:
    # `person` keeps these digests apart from each other and from those of API keys under the same salt.
    sent = value.encode("utf-8", "surrogateescape")
    return blake2b(sent, digest_size=32, key=salt, person=person).digest()


def of_account(known: Mapping[bytes, Login], account: int) -> list[bytes]:
    """The digests of an account's sessions, oldest first."""
    own = [(login.created_ms, digest) for digest, login in known.items() if login.account == account]
    return [digest for _, digest in sorted(own)]


def stored(connection: sqlite3.Connection) -> dict[bytes, Login]:
    """Every session in the file."""
    rows = connection.execute("/* logins.all */ select digest, account, created_ms, expires_ms from login").fetchall()
    return {digest: Login(*rest) for digest, *rest in rows}


def store(connection: sqlite3.Connection, digest: bytes, login: Login) -> None:
    """A session begins, or goes on for longer."""
    connection.execute("/* logins.store */ insert or replace into login values (?, ?, ?, ?)", (digest, *login))


def prolong(connection: sqlite3.Connection, digest: bytes, ends_ms: int) -> None:
    """A session goes on for longer, if it has not been ended meanwhile."""
    connection.execute("/* logins.prolong */ update login set expires_ms = ? where digest = ?", (ends_ms, digest))


def forget_account(connection: sqlite3.Connection, account: int, but: bytes = b"") -> None:
    """An account's sessions end, but for one, and no browser is known any more."""
    connection.execute("/* logins.forget_all */ delete from login where account = ? and digest <> ?", (account, but))
    connection.execute("/* logins.forget_devices_of */ delete from device_cookie where account = ?", (account,))


def forget(connection: sqlite3.Connection, digests: list[bytes]) -> None:
    """Sessions end."""
    connection.executemany("/* logins.forget */ delete from login where digest = ?", [(one,) for one in digests])


def stored_devices(connection: sqlite3.Connection) -> dict[bytes, Login]:
    """Every known browser in the file."""
    rows = connection.execute(
        "/* logins.devices */ select digest, account, created_ms, expires_ms from device_cookie"
    ).fetchall()
    return {digest: Login(*rest) for digest, *rest in rows}


def store_device(connection: sqlite3.Connection, digest: bytes, device: Login) -> None:
    """A browser is known from now on."""
    connection.execute(
        "/* logins.store_device */ insert or replace into device_cookie values (?, ?, ?, ?)", (digest, *device)
    )


def forget_devices(connection: sqlite3.Connection, digests: list[bytes]) -> None:
    """Browsers are not known any more."""
    rows = [(digest,) for digest in digests]
    connection.executemany("/* logins.forget_devices */ delete from device_cookie where digest = ?", rows)
