"""The application in this process, on a database file of its own, with a clock that the test sets.

Requests reach `App` through aiohttp's test client; nothing is mocked. The client address is sent in X-Forwarded-For:
requests come from a loopback address, which is a trusted proxy by default.
"""

import asyncio
import atexit
import functools
import json
import lzma
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web, web_app
from aiohttp.test_utils import TestClient, TestServer

from analytics_server import build_app
from tally.accounts.accounts import Account, AccountError, create_account, find_account
from tally.accounts.api_keys import DEFAULT_GRANT, Grant, create_api_key
from tally.accounts.websites import add_website
from tally.api.context import READ_API
from tally.api.reports import REPORTS, Report
from tally.clock import Clock
from tally.events.geoip import BUNDLED
from tally.ingest.node import EngineFactory
from tally.resources import asset
from tally.settings import Settings
from tally.storage.database import open_database
from tally.web.components import sqlite_engine
from tally.web.runner import RUNNER_OPTIONS, Runner

ROOT = Path(__file__).resolve().parents[2]
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)
SAFARI_IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/17.5 Mobile/15E148 Safari/604.1"
)
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
OWNER = "owner@example.com"
NOON_MS = 1_795_003_200_000  # 2026-11-18T12:00:00Z


class ManualClock(Clock):
    """A clock whose time changes only when a test calls its methods."""

    def __init__(self, wall_ms: int = NOON_MS) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ns = 1_000_000_000_000
        super().__init__()

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def advance(self, seconds: float) -> None:
        """Advance wall time and monotonic time."""
        self._wall_ms += round(seconds * 1000)
        self._monotonic_ns += round(seconds * 1_000_000_000)

    def begin_at(self, ms: int) -> None:
        """Set the wall time and discard the state of the clock, as at the start of a process."""
        self._wall_ms = ms
        Clock.__init__(self)

    def set_wall(self, ms: int) -> None:
        """Set the wall time; the monotonic time does not change."""
        self._wall_ms = ms


@dataclass
class Answer:
    """A response with its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    json: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        if "/json" in self.headers.get("Content-Type", "") and self.body:
            self.json = json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class _LikeTheProcess(TestServer):
    """Runs the application as tally/web/runner.py does: a disconnect does not cancel the handler."""

    __test__ = False

    async def _make_runner(self, **options: Any) -> web.BaseRunner:
        return Runner(self.app, **options | RUNNER_OPTIONS)


class App:
    """An application in this process, with its own database file, an analytics engine and a table of reports."""

    def __init__(
        self,
        settings: Settings,
        clock: ManualClock,
        engine: EngineFactory = sqlite_engine,
        reports: Sequence[Report[Any]] = REPORTS,
    ) -> None:
        self.settings, self.clock, self.db = settings, clock, settings.db
        self.engine, self.reports = engine, reports
        self.client: TestClient[Any, Any]

    async def open(self) -> None:
        if not self.db.exists() and self.db.parent.is_dir():
            shutil.copy(_empty_database(), self.db)  # copies the mode too
        self.application = build_app(self.settings, self.clock, engine=self.engine, reports=self.reports)
        # No cookie jar: tests set the cookies that are sent.
        self.client = TestClient(_LikeTheProcess(self.application), cookie_jar=aiohttp.DummyCookieJar())
        await self.client.start_server()

    async def close(self) -> None:
        await self.client.close()
        # aiohttp caches the handlers of 1,024 routes, which refer to their applications, each of 11 MB.
        web_app._cached_build_middleware.cache_clear()

    async def restart(self) -> None:
        """Close the application and open another on the same file; what was only in memory is lost."""
        await self.close()
        await self.open()

    @property
    def node(self) -> Any:
        return self.application[READ_API].node

    @property
    def database(self) -> Any:
        return self.node.database

    @property
    def registry(self) -> Any:
        return self.node.registry

    @property
    def running(self) -> Any:
        """The engine."""
        return self.node.engine

    @property
    def background_work(self) -> Any:
        return self.running.work

    async def admin(self, do: Callable[[sqlite3.Connection], Any]) -> Any:
        """Call a function in a write transaction on a separate connection, as commands do, and return its result.

        The application's cache is refreshed afterwards.
        """

        def write() -> Any:
            connection = open_database(self.db, create=False)
            try:
                connection.execute("begin immediate")
                result = do(connection)
                connection.execute("commit")
                return result
            finally:
                connection.close()

        result = await asyncio.to_thread(write)
        await self.registry.refresh()
        return result

    async def website(
        self,
        domain: str = "example.com",
        account: str = OWNER,
        plan: str = "business",
        allow_origins: tuple[str, ...] = (),
    ) -> str:
        """Create a website, and its account if it does not exist; return its id."""

        def add(connection: sqlite3.Connection) -> str:
            owner = self._owner(connection, account, plan)
            return add_website(connection, owner, domain, domain, allow_origins, self.clock.wall_ms())

        return str(await self.admin(add))

    async def key(self, account: str = OWNER, plan: str = "business", grant: Grant = DEFAULT_GRANT) -> str:
        """Create an API key of the account and return it."""

        def create(connection: sqlite3.Connection) -> str:
            owner = self._owner(connection, account, plan)
            return create_api_key(connection, owner, "", self.clock.wall_ms(), grant)

        return str(await self.admin(create))

    def _owner(self, connection: sqlite3.Connection, email: str, plan: str) -> Account:
        try:
            return find_account(connection, email)
        except AccountError:
            return create_account(connection, email, plan, None, self.clock.wall_ms())

    async def collect(
        self,
        body: Any,
        *,
        ip: str = "203.0.113.7",
        ua: str = CHROME,
        headers: Mapping[str, str] | None = None,
        path: str = "/api/collect",
        method: str = "POST",
    ) -> Answer:
        """Send a body to the collect API, without Origin and Referer (as apps do) unless `headers` contain them."""
        sent = (
            body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        )
        own = {"X-Forwarded-For": ip, "User-Agent": ua, "Content-Type": "application/json"}
        async with self.client.request(method, path, data=sent, headers=own | dict(headers or {})) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(
        self,
        path: str,
        key: str | None = None,
        params: Any = None,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
    ) -> Answer:
        """Send a request to the read API."""
        own = {"Authorization": f"Bearer {key}"} if key else {}
        async with self.client.request(method, path, params=params, headers=own | dict(headers or {})) as response:
            return Answer(response.status, response.headers, await response.read())

    def sql(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the database file."""
        connection = sqlite3.connect(self.db)
        try:
            return connection.execute(query, parameters).fetchall()
        finally:
            connection.close()


@functools.cache
def _empty_database() -> Path:
    """Return the path of an empty database, made once and copied for each test: its tables take 30 ms."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "analytics.db"
    open_database(path, create=True).close()
    return path


def new_database(path: Path) -> sqlite3.Connection:
    """Return a read-write connection to a new database."""
    return open_database(Path(shutil.copy(_empty_database(), path)), create=False)  # the copy has the mode too


@functools.cache
def unpacked_countries() -> Path:
    """Return the path of the bundled country database, decompressed once for all applications: that takes 0.3 s."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "countries.mmdb"
    path.write_bytes(lzma.decompress(asset(BUNDLED).read_bytes()))
    return path


async def wait_until(holds: Callable[[], Any], seconds: float = 60) -> None:
    """Let the application work until a function returns a true value; fail after `seconds`."""
    deadline_s = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline_s, "the condition was not met in time"
        await asyncio.sleep(0.02)


MakeApp = Callable[..., Awaitable[App]]
