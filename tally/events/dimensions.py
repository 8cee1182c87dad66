"""A checked event and its request -> the 14 dimensions, as text.

Rules: what the event (or its batch's context) says wins over what the request's headers tell; no lookup leaves the
process; '' is unset. The client's address and User-Agent go in as what they told (an Agent, a country) and are not
kept.

Keep in step: FIELDS gives the order of the dimensions everywhere: rows of the database, /events, CSV, openapi.yaml.
"""

from typing import NamedTuple

from tally.events.urls import external_referrer, utm
from tally.events.user_agent import Agent
from tally.events.validation import SCREEN_VIEW, Event, normal_language

FIELDS = (
    "pathname",
    "referrer",
    "country",
    "browser",
    "os",
    "device",
    "language",
    "hostname",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "platform",
    "app_version",
    "os_version",
)
"""The 14 dimensions (the seed's :field), which are columns of the same names."""


class RequestContext(NamedTuple):
    """What a request tells of all its events."""

    agent: Agent
    country: str
    language: str


def first_language(accept_language: str) -> str:
    """The first tag of an Accept-Language header in its usual case, or ''."""
    return normal_language(accept_language[:200].split(",", 1)[0].split(";", 1)[0].strip())


def dimensions(
    event: Event, around: RequestContext, domain: str, origins: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """The texts of FIELDS for an event of the website registered for `domain` that also allows these origins."""
    url, agent = event.url, around.agent
    source, medium, campaign = utm(url.query) if url and url.query else ("", "", "")
    return (
        _pathname(event),
        # The page of an app's own web view: collect takes it only from an allowed origin.
        "" if "://" in event.referrer else external_referrer(event.referrer, domain, origins),
        around.country,
        event.browser or agent.browser,
        event.os or agent.os,
        event.device or agent.device,
        event.language or around.language,
        url.host if url else "",
        source,
        medium,
        campaign,
        event.platform,
        event.app_version,
        # The User-Agent's version belongs to the User-Agent's system: said with another system it would lie.
        event.os_version or (agent.os_version if event.os in ("", agent.os) else ""),
    )


def _pathname(event: Event) -> str:
    if event.url is not None and event.type != SCREEN_VIEW:
        return event.url.path
    return "/" + event.name if event.name else ""
