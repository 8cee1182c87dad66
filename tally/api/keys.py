"""Authorising a request by an API key: the one place where a key's scopes, websites and expiry are enforced.

`by_key_alone` makes a route of the management API of a handler of the pages: one handler, two authorisations. A program
that changes something is no page, so no page of another origin may read these responses.

Order of checks: the key (401, with codes of their own where it is missing, invalid or expired), its rate limit (429),
its account's plan (403), its scope (403), the website in the path (404, as for one that does not exist). A key is read
from the Authorization header alone.
"""

import re

from aiohttp import web
from aiohttp.typedefs import Handler

from tally import errors
from tally.accounts.accounts import PLANS_WITH_KEYS
from tally.accounts.api_keys import ApiKey, Scope
from tally.api.auth import CALLING_KEY
from tally.api.context import READ_API, ReadApi
from tally.errors import ApiError
from tally.http.responses import NO_CORS, RESPONSE_HEADERS

_BEARER = re.compile(r"bearer +(.+)", re.IGNORECASE)
# RFC 6750, 3: at least one parameter; 3.1: an error only where a key was sent, not for another scheme.
_NO_KEY = {"WWW-Authenticate": 'Bearer realm="Tally"'}
_WRONG_KEY = {"WWW-Authenticate": 'Bearer realm="Tally", error="invalid_token"'}


def by_key_alone(handler: Handler, scope: Scope) -> Handler:
    """Return a handler of the pages' API for requests that an API key with the scope authorises."""

    async def handle(request: web.Request) -> web.StreamResponse:
        request[NO_CORS] = True
        request[CALLING_KEY] = await authorised_key(request, scope)
        return await handler(request)

    return handle


async def authorised_key(request: web.Request, scope: Scope) -> ApiKey:
    """Return the request's API key, which has the scope; counts it against its rate limit.

    Raises ApiError 401, 429, 403, and 404 where the path has a website that is not one of the key's. A key that is
    limited to websites cannot add another one.
    """
    api = request.app[READ_API]
    key = await _sent_key(request, api)
    _take_token(request, api, key)
    api.registry.note_use(key, api.clock.wall_ms())
    if key.plan not in PLANS_WITH_KEYS:
        raise ApiError(errors.PLAN_HAS_NO_KEYS)
    if not key.grant.allows(scope):
        message = f"This request needs a key with the scope {scope}; this one has {', '.join(key.grant.scopes)}."
        raise ApiError(errors.MISSING_SCOPE, message, headers=insufficient_scope(scope))
    website = request.match_info.get("id")
    if website is None and scope == "manage" and key.grant.websites is not None:
        message = (
            "This key is limited to websites: it cannot add one, and not change what is of the account as a whole."
        )
        raise ApiError(errors.MISSING_SCOPE, message, headers=insufficient_scope(scope))
    if website is not None and not key.grant.covers(website.lower()):
        raise ApiError(errors.UNKNOWN_WEBSITE)
    return key


def insufficient_scope(scope: Scope) -> dict[str, str]:
    """Return the header of a response to a key without a scope (RFC 6750, 3.1)."""
    return {"WWW-Authenticate": f'Bearer realm="Tally", error="insufficient_scope", scope="{scope}"'}


async def _sent_key(request: web.Request, api: ReadApi) -> ApiKey:
    """Return the API key in the request's Authorization header. Raises ApiError 401."""
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
    if key.grant.has_expired(api.clock.monotonic_wall_ms()):
        raise ApiError(errors.KEY_EXPIRED, headers=_WRONG_KEY)
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
