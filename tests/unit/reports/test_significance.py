"""tally/reports/significance.py compared with scipy and with published examples."""

import math
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.reports.significance import (
    MIN_OF_A_KIND,
    SPLIT_IS_OFF_BELOW,
    has_enough,
    holm,
    pooled_p_value,
    sequential_p_value,
    split_p_value,
    wilson,
)

COUNTS = st.integers(0, 2_000_000)


@pytest.fixture(scope="module")
def stats() -> Any:
    """scipy.stats, which takes a second to import: by the process that runs these tests alone."""
    from scipy import stats

    return stats


@st.composite
def rates(draw: st.DrawFn) -> tuple[int, int]:
    trials = draw(st.integers(1, 2_000_000))
    return draw(st.integers(0, trials)), trials


@given(rates())
def test_wilson(stats: Any, rate: tuple[int, int]) -> None:
    found = wilson(*rate)
    right = stats.binomtest(*rate).proportion_ci(0.95, method="wilson")
    assert found == pytest.approx((right.low, right.high), abs=1e-9)
    assert found is not None
    assert 0 <= found[0] <= rate[0] / rate[1] <= found[1] <= 1


@pytest.mark.parametrize(
    ("rate", "interval"),
    [
        # Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I, method 3.
        ((81, 263), (0.2553, 0.3662)),
        ((15, 148), (0.0624, 0.1605)),
        ((0, 20), (0.0, 0.1611)),
        ((1, 29), (0.0061, 0.1718)),
    ],
)
def test_wilson_as_published(rate: tuple[int, int], interval: tuple[float, float]) -> None:
    assert wilson(*rate) == pytest.approx(interval, abs=5e-5)


def test_no_visitors() -> None:
    assert wilson(0, 0) is None
    assert pooled_p_value((0, 0), (0, 5)) is None
    assert pooled_p_value((0, 0), (5, 5)) is None
    assert pooled_p_value((5, 5), (5, 5)) is None
    assert sequential_p_value([((0, 0), (0, 0)), ((0, 0), (3, 3))]) is None
    assert sequential_p_value([]) is None
    assert split_p_value((0, 0)) is None
    assert split_p_value((7,)) is None


@given(rates(), rates())
def test_pooled(stats: Any, one: tuple[int, int], other: tuple[int, int]) -> None:
    """The square of z is the chi-square of the table of both, without a correction for continuity."""
    found = pooled_p_value((one[0], other[0]), (one[1], other[1]))
    table = [[one[0], one[1] - one[0]], [other[0], other[1] - other[0]]]
    if found is None:
        assert 0 in (one[0] + other[0], one[1] - one[0] + other[1] - other[0])
    else:
        assert found == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue, rel=1e-7, abs=1e-300)


def test_pooled_as_published(stats: Any) -> None:
    """The aspirin arm of the Physicians' Health Study (New England Journal of Medicine 321:129, 1989): heart attacks
    in 104 of 11,037 against 189 of 11,034; z = 5.00."""
    found = pooled_p_value((189, 104), (11_034, 11_037))
    assert found == pytest.approx(2 * stats.norm.sf(5.0), rel=0.03)


@given(st.lists(st.integers(0, 1_000_000), min_size=2, max_size=8).filter(any))
def test_split(stats: Any, visitors: list[int]) -> None:
    assert split_p_value(visitors) == pytest.approx(stats.chisquare(visitors).pvalue, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(
    ("visitors", "is_off"),
    [
        ((821_588, 815_482), True),
        ((5_000, 5_100), False),
        ((1_000, 1_000, 1_000), False),
        ((1_000, 1_000, 1_300), True),
    ],
)
def test_splits_that_differ_from_equal_shares(visitors: tuple[int, ...], is_off: bool) -> None:
    """The first: Kohavi, Tang, Xu, "Trustworthy online controlled experiments", chapter 21: p = 1.8e-6."""
    found = split_p_value(visitors)
    assert found is not None
    assert (found < SPLIT_IS_OFF_BELOW) == is_off
    if visitors[0] == 821_588:
        assert found == pytest.approx(1.8e-6, rel=0.05)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm(p_values: list[float]) -> None:
    """By definition: rejected if it and all smaller ones are, each at the level divided by the number remaining."""
    corrected = holm(p_values)
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for place, n in enumerate(order):
        right = min(1.0, max((len(order) - rank) * p_values[m] for rank, m in enumerate(order[: place + 1])))
        assert corrected[n] == pytest.approx(right)


def test_holm_as_published() -> None:
    """The procedure of Holm, "A simple sequentially rejective multiple test procedure", 1979."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.2]) == [0.2]


@given(st.lists(st.tuples(rates(), rates()), min_size=1, max_size=12))
def test_sequential_never_grows(looks: list[tuple[tuple[int, int], tuple[int, int]]]) -> None:
    counted = [((a[0], b[0]), (a[1], b[1])) for a, b in looks]
    found = [p for p in (sequential_p_value(counted[: n + 1]) for n in range(len(counted))) if p is not None]
    assert all(0 <= later <= earlier <= 1 for earlier, later in pairwise(found))


def test_sequential_by_its_mixture(stats: Any) -> None:
    """The inverse of the likelihood ratio of a difference, mixed over a normal prior of effects, to no difference."""
    successes, trials, spread = (500, 580), (10_000, 10_000), 0.02
    rate = sum(successes) / sum(trials)
    sd = math.sqrt(rate * (1 - rate) * 2 / 10_000)
    difference = 0.008
    mixed = stats.norm.pdf(difference, scale=math.hypot(sd, spread))
    right = stats.norm.pdf(difference, scale=sd) / mixed
    assert sequential_p_value([(successes, trials)]) == pytest.approx(right, rel=1e-9)
    pooled = pooled_p_value(successes, trials)
    assert pooled is not None
    assert right > pooled, "the sequential test is more conservative"


def test_repeated_looks_keep_the_error_rate() -> None:
    """A/A: 400 experiments without any difference, looked at 40 times each. Stopping at the first p below 0.05, the
    usual test finds something in far more than 5 % of them; the sequential one does not."""
    rng = random.Random(3)
    fooled = peeked = 0
    for _ in range(400):
        trials, successes = [0, 0], [0, 0]
        looks = []
        least = 1.0
        for _ in range(40):
            for arm in (0, 1):
                trials[arm] += 50
                successes[arm] += sum(rng.random() < 0.2 for _ in range(50))
            looks.append((tuple(successes), tuple(trials)))
            least = min(least, pooled_p_value(*looks[-1]) or 1.0)
        peeked += least < 0.05
        fooled += (sequential_p_value(looks) or 1.0) < 0.05
    assert peeked > 0.2 * 400
    # 3.3 standard deviations above 5 %.
    assert fooled <= 0.086 * 400


@pytest.mark.parametrize(
    ("rate", "enough"),
    [((MIN_OF_A_KIND, 2 * MIN_OF_A_KIND), True), ((9, 1_000), False), ((995, 1_000), False), ((0, 0), False)],
)
def test_enough(rate: tuple[int, int], enough: bool) -> None:
    assert has_enough(*rate) == enough
