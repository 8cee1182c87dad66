"""Fixtures of all tests: an application in this process, the real command, a real server; and which tests run.

`app` is the application in this process (tests/support/app.py), `serve` starts the command as a process of its own
(tests/support/process.py).
"""

import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from zoneinfo import reset_tzpath

import hypothesis
import pytest

from tally.settings import Settings
from tests.support.app import ROOT, App, MakeApp, ManualClock, unpacked_countries
from tests.support.process import Command, Serve, Server, clean_environment

# Examples have no deadline: the speed of the machine decides nothing.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")
# Zones come from the package tzdata, as in the product, whatever this machine has.
reset_tzpath(to=())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of few tests first: theirs are the long ones, and no core is to wait for the last of them."""
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: tests[item.path])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def make_app(tmp_path: Path, clock: ManualClock) -> AsyncIterator[MakeApp]:
    """Makes applications with settings of the test's choice; closes them at its end."""
    apps: list[App] = []

    async def make(**settings: Any) -> App:
        app = App(Settings(**{"db": tmp_path / "analytics.db", "geoip_db": unpacked_countries()} | settings), clock)
        await app.open()
        apps.append(app)
        return app

    yield make
    for app in apps:
        await app.close()


@pytest.fixture
async def app(make_app: MakeApp) -> App:
    return await make_app()


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
