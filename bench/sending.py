"""What is sent to collect: requests as bytes, made before the clock runs, so that the client costs little.

They say what browsers and apps say (bench/traffic.py has the same paths, referrers and systems), from many
addresses, as if a proxy on this machine passed them on. A request with an event_id gets another one each time it is
sent: the bytes around it are made once.
"""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from traffic import DOMAIN, HOSTNAME, LANGUAGES, PATHS, REFERRERS, path, referrer, zipf

Make = Callable[[int], bytes]
"""The n-th request."""

USER_AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0"
    " Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
)
EVENTS_A_BATCH = 50  # the maximum of a request
# Enough that caches of labels and User-Agents see a busy hour, few enough to be made in a second.
_MADE = 2_000
_MARK = "event-id-goes-here"


class Words:
    """Draws what events say."""

    def __init__(self, seed: int, sessions: int) -> None:
        self._draw = random.Random(seed)
        self._sessions = sessions
        self._paths = zipf(range(PATHS), 1 << 16)
        self._referrers = zipf(range(REFERRERS), 1 << 12)

    def event(self, session: int | None = None) -> dict[str, Any]:
        """One event of a session, a random one where none is named: mostly pageviews."""
        draw = self._draw
        number = draw.randrange(self._sessions) if session is None else session
        event: dict[str, Any] = {
            "type": "pageview",
            "url": f"https://{HOSTNAME}{path(draw.choice(self._paths))}",
            "session_id": f"session-{number:08}",
        }
        if draw.random() < 0.12:
            event |= {"type": "event", "event_name": "signup", "event_data": {"plan": "pro"}}
        elif draw.random() < 0.2:
            event["referrer"] = f"https://{referrer(draw.choice(self._referrers))}/found"
        return event

    def headers(self) -> str:
        """The lines that a browser and a proxy add."""
        draw = self._draw
        address = f"{draw.randrange(11, 100)}.{draw.randrange(256)}.{draw.randrange(256)}.{draw.randrange(1, 255)}"
        return (
            f"User-Agent: {draw.choice(USER_AGENTS)}\r\nOrigin: https://{DOMAIN}\r\nX-Forwarded-For: {address}\r\n"
            f"Accept-Language: {draw.choice(LANGUAGES)},en;q=0.5\r\nContent-Type: text/plain\r\n"
        )


class Measuring(Words):
    """Draws what events say where a page measures itself too: a fifth are web vitals, a tenth heatmap points, and a
    tenth experiments."""

    def event(self, session: int | None = None) -> dict[str, Any]:
        """One event of a session."""
        event, draw = super().event(session), self._draw
        about = {name: event[name] for name in ("url", "session_id")}
        which = draw.random()
        if which < 0.2:
            values = {"lcp": 1_900.0, "inp": 96.0, "fcp": 1_300.0, "ttfb": 450.0, "cls": 0.03}
            told = {name: round(value * draw.lognormvariate(0, 0.6), 4) for name, value in values.items()}
            return about | {"type": "vitals", "vitals": told}
        if which < 0.3:
            points = [{"x": draw.random(), "y": int(draw.random() ** 2 * 4_000), "kind": "click"} for _ in range(3)]
            points.append({"x": 0, "y": draw.randrange(600, 5_000), "kind": "scroll"})
            return about | {"type": "heatmap", "viewport_width": draw.choice((390, 820, 1440)), "points": points}
        if which < 0.4:
            return about | {"type": "ab_assign", "experiment": "button", "variant": draw.choice(("control", "green"))}
        return event


def post(headers: str, body: bytes) -> bytes:
    """A whole request to collect."""
    head = f"POST /api/collect HTTP/1.1\r\nHost: {DOMAIN}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def singles(website: str, *, with_event_id: bool = False) -> Make:
    """One event a request, of 5,000 visitors."""
    words = Words(1, 5_000)
    made = []
    for _ in range(_MADE):
        made.append(single(words, website, words.event() | ({"event_id": _MARK} if with_event_id else {})))
    if not with_event_id:
        return lambda n: made[n % _MADE]
    halves = [request.split(_MARK.encode()) for request in made]
    width = len(_MARK)

    def marked(n: int) -> bytes:
        before, behind = halves[n % _MADE]
        return b"%b%0*d%b" % (before, width, n, behind)

    return marked


def batches(website: str, sessions: int = 20_000) -> Make:
    """EVENTS_A_BATCH events a request, each of another visitor."""
    words = Words(2, sessions)
    made = [batch(website, [words.event() for _ in range(EVENTS_A_BATCH)]) for _ in range(_MADE)]
    return lambda n: made[n % _MADE]


def everybody(website: str, visitors: int) -> list[bytes]:
    """Requests in which each of so many visitors has one event."""
    words = Words(3, 1)
    firsts = range(0, visitors, EVENTS_A_BATCH)
    return [batch(website, [words.event(n) for n in range(first, first + EVENTS_A_BATCH)]) for first in firsts]


def single(words: Words, website: str, event: dict[str, Any]) -> bytes:
    """A request of a browser: one event."""
    return post(words.headers(), json.dumps({"website_id": website, **event}, separators=(",", ":")).encode())


def batch(website: str, events: Sequence[dict[str, Any]]) -> bytes:
    """A request of an app, which has no origin."""
    body = json.dumps({"website_id": website, "events": events}, separators=(",", ":")).encode()
    return post("User-Agent: shop/4.6 okhttp/4.12\r\nContent-Type: application/json\r\n", body)
