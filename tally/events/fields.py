"""The dimensions: one row each, from which all else about dimensions follows.

A dimension is a property of every event by which it can be filtered and listed. Adding one is a row here and a
migration (CONTRIBUTING.md has it in full). Collecting, storing, rollups, filters, top lists, /events, CSV, export and
import follow from the row. What cannot follow is compared with this table in tests/unit/events/test_tables.py, which
names what is missing: columns of schema.sql, static/openapi.yaml and the names that the pages show.

The order is that of /events and of CSV. A dimension's position is its number in the database, so a new one goes to the
end; nothing else moves.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Dimension(NamedTuple):
    """One dimension. `name` is the API's field and the column of every table of events.

    max_characters: of an imported value; `value` must not return a longer one.
    of_visit: part of a visit's acquisition. Traffic has it in table visit, from the visit's first event that carries a
    referrer or any UTM value, and counts under it; other dimensions are in table event. Measurements have their own.
    value: its text for an (Event, RequestContext), "" where unset; None for the dimensions that
    tally/events/dimensions.py computes together. Measured: a call each would cost 0.8 µs an event more.
    """

    name: str
    max_characters: int = 100
    of_visit: bool = False
    value: Callable[[Any, Any], str] | None = None


# The contract: url up to 8,192 characters, a host name up to 253, every other label 100.
DIMENSIONS: tuple[Dimension, ...] = (
    Dimension("pathname", 8_192),
    Dimension("referrer", 8_192, of_visit=True),
    Dimension("country"),
    Dimension("browser"),
    Dimension("os"),
    Dimension("device"),
    Dimension("language"),
    Dimension("hostname", 253),
    Dimension("utm_source", of_visit=True),
    Dimension("utm_medium", of_visit=True),
    Dimension("utm_campaign", of_visit=True),
    Dimension("platform"),
    Dimension("app_version"),
    Dimension("os_version"),
    Dimension("browser_version"),
    Dimension("region"),
    Dimension("city"),
    Dimension("utm_content", of_visit=True),
    Dimension("utm_term", of_visit=True),
    Dimension("channel", of_visit=True),
)
