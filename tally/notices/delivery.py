"""Send one request of a channel, over a connection of its own, and report how it ended.

A receiver may be hostile: the whole exchange ends after TIMEOUT_S, redirects are not followed, of the answer the status
is used, at most MAX_ANSWER_BYTES are read, and nothing of it is kept. No cookie, no proxy of the environment. Which
addresses are connected to is decided in tally/notices/addresses.py. Names are looked up on threads of their own: a
look-up that hangs would otherwise hold a thread of the event loop.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from tally.events.client import Network
from tally.notices.addresses import AddressRefused, guard
from tally.notices.outbox import Outcome
from tally.notices.reasons import REASONS
from tally.notices.requests import Request
from tally.timestamps import SECOND_MS

TIMEOUT_S = 15.0
MAX_ANSWER_BYTES = 4_096
# A look-up lasts as long as the system's resolver waits, which may be longer than TIMEOUT_S.
_MAX_LOOK_UPS = 64


class Delivery:
    """Sends requests. Used by the event loop alone."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks
        self._context: ssl.SSLContext | None = None
        self._resolver = _Resolver()

    async def send(self, request: Request) -> Outcome:
        """Send a request and return how it ended; raises nothing."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._exchange(request)
        except TimeoutError:
            return Outcome(REASONS["no_answer"])
        except aiohttp.ClientConnectorCertificateError:
            return Outcome(REASONS["certificate"])
        except aiohttp.ClientConnectorDNSError:
            return Outcome(REASONS["host_not_found"])
        except aiohttp.InvalidURL:
            return Outcome("the URL is not valid")
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            return Outcome(_reason(failure))

    async def _exchange(self, request: Request) -> Outcome:
        is_https = urlsplit(request.url).scheme == "https"
        if is_https and self._context is None:
            # That of aiohttp has no certificates in a server (tally/cli/start.py); reading them takes 50 ms.
            self._context = await asyncio.to_thread(ssl.create_default_context)
        connector = aiohttp.TCPConnector(
            socket_factory=guard(self._networks, is_public_allowed=is_https),
            ssl=self._context or True,
            resolver=self._resolver,
            use_dns_cache=False,
            force_close=True,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        )
        async with session:
            response = await session.post(
                request.url, data=request.body, headers=request.headers, allow_redirects=False
            )
            try:
                await response.content.read(MAX_ANSWER_BYTES)
            finally:
                response.close()
            return _outcome(response)


def _outcome(response: aiohttp.ClientResponse) -> Outcome:
    status = response.status
    if 200 <= status < 300:
        return Outcome(status=status)
    error = f"HTTP {status}"
    if 300 <= status < 400:
        error += ": redirects are not followed"
    return Outcome(error, status, status == 410, _asked_wait_ms(response.headers.get("Retry-After", "").strip()))


def _asked_wait_ms(text: str) -> int:
    """Return the wait of a Retry-After header: seconds or a date (RFC 9110, 10.2.3); 0 for another text."""
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text) * SECOND_MS
    try:
        return max(0, int((parsedate_to_datetime(text).timestamp() - time.time()) * SECOND_MS))
    except (ValueError, OverflowError):
        return 0


def _reason(failure: BaseException) -> str:
    """Return why a request could not be sent, without anything that the receiver has sent."""
    refused = _refused(failure)
    if refused is not None:
        return str(refused)
    if isinstance(failure, aiohttp.ClientConnectorError):
        return REASONS["connection_failed"]
    return REASONS["no_http"]


def _refused(failure: BaseException | None) -> AddressRefused | None:
    """Return the refusal among the causes of a failure."""
    while failure is not None:
        if isinstance(failure, AddressRefused):
            return failure
        failure = getattr(failure, "os_error", None) or failure.__cause__ or failure.__context__
    return None


class _Resolver(AbstractResolver):
    """Looks each name up on a thread of its own, which does not delay the end of the process."""

    def __init__(self) -> None:
        self._running = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name. Raises OSError."""
        if self._running >= _MAX_LOOK_UPS:
            raise OSError("too many look-ups hang")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def look_up() -> None:
            try:
                found: Any = _look_up(host, port, family)
            except OSError as failure:
                found = failure
            # The server may have ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._ended, answer, found)

        self._running += 1
        threading.Thread(target=look_up, name="notice name", daemon=True).start()
        return [_result(host, port, one) for one in await answer]

    def _ended(self, answer: asyncio.Future[Any], found: Any) -> None:
        self._running -= 1
        if answer.done():
            return  # given up
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    async def close(self) -> None:
        """Keep what is running: it is used for the next request."""


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family, flags=socket.AI_ADDRCONFIG)


def _result(host: str, port: int, info: Any) -> ResolveResult:
    family, _, protocol, _, address = info
    return ResolveResult(
        hostname=host,
        host=str(address[0]),
        port=port,
        family=family,
        proto=protocol,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
