"""Responses of every route: JSON, errors in one shape, and the headers that each path carries.

An error is `{"ok": false, "error": {"code", "message", "field"}}` on every route, 404, 405 and 500 included; `field`
is present only where one field is at fault. Handlers raise ApiError (tally/errors.py); tally/http/middleware.py turns
it into the response.

The headers of a response depend on its path alone (`common_headers`): collect and the read API are open to scripts of
every origin, the API of the pages to none. A handler adds its own under RESPONSE_HEADERS and RESPONSE_COOKIES.
"""

import re
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from tally.errors import ApiError
from tally.http.request_paths import (
    COLLECT_PATH,
    COLLECT_PATHS,
    COMPAT_PATHS,
    COUNT_PATH,
    READ_PATHS,
    is_private,
    local_path,
)

# An image of one transparent pixel.
GIF = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")

# Headers that a handler adds to its response, whether it succeeds or fails.
# Set where no page of another origin may read the response, whatever its path is.
NO_CORS = web.RequestKey("no_cors", bool)
RESPONSE_HEADERS = web.RequestKey("response_headers", dict[str, str])
# The same for cookies: name -> complete value of Set-Cookie.
RESPONSE_COOKIES = web.RequestKey("response_cookies", dict[str, str])

# RFC 9110, 5.1: at most 64 names of 64 characters.
_FIELD_NAMES = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}(?: ?, ?[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}){0,63}")

# Browser features that no page needs, by their names in Permissions-Policy. The pages write to the clipboard
# and use passkeys, so clipboard-write and publickey-credentials-get are not among them.
_DISABLED_FEATURES = (
    "accelerometer autoplay camera display-capture encrypted-media fullscreen geolocation gyroscope magnetometer"
    " microphone midi payment picture-in-picture screen-wake-lock usb"
    " xr-spatial-tracking"
)
# A response that a browser opens as a document, an error or a CSV too, loads nothing and cannot be framed.
# tally/web/pages.py replaces the policy for the pages.
MINIMAL_HEADERS = {
    "Server": "Tally",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
DEFAULT_HEADERS = MINIMAL_HEADERS | {
    "Permissions-Policy": ", ".join(f"{name}=()" for name in _DISABLED_FEATURES.split()),
}
# Collect and the read API need no cookies, so every origin may call them. Collect's responses are read by scripts and
# never shown, so they omit Permissions-Policy: its 450 bytes would be half of each response.
COLLECT_HEADERS = MINIMAL_HEADERS | {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After"}
_COUNT_HEADERS = COLLECT_HEADERS | {"Cross-Origin-Resource-Policy": "cross-origin"}
_READ_HEADERS = DEFAULT_HEADERS | {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Retry-After, ETag, Link, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset",
}
# No page of another origin may read or embed the responses of the pages' API, whatever it sends along.
SAME_ORIGIN_HEADERS = {"Cross-Origin-Resource-Policy": "same-origin"}
_ACCOUNT_HEADERS = DEFAULT_HEADERS | SAME_ORIGIN_HEADERS


def preflight_response(request: web.Request, methods: str, headers: str) -> web.Response:
    """Return the response to a preflight: these methods, and the headers that it asks for, otherwise `headers`.

    Scripts that trace or report errors add headers of their own to every request of a page. All are allowed, since no
    route that pages of other origins may call reads cookies.
    """
    asked = request.headers.get("Access-Control-Request-Headers", "")
    allowed = asked if _FIELD_NAMES.fullmatch(asked) else headers
    return web.Response(
        status=204,
        headers={
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": allowed,
            "Access-Control-Max-Age": "86400",
        },
    )


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return `value` as a JSON response."""
    return web.Response(body=orjson.dumps(value), status=status, headers=headers, content_type="application/json")


def error_response(error: ApiError) -> web.Response:
    """Return an error as JSON; its `more` is placed beside "error" (collect's list of rejected events)."""
    details = {"code": error.kind.code, "message": error.message} | ({"field": error.field} if error.field else {})
    return json_response({"ok": False, "error": details, **error.more}, error.kind.status, error.headers)


def serialize(response: web.Response, headers: Mapping[str, str]) -> bytes:
    """Return the bytes of a response for HTTP/1.1, with additional headers."""
    body = response.body if isinstance(response.body, bytes) else b""
    response.headers.update({**headers, "Content-Length": str(len(body))})
    lines = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
    return f"HTTP/1.1 {response.status} {response.reason}\r\n{lines}\r\n".encode() + body


def common_headers(request: web.Request) -> dict[str, str]:
    """Return the headers of every response to this request's path, with those that its handler added."""
    path = local_path(request)
    if path in COLLECT_PATHS or path == request.app[COLLECT_PATH] or path in COMPAT_PATHS:
        return COLLECT_HEADERS
    # Not the parts of /count.js.
    if path == COUNT_PATH or (path.startswith(COUNT_PATH + "/") and not path.endswith(".js")):
        return _COUNT_HEADERS
    added: dict[str, str] = request.get(RESPONSE_HEADERS, {})
    if NO_CORS in request:
        return _ACCOUNT_HEADERS | {"Cache-Control": "no-store"} | added
    if path.startswith(READ_PATHS):
        return _READ_HEADERS | added
    return (_ACCOUNT_HEADERS if is_private(path) else DEFAULT_HEADERS) | added
