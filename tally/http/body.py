"""A request's body: how large it may be, how long it may take, and the batch that collect reads in it.

A body is read as it is: nothing is unpacked, since undoing a small compressed body can take seconds of the loop. Its
length is looked at before a byte of it is read; one that comes without a length is counted as it arrives. A sender who
drips holds his connection for a bounded time, and only so many may come at once: each takes up to 64 KB of memory.
Everything is refused by ApiError, in the one shape of errors.
"""

import asyncio

from aiohttp import web

from tally import errors
from tally.errors import ApiError
from tally.events.validation import MOST_BODY_BYTES, BadBody, Batch, parse_body
from tally.http.connections import CONNECTIONS
from tally.http.middleware import BROKEN_BODY

# our choice: 64 KB in this time is the slowest phone there is; a sender that drips holds a connection no longer.
BODY_S = 15.0
# our choice: 64 MB. A body that comes together with its head, as nearly all do, is none of them.
MOST_AT_ONCE = 1_000
_BODY_FAULTS = {
    "invalid_json": errors.INVALID_JSON,
    "invalid_body": errors.INVALID_BODY,
    "too_many_events": errors.TOO_MANY_EVENTS,
}


async def read_body(request: web.Request) -> bytes:
    """Check 2 of collect: at most 65,536 bytes, not compressed."""
    if (request.content_length or 0) > MOST_BODY_BYTES:
        raise ApiError(errors.BODY_TOO_LARGE)
    if any(c.strip().lower() not in ("", "identity") for c in request.headers.getall("Content-Encoding", ())):
        raise ApiError(errors.UNSUPPORTED_ENCODING)
    try:
        if request.content.is_eof():  # 5 us less
            return await request.read()
        return await _rest_of(request)
    except web.HTTPRequestEntityTooLarge:
        raise ApiError(errors.BODY_TOO_LARGE) from None
    except (*BROKEN_BODY, TimeoutError):
        raise ApiError(errors.INVALID_JSON, "The body did not arrive whole: send it again.") from None


async def _rest_of(request: web.Request) -> bytes:
    bodies = request.app[CONNECTIONS].bodies
    async with asyncio.timeout(BODY_S) as deadline:
        if len(bodies) >= MOST_AT_ONCE:
            # The one that has come for longest, so that nobody who is quick is kept out by those who never end.
            oldest = next(iter(bodies))
            del bodies[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        bodies[deadline] = None
        try:
            return await request.read()
        except asyncio.CancelledError:
            if deadline not in bodies:
                raise ApiError(
                    errors.OVERLOADED, "Too many bodies come at once: send it again.", retry_after_s=1
                ) from None
            raise
        finally:
            bodies.pop(deadline, None)


def read_batch(body: bytes) -> Batch:
    """Check 3 of collect."""
    try:
        return parse_body(body)
    except BadBody as bad:
        raise ApiError(_BODY_FAULTS[bad.code]) from None
