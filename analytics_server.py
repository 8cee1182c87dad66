"""The entry point of Tally: `build_app` makes the application, `main` runs the command `analytics-server`.

Routes are in tally/web/routes.py, what is open while the application runs in tally/web/components.py, the commands in
tally/cli/main.py.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from aiohttp import web

from tally.api.reports import REPORTS, Report
from tally.cli import main as cli_main
from tally.clock import Clock
from tally.events.client import is_proxy, parse_proxies
from tally.events.validation import MOST_BODY_BYTES
from tally.http.connection_reuse import refuse_uncertain
from tally.http.connections import CONNECTIONS, Connections, track_requests
from tally.http.middleware import ACTIVE_REQUESTS, ERROR_COUNTS, NOT_FOUND_PAGE, RESPONSE_COUNTS, handle_errors
from tally.http.request_paths import BASE_PATH, COLLECT_PATH, IS_PROXY
from tally.ingest.sqlite_reports import SqliteReports
from tally.resources import asset
from tally.settings import Settings
from tally.timeranges import zone
from tally.web import pages, status, tracker
from tally.web.components import Engine, components
from tally.web.routes import FIXED_ROUTES, add_routes, report_routes

_MIDDLEWARES = (track_requests, handle_errors, status.detect_hidden_proxy, refuse_uncertain)


def build_app(
    settings: Settings,
    clock: Clock | None = None,
    *,
    engine: Engine = SqliteReports,
    reports: Sequence[Report[Any]] = REPORTS,
) -> web.Application:
    """Return the application over the database of `settings`, which is open while the application runs.

    `engine` makes the analytics engine that answers `reports` (tally/reports/engine.py).
    """
    clock = clock or Clock()
    trusted = parse_proxies(settings.trusted_proxy)
    zone("UTC")  # raises ZoneDataError at the start where the time zone data is damaged
    app = web.Application(middlewares=_MIDDLEWARES, client_max_size=MOST_BODY_BYTES)
    app[ACTIVE_REQUESTS] = set()
    app[RESPONSE_COUNTS], app[ERROR_COUNTS] = Counter(), Counter()
    limits = settings.max_connections, settings.client_connections
    app[CONNECTIONS] = Connections(*limits, settings.idle_seconds, trusted)
    app[status.OPENAPI] = asset("static/openapi.yaml").read_bytes()
    app[pages.FILES] = pages.files()
    app[NOT_FOUND_PAGE] = pages.not_found
    app[tracker.TRACKER] = tracker.tracker_files(settings)
    app[COLLECT_PATH] = settings.collect_path
    app[BASE_PATH] = settings.base_path
    app[IS_PROXY] = lambda peer: is_proxy(peer, trusted)
    app[status.METRICS_TOKEN] = settings.metrics_token
    app.cleanup_ctx.append(partial(components, settings=settings, clock=clock, engine=engine, reports=reports))
    add_routes(app, settings, (*FIXED_ROUTES, *report_routes(reports)))
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return cli_main.run(sys.argv[1:] if argv is None else argv, build_app)


if __name__ == "__main__":
    sys.exit(main())
