"""Visits with known pages and events, sent through collect as apps do: for the pages of events, funnels and journeys.

Forty visits of yesterday begin one minute apart at 10:00 UTC, so none crosses midnight. All have /, every second
/pricing half a minute later, every fourth of all signs up (with data), every fifth of all downloads (without).
"""

import time
from collections.abc import Iterator
from typing import Any

from tests.browser.history import IMG, SampleServer

VISITS = 40
A_BATCH = 50
DAY_S = 86_400
PLANS = ("pro", "free", "free", IMG)
# More than a list shows at first.
RARE = [f"rare-{n:02}" for n in range(14)]


def send_journeys(site: SampleServer, website: str) -> None:
    """Send all of them to a website."""
    sent = list(_events(int(time.time() // DAY_S - 1) * DAY_S + 10 * 3600))
    for first in range(0, len(sent), A_BATCH):
        site.send(website, *sent[first : first + A_BATCH])


def _events(start_s: int) -> Iterator[dict[str, Any]]:
    for n in range(VISITS):
        at_ms = (start_s + 60 * n) * 1000
        own = {"session_id": f"visitor-{n:04}", "browser": "Chrome" if n % 4 else "Firefox"}
        yield own | {"type": "pageview", "url": "https://second.example/", "timestamp": at_ms}
        if n % 2 == 0:
            yield own | {"type": "pageview", "url": "https://second.example/pricing", "timestamp": at_ms + 30_000}
        if n % 4 == 0:
            data = {"plan": PLANS[n // 4 % 4], "seats": n, "price": n / 8, "yearly": n % 8 == 0, "code": str(n % 3)}
            yield own | {"type": "app_event", "event_name": "signup", "event_data": data, "timestamp": at_ms + 90_000}
        if n % 5 == 0:
            yield own | {"type": "app_event", "event_name": "download", "timestamp": at_ms + 100_000}
    for n, name in enumerate(RARE):
        yield {"type": "app_event", "event_name": name, "session_id": f"rare-{n:05}", "timestamp": start_s * 1000}
