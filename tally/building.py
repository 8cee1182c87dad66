"""The background work on rollups: folds what arrived, builds what is stale, adds days up, lets go what is over.

One step at a time, each a short transaction on the writer's thread or a look at a snapshot on a connection of its own,
with a rest after each that is as long as the step was; where many events arrive, it waits until fewer do. Killed at any
point, the file says what is right (`built`), and the rest is begun anew.

How a stale day becomes right while events still arrive in it: `_begin` holds the lock on writing, takes a snapshot on
the reading connection, empties the day's totals and lets go: what is committed from then on adds to empty rows. The day
is counted in the snapshot, however long that takes, and what was counted is added in one transaction, if nobody has
marked the day stale again meanwhile.

A day that is over for good gets its values field by field, with nothing held open meanwhile: only somebody who marks it
stale can still change it. An open one is folded from its beginning.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from tally import heat_days, moments, retention, rollups, visit_days, vital_days
from tally.clock import Clock
from tally.ranking import Counts
from tally.rollups import FINAL, OPEN, STALE, Day
from tally.schema import transaction
from tally.sessions import DAY_MS
from tally.threads import Thread

T = TypeVar("T")
P = ParamSpec("P")

# our choice: with 200 events a second the part of today that is not folded yet stays under 3,000 events.
PAUSE_S = 2.0
# our choice: while the writer is busy the work waits, but a minute at most between two steps.
_MOST_WAIT_S = 60.0
_WAIT_S = 0.25
# our choice: 5 to 10 seconds of packing heatmaps, before it is the next website's turn.
_PACKS = 250


class Builder:
    """Does the work there is. `is_busy` tells whether the writer has better things to do; `rest`: how long it rests
    after a step, in multiples of the step; `keep_days`: how long events are kept where a website does not say;
    `changed` is told of a website whose events were let go."""

    def __init__(
        self,
        writer: Thread,
        reader: Thread,
        clock: Clock,
        keep_days: int = 0,
        is_busy: Callable[[], bool] = lambda: False,
        rest: float = 1,
        changed: Callable[[int], None] = lambda website: None,
    ) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock
        self._keep_days, self._is_busy, self._rest, self._changed = keep_days, is_busy, rest, changed
        # Whether a website's blocks are to be looked at: at the beginning, and when a day has become final.
        self._look: dict[int, bool] = {}
        self._working = asyncio.Lock()

    async def work(self) -> None:
        """Does all that is to be done now. Two at it would build the same block twice: the second waits."""
        async with self._working:
            await self._work()

    async def _work(self) -> None:
        todo = await self._write(_todo)
        self._look = {website: self._look.get(website, True) for website in todo}
        for website, days in todo.items():
            for day, known in days:
                await self._day(website, day, known)
            if self._look[website]:
                await self._blocks(website)
                self._look[website] = False
            # First: what is let go cannot be added up any more.
            await self._histograms(website)
            await self._heatmaps(website)
            await self._let_go(website)

    async def _day(self, website: int, day: int, known: Day) -> None:
        if known.state == STALE:
            await self._build(website, day)
        while await self._write(_fold, website, day, self._clock.wall_ms()):
            pass
        if rollups.is_final(day, self._clock.sure_ms()) and known.state == OPEN:
            while await self._write(_close, website, day):
                pass
            self._look[website] = True

    async def _build(self, website: int, day: int) -> None:
        """Makes a stale day right."""
        while await self._write(rollups.drop_values, website, 0, day) or await self._write(
            rollups.drop_pairs, website, day
        ):
            pass
        state = FINAL if rollups.is_final(day, self._clock.sure_ms()) else OPEN
        try:
            version = await self._write(_begin, self._reader, website, day, state)
            totals = await self._reader.run(lambda connection: moments.counted(connection, website, day))
        finally:
            await self._reader.run(_forget_snapshot)
        if state == FINAL:
            for field in range(rollups.ALL + 1):
                await self._values(website, day, field)
        if await self._write(_end, website, day, version, state, totals):
            self._look[website] = True

    async def _values(self, website: int, day: int, field: int) -> None:
        """Writes a field's values of a day that is over."""
        rows = await self._reader.run(lambda connection: rollups.counted(connection, website, day, field))
        for start in range(0, len(rows), rollups.ROWS_A_STEP):
            part = rows[start : start + rollups.ROWS_A_STEP]
            await self._write(rollups.add_values, (website, field, 0, day), part)

    async def _block(self, website: int, level: int, block: int) -> None:
        """Adds the blocks below one up."""
        while await self._write(rollups.drop_values, website, level, block):
            pass
        for field in range(rollups.ALL + 1):
            after = -1
            while after < rollups.LAST_VALUE:
                after = await self._write(rollups.merge, website, field, level, block, after)
        await self._write(rollups.set_block, website, level, block)

    async def _blocks(self, website: int) -> None:
        """Build what can be built above the days."""
        while found := await self._write(rollups.next_block, website, self._clock.sure_ms()):
            await self._block(website, *found)
        while found := await self._write(visit_days.next_block, website, self._clock.sure_ms()):
            if not await self._pages(website, *found):
                break

    async def _pages(self, website: int, level: int, block: int) -> bool:
        """Counts the entry and exit pages of a block; False where a day changed meanwhile."""
        place = website, level, block
        while await self._write(visit_days.drop, *place):
            pass
        before = await self._write(visit_days.version, *place)
        without_view: list[int] = []
        for part in await self._reader.run(lambda connection: visit_days.parts_of(connection, *place)):
            # Many parts take minutes.
            if await self._write(visit_days.version, *place) != before:
                return False
            counts = await self._count_pages(place, part)
            without_view = counts.pop(0, without_view)
            rows = list(counts.items())
            for start in range(0, len(rows), rollups.ROWS_A_STEP):
                await self._write(visit_days.add, place, rows[start : start + rollups.ROWS_A_STEP])
        return await self._write(visit_days.end, place, before, without_view)

    async def _count_pages(self, place: tuple[int, int, int], part: visit_days.Part) -> Counts:
        return await self._reader.run(lambda connection: visit_days.of_block(connection, *place, part))

    async def _let_go(self, website: int) -> None:
        """Takes away what is over. A day's pages are counted as long as its events are there."""
        while True:
            day = await self._write(retention.next_day, website, self._keep_days, self._clock.sure_ms())
            if day is not None and not await self._pages(website, 0, day):
                return
            if not await self._write(retention.let_go, website, self._keep_days, self._clock.sure_ms()):
                return
            self._changed(website)

    async def _histograms(self, website: int) -> None:
        """Build the histogram blocks that are ready."""
        while found := await self._write(vital_days.next_block, website, self._clock.wall_ms()):
            await self._write(vital_days.begin_block, website, *found)
            for cut in (vital_days.DEVICE, vital_days.PATHNAME):
                after: int | None = -1
                while after is not None:
                    after = await self._write(vital_days.merge, website, cut, *found, after)
            await self._write(vital_days.end_block, website, *found)

    async def _heatmaps(self, website: int) -> None:
        """Packs points: in some steps, so that a website which is sent very many does not hold up the others."""
        end = await self._write(heat_days.due, website, self._clock.wall_ms() // DAY_MS)
        if end is None:
            return
        for _ in range(_PACKS):
            if not await self._write(heat_days.pack, website, end):
                break

    async def _write(
        self, step: Callable[Concatenate[sqlite3.Connection, P], T], *what: P.args, **named: P.kwargs
    ) -> T:
        """Does a step in a transaction of its own, when there is time for it, and rests."""
        waited_s = 0.0
        while self._is_busy() and waited_s < _MOST_WAIT_S:
            await asyncio.sleep(_WAIT_S)
            waited_s += _WAIT_S

        def run(connection: sqlite3.Connection) -> tuple[T, float]:
            begun = time.perf_counter()
            with transaction(connection):
                result = step(connection, *what, **named)
            return result, time.perf_counter() - begun

        result, took_s = await self._writer.run(run)
        await asyncio.sleep(took_s * self._rest)
        return result

    write = _write


def _todo(connection: sqlite3.Connection) -> dict[int, list[tuple[int, Day]]]:
    """The days of each website that are stale or open."""
    websites = connection.execute("/* building.websites */ select number from website order by number").fetchall()
    return {website: rollups.unfinished(connection, website) for (website,) in websites}


def _fold(connection: sqlite3.Connection, website: int, day: int, now_ms: int) -> bool:
    """Folds a step's worth of an open day; whether there may be more."""
    known = rollups.state(connection, website, day)
    if known is None or known.state != OPEN:
        return False
    end_ms = rollups.fold_end(connection, website, day, known.folded_ms, now_ms)
    if end_ms == known.folded_ms:
        return False
    rollups.fold(connection, website, day, known.folded_ms, end_ms)
    return True


def _close(connection: sqlite3.Connection, website: int, day: int) -> bool:
    """A step towards making an open day final; whether there is more to do."""
    known = rollups.state(connection, website, day)
    if known is None or known.state != OPEN or known.folded_ms < (day + 1) * DAY_MS:
        return False
    if rollups.drop_pairs(connection, website, day):
        return True
    rollups.finish_day(connection, website, day)
    return False


def _begin(connection: sqlite3.Connection, reader: Thread, website: int, day: int, state: int) -> int:
    """Takes the snapshot in which a stale day is counted; the version that the day has in it."""
    # The lock on writing is held: the snapshot is the last commit, and no other comes between it and the emptying.
    reader.begin_snapshot()
    moments.clear(connection, website, day)
    # Up to which moment the values will be counted: an event before it that comes meanwhile marks the day stale again.
    connection.execute(
        "/* building.begin */ update built set folded_ms = ?"
        " where website = ? and level = 0 and block = ? and state = 0",
        ((day + (state == FINAL)) * DAY_MS, website, day),
    )
    known = rollups.state(connection, website, day)
    return -1 if known is None else known.version


def _forget_snapshot(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("rollback")


def _end(
    connection: sqlite3.Connection, website: int, day: int, version: int, state: int, totals: moments.Totals
) -> bool:
    """Calls the day right; False where it has been marked stale again."""
    if not rollups.set_day(connection, website, day, version, state):
        return False
    moments.add(connection, moments.rows_of(website, totals))
    return True
