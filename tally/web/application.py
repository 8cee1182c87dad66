"""The web application: `build_app` returns it, with its middlewares, its routes, and the state that handlers use.

Nothing is opened before the application starts: that is done, and undone at its end, by tally/web/components.py. The
routes are in tally/web/routes.py.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from aiohttp import web

from tally.api.auth_header import AUTH_HEADER, auth_header
from tally.api.oidc import OIDC, oidc
from tally.api.reports import REPORTS, Report
from tally.clock import Clock
from tally.events.client import is_proxy, parse_proxies
from tally.events.lists import Lists
from tally.events.validation import MAX_BODY_BYTES
from tally.http.connection_reuse import refuse_uncertain
from tally.http.connections import CONNECTIONS, Connections, track_requests
from tally.http.middleware import ACTIVE_REQUESTS, ERROR_COUNTS, NOT_FOUND_PAGE, RESPONSE_COUNTS, handle_errors
from tally.http.request_paths import BASE_PATH, COLLECT_PATH, IS_PROXY
from tally.ingest.collector import COLLECTOR
from tally.ingest.node import EngineFactory
from tally.notices.addresses import allowed_networks
from tally.notices.mail import mail_server
from tally.resources import asset
from tally.settings import Settings
from tally.timeranges import zone
from tally.web import pages, status, tracker
from tally.web.components import components, engine_of
from tally.web.routes import FIXED_ROUTES, add_routes, report_routes

_MIDDLEWARES = (track_requests, handle_errors, status.detect_hidden_proxy, refuse_uncertain)


def build_app(
    settings: Settings,
    clock: Clock | None = None,
    *,
    engine: EngineFactory | None = None,
    reports: Sequence[Report[Any]] = REPORTS,
) -> web.Application:
    """Return the application over the database of `settings`, which is open while the application runs.

    `engine` makes the engine that stores events and answers `reports` (tally/engine/engine.py), by default that of
    the settings.
    """
    engine = engine or engine_of(settings)
    clock = clock or Clock()
    trusted = parse_proxies(settings.trusted_proxy)
    allowed_networks(settings.notify_networks)  # raises ValueError before anything is opened
    mail_server(settings)  # raises BadSetting
    zone("UTC")  # raises ZoneDataError at the start where the time zone data is damaged
    app = web.Application(middlewares=_MIDDLEWARES, client_max_size=MAX_BODY_BYTES)
    app[ACTIVE_REQUESTS] = set()
    app[RESPONSE_COUNTS], app[ERROR_COUNTS] = Counter(), Counter()
    limits = settings.max_connections, settings.client_connections
    app[CONNECTIONS] = Connections(*limits, settings.idle_seconds, trusted)
    app[status.OPENAPI] = asset("static/openapi.yaml").read_bytes()
    app[pages.FILES] = pages.Files()
    app[NOT_FOUND_PAGE] = pages.not_found
    app[tracker.TRACKER] = tracker.tracker_files(settings)
    app[COLLECT_PATH] = settings.collect_path
    app[BASE_PATH] = settings.base_path
    app[IS_PROXY] = lambda peer: is_proxy(peer, trusted)
    app[status.LISTS] = Lists(settings.lists_dir, settings.datacenter_ranges)
    app[status.TLS] = None
    app[status.METRICS_TOKEN] = settings.metrics_token
    context = partial(components, settings=settings, clock=clock, engine=engine, reports=reports)
    app.cleanup_ctx.append(context)
    app[AUTH_HEADER], app[OIDC] = auth_header(settings), oidc(settings, clock)
    add_routes(app, settings, (*FIXED_ROUTES, *report_routes(reports)))
    return app


def load_rest(app: web.Application) -> None:
    """Load what listening does not need and first requests do; takes 0.3 s and is called in a thread.

    A request that arrives meanwhile waits for the part that it needs, or loads it itself. That is no later than if the
    server had loaded it before it listened.
    """
    app[COLLECTOR].resolver.load()
    app[COLLECTOR].agents.load()
    pages.sources()
    import_module("tally.web.metrics")
