"""Every answer that is not success, as named values, and the one writer of JSON.

An error is `{"ok": false, "error": {"code", "message", "field"}}` on every route, 404, 405 and 500 included; `field`
only where one is to blame. The message is a sentence that says what to do. A handler raises ApiError, the middleware
below turns it into the answer; whatever else is raised is a bug, answered 500 without a word of the inside and logged
as places in the code only: an exception's own message may quote what a visitor sent, so it is never written down.
"""

import asyncio
import contextlib
import errno
import logging
import re
import sqlite3
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import aiohttp
import orjson
from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError

from tally.paths import local_path

log = logging.getLogger("tally")

COLLECT_PATHS = ("/api/collect", "/api/v1/collect")
# Another path of collect, by the owner's choice.
COLLECT_PATH = web.AppKey("collect_path", str)
READ_PATHS = "/api/v1/websites"
ACCOUNT_PATHS = ("/api/account", "/api/share")
# Where a handler leaves headers that its answer carries whether it succeeds or is refused.
ANSWER_HEADERS = web.RequestKey("answer_headers", dict[str, str])
# The same for cookies, by name: the whole line of Set-Cookie.
ANSWER_COOKIES = web.RequestKey("answer_cookies", dict[str, str])

# The requests whose head has come and whose answer has not gone: what an end in good order waits for.
UNDER_WAY = web.AppKey("under_way", set[int])

Answered = Counter[tuple[web.AbstractRoute | str | None, int]]
"""How many requests were answered: by their route, None where there is none, and the hundreds of the status."""
ANSWERED = web.AppKey("answered", Answered)
# How many were refused, by code.
REFUSED = web.AppKey("refused", Counter[str])

# Answers a browser that opens a path which does not exist; JSON goes to everything else (tally/pages.py).
NOT_FOUND_PAGE = web.AppKey[Callable[[web.Request], web.Response]]("not_found_page")
_API_PATHS = ("/api/",)
# RFC 9110, 12.4.2: a weight of 0 means "not acceptable".
_HTML = re.compile(r"(?:^|,)\s*text/html\s*(?:;(?!\s*q=0(?:\.0*)?\s*(?:[;,]|$))[^,]*)?(?:,|$)", re.IGNORECASE)

# What nothing here needs of a browser, by the names that browsers know. Writing to the clipboard is left to the pages.
_OFF = (
    "accelerometer autoplay camera display-capture encrypted-media fullscreen geolocation gyroscope magnetometer"
    " microphone midi payment picture-in-picture publickey-credentials-get screen-wake-lock usb"
    " xr-spatial-tracking"
)
# Whatever is opened by itself in a browser, an error or a CSV too, is a document that does nothing and that nobody
# frames. The pages alone may do more: tally/pages.py.
_HARMLESS = {
    "Server": "Tally",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
_ALWAYS = _HARMLESS | {"Permissions-Policy": ", ".join(f"{name}=()" for name in _OFF.split())}
# CONTRACT: collecting and reading are open to every page (no cookies are involved). Scripts ask, nothing is shown: 450
# bytes about devices would be half of each answer.
COLLECT_HEADERS = _HARMLESS | {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After"}
_ON_READ = _ALWAYS | {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Retry-After, ETag, Link, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset",
}
# Answers of the pages' own: no page of another origin may read or embed them, whatever it sends along.
OURS_ALONE = {"Cross-Origin-Resource-Policy": "same-origin"}
_ON_ACCOUNT = _ALWAYS | OURS_ALONE

# CONTRACT, collect's check 2.
MOST_THROWN_AWAY_BYTES = 1_048_576
THROW_AWAY_S = 2.0
# What aiohttp raises where a body breaks off or cannot be read as HTTP.
BROKEN_BODY = (aiohttp.ClientError, HttpProcessingError, web.RequestPayloadError, ConnectionError)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Kind(NamedTuple):
    """A kind of refusal. Statuses: the seed's table Errors, and CONTRACT."""

    status: int
    code: str
    message: str


RATE_LIMITED = Kind(429, "rate_limited", "Too many requests: wait as long as Retry-After says, then send it again.")
MONTHLY_LIMIT = Kind(
    429, "monthly_limit_reached", "This month's events are used up: they are taken again when the month ends (UTC)."
)
BODY_TOO_LARGE = Kind(413, "body_too_large", "The body is larger than 65,536 bytes: send fewer events in a request.")
UNSUPPORTED_ENCODING = Kind(415, "unsupported_encoding", "Send the body as it is, without a Content-Encoding.")
INVALID_JSON = Kind(400, "invalid_json", "The body is not JSON in UTF-8.")
INVALID_BODY = Kind(400, "invalid_body", "The body is a JSON object: one event, or a batch with a list of events.")
TOO_MANY_EVENTS = Kind(400, "too_many_events", "A request takes at most 50 events: split the batch.")
NO_VALID_EVENT = Kind(400, "no_valid_event", "No event of this request can be taken: errors says why for each.")
UNKNOWN_WEBSITE = Kind(
    404, "unknown_website", "No website has this id: compare it with `analytics-server website list`."
)
ORIGIN_NOT_ALLOWED = Kind(
    403,
    "origin_not_allowed",
    "This page's origin is neither the website's domain nor a subdomain of it: check the domain, "
    "or add the origin with `website add --allow-origin`.",
)
MISSING_API_KEY = Kind(401, "missing_api_key", "Send an API key: Authorization: Bearer <API_KEY>.")
INVALID_API_KEY = Kind(
    401, "invalid_api_key", "This API key is wrong or was revoked: create one under API keys, or with `key create`."
)
PLAN_HAS_NO_KEYS = Kind(403, "plan_has_no_keys", "This account's plan has no API keys: raise it to pro or business.")
INVALID_PARAMETER = Kind(400, "invalid_parameter", "A parameter cannot be used.")
BEYOND_RETENTION = Kind(400, "beyond_retention", "The single events that this question needs are no longer kept.")
CROSS_SITE = Kind(403, "cross_site", "This is for the server's own pages alone; other programs use an API key.")
NOT_LOGGED_IN = Kind(401, "not_logged_in", "Log in first.")
WRONG_CREDENTIALS = Kind(401, "wrong_credentials", "This address and this password do not belong together.")
WRONG_PASSWORD = Kind(403, "wrong_password", "That is not the account's present password.")
UNKNOWN_SETUP_LINK = Kind(
    404, "unknown_setup_link", "This setup link is wrong or used: the server prints a new one when it starts."
)
UNKNOWN_SHARE_LINK = Kind(404, "unknown_share_link", "This link shows nothing: it is wrong, or was withdrawn.")
UNKNOWN_KEY = Kind(404, "unknown_key", "There is no such API key: it may have been revoked already.")
WEBSITE_EXISTS = Kind(409, "website_exists", "There is a website of this domain already.")
INVALID_FIELD = Kind(400, "invalid_field", "A field of the body cannot be used.")
UNSUPPORTED_MEDIA_TYPE = Kind(415, "unsupported_media_type", "Send the body as application/json.")
FORBIDDEN = Kind(
    403,
    "forbidden",
    "Only a program on this machine, through no proxy, or a bearer of the metrics token may read this.",
)
NOT_FOUND = Kind(404, "not_found", "There is nothing at this path: /api/v1/openapi.yaml lists what there is.")
METHOD_NOT_ALLOWED = Kind(405, "method_not_allowed", "This path does not take that method: see the Allow header.")
BAD_REQUEST = Kind(400, "bad_request", "The request cannot be understood.")
_NO_HTTP = "This is no HTTP request, or its first line or its headers are too long."
INTERNAL = Kind(500, "internal_error", "The server failed on this request; its log says where.")
STORAGE_UNAVAILABLE = Kind(
    503, "storage_unavailable", "The database cannot be reached or written just now: send it again later."
)
QUERY_TIMEOUT = Kind(503, "query_timeout", "This question takes too long: ask for a shorter range, or again later.")
OVERLOADED = Kind(503, "overloaded", "More arrives than can be stored just now: send it again later.")

OF_PAGES = (
    *(CROSS_SITE, NOT_LOGGED_IN, WRONG_CREDENTIALS, WRONG_PASSWORD, UNKNOWN_SETUP_LINK, UNKNOWN_SHARE_LINK),
    *(UNKNOWN_KEY, WEBSITE_EXISTS, INVALID_FIELD, UNSUPPORTED_MEDIA_TYPE),
)
"""Those of the pages' own API alone."""


class ApiError(Exception):
    """A refusal on its way to the client: a Kind with what is particular to this request."""

    def __init__(
        self,
        kind: Kind,
        message: str = "",
        *,
        field: str = "",
        retry_after_s: int = 0,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(kind.code)
        self.kind = kind
        self.message = message or kind.message
        self.field = field
        self.headers = dict(headers or {})
        self.more = dict(more or {})
        if retry_after_s:
            self.headers["Retry-After"] = str(retry_after_s)


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """`value` as a JSON response."""
    return web.Response(body=orjson.dumps(value), status=status, headers=headers, content_type="application/json")


def error_answer(error: ApiError) -> web.Response:
    """The one shape of errors; `more` stands beside it (collect's list of rejected events)."""
    told = {"code": error.kind.code, "message": error.message} | ({"field": error.field} if error.field else {})
    return json_answer({"ok": False, "error": told, **error.more}, error.kind.status, error.headers)


def fields(**named: Any) -> dict[str, Any]:
    """Fields of a line of the log, for its `extra=`; None is left out."""
    return {"fields": named}


def where_it_failed(failure: BaseException) -> str:
    """Type and places of a failure, without its message and without values: safe to log."""
    places = traceback.extract_tb(failure.__traceback__)
    name = type(failure).__name__
    if isinstance(failure, OSError):
        name = f"{name} {errno.errorcode.get(failure.errno or 0, '')}".rstrip()
    if isinstance(failure, sqlite3.Error):
        name = f"{name} {getattr(failure, 'sqlite_errorname', '')}".rstrip()
    return " < ".join([name, *(f"{p.filename}:{p.lineno} {p.name}" for p in reversed(places))])


def http_error(refusal: web.HTTPException) -> ApiError:
    """What aiohttp itself refuses (no such route, no such method) in our shape."""
    if isinstance(refusal, web.HTTPMethodNotAllowed):
        return ApiError(METHOD_NOT_ALLOWED, headers={"Allow": refusal.headers["Allow"]})
    if refusal.status == 404:
        return ApiError(NOT_FOUND)
    if refusal.status == 413:
        return ApiError(BODY_TOO_LARGE)
    return ApiError(BAD_REQUEST._replace(status=refusal.status))


def refusal_of(failure: Exception, where: object) -> ApiError:
    """What a client is told of whatever a handler raised; a bug is logged."""
    if isinstance(failure, ApiError):
        return failure
    if isinstance(failure, web.HTTPException):
        return http_error(failure)
    log.error("500 on %s", getattr(where, "canonical", where), extra=fields(error=where_it_failed(failure)))
    return ApiError(INTERNAL)


async def throw_away(request: web.Request) -> None:
    """Reads what a request has left unread, within bounds: closing on it would lose the answer on its way."""
    left = MOST_THROWN_AWAY_BYTES
    with contextlib.suppress(TimeoutError, *BROKEN_BODY):
        async with asyncio.timeout(THROW_AWAY_S):
            while left > 0 and (chunk := await request.content.readany()):
                left -= len(chunk)


async def expectation(request: web.Request) -> web.StreamResponse | None:
    """Answers `Expect: 100-continue` with leave to go on, and any other expectation with 417."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        response = error_answer(http_error(web.HTTPExpectationFailed()))
        response.headers.update(common_headers(request))
        return response
    # RFC 9110 10.1.1: a client of HTTP/1.0 does not know interim responses.
    if request.transport is not None and request.version == HttpVersion11:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return None


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns refusals and failures into answers, and adds the headers that every answer of its route carries."""
    under_way = request.app[UNDER_WAY]
    under_way.add(id(request))
    try:
        response = await _answered(request, handler)
        # aiohttp makes a new route object for each request that finds none.
        route = request.match_info.route
        request.app[ANSWERED][route if route.resource else None, response.status // 100] += 1
        return response
    finally:
        under_way.discard(id(request))


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        response = await handler(request)
    except Exception as failure:
        refusal = refusal_of(failure, request.match_info.route.resource)
        request.app[REFUSED][refusal.kind.code] += 1
        response = _refused(request, refusal)
    response.headers.update(common_headers(request))
    for line in request.get(ANSWER_COOKIES, {}).values():
        response.headers.add("Set-Cookie", line)
    if local_path(request).startswith(ACCOUNT_PATHS):
        response.headers.setdefault("Cache-Control", "no-store")
    if not request.content.is_eof():
        await throw_away(request)
    return response


def _refused(request: web.Request, refusal: ApiError) -> web.Response:
    if refusal.kind is not NOT_FOUND or local_path(request).startswith(_API_PATHS):
        return error_answer(refusal)
    is_page = request.method in ("GET", "HEAD") and _HTML.search(request.headers.get("Accept", "")[:1_000])
    response = request.app[NOT_FOUND_PAGE](request) if is_page else error_answer(refusal)
    response.headers["Vary"] = "Accept"
    return response


def common_headers(request: web.Request) -> dict[str, str]:
    """Return the headers that every response to this path has."""
    path = local_path(request)
    if path in COLLECT_PATHS or path == request.app[COLLECT_PATH]:
        return COLLECT_HEADERS
    own: dict[str, str] = request.get(ANSWER_HEADERS, {})
    if path.startswith(READ_PATHS):
        return _ON_READ | own
    return (_ON_ACCOUNT if path.startswith(ACCOUNT_PATHS) else _ALWAYS) | own


class Protocol(web.RequestHandler):
    """aiohttp's reader of a connection, with answers of ours to what cannot be read as HTTP.

    Its own quote what was sent and name the versions of what runs here.
    """

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer where no handler could give one; the connection ends with it."""
        if request.writer.output_size > 0:
            raise ConnectionError("A part of the answer is on its way already.")
        if status >= 500:
            error = where_it_failed(exc) if exc else "no reason"
            log.error("%d before a route was found", status, extra=fields(error=error))
        refusal = ApiError(BAD_REQUEST._replace(status=status), _NO_HTTP) if status < 500 else ApiError(INTERNAL)
        response = error_answer(refusal)
        response.headers.update(_ALWAYS)
        response.force_close()
        return response
