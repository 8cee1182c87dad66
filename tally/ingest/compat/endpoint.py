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
    PREFLIGHT,
    Accepted,
    Collector,
    accepted_response,
    read_batch,
    sender_of,
    take,
)
from tally.ingest.compat.formats import Format
from tally.ingest.compat.requests import Received

# What Umami's script sends besides.
_PREFLIGHT = PREFLIGHT | {"Access-Control-Allow-Headers": "Content-Type, X-Umami-Cache"}


def endpoint(form: Format) -> Handler:
    """Return the handler of a format."""

    async def handle(request: web.Request) -> web.Response:
        collector = request.app[COLLECTOR]
        try:
            return await _collect(request, form)
        except ApiError as error:
            collector.count_refusal(error)
            response = form.refused(error)
            request.app[ERROR_COUNTS][error.kind.code] += 1
            return response

    return handle


async def preflight(request: web.Request) -> web.Response:
    """OPTIONS: any page may send; its origin is checked when the events arrive."""
    return web.Response(status=204, headers=_PREFLIGHT)


async def _collect(request: web.Request, form: Format) -> web.Response:
    collector = request.app[COLLECTOR]
    sender = sender_of(collector, request)
    body = await read_body(request)
    own = _own_batch(body)
    if own is not None:
        return accepted_response(await take(collector, own._replace(takes_domains=True), sender))
    website = request.match_info.get("website", "")
    received = Received(
        request.headers,
        request.query,
        body,
        request.host,
        website,
        sender,
        collector.resolver.visitor,
        collector.domain_of,
    )
    translation = form.translate(received)
    batch, accepted = translation.batch._replace(takes_domains=True), Accepted(0, [])
    if request.method == "HEAD":
        _check(collector, batch, sender)
    elif batch.items:
        accepted = await take(collector, batch, sender)
    return translation.answer(accepted)


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
