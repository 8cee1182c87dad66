"""Statistical tests for the counts of two or more variants. Pure functions.

`pooled_p_value` is the usual two-sided test of two proportions, for one look that was planned beforehand, and
`poisson_p_value` that of two counts.
`sequential_p_value` stays valid however often results are checked (Johari, Pekelis, Walsh, "Always valid inference",
2015: the mixture sequential probability ratio test), and needs more visitors for the same evidence. `holm` limits the
probability of any false finding among several variants to that of one. `split_p_value` tests whether visitors were
split evenly; if not, the assignment is broken, and no other figure can be trusted.

Only the error function is taken from the standard library; the tests compare with scipy.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

_Z_95 = NormalDist().inv_cdf(0.975)
# Standard deviation of the prior: experiments on websites have differences of about 2 percentage points.
_SPREAD = 0.02
# The usual threshold: an even split gives a smaller p-value once in a thousand experiments.
SPLIT_IS_OFF_BELOW = 0.001
# The usual rule of thumb: with fewer successes or failures the normal approximation is too inaccurate.
MIN_OF_A_KIND = 10


def wilson(successes: int, trials: int) -> tuple[float, float] | None:
    """Return the 95 % Wilson score interval of a rate; None without trials."""
    if not trials:
        return None
    rate, square = successes / trials, _Z_95 * _Z_95
    middle = rate + square / (2 * trials)
    reach = _Z_95 * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    low, high = (middle - reach) / (1 + square / trials), (middle + reach) / (1 + square / trials)
    # Exact at 0 and 1, where rounding errors would give 1e-18.
    return (0.0 if not successes else low), (1.0 if successes == trials else high)


def pooled_p_value(successes: Sequence[int], trials: Sequence[int]) -> float | None:
    """Return the two-sided p-value of two equal rates by the pooled z-test; None if there is nothing to compare."""
    variance, difference = _pooled(successes, trials)
    if not variance:
        return None
    return math.erfc(abs(difference) / math.sqrt(2 * variance))


def poisson_p_value(counts: Sequence[int], lengths: Sequence[int]) -> float | None:
    """Return the two-sided p-value of two Poisson counts of equal rates over times of these lengths.

    Given their sum, the first is a binomial of it with its part of the time, which is compared by its normal
    approximation. None where that expects fewer than MIN_OF_A_KIND of either.
    """
    total, time = sum(counts), sum(lengths)
    if total * min(lengths) < MIN_OF_A_KIND * time or min(lengths) <= 0:
        return None
    share = lengths[0] / time
    return math.erfc(abs(counts[0] - total * share) / math.sqrt(2 * total * share * (1 - share)))


def sequential_p_value(looks: Sequence[tuple[Sequence[int], Sequence[int]]]) -> float | None:
    """Return a p-value that is valid at every look.

    `looks` are (successes, trials) of both variants up to each look, oldest first. The p-value never grows from one
    look to the next; None if there is nothing to compare at any of them.
    """
    least = None
    for successes, trials in looks:
        variance, difference = _pooled(successes, trials)
        if variance:
            prior = _SPREAD * _SPREAD
            log_ratio = (
                prior * difference * difference / (variance * (variance + prior)) - math.log1p(prior / variance)
            ) / 2
            least = min(1.0 if least is None else least, math.exp(-max(log_ratio, 0.0)))
    return least


def _pooled(successes: Sequence[int], trials: Sequence[int]) -> tuple[float, float]:
    """Return the variance of the difference of two equal rates, and the difference; variance 0 if there is none."""
    if not all(trials):
        return 0.0, 0.0
    rate = sum(successes) / sum(trials)
    difference = successes[1] / trials[1] - successes[0] / trials[0]
    return rate * (1 - rate) * (1 / trials[0] + 1 / trials[1]), difference


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for multiple comparisons (Holm, 1979), in the same order."""
    corrected = [0.0] * len(p_values)
    least = 0.0
    for rank, n in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = corrected[n] = min(1.0, max(least, (len(p_values) - rank) * p_values[n]))
    return corrected


def split_p_value(visitors: Sequence[int]) -> float | None:
    """Return the p-value of an even split by the chi-square test; None for fewer than two variants or no visitors."""
    if len(visitors) < 2 or not sum(visitors):
        return None
    expected = sum(visitors) / len(visitors)
    statistic = sum((seen - expected) ** 2 for seen in visitors) / expected
    return _gamma_q((len(visitors) - 1) / 2, statistic / 2)


def _gamma_q(shape: float, x: float) -> float:
    """Return the regularised upper incomplete gamma function.

    By its series below shape + 1, by a continued fraction above.
    """
    if x <= 0:
        return 1.0
    scale = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        n = shape
        while term > total * 1e-16:
            n += 1
            term *= x / n
            total += term
        return max(0.0, 1 - scale * total)
    # Lentz's method.
    b = x + 1 - shape
    c, d = math.inf, 1 / b
    fraction = d
    for n in range(1, 1_000):
        a = -n * (n - shape)
        b += 2
        d = 1 / (a * d + b)
        c = b + a / c
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return scale * fraction


def has_enough(successes: int, trials: int) -> bool:
    """Return whether a variant has enough successes and failures for these tests."""
    return min(successes, trials - successes) >= MIN_OF_A_KIND
