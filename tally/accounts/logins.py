"""Sessions of the pages and device cookies: the SQL of tables login and device_cookie.

A session is a random value in a cookie. The database stores a digest of it, keyed with the file's salt, its person,
creation time and expiry: nothing about the browser, and nothing that could be used as the cookie. A session expires 30
days after its last use; the expiry is updated at most once a day, so that reading reports does not write.

A device cookie is another random value, stored in the same way for a year after the last login in a browser. It grants
no access: it only makes the rate limit of password attempts separate for that browser (docs/sign-in.md). A new password
and "log out everywhere" delete sessions and device cookies.

The server caches all of them (tally/storage/account_cache.py) and reloads them when another process has written, so
that a password set by the command line ends all sessions. The functions run in a transaction of the caller and take
digests, never values.
"""

import secrets
import sqlite3
from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal, NamedTuple

from tally.timestamps import DAY_MS

# The usual length of "stay logged in".
LASTS_MS = 30 * DAY_MS
# More browsers than a person uses; the oldest sessions are replaced.
MAX_OF_PERSON = 50


# A year, as the cookie that a login sets.
DEVICE_LASTS_MS = 365 * DAY_MS


class Login(NamedTuple):
    """A session or a device cookie. `via`: what has begun the session, as the audit log has it.

    The expiry of a session that an OpenID provider has begun is absolute: the provider decides again then.
    """

    person: int
    created_ms: int
    ends_ms: int
    via: Literal["session", "oidc"] = "session"

    def is_worn(self, now_ms: int) -> bool:
        """Return whether the expiry should be updated."""
        return self.via == "session" and self.ends_ms - now_ms < LASTS_MS - DAY_MS


def new_value() -> str:
    """Return a cookie value of 32 random bytes."""
    return secrets.token_urlsafe(32)


def digest_of(value: str, salt: bytes) -> bytes:
    """Return the stored digest of a session cookie."""
    return _digest(value, salt, b"login")


def device_digest_of(value: str, salt: bytes) -> bytes:
    """Return the stored digest of a device cookie."""
    return _digest(value, salt, b"device")


def _digest(value: str, salt: bytes, person: bytes) -> bytes:
    # `person` keeps these digests apart from each other and from those of API keys under the same salt.
    sent = value.encode("utf-8", "surrogateescape")
    return blake2b(sent, digest_size=32, key=salt, person=person).digest()


def of_person(known: Mapping[bytes, Login], person: int) -> list[bytes]:
    """Return the digests of a person's sessions, oldest first."""
    sessions = [(login.created_ms, digest) for digest, login in known.items() if login.person == person]
    return [digest for _, digest in sorted(sessions)]


def stored(connection: sqlite3.Connection) -> dict[bytes, Login]:
    """Every session in the file."""
    rows = connection.execute(
        "/* logins.all */ select digest, person, created_ms, expires_ms, via from login"
    ).fetchall()
    return {digest: Login(*rest) for digest, *rest in rows}


def store(connection: sqlite3.Connection, digest: bytes, login: Login) -> None:
    """A session begins, or goes on for longer."""
    connection.execute(
        "/* logins.store */ insert or replace into login (digest, person, created_ms, expires_ms, via)"
        " values (?, ?, ?, ?, ?)",
        (digest, *login),
    )
    record_seen(connection, login.person, login.created_ms // DAY_MS)


def prolong(connection: sqlite3.Connection, digest: bytes, person: int, ends_ms: int) -> None:
    """A session goes on for longer, if it has not been ended meanwhile; its person is seen today."""
    record_seen(connection, person, (ends_ms - LASTS_MS) // DAY_MS)
    connection.execute("/* logins.prolong */ update login set expires_ms = ? where digest = ?", (ends_ms, digest))


def record_seen(connection: sqlite3.Connection, person: int, day: int) -> None:
    """A person has opened a page on a day, counted from 1970 in UTC."""
    connection.execute("/* logins.seen */ update person set last_seen_day = ? where number = ?", (day, person))


def delete_of_person(connection: sqlite3.Connection, person: int, but: bytes = b"") -> None:
    """A person's sessions end, but for one, and no browser is known any more."""
    connection.execute("/* logins.delete_all */ delete from login where person = ? and digest <> ?", (person, but))
    connection.execute("/* logins.delete_devices_of */ delete from device_cookie where person = ?", (person,))


def delete(connection: sqlite3.Connection, digests: list[bytes]) -> None:
    """Sessions end."""
    connection.executemany("/* logins.delete */ delete from login where digest = ?", [(digest,) for digest in digests])


def stored_devices(connection: sqlite3.Connection) -> dict[bytes, Login]:
    """Every known browser in the file."""
    rows = connection.execute(
        "/* logins.devices */ select digest, person, created_ms, expires_ms from device_cookie"
    ).fetchall()
    return {digest: Login(*rest) for digest, *rest in rows}


def store_device(connection: sqlite3.Connection, digest: bytes, device: Login) -> None:
    """A browser is known from now on."""
    connection.execute(
        "/* logins.store_device */ insert or replace into device_cookie (digest, person, created_ms, expires_ms)"
        " values (?, ?, ?, ?)",
        (digest, *device[:3]),
    )


def delete_devices(connection: sqlite3.Connection, digests: list[bytes]) -> None:
    """Browsers are not known any more."""
    rows = [(digest,) for digest in digests]
    connection.executemany("/* logins.delete_devices */ delete from device_cookie where digest = ?", rows)
