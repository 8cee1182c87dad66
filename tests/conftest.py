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

from tally.ingest.sqlite_reports import SqliteReports
from tally.settings import Settings
from tally.web.components import Engine
from tests.support.app import ROOT, App, MakeApp, ManualClock, unpacked_countries
from tests.support.process import Command, Serve, Server, clean_environment
from tests.support.selection import Amount, amount, is_worker, seconds_of, set_amount

# Examples have no deadline: the speed of the machine decides nothing.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")
# Zones come from the package tzdata, as in the product, whatever this machine has.
reset_tzpath(to=())


# -- which tests run

NOT_BY_DEFAULT = ("robustness", "browser", "slow")
NOT_RUN = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run every test with every example (default: a quick part)")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Decides which tests run, in the controller; a worker is told by the environment."""
    if not is_worker(config):
        is_named = (
            config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword or config.option.markexpr
        )
        set_amount(Amount.all if config.option.all else Amount.named if is_named else Amount.default)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests by their directory, removes what does not run by default, and puts long files first."""
    for item in items:
        kind = item.path.relative_to(ROOT / "tests").parts[0]
        if kind in NOT_BY_DEFAULT:
            item.add_marker(kind)
    left_out: list[pytest.Item] = []
    if amount() is Amount.default:
        left_out = [item for item in items if reason_not_to_run(item)]
        items[:] = [item for item in items if not reason_not_to_run(item)]
        config.hook.pytest_deselected(items=left_out)
    not_run = dict(Counter(reason_not_to_run(item) for item in left_out))
    config.stash[NOT_RUN] = not_run
    if is_worker(config):
        config.workeroutput["not_run"] = not_run
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (-seconds_of(item.path), tests[item.path]))


def reason_not_to_run(item: pytest.Item) -> str:
    """Return the directory or the name of a test that does not run by default; empty for one that does."""
    if item.get_closest_marker("by_default"):
        return ""
    if item.get_closest_marker("slow"):
        return item.nodeid.split("[")[0]
    return next((f"tests/{kind}" for kind in NOT_BY_DEFAULT if item.get_closest_marker(kind)), "")


def pytest_testnodedown(node: Any) -> None:
    """Takes over from a worker what it did not run; all workers collect the same tests."""
    if "not_run" in getattr(node, "workeroutput", {}):
        node.config.stash[NOT_RUN] = node.workeroutput["not_run"]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Counts and names what did not run, and prints how to run it."""
    not_run = config.stash.get(NOT_RUN, {})
    if not_run:
        terminalreporter.section("not run by default")
        for what, count in sorted(not_run.items(), key=lambda row: (-row[1], row[0])):
            terminalreporter.write_line(f"{count:6,}  {what}")
        terminalreporter.write_line(
            f"{sum(not_run.values()):,} tests did not run, and random tests ran with fewer examples."
            " Run everything: python -m pytest --all; a part: python -m pytest tests/robustness"
        )


# -- what tests use


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Return the analytics engine of applications; tests/api runs with each engine there is."""
    return SqliteReports


@pytest.fixture
async def make_app(tmp_path: Path, clock: ManualClock, engine: Engine) -> AsyncIterator[MakeApp]:
    """Return a function that starts applications with given settings; close them after the test."""
    apps: list[App] = []

    async def make(engine: Engine = engine, **settings: Any) -> App:
        own = {"db": tmp_path / "analytics.db", "geoip_db": unpacked_countries()} | settings
        app = App(Settings(**own), clock, engine)
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
    """Return a function that runs the real command to its end, in an empty directory."""

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
    """Return a function that starts real servers; kill them after the test."""
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
