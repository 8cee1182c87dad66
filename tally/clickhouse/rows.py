"""The rows of ClickHouse that stored events become. Pure.

SQLite decides which events are stored, and under which number, visitor and variant (`StoredRow`). An event keeps the
source that it was sent with: which source a visit has is decided when it is read.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from tally.engine.ingest import PreparedEvent
from tally.events.dimensions import FIELDS
from tally.events.json_scalars import read, written
from tally.events.validation import HEATMAP, MEASURES, TRAFFIC
from tally.rollups.heatmap_grid import bin_of, width_of
from tally.rollups.web_vitals import stored
from tally.timestamps import DAY_MS

Row = dict[str, Any]
_TEXT = "s"


class StoredRow(NamedTuple):
    """An event as SQLite has stored it. `variant`: also of a conversion that was sent without one."""

    event: PreparedEvent
    id: int
    visitor: int
    variant: str = ""


def stored_scalar(value: Any) -> str:
    """Return a JSON scalar as a text, equal for equal values only: a text behind an s, others as JSON."""
    return _TEXT + value if isinstance(value, str) else orjson.dumps(read(written(value))).decode()


def scalar_of(text: str) -> Any:
    """Return the JSON scalar of a text of `stored_scalar`."""
    return text[1:] if text.startswith(_TEXT) else orjson.loads(text)


def rows_of(events: Iterable[StoredRow]) -> dict[str, list[Row]]:
    """Return the rows of some events by table."""
    found: dict[str, list[Row]] = {"event": [], "measure": [], "heat": []}
    for one in events:
        event = one.event.event
        if event.type in TRAFFIC:
            found["event"].append(_place(one) | {"event_name": event.event_name} | data_columns(event.event_data))
        elif event.type == HEATMAP and event.points and event.viewport_width:
            found["heat"] += _points(one)
        else:
            found["measure"].append(_measure(one))
    return found


def _place(one: StoredRow) -> Row:
    website, event = one.event.website, one.event.event
    ts = event.ts_ms + website.day_offset_ms
    place = {"website": website.number, "day": ts // DAY_MS, "ts": ts, "id": one.id, "type": event.type}
    return place | {"visitor": one.visitor} | dict(zip(FIELDS, one.event.dimensions, strict=True))


def data_columns(event_data: str | None) -> Row:
    """Return the columns of event_data, of which the text is stored as well."""
    values: Mapping[str, Any] = {} if event_data is None else orjson.loads(event_data)
    return {
        "event_data": event_data or "",
        "prop_keys": list(values),
        "prop_values": list(map(stored_scalar, values.values())),
    }


def _measure(one: StoredRow) -> Row:
    event = one.event.event
    named = {"experiment": event.experiment, "variant": event.variant or one.variant, "goal": event.goal}
    return _place(one) | named | {"value": event.value} | dict(zip(MEASURES, stored(event.vitals), strict=True))


def _points(one: StoredRow) -> Iterable[Row]:
    website, event = one.event.website, one.event.event
    page = {
        "website": website.number,
        "day": (event.ts_ms + website.day_offset_ms) // DAY_MS,
        "pathname": one.event.dimensions[0],
        "width": width_of(event.viewport_width),
        "points": 1,
    }
    for point in event.points:
        y, x = bin_of(point.x, point.y, point.kind)
        yield page | {"kind": point.kind, "y": y, "x": x}
