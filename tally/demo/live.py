"""Traffic that arrives while a demo is served: visits drawn as those of the file, sent by the server to itself.

A visit begins every FIRST_S seconds on average for FIRST_MS after the start, and every LATER_S seconds
afterwards, about as many as a day of the file has. Its events are admitted and stored as those of a collect request
(tally/ingest/collector.py), at the times at which a visitor would cause them; only the country is drawn, since no
address has it.
"""

import asyncio
import heapq
import itertools
import logging
import random
from typing import Any
from urllib.parse import urlencode

from tally.demo.sites import SITES, Site
from tally.demo.traffic import Line, visit_now
from tally.errors import ApiError
from tally.events.request_context import Place
from tally.events.sender import Sender
from tally.events.validation import Batch
from tally.ingest.collector import Collector, take

FIRST_S, LATER_S, FIRST_MS = 15.0, 80.0, 30 * 60_000
_TYPES = ("pageview", "screen_view", "event", "app_event")
_UTM = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
_FIELDS = ("event_name", "event_data", "language", "browser", "os", "os_version", "device", "platform", "app_version")

log = logging.getLogger(__name__)


async def send_visits(collector: Collector) -> None:
    """Send the events of visits to the demo's websites, each when it is due, until this is cancelled."""
    clock, chance = collector.clock, random.Random()
    began_ms = next_ms = clock.wall_ms()
    # When an event is due, a number that makes entries distinct, its website and its line.
    due: list[tuple[int, int, Site, Line]] = []
    numbers = itertools.count()
    while True:
        now_ms = clock.wall_ms()
        if now_ms >= next_ms:
            site = chance.choices(SITES, [site.visits for site in SITES])[0]
            for line in visit_now(site, f"live-{chance.getrandbits(64):016x}", now_ms):
                if line["type"] in _TYPES:
                    heapq.heappush(due, (line["timestamp"], next(numbers), site, line))
            mean_s = FIRST_S if now_ms - began_ms < FIRST_MS else LATER_S
            next_ms = now_ms + int(1_000 * chance.expovariate(1 / mean_s))
        while due and due[0][0] <= now_ms:
            _, _, site, line = heapq.heappop(due)
            try:
                await take(collector, Batch([_item(collector, site, line)], None, {}), _sender(collector, line))
            except ApiError as error:
                log.debug("an event of the demo's live traffic was not stored: %s", error.kind.code)
        await asyncio.sleep(0.5)


def _item(collector: Collector, site: Site, line: Line) -> dict[str, Any]:
    """Return the event of a collect request."""
    website = collector.registry.website_of(site.domain)
    item = {name: line[name] for name in _FIELDS if line.get(name)}
    item |= {"type": line["type"], "session_id": line["visitor"], "website_id": website.id if website else site.domain}
    if site.is_app:
        return item | {"name": line["pathname"].removeprefix("/")}
    query = urlencode({name: line[name] for name in _UTM if name in line})
    referrer = {"referrer": f"https://{line['referrer']}/"} if "referrer" in line else {}
    return item | referrer | {"url": f"https://{site.domain}{line['pathname']}{'?' + query if query else ''}"}


def _sender(collector: Collector, line: Line) -> Sender:
    """Return the sender: this machine, with the place that was drawn."""
    place = Place(*(line.get(name, "") for name in ("country", "region", "city")))
    return Sender(collector.resolver.client("127.0.0.1")._replace(place=place), None, "", line.get("language", ""))
