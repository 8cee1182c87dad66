"""The error middleware, and the protocol that answers what aiohttp cannot parse.

`handle_errors` turns every exception of a handler into a response: ApiError as it is, aiohttp's own HTTP exceptions
(no such route, method not allowed, body too large) as the matching ApiError, and anything else, which is a bug, as a
500 that is logged by exception type and place in the code. Unanswered closes the connection. It counts responses and
errors for the metrics, adds the headers of the path, and reads what is left of the request's body, so that the response
is not lost when the connection closes.
"""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError

from tally.errors import (
    BAD_REQUEST,
    BODY_TOO_LARGE,
    INTERNAL,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    ApiError,
    Unanswered,
    fields,
    log,
    where_it_failed,
)
from tally.http.request_paths import API_PATHS, is_private, local_path
from tally.http.responses import DEFAULT_HEADERS, RESPONSE_COOKIES, common_headers, error_response

# The ids of the requests whose head has arrived and whose response is not complete; shutdown waits for them.
ACTIVE_REQUESTS = web.AppKey("active_requests", set[int])

ResponseCounts = Counter[tuple[web.AbstractRoute | str | None, int]]
"""Number of responses by route (None where no route matched) and first digit of the status."""
RESPONSE_COUNTS = web.AppKey("response_counts", ResponseCounts)
# Number of error responses by error code.
ERROR_COUNTS = web.AppKey("error_counts", Counter[str])

# Makes the 404 page for browsers (tally/web/pages.py); all other clients get JSON.
NOT_FOUND_PAGE = web.AppKey[Callable[[web.Request], web.Response]]("not_found_page")
# RFC 9110, 12.4.2: a weight of 0 means "not acceptable".
_HTML = re.compile(r"(?:^|,)\s*text/html\s*(?:;(?!\s*q=0(?:\.0*)?\s*(?:[;,]|$))[^,]*)?(?:,|$)", re.IGNORECASE)

# How much of an unread body is read before its connection closes, and for how long.
MAX_DRAINED_BYTES = 1_048_576
DRAIN_S = 2.0
# What aiohttp raises where a body ends early or is not valid HTTP.
BODY_ERRORS = (aiohttp.ClientError, HttpProcessingError, web.RequestPayloadError, ConnectionError)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_NOT_HTTP = "This is not a valid HTTP request, or its first line or its headers are too long."


def from_http_exception(error: web.HTTPException) -> ApiError:
    """Return the ApiError for an error of aiohttp itself, such as an unknown path or method."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        return ApiError(METHOD_NOT_ALLOWED, headers={"Allow": error.headers["Allow"]})
    if error.status == 404:
        return ApiError(NOT_FOUND)
    if error.status == 413:
        return ApiError(BODY_TOO_LARGE)
    return ApiError(BAD_REQUEST._replace(status=error.status))


def to_api_error(error: Exception, route: object) -> ApiError:
    """Return the ApiError for an exception of a handler; one that is a bug is logged and becomes a 500."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, web.HTTPException):
        return from_http_exception(error)
    log.error("500 on %s", getattr(route, "canonical", route), extra=fields(error=where_it_failed(error)))
    return ApiError(INTERNAL)


async def drain_body(request: web.Request) -> None:
    """Read the rest of a request's body, within MAX_DRAINED_BYTES and DRAIN_S.

    Closing a connection with unread bytes resets it, and the client may lose the response.
    """
    remaining = MAX_DRAINED_BYTES
    with contextlib.suppress(TimeoutError, *BODY_ERRORS):
        async with asyncio.timeout(DRAIN_S):
            while remaining > 0 and (chunk := await request.content.readany()):
                remaining -= len(chunk)


async def handle_expect(request: web.Request) -> web.StreamResponse | None:
    """Answer `Expect: 100-continue` with 100, any other expectation with 417."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        response = error_response(from_http_exception(web.HTTPExpectationFailed()))
        response.headers.update(common_headers(request))
        return response
    # RFC 9110 10.1.1: HTTP/1.0 has no interim responses.
    if request.transport is not None and request.version == HttpVersion11:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return None


@web.middleware
async def handle_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn exceptions into error responses, add the headers of the path, and count the response."""
    active = request.app[ACTIVE_REQUESTS]
    active.add(id(request))
    try:
        response = await _respond(request, handler)
        # Where no route matches, aiohttp makes a new route object for each request.
        route = request.match_info.route
        request.app[RESPONSE_COUNTS][route if route.resource else None, response.status // 100] += 1
        return response
    finally:
        active.discard(id(request))


async def _respond(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        response = await handler(request)
    except Unanswered:
        if request.transport is not None:
            request.transport.abort()
        # As where the client has disconnected: aiohttp sends nothing.
        raise asyncio.CancelledError from None
    except Exception as exception:
        # No variable of this function keeps the error: its traceback has this frame, and such a cycle would keep the
        # request with its body and the frames of the handler until the next collection of garbage.
        response = _answer(request, exception)
    response.headers.update(common_headers(request))
    for cookie in request.get(RESPONSE_COOKIES, {}).values():
        response.headers.add("Set-Cookie", cookie)
    if is_private(local_path(request)):
        response.headers.setdefault("Cache-Control", "no-store")
    if not request.content.is_eof():
        await drain_body(request)
    return response


def _answer(request: web.Request, exception: Exception) -> web.Response:
    error = to_api_error(exception, request.match_info.route.resource)
    request.app[ERROR_COUNTS][error.kind.code] += 1
    return _error_response(request, error)


def _error_response(request: web.Request, error: ApiError) -> web.Response:
    if error.kind is not NOT_FOUND or local_path(request).startswith(API_PATHS):
        return error_response(error)
    is_page = request.method in ("GET", "HEAD") and _HTML.search(request.headers.get("Accept", "")[:1_000])
    response = request.app[NOT_FOUND_PAGE](request) if is_page else error_response(error)
    response.headers["Vary"] = "Accept"
    return response


class HttpProtocol(web.RequestHandler):
    """aiohttp's protocol, with JSON error responses to what is not valid HTTP.

    aiohttp's own responses quote the request and name the versions of Python and aiohttp.
    """

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the response to a request that reached no handler; the connection closes after it."""
        if request.writer.output_size > 0:
            raise ConnectionError("A part of the response has been sent already.")
        if status >= 500:
            error = where_it_failed(exc) if exc else "no reason"
            log.error("%d before a route was found", status, extra=fields(error=error))
        refusal = ApiError(BAD_REQUEST._replace(status=status), _NOT_HTTP) if status < 500 else ApiError(INTERNAL)
        response = error_response(refusal)
        response.headers.update(DEFAULT_HEADERS)
        response.force_close()
        return response
