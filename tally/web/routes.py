"""The table of routes: method, path and handler of everything that the server answers.

The routes of reports follow from their table (tally/api/reports.py): one for each way of authorisation. `add_routes`
registers a table with an application, below the configured base path; GET answers HEAD as well. The pages of
docs/reference, openapi.yaml and the tests of authorisation are checked against ROUTES.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from tally.api import (
    account,
    alerts,
    audit,
    badges,
    bulk_collect,
    channels,
    crawlers,
    definitions,
    deletions,
    exclusions,
    imports,
    oauth,
    oidc,
    passkeys,
    people,
    read,
    second_factor,
    sharing,
    summaries,
    websites,
)
from tally.api.auth_header import AUTH_HEADER
from tally.api.endpoints import Authorise, endpoint
from tally.api.keys import by_key_alone
from tally.api.reports import REPORTS, Access, Report
from tally.http.middleware import handle_expect
from tally.http.request_paths import MCP_PATH, READ_PATHS
from tally.ingest import collector
from tally.ingest.compat import endpoint as compat
from tally.ingest.compat.formats import FORMATS
from tally.mcp import endpoint as mcp
from tally.settings import Settings
from tally.web import mail_links, pages, status, tracker


class Route(NamedTuple):
    """A row of ROUTES; `preflight` answers OPTIONS where pages of other origins may send requests."""

    method: str
    path: str
    handler: Handler
    preflight: Handler | None = None


def _authorise(access: Access, report: Report[Any]) -> Authorise:
    if access is Access.KEY:
        return read.by_key(report.scope)
    return websites.by_session if access is Access.SESSION else sharing.by_link


def _handler(access: Access, report: Report[Any]) -> Handler:
    handler = endpoint(report, _authorise(access, report))
    return websites.with_export_line(handler) if access is Access.SESSION and report.lists_events else handler


def report_routes(reports: Iterable[Report[Any]]) -> tuple[Route, ...]:
    """Return the routes of reports: for each report one for each way in which it may be authorised."""
    return tuple(
        Route(
            "GET",
            f"{access.value}/{report.path}",
            _handler(access, report),
            read.preflight if access is Access.KEY else None,
        )
        for access in Access
        for report in reports
        if access in report.access
    )


def definition_routes() -> Iterator[Route]:
    """Yield the routes that change annotations, segments, goals and funnels."""
    for kind in definitions.KINDS:
        path = f"/api/account/websites/{{id}}/{kind.path}"
        yield Route("POST", path, definitions.creating(kind))
        yield Route("PATCH", f"{path}/{{definition}}", definitions.changing(kind))
        yield Route("DELETE", f"{path}/{{definition}}", definitions.deleting(kind))


def alert_routes(root: str, authorised: Callable[[Handler], Handler] = lambda handler: handler) -> Iterator[Route]:
    """Yield the routes of the alerts of a website below a path."""
    alert = f"{root}/{{id}}/alerts/{{alert}}"
    rows: list[tuple[str, str, Handler]] = [
        ("GET", f"{root}/{{id}}/alerts", alerts.listed),
        ("POST", f"{root}/{{id}}/alerts", alerts.add),
        ("PATCH", alert, alerts.change),
        ("DELETE", alert, alerts.delete),
        ("POST", f"{alert}/snooze", alerts.snooze),
    ]
    for method, path, handler in rows:
        yield Route(method, path, authorised(handler))


def management_routes() -> Iterator[Route]:
    """Yield the routes by which an API key manages websites: handlers of the pages, authorised by a key."""
    website = "/{id}"
    rows: list[tuple[str, str, Handler]] = [
        ("POST", "", websites.add),
        ("GET", website, websites.website),
        ("PATCH", website, websites.change),
        ("DELETE", website, websites.delete),
        ("GET", f"{website}/exclusions", exclusions.exclusions),
        ("PATCH", f"{website}/exclusions", exclusions.change),
        ("GET", f"{website}/share-links", sharing.links),
        ("POST", f"{website}/share-links", sharing.share),
        ("PATCH", f"{website}/share-links/{{link}}", sharing.change),
        ("DELETE", f"{website}/share-links/{{link}}", sharing.unshare),
    ]
    for kind in definitions.KINDS:
        rows += [
            ("POST", f"{website}/{kind.path}", definitions.creating(kind)),
            ("PATCH", f"{website}/{kind.path}/{{definition}}", definitions.changing(kind)),
            ("DELETE", f"{website}/{kind.path}/{{definition}}", definitions.deleting(kind)),
        ]
    for method, path, handler in rows:
        yield Route(method, f"{READ_PATHS}{path}", by_key_alone(handler, "manage"))
    yield Route("POST", f"{READ_PATHS}{website}/events", by_key_alone(bulk_collect.collect, "import"))
    yield from alert_routes(READ_PATHS, lambda handler: by_key_alone(handler, "manage"))
    yield Route("POST", f"{READ_PATHS}{website}/crawls", by_key_alone(crawlers.take_crawls, "import"))
    for method, path, handler in _DELETIONS:
        yield Route(method, f"{READ_PATHS}{website}/deletions{path}", by_key_alone(handler, "manage"))
    for method, path, handler in _REWRITES:
        yield Route(method, f"{READ_PATHS}{website}/rewrites{path}", by_key_alone(handler, "manage"))
    for method, path, handler in _IMPORTS:
        yield Route(method, f"{READ_PATHS}{website}/imports{path}", by_key_alone(handler, "import"))


def notice_routes(root: str, authorised: Callable[[Handler], Handler] = lambda handler: handler) -> Iterator[Route]:
    """Yield the routes of channels, reports and notices below a path."""
    channel = f"{root}/channels/{{channel}}"
    rows: list[tuple[str, str, Handler]] = [
        ("GET", f"{root}/channels", channels.listed),
        ("POST", f"{root}/channels", channels.add),
        ("PATCH", channel, channels.change),
        ("DELETE", channel, channels.delete),
        ("POST", f"{channel}/test", channels.test),
        ("POST", f"{channel}/secret", channels.replace_secret),
        ("GET", f"{root}/reports", summaries.listed),
        ("POST", f"{root}/reports", summaries.add),
        ("PATCH", f"{root}/reports/{{report}}", summaries.change),
        ("DELETE", f"{root}/reports/{{report}}", summaries.delete),
        ("GET", f"{root}/reports/{{report}}/preview", summaries.preview),
        ("GET", f"{root}/notices", channels.notices),
        ("POST", f"{root}/notices/{{number}}/send", channels.send_again),
    ]
    for method, path, handler in rows:
        yield Route(method, path, authorised(handler))


_IMPORTS = (
    ("GET", "", imports.imports),
    ("POST", "", imports.run_import),
    ("POST", "/upload", imports.begin_upload),
    ("PATCH", "/upload", imports.add_piece),
    ("DELETE", "/upload", imports.remove_upload),
    ("POST", "/{number}/undo", imports.undo_import),
)
_DELETIONS = (
    ("GET", "", deletions.deletions),
    ("POST", "", deletions.begin),
    ("POST", "/preview", deletions.preview_deletion),
    ("DELETE", "/{number}", deletions.stop),
)
_REWRITES = (
    ("POST", "", deletions.begin_rewriting),
    ("POST", "/preview", deletions.preview_rewriting),
)
FIXED_ROUTES = (
    Route("POST", "/api/collect", collector.collect, collector.preflight),
    Route("POST", "/api/v1/collect", collector.collect, collector.preflight),
    Route("GET", "/script.js", tracker.compat_script),
    Route("GET", "/script/{part}.js", tracker.compat_script),
    Route("GET", "/js/{script}", tracker.compat_script),
    Route("GET", "/js/{stem}/{part}.js", tracker.compat_script),
    Route("GET", "/count.js", tracker.compat_script),
    Route("GET", "/count/{part}.js", tracker.compat_script),
    *(
        Route(form.method, form.path, compat.endpoint(form), collector.preflight if form.method == "POST" else None)
        for form in FORMATS
    ),
    Route("GET", "/api/v1/websites", read.websites, read.preflight),
    Route("GET", "/api/account/state", account.state),
    Route("GET", "/api/account/setup", account.setup_state),
    Route("POST", "/api/account/setup", account.set_up),
    Route("POST", "/api/account/login", account.log_in),
    Route("POST", "/api/account/logout", account.log_out),
    Route("POST", "/api/account/logout-everywhere", account.log_out_everywhere),
    Route("GET", "/api/account", account.account),
    Route("PATCH", "/api/account", account.change),
    Route("GET", "/api/account/changelog", account.changelog),
    Route("POST", "/api/account/password", account.change_password),
    Route("GET", "/api/account/second-factor", second_factor.state),
    Route("POST", "/api/account/second-factor/begin", second_factor.begin),
    Route("POST", "/api/account/second-factor/confirm", second_factor.confirm),
    Route("POST", "/api/account/second-factor/codes", second_factor.new_codes),
    Route("DELETE", "/api/account/second-factor", second_factor.remove),
    Route("GET", "/api/account/oidc", oidc.state),
    Route("POST", "/api/account/oidc", oidc.connect),
    Route("DELETE", "/api/account/oidc", oidc.disconnect),
    Route("GET", "/api/account/passkeys", passkeys.listed),
    Route("POST", "/api/account/passkeys/begin", passkeys.begin),
    Route("POST", "/api/account/passkeys/finish", passkeys.finish),
    Route("DELETE", "/api/account/passkeys/{passkey}", passkeys.remove),
    Route("POST", "/api/account/login/passkey/begin", passkeys.begin_sign_in),
    Route("POST", "/api/account/login/passkey/finish", passkeys.sign_in),
    Route("GET", "/api/account/keys", account.keys),
    Route("POST", "/api/account/keys", account.create_key),
    Route("DELETE", "/api/account/keys", account.revoke_keys),
    Route("DELETE", "/api/account/keys/{number}", account.revoke_key),
    Route("DELETE", "/api/account/share-links", sharing.unshare_all),
    Route("GET", "/api/account/assistants", oauth.list_connected),
    Route("DELETE", "/api/account/assistants/{number}", oauth.disconnect),
    Route("GET", "/api/account/authorization", oauth.authorization),
    Route("POST", "/api/account/authorization", oauth.authorize),
    *notice_routes("/api/account"),
    *notice_routes("/api/v1", lambda handler: by_key_alone(handler, "manage")),
    Route("GET", "/feeds/{token}.xml", channels.feed),
    Route("GET", "/confirm/{token}", mail_links.confirm_page),
    Route("POST", "/confirm/{token}", mail_links.confirm),
    Route("GET", "/unsubscribe/{token}", mail_links.unsubscribe_page),
    Route("POST", "/unsubscribe/{token}", mail_links.unsubscribe),
    Route("GET", "/api/account/summary", summaries.personal),
    Route("PATCH", "/api/account/summary", summaries.set_personal),
    Route("GET", "/api/account/audit", audit.audit),
    Route("POST", "/api/account/login/link", people.sign_in_by_link),
    Route("GET", "/api/account/people", people.members),
    Route("PATCH", "/api/account/people/{number}", people.change),
    Route("DELETE", "/api/account/people/{number}", people.remove),
    Route("GET", "/api/account/invitations", people.invitations),
    Route("POST", "/api/account/invitations", people.invite),
    Route("DELETE", "/api/account/invitations/{invitation}", people.revoke),
    Route("POST", "/api/account/leave", people.leave),
    Route("GET", "/api/account/invitation", people.invitation),
    Route("POST", "/api/account/invitation", people.accept),
    Route("POST", "/api/account/invitation/oidc", oidc.accept),
    Route("GET", "/api/account/websites", websites.websites),
    Route("POST", "/api/account/websites", websites.add),
    Route("GET", "/api/account/websites/{id}", websites.website),
    Route("PATCH", "/api/account/websites/{id}", websites.change),
    Route("DELETE", "/api/account/websites/{id}", websites.delete),
    Route("GET", "/api/account/websites/{id}/exclusions", exclusions.exclusions),
    Route("PATCH", "/api/account/websites/{id}/exclusions", exclusions.change),
    Route("POST", "/api/account/websites/{id}/share-links", sharing.share),
    Route("PATCH", "/api/account/websites/{id}/share-links/{link}", sharing.change),
    Route("DELETE", "/api/account/websites/{id}/share-links/{link}", sharing.unshare),
    *(Route(method, f"/api/account/websites/{{id}}/imports{path}", handler) for method, path, handler in _IMPORTS),
    *(Route(method, f"/api/account/websites/{{id}}/deletions{path}", handler) for method, path, handler in _DELETIONS),
    *(Route(method, f"/api/account/websites/{{id}}/rewrites{path}", handler) for method, path, handler in _REWRITES),
    *definition_routes(),
    *alert_routes("/api/account/websites"),
    *management_routes(),
    Route("GET", "/api/share/{token}", sharing.shared),
    Route("POST", "/api/share/{token}/password", sharing.unlock),
    Route("GET", "/api/share/{token}/badge.svg", badges.badge),
    Route("GET", "/api/share/{token}/counter.svg", badges.counter),
    Route("POST", MCP_PATH, mcp.handle),
    # A program asks for the metadata of the path of a resource first.
    Route("GET", oauth.METADATA_PATH, oauth.resource_metadata),
    Route("GET", f"{oauth.METADATA_PATH}{MCP_PATH}", oauth.resource_metadata),
    Route("GET", oauth.SERVER_METADATA_PATH, oauth.server_metadata),
    Route("POST", "/oauth/register", oauth.register),
    Route("POST", "/oauth/token", oauth.token),
    Route("GET", "/oauth/authorize", pages.page),
    Route("GET", "/", pages.page),
    Route("GET", "/login", pages.page),
    Route("GET", "/setup", pages.page),
    Route("GET", "/invitation", pages.page),
    Route("GET", "/second-factor", pages.page),
    Route("GET", "/sign-in/oidc", oidc.begin),
    Route("GET", "/sign-in/oidc/callback", oidc.callback),
    Route("GET", "/sign-in/oidc/logout", oidc.end_session),
    Route("GET", "/websites/{id}", pages.page),
    Route("GET", "/websites/{id}/live", pages.page),
    Route("GET", "/websites/{id}/events", pages.page),
    Route("GET", "/websites/{id}/funnels", pages.page),
    Route("GET", "/websites/{id}/journeys", pages.page),
    Route("GET", "/websites/{id}/vitals", pages.page),
    Route("GET", "/websites/{id}/heatmaps", pages.heatmap_page),
    Route("GET", "/websites/{id}/experiments", pages.page),
    Route("GET", "/websites/{id}/crawlers", pages.page),
    Route("GET", "/websites/{id}/rejected", pages.page),
    Route("GET", "/websites/{id}/settings", pages.page),
    Route("GET", "/websites/{id}/settings/{section}", pages.page),
    Route("GET", "/account", pages.page),
    Route("GET", "/account/{section}", pages.page),
    Route("GET", "/share/{token}", pages.share_page),
    Route("GET", "/assets/{path}", pages.asset_file),
    Route("GET", tracker.SCRIPT, tracker.script),
    Route("GET", tracker.part_path(tracker.SCRIPT), tracker.script),
    Route("GET", "/pixel.gif", tracker.pixel),
    Route("GET", "/api/v1/openapi.yaml", status.openapi),
    Route("GET", "/healthz", status.healthz),
    Route("GET", "/metrics", status.metrics),
)
ROUTES = (*FIXED_ROUTES, *report_routes(REPORTS))


def add_routes(app: web.Application, settings: Settings, routes: Iterable[Route]) -> None:
    """Register routes, and those of the configured script and collect paths. Raises BadSetting."""
    routes = tuple(routes)
    configured = tracker.configured_routes(settings, (route.path for route in routes))
    if settings.base_path:
        app.router.add_get(settings.base_path, pages.to_start, expect_handler=handle_expect)
    header = app[AUTH_HEADER]
    for route in (*routes, *(Route(*row) for row in configured)):
        resource = app.router.add_resource(settings.base_path + _pattern(route.path))
        handler = header.signing_in(route.handler) if header and _takes_session(route) else route.handler
        resource.add_route(route.method, handler, expect_handler=handle_expect)
        if route.method == "GET":
            resource.add_route("HEAD", handler, expect_handler=handle_expect)
        if route.preflight:
            resource.add_route("OPTIONS", route.preflight, expect_handler=handle_expect)


def _takes_session(route: Route) -> bool:
    # GET /api/account/state asks for the person itself, and answers who was refused.
    is_state = route.handler is account.state
    return route.handler is pages.heatmap_page or (route.path.startswith("/api/account") and not is_state)


@functools.cache
def _pattern(path: str) -> str:
    # aiohttp's default pattern excludes braces, so that such a path would get aiohttp's own 404.
    pattern = re.sub(r"{(\w+)}", r"{\1:[^/]+}", path).replace("{path:[^/]+}", "{path:.+}")
    # The names of Plausible's scripts alone: a configured script path may be below /js/ too.
    pattern = pattern.replace("{script:[^/]+}", r"{script:(?:script|plausible|pa-)[\w.-]*\.js}")
    pattern = pattern.replace("{stem:[^/]+}", r"{stem:(?:script|plausible|pa-)[\w.-]*}")
    # /count/links.js is a part of /count.js.
    pattern = pattern.replace("{website:[^/]+}", r"{website:(?!.*\.js$)[^/]+}")
    # Two steps of adding a passkey, and no ids.
    pattern = pattern.replace("{passkey:[^/]+}", "{passkey:(?!(?:begin|finish)$)[^/]+}")
    # goals/report is no definition: other methods than GET are answered 405 there.
    return pattern.replace("{definition:[^/]+}", "{definition:(?!report$)[^/]+}")
