"""Fixtures of the API's tests, which run with each analytics engine (tally/engine/reports.py)."""

from collections.abc import Iterator

import pytest

from tally.accounts import passwords
from tally.ingest.node import EngineFactory
from tally.web.components import sqlite_engine
from tests.cluster.engine import PYTHON, clickhouse_engine
from tests.support.read_api import SyncApp, sync_app_at

ENGINES: dict[str, EngineFactory] = {"clickhouse": clickhouse_engine} if PYTHON else {"sqlite": sqlite_engine}
"""The engine that is tested; .ci/clickhouse runs a part of these tests with another one."""


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> EngineFactory:
    return ENGINES[request.param]


@pytest.fixture(scope="module")
def sync_app(tmp_path_factory: pytest.TempPathFactory, engine: EngineFactory) -> Iterator[SyncApp]:
    """Return one application for all tests of a module."""
    with sync_app_at(tmp_path_factory.mktemp("api") / "analytics.db", engine) as opened:
        yield opened


@pytest.fixture(scope="module", autouse=True)
def quick_passwords(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hash passwords in 1 ms in place of 20, except in the tests of logging in."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.path.name.startswith("test_login"):
            patch.setattr(passwords, "MEMORY_KIB", 64)
            patch.setattr(passwords, "PASSES", 1)
        passwords._hasher.cache_clear()
        yield
    passwords._hasher.cache_clear()
