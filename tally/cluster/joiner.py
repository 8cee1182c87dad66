"""Has websites copied to ClickHouse that have no complete copy there: after an import, an undo or a deletion, after a
time in which ClickHouse was away for too long, and those that were never joined.

The command `cluster join` does it, in a process of its own: reading all events would delay requests. It waits until
nothing has changed for a while, the longer the longer the last copy has taken.
"""

import asyncio
import os
import sqlite3

from tally.accounts.websites import all_websites, has_data
from tally.clock import Clock
from tally.cluster import join
from tally.cluster.shipper import Shipper
from tally.cluster.worker import FAILURES, PeriodicWorker
from tally.resources import program
from tally.settings import Settings
from tally.storage import cluster_tables
from tally.storage.file_lock import InUse
from tally.storage.node_database import NodeDatabase

QUIET_S = 60.0
_TIMES_AS_LONG = 10


class NotJoined(Exception):
    """The command has failed; the message is its last line."""


class Joiner(PeriodicWorker):
    """Joins the websites of a server. Used by the event loop alone."""

    name, problem = "joining", "no website was copied to ClickHouse"
    failures = (*FAILURES, NotJoined)

    def __init__(self, shipper: Shipper, database: NodeDatabase, settings: Settings, clock: Clock) -> None:
        self._shipper, self._database, self._settings, self._clock = shipper, database, settings, clock
        # By website: its changes, and since when they are as many; how long its last copy took.
        self._quiet: dict[str, tuple[int, int]] = {}
        self._took_s: dict[str, float] = {}
        super().__init__()

    async def work(self) -> bool:
        """Copy a website that has had no change for long enough; return whether there was one.

        Raises NotJoined, BadDatabase, sqlite3.Error.
        """
        if self._shipper.problem:
            return False
        now_ns = self._clock.monotonic_ns()
        for website, changes in await self._database.read(_incomplete):
            before, since_ns = self._quiet.get(website, (-1, 0))
            if changes != before:
                self._quiet[website] = changes, now_ns
            elif (now_ns - since_ns) / 1e9 >= max(QUIET_S, _TIMES_AS_LONG * self._took_s.get(website, 0)):
                try:
                    os.close(join.lock(self._settings))
                except InUse:
                    # A command copies websites.
                    return False
                try:
                    await self._join(website)
                finally:
                    # After a failure, too, it waits again.
                    self._took_s[website] = (self._clock.monotonic_ns() - now_ns) / 1e9
                    del self._quiet[website]
                return True
        return False

    async def _join(self, website: str) -> None:
        start, directory = program()
        process = await asyncio.create_subprocess_exec(
            *(*start, "cluster", "join", website, "--db", str(self._settings.db)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            # Not as options, which other users of the machine can read: URLs have passwords.
            env=os.environ
            | {"PYTHONPATH": str(directory), "ANALYTICS_CLICKHOUSE": ",".join(self._settings.clickhouse)}
            | {"ANALYTICS_CLUSTER_NAME": self._settings.cluster_name},
        )
        try:
            _, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        if process.returncode:
            raise NotJoined((errors.decode(errors="replace").strip().splitlines() or [""])[-1])


def _incomplete(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """Return (id, number of changes) of the websites with data that have no complete copy, and do not change now."""
    websites = []
    for website in all_websites(connection):
        number = website.number
        copy = cluster_tables.copy_of(connection, number)
        is_complete = copy is not None and copy.is_complete
        if not is_complete and has_data(connection, number) and not cluster_tables.is_changing(connection, number):
            websites.append((website.id, copy.changes if copy is not None else 0))
    return websites
