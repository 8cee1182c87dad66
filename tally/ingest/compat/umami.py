"""Umami: POST /api/send and POST /api/batch, as its script and @umami/node send them.

A body is `{"type": ..., "payload": {...}}`; a batch is a list of at most 50 of them. `event` is a pageview, or with
`name` an event; `performance` is a vitals event; `identify` is accepted and not stored, since there are no profiles.
Differences from collect:
- `ip` and `userAgent` name the visitor for whom a server sends; rate limits are those of the server.
- `id` identifies the visitor in place of address and User-Agent, as session_id does.
- The answer is 200 with the JSON that the script reads. It has no token: `cache`, `sessionId` and `visitId` are the
  same for everybody, so that no client can be recognised by them.
"""

import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tally import errors
from tally.errors import ApiError
from tally.events.sender import Sender
from tally.events.validation import MAX_EVENTS, METRICS, Batch
from tally.http.responses import json_response
from tally.ingest.collector import Accepted
from tally.ingest.compat import requests
from tally.ingest.compat.requests import Received, Translation, text
from tally.ingest.rejected_events import NOT_FAULTS

_NIL = "00000000-0000-0000-0000-000000000000"
_STORED = {"cache": "", "sessionId": _NIL, "visitId": _NIL}
_CRAWLER = {"beep": "boop"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def translate(received: Received) -> Translation:
    """Return the event of POST /api/send. Raises ApiError."""
    batch, _ = _batch(received, [requests.json_object(received.body)])
    return Translation(batch, _answer)


def translate_batch(received: Received) -> Translation:
    """Return the events of POST /api/batch. Raises ApiError."""
    bodies = requests.json_value(received.body)
    if not isinstance(bodies, list):
        raise ApiError(errors.INVALID_BODY, "The body must be a JSON array of events.")
    if len(bodies) > MAX_EVENTS:
        raise ApiError(errors.TOO_MANY_EVENTS)
    batch, places = _batch(received, bodies)

    def answer(accepted: Accepted) -> web.Response:
        faults = [fault for fault in accepted.errors if fault["code"] not in NOT_FAULTS]
        details = [{"index": places[fault["index"]], "response": {"error": fault}} for fault in faults]
        counts = {"size": len(bodies), "processed": len(bodies) - len(faults), "errors": len(faults)}
        return json_response(counts | {"details": details, "cache": ""})

    def refused_batch(error: ApiError) -> web.Response:
        return answer(Accepted(0, error.more["errors"])) if error.kind is errors.NO_VALID_EVENT else refused(error)

    return Translation(batch, answer, refused_batch)


def refused(error: ApiError) -> web.Response:
    """Raise the error, an unknown website with Umami's status."""
    if error.kind is errors.UNKNOWN_WEBSITE:
        raise ApiError(error.kind._replace(status=400))
    raise error


def _answer(accepted: Accepted) -> web.Response:
    return json_response(_CRAWLER if accepted.errors else _STORED)


def _batch(received: Received, bodies: list[Any]) -> tuple[Batch, list[int]]:
    """Return the events of some bodies, and the index of each one's body."""
    items: list[Any] = []
    places: list[int] = []
    visitors: list[Sender] = []
    for index, body in enumerate(bodies):
        payload = body.get("payload") if isinstance(body, dict) else None
        if not isinstance(payload, dict):
            payload = {}
        if payload and body.get("type") == "identify":
            continue
        items.append(_item(received, body, payload))
        places.append(index)
        ip, agent = text(payload.get("ip")), text(payload.get("userAgent"))
        visitors.append(received.visitor(received.sender, ip, agent))
    is_own = all(visitor == received.sender for visitor in visitors)
    return Batch(items, None, {}, () if is_own else tuple(visitors)), places


def _item(received: Received, body: Any, payload: Mapping[str, Any]) -> Any:
    """Return the event of a payload; what is none as it is, for admission to reject."""
    if not payload:
        return body
    item = {
        "website_id": payload.get("website"),
        "url": _url(received, payload),
        "referrer": _referrer(payload.get("referrer")),
        "language": payload.get("language"),
        "session_id": requests.session(payload.get("id")),
        "timestamp": _timestamp(payload.get("timestamp")),
        "browser": payload.get("browser"),
        "os": payload.get("os"),
        "device": _device(payload.get("device")),
    }
    kind, name = body.get("type"), payload.get("name")
    if kind == "performance":
        return item | {"type": "vitals"} | {metric: payload.get(metric) for metric in METRICS}
    if kind != "event":
        return item | {"type": kind}
    if name is None or name == "":
        return item | {"type": "pageview", "title": payload.get("title")}
    data = requests.scalars(payload.get("data"))
    tag = text(payload.get("tag"))
    return item | {"type": "event", "event_name": name, "event_data": ({"tag": tag} if tag else {}) | data}


def _url(received: Received, payload: Mapping[str, Any]) -> str | None:
    """Return the page's URL: a path is one of `hostname`, or else of the website's domain."""
    url = payload.get("url")
    if not isinstance(url, str) or _SCHEME.match(url.strip()):
        return text(url) or None
    host = text(payload.get("hostname")) or received.domain_of(text(payload.get("website")))
    if not host:
        return url
    return f"https://{host}{url if url.startswith('/') else '/' + url}"


def _timestamp(seconds: Any) -> Any:
    """Return the milliseconds of seconds since 1970, a number or its text; what is no such number as it is."""
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdecimal() and len(seconds) <= 12:
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or abs(seconds) > 1e12:
        return seconds
    return int(seconds * 1_000)


def _referrer(value: Any) -> Any:
    """Return a referrer; None for a path, which is a page of the website itself."""
    return None if isinstance(value, str) and value.startswith("/") else value


def _device(value: Any) -> Any:
    return "desktop" if value == "laptop" else value
