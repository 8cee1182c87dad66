"""Background work that deletes events: those of imports that are undone (tally/transfer/undo.py), and those that match
filters (tally/transfer/event_deletion.py); and the keys of access logs that nothing follows any more.

It is a source of turns (tally/maintenance/scheduler.py), one for each import, each deletion under way and each key. Its
transactions go through the builder, which waits while many events arrive and rests after each.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial

from tally.accounts.websites import secure_delete
from tally.clock import Clock
from tally.events.sessions import Sessions
from tally.maintenance.deletion_worker import Write
from tally.maintenance.scheduler import Turn
from tally.storage import deletion_records, import_records
from tally.storage.disk_space import UNKNOWN_SPACE, DiskSpace


class EventRemoval:
    """A source of turns. `sessions`: the visitors in memory, used on the writer's thread.

    `changed` is called with the website whose events were deleted, `deleted` at the end of an import or a deletion:
    what was deleted is then still in the log.

    `undo`: called for each import before the database's own steps, until it returns that nothing is left.

    On a disk with little space deletions by filter wait: they put the rows of days that have only columns back.
    """

    def __init__(
        self,
        write: Write,
        clock: Clock,
        sessions: Sessions | None,
        changed: Callable[[int], None],
        deleted: Callable[[], None],
        undo: Callable[[int, int], Awaitable[bool]] | None = None,
        space: Callable[[], DiskSpace] = lambda: UNKNOWN_SPACE,
    ) -> None:
        self._write, self._clock, self._sessions = write, clock, sessions
        self._changed, self._deleted, self._undo_first, self._space = changed, deleted, undo, space

    async def turns(self) -> list[Turn]:
        """Return a turn for each import that is being undone, each deletion that runs, and each key."""
        imports, deletions, keys = await self._write(_pending, self._clock.deletion_time_ms())
        return [
            *(Turn(f"undo of import {number}", one, partial(self._undo, one, number)) for one, number in imports),
            *(Turn(f"deletion {number}", one, partial(self._delete, one, number)) for one, number in deletions),
            *(Turn(f"key of import {number}", one, partial(self._delete_key, one, number)) for one, number in keys),
        ]

    async def _undo(self, website: int, number: int) -> bool:
        from tally.transfer import undo  # here: a server that starts does not need it

        is_left = self._undo_first is not None and await self._undo_first(website, number)
        return self._after(website, is_left or await self._write(undo.step, website, number))

    async def _delete(self, website: int, number: int) -> bool:
        from tally.transfer import event_deletion  # here: a server that starts does not need it

        if not self._space().allows_growth:
            return False
        now_ms = self._clock.wall_ms()
        return self._after(website, await self._write(event_deletion.step, website, number, now_ms, self._sessions))

    async def _delete_key(self, website: int, number: int) -> bool:
        await self._write(_overwrite_key, website, number)
        self._deleted()
        return False

    def _after(self, website: int, has_more: bool) -> bool:
        self._changed(website)
        if not has_more:
            self._deleted()
        return has_more


def _overwrite_key(connection: sqlite3.Connection, website: int, number: int) -> None:
    with secure_delete(connection):
        import_records.delete_key(connection, website, number)


def _pending(connection: sqlite3.Connection, now_ms: int) -> tuple[list[tuple[int, int]], ...]:
    keys = import_records.with_old_keys(connection, now_ms)
    return import_records.undoing(connection), deletion_records.running(connection), keys
