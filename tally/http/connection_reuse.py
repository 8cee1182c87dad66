"""Which requests end their connection, and which are refused because two servers could disagree about them.

Request smuggling needs two servers that disagree about where a request ends: the bytes of one client's body are then
read as the next request on a connection that a proxy shares between clients. So a connection carries another request
only after one whose end is certain: HTTP/1.1, a method of METHODS, a body, if any, framed by Content-Length and sent
with a method of WITH_BODY, and none of the fields of UNCERTAIN. After every other request the connection is closed, and
nothing that was sent after it is handled. This holds for all requests that aiohttp reads; tally/ingest/fast_path.py
takes only requests that are certain by its own, stricter grammar. After what cannot be parsed at all, aiohttp closes
the connection.

What aiohttp 3.14 does otherwise, each found by tests/robustness/test_request_smuggling.py: bytes after CONNECT and
after `Upgrade: websocket` are parsed as the next request even where they are its body, bytes after other upgrades are
dropped up to the end of the packet, and the last trailer of a chunked body becomes a header of the next request.

Sources: RFC 9112 sections 2.3, 6.1, 6.3, 9.3, 9.6 and 11.2, RFC 9110 sections 7.8, 9.3.1, 9.3.6 and 10.1.1.
"""

from collections.abc import Awaitable, Callable

from aiohttp import HttpVersion10, HttpVersion11, web

from tally import errors
from tally.errors import ApiError
from tally.http.middleware import Handler, from_http_exception
from tally.http.responses import DEFAULT_HEADERS, common_headers, error_response

# What web.Server calls for each request.
RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
# Bodies of the others have no meaning (RFC 9110 9.3.1): many servers and proxies do not expect them.
WITH_BODY = frozenset(("POST", "PUT", "PATCH"))
UNCERTAIN = ("Transfer-Encoding", "Upgrade", "Expect")
# aiohttp searches for the route of every prefix of a path: 70 ms for 14,000 parts.
MAX_PATH_CHARACTERS = 4_096
# RFC 9113 3.1 has removed it, but Java's HttpClient and `curl --http2` still offer it with ordinary requests.
_IGNORED_UPGRADE = "h2c"


def refusal(request: web.BaseRequest) -> ApiError | None:
    """Return the error for a request whose version, method or framing is not supported, else None."""
    headers = request.headers
    if request.version not in (HttpVersion10, HttpVersion11):
        return ApiError(errors.BAD_REQUEST, "This HTTP version is not supported: send the request as HTTP/1.1.")
    if request.method == "CONNECT":
        return ApiError(errors.METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(sorted(METHODS))})
    upgrade = ",".join(headers.getall("Upgrade", ())).strip()
    if upgrade and upgrade.lower() != _IGNORED_UPGRADE:
        return ApiError(errors.BAD_REQUEST, "Upgrade is not supported: send the request without it.")
    coding = headers.get("Transfer-Encoding")
    if coding is not None and (request.version == HttpVersion10 or coding.lower() != "chunked"):
        return ApiError(errors.BAD_REQUEST, "Transfer-Encoding must be chunked, in HTTP/1.1, or left out.")
    return None


def is_reusable(request: web.BaseRequest) -> bool:
    """Return whether the connection may carry another request after this one."""
    headers = request.headers
    return (
        request.version == HttpVersion11
        and request.method in METHODS
        and not any(name in headers for name in UNCERTAIN)
        and (request.method in WITH_BODY or not request.body_exists)
    )


@web.middleware
async def refuse_uncertain(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Respond with the error of `refusal`, if any, before the route's handler is called."""
    refused = refusal(request)
    if refused is not None:
        raise refused
    return await handler(request)


def _too_long() -> web.StreamResponse:
    message = f"The path must have at most {MAX_PATH_CHARACTERS:,} characters."
    response = error_response(ApiError(errors.BAD_REQUEST._replace(status=414), message))
    response.headers.update(DEFAULT_HEADERS)
    response.force_close()
    return response


def close_uncertain(handle: RequestHandler, is_ending: Callable[[], bool]) -> RequestHandler:
    """Wrap the application's handler: the connection is closed after a request that is not reusable.

    During shutdown every connection is closed after its request, so that clients open others to the next server. The
    wrapper is outside of the middlewares, because aiohttp answers some requests, such as an unknown Expect, without
    calling them.
    """

    async def handle_and_close(request: web.BaseRequest) -> web.StreamResponse:
        try:
            if len(request.rel_url.raw_path) > MAX_PATH_CHARACTERS:
                return _too_long()
            response = await handle(request)
        except (web.HTTPException, UnicodeEncodeError) as failure:
            # aiohttp quotes an unknown Expect where no route matches, which fails where that is not UTF-8.
            refused = failure if isinstance(failure, web.HTTPException) else web.HTTPExpectationFailed()
            response = error_response(from_http_exception(refused))
            if isinstance(request, web.Request):
                response.headers.update(common_headers(request))
        if is_ending() or not is_reusable(request):
            response.force_close()
        return response

    return handle_and_close
