"""Request handlers of the reports: authorisation, parameters, ETag, answer, in one order for every report.

`endpoint` makes a handler of a report and a function that authorises: it returns what a request may read (a View) or
raises ApiError. API key, session and share link differ in nothing else.

Order of checks: authorisation, whether the share link shows the report (403), then the parameters (400), then the ETag.
A client that has the current answer receives 304, unless another process has imported events since.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from tally import errors
from tally.api import params
from tally.api.context import READ_API, Answer, ReadApi, ReportRequest, View, caching, has_any_tag, has_tag
from tally.api.params import Sent
from tally.api.reports import Report
from tally.engine.values import BeyondRetention, Requester
from tally.errors import ApiError
from tally.events.validation import TRAFFIC_TYPES, TYPES
from tally.http.formats import table_response
from tally.http.request_paths import local_path, public_prefix
from tally.http.responses import json_response
from tally.timestamps import iso

Handler = Callable[[web.Request], Awaitable[web.Response]]
Authorise = Callable[[web.Request], Awaitable[View]]
"""Returns what a request may read. Raises ApiError where that is nothing."""


def endpoint(report: Report[Any], authorise: Authorise) -> Handler:
    """Return the handler of a report."""

    async def handle(request: web.Request) -> web.Response:
        api = request.app[READ_API]
        view = await authorise(request)
        _check_shown(report, view)
        checked = _checked(api, report, view, request, await _first_ms(api, view, request))
        etag = _etag(api, report, checked)
        if has_tag(request, etag):
            # An import by another process is noticed here at once, and elsewhere within a second.
            await api.reports.refresh(checked.requester)
            etag = _etag(api, report, checked)
            if has_tag(request, etag):
                return web.Response(status=304, headers=caching(etag, view.by))
        begun_ns = api.clock.monotonic_ns()
        try:
            if view.is_shared:
                response = await _shared_answer(api, report, etag, checked)
            else:
                response = await _answer(api, report, checked)
        finally:
            api.times[report.name].add(api.clock.monotonic_ns() - begun_ns)
        if has_any_tag(request):
            return web.Response(status=304, headers=caching(etag, view.by))
        response.headers.update(caching(etag, view.by))
        return response

    return handle


def _check_shown(report: Report[Any], view: View) -> None:
    """Raise ApiError 403 for a report that the view hides, or that cannot apply the view's filters."""
    if report.lists_events and view.hides_events:
        raise ApiError(errors.NOT_SHARED, "This share link does not show single events.")
    if view.filters and report.depends_on_events and not report.takes_filters:
        raise ApiError(errors.NOT_SHARED, f"This share link has fixed filters, which {report.name} cannot apply.")


async def _first_ms(api: ReadApi, view: View, request: web.Request) -> int | None:
    """Return the time of a website's first event where the query is for all of them."""
    if request.query.get("period") != "all":
        return None
    return await api.reports.first_event_ms(view.website.number, Requester(view.claim))


def _checked(
    api: ReadApi, report: Report[Any], view: View, request: web.Request, first_ms: int | None
) -> ReportRequest[Any]:
    """Return the checked request. Raises ApiError 400."""
    params.refuse_other_than_utf8(request.raw_path)
    types = TRAFFIC_TYPES if view.is_shared else TYPES
    saved = api.registry.cache.definitions.get(view.website.number, ())
    # A share link shows annotations alone of what the owner has saved.
    seen = tuple(one for one in saved if one.kind == "annotation") if view.is_shared else saved
    sent = Sent(
        request.query,
        request.match_info,
        api.clock.wall_ms(),
        types,
        seen,
        properties=not view.is_shared,
        time_zone=view.website.time_zone or "UTC",
        week_start=view.website.week_start,
        first_ms=first_ms,
    )
    parameters = params.read(report.parameters, sent, more=("format",) if report.columns else ())
    return ReportRequest(
        view,
        parameters,
        bool(report.columns) and params.wants_csv(sent, request.headers.get("Accept", "")),
        Requester(view.claim, lambda: request.transport is None),
        request.rel_url.with_path(local_path(request), keep_query=True),
        public_prefix(request),
    )


async def _answer(api: ReadApi, report: Report[Any], checked: ReportRequest[Any]) -> web.Response:
    try:
        answer: Answer = await report.compute(api, checked)
    except BeyondRetention as beyond:
        otherwise = "" if report.reads_events else ", or query without filters for whole UTC days"
        message = f"Single events are kept from {iso(beyond.from_ms)} on: use a range from then on{otherwise}."
        raise ApiError(errors.BEYOND_RETENTION, message, field="from") from None
    if not checked.csv and answer.data is not None:
        return json_response({"data": answer.data, "meta": answer.meta}, headers=answer.headers)
    columns, has_mark = answer.columns or report.columns, checked.view.is_of_pages
    response = table_response(columns, answer.rows, dict(answer.meta), checked.csv, has_mark=has_mark)
    response.headers.update(answer.headers)
    return response


async def _shared_answer(api: ReadApi, report: Report[Any], etag: str, checked: ReportRequest[Any]) -> web.Response:
    """Return the answer to a share link's request, computed once for all clients that send the same at once.

    The ETag is the key: it is made of the parameters and of the website's version, which an event changes before it is
    acknowledged. The Link header of CSV repeats the request's own prefix and URL, so they are part of its key. Share
    links alone share answers: their visitors send identical requests.
    """

    async def compute(is_gone: Callable[[], bool]) -> web.Response:
        return await _answer(api, report, replace(checked, requester=replace(checked.requester, is_gone=is_gone)))

    key = f"{etag} {checked.prefix}{checked.url}" if checked.csv else etag
    found = await api.link_answers.do(key, checked.requester.is_gone, compute)
    # A response object can be sent once.
    return web.Response(body=found.body, status=found.status, headers=found.headers)


def _etag(api: ReadApi, report: Report[Any], checked: ReportRequest[Any]) -> str:
    version = report.version(api, checked.website.number)
    identity = (report.path, checked.website.id, checked.view.is_shared, checked.view.filters, checked.csv)
    return api.etag(*identity, version, params.identity(checked.parameters))
