"""Fixtures of unit tests: a database with the real writer and rollup builder (tests/support/rollup_database.py)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.rollup_database import RollupHarness, make_file


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RollupHarness]:
    make_file(tmp_path / "analytics.db")
    harness = RollupHarness(tmp_path / "analytics.db")
    yield harness
    harness.close()
