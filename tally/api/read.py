"""The read API: GET /api/v1/..., for whoever has an API key.

What it answers is in tally/api/traffic.py, tally/api/measurements.py and tally/api/behaviour.py.

Order of checks: key (401, with another code where it is missing than where it is wrong), the key's bucket (429), its
account's plan (403), the website (404; another account's is as unknown as one that does not exist); then those of every
question. A key is looked for in the Authorization header alone: no cookie and no shared link opens anything here, and
so pages of every origin may read with a key (CORS).
"""

import re

from aiohttp import web

from tally import errors
from tally.accounts.accounts import PLANS_WITH_KEYS
from tally.accounts.api_keys import ApiKey
from tally.api.context import READER, Reader, View, caching, has_any_tag, has_tag
from tally.api.endpoints import endpoint
from tally.api.params import question
from tally.errors import ApiError
from tally.http.responses import RESPONSE_HEADERS, json_response
from tally.timestamps import iso

PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, If-None-Match",
    "Access-Control-Max-Age": "86400",
}
_BEARER = re.compile(r"bearer +(.+)", re.IGNORECASE)
# RFC 6750, 3: at least one parameter; 3.1: an error only where a key was sent, not for another scheme.
_NO_KEY = {"WWW-Authenticate": 'Bearer realm="Tally"'}
_WRONG_KEY = {"WWW-Authenticate": 'Bearer realm="Tally", error="invalid_token"'}
_BY = "Authorization"


async def _key(request: web.Request, reader: Reader) -> ApiKey:
    """The request's API key, its bucket and its plan looked at. Raises ApiError 401, 429, 403."""
    given = request.headers.getall("Authorization", [])
    match = _BEARER.fullmatch(given[0].strip()) if len(given) == 1 else None
    if match is None:
        raise ApiError(errors.MISSING_API_KEY, headers=_NO_KEY)
    key = reader.store.key(match[1])
    if key is None:
        await reader.store.look_again()
        key = reader.store.key(match[1])
    if key is None:
        raise ApiError(errors.INVALID_API_KEY, headers=_WRONG_KEY)
    _take_token(request, reader, key)
    reader.store.note_use(key, reader.clock.wall_ms())
    if key.plan not in PLANS_WITH_KEYS:
        raise ApiError(errors.PLAN_HAS_NO_KEYS)
    return key


def _take_token(request: web.Request, reader: Reader, key: ApiKey) -> None:
    now_ns = reader.clock.monotonic_ns()
    wait_s = reader.keys.wait_s(key.number, now_ns)
    if not wait_s:
        reader.keys.take(key.number, now_ns)
    request[RESPONSE_HEADERS] = {
        "RateLimit-Limit": str(reader.keys.per_minute),
        "RateLimit-Remaining": str(reader.keys.remaining(key.number, now_ns)),
        "RateLimit-Reset": str(reader.keys.full_in_s(key.number, now_ns)),
    }
    if wait_s:
        raise ApiError(errors.RATE_LIMITED, retry_after_s=wait_s)


async def by_key(request: web.Request) -> View:
    """What the request's API key opens of the website in the path."""
    reader = request.app[READER]
    key = await _key(request, reader)
    return View(await reader.website(request, key.account), _BY)


async def websites(request: web.Request) -> web.Response:
    """GET /api/v1/websites: the account's websites, oldest first."""
    reader = request.app[READER]
    key = await _key(request, reader)
    question(request, "websites", reader.clock.wall_ms())
    own = [website for website in reader.store.registry.websites.values() if website.account == key.account]
    etag = reader.etag("websites", own)
    if has_tag(request, etag) or has_any_tag(request):
        return web.Response(status=304, headers=caching(etag, _BY))
    data = [{"id": w.id, "name": w.name, "domain": w.domain, "created_at": iso(w.created_ms)} for w in own]
    return json_response({"data": data, "meta": {}}, headers=caching(etag, _BY))


stats, timeseries, top, events, realtime, left_out = (
    endpoint(name, by_key) for name in ("stats", "timeseries", "top", "events", "realtime", "rejected")
)
vitals, experiments = (endpoint(name, by_key) for name in ("vitals", "experiments"))
event_names, entry_pages, exit_pages = (endpoint(name, by_key) for name in ("event-names", "entry-pages", "exit-pages"))
heatmap, heatmap_pages = (endpoint(name, by_key) for name in ("heatmap", "heatmap-pages"))
funnel, event_data = (endpoint(name, by_key) for name in ("funnel", "event-data"))


async def preflight(request: web.Request) -> web.Response:
    """Lets a page of any origin read with a key."""
    return web.Response(status=204, headers=PREFLIGHT)
