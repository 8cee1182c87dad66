"""The dimensions: one row each, from which all else about dimensions follows.

A dimension is a property of every event by which it can be filtered and listed. Adding one is a row here and a
migration that adds its column. Collecting, storing, rollups, filters, top lists, /events, CSV, export and import follow
from the row. What cannot follow is compared with this table in tests/unit/events/test_tables.py, which names the row
that is missing: schema.sql, static/openapi.yaml and the names that the pages show.

The order is that of the columns of the database, of /events and of CSV. A dimension's place is its number in table
rollup, so a new one goes to the end, and the migration renumbers event_name, which comes after the last one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Dimension(NamedTuple):
    """One dimension. `name` is the API's field and the column of every table of events.

    max_characters: of an imported value; a collected event cannot have a longer one.
    value: its text for an (Event, RequestContext), "" where unset; None for the dimensions that
    tally/events/dimensions.py computes together. Measured: a call each would cost 0.8 µs an event more.
    """

    name: str
    max_characters: int = 100
    value: Callable[[Any, Any], str] | None = None


# The contract: url up to 8,192 characters, a host name up to 253, every other label 100.
DIMENSIONS: tuple[Dimension, ...] = (
    Dimension("pathname", 8_192),
    Dimension("referrer", 8_192),
    Dimension("country"),
    Dimension("browser"),
    Dimension("os"),
    Dimension("device"),
    Dimension("language"),
    Dimension("hostname", 253),
    Dimension("utm_source"),
    Dimension("utm_medium"),
    Dimension("utm_campaign"),
    Dimension("platform"),
    Dimension("app_version"),
    Dimension("os_version"),
)
