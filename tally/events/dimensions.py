"""Compute the dimensions of a checked event, as text.

Values of the event or its batch's context take precedence over values from the request's headers; "" is unset. All
lookups are local. The client's address and User-Agent arrive here as a country and an Agent; neither is stored.

The table of dimensions is in tally/events/fields.py.
"""

from collections.abc import Sequence
from operator import itemgetter

from tally.events.channels import channel
from tally.events.fields import DIMENSIONS
from tally.events.request_context import RequestContext
from tally.events.urls import NO_UTM, external_referrer, normal_path, utm
from tally.events.validation import SCREEN_VIEW, Event, normal_language

FIELDS = tuple(dimension.name for dimension in DIMENSIONS)
"""The names of the dimensions, which are columns of the tables of measurements."""
EVENT_FIELDS = tuple(dimension.name for dimension in DIMENSIONS if not dimension.of_visit)
"""The dimensions that are columns of table event."""
ACQUISITION = tuple(dimension.name for dimension in DIMENSIONS if dimension.of_visit)
"""The dimensions of a visit's acquisition, which are columns of table visit."""
PAGES = ("entry_page", "exit_page")
"""The pathnames of a visit's first and last pageview: columns of table visit, by which traffic can be filtered and
listed like by a dimension. No event has them by itself."""
VISIT_FIELDS = (*PAGES, *ACQUISITION)
"""The fields in which all events of a visit have the same value: columns of table visit."""

EVENT_NAME, EXPERIMENT, VARIANT, GOAL, PROPERTY, ENTRY_PAGE, EXIT_PAGE, ALL_TRAFFIC = range(100, 108)
"""The numbers of other fields in the database, above those of dimensions, so that a new dimension moves none. The
number of a dimension is its position in FIELDS."""

CHANNEL = FIELDS.index("channel")
_channel_source = itemgetter(*map(FIELDS.index, ("referrer", "utm_source", "utm_medium", "utm_campaign")))

# The dimensions that `dimensions` does not compute itself; they are the last ones of DIMENSIONS.
_OTHERS = tuple(dimension.value for dimension in DIMENSIONS if dimension.value is not None)


def field_number(field: str) -> int:
    """Return the number of a dimension, event_name or a field of PAGES in the database."""
    others = {"event_name": EVENT_NAME, "entry_page": ENTRY_PAGE, "exit_page": EXIT_PAGE}
    return others[field] if field in others else FIELDS.index(field)


def channel_of(texts: Sequence[str]) -> str:
    """Return the channel of an event with these texts of FIELDS."""
    return channel(*_channel_source(texts))


def first_language(accept_language: str) -> str:
    """Return the first tag of an Accept-Language header in its usual case, "" where it has none."""
    return normal_language(accept_language[:200].split(",", 1)[0].split(";", 1)[0].strip())


def dimensions(
    event: Event, context: RequestContext, domain: str, origins: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Return the texts of FIELDS for an event of a website with that domain and these extra allowed origins."""
    url, agent, place = event.url, context.agent, context.place
    campaign = utm(url.query) if url and url.query else NO_UTM
    # A page of an app's own web view, which is accepted from an allowed origin only.
    referrer = "" if "://" in event.referrer else external_referrer(event.referrer, domain, origins)
    values = (
        pathname_of(event),
        referrer,
        place.country,
        event.browser or agent.browser,
        event.os or agent.os,
        event.device or agent.device,
        event.language or context.language,
        url.host if url else "",
        campaign.source,
        campaign.medium,
        campaign.campaign,
        event.platform,
        event.app_version,
        # A version in the User-Agent belongs to its system or browser: with another one it would be wrong.
        event.os_version or (agent.os_version if event.os in ("", agent.os) else ""),
        agent.browser_version if event.browser in ("", agent.browser) else "",
        place.region,
        place.city,
        campaign.content,
        campaign.term,
        channel(referrer, campaign.source, campaign.medium, campaign.campaign),
    )
    return values + tuple(value(event, context) for value in _OTHERS) if _OTHERS else values


def pathname_of(event: Event) -> str:
    """Return the path of the page or the screen of an event, "" where it has neither."""
    if event.url is not None and event.type != SCREEN_VIEW:
        return event.url.path
    return normal_path(f"/{event.name}") if event.name else ""
