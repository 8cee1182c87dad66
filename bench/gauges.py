"""Measurements as one busy website has them: web vitals and experiments of a day, drawn from a seed. Pure.

The pages are those of the traffic (bench/traffic.py), by the same Zipf. Each page has medians of its own, spread
by half around the website's; each event has a factor of its own for how slow its device and its network are, and each
metric another one, all log-normal. Not every browser tells every metric. Times come in steps of 0.1 ms, as browsers
tell them, inp in steps of 8 ms.

How: as the traffic, by looks into tables of equally likely places; 5 µs an event.
"""

import random
from collections.abc import Iterator
from math import exp
from statistics import NormalDist
from typing import Any

from traffic import (
    AGENTS,
    COUNTRIES,
    DAY_MS,
    HOSTNAME,
    HOURS,
    LANGUAGES,
    OS_VERSIONS,
    PATHS,
    path,
    quieter,
    spread_out,
    zipf,
)

from tally.events.validation import AB_ASSIGN, AB_CONVERT

# Medians of a middling website in what is stored (tally/rollups/vitals_histogram.py), and how many of a thousand events
# have the metric.
_MEDIANS = {"lcp": 1_900_000, "inp": 96_000, "fcp": 1_300_000, "ttfb": 450_000, "cls": 30_000}
_TOLD = {"lcp": 930, "inp": 620, "fcp": 980, "ttfb": 990, "cls": 940}
_STEPS = {"lcp": 100, "inp": 8_000, "fcp": 100, "ttfb": 100, "cls": 1}
# Spread (sigma of the logarithm) of pages' medians, of events and of a metric within an event.
_OF_PAGES, _OF_EVENTS, _OF_METRICS = 0.4, 0.35, {"lcp": 0.3, "inp": 0.7, "fcp": 0.3, "ttfb": 0.5, "cls": 1.2}
_PLACES = 4096

# Name, its variants, what share of them converts to each goal.
EXPERIMENTS = (
    ("button", (("control", {"signup": 0.061, "order": 0.02}), ("green", {"signup": 0.068, "order": 0.021}))),
    ("prices", (("control", {"order": 0.03}), ("yearly", {"order": 0.031}), ("plain", {"order": 0.026}))),
    ("headline", (("a", {"signup": 0.05}), ("b", {"signup": 0.05}))),
    ("checkout", (("original", {"order": 0.2}), ("one page", {"order": 0.23}))),
)

Row = tuple[Any, ...]


def texts() -> list[str]:
    """Every text of experiments."""
    arms = [arm for _, arms in EXPERIMENTS for arm in arms]
    goals = [goal for _, shares in arms for goal in shares]
    return list(dict.fromkeys([*(name for name, _ in EXPERIMENTS), *(name for name, _ in arms), *goals]))


def share_of(total: int, day: int, days: int) -> int:
    """How many of so many over so many days a UTC day has."""
    return round(total / days * quieter(day))


class Gauges:
    """Draws days; `label` gives the number that stands for a text."""

    def __init__(self, seed: int, label: dict[str, int]) -> None:
        self._seed = seed
        n = {"": 0, **label}.__getitem__
        self._label = n
        draw = random.Random(f"{seed} pages")
        self._quarters = spread_out(range(96), [HOURS[quarter // 4] for quarter in range(96)], _PLACES)
        pages = [(n(path(k)), self._medians(draw)) for k in range(PATHS)]
        self._pages = zipf(pages, 1 << 18)
        self._countries = zipf([n(text) for text in COUNTRIES], 1 << 13)
        self._languages = zipf([n(text) for text in LANGUAGES], 1 << 10)
        web = [agent for agent in AGENTS if agent[1]]
        told = [
            ((*map(n, agent[1:]), n(OS_VERSIONS.get(agent[2], ("",))[0])), 1.5 if agent[3] == "mobile" else 1.0)
            for agent in web
        ]
        self._agents = spread_out(told, [agent[0] for agent in web], _PLACES)
        self._host = n(HOSTNAME)
        self._slow = _factors(_OF_EVENTS)
        self._of_metric = [
            (_STEPS[metric], _TOLD[metric] * _PLACES // 1000, _factors(sigma)) for metric, sigma in _OF_METRICS.items()
        ]

    @staticmethod
    def _medians(draw: random.Random) -> tuple[float, ...]:
        return tuple(median * exp(draw.gauss(0, _OF_PAGES)) for median in _MEDIANS.values())

    def _who(self, rand: Any) -> tuple[tuple[int, ...], tuple[int, ...], float]:
        """The fields behind pathname, and how much slower that device is."""
        (browser, system, device, version), slower = self._agents[int(rand() * _PLACES)]
        country, language = self._countries[int(rand() * 8192)], self._languages[int(rand() * 1024)]
        return (0, country, browser, system, device, language, self._host), (0, 0, 0, 0, 0, version), slower

    def _times(self, rand: Any, count: int, day: int, from_ms: int, to_ms: int) -> list[int]:
        midnight = day * DAY_MS
        drawn = [
            midnight + self._quarters[int(rand() * _PLACES)] * 900_000 + int(rand() * 900_000) for _ in range(count)
        ]
        return sorted(ts for ts in drawn if from_ms <= ts < to_ms)

    def vitals(self, day: int, count: int, from_ms: int, to_ms: int) -> list[Row]:
        """So many events of web vitals on a UTC day, as far as it lies in [from_ms, to_ms): rows of table web_vitals
        but for website and id."""
        rand = random.Random(f"{self._seed} vitals {day}").random
        rows = []
        for ts in self._times(rand, count, day, from_ms, to_ms):
            page, medians = self._pages[int(rand() * 262_144)]
            before, behind, slower = self._who(rand)
            slower *= self._slow[int(rand() * _PLACES)]
            values = [
                int(median * slower * factors[place] / step) * step if int(rand() * _PLACES) < told else None
                for median, (step, told, factors), place in zip(
                    medians, self._of_metric, [int(rand() * _PLACES) for _ in medians], strict=True
                )
            ]
            rows.append((ts, page, *before, *behind, *(values if any(values) else (*values[:3], 450_000, None))))
        return rows

    def trials(self, day: int, count: int, from_ms: int, to_ms: int) -> Iterator[Row]:
        """So many visitors of experiments on a UTC day, and their conversions: rows of table experiment_event but for
        website and id, in the order of time."""
        draw = random.Random(f"{self._seed} trials {day}")
        rand, n = draw.random, self._label
        rows = []
        for ts in self._times(rand, count, day, from_ms, to_ms):
            name, arms = EXPERIMENTS[int(rand() * len(EXPERIMENTS))]
            variant, goals = arms[int(rand() * len(arms))]
            page, _ = self._pages[int(rand() * 262_144)]
            before, behind, _ = self._who(rand)
            visitor = draw.getrandbits(62)
            fields = (visitor, page, *before, *behind, n(name), n(variant))
            rows.append((ts, AB_ASSIGN, *fields, 0, None))
            for goal, share in goals.items():
                later = ts + int(rand() * 3_600_000)
                if rand() < share and later < min(to_ms, (day + 1) * DAY_MS):
                    rows.append((later, AB_CONVERT, *fields, n(goal), round(rand() * 100, 2)))
        yield from sorted(rows, key=lambda row: row[0])


def _factors(sigma: float) -> list[float]:
    """Log-normal factors around 1, each equally likely."""
    spread = NormalDist(0, sigma)
    return [exp(spread.inv_cdf((k + 0.5) / _PLACES)) for k in range(_PLACES)]
