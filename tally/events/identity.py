"""Keyed hashes that identify a visitor of one website on one UTC day.

The key (salt) of a day is random and exists in memory only, so an identity cannot be traced back to an address, a
User-Agent or a session_id, and the same visitor has another identity on another day, on another website and after a
restart. Addresses, User-Agents and session_ids are hashed here and not kept.

Used by the event loop alone, so there is no lock: no await stands between reading and changing a salt.
"""

import secrets
from hashlib import blake2b

from tally.timestamps import DAY_MS

# docs/reference/definitions.md: at most 72 hours after the end of their day; the oldest timestamp allowed is as old.
KEPT_PAST_DAY_MS = 72 * 3_600_000
# 120 bits: collisions are out of the question. A bytes object of 15 takes 48 bytes of memory, one of 16 takes 64.
IDENTITY_BYTES = 15


def is_over(day: int, now_ms: int) -> bool:
    """Return whether nothing about that UTC day may be kept any more."""
    return (day + 1) * DAY_MS + KEPT_PAST_DAY_MS <= now_ms


class Salts:
    """A random salt for each UTC day, and the identities hashed with it."""

    def __init__(self) -> None:
        # Hash objects with the key already applied: a third less work for each identity.
        self._of_day: dict[int, blake2b] = {}

    def session_identity(self, website: int, ts_ms: int, session_id: str) -> bytes:
        """Return the IDENTITY_BYTES of (website, UTC day of ts_ms, session_id)."""
        return self._hash(b"s%d:" % website + session_id.encode(), ts_ms // DAY_MS)

    def client_identity(self, website: int, ts_ms: int, address: bytes, user_agent: str) -> bytes:
        """Return the IDENTITY_BYTES of (website, UTC day of ts_ms, full client address, User-Agent)."""
        text = user_agent.encode("utf-8", "surrogateescape")
        return self._hash(b"c%d:%d:" % (website, len(address)) + address + text, ts_ms // DAY_MS)

    def _hash(self, text: bytes, day: int) -> bytes:
        salted = self._of_day.get(day)
        if salted is None:
            salted = self._of_day[day] = blake2b(digest_size=IDENTITY_BYTES, key=secrets.token_bytes(32))
        hashed = salted.copy()
        hashed.update(text)
        return hashed.digest()

    def expire(self, deletion_ms: int) -> None:
        """Delete the salts of days that are over at `deletion_ms`, the time that deletions use (tally/clock.py)."""
        for old in [old for old in self._of_day if is_over(old, deletion_ms)]:
            del self._of_day[old]
