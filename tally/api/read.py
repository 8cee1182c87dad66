"""The read API for programs: GET /api/v1/..., with an API key.

The reports are in tally/api/reports.py. Order of checks: the key (401, with another code where it is missing than where
it is wrong), the key's rate limit (429), its account's plan (403), the website (404, also for another account's), then
the report's own. A key is read from the Authorization header alone. No cookie and no share link authorises a request
here, so pages of every origin may read with a key (CORS).
"""

import re
from typing import Any

from aiohttp import web

from tally import errors
from tally.accounts.accounts import PLANS_WITH_KEYS
from tally.accounts.api_keys import ApiKey
from tally.api import params
from tally.api.context import BY_KEY, READ_API, ReadApi, View, caching, has_any_tag, has_tag
from tally.api.overview import OverviewParameters, overview
from tally.api.params import Sent
from tally.engine.values import Claim, Requester
from tally.errors import ApiError
from tally.http.responses import RESPONSE_HEADERS, json_response, preflight_response
from tally.timestamps import iso

_BEARER = re.compile(r"bearer +(.+)", re.IGNORECASE)
# RFC 6750, 3: at least one parameter; 3.1: an error only where a key was sent, not for another scheme.
_NO_KEY = {"WWW-Authenticate": 'Bearer realm="Tally"'}
_WRONG_KEY = {"WWW-Authenticate": 'Bearer realm="Tally", error="invalid_token"'}


async def _key(request: web.Request, api: ReadApi) -> ApiKey:
    """Return the request's API key; counts it against its rate limit. Raises ApiError 401, 429, 403."""
    given = request.headers.getall("Authorization", [])
    match = _BEARER.fullmatch(given[0].strip()) if len(given) == 1 else None
    if match is None:
        raise ApiError(errors.MISSING_API_KEY, headers=_NO_KEY)
    key = api.registry.key(match[1])
    if key is None:
        await api.registry.read_changes()
        key = api.registry.key(match[1])
    if key is None:
        raise ApiError(errors.INVALID_API_KEY, headers=_WRONG_KEY)
    _take_token(request, api, key)
    api.registry.note_use(key, api.clock.wall_ms())
    if key.plan not in PLANS_WITH_KEYS:
        raise ApiError(errors.PLAN_HAS_NO_KEYS)
    return key


def _take_token(request: web.Request, api: ReadApi, key: ApiKey) -> None:
    now_ns = api.clock.monotonic_ns()
    wait_s = api.keys.wait_s(key.number, now_ns)
    if not wait_s:
        api.keys.take(key.number, now_ns)
    request[RESPONSE_HEADERS] = {
        "RateLimit-Limit": str(api.keys.per_minute),
        "RateLimit-Remaining": str(api.keys.remaining(key.number, now_ns)),
        "RateLimit-Reset": str(api.keys.full_in_s(key.number, now_ns)),
    }
    if wait_s:
        raise ApiError(errors.RATE_LIMITED, retry_after_s=wait_s)


async def by_key(request: web.Request) -> View:
    """Authorise a request by its API key. Raises ApiError 401, 403, 404, 429."""
    api = request.app[READ_API]
    key = await _key(request, api)
    return View(await api.website(request, key.account), BY_KEY)


async def websites(request: web.Request) -> web.Response:
    """GET /api/v1/websites: the account's websites, oldest first; with `stats`, figures of each."""
    api = request.app[READ_API]
    key = await _key(request, api)
    params.refuse_other_than_utf8(request.raw_path)
    period = params.read(OverviewParameters, Sent(request.query, request.match_info, api.clock.wall_ms())).period
    shown = api.registry.cache.websites_of(key.account)
    figures: list[dict[str, Any] | None] = []
    if period:
        requester = Requester(Claim(False, key.account), lambda: request.transport is None)
        figures = await overview(api, shown, period, requester)
    etag = api.etag("websites", shown, period, figures)
    if has_tag(request, etag) or has_any_tag(request):
        return web.Response(status=304, headers=caching(etag, BY_KEY))
    data: list[dict[str, Any]] = [
        {
            "id": w.id,
            "name": w.name,
            "domain": w.domain,
            "created_at": iso(w.created_ms),
            "time_zone": w.time_zone,
            "week_start": w.week_start,
            "currency": w.currency,
        }
        for w in shown
    ]
    for row, of in zip(data, figures, strict=False):
        row["stats"] = of
    return json_response({"data": data, "meta": {"stats": period} if period else {}}, headers=caching(etag, BY_KEY))


async def preflight(request: web.Request) -> web.Response:
    """Respond to the preflight of a page of another origin that reads with a key."""
    return preflight_response(request, "GET, HEAD, OPTIONS", "Authorization, If-None-Match")
