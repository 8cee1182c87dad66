"""Passwords: create and verify argon2id hashes. Pure: no file, no clock, no state.

The parameters are the least that OWASP's Password Storage Cheat Sheet calls safe for argon2id: 19 MiB, 2 passes, 1
lane. More memory would protect a stolen file better, but argon2-cffi's 64 MiB on every sign-in attempt would be nearly
as much as an idle server needs in all; for the same reason the caller computes one hash at a time.

A hash contains its parameters. One with other parameters is verified with those and `is_outdated`: it is replaced after
the next successful sign-in. For an email address without an account, `NO_ACCOUNT` is compared, which takes as long.

Hashed is the text in Unicode's form NFC: a macOS keyboard, a paste and a password manager may write the same "é" as one
character or as two.
"""

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argon2 import PasswordHasher

# OWASP, as above.
MEMORY_KIB = 19_456
PASSES = 2
LANES = 1

NO_ACCOUNT = "$argon2id$v=19$m=19456,t=2,p=1$MDAwMDAwMDAwMDAwMDAwMA$eXcb9XEPNJ6mpXl6MtGRb2lrvETbwQhwWkGA3g1gb5g"
"""The hash of no password, with these parameters."""


# The fewest are long enough to be worth guessing at a limited rate only; the most are short enough to be hashed.
MIN_CHARACTERS, MAX_CHARACTERS = 10, 200
RULE = f"A password has {MIN_CHARACTERS} to {MAX_CHARACTERS} characters"
"""The rule for new passwords, in the pages' API and on the command line."""


def is_allowed(password: str) -> bool:
    """Return whether a password satisfies RULE."""
    return MIN_CHARACTERS <= len(_composed(password)) <= MAX_CHARACTERS


def hashed(password: str) -> str:
    """Return the hash to store: 20 to 40 ms and 19 MiB."""
    return _hasher().hash(_composed(password))


def is_right(password_hash: str, password: str) -> bool:
    """Return whether a hash is that of the password; False for a malformed hash."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(password_hash, _composed(password))
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(password_hash: str) -> bool:
    """Return whether a hash has other parameters than the current ones."""
    return _hasher().check_needs_rehash(password_hash)


def _composed(password: str) -> str:
    """Return NFC; a text that is longer than any allowed password can be is returned as it is.

    A character is at most four in another form, and sorting combining characters takes quadratic time.
    """
    return unicodedata.normalize("NFC", password) if len(password) <= 4 * MAX_CHARACTERS else password


@lru_cache(maxsize=1)
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher  # here: 20 ms at the start of every command, and most need none

    return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)
