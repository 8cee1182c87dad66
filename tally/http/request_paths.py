"""The path of a request without the base path, and the prefix that the client sees.

Two settings lead to a prefix, and both may be combined:
- `--base-path /stats`: requests arrive with the prefix. The routes are below it, and nothing else is answered.
- `X-Forwarded-Prefix: /stats` from a trusted proxy that has removed the prefix from the path.

Everything that is sent to a client (pages, cookies, links) uses `public_prefix`; everything that compares a path uses
`local_path`, the path without the base path.
"""

from collections.abc import Callable

from aiohttp import web

from tally.base_path import normal_prefix

BASE_PATH = web.AppKey("base_path", str)
# Whether the peer of a connection is a trusted proxy, whose headers are used (tally/events/client.py).
IS_PROXY = web.AppKey[Callable[[str | None], bool]]("is_proxy")
PREFIX_HEADER = "X-Forwarded-Prefix"

COLLECT_PATHS = ("/api/collect", "/api/v1/collect")
# The endpoints of other systems' formats (tally/ingest/compat/formats.py).
COMPAT_PATHS = frozenset(("/api/event", "/api/send", "/api/batch", "/api/v0/count"))
# The one that also answers images; with a website below it.
COUNT_PATH = "/count"
# The additional path of collect from the settings, '' where there is none.
COLLECT_PATH = web.AppKey("collect_path", str)
READ_PATHS = "/api/v1/websites"
# The API of the pages.
ACCOUNT_PATHS = ("/api/account", "/api/share")
# Of the management API, where no page reads; READ_PATHS has the rest of it.
MANAGED_PATHS = ("/api/v1/channels", "/api/v1/notices", "/api/v1/reports")
API_PATHS = "/api/"
MCP_PATH = "/mcp"
# Where programs connect to it (tally/api/oauth.py).
OAUTH_PATHS = ("/oauth/register", "/oauth/token")


def local_path(request: web.BaseRequest) -> str:
    """Return the path of a request below the base path; a path outside of it unchanged."""
    base = request.app[BASE_PATH] if isinstance(request, web.Request) else ""
    path = request.path
    return path[len(base) :] if base and path.startswith(base + "/") else path


def is_private(path: str) -> bool:
    """Return whether no page of another origin may read the responses of a path, and nobody may store them."""
    return path in (MCP_PATH, *OAUTH_PATHS) or path.startswith((*ACCOUNT_PATHS, *MANAGED_PATHS))


def public_prefix(request: web.Request) -> str:
    """Return the path below which the client reaches the server, '' for the root.

    A forwarded prefix that is malformed, repeated or from a peer that is no trusted proxy is ignored.
    """
    base = request.app[BASE_PATH]
    headers = request.headers.getall(PREFIX_HEADER, ())
    if len(headers) != 1 or not request.app[IS_PROXY](request.remote):
        return base
    forwarded = normal_prefix(headers[0]) or ""
    # A proxy that keeps the prefix in the path may send the header too.
    return forwarded if forwarded.endswith(base) else forwarded + base
