"""Authorising a request by an API key: the one place where a key's scopes, websites and expiry are enforced.

`by_key_alone` makes a route of the management API of a handler of the pages: one handler, two authorisations. A program
that changes something is no page, so no page of another origin may read these responses.

Order of checks: the key (401, with codes of their own where it is missing, invalid or expired), its rate limit (429),
its account's plan (403), its scope (403), the website in the path (404, as for one that does not exist). A key is read
from the Authorization header alone.

At /mcp an access token of a connected assistant stands for its key (tally/accounts/assistants.py), and sees at most
what its person sees at that moment.
"""

import re

from aiohttp import web
from aiohttp.typedefs import Handler

from tally import errors
from tally.accounts import changes
from tally.accounts.accounts import PLANS_WITH_KEYS
from tally.accounts.api_keys import ApiKey, Scope
from tally.accounts.assistants import TOKEN_START
from tally.accounts.audit import Entry
from tally.accounts.roles import may
from tally.api.auth import AUTH, CALLING_KEY, Session
from tally.api.context import READ_API, ReadApi
from tally.errors import ApiError
from tally.events.website import Website
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


async def authorised_key(request: web.Request, scope: Scope, *, takes_tokens: bool = False) -> ApiKey:
    """Return the request's API key, which has the scope; counts it against its rate limit.

    `takes_tokens`: an access token may stand for the key of a connected assistant.
    Raises ApiError 401, 429, 403, and 404 where the path has a website that is not one of the key's. A key that is
    limited to websites cannot add another one.
    """
    api = request.app[READ_API]
    key = await _sent_key(request, api, takes_tokens)
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


async def record_reading(request: web.Request, key: ApiKey, website: Website) -> None:
    """Write a line of the audit log about a key that reads single events: one an hour for each key and website.

    While the database cannot be written there is none, and the next request tries again.
    """
    auth = request.app[AUTH]
    if auth.reading.is_new((key.number, website.number), auth.clock.monotonic_wall_ms()):
        entry = Entry("events_read", website.id, website.domain)
        try:
            await auth.change(Session(None, b"", None, key), key.account, entry, changes.no_change)
        except ApiError:
            auth.reading.forget((key.number, website.number))


def insufficient_scope(scope: Scope) -> dict[str, str]:
    """Return the header of a response to a key without a scope (RFC 6750, 3.1)."""
    return {"WWW-Authenticate": f'Bearer realm="Tally", error="insufficient_scope", scope="{scope}"'}


async def _sent_key(request: web.Request, api: ReadApi, takes_tokens: bool) -> ApiKey:
    """Return the API key in the request's Authorization header. Raises ApiError 401."""
    headers = request.headers.getall("Authorization", [])
    match = _BEARER.fullmatch(headers[0].strip()) if len(headers) == 1 else None
    if match is None:
        raise ApiError(errors.MISSING_API_KEY, headers=_NO_KEY)
    find = _key_of_token if takes_tokens and match[1].startswith(TOKEN_START) else _key
    key = find(request, match[1])
    if key is None:
        await api.registry.read_changes()
        key = find(request, match[1])
    if key is None:
        raise ApiError(errors.INVALID_API_KEY, headers=_WRONG_KEY)
    if key.grant.has_expired(api.clock.monotonic_wall_ms()):
        raise ApiError(errors.KEY_EXPIRED, headers=_WRONG_KEY)
    return key


def _key(request: web.Request, value: str) -> ApiKey | None:
    """Return the API key of a value; a refresh token is none."""
    key = request.app[READ_API].registry.key(value)
    return None if key is None or key.client else key


def _key_of_token(request: web.Request, token: str) -> ApiKey | None:
    """Return the key that an access token names, with the websites that its person sees."""
    auth = request.app[AUTH]
    cache, prefix = auth.registry.cache, auth.codes.key_of_token(token, auth.clock.monotonic_wall_ms())
    key = next((key for key in cache.keys.values() if key.client and key.prefix == prefix), None)
    member = None if key is None else cache.members.get((key.account, key.created_by or 0))
    if key is None or not may(member, "read"):
        return None
    websites = (
        [website.id for website in cache.websites_for([member])] if member and member.websites is not None else None
    )
    if websites is None:
        return key
    seen = tuple(id for id in websites if key.grant.covers(id))
    return key._replace(grant=key.grant._replace(websites=seen))


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
