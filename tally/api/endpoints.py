"""The handlers of all endpoints about one website: one order of checks, the same for whoever may ask.

`endpoint` makes a handler out of an endpoint's name and a way of authorisation, which says of a request what it may see
(a View) or raises the refusal. API key, login and shared link differ in nothing else.

Order of checks: authorisation, then the parameters (400), then the ETag; a client that has that one is answered 304
unless another process has imported events since.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web

from tally import errors
from tally.api import behaviour
from tally.api import measurements as measured
from tally.api import traffic as answers
from tally.api.context import READER, Answer, Reader, View, caching, has_any_tag, has_tag
from tally.api.params import Question, question
from tally.errors import ApiError
from tally.events.dimensions import FIELDS
from tally.events.validation import TRAFFIC_TYPES, TYPES
from tally.ingest.writer import ids_end

ANSWERS: dict[str, Answer] = {**answers.ANSWERS, **measured.ANSWERS, **behaviour.ANSWERS}

Handler = Callable[[web.Request], Awaitable[web.Response]]
Authorise = Callable[[web.Request], Awaitable[View]]
"""What a request may see. Raises ApiError where that is nothing."""


def endpoint(name: str, authorise: Authorise) -> Handler:
    """The handler of an endpoint about one website."""
    answer = ANSWERS[name]

    async def handle(request: web.Request) -> web.Response:
        reader = request.app[READER]
        view = await authorise(request)
        types = TRAFFIC_TYPES if view.is_shared else TYPES
        asked = replace(question(request, name, reader.clock.wall_ms(), types), claim=view.claim)
        field = request.match_info.get("field", "")
        if name == "top" and field not in FIELDS:
            raise ApiError(errors.INVALID_PARAMETER, f"A top list is of one of {', '.join(FIELDS)}.", field="field")
        etag = _etag(reader, view, asked, field)
        if has_tag(request, etag):
            # What another process writes is noticed once a second, an import at once.
            if not await reader.store.catch_up(await reader.find(asked, ids_end)):
                return web.Response(status=304, headers=caching(etag, view.by))
            etag = _etag(reader, view, asked, field)
        begun_ns = reader.clock.monotonic_ns()
        try:
            if view.is_shared:
                response = await _shared_answer(reader, etag, asked, lambda one: answer(reader, view, one, field))
            else:
                response = await answer(reader, view, asked, field)
        finally:
            reader.times[name].add(reader.clock.monotonic_ns() - begun_ns)
        if has_any_tag(request):
            return web.Response(status=304, headers=caching(etag, view.by))
        response.headers.update(caching(etag, view.by))
        return response

    return handle


async def _shared_answer(
    reader: Reader, etag: str, asked: Question, answer: Callable[[Question], Awaitable[web.Response]]
) -> web.Response:
    """An answer to a share link's question, found once for all who ask the same at once.

    The ETag is the key: it is made of the question and of the website's change counter, which an event moves before it
    is acknowledged. The Link header of CSV repeats the request's own prefix and URL, so they are part of its key. Links
    alone share: their visitors ask the same questions, as many as a page has readers.
    """

    async def find(is_gone: Callable[[], bool]) -> web.Response:
        return await answer(replace(asked, is_gone=is_gone))

    key = f"{etag} {asked.prefix}{asked.url}" if asked.csv else etag
    found = await reader.link_answers.do(key, asked.is_gone, find)
    # A response is sent once.
    return web.Response(body=found.body, status=found.status, headers=found.headers)


def _etag(reader: Reader, view: View, asked: Question, field: str) -> str:
    version: object = reader.store.version_of(view.website.number)
    if asked.endpoint == "rejected":
        number, limits = view.website.number, reader.store.event_writer.value_limits
        version = reader.store.rejected_events.version_of(number), limits.versions[number]
    return reader.etag(view.website.id, view.is_shared, version, field, asked.identity())
