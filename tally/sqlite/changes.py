"""Which changes of stored events are known: of this process by website, of others by the ids that they have taken.

Ids are reserved in the file in blocks (tally/sqlite/writer.py). Another process that imports reserves its ids after the
server's block, so that its events are found by comparing the end of all ids.
"""

import asyncio
from collections.abc import Iterable

from tally.sqlite.writer import EventWriter
from tally.storage.node_database import NodeDatabase
from tally.storage.registry import Registry


class Changes:
    """Versions of the websites' data, and the newest id."""

    def __init__(self, database: NodeDatabase, registry: Registry, event_writer: EventWriter) -> None:
        self._database, self._registry, self._event_writer = database, registry, event_writer
        # The newest committed id, where the first page of events ends. Every lower one is committed or never used.
        self.last_id = 0
        # How often ids of other processes were found. Changes together with `last_id`.
        self.catch_ups = 0
        self._of_websites: dict[int, int] = {}
        self._following = asyncio.Lock()

    def note(self, website: int) -> None:
        """Record that the data of a website has changed."""
        self._of_websites[website] = self._of_websites.get(website, 0) + 1

    def committed(self, websites: Iterable[int], last_id: int) -> None:
        """Record a commit: the websites of its events, and the last id."""
        for website in websites:
            self.note(website)
        self.last_id = last_id

    def version_of(self, website: int) -> tuple[int, int]:
        """Return the website's change counter: another value after every change of its data."""
        return self._of_websites.get(website, 0), self._registry.changes_elsewhere

    async def catch_up(self, ids_end: int) -> bool:
        """Refresh where another process has taken ids up to `ids_end`; whether it had. Raises ApiError 503."""
        # The writer's thread has the ids before `last_id` does.
        async with self._following:
            if ids_end <= self._event_writer.ids_end:
                return False
        await self._registry.refresh()
        return True

    async def follow(self) -> None:
        """Continue after the ids that another process has taken."""
        async with self._following:
            last_id = await self._database.writer.run(self._event_writer.catch_up)
            if last_id is not None:
                # A group that was committed right afterwards may already have been published.
                self.last_id = max(self.last_id, last_id)
                self.catch_ups += 1
