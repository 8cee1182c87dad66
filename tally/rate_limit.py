"""Rate limits: token buckets in memory, exact and of bounded size.

A bucket holds `per_minute` tokens, starts full and refills evenly over its span (a minute by default). It is stored as
one number, the time at which it will be full again (generic cell rate algorithm): taking a token moves that time ahead
by one interval, and a token is available while it lies less than the span minus one interval ahead of now.

A bucket that is unused for its span is full, and a full bucket needs no entry. So buckets are kept in two generations
of at least one span each, and dropping the older one changes no result. A flood of new clients rotates the generations
early, at `max_buckets` each: a dropped bucket starts full again, which only favours clients, and memory stays bounded.

There is no await between `wait_s` and `take`, and the event loop alone uses this module, so no lock is needed.
Times are monotonic nanoseconds, passed in.
"""

import secrets
from array import array
from hashlib import blake2b

MINUTE_NS = 60_000_000_000
# 2 x 16,384 buckets of about 150 bytes are 5 MB; more clients in a minute would be 273 new ones a second.
MAX_BUCKETS = 16_384
# 8 bytes each: 128 KB. Of a thousand keys in use, about 6 % share their slot with another.
SLOTS = 16_384


class Buckets:
    """Token buckets of one size, by key."""

    def __init__(self, per_minute: int, max_buckets: int = MAX_BUCKETS, span_ns: int = MINUTE_NS) -> None:
        self.per_minute = per_minute
        self.evictions = 0
        self._span_ns, self._interval_ns = span_ns, max(1, span_ns // per_minute)
        self._max_ns = self._interval_ns * (per_minute - 1)
        self._max_buckets = max_buckets
        self._current: dict[bytes | int, int] = {}
        self._previous: dict[bytes | int, int] = {}
        self._rotated_ns = 0

    def __len__(self) -> int:
        return len(self._current) + len(self._previous)

    def wait_s(self, key: bytes | int, now_ns: int) -> int:
        """Return 0 if the bucket has a token, else the whole seconds until it has one, at least 1."""
        # Without _full_at, for speed: a time in the past needs no correction here, the bucket has a token then.
        missing_ns = (self._current.get(key) or self._previous.get(key, 0)) - now_ns - self._max_ns
        return 0 if missing_ns <= 0 else -(-missing_ns // 1_000_000_000)

    def take(self, key: bytes | int, now_ns: int, tokens: int = 1) -> None:
        """Take tokens; the caller has checked `wait_s` or `wait_for_s`."""
        full_at = self._full_at(key, now_ns) + self._interval_ns * tokens
        if now_ns - self._rotated_ns >= self._span_ns or len(self._current) >= self._max_buckets:
            self.evictions += now_ns - self._rotated_ns < self._span_ns
            self._previous, self._current, self._rotated_ns = self._current, {}, now_ns
        self._current[key] = full_at

    def wait_for_s(self, key: bytes | int, tokens: int, now_ns: int) -> int:
        """Return what wait_s does, for several tokens at once. More than the bucket holds never become available."""
        missing_ns = self._full_at(key, now_ns) - now_ns - self._interval_ns * (self.per_minute - tokens)
        return 0 if missing_ns <= 0 else -(-missing_ns // 1_000_000_000)

    def give_back(self, key: bytes | int, now_ns: int, tokens: int = 1) -> None:
        """Return tokens that were taken for a request that was refused afterwards."""
        self._current[key] = self._full_at(key, now_ns) - self._interval_ns * tokens

    def remaining(self, key: bytes | int, now_ns: int) -> int:
        """Return the whole tokens left."""
        return self.per_minute - -(-(self._full_at(key, now_ns) - now_ns) // self._interval_ns)

    def full_in_s(self, key: bytes | int, now_ns: int) -> int:
        """Return the whole seconds until the bucket is full again."""
        return -(-(self._full_at(key, now_ns) - now_ns) // 1_000_000_000)

    def _full_at(self, key: bytes | int, now_ns: int) -> int:
        full_at = self._current.get(key)
        if full_at is None:
            full_at = self._previous.get(key, 0)
        return full_at if full_at > now_ns else now_ns


class HashedBuckets:
    """Token buckets in a table of fixed size: no bucket is dropped and memory is constant, whatever keys are sent.

    A keyed hash maps a key to its slot. Keys of one slot share a bucket; the hash's key is random, so that a client
    can neither choose nor detect which keys do.
    """

    def __init__(self, tokens: int, span_ns: int) -> None:
        self._interval_ns = max(1, span_ns // tokens)
        self._max_ns = self._interval_ns * (tokens - 1)
        self._hash_key = secrets.token_bytes(32)
        # When each bucket is full again.
        self._full_ns = array("q", bytes(8 * SLOTS))

    def wait_s(self, key: bytes, now_ns: int) -> int:
        """Return 0 if the bucket has a token, else the whole seconds until it has one, at least 1."""
        missing_ns = self._full_ns[self._slot(key)] - now_ns - self._max_ns
        return 0 if missing_ns <= 0 else -(-missing_ns // 1_000_000_000)

    def take(self, key: bytes, now_ns: int) -> None:
        """Take a token; the caller has checked `wait_s`."""
        slot = self._slot(key)
        self._full_ns[slot] = max(self._full_ns[slot], now_ns) + self._interval_ns

    def give_back(self, key: bytes, now_ns: int) -> None:
        """Return a token that was taken."""
        slot = self._slot(key)
        self._full_ns[slot] = max(self._full_ns[slot], now_ns) - self._interval_ns

    def _slot(self, key: bytes) -> int:
        return int.from_bytes(blake2b(key, digest_size=8, key=self._hash_key).digest()) % SLOTS
