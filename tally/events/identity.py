"""Keyed hashes that identify a visitor of one website on one of its days.

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


def over_ms(day: int, offset_ms: int) -> int:
    """Return from when on nothing about a day may be kept, in UTC; `offset_ms`: from UTC to the website's time."""
    return (day + 1) * DAY_MS - offset_ms + KEPT_PAST_DAY_MS


def moved_identity(identity: bytes, day: int) -> bytes:
    """Return the identity on a day of the website, for an event that was hashed before its days were moved."""
    return blake2b(b"%d:" % day + identity, digest_size=IDENTITY_BYTES).digest()


class Salts:
    """A random salt for each day and offset of website time, and the identities hashed with it."""

    def __init__(self) -> None:
        # Hash objects with the key already applied: a third less work for each identity.
        self._of_day: dict[tuple[int, int], blake2b] = {}

    def session_identity(self, website: int, ts_ms: int, session_id: str, offset_ms: int = 0) -> bytes:
        """Return the IDENTITY_BYTES of (website, its day of ts_ms, session_id); `offset_ms`: from UTC to its time."""
        return self._hash(b"s%d:" % website + session_id.encode(), ts_ms + offset_ms, offset_ms)

    def client_identity(self, website: int, ts_ms: int, address: bytes, user_agent: str, offset_ms: int = 0) -> bytes:
        """Return the IDENTITY_BYTES of (website, its day of ts_ms, full client address, User-Agent)."""
        text = user_agent.encode("utf-8", "surrogateescape")
        return self._hash(b"c%d:%d:" % (website, len(address)) + address + text, ts_ms + offset_ms, offset_ms)

    def _hash(self, text: bytes, website_ms: int, offset_ms: int) -> bytes:
        day = website_ms // DAY_MS, offset_ms
        salted = self._of_day.get(day)
        if salted is None:
            salted = self._of_day[day] = blake2b(digest_size=IDENTITY_BYTES, key=secrets.token_bytes(32))
        hashed = salted.copy()
        hashed.update(text)
        return hashed.digest()

    def expire(self, deletion_ms: int) -> None:
        """Delete the salts of days that are over at `deletion_ms`, the time that deletions use (tally/clock.py)."""
        for old in [old for old in self._of_day if over_ms(*old) <= deletion_ms]:
            del self._of_day[old]
