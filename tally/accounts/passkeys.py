"""Passkeys of people: the SQL of table passkey, and challenges that have been sent.

A passkey is a key pair of WebAuthn. The private key stays with the person; the server stores the public one, its id and
the number of signatures that it has made. It signs in alone and counts as two factors, since every use needs the device
and, on it, the person's fingerprint, face or PIN (user verification). What browsers send is checked in
tally/accounts/webauthn.py.

Each function with a connection runs in a transaction of its caller.
"""

import secrets
import sqlite3
from hashlib import blake2b
from typing import NamedTuple

from tally.accounts import logins
from tally.accounts.accounts import AccountError, AccountFull

MAX_PASSKEYS = 20
"""Of a person."""
CHALLENGE_BYTES, MAX_CHALLENGES, CHALLENGE_LASTS_NS = 32, 1_000, 5 * 60_000_000_000


class UnknownPasskey(AccountError):
    """There is no such passkey, or it has been removed."""


class CountWentBack(AccountError):
    """The passkey has signed fewer times than before: there is a copy of it."""


class Passkey(NamedTuple):
    """A passkey as it is stored; `last_used_day` counts UTC days since 1970."""

    id: bytes
    person: int
    public_key: bytes
    sign_count: int
    name: str
    created_ms: int
    last_used_day: int | None


class Assertion(NamedTuple):
    """A use of a passkey whose signature was right: its id, the person, and how often it has signed."""

    id: bytes
    person: int
    sign_count: int


class Challenges:
    """Challenges that were sent, in memory, each valid once, for a while, and for whom it was made.

    `owner`: the digest of a session; b"" for a sign-in. Used by the event loop alone.
    """

    def __init__(self) -> None:
        self._sent: dict[bytes, tuple[bytes, int]] = {}

    def new(self, now_ns: int, owner: bytes = b"") -> bytes:
        """Return a random challenge, and forget the oldest of too many."""
        challenge = secrets.token_bytes(CHALLENGE_BYTES)
        self._sent[challenge] = owner, now_ns
        if len(self._sent) > MAX_CHALLENGES:
            del self._sent[next(iter(self._sent))]
        return challenge

    def take(self, challenge: bytes, now_ns: int, owner: bytes = b"") -> bool:
        """Use a challenge up; return whether it was valid for this owner."""
        made_for, made_ns = self._sent.pop(challenge, (None, 0))
        return made_for == owner and now_ns - made_ns < CHALLENGE_LASTS_NS


def handle_of(person: int, salt: bytes) -> bytes:
    """Return what a passkey stores of its person: 32 bytes that only this server can relate to one."""
    return blake2b(str(person).encode(), digest_size=32, key=salt, person=b"passkey").digest()


def passkeys_of(connection: sqlite3.Connection, person: int) -> list[Passkey]:
    """Return the passkeys of a person, oldest first."""
    rows = connection.execute(
        "/* passkeys.of_person */ select id, person, public_key, sign_count, name, created_ms, last_used_day"
        " from passkey where person = ? order by created_ms, id",
        (person,),
    )
    return [Passkey(*row) for row in rows]


def find(connection: sqlite3.Connection, id: bytes) -> Passkey | None:
    """Return the passkey with an id; None where there is none."""
    row = connection.execute(
        "/* passkeys.find */ select id, person, public_key, sign_count, name, created_ms, last_used_day"
        " from passkey where id = ?",
        (id,),
    ).fetchone()
    return None if row is None else Passkey(*row)


def add(connection: sqlite3.Connection, new: Passkey, session: bytes) -> None:
    """Store a passkey; end all sessions of the person but one, and forget all browsers.

    Raises AccountFull for too many, UnknownPasskey where the id is taken.
    """
    if len(passkeys_of(connection, new.person)) >= MAX_PASSKEYS:
        raise AccountFull(f"You have {MAX_PASSKEYS} passkeys, the most that a person may have: remove one first.")
    if find(connection, new.id) is not None:
        raise UnknownPasskey("This passkey is stored already.")
    connection.execute(
        "/* passkeys.add */ insert into passkey (id, person, public_key, sign_count, name, created_ms, last_used_day)"
        " values (?, ?, ?, ?, ?, ?, ?)",
        new,
    )
    logins.delete_of_person(connection, new.person, session)


def use(connection: sqlite3.Connection, used: Assertion, day: int) -> None:
    """Store how often a passkey has signed. Raises UnknownPasskey, CountWentBack."""
    changed = connection.execute(
        "/* passkeys.use */ update passkey set sign_count = ?1, last_used_day = ?2"
        " where id = ?3 and person = ?4 and (sign_count < ?1 or sign_count = 0 and ?1 = 0)",
        (used.sign_count, day, used.id, used.person),
    )
    if not changed.rowcount:
        # An authenticator that does not count sends 0 each time.
        raise UnknownPasskey() if find(connection, used.id) is None else CountWentBack()


def remove(connection: sqlite3.Connection, person: int, id: bytes, session: bytes) -> bool:
    """Remove a passkey; end all sessions of the person but one, and forget all browsers.

    Returns whether there was one.
    """
    statement = "/* passkeys.remove */ delete from passkey where id = ? and person = ?"
    if not connection.execute(statement, (id, person)).rowcount:
        return False
    logins.delete_of_person(connection, person, session)
    return True


def remove_all(connection: sqlite3.Connection, person: int) -> int:
    """Remove all passkeys of a person, and end all sessions; return how many there were."""
    statement = "/* passkeys.remove_all */ delete from passkey where person = ?"
    removed = connection.execute(statement, (person,)).rowcount
    if removed:
        logins.delete_of_person(connection, person)
    return removed
