"""Background work that undoes imports (tally/transfer/undo.py).

It is a source of turns (tally/maintenance/scheduler.py), one for each import that is being undone. Its transactions go
through the builder, which waits while many events arrive and rests after each.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from tally.maintenance.deletion_worker import Write
from tally.maintenance.scheduler import Turn
from tally.storage import import_records


class ImportUndo:
    """A source of turns. `changed` is called with the website whose events were deleted, `deleted` at the end of an
    import: what was deleted is then still in the log.

    `undo`: called for each import before the database's own steps, until it returns that nothing is left.
    """

    def __init__(
        self,
        write: Write,
        changed: Callable[[int], None],
        deleted: Callable[[], None],
        undo: Callable[[int, int], Awaitable[bool]] | None = None,
    ) -> None:
        self._write, self._changed, self._deleted, self._undo = write, changed, deleted, undo

    async def turns(self) -> list[Turn]:
        """Return a turn for each import that is being undone."""
        pending = await self._write(import_records.undoing)
        return [
            Turn(f"undo of import {number}", website, partial(self._step, website, number))
            for website, number in pending
        ]

    async def _step(self, website: int, number: int) -> bool:
        from tally.transfer import undo  # here: a server that starts does not need it

        has_more: bool = self._undo is not None and await self._undo(website, number)
        has_more = has_more or await self._write(undo.step, website, number)
        self._changed(website)
        if not has_more:
            self._deleted()
        return has_more
