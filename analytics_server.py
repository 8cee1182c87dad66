"""Tally's front door: the table of routes, the application, the command.

`build_app` puts the rooms together: settings, clock, limits, sessions and store, each handed to whoever needs it and
none kept in a module. Background work lives in the store, opened and closed with the application. `main` is the
command `analytics-server` (also `python analytics_server.py`); what its words do is in tally/cli/main.py.
"""

import asyncio
import re
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from tally.api import account as account_api
from tally.api import read as read_api
from tally.api import websites as websites_api
from tally.api.auth import AUTH, Auth
from tally.api.context import READER, Reader
from tally.cli import main as commands
from tally.clock import Clock
from tally.events.client import Network, is_proxy, parse_proxies
from tally.events.geoip import Countries
from tally.events.sender import ClientResolver
from tally.events.sessions import Sessions
from tally.events.validation import MOST_BODY_BYTES
from tally.http.connection_reuse import refuse_uncertain
from tally.http.connections import CONNECTIONS, Connections, track_requests
from tally.http.middleware import (
    ACTIVE_REQUESTS,
    ERROR_COUNTS,
    NOT_FOUND_PAGE,
    RESPONSE_COUNTS,
    handle_errors,
    handle_expect,
)
from tally.http.request_paths import BASE_PATH, COLLECT_PATH, IS_PROXY
from tally.ingest import collector as collect
from tally.ingest.budgets import Budgets
from tally.ingest.collector import COLLECTOR, Collector
from tally.ingest.lifecycle import opened
from tally.ingest.writer import EventWriter
from tally.maintenance.scheduled_backup import ScheduledBackup
from tally.rate_limit import Buckets
from tally.resources import asset
from tally.settings import Settings
from tally.storage.value_limits import Limits
from tally.timeranges import zone
from tally.web import heatmap_page as framing
from tally.web import pages
from tally.web import status as ops
from tally.web import tracker as tracking


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
    Route("GET", "/api/v1/websites/{id}/event-names", read_api.event_names, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/entry-pages", read_api.entry_pages, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/exit-pages", read_api.exit_pages, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/events", read_api.events, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/realtime", read_api.realtime, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/vitals", read_api.vitals, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/experiments", read_api.experiments, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/heatmap", read_api.heatmap, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/heatmap-pages", read_api.heatmap_pages, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/funnel", read_api.funnel, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/event-data", read_api.event_data, read_api.preflight),
    Route("GET", "/api/v1/websites/{id}/rejected", read_api.left_out, read_api.preflight),
    Route("GET", "/api/account/state", account_api.state),
    Route("GET", "/api/account/setup", account_api.look_at_setup),
    Route("POST", "/api/account/setup", account_api.set_up),
    Route("POST", "/api/account/login", account_api.log_in),
    Route("POST", "/api/account/logout", account_api.log_out),
    Route("POST", "/api/account/logout-everywhere", account_api.log_out_everywhere),
    Route("GET", "/api/account", account_api.account),
    Route("PATCH", "/api/account", account_api.change),
    Route("POST", "/api/account/password", account_api.change_password),
    Route("GET", "/api/account/keys", account_api.keys),
    Route("POST", "/api/account/keys", account_api.create_key),
    Route("DELETE", "/api/account/keys/{number}", account_api.revoke_key),
    Route("GET", "/api/account/websites", websites_api.websites),
    Route("POST", "/api/account/websites", websites_api.add),
    Route("GET", "/api/account/websites/{id}", websites_api.website),
    Route("PATCH", "/api/account/websites/{id}", websites_api.change),
    Route("DELETE", "/api/account/websites/{id}", websites_api.delete),
    Route("POST", "/api/account/websites/{id}/share", websites_api.share),
    Route("DELETE", "/api/account/websites/{id}/share", websites_api.unshare),
    Route("GET", "/api/account/websites/{id}/stats", websites_api.stats),
    Route("GET", "/api/account/websites/{id}/timeseries", websites_api.timeseries),
    Route("GET", "/api/account/websites/{id}/top/{field}", websites_api.top),
    Route("GET", "/api/account/websites/{id}/event-names", websites_api.event_names),
    Route("GET", "/api/account/websites/{id}/entry-pages", websites_api.entry_pages),
    Route("GET", "/api/account/websites/{id}/exit-pages", websites_api.exit_pages),
    Route("GET", "/api/account/websites/{id}/events", websites_api.events),
    Route("GET", "/api/account/websites/{id}/realtime", websites_api.realtime),
    Route("GET", "/api/account/websites/{id}/vitals", websites_api.vitals),
    Route("GET", "/api/account/websites/{id}/experiments", websites_api.experiments),
    Route("GET", "/api/account/websites/{id}/heatmap", websites_api.heatmap),
    Route("GET", "/api/account/websites/{id}/heatmap-pages", websites_api.heatmap_pages),
    Route("GET", "/api/account/websites/{id}/funnel", websites_api.funnel),
    Route("GET", "/api/account/websites/{id}/event-data", websites_api.event_data),
    Route("GET", "/api/account/websites/{id}/rejected", websites_api.left_out),
    Route("GET", "/api/share/{token}", websites_api.shared),
    Route("GET", "/api/share/{token}/stats", websites_api.shared_stats),
    Route("GET", "/api/share/{token}/timeseries", websites_api.shared_timeseries),
    Route("GET", "/api/share/{token}/top/{field}", websites_api.shared_top),
    Route("GET", "/api/share/{token}/event-names", websites_api.shared_event_names),
    Route("GET", "/api/share/{token}/entry-pages", websites_api.shared_entry_pages),
    Route("GET", "/api/share/{token}/exit-pages", websites_api.shared_exit_pages),
    Route("GET", "/api/share/{token}/events", websites_api.shared_events),
    Route("GET", "/api/share/{token}/realtime", websites_api.shared_realtime),
    Route("GET", "/", pages.page),
    Route("GET", "/login", pages.page),
    Route("GET", "/setup", pages.page),
    Route("GET", "/websites/{id}", pages.page),
    Route("GET", "/websites/{id}/events", pages.page),
    Route("GET", "/websites/{id}/funnels", pages.page),
    Route("GET", "/websites/{id}/vitals", pages.page),
    Route("GET", "/websites/{id}/heatmaps", framing.page),
    Route("GET", "/websites/{id}/experiments", pages.page),
    Route("GET", "/websites/{id}/rejected", pages.page),
    Route("GET", "/account", pages.page),
    Route("GET", "/account/{section}", pages.page),
    Route("GET", "/share/{token}", pages.page),
    Route("GET", "/assets/{path}", pages.asset_file),
    Route("GET", tracking.SCRIPT, tracking.script),
    Route("GET", tracking.part_path(tracking.SCRIPT), tracking.script),
    Route("GET", "/pixel.gif", tracking.pixel),
    Route("GET", "/api/v1/openapi.yaml", ops.openapi),
    Route("GET", "/healthz", ops.healthz),
    Route("GET", "/metrics", ops.metrics),
)


_MIDDLEWARES = (track_requests, handle_errors, ops.detect_hidden_proxy, refuse_uncertain)


def build_app(settings: Settings, clock: Clock | None = None) -> web.Application:
    """The application over the database of `settings`, opened when it starts and closed when it ends."""
    clock = clock or Clock()
    trusted = parse_proxies(settings.trusted_proxy)
    zone("UTC")  # tells at the start where the zone data is damaged
    app = web.Application(middlewares=_MIDDLEWARES, client_max_size=MOST_BODY_BYTES)
    app[ACTIVE_REQUESTS] = set()
    app[RESPONSE_COUNTS], app[ERROR_COUNTS] = Counter(), Counter()
    most, max_per_client = settings.max_connections, settings.client_connections
    app[CONNECTIONS] = Connections(most, max_per_client, settings.idle_seconds, trusted)
    app[ops.OPENAPI] = asset("static/openapi.yaml").read_bytes()
    app[pages.FILES] = pages.files()
    app[NOT_FOUND_PAGE] = pages.not_found
    app[tracking.TRACKER] = tracking.tracker_files(settings)
    app[COLLECT_PATH] = settings.collect_path
    app[BASE_PATH] = settings.base_path
    app[IS_PROXY] = lambda peer: is_proxy(peer, trusted)
    app[ops.METRICS_TOKEN] = settings.metrics_token
    app.cleanup_ctx.append(partial(_rooms, settings=settings, clock=clock, trusted=trusted))
    chosen = tracking.chosen_routes(settings, (route.path for route in ROUTES))
    if settings.base_path:
        app.router.add_get(settings.base_path, pages.to_start, expect_handler=handle_expect)
    for route in (*ROUTES, *(Route(*row) for row in chosen)):
        # aiohttp's own pattern for a part of a path leaves out braces, which would make another 404 of them.
        pattern = settings.base_path + re.sub(r"{(\w+)}", r"{\1:[^/]+}", route.path).replace(
            "{path:[^/]+}", "{path:.+}"
        )
        resource = app.router.add_resource(pattern)
        resource.add_route(route.method, route.handler, expect_handler=handle_expect)
        if route.method == "GET":
            resource.add_route("HEAD", route.handler, expect_handler=handle_expect)
        if route.preflight:
            resource.add_route("OPTIONS", route.preflight, expect_handler=handle_expect)
    return app


async def _rooms(
    app: web.Application, settings: Settings, clock: Clock, trusted: tuple[Network, ...]
) -> AsyncIterator[None]:
    """What is open while the application is: the store, and the rooms that stand on it."""
    limits = {"free": settings.free_events, "pro": settings.pro_events}
    new_values = Limits(settings.max_new_values, settings.max_new_names)
    event_writer = EventWriter(Sessions(settings.max_identities), limits.get, clock, new_values)
    # Unpacked beside the look at the database, which takes as long.
    unpacking = asyncio.create_task(asyncio.to_thread(Countries, settings.geoip_db))
    if settings.geoip_db is not None:
        # What is wrong with a file that was named is told before a database is made.
        await unpacking
    min_free_bytes = settings.min_free_disk * 1_000_000
    async with opened(
        settings.db, event_writer, clock, settings.query_seconds, settings.keep_days, min_free_bytes
    ) as store:
        countries = await unpacking
        clients, client_websites = Buckets(settings.client_per_minute), Buckets(settings.website_per_minute)
        resolver = ClientResolver(clock, countries, trusted, settings.forwarded_header)
        about_metrics = {"base_url": settings.base_url, "has_metrics_token": bool(settings.metrics_token)}
        store.clock_watch.proxies = lambda: resolver.report() | about_metrics
        budgets = Budgets(settings.client_events_per_hour, settings.client_month_share)
        app[COLLECTOR] = Collector(store, store.ingest, clock, clients, client_websites, resolver, budgets)
        app[READER] = Reader(store, clock, Buckets(settings.key_per_minute), settings.base_url)
        token = secrets.token_urlsafe(24)
        app[AUTH] = Auth(store, clock, settings.base_url, trusted, settings.key_per_minute, token)
        store.each_second += [
            lambda _: app[COLLECTOR].salts.expire(clock.deletion_time_ms()),
            app[READER].remembered.sweep,
        ]
        nightly = app[ops.SCHEDULED_BACKUP] = _nightly(settings, clock)
        if nightly is not None:
            store.each_second.append(nightly.start_if_due)
        yield
        if nightly is not None:
            nightly.close()
        app[AUTH].close()
    countries.close()


def _nightly(settings: Settings, clock: Clock) -> ScheduledBackup | None:
    """Who makes the night's backups, where the settings say into which folder."""
    if settings.backup_dir is None:
        return None
    return ScheduledBackup(settings.db, settings.backup_dir, settings.backup_keep, settings.backup_hour, clock)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    return commands.run(sys.argv[1:] if argv is None else argv, build_app)


if __name__ == "__main__":
    sys.exit(main())
