"""Compute the dimensions of a checked event, as text.

What the event, or its batch's context, says wins over what the request's headers say; "" is unset. No lookup leaves the
process. The client's address and User-Agent arrive here as what they stand for (a country, an Agent) and are not kept.

The table of dimensions is in tally/events/fields.py.
"""

from typing import NamedTuple

from tally.events.fields import DIMENSIONS
from tally.events.urls import external_referrer, utm
from tally.events.user_agent import Agent
from tally.events.validation import SCREEN_VIEW, Event, normal_language

FIELDS = tuple(one.name for one in DIMENSIONS)
"""The names of the dimensions (the seed's :field), which are columns of the same names."""
# The dimensions that `dimensions` does not compute itself; they are the last ones of DIMENSIONS.
_OTHERS = tuple(one.value for one in DIMENSIONS if one.value is not None)


class RequestContext(NamedTuple):
    """What a request's headers say about all its events."""

    agent: Agent
    country: str
    language: str


def first_language(accept_language: str) -> str:
    """Return the first tag of an Accept-Language header in its usual case, "" where it has none."""
    return normal_language(accept_language[:200].split(",", 1)[0].split(";", 1)[0].strip())


def dimensions(
    event: Event, context: RequestContext, domain: str, origins: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Return the texts of FIELDS for an event of a website with that domain and these extra allowed origins."""
    url, agent = event.url, context.agent
    source, medium, campaign = utm(url.query) if url and url.query else ("", "", "")
    values = (
        _pathname(event),
        # A page of an app's own web view, which is accepted from an allowed origin only.
        "" if "://" in event.referrer else external_referrer(event.referrer, domain, origins),
        context.country,
        event.browser or agent.browser,
        event.os or agent.os,
        event.device or agent.device,
        event.language or context.language,
        url.host if url else "",
        source,
        medium,
        campaign,
        event.platform,
        event.app_version,
        # The version in the User-Agent belongs to its system: with another system it would be wrong.
        event.os_version or (agent.os_version if event.os in ("", agent.os) else ""),
    )
    return values + tuple(value(event, context) for value in _OTHERS) if _OTHERS else values


def _pathname(event: Event) -> str:
    if event.url is not None and event.type != SCREEN_VIEW:
        return event.url.path
    return "/" + event.name if event.name else ""
