"""Endpoints for operators: /healthz, /metrics and the OpenAPI document.

/healthz needs no key and returns neither versions nor anything about visitors. /metrics answers requests with the
metrics token; where none is configured, it answers programs on the server itself until a hidden proxy is detected. Its
counters are converted to Prometheus' text format when they are read, so that counting costs nothing more. None of them
holds personal data.
"""

import secrets

from aiohttp import HttpVersion11, web

from tally import errors
from tally.api.auth_header import AUTH_HEADER
from tally.api.channels import NOTICES
from tally.api.context import READ_API
from tally.errors import ApiError
from tally.events.lists import Lists
from tally.events.sender import host_name, is_loopback
from tally.http.connections import CONNECTIONS
from tally.http.middleware import ERROR_COUNTS, RESPONSE_COUNTS, Handler
from tally.http.request_paths import BASE_PATH, COLLECT_PATH, PREFIX_HEADER, public_prefix
from tally.http.responses import json_response
from tally.http.tls import Tls
from tally.ingest.collector import COLLECTOR
from tally.storage.health import RETRY_S, WORDS

# In lower case. CDN-Loop: RFC 8586; the others are those of common proxies and content delivery networks.
_PROXY_HEADERS = ("x-", "via", "forwarded", "cf-", "cdn-loop", "true-client-ip", "fly-")

METRICS_TOKEN = web.AppKey("metrics_token", str)
OPENAPI = web.AppKey("openapi", bytes)
LISTS = web.AppKey("lists", Lists)
TLS = web.AppKey[Tls | None]("tls")


async def healthz(request: web.Request) -> web.Response:
    """GET /healthz: 200 where events are accepted; 503, with the reason, otherwise."""
    node = request.app[READ_API].node
    state, engine = node.database.check_health(), node.engine.health()
    problem = engine.problem if state == "well" else WORDS[state]
    if problem:
        raise ApiError(errors.STORAGE_UNAVAILABLE, problem, retry_after_s=RETRY_S)
    lag = {} if engine.lag is None else {"cluster_lag": engine.lag}
    return json_response({"ok": True, "queue": engine.queue, **lag})


async def openapi(request: web.Request) -> web.Response:
    """GET /api/v1/openapi.yaml: the description of the public API."""
    prefix, document = public_prefix(request), request.app[OPENAPI]
    # At the root all answers share one copy, since clients that read slowly hold it for long.
    if prefix:
        document = document.replace(b"\n  - url: /\n", b"\n  - url: %s\n" % prefix.encode(), 1)
    return web.Response(body=document, content_type="application/yaml", headers={"Vary": PREFIX_HEADER})


async def metrics(request: web.Request) -> web.Response:
    """GET /metrics: counters and gauges in Prometheus' text format."""
    collector, token = request.app[COLLECTOR], request.app[METRICS_TOKEN]
    sent = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
    has_token = bool(token) and secrets.compare_digest(sent, f"Bearer {token}".encode())
    collector.sender(request)  # recorded for `doctor`
    if token and not has_token:
        raise ApiError(errors.FORBIDDEN, "Send the metrics token: Authorization: Bearer TOKEN.")
    if not has_token and not is_direct(request, collector.resolver.header):
        raise ApiError(errors.FORBIDDEN)
    if not has_token and collector.resolver.has_hidden_proxy:
        message = f"A proxy on this server forwards requests without {collector.resolver.header}: set --metrics-token."
        raise ApiError(errors.FORBIDDEN, message)
    from tally.web.metrics import ServerMetrics, exposition  # here: imported by load_rest, after the server listens

    app = request.app
    counted = (
        app[RESPONSE_COUNTS],
        app[ERROR_COUNTS],
        app[COLLECT_PATH],
        app[BASE_PATH],
        app[AUTH_HEADER],
        app[NOTICES].counts,
        app[LISTS],
    )
    families = ServerMetrics(collector, app[READ_API], app[CONNECTIONS], app[TLS], *counted)
    body, content_type = exposition(families)
    return web.Response(body=body, headers={"Content-Type": content_type})


@web.middleware
async def detect_hidden_proxy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Detect a proxy on this server that adds no header (tally/events/sender.py)."""
    request.app[COLLECTOR].resolver.check_request(request.remote, request.headers)
    return await handler(request)


def is_direct(request: web.BaseRequest, forwarded_header: str) -> bool:
    """Return whether a request is from a program on this server and shows no sign of a proxy.

    Behind a proxy on this server every client has a loopback address. Signs of one: HTTP/1.0, which nginx sends unless
    configured otherwise; a Host that is not loopback (also the name of a page that rebinds its DNS); a Unix socket; a
    header that proxies add. Prometheus itself sends X-Prometheus-Scrape-Timeout-Seconds.
    """
    if request.version != HttpVersion11 or not is_loopback(request.remote or ""):
        return False
    names = [name.lower() for name in request.headers]
    return is_loopback(host_name(request.host)) and not any(
        name == forwarded_header.lower() or (name.startswith(_PROXY_HEADERS) and not name.startswith("x-prometheus-"))
        for name in names
    )
