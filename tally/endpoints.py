"""The handlers of all endpoints about one website: one order of checks, the same for whoever may ask.

`endpoint` makes a handler out of an endpoint's name and a way of authorisation, which says of a request what it may see
(a View) or raises the refusal. API key, login and shared link differ in nothing else.

Order of checks: authorisation, then the parameters (400), then the ETag; a client that has that one is answered 304
before anything is read.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web

from tally import answers, behaviour, errors, measured
from tally.asking import question
from tally.enrich import FIELDS
from tally.errors import ApiError
from tally.events import TRAFFIC_TYPES, TYPES
from tally.reader import READER, Answer, View, caching, has_any_tag, has_tag

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
        asked = question(request, name, reader.clock.wall_ms(), TRAFFIC_TYPES if view.is_shared else TYPES)
        field = request.match_info.get("field", "")
        if name == "top" and field not in FIELDS:
            raise ApiError(errors.INVALID_PARAMETER, f"A top list is of one of {', '.join(FIELDS)}.", field="field")
        version: object = reader.store.version_of(view.website.number)
        if name == "left-out":
            version = reader.store.left_out.version_of(view.website.number)
        etag = reader.etag(view.website.id, view.is_shared, version, field, asked.identity())
        if has_tag(request, etag):
            return web.Response(status=304, headers=caching(etag, view.by))
        begun_ns = reader.clock.monotonic_ns()
        try:
            response = await answer(reader, view, asked, field)
        finally:
            reader.times[name].add(reader.clock.monotonic_ns() - begun_ns)
        if has_any_tag(request):
            return web.Response(status=304, headers=caching(etag, view.by))
        response.headers.update(caching(etag, view.by))
        return response

    return handle
