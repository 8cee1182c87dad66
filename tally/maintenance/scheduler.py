"""Round-robin scheduler of the background work.

Each source of work (tally/maintenance/rollup_builder.py, tally/maintenance/deletion_worker.py) lists its turns: one for
each kind of work and website. A round takes every turn once, in that order. A turn runs steps until one reports that
nothing is left or until TURN_S has passed; then the next turn runs. So no kind of work and no website can starve
another, however large its backlog is and however slow the disk: each waits at most for one round.

What sources guarantee:
- A step is bounded: one short transaction, or one day or block of days with the transactions it needs.
- After each step the database is consistent and no work is half done: between two steps any other step may run, for
  another website, of another kind, or after a restart.
- `turns` reads the clock once. Steps compare with that time, so a round ends even while events arrive: later work
  belongs to a later round.
- A source lists the websites that exist when its part of the round begins, so a deleted website has no turn.

A turn that fails is skipped for FAILED_PAUSE_S. If the cause concerns one turn only, such as an unreadable row of one
website, the round continues; a failure of the database file ends it.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from tally.errors import log, where_it_failed
from tally.storage.health import lies_in_the_file

# Long enough that looking at kinds and websites without work (0.2 ms each) costs little beside it, short enough that a
# deleted website and a due fold are reached within seconds.
TURN_S = 0.5
# A defect in one row does not go away by itself. Longer than the pause after a failed round
# (tally/ingest/node.py), so that the next round gets further.
FAILED_PAUSE_S = 60.0


class Turn(NamedTuple):
    """A kind of work for a website (0: for the whole file). `step` returns whether more is to be done now."""

    kind: str
    website: int
    step: Callable[[], Awaitable[bool]]


class Source(Protocol):
    """What lists turns."""

    async def turns(self) -> list[Turn]:
        """Return a turn for each kind of work and website there is."""


class Scheduler:
    """Takes turns. `failed` receives failures that end no round; without it every failure is raised."""

    def __init__(
        self,
        sources: Sequence[Source],
        failed: Callable[[Exception], None] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources, self._failed, self._now_s = sources, failed, now_s
        # By kind and website: until when it is passed over.
        self._paused: dict[tuple[str, int], float] = {}

    async def work(self) -> None:
        """Do all that is to be done now."""
        while await self.round():
            pass

    async def round(self) -> bool:
        """Take every turn once; return whether there is more to do."""
        has_more = False
        for source in self._sources:
            for turn in await source.turns():
                has_more |= await self._take(turn)
        return has_more

    async def _take(self, turn: Turn) -> bool:
        place, end_s = turn[:2], self._now_s() + TURN_S
        if self._paused.get(place, 0) > self._now_s():
            return False
        self._paused.pop(place, None)
        try:
            while await turn.step():
                if self._now_s() >= end_s:
                    return True
        except Exception as failure:
            # Also where the round ends: the next one is to get further.
            self._paused[place] = self._now_s() + FAILED_PAUSE_S
            if self._failed is None or lies_in_the_file(failure):
                raise
            self._failed(failure)
            log.error("background work failed (%s of website %d): %s", *place, where_it_failed(failure))
        return False
