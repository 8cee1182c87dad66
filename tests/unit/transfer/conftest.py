"""A website of a server that gets imports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.imports import Imports
from tests.support.read_api import sync_app_at


@pytest.fixture
def imports(tmp_path: Path) -> Iterator[Imports]:
    with sync_app_at(tmp_path / "analytics.db") as sync_app:
        yield Imports(sync_app, sync_app.site(), tmp_path)
