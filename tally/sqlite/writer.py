"""The transaction of a group of write requests: what is decided of them, and the rows that they become.

`EventWriter.write` either commits the whole group with fsync or changes nothing, neither in the file nor in memory
(sessions, labels, ids). Which events are stored is decided in tally/sqlite/decision.py, their rows are made in
tally/sqlite/rows.py.

Ids are reserved in the file in blocks, so that they grow over restarts without a write for each event. Another process
that writes reserves its ids after that block and uses them in the same transaction (tally/transfer/import_writer.py);
the server then leaves the rest of its block unused (`catch_up`), at the latest before it shows what was written. So at
every moment all ids up to the last one (`WriteResult.last_id`) are committed or will never be used.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tally.clock import Clock
from tally.engine.ingest import Outcomes, PreparedEvent, WriteRequest
from tally.events.sessions import Sessions
from tally.events.visits import Visit
from tally.sqlite import event_ids
from tally.sqlite.decision import Decider, Decision
from tally.sqlite.rows import Rows
from tally.storage import crawler_days
from tally.storage.database import transaction
from tally.storage.meta import ids_end
from tally.storage.value_limits import Limits

# A restart skips at most this many ids.
ID_BLOCK = 10_000


class WriteResult(NamedTuple):
    """A committed group: the outcomes by request, the events that are stored, as they are stored, the events that each
    (account, month) concerned has used, the last id, the visits it changed, as they are now, by (website, visitor,
    ordinal), the websites with `(other)` in place of new values, and what visits have more than UTC, by website."""

    outcomes: list[Outcomes]
    kept: Sequence[PreparedEvent]
    used: dict[tuple[int, int], int]
    last_id: int
    visits: dict[tuple[int, int, int], Visit]
    folded: set[int]
    offsets: Mapping[int, int]


class Outbox(Protocol):
    """What takes the stored events for another database, in the transaction that stores them."""

    def take(self, connection: sqlite3.Connection, decision: Decision, rows: Rows) -> None:
        """Store what a group has stored; its transaction may still fail."""

    def keep(self) -> None:
        """Keep what was taken last, whose transaction is committed."""


class EventWriter:
    """Writes groups of requests; holds visitors, labels and ids. Used by the writer's thread alone."""

    def __init__(
        self,
        sessions: Sessions,
        limit_of: Callable[[str], int | None],
        clock: Clock,
        value_limits: Limits = Limits(),  # noqa: B008 (immutable)
    ) -> None:
        self.decider = Decider(sessions, limit_of, clock, value_limits)
        self._next_id = self.ids_end = 0
        self.outbox: Outbox | None = None

    def start(self, connection: sqlite3.Connection) -> int:
        """Continue after the ids that the file has reserved; return the last of them."""
        self.decider.start(connection)
        self._next_id = self.ids_end = ids_end(connection)
        return self._next_id - 1

    def catch_up(self, connection: sqlite3.Connection) -> int | None:
        """Continue after the ids that another process has reserved; return the last, None where there are none."""
        end = ids_end(connection)
        if end == self.ids_end:
            return None
        self._next_id = self.ids_end = end
        return end - 1

    def write(self, connection: sqlite3.Connection, requests: Sequence[WriteRequest]) -> WriteResult:
        """Commit the requests. Raises sqlite3.Error; then nothing has changed."""
        ids = self._next_id, self.ids_end
        try:
            with transaction(connection):
                decision = self.decider.decide(connection, requests)
                rows = Rows(connection, self.decider, self.take_id, decision.kept, decision.offsets)
                decision.store(connection, rows.leaves)
                rows.store()
                crawls = [crawl for request in requests for crawl in request.crawls]
                if crawls:
                    crawler_days.add(connection, self.decider.labels, crawls)
                if self.outbox is not None:
                    self.outbox.take(connection, decision, rows)
        except BaseException:
            self.decider.undo()
            self._next_id, self.ids_end = ids
            raise
        self.decider.keep(decision)
        if self.outbox is not None:
            self.outbox.keep()
        last_id = self._next_id - 1
        return WriteResult(
            decision.outcomes, decision.kept, decision.used, last_id, rows.visits, decision.folded, decision.offsets
        )

    def take_id(self, connection: sqlite3.Connection) -> int:
        """Return the next id; ids grow with arrival."""
        if self._next_id == self.ids_end:
            connection.execute("/* writer.ids */ update meta set value = value + ? where name = 'next_id'", (ID_BLOCK,))
            self.ids_end = ids_end(connection)
            self._next_id = self.ids_end - ID_BLOCK
        self._next_id += 1
        return self._next_id - 1

    def chores(self, connection: sqlite3.Connection) -> None:
        """Delete expired identities, and some expired event_ids; call every second."""
        deletion_time_ms = self.decider.clock.deletion_time_ms()
        self.decider.sessions.keep(deletion_time_ms)
        event_ids.delete_expired(connection, deletion_time_ms)
