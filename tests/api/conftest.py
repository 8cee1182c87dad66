"""Every test of the API runs with each analytics engine (tally/reports/engine.py)."""

import pytest

from tally.ingest.sqlite_reports import SqliteReports
from tally.web.components import Engine

ENGINES: dict[str, Engine] = {"sqlite": SqliteReports}


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]
