"""Read the body of a request within bounds of size, time and number.

A body is never decompressed: a small compressed body can take seconds of CPU time on the event loop. Content-Length is
checked before a byte is read; a body without one is counted as it arrives. A body must be complete within BODY_S, and
at most MAX_CONCURRENT_BODIES may be incomplete at a time, each of up to 64 KB of memory. Errors are ApiError.
"""

import asyncio

from aiohttp import web

from tally import errors
from tally.errors import ApiError
from tally.events.validation import MAX_BODY_BYTES
from tally.http.connections import CONNECTIONS
from tally.http.middleware import BODY_ERRORS

# 64 KB in 15 s is 35 kbit/s, slower than a 2G phone.
BODY_S = 15.0
# 64 MB of memory. A body that arrives in one piece with its head, as nearly all do, is not counted.
MAX_CONCURRENT_BODIES = 1_000


async def read_body(request: web.Request) -> bytes:
    """Return the body: at most 65,536 bytes, without a Content-Encoding. Raises ApiError."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise ApiError(errors.BODY_TOO_LARGE)
    if any(c.strip().lower() not in ("", "identity") for c in request.headers.getall("Content-Encoding", ())):
        raise ApiError(errors.UNSUPPORTED_ENCODING)
    try:
        if request.content.is_eof():  # saves 5 µs
            return await request.read()
        return await _read_rest(request)
    except web.HTTPRequestEntityTooLarge:
        raise ApiError(errors.BODY_TOO_LARGE) from None
    except (*BODY_ERRORS, TimeoutError):
        raise ApiError(errors.INVALID_JSON, "The body is incomplete: send it again.") from None


async def read_large_body(request: web.Request, most: int) -> bytes:
    """Return a body of at most `most` bytes, of a client that a key or a session has authorised. Raises ApiError."""
    if any(c.strip().lower() not in ("", "identity") for c in request.headers.getall("Content-Encoding", ())):
        raise ApiError(errors.UNSUPPORTED_ENCODING)
    received = bytearray()
    try:
        async with asyncio.timeout(4 * BODY_S):
            async for part in request.content.iter_any():
                received += part
                if len(received) > most:
                    raise ApiError(errors.BODY_TOO_LARGE, f"The body has at most {most:,} bytes.")
    except (*BODY_ERRORS, TimeoutError):
        raise ApiError(errors.INVALID_FIELD, "The body is incomplete: send it again.", field="body") from None
    return bytes(received)


async def _read_rest(request: web.Request) -> bytes:
    bodies = request.app[CONNECTIONS].bodies
    async with asyncio.timeout(BODY_S) as deadline:
        if len(bodies) >= MAX_CONCURRENT_BODIES:
            # The oldest is ended, so that bodies that never end do not keep out those that arrive quickly.
            oldest = next(iter(bodies))
            del bodies[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        bodies[deadline] = None
        try:
            return await request.read()
        except asyncio.CancelledError:
            if deadline not in bodies:
                raise ApiError(
                    errors.OVERLOADED, "Too many bodies are being received: send it again.", retry_after_s=1
                ) from None
            raise
        finally:
            bodies.pop(deadline, None)
