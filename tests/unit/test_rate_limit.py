"""Token buckets (tally/rate_limit.py). The rules are in docs/reference/collect-api.md."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tally.rate_limit import Buckets
from tests.support.cases import cases

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
START_NS = 1_000 * SECOND_NS
# Rates whose interval is a whole number of nanoseconds, so that the reference below is exact.
RATES = [1, 2, 5, 60, 120, 600]


def ask(buckets: Buckets, key: bytes, now_ns: int) -> bool:
    """Take a token if there is one; return whether there was."""
    if buckets.wait_s(key, now_ns):
        return False
    buckets.take(key, now_ns)
    return True


@cases("rate", [*RATES, 7, 599])
def test_full_at_start(rate: int) -> None:
    """A new bucket has a minute's tokens."""
    buckets = Buckets(rate)
    assert buckets.remaining(b"a", START_NS) == rate
    assert [ask(buckets, b"a", START_NS) for _ in range(rate + 3)] == [True] * rate + [False] * 3
    assert buckets.remaining(b"a", START_NS) == 0


@cases("rate", RATES)
def test_refilled_evenly(rate: int) -> None:
    """One token every 60 s / rate, neither earlier nor in bursts."""
    buckets = Buckets(rate)
    interval_ns = MINUTE_NS // rate
    for _ in range(rate):
        buckets.take(b"a", START_NS)
    for n in range(1, 2 * rate + 1):
        assert not ask(buckets, b"a", START_NS + n * interval_ns - 1)
        assert ask(buckets, b"a", START_NS + n * interval_ns)
        assert not ask(buckets, b"a", START_NS + n * interval_ns)


@cases("rate", RATES)
@cases("passed_s", [60, 61, 3_600, 86_400])
def test_never_more_than_full(rate: int, passed_s: int) -> None:
    """After any pause a bucket has at most a minute's tokens."""
    buckets = Buckets(rate)
    for _ in range(rate):
        buckets.take(b"a", START_NS)
    later_ns = START_NS + passed_s * SECOND_NS
    assert [ask(buckets, b"a", later_ns) for _ in range(rate + 1)] == [True] * rate + [False]


@cases("rate", [*RATES, 7, 599, 100_000])
def test_retry_after(rate: int) -> None:
    """A request after Retry-After seconds is accepted, one a second earlier is not."""
    buckets = Buckets(rate)
    now_ns = START_NS
    for _ in range(rate):
        buckets.take(b"a", now_ns)
    for step_ns in (0, 1, 250_000_000, 333_333_333):
        now_ns += step_ns
        wait_s = buckets.wait_s(b"a", now_ns)
        if wait_s == 0:
            continue
        assert wait_s >= 1
        assert buckets.wait_s(b"a", now_ns + wait_s * SECOND_NS) == 0
        assert wait_s == 1 or buckets.wait_s(b"a", now_ns + (wait_s - 1) * SECOND_NS) > 0


def test_retry_after_of_one_a_minute() -> None:
    """Retry-After is whole seconds, rounded up."""
    buckets = Buckets(1)
    buckets.take(b"a", START_NS)
    assert [buckets.wait_s(b"a", START_NS + ns) for ns in (0, 1, SECOND_NS, MINUTE_NS - 1, MINUTE_NS)] == [
        60,
        60,
        59,
        1,
        0,
    ]


def test_rejected_requests_use_no_token() -> None:
    """All buckets are checked before tokens are taken."""
    buckets = Buckets(3)
    for _ in range(100):
        assert buckets.wait_s(b"a", START_NS) == 0
    assert [ask(buckets, b"a", START_NS) for _ in range(4)] == [True, True, True, False]
    for _ in range(100):
        buckets.wait_s(b"a", START_NS)
    assert ask(buckets, b"a", START_NS + 20 * SECOND_NS)


def test_keys_are_independent() -> None:
    """Each key has its own bucket."""
    buckets = Buckets(2)
    keys = [b"", b"\0", b"a", b"aa", b"b", bytes(8), bytes(16)]
    for key in keys:
        assert [ask(buckets, key, START_NS) for _ in range(3)] == [True, True, False]


def test_returned_tokens() -> None:
    """A request that the writer rejects gets its token back."""
    buckets = Buckets(2)
    buckets.take(b"a", START_NS)
    buckets.take(b"a", START_NS)
    buckets.give_back(b"a", START_NS)
    assert [ask(buckets, b"a", START_NS) for _ in range(2)] == [True, False]
    buckets.give_back(b"a", START_NS + 3 * MINUTE_NS)
    assert [ask(buckets, b"a", START_NS + 3 * MINUTE_NS) for _ in range(3)] == [True, True, False]


@cases("other_s", range(1, 60, 7))
def test_buckets_are_kept_for_a_minute(other_s: int) -> None:
    """Buckets are kept when other clients cause old ones to be removed."""
    buckets = Buckets(1)
    buckets.take(b"other", START_NS)
    buckets.take(b"a", START_NS + other_s * SECOND_NS)
    for second in range(other_s, other_s + 60):
        now_ns = START_NS + second * SECOND_NS
        assert not ask(buckets, b"a", now_ns), second
        ask(buckets, b"more%d" % second, now_ns)
    assert ask(buckets, b"a", START_NS + (other_s + 60) * SECOND_NS)


def test_bounded() -> None:
    """With many new clients the memory stays bounded, and evictions are counted."""
    buckets = Buckets(10, max_buckets=100)
    largest = 0
    for n in range(5_000):
        assert ask(buckets, b"%d" % n, START_NS + n)
        largest = max(largest, len(buckets))
    assert largest <= 200
    assert buckets.evictions > 0


def test_many_clients_within_their_limits_are_kept() -> None:
    """Below the bound no bucket with missing tokens is removed."""
    buckets = Buckets(1, max_buckets=100)
    for n in range(90):
        assert ask(buckets, b"%d" % n, START_NS + n * SECOND_NS // 2)
    for n in range(90):
        assert not ask(buckets, b"%d" % n, START_NS + 45 * SECOND_NS)
    assert buckets.evictions == 0


def test_old_buckets_are_removed() -> None:
    """Unused buckets are removed."""
    buckets = Buckets(10)
    for n in range(1_000):
        buckets.take(b"%d" % n, START_NS)
    for minute in (1, 2, 3):
        buckets.take(b"late", START_NS + minute * MINUTE_NS)
    assert len(buckets) < 10


def test_full_in() -> None:
    """RateLimit-Reset: whole seconds until the bucket is full again."""
    buckets = Buckets(60)
    assert (buckets.remaining(b"a", START_NS), buckets.full_in_s(b"a", START_NS)) == (60, 0)
    for _ in range(5):
        buckets.take(b"a", START_NS)
    assert (buckets.remaining(b"a", START_NS), buckets.full_in_s(b"a", START_NS)) == (55, 5)
    half_ns = START_NS + SECOND_NS // 2
    assert (buckets.remaining(b"a", half_ns), buckets.full_in_s(b"a", half_ns)) == (55, 5)
    assert (buckets.remaining(b"a", START_NS + SECOND_NS), buckets.full_in_s(b"a", START_NS + SECOND_NS)) == (56, 4)


class Plain:
    """A reference token bucket: tokens as a fraction, refilled at each request."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.tokens: dict[bytes, tuple[Fraction, int]] = {}

    def now(self, key: bytes, now_ns: int) -> Fraction:
        tokens, then_ns = self.tokens.get(key, (Fraction(self.rate), now_ns))
        return min(Fraction(self.rate), tokens + Fraction(self.rate * (now_ns - then_ns), MINUTE_NS))

    def ask(self, key: bytes, now_ns: int) -> bool:
        tokens = self.now(key, now_ns)
        taken = tokens >= 1
        self.tokens[key] = (tokens - taken, now_ns)
        return taken


STEPS_NS = st.one_of(
    st.sampled_from([0, 1, SECOND_NS // 10, SECOND_NS // 2, SECOND_NS, 12 * SECOND_NS, MINUTE_NS, MINUTE_NS + 1]),
    st.integers(0, 2 * MINUTE_NS),
)


@given(
    rate=st.sampled_from(RATES[:4]),
    walk=st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), STEPS_NS, st.integers(1, 7)), max_size=60),
)
def test_equals_the_reference_bucket(rate: int, walk: list[tuple[bytes, int, int]]) -> None:
    """The same results as the reference bucket for any sequence of requests."""
    buckets, plain = Buckets(rate), Plain(rate)
    now_ns = START_NS
    for key, step_ns, times in walk:
        now_ns += step_ns
        for _ in range(times):
            assert ask(buckets, key, now_ns) == plain.ask(key, now_ns)
        assert buckets.remaining(key, now_ns) == int(plain.now(key, now_ns))
