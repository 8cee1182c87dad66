"""What the tests stand on: a real application on a real SQLite file, a clock that a test sets, the real command.

`house` is the application in this process, reached through aiohttp's test client; `serve` starts the command as a
process of its own. Nothing is mocked. The client's address travels in X-Forwarded-For, since the test's own is
loopback, which is trusted by default.
"""

import asyncio
import atexit
import functools
import http.client
import json
import lzma
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import reset_tzpath

import aiohttp
import hypothesis
import pytest
from aiohttp import web, web_app
from aiohttp.test_utils import TestClient, TestServer

from analytics_server import build_app
from tally.accounts import queries as accounts
from tally.cli.serve import RUNNER_OPTIONS, Runner
from tally.clock import Clock
from tally.events.geoip import BUNDLED
from tally.ingest.collector import DESK
from tally.resources import asset
from tally.settings import Settings
from tally.storage.database import open_database

# How fast the machine is at the moment decides nothing.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")
# As the product does: zones from the package tzdata, whatever this machine has.
reset_tzpath(to=())

ROOT = Path(__file__).resolve().parent.parent
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)
SAFARI_IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/17.5 Mobile/15E148 Safari/604.1"
)
OWNER = "owner@example.com"
NOON_MS = 1_795_003_200_000  # 2026-11-18T12:00:00Z


class ManualClock(Clock):
    """A clock that stands still until it is set; both of its hands move together."""

    def __init__(self, wall_ms: int = NOON_MS) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ns = 1_000_000_000_000
        super().__init__()

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def advance(self, seconds: float) -> None:
        """Both hands go on."""
        self._wall_ms += round(seconds * 1000)
        self._monotonic_ns += round(seconds * 1_000_000_000)

    def begin_at(self, ms: int) -> None:
        """It has always been that late: nothing was set."""
        self._wall_ms = ms
        Clock.__init__(self)

    def set_wall(self, ms: int) -> None:
        """The system's time is set; what measures waiting does not notice."""
        self._wall_ms = ms


@dataclass
class Answer:
    """A response, read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    json: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        if "json" in self.headers.get("Content-Type", "") and self.body:
            self.json = json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class _LikeTheProcess(TestServer):
    """Runs the application as tally/cli/serve.py does: a client that goes away does not cancel its handler."""

    __test__ = False

    async def _make_runner(self, **options: Any) -> web.BaseRunner:
        return Runner(self.app, **options | RUNNER_OPTIONS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of few tests first: theirs are the long ones, and no core is to wait for the last of them."""
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: tests[item.path])


class House:
    """An application in this process, on a file of its own."""

    def __init__(self, settings: Settings, clock: ManualClock) -> None:
        self.settings, self.clock, self.db = settings, clock, settings.db
        self.client: TestClient[Any, Any]

    async def open(self) -> None:
        self.app = build_app(self.settings, self.clock)
        # No jar: a test says which cookies are sent.
        self.client = TestClient(_LikeTheProcess(self.app), cookie_jar=aiohttp.DummyCookieJar())
        await self.client.start_server()

    async def close(self) -> None:
        await self.client.close()
        # aiohttp keeps the handlers of 1,024 routes with their applications, of which each takes 11 MB.
        web_app._cached_build_middleware.cache_clear()

    async def restart(self) -> None:
        """Closes the application and opens another on the same file; what was in memory is gone."""
        await self.close()
        await self.open()

    @property
    def store(self) -> Any:
        return self.app[DESK].store

    async def admin(self, do: Callable[[sqlite3.Connection], Any]) -> Any:
        """Writes as the command line does, from outside the application, which is then made to look."""

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
        await self.store.refresh()
        return result

    async def website(
        self,
        domain: str = "example.com",
        account: str = OWNER,
        plan: str = "business",
        allow_origins: tuple[str, ...] = (),
    ) -> str:
        """A new website; its account is made where it is not there yet. Its id."""

        def add(connection: sqlite3.Connection) -> str:
            owner = self._owner(connection, account, plan)
            return accounts.add_website(connection, owner, domain, domain, allow_origins, self.clock.wall_ms())

        return str(await self.admin(add))

    async def key(self, account: str = OWNER, plan: str = "business") -> str:
        """A new API key of the account."""

        def create(connection: sqlite3.Connection) -> str:
            return accounts.create_key(connection, self._owner(connection, account, plan), "", self.clock.wall_ms())

        return str(await self.admin(create))

    def _owner(self, connection: sqlite3.Connection, email: str, plan: str) -> accounts.Account:
        try:
            return accounts.account(connection, email)
        except accounts.AccountError:
            return accounts.create_account(connection, email, plan, None, self.clock.wall_ms())

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
        """Sends a body; as an app does unless `headers` name a page."""
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
        """Asks the read API."""
        own = {"Authorization": f"Bearer {key}"} if key else {}
        async with self.client.request(method, path, params=params, headers=own | dict(headers or {})) as response:
            return Answer(response.status, response.headers, await response.read())

    def sql(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Reads the file itself."""
        connection = sqlite3.connect(self.db)
        try:
            return connection.execute(query, parameters).fetchall()
        finally:
            connection.close()


@functools.cache
def unpacked_countries() -> Path:
    """The bundled country data, unpacked once for all houses: each unpacking takes a third of a second."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "countries.mmdb"
    path.write_bytes(lzma.decompress(asset(BUNDLED).read_bytes()))
    return path


MakeHouse = Callable[..., Awaitable[House]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def make_house(tmp_path: Path, clock: ManualClock) -> AsyncIterator[MakeHouse]:
    """Makes houses with settings of the test's choice; closes them at its end."""
    houses: list[House] = []

    async def make(**settings: Any) -> House:
        house = House(Settings(**{"db": tmp_path / "analytics.db", "geoip_db": unpacked_countries()} | settings), clock)
        await house.open()
        houses.append(house)
        return house

    yield make
    for house in houses:
        await house.close()


@pytest.fixture
async def house(make_house: MakeHouse) -> House:
    return await make_house()


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without settings of the product."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ANALYTICS_")} | more


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs the real command in an empty folder, to its end."""

    def run(
        *arguments: str, stdin: str | None = None, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, str(ROOT / "analytics_server.py"), *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            env=clean_environment(**(env or {})),
            cwd=cwd or tmp_path,
            timeout=120,
        )

    return run


class Server:
    """The real server as a process of its own."""

    def __init__(
        self,
        db: Path,
        arguments: tuple[str, ...],
        env: Mapping[str, str],
        log: Path,
        prefix: list[str],
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        self.db, self._log = db, log
        words = [*prefix, sys.executable, str(ROOT / "analytics_server.py"), "serve", "--port", "0", "--db", str(db)]
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [*words, *arguments],
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=clean_environment(**env),
                cwd=db.parent,
                pass_fds=pass_fds,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening on "):
            self.process.wait()
            raise AssertionError(f"the server did not start: {line!r} {self.stderr()}")
        self.url = line.removeprefix("listening on ").strip()
        self.pid = self.process.pid

    def terminate(self) -> int:
        """SIGTERM; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def kill(self) -> int:
        """SIGKILL; its exit status."""
        self.process.kill()
        return self._ended()

    def _ended(self) -> int:
        status = self.process.wait(timeout=60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status

    def stderr(self) -> str:
        return self._log.read_text()

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, timeout: float = 60
    ) -> Answer:
        """One request on a connection of its own."""
        at = urlsplit(self.url)
        connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=timeout)
        sent = body if body is None or isinstance(body, bytes | str) else json.dumps(body)
        try:
            connection.request(method, path, body=sent, headers={"User-Agent": CHROME} | dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def resident_bytes(self) -> int:
        """Resident memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")


Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts real servers; ends them at the test's end."""
    servers: list[Server] = []

    def start(
        *arguments: str,
        db: Path | None = None,
        env: Mapping[str, str] | None = None,
        prefix: list[str] | None = None,
        pass_fds: tuple[int, ...] = (),
    ) -> Server:
        log = tmp_path / f"stderr{len(servers)}.log"
        server = Server(db or tmp_path / "analytics.db", arguments, env or {}, log, prefix or [], pass_fds)
        servers.append(server)
        return server

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.kill()


def need_strace() -> None:
    """Skips where strace is not installed; fails instead where TALLY_MUST_TRACE says it has to be, as in .ci/run."""
    if shutil.which("strace") is None:
        assert not os.environ.get("TALLY_MUST_TRACE"), "install strace: apt-get install strace"
        pytest.skip(
            "NOT TESTED: fsync and kills at single writes are only seen through strace (apt-get install strace)"
        )


def until(holds: Callable[[], Any], seconds: float = 30) -> Any:
    """What `holds` gives once it gives something; fails after a while. For what another process must notice."""
    deadline = time.monotonic() + seconds
    while not (result := holds()):
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)
    return result
