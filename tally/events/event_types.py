"""The event types, one record each.

To add a type, add a record here. Collecting, storing, /events, filters, export, import, totals and rollups use this
table. tests/unit/events/test_tables.py compares static/openapi.yaml and static/shared/fields.js with it,
tests/unit/test_docs.py the docs; they name a missing entry.

Code names a type only where it treats that type differently from all others (VITALS, LEAVE, HEATMAP, AB_ASSIGN
and AB_CONVERT of tally/events/validation.py). Type numbers have no order.
"""

from typing import NamedTuple


class EventType(NamedTuple):
    """One event type. `number` is stored, so it never changes.

    fields: its fields besides those that every type has; each has a rule in tally/events/validation.py.
    required: the fields without which an event is rejected.
    flat: the fields of a measurement that are also read from the top level of the event.
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
PAGE_METRICS = ("time_on_page", "scroll_depth")
MEASURES = (*METRICS, *PAGE_METRICS)
_CUSTOM = ("event_name", "event_data")
_EXPERIMENT = ("experiment", "variant")

# docs/reference/collect-api.md requires no field of measurements: without them the event is stored but not counted.
EVENT_TYPES = (
    EventType(0, "pageview", ("referrer", "title"), ("url",), is_traffic=True, is_pageview=True),
    EventType(1, "screen_view", ("referrer",), ("name",), is_traffic=True, is_pageview=True),
    EventType(2, "event", ("referrer", *_CUSTOM), ("event_name",), is_traffic=True),
    EventType(3, "app_event", _CUSTOM, is_traffic=True),
    EventType(4, "vitals", ("vitals",), flat=(*METRICS, "value"), has_visitor=False),
    EventType(5, "heatmap", ("points", "viewport_width"), flat=("x", "y", "kind"), has_visitor=False),
    EventType(6, "ab_assign", _EXPERIMENT),
    EventType(7, "ab_convert", (*_EXPERIMENT, "goal", "value")),
    EventType(8, "leave", ("vitals",), ("event_id", "url"), flat=PAGE_METRICS, has_visitor=False),
)
