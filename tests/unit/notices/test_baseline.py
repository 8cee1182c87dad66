"""Judging hours, on exact series, and on simulated websites: how often an alert is false, and how many are missed.

The model of a website: the visits expected of an hour are those of the mean, by hour of the day and weekday, times a
factor of the day, log-normal with 25 percent; the count is Poisson of a gamma distribution, so that hours vary by 20 or
35 percent more than by chance alone. Seeds are fixed, so that each run gives the same numbers; the limits asserted are
those of docs/decisions/alerts-by-hour-of-the-week.md with a margin, which a change of the rules should not exceed.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from statistics import fmean, median

import numpy as np
import pytest

from tally.demo import traffic
from tally.demo.sites import SITES
from tally.events.visits import VISIT_GAP_MS
from tally.notices import baseline
from tally.notices.baseline import WEEK_HOURS, Hours, Verdict
from tally.timestamps import DAY_MS, HOUR_MS
from tests.support.app import NOON_MS
from tests.support.cases import cases

WEEKS = 60
FIRST = baseline.WEEKS * WEEK_HOURS
YEARS = (WEEKS - baseline.WEEKS) / 52
Judge = Callable[[Hours, int], Verdict | None]
SIZES = ((100, 0.2), (100, 0.35), (500, 0.2), (500, 0.35), (5_000, 0.2), (5_000, 0.35))
SEEDS = 2


def hours_of(visits: list[int], unusable: frozenset[int] = frozenset(), events: list[int] | None = None) -> Hours:
    """Return hours that begin with a week."""
    slots = [index % WEEK_HOURS for index in range(len(visits))]
    return Hours(
        slots, visits, visits if events is None else events, [one not in unusable for one in range(len(slots))]
    )


# --- the model


def week_shape() -> np.ndarray:
    """Return the share of each hour of a week, with the mean 1."""
    hour = np.arange(24)
    day = 0.25 + np.exp(-(((hour - 14) / 5) ** 2))
    week = np.concatenate([day * (0.55 if weekday >= 5 else 1) for weekday in range(7)])
    return np.asarray(week / week.mean())


def counts(random: np.random.Generator, rates: np.ndarray, variation: float) -> np.ndarray:
    return random.poisson(random.gamma(1 / variation**2, rates * variation**2))


class Simulated:
    """A website with so many visits a day; `variation`: of hours, beyond chance."""

    def __init__(self, size: int, variation: float, seed: int) -> None:
        self.random, self.variation = np.random.default_rng([size, round(100 * variation), seed]), variation
        days = np.repeat(np.exp(self.random.normal(0, 0.25, WEEKS * 7)), 24)
        self.rates = size / 24 * np.tile(week_shape(), WEEKS) * days
        self.visits = counts(self.random, self.rates, variation)

    def false_alarms(self, judge: Judge) -> float:
        """Return the alarms of a year; those within 12 hours of one count as the same."""
        hours, alarms, last = hours_of(self.visits.tolist()), 0, -12
        for index in range(FIRST, len(hours)):
            verdict = judge(hours, index) if index - last >= 12 else None
            if verdict is not None and verdict.is_firing:
                alarms, last = alarms + 1, index
        return alarms / YEARS

    def at_random(self, times: int) -> Iterator[tuple[int, int]]:
        """Yield hours between 8:00 and 20:00, with the first hour of what is needed to judge them."""
        for day in self.random.integers((FIRST + WEEK_HOURS) // 24, WEEKS * 7 - 5, times):
            index = int(day) * 24 + int(self.random.integers(8, 20))
            yield index, (index - FIRST - WEEK_HOURS) // WEEK_HOURS * WEEK_HOURS

    def detected(self, factor: float, times: int = 60) -> float:
        """Return the share of hours with so many times the expected visits that are spikes."""
        found = 0
        for index, begin in self.at_random(times):
            visits = self.visits[begin : index + 1].tolist()
            visits[-1] = int(counts(self.random, self.rates[index : index + 1] * factor, self.variation)[0])
            verdict = baseline.spike(hours_of(visits), index - begin)
            found += verdict is not None and verdict.is_firing
        return found / times

    def until_found(self, judge: Judge, times: int = 15) -> list[int]:
        """Return after how many hours without any visit an alarm begins."""
        found = []
        for index, begin in self.at_random(times):
            visits = [*self.visits[begin:index].tolist(), *[0] * baseline.MAX_SILENCE_HOURS]
            hours = hours_of(visits)
            firing = (one for one in range(index - begin, len(hours)) if _fires(judge(hours, one)))
            found.append(next(firing) - (index - begin) + 1)
        return found


def _fires(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.is_firing


@pytest.mark.slow
@cases(("size", "variation"), SIZES)
def test_false_alarms_and_detection_on_simulated_websites(size: int, variation: float) -> None:
    websites = [Simulated(size, variation, seed) for seed in range(SEEDS)]
    for judge, most in ((baseline.spike, 3.0), (baseline.drop, 4.0), (baseline.silence, 1.0)):
        assert fmean(one.false_alarms(judge) for one in websites) <= most, judge.__name__
    tenfold, fivefold = (fmean(one.detected(factor) for one in websites) for factor in (10, 5))
    assert (tenfold >= 0.65, 0.25 <= fivefold < tenfold) == (True, True), (tenfold, fivefold)
    dropped, silent = (
        median([hours for one in websites for hours in one.until_found(judge)])
        for judge in (baseline.drop, baseline.silence)
    )
    assert (dropped, silent) <= ((24, 7) if size == 100 else (7, 3))


def demo_hours(domain: str) -> tuple[list[int], int]:
    """Return the visits of each hour of a website of the demo, from a midnight of Thursday on, and the last hour."""
    visits, seen = Counter[int](), dict[str, int]()
    for line in traffic.lines(next(one for one in SITES if one.domain == domain), NOON_MS, 1):
        if line["type"] in ("pageview", "event"):
            if line["timestamp"] - seen.get(line["visitor"], 0) > VISIT_GAP_MS:
                visits[line["timestamp"] // HOUR_MS] += 1
            seen[line["visitor"]] = line["timestamp"]
    begin, end = -(-min(visits) // WEEK_HOURS) * WEEK_HOURS, NOON_MS // HOUR_MS
    return [visits[hour] for hour in range(begin, end)], end


def test_the_demo_has_no_alert_but_for_the_day_on_a_news_site() -> None:
    visits, end = demo_hours("travel.example")
    hours = hours_of(visits)
    judged = range(FIRST, len(hours))
    for judge in (baseline.spike, baseline.drop, baseline.silence):
        assert [index for index in judged if _fires(judge(hours, index))] == []
    sensitive = [index for index in judged if _fires(baseline.spike(hours, index, is_sensitive=True))]
    days = {(end - len(hours) + index) * HOUR_MS // DAY_MS for index in sensitive}
    assert days <= {NOON_MS // DAY_MS - age for age in (46, 47)}
    assert days


def test_a_tenfold_night_counts_only_where_it_is_a_record() -> None:
    website = Simulated(5_000, 0.2, 0)
    visits = website.visits.tolist()
    night = FIRST + 3 * WEEK_HOURS + 3
    visits[night] = 10 * int(website.rates[night])
    hours = hours_of(visits)
    assert not _fires(baseline.spike(hours, night))
    assert _fires(baseline.spike(hours, night, is_sensitive=True))


# --- exact series

STEADY = [40] * (9 * WEEK_HOURS)
LAST = len(STEADY) - 1


def changed(*last: int, before: list[int] | None = None) -> Hours:
    """Return nine steady weeks that end with these hours."""
    visits = STEADY if before is None else before
    return hours_of([*visits[: len(visits) - len(last)], *last])


@cases(
    ("visits", "is_firing", "is_back"),
    [(119, False, False), (120, True, False), (80, False, True), (81, False, False), (0, False, True)],
)
def test_a_spike_is_at_least_three_times_the_usual(visits: int, is_firing: bool, is_back: bool) -> None:
    # 40 + 6 * 8 is less than 3 * 40; half of the way is 80.
    verdict = Verdict(is_firing, is_back, 1, visits, 40)
    assert baseline.spike(changed(visits), LAST) == verdict


def test_the_conditions_of_a_spike() -> None:
    # 20 more than usual: with few visits a factor says little.
    few = [2] * len(STEADY)
    assert not _fires(baseline.spike(changed(21, before=few), LAST))
    assert _fires(baseline.spike(changed(22, before=few), LAST))
    # A quarter more than the busiest hour of four weeks, but one that cannot be used.
    busy = [*STEADY]
    busy[LAST - 27 * 24] = 200
    assert not _fires(baseline.spike(changed(249, before=busy), LAST))
    assert _fires(baseline.spike(changed(250, before=busy), LAST))
    assert _fires(baseline.spike(changed(249, before=busy), LAST, is_sensitive=True))
    assert _fires(baseline.spike(hours_of([*busy[:-1], 249], frozenset((LAST - 27 * 24,))), LAST))
    # Another factor.
    assert _fires(baseline.spike(changed(88), LAST, 1.5))
    assert not _fires(baseline.spike(changed(87), LAST, 1.5))


def test_a_fixed_number_of_visits() -> None:
    assert _fires(baseline.many(changed(50), LAST, 50))
    assert not _fires(baseline.many(changed(49), LAST, 50))
    assert baseline.many(hours_of(STEADY, frozenset((LAST,))), LAST, 1) is None
    # Without a usual number too.
    assert baseline.many(hours_of([5, 7]), 1, 6) == Verdict(True, False, 1, 7, 0.0)


@cases(
    ("last", "verdict"),
    [
        ((8,), Verdict(True, False, 1, 8, 40)),
        ((9,), Verdict(False, False, 1, 9, 40)),
        ((24,), Verdict(False, True, 1, 24, 40)),
        ((23,), Verdict(False, False, 1, 23, 40)),
    ],
)
def test_a_drop_within_an_hour(last: tuple[int, ...], verdict: Verdict) -> None:
    # The lesser of 0.3 * 40 and 40 - 4 * 8.
    assert baseline.drop(changed(*last), LAST) == verdict


def test_a_drop_takes_the_shortest_window_with_30_usual_visits() -> None:
    for usual, hours in ((40, 1), (30, 1), (29, 3), (10, 3), (5, 6), (2, 24)):
        verdict = baseline.drop(changed(0, before=[usual] * len(STEADY)), LAST)
        assert verdict is not None
        assert (verdict.hours, verdict.usual) == (hours, usual * hours)
    assert baseline.drop(changed(0, before=[1] * len(STEADY)), LAST) is None
    assert baseline.can_drop(hours_of([1] * len(STEADY)), LAST) is False
    assert baseline.can_drop(hours_of(STEADY), LAST) is True
    assert baseline.can_drop(hours_of(STEADY[: 4 * WEEK_HOURS]), 4 * WEEK_HOURS - 1) is None


def test_silence_lasts_until_chance_is_ruled_out() -> None:
    # 27.3 in an hour, 17.7 in two.
    for usual, hours in ((40, 1), (27, 2), (9, 2), (8, 3), (1, 13)):
        before = [usual] * len(STEADY)
        silent = [
            length for length in range(1, 20) if _fires(baseline.silence(changed(*[0] * length, before=before), LAST))
        ]
        assert silent[0] == hours, (usual, silent)
    verdict = baseline.silence(changed(0, 0, 3), LAST)
    assert verdict == Verdict(False, True, 1, 3, 0.0)


def test_silence_means_no_event_at_all() -> None:
    visits = [*STEADY[:-1], 0]
    assert _fires(baseline.silence(hours_of(visits), LAST))
    assert not _fires(baseline.silence(hours_of(visits, events=[*STEADY[:-1], 1]), LAST))


def test_silence_of_a_fixed_length_and_of_a_website_with_too_few_visits() -> None:
    few = [0] * len(STEADY)
    few[::24] = [1] * len(few[::24])
    assert baseline.silence(hours_of(few), LAST) is None
    assert baseline.can_be_silent(hours_of(few), LAST) is False
    verdict = baseline.silence(hours_of(few), LAST, 23)
    assert verdict == Verdict(True, False, 23, 0, 0.0)
    assert not _fires(baseline.silence(hours_of(few), LAST, 24))
    # Not longer than three days.
    silence = baseline.silence(hours_of([5, *[0] * 100]), 100, 72)
    assert silence == Verdict(True, False, 72, 0, 0.0)


def test_hours_that_cannot_be_used_are_neither_judged_nor_compared_with() -> None:
    assert baseline.spike(hours_of(STEADY, frozenset((LAST,))), LAST) is None
    assert baseline.silence(hours_of(STEADY, frozenset((LAST,))), LAST) is None
    # Of eight weeks four were a downtime: the median is of the others.
    visits, down = [*STEADY], [LAST - WEEK_HOURS * week for week in (1, 3, 5, 7)]
    for index in down:
        visits[index] = 0
    hours = hours_of(visits, frozenset(down))
    assert hours.usual(LAST, 1) == baseline.Usual(40, 8.0)
    # A window with such an hour is none.
    assert hours.sum(LAST - WEEK_HOURS + 1, 3) is None
    # Of a fifth, too few are left.
    assert hours_of(visits, frozenset((*down, LAST - 2 * WEEK_HOURS))).usual(LAST, 1) is None


def test_the_usual_is_of_eight_weeks_alone() -> None:
    visits = [*[500] * WEEK_HOURS, *[40] * (8 * WEEK_HOURS), 40]
    assert hours_of(visits).usual(len(visits) - 1, 1) == baseline.Usual(40, 8.0)
    # The spread is that of the values where they differ more.
    for week in range(8):
        visits[len(visits) - 1 - WEEK_HOURS * (week + 1)] = 20 + 10 * (week % 4)
    assert hours_of(visits).usual(len(visits) - 1, 1) == (35, pytest.approx(14.826))


def test_a_repeated_hour_is_not_compared_with_the_one_before_it() -> None:
    slots = [index % WEEK_HOURS for index in range(9 * WEEK_HOURS)]
    # Clocks go back: the last hour has the name of the one before it.
    hours = Hours([*slots, slots[-1]], [*STEADY, 0], [*STEADY, 1], [True] * (len(slots) + 1))
    assert hours.usual(len(slots), 1) == baseline.Usual(40, 8.0)
    assert _fires(baseline.drop(hours, len(slots)))
