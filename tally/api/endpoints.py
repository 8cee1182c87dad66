"""Request handlers of the reports: authorisation, parameters, ETag, answer, in one order for every report.

`endpoint` makes a handler of a report and a function that authorises: it returns what a request may read (a View) or
raises ApiError. API key, session and share link differ in nothing else. `content` is the same for a query that is no
URL (tally/mcp).

Order of checks: authorisation, whether the share link shows the report (403), then the parameters (400), then the ETag.
A client that has the current answer receives 304, unless another process has imported events since.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from aiohttp import web
from multidict import MultiMapping
from yarl import URL

from tally import errors
from tally.api import params
from tally.api.context import READ_API, Answer, ReadApi, ReportRequest, View, caching, has_any_tag, has_tag
from tally.api.params import Sent
from tally.api.reports import Report
from tally.engine.values import BeyondRetention, Requester
from tally.errors import ApiError
from tally.events.validation import TRAFFIC_TYPES, TYPES
from tally.http.formats import csv_response, records
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
        params.refuse_other_than_utf8(request.raw_path)
        checked = _checked(report, view, request, await _sent(api, view, request.query, request.match_info))
        etag = _etag(api, report, checked)
        if has_tag(request, etag):
            # An import by another process is noticed here at once, and elsewhere within a second.
            await api.reports.refresh(checked.requester)
            etag = _etag(api, report, checked)
            if has_tag(request, etag):
                return web.Response(status=304, headers=caching(etag, view.by))
        with _timed(api, report):
            if view.is_shared:
                response = await _shared_answer(api, report, etag, checked)
            else:
                response = await _answer(api, report, checked)
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


async def content(
    request: web.Request, report: Report[Any], view: View, query: MultiMapping[str], path: Mapping[str, str]
) -> dict[str, Any]:
    """Return `data` and `meta`, as the report's endpoint answers a query and the values of its path. Raises ApiError.

    The request is that of the client, whose disconnect cancels the report.
    """
    requester = Requester(view.claim, lambda: request.transport is None)
    return await computed_content(request.app[READ_API], report, view, query, path, requester)


async def computed_content(
    api: ReadApi,
    report: Report[Any],
    view: View,
    query: MultiMapping[str],
    path: Mapping[str, str],
    requester: Requester,
) -> dict[str, Any]:
    """Return `data` and `meta` of a report for what the server itself needs. Raises ApiError."""
    parameters = params.read(report.parameters, await _sent(api, view, query, path))
    with _timed(api, report):
        answer = await _computed(api, report, ReportRequest(view, parameters, False, requester, URL(), ""))
    return _content(report, answer)


@contextlib.contextmanager
def _timed(api: ReadApi, report: Report[Any]) -> Iterator[None]:
    begun_ns = api.clock.monotonic_ns()
    try:
        yield
    finally:
        api.times[report.name].add(api.clock.monotonic_ns() - begun_ns)


async def _sent(api: ReadApi, view: View, query: MultiMapping[str], path: Mapping[str, str]) -> Sent:
    """Return the parameters of a request with what else their meaning depends on."""
    website, first_ms = view.website, None
    if query.get("period") == "all":
        first_ms = await api.reports.first_event_ms(website.number, Requester(view.claim))
    saved = api.registry.cache.definitions.get(website.number, ())
    return Sent(
        query,
        path,
        api.clock.wall_ms(),
        TRAFFIC_TYPES if view.is_shared else TYPES,
        # A share link shows annotations alone of what the owner has saved.
        tuple(definition for definition in saved if definition.kind == "annotation") if view.is_shared else saved,
        properties=not view.is_shared,
        time_zone=website.time_zone or "UTC",
        week_start=website.week_start,
        first_ms=first_ms,
    )


def _checked(report: Report[Any], view: View, request: web.Request, sent: Sent) -> ReportRequest[Any]:
    """Return the checked request. Raises ApiError 400."""
    parameters = params.read(report.parameters, sent, more=("format",) if report.columns else ())
    return ReportRequest(
        view,
        parameters,
        bool(report.columns) and params.wants_csv(sent, request.headers.get("Accept", "")),
        Requester(view.claim, lambda: request.transport is None),
        request.rel_url.with_path(local_path(request), keep_query=True),
        public_prefix(request),
    )


async def _computed(api: ReadApi, report: Report[Any], checked: ReportRequest[Any]) -> Answer:
    try:
        answer: Answer = await report.compute(api, checked)
    except BeyondRetention as beyond:
        otherwise = "" if report.reads_events else ", or query without filters for whole days of the website"
        message = f"Single events are kept from {iso(beyond.from_ms)} on: use a range from then on{otherwise}."
        raise ApiError(errors.BEYOND_RETENTION, message, field="from") from None
    return answer


def _content(report: Report[Any], answer: Answer) -> dict[str, Any]:
    """Return `data` and `meta` of an answer in JSON."""
    data = answer.data
    if data is None:
        data = records(answer.columns or report.columns, answer.rows)
    return {"data": data, "meta": answer.meta}


async def _answer(api: ReadApi, report: Report[Any], checked: ReportRequest[Any]) -> web.Response:
    answer = await _computed(api, report, checked)
    if not checked.csv:
        return json_response(_content(report, answer), headers=answer.headers)
    columns, has_mark = answer.columns or report.columns, checked.view.is_of_pages
    response = csv_response(columns, answer.rows, has_mark=has_mark)
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
    answer = await api.link_answers.do(key, checked.requester.is_gone, compute)
    # A response object can be sent once.
    return web.Response(body=answer.body, status=answer.status, headers=answer.headers)


def _etag(api: ReadApi, report: Report[Any], checked: ReportRequest[Any]) -> str:
    version = report.version(api, checked.website.number)
    identity = (report.path, checked.website.id, checked.view.is_shared, checked.view.filters, checked.csv)
    return api.etag(*identity, version, params.identity(checked.parameters))
