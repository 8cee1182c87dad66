"""The read API for programs: GET /api/v1/..., with an API key.

The reports are in tally/api/reports.py, the checks of a key in tally/api/keys.py. No cookie and no share link
authorises a request here, so pages of every origin may read with a key (CORS).
"""

from typing import Any

from aiohttp import web
from multidict import MultiMapping

from tally.accounts.api_keys import ApiKey, Scope
from tally.api import params
from tally.api.context import BY_KEY, READ_API, ReadApi, View, caching, has_any_tag, has_tag
from tally.api.endpoints import Authorise
from tally.api.keys import authorised_key, record_reading
from tally.api.overview import OverviewParameters, overview
from tally.api.params import Sent
from tally.engine.values import Claim, Requester
from tally.events.website import Website
from tally.http.responses import json_response, preflight_response
from tally.timestamps import iso


def by_key(scope: Scope) -> Authorise:
    """Return what authorises a request by an API key with a scope. It raises ApiError 401, 403, 404, 429."""

    async def authorise(request: web.Request) -> View:
        key = await authorised_key(request, scope)
        website = await request.app[READ_API].website(request, key.account)
        if scope == "read":
            await record_reading(request, key, website)
        return View(website, BY_KEY)

    return authorise


def websites_of(api: ReadApi, key: ApiKey) -> list[Website]:
    """Return the websites that a key may read, oldest first."""
    return [website for website in api.registry.cache.websites_of(key.account) if key.grant.covers(website.id)]


async def content(request: web.Request, key: ApiKey, query: MultiMapping[str]) -> dict[str, Any]:
    """Return `data` and `meta` of the list of a key's websites. Raises ApiError 400."""
    api = request.app[READ_API]
    period = params.read(OverviewParameters, Sent(query, {}, api.clock.wall_ms())).period
    shown = websites_of(api, key)
    data: list[dict[str, Any]] = [
        {
            "id": w.id,
            "name": w.name,
            "domain": w.domain,
            "created_at": iso(w.created_ms),
            "time_zone": w.time_zone,
            "day_offset_minutes": w.day_offset_minutes,
            "week_start": w.week_start,
            "currency": w.currency,
        }
        for w in shown
    ]
    if period:
        requester = Requester(Claim(False, key.account), lambda: request.transport is None)
        for row, figures in zip(data, await overview(api, shown, period, requester), strict=True):
            row["stats"] = figures
    return {"data": data, "meta": {"stats": period} if period else {}}


async def websites(request: web.Request) -> web.Response:
    """GET /api/v1/websites: the key's websites, oldest first; with `stats`, figures of each."""
    key = await authorised_key(request, "reports")
    params.refuse_other_than_utf8(request.raw_path)
    answer = await content(request, key, request.query)
    etag = request.app[READ_API].etag("websites", answer)
    if has_tag(request, etag) or has_any_tag(request):
        return web.Response(status=304, headers=caching(etag, BY_KEY))
    return json_response(answer, headers=caching(etag, BY_KEY))


async def preflight(request: web.Request) -> web.Response:
    """Respond to the preflight of a page of another origin that reads with a key."""
    return preflight_response(request, "GET, HEAD, OPTIONS", "Authorization, If-None-Match")
