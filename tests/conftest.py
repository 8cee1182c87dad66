"""Fixtures of all tests: an application in this process, the real command, a real server; and which tests run.

`app` is the application in this process (tests/support/app.py), `serve` starts the command as a process of its own
(tests/support/process.py).
"""

import contextlib
import gc
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import reset_tzpath

import hypothesis
import pytest

from tally.columns import measurement_days
from tally.ingest.node import EngineFactory
from tally.settings import Settings
from tally.web.components import sqlite_engine
from tests.cluster.engine import PYTHON, clickhouse_engine
from tests.support.app import ROOT, App, MakeApp, ManualClock, unpacked_countries
from tests.support.process import Command, Serve, Server, accept_interrupts, clean_environment
from tests.support.selection import (
    Amount,
    amount,
    changed_paths,
    has_turn,
    is_touched,
    is_worker,
    seconds_of,
    set_amount,
)

# Examples have no deadline: the speed of the machine decides nothing. With a planted fault the failing example is not
# shrunk: only the failure is needed.
hypothesis.settings.register_profile(
    "unhurried",
    deadline=None,
    phases=set(hypothesis.Phase) - ({hypothesis.Phase.shrink} if "TALLY_FAULT" in os.environ else set()),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("unhurried")
# Zones come from the package tzdata, as in the product, whatever this machine has.
reset_tzpath(to=())


# -- which tests run

NOT_BY_DEFAULT = ("robustness", "browser", "slow")
REAL_PROCESS = {"command", "serve"}  # fixtures that start the command as a process
NOT_RUN = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run every test with every example (default: a quick part)")
    parser.addoption("--rest", action="store_true", help="run what the default run leaves out, with every example")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of workers: more than processors, since tests of processes and browsers often wait for them."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors + (2 if config.option.rest or config.option.all else 1)


# A file system in memory, and the space that all tests together need at most.
MEMORY, MEMORY_BYTES = Path("/dev/shm"), 4 << 30


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set which tests run and where their files are, in the controller; workers read it from the environment."""
    accept_interrupts()
    if not is_worker(config):
        if is_usable(MEMORY):
            # pytest's variable for the root of temporary directories, unless --basetemp names one.
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
        is_named = (
            config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword or config.option.markexpr
        )
        part = Amount.all if config.option.all else Amount.rest if config.option.rest else Amount.default
        set_amount(Amount.named if is_named and part is Amount.default else part)


def is_usable(memory: Path) -> bool:
    """Return whether a file system has space for the files of all tests, and programs may be run from it.

    Otherwise they are on the disk, and tests wait for it half of their time.
    """
    try:
        found = os.statvfs(memory)
    except OSError:
        return False
    return (
        os.access(memory, os.W_OK)
        and not found.f_flag & os.ST_NOEXEC
        and found.f_bavail * found.f_frsize >= MEMORY_BYTES
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import the modules of all tests in a worker, each worker beginning with another one.

    In a fresh clone pytest compiles all modules, which takes 10 s of a processor, and workers that import them in the
    same order compile the same ones at the same time. So each compiles a part, and reads what the others compiled.
    """
    gc.disable()  # until all modules and tests are loaded, which stay: collections would only search them
    config = session.config
    if not is_worker(config) or amount() is Amount.named:
        return
    modules = sorted((ROOT / "tests").rglob("test_*.py"))
    modules = [path for path in modules if "node_modules" not in path.parts]
    first = len(modules) * int(config.workerinput["workerid"].removeprefix("gw")) // config.workerinput["workercount"]
    for path in modules[first:] + modules[:first]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting reports it
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Exclude what is loaded from the collections of the tests, of which each full one would search it."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests by their directory, removes what does not run by default, and puts long files first."""
    for item in items:
        kind = item.path.relative_to(ROOT / "tests").parts[0]
        if kind in NOT_BY_DEFAULT:
            item.add_marker(kind)
    selected, deselected = list[pytest.Item](), list[pytest.Item]()
    changed = changed_paths()
    for item in items:
        (selected if is_selected(item, changed) else deselected).append(item)
    items[:] = selected
    config.hook.pytest_deselected(items=deselected)
    not_run = dict(Counter(map(reason_not_to_run, deselected))) if amount() is Amount.default else {}
    config.stash[NOT_RUN] = not_run
    if is_worker(config):
        config.workeroutput["not_run"] = not_run
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (-seconds_of(item.path), tests[item.path]))


def is_selected(item: pytest.Item, changed: Sequence[str]) -> bool:
    """Return whether a test is among those that this run is of."""
    runs_by_default = not reason_not_to_run(item)
    if amount() is Amount.default:
        return runs_by_default
    if amount() is not Amount.rest:
        return True
    has_examples = bool(item.get_closest_marker("random_examples"))
    if runs_by_default and not has_examples:
        return False
    file = item.path.relative_to(ROOT).as_posix()
    if is_touched(file, changed):
        return True
    if has_examples or item.get_closest_marker("in_turn"):
        return has_turn(item.nodeid)
    return not file.startswith(("tests/browser/", "tests/robustness/")) or has_turn(file, 2)


def reason_not_to_run(item: pytest.Item) -> str:
    """Return the directory or the name of a test that does not run by default; empty for one that does."""
    if item.get_closest_marker("by_default"):
        return ""
    if item.get_closest_marker("slow"):
        return item.nodeid.split("[")[0]
    if isinstance(item, pytest.Function) and REAL_PROCESS & set(item.fixturenames):
        return "tests of the command as a process"
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
            " Run these: python -m pytest --rest; everything: --all; a part: python -m pytest tests/robustness"
        )


# -- what tests use


@pytest.fixture(scope="session", autouse=True)
def _few_measurements_are_packed() -> Iterator[None]:
    """Pack days of any number of measurements, since tests have few of them; servers of their own process do not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurement_days, "MIN_EVENTS", 1)
        yield


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def engine() -> EngineFactory:
    """Return the analytics engine of applications: SQLite, or the one that .ci/clickhouse tests."""
    return clickhouse_engine if PYTHON else sqlite_engine


@pytest.fixture
async def make_app(tmp_path: Path, clock: ManualClock, engine: EngineFactory) -> AsyncIterator[MakeApp]:
    """Return a function that starts applications with given settings; close them after the test."""
    apps: list[App] = []

    async def make(engine: EngineFactory = engine, **settings: Any) -> App:
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
def open_folder() -> Iterator[Path]:
    """Return a directory that all users may enter; those of pytest are closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


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
