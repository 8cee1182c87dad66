"""A real HTTP server on loopback that receives notices, and answers as a test tells it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.test_utils import TestServer

from tally.api.channels import NOTICES
from tally.notices.outbox import Content
from tally.notices.sender import Sender
from tally.notices.texts import Language
from tests.support.app import App

LOOPBACK = ("127.0.0.0/8",)


class Received(NamedTuple):
    """A request: path, headers and body."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers with `status` and `headers`, or as `answer` does; keeps what it has received."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.status, self.headers = 204, dict[str, str]()
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append(Received(request.path, headers, await request.read()))
        if self.answer is not None:
            return await self.answer(request)
        return web.Response(status=self.status, headers=self.headers)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """Yield a receiver that is reached at `url`."""
    receiver, application = Receiver(), web.Application()
    application.router.add_route("*", "/{path:.*}", receiver.handle)
    async with TestServer(application) as server:
        receiver.url = f"http://127.0.0.1:{server.port}"
        yield receiver


def says(*words: Any) -> Callable[[Language], Content]:
    """Return the content of a notice, the same in each language."""
    return lambda _: Content(*words)


def sender_of(app: App) -> Sender:
    """Return what sends the notices of an application."""
    return app.application[NOTICES]


async def settle(app: App) -> None:
    """Have all sent that is due at the application's time."""
    sender: Any = sender_of(app)
    while True:
        sender.each_second(0)
        while sender._looking is not None or sender._sending:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.005)
        if sender._next_ms is None or sender._next_ms > app.clock.monotonic_wall_ms():
            return
