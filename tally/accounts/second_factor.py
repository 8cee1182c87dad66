"""The second factor of a person: one-time codes of an authenticator app, and recovery codes.

Codes are those of RFC 6238 with the parameters that every app has: SHA-1, 6 digits, 30 seconds. A code counts in the
step before and after its own, for clocks that differ, and once: the step of the last code is stored in the transaction
of what the code was for, and no code of it or of an earlier step counts again (RFC 6238, 5.2). The code that confirms
the setup is used too. Recovery codes are random, are stored as keyed digests, and are deleted as they are used.

The secret is stored as it is: the server computes codes from it, and a key for it would lie beside the file.

Each function with a connection runs in a transaction of its caller.
"""

import base64
import hmac
import re
import secrets
import sqlite3
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote

from tally.accounts import logins, passkeys
from tally.accounts.accounts import AccountError
from tally.accounts.passkeys import Assertion
from tally.timestamps import DAY_MS

T = TypeVar("T")
STEP_MS, DIGITS, SECRET_BYTES = 30_000, 6, 20
# Steps before and after the current one whose codes count.
TOLERANCE = 1
RECOVERY_CODES, RECOVERY_BITS = 10, 50
MAX_SETUPS, SETUP_LASTS_NS = 1_000, 15 * 60_000_000_000
_RECOVERY_CODE = re.compile(r"[a-z2-7]{10}")
_MAX_LABEL = 60

Method = Literal["totp", "recovery_code", "passkey"]


class FactorRequired(AccountError):
    """The person has a second factor, and no code was sent."""

    def __init__(self, methods: list[Method]) -> None:
        super().__init__("A code of the second factor is required.")
        self.methods = methods


class WrongCode(AccountError):
    """The code is wrong, expired or used."""


class FactorChanged(AccountError):
    """The second factor has been changed meanwhile."""


class Proof(NamedTuple):
    """What shows that a person acts: a code, or the use of a passkey, of which neither is required for a sign-in where
    the person has no second factor.

    `is_change`: it is for a change of the factors, for which a passkey has to be shown where there is no other factor.
    """

    code: str | None = None
    passkey: Assertion | None = None
    is_change: bool = False


class Use(NamedTuple):
    """A factor that was used, and the number of recovery codes that are left."""

    method: Method
    left: int


class Setup(NamedTuple):
    """A secret that no code has confirmed yet, what it replaces, and when the setup began."""

    secret: bytes
    instead_of: bytes | None
    begun_ns: int


class Setups:
    """Setups that have begun, in memory, by session: the newest, for a while. Used by the event loop alone."""

    def __init__(self) -> None:
        self._setups: dict[bytes, Setup] = {}

    def keep(self, session: bytes, setup: Setup) -> None:
        """Remember the setup of a session in place of one of before, and drop the oldest of too many."""
        self._setups.pop(session, None)
        self._setups[session] = setup
        if len(self._setups) > MAX_SETUPS:
            del self._setups[next(iter(self._setups))]

    def get(self, session: bytes, now_ns: int) -> Setup | None:
        """Return the setup of a session; None where there is none or its time is over."""
        setup = self._setups.get(session)
        return setup if setup is not None and now_ns - setup.begun_ns < SETUP_LASTS_NS else None

    def drop(self, session: bytes) -> None:
        """End the setup of a session."""
        self._setups.pop(session, None)


# --- codes


def new_secret() -> bytes:
    """Return a random secret."""
    return secrets.token_bytes(SECRET_BYTES)


def code_of(secret: bytes, step: int) -> str:
    """Return the code of a step (RFC 4226, 5.3)."""
    digest = hmac.digest(secret, step.to_bytes(8), "sha1")
    at = digest[-1] & 15
    number = int.from_bytes(digest[at : at + 4]) & 0x7FFFFFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"


def step_of(secret: bytes, code: str, now_ms: int, after: int = -1) -> int | None:
    """Return the step of a code that counts now, later than `after`; None where there is none."""
    now = now_ms // STEP_MS
    sent = normal(code).encode("utf-8", "surrogatepass")
    for step in range(max(now - TOLERANCE, after + 1), now + TOLERANCE + 1):
        if hmac.compare_digest(code_of(secret, step).encode(), sent):
            return step
    return None


def normal(code: str) -> str:
    """Return a code as it is compared: without white space and hyphens, in lower case."""
    return re.sub(r"[\s-]", "", code).lower()


def is_recovery_code(code: str) -> bool:
    """Return whether a text has the form of a recovery code."""
    return _RECOVERY_CODE.fullmatch(normal(code)) is not None


def base32(secret: bytes) -> str:
    """Return a secret as apps take it."""
    return base64.b32encode(secret).decode()


def uri(secret: bytes, email: str, issuer: str) -> str:
    """Return the address that an app reads from a QR code. A long email address is cut: it is a label."""
    label = quote(f"{issuer}:{email[:_MAX_LABEL]}", safe="@:")
    return f"otpauth://totp/{label}?secret={base32(secret)}&issuer={quote(issuer, safe='')}"


def new_recovery_codes() -> list[str]:
    """Return new recovery codes, as they are shown."""
    return [_recovery_code() for _ in range(RECOVERY_CODES)]


def _recovery_code() -> str:
    # 56 bits in base32 are 12 characters, of which 10 are 50 bits.
    text = base64.b32encode(secrets.token_bytes(7)).decode().lower()[: RECOVERY_BITS // 5]
    return f"{text[:5]}-{text[5:]}"


def recovery_digest(person: int, code: str, salt: bytes) -> bytes:
    """Return the stored digest of a person's recovery code."""
    return blake2b(f"{person}:{normal(code)}".encode(), digest_size=32, key=salt, person=b"recovery").digest()


# --- the factor of a person


def secret_of(connection: sqlite3.Connection, person: int) -> bytes | None:
    """Return the secret of a person's second factor; None without one."""
    row = connection.execute(
        "/* second_factor.secret */ select totp_secret from person where number = ?", (person,)
    ).fetchone()
    return None if row is None else row[0]


def use(connection: sqlite3.Connection, person: int, proof: Proof, now_ms: int, salt: bytes) -> Use | None:
    """Check a factor and use it up; None where the person needs none.

    Raises FactorRequired, WrongCode, and what passkeys.use raises.
    """
    if proof.passkey is not None:
        passkeys.use(connection, proof.passkey, now_ms // DAY_MS)
        return Use("passkey", _codes_left(connection, person))
    row = connection.execute(
        "/* second_factor.read */ select totp_secret, totp_step from person where number = ?", (person,)
    ).fetchone()
    if row is None or row[0] is None:
        if _needs_passkey(connection, person, proof.is_change):
            raise FactorRequired(["passkey"])
        return None
    code = proof.code
    if code is None:
        raise FactorRequired(["totp", "recovery_code"] if _codes_left(connection, person) else ["totp"])
    if is_recovery_code(code):
        used = connection.execute(
            "/* second_factor.use_recovery_code */ delete from recovery_code where person = ? and digest = ?",
            (person, recovery_digest(person, code, salt)),
        )
        if not used.rowcount:
            raise WrongCode("This recovery code is wrong or was used before.")
        return Use("recovery_code", _codes_left(connection, person))
    step = step_of(row[0], code, now_ms, row[1])
    if step is None:
        raise WrongCode("This code is wrong, has expired or was used before.")
    connection.execute("/* second_factor.use_step */ update person set totp_step = ? where number = ?", (step, person))
    return Use("totp", _codes_left(connection, person))


def _needs_passkey(connection: sqlite3.Connection, person: int, is_change: bool) -> bool:
    """Return whether a person without codes has a passkey that has to be shown beside the password.

    A sign-in by the password alone would be less than what an account that requires a second factor asks for.
    """
    statement = (
        "/* second_factor.needs_passkey */ select 1 from passkey where person = ?1 and (?2 or exists (select 1 from"
        " membership join account on number = account where membership.person = ?1 and requires_second_factor)) limit 1"
    )
    return connection.execute(statement, (person, is_change)).fetchone() is not None


def with_proof(
    step: Callable[[Any], T], person: int, proof: Proof, now_ms: int, salt: bytes, *, needs_codes: bool = False
) -> Callable[[sqlite3.Connection], tuple[Use | None, T]]:
    """Return a function that does what `step` does and uses up a factor, and returns what was used and the result.

    It raises as `use`; with `needs_codes` FactorChanged where the person has no codes of an app.
    """

    def both(connection: sqlite3.Connection) -> tuple[Use | None, T]:
        if needs_codes and secret_of(connection, person) is None:
            raise FactorChanged("There is no second factor.")
        return use(connection, person, proof, now_ms, salt), step(connection)

    return both


def _codes_left(connection: sqlite3.Connection, person: int) -> int:
    statement = "/* second_factor.codes_left */ select count(*) from recovery_code where person = ?"
    return int(connection.execute(statement, (person,)).fetchone()[0])


def set_up(
    connection: sqlite3.Connection,
    person: int,
    secret: bytes,
    step: int,
    instead_of: bytes | None,
    digests: list[bytes],
    session: bytes,
) -> None:
    """Set the secret, whose code of `step` was used, and the recovery codes; end all other sessions.

    Raises FactorChanged unless `instead_of` is still the secret.
    """
    if secret_of(connection, person) != instead_of:
        raise FactorChanged("The second factor has been changed meanwhile: begin again.")
    connection.execute(
        "/* second_factor.set */ update person set totp_secret = ?, totp_step = ? where number = ?",
        (secret, step, person),
    )
    replace_recovery_codes(connection, person, digests, session)


def replace_recovery_codes(connection: sqlite3.Connection, person: int, digests: list[bytes], session: bytes) -> None:
    """Store other recovery codes in place of a person's; end all sessions but one, and forget all browsers."""
    _delete_recovery_codes(connection, person)
    connection.executemany(
        "/* second_factor.add_code */ insert into recovery_code (person, digest) values (?, ?)",
        [(person, digest) for digest in digests],
    )
    logins.delete_of_person(connection, person, session)


def remove(connection: sqlite3.Connection, person: int, session: bytes = b"") -> bool:
    """Remove a person's second factor; end all sessions but one, and forget all browsers.

    Returns whether there was one.
    """
    if secret_of(connection, person) is None:
        return False
    connection.execute(
        "/* second_factor.remove */ update person set totp_secret = null, totp_step = null where number = ?", (person,)
    )
    _delete_recovery_codes(connection, person)
    logins.delete_of_person(connection, person, session)
    return True


def _delete_recovery_codes(connection: sqlite3.Connection, person: int) -> None:
    connection.execute("/* second_factor.delete_codes */ delete from recovery_code where person = ?", (person,))
