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
    """Takes a token where there is one; whether there was."""
    if buckets.wait_s(key, now_ns):
        return False
    buckets.take(key, now_ns)
    return True


@cases("rate", [*RATES, 7, 599])
def test_full_at_start(rate: int) -> None:
    """Buckets: 600 a minute a client, 120 a minute a client and website, full at start."""
    buckets = Buckets(rate)
    assert buckets.remaining(b"a", START_NS) == rate
    assert [ask(buckets, b"a", START_NS) for _ in range(rate + 3)] == [True] * rate + [False] * 3
    assert buckets.remaining(b"a", START_NS) == 0


@cases("rate", RATES)
def test_refilled_evenly(rate: int) -> None:
    """Refilled evenly: one token each 60 s / rate, neither earlier nor in bursts."""
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
    """However long nobody asked, a bucket holds a minute's tokens."""
    buckets = Buckets(rate)
    for _ in range(rate):
        buckets.take(b"a", START_NS)
    later_ns = START_NS + passed_s * SECOND_NS
    assert [ask(buckets, b"a", later_ns) for _ in range(rate + 1)] == [True] * rate + [False]


@cases("rate", [*RATES, 7, 599, 100_000])
def test_retry_after(rate: int) -> None:
    """Retry-After is whole seconds, at least 1: sent then, the request passes. And a second earlier it would not."""
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


def test_looking_takes_nothing() -> None:
    """A refused request takes no token: all buckets are looked at first."""
    buckets = Buckets(3)
    for _ in range(100):
        assert buckets.wait_s(b"a", START_NS) == 0
    assert [ask(buckets, b"a", START_NS) for _ in range(4)] == [True, True, True, False]
    for _ in range(100):
        buckets.wait_s(b"a", START_NS)
    assert ask(buckets, b"a", START_NS + 20 * SECOND_NS)


def test_keys_have_nothing_to_do_with_each_other() -> None:
    """A bucket a client, and a bucket a client and website."""
    buckets = Buckets(2)
    keys = [b"", b"\0", b"a", b"aa", b"b", bytes(8), bytes(16)]
    for key in keys:
        assert [ask(buckets, key, START_NS) for _ in range(3)] == [True, True, False]


def test_given_back() -> None:
    """A refused request takes no token: one that the writer refused gets it back."""
    buckets = Buckets(2)
    buckets.take(b"a", START_NS)
    buckets.take(b"a", START_NS)
    buckets.give_back(b"a", START_NS)
    assert [ask(buckets, b"a", START_NS) for _ in range(2)] == [True, False]
    buckets.give_back(b"a", START_NS + 3 * MINUTE_NS)
    assert [ask(buckets, b"a", START_NS + 3 * MINUTE_NS) for _ in range(3)] == [True, True, False]


@cases("other_s", range(1, 60, 7))
def test_a_minute_is_remembered(other_s: int) -> None:
    """A bucket holds across the turns of the memory that others cause."""
    buckets = Buckets(1)
    buckets.take(b"other", START_NS)
    buckets.take(b"a", START_NS + other_s * SECOND_NS)
    for second in range(other_s, other_s + 60):
        now_ns = START_NS + second * SECOND_NS
        assert not ask(buckets, b"a", now_ns), second
        ask(buckets, b"more%d" % second, now_ns)
    assert ask(buckets, b"a", START_NS + (other_s + 60) * SECOND_NS)


def test_bounded() -> None:
    """A flood of fresh clients keeps the memory bounded, and is counted."""
    buckets = Buckets(10, max_buckets=100)
    largest = 0
    for n in range(5_000):
        assert ask(buckets, b"%d" % n, START_NS + n)
        largest = max(largest, len(buckets))
    assert largest <= 200
    assert buckets.rotated_early > 0


def test_an_honest_crowd_is_not_forgotten_early() -> None:
    """Below the bound nothing is forgotten that matters."""
    buckets = Buckets(1, max_buckets=100)
    for n in range(90):
        assert ask(buckets, b"%d" % n, START_NS + n * SECOND_NS // 2)
    for n in range(90):
        assert not ask(buckets, b"%d" % n, START_NS + 45 * SECOND_NS)
    assert buckets.rotated_early == 0


def test_old_buckets_go() -> None:
    """Buckets that nobody asked for are not kept for ever."""
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
    """A token bucket as the textbook has it: tokens as a fraction, filled up at each look."""

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
def test_like_a_plain_bucket(rate: int, walk: list[tuple[bytes, int, int]]) -> None:
    """Refilled evenly, full at start: the same answers as the textbook's bucket, whatever is asked when."""
    buckets, plain = Buckets(rate), Plain(rate)
    now_ns = START_NS
    for key, step_ns, times in walk:
        now_ns += step_ns
        for _ in range(times):
            assert ask(buckets, key, now_ns) == plain.ask(key, now_ns)
        assert buckets.remaining(key, now_ns) == int(plain.now(key, now_ns))
