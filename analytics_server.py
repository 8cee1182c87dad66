"""Tally's front door: the table of routes, the application, the command.

`build_app` puts the rooms together: settings, clock, limits, sessions and store, each handed to whoever needs it and
none kept in a module. Background work lives in the store, opened and closed with the application. `main` is the
command `analytics-server` (also `python analytics_server.py`); what its words do is in tally/commands.py.
"""

import re
import sys
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from tally import collect, commands, ops, read_api
from tally.assets import asset
from tally.clock import Clock
from tally.collect import DESK, Desk
from tally.country import Countries
from tally.errors import UNDER_WAY, answer_errors, expectation
from tally.events import MOST_BODY_BYTES
from tally.ingest import Ingest
from tally.limits import Buckets
from tally.origin import parse_proxies
from tally.read_api import READER, Reader
from tally.sessions import Sessions
from tally.settings import Settings
from tally.store import opened


class Route(NamedTuple):
    """A row of ROUTES; `preflight` answers OPTIONS where pages of other origins may come."""

    method: str
    path: str
    handler: Handler
    preflight: Handler | None = None


ROUTES = (
    Route("POST", "/api/collect", collect.collect, collect.preflight),
    Route("POST", "/api/v1/collect", collect.collect, collect.preflight),
    Route("GET", "/api/v1/websites", read_api.websites, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/stats", read_api.stats, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/timeseries", read_api.timeseries, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/top/{field}", read_api.top, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/events", read_api.events, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/realtime", read_api.realtime, read_api.preflight),
    Route("GET", "/api/v1/openapi.yaml", ops.openapi),
    Route("GET", "/healthz", ops.healthz),
    Route("GET", "/metrics", ops.metrics),
)


def build_app(settings: Settings, clock: Clock | None = None) -> web.Application:
    """The application over the database of `settings`, opened when it starts and closed when it ends."""
    clock = clock or Clock()
    trusted = parse_proxies(settings.trusted_proxy)
    limits = {"free": settings.free_events, "pro": settings.pro_events}

    async def rooms(app: web.Application) -> AsyncIterator[None]:
        countries = Countries(settings.geoip_db)
        ingest = Ingest(Sessions(settings.max_identities), limits.get)
        async with opened(settings.db, ingest, clock, settings.query_seconds, settings.keep_days) as store:
            clients, client_websites = Buckets(settings.client_per_minute), Buckets(settings.website_per_minute)
            app[DESK] = Desk(store, clock, clients, client_websites, countries, trusted, settings.forwarded_header)
            app[READER] = Reader(store, clock, Buckets(settings.key_per_minute), settings.base_url)
            store.each_second += [app[DESK].salts.forget, app[READER].remembered.sweep]
            yield
        countries.close()

    app = web.Application(middlewares=[answer_errors], client_max_size=MOST_BODY_BYTES)
    app[UNDER_WAY] = set()
    app[ops.OPENAPI] = asset("static/openapi.yaml").read_bytes()
    app[ops.METRICS_TOKEN] = settings.metrics_token
    app.cleanup_ctx.append(rooms)
    for route in ROUTES:
        # aiohttp's own pattern for a part of a path leaves out braces, which would make another 404 of them.
        resource = app.router.add_resource(re.sub(r"{(\w+)}", r"{\1:[^/]+}", route.path))
        resource.add_route(route.method, route.handler, expect_handler=expectation)
        if route.method == "GET":
            resource.add_route("HEAD", route.handler, expect_handler=expectation)
        if route.preflight:
            resource.add_route("OPTIONS", route.preflight, expect_handler=expectation)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    return commands.run(sys.argv[1:] if argv is None else argv, build_app)


if __name__ == "__main__":
    sys.exit(main())
