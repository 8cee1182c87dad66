"""Request handlers of the reports: authorisation, parameters, ETag, answer, in one order for every report.

`endpoint` makes a handler of a report and a function that authorises: it returns what a request may read (a View) or
raises ApiError. API key, session and share link differ in nothing else.

Order of checks: authorisation, then the parameters (400), then the ETag. A client that has the current answer receives
304, unless another process has imported events since.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from tally import errors
from tally.api import params
from tally.api.context import READ_API, Answer, Question, ReadApi, View, caching, has_any_tag, has_tag
from tally.api.params import Sent
from tally.api.reports import Report
from tally.errors import ApiError
from tally.events.validation import TRAFFIC_TYPES, TYPES
from tally.http.formats import table_response
from tally.http.request_paths import local_path, public_prefix
from tally.http.responses import json_response
from tally.reports.engine import BeyondRetention, Requester
from tally.timestamps import iso

Handler = Callable[[web.Request], Awaitable[web.Response]]
Authorise = Callable[[web.Request], Awaitable[View]]
"""Returns what a request may read. Raises ApiError where that is nothing."""


def endpoint(report: Report[Any], authorise: Authorise) -> Handler:
    """Return the handler of a report."""

    async def handle(request: web.Request) -> web.Response:
        api = request.app[READ_API]
        view = await authorise(request)
        asked = _question(report, view, request, api.clock.wall_ms())
        etag = _etag(api, report, asked)
        if has_tag(request, etag):
            # An import by another process is noticed here at once, and elsewhere within a second.
            if not await api.reports.refresh(asked.requester):
                return web.Response(status=304, headers=caching(etag, view.by))
            etag = _etag(api, report, asked)
        begun_ns = api.clock.monotonic_ns()
        try:
            if view.is_shared:
                response = await _shared_answer(api, report, etag, asked)
            else:
                response = await _answer(api, report, asked)
        finally:
            api.times[report.name].add(api.clock.monotonic_ns() - begun_ns)
        if has_any_tag(request):
            return web.Response(status=304, headers=caching(etag, view.by))
        response.headers.update(caching(etag, view.by))
        return response

    return handle


def _question(report: Report[Any], view: View, request: web.Request, now_ms: int) -> Question[Any]:
    """Return the checked request. Raises ApiError 400."""
    params.refuse_other_than_utf8(request.raw_path)
    types = TRAFFIC_TYPES if view.is_shared else TYPES
    sent = Sent(request.query, request.match_info, now_ms, types)
    parameters = params.read(report.parameters, sent, more=("format",) if report.columns else ())
    return Question(
        view,
        parameters,
        bool(report.columns) and params.wants_csv(sent, request.headers.get("Accept", "")),
        Requester(view.claim, lambda: request.transport is None),
        request.rel_url.with_path(local_path(request), keep_query=True),
        public_prefix(request),
    )


async def _answer(api: ReadApi, report: Report[Any], asked: Question[Any]) -> web.Response:
    try:
        answer: Answer = await report.compute(api, asked)
    except BeyondRetention as beyond:
        otherwise = "" if report.reads_events else ", or without filters for whole UTC days"
        message = f"Single events are kept from {iso(beyond.from_ms)} on: ask from then on{otherwise}."
        raise ApiError(errors.BEYOND_RETENTION, message, field="from") from None
    if not asked.csv and answer.data is not None:
        return json_response({"data": answer.data, "meta": answer.meta}, headers=answer.headers)
    response = table_response(answer.columns or report.columns, answer.rows, dict(answer.meta), asked.csv)
    response.headers.update(answer.headers)
    return response


async def _shared_answer(api: ReadApi, report: Report[Any], etag: str, asked: Question[Any]) -> web.Response:
    """Return an answer to a share link's question, computed once for all clients that ask the same at once.

    The ETag is the key: it is made of the question and of the website's version, which an event changes before it is
    acknowledged. The Link header of CSV repeats the request's own prefix and URL, so they are part of its key. Share
    links alone share answers: their visitors ask identical questions.
    """

    async def compute(is_gone: Callable[[], bool]) -> web.Response:
        return await _answer(api, report, replace(asked, requester=replace(asked.requester, is_gone=is_gone)))

    key = f"{etag} {asked.prefix}{asked.url}" if asked.csv else etag
    found = await api.link_answers.do(key, asked.requester.is_gone, compute)
    # A response object can be sent once.
    return web.Response(body=found.body, status=found.status, headers=found.headers)


def _etag(api: ReadApi, report: Report[Any], asked: Question[Any]) -> str:
    version = report.version(api.reports, asked.website.number)
    identity = (report.path, asked.website.id, asked.view.is_shared, asked.csv)
    return api.etag(*identity, version, params.identity(asked.parameters))
