"""Where the server is reached: at the root of its host, or below a base path such as /stats.

Two ways lead there, and both may be combined:
- `--base-path /stats`: requests arrive with the prefix. The routes are below it, and nothing else is answered.
- `X-Forwarded-Prefix: /stats` from a trusted proxy that has removed the prefix from the path.

Everything that is sent to a client (pages, cookies, links) uses `public_prefix`; everything that compares a path uses
`local_path`, the path without the base path. A prefix has only characters that need no quoting in HTML, cookies, YAML
and URLs, and no segment that begins with a dot.
"""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from aiohttp import web

BASE_PATH = web.AppKey("base_path", str)
# Whether the peer of a connection is a proxy whose headers are believed (tally/origin.py).
IS_PROXY = web.AppKey[Callable[[str | None], bool]]("is_proxy")
PREFIX_HEADER = "X-Forwarded-Prefix"
_PREFIX = re.compile(r"((?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){1,8})/?")


def normal_prefix(text: str) -> str | None:
    """Return a prefix without a slash at its end, '' for the root, None for what is no well-formed path."""
    if text in ("", "/"):
        return ""
    match = _PREFIX.fullmatch(text)
    return match[1] if match else None


def local_path(request: web.BaseRequest) -> str:
    """Return the path of a request below the base path; a path outside of it as it is."""
    base = request.app[BASE_PATH] if isinstance(request, web.Request) else ""
    path = request.path
    return path[len(base) :] if base and path.startswith(base + "/") else path


def public_prefix(request: web.Request) -> str:
    """Return the path below which the client reaches the server, '' for the root.

    A forwarded prefix that is malformed, repeated or from a peer that is no trusted proxy is ignored.
    """
    base = request.app[BASE_PATH]
    given = request.headers.getall(PREFIX_HEADER, ())
    if len(given) != 1 or not request.app[IS_PROXY](request.remote):
        return base
    forwarded = normal_prefix(given[0]) or ""
    # A proxy that keeps the prefix may name it too.
    return forwarded if forwarded.endswith(base) else forwarded + base


def public_url(base_url: str, prefix: str) -> str:
    """Return the public address with the prefix, which `base_url` may have already; '' without a `base_url`."""
    if not base_url or urlsplit(base_url).path.endswith(prefix):
        return base_url
    return base_url + prefix
