"""Work beside the server that fails is logged, counted and done again: tally/cluster/worker.py."""

import asyncio

import pytest

from tally.clickhouse.client import NoAnswer
from tally.cluster.worker import PeriodicWorker
from tests.support.app import wait_until


class Failing(PeriodicWorker):
    """Fails twice, the second time by a bug."""

    pause_s = 0.01
    name, problem = "settling", "a day was not settled in ClickHouse"

    def __init__(self) -> None:
        self.rounds = 0
        super().__init__()

    async def work(self) -> bool:
        self.rounds += 1
        if self.rounds < 3:
            raise [NoAnswer("it is away"), ZeroDivisionError()][self.rounds - 1]
        return False


async def test_failures_are_logged_and_counted_and_do_not_end_the_work(caplog: pytest.LogCaptureFixture) -> None:
    worker = Failing()
    worker.start()
    await wait_until(lambda: worker.rounds > 4)
    await worker.stop()
    assert worker.failed == 2
    expected, bug = (record.getMessage() for record in caplog.records if record.name.startswith("tally"))
    assert expected == "a day was not settled in ClickHouse: it is away"
    assert bug.startswith("settling failed: ZeroDivisionError")
    rounds = worker.rounds
    await asyncio.sleep(0.05)
    assert worker.rounds == rounds
