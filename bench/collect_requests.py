"""Requests to the collect API as bytes, made before the measurement, so that the client costs little.

Their events are like those of browsers and apps (bench/traffic.py has the same paths, referrers and systems), from many
client addresses, as a proxy on this machine would forward them. A request with an event_id gets a new one each time it
is sent; the bytes around it are made once.
"""

import json
import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from traffic import DOMAIN, HOSTNAME, LANGUAGES, PATHS, REFERRERS, path, referrer, zipf

MakeRequest = Callable[[int], bytes]
"""Returns the n-th request."""

USER_AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0"
    " Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
)
EVENTS_PER_BATCH = 50  # the maximum of a request
# Different requests, for the caches of labels and User-Agents.
_REQUESTS = 2_000
_PLACEHOLDER = "event_id_with_24_letters"


class EventGenerator:
    """Draws random events of some sessions."""

    def __init__(self, seed: int, sessions: int) -> None:
        self._rng = random.Random(seed)
        self._sessions = sessions
        self._paths = zipf(range(PATHS), 1 << 16)
        self._referrers = zipf(range(REFERRERS), 1 << 12)

    def event(self, session: int | None = None) -> dict[str, Any]:
        """Return an event of a session, or of a random one: mostly pageviews."""
        rng = self._rng
        number = rng.randrange(self._sessions) if session is None else session
        event: dict[str, Any] = {
            "type": "pageview",
            "url": f"https://{HOSTNAME}{path(rng.choice(self._paths))}",
            "session_id": f"session-{number:08}",
        }
        if rng.random() < 0.12:
            event |= {"type": "event", "event_name": "signup", "event_data": {"plan": "pro"}}
        elif rng.random() < 0.2:
            event["referrer"] = f"https://{referrer(rng.choice(self._referrers))}/found"
        return event

    def headers(self) -> str:
        """Return the header lines that a browser and a proxy add."""
        rng = self._rng
        address = f"{rng.randrange(11, 100)}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
        return (
            f"User-Agent: {rng.choice(USER_AGENTS)}\r\nOrigin: https://{DOMAIN}\r\nX-Forwarded-For: {address}\r\n"
            f"Accept-Language: {rng.choice(LANGUAGES)},en;q=0.5\r\nContent-Type: text/plain\r\n"
        )


class MeasurementGenerator(EventGenerator):
    """Draws events of a page with measurements: a fifth are web vitals, a tenth heatmap points, a tenth experiments."""

    def event(self, session: int | None = None) -> dict[str, Any]:
        """Return an event of a session."""
        event, rng = super().event(session), self._rng
        page = {name: event[name] for name in ("url", "session_id")}
        which = rng.random()
        if which < 0.2:
            values = {"lcp": 1_900.0, "inp": 96.0, "fcp": 1_300.0, "ttfb": 450.0, "cls": 0.03}
            measured = {name: round(value * rng.lognormvariate(0, 0.6), 4) for name, value in values.items()}
            return page | {"type": "vitals", "vitals": measured}
        if which < 0.3:
            points = [{"x": rng.random(), "y": int(rng.random() ** 2 * 4_000), "kind": "click"} for _ in range(3)]
            points.append({"x": 0, "y": rng.randrange(600, 5_000), "kind": "scroll"})
            return page | {"type": "heatmap", "viewport_width": rng.choice((390, 820, 1440)), "points": points}
        if which < 0.4:
            return page | {"type": "ab_assign", "experiment": "button", "variant": rng.choice(("control", "green"))}
        return event


def post(headers: str, body: bytes) -> bytes:
    """Return a whole request."""
    head = f"POST /api/collect HTTP/1.1\r\nHost: {DOMAIN}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def singles(website: str, event_ids: str = "") -> MakeRequest:
    """Return requests with one event each, of 5,000 visitors.

    event_ids: `time`, that begin with it, as those of the tracker; `random`; or "", without.
    """
    generator = EventGenerator(1, 5_000)
    made = []
    for _ in range(_REQUESTS):
        made.append(single(generator, website, generator.event() | ({"event_id": _PLACEHOLDER} if event_ids else {})))
    if not event_ids:
        return lambda n: made[n % _REQUESTS]
    halves = [request.split(_PLACEHOLDER.encode()) for request in made]
    event_id = _event_id if event_ids == "time" else _event_id_without_time

    def marked(n: int) -> bytes:
        before, after = halves[n % _REQUESTS]
        return before + event_id(n) + after

    return marked


def _event_id(n: int) -> bytes:
    return b"%d-%010d" % (time.time_ns() // 1_000_000, n)


def _event_id_without_time(n: int) -> bytes:
    return b"x%023d" % n


def changing_visitors(website: str) -> MakeRequest:
    """Return requests with one event each, with event_ids as those of the tracker, of visitors who come and go: each
    has four events, between those of 300 others."""
    generator = EventGenerator(4, 1)
    rng = random.Random(4)
    made = [single(generator, website, generator.event() | {"event_id": _PLACEHOLDER}) for _ in range(_REQUESTS)]
    parts = [re.split(b"%b|session-0{8}" % _PLACEHOLDER.encode(), request) for request in made]

    def following(n: int) -> bytes:
        start, middle, end = parts[n % _REQUESTS]
        return b"%bsession-%08d%b%b%b" % (start, n // 4 + rng.randrange(300), middle, _event_id(n), end)

    return following


def batches(website: str, sessions: int = 20_000) -> MakeRequest:
    """Return requests with EVENTS_PER_BATCH events, each of another visitor."""
    generator = EventGenerator(2, sessions)
    made = [batch(website, [generator.event() for _ in range(EVENTS_PER_BATCH)]) for _ in range(_REQUESTS)]
    return lambda n: made[n % _REQUESTS]


def one_event_per_visitor(website: str, visitors: int) -> list[bytes]:
    """Return requests in which each of so many visitors has one event."""
    generator = EventGenerator(3, 1)
    firsts = range(0, visitors, EVENTS_PER_BATCH)
    return [batch(website, [generator.event(n) for n in range(first, first + EVENTS_PER_BATCH)]) for first in firsts]


def single(generator: EventGenerator, website: str, event: dict[str, Any]) -> bytes:
    """Return a request of a browser: one event."""
    return post(generator.headers(), json.dumps({"website_id": website, **event}, separators=(",", ":")).encode())


def batch(website: str, events: Sequence[dict[str, Any]]) -> bytes:
    """Return a request of an app, which has no origin."""
    body = json.dumps({"website_id": website, "events": events}, separators=(",", ":")).encode()
    return post("User-Agent: shop/4.6 okhttp/4.12\r\nContent-Type: application/json\r\n", body)
