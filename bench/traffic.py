"""The traffic of one busy website: events and visits of a day, drawn from a seed. Pure: no file, no clock.

Distributions: 3.5 events per visit, 5,000 paths by Zipf, 800 referrers, 120 countries, 12 % of the visitors return on
the same day, 80 % pageviews, 10 % custom events, the rest from an app, less traffic at weekends and at night. One
browser is in 6 % of the events, another in 55 %, one hostname in all: the filters that are measured.

The rows follow docs/reference/definitions.md: a visitor is a random number, a new one each day; a visit has no gap
over 30 minutes, agrees with its events, and ends at midnight.

Drawing is most of the cost of building the data set. So each distribution is a table of equally likely entries
(`spread_out`), and a draw is one lookup: 2 µs per event with all its fields.
"""

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from tally.events.channels import CHANNELS, channel
from tally.events.sessions import LOW_BITS

T = TypeVar("T")

DAY_MS = 86_400_000
VISIT_GAP_MS = 30 * 60_000  # a gap of exactly 30:00.000 joins
# Of the targets.
EVENTS_PER_VISIT = 3.5
RETURNING_SHARE = 0.12
# Both together, after midnight has ended visits; measured over a week.
EVENTS_PER_VISITOR = 3.85
PATHS, REFERRERS = 5_000, 800

DOMAIN = "example.com"
HOSTNAME = "www.example.com"
SMALL_BROWSER, LARGE_BROWSER = "Firefox", "Chrome"

# Percent of all visitors: browser, system, device. Those without a browser come from an app.
AGENTS = (
    (25, "Chrome", "Windows", "desktop"),
    (22, "Chrome", "Android", "mobile"),
    (6, "Chrome", "macOS", "desktop"),
    (2, "Chrome", "Linux", "desktop"),
    (13, "Safari", "iOS", "mobile"),
    (5, "Safari", "macOS", "desktop"),
    (1, "Safari", "iOS", "tablet"),
    (6, "Edge", "Windows", "desktop"),
    (4, "Firefox", "Windows", "desktop"),
    (1, "Firefox", "Linux", "desktop"),
    (1, "Firefox", "Android", "mobile"),
    (3, "Samsung Internet", "Android", "mobile"),
    (1, "Opera", "Windows", "desktop"),
    (5, "", "iOS", "mobile"),
    (5, "", "Android", "mobile"),
)
# The same for every browser; the newest is the most frequent.
_BROWSER_VERSIONS = ("142", "141", "140", "139", "138", "26", "18")
OS_VERSIONS = {
    "iOS": ("18.5", "18.3", "17.6", "26.0", "16.7", "15.8"),
    "Android": ("15", "14", "13", "16", "12", "11"),
}
# 120 codes of the country data, the most frequent first.
_CODES = (
    "US DE GB FR IN BR JP CA IT ES NL AU PL MX SE CH KR ID TR AR BE AT DK NO FI PT CZ RO HU GR IE IL UA ZA TH"
    " VN MY SG PH NZ CL CO PE EG SA AE PK BD NG KE MA TN DZ GH ET UG TZ SN CI CM AO ZM ZW BW NA MU MG RW LK NP"
    " MM KH LA MN KZ UZ GE AM AZ BY MD LT LV EE SK SI HR BA RS ME MK AL BG CY MT LU IS LI MC AD SM QA KW BH OM"
    " JO LB IQ IR EC BO PY UY VE CR PA GT HN JM TT"
)
COUNTRIES = tuple(_CODES.split())
_LANGUAGES = (
    "en-US de-DE en-GB fr-FR es-ES pt-BR ja-JP it-IT nl-NL pl-PL ru-RU zh-CN sv-SE da-DK cs-CZ tr-TR ko-KR ar-EG hi-IN"
    " uk-UA fi-FI el-GR"
)
LANGUAGES = tuple(_LANGUAGES.split())
_TOPICS = ("articles", "products", "docs", "help", "news")
EVENT_NAMES = tuple(f"{verb}_{what}" for verb in ("open", "click", "submit", "play", "share") for what in "abcde")
EVENT_DATA = tuple(f'{{"plan":"{plan}","value":{value}}}' for plan in ("free", "pro", "team") for value in range(20))
_UTM_SOURCES = tuple(f"source-{n:02}" for n in range(20))
_UTM_MEDIUMS = ("email", "cpc", "social", "affiliate", "banner")
_UTM_CAMPAIGNS = tuple(f"campaign-{n:02}" for n in range(60))
_APP_VERSIONS = tuple(f"{major}.{minor}.0" for major in (4, 3) for minor in range(6, 0, -1))
# Weights of the hours of a day, and of the days from Monday on (their mean is 1).
HOURS = (3, 2, 2, 2, 2, 3, 4, 6, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 4)
_WEEK = (1.1, 1.1, 1.1, 1.1, 1.05, 0.75, 0.8)

Event = tuple[Any, ...]
"""A row of table event but for website and id, in the order of COLUMNS in tally/storage/bulk_insert.py."""
Visit = tuple[int, ...]
"""A row of table visit but for website and day, in the order of COLUMNS in tally/storage/bulk_insert.py."""


class Day(NamedTuple):
    """The traffic of one day, both in the order of time."""

    events: list[Event]
    visits: list[Visit]


def spread_out(values: Sequence[T], weights: Sequence[float], places: int) -> list[T]:
    """Return each value as often as its weight requires, so that a uniform draw of an entry is a weighted draw."""
    total, reached, entries = sum(weights), 0.0, list[T]()
    for value, weight in zip(values, weights, strict=True):
        reached += weight
        entries += [value] * (round(reached / total * places) - len(entries))
    return entries


def zipf(values: Sequence[T], places: int) -> list[T]:
    """Return a table in which the n-th value has the weight 1/n."""
    return spread_out(values, [1 / n for n in range(1, len(values) + 1)], places)


def path(n: int) -> str:
    """Return the n-th most frequent path."""
    return "/" if n == 0 else f"/{_TOPICS[n % len(_TOPICS)]}/{n:04}-about-this-and-that"


def referrer(n: int) -> str:
    """Return the n-th most frequent referrer."""
    return f"site-{n:03}.example"


def texts(seed: int) -> list[str]:
    """Return every text of the fields, without '', in the order in which the events of a day contain them.

    A server numbers labels in this order: frequent ones get small numbers, which take less disk space.
    """
    all_texts = _all_texts()
    day = Traffic(seed, {text: n for n, text in enumerate(all_texts, 1)}).day(0, 5_000, 0, DAY_MS)
    of_events = [number for event in day.events for number in event[4:18]]
    first = dict.fromkeys(filter(None, [*of_events, *(number for visit in day.visits for number in visit[10:17])]))
    return [all_texts[number - 1] for number in dict.fromkeys([*first, *range(1, len(all_texts) + 1)])]


def _all_texts() -> list[str]:
    fixed = {text for agent in AGENTS for text in agent[1:]} | {text for some in OS_VERSIONS.values() for text in some}
    fixed |= {*_BROWSER_VERSIONS}
    fixed |= {HOSTNAME, "ios", "android", *LANGUAGES, *EVENT_NAMES, *COUNTRIES}
    fixed |= {*_UTM_SOURCES, *_UTM_MEDIUMS, *_UTM_CAMPAIGNS, *_APP_VERSIONS, *CHANNELS}
    return [*map(path, range(PATHS)), *map(referrer, range(REFERRERS)), *sorted(fixed - {""})]


def relative_traffic(day: int) -> float:
    """Return the traffic of a day (days since 1970) relative to the mean."""
    return _WEEK[(day + 3) % 7]  # 1970-01-01 was a Thursday


class Traffic:
    """Draws days; `label` maps a text to its number."""

    def __init__(self, seed: int, label: dict[str, int]) -> None:
        self._seed = seed
        n = {"": 0, **label}.__getitem__
        self._label, self._text = n, {0: ""} | {number: text for text, number in label.items()}
        # By the labels of referrer, utm_source, utm_medium and utm_campaign.
        self._channels: dict[tuple[int, ...], int] = {}
        self._sizes = spread_out(*_visit_sizes(), 4096)
        self._gaps = [int(-75_000 * math.log(1 - (k + 0.5) / 4096)) for k in range(4096)]
        self._quarters = spread_out(range(96), [HOURS[quarter // 4] for quarter in range(96)], 4096)
        self._paths = zipf([n(path(k)) for k in range(PATHS)], 1 << 18)
        self._referrers = zipf([n(referrer(k)) for k in range(REFERRERS)], 1 << 16)
        self._countries = zipf([n(text) for text in COUNTRIES], 1 << 13)
        self._languages = zipf([n(text) for text in LANGUAGES], 1 << 10)
        self._names = zipf([n(text) for text in EVENT_NAMES], 1 << 10)
        campaigns = [
            (n(_UTM_SOURCES[k % 20]), n(_UTM_MEDIUMS[k % 5]), n(text)) for k, text in enumerate(_UTM_CAMPAIGNS)
        ]
        self._campaigns = zipf(campaigns, 1 << 12)
        self._browser_versions = [n(text) for text in _BROWSER_VERSIONS]
        self._agents = spread_out([_agent(n, *agent) for agent in AGENTS], [agent[0] for agent in AGENTS], 100)
        self._app_versions = zipf([n(text) for text in _APP_VERSIONS], 1 << 10)
        self._host = n(HOSTNAME)

    def day(self, day: int, visitors: int, from_ms: int, to_ms: int) -> Day:
        """Return the traffic of so many visitors of a day within [from_ms, to_ms)."""
        rng = random.Random(f"{self._seed} {day}")
        rand, midnight, end_ms = rng.random, day * DAY_MS, min(to_ms, (day + 1) * DAY_MS)
        day = Day([], [])
        for _ in range(visitors):
            begin_ms = midnight + self._quarters[int(rand() * 4096)] * 900_000 + int(rand() * 900_000)
            visitor = begin_ms - midnight << LOW_BITS | rng.getrandbits(LOW_BITS)
            if not from_ms <= begin_ms < end_ms:
                continue
            client = self._client(rand)
            over_ms = self._visit(day, rand, client, visitor, 0, begin_ms, end_ms)
            if rand() < RETURNING_SHARE:
                begin_ms = over_ms + VISIT_GAP_MS + 1 + int(rand() * 6 * 3_600_000)
                if begin_ms < end_ms:
                    self._visit(day, rand, client, visitor, 1, begin_ms, end_ms)
        day.events.sort(key=lambda event: event[0])
        day.visits.sort(key=lambda visit: visit[:2])
        return day

    def _client(self, rand: Any) -> tuple[bool, tuple[int, ...], tuple[int, ...]]:
        """Return whether it is an app, the fields country to hostname, and platform to city."""
        is_app, browser, system, device, platform, versions = self._agents[int(rand() * 100)]
        country, language = self._countries[int(rand() * 8192)], self._languages[int(rand() * 1024)]
        app_version = self._app_versions[int(rand() * 1024)] if is_app else 0
        version = versions[int(rand() * rand() * len(versions))]
        browser_version = 0 if is_app else self._browser_versions[int(rand() * rand() * len(_BROWSER_VERSIONS))]
        # No region and no city: the bundled database has none.
        rest = (platform, app_version, version, browser_version, 0, 0)
        return is_app, (country, browser, system, device, language, self._host), rest

    def _visit(self, day: Day, rand: Any, client: Any, visitor: int, visit: int, begin_ms: int, end_ms: int) -> int:
        """Draw a visit; return the time of its last event."""
        is_app, fields, rest = client
        views = last_ms = 0
        first: tuple[int, int] | None = None
        last = (0, 0)
        ts = begin_ms
        from_where = self._referrers[int(rand() * 65_536)] if not is_app and rand() < 0.6 else 0
        campaign = self._campaigns[int(rand() * 4096)] if not is_app and rand() < 0.12 else (0, 0, 0)
        size = made = self._sizes[int(rand() * 4096)]
        # Of the events behind a visit's first, so that in all 10 % are custom and 10 % come from an app.
        custom = 0.29 if is_app else 0.156
        for k in range(size):
            page = self._paths[int(rand() * 262_144)]
            name, data = 0, None
            if k and rand() < custom:
                type_ = 3 if is_app else 2
                name = self._names[int(rand() * 1024)]
                data = EVENT_DATA[int(rand() * 60)] if rand() < 0.3 else None
            else:
                type_ = 1 if is_app else 0
                views += 1
                first, last = first or (page, ts), (page, ts)
            day.events.append((ts, type_, visitor, visit, page, *fields, *rest, name, data))
            last_ms = ts
            ts += self._gaps[int(rand() * 4096)] + int(rand() * 1000)
            if ts >= end_ms:
                made = k + 1
                break
        # The first event of a visit is a pageview, and carries its acquisition.
        entry = first or (0, begin_ms)
        pages = (entry[0], last[0], entry[1] - begin_ms, last_ms - last[1])
        figures = (begin_ms, last_ms - begin_ms, views, made - views)
        acquisition = (from_where, *campaign)
        if acquisition not in self._channels:
            self._channels[acquisition] = self._label(channel(*(self._text[number] for number in acquisition)))
        day.visits.append((visitor, visit, *figures, *pages, *acquisition, 0, 0, self._channels[acquisition], 0))
        return last_ms


def _visit_sizes() -> tuple[list[int], list[float]]:
    """Return sizes of visits (1 to 40 events, 45 % have one) and their weights; the mean is EVENTS_PER_VISIT."""
    more = (EVENTS_PER_VISIT - 0.45) / 0.55 - 2
    stop = 1 / (1 + more)
    return list(range(1, 41)), [0.45, *(0.55 * stop * (1 - stop) ** k for k in range(39))]


def _agent(n: Any, _: int, browser: str, system: str, device: str) -> tuple[Any, ...]:
    is_app = not browser
    platform = n({"iOS": "ios", "Android": "android"}[system]) if is_app else 0
    return is_app, n(browser), n(system), n(device), platform, [n(text) for text in OS_VERSIONS.get(system, ("",))]
