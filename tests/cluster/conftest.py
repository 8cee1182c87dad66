"""What all tests of a cluster do."""

import pytest

from tally.cluster.joiner import Joiner
from tally.cluster.settler import Settler
from tally.cluster.unloader import Unloader


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, days are settled and unloaded, and websites are joined, where a test says so."""
    for worker in (Settler, Unloader, Joiner):
        monkeypatch.setattr(worker, "pause_s", 1 << 30)
