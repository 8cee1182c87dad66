"""What the owner's machines ask: is it well, what does it do, and what does its API look like.

/healthz needs no key and tells nothing about visitors. /metrics answers this machine itself or a bearer of the metrics
token; its figures are plain counters of the rooms, put into Prometheus' text form only when somebody asks, so that
counting costs nothing in between. Nothing personal is in them.
"""

import re
import secrets
import sqlite3

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import CollectorRegistry

from tally import errors
from tally.assets import tally_version
from tally.collect import DESK
from tally.connections import CONNECTIONS
from tally.errors import ANSWERED, COLLECT_PATH, REFUSED, ApiError, json_answer
from tally.health import RETRY_S, WORDS
from tally.hosts import is_address
from tally.metrics import Figures
from tally.nightly import Nightly
from tally.reader import READER

METRICS_TOKEN = web.AppKey("metrics_token", str)
OPENAPI = web.AppKey("openapi", bytes)
NIGHTLY = web.AppKey[Nightly | None]("nightly")


async def healthz(request: web.Request) -> web.Response:
    """200 where the process answers and the database takes events; 503, with what is the matter, otherwise."""
    store = request.app[DESK].store
    state = store.look()
    if state != "well":
        raise ApiError(errors.STORAGE_UNAVAILABLE, WORDS[state], retry_after_s=RETRY_S)
    return json_answer({"ok": True, "version": tally_version(), "sqlite": sqlite3.sqlite_version, "queue": store.queue})


async def openapi(request: web.Request) -> web.Response:
    """The document that describes the API to machines."""
    return web.Response(body=request.app[OPENAPI], content_type="application/yaml")


async def metrics(request: web.Request) -> web.Response:
    """Counters for Prometheus."""
    desk, token = request.app[DESK], request.app[METRICS_TOKEN]
    given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
    has_token = bool(token) and secrets.compare_digest(given, f"Bearer {token}".encode())
    # Behind a proxy on this machine everybody seems to come from it: then the token alone counts.
    passed_on = any(name in request.headers for name in ("X-Forwarded-For", "Forwarded", "Via", desk.callers.header))
    is_here = desk.callers.sender(request).caller.address.is_loopback and _names_this_machine(request.host)
    if not has_token and (passed_on or not is_here):
        raise ApiError(errors.FORBIDDEN)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_figures(request.app))
    return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


def _names_this_machine(host: str) -> bool:
    """Whether a Host is an address or localhost: a page that has its own name point here says another one."""
    name = re.sub(r":[0-9]*$", "", host).lower()
    return name == "localhost" or is_address(name)


def _figures(app: web.Application) -> Figures:
    counted = app[ANSWERED], app[REFUSED], app[COLLECT_PATH]
    return Figures(app[DESK], app[READER], app[CONNECTIONS], app[NIGHTLY], *counted)
