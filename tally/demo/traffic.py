"""Draws the traffic of the demo's websites: lines as `import` reads them, heatmap points, rejected events. Pure.

The same arguments give the same traffic: each website and day has a random generator of its own, seeded by SEED, the
website's domain and the day's distance from the end. Nothing reads a clock.

A day is the website's, in standard time of its zone. It has visits by the website's growth and weekday, spread over its
hours by the local time of each visitor's country; two thirds of the visitors are in the website's own country and zone.
A visit has a source, a device and a path through the pages, drawn step by step. A visitor is a text that is used on one
day only. Events after the end are dropped, so the last day ends in the middle; some visits of the last minutes are
added, so that the realtime view is not empty.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zlib import crc32

from tally.demo.sites import (
    BROWSER_VERSIONS,
    CITIES,
    COUNTRIES,
    EXIT,
    FIRST_RELEASE,
    HOT,
    HOURS,
    PRODUCTS,
    RELEASES,
    Campaign,
    Client,
    Site,
    Trial,
)
from tally.timeranges import standard_offset_minutes
from tally.timestamps import DAY_MS, HOUR_MS, MINUTE_MS, iso

SEED = "tally demo 1"
DAYS = 183
"""Half a year, the last day included."""
USUAL_EVENTS = 200_000
"""The events that the tables of tally/demo/sites.py are drawn up for."""

_MAX_PAGES = 14
_NOW_MS = 270_000
"""Realtime counts the last 300 seconds; the added visits begin within these."""
_NOW_VISITS = 9
_HEAT_DAYS = 60
_VITALS_SHARE = 0.14
# Of page views; the others are those of visitors whose browser closed without a word.
_LEAVE_SHARE = 0.88
# How many of a website's visits come again on the same day, after more than 30 minutes: a second visit of a visitor.
_AGAIN = 0.09
# Of the country in which a website is at home: about twice that of all others.
_HOME_WEIGHT = 180.0

Line = dict[str, Any]
HeatRow = tuple[int, str, int, int, float, float]
"""day, pathname, viewport width, kind, x, y."""


class _Who(NamedTuple):
    """A visitor on one day."""

    key: str
    country: str
    hour_offset: int
    language: str
    client: Client


class _Draw:
    """A random generator with tables of weights, which are added up once."""

    def __init__(self, *seed: object) -> None:
        self.random = random.Random(":".join(map(str, (SEED, *seed))))

    def of(self, weights: Mapping[str, float]) -> str:
        """A key by its weight."""
        return self.random.choices(list(weights), weights.values())[0]  # type: ignore[arg-type]

    def count(self, mean: float) -> int:
        """A whole number with that mean: the fraction is drawn."""
        return int(mean) + (self.random.random() < mean % 1)


def lines(site: Site, until_ms: int, scale: float) -> Iterator[Line]:
    """Return every event of a website in the order of its days, as lines of tally/transfer/line_format.py."""
    last = _last_day(site, until_ms)
    for age in reversed(range(DAYS)):
        yield from _day(site, last - age, age, until_ms, scale)


def _day(site: Site, day: int, age: int, until_ms: int, scale: float) -> list[Line]:
    """Return the events of a day, by time."""
    draw, offset_ms = _Draw(site.domain, age), _offset_ms(site, until_ms)
    # Of its own, so that the other draws stay as they are.
    leaving = _Draw(site.domain, age, "leaves")
    begin_ms = day * DAY_MS - offset_ms
    lines: list[Line] = []
    for number in range(draw.count(_visits(site, day, age, draw) * scale)):
        who = _who(site, draw, f"{age}-{number}")
        begin = begin_ms + _moment(site, draw, who, offset_ms)
        is_spike = site.spike is not None and age in (site.spike[0], site.spike[0] - 1)
        lines += _visit(site, draw, who, begin, age, is_spike, leaving)
        if draw.random.random() < _AGAIN:
            lines += _visit(site, draw, who, begin + draw.random.randrange(2, 6) * HOUR_MS, age, False, leaving)
    if not age:
        for number in range(_NOW_VISITS):
            who = _who(site, draw, f"now-{number}")
            lines += _visit(site, draw, who, until_ms - draw.random.randrange(_NOW_MS), 0, False, leaving)
    # A visit that passes midnight would have another visitor there: it ends with the day.
    end = min(begin_ms + DAY_MS - 1, until_ms)
    kept = [line for line in lines if begin_ms <= line["timestamp"] <= end]
    kept.sort(key=lambda line: line["timestamp"])
    return kept


def visit_now(site: Site, key: str, now_ms: int) -> list[Line]:
    """Return the events of a visit of visitor `key` that begins at a time of today, by time."""
    draw = _Draw(site.domain, key)
    return sorted(_visit(site, draw, _who(site, draw, key), now_ms, 0, False), key=lambda line: line["timestamp"])


def _visits(site: Site, day: int, age: int, draw: _Draw) -> float:
    """Return the mean number of visits of a day."""
    weekday = datetime.fromtimestamp(day * 86_400, UTC).weekday()
    grown = site.growth + (1 - site.growth) * (1 - age / DAYS)
    # A slow wave of seven weeks besides: no website grows in a straight line.
    wave = 1 + 0.07 * math.sin(age / 49 * math.tau)
    visits = site.visits * grown * site.weekdays[weekday] * wave * draw.random.gauss(1, 0.06)
    if site.spike and 0 <= site.spike[0] - age <= 3:
        visits *= 1 + (site.spike[1] - 1) * (1, 0.55, 0.22, 0.1)[site.spike[0] - age]
    return max(0.0, visits)


def _who(site: Site, draw: _Draw, key: str) -> _Who:
    weights = [_HOME_WEIGHT if row[0] == site.home else row[1] for row in COUNTRIES]
    country, _, ahead, languages = draw.random.choices(COUNTRIES, weights)[0]
    client = draw.random.choices(site.clients, [client.weight for client in site.clients])[0]
    return _Who(key, country, ahead, draw.random.choice(languages), client)


def _moment(site: Site, draw: _Draw, who: _Who, offset_ms: int) -> int:
    """Return the milliseconds from the begin of the website's day to a visit."""
    local_ms = draw.random.choices(range(24), HOURS)[0] * HOUR_MS + draw.random.randrange(HOUR_MS)
    ahead_ms = offset_ms if who.country == site.home else who.hour_offset * HOUR_MS
    return (local_ms - ahead_ms + offset_ms) % DAY_MS


def _offset_ms(site: Site, until_ms: int) -> int:
    return standard_offset_minutes(site.time_zone, until_ms) * MINUTE_MS


def _last_day(site: Site, until_ms: int) -> int:
    return (until_ms + _offset_ms(site, until_ms)) // DAY_MS


def _visit(
    site: Site, draw: _Draw, who: _Who, begin: int, age: int, is_spike: bool, leaving: _Draw | None = None
) -> list[Line]:
    """Return the events of a visit, with leaves where these are drawn."""
    chance = draw.random.random
    source = _source(site, draw, age, is_spike)
    page = draw.of(source.landing or site.landing)
    dimensions = _dimensions(site, who, age)
    now, lines, tried = float(begin), list[Line](), set[str]()
    bounces = chance() < site.bounce
    for step in range(_MAX_PAGES):
        line: Line = {"type": "screen_view" if site.is_app else "pageview", "timestamp": int(now), "pathname": page}
        line |= dimensions | ({} if step else _acquisition(source))
        lines.append(line)
        if not site.is_app and chance() < _VITALS_SHARE:
            lines.append(_vitals(site, draw, dimensions, page, now, age))
        stay = 1_000 * min(draw.random.expovariate(1 / site.pages[page].seconds) + 4, 1_500)
        if leaving and not site.is_app and leaving.random.random() < _LEAVE_SHARE:
            lines.append(_leave(leaving, dimensions, page, now, stay / (4 if bounces else 1)))
        if not bounces:
            lines += _events(site, draw, dimensions, page, now, stay)
            for trial in site.trials:
                if trial.at == page and age <= trial.began and trial.name not in tried:
                    tried.add(trial.name)
                    lines += _trial(draw, trial, dimensions, now)
        onward = draw.of(site.pages[page].onward)
        if bounces or onward == EXIT:
            break
        now, page = now + stay, onward
    return lines


def _source(site: Site, draw: _Draw, age: int, is_spike: bool) -> Campaign:
    if is_spike and site.spike and draw.random.random() < 0.62:
        return Campaign(1, site.spike[2], landing={"/posts/night-trains-europe": 1})
    running = [source for source in site.sources if source.ages[0] <= age <= source.ages[1]]
    return draw.random.choices(running, [source.weight for source in running])[0]


def _acquisition(source: Campaign) -> Line:
    texts = {
        "referrer": source.referrer,
        "utm_source": source.source,
        "utm_medium": source.medium,
        "utm_campaign": source.name,
        "utm_content": source.content,
        "utm_term": source.term,
    }
    return {name: text for name, text in texts.items() if text}


def _dimensions(site: Site, who: _Who, age: int) -> Line:
    client = who.client
    # Derived from the key, so that the other draws stay as they are.
    number = crc32(who.key.encode())
    cities = CITIES.get(who.country, (("", ""),))
    region, city = cities[number % len(cities)]
    newest = BROWSER_VERSIONS.get(client.browser)
    texts = {
        "visitor": who.key,
        "country": who.country,
        "region": region,
        "city": city,
        "language": who.language,
        "browser": client.browser,
        "browser_version": str(newest - (number % 5 == 0)) if newest else "",
        "os": client.os,
        "os_version": client.os_version,
        "device": client.device,
        "platform": client.platform,
        "hostname": "" if site.is_app else site.domain,
        "app_version": _release(who.key, age) if site.is_app else "",
    }
    return {name: text for name, text in texts.items() if text}


def _release(key: str, age: int) -> str:
    """Return the version of the app; some visitors update a few weeks late."""
    late = 18 if key.endswith(("3", "7")) else 0
    return next((version for out, version in reversed(RELEASES) if age + late <= out), FIRST_RELEASE)


def _events(site: Site, draw: _Draw, dimensions: Line, page: str, now: float, stay: float) -> list[Line]:
    kind = "app_event" if site.is_app else "event"
    return [
        {
            "type": kind,
            "timestamp": int(now + stay * draw.random.uniform(0.2, 0.9)),
            "pathname": page,
            "event_name": name,
            "event_data": _data(draw, name, page),
            **dimensions,
        }
        for name, odds in site.pages[page].events
        if draw.random.random() < odds
    ]


def _data(draw: _Draw, name: str, page: str) -> Line | None:
    """Return the event_data of a custom event."""
    pick = draw.random.choice
    if name == "add_to_cart":
        product, price = PRODUCTS[page]
        return {"product": product, "price": price, "quantity": draw.random.choices((1, 2, 3), (80, 16, 4))[0]}
    if name == "order":
        items = draw.random.choices((1, 2, 3, 4), (52, 28, 14, 6))[0]
        return {"value": round(items * draw.random.uniform(11, 26), 2), "items": items, "payment": pick(_PAYMENTS)}
    if name == "newsletter_signup":
        return {"place": pick(("footer", "footer", "article", "popup"))}
    if name == "outbound":
        return {"host": pick(("openstreetmap.org", "openstreetmap.org", "wikivoyage.org", "trains.example"))}
    if name in ("habit_done", "habit_created"):
        done = {"category": pick(_HABITS)}
        return done | {"streak": int(draw.random.expovariate(1 / 9)) + 1} if name == "habit_done" else done
    if name == "upgrade":
        return {"plan": pick(("monthly", "yearly", "yearly")), "trial": draw.random.random() < 0.7}
    return None


_PAYMENTS = ("card", "card", "card", "paypal", "paypal", "invoice")
_HABITS = ("exercise", "exercise", "reading", "water", "water", "sleep", "meditation", "language")


def _trial(draw: _Draw, trial: Trial, dimensions: Line, now: float) -> list[Line]:
    """Return an assignment and, if the goal is reached, a conversion."""
    variant = draw.random.choice(list(trial.rates))
    base = {"experiment": trial.name, "variant": variant, **dimensions}
    lines: list[Line] = [{"type": "ab_assign", "timestamp": int(now) + 40, **base}]
    if draw.random.random() < trial.rates[variant]:
        worth = {} if trial.value is None else {"value": round(trial.value * draw.random.uniform(0.5, 1.8), 2)}
        after = int(now) + draw.random.randrange(20_000, 200_000)
        lines.append({"type": "ab_convert", "timestamp": after, "goal": trial.goal, **base, **worth})
    return lines


def _vitals(site: Site, draw: _Draw, dimensions: Line, page: str, now: float, age: int) -> Line:
    """Return the web vitals of a page view. 70 days before the end the websites become faster."""
    slow = {"desktop": 1.0, "tablet": 1.35, "mobile": 1.6}[dimensions["device"]] * (1.0 if age < 70 else 1.3)
    spread = draw.random.lognormvariate
    ttfb = 210 * slow * spread(0, 0.5)
    fcp = ttfb + 520 * slow * spread(0, 0.45)
    measured = {
        "ttfb": round(ttfb, 1),
        "fcp": round(fcp, 1),
        "lcp": round(fcp + 540 * site.pages[page].weight * slow * spread(0, 0.55), 1),
        "cls": round(min(0.024 * slow * spread(0, 1.1), 2), 4),
    }
    if draw.random.random() < 0.75:
        measured["inp"] = round(62 * slow * spread(0, 0.65))
    without = {name: value for name, value in dimensions.items() if name != "visitor"}
    return {"type": "vitals", "timestamp": int(now) + 900, "pathname": page, "vitals": measured, **without}


def _leave(draw: _Draw, dimensions: Line, page: str, now: float, stay: float) -> Line:
    """Return what a page view measured when it was left: the longer it was read, the further down."""
    seconds = max(1, round(stay / 1_000 * draw.random.uniform(0.6, 1)))
    depth = min(1.0, draw.random.betavariate(2, 2) * (0.55 + seconds / 90))
    measured = {"time_on_page": seconds, "scroll_depth": max(5, round(depth * 20) * 5)}
    without = {name: value for name, value in dimensions.items() if name != "visitor"}
    return {"type": "leave", "timestamp": int(now), "pathname": page, "vitals": measured, **without}


def heat_points(site: Site, until_ms: int, scale: float) -> Iterator[HeatRow]:
    """Return the clicks (kind 0) and scroll depths (kind 1) of the last weeks."""
    for path, (height, clicks, places) in HOT.get(site.domain, {}).items():
        draw = _Draw(site.domain, path, "heat")
        weights = [place[4] for place in places]
        for age in reversed(range(_HEAT_DAYS)):
            day = _last_day(site, until_ms) - age
            for viewport, share, taller in ((1_440, 0.5, 1.0), (820, 0.1, 1.3), (390, 0.4, 1.9)):
                for _ in range(draw.count(clicks * scale * share * 2)):
                    across, down, wide, high, _ = draw.random.choices(places, weights)[0]
                    x, y = draw.random.gauss(across, wide), draw.random.gauss(down, high) * taller
                    yield day, path, viewport, 0, min(max(x, 0), 1), min(max(y, 0), height * taller)
                for _ in range(draw.count(clicks * scale * share)):
                    depth = 800 + draw.random.expovariate(1 / (height * 0.45))
                    yield day, path, viewport, 1, 0, min(depth, height) * taller


def rejected(site: Site, until_ms: int, scale: float) -> Counter[tuple[int, str]]:
    """Return how many events were rejected, by (quarter of an hour since 1970, code)."""
    draw, counts = _Draw(site.domain, "rejected"), Counter[tuple[int, str]]()
    for age in reversed(range(DAYS)):
        means = {"crawler": 16.0, "origin_not_allowed": 1.6, "timestamp_too_old": 0.5, "invalid_field": 0.3}
        if age == 33:
            means["rate_limited"] = 240.0
        for code, mean in means.items() if not site.is_app else [("timestamp_too_old", 1.2), ("invalid_field", 0.4)]:
            for _ in range(draw.count(mean * max(scale, 0.05) * draw.random.uniform(0.5, 1.5))):
                ms = (until_ms // DAY_MS - age) * DAY_MS + draw.random.randrange(DAY_MS)
                if ms <= until_ms:
                    counts[ms // 900_000, code] += 1
    return counts


_CRAWLERS = (
    *(("Googlebot", 9.0), ("bingbot", 4.0), ("GPTBot", 7.0), ("ClaudeBot", 5.0), ("ChatGPT-User", 2.5)),
    *(("OAI-SearchBot", 2.0), ("PerplexityBot", 1.5), ("Bytespider", 1.2), ("AhrefsBot", 3.0), ("Slackbot", 0.6)),
)


def crawls(site: Site, until_ms: int, scale: float) -> Iterator[tuple[int, str, str]]:
    """Yield (day of the website, crawler, path) of each request of a crawler. Those for AI grow over the time."""
    draw = _Draw(site.domain, "crawlers")
    paths = list(site.pages)
    for age in reversed(range(DAYS)):
        growth = 0.4 + 1.2 * (DAYS - age) / DAYS
        for name, mean in _CRAWLERS if not site.is_app else ():
            of_ai = name not in ("Googlebot", "bingbot", "AhrefsBot", "Slackbot")
            for _ in range(draw.count(mean * max(scale, 0.05) * (growth if of_ai else 1))):
                yield _last_day(site, until_ms) - age, name, draw.random.choice(paths)


def span(until_ms: int) -> Sequence[str]:
    """Return the first and the last day, as dates."""
    return [iso(ms)[:10] for ms in (until_ms - (DAYS - 1) * DAY_MS, until_ms)]
