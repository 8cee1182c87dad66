"""What the owner's machines ask: is it well, what does it do, and what does its API look like.

/healthz needs no key and tells nothing about visitors. /metrics answers bearers of the metrics token; without one in
the settings it answers programs on this machine until a hidden proxy is detected. Its
figures are plain counters, put into Prometheus' text form only for an answer, so that counting costs nothing in
between. Nothing personal is in them.
"""

import secrets
import sqlite3

from aiohttp import HttpVersion11, web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import CollectorRegistry

from tally import errors
from tally.api.context import READER
from tally.errors import ApiError
from tally.events.sender import host_name, is_loopback
from tally.http.connections import CONNECTIONS
from tally.http.middleware import ERROR_COUNTS, RESPONSE_COUNTS, Handler
from tally.http.request_paths import BASE_PATH, COLLECT_PATH, PREFIX_HEADER, public_prefix
from tally.http.responses import json_response
from tally.ingest.collector import COLLECTOR
from tally.maintenance.scheduled_backup import ScheduledBackup
from tally.resources import tally_version
from tally.storage.health import RETRY_S, WORDS
from tally.web.metrics import Figures

# In lower case. CDN-Loop: RFC 8586; the others are those of common proxies and content delivery networks.
_PROXY_HEADERS = ("x-", "via", "forwarded", "cf-", "cdn-loop", "true-client-ip", "fly-")

METRICS_TOKEN = web.AppKey("metrics_token", str)
OPENAPI = web.AppKey("openapi", bytes)
SCHEDULED_BACKUP = web.AppKey[ScheduledBackup | None]("nightly")


async def healthz(request: web.Request) -> web.Response:
    """200 where the process answers and the database takes events; 503, with what is the matter, otherwise."""
    store = request.app[COLLECTOR].store
    state = store.look()
    if state != "well":
        raise ApiError(errors.STORAGE_UNAVAILABLE, WORDS[state], retry_after_s=RETRY_S)
    return json_response(
        {"ok": True, "version": tally_version(), "sqlite": sqlite3.sqlite_version, "queue": store.queue}
    )


async def openapi(request: web.Request) -> web.Response:
    """The document that describes the API to machines."""
    prefix, document = public_prefix(request), request.app[OPENAPI]
    # At the root every answer shares one copy: clients that read slowly hold it for a while.
    if prefix:
        document = document.replace(b"\n  - url: /\n", b"\n  - url: %s\n" % prefix.encode(), 1)
    return web.Response(body=document, content_type="application/yaml", headers={"Vary": PREFIX_HEADER})


async def metrics(request: web.Request) -> web.Response:
    """Counters for Prometheus."""
    desk, token = request.app[COLLECTOR], request.app[METRICS_TOKEN]
    given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
    has_token = bool(token) and secrets.compare_digest(given, f"Bearer {token}".encode())
    desk.sender(request)  # recorded for `doctor`
    if token and not has_token:
        raise ApiError(errors.FORBIDDEN, "Send the metrics token: Authorization: Bearer TOKEN.")
    if not has_token and not is_direct(request, desk.resolver.header):
        raise ApiError(errors.FORBIDDEN)
    if not has_token and desk.resolver.has_hidden_proxy:
        message = f"A proxy on this machine passes requests on without {desk.resolver.header}: set --metrics-token."
        raise ApiError(errors.FORBIDDEN, message)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_figures(request.app))
    return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


@web.middleware
async def detect_hidden_proxy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Detect a proxy on this machine that adds no header (tally/events/sender.py)."""
    request.app[COLLECTOR].resolver.check_request(request.remote, request.headers)
    return await handler(request)


def is_direct(request: web.BaseRequest, forwarded_header: str) -> bool:
    """Return whether a request is from a program on this machine and shows no sign of a proxy.

    Behind a proxy on this machine every client has a loopback address. Signs of one: HTTP/1.0, which nginx sends unless
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


def _figures(app: web.Application) -> Figures:
    counted = app[RESPONSE_COUNTS], app[ERROR_COUNTS], app[COLLECT_PATH], app[BASE_PATH]
    return Figures(app[COLLECTOR], app[READER], app[CONNECTIONS], app[SCHEDULED_BACKUP], *counted)
