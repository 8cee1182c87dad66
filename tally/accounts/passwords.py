"""Passwords: create and verify argon2id hashes. Pure: no file, no clock, no state.

The parameters are the least that OWASP's Password Storage Cheat Sheet calls safe for argon2id: 19 MiB, 2 passes, 1
lane. More memory would be better against whoever has stolen the file, but a server that is to live in 120 MB cannot
give argon2-cffi's 64 MiB to everybody who types an address; that is also why the caller does one at a time.

A hash says its own parameters. One with others is compared with those and `is_outdated`: its owner, who has just typed
the password, then gets a new one. For an address that no account has, `NOBODY` is compared: it takes as long.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argon2 import PasswordHasher

# OWASP, as above.
MEMORY_KIB = 19_456
PASSES = 2
LANES = 1

NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$MDAwMDAwMDAwMDAwMDAwMA$eXcb9XEPNJ6mpXl6MtGRb2lrvETbwQhwWkGA3g1gb5g"
"""The hash of no password, with these parameters."""


# The fewest are long enough to be worth guessing at a limited rate only; the most are short enough to be hashed.
FEWEST_CHARACTERS, MOST_CHARACTERS = 10, 200
RULE = f"A password has {FEWEST_CHARACTERS} to {MOST_CHARACTERS} characters"
"""The rule for new passwords, in the pages' API and on the command line."""


def is_allowed(password: str) -> bool:
    """Return whether a new password satisfies RULE."""
    return FEWEST_CHARACTERS <= len(password) <= MOST_CHARACTERS


def hashed(password: str) -> str:
    """Return the hash to store: 20 to 40 ms and 19 MiB."""
    return _hasher().hash(password)


def is_right(password_hash: str, password: str) -> bool:
    """Return whether a hash is that of the password; False for a malformed hash."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(password_hash: str) -> bool:
    """Return whether a hash has other parameters than the current ones."""
    return _hasher().check_needs_rehash(password_hash)


@lru_cache(maxsize=1)
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher  # here: 20 ms at the start of every command, and most need none

    return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)
