"""Plausible: POST /api/event, as its scripts, its npm packages and clients of its events API send it.

The body is a JSON object with short or long keys, whatever the Content-Type is. One request is one event for each
domain in `d`. Differences from collect:
- A server sends for a visitor with the visitor's User-Agent and X-Forwarded-For. Their first address is the visitor,
  for a request that is no web request; rate limits and the monthly limit are those of the server.
- `engagement` is accepted and not stored. Properties of pageviews are dropped, since only events have event_data.
- The answer is 202 `ok` also where nothing was stored (unknown website, refused origin, rate, crawler), with the number
  of events that were not in `x-plausible-dropped`. Faults of the body are 400 with `errors` by field.
"""

import math
from typing import Any

from aiohttp import web

from tally import errors
from tally.errors import ApiError
from tally.events.urls import BadUrl, url_host
from tally.events.validation import MAX_EVENTS, Batch
from tally.http.responses import json_response
from tally.ingest.collector import Accepted
from tally.ingest.compat import requests
from tally.ingest.compat.requests import Received, Translation, first, text

_MAX_PROPERTIES = 30
_UTM = {"utm_source": ("source", "ref")}
_FIELDS = {"event_name": "name", "website_id": "domain", "event_data": "props"}


def translate(received: Received) -> Translation:
    """Return the events of POST /api/event. Raises ApiError."""
    value = requests.json_object(received.body)
    name, url = first(value, "n", "name"), first(value, "u", "url")
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(url, str) or not url:
        raise _invalid("url", "is required")
    if name == "engagement":
        if first(value, "sd", "e") is None:
            raise _invalid("engagement", "needs sd or e")
        return Translation(Batch([], None, {}), _answer)
    item: dict[str, Any] = {"url": _page(url, value), "referrer": first(value, "r", "referrer")}
    if name == "pageview":
        item["type"] = "pageview"
    else:
        item |= {"type": "event", "event_name": name, "event_data": _data(value)}
    items = [item | {"website_id": domain} for domain in _domains(value, url)]
    visitors = _visitors(received, len(items))
    return Translation(Batch(items, None, {}, visitors), _answer, lambda error: refused(error, len(items)))


def refused(error: ApiError, events: int = 1) -> web.Response:
    """Return the answer to a refused request. Raises the error where it is the server's, or the body is unreadable."""
    if error.kind is errors.NO_VALID_EVENT:
        faults: dict[str, list[str]] = {}
        for fault in error.more.get("errors", ()):
            field = fault.get("field", "event")
            faults.setdefault(_FIELDS.get(field, field), []).append(fault["message"])
        return json_response({"errors": faults}, 400)
    if error.kind in (errors.INVALID_JSON, errors.INVALID_BODY):
        return json_response({"errors": {"request": [error.message]}}, 400)
    if error.kind in (errors.UNKNOWN_WEBSITE, errors.ORIGIN_NOT_ALLOWED, errors.RATE_LIMITED, errors.MONTHLY_LIMIT):
        return _ok(events)
    raise error


def _answer(accepted: Accepted) -> web.Response:
    return _ok(len(accepted.errors))


def _ok(dropped: int) -> web.Response:
    return web.Response(text="ok", status=202, headers={"x-plausible-dropped": str(dropped)} if dropped else None)


def _invalid(field: str, message: str) -> ApiError:
    return ApiError(errors.NO_VALID_EVENT, more={"errors": [{"field": field, "message": message}]})


def _page(url: str, value: dict[str, Any]) -> str:
    url = url.strip()
    if first(value, "h", "hashMode") not in (None, 0, "", "0"):
        url = _hash_page(url)
    return requests.with_utm(url, requests.query_of(url), _UTM)


def _hash_page(url: str) -> str:
    """Return the page that a fragment names, as static/tracker.js does with data-hash."""
    before, _, fragment = url.partition("#")
    page, _, query = before.partition("?")
    route, _, more = fragment.partition("#")[0].lstrip("!/").partition("?")
    if route:
        page = f"{page.removesuffix('/')}/{route}"
    query = "&".join(filter(None, (more, query)))
    return f"{page}?{query}" if query else page


def _domains(value: dict[str, Any], url: str) -> list[str]:
    """Return the domains of the body, or the URL's host; none twice. More than a batch may have are cut."""
    names = text(first(value, "d", "domain"))
    domains = [domain.strip().lower().removeprefix("www.") for domain in names.split(",", MAX_EVENTS)[:MAX_EVENTS]]
    hosts = list(dict.fromkeys(filter(None, domains)))
    if not hosts:
        try:
            hosts = [url_host(url.strip())]
        except BadUrl:
            hosts = [""]
    return hosts


def _visitors(received: Received, items: int) -> tuple[Any, ...]:
    """Return the visitor for whom a server sends, for each item; empty for web requests."""
    forwarded = received.headers.get("X-Forwarded-For", "").partition(",")[0]
    sender = received.sender
    if sender.page is not None or not forwarded:
        return ()
    visitor = received.visitor(sender, forwarded, "")
    # The same address: the header is that of a proxy in front of this server.
    return () if visitor.client is sender.client else (visitor,) * items


def _data(value: dict[str, Any]) -> dict[str, Any]:
    """Return the event_data: properties with scalar values, and the revenue's value and currency."""
    properties = _object(first(value, "p", "props", "m", "meta"))
    kept = [pair for pair in properties.items() if pair[1] not in (None, "") and not isinstance(pair[1], dict | list)]
    data = dict(kept[:_MAX_PROPERTIES])
    revenue = _object(first(value, "$", "revenue"))
    amount = _number(revenue.get("amount"))
    if amount is not None:
        data |= {"value": amount} | ({"currency": currency} if (currency := text(revenue.get("currency"))) else {})
    return data


def _object(value: Any) -> dict[str, Any]:
    """Return an object, or that of a JSON text; empty for any other value."""
    if isinstance(value, str):
        try:
            value = requests.json_value(value.encode())
        except (ApiError, UnicodeEncodeError):
            return {}
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | int | None:
    """Return the number of a number or a text; None where it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        number = float(text(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
