"""Rows of web vitals and experiments of one busy website and day, drawn from a seed. Pure: no file, no clock.

The pages are those of the traffic (bench/traffic.py), with the same Zipf distribution. Each page has its own medians;
each event has a factor for its device and network, and one for each metric, all log-normal. Not every browser reports
every metric. Times have steps of 0.1 ms as in browsers, inp steps of 8 ms.

As in the traffic, a value is drawn by a lookup in a table of equally likely entries: 5 µs per event.
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
    relative_traffic,
    spread_out,
    zipf,
)

from tally.events.dimensions import FIELDS
from tally.events.sessions import LOW_BITS
from tally.events.validation import AB_ASSIGN, AB_CONVERT

# Medians of an average website in stored units (tally/rollups/web_vitals.py), and how many of a thousand events
# have the metric.
_MEDIANS = {"lcp": 1_900_000, "inp": 96_000, "fcp": 1_300_000, "ttfb": 450_000, "cls": 30_000}
_REPORTED = {"lcp": 930, "inp": 620, "fcp": 980, "ttfb": 990, "cls": 940}
_STEPS = {"lcp": 100, "inp": 8_000, "fcp": 100, "ttfb": 100, "cls": 1}
# Spread (sigma of the logarithm) of pages' medians, of events and of a metric within an event.
_OF_PAGES, _OF_EVENTS, _OF_METRICS = 0.4, 0.35, {"lcp": 0.3, "inp": 0.7, "fcp": 0.3, "ttfb": 0.5, "cls": 1.2}
_TABLE_SIZE = 4096

# Name, variants, and the share of visitors that reach each goal.
EXPERIMENTS = (
    ("button", (("control", {"signup": 0.061, "order": 0.02}), ("green", {"signup": 0.068, "order": 0.021}))),
    ("prices", (("control", {"order": 0.03}), ("yearly", {"order": 0.031}), ("plain", {"order": 0.026}))),
    ("headline", (("a", {"signup": 0.05}), ("b", {"signup": 0.05}))),
    ("checkout", (("original", {"order": 0.2}), ("one page", {"order": 0.23}))),
)

Row = tuple[Any, ...]


def texts() -> list[str]:
    """Return every text of experiments."""
    arms = [arm for _, arms in EXPERIMENTS for arm in arms]
    goals = [goal for _, shares in arms for goal in shares]
    return list(dict.fromkeys([*(name for name, _ in EXPERIMENTS), *(name for name, _ in arms), *goals]))


def share_of(total: int, day: int, days: int) -> int:
    """Return the number of events of a day, of `total` over `days`."""
    return round(total / days * relative_traffic(day))


class MeasurementRows:
    """Draws days; `label` maps a text to its number."""

    def __init__(self, seed: int, label: dict[str, int]) -> None:
        self._seed = seed
        n = {"": 0, **label}.__getitem__
        self._label = n
        rng = random.Random(f"{seed} pages")
        self._quarters = spread_out(range(96), [HOURS[quarter // 4] for quarter in range(96)], _TABLE_SIZE)
        pages = [(n(path(k)), self._medians(rng)) for k in range(PATHS)]
        self._pages = zipf(pages, 1 << 18)
        self._countries = zipf([n(text) for text in COUNTRIES], 1 << 13)
        self._languages = zipf([n(text) for text in LANGUAGES], 1 << 10)
        web = [agent for agent in AGENTS if agent[1]]
        agents = [
            ((*map(n, agent[1:]), n(OS_VERSIONS.get(agent[2], ("",))[0])), 1.5 if agent[3] == "mobile" else 1.0)
            for agent in web
        ]
        self._agents = spread_out(agents, [agent[0] for agent in web], _TABLE_SIZE)
        self._host = n(HOSTNAME)
        self._slow = _factors(_OF_EVENTS)
        self._of_metric = [
            (_STEPS[metric], _REPORTED[metric] * _TABLE_SIZE // 1000, _factors(sigma))
            for metric, sigma in _OF_METRICS.items()
        ]

    @staticmethod
    def _medians(rng: random.Random) -> tuple[float, ...]:
        return tuple(median * exp(rng.gauss(0, _OF_PAGES)) for median in _MEDIANS.values())

    def _client(self, rand: Any) -> tuple[tuple[int, ...], float]:
        """Return the fields after pathname, and how much slower the device is."""
        (browser, system, device, version), slower = self._agents[int(rand() * _TABLE_SIZE)]
        country, language = self._countries[int(rand() * 8192)], self._languages[int(rand() * 1024)]
        fields = {"country": country, "browser": browser, "os": system, "device": device, "os_version": version}
        fields |= {"language": language, "hostname": self._host}
        return tuple(fields.get(field, 0) for field in FIELDS[1:]), slower

    def _times(self, rand: Any, count: int, day: int, from_ms: int, to_ms: int) -> list[int]:
        midnight = day * DAY_MS
        drawn = [
            midnight + self._quarters[int(rand() * _TABLE_SIZE)] * 900_000 + int(rand() * 900_000) for _ in range(count)
        ]
        return sorted(ts for ts in drawn if from_ms <= ts < to_ms)

    def vitals(self, day: int, count: int, from_ms: int, to_ms: int) -> list[Row]:
        """Return rows of table web_vitals, without website and id, of a day within [from_ms, to_ms)."""
        rand = random.Random(f"{self._seed} vitals {day}").random
        rows = []
        for ts in self._times(rand, count, day, from_ms, to_ms):
            page, medians = self._pages[int(rand() * 262_144)]
            fields, slower = self._client(rand)
            slower *= self._slow[int(rand() * _TABLE_SIZE)]
            values = [
                int(median * slower * factors[place] / step) * step if int(rand() * _TABLE_SIZE) < reported else None
                for median, (step, reported, factors), place in zip(
                    medians, self._of_metric, [int(rand() * _TABLE_SIZE) for _ in medians], strict=True
                )
            ]
            vitals = values if any(values) else (*values[:3], 450_000, None)
            # No time on page and depth: these come in rows of their own.
            rows.append((ts, page, *fields, *vitals, None, None))
        return rows

    def experiments(self, day: int, count: int, from_ms: int, to_ms: int) -> Iterator[Row]:
        """Yield rows of table experiment_event, without website and id, of `count` visitors of a day, by time."""
        rng = random.Random(f"{self._seed} trials {day}")
        rand, n = rng.random, self._label
        rows = []
        for ts in self._times(rand, count, day, from_ms, to_ms):
            name, arms = EXPERIMENTS[int(rand() * len(EXPERIMENTS))]
            variant, goals = arms[int(rand() * len(arms))]
            page, _ = self._pages[int(rand() * 262_144)]
            of_client, _ = self._client(rand)
            visitor = ts % DAY_MS << LOW_BITS | rng.getrandbits(LOW_BITS)
            fields = (visitor, page, *of_client, n(name), n(variant))
            rows.append((ts, AB_ASSIGN, *fields, 0, None))
            for goal, share in goals.items():
                later = ts + int(rand() * 3_600_000)
                if rand() < share and later < min(to_ms, (day + 1) * DAY_MS):
                    rows.append((later, AB_CONVERT, *fields, n(goal), round(rand() * 100, 2)))
        yield from sorted(rows, key=lambda row: row[0])


def _factors(sigma: float) -> list[float]:
    """Return equally likely log-normal factors around 1."""
    spread = NormalDist(0, sigma)
    return [exp(spread.inv_cdf((k + 0.5) / _TABLE_SIZE)) for k in range(_TABLE_SIZE)]
