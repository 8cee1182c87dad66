"""How often somebody may ask: token buckets in memory, bounded, exact.

A bucket holds `per_minute` tokens, is full at the start and refills evenly. It is kept as one number, the moment at
which it will be full again (generic cell rate algorithm): taking a token moves that moment one interval ahead, and
there is a token as long as it lies less than a minute minus one interval ahead of now. A minute, or the span that
buckets are made with.

A bucket left alone for a minute is full, and a full bucket is no bucket: so two generations of at least a minute each
forget nothing that matters. A flood of fresh clients turns the generations earlier, at `most` buckets each: what is
forgotten then starts full again, which is in nobody's disfavour, and memory stays bounded.

No await stands between `wait_s` and `take`: the event loop alone uses this room, and that is its whole locking.
The clock is passed in as monotonic nanoseconds.
"""

import secrets
from array import array
from hashlib import blake2b

MINUTE_NS = 60_000_000_000
# our choice: 2 x 16,384 buckets of about 150 bytes are 5 MB; an honest minute of more is 273 fresh clients a second.
MOST_BUCKETS = 16_384
# 128 KB each. Two of a thousand keys share a slot in one case of thirty.
SLOTS = 16_384


class Buckets:
    """Token buckets by key, all of one size."""

    def __init__(self, per_minute: int, most: int = MOST_BUCKETS, span_ns: int = MINUTE_NS) -> None:
        self.per_minute = per_minute
        self.turned_early = 0
        self._span_ns, self._interval_ns = span_ns, max(1, span_ns // per_minute)
        self._most_ns = self._interval_ns * (per_minute - 1)
        self._most = most
        self._young: dict[bytes | int, int] = {}
        self._old: dict[bytes | int, int] = {}
        self._turned_ns = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def wait_s(self, key: bytes | int, now_ns: int) -> int:
        """0 where the bucket has a token, else the whole seconds after which it will, at least 1."""
        # As _full_at, which has nothing to add to a moment that is past: it has a token then.
        missing_ns = (self._young.get(key) or self._old.get(key, 0)) - now_ns - self._most_ns
        return 0 if missing_ns <= 0 else -(-missing_ns // 1_000_000_000)

    def take(self, key: bytes | int, now_ns: int, tokens: int = 1) -> None:
        """Take tokens; the caller has checked `wait_s` or `wait_for_s`."""
        full_at = self._full_at(key, now_ns) + self._interval_ns * tokens
        if now_ns - self._turned_ns >= self._span_ns or len(self._young) >= self._most:
            self.turned_early += now_ns - self._turned_ns < self._span_ns
            self._old, self._young, self._turned_ns = self._young, {}, now_ns
        self._young[key] = full_at

    def wait_for_s(self, key: bytes | int, tokens: int, now_ns: int) -> int:
        """As wait_s, for several tokens at once; more than the bucket holds are never there."""
        missing_ns = self._full_at(key, now_ns) - now_ns - self._interval_ns * (self.per_minute - tokens)
        return 0 if missing_ns <= 0 else -(-missing_ns // 1_000_000_000)

    def give_back(self, key: bytes | int, now_ns: int, tokens: int = 1) -> None:
        """Put back tokens that were taken for a request that was refused after all."""
        self._young[key] = self._full_at(key, now_ns) - self._interval_ns * tokens

    def remaining(self, key: bytes | int, now_ns: int) -> int:
        """Whole tokens left."""
        return self.per_minute - -(-(self._full_at(key, now_ns) - now_ns) // self._interval_ns)

    def full_in_s(self, key: bytes | int, now_ns: int) -> int:
        """Whole seconds until the bucket is full again."""
        return -(-(self._full_at(key, now_ns) - now_ns) // 1_000_000_000)

    def _full_at(self, key: bytes | int, now_ns: int) -> int:
        full_at = self._young.get(key)
        if full_at is None:
            full_at = self._old.get(key, 0)
        return full_at if full_at > now_ns else now_ns


class HashedBuckets:
    """Token buckets in a table of fixed size: nothing is forgotten and nothing grows, whatever keys are made up.

    A keyed hash says which slot is a key's own. Keys that share a slot share a bucket; the hash's key is random, so
    that a client can neither choose nor learn which.
    """

    def __init__(self, tokens: int, span_ns: int) -> None:
        self._interval_ns = max(1, span_ns // tokens)
        self._most_ns = self._interval_ns * (tokens - 1)
        self._hash_key = secrets.token_bytes(32)
        # When each bucket is full again.
        self._full_ns = array("q", bytes(8 * SLOTS))

    def wait_s(self, key: bytes, now_ns: int) -> int:
        """0 where the bucket has a token, else the whole seconds after which it will, at least 1."""
        missing_ns = self._full_ns[self._slot(key)] - now_ns - self._most_ns
        return 0 if missing_ns <= 0 else -(-missing_ns // 1_000_000_000)

    def take(self, key: bytes, now_ns: int) -> None:
        """Takes a token; the caller has looked with `wait_s`."""
        slot = self._slot(key)
        self._full_ns[slot] = max(self._full_ns[slot], now_ns) + self._interval_ns

    def give_back(self, key: bytes, now_ns: int) -> None:
        """Puts back a token that was taken."""
        slot = self._slot(key)
        self._full_ns[slot] = max(self._full_ns[slot], now_ns) - self._interval_ns

    def _slot(self, key: bytes) -> int:
        return int.from_bytes(blake2b(key, digest_size=8, key=self._hash_key).digest()) % SLOTS
