"""Responses of every route: JSON, errors in one shape, and the headers that each path carries.

An error is `{"ok": false, "error": {"code", "message", "field"}}` on every route, 404, 405 and 500 included; `field`
only where one field is at fault. Handlers raise ApiError (tally/errors.py), `answer_errors` turns it into the response.
"""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import orjson
from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError

from tally.errors import (
    BAD_REQUEST,
    BODY_TOO_LARGE,
    INTERNAL,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    ApiError,
    fields,
    log,
    where_it_failed,
)
from tally.http.request_paths import local_path

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

# Answers a browser that opens a path which does not exist; JSON goes to everything else (tally/web/pages.py).
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
# frames. The pages alone may do more: tally/web/pages.py.
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

_NO_HTTP = "This is no HTTP request, or its first line or its headers are too long."


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """`value` as a JSON response."""
    return web.Response(body=orjson.dumps(value), status=status, headers=headers, content_type="application/json")


def error_answer(error: ApiError) -> web.Response:
    """The one shape of errors; `more` stands beside it (collect's list of rejected events)."""
    told = {"code": error.kind.code, "message": error.message} | ({"field": error.field} if error.field else {})
    return json_answer({"ok": False, "error": told, **error.more}, error.kind.status, error.headers)


def raw(response: web.Response, more: Mapping[str, str]) -> bytes:
    """The bytes of an answer to HTTP/1.1, with more headers."""
    body = response.body if isinstance(response.body, bytes) else b""
    response.headers.update({**more, "Content-Length": str(len(body))})
    headers = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
    return f"HTTP/1.1 {response.status} {response.reason}\r\n{headers}\r\n".encode() + body


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
