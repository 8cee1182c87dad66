"""The event types: one record each, from which all else about types follows.

Adding a type is one record here. Collecting, storing, /events, filters, export and import follow from it, and totals
and rollups count it as the record says. What cannot follow is compared with this table in
tests/unit/events/test_tables.py, which names the record that is missing: static/openapi.yaml, the lists in static/*.js
and docs/.

Only code that treats one type unlike all others names it (tally/events/validation.py: VITALS, HEATMAP, AB_ASSIGN,
AB_CONVERT); nothing compares numbers by size.
"""

from typing import NamedTuple


class EventType(NamedTuple):
    """One event type. `number` is stored, so it never changes.

    fields: what it may have besides the fields that every type has; each has a rule in tally/events/validation.py.
    required: the fields without which an event is rejected.
    flat: what is also read at the top level of the event, for measurements.
    is_traffic: stored in table event, with visitors and visits. is_pageview: counted as a pageview; other traffic is
    counted as an event.
    """

    number: int
    name: str
    fields: tuple[str, ...]
    required: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()
    is_traffic: bool = False
    is_pageview: bool = False
    has_visitor: bool = True


METRICS = ("lcp", "inp", "fcp", "ttfb", "cls")
_CUSTOM = ("event_name", "event_data")
_EXPERIMENT = ("experiment", "variant")

# The seed requires no field of measurements: without their fields they are stored, and count in no statistic.
EVENT_TYPES = (
    EventType(0, "pageview", ("referrer",), ("url",), is_traffic=True, is_pageview=True),
    EventType(1, "screen_view", ("referrer",), ("name",), is_traffic=True, is_pageview=True),
    EventType(2, "event", ("referrer", *_CUSTOM), ("event_name",), is_traffic=True),
    EventType(3, "app_event", _CUSTOM, is_traffic=True),
    EventType(4, "vitals", ("vitals",), flat=(*METRICS, "value"), has_visitor=False),
    EventType(5, "heatmap", ("points", "viewport_width"), flat=("x", "y", "kind"), has_visitor=False),
    EventType(6, "ab_assign", _EXPERIMENT),
    EventType(7, "ab_convert", (*_EXPERIMENT, "goal", "value")),
)
