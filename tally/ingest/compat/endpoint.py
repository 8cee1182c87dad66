"""The handler of the endpoints of other systems' formats, with the checks of POST /api/collect in the same order.

A batch in Tally's own format is accepted at each of them too: the scripts that are served under other systems' names
send one to the endpoint that the system's own script would use, so that a proxy that passes on only these paths keeps
working.
"""

from aiohttp import web

from tally.errors import ApiError
from tally.events.sender import Sender
from tally.events.validation import Batch
from tally.http.body import read_body
from tally.http.middleware import ERROR_COUNTS, Handler
from tally.ingest.collector import (
    COLLECTOR,
    Accepted,
    Collector,
    accepted_response,
    read_batch,
    sender_of,
    take,
)
from tally.ingest.compat.formats import Format
from tally.ingest.compat.requests import Received


def endpoint(form: Format) -> Handler:
    """Return the handler of a format."""

    async def handle(request: web.Request) -> web.Response:
        collector = request.app[COLLECTOR]
        refused = form.refused
        try:
            sender = sender_of(collector, request)
            body = await read_body(request)
            batch = _own_batch(body) if request.method == "POST" else None
            if batch is not None:
                # The tracker keeps events that are refused for a while, so it needs the statuses of collect.
                refused = _raised
                return accepted_response(await take(collector, batch._replace(takes_domains=True), sender))
            received = _received(request, body, sender)
            translation = collector.count_labels(sender, lambda: form.translate(received))
            refused = translation.refused or refused
            return translation.answer(await _taken(request, translation.batch._replace(takes_domains=True), sender))
        except ApiError as error:
            collector.count_refusal(error)
            response = refused(error)
            request.app[ERROR_COUNTS][error.kind.code] += 1
            return response

    return handle


def _raised(error: ApiError) -> web.Response:
    raise error


def _received(request: web.Request, body: bytes, sender: Sender) -> Received:
    collector, website = request.app[COLLECTOR], request.match_info.get("website", "")
    visitor, domain_of = collector.resolver.visitor, collector.domain_of
    return Received(request.headers, request.query, body, request.host, website, sender, visitor, domain_of)


async def _taken(request: web.Request, batch: Batch, sender: Sender) -> Accepted:
    """Store the events of a batch; of a HEAD request only check them. Raises ApiError."""
    collector = request.app[COLLECTOR]
    if request.method == "HEAD":
        _check(collector, batch, sender)
    elif batch.items:
        return await take(collector, batch, sender)
    return Accepted(0, [])


def _check(collector: Collector, batch: Batch, sender: Sender) -> None:
    """Raise the ApiError that GET would be answered with; store nothing."""
    admitted = collector.admit(batch, sender, is_refreshed=True) if batch.items else None
    if isinstance(admitted, ApiError):
        raise admitted


def _own_batch(body: bytes) -> Batch | None:
    """Return a body's batch where it is one in Tally's own format, as the tracker sends it."""
    if b'"website_id"' not in body or b'"events"' not in body:
        return None
    try:
        batch = read_batch(body)
    except ApiError:
        return None
    return batch if batch.website_id is not None else None
