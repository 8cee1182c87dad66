"""The values that a request's headers and its client's address give its events.

A record holds texts, "" where something is unset. `Agent` is made by tally/events/user_agent.py, `Place` by
tally/events/geoip.py, which raises CountryDataError; they are here so that code that only reads events, and a server
that starts, do not load the tables of either.
Neither the User-Agent nor the address is in them, and neither is stored (docs/privacy.md).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class Agent:
    """The content of one User-Agent; '' where it has none.

    device is one of desktop, mobile, tablet, tv, console, other (docs/reference/), or ''.
    """

    browser: str
    browser_version: str
    os: str
    os_version: str
    device: str
    crawler: bool
    # Its name in the list of crawlers (tally/events/crawlers.py), '' where it has none.
    crawler_name: str = ""


class Place(NamedTuple):
    """Where an address is; '' where the database has nothing."""

    country: str = ""
    region: str = ""
    city: str = ""


NOWHERE: Final = Place()


class RequestContext(NamedTuple):
    """Values from a request's headers that apply to all its events."""

    agent: Agent
    place: Place
    language: str


class CountryDataError(ValueError):
    """A country database that cannot be used; the message has the file and the fix."""
