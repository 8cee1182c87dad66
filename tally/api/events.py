"""The list of events, newest first, in pages.

A page ends with a cursor: the range, the last event's time and id, and the newest id of the first page, with a message
authentication code over these and the query's parameters, keyed by the database's salt. A cursor of another website or
query is rejected. No event is missing or repeated across the pages of a list, even if events arrive meanwhile. A filter
on a field of visits is an exception: only the present values of a visit are stored (docs/reference/read-api.md).
"""

import base64
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from hashlib import blake2b
from typing import Any

import orjson

from tally.api import params
from tally.api.context import Answer, ReadApi, ReportRequest
from tally.api.params import Ranged, Sent
from tally.base_path import public_url
from tally.engine.values import Place, StoredEvent
from tally.events.dimensions import FIELDS
from tally.timestamps import iso

# 1,000 ordinary events are a quarter of it; a page of the longest paths would have 33 MB for each client.
MAX_PAGE_CHARACTERS = 2_000_000
EXPERIMENT_COLUMNS = ("experiment", "variant", "goal", "value")
# An allow list: a column that is added later is not shown by share links. Event names are shown, as in their list;
# event_data is not, since it may hold prices and anything else; nor is the visit, which shows which events belong
# together.
SHARED_EVENT_COLUMNS = ("id", "type", "timestamp", *FIELDS, "event_name")
EVENT_COLUMNS = ("id", "type", "timestamp", *FIELDS, "event_name", "event_data", "visit", "vitals", *EXPERIMENT_COLUMNS)
_CURSOR = struct.Struct(">16sqqqqq")


def _cursor(sent: Sent) -> str:
    cursor = sent.value("cursor")
    if cursor == "":
        raise params.invalid("cursor", "cursor must be meta.next_cursor of the previous page; omit it for the first.")
    return cursor or ""


def _as_sent(sent: Sent) -> tuple[str | None, ...]:
    return tuple(map(sent.value, params.RANGE_NAMES))


@dataclass(frozen=True, slots=True)
class EventsParameters(Ranged):
    """Of a page of events; `as_sent` are from, to and tz, which a request with a cursor has to repeat."""

    limit: int = params.limit(100)
    cursor: str = params.parameter(_cursor, "cursor")
    as_sent: tuple[str | None, ...] = params.parameter(_as_sent, key=False)


async def events(api: ReadApi, request: ReportRequest[EventsParameters]) -> Answer:
    """Return a page of events, newest first; by a share link, traffic alone."""
    parameters, scope, is_shared = request.parameters, request.scope, request.view.is_shared
    after = None
    if parameters.cursor:
        from_ms, to_ms, after = _read_cursor(api, request)
        scope = scope._replace(from_ms=from_ms, to_ms=to_ms)
    listed, last_id = await api.reports.events(scope, after, parameters.limit + 1, is_shared, request.requester)
    shown = listed[: _page_size(listed, parameters.limit)]
    meta = request.meta() | {"limit": parameters.limit, "next_cursor": None}
    meta |= {"from": iso(scope.from_ms, parameters.range.tz), "to": iso(scope.to_ms, parameters.range.tz)}
    headers = {}
    if len(listed) > len(shown):
        numbers = (scope.from_ms, scope.to_ms, shown[-1].timestamp_ms, shown[-1].id, last_id)
        cursor = meta["next_cursor"] = _signed_cursor(api, request, numbers)
        if request.csv:
            root = public_url(api.base_url, request.prefix) or request.prefix
            headers["Link"] = f'<{root}{request.url.update_query(cursor=cursor)}>; rel="next"'
    columns = SHARED_EVENT_COLUMNS if is_shared else EVENT_COLUMNS
    rows = [_row(event, parameters.range.tz, is_shared) for event in shown]
    return Answer(meta, rows, columns=columns, headers=headers)


def _page_size(listed: Sequence[StoredEvent], limit: int) -> int:
    """Return how many events make a page: `limit`, or fewer where their texts are long; at least one."""
    characters = 0
    for number, event in enumerate(listed[:limit]):
        texts = (event.event_name, event.event_data or "", event.experiment, event.variant, event.goal)
        characters += sum(map(len, event.dimensions)) + sum(map(len, texts))
        if characters > MAX_PAGE_CHARACTERS and number:
            return number
    return min(limit, len(listed))


def _row(event: StoredEvent, tz: tzinfo, is_shared: bool) -> tuple[Any, ...]:
    """Return the values of EVENT_COLUMNS, or of SHARED_EVENT_COLUMNS."""
    dimensions = (text or None for text in event.dimensions)
    traffic = (event.id, event.type, iso(event.timestamp_ms, tz), *dimensions, event.event_name or None)
    if is_shared:
        return traffic
    return (
        *traffic,
        None if event.event_data is None else orjson.Fragment(event.event_data),
        event.visit,
        orjson.Fragment(orjson.dumps(event.vitals)) if event.vitals else None,
        event.experiment or None,
        event.variant or None,
        event.goal or None,
        event.value,
    )


def _signed_cursor(api: ReadApi, request: ReportRequest[EventsParameters], numbers: tuple[int, ...]) -> str:
    parameters = request.parameters
    identity = (
        request.website.id,
        (
            *parameters.as_sent,
            sorted((filter_.name, sorted(filter_.values)) for filter_ in parameters.filters),
            parameters.saved,
        ),
    )
    mac = blake2b(repr((*identity, numbers)).encode(), digest_size=16, key=api.registry.key_salt).digest()
    return base64.urlsafe_b64encode(_CURSOR.pack(mac, *numbers)).decode().rstrip("=")


def _read_cursor(api: ReadApi, request: ReportRequest[EventsParameters]) -> tuple[int, int, Place]:
    """Return the range and place of a cursor if it was issued for the same query. Raises ApiError 400."""
    text = request.parameters.cursor
    try:
        _, *numbers = _CURSOR.unpack(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, struct.error):
        numbers = []
    if not numbers or not secrets.compare_digest(_signed_cursor(api, request, tuple(numbers)).encode(), text.encode()):
        message = "cursor must be meta.next_cursor of the previous page, with the same website, range and filters."
        raise params.invalid("cursor", message)
    from_ms, to_ms, *place = numbers
    return from_ms, to_ms, Place(*place)
